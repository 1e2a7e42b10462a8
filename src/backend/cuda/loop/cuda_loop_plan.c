/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_loop_plan.c: which loops are one launch, and where the values of their bodies are. A body must be small: each
   block computes everything except products, and what it computes must fit its shared memory. */
#include "backend/cuda/loop/cuda_loop.h"
#include "kernel/program/kernel.h"
#include "ops/opcode.h"

enum { MOST_MEMORY = 96 << 10, MOST_HELD = 128, MOST_EACH = 16, MOST_TIMES = 16 };

/* Weights that a block reads in every step stay in the nearest cache. */
static const int64_t most_cached = 128 << 10;

/* ---- Steps ---- */

bool flxi_cuda_loop_writes(const flxi_chain_step *s, uint32_t k)
{
    if (s->kind == CHAIN_KERNEL)
        return s->text->buffers[k + 1].access != FLX_KERNEL_READ;
    return k >= (s->kind == CHAIN_NODE ? s->node.nin : 1);
}

/* A block has all invocations in turn, so they must not wait for each other; subgroups are whole warps. */
static const char *refuse_kernel(const flx_kernel *k)
{
    for (uint32_t i = 1; i <= k->num_buffers; i++)
        if (!flxi_kbuffer_is_bound(&k->buffers[i]))
            return "it needs memory of a workgroup";
    return flxi_kernel_workgroup(k) % 32 ? "its workgroups are no whole warps" : NULL;
}

/* The stride of the only axis, if there is at most one. */
static bool take_stride(const flxi_card_walk *w, int32_t *out)
{
    int64_t stride = w->rank ? w->stride[0] : 0;
    *out = (int32_t)stride;
    return w->rank <= 1 && stride >= 0 && stride <= INT32_MAX;
}

static const char *refuse_product(const flxi_chain_step *s, flxi_loop_product *out)
{
    if ((s->node.op != OP_matmul && s->node.op != OP_dot_general) || flxi_card_refuse_product(&s->node))
        return "it is neither a kernel nor a product";
    if (s->node.out_types[0]->dtype != FLX_F32)
        return "it is not a product of f32";
    flxi_card_product p = flxi_card_plan_product(&s->node).product;
    *out = (flxi_loop_product){.m = p.m, .n = p.n, .k = p.k};
    if (p.batches != 1 || !take_stride(&p.a_line, &out->a_line) || !take_stride(&p.a_depth, &out->a_depth) ||
        !take_stride(&p.b_line, &out->b_line) || !take_stride(&p.b_depth, &out->b_depth))
        return "it is a batch of products, or its matrices have several strides";
    return p.m == 0 || p.n == 0 || p.k == 0 ? "it is empty"
           : p.m > FLXI_LOOP_ROWS           ? "it has too many rows for a part of the examples"
                                            : NULL;
}

static const char *refuse_step(const flxi_chain_step *s, flxi_loop_product *out)
{
    switch ((flxi_chain_kind)s->kind) {
    case CHAIN_KERNEL: return refuse_kernel(s->text);
    case CHAIN_NODE: return refuse_product(s, out);
    case CHAIN_COPY: return NULL;
    case CHAIN_FOREIGN: break;
    }
    return "the host has a part in it";
}

/* ---- The size of blocks ---- */

static uint64_t invocations_of(const flxi_chain_step *s)
{
    return (uint64_t)s->grid[0] * s->grid[1] * s->grid[2] * flxi_kernel_workgroup(s->text);
}

static uint64_t most_invocations(const flxi_chain *c)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->steps[i].kind == CHAIN_KERNEL && invocations_of(&c->steps[i]) > most)
            most = invocations_of(&c->steps[i]);
    return most;
}

static uint64_t weights_of(const flxi_chain *c, const flxi_loop_plan *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->steps[i].kind == CHAIN_NODE)
            sum += (uint64_t)p->products[i].n * p->products[i].k;
    return sum;
}

/* Sums that a thread has at the same time. */
static bool has_few_sums(const flxi_chain *c, const flxi_loop_plan *p)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const flxi_loop_product *x = &p->products[i];
        uint32_t own = (x->n + p->blocks - 1) / p->blocks;
        if (c->steps[i].kind == CHAIN_NODE && (own + p->threads - 1) / p->threads * x->m > MOST_TIMES)
            return false;
    }
    return true;
}

/* The fewest threads and blocks that hold all weights in registers; else the most of them. Without products one block
   has as many threads as there is work for. */
static const char *choose_blocks(const flxi_chain *c, flxi_loop_plan *p)
{
    uint64_t most = most_invocations(c), weights = weights_of(c, p);
    p->blocks = 1;
    for (p->threads = 128; !p->num_products && p->threads < 1024 && p->threads < most; p->threads *= 2)
        ;
    p->holds_weights = weights <= (uint64_t)MOST_HELD * p->threads;
    for (uint32_t threads = 128; !p->holds_weights && threads <= 256; threads *= 2)
        for (uint32_t blocks = 1; !p->holds_weights && blocks <= 8; blocks *= 2) {
            p->threads = threads;
            p->blocks = blocks;
            p->holds_weights = weights <= (uint64_t)MOST_HELD * threads * blocks;
        }
    if (!p->holds_weights && weights * sizeof(float) > (uint64_t)most_cached * p->blocks)
        return "its weights fit no registers and no cache";
    if (most > (uint64_t)MOST_EACH * p->threads)
        return "a kernel has too many elements for a block";
    return has_few_sums(c, p) ? NULL : "a product has too many columns for a block";
}

/* ---- Places ---- */

static uint32_t take(flxi_loop_plan *p, size_t nbytes)
{
    size_t at = p->memory;
    size_t end = at + (nbytes + 15) / 16 * 16;
    p->memory = end < UINT32_MAX ? (uint32_t)end : UINT32_MAX; /* then it does not fit */
    return (uint32_t)at;
}

static void put(const flxi_chain *c, flxi_loop_plan *p, uint32_t slot, flxi_loop_kind kind, uint32_t line,
                uint32_t buffers)
{
    size_t each = c->slot_bytes[slot] < MOST_MEMORY ? (c->slot_bytes[slot] + 15) / 16 * 16 : MOST_MEMORY;
    p->slots[slot] =
        (flxi_loop_slot){.kind = (uint8_t)kind, .line = line, .at = take(p, each * buffers), .each = (uint32_t)each};
}

/* Which slots some step writes, and which are used at all. */
static void mark(const flxi_chain *c, bool *is_used, bool *is_written)
{
    for (uint32_t i = 0; i < c->n; i++)
        for (uint32_t k = 0; k < c->steps[i].num_slots; k++) {
            is_used[c->steps[i].slots[k]] = true;
            is_written[c->steps[i].slots[k]] |= flxi_cuda_loop_writes(&c->steps[i], k);
        }
}

/* The steps from the first that uses the slot to the last one. */
static void find_life(const flxi_chain *c, uint32_t slot, uint32_t life[2])
{
    life[0] = UINT32_MAX;
    for (uint32_t i = 0; i < c->n; i++)
        for (uint32_t k = 0; k < c->steps[i].num_slots; k++)
            if (c->steps[i].slots[k] == slot) {
                life[0] = life[0] == UINT32_MAX ? i : life[0];
                life[1] = i;
            }
}

/* After the slots before it, those that are needed at the same time. */
static void put_own(const flxi_chain *c, flxi_loop_plan *p, uint32_t slot, uint32_t base)
{
    uint32_t life[2], other[2], memory = p->memory, at = base;
    find_life(c, slot, life);
    put(c, p, slot, LOOP_OWN, 0, 1);
    for (uint32_t i = 0; i < slot; i++) {
        const flxi_loop_slot *x = &p->slots[i];
        if (x->kind != LOOP_OWN || x->at + x->each <= at || at + p->slots[slot].each <= x->at)
            continue;
        find_life(c, i, other);
        if (other[1] < life[0] || life[1] < other[0])
            continue;
        at = x->at + x->each;
        i = UINT32_MAX; /* from the first one again */
    }
    p->slots[slot].at = at;
    p->memory = at + p->slots[slot].each > memory ? at + p->slots[slot].each : memory;
}

static const char *place_links(const flxi_chain *c, flxi_loop_plan *p, const bool *is_written)
{
    const flxi_chain_loop *l = c->loop;
    for (uint32_t i = 0; i < l->num_rows; i++) {
        uint32_t slot = l->rows[i].slot;
        if (p->slots[slot].kind != LOOP_UNUSED)
            return "two results are in one place";
        if (is_written[slot])
            put(c, p, slot, LOOP_RESULT, i, 2);
        else
            put(c, p, slot, LOOP_ROW, i, FLXI_LOOP_STAGES);
    }
    for (uint32_t i = 0; i < l->num_carries; i++) {
        uint32_t line = l->num_rows + 3 * i, in = l->carry_in[i], out = l->carry_out[i];
        if (!is_written[out] || p->slots[out].kind != LOOP_UNUSED || c->slot_bytes[out] == 0)
            return "a carry is written in no place of its own";
        put(c, p, out, LOOP_CARRY_OUT, line, 2);
        if (in != FLXI_NO_SLOT)
            p->slots[in] = p->slots[out];
        if (in != FLXI_NO_SLOT)
            p->slots[in].kind = LOOP_CARRY_IN;
    }
    p->num_lines = l->num_rows + 3 * l->num_carries;
    return NULL;
}

static const char *place_slots(const flxi_chain *c, flxi_loop_plan *p)
{
    bool is_used[FLXI_LOOP_SLOTS] = {0}, is_written[FLXI_LOOP_SLOTS] = {0};
    mark(c, is_used, is_written);
    const char *why = place_links(c, p, is_written);
    if (why)
        return why;
    uint32_t base = p->memory;
    for (uint32_t i = 0; i < c->num_slots; i++) {
        if (!is_used[i] || p->slots[i].kind != LOOP_UNUSED)
            continue;
        if (is_written[i])
            put_own(c, p, i, base);
        else
            p->slots[i] = (flxi_loop_slot){.kind = LOOP_GLOBAL, .line = p->num_lines++};
    }
    return NULL;
}

static void place_exchange(const flxi_chain *c, flxi_loop_plan *p)
{
    if (p->blocks == 1)
        return;
    p->barriers = take(p, (size_t)p->num_products * 2 * sizeof(uint64_t));
    p->exchange = p->memory;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->steps[i].kind == CHAIN_NODE)
            take(p, 2 * (size_t)p->products[i].m * p->products[i].n * sizeof(float));
}

/* ---- Loops ---- */

static const char *plan_steps(const flxi_chain *c, flxi_loop_plan *p, uint32_t *step)
{
    for (*step = 0; *step < c->n; (*step)++) {
        const char *why = refuse_step(&c->steps[*step], &p->products[*step]);
        if (why)
            return why;
        p->num_products += c->steps[*step].kind == CHAIN_NODE;
    }
    *step = 0;
    return NULL;
}

const char *flxi_cuda_plan_loop(const flxi_chain *c, flxi_loop_plan *p, uint32_t *step)
{
    memset(p, 0, sizeof *p);
    *step = 0;
    if (!c->loop || c->n == 0 || c->n > FLXI_LOOP_STEPS || c->num_slots > FLXI_LOOP_SLOTS)
        return "it has too many steps";
    const char *why = plan_steps(c, p, step);
    if (!why)
        why = choose_blocks(c, p);
    if (!why)
        why = place_slots(c, p);
    if (why)
        return why;
    place_exchange(c, p);
    return p->memory > MOST_MEMORY          ? "its values do not fit the memory of a block"
           : p->num_lines > FLXI_LOOP_LINES ? "it has too many operands"
                                            : NULL;
}

bool flxi_cuda_loop_overlaps(const flxi_loop_plan *p, uint32_t a, uint32_t b)
{
    const flxi_loop_slot *x = &p->slots[a], *y = &p->slots[b];
    return a == b || (x->kind == LOOP_OWN && y->kind == LOOP_OWN && x->at < y->at + y->each && y->at < x->at + x->each);
}

bool flxi_cuda_accept_loop(flxi_chain *c, const flx_compile_options *o)
{
    flxi_loop_plan plan;
    uint32_t step;
    (void)o;
    if (!c->loop)
        return false;
    const char *why = flxi_cuda_plan_loop(c, &plan, &step);
    if (why && step < c->n)
        c->steps[step].called = why;
    return !why;
}
