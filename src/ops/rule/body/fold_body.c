/* SPDX-License-Identifier: Apache-2.0 */
/* fold_body.c: the first n inputs of the body are the accumulators; they hold the state of a fold between its steps. */
#include "ops/rule/body/fold_body.h"

#include "graph/graph.h"
#include "ops/rule/copy.h"

/* ---- Inference ---- */

flx_code flxi_need_inits(flxi_infer *f, uint32_t *n)
{
    static const char *const hint = "operands are x1, x2, ..., then one scalar init for each";
    flxi_type_text text;
    if (f->nin == 0 || f->nin % 2 != 0)
        return flxi_infer_fail(f, FLX_E_ARITY, hint, "%u operands cannot be the same number of arrays and inits",
                               f->nin);
    *n = f->nin / 2;
    for (uint32_t i = *n; i < f->nin; i++)
        if (f->in[i]->rank != 0)
            return flxi_infer_fail(f, FLX_E_SHAPE, hint,
                                   "operand %u, the init of operand %u, must be a scalar, but it is %s", i, i - *n,
                                   flxi_type_str(f->ctx, f->in[i], &text));
    return FLX_OK;
}

/* Accumulators have the types of the inits. */
static uint32_t fold_operand(uint32_t nin, size_t j)
{
    uint32_t half = nin / 2;
    return (uint32_t)(j < half ? j + half : j - half);
}

flx_code flxi_match_fold_body(flxi_infer *f, const char *attr, const flx_graph *body)
{
    size_t n = f->nin / 2;
    FLXI_TRY(flxi_match_scalar_body(f, attr, body, f->nin, fold_operand));
    if (flxi_body_outputs(body) != n)
        return flxi_infer_fail(f, FLX_E_ARITY, "it must return one new accumulator for each init",
                               "%s returns %zu values, expected %zu", attr, flxi_body_outputs(body), n);
    for (size_t i = 0; i < n; i++)
        FLXI_TRY(flxi_match_scalar_output(f, attr, body, i, f->in[n + i]->dtype));
    return FLX_OK;
}

const flxi_op *flxi_body_combination(const flx_graph *body)
{
    const flxi_op *op = NULL;
    uint32_t result = 0;
    if (body->leaves.n != 2 || body->outputs.n != 1)
        return NULL;
    for (uint32_t i = 0; i < body->node_count; i++) {
        const flxi_node *n = flxi_node_at(body, i);
        if (flxi_ops[n->op].traits & TRAIT_DECLARED)
            continue;
        if (op || n->nin != 2 || n->in[0] == n->in[1])
            return NULL;
        op = &flxi_ops[n->op];
        result = n->first;
    }
    return op && body->outputs.at[0].val == result ? op : NULL;
}

/* ---- Evaluation ---- */

flx_code flxi_fold_begin(flxi_scalar_body *b, flxi_eval *e, const flx_graph *body)
{
    return flxi_scalar_body_begin(b, e, body, e->nin, fold_operand);
}

void flxi_fold_start(flxi_scalar_body *b)
{
    size_t n = b->nin / 2;
    for (size_t j = 0; j < n; j++)
        flxi_scalar_body_set(b, j, b->e->in[n + j]->data, 0);
}

flx_code flxi_fold_step(flxi_scalar_body *b, int64_t at)
{
    size_t n = b->nin / 2;
    for (size_t j = 0; j < n; j++)
        flxi_scalar_body_set(b, n + j, b->e->in[at < 0 ? n + j : j]->data, at < 0 ? 0 : at);
    FLXI_TRY(flxi_scalar_body_call(b));
    for (size_t j = 0; j < n; j++)
        flxi_scalar_body_set(b, j, flxi_scalar_body_result(b, j), 0);
    return FLX_OK;
}

void flxi_fold_store(const flxi_scalar_body *b, int64_t i)
{
    for (size_t j = 0; j < b->nin / 2; j++)
        flxi_copy_element(b->e->out[j]->data, i, b->in[j]->data, 0, b->in[j]->nbytes);
}
