/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h: what the benchmarks of this folder share. */
#ifndef FLX_BENCH_INSIDE_H
#define FLX_BENCH_INSIDE_H

#include "../bench.h"
#include "base/memory.h"

static const flxi_allocator mem = {flxi_default_alloc, NULL};

static inline void *block_of(size_t nbytes)
{
    void *p = aligned_alloc(64, (nbytes + 127) / 64 * 64);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(3);
    }
    return p;
}

#endif
