/* SPDX-License-Identifier: Apache-2.0 */
/* fold.c: the two ops that apply a scalar body to the elements of tensors: `reduce`, an arbitrary fold over axes in
   row-major order, and `map`. */
#include "base/host/stop.h"
#include "graph/op/work.h"
#include "ops/opcode.h"
#include "ops/reduce/reduction.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/body/fold_body.h"
#include "ops/rule/copy.h"

/* ---- reduce: a fold whose step is a graph ---- */

typedef struct {
    const flx_graph *body;
    flx_ints axes;
} fold_attrs;

static const flxi_attr fold_schema[] = {
    A_GRAPH_AS(fold_attrs, body, "body"),
    A_INTS(fold_attrs, axes, "all"),
    A_END,
};

static flx_code infer_reduce(flxi_infer *f)
{
    fold_attrs *a = f->attrs;
    uint32_t n;
    flx_type x;
    FLXI_TRY(flxi_need_inits(f, &n));
    FLXI_TRY(flxi_equal_shapes(f, n, &x));
    FLXI_TRY(flxi_norm_axes(f, "axes", &a->axes, x.rank, true));
    FLXI_TRY(flxi_match_fold_body(f, "body", a->body));
    FLXI_TRY(flxi_results(f, n));
    for (uint32_t i = 0; i < n; i++) {
        f->out[i] = flxi_reduced_type(&x, &a->axes, false);
        f->out[i].dtype = f->in[n + i]->dtype;
    }
    return FLX_OK;
}

static flx_code fold_one(flxi_scalar_body *b, const flxi_reduction *r, const int64_t *at)
{
    int64_t k[FLX_MAX_RANK] = {0};
    flxi_fold_start(b);
    for (int64_t i = 0; i < r->reduced.count && !flxi_stopped_by_now(); i++) {
        FLXI_TRY(flxi_fold_step(b, flxi_reduction_at(r, at, k)));
        flxi_next(k, r->reduced.dims, r->reduced.rank);
    }
    return FLX_OK;
}

static flx_code eval_reduce(flxi_eval *e)
{
    const fold_attrs *a = e->attrs;
    flxi_reduction r = flxi_reduction_of(&e->in[0]->type, &a->axes);
    int64_t at[FLX_MAX_RANK] = {0};
    flxi_scalar_body b;
    flx_code code = flxi_fold_begin(&b, e, a->body);
    for (int64_t o = 0; code == FLX_OK && o < r.kept.count && !flxi_stopped_by_now(); o++) {
        code = fold_one(&b, &r, at);
        flxi_fold_store(&b, o);
        flxi_next(at, r.kept.dims, r.kept.rank);
    }
    flxi_scalar_body_end(&b);
    return code;
}

#define GRAPH_SUM "graph f(a: T[], x: T[]) { return add(a, x) }"
#define GRAPH_HORNER "graph f(a: T[], x: T[]) { return add(mul(a, x), mul(x, x)) }"
#define GRAPH_PAIR "graph f(a: T[], n: i32[], x: T[], k: i32[]) { return mul(a, x), add(n, k) }"

static const flxi_sample samples_reduce[] = {
    {"T[3, 4], T[]", "body=@f", GRAPH_SUM, FLX_OK},
    {"T[3, 4], T[]", "body=@f, axes=[-1]", GRAPH_SUM, FLX_OK},
    {"T[2, 3], i32[2, 3], T[], i32[]", "body=@f, axes=[0]", GRAPH_PAIR, FLX_OK},
    {"T[], T[]", "body=@f", GRAPH_SUM, FLX_OK},
    {"T[2, 2], T[]", "body=@f, axes=[]", GRAPH_SUM, FLX_OK},
    {"T[0, 3], T[]", "body=@f, axes=[0]", GRAPH_SUM, FLX_OK},
    {"T[N, 3], T[]", "body=@f, axes=[0]", GRAPH_SUM, FLX_OK},
    {"T[2, 3], T[]", "body=@f, axes=[1]", GRAPH_HORNER, FLX_OK},
    {"T[2, 3, 2], T[]", "body=@f, axes=[0, 2]", GRAPH_HORNER, FLX_OK},
    {"T[4], T[]", "body=@f", GRAPH_HORNER, FLX_OK},
    {"T[2, N, 3], T[]", "body=@f, axes=[1]", GRAPH_HORNER, FLX_OK},
    {"T[3, 4]", "body=@f", GRAPH_SUM, FLX_E_ARITY},
    {"T[3, 4], T[4]", "body=@f", GRAPH_SUM, FLX_E_SHAPE},
    {"T[2, 3], i32[3, 3], T[], i32[]", "body=@f", GRAPH_PAIR, FLX_E_SHAPE},
    {"T[3, 4], T[]", "body=@f, axes=[2]", GRAPH_SUM, FLX_E_ATTRIBUTE},
    {"T[3, 4], T[]", "body=@f", "graph f(a: T[], x: T[]) { return a, x }", FLX_E_ARITY},
    {"T[3, 4], T[]", "body=@f", "graph f(a: T[], x: T[]) { return reshape(a, shape=[1]) }", FLX_E_SHAPE},
    {0},
};

/* Room for n values; NULL with the error in s->g. */
static flx_val *new_values(flxi_site *s, uint32_t n)
{
    flx_val *v = flxi_new(&s->g->arena, flx_val, n);
    if (!v)
        flxi_site_fail(s, FLX_E_OOM, NULL, "out of memory");
    return v;
}

/* The common shape of the operands, with a number instead of a symbol where any of them has one. */
static flx_type common_shape(flxi_site *s, const flx_val *x, uint32_t n)
{
    flx_type shape = *flxi_typeof(s, x[0]);
    for (uint32_t i = 1; i < n; i++)
        for (int k = 0; k < shape.rank; k++)
            shape.dims[k] = flxi_agreed_dim(shape.dims[k], flxi_typeof(s, x[i])->dims[k]);
    return shape;
}

/* The scalar body on all elements of an axis of extent n; NULL with the error in s->g. */
static flx_graph *body_along(flxi_site *s, const flx_graph *body, uint32_t nin, uint32_t nout, flx_dim n)
{
    flxi_site inner = *s;
    bool *all = flxi_new(&s->g->arena, bool, nin + nout);
    if (!all) {
        flxi_site_fail(s, FLX_E_OOM, NULL, "out of memory");
        return NULL;
    }
    memset(all, true, (size_t)nin + nout);
    inner.size = n;
    return s->bodies->vmap(&inner, body, all, all + nin, true);
}

/* The reduction that folds with an op; OP_NONE when there is none. */
static flxi_opcode reduction_by(const flxi_op *op)
{
    static const struct {
        flxi_opcode combine, reduction;
    } rows[] = {
        {OP_add, OP_reduce_sum}, {OP_mul, OP_reduce_prod}, {OP_max, OP_reduce_max},
        {OP_min, OP_reduce_min}, {OP_and, OP_reduce_all},  {OP_or, OP_reduce_any},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (op == &flxi_ops[rows[i].combine])
            return rows[i].reduction;
    return OP_NONE;
}

/* An initial value, which has the batch axis or no axis, repeated for each of the kept elements: [their count]. */
static flx_val init_row(flxi_site *s, flx_val init, const flxi_flattening *f, flx_dim count)
{
    flx_dim dims[FLX_MAX_RANK];
    const flx_type *t = flxi_typeof(s, init);
    for (int k = 0; k < f->kept; k++)
        dims[k] = k == 0 && t->rank == 1 ? t->dims[0] : 1;
    if (t->rank == 1)
        init = flxi_expand_to(s, flxi_reshape_to(s, init, f->kept, dims), f->kept, f->dims + 1);
    return t->rank == 1 ? flxi_reshape_to(s, init, 1, &count) : flxi_expand_to(s, init, 1, &count);
}

/* A scan over the reduced elements in row-major order; its step is the body on all kept elements at once. */
static void fold_by_scan(flxi_site *s, const flx_val *x, const flx_val *init, flx_ints axes, flx_val *y)
{
    const fold_attrs *own = s->attrs;
    uint32_t n = s->nin / 2;
    flx_type shape = common_shape(s, x, n);
    flxi_flattening f = flxi_flatten_axes(s->ctx, &shape, axes);
    flx_dim rows[2] = {f.dims[0], flxi_extents_product(s->ctx, f.dims + 1, f.kept)};
    flx_val *in = new_values(s, s->nin);
    flx_graph *step = in && f.kept ? body_along(s, own->body, s->nin, n, rows[1]) : NULL;
    if (s->g->error.code)
        return;
    for (uint32_t i = 0; i < n; i++) {
        flx_val rest = flxi_reshape_to(s, x[i], shape.rank, shape.dims);
        in[i] = f.kept ? init_row(s, init[i], &f, rows[1]) : init[i];
        in[n + i] = flxi_reshape_to(s, flxi_flattened(s, &f, rest), f.kept ? 2 : 1, rows);
    }
    flx_scan_attrs a = FLX_SCAN_ATTRS;
    a.body = step ? step : own->body;
    a.num_carry = n;
    flx_scan_with(s->g, in, s->nin, y, n, &a);
    for (uint32_t i = 0; i < n; i++)
        y[i] = flxi_reshape_to(s, y[i], f.kept, f.dims + 1);
    flx_graph_release(step);
}

/* Init alone: adding an empty sum to it would turn -0 into 0. */
static bool folds_nothing(flxi_site *s, flx_ints axes, flx_val *y)
{
    const flx_type *x = flxi_typeof(s, s->x[0]);
    flx_type out = flxi_reduced_type(x, &axes, false);
    bool is_empty = false;
    for (size_t k = 0; k < axes.n; k++)
        is_empty |= x->dims[axes.v[k]] == 0;
    for (uint32_t i = 0; is_empty && i < s->nout; i++)
        y[i] = flxi_expand_to(s, s->x[s->nout + i], out.rank, out.dims);
    return is_empty;
}

/* Named combinations become their reductions, with init combined in at the end. */
static void decompose_reduce(flxi_site *s, flx_val *y)
{
    const fold_attrs *a = s->attrs;
    if (folds_nothing(s, a->axes, y))
        return;
    const flxi_op *combine = flxi_body_combination(a->body);
    flxi_opcode named = combine ? reduction_by(combine) : OP_NONE;
    if (named == OP_NONE) {
        fold_by_scan(s, s->x, s->x + s->nin / 2, a->axes, y);
        return;
    }
    flx_attr axes = flx_attr_ints("axes", a->axes);
    flx_val pair[2] = {s->x[1], flx_op1(s->g, flxi_ops[named].name, s->x, 1, &axes, 1)};
    y[0] = flx_op1(s->g, combine->name, pair, 2, NULL, 0);
}

/* "Shift" while all examples start from the same values; otherwise a scan, whose carries may differ. */
static void batch_reduce(flxi_site *s, flx_val *by)
{
    uint32_t n = s->nin / 2;
    bool is_shared = true;
    flx_val *x = new_values(s, s->nin);
    fold_attrs *a = flxi_site_attrs(s);
    if (!x || !a)
        return;
    flxi_shift_axes(s, &a->axes);
    for (uint32_t i = 0; i < s->nin; i++) {
        x[i] = i < n ? flxi_lift(s, i) : s->x[i];
        is_shared = is_shared && (i < n || !s->batched[i]);
    }
    if (is_shared)
        flxi_append(s, a, x, s->nin, by);
    else
        fold_by_scan(s, x, x + n, a->axes, by);
}

static bool bodies_reduce(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const flx_graph *body = ((const fold_attrs *)n->attrs)->body;
    *out = (flxi_body){.graph = body, .role = BODY_ELEMENT, .runs = flxi_work_count(flxi_type_at(g, n->in[0]))};
    return i == 0;
}

const flxi_rules flxi_rules_reduce = {
    .infer = infer_reduce,
    .eval = eval_reduce,
    .schema = fold_schema,
    .attrs_size = sizeof(fold_attrs),
    .batch = batch_reduce,
    .decompose = decompose_reduce,
    .samples = samples_reduce,
    .bodies = bodies_reduce,
};

/* ---- map ---- */

typedef struct {
    const flx_graph *body;
} map_attrs;

static const flxi_attr map_schema[] = {A_GRAPH_AS(map_attrs, body, "body"), A_END};

static uint32_t map_operand(uint32_t nin, size_t j)
{
    (void)nin;
    return (uint32_t)j;
}

static flx_code infer_map(flxi_infer *f)
{
    const map_attrs *a = f->attrs;
    size_t n = flxi_body_outputs(a->body);
    flx_type shape;
    FLXI_TRY(flxi_need_operands(f));
    FLXI_TRY(flxi_equal_shapes(f, f->nin, &shape));
    FLXI_TRY(flxi_match_scalar_body(f, "body", a->body, f->nin, map_operand));
    if (n == 0)
        return flxi_infer_fail(f, FLX_E_ARITY, "each value the body returns becomes a result", "body returns nothing");
    FLXI_TRY(flxi_results(f, n));
    for (size_t i = 0; i < n; i++) {
        FLXI_TRY(flxi_match_scalar_output(f, "body", a->body, i, FLX_DTYPE_NONE));
        f->out[i] = shape;
        f->out[i].dtype = flxi_body_output(a->body, i)->dtype;
    }
    return FLX_OK;
}

static flx_code eval_map(flxi_eval *e)
{
    const map_attrs *a = e->attrs;
    flxi_scalar_body b;
    flx_code code = flxi_scalar_body_begin(&b, e, a->body, e->nin, map_operand);
    for (int64_t k = 0; code == FLX_OK && k < e->in[0]->count && !flxi_stopped_by_now(); k++) {
        for (uint32_t j = 0; j < e->nin; j++)
            flxi_scalar_body_set(&b, j, e->in[j]->data, k);
        code = flxi_scalar_body_call(&b);
        for (uint32_t i = 0; code == FLX_OK && i < e->nout; i++)
            flxi_copy_element(e->out[i]->data, k, flxi_scalar_body_result(&b, i), 0,
                              flx_dtype_size(e->out[i]->type.dtype));
    }
    flxi_scalar_body_end(&b);
    return code;
}

#define GRAPH_MAP "graph f(x: T[], k: i32[]) { return add(x, x), k }"

static const flxi_sample samples_map[] = {
    {"T[3, 4]", "body=@f", "graph f(x: T[]) { return mul(x, x) }", FLX_OK},
    {"T[2, 3], i32[2, 3]", "body=@f", GRAPH_MAP, FLX_OK},
    {"T[], i32[]", "body=@f", GRAPH_MAP, FLX_OK},
    {"T[0, 2], i32[0, 2]", "body=@f", GRAPH_MAP, FLX_OK},
    {"T[N], i32[N]", "body=@f", GRAPH_MAP, FLX_OK},
    {"T[2, N, 2], T[2, N, 2]", "body=@f", "graph f(x: T[], y: T[]) { return mul(x, mul(x, y)), y }", FLX_OK},
    {"T[3], i32[4]", "body=@f", GRAPH_MAP, FLX_E_SHAPE},
    {"T[3], i32[1]", "body=@f", GRAPH_MAP, FLX_E_SHAPE},
    {"T[3]", "body=@f", "graph f(x: T[]) { return reshape(x, shape=[1]) }", FLX_E_SHAPE},
    {0},
};

/* The body on all elements at once. */
static void decompose_map(flxi_site *s, flx_val *y)
{
    const map_attrs *a = s->attrs;
    flx_type shape = common_shape(s, s->x, s->nin);
    flx_dim count = flxi_extents_product(s->ctx, shape.dims, shape.rank);
    if (shape.rank == 0) {
        flxi_inline_or_call(s->g, a->body, FLXI_INLINE_TOGETHER, s->x, y);
        return;
    }
    flx_val *row = new_values(s, s->nin);
    flx_graph *rows = row ? body_along(s, a->body, s->nin, s->nout, count) : NULL;
    for (uint32_t i = 0; rows && i < s->nin; i++)
        row[i] = flxi_reshape_to(s, s->x[i], 1, &count);
    if (rows)
        flxi_inline_or_call(s->g, rows, FLXI_INLINE_TOGETHER, row, y);
    for (uint32_t i = 0; rows && i < s->nout; i++)
        y[i] = flxi_reshape_to(s, y[i], shape.rank, shape.dims);
    flx_graph_release(rows);
}

static bool bodies_map(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const flx_graph *body = ((const map_attrs *)n->attrs)->body;
    *out = (flxi_body){.graph = body, .role = BODY_ELEMENT, .runs = flxi_work_count(flxi_type_at(g, n->first))};
    return i == 0;
}

const flxi_rules flxi_rules_map = {
    .infer = infer_map,
    .eval = eval_map,
    .schema = map_schema,
    .attrs_size = sizeof(map_attrs),
    .decompose = decompose_map,
    .samples = samples_map,
    .bodies = bodies_map,
};
