/* SPDX-License-Identifier: Apache-2.0 */
/* express_index.c: see express_index.h. Indices are compared in a type that holds both them and the extent: 32 bits
   where they suffice. A float is truncated and saturated, and NaN becomes 0, as in flxi_load_int. */
#include "ops/express/express_index.h"

#include "ops/express/express_formula.h"

bool flxi_oob_expresses(int64_t oob, int64_t extent)
{
    return oob == OOB_ZERO || (oob == OOB_CLAMP && extent > 0);
}

static uint32_t type_for(uint32_t type, int64_t extent)
{
    bool is_unsigned = flxi_in(FLXI_UNSIGNED, (int32_t)type);
    bool is_long = flxi_is_float((int32_t)type) || type == FLX_I64 || type == FLX_U64 || extent > INT32_MAX;
    if (is_long)
        return is_unsigned ? FLX_U64 : FLX_I64;
    return is_unsigned ? FLX_U32 : FLX_I32;
}

flxi_kposition flxi_kresolve(flxi_express *e, uint32_t x, int64_t extent, flxi_oob policy)
{
    uint32_t type = flxi_kb_type(e->k, x);
    uint32_t wide = type_for(type, extent);
    uint32_t i = HOLD(flxi_kb_cast(e->k, wide, x));
    if (policy == OOB_CLAMP) {
        uint32_t raised = flxi_is_signed((int32_t)wide) ? F2(max, i, NUM(i, 0)) : i;
        return (flxi_kposition){HOLD(flxi_kb_cast(e->k, FLX_U32, F2(min, raised, NUM(i, (double)(extent - 1))))), 0};
    }
    uint32_t bits = flxi_kb_cast(e->k, flxi_kunsigned(wide), i); /* a negative index wraps to a large one */
    uint32_t inside = F2(lt, bits, NUM(bits, (double)extent));
    if (flxi_is_float((int32_t)type))
        inside = F2(logical_and, inside, F2(eq, x, F1(trunc, x)));
    inside = HOLD(inside);
    return (flxi_kposition){HOLD(flxi_ku_guarded(e, inside, flxi_kb_cast(e->k, FLX_U32, i))), inside};
}

flxi_kval flxi_kread(flxi_express *e, uint32_t operand, const flxi_kindex *at, uint32_t inside)
{
    flxi_kval x = flxi_operand_at(e, operand, at);
    return inside ? flxi_khold_value(e, flxi_kchoose(e, inside, x, flxi_kzero(e, e->in[operand]->dtype))) : x;
}
