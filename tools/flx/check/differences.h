/* SPDX-License-Identifier: Apache-2.0 */
/* differences.h: derivatives by central differences, extrapolated to step 0. */
#ifndef FLX_DIFFERENCES_H
#define FLX_DIFFERENCES_H

#include <fluxion/types.h>

/* Writes (f_i(h) - f_i(-h)) / 2h for each of the components to d, and to `noise` how far rounding of the f_i may have
   moved it. */
typedef flx_code (*slope_fn)(void *user, double h, double *d, double *noise, flx_error *err);

/* |a - b| / max(1, |a|, |b|): relative for large values, absolute for small ones; without limit unless both are
   finite. */
double scaled_error(double a, double b);

/* The error of the difference of two numbers about as large as `size`, each computed in f64 by a few operations. */
double rounding_of(double size);

/* The derivatives f_i'(0) of `count` functions, to `found`, and to `noise` how far rounding may have moved them. Goes
   on to smaller steps while they differ from the claimed ones by more than `close`. */
flx_code differentiate_numerically(slope_fn slope, void *user, size_t count, const double *claimed, double close,
                                   double *found, double *noise, flx_error *err);

#endif
