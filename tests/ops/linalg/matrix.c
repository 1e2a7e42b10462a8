/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, powers and sparse matrices: corners, and constants of ops that are evaluated by their decomposition. Values:
   tests/oracle/matrix.py, tests/oracle/sparse.py. */
#include "ops/gradient_text.h"
#include "ops/symbolic_text.h"

#include <fluxion/ops.h>
#include <math.h>

TEST(norm_of_zeros_has_derivative_zero)
{
    const gradient_row zeros[] = {{"x", {0, 0, 0}, {0, 0, 0}}};
    static const char *const texts[] = {
        "graph g(x: f64[3]) { return norm(x) }",        "graph g(x: f64[3]) { return norm(x, ord=1) }",
        "graph g(x: f64[3]) { return norm(x, ord=3) }", "graph g(x: f64[3]) { return norm(x, ord=0.5) }",
        "graph g(x: f64[3]) { return norm(x, ord=0) }", "graph g(x: f64[3]) { return norm(x, ord=inf) }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_gradient(texts[i], zeros, 1);
    check_hessian_of_ones(texts[0], zeros, 1);
}

/* 3-4-5, at sizes whose squares are out of range. */
TEST(norm_has_derivatives_where_squares_overflow)
{
    const gradient_row large[] = {{"x", {3e200, -4e200}, {0.6, -0.8}}};
    const gradient_row small[] = {{"x", {3e-200, 4e-200}, {0.6, 0.8}}};
    check_gradient_near("graph g(x: f64[2]) { return norm(x) }", large, 1, 4e-16);
    check_gradient_near("graph g(x: f64[2]) { return norm(x) }", small, 1, 4e-16);
    check_gradient_near("graph g(x: f64[2]) { return norm(x, ord=2.0) }", small, 1, 4e-16);
}

/* A zero among other numbers has no slope either, although that of |x|^0.5 is infinite. */
TEST(norm_with_a_small_ord_has_no_infinite_derivative)
{
    const gradient_row rows[] = {{"x", {4, 0, 1}, {1.5, 0, 3}}};
    check_gradient_near("graph g(x: f64[3]) { return norm(x, ord=0.5) }", rows, 1, 4e-15);
}

TEST(matrix_power_of_zero_is_constant)
{
    const gradient_row rows[] = {{"a", {1, 2, 3, 4}, {0, 0, 0, 0}}};
    check_gradient("graph g(a: f64[2, 2]) { return matrix_power(a, n=0) }", rows, 1);
}

/* a = [[2, 0], [0, 4]]: the derivative of the sum of a^-1 is -a^-T 1 a^-T. */
TEST(matrix_power_takes_negative_exponents)
{
    const gradient_row rows[] = {{"a", {2, 0, 0, 4}, {-0.25, -0.125, -0.125, -0.0625}}};
    check_gradient("graph g(a: f64[2, 2]) { return matrix_power(a, n=-1) }", rows, 1);
}

/* Only the values on the pattern have a derivative: l = a^-T (1, 1), d_v[k] = -l[rows[k]] y[cols[k]]. With a = [[2,
   1], [0, 4]]: y = (1, 2), l = (0.5, 0.125). */
TEST(sparse_solve_has_derivatives_on_its_pattern)
{
    const gradient_row rows[] = {
        {"v", {2, 4, 1}, {-0.5, -0.25, -1}},
        {"b", {4, 8}, {0.5, 0.125}},
    };
    check_gradient("graph g(v: f64[3], b: f64[2]) { return sparse_solve(v, b, rows=[0, 1, 0], cols=[0, 1, 1], n=2) }",
                   rows, 2);
}

/* A band of 20000 rows: with all zeros stored it would be 3 GB, and take hours. Of a = tridiagonal (-1, 4, -1) and b
   = a 1 the solution is 1. */
TEST(sparse_solve_stores_no_zeros)
{
    enum { N = 20000, COUNT = 3 * N - 2 };
    static int64_t rows[COUNT], cols[COUNT];
    static double v[COUNT], b[N];
    size_t count = 0;
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "band");
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = i > 0 ? i - 1 : 0; j <= i + 1 && j < N; j++) {
            rows[count] = i;
            cols[count] = j;
            v[count++] = i == j ? 4.0 : -1.0;
            b[i] += i == j ? 4.0 : -1.0;
        }
    CHECK_EQ_U64(count, COUNT);
    flx_type tv = flx_type_make(FLX_F64, 1, (flx_dim[]){COUNT});
    flx_type tb = flx_type_make(FLX_F64, 1, (flx_dim[]){N});
    flx_val in[] = {flx_input(g, "v", &tv), flx_input(g, "b", &tb)};
    const flx_attr attrs[] = {flx_attr_ints("rows", (flx_ints){rows, COUNT}),
                              flx_attr_ints("cols", (flx_ints){cols, COUNT}), flx_attr_int("n", N)};
    flx_output(g, flx_op1(g, "sparse_solve", in, 2, attrs, 3), "x");
    flx_tensor *given[] = {flx_tensor_new(ctx, &tv, v, &err), flx_tensor_new(ctx, &tb, b, &err)};
    flx_tensor *x = NULL;
    CHECK_OK((int32_t)flx_run(g, ON_REF, (flx_feed[]){{"v", given[0]}, {"b", given[1]}}, 2, &x, &err), &err);
    for (int64_t i = 0; i < N; i++)
        CHECK_NEAR(flx_tensor_get(x, i), 1.0, 1e-15);
    flx_tensor_release(x);
    flx_tensor_release(given[0]);
    flx_tensor_release(given[1]);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(sparse_solve_of_a_singular_matrix_is_nan)
{
    static const char *const texts[] = {
        "graph g() { v = const(f64[3], [1, 2, 1]) b = const(f64[2], [1, 1])"
        "  return sparse_solve(v, b, rows=[0, 0, 1], cols=[0, 0, 0], n=2) }",
        "graph g() { v = const(f64[4], [1, 2, 2, 4]) b = const(f64[2], [1, 1])"
        "  return sparse_solve(v, b, rows=[0, 0, 1, 1], cols=[0, 1, 0, 1], n=2) }",
        "graph g() { v = const(f64[1], [1]) b = const(f64[2], [1, 1])"
        "  return sparse_solve(v, b, rows=[0], cols=[0], n=2) }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        text_run r = text_begin(texts[i]);
        CHECK_OK(r.code, &r.err);
        CHECK(isnan(flx_tensor_get(r.out[0], 0)) && isnan(flx_tensor_get(r.out[0], 1)));
        text_end(&r);
    }
}

/* Repeated positions are summed, and each of the values has the derivative of their sum. */
TEST(spmv_adds_what_is_in_one_place)
{
    const gradient_row rows[] = {
        {"v", {2, 3, 5}, {7, 7, 11}},
        {"x", {7, 11}, {5, 5}},
    };
    check_gradient("graph g(v: f64[3], x: f64[2]) { return spmv(v, x, rows=[1, 1, 0], cols=[0, 0, 1], n=3) }", rows, 2);
}

/* Constant folding must not evaluate ops through their decomposition: it has no device to run one. */
TEST(norm_of_a_constant_is_computed_at_run_time)
{
    text_run r = {.ctx = flx_context_new(NULL)};
    const char *text =
        "graph g() { x = const(f64[2], [3, 4]) return norm(x), trace(const(f64[2, 2], [[1, 2], [3, 4]])) }";
    flx_run_options o = {.struct_size = sizeof o, .device = "cpu"};
    r.module = flx_parse(r.ctx, text, strlen(text), "test", &r.err);
    CHECK(r.module != NULL);
    r.code = (int32_t)flx_run(flx_module_main(r.module), &o, NULL, 0, r.out, &r.err);
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), 5.0, 0);
    CHECK_NEAR(flx_tensor_get(r.out[1], 0), 5.0, 0);
    text_end(&r);
}

TEST(matrix_shapes_with_symbols)
{
    check_text_type("graph g(a: f32[B, N, N]) { return trace(a) }", "f32[B]");
    check_text_type("graph g(a: f32[N, 2], b: f32[B, 3, M]) { return kron(a, b) }", "f32[B, 3*N, 2*M]");
    check_text_type("graph g(x: c64[N, M]) { return norm(x, axes=[1], keep_dims=true) }", "f32[N, 1]");
    check_text_type("graph g(x: i8[B, N]) { return diag_set(x) }", "i8[B, N, N]");
    check_text_type("graph g(x: bool[N, N+1]) { return diag_extract(x) }", "bool[N]");
}
