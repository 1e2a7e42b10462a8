/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_dead_store.c: removes stores that are overwritten before they are read, and loads of values just stored.

   One walk keeps the stores that are still in force: the element they wrote still holds the stored value. Another store
   to the buffer ends those that it may overwrite (two different literal indices never collide), and so do atomics,
   copies, and, for memory that other invocations see, barriers; stores that a loop may overwrite end before the loop. A
   load whose index is among them is replaced by the stored value, which then gets a variable, if the store is provably
   in range: out of range a load gives 0. A store is dead if a later one in the same list has the same index and nothing
   has read the element in between, or if the memory ends with the program and nothing reads it until then. */
#include "kernel/optimise/kernel_bounds.h"
#include "kernel/optimise/kernel_fold.h"
#include "kernel/optimise/kernel_optimise.h"

enum { FORWARDS = 1, DROPS = 2 };

/* Limit of stores to one buffer that are tracked. */
enum { MAX_LIVE = 16 };

typedef struct {
    uint32_t at, index;
    uint32_t list; /* the list that contains it */
    bool is_read;  /* read since then */
} store;

typedef struct {
    store at[MAX_LIVE];
    uint32_t n;
} stores;

/* A load in the statement at `at` that reads what the store at `from` stored. */
typedef struct {
    uint32_t at, expr, from;
} hit;

typedef struct {
    unsigned mode;
    flxi_kbounds b;
    const flxi_kfacts *f;
    const flx_kernel *k;
    const flxi_allocator *mem;
    stores **live;    /* by buffer, NULL until something is stored */
    uint32_t *stored; /* buffers that have an entry in `live` */
    uint32_t num_stored;
    uint8_t *used, *dead; /* by position of a store */
    uint32_t *values;     /* by position of a used store: what it stores, in the new program */
    FLXI_VEC(hit) hits;
    flxi_index index; /* of hits by position and expression */
    uint32_t at, list, lists;
    bool acts; /* the statement has effects of its own */
    bool failed;
    flxi_kfolder fold;
} tracker;

/* ---- Stores in force ---- */

static bool is_literal(const tracker *t, uint32_t e)
{
    return t->k->exprs[e].kind == KX_LITERAL;
}

static bool may_meet(const tracker *t, uint32_t i, uint32_t j)
{
    return i == j || !is_literal(t, i) || !is_literal(t, j);
}

static void look_at(tracker *t, uint32_t buffer, uint32_t index)
{
    stores *l = t->live[buffer];
    for (uint32_t i = 0; l && i < l->n; i++)
        l->at[i].is_read |= may_meet(t, l->at[i].index, index);
}

static void end_at(stores *l, uint32_t i)
{
    l->at[i] = l->at[--l->n];
}

static void end_buffer(tracker *t, uint32_t buffer)
{
    if (t->live[buffer])
        t->live[buffer]->n = 0;
}

/* Something that other invocations may see or do: with `all` also to private memory. */
static void end_shared(tracker *t, bool all)
{
    for (uint32_t i = 0; i < t->num_stored; i++)
        if (all || flxi_kfacts_is_shared(t->f, t->stored[i]))
            end_buffer(t, t->stored[i]);
}

/* The invocation may end here: its stores to shared memory count. */
static void show_all(tracker *t)
{
    for (uint32_t i = 0; i < t->num_stored; i++) {
        stores *l = t->live[t->stored[i]];
        bool is_own = t->k->buffers[t->stored[i]].access == FLX_KERNEL_PRIVATE;
        for (uint32_t s = 0; !is_own && s < l->n; s++)
            l->at[s].is_read = true;
    }
}

static void end_list(tracker *t, uint32_t list)
{
    for (uint32_t i = 0; i < t->num_stored; i++) {
        stores *l = t->live[t->stored[i]];
        for (uint32_t s = l->n; s-- > 0;)
            if (l->at[s].list == list)
                end_at(l, s);
    }
}

/* Stores that a loop may overwrite are not in force at its start. */
static void end_written(tracker *t, uint32_t loop)
{
    for (uint32_t i = 0; i < t->num_stored; i++)
        if (!flxi_kfacts_is_kept(t->f, t->stored[i], loop, t->f->end[loop]))
            end_buffer(t, t->stored[i]);
}

static stores *live_of(tracker *t, uint32_t buffer)
{
    if (!t->live[buffer]) {
        t->live[buffer] = flxi_new(&t->b.f.arena, stores, 1);
        if (t->live[buffer])
            t->stored[t->num_stored++] = buffer;
        else
            t->failed = true;
    }
    return t->live[buffer];
}

static bool may_drop(const tracker *t, const store *s)
{
    const flxi_ks *dead = t->f->stmt[s->at];
    return !((t->f->does[dead->a] | t->f->does[dead->b]) & (KF_EFFECT | KF_HELD)) &&
           t->k->buffers[dead->buffer].usage == FLX_KERNEL_ANY_USE;
}

static void note_store(tracker *t, const flxi_ks *s)
{
    stores *l = live_of(t, s->buffer);
    if (!l)
        return;
    for (uint32_t i = l->n; i-- > 0;) {
        const store *old = &l->at[i];
        if (!may_meet(t, old->index, s->a))
            continue;
        if ((t->mode & DROPS) && old->index == s->a && old->list == t->list && !old->is_read && may_drop(t, old) &&
            flxi_kfacts_is_stable(t->f, old->index, old->at, t->at))
            t->dead[old->at] = 1;
        end_at(l, i);
    }
    if (l->n == MAX_LIVE)
        end_at(l, 0);
    if (flxi_kfacts_is_pure(t->f, s->a))
        l->at[l->n++] = (store){t->at, s->a, t->list, false};
}

/* ---- The walk ---- */

static const store *find_store(const tracker *t, const flxi_kx *load)
{
    const stores *l = t->live[load->ref];
    const flxi_kbuffer *b = &t->k->buffers[load->ref];
    if (!l || t->acts || flxi_ktype_of(b->element)->storage || b->usage != FLX_KERNEL_ANY_USE)
        return NULL;
    for (uint32_t i = 0; i < l->n; i++) {
        const store *s = &l->at[i];
        if (s->index == load->x[0] && t->b.stores[s->at] &&
            flxi_kfacts_is_stable(t->f, s->index, s->at, flxi_kfacts_reach(t->f, s->at, t->at)))
            return s;
    }
    return NULL;
}

static uint64_t hash_hit(uint32_t at, uint32_t expr)
{
    return flxi_hash_u64(FLXI_HASH_SEED, at | (uint64_t)expr << 32);
}

static void note_load(tracker *t, uint32_t number)
{
    const flxi_kx *e = &t->k->exprs[number];
    const store *s = t->mode & FORWARDS ? find_store(t, e) : NULL;
    if (!s) {
        look_at(t, e->ref, e->x[0]);
        return;
    }
    t->used[s->at] = 1;
    if (!flxi_push(t->mem, &t->hits, ((hit){t->at, number, s->at})) ||
        !flxi_index_add(t->mem, &t->index, hash_hit(t->at, number), (uint32_t)t->hits.n - 1))
        t->failed = true;
}

static void track_expr(tracker *t, uint32_t number)
{
    const flxi_kx *e = &t->k->exprs[number];
    if (!(e->does & (KX_READS | KX_OPAQUES)))
        return;
    for (int i = 0; i < flxi_kx_operands(e); i++)
        track_expr(t, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        track_expr(t, e->args[i]);
    if (e->kind == KX_LOAD)
        note_load(t, number);
    if (e->kind == KX_ATOMIC) {
        end_buffer(t, e->ref);
        if (e->order != FLX_KERNEL_RELAXED)
            end_shared(t, false);
    }
    if (e->kind == KX_OPAQUE && !t->k->opaques[e->ref].pure)
        end_shared(t, true);
}

static void track_list(tracker *t, flxi_klist list);

static void track_stmt(tracker *t, const flxi_ks *s)
{
    uint32_t at = t->at;
    t->acts = (t->f->does[s->a] | t->f->does[s->b]) & KF_EFFECT;
    track_expr(t, s->a);
    track_expr(t, s->b);
    switch ((flxi_ks_kind)s->kind) {
    case KS_STORE: note_store(t, s); break;
    case KS_LOOP: end_written(t, at); break;
    case KS_BARRIER: end_shared(t, false); break;
    case KS_RETURN:
    case KS_TRAP: show_all(t); break;
    case KS_INDIRECT:
    case KS_ASYNC_LOAD:
    case KS_ASYNC_STORE:
    case KS_ASYNC_WAIT:
    case KS_COLLECTIVE:
    case KS_RESUME:
    case KS_OPAQUE: end_shared(t, true); break;
    default: break;
    }
    track_list(t, s->body);
    track_list(t, s->other);
}

/* At the end of the program: nothing reads memory that ends with it. A load by another invocation would come after a
   barrier, which would have ended the store. */
static void drop_unseen(tracker *t)
{
    for (uint32_t i = 0; i < t->num_stored; i++) {
        const stores *l = t->live[t->stored[i]];
        uint8_t access = t->k->buffers[t->stored[i]].access;
        bool is_inner = access == FLX_KERNEL_PRIVATE || access == FLX_KERNEL_WORKGROUP;
        for (uint32_t s = 0; is_inner && s < l->n; s++)
            if ((t->mode & DROPS) && !l->at[s].is_read && may_drop(t, &l->at[s]))
                t->dead[l->at[s].at] = 1;
    }
}

static void track_list(tracker *t, flxi_klist list)
{
    uint32_t outer = t->list;
    t->list = ++t->lists;
    for (size_t i = 0; i < list.n && !t->failed; i++) {
        t->at++;
        track_stmt(t, &list.at[i]);
    }
    if (!outer)
        drop_unseen(t);
    end_list(t, t->list);
    t->list = outer;
}

/* ---- Rewriting ---- */

static uint32_t forward_expr(flxi_krewrite *r, uint32_t number)
{
    const tracker *t = r->user;
    uint32_t i;
    if (r->from->exprs[number].kind != KX_LOAD)
        return 0;
    for (flxi_probe p = flxi_index_first(&t->index, hash_hit(r->at, number)); flxi_index_next(&t->index, &p, &i);)
        if (t->hits.at[i].at == r->at && t->hits.at[i].expr == number)
            return t->values[t->hits.at[i].from];
    return 0;
}

static uint32_t forward_node(flxi_krewrite *r, uint32_t made)
{
    return flxi_kfold(&((tracker *)r->user)->fold, made);
}

/* The value of a used store, in a variable unless it is a literal or an unassigned variable. */
static uint32_t hold_value(flxi_krewrite *r, uint32_t value)
{
    const tracker *t = r->user;
    const flxi_kx *e = flxi_kb_expr(r->to, value);
    uint32_t source = e->kind == KX_VAR ? flxi_krewrite_source(r, e->ref) : 0;
    bool lasts = e->kind == KX_LITERAL || (e->kind == KX_VAR && (!source || !flxi_kfacts_is_assigned(t->f, source)));
    return lasts ? value : flxi_kb_var(r->to, flxi_kb_let(r->to, flxi_krewrite_fresh_name(r, "t"), value));
}

static bool forward_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    tracker *t = r->user;
    if (s->kind == KS_STORE && t->dead[r->at])
        return true;
    if (s->kind != KS_STORE || !t->used[r->at])
        return flxi_kfold_stmt(r, &t->fold, s);
    uint32_t index = flxi_krewrite_expr(r, s->a);
    uint32_t value = hold_value(r, flxi_krewrite_expr(r, s->b));
    t->values[r->at] = value;
    flxi_kb_store(r->to, r->buffers[s->buffer], index, value);
    return true;
}

static void begin_forward(flxi_krewrite *r)
{
    tracker *t = r->user;
    t->fold = flxi_kfolder_of(r->to, t->fold.flags);
}

static bool make_room(tracker *t)
{
    flxi_arena *a = &t->b.f.arena;
    size_t positions = (size_t)t->f->num_positions + 2;
    t->live = flxi_new(a, stores *, (size_t)t->k->num_buffers + 1);
    t->stored = flxi_new(a, uint32_t, (size_t)t->k->num_buffers + 1);
    t->used = flxi_new(a, uint8_t, positions);
    t->dead = flxi_new(a, uint8_t, positions);
    t->values = flxi_new(a, uint32_t, positions);
    return t->live && t->stored && t->used && t->dead && t->values;
}

static bool finds_work(const tracker *t)
{
    for (uint32_t at = 1; at <= t->f->num_positions; at++)
        if (t->used[at] || t->dead[at])
            return true;
    return false;
}

static flx_kernel *run(tracker *t, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {
        .begin = begin_forward, .expr = forward_expr, .node = forward_node, .stmt = forward_stmt};
    if (t->f->calls_act)
        return flxi_krewrite_nothing(t->k);
    if (make_room(t)) {
        t->at = t->k->num_fns ? t->f->fn_result[t->k->num_fns] : 0; /* functions have no memory */
        track_list(t, t->k->body);
    } else {
        t->failed = true;
    }
    if (t->failed) {
        flxi_oom(err, "stores of a kernel");
        return NULL;
    }
    if (!finds_work(t))
        return flxi_krewrite_nothing(t->k);
    flxi_krewrite r = {.from = t->k, .hooks = &hooks, .user = t};
    return flxi_krewrite_run(&r, err);
}

static flx_kernel *track(const flx_kernel *k, unsigned mode, const flxi_ksimplify_options *o, flx_error *err)
{
    tracker t = {.mode = mode, .k = k, .mem = flxi_kernel_mem(k), .fold = {.flags = o->flags}};
    flx_kernel *result = NULL;
    if (flxi_kbounds_find(&t.b, k, err) == FLX_OK) {
        t.f = &t.b.f;
        result = run(&t, err);
    }
    flxi_vec_free(t.mem, &t.hits);
    flxi_index_free(t.mem, &t.index);
    flxi_kbounds_free(&t.b);
    return result;
}

flx_kernel *flxi_kpass_forward(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    return track(k, FORWARDS, o, err);
}

flx_kernel *flxi_kpass_dead_store(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    return track(k, DROPS, o, err);
}
