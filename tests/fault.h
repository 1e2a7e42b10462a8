/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h: an allocator for tests that fails on demand and keeps statistics.

       fault f = {.fail_at = 3};
       flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
       …
       CHECK(fault_is_clean(&f));

   Each request for memory counts as a call; frees do not count and never fail. Every block has a hidden header, so a
   free or resize with a size other than the requested one, or of a foreign block, is counted as an error, and so is a
   write just past the end. Fresh memory is filled with garbage, freed memory is overwritten, and a resize always moves.
   Thread-safe. */
#ifndef FLX_FAULT_H
#define FLX_FAULT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    size_t calls;   /* requests so far, failed ones included */
    size_t fail_at; /* the request that fails, counted from 1; 0: none */
    bool forever;   /* all later requests fail too */
    size_t live_blocks, live_bytes;
    size_t peak_bytes;
    size_t largest; /* the largest single request */
    size_t failed;  /* requests that were made to fail */
    size_t errors;  /* wrong sizes, foreign blocks, writes past the end */
} fault;

/* A flx_alloc_fn; `user` is a fault *. */
void *fault_alloc(void *user, void *block, size_t old_size, size_t new_size);

/* Nothing is live and no error was found. */
bool fault_is_clean(const fault *f);

#endif
