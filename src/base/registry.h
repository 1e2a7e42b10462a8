/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h: objects that a program registers in a context: a list that only grows, protected by a lock, freed with
   the context. */
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

/* For flxi_context_attached(), which identifies a registry by the function that creates it: each user wraps this in its
   own function. */
void *flxi_registry_new(flx_context *ctx);
void flxi_registry_free(void *registry);

#endif
