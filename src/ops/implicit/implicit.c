/* SPDX-License-Identifier: Apache-2.0 */
/* implicit.c: cg, gmres, fixed_point and root: inference and derivatives.

   With x defined by an equation, its derivative solves a linear one. For A(p) x = b that is A x' = b' - A' x, and in
   reverse mode A^H l = dx, db = l, dp = -(dA/dp x)^H l. For x = f(x, p) it is (1 - f_x) x' = f_p p', and for f(x, p)
   = 0 it is f_x x' = -f_p p'. The linear equations are solved by cg and gmres again, with bodies derived from the
   body, to the same tol; so derivatives of every order have the same form. The starting point x0 has no influence,
   hence no derivative.

   Batching runs the op once for each example: each has its own stopping test. */
#include "ops/implicit/implicit.h"

#include "ops/control/control.h"
#include "ops/linalg/matrix_rules.h"
#include "ops/rule/link.h"

static const flxi_attr implicit_schema[] = {
    A_GRAPH_AS(implicit_attrs, body, "body"),
    A_REAL(implicit_attrs, tol, 1e-6),
    A_INT_OPT(implicit_attrs, max_iterations, "none"),
    A_END,
};

static flx_code infer_implicit(flxi_infer *f)
{
    const implicit_attrs *a = f->attrs;
    flxi_type_text want, found;
    if (!(a->tol >= 0.0))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "tol=%g must be a nonnegative number", a->tol);
    if (a->max_iterations < 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "max_iterations=%lld is negative",
                               (long long)a->max_iterations);
    FLXI_TRY(flxi_match_body(f, "body", a->body, f->in, f->nin));
    if (flxi_body_outputs(a->body) != 1)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "body must return one result, not %zu",
                               flxi_body_outputs(a->body));
    const flx_type *made = flxi_body_output(a->body, 0);
    if (!flxi_type_equal(made, f->in[0]))
        return flxi_infer_fail(f, made->dtype == f->in[0]->dtype ? FLX_E_SHAPE : FLX_E_DTYPE,
                               "the body takes the unknown, then params, and returns a tensor of the unknown's type",
                               "body must return the type of its first input, %s, but returns %s",
                               flxi_type_str(f->ctx, f->in[0], &want), flxi_type_str(f->ctx, made, &found));
    f->out[0] = *f->in[0];
    return FLX_OK;
}

/* ---- The body's derivatives at the solution ---- */

/* The tangent of body(x, params) along the tangents tx of the params; FLX_NONE where there are none. */
static flx_val along_params(flxi_site *s, const flx_val *tx)
{
    const implicit_attrs *a = s->attrs;
    bool *active = flxi_rule_new(s, bool, s->nin);
    flx_val *in = flxi_rule_new(s, flx_val, 2 * s->nin);
    flx_val out[2] = {FLX_NONE, FLX_NONE};
    uint32_t n = 0;
    if (!active || !in)
        return FLX_NONE;
    in[n++] = s->y[0];
    for (uint32_t i = 1; i < s->nin; i++)
        in[n++] = s->x[i];
    for (uint32_t i = 1; i < s->nin; i++) {
        active[i] = !flxi_is_none(tx[i]);
        if (active[i])
            in[n++] = tx[i];
    }
    flx_graph *moved = n > s->nin ? s->bodies->jvp(s, a->body, active) : NULL;
    if (moved)
        flxi_inline(s->g, moved, in, out);
    flx_graph_release(moved);
    return out[1];
}

/* The cotangents of the wanted params when the body's result has the cotangent dy. */
static void to_params(flxi_site *s, flx_val dy, flx_val *dx)
{
    const implicit_attrs *a = s->attrs;
    bool *wanted = flxi_rule_new(s, bool, s->nin);
    flx_val *in = flxi_rule_new(s, flx_val, s->nin + 1);
    flx_val *out = flxi_rule_new(s, flx_val, s->nin);
    bool any = false;
    if (!wanted || !in || !out)
        return;
    for (uint32_t i = 1; i < s->nin; i++) {
        in[i] = s->x[i];
        wanted[i] = s->wanted[i] && flxi_can_vary(flxi_typeof(s, s->x[i]));
        any |= wanted[i];
    }
    in[0] = s->y[0];
    in[s->nin] = dy;
    flx_graph *back = any ? s->bodies->vjp(s, a->body, (const bool[]){true}, wanted) : NULL;
    if (!back)
        return;
    flxi_inline(s->g, back, in, out);
    flx_graph_release(back);
    for (uint32_t i = 1, at = 0; i < s->nin; i++)
        if (wanted[i])
            dx[i] = out[at++];
}

/* ---- Linear equations with derived bodies ---- */

typedef enum {
    OF_X = 1,     /* the body's Jacobian in x, at a point that is an operand after the unknown; else at 0 */
    ADJOINT = 2,  /* its adjoint */
    ONE_MINUS = 4 /* the identity minus that */
} derived_kind;

/* (v, [x,] params…) → the map `kind` applied to v. */
static flx_graph *derived_body(flxi_site *s, int kind)
{
    const implicit_attrs *a = s->attrs;
    bool *chosen = flxi_rule_new(s, bool, s->nin);
    flx_val *in = flxi_rule_new(s, flx_val, s->nin + 1);
    flx_val out[2] = {FLX_NONE, FLX_NONE};
    if (!chosen || !in)
        return NULL;
    chosen[0] = true;
    flx_graph *moved =
        kind & ADJOINT ? s->bodies->vjp(s, a->body, (const bool[]){true}, chosen) : s->bodies->jvp(s, a->body, chosen);
    flx_graph *g = moved ? flxi_new_body(s, a->body->name) : NULL;
    if (g) {
        flxi_site inner = *s;
        inner.g = g;
        const flx_type *type = flxi_typeof(s, s->x[0]);
        flx_val v = flxi_declare(g, 'd', type);
        in[0] = kind & OF_X ? flxi_declare(g, 'd', type) : flxi_zeros(&inner, type);
        for (uint32_t i = 1; i < s->nin; i++)
            in[i] = flxi_declare(g, 'd', flxi_typeof(s, s->x[i]));
        in[s->nin] = v;
        flxi_inline(g, moved, in, out);
        flx_val y = out[kind & ADJOINT ? 0 : 1];
        flx_output(g, kind & ONE_MINUS ? flx_sub(g, v, y) : y, NULL);
    }
    flx_graph_release(moved);
    return g ? s->bodies->simplify(s, g) : NULL;
}

/* gmres with that body on the right-hand side b. */
static flx_val solve_derived(flxi_site *s, int kind, flx_val b)
{
    const implicit_attrs *a = s->attrs;
    flx_val *in = flxi_rule_new(s, flx_val, s->nin + 1);
    flx_graph *body = in ? derived_body(s, kind) : NULL;
    uint32_t n = 0;
    if (!body)
        return FLX_NONE;
    flx_attr attrs[2] = {flx_attr_graph("body", body), flx_attr_real("tol", a->tol)};
    in[n++] = b;
    if (kind & OF_X)
        in[n++] = s->y[0];
    for (uint32_t i = 1; i < s->nin; i++)
        in[n++] = s->x[i];
    flx_val y = flx_op1(s->g, "gmres", in, n, attrs, 2);
    flx_graph_release(body);
    return y;
}

/* The op itself, on another right-hand side. */
static flx_val solve_same(flxi_site *s, flx_val b)
{
    flx_val *in = flxi_rule_new(s, flx_val, s->nin);
    if (!in)
        return FLX_NONE;
    memcpy(in, s->x, s->nin * sizeof *in);
    in[0] = b;
    return flxi_emit1(s, NULL, in, s->nin);
}

/* ---- Rules ---- */

static void jvp_linear(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_val moved = along_params(s, tx);
    flx_val side = tx[0];
    if (!flxi_is_none(moved))
        side = flxi_sum(s, side, flx_neg(s->g, moved));
    if (!flxi_is_none(side))
        ty[0] = solve_same(s, side);
}

static void vjp_cg(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = solve_same(s, dy[0]);
    to_params(s, flx_neg(s->g, dx[0]), dx);
}

static void vjp_gmres(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = solve_derived(s, ADJOINT, dy[0]);
    to_params(s, flx_neg(s->g, dx[0]), dx);
}

static void jvp_fixed_point(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_val moved = along_params(s, tx);
    if (!flxi_is_none(moved))
        ty[0] = solve_derived(s, OF_X | ONE_MINUS, moved);
}

static void vjp_fixed_point(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    if (s->nin > 1)
        to_params(s, solve_derived(s, OF_X | ADJOINT | ONE_MINUS, dy[0]), dx);
}

static void jvp_root(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_val moved = along_params(s, tx);
    if (!flxi_is_none(moved))
        ty[0] = solve_derived(s, OF_X, flx_neg(s->g, moved));
}

static void vjp_root(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    if (s->nin > 1)
        to_params(s, solve_derived(s, OF_X | ADJOINT, flx_neg(s->g, dy[0])), dx);
}

/* ---- Samples ---- */

/* x + m^H m x: positive definite whatever m is. */
#define DEFINITE                                                                   \
    "graph spd(x: T[2], m: T[3, 2]) {\n"                                           \
    "  y = matmul(conjugate(transpose(m)), matmul(m, reshape(x, shape=[2, 1])))\n" \
    "  return add(x, reshape(y, shape=[2]))\n}\n"
#define SHIFTED                                                                                                        \
    "graph lin(x: T[2], m: T[2, 2]) { return add(mul(x, 5), reshape(matmul(m, reshape(x, shape=[2, 1])), shape=[2])) " \
    "}\n"
#define SCALED "graph scale(x: f32[N], d: f32[N]) { return mul(x, d) }\n"
#define BAD_BODIES                                       \
    "graph short(x: f32[2]) { return reduce_sum(x) }\n"  \
    "graph two(x: f32[2]) { return x, x }\n"             \
    "graph wide(x: f32[2]) { return cast(x, to=f64) }\n" \
    "graph fine(x: f32[2]) { return mul(x, 2) }\n"

#define IMPLICIT_ERRORS                                                                                       \
    {"f32[2]", "body=@short", BAD_BODIES, FLX_E_SHAPE}, {"f32[2]", "body=@two", BAD_BODIES, FLX_E_ARITY},     \
        {"f32[2]", "body=@wide", BAD_BODIES, FLX_E_DTYPE}, {"f32[3]", "body=@fine", BAD_BODIES, FLX_E_SHAPE}, \
        {"f32[2], f32[2]", "body=@fine", BAD_BODIES, FLX_E_ARITY},                                            \
        {"f32[2]", "body=@fine, tol=-1", BAD_BODIES, FLX_E_ATTRIBUTE},                                        \
        {"f32[2]", "body=@fine, max_iterations=-1", BAD_BODIES, FLX_E_ATTRIBUTE},                             \
    {                                                                                                         \
        "f32[2]", NULL, BAD_BODIES, FLX_E_ATTRIBUTE                                                           \
    }

/* Exact to rounding: the test compares ways to compute derivatives. */
#define EXACT "tol=0"

static const flxi_sample samples_cg[] = {
    {"T[2], T[3, 2]", "body=@spd, " EXACT, DEFINITE, FLX_OK},
    {"f32[N], f32[N]{1..3}", "body=@scale, " EXACT, SCALED, FLX_OK},
    {"f32[0], f32[0]", "body=@scale", "graph scale(x: f32[0], d: f32[0]) { return mul(x, d) }\n", FLX_OK},
    {"f32[], f32[]{1..2}, i32[]", "body=@s", "graph s(x: f32[], d: f32[], k: i32[]) { return mul(x, d) }\n", FLX_OK},
    IMPLICIT_ERRORS,
    {0},
};

static const flxi_sample samples_gmres[] = {
    {"T[2], T[2, 2]", "body=@lin, " EXACT, SHIFTED, FLX_OK},
    {"f32[N], f32[N]{1..3}", "body=@scale, " EXACT, SCALED, FLX_OK},
    {"f32[0], f32[0]", "body=@scale", "graph scale(x: f32[0], d: f32[0]) { return mul(x, d) }\n", FLX_OK},
    {"f32[1, 2], f32[2]{-0.5..0.5}", "body=@mix, max_iterations=20, " EXACT,
     "graph mix(x: f32[1, 2], d: f32[2]) { return add(x, mul(reverse(x, axes=[1]), d)) }\n", FLX_OK},
    IMPLICIT_ERRORS,
    {0},
};

static const flxi_sample samples_fixed_point[] = {
    {"T[2]{0..1}, T[2]{0..1}", "body=@contract, " EXACT,
     "graph contract(x: T[2], c: T[2]) { return mul(0.1, add(mul(mul(x, reverse(x, axes=[0])), 0.5), c)) }\n", FLX_OK},
    {"f32[N], f32[N], f32[N]{0.1..0.2}", "body=@wave, " EXACT,
     "graph wave(x: f32[N], c: f32[N], d: f32[N]) { return add(c, mul(d, sin(x))) }\n", FLX_OK},
    {"f32[0]", "body=@same", "graph same(x: f32[0]) { return x }\n", FLX_OK},
    IMPLICIT_ERRORS,
    {0},
};

static const flxi_sample samples_root[] = {
    {"T[2]{1..1.5}, T[2]{1..2}", "body=@square, " EXACT,
     "graph square(x: T[2], c: T[2]) { return sub(mul(x, add(x, mul(reverse(x, axes=[0]), 0.25))), c) }\n", FLX_OK},
    {"f32[N], f32[N]", "body=@kepler, " EXACT,
     "graph kepler(x: f32[N], c: f32[N]) { return sub(sub(x, mul(sin(x), 0.25)), c) }\n", FLX_OK},
    {"f32[0]", "body=@same", "graph same(x: f32[0]) { return x }\n", FLX_OK},
    IMPLICIT_ERRORS,
    {0},
};

static bool bodies_implicit(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const flx_graph *body = ((const implicit_attrs *)n->attrs)->body;
    (void)g;
    *out = (flxi_body){.graph = body, .role = BODY_CALLED, .runs = FLXI_ABSENT};
    return i == 0;
}

#define IMPLICIT_RULES(name, back, forward)                                     \
    const flxi_rules flxi_rules_##name = {.infer = infer_implicit,              \
                                          .eval = flxi_eval_##name,             \
                                          .schema = implicit_schema,            \
                                          .bodies = bodies_implicit,            \
                                          .link = flxi_link_dense,              \
                                          .attrs_size = sizeof(implicit_attrs), \
                                          .vjp = (back),                        \
                                          .jvp = (forward),                     \
                                          .samples = samples_##name}

IMPLICIT_RULES(cg, vjp_cg, jvp_linear);
IMPLICIT_RULES(gmres, vjp_gmres, jvp_linear);
IMPLICIT_RULES(fixed_point, vjp_fixed_point, jvp_fixed_point);
IMPLICIT_RULES(root, vjp_root, jvp_root);
