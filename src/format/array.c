/* SPDX-License-Identifier: Apache-2.0 */
/* array.c: see array.h. Bytes are read directly into the tensor and converted there; only an array in another
   order needs a second buffer. */
#include "format/array.h"

#include "graph/type/tensor.h"

bool flxi_host_is_big_endian(void)
{
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 0;
}

/* Reverses each group of `unit` bytes. */
static void swap_bytes(unsigned char *p, size_t nbytes, size_t unit)
{
    for (unsigned char *end = p + nbytes; p < end; p += unit) {
        for (size_t i = 0; i < unit / 2; i++) {
            unsigned char t = p[i];
            p[i] = p[unit - 1 - i];
            p[unit - 1 - i] = t;
        }
    }
}

/* The strides of a source with the first axis running fastest. */
static void fortran_strides(const flx_type *t, int64_t *strides)
{
    int64_t step = 1;
    for (int i = 0; i < t->rank; i++) {
        strides[i] = step;
        step *= t->dims[i];
    }
}

/* Rows of the last axis are written in order; `index` counts through the other axes like an odometer, and `from` is the
   offset of its element in the source. */
static void from_strided(const flx_type *t, int64_t count, const int64_t *strides, const unsigned char *in,
                         unsigned char *out)
{
    size_t size = flx_dtype_size(t->dtype);
    int64_t index[FLX_MAX_RANK] = {0};
    int last = t->rank - 1;
    int64_t from = 0;
    for (int64_t done = 0; done < count; done += t->dims[last]) {
        for (int64_t k = 0; k < t->dims[last]; k++, out += size)
            memcpy(out, in + (size_t)(from + k * strides[last]) * size, size);
        for (int axis = last - 1; axis >= 0; axis--) {
            from += strides[axis];
            if (++index[axis] < t->dims[axis])
                break;
            from -= index[axis] * strides[axis];
            index[axis] = 0;
        }
    }
}

static flx_code load_strided(flx_tensor *t, const int64_t *strides, const flxi_array *a, const flxi_source *s,
                             flx_error *err)
{
    if (s->bytes) {
        from_strided(&t->type, t->count, strides, s->bytes + a->at, t->data);
        return FLX_OK;
    }
    const flxi_allocator *mem = flxi_context_mem(t->ctx);
    unsigned char *bytes = flxi_alloc(mem, (size_t)a->size, 1);
    if (!bytes)
        return flxi_fail(err, FLX_E_OOM, "out of memory: %llu bytes to transpose an array",
                         (unsigned long long)a->size);
    flx_code code = flxi_source_read(s, a->at, bytes, (size_t)a->size, err);
    if (code == FLX_OK)
        from_strided(&t->type, t->count, strides, bytes, t->data);
    flxi_free(mem, bytes, (size_t)a->size, 1);
    return code;
}

static flx_code check_size(const flxi_array *a, const flxi_source *s, flx_error *err)
{
    size_t nbytes;
    if (!flxi_static_bytes(&a->type, &nbytes))
        return flxi_fail(err, FLX_E_SIZE, "the array's shape has too many elements");
    if (a->at > s->size || a->size > s->size - a->at)
        return flxi_fail(err, FLX_E_SYNTAX, "the array extends past the end of the file");
    if (a->strides ? a->size > SIZE_MAX : nbytes != a->size)
        return flxi_fail(err, FLX_E_SYNTAX, "the array's type requires %zu bytes of data, the file has %llu", nbytes,
                         (unsigned long long)a->size);
    return FLX_OK;
}

flx_tensor *flxi_array_load(flx_context *ctx, const flxi_array *a, const flxi_source *s, flx_error *err)
{
    if (check_size(a, s, err) != FLX_OK)
        return NULL;
    flx_tensor *t = flx_tensor_new(ctx, &a->type, NULL, err);
    if (!t)
        return NULL;
    int64_t columns[FLX_MAX_RANK];
    const int64_t *strides = a->strides;
    if (a->is_fortran && t->type.rank > 1) {
        fortran_strides(&t->type, columns);
        strides = columns;
    }
    flx_code code = strides && t->type.rank > 0 && t->count > 0 ? load_strided(t, strides, a, s, err)
                                                                : flxi_source_read(s, a->at, t->data, t->nbytes, err);
    if (code != FLX_OK) {
        flx_tensor_release(t);
        return NULL;
    }
    if (a->is_big_endian != flxi_host_is_big_endian())
        swap_bytes(t->data, t->nbytes, flx_dtype_size(flxi_part_dtype(t->type.dtype)));
    unsigned char *bytes = t->data;
    for (size_t i = 0; t->type.dtype == FLX_BOOL && i < t->nbytes; i++)
        bytes[i] = bytes[i] != 0;
    return t;
}
