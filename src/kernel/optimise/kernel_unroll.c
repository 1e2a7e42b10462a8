/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_unroll.c: loops with known bounds: unrolling, peeling, strip-mining.

   None of them changes the order of evaluation. Loops are left alone if their body must not be repeated: it uses a
   buffer whose uses are counted, starts a copy with a tag, or contains a region that is allowed only once. */
#include "kernel/optimise/kernel_facts.h"
#include "kernel/optimise/kernel_fold.h"
#include "kernel/optimise/kernel_optimise.h"

enum {
    MAX_TRIPS = 8,      /* of a loop that is unrolled … */
    MAX_UNROLLED = 256, /* … to this many statements and expression nodes */
    MAX_PEELED = 512,
    MAX_TOTAL = 200000, /* programs do not grow beyond this */
    STRIP = 16,         /* iterations of the inner loop */
    MIN_STRIPPED = 64,  /* of a loop that is cut into strips */
};

typedef struct {
    flxi_kfacts f;
    flxi_kfolder fold;
} unroller;

/* ---- Properties of a loop ---- */

static bool may_repeat(const flxi_kfacts *f, flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        bool is_tagged =
            s->kind == KS_ASYNC_LOAD || s->kind == KS_ASYNC_STORE || s->kind == KS_ASYNC_WAIT || s->kind == KS_RESUME;
        bool is_once = s->kind == KS_REGION && (s->flags & FLX_KERNEL_REGION_ONCE);
        bool is_held = ((f->does[s->a] | f->does[s->b]) & KF_HELD) ||
                       (s->buffer && f->k->buffers[s->buffer].usage != FLX_KERNEL_ANY_USE);
        if (is_tagged || is_once || is_held || !may_repeat(f, s->body) || !may_repeat(f, s->other))
            return false;
    }
    return true;
}

/* False unless both bounds are literals. */
static bool has_trips(const flx_kernel *k, const flxi_ks *s, uint64_t *trips)
{
    const flxi_kx *a = &k->exprs[s->a], *b = &k->exprs[s->b];
    if (s->kind != KS_LOOP || a->kind != KX_LITERAL || b->kind != KX_LITERAL)
        return false;
    *trips = b->bits > a->bits ? b->bits - a->bits : 0;
    return true;
}

/* Includes the unrolled size of inner loops; stops counting somewhere above the limits. */
static uint64_t unrolled_size(const flx_kernel *k, flxi_klist list)
{
    uint64_t size = 0, trips;
    for (size_t i = 0; i < list.n && size <= MAX_TOTAL; i++) {
        const flxi_ks *s = &list.at[i];
        uint64_t body = unrolled_size(k, s->body) + unrolled_size(k, s->other);
        size += 1 + (uint64_t)k->exprs[s->a].size + k->exprs[s->b].size;
        size += has_trips(k, s, &trips) && trips <= MAX_TRIPS ? trips * body : body;
    }
    return size;
}

static bool has_loop(flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++)
        if (list.at[i].kind == KS_LOOP || has_loop(list.at[i].body) || has_loop(list.at[i].other))
            return true;
    return false;
}

/* ---- Unrolling ---- */

static void copy_iteration(flxi_krewrite *r, const flxi_ks *s, uint32_t at, uint64_t v, flxi_knames naming)
{
    r->values[s->var] = flxi_kb_u32(r->to, (uint32_t)v);
    r->at = at;
    flxi_krewrite_splice(r, s->body, naming);
}

static bool unroll_loop(flxi_krewrite *r, const flxi_ks *s)
{
    const unroller *p = r->user;
    uint64_t trips;
    uint32_t at = r->at;
    if (!has_trips(r->from, s, &trips) || trips > MAX_TRIPS)
        return false;
    bool is_small = trips * unrolled_size(r->from, s->body) <= MAX_UNROLLED && r->to->nodes < MAX_TOTAL;
    if (trips != 1 && flxi_klist_has_copies(s->body))
        return false;
    if (trips > 1 && (!is_small || !may_repeat(&p->f, s->body)))
        return false;
    uint64_t from = r->from->exprs[s->a].bits;
    for (uint64_t i = 0; i < trips && !r->ended; i++)
        copy_iteration(r, s, at, from + i, i ? KNAMES_NEW : KNAMES_APART);
    return true;
}

/* ---- Peeling ---- */

/* Whether the body tests for the first iteration. */
static bool asks_for_first(const flx_kernel *k, const flxi_ks *loop)
{
    for (size_t i = 0; i < loop->body.n; i++) {
        const flxi_ks *s = &loop->body.at[i];
        const flxi_kx *c = &k->exprs[s->a];
        bool compares = s->kind == KS_IF && c->kind == KX_BINARY &&
                        (c->op == KBIN_eq || c->op == KBIN_ne || c->op == KBIN_gt || c->op == KBIN_le);
        if (compares && k->exprs[c->x[0]].kind == KX_VAR && k->exprs[c->x[0]].ref == loop->var && c->x[1] == loop->a)
            return true;
    }
    return false;
}

/* The first iteration moves before the loop, under a condition if the loop may have no iterations. */
static bool peel_loop(flxi_krewrite *r, const flxi_ks *s)
{
    const unroller *p = r->user;
    const flxi_kx *from = &r->from->exprs[s->a];
    uint32_t at = r->at;
    if (from->kind != KX_LITERAL || from->bits == UINT32_MAX || !asks_for_first(r->from, s) ||
        !flxi_kfacts_is_pure(&p->f, s->b) || !may_repeat(&p->f, s->body) ||
        unrolled_size(r->from, s->body) > MAX_PEELED || r->to->nodes >= MAX_TOTAL)
        return false;
    uint32_t first = flxi_krewrite_expr(r, s->a), to = flxi_krewrite_expr(r, s->b);
    if (flxi_kb_expr(r->to, to)->kind != KX_LITERAL) /* the first iteration may change the operands of the bound */
        to = flxi_kb_var(r->to, flxi_kb_let(r->to, flxi_krewrite_fresh_name(r, "n"), to));
    flxi_kb_if(r->to, flxi_kb_binary(r->to, KBIN_lt, first, to));
    r->values[s->var] = first;
    flxi_krewrite_list(r, s->body);
    flxi_kb_end(r->to);
    r->at = at;
    const char *name = r->from->vars[s->var].name;
    flxi_krewrite_bind(r, s->var, flxi_kb_loop(r->to, name, flxi_kb_u32(r->to, (uint32_t)from->bits + 1), to));
    flxi_krewrite_list(r, s->body);
    flxi_kb_end(r->to);
    return true;
}

/* ---- Strip-mining ---- */

/* for v in a..b becomes for o in 0..strips { for v in a + o * STRIP .. min(a + o * STRIP + STRIP, b) }. */
static bool strip_loop(flxi_krewrite *r, const flxi_ks *s)
{
    uint64_t trips;
    if (!has_trips(r->from, s, &trips) || trips <= MIN_STRIPPED || has_loop(s->body) ||
        r->from->exprs[s->b].bits > UINT32_MAX / 2)
        return false;
    flxi_kb *b = r->to;
    const char *name = r->from->vars[s->var].name;
    uint32_t from = flxi_krewrite_expr(r, s->a), to = flxi_krewrite_expr(r, s->b);
    uint32_t outer = flxi_kb_loop(b, flxi_krewrite_fresh_name(r, name), flxi_kb_u32(b, 0),
                                  flxi_kb_u32(b, (uint32_t)((trips + STRIP - 1) / STRIP)));
    uint32_t offset = flxi_kb_binary(b, KBIN_mul, flxi_kb_var(b, outer), flxi_kb_u32(b, STRIP));
    uint32_t first = flxi_kb_binary(b, KBIN_add, offset, from);
    uint32_t last = flxi_kb_binary(b, KBIN_add, first, flxi_kb_u32(b, STRIP));
    if (trips % STRIP)
        last = flxi_kb_binary(b, KBIN_min, last, to);
    flxi_krewrite_bind(r, s->var, flxi_kb_loop(b, name, first, last));
    flxi_krewrite_list(r, s->body);
    flxi_kb_end(b);
    flxi_kb_end(b);
    return true;
}

/* ---- Passes ---- */

static uint32_t unroll_node(flxi_krewrite *r, uint32_t made)
{
    return flxi_kfold(&((unroller *)r->user)->fold, made);
}

static void begin_unroll(flxi_krewrite *r)
{
    unroller *p = r->user;
    p->fold = flxi_kfolder_of(r->to, p->fold.flags);
}

static bool unroll_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    return s->kind == KS_LOOP ? unroll_loop(r, s) : flxi_kfold_stmt(r, &((unroller *)r->user)->fold, s);
}

static bool peel_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    return s->kind == KS_LOOP ? peel_loop(r, s) : flxi_kfold_stmt(r, &((unroller *)r->user)->fold, s);
}

static bool strip_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    return s->kind == KS_LOOP ? strip_loop(r, s) : flxi_kfold_stmt(r, &((unroller *)r->user)->fold, s);
}

static flx_kernel *run(const flx_kernel *k, const flxi_krewrite_hooks *hooks, const flxi_ksimplify_options *o,
                       flx_error *err)
{
    unroller p = {.fold = {.flags = o->flags}};
    flx_kernel *result = NULL;
    bool has = has_loop(k->body);
    for (uint32_t i = 1; !has && i <= k->num_fns; i++)
        has = has_loop(k->fns[i].body);
    if (!has)
        return flxi_krewrite_nothing(k);
    if (flxi_kfacts_find(&p.f, k, err) == FLX_OK) {
        flxi_krewrite r = {.from = k, .hooks = hooks, .user = &p};
        result = flxi_krewrite_run(&r, err);
    }
    flxi_kfacts_free(&p.f);
    return result;
}

flx_kernel *flxi_kpass_unroll(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {
        .begin = begin_unroll, .node = unroll_node, .stmt = unroll_stmt, .is_blind = true};
    return run(k, &hooks, o, err);
}

flx_kernel *flxi_kpass_peel(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {
        .begin = begin_unroll, .node = unroll_node, .stmt = peel_stmt, .is_blind = true};
    return run(k, &hooks, o, err);
}

flx_kernel *flxi_kpass_strip_mine(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {
        .begin = begin_unroll, .node = unroll_node, .stmt = strip_stmt, .is_blind = true};
    return run(k, &hooks, o, err);
}
