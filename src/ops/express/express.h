/* SPDX-License-Identifier: Apache-2.0 */
/* express.h: ops as kernel expressions, as the rule of an op sees them.

   The rules say what one element of a result is, as expressions of a kernel: `element` for pointwise ops, `pull` for
   ops that read their operands elsewhere, `fold` for reductions. The caller (src/compile) decides which elements are
   computed together, in what order and by how many lanes, and turns the elements of operands into loads or into the
   expressions of their own ops. All shapes are static by then. Rules cannot fail: the builder keeps the first
   error. */
#ifndef FLXI_EXPRESS_H
#define FLXI_EXPRESS_H

#include "graph/graph.h"
#include "kernel/program/kernel.h"

/* Where an element is: expressions of type u32. One of the two forms may be missing (0). */
struct flxi_kindex {
    uint32_t flat;              /* position in row-major order */
    uint32_t dim[FLX_MAX_RANK]; /* of each axis */
};

struct flxi_express {
    flxi_kb *k;
    const flxi_op *op;
    const void *attrs;
    uint32_t nin, nout;
    const flx_type *const *in; /* f16 and bf16 are seen as f32 by `element` and `fold` (see `dtype`) */
    const flx_type *const *out;
    int32_t dtype; /* of x[0] in `element` and of the accumulator in `fold`: the type of the arithmetic */
    /* The operand's element at an index of its type; of the dtype that the operand has (f16 and bf16 are not
       widened). */
    flxi_kval (*operand)(flxi_express *e, uint32_t operand, const flxi_kindex *at);
    void *user;
};

/* A reduction: acc = start; for each element acc = step(acc, x); finish(acc). `step` must be associative and
   commutative up to rounding, with `start` as its neutral element: lanes and chunks are folded separately and then
   together. A fold of positions has a pair as accumulator, a value and in `im` its position along the axis as u32; its
   steps come in ascending order of positions, and `join` combines what two lanes have. */
typedef struct flxi_kfold {
    flxi_kval (*start)(flxi_express *e);
    flxi_kval (*step)(flxi_express *e, flxi_kval acc, flxi_kval x);
    flxi_kval (*finish)(flxi_express *e, flxi_kval acc, int64_t count); /* NULL: nothing to do */
    flx_ints (*axes)(const void *attrs);                                /* sorted, of operand 0 */
    flxi_kval (*join)(flxi_express *e, flxi_kval a, flxi_kval b);       /* of two accumulators; NULL: `step` */
    const char *value_op; /* of a fold of positions: the reduction that gives the value; NULL: no positions */
    bool is_exact;        /* steps on real numbers never round: any order gives the same bits */
} flxi_kfold;

/* Whether a node can become (part of) a kernel. */
bool flxi_can_express(const flxi_op *op, const void *attrs, const flx_type *const *in, uint32_t nin);

/* ---- Types ---- */

/* The kernel type of an element's value (of one part, for complex dtypes); bool values are bool. */
uint32_t flxi_kernel_dtype(int32_t dtype);
/* The kernel type in which a buffer holds elements: as above, but bool as u8; complex numbers take two neighbouring
   elements. */
uint32_t flxi_kernel_storage(int32_t dtype);

/* ---- Arithmetic ---- */

static inline flxi_kval flxi_kreal(uint32_t re)
{
    return (flxi_kval){re, 0};
}
uint32_t flxi_k1(flxi_express *e, flxi_kunary op, uint32_t x);
uint32_t flxi_k2(flxi_express *e, flxi_kbinary op, uint32_t x, uint32_t y);
uint32_t flxi_kc(flxi_express *e, uint32_t like, double value); /* a number of the type of `like` */
/* Puts a value that is used several times in a variable: expressions are trees, and each use of one computes it
   again. */
uint32_t flxi_khold(flxi_express *e, uint32_t x);
flxi_kval flxi_khold_value(flxi_express *e, flxi_kval x);
const char *flxi_kname(flxi_express *e); /* for a new variable */
/* The integer type of the same width without a sign, or with one. */
uint32_t flxi_kunsigned(uint32_t type);
uint32_t flxi_ksigned(uint32_t type);
/* Part by part. */
flxi_kval flxi_kparts(flxi_express *e, flxi_kbinary op, flxi_kval x, flxi_kval y);
/* A value after `cast` to bool. */
uint32_t flxi_ktruth(flxi_express *e, flxi_kval x);

/* For `lowers`: the rule does not support complex numbers. */
bool flxi_expresses_reals(const void *attrs, const flx_type *const *in, uint32_t nin);

/* ---- Indices: sums, products, quotients and remainders of u32, simplified where that is easy ---- */

uint32_t flxi_ku(flxi_express *e, int64_t value);
uint32_t flxi_ku_add(flxi_express *e, uint32_t x, uint32_t y);
uint32_t flxi_ku_sub(flxi_express *e, uint32_t x, uint32_t y);
uint32_t flxi_ku_mul(flxi_express *e, uint32_t x, int64_t c);
uint32_t flxi_ku_div(flxi_express *e, uint32_t x, int64_t c); /* c > 0 */
uint32_t flxi_ku_mod(flxi_express *e, uint32_t x, int64_t c);

/* The index along one axis, and the position; computed from the other form if needed and stored in `at`. */
uint32_t flxi_at_axis(flxi_express *e, const flx_type *t, flxi_kindex *at, int axis);
uint32_t flxi_at_flat(flxi_express *e, const flx_type *t, flxi_kindex *at);
/* The index of a broadcast operand of type `t` for an index of the result type `to`. */
flxi_kindex flxi_at_broadcast(flxi_express *e, const flx_type *t, const flx_type *to, flxi_kindex *at);

/* The index of a tensor of type `from` that is read under the shape of `to`, which has as many elements. Axes that
   agree keep their index, which avoids needless divisions. */
flxi_kindex flxi_at_reshape(flxi_express *e, const flx_type *from, const flx_type *to, flxi_kindex *at);

/* The index of each axis of result 0. */
flxi_kindex flxi_at_axes(flxi_express *e, const flxi_kindex *at);
/* x where c holds, else 0. */
uint32_t flxi_ku_guarded(flxi_express *e, uint32_t c, uint32_t x);

/* The operand's element. */
static inline flxi_kval flxi_operand_at(flxi_express *e, uint32_t operand, const flxi_kindex *at)
{
    return e->operand(e, operand, at);
}

/* Zero and one of a dtype; chooses a where c. */
flxi_kval flxi_kzero(flxi_express *e, int32_t dtype);
flxi_kval flxi_kone(flxi_express *e, int32_t dtype);
flxi_kval flxi_kchoose(flxi_express *e, uint32_t c, flxi_kval a, flxi_kval b);

#endif
