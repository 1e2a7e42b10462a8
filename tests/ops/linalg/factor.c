/* SPDX-License-Identifier: Apache-2.0 */
/* Factorisations and determinants: conventions, singular matrices and the derivatives they have. Values:
   tests/oracle/factor.py. */
#include "ops/gradient_text.h"
#include "ops/symbolic_text.h"

#include <math.h>
#include <stdio.h>

static void check_values(const flx_tensor *t, const double *want, double tolerance)
{
    for (int64_t i = 0; i < flx_tensor_count(t); i++) {
        test_fail_context("element %lld", (long long)i);
        CHECK_NEAR(flx_tensor_get(t, i), want[i], tolerance);
    }
}

/* ---- lu ---- */

/* Row 1 comes first: 6 is the largest of the column; then the second column has 1.5 and 2 below it. */
TEST(lu_exchanges_rows_as_its_pivots_say)
{
    text_run r = text_begin("graph g() { a = const(f64[3, 3], [[3, 3, 1], [6, 3, 2], [0, 2, 5]])"
                            "  l, p, q = lu(a) return l, p, q }");
    CHECK_OK(r.code, &r.err);
    check_values(r.out[0], (double[]){6, 3, 2, 0, 2, 5, 0.5, 0.75, -3.75}, 0);
    check_values(r.out[1], (double[]){1, 2, 2}, 0);
    check_values(r.out[2], (double[]){1, 2, 0}, 0);
    text_end(&r);
}

/* A column of zeros has nothing to eliminate; the factors are still those of the matrix. */
TEST(lu_of_a_singular_matrix_is_finite)
{
    text_run r = text_begin("graph g() { a = const(f64[3, 3], [[0, 1, 2], [0, 2, 4], [0, 3, 6]]) l, p, q = lu(a)"
                            "  lower = add(tril(l, k=-1), eye(n=3, dtype=f64))"
                            "  return sub(matmul(lower, triu(l)), gather(a, q)) }");
    CHECK_OK(r.code, &r.err);
    check_values(r.out[0], (double[9]){0}, 1e-15);
    text_end(&r);
}

/* Larger than one tile, in each direction. The residual of an elimination with pivots is within
   the length of its sums, 70 or 300 roundings of numbers of a few units. */
TEST(lu_of_large_matrices_is_that_of_their_product)
{
    static const struct {
        int m, n;
    } shapes[] = {{70, 70}, {300, 40}, {40, 600}, {33, 290}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char text[900];
        int m = shapes[i].m;
        int n = shapes[i].n;
        int k = m < n ? m : n;
        snprintf(text, sizeof text,
                 "graph g() { a = rng_uniform(shape=[%d, %d], dtype=f64, lo=-1, seed=7) l, p, q = lu(a)"
                 "  lower = add(narrow(tril(l, k=-1), axis=1, start=0, len=%d), eye(n=%d, m=%d, dtype=f64))"
                 "  upper = narrow(triu(l), axis=0, start=0, len=%d)"
                 "  return reduce_max(abs(sub(matmul(lower, upper), gather(a, q)))), reduce_max(abs(tril(l, k=-1))) }",
                 m, n, k, m, k, k);
        text_run r = text_begin(text);
        CHECK_OK(r.code, &r.err);
        CHECK_NEAR(flx_tensor_get(r.out[0], 0), 0.0, 1e-13);
        CHECK(flx_tensor_get(r.out[1], 0) <= 1.0); /* each pivot was the largest */
        text_end(&r);
    }
}

/* ---- cholesky ---- */

/* Of a = [[4, 4], [4, 29]], the Hermitian part, l = [[2, 0], [2, 5]]. The derivative of its sum is 1/4 - 1/4 + 1/10 for
   the first element, 1/2 - 1/5 for the one off the diagonal, half for each position, and 1/10 for the last. */
TEST(cholesky_shares_its_derivative_between_both_triangles)
{
    const gradient_row rows[] = {{"a", {4, 7, 1, 29}, {0.1, 0.15, 0.15, 0.1}}};
    check_gradient_near("graph g(a: f64[2, 2]) { return cholesky(a) }", rows, 1, 1e-15);
}

TEST(cholesky_of_an_indefinite_matrix_is_nan)
{
    text_run r =
        text_begin("graph g() { a = const(f64[2, 2, 2], [[[1, 2], [2, 1]], [[4, 0], [0, 9]]]) return cholesky(a) }");
    CHECK_OK(r.code, &r.err);
    for (int64_t i = 0; i < 4; i++)
        CHECK(isnan(flx_tensor_get(r.out[0], i)));
    CHECK_NEAR(flx_tensor_get(r.out[0], 4), 2.0, 0);
    CHECK_NEAR(flx_tensor_get(r.out[0], 7), 3.0, 0);
    text_end(&r);
}

/* ---- qr ---- */

TEST(qr_has_a_positive_diagonal)
{
    text_run r =
        text_begin("graph g() { a = const(f64[2, 2], [[-3, 1], [4, -7]]) q, r = qr(a) return q, r, matmul(q, r) }");
    CHECK_OK(r.code, &r.err);
    check_values(r.out[0], (double[]){-0.6, -0.8, 0.8, -0.6}, 1e-15);
    check_values(r.out[1], (double[]){5, -6.2, 0, 3.4}, 4e-15);
    check_values(r.out[2], (double[]){-3, 1, 4, -7}, 4e-15);
    text_end(&r);
}

TEST(qr_of_zeros_is_finite)
{
    text_run r = text_begin("graph g() { q, r = qr(full(f64[3, 2], 0)) return r, matmul(transpose(q), q) }");
    CHECK_OK(r.code, &r.err);
    check_values(r.out[0], (double[4]){0}, 0);
    check_values(r.out[1], (double[]){1, 0, 0, 1}, 1e-15);
    text_end(&r);
}

/* ---- Determinants ---- */

/* det(a) a^-T would be 0 · inf. The matrix of rank 2 has the cofactors of its minors, the one of rank 1 has none. */
TEST(det_of_singular_matrices_has_the_adjugate_as_derivative)
{
    const gradient_row rank_two[] = {{"a", {1, 2, 3, 4, 5, 6, 7, 8, 9}, {-3, 6, -3, 6, -12, 6, -3, 6, -3}}};
    const gradient_row rank_one[] = {{"a", {1, 2, 3, 2, 4, 6, 3, 6, 9}, {0}}};
    const gradient_row one[] = {{"a", {0}, {1}}};
    check_gradient_near("graph g(a: f64[3, 3]) { return det(a) }", rank_two, 1, 1e-14);
    check_gradient_near("graph g(a: f64[3, 3]) { return det(a) }", rank_one, 1, 1e-15);
    check_gradient("graph g(a: f64[1, 1]) { return det(a) }", one, 1);
}

/* adj([[a, b], [c, d]]) = [[d, -b], [-c, a]], whatever they are. */
TEST(adjugate_of_singular_matrices_has_derivatives)
{
    const gradient_row zeros[] = {{"a", {0}, {1, -1, -1, 1}}};
    const gradient_row equal[] = {{"a", {1, 1, 1, 1}, {1, -1, -1, 1}}};
    check_gradient_near("graph g(a: f64[2, 2]) { return adjugate(a) }", zeros, 1, 1e-15);
    check_gradient_near("graph g(a: f64[2, 2]) { return adjugate(a) }", equal, 1, 2e-15);
}

/* The sign of a complex determinant rotates with the matrix: for a 1 x 1 matrix z it is z/|z|, whose derivative
   along i z is i z/|z|. At z = 2 the real cotangent 1 gets nothing, since the sign moves along i only. */
TEST(slogdet_of_complex_matrices_has_a_sign_with_a_derivative)
{
    const gradient_row rows[] = {{"a", {2, 0}, {0, 0.5}}};
    check_gradient_near("graph g(a: c128[1, 1]) { s, l = slogdet(a) return imag(s) }", rows, 1, 1e-15);
    const gradient_row size[] = {{"a", {0, 2}, {0, 0.5}}};
    check_gradient_near("graph g(a: c128[1, 1]) { return logdet(a) }", size, 1, 1e-15);
}

TEST(factor_shapes_with_symbols)
{
    check_text_type("graph g(a: f32[B, N, N]) { l, p, q = lu(a) return q }", "i32[B, N]");
    check_text_type("graph g(a: f32[N+2, N]) { l, p, q = lu(a) return p }", "i32[N]");
    check_text_type("graph g(a: f32[N+2, N]) { q, r = qr(a) return r }", "f32[N, N]");
    check_text_type("graph g(a: c64[B, N, N]) { s, l = slogdet(a) return l }", "f32[B]");
    check_text_type("graph g(a: c64[B, N, N]) { return det(a) }", "c64[B]");
}
