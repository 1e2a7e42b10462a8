/* SPDX-License-Identifier: Apache-2.0 */
/* reflect.c: Householder reflections of dense_work.h, in blocks: several of them are 1 - V T V^T with a small triangle
   T (Schreiber and Van Loan 1989), which is applied by three products. */
#include "backend/cpu/linalg/dense_work.h"
#include "base/host/stop.h"

#include <math.h>
#include <string.h>

enum {
    BLOCK = 32,
    SMALL = 64 /* up to this extent, reflections are applied one by one */
};

static double largest_of(const double *x, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fabs(x[i]) > most ? fabs(x[i]) : most;
    return most;
}

static void scale_by(double *x, int64_t count, int exponent)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = ldexp(x[i], exponent);
}

/* beta has the sign opposite to x[0], so that x[0] - beta does not cancel. */
double flxi_reflect_row(const flxi_row_kernels *k, double *x, int64_t count, double *tau)
{
    double square = 0;
    int exponent = 0;
    *tau = 0;
    if (count > 1)
        k->dots(x + 1, 0, 1, x + 1, count - 1, &square);
    if (square + x[0] * x[0] < 0x1p-900) { /* squares underflow: the same for a larger vector */
        frexp(largest_of(x, count), &exponent);
        scale_by(x, count, -exponent);
        if (count > 1)
            k->dots(x + 1, 0, 1, x + 1, count - 1, &square);
    }
    double beta = x[0];
    if (square != 0) {
        beta = -copysign(sqrt(x[0] * x[0] + square), x[0]);
        double head = x[0] - beta;
        *tau = -head / beta;
        for (int64_t i = 1; i < count; i++)
            x[i] /= head;
    }
    x[0] = 1;
    return ldexp(beta, exponent);
}

/* ---- Blocks ---- */

/* Reflections [from, from + count): their vectors, from the first element that is not zero on. */
typedef struct {
    flxi_part v; /* rows */
    int64_t count, width;
    double *t; /* [count, count], the triangle with its sign changed */
} block;

/* H_0 H_1 ... = 1 - V T V^T, where column i of T is -tau_i T (V^T v_i) above the diagonal and tau_i on it. */
static block block_of(flxi_workspace *w, const flxi_reflections *r, int64_t from, int64_t count, double *t)
{
    int64_t first = from + r->shift;
    block b = {{NULL, r->step, 1}, count, r->width - first, t};
    double along[BLOCK];
    if (flxi_space_counts(w))
        return b;
    b.v.at = r->h + from * r->step + first;
    for (int64_t i = 0; i < count; i++) {
        double tau = r->tau[from + i];
        w->rows->dots(b.v.at, r->step, i, b.v.at + i * r->step, b.width, along);
        for (int64_t k = 0; k < count; k++)
            t[k * count + i] = 0;
        for (int64_t k = 0; k < i; k++)
            for (int64_t l = k; l < i; l++)
                t[k * count + i] -= tau * t[k * count + l] * along[l];
        t[i * count + i] = -tau;
    }
    return b;
}

/* z [rows, width] -= (z V) T V^T, or with T^T; y has room for 2 rows * count numbers. */
static void apply_block(flxi_workspace *w, const block *b, flxi_part z, int64_t rows, bool transposed, double *y)
{
    double *turned = y ? y + rows * b->count : NULL;
    flxi_part first = {y, b->count, 1};
    flxi_part second = {turned, b->count, 1};
    flxi_part t = {b->t, transposed ? 1 : b->count, transposed ? b->count : 1};
    flxi_part columns = {b->v.at, 1, b->v.row};
    flxi_multiply(w, first, z, columns, rows, b->count, b->width, false);
    flxi_multiply(w, second, first, t, rows, b->count, b->count, false);
    flxi_multiply(w, z, second, b->v, rows, b->width, b->count, true);
}

static void reflect_rows(flxi_workspace *w, const double *v, double tau, double *z, int64_t step, int64_t rows,
                         int64_t width, double *y)
{
    if (tau == 0 || rows == 0)
        return;
    flxi_rows_dots(w, z, step, rows, v, width, y);
    for (int64_t i = 0; i < rows; i++)
        y[i] *= -tau;
    w->rows->spread(z, step, rows, y, v, width);
}

static void set_identity(double *z, int64_t step, int64_t rows, int64_t width)
{
    for (int64_t i = 0; i < rows && !flxi_stopped(); i++) {
        memset(z + i * step, 0, (size_t)step * sizeof *z);
        if (i < width)
            z[i * step + i] = 1;
    }
}

/* Last to first: what is done so far is 1 in the rows and columns before the block. */
void flxi_reflections_product(flxi_workspace *w, const flxi_reflections *r, double *z, int64_t step, int64_t rows)
{
    size_t used = w->used;
    double *y = flxi_take_numbers(w, 2 * rows * BLOCK);
    double *t = flxi_take_numbers(w, BLOCK * BLOCK);
    if (!flxi_space_counts(w))
        set_identity(z, step, rows, r->width);
    bool is_small = r->width <= SMALL;
    int64_t size = is_small ? 1 : BLOCK;
    for (int64_t k = (r->count - 1) / size * size; k >= 0 && r->count > 0 && !flxi_stopped(); k -= size) {
        int64_t count = k + size < r->count ? size : r->count - k;
        int64_t first = k + r->shift;
        flxi_part rest = {flxi_space_counts(w) ? NULL : z + first * (step + 1), step, 1};
        if (!is_small) {
            block b = block_of(w, r, k, count, t);
            apply_block(w, &b, rest, rows - first, true, y);
        } else if (!flxi_space_counts(w)) {
            reflect_rows(w, r->h + k * r->step + first, r->tau[k], rest.at, step, rows - first, r->width - first, y);
        }
    }
    w->used = used;
}

/* ---- QR ---- */

/* Columns [from, to) of a matrix whose columns are the rows of a[.., m]; reflections are applied to those up to
   `reach`. */
typedef struct {
    double *a;
    int64_t step, m, from, to, reach;
} panel;

/* Each column's reflection, applied to those after it. */
static void factor_panel(flxi_workspace *w, const panel *p, const flxi_reflections *r, double *y)
{
    double *a = p->a;
    int64_t step = p->step, m = p->m;
    for (int64_t j = p->from; j < p->to && !flxi_stopped(); j++) {
        double *v = r->h + j * r->step;
        memset(v, 0, (size_t)j * sizeof *v);
        memcpy(v + j, a + j * step + j, (size_t)(m - j) * sizeof *v);
        double beta = flxi_reflect_row(w->rows, v + j, m - j, &r->tau[j]);
        memset(a + j * step + j, 0, (size_t)(m - j) * sizeof *a);
        a[j * step + j] = beta;
        reflect_rows(w, v + j, r->tau[j], a + (j + 1) * step + j, step, p->reach - j - 1, m - j, y);
    }
}

void flxi_reflect_columns(flxi_workspace *w, double *a, int64_t step, int64_t m, int64_t n, const flxi_reflections *r)
{
    size_t used = w->used;
    double *y = flxi_take_numbers(w, 2 * n * BLOCK);
    double *t = flxi_take_numbers(w, BLOCK * BLOCK);
    int64_t size = n <= SMALL / 2 ? SMALL : BLOCK;
    for (int64_t k = 0; k < r->count && !flxi_stopped(); k += size) {
        int64_t end = k + size < r->count ? k + size : r->count;
        bool is_all = size > BLOCK; /* few columns: all are the panel */
        if (!flxi_space_counts(w))
            factor_panel(w, &(panel){a, step, m, k, end, is_all ? n : end}, r, y);
        if (is_all || end == n)
            continue;
        block b = block_of(w, r, k, end - k, t);
        flxi_part rest = {flxi_space_counts(w) ? NULL : a + end * step + k, step, 1};
        apply_block(w, &b, rest, n - end, false, y);
    }
    w->used = used;
}
