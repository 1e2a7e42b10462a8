/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_coalesce.c: let t = e; … v = t; becomes v = e; … if nothing in between reads or assigns v, and t has no
   other use.

   This removes the temporary variables of code that computes all new values of several variables before it assigns any
   of them, as derivatives of loops do. */
#include "kernel/optimise/kernel_facts.h"
#include "kernel/optimise/kernel_optimise.h"
#include "kernel/program/kernel_rewrite.h"

/* How far ahead the assignment may be, in statements of the list, and the limit of what is examined on the way. */
enum { MAX_AHEAD = 32, MAX_LOOKS = 256 };

typedef struct {
    flxi_kfacts f;
    uint8_t *taken;          /* by position of an assignment: it has moved up already */
    const flxi_ks **partner; /* by position of a let: the assignment that replaces it */
    bool found;
} joiner;

static bool reads(const flx_kernel *k, uint32_t number, uint32_t var)
{
    const flxi_kx *e = &k->exprs[number];
    if (!(e->does & KX_VARIES))
        return false;
    if (e->kind == KX_VAR)
        return e->ref == var;
    for (int i = flxi_kx_operands(e); i-- > 0;)
        if (reads(k, e->x[i], var))
            return true;
    for (size_t i = 0; i < e->num_args; i++)
        if (reads(k, e->args[i], var))
            return true;
    return false;
}

/* Whether a statement accesses the variable, or is too large to examine. */
static bool touches(const flx_kernel *k, const flxi_ks *s, uint32_t var, int *looks)
{
    if (--*looks < 0 || (s->kind == KS_ASSIGN && s->var == var) || reads(k, s->a, var) || reads(k, s->b, var))
        return true;
    for (size_t i = 0; i < s->body.n; i++)
        if (touches(k, &s->body.at[i], var, looks))
            return true;
    for (size_t i = 0; i < s->other.n; i++)
        if (touches(k, &s->other.at[i], var, looks))
            return true;
    return false;
}

/* Let number i of the list, at position `at`. */
static void join_let(joiner *w, flxi_klist list, size_t i, uint32_t at)
{
    const flx_kernel *k = w->f.k;
    uint32_t t = list.at[i].var, position = w->f.end[at];
    if (flxi_kfacts_is_assigned(&w->f, t) || w->f.vars[t].uses != 1)
        return;
    for (size_t j = i + 1; j < list.n && j <= i + MAX_AHEAD; j++, position = w->f.end[position]) {
        const flxi_ks *s = &list.at[j];
        if (s->kind != KS_ASSIGN || k->exprs[s->a].kind != KX_VAR || k->exprs[s->a].ref != t)
            continue;
        if (w->f.vars[s->var].at > at) /* declared in between */
            return;
        int looks = MAX_LOOKS;
        for (size_t between = i + 1; between < j; between++)
            if (touches(k, &list.at[between], s->var, &looks))
                return;
        w->partner[at] = s;
        w->taken[position] = 1;
        w->found = true;
        return;
    }
}

static void join_list(joiner *w, flxi_klist list, uint32_t at)
{
    for (size_t i = 0; i < list.n; i++, at = w->f.end[at]) {
        if (list.at[i].kind == KS_LET)
            join_let(w, list, i, at);
        join_list(w, list.at[i].body, at + 1);
        join_list(w, list.at[i].other, w->f.other[at]);
    }
}

static bool join_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    const joiner *w = r->user;
    const flxi_ks *partner = w->partner[r->at];
    if (partner)
        flxi_kb_assign(r->to, r->vars[partner->var], flxi_krewrite_expr(r, s->a));
    return partner || w->taken[r->at];
}

static flx_kernel *run(joiner *w, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {.stmt = join_stmt, .is_blind = true};
    const flx_kernel *k = w->f.k;
    w->taken = flxi_new(&w->f.arena, uint8_t, (size_t)w->f.num_positions + 2);
    w->partner = flxi_new(&w->f.arena, const flxi_ks *, (size_t)w->f.num_positions + 2);
    if (!w->taken || !w->partner) {
        flxi_oom(err, "assignments of a kernel");
        return NULL;
    }
    for (uint32_t i = 1; i <= k->num_fns; i++)
        join_list(w, k->fns[i].body, w->f.fn_at[i]);
    join_list(w, k->body, k->num_fns ? w->f.fn_result[k->num_fns] + 1 : 1);
    if (!w->found)
        return flxi_krewrite_nothing(k);
    flxi_krewrite r = {.from = k, .hooks = &hooks, .user = w};
    return flxi_krewrite_run(&r, err);
}

flx_kernel *flxi_kpass_coalesce(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    joiner w = {.found = false};
    flx_kernel *result = NULL;
    (void)o;
    if (flxi_kfacts_find(&w.f, k, err) == FLX_OK)
        result = run(&w, err);
    flxi_kfacts_free(&w.f);
    return result;
}
