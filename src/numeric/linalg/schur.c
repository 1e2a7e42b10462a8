/* SPDX-License-Identifier: Apache-2.0 */
/* schur.c: see schur.h. */
#include "numeric/linalg/schur.h"

#include "base/host/stop.h"

#include "base/complex_arith.h"
#include "numeric/linalg/jacobi.h"

#include <float.h>

typedef double _Complex cplx;

enum { MAX_STEPS = 60 }; /* per eigenvalue; three are typical */

/* Element (i, j) of a matrix that is an array of columns. */
#define AT(a, i, j) ((a)[(j)*n + (i)])

static double size1(cplx z)
{
    return fabs(creal(z)) + fabs(cimag(z));
}

/* ---- Hessenberg form ---- */

/* The reflection I - 2 x x^H / (x^H x) that maps column k below the diagonal to a multiple of its first unit
   vector; x is left in `x` from k + 1 on. False where there is nothing to do. */
static bool find_reflection(int64_t n, const cplx *a, int64_t k, cplx *x)
{
    double tail = 0.0;
    double all = 0.0;
    for (int64_t i = k + 1; i < n; i++) {
        x[i] = AT(a, i, k);
        tail = i > k + 1 ? hypot(tail, cabs(x[i])) : 0.0;
        all = hypot(all, cabs(x[i]));
    }
    if (tail == 0.0)
        return false;
    double first = cabs(x[k + 1]);
    cplx phase = first > 0.0 ? flxi_cmake(creal(x[k + 1]) / first, cimag(x[k + 1]) / first) : 1.0;
    x[k + 1] += all * phase;
    double length = hypot(cabs(x[k + 1]), tail);
    for (int64_t i = k + 1; i < n; i++)
        x[i] /= length;
    return true;
}

/* m becomes m - 2 (m x) x^H: from the right. */
static void reflect_columns(int64_t n, cplx *m, int64_t k, const cplx *x)
{
    for (int64_t i = 0; i < n && !flxi_stopped(); i++) {
        cplx sum = 0.0;
        for (int64_t j = k + 1; j < n; j++)
            sum += flxi_cmul(AT(m, i, j), x[j]);
        for (int64_t j = k + 1; j < n; j++)
            AT(m, i, j) -= 2.0 * flxi_cmul(sum, conj(x[j]));
    }
}

static void reduce_to_hessenberg(int64_t n, cplx *a, cplx *z, cplx *x)
{
    for (int64_t k = 0; k + 2 < n && !flxi_stopped(); k++) {
        if (!find_reflection(n, a, k, x))
            continue;
        for (int64_t j = 0; j < n && !flxi_stopped(); j++) {
            cplx sum = 0.0;
            for (int64_t i = k + 1; i < n; i++)
                sum += flxi_cmul(conj(x[i]), AT(a, i, j));
            for (int64_t i = k + 1; i < n; i++)
                AT(a, i, j) -= 2.0 * flxi_cmul(x[i], sum);
        }
        reflect_columns(n, a, k, x);
        reflect_columns(n, z, k, x);
        for (int64_t i = k + 2; i < n; i++)
            AT(a, i, k) = 0.0;
    }
}

/* ---- Triangular form ---- */

/* The eigenvalue of the trailing 2 x 2 block that is nearer to its last element. */
static cplx wilkinson_shift(int64_t n, const cplx *a, int64_t hi)
{
    cplx p = AT(a, hi - 1, hi - 1);
    cplx s = AT(a, hi, hi);
    cplx half = 0.5 * (p - s);
    cplx bc = flxi_cmul(AT(a, hi - 1, hi), AT(a, hi, hi - 1));
    cplx root = csqrt(flxi_cmul(half, half) + bc);
    cplx one = half + root;
    cplx other = half - root;
    cplx larger = size1(one) > size1(other) ? one : other;
    return size1(larger) > 0.0 ? s - flxi_cdiv(bc, larger) : s;
}

typedef struct {
    double c;
    cplx s;
} givens;

/* [c conj(s); -s c] maps (f, g) to (r, 0). */
static givens givens_of(cplx f, cplx g)
{
    double r = hypot(cabs(f), cabs(g));
    double size = cabs(f);
    if (r == 0.0)
        return (givens){1.0, 0.0};
    if (size == 0.0)
        return (givens){0.0, flxi_cmake(creal(g) / r, cimag(g) / r)};
    cplx phase = flxi_cmake(creal(f) / size, cimag(f) / size);
    return (givens){size / r, flxi_cmul(g, conj(phase)) / r};
}

static void turn_rows(int64_t n, cplx *a, int64_t k, int64_t from, givens g)
{
    for (int64_t j = from; j < n; j++) {
        cplx x = AT(a, k, j);
        cplx y = AT(a, k + 1, j);
        AT(a, k, j) = g.c * x + flxi_cmul(conj(g.s), y);
        AT(a, k + 1, j) = g.c * y - flxi_cmul(g.s, x);
    }
}

static void turn_columns(int64_t n, cplx *a, int64_t k, int64_t to, givens g)
{
    for (int64_t i = 0; i < to; i++) {
        cplx x = AT(a, i, k);
        cplx y = AT(a, i, k + 1);
        AT(a, i, k) = g.c * x + flxi_cmul(g.s, y);
        AT(a, i, k + 1) = g.c * y - flxi_cmul(conj(g.s), x);
    }
}

/* One implicit step with a shift on rows lo … hi: the rotation of the first two rows makes a bulge, which is
   chased down. */
static void qr_step(int64_t n, cplx *a, cplx *z, int64_t lo, int64_t hi, cplx shift)
{
    cplx f = AT(a, lo, lo) - shift;
    cplx g = AT(a, lo + 1, lo);
    for (int64_t k = lo; k < hi && !flxi_stopped(); k++) {
        givens r = givens_of(f, g);
        turn_rows(n, a, k, k > lo ? k - 1 : k, r);
        turn_columns(n, a, k, k + 3 < hi + 1 ? k + 3 : hi + 1, r);
        turn_columns(n, z, k, n, r);
        if (k > lo)
            AT(a, k + 1, k - 1) = 0.0;
        if (k + 1 < hi) {
            f = AT(a, k + 1, k);
            g = AT(a, k + 2, k);
        }
    }
}

/* The first row of the block that ends at hi: above it the subdiagonal is negligible, and set to zero. */
static int64_t block_start(int64_t n, cplx *a, int64_t hi, double norm)
{
    int64_t lo = hi;
    for (; lo > 0; lo--) {
        double around = size1(AT(a, lo, lo)) + size1(AT(a, lo - 1, lo - 1));
        if (size1(AT(a, lo, lo - 1)) <= DBL_EPSILON * (around > 0.0 ? around : norm)) {
            AT(a, lo, lo - 1) = 0.0;
            break;
        }
    }
    return lo;
}

static bool reduce_to_triangular(int64_t n, cplx *a, cplx *z, double norm)
{
    int64_t hi = n - 1;
    for (int step = 0; hi > 0 && !flxi_stopped();) {
        int64_t lo = block_start(n, a, hi, norm);
        if (lo == hi) {
            hi--;
            step = 0;
            continue;
        }
        if (step++ == MAX_STEPS)
            return false;
        /* An occasional shift that is unrelated to the block ends a cycle. */
        cplx shift = step % 10 ? wilkinson_shift(n, a, hi) : AT(a, hi, hi) + size1(AT(a, hi, hi - 1));
        qr_step(n, a, z, lo, hi, shift);
    }
    return true;
}

/* ---- Vectors ---- */

/* Column k of x: (t - t_kk) x = 0 with x_k = 1. A difference that vanishes is replaced by one that is negligible:
   then the vector nearly repeats another, as it must where the matrix has too few eigenvectors. */
static void back_substitute(int64_t n, const cplx *t, int64_t k, double small, cplx *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = i == k ? 1.0 : 0.0;
    for (int64_t i = k - 1; i >= 0 && !flxi_stopped(); i--) {
        cplx sum = 0.0;
        for (int64_t j = i + 1; j <= k; j++)
            sum += flxi_cmul(AT(t, i, j), x[j]);
        cplx gap = AT(t, k, k) - AT(t, i, i);
        if (size1(gap) < small)
            gap = small;
        x[i] = flxi_cdiv(sum, gap);
        if (size1(x[i]) > 0x1p500)
            for (int64_t j = i; j <= k; j++)
                x[j] *= 0x1p-500;
    }
}

static void find_vectors(int64_t n, const cplx *t, const cplx *z, double small, cplx *v, cplx *x)
{
    for (int64_t k = 0; k < n && !flxi_stopped(); k++) {
        back_substitute(n, t, k, small, x);
        for (int64_t i = 0; i < n && !flxi_stopped(); i++) {
            cplx sum = 0.0;
            for (int64_t j = 0; j <= k; j++)
                sum += flxi_cmul(AT(z, i, j), x[j]);
            AT(v, i, k) = sum;
        }
    }
}

static void scale_to_anchor(int64_t n, cplx *column)
{
    int64_t p = flxi_column_anchor(n, column);
    cplx by = column[p];
    for (int64_t i = 0; i < n; i++)
        column[i] = flxi_cdiv(column[i], by);
    column[p] = 1.0;
}

/* ---- Order, and conjugate pairs of real matrices ---- */

static bool comes_first(cplx a, cplx b)
{
    return creal(a) < creal(b) || (creal(a) == creal(b) && cimag(a) < cimag(b));
}

static void sort_pairs(int64_t n, cplx *w, cplx *v)
{
    for (int64_t i = 1; i < n && !flxi_stopped(); i++)
        for (int64_t k = i; k > 0 && comes_first(w[k], w[k - 1]) && !flxi_stopped(); k--) {
            cplx t = w[k];
            w[k] = w[k - 1];
            w[k - 1] = t;
            for (int64_t j = 0; j < n; j++) {
                t = AT(v, j, k);
                AT(v, j, k) = AT(v, j, k - 1);
                AT(v, j, k - 1) = t;
            }
        }
}

/* The eigenvalue of negative imaginary part nearest to conj(w[k]) among those with no partner yet. */
static int64_t partner_of(int64_t n, const cplx *w, int64_t k, const cplx *taken)
{
    int64_t best = -1;
    for (int64_t j = 0; j < n; j++)
        if (cimag(w[j]) < 0.0 && creal(taken[j]) == 0.0 &&
            (best < 0 || cabs(w[j] - conj(w[k])) < cabs(w[best] - conj(w[k]))))
            best = j;
    return best;
}

static void make_conjugate(int64_t n, cplx *w, cplx *v, double small, cplx *taken)
{
    for (int64_t k = 0; k < n && !flxi_stopped(); k++) {
        taken[k] = 0.0;
        if (fabs(cimag(w[k])) <= small) {
            w[k] = creal(w[k]);
            for (int64_t i = 0; i < n; i++)
                AT(v, i, k) = creal(AT(v, i, k));
        }
    }
    for (int64_t k = 0; k < n && !flxi_stopped(); k++) {
        int64_t j = cimag(w[k]) > 0.0 ? partner_of(n, w, k, taken) : -1;
        if (j < 0)
            continue;
        taken[j] = 1.0;
        w[j] = conj(w[k]);
        for (int64_t i = 0; i < n; i++)
            AT(v, i, j) = conj(AT(v, i, k));
    }
}

static void scale_all(int64_t n, cplx *a, int exponent)
{
    for (int64_t i = 0; i < n && !flxi_stopped_by_now(); i++)
        a[i] = flxi_cmake(ldexp(creal(a[i]), exponent), ldexp(cimag(a[i]), exponent));
}

/* Scaled a = z t z^H; false: it is not finite, or the iteration does not converge. */
static bool find_form(int64_t n, cplx *a, cplx *z, cplx *room, double *norm, int *exponent)
{
    *norm = 0.0;
    if (!flxi_matrix_scale(n * n, a, exponent))
        return false;
    scale_all(n * n, a, -*exponent);
    for (int64_t i = 0; i < n * n && !flxi_stopped_by_now(); i++) {
        *norm = hypot(*norm, cabs(a[i]));
        z[i] = i % (n + 1) == 0 ? 1.0 : 0.0;
    }
    reduce_to_hessenberg(n, a, z, room);
    return reduce_to_triangular(n, a, z, *norm);
}

void flxi_schur_form(int64_t n, cplx *a, cplx *z, cplx *room)
{
    int exponent;
    double norm;
    if (find_form(n, a, z, room, &norm, &exponent)) {
        scale_all(n * n, a, exponent);
        return;
    }
    for (int64_t i = 0; i < n * n; i++)
        a[i] = z[i] = flxi_cmake(NAN, NAN);
}

void flxi_schur_eig(int64_t n, cplx *a, cplx *w, cplx *v, cplx *room, bool is_real)
{
    int exponent;
    double norm;
    if (!find_form(n, a, room, w, &norm, &exponent)) {
        for (int64_t i = 0; i < n * n; i++)
            v[i] = w[i / n] = flxi_cmake(NAN, NAN);
        return;
    }
    double small = fmax(DBL_EPSILON * norm, DBL_MIN);
    find_vectors(n, a, room, small, v, w);
    for (int64_t k = 0; k < n && !flxi_stopped(); k++) {
        w[k] = AT(a, k, k);
        scale_to_anchor(n, v + k * n);
    }
    if (is_real)
        make_conjugate(n, w, v, 8.0 * small, room);
    scale_all(n, w, exponent);
    sort_pairs(n, w, v);
}
