/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_barriers.c: removes barriers that separate nothing.

   A barrier is needed if something that may run since the previous barrier and something that may run until the next
   one access the same shared buffer and one of them writes; atomics count as writes, because a barrier also orders
   them. Both sets are gathered by walking the program forwards and backwards; to see across the back edge of a loop,
   each body is first summarised: the accesses that are still open at its end, and whether a path leads through it
   without a barrier. A barrier of the whole grid looks past those of a workgroup. Removing one barrier extends the sets
   of its neighbours, so barriers are removed one by one; of two neighbours the weaker is removed first. */
#include "kernel/optimise/kernel_facts.h"
#include "kernel/optimise/kernel_optimise.h"
#include "kernel/program/kernel_rewrite.h"

/* Barriers removed in one run; each costs two walks. */
enum { MAX_REMOVED = 32 };

/* Sets of buffers: bit 63 represents all buffers that have no bit of their own. */
typedef struct {
    uint64_t reads, writes;
} touched;

typedef struct {
    flxi_kfacts f;
    uint8_t *bits;           /* by buffer: number of its bit + 1, 0 for buffers that do not count */
    touched *before, *after; /* by position of a barrier */
    touched *opens;          /* by position: accesses that a statement leaves open in the direction of the walk … */
    uint8_t *passes;         /* … and whether accesses that were open before pass through it */
    uint32_t *previous;      /* by position: the statement before it in its list */
    bool is_back;            /* walking backwards */
    uint8_t *removed;        /* by position */
    bool is_grid;            /* checking barriers of the whole grid */
} gatherer;

static const touched nothing = {0, 0};
static const touched everything = {UINT64_MAX, UINT64_MAX};

static touched both(touched a, touched b)
{
    return (touched){a.reads | b.reads, a.writes | b.writes};
}

static bool conflict(touched a, touched b)
{
    return (a.writes & (b.reads | b.writes)) || (a.reads & b.writes);
}

/* ---- What statements access ---- */

static uint64_t bit_of(const gatherer *g, uint32_t buffer)
{
    return g->bits[buffer] ? UINT64_C(1) << (g->bits[buffer] - 1) : 0;
}

static touched expr_touches(const gatherer *g, uint32_t number)
{
    touched t = nothing;
    const flxi_kx *e = &g->f.k->exprs[number];
    if (!(g->f.does[number] & (KF_MEMORY | KF_EFFECT | KF_FOREIGN)))
        return t;
    if (e->kind == KX_LOAD || e->kind == KX_ATOMIC)
        t.reads = bit_of(g, e->ref);
    if (e->kind == KX_ATOMIC)
        t.writes = t.reads;
    bool is_unknown = (e->kind == KX_OPAQUE && !g->f.k->opaques[e->ref].pure) ||
                      (e->kind == KX_CALL && (g->f.fn_does[e->ref] & (KF_EFFECT | KF_FOREIGN)));
    if (is_unknown)
        return everything;
    for (int i = flxi_kx_operands(e); i-- > 0;)
        t = both(t, expr_touches(g, e->x[i]));
    for (size_t i = 0; i < e->num_args; i++)
        t = both(t, expr_touches(g, e->args[i]));
    return t;
}

static touched stmt_touches(const gatherer *g, const flxi_ks *s)
{
    touched t = both(expr_touches(g, s->a), expr_touches(g, s->b));
    switch ((flxi_ks_kind)s->kind) {
    case KS_STORE: t.writes |= bit_of(g, s->buffer); break;
    case KS_LET:
    case KS_ASSIGN:
    case KS_EFFECT:
    case KS_IF:
    case KS_LOOP:
    case KS_BARRIER:
    case KS_BLOCK:
    case KS_REGION:
    case KS_RETURN: break;
    default: return everything;
    }
    return t;
}

/* ---- Walking ---- */

/* Whether the barrier at this position ends the set being gathered. */
static bool separates(const gatherer *g, const flxi_ks *s, uint32_t at)
{
    return s->kind == KS_BARRIER && !g->removed[at] && (!g->is_grid || s->order == FLX_KERNEL_GRID);
}

static bool is_asked(const gatherer *g, const flxi_ks *s)
{
    return s->kind == KS_BARRIER && g->is_grid == (s->order == FLX_KERNEL_GRID);
}

typedef struct {
    touched opens;
    bool passes;
} summary;

/* One statement after the other, in the direction of the walk. */
static summary then(summary a, summary b)
{
    return (summary){b.passes ? both(a.opens, b.opens) : b.opens, a.passes && b.passes};
}

/* The position at which a walk over the list begins; its first statement is at `at`. */
static uint32_t walk_start(const gatherer *g, flxi_klist list, uint32_t at)
{
    for (size_t i = 1; g->is_back && i < list.n; i++)
        at = g->f.end[at];
    return at;
}

static uint32_t walk_next(const gatherer *g, uint32_t at)
{
    return g->is_back ? g->previous[at] : g->f.end[at];
}

static summary sum_up(gatherer *g, flxi_klist list, uint32_t at);

static summary sum_up_stmt(gatherer *g, uint32_t at)
{
    const flxi_ks *s = g->f.stmt[at];
    summary own = {stmt_touches(g, s), true};
    if (separates(g, s, at))
        return (summary){nothing, false};
    summary body = sum_up(g, s->body, at + 1), other = sum_up(g, s->other, g->f.other[at]);
    if (s->kind == KS_IF)
        body = (summary){both(body.opens, other.opens), body.passes || other.passes};
    if (s->kind == KS_LOOP)
        body.passes = true; /* it may not run at all */
    return g->is_back ? then(body, own) : then(own, body);
}

static summary sum_up(gatherer *g, flxi_klist list, uint32_t at)
{
    summary all = {nothing, true};
    at = walk_start(g, list, at);
    for (size_t i = 0; i < list.n; i++, at = walk_next(g, at)) {
        summary one = sum_up_stmt(g, at);
        g->opens[at] = one.opens;
        g->passes[at] = one.passes;
        all = then(all, one);
    }
    return all;
}

/* The accesses that the statements of a list leave open, from their summaries. */
static touched opens_of(const gatherer *g, flxi_klist list, uint32_t at)
{
    summary all = {nothing, true};
    at = walk_start(g, list, at);
    for (size_t i = 0; i < list.n; i++, at = walk_next(g, at))
        all = then(all, (summary){g->opens[at], g->passes[at]});
    return all.opens;
}

/* Records at each barrier which accesses are open when the walk gets there; `t` is open at the start of the list. */
static void ask(gatherer *g, flxi_klist list, uint32_t at, touched t)
{
    touched *sets = g->is_back ? g->after : g->before;
    at = walk_start(g, list, at);
    for (size_t i = 0; i < list.n; i++, at = walk_next(g, at)) {
        const flxi_ks *s = g->f.stmt[at];
        touched inside = g->is_back ? t : both(t, stmt_touches(g, s));
        if (is_asked(g, s))
            sets[at] = both(sets[at], t);
        if (s->kind == KS_LOOP)
            inside = both(inside, opens_of(g, s->body, at + 1));
        ask(g, s->body, at + 1, inside);
        ask(g, s->other, g->f.other[at], inside);
        t = g->passes[at] ? both(t, g->opens[at]) : g->opens[at];
    }
}

static void link(gatherer *g, flxi_klist list, uint32_t at)
{
    uint32_t before = 0;
    for (size_t i = 0; i < list.n; i++) {
        g->previous[at] = before;
        link(g, list.at[i].body, at + 1);
        link(g, list.at[i].other, g->f.other[at]);
        before = at;
        at = g->f.end[at];
    }
}

/* ---- Choosing ---- */

static bool goes_before(const gatherer *g, uint32_t a, uint32_t b)
{
    return !b || g->f.stmt[a]->order < g->f.stmt[b]->order;
}

/* The next barrier of the current kind that separates nothing, or 0. */
static uint32_t find_needless(gatherer *g, uint32_t body_at)
{
    const flx_kernel *k = g->f.k;
    size_t size = ((size_t)g->f.num_positions + 2) * sizeof *g->before;
    uint32_t found = 0;
    memset(g->before, 0, size);
    memset(g->after, 0, size);
    for (int back = 0; back < 2; back++) {
        g->is_back = back;
        sum_up(g, k->body, body_at);
        ask(g, k->body, body_at, nothing);
    }
    for (uint32_t at = body_at; at <= g->f.num_positions; at++) {
        const flxi_ks *s = g->f.stmt[at];
        if (is_asked(g, s) && !g->removed[at] && !conflict(g->before[at], g->after[at]) && goes_before(g, at, found))
            found = at;
    }
    return found;
}

static bool remove_needless(gatherer *g)
{
    const flx_kernel *k = g->f.k;
    uint32_t body_at = k->num_fns ? g->f.fn_result[k->num_fns] + 1 : 1;
    int removed = 0;
    link(g, k->body, body_at);
    for (int kind = 0; kind < 2; kind++) {
        g->is_grid = kind;
        uint32_t at;
        while (removed < MAX_REMOVED && (at = find_needless(g, body_at)) != 0) {
            g->removed[at] = 1;
            removed++;
        }
    }
    return removed > 0;
}

/* ---- The pass ---- */

static bool drop_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    const gatherer *g = r->user;
    return s->kind == KS_BARRIER && g->removed[r->at];
}

static bool make_room(gatherer *g)
{
    const flx_kernel *k = g->f.k;
    size_t positions = (size_t)g->f.num_positions + 2;
    uint8_t next = 1;
    g->bits = flxi_new(&g->f.arena, uint8_t, (size_t)k->num_buffers + 1);
    g->before = flxi_new(&g->f.arena, touched, positions);
    g->after = flxi_new(&g->f.arena, touched, positions);
    g->removed = flxi_new(&g->f.arena, uint8_t, positions);
    g->opens = flxi_new(&g->f.arena, touched, positions);
    g->passes = flxi_new(&g->f.arena, uint8_t, positions);
    g->previous = flxi_new(&g->f.arena, uint32_t, positions);
    for (uint32_t b = 1; g->bits && b <= k->num_buffers; b++)
        if (flxi_kfacts_is_written(&g->f, b) && flxi_kfacts_is_shared(&g->f, b)) {
            g->bits[b] = next;
            next = (uint8_t)(next < 64 ? next + 1 : 64);
        }
    return g->bits && g->before && g->after && g->removed && g->opens && g->passes && g->previous;
}

static bool has_barriers(const flxi_kfacts *f)
{
    for (uint32_t at = 1; at <= f->num_positions; at++)
        if (f->stmt[at] && f->stmt[at]->kind == KS_BARRIER)
            return true;
    return false;
}

flx_kernel *flxi_kpass_barriers(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {.stmt = drop_stmt, .is_blind = true};
    gatherer g = {.bits = NULL};
    flx_kernel *result = NULL;
    (void)o;
    if (flxi_kfacts_find(&g.f, k, err) == FLX_OK) {
        if (!has_barriers(&g.f)) {
            result = flxi_krewrite_nothing(k);
        } else if (!make_room(&g)) {
            flxi_oom(err, "barriers of a kernel");
        } else if (!remove_needless(&g)) {
            result = flxi_krewrite_nothing(k);
        } else {
            flxi_krewrite r = {.from = k, .hooks = &hooks, .user = &g};
            result = flxi_krewrite_run(&r, err);
        }
    }
    flxi_kfacts_free(&g.f);
    return result;
}
