/* SPDX-License-Identifier: Apache-2.0 */
/* odeint.c: initial value problems, by the Runge-Kutta pair of Dormand and Prince of orders 5 and 4, with steps
   chosen so that the estimated local error stays below atol + rtol |y| in every element.

   odeint is a composite: a scan over the intervals, and within each interval a while over steps. Time runs from 0 to
   1 in each interval, t = t0 + s (t1 - t0), so that times may increase, decrease or stay equal, and have derivatives.
   The choice of the steps has none: the derivatives in all modes and orders are exactly those of the Runge-Kutta
   solution with the steps that were taken (the discrete adjoint). They agree with each other to rounding, and
   approximate the derivatives of the true solution as well as the solution approximates the true one. Reverse mode
   keeps the state of every step.

   rtol is at least 8 units of the dtype's rounding. A step that would have to be shorter than 2^-30 of its interval
   (2^-15 in f32), or that gives NaN at any length, makes the solution NaN from there on. */
#include "ops/control/control.h"
#include "ops/linalg/matrix_rules.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"

#include <float.h>
#include <stdio.h>

typedef struct {
    const flx_graph *body;
    double rtol, atol;
} odeint_attrs;

static const flxi_attr odeint_schema[] = {
    A_GRAPH_AS(odeint_attrs, body, "body"),
    A_REAL(odeint_attrs, rtol, 1e-6),
    A_REAL(odeint_attrs, atol, 1e-9),
    A_END,
};

/* ---- Inference ---- */

static flx_code check_times(flxi_infer *f)
{
    flxi_type_text text;
    int32_t part = flxi_part_dtype(f->in[0]->dtype);
    if (f->in[1]->dtype != part)
        return flxi_infer_fail(f, FLX_E_DTYPE, part == FLX_F64 ? "cast(ts, to=f64)" : "cast(ts, to=f32)",
                               "ts must be %s, the real dtype of y0, but it is %s", flx_dtype_name(part),
                               flxi_type_str(f->ctx, f->in[1], &text));
    if (f->in[1]->rank != 1)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "ts must be a vector of times, but it is %s",
                               flxi_type_str(f->ctx, f->in[1], &text));
    if (f->in[0]->rank == FLX_MAX_RANK)
        return flxi_infer_fail(f, FLX_E_SIZE, NULL, "adding an axis of times to y0 of rank %d exceeds the rank limit",
                               FLX_MAX_RANK);
    return FLX_OK;
}

static flx_code infer_odeint(flxi_infer *f)
{
    const odeint_attrs *a = f->attrs;
    flxi_type_text want, found;
    FLXI_TRY(check_times(f));
    if (!(a->rtol >= 0.0) || !(a->atol >= 0.0) || !(a->rtol + a->atol > 0.0))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL,
                               "rtol=%g and atol=%g must be nonnegative numbers, not both zero", a->rtol, a->atol);
    flx_type time = flx_type_make((flx_dtype)f->in[1]->dtype, 0, NULL);
    const flx_type **types = flxi_new(f->arena, const flx_type *, f->nin);
    if (!types)
        return flxi_oom(f->err, "types");
    memcpy(types, f->in, f->nin * sizeof *types);
    types[1] = &time;
    FLXI_TRY(flxi_match_body(f, "body", a->body, types, f->nin));
    if (flxi_body_outputs(a->body) != 1)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "body must return one result, not %zu",
                               flxi_body_outputs(a->body));
    const flx_type *made = flxi_body_output(a->body, 0);
    if (!flxi_type_equal(made, f->in[0]))
        return flxi_infer_fail(f, made->dtype == f->in[0]->dtype ? FLX_E_SHAPE : FLX_E_DTYPE, NULL,
                               "body must return the derivative of y, %s, but returns %s",
                               flxi_type_str(f->ctx, f->in[0], &want), flxi_type_str(f->ctx, made, &found));
    f->out[0] = flx_type_make((flx_dtype)f->in[0]->dtype, f->in[0]->rank + 1, NULL);
    f->out[0].dims[0] = f->in[1]->dims[0];
    memcpy(f->out[0].dims + 1, f->in[0]->dims, (size_t)f->in[0]->rank * sizeof(flx_dim));
    return FLX_OK;
}

/* ---- One step ---- */

enum { STAGES = 7 };

static const double nodes[STAGES] = {0.0, 1.0 / 5, 3.0 / 10, 4.0 / 5, 8.0 / 9, 1.0, 1.0};
/* The last row gives the new y, whose slope is the first slope of the next step. */
static const double weights[STAGES][STAGES - 1] = {
    {0.0},
    {1.0 / 5},
    {3.0 / 40, 9.0 / 40},
    {44.0 / 45, -56.0 / 15, 32.0 / 9},
    {19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561, -212.0 / 729},
    {9017.0 / 3168, -355.0 / 33, 46732.0 / 5247, 49.0 / 176, -5103.0 / 18656},
    {35.0 / 384, 0.0, 500.0 / 1113, 125.0 / 192, -2187.0 / 6784, 11.0 / 84},
};
static const double errors[STAGES] = {71.0 / 57600,      0.0,        -71.0 / 16695, 71.0 / 1920,
                                      -17253.0 / 339200, 22.0 / 525, -1.0 / 40};

/* The carries of the while loop: numbers of an interval, then the params. `at` is s in [0, 1], `step` the length that
   is tried next, `slope` the body's value at (at, y). */
enum { AT, STEP, Y, SLOPE, FROM, TO, PARAMS };

typedef struct {
    flxi_site in;  /* the site, whose graph is the body under construction */
    flx_val *v;    /* its inputs */
    flx_val *args; /* room for the inputs of the user's body */
} stage;

static flx_val number(stage *w, flx_val like, double x)
{
    return flxi_number(&w->in, like, x);
}

static flx_val slope_at(stage *w, flx_val y, flx_val t, const flx_val *params)
{
    const odeint_attrs *a = w->in.attrs;
    flx_val out = FLX_NONE;
    w->args[0] = y;
    w->args[1] = t;
    for (uint32_t i = 2; i < w->in.nin; i++)
        w->args[i] = params[i - 2];
    flxi_inline_or_call(w->in.g, a->body, FLXI_INLINE_EACH, w->args, &out); /* for each stage */
    return out;
}

/* by · Σ c[i] k[i], where `by` is a real scalar. */
static flx_val weighted(stage *w, flx_val by, const double *c, const flx_val *k, int n)
{
    flx_graph *g = w->in.g;
    flx_val sum = FLX_NONE;
    for (int i = 0; i < n; i++)
        if (c[i] != 0.0)
            sum = flxi_sum(&w->in, sum, flx_mul(g, k[i], number(w, k[i], c[i])));
    flx_val factor = flxi_is_complex(flxi_typeof(&w->in, sum)->dtype)
                         ? flx_cast(g, by, (flx_dtype)flxi_typeof(&w->in, sum)->dtype)
                         : by;
    return flx_mul(g, sum, factor);
}

/* The largest |error| / (atol + rtol max(|y|, |next|)): a step is good up to 1. It has no derivative. */
static flx_val error_ratio(stage *w, flx_val error, flx_val y, flx_val next)
{
    const odeint_attrs *a = w->in.attrs;
    flx_graph *g = w->in.g;
    double unit = flxi_part_dtype(flxi_typeof(&w->in, y)->dtype) == FLX_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    flx_val size = flx_max(g, flx_abs(g, flx_stop_gradient(g, y)), flx_abs(g, flx_stop_gradient(g, next)));
    flx_val bound = flx_add(g, flx_mul(g, size, number(w, size, fmax(a->rtol, 8.0 * unit))), number(w, size, a->atol));
    return flx_reduce_max(g, flx_div(g, flx_abs(g, flx_stop_gradient(g, error)), bound), FLX_ALL, 0);
}

/* The factor for the length of the next step: (0.9 / ratio^(1/5)), in [0.2, 10]; 0.2 where the ratio is NaN. */
static flx_val growth(stage *w, flx_val ratio)
{
    flx_graph *g = w->in.g;
    flx_val wish = flx_mul(g, number(w, ratio, 0.9), flx_pow(g, ratio, number(w, ratio, -0.2)));
    flx_val kept = flx_clamp(g, number(w, ratio, 0.2), wish, number(w, ratio, 10.0));
    return flx_where(g, flx_is_nan(g, kept), number(w, ratio, 0.2), kept);
}

/* Tries the step from (at, y); if it is rejected, everything but the length of the next step is unchanged. */
static void try_step(stage *w)
{
    flx_graph *g = w->in.g;
    flx_val *v = w->v;
    bool wide = flxi_typeof(&w->in, v[AT])->dtype == FLX_F64;
    flx_val one = number(w, v[AT], 1.0);
    flx_val left = flx_sub(g, one, v[AT]);
    flx_val is_last = flx_ge(g, v[STEP], left);
    flx_val step = flx_where(g, is_last, left, v[STEP]);
    flx_val span = flx_sub(g, v[TO], v[FROM]);
    flx_val length = flx_mul(g, span, step);
    flx_val k[STAGES] = {v[SLOPE]};
    flx_val next = FLX_NONE;
    for (int i = 1; i < STAGES; i++) {
        flx_val where = flx_add(g, v[AT], flx_mul(g, step, number(w, step, nodes[i])));
        flx_val t = flx_add(g, v[FROM], flx_mul(g, where, span));
        next = flx_add(g, v[Y], weighted(w, length, weights[i], k, i));
        k[i] = slope_at(w, next, t, v + PARAMS);
    }
    flx_val ratio = error_ratio(w, weighted(w, length, errors, k, STAGES), v[Y], next);
    flx_val good = flx_le(g, ratio, number(w, ratio, 1.0));
    flx_val hopeless = flx_and(g, flx_not(g, good), flx_le(g, step, number(w, step, wide ? 0x1p-30 : 0x1p-15)));
    flx_val reached = flx_where(g, is_last, one, flx_add(g, v[AT], step));
    flx_output(g, flx_where(g, hopeless, one, flx_where(g, good, reached, v[AT])), NULL);
    flx_output(g, flx_mul(g, step, growth(w, ratio)), NULL);
    flx_output(g, flx_where(g, hopeless, number(w, next, NAN), flx_where(g, good, next, v[Y])), NULL);
    flx_output(g, flx_where(g, good, k[STAGES - 1], v[SLOPE]), NULL);
}

/* ---- Bodies ---- */

/* A body with inputs of these types, and room to call the user's body; NULL with the error in s->g. */
static flx_graph *begin_body(flxi_site *s, const char *name, const flx_type *const *types, uint32_t n, stage *w)
{
    flx_graph *g = flxi_new_body(s, name);
    char text[32];
    *w = (stage){.in = *s, .v = flxi_rule_new(s, flx_val, n), .args = flxi_rule_new(s, flx_val, s->nin)};
    if (!g || !w->v || !w->args) {
        flx_graph_release(g);
        return NULL;
    }
    w->in.g = g;
    for (uint32_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "c%u", i);
        w->v[i] = flx_input(g, text, types[i]);
    }
    return g;
}

static flx_graph *step_body(flxi_site *s, const flx_type *const *types, uint32_t n)
{
    stage w;
    flx_graph *g = begin_body(s, "step", types, n, &w);
    if (!g)
        return NULL;
    try_step(&w);
    for (uint32_t i = FROM; i < n; i++)
        flx_output(g, w.v[i], NULL);
    return flxi_finish_body(s, g);
}

static flx_graph *more_body(flxi_site *s, const flx_type *const *types, uint32_t n)
{
    stage w;
    flx_graph *g = begin_body(s, "more", types, n, &w);
    if (!g)
        return NULL;
    flx_output(g, flx_lt(g, w.v[AT], number(&w, w.v[AT], 1.0)), NULL);
    return flxi_finish_body(s, g);
}

enum { MAX_STEPS = 100000 }; /* in one interval */

/* (y, t, params…, t1) → (y1, t1, y1): from t to t1. */
static void cross_interval(stage *w, const flx_graph *more, const flx_graph *step, uint32_t carries)
{
    flx_graph *g = w->in.g;
    const flx_val *v = w->v;
    uint32_t params = w->in.nin - 2;
    flx_val to = v[2 + params];
    flx_val *in = flxi_rule_new(&w->in, flx_val, carries);
    flx_val *out = flxi_rule_new(&w->in, flx_val, carries);
    if (!in || !out)
        return;
    in[AT] = number(w, to, 0.0);
    in[STEP] = number(w, to, 1.0);
    in[Y] = v[0];
    in[SLOPE] = slope_at(w, v[0], v[1], v + 2);
    in[FROM] = v[1];
    in[TO] = to;
    for (uint32_t i = 0; i < params; i++)
        in[PARAMS + i] = v[2 + i];
    flx_while(g, in, carries, out, carries, more, step, MAX_STEPS);
    flx_output(g, out[Y], NULL);
    flx_output(g, to, NULL);
    flx_output(g, out[Y], NULL);
}

static flx_graph *interval_body(flxi_site *s, const flx_type *const *types, uint32_t n, const flx_type *time)
{
    uint32_t params = s->nin - 2;
    uint32_t carries = PARAMS + params;
    const flx_type **inner = flxi_rule_new(s, const flx_type *, carries);
    stage w;
    if (!inner)
        return NULL;
    for (uint32_t i = 0; i < carries; i++)
        inner[i] = i == Y || i == SLOPE ? types[0] : i < PARAMS ? time : types[2 + i - PARAMS];
    flx_graph *step = step_body(s, inner, carries);
    flx_graph *more = more_body(s, inner, carries);
    flx_graph *g = step && more ? begin_body(s, "interval", types, n, &w) : NULL;
    if (g)
        cross_interval(&w, more, step, carries);
    flx_graph_release(step);
    flx_graph_release(more);
    return flxi_finish_body(s, g);
}

/* ---- The decomposition ---- */

static void decompose_odeint(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    uint32_t params = s->nin - 2;
    const flx_type *ts = flxi_typeof(s, s->x[1]);
    flx_type *time = flxi_rule_new(s, flx_type, 1);
    const flx_type **types = flxi_rule_new(s, const flx_type *, s->nin + 1);
    flx_val *in = flxi_rule_new(s, flx_val, s->nin + 1);
    flx_val out[3] = {FLX_NONE, FLX_NONE, FLX_NONE};
    if (!time || !types || !in)
        return;
    *time = flx_type_make((flx_dtype)ts->dtype, 0, NULL);
    if (ts->dims[0] == 0) { /* no times: only the type matters */
        flx_type none = *flxi_typeof(s, s->x[0]);
        memmove(none.dims + 1, none.dims, (size_t)none.rank++ * sizeof(flx_dim));
        none.dims[0] = 0;
        y[0] = flxi_zeros(s, &none);
        return;
    }
    types[0] = flxi_typeof(s, s->x[0]);
    types[1] = types[s->nin] = time;
    in[0] = s->x[0];
    in[1] = flxi_reshape_to(s, flx_narrow(g, s->x[1], 0, 0, 1), 0, NULL);
    for (uint32_t i = 0; i < params; i++) {
        in[2 + i] = s->x[2 + i];
        types[2 + i] = flxi_typeof(s, s->x[2 + i]);
    }
    flx_dim steps = flx_dim_sub(s->ctx, ts->dims[0], 1);
    in[s->nin] = flx_narrow(g, s->x[1], 0, 1, steps);
    flx_graph *body = interval_body(s, types, s->nin + 1, time);
    flx_scan_attrs attrs = FLX_SCAN_ATTRS;
    attrs.body = body;
    attrs.num_carry = 2;
    attrs.num_bcast = params;
    if (body)
        flx_scan_with(g, in, s->nin + 1, out, 3, &attrs);
    flx_graph_release(body);
    int64_t front = 0;
    flx_val rows[2] = {flx_unsqueeze(g, s->x[0], (flx_ints){&front, 1}), out[2]};
    y[0] = flx_concat(g, rows, 2, 0);
}

#define PENDULUM                                                                       \
    "graph swing(y: f32[2], t: f32[], w: f32[]) {\n"                                   \
    "  x = narrow(y, axis=0, start=0, len=1)  v = narrow(y, axis=0, start=1, len=1)\n" \
    "  return concat(v, add(mul(mul(w, -1), sin(x)), t), axis=0)\n}\n"
#define TURN "graph turn(y: c64[2], t: f32[], k: c64[2]) { return mul(mul(k, y), cast(cos(t), to=c64)) }\n"
#define GROW "graph grow(y: f32[N], t: f32[], n: i32[]) { return mul(y, y) }\n"

/* Tight, since finite differences of the solution also depend on the choice of the steps. */
#define TIGHT "rtol=1e-11, atol=1e-12"

static const flxi_sample samples_odeint[] = {
    {"f32[2]{0.5..1}, f32[2]{0..0.4}, f32[]{0.5..1}", "body=@swing, " TIGHT, PENDULUM, FLX_OK},
    {"f32[2]{0.5..1}, f32[3]{0..0.3}, f32[]{0.5..1}", "body=@swing, " TIGHT, PENDULUM, FLX_OK},
    {"c64[2]{0.5..1}, f32[2]{0..0.4}, c64[2]{0.5..1}", "body=@turn, " TIGHT, TURN, FLX_OK},
    {"f32[N]{0.5..1}, f32[M]{0..0.2}, i32[]", "body=@grow, " TIGHT, GROW, FLX_OK},
    {"f32[2]{0.5..1}, f32[1], f32[]", "body=@swing", PENDULUM, FLX_OK},
    {"f32[2]{0.5..1}, f32[0], f32[]", "body=@swing", PENDULUM, FLX_OK},
    {"f32[2], f32[2], f32[]", "body=@swing, rtol=0, atol=0", PENDULUM, FLX_E_ATTRIBUTE},
    {"f32[2], f32[], f32[]", "body=@swing", PENDULUM, FLX_E_SHAPE},
    {"f32[2], f64[2], f32[]", "body=@swing", PENDULUM, FLX_E_DTYPE},
    {"f32[3], f32[2], f32[]", "body=@swing", PENDULUM, FLX_E_SHAPE},
    {"f32[2], f32[2]", "body=@swing", PENDULUM, FLX_E_ARITY},
    {"f32[2], f32[2]", "body=@s", "graph s(y: f32[2], t: f32[]) { return reduce_sum(y) }\n", FLX_E_SHAPE},
    {0},
};

static bool bodies_odeint(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const flx_graph *body = ((const odeint_attrs *)n->attrs)->body;
    (void)g;
    *out = (flxi_body){.graph = body, .role = BODY_CALLED, .runs = FLXI_ABSENT};
    return i == 0;
}

const flxi_rules flxi_rules_odeint = {
    .infer = infer_odeint,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_odeint,
    .schema = odeint_schema,
    .attrs_size = sizeof(odeint_attrs),
    .samples = samples_odeint,
    .bodies = bodies_odeint,
    .link = flxi_link_dense,
};
