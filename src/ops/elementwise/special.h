/* SPDX-License-Identifier: Apache-2.0 */
/* special.h: special functions used by other families. */
#ifndef FLXI_SPECIAL_H
#define FLXI_SPECIAL_H

/* The y with erf(y) = x; infinite at -1 and 1, NaN outside. */
double flxi_erf_inv(double x);

/* B(2), B(4) … B(20) */
enum { FLXI_BERNOULLI_COUNT = 10 };
extern const double flxi_bernoulli[FLXI_BERNOULLI_COUNT];

#endif
