/* SPDX-License-Identifier: Apache-2.0 */
/* describe_chains.c: routines as chains (backend/backend.h), for a device that may run all steps of one at once. The
   body of a scan is described with the loop around it. */
#include "compile/program.h"
#include "ops/control/control.h"

typedef struct {
    flxi_program *m;
    flxi_chain **chains; /* that were accepted */
    size_t n;
    flx_error *err;
} describer;

/* ---- Steps ---- */

static flxi_chain_step describe_step(const flxi_program *m, const flxi_routine *l, const flxi_step *s)
{
    flxi_chain_step d = {.kind = CHAIN_FOREIGN, .slots = s->slots, .num_slots = s->num_slots, .work = s->work};
    if (s->kind == STEP_KERNEL) {
        d.kind = CHAIN_KERNEL;
        d.kernel = s->kernel;
        d.text = m->kernels.at[s->kernel].kernel;
        memcpy(d.grid, s->grid, sizeof d.grid);
        d.lanes = s->lanes;
    } else if (s->kind == STEP_ROUTE) {
        d.kind = CHAIN_NODE;
        d.node = *s->described;
        d.code = s->way->code;
    } else if (s->kind == STEP_COPY) {
        d.kind = CHAIN_COPY;
        d.nbytes = l->slots[s->slots[0]].nbytes;
    }
    return d;
}

/* ---- Loops ---- */

static uint32_t input_slot(const flxi_routine *l, size_t input)
{
    for (uint32_t i = 0; i < l->num_slots; i++)
        if (l->slots[i].segment == SEGMENT_INPUT && l->slots[i].index == input)
            return i;
    return FLXI_NO_SLOT;
}

/* Inputs that the body does not read have no slot. */
static flx_code describe_loop(flxi_arena *arena, const flxi_routine *l, const scan_attrs *a,
                              const flxi_chain_loop **out, flx_error *err)
{
    uint32_t carries = (uint32_t)a->num_carry, first_row = carries + (uint32_t)a->num_bcast;
    uint32_t inputs = (uint32_t)l->g->leaves.n, outputs = (uint32_t)l->g->outputs.n;
    flxi_chain_loop *loop = flxi_new(arena, flxi_chain_loop, 1);
    flxi_chain_link *rows = flxi_new(arena, flxi_chain_link, inputs + outputs);
    flxi_chain_link *shared = flxi_new(arena, flxi_chain_link, inputs);
    uint32_t *in = flxi_new(arena, uint32_t, carries), *into = flxi_new(arena, uint32_t, carries);
    if (!loop || !rows || !shared || !in || !into)
        return flxi_oom(err, "kernels");
    *loop =
        (flxi_chain_loop){.rows = rows, .shared = shared, .carry_in = in, .carry_out = into, .num_carries = carries};
    for (uint32_t k = 0; k < inputs; k++) {
        uint32_t slot = input_slot(l, k);
        if (k < carries)
            in[k] = slot;
        else if (slot != FLXI_NO_SLOT && k < first_row)
            shared[loop->num_shared++] = (flxi_chain_link){slot, k};
        else if (slot != FLXI_NO_SLOT)
            rows[loop->num_rows++] = (flxi_chain_link){slot, k};
    }
    for (uint32_t k = 0; k < outputs; k++) {
        if (k < carries)
            into[k] = l->outputs[k];
        else
            rows[loop->num_rows++] = (flxi_chain_link){l->outputs[k], inputs + k};
    }
    *out = loop;
    return FLX_OK;
}

/* ---- Chains ---- */

/* `scan`: the node whose body it is, or NULL. */
static flx_code describe(const flxi_program *m, flxi_arena *arena, const flxi_routine *l, const scan_attrs *scan,
                         int threads, flxi_chain *out, flx_error *err)
{
    size_t *bytes = flxi_new(arena, size_t, l->num_slots);
    *out = (flxi_chain){.steps = flxi_new(arena, flxi_chain_step, l->num_steps),
                        .n = l->num_steps,
                        .slot_bytes = bytes,
                        .num_slots = l->num_slots,
                        .threads = threads};
    if (!out->steps || !bytes)
        return flxi_oom(err, "kernels");
    for (uint32_t i = 0; i < l->num_slots; i++)
        bytes[i] = l->slots[i].nbytes;
    for (uint32_t i = 0; i < l->num_steps; i++)
        out->steps[i] = describe_step(m, l, &l->steps[i]);
    return scan ? describe_loop(arena, l, scan, &out->loop, err) : FLX_OK;
}

flx_code flxi_routine_is_loop_chain(flxi_program *m, const flxi_routine *l, const flxi_node *scan, bool *out,
                                    flx_error *err)
{
    flxi_arena arena;
    flxi_chain c;
    *out = false;
    if (!m->device->accept_chain)
        return FLX_OK;
    flxi_arena_init(&arena, m->mem);
    flx_code code = describe(m, &arena, l, flxi_scan_attrs(scan), 1, &c, err);
    if (code == FLX_OK)
        *out = m->device->accept_chain(&c, &m->options);
    flxi_arena_free(&arena);
    return code;
}

/* ---- All routines ---- */

/* is_part: the routine is run for several parts side by side, so its steps use one thread. */
static flx_code offer(describer *d, flxi_routine *l, const scan_attrs *scan, bool is_part)
{
    if (l->is_offered)
        return FLX_OK;
    l->is_offered = true;
    flxi_chain *c = flxi_new(&d->m->arena, flxi_chain, 1);
    if (!c)
        return flxi_oom(d->err, "kernels");
    FLXI_TRY(describe(d->m, &d->m->arena, l, scan, is_part ? 1 : d->m->threads, c, d->err));
    if (d->m->device->accept_chain(c, &d->m->options))
        l->chain = d->chains[d->n++] = c;
    for (uint32_t i = 0; i < l->num_steps; i++) {
        flxi_step *s = &l->steps[i];
        s->called = c->steps[i].called;
        for (uint32_t k = 0; k < s->num_bodies; k++) {
            const scan_attrs *inner = s->kind == STEP_SCAN ? flxi_scan_attrs(flxi_node_at(l->g, s->node)) : NULL;
            FLXI_TRY(offer(d, s->bodies[k], inner, is_part || s->parts > 1 || s->workers));
        }
    }
    return FLX_OK;
}

flx_code flxi_program_chains(flxi_program *m, flxi_chain ***chains, size_t *n, flx_error *err)
{
    describer d = {.m = m, .err = err};
    *chains = NULL;
    *n = 0;
    if (!m->device->accept_chain)
        return FLX_OK;
    d.chains = flxi_new(&m->arena, flxi_chain *, m->num_routines);
    if (!d.chains)
        return flxi_oom(err, "kernels");
    flx_code code = offer(&d, m->main, NULL, false);
    *chains = d.chains;
    *n = d.n;
    return code;
}
