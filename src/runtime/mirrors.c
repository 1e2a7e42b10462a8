/* SPDX-License-Identifier: Apache-2.0 */
/* mirrors.c: see mirrors.h. */
#include "runtime/mirrors.h"

void flxi_mirrors_init(flxi_mirrors *m, const flxi_device *device, flx_context *ctx)
{
    *m = (flxi_mirrors){.device = device, .ctx = ctx};
}

void flxi_mirrors_free(flxi_mirrors *m, const flxi_allocator *mem)
{
    for (size_t i = 0; i < m->memory.n; i++)
        m->device->release(m->ctx, &m->memory.at[i]);
    flxi_vec_free(mem, &m->memory);
}

flx_code flxi_mirrors_add(flxi_mirrors *m, const flxi_allocator *mem, const void *data, size_t nbytes, void **at,
                          flx_error *err)
{
    flxi_device_run run = {.ctx = m->ctx, .err = err};
    flxi_device_memory made;
    if (!flxi_reserve(mem, &m->memory))
        return flxi_oom(err, "the state of a run");
    FLXI_TRY(m->device->allocate(m->ctx, nbytes, &made, err));
    m->memory.at[m->memory.n++] = made;
    *at = made.at;
    return data && nbytes ? m->device->copy(&run, made.at, data, nbytes, COPY_TO_DEVICE) : FLX_OK;
}

static bool make_tables(flxi_mirrors *m, const flxi_routine *l, flxi_arena *arena)
{
    size_t in = m->num_in = l->g->leaves.n, out = m->num_out = l->g->outputs.n;
    m->routine = l;
    m->in = flxi_new(arena, const void *, in);
    m->in_bytes = flxi_new(arena, size_t, in);
    m->held = flxi_new(arena, const void *, in);
    m->last_in = flxi_new(arena, const void *, in);
    m->out = flxi_new(arena, void *, out);
    m->own = flxi_new(arena, void *, out);
    m->out_bytes = flxi_new(arena, size_t, out);
    m->left = flxi_new(arena, void *, out);
    m->becomes = flxi_new(arena, size_t, out);
    m->last_out = flxi_new(arena, void *, out);
    return m->in && m->in_bytes && m->held && m->last_in && m->out && m->own && m->out_bytes && m->left && m->becomes &&
           m->last_out;
}

flx_code flxi_mirrors_bind(flxi_mirrors *m, const flxi_routine *l, flxi_arena *arena, flx_error *err)
{
    if (!make_tables(m, l, arena))
        return flxi_oom(err, "the state of a run");
    for (uint32_t i = 0; i < l->num_slots; i++) {
        const flxi_slot *slot = &l->slots[i];
        void *at;
        if (slot->segment != SEGMENT_INPUT && (slot->segment != SEGMENT_OUTPUT || m->out[slot->index]))
            continue; /* several slots may be in the memory of one output, one after the other */
        FLXI_TRY(flxi_mirrors_add(m, arena->mem, NULL, slot->nbytes, &at, err));
        if (slot->segment == SEGMENT_INPUT) {
            m->in[slot->index] = at;
            m->in_bytes[slot->index] = slot->nbytes;
        } else {
            m->out[slot->index] = m->own[slot->index] = at;
            m->out_bytes[slot->index] = slot->nbytes;
        }
    }
    return FLX_OK;
}

/* ---- Places ---- */

static bool is_placed(const flxi_mirrors *m, const void *const *inputs, void *const *outputs)
{
    size_t in = m->num_in * sizeof *inputs, out = m->num_out * sizeof *outputs;
    return (!in || memcmp(m->last_in, inputs, in) == 0) && (!out || memcmp(m->last_out, outputs, out) == 0);
}

/* An output that the caller puts where an input is has the input's memory here too; at once if its step may overwrite
   the input, else when all steps have run. */
static void *place_output(flxi_mirrors *m, size_t k, const void *const *inputs, const void *output)
{
    m->becomes[k] = 0;
    for (size_t i = 0; i < m->num_in && m->out_bytes[k]; i++) {
        if (inputs[i] != output || !m->in[i] || m->in_bytes[i] != m->out_bytes[k])
            continue;
        if (flxi_routine_may_share(m->routine->program, m->routine, i, k))
            return (void *)(uintptr_t)m->in[i];
        m->becomes[k] = i + 1;
    }
    return m->own[k];
}

static bool place_outputs(flxi_mirrors *m, const void *const *inputs, void *const *outputs)
{
    bool is_moved = false;
    for (size_t k = 0; k < m->num_out; k++) {
        void *at = place_output(m, k, inputs, outputs[k]);
        is_moved |= at != m->out[k];
        m->out[k] = at;
        m->last_out[k] = outputs[k];
    }
    if (m->num_in)
        memcpy(m->last_in, inputs, m->num_in * sizeof *inputs);
    return is_moved;
}

bool flxi_mirrors_has_moves(const flxi_mirrors *m)
{
    for (size_t k = 0; k < m->num_out; k++)
        if (m->becomes[k])
            return true;
    return false;
}

flx_code flxi_mirrors_move(flxi_mirrors *m, const flxi_device_run *r)
{
    for (size_t k = 0; k < m->num_out; k++)
        if (m->becomes[k])
            FLXI_TRY(m->device->copy(r, (void *)(uintptr_t)m->in[m->becomes[k] - 1], m->out[k], m->out_bytes[k],
                                     COPY_WITHIN));
    return FLX_OK;
}

/* ---- Copies ---- */

flx_code flxi_mirrors_send(flxi_mirrors *m, const flxi_device_run *r, const uint8_t *kept, const void *const *inputs,
                           void *const *outputs, bool *moved)
{
    *moved = false;
    if (!is_placed(m, inputs, outputs)) {
        FLXI_TRY(flxi_mirrors_fetch(m, r)); /* from where it still is */
        *moved = place_outputs(m, inputs, outputs);
    }
    for (size_t i = 0; i < m->num_in; i++) {
        if (!m->in_bytes[i] || (kept && kept[i] && m->held[i] == inputs[i]))
            continue;
        m->held[i] = NULL;
        FLXI_TRY(m->device->copy(r, (void *)(uintptr_t)m->in[i], inputs[i], m->in_bytes[i], COPY_TO_DEVICE));
        m->held[i] = inputs[i];
    }
    return FLX_OK;
}

flx_code flxi_mirrors_receive(flxi_mirrors *m, const flxi_device_run *r, const uint8_t *left, void *const *outputs)
{
    m->is_lost = false;
    for (size_t k = 0; k < m->num_out; k++) {
        m->left[k] = left && left[k] ? outputs[k] : NULL;
        if (!m->left[k] && m->out_bytes[k])
            FLXI_TRY(m->device->copy(r, outputs[k], m->out[k], m->out_bytes[k], COPY_TO_HOST));
    }
    return FLX_OK;
}

void flxi_mirrors_forget(flxi_mirrors *m, bool is_whole)
{
    for (size_t i = 0; !is_whole && i < m->num_in; i++)
        m->held[i] = NULL;
    for (size_t k = 0; k < m->num_out; k++) {
        bool is_in_place = m->becomes[k] || m->out[k] != m->own[k];
        if (!m->left[k] || (is_whole && is_in_place))
            continue;
        m->left[k] = NULL;
        m->is_lost = true;
    }
}

/* What is in place of an input is there, also when a later run has failed. */
static const void *source_of(const flxi_mirrors *m, size_t k)
{
    return m->becomes[k] ? m->in[m->becomes[k] - 1] : m->out[k];
}

flx_code flxi_mirrors_fetch(flxi_mirrors *m, const flxi_device_run *r)
{
    bool is_lost = m->is_lost;
    m->is_lost = false;
    for (size_t k = 0; k < m->num_out; k++) {
        if (m->left[k] && m->out_bytes[k])
            FLXI_TRY(m->device->copy(r, m->left[k], source_of(m, k), m->out_bytes[k], COPY_TO_HOST));
        m->left[k] = NULL;
    }
    return is_lost ? flxi_fail_hint(r->err, FLX_E_DEVICE, "go back to what was copied or saved before",
                                    "results that were left on the device are lost: a run there failed")
                   : FLX_OK;
}
