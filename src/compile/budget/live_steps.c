/* SPDX-License-Identifier: Apache-2.0 */
/* live_steps.c: which memory of a planned routine is in use when, and an order of steps that needs less of it. */
#include "compile/budget/recompute.h"

static size_t rounded(size_t n)
{
    return (n + 63) / 64 * 64;
}

uint32_t *flxi_steps_of_nodes(const flxi_routine *l, flxi_arena *arena)
{
    uint32_t *of = flxi_new(arena, uint32_t, l->g->node_count);
    for (uint32_t i = 0; of && i < l->num_steps; i++) {
        const flxi_step *s = &l->steps[i];
        if (s->kind == STEP_COPY)
            continue;
        of[s->node] = i + 1;
        for (uint32_t k = 0; k < s->num_nodes; k++)
            of[s->nodes[k]] = i + 1;
    }
    return of;
}

/* A slot that took over the memory of another is that memory from its first step on. */
size_t *flxi_live_bytes(const flxi_routine *l, flxi_arena *arena)
{
    size_t *live = flxi_new(arena, size_t, l->num_steps + 1);
    for (uint32_t i = 0; live && i < l->num_slots; i++) {
        const flxi_slot *s = &l->slots[i];
        for (uint32_t t = s->from + (s->taken_over ? 1 : 0); s->segment == SEGMENT_ARENA && t <= s->to; t++)
            live[t] += rounded(s->nbytes);
    }
    for (uint32_t t = 0; live && t < l->num_steps; t++)
        live[t] += rounded(l->steps[t].scratch);
    return live;
}

/* ---- An order of steps ---- */

typedef struct {
    const flxi_routine *l;
    const flxi_program *m;
    uint32_t *readers; /* by slot: steps that have not run and read it, each counted once for each time it does */
    bool *is_written;  /* by slot: by a step that ran, or before the run */
    bool *has_run;     /* by step */
    bool *is_tied;     /* by step: it keeps its order among those that are */
} schedule;

static bool has_effect(const flxi_routine *l, const flxi_step *s)
{
    bool has = s->kind == STEP_COPY || flxi_has_effect(flxi_node_at(l->g, s->node));
    for (uint32_t k = 0; k < s->num_nodes; k++)
        has |= flxi_has_effect(flxi_node_at(l->g, s->nodes[k]));
    return has;
}

static bool is_ready(const schedule *x, const flxi_step *s)
{
    for (uint32_t k = 0; k < s->num_slots; k++)
        if (!flxi_step_writes(x->m, s, k) && !x->is_written[s->slots[k]])
            return false;
    return true;
}

/* How many bytes more are in use after the step than before it. */
static int64_t growth(const schedule *x, const flxi_step *s)
{
    int64_t sum = 0;
    for (uint32_t k = 0; k < s->num_slots; k++) {
        const flxi_slot *slot = &x->l->slots[s->slots[k]];
        uint32_t own = 0;
        for (uint32_t j = 0; j <= k; j++)
            own += s->slots[j] == s->slots[k];
        if (slot->segment != SEGMENT_ARENA)
            continue;
        if (flxi_step_writes(x->m, s, k))
            sum += x->readers[s->slots[k]] ? (int64_t)rounded(slot->nbytes) : 0;
        else if (own == x->readers[s->slots[k]])
            sum -= (int64_t)rounded(slot->nbytes);
    }
    return sum;
}

static void run_step(schedule *x, uint32_t i)
{
    const flxi_step *s = &x->l->steps[i];
    x->has_run[i] = true;
    for (uint32_t k = 0; k < s->num_slots; k++) {
        if (flxi_step_writes(x->m, s, k))
            x->is_written[s->slots[k]] = true;
        else
            x->readers[s->slots[k]]--;
    }
}

/* The first step from `next` on that frees more than it needs, and else the next one, whose operands are all there. */
static uint32_t pick(const schedule *x, uint32_t next)
{
    enum { WINDOW = 512 };
    uint32_t end = x->l->num_steps - next > WINDOW ? next + WINDOW : x->l->num_steps;
    for (uint32_t i = next; i < end; i++) {
        const flxi_step *s = &x->l->steps[i];
        if (!x->has_run[i] && !x->is_tied[i] && is_ready(x, s) && growth(x, s) < 0)
            return i;
    }
    return next;
}

uint32_t *flxi_thrifty_order(const flxi_routine *l, const flxi_program *m, flxi_arena *arena)
{
    schedule x = {.l = l, .m = m};
    uint32_t *order = flxi_new(arena, uint32_t, l->num_steps);
    x.readers = flxi_new(arena, uint32_t, l->num_slots);
    x.is_written = flxi_new(arena, bool, l->num_slots);
    x.has_run = flxi_new(arena, bool, l->num_steps);
    x.is_tied = flxi_new(arena, bool, l->num_steps);
    if (!order || !x.readers || !x.is_written || !x.has_run || !x.is_tied)
        return NULL;
    for (uint32_t i = 0; i < l->num_slots; i++)
        x.is_written[i] = l->slots[i].segment == SEGMENT_INPUT || l->slots[i].segment == SEGMENT_CONST;
    for (uint32_t i = 0; i < l->num_steps; i++) {
        const flxi_step *s = &l->steps[i];
        x.is_tied[i] = has_effect(l, s);
        for (uint32_t k = 0; k < s->num_slots; k++)
            x.readers[s->slots[k]] += !flxi_step_writes(m, s, k);
    }
    for (uint32_t n = 0, next = 0; n < l->num_steps; n++) {
        while (x.has_run[next])
            next++;
        order[n] = pick(&x, next);
        run_step(&x, order[n]);
    }
    return order;
}
