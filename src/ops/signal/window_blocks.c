/* SPDX-License-Identifier: Apache-2.0 */
/* window_blocks.c: folds over wide windows, one axis after the other, in time and memory that do not grow with the
   length of windows (van Herk; Gil and Werman).

   An axis is cut into blocks as long as a window. A window is then the rest of one block and the beginning of the next:

       blocks    |. . . . .|. . . . .|. . . . .|
       window          [. . . . .]               fold = after[3] with before[8]

   where after[i] folds from i to the end of its block, and before[i] from the beginning of its block to i, without i.
   Only elements of the window meet: infinities and NaN stay in windows that have them, and nothing is subtracted, so a
   sum has the error of one in two parts. Dilated windows are windows over every dilation-th element.

   Where the first extremum of each window is asked for, both folds keep where theirs was. The last axis comes first:
   the winners of rows then meet in the order of rows. */
#include "ops/rule/axis/along.h"
#include "ops/rule/rule_lists.h"
#include "ops/signal/window.h"

/* ---- Which windows ---- */

static bool is_moderate(const flxi_slide *m)
{
    const int64_t most = INT32_MAX;
    const int64_t v[] = {m->extent, m->low, m->high, m->window, m->stride, m->base_dilation, m->dilation};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        if (!flxi_dim_is_number(v[i]) || v[i] > most || v[i] < -most)
            return false;
    return true;
}

static bool is_plain(const flxi_slide *m)
{
    return m->window == 1 && m->stride == 1 && m->base_dilation == 1 && m->low == 0 && m->high == 0;
}

bool flxi_window_is_wide(const flxi_slide *m, int rank, int64_t few)
{
    int64_t taps = 1;
    for (int k = 0; k < rank; k++) {
        if (is_plain(&m[k]))
            continue;
        if (!is_moderate(&m[k]))
            return false;
        taps = taps > few ? taps : taps * m[k].window;
    }
    return taps > few;
}

/* Where windows hardly overlap, the elements of all of them are not many more than those of the input. */
bool flxi_windows_overlap(flx_context *ctx, const flxi_slide *m, int rank)
{
    const double most_copies = 4; /* of an element: folding by blocks reads and writes it about as often */
    double copied = 1, seen = 1;
    for (int k = 0; k < rank; k++) {
        if (is_plain(&m[k]))
            continue;
        copied *= (double)flxi_window_count(ctx, &m[k]) * (double)m[k].window;
        seen *= (double)m[k].extent * (double)m[k].base_dilation + (double)m[k].low + (double)m[k].high;
    }
    return copied > most_copies * seen;
}

/* ---- One axis ---- */

/* What the windows of an axis see, which is padded already. */
typedef struct {
    flx_dim outer, inner; /* elements before and after the axis */
    int64_t extent, count, window, stride, dilation;
    int64_t blocks; /* so many that there is a position after each window */
} row;

static row row_of(flxi_site *s, flx_val v, int k, const flxi_slide *m)
{
    const flx_type *t = flxi_typeof(s, v);
    row r = {.outer = flxi_dims_product(s->ctx, t, 0, k),
             .inner = flxi_dims_product(s->ctx, t, k + 1, t->rank),
             .extent = t->dims[k],
             .count = flxi_window_count(s->ctx, m),
             .window = m->window,
             .stride = m->stride,
             .dilation = m->dilation};
    int64_t last = (r.count - 1) * r.stride + r.window * r.dilation; /* after the last window */
    r.blocks = last / (r.window * r.dilation) + 1;
    return r;
}

/* v as [outer * blocks, window, dilation * inner]; what is added at the end belongs to no window. */
static flx_val as_blocks(flxi_site *s, flx_val v, const row *r)
{
    int64_t whole = r->blocks * r->window * r->dilation;
    int64_t low[3] = {0}, high[3] = {0, whole - r->extent, 0};
    flx_dim lines[3] = {r->outer, r->extent, r->inner};
    flx_dim blocks[3] = {flx_dim_mul(s->ctx, r->outer, r->blocks), r->window,
                         flx_dim_mul(s->ctx, r->dilation, r->inner)};
    v = flxi_reshape_to(s, v, 3, lines);
    if (high[1])
        v = flx_pad(s->g, v, flxi_number(s, v, 0.0), (flx_ints){low, 3}, (flx_ints){high, 3}, FLX_ALL);
    return flxi_reshape_to(s, v, 3, blocks);
}

/* From such blocks the elements at `first` after the start of each window, as [outer, count, inner]. */
static flx_val at_windows(flxi_site *s, flx_val v, const row *r, int64_t first)
{
    flx_dim lines[3] = {r->outer, r->blocks * r->window * r->dilation, r->inner};
    int64_t start[3] = {0, first, 0}, limit[3] = {r->outer, first + (r->count - 1) * r->stride + 1, r->inner};
    int64_t step[3] = {1, r->stride, 1};
    return flx_slice(s->g, flxi_reshape_to(s, v, 3, lines), (flx_ints){start, 3}, (flx_ints){limit, 3},
                     (flx_ints){step, 3});
}

/* v, which has been folded along axis k of a tensor of that type. */
static flx_val as_tensor(flxi_site *s, flx_val v, flx_type t, int k, const row *r)
{
    t.dims[k] = r->count;
    return flxi_reshape_to(s, v, t.rank, t.dims);
}

/* ---- Values ---- */

static flx_val running(flxi_site *s, flx_val v, int64_t word, bool exclusive, bool reverse)
{
    switch (word) {
    case FLXI_WINDOW_ADD: return flx_cumsum(s->g, v, 1, exclusive, reverse);
    case FLXI_WINDOW_MUL: return flx_cumprod(s->g, v, 1, exclusive, reverse);
    case FLXI_WINDOW_MAX: return flx_cummax(s->g, v, 1, exclusive, reverse);
    default: return flx_cummin(s->g, v, 1, exclusive, reverse);
    }
}

static flx_val combined(flxi_site *s, int64_t word, flx_val a, flx_val b)
{
    switch (word) {
    case FLXI_WINDOW_ADD: return flx_add(s->g, a, b);
    case FLXI_WINDOW_MUL: return flx_mul(s->g, a, b);
    case FLXI_WINDOW_MAX: return flx_max(s->g, a, b);
    default: return flx_min(s->g, a, b);
    }
}

static flx_val fold_axis(flxi_site *s, flx_val v, int64_t word, int k, const flxi_slide *m)
{
    flx_type t = *flxi_typeof(s, v);
    row r = row_of(s, v, k, m);
    flx_val blocks = as_blocks(s, v, &r);
    flx_val after = at_windows(s, running(s, blocks, word, false, true), &r, 0);
    flx_val before = at_windows(s, running(s, blocks, word, true, false), &r, r.window * r.dilation);
    return as_tensor(s, combined(s, word, after, before), t, k, &r);
}

flx_val flxi_window_fold_wide(flxi_site *s, flx_val x, flx_val init, int64_t word, const flxi_slide *m)
{
    int32_t dtype = flxi_typeof(s, x)->dtype;
    int rank = flxi_typeof(s, x)->rank;
    init = flxi_widen(s, init);
    flx_val v = flxi_pad_windows(s, flxi_widen(s, x), init, m);
    for (int k = rank; k-- > 0;)
        if (m[k].window != 1 || m[k].stride != 1)
            v = fold_axis(s, v, word, k, &m[k]);
    return flxi_as_dtype(s, combined(s, word, flxi_expand_like(s, init, flxi_typeof(s, v)), v), dtype);
}

/* ---- Positions of extrema ---- */

typedef struct {
    flx_val value, at;
} winner;

static flx_val is_nan(flxi_site *s, flx_val v)
{
    return flxi_in(FLXI_FLOATS, flxi_typeof(s, v)->dtype) ? flx_is_nan(s->g, v) : FLX_NONE;
}

/* Whether a candidate wins against what came later in its order, which it does where it is equal; NaN wins. */
static flx_val wins(flxi_site *s, flx_val v, flx_val later, bool largest)
{
    flx_val nan = is_nan(s, v);
    flx_val y = largest ? flx_ge(s->g, v, later) : flx_le(s->g, v, later);
    return flxi_is_none(nan) ? y : flx_or(s->g, y, nan);
}

/* Where in its block the first extremum from each position on is. */
static flx_val winner_after(flxi_site *s, flx_val v, bool largest)
{
    flx_graph *g = s->g;
    const flx_type *t = flxi_typeof(s, v);
    int64_t last = t->dims[1] - 1;
    flx_val position = flxi_positions_along(s, t, 1);
    flx_val later = running(s, v, largest ? FLXI_WINDOW_MAX : FLXI_WINDOW_MIN, true, true);
    flx_val kept = flx_where(g, wins(s, v, later, largest), position, flxi_number(s, position, (double)last));
    return flx_cummin(g, kept, 1, false, true);
}

/* And up to each position: the last one at which the extremum changed. */
static flx_val winner_before(flxi_site *s, flx_val v, bool largest)
{
    flx_graph *g = s->g;
    flx_val position = flxi_positions_along(s, flxi_typeof(s, v), 1);
    flx_val earlier = running(s, v, largest ? FLXI_WINDOW_MAX : FLXI_WINDOW_MIN, true, false);
    flx_val stays = wins(s, earlier, v, largest);
    return flx_cummax(g, flx_where(g, stays, flxi_number(s, position, 0.0), position), 1, false, false);
}

static winner winner_along(flxi_site *s, winner w, bool largest, int k, const flxi_slide *m)
{
    flx_graph *g = s->g;
    flx_type t = *flxi_typeof(s, w.value), at = *flxi_typeof(s, w.at);
    row r = row_of(s, w.value, k, m);
    flx_val v = as_blocks(s, w.value, &r), from = as_blocks(s, w.at, &r);
    flx_val after = winner_after(s, v, largest), before = winner_before(s, v, largest);
    int64_t end = (r.window - 1) * r.dilation;
    flx_val first = at_windows(s, flx_take_along(g, v, after, 1, NULL), &r, 0);
    flx_val second = at_windows(s, flx_take_along(g, v, before, 1, NULL), &r, end);
    flx_val keeps = wins(s, first, second, largest);
    flx_val first_at = at_windows(s, flx_take_along(g, from, after, 1, NULL), &r, 0);
    flx_val second_at = at_windows(s, flx_take_along(g, from, before, 1, NULL), &r, end);
    return (winner){as_tensor(s, flx_where(g, keeps, first, second), t, k, &r),
                    as_tensor(s, flx_where(g, keeps, first_at, second_at), at, k, &r)};
}

flx_val flxi_window_winner(flxi_site *s, flx_val x, flx_val padding, flx_val at, const flxi_slide *m, bool largest)
{
    int rank = flxi_typeof(s, x)->rank;
    winner w = {flxi_pad_windows(s, flxi_widen(s, x), flxi_widen(s, padding), m),
                flxi_pad_windows(s, at, flxi_number(s, at, -1.0), m)};
    for (int k = rank; k-- > 0;)
        if (m[k].window != 1 || m[k].stride != 1)
            w = winner_along(s, w, largest, k, &m[k]);
    return w.at;
}
