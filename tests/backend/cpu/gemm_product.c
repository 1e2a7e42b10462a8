/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_product.c: matrix products against plain sums, for every dtype, odd extents, transposes and batches; the same
   bits for any number of threads and any instruction set. */
#include "gemm_case.h"

#include "graph/op/eval.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

static void name_case(const gemm_shape *s, int threads, flxi_isa isa)
{
    test_fail_context("%s %lldx %lldx%lldx%lld%s%s%s%s gap %lld, %d threads, isa %d", flx_dtype_name(s->dtype),
                      (long long)s->batch, (long long)s->m, (long long)s->n, (long long)s->k,
                      s->a_transposed ? " a^T" : "", s->b_transposed ? " b^T" : "", s->a_shared ? " a shared" : "",
                      s->b_shared ? " b shared" : "", (long long)s->c_gap, threads, (int)isa);
}

static void check_shape(const gemm_shape *s, uint64_t *seed)
{
    gemm_case g = gemm_case_new(s, seed);
    name_case(s, 1, FLXI_ISA_BEST);
    test_count_case();
    gemm_case_run(&g, 1, FLXI_ISA_BEST);
    gemm_case_check(&g);
    gemm_case_free(&g);
}

TEST(gemm_agrees_with_plain_sums)
{
    static const int64_t extents[][3] = {{1, 1, 1},  {1, 7, 5},  {7, 1, 5},   {5, 3, 1},    {6, 16, 8},   {7, 17, 33},
                                         {2, 65, 9}, {65, 2, 9}, {13, 40, 3}, {50, 70, 37}, {1, 150, 70}, {150, 1, 70}};
    uint64_t seed = test_seed();
    for (int32_t d = 1; d < FLX_DTYPE_COUNT; d++)
        for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
            for (int way = 0; way < 8; way++)
                check_shape(&(gemm_shape){.dtype = d,
                                          .m = extents[e][0],
                                          .n = extents[e][1],
                                          .k = extents[e][2],
                                          .a_transposed = way & 1,
                                          .b_transposed = way & 2,
                                          .c_gap = way & 4 ? 3 : 0},
                            &seed);
}

TEST(gemm_adds_chunks_of_the_depth)
{
    static const int64_t extents[][3] = {{100, 90, 1030}, {3, 300, 600}, {300, 3, 600}, {1, 40, 1500}, {130, 70, 520}};
    uint64_t seed = test_seed();
    for (int32_t d = 1; d < FLX_DTYPE_COUNT; d++)
        for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
            check_shape(&(gemm_shape){.dtype = d,
                                      .m = extents[e][0],
                                      .n = extents[e][1],
                                      .k = extents[e][2],
                                      .a_transposed = e & 1,
                                      .b_transposed = d & 1},
                        &seed);
}

TEST(gemm_batches_and_shared_operands)
{
    uint64_t seed = test_seed();
    for (int32_t d = 1; d < FLX_DTYPE_COUNT; d++)
        for (int way = 0; way < 16; way++)
            for (int64_t m = 1; m <= 20; m += 19)
                check_shape(&(gemm_shape){.dtype = d,
                                          .batch = 5,
                                          .m = m,
                                          .n = 11,
                                          .k = 9,
                                          .a_shared = way & 1,
                                          .b_shared = way & 2,
                                          .b_transposed = way & 4,
                                          .c_gap = way & 8 ? 2 : 0},
                            &seed);
}

TEST(gemm_large_batches)
{
    static const int32_t dtypes[] = {FLX_F32, FLX_F64, FLX_BF16, FLX_C64, FLX_I32};
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (int way = 0; way < 4; way++)
            check_shape(&(gemm_shape){.dtype = dtypes[i],
                                      .batch = way & 1 ? 2 : 9,
                                      .m = 110,
                                      .n = 130,
                                      .k = way & 1 ? 620 : 70,
                                      .b_transposed = way & 2},
                        &seed);
}

/* ---- Integers of 8 and 16 bits ---- */

static const int32_t narrow_dtypes[] = {FLX_I8, FLX_U8, FLX_I16};

/* Largest magnitudes, which pairs and fours of products must not saturate, mixed with random numbers. */
static void fill_extremes(int32_t dtype, void *data, size_t nbytes, uint64_t *seed)
{
    int64_t least = dtype == FLX_I8 ? INT8_MIN : dtype == FLX_U8 ? 0 : INT16_MIN;
    int64_t most = dtype == FLX_I8 ? INT8_MAX : dtype == FLX_U8 ? UINT8_MAX : INT16_MAX;
    for (int64_t i = 0; i < (int64_t)(nbytes / flx_dtype_size(dtype)); i++) {
        uint64_t x = test_random(seed);
        if (x % 4)
            flxi_store_int(dtype, data, i, x % 4 == 1 ? least : most);
    }
}

/* The first instruction set against plain sums, the others against its bits: sums take most of the time. */
static void check_narrow(const gemm_shape *s, uint64_t *seed)
{
    static const flxi_isa isas[] = {FLXI_ISA_GENERIC, FLXI_ISA_AVX2, FLXI_ISA_AVX512};
    gemm_case g = gemm_case_new(s, seed);
    fill_extremes(s->dtype, g.a, g.a_bytes, seed);
    fill_extremes(s->b_dtype, g.b, g.b_bytes, seed);
    void *first = NULL;
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        if (!flxi_isa_available(isas[i]))
            continue;
        name_case(s, 1 + (int)(i & 1), isas[i]);
        test_count_case();
        gemm_case_run(&g, 1 + (int)(i & 1), isas[i]);
        if (first) {
            CHECK(memcmp(g.c, first, g.c_bytes) == 0);
            continue;
        }
        gemm_case_check(&g);
        first = malloc(g.c_bytes + 1);
        memcpy(first, g.c, g.c_bytes);
    }
    free(first);
    gemm_case_free(&g);
}

TEST(gemm_narrow_integers_are_exact)
{
    static const int64_t extents[][3] = {{1, 1, 1},    {1, 7, 5},    {7, 1, 6},     {5, 3, 0},    {6, 16, 8},
                                         {7, 17, 33},  {13, 40, 3},  {50, 70, 37},  {1, 150, 70}, {150, 1, 71},
                                         {70, 130, 9}, {90, 80, 66}, {20, 18, 2500}};
    uint64_t seed = test_seed();
    for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
        for (int way = 0; way < 4 * 9; way++)
            check_narrow(&(gemm_shape){.dtype = narrow_dtypes[way / 4 % 3],
                                       .b_dtype = narrow_dtypes[way / 12],
                                       .result = way & 1 ? FLX_I32 : FLX_U32,
                                       .batch = e % 4 == 3 ? 2 : 0,
                                       .m = extents[e][0],
                                       .n = extents[e][1],
                                       .k = extents[e][2],
                                       .a_transposed = way & 1,
                                       .b_transposed = way & 2,
                                       .c_gap = e % 3 == 1 ? 3 : 0},
                         &seed);
}

/* Blocks, chunks of the depth and packing that all threads share. */
TEST(gemm_narrow_integers_on_larger_shapes)
{
    static const int64_t extents[][3] = {{330, 150, 130}, {300, 140, 2100}};
    uint64_t seed = test_seed();
    for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
        for (int way = 0; way < 4; way++)
            check_narrow(&(gemm_shape){.dtype = FLX_I8,
                                       .b_dtype = way & 1 ? FLX_U8 : FLX_I8,
                                       .result = FLX_I32,
                                       .m = extents[e][0],
                                       .n = extents[e][1],
                                       .k = extents[e][2],
                                       .a_transposed = way & 1,
                                       .b_transposed = way & 2},
                         &seed);
}

/* The depth walks two axes, so that words are gathered from both; C is written with a column step. */
TEST(gemm_narrow_integers_walk_several_axes)
{
    enum { M = 9, N = 11, P = 3, Q = 5 };
    int8_t a[P * M * Q];
    uint8_t b[N * P * Q];
    int32_t c[2 * M * N];
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof a; i++)
        a[i] = (int8_t)test_random(&seed);
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (uint8_t)test_random(&seed);
    flxi_gemm p = {.dtype = FLX_I8, .b_dtype = FLX_U8, .result = FLX_I32, .m = M, .n = N, .k = P * Q};
    p.a.data = a; /* [P, M, Q] */
    p.b.data = b; /* [N, P, Q] */
    p.c = c;
    p.c_row = 2 * N;
    p.c_col = 2;
    p.alpha = 1;
    flxi_walk_push(&p.a.line, M, Q);
    flxi_walk_push(&p.a.depth, P, M * Q);
    flxi_walk_push(&p.a.depth, Q, 1);
    flxi_walk_push(&p.b.line, N, P * Q);
    flxi_walk_push(&p.b.depth, P, Q);
    flxi_walk_push(&p.b.depth, Q, 1);
    void *scratch = aligned_alloc(64, (flxi_gemm_scratch(&p, 1) + 127) / 64 * 64);
    flxi_gemm_run(&p, NULL, scratch);
    free(scratch);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            int64_t sum = 0;
            for (int k = 0; k < P; k++)
                for (int q = 0; q < Q; q++)
                    sum += a[(k * M + i) * Q + q] * b[(j * P + k) * Q + q];
            CHECK_EQ_I64(c[2 * (i * N + j)], sum);
        }
}

TEST(gemm_long_depth_is_summed_in_pieces)
{
    static const int64_t depths[] = {16383, 16384, 20000, 24576};
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
        for (int way = 0; way < 4; way++) {
            check_shape(
                &(gemm_shape){
                    .dtype = FLX_F32, .m = 3, .n = 5, .k = depths[i], .a_transposed = way & 1, .b_transposed = way & 2},
                &seed);
            check_shape(
                &(gemm_shape){
                    .dtype = FLX_F64, .m = 1, .n = 1, .k = depths[i], .a_transposed = way & 1, .b_transposed = way & 2},
                &seed);
            check_shape(&(gemm_shape){.dtype = FLX_BF16,
                                      .m = 2,
                                      .n = 9,
                                      .k = depths[i],
                                      .a_transposed = way & 1,
                                      .b_transposed = way & 2},
                        &seed);
        }
}

TEST(gemm_empty_extents)
{
    uint64_t seed = test_seed();
    for (int32_t d = 1; d < FLX_DTYPE_COUNT; d++)
        for (int way = 0; way < 16; way++)
            check_shape(&(gemm_shape){.dtype = d,
                                      .batch = way & 8 ? 3 : 0,
                                      .m = way & 1 ? 0 : 7,
                                      .n = way & 2 ? 0 : 5,
                                      .k = way & 4 ? 0 : 3},
                        &seed);
}

/* ---- Same bits ---- */

static void check_same_bits(const gemm_shape *s, uint64_t *seed)
{
    static const flxi_isa isas[] = {FLXI_ISA_BEST, FLXI_ISA_GENERIC, FLXI_ISA_AVX2, FLXI_ISA_AVX512};
    gemm_case g = gemm_case_new(s, seed);
    gemm_case_run(&g, 1, FLXI_ISA_BEST);
    void *first = malloc(g.c_bytes + 1);
    memcpy(first, g.c, g.c_bytes);
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++)
        for (int threads = 1; threads <= 3; threads++) {
            if (!flxi_isa_available(isas[i]))
                continue;
            gemm_case_run(&g, threads, isas[i]);
            name_case(s, threads, isas[i]);
            test_count_case();
            CHECK(memcmp(g.c, first, g.c_bytes) == 0);
        }
    free(first);
    gemm_case_free(&g);
}

TEST(gemm_bits_do_not_depend_on_threads_or_instructions)
{
    static const int32_t dtypes[] = {FLX_F32, FLX_F64, FLX_F16, FLX_BF16, FLX_C64, FLX_C128, FLX_I16, FLX_BOOL};
    static const int64_t extents[][4] = {{0, 97, 131, 83}, {0, 150, 90, 700}, {0, 1, 513, 200}, {0, 300, 1, 200},
                                         {0, 5, 300, 90},  {0, 300, 5, 90},   {0, 7, 6, 20000}, {0, 1, 1, 40000},
                                         {12, 33, 20, 40}, {3, 120, 90, 90},  {0, 40, 600, 100}};
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
            check_same_bits(&(gemm_shape){.dtype = dtypes[i],
                                          .batch = extents[e][0],
                                          .m = extents[e][1],
                                          .n = extents[e][2],
                                          .k = extents[e][3],
                                          .a_transposed = i & 1,
                                          .b_transposed = e & 1},
                            &seed);
}

/* ---- Few lines ---- */

/* One chain of fused multiply-adds for each chunk of the depth, chunks added in order. */
static float chained_f32(const float *a, int64_t a_step, const float *b, int64_t b_step, int64_t depth)
{
    int64_t chunk = flxi_gemm_chunk(FLX_F32, depth);
    float total = 0;
    for (int64_t from = 0; from < depth; from += chunk) {
        float sum = 0;
        for (int64_t k = from; k < depth && k < from + chunk; k++)
            sum = fmaf(a[k * a_step], b[k * b_step], sum);
        total = from ? total + sum : sum;
    }
    return total;
}

/* 64 chains, folded in halves. */
static float dotted_f32(const float *a, const float *b, int64_t depth)
{
    float slot[64] = {0};
    for (int64_t k = 0; k < depth; k++)
        slot[k % 64] = fmaf(a[k], b[k], slot[k % 64]);
    for (int half = 32; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            slot[i] += slot[i + half];
    return slot[0];
}

static void check_order(const gemm_shape *s, uint64_t *seed)
{
    static const flxi_isa isas[] = {FLXI_ISA_GENERIC, FLXI_ISA_AVX2, FLXI_ISA_AVX512};
    gemm_case g = gemm_case_new(s, seed);
    int64_t a_step = s->a_transposed ? s->m : 1;
    int64_t b_step = s->b_transposed ? 1 : s->n;
    bool is_dots = (s->m == 1 || s->n == 1) && (a_step == 1 || s->k == 1) && (b_step == 1 || s->k == 1);
    for (size_t x = 0; x < sizeof isas / sizeof *isas; x++) {
        if (!flxi_isa_available(isas[x]))
            continue;
        gemm_case_run(&g, 2, isas[x]);
        name_case(s, 2, isas[x]);
        test_count_case();
        for (int64_t i = 0; i < s->m; i++)
            for (int64_t j = 0; j < s->n; j++) {
                const float *a = (const float *)g.a + i * (s->a_transposed ? 1 : s->k);
                const float *b = (const float *)g.b + j * (s->b_transposed ? s->k : 1);
                float y = is_dots ? dotted_f32(a, b, s->k) : chained_f32(a, a_step, b, b_step, s->k);
                CHECK(memcmp(&y, (const float *)g.c + i * g.p.c_row + j, sizeof y) == 0);
            }
    }
    gemm_case_free(&g);
}

/* Few rows or few columns, read in place or turned: whatever the way, the order of the sum is the one gemm.h tells. */
TEST(gemm_few_lines_keep_the_order)
{
    static const int64_t few[] = {1, 2, 6, 8, 11, 13, 17, 32, 33};
    static const int64_t rest[][2] = {{128, 64}, {70, 130}, {67, 1100}, {300, 20}};
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        for (size_t r = 0; r < sizeof rest / sizeof *rest; r++)
            for (int way = 0; way < 8; way++)
                check_order(&(gemm_shape){.dtype = FLX_F32,
                                          .m = way & 4 ? rest[r][0] : few[i],
                                          .n = way & 4 ? few[i] : rest[r][0],
                                          .k = rest[r][1],
                                          .a_transposed = way & 1,
                                          .b_transposed = way & 2,
                                          .c_gap = r & 1 ? 3 : 0},
                            &seed);
}

TEST(gemm_few_lines_of_every_dtype)
{
    static const int64_t extents[][3] = {{8, 90, 40}, {90, 8, 40}, {32, 150, 300}, {150, 19, 30}};
    uint64_t seed = test_seed();
    for (int32_t d = 1; d < FLX_DTYPE_COUNT; d++)
        for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
            for (int way = 0; way < 8; way++)
                check_shape(&(gemm_shape){.dtype = d,
                                          .batch = way & 4 ? 2 : 0,
                                          .m = extents[e][0],
                                          .n = extents[e][1],
                                          .k = extents[e][2],
                                          .a_transposed = way & 1,
                                          .b_transposed = way & 2,
                                          .c_gap = way & 1 ? 3 : 0},
                            &seed);
}

/* A row's sums do not depend on the other rows: a product computed in two halves is the whole one. */
TEST(gemm_rows_are_independent)
{
    uint64_t seed = test_seed();
    gemm_shape s = {.dtype = FLX_F32, .m = 130, .n = 120, .k = 600};
    gemm_case g = gemm_case_new(&s, &seed);
    gemm_case_run(&g, 1, FLXI_ISA_BEST);
    float *whole = malloc(g.c_bytes);
    memcpy(whole, g.c, g.c_bytes);
    g.p.m = g.p.a.line.dims[0] = 65;
    g.p.a.data = (const float *)g.a + 65 * 600;
    gemm_case_run(&g, 1, FLXI_ISA_BEST);
    CHECK(memcmp(whole + 65 * 120, g.c, 65 * 120 * sizeof(float)) == 0);
    free(whole);
    gemm_case_free(&g);
}

/* ---- Layouts and epilogues ---- */

/* a [2, 5, 3, 4] and b [4, 5, 7], summed over 5 and 4: lines and depth of several axes; C has a column step. */
TEST(gemm_walks_several_axes)
{
    enum { P = 2, Q = 5, R = 3, S = 4, T = 7 };
    float a[P * Q * R * S];
    float b[S * Q * T];
    float c[P * R * T * 2];
    uint64_t seed = test_seed();
    for (int i = 0; i < P * Q * R * S; i++)
        a[i] = (float)((int)(test_random(&seed) % 9) - 4);
    for (int i = 0; i < S * Q * T; i++)
        b[i] = (float)((int)(test_random(&seed) % 9) - 4);
    flxi_gemm p = {
        .dtype = FLX_F32, .result = FLX_F32, .m = P * R, .n = T, .k = Q * S, .c_row = 2 * T, .c_col = 2, .alpha = 1};
    p.a.data = a;
    p.b.data = b;
    p.c = c;
    flxi_walk_push(&p.a.line, P, Q * R * S);
    flxi_walk_push(&p.a.line, R, S);
    flxi_walk_push(&p.a.depth, Q, R * S);
    flxi_walk_push(&p.a.depth, S, 1);
    flxi_walk_push(&p.b.line, T, 1);
    flxi_walk_push(&p.b.depth, Q, T); /* b is [S, Q, T] */
    flxi_walk_push(&p.b.depth, S, Q * T);
    void *scratch = aligned_alloc(64, (flxi_gemm_scratch(&p, 1) + 127) / 64 * 64);
    flxi_gemm_run(&p, NULL, scratch);
    free(scratch);
    for (int x = 0; x < P; x++)
        for (int r = 0; r < R; r++)
            for (int t = 0; t < T; t++) {
                float sum = 0;
                for (int q = 0; q < Q; q++)
                    for (int s = 0; s < S; s++)
                        sum += a[((x * Q + q) * R + r) * S + s] * b[(s * Q + q) * T + t];
                CHECK_EQ_I64((int64_t)c[((x * R + r) * T + t) * 2], (int64_t)sum);
            }
}

static void check_epilogue(int32_t dtype, int64_t m, int64_t n, int64_t k, bool b_transposed)
{
    uint64_t seed = test_seed();
    gemm_shape s = {.dtype = dtype, .m = m, .n = n, .k = k, .b_transposed = b_transposed};
    gemm_case g = gemm_case_new(&s, &seed);
    size_t size = flx_dtype_size(dtype);
    char *plain = malloc(g.c_bytes);
    char *bias = malloc((size_t)n * size);
    char *residual = malloc(g.c_bytes);
    gemm_case_run(&g, 1, FLXI_ISA_BEST);
    memcpy(plain, g.c, g.c_bytes);
    for (int64_t i = 0; i < n; i++)
        flxi_store_double(dtype, bias, i, 8 * test_uniform(&seed));
    for (int64_t i = 0; i < m * n; i++)
        flxi_store_double(dtype, residual, i, 8 * test_uniform(&seed));
    g.p.alpha = 0.5;
    g.p.bias = bias;
    g.p.bias_col = 1;
    g.p.residual = residual;
    gemm_case_run(&g, 2, FLXI_ISA_BEST);
    test_fail_context("%s %lldx%lldx%lld", flx_dtype_name(dtype), (long long)m, (long long)n, (long long)k);
    double unit = ldexp(1, -flxi_mantissa_bits(dtype));
    for (int64_t i = 0; i < m * n; i++) {
        double sum = 0.5 * flxi_load_double(dtype, plain, i);
        double y = sum + flxi_load_double(dtype, bias, i % n) + flxi_load_double(dtype, residual, i);
        CHECK_NEAR(flxi_load_double(dtype, g.c, i), y, 4 * unit * (fabs(sum) + 16));
    }
    free(plain);
    free(bias);
    free(residual);
    gemm_case_free(&g);
}

TEST(gemm_epilogue_scales_and_adds)
{
    static const int32_t dtypes[] = {FLX_F32, FLX_F64, FLX_F16, FLX_BF16};
    for (size_t i = 0; i < 4; i++) {
        check_epilogue(dtypes[i], 50, 37, 20, false);
        check_epilogue(dtypes[i], 120, 70, 600, false);
        check_epilogue(dtypes[i], 1, 70, 30, false);
        check_epilogue(dtypes[i], 70, 1, 30, false);
        check_epilogue(dtypes[i], 2, 3, 17000, false);
        check_epilogue(dtypes[i], 20, 90, 600, false);
        check_epilogue(dtypes[i], 20, 90, 600, true);
        check_epilogue(dtypes[i], 1, 70, 130, true);
    }
}

/* C += A B, on the shapes of every way of computing: tiles in place, sides that change places, dots, pieces of the
   depth. With small integers every sum is exact. */
static void check_adding(int32_t dtype, int64_t m, int64_t n, int64_t k, bool b_transposed)
{
    uint64_t seed = test_seed();
    gemm_shape s = {.dtype = dtype, .m = m, .n = n, .k = k, .b_transposed = b_transposed};
    gemm_case g = gemm_case_new(&s, &seed);
    double *plain = malloc((size_t)(m * n) * sizeof *plain);
    void *scratch = aligned_alloc(64, (flxi_gemm_scratch(&g.p, 1) + 127) / 64 * 64);
    test_fail_context("%s %lldx%lldx%lld", flx_dtype_name(dtype), (long long)m, (long long)n, (long long)k);
    for (int64_t i = 0; i < m * k; i++)
        flxi_store_double(dtype, g.a, i, round(flxi_load_double(dtype, g.a, i)));
    for (int64_t i = 0; i < k * n; i++)
        flxi_store_double(dtype, g.b, i, round(flxi_load_double(dtype, g.b, i)));
    gemm_case_run(&g, 1, FLXI_ISA_BEST);
    for (int64_t i = 0; i < m * n; i++) {
        plain[i] = flxi_load_double(dtype, g.c, i);
        flxi_store_double(dtype, g.c, i, (double)(i % 7) - 3);
    }
    g.p.add = true;
    flxi_gemm_run(&g.p, NULL, scratch);
    for (int64_t i = 0; i < m * n; i++)
        CHECK_NEAR(flxi_load_double(dtype, g.c, i), plain[i] + (double)(i % 7) - 3, 0);
    free(plain);
    free(scratch);
    gemm_case_free(&g);
}

TEST(gemm_adds_to_what_is_there)
{
    for (int d = 0; d < 2; d++) {
        int32_t dtype = d ? FLX_F32 : FLX_F64;
        check_adding(dtype, 50, 37, 20, false);
        check_adding(dtype, 120, 70, 600, false);
        check_adding(dtype, 1, 70, 30, false);
        check_adding(dtype, 70, 1, 30, true);
        check_adding(dtype, 70, 3, 30, false);
        check_adding(dtype, 2, 3, 17000, false);
        check_adding(dtype, 300, 300, 300, false);
    }
}

/* Scratch for some threads serves fewer as well: a step may have to run on its caller alone. */
TEST(gemm_scratch_serves_fewer_threads)
{
    static const int64_t extents[][4] = {{1, 32, 512, 784}, {1, 300, 300, 300}, {7, 40, 90, 60},
                                         {1, 1, 4000, 200}, {1, 600, 20, 900},  {3, 500, 500, 500},
                                         {1, 5, 6, 30000},  {1, 32, 784, 512},  {1, 784, 9, 512}};
    static const int32_t dtypes[] = {FLX_F32, FLX_F64, FLX_BF16, FLX_C64, FLX_I8};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            const int64_t *e = extents[i];
            flxi_gemm p = flxi_gemm_matrices(dtypes[d], e[1], e[2], e[3], 1, e[1], 1, e[3]);
            p.batch_rank = 1;
            p.batch_dims[0] = e[0];
            p.a.batch[0] = e[1] * e[3];
            p.b.batch[0] = e[2] * e[3];
            p.c_batch[0] = e[1] * e[2];
            for (int threads = 2; threads <= 9; threads++) {
                test_fail_context("%s, case %zu, %d threads", flx_dtype_name(dtypes[d]), i, threads);
                CHECK(flxi_gemm_scratch(&p, threads) >= flxi_gemm_scratch(&p, threads - 1));
            }
        }
}
