/* SPDX-License-Identifier: Apache-2.0 */
/* decomposition_route.c: qr, eigh, svd, pinv, cond and expm by their routes, judged by what they promise: products that
   give the matrix back, orthonormal vectors, order and signs; for all extents up to 70 and some larger ones, and
   matrices that are ill-conditioned, of missing rank, zero, huge, tiny or not finite. */
#include "backend/cpu/linalg/row_kernels.h"
#include "node_case.h"
#include "ops/opcode.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { RANDOM, LOW_RANK, GRADED, ZERO, IDENTITY, ONES, HUGE_ONE, TINY, KINDS } kind;

static const char *const kind_names[KINDS] = {"random",   "low rank", "graded", "zero",
                                              "identity", "ones",     "huge",   "tiny"};

/* Element (i, j) of a matrix of that kind before rounding; x is random. Low rank: the rows repeat. */
static double element_of(kind which, int32_t dtype, int64_t i, int64_t j, int64_t n, double x)
{
    double large = dtype == FLX_F64 ? 0x1p1000 : 0x1p100;
    switch (which) {
    case GRADED: return ldexp(x, (int)(-(i * 40 + j * 17) / n));
    case ZERO: return 0;
    case IDENTITY: return i == j;
    case ONES: return 1;
    case HUGE_ONE: return x * large;
    case TINY: return x / large;
    default: return x;
    }
}

static void fill(const node_case *c, kind which, int64_t batch, int64_t m, int64_t n)
{
    int64_t different = m / 3 + 1;
    for (int64_t k = 0; k < batch * m * n; k++) {
        int64_t i = k / n % m, j = k % n;
        int64_t source = which == LOW_RANK && i >= different ? k - (i - i % different) * n : k;
        double x = element_of(which, c->types[0].dtype, i, j, n, at(c, 0, source));
        flxi_store_double(c->types[0].dtype, c->data[0], k, x);
    }
}

static node_case case_of(flxi_opcode op, int32_t dtype, kind which, int64_t batch, int64_t m, int64_t n)
{
    uint64_t seed = test_seed() + (uint64_t)(m * 1000 + n);
    int64_t k = m < n ? m : n;
    node_case c = {.op = op, .nin = 1, .nout = op == OP_svd ? 3 : op == OP_qr || op == OP_eigh ? 2 : 1};
    flx_type *y = &c.types[1];
    c.types[0] = type_of(dtype, 3, (int64_t[]){batch, m, n});
    if (op == OP_qr) {
        y[0] = type_of(dtype, 3, (int64_t[]){batch, m, k});
        y[1] = type_of(dtype, 3, (int64_t[]){batch, k, n});
    } else if (op == OP_svd) {
        y[0] = type_of(dtype, 3, (int64_t[]){batch, m, k});
        y[1] = type_of(dtype, 2, (int64_t[]){batch, k});
        y[2] = type_of(dtype, 3, (int64_t[]){batch, k, n});
    } else if (op == OP_eigh) {
        y[0] = type_of(dtype, 2, (int64_t[]){batch, n});
        y[1] = type_of(dtype, 3, (int64_t[]){batch, n, n});
    } else if (op == OP_cond) {
        y[0] = type_of(dtype, 1, (int64_t[]){batch});
    } else {
        y[0] = type_of(dtype, 3, (int64_t[]){batch, n, m});
    }
    c.data[0] = node_case_random(&c.types[0], &seed);
    fill(&c, which, batch, m, n);
    test_fail_context("%s of %s %s[%lld, %lld, %lld]", flxi_ops[op].name, kind_names[which], flx_dtype_name(dtype),
                      (long long)batch, (long long)m, (long long)n);
    return c;
}

/* ---- What results promise ---- */

/* The square root of the sum of squares of matrix `which`, divided by `scale`. */
static double size_of(const node_case *c, int64_t which, int64_t m, int64_t n, double scale)
{
    double sum = 0;
    for (int64_t k = 0; k < m * n; k++) {
        double x = at(c, 0, which * m * n + k) / scale;
        sum += x * x;
    }
    return sqrt(sum);
}

static double scale_of(const node_case *c, int64_t which, int64_t count)
{
    double most = 0;
    for (int64_t k = 0; k < count; k++)
        most = fmax(most, fabs(at(c, 0, which * count + k)));
    return most > 0 ? most : 1;
}

/* A vector j of result r is at first + j * own + i * along for i < count. */
typedef struct {
    const node_case *c;
    uint32_t r;
    int64_t first, own, along, count;
} vectors;

static double component(const vectors *v, int64_t j, int64_t i)
{
    return at(v->c, v->r, v->first + j * v->own + i * v->along);
}

static void check_orthonormal(const vectors *v, int64_t num)
{
    double bound = 10 * (double)(v->count + 4) * node_case_unit(v->c->types[0].dtype);
    for (int64_t j = 0; j < num; j++)
        for (int64_t l = 0; l <= j; l++) {
            long double sum = 0;
            for (int64_t i = 0; i < v->count; i++)
                sum += (long double)component(v, j, i) * component(v, l, i);
            CHECK_NEAR((double)sum, j == l, bound);
        }
}

/* The first component of at least half the largest modulus is positive. */
static void check_anchors(const vectors *v, int64_t num)
{
    for (int64_t j = 0; j < num; j++) {
        double most = 0;
        int64_t i = 0;
        for (int64_t k = 0; k < v->count; k++)
            most = fmax(most, fabs(component(v, j, k)));
        while (fabs(component(v, j, i)) < 0.5 * most * (1 - 4 * node_case_unit(v->c->types[0].dtype)))
            i++;
        bool is_near = fabs(component(v, j, i)) < 0.5 * most * (1 + 1e-6); /* rounding may decide for another */
        CHECK(component(v, j, i) > 0 || is_near);
    }
}

static void check_qr(int32_t dtype, kind which, int64_t batch, int64_t m, int64_t n)
{
    node_case c = case_of(OP_qr, dtype, which, batch, m, n);
    int64_t k = m < n ? m : n;
    node_case_run(&c, "reflections");
    for (int64_t b = 0; b < batch; b++) {
        double scale = scale_of(&c, b, m * n);
        double bound = 10 * (double)(m + n + 4) * node_case_unit(dtype) * size_of(&c, b, m, n, scale);
        check_orthonormal(&(vectors){&c, 1, b * m * k, 1, k, m}, k);
        for (int64_t i = 0; i < k; i++) {
            CHECK(at(&c, 2, (b * k + i) * n + i) >= 0);
            for (int64_t j = 0; j < i; j++)
                CHECK(at(&c, 2, (b * k + i) * n + j) == 0);
        }
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                long double sum = 0;
                for (int64_t l = 0; l < k && l <= j; l++)
                    sum += (long double)at(&c, 1, (b * m + i) * k + l) * at(&c, 2, (b * k + l) * n + j);
                CHECK_NEAR((double)(sum / scale), at(&c, 0, (b * m + i) * n + j) / scale, bound);
            }
    }
    node_case_free(&c);
}

static void check_eigh(int32_t dtype, kind which, int64_t batch, int64_t n)
{
    node_case c = case_of(OP_eigh, dtype, which, batch, n, n);
    node_case_run(&c, "reflections");
    for (int64_t b = 0; b < batch; b++) {
        double scale = scale_of(&c, b, n * n);
        double bound = 10 * (double)(n + 4) * node_case_unit(dtype) * size_of(&c, b, n, n, scale);
        vectors v = {&c, 2, b * n * n, 1, n, n};
        check_orthonormal(&v, n);
        check_anchors(&v, n);
        for (int64_t j = 0; j < n; j++) {
            double w = at(&c, 1, b * n + j) / scale;
            CHECK(j == 0 || w >= at(&c, 1, b * n + j - 1) / scale);
            for (int64_t i = 0; i < n; i++) {
                long double sum = 0;
                for (int64_t k = 0; k < n; k++) {
                    double x = at(&c, 0, (b * n + i) * n + k) / scale, y = at(&c, 0, (b * n + k) * n + i) / scale;
                    sum += 0.5L * ((long double)x + y) * component(&v, j, k);
                }
                CHECK_NEAR((double)sum, w * component(&v, j, i), bound);
            }
        }
    }
    node_case_free(&c);
}

static void check_svd(int32_t dtype, kind which, int64_t batch, int64_t m, int64_t n)
{
    node_case c = case_of(OP_svd, dtype, which, batch, m, n);
    int64_t k = m < n ? m : n;
    node_case_run(&c, "reflections");
    for (int64_t b = 0; b < batch; b++) {
        double scale = scale_of(&c, b, m * n);
        double bound = 10 * (double)(m + n + 4) * node_case_unit(dtype) * size_of(&c, b, m, n, scale);
        vectors u = {&c, 1, b * m * k, 1, k, m}, v = {&c, 3, b * k * n, n, 1, n};
        check_orthonormal(&u, k);
        check_orthonormal(&v, k);
        check_anchors(&u, k);
        for (int64_t j = 0; j < k; j++) {
            CHECK(at(&c, 2, b * k + j) >= 0);
            CHECK(j == 0 || at(&c, 2, b * k + j) <= at(&c, 2, b * k + j - 1));
        }
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                long double sum = 0;
                for (int64_t l = 0; l < k; l++)
                    sum += (long double)component(&u, l, i) * (at(&c, 2, b * k + l) / scale) * component(&v, l, j);
                CHECK_NEAR((double)sum, at(&c, 0, (b * m + i) * n + j) / scale, bound);
            }
    }
    node_case_free(&c);
}

/* ---- Tests ---- */

static const int64_t larger[] = {96, 129, 200};

static void each_extent(void (*check)(int32_t dtype, kind which, int64_t n))
{
    bool is_quick = effort(EFFORT_laws_share) > 1;
    for (int64_t n = 1; n <= 70; n += is_quick && n > 9 ? 11 : 1)
        check(n % 3 ? FLX_F64 : FLX_F32, n % 2 ? RANDOM : (kind)(n / 2 % KINDS), n);
    for (int k = 0; k < KINDS; k++)
        for (int64_t n = 5; n <= 75; n += 35) {
            check(FLX_F64, (kind)k, n);
            check(FLX_F32, (kind)k, n);
        }
    for (size_t i = 0; i < sizeof larger / sizeof *larger && !is_quick; i++)
        check(FLX_F64, i == 1 ? LOW_RANK : RANDOM, larger[i]);
}

static void qr_extents(int32_t dtype, kind which, int64_t n)
{
    check_qr(dtype, which, n % 4 + 1, n, n);
    check_qr(dtype, which, 1, 2 * n + 3, n);
    check_qr(dtype, which, 1, n, n + n / 2 + 1);
}

TEST(decomposition_route_qr_gives_the_matrix_back)
{
    each_extent(qr_extents);
}

static void eigh_extents(int32_t dtype, kind which, int64_t n)
{
    check_eigh(dtype, which, n % 4 + 1, n);
}

TEST(decomposition_route_eigh_finds_eigenvectors)
{
    each_extent(eigh_extents);
}

static void svd_extents(int32_t dtype, kind which, int64_t n)
{
    check_svd(dtype, which, n % 4 + 1, n, n);
    check_svd(dtype, which, 1, 2 * n + 3, n);
    check_svd(dtype, which, 1, n, n + n / 2 + 1);
}

/* The quotient of the first and the last singular value, to the bit. */
static void check_cond(int32_t dtype, kind which, int64_t batch, int64_t m, int64_t n)
{
    int64_t k = m < n ? m : n;
    node_case c = case_of(OP_cond, dtype, which, batch, m, n), d = case_of(OP_svd, dtype, which, batch, m, n);
    node_case_run(&c, "reflections");
    node_case_run(&d, "reflections");
    for (int64_t b = 0; b < batch; b++) {
        double most = at(&d, 2, b * k), least = at(&d, 2, b * k + k - 1), got = at(&c, 1, b);
        double expected = dtype == FLX_F64 ? most / least : (double)((float)most / (float)least);
        CHECK_MSG(got == expected || (isnan(got) && isnan(expected)), "%g, not %g", got, expected);
    }
    node_case_free(&c);
    node_case_free(&d);
}

static void cond_extents(int32_t dtype, kind which, int64_t n)
{
    check_cond(dtype, which, 2, n, n);
    check_cond(dtype, which, 1, n + 5, n);
    check_cond(dtype, which, 1, n, n + 9);
}

TEST(decomposition_route_cond_is_that_of_svd)
{
    static const int64_t few[] = {4, 7, 16, 33, 70};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        for (int which = 0; which < KINDS; which++) {
            cond_extents(FLX_F64, (kind)which, few[i]);
            cond_extents(FLX_F32, (kind)which, few[i]);
        }
}

TEST(decomposition_route_svd_gives_the_matrix_back)
{
    each_extent(svd_extents);
}

/* Eigenvalues far apart, which only bisection or the right end to begin with find: the second difference, whose
   eigenvalues are known. */
TEST(decomposition_route_eigh_of_a_second_difference)
{
    enum { N = 90 };
    node_case c = case_of(OP_eigh, FLX_F64, ZERO, 1, N, N);
    double *a = c.data[0];
    for (int i = 0; i < N; i++) {
        a[i * N + i] = 2;
        if (i > 0)
            a[i * N + i - 1] = a[(i - 1) * N + i] = -1;
    }
    node_case_run(&c, "reflections");
    for (int i = 0; i < N; i++) {
        double s = sin((i + 1) * 0.5 * 3.14159265358979323846 / (N + 1));
        CHECK_NEAR(at(&c, 1, i), 4 * s * s, 1e-14);
    }
    node_case_free(&c);
}

/* A y A = A and y A y = y, for full and for missing rank. */
static void check_pinv(int32_t dtype, kind which, int64_t m, int64_t n)
{
    node_case c = case_of(OP_pinv, dtype, which, 1, m, n);
    double rcond = NAN;
    memcpy(c.attrs, &rcond, sizeof rcond);
    node_case_run(&c, "reflections");
    double *product = malloc((size_t)(m * m) * sizeof *product); /* A y */
    double size = 0;
    for (int64_t i = 0; i < m * n; i++)
        size = fmax(size, fabs(at(&c, 1, i)));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < m; j++) {
            product[i * m + j] = 0;
            for (int64_t k = 0; k < n; k++)
                product[i * m + j] += at(&c, 0, i * n + k) * at(&c, 1, k * m + j);
        }
    double bound = 10 * (double)(m * n) * node_case_unit(dtype) * (size + 1);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double back = 0, again = 0;
            for (int64_t k = 0; k < m; k++) {
                back += product[i * m + k] * at(&c, 0, k * n + j);
                again += at(&c, 1, j * m + k) * product[k * m + i];
            }
            CHECK_NEAR(back, at(&c, 0, i * n + j), bound);
            CHECK_NEAR(again, at(&c, 1, j * m + i), bound * (size + 1));
        }
    free(product);
    node_case_free(&c);
}

TEST(decomposition_route_pinv_is_an_inverse_where_there_is_one)
{
    for (int64_t n = 1; n <= 40; n += n < 8 ? 1 : 9) {
        check_pinv(FLX_F64, n % 2 ? RANDOM : LOW_RANK, n, n);
        check_pinv(FLX_F32, LOW_RANK, n + 5, n);
        check_pinv(FLX_F64, RANDOM, n, n + 7);
        check_pinv(FLX_F64, ZERO, n, n);
    }
}

/* A NaN or an infinity makes its matrix NaN and no other. */
TEST(decomposition_route_nan_spoils_its_own_matrix)
{
    static const flxi_opcode ops[] = {OP_eigh, OP_svd, OP_pinv, OP_expm};
    for (size_t o = 0; o < 4; o++)
        for (int bad = 0; bad < 2; bad++) {
            node_case c = case_of(ops[o], bad ? FLX_F32 : FLX_F64, RANDOM, 5, 20, 20);
            double rcond = NAN;
            memcpy(c.attrs, &rcond, sizeof rcond);
            flxi_store_double(c.types[0].dtype, c.data[0], 2 * 400 + 111, bad ? INFINITY : NAN);
            node_case_run(&c, ops[o] == OP_expm ? "products" : "reflections");
            for (uint32_t r = 1; r <= c.nout; r++) {
                int64_t each = flxi_route_count(&c.types[r]) / 5;
                for (int64_t i = 0; i < 5 * each; i++)
                    CHECK_EQ_I64(isnan(at(&c, r, i)) != 0, i / each == 2);
            }
            node_case_free(&c);
        }
}

/* ---- expm ---- */

/* e^a e^-a = 1, for norms that each approximant is for. */
TEST(decomposition_route_expm_of_opposite_matrices)
{
    static const double sizes[] = {0.005, 0.1, 0.4, 1, 3, 12};
    for (int64_t n = 1; n <= 70; n += n < 8 ? 1 : 31)
        for (size_t s = 0; s < 6; s++) {
            node_case c = case_of(OP_expm, FLX_F64, RANDOM, 2, n, n);
            double *a = c.data[0];
            for (int64_t i = 0; i < n * n; i++) {
                a[i] *= sizes[s] / (double)n;
                a[n * n + i] = -a[i];
            }
            node_case_run(&c, "products");
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++) {
                    double sum = 0;
                    for (int64_t k = 0; k < n; k++)
                        sum += at(&c, 1, i * n + k) * at(&c, 1, n * n + k * n + j);
                    CHECK_NEAR(sum, i == j, 1e-14 * (double)(n + 4) * exp(sizes[s]));
                }
            node_case_free(&c);
        }
}

/* The block of a derivative, which is computed as a pair, and the same block with an element that prevents it. */
TEST(decomposition_route_expm_of_pairs)
{
    for (int64_t half = 2; half <= 40; half += 19)
        for (int large = 0; large < 2; large++) {
            int64_t n = 2 * half;
            node_case c = case_of(OP_expm, FLX_F64, RANDOM, 2, n, n);
            double *a = c.data[0];
            for (int64_t i = 0; i < half; i++)
                for (int64_t j = 0; j < half; j++) {
                    a[i * n + j] *= large ? 0.5 : 0.01;
                    a[i * n + half + j] *= large ? 1000 : 1;
                    a[(half + i) * n + half + j] = a[i * n + j];
                    a[(half + i) * n + j] = 0;
                }
            memcpy(a + n * n, a, (size_t)(n * n) * sizeof *a);
            a[n * n + half * n] = 0x1p-1000; /* not a pair, and as good as one */
            node_case_run(&c, "products");
            double size = 0;
            for (int64_t i = 0; i < n * n; i++)
                size = fmax(size, fabs(at(&c, 1, n * n + i)));
            for (int64_t i = 0; i < n * n; i++)
                CHECK_NEAR(at(&c, 1, i), at(&c, 1, n * n + i), 1e-13 * (double)n * size);
            node_case_free(&c);
        }
}

/* Infinite where the definition says so, with its sign, and finite elsewhere. */
TEST(decomposition_route_expm_beyond_the_range)
{
    node_case c = case_of(OP_expm, FLX_F64, ZERO, 1, 5, 5);
    double *a = c.data[0];
    a[0] = 2000;
    a[1] = -1;
    a[6] = 3;
    a[12] = -2000;
    node_case_run(&c, "products");
    CHECK(at(&c, 1, 0) == INFINITY);
    CHECK(at(&c, 1, 1) == -INFINITY);
    CHECK_NEAR(at(&c, 1, 6), exp(3), 1e-11);
    CHECK_NEAR(at(&c, 1, 12), 0, 0);
    CHECK_NEAR(at(&c, 1, 24), 1, 1e-13);
    node_case_free(&c);
}

/* ---- Kernels ---- */

/* Sweeps together are the sweeps one by one, to the bit: pairs from the same row are one pass over the rows. */
TEST(decomposition_route_sweeps_in_pairs)
{
    enum { ROWS = 9, STEP = 32 };
    for (int v = 0; flxi_row_kernels_variant(v); v++)
        for (int64_t count = 1; count < ROWS; count++)
            for (int64_t cols = 8; cols <= 32; cols += 8) {
                double apart[ROWS * STEP], together[ROWS * STEP], turns[6 * ROWS];
                uint64_t seed = test_seed();
                for (int i = 0; i < ROWS * STEP; i++)
                    apart[i] = together[i] = 2 * test_uniform(&seed) - 1;
                for (int i = 0; i < 6 * ROWS; i++)
                    turns[i] = 2 * test_uniform(&seed) - 1;
                flxi_sweep sweeps[5] = {{0, count, true, turns},
                                        {0, count, true, turns + 2 * ROWS},
                                        {ROWS - 1, count, false, turns + 4 * ROWS},
                                        {ROWS - 1, count / 2 + 1, false, turns},
                                        {ROWS - 1, count, false, turns + 2 * ROWS}};
                flxi_row_kernels_variant(v)->rotate(together, STEP, cols / 8, sweeps, 5);
                for (int k = 0; k < 5; k++)
                    for (int64_t r = 0; r < sweeps[k].count; r++) {
                        int64_t row = sweeps[k].down ? r : ROWS - 1 - r, next = sweeps[k].down ? row + 1 : row - 1;
                        double c = sweeps[k].turns[2 * r], s = sweeps[k].turns[2 * r + 1];
                        for (int64_t i = 0; i < cols; i++) {
                            double x = apart[row * STEP + i], y = apart[next * STEP + i];
                            apart[row * STEP + i] = c * x + s * y;
                            apart[next * STEP + i] = c * y - s * x;
                        }
                    }
                CHECK(memcmp(apart, together, sizeof apart) == 0);
            }
}

/* Every instruction set gives the same bits. */
TEST(decomposition_route_kernels_agree)
{
    enum { ROWS = 7, STEP = 80 };
    for (int64_t count = 1; count <= STEP - 1; count += 5) {
        static double first[4][ROWS * STEP];
        for (int v = 0; flxi_row_kernels_variant(v); v++) {
            const flxi_row_kernels *k = flxi_row_kernels_variant(v);
            uint64_t seed = test_seed();
            double data[3][ROWS * STEP], sums[ROWS], turns[2 * ROWS];
            for (int i = 0; i < 3 * ROWS * STEP; i++)
                data[i / (ROWS * STEP)][i % (ROWS * STEP)] = 2 * test_uniform(&seed) - 1;
            for (int i = 0; i < 2 * ROWS; i++)
                turns[i] = test_uniform(&seed);
            flxi_sweep sweeps[2] = {{0, ROWS - 1, true, turns}, {ROWS - 1, ROWS - 2, false, turns + 1}};
            k->dots(data[0], STEP, ROWS, data[1], count, sums);
            k->combine(data[1], data[0], STEP, ROWS, sums, count);
            k->spread(data[2], STEP, ROWS, sums, data[1], count);
            k->rotate(data[0], STEP, count % 4 + 1, sweeps, 2);
            for (int i = 0; i < 3; i++) {
                if (v == 0)
                    memcpy(first[i], data[i], sizeof data[i]);
                CHECK(memcmp(first[i], data[i], sizeof data[i]) == 0);
            }
            if (v == 0)
                memcpy(first[3], sums, sizeof sums);
            CHECK(memcmp(first[3], sums, sizeof sums) == 0);
        }
    }
}
