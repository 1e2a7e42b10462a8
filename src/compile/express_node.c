/* SPDX-License-Identifier: Apache-2.0 */
/* express_node.c: the frame around an op's lowering rule: operands are broadcast and widened before it, the result is
   rounded after it. */
#include "compile/express_node.h"

enum { FEW = 8 };

typedef struct {
    flxi_express e;
    flxi_express_frame l;
    const flx_type *few[2 * FEW];
} frame;

static int32_t wide_dtype(int32_t dtype)
{
    return dtype == FLX_F16 || dtype == FLX_BF16 ? FLX_F32 : dtype;
}

/* Types of operands and results; NULL when memory is exhausted, which the builder then knows. */
static bool open_frame(frame *f, const flx_graph *g, flxi_kb *k, uint32_t i, flxi_operand_fn operand, void *user)
{
    const flxi_node *n = flxi_node_at(g, i);
    const flx_type **types = f->few;
    if (n->nin > FEW || n->nout > FEW)
        types = flxi_new(&k->k->arena, const flx_type *, (size_t)n->nin + n->nout);
    if (!types) {
        if (flxi_kb_ok(k))
            flxi_oom(&k->err, "lowering a node");
        return false;
    }
    for (uint32_t j = 0; j < n->nin; j++)
        types[j] = flxi_type_at(g, n->in[j]);
    for (uint32_t j = 0; j < n->nout; j++)
        types[n->nin + j] = flxi_type_at(g, n->first + j);
    f->l = (flxi_express_frame){g, i, user};
    f->e = (flxi_express){.k = k,
                          .op = &flxi_ops[n->op],
                          .attrs = n->attrs,
                          .nin = n->nin,
                          .nout = n->nout,
                          .in = types,
                          .out = types + n->nin,
                          .operand = operand,
                          .user = &f->l};
    f->e.dtype = wide_dtype(n->nin ? types[0]->dtype : types[n->nin]->dtype);
    return true;
}

static flxi_kval as_dtype(flxi_kb *k, flxi_kval x, int32_t from, int32_t to)
{
    return from == to ? x : flxi_kreal(flxi_kb_cast(k, (uint32_t)to, x.re));
}

/* ---- Elements ---- */

static flxi_kval pointwise(frame *f, const flxi_kindex *at)
{
    flxi_express *e = &f->e;
    flxi_kval few[FEW];
    flxi_kval *x = e->nin > FEW ? flxi_new(&e->k->k->arena, flxi_kval, e->nin) : few;
    if (!x) {
        flxi_oom(&e->k->err, "lowering a node");
        return (flxi_kval){0};
    }
    flxi_kindex asked = *at;
    for (uint32_t j = 0; j < e->nin; j++) {
        flxi_kindex there = flxi_at_broadcast(e, e->in[j], e->out[0], &asked);
        x[j] = as_dtype(e->k, e->operand(e, j, &there), e->in[j]->dtype, wide_dtype(e->in[j]->dtype));
    }
    int32_t dtype = e->out[0]->dtype;
    return as_dtype(e->k, e->op->rules->element(e, x), wide_dtype(dtype), dtype);
}

flxi_kval flxi_express_element(const flx_graph *g, flxi_kb *k, uint32_t i, uint32_t result, const flxi_kindex *at,
                               flxi_operand_fn operand, void *user)
{
    frame f;
    if (!open_frame(&f, g, k, i, operand, user))
        return (flxi_kval){0};
    return f.e.op->rules->element ? pointwise(&f, at) : f.e.op->rules->pull(&f.e, result, at);
}

flxi_kval flxi_express_operand(const flx_graph *g, flxi_kb *k, uint32_t i, uint32_t operand, const flxi_kindex *at,
                               flxi_operand_fn answer, void *user)
{
    frame f;
    return open_frame(&f, g, k, i, answer, user) ? answer(&f.e, operand, at) : (flxi_kval){0};
}

/* ---- Folds ---- */

flxi_kval flxi_express_start(const flx_graph *g, flxi_kb *k, uint32_t i)
{
    frame f;
    return open_frame(&f, g, k, i, NULL, NULL) ? f.e.op->rules->fold->start(&f.e) : (flxi_kval){0};
}

flxi_kval flxi_express_join(const flx_graph *g, flxi_kb *k, uint32_t i, flxi_kval a, flxi_kval b)
{
    frame f;
    if (!open_frame(&f, g, k, i, NULL, NULL))
        return (flxi_kval){0};
    const flxi_kfold *fold = f.e.op->rules->fold;
    return fold->join ? fold->join(&f.e, a, b) : fold->step(&f.e, a, b);
}

flxi_kval flxi_express_step(const flx_graph *g, flxi_kb *k, uint32_t i, flxi_kval acc, flxi_kval x)
{
    frame f;
    if (!open_frame(&f, g, k, i, NULL, NULL))
        return (flxi_kval){0};
    int32_t dtype = f.e.in[0]->dtype;
    flxi_kval wide = as_dtype(k, x, dtype, wide_dtype(dtype));
    wide.im = x.im;
    return f.e.op->rules->fold->step(&f.e, acc, wide);
}

flxi_kval flxi_express_finish(const flx_graph *g, flxi_kb *k, uint32_t i, flxi_kval acc, int64_t count)
{
    frame f;
    if (!open_frame(&f, g, k, i, NULL, NULL))
        return (flxi_kval){0};
    const flxi_kfold *fold = f.e.op->rules->fold;
    int32_t dtype = f.e.out[0]->dtype;
    return as_dtype(k, fold->finish ? fold->finish(&f.e, acc, count) : acc, wide_dtype(dtype), dtype);
}
