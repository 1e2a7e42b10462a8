/* SPDX-License-Identifier: Apache-2.0 */
/* sort_quick.h: unsigned integers sorted where they are, by partitions around a pivot and networks for what is short,
   all in vectors. The order is not stable: equal items must be equal in all their bits. */
#ifndef FLXI_SORT_QUICK_H
#define FLXI_SORT_QUICK_H

#include "base/host/thread_pool.h"

#include <stddef.h>

/* Loops for items of 4 or 8 bytes; `spare` has room for n more. */
typedef struct {
    size_t item;
    void (*sort)(void *items, int64_t n, void *spare);
    /* Moves items below one of them to the front and says how many they are. */
    int64_t (*split)(void *items, int64_t n, void *spare);
} flxi_quick;

/* NULL where this machine has no instructions for it. */
const flxi_quick *flxi_quick_of(size_t item);

/* The threads of a pool share the work; the result does not depend on them. When the work is stopped it is not
   complete. */
void flxi_quick_sort(const flxi_quick *q, void *items, int64_t n, void *spare, flxi_pool *pool);

#endif
