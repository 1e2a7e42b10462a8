/* SPDX-License-Identifier: Apache-2.0 */
/* program.c: from a graph of static types to a program that a device can run. A device that cannot compile now (no C
   compiler, say) still gets a program: one without kernels, whose nodes are computed one by one. */
#include "compile/program.h"

#include "base/host/stop.h"
#include "compile/budget/fit_memory.h"
#include "compile/log_program.h"
#include "passes/pass.h"

#include <stdio.h>

/* ---- Kernels ---- */

flx_code flxi_program_keep(flxi_program *m, flxi_group_kernel *r, uint32_t *number, flx_error *err)
{
    flxi_program_kernel k = {.kernel = r->kernel, .is_call = r->is_call, .wire = r->wire};
    k.hash = flxi_hash_bytes(FLXI_HASH_SEED, k.wire.data, k.wire.size);
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&m->index, k.hash); flxi_index_next(&m->index, &p, &i);)
        if (m->kernels.at[i].wire.size == k.wire.size && m->kernels.at[i].is_call == k.is_call &&
            memcmp(m->kernels.at[i].wire.data, k.wire.data, k.wire.size) == 0) {
            flxi_group_kernel_free(r);
            *number = i;
            return FLX_OK;
        }
    k.reads_in_place = flxi_dup(&m->arena, bool, r->reads_in_place, r->num_values);
    *number = (uint32_t)m->kernels.n;
    if (k.reads_in_place && flxi_index_add(m->mem, &m->index, k.hash, *number) && flxi_push(m->mem, &m->kernels, k)) {
        *r = (flxi_group_kernel){0};
        return FLX_OK;
    }
    flxi_group_kernel_free(r);
    return flxi_oom(err, "kernels");
}

/* Only what a kernel reads where it writes may be in the memory of what it writes. */
static bool reads_in_place(const flxi_program_kernel *k)
{
    bool does = false;
    for (uint32_t i = 0; i < k->kernel->num_buffers && !k->is_call; i++)
        does |= k->kernel->buffers[i + 1].access == FLX_KERNEL_READ && k->reads_in_place[i];
    return does;
}

flx_code flxi_program_kernels(flxi_program *m, flxi_compile_request *q, flx_error *err)
{
    flx_kernel **list = flxi_new(&m->arena, flx_kernel *, m->kernels.n);
    bool *is_call = flxi_new(&m->arena, bool, m->kernels.n), *is_apart = flxi_new(&m->arena, bool, m->kernels.n);
    if (!list || !is_call || !is_apart)
        return flxi_oom(err, "kernels");
    for (size_t i = 0; i < m->kernels.n; i++) {
        list[i] = m->kernels.at[i].kernel;
        is_call[i] = m->kernels.at[i].is_call;
        is_apart[i] = is_call[i] || !reads_in_place(&m->kernels.at[i]);
    }
    q->kernels = list;
    q->is_call = is_call;
    q->is_apart = is_apart;
    q->num_kernels = m->kernels.n;
    return FLX_OK;
}

static flx_code describe_kernels(flxi_program *m, flxi_compile_request *q, flx_error *err)
{
    flxi_chain **chains = NULL;
    *q = (flxi_compile_request){.ctx = m->ctx, .threads = m->threads, .options = &m->options, .is_slow = &m->is_slow};
    FLXI_TRY(flxi_program_kernels(m, q, err));
    FLXI_TRY(flxi_program_chains(m, &chains, &q->num_chains, err));
    q->chains = chains;
    return FLX_OK;
}

/* ---- Samples: the program for other extents ---- */

/* Close to the given extents, so that kernels have the same form; with other remainders; and multiples, which some
   graphs need. The k-th dimension moves k + 1 times as far, so that no two are mistaken for each other. */
static const struct {
    int64_t times, plus;
} sample_extents[] = {{1, 1}, {1, 2}, {1, 67}, {3, 0}};

enum { NUM_SAMPLES = sizeof sample_extents / sizeof *sample_extents };

typedef struct {
    const flxi_program *m;
    const flxi_specialised_from *from;
    flxi_program programs[NUM_SAMPLES];
    flxi_compile_request requests[NUM_SAMPLES];
    size_t n;    /* that there are */
    size_t next; /* which is made next */
} sampler;

static bool move_extents(const flxi_specialised_from *from, size_t sample, flx_dim_binding *out)
{
    for (size_t i = 0; i < from->n; i++) {
        int64_t k = (int64_t)i + 1, times = sample_extents[sample].times, moved;
        times += times > 1 ? k - 1 : 0;
        if (__builtin_mul_overflow(from->dims[i].extent, times, &moved) ||
            __builtin_add_overflow(moved, sample_extents[sample].plus * k, &moved))
            return false;
        out[i] = (flx_dim_binding){from->dims[i].name, moved};
    }
    return true;
}

/* Without code. */
static flx_code make_sample(sampler *s, const flx_dim_binding *dims, flxi_program *m, flxi_compile_request *q,
                            flx_error *err)
{
    flx_graph *g;
    FLXI_TRY(flxi_specialise(s->from->g, dims, s->from->n, &g, NULL, err));
    flxi_program_init(m, g->ctx, s->m->device, &s->m->options);
    m->checks_kernels = s->m->checks_kernels;
    flx_code code = flxi_stop_or(flxi_routine_compile(m, g, &m->main, err), err);
    flx_graph_release(g);
    return code == FLX_OK ? describe_kernels(m, q, err) : code;
}

/* Extents that the graph does not permit are left out. */
static flx_code sample_program(void *user, size_t i, const flxi_compile_request **out, flx_error *err)
{
    sampler *s = user;
    flx_dim_binding *dims = flxi_alloc(s->m->mem, s->from->n, sizeof *dims);
    flx_code code = dims ? FLX_OK : flxi_oom(err, "kernels");
    while (code == FLX_OK && s->n <= i && s->next < NUM_SAMPLES) {
        flx_error why = {0};
        if (!move_extents(s->from, s->next++, dims))
            continue;
        if (make_sample(s, dims, &s->programs[s->n], &s->requests[s->n], &why) == FLX_OK)
            s->n++;
        else
            flxi_program_free(&s->programs[s->n]);
        code = flxi_stop_check(err);
    }
    if (dims)
        flxi_free(s->m->mem, dims, s->from->n, sizeof *dims);
    *out = i < s->n ? &s->requests[i] : NULL;
    return code;
}

static flx_code compile_kernels(flxi_program *m, const flxi_specialised_from *from, flx_error *err)
{
    sampler s = {.m = m, .from = from};
    flxi_compile_request q;
    m->compiled = flxi_new(&m->arena, flxi_kernel_code, m->kernels.n);
    if (!m->compiled)
        return flxi_oom(err, "kernels");
    FLXI_TRY(describe_kernels(m, &q, err));
    if (from) {
        q.sample = sample_program;
        q.sample_user = &s;
    }
    flx_code code = m->device->compile(&q, m->compiled, &m->code, err);
    for (size_t i = 0; code == FLX_OK && from && i < q.num_chains; i++)
        m->lacks_chains |= !q.chains[i]->code;
    for (size_t i = 0; i < s.n; i++)
        flxi_program_free(&s.programs[i]);
    return code;
}

/* ---- The whole ---- */

void flxi_program_init(flxi_program *m, flx_context *ctx, const flxi_device *device, const flx_compile_options *o)
{
    *m = (flxi_program){.ctx = ctx, .mem = flxi_context_mem(ctx), .device = device, .options = *o};
    m->grouping.keep_apart = o->flags & FLX_COMPILE_UNGROUPED;
    m->grouping.evaluate_all = o->flags & FLX_COMPILE_INTERPRET;
    m->grouping.form = device->form;
    m->grouping.has_scalar_rows = device->has_scalar_rows;
    m->grouping.free_extents = device->free_extents[0] ? device->free_extents : NULL;
    m->threads = device->count_threads ? device->count_threads(ctx, o->threads) : 1;
    flxi_arena_init(&m->arena, m->mem);
}

/* Whether something is computed in a slower way than usual. A program without kernels was asked for, or a note says why
   it has none. */
static bool is_slow(const flxi_program *m)
{
    bool is = m->is_slow || m->note[0];
    for (size_t i = 0; !m->grouping.evaluate_all && i < m->all_steps.n; i++) {
        const flxi_routine *l = m->all_steps.at[i].routine;
        is |= flxi_step_is_slow(l, &l->steps[m->all_steps.at[i].step]);
    }
    return is;
}

static flx_code compile_main(flxi_program *m, const flx_graph *g, size_t budget, flx_error *err)
{
    return budget ? flxi_fit_memory(m, g, budget, &m->main, err) : flxi_routine_compile(m, g, &m->main, err);
}

/* What a program is made from. */
typedef struct {
    const flx_graph *g;
    const flxi_specialised_from *from;
    const flxi_device *device;
    const flx_compile_options *options;
    bool checks_kernels;
} making;

static flx_code compile_once(flxi_program *m, const making *x, size_t budget, flx_error *err)
{
    const flx_compile_options *o = x->options;
    int64_t begin = flxi_log_clock();
    flxi_program_init(m, x->g->ctx, x->device, o);
    m->checks_kernels = x->checks_kernels;
    FLXI_TRY(flxi_stop_or(compile_main(m, x->g, budget, err), err));
    flxi_routine_share(m, m->main, o->shares, o->num_shares);
    FLXI_TRY(compile_kernels(m, x->from, err));
    FLXI_TRY(flxi_routine_explain(m, m->main, err));
    FLXI_TRY(flxi_routine_plan(m, m->main, err));
    m->is_slow = is_slow(m);
    flxi_log_program(m, x->g->name, flxi_log_clock() - begin);
    return FLX_OK;
}

/* What kernels need for themselves is known once they are compiled: then there is less left for the rest. */
static flx_code compile(flxi_program *m, const making *x, flx_error *err)
{
    enum { MAX_TRIES = 4 };
    size_t given = (size_t)x->options->memory_budget, budget = given, need = 0;
    for (int i = 0; i < MAX_TRIES; i++) {
        FLXI_TRY(compile_once(m, x, budget, err));
        need = m->main->arena_bytes;
        if (!given || need <= given)
            return FLX_OK;
        if (need - given >= budget)
            break;
        budget -= need - given;
        if (i + 1 < MAX_TRIES)
            flxi_program_free(m);
    }
    return flxi_fail_budget(x->g, m->usual_bytes, need, given, err);
}

/* When a device fails to compile, each kernel is checked alone, so that only the nodes of a refused one are computed in
   another way; if that does not help, all are. */
flx_code flxi_program_compile(flxi_program *m, const flx_graph *g, const flxi_specialised_from *from,
                              const flxi_device *device, const flx_compile_options *o, flx_error *err)
{
    flx_error why = {0};
    making x = {.g = g, .from = from, .device = device, .options = o};
    flx_code code = compile(m, &x, &why);
    if (code == FLX_E_KERNEL || code == FLX_E_INTERNAL) {
        flxi_program_free(m);
        x.checks_kernels = true;
        code = compile(m, &x, &why);
    }
    if (code != FLX_E_DEVICE && code != FLX_E_KERNEL && code != FLX_E_INTERNAL) {
        if (code != FLX_OK && err)
            *err = why;
        return code;
    }
    flx_compile_options plain = *o;
    plain.flags |= FLX_COMPILE_INTERPRET;
    flxi_program_free(m);
    bool is_defect = code != FLX_E_DEVICE;
    flxi_log(g->ctx, is_defect ? FLX_LOG_REFUSED : FLX_LOG_FALLBACK, g->name, "no machine code: %.300s", why.message);
    x = (making){.g = g, .device = device, .options = &plain};
    code = compile(m, &x, err);
    snprintf(m->note, sizeof m->note, "no machine code: %.180s", why.message);
    m->is_slow = true;
    return code;
}

void flxi_program_free(flxi_program *m)
{
    if (!m->mem)
        return;
    flxi_routine_free(m->main);
    for (size_t i = 0; i < m->routines.n; i++) {
        flxi_routine_free(m->routines.at[i].routine);
        flx_graph_release(m->routines.at[i].body);
    }
    flxi_vec_free(m->mem, &m->routines);
    flxi_index_free(m->mem, &m->routine_index);
    for (size_t i = 0; i < m->kernels.n; i++) {
        flx_kernel_release(m->kernels.at[i].kernel);
        flx_buffer_free(&m->kernels.at[i].wire);
    }
    flxi_vec_free(m->mem, &m->kernels);
    flxi_vec_free(m->mem, &m->all_steps);
    flxi_index_free(m->mem, &m->index);
    if (m->device->free_code)
        m->device->free_code(m->code);
    flxi_arena_free(&m->arena);
    *m = (flxi_program){0};
}
