/* kernel_complex.h: complex products and quotients as expressions of kernels, as complex_arith.h defines them. */
#ifndef FLXI_KERNEL_COMPLEX_H
#define FLXI_KERNEL_COMPLEX_H

#include "ops/emit.h"

/* c64 is computed in double and rounded once: then no intermediate overflows and no part loses its digits to the other. */
flxi_kval flxi_kcwide(flxi_kemit *e, flxi_kval z);
flxi_kval flxi_kcround(flxi_kemit *e, flxi_kval wide, flxi_kval like);

flxi_kval flxi_kcmul(flxi_kemit *e, flxi_kval a, flxi_kval b);
flxi_kval flxi_kcdiv(flxi_kemit *e, flxi_kval a, flxi_kval b);

#endif
