/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_adjoint_buffers.c: the buffers of a reverse, which of them are only scratch, and how values are added to
   adjoints. */
#include "kernel/derive/reverse/kernel_reverser.h"

/* Accesses to one buffer: loads of active values, each of which adds to its adjoint, and stores. */
typedef struct {
    FLXI_VEC(flxi_kaccess) loads, stores;
} accesses;

static bool note_access(flxi_kreverser *g, const flxi_kstep *step, accesses *by_buffer)
{
    const flxi_ks *s = step->s;
    const flxi_kx *e = &g->k->exprs[s->a];
    const flxi_allocator *mem = flxi_kernel_mem(g->k);
    if (s->kind == KS_STORE)
        return flxi_push(mem, &by_buffer[s->buffer].stores, ((flxi_kaccess){step, s->a}));
    if (s->kind == KS_LET && e->kind == KX_LOAD && flxi_kflow_var_is_active(g->w, s->var))
        return flxi_push(mem, &by_buffer[e->ref].loads, ((flxi_kaccess){step, e->x[0]}));
    return true;
}

static bool list_accesses(flxi_kreverser *g, flxi_ksteps steps, accesses *by_buffer)
{
    for (size_t i = 0; i < steps.n; i++) {
        const flxi_kstep *step = &steps.at[i];
        if (!note_access(g, step, by_buffer) || !list_accesses(g, step->body, by_buffer) ||
            !list_accesses(g, step->other, by_buffer))
            return false;
    }
    return true;
}

static void decide_buffer(flxi_kreverser *g, uint32_t i, const accesses *a)
{
    const flxi_kbuffer_facts *f = &g->w->buffers[i];
    g->is_plain[i] = flxi_kernel_is_injective(g->w, i, a->loads.at, a->loads.n);
    bool is_single = a->stores.n == 1 && f->num_atomics == 0 && flxi_kernel_is_single(g->w, i, a->stores.at);
    g->is_written_once[i] = f->num_loads == 0 && (a->stores.n == 0 || (is_single && !g->q->inputs[i]));
    bool overwrites = (g->q->options->flags & FLX_KERNEL_OVERWRITE) && g->q->inputs[i] && !g->q->outputs[i];
    if (overwrites && (a->loads.n > 1 || (a->loads.n == 1 && !flxi_kernel_is_single(g->w, i, a->loads.at))))
        flxi_kernel_fail(&g->b->err, "overwrite", "drop the option: gradients are then accumulated",
                         "elements of the gradient of '%.80s' receive several contributions", g->k->buffers[i].name);
}

void flxi_krev_decide_buffers(flxi_kreverser *g)
{
    const flxi_allocator *mem = flxi_kernel_mem(g->k);
    accesses *by_buffer = SCRATCH(g, accesses, (size_t)g->k->num_buffers + 1);
    if (!by_buffer)
        return;
    if (!list_accesses(g, g->w->top, by_buffer))
        flxi_krev_check(g, NULL);
    for (uint32_t i = 1; i <= g->k->num_buffers; i++) {
        if (flxi_krev_ok(g))
            decide_buffer(g, i, &by_buffer[i]);
        flxi_vec_free(mem, &by_buffer[i].loads);
        flxi_vec_free(mem, &by_buffer[i].stores);
    }
}

/* Why a forward buffer may be needed although nothing loads it. */
enum { USES_ATOMIC_RESULT = 1, USES_LENGTH = 2 };

static uint8_t *find_other_uses(flxi_kreverser *g)
{
    const flx_kernel *k = g->k;
    uint8_t *uses = SCRATCH(g, uint8_t, (size_t)k->num_buffers + 1);
    for (uint32_t v = 1; uses && v <= k->num_vars; v++) {
        const flxi_kx *e = &k->exprs[g->w->vars[v].value];
        if (e->kind == KX_ATOMIC)
            uses[e->ref] |= USES_ATOMIC_RESULT;
    }
    for (uint32_t i = 1; uses && i <= k->num_exprs; i++)
        if (k->exprs[i].kind == KX_LENGTH)
            uses[k->exprs[i].ref] |= USES_LENGTH;
    return uses;
}

static flxi_kneed need_of(const flxi_kreverser *g, const char *name, uint32_t forward, flx_kernel_role role,
                          uint32_t element)
{
    (void)g;
    return (flxi_kneed){.name = name,
                        .forward = forward,
                        .role = (uint8_t)role,
                        .element = (uint8_t)element,
                        .length = {.forward = forward, .slots = 1}};
}

/* Tells users of the kernel without its manifest how long its own buffers are. */
void flxi_krev_tell_length(flxi_kreverser *g, const char *buffer, const char *value)
{
    char key[1200];
    snprintf(key, sizeof key, "length %.1100s", buffer);
    flxi_kb_meta(g->b, key, value);
}

void flxi_krev_ask_for(flxi_kreverser *g, uint32_t buffer)
{
    if (!flxi_push(flxi_kernel_mem(g->k), &g->asked, buffer))
        flxi_krev_check(g, NULL);
}

static void add_need(flxi_kreverser *g, const flxi_kneed *need)
{
    if (g->q->kept && g->mode == MODE_FORWARD && flxi_krev_ok(g) && !flxi_kernel_derived_add_need(g->q->d, need))
        flxi_krev_check(g, NULL);
}

/* A forward buffer as the derivative sees it: with its initial contents, or a copy that is written as the kernel
   proceeds. */
static void declare_primal(flxi_kreverser *g, uint32_t i, uint8_t other_uses)
{
    const flxi_kbuffer_facts *f = &g->w->buffers[i];
    flxi_kbuffer buffer = g->k->buffers[i];
    bool is_bound = flxi_kbuffer_is_bound(&buffer);
    bool shows_result = (g->q->options->flags & FLX_KERNEL_WITH_FORWARD) && g->q->outputs[i];
    bool is_given =
        (g->q->options->flags & FLX_KERNEL_SAVED) && g->q->outputs[i] && g->is_written_once[i] && !shows_result;
    bool is_read = f->num_loads > 0 || (other_uses & USES_ATOMIC_RESULT) || is_given;
    g->keeps_stores[i] = !is_given && f->num_stores + f->num_atomics > 0 && (is_read || shows_result);
    bool is_active_bound = is_bound && (g->q->inputs[i] || g->q->outputs[i] || flxi_kflow_buffer_is_active(g->w, i));
    bool has_adjoint = is_active_bound && g->mode != MODE_COUNT;
    if (!is_read && !shows_result && (has_adjoint || !(other_uses & USES_LENGTH)))
        return;
    bool is_output = (buffer.flags & FLX_KERNEL_OUTPUT) != 0;
    if (is_bound) {
        if (buffer.access != FLX_KERNEL_UNIFORM)
            buffer.access = g->keeps_stores[i] ? FLX_KERNEL_READ_WRITE : FLX_KERNEL_READ;
        buffer.flags &= FLX_KERNEL_DISTINCT | FLX_KERNEL_STOP_GRADIENT | FLX_KERNEL_EXCLUSIVE;
        buffer.binding = (uint32_t)g->b->buffers.n;
        buffer.usage = 0;
        buffer.range_begin = buffer.range_end = 0;
    }
    g->primal[i] = flxi_kb_buffer(g->b, &buffer);
    if (shows_result)
        flxi_krev_ask_for(g, g->primal[i]);
    if (!is_bound)
        return;
    flx_kernel_role role = shows_result         ? FLX_KERNEL_RESULT
                           : g->keeps_stores[i] ? FLX_KERNEL_SCRATCH
                                                : FLX_KERNEL_PRIMAL;
    flxi_kneed need = need_of(g, buffer.name, i, role, buffer.element);
    need.flags = is_output && g->keeps_stores[i] ? FLX_KERNEL_NEED_ZERO : is_given ? FLX_KERNEL_NEED_GIVEN : 0;
    add_need(g, &need);
}

/* What the caller must know of adjoint buffer i, which is bound. */
static void tell_need(flxi_kreverser *g, uint32_t i, const flxi_kbuffer *buffer, flx_kernel_role role)
{
    flxi_kneed need = need_of(g, buffer->name, i, role, buffer->element);
    if (role != FLX_KERNEL_COTANGENT)
        need.flags |= FLX_KERNEL_NEED_ZERO;
    if (!g->is_plain[i])
        need.flags |= FLX_KERNEL_NEED_ATOMIC;
    if (role == FLX_KERNEL_COTANGENT && buffer->access != FLX_KERNEL_READ && !g->q->inputs[i])
        need.flags |= FLX_KERNEL_NEED_CONSUMED;
    if (role == FLX_KERNEL_COTANGENT && (g->q->options->flags & FLX_KERNEL_SEED_ONES))
        need.flags |= FLX_KERNEL_NEED_ONES;
    add_need(g, &need);
}

static void declare_adjoint(flxi_kreverser *g, uint32_t i, const char *prefix, flx_kernel_role role)
{
    const flxi_kbuffer *f = &g->k->buffers[i];
    bool is_bound = f->access != FLX_KERNEL_WORKGROUP && f->access != FLX_KERNEL_PRIVATE;
    char name[1100];
    snprintf(name, sizeof name, "%s_%.1024s", prefix, f->name);
    flxi_kbuffer buffer = {
        .name = flxi_kb_fresh_name(g->b, name),
        .access = f->access,
        .element = (uint8_t)flxi_kernel_adjoint_type(f->element),
        .count = f->count,
        .flags = f->flags & FLX_KERNEL_EXCLUSIVE,
        .binding = (uint32_t)g->b->buffers.n,
    };
    if (role != FLX_KERNEL_ADJOINT && (g->q->options->flags & FLX_KERNEL_PRIMAL_TYPES))
        buffer.element = f->element;
    if (buffer.element == f->element && buffer.element != flxi_kernel_adjoint_type(f->element) && !g->is_plain[i])
        flxi_kernel_fail(&g->b->err, "primal types", "drop the option: gradients are then f32",
                         "the gradient of '%.80s' needs atomics, which %s does not have", f->name,
                         flxi_ktype_of(f->element)->name);
    bool is_read_only =
        role == FLX_KERNEL_COTANGENT && g->is_written_once[i] && !g->q->inputs[i] && g->w->buffers[i].num_loads == 0;
    if (is_bound)
        buffer.access = is_read_only ? FLX_KERNEL_READ : FLX_KERNEL_READ_WRITE;
    g->adjoint[i] = flxi_kb_buffer(g->b, &buffer);
    if (role != FLX_KERNEL_ADJOINT)
        flxi_krev_ask_for(g, g->adjoint[i]);
    if (!is_bound)
        return;
    tell_need(g, i, &buffer, role);
    if (role == FLX_KERNEL_ADJOINT) {
        snprintf(name, sizeof name, "buf_len(%.1024s)", f->name);
        flxi_krev_tell_length(g, buffer.name, name);
    }
}

void flxi_krev_declare_buffers(flxi_kreverser *g)
{
    const flx_kernel *k = g->k;
    const uint8_t *other_uses = find_other_uses(g);
    for (uint32_t i = 1; i <= k->num_buffers && flxi_krev_ok(g); i++)
        declare_primal(g, i, other_uses[i]);
    if (g->mode == MODE_COUNT)
        return;
    for (uint32_t i = 1; i <= k->num_buffers && flxi_krev_ok(g); i++)
        if (g->q->outputs[i])
            declare_adjoint(g, i, "grad", FLX_KERNEL_COTANGENT);
    for (uint32_t i = 1; i <= k->num_buffers && flxi_krev_ok(g); i++)
        if (g->q->inputs[i] && !g->q->outputs[i])
            declare_adjoint(g, i, "grad", FLX_KERNEL_GRADIENT);
    for (uint32_t i = 1; i <= k->num_buffers && flxi_krev_ok(g); i++)
        if (flxi_kflow_buffer_is_active(g->w, i) && !g->adjoint[i])
            declare_adjoint(g, i, "adj", FLX_KERNEL_ADJOINT);
}

/* In a region marked `record`, if it would be recomputed otherwise. */
static bool is_recorded(const flxi_kstep *step, const flxi_kx *e)
{
    return (step->s->flags & FLX_KERNEL_REGION_RECORD) && step->parent && !flxi_kx_is_leaf(e);
}

/* Values that must be taped: loads of memory that may have changed, results of atomics, values exchanged between lanes,
   and what the program requests. */
void flxi_krev_find_sites(flxi_kreverser *g, flxi_ksteps steps)
{
    for (size_t i = 0; i < steps.n && flxi_krev_ok(g); i++) {
        const flxi_kstep *step = &steps.at[i];
        const flxi_kx *e = &g->k->exprs[step->s->a];
        bool is_taped = e->kind == KX_ATOMIC || e->kind == KX_SUBGROUP_ADD || e->kind == KX_SUBGROUP_SHUFFLE ||
                        e->kind == KX_SUBGROUP_BALLOT || (e->kind == KX_LOAD && flxi_kflow_may_change(g->w, step)) ||
                        is_recorded(step, e);
        if (step->s->kind == KS_LET && is_taped)
            g->site_tapes[step->s->var] = flxi_krev_add_tape(g, g->k->vars[step->s->var].type, step->loop, false);
        flxi_krev_find_sites(g, step->body);
        flxi_krev_find_sites(g, step->other);
    }
}

bool flxi_krev_has_unknown_trips(const flxi_kflow *w, flxi_ksteps steps)
{
    for (size_t i = 0; i < steps.n; i++) {
        const flxi_kstep *step = &steps.at[i];
        if (step->s->kind == KS_LOOP && flxi_kernel_trip_bound(w, step) == UINT64_MAX)
            return true;
        if (flxi_krev_has_unknown_trips(w, step->body) || flxi_krev_has_unknown_trips(w, step->other))
            return true;
    }
    return false;
}

uint32_t flxi_krev_declare_words(flxi_kreverser *g, const char *name, uint8_t access, uint32_t flags, uint64_t count)
{
    flxi_kbuffer buffer = {.name = flxi_kb_fresh_name(g->b, name),
                           .access = access,
                           .flags = flags,
                           .element = FLX_U32,
                           .count = count,
                           .binding = (uint32_t)g->b->buffers.n};
    flxi_kneed need = need_of(g, buffer.name, 0, FLX_KERNEL_COUNTER, FLX_U32);
    need.length.slots = count;
    need.flags = access == FLX_KERNEL_READ ? 0 : FLX_KERNEL_NEED_ZERO;
    add_need(g, &need);
    if (access != FLX_KERNEL_READ)
        flxi_krev_tell_length(g, buffer.name, "1");
    uint32_t number = flxi_kb_buffer(g->b, &buffer);
    if (access != FLX_KERNEL_READ)
        flxi_krev_ask_for(g, number);
    return number;
}
