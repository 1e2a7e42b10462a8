/* SPDX-License-Identifier: Apache-2.0 */
/* sort_keys.h: elements as unsigned integers in whose order they sort. Floats by their bits with the sign turned into
   an offset, both zeros alike, all NaNs alike above +inf. Descending order turns all bits over (`flip`). */
#ifndef FLXI_SORT_KEYS_H
#define FLXI_SORT_KEYS_H

#include "numeric/radix_sort.h"

#include <stdbool.h>

typedef struct {
    int bits; /* of a key; items have 32 or 64 of them */
    bool is_float;
    /* Keys of n elements that are `step` apart; pairs also get positions from `first` on, keys of 64 bits have none. */
    void (*keys)(const void *x, int64_t step, int64_t n, uint64_t flip, void *to);
    void (*pairs)(const void *x, int64_t step, int64_t n, uint64_t flip, int64_t first, void *to);
    /* Elements from keys: of floats, those that are neither 0 nor NaN. */
    void (*values)(const void *keys, int64_t n, uint64_t flip, void *y, int64_t step);
    /* Zeros and NaNs of x in their order, to positions of y from `zero` and `nan` on. */
    void (*restore)(const void *x, int64_t step, int64_t n, void *y, int64_t y_step, int64_t zero, int64_t nan);
} flxi_sort_keys;

/* Of a real dtype. */
const flxi_sort_keys *flxi_sort_keys_of(int32_t dtype);

#endif
