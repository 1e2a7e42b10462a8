/* SPDX-License-Identifier: Apache-2.0 */
/* share_memory.c: outputs in the memory of inputs. A caller that runs a graph again and again on what it computed (a
   training step, a simulation) wants the new value where the old one was. That is safe when the kernel that writes the
   output is the last step to read the input, and reads each element only where it writes it. Steps may be moved back to
   make it so. */
#include "compile/program.h"

/* The position of the input among the buffers of the kernel that writes the output, if it reads each element where it
   writes it; num_slots: it does not. */
static uint32_t find_reading(const flxi_program *m, const flxi_routine *l, const flx_share *pair)
{
    const flxi_slot *out = &l->slots[l->outputs[pair->output]];
    const flxi_step *s = &l->steps[out->from];
    if (s->kind != STEP_KERNEL || out->index != pair->output)
        return s->num_slots;
    for (uint32_t j = 0; j < s->num_slots; j++) {
        const flxi_slot *in = &l->slots[s->slots[j]];
        if (in->segment == SEGMENT_INPUT && in->index == pair->input)
            return m->kernels.at[s->kernel].reads_in_place[j] &&
                           flxi_type_equal(flxi_type_at(l->g, in->value), flxi_type_at(l->g, out->value))
                       ? j
                       : s->num_slots;
    }
    return s->num_slots;
}

static bool is_atomic(const flxi_program *m)
{
    return m->options.flags & FLX_COMPILE_ATOMIC;
}

static bool exists(const flxi_routine *l, const flx_share *pair)
{
    return pair->input < l->g->leaves.n && pair->output < l->g->outputs.n && l->num_steps;
}

bool flxi_routine_may_share(const flxi_program *m, const flxi_routine *l, size_t input, size_t output)
{
    flx_share pair = {input, output};
    if (!exists(l, &pair))
        return false;
    uint32_t step = l->slots[l->outputs[output]].from, j = find_reading(m, l, &pair);
    if (is_atomic(m) && (step < l->commit || (l->chain && l->chain->code))) /* a chain runs in one piece */
        return false;
    return j < l->steps[step].num_slots && l->slots[l->steps[step].slots[j]].to == step;
}

/* ---- Moving steps back ---- */

/* Whether no other step reads what this one writes. */
static bool ends_here(const flxi_program *m, const flxi_routine *l, uint32_t step)
{
    const flxi_step *s = &l->steps[step];
    for (uint32_t k = 0; k < s->num_slots; k++)
        if (flxi_step_writes(m, s, k) && l->slots[s->slots[k]].to > step)
            return false;
    return true;
}

static uint32_t renumbered(uint32_t step, uint32_t from, uint32_t to)
{
    if (step == from)
        return to;
    return step > from && step <= to ? step - 1 : step;
}

/* What must have happened before step `end` happens no later than it would have: the memory of inputs, whose last use
   this is, may be written again by what was moved. */
static uint32_t renumbered_end(uint32_t end, uint32_t from, uint32_t to)
{
    return end > from && end <= to ? end - 1 : end;
}

/* Step `from` becomes step `to`, and those between move up by one. */
static void move_step(flxi_routine *l, uint32_t from, uint32_t to)
{
    flxi_step moved = l->steps[from];
    memmove(&l->steps[from], &l->steps[from + 1], (to - from) * sizeof *l->steps);
    l->steps[to] = moved;
    for (uint32_t i = 0; i < l->num_steps; i++)
        l->steps[i].ends_before = renumbered_end(l->steps[i].ends_before, from, to);
    for (uint32_t i = 0; i < l->num_slots; i++) {
        l->slots[i].from = renumbered(l->slots[i].from, from, to);
        l->slots[i].to = renumbered(l->slots[i].to, from, to);
    }
    for (uint32_t k = 0; k < moved.num_slots; k++) {
        flxi_slot *used = &l->slots[moved.slots[k]];
        used->to = used->to < to ? to : used->to;
    }
}

/* Steps that write what shares memory go to the end, all of them: nothing else happens after the first. */
static void move_to_end(const flxi_program *m, flxi_routine *l, const flx_share *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!exists(l, &pairs[i]))
            continue;
        uint32_t step = l->slots[l->outputs[pairs[i].output]].from;
        if (step >= l->commit || find_reading(m, l, &pairs[i]) == l->steps[step].num_slots || !ends_here(m, l, step))
            continue;
        move_step(l, step, l->num_steps - 1);
        l->commit--;
    }
}

void flxi_routine_share(const flxi_program *m, flxi_routine *l, const flx_share *pairs, size_t n)
{
    l->commit = l->num_steps;
    if (is_atomic(m))
        move_to_end(m, l, pairs, n);
    for (size_t i = 0; i < n; i++) {
        if (!exists(l, &pairs[i]))
            continue;
        uint32_t step = l->slots[l->outputs[pairs[i].output]].from, j = find_reading(m, l, &pairs[i]);
        if (j == l->steps[step].num_slots)
            continue;
        uint32_t last = l->slots[l->steps[step].slots[j]].to;
        if (last > step && ends_here(m, l, step))
            move_step(l, step, last);
    }
}
