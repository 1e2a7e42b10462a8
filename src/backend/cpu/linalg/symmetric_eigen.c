/* SPDX-License-Identifier: Apache-2.0 */
/* symmetric_eigen.c: eigenvalues and eigenvectors of a symmetric matrix: to tridiagonal form by reflections, half of
   whose work is products, then by implicit QL with the shift of Wilkinson, whose rotations are applied to the product
   of the reflections. Errors are some units of the norm, as in LAPACK. */
#include "backend/cpu/linalg/dense_work.h"
#include "base/host/stop.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    PANEL = 32,
    SMALL = 64,      /* up to this extent, the matrix is updated after each reflection */
    MOST_STEPS = 60, /* for each eigenvalue, on average; fewer than three are usual */
};

/* ---- To tridiagonal form ---- */

/* The matrix is a - Σ_p (v_p w_p^T + w_p v_p^T) over the reflections since `a` was last updated; v_p are rows of h. */
typedef struct {
    flxi_workspace *w;
    double *a;
    int64_t step, n;
    flxi_reflections r;
    double *ws, *c; /* rows w_p; coefficients */
    double *d, *e;
} tridiagonal;

/* y -= Σ_p (w_p at[v_p] + v_p at[w_p]) for `count` reflections from `from` on, elements from `first` on. */
static void subtract_pairs(tridiagonal *t, double *y, int64_t from, int64_t count, int64_t first)
{
    const double *v = t->r.h + from * t->step + first;
    t->w->rows->combine(y, v, t->step, count, t->c, t->n - first);
    t->w->rows->combine(y, t->ws + first, t->step, count, t->c + PANEL, t->n - first);
}

/* Row j as it is now, to y[j..]. */
static void current_row(tridiagonal *t, int64_t from, int64_t j, double *y)
{
    memcpy(y + j, t->a + j * t->step + j, (size_t)(t->n - j) * sizeof *y);
    for (int64_t p = 0; p < j - from; p++) {
        t->c[p] = -t->ws[p * t->step + j];
        t->c[PANEL + p] = -t->r.h[(from + p) * t->step + j];
    }
    subtract_pairs(t, y + j, from, j - from, j);
}

/* w = tau (A v - ...), minus the multiple of v that makes the update symmetric. */
static void find_pair(tridiagonal *t, int64_t from, int64_t j)
{
    int64_t first = j + 1, count = t->n - first;
    const double *v = t->r.h + j * t->step + first;
    double *y = t->ws + (j - from) * t->step;
    double tau = t->r.tau[j];
    memset(y, 0, (size_t)first * sizeof *y);
    flxi_rows_dots(t->w, t->a + first * (t->step + 1), t->step, count, v, count, y + first);
    t->w->rows->dots(t->ws + first, t->step, j - from, v, count, t->c);
    t->w->rows->dots(t->r.h + from * t->step + first, t->step, j - from, v, count, t->c + PANEL);
    for (int64_t p = 0; p < j - from; p++) {
        t->c[p] = -t->c[p];
        t->c[PANEL + p] = -t->c[PANEL + p];
    }
    subtract_pairs(t, y + first, from, j - from, first);
    double along;
    for (int64_t i = first; i < t->n; i++)
        y[i] *= tau;
    t->w->rows->dots(y + first, 0, 1, v, count, &along);
    t->w->rows->combine(y + first, v, 0, 1, &(double){-0.5 * tau * along}, count);
}

static void reduce_panel(tridiagonal *t, int64_t from, int64_t end)
{
    for (int64_t j = from; j < end && !flxi_stopped(); j++) {
        double *v = t->r.h + j * t->step;
        current_row(t, from, j, v);
        t->d[j] = v[j];
        memset(v, 0, (size_t)(j + 1) * sizeof *v);
        t->r.tau[j] = 0;
        t->e[j] = 0;
        if (j + 1 == t->n)
            break;
        t->e[j] = flxi_reflect_row(t->w->rows, v + j + 1, t->n - j - 1, &t->r.tau[j]);
        find_pair(t, from, j);
    }
}

/* a -= Σ_p (v_p w_p^T + w_p v_p^T) from row and column `end` on. */
static void update_matrix(tridiagonal *t, int64_t from, int64_t end)
{
    flxi_workspace *w = t->w;
    int64_t rest = t->n - end;
    bool counts = flxi_space_counts(w);
    double *a = counts ? NULL : t->a + end * (t->step + 1);
    double *v = counts ? NULL : t->r.h + from * t->step + end;
    double *x = counts ? NULL : t->ws + end;
    if (rest <= 0)
        return;
    for (int64_t p = 0; p < end - from && !counts; p++)
        for (int64_t i = 0; i < rest; i++)
            x[p * t->step + i] = -x[p * t->step + i];
    if (end - from == 1 && !counts) {
        w->rows->spread(a, t->step, rest, x, v, rest);
        w->rows->spread(a, t->step, rest, v, x, rest);
        return;
    }
    flxi_part to = {a, t->step, 1};
    flxi_multiply(w, to, (flxi_part){v, 1, t->step}, (flxi_part){x, t->step, 1}, rest, rest, end - from, true);
    flxi_multiply(w, to, (flxi_part){x, 1, t->step}, (flxi_part){v, t->step, 1}, rest, rest, end - from, true);
}

/* ---- Implicit QL ----

   Positions count from either end: the end with the smaller element is found first, so that large elements do not
   drown small ones (as in steqr of LAPACK). */

typedef struct {
    double *d, *e;
    int64_t low, high; /* an unreduced block */
    bool down;         /* positions count up from low; else down from high */
} ql_block;

static int64_t at(const ql_block *b, int64_t i)
{
    return b->down ? b->low + i : b->high - i;
}

/* The element between positions i and i + 1. */
static double *off(const ql_block *b, int64_t i)
{
    return b->e + (b->down ? b->low + i : b->high - i - 1);
}

static bool is_negligible(const double *d, const double *e, int64_t i)
{
    return fabs(e[i]) <= 0x1p-53 * (fabs(d[i]) + fabs(d[i + 1])) || fabs(e[i]) < 0x1p-1000;
}

/* One step from the last position to the first. */
static void ql_step(flxi_workspace *w, const ql_block *b, flxi_rotations *z)
{
    double *d = b->d;
    int64_t last = b->high - b->low;
    double e0 = *off(b, 0);
    double g = (d[at(b, 1)] - d[at(b, 0)]) / (2 * e0);
    double s = 1, c = 1, p = 0;
    double *turns = flxi_sweep_begin(w, z, at(b, last), last, !b->down);
    g = d[at(b, last)] - d[at(b, 0)] + e0 / (g + copysign(flxi_hypotenuse(g, 1), g));
    for (int64_t i = last - 1; i >= 0; i--, turns += 2) {
        double between = *off(b, i);
        double f = s * between, h = c * between;
        double r = flxi_hypotenuse(f, g);
        if (i + 1 < last)
            *off(b, i + 1) = r;
        s = r > 0 ? f / r : 0;
        c = r > 0 ? g / r : 1;
        g = d[at(b, i + 1)] - p;
        r = (d[at(b, i)] - g) * s + 2 * c * h;
        p = s * r;
        d[at(b, i + 1)] = g + p;
        g = c * r - h;
        turns[0] = c;
        turns[1] = s;
    }
    d[at(b, 0)] -= p;
    *off(b, 0) = g;
}

/* Blocks from the last to the first. */
static bool iterate(flxi_workspace *w, double *d, double *e, int64_t n, flxi_rotations *z)
{
    int64_t steps = 0;
    for (int64_t high = n - 1; high > 0 && !flxi_stopped();) {
        if (is_negligible(d, e, high - 1)) {
            e[--high] = 0;
            continue;
        }
        int64_t low = high - 1;
        while (low > 0 && !is_negligible(d, e, low - 1))
            low--;
        if (++steps > MOST_STEPS * n)
            return false;
        ql_block b = {d, e, low, high, fabs(d[low]) <= fabs(d[high])};
        ql_step(w, &b, z);
    }
    flxi_rotations_apply(w, z);
    return true;
}

bool flxi_symmetric_eigen(flxi_workspace *w, double *a, int64_t step, int64_t n, double *d)
{
    size_t used = w->used;
    tridiagonal t = {.w = w, .a = a, .step = step, .n = n, .d = d};
    int64_t size = n <= SMALL ? 1 : PANEL;
    t.e = flxi_take_numbers(w, n);
    t.c = flxi_take_numbers(w, 2 * PANEL);
    t.r = (flxi_reflections){.step = step, .count = n - 1, .width = n, .shift = 1};
    t.r.h = flxi_take_numbers(w, n * step);
    t.r.tau = flxi_take_numbers(w, n);
    t.ws = flxi_take_numbers(w, size * step);
    for (int64_t k = 0; k < n && !flxi_stopped(); k += size) {
        int64_t end = k + size < n ? k + size : n;
        if (!flxi_space_counts(w))
            reduce_panel(&t, k, end);
        update_matrix(&t, k, end);
    }
    flxi_reflections_product(w, &t.r, a, step, n);
    flxi_rotations z = flxi_rotations_for(w, a, step, n);
    bool is_done = flxi_space_counts(w) || iterate(w, d, t.e, n, &z);
    w->used = used;
    return is_done;
}
