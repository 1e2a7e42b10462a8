/* SPDX-License-Identifier: Apache-2.0 */
/* access.c: the rule of an op is run on an unknown index, one for the position and one for each axis. Where
   it asks for an operand, the index it asks with is classified: the position itself, a part of the axes in order, or
   something else. No table of ops is needed, and what is found cannot disagree with what is emitted later. */
#include "compile/access.h"

#include "compile/express_node.h"

typedef struct {
    const flx_graph *g;
    const uint8_t *kind;
    flxi_kb *k;
    const flx_type *type; /* of the elements that are asked for */
    flxi_kindex asked;
    flxi_kval given; /* what was last answered */
    FLXI_VEC(flxi_access) found;
    const flxi_allocator *mem;
    bool failed;
} probe;

/* ---- Judging an index ---- */

/* Which axis of the asked element an expression is the index of; -1: none. */
static int axis_of(const probe *p, uint32_t x)
{
    for (int k = 0; k < p->type->rank; k++)
        if (p->asked.dim[k] == x)
            return k;
    return -1;
}

/* The axes that the index runs through must be the type's own, in order, and those left out must be neighbours. */
static bool judge_axes(const probe *p, const flx_type *t, const flxi_kindex *at, flxi_access *a)
{
    bool used[FLX_MAX_RANK] = {0};
    int last = -1;
    for (int k = 0; k < t->rank; k++) {
        if (t->dims[k] == 1)
            continue;
        int axis = axis_of(p, at->dim[k]);
        if (axis <= last || p->type->dims[axis] != t->dims[k])
            return false;
        used[last = axis] = true;
    }
    int from = 0, to = p->type->rank;
    while (from < to && (used[from] || p->type->dims[from] == 1))
        from++;
    while (to > from && (used[to - 1] || p->type->dims[to - 1] == 1))
        to--;
    for (int k = from; k < to; k++)
        if (used[k])
            return false;
    a->kind = from == to ? ACCESS_SAME : ACCESS_SPREAD;
    a->space = (flxi_space){flxi_static_extent(p->type, 0, from), flxi_static_extent(p->type, from, to),
                            flxi_static_extent(p->type, to, p->type->rank)};
    return true;
}

static flxi_access judge(probe *p, uint32_t value, const flxi_kindex *at)
{
    const flx_type *t = flxi_type_at(p->g, value);
    flxi_access a = {.value = value, .kind = ACCESS_OTHER};
    if (at->flat && at->flat == p->asked.flat)
        a.kind = ACCESS_SAME;
    else
        judge_axes(p, t, at, &a);
    return a;
}

static void note(probe *p, uint32_t value, const flxi_kindex *at)
{
    flxi_access a = judge(p, value, at);
    for (size_t i = 0; i < p->found.n; i++)
        if (memcmp(&p->found.at[i], &a, sizeof a) == 0)
            return;
    p->failed |= !flxi_push(p->mem, &p->found, a);
}

/* ---- Asking ---- */

/* What is read stands for any number. */
static flxi_kval unknown(flxi_express *e, int32_t dtype)
{
    flxi_kval x = flxi_kzero(e, dtype);
    x.re = flxi_kb_var(e->k, flxi_kb_let(e->k, "x", x.re));
    if (x.im)
        x.im = flxi_kb_var(e->k, flxi_kb_let(e->k, "y", x.im));
    return x;
}

static flxi_kval ask(flxi_express *e, uint32_t operand, const flxi_kindex *at)
{
    const flxi_express_frame *l = e->user;
    probe *p = l->user;
    uint32_t value = flxi_node_at(p->g, l->node)->in[operand], source = flxi_value_at(p->g, value)->node;
    if (p->kind[source] == NODE_VIEW)
        return flxi_express_element(p->g, p->k, source, value - flxi_node_at(p->g, source)->first, at, ask, p);
    flxi_kindex whole = *at;
    const flx_type *t = flxi_type_at(p->g, value);
    for (int k = 0; k < t->rank; k++)
        flxi_at_axis(e, t, &whole, k);
    note(p, value, &whole);
    return p->given = unknown(e, t->dtype);
}

/* An index that is not a variable, as those of kernels may be: a rule that holds it in one asks for another index. */
static uint32_t unknown_index(probe *p, const char *name)
{
    uint32_t x = flxi_kb_var(p->k, flxi_kb_let(p->k, name, flxi_kb_u32(p->k, 0)));
    return flxi_kb_binary(p->k, KBIN_add, x, x);
}

static void name_index(probe *p)
{
    p->asked.flat = unknown_index(p, "flat");
    for (int k = 0; k < p->type->rank; k++)
        p->asked.dim[k] = unknown_index(p, "axis");
}

flx_code flxi_find_accesses(const flx_graph *g, const uint8_t *kind, uint32_t i, uint32_t result, flxi_arena *out,
                            flxi_accesses *found, flx_error *err)
{
    const flxi_node *n = flxi_node_at(g, i);
    const uint32_t one[3] = {1, 1, 1};
    probe p = {.g = g, .kind = kind, .mem = &g->ctx->mem};
    p.k = flxi_kb_new(g->ctx, "probe", one, err);
    if (!p.k)
        return FLX_E_OOM;
    bool is_fold = flxi_ops[n->op].rules->fold;
    p.type = flxi_type_at(g, is_fold ? n->in[0] : n->first + result);
    name_index(&p);
    flxi_kval y = is_fold ? flxi_express_operand(g, p.k, i, 0, &p.asked, ask, &p)
                          : flxi_express_element(g, p.k, i, result, &p.asked, ask, &p);
    found->is_plain = y.re == p.given.re && y.im == p.given.im;
    flx_code code = p.failed ? flxi_oom(err, "how a node reads its operands") : FLX_OK;
    if (code == FLX_OK && !flxi_kb_ok(p.k)) {
        code = (flx_code)p.k->err.code;
        if (err)
            *err = p.k->err;
    }
    found->n = (uint32_t)p.found.n;
    found->at = code == FLX_OK ? flxi_dup(out, flxi_access, p.found.at, p.found.n) : NULL;
    if (code == FLX_OK && !found->at)
        code = flxi_oom(err, "how a node reads its operands");
    flxi_vec_free(p.mem, &p.found);
    flxi_kb_free(p.k);
    return code;
}

bool flxi_fold_space(const flx_graph *g, const flxi_node *n, flxi_space *space)
{
    const flxi_kfold *f = flxi_ops[n->op].rules->fold;
    const flx_ints axes = f->axes(n->attrs);
    const flx_type *t = flxi_type_at(g, n->in[0]);
    for (size_t k = 1; k < axes.n; k++)
        if (axes.v[k] != axes.v[k - 1] + 1)
            return false;
    int from = axes.n ? (int)axes.v[0] : t->rank, to = from + (int)axes.n;
    *space = (flxi_space){flxi_static_extent(t, 0, from), flxi_static_extent(t, from, to),
                          flxi_static_extent(t, to, t->rank)};
    return true;
}
