/* SPDX-License-Identifier: Apache-2.0 */
/* window_rules.c: derivatives, batching and decompositions of reduce_window and select_and_scatter.

   A sum over windows is linear, and its transpose is again a sum over windows: of the cotangent spread by stride, with
   the same taps, moving in steps of base_dilation. Along axes where windows do not overlap it only repeats the
   cotangent. All other folds of a few taps, and those whose windows hardly overlap, are decomposed by copying the
   windows along new axes ("unfolding"), where the reductions along axes have rules; those of many taps by blocks
   (window_blocks.c), or tap after tap if a graph folds them (window_taps.c). The cotangent of a maximum goes to the
   first element of each window that attains it; the init of the fold is the first candidate.

   select_and_scatter is decomposed into the positions that its windows keep, which is a fold over pairs of value and
   position, and a scatter to them. Positions have no derivative. */
#include "ops/signal/window.h"

#include "ops/rule/decomposed.h"
#include "ops/rule/rule_lists.h"

/* ---- Sums over windows ---- */

static flx_ints listed(const int64_t *v, int n)
{
    return (flx_ints){v, (size_t)n};
}

flx_val flxi_window_fold(flxi_site *s, flx_val x, const char *combine, double init, const flxi_slide *m)
{
    enum { WINDOW, STRIDES, BASE, DILATION, LOW, HIGH, LISTS };
    int64_t list[LISTS][FLX_MAX_RANK];
    flx_val in[2] = {x, flxi_number(s, x, init)};
    flx_val y = FLX_NONE;
    int rank = flxi_typeof(s, x)->rank;
    for (int k = 0; k < rank; k++) {
        list[WINDOW][k] = m[k].window;
        list[STRIDES][k] = m[k].stride;
        list[BASE][k] = m[k].base_dilation;
        list[DILATION][k] = m[k].dilation;
        list[LOW][k] = m[k].low;
        list[HIGH][k] = m[k].high;
    }
    flx_reduce_window_attrs a = {
        .struct_size = sizeof a,
        .window = listed(list[WINDOW], rank),
        .combine = {.word = combine},
        .strides = listed(list[STRIDES], rank),
        .base_dilation = listed(list[BASE], rank),
        .window_dilation = listed(list[DILATION], rank),
        .pad_low = listed(list[LOW], rank),
        .pad_high = listed(list[HIGH], rank),
    };
    flx_reduce_window_with(s->g, in, 2, &y, 1, &a);
    return y;
}

/* How windows slide over their own `count` results to reach the elements they came from. */
static flxi_slide slide_back(flxi_site *s, const flxi_slide *m, flx_dim count)
{
    flx_context *ctx = s->ctx;
    flx_dim reach = flx_dim_sub(ctx, flxi_dilated(ctx, m->window, m->dilation), 1);
    flx_dim spread = flxi_dilated(ctx, m->extent, m->base_dilation);
    flx_dim strided = flxi_dilated(ctx, count, m->stride);
    flxi_dim_text text;
    if (!flxi_dim_is_number(m->stride))
        flxi_site_fail(s, FLX_E_UNBOUND_DIM, "give the stride as a number",
                       "the gradient of overlapping windows needs a stride that is a number, not %s",
                       flxi_dim_str(s->ctx, m->stride, &text));
    return (flxi_slide){
        .extent = count,
        .low = flx_dim_sub(ctx, reach, m->low),
        .high = flx_dim_add(ctx, flx_dim_sub(ctx, spread, strided), m->low),
        .window = m->window,
        .stride = m->base_dilation,
        .base_dilation = m->stride,
        .dilation = m->dilation,
    };
}

/* Windows that do not overlap, or a single window: no element is in two. */
static bool is_tiled(const flxi_slide *m, flx_dim count)
{
    return (m->dilation == 1 || m->window == 1) && m->base_dilation == 1 && (m->stride == m->window || count == 1);
}

/* Each element of v repeated throughout its window along the tiled axes, cut and padded with zeros to x's extents. */
static flx_val spread_tiles(flxi_site *s, flx_val v, const flxi_slide *m, const bool *tiled)
{
    flx_dim apart[2 * FLX_MAX_RANK];
    flx_dim wide[2 * FLX_MAX_RANK];
    flx_dim joined[FLX_MAX_RANK];
    flx_dim low[FLX_MAX_RANK] = {0};
    flx_dim high[FLX_MAX_RANK] = {0};
    flx_type t = *flxi_typeof(s, v);
    int n = 0;
    bool cut = false;
    for (int k = 0; k < t.rank; k++) {
        apart[n] = wide[n] = joined[k] = t.dims[k];
        n++;
        if (!tiled[k])
            continue;
        joined[k] = flx_dim_mul(s->ctx, t.dims[k], m[k].window);
        low[k] = flx_dim_sub(s->ctx, 0, m[k].low);
        high[k] = flx_dim_sub(s->ctx, flx_dim_sub(s->ctx, m[k].extent, joined[k]), low[k]);
        cut |= low[k] || high[k];
        if (m[k].window != 1) {
            apart[n] = 1;
            wide[n++] = m[k].window;
        }
    }
    v = flxi_expand_to(s, flxi_reshape_to(s, v, n, apart), n, wide);
    v = flxi_reshape_to(s, v, t.rank, joined);
    return cut ? flx_pad(s->g, v, flxi_number(s, v, 0.0), listed(low, t.rank), listed(high, t.rank),
                         (flx_ints){NULL, 0})
               : v;
}

flx_val flxi_window_sum_back(flxi_site *s, flx_val v, const flxi_slide *m, const flx_type *x)
{
    flxi_slide back[FLX_MAX_RANK];
    bool tiled[FLX_MAX_RANK];
    flx_type t = *flxi_typeof(s, v);
    bool overlap = false;
    int room = FLX_MAX_RANK - t.rank; /* for an axis of taps after each tiled one */
    for (int k = 0; k < t.rank; k++) {
        tiled[k] = is_tiled(&m[k], t.dims[k]) && (m[k].window == 1 || room-- > 0);
        overlap |= !tiled[k];
        back[k] = tiled[k] ? (flxi_slide){.window = 1, .stride = 1, .base_dilation = 1, .dilation = 1}
                           : slide_back(s, &m[k], t.dims[k]);
    }
    if (overlap)
        v = flxi_window_fold(s, v, "add", 0.0, back);
    return flxi_reshape_like(s, spread_tiles(s, v, m, tiled), x);
}

/* ---- Unfolding ---- */

/* o·stride + k·dilation for each window o and tap k; without the axis of taps where there is one. */
static flx_val tap_positions(flxi_site *s, const flxi_slide *m)
{
    flx_graph *g = s->g;
    flx_dim count = flxi_window_count(s->ctx, m);
    flx_type starts = flx_type_make(FLX_I64, m->window == 1 ? 1 : 2, (const flx_dim[]){count, 1});
    flx_type taps = flx_type_make(FLX_I64, 1, &m->window);
    flx_val o = flx_mul(g, flx_iota(g, &starts, 0), flxi_index_number(s, FLX_I64, m->stride));
    if (m->window == 1)
        return o;
    return flx_add(g, o, flx_mul(g, flx_iota(g, &taps, 0), flxi_index_number(s, FLX_I64, m->dilation)));
}

flx_val flxi_pad_windows(flxi_site *s, flx_val x, flx_val padding, const flxi_slide *m)
{
    int64_t low[FLX_MAX_RANK];
    int64_t high[FLX_MAX_RANK];
    int64_t interior[FLX_MAX_RANK];
    int rank = flxi_typeof(s, x)->rank;
    bool any = false;
    for (int k = 0; k < rank; k++) {
        low[k] = m[k].low;
        high[k] = m[k].high;
        interior[k] = m[k].base_dilation - 1;
        any |= low[k] || high[k] || interior[k];
    }
    return any ? flx_pad(s->g, x, padding, listed(low, rank), listed(high, rank), listed(interior, rank)) : x;
}

flx_val flxi_unfold_windows(flxi_site *s, flx_val x, flx_val padding, const flxi_slide *m, int64_t *taps, size_t *n)
{
    int64_t perm[FLX_MAX_RANK];
    int rank = flxi_typeof(s, x)->rank;
    int wide = 0; /* windows with several taps */
    flx_val v = flxi_pad_windows(s, x, padding, m);
    for (int k = rank; k-- > 0;) {
        wide += m[k].window != 1;
        if (m[k].window != 1 || m[k].stride != 1)
            v = flx_gather(s->g, v, tap_positions(s, &m[k]), k, NULL);
    }
    *n = (size_t)wide;
    if (rank + wide > FLX_MAX_RANK)
        return FLX_NONE;                                   /* the gathers have failed */
    for (int k = 0, from = 0, tap = rank; k < rank; k++) { /* now [count, taps] replaces each axis */
        perm[k] = from++;
        if (m[k].window != 1)
            perm[tap++] = from++;
    }
    for (int k = 0; k < wide; k++)
        taps[k] = rank + k;
    return flx_transpose(s->g, v, listed(perm, rank + wide));
}

/* ---- reduce_window: decomposition ---- */

static void slides_of(flxi_site *s, flxi_slide *m)
{
    const flxi_reduce_window_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    for (int k = 0; k < x->rank; k++) {
        m[k] = flxi_window_slide(&a->common, k, x->dims[k]);
        m[k].base_dilation = a->base_dilation.v[k];
        m[k].dilation = a->window_dilation.v[k];
    }
}

/* The value of the first extremum in each row of v [rows…, taps…]; init is the first candidate. */
static flx_val first_winner(flxi_site *s, flx_val v, flx_val init, int rank, bool largest)
{
    flx_graph *g = s->g;
    flx_type t = *flxi_typeof(s, v);
    if (rank == FLX_MAX_RANK) {
        flxi_site_fail(s, FLX_E_SIZE, NULL,
                       "adding an axis of candidates to a tensor of rank %d exceeds the rank limit", rank);
        return FLX_NONE;
    }
    flx_type row = flx_type_make((flx_dtype)t.dtype, rank + 1, t.dims);
    row.dims[rank] = 1;
    flx_val first = flxi_expand_like(s, init, &row);
    row.dims[rank] = flxi_dims_product(s->ctx, &t, rank, t.rank);
    flx_val candidates = flx_concat(g, ((flx_val[]){first, flxi_reshape_like(s, v, &row)}), 2, rank);
    flx_val i = largest ? flx_argmax(g, candidates, rank, 1, FLX_I64) : flx_argmin(g, candidates, rank, 1, FLX_I64);
    return flxi_reshape_to(s, flx_take_along(g, candidates, i, rank, NULL), rank, t.dims);
}

static flx_val fold_unfolded(flxi_site *s, flx_val v, flx_ints taps, int rank)
{
    flx_graph *g = s->g;
    const flxi_reduce_window_attrs *a = s->attrs;
    flx_val init = s->x[1];
    switch (a->combine.word) {
    case FLXI_WINDOW_ADD: return flx_add(g, init, flx_reduce_sum(g, v, taps, 0));
    case FLXI_WINDOW_MUL: return flx_mul(g, init, flx_reduce_prod(g, v, taps, 0));
    default: return first_winner(s, v, init, rank, a->combine.word == FLXI_WINDOW_MAX);
    }
}

/* Results without any element; there, padding may have cropped more than the extent. */
static bool is_empty(flxi_site *s, const flxi_slide *m, int rank, flx_val *y)
{
    flx_type none = {.rank = rank};
    bool empty = false;
    for (int k = 0; k < rank; k++) {
        none.dims[k] = flxi_window_count(s->ctx, &m[k]);
        empty |= none.dims[k] == 0;
    }
    for (uint32_t i = 0; empty && i < s->nout; i++) {
        none.dtype = flxi_typeof(s, s->x[i])->dtype;
        y[i] = flxi_zeros(s, &none);
    }
    return empty;
}

void flxi_decompose_reduce_window(flxi_site *s, flx_val *y)
{
    const flxi_reduce_window_attrs *a = s->attrs;
    flxi_slide m[FLX_MAX_RANK];
    int64_t taps[FLX_MAX_RANK];
    size_t wide = 0;
    int rank = flxi_typeof(s, s->x[0])->rank;
    flx_val *in = flxi_new(&s->g->arena, flx_val, s->nin);
    slides_of(s, m);
    if (!in) {
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
        return;
    }
    if (is_empty(s, m, rank, y))
        return;
    bool is_wide = flxi_window_is_wide(m, rank, FLXI_FEW_TAPS) && flxi_windows_overlap(s->ctx, m, rank);
    if (is_wide && a->combine.graph) {
        flxi_window_fold_taps(s, a->combine.graph, m, y);
        return;
    }
    if (is_wide) {
        y[0] = flxi_window_fold_wide(s, s->x[0], s->x[1], a->combine.word, m);
        return;
    }
    for (uint32_t i = 0; i < s->nout; i++) {
        in[i] = flxi_unfold_windows(s, s->x[i], s->x[s->nout + i], m, taps, &wide);
        in[s->nout + i] = s->x[s->nout + i];
    }
    if (a->combine.graph)
        flx_reduce(s->g, in, s->nin, y, s->nout, a->combine.graph, (flx_ints){taps, wide});
    else
        y[0] = fold_unfolded(s, in[0], (flx_ints){taps, wide}, rank);
}

/* ---- reduce_window: rules ---- */

static bool is_sum(const flxi_combine *c)
{
    return flxi_window_word(c) == FLXI_WINDOW_ADD;
}

/* The extremum of wide windows as an element of x, or init. */
static void decompose_by_winner(flxi_site *s, flx_val *y)
{
    const flxi_reduce_window_attrs *a = s->attrs;
    flx_graph *g = s->g;
    bool largest = flxi_window_word(&a->combine) == FLXI_WINDOW_MAX;
    flx_type t = *flxi_typeof(s, s->x[0]);
    flx_dim count = flxi_dims_product(s->ctx, &t, 0, t.rank);
    flxi_slide m[FLX_MAX_RANK];
    slides_of(s, m);
    if (is_empty(s, m, t.rank, y))
        return;
    flx_type list = flx_type_make(flxi_dim_is_number(count) && count <= INT32_MAX ? FLX_I32 : FLX_I64, 1, &count);
    flx_val at = flxi_reshape_like(s, flx_iota(g, &list, 0), &t);
    at = flxi_window_winner(s, flx_stop_gradient(g, s->x[0]), flx_stop_gradient(g, s->x[1]), at, m, largest);
    for (int k = 0; k < t.rank; k++)
        t.dims[k] = flxi_window_count(s->ctx, &m[k]);
    flx_val v = flxi_full(s, &t, 0.0);
    if (count != 0)
        v = flx_gather(g, flxi_reshape_to(s, s->x[0], 1, &count), flx_max(g, at, flxi_number(s, at, 0.0)), 0, NULL);
    flx_val first = largest ? flx_ge(g, s->x[1], v) : flx_le(g, s->x[1], v);
    if (flxi_in(FLXI_FLOATS, t.dtype))
        first = flx_or(g, first, flx_is_nan(g, s->x[1]));
    first = flx_or(g, first, flx_lt(g, at, flxi_number(s, at, 0.0)));
    y[0] = flx_where(g, first, flxi_expand_like(s, s->x[1], &t), v);
}

/* What derivatives go through, which is right at ties too. */
static flxi_expansion differentiable_form(flxi_site *s)
{
    const flxi_reduce_window_attrs *a = s->attrs;
    flxi_slide m[FLX_MAX_RANK];
    int64_t word = flxi_window_word(&a->combine);
    slides_of(s, m);
    bool is_extremum = word == FLXI_WINDOW_MAX || word == FLXI_WINDOW_MIN;
    bool is_wide = is_extremum && flxi_window_is_wide(m, flxi_typeof(s, s->x[0])->rank, FLXI_FEW_COMPARED);
    return is_wide ? decompose_by_winner : flxi_decompose_reduce_window;
}

void flxi_vjp_reduce_window(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const flxi_reduce_window_attrs *a = s->attrs;
    flxi_slide m[FLX_MAX_RANK];
    if (!is_sum(&a->combine)) {
        flxi_vjp_through(s, differentiable_form(s), dy, dx);
        return;
    }
    slides_of(s, m);
    if (s->wanted[0])
        dx[0] = flxi_window_sum_back(s, dy[0], m, flxi_typeof(s, s->x[0]));
    if (s->wanted[1]) { /* a window counts init once for itself and once for each padded position */
        flx_val times = flxi_emit1(s, NULL, (flx_val[]){flxi_zeros_like(s, s->x[0]), flxi_number(s, s->x[1], 1.0)}, 2);
        dx[1] = flx_mul(s->g, dy[0], times);
    }
}

void flxi_jvp_reduce_window(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const flxi_reduce_window_attrs *a = s->attrs;
    if (is_sum(&a->combine))
        ty[0] = flxi_emit1(s, NULL, (flx_val[]){flxi_or_zeros(s, tx[0], s->x[0]), flxi_or_zeros(s, tx[1], s->x[1])}, 2);
    else
        flxi_jvp_through(s, differentiable_form(s), tx, ty);
}

static void shift_windows(flxi_site *s, flxi_window_common *a)
{
    a->window = flxi_list_behind(s, 1, a->window, 0);
    a->strides = flxi_list_behind(s, 1, a->strides, 0);
    a->pad_low = flxi_list_behind(s, 0, a->pad_low, 0);
    a->pad_high = flxi_list_behind(s, 0, a->pad_high, 0);
}

/* Windows of extent 1 along the batch axis; an init for each example needs another rule. */
void flxi_batch_reduce_window(flxi_site *s, flx_val *by)
{
    flx_val *x = flxi_new(&s->g->arena, flx_val, s->nin);
    flxi_reduce_window_attrs *a = flxi_site_attrs(s);
    if (!x)
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
    if (!x || !a)
        return;
    for (uint32_t i = s->nout; i < s->nin; i++)
        if (s->batched[i]) {
            flxi_batch_decomposed(s, by);
            return;
        }
    for (uint32_t i = 0; i < s->nin; i++)
        x[i] = i < s->nout ? flxi_lift(s, i) : s->x[i];
    shift_windows(s, &a->common);
    a->base_dilation = flxi_list_behind(s, 1, a->base_dilation, 0);
    a->window_dilation = flxi_list_behind(s, 1, a->window_dilation, 0);
    flxi_append(s, a, x, s->nin, by);
}

/* ---- select_and_scatter ---- */

static const char *const combine_names[] = {"add", "max", "min", "mul"};
static const char *const select_names[] = {"ge", "le", "gt", "lt"};

/* One step of a window: (kept, its position) and (candidate, its position) to the one that is kept. Padding has
   position -1, and so does the kept value before the first element. */
static flx_graph *keep_step(flxi_site *s, int32_t dtype, const flxi_combine *select)
{
    flx_graph *t = flx_graph_new(s->ctx, "keep");
    flx_type value = {.dtype = dtype};
    flx_type index = {.dtype = FLX_I64};
    if (!t) {
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
        return NULL;
    }
    flx_val kept = flx_input(t, "kept", &value);
    flx_val kept_at = flx_input(t, "kept_at", &index);
    flx_val next = flx_input(t, "next", &value);
    flx_val next_at = flx_input(t, "next_at", &index);
    flx_val pair[2] = {kept, next};
    flx_val zero = flx_scalar(t, FLX_I64, 0);
    flx_val stays = FLX_NONE;
    if (select->graph)
        flxi_inline(t, select->graph, pair, &stays);
    else
        stays = flx_op1(t, select_names[select->word], pair, 2, NULL, 0);
    stays = flx_or(t, flx_lt(t, next_at, zero), flx_and(t, flx_ge(t, kept_at, zero), stays));
    flx_output(t, flx_where(t, stays, kept, next), NULL);
    flx_output(t, flx_where(t, stays, kept_at, next_at), NULL);
    return t;
}

/* The position in the flattened x that each window keeps, as a vector; -1 where there is only padding. */
static flx_val kept_positions(flxi_site *s)
{
    const flxi_select_and_scatter_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    flx_dim count = flxi_dims_product(s->ctx, x, 0, x->rank);
    flx_type list = flx_type_make(FLX_I64, 1, &count);
    flx_val kept[2] = {FLX_NONE, FLX_NONE};
    flx_graph *step = keep_step(s, x->dtype, &a->select);
    flx_val in[4] = {
        flx_stop_gradient(s->g, s->x[0]),
        flxi_reshape_like(s, flx_iota(s->g, &list, 0), x),
        flxi_number(s, s->x[0], 0.0),
        flx_scalar(s->g, FLX_I64, -1),
    };
    flx_reduce_window_attrs to = FLX_REDUCE_WINDOW_ATTRS;
    to.window = a->common.window;
    to.combine.graph = step;
    to.strides = a->common.strides;
    to.pad_low = a->common.pad_low;
    to.pad_high = a->common.pad_high;
    if (step)
        flx_reduce_window_with(s->g, in, 4, kept, 2, &to);
    flx_graph_release(step);
    const flx_type *windows = flxi_typeof(s, s->x[1]);
    count = flxi_dims_product(s->ctx, windows, 0, windows->rank);
    return flxi_reshape_to(s, kept[1], 1, &count);
}

/* ---- select_and_scatter: gradient ---- */

enum { MOST_TAPS = 32 }; /* that are written out */

/* Windows of known extents and few taps, whose select is a comparison. */
static bool has_few_taps(const flxi_select_and_scatter_attrs *a, const flx_type *x, const flx_type *windows)
{
    int64_t taps = 1;
    bool is_known = !a->select.graph;
    for (int k = 0; k < x->rank && taps <= MOST_TAPS; k++) {
        taps = a->common.window.v[k] <= MOST_TAPS ? taps * a->common.window.v[k] : MOST_TAPS + 1;
        is_known &= flxi_dim_is_number(x->dims[k]) && flxi_dim_is_number(windows->dims[k]) && windows->dims[k] > 0;
    }
    return is_known && taps <= MOST_TAPS;
}

/* The element that each window has at a tap, of v in the shape of x; `padding` beyond the edges. */
static flx_val at_tap(flxi_site *s, flx_val v, double padding, const int64_t *tap)
{
    const flxi_select_and_scatter_attrs *a = s->attrs;
    const flx_type *windows = flxi_typeof(s, s->x[1]);
    flxi_slide m[FLX_MAX_RANK];
    int64_t limit[FLX_MAX_RANK];
    int rank = windows->rank;
    for (int k = 0; k < rank; k++) {
        m[k] = flxi_window_slide(&a->common, k, windows->dims[k]);
        m[k].base_dilation = 1;
        limit[k] = tap[k] + (windows->dims[k] - 1) * a->common.strides.v[k] + 1;
    }
    v = flxi_pad_windows(s, v, flxi_number(s, v, padding), m);
    return flx_slice(s->g, v, listed(tap, rank), listed(limit, rank), a->common.strides);
}

static bool is_padded(const flxi_select_and_scatter_attrs *a, int rank)
{
    bool any = false;
    for (int k = 0; k < rank; k++)
        any |= a->common.pad_low.v[k] || a->common.pad_high.v[k];
    return any;
}

/* The elements of dy at the positions that the windows keep: taps are compared one after the other, so that all of it
   is one kernel. 0 where there is only padding. */
static flx_val kept_elements(flxi_site *s, flx_val dy)
{
    const flxi_select_and_scatter_attrs *a = s->attrs;
    const flx_type x = *flxi_typeof(s, s->x[0]);
    flx_type truth = x;
    truth.dtype = FLX_BOOL;
    flx_val inside = is_padded(a, x.rank) ? flxi_full(s, &truth, 1.0) : FLX_NONE;
    flx_val values = flx_stop_gradient(s->g, s->x[0]);
    flx_val kept = FLX_NONE, kept_dy = FLX_NONE, kept_is = FLX_NONE;
    int64_t tap[FLX_MAX_RANK] = {0};
    do {
        flx_val next[2] = {kept, at_tap(s, values, 0, tap)}, next_dy = at_tap(s, dy, 0, tap);
        flx_val next_is = flxi_is_none(inside) ? FLX_NONE : at_tap(s, inside, 0, tap);
        if (flxi_is_none(kept)) {
            kept = next[1];
            kept_dy = next_dy;
            kept_is = next_is;
            continue;
        }
        flx_val stays = flx_op1(s->g, select_names[a->select.word], next, 2, NULL, 0);
        if (!flxi_is_none(inside)) {
            stays = flx_or(s->g, flx_not(s->g, next_is), flx_and(s->g, kept_is, stays));
            kept_is = flx_or(s->g, kept_is, next_is);
        }
        kept = flx_where(s->g, stays, kept, next[1]);
        kept_dy = flx_where(s->g, stays, kept_dy, next_dy);
    } while (flxi_next(tap, a->common.window.v, x.rank));
    return kept_dy;
}

void flxi_decompose_select_and_scatter(flxi_site *s, flx_val *y)
{
    static const int64_t first[1] = {0};
    const flxi_select_and_scatter_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    const flx_type *source = flxi_typeof(s, s->x[1]);
    flx_dim count = flxi_dims_product(s->ctx, x, 0, x->rank);
    flx_dim windows = flxi_dims_product(s->ctx, source, 0, source->rank);
    flx_scatter_nd_attrs to = FLX_SCATTER_ND_ATTRS;
    to.start_index_map = listed(first, 1);
    to.collapsed_axes = listed(first, 1);
    to.index_vector_axis = 1;
    to.oob = "zero";
    to.combine.graph = a->combine.graph;
    if (!a->combine.graph)
        to.combine.word = combine_names[a->combine.word];
    flx_val start = flxi_expand_to(s, s->x[2], 1, &count);
    flx_val updates = flxi_reshape_to(s, s->x[1], 1, &windows);
    if (count != 0)
        start = flx_scatter_nd_with(s->g, start, kept_positions(s), updates, &to);
    y[0] = flxi_reshape_like(s, start, x);
}

void flxi_vjp_select_and_scatter(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const flxi_select_and_scatter_attrs *a = s->attrs;
    if (!is_sum(&a->combine)) {
        flxi_vjp_decomposed(s, dy, dx);
        return;
    }
    const flx_type *x = flxi_typeof(s, s->x[0]), *windows = flxi_typeof(s, s->x[1]);
    if (s->wanted[1] && has_few_taps(a, x, windows)) {
        dx[1] = kept_elements(s, dy[0]);
    } else if (s->wanted[1]) {
        flx_dim count = flxi_dims_product(s->ctx, x, 0, x->rank);
        flx_val flat = flxi_reshape_to(s, dy[0], 1, &count);
        dx[1] = flxi_reshape_like(s, flx_gather(s->g, flat, kept_positions(s), 0, "zero"), windows);
    }
    if (s->wanted[2])
        dx[2] = dy[0];
}

void flxi_jvp_select_and_scatter(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const flxi_select_and_scatter_attrs *a = s->attrs;
    if (!is_sum(&a->combine)) {
        flxi_jvp_decomposed(s, tx, ty);
        return;
    }
    if (flxi_is_none(tx[1]) && flxi_is_none(tx[2]))
        return; /* x only determines the positions */
    flx_val x[3] = {s->x[0], flxi_or_zeros(s, tx[1], s->x[1]), flxi_or_zeros(s, tx[2], s->x[2])};
    ty[0] = flxi_emit1(s, NULL, x, 3);
}

void flxi_batch_select_and_scatter(flxi_site *s, flx_val *by)
{
    flxi_select_and_scatter_attrs *a = flxi_site_attrs(s);
    if (!a)
        return;
    if (s->batched[2]) {
        flxi_batch_decomposed(s, by);
        return;
    }
    shift_windows(s, &a->common);
    flxi_append(s, a, (flx_val[]){flxi_lift(s, 0), flxi_lift(s, 1), s->x[2]}, 3, by);
}
