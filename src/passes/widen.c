/* SPDX-License-Identifier: Apache-2.0 */
/* widen.c: the same computation in double precision. Every f32, f16 and bf16 becomes f64 and every c64 becomes c128: in
   the types of leaves, in constants (whose values stay exactly the same) and in attributes that name a dtype.
   Everything else is inferred again. A body is widened once however often it is used. What reads or makes the bytes of
   floats (`bitcast`) keeps its dtypes, between casts: so what is done with the bits still means the same. An op of the
   user that depends on the width of a float may no longer fit; then inference reports it. */
#include "graph/op/origin.h"
#include "kernel/derive/kernel_widen.h"
#include "ops/opcode.h"
#include "passes/pass.h"

#include <fluxion/ops.h>
#include <fluxion/transform.h>
#include <stdio.h>

typedef struct {
    const flx_graph *from;
    flx_graph *to; /* held */
} wide_body;

typedef struct {
    flx_context *ctx;
    FLXI_VEC(wide_body) bodies;
    FLXI_VEC(flx_tensor *) constants; /* held until the nodes that use them hold them */
} widening;

static flx_code widen_in(widening *w, const flx_graph *in, flx_graph **out, flx_error *err);

static int32_t wide_dtype(int32_t dtype)
{
    static const int32_t wide[FLX_DTYPE_COUNT] = {
        [FLX_F32] = FLX_F64, [FLX_F16] = FLX_F64, [FLX_BF16] = FLX_F64, [FLX_C64] = FLX_C128};
    return dtype > 0 && dtype < FLX_DTYPE_COUNT && wide[dtype] ? wide[dtype] : dtype;
}

static flx_graph *widen_body(void *user, const flx_graph *body, flx_error *err)
{
    widening *w = user;
    wide_body made = {.from = body};
    for (size_t i = 0; i < w->bodies.n; i++)
        if (w->bodies.at[i].from == body)
            return w->bodies.at[i].to;
    if (widen_in(w, body, &made.to, err) != FLX_OK)
        return NULL;
    if (!flxi_push(&w->ctx->mem, &w->bodies, made)) {
        flx_graph_release(made.to);
        flxi_oom(err, "widening");
        return NULL;
    }
    return made.to;
}

/* ---- Attributes ---- */

static int32_t widen_dtype(void *user, int32_t dtype)
{
    (void)user;
    return wide_dtype(dtype);
}

static const flx_tensor *widen_constant(void *user, const flx_tensor *from, flx_error *err)
{
    widening *w = user;
    int32_t dtype = wide_dtype(from->type.dtype);
    if (dtype == from->type.dtype)
        return from;
    flx_tensor *t = flx_tensor_cast(from, (flx_dtype)dtype, err);
    if (t && !flxi_push(&w->ctx->mem, &w->constants, t)) {
        flx_tensor_release(t);
        flxi_oom(err, "widening");
        return NULL;
    }
    return t;
}

static flx_code widen_kernel(void *user, const char *text, flx_buffer *out, flx_error *err)
{
    widening *w = user;
    flx_error local = {0};
    flx_kernel *k = flx_kernel_parse(w->ctx, text, strlen(text), "program", &local);
    flx_kernel *wide = k ? flxi_kernel_widen(k, &local) : NULL;
    if (wide)
        flx_kernel_print(wide, out, &local);
    flx_kernel_release(wide);
    flx_kernel_release(k);
    if (err)
        *err = local;
    return (flx_code)local.code;
}

/* ---- Nodes ---- */

static flx_code graph_code(const flx_graph *g, flx_error *err)
{
    if (err)
        *err = g->error;
    return (flx_code)g->error.code;
}

static flx_code widen_leaf(flxi_copy *c, const flxi_node *n)
{
    const flxi_value *v = flxi_value_at(c->from, n->first);
    flx_type type = *v->type;
    type.dtype = wide_dtype(type.dtype);
    uint32_t id = flxi_add_leaf_like(c->to, c->from, n->first, &type);
    if (!id)
        return graph_code(c->to, c->err);
    flxi_copy_replace(c, n->first, id);
    return FLX_OK;
}

static uint32_t as_dtype(flxi_copy *c, uint32_t id, int32_t dtype)
{
    if (!id || flxi_type_at(c->to, id)->dtype == dtype)
        return id;
    const flx_val x = {id, c->to->serial};
    return flx_cast(c->to, x, (flx_dtype)dtype).id;
}

/* The node as it is, on operands in the dtypes that it had. */
static flx_code keep_node(flxi_copy *c, const flxi_node *n)
{
    void *attrs;
    const flxi_attr_map as_it_is = {0};
    FLXI_TRY(flxi_attrs_clone(c->to, &flxi_ops[n->op], n->attrs, &as_it_is, &attrs, c->err));
    uint32_t *in = flxi_new(&c->to->arena, uint32_t, n->nin);
    if (!in)
        return flxi_oom(c->err, "widening");
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = as_dtype(c, c->remap.id[n->in[k]], flxi_type_at(c->from, n->in[k])->dtype);
    uint32_t first = c->to->error.code ? 0 : flxi_add_node(c->to, n->op, in, n->nin, attrs);
    if (first)
        flxi_copy_origin(c->to, n);
    for (uint32_t k = 0; first && k < n->nout; k++) {
        uint32_t id = as_dtype(c, first + k, wide_dtype(flxi_type_at(c->to, first + k)->dtype));
        if (id)
            flxi_copy_replace(c, n->first + k, id);
    }
    return graph_code(c->to, c->err);
}

static flx_code widen_node(flxi_copy *c, const flxi_node *n)
{
    void *attrs;
    if (flxi_ops[n->op].traits & TRAIT_DECLARED)
        return widen_leaf(c, n);
    if (n->op == OP_bitcast)
        return keep_node(c, n);
    FLXI_TRY(flxi_attrs_clone(c->to, &flxi_ops[n->op], n->attrs, &c->attrs, &attrs, c->err));
    uint32_t *in = flxi_new(&c->to->arena, uint32_t, n->nin);
    if (!in)
        return flxi_oom(c->err, "widening");
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = c->remap.id[n->in[k]];
    c->to->pending_label = n->nout ? flxi_value_at(c->from, n->first)->name : NULL;
    uint32_t first = flxi_add_node(c->to, n->op, in, n->nin, attrs);
    c->to->pending_label = NULL;
    if (first)
        flxi_copy_origin(c->to, n);
    if (!first)
        return graph_code(c->to, c->err);
    for (uint32_t k = 0; k < n->nout; k++)
        flxi_copy_replace(c, n->first + k, first + k);
    return FLX_OK;
}

static flx_code widen_in(widening *w, const flx_graph *in, flx_graph **out, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    c.attrs = (flxi_attr_map){
        .body = widen_body, .dtype = widen_dtype, .tensor = widen_constant, .kernel = widen_kernel, .user = w};
    c.retypes = true;
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++)
        code = widen_node(&c, flxi_node_at(in, i));
    return flxi_copy_end(&c, code, out, NULL);
}

/* Adds that the error arose here, and not in the original graph. */
static void in_widening(flx_error *err, const flx_graph *g)
{
    char inner[sizeof err->where];
    memcpy(inner, err->where, sizeof inner);
    snprintf(err->where, sizeof err->where, "widen of '%.40s'%s%.50s", g->name, inner[0] ? ", at " : "", inner);
    if (!err->hint[0])
        flxi_hint(err, "all floats become f64; an op that takes others alone cannot be widened");
}

flx_graph *flx_widen(const flx_graph *g, flx_error *err)
{
    flx_error local = {0};
    flx_graph *out = NULL;
    flx_code code = flx_graph_error(g, &local);
    if (code == FLX_OK) {
        widening w = {.ctx = g->ctx};
        code = widen_in(&w, g, &out, &local);
        for (size_t i = 0; i < w.bodies.n; i++)
            flx_graph_release(w.bodies.at[i].to);
        for (size_t i = 0; i < w.constants.n; i++)
            flx_tensor_release(w.constants.at[i]);
        flxi_vec_free(&g->ctx->mem, &w.bodies);
        flxi_vec_free(&g->ctx->mem, &w.constants);
    }
    if (code != FLX_OK && flxi_graph_alive(g))
        in_widening(&local, g);
    if (code != FLX_OK && err)
        *err = local;
    return code == FLX_OK ? out : NULL;
}
