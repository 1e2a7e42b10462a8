/* SPDX-License-Identifier: Apache-2.0 */
/* permutation.h: a random order of n rows, made from a seed and the number of an epoch; the same on every machine. */
#ifndef FLXI_PERMUTATION_H
#define FLXI_PERMUTATION_H

#include <stddef.h>
#include <stdint.h>

/* Up to this many rows the order is a table; beyond, each position is computed when it is needed. */
enum { FLXI_PERMUTATION_TABLE = 1 << 16, FLXI_PERMUTATION_ROUNDS = 5 };

typedef struct {
    uint64_t n;
    uint32_t *table; /* of n entries; NULL: computed */
    unsigned half;   /* bits of each half */
    uint64_t keys[FLXI_PERMUTATION_ROUNDS];
} flxi_permutation;

/* `table` has room for n entries if n is at most FLXI_PERMUTATION_TABLE, and must outlive the permutation. */
void flxi_permutation_begin(flxi_permutation *p, uint64_t n, uint64_t seed, uint64_t epoch, uint32_t *table);
/* The row at position i, below n. */
uint64_t flxi_permutation_at(const flxi_permutation *p, uint64_t i);

#endif
