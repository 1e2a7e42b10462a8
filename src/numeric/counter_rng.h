/* SPDX-License-Identifier: Apache-2.0 */
/* counter_rng.h: random words as a pure function of a key and a counter.

   Two published block functions: Philox 4×32 with 10 rounds and Threefry 2×32 with 20 rounds (Salmon, Moraes, Dror and
   Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011). A generator numbers the blocks of one key from a starting
   counter and returns their words; nothing is stored between draws, so every element of a tensor can be drawn
   independently, in any order and on any device. */
#ifndef FLXI_COUNTER_RNG_H
#define FLXI_COUNTER_RNG_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { FLXI_PHILOX, FLXI_THREEFRY } flxi_rng_algorithm; /* order of FLXI_RNG_WORDS */
#define FLXI_RNG_WORDS "philox4x32 threefry2x32"

void flxi_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
void flxi_threefry2x32(const uint32_t counter[2], const uint32_t key[2], uint32_t out[2]);

typedef struct {
    flxi_rng_algorithm algorithm;
    uint32_t key[2];
    uint64_t low, high; /* 128-bit counter of block 0; Threefry has only the low half */
} flxi_rng;

/* Philox (docs/numerics.md, "Random numbers"): block j of stream s has the counter (j, s). */
flxi_rng flxi_rng_keyed(const uint32_t key[2], uint64_t stream);
flxi_rng flxi_rng_seeded(uint64_t seed, uint64_t stream);

/* Words of one block: 4 or 2. */
int flxi_rng_block_words(const flxi_rng *g);
/* Word i: word i mod 4 (Threefry: 2) of the block i div 4 (2). */
uint32_t flxi_rng_word(const flxi_rng *g, uint64_t i);
/* Words 2i and 2i + 1 as one number, low word first. */
uint64_t flxi_rng_wide(const flxi_rng *g, uint64_t i);

/* How finely draw i is resolved: 24 bits from word i, or 53 bits from words 2i, 2i + 1. */
typedef enum { FLXI_RNG_24, FLXI_RNG_53 } flxi_rng_bits;

/* k·2^-24 or k·2^-53, in [0, 1). */
double flxi_rng_uniform(const flxi_rng *g, flxi_rng_bits bits, uint64_t i);
/* The midpoint of that step, in (0, 1). */
double flxi_rng_open(const flxi_rng *g, flxi_rng_bits bits, uint64_t i);
/* Of steps k of 2^-24 or 2^-53. */
double flxi_rng_midpoint(double k, double step);
/* Standard normal; elements 2j and 2j + 1 are the cosine and sine halves of one Box–Muller pair. */
double flxi_rng_normal(const flxi_rng *g, flxi_rng_bits bits, uint64_t i);
/* Gamma(a, 1), element i of the key; NaN unless a > 0. */
double flxi_rng_gamma(const flxi_rng *key, uint64_t i, double a);

/* Its parts, for a positive finite shape: what depends on the shape alone; whether an attempt with these blocks, those
   of the counters (i, FLXI_GAMMA_STREAM + 2t) and (i, FLXI_GAMMA_STREAM + 2t + 1), is accepted, and with which number;
   and what the number is multiplied by, from the second block of the first attempt. */
#define FLXI_GAMMA_STREAM (UINT64_C(1) << 63)
typedef struct {
    double a, d, c;
} flxi_gamma_shape;
flxi_gamma_shape flxi_rng_gamma_shape(double a);
bool flxi_rng_gamma_attempt(const flxi_gamma_shape *s, const uint32_t normal[4], const uint32_t uniform[4], double *x);
double flxi_rng_gamma_boost(const flxi_gamma_shape *s, const uint32_t uniform[4]);

#endif
