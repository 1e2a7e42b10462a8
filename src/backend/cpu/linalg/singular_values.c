/* SPDX-License-Identifier: Apache-2.0 */
/* singular_values.c: singular values and vectors of a square matrix: to bidiagonal form by reflections from both sides,
   half of whose work is products, then by implicit QR, without a shift where a shift would cost small singular values
   their accuracy (Demmel and Kahan 1990). Errors are some units of the norm, as in LAPACK. */
#include "backend/cpu/linalg/dense_work.h"
#include "base/host/stop.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    PANEL = 32,
    SMALL = 64,      /* up to this extent, the matrix is updated after each pair of reflections */
    MOST_STEPS = 60, /* for each singular value, on average; fewer than three are usual */
};

/* ---- To bidiagonal form ---- */

/* The matrix is a - Σ_p (l_p y_p^T + x_p r_p^T) over the reflections since `a` was last updated: l_p and r_p are rows
   of left.h and right.h. */
typedef struct {
    flxi_workspace *w;
    double *a;
    int64_t step, n;
    flxi_reflections left, right;
    double *xs, *ys; /* rows */
    double *c;       /* coefficients */
    double *d, *e;
} bidiagonal;

/* y[first..] -= Σ_p (c[p] a_p + c[PANEL + p] b_p)[first..] */
static void subtract(bidiagonal *t, double *y, const double *a, int64_t a_count, const double *b, int64_t b_count,
                     int64_t first)
{
    for (int64_t p = 0; p < a_count; p++)
        t->c[p] = -t->c[p];
    for (int64_t p = 0; p < b_count; p++)
        t->c[PANEL + p] = -t->c[PANEL + p];
    t->w->rows->combine(y + first, a + first, t->step, a_count, t->c, t->n - first);
    t->w->rows->combine(y + first, b + first, t->step, b_count, t->c + PANEL, t->n - first);
}

static void read_column(bidiagonal *t, const double *rows, int64_t count, int64_t j, double *c)
{
    for (int64_t p = 0; p < count; p++)
        c[p] = rows[p * t->step + j];
}

/* The reflection of column j, and y_j = tau A^T v. */
static void reflect_left(bidiagonal *t, int64_t from, int64_t j)
{
    const double *l = t->left.h + from * t->step, *r = t->right.h + from * t->step;
    int64_t done = j - from, count = t->n - j;
    double *v = t->left.h + j * t->step;
    double *y = t->ys + done * t->step;
    for (int64_t i = j; i < t->n; i++)
        v[i] = t->a[i * t->step + j];
    read_column(t, t->ys, done, j, t->c);
    read_column(t, r, done, j, t->c + PANEL);
    subtract(t, v, l, done, t->xs, done, j);
    memset(v, 0, (size_t)j * sizeof *v);
    t->d[j] = flxi_reflect_row(t->w->rows, v + j, count, &t->left.tau[j]);
    memset(y, 0, (size_t)t->step * sizeof *y);
    if (count == 1)
        return;
    flxi_rows_combine(t->w, y + j + 1, t->a + j * t->step + j + 1, t->step, count, v + j, count - 1);
    t->w->rows->dots(l + j, t->step, done, v + j, count, t->c);
    t->w->rows->dots(t->xs + j, t->step, done, v + j, count, t->c + PANEL);
    subtract(t, y, t->ys, done, r, done, j + 1);
    for (int64_t i = j + 1; i < t->n; i++)
        y[i] *= t->left.tau[j];
}

/* The reflection of row j, and x_j = tau A u. */
static void reflect_right(bidiagonal *t, int64_t from, int64_t j)
{
    const double *l = t->left.h + from * t->step, *r = t->right.h + from * t->step;
    int64_t done = j - from, first = j + 1, count = t->n - first;
    double *u = t->right.h + j * t->step;
    double *x = t->xs + done * t->step;
    memset(u, 0, (size_t)t->step * sizeof *u);
    memset(x, 0, (size_t)t->step * sizeof *x);
    t->right.tau[j] = 0;
    t->e[j] = 0;
    if (count == 0)
        return;
    memcpy(u + first, t->a + j * t->step + first, (size_t)count * sizeof *u);
    read_column(t, l, done + 1, j, t->c);
    read_column(t, t->xs, done, j, t->c + PANEL);
    subtract(t, u, t->ys, done + 1, r, done, first);
    t->e[j] = flxi_reflect_row(t->w->rows, u + first, count, &t->right.tau[j]);
    flxi_rows_dots(t->w, t->a + first * (t->step + 1), t->step, count, u + first, count, x + first);
    t->w->rows->dots(t->ys + first, t->step, done + 1, u + first, count, t->c);
    t->w->rows->dots(r + first, t->step, done, u + first, count, t->c + PANEL);
    subtract(t, x, l, done + 1, t->xs, done, first);
    for (int64_t i = first; i < t->n; i++)
        x[i] *= t->right.tau[j];
}

static void negate_rows(bidiagonal *t, double *rows, int64_t count)
{
    for (int64_t i = 0; i < count * t->step; i++)
        rows[i] = -rows[i];
}

/* a -= Σ_p (l_p y_p^T + x_p r_p^T) from row and column `end` on. */
static void update_matrix(bidiagonal *t, int64_t from, int64_t end)
{
    flxi_workspace *w = t->w;
    int64_t rest = t->n - end, count = end - from;
    bool counts = flxi_space_counts(w);
    if (rest <= 0)
        return;
    double *a = counts ? NULL : t->a + end * (t->step + 1);
    double *l = counts ? NULL : t->left.h + from * t->step + end;
    double *r = counts ? NULL : t->right.h + from * t->step + end;
    double *x = counts ? NULL : t->xs + end;
    double *y = counts ? NULL : t->ys + end;
    if (!counts) {
        negate_rows(t, t->xs, count);
        negate_rows(t, t->ys, count);
    }
    if (count == 1 && !counts) {
        w->rows->spread(a, t->step, rest, l, y, rest);
        w->rows->spread(a, t->step, rest, x, r, rest);
        return;
    }
    flxi_part to = {a, t->step, 1};
    flxi_multiply(w, to, (flxi_part){l, 1, t->step}, (flxi_part){y, t->step, 1}, rest, rest, count, true);
    flxi_multiply(w, to, (flxi_part){x, 1, t->step}, (flxi_part){r, t->step, 1}, rest, rest, count, true);
}

static void reduce(bidiagonal *t, int64_t size)
{
    for (int64_t k = 0; k < t->n && !flxi_stopped(); k += size) {
        int64_t end = k + size < t->n ? k + size : t->n;
        for (int64_t j = k; j < end && !flxi_space_counts(t->w) && !flxi_stopped(); j++) {
            reflect_left(t, k, j);
            reflect_right(t, k, j);
        }
        update_matrix(t, k, end);
    }
}

/* ---- Implicit QR of an upper bidiagonal matrix ----

   An unreduced block is swept from its larger end to its smaller one. From the last row to the first, this is the same
   for the transposed matrix with positions reversed, where left and right change places. */

typedef struct {
    double *d, *e;
    int64_t low, high;
    bool down; /* from low to high */
    double *left, *right;
} qr_block;

static double *diagonal(const qr_block *b, int64_t i)
{
    return b->d + (b->down ? b->low + i : b->high - i);
}

static double *off(const qr_block *b, int64_t i)
{
    return b->e + (b->down ? b->low + i : b->high - i - 1);
}

typedef struct {
    double c, s, r;
} rotation;

static rotation rotation_of(double f, double g)
{
    if (g == 0)
        return (rotation){1, 0, f};
    double r = flxi_hypotenuse(f, g);
    return (rotation){f / r, g / r, r};
}

static void set_turn(double *turns, int64_t i, rotation t)
{
    turns[2 * i] = t.c;
    turns[2 * i + 1] = t.s;
}

static void sweep_shifted(const qr_block *b, int64_t last, double shift)
{
    double d0 = *diagonal(b, 0);
    double f = (fabs(d0) - shift) * (copysign(1, d0) + shift / d0);
    double g = *off(b, 0);
    for (int64_t i = 0; i < last; i++) {
        double *here = diagonal(b, i), *next = diagonal(b, i + 1), *e = off(b, i);
        rotation right = rotation_of(f, g);
        if (i > 0)
            *off(b, i - 1) = right.r;
        f = right.c * *here + right.s * *e;
        *e = right.c * *e - right.s * *here;
        g = right.s * *next;
        *next *= right.c;
        rotation left = rotation_of(f, g);
        *here = left.r;
        f = left.c * *e + left.s * *next;
        *next = left.c * *next - left.s * *e;
        if (i + 1 < last) {
            g = left.s * *off(b, i + 1);
            *off(b, i + 1) *= left.c;
        }
        set_turn(b->right, i, right);
        set_turn(b->left, i, left);
    }
    *off(b, last - 1) = f;
}

static void sweep_unshifted(const qr_block *b, int64_t last)
{
    double c = 1;
    rotation before = {1, 0, 0};
    for (int64_t i = 0; i < last; i++) {
        rotation right = rotation_of(*diagonal(b, i) * c, *off(b, i));
        if (i > 0)
            *off(b, i - 1) = before.s * right.r;
        before = rotation_of(before.c * right.r, *diagonal(b, i + 1) * right.s);
        *diagonal(b, i) = before.r;
        c = right.c;
        set_turn(b->right, i, right);
        set_turn(b->left, i, before);
    }
    double h = *diagonal(b, last) * c;
    *diagonal(b, last) = h * before.c;
    *off(b, last - 1) = h * before.s;
}

/* The smaller singular value of [[f, g], [0, h]]. */
static double smaller_value(double f, double g, double h)
{
    double low = fmin(fabs(f), fabs(h)), high = fmax(fabs(f), fabs(h));
    g = fabs(g);
    if (low == 0)
        return 0;
    double most = fmax(high, g);
    double p = (low + high) / most, m = (high - low) / most, q = g / most;
    double sum = sqrt(p * p + q * q) + sqrt(m * m + q * q); /* twice the larger value, over `most` */
    return 2 * (low / most) * (high / sum);
}

static const double tolerance = 20 * 0x1p-53;

/* Sets to 0 what is negligible beside what the diagonal lets through, and estimates the smallest singular value. False:
   something was. */
static bool settle(const qr_block *b, int64_t last, double *smallest)
{
    double mu = fabs(*diagonal(b, 0));
    if (fabs(*off(b, last - 1)) <= tolerance * fabs(*diagonal(b, last))) {
        *off(b, last - 1) = 0;
        return false;
    }
    *smallest = mu;
    for (int64_t i = 0; i < last; i++) {
        double *e = off(b, i);
        if (fabs(*e) <= tolerance * mu) {
            *e = 0;
            return false;
        }
        mu = fabs(*diagonal(b, i + 1)) * (mu / (mu + fabs(*e)));
        *smallest = fmin(*smallest, mu);
    }
    return true;
}

static void qr_step(qr_block *b, double largest, double smallest, int64_t n)
{
    int64_t last = b->high - b->low;
    double first = fabs(*diagonal(b, 0));
    double shift = smaller_value(*diagonal(b, last - 1), *off(b, last - 1), *diagonal(b, last));
    bool is_small = (double)n * tolerance * (smallest / largest) <= 0x1p-53;
    if (is_small || first == 0 || (shift / first) * (shift / first) < 0x1p-53)
        sweep_unshifted(b, last);
    else
        sweep_shifted(b, last, shift);
}

static double largest_of(const double *d, const double *e, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fmax(fabs(d[i]), i + 1 < n ? fabs(e[i]) : 0));
    return most;
}

/* Whether nothing connects rows i and i + 1. */
static bool is_cut(const double *e, int64_t i, double least)
{
    return fabs(e[i]) <= least;
}

static bool iterate(flxi_workspace *w, double *d, double *e, int64_t n, flxi_rotations *u, flxi_rotations *v)
{
    double largest = largest_of(d, e, n);
    double least = largest * 0x1p-900;
    int64_t steps = 0;
    for (int64_t high = n - 1; high > 0 && !flxi_stopped();) {
        if (is_cut(e, high - 1, least)) {
            e[--high] = 0;
            continue;
        }
        int64_t low = high - 1;
        double block = fmax(fmax(fabs(d[high]), fabs(e[low])), fabs(d[low]));
        while (low > 0 && !is_cut(e, low - 1, least)) {
            low--;
            block = fmax(block, fmax(fabs(d[low]), fabs(e[low])));
        }
        if (++steps > MOST_STEPS * n)
            return false;
        qr_block b = {.d = d, .e = e, .low = low, .high = high, .down = fabs(d[low]) >= fabs(d[high])};
        double smallest = 0;
        if (!settle(&b, high - low, &smallest))
            continue;
        int64_t row = b.down ? low : high, count = high - low;
        b.left = flxi_sweep_begin(w, b.down ? u : v, row, count, b.down);
        b.right = flxi_sweep_begin(w, b.down ? v : u, row, count, b.down);
        qr_step(&b, block, smallest, n);
    }
    flxi_rotations_apply(w, u);
    flxi_rotations_apply(w, v);
    return true;
}

static flxi_reflections reflections_for(flxi_workspace *w, int64_t step, int64_t n, int64_t shift)
{
    flxi_reflections r = {.step = step, .count = n - shift, .width = n, .shift = shift};
    r.h = flxi_take_numbers(w, n * step);
    r.tau = flxi_take_numbers(w, n);
    return r;
}

/* Makes the matrix bidiagonal: d and the e of t. */
static void begin(bidiagonal *t, int64_t size)
{
    flxi_workspace *w = t->w;
    t->e = flxi_take_numbers(w, t->n);
    t->c = flxi_take_numbers(w, 2 * PANEL);
    t->left = reflections_for(w, t->step, t->n, 0);
    t->right = reflections_for(w, t->step, t->n, 1);
    t->xs = flxi_take_numbers(w, size * t->step);
    t->ys = flxi_take_numbers(w, size * t->step);
    reduce(t, size);
}

bool flxi_square_singular_values(flxi_workspace *w, double *a, int64_t step, int64_t n, double *d)
{
    size_t used = w->used;
    bidiagonal t = {.w = w, .a = a, .step = step, .n = n, .d = d};
    begin(&t, n <= SMALL ? 1 : PANEL);
    flxi_rotations on_u = flxi_rotations_for(w, NULL, step, n);
    flxi_rotations on_v = flxi_rotations_for(w, NULL, step, n);
    bool is_done = flxi_space_counts(w) || iterate(w, d, t.e, n, &on_u, &on_v);
    for (int64_t i = 0; i < n && !flxi_space_counts(w); i++)
        d[i] = fabs(d[i]);
    w->used = used;
    return is_done;
}

bool flxi_square_singular(flxi_workspace *w, double *a, int64_t step, int64_t n, double *u, double *d, double *v)
{
    size_t used = w->used;
    bidiagonal t = {.w = w, .a = a, .step = step, .n = n, .d = d};
    begin(&t, n <= SMALL ? 1 : PANEL);
    flxi_reflections_product(w, &t.left, u, step, n);
    flxi_reflections_product(w, &t.right, v, step, n);
    flxi_rotations on_u = flxi_rotations_for(w, u, step, n);
    flxi_rotations on_v = flxi_rotations_for(w, v, step, n);
    bool is_done = flxi_space_counts(w) || iterate(w, d, t.e, n, &on_u, &on_v);
    for (int64_t i = 0; i < n && !flxi_space_counts(w); i++)
        if (signbit(d[i])) {
            d[i] = -d[i];
            for (int64_t k = 0; k < n; k++)
                v[i * step + k] = -v[i * step + k];
        }
    w->used = used;
    return is_done;
}
