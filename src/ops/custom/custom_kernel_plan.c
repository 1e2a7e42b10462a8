/* SPDX-License-Identifier: Apache-2.0 */
/* custom_kernel_plan.c: see custom_kernel_plan.h. The definition is the evaluation rule (custom_kernel.c); this does
   the same without copies and without reading the kernel again. */
#include "ops/custom/custom_kernel_plan.h"

#include "kernel/check/kernel_check_buffer.h"
#include "kernel/check/kernel_validate.h"
#include "kernel/program/kernel_rewrite.h"
#include "ops/opcode.h"

bool flxi_is_kernel_call(const flxi_node *n)
{
    return n->op == OP_kernel_call;
}

/* ---- Planning ---- */

typedef struct {
    const flx_graph *g;
    const flxi_node *n;
    const flxi_kernel_call *a;
    flxi_kernel_binding *m;
    flxi_call_plan *p;
    flxi_call_buffer *buffers;
    flx_error *err;
} planner;

static bool is_written(const flxi_kbuffer *b)
{
    return b->access == FLX_KERNEL_WRITE || b->access == FLX_KERNEL_READ_WRITE;
}

static flx_code plan_grid(planner *x)
{
    for (size_t i = 0; i < 3; i++) {
        int64_t n = i < x->a->grid.n ? x->a->grid.v[i] : 1;
        if (n < 0 || (uint64_t)n > UINT32_MAX / x->m->k->size[i])
            return flxi_fail(x->err, FLX_E_SIZE, "a grid of %lld workgroups is out of range", (long long)n);
        x->p->grid[i] = (uint32_t)n;
    }
    return FLX_OK;
}

static uint64_t count_invocations(const flxi_call_plan *p, const flx_kernel *k)
{
    uint64_t n = 1;
    for (int a = 0; a < 3; a++)
        if (__builtin_mul_overflow(n, (uint64_t)p->grid[a] * k->size[a], &n))
            return UINT64_MAX;
    return n;
}

static flx_code set_count(planner *x, const flxi_kbuffer *b, uint64_t count, flxi_call_buffer *to)
{
    if (count >= UINT32_MAX || !flxi_kpredicate_holds(b->predicates, b->num_predicates, count))
        return flxi_fail(x->err, FLX_E_SIZE, "buffer '%.60s' cannot have %llu elements", b->name,
                         (unsigned long long)count);
    to->count = (uint32_t)count;
    to->nbytes = flxi_ktype_bytes(b->element, count);
    return FLX_OK;
}

static flx_code plan_scratch(planner *x, const flxi_kbuffer *b, const char *length, flxi_call_buffer *to)
{
    uint64_t count;
    to->is_ours = to->is_zeroed = true;
    if (flxi_kernel_call_needs_counts(length)) {
        to->length = length;
        x->p->is_open = true;
        return FLX_OK;
    }
    if (!flxi_kernel_call_length(length, count_invocations(x->p, x->m->k), NULL, 0, &count))
        return flxi_fail(x->err, FLX_E_KERNEL, "the length of scratch buffer '%.60s' is out of range", b->name);
    return set_count(x, b, count, to);
}

static flx_code plan_buffer(planner *x, uint32_t i)
{
    const flxi_kbuffer *b = &x->m->k->buffers[i];
    flxi_call_buffer *to = &x->buffers[i - 1];
    *to = (flxi_call_buffer){.operand = UINT32_MAX, .result = UINT32_MAX};
    if (!flxi_kbuffer_is_bound(b))
        return FLX_OK;
    const char *length = flxi_kernel_call_scratch(x->m, x->a, i);
    if (length)
        return plan_scratch(x, b, length, to);
    to->operand = flxi_kernel_call_input(x->m, i);
    to->result = flxi_kernel_call_output(x->m, i);
    bool is_operand = to->operand != UINT32_MAX, is_result = to->result != UINT32_MAX;
    if (!is_operand && !is_result)
        return flxi_fail(x->err, FLX_E_KERNEL, "buffer '%.60s' is neither an input nor an output", b->name);
    int64_t count = 0;
    uint32_t value = is_operand ? x->n->in[to->operand] : x->n->first + to->result;
    flxi_static_count(flxi_type_at(x->g, value), &count);
    to->is_bools = b->element == FLX_BOOL;
    to->is_zeroed = !is_operand || (b->flags & FLX_KERNEL_OUTPUT);
    to->is_ours = to->is_bools || (is_operand && !is_result && is_written(b));
    return set_count(x, b, (uint64_t)count, to);
}

static void find_flags(planner *x)
{
    const flx_kernel *k = x->m->k;
    for (size_t i = 0; i < k->num_meta; i++) {
        uint32_t b =
            strncmp(k->meta[i].key, "length overflow", 15) == 0 ? flxi_kernel_find_buffer(k, k->meta[i].key + 7) : 0;
        if (b)
            x->buffers[b - 1].is_flag = true;
    }
}

/* Lengths that are known make indices provably valid, and loops over them have known ends. */
static flx_kernel *with_counts(const planner *x, flxi_arena *arena)
{
    const flx_kernel *k = x->m->k;
    flxi_kbuffer *buffers = flxi_dup(arena, flxi_kbuffer, k->buffers, k->num_buffers + 1);
    flx_kernel view;
    if (!buffers) {
        flxi_oom(x->err, "a kernel");
        return NULL;
    }
    for (uint32_t i = 1; i <= k->num_buffers; i++)
        if (!buffers[i].count && flxi_kbuffer_is_bound(&buffers[i]))
            buffers[i].count = x->buffers[i - 1].count;
    memcpy(&view, k, sizeof view);
    view.buffers = buffers;
    flxi_krewrite copy = {.from = &view};
    flx_kernel *sized = flxi_krewrite_run(&copy, x->err);
    if (sized && flxi_kernel_check(sized, x->err) == FLX_OK)
        return sized;
    flx_kernel_release(sized);
    return NULL;
}

static flx_code plan(planner *x, flxi_arena *arena)
{
    const flx_kernel *k = x->m->k;
    FLXI_TRY(plan_grid(x));
    for (uint32_t i = 1; i <= k->num_buffers; i++) {
        flxi_call_buffer *b = &x->buffers[i - 1];
        FLXI_TRY(plan_buffer(x, i));
        b->offset = x->p->own_bytes;
        if (b->is_ours && !flxi_add_size(x->p->own_bytes, (b->nbytes + 63) / 64 * 64, &x->p->own_bytes))
            return flxi_fail(x->err, FLX_E_SIZE, "the memory of a kernel is out of range");
    }
    find_flags(x);
    x->p->kernel = with_counts(x, arena);
    return x->p->kernel ? FLX_OK : (flx_code)x->err->code;
}

flx_code flxi_call_plan_make(const flx_graph *g, const flxi_node *n, flxi_arena *arena, flxi_call_plan *p,
                             flx_error *err)
{
    flxi_kernel_binding *m = flxi_new(arena, flxi_kernel_binding, 1);
    flx_error local = {0};
    *p = (flxi_call_plan){.counts = UINT32_MAX};
    if (!m)
        return flxi_oom(err, "a kernel");
    flx_code code = flxi_kernel_call_bind(g->ctx, n->attrs, m, &local);
    if (code == FLX_OK) {
        planner x = {.g = g, .n = n, .a = n->attrs, .m = m, .p = p, .err = &local};
        x.buffers = flxi_new(arena, flxi_call_buffer, m->k->num_buffers + 1);
        p->buffers = x.buffers;
        p->num_buffers = m->k->num_buffers;
        if (m->num_scratch) {
            int64_t counts = 0;
            flxi_static_count(flxi_type_at(g, n->in[m->num_inputs]), &counts);
            p->counts = (uint32_t)m->num_inputs;
            p->num_counts = (size_t)counts;
        }
        code = x.buffers ? plan(&x, arena) : flxi_oom(&local, "a kernel");
    }
    flx_kernel_release(m->k);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}

const char *flxi_call_needs_host(const flxi_call_plan *p)
{
    if (p->is_open)
        return "the length of a buffer is known only when it runs";
    for (uint32_t i = 0; i < p->num_buffers; i++)
        if (p->buffers[i].is_bools)
            return "bools are words in kernels and bytes in tensors";
    return NULL;
}

bool flxi_call_is_read(const flxi_call_plan *p)
{
    for (uint32_t i = 0; i < p->num_buffers; i++)
        if (p->buffers[i].is_flag)
            return true;
    return false;
}

/* ---- Before a run ---- */

/* Memory for the scratch whose length is known now. */
static flx_code open_scratch(const flxi_call_plan *p, flxi_call_run *r, flxi_eval *e)
{
    const uint32_t *counts = r->in[p->counts];
    for (uint32_t i = 0; i < p->num_buffers; i++) {
        const flxi_kbuffer *b = &p->kernel->buffers[i + 1];
        uint64_t length;
        if (!p->buffers[i].length)
            continue;
        if (!flxi_kernel_call_length(p->buffers[i].length, count_invocations(p, p->kernel), counts, p->num_counts,
                                     &length))
            return flxi_eval_fail(e, FLX_E_KERNEL, "give the kernel max_trips, or run it on smaller pieces",
                                  "the length of scratch buffer '%.60s' is out of range", b->name);
        r->count[i] = (uint32_t)length;
        if (!flxi_add_size(r->open_bytes, (flxi_ktype_bytes(b->element, length) + 63) / 64 * 64, &r->open_bytes))
            return flxi_oom(e->err, "the buffers of a kernel");
    }
    r->open_bytes += 64;
    r->open = flxi_alloc(r->mem, r->open_bytes, 1);
    if (!r->open)
        return flxi_oom(e->err, "the buffers of a kernel");
    unsigned char *at = r->open + (0 - (uintptr_t)r->open) % 64;
    for (uint32_t i = 0; i < p->num_buffers; i++)
        if (p->buffers[i].length) {
            r->data[i] = at;
            at += (flxi_ktype_bytes(p->kernel->buffers[i + 1].element, r->count[i]) + 63) / 64 * 64;
        }
    return FLX_OK;
}

/* For buffers without elements: nothing is read there, but the pointer must be one. */
static uint64_t nothing;

/* `from` NULL: zeros. */
static flx_code move(const flxi_call_run *r, void *to, const void *from, size_t n)
{
    if (r->move)
        return r->move(r->user, to, from, n);
    if (from)
        memcpy(to, from, n);
    else
        memset(to, 0, n);
    return FLX_OK;
}

static flx_code bind_buffer(const flxi_call_buffer *b, const flxi_call_run *r, void **data)
{
    const void *operand = b->operand != UINT32_MAX ? r->in[b->operand] : NULL;
    void *result = b->result != UINT32_MAX ? r->out[b->result] : NULL;
    if (b->length)
        return FLX_OK;
    bool is_consumed = b->operand < 64 && (r->consumed >> b->operand & 1);
    *data = !b->nbytes                   ? (void *)&nothing
            : b->is_ours && !is_consumed ? r->own + b->offset
            : result                     ? result
                                         : (void *)(uintptr_t)operand; /* only ever read */
    if (!b->nbytes || *data == operand)
        return FLX_OK;
    if (b->is_zeroed || !b->is_bools)
        return move(r, *data, b->is_zeroed ? NULL : operand, b->nbytes);
    for (uint32_t k = 0; k < b->count; k++)
        ((uint32_t *)*data)[k] = ((const uint8_t *)operand)[k];
    return FLX_OK;
}

flx_code flxi_call_begin(const flxi_call_plan *p, flxi_call_run *r, flxi_eval *e)
{
    for (uint32_t i = 0; i < p->num_buffers; i++) {
        r->count[i] = p->buffers[i].count;
        if (flxi_kbuffer_is_bound(&p->kernel->buffers[i + 1]))
            FLXI_TRY(bind_buffer(&p->buffers[i], r, &r->data[i]));
    }
    return p->is_open ? open_scratch(p, r, e) : FLX_OK;
}

/* ---- After it ---- */

static flx_code check_flag(const flxi_call_run *r, uint32_t i, flxi_eval *e)
{
    const void *seen = r->data[i];
    if (r->look && r->count[i])
        FLXI_TRY(r->look(r->user, seen, r->count[i] * sizeof(uint32_t), &seen));
    const uint32_t *words = seen;
    for (uint32_t k = 0; k < r->count[i]; k++)
        if (words[k])
            return flxi_eval_fail(e, FLX_E_KERNEL, "raise max_trips", "a loop made %u trips, more than max_trips",
                                  (unsigned)words[k]);
    return FLX_OK;
}

static flx_code finish(const flxi_call_plan *p, const flxi_call_run *r, flxi_eval *e)
{
    for (uint32_t i = 0; i < p->num_buffers; i++)
        if (p->buffers[i].is_flag)
            FLXI_TRY(check_flag(r, i, e));
    for (uint32_t i = 0; i < p->num_buffers; i++) {
        const flxi_call_buffer *b = &p->buffers[i];
        uint8_t *to = b->is_bools && b->result != UINT32_MAX ? r->out[b->result] : NULL;
        for (uint32_t k = 0; to && k < b->count; k++)
            to[k] = ((const uint32_t *)r->data[i])[k] != 0;
    }
    return FLX_OK;
}

flx_code flxi_call_end(const flxi_call_plan *p, flxi_call_run *r, flxi_eval *e, flx_code code, const flx_error *why)
{
    if (code == FLX_OK)
        code = finish(p, r, e);
    else if (why->code)
        code = flxi_eval_fail(e, code, why->hint[0] ? why->hint : NULL, "%.200s", why->message);
    if (r->open)
        flxi_free(r->mem, r->open, r->open_bytes, 1);
    r->open = NULL;
    return code;
}
