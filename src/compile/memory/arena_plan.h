/* SPDX-License-Identifier: Apache-2.0 */
/* arena_plan.h: offsets for buffers in one arena, so that buffers which are needed at the same time never share
   bytes. */
#ifndef FLXI_ARENA_PLAN_H
#define FLXI_ARENA_PLAN_H

#include "base/error.h"
#include "base/memory.h"

enum { FLXI_ARENA_ALIGN = 64 }; /* offsets are multiples of it, and so is the size of the arena */

typedef struct {
    size_t nbytes;
    uint32_t from, to; /* first and last step that uses it, both inclusive */
    size_t offset;     /* out */
} flxi_interval;

typedef struct {
    size_t bytes;    /* of the arena: every interval ends at or before it */
    size_t max_live; /* the most that is needed at one step, sizes rounded up to the alignment: no plan is smaller */
} flxi_arena_size;

/* Gives each interval an offset. An interval without bytes gets offset 0 and no room. The same intervals give the same
   plan. Time: O(n log n) and a bounded amount of work on top (see arena_plan.c). On failure nothing is written: SIZE
   when the arena cannot be addressed, OOM, INTERNAL when an interval ends before it begins. */
flx_code flxi_plan_arena(const flxi_allocator *mem, flxi_interval *v, size_t n, flxi_arena_size *out, flx_error *err);

#endif
