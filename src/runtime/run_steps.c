/* SPDX-License-Identifier: Apache-2.0 */
/* run_steps.c: running steps. A block's table holds the address of every slot; those in the arena never change, those
   of inputs and outputs are set before the block runs. Bodies of loops read and write the outer block's memory
   directly: a row of a sequence is an address, a carry is one of two places that take turns, and the last step writes
   the result itself. */
#include "runtime/run_steps.h"

#include "backend/ref/ref.h"
#include "base/host/float_mode.h"
#include "graph/op/opcode.h"
#include "ops/control/control.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

typedef struct block block;

typedef struct {
    void **data;            /* of a kernel's buffers, or of a route's operands and results */
    const flx_type **types; /* of the latter */
    flx_tensor *tensors;    /* of an evaluated node: operands, then results */
    const flx_tensor **in;
    flx_tensor **out;
    block *bodies;
    const void **body_in; /* addresses for a body: room for its inputs */
    void **body_out;
    flxi_chain_row *rows; /* of a scan that is one function */
    flxi_chain_carry *carries;
} step_state;

struct block {
    const flxi_routine *l;
    unsigned char *base;
    void **at; /* by slot */
    step_state *steps;
};

struct flxi_state {
    const flxi_program *m;
    flxi_arena arena;
    unsigned char *memory;
    size_t memory_size;
    bool uses_threads; /* some step is large enough for it */
    block main;
};

typedef struct {
    const flxi_state *s;
    const flxi_run_setup *setup;
    flx_error *err;
} running;

/* ---- Making a state ---- */

static flx_code make_block(flxi_state *s, const flxi_routine *l, unsigned char *base, block *b, flx_error *err);

/* Operands and results of an evaluated node, as tensors over slots. */
static flx_code make_tensors(flxi_state *s, const flxi_routine *l, const flxi_step *step, step_state *t, flx_error *err)
{
    const flxi_node *n = flxi_node_at(l->g, step->node);
    uint32_t count = n->nin + n->nout;
    t->tensors = flxi_new(&s->arena, flx_tensor, count);
    t->in = flxi_new(&s->arena, const flx_tensor *, n->nin);
    t->out = flxi_new(&s->arena, flx_tensor *, n->nout);
    if (!t->tensors || !t->in || !t->out)
        return flxi_oom(err, "the state of a run");
    for (uint32_t k = 0; k < count; k++) {
        flx_tensor *x = &t->tensors[k];
        x->ctx = s->m->ctx;
        x->type = *flxi_type_at(l->g, k < n->nin ? n->in[k] : n->first + k - n->nin);
        atomic_init(&x->refs, 1);
        flxi_static_count(&x->type, &x->count);
        flxi_static_bytes(&x->type, &x->nbytes);
        if (k < n->nin)
            t->in[k] = x;
        else
            t->out[k - n->nin] = x;
    }
    return FLX_OK;
}

static size_t rounded(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* Bodies lie one behind the other in the step's scratch; branches share their place, and each part of a scan's examples
   has one of its own. */
static flx_code make_bodies(flxi_state *s, const flxi_step *step, unsigned char *base, step_state *t, flx_error *err)
{
    unsigned char *place = base + step->scratch_offset;
    size_t most_in = 0, most_out = 0, parts = step->parts > 1 ? step->parts : 1;
    t->bodies = flxi_new(&s->arena, block, parts > 1 ? parts : step->num_bodies);
    if (!t->bodies)
        return flxi_oom(err, "the state of a run");
    for (uint32_t k = 0; k < step->num_bodies; k++) {
        const flxi_routine *l = step->bodies[k];
        FLXI_TRY(make_block(s, l, place, &t->bodies[k], err));
        most_in = l->g->leaves.n > most_in ? l->g->leaves.n : most_in;
        most_out = l->g->outputs.n > most_out ? l->g->outputs.n : most_out;
        if (step->kind != STEP_BRANCH)
            place += rounded(l->arena_bytes);
    }
    for (size_t part = 1; part < parts; part++)
        FLXI_TRY(make_block(s, step->bodies[0], base + step->scratch_offset + part * (step->scratch / parts),
                            &t->bodies[part], err));
    t->body_in = flxi_new(&s->arena, const void *, most_in);
    t->body_out = flxi_new(&s->arena, void *, most_out);
    t->rows = flxi_new(&s->arena, flxi_chain_row, (most_in + most_out) * parts);
    t->carries = flxi_new(&s->arena, flxi_chain_carry, most_in * parts);
    return t->body_in && t->body_out && t->rows && t->carries ? FLX_OK : flxi_oom(err, "the state of a run");
}

static flx_code make_step(flxi_state *s, const flxi_routine *l, const flxi_step *step, unsigned char *base,
                          step_state *t, flx_error *err)
{
    if (step->kind == STEP_KERNEL || step->kind == STEP_ROUTE) {
        t->data = flxi_new(&s->arena, void *, step->num_slots);
        t->types = flxi_new(&s->arena, const flx_type *, step->num_slots);
        if (!t->data || !t->types)
            return flxi_oom(err, "the state of a run");
        const flxi_node *n = flxi_node_at(l->g, step->node);
        for (uint32_t k = 0; step->kind == STEP_ROUTE && k < step->num_slots; k++)
            t->types[k] = flxi_type_at(l->g, k < n->nin ? n->in[k] : n->first + k - n->nin);
        return FLX_OK;
    }
    if (step->kind == STEP_EVALUATE)
        return make_tensors(s, l, step, t, err);
    return step->num_bodies ? make_bodies(s, step, base, t, err) : FLX_OK;
}

static flx_code make_block(flxi_state *s, const flxi_routine *l, unsigned char *base, block *b, flx_error *err)
{
    *b = (block){.l = l, .base = base};
    for (uint32_t i = 0; i < l->num_steps; i++)
        s->uses_threads |= l->steps[i].work >= FLXI_MIN_PARALLEL || l->steps[i].parts > 1;
    b->at = flxi_new(&s->arena, void *, l->num_slots);
    b->steps = flxi_new(&s->arena, step_state, l->num_steps);
    if (!b->at || !b->steps)
        return flxi_oom(err, "the state of a run");
    for (uint32_t i = 0; i < l->num_slots; i++) {
        const flxi_slot *slot = &l->slots[i];
        if (slot->segment == SEGMENT_ARENA)
            b->at[i] = base + slot->offset;
        else if (slot->segment == SEGMENT_CONST)
            b->at[i] = (void *)(uintptr_t)slot->data; /* only ever read */
    }
    for (uint32_t i = 0; i < l->num_steps; i++)
        FLXI_TRY(make_step(s, l, &l->steps[i], base, &b->steps[i], err));
    return FLX_OK;
}

/* Large arenas on large pages, where the system has some: fewer misses of the address cache. */
static void ask_for_large_pages(unsigned char *memory, size_t nbytes)
{
    const size_t page = (size_t)2 << 20;
    size_t skipped = (0 - (uintptr_t)memory) % page;
    if (nbytes >= skipped + page)
        (void)madvise(memory + skipped, (nbytes - skipped) / page * page, MADV_HUGEPAGE); /* a wish, no more */
}

static flx_code make_memory(flxi_state *s, flx_error *err)
{
    const flxi_program *m = s->m;
    size_t need = m->main->arena_bytes;
    int64_t limit = flxi_context_limit(m->ctx);
    size_t nbytes;
    if (!flxi_add_size(need, 128, &nbytes) || (limit && need > (size_t)limit))
        return flxi_fail_hint(err, FLX_E_SIZE, "flx_exec_memory() tells how much a run needs",
                              "a run needs %zu bytes, more than the limit of %lld", need, (long long)limit);
    s->memory = m->mem->fn(m->mem->user, NULL, 0, nbytes);
    if (!s->memory)
        return flxi_fail_hint(err, FLX_E_OOM, "flx bench shows how much a graph needs",
                              "out of memory: an arena of %zu bytes", need);
    s->memory_size = nbytes;
    ask_for_large_pages(s->memory, nbytes);
    memset(s->memory, 0, nbytes);
    return FLX_OK;
}

flx_code flxi_state_new(const flxi_program *m, flxi_state **out, flx_error *err)
{
    flxi_state *s = flxi_alloc(m->mem, 1, sizeof *s);
    *out = NULL;
    if (!s)
        return flxi_oom(err, "the state of a run");
    s->m = m;
    flxi_arena_init(&s->arena, m->mem);
    flx_code code = make_memory(s, err);
    if (code == FLX_OK)
        code = make_block(s, m->main, s->memory + (0 - (uintptr_t)s->memory) % 64, &s->main, err);
    if (code == FLX_OK)
        *out = s;
    else
        flxi_state_free(s);
    return code;
}

void flxi_state_free(flxi_state *s)
{
    if (!s)
        return;
    const flxi_allocator *mem = s->arena.mem;
    if (s->memory)
        flxi_free(mem, s->memory, s->memory_size, 1);
    flxi_arena_free(&s->arena);
    flxi_free(mem, s, 1, sizeof *s);
}

/* ---- Cancelling ---- */

flx_code flxi_run_cancelled(flx_error *err)
{
    return flxi_fail(err, FLX_E_CANCELLED, "the run was cancelled");
}

static bool is_cancelled(const running *r)
{
    return r->setup->cancelled && atomic_load_explicit(r->setup->cancelled, memory_order_relaxed);
}

/* Whether somebody wants to see steps one by one, or in parts. */
static bool uses_chains(const running *r)
{
    return !r->setup->observe && !r->setup->checks_finite && !r->setup->min_parallel;
}

/* ---- Steps ---- */

static flx_code run_block(running *r, block *b, const void *const *in, void *const *out);

static flx_code run_kernel(running *r, block *b, const flxi_step *s, step_state *t)
{
    for (uint32_t j = 0; j < s->num_slots; j++)
        t->data[j] = b->at[s->slots[j]];
    flxi_native_args args = {t->data, NULL, {s->grid[0], s->grid[1], s->grid[2]}, s->lanes};
    int64_t least = r->setup->min_parallel ? r->setup->min_parallel : FLXI_MIN_PARALLEL;
    flxi_native_run(&r->s->m->native[s->kernel], &args, s->work >= least ? r->setup->pool : NULL,
                    b->base + s->scratch_offset);
    return FLX_OK;
}

static flx_code run_body_by_reference(flxi_eval *e, const flx_graph *body, const flx_tensor *const *in,
                                      flx_tensor **out)
{
    running *r = (running *)(void *)e->run;
    if (is_cancelled(r))
        return flxi_run_cancelled(e->err);
    return flxi_ref_run(body, r->setup->options, in, out, e->err);
}

static void print_value(flxi_eval *e, const char *message, const flx_tensor *value)
{
    const flx_run_options *o = ((running *)(void *)e->run)->setup->options;
    if (o && o->print)
        o->print(o->print_user, message, value);
}

static void report_status(flxi_eval *e, uint32_t status)
{
    const flx_run_options *o = ((running *)(void *)e->run)->setup->options;
    if (o && o->status)
        *o->status |= status;
}

static flx_code run_evaluation(running *r, block *b, const flxi_step *s, step_state *t)
{
    const flxi_node *n = flxi_node_at(b->l->g, s->node);
    for (uint32_t k = 0; k < s->num_slots; k++)
        t->tensors[k].data = b->at[s->slots[k]];
    for (uint32_t k = 0; k < n->nout; k++)
        if (t->out[k]->nbytes)
            memset(t->out[k]->data, 0, t->out[k]->nbytes);
    flxi_eval e = {.op = &flxi_ops[n->op],
                   .label = n->nout ? flxi_value_at(b->l->g, n->first)->name : NULL,
                   .attrs = n->attrs,
                   .nin = n->nin,
                   .nout = n->nout,
                   .in = t->in,
                   .out = t->out,
                   .mem = r->s->m->mem,
                   .run = (flxi_run *)(void *)r,
                   .err = r->err,
                   .run_body = run_body_by_reference,
                   .print = print_value,
                   .report = report_status};
    return e.op->rules->eval(&e);
}

static flx_code run_route(running *r, block *b, const flxi_step *s, step_state *t)
{
    const flxi_node *n = flxi_node_at(b->l->g, s->node);
    for (uint32_t k = 0; k < s->num_slots; k++)
        t->data[k] = b->at[s->slots[k]];
    flxi_route_node node = {.op = n->op,
                            .attrs = n->attrs,
                            .nin = n->nin,
                            .nout = n->nout,
                            .in_types = t->types,
                            .out_types = t->types + n->nin,
                            .in = (const void *const *)t->data,
                            .out = t->data + n->nin,
                            .pool = r->setup->pool,
                            .kept = s->kept,
                            .scratch = b->base + s->scratch_offset,
                            .err = r->err,
                            .status = r->setup->options ? r->setup->options->status : NULL,
                            .label = n->nout ? flxi_value_at(b->l->g, n->first)->name : NULL};
    return s->route->run(&node);
}

static void copy(void *to, const void *from, size_t n)
{
    if (n)
        memcpy(to, from, n);
}

/* ---- Control flow ---- */

static const void *operand_at(const block *b, const flxi_step *s, uint32_t k)
{
    return b->at[s->slots[k]];
}

static void *result_at(const block *b, const flxi_step *s, uint32_t k)
{
    return b->at[s->slots[s->num_reads + k]];
}

static size_t operand_bytes(const block *b, const flxi_step *s, uint32_t k)
{
    return b->l->slots[s->slots[k]].nbytes;
}

static uint32_t parts_of(const flxi_step *s)
{
    return s->parts ? s->parts : 1;
}

/* The two places of carry k behind the bodies' memory. */
static unsigned char *carry_place(const block *b, const flxi_step *s, uint32_t k, uint32_t which, uint32_t part)
{
    size_t parts = parts_of(s);
    unsigned char *p = b->base + s->scratch_offset + part * (s->scratch / parts);
    for (uint32_t j = 0; j < s->num_bodies; j++)
        p += rounded(s->bodies[j]->arena_bytes);
    for (uint32_t j = 0; j < k; j++)
        p += 2 * rounded(operand_bytes(b, s, j) / parts);
    return p + which * rounded(operand_bytes(b, s, k) / parts);
}

typedef struct {
    const scan_attrs *a;
    uint32_t carries, shared, results;
    int64_t length;
    size_t parts; /* a row of a sequence, and a carry, are so many pieces one behind the other */
} scan_shape;

static size_t result_row_bytes(const block *body, uint32_t k)
{
    return body->l->slots[body->l->outputs[k]].nbytes;
}

/* Where the body finds its inputs and leaves its outputs in the step-th step walked. */
static void bind_scan(const block *b, const flxi_step *s, step_state *t, const scan_shape *c, int64_t step,
                      uint32_t part)
{
    int64_t at = c->a->reverse ? c->length - 1 - step : step, row = flxi_trajectory_row(c->a, c->length, step);
    const block *body = &t->bodies[part];
    for (uint32_t k = 0; k < c->carries; k++) {
        size_t nbytes = operand_bytes(b, s, k), piece = part * (nbytes / c->parts);
        t->body_in[k] = step ? t->body_out[k] : (const unsigned char *)operand_at(b, s, k) + piece;
        if (row >= 0)
            t->body_out[k] = (unsigned char *)result_at(b, s, k) + (size_t)row * nbytes + piece;
        else if (step == c->length - 1 && !c->a->save_trajectory)
            t->body_out[k] = (unsigned char *)result_at(b, s, k) + piece;
        else
            t->body_out[k] = carry_place(b, s, k, (uint32_t)step & 1, part);
    }
    for (uint32_t k = c->carries; k < c->shared; k++)
        t->body_in[k] = operand_at(b, s, k);
    for (uint32_t k = c->shared; k < s->num_reads; k++) {
        size_t nbytes = operand_bytes(b, s, k) / (size_t)c->length;
        t->body_in[k] = (const unsigned char *)operand_at(b, s, k) + (size_t)at * nbytes + part * (nbytes / c->parts);
    }
    for (uint32_t k = c->carries; k < c->results; k++)
        t->body_out[k] =
            (unsigned char *)result_at(b, s, k) + ((size_t)at * c->parts + part) * result_row_bytes(body, k);
}

/* ---- Scans that are one function ---- */

/* Steps between two looks at whether the run was cancelled. */
static const int64_t steps_at_once = 64;

/* A part of the rows of a stack: where that of step 0 is. */
static flxi_chain_row row_of(const scan_shape *c, unsigned char *stack, size_t piece, uint32_t part)
{
    size_t nbytes = piece * c->parts, first = c->a->reverse ? (size_t)(c->length - 1) * nbytes : 0;
    return (flxi_chain_row){stack + first + part * piece, c->a->reverse ? -(int64_t)nbytes : (int64_t)nbytes};
}

static flxi_chain_carry carry_of(const block *b, const flxi_step *s, const scan_shape *c, uint32_t k, uint32_t part)
{
    size_t piece = operand_bytes(b, s, k) / c->parts;
    flxi_chain_carry y = {.in = (const unsigned char *)operand_at(b, s, k) + part * piece};
    if (c->a->save_trajectory) {
        flxi_chain_row row = row_of(c, result_at(b, s, k), piece, part);
        y.place[0] = y.place[1] = row.at;
        y.step = row.step;
        return y;
    }
    unsigned last = c->length % 2 == 0; /* the last step writes the result itself */
    y.place[last] = (unsigned char *)result_at(b, s, k) + part * piece;
    y.place[!last] = carry_place(b, s, k, 0, part);
    return y;
}

typedef struct {
    running *r;
    block *b;
    const flxi_step *s;
    step_state *t;
    const scan_shape *c;
    atomic_bool is_stopped;
} looping;

/* All steps for some parts of the examples. Addresses are in the order in which the loop's function knows them. */
static void run_parts(void *user, int64_t begin, int64_t end)
{
    looping *l = user;
    const scan_shape *c = l->c;
    for (uint32_t part = (uint32_t)begin; part < end; part++) {
        block *body = &l->t->bodies[part];
        const flxi_chain_loop *loop = body->l->chain->loop;
        flxi_chain_carry *carries = l->t->carries + (size_t)part * loop->num_carries;
        flxi_chain_row *rows = l->t->rows + (size_t)part * loop->num_rows;
        for (uint32_t k = 0; k < c->carries; k++)
            carries[k] = carry_of(l->b, l->s, c, k, part);
        for (uint32_t i = 0; i < loop->num_shared; i++)
            body->at[loop->shared[i].slot] = l->b->at[l->s->slots[loop->shared[i].value]];
        for (uint32_t i = 0; i < loop->num_rows; i++)
            rows[i] =
                row_of(c, l->b->at[l->s->slots[loop->rows[i].value]], body->l->slots[loop->rows[i].slot].nbytes, part);
        for (int64_t from = 0, to; from < c->length; from = to) {
            to = c->length - from > steps_at_once ? from + steps_at_once : c->length;
            if (is_cancelled(l->r)) {
                atomic_store_explicit(&l->is_stopped, true, memory_order_relaxed);
                return;
            }
            body->l->chain->run_loop(body->at, rows, carries, from, to);
        }
    }
}

/* A trajectory that is thinned has rows for some steps only. */
static bool is_one_function(const running *r, const step_state *t, const scan_shape *c)
{
    bool is_thinned = c->a->save_trajectory && c->a->num_checkpoints && c->a->num_checkpoints != c->length;
    return t->bodies[0].l->chain && t->bodies[0].l->chain->run_loop && uses_chains(r) && !is_thinned && c->length > 0;
}

static flx_code run_scan(running *r, block *b, const flxi_step *s, step_state *t)
{
    const flxi_node *n = flxi_node_at(b->l->g, s->node);
    scan_shape c = {.a = n->attrs, .results = n->nout, .parts = parts_of(s)};
    c.carries = (uint32_t)c.a->num_carry;
    c.shared = c.carries + (uint32_t)c.a->num_bcast;
    c.length = c.a->length != FLXI_ABSENT ? c.a->length : flxi_type_at(b->l->g, n->in[c.shared])->dims[0];
    for (uint32_t k = 0; c.length == 0 && !c.a->save_trajectory && k < c.carries; k++)
        copy(result_at(b, s, k), operand_at(b, s, k), operand_bytes(b, s, k));
    if (is_one_function(r, t, &c)) {
        looping l = {.r = r, .b = b, .s = s, .t = t, .c = &c};
        atomic_init(&l.is_stopped, false);
        flxi_pool_run(c.parts > 1 ? r->setup->pool : NULL, (int64_t)c.parts, 1, run_parts, &l);
        return atomic_load_explicit(&l.is_stopped, memory_order_relaxed) ? flxi_run_cancelled(r->err) : FLX_OK;
    }
    for (uint32_t part = 0; part < c.parts; part++)
        for (int64_t step = 0; step < c.length; step++) {
            bind_scan(b, s, t, &c, step, part);
            FLXI_TRY(run_block(r, &t->bodies[part], t->body_in, t->body_out));
        }
    return FLX_OK;
}

static flx_code run_while(running *r, block *b, const flxi_step *s, step_state *t)
{
    const while_attrs *a = flxi_node_at(b->l->g, s->node)->attrs;
    const flxi_routine *cond = s->bodies[0];
    int32_t dtype = flxi_type_at(cond->g, cond->g->outputs.at[0].val)->dtype;
    void *answer = carry_place(b, s, s->num_reads, 0, 0);
    for (uint32_t k = 0; k < s->num_reads; k++)
        t->body_in[k] = operand_at(b, s, k);
    for (int64_t i = 0;; i++) {
        FLXI_TRY(run_block(r, &t->bodies[0], t->body_in, &answer));
        bool goes_on = flxi_load_truth(dtype, answer, 0);
        if (goes_on && a->max_iterations != FLXI_ABSENT && i >= a->max_iterations) {
            const flx_run_options *o = r->setup->options;
            if (o && o->status)
                *o->status |= FLX_RUN_LOOP_CUT;
            goes_on = false;
        }
        if (!goes_on)
            break;
        for (uint32_t k = 0; k < s->num_reads; k++)
            t->body_out[k] = carry_place(b, s, k, (uint32_t)i & 1, 0);
        FLXI_TRY(run_block(r, &t->bodies[1], t->body_in, t->body_out));
        for (uint32_t k = 0; k < s->num_reads; k++)
            t->body_in[k] = t->body_out[k];
    }
    for (uint32_t k = 0; k < s->num_reads; k++)
        copy(result_at(b, s, k), t->body_in[k], operand_bytes(b, s, k));
    return FLX_OK;
}

static flx_code run_branch(running *r, block *b, const flxi_step *s, step_state *t)
{
    const flxi_node *n = flxi_node_at(b->l->g, s->node);
    int32_t dtype = flxi_type_at(b->l->g, n->in[0])->dtype;
    const void *index = operand_at(b, s, 0);
    uint32_t chosen =
        n->op == OP_if ? !flxi_load_truth(dtype, index, 0) : flxi_case_branch(dtype, index, s->num_bodies);
    for (uint32_t k = 1; k < s->num_reads; k++)
        t->body_in[k - 1] = operand_at(b, s, k);
    for (uint32_t k = 0; k < n->nout; k++)
        t->body_out[k] = result_at(b, s, k);
    return run_block(r, &t->bodies[chosen], t->body_in, t->body_out);
}

/* ---- Blocks ---- */

static flx_code run_step(running *r, block *b, uint32_t i)
{
    const flxi_step *s = &b->l->steps[i];
    step_state *t = &b->steps[i];
    switch ((flxi_step_kind)s->kind) {
    case STEP_KERNEL:
        return run_kernel(r, b, s, t);
    case STEP_EVALUATE:
        return run_evaluation(r, b, s, t);
    case STEP_COPY:
        copy(b->at[s->slots[1]], b->at[s->slots[0]], b->l->slots[s->slots[0]].nbytes);
        return FLX_OK;
    case STEP_SCAN:
        return run_scan(r, b, s, t);
    case STEP_WHILE:
        return run_while(r, b, s, t);
    case STEP_BRANCH:
        return run_branch(r, b, s, t);
    case STEP_ROUTE:
        return run_route(r, b, s, t);
    }
    return flxi_fail(r->err, FLX_E_INTERNAL, "step %u has no kind", i);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static flx_code name_place(running *r, const block *b, uint32_t i, flx_code code)
{
    const flxi_node *n = flxi_node_at(b->l->g, b->l->steps[i].node);
    const char *label = n->nout ? flxi_value_at(b->l->g, n->first)->name : NULL;
    if (n->nout)
        flxi_at(r->err, "%.50s/%.50s", b->l->g->name, label ? label : flxi_ops[n->op].name);
    return code;
}

static flx_code run_block(running *r, block *b, const void *const *in, void *const *out)
{
    const flxi_routine *l = b->l;
    if (is_cancelled(r)) /* a body may have no steps */
        return flxi_run_cancelled(r->err);
    for (uint32_t i = 0; i < l->num_slots; i++) {
        if (l->slots[i].segment == SEGMENT_INPUT)
            b->at[i] = (void *)(uintptr_t)in[l->slots[i].index]; /* only ever read */
        else if (l->slots[i].segment == SEGMENT_OUTPUT)
            b->at[i] = out[l->slots[i].index];
    }
    if (l->chain && l->chain->run && uses_chains(r)) {
        l->chain->run(b->at);
        return FLX_OK;
    }
    for (uint32_t i = 0; i < l->num_steps; i++) {
        if (is_cancelled(r))
            return flxi_run_cancelled(r->err);
        int64_t begin = r->setup->observe ? now_ns() : 0;
        flx_code code = run_step(r, b, i);
        if (code == FLX_OK && r->setup->checks_finite)
            code = flxi_step_check_finite(l, &l->steps[i], b->at, r->err);
        if (code != FLX_OK)
            return name_place(r, b, i, code);
        if (r->setup->observe)
            r->setup->observe(r->setup->observe_user, l, b->base, i, now_ns() - begin);
    }
    return FLX_OK;
}

flx_code flxi_state_run(flxi_state *s, const flxi_run_setup *setup, const void *const *inputs, void *const *outputs,
                        flx_error *err)
{
    running r = {s, setup, err};
    bool is_long = setup->pool && s->uses_threads;
    uint32_t mode = flxi_float_mode();
    if (setup->flushes)
        flxi_set_float_mode(flxi_flushing(mode));
    if (is_long)
        flxi_pool_wake(setup->pool);
    flx_code code = run_block(&r, &s->main, inputs, outputs);
    if (is_long)
        flxi_pool_rest(setup->pool);
    if (setup->flushes)
        flxi_set_float_mode(mode);
    return code;
}
