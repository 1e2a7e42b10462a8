/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.c: exchanges with other processes that run beside the steps after them. An exchange is started where its step
   is, and must have ended before the first step that reads its result. Until then no other step may have the memory of
   its operand or its result. Exchanges end in the order in which they start, so a step waits for one of them at most.
   Only a few run at a time: each one that has not ended keeps its operand. */
#include "compile/program.h"

enum { AT_A_TIME = 4 };

static bool is_exchange(const flxi_routine *l, const flxi_step *s)
{
    const flxi_node *n = flxi_node_at(l->g, s->node);
    return s->kind == STEP_EVALUATE && !s->num_bodies && flxi_has_exchange(n) && !flxi_has_effect(n);
}

/* By slot: the first step that reads it; the number of steps: none. */
static void find_first_reads(const flxi_routine *l, uint32_t *first)
{
    for (uint32_t i = 0; i < l->num_slots; i++)
        first[i] = l->num_steps;
    for (uint32_t i = l->num_steps; i-- > 0;) {
        const flxi_step *s = &l->steps[i];
        for (uint32_t k = 0; k < s->num_slots; k++)
            if (l->slots[s->slots[k]].from != i || !flxi_step_writes(l->program, s, k))
                first[s->slots[k]] = i;
    }
}

/* The last step may be one that overwrites an input: an exchange that reads it ends before. */
static uint32_t latest_end(const flxi_routine *l, const flxi_step *s)
{
    for (uint32_t k = 0; k < s->num_reads; k++)
        if (l->slots[s->slots[k]].segment == SEGMENT_INPUT)
            return l->num_steps - 1;
    return l->num_steps;
}

static void keep_until(flxi_routine *l, const flxi_step *s, uint32_t last)
{
    for (uint32_t k = 0; k < s->num_slots; k++) {
        flxi_slot *slot = &l->slots[s->slots[k]];
        slot->to = slot->to < last ? last : slot->to;
    }
}

/* From the last exchange to the first: `later` are those after it. Its memory is in use until the step that awaits it:
   another step that is to overwrite an input is moved there, or after it (share_memory.c). */
static void let_run(flxi_routine *l, uint32_t i, const uint32_t *first, uint32_t *later)
{
    flxi_step *s = &l->steps[i];
    uint32_t end = later[AT_A_TIME - 1], latest = latest_end(l, s);
    end = end < latest ? end : latest;
    for (uint32_t k = s->num_reads; k < s->num_slots; k++)
        end = first[s->slots[k]] < end ? first[s->slots[k]] : end;
    memmove(later + 1, later, (AT_A_TIME - 1) * sizeof *later);
    later[0] = i;
    if (end <= i + 1)
        return;
    s->ends_before = end;
    keep_until(l, s, end < l->num_steps ? end : end - 1);
}

flx_code flxi_routine_overlap(flxi_routine *l, const flxi_allocator *mem, flx_error *err)
{
    uint32_t later[AT_A_TIME];
    if (!l->g->has_exchanges || !l->program->device->uses_host_memory)
        return FLX_OK;
    uint32_t *first = flxi_alloc(mem, l->num_slots, sizeof *first);
    if (!first)
        return flxi_oom(err, "steps");
    find_first_reads(l, first);
    for (int k = 0; k < AT_A_TIME; k++)
        later[k] = l->num_steps;
    for (uint32_t i = l->num_steps; i-- > 0;)
        if (is_exchange(l, &l->steps[i]))
            let_run(l, i, first, later);
    flxi_free(mem, first, l->num_slots, sizeof *first);
    return FLX_OK;
}

void flxi_routine_await(flxi_routine *l)
{
    for (uint32_t i = 0; i < l->num_steps; i++) {
        uint32_t end = l->steps[i].ends_before;
        if (end && end < l->num_steps)
            l->steps[end].awaits = i + 1;
    }
}
