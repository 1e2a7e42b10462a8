/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_tape.c: values that the forward part records and the reverse part reads back. */
#include "kernel/derive/reverse/kernel_reverser.h"

/* The value of a variable that is never assigned; any other expression represents itself. */
static const flxi_kx *definition(const flxi_kflow *w, const flxi_kx *e)
{
    if (e->kind != KX_VAR || w->vars[e->ref].is_assigned || !w->vars[e->ref].value)
        return e;
    return &w->k->exprs[w->vars[e->ref].value];
}

uint64_t flxi_kernel_trip_bound(const flxi_kflow *w, const flxi_kstep *loop)
{
    const flx_kernel *k = w->k;
    const flxi_kx *from = &k->exprs[loop->s->a], *to = &k->exprs[loop->s->b];
    if (from->kind == KX_LITERAL && to->kind == KX_LITERAL)
        return to->bits > from->bits ? to->bits - from->bits : 0;
    if (to->kind == KX_LITERAL)
        return to->bits;
    /* to = from + min(n, …), the form that splitting a loop produces */
    const flxi_kx *sum = definition(w, to);
    if (sum->kind != KX_BINARY || sum->op != KBIN_add || sum->x[0] != loop->s->a)
        return UINT64_MAX;
    const flxi_kx *least = definition(w, &k->exprs[sum->x[1]]);
    if (least->kind != KX_BINARY || least->op != KBIN_min || k->exprs[least->x[0]].kind != KX_LITERAL)
        return UINT64_MAX;
    return k->exprs[least->x[0]].bits;
}

/* Multiplies a tape's length by the trip count of one more loop. */
static void multiply_slots(flxi_kreverser *g, flxi_ktape *t, const flxi_kstep *loop, uint32_t *counters)
{
    uint64_t trips = flxi_kernel_trip_bound(g->w, loop), slots;
    if (trips == UINT64_MAX && g->q->options->max_trips)
        trips = g->q->options->max_trips;
    if (trips == UINT64_MAX)
        counters[t->num_counters++] = loop->number;
    else if (!__builtin_mul_overflow(t->slots, trips ? trips : 1, &slots))
        t->slots = slots;
    else
        t->slots = UINT64_MAX;
}

static size_t depth_of(const flxi_kstep *loop)
{
    size_t n = 0;
    for (; loop; loop = loop->loop)
        n++;
    return n;
}

/* Adds a tape with one slot; returns number + 1. */
size_t flxi_krev_add_tape(flxi_kreverser *g, uint32_t type, const flxi_kstep *innermost, bool only_innermost)
{
    size_t number = g->tapes.n;
    flxi_ktape t = {.type = type, .slots = 1, .is_kept = true, .loop = only_innermost ? innermost : NULL};
    uint32_t *counters = SCRATCH(g, uint32_t, depth_of(innermost) + 1);
    if (!counters)
        return 0;
    t.counters = counters;
    for (const flxi_kstep *l = innermost; l; l = only_innermost ? NULL : l->loop)
        multiply_slots(g, &t, l, counters);
    if (g->q->kept) {
        t.is_kept = g->q->kept[number];
        t.is_private = g->q->is_private[number];
    }
    if (!flxi_push(flxi_kernel_mem(g->k), &g->tapes, t))
        flxi_krev_check(g, NULL);
    return number + 1;
}

static uint32_t linear_extent(flxi_kreverser *g, uint32_t axis)
{
    uint32_t groups = flxi_kb_id(g->b, FLX_KERNEL_NUM_WORKGROUPS, axis);
    return flxi_kb_binary(g->b, KBIN_mul, groups, flxi_kb_u32(g->b, g->k->size[axis]));
}

/* The invocation's number, x fastest, and the number of invocations, emitted at the very top. Axes that the program
   does not mention have one invocation. */
void flxi_krev_find_self(flxi_kreverser *g)
{
    flxi_kb *b = g->b;
    for (uint32_t a = 3; a-- > 0;) {
        if (!flxi_kernel_mentions_axis(g->k, a))
            continue;
        uint32_t id = flxi_kb_id(b, FLX_KERNEL_INVOCATION_ID, a), extent = linear_extent(g, a);
        g->self = g->self ? flxi_kb_binary(b, KBIN_add, flxi_kb_binary(b, KBIN_mul, g->self, extent), id) : id;
        g->total = g->total ? flxi_kb_binary(b, KBIN_mul, g->total, extent) : extent;
    }
    g->self = g->self ? flxi_krev_let(g, "self", g->self) : flxi_kb_u32(b, 0);
    g->total = g->total ? flxi_krev_let(g, "total", g->total) : flxi_kb_u32(b, 1);
}

static uint32_t tape_buffer(flxi_kreverser *g, size_t tape)
{
    flxi_ktape *t = &g->tapes.at[tape];
    if (t->buffer)
        return t->buffer;
    char name[40];
    snprintf(name, sizeof name, "tape_%zu", tape);
    flxi_kbuffer buffer = {
        .name = flxi_kb_fresh_name(g->b, name),
        .access = t->is_private ? FLX_KERNEL_PRIVATE : FLX_KERNEL_READ_WRITE,
        .element = (uint8_t)t->type,
        .flags = t->is_private ? 0 : FLX_KERNEL_EXCLUSIVE,
        .count = t->is_private ? t->slots : 0,
        .binding = (uint32_t)g->b->buffers.n,
    };
    t->buffer = flxi_kb_buffer(g->b, &buffer);
    return t->buffer;
}

static uint32_t tape_index(flxi_kreverser *g, size_t tape, uint32_t slot)
{
    if (g->tapes.at[tape].is_private)
        return slot;
    uint32_t row = flxi_kb_binary(g->b, KBIN_mul, slot, g->total);
    return flxi_krev_let(g, "at", flxi_kb_binary(g->b, KBIN_add, row, g->self));
}

void flxi_krev_record(flxi_kreverser *g, size_t tape, uint32_t slot, uint32_t value)
{
    if (flxi_krev_ok(g) && g->tapes.at[tape].is_kept)
        flxi_kb_store(g->b, tape_buffer(g, tape), tape_index(g, tape, slot), value);
}

uint32_t flxi_krev_restore(flxi_kreverser *g, size_t tape, uint32_t slot, const char *name)
{
    if (!flxi_krev_ok(g) || !g->tapes.at[tape].is_kept)
        return flxi_krev_ok(g) ? flxi_krev_zero(g, g->tapes.at[tape].type) : 0;
    return flxi_krev_let(g, name, flxi_kb_load(g->b, tape_buffer(g, tape), tape_index(g, tape, slot)));
}

/* An upper bound of the trip count, as an expression. */
static uint32_t radix_of(flxi_kreverser *g, const flxi_kstep *loop)
{
    uint64_t trips = flxi_kernel_trip_bound(g->w, loop);
    if (trips == UINT64_MAX && g->q->options->max_trips)
        trips = g->q->options->max_trips;
    if (trips != UINT64_MAX)
        return flxi_kb_u32(g->b, (uint32_t)trips);
    return g->radix[loop->number];
}

/* The slot that a load uses now: the numbers of the enclosing iterations, read as digits. */
uint32_t flxi_krev_site_slot(flxi_kreverser *g, const flxi_kstep *loop)
{
    if (!loop)
        return flxi_kb_u32(g->b, 0);
    uint32_t own = g->iteration[loop->number];
    if (!loop->loop)
        return own;
    uint32_t outer = flxi_krev_site_slot(g, loop->loop);
    uint32_t row = flxi_kb_binary(g->b, KBIN_mul, outer, radix_of(g, loop));
    return flxi_krev_let(g, "slot", flxi_kb_binary(g->b, KBIN_add, row, own));
}

/* A buffer with a word for each execution in each invocation. */
static uint32_t new_words(flxi_kreverser *g, const char *stem, size_t number, uint32_t element)
{
    char name[40];
    snprintf(name, sizeof name, "%s_%zu", stem, number);
    uint32_t buffer = flxi_kb_buffer(g->b, &(flxi_kbuffer){.name = flxi_kb_fresh_name(g->b, name),
                                                           .access = FLX_KERNEL_READ_WRITE,
                                                           .element = (uint8_t)element,
                                                           .flags = FLX_KERNEL_EXCLUSIVE,
                                                           .binding = (uint32_t)g->b->buffers.n});
    flxi_krev_ask_for(g, buffer);
    return buffer;
}

void flxi_krev_contribute(flxi_kreverser *g, const flxi_kstep *step, uint32_t target, uint32_t index, uint32_t term)
{
    size_t number = flxi_krev_add_tape(g, flxi_kb_type(g->b, term), step->loop, false);
    if (!number || !flxi_krev_ok(g))
        return;
    flxi_ktape *t = &g->tapes.at[number - 1];
    t->is_kept = true;
    t->is_private = false;
    t->target = target;
    t->buffer = new_words(g, "part", number - 1, t->type);
    t->where = new_words(g, "where", number - 1, FLX_U32);
    uint32_t at = tape_index(g, number - 1, flxi_krev_site_slot(g, step->loop));
    flxi_kb_store(g->b, t->buffer, at, term);
    flxi_kb_store(g->b, t->where, at, index);
}

void flxi_krev_tell_tape_length(flxi_kreverser *g, const flxi_ktape *t)
{
    char value[60];
    if (!t->buffer || t->is_private || t->num_counters)
        return;
    snprintf(value, sizeof value, "%llu * invocations", (unsigned long long)t->slots);
    if (t->where)
        flxi_krev_tell_length(g, g->b->buffers.at[t->where].name, value);
    flxi_krev_tell_length(g, g->b->buffers.at[t->buffer].name, value);
}
