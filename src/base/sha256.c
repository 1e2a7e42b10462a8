/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.c: see sha256.h. Blocks of 64 bytes go through 64 rounds; x86 processors with SHA instructions are about ten
   times as fast, with the same result. */
#include "base/sha256.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#endif

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

bool flxi_sha256_plain;

/* ---- Blocks ---- */

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t load_word(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void spread_block(const unsigned char *p, uint32_t w[64])
{
    for (int i = 0; i < 16; i++)
        w[i] = load_word(p + i * 4);
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

static void add_blocks_plain(uint32_t state[8], const unsigned char *p, size_t blocks)
{
    for (; blocks > 0; blocks--, p += 64) {
        uint32_t w[64], v[8];
        spread_block(p, w);
        memcpy(v, state, sizeof v);
        for (int i = 0; i < 64; i++) {
            uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
            uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
            uint32_t t1 = v[7] + s1 + choice + round_constants[i] + w[i];
            uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
            uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
            memmove(v + 1, v, 7 * sizeof *v);
            v[4] += t1;
            v[0] = t1 + s0 + majority;
        }
        for (int i = 0; i < 8; i++)
            state[i] += v[i];
    }
}

#if defined(__x86_64__)
/* The instructions keep the state as (a b e f) and (c d g h), highest first. Each step performs four rounds with four
   words, then replaces them by the words of 16 rounds later. */
__attribute__((target("sha,sse4.1"))) static void add_blocks_fast(uint32_t state[8], const unsigned char *p,
                                                                  size_t blocks)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)state);
    __m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (; blocks > 0; blocks--, p += 64) {
        __m128i w[4], abef_before = abef, cdgh_before = cdgh;
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + i * 16)), swap);
        for (int i = 0; i < 16; i++) {
            __m128i k = _mm_loadu_si128((const __m128i *)(const void *)(round_constants + i * 4));
            __m128i sum = _mm_add_epi32(w[i % 4], k);
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
            __m128i seventh = _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4);
            __m128i next = _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]), seventh);
            w[i % 4] = _mm_sha256msg2_epu32(next, w[(i + 3) % 4]);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

static int has_instructions(void)
{
    static atomic_int known; /* 0: unknown, 1: no, 2: yes */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == 0) {
        unsigned a, b, c, d, c1;
        answer =
            __get_cpuid(1, &a, &b, &c1, &d) && c1 >> 19 & 1 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1
                ? 2
                : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}
#endif

static void add_blocks(uint32_t state[8], const unsigned char *p, size_t blocks)
{
#if defined(__x86_64__)
    if (!flxi_sha256_plain && has_instructions()) {
        add_blocks_fast(state, p, blocks);
        return;
    }
#endif
    add_blocks_plain(state, p, blocks);
}

/* ---- The whole ---- */

void flxi_sha256_init(flxi_sha256 *h)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memset(h, 0, sizeof *h);
    memcpy(h->state, start, sizeof start);
}

void flxi_sha256_add(flxi_sha256 *h, const void *data, size_t n)
{
    const unsigned char *p = data;
    size_t held = h->length % 64;
    h->length += n;
    if (held > 0) {
        size_t piece = n < 64 - held ? n : 64 - held;
        if (piece > 0)
            memcpy(h->block + held, p, piece);
        if (held + piece < 64)
            return;
        add_blocks(h->state, h->block, 1);
        p += piece;
        n -= piece;
    }
    add_blocks(h->state, p, n / 64);
    if (n % 64)
        memcpy(h->block, p + n / 64 * 64, n % 64);
}

static void store_u64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> (56 - 8 * i));
}

void flxi_sha256_add_field(flxi_sha256 *h, const void *data, size_t n)
{
    unsigned char length[8];
    store_u64(length, n);
    flxi_sha256_add(h, length, sizeof length);
    flxi_sha256_add(h, data, n);
}

/* A one bit, zeros, and the length in bits fill the last block. */
void flxi_sha256_end(flxi_sha256 *h, unsigned char digest[FLXI_SHA256_BYTES])
{
    unsigned char tail[72] = {0x80};
    size_t zeros = (119 - h->length % 64) % 64;
    store_u64(tail + 1 + zeros, h->length * 8);
    flxi_sha256_add(h, tail, 1 + zeros + 8);
    for (int i = 0; i < 32; i++)
        digest[i] = (unsigned char)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void flxi_sha256_of(const void *data, size_t n, unsigned char digest[FLXI_SHA256_BYTES])
{
    flxi_sha256 h;
    flxi_sha256_init(&h);
    flxi_sha256_add(&h, data, n);
    flxi_sha256_end(&h, digest);
}

void flxi_sha256_text(const unsigned char digest[FLXI_SHA256_BYTES], char text[FLXI_SHA256_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < FLXI_SHA256_BYTES; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[64] = 0;
}
