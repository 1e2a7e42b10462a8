/* SPDX-License-Identifier: Apache-2.0 */
/* while_loop.c: derivatives and batching of `while`.

   Forward mode loops over carries and their tangents. Reverse mode is an op of its own, while_backward: it runs the
   loop again, keeps the carries of every iteration (the tape grows with the iterations that actually happen), and
   applies the body's vjp from the last to the first. Its decomposition, for derivatives of higher order and for
   batching, consists of while loops only: count the iterations, then go backwards, recomputing the carries of each. */
#include "base/host/stop.h"
#include "ops/control/control.h"
#include "ops/rule/body/bodies.h"

#include <fluxion/run.h>
#include <stdio.h>

typedef struct {
    const flx_graph *cond, *body, *body_vjp;
    int64_t max_iterations;
} backward_attrs;

static const flxi_attr backward_schema[] = {
    A_GRAPH_AS(backward_attrs, cond, "cond"),
    A_GRAPH_AS(backward_attrs, body, "body"),
    A_GRAPH_AS(backward_attrs, body_vjp, "body_vjp"),
    A_INT_OPT(backward_attrs, max_iterations, "none"),
    A_END,
};

/* ---- Bodies built from bodies ---- */

/* Declares an input of each type and writes the values to v. */
static void declare(flx_graph *g, const flx_type *const *types, size_t n, flx_val *v)
{
    for (size_t i = 0; g && i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "c%zu", g->leaves.n);
        v[i] = flx_input(g, name, types[i]);
    }
}

/* The body on inputs [from, from + its own number) of `types`; the other inputs are not passed to it. */
static flx_graph *widened_cond(flxi_site *s, const flx_graph *cond, const flx_type *const *types, size_t n, size_t from)
{
    flx_graph *g = flxi_new_body(s, cond->name);
    flx_val *v = flxi_rule_new(s, flx_val, n);
    flx_val y;
    if (!g || !v) {
        flx_graph_release(g);
        return NULL;
    }
    declare(g, types, n, v);
    flxi_inline(g, cond, v + from, &y);
    flx_output(g, y, NULL);
    return flxi_finish_body(s, g);
}

static void append_while(flxi_site *s, const flx_val *in, uint32_t n, flx_graph *cond, flx_graph *body, int64_t most,
                         flx_val *out)
{
    if (cond && body && !s->g->error.code)
        flx_while(s->g, in, n, out, n, cond, body, most == FLXI_ABSENT ? FLX_DEFAULT : most);
    flx_graph_release(cond);
    flx_graph_release(body);
}

/* ---- Forward mode ---- */

void flxi_jvp_while(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const while_attrs *a = s->attrs;
    bool *active = flxi_rule_new(s, bool, s->nin);
    flx_val *in = flxi_rule_new(s, flx_val, 2 * s->nin);
    flx_val *out = flxi_rule_new(s, flx_val, 2 * s->nin);
    const flx_type **types = flxi_rule_new(s, const flx_type *, 2 * s->nin);
    uint32_t n = 0;
    if (!active || !in || !out || !types)
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        in[n++] = s->x[i];
    for (uint32_t i = 0; i < s->nin; i++) {
        active[i] = flxi_can_vary(flxi_typeof(s, s->x[i]));
        if (active[i])
            in[n++] = flxi_or_zeros(s, tx[i], s->x[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        types[i] = flxi_typeof(s, in[i]);
    flx_graph *body = s->bodies->jvp(s, a->body, active);
    flx_graph *cond = widened_cond(s, a->cond, types, n, 0);
    append_while(s, in, n, cond, body, a->max_iterations, out);
    uint32_t at = s->nin;
    for (uint32_t i = 0; i < s->nin; i++) {
        s->new_y[i] = out[i];
        if (active[i])
            ty[i] = out[at++];
    }
}

/* ---- Reverse mode ---- */

/* The tape grows with the iterations; `bounded` forbids that. */
static bool may_tape(flxi_site *s, const while_attrs *a)
{
    char carries[100] = "";
    size_t at = 0;
    flxi_type_text type;
    if (!s->bounded || a->max_iterations != FLXI_ABSENT)
        return true;
    for (uint32_t i = 0; i < s->nin && i < 3; i++)
        at += (size_t)snprintf(carries + at, sizeof carries - at, "%s%.30s", i ? ", " : "",
                               i < 2 ? flxi_type_str(s->ctx, flxi_typeof(s, s->x[i]), &type) : "...");
    flxi_site_fail(s, FLX_E_UNBOUNDED_LOOP,
                   "set max_iterations, or make it a custom_fn whose vjp_body solves for the fixed point",
                   "without max_iterations the tape of its carries has no known bound (%s)", carries);
    return false;
}

void flxi_vjp_while(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const while_attrs *a = s->attrs;
    if (!may_tape(s, a))
        return;
    bool *varies = flxi_rule_new(s, bool, s->nin);
    flx_val *in = flxi_rule_new(s, flx_val, 2 * s->nin);
    flx_val *out = flxi_rule_new(s, flx_val, s->nin);
    uint32_t n = 0;
    if (!varies || !in || !out)
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        in[n++] = s->x[i];
    for (uint32_t i = 0; i < s->nin; i++) {
        varies[i] = flxi_can_vary(flxi_typeof(s, s->x[i]));
        if (varies[i])
            in[n++] = flxi_or_zeros(s, dy[i], s->x[i]);
    }
    flx_graph *body_vjp = s->bodies->vjp(s, a->body, varies, varies);
    if (body_vjp) {
        flx_attr attrs[4] = {flx_attr_graph("cond", a->cond), flx_attr_graph("body", a->body),
                             flx_attr_graph("body_vjp", body_vjp), flx_attr_int("max_iterations", a->max_iterations)};
        flx_op(s->g, "while_backward", in, n, attrs, a->max_iterations == FLXI_ABSENT ? 3 : 4, out, s->nin);
    }
    flx_graph_release(body_vjp);
    for (uint32_t i = 0, at = 0; i < s->nin; i++)
        if (varies[i])
            dx[i] = out[at++];
}

static flx_code infer_backward(flxi_infer *f)
{
    const backward_attrs *a = f->attrs;
    size_t carries = flxi_body_inputs(a->body);
    size_t varying = 0;
    if (f->nin < carries)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "the body has %zu carries, but there are %u operands", carries,
                               f->nin);
    FLXI_TRY(flxi_match_body(f, "cond", a->cond, f->in, carries));
    FLXI_TRY(flxi_match_body(f, "body", a->body, f->in, carries));
    for (size_t i = 0; i < carries; i++)
        varying += flxi_can_vary(f->in[i]);
    if (f->nin != carries + varying || varying == 0)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "expected %zu cotangents, one per floating carry", varying);
    FLXI_TRY(flxi_match_body(f, "body_vjp", a->body_vjp, f->in, f->nin));
    FLXI_TRY(flxi_match_carries(f, a->body_vjp, f->in + carries, varying));
    if (a->max_iterations < 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "max_iterations=%lld is negative",
                               (long long)a->max_iterations);
    FLXI_TRY(flxi_results(f, varying));
    for (size_t i = 0; i < varying; i++)
        f->out[i] = *f->in[carries + i];
    return FLX_OK;
}

/* The tape: all carries of iteration i at [i * carries]. */
typedef FLXI_VEC(flx_tensor *) tape;

static flx_code record(flxi_eval *e, const backward_attrs *a, uint32_t carries, tape *t)
{
    for (uint32_t k = 0; k < carries; k++)
        if (!flxi_push(e->mem, t,
                       flx_tensor_retain((flx_tensor *)(uintptr_t)e->in[k]))) /* retains only if there is room */
            return flxi_oom(e->err, "the tape of a loop");
    for (int64_t i = 0;; i++) {
        flx_tensor *test = NULL;
        const flx_tensor *const *now = (const flx_tensor *const *)(t->at + t->n - carries);
        FLXI_TRY(e->run_body(e, a->cond, now, &test));
        bool holds = flxi_load_truth(test->type.dtype, test->data, 0);
        flx_tensor_release(test);
        if (!holds)
            return FLX_OK;
        if (i == a->max_iterations) {
            e->report(e, FLX_RUN_LOOP_CUT);
            return FLX_OK;
        }
        for (uint32_t k = 0; k < carries; k++) /* memory first: nothing can fail once the body has run */
            if (!flxi_push(e->mem, t, NULL))
                return flxi_oom(e->err, "the tape of a loop");
        FLXI_TRY(
            e->run_body(e, a->body, (const flx_tensor *const *)(t->at + t->n - 2 * carries), t->at + t->n - carries));
    }
}

/* d holds the cotangents after the carries: [carries …, d …]; next receives the new ones. */
static flx_code walk_back(flxi_eval *e, const backward_attrs *a, uint32_t carries, const tape *t, flx_tensor **d,
                          flx_tensor **next)
{
    const flx_tensor **in = flxi_alloc(e->mem, e->nin, sizeof *in);
    if (!in)
        return flxi_oom(e->err, "cotangents");
    flx_code code = FLX_OK;
    for (size_t i = t->n / carries - 1; code == FLX_OK && i-- > 0;) {
        for (uint32_t k = 0; k < carries; k++)
            in[k] = t->at[i * carries + k];
        for (uint32_t k = 0; k < e->nout; k++)
            in[carries + k] = d[k];
        code = e->run_body(e, a->body_vjp, in, next);
        for (uint32_t k = 0; code == FLX_OK && k < e->nout; k++) {
            flx_tensor_release(d[k]);
            d[k] = next[k];
        }
    }
    flxi_free(e->mem, in, e->nin, sizeof *in);
    return code;
}

static flx_code eval_backward(flxi_eval *e)
{
    const backward_attrs *a = e->attrs;
    uint32_t carries = e->nin - e->nout;
    tape t = {0};
    flx_tensor **d = flxi_alloc(e->mem, 2 * (size_t)e->nout, sizeof *d);
    flx_code code = d ? record(e, a, carries, &t) : flxi_oom(e->err, "cotangents");
    for (uint32_t k = 0; d && k < e->nout; k++)
        d[k] = flx_tensor_retain((flx_tensor *)(uintptr_t)e->in[carries + k]);
    if (code == FLX_OK)
        code = walk_back(e, a, carries, &t, d, d + e->nout);
    for (uint32_t k = 0; d && k < e->nout; k++) {
        if (code == FLX_OK && e->out[k]->nbytes)
            flxi_stop_copy(e->out[k]->data, d[k]->data, e->out[k]->nbytes);
        flx_tensor_release(d[k]);
    }
    for (size_t i = 0; i < t.n; i++)
        flx_tensor_release(t.at[i]);
    flxi_vec_free(e->mem, &t);
    flxi_free(e->mem, d, 2 * (size_t)e->nout, sizeof *d);
    return code;
}

/* ---- The backward loop in terms of while ---- */

/* (k, c…) → (k + 1, body(c)…): counts iterations. With `limit` there is a second number after k that is passed
   through. */
static flx_graph *counting_body(flxi_site *s, const flx_graph *body, const flx_type *const *types, size_t n, bool limit)
{
    flx_graph *g = flxi_new_body(s, "count");
    flx_val *v = flxi_rule_new(s, flx_val, n);
    flx_val *y = flxi_rule_new(s, flx_val, n);
    size_t first = limit ? 2 : 1;
    if (!g || !v || !y) {
        flx_graph_release(g);
        return NULL;
    }
    declare(g, types, n, v);
    flx_output(g, flx_add(g, v[0], flx_scalar(g, FLX_I64, 1)), NULL);
    if (limit)
        flx_output(g, v[1], NULL);
    flxi_inline(g, body, v + first, y);
    for (size_t i = first; i < n; i++)
        flx_output(g, y[i - first], NULL);
    return flxi_finish_body(s, g);
}

/* (j, k, c…) → j < k */
static flx_graph *until_limit(flxi_site *s, const flx_type *const *types, size_t n)
{
    flx_graph *g = flxi_new_body(s, "until");
    flx_val *v = flxi_rule_new(s, flx_val, n);
    if (!g || !v) {
        flx_graph_release(g);
        return NULL;
    }
    declare(g, types, n, v);
    flx_output(g, flx_lt(g, v[0], v[1]), NULL);
    return flxi_finish_body(s, g);
}

/* (k, d…, c0…) → k > 0 */
static flx_graph *until_zero(flxi_site *s, const flx_type *const *types, size_t n)
{
    flx_graph *g = flxi_new_body(s, "left");
    flx_val *v = flxi_rule_new(s, flx_val, n);
    if (!g || !v) {
        flx_graph_release(g);
        return NULL;
    }
    declare(g, types, n, v);
    flx_output(g, flx_gt(g, v[0], flx_scalar(g, FLX_I64, 0)), NULL);
    return flxi_finish_body(s, g);
}

/* All loops of the decomposition run as often as the loop itself, or less. */
static int64_t bound_of(const backward_attrs *a)
{
    return a->max_iterations == FLXI_ABSENT ? FLX_DEFAULT : a->max_iterations;
}

/* (k, d…, c0…) → (k − 1, body_vjp(c_{k−1}, d)…, c0…), where c_{k−1} is computed from c0 by k − 1 steps. */
static flx_graph *step_back(flxi_site *s, const flx_type *const *types, size_t n, size_t cotangents,
                            const flx_type *const *inner_types)
{
    const backward_attrs *a = s->attrs;
    size_t carries = n - 1 - cotangents;
    flx_graph *g = flxi_new_body(s, "back");
    flx_val *v = flxi_rule_new(s, flx_val, n);
    flx_val *in = flxi_rule_new(s, flx_val, n + carries + 2);
    flx_val *out = flxi_rule_new(s, flx_val, n + carries + 2);
    flx_graph *inner = counting_body(s, a->body, inner_types, carries + 2, true);
    flx_graph *limit = until_limit(s, inner_types, carries + 2);
    if (g && v && in && out && inner && limit) {
        declare(g, types, n, v);
        flx_val left = flx_sub(g, v[0], flx_scalar(g, FLX_I64, 1));
        in[0] = flx_scalar(g, FLX_I64, 0);
        in[1] = left;
        for (size_t i = 0; i < carries; i++)
            in[2 + i] = v[1 + cotangents + i];
        flx_while(g, in, carries + 2, out, carries + 2, limit, inner, bound_of(a));
        for (size_t i = 0; i < carries; i++)
            in[i] = out[2 + i];
        for (size_t i = 0; i < cotangents; i++)
            in[carries + i] = v[1 + i];
        flxi_inline(g, a->body_vjp, in, out);
        flx_output(g, left, NULL);
        for (size_t i = 0; i < cotangents; i++)
            flx_output(g, out[i], NULL);
        for (size_t i = 0; i < carries; i++)
            flx_output(g, v[1 + cotangents + i], NULL);
    }
    flx_graph_release(inner);
    flx_graph_release(limit);
    return flxi_finish_body(s, g);
}

static void decompose_backward(flxi_site *s, flx_val *y)
{
    const backward_attrs *a = s->attrs;
    uint32_t carries = s->nin - s->nout;
    const flx_type **types = flxi_rule_new(s, const flx_type *, s->nin + 2);
    const flx_type **inner = flxi_rule_new(s, const flx_type *, carries + 2);
    flx_type *number = flxi_rule_new(s, flx_type, 1);
    flx_val *in = flxi_rule_new(s, flx_val, s->nin + 1);
    flx_val *out = flxi_rule_new(s, flx_val, s->nin + 1);
    if (!types || !inner || !number || !in || !out)
        return;
    *number = (flx_type){.dtype = FLX_I64};
    types[0] = inner[0] = inner[1] = number;
    in[0] = flx_scalar(s->g, FLX_I64, 0);
    for (uint32_t i = 0; i < carries; i++) {
        in[1 + i] = s->x[i];
        types[1 + i] = inner[2 + i] = flxi_typeof(s, s->x[i]);
    }
    append_while(s, in, carries + 1, widened_cond(s, a->cond, types, carries + 1, 1),
                 counting_body(s, a->body, types, carries + 1, false), a->max_iterations, out);
    in[0] = out[0]; /* how often it ran */
    for (uint32_t i = 0; i < s->nout; i++)
        in[1 + i] = s->x[carries + i];
    for (uint32_t i = 0; i < carries; i++)
        in[1 + s->nout + i] = s->x[i];
    for (uint32_t i = 1; i <= s->nin; i++)
        types[i] = flxi_typeof(s, in[i]);
    append_while(s, in, s->nin + 1, until_zero(s, types, s->nin + 1), step_back(s, types, s->nin + 1, s->nout, inner),
                 a->max_iterations, out);
    for (uint32_t i = 0; i < s->nout; i++)
        y[i] = out[1 + i];
}

#define GROWING                                                        \
    "graph more(x: f32[2]) { return lt(reduce_sum(mul(x, x)), 50) }\n" \
    "graph grow(x: f32[2]) { return mul(x, add(x, 2)) }\n"             \
    "graph back(x: f32[2], d: f32[2]) { return mul(d, add(mul(x, 2), 2)) }\n"

#define COMPLEX_GROWING                                            \
    "graph more(x: c64[2]) { return lt(reduce_sum(abs(x)), 9) }\n" \
    "graph grow(x: c64[2]) { return mul(x, add(x, 2)) }\n"         \
    "graph back(x: c64[2], d: c64[2]) { return mul(d, conjugate(add(mul(x, 2), 2))) }\n"

static const flxi_sample samples_backward[] = {
    {"f32[2]{0.5..1}, f32[2]", "cond=@more, body=@grow, body_vjp=@back", GROWING, FLX_OK},
    {"f32[2]{0.5..1}, f32[2]", "cond=@more, body=@grow, body_vjp=@back, max_iterations=1", GROWING, FLX_OK},
    {"c64[2]{0.5..1}, c64[2]", "cond=@more, body=@grow, body_vjp=@back", COMPLEX_GROWING, FLX_OK},
    {"f32[2]", "cond=@more, body=@grow, body_vjp=@back", GROWING, FLX_E_ARITY},
    {"f32[2], f32[2]", "cond=@more, body=@grow, body_vjp=@back, max_iterations=-1", GROWING, FLX_E_ATTRIBUTE},
    {"f32[3], f32[3]", "cond=@more, body=@grow, body_vjp=@back", GROWING, FLX_E_SHAPE},
    {0},
};

static bool bodies_backward(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const backward_attrs *a = n->attrs;
    const flx_graph *list[] = {a->cond, a->body, a->body_vjp};
    (void)g;
    if (i < 3)
        *out = (flxi_body){.graph = list[i], .role = BODY_CALLED, .runs = FLXI_ABSENT};
    return i < 3;
}

const flxi_rules flxi_rules_while_backward = {.infer = infer_backward,
                                              .eval = eval_backward,
                                              .schema = backward_schema,
                                              .attrs_size = sizeof(backward_attrs),
                                              .decompose = decompose_backward,
                                              .samples = samples_backward,
                                              .bodies = bodies_backward};

/* ---- Batching ---- */

/* Which carries are batched: those that are at the start, and those that the body makes batched, until nothing
   changes. */
static bool settle(flxi_site *s, const flx_graph *body, bool *batched)
{
    bool *out = flxi_rule_new(s, bool, s->nin);
    bool changed = out != NULL;
    while (changed) {
        flx_graph *trial = s->bodies->vmap(s, body, batched, out, false);
        if (!trial)
            return false;
        flx_graph_release(trial);
        changed = false;
        for (uint32_t i = 0; i < s->nin; i++)
            if (out[i] && !batched[i])
                batched[i] = changed = true;
    }
    return out != NULL;
}

static flx_val with_batch_axis(flxi_site *s, uint32_t i, bool is_batched)
{
    return is_batched ? flxi_lift(s, i) : s->x[i];
}

/* [B] or [B, 1 …] stretched against a tensor of this rank. */
static flx_val against(flx_graph *g, flx_val mask, flx_dim size, int rank)
{
    flx_dim dims[FLX_MAX_RANK] = {size};
    for (int k = 1; k < rank; k++)
        dims[k] = 1;
    return flx_reshape(g, mask, (flx_ints){dims, (size_t)rank});
}

/* A predicate as bool: nonzero and not NaN. */
static flx_val truth(flx_graph *g, flx_val p)
{
    const flx_type *t = flx_val_type(g, p);
    if (!t || t->dtype == FLX_BOOL)
        return p;
    flx_val nonzero = flx_ne(g, p, flx_scalar(g, (flx_dtype)t->dtype, 0.0));
    return flxi_can_vary(t) ? flx_and(g, nonzero, flx_eq(g, p, p)) : nonzero;
}

/* Loops while any example is active; the carries of finished examples no longer change. */
static void loop_while_any(flxi_site *s, flx_graph *cond, flx_graph *body, const flx_val *in, flx_val *by)
{
    const while_attrs *a = s->attrs;
    const flx_type **types = flxi_rule_new(s, const flx_type *, s->nin);
    flx_graph *any = flxi_new_body(s, "any");
    flx_graph *step = flxi_new_body(s, "step");
    flx_val *v = flxi_rule_new(s, flx_val, s->nin);
    flx_val *y = flxi_rule_new(s, flx_val, s->nin);
    if (types && any && step && v && y) {
        flx_val p;
        for (uint32_t i = 0; i < s->nin; i++)
            types[i] = flxi_typeof(s, in[i]);
        declare(any, types, s->nin, v);
        flxi_inline(any, cond, v, &p);
        flx_output(any, flx_reduce_any(any, truth(any, p), FLX_ALL, 0), NULL);
        declare(step, types, s->nin, v);
        flxi_inline(step, cond, v, &p);
        flxi_inline(step, body, v, y);
        for (uint32_t i = 0; i < s->nin; i++)
            flx_output(step, flx_where(step, against(step, truth(step, p), s->size, types[i]->rank), y[i], v[i]), NULL);
    }
    append_while(s, in, s->nin, flxi_finish_body(s, any), flxi_finish_body(s, step), a->max_iterations, by);
}

void flxi_batch_while(flxi_site *s, flx_val *by)
{
    const while_attrs *a = s->attrs;
    bool *batched = flxi_rule_new(s, bool, s->nin);
    flx_val *in = flxi_rule_new(s, flx_val, s->nin);
    bool own_cond[1];
    if (!batched || !in)
        return;
    memcpy(batched, s->batched, s->nin * sizeof *batched);
    if (!settle(s, a->body, batched))
        return;
    flx_graph *cond = s->bodies->vmap(s, a->cond, batched, own_cond, false);
    if (cond && own_cond[0]) { /* examples stop at different iterations: then every carry may differ between them */
        for (uint32_t i = 0; i < s->nin; i++)
            batched[i] = true;
        flx_graph_release(cond);
        cond = s->bodies->vmap(s, a->cond, batched, own_cond, true);
    }
    flx_graph *body = s->bodies->vmap(s, a->body, batched, batched, true);
    for (uint32_t i = 0; i < s->nin; i++) {
        in[i] = with_batch_axis(s, i, batched[i]);
        s->by_batched[i] = batched[i];
    }
    if (cond && body && own_cond[0]) {
        loop_while_any(s, cond, body, in, by);
        flx_graph_release(cond);
        flx_graph_release(body);
    } else {
        append_while(s, in, s->nin, cond, body, a->max_iterations, by);
    }
}
