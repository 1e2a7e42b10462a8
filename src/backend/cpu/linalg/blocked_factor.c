/* SPDX-License-Identifier: Apache-2.0 */
/* blocked_factor.c: factor_engine.h by recursion. A matrix is cut in half until a few columns are left; all that
   happens between the halves is a matrix product, which is nearly all of the work.

   Products here only add (flxi_gemm.add), so one factor of each is kept with its sign changed: the multipliers of LU
   until all is done, solutions of triangles likewise, and for Cholesky the part that the product is added to. Changing
   a sign is exact.

   How much scratch the products want is found by walking the same recursion without a matrix. */
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/linalg/factor_engine.h"

#include <math.h>

enum {
    LEAF = 8,         /* columns, or rows of a triangle, that are not cut any more */
    SQUARE = 48,      /* of a product only one triangle of which is wanted: not cut any more */
    TILE_SIDES = 512, /* right-hand sides beside a leaf, so that they stay in the first cache */
    TURNED = 16
};

typedef struct {
    void (*negate)(void *x, int64_t count);
    void (*lu)(char *a, int64_t m, int64_t n, int64_t step, int64_t *pivots, char *scratch);
    void (*triangular)(const char *t, const flxi_triangle *how, char *b, int64_t step, int64_t k, bool is_negated);
    bool (*cholesky)(char *a, int64_t n, int64_t step);
    void (*turn)(void *to, const void *from, int64_t rows, int64_t cols);
} leaf_functions;

#define REAL float
#define NAME(x) f32_##x
#define ABS(x) fabsf(x)
#define SQRT(x) sqrtf(x)
#include "backend/cpu/linalg/blocked_factor.inc"

#define REAL double
#define NAME(x) f64_##x
#define ABS(x) fabs(x)
#define SQRT(x) sqrt(x)
#include "backend/cpu/linalg/blocked_factor.inc"
#include "base/host/stop.h"

typedef struct {
    int32_t dtype;
    int64_t size;
    const leaf_functions *leaf;
    flxi_pool *pool;
    char *scratch;
    int threads;
    size_t *wanted; /* the most scratch so far, when there are no matrices; else NULL */
} blocks;

static blocks blocks_of(int32_t dtype)
{
    return (blocks){
        .dtype = dtype, .size = (int64_t)flx_dtype_size(dtype), .leaf = dtype == FLX_F64 ? &f64_leaves : &f32_leaves};
}

static blocks blocks_for(const flxi_factor_job *j)
{
    blocks w = blocks_of(j->dtype);
    w.pool = j->pool;
    w.scratch = j->scratch;
    return w;
}

static blocks blocks_without(int32_t dtype, int threads, size_t *wanted)
{
    blocks w = blocks_of(dtype);
    w.threads = threads;
    w.wanted = wanted;
    return w;
}

static void want(const blocks *w, size_t nbytes)
{
    *w->wanted = nbytes > *w->wanted ? nbytes : *w->wanted;
}

/* A matrix within another; element (i, j) is at i * row + j * col. `at` is NULL where only sizes count. */
typedef struct {
    char *at;
    int64_t row, col;
} part;

static part part_at(const blocks *w, part p, int64_t i, int64_t j)
{
    if (p.at)
        p.at += (i * p.row + j * p.col) * w->size;
    return p;
}

static int64_t half_of(int64_t n)
{
    return (n / 2 + LEAF - 1) / LEAF * LEAF;
}

/* c [m, n] += a [m, k] b [k, n] */
static void add_product(const blocks *w, part c, part a, part b, int64_t m, int64_t n, int64_t k)
{
    flxi_gemm p = flxi_gemm_matrices(w->dtype, m, n, k, a.row, a.col, b.row, b.col);
    p.c_row = c.row;
    p.add = true;
    if (w->wanted) {
        want(w, flxi_gemm_scratch(&p, w->threads));
        return;
    }
    p.a.data = a.at;
    p.b.data = b.at;
    p.c = c.at;
    flxi_gemm_run(&p, w->pool, w->scratch);
}

/* ---- Triangles ---- */

static void solve_leaf(const blocks *w, part t, const flxi_triangle *how, part b, int64_t k, bool is_negated)
{
    for (int64_t from = 0; from < k && !w->wanted && !flxi_stopped(); from += TILE_SIDES)
        w->leaf->triangular(t.at, how, b.at + from * w->size, b.row, from + TILE_SIDES < k ? TILE_SIDES : k - from,
                            is_negated);
}

/* b [n, k] becomes -x with T x = b. `is_negated`: t holds -T, unit diagonals aside, and b becomes x. */
static void solve_blocks(const blocks *w, part t, flxi_triangle how, part b, int64_t k, bool is_negated)
{
    if (how.n <= LEAF) {
        solve_leaf(w, t, &how, b, k, is_negated);
        return;
    }
    int64_t half = half_of(how.n);
    int64_t rest = how.n - half;
    int64_t first = how.lower ? 0 : half; /* rows that are solved first */
    int64_t then = how.lower ? half : 0;
    flxi_triangle one = how;
    one.n = how.lower ? half : rest;
    solve_blocks(w, part_at(w, t, first, first), one, part_at(w, b, first, 0), k, is_negated);
    add_product(w, part_at(w, b, then, 0), part_at(w, t, then, first), part_at(w, b, first, 0), how.n - one.n, k,
                one.n);
    one.n = how.n - one.n;
    solve_blocks(w, part_at(w, t, then, then), one, part_at(w, b, then, 0), k, is_negated);
}

static void solve_triangle(const flxi_factor_job *j, const void *t, const flxi_triangle *how, void *b, int64_t k)
{
    blocks w = blocks_for(j);
    part triangle = {(char *)(uintptr_t)t, how->row, how->col}; /* only read */
    solve_blocks(&w, triangle, *how, (part){b, k, 1}, k, false);
    for (int64_t i = 0; i < how->n && !flxi_stopped(); i++)
        w.leaf->negate((char *)b + i * k * w.size, k);
}

static size_t triangle_scratch(int32_t dtype, const flxi_triangle *how, int64_t k, int threads)
{
    size_t wanted = 0;
    blocks w = blocks_without(dtype, threads, &wanted);
    solve_blocks(&w, (part){NULL, how->row, how->col}, *how, (part){NULL, k, 1}, k, false);
    return wanted;
}

/* ---- LU ---- */

static void exchange(char *a, char *b, size_t nbytes)
{
    char kept[256];
    while (nbytes) {
        size_t n = nbytes < sizeof kept ? nbytes : sizeof kept;
        memcpy(kept, a, n);
        memcpy(a, b, n);
        memcpy(b, kept, n);
        a += n;
        b += n;
        nbytes -= n;
    }
}

static void exchange_rows(const blocks *w, part a, int64_t cols, const int64_t *pivots, int64_t count)
{
    for (int64_t k = 0; k < count && !w->wanted && !flxi_stopped(); k++)
        if (pivots[k] != k)
            exchange(part_at(w, a, k, 0).at, part_at(w, a, pivots[k], 0).at, (size_t)(cols * w->size));
}

static void factor_leaf(const blocks *w, part a, int64_t m, int64_t n, int64_t *pivots)
{
    if (w->wanted)
        want(w, (size_t)(m * n * w->size));
    else if (!flxi_stopped())
        w->leaf->lu(a.at, m, n, a.row, pivots, w->scratch);
    else
        for (int64_t k = 0; k < n && k < m; k++)
            pivots[k] = k; /* others use them as positions */
}

/* The multipliers come out negated. Pivots count from the first row of a. */
static void factor_blocks(const blocks *w, part a, int64_t m, int64_t n, int64_t *pivots)
{
    if (n <= LEAF) {
        factor_leaf(w, a, m, n, pivots);
        return;
    }
    int64_t half = n > m && half_of(n) > m ? m : half_of(n);
    part right = part_at(w, a, 0, half);
    factor_blocks(w, a, m, half, pivots);
    exchange_rows(w, right, n - half, pivots, half);
    solve_blocks(w, a, (flxi_triangle){.n = half, .row = a.row, .col = 1, .lower = true, .unit = true}, right, n - half,
                 true);
    if (m == half)
        return;
    part below = part_at(w, a, half, 0);
    part rest = part_at(w, a, half, half);
    int64_t steps = (m < n ? m : n) - half;
    add_product(w, rest, below, right, m - half, n - half, half);
    factor_blocks(w, rest, m - half, n - half, w->wanted ? NULL : pivots + half);
    exchange_rows(w, below, half, w->wanted ? NULL : pivots + half, steps);
    for (int64_t k = half; k < half + steps && !w->wanted; k++)
        pivots[k] += half;
}

static void factor_lu(const flxi_factor_job *j, void *a, int64_t m, int64_t n, int64_t *pivots)
{
    blocks w = blocks_for(j);
    factor_blocks(&w, (part){a, n, 1}, m, n, pivots);
    for (int64_t i = 1; i < m && !flxi_stopped(); i++)
        w.leaf->negate((char *)a + i * n * w.size, i < n ? i : n);
}

static size_t lu_scratch(int32_t dtype, int64_t m, int64_t n, int threads)
{
    size_t wanted = 0;
    blocks w = blocks_without(dtype, threads, &wanted);
    factor_blocks(&w, (part){NULL, n, 1}, m, n, NULL);
    return wanted;
}

/* ---- Cholesky ---- */

/* The upper triangle of c [n, n] += y^T y, for y [k, n]; below it anything. */
static void add_square(const blocks *w, part c, part y, int64_t n, int64_t k)
{
    part turned = {y.at, y.col, y.row};
    if (n <= SQUARE) {
        add_product(w, c, turned, y, n, n, k);
        return;
    }
    int64_t half = half_of(n);
    part right = part_at(w, y, 0, half);
    add_square(w, c, y, half, k);
    add_product(w, part_at(w, c, 0, half), turned, right, half, n - half, k);
    add_square(w, part_at(w, c, half, half), right, n - half, k);
}

static void negate_upper(const blocks *w, part a, int64_t n)
{
    for (int64_t i = 0; i < n && !w->wanted && !flxi_stopped(); i++)
        w->leaf->negate(part_at(w, a, i, i).at, n - i);
}

static bool factor_square(const blocks *w, part a, int64_t n)
{
    if (n <= LEAF)
        return w->wanted || flxi_stopped() || w->leaf->cholesky(a.at, n, a.row);
    int64_t half = half_of(n);
    part right = part_at(w, a, 0, half);
    part rest = part_at(w, a, half, half);
    if (!factor_square(w, a, half))
        return false;
    solve_blocks(w, (part){a.at, 1, a.row}, (flxi_triangle){.n = half, .row = 1, .col = a.row, .lower = true}, right,
                 n - half, false);
    negate_upper(w, rest, n - half);
    add_square(w, rest, right, n - half, half);
    negate_upper(w, rest, n - half);
    for (int64_t i = 0; i < half && !w->wanted && !flxi_stopped(); i++)
        w->leaf->negate(part_at(w, right, i, 0).at, n - half);
    return factor_square(w, rest, n - half);
}

static bool factor_cholesky(const flxi_factor_job *j, void *a, int64_t n)
{
    blocks w = blocks_for(j);
    return factor_square(&w, (part){a, n, 1}, n);
}

static size_t cholesky_scratch(int32_t dtype, int64_t n, int threads)
{
    size_t wanted = 0;
    blocks w = blocks_without(dtype, threads, &wanted);
    factor_square(&w, (part){NULL, n, 1}, n);
    return wanted;
}

const flxi_factor_engine flxi_block_engine = {
    .lu = factor_lu,
    .cholesky = factor_cholesky,
    .triangular = solve_triangle,
    .lu_scratch = lu_scratch,
    .cholesky_scratch = cholesky_scratch,
    .triangular_scratch = triangle_scratch,
};

void flxi_turn_matrix(int32_t dtype, void *to, const void *from, int64_t rows, int64_t cols)
{
    blocks_of(dtype).leaf->turn(to, from, rows, cols);
}
