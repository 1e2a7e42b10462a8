/* SPDX-License-Identifier: Apache-2.0 */
/* random_kernel.h: random race-free kernels as text: every differentiable op, nested branches and loops, trip counts
   from data, variables and memory that are overwritten, private arrays, shared memory in phases, gathers, atomic sums.
   */
#ifndef RANDOM_KERNEL_H
#define RANDOM_KERNEL_H

#include <stddef.h>
#include <stdint.h>

enum {
    RANDOM_KERNEL_WIDTH = 4, /* invocations of a workgroup */
    RANDOM_KERNEL_GROUPS = 2,
    RANDOM_KERNEL_COUNT = RANDOM_KERNEL_WIDTH * RANDOM_KERNEL_GROUPS, /* elements of x, mem, k and out */
    RANDOM_KERNEL_TABLE = 5,                                          /* elements of y */
    RANDOM_KERNEL_SUMS = 3,                                           /* elements of acc */
    RANDOM_KERNEL_SIZE = 1 << 16,                                     /* bytes of text at most */
};

/* Buffers: x, y read f64; k read u32 below RANDOM_KERNEL_TABLE; mem read_write f64; out, acc output f64. */
void random_kernel_write(uint64_t seed, char *text);

#endif
