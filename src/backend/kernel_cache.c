/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_cache.c: see kernel_cache.h. Entries are compared byte by byte: a hash alone could be made to collide, and the
   code of another kernel must never run on this one's memory. */
#include "backend/kernel_cache.h"

/* Kernels that are kept when none of them runs. */
static const size_t max_kept = 512;

struct flxi_kcached {
    flxi_kcache_key key;
    void *data;
    size_t holds;
    uint64_t last_use;
};

bool flxi_kcache_init(flxi_kcache *c, const flxi_allocator *mem, void (*discard)(void *owner, void *data), void *owner)
{
    *c = (flxi_kcache){.mem = mem, .discard = discard, .owner = owner};
    return pthread_mutex_init(&c->lock, NULL) == 0;
}

static void free_entry(flxi_kcache *c, flxi_kcached *e)
{
    c->discard(c->owner, e->data);
    flxi_kcache_key_free(&e->key);
    flxi_free(c->mem, e, 1, sizeof *e);
}

void flxi_kcache_free(flxi_kcache *c)
{
    for (size_t i = 0; i < c->kept.n; i++)
        free_entry(c, c->kept.at[i]);
    flxi_vec_free(c->mem, &c->kept);
    pthread_mutex_destroy(&c->lock);
}

flx_code flxi_kcache_key_of(const flx_kernel *k, flxi_kcache_key *key, flx_error *err)
{
    *key = (flxi_kcache_key){0};
    FLXI_TRY(flx_kernel_encode(k, &key->bytes, err));
    key->hash = flxi_hash_bytes(FLXI_HASH_SEED, key->bytes.data, key->bytes.size);
    return FLX_OK;
}

void flxi_kcache_key_free(flxi_kcache_key *key)
{
    flx_buffer_free(&key->bytes);
}

/* With the lock held. */
static flxi_kcached *find(flxi_kcache *c, const flxi_kcache_key *key)
{
    for (size_t i = 0; i < c->kept.n; i++) {
        flxi_kcached *e = c->kept.at[i];
        if (e->key.hash == key->hash && e->key.bytes.size == key->bytes.size &&
            memcmp(e->key.bytes.data, key->bytes.data, key->bytes.size) == 0) {
            e->holds++;
            e->last_use = ++c->clock;
            return e;
        }
    }
    return NULL;
}

flxi_kcached *flxi_kcache_find(flxi_kcache *c, const flxi_kcache_key *key)
{
    pthread_mutex_lock(&c->lock);
    flxi_kcached *e = find(c, key);
    pthread_mutex_unlock(&c->lock);
    return e;
}

static void make_room(flxi_kcache *c)
{
    while (c->kept.n >= max_kept) {
        size_t oldest = SIZE_MAX;
        for (size_t i = 0; i < c->kept.n; i++)
            if (!c->kept.at[i]->holds && (oldest == SIZE_MAX || c->kept.at[i]->last_use < c->kept.at[oldest]->last_use))
                oldest = i;
        if (oldest == SIZE_MAX)
            return;
        free_entry(c, c->kept.at[oldest]);
        c->kept.at[oldest] = c->kept.at[--c->kept.n];
    }
}

flx_code flxi_kcache_keep(flxi_kcache *c, flxi_kcache_key *key, void *data, flxi_kcached **held, flx_error *err)
{
    flxi_kcached *made = flxi_alloc(c->mem, 1, sizeof *made);
    pthread_mutex_lock(&c->lock);
    *held = find(c, key);
    if (!*held && made) {
        make_room(c);
        *made = (flxi_kcached){*key, data, 1, ++c->clock};
        if (flxi_push(c->mem, &c->kept, made))
            *held = made;
    }
    if (!made || *held != made) {
        c->discard(c->owner, data);
        flxi_kcache_key_free(key);
        if (made)
            flxi_free(c->mem, made, 1, sizeof *made);
    }
    pthread_mutex_unlock(&c->lock);
    return *held ? FLX_OK : flxi_oom(err, "a compiled kernel");
}

flx_code flxi_kcache_get(flxi_kcache *c, const flx_kernel *k, size_t size, flxi_kcache_make *make, flxi_kcached **held,
                         flx_error *err)
{
    flxi_kcache_key key;
    FLXI_TRY(flxi_kcache_key_of(k, &key, err));
    if ((*held = flxi_kcache_find(c, &key))) {
        flxi_kcache_key_free(&key);
        return FLX_OK;
    }
    void *made = flxi_alloc(c->mem, 1, size);
    flx_code code = made ? make(c->owner, k, made, err) : flxi_oom(err, "a compiled kernel");
    if (code == FLX_OK)
        return flxi_kcache_keep(c, &key, made, held, err);
    if (made)
        c->discard(c->owner, made);
    flxi_kcache_key_free(&key);
    return code;
}

void flxi_kcache_put_back(flxi_kcache *c, flxi_kcached *entry)
{
    pthread_mutex_lock(&c->lock);
    entry->holds--;
    pthread_mutex_unlock(&c->lock);
}

void *flxi_kcached_data(const flxi_kcached *entry)
{
    return entry->data;
}
