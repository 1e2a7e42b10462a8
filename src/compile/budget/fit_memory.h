/* SPDX-License-Identifier: Apache-2.0 */
/* fit_memory.h: the steps of a graph in a given amount of memory. */
#ifndef FLXI_FIT_MEMORY_H
#define FLXI_FIT_MEMORY_H

#include "compile/program.h"

/* Like flxi_routine_compile(), for the main graph of a program whose options have a budget: a run works in at most
   `budget` bytes, as far as that is known before kernels are compiled. SIZE when that cannot be reached, with the
   smallest number that can. */
flx_code flxi_fit_memory(flxi_program *m, const flx_graph *g, size_t budget, flxi_routine **out, flx_error *err);

/* What is computed again in a routine: values, and floating-point operations in addition. */
void flxi_routine_recomputed(const flxi_routine *l, uint32_t *values, int64_t *flops);

/* Fails with SIZE: `need` bytes are the fewest. */
flx_code flxi_fail_budget(const flx_graph *g, size_t usual, size_t need, size_t budget, flx_error *err);

#endif
