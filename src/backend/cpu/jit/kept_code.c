/* SPDX-License-Identifier: Apache-2.0 */
/* kept_code.c: see kept_code.h. */
#include "backend/cpu/jit/kept_code.h"

enum { MOST_UNUSED = 512 }; /* that are kept although no program uses them */

/* ---- Life ---- */

static void free_kept(const flxi_allocator *mem, flxi_kept_code *k)
{
    if (k->unit && --k->unit->users == 0) {
        flxi_object_free(k->unit->object);
        flxi_free(mem, k->unit, 1, sizeof *k->unit);
    }
    flxi_outline_free(&k->outline);
    flxi_arena_free(&k->arena);
    flxi_free(mem, k, 1, sizeof *k);
}

static void *make_keeper(flx_context *ctx)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flxi_code_keeper *c = flxi_alloc(mem, 1, sizeof *c);
    if (!c)
        return NULL;
    c->mem = mem;
    c->holders = 1;
    if (pthread_mutex_init(&c->lock, NULL) == 0)
        return c;
    flxi_free(mem, c, 1, sizeof *c);
    return NULL;
}

static void discard_keeper(void *data)
{
    flxi_code_keeper_release(data);
}

flxi_code_keeper *flxi_code_keeper_hold(flx_context *ctx)
{
    flxi_code_keeper *c = flxi_context_attached(ctx, make_keeper, discard_keeper);
    if (!c)
        return NULL;
    pthread_mutex_lock(&c->lock);
    c->holders++;
    pthread_mutex_unlock(&c->lock);
    return c;
}

void flxi_code_keeper_release(flxi_code_keeper *c)
{
    pthread_mutex_lock(&c->lock);
    bool is_last = --c->holders == 0;
    pthread_mutex_unlock(&c->lock);
    if (!is_last)
        return;
    for (size_t i = 0; i < c->kept.n; i++)
        free_kept(c->mem, c->kept.at[i]);
    flxi_vec_free(c->mem, &c->kept);
    pthread_mutex_destroy(&c->lock);
    flxi_free(c->mem, c, 1, sizeof *c);
}

/* Objects are shared with what is kept. */
void flxi_kept_code_free(flxi_code_keeper *c, flxi_kept_code *k)
{
    pthread_mutex_lock(&c->lock);
    free_kept(c->mem, k);
    pthread_mutex_unlock(&c->lock);
}

/* ---- Use; these with the lock held ---- */

static void use(flxi_code_keeper *c, flxi_kept_code *k)
{
    c->num_used += k->users++ == 0;
    k->last_use = ++c->clock;
}

static void trim(flxi_code_keeper *c)
{
    while (c->kept.n - c->num_used > MOST_UNUSED) {
        size_t oldest = SIZE_MAX;
        for (size_t i = 0; i < c->kept.n; i++)
            if (!c->kept.at[i]->users && (oldest == SIZE_MAX || c->kept.at[i]->last_use < c->kept.at[oldest]->last_use))
                oldest = i;
        free_kept(c->mem, c->kept.at[oldest]);
        c->kept.at[oldest] = c->kept.at[--c->kept.n];
    }
}

/* ---- Finding and keeping ---- */

bool flxi_kept_code_fits(const flxi_kept_code *k, const flxi_outline *x, flxi_arena *arena, uint64_t **sizes)
{
    uint64_t *values = flxi_new(arena, uint64_t, k->sizes.num_arguments);
    *sizes = values && flxi_outline_fits(&k->outline, &k->sizes, x, values) ? values : NULL;
    return values;
}

bool flxi_code_keeper_find(flxi_code_keeper *c, const flxi_outline *x, flxi_c_level level, unsigned flags,
                           flxi_arena *arena, flxi_kept_code **out, uint64_t **sizes)
{
    bool ok = true;
    *out = NULL;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; ok && !*out && i < c->kept.n; i++) {
        flxi_kept_code *k = c->kept.at[i];
        if (k->level != level || k->flags != flags || !flxi_outline_equal(&k->outline, x))
            continue;
        ok = flxi_kept_code_fits(k, x, arena, sizes);
        *out = ok && *sizes ? k : NULL;
    }
    if (*out)
        use(c, *out);
    pthread_mutex_unlock(&c->lock);
    return ok;
}

bool flxi_code_keeper_add(flxi_code_keeper *c, flxi_kept_code *k)
{
    pthread_mutex_lock(&c->lock);
    bool ok = flxi_push(c->mem, &c->kept, k);
    if (ok)
        use(c, k);
    trim(c);
    pthread_mutex_unlock(&c->lock);
    return ok;
}

void flxi_code_keeper_leave(flxi_code_keeper *c, flxi_kept_code *const *list, size_t n)
{
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < n; i++)
        c->num_used -= --list[i]->users == 0;
    trim(c);
    pthread_mutex_unlock(&c->lock);
}
