/* SPDX-License-Identifier: Apache-2.0 */
/* array.c: see array.h. Bytes are read directly into the tensor and converted there; only an array in Fortran order
   needs a second buffer. */
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

/* Rows of the last axis are written in order; `index` counts through the other axes like an odometer, and `from` is the
   offset of its element in the column-major source. */
static void from_fortran(const flx_type *t, int64_t count, size_t size, const unsigned char *in, unsigned char *out)
{
    int64_t stride[FLX_MAX_RANK]; /* of each axis in the source, in elements */
    int64_t index[FLX_MAX_RANK] = {0};
    int last = t->rank - 1;
    int64_t step = 1;
    for (int i = 0; i < t->rank; i++) {
        stride[i] = step;
        step *= t->dims[i];
    }
    int64_t from = 0;
    for (int64_t done = 0; done < count; done += t->dims[last]) {
        for (int64_t k = 0; k < t->dims[last]; k++, out += size)
            memcpy(out, in + (size_t)(from + k * stride[last]) * size, size);
        for (int axis = last - 1; axis >= 0; axis--) {
            from += stride[axis];
            if (++index[axis] < t->dims[axis])
                break;
            from -= index[axis] * stride[axis];
            index[axis] = 0;
        }
    }
}

static flx_code load_fortran(flx_tensor *t, const flxi_array *a, const flxi_source *s, flx_error *err)
{
    size_t size = flx_dtype_size(t->type.dtype);
    if (s->bytes) {
        from_fortran(&t->type, t->count, size, s->bytes + a->at, t->data);
        return FLX_OK;
    }
    const flxi_allocator *mem = flxi_context_mem(t->ctx);
    unsigned char *columns = flxi_alloc(mem, t->nbytes, 1);
    if (!columns)
        return flxi_fail(err, FLX_E_OOM, "out of memory: %zu bytes to transpose an array", t->nbytes);
    flx_code code = flxi_source_read(s, a->at, columns, t->nbytes, err);
    if (code == FLX_OK)
        from_fortran(&t->type, t->count, size, columns, t->data);
    flxi_free(mem, columns, t->nbytes, 1);
    return code;
}

static flx_code check_size(const flxi_array *a, const flxi_source *s, flx_error *err)
{
    size_t nbytes;
    if (!flxi_static_bytes(&a->type, &nbytes))
        return flxi_fail(err, FLX_E_SIZE, "the array's shape has too many elements");
    if (a->at > s->size || a->size > s->size - a->at)
        return flxi_fail(err, FLX_E_SYNTAX, "the array extends past the end of the file");
    if (nbytes != a->size)
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
    bool transposed = a->is_fortran && t->type.rank > 1 && t->count > 0;
    flx_code code = transposed ? load_fortran(t, a, s, err) : flxi_source_read(s, a->at, t->data, t->nbytes, err);
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
