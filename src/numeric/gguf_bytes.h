/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_bytes.h: vectors of bytes and tables for gguf_codes.inc. */
#ifndef FLXI_GGUF_BYTES_H
#define FLXI_GGUF_BYTES_H

#include <stdint.h>
#include <string.h>

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint8_t bytes32 __attribute__((vector_size(32)));

/* Macros, since vectors that a target lacks cannot be returned by functions. */
#define flxi_bytes16(p) (*(const bytes16_loose *)(const void *)(p))
#define flxi_bytes32(p) (*(const bytes32_loose *)(const void *)(p))
typedef uint8_t bytes16_loose __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t bytes32_loose __attribute__((vector_size(32), aligned(1), may_alias));

/* The bits of a mask of every byte, after a shift to the left by `count`, or to the right where it is negative. Words
   are shifted, since vectors of bytes cannot be: the mask removes what comes from neighbours. */
#define flxi_moved(v, count, mask)                                          \
    ((bytes32)((count) < 0 ? (words16)(v) >> ((count) < 0 ? -(count) : 0)   \
                           : (words16)(v) << ((count) < 0 ? 0 : (count))) & \
     (mask))
typedef uint16_t words16 __attribute__((vector_size(32)));

static const bytes16 each_bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};

/* The levels of codes, plus 128. */
static const bytes16 levels_iq4 = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

/* table[codes[i]] for 16 codes below 16. */
static inline bytes16 flxi_look_up_bytes(bytes16 table, bytes16 codes)
{
    bytes16 out;
    for (int e = 0; e < 16; e++)
        out[e] = table[codes[e]];
    return out;
}

static inline void flxi_store_pair(uint8_t *q, bytes16 low, bytes16 high)
{
    memcpy(q, &low, 16);
    memcpy(q + 16, &high, 16);
}

/* The same for x86-64 vectors. One store of 32 bytes, as a load of 32 bytes must wait for two. */
#define flxi_look_up_x86(table, codes) ((bytes16)_mm_shuffle_epi8((__m128i)(table), (__m128i)(codes)))
#define flxi_store_pair_x86(q, low, high)       \
    _mm256_storeu_si256((__m256i *)(void *)(q), \
                        _mm256_inserti128_si256(_mm256_castsi128_si256((__m128i)(low)), (__m128i)(high), 1))
#define flxi_half_x86(p) _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128((p)[0] | (p)[1] << 8)))

#endif
