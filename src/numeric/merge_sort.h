/* SPDX-License-Identifier: Apache-2.0 */
/* merge_sort.h: sorting positions with a comparison function. */
#ifndef FLXI_MERGE_SORT_H
#define FLXI_MERGE_SORT_H

#include <stdbool.h>
#include <stdint.h>

/* Whether position a must come before position b. */
typedef bool (*flxi_before)(void *user, int64_t a, int64_t b);

/* Sorts the n positions in v; `spare` has room for as many. Returns the one of the two that holds the result. Stable,
   with at most n log n comparisons: even an inconsistent comparison yields a permutation. */
int64_t *flxi_sort_positions(int64_t *v, int64_t *spare, int64_t n, flxi_before before, void *user);

#endif
