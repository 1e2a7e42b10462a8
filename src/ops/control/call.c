/* SPDX-License-Identifier: Apache-2.0 */
/* call.c: a graph used as a function. Its derivatives and batched forms are calls again, of graphs that the transform
   makes once for all calls of the same body. So the work of every transform grows with the text of a program, not with
   the number of its calls in a run, which may be exponential in it.

   Reverse mode keeps what the backward part needs: the body becomes a function that also returns these values and
   another that takes them. Where there would be too many of them, or where some result has no cotangent, the backward
   part computes them again. */
#include "ops/control/control.h"
#include "ops/rule/body/bodies.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"

static const flxi_attr call_schema[] = {A_GRAPH_AS(call_attrs, body, "body"), A_END};

static const flx_graph *body_of(const flxi_site *s)
{
    return ((const call_attrs *)s->attrs)->body;
}

static flx_code infer_call(flxi_infer *f)
{
    const call_attrs *a = f->attrs;
    FLXI_TRY(flxi_match_body(f, "body", a->body, f->in, f->nin));
    return flxi_body_results(f, a->body, 0, flxi_body_outputs(a->body));
}

static flx_code eval_call(flxi_eval *e)
{
    return flxi_eval_body(e, ((const call_attrs *)e->attrs)->body, e->in);
}

static bool bodies_call(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    (void)g;
    *out =
        (flxi_body){.graph = ((const call_attrs *)n->attrs)->body, .role = BODY_FUNCTION, .shared = n->nin, .runs = 1};
    return i == 0;
}

/* ---- Reverse mode ---- */

static bool split(flxi_site *s, flxi_split_body *out)
{
    return s->bodies->split(s, body_of(s), s->wanted, out) && out->forward;
}

static uint32_t saved_call(flxi_site *s)
{
    flxi_split_body parts;
    return split(s, &parts) ? parts.kept : 0;
}

static void primal_call(flxi_site *s, flx_val *y, flx_val *saved)
{
    flxi_split_body parts;
    if (!split(s, &parts)) {
        if (!s->g->error.code)
            flxi_append(s, NULL, s->x, s->nin, y);
        return;
    }
    flx_val *out = flxi_rule_new(s, flx_val, s->nout + parts.kept);
    if (!out)
        return;
    flx_call(s->g, s->x, s->nin, out, s->nout + parts.kept, parts.forward);
    memcpy(y, out, s->nout * sizeof *y);
    memcpy(saved, out + s->nout, parts.kept * sizeof *saved);
}

static bool is_seeded_throughout(flxi_site *s, const flx_val *dy)
{
    for (uint32_t k = 0; k < s->nout; k++)
        if (flxi_is_none(dy[k]) && flxi_can_vary(flxi_typeof(s, s->y[k])))
            return false;
    return true;
}

static uint32_t append_given(flx_val *in, uint32_t n, const flx_val *v, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!flxi_is_none(v[i]))
            in[n++] = v[i];
    return n;
}

/* The graph that computes the cotangents, held, and its operands after those of the call. */
static flx_graph *backward(flxi_site *s, const flx_val *dy, flx_val *in, uint32_t *n)
{
    flxi_split_body parts;
    bool *seeded = flxi_rule_new(s, bool, s->nout);
    if (!seeded || s->g->error.code)
        return NULL;
    if (is_seeded_throughout(s, dy) && split(s, &parts)) {
        *n = append_given(in, *n, s->saved, parts.kept);
        *n = append_given(in, *n, dy, s->nout);
        return flx_graph_retain(parts.backward);
    }
    for (uint32_t k = 0; k < s->nout; k++)
        seeded[k] = !flxi_is_none(dy[k]);
    *n = append_given(in, *n, dy, s->nout);
    return s->bodies->vjp(s, body_of(s), seeded, s->wanted);
}

static void vjp_call(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    uint32_t n = s->nin;
    flx_val *in = flxi_rule_new(s, flx_val, s->nin + saved_call(s) + s->nout);
    flx_val *out = flxi_rule_new(s, flx_val, s->nin);
    if (!in || !out)
        return;
    memcpy(in, s->x, s->nin * sizeof *in);
    flx_graph *back = backward(s, dy, in, &n);
    if (!back)
        return;
    flx_call(s->g, in, n, out, back->outputs.n, back);
    flx_graph_release(back);
    for (uint32_t i = 0, at = 0; i < s->nin; i++)
        if (s->wanted[i] && flxi_can_vary(flxi_typeof(s, s->x[i])))
            dx[i] = out[at++];
}

/* ---- Forward mode and batching ---- */

static void jvp_call(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    bool *active = flxi_rule_new(s, bool, s->nin);
    flx_val *in = flxi_rule_new(s, flx_val, 2 * s->nin);
    flx_val *out = flxi_rule_new(s, flx_val, 2 * s->nout);
    if (!active || !in || !out)
        return;
    memcpy(in, s->x, s->nin * sizeof *in);
    for (uint32_t i = 0; i < s->nin; i++)
        active[i] = !flxi_is_none(tx[i]);
    uint32_t n = append_given(in, s->nin, tx, s->nin);
    flx_graph *pushed = s->bodies->jvp(s, body_of(s), active);
    if (!pushed)
        return;
    flx_call(s->g, in, n, out, pushed->outputs.n, pushed);
    flx_graph_release(pushed);
    for (uint32_t k = 0, at = s->nout; k < s->nout; k++) {
        s->new_y[k] = out[k];
        if (flxi_can_vary(flxi_typeof(s, s->y[k])))
            ty[k] = out[at++];
    }
}

static void batch_call(flxi_site *s, flx_val *by)
{
    flx_graph *body = s->bodies->vmap(s, body_of(s), s->batched, s->by_batched, false);
    if (!body)
        return;
    flx_call(s->g, s->x, s->nin, by, s->nout, body);
    flx_graph_release(body);
}

/* ---- Samples ---- */

static const flxi_sample samples_call[] = {
    {"T[3], T[3]", "body=@f", "graph f(x: T[3], s: T[3]) { return add(x, s), reverse(x, axes=[0]) }\n", FLX_OK},
    {"f32[3], i32[2]{0..2}", "body=@f",
     "graph f(x: f32[3], i: i32[2]) { return gather(tanh(mul(x, x)), i, axis=0), i }\n", FLX_OK},
    {"f32[N]", "body=@outer",
     "graph inner(x: f32[N]) { return mul(sin(x), x) }\n"
     "graph outer(x: f32[N]) { y = call(x, body=@inner) return call(y, body=@inner) }\n",
     FLX_OK},
    {"T[3]", "body=@f", "graph f(x: T[2]) { return add(x, x) }\n", FLX_E_SHAPE},
    {"f32[2], f32[2]", "body=@f", "graph f(x: f32[2]) { return neg(x) }\n", FLX_E_ARITY},
    {"f32[2]", NULL, "graph f(x: f32[2]) { return neg(x) }\n", FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_call = {.infer = infer_call,
                                    .eval = eval_call,
                                    .schema = call_schema,
                                    .attrs_size = sizeof(call_attrs),
                                    .primal = primal_call,
                                    .num_saved = saved_call,
                                    .vjp = vjp_call,
                                    .jvp = jvp_call,
                                    .batch = batch_call,
                                    .samples = samples_call,
                                    .bodies = bodies_call,
                                    .link = flxi_link_dense,
                                    .shard = &flxi_shard_bodies};
