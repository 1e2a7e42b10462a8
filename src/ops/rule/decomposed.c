/* SPDX-License-Identifier: Apache-2.0 */
/* decomposed.c: see decomposed.h. */
#include "ops/rule/decomposed.h"

#include "ops/rule/body/bodies.h"

#include <stdio.h>

/* A form of the op as a graph on operands of these types; NULL with the error in s->g. */
static flx_graph *graph_of(flxi_site *s, flxi_expansion form, const flx_type *types)
{
    flx_graph *t = flx_graph_new(s->ctx, s->op->name);
    flx_val *x = flxi_new(&s->g->arena, flx_val, s->nin);
    flx_val *y = flxi_new(&s->g->arena, flx_val, s->nout);
    char name[24];
    if (!t || !x || !y) {
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
        flx_graph_release(t);
        return NULL;
    }
    for (uint32_t i = 0; i < s->nin; i++) {
        snprintf(name, sizeof name, "x%u", i);
        x[i] = flx_input(t, name, &types[i]);
    }
    flxi_site inner = *s;
    inner.g = t;
    inner.x = x;
    inner.y = NULL;
    form(&inner, y);
    for (uint32_t k = 0; k < s->nout; k++)
        flx_output(t, y[k], NULL);
    if (!t->error.code)
        return t;
    flxi_graph_fail(s->g, &t->error);
    flx_graph_release(t);
    return NULL;
}

static bool carries_derivative(flxi_site *s, flx_val v)
{
    return flxi_in(FLXI_FLOATS | FLXI_COMPLEX, flxi_typeof(s, v)->dtype);
}

/* Room for all inputs and outputs of a transformed decomposition. */
typedef struct {
    flx_type *types;
    flx_val *in, *out;
    bool *chosen; /* of the results: with a cotangent, or batched */
} room;

static bool make_room(flxi_site *s, room *r)
{
    flxi_arena *arena = &s->g->arena;
    uint32_t n = s->nin + s->nout;
    r->types = flxi_new(arena, flx_type, s->nin);
    r->in = flxi_new(arena, flx_val, n + s->nin);
    r->out = flxi_new(arena, flx_val, n + s->nout);
    r->chosen = flxi_new(arena, bool, n);
    if (!r->types || !r->in || !r->out || !r->chosen) {
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
        return false;
    }
    for (uint32_t i = 0; i < s->nin; i++) {
        r->types[i] = *flxi_typeof(s, s->x[i]);
        r->in[i] = s->x[i];
    }
    return !s->g->error.code;
}

static void inline_and_free(flxi_site *s, flx_graph *made, const room *r)
{
    if (made)
        flxi_inline(s->g, made, r->in, r->out);
    flx_graph_release(made);
}

void flxi_vjp_through(flxi_site *s, flxi_expansion form, const flx_val *dy, flx_val *dx)
{
    room r;
    uint32_t n = s->nin;
    uint32_t at = 0;
    flx_graph *t = make_room(s, &r) ? graph_of(s, form, r.types) : NULL;
    if (!t)
        return;
    for (uint32_t k = 0; k < s->nout; k++) {
        r.chosen[k] = !flxi_is_none(dy[k]);
        if (r.chosen[k])
            r.in[n++] = dy[k];
    }
    inline_and_free(s, s->bodies->vjp(s, t, r.chosen, s->wanted), &r);
    for (uint32_t i = 0; i < s->nin; i++)
        if (s->wanted[i])
            dx[i] = r.out[at++];
    flx_graph_release(t);
}

void flxi_vjp_decomposed(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flxi_vjp_through(s, s->op->rules->decompose, dy, dx);
}

void flxi_jvp_through(flxi_site *s, flxi_expansion form, const flx_val *tx, flx_val *ty)
{
    room r;
    uint32_t n = s->nin;
    uint32_t at = s->nout; /* the results themselves come first */
    flx_graph *t = make_room(s, &r) ? graph_of(s, form, r.types) : NULL;
    if (!t)
        return;
    for (uint32_t i = 0; i < s->nin; i++) {
        r.chosen[i] = !flxi_is_none(tx[i]);
        if (r.chosen[i])
            r.in[n++] = tx[i];
    }
    inline_and_free(s, s->bodies->jvp(s, t, r.chosen), &r);
    for (uint32_t k = 0; k < s->nout; k++)
        if (carries_derivative(s, s->y[k]))
            ty[k] = r.out[at++];
    flx_graph_release(t);
}

void flxi_jvp_decomposed(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flxi_jvp_through(s, s->op->rules->decompose, tx, ty);
}

void flxi_batch_decomposed(flxi_site *s, flx_val *by)
{
    room r;
    if (!make_room(s, &r))
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        if (s->batched[i])
            r.types[i] = flx_type_make((flx_dtype)r.types[i].dtype, r.types[i].rank - 1, r.types[i].dims + 1);
    flx_graph *t = graph_of(s, s->op->rules->decompose, r.types);
    if (!t)
        return;
    inline_and_free(s, s->bodies->vmap(s, t, s->batched, r.chosen, false), &r);
    for (uint32_t k = 0; k < s->nout; k++) {
        by[k] = r.out[k];
        s->by_batched[k] = r.chosen[k];
    }
    flx_graph_release(t);
}

/* The decomposition on operands of exactly these shapes is built, run, and freed. */
flx_code flxi_eval_decomposed(flxi_eval *e)
{
    flx_context *ctx = e->out[0]->ctx;
    flx_graph *t = flx_graph_new(ctx, e->op->name);
    char name[24];
    flx_val *x = t ? flxi_new(&t->arena, flx_val, e->nin) : NULL;
    flx_val *y = t ? flxi_new(&t->arena, flx_val, e->nout) : NULL;
    if (!x || !y) {
        flx_graph_release(t);
        return flxi_oom(e->err, "evaluating an op");
    }
    for (uint32_t i = 0; i < e->nin; i++) {
        snprintf(name, sizeof name, "x%u", i);
        x[i] = flx_input(t, name, &e->in[i]->type);
    }
    flxi_site s = {.g = t, .ctx = ctx, .op = e->op, .attrs = e->attrs, .nin = e->nin, .nout = e->nout, .x = x};
    flxi_origin_scope scope;
    flxi_origin_begin_op(&scope, e->op, e->label, e->origin);
    e->op->rules->decompose(&s, y);
    flxi_origin_end(&scope);
    for (uint32_t k = 0; k < e->nout; k++)
        flx_output(t, y[k], NULL);
    flx_code code = flxi_graph_check(t, e->err);
    if (code == FLX_OK)
        code = flxi_eval_body(e, t, e->in);
    flx_graph_release(t);
    return code;
}
