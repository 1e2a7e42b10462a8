/* SPDX-License-Identifier: Apache-2.0 */
/* exec_cache.c: flx_run() on a device that compiles. Executables are known by their device and the binary form of their
   graph, which holds all that a graph is; a hash finds candidates and comparing the bytes decides, so no graph is
   mistaken for another. All are compiled with the default options, so options are not part of the key.

   A thread that needs a graph which another thread is compiling waits for it. The least recently used entries are
   evicted when there are too many, or when they hold too much memory; entries in use stay until their last user is
   done. */
#include "runtime/exec_cache.h"

#include "base/host/stop.h"

static const size_t most_bytes = (size_t)256 << 20; /* held by entries that no run uses */

typedef struct {
    uint64_t hash;
    const flxi_device *device;
    flx_buffer wire;
    flx_exec *exec; /* NULL: being compiled, or compiling failed */
    bool is_making;
    bool is_retired; /* not to be found any more */
    uint32_t users;
    uint64_t last_use;
    size_t nbytes; /* that it holds */
} entry;

typedef struct {
    const flxi_allocator *mem;
    pthread_mutex_t lock;
    pthread_cond_t made;
    FLXI_VEC(entry *) entries;
    uint64_t clock;
    flxi_exec_cache_counts counts;
} exec_cache;

/* ---- Life ---- */

static void *make_cache(flx_context *ctx)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    exec_cache *c = flxi_alloc(mem, 1, sizeof *c);
    if (!c)
        return NULL;
    c->mem = mem;
    bool has_lock = pthread_mutex_init(&c->lock, NULL) == 0;
    if (has_lock && pthread_cond_init(&c->made, NULL) == 0)
        return c;
    if (has_lock)
        pthread_mutex_destroy(&c->lock);
    flxi_free(mem, c, 1, sizeof *c);
    return NULL;
}

static void free_entry(exec_cache *c, entry *x)
{
    flx_exec_free(x->exec);
    flx_buffer_free(&x->wire);
    flxi_free(c->mem, x, 1, sizeof *x);
}

static void discard_cache(void *data)
{
    exec_cache *c = data;
    for (size_t i = 0; i < c->entries.n; i++)
        free_entry(c, c->entries.at[i]);
    flxi_vec_free(c->mem, &c->entries);
    pthread_cond_destroy(&c->made);
    pthread_mutex_destroy(&c->lock);
    flxi_free(c->mem, c, 1, sizeof *c);
}

/* ---- Entries; all of these with the lock held ---- */

static void remove_entry(exec_cache *c, size_t i)
{
    free_entry(c, c->entries.at[i]);
    c->entries.at[i] = c->entries.at[--c->entries.n];
}

/* Removes what is retired and unused, and from the rest the least recently used until it is little enough. */
static void trim(exec_cache *c)
{
    for (;;) {
        size_t oldest = SIZE_MAX, nbytes = 0, count = 0;
        for (size_t i = 0; i < c->entries.n; i++) {
            const entry *x = c->entries.at[i];
            if (x->users)
                continue;
            count++;
            nbytes += x->nbytes;
            if (x->is_retired) {
                oldest = i;
                nbytes = SIZE_MAX;
                break;
            }
            if (oldest == SIZE_MAX || x->last_use < c->entries.at[oldest]->last_use)
                oldest = i;
        }
        if (oldest == SIZE_MAX || (count <= FLXI_KEPT_EXECS && nbytes <= most_bytes))
            return;
        remove_entry(c, oldest);
        c->counts.evicted++;
    }
}

static entry *find_entry(const exec_cache *c, uint64_t hash, const flxi_device *device, const flx_buffer *wire)
{
    for (size_t i = 0; i < c->entries.n; i++) {
        entry *x = c->entries.at[i];
        if (!x->is_retired && x->hash == hash && x->device == device && x->wire.size == wire->size &&
            memcmp(x->wire.data, wire->data, wire->size) == 0)
            return x;
    }
    return NULL;
}

/* A new entry that its maker uses, taking over the bytes; NULL when memory is exhausted. */
static entry *add_entry(exec_cache *c, uint64_t hash, const flxi_device *device, flx_buffer *wire)
{
    entry *x = flxi_alloc(c->mem, 1, sizeof *x);
    if (!x || !flxi_push(c->mem, &c->entries, x)) {
        flxi_free(c->mem, x, 1, sizeof *x);
        return NULL;
    }
    *x = (entry){.hash = hash, .device = device, .wire = *wire, .is_making = true, .users = 1};
    *wire = (flx_buffer){0};
    return x;
}

static void leave(exec_cache *c, entry *x)
{
    x->users--;
    x->last_use = ++c->clock;
    x->nbytes = x->wire.size + (x->exec ? flxi_exec_held_bytes(x->exec) : 0);
    trim(c);
}

/* ---- Taking and giving back ---- */

/* Waits for the thread that compiles it; NULL when that failed, or this one is stopped. */
static entry *join_entry(exec_cache *c, entry *x)
{
    x->users++;
    while (x->is_making && !flxi_stopped())
        flxi_stop_wait(&c->made, &c->lock);
    if (!x->is_making && x->exec) {
        c->counts.hits++;
        return x;
    }
    leave(c, x);
    return NULL;
}

static flx_code make_entry(exec_cache *c, const flx_graph *g, entry *x, flx_error *err)
{
    flx_error local = {0};
    flx_compile_options o = {.struct_size = sizeof o, .device = x->device->name};
    flx_exec *e = flx_compile(g, &o, &local);
    flxi_context_raise(g->ctx, make_cache); /* executables use what their device keeps with the context */
    if (!e && err)
        *err = local;
    pthread_mutex_lock(&c->lock);
    x->exec = e;
    x->is_making = false;
    x->is_retired = !e;
    pthread_cond_broadcast(&c->made);
    if (!e)
        leave(c, x);
    pthread_mutex_unlock(&c->lock);
    return e ? FLX_OK : (flx_code)local.code;
}

static flx_code take(exec_cache *c, const flx_graph *g, const flxi_device *device, entry **out, flx_error *err)
{
    flx_buffer wire = {0};
    FLXI_TRY(flx_graph_encode(g, &wire, err));
    uint64_t hash = flxi_hash_bytes(FLXI_HASH_SEED, wire.data, wire.size);
    entry *x = NULL, *found;
    flx_code code = FLX_OK;
    *out = NULL;
    pthread_mutex_lock(&c->lock);
    while (!*out && (code = flxi_stop_check(err)) == FLX_OK && (found = find_entry(c, hash, device, &wire)))
        *out = join_entry(c, found);
    if (!*out && code == FLX_OK) {
        c->counts.misses++;
        x = add_entry(c, hash, device, &wire);
        code = x ? FLX_OK : flxi_oom(err, "a cache of executables");
    }
    pthread_mutex_unlock(&c->lock);
    flx_buffer_free(&wire);
    flxi_log(g->ctx, x ? FLX_LOG_CACHE_MISS : FLX_LOG_CACHE_HIT, g->name, "executable cache: %s",
             x ? "no executable of an equal graph yet" : "the executable of an equal graph is used again");
    if (x) {
        code = make_entry(c, g, x, err);
        *out = code == FLX_OK ? x : NULL;
    }
    return code;
}

flx_code flxi_run_compiled(const flx_graph *g, const flxi_device *device, const flxi_run_call *run, flx_error *err)
{
    exec_cache *c = flxi_context_attached(g->ctx, make_cache, discard_cache);
    entry *x;
    if (!c)
        return flxi_oom(err, "a cache of executables");
    flxi_stop_scope scope;
    flxi_stop_enter(&scope, run->options->stop, run->options->time_limit);
    flx_code code = take(c, g, device, &x, err);
    if (code == FLX_OK) {
        code = flx_exec_run(x->exec, run->options, run->feeds, run->num_feeds, run->outputs, err);
        pthread_mutex_lock(&c->lock);
        leave(c, x);
        pthread_mutex_unlock(&c->lock);
    }
    flxi_stop_leave(&scope);
    return code;
}

flxi_exec_cache_counts flxi_exec_cache_count(flx_context *ctx)
{
    exec_cache *c = flxi_context_find_attached(ctx, make_cache);
    if (!c)
        return (flxi_exec_cache_counts){0};
    pthread_mutex_lock(&c->lock);
    flxi_exec_cache_counts counts = c->counts;
    counts.entries = c->entries.n;
    pthread_mutex_unlock(&c->lock);
    return counts;
}
