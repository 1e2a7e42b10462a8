/* SPDX-License-Identifier: Apache-2.0 */
/* Eigenvalues, singular values, matrix functions: repeated values, rank deficiency, phases, and NaN.
   Values: tests/oracle/spectrum.py; derivatives elsewhere: tests/oracle/functions/decompositions.py. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"

#include <math.h>
#include <stdio.h>

#define CHECK_ROW(text, ...) check_gradient((text), (const gradient_row[]){{"x", __VA_ARGS__}}, 1)

static double element(const text_run *r, int i, int64_t k)
{
    return flx_tensor_get(r->out[i], k);
}

static void check_identity(const text_run *r, int i, int64_t n)
{
    CHECK_EQ_I64(flx_tensor_count(r->out[i]), n * n);
    for (int64_t k = 0; k < n * n; k++)
        CHECK_NEAR(element(r, i, k), k % (n + 1) == 0, 1e-14);
}

/* ---- Hermitian matrices ---- */

TEST(eigh_reads_the_hermitian_part)
{
    text_run r = text_begin("graph main() {\n"
                            "  w, v = eigh(const(f64[2, 2], [[1, 4], [0, 3]]))\n"
                            "  p, q = eigh(const(f64[2, 2], [[1, 2], [2, 3]]))\n"
                            "  return w, v, p, q\n}");
    CHECK_OK(r.code, &r.err);
    CHECK(memcmp(flx_tensor_const_data(r.out[0]), flx_tensor_const_data(r.out[2]), 2 * sizeof(double)) == 0);
    CHECK(memcmp(flx_tensor_const_data(r.out[1]), flx_tensor_const_data(r.out[3]), 4 * sizeof(double)) == 0);
    CHECK_NEAR(element(&r, 0, 0), 2 - sqrt(5), 1e-15);
    text_end(&r);
}

/* (1, -1) and (1, 1), over sqrt 2: components that are equal except for rounding. The first is the anchor in both. */
TEST(eigh_vectors_have_a_sign_that_rounding_does_not_change)
{
    text_run r = text_begin("graph main() {\n"
                            "  w, v = eigh(const(f64[2, 2], [[2, 1], [1, 2]]))\n"
                            "  p, q = eigh(const(f64[2, 2], [[2.0000000000000004, 1], [1, 2]]))\n"
                            "  return v, q\n}");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 2; i++) {
        CHECK_NEAR(element(&r, i, 0), sqrt(0.5), 1e-14);
        CHECK_NEAR(element(&r, i, 1), sqrt(0.5), 1e-14);
        CHECK_NEAR(element(&r, i, 2), -sqrt(0.5), 1e-14);
        CHECK_NEAR(element(&r, i, 3), sqrt(0.5), 1e-14);
    }
    text_end(&r);
}

TEST(eigh_of_a_complex_matrix_has_real_positive_anchors)
{
    text_run r = text_begin("graph main() {\n"
                            "  w, v = eigh(const(c128[2, 2], [[[1, 0], [0, 2]], [[0, -2], [1, 0]]]))\n"
                            "  return w, real(v), imag(v)\n}");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(element(&r, 0, 0), -1, 1e-15);
    CHECK_NEAR(element(&r, 0, 1), 3, 1e-15);
    for (int k = 0; k < 2; k++) { /* the first component of both */
        CHECK_NEAR(element(&r, 1, k), sqrt(0.5), 1e-15);
        CHECK_NEAR(element(&r, 2, k), 0, 0);
    }
    text_end(&r);
}

/* Each eigenvalue of a multiple one has the derivative of its own vector; together they are those of the trace. */
TEST(eigh_repeated_eigenvalues_have_gradients)
{
    CHECK_ROW("graph f(x: f64[3, 3]) { w, v = eigh(x)  return reduce_sum(mul(w, square(w))) }",
              {2, 0, 0, 0, 2, 0, 0, 0, 5}, {12, 0, 0, 0, 12, 0, 0, 0, 75});
    CHECK_ROW("graph f(x: f64[2, 2]) { w, v = eigh(x)  return reduce_sum(exp(w)) }", {0, 0, 0, 0}, {1, 0, 0, 1});
    CHECK_ROW("graph f(x: c128[2, 2]) { w, v = eigh(x)  return reduce_sum(square(w)) }", {3, 0, 0, 0, 0, 0, 3, 0},
              {6, 0, 0, 0, 0, 0, 6, 0});
}

/* 1 / (w[j] - w[i]) would be an infinity. */
TEST(eigh_vectors_of_repeated_eigenvalues_have_derivative_zero)
{
    CHECK_ROW("graph f(x: f64[2, 2]) { w, v = eigh(x)  return reduce_sum(mul(v, const(f64[2, 2], [[1, 2], [3, 4]]))) }",
              {7, 0, 0, 7}, {0, 0, 0, 0});
    /* The second derivative of the values is one of the vectors: the contribution of the pair (2, off the diagonal) is
       missing, and there is no NaN. */
    check_hessian_of_ones("graph f(x: f64[2, 2]) { w, v = eigh(x)  return reduce_sum(square(w)) }",
                          (const gradient_row[]){{"x", {1, 0, 0, 1}, {2, 0, 0, 2}}}, 1);
}

TEST(eigh_of_nan_is_nan_in_that_matrix_only)
{
    text_run r = text_begin("graph main() {\n"
                            "  w, v = eigh(const(f32[2, 2, 2], [[[1, 0], [nan, 1]], [[1, 0], [0, 2]]]))\n"
                            "  p, q, s = svd(const(f32[2, 1, 2], [[[1, -inf]], [[3, 4]]]))\n"
                            "  return w, v, q, expm(const(f32[2, 1, 1], [[[inf]], [[0]]]))\n}");
    CHECK_OK(r.code, &r.err);
    for (int k = 0; k < 4; k++) {
        CHECK_EQ_I64(isnan(element(&r, 1, k)), 1);
        CHECK_EQ_I64(element(&r, 1, 4 + k), k % 3 == 0);
    }
    CHECK_EQ_I64(isnan(element(&r, 0, 1)), 1);
    CHECK_EQ_I64(element(&r, 0, 3), 2);
    CHECK_EQ_I64(isnan(element(&r, 2, 0)), 1);
    CHECK_NEAR(element(&r, 2, 1), 5, 0);
    CHECK_EQ_I64(isnan(element(&r, 3, 0)), 1);
    CHECK_NEAR(element(&r, 3, 1), 1, 0);
    text_end(&r);
}

/* Numbers whose squares leave the range of double. */
TEST(spectra_of_huge_and_tiny_matrices_do_not_overflow)
{
    text_run r = text_begin("graph main() {\n"
                            "  w, v = eigh(const(f64[2, 2], [[0, 1e300], [1e300, 0]]))\n"
                            "  u, s, vt = svd(const(f64[2, 2], [[3e-300, 0], [4e-300, 0]]))\n"
                            "  return w, s, real(eig(const(f64[2, 2], [[0, 1e-300], [1e-300, 0]])))\n}");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(element(&r, 0, 1), 1e300, 1e285);
    CHECK_NEAR(element(&r, 1, 0), 5e-300, 1e-315);
    CHECK_NEAR(element(&r, 1, 1), 0, 0);
    CHECK_NEAR(element(&r, 2, 1), 1e-300, 1e-315);
    text_end(&r);
}

/* Matrices of norm 12 at most: 40 terms, each off by some units, in each of three products. */
TEST(spectra_of_larger_matrices_have_small_residuals)
{
    text_run r =
        text_begin("graph main() {\n"
                   "  a = reshape(sin(square(iota(f64[1600]))), shape=[40, 40])\n"
                   "  h = add(a, transpose(a))\n"
                   "  w, v = eigh(h)\n"
                   "  z, x = eig_pairs(a)\n"
                   "  u, s, vt = svd(a)\n"
                   "  return reduce_max(abs(sub(matmul(h, v), mul(v, reshape(w, shape=[1, 40]))))),\n"
                   "    reduce_max(abs(sub(matmul(cast(a, to=c128), x), mul(x, reshape(z, shape=[1, 40]))))),\n"
                   "    reduce_max(abs(sub(a, matmul(mul(u, reshape(s, shape=[1, 40])), vt)))), reduce_max(s)\n}");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 3; i++)
        CHECK(element(&r, i, 0) < 1e-12);
    CHECK(element(&r, 3, 0) < 14);
    text_end(&r);
}

/* ---- General matrices ---- */

TEST(eig_of_a_real_matrix_gives_exact_pairs)
{
    text_run r =
        text_begin("graph main() {\n"
                   "  w = eig(const(f64[4, 4], [[1, -2, 0, 1], [3, 1, 1, 0], [0, 1, -1, 2], [1, 0, -3, -1]]))\n"
                   "  return real(w), imag(w)\n}");
    CHECK_OK(r.code, &r.err);
    for (int64_t k = 0; k < 4; k += 2) {
        CHECK_NEAR(element(&r, 0, k), element(&r, 0, k + 1), 0);
        CHECK_NEAR(element(&r, 1, k), -element(&r, 1, k + 1), 0);
        CHECK(element(&r, 1, k) < 0);
    }
    text_end(&r);
}

/* Triangular matrices keep their diagonal; a defective one has one vector, twice. */
TEST(eig_of_a_defective_matrix_is_finite)
{
    text_run r = text_begin("graph main() {\n"
                            "  w, v = eig_pairs(const(f64[2, 2], [[1, 1], [0, 1]]))\n"
                            "  return real(w), real(v), imag(w)\n}");
    CHECK_OK(r.code, &r.err);
    for (int64_t k = 0; k < 2; k++) {
        CHECK_NEAR(element(&r, 0, k), 1, 0);
        CHECK_NEAR(element(&r, 1, k), 1, 1e-15);
        CHECK_NEAR(element(&r, 1, 2 + k), 0, 1e-15);
        CHECK_NEAR(element(&r, 2, k), 0, 0);
    }
    text_end(&r);
}

/* The real part of an eigenvalue of a pair: w = 1 + 2i and 1 - 2i. */
TEST(eig_gradient_of_a_rotation)
{
    check_reverse("graph f(x: f64[2, 2]) { return reduce_sum(real(eig(x))) }",
                  (const gradient_row[]){{"x", {1, -2, 2, 1}, {1, 0, 0, 1}}}, 1);
}

/* ---- Singular values ---- */

TEST(svd_of_the_zero_matrix_has_orthonormal_vectors)
{
    text_run r = text_begin("graph main() {\n"
                            "  u, s, vt = svd(full(f64[3, 2], 0))\n"
                            "  return s, matmul(transpose(u), u), matmul(vt, transpose(vt))\n}");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(element(&r, 0, 0), 0, 0);
    check_identity(&r, 1, 2);
    check_identity(&r, 2, 2);
    text_end(&r);
}

TEST(svd_repeated_singular_values_have_gradients)
{
    CHECK_ROW("graph f(x: f64[2, 2]) { u, s, vt = svd(x)  return reduce_sum(square(s)) }", {3, 0, 0, 3}, {6, 0, 0, 6});
    CHECK_ROW("graph f(x: f64[2, 3]) { u, s, vt = svd(x)  return reduce_sum(exp(s)) }", {0}, {1, 0, 0, 0, 1, 0});
}

/* 1 / (s[j]^2 - s[i]^2) and 1 / s would be infinities. */
TEST(svd_vectors_of_degenerate_matrices_have_finite_derivatives)
{
    static const char text[] = "graph f(x: f64[3, 2]) { u, s, vt = svd(x)\n"
                               "  return add(reduce_sum(mul(u, u)), reduce_sum(mul(vt, reverse(vt, axes=[0])))) }";
    CHECK_ROW(text, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0});
    CHECK_ROW(text, {1, 0, 0, 1, 0, 0}, {0, 0, 0, 0, 0, 0});
}

/* d_A of sum(u) by the masked rule alone would be NaN times 0 where the second singular value is 0. */
TEST(svd_of_missing_rank_keeps_the_derivative_of_what_is_there)
{
    CHECK_ROW("graph f(x: f64[2, 2]) { u, s, vt = svd(x)  return reduce_sum(narrow(s, axis=0, start=0, len=1)) }",
              {4, 0, 0, 0}, {1, 0, 0, 0});
}

/* ---- Functions of singular values ---- */

TEST(pinv_of_missing_rank_has_the_derivative_at_fixed_rank)
{
    static const char text[] =
        "graph f(x: f64[2, 2]) { y = reshape(pinv(x), shape=[4])  return reduce_sum(mul(y, const(f64[4], [%s]))) }";
    static const struct {
        const char *weights;
        double want[4];
    } rows[] = {
        {"1, 0, 0, 0", {-0.25, 0, 0, 0}},
        {"0, 1, 0, 0", {0, 0, 0.25, 0}}, /* y[0][1] moves with x[1][0] */
        {"0, 0, 0, 1", {0, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char graph[200];
        gradient_row row = {"x", {2, 0, 0, 0}, {0}};
        memcpy(row.want, rows[i].want, sizeof rows[i].want);
        snprintf(graph, sizeof graph, text, rows[i].weights);
        check_gradient(graph, &row, 1);
    }
}

/* At the identity u changes by the skew part of the change of x, and p by the symmetric part. Through svd, which
   counts equal singular values as zero contributions, all of it would be lost. */
TEST(polar_is_smooth_where_singular_values_are_equal)
{
    CHECK_ROW(
        "graph f(x: f64[2, 2]) { u, p = polar(x)  return reduce_sum(mul(u, const(f64[2, 2], [[0, 1], [0, 0]]))) }",
        {1, 0, 0, 1}, {0, 0.5, -0.5, 0});
    CHECK_ROW(
        "graph f(x: f64[2, 2]) { u, p = polar(x)  return reduce_sum(mul(p, const(f64[2, 2], [[3, 2], [0, 0]]))) }",
        {1, 0, 0, 1}, {3, 1, 1, 0});
}

TEST(polar_of_the_zero_matrix_has_finite_derivatives)
{
    text_run r = text_begin("graph main() { u, p = polar(full(f64[2, 2], 0))  return matmul(u, transpose(u)), p }");
    CHECK_OK(r.code, &r.err);
    check_identity(&r, 0, 2);
    for (int64_t k = 0; k < 4; k++)
        CHECK_NEAR(element(&r, 1, k), 0, 0);
    text_end(&r);
    CHECK_ROW("graph f(x: f64[2, 2]) { u, p = polar(x)  return reduce_sum(u) }", {0}, {0});
}

TEST(cond_of_singular_and_of_empty_matrices)
{
    text_run r = text_begin("graph main() { return cond(const(f64[2, 2], [[1, 1], [1, 1]])), cond(full(f64[2, 0], 1)),"
                            "  cond(const(f64[2, 2], [[0, 8], [2, 0]])) }");
    CHECK_OK(r.code, &r.err);
    CHECK(element(&r, 0, 0) > 1e15);
    CHECK(isnan(element(&r, 1, 0)));
    CHECK_NEAR(element(&r, 2, 0), 4, 0);
    text_end(&r);
}

TEST(lstsq_of_missing_rank_gives_the_shortest_solution)
{
    text_run r = text_begin("graph main() { return lstsq(const(f64[2, 2], [[1, 1], [1, 1]]), const(f64[2], [2, 4])) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(element(&r, 0, 0), 1.5, 1e-15);
    CHECK_NEAR(element(&r, 0, 1), 1.5, 1e-15);
    text_end(&r);
}

/* ---- expm ---- */

/* The derivative at 0 is the identity map; the Hessian along ones is what a a / 2 gives. */
TEST(expm_at_zero_has_the_derivatives_of_its_series)
{
    CHECK_ROW("graph f(x: f64[2, 2]) { return reduce_sum(mul(expm(x), const(f64[2, 2], [[1, 2], [3, 4]]))) }",
              {0, 0, 0, 0}, {1, 2, 3, 4});
    check_hessian_of_ones("graph f(x: f64[1, 1]) { return reduce_sum(expm(x)) }",
                          (const gradient_row[]){{"x", {0}, {1}}}, 1);
}

TEST(expm_of_large_rotations_keeps_their_length)
{
    text_run r = text_begin("graph main() {\n"
                            "  y = expm(const(f64[2, 2], [[0, -1000], [1000, 0]]))\n"
                            "  return y, matmul(transpose(y), y)\n}");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(element(&r, 0, 0), cos(1000),
               1e-11); /* rounding of the angle: 1000 times 2^-53, twice for each squaring */
    CHECK_NEAR(element(&r, 1, 0), 1, 1e-11);
    text_end(&r);
}

/* Elements beyond the range of double are infinite with their sign, and do not spoil the others. Values by mpmath. */
TEST(expm_of_large_matrices_has_no_nan)
{
    static const struct {
        const char *matrix;
        double value[4];
    } rows[] = {
        {"[[1000, 1], [0, 0]]", {INFINITY, INFINITY, 0, 1}},
        {"[[1000, 0], [0, 1]]", {INFINITY, 0, 0, 2.7182818284590452}},
        {"[[1000, 3], [2, 900]]", {INFINITY, INFINITY, INFINITY, INFINITY}},
        {"[[0, -800], [-800, -1]]", {INFINITY, -INFINITY, -INFINITY, INFINITY}},
        {"[[-1000000, 500000], [250000, -700000]]", {0, 0, 0, 0}},
        {"[[705, -20], [15, 700]]",
         {-3.5043166244738281e+304, 1.4278006279514418e+305, -1.0708504709635813e+305, 6.5184945404776334e+302}},
        {"[[300, 200], [-100, 50]]",
         {-1.3105017869257606e+76, -5.1437782180670757e+75, 2.5718891090335379e+75, -6.6752950966737616e+75}},
        {"[[1e308, 0], [1e308, -1e308]]", {INFINITY, 0, INFINITY, 0}},
        {"[[-1e308, 0], [0, -1e308]]", {0, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[160];
        snprintf(text, sizeof text, "graph main() { return expm(const(f64[2, 2], %s)) }", rows[i].matrix);
        text_run r = text_begin(text);
        CHECK_OK(r.code, &r.err);
        for (int k = 0; k < 4; k++) {
            double y = element(&r, 0, k), want = rows[i].value[k];
            test_fail_context("%s, element %d: %.17g", rows[i].matrix, k, y);
            CHECK(isinf(want) || want == 0 ? y == want : fabs(y / want - 1) < 1e-9);
        }
        text_end(&r);
        test_count_case();
    }
}

/* ---- Errors ---- */

TEST(spectrum_errors_name_the_shapes)
{
    check_text_fails("graph g(x: f32[2, 3]) { w, v = eigh(x)  return w }", FLX_E_SHAPE,
                     "eigh 'w': a must contain square matrices: it is [2, 3]");
    check_text_fails("graph g(a: f32[3, 2], b: f32[2]) { y = lstsq(a, b)  return y }", FLX_E_SHAPE,
                     "lstsq 'y': b must have as many rows as a: a is [3, 2], b is [2]");
    check_text_fails("graph g(a: f32[3, 2]) { y = pinv(a, rcond=-0.5)  return y }", FLX_E_ATTRIBUTE,
                     "pinv 'y': rcond=-0.5 is negative");
}

/* ---- The Schur form ---- */

/* a = z t z^H, z^H z = 1, and what is below the diagonal of t: single elements, each with equal ones beside it. */
static void check_schur(const char *matrix, const char *type, int64_t n, bool is_real)
{
    char text[1200];
    snprintf(text, sizeof text,
             "graph main() {\n  a = const(%s, %s)\n  t, z = custom(a, name=\"fluxion.schur\")\n  zh = "
             "conjugate(transpose(z, perm=[1, 0]))\n"
             "  e = sub(matmul(matmul(z, t), zh), a)\n  return real(t), max(abs(real(e)), abs(imag(e))), "
             "real(matmul(zh, z))\n}",
             type, matrix);
    text_run r = text_begin(text);
    test_fail_context("%s", text);
    CHECK_OK(r.code, &r.err);
    for (int64_t k = 0; k < n * n && r.code == FLX_OK; k++) {
        int64_t i = k / n, j = k % n;
        double x = element(&r, 0, k);
        CHECK_NEAR(element(&r, 1, k), 0, 1e-13);
        CHECK_NEAR(element(&r, 2, k), i == j, 1e-14);
        if (i <= j || x == 0)
            continue;
        CHECK(is_real && i == j + 1);
        CHECK_NEAR(element(&r, 0, i * n + i), element(&r, 0, j * n + j), 0);
        CHECK(x * element(&r, 0, j * n + i) < 0 && (j == 0 || element(&r, 0, j * n + j - 1) == 0));
    }
    text_end(&r);
}

TEST(schur_of_matrices_with_pairs_and_without_vectors)
{
    static const char pairs[] =
        "[[4, 1, -2, 2, 7], [1, 2, 0, 1, -3], [-2, 5, 3, -2, 1], [2, 1, -2, -1, 0], [3, -8, 1, 2, 2]]";
    static const char jordan[] = "[[2, 1, 0, 0], [0, 2, 1, 0], [0, 0, 2, 1], [0, 0, 0, 2]]";
    static const char turned[] = "[[0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]";
    static const char zero[] = "[[0, 1], [0, 0]]", one[] = "[[-3]]", block[] = "[[1, 2], [-3, 5]]";
    static const char equal[] = "[[1, 0, 0], [0, 1, 0], [0, 0, 1]]";
    check_schur(pairs, "f64[5, 5]", 5, true);
    check_schur(jordan, "f64[4, 4]", 4, true);
    check_schur(turned, "f64[4, 4]", 4, true);
    check_schur(zero, "f64[2, 2]", 2, true);
    check_schur(block, "f64[2, 2]", 2, true);
    check_schur(one, "f64[1, 1]", 1, true);
    check_schur(equal, "f64[3, 3]", 3, true);
    check_schur("[[[1, 2], [3, 0]], [[0, -1], [2, 5]]]", "c128[2, 2]", 2, false);
    check_schur("[[[0, 0], [1, 0], [0, 1]], [[0, 0], [0, 0], [2, 0]], [[1, 1], [0, 0], [0, -3]]]", "c128[3, 3]", 3,
                false);
}

TEST(schur_of_matrices_that_are_not_finite)
{
    text_run r = text_begin(
        "graph main() {\n  t, z = custom(const(f64[2, 2], [[1, nan], [2, 3]]), name=\"fluxion.schur\")\n"
        "  p, q = custom(const(f32[2, 2], [[1, inf], [2, 3]]), name=\"fluxion.schur\")\n  return t, z, p, q\n}");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4 && r.code == FLX_OK; i++)
        CHECK(isnan(element(&r, i, 0)) && isnan(element(&r, i, 3)));
    text_end(&r);
}
