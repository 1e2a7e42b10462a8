/* SPDX-License-Identifier: Apache-2.0 */
/* plan_memory.c: offsets in the arena for the slots of a block and for the scratch of its steps; and the check that a
   plan is sound. Bodies are planned first: the whole memory of a body is scratch of the step that runs it. */
#include "compile/memory/arena_plan.h"
#include "compile/program.h"
#include "ops/control/control.h"

static size_t rounded(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* ---- Scratch ---- */

size_t flxi_step_body_bytes(const flxi_step *s)
{
    size_t most = 0;
    for (uint32_t k = 0; k < s->num_bodies; k++)
        most = s->bodies[k]->arena_bytes > most ? s->bodies[k]->arena_bytes : most;
    return rounded(most);
}

/* Carries are kept twice: a step of the loop reads one and writes the other. */
static size_t carries_bytes(const flxi_routine *l, const flxi_step *s, size_t carries, size_t parts)
{
    size_t sum = 0;
    for (size_t k = 0; k < carries; k++)
        sum += 2 * rounded(l->slots[s->slots[k]].nbytes / parts);
    return sum;
}

static size_t carries_of(const flxi_routine *l, const flxi_step *s)
{
    return (size_t)flxi_scan_attrs(flxi_node_at(l->g, s->node))->num_carry;
}

static size_t scratch_of(const flxi_program *m, const flxi_routine *l, const flxi_step *s)
{
    size_t most = flxi_step_body_bytes(s);
    switch (s->kind) {
    case STEP_KERNEL: return m->compiled ? m->compiled[s->kernel].scratch : 0;
    case STEP_DISPATCH: return rounded(m->compiled ? m->compiled[s->kernel].scratch : 0) + s->call->own_bytes;
    case STEP_SCAN:
        if (s->workers)
            return s->workers * most;
        return s->parts * (most + carries_bytes(l, s, carries_of(l, s), s->parts));
    case STEP_WHILE: return most + carries_bytes(l, s, s->num_reads, 1) + 64; /* and what the condition says */
    case STEP_BRANCH:
    case STEP_CALL:
    case STEP_EVALUATE: return most;
    default: return s->num_bodies ? rounded(s->way->scratch) + most : s->scratch; /* what a route asked for */
    }
}

/* ---- Taking over memory ---- */

static bool is_taken(const flxi_routine *l, const flxi_step *s, uint32_t slot)
{
    for (uint32_t j = 0; j < s->num_slots; j++)
        if (l->slots[s->slots[j]].taken_over == slot + 1)
            return true;
    return false;
}

/* What a kernel writes may use the memory of what it reads for the last time, if each invocation reads only the element
   that it writes; kernels compute all elements before they write one. */
static void take_over(const flxi_program *m, flxi_routine *l, uint32_t step)
{
    const flxi_step *s = &l->steps[step];
    if (s->kind != STEP_KERNEL)
        return;
    const flxi_program_kernel *k = &m->kernels.at[s->kernel];
    for (uint32_t o = 0; o < s->num_slots; o++) {
        flxi_slot *out = &l->slots[s->slots[o]];
        if (k->kernel->buffers[o + 1].access == FLX_KERNEL_READ || out->segment != SEGMENT_ARENA || !out->nbytes)
            continue;
        for (uint32_t j = 0; j < s->num_slots && !out->taken_over; j++) {
            const flxi_slot *in = &l->slots[s->slots[j]];
            if (in != out && in->segment == SEGMENT_ARENA && in->to == step && in->from < step &&
                in->nbytes == out->nbytes && k->reads_in_place[j] && !is_taken(l, s, s->slots[j]))
                out->taken_over = s->slots[j] + 1;
        }
    }
}

/* Whether the call is the last to read its k-th operand, and reads it only once. */
static bool is_consumed(const flxi_routine *l, const flxi_step *s, uint32_t step, uint32_t k)
{
    const flxi_slot *in = &l->slots[s->slots[k]];
    uint32_t uses = 0;
    for (uint32_t j = 0; j < s->num_reads; j++)
        uses += s->slots[j] == s->slots[k];
    return in->segment == SEGMENT_ARENA && in->to == step && in->from < step && uses == 1;
}

/* An operand of a user's kernel that is also a result, or that the kernel writes to, need not be copied if no one reads
   it later. */
static void consume(flxi_routine *l, uint32_t step)
{
    flxi_step *s = &l->steps[step];
    for (uint32_t i = 0; s->kind == STEP_DISPATCH && i < s->call->num_buffers; i++) {
        const flxi_call_buffer *b = &s->call->buffers[i];
        if (b->operand >= 64 || b->is_bools || b->is_zeroed || !is_consumed(l, s, step, b->operand))
            continue;
        flxi_slot *out = b->result < UINT32_MAX ? &l->slots[s->slots[s->num_reads + b->result]] : NULL;
        if (out && out->segment == SEGMENT_ARENA && out->nbytes && out->nbytes == l->slots[s->slots[b->operand]].nbytes)
            out->taken_over = s->slots[b->operand] + 1;
        else if (!out && b->is_ours)
            s->consumed |= UINT64_C(1) << b->operand;
    }
}

/* A value, and those whose memory it took over, are computed where output k will be. */
static void move_to_output(flxi_routine *l, uint32_t slot, uint32_t k)
{
    for (uint32_t next = slot + 1; next;) {
        flxi_slot *s = &l->slots[next - 1];
        next = s->taken_over;
        s->segment = SEGMENT_OUTPUT;
        s->index = k;
        s->taken_over = 0;
    }
}

/* The result of a route that works in place, likewise. Where the result is an output, the operand is computed there:
   no one else may use that memory, unless the caller puts the output where an input is. */
static void take_over_operand(const flxi_program *m, flxi_routine *l, uint32_t step)
{
    const flxi_step *s = &l->steps[step];
    if (s->kind != STEP_ROUTE || !s->way->is_in_place || !is_consumed(l, s, step, 0))
        return;
    flxi_slot *out = &l->slots[s->slots[s->num_reads]];
    if (!out->nbytes || out->nbytes != l->slots[s->slots[0]].nbytes)
        return;
    if (out->segment == SEGMENT_ARENA)
        out->taken_over = s->slots[0] + 1;
    else if (out->segment == SEGMENT_OUTPUT && (l != m->main || !m->options.num_shares))
        move_to_output(l, s->slots[0], out->index);
}

/* ---- Placing ---- */

/* A slot below this one whose memory it has, or the slot itself. A chain of steps in place is long, and the slots
   before this one are placed already: only where the one before comes later must all of them be followed. */
static uint32_t placed_owner(const flxi_routine *l, uint32_t slot)
{
    if (l->slots[slot].taken_over && l->slots[slot].taken_over - 1 < slot)
        return l->slots[slot].taken_over - 1;
    while (l->slots[slot].taken_over)
        slot = l->slots[slot].taken_over - 1;
    return slot;
}

/* Steps that a device notes may run beside each other if they touch other memory. Where all fits into that much, no
   memory is used twice: then they wait for results alone. */
enum { MOST_APART = 128 << 20 };

static void keep_apart(const flxi_program *m, const flxi_routine *l, flxi_interval *v, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n && sum <= MOST_APART; i++)
        sum += rounded(v[i].nbytes < MOST_APART ? v[i].nbytes : MOST_APART);
    if (!m->device->note_piece || l != m->main || m->options.memory_budget || sum > MOST_APART || l->num_steps == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        v[i].from = 0;
        v[i].to = l->num_steps - 1;
    }
}

static flx_code place(const flxi_program *m, flxi_routine *l, flxi_interval *v, uint32_t *owner_of, flx_error *err)
{
    size_t n = 0;
    for (uint32_t i = 0; i < l->num_slots; i++) {
        const flxi_slot *s = &l->slots[i];
        if (s->segment != SEGMENT_ARENA)
            continue;
        uint32_t owner = placed_owner(l, i);
        if (owner == i) {
            owner_of[i] = (uint32_t)n;
            v[n++] = (flxi_interval){.nbytes = s->nbytes, .from = s->from, .to = s->to};
        } else {
            owner_of[i] = owner_of[owner];
            v[owner_of[i]].to = s->to > v[owner_of[i]].to ? s->to : v[owner_of[i]].to;
        }
    }
    size_t scratch = n;
    for (uint32_t i = 0; i < l->num_steps; i++)
        v[n++] = (flxi_interval){.nbytes = l->steps[i].scratch, .from = i, .to = i};
    flxi_arena_size size;
    keep_apart(m, l, v, n);
    FLXI_TRY(flxi_plan_arena(m->mem, v, n, &size, err));
    for (uint32_t i = 0; i < l->num_slots; i++)
        if (l->slots[i].segment == SEGMENT_ARENA)
            l->slots[i].offset = v[owner_of[i]].offset;
    for (uint32_t i = 0; i < l->num_steps; i++)
        l->steps[i].scratch_offset = v[scratch + i].offset;
    l->arena_bytes = size.bytes;
    l->max_live = size.max_live;
    return FLX_OK;
}

flx_code flxi_routine_plan(flxi_program *m, flxi_routine *l, flx_error *err)
{
    if (l->is_planned)
        return FLX_OK;
    l->is_planned = true;
    flxi_routine_await(l);
    for (uint32_t i = 0; i < l->num_steps; i++) {
        flxi_step *s = &l->steps[i];
        for (uint32_t k = 0; k < s->num_bodies; k++)
            FLXI_TRY(flxi_routine_plan(m, s->bodies[k], err));
        s->scratch = scratch_of(m, l, s);
        take_over(m, l, i);
        consume(l, i);
        take_over_operand(m, l, i);
    }
    size_t n = (size_t)l->num_slots + l->num_steps;
    flxi_interval *v = flxi_alloc(m->mem, n, sizeof *v);
    uint32_t *owner_of = flxi_alloc(m->mem, l->num_slots, sizeof *owner_of);
    flx_code code = v && owner_of ? place(m, l, v, owner_of, err) : flxi_oom(err, "a memory plan");
    if (v)
        flxi_free(m->mem, v, n, sizeof *v);
    if (owner_of)
        flxi_free(m->mem, owner_of, l->num_slots, sizeof *owner_of);
    return code == FLX_OK ? flxi_routine_verify(l, err) : code;
}

/* ---- Checking ---- */

static flx_code check_slot(const flxi_routine *l, uint32_t i, flx_error *err)
{
    const flxi_slot *s = &l->slots[i];
    if (s->segment != SEGMENT_ARENA)
        return FLX_OK;
    if (s->offset % 64 || s->offset > l->arena_bytes || s->nbytes > l->arena_bytes - s->offset)
        return flxi_fail(err, FLX_E_INTERNAL, "slot %u at %zu is outside of the arena, or not aligned", i, s->offset);
    if (s->from > s->to || s->to >= l->num_steps)
        return flxi_fail(err, FLX_E_INTERNAL, "slot %u lives from step %u to step %u", i, s->from, s->to);
    return FLX_OK;
}

/* Every read comes after the one write. */
static flx_code check_order(const flxi_routine *l, uint32_t step, flx_error *err)
{
    const flxi_step *s = &l->steps[step];
    for (uint32_t j = 0; j < s->num_slots; j++) {
        const flxi_slot *at = &l->slots[s->slots[j]];
        bool is_computed = at->segment == SEGMENT_ARENA || at->segment == SEGMENT_OUTPUT;
        if (is_computed && (step < at->from || step > at->to))
            return flxi_fail(err, FLX_E_INTERNAL, "step %u uses slot %u, which lives from %u to %u", step, s->slots[j],
                             at->from, at->to);
    }
    return FLX_OK;
}

static bool intersect(size_t a, size_t a_bytes, size_t b, size_t b_bytes)
{
    return a_bytes && b_bytes && a < b + b_bytes && b < a + a_bytes;
}

static bool took_over(const flxi_slot *late, const flxi_slot *early, uint32_t early_number)
{
    return late->taken_over == early_number + 1 && late->from == early->to && late->offset == early->offset;
}

static flx_code check_pair(const flxi_routine *l, uint32_t i, uint32_t j, flx_error *err)
{
    const flxi_slot *a = &l->slots[i], *b = &l->slots[j];
    if (b->segment != SEGMENT_ARENA || a->from > b->to || b->from > a->to ||
        !intersect(a->offset, a->nbytes, b->offset, b->nbytes) || took_over(a, b, j) || took_over(b, a, i))
        return FLX_OK;
    return flxi_fail(err, FLX_E_INTERNAL, "slots %u and %u share memory at %zu while both are needed", i, j, a->offset);
}

flx_code flxi_routine_verify_offsets(const flxi_routine *l, flx_error *err)
{
    for (uint32_t i = 0; i < l->num_slots; i++) {
        const flxi_slot *s = &l->slots[i];
        if (s->segment != SEGMENT_ARENA)
            continue;
        for (uint32_t j = i + 1; j < l->num_slots; j++)
            FLXI_TRY(check_pair(l, i, j, err));
        for (uint32_t t = s->from; t <= s->to && t < l->num_steps; t++)
            if (intersect(s->offset, s->nbytes, l->steps[t].scratch_offset, l->steps[t].scratch))
                return flxi_fail(err, FLX_E_INTERNAL, "slot %u is in the scratch memory of step %u", i, t);
    }
    return FLX_OK;
}

flx_code flxi_routine_verify(const flxi_routine *l, flx_error *err)
{
    for (uint32_t i = 0; i < l->num_slots; i++)
        FLXI_TRY(check_slot(l, i, err));
    for (uint32_t i = 0; i < l->num_steps; i++)
        FLXI_TRY(check_order(l, i, err));
#ifdef FLX_DEBUG
    FLXI_TRY(flxi_routine_verify_offsets(l, err));
#endif
    return FLX_OK;
}
