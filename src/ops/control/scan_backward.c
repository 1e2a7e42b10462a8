/* SPDX-License-Identifier: Apache-2.0 */
/* scan_backward.c: the cotangents of a scan as ops of their own: scan_backward returns those of the initial carries and
   of the broadcast inputs, scan_backward_xs those of one sequence.

   Operands of both, in this order: init… the carries at the start; trajectory… one per carry, row t being the carry
   after step t; upstream… a cotangent for each seeded output of the body (for a carry that of the final value, or with
   save_trajectory that of the trajectory; for the others that of the stack); bcast…; xs…. body_vjp takes the inputs of
   body and a cotangent for each seeded output, and returns one for each wanted input; all floating carries are wanted
   and seeded. Absent, `wanted` and `seeded` mean everything that is floating.

   Both are the same backward scan, of which each returns a part: where several of them are decomposed, common
   subexpression elimination makes them one sweep again. */
#include "ops/control/control.h"
#include "ops/rule/body/bodies.h"
#include "ops/rule/decomposed.h"

#define COMMON                                                                                                         \
    A_GRAPH_AS(scan_backward_attrs, scan.body, "body"), A_GRAPH_AS(scan_backward_attrs, body_vjp, "body_vjp"),         \
        {.name = "num_carry",                                                                                          \
         .kind = ATTR_INT,                                                                                             \
         .offset = offsetof(scan_backward_attrs, scan.num_carry),                                                      \
         .fallback = 1},                                                                                               \
        {.name = "num_bcast", .kind = ATTR_INT, .offset = offsetof(scan_backward_attrs, scan.num_bcast)},              \
        {.name = "length",                                                                                             \
         .kind = ATTR_DIM,                                                                                             \
         .offset = offsetof(scan_backward_attrs, scan.length),                                                         \
         .fallback = FLXI_ABSENT,                                                                                      \
         .note = "extent of the trajectory"},                                                                          \
        {.name = "reverse", .kind = ATTR_BOOL, .offset = offsetof(scan_backward_attrs, scan.reverse)},                 \
        {.name = "save_trajectory", .kind = ATTR_BOOL, .offset = offsetof(scan_backward_attrs, scan.save_trajectory)}, \
        A_INTS(scan_backward_attrs, wanted, "all floating inputs"),                                                    \
        A_INTS(scan_backward_attrs, seeded, "all floating outputs")

static const flxi_attr start_schema[] = {COMMON, A_END};
static const flxi_attr rows_schema[] = {COMMON, A_INT(scan_backward_attrs, i, 0), A_END};

/* ---- Inference ---- */

/* Where the groups of operands begin. */
typedef struct {
    uint32_t carries, inputs; /* of the body */
    uint32_t upstream, bcast; /* first operand of each */
} operand_layout;

static operand_layout layout_of(const scan_backward_attrs *a, uint32_t nin)
{
    operand_layout p = {.carries = (uint32_t)a->scan.num_carry, .inputs = (uint32_t)a->scan.body->leaves.n};
    p.upstream = 2 * p.carries;
    p.bcast = nin - (p.inputs - p.carries);
    return p;
}

static flx_code fill_flags(flxi_infer *f, flx_ints *flags, size_t n, const flx_type *(*type)(const flx_graph *, size_t),
                           const flx_graph *body)
{
    if (flags->v)
        return FLX_OK;
    int64_t *own = flxi_new_list(f, flags, n);
    if (!own)
        return FLX_E_OOM;
    for (size_t i = 0; i < n; i++)
        own[i] = flxi_can_vary(type(body, i));
    return FLX_OK;
}

static const flx_type *body_input(const flx_graph *body, size_t i)
{
    return flxi_type_at(body, body->leaves.at[i]);
}

static flx_code check_trajectories(flxi_infer *f, const scan_backward_attrs *a)
{
    uint32_t n = (uint32_t)a->scan.num_carry;
    flxi_type_text tc, tt;
    for (uint32_t i = 0; i < n; i++) {
        const flx_type *c = f->in[i];
        const flx_type *t = f->in[n + i];
        bool fits =
            t->dtype == c->dtype && t->rank == c->rank + 1 && flxi_dims_may_equal(f, t->dims[0], a->scan.length);
        for (int k = 0; fits && k < c->rank; k++)
            fits = flxi_dims_may_equal(f, t->dims[k + 1], c->dims[k]);
        if (!fits)
            return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "operand %u is %s, which is not a trajectory of the carry %s",
                                   n + i, flxi_type_str(f->ctx, t, &tt), flxi_type_str(f->ctx, c, &tc));
    }
    return FLX_OK;
}

/* The operands without the trajectories, cotangents last, as scan_replay_backward has them. */
static flx_code check_reordered(flxi_infer *f, const scan_backward_attrs *a)
{
    operand_layout p = layout_of(a, f->nin);
    flxi_infer inner = *f;
    const flx_type **in = flxi_new(f->arena, const flx_type *, f->nin);
    const flx_type **step = flxi_new(f->arena, const flx_type *, f->nin);
    if (!in || !step)
        return flxi_oom(f->err, "types");
    inner.nin = 0;
    inner.in = in;
    for (uint32_t i = 0; i < p.carries; i++)
        in[inner.nin++] = f->in[i];
    for (uint32_t i = p.bcast; i < f->nin; i++)
        in[inner.nin++] = f->in[i];
    for (uint32_t i = p.upstream; i < p.bcast; i++)
        in[inner.nin++] = f->in[i];
    return flxi_check_backward(&inner, a, step);
}

static flx_code check_operands(flxi_infer *f)
{
    scan_backward_attrs *a = f->attrs;
    size_t inputs = flxi_body_inputs(a->scan.body);
    size_t outputs = flxi_body_outputs(a->scan.body);
    if (a->scan.num_carry < 1 || (size_t)a->scan.num_carry > inputs || (size_t)a->scan.num_carry > outputs)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL,
                               "num_carry=%lld does not fit a body of %zu inputs and %zu outputs",
                               (long long)a->scan.num_carry, inputs, outputs);
    if (f->nin < inputs + (size_t)a->scan.num_carry)
        return flxi_infer_fail(f, FLX_E_ARITY, "the operands are init, trajectory, upstream, bcast, xs",
                               "%u operands are too few for a body of %zu inputs with %lld carries", f->nin, inputs,
                               (long long)a->scan.num_carry);
    FLXI_TRY(fill_flags(f, &a->wanted, inputs, body_input, a->scan.body));
    FLXI_TRY(fill_flags(f, &a->seeded, outputs, flxi_body_output, a->scan.body));
    if (a->scan.length == FLXI_ABSENT && f->in[a->scan.num_carry]->rank > 0)
        a->scan.length = f->in[a->scan.num_carry]->dims[0];
    a->scan.num_xs = FLXI_ABSENT;
    a->scan.num_checkpoints = 0;
    FLXI_TRY(check_trajectories(f, a));
    return check_reordered(f, a);
}

static flx_code infer_start(flxi_infer *f)
{
    const scan_backward_attrs *a = f->attrs;
    FLXI_TRY(check_operands(f));
    operand_layout p = layout_of(a, f->nin);
    size_t shared = (size_t)(a->scan.num_carry + a->scan.num_bcast);
    size_t n = 0;
    for (size_t i = 0; i < shared; i++)
        n += a->wanted.v[i] != 0;
    if (n == 0)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "the op would have no result: no carry is floating");
    FLXI_TRY(flxi_results(f, n));
    n = 0;
    for (size_t i = 0; i < shared; i++)
        if (a->wanted.v[i])
            f->out[n++] = *f->in[i < p.carries ? i : p.bcast + i - p.carries];
    return FLX_OK;
}

static flx_code infer_rows(flxi_infer *f)
{
    const scan_backward_attrs *a = f->attrs;
    FLXI_TRY(check_operands(f));
    size_t shared = (size_t)(a->scan.num_carry + a->scan.num_bcast);
    size_t rows = a->wanted.n - shared;
    if (a->i < 0 || (size_t)a->i >= rows || !a->wanted.v[shared + (size_t)a->i])
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL,
                               "i=%lld is not one of the %zu sequences, or one without a cotangent", (long long)a->i,
                               rows);
    f->out[0] = *f->in[f->nin - rows + (size_t)a->i];
    return FLX_OK;
}

/* ---- Decomposition ---- */

/* The carries before each step: the start, then the trajectory without its last row in walking order. */
static flx_val carries_before(flxi_site *s, const scan_backward_attrs *a, flx_val init, flx_val trajectory)
{
    flx_val first = flx_unsqueeze(s->g, init, FLX_INTS(0));
    flx_val forward[] = {first, trajectory};
    flx_val backward[] = {trajectory, first};
    flx_val all = flx_concat(s->g, a->scan.reverse ? backward : forward, 2, 0);
    return flx_narrow(s->g, all, 0, a->scan.reverse ? 1 : 0, a->scan.length);
}

/* The backward scan; returns a cotangent for each wanted input of the body, or NULL. */
static flx_val *sweep(flxi_site *s)
{
    const scan_backward_attrs *a = s->attrs;
    operand_layout at = layout_of(a, s->nin);
    flxi_backward_plan p;
    flx_val *x = flxi_rule_new(s, flx_val, at.inputs);
    flx_val *saved = flxi_rule_new(s, flx_val, at.carries);
    flx_val *dy = flxi_rule_new(s, flx_val, a->seeded.n);
    flx_val *out = flxi_rule_new(s, flx_val, at.inputs);
    if (!x || !saved || !dy || !out || !flxi_plan_of(s, a, &p))
        return NULL;
    for (uint32_t i = 0; i < at.inputs; i++)
        x[i] = s->x[i < at.carries ? i : at.bcast + i - at.carries];
    for (uint32_t i = 0; i < at.carries; i++)
        saved[i] = carries_before(s, a, s->x[i], s->x[at.carries + i]);
    for (uint32_t k = 0, from = at.upstream; k < a->seeded.n; k++)
        if (p.seeded[k])
            dy[k] = s->x[from++];
    flxi_site inner = *s;
    inner.x = x;
    inner.nin = at.inputs;
    flxi_scan_back(&inner, &p, a->body_vjp, saved, dy, NULL, out);
    return out;
}

static void decompose_start(flxi_site *s, flx_val *y)
{
    const scan_backward_attrs *a = s->attrs;
    const flx_val *d = sweep(s);
    int64_t shared = a->scan.num_carry + a->scan.num_bcast;
    for (int64_t i = 0, at = 0; d && i < shared; i++)
        if (a->wanted.v[i]) {
            y[at] = d[at];
            at++;
        }
}

static void decompose_rows(flxi_site *s, flx_val *y)
{
    const scan_backward_attrs *a = s->attrs;
    const flx_val *d = sweep(s);
    int64_t at = 0;
    for (int64_t i = 0; i < a->scan.num_carry + a->scan.num_bcast + a->i; i++)
        at += a->wanted.v[i] != 0;
    if (d)
        y[0] = d[at];
}

/* ---- Samples ---- */

#define STEP                                                       \
    "graph step(c: f32[2], x: f32[2]) { return sin(add(c, x)) }\n" \
    "graph back(c: f32[2], x: f32[2], d: f32[2]) { g = mul(d, cos(add(c, x))) return g, g }\n"
#define SHARED_STEP                                                                                    \
    "graph step(c: f32[2], b: f32[2], x: f32[2]) { n = sin(add(mul(c, b), x)) return n, mul(n, x) }\n" \
    "graph back(c: f32[2], b: f32[2], x: f32[2], d: f32[2], dy: f32[2]) {\n"                           \
    "  z = add(mul(c, b), x)\n  g = mul(add(d, mul(dy, x)), cos(z))\n"                                 \
    "  return mul(g, b), mul(g, c), add(g, mul(dy, sin(z)))\n}\n"
#define COMPLEX_STEP                                          \
    "graph step(c: c64[2], x: c64[2]) { return mul(c, x) }\n" \
    "graph back(c: c64[2], x: c64[2], d: c64[2]) { return mul(d, conjugate(x)), mul(d, conjugate(c)) }\n"
#define BODIES "body=@step, body_vjp=@back"
#define SHARED BODIES ", num_bcast=1"

static const flxi_sample samples_scan_backward[] = {
    {"f32[2], f32[4, 2], f32[2], f32[4, 2]", BODIES, STEP, FLX_OK},
    {"f32[2], f32[3, 2], f32[3, 2], f32[3, 2]", BODIES ", save_trajectory=true, reverse=true", STEP, FLX_OK},
    {"f32[2], f32[3, 2], f32[2], f32[3, 2], f32[2], f32[3, 2]", SHARED, SHARED_STEP, FLX_OK},
    {"f32[2], f32[3, 2], f32[2], f32[3, 2], f32[2], f32[3, 2]", SHARED ", reverse=true", SHARED_STEP, FLX_OK},
    {"f32[2], f32[N, 2], f32[2], f32[N, 2]", BODIES, STEP, FLX_OK},
    {"f32[2], f32[0, 2], f32[2], f32[0, 2]", BODIES ", length=0", STEP, FLX_OK},
    {"c64[2], c64[3, 2], c64[2], c64[3, 2]", BODIES, COMPLEX_STEP, FLX_OK},
    {"f32[2], f32[4, 2], f32[2], f32[3, 2]", BODIES, STEP, FLX_E_SHAPE},
    {"f32[2], f32[4, 3], f32[2], f32[4, 2]", BODIES, STEP, FLX_E_SHAPE},
    {"f32[2], f32[4, 2], f32[4, 2]", BODIES, STEP, FLX_E_ARITY},
    {"f32[2], f32[4, 2]", BODIES, STEP, FLX_E_ARITY},
    {"f32[2], f32[4, 2], f32[2], f32[4, 2]", BODIES ", num_carry=0", STEP, FLX_E_ATTRIBUTE},
    {"f32[2], f32[4, 2], f32[2], f32[4, 2]", BODIES ", wanted=[1]", STEP, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_scan_backward_xs[] = {
    {"f32[2], f32[4, 2], f32[2], f32[4, 2]", BODIES, STEP, FLX_OK},
    {"f32[2], f32[3, 2], f32[3, 2], f32[3, 2]", BODIES ", i=0, save_trajectory=true", STEP, FLX_OK},
    {"f32[2], f32[3, 2], f32[2], f32[3, 2], f32[2], f32[3, 2]", SHARED ", reverse=true", SHARED_STEP, FLX_OK},
    {"f32[2], f32[N, 2], f32[2], f32[N, 2]", BODIES, STEP, FLX_OK},
    {"f32[2], f32[0, 2], f32[2], f32[0, 2]", BODIES, STEP, FLX_OK},
    {"c64[2], c64[3, 2], c64[2], c64[3, 2]", BODIES, COMPLEX_STEP, FLX_OK},
    {"f32[2], f32[4, 2], f32[2], f32[4, 2]", BODIES ", i=1", STEP, FLX_E_ATTRIBUTE},
    {"f32[2], f32[4, 2], f32[2], f32[3, 2]", BODIES, STEP, FLX_E_SHAPE},
    {0},
};

/* The trajectory is an operand, so that the body itself does not run. */
static bool bodies_backward(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const scan_backward_attrs *a = n->attrs;
    (void)g;
    *out = (flxi_body){.graph = a->scan.body, .role = BODY_RULE, .runs = 0};
    if (i == 1)
        *out = (flxi_body){.graph = a->body_vjp, .role = BODY_CALLED, .runs = a->scan.length};
    return i < 2;
}

const flxi_rules flxi_rules_scan_backward = {
    .infer = infer_start,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_start,
    .schema = start_schema,
    .attrs_size = sizeof(scan_backward_attrs),
    .samples = samples_scan_backward,
    .bodies = bodies_backward,
};

const flxi_rules flxi_rules_scan_backward_xs = {
    .infer = infer_rows,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_rows,
    .schema = rows_schema,
    .attrs_size = sizeof(scan_backward_attrs),
    .samples = samples_scan_backward_xs,
    .bodies = bodies_backward,
};
