/* kernel_complex.c: see kernel_complex.h. The quotient is Smith's, on operands that are scaled by powers of two where they are
   c128: the square of a divisor of c64 is far inside the range of double. */
#include "ops/kernel_complex.h"

#include "ops/kernel_formula.h"

flxi_kval flxi_kcwide(flxi_kemit *e, flxi_kval z)
{
    return flxi_khold_value(e, (flxi_kval){flxi_kb_cast(e->k, FLX_F64, z.re), flxi_kb_cast(e->k, FLX_F64, z.im)});
}

flxi_kval flxi_kcround(flxi_kemit *e, flxi_kval wide, flxi_kval like)
{
    uint32_t type = flxi_kb_type(e->k, like.re);
    return (flxi_kval){flxi_kb_cast(e->k, type, wide.re), flxi_kb_cast(e->k, type, wide.im)};
}

flxi_kval flxi_kcmul(flxi_kemit *e, flxi_kval a, flxi_kval b)
{
    flxi_kval x = flxi_kcwide(e, a);
    flxi_kval y = flxi_kcwide(e, b);
    uint32_t re = F2(sub, F2(mul, x.re, y.re), F2(mul, x.im, y.im));
    uint32_t im = F2(add, F2(mul, x.re, y.im), F2(mul, x.im, y.re));
    return flxi_kcround(e, (flxi_kval){re, im}, a);
}

/* ---- Quotient ---- */

/* The power of two that brings z away from the ends of double's range, and its inverse. */
typedef struct {
    uint32_t factor, inverse;
} scale;

static scale scale_of(flxi_kemit *e, flxi_kval z)
{
    uint32_t larger = HOLD(F2(max, F1(abs, z.re), F1(abs, z.im)));
    uint32_t huge = HOLD(F2(ge, larger, NUM(larger, 0x1p1021)));
    uint32_t tiny = HOLD(F2(lt, larger, NUM(larger, 0x1p-400)));
    uint32_t one = NUM(larger, 1);
    return (scale){HOLD(PICK(huge, NUM(one, 0x1p-3), PICK(tiny, NUM(one, 0x1p600), one))),
                   HOLD(PICK(huge, NUM(one, 0x1p3), PICK(tiny, NUM(one, 0x1p-600), one)))};
}

static flxi_kval scaled(flxi_kemit *e, flxi_kval z, uint32_t factor)
{
    return flxi_khold_value(e, (flxi_kval){F2(mul, z.re, factor), F2(mul, z.im, factor)});
}

/* For |Re b| ≥ |Im b|; where the ratio underflows, the product with it is taken in the other order. */
static flxi_kval divided(flxi_kemit *e, flxi_kval a, flxi_kval b)
{
    uint32_t ratio = HOLD(F2(div, b.im, b.re));
    uint32_t below = HOLD(F2(add, b.re, F2(mul, b.im, ratio)));
    uint32_t lost = HOLD(F2(eq, ratio, NUM(ratio, 0)));
    uint32_t u = PICK(lost, F2(mul, b.im, F2(div, a.im, b.re)), F2(mul, a.im, ratio));
    uint32_t v = PICK(lost, F2(mul, b.im, F2(div, a.re, b.re)), F2(mul, a.re, ratio));
    return (flxi_kval){F2(div, F2(add, a.re, u), below), F2(div, F2(sub, a.im, v), below)};
}

/* z/i = im - i·re where `turn` holds. */
static flxi_kval turned(flxi_kemit *e, uint32_t turn, flxi_kval z)
{
    return flxi_khold_value(e, (flxi_kval){PICK(turn, z.im, z.re), PICK(turn, F1(neg, z.re), z.im)});
}

flxi_kval flxi_kcdiv(flxi_kemit *e, flxi_kval a, flxi_kval b)
{
    flxi_kval x = flxi_kcwide(e, a);
    flxi_kval y = flxi_kcwide(e, b);
    uint32_t zero = NUM(x.re, 0);
    uint32_t by_zero = HOLD(F2(logical_and, F2(eq, y.re, zero), F2(eq, y.im, zero)));
    flxi_kval parts = {F2(div, x.re, zero), F2(div, x.im, zero)};
    uint32_t back = 0;
    if (flxi_kb_type(e->k, a.re) == FLX_F64) {
        scale sx = scale_of(e, x);
        scale sy = scale_of(e, y);
        back = HOLD(F2(mul, sy.factor, sx.inverse));
        x = scaled(e, x, sx.factor);
        y = scaled(e, y, sy.factor);
    }
    uint32_t turn = HOLD(F2(lt, F1(abs, y.re), F1(abs, y.im)));
    flxi_kval q = divided(e, turned(e, turn, x), turned(e, turn, y));
    if (back)
        q = (flxi_kval){F2(mul, q.re, back), F2(mul, q.im, back)};
    return flxi_kcround(e, flxi_kchoose(e, by_zero, parts, q), a);
}
