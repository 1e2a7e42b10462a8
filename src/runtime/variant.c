/* SPDX-License-Identifier: Apache-2.0 */
/* variant.c: an executable for one binding of its symbolic dimensions. With FLX_COMPILE_BACKGROUND there are two tiers:
   the program without machine code, which is there at once, and the compiled one, which a thread makes. A run that has
   begun on the first ends on it; whichever begins after the second is ready uses that. Both are freed with the variant,
   which goes when no run uses it, newer ones have filled the executable, and the caller has no texts of its steps.

   Extents that are met when running share their machine code (backend.h, `sample`). Kernels
   are as fast as those for one set of extents, but not all chains can be shared. If runs of one set of extents then
   take long enough in total, a second tier for it alone is made in the background, which computes the same bits. */
#include "base/host/quiet_thread.h"
#include "base/options.h"
#include "compile/budget/fit_memory.h"
#include "compile/log_program.h"
#include "graph/op/work.h"
#include "runtime/caller_memory.h"
#include "runtime/exec.h"

/* ---- Making ---- */

const flx_dim_binding *flxi_binding_of(const flx_dim_binding *b, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(b[i].name, name) == 0)
            return &b[i];
    return NULL;
}

static bool has_extents(const flx_exec *e, const flxi_variant *v, const flx_dim_binding *b, size_t n)
{
    for (size_t i = 0; i < e->g->symbols.n; i++) {
        const flx_dim_binding *x = flxi_binding_of(b, n, e->g->symbols.at[i]);
        if (!x || x->extent != v->extents[i])
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

/* With code for all extents if the variant is to have that. */
static flx_code compile_program(const flxi_variant *v, bool is_general, const flx_compile_options *o, flxi_program *m,
                                flx_error *err)
{
    const flx_exec *e = v->exec;
    if (!is_general)
        return flxi_program_compile(m, v->g, NULL, e->device, o, err);
    size_t n = e->g->symbols.n;
    flx_dim_binding *dims = flxi_alloc(e->mem, n, sizeof *dims);
    if (!dims)
        return flxi_oom(err, "an executable");
    for (size_t i = 0; i < n; i++)
        dims[i] = (flx_dim_binding){e->g->symbols.at[i], v->extents[i]};
    const flxi_specialised_from from = {e->g, dims, n};
    flx_code code = flxi_program_compile(m, v->g, &from, e->device, o, err);
    flxi_free(e->mem, dims, n, sizeof *dims);
    return code;
}

/* Callers that share memory rely on the answer for the first tier. */
static bool shares_alike(const flxi_variant *v)
{
    const flxi_program *a = &v->first.program, *b = &v->later.program;
    for (size_t i = 0; i < v->g->leaves.n; i++)
        for (size_t k = 0; k < v->g->outputs.n; k++)
            if (flxi_routine_may_share(a, a->main, i, k) && !flxi_routine_may_share(b, b->main, i, k))
                return false;
    return true;
}

static void *compile_later(void *user)
{
    flxi_variant *v = user;
    flx_exec *e = v->exec;
    flx_error err = {0};
    flxi_stop_scope scope;
    flxi_stop_swap(&v->stop);
    flxi_stop_enter(&scope, NULL, e->options.time_limit);
    bool is_general = v->is_general && !v->is_specialising;
    flx_code code = flxi_stop_or(compile_program(v, is_general, &e->options, &v->later.program, &err), &err);
    if (code == FLX_OK && v->later.program.note[0]) /* what is on can do as much */
        code = flxi_fail_hint(&err, FLX_E_DEVICE, "set FLX_CC to a C compiler", "%.200s", v->later.program.note);
    if (code == FLX_OK && v->is_specialising && !shares_alike(v))
        code = flxi_fail(&err, FLX_E_INTERNAL, "code for one set of extents shares less memory");
    pthread_mutex_lock(&e->lock);
    if (code == FLX_OK) {
        v->on = &v->later;
        if (e->device->uses_host_memory) /* else results may be there yet */
            free_states(e, &v->first);   /* no run will want them */
    } else if (!v->is_specialising) {
        v->failure = err;
    }
    v->is_compiling = v->is_specialising = false;
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

/* Whether the reference evaluator computes the graph sooner than a compiler starts: few ops without bodies, on little
   data. Decided by the graph alone. */
static bool is_small(const flx_graph *g)
{
    enum { MOST_NODES = 64, MOST_BYTES = 1 << 18, MOST_FLOPS = 1 << 20 };
    flxi_work sum = {0};
    for (uint32_t i = 0; i < g->node_count && g->node_count <= MOST_NODES; i++) {
        const flxi_op *op = &flxi_ops[flxi_node_at(g, i)->op];
        flxi_work one = flxi_node_work(g, i);
        if (op->rules->bodies || op->op_class == CLASS_CONTROL || !flxi_has_work(op))
            return false;
        sum.flops = flxi_plus(sum.flops, one.flops);
        sum.bytes = flxi_plus(sum.bytes, one.bytes);
    }
    return g->node_count <= MOST_NODES && sum.bytes <= MOST_BYTES && sum.flops <= MOST_FLOPS;
}

static flx_code make_tiers(flxi_variant *v, flx_error *err)
{
    const flx_compile_options *o = &v->exec->options;
    flx_compile_options plain = *o;
    plain.flags |= FLX_COMPILE_INTERPRET;
    bool has_tiers = !(o->flags & FLX_COMPILE_INTERPRET) && !o->memory_budget;
    bool is_background = (o->flags & FLX_COMPILE_BACKGROUND) && has_tiers;
    v->is_lazy = (o->flags & FLX_COMPILE_LAZY) && has_tiers && !o->dump_dir && (is_background || is_small(v->g));
    bool is_later = is_background && !v->is_lazy;
    v->on = &v->first;
    v->is_general = v->exec->g->symbols.n && !o->dump_dir && !o->memory_budget &&
                    !(o->flags & (FLX_COMPILE_INTERPRET | FLX_COMPILE_SPECIALISE)) &&
                    (!v->exec->is_fixing || (o->flags & FLX_COMPILE_GENERAL));
    bool is_plain = is_later || v->is_lazy;
    FLXI_TRY(compile_program(v, v->is_general && !is_plain, is_plain ? &plain : o, &v->first.program, err));
    FLXI_TRY(check_memory(&v->first.program, o, err));
    FLXI_TRY(flxi_stop_check(err));
    if (!is_later)
        return FLX_OK;
    v->is_compiling = true; /* before the thread ends */
    v->has_thread = flxi_thread_start(&v->thread, compile_later, v);
    if (v->has_thread)
        return FLX_OK;
    v->is_compiling = false;
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
        const flx_dim_binding *x = flxi_binding_of(b, n, e->g->symbols.at[i]);
        v->extents[i] = x ? x->extent : 0;
    }
    if (e->g->symbols.n)
        FLXI_TRY(flxi_specialise(e->g, b, n, &v->g, NULL, err));
    else
        FLXI_TRY(flxi_pass_dce(e->g, &v->g, NULL, err));
    v->spans = flxi_spans_of(v->g, e->mem);
    return v->spans ? make_tiers(v, err) : flxi_oom(err, "an executable");
}

/* ---- Few enough; all of these with the lock held ---- */

static bool may_go(const flx_exec *e, const flxi_variant *v)
{
    return v->users == 0 && !v->is_pinned && !v->is_compiling && !v->is_specialising && v != e->fixed;
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
    if (v->spans)
        flxi_free(e->mem, v->spans, v->g->leaves.n + v->g->outputs.n, sizeof *v->spans);
    flx_graph_release(v->g);
    if (v->extents)
        flxi_free(e->mem, v->extents, e->g->symbols.n, sizeof *v->extents);
    flxi_free(e->mem, v, 1, sizeof *v);
}

/* ---- Running ---- */

/* With the lock held: what idle states hold, but for those of one variant. */
static size_t idle_bytes(const flx_exec *e, const flxi_variant *but)
{
    size_t nbytes = 0;
    for (size_t i = 0; i < e->variants.n; i++) {
        const flxi_tier *t = e->variants.at[i]->on;
        nbytes += e->variants.at[i] == but ? 0 : t->states.n * t->program.main->arena_bytes;
    }
    return nbytes;
}

static flx_code take_state(flxi_variant *v, flxi_tier **tier, flxi_state **s, flx_error *err)
{
    flx_exec *e = v->exec;
    pthread_mutex_lock(&e->lock);
    flxi_tier *t = *tier = v->on;
    *s = t->states.n ? t->states.at[--t->states.n] : NULL;
    pthread_mutex_unlock(&e->lock);
    return *s ? FLX_OK : flxi_state_new(&t->program, s, err);
}

/* A compiler needs some tens of milliseconds for each kernel. */
static const int64_t specialise_after_ns = 200000000; /* of runs, for each kernel */
static const int64_t compile_after_ns = 50000000;     /* of runs of a small graph */

/* With the lock held. */
static void count_run(flxi_variant *v, int64_t time_ns)
{
    const flxi_program *m = &v->first.program;
    v->run_ns += time_ns;
    if (v->is_lazy) {
        if (v->run_ns < compile_after_ns || v->has_thread)
            return;
        v->is_compiling = true; /* before the thread ends */
        v->has_thread = v->is_compiling = flxi_thread_start(&v->thread, compile_later, v);
        return;
    }
    if (!m->lacks_chains || v->run_ns < specialise_after_ns * (int64_t)m->kernels.n || v->has_thread)
        return;
    v->is_specialising = true; /* before the thread looks */
    v->has_thread = flxi_thread_start(&v->thread, compile_later, v);
    if (!v->has_thread)
        v->is_specialising = false;
}

/* States of other extents are kept as long as they hold no more than this, or than the state in use. */
static const size_t most_idle_bytes = (size_t)64 << 20;

/* With the lock held. */
static void trim_states(flx_exec *e, const flxi_variant *used)
{
    size_t own = used->on->program.main->arena_bytes, most = own > most_idle_bytes ? own : most_idle_bytes;
    while (idle_bytes(e, used) > most) {
        flxi_variant *oldest = NULL;
        for (size_t i = 0; i < e->variants.n; i++) {
            flxi_variant *v = e->variants.at[i];
            if (v != used && v->on->states.n && (!oldest || v->last_use < oldest->last_use))
                oldest = v;
        }
        free_states(e, oldest->on);
    }
}

static void give_state(flxi_variant *v, flxi_tier *t, flxi_state *s, int64_t time_ns)
{
    flx_exec *e = v->exec;
    pthread_mutex_lock(&e->lock);
    if (v->is_general || v->is_lazy)
        count_run(v, time_ns);
    if (e->variants.n > 1)
        trim_states(e, v);
    bool kept = (t == v->on || !e->device->uses_host_memory) && flxi_push(e->mem, &t->states, s);
    pthread_mutex_unlock(&e->lock);
    if (!kept)
        flxi_state_free(s);
}

/* On a device with memory of its own. What the last run kept there is in the memory of its state: another one begins
   with what the host has. */
static flx_code run_apart(flxi_variant *v, flxi_state *s, const flxi_run_setup *setup, const void *const *in,
                          void *const *out, flx_error *err)
{
    flx_exec *e = v->exec;
    flxi_run_setup own = *setup;
    flx_run_options o = setup->options ? *setup->options : (flx_run_options){0};
    pthread_mutex_lock(&e->lock);
    bool is_other = e->last != s;
    e->last = s;
    pthread_mutex_unlock(&e->lock);
    if (is_other && o.kept_inputs) {
        FLXI_TRY(flx_exec_fetch(e, err));
        o.kept_inputs = NULL;
        own.options = &o;
    }
    return flxi_state_run(s, &own, in, out, err);
}

flx_code flxi_variant_run(flxi_variant *v, const flxi_run_setup *setup, const void *const *in, void *const *out,
                          flx_error *err)
{
    flxi_state *s;
    flxi_tier *tier;
    FLXI_TRY(take_state(v, &tier, &s, err));
    bool is_timed = v->is_general || v->is_lazy;
    int64_t begin = is_timed ? flxi_log_clock() : 0;
    flx_code code = v->exec->device->uses_host_memory ? flxi_state_run(s, setup, in, out, err)
                                                      : run_apart(v, s, setup, in, out, err);
    give_state(v, tier, s, is_timed ? flxi_log_clock() - begin : 0);
    return code;
}

flx_code flx_exec_fetch(flx_exec *e, flx_error *err)
{
    if (!e)
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_fetch: the executable must be given");
    flx_code code = FLX_OK;
    pthread_mutex_lock(&e->lock);
    for (size_t i = 0; i < e->variants.n && code == FLX_OK; i++) {
        const flxi_tier *tiers[] = {&e->variants.at[i]->first, &e->variants.at[i]->later};
        for (int t = 0; t < 2; t++)
            for (size_t k = 0; k < tiers[t]->states.n && code == FLX_OK; k++)
                code = flxi_state_fetch(tiers[t]->states.at[k], e->queue, err);
    }
    pthread_mutex_unlock(&e->lock);
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

bool flxi_variant_may_share(const flxi_variant *v, size_t input, size_t output)
{
    pthread_mutex_lock(&v->exec->lock);
    const flxi_program *m = &v->on->program;
    pthread_mutex_unlock(&v->exec->lock);
    if (!v->exec->device->uses_host_memory) /* there an output can always be put in place of an input */
        return input < v->g->leaves.n && output < v->g->outputs.n &&
               flxi_type_equal(flxi_type_at(v->g, v->g->leaves.at[input]),
                               flxi_type_at(v->g, v->g->outputs.at[output].val));
    return flxi_routine_may_share(m, m->main, input, output); /* whichever follows shares no less */
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

flx_code flx_exec_memory_plan(const flx_exec *e, flx_memory_plan *out, flx_error *err)
{
    flx_memory_plan full = {0};
    if (!e || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_memory_plan: an executable and where to write must be given");
    const flxi_program *m = flxi_exec_program(e);
    if (m) {
        full.bytes = full.usual_bytes = m->main->arena_bytes;
        if (m->usual_bytes > full.bytes)
            full.usual_bytes = m->usual_bytes;
        flxi_routine_recomputed(m->main, &full.recomputed, &full.flops);
    }
    return FLXI_FILL_OPTIONS(flx_memory_plan, out, &full, err);
}

size_t flxi_exec_held_bytes(const flx_exec *e)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&e->lock;
    pthread_mutex_lock(lock);
    size_t nbytes = idle_bytes(e, NULL);
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
