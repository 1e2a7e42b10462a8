/* SPDX-License-Identifier: Apache-2.0 */
/* exec_cache.h: executables that flx_run() made, kept for the next run of the same graph. One cache for each
   context. */
#ifndef FLXI_EXEC_CACHE_H
#define FLXI_EXEC_CACHE_H

#include "runtime/exec.h"

enum { FLXI_KEPT_EXECS = 16 }; /* that no run uses */

typedef struct {
    uint64_t hits, misses, evicted;
    size_t entries;
} flxi_exec_cache_counts;

/* What the cache of this context did so far. */
flxi_exec_cache_counts flxi_exec_cache_count(flx_context *ctx);

#endif
