/* SPDX-License-Identifier: Apache-2.0 */
/* caller_memory.h: checks of the memory that a caller gives to a run by address. Compiled code relies on alignment and
   on outputs that overlap nothing: what breaks that would give wrong results or end the program, without a message.
   The checks cost a few nanoseconds where memory is in order, and else about one for each pair of addresses. */
#ifndef FLXI_CALLER_MEMORY_H
#define FLXI_CALLER_MEMORY_H

#include "runtime/exec.h"

/* More pairs of an output and another address are not compared: a run with that many takes its time, and so would
   comparing them. */
enum { FLXI_COMPARED_PAIRS = 512 };

/* The spans of static types, by leaf and then by output; NULL when memory is exhausted. */
flxi_span *flxi_spans_of(const flx_graph *g, const flxi_allocator *mem);

/* Whether all addresses are aligned, and outputs overlap neither inputs nor each other, except an input and an output
   that may share (flxi_variant_may_share) and begin at the same address. NULL among inputs is skipped. */
flx_code flxi_check_caller_memory(const flxi_variant *v, const void *const *inputs, void *const *outputs,
                                  flx_error *err);

#endif
