/* SPDX-License-Identifier: Apache-2.0 */
/* express_rng.h: the draws of counter_rng.h as expressions of kernels. The position of an element is a u32. */
#ifndef FLXI_KERNEL_RNG_H
#define FLXI_KERNEL_RNG_H

#include "numeric/counter_rng.h"
#include "ops/express/express.h"

typedef struct {
    flxi_rng_algorithm algorithm;
    uint32_t key[2]; /* u32 */
    uint64_t stream; /* of Philox */
} flxi_krng;

/* Philox with stream `stream` and a key operand, or a seed. */
flxi_krng flxi_krng_keyed(flxi_express *e, uint32_t operand, uint64_t stream);
flxi_krng flxi_krng_seeded(flxi_express *e, uint64_t seed, uint64_t stream);

/* Words of one block: 4 of Philox, 2 of Threefry. */
void flxi_krng_block(flxi_express *e, const flxi_krng *g, uint32_t low, uint32_t high, uint32_t out[4]);
uint32_t flxi_krng_word(flxi_express *e, const flxi_krng *g, uint32_t i); /* u32 */
uint32_t flxi_krng_wide(flxi_express *e, const flxi_krng *g, uint32_t i); /* u64 */
/* f64, bit for bit equal to flxi_rng_uniform and flxi_rng_open, and to flxi_rng_normal up to the accuracy of its
   functions. */
uint32_t flxi_krng_uniform(flxi_express *e, const flxi_krng *g, flxi_rng_bits bits, uint32_t i);
uint32_t flxi_krng_open(flxi_express *e, const flxi_krng *g, flxi_rng_bits bits, uint32_t i);
uint32_t flxi_krng_normal(flxi_express *e, const flxi_krng *g, flxi_rng_bits bits, uint32_t i);
/* A draw of f64 as an element, rounded as by flxi_store_draw. */
flxi_kval flxi_krng_rounded(flxi_express *e, uint32_t x, int32_t dtype);

#endif
