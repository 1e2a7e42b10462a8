/* SPDX-License-Identifier: Apache-2.0 */
/* express_rng.c: see express_rng.h. Every element computes the block that its words are in. */
#include "ops/express/express_rng.h"

#include "ops/express/express_formula.h"

flxi_krng flxi_krng_keyed(flxi_express *e, uint32_t operand, uint64_t stream)
{
    flxi_krng g = {.algorithm = FLXI_PHILOX, .stream = stream};
    for (int k = 0; k < 2; k++)
        g.key[k] = HOLD(flxi_operand_at(e, operand, &(flxi_kindex){.flat = flxi_ku(e, k), .dim = {flxi_ku(e, k)}}).re);
    return g;
}

static uint32_t word_of(flxi_express *e, uint64_t x)
{
    return flxi_kb_u32(e->k, (uint32_t)(x & UINT32_MAX));
}

flxi_krng flxi_krng_seeded(flxi_express *e, uint64_t seed, uint64_t stream)
{
    return (flxi_krng){FLXI_PHILOX, {word_of(e, seed), word_of(e, seed >> 32)}, stream};
}

/* ---- Blocks ---- */

static void philox(flxi_express *e, const flxi_krng *g, uint32_t low, uint32_t high, uint32_t c[4])
{
    uint32_t m0 = word_of(e, 0xD2511F53), m1 = word_of(e, 0xCD9E8D57);
    uint32_t k0 = g->key[0], k1 = g->key[1];
    c[0] = low;
    c[1] = high;
    c[2] = word_of(e, g->stream);
    c[3] = word_of(e, g->stream >> 32);
    for (int round = 0; round < 10; round++) {
        uint32_t a = HOLD(F2(bit_xor, F2(bit_xor, F2(mul_high, m1, c[2]), c[1]), k0));
        uint32_t b = HOLD(F2(bit_xor, F2(bit_xor, F2(mul_high, m0, c[0]), c[3]), k1));
        c[1] = HOLD(F2(mul, m1, c[2]));
        c[3] = HOLD(F2(mul, m0, c[0]));
        c[0] = a;
        c[2] = b;
        k0 = HOLD(F2(add, k0, word_of(e, 0x9E3779B9)));
        k1 = HOLD(F2(add, k1, word_of(e, 0xBB67AE85)));
    }
}

static void threefry(flxi_express *e, const flxi_krng *g, uint32_t low, uint32_t high, uint32_t out[2])
{
    static const uint32_t rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    uint32_t last = F2(bit_xor, F2(bit_xor, g->key[0], g->key[1]), word_of(e, 0x1BD11BDA));
    const uint32_t k[3] = {g->key[0], g->key[1], HOLD(last)};
    uint32_t a = HOLD(F2(add, low, k[0]));
    uint32_t b = HOLD(F2(add, high, k[1]));
    for (uint32_t group = 0; group < 5; group++) {
        for (int round = 0; round < 4; round++) {
            a = HOLD(F2(add, a, b));
            b = HOLD(F2(bit_xor, F2(rotate_left, b, word_of(e, rotations[group % 2][round])), a));
        }
        a = HOLD(F2(add, a, k[(group + 1) % 3]));
        b = HOLD(F2(add, b, F2(add, k[(group + 2) % 3], word_of(e, group + 1))));
    }
    out[0] = a;
    out[1] = b;
}

void flxi_krng_block(flxi_express *e, const flxi_krng *g, uint32_t low, uint32_t high, uint32_t out[4])
{
    if (g->algorithm == FLXI_PHILOX)
        philox(e, g, low, high, out);
    else
        threefry(e, g, low, high, out);
}

/* ---- Words ---- */

static uint32_t is_odd(flxi_express *e, uint32_t i)
{
    return F2(ne, F2(bit_and, i, flxi_ku(e, 1)), flxi_ku(e, 0));
}

/* Whether a pair that begins with word i is words 2 and 3 of its block. */
static uint32_t is_second_pair(flxi_express *e, uint32_t i)
{
    return F2(ne, F2(bit_and, i, flxi_ku(e, 2)), flxi_ku(e, 0));
}

uint32_t flxi_krng_word(flxi_express *e, const flxi_krng *g, uint32_t i)
{
    uint32_t w[4];
    uint32_t odd = HOLD(is_odd(e, i));
    bool is_philox = g->algorithm == FLXI_PHILOX;
    flxi_krng_block(e, g, HOLD(flxi_ku_div(e, i, is_philox ? 4 : 2)), flxi_ku(e, 0), w);
    uint32_t first = PICK(odd, w[1], w[0]);
    return is_philox ? HOLD(PICK(is_second_pair(e, i), PICK(odd, w[3], w[2]), first)) : HOLD(first);
}

static uint32_t joined(flxi_express *e, uint32_t low, uint32_t high)
{
    uint32_t upper = flxi_kb_cast(e->k, FLX_U64, high);
    return HOLD(F2(bit_or, flxi_kb_cast(e->k, FLX_U64, low), F2(shl, upper, NUM(upper, 32))));
}

uint32_t flxi_krng_wide(flxi_express *e, const flxi_krng *g, uint32_t i)
{
    uint32_t w[4];
    if (g->algorithm == FLXI_THREEFRY) {
        flxi_krng_block(e, g, i, flxi_ku(e, 0), w);
        return joined(e, w[0], w[1]);
    }
    uint32_t odd = HOLD(is_odd(e, i));
    flxi_krng_block(e, g, HOLD(flxi_ku_div(e, i, 2)), flxi_ku(e, 0), w);
    return joined(e, PICK(odd, w[2], w[0]), PICK(odd, w[3], w[1]));
}

/* ---- Draws ---- */

/* A draw as a whole number of steps, in f64. */
static uint32_t steps_of(flxi_express *e, uint32_t word)
{
    return flxi_kb_cast(e->k, FLX_F64, F2(shr, word, NUM(word, flxi_kb_type(e->k, word) == FLX_U64 ? 11 : 8)));
}

static double step_of(flxi_rng_bits bits)
{
    return bits == FLXI_RNG_24 ? 0x1p-24 : 0x1p-53;
}

uint32_t flxi_krng_uniform(flxi_express *e, const flxi_krng *g, flxi_rng_bits bits, uint32_t i)
{
    uint32_t k = steps_of(e, bits == FLXI_RNG_24 ? flxi_krng_word(e, g, i) : flxi_krng_wide(e, g, i));
    return HOLD(F2(mul, k, NUM(k, step_of(bits))));
}

/* The last of the 2^53 midpoints rounds up to 1. */
uint32_t flxi_krng_open(flxi_express *e, const flxi_krng *g, flxi_rng_bits bits, uint32_t i)
{
    uint32_t u = flxi_krng_uniform(e, g, bits, i);
    uint32_t middle = HOLD(F2(add, u, NUM(u, step_of(bits) / 2)));
    return HOLD(PICK(F2(lt, middle, NUM(u, 1)), middle, NUM(u, 1 - step_of(bits))));
}

/* Both draws of a pair are in one block of Philox. */
uint32_t flxi_krng_normal(flxi_express *e, const flxi_krng *g, flxi_rng_bits bits, uint32_t i)
{
    uint32_t w[4];
    uint32_t first, second;
    flxi_krng_block(e, g, HOLD(flxi_ku_div(e, i, bits == FLXI_RNG_24 ? 4 : 2)), flxi_ku(e, 0), w);
    if (bits == FLXI_RNG_24) {
        uint32_t later = HOLD(is_second_pair(e, i));
        first = PICK(later, w[2], w[0]);
        second = PICK(later, w[3], w[1]);
    } else {
        first = joined(e, w[0], w[1]);
        second = joined(e, w[2], w[3]);
    }
    uint32_t k = steps_of(e, first);
    uint32_t u1 = F2(mul, F2(add, k, NUM(k, 1)), NUM(k, step_of(bits)));
    uint32_t u2 = F2(mul, steps_of(e, second), NUM(k, step_of(bits)));
    uint32_t radius = F1(sqrt, F2(mul, NUM(k, -2), F1(log, u1)));
    uint32_t angle = HOLD(F2(mul, NUM(k, 6.283185307179586476925286766559), u2));
    return HOLD(F2(mul, radius, PICK(is_odd(e, i), F1(sin, angle), F1(cos, angle))));
}

flxi_kval flxi_krng_rounded(flxi_express *e, uint32_t x, int32_t dtype)
{
    uint32_t rounded = dtype == FLX_F64 ? x : flxi_kb_cast(e->k, FLX_F32, x);
    return flxi_kreal(HOLD(flxi_kb_cast(e->k, (uint32_t)dtype, rounded)));
}
