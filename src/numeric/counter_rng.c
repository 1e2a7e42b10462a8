/* SPDX-License-Identifier: Apache-2.0 */
/* counter_rng.c: Philox, Threefry, and the uniform and normal draws made from their words. */
#include "numeric/counter_rng.h"

#include <math.h>

static uint32_t low32(uint64_t x)
{
    return (uint32_t)(x & UINT32_MAX);
}

static uint32_t high32(uint64_t x)
{
    return (uint32_t)(x >> 32);
}

/* ---- Block functions ---- */

void flxi_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = UINT64_C(0xD2511F53) * c[0];
        uint64_t p1 = UINT64_C(0xCD9E8D57) * c[2];
        c[0] = high32(p1) ^ c[1] ^ k[0];
        c[2] = high32(p0) ^ c[3] ^ k[1];
        c[1] = low32(p1);
        c[3] = low32(p0);
        k[0] += UINT32_C(0x9E3779B9); /* the golden ratio - 1 and sqrt(3) - 1, as 32-bit fractions */
        k[1] += UINT32_C(0xBB67AE85);
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

static uint32_t rotated(uint32_t x, int by)
{
    return x << by | x >> (32 - by);
}

/* Five groups of four rounds; a round adds, rotates and mixes, and the key is added before the first group and after
   each. */
void flxi_threefry2x32(const uint32_t counter[2], const uint32_t key[2], uint32_t out[2])
{
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t k[3] = {key[0], key[1], key[0] ^ key[1] ^ UINT32_C(0x1BD11BDA)};
    uint32_t a = counter[0] + k[0];
    uint32_t b = counter[1] + k[1];
    for (uint32_t group = 0; group < 5; group++) {
        for (int round = 0; round < 4; round++) {
            a += b;
            b = rotated(b, rotations[group % 2][round]) ^ a;
        }
        a += k[(group + 1) % 3];
        b += k[(group + 2) % 3] + group + 1;
    }
    out[0] = a;
    out[1] = b;
}

/* ---- Words ---- */

flxi_rng flxi_rng_keyed(const uint32_t key[2], uint64_t stream)
{
    return (flxi_rng){.algorithm = FLXI_PHILOX, .key = {key[0], key[1]}, .high = stream};
}

flxi_rng flxi_rng_seeded(uint64_t seed, uint64_t stream)
{
    return flxi_rng_keyed((const uint32_t[2]){low32(seed), high32(seed)}, stream);
}

int flxi_rng_block_words(const flxi_rng *g)
{
    return g->algorithm == FLXI_PHILOX ? 4 : 2;
}

/* The block that has word i. */
static void block_of(const flxi_rng *g, uint64_t i, uint32_t out[4])
{
    uint64_t low = g->low + i / (uint64_t)flxi_rng_block_words(g);
    uint64_t high = g->high + (low < g->low); /* the counter is one number of 128 bits */
    if (g->algorithm == FLXI_PHILOX)
        flxi_philox4x32((const uint32_t[4]){low32(low), high32(low), low32(high), high32(high)}, g->key, out);
    else
        flxi_threefry2x32((const uint32_t[2]){low32(low), high32(low)}, g->key, out);
}

uint32_t flxi_rng_word(const flxi_rng *g, uint64_t i)
{
    uint32_t out[4];
    block_of(g, i, out);
    return out[i % (uint64_t)flxi_rng_block_words(g)];
}

static uint64_t wide_in(const uint32_t block[4], uint64_t at)
{
    return block[at] | (uint64_t)block[at + 1] << 32;
}

/* Both words are in one block: blocks have an even number of them. */
uint64_t flxi_rng_wide(const flxi_rng *g, uint64_t i)
{
    uint32_t out[4];
    block_of(g, 2 * i, out);
    return wide_in(out, 2 * i % (uint64_t)flxi_rng_block_words(g));
}

/* ---- Draws ---- */

/* Draw i as a whole number of steps of `step`. */
static double steps(const flxi_rng *g, flxi_rng_bits bits, uint64_t i, double *step)
{
    if (bits == FLXI_RNG_24) {
        *step = 0x1p-24;
        return (double)(flxi_rng_word(g, i) >> 8);
    }
    *step = 0x1p-53;
    return (double)(flxi_rng_wide(g, i) >> 11);
}

double flxi_rng_uniform(const flxi_rng *g, flxi_rng_bits bits, uint64_t i)
{
    double step;
    double k = steps(g, bits, i, &step);
    return k * step;
}

double flxi_rng_midpoint(double k, double step)
{
    double u = k * step + step / 2;
    return u < 1 ? u : 1 - step; /* the last of the 2^53 midpoints rounds up to 1 */
}

double flxi_rng_open(const flxi_rng *g, flxi_rng_bits bits, uint64_t i)
{
    double step;
    double k = steps(g, bits, i, &step);
    return flxi_rng_midpoint(k, step);
}

static double box_muller(double k1, double k2, double step, bool is_sine)
{
    static const double tau = 6.283185307179586476925286766559;
    double u1 = (k1 + 1) * step; /* in (0, 1]: its logarithm is finite */
    double u2 = k2 * step;
    double radius = sqrt(-2 * log(u1));
    return radius * (is_sine ? sin(tau * u2) : cos(tau * u2));
}

double flxi_rng_normal(const flxi_rng *g, flxi_rng_bits bits, uint64_t i)
{
    double step = 0x1p-53, k1, k2;
    uint64_t first = i - i % 2;
    if (bits == FLXI_RNG_53 && flxi_rng_block_words(g) == 4) { /* both draws are of one block */
        uint32_t block[4];
        block_of(g, 2 * first, block);
        k1 = (double)(wide_in(block, 0) >> 11);
        k2 = (double)(wide_in(block, 2) >> 11);
    } else {
        k1 = steps(g, bits, first, &step);
        k2 = steps(g, bits, first + 1, &step);
    }
    return box_muller(k1, k2, step, i % 2 == 1);
}

/* Reached with a probability below 0.05^65536: the loop always ends. */
static const uint64_t most_attempts = 1 << 16;

/* Marsaglia and Tsang, "A simple method for generating gamma variables", 2000. With d = a − ⅓ and c = 1/√(9d), the
   cube of 1 + c·(normal), times d, is accepted with a probability that is never below 0.95 for a ≥ 1. A shape
   below 1 draws with a + 1 and multiplies by U^(1/a). Attempt t of element i has the counters (i, 2^63 + 2t),
   whose block is the normal draw, and (i, 2^63 + 2t + 1) for the two uniform ones. */
flxi_gamma_shape flxi_rng_gamma_shape(double a)
{
    double d = (a < 1 ? a + 1 : a) - 1.0 / 3;
    return (flxi_gamma_shape){.a = a, .d = d, .c = 1 / sqrt(9 * d)};
}

double flxi_rng_gamma_boost(const flxi_gamma_shape *s, const uint32_t uniform[4])
{
    return s->a < 1 ? pow(flxi_rng_midpoint((double)(wide_in(uniform, 2) >> 11), 0x1p-53), 1 / s->a) : 1;
}

bool flxi_rng_gamma_attempt(const flxi_gamma_shape *s, const uint32_t normal[4], const uint32_t uniform[4], double *x)
{
    double z = box_muller((double)(wide_in(normal, 0) >> 11), (double)(wide_in(normal, 2) >> 11), 0x1p-53, false);
    double u = flxi_rng_midpoint((double)(wide_in(uniform, 0) >> 11), 0x1p-53);
    double root = 1 + s->c * z;
    double v = root * root * root;
    *x = s->d * v;
    /* The first condition implies the second, and decides nearly always without a logarithm. */
    return root > 0 && (u < 1 - 0.0331 * (z * z) * (z * z) || log(u) < z * z / 2 + s->d - s->d * v + s->d * log(v));
}

double flxi_rng_gamma(const flxi_rng *key, uint64_t i, double a)
{
    if (!(a > 0))
        return NAN;
    if (isinf(a))
        return a;
    flxi_gamma_shape s = flxi_rng_gamma_shape(a);
    double boost = 1;
    flxi_rng g = *key;
    g.low = i;
    for (uint64_t t = 0; t < most_attempts; t++) {
        uint32_t normal[4], uniform[4];
        double x;
        g.high = FLXI_GAMMA_STREAM + 2 * t;
        block_of(&g, 0, normal);
        g.high++;
        block_of(&g, 0, uniform);
        if (t == 0)
            boost = flxi_rng_gamma_boost(&s, uniform);
        if (flxi_rng_gamma_attempt(&s, normal, uniform, &x))
            return x * boost;
    }
    return s.d * boost;
}
