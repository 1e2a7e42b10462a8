/* SPDX-License-Identifier: Apache-2.0 */
/* keys.h: the list of keys that the readers of archives fill. */
#ifndef FLXI_KEYS_H
#define FLXI_KEYS_H

#include "format/file.h"

#include <fluxion/tensor.h>

flx_code flxi_keys_add(flx_keys *k, const char *name, size_t size, flx_error *err);
/* Room for one more key of `size` bytes and its 0, which the caller writes; NULL when memory is exhausted. */
char *flxi_keys_room(flx_keys *k, size_t size, flx_error *err);

/* All keys of a source, in its order. */
flx_code flxi_npz_keys(flx_context *ctx, const flxi_source *s, flx_keys *out, flx_error *err);
flx_code flxi_safetensors_keys(flx_context *ctx, const flxi_source *s, flx_keys *out, flx_error *err);

/* One tensor of a source. */
flx_tensor *flxi_npz_load(flx_context *ctx, const flxi_source *s, const char *key, flx_error *err);
flx_tensor *flxi_safetensors_load(flx_context *ctx, const flxi_source *s, const char *key, flx_error *err);

#endif
