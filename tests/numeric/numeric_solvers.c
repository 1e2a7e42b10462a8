/* SPDX-License-Identifier: Apache-2.0 */
/* numeric_solvers.c: iterative solvers, fixed points, roots and sparse elimination: small residuals, a limit that is
   kept, operators that fail. */
#include "numeric/linalg/iteration.h"
#include "numeric/linalg/krylov.h"
#include "numeric/linalg/sparse_elimination.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 30 };

typedef struct {
    double skew; /* 0: symmetric */
    int fails_at, calls;
} matrix;

/* 3 on the diagonal, -1 beside it, and the skew part. */
static int apply(void *user, double *x, double *y)
{
    matrix *m = user;
    if (++m->calls == m->fails_at)
        return 7;
    for (int i = 0; i < N; i++) {
        y[i] = 3 * x[i];
        if (i > 0)
            y[i] -= (1 + m->skew) * x[i - 1];
        if (i + 1 < N)
            y[i] -= (1 - m->skew) * x[i + 1];
    }
    return 0;
}

typedef int (*solver)(flxi_krylov *k, const double *b, double *x);

static void check_solver(solver solve, size_t room_count, double skew)
{
    double b[N], x[N], y[N];
    double *room = calloc(room_count, sizeof *room);
    CHECK(room);
    for (int i = 0; i < N; i++)
        b[i] = sin(i + 1.0);
    matrix m = {.skew = skew};
    flxi_krylov k = {.apply = apply, .user = &m, .n = N, .tol = 1e-12, .iterations = 200, .room = room};
    CHECK_EQ_I64(solve(&k, b, x), 0);
    CHECK(k.solved);
    CHECK(m.calls <= 200);
    apply(&m, x, y);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(y[i], b[i], 1e-11);

    k = (flxi_krylov){.apply = apply, .user = &m, .n = N, .tol = 1e-12, .iterations = 3, .room = room};
    CHECK_EQ_I64(solve(&k, b, x), 0);
    CHECK(!k.solved); /* too few products */

    m = (matrix){.skew = skew, .fails_at = 2};
    k = (flxi_krylov){.apply = apply, .user = &m, .n = N, .tol = 1e-12, .iterations = 200, .room = room};
    CHECK_EQ_I64(solve(&k, b, x), 7);
    CHECK_EQ_I64(m.calls, 2);
    free(room);
}

TEST(conjugate_gradients_solve_stop_and_fail)
{
    check_solver(flxi_krylov_cg, flxi_cg_room(N), 0);
}

TEST(gmres_solves_stops_and_fails)
{
    check_solver(flxi_krylov_gmres, flxi_gmres_room(N), 0.5);
}

static int cosines(void *user, double *x, double *y)
{
    (void)user;
    y[0] = cos(x[1]);
    y[1] = cos(x[0]) / 2;
    return 0;
}

TEST(fixed_points_do_not_move)
{
    double x[2] = {0, 0}, y[2];
    double *room = calloc(flxi_fixed_point_room(2), sizeof *room);
    flxi_iteration f = {.call = cosines, .n = 2, .tol = 1e-13, .unit = 0x1p-53, .most = 500, .room = room};
    CHECK(room);
    CHECK_EQ_I64(flxi_fixed_point(&f, x), 0);
    CHECK(f.solved);
    cosines(NULL, x, y);
    CHECK_NEAR(x[0], y[0], 1e-12);
    CHECK_NEAR(x[1], y[1], 1e-12);
    free(room);
}

/* x^2 + y^2 = 4 and x y = 1 */
static int circle_and_hyperbola(void *user, double *x, double *y)
{
    (void)user;
    y[0] = x[0] * x[0] + x[1] * x[1] - 4;
    y[1] = x[0] * x[1] - 1;
    return 0;
}

TEST(newton_finds_a_root)
{
    double x[2] = {2, 0.3}, y[2];
    double *room = calloc(flxi_newton_room(2), sizeof *room);
    flxi_iteration f = {.call = circle_and_hyperbola, .n = 2, .tol = 1e-13, .unit = 0x1p-53, .most = 50, .room = room};
    CHECK(room);
    CHECK_EQ_I64(flxi_newton(&f, x), 0);
    CHECK(f.solved);
    circle_and_hyperbola(NULL, x, y);
    CHECK_NEAR(y[0], 0, 1e-11);
    CHECK_NEAR(y[1], 0, 1e-11);
    free(room);
}

TEST(sparse_elimination_sums_duplicates_and_reports_singular_matrices)
{
    /* [[0, 2, 0], [1, 0, 1], [0, 0, 3]], where 3 is 1 + 2 */
    static const int64_t rows[] = {0, 1, 1, 2, 2}, cols[] = {1, 0, 2, 2, 2};
    static const double _Complex values[] = {2, 1, 1, 1, 2};
    const flxi_allocator mem = {flxi_default_alloc, NULL};
    flx_error err = {0};
    double _Complex b[] = {4, 5, 6};
    flxi_sparse_system s = {.n = 3, .sides = 1, .count = 5, .rows = rows, .cols = cols, .values = values, .b = b};
    CHECK_OK(flxi_eliminate(&s, &mem, &err), &err);
    CHECK(s.regular);
    CHECK_NEAR(creal(b[0]), 3, 1e-14);
    CHECK_NEAR(creal(b[1]), 2, 1e-14);
    CHECK_NEAR(creal(b[2]), 2, 1e-14);
    s.count = 3; /* without the last row */
    CHECK_OK(flxi_eliminate(&s, &mem, &err), &err);
    CHECK(!s.regular);
    CHECK(isnan(creal(b[0])));
}
