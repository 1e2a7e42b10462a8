/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h: all of a .safetensors file, its text included: what checkpoints need in addition to the public
   functions. */
#ifndef FLXI_SAFETENSORS_H
#define FLXI_SAFETENSORS_H

#include "format/array.h"

/* ---- Reading ---- */

/* Called for each tensor and each pair of `__metadata__`, in the order of the file. Names and texts end with a 0 and
   may have others inside; they are valid for the call. `at` is the offset in the file of the value, as it is written.
   */
typedef struct {
    void *user;
    flx_code (*tensor)(void *user, const char *name, size_t size, const flxi_array *a, flx_error *err);
    flx_code (*pair)(void *user, const char *key, size_t key_size, const char *value, size_t value_size, uint64_t at,
                     flx_error *err);
} flxi_safetensors_visitor;

flx_code flxi_safetensors_walk(flx_context *ctx, const flxi_source *s, const flxi_safetensors_visitor *v,
                               flx_error *err);

/* ---- Writing ---- */

typedef struct {
    const char *key, *value;
} flxi_text_pair;

typedef struct {
    const char *const *keys; /* of the tensors, none twice */
    const flx_tensor *const *tensors;
    size_t count;
    const flxi_text_pair *pairs; /* of `__metadata__` */
    size_t num_pairs;
} flxi_safetensors_content;

/* Everything before the data: the length of the header, then the header. */
flx_code flxi_safetensors_header(flxi_strbuf *b, const flxi_safetensors_content *c, flx_error *err);

/* The elements of a tensor as the file has them, to `take`. */
typedef flx_code (*flxi_take_bytes)(void *user, const void *bytes, size_t size, flx_error *err);
flx_code flxi_safetensors_elements(const flx_tensor *t, flxi_take_bytes take, void *user, flx_error *err);

/* Writes the file: the header as it was made, then the data. */
flx_code flxi_safetensors_save(const char *path, const flxi_strbuf *header, const flxi_safetensors_content *c,
                               flx_error *err);

#endif
