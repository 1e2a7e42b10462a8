/* SPDX-License-Identifier: Apache-2.0 */
/* random_compiled.h: random graphs compiled and compared with the reference evaluator. */
#ifndef FLX_RANDOM_COMPILED_H
#define FLX_RANDOM_COMPILED_H

#include <stddef.h>
#include <stdint.h>

/* The graphs of n seeds and their gradients, compiled together in a way of compiled_ways.h; a difference is a failed
   expectation. */
void random_compiled_try(uint64_t first, uint64_t n, size_t way);

#endif
