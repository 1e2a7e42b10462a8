/* SPDX-License-Identifier: Apache-2.0 */
/* fused_region.c: chains of ops in one node, to be computed together: elementwise_region, batch_elementwise_region,
   which runs the chain on slices, and transform_region, a chain of geometric steps. The chain is a graph, and the op
   means that graph inlined in its place.

   Elementwise bodies bind by element. An input of the body either has the type of its operand, or it is a scalar of
   that dtype, which stands for each element of it; every step then has the broadcast shape of its operands. So one body
   serves slices of several lengths. Inference goes through the steps with the operands' shapes, and inlining infers
   them again. */
#include "ops/opcode.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/decomposed.h"

enum { MAX_INPUTS = 16 };

typedef struct {
    const flx_graph *body;
} region_attrs;

static const flxi_attr region_schema[] = {A_GRAPH_AS(region_attrs, body, "body"), A_END};

/* ---- What a body may hold ---- */

static bool is_geometric(flxi_opcode op)
{
    return op == OP_narrow || op == OP_transpose || op == OP_resize_nearest_2x;
}

static bool is_literal(flxi_opcode op)
{
    return op == OP_const || op == OP_full;
}

static flx_code fail_step(flxi_infer *f, const flx_graph *body, const flxi_node *n, const char *hint, const char *why)
{
    const char *label = n->nout ? flxi_value_at(body, n->first)->name : NULL;
    return flxi_infer_fail(f, FLX_E_ATTRIBUTE, hint, "body=@%s: %s%s%s%s %s", body->name, flxi_ops[n->op].name,
                           label ? " '" : "", label ? label : "", label ? "'" : "", why);
}

static flx_code need_one_output(flxi_infer *f, const flx_graph *body)
{
    if (flxi_body_outputs(body) == 1)
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_ARITY, "the result of a region is its last step",
                           "body=@%s must return one value, not %zu", body->name, flxi_body_outputs(body));
}

/* ---- Elementwise bodies ---- */

/* A body's values with the shapes they have on the operands. */
typedef struct {
    const flx_graph *body;
    int64_t axis;   /* the axis along which an input may have any extent, counted from the last axis as 1; 0: none */
    flx_type *type; /* by id */
    bool has_prologue;
} walk;

static bool binds(const walk *w, const flx_type *input, const flx_type *operand)
{
    if (input->dtype != operand->dtype)
        return false;
    if (input->rank == 0)
        return true;
    bool same = input->rank == operand->rank;
    for (int k = 0; same && k < input->rank; k++)
        same = input->dims[k] == operand->dims[k] || input->rank - k == w->axis;
    return same;
}

static flx_code bind_inputs(flxi_infer *f, walk *w)
{
    const flx_graph *b = w->body;
    if (f->nin > MAX_INPUTS)
        return flxi_infer_fail(f, FLX_E_ARITY, "split the region", "expected at most %d operands, got %u", MAX_INPUTS,
                               f->nin);
    FLXI_TRY(flxi_need_operands(f));
    if (b->leaves.n != f->nin)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "body=@%s takes %zu inputs, not %u", b->name, b->leaves.n, f->nin);
    for (uint32_t i = 0; i < f->nin; i++) {
        const flxi_value *v = flxi_value_at(b, b->leaves.at[i]);
        flxi_type_text wanted, found;
        if (!binds(w, v->type, f->in[i]))
            return flxi_infer_fail(f, v->type->dtype == f->in[i]->dtype ? FLX_E_SHAPE : FLX_E_DTYPE,
                                   "an input has the type of its operand, or is a scalar that stands for each element",
                                   "body=@%s: input '%s' is %s, but the operand is %s", b->name, v->name,
                                   flxi_type_str(f->ctx, v->type, &wanted), flxi_type_str(f->ctx, f->in[i], &found));
        w->type[b->leaves.at[i]] = *f->in[i];
    }
    return FLX_OK;
}

/* One geometric step may come first, on the first input, which then has its operand's type. */
static bool is_prologue(const walk *w, const flxi_node *n)
{
    uint32_t first = w->body->leaves.at[0];
    return is_geometric(n->op) && n->in[0] == first && !w->axis && !w->has_prologue &&
           flxi_type_equal(flxi_type_at(w->body, first), &w->type[first]);
}

static flx_code walk_step(flxi_infer *f, walk *w, const flxi_node *n)
{
    flx_type *y = &w->type[n->first];
    const flx_type *recorded = flxi_type_at(w->body, n->first);
    const flxi_op *op = &flxi_ops[n->op];
    if (is_literal(n->op) && recorded->rank > 0)
        return fail_step(f, w->body, n, "pass the tensor as an operand", "is not a scalar");
    if (!is_literal(n->op) && op->op_class != CLASS_POINTWISE && !is_prologue(w, n))
        return fail_step(f, w->body, n,
                         "a region holds unary, binary, compare, where and cast ops, and scalar constants",
                         "is not an elementwise op");
    if (op->op_class != CLASS_POINTWISE) {
        w->has_prologue |= is_geometric(n->op);
        *y = *recorded;
        return FLX_OK;
    }
    const flx_type **in = flxi_new(f->arena, const flx_type *, n->nin);
    if (!in)
        return flxi_oom(f->err, "the types of a body");
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = &w->type[n->in[k]];
    y->dtype = recorded->dtype;
    return flxi_broadcast(f, in, n->nin, y);
}

/* The type of the body's value on the operands. */
static flx_code walk_body(flxi_infer *f, const flx_graph *body, int64_t axis, flx_type *y)
{
    flxi_mark mark = flxi_arena_mark(f->arena);
    walk w = {.body = body, .axis = axis, .type = flxi_new(f->arena, flx_type, (size_t)body->value_count + 1)};
    FLXI_TRY(need_one_output(f, body));
    if (!w.type)
        return flxi_oom(f->err, "the types of a body");
    flx_code code = bind_inputs(f, &w);
    for (uint32_t i = 0; code == FLX_OK && i < body->node_count; i++) {
        const flxi_node *n = flxi_node_at(body, i);
        if (!(flxi_ops[n->op].traits & TRAIT_DECLARED))
            code = walk_step(f, &w, n);
    }
    if (code == FLX_OK)
        *y = w.type[body->outputs.at[0].val];
    flxi_arena_rewind(f->arena, mark);
    return code;
}

/* The steps of the body on these values; their types are inferred again. */
static flx_val replay(flxi_site *s, const flx_graph *body, const flx_val *in)
{
    flx_error err = {0};
    uint32_t *map = flxi_rule_new(s, uint32_t, (size_t)body->value_count + 1);
    flx_code code = map ? FLX_OK : FLX_E_OOM;
    for (size_t i = 0; map && i < body->leaves.n; i++)
        map[body->leaves.at[i]] = in[i].id;
    for (uint32_t i = 0; code == FLX_OK && i < body->node_count; i++) {
        const flxi_node *n = flxi_node_at(body, i);
        void *attrs = NULL;
        if (flxi_ops[n->op].traits & TRAIT_DECLARED)
            continue;
        uint32_t *ids = flxi_rule_new(s, uint32_t, n->nin);
        code = ids ? flxi_attrs_clone(s->g, &flxi_ops[n->op], n->attrs, NULL, &attrs, &err) : FLX_E_OOM;
        for (uint32_t k = 0; ids && k < n->nin; k++)
            ids[k] = map[n->in[k]];
        if (code == FLX_OK)
            map[n->first] = flxi_add_node(s->g, n->op, ids, n->nin, attrs);
    }
    if (err.code)
        flxi_graph_fail(s->g, &err);
    return code == FLX_OK ? (flx_val){map[body->outputs.at[0].val], s->g->serial} : FLX_NONE;
}

/* ---- elementwise_region ---- */

static flx_code infer_elementwise(flxi_infer *f)
{
    return walk_body(f, ((const region_attrs *)f->attrs)->body, 0, &f->out[0]);
}

static void decompose_elementwise(flxi_site *s, flx_val *y)
{
    y[0] = replay(s, ((const region_attrs *)s->attrs)->body, s->x);
}

#define SCALED "graph f(x: T[], y: T[]) { return mul(x, add(y, 1)) }"

static const flxi_sample samples_elementwise[] = {
    {"f32[2, 3]{-0.5..0.5}, f32[3]{-0.5..0.5}", "body=@f",
     "graph f(x: f32[2, 3], y: f32[3]) { return tanh(add(mul(x, y), 0.5)) }", FLX_OK},
    {"T[2, 3], T[2, 3]", "body=@f", SCALED, FLX_OK},
    {"T[2, 1, 3], T[2, 2, 1]", "body=@f", SCALED, FLX_OK},
    {"T[], T[]", "body=@f", SCALED, FLX_OK},
    {"T[0, 2], T[2]", "body=@f", SCALED, FLX_OK},
    {"T[N, 2], T[2]", "body=@f", "graph f(x: T[N, 2], y: T[]) { return mul(x, mul(y, y)) }", FLX_OK},
    {"f32[3], i32[3]", "body=@f",
     "graph f(x: f32[], k: i32[]) { p = gt(k, 0) return where(p, mul(x, x), cast(k, to=f32)) }", FLX_OK},
    {"f32[3, 2], f32[2, 3]", "body=@f",
     "graph f(x: f32[3, 2], y: f32[]) { t = transpose(x) return mul(sigmoid(t), y) }", FLX_OK},
    {"f32[2], f32[3]", "body=@f", "graph f(x: f32[2], y: f32[3]) { return exp(x) }", FLX_OK},
    {"f32[3]", "body=@f", "graph f(x: f32[3]) { return reduce_sum(x) }", FLX_E_ATTRIBUTE},
    {"f32[3]", "body=@f", "graph f(x: f32[3]) { return add(x, full(f32[3], 2)) }", FLX_E_ATTRIBUTE},
    {"f32[3, 4]", "body=@f", "graph f(x: f32[3, 4]) { return transpose(neg(x)) }", FLX_E_ATTRIBUTE},
    {"f32[3], f32[2]", "body=@f", "graph f(x: f32[], y: f32[]) { return add(x, y) }", FLX_E_SHAPE},
    {"f32[3]", "body=@f", "graph f(x: f32[4]) { return neg(x) }", FLX_E_SHAPE},
    {"f32[3]", "body=@f", "graph f(x: f64[3]) { return neg(x) }", FLX_E_DTYPE},
    {"f32[3]", "body=@f", "graph f(x: f32[3]) { return neg(x), x }", FLX_E_ARITY},
    {"f32[3]", "body=@f", "graph f(x: f32[3], y: f32[3]) { return add(x, y) }", FLX_E_ARITY},
    {0},
};

static bool bodies_region(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const flx_graph *body = ((const region_attrs *)n->attrs)->body;
    (void)g;
    *out = (flxi_body){.graph = body, .role = BODY_CALLED, .runs = 1};
    return i == 0;
}

const flxi_rules flxi_rules_elementwise_region = {
    .infer = infer_elementwise,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_elementwise,
    .schema = region_schema,
    .attrs_size = sizeof(region_attrs),
    .samples = samples_elementwise,
    .bodies = bodies_region,
};

/* ---- batch_elementwise_region ---- */

typedef struct {
    const flx_graph *body;
    int64_t axis; /* of the body's result on whole operands */
    flx_ints starts, lens;
} slices_attrs;

static const flxi_attr slices_schema[] = {
    A_GRAPH_AS(slices_attrs, body, "body"),
    A_INT_REQ(slices_attrs, axis),
    A_DIMS_REQ(slices_attrs, starts),
    A_DIMS_REQ(slices_attrs, lens),
    A_END,
};

/* Slices are in order, do not overlap and are in range; what depends on symbols is checked when they are bound. */
static flx_code check_slices(flxi_infer *f, const slices_attrs *a, flx_dim extent)
{
    flx_dim end = 0;
    if (a->starts.n != a->lens.n || a->lens.n == 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "a slice is a start and a length",
                               "starts has %zu entries, lens has %zu", a->starts.n, a->lens.n);
    FLXI_TRY(flxi_need_counts(f, "starts", &a->starts));
    FLXI_TRY(flxi_need_counts(f, "lens", &a->lens));
    for (size_t i = 0; i < a->lens.n; i++) {
        flxi_dim_text start, before;
        if (flxi_dim_below(f->ctx, flx_dim_sub(f->ctx, a->starts.v[i], end), 0))
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "slices are in order and do not overlap",
                                   "slice %zu starts at %s, but the one before it ends at %s", i,
                                   flxi_dim_str(f->ctx, a->starts.v[i], &start), flxi_dim_str(f->ctx, end, &before));
        end = flx_dim_add(f->ctx, a->starts.v[i], a->lens.v[i]);
    }
    flxi_dim_text last, found;
    if (flxi_dim_below(f->ctx, flx_dim_sub(f->ctx, extent, end), 0))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "the last slice ends at %s, but axis %lld has extent %s",
                               flxi_dim_str(f->ctx, end, &last), (long long)a->axis,
                               flxi_dim_str(f->ctx, extent, &found));
    return FLX_OK;
}

static flx_code infer_slices(flxi_infer *f)
{
    slices_attrs *a = f->attrs;
    flx_type whole;
    /* Inputs of the body may have the extent of a slice, so the axis comes first, counted from the last one. */
    int rank = 0;
    for (uint32_t i = 0; i < f->nin; i++)
        rank = f->in[i]->rank > rank ? f->in[i]->rank : rank;
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, rank));
    FLXI_TRY(walk_body(f, a->body, rank - a->axis, &whole));
    if (whole.rank != rank)
        return flxi_infer_fail(f, FLX_E_SHAPE, "leave out operands that the body does not read",
                               "body=@%s does not depend on its operand of the largest rank", a->body->name);
    FLXI_TRY(check_slices(f, a, whole.dims[a->axis]));
    whole.dims[a->axis] = 0;
    for (size_t i = 0; i < a->lens.n; i++)
        whole.dims[a->axis] = flx_dim_add(f->ctx, whole.dims[a->axis], a->lens.v[i]);
    f->out[0] = whole;
    return FLX_OK;
}

/* The largest extent of the operands along the axis that is `back` before the end; 1 only when all have 1. */
static flx_dim extent_along(const flxi_site *s, int64_t back)
{
    for (uint32_t i = 0; i < s->nin; i++) {
        const flx_type *t = flxi_typeof(s, s->x[i]);
        if (t->rank >= back && t->dims[t->rank - back] != 1)
            return t->dims[t->rank - back];
    }
    return 1;
}

/* All slices of v, one after the other along the axis; those that are neighbours are one. */
static flx_val joined_slices(flxi_site *s, flx_val v, int64_t axis)
{
    const slices_attrs *a = s->attrs;
    flx_val *part = flxi_rule_new(s, flx_val, a->lens.n);
    size_t n = 0;
    for (size_t p = 0, next; part && p < a->lens.n; p = next) {
        flx_dim end = flx_dim_add(s->ctx, a->starts.v[p], a->lens.v[p]);
        for (next = p + 1; next < a->lens.n && flx_dim_sub(s->ctx, a->starts.v[next], end) == 0; next++)
            end = flx_dim_add(s->ctx, end, a->lens.v[next]);
        bool is_whole = a->starts.v[p] == 0 && end == flxi_typeof(s, v)->dims[axis];
        part[n++] = is_whole ? v : flx_narrow(s->g, v, axis, a->starts.v[p], flx_dim_sub(s->ctx, end, a->starts.v[p]));
    }
    return n <= 1 ? n ? part[0] : FLX_NONE : flx_concat(s->g, part, n, axis);
}

/* Elements do not meet, so the body runs once on all slices together. */
static void decompose_slices(flxi_site *s, flx_val *y)
{
    const slices_attrs *a = s->attrs;
    int rank = 0;
    for (uint32_t i = 0; i < s->nin; i++)
        rank = flxi_typeof(s, s->x[i])->rank > rank ? flxi_typeof(s, s->x[i])->rank : rank;
    int64_t back = rank - a->axis;
    flx_dim extent = extent_along(s, back);
    flx_val *in = flxi_rule_new(s, flx_val, s->nin);
    if (!in)
        return;
    for (uint32_t i = 0; i < s->nin; i++) {
        const flx_type *t = flxi_typeof(s, s->x[i]);
        bool stretches = t->rank < back || (t->dims[t->rank - back] == 1 && extent != 1);
        in[i] = stretches ? s->x[i] : joined_slices(s, s->x[i], t->rank - back);
    }
    y[0] = replay(s, a->body, in);
}

#define SQUARE "graph f(x: T[]) { return mul(x, x) }"

static const flxi_sample samples_slices[] = {
    {"T[2, 5]", "body=@f, axis=1, starts=[0, 2], lens=[2, 3]", SQUARE, FLX_OK},
    {"T[5, 2]", "body=@f, axis=-2, starts=[0, 3], lens=[2, 1]", SQUARE, FLX_OK},
    {"T[2, 4], T[2, 1], T[4]", "body=@f, axis=1, starts=[0, 1, 4], lens=[1, 3, 0]",
     "graph f(x: T[], y: T[], z: T[]) { return add(mul(x, y), z) }", FLX_OK},
    {"f32[4, 2]", "body=@f, axis=0, starts=[0, 2], lens=[2, 2]", "graph f(x: f32[2, 2]) { return sin(x) }", FLX_OK},
    {"f32[4, 2]", "body=@f, axis=0, starts=[0, 1], lens=[1, 3]", "graph f(x: f32[4, 2]) { return gt(sin(x), 0) }",
     FLX_OK},
    {"T[1]", "body=@f, axis=0, starts=[0], lens=[1]", SQUARE, FLX_OK},
    {"T[0, 2]", "body=@f, axis=0, starts=[0], lens=[0]", SQUARE, FLX_OK},
    {"T[N, 2]", "body=@f, axis=0, starts=[0, 1], lens=[1, N - 1]", SQUARE, FLX_OK},
    {"T[2, 5]", "body=@f, axis=1, starts=[0, 1], lens=[2, 3]", SQUARE, FLX_E_ATTRIBUTE},
    {"T[2, 5]", "body=@f, axis=1, starts=[0, 2], lens=[2, 4]", SQUARE, FLX_E_ATTRIBUTE},
    {"T[2, 5]", "body=@f, axis=1, starts=[0, 2], lens=[2]", SQUARE, FLX_E_ATTRIBUTE},
    {"T[2, 5]", "body=@f, axis=1, starts=[], lens=[]", SQUARE, FLX_E_ATTRIBUTE},
    {"T[2, 5]", "body=@f, axis=1, starts=[0], lens=[-1]", SQUARE, FLX_E_ATTRIBUTE},
    {"T[2, 5]", "body=@f, axis=2, starts=[0], lens=[2]", SQUARE, FLX_E_ATTRIBUTE},
    {"f32[2, 5]", "body=@f, axis=1, starts=[0], lens=[5]", "graph f(x: f32[3, 5]) { return neg(x) }", FLX_E_SHAPE},
    {"f32[2, 5]", "body=@f, axis=1, starts=[0], lens=[5]", "graph f(x: f32[2, 5]) { return cumsum(x) }",
     FLX_E_ATTRIBUTE},
    {0},
};

static bool bodies_slices(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const slices_attrs *a = n->attrs;
    (void)g;
    *out = (flxi_body){.graph = a->body, .role = BODY_CALLED, .runs = (flx_dim)a->starts.n};
    return i == 0;
}

const flxi_rules flxi_rules_batch_elementwise_region = {
    .infer = infer_slices,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_slices,
    .schema = slices_schema,
    .attrs_size = sizeof(slices_attrs),
    .samples = samples_slices,
    .bodies = bodies_slices,
};

/* ---- transform_region ---- */

static bool is_affine(flxi_opcode op)
{
    return op == OP_mul || op == OP_add || op == OP_sub || op == OP_div || op == OP_fma;
}

/* A constant for each channel: at most one of its axes is longer than 1. */
static bool is_per_channel(const flx_graph *body, uint32_t id)
{
    const flx_type *t = flxi_type_at(body, id);
    int wide = 0;
    for (int k = 0; k < t->rank; k++)
        wide += t->dims[k] != 1;
    return is_literal(flxi_node_of(body, id)->op) && wide <= 1;
}

/* How often the step reads the one before it; -1 when it reads anything else that is not a constant for each
   channel. */
static int reads_of(const flx_graph *body, const flxi_node *n, uint32_t before)
{
    int reads = 0;
    for (uint32_t k = 0; k < n->nin; k++) {
        if (n->in[k] == before)
            reads++;
        else if (!is_per_channel(body, n->in[k]))
            return -1;
    }
    return reads;
}

/* Each step reads the one before it, and the value is the last one. */
static flx_code infer_transform(flxi_infer *f)
{
    const flx_graph *body = ((const region_attrs *)f->attrs)->body;
    FLXI_TRY(need_one_output(f, body));
    FLXI_TRY(flxi_match_body(f, "body", body, f->in, 1));
    uint32_t before = body->leaves.at[0];
    for (uint32_t i = 0; i < body->node_count; i++) {
        const flxi_node *n = flxi_node_at(body, i);
        if (flxi_ops[n->op].traits & TRAIT_DECLARED || is_literal(n->op))
            continue;
        if (!is_geometric(n->op) && !is_affine(n->op))
            return fail_step(f, body, n,
                             "narrow, transpose, resize_nearest_2x, and mul, add, sub, div, fma by constants",
                             "is not a geometric step");
        if (reads_of(body, n, before) != 1 || (n->op == OP_div && n->in[0] != before))
            return fail_step(f, body, n, "a constant has at most one axis longer than 1, the channels",
                             "must read the step before it once, and constants for each channel");
        before = n->first;
    }
    if (body->outputs.at[0].val != before)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "body=@%s must return its last step", body->name);
    f->out[0] = *flxi_body_output(body, 0);
    return FLX_OK;
}

static void decompose_transform(flxi_site *s, flx_val *y)
{
    flxi_inline(s->g, ((const region_attrs *)s->attrs)->body, s->x, y);
}

static const flxi_sample samples_transform[] = {
    {"T[2, 3, 4]", "body=@f",
     "graph f(x: T[2, 3, 4]) { n = narrow(x, axis=2, start=1, len=2) return transpose(n, perm=[1, 0, 2]) }", FLX_OK},
    {"f32[1, 2, 2, 3]", "body=@f",
     "graph f(x: f32[1, 2, 2, 3]) {\n  r = resize_nearest_2x(x)\n  s = mul(r, const(f32[2, 1, 1], [[[2]], [[-1]]]))\n"
     "  t = sub(1, s)\n  return transpose(t, perm=[0, 2, 3, 1])\n}",
     FLX_OK},
    {"T[3, N]", "body=@f", "graph f(x: T[3, N]) { return transpose(x) }", FLX_OK},
    {"T[2]", "body=@f", "graph f(x: T[2]) { return x }", FLX_OK},
    {"T[0, 2]", "body=@f", "graph f(x: T[0, 2]) { return narrow(x, axis=1, start=0, len=1) }", FLX_OK},
    {"f32[2, 3]", "body=@f", "graph f(x: f32[2, 3]) { return fma(2, div(x, full(f32[3], 4)), 1) }", FLX_OK},
    {"f32[2, 3]", "body=@f", "graph f(x: f32[2, 3]) { return exp(x) }", FLX_E_ATTRIBUTE},
    {"f32[2, 3]", "body=@f", "graph f(x: f32[2, 3]) { return mul(x, x) }", FLX_E_ATTRIBUTE},
    {"f32[2, 3]", "body=@f", "graph f(x: f32[2, 3]) { return div(1, x) }", FLX_E_ATTRIBUTE},
    {"f32[2, 3]", "body=@f", "graph f(x: f32[2, 3]) { return add(x, full(f32[2, 3], 1)) }", FLX_E_ATTRIBUTE},
    {"f32[2, 3]", "body=@f", "graph f(x: f32[2, 3]) { t = transpose(x) return x }", FLX_E_ATTRIBUTE},
    {"f32[2, 3]", "body=@f", "graph f(x: f32[2, 2]) { return transpose(x) }", FLX_E_SHAPE},
    {"f32[2, 3]", "body=@f", "graph f(x: f32[2, 3]) { t = transpose(x) return t, x }", FLX_E_ARITY},
    {0},
};

const flxi_rules flxi_rules_transform_region = {
    .infer = infer_transform,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_transform,
    .schema = region_schema,
    .attrs_size = sizeof(region_attrs),
    .samples = samples_transform,
    .bodies = bodies_region,
};
