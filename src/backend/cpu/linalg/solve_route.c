/* SPDX-License-Identifier: Apache-2.0 */
/* solve_route.c: solve, inv, lu, cholesky and solve_triangular of large real matrices, by the engines of
   factor_engine.h and in the precision of the operands. lu_solve and the other solves consist of these.

   A slice is one system or one matrix of a batch. As long as there are fewer slices than threads, they are computed one
   after the other by all threads, else each thread has slices of its own; both give the same bits. A factor that
   consecutive systems share is made once. A singular slice is solved by our own blocks, which divide by its zeros as
   the definition does. */
#include "backend/cpu/linalg/factor_engine.h"
#include "backend/cpu/linalg/lapack.h"
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "graph/type/tensor.h"
#include "ops/linalg/solve/linear_system.h"
#include "ops/opcode.h"

#include <fluxion/run.h>
#include <math.h>
#include <stdatomic.h>

typedef struct solving solving;
typedef struct slot slot;

/* What one op does with slice i. */
typedef struct {
    flxi_opcode op;
    void (*run)(solving *s, int64_t i, slot *o);
    bool factors, squares, solves; /* what it asks the engine for: lu, cholesky, triangular */
    flxi_lapack_task task;         /* what takes most of its time */
} solver;

struct solving {
    const flxi_route_node *n;
    const flxi_factor_engine *engine;
    const solver *how;
    int32_t dtype;
    size_t size;
    int64_t rows, cols;     /* of a matrix */
    int64_t sides;          /* right-hand sides of a system */
    int64_t count;          /* slices */
    flxi_systems systems;   /* of ops with right-hand sides */
    flxi_triangle triangle; /* of solve_triangular */
    bool left;
    size_t matrix_bytes, sides_bytes, pivot_bytes; /* parts of a slot */
    int64_t slots;
    _Atomic bool is_singular;
};

/* Memory of one run of slices. */
struct slot {
    flxi_factor_job job;
    char *matrix, *sides;
    int64_t *pivots, *perm;
    int64_t held; /* element where the matrix begins whose factors are in `matrix`; -1: none */
    bool is_regular;
};

static bool has_zero(const solving *s, const char *diagonal, int64_t n, int64_t step)
{
    for (int64_t i = 0; i < n; i++)
        if (flxi_load_double(s->dtype, diagonal, i * step) == 0.0)
            return true;
    return false;
}

static void report_singular(solving *s)
{
    atomic_store_explicit(&s->is_singular, true, memory_order_relaxed);
}

static const char *operand(const solving *s, uint32_t k, int64_t first)
{
    return (const char *)s->n->in[k] + (size_t)first * s->size;
}

static char *result(const solving *s, int64_t first)
{
    return (char *)s->n->out[0] + (size_t)first * s->size;
}

/* Where the matrix, or the right-hand sides, of system i begin. */
static int64_t lead_offset(const flxi_systems *w, const int64_t *strides, int64_t i)
{
    int64_t at = 0;
    for (int k = w->lead.rank - 1; k >= 0; k--) {
        at += i % w->lead.dims[k] * strides[k];
        i /= w->lead.dims[k];
    }
    return at;
}

/* ---- Slices ---- */

static void hold_factors(const solving *s, int64_t first, slot *o)
{
    int64_t n = s->rows;
    if (o->held == first)
        return;
    flxi_stop_copy(o->matrix, operand(s, 0, first), (size_t)(n * n) * s->size);
    s->engine->lu(&o->job, o->matrix, n, n, o->pivots);
    flxi_permutation_of(o->pivots, n, n, o->perm);
    o->is_regular = !has_zero(s, o->matrix, n, n + 1);
    o->held = first;
}

/* y, the right-hand sides in order of the pivots, becomes the solution. */
static void solve_factors(solving *s, slot *o, char *y)
{
    int64_t n = s->rows;
    const flxi_factor_engine *e = o->is_regular ? s->engine : &flxi_block_engine;
    if (!o->is_regular)
        report_singular(s);
    e->triangular(&o->job, o->matrix, &(flxi_triangle){.n = n, .row = n, .col = 1, .lower = true, .unit = true}, y,
                  s->sides);
    e->triangular(&o->job, o->matrix, &(flxi_triangle){.n = n, .row = n, .col = 1}, y, s->sides);
}

static void solve_slice(solving *s, int64_t i, slot *o)
{
    const flxi_systems *w = &s->systems;
    size_t row = (size_t)s->sides * s->size;
    const char *b = operand(s, 1, lead_offset(w, w->b_lead, i) * s->rows * s->sides);
    char *y = result(s, i * s->rows * s->sides);
    hold_factors(s, lead_offset(w, w->a_lead, i) * s->rows * s->rows, o);
    for (int64_t k = 0; k < s->rows && !flxi_stopped(); k++)
        memcpy(y + (size_t)k * row, b + (size_t)o->perm[k] * row, row);
    solve_factors(s, o, y);
}

static void invert_slice(solving *s, int64_t i, slot *o)
{
    int64_t n = s->rows;
    char *y = result(s, i * n * n);
    hold_factors(s, i * n * n, o);
    flxi_stop_clear(y, (size_t)(n * n) * s->size);
    for (int64_t k = 0; k < n && !flxi_stopped(); k++)
        flxi_store_double(s->dtype, y, k * n + o->perm[k], 1.0);
    solve_factors(s, o, y);
}

static void lu_slice(solving *s, int64_t i, slot *o)
{
    int64_t steps = s->rows < s->cols ? s->rows : s->cols;
    int32_t *pivots = (int32_t *)s->n->out[1] + i * steps;
    int32_t *perm = (int32_t *)s->n->out[2] + i * s->rows;
    int64_t first = i * s->rows * s->cols;
    flxi_stop_copy(result(s, first), operand(s, 0, first), (size_t)(s->rows * s->cols) * s->size);
    s->engine->lu(&o->job, result(s, first), s->rows, s->cols, o->pivots);
    flxi_permutation_of(o->pivots, steps, s->rows, o->perm);
    for (int64_t k = 0; k < steps; k++)
        pivots[k] = (int32_t)o->pivots[k];
    for (int64_t k = 0; k < s->rows; k++)
        perm[k] = (int32_t)o->perm[k];
}

/* The mean of a and its transpose goes to the upper triangle of y, and in the end the factor to its half: tiles, so
   that lines of both halves are used while they are near. */
enum { TILE = 16 };
#define HALVES(name, REAL)                                                               \
    static void name##_mean(void *to, const void *from, int64_t n)                       \
    {                                                                                    \
        REAL *y = to;                                                                    \
        const REAL *a = from;                                                            \
        for (int64_t i0 = 0; i0 < n && !flxi_stopped(); i0 += TILE)                      \
            for (int64_t j0 = i0; j0 < n; j0 += TILE)                                    \
                for (int64_t i = i0; i < n && i < i0 + TILE; i++)                        \
                    for (int64_t j = j0; j < n && j < j0 + TILE; j++)                    \
                        y[i * n + j] = (a[i * n + j] + a[j * n + i]) * (REAL)0.5;        \
    }                                                                                    \
    static void name##_half(void *factor, int64_t n, bool lower)                         \
    {                                                                                    \
        REAL *y = factor;                                                                \
        for (int64_t i0 = 0; i0 < n && !flxi_stopped(); i0 += TILE)                      \
            for (int64_t j0 = i0; j0 < n; j0 += TILE)                                    \
                for (int64_t i = i0; i < n && i < i0 + TILE; i++)                        \
                    for (int64_t j = j0 > i ? j0 : i + 1; j < n && j < j0 + TILE; j++) { \
                        y[j * n + i] = lower ? y[i * n + j] : 0;                         \
                        y[i * n + j] = lower ? 0 : y[i * n + j];                         \
                    }                                                                    \
    }
HALVES(f32, float)
HALVES(f64, double)

static void cholesky_slice(solving *s, int64_t i, slot *o)
{
    int64_t n = s->rows;
    bool lower = flxi_route_int(s->n, "lower");
    char *y = result(s, i * n * n);
    (s->dtype == FLX_F64 ? f64_mean : f32_mean)(y, operand(s, 0, i * n * n), n);
    if (s->engine->cholesky(&o->job, y, n)) {
        (s->dtype == FLX_F64 ? f64_half : f32_half)(y, n, lower);
        return;
    }
    report_singular(s);
    for (int64_t k = 0; k < n * n; k++)
        flxi_store_double(s->dtype, y, k, NAN);
}

/* Systems in rows are turned on the way in and out. */
static void triangle_slice(solving *s, int64_t i, slot *o)
{
    const flxi_systems *w = &s->systems;
    int64_t n = s->rows;
    const char *t = operand(s, 0, lead_offset(w, w->a_lead, i) * n * n);
    const char *b = operand(s, 1, lead_offset(w, w->b_lead, i) * n * s->sides);
    char *y = result(s, i * n * s->sides);
    char *x = s->left ? y : o->sides;
    bool is_singular = !s->triangle.unit && has_zero(s, t, n, n + 1);
    if (is_singular)
        report_singular(s);
    if (s->left)
        flxi_stop_copy(x, b, (size_t)(n * s->sides) * s->size);
    else
        flxi_turn_matrix(s->dtype, x, b, s->sides, n);
    (is_singular ? &flxi_block_engine : s->engine)->triangular(&o->job, t, &s->triangle, x, s->sides);
    if (!s->left)
        flxi_turn_matrix(s->dtype, y, x, n, s->sides);
}

/* ---- Slots ---- */

static const solver solvers[] = {
    {OP_solve, solve_slice, true, false, true, FLXI_BY_LU},
    {OP_inv, invert_slice, true, false, true, FLXI_BY_LU},
    {OP_lu, lu_slice, true, false, false, FLXI_BY_LU},
    {OP_cholesky, cholesky_slice, false, true, false, FLXI_BY_CHOLESKY},
    {OP_solve_triangular, triangle_slice, false, false, true, FLXI_BY_TRIANGLE},
};

static size_t aligned(size_t nbytes)
{
    return (nbytes + 63) / 64 * 64;
}

static void set_systems(solving *s)
{
    const flxi_route_node *n = s->n;
    bool is_triangular = n->op == OP_solve_triangular;
    flx_tensor a = {.type = *n->in_types[0]};
    flx_tensor b = {.type = *n->in_types[1]};
    flx_tensor y = {.type = *n->out_types[0], .count = 1};
    s->left = !is_triangular || flxi_route_int(n, "left_side");
    flxi_systems_begin(&s->systems, &a, &b, &y, s->left);
    s->sides = s->systems.k;
    s->count = flxi_static_extent(&s->systems.lead, 0, s->systems.lead.rank);
    if (is_triangular)
        s->triangle = flxi_system_triangle(flxi_route_int(n, "lower"), (flxi_trans)flxi_route_int(n, "trans"),
                                           flxi_route_int(n, "unit_diagonal"), s->left, s->rows);
    s->sides_bytes = s->left ? 0 : aligned((size_t)(s->rows * s->sides) * s->size);
}

/* For types that the route does not refuse. */
static void make(const flxi_route_node *n, const flxi_factor_engine *engine, int threads, solving *s)
{
    const flx_type *a = n->in_types[0];
    *s = (solving){.n = n,
                   .engine = engine,
                   .dtype = a->dtype,
                   .size = flx_dtype_size(a->dtype),
                   .rows = a->dims[a->rank - 2],
                   .cols = a->dims[a->rank - 1],
                   .count = flxi_matrix_count(a)};
    for (size_t k = 0; k < sizeof solvers / sizeof *solvers; k++)
        s->how = solvers[k].op == n->op ? &solvers[k] : s->how;
    s->sides = s->cols; /* of an inverse */
    if (n->nin == 2)
        set_systems(s);
    s->matrix_bytes = s->how->factors && s->how->solves ? aligned((size_t)(s->rows * s->cols) * s->size) : 0;
    s->pivot_bytes = s->how->factors ? aligned((size_t)s->rows * sizeof(int64_t)) : 0;
    s->slots = s->count >= threads ? threads : 1;
}

static size_t engine_bytes(const solving *s, const flxi_factor_engine *e, int threads)
{
    flxi_triangle t = s->how->factors ? (flxi_triangle){.n = s->rows, .row = s->rows, .col = 1} : s->triangle;
    flxi_triangle l = {.n = s->rows, .row = s->rows, .col = 1, .lower = true, .unit = true};
    size_t nbytes[4] = {
        s->how->factors ? e->lu_scratch(s->dtype, s->rows, s->cols, threads) : 0,
        s->how->squares ? e->cholesky_scratch(s->dtype, s->rows, threads) : 0,
        s->how->solves ? e->triangular_scratch(s->dtype, &t, s->sides, threads) : 0,
        s->how->solves && s->how->factors ? e->triangular_scratch(s->dtype, &l, s->sides, threads) : 0,
    };
    size_t most = 0;
    for (int k = 0; k < 4; k++)
        most = nbytes[k] > most ? nbytes[k] : most;
    return most;
}

/* The last part is the engine's, of which a singular slice may want our own. */
static size_t slot_bytes(const solving *s, int threads)
{
    size_t own = engine_bytes(s, s->engine, threads);
    size_t blocks =
        s->engine == &flxi_block_engine || !s->how->solves ? 0 : engine_bytes(s, &flxi_block_engine, threads);
    return s->matrix_bytes + s->sides_bytes + 2 * s->pivot_bytes + aligned(own > blocks ? own : blocks);
}

/* Fewer threads than these may run: each with slices of its own, or all on one slice. */
static size_t scratch_bytes(const flxi_route_node *n, const flxi_factor_engine *engine, int threads)
{
    solving s;
    make(n, engine, threads, &s);
    int64_t most_slots = s.count < threads ? s.count : threads;
    size_t apart = (size_t)most_slots * slot_bytes(&s, 1);
    size_t together = slot_bytes(&s, threads);
    return apart > together ? apart : together;
}

static slot slot_at(const solving *s, char *memory, flxi_pool *pool)
{
    slot o = {.held = -1, .matrix = memory, .sides = memory + s->matrix_bytes};
    char *pivots = o.sides + s->sides_bytes;
    o.pivots = (int64_t *)(void *)pivots;
    o.perm = (int64_t *)(void *)(pivots + s->pivot_bytes);
    o.job = (flxi_factor_job){.dtype = s->dtype, .pool = pool, .scratch = pivots + 2 * s->pivot_bytes};
    return o;
}

static void run_apart(void *user, int64_t begin, int64_t end)
{
    solving *s = user;
    size_t nbytes = *(const size_t *)s->n->kept;
    for (int64_t k = begin; k < end; k++) {
        slot o = slot_at(s, (char *)s->n->scratch + (size_t)k * nbytes, NULL);
        for (int64_t i = k * s->count / s->slots; i < (k + 1) * s->count / s->slots && !flxi_stopped(); i++)
            s->how->run(s, i, &o);
    }
}

/* The bytes of a slot of one thread: too long to find out to do so in every run. */
size_t flxi_solve_kept(const flxi_route_node *n)
{
    (void)n;
    return sizeof(size_t);
}

static flx_code keep_slot_bytes(const flxi_route_node *n, const flxi_factor_engine *engine, void *kept)
{
    solving s;
    make(n, engine, 1, &s);
    *(size_t *)kept = slot_bytes(&s, 1);
    return FLX_OK;
}

static flx_code run_slices(const flxi_route_node *n, const flxi_factor_engine *engine)
{
    solving s;
    make(n, engine, flxi_pool_threads(n->pool), &s);
    if (s.slots > 1) {
        flxi_pool_run(n->pool, s.slots, 1, run_apart, &s);
    } else {
        slot o = slot_at(&s, n->scratch, n->pool);
        for (int64_t i = 0; i < s.count && !flxi_stopped(); i++)
            s.how->run(&s, i, &o);
    }
    if (s.is_singular && n->status)
        *n->status |= FLX_RUN_SINGULAR;
    return FLX_OK;
}

/* ---- The routes ---- */

enum {                        /* extents from which … */
       LEAST_FOR_BLOCKS = 32, /* blocks measured faster than the definition, with one right-hand side or many, */
       LEAST_IN_BATCH = 4,    /* or for at least that many matrices */
       MANY = 64,
       LEAST_FOR_LIBRARY = 128, /* the library is asked, up to … */
       MOST_FOR_LIBRARY = 1024,
       LEAST_FOR_THREADS = 512 /* a single matrix is left to our blocks: all threads work on it, of the library one. A
                                   choice for machines of many cores, not a measurement. */
};

const char *flxi_blocks_applies(const flxi_route_node *n)
{
    solving s;
    const flx_type *y = n->out_types[0];
    if (y->dtype != FLX_F32 && y->dtype != FLX_F64)
        return "only f32 and f64";
    if (flxi_route_count(y) == 0)
        return "nothing to compute";
    make(n, &flxi_block_engine, 1, &s);
    int64_t least = s.count < MANY ? LEAST_FOR_BLOCKS : LEAST_IN_BATCH;
    return s.rows < least || s.cols < least ? flxi_route_too_small : NULL;
}

size_t flxi_blocks_scratch(const flxi_route_node *n, int threads)
{
    return scratch_bytes(n, &flxi_block_engine, threads);
}

flx_code flxi_blocks_prepare(const flxi_route_node *n, void *kept, const flxi_allocator *mem)
{
    (void)mem;
    return keep_slot_bytes(n, &flxi_block_engine, kept);
}

flx_code flxi_blocks_route(const flxi_route_node *n)
{
    return run_slices(n, &flxi_block_engine);
}

/* Below this the choice could fall differently from one run to the next, and with it the last bits of results. */
static const double clearly_faster = 1.25;

const char *flxi_lapack_applies(const flxi_route_node *n)
{
    solving s;
    const char *why = flxi_blocks_applies(n);
    if (why)
        return why;
    make(n, &flxi_lapack_engine, 1, &s);
    if (s.rows < LEAST_FOR_LIBRARY || s.cols < LEAST_FOR_LIBRARY)
        return "too small for a library call to pay";
    if (s.count == 1 && s.rows >= LEAST_FOR_THREADS)
        return "a single matrix, on which our own blocks set all threads";
    if (s.rows > MOST_FOR_LIBRARY || s.cols > MOST_FOR_LIBRARY || s.sides > MOST_FOR_LIBRARY)
        return "so large that a call of the library, which nothing ends early, takes long";
    if (!flxi_lapack_library(&why))
        return why;
    return flxi_lapack_ratio(s.how->task, s.dtype) > clearly_faster ? NULL : "our own blocks measured as fast";
}

size_t flxi_lapack_scratch(const flxi_route_node *n, int threads)
{
    return scratch_bytes(n, &flxi_lapack_engine, threads);
}

flx_code flxi_lapack_prepare(const flxi_route_node *n, void *kept, const flxi_allocator *mem)
{
    (void)mem;
    return keep_slot_bytes(n, &flxi_lapack_engine, kept);
}

flx_code flxi_lapack_route(const flxi_route_node *n)
{
    return run_slices(n, &flxi_lapack_engine);
}
