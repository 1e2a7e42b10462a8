/* SPDX-License-Identifier: Apache-2.0 */
/* build_chain.c: small blocks as one function (backend/cpu/jit/kernel_chain.h): which blocks are, and what their
   functions consist of. The body of a scan may hold products and copies beside kernels, and its function has the loop
   around it. */
#include "backend/cpu/routes/contraction_route.h"
#include "compile/pipeline.h"
#include "ops/control/control.h"
#include "ops/opcode.h"

/* Longer ones gain little from it and cost compile time. */
enum { MAX_CHAIN = 32 };

typedef struct {
    flxi_program *m;
    bool is_scalar; /* the text has no vectors, so products are called */
    bool is_part;   /* the block is run by several threads side by side, so its steps are not */
    flxi_chain *chains;
    size_t n;
    flx_error *err;
} chaining;

/* ---- Steps ---- */

/* NULL: the step, a product, is part of the function; otherwise why not. */
static const char *product_of(const chaining *c, const flxi_routine *l, const flxi_step *s, flxi_small_product *p)
{
    const flxi_node *n = flxi_node_at(l->g, s->node);
    if (s->route->run != flxi_gemm_route)
        return "it is computed by a library";
    if (c->is_scalar)
        return "vectors are switched off";
    const flx_type *in[2] = {flxi_type_at(l->g, n->in[0]), flxi_type_at(l->g, n->in[1])};
    const flx_type *out = flxi_type_at(l->g, n->first);
    flxi_route_node node = {
        .op = n->op, .attrs = n->attrs, .nin = n->nin, .nout = n->nout, .in_types = in, .out_types = &out};
    flxi_gemm g = flxi_contraction_product(&node);
    return flxi_small_product_of(&g, c->is_part ? 1 : c->m->threads, p);
}

static bool is_product(const flxi_routine *l, const flxi_step *s)
{
    uint32_t op = flxi_node_at(l->g, s->node)->op;
    return s->kind == STEP_ROUTE && (op == OP_matmul || op == OP_dot_general);
}

static bool is_small(const chaining *c, const flxi_routine *l, const flxi_step *s, bool is_loop)
{
    flxi_small_product p;
    if (s->kind == STEP_KERNEL)
        return s->work < FLXI_MIN_PARALLEL;
    if (s->kind == STEP_COPY)
        return is_loop;
    return is_loop && is_product(l, s) && !product_of(c, l, s, &p);
}

static bool is_chained(const chaining *c, const flxi_routine *l, bool is_loop)
{
    bool fits = l->num_steps >= (is_loop ? 1 : 2) && l->num_steps <= MAX_CHAIN;
    for (uint32_t i = 0; fits && i < l->num_steps; i++)
        fits = is_small(c, l, &l->steps[i], is_loop);
    return fits;
}

bool flxi_routine_is_loop_function(flxi_program *m, const flxi_routine *l)
{
    const chaining c = {.m = m, .is_part = true};
    return is_chained(&c, l, true);
}

/* ---- Functions ---- */

static flxi_chain_call call_of(const chaining *c, const flxi_routine *l, const flxi_step *s)
{
    flxi_chain_call call = {.slots = s->slots, .num_slots = s->num_slots};
    if (s->kind == STEP_COPY) {
        call.kind = CHAIN_COPY;
        call.nbytes = l->slots[s->slots[0]].nbytes;
    } else if (s->kind == STEP_ROUTE) {
        call.kind = CHAIN_PRODUCT;
        product_of(c, l, s, &call.product);
    } else {
        call.kernel = s->kernel;
        memcpy(call.grid, s->grid, sizeof call.grid);
        call.lanes = s->lanes;
    }
    return call;
}

static uint32_t input_slot(const flxi_routine *l, size_t input)
{
    for (uint32_t i = 0; i < l->num_slots; i++)
        if (l->slots[i].segment == SEGMENT_INPUT && l->slots[i].index == input)
            return i;
    return FLXI_NO_SLOT;
}

/* Inputs that nobody reads have no slot. */
static flx_code make_loop(chaining *c, const flxi_routine *l, const scan_attrs *a, const flxi_chain_loop **out)
{
    uint32_t carries = (uint32_t)a->num_carry, first_row = carries + (uint32_t)a->num_bcast;
    uint32_t inputs = (uint32_t)l->g->leaves.n, outputs = (uint32_t)l->g->outputs.n;
    flxi_arena *arena = &c->m->arena;
    flxi_chain_loop *loop = flxi_new(arena, flxi_chain_loop, 1);
    flxi_chain_link *rows = flxi_new(arena, flxi_chain_link, inputs + outputs);
    flxi_chain_link *shared = flxi_new(arena, flxi_chain_link, inputs);
    uint32_t *in = flxi_new(arena, uint32_t, carries), *into = flxi_new(arena, uint32_t, carries);
    if (!loop || !rows || !shared || !in || !into)
        return flxi_oom(c->err, "kernels");
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

static flx_code make_chain(chaining *c, flxi_routine *l, const scan_attrs *scan)
{
    flxi_chain_call *calls = flxi_new(&c->m->arena, flxi_chain_call, l->num_steps);
    flxi_chain *chain = &c->chains[c->n++];
    if (!calls)
        return flxi_oom(c->err, "kernels");
    for (uint32_t i = 0; i < l->num_steps; i++)
        calls[i] = call_of(c, l, &l->steps[i]);
    *chain = (flxi_chain){.calls = calls, .n = l->num_steps};
    l->chain = chain;
    return scan ? make_loop(c, l, scan, &chain->loop) : FLX_OK;
}

/* ---- All blocks ---- */

static const scan_attrs *scan_of(const flxi_routine *l, const flxi_step *s)
{
    return s->kind == STEP_SCAN ? flxi_scan_attrs(flxi_node_at(l->g, s->node)) : NULL;
}

static size_t count_blocks(const flxi_routine *l)
{
    size_t n = 1;
    for (uint32_t i = 0; i < l->num_steps; i++)
        for (uint32_t k = 0; k < l->steps[i].num_bodies; k++)
            n += count_blocks(l->steps[i].bodies[k]);
    return n;
}

/* Why products of a loop are called: for the report. */
static void say_why_called(const chaining *c, flxi_routine *l)
{
    flxi_small_product p;
    for (uint32_t i = 0; i < l->num_steps; i++)
        if (is_product(l, &l->steps[i])) {
            const char *why = product_of(c, l, &l->steps[i], &p);
            l->steps[i].called = why ? why : "the loop has other steps that are called";
        }
}

static flx_code chain_block(chaining *c, flxi_routine *l, const scan_attrs *scan)
{
    if (is_chained(c, l, scan != NULL))
        FLXI_TRY(make_chain(c, l, scan));
    else if (scan)
        say_why_called(c, l);
    for (uint32_t i = 0; i < l->num_steps; i++)
        for (uint32_t k = 0; k < l->steps[i].num_bodies; k++) {
            c->is_part = l->steps[i].parts > 1;
            FLXI_TRY(chain_block(c, l->steps[i].bodies[k], scan_of(l, &l->steps[i])));
        }
    return FLX_OK;
}

flx_code flxi_program_chains(flxi_program *m, bool is_scalar, flxi_chain **chains, size_t *n, flx_error *err)
{
    chaining c = {.m = m, .is_scalar = is_scalar, .err = err};
    c.chains = flxi_new(&m->arena, flxi_chain, count_blocks(m->main));
    if (!c.chains)
        return flxi_oom(err, "kernels");
    flx_code code = chain_block(&c, m->main, NULL);
    *chains = c.chains;
    *n = c.n;
    return code;
}
