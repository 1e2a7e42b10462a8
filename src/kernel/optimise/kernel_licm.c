/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_licm.c: loop-invariant code motion. Lets in the body of a loop (and in loops inside it) that have the same
   value in every iteration move before the loop, from the outside in, and costly invariant parts of other expressions
   get new lets there. Code under a condition is not moved, and neither is a region with flags. Evaluation cannot fail,
   so moving code out of a loop that never runs costs something but does no harm.

   Derivatives need less: a load before the loop gets its adjoint once instead of in every iteration, but the derivative
   of a value computed there may be infinite, which a loop that never runs must not encounter. So for them only loads
   move, and values that are not floats and thus have no derivative. */
#include "kernel/optimise/kernel_facts.h"
#include "kernel/optimise/kernel_optimise.h"
#include "kernel/program/kernel_rewrite.h"

/* Parts of expressions that cost less than a load stay in the loop. */
enum { MIN_COST = 4 };

typedef struct {
    uint32_t expr, before;
} hoisted;

typedef struct {
    flxi_kfacts f;
    uint32_t *declared;        /* by variable: position of its declaration after motion */
    uint8_t *moved;            /* by variable: its let has moved before a loop already */
    uint32_t *held;            /* by expression: the new variable that holds it in this loop, or 0 */
    FLXI_VEC(hoisted) changes; /* of `held`, undone after the loop */
    bool only_loads;           /* and values without derivatives, of lets */
} mover;

/* Whether all variables of the tree exist before position `loop`. */
static bool exists_before(const mover *m, uint32_t number, uint32_t loop)
{
    const flxi_kx *e = &m->f.k->exprs[number];
    if (!(e->does & KX_VARIES))
        return true;
    if (e->kind == KX_VAR)
        return m->declared[e->ref] < loop;
    for (int i = flxi_kx_operands(e); i-- > 0;)
        if (!exists_before(m, e->x[i], loop))
            return false;
    for (size_t i = 0; i < e->num_args; i++)
        if (!exists_before(m, e->args[i], loop))
            return false;
    return true;
}

static bool may_move(const mover *m, uint32_t number)
{
    const flxi_kx *e = &m->f.k->exprs[number];
    return !m->only_loads || e->kind == KX_LOAD || !flxi_ktype_is_float(e->type);
}

static bool is_invariant(const mover *m, uint32_t e, uint32_t loop)
{
    return exists_before(m, e, loop) && flxi_kfacts_is_stable(&m->f, e, loop, m->f.end[loop]);
}

static void hoist_let(flxi_krewrite *r, const flxi_ks *s, uint32_t loop)
{
    mover *m = r->user;
    uint32_t position = r->to->position;
    m->moved[s->var] = 1;
    m->declared[s->var] = loop - 1; /* right before it */
    r->to->position = s->position;
    flxi_krewrite_let_named(r, s->var, flxi_krewrite_expr(r, s->a), KNAMES_APART);
    r->to->position = position;
}

/* The largest invariant parts. */
static void hoist_parts(flxi_krewrite *r, uint32_t number, uint32_t loop)
{
    mover *m = r->user;
    const flxi_kx *e = &r->from->exprs[number];
    if (!flxi_kb_ok(r->to) || m->f.cost[number] < MIN_COST || m->held[number])
        return;
    if (is_invariant(m, number, loop)) {
        uint32_t value = flxi_krewrite_expr(r, number);
        uint32_t var = flxi_kb_let(r->to, flxi_krewrite_fresh_name(r, "t"), value);
        if (!flxi_push(flxi_kernel_mem(r->from), &m->changes, ((hoisted){number, m->held[number]})))
            flxi_oom(&r->to->err, "code motion");
        m->held[number] = var;
        return;
    }
    for (int i = 0; i < flxi_kx_operands(e); i++)
        hoist_parts(r, e->x[i], loop);
    for (size_t i = 0; i < e->num_args; i++)
        hoist_parts(r, e->args[i], loop);
}

/* What every iteration of the loop runs. The positions of these statements do not matter, only that of the loop. */
static void hoist_list(flxi_krewrite *r, flxi_klist list, uint32_t loop)
{
    mover *m = r->user;
    for (size_t i = 0; i < list.n && flxi_kb_ok(r->to); i++) {
        const flxi_ks *s = &list.at[i];
        bool is_let = s->kind == KS_LET && !m->moved[s->var];
        if (is_let && !flxi_kfacts_is_assigned(&m->f, s->var) && may_move(m, s->a) && is_invariant(m, s->a, loop)) {
            hoist_let(r, s, loop);
            continue;
        }
        if (!m->only_loads && (s->kind != KS_LET || is_let)) {
            hoist_parts(r, s->a, loop);
            hoist_parts(r, s->b, loop);
        }
        if (s->kind == KS_RETURN)
            return;
        if (s->kind != KS_IF && !(s->kind == KS_REGION && s->flags))
            hoist_list(r, s->body, loop);
    }
}

static uint32_t move_expr(flxi_krewrite *r, uint32_t number)
{
    const mover *m = r->user;
    return m->held[number] ? flxi_kb_var(r->to, m->held[number]) : 0;
}

static bool move_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    mover *m = r->user;
    if (s->kind == KS_LET)
        return m->moved[s->var];
    if (s->kind != KS_LOOP)
        return false;
    size_t changes = m->changes.n;
    uint32_t at = r->at;
    hoist_list(r, s->body, at);
    flxi_krewrite_stmt(r, s);
    while (m->changes.n > changes) {
        const hoisted *h = &m->changes.at[--m->changes.n];
        m->held[h->expr] = h->before;
    }
    return true;
}

static bool has_loops(const flxi_kfacts *f)
{
    for (uint32_t at = 1; at <= f->num_positions; at++)
        if (f->stmt[at] && f->stmt[at]->kind == KS_LOOP)
            return true;
    return false;
}

static bool make_room(mover *m)
{
    const flx_kernel *k = m->f.k;
    m->declared = flxi_new(&m->f.arena, uint32_t, (size_t)k->num_vars + 1);
    m->moved = flxi_new(&m->f.arena, uint8_t, (size_t)k->num_vars + 1);
    m->held = flxi_new(&m->f.arena, uint32_t, (size_t)k->num_exprs + 1);
    for (uint32_t v = 1; m->declared && v <= k->num_vars; v++)
        m->declared[v] = m->f.vars[v].at;
    return m->declared && m->moved && m->held;
}

static flx_kernel *run(const flx_kernel *k, bool only_loads, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {.expr = move_expr, .stmt = move_stmt};
    mover m = {.only_loads = only_loads};
    flx_kernel *result = NULL;
    if (flxi_kfacts_find(&m.f, k, err) == FLX_OK) {
        if (!has_loops(&m.f)) {
            result = flxi_krewrite_nothing(k);
        } else if (make_room(&m)) {
            flxi_krewrite r = {.from = k, .hooks = &hooks, .user = &m};
            result = flxi_krewrite_run(&r, err);
        } else {
            flxi_oom(err, "code motion");
        }
    }
    flxi_vec_free(flxi_kernel_mem(k), &m.changes);
    flxi_kfacts_free(&m.f);
    return result;
}

flx_kernel *flxi_kpass_licm(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    (void)o;
    return run(k, false, err);
}

flx_kernel *flxi_kernel_hoist_loads(const flx_kernel *k, flx_error *err)
{
    return run(k, true, err);
}
