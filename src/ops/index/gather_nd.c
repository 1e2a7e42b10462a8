/* SPDX-License-Identifier: Apache-2.0 */
/* gather_nd.c: gathering windows out of a tensor and scattering them into one, with several index components.

   Both ops share one geometry, a map from positions o of the gathered shape to positions of x. Each axis of o either
   runs over the window (offset_axes) or over `indices` without its axis v = index_vector_axis. For one o,

       p = s + t + u      s[start_index_map[j]] = indices[b, j at v]        the start, b the part of o on index axes
                          t[operand_batching_axes[k]] = b at indices_batching_axes[k]
                          u = the part of o on offset_axes, on the axes of x that are neither collapsed nor batching

   is the element of x that o refers to, or none under oob=zero. gather_nd reads it, scatter_nd combines an update into
   it. scatter_nd with the word `add` keeps wide sums and rounds once; all other combines, graphs that add included,
   round at each step, as the definition by single steps requires. `unique` is a promise that allows faster code; here
   it has no effect. */
#include "ops/index/gather_nd.h"
#include "base/host/stop.h"
#include "graph/op/work.h"
#include "ops/express/express_index.h"
#include "ops/opcode.h"
#include "ops/rule/axis/axis_lists.h"
#include "ops/rule/body/fold_body.h"
#include "ops/rule/body/scalar_body.h"
#include "ops/rule/copy.h"
#include "ops/rule/oob.h"
#include "ops/rule/rule_lists.h"
#include "ops/rule/shard.h"
#include "ops/rule/wide.h"

#include <math.h>

typedef flxi_nd_attrs nd_attrs;
typedef flxi_nd_layout nd_layout;

#define GEOMETRY_ROWS                                                                          \
    A_INTS_REQ(nd_attrs, start_index_map), A_INTS(nd_attrs, offset_axes, "[]"),                \
        A_INTS(nd_attrs, collapsed_axes, "[]"), A_INTS(nd_attrs, operand_batching_axes, "[]"), \
        A_INTS(nd_attrs, indices_batching_axes, "[]"), A_INT_OPT(nd_attrs, index_vector_axis, "last")

static const flxi_attr gather_schema[] = {
    A_DIMS_REQ(nd_attrs, slice_sizes),
    GEOMETRY_ROWS,
    A_WORD(nd_attrs, oob, FLXI_OOB_WORDS),
    A_END,
};

static const flxi_attr scatter_schema[] = {
    GEOMETRY_ROWS,
    A_COMBINE(nd_attrs, combine, FLXI_SCATTER_WORDS),
    A_BOOL(nd_attrs, unique, 0),
    A_WORD(nd_attrs, oob, FLXI_OOB_WORDS),
    A_END,
};

/* ---- Geometry ---- */

/* An axis of x that the window has no axis for. */
static bool is_dropped(const nd_attrs *a, int64_t axis)
{
    return flxi_has_axis(a->collapsed_axes, axis) || flxi_has_axis(a->operand_batching_axes, axis);
}

static int64_t index_axis_count(const nd_attrs *a, const flx_type *indices)
{
    return indices->rank - (a->index_vector_axis < indices->rank);
}

nd_layout flxi_nd_layout_of(const nd_attrs *a, int x_rank, int indices_rank)
{
    nd_layout l = {.rank = 0};
    int window = 0;
    int index = 0;
    int total = indices_rank - (a->index_vector_axis < indices_rank) + (int)a->offset_axes.n;
    while (l.rank < total && l.rank < FLX_MAX_RANK) {
        while (window < x_rank && is_dropped(a, window))
            window++;
        if (index == a->index_vector_axis)
            index++;
        bool in_window = flxi_has_axis(a->offset_axes, l.rank);
        l.in_window[l.rank] = in_window;
        l.axis[l.rank++] = in_window ? window++ : index++;
    }
    return l;
}

/* ---- Checking the attributes ---- */

static flx_code norm_index_vector_axis(flxi_infer *f, int64_t *v, int rank)
{
    int64_t given = *v;
    if (given == FLXI_ABSENT)
        *v = rank > 0 ? rank - 1 : 0; /* a scalar is one start of one component */
    else if (given < 0)
        *v = given + rank;
    if (*v >= 0 && *v <= rank)
        return FLX_OK;
    flxi_type_text text;
    return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "index_vector_axis=rank of indices means that each index is one number",
                           "index_vector_axis is %lld, but indices is %s", (long long)given,
                           flxi_shape_str(f->ctx, f->in[1], &text));
}

/* The components of a start index: as many as the index vector holds, none for a batching axis. */
static flx_code check_start_index_map(flxi_infer *f, nd_attrs *a)
{
    const flx_type *indices = f->in[1];
    FLXI_TRY(flxi_norm_axes_or_none(f, "start_index_map", &a->start_index_map, f->in[0]->rank));
    FLXI_TRY(flxi_need_disjoint(f, "start_index_map", a->start_index_map, "operand_batching_axes",
                                a->operand_batching_axes));
    int64_t v = a->index_vector_axis;
    flx_dim components = v < indices->rank ? indices->dims[v] : 1;
    flxi_type_text text;
    if (!flxi_dims_may_equal(f, components, (flx_dim)a->start_index_map.n))
        return flxi_infer_fail(f, FLX_E_SHAPE, "index_vector_axis is the axis that holds the components of one index",
                               "start_index_map has %zu entries, but indices of shape %s with index_vector_axis=%lld "
                               "has a different number of components",
                               a->start_index_map.n, flxi_shape_str(f->ctx, indices, &text), (long long)v);
    return FLX_OK;
}

static flx_code check_batching(flxi_infer *f, nd_attrs *a)
{
    const flx_type *x = f->in[0];
    const flx_type *indices = f->in[1];
    flx_ints *of_x = &a->operand_batching_axes;
    flx_ints *of_indices = &a->indices_batching_axes;
    FLXI_TRY(flxi_norm_axes_or_none(f, "operand_batching_axes", of_x, x->rank));
    FLXI_TRY(flxi_norm_axes_or_none(f, "indices_batching_axes", of_indices, indices->rank));
    FLXI_TRY(flxi_need_paired(f, "operand_batching_axes", *of_x, "indices_batching_axes", *of_indices));
    FLXI_TRY(flxi_need_disjoint(f, "collapsed_axes", a->collapsed_axes, "operand_batching_axes", *of_x));
    if (flxi_has_axis(*of_indices, a->index_vector_axis))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "indices_batching_axes contains index_vector_axis, %lld",
                               (long long)a->index_vector_axis);
    for (size_t k = 0; k < of_x->n; k++) {
        flxi_type_text tx, ti;
        if (!flxi_dims_may_equal(f, x->dims[of_x->v[k]], indices->dims[of_indices->v[k]]))
            return flxi_infer_fail(
                f, FLX_E_SHAPE, NULL,
                "batching axis %lld of x pairs with axis %lld of indices, but x is %s, indices is %s",
                (long long)of_x->v[k], (long long)of_indices->v[k], flxi_shape_str(f->ctx, x, &tx),
                flxi_shape_str(f->ctx, indices, &ti));
    }
    return FLX_OK;
}

/* One output axis for each window axis, ascending. */
static flx_code check_offset_axes(flxi_infer *f, nd_attrs *a)
{
    int x_rank = f->in[0]->rank;
    size_t window = (size_t)x_rank - a->collapsed_axes.n - a->operand_batching_axes.n;
    if (a->offset_axes.n != window)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "each axis of x that is neither collapsed nor batching needs one",
                               "offset_axes has %zu entries, but the window has %zu axes", a->offset_axes.n, window);
    int rank = (int)(index_axis_count(a, f->in[1]) + (int64_t)window);
    FLXI_TRY(flxi_need_result_rank(f, (size_t)rank));
    FLXI_TRY(flxi_norm_axes_or_none(f, "offset_axes", &a->offset_axes, rank));
    for (size_t i = 1; i < a->offset_axes.n; i++)
        if (a->offset_axes.v[i - 1] > a->offset_axes.v[i])
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "list them in ascending order", "offset_axes must be sorted");
    return FLX_OK;
}

/* Everything that does not depend on the window's extents. */
static flx_code check_geometry(flxi_infer *f, nd_attrs *a)
{
    if (!a->collapsed_axes.v)
        FLXI_TRY(flxi_norm_list(f, "collapsed_axes", &a->collapsed_axes, 0, 0));
    FLXI_TRY(flxi_norm_axes(f, "collapsed_axes", &a->collapsed_axes, f->in[0]->rank, true));
    FLXI_TRY(norm_index_vector_axis(f, &a->index_vector_axis, f->in[1]->rank));
    FLXI_TRY(check_batching(f, a));
    FLXI_TRY(check_start_index_map(f, a));
    return check_offset_axes(f, a);
}

/* Whether the check of a window of 1 that is not in the result is left to evaluation: on an empty axis it is an error
   only where there is an index or a batch position for it. */
static bool moves_freely(const nd_attrs *a, int64_t axis)
{
    return flxi_has_axis(a->operand_batching_axes, axis) ||
           (flxi_has_axis(a->collapsed_axes, axis) && flxi_has_axis(a->start_index_map, axis));
}

/* A window of extent `size` along an axis of x. */
static flx_code check_window(flxi_infer *f, flx_code code, const char *what, int axis, flx_dim size)
{
    const flx_type *x = f->in[0];
    if (!flxi_dim_below(f->ctx, size, 0) && !flxi_dim_below(f->ctx, x->dims[axis], size))
        return FLX_OK;
    flxi_dim_text text;
    flxi_type_text tx;
    return flxi_infer_fail(f, code, "a window has at most the extent of its axis",
                           "%s is %s along axis %d of x, which is %s", what, flxi_dim_str(f->ctx, size, &text), axis,
                           flxi_shape_str(f->ctx, x, &tx));
}

/* ---- gather_nd ---- */

static flx_code check_slice_sizes(flxi_infer *f, nd_attrs *a)
{
    const flx_type *x = f->in[0];
    FLXI_TRY(flxi_norm_list(f, "slice_sizes", &a->slice_sizes, (size_t)x->rank, 1));
    for (int k = 0; k < x->rank; k++) {
        flx_dim size = a->slice_sizes.v[k];
        if (is_dropped(a, k) && !flxi_dims_may_equal(f, size, 1))
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "collapsed and batching axes have a window of extent 1",
                                   "slice_sizes must be 1 along axis %d, which is %s", k,
                                   flxi_has_axis(a->collapsed_axes, k) ? "collapsed" : "batching");
        if (!moves_freely(a, k))
            FLXI_TRY(check_window(f, FLX_E_ATTRIBUTE, "slice_sizes", k, size));
    }
    return FLX_OK;
}

static flx_code infer_gather_nd(flxi_infer *f)
{
    nd_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    const flx_type *indices = f->in[1];
    FLXI_TRY(check_geometry(f, a));
    FLXI_TRY(check_slice_sizes(f, a));
    nd_layout l = flxi_nd_layout_of(a, x->rank, indices->rank);
    flx_type y = {.dtype = x->dtype, .rank = l.rank};
    for (int k = 0; k < l.rank; k++)
        y.dims[k] = l.in_window[k] ? a->slice_sizes.v[l.axis[k]] : indices->dims[l.axis[k]];
    f->out[0] = y;
    return FLX_OK;
}

/* ---- The map from gathered positions to elements of x ---- */

typedef struct {
    const nd_attrs *a;
    const flx_tensor *indices;
    const flx_type *x;
    nd_layout layout;
    int64_t x_strides[FLX_MAX_RANK], index_strides[FLX_MAX_RANK];
    int64_t vector_stride;        /* between the components of one start */
    int64_t window[FLX_MAX_RANK]; /* extents along the axes of x; 1 where dropped */
    int batch_axis[FLX_MAX_RANK]; /* the gathered axis that gives operand_batching_axes[k] */
} nd_map;

/* y: the gathered shape. */
static nd_map map_of(const flxi_eval *e, const flx_type *y)
{
    const nd_attrs *a = e->attrs;
    nd_map m = {.a = a, .indices = e->in[1], .x = &e->in[0]->type};
    m.layout = flxi_nd_layout_of(a, m.x->rank, m.indices->type.rank);
    flxi_strides(m.x, m.x_strides);
    flxi_strides(&m.indices->type, m.index_strides);
    if (a->index_vector_axis < m.indices->type.rank)
        m.vector_stride = m.index_strides[a->index_vector_axis];
    for (int k = 0; k < m.x->rank; k++)
        m.window[k] = 1;
    for (int k = 0; k < m.layout.rank; k++) {
        if (m.layout.in_window[k])
            m.window[m.layout.axis[k]] = y->dims[k];
        for (size_t i = 0; !m.layout.in_window[k] && i < a->indices_batching_axes.n; i++)
            if (a->indices_batching_axes.v[i] == m.layout.axis[k])
                m.batch_axis[i] = k;
    }
    return m;
}

/* One component under oob=zero, where a start may be out of range as long as the element is not. False for values that
   no window can bring into range: not an integer, or further out than any axis is long. */
static bool read_start(const flx_tensor *indices, int64_t i, int64_t *s)
{
    static const double far_out = 4.0e18; /* below 2^62: adding a position in a window cannot overflow */
    int32_t dtype = indices->type.dtype;
    double x = flxi_load_double(dtype, indices->data, i);
    if (!(fabs(x) < far_out) || x != floor(x))
        return false;
    *s = flxi_load_int(dtype, indices->data, i);
    return true;
}

flx_code flxi_nd_start_fail(const flxi_op *op, const char *label, const struct flxi_origin *origin,
                            const flxi_nd_start *s, flx_error *err)
{
    flxi_node_name name;
    if (origin && &flxi_ops[origin->op] != op) /* the user knows an index, not where a window starts */
        return flxi_index_fail((flxi_index_reader){op, label, origin}, s->dtype, s->indices, s->at, s->extent, err);
    return flxi_fail_hint(err, FLX_E_INDEX, "oob=zero drops such elements, oob=clamp moves the window into range",
                          "%s: the start %.15g is out of range: axis %lld has extent %lld, the window %lld",
                          flxi_name_node(&name, op, label, origin), flxi_load_double(s->dtype, s->indices, s->at),
                          (long long)s->axis, (long long)s->extent, (long long)s->window);
}

/* The start's component j; under oob=error the whole window must fit. *inside becomes false when oob=zero drops
   all elements of the window. */
static flx_code component(flxi_eval *e, const nd_map *m, int64_t first, size_t j, int64_t *s, bool *inside)
{
    int64_t axis = m->a->start_index_map.v[j];
    int64_t i = first + (int64_t)j * m->vector_stride;
    if (m->a->oob == OOB_ZERO) {
        *inside = *inside && read_start(m->indices, i, s);
        return FLX_OK;
    }
    int64_t starts = m->x->dims[axis] - m->window[axis] + 1; /* where the window may begin */
    flxi_oob policy = m->a->oob == OOB_CLAMP ? OOB_CLAMP : OOB_ZERO;
    FLXI_TRY(flxi_resolve_index(e, m->indices, i, starts, policy, s));
    if (*s >= 0)
        return FLX_OK;
    const flxi_nd_start start = {m->indices->type.dtype, m->indices->data, i, axis, m->x->dims[axis], m->window[axis]};
    return flxi_nd_start_fail(e->op, e->label, e->origin, &start, e->err);
}

/* The element of x that gathered position o refers to, or -1 when it is dropped. */
static flx_code locate(flxi_eval *e, const nd_map *m, const int64_t *o, int64_t *at)
{
    int64_t p[FLX_MAX_RANK] = {0};
    int64_t first = 0;
    bool is_inside = true;
    for (int k = 0; k < m->layout.rank; k++) {
        if (m->layout.in_window[k])
            p[m->layout.axis[k]] = o[k];
        else
            first += o[k] * m->index_strides[m->layout.axis[k]];
    }
    for (size_t k = 0; k < m->a->operand_batching_axes.n; k++)
        p[m->a->operand_batching_axes.v[k]] = o[m->batch_axis[k]];
    for (size_t j = 0; j < m->a->start_index_map.n; j++) {
        int64_t s = 0;
        FLXI_TRY(component(e, m, first, j, &s, &is_inside));
        p[m->a->start_index_map.v[j]] += s;
    }
    for (int k = 0; k < m->x->rank; k++)
        is_inside = is_inside && p[k] >= 0 && p[k] < m->x->dims[k];
    *at = is_inside ? flxi_offset(p, m->x_strides, m->x->rank) : -1;
    return FLX_OK;
}

/* Resolves every start once, so that one out of range is an error even where its window is empty. */
static flx_code check_starts(flxi_eval *e, const nd_map *m)
{
    flx_type starts = {.rank = 0}; /* the index axes */
    int64_t strides[FLX_MAX_RANK];
    for (int k = 0; k < m->layout.rank; k++) {
        if (m->layout.in_window[k])
            continue;
        strides[starts.rank] = m->index_strides[m->layout.axis[k]];
        starts.dims[starts.rank++] = m->indices->type.dims[m->layout.axis[k]];
    }
    if (m->indices->count == 0)
        return FLX_OK;
    int64_t b[FLX_MAX_RANK] = {0};
    do {
        int64_t first = flxi_offset(b, strides, starts.rank);
        for (size_t j = 0; j < m->a->start_index_map.n; j++) {
            int64_t s = 0;
            bool is_inside = true;
            FLXI_TRY(component(e, m, first, j, &s, &is_inside));
        }
    } while (flxi_next(b, starts.dims, starts.rank));
    return FLX_OK;
}

static flx_code eval_gather_nd(flxi_eval *e)
{
    flx_tensor *y = e->out[0];
    nd_map m = map_of(e, &y->type);
    size_t size = flx_dtype_size(y->type.dtype);
    int64_t o[FLX_MAX_RANK] = {0};
    FLXI_TRY(check_starts(e, &m));
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++, flxi_next(o, y->type.dims, y->type.rank)) {
        int64_t at;
        FLXI_TRY(locate(e, &m, o, &at));
        if (at >= 0)
            flxi_copy_element(y->data, i, e->in[0]->data, at, size);
    }
    return FLX_OK;
}

/* ---- scatter_nd ---- */

/* A body takes an element and its update, and returns the new element. */
static uint32_t combine_operand(uint32_t nin, size_t j)
{
    (void)nin;
    return j == 0 ? 0 : 2;
}

static flx_code check_combine(flxi_infer *f, const nd_attrs *a)
{
    int32_t dtype = f->in[0]->dtype;
    const flx_graph *body = a->combine.graph;
    if (!body) {
        bool is_ordered = a->combine.word == FLXI_SCATTER_MIN || a->combine.word == FLXI_SCATTER_MAX;
        if (is_ordered && flxi_is_complex(dtype))
            return flxi_infer_fail(f, FLX_E_DTYPE, "combine=add, mul and set take complex numbers",
                                   "combine=min and combine=max need an order, which %s does not have",
                                   flx_dtype_name(dtype));
        return FLX_OK;
    }
    FLXI_TRY(flxi_match_scalar_body(f, "combine", body, 2, combine_operand));
    if (flxi_body_outputs(body) != 1)
        return flxi_infer_fail(f, FLX_E_ARITY, "return the new element alone",
                               "combine must return one result, but returns %zu", flxi_body_outputs(body));
    return flxi_match_scalar_output(f, "combine", body, 0, dtype);
}

bool flxi_scatter_adds(const flxi_combine *c)
{
    return c->graph ? flxi_body_combination(c->graph) == &flxi_ops[OP_add] : c->word == FLXI_SCATTER_ADD;
}

static flx_code infer_scatter_nd(flxi_infer *f)
{
    nd_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    const flx_type *indices = f->in[1];
    const flx_type *updates = f->in[2];
    flxi_type_text ti, tu;
    FLXI_TRY(check_geometry(f, a));
    FLXI_TRY(check_combine(f, a));
    nd_layout l = flxi_nd_layout_of(a, x->rank, indices->rank);
    bool fits = l.rank == updates->rank;
    for (int k = 0; fits && k < l.rank; k++)
        fits = l.in_window[k] || flxi_dims_may_equal(f, updates->dims[k], indices->dims[l.axis[k]]);
    if (!fits)
        return flxi_infer_fail(f, FLX_E_SHAPE, "updates must have the result shape of gather_nd with these attributes",
                               "the index axes of updates do not fit: indices is %s, updates is %s",
                               flxi_shape_str(f->ctx, indices, &ti), flxi_shape_str(f->ctx, updates, &tu));
    for (int k = 0; k < l.rank; k++)
        if (l.in_window[k])
            FLXI_TRY(check_window(f, FLX_E_SHAPE, "the window in updates", l.axis[k], updates->dims[k]));
    for (size_t k = 0; k < a->collapsed_axes.n; k++)
        if (!moves_freely(a, a->collapsed_axes.v[k]))
            FLXI_TRY(check_window(f, FLX_E_SHAPE, "the collapsed window", (int)a->collapsed_axes.v[k], 1));
    f->out[0] = *x;
    return FLX_OK;
}

/* Calls step for each update that has a target, in row-major order of updates. */
typedef struct scatter scatter;
typedef flx_code (*scatter_step)(flxi_eval *e, scatter *s, int64_t target, int64_t update);
struct scatter {
    const flxi_arith *arith;
    flxi_num (*fold)(flxi_num, flxi_num); /* of a word other than set */
    flxi_num *sum;                        /* add: wide elements of y */
    flxi_scalar_body body;
};

static flx_code for_each_target(flxi_eval *e, scatter_step step, scatter *s)
{
    const flx_tensor *updates = e->in[2];
    nd_map m = map_of(e, &updates->type);
    int64_t o[FLX_MAX_RANK] = {0};
    FLXI_TRY(check_starts(e, &m));
    for (int64_t i = 0; i < updates->count && !flxi_stopped_by_now();
         i++, flxi_next(o, updates->type.dims, updates->type.rank)) {
        int64_t at;
        FLXI_TRY(locate(e, &m, o, &at));
        if (at >= 0)
            FLXI_TRY(step(e, s, at, i));
    }
    return FLX_OK;
}

static flx_code step_add(flxi_eval *e, scatter *s, int64_t target, int64_t update)
{
    s->sum[target] = s->arith->accumulate(s->sum[target], s->arith->load(e->in[2]->data, update));
    return FLX_OK;
}

static flx_code step_fold(flxi_eval *e, scatter *s, int64_t target, int64_t update)
{
    void *y = e->out[0]->data;
    s->arith->store(y, target, s->fold(s->arith->load(y, target), s->arith->load(e->in[2]->data, update)));
    return FLX_OK;
}

static flx_code step_set(flxi_eval *e, scatter *s, int64_t target, int64_t update)
{
    flxi_copy_element(e->out[0]->data, target, e->in[2]->data, update, flx_dtype_size(s->arith->dtype));
    return FLX_OK;
}

static flx_code step_body(flxi_eval *e, scatter *s, int64_t target, int64_t update)
{
    void *y = e->out[0]->data;
    flxi_scalar_body_set(&s->body, 0, y, target);
    flxi_scalar_body_set(&s->body, 1, e->in[2]->data, update);
    FLXI_TRY(flxi_scalar_body_call(&s->body));
    flxi_copy_element(y, target, flxi_scalar_body_result(&s->body, 0), 0, flx_dtype_size(s->arith->dtype));
    return FLX_OK;
}

static flx_code scatter_sums(flxi_eval *e, scatter *s)
{
    s->sum = flxi_wide_begin(e, s->arith->zero);
    if (!s->sum)
        return FLX_E_OOM;
    for (int64_t i = 0; i < e->out[0]->count && !flxi_stopped_by_now(); i++)
        s->sum[i] = s->arith->load(e->in[0]->data, i);
    return flxi_wide_end(e, s->sum, for_each_target(e, step_add, s));
}

static flx_code scatter_body(flxi_eval *e, scatter *s, const flx_graph *body)
{
    flx_code code = flxi_scalar_body_begin(&s->body, e, body, 2, combine_operand);
    if (code == FLX_OK)
        code = for_each_target(e, step_body, s);
    flxi_scalar_body_end(&s->body);
    return code;
}

static flx_code eval_scatter_nd(flxi_eval *e)
{
    const nd_attrs *a = e->attrs;
    scatter s = {.arith = flxi_arith_of(e->out[0]->type.dtype)};
    FLXI_TRY(flxi_eval_copy(e));
    if (a->combine.graph && flxi_scatter_adds(&a->combine)) {
        s.fold = s.arith->add;
        return for_each_target(e, step_fold, &s);
    }
    if (a->combine.graph)
        return scatter_body(e, &s, a->combine.graph);
    switch ((flxi_scatter_word)a->combine.word) {
    case FLXI_SCATTER_ADD: return scatter_sums(e, &s);
    case FLXI_SCATTER_SET: return for_each_target(e, step_set, &s);
    case FLXI_SCATTER_MUL: s.fold = s.arith->mul; break;
    case FLXI_SCATTER_MIN: s.fold = s.arith->min; break;
    case FLXI_SCATTER_MAX: s.fold = s.arith->max; break;
    }
    return for_each_target(e, step_fold, &s);
}

/* ---- Samples ---- */

#define ROWS "start_index_map=[0], collapsed_axes=[0], offset_axes=[1], index_vector_axis=1"
#define POINTS "start_index_map=[0, 1], collapsed_axes=[0, 1]"
#define BATCHED                                                                             \
    "start_index_map=[1], collapsed_axes=[1], offset_axes=[2], operand_batching_axes=[0], " \
    "indices_batching_axes=[0], index_vector_axis=2"

static const flxi_sample samples_gather_nd[] = {
    {"T[3, 4], i32[5]{0..2}", "slice_sizes=[1, 4], " ROWS, NULL, FLX_OK},
    {"T[3, 4], i64[5, 2]{0..2}", "slice_sizes=[1, 1], " POINTS, NULL, FLX_OK},
    {"T[3, 4], i32[5, 2]{0..1}", "slice_sizes=[2, 3], start_index_map=[0, 1], offset_axes=[-2, -1]", NULL, FLX_OK},
    {"T[3, 4], u8[2, 5]{0..1}", "slice_sizes=[2, 3], start_index_map=[1, -2], offset_axes=[0, 2], index_vector_axis=0",
     NULL, FLX_OK},
    {"T[2, 3, 4], i32[2, 5]{0..2}", "slice_sizes=[1, 1, 4], " BATCHED, NULL, FLX_OK},
    {"T[3, 4], i32[5, 2]{-3..6}", "slice_sizes=[2, 3], start_index_map=[0, 1], offset_axes=[1, 2], oob=zero", NULL,
     FLX_OK},
    {"T[3, 4], i32[5, 2]{-3..6}", "slice_sizes=[2, 3], start_index_map=[0, 1], offset_axes=[1, 2], oob=clamp", NULL,
     FLX_OK},
    {"T[3], i32[]{0..2}", "slice_sizes=[1], start_index_map=[0], collapsed_axes=[0]", NULL, FLX_OK},
    {"T[3], i32[0]", "slice_sizes=[3], start_index_map=[], offset_axes=[0]", NULL, FLX_OK},
    {"T[3, 4], i32[0]", "slice_sizes=[1, 4], " ROWS, NULL, FLX_OK},
    {"T[0, 4], i32[0]", "slice_sizes=[1, 4], " ROWS, NULL, FLX_OK},
    {"T[0, 4], i32[2]", "slice_sizes=[1, 4], " ROWS ", oob=zero", NULL, FLX_OK},
    {"T[3, 4], i32[2]{0..2}", "slice_sizes=[1, 0], " ROWS, NULL, FLX_OK},
    {"T[0, 3, 4], i32[0, 5]", "slice_sizes=[1, 1, 4], " BATCHED, NULL, FLX_OK},
    {"T[N, 4], i32[N]{0..0}", "slice_sizes=[1, 4], " ROWS, NULL, FLX_OK},
    {"T[3, N], i32[5]{0..2}", "slice_sizes=[1, N], " ROWS, NULL, FLX_OK},
    {"T[N, 3, 4], i32[N, 5]{0..2}", "slice_sizes=[1, 1, 4], " BATCHED, NULL, FLX_OK},
    {"T[3, 4], i32[5]", "slice_sizes=[1], " ROWS, NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], i32[5]", "slice_sizes=[2, 4], " ROWS, NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], i32[5]", "slice_sizes=[1, 5], " ROWS, NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], i32[5]", "slice_sizes=[1, -1], " ROWS, NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], i32[5]", "slice_sizes=[1, 1], " POINTS ", index_vector_axis=2", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], i32[5, 3]", "slice_sizes=[1, 1], " POINTS, NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[5, 2]", "slice_sizes=[1, 1], start_index_map=[0, 0], collapsed_axes=[0, 1]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], i32[5, 2]", "slice_sizes=[1, 1], start_index_map=[0, 2], collapsed_axes=[0, 1]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], i32[5, 2]", "slice_sizes=[1, 1], start_index_map=[0, 1], collapsed_axes=[0]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], i32[5, 2]", "slice_sizes=[2, 3], start_index_map=[0, 1], offset_axes=[2, 1]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], i32[5, 2]", "slice_sizes=[2, 3], start_index_map=[0, 1], offset_axes=[1, 3]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3, 4], i32[3, 5]", "slice_sizes=[1, 1, 4], " BATCHED, NULL, FLX_E_SHAPE},
    {"T[2, 3], i32[2, 1]",
     "slice_sizes=[1, 1], start_index_map=[0], operand_batching_axes=[0], indices_batching_axes=[0], offset_axes=[1]",
     NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3], i32[2, 1]",
     "slice_sizes=[1, 1], start_index_map=[1], operand_batching_axes=[0], indices_batching_axes=[], offset_axes=[1]",
     NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3], i32[2, 2]",
     "slice_sizes=[1, 1], start_index_map=[1], operand_batching_axes=[0], indices_batching_axes=[1], offset_axes=[1]",
     NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3], i32[2, 1]",
     "slice_sizes=[1, 1], start_index_map=[1], operand_batching_axes=[0], indices_batching_axes=[0], "
     "collapsed_axes=[0]",
     NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_scatter_nd[] = {
    {"T[3, 4], i32[5]{0..2}, T[5, 4]", ROWS, NULL, FLX_OK},
    {"T[3, 4], i32[5]{0..2}, T[5, 2]", ROWS ", combine=mul", NULL, FLX_OK},
    {"T[3, 4], i64[5, 2]{0..2}, T[5]", POINTS ", combine=set, unique=false", NULL, FLX_OK},
    {"T[3, 4], i32[5, 2]{-3..6}, T[5, 2, 3]", "start_index_map=[0, 1], offset_axes=[1, 2], oob=zero", NULL, FLX_OK},
    {"T[3, 4], i32[5, 2]{-3..6}, T[2, 5, 3]", "start_index_map=[0, 1], offset_axes=[0, 2], oob=clamp", NULL, FLX_OK},
    {"f32[3, 4], i32[5]{0..2}, f32[5, 4]", ROWS ", combine=min", NULL, FLX_OK},
    {"i8[3, 4], i32[5]{0..2}, i8[5, 4]", ROWS ", combine=max", NULL, FLX_OK},
    {"bool[3, 4], i32[5]{0..2}, bool[5, 4]", ROWS ", combine=max", NULL, FLX_OK},
    {"T[2, 3, 4], i32[2, 5]{0..2}, T[2, 5, 4]", BATCHED, NULL, FLX_OK},
    {"T[3, 4], i32[5]{0..2}, T[5, 4]", ROWS ", combine=@f", "graph f(a: T[], b: T[]) { return add(b, mul(a, b)) }",
     FLX_OK},
    {"T[3, 4], i32[5]{0..2}, T[5, 4]", ROWS ", combine=@f", "graph f(a: T[], b: T[]) { return add(a, b) }", FLX_OK},
    {"T[3], i32[]{0..2}, T[]", "start_index_map=[0], collapsed_axes=[0], unique=true", NULL, FLX_OK},
    {"T[3, 4], i32[0], T[0, 4]", ROWS, NULL, FLX_OK},
    {"T[0, 4], i32[0], T[0, 4]", ROWS, NULL, FLX_OK},
    {"T[0, 4], i32[2], T[2, 4]", ROWS ", oob=zero", NULL, FLX_OK},
    {"T[3, 4], i32[2]{0..2}, T[2, 0]", ROWS, NULL, FLX_OK},
    {"T[0, 3, 4], i32[0, 5], T[0, 5, 4]", BATCHED, NULL, FLX_OK},
    {"T[N, 4], i32[N]{0..0}, T[N, 4]", ROWS, NULL, FLX_OK},
    {"T[3, 4], i32[N]{0..2}, T[N, 2]", ROWS ", combine=mul", NULL, FLX_OK},
    {"T[3, 4], i32[5, 2]{-3..6}, T[5, 2, 3]", "start_index_map=[0, 1], offset_axes=[1, 2], oob=zero, combine=mul", NULL,
     FLX_OK},
    {"T[3, 4], i32[5, 2]{-3..6}, T[5, 2, 3]", "start_index_map=[0, 1], offset_axes=[1, 2], oob=zero, combine=set", NULL,
     FLX_OK},
    {"T[3, 4], i32[5, 2]{-3..6}, T[5, 2, 3]", "start_index_map=[0, 1], offset_axes=[1, 2], oob=clamp, combine=set",
     NULL, FLX_OK},
    {"f32[3, 4], i32[5, 2]{-3..6}, f32[5, 2, 3]", "start_index_map=[0, 1], offset_axes=[1, 2], oob=zero, combine=max",
     NULL, FLX_OK},
    {"f32[2, 3, 4], i32[2, 5]{0..2}, f32[2, 5, 4]", BATCHED ", combine=min", NULL, FLX_OK},
    {"T[3], i32[]{0..2}, T[]", "start_index_map=[0], collapsed_axes=[0], unique=true, combine=set", NULL, FLX_OK},
    {"T[3], i32[]{0..2}, T[]", "start_index_map=[0], collapsed_axes=[0], unique=true, combine=mul", NULL, FLX_OK},
    {"T[3], i32[1]{0..1}, T[2]", "start_index_map=[0], offset_axes=[0], unique=true, combine=@f",
     "graph f(a: T[], b: T[]) { return add(b, mul(a, b)) }", FLX_OK},
    {"T[3], i32[4, 1]{-3..4}, T[4, 2]", "start_index_map=[0], offset_axes=[1], oob=zero, combine=@f",
     "graph f(a: T[], b: T[]) { return add(b, mul(a, b)) }", FLX_OK},
    {"T[3, 4], i32[5], T[5, 5]", ROWS, NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[5], T[4, 4]", ROWS, NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[5], T[5]", ROWS, NULL, FLX_E_SHAPE},
    {"T[0, 4], i32[5], T[5]", "start_index_map=[1], collapsed_axes=[0, 1], index_vector_axis=1", NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[5, 3], T[5]", POINTS, NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[5, 2], T[5, 2, 3]", "start_index_map=[0, 1], offset_axes=[2, 1]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], i32[5], T[5, 4]", ROWS ", oob=wrap", NULL, FLX_E_ATTRIBUTE},
    {"c64[3, 4], i32[5], c64[5, 4]", ROWS ", combine=max", NULL, FLX_E_DTYPE},
    {"f32[3, 4], i32[5], f64[5, 4]", ROWS, NULL, FLX_E_DTYPE},
    {"f32[3, 4], i32[5], f32[5, 4]", ROWS ", combine=@f", "graph f(a: f32[], b: f32[]) { return a, b }", FLX_E_ARITY},
    {0},
};

/* ---- Kernel expressions ---- */

static bool expresses_gather_nd(const void *attrs, const flx_type *const *in, uint32_t nin)
{
    const nd_attrs *a = attrs;
    (void)nin;
    for (int k = 0; k < in[0]->rank; k++)
        if (in[0]->dims[k] > INT32_MAX || (a->oob == OOB_CLAMP && in[0]->dims[k] < a->slice_sizes.v[k]))
            return false;
    return a->oob != OOB_ERROR;
}

/* Under oob=zero: start + offset, and whether that is one of `extent` positions. A sum that overflows its type in
   either direction does not wrap back into range. */
static flxi_kposition moved_start(flxi_express *e, uint32_t start, uint32_t offset, int64_t extent)
{
    uint32_t type = flxi_kb_type(e->k, start);
    bool is_float = flxi_is_float((int32_t)type);
    bool is_long = is_float || type == FLX_I64 || type == FLX_U64 || type == FLX_U32;
    uint32_t word = is_long ? FLX_U64 : FLX_U32;
    uint32_t s = is_float ? flxi_kb_cast(e->k, FLX_I64, start) : start;
    uint32_t p = flxi_k2(e, KBIN_add, flxi_kb_cast(e->k, word, s), flxi_kb_cast(e->k, word, offset));
    p = flxi_khold(e, p);
    uint32_t inside = flxi_k2(e, KBIN_lt, p, flxi_kc(e, p, (double)extent));
    if (is_float)
        inside = flxi_k2(e, KBIN_logical_and, inside, flxi_k2(e, KBIN_eq, start, flxi_k1(e, KUN_trunc, start)));
    if (type == FLX_U64)
        inside = flxi_k2(e, KBIN_logical_and, inside, flxi_k2(e, KBIN_lt, start, flxi_kc(e, start, 0x1p62)));
    inside = flxi_khold(e, inside);
    return (flxi_kposition){flxi_ku_guarded(e, inside, flxi_kb_cast(e->k, FLX_U32, p)), inside};
}

/* locate() for the current element. */
static flxi_kval pull_gather_nd(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const nd_attrs *a = e->attrs;
    const flx_type *x = e->in[0];
    nd_layout l = flxi_nd_layout_of(a, x->rank, e->in[1]->rank);
    flxi_kindex o = flxi_at_axes(e, at);
    flxi_kindex in = {0}, idx = {0};
    uint32_t inside = 0;
    (void)result;
    if (flxi_is_empty(x))
        return flxi_kzero(e, x->dtype);
    for (int k = 0; k < x->rank; k++)
        in.dim[k] = flxi_ku(e, 0);
    for (int k = 0; k < l.rank; k++)
        (l.in_window[k] ? &in : &idx)->dim[l.axis[k]] = o.dim[k];
    for (size_t k = 0; k < a->operand_batching_axes.n; k++)
        in.dim[a->operand_batching_axes.v[k]] = idx.dim[a->indices_batching_axes.v[k]];
    for (size_t j = 0; j < a->start_index_map.n; j++) {
        int64_t axis = a->start_index_map.v[j];
        if (a->index_vector_axis < e->in[1]->rank)
            idx.dim[a->index_vector_axis] = flxi_ku(e, (int64_t)j);
        uint32_t start = flxi_operand_at(e, 1, &idx).re;
        if (a->oob == OOB_CLAMP) {
            flxi_kposition p = flxi_kresolve(e, start, x->dims[axis] - a->slice_sizes.v[axis] + 1, OOB_CLAMP);
            in.dim[axis] = flxi_ku_add(e, in.dim[axis], p.at);
            continue;
        }
        flxi_kposition p = moved_start(e, start, in.dim[axis], x->dims[axis]);
        in.dim[axis] = p.at;
        inside = inside ? flxi_k2(e, KBIN_logical_and, inside, p.inside) : p.inside;
    }
    return flxi_kread(e, 0, &in, inside ? flxi_khold(e, inside) : 0);
}

/* ---- Parts ---- */

static int64_t paired_axis(flx_ints from, flx_ints to, int64_t axis)
{
    for (size_t i = 0; i < from.n; i++)
        if (from.v[i] == axis)
            return to.v[i];
    return -1;
}

/* The axis of the gathered shape that runs over an axis of indices. */
static int gathered_axis(const nd_layout *l, int64_t axis)
{
    for (int k = 0; k < l->rank; k++)
        if (!l->in_window[k] && l->axis[k] == axis)
            return k;
    return -1;
}

/* Indices may be cut, and x along its batching axes. */
static int gather_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    const nd_attrs *a = n->attrs;
    nd_layout l = flxi_nd_layout_of(a, flxi_type_at(g, n->in[0])->rank, flxi_type_at(g, n->in[1])->rank);
    return gathered_axis(&l,
                         operand == 1 ? axis : paired_axis(a->operand_batching_axes, a->indices_batching_axes, axis));
}

/* Batching axes, and axes of the window along which updates replace all of x. */
static int scatter_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    const nd_attrs *a = n->attrs;
    const flx_type *x = flxi_type_at(g, n->in[0]), *updates = flxi_type_at(g, n->in[2]);
    nd_layout l = flxi_nd_layout_of(a, x->rank, flxi_type_at(g, n->in[1])->rank);
    if (operand == 1)
        return (int)paired_axis(a->indices_batching_axes, a->operand_batching_axes, axis);
    if (operand == 2 && !l.in_window[axis])
        return (int)paired_axis(a->indices_batching_axes, a->operand_batching_axes, l.axis[axis]);
    if (operand == 0 && flxi_has_axis(a->operand_batching_axes, axis))
        return axis;
    for (int k = 0; k < l.rank; k++)
        if (l.in_window[k] && (operand == 0 ? l.axis[k] : k) == axis && !flxi_has_axis(a->start_index_map, l.axis[k]) &&
            updates->dims[k] == x->dims[l.axis[k]])
            return l.axis[k];
    return -1;
}

static const struct flxi_shard shard_gather_nd = {.becomes = gather_becomes},
                               shard_scatter_nd = {.becomes = scatter_becomes};

const flxi_rules flxi_rules_gather_nd = {
    .infer = infer_gather_nd,
    .eval = eval_gather_nd,
    .pull = pull_gather_nd,
    .expresses = expresses_gather_nd,
    .vjp = flxi_vjp_gather_nd,
    .batch = flxi_batch_gather_nd,
    .schema = gather_schema,
    .attrs_size = sizeof(nd_attrs),
    .samples = samples_gather_nd,
    .link = flxi_link_gather_nd,
    .shard = &shard_gather_nd,
    .work = flxi_work_picked,
};

/* Each update is combined with what is there. */
static void work_scatter_nd(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    w->flops = flxi_work_count(flxi_type_at(g, n->in[2]));
}

static bool bodies_scatter_nd(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const flx_graph *body = ((const nd_attrs *)n->attrs)->combine.graph;
    *out = (flxi_body){.graph = body, .role = BODY_ELEMENT, .runs = flxi_work_count(flxi_type_at(g, n->in[2]))};
    return i == 0 && body;
}

/* Elements that no update reaches are those of x, others may be those of updates. A product scales with x alone. */
static bool scales_scatter_nd(const flxi_node *n, const bool *in)
{
    const flxi_combine *c = &((const nd_attrs *)n->attrs)->combine;
    if (!c->graph && c->word == FLXI_SCATTER_MUL)
        return in[0];
    return in[0] && in[2] && (!c->graph || flxi_scatter_adds(c));
}

const flxi_rules flxi_rules_scatter_nd = {
    .infer = infer_scatter_nd,
    .eval = eval_scatter_nd,
    .vjp = flxi_vjp_scatter_nd,
    .jvp = flxi_jvp_scatter_nd,
    .scales = scales_scatter_nd,
    .batch = flxi_batch_scatter_nd,
    .schema = scatter_schema,
    .attrs_size = sizeof(nd_attrs),
    .samples = samples_scatter_nd,
    .link = flxi_link_scatter_nd,
    .shard = &shard_scatter_nd,
    .work = work_scatter_nd,
    .bodies = bodies_scatter_nd,
};
