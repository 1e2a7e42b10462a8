/* SPDX-License-Identifier: Apache-2.0 */
/* radix_sort.h: stable sorting by unsigned integer keys, digit by digit from the lowest. */
#ifndef FLXI_RADIX_SORT_H
#define FLXI_RADIX_SORT_H

#include "base/host/thread_pool.h"

#include <stddef.h>
#include <stdint.h>

typedef enum {
    FLXI_KEY_32, /* uint32_t: the key alone */
    FLXI_KEY_64, /* uint64_t */
    FLXI_PAIR_32 /* uint64_t: the key in the upper half, a position in the lower one */
} flxi_radix_kind;

typedef struct {
    flxi_radix_kind kind;
    int bits;            /* of a key: all higher ones are 0 */
    void *items, *spare; /* n each */
    int64_t n;
    void *counts;    /* flxi_radix_counts() bytes */
    flxi_pool *pool; /* or NULL: threads that share one sort; the result does not depend on them */
    int parts;       /* in how many parts these divide the items; 1 for none */
} flxi_radix;

size_t flxi_radix_item(flxi_radix_kind kind); /* bytes */
size_t flxi_radix_counts(int parts);
/* In how many parts that many threads should divide n items. */
int flxi_radix_parts(int64_t n, int threads);

/* The one of `items` and `spare` that holds the result; NULL when the work is stopped. */
void *flxi_radix_sort(const flxi_radix *r);

#endif
