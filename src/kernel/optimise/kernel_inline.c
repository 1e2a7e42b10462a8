/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_inline.c: replaces blocks, regions and calls by their contents.

   A block disappears, and so does a region that carries no flags, up to a size; their variables get new names where
   necessary. A call becomes the statements of its function, right before the statement that contains it, unless that
   statement has effects (the order of evaluation would be observable), the function is large and has several call
   sites, or it has its own derivative, which inlining would lose. There are two passes, one that respects size limits
   and one that does not; without inlining, neither runs. */
#include "kernel/optimise/kernel_facts.h"
#include "kernel/optimise/kernel_optimise.h"
#include "kernel/program/kernel_rewrite.h"

enum {
    MAX_REGION = 256,   /* statements and expression nodes of a region that is spliced */
    MAX_FUNCTION = 64,  /* of a function that is inlined at every call */
    MAX_TOTAL = 200000, /* programs do not grow beyond this by inlining */
};

typedef struct {
    flxi_kfacts f;
    uint32_t *sizes; /* by function */
    uint32_t *calls; /* by function: call sites */
    uint8_t *has_adjoint;
    bool is_eager; /* whatever the size */
    int depth;     /* of calls that are being inlined */
} inliner;

/* ---- Sizes ---- */

static uint64_t size_of(const flx_kernel *k, flxi_klist list)
{
    uint64_t size = 0;
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        size += 1 + (uint64_t)k->exprs[s->a].size + k->exprs[s->b].size + size_of(k, s->body) + size_of(k, s->other);
    }
    return size;
}

static void count_calls(inliner *p, uint32_t number)
{
    const flxi_kx *e = &p->f.k->exprs[number];
    if (!(e->does & KX_OPAQUES))
        return;
    if (e->kind == KX_CALL)
        p->calls[e->ref]++;
    for (int i = flxi_kx_operands(e); i-- > 0;)
        count_calls(p, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        count_calls(p, e->args[i]);
}

static void measure(inliner *p)
{
    const flx_kernel *k = p->f.k;
    for (uint32_t at = 1; at <= p->f.num_positions; at++)
        if (p->f.stmt[at]) {
            count_calls(p, p->f.stmt[at]->a);
            count_calls(p, p->f.stmt[at]->b);
        }
    for (uint32_t i = 1; i <= k->num_fns; i++) {
        uint64_t size = size_of(k, k->fns[i].body) + k->exprs[k->fns[i].result].size;
        p->sizes[i] = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
        count_calls(p, k->fns[i].result);
        if (k->fns[i].adjoint_of)
            p->has_adjoint[k->fns[i].adjoint_of - 1] = 1;
    }
}

/* ---- Calls ---- */

static bool is_inlined(const flxi_krewrite *r, uint32_t fn)
{
    const inliner *p = r->user;
    bool is_small = p->is_eager || p->sizes[fn] <= MAX_FUNCTION || p->calls[fn] == 1;
    return is_small && !p->has_adjoint[fn] && !p->f.fn_does[fn] && p->depth < FLXI_KERNEL_MAX_CALLS &&
           r->to->nodes < MAX_TOTAL;
}

static bool is_leaf(const flxi_kx *e)
{
    return e->kind == KX_LITERAL || e->kind == KX_VAR || e->kind == KX_ID || e->kind == KX_LENGTH;
}

static void bind_params(flxi_krewrite *r, const flxi_kfn *fn, const uint32_t *args)
{
    const inliner *p = r->user;
    for (uint32_t i = 0; i < fn->num_params; i++) {
        uint32_t var = fn->params[i];
        if (is_leaf(flxi_kb_expr(r->to, args[i])) && !flxi_kfacts_is_assigned(&p->f, var))
            r->values[var] = args[i];
        else
            flxi_krewrite_let_named(r, var, args[i], KNAMES_NEW);
    }
}

static uint32_t inline_call(flxi_krewrite *r, const flxi_kx *e)
{
    inliner *p = r->user;
    const flxi_kfn *fn = &r->from->fns[e->ref];
    uint32_t *args = flxi_krewrite_alloc(r, e->num_args, sizeof *args);
    for (size_t i = 0; args && i < e->num_args; i++)
        args[i] = flxi_krewrite_expr(r, e->args[i]);
    if (!args || !flxi_kb_ok(r->to))
        return 0;
    uint32_t at = r->at, position = r->to->position;
    p->depth++;
    bind_params(r, fn, args);
    r->at = p->f.fn_at[e->ref] - 1;
    flxi_krewrite_splice(r, fn->body, KNAMES_ALL_NEW);
    r->at = p->f.fn_result[e->ref];
    uint32_t result = flxi_krewrite_expr(r, fn->result);
    p->depth--;
    r->at = at;
    r->to->position = position;
    return result;
}

static uint32_t inline_expr(flxi_krewrite *r, uint32_t number)
{
    const inliner *p = r->user;
    const flxi_kx *e = &r->from->exprs[number];
    if (e->kind != KX_CALL || !is_inlined(r, e->ref))
        return 0;
    const flxi_ks *s = p->f.stmt[r->at];
    if (s && ((p->f.does[s->a] | p->f.does[s->b]) & KF_EFFECT))
        return 0;
    return inline_call(r, e);
}

/* ---- Blocks and regions ---- */

static bool inline_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    const inliner *p = r->user;
    bool vanishes = s->kind == KS_BLOCK ||
                    (s->kind == KS_REGION && !s->flags && (p->is_eager || size_of(r->from, s->body) <= MAX_REGION));
    if (vanishes)
        flxi_krewrite_splice(r, s->body, KNAMES_APART);
    return vanishes;
}

static bool has_work(const flx_kernel *k, flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++)
        if (list.at[i].kind == KS_BLOCK || list.at[i].kind == KS_REGION || has_work(k, list.at[i].body) ||
            has_work(k, list.at[i].other))
            return true;
    return k->num_fns > 0;
}

static flx_kernel *run(const flx_kernel *k, bool is_eager, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {.expr = inline_expr, .stmt = inline_stmt};
    inliner p = {.is_eager = is_eager};
    flx_kernel *result = NULL;
    if (!has_work(k, k->body))
        return flxi_krewrite_nothing(k);
    if (flxi_kfacts_find(&p.f, k, err) == FLX_OK) {
        p.sizes = flxi_new(&p.f.arena, uint32_t, (size_t)k->num_fns + 1);
        p.calls = flxi_new(&p.f.arena, uint32_t, (size_t)k->num_fns + 1);
        p.has_adjoint = flxi_new(&p.f.arena, uint8_t, (size_t)k->num_fns + 1);
        if (p.sizes && p.calls && p.has_adjoint) {
            measure(&p);
            flxi_krewrite r = {.from = k, .hooks = &hooks, .user = &p};
            result = flxi_krewrite_run(&r, err);
        } else {
            flxi_oom(err, "inlining");
        }
    }
    flxi_kfacts_free(&p.f);
    return result;
}

flx_kernel *flxi_kpass_inline(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    (void)o;
    return run(k, false, err);
}

flx_kernel *flxi_kpass_inline_always(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    (void)o;
    return run(k, true, err);
}
