/* SPDX-License-Identifier: Apache-2.0 */
/* error_bound.h: how far compiled code may be from the reference evaluator, derived for each graph and its values.

   Compiled code computes the same mathematical expression with other roundings: sums in another order, functions of its
   own, intermediate results rounded elsewhere or not at all. What such roundings can do to a result is a property of
   the graph at these values, and it is measured: the reference evaluator runs the graph several times more with random
   noise. Every result of an op that rounds is moved to a neighbouring number of its dtype, up or down; an op that is
   not element by element sees its operands moved as well, as algorithms are as good as that (backward stable) at best;
   ops that consist of others are computed by those. With y the result without noise and y_r the results with it, the
   bound for an element is

       8 units of |y|  +  8 max_r |y_r - y|,   the second part at most sqrt(unit) of the largest number of its tensor
       and the inputs.

   The first 8 stand for the op that makes the result, whose function may be off by 4 units (docs/performance.md),
   rounded in compiled code and in the reference; the second 8 for the same of all ops before it, whose noise is one
   unit. (The noise of a sum of n terms is sqrt(n)/8 units where that is more, as its roundings add up.) The limit is
   half of the digits: a graph that loses more says nothing about the compiler, and must not pass for that reason. Where
   nothing cancels the bound is about 16 units, and a relative error of 1e-5 in f32 is found.

   Integers and bools are exact; a NaN agrees with any NaN, an infinity only with itself. */
#ifndef FLX_ERROR_BOUND_H
#define FLX_ERROR_BOUND_H

#include "ops/opcode.h"

#include <fluxion/fluxion.h>
#include <stdbool.h>

/* Whether an op computes numbers that must be rounded, and does not only choose, move or negate some. */
bool op_rounds(flxi_opcode op);

/* The distance from 1 to the next number; 0 for dtypes that are exact. */
double unit_of(int32_t dtype);

/* The first part: 8 units of |y|, of the smallest normal number where that is more. */
double element_bound(int32_t dtype, double magnitude);

/* The second part, for each element of each output; the caller frees the arrays, as many as there are outputs.
   `expected` are the results without noise. NULL where an output is exact. */
void noise_bounds(const flx_graph *g, flx_tensor *const *values, flx_tensor *const *expected, double **bounds);

/* The reference evaluator with noise from `seed`; without any for 0, when it gives the bits of flx_run(). */
flx_code noisy_run(const flx_graph *g, flx_tensor *const *values, uint64_t seed, flx_tensor **out, flx_error *err);

#endif
