/* SPDX-License-Identifier: Apache-2.0 */
/* lapack.c: see lapack.h. The functions are those of Fortran with 32-bit integers, whose matrices are column-major: a
   row-major matrix is read as its transpose. Lengths of strings come last, as Fortran compilers pass them. */
#include "backend/cpu/linalg/lapack.h"

#include "base/host/stop.h"
#include "graph/op/eval.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef void (*getrf_fn)(const int *m, const int *n, void *a, const int *lda, int *pivots, int *info);
typedef void (*potrf_fn)(const char *half, const int *n, void *a, const int *lda, int *info, size_t);
typedef void (*trsm_f32_fn)(const char *side, const char *half, const char *trans, const char *diagonal, const int *m,
                            const int *n, const float *alpha, const void *a, const int *lda, void *b, const int *ldb,
                            size_t, size_t, size_t, size_t);
typedef void (*trsm_f64_fn)(const char *side, const char *half, const char *trans, const char *diagonal, const int *m,
                            const int *n, const double *alpha, const void *a, const int *lda, void *b, const int *ldb,
                            size_t, size_t, size_t, size_t);

/* Written once, under `once`; read-only afterwards. */
static struct {
    const char *name, *why;
    getrf_fn sgetrf, dgetrf;
    potrf_fn spotrf, dpotrf;
    trsm_f32_fn strsm;
    trsm_f64_fn dtrsm;
} found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- Finding ---- */

/* POSIX lets data pointers from dlsym be functions, C does not say how. */
static bool get(void *library, const char *symbol, void *function)
{
    void *address = dlsym(library, symbol);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static bool open_library(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    void (*set_threads)(int) = NULL;
    if (!library)
        return false;
    bool has_all = get(library, "sgetrf_", &found.sgetrf) && get(library, "dgetrf_", &found.dgetrf) &&
                   get(library, "spotrf_", &found.spotrf) && get(library, "dpotrf_", &found.dpotrf) &&
                   get(library, "strsm_", &found.strsm) && get(library, "dtrsm_", &found.dtrsm);
    if (!has_all) {
        dlclose(library);
        return false;
    }
    if (get(library, "openblas_set_num_threads", &set_threads) || get(library, "MKL_Set_Num_Threads", &set_threads))
        set_threads(1);
    found.name = name;
    return true;
}

static void find_library(void)
{
    static const char *const names[] = {"libopenblas.so.0", "liblapack.so.3", "libmkl_rt.so"};
    static char path[512]; /* outlives the environment's copy */
    const char *wish = getenv("FLX_LAPACK");
    if (wish && strcmp(wish, "off") == 0) {
        found.why = "FLX_LAPACK=off";
        return;
    }
    if (wish && *wish) {
        size_t n = strlen(wish);
        if (n < sizeof path)
            memcpy(path, wish, n + 1);
        found.why = n < sizeof path && open_library(path) ? NULL
                                                          : "the library FLX_LAPACK names has no dgetrf_, dpotrf_ and "
                                                            "dtrsm_";
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (open_library(names[i]))
            return;
    found.why = "no LAPACK library was found";
}

const char *flxi_lapack_library(const char **why)
{
    pthread_once(&once, find_library);
    if (why)
        *why = found.why;
    return found.name;
}

/* ---- The engine ---- */

static size_t aligned(size_t nbytes)
{
    return (nbytes + 63) / 64 * 64;
}

static size_t lu_scratch(int32_t dtype, int64_t m, int64_t n, int threads)
{
    (void)threads;
    return aligned((size_t)(m * n) * flx_dtype_size(dtype)) + aligned((size_t)(m < n ? m : n) * sizeof(int));
}

static void factor_lu(const flxi_factor_job *j, void *a, int64_t m, int64_t n, int64_t *pivots)
{
    char *turned = j->scratch;
    int *exchanges = (int *)(void *)(turned + aligned((size_t)(m * n) * flx_dtype_size(j->dtype)));
    int rows = (int)m;
    int cols = (int)n;
    int info;
    flxi_turn_matrix(j->dtype, turned, a, m, n);
    (j->dtype == FLX_F64 ? found.dgetrf : found.sgetrf)(&rows, &cols, turned, &rows, exchanges, &info);
    flxi_turn_matrix(j->dtype, a, turned, n, m);
    for (int64_t k = 0; k < (m < n ? m : n); k++)
        pivots[k] = exchanges[k] - 1;
}

static size_t no_scratch(int32_t dtype, int64_t n, int threads)
{
    (void)dtype;
    (void)n;
    (void)threads;
    return 0;
}

/* What we call the upper triangle is the lower one of the transpose. */
static bool factor_cholesky(const flxi_factor_job *j, void *a, int64_t n)
{
    int extent = (int)n;
    int info;
    (j->dtype == FLX_F64 ? found.dpotrf : found.spotrf)("L", &extent, a, &extent, &info, 1);
    bool is_definite = info == 0;
    for (int64_t i = 0; i < n && is_definite; i++) /* an infinite pivot has an infinite root */
        is_definite = isfinite(flxi_load_double(j->dtype, a, i * (n + 1)));
    return is_definite;
}

static size_t no_triangle_scratch(int32_t dtype, const flxi_triangle *how, int64_t k, int threads)
{
    (void)how;
    return no_scratch(dtype, k, threads);
}

/* T x = b, transposed: x^T T^T = b^T, where b^T is b as stored, and t is T^T if its rows are dense. */
static void solve_triangle(const flxi_factor_job *j, const void *t, const flxi_triangle *how, void *b, int64_t k)
{
    int sides = (int)k;
    int extent = (int)how->n;
    bool is_turned = how->col != 1;
    int step = (int)(is_turned ? how->col : how->row);
    const char *half = how->lower == is_turned ? "L" : "U";
    const char *trans = is_turned ? "T" : "N";
    const char *diagonal = how->unit ? "U" : "N";
    if (j->dtype == FLX_F64)
        found.dtrsm("R", half, trans, diagonal, &sides, &extent, &(double){1}, t, &step, b, &sides, 1, 1, 1, 1);
    else
        found.strsm("R", half, trans, diagonal, &sides, &extent, &(float){1}, t, &step, b, &sides, 1, 1, 1, 1);
}

const flxi_factor_engine flxi_lapack_engine = {
    .lu = factor_lu,
    .cholesky = factor_cholesky,
    .triangular = solve_triangle,
    .lu_scratch = lu_scratch,
    .cholesky_scratch = no_scratch,
    .triangular_scratch = no_triangle_scratch,
};

/* ---- Measuring ---- */

enum { PROBE = 256, TRIES = 3 };

/* Of this thread alone: neighbours on the machine do not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const flxi_triangle probe_triangle = {.n = PROBE, .row = PROBE, .col = 1, .lower = true};

/* Matrices a and b, of small numbers with large ones on the diagonal, fit all tasks. */
static double seconds_of(const flxi_factor_engine *e, const flxi_factor_job *j, flxi_lapack_task task, char *a, char *b)
{
    int64_t pivots[PROBE];
    uint32_t state = 1;
    for (int64_t i = 0; i < PROBE * PROBE; i++) {
        state = state * 1664525u + 1013904223u;
        double x = (double)(state >> 8) * 0x1p-24 - 0.5;
        flxi_store_double(j->dtype, a, i, i % (PROBE + 1) == 0 ? x + PROBE : x);
        flxi_store_double(j->dtype, b, i, x);
    }
    double start = now();
    if (task == FLXI_BY_LU)
        e->lu(j, a, PROBE, PROBE, pivots);
    else if (task == FLXI_BY_CHOLESKY)
        e->cholesky(j, a, PROBE);
    else
        e->triangular(j, a, &probe_triangle, b, PROBE);
    return now() - start;
}

static size_t scratch_of(const flxi_factor_engine *e, flxi_lapack_task task, int32_t dtype)
{
    return task == FLXI_BY_LU         ? e->lu_scratch(dtype, PROBE, PROBE, 1)
           : task == FLXI_BY_CHOLESKY ? e->cholesky_scratch(dtype, PROBE, 1)
                                      : e->triangular_scratch(dtype, &probe_triangle, PROBE, 1);
}

/* The best of some tries, turn by turn: a machine that is busy for a moment is busy for both. */
static double measure(const flxi_factor_job *j, flxi_lapack_task task, char *a, char *b)
{
    double ours = 1e30;
    double theirs = 1e30;
    for (int i = 0; i < TRIES; i++) {
        double one = seconds_of(&flxi_block_engine, j, task, a, b);
        double other = seconds_of(&flxi_lapack_engine, j, task, a, b);
        ours = one < ours ? one : ours;
        theirs = other < theirs ? other : theirs;
        if (theirs > 2 * ours)
            break; /* plain loops of that name: not worth using */
    }
    return ours / theirs;
}

static double probe(flxi_lapack_task task, int32_t dtype)
{
    static const flxi_allocator mem = {flxi_default_alloc, NULL};
    size_t matrix = (size_t)PROBE * PROBE * flx_dtype_size(dtype);
    size_t own = scratch_of(&flxi_block_engine, task, dtype);
    size_t other = scratch_of(&flxi_lapack_engine, task, dtype);
    size_t nbytes = 2 * matrix + (own > other ? own : other) + 64;
    double ratio = 0;
    char *memory = flxi_alloc(&mem, 1, nbytes);
    if (memory) {
        char *start = memory + (64 - (uintptr_t)memory % 64) % 64;
        flx_stop *stop = flxi_stop_swap(NULL); /* what is measured is measured to its end */
        ratio = measure(&(flxi_factor_job){.dtype = dtype, .scratch = start + 2 * matrix}, task, start, start + matrix);
        flxi_stop_swap(stop);
    }
    flxi_free(&mem, memory, 1, nbytes);
    return ratio;
}

double flxi_lapack_ratio(flxi_lapack_task task, int32_t dtype)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static double ratios[FLXI_BY_TRIANGLE + 1][2]; /* 0: not measured yet */
    if (!flxi_lapack_library(NULL))
        return 0;
    pthread_mutex_lock(&mutex);
    double *ratio = &ratios[task][dtype == FLX_F64];
    if (*ratio == 0)
        *ratio = probe(task, dtype);
    double known = *ratio;
    pthread_mutex_unlock(&mutex);
    return known;
}
