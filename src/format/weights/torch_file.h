/* SPDX-License-Identifier: Apache-2.0 */
/* torch_file.h: the tensors of files that torch.save() writes. */
#ifndef FLXI_TORCH_FILE_H
#define FLXI_TORCH_FILE_H

#include "format/keys.h"

/* Whether a zip archive is one of PyTorch: it has a pickle. */
flx_code flxi_torch_is(const flxi_allocator *mem, const flxi_source *s, bool *is, flx_error *err);

/* Names of nested dicts and lists are joined by dots: {"model": {"w": tensor}, "steps": [tensor]} has the keys
   `model.w` and `steps.0`. A file that is one tensor has the key `tensor`. */
flx_code flxi_torch_keys(flx_context *ctx, const flxi_source *s, flx_keys *out, flx_error *err);
flx_tensor *flxi_torch_load(flx_context *ctx, const flxi_source *s, const char *key, flx_error *err);

#endif
