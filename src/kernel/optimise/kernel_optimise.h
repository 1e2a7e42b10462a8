/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_optimise.h: the passes of the optimiser. Each takes a valid program and returns an equivalent one that does
   less work; each keeps the interpreter's results bit for bit (the payload of a NaN is not a result) and reaches a
   fixed point after finitely many runs on its own result. kernel_optimise.c lists them in order. */
#ifndef FLXI_KERNEL_OPTIMISE_H
#define FLXI_KERNEL_OPTIMISE_H

#include "kernel/program/kernel.h"

enum {
    FLXI_KERNEL_ZERO_SUMS = 1, /* 0 + x may become x, which differs for x = -0: derivatives start from such a zero */
};

typedef struct {
    uint32_t flags;
    /* By number: buffers whose contents are not needed after the dispatch, so that a store there matters only if it is
       loaded; they are dropped when nothing refers to them any more. NULL: only workgroup and private ones. */
    const uint8_t *only_if_loaded;
} flxi_ksimplify_options;

typedef flx_kernel *(*flxi_kpass_fn)(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* What transforms run on their results: propagate, fold, cse, constant branches and dce until nothing changes. */
flx_kernel *flxi_kernel_simplify(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* ---- Passes, by file ---- */

/* kernel_dce.c: drops what no result needs: variables, stores to buffers that are never read, barriers that separate
   nothing, code after a return, unused functions and buffers. */
flx_kernel *flxi_kpass_dce(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* kernel_fold.c: operations on literals, and identities. */
flx_kernel *flxi_kpass_fold(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* kernel_propagate.c: variables that are known to be a literal or another variable are replaced; lets that are used
   once move to their use; a variable that is assigned again in the list of its let becomes several. */
flx_kernel *flxi_kpass_propagate(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* kernel_coalesce.c: moves an assignment up to the let that computes its value. */
flx_kernel *flxi_kpass_coalesce(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* kernel_cse.c: equal pure expressions are computed once where one dominates the others. */
flx_kernel *flxi_kpass_cse(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* kernel_if.c: branches whose condition is a literal or is known from an enclosing branch, loops that never run, empty
   branches. */
flx_kernel *flxi_kpass_if(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);
/* kernel_if.c: branches that only assign cheap values become selects. */
flx_kernel *flxi_kpass_select(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* kernel_bounds.c: comparisons, min, max and mod that the ranges of their operands decide. */
flx_kernel *flxi_kpass_bounds(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* kernel_dead_store.c: loads of what was just stored; stores that are overwritten before they are read. */
flx_kernel *flxi_kpass_forward(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);
flx_kernel *flxi_kpass_dead_store(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* kernel_licm.c: moves loop-invariant code before the loop. */
flx_kernel *flxi_kpass_licm(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);
/* Only loads, and values that have no derivative: before differentiation, of a normalised program. */
flx_kernel *flxi_kernel_hoist_loads(const flx_kernel *k, flx_error *err);

/* kernel_strength.c: shifts, masks and products instead of products, quotients and remainders. */
flx_kernel *flxi_kpass_strength(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* kernel_unroll.c: unrolls short loops, peels first iterations that are special, and strip-mines long inner loops. */
flx_kernel *flxi_kpass_unroll(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);
flx_kernel *flxi_kpass_peel(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);
flx_kernel *flxi_kpass_strip_mine(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* kernel_loop_fusion.c: adjacent loops over the same range, or branches of the same condition, become one; bodies
   that are too long become two. */
flx_kernel *flxi_kpass_fuse(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);
flx_kernel *flxi_kpass_split(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* kernel_barriers.c: removes barriers that separate nothing. */
flx_kernel *flxi_kpass_barriers(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* kernel_inline.c: replaces calls, blocks and regions by their contents: small ones, or all of them. */
flx_kernel *flxi_kpass_inline(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);
flx_kernel *flxi_kpass_inline_always(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err);

/* Names of all passes, in the order in which they run; NULL after the last. */
const char *flxi_kernel_pass_name(size_t i);

#endif
