/* SPDX-License-Identifier: Apache-2.0 */
/* blas.c: see blas.h. The functions are those of the CBLAS interface with 32-bit integers. */
#include "backend/cpu/gemm/blas.h"

#include "backend/cpu/routes/contraction_route.h"
#include "base/host/stop.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef void (*sgemm_fn)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);
typedef void (*dgemm_fn)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                         const double *b, int ldb, double beta, double *c, int ldc);

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

/* Written once, under `once`; read-only afterwards. */
static struct {
    const char *name, *why;
    sgemm_fn sgemm;
    dgemm_fn dgemm;
} found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- Finding ---- */

/* POSIX lets data pointers from dlsym be functions, C does not say how. */
#define FUNCTION(target, library, symbol)            \
    do {                                             \
        void *address = dlsym(library, symbol);      \
        memcpy(&(target), &address, sizeof(target)); \
    } while (0)

static bool open_library(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    void (*set_threads)(int) = NULL;
    if (!library)
        return false;
    FUNCTION(found.sgemm, library, "cblas_sgemm");
    FUNCTION(found.dgemm, library, "cblas_dgemm");
    if (!found.sgemm || !found.dgemm) {
        dlclose(library);
        return false;
    }
    FUNCTION(set_threads, library, "openblas_set_num_threads");
    if (!set_threads)
        FUNCTION(set_threads, library, "MKL_Set_Num_Threads");
    if (set_threads)
        set_threads(1);
    found.name = name;
    return true;
}

static void find_library(void)
{
    static const char *const names[] = {"libopenblas.so.0", "libblas.so.3", "libmkl_rt.so"};
    static char path[512]; /* outlives the environment's copy */
    const char *wish = getenv("FLX_BLAS");
    if (wish && strcmp(wish, "off") == 0) {
        found.why = "FLX_BLAS=off";
        return;
    }
    if (wish && *wish) {
        size_t n = strlen(wish);
        if (n < sizeof path)
            memcpy(path, wish, n + 1);
        found.why = n < sizeof path && open_library(path)
                        ? NULL
                        : "the library FLX_BLAS names has no cblas_sgemm and cblas_dgemm";
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (open_library(names[i]))
            return;
    found.why = "no BLAS library was found";
}

const char *flxi_blas_library(const char **why)
{
    pthread_once(&once, find_library);
    if (why)
        *why = found.why;
    return found.name;
}

void flxi_blas_run(const flxi_blas_product *p)
{
    int ta = p->a_transposed ? TRANS : NO_TRANS;
    int tb = p->b_transposed ? TRANS : NO_TRANS;
    if (p->dtype == FLX_F32)
        found.sgemm(ROW_MAJOR, ta, tb, (int)p->m, (int)p->n, (int)p->k, 1, p->a, (int)p->a_step, p->b, (int)p->b_step,
                    0, p->c, (int)p->c_step);
    else
        found.dgemm(ROW_MAJOR, ta, tb, (int)p->m, (int)p->n, (int)p->k, 1, p->a, (int)p->a_step, p->b, (int)p->b_step,
                    0, p->c, (int)p->c_step);
}

/* ---- Measuring ---- */

/* Large enough to count; and small enough to find plain loops of that name, which would take forty milliseconds for a
   large product, and are many times slower. */
enum { PROBE = 512, FIRST_PROBE = 128, TRIES = 3 };

/* Of this thread alone: neighbours on the machine do not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static flxi_gemm own_product(int32_t dtype, int64_t extent)
{
    return flxi_gemm_matrices(dtype, extent, extent, extent, extent, 1, extent, 1);
}

/* The best of some tries, turn by turn: a machine that is busy for a moment is busy for both. */
static double measure(int32_t dtype, int64_t extent, char *memory, size_t matrix, void *scratch)
{
    double ours = 1e30;
    double theirs = 1e30;
    flxi_gemm g = own_product(dtype, extent);
    flxi_blas_product b = {.dtype = dtype,
                           .m = extent,
                           .n = extent,
                           .k = extent,
                           .a_step = extent,
                           .b_step = extent,
                           .c_step = extent,
                           .a = memory,
                           .b = memory + matrix,
                           .c = memory + 2 * matrix};
    g.a.data = b.a;
    g.b.data = b.b;
    g.c = b.c;
    for (int i = 0; i < TRIES; i++) {
        double start = now();
        flxi_gemm_run(&g, NULL, scratch);
        double middle = now();
        flxi_blas_run(&b);
        double end = now();
        ours = middle - start < ours ? middle - start : ours;
        theirs = end - middle < theirs ? end - middle : theirs;
    }
    return ours / theirs;
}

static double probe(int32_t dtype)
{
    static const flxi_allocator mem = {flxi_default_alloc, NULL};
    static const double far_slower = 0.25;
    size_t matrix = (size_t)PROBE * PROBE * flx_dtype_size(dtype);
    flxi_gemm g = own_product(dtype, PROBE), first = own_product(dtype, FIRST_PROBE);
    size_t scratch = flxi_gemm_scratch(&g, 1), for_first = flxi_gemm_scratch(&first, 1);
    size_t nbytes = 3 * matrix + (scratch > for_first ? scratch : for_first) + 64;
    double ratio = 0;
    if (!flxi_blas_library(NULL))
        return 0;
    char *memory = flxi_alloc(&mem, 1, nbytes);
    if (memory) {
        char *start = memory + (64 - (uintptr_t)memory % 64) % 64;
        flx_stop *stop = flxi_stop_swap(NULL); /* what is measured is measured to its end */
        ratio = measure(dtype, FIRST_PROBE, start, matrix, start + 3 * matrix);
        if (ratio > far_slower)
            ratio = measure(dtype, PROBE, start, matrix, start + 3 * matrix);
        flxi_stop_swap(stop);
    }
    flxi_free(&mem, memory, 1, nbytes);
    return ratio;
}

static double ratios[2];
static pthread_once_t measured[2] = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT};

static void measure_f32(void)
{
    ratios[0] = probe(FLX_F32);
}

static void measure_f64(void)
{
    ratios[1] = probe(FLX_F64);
}

double flxi_blas_ratio(int32_t dtype)
{
    bool is_f64 = dtype == FLX_F64;
    pthread_once(&measured[is_f64], is_f64 ? measure_f64 : measure_f32);
    return ratios[is_f64];
}

/* ---- The route ---- */

/* A matrix as CBLAS wants it: dense along rows or along columns. */
static bool is_matrix(const flxi_gemm_operand *x, bool *lines_are_dense, int64_t *step)
{
    if (x->line.rank != 1 || x->depth.rank != 1)
        return false;
    *lines_are_dense = x->line.steps[0] == 1;
    *step = *lines_are_dense ? x->depth.steps[0] : x->line.steps[0];
    return (*lines_are_dense || x->depth.steps[0] == 1) && *step < INT32_MAX;
}

/* False where the shape is none for CBLAS; *why then says what it lacks. */
static bool product_of(const flxi_route_node *n, flxi_blas_product *b, const char **why)
{
    flxi_gemm p = flxi_contraction_product(n);
    bool lines_dense;
    *b = (flxi_blas_product){
        .dtype = p.dtype, .m = p.m, .n = p.n, .k = p.k, .a = p.a.data, .b = p.b.data, .c = p.c, .c_step = p.c_row};
    *why = "too small for a library call to pay";
    if ((double)p.m * (double)p.n * (double)p.k < 0x1p30 || p.m < 512 || p.n < 512 || p.k < 256)
        return false;
    *why = "a batch of products";
    for (int k = 0; k < p.batch_rank; k++)
        if (p.batch_dims[k] != 1)
            return false;
    *why = "operands that are no plain matrices";
    if (!is_matrix(&p.a, &lines_dense, &b->a_step))
        return false;
    b->a_transposed = lines_dense;
    if (!is_matrix(&p.b, &lines_dense, &b->b_step))
        return false;
    b->b_transposed = !lines_dense;
    return p.m < INT32_MAX && p.n < INT32_MAX && p.k < INT32_MAX;
}

/* Below this the choice could fall differently from one run to the next, and with it the last bits of results. */
static const double clearly_faster = 1.25;

const char *flxi_blas_applies(const flxi_route_node *n)
{
    const char *why;
    flxi_blas_product b;
    int32_t dtype = n->out_types[0]->dtype;
    if (dtype != FLX_F32 && dtype != FLX_F64)
        return "only f32 and f64";
    if (flxi_route_count(n->out_types[0]) == 0 || !product_of(n, &b, &why))
        return flxi_route_count(n->out_types[0]) == 0 ? "nothing to compute" : why;
    if (!flxi_blas_library(&why))
        return why;
    return flxi_blas_ratio(dtype) > clearly_faster ? NULL : "our own product measured as fast";
}

/* Limits of one call, which cannot be ended early: it takes about ten milliseconds. */
enum { BLOCK_ROWS = 256, LEAST_COLS = 128 };
static const int64_t call_products = (int64_t)1 << 29;

static void run_rows(void *user, int64_t begin, int64_t end)
{
    flxi_blas_product b = *(const flxi_blas_product *)user;
    int64_t size = (int64_t)flx_dtype_size(b.dtype), cols = b.n, step = call_products / (BLOCK_ROWS * b.k);
    step = step < LEAST_COLS ? LEAST_COLS : step / LEAST_COLS * LEAST_COLS;
    b.m = end - begin;
    b.a = (const char *)b.a + begin * (b.a_transposed ? 1 : b.a_step) * size;
    b.c = (char *)b.c + begin * b.c_step * size;
    for (int64_t j = 0; j < cols && !flxi_stopped(); j += step) {
        flxi_blas_product part = b;
        part.n = cols - j < step ? cols - j : step;
        part.b = (const char *)b.b + j * (b.b_transposed ? b.b_step : 1) * size;
        part.c = (char *)b.c + j * size;
        flxi_blas_run(&part);
    }
}

flx_code flxi_blas_route(const flxi_route_node *n)
{
    const char *why;
    flxi_blas_product b;
    if (!product_of(n, &b, &why))
        return flxi_fail(n->err, FLX_E_INTERNAL, "the blas route was asked for a product it refuses: %s", why);
    flxi_pool_run(n->pool, b.m, BLOCK_ROWS, run_rows, &b);
    return FLX_OK;
}
