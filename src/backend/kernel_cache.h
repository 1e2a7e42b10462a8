/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_cache.h: compiled kernels in memory, by their wire form: equal kernels are compiled once. Each back end has a
   cache of its own for each context. */
#ifndef FLXI_KERNEL_CACHE_H
#define FLXI_KERNEL_CACHE_H

#include "base/context.h"
#include "kernel/program/kernel.h"

typedef struct flxi_kcached flxi_kcached;

typedef struct {
    const flxi_allocator *mem;
    pthread_mutex_t lock;
    FLXI_VEC(flxi_kcached *) kept;
    uint64_t clock;
    void (*discard)(void *owner, void *data); /* frees what a back end made of a kernel; called under the lock */
    void *owner;
} flxi_kcache;

/* False when a lock cannot be had. */
bool flxi_kcache_init(flxi_kcache *c, const flxi_allocator *mem, void (*discard)(void *owner, void *data), void *owner);
void flxi_kcache_free(flxi_kcache *c); /* nothing in it may be in use */

/* What a kernel is known by. */
typedef struct {
    flx_buffer bytes;
    uint64_t hash;
} flxi_kcache_key;

flx_code flxi_kcache_key_of(const flx_kernel *k, flxi_kcache_key *key, flx_error *err);
void flxi_kcache_key_free(flxi_kcache_key *key);

/* The entry of a kernel, held until it is put back, or NULL. */
flxi_kcached *flxi_kcache_find(flxi_kcache *c, const flxi_kcache_key *key);
/* Keeps `data`, taking it and the key over in any case; if another thread was faster, gives its entry instead. The
   oldest entries that are not held are evicted. Held until it is put back. */
flx_code flxi_kcache_keep(flxi_kcache *c, flxi_kcache_key *key, void *data, flxi_kcached **held, flx_error *err);
/* The entry of a kernel; if there is none, `make` fills `size` zeroed bytes, which the cache's discard() frees. Held
   until it is put back. */
typedef flx_code flxi_kcache_make(void *owner, const flx_kernel *k, void *made, flx_error *err);
flx_code flxi_kcache_get(flxi_kcache *c, const flx_kernel *k, size_t size, flxi_kcache_make *make, flxi_kcached **held,
                         flx_error *err);
void flxi_kcache_put_back(flxi_kcache *c, flxi_kcached *entry);
void *flxi_kcached_data(const flxi_kcached *entry);

#endif
