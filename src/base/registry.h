/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h: what a program registers in a context: a list that only grows, under a lock, and goes with the
   context. */
#ifndef FLXI_REGISTRY_H
#define FLXI_REGISTRY_H

#include "base/context.h"

#include <pthread.h>

typedef struct {
    const flxi_allocator *mem;
    pthread_mutex_t lock; /* guards the rest */
    flxi_arena arena;
    const void *first; /* of the list */
} flxi_registry;

/* For flxi_context_attached(), which knows a registry by the function that makes it: whoever has one wraps this in its
   own. */
void *flxi_registry_new(flx_context *ctx);
void flxi_registry_free(void *registry);

#endif
