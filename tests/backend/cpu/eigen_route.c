/* SPDX-License-Identifier: Apache-2.0 */
/* eigen_route.c: eig and eig_pairs by their route, judged by what they promise: pairs that solve a v = w v, their
   order, anchors that are 1, exact conjugates; and the same eigenvalues without vectors, to the bit. Extents are on
   both sides of the windows in which reflections are found. */
#include "node_case.h"
#include "ops/opcode.h"
#include "test.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* Random; a cyclic exchange, whose shifts are all equal at first; a Jordan block, with one eigenvector; rotations by
   equal angles; symmetric; nothing but zeros. */
typedef enum { RANDOM, CYCLE, JORDAN, TURNS, SYMMETRIC, ZERO, HUGE_ONE, KINDS } kind;

static double element_of(kind which, int64_t i, int64_t j, int64_t n, double x)
{
    switch (which) {
    case CYCLE: return (i + 1) % n == j;
    case JORDAN: return i == j ? 0.5 : i + 1 == j;
    case TURNS: return i / 2 != j / 2 ? 0 : i == j ? 0.6 : i < j ? 0.8 : -0.8;
    case ZERO: return 0;
    case HUGE_ONE: return x * 0x1p100;
    default: return x;
    }
}

static node_case case_of(flxi_opcode op, int32_t dtype, kind which, int64_t batch, int64_t n)
{
    uint64_t seed = test_seed() + (uint64_t)n;
    int32_t wide = dtype == FLX_F64 ? FLX_C128 : FLX_C64;
    node_case c = {.op = op, .nin = 1, .nout = op == OP_eig ? 1 : 2};
    c.types[0] = type_of(dtype, 3, (int64_t[]){batch, n, n});
    c.types[1] = type_of(wide, 2, (int64_t[]){batch, n});
    c.types[2] = type_of(wide, 3, (int64_t[]){batch, n, n});
    c.data[0] = node_case_random(&c.types[0], &seed);
    for (int64_t k = 0; k < batch * n * n; k++) {
        int64_t i = k / n % n, j = k % n, source = which == SYMMETRIC && j < i ? k - i * n - j + j * n + i : k;
        flxi_store_double(dtype, c.data[0], k, element_of(which, i, j, n, at(&c, 0, source)));
    }
    test_fail_context("%s of kind %d, %s[%lld, %lld, %lld]", flxi_ops[op].name, (int)which, flx_dtype_name(dtype),
                      (long long)batch, (long long)n, (long long)n);
    return c;
}

static double complex number(const node_case *c, uint32_t r, int64_t i)
{
    return flxi_load_complex(c->types[r].dtype, c->data[r], i);
}

static double size_of(const node_case *c, int64_t b, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n * n; k++)
        sum = hypot(sum, at(c, 0, b * n * n + k));
    return sum;
}

static void check_order(const node_case *c, int64_t b, int64_t n)
{
    for (int64_t k = 1; k < n; k++) {
        double complex w = number(c, 1, b * n + k - 1), next = number(c, 1, b * n + k);
        CHECK(creal(w) < creal(next) || (creal(w) == creal(next) && cimag(w) <= cimag(next)));
    }
}

/* Column k of v is a vector, scaled as it must be. */
static void check_vector(const node_case *c, int64_t b, int64_t k, int64_t n, double bound)
{
    double complex w = number(c, 1, b * n + k);
    double most = 0;
    bool has_anchor = false;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, cabs(number(c, 2, (b * n + i) * n + k)));
    for (int64_t i = 0; i < n; i++) {
        double complex sum = 0, v = number(c, 2, (b * n + i) * n + k);
        for (int64_t j = 0; j < n; j++)
            sum += at(c, 0, (b * n + i) * n + j) * number(c, 2, (b * n + j) * n + k);
        CHECK_NEAR(cabs(sum - w * v), 0, bound * most);
        if (!has_anchor && cabs(v) >= 0.5 * most * (1 + 1e-5))
            CHECK(v == 1);
        has_anchor |= cabs(v) >= 0.5 * most * (1 - 1e-5);
    }
}

static void check_conjugates(const node_case *c, int64_t b, int64_t n)
{
    double complex sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += number(c, 1, b * n + k);
    CHECK_NEAR(cimag(sum), 0, 1e-14 * cabs(sum) * (double)n + DBL_MIN);
}

static void check_pairs(int32_t dtype, kind which, int64_t batch, int64_t n)
{
    node_case c = case_of(OP_eig_pairs, dtype, which, batch, n), d = case_of(OP_eig, dtype, which, batch, n);
    node_case_run(&c, "reflections");
    node_case_run(&d, "reflections");
    CHECK(memcmp(c.data[1], d.data[1], node_case_bytes(&c.types[1])) == 0);
    for (int64_t b = 0; b < batch; b++) {
        double bound = 20 * (double)n * node_case_unit(dtype) * size_of(&c, b, n);
        check_order(&c, b, n);
        check_conjugates(&c, b, n);
        for (int64_t k = 0; k < n; k++)
            check_vector(&c, b, k, n, bound);
    }
    node_case_free(&c);
    node_case_free(&d);
}

TEST(eigen_route_finds_pairs)
{
    static const int64_t extents[] = {4, 5, 6, 9, 16, 17, 18, 19, 20, 33, 35, 36, 52, 70};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
        check_pairs(FLX_F64, RANDOM, (int64_t)i % 3 + 1, extents[i]);
        check_pairs(FLX_F32, (kind)(i % KINDS), 1, extents[i]);
    }
    for (int which = 0; which < KINDS; which++)
        for (int64_t n = 5; n <= 39; n += 17)
            check_pairs(FLX_F64, (kind)which, 1, n);
}

/* The eigenvalues of a cyclic exchange are the roots of unity. */
TEST(eigen_route_finds_roots_of_unity)
{
    enum { N = 24 };
    node_case c = case_of(OP_eig, FLX_F64, CYCLE, 1, N);
    node_case_run(&c, "reflections");
    for (int i = 0; i < N; i++) {
        double nearest = 2;
        for (int k = 0; k < N; k++) {
            double angle = 2 * 3.14159265358979323846 * i / N;
            nearest = fmin(nearest, cabs(number(&c, 1, k) - (cos(angle) + sin(angle) * I)));
        }
        CHECK_NEAR(nearest, 0, 1e-13);
    }
    node_case_free(&c);
}

TEST(eigen_route_nan_spoils_its_own_matrix)
{
    node_case c = case_of(OP_eig_pairs, FLX_F32, RANDOM, 3, 12);
    flxi_store_double(FLX_F32, c.data[0], 144 + 7, INFINITY);
    node_case_run(&c, "reflections");
    for (uint32_t r = 1; r <= 2; r++) {
        int64_t each = flxi_route_count(&c.types[r]) / 3;
        for (int64_t i = 0; i < 3 * each; i++)
            CHECK_EQ_I64(isnan(creal(number(&c, r, i))) != 0, i / each == 1);
    }
    node_case_free(&c);
}
