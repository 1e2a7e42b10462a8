/* SPDX-License-Identifier: Apache-2.0 */
/* type.c: see type.h. */
#include "graph/type/type.h"

#include "base/error.h"

#include <stdio.h>

typedef enum { KIND_NONE, KIND_FLOAT, KIND_COMPLEX, KIND_SIGNED, KIND_UNSIGNED, KIND_BOOL } dtype_kind;

static const struct {
    const char *name;
    uint8_t size;
    uint8_t kind;
} dtypes[FLX_DTYPE_COUNT] = {{"none", 0, KIND_NONE},
#define DTYPE_ROW(NAME, value, text, bytes, kind) [value] = {#text, bytes, KIND_##kind},
                             FLX_DTYPE_MAP(DTYPE_ROW)
#undef DTYPE_ROW
};

static bool is_dtype(int32_t d)
{
    return d > 0 && d < FLX_DTYPE_COUNT;
}

const char *flx_dtype_name(int32_t dtype)
{
    return dtypes[is_dtype(dtype) ? dtype : 0].name;
}

size_t flx_dtype_size(int32_t dtype)
{
    return dtypes[is_dtype(dtype) ? dtype : 0].size;
}

flx_dtype flx_dtype_parse(const char *name)
{
    if (name)
        for (int d = 1; d < FLX_DTYPE_COUNT; d++)
            if (strcmp(dtypes[d].name, name) == 0)
                return (flx_dtype)d;
    return FLX_DTYPE_NONE;
}

int32_t flxi_part_dtype(int32_t dtype)
{
    return dtype == FLX_C64 ? FLX_F32 : dtype == FLX_C128 ? FLX_F64 : dtype;
}

int32_t flxi_complex_dtype(int32_t dtype)
{
    return dtype == FLX_F32 ? FLX_C64 : dtype == FLX_F64 ? FLX_C128 : FLX_DTYPE_NONE;
}

int flxi_int_bits(int32_t dtype)
{
    if (dtype == FLX_BOOL)
        return 1;
    return flxi_is_int(dtype) ? 8 * dtypes[dtype].size : 0;
}

int flxi_mantissa_bits(int32_t dtype)
{
    switch (flxi_part_dtype(dtype)) {
    case FLX_F64: return 53;
    case FLX_F32: return 24;
    case FLX_F16: return 11;
    case FLX_BF16: return 8;
    default: return 0;
    }
}

flx_type flx_type_make(flx_dtype dtype, int32_t rank, const flx_dim *dims)
{
    flx_type t = {.dtype = (int32_t)dtype, .rank = rank};
    for (int32_t i = 0; dims && i < rank && i < FLX_MAX_RANK; i++)
        t.dims[i] = dims[i];
    return t;
}

bool flxi_type_equal(const flx_type *a, const flx_type *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof(flx_dim)) == 0;
}

bool flxi_type_is_static(const flx_type *t)
{
    for (int i = 0; i < t->rank && i < FLX_MAX_RANK; i++)
        if (!flxi_dim_is_number(t->dims[i]))
            return false;
    return true;
}

uint64_t flxi_type_hash(uint64_t h, const flx_type *t)
{
    h = (h ^ (uint64_t)t->dtype ^ (uint64_t)t->rank << 8) * UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < t->rank; i++)
        h = (h ^ (uint64_t)t->dims[i] ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return h;
}

static void write_shape(flx_context *ctx, const flx_type *t, flxi_strbuf *out)
{
    flxi_add_char(out, '[');
    for (int i = 0; i < t->rank && i < FLX_MAX_RANK; i++) {
        if (i)
            flxi_add_text(out, ", ");
        flxi_dim_write(ctx, t->dims[i], out);
    }
    flxi_add_char(out, ']');
}

void flxi_type_write(flx_context *ctx, const flx_type *t, flxi_strbuf *out)
{
    flxi_add_text(out, flx_dtype_name(t->dtype));
    write_shape(ctx, t, out);
}

/* Writes into a fixed buffer: the string builder's only allocation is the buffer itself. */
typedef struct {
    char *at;
    size_t size;
} fixed_memory;

static void *fixed_alloc(void *user, void *block, size_t old_size, size_t new_size)
{
    fixed_memory *memory = user;
    (void)block;
    (void)old_size;
    return new_size && new_size <= memory->size ? memory->at : NULL;
}

typedef void (*write_fn)(flx_context *ctx, const flx_type *t, flxi_strbuf *out);

/* Text that does not fit ends in "...". Returns the length that was written. */
static size_t write_fixed(flx_context *ctx, const flx_type *t, write_fn write, char *buffer, size_t size)
{
    char text[4096];
    fixed_memory memory = {text, sizeof text};
    flxi_allocator mem = {fixed_alloc, &memory};
    flxi_strbuf out;
    flxi_strbuf_init(&out, &mem);
    write(ctx, t, &out);
    size_t n = out.n;
    if (buffer && size) {
        int k = snprintf(buffer, size, "%s", out.at ? out.at : "");
        if ((out.failed || k >= (int)size) && size > 4)
            memcpy(buffer + size - 4, "...", 4);
    }
    return n;
}

const char *flxi_type_str(flx_context *ctx, const flx_type *t, flxi_type_text *buffer)
{
    write_fixed(ctx, t, flxi_type_write, buffer->text, sizeof buffer->text);
    return buffer->text;
}

const char *flxi_shape_str(flx_context *ctx, const flx_type *t, flxi_type_text *buffer)
{
    write_fixed(ctx, t, write_shape, buffer->text, sizeof buffer->text);
    return buffer->text;
}

static void write_first_dim(flx_context *ctx, const flx_type *t, flxi_strbuf *out)
{
    flxi_dim_write(ctx, t->dims[0], out);
}

size_t flx_dim_print(flx_context *ctx, flx_dim dim, char *buffer, size_t size)
{
    flx_type holder = {.rank = 1, .dims = {dim}};
    if (!ctx && !flxi_dim_is_number(dim))
        return 0;
    return write_fixed(ctx, &holder, write_first_dim, buffer, size);
}

size_t flx_type_print(flx_context *ctx, const flx_type *type, char *buffer, size_t size)
{
    if (!type || (!ctx && !flxi_type_is_static(type)))
        return 0;
    return write_fixed(ctx, type, flxi_type_write, buffer, size);
}

/* ---- Sizes ---- */

/* Zero extents come first: [0, huge, huge] is empty, not an overflow. */
flx_dim flxi_dims_product(flx_context *ctx, const flx_type *t, int from, int to)
{
    flx_dim p = 1;
    for (int i = from; i < to; i++)
        if (t->dims[i] == 0)
            return 0;
    for (int i = from; i < to; i++)
        p = flx_dim_mul(ctx, p, t->dims[i]);
    return p;
}

flx_dim flxi_type_count(flx_context *ctx, const flx_type *t)
{
    return flxi_dims_product(ctx, t, 0, t->rank);
}

/* The same for numbers. */
int64_t flxi_static_extent(const flx_type *t, int from, int to)
{
    int64_t n = 1;
    for (int k = from; k < to; k++)
        if (t->dims[k] == 0)
            return 0;
    for (int k = from; k < to; k++)
        if (__builtin_mul_overflow(n, t->dims[k], &n))
            return INT64_MAX; /* part of an empty tensor, or of one too large for any memory */
    return n;
}

bool flxi_static_count(const flx_type *t, int64_t *count)
{
    int64_t n = 1;
    bool overflow = false;
    bool is_empty = false;
    for (int i = 0; i < t->rank; i++) {
        if (!flxi_dim_is_number(t->dims[i]) || t->dims[i] < 0)
            return false;
        is_empty |= t->dims[i] == 0;
        overflow |= __builtin_mul_overflow(n, t->dims[i], &n);
    }
    *count = is_empty ? 0 : n;
    return is_empty || !overflow;
}

int64_t flxi_known_count(const flx_type *t)
{
    int64_t count = 0;
    return flxi_static_count(t, &count) ? count : 0;
}

bool flxi_static_bytes(const flx_type *t, size_t *nbytes)
{
    int64_t count;
    size_t size = flx_dtype_size(t->dtype);
    return flxi_static_count(t, &count) && flxi_mul_size((size_t)count, size, nbytes) && *nbytes <= PTRDIFF_MAX / 2;
}

static flx_code check_dim(flx_context *ctx, int i, flx_dim d, flx_error *err)
{
    if (d == FLX_DIM_INVALID && flxi_dim_starved(ctx))
        return flxi_oom(err, "dimensions");
    if (d == FLX_DIM_INVALID || d > FLXI_DIM_LARGEST)
        return flxi_fail(err, FLX_E_SIZE, "dimension %d overflows or cannot be computed", i);
    if (!flxi_dim_is_known(ctx, d))
        return flxi_fail(err, FLX_E_USAGE, "dimension %d is neither a number nor a dimension of this context", i);
    if (flxi_dim_is_number(d) && d < 0)
        return flxi_fail(err, FLX_E_SHAPE, "dimension %d is negative: %lld", i, (long long)d);
    return FLX_OK;
}

flx_code flxi_type_check(flx_context *ctx, const flx_type *t, flx_error *err)
{
    if (!is_dtype(t->dtype))
        return flxi_fail(err, FLX_E_DTYPE, "%d is not a dtype", (int)t->dtype);
    if (t->rank < 0 || t->rank > FLX_MAX_RANK)
        return flxi_fail(err, FLX_E_SIZE, "rank %d is outside 0..%d", (int)t->rank, FLX_MAX_RANK);
    flx_type numbers = {.dtype = t->dtype};
    for (int i = 0; i < t->rank; i++) {
        FLXI_TRY(check_dim(ctx, i, t->dims[i], err));
        if (flxi_dim_is_number(t->dims[i]))
            numbers.dims[numbers.rank++] = t->dims[i];
    }
    size_t nbytes;
    flxi_type_text text;
    if (!flxi_static_bytes(&numbers, &nbytes))
        return flxi_fail(err, FLX_E_SIZE, "the type %s has too many elements", flxi_type_str(ctx, t, &text));
    return FLX_OK;
}
