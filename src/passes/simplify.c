/* SPDX-License-Identifier: Apache-2.0 */
/* simplify.c: rewrites that make a graph smaller without changing any bit of a value, then common subexpressions and
   dead code, until nothing changes. Rewrites are rows of a table: an op, a function that examines a node about to be
   copied (operands already rewritten) and returns a value that equals its result, and why that is exact. They only
   shrink or canonicalise, in one direction, so the rounds end; their number is also bounded.

   Not done because not exact: x + 0 (it turns -0 into +0), x * 0 (NaN and infinities), anything that reassociates. */
#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"
#include "ops/rule/decomposed.h"
#include "ops/signal/window.h"
#include "passes/pass.h"

#include <fluxion/ops.h>
#include <fluxion/transform.h>

enum { MAX_ROUNDS = 6, FOLD_LIMIT = 64 /* elements of a folded constant */, MAX_OPERANDS = 8 };

typedef struct {
    flxi_copy *c;
    flxi_index *seen; /* copied nodes, for merging equal ones */
    bool *changed;
    flx_graph *to;
    const flxi_node *n; /* in the old graph */
    const flxi_op *op;
    const flx_type *type;    /* of result 0 */
    flx_val x[MAX_OPERANDS]; /* operands in the new graph */
} rewriting;

/* ---- Looking at values of the new graph ---- */

static const flxi_node *maker(const flx_graph *g, flx_val v)
{
    return flxi_node_of(g, v.id);
}

static flx_val operand(const flx_graph *g, const flxi_node *n, uint32_t k)
{
    return (flx_val){n->in[k], g->serial};
}

static bool moves_only(uint32_t op)
{
    return op == OP_expand || op == OP_reshape || op == OP_transpose || op == OP_broadcast_in_dim ||
           op == OP_unsqueeze || op == OP_squeeze;
}

const flx_tensor *flxi_uniform(const flx_graph *g, uint32_t value)
{
    for (;;) {
        const flxi_node *n = flxi_node_at(g, flxi_value_at(g, value)->node);
        if (n->op == OP_full)
            return flxi_node_tensor(n, "value");
        if (flxi_is_const(n) && flxi_type_at(g, n->first)->rank == 0)
            return flxi_const_data(n);
        if (!moves_only(n->op))
            return NULL;
        value = n->in[0];
    }
}

static const flx_tensor *uniform(const flx_graph *g, flx_val v)
{
    return flxi_uniform(g, v.id);
}

static bool is_number(const flx_graph *g, flx_val v, double x)
{
    const flx_tensor *t = uniform(g, v);
    return t && flxi_load_double(t->type.dtype, t->data, 0) == x &&
           (!flxi_is_complex(t->type.dtype) || flx_tensor_get(t, 0) == x);
}

static bool has_type(const rewriting *w, flx_val v)
{
    return flxi_type_equal(flxi_type_at(w->to, v.id), w->type);
}

/* v in the shape of the result: unchanged, or stretched. */
static flx_val stretched(const rewriting *w, flx_val v)
{
    static const int64_t none = 0;
    if (has_type(w, v))
        return v;
    return flx_expand(w->to, v, (flx_ints){w->type->rank ? w->type->dims : &none, (size_t)w->type->rank});
}

/* ---- Rewrites ---- */

static bool real_or_int(const rewriting *w)
{
    return !flxi_is_complex(w->type->dtype) && w->type->dtype != FLX_BOOL;
}

static flx_val mul_by_one(rewriting *w)
{
    for (int k = 0; k < 2 && real_or_int(w); k++)
        if (is_number(w->to, w->x[k], 1.0))
            return stretched(w, w->x[1 - k]);
    return FLX_NONE;
}

static flx_val div_by_one(rewriting *w)
{
    return real_or_int(w) && is_number(w->to, w->x[1], 1.0) ? stretched(w, w->x[0]) : FLX_NONE;
}

static flx_val sub_zero(rewriting *w)
{
    const flx_tensor *t = uniform(w->to, w->x[1]);
    static const unsigned char zeros[16] = {0};
    bool plus_zero = t && memcmp(t->data, zeros, t->nbytes) == 0; /* x - (-0) would turn -0 into +0 */
    return plus_zero ? stretched(w, w->x[0]) : FLX_NONE;
}

static flx_val add_zero(rewriting *w)
{
    for (int k = 0; k < 2 && flxi_is_int(w->type->dtype); k++)
        if (is_number(w->to, w->x[k], 0.0))
            return stretched(w, w->x[1 - k]);
    return FLX_NONE;
}

static flx_val twice(rewriting *w)
{
    const flxi_node *n = maker(w->to, w->x[0]);
    return n->op == w->n->op ? operand(w->to, n, 0) : FLX_NONE;
}

/* A predicate that is the same everywhere chooses one branch. */
static flx_val fixed_choice(rewriting *w)
{
    const flx_tensor *c = uniform(w->to, w->x[0]);
    if (w->x[1].id == w->x[2].id)
        return stretched(w, w->x[1]);
    if (w->type->dtype == FLX_BOOL && flxi_type_at(w->to, w->x[0].id)->dtype == FLX_BOOL &&
        is_number(w->to, w->x[1], 1.0) && is_number(w->to, w->x[2], 0.0))
        return stretched(w, w->x[0]);
    if (!c || flxi_is_complex(c->type.dtype))
        return FLX_NONE;
    double x = flxi_load_double(c->type.dtype, c->data, 0);
    return stretched(w, x != 0.0 ? w->x[1] : w->x[2]); /* NaN differs from 0 */
}

/* and(x, true) = x, and(x, false) = false; or the other way round. */
static flx_val fixed_logic(rewriting *w)
{
    for (int k = 0; k < 2; k++) {
        const flx_tensor *c = uniform(w->to, w->x[k]);
        if (!c)
            continue;
        bool truth = flxi_load_int(FLX_BOOL, c->data, 0) != 0;
        bool decides = truth == (w->n->op == OP_or);
        return stretched(w, w->x[decides ? k : 1 - k]);
    }
    return FLX_NONE;
}

static flx_val one_operand(rewriting *w)
{
    return w->n->nin == 1 && has_type(w, w->x[0]) ? w->x[0] : FLX_NONE;
}

static flx_val reshape_chain(rewriting *w)
{
    const flxi_node *n = maker(w->to, w->x[0]);
    if (has_type(w, w->x[0]))
        return w->x[0];
    if (n->op != OP_reshape)
        return FLX_NONE;
    static const int64_t none = 0;
    return flx_reshape(w->to, operand(w->to, n, 0),
                       (flx_ints){w->type->rank ? w->type->dims : &none, (size_t)w->type->rank});
}

static flx_val expand_chain(rewriting *w)
{
    const flxi_node *n = maker(w->to, w->x[0]);
    if (has_type(w, w->x[0]))
        return w->x[0];
    return n->op == OP_expand ? stretched(w, operand(w->to, n, 0)) : FLX_NONE;
}

static flx_val transpose_chain(rewriting *w)
{
    int64_t perm[FLX_MAX_RANK];
    const flx_ints *outer = flxi_node_ints(w->n, "perm");
    const flxi_node *n = maker(w->to, w->x[0]);
    bool identity = true;
    for (size_t i = 0; i < outer->n; i++)
        identity &= outer->v[i] == (int64_t)i;
    if (identity)
        return w->x[0];
    if (n->op != OP_transpose)
        return FLX_NONE;
    const flx_ints *inner = flxi_node_ints(n, "perm");
    for (size_t i = 0; i < outer->n; i++)
        perm[i] = inner->v[outer->v[i]];
    return flx_transpose(w->to, operand(w->to, n, 0), (flx_ints){perm, outer->n});
}

/* f32 → f64 → f32 and the like: the wider format holds every value of the narrower. */
static flx_val cast_back(rewriting *w)
{
    const flxi_node *n = maker(w->to, w->x[0]);
    if (has_type(w, w->x[0]))
        return w->x[0];
    if (n->op != OP_cast)
        return FLX_NONE;
    flx_val first = operand(w->to, n, 0);
    int32_t between = flxi_type_at(w->to, w->x[0].id)->dtype;
    bool widened = (between == FLX_F64 && flxi_is_float(w->type->dtype)) ||
                   (between == FLX_F32 && (w->type->dtype == FLX_F16 || w->type->dtype == FLX_BF16));
    return widened && has_type(w, first) ? first : FLX_NONE;
}

static bool are_all(const flx_ints *list, int64_t x)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->v[i] != x)
            return false;
    return true;
}

static flx_val empty_padding(rewriting *w)
{
    bool is_empty = are_all(flxi_node_ints(w->n, "low"), 0) && are_all(flxi_node_ints(w->n, "high"), 0) &&
                    are_all(flxi_node_ints(w->n, "interior"), 0);
    return is_empty && has_type(w, w->x[0]) ? w->x[0] : FLX_NONE;
}

/* Whether two values are one scalar, by identity or as the same constant. */
static bool is_same_scalar(const flx_graph *g, flx_val a, flx_val b)
{
    const flx_tensor *x = uniform(g, a);
    const flx_tensor *y = uniform(g, b);
    return a.id == b.id || (x && y && x->nbytes == y->nbytes && memcmp(x->data, y->data, x->nbytes) == 0);
}

enum { WINDOW_LOW, WINDOW_HIGH, WINDOW_SPREAD, WINDOW_LISTS };

/* The padding and spreading of reduce_window together with those of the pad that it reads; false: they do not add up,
   since the pad crops, or the window spreads what the pad spread. */
static bool join_padding(const rewriting *w, const flxi_node *pad, int64_t list[WINDOW_LISTS][FLX_MAX_RANK])
{
    const flx_ints *low = flxi_node_ints(pad, "low");
    const flx_ints *high = flxi_node_ints(pad, "high");
    const flx_ints *interior = flxi_node_ints(pad, "interior");
    const flx_ints *spread = flxi_node_ints(w->n, "base_dilation");
    for (size_t k = 0; k < low->n; k++) {
        bool is_plain = spread->v[k] == 1 && interior->v[k] >= 0;
        if (!flxi_dim_is_number(low->v[k]) || !flxi_dim_is_number(high->v[k]) || low->v[k] < 0 || high->v[k] < 0 ||
            !is_plain || __builtin_add_overflow(interior->v[k], 1, &list[WINDOW_SPREAD][k]) ||
            __builtin_add_overflow(flxi_node_ints(w->n, "pad_low")->v[k], low->v[k], &list[WINDOW_LOW][k]) ||
            __builtin_add_overflow(flxi_node_ints(w->n, "pad_high")->v[k], high->v[k], &list[WINDOW_HIGH][k]))
            return false;
    }
    return true;
}

static flx_val padded_window(rewriting *w)
{
    static const char *const words[] = {
        [FLXI_WINDOW_ADD] = "add", [FLXI_WINDOW_MAX] = "max", [FLXI_WINDOW_MIN] = "min", [FLXI_WINDOW_MUL] = "mul"};
    int64_t list[WINDOW_LISTS][FLX_MAX_RANK];
    const flxi_node *pad = maker(w->to, w->x[0]);
    if (w->n->nin != 2 || pad->op != OP_pad || !is_same_scalar(w->to, operand(w->to, pad, 1), w->x[1]) ||
        !join_padding(w, pad, list))
        return FLX_NONE;
    size_t rank = flxi_node_ints(w->n, "window")->n;
    const flxi_combine *combine = flxi_attr_combine(w->op, w->n->attrs, "combine");
    flx_reduce_window_attrs a = FLX_REDUCE_WINDOW_ATTRS;
    a.window = *flxi_node_ints(w->n, "window");
    a.strides = *flxi_node_ints(w->n, "strides");
    a.window_dilation = *flxi_node_ints(w->n, "window_dilation");
    a.pad_low = (flx_ints){list[WINDOW_LOW], rank};
    a.pad_high = (flx_ints){list[WINDOW_HIGH], rank};
    a.base_dilation = (flx_ints){list[WINDOW_SPREAD], rank};
    a.combine.graph = combine->graph;
    a.combine.word = combine->graph ? NULL : words[combine->word];
    flx_val in[2] = {operand(w->to, pad, 0), w->x[1]};
    flx_val y = FLX_NONE;
    flx_reduce_window_with(w->to, in, 2, &y, 1, &a);
    return y;
}

static flx_val empty_reduction(rewriting *w)
{
    const flx_ints *axes = flxi_node_ints(w->n, "axes");
    const flx_type *t = flxi_type_at(w->to, w->x[0].id);
    for (size_t i = 0; i < axes->n; i++)
        if (t->dims[axes->v[i]] != 1)
            return FLX_NONE;
    static const int64_t none = 0;
    if (has_type(w, w->x[0]))
        return w->x[0];
    return flx_reshape(w->to, w->x[0], (flx_ints){w->type->rank ? w->type->dims : &none, (size_t)w->type->rank});
}

/* Of the extents of the operand as many elements as it has: all of them, if the stride is 1. */
static flx_val whole_slice(rewriting *w)
{
    bool is_whole = are_all(flxi_node_ints(w->n, "start"), 0) && are_all(flxi_node_ints(w->n, "stride"), 1);
    return is_whole && has_type(w, w->x[0]) ? w->x[0] : FLX_NONE;
}

/* Of a slice that takes all positions of x but along one axis, and there those from first up to end. */
static bool is_stretch(const flx_graph *g, const flxi_node *n, int64_t axis, int64_t *first, int64_t *end)
{
    if (n->op != OP_slice || !are_all(flxi_node_ints(n, "stride"), 1))
        return false;
    const flx_type *t = flxi_type_at(g, n->in[0]);
    const flx_ints *start = flxi_node_ints(n, "start"), *limit = flxi_node_ints(n, "limit");
    for (int64_t i = 0; i < t->rank; i++)
        if (i != axis && (start->v[i] != 0 || limit->v[i] != t->dims[i]))
            return false;
    *first = start->v[axis];
    *end = limit->v[axis];
    return flxi_dim_is_number(*end);
}

/* The last elements of x before its first ones, as JAX writes it: a roll is one load for a vector, two slices are a
   choice of two. */
static flx_val rolled(rewriting *w)
{
    int64_t axis = flxi_node_int(w->n, "axis"), first[2], end[2];
    if (w->n->nin != 2)
        return FLX_NONE;
    for (int k = 0; k < 2; k++)
        if (!is_stretch(w->to, maker(w->to, w->x[k]), axis, &first[k], &end[k]))
            return FLX_NONE;
    flx_val x = operand(w->to, maker(w->to, w->x[0]), 0);
    bool is_whole = first[1] == 0 && end[1] == first[0] && end[0] == flxi_type_at(w->to, x.id)->dims[axis];
    if (!is_whole || operand(w->to, maker(w->to, w->x[1]), 0).id != x.id)
        return FLX_NONE;
    return flx_roll(w->to, x, .shift = end[0] - first[0], .axis = axis);
}

typedef struct {
    flxi_opcode op;
    flx_val (*rewrite)(rewriting *w); /* FLX_NONE: does not apply */
    const char *reason;
} rewrite_row;

static const rewrite_row rewrites[] = {
    {OP_mul, mul_by_one, "1 x = x"},
    {OP_div, div_by_one, "x / 1 = x"},
    {OP_add, add_zero, "x + 0 = x for integers"},
    {OP_sub, sub_zero, "x - 0 = x, also for -0"},
    {OP_neg, twice, "-(-x) = x"},
    {OP_not, twice, "not not x = x"},
    {OP_conjugate, twice, "conjugating twice"},
    {OP_cast, cast_back, "a wider format holds every value of a narrower one"},
    {OP_where, fixed_choice, "both branches are one value, the predicate is one value, or the choice is true or false"},
    {OP_and, fixed_logic, "and with a constant"},
    {OP_or, fixed_logic, "or with a constant"},
    {OP_concat, one_operand, "nothing to join"},
    {OP_concat, rolled, "the last elements before the first ones"},
    {OP_add_n, one_operand, "nothing to add"},
    {OP_slice, whole_slice, "all elements, in their order"},
    {OP_reshape, reshape_chain, "only the last shape counts"},
    {OP_expand, expand_chain, "stretching twice equals stretching once"},
    {OP_transpose, transpose_chain, "permutations compose"},
    {OP_pad, empty_padding, "nothing to add at the ends or between"},
    {OP_reduce_window, padded_window, "both paddings hold what the fold begins with"},
    {OP_reduce_sum, empty_reduction, "a sum of one term"},
    {OP_reduce_max, empty_reduction, "the largest of one"},
    {OP_reduce_min, empty_reduction, "the smallest of one"},
    {OP_reduce_prod, empty_reduction, "a product of one factor"},
};

static flx_val try_rewrites(rewriting *w)
{
    for (size_t i = 0; i < sizeof rewrites / sizeof rewrites[0]; i++) {
        if (rewrites[i].op != w->n->op)
            continue;
        flx_val v = rewrites[i].rewrite(w);
        if (v.id)
            return v;
    }
    return FLX_NONE;
}

/* ---- Folding ---- */

static flx_code note_body(void *user, const flx_graph *body)
{
    (void)body;
    *(bool *)user = true;
    return FLX_OK;
}

/* Bodies are run by a device, which folding does not have; a decomposition is run like a body. */
static bool has_body(const flxi_node *n)
{
    bool found = flxi_ops[n->op].rules->eval == flxi_eval_decomposed;
    const flxi_attr_visitor v = {.graph = note_body, .user = &found};
    flxi_attrs_visit(&flxi_ops[n->op], n->attrs, &v);
    return found;
}

static bool may_fold(const rewriting *w)
{
    bool is_plain = !(w->op->traits & (TRAIT_DECLARED | TRAIT_EFFECT | TRAIT_OPAQUE)) &&
                    w->op->op_class != CLASS_RANDOM && w->op->op_class != CLASS_LEAF && !has_body(w->n);
    return is_plain && w->n->nin > 0 && w->n->nout == 1 && w->n->op != OP_stop_gradient;
}

static flx_val append_constant(rewriting *w, const flx_type *type, flx_tensor *value)
{
    if (type->rank == 0 || value->type.rank > 0)
        return flx_const(w->to, type, value);
    return flx_full(w->to, type, value);
}

/* An error that a run would report must stay for the run to report. */
static void leave_for_run_time(flxi_eval *e, uint32_t status)
{
    flxi_fail(e->err, FLX_E_NUMERIC, "%s: has a status to report: %u", e->op->name, status);
}

/* Evaluates the op on the given tensors, which give a value of `shape`: that of the result, or a scalar that all its
   elements equal. After a failure (for example an index out of range) the node is left for run time. */
static flx_val evaluate(rewriting *w, const flx_tensor *const *in, const flx_type *shape)
{
    flx_error err = {0};
    flx_val y = FLX_NONE;
    flx_tensor *out[1] = {flx_tensor_new(w->to->ctx, shape, NULL, &err)};
    if (!out[0])
        return y;
    flxi_eval e = {.op = w->op,
                   .attrs = w->n->attrs,
                   .nin = w->n->nin,
                   .nout = 1,
                   .in = in,
                   .out = out,
                   .mem = &w->to->ctx->mem,
                   .err = &err,
                   .report = leave_for_run_time};
    if (w->op->rules->eval(&e) == FLX_OK && !err.code)
        y = append_constant(w, w->type, out[0]);
    flx_tensor_release(out[0]);
    return y;
}

/* A pointwise op of uniform operands is uniform. */
static flx_val fold_uniform(rewriting *w)
{
    const flx_tensor *in[MAX_OPERANDS];
    if (w->op->op_class != CLASS_POINTWISE)
        return FLX_NONE;
    for (uint32_t k = 0; k < w->n->nin; k++)
        if (!(in[k] = uniform(w->to, w->x[k])))
            return FLX_NONE;
    return evaluate(w, in, &(flx_type){.dtype = w->type->dtype});
}

static flx_val fold_small(rewriting *w)
{
    const flx_tensor *in[MAX_OPERANDS];
    int64_t count;
    if (!flxi_type_is_static(w->type) || !flxi_static_count(w->type, &count) || count > FOLD_LIMIT)
        return FLX_NONE;
    for (uint32_t k = 0; k < w->n->nin; k++) {
        const flxi_node *n = maker(w->to, w->x[k]);
        if (!flxi_is_const(n))
            return FLX_NONE;
        in[k] = flxi_const_data(n);
    }
    return evaluate(w, in, w->type);
}

static flx_val fold_dim_size(rewriting *w)
{
    flx_dim d = -1;
    if (w->n->op == OP_dim_size)
        d = flxi_type_at(w->to, w->x[0].id)->dims[flxi_node_int(w->n, "axis")];
    return flxi_dim_is_number(d) && d >= 0 ? flx_scalar(w->to, FLX_I64, (double)d) : FLX_NONE;
}

/* A uniform value stays uniform, however its elements are moved. */
static flx_val fold_moved(rewriting *w)
{
    flx_tensor *value = moves_only(w->n->op) ? (flx_tensor *)(uintptr_t)uniform(w->to, w->x[0]) : NULL;
    return value ? append_constant(w, w->type, value) : FLX_NONE;
}

static flx_val try_folding(rewriting *w)
{
    if (!may_fold(w))
        return FLX_NONE;
    flx_val moved = fold_moved(w);
    if (moved.id)
        return moved;
    flx_val v = w->n->op == OP_dim_size ? fold_dim_size(w) : fold_uniform(w);
    return v.id || w->n->op == OP_dim_size ? v : fold_small(w);
}

/* ---- Operands that broadcasting stretches anyway ---- */

/* The value that an expand or full stretches, if another operand (or it alone) still gives the result its shape. */
static flx_val unstretched(rewriting *w, uint32_t k)
{
    const flxi_node *n = maker(w->to, w->x[k]);
    bool is_full = n->op == OP_full && w->type->rank > 0;
    if (n->op != OP_expand && !is_full)
        return w->x[k];
    for (uint32_t i = 0; i < w->n->nin; i++) {
        const flx_type *t = flxi_type_at(w->to, w->x[i].id);
        if (i != k && t->rank == w->type->rank &&
            memcmp(t->dims, w->type->dims, (size_t)t->rank * sizeof(flx_dim)) == 0) {
            if (!is_full)
                return operand(w->to, n, 0);
            const flx_tensor *value = flxi_node_tensor(n, "value");
            return flx_const(w->to, &value->type, value);
        }
    }
    return w->x[k];
}

/* ---- Transforms that pad by themselves ---- */

/* The operand of a pad that only appends +0 to the last axis; v where it is made by anything else. */
static flx_val unpadded(const flx_graph *g, flx_val v)
{
    static const unsigned char zeros[16] = {0};
    const flxi_node *n = maker(g, v);
    if (n->op != OP_pad)
        return v;
    const flx_tensor *value = uniform(g, operand(g, n, 1));
    flx_ints high = *flxi_node_ints(n, "high");
    bool appends = value && memcmp(value->data, zeros, value->nbytes) == 0 && high.n > 0 &&
                   flxi_dim_is_number(high.v[high.n - 1]) && high.v[high.n - 1] > 0 &&
                   are_all(flxi_node_ints(n, "low"), 0) && are_all(flxi_node_ints(n, "interior"), 0);
    high.n -= high.n > 0;
    return appends && are_all(&high, 0) ? operand(g, n, 0) : v;
}

/* rfft and irfft continue their operands with zeros up to the length that they are given, as padding does. */
static void drop_padding(rewriting *w)
{
    flx_val bare[2] = {FLX_NONE, FLX_NONE};
    for (uint32_t k = 0; k < w->n->nin; k++)
        bare[k] = unpadded(w->to, w->x[k]);
    bool is_alike = w->n->nin == 1 || flxi_type_equal(flxi_type_at(w->to, bare[0].id), flxi_type_at(w->to, bare[1].id));
    for (uint32_t k = 0; k < w->n->nin && is_alike; k++) {
        *w->changed |= bare[k].id != w->x[k].id;
        w->x[k] = bare[k];
    }
}

static flx_code copy_with(rewriting *w, uint32_t i)
{
    flxi_copy *c = w->c;
    uint32_t kept[MAX_OPERANDS];
    for (uint32_t k = 0; k < w->n->nin; k++) { /* the copy reads its operands through the remap */
        kept[k] = c->remap.id[w->n->in[k]];
        c->remap.id[w->n->in[k]] = w->x[k].id;
    }
    bool merged;
    flx_code code = flxi_merge_or_copy(c, w->seen, i, &merged);
    for (uint32_t k = w->n->nin; k-- > 0;)
        c->remap.id[w->n->in[k]] = kept[k];
    *w->changed |= merged;
    return code;
}

static bool repeats_operand(const flxi_node *n)
{
    for (uint32_t k = 1; k < n->nin; k++)
        for (uint32_t i = 0; i < k; i++)
            if (n->in[i] == n->in[k])
                return true;
    return false;
}

static flx_code merge_plain(rewriting *w, uint32_t i)
{
    bool merged;
    FLXI_TRY(flxi_merge_or_copy(w->c, w->seen, i, &merged));
    *w->changed |= merged;
    return FLX_OK;
}

/* A scalar has one spelling: a constant, which prints as a bare number. */
static bool is_scalar_full(const rewriting *w)
{
    const flxi_value *v = w->n->op == OP_full ? flxi_value_at(w->c->from, w->n->first) : NULL;
    return v && v->type->rank == 0 && !v->pinned;
}

static flx_code replace_full(rewriting *w)
{
    const flx_tensor *value = flxi_node_tensor(w->n, "value");
    flx_val v = flx_const(w->to, &value->type, value);
    *w->changed = true;
    if (!v.id) {
        if (w->c->err)
            *w->c->err = w->to->error;
        return (flx_code)w->to->error.code;
    }
    flxi_copy_replace(w->c, w->n->first, v.id);
    return FLX_OK;
}

static flx_code simplify_node(flxi_copy *c, flxi_index *seen, uint32_t i, bool *changed)
{
    rewriting w = {.c = c, .seen = seen, .changed = changed, .to = c->to, .n = flxi_node_at(c->from, i)};
    w.op = &flxi_ops[w.n->op];
    if (is_scalar_full(&w))
        return replace_full(&w);
    bool pads = w.n->op == OP_rfft || w.n->op == OP_irfft || w.n->op == OP_rfft_complex || w.n->op == OP_irfft_complex;
    if (w.n->nin == 0 || w.n->nin > MAX_OPERANDS || (w.n->nout != 1 && !pads))
        return merge_plain(&w, i);
    w.type = flxi_type_at(c->from, w.n->first);
    for (uint32_t k = 0; k < w.n->nin; k++)
        w.x[k] = (flx_val){c->remap.id[w.n->in[k]], c->to->serial};
    if (pads && !repeats_operand(w.n)) {
        drop_padding(&w);
        return copy_with(&w, i);
    }
    flx_val v = try_rewrites(&w);
    if (!v.id)
        v = try_folding(&w);
    if (c->to->error.code) {
        if (c->err)
            *c->err = c->to->error;
        return (flx_code)c->to->error.code;
    }
    bool pinned = flxi_value_at(c->from, w.n->first)->pinned != 0;
    if (v.id && !pinned) {
        *changed = true;
        flxi_copy_replace(c, w.n->first, v.id);
        return FLX_OK;
    }
    if (w.op->op_class != CLASS_POINTWISE || repeats_operand(w.n))
        return merge_plain(&w, i);
    for (uint32_t k = 0; k < w.n->nin; k++) {
        flx_val bare = unstretched(&w, k);
        *changed |= bare.id != w.x[k].id;
        w.x[k] = bare;
    }
    return copy_with(&w, i);
}

static flx_code rewrite_once(const flx_graph *in, flx_graph **out, flxi_remap *remap, bool *changed, flx_error *err)
{
    flxi_copy c;
    flxi_index seen = {0};
    *changed = false;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++)
        code = simplify_node(&c, &seen, i, changed);
    flxi_index_free(&in->ctx->mem, &seen);
    return flxi_copy_end(&c, code, out, remap);
}

/* ---- Rounds ---- */

/* `next` replaces *now, and its remap is composed into `total`. */
static void replace(flx_graph **now, flxi_remap *total, flx_graph *next, flxi_remap *step)
{
    flxi_remap_compose(total, step);
    flxi_remap_free(step);
    flx_graph_release(*now);
    *now = next;
}

/* Operands are rewritten before their users, so one round does nearly everything; what it enables (a value that lost
   its last other user, a constant made by a rewrite) is found by the next. */
static flx_code run_rounds(flx_graph **now, flxi_remap *total, flx_error *err)
{
    bool changed = true;
    for (int round = 0; changed && round < MAX_ROUNDS; round++) {
        flx_graph *next = NULL;
        flxi_remap step = {0};
        FLXI_TRY(rewrite_once(*now, &next, &step, &changed, err));
        replace(now, total, next, &step);
        if (!changed)
            break;
        FLXI_TRY(flxi_pass_dce(*now, &next, &step, err));
        replace(now, total, next, &step);
    }
    return FLX_OK;
}

flx_code flxi_simplify(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flx_graph *now = NULL;
    flxi_remap total = {0};
    FLXI_TRY(flxi_pass_dce(in, &now, &total, err));
    flx_code code = run_rounds(&now, &total, err);
    if (code ==
        FLX_OK) { /* rules build their operands in whatever order the C compiler chose: the result must not show it */
        flx_graph *ordered = NULL;
        flxi_remap step = {0};
        code = flxi_pass_order(now, &ordered, &step, err);
        if (code == FLX_OK)
            replace(&now, &total, ordered, &step);
    }
    if (code != FLX_OK || !remap)
        flxi_remap_free(&total);
    if (code != FLX_OK) {
        flx_graph_release(now);
        return code;
    }
    if (remap)
        *remap = total;
    *out = now;
    return FLX_OK;
}

flx_graph *flx_simplify(const flx_graph *g, flx_error *err)
{
    flx_graph *out = NULL;
    flx_error local = {0};
    flx_code code = flx_graph_error(g, &local);
    if (code == FLX_OK)
        code = flxi_simplify(g, &out, NULL, &local);
    if (code != FLX_OK && err)
        *err = local;
    return code == FLX_OK ? out : NULL;
}
