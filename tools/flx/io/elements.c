/* SPDX-License-Identifier: Apache-2.0 */
/* elements.c: reading elements by kind and width. */
#include "io/elements.h"

dtype_kind kind_of(int32_t dtype)
{
    static const dtype_kind kinds[FLX_DTYPE_COUNT] = {
#define KIND_ROW(name, value, text, bytes, kind) [value] = KIND_##kind,
        FLX_DTYPE_MAP(KIND_ROW)
#undef KIND_ROW
    };
    return dtype > 0 && dtype < FLX_DTYPE_COUNT ? kinds[dtype] : KIND_NONE;
}

bool kind_is_integer(dtype_kind kind)
{
    return kind == KIND_SIGNED || kind == KIND_UNSIGNED;
}

static int64_t signed_at(const void *data, size_t width, int64_t i)
{
    switch (width) {
    case 1: return ((const int8_t *)data)[i];
    case 2: return ((const int16_t *)data)[i];
    case 4: return ((const int32_t *)data)[i];
    default: return ((const int64_t *)data)[i];
    }
}

static uint64_t unsigned_at(const void *data, size_t width, int64_t i)
{
    switch (width) {
    case 1: return ((const uint8_t *)data)[i];
    case 2: return ((const uint16_t *)data)[i];
    case 4: return ((const uint32_t *)data)[i];
    default: return ((const uint64_t *)data)[i];
    }
}

integer element_integer(const flx_tensor *t, int64_t i)
{
    int32_t dtype = flx_tensor_type(t)->dtype;
    const void *data = flx_tensor_const_data(t);
    if (kind_of(dtype) != KIND_SIGNED)
        return (integer){false, unsigned_at(data, flx_dtype_size(dtype), i)};
    int64_t v = signed_at(data, flx_dtype_size(dtype), i);
    return v < 0 ? (integer){true, 0 - (uint64_t)v} : (integer){false, (uint64_t)v};
}

int integer_compare(integer a, integer b)
{
    if (a.negative != b.negative)
        return a.negative ? -1 : 1;
    int order = (a.magnitude > b.magnitude) - (a.magnitude < b.magnitude);
    return a.negative ? -order : order;
}

bool integer_fits(integer v, int32_t dtype)
{
    dtype_kind kind = kind_of(dtype);
    if (kind == KIND_BOOL)
        return !v.negative && v.magnitude <= 1;
    if (!kind_is_integer(kind))
        return false;
    unsigned bits = (unsigned)flx_dtype_size(dtype) * 8;
    uint64_t max = UINT64_MAX >> (64 - bits);
    if (kind == KIND_UNSIGNED)
        return !v.negative && v.magnitude <= max;
    return v.magnitude <= max / 2 + v.negative;
}

uint64_t integer_bits(integer v)
{
    return v.negative ? 0 - v.magnitude : v.magnitude;
}

double element_imaginary(const flx_tensor *t, int64_t i)
{
    switch (flx_tensor_type(t)->dtype) {
    case FLX_C64: return (double)((const float *)flx_tensor_const_data(t))[2 * i + 1];
    case FLX_C128: return ((const double *)flx_tensor_const_data(t))[2 * i + 1];
    default: return 0;
    }
}
