/* SPDX-License-Identifier: Apache-2.0 */
/* packed_products.c: products with packed rows: every format and instruction set against the decoded numbers, and all
   instruction sets against each other, bit for bit. Decoded blocks against the gguf package's own decoder
   (tests/oracle/gguf_blocks.py). */
#include "backend/cpu/quant/packed_rows.h"
#include "gguf/gguf_types.h"
#include "gguf/random_model.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { K = 512, ROWS = FLXI_PACKED_ROWS };

static const char *const names[] = {
#define NAME(name, count, nbytes) #name,
    FLXI_GGUF_MAP(NAME)
#undef NAME
};

/* ---- Blocks ---- */

static const struct {
    const char *type;
    double sum, weighted; /* of all numbers; of each times its position + 1 */
} answers[] = {
#define BLOCKS(type, sum, weighted) {#type, sum, weighted},
#include "gguf/blocks.def"
#undef BLOCKS
};

/* Writes the blocks where the answers are made: FLX_TEST_KEEP=FOLDER. */
static void keep_blocks(flx_context *ctx)
{
    flx_gguf_source sources[FLXI_GGUF_COUNT];
    flx_tensor *values[FLXI_GGUF_COUNT];
    char path[600];
    if (!test_keep_dir())
        return;
    for (int i = 0; i < FLXI_GGUF_COUNT; i++) {
        uint64_t state = 11;
        values[i] = random_blocks(ctx, names[i], 1, K, &state);
        sources[i] = (flx_gguf_source){names[i], names[i], values[i]};
    }
    snprintf(path, sizeof path, "%s/blocks.gguf", test_keep_dir());
    CHECK(flx_gguf_write(path, NULL, 0, sources, FLXI_GGUF_COUNT, NULL) == FLX_OK);
    for (int i = 0; i < FLXI_GGUF_COUNT; i++)
        flx_tensor_release(values[i]);
}

TEST(gguf_blocks_decode_as_the_gguf_package_does)
{
    flx_context *ctx = flx_context_new(NULL);
    keep_blocks(ctx);
    CHECK_EQ_I64(sizeof answers / sizeof *answers, FLXI_GGUF_COUNT - 1); /* it has no q8_k */
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const flxi_gguf_type *t = flxi_gguf_type_named(answers[i].type);
        uint64_t state = 11;
        double y[FLXI_GGUF_MOST], sum = 0, weighted = 0, size = 0;
        flx_tensor *w = random_blocks(ctx, t->name, 1, K, &state);
        const uint8_t *b = flx_tensor_const_data(w);
        for (int64_t p = 0; p < K; p += t->count, b += t->nbytes) {
            flxi_gguf_formats[t->format].decode(b, y);
            for (int e = 0; e < t->count; e++) {
                sum += y[e];
                weighted += y[e] * (double)(p + e + 1);
                size += fabs(y[e]);
            }
        }
        flx_tensor_release(w);
        EXPECT_MSG(fabs(sum - answers[i].sum) <= 1e-6 * size && fabs(weighted - answers[i].weighted) <= 1e-6 * K * size,
                   "%s: %.9g, %.9g, not %.9g, %.9g", t->name, sum, weighted, answers[i].sum, answers[i].weighted);
    }
    flx_context_free(ctx);
}

/* ---- Products ---- */

static double exact(flxi_gguf format, const uint8_t *w, const float *x, double *size)
{
    const flxi_gguf_format *f = &flxi_gguf_formats[format];
    double numbers[FLXI_GGUF_MOST], sum = 0;
    *size = 0;
    for (int p = 0; p < K; p += f->count, w += f->nbytes) {
        f->decode(w, numbers);
        for (int e = 0; e < f->count; e++) {
            sum += numbers[e] * (double)x[p + e];
            *size += fabs(numbers[e] * (double)x[p + e]);
        }
    }
    return sum;
}

static bool has_isa(flxi_isa isa)
{
#if defined(__x86_64__)
    if (isa == FLXI_ISA_AVX2)
        return __builtin_cpu_supports("avx2");
    if (isa == FLXI_ISA_AVX512)
        return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#endif
    return isa == FLXI_ISA_GENERIC;
}

static void run(flxi_gguf format, flxi_isa isa, const uint8_t *w, const float *x, int rows, float *y)
{
    int64_t n = flxi_packed_sums(format, K);
    float *sums = calloc((size_t)(n * ROWS + 1), sizeof *sums);
    for (int i = 0; i < rows && n; i++)
        flxi_packed_sum(format, x + i * K, K, sums + i * n);
    flxi_packed_product_for(format, isa)(w, x, n ? sums : NULL, K, rows, y, 1);
    free(sums);
}

TEST(packed_rows_multiply_as_decoded_numbers_do)
{
    static const flxi_isa sets[] = {FLXI_ISA_GENERIC, FLXI_ISA_AVX2, FLXI_ISA_AVX512};
    flx_context *ctx = flx_context_new(NULL);
    float x[ROWS * K];
    uint64_t state = test_seed();
    for (int i = 0; i < ROWS * K; i++)
        x[i] = (float)(test_uniform(&state) * 2 - 1);
    for (int format = 0; format < FLXI_GGUF_COUNT; format++) {
        flx_tensor *w = random_blocks(ctx, names[format], 1, K, &state);
        float first[ROWS] = {0};
        for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
            float y[ROWS], one;
            if (!has_isa(sets[s]))
                continue;
            test_fail_context("%s, instruction set %d", names[format], (int)sets[s]);
            run((flxi_gguf)format, sets[s], flx_tensor_const_data(w), x, ROWS, y);
            for (int i = 0; i < ROWS; i++) {
                double size, sum = exact((flxi_gguf)format, flx_tensor_const_data(w), x + i * K, &size);
                CHECK_NEAR((double)y[i], sum, 16 * 0x1p-24 * size);
                run((flxi_gguf)format, sets[s], flx_tensor_const_data(w), x + i * K, 1, &one);
                CHECK(memcmp(&one, &y[i], sizeof one) == 0);
            }
            if (s == 0)
                memcpy(first, y, sizeof first);
            CHECK(memcmp(first, y, sizeof first) == 0);
        }
        flx_tensor_release(w);
    }
    flx_context_free(ctx);
}

/* Random bytes are blocks with scales of every kind, infinities and NaNs among them. */
TEST(packed_blocks_decode_to_the_same_bits_in_vectors)
{
    static const flxi_isa sets[] = {FLXI_ISA_GENERIC, FLXI_ISA_AVX2, FLXI_ISA_AVX512};
    uint64_t state = test_seed();
    int fast = 0;
    for (int format = 0; format < FLXI_GGUF_COUNT; format++) {
        const flxi_gguf_format *f = &flxi_gguf_formats[format];
        uint8_t block[2 * FLXI_GGUF_MOST * sizeof(double)];
        double expected[FLXI_GGUF_MOST];
        float y[FLXI_GGUF_MOST];
        CHECK((size_t)f->nbytes <= sizeof block);
        for (int s = 0; s < 3 * 200; s++) {
            flxi_isa isa = sets[s % 3];
            flxi_unpack_fn decode = has_isa(isa) ? flxi_packed_decoder_for((flxi_gguf)format, isa) : NULL;
            if (!decode)
                continue;
            for (int i = 0; i < f->nbytes; i++)
                block[i] = (uint8_t)(test_random(&state) >> 30);
            f->decode(block, expected);
            decode(block, y);
            for (int e = 0; e < f->count; e++) {
                float z = (float)expected[e];
                EXPECT_MSG(memcmp(&z, &y[e], sizeof z) == 0 || (isnan(z) && isnan(y[e])), "%s, %d: %a, not %a",
                           names[format], e, (double)y[e], (double)z);
            }
            fast++;
        }
    }
    CHECK(fast >= 15 * 200);
}
