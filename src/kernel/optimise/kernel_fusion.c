/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_fusion.c: one kernel for a producer and its consumer.

   Between two dispatches everything that the first wrote becomes visible to the second. In one kernel an invocation can
   rely only on what it wrote itself. So every buffer that both access and one writes must be accessed at a single index
   E, computed from ids, lengths, literals and memory that neither writes; and wherever the other kernel accesses it,
   the conditions under which the writer stores must hold as well. Since the writer is free of races, E then differs
   between all invocations that get there, so no invocation accesses the element of another. */
#include "kernel/check/kernel_validate.h"
#include "kernel/optimise/kernel_facts.h"
#include "kernel/program/kernel_rewrite.h"

#define NEVER UINT32_MAX

enum { MAX_GUARDS = FLXI_KERNEL_MAX_NESTING, MAX_RESOLVED_DEPTH = 100 };

/* The conditions around a statement, as expressions of the common builder; negated for an else branch. */
typedef struct {
    uint32_t at[MAX_GUARDS];
    uint32_t n;
    bool is_known; /* false: under a loop, or under a condition that cannot be resolved */
} guards;

/* How one kernel uses one shared buffer. */
typedef struct {
    bool reads, writes;
    uint32_t index; /* resolved; 0 if there is none, or several */
    bool is_scattered;
    guards around_store; /* conditions of its stores: those of the first */
    guards around_all;   /* conditions that hold at every access */
} use;

typedef struct {
    const flx_kernel *k;
    flxi_kfacts f;
    uint32_t *buffers;  /* by number: in the fused kernel */
    use *uses;          /* by number in the fused kernel */
    guards now;         /* around the current statement */
    bool has_returned;  /* some invocations may have */
    uint32_t *resolved; /* by expression, see resolve(); NEVER: impossible, 0: not yet computed */
    int depth;          /* of resolving */
} part;

typedef struct {
    flxi_kb *b;
    flxi_arena arena;
    part parts[2];
    uint8_t *is_shared; /* by number in the fused kernel: both kernels use it */
    uint8_t *is_written;
    flx_error *err;
} fusion;

static flx_code refuse(fusion *w, const char *buffer, const char *why)
{
    return flxi_kernel_fail(w->err, "not fused:", "dispatch the kernels one after the other", "buffer '%s': %s", buffer,
                            why);
}

/* ---- Buffers ---- */

static uint32_t free_binding(const flxi_kb *b, uint32_t wanted)
{
    bool is_free = false;
    while (!is_free) {
        is_free = true;
        for (size_t i = 1; i < b->buffers.n && is_free; i++)
            is_free = !flxi_kbuffer_is_bound(&b->buffers.at[i]) || b->buffers.at[i].binding != wanted;
        wanted += !is_free;
    }
    return wanted;
}

static bool may_read(const flxi_kbuffer *b)
{
    return b->access == FLX_KERNEL_READ || b->access == FLX_KERNEL_READ_WRITE || b->access == FLX_KERNEL_UNIFORM;
}

static bool may_write(const flxi_kbuffer *b)
{
    return b->access == FLX_KERNEL_WRITE || b->access == FLX_KERNEL_READ_WRITE;
}

/* The declaration for both. */
static flx_code join_buffer(fusion *w, flxi_kbuffer *a, const flxi_kbuffer *b)
{
    if (a->element != b->element || a->count != b->count)
        return refuse(w, a->name, "the kernels declare it with different elements or counts");
    if (a->usage != FLX_KERNEL_ANY_USE || b->usage != FLX_KERNEL_ANY_USE)
        return refuse(w, a->name, "its declaration prescribes the number of uses");
    if ((b->flags & FLX_KERNEL_OUTPUT) && may_write(a))
        return refuse(w, a->name, "it is reset to zero when the second kernel starts");
    if ((b->flags & FLX_KERNEL_OUTPUT) && may_read(a))
        return refuse(w, a->name, "the first kernel reads an output of the second");
    bool reads = may_read(a) || may_read(b), writes = may_write(a) || may_write(b);
    if (reads && writes)
        a->access = FLX_KERNEL_READ_WRITE;
    a->flags = (a->flags & (FLX_KERNEL_OUTPUT | FLX_KERNEL_LIVE_OUT)) | (b->flags & FLX_KERNEL_LIVE_OUT) |
               (a->flags & b->flags);
    return FLX_OK;
}

static flx_code add_buffers(fusion *w, int which)
{
    part *p = &w->parts[which];
    for (uint32_t i = 1; i <= p->k->num_buffers && flxi_kb_ok(w->b); i++) {
        flxi_kbuffer b = p->k->buffers[i];
        uint32_t same = which ? flxi_kb_find_buffer(w->b, b.name) : 0;
        if (same && flxi_kbuffer_is_bound(&b) && flxi_kbuffer_is_bound(&w->b->buffers.at[same])) {
            FLXI_TRY(join_buffer(w, &w->b->buffers.at[same], &b));
            w->is_shared[same] = 1;
            p->buffers[i] = same;
            continue;
        }
        if (same)
            b.name = flxi_kb_fresh_name(w->b, b.name);
        if (which && flxi_kbuffer_is_bound(&b))
            b.binding = free_binding(w->b, b.binding);
        if (flxi_kb_ok(w->b))
            p->buffers[i] = flxi_kb_buffer(w->b, &b);
    }
    for (uint32_t i = 1; i <= p->k->num_buffers; i++)
        w->is_written[p->buffers[i]] |= flxi_kfacts_is_written(&p->f, i);
    return flxi_kb_ok(w->b) ? FLX_OK : FLX_E_OOM;
}

/* ---- Expressions of both kernels in one builder ---- */

static uint32_t resolve(fusion *w, part *p, uint32_t number);

static uint32_t resolve_var(fusion *w, part *p, uint32_t var)
{
    bool is_let = var <= p->k->num_vars && p->f.vars[var].value && !flxi_kfacts_is_assigned(&p->f, var);
    return is_let ? resolve(w, p, p->f.vars[var].value) : 0;
}

static uint32_t resolve_node(fusion *w, part *p, uint32_t number)
{
    flxi_kx e = p->k->exprs[number];
    uint32_t x[3] = {0};
    switch ((flxi_kx_kind)e.kind) {
    case KX_VAR: return resolve_var(w, p, e.ref);
    case KX_LOAD:
        if (w->is_written[p->buffers[e.ref]])
            return 0;
        break;
    case KX_ATOMIC:
    case KX_CALL:
    case KX_OPAQUE:
    case KX_SUBGROUP_ADD:
    case KX_SUBGROUP_SHUFFLE:
    case KX_SUBGROUP_BALLOT: return 0;
    default: break;
    }
    for (int i = 0; i < flxi_kx_operands(&e); i++) {
        x[i] = resolve(w, p, e.x[i]);
        if (!x[i] || flxi_kb_expr(w->b, x[i])->depth >= MAX_RESOLVED_DEPTH)
            return 0;
    }
    if (e.kind == KX_LOAD || e.kind == KX_LENGTH)
        e.ref = p->buffers[e.ref];
    return flxi_kb_rebuild(w->b, &e, x, NULL);
}

/* The expression in the common builder, with unassigned variables replaced by their values; 0 if it depends on anything
   other than ids, lengths, literals and memory that neither kernel writes. Lets are resolved in order, so chains are
   short. */
static uint32_t resolve(fusion *w, part *p, uint32_t number)
{
    uint32_t known = p->resolved[number];
    if (known || p->depth > 2 * FLXI_KERNEL_MAX_DEPTH)
        return known == NEVER ? 0 : known;
    p->depth++;
    uint32_t e = resolve_node(w, p, number);
    p->depth--;
    p->resolved[number] = e ? e : NEVER;
    return e;
}

/* ---- Accesses of each kernel to shared buffers ---- */

static void keep_common(guards *a, const guards *b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t j = 0; j < b->n; j++)
            if (a->at[i] == b->at[j]) {
                a->at[n++] = a->at[i];
                break;
            }
    a->n = n;
}

static bool includes(const guards *all, const guards *some)
{
    guards common = *some;
    keep_common(&common, all);
    return common.n == some->n;
}

static void note_access(fusion *w, part *p, uint32_t buffer, uint32_t index, bool writes)
{
    uint32_t number = p->buffers[buffer];
    if (!w->is_shared[number])
        return;
    use *u = &p->uses[number];
    uint32_t e = resolve(w, p, index);
    bool is_first = !u->reads && !u->writes;
    u->is_scattered |= !e || (!is_first && u->index != e);
    u->index = e;
    if (is_first)
        u->around_all = p->now;
    else
        keep_common(&u->around_all, &p->now);
    if (writes && !u->writes) {
        u->around_store = p->now;
        u->around_store.is_known = p->now.is_known && !p->has_returned;
    }
    u->reads |= !writes;
    u->writes |= writes;
}

static void note_expr(fusion *w, part *p, uint32_t number)
{
    const flxi_kx *e = &p->k->exprs[number];
    if (e->kind == KX_LOAD)
        note_access(w, p, e->ref, e->x[0], false);
    if (e->kind == KX_ATOMIC) { /* other invocations access it too: no element belongs to one invocation */
        note_access(w, p, e->ref, e->x[0], true);
        p->uses[p->buffers[e->ref]].is_scattered = true;
    }
    for (int i = 0; i < flxi_kx_operands(e); i++)
        note_expr(w, p, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        note_expr(w, p, e->args[i]);
}

static flx_code note_list(fusion *w, part *p, flxi_klist list);

static flx_code note_branches(fusion *w, part *p, const flxi_ks *s)
{
    guards outer = p->now;
    uint32_t c = resolve(w, p, s->a);
    uint32_t n = p->now.n;
    p->now.is_known = p->now.is_known && c && n < MAX_GUARDS;
    if (c && n < MAX_GUARDS)
        p->now.at[p->now.n++] = c;
    FLXI_TRY(note_list(w, p, s->body));
    if (c && n < MAX_GUARDS)
        p->now.at[n] = flxi_kb_unary(w->b, KUN_logical_not, c);
    FLXI_TRY(note_list(w, p, s->other));
    p->now = outer;
    return FLX_OK;
}

static flx_code note_list(fusion *w, part *p, flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        bool is_known = p->now.is_known;
        note_expr(w, p, s->a);
        note_expr(w, p, s->b);
        if (s->kind == KS_LET)
            resolve(w, p, s->a);
        switch ((flxi_ks_kind)s->kind) {
        case KS_STORE: note_access(w, p, s->buffer, s->a, true); break;
        case KS_IF: FLXI_TRY(note_branches(w, p, s)); continue;
        case KS_LOOP: p->now.is_known = false; break; /* it may not run */
        case KS_LET:
        case KS_ASSIGN:
        case KS_EFFECT:
        case KS_BARRIER:
        case KS_BLOCK:
        case KS_REGION: break;
        case KS_RETURN:
            p->has_returned = true;
            if (p == &w->parts[1])
                break;
            return flxi_kernel_fail(w->err, "not fused:", "put what follows under a condition instead",
                                    "the first kernel returns early");
        default:
            return flxi_kernel_fail(w->err, "not fused:", "dispatch the kernels one after the other",
                                    "copies, traps, collectives and extensions cannot be fused");
        }
        FLXI_TRY(note_list(w, p, s->body));
        p->now.is_known = is_known;
    }
    return FLX_OK;
}

static flx_code check_shared(fusion *w, uint32_t buffer)
{
    const use *a = &w->parts[0].uses[buffer], *b = &w->parts[1].uses[buffer];
    const char *name = w->b->buffers.at[buffer].name;
    if (!(a->writes || b->writes) || !(a->reads || a->writes) || !(b->reads || b->writes))
        return FLX_OK;
    const use *writer = a->writes ? a : b, *other = a->writes ? b : a;
    if (a->is_scattered || b->is_scattered || a->index != b->index)
        return refuse(w, name, "the kernels do not access it at the same single index");
    if (!writer->around_store.is_known || !includes(&other->around_all, &writer->around_store))
        return refuse(w, name, "the conditions of its stores do not hold at the other kernel's accesses");
    return FLX_OK;
}

static flx_code check_parts(fusion *w)
{
    for (int i = 0; i < 2; i++) {
        w->parts[i].now = (guards){.is_known = true};
        FLXI_TRY(note_list(w, &w->parts[i], w->parts[i].k->body));
    }
    for (uint32_t b = 1; b < w->b->buffers.n; b++)
        if (w->is_shared[b])
            FLXI_TRY(check_shared(w, b));
    return flxi_kb_ok(w->b) ? FLX_OK : FLX_E_OOM;
}

/* ---- The whole ---- */

static flx_code begin_parts(fusion *w)
{
    size_t buffers = (size_t)w->parts[0].k->num_buffers + w->parts[1].k->num_buffers + 1;
    w->is_shared = flxi_new(&w->arena, uint8_t, buffers);
    w->is_written = flxi_new(&w->arena, uint8_t, buffers);
    if (!w->is_shared || !w->is_written)
        return flxi_oom(w->err, "fusion");
    for (int i = 0; i < 2; i++) {
        part *p = &w->parts[i];
        p->buffers = flxi_new(&w->arena, uint32_t, (size_t)p->k->num_buffers + 1);
        p->uses = flxi_new(&w->arena, use, buffers);
        p->resolved = flxi_new(&w->arena, uint32_t, (size_t)p->k->num_exprs + 1);
        if (!p->buffers || !p->uses || !p->resolved)
            return flxi_oom(w->err, "fusion");
        FLXI_TRY(add_buffers(w, i));
    }
    return check_parts(w);
}

static flx_code check_heads(const flx_kernel *a, const flx_kernel *b, flx_error *err)
{
    if (memcmp(a->size, b->size, sizeof a->size) != 0)
        return flxi_kernel_fail(err, "not fused:", "use the same workgroup size",
                                "the kernels have different workgroup sizes");
    if (a->flags != b->flags)
        return flxi_kernel_fail(err, "not fused:", "use the same flags", "the kernels have different arithmetic flags");
    return FLX_OK;
}

static flx_kernel *build(fusion *w)
{
    for (int i = 0; i < 2; i++) {
        flxi_krewrite r = {.from = w->parts[i].k, .to = w->b};
        flxi_krewrite_append(&r, w->parts[i].buffers);
    }
    flxi_kb *b = w->b;
    w->b = NULL;
    flx_kernel *k = flxi_kb_finish(b, w->err);
    if (k && flxi_kernel_check(k, w->err) != FLX_OK) {
        flx_kernel_release(k);
        k = NULL;
    }
    return k;
}

flx_kernel *flx_kernel_fuse(const flx_kernel *first, const flx_kernel *second, flx_error *err)
{
    flx_error none;
    if (!first || !second) {
        flxi_fail(err, FLX_E_USAGE, "flx_kernel_fuse: the %s kernel is NULL", first ? "second" : "first");
        return NULL;
    }
    if (flxi_kernel_check(first, err) != FLX_OK || flxi_kernel_check(second, err) != FLX_OK)
        return NULL;
    fusion w = {.parts = {{.k = first}, {.k = second}}, .err = err ? err : &none};
    flx_kernel *k = NULL;
    if (check_heads(first, second, w.err) != FLX_OK || !(w.b = flxi_kb_like(first, w.err)))
        return NULL;
    flxi_arena_init(&w.arena, flxi_kernel_mem(first));
    flx_code code = flxi_kfacts_find(&w.parts[0].f, first, w.err);
    if (code == FLX_OK)
        code = flxi_kfacts_find(&w.parts[1].f, second, w.err);
    if (code == FLX_OK)
        code = begin_parts(&w);
    if (code == FLX_OK)
        k = build(&w);
    else if (!flxi_kb_ok(w.b))
        *w.err = w.b->err;
    if (w.b)
        flxi_kb_free(w.b);
    if (w.parts[0].f.k)
        flxi_kfacts_free(&w.parts[0].f);
    if (w.parts[1].f.k)
        flxi_kfacts_free(&w.parts[1].f);
    flxi_arena_free(&w.arena);
    return k;
}
