/* SPDX-License-Identifier: Apache-2.0 */
/* express_combine.c: see express_combine.h. On bool, add and max are or, mul and min are and. */
#include "ops/express/express_combine.h"

#include "ops/express/express_complex.h"

#include <math.h>

/* The lowest or highest number: an infinity, or for integers the end of the range; of bool false or true. */
static flxi_kval extreme(flxi_express *e, bool highest)
{
    uint32_t type = (uint32_t)e->dtype;
    if (e->dtype == FLX_BOOL)
        return flxi_kreal(flxi_kb_bool(e->k, highest));
    if (flxi_is_float(e->dtype))
        return flxi_kreal(flxi_kb_number(e->k, type, highest ? (double)INFINITY : -(double)INFINITY));
    uint64_t ones = UINT64_MAX >> (64 - flxi_int_bits(e->dtype));
    uint64_t most = flxi_is_signed(e->dtype) ? ones >> 1 : ones;
    return flxi_kreal(flxi_kb_literal(e->k, type, highest ? most : ones ^ most));
}

flxi_kval flxi_kcombine_start(flxi_express *e, flxi_kcombining op)
{
    switch (op) {
    case FLXI_COMBINE_MAX: return extreme(e, false);
    case FLXI_COMBINE_MIN: return extreme(e, true);
    case FLXI_COMBINE_MUL: return flxi_kone(e, e->dtype);
    default: return flxi_kzero(e, e->dtype);
    }
}

flxi_kval flxi_kcombine(flxi_express *e, flxi_kcombining op, flxi_kval acc, flxi_kval x)
{
    static const flxi_kbinary of_bool[] = {KBIN_logical_or, KBIN_logical_or, KBIN_logical_and, KBIN_logical_and};
    static const flxi_kbinary of_ints[] = {KBIN_add, KBIN_max, KBIN_min, KBIN_mul};
    static const flxi_kbinary of_floats[] = {KBIN_add, KBIN_max_nan, KBIN_min_nan, KBIN_mul};
    if (op == FLXI_COMBINE_MUL && flxi_is_complex(e->dtype))
        return flxi_kcmul(e, acc, x);
    const flxi_kbinary *ops = e->dtype == FLX_BOOL ? of_bool : flxi_is_int(e->dtype) ? of_ints : of_floats;
    return flxi_kparts(e, ops[op], acc, x);
}

flxi_kval flxi_kas(flxi_express *e, flxi_kval x, int32_t dtype)
{
    return x.im ? x : flxi_kreal(flxi_kb_cast(e->k, flxi_kernel_dtype(dtype), x.re));
}
