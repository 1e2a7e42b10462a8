/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_propagate.c: copy and constant propagation in one walk that folds as it goes.

   A let that is never assigned is replaced by its value if the value is a literal, a variable, or any pure expression
   with a single use outside of inner loops, provided that it stays the same up to the last use. So a chain of lets
   turns into one readable expression, up to a depth limit. For an assigned variable the value is known between an
   assignment of a literal or an unchanging variable and the next assignment, as long as no loop that leads back into
   this span contains an assignment. An assignment in the same list as the variable's let starts a new variable:
   everything after it in the list refers to the new one, so no information is lost, and each piece is assigned less
   often. */
#include "kernel/optimise/kernel_facts.h"
#include "kernel/optimise/kernel_fold.h"
#include "kernel/optimise/kernel_optimise.h"

/* Deeper expressions are hard to read, and come close to the depth limit. */
enum { MAX_DEPTH = 24 };

typedef struct {
    uint32_t value; /* what the variable holds: an expression of the new program, or 0 */
    uint32_t at;    /* since this position */
} knowledge;

typedef struct {
    uint32_t var;
    knowledge before;
} change;

typedef struct {
    flxi_kfacts f;
    flxi_kfolder fold;
    knowledge *known;                               /* by old variable: of those that are assigned */
    uint32_t *home;                                 /* by old variable: the list of its let */
    uint32_t lists;                                 /* so far */
    uint32_t here[FLXI_KERNEL_MAX_NESTING + 4];     /* the open lists … */
    size_t changes_at[FLXI_KERNEL_MAX_NESTING + 4]; /* … and where their changes begin */
    size_t depth;
    FLXI_VEC(change) changes; /* of `known` by assignments, undone when their list ends */
} propagator;

static const flxi_allocator *mem_of(const flxi_krewrite *r)
{
    return flxi_kernel_mem(r->from);
}

/* ---- What variables hold ---- */

static void learn(flxi_krewrite *r, uint32_t var, uint32_t value)
{
    propagator *p = r->user;
    const flxi_kx *e = flxi_kb_expr(r->to, value);
    uint32_t source = e->kind == KX_VAR ? flxi_krewrite_source(r, e->ref) : 0;
    bool lasts = e->kind == KX_LITERAL || (source && !flxi_kfacts_is_assigned(&p->f, source));
    p->known[var] = (knowledge){lasts ? value : 0, r->at};
}

static void learn_from_assign(flxi_krewrite *r, uint32_t var, uint32_t value)
{
    propagator *p = r->user;
    if (!flxi_push(mem_of(r), &p->changes, ((change){var, p->known[var]}))) {
        flxi_oom(&r->to->err, "propagation");
        return;
    }
    learn(r, var, value);
}

static void open_list(flxi_krewrite *r, flxi_klist list)
{
    propagator *p = r->user;
    (void)list;
    p->here[p->depth] = ++p->lists;
    p->changes_at[p->depth++] = p->changes.n;
}

/* Whether an assignment in the list intervenes is checked by position, so earlier knowledge may become valid again. */
static void close_list(flxi_krewrite *r, flxi_klist list)
{
    propagator *p = r->user;
    (void)list;
    p->depth--;
    while (p->changes.n > p->changes_at[p->depth]) {
        const change *c = &p->changes.at[--p->changes.n];
        p->known[c->var] = c->before;
    }
}

static uint32_t known_value(const flxi_krewrite *r, uint32_t var)
{
    const propagator *p = r->user;
    const knowledge *known = &p->known[var];
    return known->value && flxi_kfacts_reaches(&p->f, var, known->at, r->at) ? known->value : 0;
}

static uint32_t propagate_expr(flxi_krewrite *r, uint32_t number)
{
    const propagator *p = r->user;
    const flxi_kx *e = &r->from->exprs[number];
    return e->kind == KX_VAR && flxi_kfacts_is_assigned(&p->f, e->ref) ? known_value(r, e->ref) : 0;
}

static uint32_t propagate_node(flxi_krewrite *r, uint32_t made)
{
    return flxi_kfold(&((propagator *)r->user)->fold, made);
}

/* ---- Replacing lets ---- */

/* Whether a new expression, evaluated at `from`, has the same value up to `to`. Buffers have the same numbers in both
   programs. */
static bool lasts(const flxi_krewrite *r, uint32_t number, uint32_t from, uint32_t to)
{
    const propagator *p = r->user;
    const flxi_kx *e = flxi_kb_expr(r->to, number);
    if (!(e->does & (KX_READS | KX_VARIES | KX_OPAQUES)))
        return true;
    if (e->kind == KX_VAR) {
        uint32_t source = flxi_krewrite_source(r, e->ref);
        return !source || flxi_kfacts_is_same(&p->f, source, from, to);
    }
    if (e->kind == KX_LOAD && !flxi_kfacts_is_kept(&p->f, e->ref, from, to))
        return false;
    if (e->kind == KX_CALL && (p->f.fn_does[e->ref] & KF_FOREIGN))
        return false;
    for (int i = flxi_kx_operands(e); i-- > 0;)
        if (!lasts(r, e->x[i], from, to))
            return false;
    for (size_t i = 0; i < e->num_args; i++)
        if (!lasts(r, e->args[i], from, to))
            return false;
    return true;
}

/* Operands are evaluated from left to right, so an effect in the statement of the use may come before it. */
static bool use_has_effect(const propagator *p, uint32_t use)
{
    const flxi_ks *s = p->f.stmt[use];
    return !s || ((p->f.does[s->a] | p->f.does[s->b]) & KF_EFFECT);
}

static bool may_move(const flxi_krewrite *r, const flxi_ks *s, uint32_t value)
{
    const propagator *p = r->user;
    const flxi_kvar_positions *v = &p->f.vars[s->var];
    const flxi_kx *e = flxi_kb_expr(r->to, value);
    if (e->kind == KX_ID) /* it is easier to read by name and costs nothing */
        return false;
    if (!flxi_kfacts_is_pure(&p->f, s->a) || v->uses != 1 || v->is_looped || e->depth + v->use_depth > MAX_DEPTH)
        return false;
    return !((e->does & KX_READS) && use_has_effect(p, v->reach));
}

/* Whether a read of the variable may be replaced by evaluating `value`. */
static bool is_replaced(const flxi_krewrite *r, const flxi_ks *s, uint32_t value)
{
    const propagator *p = r->user;
    const flxi_kvar_positions *v = &p->f.vars[s->var];
    const flxi_kx *e = flxi_kb_expr(r->to, value);
    if (flxi_kfacts_is_assigned(&p->f, s->var))
        return false;
    if (e->kind == KX_LITERAL)
        return flxi_kfacts_is_pure(&p->f, s->a);
    return (e->kind == KX_VAR || may_move(r, s, value)) && lasts(r, value, r->at, v->reach);
}

static void propagate_let(flxi_krewrite *r, const flxi_ks *s)
{
    propagator *p = r->user;
    uint32_t value = flxi_krewrite_expr(r, s->a);
    if (!flxi_kb_ok(r->to))
        return;
    p->home[s->var] = p->here[p->depth - 1];
    if (is_replaced(r, s, value)) {
        r->values[s->var] = value;
        return;
    }
    flxi_krewrite_let(r, s->var, value);
    if (flxi_kfacts_is_assigned(&p->f, s->var))
        learn(r, s->var, value);
}

static void propagate_assign(flxi_krewrite *r, const flxi_ks *s)
{
    propagator *p = r->user;
    uint32_t value = flxi_krewrite_expr(r, s->a);
    const flxi_kx *e = flxi_kb_expr(r->to, value);
    if (!flxi_kb_ok(r->to) || (e->kind == KX_VAR && e->ref == r->vars[s->var]))
        return;
    if (p->home[s->var] == p->here[p->depth - 1]) {
        const char *name = flxi_krewrite_fresh_name(r, r->from->vars[s->var].name);
        flxi_krewrite_bind(r, s->var, flxi_kb_let(r->to, name, value));
    } else {
        flxi_kb_assign(r->to, r->vars[s->var], value);
    }
    learn_from_assign(r, s->var, value);
}

static bool propagate_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    const propagator *p = r->user;
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET: propagate_let(r, s); return true;
    case KS_ASSIGN: propagate_assign(r, s); return true;
    default: return flxi_kfold_stmt(r, &p->fold, s);
    }
}

static void begin_propagate(flxi_krewrite *r)
{
    propagator *p = r->user;
    p->fold = flxi_kfolder_of(r->to, p->fold.flags);
    p->known = flxi_krewrite_alloc(r, (size_t)r->from->num_vars + 1, sizeof *p->known);
    p->home = flxi_krewrite_alloc(r, (size_t)r->from->num_vars + 1, sizeof *p->home);
}

flx_kernel *flxi_kpass_propagate(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {
        .begin = begin_propagate,
        .expr = propagate_expr,
        .node = propagate_node,
        .stmt = propagate_stmt,
        .is_blind = true,
        .open = open_list,
        .close = close_list,
    };
    propagator p = {.fold = {.flags = o->flags}};
    flx_kernel *result = NULL;
    if (flxi_kfacts_find(&p.f, k, err) == FLX_OK) {
        flxi_krewrite r = {.from = k, .hooks = &hooks, .user = &p};
        result = flxi_krewrite_run(&r, err);
    }
    flxi_vec_free(flxi_kernel_mem(k), &p.changes);
    flxi_kfacts_free(&p.f);
    return result;
}
