/* SPDX-License-Identifier: Apache-2.0 */
/* export_index.c: reading and writing at positions that tensors hold, in terms of StableHLO's gather and scatter. See
   export_rules.h.

   What is out of range: StableHLO moves a window of a gather until it fits, and drops what a scatter writes outside. So
   clamp needs work for a scatter, zero for a gather; an index that would be an error at run time is written as if it
   were in range. Windows that may hang over an edge are taken apart into elements, since only for single elements do
   all readers of StableHLO agree on zero and on dropping. */
#include "stablehlo/export/export_rules.h"

static bool is_oob(const flxi_site *s, const char *word)
{
    return site_says(s, "oob", word);
}

/* first, first + 1 … */
static flx_ints count_from(flxi_site *s, int64_t first, int n)
{
    int64_t *v = flxi_rule_new(s, int64_t, n);
    for (int i = 0; v && i < n; i++)
        v[i] = first + i;
    return (flx_ints){v, v ? (size_t)n : 0};
}

static flx_val as_index(flxi_site *s, flx_val v)
{
    return flxi_is_int(flxi_typeof(s, v)->dtype) ? v : flx_cast(s->g, v, FLX_I64);
}

/* ---- Ops with one index ---- */

const char *flxi_export_oob(const flxi_site *s)
{
    return is_oob(s, "zero") ? "zero" : is_oob(s, "clamp") ? "clamp" : "error";
}

void flxi_export_as_gather(flxi_site *s, flx_val *y)
{
    const flx_type *t = flxi_typeof(s, s->x[0]);
    int axis = (int)site_int(s, "axis");
    int positions = flxi_typeof(s, s->x[1])->rank;
    int64_t *sizes = flxi_rule_new(s, int64_t, t->rank);
    int64_t *offset = flxi_rule_new(s, int64_t, t->rank);
    if (!sizes || !offset)
        return;
    for (int i = 0, at = 0; i < t->rank; i++) {
        sizes[i] = i == axis ? 1 : t->dims[i];
        if (i != axis)
            offset[at++] = i < axis ? i : i - 1 + positions;
    }
    flx_gather_nd_attrs a = FLX_GATHER_ND_ATTRS;
    a.slice_sizes = (flx_ints){sizes, (size_t)t->rank};
    a.start_index_map = a.collapsed_axes = FLX_INTS(axis);
    a.offset_axes = (flx_ints){offset, (size_t)t->rank - 1};
    a.index_vector_axis = positions;
    a.oob = flxi_export_oob(s);
    y[0] = flx_gather_nd_with(s->g, s->x[0], s->x[1], &a);
}

void flxi_export_as_take_along(flxi_site *s, flx_val *y)
{
    int rank = flxi_typeof(s, s->x[0])->rank;
    int axis = (int)site_int(s, "axis");
    int64_t *others = flxi_rule_new(s, int64_t, rank);
    int64_t *sizes = flxi_rule_new(s, int64_t, rank);
    if (!others || !sizes)
        return;
    for (int i = 0, at = 0; i < rank; i++) {
        sizes[i] = 1;
        if (i != axis)
            others[at++] = i;
    }
    flx_gather_nd_attrs a = FLX_GATHER_ND_ATTRS;
    a.slice_sizes = (flx_ints){sizes, (size_t)rank};
    a.start_index_map = a.collapsed_axes = FLX_INTS(axis);
    a.operand_batching_axes = a.indices_batching_axes = (flx_ints){others, (size_t)rank - 1};
    a.index_vector_axis = rank;
    a.oob = flxi_export_oob(s);
    y[0] = flx_gather_nd_with(s->g, s->x[0], s->x[1], &a);
}

void flxi_export_as_scatter_add(flxi_site *s, flx_val *y)
{
    const flx_type *upd = flxi_typeof(s, s->x[0]);
    int positions = flxi_typeof(s, s->x[1])->rank;
    flx_type t = {.dtype = upd->dtype, .rank = 1 + upd->rank - positions, .dims = {site_int(s, "R")}};
    for (int i = positions; i < upd->rank; i++)
        t.dims[1 + i - positions] = upd->dims[i];
    flx_scatter_nd_attrs a = FLX_SCATTER_ND_ATTRS;
    a.start_index_map = a.collapsed_axes = FLX_INTS(0);
    a.offset_axes = count_from(s, positions, upd->rank - positions);
    a.index_vector_axis = positions;
    a.oob = flxi_export_oob(s);
    y[0] = flx_scatter_nd_with(s->g, flxi_zeros(s, &t), s->x[1], s->x[0], &a);
}

/* ---- Windows at a position ---- */

/* The operands from `first` on are scalars of one integer dtype. */
static flx_val *with_index_operands(flxi_site *s, uint32_t first)
{
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    for (uint32_t i = 0; x && i < s->nin; i++) {
        x[i] = s->x[i];
        if (i < first)
            continue;
        x[i] = flx_cast(s->g, x[i], FLX_I64);
        x[i] = flxi_reshape_to(s, x[i], 0, NULL);
    }
    return x;
}

void flxi_export_as_dynamic_slice(flxi_site *s, flx_val *y)
{
    flx_val *x = with_index_operands(s, 1);
    if (x)
        y[0] = flxi_emit1(s, NULL, x, s->nin);
}

void flxi_export_as_dynamic_update_slice(flxi_site *s, flx_val *y)
{
    flx_val *x = with_index_operands(s, 2);
    if (x)
        y[0] = flxi_emit1(s, NULL, x, s->nin);
}

/* ---- Geometry of gather_nd and scatter_nd ---- */

typedef struct {
    flxi_site *s;
    const flx_type *x; /* what is read or written */
    flx_val indices;
    const flx_type *out;          /* the shape of what is read, or of the updates */
    int64_t window[FLX_MAX_RANK]; /* by axis of x */
    int index_axis[FLX_MAX_RANK]; /* the axes of out that run over index axes, in order */
    int num_index;
    int64_t v; /* index_vector_axis */
} geometry;

static size_t position_in(flx_ints list, int64_t axis)
{
    size_t i = 0;
    while (i < list.n && list.v[i] != axis)
        i++;
    return i;
}

static bool has(flx_ints list, int64_t axis)
{
    return position_in(list, axis) < list.n;
}

static bool is_window_axis(const geometry *q, int axis)
{
    return !has(site_ints(q->s, "collapsed_axes"), axis) && !has(site_ints(q->s, "operand_batching_axes"), axis);
}

static void read_geometry(geometry *q, flxi_site *s, const flx_type *out)
{
    flx_ints offset = site_ints(s, "offset_axes");
    *q = (geometry){.s = s, .x = flxi_typeof(s, s->x[0]), .indices = as_index(s, s->x[1]), .out = out};
    q->v = site_int(s, "index_vector_axis");
    for (int k = 0; k < out->rank; k++)
        if (!has(offset, k))
            q->index_axis[q->num_index++] = k;
    size_t next = 0;
    for (int a = 0; a < q->x->rank; a++)
        q->window[a] = is_window_axis(q, a) && next < offset.n ? out->dims[offset.v[next++]] : 1;
}

/* Component j of the indices, without the axis that holds the components. */
static flx_val component(const geometry *q, size_t j)
{
    flxi_site *s = q->s;
    const flx_type *t = flxi_typeof(s, q->indices);
    flx_type rest = *t;
    if (q->v >= t->rank)
        return q->indices;
    for (int k = (int)q->v; k + 1 < t->rank; k++)
        rest.dims[k] = t->dims[k + 1];
    return flxi_reshape_to(s, flx_narrow(s->g, q->indices, q->v, (int64_t)j, 1), t->rank - 1, rest.dims);
}

static flx_ints index_axes(const geometry *q)
{
    int64_t *v = flxi_rule_new(q->s, int64_t, q->num_index);
    for (int i = 0; v && i < q->num_index; i++)
        v[i] = q->index_axis[i];
    return (flx_ints){v, v ? (size_t)q->num_index : 0};
}

/* Where each element lies along one axis of x, as i64 of the shape of out. */
static flx_val target(const geometry *q, int axis)
{
    flxi_site *s = q->s;
    flx_graph *g = s->g;
    flx_ints starts = site_ints(s, "start_index_map");
    flx_ints batching = site_ints(s, "operand_batching_axes");
    flx_ints shape = {q->out->dims, (size_t)q->out->rank};
    flx_val at = FLX_NONE;
    if (has(starts, axis)) {
        flx_val c = flx_cast(g, component(q, position_in(starts, axis)), FLX_I64);
        at = flx_broadcast_in_dim(g, c, shape, index_axes(q));
    }
    int along = -1;
    if (has(batching, axis)) {
        int64_t k = site_ints(s, "indices_batching_axes").v[position_in(batching, axis)];
        along = q->index_axis[k > q->v ? k - 1 : k];
    } else if (is_window_axis(q, axis)) {
        int before = 0;
        for (int a = 0; a < axis; a++)
            before += is_window_axis(q, a);
        along = (int)site_ints(s, "offset_axes").v[before];
    }
    flx_val step = along < 0 ? FLX_NONE : flxi_export_iota(s, FLX_I64, q->out, along);
    if (flxi_is_none(at) && flxi_is_none(step)) {
        flx_type t = *q->out;
        t.dtype = FLX_I64;
        return flxi_zeros(s, &t);
    }
    return flxi_sum(s, at, step);
}

/* Which elements lie inside x. */
static flx_val inside(const geometry *q)
{
    flx_graph *g = q->s->g;
    flx_ints starts = site_ints(q->s, "start_index_map");
    flx_type t = *q->out;
    t.dtype = FLX_BOOL;
    flx_val ok = flxi_full(q->s, &t, 1.0);
    for (size_t j = 0; j < starts.n; j++) {
        flx_val at = target(q, (int)starts.v[j]);
        flx_val end = flx_scalar(g, FLX_I64, (double)q->x->dims[starts.v[j]]);
        ok = flx_and(g, ok, flx_and(g, flx_ge(g, at, flxi_number(q->s, at, 0.0)), flx_lt(g, at, end)));
    }
    return ok;
}

/* Whether a window could lie partly inside. */
static bool may_hang_over(const geometry *q)
{
    flx_ints starts = site_ints(q->s, "start_index_map");
    for (size_t j = 0; j < starts.n; j++)
        if (q->window[starts.v[j]] != 1)
            return true;
    return false;
}

/* All coordinates of each element along a new last axis. */
static flx_val all_targets(const geometry *q)
{
    flxi_site *s = q->s;
    int rank = q->x->rank;
    flx_val *parts = flxi_rule_new(s, flx_val, rank);
    if (!parts)
        return FLX_NONE;
    for (int a = 0; a < rank; a++)
        parts[a] = flx_unsqueeze(s->g, target(q, a), FLX_INTS(q->out->rank));
    return flx_concat(s->g, parts, (size_t)rank, q->out->rank);
}

/* ---- gather_nd ---- */

static flx_type gathered_type(flxi_site *s)
{
    const flx_type *x = flxi_typeof(s, s->x[0]);
    const flx_type *i = flxi_typeof(s, s->x[1]);
    flx_ints offset = site_ints(s, "offset_axes");
    flx_ints sizes = site_ints(s, "slice_sizes");
    int64_t v = site_int(s, "index_vector_axis");
    geometry q = {.s = s};
    flx_type t = {.dtype = x->dtype, .rank = i->rank - (v < i->rank) + (int)offset.n};
    int from_index = 0;
    int from_window = 0;
    for (int k = 0; k < t.rank; k++) {
        if (has(offset, k)) {
            while (!is_window_axis(&q, from_window))
                from_window++;
            t.dims[k] = sizes.v[from_window++];
        } else {
            from_index += from_index == v;
            t.dims[k] = i->dims[from_index++];
        }
    }
    return t;
}

static flx_val gather_clamped(flxi_site *s, flx_val indices)
{
    flx_gather_nd_attrs a = {
        .struct_size = sizeof a,
        .slice_sizes = site_ints(s, "slice_sizes"),
        .start_index_map = site_ints(s, "start_index_map"),
        .offset_axes = site_ints(s, "offset_axes"),
        .collapsed_axes = site_ints(s, "collapsed_axes"),
        .operand_batching_axes = site_ints(s, "operand_batching_axes"),
        .indices_batching_axes = site_ints(s, "indices_batching_axes"),
        .index_vector_axis = site_int(s, "index_vector_axis"),
        .oob = "clamp",
    };
    return flx_gather_nd_with(s->g, s->x[0], indices, &a);
}

/* Element by element. */
static flx_val gather_elements(const geometry *q)
{
    flxi_site *s = q->s;
    int64_t *ones = flxi_rule_new(s, int64_t, q->x->rank);
    flx_gather_nd_attrs a = FLX_GATHER_ND_ATTRS;
    if (!ones)
        return FLX_NONE;
    for (int k = 0; k < q->x->rank; k++)
        ones[k] = 1;
    a.slice_sizes = (flx_ints){ones, (size_t)q->x->rank};
    a.start_index_map = a.collapsed_axes = count_from(s, 0, q->x->rank);
    a.index_vector_axis = q->out->rank;
    a.oob = "clamp";
    return flx_gather_nd_with(s->g, s->x[0], all_targets(q), &a);
}

void flxi_export_as_gather_nd(flxi_site *s, flx_val *y)
{
    flx_type out = gathered_type(s);
    geometry q;
    if (export_is_empty(&out) || export_is_empty(flxi_typeof(s, s->x[0]))) {
        y[0] = flxi_zeros(s, &out);
        return;
    }
    read_geometry(&q, s, &out);
    if (!is_oob(s, "zero")) {
        y[0] = gather_clamped(s, q.indices);
        return;
    }
    flx_val v = may_hang_over(&q) ? gather_elements(&q) : gather_clamped(s, q.indices);
    y[0] = flxi_masked(s, inside(&q), v);
}

/* ---- scatter_nd ---- */

/* Starts moved so that their windows fit. */
static flx_val clamped_starts(const geometry *q)
{
    flxi_site *s = q->s;
    flx_graph *g = s->g;
    flx_ints starts = site_ints(s, "start_index_map");
    flx_val *parts = flxi_rule_new(s, flx_val, starts.n);
    flx_val wide = flx_cast(g, q->indices, FLX_I64);
    bool is_vector = q->v < flxi_typeof(s, q->indices)->rank;
    if (!parts)
        return FLX_NONE;
    for (size_t j = 0; j < starts.n; j++) {
        flx_val part = is_vector ? flx_narrow(g, wide, q->v, (int64_t)j, 1) : wide;
        double last = (double)(q->x->dims[starts.v[j]] - q->window[starts.v[j]]);
        parts[j] = flx_clamp(g, flxi_number(s, part, 0.0), part, flxi_number(s, part, last));
    }
    return is_vector && starts.n ? flx_concat(g, parts, starts.n, q->v) : starts.n ? parts[0] : wide;
}

static flx_val append_scatter(flxi_site *s, flx_val x, flx_val indices, flx_val updates, flx_scatter_nd_attrs a)
{
    const flxi_combine *c = flxi_attr_combine(s->op, s->attrs, "combine");
    static const char *const words[] = {"add", "mul", "min", "max", "set"};
    a.combine = (flx_combine){"add", c ? c->graph : NULL};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (site_says(s, "combine", words[i]))
            a.combine.word = words[i];
    if (a.combine.graph)
        a.combine.word = NULL;
    a.unique = (int)site_int(s, "unique");
    a.oob = is_oob(s, "zero") ? "zero" : "error";
    return flx_scatter_nd_with(s->g, x, indices, updates, &a);
}

void flxi_export_as_scatter_nd(flxi_site *s, flx_val *y)
{
    flx_dtype dtype = (flx_dtype)flxi_typeof(s, s->x[0])->dtype;
    bool widen = (dtype == FLX_F16 || dtype == FLX_BF16) && site_says(s, "combine", "add");
    const flx_type *updates = flxi_typeof(s, s->x[2]);
    geometry q;
    if (export_is_empty(updates) || export_is_empty(flxi_typeof(s, s->x[0]))) {
        y[0] = s->x[0];
        return;
    }
    read_geometry(&q, s, updates);
    flx_val x = widen ? flx_cast(s->g, s->x[0], FLX_F32) : s->x[0];
    flx_val u = widen ? flx_cast(s->g, s->x[2], FLX_F32) : s->x[2];
    flx_scatter_nd_attrs a = FLX_SCATTER_ND_ATTRS;
    flx_val indices = is_oob(s, "clamp") ? clamped_starts(&q) : q.indices;
    if (is_oob(s, "zero") && may_hang_over(&q)) {
        indices = all_targets(&q);
        a.start_index_map = a.collapsed_axes = count_from(s, 0, q.x->rank);
        a.index_vector_axis = updates->rank;
    } else {
        a.start_index_map = site_ints(s, "start_index_map");
        a.offset_axes = site_ints(s, "offset_axes");
        a.collapsed_axes = site_ints(s, "collapsed_axes");
        a.operand_batching_axes = site_ints(s, "operand_batching_axes");
        a.indices_batching_axes = site_ints(s, "indices_batching_axes");
        a.index_vector_axis = q.v;
    }
    flx_val v = append_scatter(s, x, indices, u, a);
    y[0] = widen ? flx_cast(s->g, v, dtype) : v;
}
