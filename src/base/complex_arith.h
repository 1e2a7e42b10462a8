/* SPDX-License-Identifier: Apache-2.0 */
/* complex_arith.h: products and quotients of complex numbers, spelled out.

   C's own * and / repair results in which an infinity met a NaN (annex G); which repairs happen depends on compiler
   flags, and no device does them. Here a product is the textbook formula and a quotient is Smith's, on operands scaled
   by powers of two: the larger part of the divisor is divided out first, so nothing overflows unless the result does.
   An infinite operand may therefore give NaN parts, and a quotient by zero has the parts re/0 and im/0. NumPy defines
   both the same way. */
#ifndef FLXI_COMPLEX_ARITH_H
#define FLXI_COMPLEX_ARITH_H

#include <complex.h>
#include <math.h>
#include <string.h>

/* re + i·im exactly: with C's `re + im * I` an infinite or NaN part would spoil the other. */
static inline double _Complex flxi_cmake(double re, double im)
{
    double part[2] = {re, im};
    double _Complex z;
    memcpy(&z, part, sizeof z);
    return z;
}

static inline double _Complex flxi_cmul(double _Complex a, double _Complex b)
{
    return flxi_cmake(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}

/* (ar + i·ai) / (br + i·bi) for |br| ≥ |bi|. If the ratio bi/br underflows, ai·(bi/br) is computed as bi·(ai/br), which
   may still be large enough to matter. */
static inline double _Complex flxi_cdiv_by_real(double ar, double ai, double br, double bi)
{
    double ratio = bi / br;
    double scale = br + bi * ratio;
    if (ratio == 0)
        return flxi_cmake((ar + bi * (ai / br)) / scale, (ai - bi * (ar / br)) / scale);
    return flxi_cmake((ar + ai * ratio) / scale, (ai - ar * ratio) / scale);
}

/* z times 2^k, with k chosen so that the quotient's sums and products stay away from the ends of double's range.
   Scaling down drops only insignificant bits; scaling up is exact. */
static inline double _Complex flxi_cscale(double _Complex z, int *k)
{
    double larger = fmax(fabs(creal(z)), fabs(cimag(z)));
    *k = larger >= 0x1p1021 ? -3 : larger < 0x1p-400 ? 600 : 0;
    return flxi_cmake(ldexp(creal(z), *k), ldexp(cimag(z), *k));
}

static inline double _Complex flxi_cdiv(double _Complex a, double _Complex b)
{
    if (creal(b) == 0 && cimag(b) == 0)
        return flxi_cmake(creal(a) / 0.0, cimag(a) / 0.0);
    int ka;
    int kb;
    a = flxi_cscale(a, &ka);
    b = flxi_cscale(b, &kb);
    /* If the imaginary part is the larger one: a / b = (a/i) / (b/i), and z/i = im - i·re. */
    double _Complex y = fabs(creal(b)) < fabs(cimag(b)) ? flxi_cdiv_by_real(cimag(a), -creal(a), cimag(b), -creal(b))
                                                        : flxi_cdiv_by_real(creal(a), cimag(a), creal(b), cimag(b));
    return flxi_cmake(ldexp(creal(y), kb - ka), ldexp(cimag(y), kb - ka));
}

#endif
