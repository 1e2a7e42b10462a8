/* SPDX-License-Identifier: Apache-2.0 */
/* special_express.h: special functions as kernel expressions, for the rules of special.c. */
#ifndef FLXI_SPECIAL_EXPRESS_H
#define FLXI_SPECIAL_EXPRESS_H

#include "ops/express/express.h"

flxi_kval flxi_element_erf_inv(flxi_express *e, const flxi_kval *operands);
flxi_kval flxi_element_bessel_i0e(flxi_express *e, const flxi_kval *operands);
flxi_kval flxi_element_bessel_i1e(flxi_express *e, const flxi_kval *operands);
flxi_kval flxi_element_digamma(flxi_express *e, const flxi_kval *operands);

/* Only for what follows: they have the digits of f32, not those of f64. */
bool flxi_expresses_short_floats(const void *attrs, const flx_type *const *in, uint32_t nin);
flxi_kval flxi_element_lgamma(flxi_express *e, const flxi_kval *operands);
flxi_kval flxi_element_zeta(flxi_express *e, const flxi_kval *operands);
flxi_kval flxi_element_polygamma(flxi_express *e, const flxi_kval *operands);

#endif
