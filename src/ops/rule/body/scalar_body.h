/* SPDX-License-Identifier: Apache-2.0 */
/* scalar_body.h: sub-graphs applied to single elements, as by reduce, map and sort's comparison.

   Each input of such a body is a scalar of the dtype of one operand; a function says which one, so that inference and
   evaluation cannot disagree. */
#ifndef FLXI_SCALAR_BODY_H
#define FLXI_SCALAR_BODY_H

#include "graph/op/eval.h"
#include "graph/op/infer.h"

/* The operand, of `nin`, that body input j is an element of. */
typedef uint32_t (*flxi_body_operand)(uint32_t nin, size_t j);

/* ---- Inference ---- */

/* Checks that the body takes n scalars of the dtypes given by `operand`. */
flx_code flxi_match_scalar_body(flxi_infer *f, const char *attr, const flx_graph *body, size_t n,
                                flxi_body_operand operand);
/* Output i of the body is a scalar, of this dtype unless it is FLX_DTYPE_NONE. */
flx_code flxi_match_scalar_output(flxi_infer *f, const char *attr, const flx_graph *body, size_t i, int32_t dtype);

/* ---- Evaluation ---- */

#define FLXI_SCALAR_BYTES 16 /* of the widest dtype */

typedef struct {
    flxi_eval *e;
    const flx_graph *body;
    size_t nin, nout;
    flx_tensor **in; /* rank 0, reused from call to call */
    flx_tensor **out;
    unsigned char *results; /* FLXI_SCALAR_BYTES for each output of the last call */
} flxi_scalar_body;

/* End it with flxi_scalar_body_end() whether this succeeds or not. */
flx_code flxi_scalar_body_begin(flxi_scalar_body *b, flxi_eval *e, const flx_graph *body, size_t n,
                                flxi_body_operand operand);
void flxi_scalar_body_end(flxi_scalar_body *b);

/* Input j of the next call becomes element k of an array of its dtype. */
void flxi_scalar_body_set(flxi_scalar_body *b, size_t j, const void *base, int64_t k);
flx_code flxi_scalar_body_call(flxi_scalar_body *b);
/* Output i of the last call; valid until the next. */
static inline const void *flxi_scalar_body_result(const flxi_scalar_body *b, size_t i)
{
    return b->results + i * FLXI_SCALAR_BYTES;
}

#endif
