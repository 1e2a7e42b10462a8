/* SPDX-License-Identifier: Apache-2.0 */
/* sort_lanes.h: many short rows sorted at once by a network of minima and maxima, each row in a lane of vectors.

   Items are unsigned integers; step k of row r is item k * lanes + r, so that the items of one step fill 64 bytes. The
   network is not stable: equal items must be equal in all their bits. */
#ifndef FLXI_SORT_LANES_H
#define FLXI_SORT_LANES_H

#include <stddef.h>
#include <stdint.h>

enum { FLXI_LANES_BYTES = 64, FLXI_LANES_MOST = 2048 }; /* of a step; steps that are worth it */

/* Sorts steps 0 … n - 1 of all lanes, ascending; `items` is aligned to 64 bytes, n a power of 2, at least 16. */
typedef void (*flxi_lanes_sort)(void *items, int64_t n);

/* For items of 4 or 8 bytes. */
flxi_lanes_sort flxi_lanes_sort_of(size_t item);

#endif
