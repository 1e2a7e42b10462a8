/* SPDX-License-Identifier: Apache-2.0 */
/* mixed_precision.c: products in 16 bits, everything else in f32. Ops that are products of their operands (matrix
   products, einsum, convolutions) read f32 operands rounded to the low dtype; they sum in f32 and round once. What only
   moves elements keeps them in the low dtype; all other ops (sums, norms, softmax, functions) see f32. Inputs, outputs
   and the ends of bodies keep their types, so parameters stay f32, and so do their gradients. */
#include "graph/op/origin.h"
#include "passes/pass.h"

#include <fluxion/lower.h>
#include <fluxion/ops.h>
#include <fluxion/transform.h>

typedef struct {
    const flx_graph *from;
    flx_graph *to; /* held */
} mixed_body;

typedef struct {
    flx_context *ctx;
    flx_dtype low;
    FLXI_VEC(mixed_body) bodies; /* each is changed once, however often it is used */
} mixing;

typedef struct {
    const mixing *m;
    flxi_copy c;     /* its remap has values in their own dtype */
    uint32_t *lower; /* by id of the old graph: the same value in the low dtype, or 0 */
} mixed_copy;

static flx_code mix_graph(mixing *m, const flx_graph *in, flx_graph **out, flx_error *err);

static flx_graph *mix_body(void *user, const flx_graph *body, flx_error *err)
{
    mixing *m = user;
    mixed_body made = {.from = body};
    for (size_t i = 0; i < m->bodies.n; i++)
        if (m->bodies.at[i].from == body)
            return m->bodies.at[i].to;
    if (mix_graph(m, body, &made.to, err) != FLX_OK)
        return NULL;
    if (!flxi_push(&m->ctx->mem, &m->bodies, made)) {
        flx_graph_release(made.to);
        flxi_oom(err, "mixed precision");
        return NULL;
    }
    return made.to;
}

/* ---- Nodes ---- */

static bool has_f32(const flx_graph *g, const flxi_node *n)
{
    for (uint32_t k = 0; k < n->nin; k++)
        if (flxi_type_at(g, n->in[k])->dtype == FLX_F32)
            return true;
    return false;
}

/* Of f32 operands, as inference requires all to have one dtype. */
static bool is_product(const mixed_copy *x, const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    return op->op_class == CLASS_PRODUCT && (op->traits & TRAIT_MULTILINEAR) && n->nout == 1 &&
           flxi_type_at(x->c.from, n->first)->dtype == FLX_F32 && has_f32(x->c.from, n);
}

/* Moves elements of one value that is there in the low dtype. */
static bool moves_low(const mixed_copy *x, const flxi_node *n)
{
    return flxi_ops[n->op].op_class == CLASS_SHAPE && n->nin == 1 && n->nout == 1 && x->lower[n->in[0]] &&
           flxi_type_at(x->c.from, n->first)->dtype == FLX_F32;
}

static uint32_t lower_id(mixed_copy *x, uint32_t value)
{
    flx_graph *g = x->c.to;
    if (!x->lower[value])
        x->lower[value] = flx_cast(g, ((flx_val){x->c.remap.id[value], g->serial}), x->m->low).id;
    return x->lower[value];
}

static flx_code graph_code(const flx_graph *g, flx_error *err)
{
    if (err)
        *err = g->error;
    return (flx_code)g->error.code;
}

/* The node on operands of the low dtype; its result is there in both. */
static flx_code add_low(mixed_copy *x, const flxi_node *n)
{
    flx_graph *g = x->c.to;
    void *attrs;
    FLXI_TRY(flxi_attrs_clone(g, &flxi_ops[n->op], n->attrs, &x->c.attrs, &attrs, x->c.err));
    uint32_t *in = flxi_new(&g->arena, uint32_t, n->nin);
    if (!in)
        return flxi_oom(x->c.err, "mixed precision");
    for (uint32_t k = 0; k < n->nin; k++) {
        bool is_f32 = flxi_type_at(x->c.from, n->in[k])->dtype == FLX_F32;
        in[k] = is_f32 ? lower_id(x, n->in[k]) : x->c.remap.id[n->in[k]];
    }
    uint32_t y = g->error.code ? 0 : flxi_add_node(g, n->op, in, n->nin, attrs);
    if (!y)
        return graph_code(g, x->c.err);
    flxi_copy_origin(g, n);
    x->lower[n->first] = y;
    g->pending_label = flxi_value_at(x->c.from, n->first)->name;
    flx_val wide = flx_cast(g, ((flx_val){y, g->serial}), FLX_F32);
    g->pending_label = NULL;
    FLXI_TRY(flxi_built(g, x->c.err));
    flxi_copy_replace(&x->c, n->first, wide.id);
    return FLX_OK;
}

static flx_code mix_graph(mixing *m, const flx_graph *in, flx_graph **out, flx_error *err)
{
    mixed_copy x = {.m = m};
    flx_graph *whole = NULL;
    size_t ids = (size_t)in->value_count + 1;
    x.lower = flxi_alloc(&m->ctx->mem, ids, sizeof *x.lower);
    if (!x.lower)
        return flxi_oom(err, "mixed precision");
    flx_code code = flxi_copy_begin(&x.c, in, err);
    x.c.attrs = (flxi_attr_map){.body = mix_body, .user = m};
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        code = is_product(&x, n) || moves_low(&x, n) ? add_low(&x, n) : flxi_copy_node(&x.c, i);
    }
    code = flxi_copy_end(&x.c, code, &whole, NULL);
    if (code == FLX_OK)
        code = flxi_simplify(whole, out, NULL, err); /* casts that nothing reads, or that follow each other */
    flx_graph_release(whole);
    flxi_free(&m->ctx->mem, x.lower, ids, sizeof *x.lower);
    return code;
}

/* ---- The whole ---- */

static flx_code mix(const flx_graph *g, flx_dtype low, flx_graph **out, flx_error *err)
{
    if (low != FLX_BF16 && low != FLX_F16)
        return flxi_fail_hint(err, FLX_E_DTYPE, "use bf16 or f16", "products in %s are not mixed precision",
                              flx_dtype_name(low) ? flx_dtype_name(low) : "an unknown dtype");
    flx_graph *primitive = flx_lower(g, FLX_POLICY_FOR_AUTODIFF, err);
    if (!primitive)
        return (flx_code)err->code;
    mixing m = {.ctx = g->ctx, .low = low};
    flx_code code = mix_graph(&m, primitive, out, err);
    for (size_t i = 0; i < m.bodies.n; i++)
        flx_graph_release(m.bodies.at[i].to);
    flxi_vec_free(&g->ctx->mem, &m.bodies);
    flx_graph_release(primitive);
    return code;
}

flx_graph *flx_mixed_precision(const flx_graph *g, flx_dtype low, flx_error *err)
{
    flx_error local = {0};
    flx_graph *out = NULL;
    flx_code code = flx_graph_error(g, &local);
    if (code == FLX_OK)
        code = mix(g, low, &out, &local);
    if (code != FLX_OK && err)
        *err = local;
    return code == FLX_OK ? out : NULL;
}
