/* SPDX-License-Identifier: Apache-2.0 */
/* solve_route.c: factors and solves of dense matrices by blocks and by a LAPACK, judged by what is left over:
   elementwise backward errors (Higham, Accuracy and Stability of Numerical Algorithms, theorems 8.5, 9.3, 9.4 and
   10.3), which hold for any order of the sums. */
#include "backend/cpu/linalg/lapack.h"
#include "node_case.h"
#include "ops/opcode.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const engines[] = {"blocks", "lapack"};

static node_case matrix_case(flxi_opcode op, int32_t dtype, int64_t batch, int64_t m, int64_t n, uint64_t *seed)
{
    node_case c = {.op = op, .nin = 1, .nout = op == OP_lu ? 3 : 1};
    int64_t steps = m < n ? m : n;
    c.types[0] = c.types[1] = type_of(dtype, 3, (int64_t[]){batch, m, n});
    c.types[2] = type_of(FLX_I32, 2, (int64_t[]){batch, steps});
    c.types[3] = type_of(FLX_I32, 2, (int64_t[]){batch, m});
    c.data[0] = node_case_random(&c.types[0], seed);
    return c;
}

/* ---- lu ---- */

/* |a[perm] - L U| <= n u |L| |U| */
static void check_factors(const node_case *c, int64_t which, int64_t m, int64_t n)
{
    int64_t steps = m < n ? m : n;
    int64_t first = which * m * n;
    const int32_t *perm = (const int32_t *)c->data[3] + which * m;
    double unit = node_case_unit(c->types[0].dtype);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            long double sum = 0;
            long double size = 0;
            for (int64_t k = 0; k <= i && k <= j && k < steps; k++) {
                double l = k == i ? 1.0 : at(c, 1, first + i * n + k);
                long double term = (long double)l * at(c, 1, first + k * n + j);
                CHECK(fabs(l) <= 1);
                sum += term;
                size += fabsl(term);
            }
            CHECK_NEAR(at(c, 0, first + perm[i] * n + j), (double)sum, 2.0 * (double)(steps + 1) * unit * (double)size);
        }
}

static void check_pivots(const node_case *c, int64_t which, int64_t m, int64_t steps)
{
    const int32_t *pivots = (const int32_t *)c->data[2] + which * steps;
    const int32_t *perm = (const int32_t *)c->data[3] + which * m;
    int32_t rows[200];
    for (int32_t i = 0; i < m; i++)
        rows[i] = i;
    for (int64_t k = 0; k < steps; k++) {
        CHECK(pivots[k] >= k && pivots[k] < m);
        int32_t t = rows[k];
        rows[k] = rows[pivots[k]];
        rows[pivots[k]] = t;
    }
    CHECK(memcmp(rows, perm, (size_t)m * sizeof *rows) == 0);
}

static void check_lu(const char *engine, int32_t dtype, int64_t batch, int64_t m, int64_t n)
{
    uint64_t seed = test_seed() + (uint64_t)(m * 1000 + n);
    node_case c = matrix_case(OP_lu, dtype, batch, m, n, &seed);
    test_fail_context("lu %s %s[%lld, %lld, %lld]", engine, flx_dtype_name(dtype), (long long)batch, (long long)m,
                      (long long)n);
    node_case_run(&c, engine);
    for (int64_t i = 0; i < batch; i++) {
        check_pivots(&c, i, m, m < n ? m : n);
        check_factors(&c, i, m, n);
    }
    CHECK_EQ_U64(c.status, 0);
    node_case_free(&c);
}

/* ---- Systems ---- */

/* |T| |x| in row i, added to a sum. */
typedef struct {
    long double sum, size;
} row_sum;

/* |b - a x| <= 3 n u |L| |U| |x| with the factors that the same engine finds; `sides` columns of x and b. */
static void check_residual(const char *engine, const node_case *c, const void *a, const double *b, const double *x,
                           int64_t n, int64_t sides)
{
    node_case f = {.op = OP_lu, .nin = 1, .nout = 3};
    int32_t dtype = c->types[0].dtype;
    f.types[0] = f.types[1] = type_of(dtype, 2, (int64_t[]){n, n});
    f.types[2] = f.types[3] = type_of(FLX_I32, 1, (int64_t[]){n});
    f.data[0] = (void *)(uintptr_t)a;
    node_case_run_once(&f, engine, 1);
    double *lux = malloc((size_t)n * sizeof *lux);
    for (int64_t s = 0; s < sides; s++) {
        for (int64_t i = 0; i < n; i++) {
            lux[i] = 0;
            for (int64_t k = i; k < n; k++)
                lux[i] += fabs(at(&f, 1, i * n + k) * x[k * sides + s]);
        }
        for (int64_t i = 0; i < n; i++) {
            int64_t row = ((const int32_t *)f.data[3])[i];
            double size = lux[i];
            long double left = b[row * sides + s];
            for (int64_t k = 0; k < i; k++)
                size += fabs(at(&f, 1, i * n + k)) * lux[k];
            for (int64_t k = 0; k < n; k++)
                left -= (long double)flxi_load_double(dtype, a, row * n + k) * x[k * sides + s];
            CHECK_NEAR((double)left, 0, 3.0 * (double)(n + 2) * node_case_unit(dtype) * size);
        }
    }
    free(lux);
    node_case_free_results(&f);
}

static double *widened(int32_t dtype, const void *data, int64_t first, int64_t count)
{
    double *x = malloc((size_t)count * sizeof *x + 1);
    for (int64_t i = 0; i < count; i++)
        x[i] = flxi_load_double(dtype, data, first + i);
    return x;
}

/* Batches of a and b, one of which may be 1: it then serves all. */
static void check_solve(const char *engine, int32_t dtype, int64_t a_batch, int64_t b_batch, int64_t n, int64_t sides)
{
    uint64_t seed = test_seed() + (uint64_t)(n * 1000 + sides);
    int64_t batch = a_batch > b_batch ? a_batch : b_batch;
    node_case c = {.op = OP_solve, .nin = 2, .nout = 1};
    c.types[0] = type_of(dtype, 3, (int64_t[]){a_batch, n, n});
    c.types[1] = type_of(dtype, sides ? 3 : 2, (int64_t[]){b_batch, n, sides});
    c.types[2] = type_of(dtype, sides ? 3 : 2, (int64_t[]){batch, n, sides});
    c.data[0] = node_case_random(&c.types[0], &seed);
    c.data[1] = node_case_random(&c.types[1], &seed);
    test_fail_context("solve %s %s a[%lld, %lld, %lld] b[%lld, .., %lld]", engine, flx_dtype_name(dtype),
                      (long long)a_batch, (long long)n, (long long)n, (long long)b_batch, (long long)sides);
    node_case_run(&c, engine);
    CHECK_EQ_U64(c.status, 0);
    int64_t k = sides ? sides : 1; /* 0: vectors */
    for (int64_t i = 0; i < batch; i++) {
        double *b = widened(dtype, c.data[1], (b_batch == 1 ? 0 : i) * n * k, n * k);
        double *x = widened(dtype, c.data[2], i * n * k, n * k);
        const char *a = (const char *)c.data[0] + (size_t)((a_batch == 1 ? 0 : i) * n * n) * flx_dtype_size(dtype);
        check_residual(engine, &c, a, b, x, n, k);
        free(b);
        free(x);
    }
    node_case_free(&c);
}

static void check_inverse(const char *engine, int32_t dtype, int64_t batch, int64_t n)
{
    uint64_t seed = test_seed() + (uint64_t)n;
    node_case c = matrix_case(OP_inv, dtype, batch, n, n, &seed);
    test_fail_context("inv %s %s[%lld, %lld]", engine, flx_dtype_name(dtype), (long long)batch, (long long)n);
    node_case_run(&c, engine);
    CHECK_EQ_U64(c.status, 0);
    double *b = calloc((size_t)(n * n), sizeof *b);
    for (int64_t i = 0; i < n; i++)
        b[i * n + i] = 1;
    for (int64_t i = 0; i < batch; i++) {
        double *x = widened(dtype, c.data[1], i * n * n, n * n);
        check_residual(engine, &c, (const char *)c.data[0] + (size_t)(i * n * n) * flx_dtype_size(dtype), b, x, n, n);
        free(x);
    }
    free(b);
    node_case_free(&c);
}

/* ---- solve_triangular ---- */

enum { LOWER, TRANS, UNIT, LEFT }; /* attributes in order */

/* Element (i, j) of op(t), of which only the documented triangle counts. */
static double triangle_at(const node_case *c, int64_t n, int64_t i, int64_t j)
{
    int64_t row = c->attrs[TRANS] ? j : i;
    int64_t col = c->attrs[TRANS] ? i : j;
    if (row == col && c->attrs[UNIT])
        return 1;
    return (c->attrs[LOWER] ? col <= row : col >= row) ? at(c, 0, row * n + col) : 0;
}

/* |b - T x| <= n u |T| |x|, in columns or rows. */
static void check_triangle_residual(const node_case *c, int64_t batch, int64_t n, int64_t sides)
{
    bool left = c->attrs[LEFT];
    for (int64_t s = 0; s < batch * sides; s++)
        for (int64_t i = 0; i < n; i++) {
            int64_t base = s / sides * n * sides;
            int64_t side = s % sides;
            int64_t own = left ? base + i * sides + side : base + side * n + i;
            row_sum r = {0};
            for (int64_t j = 0; j < n; j++) {
                int64_t other = left ? base + j * sides + side : base + side * n + j;
                double t = left ? triangle_at(c, n, i, j) : triangle_at(c, n, j, i);
                long double term = (long double)t * at(c, 2, other);
                r.sum += t == 0 ? 0 : term;
                r.size += t == 0 ? 0 : fabsl(term);
            }
            CHECK_NEAR(at(c, 1, own), (double)r.sum,
                       (double)(n + 2) * node_case_unit(c->types[0].dtype) * (double)r.size);
        }
}

/* What is not read is NaN. Diagonals are large: triangles of random numbers have inverses beyond any range. */
static void spoil_other_triangle(node_case *c, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            bool is_read = i == j ? !c->attrs[UNIT] : c->attrs[LOWER] ? j < i : j > i;
            double x = at(c, 0, i * n + j);
            flxi_store_double(c->types[0].dtype, c->data[0], i * n + j, !is_read ? NAN : i == j ? 2 + x : x / 8);
        }
}

static void check_triangular(const char *engine, int32_t dtype, int way, int64_t batch, int64_t n, int64_t sides)
{
    uint64_t seed = test_seed() + (uint64_t)(n * 1000 + sides);
    node_case c = {.op = OP_solve_triangular, .nin = 2, .nout = 1};
    c.attrs[LOWER] = way & 1;
    c.attrs[TRANS] = way & 2 ? 1 + (way & 1) : 0; /* transpose and adjoint: the same for real numbers */
    c.attrs[UNIT] = (way & 4) != 0;
    c.attrs[LEFT] = (way & 8) != 0;
    c.types[0] = type_of(dtype, 2, (int64_t[]){n, n});
    c.types[1] = c.types[2] =
        type_of(dtype, 3, (int64_t[]){batch, c.attrs[LEFT] ? n : sides, c.attrs[LEFT] ? sides : n});
    c.data[0] = node_case_random(&c.types[0], &seed);
    c.data[1] = node_case_random(&c.types[1], &seed);
    spoil_other_triangle(&c, n);
    test_fail_context("solve_triangular %s %s n %lld sides %lld way %d", engine, flx_dtype_name(dtype), (long long)n,
                      (long long)sides, way);
    node_case_run(&c, engine);
    CHECK_EQ_U64(c.status, 0);
    check_triangle_residual(&c, batch, n, sides);
    node_case_free(&c);
}

/* ---- cholesky ---- */

/* Not symmetric itself, but its symmetric part is positive definite. */
static void make_definite(node_case *c, int64_t batch, int64_t n)
{
    for (int64_t i = 0; i < batch * n; i++) {
        int64_t diagonal = i / n * n * n + i % n * (n + 1);
        flxi_store_double(c->types[0].dtype, c->data[0], diagonal, (double)n + at(c, 0, diagonal));
    }
}

static void check_cholesky(const char *engine, int32_t dtype, bool lower, int64_t batch, int64_t n)
{
    uint64_t seed = test_seed() + (uint64_t)n;
    node_case c = matrix_case(OP_cholesky, dtype, batch, n, n, &seed);
    c.attrs[0] = lower;
    make_definite(&c, batch, n);
    test_fail_context("cholesky %s %s[%lld, %lld] lower %d", engine, flx_dtype_name(dtype), (long long)batch,
                      (long long)n, lower);
    node_case_run(&c, engine);
    CHECK_EQ_U64(c.status, 0);
    for (int64_t s = 0; s < batch; s++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                int64_t base = s * n * n;
                double mean = (at(&c, 0, base + i * n + j) + at(&c, 0, base + j * n + i)) / 2;
                row_sum r = {0};
                for (int64_t k = 0; k < n; k++) {
                    long double term = (long double)at(&c, 1, base + (lower ? i * n + k : k * n + i)) *
                                       at(&c, 1, base + (lower ? j * n + k : k * n + j));
                    r.sum += term;
                    r.size += fabsl(term);
                }
                CHECK_NEAR(mean, (double)r.sum, (double)(n + 3) * node_case_unit(dtype) * (double)r.size);
                if (lower ? j > i : j < i)
                    CHECK(at(&c, 1, base + i * n + j) == 0);
            }
    node_case_free(&c);
}

/* ---- Tests ---- */

static const int64_t extents[] = {1, 2, 3, 63, 64, 65, 130};
enum { NUM_EXTENTS = sizeof extents / sizeof *extents };

/* Each engine that is there, in both dtypes. */
static void with_engines(void (*check)(const char *engine, int32_t dtype))
{
    for (int e = 0; e < 2; e++)
        for (int d = 0; d < 2; d++)
            if (e == 0 || flxi_lapack_library(NULL))
                check(engines[e], d ? FLX_F32 : FLX_F64);
}

static void factor_extents(const char *engine, int32_t dtype)
{
    for (int i = 0; i < NUM_EXTENTS; i++)
        check_lu(engine, dtype, 1, extents[i], extents[i]);
    check_lu(engine, dtype, 4, 33, 33);
    check_lu(engine, dtype, 2, 100, 40);
    check_lu(engine, dtype, 2, 40, 100);
    check_lu(engine, dtype, 1, 5, 70);
    check_lu(engine, dtype, 1, 70, 5);
}

TEST(solve_route_lu_leaves_small_residuals)
{
    with_engines(factor_extents);
}

static void solve_extents(const char *engine, int32_t dtype)
{
    for (int i = 0; i < NUM_EXTENTS; i++) {
        check_solve(engine, dtype, 1, 1, extents[i], 0);
        check_solve(engine, dtype, 1, 1, extents[i], 5);
    }
    check_solve(engine, dtype, 5, 5, 40, 3);
    check_solve(engine, dtype, 1, 4, 64, 2);
    check_solve(engine, dtype, 4, 1, 20, 0);
    check_solve(engine, dtype, 1, 1, 64, 70);
    check_inverse(engine, dtype, 1, 65);
    check_inverse(engine, dtype, 3, 20);
}

TEST(solve_route_solutions_leave_small_residuals)
{
    with_engines(solve_extents);
}

static void triangular_extents(const char *engine, int32_t dtype)
{
    for (int way = 0; way < 16; way++) {
        for (int i = 0; i < NUM_EXTENTS - 1; i++)
            check_triangular(engine, dtype, way, 1, extents[i], 3);
        check_triangular(engine, dtype, way, 1, 130, 1);
        check_triangular(engine, dtype, way, 3, 20, 70);
    }
}

TEST(solve_route_triangles_leave_small_residuals)
{
    with_engines(triangular_extents);
}

static void cholesky_extents(const char *engine, int32_t dtype)
{
    for (int i = 0; i < NUM_EXTENTS; i++)
        check_cholesky(engine, dtype, i % 2, 1, extents[i]);
    check_cholesky(engine, dtype, true, 3, 40);
    check_cholesky(engine, dtype, false, 3, 40);
    check_cholesky(engine, dtype, true, 1, 230);
}

TEST(solve_route_cholesky_leaves_small_residuals)
{
    with_engines(cholesky_extents);
}

static bool is_finite_slice(const node_case *c, uint32_t k, int64_t first, int64_t count)
{
    for (int64_t i = first; i < first + count; i++)
        if (!isfinite(at(c, k, i)))
            return false;
    return true;
}

/* The middle one of three matrices has a column of zeros; b has zeros where the division takes place. */
static void solve_singular(const char *engine, int32_t dtype)
{
    enum { N = 65, K = 2 };
    uint64_t seed = test_seed();
    node_case c = {.op = OP_solve, .nin = 2, .nout = 1};
    c.types[0] = type_of(dtype, 3, (int64_t[]){3, N, N});
    c.types[1] = c.types[2] = type_of(dtype, 3, (int64_t[]){3, N, K});
    c.data[0] = node_case_random(&c.types[0], &seed);
    c.data[1] = node_case_random(&c.types[1], &seed);
    for (int64_t i = 0; i < N; i++)
        flxi_store_double(dtype, c.data[0], N * N + i * N + 5, 0);
    memset((char *)c.data[1] + N * K * flx_dtype_size(dtype), 0, N * K * flx_dtype_size(dtype));
    test_fail_context("%s %s", engine, flx_dtype_name(dtype));
    node_case_run(&c, engine);
    CHECK_EQ_U64(c.status, FLX_RUN_SINGULAR);
    CHECK(is_finite_slice(&c, 2, 0, N * K));
    CHECK(!is_finite_slice(&c, 2, N * K, N * K));
    CHECK(is_finite_slice(&c, 2, 2 * N * K, N * K));
    node_case_free(&c);
}

TEST(solve_route_tells_of_a_singular_slice)
{
    with_engines(solve_singular);
}

static void triangular_singular(const char *engine, int32_t dtype)
{
    enum { N = 65 };
    uint64_t seed = test_seed();
    for (int unit = 0; unit < 2; unit++) {
        node_case c = {
            .op = OP_solve_triangular, .nin = 2, .nout = 1, .attrs = {[LOWER] = 1, [UNIT] = unit, [LEFT] = 1}};
        c.types[0] = type_of(dtype, 2, (int64_t[]){N, N});
        c.types[1] = c.types[2] = type_of(dtype, 1, (int64_t[]){N});
        c.data[0] = node_case_random(&c.types[0], &seed);
        c.data[1] = calloc(N, sizeof(double));
        flxi_store_double(dtype, c.data[0], 40 * N + 40, 0);
        test_fail_context("%s %s unit %d", engine, flx_dtype_name(dtype), unit);
        node_case_run(&c, engine);
        CHECK_EQ_U64(c.status, unit ? 0 : FLX_RUN_SINGULAR);
        CHECK(is_finite_slice(&c, 2, 0, 40));
        CHECK(is_finite_slice(&c, 2, 40, N - 40) == (unit == 1));
        node_case_free(&c);
    }
}

TEST(solve_route_tells_of_a_singular_triangle)
{
    with_engines(triangular_singular);
}

static void cholesky_indefinite(const char *engine, int32_t dtype)
{
    enum { N = 66 };
    uint64_t seed = test_seed();
    static const double wrong[] = {-1, 0, NAN, INFINITY};
    for (int w = 0; w < 4; w++) {
        node_case c = matrix_case(OP_cholesky, dtype, 3, N, N, &seed);
        c.attrs[0] = 1;
        make_definite(&c, 3, N);
        flxi_store_double(dtype, c.data[0], N * N + 61 * (N + 1), wrong[w]);
        test_fail_context("%s %s %g", engine, flx_dtype_name(dtype), wrong[w]);
        node_case_run(&c, engine);
        CHECK_EQ_U64(c.status, FLX_RUN_SINGULAR);
        for (int64_t i = 0; i < 3 * N * N; i++)
            CHECK(isnan(at(&c, 1, i)) == (i / (N * N) == 1));
        node_case_free(&c);
    }
}

TEST(solve_route_gives_nan_for_an_indefinite_slice)
{
    with_engines(cholesky_indefinite);
}

static const char *reason(flxi_opcode op, const char *engine, int32_t dtype, int64_t n)
{
    const flx_type *types[5];
    node_case c = {.op = op, .nin = 1, .nout = op == OP_lu ? 3 : 1};
    c.types[0] = c.types[1] = type_of(dtype, 2, (int64_t[]){n, n});
    c.types[2] = c.types[3] = type_of(FLX_I32, 1, (int64_t[]){n});
    flxi_route_node node = node_case_node(&c, types);
    return route_named(op, engine)->applies(&node);
}

TEST(solve_route_says_why_not)
{
    static const flxi_opcode ops[] = {OP_inv, OP_lu, OP_cholesky};
    for (int i = 0; i < 3; i++) {
        for (int e = 0; e < 2; e++) {
            CHECK_EQ_STR(reason(ops[i], engines[e], FLX_C128, 64), "only f32 and f64");
            CHECK_EQ_STR(reason(ops[i], engines[e], FLX_F64, 0), "nothing to compute");
            CHECK_EQ_STR(reason(ops[i], engines[e], FLX_F32, 3), "too small for blocks to pay");
        }
        CHECK_EQ_STR(reason(ops[i], "blocks", FLX_F64, 64), NULL);
        CHECK_EQ_STR(reason(ops[i], "lapack", FLX_F64, 64), "too small for a library call to pay");
    }
}

/* A compiled run takes the route and passes on what it reports. */
TEST(solve_route_in_a_compiled_run)
{
    static const char text[] = "graph g(a: f64[2, 64, 64], b: f64[2, 64]) { return solve(a, b) }";
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "text", &err);
    CHECK_MSG(m, "%s", err.message);
    flx_type types[2] = {type_of(FLX_F64, 3, (int64_t[]){2, 64, 64}), type_of(FLX_F64, 2, (int64_t[]){2, 64})};
    flx_tensor *in[2];
    for (int k = 0; k < 2; k++) {
        in[k] = flx_tensor_new(ctx, &types[k], NULL, &err);
        memset(flx_tensor_data(in[k]), 0, node_case_bytes(&types[k]));
    }
    for (int i = 0; i < 64; i++) {
        ((double *)flx_tensor_data(in[0]))[i * 65] = 4; /* the second matrix stays zero */
        ((double *)flx_tensor_data(in[1]))[i] = 12;
    }
    flx_tensor *y = NULL;
    uint32_t status = 0;
    flx_run_options o = {.struct_size = sizeof o, .device = "cpu", .status = &status};
    flx_feed feeds[] = {{"a", in[0]}, {"b", in[1]}};
    CHECK_OK(flx_run(flx_module_graph(m, 0), &o, feeds, 2, &y, &err), &err);
    CHECK_EQ_U64(status, FLX_RUN_SINGULAR);
    for (int i = 0; i < 128; i++)
        CHECK(i < 64 ? ((double *)flx_tensor_data(y))[i] == 3 : isnan(((double *)flx_tensor_data(y))[i]));
    for (int k = 0; k < 2; k++)
        flx_tensor_release(in[k]);
    flx_tensor_release(y);
    flx_module_free(m);
    flx_context_free(ctx);
}
