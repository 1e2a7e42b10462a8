/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_batch.c: turns a kernel for one example into one for many. The examples are laid out along an axis of the
   grid, so they never share a workgroup: barriers, subgroups and workgroup memory need no change. What changes are ids
   and lengths, which must read as if there were one example, and indices into buffers that hold all of them. */
#include "kernel/derive/kernel_batch.h"

#include "kernel/check/kernel_validate.h"
#include "kernel/program/kernel_rewrite.h"

typedef struct {
    const flx_kernel *k; /* for one example */
    const flxi_kbatch *how;
    bool has_atomics; /* in the current statement: an operand must not be moved before it */
} batcher;

/* ---- Numbers of the dispatch ---- */

static uint32_t binary(flxi_krewrite *r, flxi_kbinary op, uint32_t x, uint32_t y)
{
    return flxi_kb_binary(r->to, op, x, y);
}

static const flxi_kbatch *how(const flxi_krewrite *r)
{
    return ((const batcher *)r->user)->how;
}

static uint32_t id(flxi_krewrite *r, flx_kernel_id which)
{
    return flxi_kb_id(r->to, which, how(r)->axis);
}

/* Workgroups of one example along the axis. */
static uint32_t groups(flxi_krewrite *r)
{
    if (how(r)->groups)
        return flxi_kb_u32(r->to, how(r)->groups);
    return binary(r, KBIN_div, id(r, FLX_KERNEL_NUM_WORKGROUPS), flxi_kb_u32(r->to, (uint32_t)how(r)->size));
}

static uint32_t examples(flxi_krewrite *r)
{
    if (how(r)->size)
        return flxi_kb_u32(r->to, (uint32_t)how(r)->size);
    uint32_t all = id(r, FLX_KERNEL_NUM_WORKGROUPS);
    return how(r)->groups == 1 ? all : binary(r, KBIN_div, all, groups(r));
}

static uint32_t example(flxi_krewrite *r)
{
    uint32_t group = id(r, FLX_KERNEL_WORKGROUP_ID);
    return how(r)->groups == 1 ? group : binary(r, KBIN_div, group, groups(r));
}

/* The workgroup's number among those of its example. */
static uint32_t group_in_example(flxi_krewrite *r)
{
    if (how(r)->groups == 1)
        return flxi_kb_u32(r->to, 0);
    return binary(r, KBIN_mod, id(r, FLX_KERNEL_WORKGROUP_ID), groups(r));
}

static uint32_t own_id(flxi_krewrite *r, flx_kernel_id which)
{
    uint32_t size = r->from->size[how(r)->axis];
    switch (which) {
    case FLX_KERNEL_NUM_WORKGROUPS: return groups(r);
    case FLX_KERNEL_WORKGROUP_ID: return group_in_example(r);
    case FLX_KERNEL_INVOCATION_ID: {
        uint32_t local = id(r, FLX_KERNEL_LOCAL_ID);
        if (size == 1)
            return group_in_example(r);
        if (how(r)->groups == 1)
            return local;
        return binary(r, KBIN_add, binary(r, KBIN_mul, group_in_example(r), flxi_kb_u32(r->to, size)), local);
    }
    default: return 0;
    }
}

/* As declared for one example. */
static uint64_t count_of(const flxi_krewrite *r, uint32_t buffer)
{
    return ((const batcher *)r->user)->k->buffers[buffer].count;
}

/* Elements of one example. */
static uint32_t length(flxi_krewrite *r, uint32_t buffer)
{
    uint64_t count = count_of(r, buffer);
    if (count)
        return flxi_kb_u32(r->to, (uint32_t)count);
    return binary(r, KBIN_div, flxi_kb_length(r->to, r->buffers[buffer]), examples(r));
}

/* ---- Indices ---- */

/* The index is used twice, so one that loads is computed before the statement: nested loads would grow
   exponentially. */
static uint32_t bind_index(flxi_krewrite *r, uint32_t index)
{
    const flxi_kx *e = flxi_kb_expr(r->to, index);
    bool has_atomics = ((const batcher *)r->user)->has_atomics;
    if (!index || !(e->does & KX_READS) || e->kind == KX_LENGTH || has_atomics)
        return index;
    return flxi_kb_var(r->to, flxi_kb_let(r->to, flxi_krewrite_fresh_name(r, "at"), index));
}

/* The index of the example's element among all. An index out of its bounds stays out of bounds: no buffer has 2^32 - 1
   elements or more, and elements of the next example must not be accessed. */
static uint32_t example_index(flxi_krewrite *r, uint32_t buffer, uint32_t old_index)
{
    uint32_t index = bind_index(r, flxi_krewrite_expr(r, old_index));
    if (!index)
        return 0;
    const flxi_kx *e = flxi_kb_expr(r->to, index);
    uint64_t count = count_of(r, buffer);
    bool is_inside = e->kind == KX_LITERAL && e->bits < count;
    uint32_t n = length(r, buffer);
    uint32_t at = binary(r, KBIN_add, binary(r, KBIN_mul, example(r), n), index);
    if (is_inside)
        return at;
    return flxi_kb_select(r->to, binary(r, KBIN_lt, index, n), at, flxi_kb_u32(r->to, UINT32_MAX));
}

static bool is_batched(const flxi_krewrite *r, uint32_t buffer)
{
    return how(r)->batched[buffer] != 0;
}

static uint32_t batch_expr(flxi_krewrite *r, uint32_t expr)
{
    const flxi_kx *e = &r->from->exprs[expr];
    switch ((flxi_kx_kind)e->kind) {
    case KX_ID: return e->ref == how(r)->axis ? own_id(r, (flx_kernel_id)e->op) : 0;
    case KX_LENGTH: return is_batched(r, e->ref) ? length(r, e->ref) : 0;
    case KX_LOAD:
        return is_batched(r, e->ref) ? flxi_kb_load(r->to, r->buffers[e->ref], example_index(r, e->ref, e->x[0])) : 0;
    case KX_ATOMIC: {
        uint32_t x[3] = {0};
        if (!is_batched(r, e->ref))
            return 0;
        x[0] = example_index(r, e->ref, e->x[0]);
        x[1] = flxi_krewrite_expr(r, e->x[1]);
        x[2] = flxi_krewrite_expr(r, e->x[2]);
        return flxi_krewrite_rebuild(r, e, x, NULL);
    }
    default: return 0;
    }
}

static bool batch_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    batcher *b = r->user;
    b->has_atomics = ((r->from->exprs[s->a].does | r->from->exprs[s->b].does) & KX_ATOMICS) != 0;
    if (s->kind != KS_STORE || !is_batched(r, s->buffer))
        return false;
    uint32_t index = example_index(r, s->buffer, s->a);
    flxi_kb_store(r->to, r->buffers[s->buffer], index, flxi_krewrite_expr(r, s->b));
    return true;
}

/* ---- What can be batched ---- */

static flx_code refuse(const flx_kernel *k, const char *what, flx_error *err)
{
    return flxi_kernel_fail(err, "batching", "run the examples one after the other", "kernel '%.60s' has %s", k->name,
                            what);
}

static flx_code check_statement(const flx_kernel *k, const flxi_kbatch *b, const flxi_ks *s, bool is_nested,
                                flx_error *err)
{
    switch ((flxi_ks_kind)s->kind) {
    case KS_INDIRECT:
    case KS_RESUME:
    case KS_COLLECTIVE:
    case KS_OPAQUE: return refuse(k, "a statement about the whole dispatch", err);
    case KS_ASYNC_LOAD:
    case KS_ASYNC_STORE:
        if (b->batched[s->buffer] || b->batched[s->target])
            return refuse(k, "asynchronous copies of batched buffers", err);
        return FLX_OK;
    case KS_BARRIER: /* examples may take different paths */
        return s->order == FLX_KERNEL_GRID && is_nested ? refuse(k, "a grid barrier in a branch or loop", err) : FLX_OK;
    default: return FLX_OK;
    }
}

static flx_code check_list(const flx_kernel *k, const flxi_kbatch *b, flxi_klist list, bool is_nested, flx_error *err)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        bool nests = is_nested || s->kind == KS_IF || s->kind == KS_LOOP;
        FLXI_TRY(check_statement(k, b, s, is_nested, err));
        FLXI_TRY(check_list(k, b, s->body, nests, err));
        FLXI_TRY(check_list(k, b, s->other, nests, err));
    }
    return FLX_OK;
}

/* Effects must happen once, but an index is used twice. */
static flx_code check_expressions(const flx_kernel *k, const flxi_kbatch *b, flx_error *err)
{
    for (uint32_t i = 1; i <= k->num_exprs; i++) {
        const flxi_kx *e = &k->exprs[i];
        bool indexes = (e->kind == KX_LOAD || e->kind == KX_ATOMIC) && b->batched[e->ref];
        if (e->kind == KX_OPAQUE && !k->opaques[e->ref].pure)
            return refuse(k, "an extension with effects", err);
        if (indexes && (k->exprs[e->x[0]].does & (KX_ATOMICS | KX_SUBGROUP | KX_OPAQUES)))
            return refuse(k, "an index with effects; bind it to a variable", err);
    }
    return FLX_OK;
}

static flx_code check_stores(const flx_kernel *k, const flxi_kbatch *b, flxi_klist list, flx_error *err)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        if (s->kind == KS_STORE && b->batched[s->buffer] &&
            (k->exprs[s->a].does & (KX_ATOMICS | KX_SUBGROUP | KX_OPAQUES)))
            return refuse(k, "an index with effects; bind it to a variable", err);
        FLXI_TRY(check_stores(k, b, s->body, err));
        FLXI_TRY(check_stores(k, b, s->other, err));
    }
    return FLX_OK;
}

static flx_code check_buffers(const flx_kernel *k, const flxi_kbatch *b, flx_error *err)
{
    for (uint32_t i = 1; i <= k->num_buffers; i++) {
        const flxi_kbuffer *f = &k->buffers[i];
        bool is_bound = f->access != FLX_KERNEL_WORKGROUP && f->access != FLX_KERNEL_PRIVATE;
        bool is_written = f->access == FLX_KERNEL_WRITE || f->access == FLX_KERNEL_READ_WRITE;
        uint64_t all = 0;
        if (b->batched[i] && (!is_bound || !flxi_ktype_of(f->element)->kind))
            return refuse(k, is_bound ? "a batched buffer of a descriptive type" : "no bound buffer to batch", err);
        if (!b->batched[i] && is_written)
            return flxi_kernel_fail(err, "batching", "batch every buffer that may be written",
                                    "all examples would write to buffer '%.80s'", f->name);
        if (b->batched[i] && (__builtin_mul_overflow(f->count, b->size, &all) || all >= UINT32_MAX))
            return flxi_kernel_fail(err, "batching", "use smaller batches",
                                    "%llu examples of buffer '%.80s' exceed the range of u32 indices",
                                    (unsigned long long)b->size, f->name);
    }
    return FLX_OK;
}

static flx_code check(const flx_kernel *k, const flxi_kbatch *b, flx_error *err)
{
    if (b->axis > 2 || (!b->groups && !b->size) || b->size > UINT32_MAX)
        return flxi_fail(err, FLX_E_USAGE, "a batch needs a grid axis, and its size or the workgroups of one example");
    FLXI_TRY(flxi_kernel_check(k, err));
    FLXI_TRY(check_buffers(k, b, err));
    FLXI_TRY(check_list(k, b, k->body, false, err));
    FLXI_TRY(check_expressions(k, b, err));
    return check_stores(k, b, k->body, err);
}

/* ---- The whole ---- */

/* A view of k whose batched buffers hold all examples; it lives as long as the arena and is never freed. Conditions on
   the count, and the promise that values are distinct, hold for one example only. */
static bool view_large(const flx_kernel *k, const flxi_kbatch *b, flxi_arena *arena, flx_kernel *view)
{
    flxi_kbuffer *buffers = flxi_dup(arena, flxi_kbuffer, k->buffers, k->num_buffers + 1);
    for (uint32_t i = 1; buffers && i <= k->num_buffers; i++) {
        if (!b->batched[i])
            continue;
        buffers[i].count *= b->size; /* 0: decided at dispatch */
        buffers[i].flags &= ~(uint32_t)FLX_KERNEL_DISTINCT;
        buffers[i].usage = FLX_KERNEL_ANY_USE;
        buffers[i].num_predicates = 0;
        buffers[i].range_begin = buffers[i].range_end = 0;
    }
    memcpy(view, k, sizeof *view);
    view->buffers = buffers;
    return buffers != NULL;
}

flx_kernel *flxi_kernel_batch(const flx_kernel *k, const flxi_kbatch *layout, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {.expr = batch_expr, .stmt = batch_stmt};
    flxi_arena arena;
    flx_kernel view;
    flx_kernel *made = NULL;
    if (check(k, layout, err) != FLX_OK)
        return NULL;
    flxi_arena_init(&arena, flxi_kernel_mem(k));
    if (view_large(k, layout, &arena, &view)) {
        batcher b = {.how = layout, .k = k};
        flxi_krewrite r = {.from = &view, .hooks = &hooks, .user = &b};
        made = flxi_krewrite_run(&r, err);
    } else {
        flxi_oom(err, "batching");
    }
    flxi_arena_free(&arena);
    if (made && flxi_kernel_check(made, err) != FLX_OK) {
        flx_kernel_release(made);
        return NULL;
    }
    return made;
}

static flx_code flag_buffers(const flx_kernel *k, const char *const *names, size_t n, uint8_t *batched, flx_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!names[i])
            return flxi_fail(err, FLX_E_USAGE, "flx_kernel_vmap: the name of a batched buffer is NULL");
        uint32_t b = flxi_kernel_find_buffer(k, names[i]);
        if (b && batched[b])
            return flxi_fail(err, FLX_E_DUP_NAME, "flx_kernel_vmap: the buffer '%.80s' is named twice", names[i]);
        if (!b)
            return flxi_kernel_fail(err, "buffer not found", "flx kernel check lists a kernel's buffers",
                                    "'%.80s', requested as batched buffer of '%.80s'", names[i] ? names[i] : "NULL",
                                    k->name);
        batched[b] = 1;
    }
    return FLX_OK;
}

flx_kernel *flx_kernel_vmap(const flx_kernel *k, const char *const *batched, size_t num_batched, uint32_t axis,
                            uint32_t groups, uint64_t size, flx_error *err)
{
    flx_error local = {0};
    flx_kernel *made = NULL;
    flxi_arena arena;
    if (!k || (num_batched && !batched)) {
        flxi_fail(err, FLX_E_USAGE, "flx_kernel_vmap: an argument is NULL");
        return NULL;
    }
    flxi_arena_init(&arena, flxi_kernel_mem(k));
    uint8_t *flags = flxi_new(&arena, uint8_t, k->num_buffers + 1);
    if (!flags)
        flxi_oom(&local, "batching");
    else if (flag_buffers(k, batched, num_batched, flags, &local) == FLX_OK)
        made = flxi_kernel_batch(k, &(flxi_kbatch){flags, axis, groups, size}, &local);
    flxi_arena_free(&arena);
    if (err)
        *err = local;
    return made;
}
