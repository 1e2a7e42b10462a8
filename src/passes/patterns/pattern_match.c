/* SPDX-License-Identifier: Apache-2.0 */
/* pattern_match.c: the proof of a pattern rewrite: a value of a graph equals that of a small graph, the pattern, whose
   leaves stand for values of the first.

   Both are compared from the end, node by node. Two values agree when their elements are the same once both are
   stretched to a common shape: pointwise ops keep that, so it does not matter where an operand is stretched. All other
   ops need operands of equal type. Besides the same op there are other spellings of it, a table of rewrites, some of
   which are equal in real arithmetic only: then `differs` is set. The work is bounded, whatever the order of
   attempts. */
#include "passes/patterns/pattern.h"

#include "graph/op/eval.h"

#include <math.h>

enum { MOST_STEPS = 4000, MOST_VIEWS = 6 };

typedef struct {
    const flx_graph *p, *g;
    const uint32_t *bound; /* by id of p: what a leaf stands for; 0 for others */
    const flxi_allocator *mem;
    bool stops_cancel;
    bool short_of_memory;
    int steps;
    size_t furthest; /* how many nodes were covered when the culprit was found */
    flxi_agreement *out;
} matching;

static bool agree(matching *m, uint32_t p, uint32_t v);

/* ---- Covered nodes ---- */

typedef struct {
    size_t n;
    bool differs;
} progress;

static progress keep(const matching *m)
{
    return (progress){m->out->n, m->out->differs};
}

/* Backtracks to where an alternative is tried; returns false. */
static bool undo(matching *m, progress at)
{
    m->out->n = at.n;
    m->out->differs = at.differs;
    return false;
}

static bool cover(matching *m, uint32_t v)
{
    flxi_agreement *o = m->out;
    if (!flxi_vec_grow(m->mem, (void **)&o->nodes, o->n, &o->cap, sizeof *o->nodes)) {
        m->short_of_memory = true;
        return false;
    }
    o->nodes[o->n++] = flxi_value_at(m->g, v)->node;
    return true;
}

static bool blame(matching *m, uint32_t p, uint32_t v)
{
    if (m->out->n >= m->furthest) {
        m->furthest = m->out->n;
        m->out->culprit = v;
        m->out->wanted = flxi_maker(m->p, p)->op;
    }
    return false;
}

/* ---- Types ---- */

/* Right-aligned, extents are the same or one of them is 1. */
static bool stretch_alike(const flx_type *a, const flx_type *b)
{
    for (int k = 1; k <= a->rank && k <= b->rank; k++) {
        flx_dim x = a->dims[a->rank - k], y = b->dims[b->rank - k];
        if (x != y && x != 1 && y != 1)
            return false;
    }
    return true;
}

/* The same except for leading axes of extent 1. */
static bool same_aligned(const flx_type *a, const flx_type *b)
{
    int rank = a->rank > b->rank ? a->rank : b->rank;
    for (int k = 1; k <= rank; k++) {
        flx_dim x = k <= a->rank ? a->dims[a->rank - k] : 1, y = k <= b->rank ? b->dims[b->rank - k] : 1;
        if (x != y)
            return false;
    }
    return true;
}

/* Positions may be counted in integers of any width. */
static bool may_be_same_dtype(int32_t a, int32_t b)
{
    bool counts = (a == FLX_I32 || a == FLX_I64) && (b == FLX_I32 || b == FLX_I64);
    return a == b || counts;
}

static bool agree_wholly(matching *m, uint32_t p, uint32_t v)
{
    if (!flxi_type_equal(flxi_type_at(m->p, p), flxi_type_at(m->g, v)))
        return blame(m, p, v);
    return agree(m, p, v);
}

/* ---- Numbers and positions ---- */

static bool same_number(matching *m, uint32_t p, uint32_t v)
{
    double x, y;
    return flxi_known_number(m->p, p, &x) && flxi_known_number(m->g, v, &y) && memcmp(&x, &y, sizeof x) == 0;
}

/* Stretched, or with leading axes of extent 1: *base agrees with everything that v agrees with. */
static bool is_stretched(const flx_graph *g, uint32_t v, uint32_t *base)
{
    const flxi_node *n = flxi_maker(g, v);
    if (n->op == OP_expand) {
        *base = n->in[0];
        return true;
    }
    if (n->op == OP_broadcast_in_dim) {
        const flx_ints *axes = flxi_node_ints(n, "axes");
        int rank = flxi_type_at(g, v)->rank;
        *base = n->in[0];
        for (size_t i = 0; i < axes->n; i++)
            if (axes->v[i] != rank - (int64_t)axes->n + (int64_t)i)
                return false;
        return true;
    }
    return flxi_is_reshaped(g, v, base) && same_aligned(flxi_type_at(g, v), flxi_type_at(g, *base));
}

typedef struct {
    int axis; /* counted from the last, which is 1 */
    flx_dim extent;
} positions;

/* 0, 1, 2 … along one axis, the same along the others, however it was brought into that shape. */
static bool counts_along(const flx_graph *g, uint32_t v, positions *out)
{
    const flxi_node *n = flxi_maker(g, v);
    const flx_type *t = flxi_type_at(g, v);
    uint32_t base;
    if (n->op == OP_iota) {
        int64_t axis = flxi_node_int(n, "axis");
        *out = (positions){t->rank - (int)axis, t->dims[axis]};
        return true;
    }
    if (n->op == OP_expand)
        return counts_along(g, n->in[0], out);
    if (n->op == OP_broadcast_in_dim) {
        const flx_ints *axes = flxi_node_ints(n, "axes");
        if (!counts_along(g, n->in[0], out))
            return false;
        out->axis = t->rank - (int)axes->v[(int)axes->n - out->axis];
        return true;
    }
    if (!flxi_is_reshaped(g, v, &base) || !counts_along(g, base, out))
        return false;
    int wide = 0;
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k] != 1) {
            out->axis = t->rank - k;
            wide++;
        }
    const flx_type *b = flxi_type_at(g, base);
    for (int k = 0; k < b->rank; k++)
        wide += b->dims[k] != 1;
    return wide == 2 && t->dims[t->rank - out->axis] == out->extent;
}

static bool same_positions(matching *m, uint32_t p, uint32_t v)
{
    positions a, b;
    return counts_along(m->p, p, &a) && counts_along(m->g, v, &b) && a.axis == b.axis && a.extent == b.extent;
}

/* ---- The same op ---- */

static bool operands_agree(matching *m, const flxi_node *p, const flxi_node *v, bool is_swapped)
{
    bool pointwise = flxi_ops[p->op].op_class == CLASS_POINTWISE;
    for (uint32_t k = 0; k < p->nin; k++) {
        uint32_t at = is_swapped ? 1 - k : k;
        if (!(pointwise ? agree(m, p->in[k], v->in[at]) : agree_wholly(m, p->in[k], v->in[at])))
            return false;
    }
    return true;
}

static bool same_op(matching *m, uint32_t p, uint32_t v)
{
    const flxi_node *np = flxi_maker(m->p, p), *nv = flxi_maker(m->g, v);
    const flxi_op *op = &flxi_ops[np->op];
    if (np->op != nv->op || np->nin != nv->nin || np->nin == 0 || p - np->first != v - nv->first ||
        !flxi_attrs_equal(op, np->attrs, nv->attrs))
        return false;
    if (op->op_class != CLASS_POINTWISE && !flxi_type_equal(flxi_type_at(m->p, p), flxi_type_at(m->g, v)))
        return false;
    if (!cover(m, v))
        return false;
    progress at = keep(m);
    if (operands_agree(m, np, nv, false))
        return true;
    undo(m, at);
    return (op->traits & TRAIT_COMMUTES) && np->nin == 2 && operands_agree(m, np, nv, true);
}

/* ---- Shapes ---- */

/* Two shapes of the same elements: some value that p is a reshape of agrees with some value that v is a reshape of. */
static bool same_reshaped(matching *m, uint32_t p, uint32_t v)
{
    if (!same_aligned(flxi_type_at(m->p, p), flxi_type_at(m->g, v)))
        return false;
    uint32_t base = p;
    for (int i = 0; i < MOST_VIEWS && flxi_is_reshaped(m->p, base, &base); i++) {
        progress at = keep(m);
        uint32_t u = v, next;
        for (int k = 0; k < MOST_VIEWS && flxi_is_reshaped(m->g, u, &next); k++) {
            if (!cover(m, u))
                return false;
            u = next;
            progress inner = keep(m);
            if (agree_wholly(m, base, u))
                return true;
            undo(m, inner);
        }
        undo(m, at);
    }
    return false;
}

/* A reduction that has only the attributes axes and keep_dims. */
static bool is_plain_reduction(flxi_opcode op)
{
    return op == OP_reduce_sum || op == OP_reduce_mean || op == OP_reduce_max || op == OP_reduce_any;
}

/* A reduction that drops its axes and one that keeps them, reshaped. */
static bool same_reduction(matching *m, uint32_t p, uint32_t v)
{
    const flxi_node *np = flxi_maker(m->p, p);
    uint32_t u = v, next;
    if (!is_plain_reduction(np->op) || !same_aligned(flxi_type_at(m->p, p), flxi_type_at(m->g, v)))
        return false;
    for (int k = 0; k < MOST_VIEWS && flxi_is_reshaped(m->g, u, &next); k++) {
        if (!cover(m, u))
            return false;
        u = next;
    }
    const flxi_node *nv = flxi_made_by(m->g, u, np->op);
    const flx_ints *a = flxi_node_ints(np, "axes"), *b = nv ? flxi_node_ints(nv, "axes") : NULL;
    if (u == v || !a || !b || a->n != b->n || memcmp(a->v, b->v, a->n * sizeof *a->v) != 0)
        return false;
    return cover(m, u) && agree_wholly(m, np->in[0], nv->in[0]);
}

/* ---- Other spellings ---- */

/* Whether x y = 1, to the rounding of the dtype. */
static bool are_inverse(int32_t dtype, double x, double y)
{
    double eps = dtype == FLX_F64 ? 0x1p-51 : dtype == FLX_F32 ? 0x1p-22 : dtype == FLX_F16 ? 0x1p-9 : 0x1p-6;
    return fabs(x * y - 1) <= eps;
}

static bool differs(matching *m)
{
    m->out->differs = true;
    return true;
}

/* Dividing by a power of two equals multiplying by its inverse, bit for bit. */
static bool is_power_of_two(double x)
{
    int exponent;
    return fabs(frexp(x, &exponent)) == 0.5;
}

/* a * k as b / k', or the reverse. */
static bool inverse_number(matching *m, const flxi_node *p, const flxi_node *v)
{
    double x, y;
    int32_t dtype = flxi_type_at(m->g, v->first)->dtype;
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < 2; k++)
            if ((i == 1 || p->op == OP_mul) && (k == 1 || v->op == OP_mul) && flxi_known_number(m->p, p->in[i], &x) &&
                flxi_known_number(m->g, v->in[k], &y) && are_inverse(dtype, x, y)) {
                m->out->differs |= x * y != 1 || !is_power_of_two(x);
                return agree(m, p->in[1 - i], v->in[1 - k]);
            }
    return false;
}

static bool mul_as_div(matching *m, const flxi_node *p, const flxi_node *v)
{
    progress at = keep(m);
    if (v->op != OP_div)
        return false;
    if (inverse_number(m, p, v))
        return true;
    undo(m, at);
    const flxi_node *root = flxi_made_by(m->g, v->in[1], OP_sqrt);
    for (uint32_t i = 0; root && i < 2; i++) { /* c rsqrt(a) as c / sqrt(a) */
        const flxi_node *r = flxi_made_by(m->p, p->in[i], OP_rsqrt);
        if (r && cover(m, v->in[1]) && agree(m, r->in[0], root->in[0]) && agree(m, p->in[1 - i], v->in[0]))
            return differs(m);
        undo(m, at);
    }
    return false;
}

static bool div_as_mul(matching *m, const flxi_node *p, const flxi_node *v)
{
    return v->op == OP_mul && inverse_number(m, p, v);
}

static bool square_as_mul(matching *m, const flxi_node *p, const flxi_node *v)
{
    double x;
    if (v->op == OP_mul && v->in[0] == v->in[1])
        return agree(m, p->in[0], v->in[0]);
    return v->op == OP_pow && flxi_known_number(m->g, v->in[1], &x) && x == 2 && agree(m, p->in[0], v->in[0]) &&
           differs(m);
}

static bool rsqrt_as_inverse(matching *m, const flxi_node *p, const flxi_node *v)
{
    double x;
    if (v->op == OP_pow)
        return flxi_known_number(m->g, v->in[1], &x) && x == -0.5 && agree(m, p->in[0], v->in[0]) && differs(m);
    bool inverse = v->op == OP_reciprocal || (v->op == OP_div && flxi_known_number(m->g, v->in[0], &x) && x == 1);
    const flxi_node *root = inverse ? flxi_made_by(m->g, v->in[v->nin - 1], OP_sqrt) : NULL;
    return root && cover(m, v->in[v->nin - 1]) && agree(m, p->in[0], root->in[0]) && differs(m);
}

static bool silu_as_product(matching *m, const flxi_node *p, const flxi_node *v)
{
    for (uint32_t k = 0; v->op == OP_mul && k < 2; k++) {
        const flxi_node *s = flxi_made_by(m->g, v->in[k], OP_sigmoid);
        if (s && s->in[0] == v->in[1 - k])
            return cover(m, v->in[k]) && agree(m, p->in[0], s->in[0]) && differs(m);
    }
    return false;
}

/* The sum divided by the count, or times its inverse. */
static bool mean_as_sum(matching *m, const flxi_node *p, const flxi_node *v)
{
    const flx_ints *axes = flxi_node_ints(p, "axes");
    const flx_type *x = flxi_type_at(m->p, p->in[0]);
    double count = 1, y;
    for (size_t i = 0; i < axes->n; i++)
        count *= flxi_dim_is_number(x->dims[axes->v[i]]) ? (double)x->dims[axes->v[i]] : NAN;
    for (uint32_t k = 0; (v->op == OP_div || v->op == OP_mul) && k < 2; k++) {
        if ((v->op == OP_div && k == 0) || !flxi_known_number(m->g, v->in[k], &y))
            continue;
        uint32_t sum = flxi_reshaped_from(m->g, v->in[1 - k]), next;
        const flxi_node *s = flxi_made_by(m->g, sum, OP_reduce_sum);
        bool fits = v->op == OP_div ? y == count : are_inverse(x->dtype, y, count);
        const flx_ints *of = s ? flxi_node_ints(s, "axes") : NULL;
        if (!of || !fits || of->n != axes->n || memcmp(of->v, axes->v, of->n * sizeof *of->v) != 0 ||
            !same_aligned(flxi_type_at(m->p, p->first), flxi_type_at(m->g, v->in[1 - k])))
            continue;
        for (uint32_t u = v->in [1 - k]; u != sum && flxi_is_reshaped(m->g, u, &next); u = next)
            if (!cover(m, u))
                return false;
        return cover(m, sum) && agree_wholly(m, p->in[0], s->in[0]) && differs(m);
    }
    return false;
}

/* 0 - x as -x: zeros have another sign. */
static bool sub_as_neg(matching *m, const flxi_node *p, const flxi_node *v)
{
    double x;
    return v->op == OP_neg && flxi_known_number(m->p, p->in[0], &x) && x == 0 && agree(m, p->in[1], v->in[0]) &&
           differs(m);
}

/* A part of a split. */
static bool narrow_as_part(matching *m, const flxi_node *p, const flxi_node *v, uint32_t part)
{
    flx_dim start = 0;
    if (v->op != OP_split || flxi_node_int(p, "axis") != flxi_node_int(v, "axis"))
        return false;
    const flx_ints *sizes = flxi_node_ints(v, "sizes");
    for (uint32_t k = 0; k < part; k++)
        start = flx_dim_add(m->g->ctx, start, sizes->v[k]);
    return start == flxi_node_int(p, "start") && sizes->v[part] == flxi_node_int(p, "len") &&
           agree_wholly(m, p->in[0], v->in[0]);
}

/* a <= b as b >= a. */
static flxi_opcode mirrored(flxi_opcode op)
{
    return op == OP_le ? OP_ge : op == OP_ge ? OP_le : op == OP_lt ? OP_gt : op == OP_gt ? OP_lt : OP_NONE;
}

static flxi_opcode denied(flxi_opcode op)
{
    return op == OP_le ? OP_gt : op == OP_gt ? OP_le : op == OP_lt ? OP_ge : op == OP_ge ? OP_lt : OP_NONE;
}

static bool as_mirrored(matching *m, const flxi_node *p, const flxi_node *v)
{
    return v->op == mirrored(p->op) && agree(m, p->in[0], v->in[1]) && agree(m, p->in[1], v->in[0]);
}

/* v is the negation of p. Integers only: NaN is neither below nor above. */
static bool agree_denied(matching *m, uint32_t p, uint32_t v)
{
    const flxi_node *np = flxi_maker(m->p, p), *nv = flxi_maker(m->g, v);
    if (nv->op == OP_not)
        return cover(m, v) && agree(m, p, nv->in[0]);
    flxi_opcode other = denied(np->op);
    if (!other || !flxi_is_int(flxi_type_at(m->p, np->in[0])->dtype) || !cover(m, v))
        return false;
    progress at = keep(m);
    if (nv->op == other && agree(m, np->in[0], nv->in[0]) && agree(m, np->in[1], nv->in[1]))
        return true;
    undo(m, at);
    return nv->op == mirrored(other) && agree(m, np->in[0], nv->in[1]) && agree(m, np->in[1], nv->in[0]);
}

static bool where_denied(matching *m, const flxi_node *p, const flxi_node *v)
{
    return v->op == OP_where && agree(m, p->in[1], v->in[2]) && agree(m, p->in[2], v->in[1]) &&
           agree_denied(m, p->in[0], v->in[0]);
}

typedef struct {
    flxi_opcode op;
    bool (*as)(matching *m, const flxi_node *p, const flxi_node *v);
} spelling;

static const spelling spellings[] = {
    {OP_mul, mul_as_div},       {OP_div, div_as_mul}, {OP_square, square_as_mul},    {OP_rsqrt, rsqrt_as_inverse},
    {OP_silu, silu_as_product}, {OP_sub, sub_as_neg}, {OP_reduce_mean, mean_as_sum}, {OP_le, as_mirrored},
    {OP_ge, as_mirrored},       {OP_lt, as_mirrored}, {OP_gt, as_mirrored},          {OP_where, where_denied},
};

static bool other_spelling(matching *m, uint32_t p, uint32_t v)
{
    const flxi_node *np = flxi_maker(m->p, p), *nv = flxi_maker(m->g, v);
    progress at = keep(m);
    if (np->op == OP_stop_gradient && m->stops_cancel)
        return agree(m, np->in[0], v);
    if (np->op == OP_narrow && narrow_as_part(m, np, nv, v - nv->first) && cover(m, v))
        return true;
    undo(m, at);
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        if (spellings[i].op != np->op || nv->nin == 0)
            continue;
        if (cover(m, v) && spellings[i].as(m, np, nv))
            return true;
        undo(m, at);
    }
    return false;
}

/* ---- The whole match ---- */

static bool through_stretching(matching *m, uint32_t p, uint32_t v)
{
    uint32_t base;
    progress at = keep(m);
    if (is_stretched(m->g, v, &base) && cover(m, v) && agree(m, p, base))
        return true;
    undo(m, at);
    return is_stretched(m->p, p, &base) && agree(m, base, v);
}

static bool agree(matching *m, uint32_t p, uint32_t v)
{
    static bool (*const ways[])(matching *, uint32_t, uint32_t) = {same_op, same_reduction, same_reshaped,
                                                                   through_stretching, other_spelling};
    const flx_type *tp = flxi_type_at(m->p, p), *tv = flxi_type_at(m->g, v);
    if (m->bound[p] == v)
        return true;
    if (m->short_of_memory || m->steps-- <= 0)
        return false;
    if (!may_be_same_dtype(tp->dtype, tv->dtype) || !stretch_alike(tp, tv))
        return blame(m, p, v);
    if (same_number(m, p, v) || same_positions(m, p, v))
        return true;
    progress at = keep(m);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (ways[i](m, p, v))
            return true;
        undo(m, at);
    }
    return blame(m, p, v);
}

flx_code flxi_agree(const flx_graph *pattern, const uint32_t *in, const flx_graph *g, uint32_t root, bool stops_cancel,
                    flxi_agreement *out, flx_error *err)
{
    const flxi_allocator *mem = &g->ctx->mem;
    size_t n = (size_t)pattern->value_count + 1;
    uint32_t *bound = flxi_alloc(mem, n, sizeof *bound);
    *out = (flxi_agreement){0};
    if (!bound)
        return flxi_oom(err, "matching a pattern");
    for (size_t i = 0; i < pattern->leaves.n; i++)
        bound[pattern->leaves.at[i]] = in[i];
    matching m = {.p = pattern,
                  .g = g,
                  .bound = bound,
                  .mem = mem,
                  .stops_cancel = stops_cancel,
                  .steps = MOST_STEPS,
                  .out = out};
    out->found = agree_wholly(&m, pattern->outputs.at[0].val, root);
    flxi_free(mem, bound, n, sizeof *bound);
    return m.short_of_memory ? flxi_oom(err, "matching a pattern") : FLX_OK;
}
