/* SPDX-License-Identifier: Apache-2.0 */
/* express_window.c: see express_window.h. Positions are u32 and wrap below 0, so that one comparison checks both
   ends. */
#include "ops/express/express_window.h"

enum { MOST_TAPS = 64 };

/* Positions of windows' first taps, from the first window to the last. */
static int64_t travel(const flxi_windows *w, int axis)
{
    return (w->count[axis] > 0 ? w->count[axis] - 1 : 0) * w->axis[axis].stride;
}

bool flxi_kwindow_expresses(const flxi_windows *w)
{
    const int64_t most = INT32_MAX / 4;
    int64_t taps = 1;
    for (int k = 0; k < w->rank; k++) {
        const flxi_slide *s = &w->axis[k];
        if (s->window > MOST_TAPS || (taps *= s->window) > MOST_TAPS)
            return false;
        if (s->extent > most / s->base_dilation || s->low > most || s->low < -most || s->high > most ||
            s->dilation > most / MOST_TAPS)
            return false;
    }
    return true;
}

static uint32_t both(flxi_express *e, uint32_t a, uint32_t b)
{
    return a && b ? flxi_k2(e, KBIN_logical_and, a, b) : a ? a : b;
}

/* Each axis is guarded by its own condition: all but the last one are then the same for a whole vector. */
static void along_axis(flxi_express *e, const flxi_windows *w, int axis, uint32_t o, int64_t k, flxi_ktap *t)
{
    const flxi_slide *s = &w->axis[axis];
    int64_t shift = k * s->dilation - s->low;
    int64_t last = travel(w, axis) + shift;
    int64_t end = s->extent * s->base_dilation;
    t->never |= last < 0 || shift >= end || end == 0;
    uint32_t from = flxi_ku_mul(e, o, s->stride);
    uint32_t at = flxi_ku_add(e, from, flxi_ku(e, shift));
    uint32_t inside = 0;
    if (shift < 0 || last >= end)
        inside = flxi_k2(e, KBIN_lt, at, flxi_ku(e, end));
    if (s->base_dilation > 1)
        inside = both(e, inside, flxi_k2(e, KBIN_eq, flxi_ku_mod(e, at, s->base_dilation), flxi_ku(e, 0)));
    t->at.dim[axis] = flxi_ku_div(e, at, s->base_dilation);
    if (!inside)
        return;
    inside = flxi_khold(e, inside);
    t->at.dim[axis] = flxi_ku_guarded(e, inside, t->at.dim[axis]);
    t->inside = both(e, t->inside, inside);
}

flxi_ktap flxi_kwindow_tap(flxi_express *e, const flxi_windows *w, const flxi_kindex *o, const int64_t *k)
{
    flxi_ktap t = {.never = false};
    for (int axis = 0; axis < w->rank; axis++)
        along_axis(e, w, axis, o->dim[axis], k[axis], &t);
    t.inside = t.inside ? flxi_khold(e, t.inside) : 0;
    return t;
}
