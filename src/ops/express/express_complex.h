/* SPDX-License-Identifier: Apache-2.0 */
/* express_complex.h: arithmetic and a few functions of complex numbers as expressions of kernels. Products and
   quotients are those of complex_arith.h, functions have the branches and special values of C99. */
#ifndef FLXI_KERNEL_COMPLEX_H
#define FLXI_KERNEL_COMPLEX_H

#include "ops/express/express.h"

/* c64 is computed in double and rounded once: then no intermediate overflows and neither part loses digits to the
   other. */
flxi_kval flxi_kcwide(flxi_express *e, flxi_kval z);
flxi_kval flxi_kcround(flxi_express *e, flxi_kval wide, flxi_kval like);

flxi_kval flxi_kcmul(flxi_express *e, flxi_kval a, flxi_kval b);
flxi_kval flxi_kcdiv(flxi_express *e, flxi_kval a, flxi_kval b);

/* The rounding error of a + b = sum. */
uint32_t flxi_krest_of_sum(flxi_express *e, uint32_t a, uint32_t b, uint32_t sum);

flxi_kval flxi_kcexp(flxi_express *e, flxi_kval z);
flxi_kval flxi_kclog(flxi_express *e, flxi_kval z);
flxi_kval flxi_kcsqrt(flxi_express *e, flxi_kval z);
flxi_kval flxi_kcsinh(flxi_express *e, flxi_kval z);
flxi_kval flxi_kccosh(flxi_express *e, flxi_kval z);
flxi_kval flxi_kcsign(flxi_express *e, flxi_kval z); /* z/|z| */

#endif
