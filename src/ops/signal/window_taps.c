/* SPDX-License-Identifier: Apache-2.0 */
/* window_taps.c: folds by a graph over wide windows that overlap. A graph is not known to be associative, so windows
   have no parts in common, and copies of them would take as many times the memory as a window has elements. Instead
   all windows are folded together, one tap after the other in row-major order: step t of a scan applies the graph to
   what each window has so far and to its element t, which for all windows together is a slice of x. */
#include "ops/control/control.h"
#include "ops/reduce/reduction.h"
#include "ops/rule/rule_lists.h"
#include "ops/signal/window.h"

typedef struct {
    const flxi_slide *m;
    int rank;
    flx_dim count[FLX_MAX_RANK]; /* of windows along each axis */
    flx_dim windows;             /* all of them */
    int64_t taps;
} taps_plan;

static taps_plan plan_taps(flxi_site *s, const flxi_slide *m)
{
    taps_plan p = {.m = m, .rank = flxi_typeof(s, s->x[0])->rank, .taps = 1};
    for (int k = 0; k < p.rank; k++) {
        p.count[k] = flxi_window_count(s->ctx, &m[k]);
        p.taps *= m[k].window;
    }
    p.windows = flxi_extents_product(s->ctx, p.count, p.rank);
    return p;
}

/* Windows are moderate: their extents have few bits. */
static flx_val exact(flx_graph *g, int64_t value)
{
    return flx_scalar(g, FLX_I64, (double)value);
}

/* Element `tap` of every window of x, which is padded: [windows]. */
static flx_val elements_at(flx_graph *g, flx_val x, flx_val tap, const taps_plan *p)
{
    flx_val operands[1 + FLX_MAX_RANK] = {x};
    int64_t first[FLX_MAX_RANK] = {0}, stride[FLX_MAX_RANK], reach[FLX_MAX_RANK];
    bool is_strided = false;
    for (int k = p->rank; k-- > 0;) {
        flx_val length = exact(g, p->m[k].window);
        operands[1 + k] = flx_mul(g, flx_rem(g, tap, length), exact(g, p->m[k].dilation));
        tap = flx_div(g, tap, length);
        stride[k] = p->m[k].stride;
        is_strided |= stride[k] != 1;
        reach[k] = stride[k] == 1 ? p->count[k] : (p->count[k] - 1) * stride[k] + 1;
    }
    const flx_ints sizes = {reach, (size_t)p->rank};
    flx_val v = flx_dynamic_slice(g, operands, (size_t)p->rank + 1, .sizes = sizes);
    if (is_strided)
        v = flx_slice(g, v, (flx_ints){first, sizes.n}, sizes, (flx_ints){stride, sizes.n});
    return flx_reshape(g, v, (flx_ints){&p->windows, 1});
}

/* The combining graph on all windows at once: (folds..., elements...) to folds. */
static flx_graph *combine_windows(flxi_site *s, const flx_graph *combine, const taps_plan *p)
{
    flxi_site inner = *s;
    bool *all = flxi_rule_new(s, bool, s->nin + s->nout);
    if (!all)
        return NULL;
    memset(all, true, (size_t)s->nin + s->nout);
    inner.size = p->windows;
    return s->bodies->vmap(&inner, combine, all, all + s->nin, true);
}

/* (folds..., padded arrays..., tap) to folds. */
static flx_graph *step_of(flxi_site *s, const flx_graph *combine, const flx_val *padded, const taps_plan *p)
{
    const flx_type number = {.dtype = FLX_I64};
    uint32_t n = s->nout;
    flx_val *in = flxi_rule_new(s, flx_val, 3 * (size_t)n);
    flx_graph *rows = in ? combine_windows(s, combine, p) : NULL;
    flx_graph *g = rows ? flxi_new_body(s, "tap") : NULL;
    for (uint32_t i = 0; g && i < n; i++) {
        const flx_type fold = flx_type_make((flx_dtype)flxi_typeof(s, s->x[i])->dtype, 1, &p->windows);
        in[i] = flxi_declare(g, 'c', &fold);
    }
    for (uint32_t i = 0; g && i < n; i++)
        in[n + i] = flxi_declare(g, 'x', flxi_typeof(s, padded[i]));
    flx_val tap = g ? flxi_declare(g, 't', &number) : FLX_NONE;
    for (uint32_t i = 0; g && i < n; i++)
        in[n + i] = elements_at(g, in[n + i], tap, p);
    if (g)
        flxi_inline_or_call(g, rows, FLXI_INLINE_TOGETHER, in, in + 2 * (size_t)n);
    for (uint32_t i = 0; g && i < n; i++)
        flx_output(g, in[2 * n + i], NULL);
    flx_graph_release(rows);
    return g ? flxi_finish_body(s, g) : NULL;
}

void flxi_window_fold_taps(flxi_site *s, const flx_graph *combine, const flxi_slide *m, flx_val *y)
{
    taps_plan p = plan_taps(s, m);
    uint32_t n = s->nout;
    flx_val *in = flxi_rule_new(s, flx_val, 2 * (size_t)n + 1);
    if (!in)
        return;
    for (uint32_t i = 0; i < n; i++) {
        in[i] = flxi_expand_to(s, s->x[n + i], 1, &p.windows);
        in[n + i] = flxi_pad_windows(s, s->x[i], s->x[n + i], m);
    }
    flx_type line = flx_type_make(FLX_I64, 1, &p.taps);
    in[2 * n] = flx_iota(s->g, &line, 0);
    flx_graph *step = step_of(s, combine, in + n, &p);
    flx_scan_attrs a = FLX_SCAN_ATTRS;
    a.body = step;
    a.num_carry = n;
    a.num_bcast = n;
    if (step)
        flx_scan_with(s->g, in, 2 * (size_t)n + 1, y, n, &a);
    for (uint32_t i = 0; step && i < n; i++)
        y[i] = flxi_reshape_to(s, y[i], p.rank, p.count);
    flx_graph_release(step);
}
