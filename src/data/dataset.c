/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c: datasets: columns, slices and windows. */
#include "data/dataset.h"

#include "data/permutation.h"
#include "graph/type/tensor.h"

#include <math.h>

flx_dataset *flx_dataset_new(flx_context *ctx, flx_error *err)
{
    if (!ctx) {
        flxi_fail(err, FLX_E_USAGE, "flx_dataset_new: the context must be given");
        return NULL;
    }
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flx_dataset *d = flxi_alloc(mem, 1, sizeof *d);
    if (!d) {
        flxi_oom(err, "a dataset");
        return NULL;
    }
    d->ctx = ctx;
    d->mem = mem;
    flxi_arena_init(&d->arena, mem);
    return d;
}

void flx_dataset_free(flx_dataset *d)
{
    if (!d)
        return;
    const flxi_allocator *mem = d->mem;
    for (size_t i = 0; i < d->columns.n; i++)
        flx_tensor_release(d->columns.at[i].base);
    flxi_vec_free(mem, &d->columns);
    flxi_vec_free(mem, &d->classes);
    flxi_vec_free(mem, &d->features);
    flxi_arena_free(&d->arena);
    flxi_free(mem, d, 1, sizeof *d);
}

flx_dataset *flxi_dataset_if(flx_dataset *d, flx_code code)
{
    if (code == FLX_OK)
        return d;
    flx_dataset_free(d);
    return NULL;
}

/* ---- Columns ---- */

static flxi_column *find(const flx_dataset *d, const char *name)
{
    for (size_t i = 0; i < d->columns.n; i++)
        if (strcmp(d->columns.at[i].name, name) == 0)
            return &d->columns.at[i];
    return NULL;
}

static flxi_column *find_or_fail(const flx_dataset *d, const char *name, flx_error *err)
{
    flxi_column *c = find(d, name);
    if (!c) {
        char shown[64];
        flxi_printable(shown, sizeof shown, name, strlen(name));
        flxi_fail(err, FLX_E_NAME, "the dataset has no column '%s'", shown);
        if (d->columns.n)
            flxi_hint(err, "it has %zu, the first is '%.60s'", d->columns.n, d->columns.at[0].name);
    }
    return c;
}

/* Appends a column; its base is held from now on. */
static flx_code append(flx_dataset *d, const char *name, flxi_column c, flx_error *err)
{
    char shown[64];
    flxi_printable(shown, sizeof shown, name, strlen(name));
    if (name[0] == 0)
        return flxi_fail(err, FLX_E_NAME, "a column must have a name");
    if (find(d, name))
        return flxi_fail(err, FLX_E_DUP_NAME, "the dataset has a column '%s' already", shown);
    if (d->columns.n && c.type.dims[0] != d->rows)
        return flxi_fail(err, FLX_E_SHAPE, "column '%s' has %lld rows, but column '%.60s' has %lld", shown,
                         (long long)c.type.dims[0], d->columns.at[0].name, (long long)d->rows);
    c.name = flxi_arena_text(&d->arena, name, strlen(name));
    if (!c.name || !flxi_push(d->mem, &d->columns, c))
        return flxi_oom(err, "a column of a dataset");
    d->rows = c.type.dims[0];
    if (c.base)
        flx_tensor_retain(c.base);
    return FLX_OK;
}

flx_code flx_dataset_add(flx_dataset *d, const char *name, flx_tensor *column, flx_error *err)
{
    if (!d || !name || !column)
        return flxi_fail(err, FLX_E_USAGE, "flx_dataset_add: dataset, name and tensor must not be NULL");
    if (column->type.rank == 0)
        return flxi_fail(err, FLX_E_SHAPE, "column '%.60s' is a scalar: axis 0 of a column has the rows", name);
    int64_t count = flxi_static_extent(&column->type, 1, column->type.rank);
    flxi_column c = {.type = column->type, .base = column, .stored = column->type.dtype, .row_count = count};
    c.stride = (size_t)count * flx_dtype_size(c.stored);
    return append(d, name, c, err);
}

flx_code flxi_dataset_own(flx_dataset *d, const char *name, flx_tensor *column, flx_error *err)
{
    if (!column)
        return err ? (flx_code)err->code : FLX_E_OOM;
    flx_code code = flx_dataset_add(d, name, column, err);
    flx_tensor_release(column);
    return code;
}

/* A row's type with an axis of rows before it. */
static flx_code with_rows(flx_context *ctx, const flx_type *row, int64_t rows, flx_type *out, flx_error *err)
{
    FLXI_TRY(flxi_type_check(ctx, row, err));
    flxi_type_text text;
    if (!flxi_type_is_static(row))
        return flxi_fail(err, FLX_E_UNBOUND_DIM, "the rows of a dataset need numbers for their dimensions, not %s",
                         flxi_type_str(ctx, row, &text));
    if (row->rank >= FLX_MAX_RANK)
        return flxi_fail(err, FLX_E_SHAPE, "a row has %d dimensions, the limit is %d", (int)row->rank,
                         FLX_MAX_RANK - 1);
    *out = (flx_type){.dtype = row->dtype, .rank = row->rank + 1};
    out->dims[0] = rows;
    for (int i = 0; i < row->rank; i++)
        out->dims[i + 1] = row->dims[i];
    return FLX_OK;
}

flx_code flx_dataset_add_rows(flx_dataset *d, const char *name, const flx_type *row, int64_t rows, flx_row_fn make,
                              void *user, flx_error *err)
{
    if (!d || !name || !row || !make)
        return flxi_fail(err, FLX_E_USAGE, "flx_dataset_add_rows: dataset, name, type and function must not be NULL");
    if (rows < 0)
        return flxi_fail(err, FLX_E_USAGE, "flx_dataset_add_rows: the number of rows is %lld", (long long)rows);
    flxi_column c = {.stored = row->dtype, .make = make, .user = user};
    FLXI_TRY(with_rows(d->ctx, row, rows, &c.type, err));
    if (!flxi_static_count(row, &c.row_count))
        return flxi_fail(err, FLX_E_SIZE, "a row has too many elements");
    return append(d, name, c, err);
}

/* ---- Conversions ---- */

static int bits_of(int32_t dtype)
{
    return dtype == FLX_BOOL ? 1 : (int)flx_dtype_size(dtype) * 8;
}

static bool is_signed(int32_t dtype)
{
    return dtype == FLX_I8 || dtype == FLX_I16 || dtype == FLX_I32 || dtype == FLX_I64;
}

static bool is_integer(int32_t dtype)
{
    return is_signed(dtype) || dtype == FLX_BOOL || dtype == FLX_U8 || dtype == FLX_U16 || dtype == FLX_U32 ||
           dtype == FLX_U64;
}

/* Whether the integers of one dtype are all in another, i32 or i64. */
static bool fits(int32_t from, flx_dtype to)
{
    return is_integer(from) && bits_of(from) <= bits_of(to) - !is_signed(from);
}

flx_code flx_dataset_convert(flx_dataset *d, const char *name, flx_dtype to, double scale, double offset,
                             flx_error *err)
{
    if (!d || !name)
        return flxi_fail(err, FLX_E_USAGE, "flx_dataset_convert: dataset and name must not be NULL");
    flxi_column *c = find_or_fail(d, name, err);
    if (!c)
        return FLX_E_NAME;
    scale = scale == 0 ? 1 : scale;
    if (!isfinite(scale) || !isfinite(offset))
        return flxi_fail(err, FLX_E_USAGE, "flx_dataset_convert: scale and offset must be finite");
    bool is_float = (to == FLX_F32 || to == FLX_F64) && c->stored != FLX_C64 && c->stored != FLX_C128;
    bool is_exact = (to == FLX_I32 || to == FLX_I64) && fits(c->stored, to) && scale == 1 && offset == 0;
    if (!is_float && !is_exact)
        return flxi_fail_hint(err, FLX_E_DTYPE, "to f32 or f64, or to i32 or i64 from smaller integers, scale 1",
                              "column '%.60s' is %s, which cannot be given as %s", c->name, flx_dtype_name(c->stored),
                              flx_dtype_name(to));
    flx_type type = c->type;
    int64_t count;
    type.dtype = to;
    if (!flxi_static_count(&type, &count))
        return flxi_fail(err, FLX_E_SIZE, "column '%.60s' would have too many bytes", c->name);
    c->type = type;
    c->is_converted = (int32_t)to != c->stored || scale != 1 || offset != 0;
    c->scale = scale;
    c->offset = offset;
    return FLX_OK;
}

flx_code flx_dataset_remove(flx_dataset *d, const char *name, flx_error *err)
{
    if (!d || !name)
        return flxi_fail(err, FLX_E_USAGE, "flx_dataset_remove: dataset and name must not be NULL");
    flxi_column *c = find_or_fail(d, name, err);
    if (!c)
        return FLX_E_NAME;
    flx_tensor_release(c->base);
    size_t at = (size_t)(c - d->columns.at);
    memmove(c, c + 1, (--d->columns.n - at) * sizeof *c);
    return FLX_OK;
}

/* ---- What it has ---- */

int64_t flx_dataset_rows(const flx_dataset *d)
{
    return d ? d->rows : 0;
}

size_t flx_dataset_columns(const flx_dataset *d)
{
    return d ? d->columns.n : 0;
}

const char *flx_dataset_name(const flx_dataset *d, size_t i)
{
    return i < flx_dataset_columns(d) ? d->columns.at[i].name : NULL;
}

const flx_type *flx_dataset_type(const flx_dataset *d, size_t i)
{
    return i < flx_dataset_columns(d) ? &d->columns.at[i].type : NULL;
}

size_t flx_dataset_classes(const flx_dataset *d)
{
    return d ? d->classes.n : 0;
}

const char *flx_dataset_class(const flx_dataset *d, size_t i)
{
    return i < flx_dataset_classes(d) ? d->classes.at[i] : NULL;
}

size_t flx_dataset_features(const flx_dataset *d)
{
    return d ? d->features.n : 0;
}

const char *flx_dataset_feature(const flx_dataset *d, size_t i)
{
    return i < flx_dataset_features(d) ? d->features.at[i] : NULL;
}

flx_code flxi_dataset_add_feature(flx_dataset *d, const char *name, flx_error *err)
{
    const char *copy = flxi_arena_text(&d->arena, name, strlen(name));
    return copy && flxi_push(d->mem, &d->features, copy) ? FLX_OK : flxi_oom(err, "the features of a dataset");
}

flx_code flxi_dataset_add_class(flx_dataset *d, const char *name, size_t size, flx_error *err)
{
    const char *copy = flxi_arena_text(&d->arena, name, size);
    return copy && flxi_push(d->mem, &d->classes, copy) ? FLX_OK : flxi_oom(err, "the classes of a dataset");
}

flx_tensor *flx_dataset_gather(const flx_dataset *d, const char *name, const int64_t *rows, size_t count,
                               flx_error *err)
{
    if (!d || !name || (count && !rows) || count > INT64_MAX) {
        flxi_fail(err, FLX_E_USAGE, "flx_dataset_gather: dataset, name and rows must not be NULL");
        return NULL;
    }
    const flxi_column *c = find_or_fail(d, name, err);
    if (!c)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (rows[i] < 0 || rows[i] >= d->rows) {
            flxi_fail(err, FLX_E_INDEX, "row %lld is out of range for a dataset of %lld rows", (long long)rows[i],
                      (long long)d->rows);
            return NULL;
        }
    flx_type type = c->type;
    type.dims[0] = (int64_t)count;
    flx_tensor *t = flx_tensor_new(d->ctx, &type, NULL, err);
    if (!t)
        return NULL;
    size_t room = flxi_column_scratch(c);
    void *scratch = flxi_alloc(d->mem, room, 1);
    flx_code code =
        scratch ? flxi_column_gather(c, rows, (int64_t)count, t->data, scratch, err) : flxi_oom(err, "a row");
    flxi_free(d->mem, scratch, room, 1);
    if (code == FLX_OK)
        return t;
    flx_tensor_release(t);
    return NULL;
}

/* ---- Slices and windows ---- */

/* Rows [begin, end) of an order, which the new dataset owns. */
static flx_code copy_order(flx_dataset *s, flxi_column *c, int64_t begin, int64_t end, flx_error *err)
{
    int64_t *order = flxi_new(&s->arena, int64_t, (size_t)(end - begin) + 1);
    if (!order)
        return flxi_oom(err, "the order of a dataset");
    memcpy(order, c->order + begin, (size_t)(end - begin) * sizeof *order);
    c->order = order;
    return FLX_OK;
}

static flx_code copy_slice(flx_dataset *s, const flx_dataset *d, int64_t begin, int64_t end, flx_error *err)
{
    for (size_t i = 0; i < d->columns.n; i++) {
        flxi_column c = d->columns.at[i];
        c.type.dims[0] = end - begin;
        if (c.order) {
            FLXI_TRY(copy_order(s, &c, begin, end, err));
        } else {
            c.first += (size_t)begin * c.stride;
            c.first_row += begin;
        }
        FLXI_TRY(append(s, c.name, c, err));
    }
    for (size_t i = 0; i < d->classes.n; i++)
        FLXI_TRY(flxi_dataset_add_class(s, d->classes.at[i], strlen(d->classes.at[i]), err));
    for (size_t i = 0; i < d->features.n; i++)
        FLXI_TRY(flxi_dataset_add_feature(s, d->features.at[i], err));
    s->rows = end - begin;
    return FLX_OK;
}

flx_dataset *flx_dataset_slice(const flx_dataset *d, int64_t begin, int64_t end, flx_error *err)
{
    if (!d) {
        flxi_fail(err, FLX_E_USAGE, "flx_dataset_slice: the dataset is NULL");
        return NULL;
    }
    if (begin < 0 || begin > end || end > d->rows) {
        flxi_fail(err, FLX_E_INDEX, "rows [%lld, %lld) are out of range for a dataset of %lld rows", (long long)begin,
                  (long long)end, (long long)d->rows);
        return NULL;
    }
    flx_dataset *s = flx_dataset_new(d->ctx, err);
    return s ? flxi_dataset_if(s, copy_slice(s, d, begin, end, err)) : NULL;
}

/* The same order for each column. */
static flx_code shuffle_column(flx_dataset *s, flxi_column *c, uint64_t seed, flx_error *err)
{
    int64_t *order = flxi_new(&s->arena, int64_t, (size_t)s->rows + 1);
    flxi_permutation p;
    uint32_t *table = flxi_new(&s->arena, uint32_t, s->rows <= FLXI_PERMUTATION_TABLE ? (size_t)s->rows + 1 : 1);
    if (!order || !table)
        return flxi_oom(err, "the order of a dataset");
    flxi_permutation_begin(&p, (uint64_t)s->rows, seed, 0, table);
    for (int64_t i = 0; i < s->rows; i++) {
        int64_t row = (int64_t)flxi_permutation_at(&p, (uint64_t)i);
        order[i] = c->order ? c->order[row] : row;
    }
    c->order = order;
    return FLX_OK;
}

flx_dataset *flx_dataset_shuffle(const flx_dataset *d, uint64_t seed, flx_error *err)
{
    flx_dataset *s = flx_dataset_slice(d, 0, flx_dataset_rows(d), err);
    flx_code code = FLX_OK;
    for (size_t i = 0; s && code == FLX_OK && i < s->columns.n; i++)
        code = shuffle_column(s, &s->columns.at[i], seed, err);
    return s ? flxi_dataset_if(s, code) : NULL;
}

static flx_code check_windows(const flx_tensor *sequence, int64_t length, int64_t stride, flx_error *err)
{
    if (length < 1 || stride < 0)
        return flxi_fail(err, FLX_E_USAGE, "flx_dataset_windows: length must be positive and stride not negative");
    if (sequence->type.rank == 0 || sequence->type.rank >= FLX_MAX_RANK)
        return flxi_fail(err, FLX_E_SHAPE, "a sequence must have 1 to %d dimensions", FLX_MAX_RANK - 1);
    if (sequence->type.dims[0] <= length)
        return flxi_fail_hint(err, FLX_E_SHAPE, "use a shorter window, or more text",
                              "the sequence has %lld elements, a window of %lld and its next element need %llu",
                              (long long)sequence->type.dims[0], (long long)length, (unsigned long long)length + 1);
    return FLX_OK;
}

static flx_code add_windows(flx_dataset *d, flx_tensor *sequence, int64_t length, int64_t stride, flx_error *err)
{
    flx_type row = sequence->type;
    row.dims[0] = length;
    int64_t rows = (sequence->type.dims[0] - 1 - length) / stride + 1;
    size_t element = (size_t)flxi_static_extent(&row, 1, row.rank) * flx_dtype_size(row.dtype);
    flxi_column c = {.base = sequence, .stored = row.dtype, .stride = (size_t)stride * element};
    FLXI_TRY(with_rows(d->ctx, &row, rows, &c.type, err));
    flxi_static_count(&row, &c.row_count); /* a part of the sequence */
    FLXI_TRY(append(d, "x", c, err));
    c.first = element;
    FLXI_TRY(append(d, "next", c, err));
    if (c.stored != FLX_U8 && c.stored != FLX_U16)
        return FLX_OK;
    FLXI_TRY(flx_dataset_convert(d, "x", FLX_I32, 1, 0, err));
    return flx_dataset_convert(d, "next", FLX_I32, 1, 0, err);
}

flx_dataset *flx_dataset_windows(flx_context *ctx, flx_tensor *sequence, int64_t length, int64_t stride, flx_error *err)
{
    if (!ctx || !sequence) {
        flxi_fail(err, FLX_E_USAGE, "flx_dataset_windows: context and sequence must not be NULL");
        return NULL;
    }
    if (check_windows(sequence, length, stride, err) != FLX_OK)
        return NULL;
    flx_dataset *d = flx_dataset_new(ctx, err);
    return d ? flxi_dataset_if(d, add_windows(d, sequence, length, stride ? stride : length, err)) : NULL;
}

flx_dataset *flx_dataset_text(flx_context *ctx, const char *text, size_t size, const flx_tokeniser *t, int64_t length,
                              int64_t stride, flx_error *err)
{
    const flx_type bytes = flx_type_make(FLX_U8, 1, (flx_dim[]){(flx_dim)size});
    if (!ctx || (!text && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_dataset_text: context and text must not be NULL");
        return NULL;
    }
    flx_tensor *tokens = t ? flx_tokeniser_encode(t, text, size, err) : flx_tensor_new(ctx, &bytes, text, err);
    flx_dataset *d = tokens ? flx_dataset_windows(ctx, tokens, length, stride, err) : NULL;
    flx_tensor_release(tokens);
    return d;
}
