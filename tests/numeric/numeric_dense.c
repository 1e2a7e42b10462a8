/* SPDX-License-Identifier: Apache-2.0 */
/* numeric_dense.c: factorisations, spectra and the exponential of small dense matrices, by what defines them: products
   of factors, eigenvalue equations, orthogonality. Singular matrices and NaN are part of the contract. */
#include "numeric/linalg/dense.h"
#include "numeric/linalg/jacobi.h"
#include "numeric/linalg/matrix_exponential.h"
#include "numeric/linalg/schur.h"
#include "test.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef double _Complex cplx;

enum { N = 6, MOST = 40 };

static void fill_random(double *x, int64_t count, uint64_t *state)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = 2 * test_uniform(state) - 1;
}

/* y [m, n] = a [m, k] b [k, n]; conjugate: of a, transposed too. */
static void multiply(const cplx *a, const cplx *b, cplx *y, int64_t m, int64_t k, int64_t n, bool conjugate)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            cplx sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += (conjugate ? conj(a[l * m + i]) : a[i * k + l]) * b[l * n + j];
            y[i * n + j] = sum;
        }
}

static void check_equal(const cplx *x, const cplx *y, int64_t count, double bound, const char *what)
{
    for (int64_t i = 0; i < count; i++)
        CHECK_MSG(cabs(x[i] - y[i]) <= bound, "%s: element %lld differs by %g", what, (long long)i, cabs(x[i] - y[i]));
}

static void check_unitary(const cplx *q, int64_t m, int64_t n, const char *what)
{
    cplx product[N * N], unit[N * N] = {0};
    for (int64_t i = 0; i < n; i++)
        unit[i * n + i] = 1;
    multiply(q, q, product, n, m, n, true);
    check_equal(product, unit, n * n, 1e-14, what);
}

TEST(dense_lu_solves_across_panels)
{
    const flxi_dense *d = flxi_dense_of(false);
    double a[MOST * MOST], lu[MOST * MOST], x[MOST * 2], b[MOST * 2] = {0};
    int64_t pivots[MOST], perm[MOST];
    uint64_t state = test_seed();
    fill_random(a, MOST * MOST, &state);
    fill_random(x, (int64_t)MOST * 2, &state);
    memcpy(lu, a, sizeof a);
    for (int i = 0; i < MOST; i++)
        for (int k = 0; k < MOST; k++)
            for (int c = 0; c < 2; c++)
                b[i * 2 + c] += a[i * MOST + k] * x[k * 2 + c];
    CHECK(d->lu(lu, MOST, MOST, pivots));
    flxi_permutation_of(pivots, MOST, MOST, perm);
    for (int i = 0; i < MOST; i++)
        for (int j = 0; j < MOST; j++) {
            double sum = i <= j ? lu[i * MOST + j] : 0;
            for (int k = 0; k < i && k <= j; k++)
                sum += lu[i * MOST + k] * lu[k * MOST + j];
            CHECK_NEAR(sum, a[perm[i] * MOST + j], 1e-13);
        }
    CHECK(flxi_dense_solve(d, lu, MOST, pivots, b, 2));
    for (int i = 0; i < MOST * 2; i++)
        CHECK_NEAR(b[i], x[i], 1e-10);
}

TEST(dense_singular_matrices_are_reported)
{
    const flxi_dense *d = flxi_dense_of(false);
    double a[] = {1, 2, 2, 4}, c[] = {1, 2, 2, 1}, w[4], det;
    int64_t pivots[2];
    CHECK(!d->lu(a, 2, 2, pivots));
    d->determinant(a, 2, pivots, &det);
    CHECK(det == 0);
    d->adjugate(a, 2, pivots, w);
    CHECK_NEAR(w[0], 4, 1e-15);
    CHECK_NEAR(w[1], -2, 1e-15);
    CHECK_NEAR(w[2], -2, 1e-15);
    CHECK_NEAR(w[3], 1, 1e-15);
    CHECK(!d->cholesky(c, 2));
}

TEST(dense_qr_and_cholesky_are_factors)
{
    const flxi_dense *d = flxi_dense_of(true);
    cplx a[7 * 4], r[7 * 4], q[7 * 4 + 7], product[7 * 4], gram[16], l[16], again[16];
    uint64_t state = test_seed();
    fill_random((double *)a, 2 * 7 * 4, &state);
    memcpy(r, a, sizeof a);
    d->qr(r, 7, 4, q);
    check_unitary(q, 7, 4, "q");
    multiply(q, r, product, 7, 4, 4, false);
    check_equal(product, a, 28, 1e-14, "q r");
    for (int i = 0; i < 4; i++)
        CHECK(cimag(r[i * 5]) == 0 && creal(r[i * 5]) >= 0);
    multiply(a, a, gram, 4, 7, 4, true);
    memcpy(l, gram, sizeof l);
    CHECK(d->cholesky(l, 4));
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            again[i * 4 + j] = 0;
            for (int k = 0; k < 4; k++)
                again[i * 4 + j] += l[i * 4 + k] * conj(l[j * 4 + k]);
        }
    check_equal(again, gram, 16, 1e-13, "l l^H");
}

TEST(jacobi_spectra_satisfy_their_equations)
{
    cplx a[N * N], copy[N * N], v[N * N], left[N * N];
    double w[N];
    uint64_t state = test_seed();
    fill_random((double *)a, 2 * N * N, &state);
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++) {
            a[i * N + j] = (a[i * N + j] + conj(a[j * N + i])) / 2;
            a[j * N + i] = conj(a[i * N + j]);
        }
    memcpy(copy, a, sizeof a);
    flxi_jacobi_eigh(N, copy, w, v); /* arrays of columns */
    for (int k = 0; k < N; k++) {
        CHECK(k == 0 || w[k - 1] <= w[k]);
        for (int i = 0; i < N; i++) {
            left[i] = -w[k] * v[k * N + i];
            for (int j = 0; j < N; j++)
                left[i] += a[j * N + i] * v[k * N + j];
            CHECK_NEAR(cabs(left[i]), 0, 1e-13);
        }
    }
    memcpy(copy, a, sizeof a);
    flxi_jacobi_svd(N, N, copy, w, v, false);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            cplx sum = 0;
            for (int k = 0; k < N; k++)
                sum += copy[k * N + i] * w[k] * conj(v[k * N + j]);
            CHECK_NEAR(cabs(sum - a[j * N + i]), 0, 1e-13);
            CHECK(j == 0 || w[j - 1] >= w[j]);
        }
    a[3] = NAN;
    flxi_jacobi_eigh(N, a, w, v);
    CHECK(isnan(w[0]) && isnan(w[N - 1]) && isnan(creal(v[0])));
}

TEST(schur_vectors_satisfy_the_equation)
{
    double real[N * N];
    cplx a[N * N], copy[N * N], v[N * N], w[N], room[N * N];
    uint64_t state = test_seed();
    fill_random(real, N * N, &state);
    for (int i = 0; i < N * N; i++)
        copy[i] = a[i] = real[i];
    flxi_schur_eig(N, copy, w, v, room, true);
    cplx trace = 0, sum = 0;
    for (int k = 0; k < N; k++) {
        trace += a[k * N + k];
        sum += w[k];
        for (int i = 0; i < N; i++) {
            cplx left = -w[k] * v[k * N + i];
            for (int j = 0; j < N; j++)
                left += a[j * N + i] * v[k * N + j];
            CHECK_NEAR(cabs(left), 0, 1e-12);
        }
    }
    CHECK_NEAR(cabs(trace - sum), 0, 1e-13);
    CHECK(cimag(sum) == 0); /* exact conjugate pairs */
}

static void solve_square(int64_t n, cplx *a, cplx *b, int64_t *pivots)
{
    const flxi_dense *d = flxi_dense_of(true);
    d->lu(a, n, n, pivots);
    flxi_dense_solve(d, a, n, pivots, b, n);
}

static void exponential(int64_t n, const cplx *a, cplx *y)
{
    cplx *room = calloc(flxi_expm_room(n), sizeof *room);
    int64_t pivots[N];
    CHECK(room);
    memcpy(room, a, (size_t)(n * n) * sizeof *a);
    flxi_matrix_exponential(n, room, pivots, solve_square);
    memcpy(y, room, (size_t)(n * n) * sizeof *a);
    free(room);
}

TEST(matrix_exponential_of_known_matrices)
{
    const cplx nilpotent[9] = {0, 2, 3, 0, 0, 4, 0, 0, 0}, series[9] = {1, 2, 7, 0, 1, 4, 0, 0, 1};
    const cplx turn[4] = {0, -30, 30, 0}, turned[4] = {cos(30), -sin(30), sin(30), cos(30)};
    cplx y[N * N], back[N * N], product[N * N], unit[N * N] = {0}, a[N * N];
    exponential(3, nilpotent, y);
    check_equal(y, series, 9, 1e-14, "nilpotent");
    exponential(2, turn, y);
    check_equal(y, turned, 4, 1e-12, "rotation");
    uint64_t state = test_seed();
    fill_random((double *)a, 2 * N * N, &state);
    exponential(N, a, y);
    for (int i = 0; i < N * N; i++)
        a[i] = -a[i];
    exponential(N, a, back);
    multiply(y, back, product, N, N, N, false);
    for (int i = 0; i < N; i++)
        unit[i * N + i] = 1;
    check_equal(product, unit, N * N, 1e-12, "exp(a) exp(-a)");
}
