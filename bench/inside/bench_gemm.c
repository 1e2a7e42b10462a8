/* SPDX-License-Identifier: Apache-2.0 */
/* bench_gemm.c: matrix products and convolutions, compared with the machine's peak of fused multiply-adds, and with a
   BLAS if one is found. It uses internals of the library: no public function runs one product alone.

       bench_gemm [THREADS]      (default: one per core) */
#include "backend/cpu/gemm/blas.h"
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/routes/routes.h"
#include "ops/opcode.h"
#include "ops/signal/conv.h"

#include "inside.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- The peak ---- */

typedef struct {
    int64_t rounds;
    float *sink; /* a line for each thread, so that nothing is optimised away */
} peak_job;

#if defined(__x86_64__)
#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

__attribute__((target("avx2,fma"))) static void peak_avx2(void *user, int64_t begin, int64_t end)
{
    const peak_job *j = user;
    __m256 x = _mm256_set1_ps(0.999f);
#define MAKE(i) __m256 c##i = _mm256_set1_ps((float)i);
#define STEP(i) c##i = _mm256_fmadd_ps(c##i, x, x);
#define ADD(i) sum = _mm256_add_ps(sum, c##i);
    CHAINS(MAKE)
    for (int64_t i = 0; i < j->rounds; i++) {
        CHAINS(STEP)
    }
    __m256 sum = _mm256_setzero_ps();
    CHAINS(ADD)
    _mm256_storeu_ps(j->sink + 16 * begin, sum);
    (void)end;
#undef MAKE
#undef STEP
#undef ADD
}

__attribute__((target("avx512f"))) static void peak_avx512(void *user, int64_t begin, int64_t end)
{
    const peak_job *j = user;
    __m512 x = _mm512_set1_ps(0.999f);
#define MAKE(i) __m512 c##i = _mm512_set1_ps((float)i);
#define STEP(i) c##i = _mm512_fmadd_ps(c##i, x, x);
#define ADD(i) sum = _mm512_add_ps(sum, c##i);
    CHAINS(MAKE)
    for (int64_t i = 0; i < j->rounds; i++) {
        CHAINS(STEP)
    }
    __m512 sum = _mm512_setzero_ps();
    CHAINS(ADD)
    _mm512_storeu_ps(j->sink + 16 * begin, sum);
    (void)end;
#undef MAKE
#undef STEP
#undef ADD
}

/* f32 GFLOP/s of all threads together. */
static double peak_of(flxi_pool *pool)
{
    int threads = flxi_pool_threads(pool);
    bool wide = flxi_isa_available(FLXI_ISA_AVX512);
    peak_job j = {.rounds = 400000, .sink = block_of((size_t)threads * 64)};
    double best = 0;
    if (!flxi_isa_available(FLXI_ISA_AVX2))
        return 0;
    for (int i = 0; i < 20; i++) {
        double start = now();
        flxi_pool_run(pool, threads, 1, wide ? peak_avx512 : peak_avx2, &j);
        double speed = 2e-9 * 12 * (wide ? 16 : 8) * (double)j.rounds * threads / (now() - start);
        best = speed > best ? speed : best;
    }
    free(j.sink);
    return best;
}
#else
static double peak_of(flxi_pool *pool)
{
    (void)pool;
    return 0;
}
#endif

/* ---- Products ---- */

typedef struct {
    int32_t dtype;
    int64_t batch, m, n, k;
    bool a_transposed, b_transposed;
} shape;

static double best_time(void (*fn)(void *), void *user, double work)
{
    double best = 1e30;
    double end = now() + 0.5;
    int rounds = work < 1e7 ? 20 : 1;
    while (now() < end) {
        double start = now();
        for (int i = 0; i < rounds; i++)
            fn(user);
        double time = (now() - start) / rounds;
        best = time < best ? time : best;
    }
    return best;
}

typedef struct {
    flxi_gemm product;
    flxi_pool *pool;
    void *scratch;
} gemm_job;

static void run_gemm(void *user)
{
    gemm_job *j = user;
    flxi_gemm_run(&j->product, j->pool, j->scratch);
}

static void run_blas(void *user)
{
    flxi_blas_run(user);
}

static void fill(int32_t dtype, void *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (dtype == FLX_F64)
            ((double *)data)[i] = (double)(i % 17) - 8;
        else if (dtype == FLX_F32)
            ((float *)data)[i] = (float)(i % 17) - 8;
        else
            ((uint16_t *)data)[i] = (uint16_t)(0x3c00 + i % 17);
}

static void bench_product(const shape *s, flxi_pool *pool, double peak)
{
    size_t size = flx_dtype_size(s->dtype);
    void *a = block_of((size_t)(s->batch * s->m * s->k) * size);
    void *b = block_of((size_t)(s->batch * s->k * s->n) * size);
    void *c = block_of((size_t)(s->batch * s->m * s->n) * size);
    gemm_job j = {.pool = pool};
    fill(s->dtype, a, s->batch * s->m * s->k);
    fill(s->dtype, b, s->batch * s->k * s->n);
    j.product = flxi_gemm_matrices(s->dtype, s->m, s->n, s->k, s->a_transposed ? 1 : s->k, s->a_transposed ? s->m : 1,
                                   s->b_transposed ? 1 : s->n, s->b_transposed ? s->k : 1);
    j.product.a.data = a;
    j.product.b.data = b;
    j.product.c = c;
    j.product.batch_rank = 1;
    j.product.batch_dims[0] = s->batch;
    j.product.a.batch[0] = s->m * s->k;
    j.product.b.batch[0] = s->k * s->n;
    j.product.c_batch[0] = s->m * s->n;
    j.scratch = block_of(flxi_gemm_scratch(&j.product, flxi_pool_threads(pool)));
    double work = 2.0 * (double)s->batch * (double)s->m * (double)s->n * (double)s->k;
    double time = best_time(run_gemm, &j, work);
    double limit = s->dtype == FLX_F64 ? peak / 2 : peak;
    printf("  %-4s %4lld x %5lld x %4lld x %6lld%s%s  %9.1f us  %7.1f GFLOP/s", flx_dtype_name(s->dtype),
           (long long)s->batch, (long long)s->m, (long long)s->n, (long long)s->k, s->a_transposed ? " a^T" : "    ",
           s->b_transposed ? " b^T" : "    ", 1e6 * time, 1e-9 * work / time);
    if (limit > 0)
        printf("  %4.2f of peak", 1e-9 * work / time / limit);
    if (flxi_blas_library(NULL) && s->batch == 1 && (s->dtype == FLX_F32 || s->dtype == FLX_F64) && work > 1e8 &&
        flxi_pool_threads(pool) == 1) {
        flxi_blas_product p = {.dtype = s->dtype,
                               .m = s->m,
                               .n = s->n,
                               .k = s->k,
                               .a_transposed = s->a_transposed,
                               .b_transposed = s->b_transposed,
                               .a = a,
                               .b = b,
                               .c = c,
                               .a_step = s->a_transposed ? s->m : s->k,
                               .b_step = s->b_transposed ? s->k : s->n,
                               .c_step = s->n};
        printf("  BLAS takes %.2f of the time", best_time(run_blas, &p, work) / time);
    }
    printf("\n");
    free(a);
    free(b);
    free(c);
    free(j.scratch);
}

/* ---- Convolutions ---- */

typedef struct {
    const flxi_route *route;
    flxi_route_node node;
} route_job;

static void run_route(void *user)
{
    route_job *j = user;
    (void)j->route->run(&j->node);
}

/* 3 x 3 on [2, 64, 56, 56], and its two derivatives; channels first and last. */
static void bench_conv(const char *op, const int64_t *layout, flxi_pool *pool, double peak)
{
    static const int64_t plain[] = {0, 1, 2, 3};
    static const int64_t ones[] = {1, 1, 1, 1};
    static const int64_t no[] = {0, 0};
    static const int64_t size[2][2] = {{56, 56}, {3, 3}};
    const int64_t *axes = layout ? layout : plain;
    flx_type x = {.dtype = FLX_F32, .rank = 4};
    flx_type w = x;
    static const int64_t x_dims[] = {2, 64, 56, 56};
    static const int64_t w_dims[] = {64, 64, 3, 3};
    for (int k = 0; k < 4; k++) {
        x.dims[axes[k]] = x_dims[k];
        w.dims[axes[k]] = w_dims[k];
    }
    flxi_conv_common common = {{ones, 2}, {ones, 4}, {ones, 2}, 1};
    flx_ints all = {axes, 4};
    flxi_conv_attrs forward = {common, {ones, 2}, {no, 2}, all, all, all, 1};
    flxi_conv_backward_input_attrs to_input = {common, {size[0], 2}};
    flxi_conv_backward_weight_attrs to_weight = {common, {size[1], 2}};
    flxi_opcode code = flxi_op_lookup(op, strlen(op));
    bool is_weight = code == OP_conv_backward_weight;
    const flx_type *const in_types[] = {&x, is_weight ? &x : &w};
    const flx_type *const out_types[] = {is_weight ? &w : &x};
    void *data[3];
    for (int i = 0; i < 3; i++) {
        data[i] = block_of(2 * 64 * 56 * 56 * sizeof(float));
        fill(FLX_F32, data[i], 2 * 64 * 56 * 56);
    }
    const void *const in[] = {data[0], data[1]};
    void *const out[] = {data[2]};
    const void *attrs = code == OP_conv ? (const void *)&forward : is_weight ? (const void *)&to_weight : &to_input;
    route_job j = {.node = {.op = code,
                            .attrs = attrs,
                            .nin = 2,
                            .nout = 1,
                            .in_types = in_types,
                            .out_types = out_types,
                            .in = in,
                            .out = out,
                            .pool = pool}};
    j.route = flxi_route_find(&j.node, NULL);
    j.node.scratch = block_of(j.route->scratch(&j.node, flxi_pool_threads(pool)));
    double work = 2.0 * 2 * 56 * 56 * 64 * 64 * 9;
    double time = best_time(run_route, &j, work);
    printf("  %-22s %s  %9.1f us  %7.1f GFLOP/s", op, layout ? "channels last" : "             ", 1e6 * time,
           1e-9 * work / time);
    if (peak > 0)
        printf("  %4.2f of peak", 1e-9 * work / time / peak);
    printf("\n");
    free(j.node.scratch);
    for (int i = 0; i < 3; i++)
        free(data[i]);
}

/* ---- All of it ---- */

static void bench_all(flxi_pool *pool)
{
    static const shape shapes[] = {
        {FLX_F32, 1, 1024, 1024, 1024, false, false},  {FLX_F32, 1, 1024, 1024, 1024, false, true},
        {FLX_F32, 1, 1024, 1024, 1024, true, false},   {FLX_F64, 1, 1024, 1024, 1024, false, false},
        {FLX_BF16, 1, 1024, 1024, 1024, false, false}, {FLX_F32, 1, 256, 3072, 768, false, false},
        {FLX_F32, 1, 32, 512, 784, false, false},      {FLX_F32, 1, 784, 512, 32, true, false},
        {FLX_F32, 1, 32, 784, 512, false, true},       {FLX_F32, 1, 1, 512, 784, false, false},
        {FLX_F32, 1, 1, 784, 512, false, true},        {FLX_F32, 256, 16, 16, 16, false, false},
        {FLX_F32, 256, 64, 64, 64, false, false},      {FLX_F32, 16, 512, 512, 64, false, true},
        {FLX_F32, 1, 64, 64, 100000, true, false},
    };
    static const int64_t last[] = {0, 3, 1, 2};
    double peak = peak_of(pool);
    printf("%d threads, fused multiply-adds of f32: %.1f GFLOP/s\n", flxi_pool_threads(pool), peak);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        bench_product(&shapes[i], pool, peak);
    bench_conv("conv", NULL, pool, peak);
    bench_conv("conv", last, pool, peak);
    bench_conv("conv_backward_input", NULL, pool, peak);
    bench_conv("conv_backward_weight", NULL, pool, peak);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    const char *why = NULL;
    const char *blas = flxi_blas_library(&why);
    flxi_pool *pool = flxi_pool_new(&mem, threads);
    if (!pool)
        return 3;
    printf("BLAS: %s\n", blas ? blas : why);
    bench_all(NULL);
    if (flxi_pool_threads(pool) > 1)
        bench_all(pool);
    flxi_pool_free(pool);
    return 0;
}
