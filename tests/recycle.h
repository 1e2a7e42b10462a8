/* SPDX-License-Identifier: Apache-2.0 */
/* recycle.h: an allocator for tests that gives out at once what was freed last. Code that recognises objects by their
   address takes a new one for one that is gone; with other allocators that is rare, and with a sanitizer impossible.

       flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = recycle_alloc});  */
#ifndef FLX_RECYCLE_H
#define FLX_RECYCLE_H

#include <stddef.h>

/* A flx_alloc_fn; `user` is not used. Freed memory is kept for the next request of its size. Thread-safe. */
void *recycle_alloc(void *user, void *block, size_t old_size, size_t new_size);

#endif
