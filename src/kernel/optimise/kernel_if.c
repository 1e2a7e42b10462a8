/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_if.c: simplifies branches. One pass removes decided ones, the other turns small ones into selects.

   Inside a branch its condition is known, as long as nothing it reads changes there; so is what the condition
   implies: both sides of an `and` that holds, both sides of an `or` that does not. Known conditions are replaced by
   literals wherever they occur, which decides inner branches. */
#include "kernel/optimise/kernel_facts.h"
#include "kernel/optimise/kernel_fold.h"
#include "kernel/optimise/kernel_optimise.h"

enum { UNKNOWN, IS_TRUE, IS_FALSE };

typedef struct {
    uint32_t expr;
    uint8_t before;
} lesson;

typedef struct {
    flxi_kfacts f;
    flxi_kfolder fold;
    FLXI_VEC(uint8_t) truths; /* by new expression: what is known about it here; shorter than the list of expressions */
    FLXI_VEC(lesson) lessons; /* to be undone when their branch ends */
} brancher;

static void fail(flxi_krewrite *r)
{
    if (flxi_kb_ok(r->to))
        flxi_oom(&r->to->err, "branches");
}

/* ---- Known conditions ---- */

static void learn(flxi_krewrite *r, uint32_t e, bool holds)
{
    brancher *p = r->user;
    const flxi_allocator *mem = flxi_kernel_mem(r->from);
    flxi_kx x = *flxi_kb_expr(r->to, e);
    if (x.type != FLX_BOOL || x.kind == KX_LITERAL)
        return;
    while (p->truths.n <= e)
        if (!flxi_push(mem, &p->truths, UNKNOWN)) {
            fail(r);
            return;
        }
    if (!flxi_push(mem, &p->lessons, ((lesson){e, p->truths.at[e]}))) {
        fail(r);
        return;
    }
    p->truths.at[e] = holds ? IS_TRUE : IS_FALSE;
    if (x.kind == KX_UNARY && x.op == KUN_logical_not)
        learn(r, x.x[0], !holds);
    if (x.kind == KX_BINARY && x.op == (holds ? KBIN_logical_and : KBIN_logical_or)) {
        learn(r, x.x[0], holds);
        learn(r, x.x[1], holds);
    }
}

static void forget(brancher *p, size_t lessons)
{
    while (p->lessons.n > lessons) {
        const lesson *l = &p->lessons.at[--p->lessons.n];
        p->truths.at[l->expr] = l->before;
    }
}

static uint32_t branch_node(flxi_krewrite *r, uint32_t made)
{
    const brancher *p = r->user;
    uint32_t e = flxi_kfold(&p->fold, made);
    uint8_t truth = e < p->truths.n ? p->truths.at[e] : UNKNOWN;
    return truth == UNKNOWN ? e : flxi_kb_bool(r->to, truth == IS_TRUE);
}

/* ---- Statements ---- */

static void copy_branch(flxi_krewrite *r, flxi_klist list, uint32_t condition, bool holds, bool lasts)
{
    brancher *p = r->user;
    size_t lessons = p->lessons.n;
    if (lasts)
        learn(r, condition, holds);
    flxi_krewrite_list(r, list);
    forget(p, lessons);
}

/* if c {} else {B} is if !c {B}. */
static bool rewrite_if(flxi_krewrite *r, const flxi_ks *s)
{
    brancher *p = r->user;
    uint32_t at = r->at;
    uint32_t c = flxi_krewrite_expr(r, s->a);
    const flxi_kx *e = flxi_kb_expr(r->to, c);
    if (e->kind == KX_LITERAL && !flxi_klist_has_copies(e->bits ? s->other : s->body)) {
        bool holds = e->bits != 0;
        if (!holds)
            flxi_krewrite_skip(r, s->body);
        flxi_krewrite_splice(r, holds ? s->body : s->other, KNAMES_APART);
        return true;
    }
    if (!s->body.n && !s->other.n && !(p->f.does[s->a] & (KF_EFFECT | KF_HELD)))
        return true;
    bool lasts = flxi_kfacts_is_stable(&p->f, s->a, at, p->f.end[at]);
    bool inverts = !s->body.n && s->other.n;
    flxi_kb_if(r->to, inverts ? flxi_kfold(&p->fold, flxi_kb_unary(r->to, KUN_logical_not, c)) : c);
    if (!inverts)
        copy_branch(r, s->body, c, true, lasts);
    if (s->other.n) {
        if (!inverts)
            flxi_kb_else(r->to);
        copy_branch(r, s->other, c, false, lasts);
    }
    flxi_kb_end(r->to);
    return true;
}

static bool never_runs(const flx_kernel *k, const flxi_ks *s)
{
    const flxi_kx *a = &k->exprs[s->a], *b = &k->exprs[s->b];
    return a->kind == KX_LITERAL && b->kind == KX_LITERAL && a->bits >= b->bits && !flxi_klist_has_copies(s->body);
}

static bool branch_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    const brancher *p = r->user;
    switch ((flxi_ks_kind)s->kind) {
    case KS_IF: return rewrite_if(r, s);
    case KS_LOOP: return never_runs(r->from, s);
    default: return flxi_kfold_stmt(r, &p->fold, s);
    }
}

static void begin_branch(flxi_krewrite *r)
{
    brancher *p = r->user;
    p->fold = flxi_kfolder_of(r->to, p->fold.flags);
}

static bool has_kind(flxi_klist list, flxi_ks_kind a, flxi_ks_kind b)
{
    for (size_t i = 0; i < list.n; i++)
        if (list.at[i].kind == a || list.at[i].kind == b || has_kind(list.at[i].body, a, b) ||
            has_kind(list.at[i].other, a, b))
            return true;
    return false;
}

static bool has_branches(const flx_kernel *k)
{
    bool has = has_kind(k->body, KS_IF, KS_LOOP);
    for (uint32_t i = 1; !has && i <= k->num_fns; i++)
        has = has_kind(k->fns[i].body, KS_IF, KS_LOOP);
    return has;
}

flx_kernel *flxi_kpass_if(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {
        .begin = begin_branch,
        .node = branch_node,
        .stmt = branch_stmt,
    };
    if (!has_branches(k))
        return flxi_krewrite_nothing(k);
    brancher p = {.fold = {.flags = o->flags}};
    flx_kernel *result = NULL;
    if (flxi_kfacts_find(&p.f, k, err) == FLX_OK) {
        flxi_krewrite r = {.from = k, .hooks = &hooks, .user = &p};
        result = flxi_krewrite_run(&r, err);
    }
    flxi_vec_free(flxi_kernel_mem(k), &p.truths);
    flxi_vec_free(flxi_kernel_mem(k), &p.lessons);
    flxi_kfacts_free(&p.f);
    return result;
}

/* ---- Selects ---- */

/* Larger branches are better skipped by a jump. */
enum { MAX_ARM_COST = 8, MAX_ARM_ASSIGNS = 2, MAX_ARM_DEPTH = 64 };

static bool is_cheap_arm(const flxi_kfacts *f, flxi_klist list)
{
    uint32_t cost = 0;
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        if (s->kind != KS_ASSIGN || !flxi_kfacts_is_pure(f, s->a) || (f->does[s->a] & KF_LOADS) ||
            f->cost[s->a] > MAX_ARM_COST || f->k->exprs[s->a].depth > MAX_ARM_DEPTH)
            return false;
        cost += f->cost[s->a];
    }
    return list.n <= MAX_ARM_ASSIGNS && cost <= MAX_ARM_COST;
}

static void select_arm(flxi_krewrite *r, flxi_klist list, uint32_t c, bool holds)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        uint32_t value = flxi_krewrite_expr(r, s->a), kept = flxi_kb_var(r->to, r->vars[s->var]);
        flxi_kb_assign(r->to, r->vars[s->var], flxi_kb_select(r->to, c, holds ? value : kept, holds ? kept : value));
    }
}

static bool select_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    const flxi_kfacts *f = r->user;
    if (s->kind != KS_IF || !(s->body.n + s->other.n) || !flxi_kfacts_is_pure(f, s->a) || !is_cheap_arm(f, s->body) ||
        !is_cheap_arm(f, s->other) || f->k->exprs[s->a].depth > MAX_ARM_DEPTH)
        return false;
    uint32_t c = flxi_krewrite_expr(r, s->a);
    const flxi_ks *x = s->body.at, *y = s->other.at;
    if (s->body.n == 1 && s->other.n == 1 && x->var == y->var) {
        uint32_t a = flxi_krewrite_expr(r, x->a), b = flxi_krewrite_expr(r, y->a);
        flxi_kb_assign(r->to, r->vars[x->var], flxi_kb_select(r->to, c, a, b));
        return true;
    }
    /* An arm's values are used only where the other arm changed nothing, so the arms may follow one another; but the
       condition is evaluated once. */
    if (s->body.n + s->other.n > 1)
        c = flxi_kb_var(r->to, flxi_kb_let(r->to, flxi_krewrite_fresh_name(r, "c"), c));
    select_arm(r, s->body, c, true);
    select_arm(r, s->other, c, false);
    return true;
}

flx_kernel *flxi_kpass_select(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {.stmt = select_stmt, .is_blind = true};
    flxi_kfacts f;
    flx_kernel *result = NULL;
    (void)o;
    if (!has_branches(k))
        return flxi_krewrite_nothing(k);
    if (flxi_kfacts_find(&f, k, err) == FLX_OK) {
        flxi_krewrite r = {.from = k, .hooks = &hooks, .user = &f};
        result = flxi_krewrite_run(&r, err);
    }
    flxi_kfacts_free(&f);
    return result;
}
