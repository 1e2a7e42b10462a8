/* SPDX-License-Identifier: Apache-2.0 */
/* step_order.h: which steps of a block must have ended before another one begins: by the memory that they read and
   write, wherever it is. All others may run at the same time. */
#ifndef FLXI_STEP_ORDER_H
#define FLXI_STEP_ORDER_H

#include "compile/program.h"

/* Steps [from, from + n): those that step from + i waits for are at after[first[i]] … after[first[i + 1] - 1], as
   numbers from `from` on. What they wait for themselves is not repeated. */
typedef struct {
    uint32_t from, n;
    uint32_t *first, *after;
    size_t num_after;
} flxi_step_order;

/* `at`: the addresses of slots; `base`: that of the arena. Without steps, and without an error, for very many: they run
   one after the other. */
flx_code flxi_step_order_make(const flxi_routine *l, void *const *at, const unsigned char *base, uint32_t from,
                              uint32_t to, const flxi_allocator *mem, flxi_step_order *out, flx_error *err);
void flxi_step_order_free(flxi_step_order *o, const flxi_allocator *mem); /* zeroes are fine */

#endif
