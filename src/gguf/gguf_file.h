/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_file.h: an open GGUF file. Its bytes are memory, mapped or the caller's; keys, values and tensors are positions
   in them. A file that was split has one image for each part. Every position was checked when the file was read, so
   nothing that uses them later can leave the memory. */
#ifndef FLXI_GGUF_FILE_H
#define FLXI_GGUF_FILE_H

#include "base/context.h"
#include "base/error.h"
#include "gguf/gguf_types.h"

#include <fluxion/gguf.h>

enum { FLXI_GGUF_MAX_RANK = 8, FLXI_GGUF_MAX_PARTS = 1000 };

/* Bytes of a file. Tensors hold the image, so that it outlives the file that it was read by. */
typedef struct {
    const flxi_allocator *mem;
    atomic_uint holds;
    const unsigned char *bytes;
    size_t size;
    bool is_mapped;
    char name[120]; /* for messages, control bytes replaced, truncated at its beginning */
} flxi_gguf_image;

/* A mapped file. */
flxi_gguf_image *flxi_gguf_map(flx_context *ctx, const char *path, flx_error *err);
/* Memory of the caller. */
flxi_gguf_image *flxi_gguf_borrow(flx_context *ctx, const void *bytes, size_t size, const char *name, flx_error *err);
flxi_gguf_image *flxi_gguf_hold(flxi_gguf_image *m);
void flxi_gguf_drop(flxi_gguf_image *m); /* NULL is fine */

typedef struct {
    const char *key; /* ends with a 0 */
    int32_t kind, element;
    uint64_t count;
    const unsigned char *at; /* the first element */
} flxi_gguf_value;

typedef struct {
    const char *name; /* ends with a 0 */
    const flxi_gguf_type *type;
    int rank;
    int64_t dims[FLXI_GGUF_MAX_RANK]; /* rows first */
    uint64_t offset, nbytes;          /* in its image */
    uint32_t part;
} flxi_gguf_entry;

/* A name and what has it: lists of these are sorted by name. */
typedef struct {
    const char *name;
    uint32_t at;
} flxi_gguf_name;

struct flx_gguf {
    flx_context *ctx;
    flxi_arena arena; /* names */
    FLXI_VEC(flxi_gguf_image *) images;
    FLXI_VEC(flxi_gguf_value) values;
    FLXI_VEC(flxi_gguf_entry) tensors;
    flxi_gguf_name *keys, *names; /* of the values and of the tensors; in the arena */
};

/* Reads one image: its values are added where `with_values`, its tensors always. */
flx_code flxi_gguf_read_image(flx_gguf *f, uint32_t part, bool with_values, flx_error *err);

/* Strings of an array one after the other: *at begins as value.at. The string is within the file. */
const char *flxi_gguf_next_string(const unsigned char **at, size_t *size);

/* ---- Values by key ---- */

/* The value of a key, NULL when there is none. */
const flxi_gguf_value *flxi_gguf_get(const flx_gguf *f, const char *key);
/* Element i of a value as a number; `none` when it is not a number or out of range. */
double flxi_gguf_element(const flxi_gguf_value *v, uint64_t i, double none);

#endif
