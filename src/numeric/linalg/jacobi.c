/* SPDX-License-Identifier: Apache-2.0 */
/* jacobi.c: see jacobi.h. */
#include "numeric/linalg/jacobi.h"

#include "base/host/stop.h"

#include "base/complex_arith.h"

#include <float.h>

enum { MAX_SWEEPS = 60 }; /* convergence is quadratic: more than ten are rare */

typedef double _Complex cplx;

/* ---- Columns ---- */

int64_t flxi_column_anchor(int64_t n, const cplx *column)
{
    double largest = 0.0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, cabs(column[i]));
    for (int64_t i = 0; i < n; i++)
        if (largest > 0.0 && cabs(column[i]) >= 0.5 * largest)
            return i;
    return 0;
}

bool flxi_matrix_scale(int64_t n, const cplx *a, int *exponent)
{
    double largest = 0.0;
    *exponent = 0;
    for (int64_t i = 0; i < n && !flxi_stopped_by_now(); i++) {
        if (!isfinite(creal(a[i])) || !isfinite(cimag(a[i])))
            return false;
        largest = fmax(largest, fmax(fabs(creal(a[i])), fabs(cimag(a[i]))));
    }
    frexp(largest, exponent);
    return true;
}

static void scale(int64_t n, cplx *a, int exponent)
{
    for (int64_t i = 0; i < n && !flxi_stopped_by_now(); i++)
        a[i] = flxi_cmake(ldexp(creal(a[i]), exponent), ldexp(cimag(a[i]), exponent));
}

static void fill(int64_t n, cplx *a, double x)
{
    for (int64_t i = 0; i < n && !flxi_stopped_by_now(); i++)
        a[i] = x;
}

static void fill_real(int64_t n, double *a, double x)
{
    for (int64_t i = 0; i < n; i++)
        a[i] = x;
}

static void set_identity(int64_t n, cplx *v)
{
    fill(n * n, v, 0.0);
    for (int64_t i = 0; i < n; i++)
        v[i * n + i] = 1.0;
}

static void swap_columns(int64_t n, cplx *a, cplx *b)
{
    for (int64_t i = 0; i < n; i++) {
        cplx t = a[i];
        a[i] = b[i];
        b[i] = t;
    }
}

/* a^H b */
static cplx dot(int64_t n, const cplx *a, const cplx *b)
{
    cplx sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += flxi_cmul(conj(a[i]), b[i]);
    return sum;
}

/* The factor of modulus 1 that makes the anchor of a column real and positive. */
static cplx anchor_phase(int64_t n, const cplx *column)
{
    cplx at = n ? column[flxi_column_anchor(n, column)] : 0.0;
    double size = cabs(at);
    return size > 0.0 ? flxi_cmake(creal(at) / size, -cimag(at) / size) : 1.0;
}

static void multiply(int64_t n, cplx *column, cplx by)
{
    for (int64_t i = 0; i < n; i++)
        column[i] = flxi_cmul(column[i], by);
}

/* Rounding leaves an imaginary part where there should be none. */
static void straighten_anchor(int64_t n, cplx *column)
{
    if (n) {
        cplx *at = &column[flxi_column_anchor(n, column)];
        *at = creal(*at);
    }
}

/* ---- Rotations ---- */

/* The unitary change of a pair of columns p, q under which their product, of modulus g and phase u, becomes 0:
   p' = c p - s conj(u) q, q' = s p + c conj(u) q. */
typedef struct {
    double c, s, t;
    cplx u;
} rotation;

static rotation rotation_of(double app, double aqq, cplx apq)
{
    double g = cabs(apq);
    double zeta = (aqq - app) / (2.0 * g);
    double t = isfinite(zeta) ? copysign(1.0, zeta) / (fabs(zeta) + hypot(1.0, zeta)) : 0.0;
    double c = 1.0 / sqrt(1.0 + t * t);
    return (rotation){c, c * t, t, flxi_cmake(creal(apq) / g, cimag(apq) / g)};
}

static void rotate(int64_t n, cplx *p, cplx *q, int64_t stride, rotation r, bool rows)
{
    cplx u = rows ? r.u : conj(r.u);
    for (int64_t k = 0; k < n * stride; k += stride) {
        cplx turned = flxi_cmul(u, q[k]);
        cplx first = p[k];
        p[k] = r.c * first - r.s * turned;
        q[k] = r.s * first + r.c * turned;
    }
}

/* ---- Hermitian matrices ---- */

static bool is_negligible(const cplx *a, int64_t n, int64_t p, int64_t q)
{
    double g = cabs(a[q * n + p]);
    double x = fabs(creal(a[p * n + p]));
    double y = fabs(creal(a[q * n + q]));
    return x + 0.01 * g == x && y + 0.01 * g == y;
}

static bool sweep_hermitian(int64_t n, cplx *a, cplx *v, bool settle)
{
    bool is_moved = false;
    for (int64_t p = 0; p < n && !flxi_stopped(); p++)
        for (int64_t q = p + 1; q < n && !flxi_stopped(); q++) {
            cplx apq = a[q * n + p];
            double g = cabs(apq);
            if (g == 0.0)
                continue;
            if (settle && is_negligible(a, n, p, q)) {
                a[q * n + p] = a[p * n + q] = 0.0;
                continue;
            }
            double app = creal(a[p * n + p]);
            double aqq = creal(a[q * n + q]);
            rotation r = rotation_of(app, aqq, apq);
            rotate(n, a + p * n, a + q * n, 1, r, false);
            rotate(n, a + p, a + q, n, r, true);
            rotate(n, v + p * n, v + q * n, 1, r, false);
            a[p * n + p] = app - r.t * g;
            a[q * n + q] = aqq + r.t * g;
            a[q * n + p] = a[p * n + q] = 0.0;
            is_moved = true;
        }
    return is_moved && !flxi_stopped();
}

/* Insertion keeps the order of equal numbers. */
static void sort_columns(int64_t n, double *w, bool descending, int64_t rows, cplx *a, int64_t rows2, cplx *b)
{
    for (int64_t i = 1; i < n && !flxi_stopped(); i++)
        for (int64_t k = i; k > 0 && (descending ? w[k - 1] < w[k] : w[k - 1] > w[k]) && !flxi_stopped(); k--) {
            double t = w[k];
            w[k] = w[k - 1];
            w[k - 1] = t;
            swap_columns(rows, a + k * rows, a + (k - 1) * rows);
            if (b)
                swap_columns(rows2, b + k * rows2, b + (k - 1) * rows2);
        }
}

static void make_hermitian(int64_t n, cplx *a)
{
    for (int64_t p = 0; p < n && !flxi_stopped(); p++)
        for (int64_t q = 0; q <= p; q++) {
            cplx x = 0.5 * a[q * n + p] + 0.5 * conj(a[p * n + q]);
            a[q * n + p] = x;
            a[p * n + q] = conj(x);
        }
}

void flxi_jacobi_eigh(int64_t n, cplx *a, double *w, cplx *v)
{
    int exponent;
    if (!flxi_matrix_scale(n * n, a, &exponent)) {
        fill_real(n, w, NAN);
        fill(n * n, v, NAN);
        return;
    }
    scale(n * n, a, -exponent);
    make_hermitian(n, a);
    set_identity(n, v);
    for (int i = 0; i < MAX_SWEEPS && sweep_hermitian(n, a, v, i > 3); i++)
        continue;
    if (flxi_stopped())
        return;
    for (int64_t k = 0; k < n; k++)
        w[k] = ldexp(creal(a[k * n + k]), exponent);
    sort_columns(n, w, false, n, v, 0, NULL);
    for (int64_t k = 0; k < n && !flxi_stopped(); k++) {
        multiply(n, v + k * n, anchor_phase(n, v + k * n));
        straighten_anchor(n, v + k * n);
    }
}

/* ---- Singular values: rotations of pairs of columns until all are orthogonal ---- */

static bool sweep_columns(int64_t m, int64_t n, cplx *a, cplx *v)
{
    bool is_moved = false;
    for (int64_t p = 0; p < n && !flxi_stopped(); p++)
        for (int64_t q = p + 1; q < n && !flxi_stopped(); q++) {
            double alpha = creal(dot(m, a + p * m, a + p * m));
            double beta = creal(dot(m, a + q * m, a + q * m));
            cplx gamma = dot(m, a + p * m, a + q * m);
            if (cabs(gamma) <= DBL_EPSILON * sqrt(alpha) * sqrt(beta) || cabs(gamma) < DBL_MIN)
                continue;
            rotation r = rotation_of(alpha, beta, gamma);
            rotate(m, a + p * m, a + q * m, 1, r, false);
            rotate(n, v + p * n, v + q * n, 1, r, false);
            is_moved = true;
        }
    return is_moved && !flxi_stopped();
}

static double norm(int64_t n, const cplx *column)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum = hypot(sum, cabs(column[i]));
    return sum;
}

/* Subtracts from column k its components along the columns before it; twice, since once leaves rounding errors of the
   first pass. */
static void orthogonalise(int64_t m, cplx *u, int64_t k)
{
    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = 0; j < k && !flxi_stopped(); j++) {
            cplx part = dot(m, u + j * m, u + k * m);
            for (int64_t i = 0; i < m; i++)
                u[k * m + i] -= flxi_cmul(part, u[j * m + i]);
        }
}

/* A column without length becomes any unit vector that is orthogonal to those before it. One of the m unit vectors has
   a remainder of at least 1/sqrt(m). */
static void complete_column(int64_t m, cplx *u, int64_t k)
{
    for (int64_t e = 0; e < m && !flxi_stopped(); e++) {
        fill(m, u + k * m, 0.0);
        u[k * m + e] = 1.0;
        orthogonalise(m, u, k);
        double size = norm(m, u + k * m);
        if (size * size * (double)m >= 0.25) {
            multiply(m, u + k * m, 1.0 / size);
            return;
        }
    }
}

static void normalise_columns(int64_t m, int64_t n, cplx *u, const double *s)
{
    for (int64_t k = 0; k < n && !flxi_stopped(); k++)
        if (s[k] > DBL_EPSILON * s[0])
            multiply(m, u + k * m, 1.0 / s[k]);
    for (int64_t k = 0; k < n && !flxi_stopped(); k++) {
        if (s[k] > DBL_EPSILON * s[0])
            continue;
        if (s[k] > 0.0) { /* so short that it is no longer orthogonal to the long ones */
            multiply(m, u + k * m, 1.0 / s[k]);
            orthogonalise(m, u, k);
        }
        double size = s[k] > 0.0 ? norm(m, u + k * m) : 0.0;
        if (size > 0.5)
            multiply(m, u + k * m, 1.0 / size);
        else
            complete_column(m, u, k);
    }
}

void flxi_jacobi_svd(int64_t m, int64_t n, cplx *a, double *s, cplx *v, bool anchor_v)
{
    int exponent;
    if (!flxi_matrix_scale(m * n, a, &exponent)) {
        fill_real(n, s, NAN);
        fill(m * n, a, NAN);
        fill(n * n, v, NAN);
        return;
    }
    scale(m * n, a, -exponent);
    set_identity(n, v);
    for (int i = 0; i < MAX_SWEEPS && sweep_columns(m, n, a, v); i++)
        continue;
    if (flxi_stopped())
        return;
    for (int64_t k = 0; k < n && !flxi_stopped(); k++)
        s[k] = norm(m, a + k * m);
    sort_columns(n, s, true, m, a, n, v);
    normalise_columns(m, n, a, s);
    for (int64_t k = 0; k < n && !flxi_stopped(); k++) {
        cplx phase = anchor_v ? anchor_phase(n, v + k * n) : anchor_phase(m, a + k * m);
        s[k] = ldexp(s[k], exponent);
        multiply(m, a + k * m, phase);
        multiply(n, v + k * n, phase);
        if (anchor_v)
            straighten_anchor(n, v + k * n);
        else
            straighten_anchor(m, a + k * m);
    }
}
