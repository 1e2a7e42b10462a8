/* SPDX-License-Identifier: Apache-2.0 */
/* sort.c: sorting along an axis, and parts of it: argsort, topk and top_k.

   All of them order the positions of one row at a time by a stable sort and then take values or positions from it. The
   order is total: NaN is above +inf, -0 and +0 are equal, equal elements keep their order in both directions. With
   `compare` a sub-graph decides instead. */
#include "base/host/stop.h"
#include "numeric/merge_sort.h"
#include "ops/reduce/axis.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/body/scalar_body.h"
#include "ops/rule/copy.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"

#include <stdio.h>

/* ---- Order ---- */

typedef struct {
    flxi_eval *e;
    uint32_t keys; /* how many operands are compared, first to last */
    bool descending;
    flxi_scalar_body *body; /* decides instead of the keys when not NULL */
    int64_t axis, take;     /* results have the first `take` positions of each row */
    uint32_t values;        /* the first results are operands in the new order, this many */
    flx_tensor *positions;  /* the result that holds positions, or NULL */
    flx_code code;          /* of the body; after a failure it is not called again */
} sorting;

/* Below 0 where a comes first in ascending order, 0 for equals. */
static int order_of(const flxi_arith *t, flxi_num a, flxi_num b)
{
    if (t->less(a, b))
        return -1;
    if (t->less(b, a))
        return 1;
    return (int)!t->equal(a, a) - (int)!t->equal(b, b); /* neither is less: equal, or a NaN takes part */
}

static bool body_says_first(sorting *s, int64_t p, int64_t q)
{
    if (s->code != FLX_OK)
        return false;
    for (uint32_t j = 0; j < s->e->nin; j++) {
        flxi_scalar_body_set(s->body, 2 * (size_t)j, s->e->in[j]->data, p);
        flxi_scalar_body_set(s->body, 2 * (size_t)j + 1, s->e->in[j]->data, q);
    }
    s->code = flxi_scalar_body_call(s->body);
    return s->code == FLX_OK && flxi_load_truth(FLX_BOOL, flxi_scalar_body_result(s->body, 0), 0);
}

/* Whether element p of the operands must come before element q. */
static bool goes_first(void *user, int64_t p, int64_t q)
{
    sorting *s = user;
    if (s->body)
        return body_says_first(s, p, q);
    for (uint32_t j = 0; j < s->keys; j++) {
        const flx_tensor *x = s->e->in[j];
        const flxi_arith *t = flxi_arith_of(x->type.dtype);
        int order = order_of(t, t->load(x->data, p), t->load(x->data, q));
        if (order != 0)
            return s->descending ? order > 0 : order < 0;
    }
    return false;
}

/* ---- Rows ---- */

/* Sorts the row of elements base, base + inner, … and writes its results at out, out + inner, … */
static void sort_row(sorting *s, int64_t *scratch, flxi_split d, int64_t base, int64_t out)
{
    for (int64_t k = 0; k < d.n; k++) {
        if (flxi_stopped_by_now())
            return;
        scratch[k] = base + k * d.inner;
    }
    const int64_t *sorted = flxi_sort_positions(scratch, scratch + d.n, d.n, goes_first, s);
    for (int64_t k = 0; k < s->take && !flxi_stopped_by_now(); k++) {
        int64_t at = out + k * d.inner;
        for (uint32_t j = 0; j < s->values; j++)
            flxi_copy_element(s->e->out[j]->data, at, s->e->in[j]->data, sorted[k],
                              flx_dtype_size(s->e->in[j]->type.dtype));
        if (s->positions)
            flxi_store_int(s->positions->type.dtype, s->positions->data, at, (sorted[k] - base) / d.inner);
    }
}

static flx_code sort_rows(sorting *s)
{
    flxi_eval *e = s->e;
    if (e->in[0]->count == 0)
        return FLX_OK; /* the other dims may be too large to count rows */
    flxi_split d = flxi_split_at(&e->in[0]->type, s->axis);
    int64_t *scratch = flxi_alloc(e->mem, (size_t)d.n, 2 * sizeof *scratch);
    if (!scratch)
        return flxi_oom(e->err, "the positions of a row to sort");
    for (int64_t o = 0; o < d.outer && !flxi_stopped_by_now(); o++)
        for (int64_t i = 0; i < d.inner && s->code == FLX_OK && !flxi_stopped_by_now(); i++)
            sort_row(s, scratch, d, o * d.n * d.inner + i, o * s->take * d.inner + i);
    flxi_free(e->mem, scratch, (size_t)d.n, 2 * sizeof *scratch);
    return s->code;
}

/* ---- sort ---- */

typedef struct {
    int64_t axis, num_keys, stable, descending;
    const flx_graph *compare;
} sort_attrs;

static const flxi_attr sort_schema[] = {
    A_INT(sort_attrs, axis, -1),       A_INT(sort_attrs, num_keys, 1),   A_BOOL(sort_attrs, stable, 1),
    A_BOOL(sort_attrs, descending, 0), A_GRAPH_OPT(sort_attrs, compare), A_END,
};

/* compare takes a1, b1, a2, b2 …: two elements of each operand. */
static uint32_t compare_operand(uint32_t nin, size_t j)
{
    (void)nin;
    return (uint32_t)(j / 2);
}

static flx_code check_compare(flxi_infer *f, const sort_attrs *a)
{
    if (a->descending)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "let compare itself put larger elements first",
                               "compare replaces the order, so descending=true has no meaning");
    FLXI_TRY(flxi_match_scalar_body(f, "compare", a->compare, 2 * (size_t)f->nin, compare_operand));
    if (flxi_body_outputs(a->compare) != 1)
        return flxi_infer_fail(f, FLX_E_ARITY, "compare must return one bool: whether a comes first",
                               "compare returns %zu values", flxi_body_outputs(a->compare));
    return flxi_match_scalar_output(f, "compare", a->compare, 0, FLX_BOOL);
}

static flx_code check_keys(flxi_infer *f, const sort_attrs *a)
{
    for (uint32_t j = 0; j < (uint32_t)a->num_keys; j++)
        if (flxi_is_complex(f->in[j]->dtype))
            return flxi_infer_fail(f, FLX_E_DTYPE, "sort by its real part or abs, or give compare",
                                   "key %u is %s, which has no order", (unsigned)j + 1,
                                   flx_dtype_name(f->in[j]->dtype));
    return FLX_OK;
}

static flx_code infer_sort(flxi_infer *f)
{
    sort_attrs *a = f->attrs;
    flx_type shape;
    FLXI_TRY(flxi_need_operands(f));
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_equal_shapes(f, f->nin, &shape));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, shape.rank));
    if (a->num_keys < 1 || a->num_keys > (int64_t)f->nin)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "keys are the first operands", "num_keys is %lld, expected 1 to %u",
                               (long long)a->num_keys, (unsigned)f->nin);
    FLXI_TRY(a->compare ? check_compare(f, a) : check_keys(f, a));
    FLXI_TRY(flxi_results(f, f->nin));
    for (uint32_t i = 0; i < f->nin; i++) {
        f->out[i] = shape;
        f->out[i].dtype = f->in[i]->dtype;
    }
    return FLX_OK;
}

static flx_code eval_sort(flxi_eval *e)
{
    const sort_attrs *a = e->attrs;
    sorting s = {
        .e = e,
        .keys = (uint32_t)a->num_keys,
        .descending = a->descending,
        .axis = a->axis,
        .take = e->in[0]->type.dims[a->axis],
        .values = e->nin,
    };
    if (!a->compare)
        return sort_rows(&s);
    flxi_scalar_body body;
    flx_code code = flxi_scalar_body_begin(&body, e, a->compare, 2 * (size_t)e->nin, compare_operand);
    s.body = &body;
    if (code == FLX_OK)
        code = sort_rows(&s);
    flxi_scalar_body_end(&body);
    return code;
}

#define GRAPH_FIRST_BY_COUNT "graph f(a: T[], b: T[], m: i32[], n: i32[]) { return gt(m, n) }"

static const flxi_sample samples_sort[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[3, 4]", "axis=0, descending=true", NULL, FLX_OK},
    {"T[2, 3, 4]", "axis=-2, stable=false", NULL, FLX_OK},
    {"T[2, 7], i32[2, 7]", "num_keys=2", NULL, FLX_OK},
    {"T[7], c128[7], bool[7]", NULL, NULL, FLX_OK},
    {"T[5], i32[5]", "compare=@f", GRAPH_FIRST_BY_COUNT, FLX_OK},
    {"T[0, 3]", "axis=0", NULL, FLX_OK},
    {"T[0, 3]", NULL, NULL, FLX_OK},
    {"T[N, 3], i32[N, 3]", "axis=0", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3]", "axis=1", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "num_keys=2", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "num_keys=0", NULL, FLX_E_ATTRIBUTE},
    {"c64[3], T[3]", NULL, NULL, FLX_E_DTYPE},
    {"T[5], i32[5]", "compare=@f, descending=true", GRAPH_FIRST_BY_COUNT, FLX_E_ATTRIBUTE},
    {"i32[5]", "compare=@f", "graph f(a: i32[], b: i32[]) { return add(a, b) }", FLX_E_DTYPE},
    {0},
};

/* ---- Rules of sort: values move, so only their source positions matter ---- */

/* The comparison with two more inputs, which it ignores; NULL with the error in s->g. */
static flx_graph *compare_ignoring(flxi_site *s, const flx_graph *compare, const flx_type *ignored)
{
    size_t n = compare->leaves.n;
    flx_graph *g = flx_graph_new(s->ctx, "compare");
    flx_val *in = g ? flxi_new(&g->arena, flx_val, n) : NULL;
    if (!in) {
        flx_graph_release(g);
        flxi_site_fail(s, FLX_E_OOM, NULL, "out of memory");
        return NULL;
    }
    for (size_t i = 0; i < n + 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "x%zu", i);
        flx_val v = flx_input(g, name, i < n ? flxi_type_at(compare, compare->leaves.at[i]) : ignored);
        if (i < n)
            in[i] = v;
    }
    flx_val first = FLX_NONE;
    flxi_inline(g, compare, in, &first);
    flx_output(g, first, "first");
    return g;
}

/* Sorts n operands, keys first, and their positions along the axis with them; room for n + 1 results. */
static void sort_with_positions(flxi_site *s, const flx_val *x, uint32_t n, flx_val *y)
{
    const sort_attrs *own = s->attrs;
    flx_sort_attrs a = {sizeof a, own->axis, own->num_keys, (int)own->stable, (int)own->descending, NULL};
    flx_val *in = flxi_new(&s->g->arena, flx_val, n + 1);
    if (!in) {
        flxi_site_fail(s, FLX_E_OOM, NULL, "out of memory");
        return;
    }
    memcpy(in, x, n * sizeof *in);
    in[n] = flxi_positions_along(s, flxi_typeof(s, x[0]), own->axis);
    flx_type position = {.dtype = flxi_typeof(s, in[n])->dtype};
    flx_graph *compare = own->compare ? compare_ignoring(s, own->compare, &position) : NULL;
    a.compare = compare;
    if (!s->g->error.code)
        flx_sort_with(s->g, in, n + 1, y, n + 1, &a);
    flx_graph_release(compare);
}

static flx_val *room_for_sorted(flxi_site *s)
{
    flx_val *y = flxi_new(&s->g->arena, flx_val, s->nin + 1);
    if (!y)
        flxi_site_fail(s, FLX_E_OOM, NULL, "out of memory");
    return y;
}

static uint32_t one_saved(flxi_site *s)
{
    (void)s;
    return 1;
}

static void primal_sort(flxi_site *s, flx_val *y, flx_val *saved)
{
    flx_val *sorted = room_for_sorted(s);
    if (!sorted)
        return;
    sort_with_positions(s, s->x, s->nin, sorted);
    memcpy(y, sorted, s->nin * sizeof *y);
    saved[0] = sorted[s->nin];
}

static void vjp_sort(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const sort_attrs *a = s->attrs;
    for (uint32_t i = 0; i < s->nin; i++)
        if (s->wanted[i] && !flxi_is_none(dy[i]))
            dx[i] = flxi_scatter_along(s, dy[i], s->saved[0], a->axis, flxi_typeof(s, s->x[i]), true);
}

static void jvp_sort(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const sort_attrs *a = s->attrs;
    flx_val *sorted = room_for_sorted(s);
    if (!sorted)
        return;
    sort_with_positions(s, s->x, s->nin, sorted);
    memcpy(s->new_y, sorted, s->nin * sizeof *sorted);
    for (uint32_t i = 0; i < s->nin; i++)
        if (!flxi_is_none(tx[i]))
            ty[i] = flx_take_along(s->g, tx[i], sorted[s->nin], a->axis, NULL);
}

static bool shares_keys(const flxi_site *s)
{
    const sort_attrs *a = s->attrs;
    bool is_shared = !a->compare;
    for (uint32_t i = 0; i < (uint32_t)a->num_keys; i++)
        is_shared = is_shared && !s->batched[i];
    return is_shared;
}

/* All examples have the same order: shared operands are sorted once, and the others are gathered by those positions. */
static void batch_by_shared_keys(flxi_site *s, flx_val *by)
{
    const sort_attrs *a = s->attrs;
    flx_dim dims[FLX_MAX_RANK] = {s->size};
    flx_val *x = room_for_sorted(s);
    flx_val *sorted = room_for_sorted(s);
    uint32_t n = 0;
    if (!x || !sorted)
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        if (!s->batched[i])
            x[n++] = s->x[i];
    sort_with_positions(s, x, n, sorted);
    const flx_type *row = flxi_typeof(s, sorted[n]);
    if (row->rank == FLX_MAX_RANK)
        flxi_site_fail(s, FLX_E_SIZE, NULL, "adding a batch axis to a tensor of rank %d exceeds the rank limit",
                       row->rank);
    else
        memcpy(dims + 1, row->dims, (size_t)row->rank * sizeof *dims);
    flx_val from = s->g->error.code ? FLX_NONE : flxi_expand_to(s, sorted[n], row->rank + 1, dims);
    n = 0;
    for (uint32_t i = 0; i < s->nin; i++) {
        s->by_batched[i] = s->batched[i];
        by[i] = s->batched[i] ? flx_take_along(s->g, s->x[i], from, a->axis + 1, NULL) : sorted[n++];
    }
}

static void batch_sort(flxi_site *s, flx_val *by)
{
    if (shares_keys(s)) {
        batch_by_shared_keys(s, by);
        return;
    }
    flx_val *x = room_for_sorted(s);
    sort_attrs *a = flxi_site_attrs(s);
    for (uint32_t i = 0; x && i < s->nin; i++)
        x[i] = flxi_lift(s, i);
    if (a)
        a->axis++;
    flxi_append(s, a, x, s->nin, by);
}

static bool bodies_sort(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const sort_attrs *a = n->attrs;
    (void)g;
    *out = (flxi_body){.graph = a->compare, .role = BODY_ELEMENT, .runs = FLXI_ABSENT};
    return i == 0 && a->compare;
}

static bool link_sort(const flxi_use *u, flxi_link *l)
{
    return flxi_link_except(u, l, ((const sort_attrs *)u->n->attrs)->axis);
}

const flxi_rules flxi_rules_sort = {
    .infer = infer_sort,
    .eval = eval_sort,
    .schema = sort_schema,
    .attrs_size = sizeof(sort_attrs),
    .primal = primal_sort,
    .num_saved = one_saved,
    .vjp = vjp_sort,
    .jvp = jvp_sort,
    .batch = batch_sort,
    .samples = samples_sort,
    .link = link_sort,
    .shard = &flxi_shard_linked,
    .bodies = bodies_sort,
};

/* ---- argsort ---- */

typedef struct {
    int64_t axis, stable, descending, dtype;
} argsort_attrs;

static const flxi_attr argsort_schema[] = {
    A_INT(argsort_attrs, axis, -1),
    A_BOOL(argsort_attrs, stable, 1),
    A_BOOL(argsort_attrs, descending, 0),
    A_DTYPE(argsort_attrs, dtype, FLX_I32),
    A_END,
};

static flx_code infer_argsort(flxi_infer *f)
{
    argsort_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, f->in[0]->rank));
    FLXI_TRY(flxi_check_positions(f, a->dtype, f->in[0]->dims[a->axis]));
    f->out[0] = *f->in[0];
    f->out[0].dtype = (int32_t)a->dtype;
    return FLX_OK;
}

static flx_code eval_argsort(flxi_eval *e)
{
    const argsort_attrs *a = e->attrs;
    sorting s = {
        .e = e,
        .keys = 1,
        .descending = a->descending,
        .axis = a->axis,
        .take = e->in[0]->type.dims[a->axis],
        .positions = e->out[0],
    };
    return sort_rows(&s);
}

static const flxi_sample samples_argsort[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[3, 4]", "axis=0, descending=true", NULL, FLX_OK},
    {"T[2, 3, 4]", "axis=-2, stable=false, dtype=u8", NULL, FLX_OK},
    {"T[0, 3]", "axis=0", NULL, FLX_OK},
    {"T[N, 3]", "axis=0, dtype=i64", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3]", "axis=1", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "dtype=f32", NULL, FLX_E_DTYPE},
    {"T[300]", "dtype=u8", NULL, FLX_E_DTYPE},
    {"c64[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

static void batch_argsort(flxi_site *s, flx_val *by)
{
    argsort_attrs *a = flxi_site_attrs(s);
    if (a)
        a->axis++;
    flxi_append(s, a, s->x, s->nin, by);
}

const flxi_rules flxi_rules_argsort = {
    .infer = infer_argsort,
    .eval = eval_argsort,
    .schema = argsort_schema,
    .attrs_size = sizeof(argsort_attrs),
    .batch = batch_argsort,
    .samples = samples_argsort,
};

/* ---- topk, top_k ---- */

typedef struct {
    flx_dim k;
    int64_t axis; /* top_k only; topk has the last axis */
    int64_t dtype;
} top_attrs;

static const flxi_attr topk_schema[] = {
    A_DIM_REQ(top_attrs, k),
    A_DTYPE(top_attrs, dtype, FLX_I32),
    A_END,
};

static const flxi_attr top_k_schema[] = {
    A_DIM_REQ(top_attrs, k),
    A_INT(top_attrs, axis, -1),
    A_DTYPE(top_attrs, dtype, FLX_I32),
    A_END,
};

/* *positions becomes the type of the result with positions: x with k along the axis. */
static flx_code infer_top(flxi_infer *f, int64_t axis, flx_type *positions)
{
    const top_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    flx_dim n = x->dims[axis];
    if (flxi_dim_below(f->ctx, a->k, 1) || flxi_dim_below(f->ctx, n, a->k)) {
        flxi_type_text text;
        flxi_dim_text k;
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "k must be at least 1 and at most the extent of the axis",
                               "k=%s is out of range for axis %d of x %s", flxi_dim_str(f->ctx, a->k, &k), (int)axis,
                               flxi_shape_str(f->ctx, x, &text));
    }
    FLXI_TRY(flxi_check_positions(f, a->dtype, n));
    *positions = *x;
    positions->dims[axis] = a->k;
    positions->dtype = (int32_t)a->dtype;
    return FLX_OK;
}

static flx_code infer_topk(flxi_infer *f)
{
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    return infer_top(f, f->in[0]->rank - 1, &f->out[0]);
}

static flx_code infer_top_k(flxi_infer *f)
{
    top_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, f->in[0]->rank));
    FLXI_TRY(infer_top(f, a->axis, &f->out[1]));
    f->out[0] = f->out[1];
    f->out[0].dtype = f->in[0]->dtype;
    return FLX_OK;
}

static flx_code eval_top(flxi_eval *e, int64_t axis, flx_tensor *positions, uint32_t values)
{
    sorting s = {
        .e = e,
        .keys = 1,
        .descending = true,
        .axis = axis,
        .take = positions->type.dims[axis],
        .values = values,
        .positions = positions,
    };
    return sort_rows(&s);
}

static flx_code eval_topk(flxi_eval *e)
{
    return eval_top(e, e->in[0]->type.rank - 1, e->out[0], 0);
}

static flx_code eval_top_k(flxi_eval *e)
{
    const top_attrs *a = e->attrs;
    return eval_top(e, a->axis, e->out[1], 1);
}

#define SAMPLES_TOP                                                                                                  \
    {"T[5]", "k=1", NULL, FLX_OK}, {"T[2, 6]", "k=3", NULL, FLX_OK}, {"T[2, 3, 4]", "k=4, dtype=i64", NULL, FLX_OK}, \
        {"T[0, 3]", "k=2", NULL, FLX_OK}, {"T[N, 3]", "k=2", NULL, FLX_OK}, {"T[2, N]", "k=N", NULL, FLX_OK},        \
        {"T[]", "k=1", NULL, FLX_E_SHAPE}, {"T[3]", "k=4", NULL, FLX_E_ATTRIBUTE},                                   \
        {"T[3]", "k=0", NULL, FLX_E_ATTRIBUTE}, {"T[3]", "k=-1", NULL, FLX_E_ATTRIBUTE},                             \
        {"T[0]", "k=1", NULL, FLX_E_ATTRIBUTE}, {"T[3]", NULL, NULL, FLX_E_ATTRIBUTE},                               \
    {                                                                                                                \
        "T[3]", "k=1, dtype=bool", NULL, FLX_E_DTYPE                                                                 \
    }

static const flxi_sample samples_topk[] = {
    SAMPLES_TOP,
    {0},
};

static const flxi_sample samples_top_k[] = {
    SAMPLES_TOP,
    {"T[4, 3]", "k=2, axis=0", NULL, FLX_OK},
    {"T[2, 4, 3]", "k=3, axis=-2, dtype=u16", NULL, FLX_OK},
    {"T[N, 3]", "k=1, axis=-2", NULL, FLX_OK},
    {"T[4, 3]", "k=2, axis=2", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static void vjp_top_k(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const top_attrs *a = s->attrs;
    dx[0] = flxi_scatter_along(s, dy[0], s->y[1], a->axis, flxi_typeof(s, s->x[0]), true);
}

static void jvp_top_k(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const top_attrs *a = s->attrs;
    ty[0] = flx_take_along(s->g, tx[0], s->y[1], a->axis, NULL);
}

/* topk reads the last axis, which remains the last. */
static void batch_topk(flxi_site *s, flx_val *by)
{
    flxi_append(s, NULL, s->x, s->nin, by);
}

static void batch_top_k(flxi_site *s, flx_val *by)
{
    top_attrs *a = flxi_site_attrs(s);
    if (a)
        a->axis++;
    flxi_append(s, a, s->x, s->nin, by);
}

const flxi_rules flxi_rules_topk = {
    .infer = infer_topk,
    .eval = eval_topk,
    .schema = topk_schema,
    .attrs_size = sizeof(top_attrs),
    .batch = batch_topk,
    .samples = samples_topk,
};

static bool link_top_k(const flxi_use *u, flxi_link *l)
{
    return flxi_link_except(u, l, ((const top_attrs *)u->n->attrs)->axis);
}

const flxi_rules flxi_rules_top_k = {
    .infer = infer_top_k,
    .eval = eval_top_k,
    .schema = top_k_schema,
    .attrs_size = sizeof(top_attrs),
    .vjp = vjp_top_k,
    .jvp = jvp_top_k,
    .batch = batch_top_k,
    .samples = samples_top_k,
    .link = link_top_k,
    .shard = &flxi_shard_linked,
};
