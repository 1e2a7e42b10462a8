/* SPDX-License-Identifier: Apache-2.0 */
/* finite.c: see finite.h. A float is not finite when all bits of its exponent are set; a complex number is two
   floats. */
#include "graph/type/finite.h"

#include "base/error.h"
#include "graph/op/eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t scan16(const uint16_t *x, int64_t n, uint16_t exponent)
{
    for (int64_t i = 0; i < n; i++)
        if ((x[i] & exponent) == exponent)
            return i;
    return -1;
}

/* Blocks are tested as a whole, in vectors: most have nothing to find. */
enum { BLOCK = 64 };

static bool is_found32(const uint32_t *x)
{
    typedef uint32_t words __attribute__((vector_size(16)));
    const words exponent = {0x7f800000, 0x7f800000, 0x7f800000, 0x7f800000};
    words found = {0};
    for (int i = 0; i < BLOCK; i += 4) {
        words v;
        memcpy(&v, x + i, sizeof v);
        found |= (words)((v & exponent) == exponent);
    }
    return found[0] | found[1] | found[2] | found[3];
}

static int64_t scan32(const uint32_t *x, int64_t n)
{
    int64_t i = 0;
    while (i + BLOCK <= n && !is_found32(x + i))
        i += BLOCK;
    for (; i < n; i++)
        if ((x[i] & UINT32_C(0x7f800000)) == UINT32_C(0x7f800000))
            return i;
    return -1;
}

static int64_t scan64(const uint64_t *x, int64_t n)
{
    const uint64_t exponent = UINT64_C(0x7ff) << 52;
    for (int64_t i = 0; i < n; i++)
        if ((x[i] & exponent) == exponent)
            return i;
    return -1;
}

int64_t flxi_first_not_finite(int32_t dtype, const void *data, int64_t count)
{
    int64_t i;
    switch (dtype) {
    case FLX_F64: return scan64(data, count);
    case FLX_F32: return scan32(data, count);
    case FLX_F16: return scan16(data, count, 0x7c00);
    case FLX_BF16: return scan16(data, count, 0x7f80);
    case FLX_C64: i = scan32(data, 2 * count); return i < 0 ? i : i / 2;
    case FLX_C128: i = scan64(data, 2 * count); return i < 0 ? i : i / 2;
    default: return -1;
    }
}

/* "[1, 0, 3]" */
static void write_index(const flx_type *t, int64_t i, char *text, size_t size)
{
    int64_t at[FLX_MAX_RANK] = {0};
    for (int k = t->rank - 1; k >= 0; k--) {
        at[k] = i % t->dims[k];
        i /= t->dims[k];
    }
    size_t n = (size_t)snprintf(text, size, "[");
    for (int k = 0; k < t->rank && n < size; k++)
        n += (size_t)snprintf(text + n, size - n, "%s%lld", k ? ", " : "", (long long)at[k]);
    if (n < size)
        snprintf(text + n, size - n, "]");
}

static const char *name_of(int32_t dtype, const void *data, int64_t i)
{
    const flxi_num x = flxi_arith_of(dtype)->load(data, i);
    if (dtype == FLX_C64 || dtype == FLX_C128)
        return "a complex number that is not finite";
    return isnan(x.f) ? "nan" : x.f > 0 ? "inf" : "-inf";
}

flx_code flxi_check_finite(const flx_type *t, const void *data, const char *name, flx_error *err)
{
    int64_t count = 0;
    char index[120];
    flxi_static_count(t, &count);
    int64_t i = flxi_first_not_finite(t->dtype, data, count);
    if (i < 0)
        return FLX_OK;
    write_index(t, i, index, sizeof index);
    return flxi_fail(err, FLX_E_NUMERIC, "%s produces %s at element %s", name, name_of(t->dtype, data, i), index);
}
