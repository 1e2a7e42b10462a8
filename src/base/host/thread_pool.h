/* SPDX-License-Identifier: Apache-2.0 */
/* thread_pool.h: a parallel loop whose results do not depend on the number of threads.

   The range is cut into chunks of a fixed size, independent of the thread count; any thread may run a chunk, so chunks
   must write to disjoint memory.

   Starting a loop costs some tenths of a microsecond while the workers are awake, and some tens when they sleep. They
   stay awake for 50 microseconds after a loop, or for two milliseconds between flxi_pool_wake() and flxi_pool_rest(); a
   pool with more threads than cores never spins. */
#ifndef FLXI_THREAD_POOL_H
#define FLXI_THREAD_POOL_H

#include "base/memory.h"

typedef struct flxi_pool flxi_pool;

/* `threads` workers including the caller; 0 means one per available core. NULL if threads or memory are not available.
   */
flxi_pool *flxi_pool_new(const flxi_allocator *mem, int threads);
void flxi_pool_free(flxi_pool *p); /* NULL is fine; no loop may be running */
int flxi_pool_threads(const flxi_pool *p);

typedef void (*flxi_chunk_fn)(void *user, int64_t begin, int64_t end);

/* Calls fn for [0, chunk), [chunk, 2 chunk) … up to count and returns when all are done. With p NULL it runs them in
   order on the caller. Loops started from several threads take turns; a loop started inside a chunk runs on the caller
   alone. Chunks compute in the caller's float mode (float_mode.h) on every thread, and belong to its stop (stop.h):
   once that is set, no more are started. */
void flxi_pool_run(flxi_pool *p, int64_t count, int64_t chunk, flxi_chunk_fn fn, void *user);

/* Around many loops in a row, such as the steps of one run: wakes the workers at once, while the caller prepares the
   first loop, and keeps them awake through short pauses between loops. Calls nest, from any thread; p may be NULL. */
void flxi_pool_wake(flxi_pool *p);
void flxi_pool_rest(flxi_pool *p);

#endif
