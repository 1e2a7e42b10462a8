/* SPDX-License-Identifier: Apache-2.0 */
/* dense_work.c: memory, products and threaded loops of dense_work.h. */
#include "backend/cpu/linalg/dense_work.h"

#include "backend/cpu/gemm/gemm.h"
#include "base/host/stop.h"

#include <math.h>

static size_t aligned(size_t nbytes)
{
    return (nbytes + 63) / 64 * 64;
}

flxi_workspace flxi_space_count(int threads)
{
    return (flxi_workspace){.threads = threads, .rows = flxi_row_kernels_best()};
}

flxi_workspace flxi_space_in(void *memory, size_t most, flxi_pool *pool)
{
    return (flxi_workspace){.pool = pool,
                            .threads = flxi_pool_threads(pool),
                            .rows = flxi_row_kernels_best(),
                            .memory = memory,
                            .products = (char *)memory + most};
}

void flxi_space_want(flxi_workspace *w, size_t bytes)
{
    w->product_bytes = bytes > w->product_bytes ? bytes : w->product_bytes;
}

size_t flxi_space_bytes(const flxi_workspace *w)
{
    return w->most + aligned(w->product_bytes);
}

void *flxi_take(flxi_workspace *w, size_t bytes)
{
    char *at = w->memory ? w->memory + w->used : NULL;
    w->used += aligned(bytes);
    w->most = w->used > w->most ? w->used : w->most;
    return at;
}

double *flxi_take_numbers(flxi_workspace *w, int64_t count)
{
    return flxi_take(w, (size_t)count * sizeof(double));
}

void flxi_multiply(flxi_workspace *w, flxi_part c, flxi_part a, flxi_part b, int64_t m, int64_t n, int64_t k, bool add)
{
    flxi_gemm p = flxi_gemm_matrices(FLX_F64, m, n, k, a.row, a.col, b.row, b.col);
    p.c_row = c.row;
    p.add = add;
    if (m == 0 || n == 0 || k == 0)
        return;
    if (flxi_space_counts(w)) {
        flxi_space_want(w, flxi_gemm_scratch(&p, w->threads));
        return;
    }
    p.a.data = a.at;
    p.b.data = b.at;
    p.c = c.at;
    flxi_gemm_run(&p, w->pool, w->products);
}

/* ---- Loops ---- */

enum {
    WORTH_THREADS = 1 << 14, /* elements */
    CHUNK_ROWS = 32,
    CHUNK_COLS = 128 /* a multiple of the kernels' 32 */
};

typedef struct {
    const flxi_row_kernels *kernels;
    const double *a, *x;
    double *y;
    int64_t step, rows, count;
} pass;

static void dots_chunk(void *user, int64_t begin, int64_t end)
{
    const pass *p = user;
    p->kernels->dots(p->a + begin * p->step, p->step, end - begin, p->x, p->count, p->y + begin);
}

void flxi_rows_dots(flxi_workspace *w, const double *a, int64_t step, int64_t rows, const double *x, int64_t count,
                    double *y)
{
    pass p = {.kernels = w->rows, .a = a, .x = x, .y = y, .step = step, .rows = rows, .count = count};
    flxi_pool *pool = rows * count < WORTH_THREADS ? NULL : w->pool;
    if (!flxi_space_counts(w))
        flxi_pool_run(pool, rows, pool ? CHUNK_ROWS : rows + 1, dots_chunk, &p);
}

static void combine_chunk(void *user, int64_t begin, int64_t end)
{
    const pass *p = user;
    p->kernels->combine(p->y + begin, p->a + begin, p->step, p->rows, p->x, end - begin);
}

void flxi_rows_combine(flxi_workspace *w, double *y, const double *a, int64_t step, int64_t rows, const double *c,
                       int64_t count)
{
    pass p = {.kernels = w->rows, .a = a, .x = c, .y = y, .step = step, .rows = rows};
    flxi_pool *pool = rows * count < WORTH_THREADS ? NULL : w->pool;
    if (!flxi_space_counts(w))
        flxi_pool_run(pool, count, pool ? CHUNK_COLS : count + 1, combine_chunk, &p);
}

/* ---- Rotations ---- */

enum {
    MOST_SWEEPS = 64,
    CHUNK_VECTORS = 4 /* what the kernel has registers for */
};

flxi_rotations flxi_rotations_for(flxi_workspace *w, double *z, int64_t step, int64_t rows)
{
    flxi_rotations r = {.z = z, .step = step, .rows = rows, .most_sweeps = MOST_SWEEPS, .most_turns = 16 * rows};
    r.sweeps = flxi_take(w, MOST_SWEEPS * sizeof *r.sweeps);
    r.turns = flxi_take_numbers(w, 2 * r.most_turns);
    return r;
}

static void rotate_chunk(void *user, int64_t begin, int64_t end)
{
    const flxi_rotations *r = user;
    const flxi_row_kernels *k = flxi_row_kernels_best();
    for (int64_t v = begin; v < end && !flxi_stopped(); v += CHUNK_VECTORS)
        k->rotate(r->z + 8 * v, r->step, v + CHUNK_VECTORS < end ? CHUNK_VECTORS : end - v, r->sweeps, r->sweep_count);
}

void flxi_rotations_apply(flxi_workspace *w, flxi_rotations *r)
{
    int64_t work = r->turn_count * r->step;
    if (r->z)
        flxi_pool_run(work < WORTH_THREADS ? NULL : w->pool, r->step / 8, CHUNK_VECTORS, rotate_chunk, r);
    r->sweep_count = r->turn_count = 0;
}

double *flxi_sweep_begin(flxi_workspace *w, flxi_rotations *r, int64_t row, int64_t count, bool down)
{
    if (r->sweep_count == r->most_sweeps || r->turn_count + count > r->most_turns)
        flxi_rotations_apply(w, r);
    double *turns = r->turns + 2 * r->turn_count;
    r->sweeps[r->sweep_count++] = (flxi_sweep){.row = row, .count = count, .down = down, .turns = turns};
    r->turn_count += count;
    return turns;
}

double flxi_hypotenuse(double f, double g)
{
    double square = f * f + g * g;
    return square > 0x1p-960 ? sqrt(square) : hypot(f, g);
}
