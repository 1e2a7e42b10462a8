/* SPDX-License-Identifier: Apache-2.0 */
/* eigen_slice.c: one matrix of eig and eig_pairs: eigenvalues in their order, and vectors whose anchors are 1, as the
   definition has them (numeric/schur.h). */
#include "backend/cpu/linalg/decomposition.h"
#include "base/host/stop.h"

#include <float.h>
#include <math.h>

typedef struct {
    double *a, *re, *im;
    int64_t *order, *room;
    int64_t n, step;
    int exponent;
    double small; /* rounding errors of values */
} spectrum;

/* Equal real parts are ordered by the imaginary ones. */
static void order_values(const spectrum *y)
{
    flxi_sort_values(y->re, y->n, false, y->order, y->room);
    for (int64_t i = 1; i < y->n; i++)
        for (int64_t k = i; k > 0; k--) {
            int64_t last = y->order[k], before = y->order[k - 1];
            if (y->re[last] != y->re[before] || y->im[last] >= y->im[before])
                break;
            y->order[k] = before;
            y->order[k - 1] = last;
        }
}

/* Imaginary parts that are rounding errors are dropped: of the value, and of its vector. */
static bool is_complex(const spectrum *y, int64_t k)
{
    return fabs(y->im[k]) > 8 * y->small;
}

static double length_of(const double *a, int64_t step, int64_t n)
{
    double square = 0;
    for (int64_t i = 0; i < n && !flxi_stopped(); i++)
        for (int64_t j = 0; j < n; j++)
            square += a[i * step + j] * a[i * step + j];
    return sqrt(square);
}

static void store_values(const flxi_decomposing *s, int64_t which, const spectrum *y)
{
    flxi_power p = flxi_power_of(y->exponent);
    for (int64_t k = 0; k < y->n; k++) {
        int64_t at = y->order[k], to = 2 * (which * y->n + k);
        flxi_store_element(s, 0, to, flxi_times(y->re[at], p));
        flxi_store_element(s, 0, to + 1, is_complex(y, at) ? flxi_times(y->im[at], p) : 0);
    }
}

/* Whether there are values, which are then stored. */
static bool find_spectrum(const flxi_decomposing *s, flxi_workspace *w, int64_t which, bool has_vectors, spectrum *y)
{
    int64_t n = s->rows, step = flxi_row_step(n);
    *y = (spectrum){.n = n, .step = step};
    y->a = flxi_take_numbers(w, n * step);
    y->re = flxi_take_numbers(w, n);
    y->im = flxi_take_numbers(w, n);
    y->order = flxi_take(w, (size_t)n * sizeof *y->order);
    y->room = flxi_take(w, (size_t)n * sizeof *y->room);
    bool counts = flxi_space_counts(w), is_found = counts || flxi_find_scale(s, which, &y->exponent);
    if (!counts) {
        flxi_load_matrix(s, which, y->exponent, y->a, step, false);
        y->small = DBL_EPSILON * length_of(y->a, step, n);
    }
    is_found = is_found && flxi_general_eigen(w, y->a, step, n, y->re, y->im, has_vectors);
    if (counts || flxi_stopped())
        return false;
    if (!is_found) {
        flxi_fill_nan(s, 0, which, 2 * n);
        return false;
    }
    order_values(y);
    store_values(s, which, y);
    return true;
}

void flxi_eig_slice(const flxi_decomposing *s, flxi_workspace *w, int64_t which)
{
    spectrum y;
    find_spectrum(s, w, which, false, &y);
}

/* ---- Vectors ---- */

/* The first component of at least half the largest modulus; im is NULL for a real vector. */
static int64_t anchor_of(const double *re, const double *im, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, im ? hypot(re[i], im[i]) : fabs(re[i]));
    for (int64_t i = 0; i < n; i++)
        if ((im ? hypot(re[i], im[i]) : fabs(re[i])) >= 0.5 * most)
            return i;
    return 0;
}

/* Divides a vector by its anchor. */
static void scale_to_anchor(double *re, double *im, int64_t n)
{
    int64_t p = anchor_of(re, im, n);
    double c = re[p], d = im ? im[p] : 0, size = fabs(c) + fabs(d);
    c /= size;
    d /= size;
    double square = (c * c + d * d) * size;
    for (int64_t i = 0; i < n; i++) {
        double x = re[i], y = im ? im[i] : 0;
        re[i] = (x * c + y * d) / square;
        if (im)
            im[i] = (y * c - x * d) / square;
    }
    re[p] = 1;
    if (im)
        im[p] = 0;
}

/* Component i of the vector of value k: the second of a pair is the conjugate of the first. */
static void store_component(const flxi_decomposing *s, const spectrum *y, int64_t to, int64_t k, int64_t i)
{
    const double *row = y->a + (y->im[k] < 0 ? k - 1 : k) * y->step + i;
    double im = !is_complex(y, k) ? 0 : y->im[k] < 0 ? -row[y->step] : row[y->step];
    flxi_store_element(s, 1, 2 * to, row[0]);
    flxi_store_element(s, 1, 2 * to + 1, im);
}

void flxi_eig_pairs_slice(const flxi_decomposing *s, flxi_workspace *w, int64_t which)
{
    spectrum y;
    int64_t n = s->rows;
    bool is_found = find_spectrum(s, w, which, true, &y);
    if (flxi_space_counts(w) || flxi_stopped())
        return;
    if (!is_found) {
        flxi_fill_nan(s, 1, which, 2 * n * n);
        return;
    }
    for (int64_t k = 0; k < n && !flxi_stopped(); k++) {
        bool is_pair = y.im[k] != 0;
        scale_to_anchor(y.a + k * y.step, is_pair ? y.a + (k + 1) * y.step : NULL, n);
        k += is_pair;
    }
    for (int64_t i0 = 0; i0 < n && !flxi_stopped(); i0 += FLXI_TILE)
        for (int64_t k = 0; k < n; k++)
            for (int64_t i = i0; i < n && i < i0 + FLXI_TILE; i++)
                store_component(s, &y, (which * n + i) * n + k, y.order[k], i);
}
