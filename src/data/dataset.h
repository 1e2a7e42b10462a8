/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.h: the columns of datasets, and gathering rows from them. */
#ifndef FLXI_DATASET_H
#define FLXI_DATASET_H

#include "base/context.h"
#include "base/error.h"

#include <fluxion/data.h>

/* Row i of a column begins at byte `first + i * stride` of `base`: whole tensors, slices and overlapping windows are
   the same to the code that gathers. */
typedef struct {
    const char *name;
    flx_type type;    /* as batches have it; dims[0] is the number of rows */
    flx_tensor *base; /* held; NULL: rows are made by `make` */
    int32_t stored;   /* the dtype in base, or of what `make` writes */
    size_t first, stride;
    int64_t row_count; /* elements of a row */
    bool is_converted; /* elements are given as (type.dtype)(element * scale + offset) */
    double scale, offset;
    flx_row_fn make;
    void *user;
    int64_t first_row;    /* for `make` */
    const int64_t *order; /* row i is row order[i] of these; NULL: row i. Owned by the arena of the dataset */
} flxi_column;

struct flx_dataset {
    flx_context *ctx;
    const flxi_allocator *mem;
    flxi_arena arena; /* names */
    FLXI_VEC(flxi_column) columns;
    int64_t rows;
    FLXI_VEC(const char *) classes;
    FLXI_VEC(const char *) features; /* names of the columns of a table that are one column here */
};

/* Adds the name of a feature. */
flx_code flxi_dataset_add_feature(flx_dataset *d, const char *name, flx_error *err);

/* Which row of what a column is stored as is its row i. */
static inline int64_t flxi_column_row(const flxi_column *c, int64_t i)
{
    return c->order ? c->order[i] : i;
}

size_t flxi_column_row_bytes(const flxi_column *c);

/* Writes the rows that are listed to `out`, one after the other, as batches have them. `scratch` has room for one row
   as stored; only columns that are made and converted use it. Polls the stop of the thread, which the caller checks. */
flx_code flxi_column_gather(const flxi_column *c, const int64_t *rows, int64_t count, void *out, void *scratch,
                            flx_error *err);
/* Bytes of that scratch memory, 0 for none. */
size_t flxi_column_scratch(const flxi_column *c);

/* Appends a class; the text is copied. */
flx_code flxi_dataset_add_class(flx_dataset *d, const char *name, size_t size, flx_error *err);

/* Adds a new tensor, which the dataset holds from now on, or releases it if that fails. NULL fails with the code in
   err: for `flxi_dataset_own(d, "x", flx_tensor_new(…), err)`. */
flx_code flxi_dataset_own(flx_dataset *d, const char *name, flx_tensor *column, flx_error *err);

/* `d` if the code is FLX_OK; otherwise frees it and returns NULL. */
flx_dataset *flxi_dataset_if(flx_dataset *d, flx_code code);

#endif
