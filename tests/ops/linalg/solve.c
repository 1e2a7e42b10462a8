/* SPDX-License-Identifier: Apache-2.0 */
/* Linear systems: which factors a gradient uses, singular matrices, which part of a triangle is read. Values:
   tests/oracle/solve.py. */
#include "graph/count_nodes.h"
#include "ops/gradient_text.h"
#include "ops/symbolic_text.h"

#include <math.h>
#include <string.h>

/* ---- Traps ---- */

/* a = diag(2i, 1 + i), b = (1, 2): x = (-i/2, 1 - i). From the cotangent 1 of each, d_b = a^-H 1 = (i/2, (1 + i)/2),
   and d_a = -d_b x^H. With a plain transpose d_b would be the conjugate. */
TEST(trap_34_complex_solve_with_plain_transpose)
{
    const gradient_row rows[] = {
        {"a", {0, 2, 0, 0, 0, 0, 1, 1}, {0.25, 0, 0.5, -0.5, 0.25, -0.25, 0, -1}},
        {"b", {1, 0, 2, 0}, {0, 0.5, 0.5, 0.5}},
    };
    check_gradient_near("graph g(a: c128[2, 2], b: c128[2]) { return solve(a, b) }", rows, 2, 1e-15);
}

/* a = [[2, 1], [0, 4]], b = (4, 8): x = (1, 2). With g = (1, 1): a^T l = g has l = (0.5, 0.125), and d_a = -l x^T.
   Taking g itself gives -1 in the first position, a^-1 g = (0.375, 0.25) gives -0.375. */
TEST(trap_35_solve_cotangent_solves_with_the_adjoint)
{
    const gradient_row rows[] = {
        {"a", {2, 1, 0, 4}, {-0.5, -1, -0.125, -0.25}},
        {"b", {4, 8}, {0.5, 0.125}},
    };
    check_gradient("graph g(a: f64[2, 2], b: f64[2]) { return solve(a, b) }", rows, 2);
    check_gradient("graph g(a: f64[2, 2], b: f64[2]) { return dense_solve(a, b) }", rows, 2);
    check_gradient("graph g(a: f64[1, 2, 2], b: f64[1, 2]) { return batched_dense_solve(a, b) }", rows, 2);
}

/* ---- How often a matrix is factored ---- */

/* Everything that factors: lu, and solve and inv, which do it inside. */
static size_t count_factorisations(const flx_graph *g)
{
    static const char *const ops[] = {"lu", "solve", "dense_solve", "batched_dense_solve", "inv"};
    size_t n = 0;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        n += count_nodes(g, ops[i]);
    return n;
}

static const char *const loss_text = "graph g(a: f64[3, 3], b: f64[3, 2]) { return reduce_sum(sin(solve(a, b))) }";

static flx_module *parse(flx_context *ctx, const char *text)
{
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    return m;
}

typedef flx_graph *transform(const flx_graph *g, flx_error *err);

static const char *const both[] = {"a", "b"};

static flx_graph *by_grad(const flx_graph *g, flx_error *err)
{
    return flx_grad(g, both, 2, NULL, err);
}

static flx_graph *by_jvp(const flx_graph *g, flx_error *err)
{
    return flx_jvp(g, both, 2, err);
}

static flx_graph *by_hvp(const flx_graph *g, flx_error *err)
{
    return flx_hvp(g, both, 2, NULL, err);
}

TEST(solve_is_factored_once_whatever_the_derivative)
{
    transform *const transforms[] = {by_grad, by_jvp, by_hvp};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = parse(ctx, loss_text);
    for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++) {
        flx_error err = {0};
        flx_graph *d = transforms[i](flx_module_main(m), &err);
        CHECK_OK(d ? FLX_OK : err.code, &err);
        CHECK_EQ_I64(count_factorisations(d), 1);
        flx_graph_release(d);
    }
    flx_module_free(m);
    flx_context_free(ctx);
}

/* Examples that share a are columns of one system; of examples with their own, each has its own. */
TEST(solve_of_a_batch_with_one_matrix_is_one_system)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = parse(ctx, "graph g(a: f64[3, 3], b: f64[3]) { return solve(a, b) }");
    flx_error err = {0};
    const flx_vmap_axis shared[] = {{"b", 0}};
    flx_graph *v = flx_vmap(flx_module_main(m), shared, 1, NULL, 0, 5, &err);
    CHECK_OK(v ? FLX_OK : err.code, &err);
    CHECK_EQ_I64(count_factorisations(v), 1);
    CHECK_EQ_I64(flx_val_type(v, flx_graph_find(v, "a"))->rank, 2);
    CHECK_EQ_I64(count_nodes(v, "expand") + count_nodes(v, "scan"), 0);
    flx_graph_release(v);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* ---- Singular matrices ---- */

/* Runs the text on a device; *status is what it reports. */
static text_run run_on(const char *text, const char *device, uint32_t *status)
{
    text_run r = {.ctx = flx_context_new(NULL)};
    flx_run_options o = {.struct_size = sizeof o, .device = device, .status = status};
    r.module = parse(r.ctx, text);
    r.code = (int32_t)flx_run(flx_module_main(r.module), &o, NULL, 0, r.out, &r.err);
    CHECK_OK(r.code, &r.err);
    return r;
}

/* Of three systems the second is singular. */
static void check_singular_slice(const char *text, const char *device)
{
    uint32_t status = 0;
    text_run r = run_on(text, device, &status);
    int64_t n = flx_tensor_count(r.out[0]) / 3;
    int64_t finite = 0;
    for (int64_t i = 0; i < 3 * n; i++) {
        bool is_finite = isfinite(flx_tensor_get(r.out[0], i)) != 0;
        CHECK_MSG(is_finite || i / n == 1, "element %lld of a regular system is not finite", (long long)i);
        finite += is_finite && i / n == 1;
    }
    CHECK_MSG(finite < n, "all of a singular system is finite");
    CHECK_EQ_U64(status, FLX_RUN_SINGULAR);
    text_end(&r);
}

TEST(solve_of_a_singular_matrix_spoils_only_its_own_system)
{
    static const char *const texts[] = {
        "graph g() { a = const(f64[3, 2, 2], [[[2, 1], [1, 3]], [[1, 2], [2, 4]], [[1, 0], [0, 1]]])"
        "  return solve(a, full(f64[3, 2], 1)) }",
        "graph g() { a = const(f64[3, 2, 2], [[[2, 1], [1, 3]], [[0, 0], [0, 0]], [[1, 0], [0, 1]]]) return inv(a) }",
        "graph g() { a = const(f64[3, 2, 2], [[[2, 1], [1, 3]], [[1, 2], [2, 0]], [[1, 0], [0, 1]]])"
        "  return solve_triangular(a, full(f64[3, 2], 1)) }",
        "graph g() { a = const(f64[3, 2, 2], [[[2, 1], [1, 3]], [[1, 2], [2, 1]], [[1, 0], [0, 1]]]) return "
        "cholesky(a) }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_singular_slice(texts[i], "ref");
        check_singular_slice(texts[i], "cpu");
    }
}

TEST(solve_of_regular_matrices_reports_nothing)
{
    uint32_t status = 7;
    text_run r =
        run_on("graph g() { a = const(f64[2, 2], [[0, 2], [4, 0]]) b = const(f64[2], [2, 4]) return solve(a, b) }",
               "ref", &status);
    CHECK_EQ_U64(status, 0);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), 1.0, 0);
    CHECK_NEAR(flx_tensor_get(r.out[0], 1), 1.0, 0);
    text_end(&r);
}

/* More right-hand sides than one tile, each solved as if it were alone. */
TEST(solve_for_many_right_hand_sides_is_solving_for_each)
{
    text_run r =
        text_begin("graph g() { u = rng_uniform(shape=[90, 90], dtype=f64, seed=3)"
                   "  a = add(u, mul(eye(n=90, dtype=f64), 9)) b = rng_uniform(shape=[90, 150], dtype=f64, seed=4)"
                   "  x = solve(a, b) one = solve(a, reshape(narrow(b, axis=1, start=140, len=1), shape=[90]))"
                   "  return reduce_max(abs(sub(matmul(a, x), b))),"
                   "    reduce_max(abs(sub(reshape(narrow(x, axis=1, start=140, len=1), shape=[90]), one))) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), 0.0, 1e-12);
    CHECK_NEAR(flx_tensor_get(r.out[1], 0), 0.0, 0);
    text_end(&r);
}

/* ---- What is read ---- */

/* The other triangle may hold anything, and so may a diagonal that is 1 by definition. */
TEST(solve_triangular_reads_one_triangle)
{
    text_run r =
        text_begin("graph g() { t = const(f64[2, 2], [[2, nan], [1, 4]]) b = const(f64[2], [2, 9])"
                   "  u = const(f64[2, 2], [[nan, 3], [inf, nan]])"
                   "  return solve_triangular(t, b), solve_triangular(u, b, lower=false, unit_diagonal=true) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), 1.0, 0);
    CHECK_NEAR(flx_tensor_get(r.out[0], 1), 2.0, 0);
    CHECK_NEAR(flx_tensor_get(r.out[1], 0), -25.0, 0);
    CHECK_NEAR(flx_tensor_get(r.out[1], 1), 9.0, 0);
    text_end(&r);
}

/* t = [[2, *], [1, 4]], b = (2, 9): x = (1, 2), l = t^-T (1, 1) = (0.375, 0.25). Above the diagonal there is no
   derivative. */
TEST(solve_triangular_has_derivatives_where_it_reads)
{
    const gradient_row rows[] = {
        {"t", {2, 5, 1, 4}, {-0.375, 0, -0.25, -0.5}},
        {"b", {2, 9}, {0.375, 0.25}},
    };
    const gradient_row unit[] = {
        {"t", {2, 5, 1, 4}, {0, 0, -2, 0}},
        {"b", {2, 9}, {0, 1}},
    };
    check_gradient("graph g(t: f64[2, 2], b: f64[2]) { return solve_triangular(t, b) }", rows, 2);
    check_gradient("graph g(t: f64[2, 2], b: f64[2]) { return solve_triangular(t, b, unit_diagonal=true) }", unit, 2);
}

/* ---- Shapes ---- */

TEST(solve_shapes_with_symbols)
{
    check_text_type("graph g(a: f32[B, N, N], b: f32[B, N]) { return solve(a, b) }", "f32[B, N]");
    check_text_type("graph g(a: f32[N, N], b: f32[B, N, K]) { return solve(a, b) }", "f32[B, N, K]");
    check_text_type("graph g(a: f32[N, 4], b: f32[4, K]) { return solve(a, b) }", "f32[4, K]");
    check_text_type("graph g(t: f32[N, N], b: f32[K, N]) { return solve_triangular(t, b, left_side=false) }",
                    "f32[K, N]");
    check_text_type("graph g(a: c64[B, N, N]) { return inv(a) }", "c64[B, N, N]");
}

TEST(solve_square_is_decided_when_bound)
{
    const char *text = "graph g(x: f32[N, 3]) { return solve(x, full(f32[3], 1)) }";
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 2, (flx_dim[]){3, 3}), &y, &err), &err);
    CHECK_CODE(run_text_at(text, flx_type_make(FLX_F32, 2, (flx_dim[]){4, 3}), &y, &err), FLX_E_SHAPE, &err);
}
