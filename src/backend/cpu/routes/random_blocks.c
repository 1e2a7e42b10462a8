/* SPDX-License-Identifier: Apache-2.0 */
/* random_blocks.c: see random_blocks.h; the code is random_blocks.inc. */
#include "backend/cpu/routes/random_blocks.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- Any machine ---- */

typedef uint32_t u32x4 __attribute__((vector_size(16)));

#define TARGET
#define FN(name) plain_##name
#define V u32x4
#define LANES 4
#define MULTIPLY(m, x, hi, lo)                      \
    for (int j = 0; j < 4; j++) {                   \
        uint64_t product = (uint64_t)(m) * (x)[j];  \
        (hi)[j] = (uint32_t)(product >> 32);        \
        (lo)[j] = (uint32_t)(product & UINT32_MAX); \
    }
#include "backend/cpu/routes/random_blocks.inc"

/* ---- x86-64: products of even words, and of odd ones ---- */

#if defined(__x86_64__)

typedef uint32_t u32x8 __attribute__((vector_size(32)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));
typedef uint64_t u64x4 __attribute__((vector_size(32)));
typedef uint64_t u64x8 __attribute__((vector_size(64)));

#define TARGET __attribute__((target("avx2")))
#define FN(name) avx2_##name
#define V u32x8
#define LANES 8
#define MULTIPLY(m, x, hi, lo)                                                             \
    {                                                                                      \
        const __m256i factor = _mm256_set1_epi32((int)(m));                                \
        const __m256i even = _mm256_mul_epu32((__m256i)(x), factor);                       \
        const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)(x), 32), factor); \
        (hi) = (u32x8)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);          \
        (lo) = (u32x8)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);          \
    }
#define WIDE u64x4
#define MULTIPLY_EVEN(x, y) (WIDE) _mm256_mul_epu32((__m256i)(x), (__m256i)(y))
#define REVERSE(x) (WIDE) _mm256_shuffle_epi32((__m256i)(x), 0x1B)
#include "backend/cpu/routes/random_blocks.inc"

#define TARGET __attribute__((target("avx512f,avx2")))
#define FN(name) avx512_##name
#define V u32x16
#define LANES 16
#define MULTIPLY(m, x, hi, lo)                                                             \
    {                                                                                      \
        const __m512i factor = _mm512_set1_epi32((int)(m));                                \
        const __m512i even = _mm512_mul_epu32((__m512i)(x), factor);                       \
        const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)(x), 32), factor); \
        (hi) = (u32x16)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);  \
        (lo) = (u32x16)_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));  \
    }
#define WIDE u64x8
#define MULTIPLY_EVEN(x, y) (WIDE) _mm512_mul_epu32((__m512i)(x), (__m512i)(y))
#define REVERSE(x) (WIDE) _mm512_shuffle_epi32((__m512i)(x), 0x1B)
#include "backend/cpu/routes/random_blocks.inc"

#endif

/* ---- Choice ---- */

flxi_blocks_fn flxi_random_blocks_for(flxi_isa isa)
{
#if defined(__x86_64__)
    if (isa == FLXI_ISA_AVX512)
        return avx512_blocks;
    if (isa == FLXI_ISA_AVX2)
        return avx2_blocks;
#endif
    (void)isa;
    return plain_blocks;
}

flxi_blocks_fn flxi_random_blocks(void)
{
    for (flxi_isa isa = FLXI_ISA_AVX512; isa > FLXI_ISA_GENERIC; isa--)
        if (flxi_isa_available(isa))
            return flxi_random_blocks_for(isa);
    return plain_blocks;
}

/* Any blocks, with the words of one side by side. */
static void words_of_blocks(const flxi_rng *g, uint64_t first, int64_t blocks, uint32_t *words)
{
    const flxi_blocks_fn draw = flxi_random_blocks();
    for (int64_t b = 0; b < blocks; b += FLXI_BLOCKS_SIDE) {
        uint32_t c[FLXI_BLOCK_WORDS][FLXI_BLOCKS_SIDE];
        draw(g, first + (uint64_t)b, c);
        for (int i = 0; i < FLXI_BLOCKS_SIDE; i++)
            for (int w = 0; w < FLXI_BLOCK_WORDS; w++)
                *words++ = c[w][i];
    }
}

void flxi_philox_words(const flxi_rng *g, uint64_t first, int64_t blocks, uint32_t *words)
{
#if defined(__x86_64__)
    const bool carries = g->low > UINT64_MAX - first || g->low + first > UINT64_MAX - (uint64_t)blocks;
    if (!carries && flxi_isa_available(FLXI_ISA_AVX512)) {
        avx512_words(g, first, blocks, words);
        return;
    }
    if (!carries && flxi_isa_available(FLXI_ISA_AVX2)) {
        avx2_words(g, first, blocks, words);
        return;
    }
#endif
    words_of_blocks(g, first, blocks, words);
}
