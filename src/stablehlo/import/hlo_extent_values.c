/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_extent_values.c: what an integer value of the graph is in terms of the extents of @main's arguments.

   The graph is evaluated backwards from the value with dimensions in place of numbers. Operations that only move
   elements do so here too: they are run on a tensor of references to the elements. Arithmetic is done with polynomials;
   comparisons are decided by lower bounds of the symbols (extents are at least 0, or what the program asserts), and
   what cannot be decided is unknown, as is everything computed from it. */
#include "stablehlo/import/import_scope.h"

#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "graph/type/dim.h"
#include "ops/opcode.h"

#include <fluxion/run.h>
#include <stdio.h>

enum { MAX_ELEMENTS = 1024, MAX_NODES = 4096, MAX_DEPTH = 512 };

typedef struct {
    uint32_t id;
    const int64_t *refs; /* NULL: nothing is known */
    int64_t n;
} memo;

typedef struct {
    hlo_site *s;
    FLXI_VEC(hlo_extent) elements;
    FLXI_VEC(memo) memos;
    int depth;
    bool names_unknown; /* elements that only a run knows get symbols of their own, so that they cancel out */
} evaluation;

static const hlo_extent unknown = {.dim = FLX_DIM_INVALID, .least = INT64_MIN};

static bool is_unknown(const hlo_extent *x)
{
    return x->dim == FLX_DIM_INVALID;
}

/* ---- Bounds ---- */

static const char run_time_prefix[] = "_run";

static bool is_run_time(const char *name)
{
    return strncmp(name, run_time_prefix, sizeof run_time_prefix - 1) == 0;
}

static int64_t least_symbol(void *user, const char *name)
{
    const hlo_import *im = user;
    int64_t least = is_run_time(name) ? -1 : 0; /* −1: it may be anything */
    for (size_t i = 0; i < im->at_least.n; i++)
        if (strcmp(im->at_least.at[i].name, name) == 0 && im->at_least.at[i].extent > least)
            least = im->at_least.at[i].extent;
    return least;
}

static int64_t least_of(const evaluation *e, flx_dim d)
{
    int64_t least;
    return d != FLX_DIM_INVALID && flxi_dim_least(e->s->im->ctx, d, least_symbol, e->s->im, &least) ? least : INT64_MIN;
}

static hlo_extent of_dim(const evaluation *e, flx_dim d)
{
    return (hlo_extent){.dim = d, .least = least_of(e, d)};
}

static hlo_extent of_number(int64_t x)
{
    return (hlo_extent){.dim = x, .least = x};
}

/* A number that a − b is not below; INT64_MIN: none is known. */
static int64_t least_difference(const evaluation *e, const hlo_extent *a, const hlo_extent *b)
{
    int64_t least = least_of(e, flx_dim_sub(e->s->im->ctx, a->dim, b->dim));
    int64_t other;
    if (flxi_dim_is_number(b->dim) && a->least != INT64_MIN && !__builtin_sub_overflow(a->least, b->dim, &other))
        least = other > least ? other : least;
    return least;
}

/* ---- Arithmetic ---- */

typedef hlo_extent (*arithmetic)(const evaluation *e, const hlo_extent *x);

static hlo_extent add(const evaluation *e, const hlo_extent *x)
{
    return of_dim(e, flx_dim_add(e->s->im->ctx, x[0].dim, x[1].dim));
}

static hlo_extent sub(const evaluation *e, const hlo_extent *x)
{
    return of_dim(e, flx_dim_sub(e->s->im->ctx, x[0].dim, x[1].dim));
}

static hlo_extent mul(const evaluation *e, const hlo_extent *x)
{
    return of_dim(e, flx_dim_mul(e->s->im->ctx, x[0].dim, x[1].dim));
}

static hlo_extent neg(const evaluation *e, const hlo_extent *x)
{
    return of_dim(e, flx_dim_sub(e->s->im->ctx, 0, x[0].dim));
}

/* Truncating and flooring agree where nothing is negative. */
static bool divides(const hlo_extent *x)
{
    return x[0].least >= 0 && x[1].least > 0;
}

/* The divisor is positive. */
static hlo_extent floor_quotient(const evaluation *e, const hlo_extent *x)
{
    hlo_extent y = of_dim(e, flxi_dim_floor_div(e->s->im->ctx, x[0].dim, x[1].dim));
    if (!is_unknown(&y) && y.least < 0 && x[0].least >= 0)
        y.least = 0;
    return y;
}

static hlo_extent quotient(const evaluation *e, const hlo_extent *x)
{
    return divides(x) ? floor_quotient(e, x) : unknown;
}

/* The divisor is positive. */
static hlo_extent floor_remainder(const evaluation *e, const hlo_extent *x)
{
    flx_context *ctx = e->s->im->ctx;
    flx_dim whole = flx_dim_mul(ctx, flxi_dim_floor_div(ctx, x[0].dim, x[1].dim), x[1].dim);
    hlo_extent y = of_dim(e, flx_dim_sub(ctx, x[0].dim, whole));
    if (!is_unknown(&y) && y.least < 0)
        y.least = 0;
    if (flxi_dim_is_number(x[1].dim)) {
        y.dividend = x[0].dim;
        y.divisor = x[1].dim;
    }
    return y;
}

static hlo_extent remainder_of(const evaluation *e, const hlo_extent *x)
{
    return divides(x) ? floor_remainder(e, x) : unknown;
}

static hlo_extent chosen(const evaluation *e, const hlo_extent *x, bool is_larger)
{
    if (least_difference(e, &x[0], &x[1]) >= 0)
        return x[is_larger ? 0 : 1];
    return least_difference(e, &x[1], &x[0]) >= 0 ? x[is_larger ? 1 : 0] : unknown;
}

static hlo_extent max(const evaluation *e, const hlo_extent *x)
{
    return chosen(e, x, true);
}

static hlo_extent min(const evaluation *e, const hlo_extent *x)
{
    return chosen(e, x, false);
}

static hlo_extent sign(const evaluation *e, const hlo_extent *x)
{
    const hlo_extent zero = of_number(0);
    if (flxi_dim_is_number(x[0].dim))
        return of_number((x[0].dim > 0) - (x[0].dim < 0));
    if (x[0].least > 0)
        return of_number(1);
    return least_difference(e, &zero, &x[0]) > 0 ? of_number(-1) : unknown;
}

static hlo_extent size(const evaluation *e, const hlo_extent *x)
{
    return x[0].least >= 0 ? x[0] : flxi_dim_is_number(x[0].dim) ? neg(e, x) : unknown;
}

static hlo_extent same(const evaluation *e, const hlo_extent *x)
{
    (void)e;
    return x[0];
}

/* ---- Comparison: 1, 0 or unknown ---- */

static hlo_extent truth(bool is_true, bool is_false)
{
    return is_true ? of_number(1) : is_false ? of_number(0) : unknown;
}

static hlo_extent eq(const evaluation *e, const hlo_extent *x)
{
    bool apart = least_difference(e, &x[0], &x[1]) > 0 || least_difference(e, &x[1], &x[0]) > 0;
    return truth(x[0].dim == x[1].dim, apart);
}

static hlo_extent negation(const evaluation *e, const hlo_extent *x)
{
    (void)e;
    return is_unknown(x) ? unknown : of_number(x[0].dim == 0);
}

static hlo_extent ne(const evaluation *e, const hlo_extent *x)
{
    hlo_extent y = eq(e, x);
    return negation(e, &y);
}

static hlo_extent ge(const evaluation *e, const hlo_extent *x)
{
    return truth(least_difference(e, &x[0], &x[1]) >= 0, least_difference(e, &x[1], &x[0]) > 0);
}

static hlo_extent le(const evaluation *e, const hlo_extent *x)
{
    const hlo_extent swapped[2] = {x[1], x[0]};
    return ge(e, swapped);
}

static hlo_extent lt(const evaluation *e, const hlo_extent *x)
{
    hlo_extent y = ge(e, x);
    return negation(e, &y);
}

static hlo_extent gt(const evaluation *e, const hlo_extent *x)
{
    hlo_extent y = le(e, x);
    return negation(e, &y);
}

static bool is_number(const hlo_extent *x, int64_t value)
{
    return x->dim == value;
}

static hlo_extent both(const evaluation *e, const hlo_extent *x)
{
    (void)e;
    return truth(is_number(&x[0], 1) && is_number(&x[1], 1), is_number(&x[0], 0) || is_number(&x[1], 0));
}

static hlo_extent either(const evaluation *e, const hlo_extent *x)
{
    (void)e;
    return truth(is_number(&x[0], 1) || is_number(&x[1], 1), is_number(&x[0], 0) && is_number(&x[1], 0));
}

static hlo_extent where(const evaluation *e, const hlo_extent *x)
{
    (void)e;
    if (x[1].dim == x[2].dim)
        return x[1];
    return is_number(&x[0], 1) ? x[1] : is_number(&x[0], 0) ? x[2] : unknown;
}

static hlo_extent clamp(const evaluation *e, const hlo_extent *x)
{
    const hlo_extent low[2] = {x[0], x[1]};
    const hlo_extent y[2] = {max(e, low), x[2]};
    return is_unknown(&y[0]) ? unknown : min(e, y);
}

enum { TAKES_UNKNOWN = 1 }; /* may be known although an operand is not */

static const struct {
    uint32_t op;
    arithmetic calculate;
    uint32_t flags;
} pointwise[] = {
    {OP_add, add, 0},
    {OP_sub, sub, 0},
    {OP_mul, mul, 0},
    {OP_div, quotient, 0},
    {OP_neg, neg, 0},
    {OP_rem, remainder_of, 0},
    {OP_mod, remainder_of, 0},
    {OP_max, max, 0},
    {OP_min, min, 0},
    {OP_sign, sign, 0},
    {OP_abs, size, 0},
    {OP_cast, same, 0},
    {OP_eq, eq, 0},
    {OP_ne, ne, 0},
    {OP_ge, ge, 0},
    {OP_le, le, 0},
    {OP_lt, lt, 0},
    {OP_gt, gt, 0},
    {OP_not, negation, 0},
    {OP_and, both, TAKES_UNKNOWN},
    {OP_or, either, TAKES_UNKNOWN},
    {OP_where, where, TAKES_UNKNOWN},
    {OP_clamp, clamp, 0},
    {OP_optimization_barrier, same, 0},
    {OP_check, same, 0},
};

/* Move elements and do nothing else. */
static const uint32_t movements[] = {OP_reshape, OP_transpose, OP_expand, OP_broadcast_in_dim, OP_squeeze, OP_unsqueeze,
                                     OP_tile,    OP_narrow,    OP_slice,  OP_reverse,          OP_concat,  OP_stack,
                                     OP_pad};

/* ---- Evaluation ---- */

static bool evaluate(evaluation *e, uint32_t id, memo *out);

static bool holds_extents(const flx_type *t, int64_t *count)
{
    return (flxi_is_int(t->dtype) || t->dtype == FLX_BOOL) && flxi_type_is_static(t) && flxi_static_count(t, count) &&
           *count <= MAX_ELEMENTS;
}

static const hlo_extent *element(const evaluation *e, const memo *m, int64_t i)
{
    return m->refs ? &e->elements.at[m->refs[m->n == 1 ? 0 : i]] : &unknown;
}

static void note_run_time(void *user, const char *name)
{
    bool *found = user;
    *found |= is_run_time(name);
}

static bool depends_on_run(flx_context *ctx, flx_dim d)
{
    bool found = d == FLX_DIM_INVALID;
    if (!found && !flxi_dim_is_number(d))
        flxi_dim_symbols(ctx, d, note_run_time, &found);
    return found;
}

/* False, with the error that ends the import in the graph. */
static bool starve(const evaluation *e)
{
    flxi_hlo_fail(e->s, FLX_E_OOM, NULL, "no memory for extents");
    return false;
}

static bool keep(evaluation *e, int64_t *refs, int64_t i, hlo_extent x)
{
    refs[i] = (int64_t)e->elements.n;
    return flxi_push(e->s->im->arena.mem, &e->elements, x) || starve(e);
}

/* A literal, or the extent of an axis. */
static bool evaluate_leaf(evaluation *e, const flxi_node *n, int64_t *refs, int64_t count)
{
    flx_tensor *t = flxi_hlo_known(e->s, (flx_val){n->first, e->s->g->serial});
    bool ok = t != NULL;
    for (int64_t i = 0; i < count && ok; i++)
        ok = keep(e, refs, i, of_number(flxi_load_int(flx_tensor_type(t)->dtype, flx_tensor_const_data(t), i)));
    flx_tensor_release(t);
    return ok;
}

static bool evaluate_dim_size(evaluation *e, const flxi_node *n, int64_t *refs)
{
    int64_t axis = flxi_node_int(n, "axis");
    return axis != FLXI_ABSENT && keep(e, refs, 0, of_dim(e, flxi_type_at(e->s->g, n->in[0])->dims[axis]));
}

/* A number that its dtype cannot hold would wrap. */
static hlo_extent held(hlo_extent y, int32_t dtype)
{
    int bits = flxi_int_bits(dtype);
    bool is_signed = flxi_is_signed(dtype);
    int64_t high = bits >= 63 ? INT64_MAX : (INT64_C(1) << (is_signed ? bits - 1 : bits)) - 1;
    bool fits = !flxi_dim_is_number(y.dim) || (y.dim <= high && y.dim >= (is_signed ? -high - 1 : 0));
    return fits && (is_signed || y.least >= 0) ? y : unknown;
}

static bool evaluate_pointwise(evaluation *e, const flxi_node *n, size_t row, int64_t *refs, int64_t count)
{
    enum { MAX_IN = 3 };
    memo in[MAX_IN] = {{0}};
    int32_t dtype = flxi_type_at(e->s->g, n->first)->dtype;
    if (n->nin > MAX_IN)
        return false;
    for (uint32_t k = 0; k < n->nin; k++)
        if (!evaluate(e, n->in[k], &in[k]) || (in[k].refs && in[k].n != count && in[k].n != 1))
            return false;
    bool to_truth = n->op == OP_cast && dtype == FLX_BOOL;
    for (int64_t i = 0; i < count; i++) {
        hlo_extent x[MAX_IN] = {unknown, of_number(0)};
        bool some = false;
        for (uint32_t k = 0; k < n->nin; k++) {
            x[k] = *element(e, &in[k], i);
            some |= is_unknown(&x[k]);
        }
        bool skip = some && !(pointwise[row].flags & TAKES_UNKNOWN);
        hlo_extent y = skip ? unknown : to_truth ? ne(e, x) : pointwise[row].calculate(e, x);
        if (!keep(e, refs, i, held(y, dtype)))
            return false;
    }
    return true;
}

/* The node run on references. */
static flx_tensor *moved(evaluation *e, const flxi_node *n, const memo *in)
{
    flx_error err = {0};
    flx_graph *g = flx_graph_new(e->s->im->ctx, "moved");
    uint32_t *ids = flxi_hlo_new(e->s, uint32_t, n->nin);
    void *attrs = NULL;
    flx_tensor *y = NULL;
    bool ok = g && ids;
    for (uint32_t k = 0; k < n->nin && ok; k++) {
        flx_type type = *flxi_type_at(e->s->g, n->in[k]);
        type.dtype = FLX_I64;
        flx_tensor *t = flx_tensor_new(e->s->im->ctx, &type, in[k].refs, &err);
        ids[k] = t ? flx_const(g, &type, t).id : 0;
        flx_tensor_release(t);
        ok = ids[k] != 0;
    }
    ok = ok && flxi_attrs_clone(g, &flxi_ops[n->op], n->attrs, NULL, &attrs, &err) == FLX_OK;
    uint32_t id = ok ? flxi_add_node(g, n->op, ids, n->nin, attrs) : 0;
    if (id && flx_output(g, (flx_val){id, g->serial}, NULL) == FLX_OK)
        flx_run(g, &(flx_run_options){.device = "ref"}, NULL, 0, &y, &err);
    if (!g || err.code == FLX_E_OOM || flx_graph_error(g, NULL) == FLX_E_OOM)
        starve(e);
    flx_graph_release(g);
    return y;
}

static bool evaluate_movement(evaluation *e, const flxi_node *n, int64_t *refs, int64_t count)
{
    memo *in = flxi_hlo_new(e->s, memo, n->nin);
    if (!in)
        return false;
    for (uint32_t k = 0; k < n->nin; k++) {
        if (!evaluate(e, n->in[k], &in[k]))
            return false;
        if (in[k].refs)
            continue;
        int64_t *nothing = flxi_hlo_new(e->s, int64_t, in[k].n);
        for (int64_t i = 0; nothing && i < in[k].n; i++)
            if (!keep(e, nothing, i, unknown))
                return false;
        in[k].refs = nothing;
        if (!nothing)
            return false;
    }
    flx_tensor *y = moved(e, n, in);
    bool ok = y && flx_tensor_count(y) == count;
    for (int64_t i = 0; i < count && ok; i++)
        refs[i] = ((const int64_t *)flx_tensor_const_data(y))[i];
    flx_tensor_release(y);
    return ok;
}

/* The sum or product of a vector. */
static bool evaluate_fold(evaluation *e, const flxi_node *n, int64_t *refs, int64_t count)
{
    memo in;
    if (count != 1 || !evaluate(e, n->in[0], &in) || !in.refs)
        return false;
    bool is_sum = n->op == OP_reduce_sum;
    hlo_extent x[2] = {of_number(is_sum ? 0 : 1)};
    for (int64_t i = 0; i < in.n && !is_unknown(&x[0]); i++) {
        x[1] = *element(e, &in, i);
        x[0] = is_unknown(&x[1]) ? unknown : is_sum ? add(e, x) : mul(e, x);
    }
    return keep(e, refs, 0, held(x[0], flxi_type_at(e->s->g, n->first)->dtype));
}

/* ---- Flooring division ---- */

/* Whether value `id` is op(a, b); they are stored, or with *a or *b set compared. */
static bool is_op(const evaluation *e, uint32_t id, uint32_t op, uint32_t *a, uint32_t *b)
{
    const flxi_node *n = flxi_node_of(e->s->g, id);
    if (n->op != op || n->nin < 1 || n->nin > 2)
        return false;
    uint32_t second = n->nin == 2 ? n->in[1] : *b;
    if ((*a && *a != n->in[0]) || (*b && *b != second))
        return false;
    *a = n->in[0];
    *b = second;
    return true;
}

static bool is_literal(evaluation *e, uint32_t id, int64_t value)
{
    memo m;
    return evaluate(e, id, &m) && m.refs && m.n == 1 && is_number(element(e, &m, 0), value);
}

/* where(and(ne(lt(r, 0), lt(b, 0)), ne(r, 0)), add(r, b), r) with r = rem(a, b): how programs write the remainder
   that has the sign of the divisor. */
static bool is_floor_remainder(evaluation *e, const flxi_node *n, uint32_t *a, uint32_t *b)
{
    uint32_t r = n->in[2];
    uint32_t signs = 0;
    uint32_t nonzero = 0;
    uint32_t below = 0;
    uint32_t divisor_below = 0;
    uint32_t zero[3] = {0};
    return is_op(e, r, OP_rem, a, b) && is_op(e, n->in[1], OP_add, &r, b) &&
           is_op(e, n->in[0], OP_and, &signs, &nonzero) && is_op(e, nonzero, OP_ne, &r, &zero[0]) &&
           is_op(e, signs, OP_ne, &below, &divisor_below) && is_op(e, below, OP_lt, &r, &zero[1]) &&
           is_op(e, divisor_below, OP_lt, b, &zero[2]) && is_literal(e, zero[0], 0) && is_literal(e, zero[1], 0) &&
           is_literal(e, zero[2], 0);
}

/* where(and(ne(sign(a), sign(b)), ne(rem(a, b), 0)), sub(q, 1), q) with q = div(a, b): the quotient rounded down. */
static bool is_floor_quotient(evaluation *e, const flxi_node *n, uint32_t *a, uint32_t *b)
{
    uint32_t q = n->in[2];
    uint32_t one = 0;
    uint32_t zero = 0;
    uint32_t signs = 0;
    uint32_t nonzero = 0;
    uint32_t sign_of[2] = {0};
    uint32_t rest = 0;
    uint32_t none = 0;
    return is_op(e, q, OP_div, a, b) && is_op(e, n->in[1], OP_sub, &q, &one) &&
           is_op(e, n->in[0], OP_and, &signs, &nonzero) && is_op(e, nonzero, OP_ne, &rest, &zero) &&
           is_op(e, rest, OP_rem, a, b) && is_op(e, signs, OP_ne, &sign_of[0], &sign_of[1]) &&
           is_op(e, sign_of[0], OP_sign, a, &none) && is_op(e, sign_of[1], OP_sign, b, &none) &&
           is_literal(e, one, 1) && is_literal(e, zero, 0);
}

static bool evaluate_flooring(evaluation *e, const flxi_node *n, int64_t *refs)
{
    uint32_t id[2] = {0};
    uint32_t of_quotient[2] = {0};
    memo in[2];
    bool is_remainder = is_floor_remainder(e, n, &id[0], &id[1]);
    if (!is_remainder && is_floor_quotient(e, n, &of_quotient[0], &of_quotient[1]))
        memcpy(id, of_quotient, sizeof id);
    else if (!is_remainder)
        return false;
    if (!evaluate(e, id[0], &in[0]) || !evaluate(e, id[1], &in[1]))
        return false;
    const hlo_extent x[2] = {*element(e, &in[0], 0), *element(e, &in[1], 0)};
    if (is_unknown(&x[0]) || x[1].least <= 0)
        return false;
    return keep(e, refs, 0, is_remainder ? floor_remainder(e, x) : floor_quotient(e, x));
}

static bool evaluate_node(evaluation *e, const flxi_node *n, int64_t *refs, int64_t count)
{
    if (n->nout != 1)
        return false;
    if (n->op == OP_dim_size)
        return evaluate_dim_size(e, n, refs);
    if (n->nin == 0)
        return evaluate_leaf(e, n, refs, count);
    if (n->op == OP_where && count == 1 && evaluate_flooring(e, n, refs))
        return true;
    if (n->op == OP_reduce_sum || n->op == OP_reduce_prod)
        return evaluate_fold(e, n, refs, count);
    for (size_t i = 0; i < sizeof pointwise / sizeof *pointwise; i++)
        if (pointwise[i].op == n->op)
            return evaluate_pointwise(e, n, i, refs, count);
    for (size_t i = 0; i < sizeof movements / sizeof *movements; i++)
        if (movements[i] == n->op)
            return evaluate_movement(e, n, refs, count);
    return false;
}

/* Symbols for what is unknown; with `found` only some elements are. */
static bool name_unknown(evaluation *e, uint32_t id, int64_t *refs, int64_t count, bool found)
{
    bool ok = true;
    for (int64_t i = 0; i < count && ok; i++) {
        if (found && !is_unknown(&e->elements.at[refs[i]]))
            continue;
        char name[48];
        snprintf(name, sizeof name, "%s%u_%lld", run_time_prefix, (unsigned)id, (long long)i);
        ok = keep(e, refs, i, (hlo_extent){.dim = flx_dim_symbol(e->s->im->ctx, name), .least = INT64_MIN});
    }
    return ok;
}

/* False only where the value can hold no extents or there are too many nodes; an unknown value has no references. */
static bool evaluate(evaluation *e, uint32_t id, memo *out)
{
    const flx_graph *g = e->s->g;
    int64_t count;
    for (size_t i = 0; i < e->memos.n; i++)
        if (e->memos.at[i].id == id) {
            *out = e->memos.at[i];
            return true;
        }
    if (!holds_extents(flxi_type_at(g, id), &count) || e->memos.n >= MAX_NODES || e->depth >= MAX_DEPTH)
        return false;
    int64_t *refs = flxi_hlo_new(e->s, int64_t, count);
    if (!refs)
        return false;
    e->depth++;
    bool found = evaluate_node(e, flxi_node_of(g, id), refs, count);
    e->depth--;
    if (e->names_unknown && flxi_is_int(flxi_type_at(g, id)->dtype))
        found = name_unknown(e, id, refs, count, found);
    *out = (memo){id, found ? refs : NULL, count};
    if (flxi_hlo_failed(e->s))
        return false;
    return flxi_push(e->s->im->arena.mem, &e->memos, *out) || starve(e);
}

/* Evaluates v; a result found while the table of dimensions lacked memory is not used. */
static bool evaluate_value(evaluation *e, flx_val v, memo *out)
{
    unsigned before = flxi_dim_starvations(e->s->im->ctx);
    bool ok = !flxi_hlo_failed(e->s) && v.id && evaluate(e, v.id, out);
    return before == flxi_dim_starvations(e->s->im->ctx) ? ok : starve(e);
}

hlo_extent *flxi_hlo_extent_values(hlo_site *s, flx_val v, size_t *n)
{
    evaluation e = {.s = s};
    memo m = {0};
    hlo_extent *out = NULL;
    if (evaluate_value(&e, v, &m) && m.refs)
        out = flxi_hlo_new(s, hlo_extent, m.n);
    for (int64_t i = 0; out && i < m.n; i++)
        out[i] = e.elements.at[m.refs[i]];
    *n = out ? (size_t)m.n : 0;
    flxi_vec_free(s->im->arena.mem, &e.elements);
    flxi_vec_free(s->im->arena.mem, &e.memos);
    return out;
}

/* The elements of a value that depends on no argument at all. */
static bool known_extents(hlo_site *s, flx_val v, flx_ints *out)
{
    flx_tensor *t = flxi_hlo_known(s, v);
    int64_t n = t ? flx_tensor_count(t) : 0;
    int64_t *dims = t ? flxi_hlo_new(s, int64_t, n) : NULL;
    for (int64_t i = 0; dims && i < n; i++)
        dims[i] = flxi_load_int(flx_tensor_type(t)->dtype, flx_tensor_const_data(t), i);
    *out = (flx_ints){dims, dims ? (size_t)n : 0};
    flx_tensor_release(t);
    return dims != NULL;
}

bool flxi_hlo_extent_differences(hlo_site *s, flx_val a, flx_val b, flx_ints *out)
{
    evaluation e = {.s = s, .names_unknown = true};
    memo m[2] = {{0}};
    bool ok =
        evaluate_value(&e, a, &m[0]) && evaluate_value(&e, b, &m[1]) && m[0].refs && m[1].refs && m[0].n == m[1].n;
    int64_t *dims = ok ? flxi_hlo_new(s, int64_t, m[0].n) : NULL;
    ok = ok && dims;
    for (int64_t i = 0; ok && i < m[0].n; i++) {
        dims[i] = flx_dim_sub(s->im->ctx, element(&e, &m[0], i)->dim, element(&e, &m[1], i)->dim);
        ok = !depends_on_run(s->im->ctx, dims[i]);
    }
    *out = ok ? (flx_ints){dims, (size_t)m[0].n} : (flx_ints){NULL, 0};
    flxi_vec_free(s->im->arena.mem, &e.elements);
    flxi_vec_free(s->im->arena.mem, &e.memos);
    return ok;
}

bool flxi_hlo_extents(hlo_site *s, flx_val v, flx_ints *out)
{
    size_t n;
    if (known_extents(s, v, out))
        return true;
    hlo_extent *x = flxi_hlo_extent_values(s, v, &n);
    int64_t *dims = x ? flxi_hlo_new(s, int64_t, n) : NULL;
    bool ok = dims != NULL;
    for (size_t i = 0; i < n && ok; i++) {
        dims[i] = x[i].dim;
        ok = !is_unknown(&x[i]);
    }
    *out = ok ? (flx_ints){dims, n} : (flx_ints){NULL, 0};
    if (!ok && !flxi_hlo_failed(s))
        flxi_hlo_unsupported(s, "the shape depends on values that are known only when the program runs");
    return ok;
}
