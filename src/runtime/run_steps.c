/* SPDX-License-Identifier: Apache-2.0 */
/* run_steps.c: running steps on a device. A block is a routine with a table of the device address of every slot; those
   of inputs and outputs are set before the block runs, those in the arena where its memory is not what it was before.
   There is one block for a routine, however many steps run it: routines do not run within themselves. Bodies of loops
   read and write the outer block's memory directly: a row of a sequence is an address, a carry is one of two buffers
   that take turns, and the last step writes the result itself.

   A device may have memory of its own (device->uses_host_memory is false). Then inputs, outputs and constants have
   mirrors there, and what the host computes or looks at is copied. */
#include "runtime/run_steps.h"

#include "backend/devices.h"
#include "base/host/float_mode.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "graph/op/origin.h"
#include "graph/type/finite.h"
#include "ops/collective/exchange.h"
#include "ops/control/control.h"
#include "runtime/mirrors.h"
#include "runtime/step_order.h"

#include <time.h>

typedef struct block block;

/* A thread that runs steps of a loop alone. */
typedef struct {
    flx_error err;
    flx_code code;
    int64_t failed;  /* the step that failed, or -1 */
    uint32_t status; /* to be reported */
} worker;

typedef struct {
    void **data;         /* of a kernel's buffers, or of a route's operands and results */
    void **bound;        /* of a call: its buffers … */
    uint32_t *count;     /* … and their elements */
    flx_tensor *tensors; /* of an evaluated node: operands, then results */
    const flx_tensor **in;
    flx_tensor **out;
    block **bodies;       /* one for each body, or for each part of the examples */
    const void **body_in; /* addresses for a body: room for its inputs */
    void **body_out;
    flxi_loop_part *parts; /* of a scan that is a chain */
    flxi_loop_row *rows;
    flxi_loop_carry *carries;
    worker *workers;   /* of a scan whose steps are independent */
    uint64_t exchange; /* that it has started; 0: none is running */
} step_state;

struct block {
    const flxi_routine *l;
    unsigned char *base;
    void **at; /* by slot */
    step_state *steps;
    uint32_t running; /* no exchange of a step before this one is running */
};

struct flxi_state {
    const flxi_program *m;
    flxi_arena arena;
    flxi_device_memory memory;
    bool is_large;  /* some step is large enough for threads */
    block **blocks; /* by the number of the routine; NULL before it is met */
    block *main;
    /* If the device has memory of its own: */
    flxi_mirrors mirrors;
    size_t most; /* bytes of the largest slot … */
    void *view;  /* … and host memory for it */
    /* If the steps can be run again as one: those before the commit, and those from there on. */
    bool is_notable, has_run;
    flxi_sequence *sequence[2];
};

typedef struct {
    flxi_state *s;
    const flxi_device *device;
    const flxi_run_setup *setup;
    flx_error *err;
    flxi_device_run run;
    bool has_committed;           /* memory of inputs may be overwritten */
    const flxi_step_order *order; /* of the steps of the main block, while they are noted; or NULL */
} running;

/* ---- Making a state ---- */

static flx_code make_block(flxi_state *s, const flxi_routine *l, block **out, flx_error *err);

static int64_t scan_length(const flx_graph *g, const flxi_node *n)
{
    const scan_attrs *a = flxi_scan_attrs(n);
    return a->length != FLXI_ABSENT ? a->length : flxi_type_at(g, n->in[a->num_carry + a->num_bcast])->dims[0];
}

/* Operands and results of an evaluated node, as tensors over slots, or over memory of their own. */
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
        if (!s->m->device->uses_host_memory && !(x->data = flxi_arena_alloc(&s->arena, x->nbytes + 1, 1, 64)))
            return flxi_oom(err, "the state of a run");
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

/* The block of a routine, made when it is first met. */
static flx_code block_of(flxi_state *s, const flxi_routine *l, block **out, flx_error *err)
{
    if (!s->blocks[l->number])
        FLXI_TRY(make_block(s, l, &s->blocks[l->number], err));
    *out = s->blocks[l->number];
    return FLX_OK;
}

/* Another block of a routine, with blocks of their own for its bodies: it runs at the same time as the first. */
static flx_code make_other_block(flxi_state *s, const flxi_routine *l, block **out, flx_error *err)
{
    block **blocks = s->blocks;
    s->blocks = flxi_new(&s->arena, block *, s->m->num_routines);
    flx_code code = s->blocks ? make_block(s, l, out, err) : flxi_oom(err, "the state of a run");
    s->blocks = blocks;
    return code;
}

static uint32_t parts_of(const flxi_step *s)
{
    return s->workers ? s->workers : s->parts ? s->parts : 1;
}

static flx_code make_bodies(flxi_state *s, const flxi_step *step, step_state *t, flx_error *err)
{
    size_t most_in = 0, most_out = 0, parts = parts_of(step);
    t->bodies = flxi_new(&s->arena, block *, parts > 1 ? parts : step->num_bodies);
    if (!t->bodies)
        return flxi_oom(err, "the state of a run");
    for (uint32_t k = 0; k < step->num_bodies; k++) {
        const flxi_routine *l = step->bodies[k];
        FLXI_TRY(block_of(s, l, &t->bodies[k], err));
        most_in = l->g->leaves.n > most_in ? l->g->leaves.n : most_in;
        most_out = l->g->outputs.n > most_out ? l->g->outputs.n : most_out;
    }
    for (size_t part = 1; part < parts; part++) /* these run side by side */
        FLXI_TRY(make_other_block(s, step->bodies[0], &t->bodies[part], err));
    t->body_in = flxi_new(&s->arena, const void *, most_in *parts);
    t->body_out = flxi_new(&s->arena, void *, most_out *parts);
    t->workers = flxi_new(&s->arena, worker, step->workers);
    t->parts = flxi_new(&s->arena, flxi_loop_part, parts);
    t->rows = flxi_new(&s->arena, flxi_loop_row, (most_in + most_out) * parts);
    t->carries = flxi_new(&s->arena, flxi_loop_carry, most_in * parts);
    bool ok = t->body_in && t->body_out && t->parts && t->rows && t->carries && t->workers;
    return ok ? FLX_OK : flxi_oom(err, "the state of a run");
}

static flx_code make_step(flxi_state *s, const flxi_routine *l, const flxi_step *step, step_state *t, flx_error *err)
{
    if (step->kind == STEP_KERNEL || step->kind == STEP_ROUTE || step->kind == STEP_DISPATCH) {
        size_t buffers = step->call ? step->call->num_buffers : 0;
        t->data = flxi_new(&s->arena, void *, step->num_slots);
        t->bound = flxi_new(&s->arena, void *, buffers);
        t->count = flxi_new(&s->arena, uint32_t, buffers);
        for (size_t i = 0; i < buffers; i++) /* the host looks at flags */
            if (step->call->buffers[i].is_flag && step->call->buffers[i].nbytes > s->most)
                s->most = step->call->buffers[i].nbytes;
        return t->data && t->bound && t->count ? FLX_OK : flxi_oom(err, "the state of a run");
    }
    if (step->kind == STEP_EVALUATE)
        FLXI_TRY(make_tensors(s, l, step, t, err));
    return step->num_bodies ? make_bodies(s, step, t, err) : FLX_OK;
}

static flx_code make_block(flxi_state *s, const flxi_routine *l, block **out, flx_error *err)
{
    block *b = *out = flxi_new(&s->arena, block, 1);
    if (!b)
        return flxi_oom(err, "the state of a run");
    b->l = l;
    for (uint32_t i = 0; i < l->num_steps; i++)
        s->is_large |= l->steps[i].work >= s->m->device->min_parallel || parts_of(&l->steps[i]) > 1;
    b->at = flxi_new(&s->arena, void *, l->num_slots);
    b->steps = flxi_new(&s->arena, step_state, l->num_steps);
    if (!b->at || !b->steps)
        return flxi_oom(err, "the state of a run");
    for (uint32_t i = 0; i < l->num_slots; i++) {
        const flxi_slot *slot = &l->slots[i];
        s->most = slot->nbytes > s->most ? slot->nbytes : s->most;
        if (slot->segment == SEGMENT_CONST && s->m->device->uses_host_memory)
            b->at[i] = (void *)(uintptr_t)slot->data; /* only ever read */
        else if (slot->segment == SEGMENT_CONST)
            FLXI_TRY(flxi_mirrors_add(&s->mirrors, s->m->mem, slot->data, slot->nbytes, &b->at[i], err));
    }
    for (uint32_t i = 0; i < l->num_steps; i++)
        FLXI_TRY(make_step(s, l, &l->steps[i], &b->steps[i], err));
    return FLX_OK;
}

/* The block's arena begins there. */
static void place_block(block *b, unsigned char *base)
{
    if (b->base == base && base)
        return;
    b->base = base;
    for (uint32_t i = 0; i < b->l->num_slots; i++)
        if (b->l->slots[i].segment == SEGMENT_ARENA)
            b->at[i] = base + b->l->slots[i].offset;
}

static flx_code make_memory(flxi_state *s, flx_error *err)
{
    const flxi_program *m = s->m;
    size_t need = m->main->arena_bytes;
    int64_t limit = flxi_context_limit(m->ctx);
    if (limit && need > (size_t)limit)
        return flxi_fail_hint(
            err, FLX_E_SIZE,
            "use smaller extents; in C flx_context_options.memory_limit is the limit, else what the machine has",
            "a run needs %zu bytes, more than the limit of %lld", need, (long long)limit);
    return m->device->allocate(m->ctx, need, &s->memory, err);
}

/* Mirrors of the caller's memory, and what the host needs to look at the device's. */
static flx_code make_mirrors(flxi_state *s, flx_error *err)
{
    if (s->m->device->uses_host_memory)
        return FLX_OK;
    s->view = flxi_arena_alloc(&s->arena, s->most + 1, 1, 64);
    return s->view ? flxi_mirrors_bind(&s->mirrors, s->m->main, &s->arena, err) : flxi_oom(err, "the state of a run");
}

/* Noted steps are kept in memory; longer loops are run step by step. */
static const int64_t most_noted = 20000;

/* Whether the host has no part in a dispatch. */
static bool is_unwatched(const flxi_routine *l, const flxi_step *s)
{
    return s->kind == STEP_DISPATCH && !flxi_call_is_read(s->call) && !l->program->compiled[s->kernel].is_watched;
}

/* Whether the device has the whole loop of the scan as one piece of code. A trajectory that is thinned has rows for
   some steps only. */
static bool has_loop(const flxi_step *s, const flxi_node *n, int64_t length)
{
    const scan_attrs *a = flxi_scan_attrs(n);
    const flxi_chain *c = s->bodies[0]->chain;
    bool is_thinned = a->save_trajectory && a->num_checkpoints && a->num_checkpoints != length;
    return c && c->code && c->loop && !is_thinned && length > 0;
}

/* Steps of the device that a run of the routine has, or -1 where the host has a part in it or decides what runs. */
static int64_t count_noted(const flxi_routine *l)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < l->num_steps && sum >= 0; i++) {
        const flxi_step *s = &l->steps[i];
        const flxi_node *n = flxi_node_at(l->g, s->node);
        int64_t times = 1, own = 1;
        bool is_loop = s->kind == STEP_SCAN, is_call = s->kind == STEP_CALL;
        if (is_loop && has_loop(s, n, scan_length(l->g, n)))
            own = 1;
        else if (is_loop || is_call)
            own = s->workers || s->parts > 1 ? -1 : count_noted(s->bodies[0]);
        else if (s->kind != STEP_KERNEL && s->kind != STEP_ROUTE && s->kind != STEP_COPY && !is_unwatched(l, s))
            own = -1;
        if (is_loop)
            times = scan_length(l->g, n);
        sum = own < 0 || (own && times > most_noted / own) ? -1 : sum + own * times;
    }
    return sum > most_noted ? -1 : sum;
}

flx_code flxi_state_new(const flxi_program *m, flxi_state **out, flx_error *err)
{
    flxi_state *s = flxi_alloc(m->mem, 1, sizeof *s);
    *out = NULL;
    if (!s)
        return flxi_oom(err, "the state of a run");
    s->m = m;
    flxi_arena_init(&s->arena, m->mem);
    flxi_mirrors_init(&s->mirrors, m->device, m->ctx);
    s->is_notable = m->device->note && count_noted(m->main) > 0;
    flx_code code = make_memory(s, err);
    s->blocks = flxi_new(&s->arena, block *, m->num_routines);
    if (code == FLX_OK)
        code = s->blocks ? block_of(s, m->main, &s->main, err) : flxi_oom(err, "the state of a run");
    if (code == FLX_OK)
        code = make_mirrors(s, err);
    if (code == FLX_OK)
        *out = s;
    else
        flxi_state_free(s);
    return code;
}

static void free_sequences(flxi_state *s)
{
    for (int i = 0; i < 2; i++) {
        if (s->sequence[i])
            s->m->device->free_sequence(s->sequence[i]);
        s->sequence[i] = NULL;
    }
}

void flxi_state_free(flxi_state *s)
{
    if (!s)
        return;
    const flxi_allocator *mem = s->arena.mem;
    const flxi_device *device = s->m->device;
    free_sequences(s);
    flxi_mirrors_free(&s->mirrors, mem);
    device->release(s->m->ctx, &s->memory);
    flxi_arena_free(&s->arena);
    flxi_free(mem, s, 1, sizeof *s);
}

/* ---- Watched runs ---- */

/* What each step has written is checked or shown before the next one runs. */
static bool is_watched(const running *r)
{
    return r->setup->observe || r->setup->checks_finite;
}

/* Not when steps are watched one by one, or run in parts. */
static bool uses_chains(const running *r)
{
    return !is_watched(r) && !r->setup->min_parallel;
}

/* ---- Memory of the device ---- */

static flx_code copy(running *r, void *to, const void *from, size_t n)
{
    return n ? r->device->copy(&r->run, to, from, n, COPY_WITHIN) : FLX_OK;
}

/* What is in device memory, for the host to read until the next call. */
static flx_code look(running *r, const void *at, size_t n, const void **out)
{
    bool is_host = r->device->uses_host_memory;
    *out = is_host ? at : r->s->view;
    return is_host || !n ? FLX_OK : r->device->copy(&r->run, r->s->view, at, n, COPY_TO_HOST);
}

/* ---- Steps ---- */

static flx_code run_block(running *r, block *b, const void *const *in, void *const *out);
static block *body_at(const block *b, const flxi_step *s, const step_state *t, uint32_t k, uint32_t part);

static flx_code run_kernel(running *r, block *b, const flxi_step *s, step_state *t)
{
    for (uint32_t j = 0; j < s->num_slots; j++)
        t->data[j] = b->at[s->slots[j]];
    flxi_kernel_step call = {.code = r->s->m->compiled[s->kernel].code,
                             .data = t->data,
                             .grid = {s->grid[0], s->grid[1], s->grid[2]},
                             .lanes = s->lanes,
                             .work = s->work,
                             .scratch = b->base + s->scratch_offset};
    return r->device->run_kernel(&r->run, &call);
}

/* A node under evaluation, as its op's rules see it. */
typedef struct {
    running *r;
    const block *b;
    const flxi_step *s;
    step_state *t;
} evaluation;

static const evaluation *evaluation_of(const flxi_eval *e)
{
    return (const evaluation *)(const void *)e->run;
}

/* A body of the node that is a routine of the program, or NULL. */
static block *routine_of_body(const evaluation *v, const flx_graph *body)
{
    const flxi_node *n = flxi_node_at(v->b->l->g, v->s->node);
    flxi_body listed;
    for (uint32_t k = 0; k < v->s->num_bodies; k++)
        if (flxi_ops[n->op].rules->bodies(v->b->l->g, n, k, &listed) && listed.graph == body)
            return body_at(v->b, v->s, v->t, k, 0);
    return NULL;
}

static flx_code run_body(flxi_eval *e, const flx_graph *body, const flx_tensor *const *in, flx_tensor **out)
{
    const evaluation *v = evaluation_of(e);
    FLXI_TRY(flxi_stop_check(e->err));
    block *routine = routine_of_body(v, body);
    if (!routine)
        return flxi_reference_device()->run_graph(body, v->r->setup->options, in, out, e->err);
    size_t num_out = body->outputs.n;
    flx_code code = FLX_OK;
    for (size_t k = 0; k < body->leaves.n; k++)
        v->t->body_in[k] = in[k]->data;
    memset(out, 0, num_out * sizeof *out);
    for (size_t k = 0; k < num_out && code == FLX_OK; k++) {
        out[k] = flx_tensor_new(body->ctx, flxi_type_at(body, body->outputs.at[k].val), NULL, e->err);
        code = out[k] ? FLX_OK : (flx_code)e->err->code;
        v->t->body_out[k] = out[k] ? out[k]->data : NULL;
    }
    if (code == FLX_OK)
        code = run_block(v->r, routine, v->t->body_in, v->t->body_out);
    for (size_t k = 0; k < num_out && code != FLX_OK; k++)
        flx_tensor_release(out[k]);
    return code;
}

static void print_value(flxi_eval *e, const char *message, const flx_tensor *value)
{
    const flx_run_options *o = evaluation_of(e)->r->setup->options;
    if (o && o->print)
        o->print(o->print_user, message, value);
}

static void report_status(flxi_eval *e, uint32_t status)
{
    const flx_run_options *o = evaluation_of(e)->r->setup->options;
    if (o && o->status)
        *o->status |= status;
}

static flx_code run_evaluation(running *r, block *b, const flxi_step *s, step_state *t)
{
    const flxi_node *n = flxi_node_at(b->l->g, s->node);
    bool is_host = r->device->uses_host_memory;
    for (uint32_t k = 0; k < s->num_slots; k++) {
        flx_tensor *x = &t->tensors[k];
        if (is_host)
            x->data = b->at[s->slots[k]];
        else if (k < n->nin && x->nbytes)
            FLXI_TRY(r->device->copy(&r->run, x->data, b->at[s->slots[k]], x->nbytes, COPY_TO_HOST));
    }
    bool writes_all = flxi_ops[n->op].traits & TRAIT_EXCHANGES; /* and may write tens of megabytes */
    for (uint32_t k = 0; !writes_all && k < n->nout; k++)
        if (t->out[k]->nbytes)
            flxi_stop_clear(t->out[k]->data, t->out[k]->nbytes);
    evaluation v = {r, b, s, t};
    flxi_eval e = {.op = &flxi_ops[n->op],
                   .label = flxi_node_label(b->l->g, n),
                   .origin = n->origin,
                   .attrs = n->attrs,
                   .nin = n->nin,
                   .nout = n->nout,
                   .in = t->in,
                   .out = t->out,
                   .mem = r->s->m->mem,
                   .run = (flxi_run *)(void *)&v,
                   .err = r->err,
                   .run_body = run_body,
                   .print = print_value,
                   .report = report_status,
                   .started = s->ends_before && !is_watched(r) ? &t->exchange : NULL};
    FLXI_TRY(e.op->rules->eval(&e));
    for (uint32_t k = 0; !is_host && k < n->nout; k++)
        if (t->out[k]->nbytes)
            FLXI_TRY(r->device->copy(&r->run, b->at[s->slots[n->nin + k]], t->out[k]->data, t->out[k]->nbytes,
                                     COPY_TO_DEVICE));
    return FLX_OK;
}

static flx_code move_for_call(void *user, void *to, const void *from, size_t n)
{
    running *r = user;
    return from ? copy(r, to, from, n) : r->device->clear(&r->run, to, n);
}

static flx_code look_for_call(void *user, const void *at, size_t n, const void **out)
{
    return look(user, at, n, out);
}

/* On the memory of operands and results themselves. */
static flx_code run_dispatch(running *r, block *b, const flxi_step *s, step_state *t)
{
    const flxi_node *n = flxi_node_at(b->l->g, s->node);
    size_t own = rounded(r->s->m->compiled[s->kernel].scratch);
    for (uint32_t k = 0; k < s->num_slots; k++)
        t->data[k] = b->at[s->slots[k]];
    flxi_call_run c = {.in = (const void *const *)t->data,
                       .out = t->data + s->num_reads,
                       .consumed = s->consumed,
                       .own = b->base + s->scratch_offset + own,
                       .data = t->bound,
                       .count = t->count,
                       .mem = r->s->m->mem};
    if (!r->device->uses_host_memory) {
        c.move = move_for_call;
        c.look = look_for_call;
        c.user = r;
    }
    flxi_eval e = {.op = &flxi_ops[n->op], .label = flxi_node_label(b->l->g, n), .origin = n->origin, .err = r->err};
    flxi_call_step call = {.code = r->s->m->compiled[s->kernel].code,
                           .kernel = s->call->kernel,
                           .data = c.data,
                           .count = c.count,
                           .grid = {s->grid[0], s->grid[1], s->grid[2]},
                           .work = s->work,
                           .scratch = b->base + s->scratch_offset};
    flx_error why = {0};
    flxi_device_run run = r->run;
    run.err = &why;
    flx_code code = flxi_call_begin(s->call, &c, &e);
    if (code == FLX_OK)
        code = r->device->run_call(&run, &call);
    code = flxi_call_end(s->call, &c, &e, code, &why);
    return flxi_stop_or(code, r->err);
}

static flx_code run_route(running *r, block *b, const flxi_step *s, step_state *t)
{
    for (uint32_t k = 0; k < s->num_slots; k++)
        t->data[k] = b->at[s->slots[k]];
    flxi_node_step call = {.node = s->described,
                           .way = s->way,
                           .in = (const void *const *)t->data,
                           .out = t->data + s->described->nin,
                           .scratch = b->base + s->scratch_offset};
    return r->device->run_node(&r->run, &call);
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

/* The block of body k, or of a part of the examples, with its memory, the first in the step's scratch: bodies run one
   after the other and share it, and each part has a range of its own. */
static block *body_at(const block *b, const flxi_step *s, const step_state *t, uint32_t k, uint32_t part)
{
    block *body = t->bodies[k + part];
    place_block(body, b->base + s->scratch_offset + part * (s->scratch / parts_of(s)));
    return body;
}

/* The two buffers of carry k, after the bodies' memory. */
static unsigned char *carry_buffer(const block *b, const flxi_step *s, uint32_t k, uint32_t which, uint32_t part)
{
    size_t parts = parts_of(s);
    unsigned char *p = b->base + s->scratch_offset + part * (s->scratch / parts) + flxi_step_body_bytes(s);
    for (uint32_t j = 0; j < k; j++)
        p += 2 * rounded(operand_bytes(b, s, j) / parts);
    return p + which * rounded(operand_bytes(b, s, k) / parts);
}

typedef struct {
    const scan_attrs *a;
    uint32_t carries, shared, results;
    int64_t length;
    size_t parts; /* a row of a sequence, and a carry, are that many pieces, one after the other */
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
    const block *body = t->bodies[part];
    for (uint32_t k = 0; k < c->carries; k++) {
        size_t nbytes = operand_bytes(b, s, k), piece = part * (nbytes / c->parts);
        t->body_in[k] = step ? t->body_out[k] : (const unsigned char *)operand_at(b, s, k) + piece;
        if (row >= 0)
            t->body_out[k] = (unsigned char *)result_at(b, s, k) + (size_t)row * nbytes + piece;
        else if (step == c->length - 1 && !c->a->save_trajectory)
            t->body_out[k] = (unsigned char *)result_at(b, s, k) + piece;
        else
            t->body_out[k] = carry_buffer(b, s, k, (uint32_t)step & 1, part);
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

/* ---- Scans that are a chain ---- */

/* A part of the rows of a stack: where that of step 0 is. */
static flxi_loop_row row_of(const scan_shape *c, unsigned char *stack, size_t piece, uint32_t part)
{
    size_t nbytes = piece * c->parts, first = c->a->reverse ? (size_t)(c->length - 1) * nbytes : 0;
    return (flxi_loop_row){stack + first + part * piece, c->a->reverse ? -(int64_t)nbytes : (int64_t)nbytes};
}

static flxi_loop_carry carry_of(const block *b, const flxi_step *s, const scan_shape *c, uint32_t k, uint32_t part)
{
    size_t piece = operand_bytes(b, s, k) / c->parts;
    flxi_loop_carry y = {.in = (const unsigned char *)operand_at(b, s, k) + part * piece};
    if (c->a->save_trajectory) {
        flxi_loop_row row = row_of(c, result_at(b, s, k), piece, part);
        y.buffer[0] = y.buffer[1] = row.at;
        y.step = row.step;
        return y;
    }
    unsigned last = c->length % 2 == 0; /* the last step writes the result itself */
    y.buffer[last] = (unsigned char *)result_at(b, s, k) + part * piece;
    y.buffer[!last] = carry_buffer(b, s, k, 0, part);
    return y;
}

/* The addresses of one part of the examples, in the order in which the chain's loop knows them. */
static void bind_part(const block *b, const flxi_step *s, step_state *t, const scan_shape *c, uint32_t part)
{
    block *body = body_at(b, s, t, 0, part);
    const flxi_chain_loop *loop = body->l->chain->loop;
    flxi_loop_carry *carries = t->carries + (size_t)part * loop->num_carries;
    flxi_loop_row *rows = t->rows + (size_t)part * loop->num_rows;
    for (uint32_t k = 0; k < c->carries; k++)
        carries[k] = carry_of(b, s, c, k, part);
    for (uint32_t i = 0; i < loop->num_shared; i++)
        body->at[loop->shared[i].slot] = b->at[s->slots[loop->shared[i].value]];
    for (uint32_t i = 0; i < loop->num_rows; i++)
        rows[i] = row_of(c, b->at[s->slots[loop->rows[i].value]], body->l->slots[loop->rows[i].slot].nbytes, part);
    t->parts[part] = (flxi_loop_part){body->at, rows, carries};
}

static flx_code run_scan_chain(running *r, block *b, const flxi_step *s, step_state *t, const scan_shape *c)
{
    for (uint32_t part = 0; part < c->parts; part++)
        bind_part(b, s, t, c, part);
    return r->device->run_loop(&r->run, t->bodies[0]->l->chain, t->parts, (uint32_t)c->parts, c->length);
}

/* ---- Scans whose steps are independent ---- */

typedef struct {
    running *r;
    block *b;
    const flxi_step *s;
    step_state *t;
    const scan_shape *c;
    _Atomic int64_t next;   /* step to draw */
    _Atomic int64_t failed; /* the first step that failed; the length: none */
} sharing;

/* Of several errors the first in the order of steps is reported, whichever comes first in time: those before it are all
   run. */
static void note_failure(sharing *w, int64_t step)
{
    int64_t first = atomic_load(&w->failed);
    while (step < first && !atomic_compare_exchange_weak(&w->failed, &first, step))
        continue;
}

static void run_worker(void *user, int64_t i)
{
    sharing *w = user;
    const flxi_step *s = w->s;
    running mine = *w->r;
    step_state t = *w->t;
    worker *own = &t.workers[i];
    *own = (worker){.failed = -1};
    t.bodies += i;
    t.body_in += (size_t)i * s->num_reads;
    t.body_out += (size_t)i * w->c->results;
    mine.err = mine.run.err = &own->err;
    mine.run.queue = NULL;
    mine.run.status = &own->status;
    place_block(t.bodies[0], w->b->base + s->scratch_offset + (size_t)i * (s->scratch / s->workers));
    for (;;) {
        int64_t step = atomic_fetch_add(&w->next, 1);
        if (step >= atomic_load(&w->failed))
            return;
        bind_scan(w->b, s, &t, w->c, step, 0);
        own->code = run_block(&mine, t.bodies[0], t.body_in, t.body_out);
        if (own->code != FLX_OK) {
            own->failed = step;
            note_failure(w, step);
            return;
        }
    }
}

static flx_code run_scan_apart(running *r, block *b, const flxi_step *s, step_state *t, const scan_shape *c)
{
    sharing w = {.r = r, .b = b, .s = s, .t = t, .c = c};
    atomic_init(&w.next, 0);
    atomic_init(&w.failed, c->length);
    for (uint32_t i = 0; i < s->workers; i++)
        t->workers[i] = (worker){.failed = -1};
    r->device->run_apart(&r->run, s->workers, run_worker, &w);
    for (uint32_t i = 0; i < s->workers; i++) {
        const worker *own = &t->workers[i];
        if (r->run.status)
            *r->run.status |= own->status;
        if (own->failed >= 0 && own->failed == atomic_load(&w.failed)) {
            if (r->err)
                *r->err = own->err;
            return own->code;
        }
    }
    return FLX_OK;
}

static flx_code run_scan(running *r, block *b, const flxi_step *s, step_state *t)
{
    const flxi_node *n = flxi_node_at(b->l->g, s->node);
    scan_shape c = {.a = flxi_scan_attrs(n), .results = n->nout, .parts = s->parts ? s->parts : 1};
    c.carries = (uint32_t)c.a->num_carry;
    c.shared = c.carries + (uint32_t)c.a->num_bcast;
    c.length = scan_length(b->l->g, n);
    for (uint32_t k = 0; c.length == 0 && !c.a->save_trajectory && k < c.carries; k++)
        FLXI_TRY(copy(r, result_at(b, s, k), operand_at(b, s, k), operand_bytes(b, s, k)));
    if (uses_chains(r) && has_loop(s, n, c.length))
        return run_scan_chain(r, b, s, t, &c);
    if (s->workers && uses_chains(r))
        return run_scan_apart(r, b, s, t, &c);
    running alone = *r; /* the memory of such a body is for one thread */
    alone.run.queue = s->workers ? NULL : r->run.queue;
    for (uint32_t part = 0; part < c.parts; part++)
        for (int64_t step = 0; step < c.length; step++) {
            bind_scan(b, s, t, &c, step, part);
            FLXI_TRY(run_block(&alone, body_at(b, s, t, 0, part), t->body_in, t->body_out));
        }
    return FLX_OK;
}

static flx_code run_while(running *r, block *b, const flxi_step *s, step_state *t)
{
    const while_attrs *a = flxi_while_attrs(flxi_node_at(b->l->g, s->node));
    const flxi_routine *cond = s->bodies[0];
    int32_t dtype = flxi_type_at(cond->g, cond->g->outputs.at[0].val)->dtype;
    void *answer = carry_buffer(b, s, s->num_reads, 0, 0);
    for (uint32_t k = 0; k < s->num_reads; k++)
        t->body_in[k] = operand_at(b, s, k);
    for (int64_t i = 0;; i++) {
        FLXI_TRY(run_block(r, body_at(b, s, t, 0, 0), t->body_in, &answer));
        const void *seen;
        FLXI_TRY(look(r, answer, flx_dtype_size((flx_dtype)dtype), &seen));
        bool goes_on = flxi_load_truth(dtype, seen, 0);
        if (goes_on && a->max_iterations != FLXI_ABSENT && i >= a->max_iterations) {
            const flx_run_options *o = r->setup->options;
            if (o && o->status)
                *o->status |= FLX_RUN_LOOP_CUT;
            goes_on = false;
        }
        if (!goes_on)
            break;
        for (uint32_t k = 0; k < s->num_reads; k++)
            t->body_out[k] = carry_buffer(b, s, k, (uint32_t)i & 1, 0);
        FLXI_TRY(run_block(r, body_at(b, s, t, 1, 0), t->body_in, t->body_out));
        for (uint32_t k = 0; k < s->num_reads; k++)
            t->body_in[k] = t->body_out[k];
    }
    for (uint32_t k = 0; k < s->num_reads; k++)
        FLXI_TRY(copy(r, result_at(b, s, k), t->body_in[k], operand_bytes(b, s, k)));
    return FLX_OK;
}

static flx_code run_branch(running *r, block *b, const flxi_step *s, step_state *t)
{
    const flxi_node *n = flxi_node_at(b->l->g, s->node);
    int32_t dtype = flxi_type_at(b->l->g, n->in[0])->dtype;
    const void *index;
    FLXI_TRY(look(r, operand_at(b, s, 0), operand_bytes(b, s, 0), &index));
    uint32_t chosen =
        flxi_if_attrs(n) ? !flxi_load_truth(dtype, index, 0) : flxi_case_branch(dtype, index, s->num_bodies);
    for (uint32_t k = 1; k < s->num_reads; k++)
        t->body_in[k - 1] = operand_at(b, s, k);
    for (uint32_t k = 0; k < n->nout; k++)
        t->body_out[k] = result_at(b, s, k);
    return run_block(r, body_at(b, s, t, chosen, 0), t->body_in, t->body_out);
}

static flx_code run_call(running *r, block *b, const flxi_step *s, step_state *t)
{
    for (uint32_t k = 0; k < s->num_reads; k++)
        t->body_in[k] = operand_at(b, s, k);
    for (uint32_t k = s->num_reads; k < s->num_slots; k++)
        t->body_out[k - s->num_reads] = b->at[s->slots[k]];
    return run_block(r, body_at(b, s, t, 0, 0), t->body_in, t->body_out);
}

/* ---- Blocks ---- */

static flx_code run_step(running *r, block *b, uint32_t i)
{
    const flxi_step *s = &b->l->steps[i];
    step_state *t = &b->steps[i];
    switch ((flxi_step_kind)s->kind) {
    case STEP_KERNEL: return run_kernel(r, b, s, t);
    case STEP_EVALUATE: return run_evaluation(r, b, s, t);
    case STEP_COPY: return copy(r, b->at[s->slots[1]], b->at[s->slots[0]], operand_bytes(b, s, 0));
    case STEP_SCAN: return run_scan(r, b, s, t);
    case STEP_WHILE: return run_while(r, b, s, t);
    case STEP_BRANCH: return run_branch(r, b, s, t);
    case STEP_CALL: return run_call(r, b, s, t);
    case STEP_ROUTE: return run_route(r, b, s, t);
    case STEP_DISPATCH: return run_dispatch(r, b, s, t);
    }
    return flxi_fail(r->err, FLX_E_INTERNAL, "step %u has no kind", i);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static flx_code name_step(running *r, const block *b, uint32_t i, flx_code code)
{
    const flxi_node *n = flxi_node_at(b->l->g, b->l->steps[i].node);
    flxi_at_node(r->err, b->l->g, n);
    return code;
}

/* Looks at what a step wrote; a copy makes nothing new. */
static flx_code check_finite(running *r, const block *b, const flxi_step *s)
{
    for (uint32_t k = 0; k < s->num_slots && s->kind != STEP_COPY; k++) {
        if (!flxi_step_writes(b->l->program, s, k))
            continue;
        const void *data;
        FLXI_TRY(look(r, b->at[s->slots[k]], operand_bytes(b, s, k), &data));
        FLXI_TRY(flxi_step_check_finite(b->l, s, k, data, r->err));
    }
    return FLX_OK;
}

static flx_code finish(running *r)
{
    return r->device->finish ? r->device->finish(&r->run) : FLX_OK;
}

/* Before inputs are overwritten: what the caller said must be finite, and no stop later. */
static flx_code check_guard(running *r, const block *b)
{
    const flxi_routine *l = b->l;
    const void *data;
    if (!r->setup->guard || b != r->s->main)
        return FLX_OK;
    const flxi_slot *slot = &l->slots[l->outputs[r->setup->guard - 1]];
    const flx_type *type = flxi_type_at(l->g, slot->value);
    FLXI_TRY(look(r, b->at[l->outputs[r->setup->guard - 1]], slot->nbytes, &data));
    if (flxi_first_not_finite(type->dtype, data, 1) < 0)
        return FLX_OK;
    return flxi_fail(r->err, FLX_E_NUMERIC, "'%.60s' is not finite", l->g->outputs.at[r->setup->guard - 1].name);
}

/* ---- Exchanges beside steps ---- */

/* Waits for the exchange that step i has started. */
static flx_code end_exchange(running *r, block *b, uint32_t i)
{
    const flxi_node *n = flxi_node_at(b->l->g, b->l->steps[i].node);
    uint64_t exchange = b->steps[i].exchange;
    flxi_eval e = {.op = &flxi_ops[n->op], .label = flxi_node_label(b->l->g, n), .origin = n->origin, .err = r->err};
    b->steps[i].exchange = 0;
    flx_code code = exchange ? flxi_stop_or(flxi_exchange_finish(&e, r->s->m->ctx, exchange), r->err) : FLX_OK;
    return code == FLX_OK ? FLX_OK : name_step(r, b, i, code);
}

/* Those of the steps before `to`, one after the other: the first that failed is named. */
static flx_code end_exchanges(running *r, block *b, uint32_t to)
{
    while (b->running < to)
        FLXI_TRY(end_exchange(r, b, b->running++));
    return FLX_OK;
}

/* Says what step i, which is noted, has to wait for. */
static flx_code begin_piece(running *r, const block *b, uint32_t i)
{
    const flxi_step_order *o = r->order;
    if (!o || !o->n || b != r->s->main)
        return FLX_OK;
    i -= o->from;
    return r->device->note_piece(&r->run, i, o->after + o->first[i], o->first[i + 1] - o->first[i]);
}

/* Steps [from, to), each watched where that is wanted. Those that overwrite inputs are not checked: a run must not end
   between two of them. */
static flx_code run_steps(running *r, block *b, uint32_t from, uint32_t to)
{
    const flxi_routine *l = b->l;
    bool is_commit = b == r->s->main && from >= l->commit;
    for (uint32_t i = from; i < to; i++) {
        int64_t begin = r->setup->observe ? now_ns() : 0;
        if (l->steps[i].awaits)
            FLXI_TRY(end_exchanges(r, b, l->steps[i].awaits));
        flx_code code = begin_piece(r, b, i);
        if (code == FLX_OK)
            code = flxi_stop_or(run_step(r, b, i), r->err);
        if (code == FLX_OK && r->setup->checks_finite && !is_commit)
            code = check_finite(r, b, &l->steps[i]);
        if (code == FLX_OK && r->setup->observe)
            code = finish(r);
        if (code != FLX_OK)
            return name_step(r, b, i, code);
        if (r->setup->observe)
            r->setup->observe(r->setup->observe_user, l, b->base, i, now_ns() - begin);
    }
    return FLX_OK;
}

static flx_code run_range(running *r, block *b, uint32_t from, uint32_t to)
{
    b->running = b->l->g->has_exchanges ? from : to;
    flx_code code = run_steps(r, b, from, to);
    if (code == FLX_OK)
        code = end_exchanges(r, b, to);
    flx_error ignored = {0};
    running quiet = *r;
    quiet.err = &ignored;
    while (code != FLX_OK && b->running < to) /* those that have begun use the memory of the run */
        end_exchanges(&quiet, b, to);
    return code;
}

/* Notes the steps as they run, on a queue of its own. */
static flx_code note_range(running *r, block *b, uint32_t from, uint32_t to, flxi_sequence **sequence)
{
    const flxi_allocator *mem = r->s->m->mem;
    flxi_step_order order = {0};
    if (r->device->note_piece)
        FLXI_TRY(flxi_step_order_make(b->l, b->at, b->base, from, to, mem, &order, r->err));
    flxi_queue *usual = r->run.queue;
    flx_code code = r->device->note(&r->run, &r->run.queue);
    if (code == FLX_OK) {
        flxi_queue *queue = r->run.queue;
        r->order = &order;
        code = run_range(r, b, from, to);
        r->run.queue = usual;
        flx_code end = r->device->end_note(&r->run, queue, code == FLX_OK ? sequence : NULL);
        code = code == FLX_OK ? end : code;
    }
    flxi_step_order_free(&order, mem);
    return code;
}

/* The same, noted as they run for the second time, and as one from then on. What cannot be noted is run. */
static flx_code run_noted(running *r, block *b, uint32_t from, uint32_t to, flxi_sequence **sequence)
{
    if (!r->s->has_run || to - from == 0)
        return run_range(r, b, from, to);
    if (!*sequence) {
        running noting = *r;
        flx_error why = {0};
        noting.err = noting.run.err = &why;
        flx_code code = note_range(&noting, b, from, to, sequence);
        FLXI_TRY(flxi_stop_check(r->err));
        r->s->is_notable = code == FLX_OK;
    }
    return *sequence ? r->device->run_sequence(&r->run, *sequence) : run_range(r, b, from, to);
}

static flx_code run_main_range(running *r, block *b, uint32_t from, uint32_t to, bool is_commit)
{
    if (b != r->s->main || !r->s->is_notable || is_watched(r))
        return run_range(r, b, from, to);
    return run_noted(r, b, from, to, &r->s->sequence[is_commit]);
}

/* The steps that overwrite inputs: nothing stops them, and nothing of them can fail. */
static flx_code run_commit(running *r, block *b)
{
    FLXI_TRY(flxi_stop_check(r->err));
    if (!r->device->uses_host_memory)
        FLXI_TRY(finish(r)); /* what steps have found is known only then */
    flx_stop *stop = flxi_stop_swap(NULL);
    r->has_committed = true;
    flx_code code = run_main_range(r, b, b->l->commit, b->l->num_steps, true);
    flxi_stop_swap(stop);
    return code;
}

static flx_code run_block(running *r, block *b, const void *const *in, void *const *out)
{
    const flxi_routine *l = b->l;
    FLXI_TRY(flxi_stop_check(r->err)); /* a body may have no steps */
    for (uint32_t i = 0; i < l->num_slots; i++) {
        if (l->slots[i].segment == SEGMENT_INPUT)
            b->at[i] = (void *)(uintptr_t)in[l->slots[i].index]; /* only ever read */
        else if (l->slots[i].segment == SEGMENT_OUTPUT)
            b->at[i] = out[l->slots[i].index];
    }
    if (l->chain && l->chain->code && r->device->run_chain && uses_chains(r)) {
        FLXI_TRY(flxi_stop_or(r->device->run_chain(&r->run, l->chain, b->at), r->err));
        return check_guard(r, b);
    }
    uint32_t end = b == r->s->main ? l->commit : l->num_steps;
    FLXI_TRY(run_main_range(r, b, 0, end, false));
    FLXI_TRY(check_guard(r, b));
    return end < l->num_steps ? run_commit(r, b) : FLX_OK;
}

/* ---- Runs ---- */

/* On mirrors of the caller's memory. */
static flx_code run_mirrored(running *r, flxi_state *s, const void *const *inputs, void *const *outputs)
{
    const flx_run_options *o = r->setup->options;
    bool is_moved;
    FLXI_TRY(flxi_mirrors_send(&s->mirrors, &r->run, o ? o->kept_inputs : NULL, inputs, outputs, &is_moved));
    if (is_moved)
        free_sequences(s);
    r->has_committed = !(s->m->options.flags & FLX_COMPILE_ATOMIC);
    FLXI_TRY(run_block(r, s->main, s->mirrors.in, s->mirrors.out));
    s->has_run = true;
    if (flxi_mirrors_has_moves(&s->mirrors)) {
        if (!r->has_committed)
            FLXI_TRY(finish(r));
        r->has_committed = true;
        FLXI_TRY(flxi_mirrors_move(&s->mirrors, &r->run));
    }
    return flxi_mirrors_receive(&s->mirrors, &r->run, o ? o->left_outputs : NULL, outputs);
}

flx_code flxi_state_fetch(flxi_state *s, flxi_queue *queue, flx_error *err)
{
    flxi_device_run run = {.ctx = s->m->ctx, .queue = queue, .err = err};
    return s->m->device->uses_host_memory ? FLX_OK : flxi_mirrors_fetch(&s->mirrors, &run);
}

flx_code flxi_state_run(flxi_state *s, const flxi_run_setup *setup, const void *const *inputs, void *const *outputs,
                        flx_error *err)
{
    const flxi_device *device = s->m->device;
    running r = {.s = s, .device = device, .setup = setup, .err = err};
    r.run = (flxi_device_run){.ctx = s->m->ctx,
                              .queue = setup->queue,
                              .is_large = s->is_large,
                              .min_parallel = setup->min_parallel,
                              .status = setup->options ? setup->options->status : NULL,
                              .err = err};
    if (r.run.status && s->m->is_slow)
        *r.run.status |= FLX_RUN_SLOW;
    uint32_t mode = flxi_float_mode();
    place_block(s->main, s->memory.at);
    if (setup->flushes)
        flxi_set_float_mode(flxi_flushing(mode));
    if (device->begin)
        device->begin(&r.run);
    flx_code code =
        device->uses_host_memory ? run_block(&r, s->main, inputs, outputs) : run_mirrored(&r, s, inputs, outputs);
    flx_code last = finish(&r); /* in any case: no step may continue after the run */
    if (code != FLX_OK || last != FLX_OK)
        flxi_mirrors_forget(&s->mirrors, !r.has_committed);
    if (device->end)
        device->end(&r.run);
    if (setup->flushes)
        flxi_set_float_mode(mode);
    return code == FLX_OK ? last : code;
}
