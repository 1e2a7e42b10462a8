/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_normalise.h: the form in which programs are differentiated. */
#ifndef FLXI_KERNEL_NORMALISE_H
#define FLXI_KERNEL_NORMALISE_H

#include "kernel/program/kernel.h"

/* An equivalent program in which
   - every expression is one operation on leaves (literals, variables, ids, lengths), bound by a let; conditions,
     bounds, indices and stored and assigned values are leaves;
   - calls are inlined, except those of functions that have their own derivative, and each extension that has one is
     represented by such a function; blocks and regions are gone, values that leave a region marked stop_gradient pass
     through that op, and lets and loops keep the other marks of their region;
   - a select whose arms could have infinite derivatives is a branch;
   - asynchronous copies are loops where they are waited for;
   - nothing returns: what would follow is under a condition;
   - an atomic is the value of a let, or of an effect when its result is not used;
   - loads from never-written buffers at indices that depend on no variable occur once, at the top: they serve a whole
     workgroup, so their derivatives can be summed there.
   Names are unique in the whole program. */
flx_kernel *flxi_kernel_normalise(const flx_kernel *k, flx_error *err);

static inline bool flxi_kx_is_leaf(const flxi_kx *e)
{
    return e->kind == KX_LITERAL || e->kind == KX_VAR || e->kind == KX_LENGTH || e->kind == KX_ID ||
           e->kind == KX_LANE || e->kind == KX_LANES;
}

/* The number of the fragment that gives the derivative of `fn` with respect to its parameter, or 0. */
uint32_t flxi_kernel_adjoint_fn(const flx_kernel *k, uint32_t fn, uint32_t param);

/* Emits the body of function `fn` of `k` into b and returns its result. Functions have no buffers, so only the
   arguments enter. */
uint32_t flxi_kernel_inline_call(flxi_kb *b, const flx_kernel *k, uint32_t fn, const uint32_t *args, flx_error *err);

/* Adds function 1 of `d`, `self`, and its derivatives to b under another name; its number. Calls in them are inlined.
   */
uint32_t flxi_kernel_copy_rule(flxi_kb *b, const flx_kernel *d, const char *name);

/* The same functions with the same numbers in b, which has none yet. */
void flxi_kernel_copy_functions(flxi_kb *b, const flx_kernel *k);

#endif
