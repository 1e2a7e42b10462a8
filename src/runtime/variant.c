/* SPDX-License-Identifier: Apache-2.0 */
/* variant.c: an executable for one binding of its symbolic dimensions. With FLX_COMPILE_BACKGROUND there are two tiers:
   the program without machine code, which is there at once, and the compiled one, which a thread makes. A run that has
   begun on the first ends on it; whichever begins after the second is ready uses that. Both are freed with the variant,
   which goes when no run uses it, newer ones have filled the executable, and the caller has no texts of its steps. */
#include "base/host/quiet_thread.h"
#include "runtime/exec.h"

/* ---- Making ---- */

static const int64_t *extent_of(const flx_dim_binding *b, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(b[i].name, name) == 0)
            return &b[i].extent;
    return NULL;
}

static bool has_extents(const flx_exec *e, const flxi_variant *v, const flx_dim_binding *b, size_t n)
{
    for (size_t i = 0; i < e->g->symbols.n; i++) {
        const int64_t *x = extent_of(b, n, e->g->symbols.at[i]);
        if (!x || *x != v->extents[i])
            return false;
    }
    return true;
}

static void free_states(flx_exec *e, flxi_tier *t)
{
    for (size_t i = 0; i < t->states.n; i++)
        flxi_state_free(t->states.at[i]);
    flxi_vec_free(e->mem, &t->states);
}

static void *compile_later(void *user)
{
    flxi_variant *v = user;
    flx_exec *e = v->exec;
    flx_error err = {0};
    flxi_stop_scope scope;
    flxi_stop_swap(&v->stop);
    flxi_stop_enter(&scope, NULL, e->options.time_limit);
    flx_code code = flxi_stop_or(flxi_program_compile(&v->later.program, v->g, e->device, &e->options, &err), &err);
    if (code == FLX_OK && v->later.program.note[0]) /* what is on can do as much */
        code = flxi_fail_hint(&err, FLX_E_DEVICE, "set FLX_CC to a C compiler", "%.200s", v->later.program.note);
    pthread_mutex_lock(&e->lock);
    if (code == FLX_OK) {
        v->on = &v->later;
        free_states(e, &v->first); /* no run will want them */
    } else {
        v->failure = err;
    }
    v->is_compiling = false;
    pthread_cond_broadcast(&e->compiled);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static flx_code check_memory(const flxi_program *p, const flx_compile_options *o, flx_error *err)
{
    size_t need = p->main->arena_bytes;
    if (!o->memory_limit || need <= (uint64_t)o->memory_limit)
        return FLX_OK;
    return flxi_fail_hint(err, FLX_E_SIZE, "raise flx_compile_options.memory_limit",
                          "a run needs %zu bytes, more than the limit of %lld", need, (long long)o->memory_limit);
}

static flx_code make_tiers(flxi_variant *v, flx_error *err)
{
    const flx_compile_options *o = &v->exec->options;
    flx_compile_options plain = *o;
    plain.flags |= FLX_COMPILE_INTERPRET;
    bool is_later = (o->flags & FLX_COMPILE_BACKGROUND) && !(o->flags & FLX_COMPILE_INTERPRET);
    v->on = &v->first;
    FLXI_TRY(flxi_program_compile(&v->first.program, v->g, v->exec->device, is_later ? &plain : o, err));
    FLXI_TRY(check_memory(&v->first.program, o, err));
    FLXI_TRY(flxi_stop_check(err));
    if (!is_later)
        return FLX_OK;
    v->is_compiling = v->has_thread = flxi_thread_start(&v->thread, compile_later, v);
    if (!v->has_thread)
        flxi_fail(&v->failure, FLX_E_DEVICE, "no thread could be started to compile on");
    return FLX_OK;
}

/* The thread is started last: nothing fails after that. */
static flx_code make_variant(flxi_variant *v, const flx_dim_binding *b, size_t n, flx_error *err)
{
    flx_exec *e = v->exec;
    v->extents = flxi_alloc(e->mem, e->g->symbols.n, sizeof *v->extents);
    if (!v->extents)
        return flxi_oom(err, "an executable");
    for (size_t i = 0; i < e->g->symbols.n; i++) {
        const int64_t *x = extent_of(b, n, e->g->symbols.at[i]);
        v->extents[i] = x ? *x : 0;
    }
    if (e->g->symbols.n)
        FLXI_TRY(flxi_specialise(e->g, b, n, &v->g, NULL, err));
    else
        FLXI_TRY(flxi_pass_dce(e->g, &v->g, NULL, err));
    return make_tiers(v, err);
}

/* ---- Few enough; all of these with the lock held ---- */

static bool may_go(const flx_exec *e, const flxi_variant *v)
{
    return v->users == 0 && !v->is_pinned && !v->is_compiling && v != e->fixed;
}

/* Makes room for one more. */
static void trim(flx_exec *e)
{
    while (e->variants.n >= FLXI_MAX_VARIANTS) {
        size_t oldest = SIZE_MAX;
        for (size_t i = 0; i < e->variants.n; i++) {
            const flxi_variant *v = e->variants.at[i];
            if (may_go(e, v) && (oldest == SIZE_MAX || v->last_use < e->variants.at[oldest]->last_use))
                oldest = i;
        }
        if (oldest == SIZE_MAX)
            return;
        flxi_variant_free(e->variants.at[oldest]);
        e->variants.n--;
        memmove(e->variants.at + oldest, e->variants.at + oldest + 1,
                (e->variants.n - oldest) * sizeof *e->variants.at);
    }
}

/* Without the lock, which others may need; room for the variant is there. */
static flx_code make_unlocked(flx_exec *e, flxi_variant *v, const flx_dim_binding *b, size_t n, flx_error *err)
{
    flxi_stop_scope scope;
    e->is_making = true;
    pthread_mutex_unlock(&e->lock);
    flxi_stop_enter(&scope, NULL, e->options.time_limit);
    flx_code code = make_variant(v, b, n, err);
    flxi_stop_leave(&scope);
    pthread_mutex_lock(&e->lock);
    e->is_making = false;
    pthread_cond_broadcast(&e->compiled);
    return code;
}

static flx_code add_variant(flx_exec *e, const flx_dim_binding *b, size_t n, flxi_variant **out, flx_error *err)
{
    flxi_variant *v = flxi_alloc(e->mem, 1, sizeof *v);
    trim(e);
    if (!v || !flxi_reserve(e->mem, &e->variants)) {
        flxi_free(e->mem, v, 1, sizeof *v);
        return flxi_oom(err, "an executable");
    }
    v->exec = e;
    atomic_init(&v->stop.code, 0);
    flx_code code = make_unlocked(e, v, b, n, err);
    if (code == FLX_OK)
        e->variants.at[e->variants.n++] = *out = v;
    else
        flxi_variant_free(v);
    return code;
}

static flxi_variant *find_variant(const flx_exec *e, const flx_dim_binding *b, size_t n)
{
    for (size_t i = 0; i < e->variants.n; i++)
        if (has_extents(e, e->variants.at[i], b, n))
            return e->variants.at[i];
    return NULL;
}

/* ---- Finding ---- */

flx_code flxi_variant_for(flx_exec *e, const flx_dim_binding *b, size_t n, flxi_variant **out, flx_error *err)
{
    flx_code code = FLX_OK;
    pthread_mutex_lock(&e->lock);
    while (!(*out = find_variant(e, b, n)) && e->is_making && (code = flxi_stop_check(err)) == FLX_OK)
        flxi_stop_wait(&e->compiled, &e->lock);
    if (!*out && code == FLX_OK)
        code = add_variant(e, b, n, out, err);
    if (code == FLX_OK) {
        (*out)->users++;
        (*out)->last_use = ++e->clock;
    }
    pthread_mutex_unlock(&e->lock);
    return code;
}

void flxi_variant_leave(flxi_variant *v)
{
    pthread_mutex_lock(&v->exec->lock);
    v->users--;
    pthread_mutex_unlock(&v->exec->lock);
}

void flxi_variant_pin(flxi_variant *v)
{
    pthread_mutex_lock(&v->exec->lock);
    v->is_pinned = true;
    pthread_mutex_unlock(&v->exec->lock);
}

/* ---- Freeing ---- */

static void free_tier(flx_exec *e, flxi_tier *t)
{
    free_states(e, t);
    flxi_program_free(&t->program);
}

void flxi_variant_free(flxi_variant *v)
{
    flx_exec *e = v->exec;
    flx_stop_request(&v->stop);
    if (v->has_thread)
        pthread_join(v->thread, NULL);
    free_tier(e, &v->first);
    free_tier(e, &v->later);
    flx_graph_release(v->g);
    if (v->extents)
        flxi_free(e->mem, v->extents, e->g->symbols.n, sizeof *v->extents);
    flxi_free(e->mem, v, 1, sizeof *v);
}

/* ---- Running ---- */

static flx_code take_state(flxi_variant *v, flxi_tier **tier, flxi_state **s, flx_error *err)
{
    flx_exec *e = v->exec;
    pthread_mutex_lock(&e->lock);
    flxi_tier *t = *tier = v->on;
    *s = t->states.n ? t->states.at[--t->states.n] : NULL;
    pthread_mutex_unlock(&e->lock);
    return *s ? FLX_OK : flxi_state_new(&t->program, s, err);
}

static void give_state(flxi_variant *v, flxi_tier *t, flxi_state *s)
{
    flx_exec *e = v->exec;
    pthread_mutex_lock(&e->lock);
    bool kept = t == v->on && flxi_push(e->mem, &t->states, s);
    pthread_mutex_unlock(&e->lock);
    if (!kept)
        flxi_state_free(s);
}

flx_code flxi_variant_run(flxi_variant *v, const flxi_run_setup *setup, const void *const *in, void *const *out,
                          flx_error *err)
{
    flxi_state *s;
    flxi_tier *tier;
    FLXI_TRY(take_state(v, &tier, &s, err));
    flx_code code = flxi_state_run(s, setup, in, out, err);
    give_state(v, tier, s);
    return code;
}

const flxi_program *flxi_exec_program(const flx_exec *e)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&e->lock;
    pthread_mutex_lock(lock);
    flxi_variant *v = e->variants.n ? e->variants.at[e->variants.n - 1] : NULL;
    const flxi_program *m = v ? &v->on->program : NULL;
    if (v)
        v->is_pinned = true;
    pthread_mutex_unlock(lock);
    return m;
}

size_t flxi_variant_memory(const flxi_variant *v)
{
    pthread_mutex_lock(&v->exec->lock);
    size_t nbytes = v->on->program.main->arena_bytes;
    pthread_mutex_unlock(&v->exec->lock);
    return nbytes;
}

size_t flx_exec_memory(const flx_exec *e)
{
    if (!e)
        return 0;
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&e->lock;
    pthread_mutex_lock(lock);
    const flxi_variant *v = e->variants.n ? e->variants.at[e->variants.n - 1] : NULL;
    size_t nbytes = v ? v->on->program.main->arena_bytes : 0;
    pthread_mutex_unlock(lock);
    return nbytes;
}

size_t flxi_exec_held_bytes(const flx_exec *e)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&e->lock;
    size_t nbytes = 0;
    pthread_mutex_lock(lock);
    for (size_t i = 0; i < e->variants.n; i++) {
        const flxi_tier *t = e->variants.at[i]->on;
        nbytes += t->states.n * t->program.main->arena_bytes;
    }
    pthread_mutex_unlock(lock);
    return nbytes;
}

/* ---- Tiers, seen from outside ---- */

int flx_exec_is_ready(const flx_exec *e)
{
    if (!e)
        return 0;
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&e->lock;
    int is_ready = 1;
    pthread_mutex_lock(lock);
    for (size_t i = 0; i < e->variants.n; i++)
        is_ready &= !e->variants.at[i]->is_compiling;
    pthread_mutex_unlock(lock);
    return is_ready;
}

flx_code flx_exec_wait_ready(flx_exec *e, flx_error *err)
{
    if (!e)
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_wait_ready: the executable must be given");
    flx_code code = FLX_OK;
    pthread_mutex_lock(&e->lock);
    for (size_t i = 0; i < e->variants.n; i++) {
        flxi_variant *v = e->variants.at[i];
        v->users++; /* while others may have the lock */
        while (v->is_compiling)
            pthread_cond_wait(&e->compiled, &e->lock);
        v->users--;
        if (code == FLX_OK && v->failure.code) {
            code = (flx_code)v->failure.code;
            if (err)
                *err = v->failure;
        }
    }
    pthread_mutex_unlock(&e->lock);
    return code;
}
