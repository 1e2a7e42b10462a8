/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h: files of named tensors, whatever their form is. */
#ifndef FLXI_WEIGHTS_H
#define FLXI_WEIGHTS_H

#include "format/file.h"

#include <fluxion/tensor.h>

/* All keys of a source, in its order. */
flx_code flxi_weights_keys(flx_context *ctx, const flxi_source *s, flx_keys *out, flx_error *err);

/* ---- The index of a .safetensors file in parts ---- */

flx_code flxi_shard_keys(flx_context *ctx, const flxi_source *s, flx_keys *out, flx_error *err);
/* `path` is that of the index; NULL where it is in memory, whose parts cannot be read. */
flx_tensor *flxi_shard_load(flx_context *ctx, const flxi_source *s, const char *path, const char *key, flx_error *err);

#endif
