/* SPDX-License-Identifier: Apache-2.0 */
/* gather_nd_rules.c: derivatives and batching of gather_nd and scatter_nd.

   Reading at the targets and adding at the targets are each other's transposes, under every policy of `oob`. What
   scatter_nd sends back to x and to its updates depends on the combine:

       add      x: all of g                           update: g at its target
       set      x: g where nothing was written        update: g at its target if it was the last one written there
       mul      x: g times the updates of the target  update: g, x and the product of the other updates of its target
       min, max x and updates: those equal to the result share g equally
       @f       where f adds, as for add; else the op as a scan over its updates is differentiated

   Both modes use the same selections and weights. Selections are made with where, products with products (never by
   dividing one factor out of the whole), so that zeros, infinities and second derivatives are correct. */
#include "ops/index/gather_nd.h"
#include "ops/opcode.h"
#include "ops/rule/axis/axis_lists.h"
#include "ops/rule/link.h"
#include "ops/rule/oob.h"
#include "ops/rule/rule_lists.h"

/* ---- Reading and writing at the node's targets ---- */

static flx_val append_nd(flxi_site *s, flxi_opcode op, flxi_nd_attrs *a, const flx_val *x, uint32_t n)
{
    flxi_site other = *s;
    other.op = &flxi_ops[op];
    return a ? flxi_emit1(&other, a, x, n) : FLX_NONE;
}

/* Of a scatter_nd: v, shaped as x, at the target of each update; 0 for one that is dropped. */
static flx_val read_targets(flxi_site *s, flx_val v)
{
    flxi_nd_attrs *a = flxi_site_attrs(s);
    const flx_type *x = flxi_typeof(s, s->x[0]);
    const flx_type *indices = flxi_typeof(s, s->x[1]);
    const flx_type *updates = flxi_typeof(s, s->x[2]);
    flx_dim *sizes = flxi_rule_new(s, flx_dim, FLX_MAX_RANK);
    if (!a || !sizes)
        return FLX_NONE;
    flxi_nd_layout l = flxi_nd_layout_of(a, x->rank, indices->rank);
    for (int k = 0; k < x->rank; k++)
        sizes[k] = 1;
    for (int k = 0; k < l.rank; k++)
        if (l.in_window[k])
            sizes[l.axis[k]] = updates->dims[k];
    a->slice_sizes = (flx_ints){sizes, (size_t)x->rank};
    flx_val y = append_nd(s, OP_gather_nd, a, (flx_val[]){v, s->x[1]}, 2);
    return flxi_reshape_like(s, y, updates);
}

/* `updates` combined into x by a word, at the targets of the node. */
static flx_val write_targets(flxi_site *s, flxi_scatter_word word, flx_val x, flx_val updates)
{
    flxi_nd_attrs *a = flxi_site_attrs(s);
    if (a)
        a->combine = (flxi_combine){.word = word};
    if (a && s->op == &flxi_ops[OP_gather_nd])
        a->unique = false;
    return append_nd(s, OP_scatter_nd, a, (flx_val[]){x, s->x[1], updates}, 3);
}

/* 1, 2, 3 … in the shape of a type. */
static flx_val numbered(flxi_site *s, const flx_type *like)
{
    flx_dim n = 1;
    for (int k = 0; k < like->rank; k++)
        n = flx_dim_mul(s->ctx, n, like->dims[k]);
    flx_type line = flx_type_make(FLX_I64, 1, &n);
    flx_val v = flx_add(s->g, flx_iota(s->g, &line, 0), flx_scalar(s->g, FLX_I64, 1.0));
    return flxi_reshape_like(s, v, like);
}

/* The index of each update's target among the elements of x, counted from 1; 0 for one that is dropped. */
static flx_val target_numbers(flxi_site *s)
{
    return read_targets(s, numbered(s, flxi_typeof(s, s->x[0])));
}

static flx_val flattened(flxi_site *s, flx_val v)
{
    const flx_type *t = flxi_typeof(s, v);
    flx_dim n = 1;
    for (int k = 0; k < t->rank; k++)
        n = flx_dim_mul(s->ctx, n, t->dims[k]);
    return flxi_reshape_to(s, v, 1, &n);
}

/* ---- gather_nd ---- */

void flxi_vjp_gather_nd(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    if (s->wanted[0])
        dx[0] = write_targets(s, FLXI_SCATTER_ADD, flxi_zeros_like(s, s->x[0]), dy[0]);
}

/* ---- Links ---- */

/* The axis of x that axis k of the gathered shape goes along, position by position, whatever the indices are; -1: there
   is none. */
static int64_t axis_of_x(const flxi_nd_attrs *a, const flxi_nd_layout *l, int k)
{
    if (l->in_window[k])
        return flxi_has_axis(a->start_index_map, l->axis[k]) ? -1 : l->axis[k];
    for (size_t i = 0; i < a->indices_batching_axes.n; i++)
        if (a->indices_batching_axes.v[i] == l->axis[k])
            return a->operand_batching_axes.v[i];
    return -1;
}

static flxi_nd_layout layout_of(const flxi_use *u)
{
    const flx_type *x = flxi_type_at(u->g, u->n->in[0]), *indices = flxi_type_at(u->g, u->n->in[1]);
    return flxi_nd_layout_of(u->n->attrs, x->rank, indices->rank);
}

bool flxi_link_gather_nd(const flxi_use *u, flxi_link *l)
{
    const flxi_nd_layout layout = layout_of(u);
    for (int k = 0; u->operand == 0 && k < layout.rank; k++)
        if (axis_of_x(u->n->attrs, &layout, k) == l->axis)
            return flxi_link_move(u, l, k);
    return false;
}

/* An element of x is where it was. */
bool flxi_link_scatter_nd(const flxi_use *u, flxi_link *l)
{
    const flxi_nd_layout layout = layout_of(u);
    if (u->operand == 0)
        return flxi_link_move(u, l, l->axis);
    return u->operand == 2 && flxi_link_move(u, l, axis_of_x(u->n->attrs, &layout, l->axis));
}

/* ---- Batching ---- */

/* The geometry with a batch axis before the gathered shape: shared by x and indices, or one more axis of the
   window, or one more index axis. x_batched and indices_batched are not both false. */
static void batch_geometry(flxi_site *s, flxi_nd_attrs *a, bool x_batched, bool indices_batched)
{
    bool is_paired = x_batched && indices_batched;
    if (x_batched) {
        flxi_shift_axes(s, &a->start_index_map);
        flxi_shift_axes(s, &a->collapsed_axes);
        flxi_shift_axes(s, &a->operand_batching_axes);
    }
    if (indices_batched) {
        flxi_shift_axes(s, &a->indices_batching_axes);
        a->index_vector_axis++;
    }
    if (is_paired) {
        a->operand_batching_axes = flxi_list_behind(s, 0, a->operand_batching_axes, 0);
        a->indices_batching_axes = flxi_list_behind(s, 0, a->indices_batching_axes, 0);
    }
    if (indices_batched)
        flxi_shift_axes(s, &a->offset_axes);
    else
        a->offset_axes = flxi_list_behind(s, 0, a->offset_axes, 1);
}

void flxi_batch_gather_nd(flxi_site *s, flx_val *by)
{
    flxi_nd_attrs *a = flxi_site_attrs(s);
    if (!a)
        return;
    batch_geometry(s, a, s->batched[0], s->batched[1]);
    if (s->batched[0])
        a->slice_sizes = flxi_list_behind(s, s->batched[1] ? 1 : s->size, a->slice_sizes, 0);
    flxi_append(s, a, s->x, 2, by);
}

void flxi_batch_scatter_nd(flxi_site *s, flx_val *by)
{
    flxi_nd_attrs *a = flxi_site_attrs(s);
    if (!a)
        return;
    batch_geometry(s, a, true, s->batched[1]);
    flxi_append(s, a, (flx_val[]){flxi_lift(s, 0), s->x[1], flxi_lift(s, 2)}, 3, by);
}

/* ---- set ---- */

/* Which update was the last at each element of x, by its number; 0 where none was. */
static flx_val last_writers(flxi_site *s, flx_val numbers)
{
    flx_type none = *flxi_typeof(s, s->x[0]);
    none.dtype = FLX_I64;
    return write_targets(s, FLXI_SCATTER_SET, flxi_zeros(s, &none), numbers);
}

static void vjp_set(flxi_site *s, flx_val dy, flx_val *dx)
{
    const flxi_nd_attrs *a = s->attrs;
    if (a->unique) {
        if (s->wanted[0])
            dx[0] = write_targets(s, FLXI_SCATTER_SET, dy, flxi_zeros_like(s, s->x[2]));
        if (s->wanted[2])
            dx[2] = read_targets(s, dy);
        return;
    }
    flx_val numbers = numbered(s, flxi_typeof(s, s->x[2]));
    flx_val last = last_writers(s, numbers);
    if (s->wanted[0])
        dx[0] = flxi_masked(s, flx_eq(s->g, last, flx_scalar(s->g, FLX_I64, 0.0)), dy);
    if (s->wanted[2])
        dx[2] = flxi_masked(s, flx_eq(s->g, read_targets(s, last), numbers), read_targets(s, dy));
}

/* ---- mul ---- */

/* Element i becomes element i - by; elements shifted in are `fill`. */
static flx_val moved(flxi_site *s, flx_val v, int64_t by, double fill)
{
    return flx_pad(s->g, v, flxi_number(s, v, fill), FLX_INTS(by), FLX_INTS(-by), FLX_ALL);
}

/* For each of n sorted targets t, the product of the u that come before it (step 1) or after it (step -1) and have the
   same target. Products over 1, 2, 4 … neighbours are joined, as long as the target is the same. */
static flx_val neighbours_product(flxi_site *s, flx_val t, flx_val u, int64_t n, int step)
{
    flx_val one = flxi_number(s, u, 1.0);
    flx_val p = flx_where(s->g, flx_eq(s->g, t, moved(s, t, step, -1.0)), moved(s, u, step, 1.0), one);
    for (int64_t d = 1; d < n; d *= 2) {
        flx_val same = flx_eq(s->g, t, moved(s, t, step * d, -1.0));
        p = flx_mul(s->g, p, flx_where(s->g, same, moved(s, p, step * d, 1.0), one));
    }
    return p;
}

/* For each update, the product of all others of its target; n updates. Sorting makes equal targets adjacent. */
static flx_val others_product(flxi_site *s, int64_t n)
{
    flx_graph *g = s->g;
    const flx_type *updates = flxi_typeof(s, s->x[2]);
    if (n <= 1 || ((const flxi_nd_attrs *)s->attrs)->unique)
        return flxi_full(s, updates, 1.0);
    flx_val target = flattened(s, target_numbers(s));
    flx_val order = flx_argsort(g, target, 0, 1, 0, FLX_I64);
    flx_val t = flx_gather(g, target, order, 0, NULL);
    flx_val u = flx_gather(g, flattened(s, s->x[2]), order, 0, NULL);
    u = flx_where(g, flx_eq(g, t, flx_scalar(g, FLX_I64, 0.0)), flxi_number(s, u, 1.0),
                  u); /* dropped: out of the way */
    flx_val p = flx_mul(g, neighbours_product(s, t, u, n, 1), neighbours_product(s, t, u, n, -1));
    return flxi_reshape_like(s, flx_scatter_add(g, p, order, n, NULL), updates);
}

/* Derivatives of the result with respect to x and, at its target, to each update; the second has the updates' shape. */
static flx_val partial_by_x(flxi_site *s)
{
    return write_targets(s, FLXI_SCATTER_MUL, flxi_full(s, flxi_typeof(s, s->x[0]), 1.0), s->x[2]);
}

static flx_val partial_by_updates(flxi_site *s, int64_t n)
{
    return flx_mul(s->g, read_targets(s, s->x[0]), others_product(s, n));
}

static void vjp_mul(flxi_site *s, flx_val dy, int64_t n, flx_val *dx)
{
    if (s->wanted[0])
        dx[0] = flx_mul(s->g, dy, flxi_conj(s, partial_by_x(s)));
    if (s->wanted[2])
        dx[2] = flx_mul(s->g, read_targets(s, dy), flxi_conj(s, partial_by_updates(s, n)));
}

static flx_val jvp_mul(flxi_site *s, flx_val tx, flx_val tu, int64_t n)
{
    flx_val y = flxi_is_none(tx) ? flxi_zeros_like(s, s->x[0]) : flx_mul(s->g, tx, partial_by_x(s));
    if (flxi_is_none(tu))
        return y;
    return write_targets(s, FLXI_SCATTER_ADD, y, flx_mul(s->g, tu, partial_by_updates(s, n)));
}

/* ---- min, max ---- */

/* What equals the result, and how many do at each element: x itself and the updates with that target. */
typedef struct {
    flx_val x, updates, count;
} winners;

static winners find_winners(flxi_site *s)
{
    flx_graph *g = s->g;
    flx_dtype dtype = (flx_dtype)flxi_typeof(s, s->x[0])->dtype;
    winners w = {.x = flx_eq(g, s->x[0], s->y[0]), .updates = flx_eq(g, s->x[2], read_targets(s, s->y[0]))};
    w.count = write_targets(s, FLXI_SCATTER_ADD, flx_cast(g, w.x, dtype), flx_cast(g, w.updates, dtype));
    w.count = flx_max(g, w.count, flxi_number(s, w.count, 1.0)); /* none equals NaN */
    return w;
}

static void vjp_extremum(flxi_site *s, flx_val dy, flx_val *dx)
{
    winners w = find_winners(s);
    flx_val share = flx_div(s->g, dy, w.count);
    if (s->wanted[0])
        dx[0] = flxi_masked(s, w.x, share);
    if (s->wanted[2])
        dx[2] = flxi_masked(s, w.updates, read_targets(s, share));
}

static flx_val jvp_extremum(flxi_site *s, flx_val tx, flx_val tu)
{
    winners w = find_winners(s);
    flx_val sum = flxi_is_none(tx) ? flxi_zeros_like(s, s->x[0]) : flxi_masked(s, w.x, tx);
    if (!flxi_is_none(tu))
        sum = write_targets(s, FLXI_SCATTER_ADD, sum, flxi_masked(s, w.updates, tu));
    return flx_div(s->g, sum, w.count);
}

/* ---- Any fold ---- */

/* A new graph to be used by the one that the rule builds; NULL with the error there. */
static flx_graph *new_body(flxi_site *s, const char *name)
{
    return flxi_rule_memory(s, flx_graph_new(s->ctx, name));
}

/* Whether a body was built without an error; an error goes to the graph that the rule builds. */
static bool is_built(flxi_site *s, const flx_graph *body)
{
    flx_error err = {0};
    if (body && flx_graph_error(body, &err) == FLX_OK)
        return true;
    if (body)
        flxi_graph_fail(s->g, &err);
    return false;
}

static flx_val combined(flx_graph *g, const flxi_combine *f, flx_val old, flx_val update)
{
    flx_val y = FLX_NONE;
    if (!f->graph)
        return flx_mul(g, old, update); /* the only word that occurs here */
    flxi_inline(g, f->graph, (flx_val[]){old, update}, &y);
    return y;
}

/* One step: the elements c, the index of the target counted from 1, the update; returns the elements. */
static flx_graph *fold_step(flxi_site *s, const flx_type *c)
{
    const flxi_nd_attrs *a = s->attrs;
    flx_graph *g = new_body(s, "step");
    if (!g)
        return NULL;
    flx_type number = {.dtype = FLX_I64};
    flx_type element = {.dtype = c->dtype};
    flx_val elements = flx_input(g, "c", c);
    flx_val target = flx_input(g, "t", &number);
    flx_val update = flx_input(g, "u", &element);
    flx_val at = flx_sub(g, target, flx_scalar(g, FLX_I64, 1.0));
    flx_val old = flx_gather(g, elements, at, 0, "clamp"); /* total: a batch of branches runs each of them */
    flx_val y = combined(g, &a->combine, old, update);
    flx_val row[3] = {elements, flx_reshape(g, y, FLX_INTS(1)), at};
    flx_output(g, flx_dynamic_update_slice(g, row, 3), NULL);
    return g;
}

/* The same, leaving the elements unchanged where the target is 0. A branch, so that the step is not executed there. */
static flx_graph *fold_step_or_drop(flxi_site *s, const flx_type *c)
{
    flx_graph *step = fold_step(s, c);
    flx_graph *keep = new_body(s, "keep");
    flx_graph *g = new_body(s, "step_or_drop");
    if (is_built(s, step) && keep && g) {
        flx_val in[4];
        flx_val y = FLX_NONE;
        for (size_t k = 0; k < 3; k++) {
            const flx_type *t = flx_val_type(step, flx_graph_input(step, k));
            flx_val same = flx_input(keep, flx_val_name(step, flx_graph_input(step, k)), t);
            in[k + 1] = flx_input(g, flx_val_name(step, flx_graph_input(step, k)), t);
            if (k == 0)
                flx_output(keep, same, NULL);
        }
        in[0] = flx_gt(g, in[2], flx_scalar(g, FLX_I64, 0.0));
        flx_if(g, in, 4, &y, 1, step, keep);
        flx_output(g, y, NULL);
    }
    flx_graph_release(step);
    flx_graph_release(keep);
    return g;
}

/* The elements of x after all updates, one after the other; s is a site in the graph that gets them. */
static flx_val fold_updates(flxi_site *s)
{
    const flxi_nd_attrs *a = s->attrs;
    flx_val c = flattened(s, s->x[0]);
    flx_type type = *flxi_typeof(s, c);
    if (type.dims[0] == 0)
        return s->x[0];
    flx_graph *step = a->oob == OOB_ZERO ? fold_step_or_drop(s, &type) : fold_step(s, &type);
    flx_val in[3] = {c, flattened(s, target_numbers(s)), flattened(s, s->x[2])};
    flx_scan_attrs scan = FLX_SCAN_ATTRS;
    flx_val y = FLX_NONE;
    scan.body = step;
    if (is_built(s, step))
        flx_scan_with(s->g, in, 3, &y, 1, &scan);
    flx_graph_release(step);
    return flxi_reshape_like(s, y, flxi_typeof(s, s->x[0]));
}

/* With distinct targets each update is combined with x itself. Dropped ones have no element to combine with. */
static flx_val apply_updates(flxi_site *s)
{
    const flxi_nd_attrs *a = s->attrs;
    flx_val y = FLX_NONE;
    flx_map(s->g, ((flx_val[]){read_targets(s, s->x[0]), s->x[2]}), 2, &y, 1, a->combine.graph);
    return write_targets(s, FLXI_SCATTER_SET, s->x[0], y);
}

/* The op as a graph x, indices, updates → y of ops that can be differentiated. */
static flx_graph *fold_graph(flxi_site *s)
{
    const flxi_nd_attrs *a = s->attrs;
    flx_graph *g = new_body(s, "fold");
    if (!g)
        return NULL;
    static const char *const names[3] = {"x", "indices", "updates"};
    flx_val x[3];
    for (int k = 0; k < 3; k++)
        x[k] = flx_input(g, names[k], flxi_typeof(s, s->x[k]));
    flxi_site inner = *s;
    inner.g = g;
    inner.x = x;
    bool at_once = a->unique && a->combine.graph && a->oob != OOB_ZERO;
    flx_output(g, at_once ? apply_updates(&inner) : fold_updates(&inner), NULL);
    return g;
}

static void vjp_fold(flxi_site *s, flx_val dy, flx_val *dx)
{
    flx_graph *fold = fold_graph(s);
    bool wanted[3] = {s->wanted[0], false, s->wanted[2]};
    flx_graph *vjp = is_built(s, fold) ? s->bodies->vjp(s, fold, (bool[]){true}, wanted) : NULL;
    flx_val out[2] = {FLX_NONE, FLX_NONE};
    if (vjp)
        flxi_inline(s->g, vjp, (flx_val[]){s->x[0], s->x[1], s->x[2], dy}, out);
    if (wanted[0])
        dx[0] = out[0];
    if (wanted[2])
        dx[2] = out[wanted[0]];
    flx_graph_release(vjp);
    flx_graph_release(fold);
}

static flx_val jvp_fold(flxi_site *s, const flx_val *tx)
{
    flx_graph *fold = fold_graph(s);
    bool active[3] = {!flxi_is_none(tx[0]), false, !flxi_is_none(tx[2])};
    flx_graph *jvp = is_built(s, fold) ? s->bodies->jvp(s, fold, active) : NULL;
    flx_val in[5] = {s->x[0], s->x[1], s->x[2]};
    flx_val out[2] = {FLX_NONE, FLX_NONE};
    int n = 3;
    for (int k = 0; k < 3; k++)
        if (active[k])
            in[n++] = tx[k];
    if (jvp)
        flxi_inline(s->g, jvp, in, out);
    flx_graph_release(jvp);
    flx_graph_release(fold);
    return out[1];
}

/* ---- scatter_nd ---- */

/* Products need the number of updates, which determines the number of steps; where it is a symbol, the fold is
   scanned. */
static bool is_fold(flxi_site *s, int64_t *n)
{
    const flxi_nd_attrs *a = s->attrs;
    *n = 0;
    if (a->combine.graph)
        return !flxi_scatter_adds(&a->combine);
    return a->combine.word == FLXI_SCATTER_MUL && !a->unique && !flxi_static_count(flxi_typeof(s, s->x[2]), n);
}

/* For a combine that is not a fold: its word, or `add` for a graph that adds. */
static flxi_scatter_word word_of(const flxi_nd_attrs *a)
{
    return a->combine.graph ? FLXI_SCATTER_ADD : (flxi_scatter_word)a->combine.word;
}

void flxi_vjp_scatter_nd(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const flxi_nd_attrs *a = s->attrs;
    int64_t n;
    if (!s->wanted[0] && !s->wanted[2])
        return;
    if (is_fold(s, &n)) {
        vjp_fold(s, dy[0], dx);
        return;
    }
    switch (word_of(a)) {
    case FLXI_SCATTER_ADD:
        dx[0] = dy[0];
        if (s->wanted[2])
            dx[2] = read_targets(s, dy[0]);
        break;
    case FLXI_SCATTER_SET: vjp_set(s, dy[0], dx); break;
    case FLXI_SCATTER_MUL: vjp_mul(s, dy[0], n, dx); break;
    case FLXI_SCATTER_MIN:
    case FLXI_SCATTER_MAX: vjp_extremum(s, dy[0], dx); break;
    }
}

void flxi_jvp_scatter_nd(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const flxi_nd_attrs *a = s->attrs;
    int64_t n;
    if (flxi_is_none(tx[0]) && flxi_is_none(tx[2]))
        return;
    if (is_fold(s, &n)) {
        ty[0] = jvp_fold(s, tx);
        return;
    }
    switch (word_of(a)) {
    case FLXI_SCATTER_ADD:
    case FLXI_SCATTER_SET: /* linear in both together */
        ty[0] = write_targets(s, word_of(a), flxi_or_zeros(s, tx[0], s->x[0]), flxi_or_zeros(s, tx[2], s->x[2]));
        break;
    case FLXI_SCATTER_MUL: ty[0] = jvp_mul(s, tx[0], tx[2], n); break;
    case FLXI_SCATTER_MIN:
    case FLXI_SCATTER_MAX: ty[0] = jvp_extremum(s, tx[0], tx[2]); break;
    }
}
