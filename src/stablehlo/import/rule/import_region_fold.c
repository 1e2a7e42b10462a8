/* SPDX-License-Identifier: Apache-2.0 */
/* import_region_fold.c: reduce, map and reduce_window.

   A fold with one of the named combinations becomes the reduction of that name, which sums in wider numbers than a fold
   that rounds at each step; the language leaves the order of folding and the number of times that the initial value
   takes part open. All other bodies are folded as they are written, in row-major order from the initial value. */
#include "stablehlo/import/rule/import_region.h"

#include "ops/opcode.h"

#include <string.h>

/* Operands of a fold: arrays and the outer values spread over their shape, then initial values and the outer values. */
typedef struct {
    const flx_val *x, *init; /* of the element types of the region */
    size_t n;
    hlo_element_body body;
} fold;

static bool fold_of(hlo_site *s, fold *f)
{
    const hlo_region *r = &s->op->regions[0];
    f->n = s->nx / 2;
    if (s->nx % 2 || f->n == 0 || s->ny != f->n) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL,
                      "it has %zu operands and %zu results: each array needs an initial value and a "
                      "result",
                      s->nx, s->ny);
        return false;
    }
    f->x = flxi_hlo_promoted(s, r, f->n, s->x, f->n);
    f->init = flxi_hlo_promoted(s, r, 0, s->x + f->n, f->n);
    return f->x && f->init && flxi_hlo_element_body(s, r, 2 * f->n, &f->body);
}

/* All operands of the fold as an op of ours takes them, 2 * (n + outer) of them. */
static flx_val *fold_operands(hlo_site *s, const fold *f)
{
    size_t m = f->body.num_outer;
    flx_val *x = flxi_hlo_new(s, flx_val, 2 * (f->n + m));
    for (size_t i = 0; x && i < f->n; i++) {
        x[i] = f->x[i];
        x[f->n + m + i] = f->init[i];
    }
    for (size_t i = 0; x && i < m; i++) {
        x[f->n + i] = flxi_hlo_like(s, f->body.outer[i], f->x[0]);
        x[2 * f->n + m + i] = f->body.outer[i];
    }
    return x;
}

/* ---- reduce ---- */

static flx_val reduce_by_name(hlo_site *s, const hlo_combine_name *name, flx_val x, flx_val init, flx_ints axes)
{
    flx_attr attr = flx_attr_ints("axes", axes);
    flx_val y = flx_op1(s->g, name->reduction, &x, 1, &attr, 1);
    return flxi_hlo_is_neutral(s, name, init) ? y : flxi_hlo_append(s, name->op, (flx_val[]){init, y}, 2);
}

/* The usual body that finds the position of the largest (gt) or smallest (lt) element: NaN wins, then the better value,
   then the lower position. Inputs: value and position so far, value and position of an element. */
static const flx_graph *position_body(hlo_site *s, const flx_graph *like, const char *better)
{
    flx_graph *g = flxi_hlo_new_body(s);
    flx_val x[4];
    if (!g)
        return NULL;
    for (size_t i = 0; i < 4; i++)
        x[i] = flxi_hlo_body_input(g, i, flxi_type_at(like, like->leaves.at[i]));
    flx_val is_better = flx_op1(g, better, (flx_val[]){x[0], x[2]}, 2, NULL, 0);
    flx_val stays = flx_or(g, is_better, flx_ne(g, x[0], x[0]));
    flx_val is_equal = flx_eq(g, x[0], x[2]);
    flx_val is_first = flx_or(g, stays, flx_and(g, is_equal, flx_lt(g, x[1], x[3])));
    flx_output(g, flx_where(g, stays, x[0], x[2]), NULL);
    flx_output(g, flx_where(g, is_first, x[1], x[3]), NULL);
    return flx_graph_error(g, NULL) == FLX_OK ? g : NULL;
}

/* The same nodes in the same order; attributes of leaves are their types, which the caller knows to be equal. */
static bool same_nodes(const flx_graph *a, const flx_graph *b)
{
    bool is_same = a->node_count == b->node_count && a->outputs.n == b->outputs.n;
    for (uint32_t i = 0; is_same && i < a->node_count; i++) {
        const flxi_node *p = flxi_node_at(a, i);
        const flxi_node *q = flxi_node_at(b, i);
        is_same = p->op == q->op && p->nin == q->nin && p->first == q->first &&
                  (p->nin == 0 || memcmp(p->in, q->in, p->nin * sizeof *p->in) == 0);
    }
    for (size_t i = 0; is_same && i < a->outputs.n; i++)
        is_same = a->outputs.at[i].val == b->outputs.at[i].val;
    return is_same;
}

/* v counts 0, 1, 2 … along the axis. */
static bool counts_along(const hlo_site *s, flx_val v, int64_t axis)
{
    const flxi_node *n = flxi_node_of(s->g, v.id);
    flx_type type = *flxi_hlo_typeof(s, v);
    flx_graph *g = n->op == OP_iota ? flx_graph_new(s->g->ctx, "positions") : NULL;
    if (!g)
        return false;
    flx_val wanted = flx_iota(g, &type, axis);
    bool same = wanted.id && flxi_attrs_equal(&flxi_ops[OP_iota], n->attrs, flxi_node_at(g, 0)->attrs);
    flx_graph_release(g);
    return same;
}

static bool is_used_in(const hlo_op *op, uint32_t number)
{
    for (; op; op = op->next) {
        for (size_t i = 0; i < op->num_operands; i++)
            if (op->operands[i]->number == number)
                return true;
        for (size_t i = 0; i < op->num_regions; i++)
            if (is_used_in(op->regions[i].first, number))
                return true;
    }
    return false;
}

/* Reductions to the position of the largest or smallest element, where the value itself is not used: on equal zeros of
   both signs the fold keeps another one than the reduction would. */
static bool reduce_to_position(hlo_site *s, const fold *f, flx_ints axes)
{
    static const struct {
        const char *better;
        hlo_combine_name name; /* of the value */
    } rows[] = {{"gt", {.neutral = HLO_LOWEST, .reduction = "reduce_max"}},
                {"lt", {.neutral = HLO_HIGHEST, .reduction = "reduce_min"}}};
    const flx_type *x = flxi_hlo_typeof(s, f->x[0]);
    const hlo_combine_name zero = {.neutral = HLO_ZERO};
    if (f->n != 2 || f->body.num_outer || axes.n != 1 || axes.v[0] < 0 || axes.v[0] >= x->rank ||
        !flx_dim_is_static(x->dims[axes.v[0]]) || x->dims[axes.v[0]] < 1 ||
        is_used_in(s->op->next, s->op->results[0]->number) || !counts_along(s, f->x[1], axes.v[0]) ||
        !flxi_hlo_is_neutral(s, &zero, f->init[1]))
        return false;
    for (size_t i = 0; i < 2; i++) {
        const flx_graph *wanted = position_body(s, f->body.graph, rows[i].better);
        if (!wanted || !same_nodes(wanted, f->body.graph) || !flxi_hlo_is_neutral(s, &rows[i].name, f->init[0]))
            continue;
        s->y[0] = reduce_by_name(s, &rows[i].name, f->x[0], f->init[0], axes);
        flx_dtype positions = flxi_hlo_dtype(s, f->x[1]);
        s->y[1] = i == 0 ? flx_argmax(s->g, f->x[0], .axis = axes.v[0], .dtype = positions)
                         : flx_argmin(s->g, f->x[0], .axis = axes.v[0], .dtype = positions);
        return true;
    }
    return false;
}

void flxi_hlo_import_reduce(hlo_site *s)
{
    fold f;
    flx_ints axes = flxi_hlo_ints(s, "dimensions");
    if (!axes.v) /* none given is an empty list, not all */
        axes = flxi_hlo_ints_of(s, "dimensions", 0, 0);
    if (!fold_of(s, &f))
        return;
    const hlo_combine_name *name = f.n == 1 && f.body.num_outer == 0 ? flxi_hlo_combine_name(&f.body) : NULL;
    if (name) {
        s->y[0] = reduce_by_name(s, name, f.x[0], f.init[0], axes);
        return;
    }
    if (reduce_to_position(s, &f, axes))
        return;
    size_t n = f.n + f.body.num_outer;
    const flx_graph *body = flxi_hlo_fold_graph(s, &f.body);
    flx_val *x = fold_operands(s, &f);
    flx_val *y = flxi_hlo_new(s, flx_val, n);
    if (!body || !x || !y)
        return;
    flx_reduce(s->g, x, 2 * n, y, n, body, axes);
    memcpy(s->y, y, f.n * sizeof *y);
}

/* ---- map ---- */

void flxi_hlo_import_map(hlo_site *s)
{
    hlo_element_body body;
    if (s->nx == 0 || !flxi_hlo_element_body(s, &s->op->regions[0], s->nx, &body))
        return;
    flx_val *x = flxi_hlo_new(s, flx_val, s->nx + body.num_outer);
    if (!x)
        return;
    memcpy(x, s->x, s->nx * sizeof *x);
    for (size_t i = 0; i < body.num_outer; i++)
        x[s->nx + i] = flxi_hlo_like(s, body.outer[i], s->x[0]);
    if (body.graph->outputs.n != s->ny)
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "its region returns %zu values, but it has %zu results",
                      body.graph->outputs.n, s->ny);
    else
        flx_map(s->g, x, s->nx + body.num_outer, s->y, s->ny, body.graph);
}

/* ---- reduce_window ---- */

typedef struct {
    flx_ints window, strides, base_dilation, window_dilation;
    flx_ints low, high; /* padding */
} windows;

static bool windows_of(hlo_site *s, size_t rank, windows *w)
{
    *w = (windows){
        .window = flxi_hlo_ints_of(s, "window_dimensions", rank, 1),
        .strides = flxi_hlo_ints_of(s, "window_strides", rank, 1),
        .base_dilation = flxi_hlo_ints_of(s, "base_dilations", rank, 1),
        .window_dilation = flxi_hlo_ints_of(s, "window_dilations", rank, 1),
    };
    return flxi_hlo_padding(s, rank, &w->low, &w->high) && !flxi_hlo_failed(s);
}

/* All windows are one element, except along *axis: there each holds all elements up to its own, or from its own on. */
static bool is_running(const windows *w, const flx_type *x, int64_t *axis, bool *reverse)
{
    *axis = -1;
    for (int64_t k = 0; k < x->rank; k++) {
        int64_t n = x->dims[k];
        int64_t low = w->low.v[k];
        int64_t high = w->high.v[k];
        if (w->strides.v[k] != 1 || w->base_dilation.v[k] != 1 || w->window_dilation.v[k] != 1)
            return false;
        if (w->window.v[k] == 1 && low == 0 && high == 0)
            continue;
        if (*axis >= 0 || w->window.v[k] != n || low + high != n - 1 || (low && high))
            return false;
        *axis = k;
        *reverse = high != 0;
    }
    return *axis >= 0;
}

/* Windows of up to that many elements are folded as the body says, rounding at each step; sums and products of longer
   ones are left to ops that use wider numbers and, for running folds, fewer steps. */
enum { SHORT_WINDOW = 64 };

static bool is_short(const windows *w)
{
    int64_t taps = 1;
    for (size_t k = 0; k < w->window.n && taps <= SHORT_WINDOW; k++)
        taps = w->window.v[k] > SHORT_WINDOW ? SHORT_WINDOW + 1 : taps * w->window.v[k];
    return taps <= SHORT_WINDOW;
}

static bool run_along(hlo_site *s, const fold *f, const hlo_combine_name *name, const windows *w)
{
    int64_t axis;
    bool reverse = false;
    if (!is_running(w, flxi_hlo_typeof(s, f->x[0]), &axis, &reverse) || !flxi_hlo_is_neutral(s, name, f->init[0]))
        return false;
    flx_attr attrs[] = {flx_attr_int("axis", axis), flx_attr_int("reverse", reverse)};
    s->y[0] = flx_op1(s->g, name->running, f->x, 1, attrs, 2);
    return true;
}

void flxi_hlo_import_reduce_window(hlo_site *s)
{
    fold f;
    windows w;
    if (!fold_of(s, &f) || !windows_of(s, (size_t)flxi_hlo_typeof(s, f.x[0])->rank, &w))
        return;
    const hlo_combine_name *name = f.n == 1 && f.body.num_outer == 0 ? flxi_hlo_combine_name(&f.body) : NULL;
    if (name && flxi_hlo_rounds(name, flxi_hlo_dtype(s, f.x[0])) && is_short(&w))
        name = NULL;
    if (name && run_along(s, &f, name, &w))
        return;
    size_t n = f.n + f.body.num_outer;
    flx_reduce_window_attrs a = {
        .struct_size = sizeof a,
        .window = w.window,
        .combine = {name ? name->word : NULL, name ? NULL : flxi_hlo_fold_graph(s, &f.body)},
        .strides = w.strides,
        .base_dilation = w.base_dilation,
        .window_dilation = w.window_dilation,
        .pad_low = w.low,
        .pad_high = w.high,
    };
    flx_val *x = fold_operands(s, &f);
    flx_val *y = flxi_hlo_new(s, flx_val, n);
    if (flxi_hlo_failed(s) || !x || !y)
        return;
    flx_reduce_window_with(s->g, x, 2 * n, y, n, &a);
    memcpy(s->y, y, f.n * sizeof *y);
}
