/* SPDX-License-Identifier: Apache-2.0 */
/* reverse.c: the reverse sweep. The forward computation is copied first (ops that keep something for the reverse sweep
   say what); then nodes are visited from last to first. A node is visited if a cotangent arrived and if it depends on a
   value that is differentiated: both conditions prune. Contributions to one value are added in ascending order of their
   consumers and operands, three or more as one n-ary sum.

   Elements that a `where` did not select have a cotangent of zero, which must not become NaN by multiplication with an
   infinite derivative (masks.h). Pointwise rules may do so, since every element stays by itself; the zeros are restored
   before elements or contributions meet. */
#include "autodiff/body/needs.h"
#include "autodiff/masks.h"
#include "ops/rule/rule_lists.h"

#include <fluxion/catalogue.h>

typedef struct {
    flxi_cotangent d;
    uint32_t next; /* position + 1 of the contribution from the consumer before; 0: none */
} contribution;

typedef struct {
    flxi_reverse *r;
    const flxi_allocator *mem;
    uint32_t *head; /* by id: position + 1 of the latest contribution */
    FLXI_VEC(contribution) parts;
    flx_error *err;
} sweep;

/* Whether operand k of a node needs a cotangent. */
static bool wants(const flxi_reverse *r, const flxi_node *n, uint32_t k)
{
    return r->active[n->in[k]] && flxi_takes_derivative(&flxi_ops[n->op], flxi_type_at(r->src, n->in[k])->dtype);
}

static void find_active(flxi_reverse *r)
{
    const flx_graph *g = r->src;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        const flxi_op *op = &flxi_ops[n->op];
        bool any = false;
        bool is_quantised = false;
        for (uint32_t k = 0; flxi_rule_kind(op, MODE_VJP) != FLX_RULE_ZERO && k < n->nin; k++)
            if (wants(r, n, k)) {
                any = true;
                is_quantised |= flxi_is_int(flxi_type_at(g, n->in[k])->dtype);
            }
        for (uint32_t k = 0; k < n->nout; k++)
            r->active[n->first + k] =
                r->wrt[n->first + k] ||
                (any && flxi_gives_derivative(op, flxi_type_at(g, n->first + k)->dtype, is_quantised));
    }
}

/* ---- Forward part ---- */

/* NULL when memory is exhausted. */
static const bool *wanted_operands(const flxi_reverse *r, const flxi_node *n)
{
    bool *wanted = flxi_new(&r->g->arena, bool, n->nin);
    for (uint32_t k = 0; wanted && k < n->nin; k++)
        wanted[k] = wants(r, n, k);
    return wanted;
}

static void set_options(flxi_reverse *r, flxi_site *s)
{
    s->bounded = r->bounded;
    s->backward_ops = r->backward_ops;
    s->memo = r->memo ? r->memo : &r->own;
}

static flx_code keep_primal(flxi_reverse *r, uint32_t i, flx_error *err)
{
    const flxi_node *n = flxi_node_at(r->src, i);
    flxi_site s = flxi_site_of(r->g, r->src, i, r->map);
    FLXI_TRY(flxi_built(r->g, err));
    flx_val *y = flxi_new(&r->g->arena, flx_val, n->nout);
    s.wanted = wanted_operands(r, n);
    set_options(r, &s);
    if (!s.wanted)
        return flxi_oom(err, "differentiating");
    r->saved[i] = flxi_new(&r->g->arena, flx_val, s.op->rules->num_saved(&s));
    if (!y || !r->saved[i])
        return flxi_oom(err, "differentiating");
    flxi_origin_scope scope;
    flxi_origin_begin(&scope, r->src, n);
    s.op->rules->primal(&s, y, r->saved[i]);
    flxi_origin_end(&scope);
    for (uint32_t k = 0; k < n->nout && !r->g->error.code; k++) {
        const flxi_value *v = flxi_value_at(r->src, n->first + k);
        r->map[n->first + k] = y[k].id;
        flxi_value_at(r->g, y[k].id)->pinned |= v->pinned;
        if (v->name)
            flxi_label(r->g, y[k].id, v->name, strlen(v->name));
    }
    return flxi_built(r->g, err);
}

static bool any_active(const flxi_reverse *r, const flxi_node *n)
{
    for (uint32_t k = 0; k < n->nin; k++)
        if (wants(r, n, k))
            return true;
    return false;
}

flx_code flxi_reverse_forward(flxi_reverse *r, flx_error *err)
{
    const flxi_allocator *mem = &r->g->ctx->mem;
    r->active = flxi_alloc(mem, (size_t)r->src->value_count + 1, sizeof *r->active);
    r->saved = flxi_alloc(mem, r->src->node_count, sizeof *r->saved);
    if (!r->active || !r->saved)
        return flxi_oom(err, "differentiating");
    find_active(r);
    for (uint32_t i = 0; i < r->src->node_count; i++) {
        const flxi_node *n = flxi_node_at(r->src, i);
        if (flxi_ops[n->op].traits & TRAIT_DECLARED)
            continue;
        if (flxi_ops[n->op].rules->primal && any_active(r, n))
            FLXI_TRY(keep_primal(r, i, err));
        else
            FLXI_TRY(flxi_graft(r->g, r->src, i, r->map, err));
    }
    return flxi_built(r->g, err);
}

void flxi_reverse_free(flxi_reverse *r)
{
    const flxi_allocator *mem = &r->g->ctx->mem;
    flxi_free(mem, r->active, (size_t)r->src->value_count + 1, sizeof *r->active);
    flxi_free(mem, r->saved, r->src->node_count, sizeof *r->saved);
    flxi_memo_free(&r->own);
    r->active = NULL;
    r->saved = NULL;
}

/* ---- Cotangents ---- */

static flx_code contribute(sweep *w, uint32_t id, flxi_cotangent d)
{
    if (!flxi_push(w->mem, &w->parts, ((contribution){d, w->head[id]})))
        return flxi_oom(w->err, "cotangents");
    w->head[id] = (uint32_t)w->parts.n;
    return FLX_OK;
}

/* Contributions were added from the last consumer to the first, so the list is already ascending from its head. What is
   known about all of them is known about the sum; zeros that are known for one alone are restored first. */
static flx_code gather(sweep *w, uint32_t id, flxi_cotangent *out)
{
    flx_graph *g = w->r->g;
    flxi_site s = flxi_plain_site(g);
    size_t n = 0;
    *out = (flxi_cotangent){.v = FLX_NONE};
    for (uint32_t k = w->head[id]; k; k = w->parts.at[k - 1].next) {
        const flxi_cotangent *d = &w->parts.at[k - 1].d;
        out->facts = n++ ? flxi_common_facts(g, out->facts, d->facts) : d->facts;
        out->dirty |= d->dirty;
    }
    if (n == 0)
        return FLX_OK;
    flx_val *terms = flxi_new(&g->arena, flx_val, n);
    const flxi_facts **each = flxi_new(&g->arena, const flxi_facts *, n);
    if (!terms || !each)
        return flxi_oom(w->err, "cotangents");
    size_t at = 0;
    for (uint32_t k = w->head[id]; k; k = w->parts.at[k - 1].next) {
        const flxi_cotangent *d = &w->parts.at[k - 1].d;
        each[at] = d->facts;
        terms[at++] = d->dirty ? flxi_restore_zeros(&s, d->v, d->facts, out->facts) : d->v;
    }
    if (n > 1 && !out->facts) { /* all contributions are exact zeros there: restored above, or never spoiled */
        out->facts = flxi_joined_facts(g, each, n);
        out->dirty = false;
    }
    out->v = n == 1 ? terms[0] : n == 2 ? flx_add(g, terms[0], terms[1]) : flx_add_n(g, terms, n);
    return flxi_built(g, w->err);
}

static void clean(sweep *w, flxi_cotangent *d)
{
    flxi_site s = flxi_plain_site(w->r->g);
    if (d->dirty && !flxi_is_none(d->v))
        d->v = flxi_restore_zeros(&s, d->v, d->facts, NULL);
    d->dirty = false;
}

/* Whether the rule multiplies by something that need not be finite. */
static bool may_spoil(const flxi_reverse *r, const flxi_node *n, uint32_t operand)
{
    const flxi_op *op = &flxi_ops[n->op];
    if (op->rules->mask || (op->traits & TRAIT_LINEAR))
        return false;
    return !op->rules->is_tame || !op->rules->is_tame(r->src, n, operand);
}

/* A complex cotangent of a real operand keeps its real part; a real one of a complex operand is widened. */
static flx_val fit_dtype(flxi_site *s, flx_val v, const flx_type *to)
{
    const flx_type *t = flxi_typeof(s, v);
    if (t->dtype == to->dtype)
        return v;
    return flx_cast(s->g, v, (flx_dtype)to->dtype);
}

/* Extents that must be the same when the graph runs may be written differently: a number, a symbol. */
static flx_val fit_dims(flxi_site *s, flx_val v, const flx_type *to)
{
    const flx_type *t = flxi_typeof(s, v);
    if (t->rank != to->rank || memcmp(t->dims, to->dims, (size_t)t->rank * sizeof *t->dims) == 0)
        return v;
    for (int k = 0; k < t->rank; k++)
        if (flxi_dims_differ(s->ctx, t->dims[k], to->dims[k]))
            return v;
    return flxi_reshape_like(s, v, to);
}

static flx_code check_cotangent(sweep *w, const flxi_site *s, flx_val v, const flx_type *wanted)
{
    const flx_type *t = flx_val_type(w->r->g, v);
    flxi_type_text a;
    flxi_type_text b;
    if (t && flxi_type_equal(t, wanted))
        return FLX_OK;
    return flxi_fail(w->err, FLX_E_INTERNAL, "%s: a cotangent is %s, expected %s", s->op->name,
                     t ? flxi_type_str(s->ctx, t, &a) : "none", flxi_type_str(s->ctx, wanted, &b));
}

/* False: there is no rule. */
static bool append_vjp(sweep *w, const flxi_node *n, flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const flxi_rules *rules = s->op->rules;
    bool has_rule = true;
    flxi_origin_scope scope;
    flxi_origin_begin(&scope, w->r->src, n);
    if (s->backward_ops && rules->backward_vjp)
        rules->backward_vjp(s, dy, dx);
    else if (rules->vjp)
        rules->vjp(s, dy, dx);
    else if (rules->partial || rules->mask)
        flxi_pointwise_vjp(s, dy, dx);
    else
        has_rule = false;
    flxi_origin_end(&scope);
    return has_rule;
}

/* Whether an operand is shared by elements about whose cotangents something is known, which is lost for it. */
static bool loses_facts(const flxi_site *s, const flxi_facts *all, const flxi_facts *const *known)
{
    for (uint32_t k = 0; k < s->nin; k++)
        if (s->wanted[k] && (!known[k] || known[k]->n < all->n))
            return true;
    return false;
}

/* A product sums over elements: those whose cotangent is zero must not meet infinities of the other factor. Where what
   is known is lost for one factor, it is restored in the others. */
static void guard_factors(flxi_site *s, const flxi_facts *const *known)
{
    flx_val *x = NULL;
    for (uint32_t k = 0; k < s->nin; k++) {
        if (!known[k])
            continue;
        x = x ? x : flxi_rule_new(s, flx_val, s->nin);
        if (!x)
            return;
        if (s->x != x)
            memcpy(x, s->x, s->nin * sizeof *x);
        s->x = x;
        x[k] = flxi_restore_zeros(s, x[k], known[k], NULL);
    }
}

/* The contribution of one use of an operand, summed over what it was stretched along. `result`: what is known about the
   cotangent of a pointwise result. */
static flx_code put(sweep *w, flxi_site *s, const flxi_node *n, uint32_t k, flxi_cotangent d, const flxi_facts *result)
{
    flx_type type = flxi_tangent_type(flxi_type_at(w->r->src, n->in[k]));
    const flx_type *y = flxi_type_at(w->r->src, n->first);
    flx_type raw = *flxi_typeof(s, d.v);
    bool is_summed = raw.rank != type.rank || memcmp(raw.dims, type.dims, (size_t)raw.rank * sizeof *raw.dims) != 0;
    bool is_whole =
        result && raw.rank == y->rank && memcmp(raw.dims, y->dims, (size_t)raw.rank * sizeof *raw.dims) == 0;
    if (is_summed && is_whole && d.dirty) {
        d.v = flxi_restore_zeros(s, d.v, result, NULL);
        d.dirty = false;
    }
    d.v = fit_dtype(s, flxi_unbroadcast(s, d.v, &type), &type);
    FLXI_TRY(flxi_built(w->r->g, w->err));
    d.v = fit_dims(s, d.v, &type);
    FLXI_TRY(flxi_built(w->r->g, w->err));
    FLXI_TRY(check_cotangent(w, s, d.v, &type));
    return contribute(w, n->in[k], d);
}

/* An operand that comes from another node: zeros that it gets must stay zeros there. */
static bool may_spoil_zeros(const sweep *w, const flxi_node *n, const flx_val *dx)
{
    for (uint32_t k = 0; k < n->nin; k++) {
        const flxi_node *from = flxi_node_of(w->r->src, n->in[k]);
        if (!flxi_is_none(dx[k]) && wants(w->r, n, k) && !(flxi_ops[from->op].traits & TRAIT_DECLARED))
            return true;
    }
    return false;
}

/* What the bodies of a node say about its operands: which get a cotangent when it runs. */
static flx_code apply_needs(sweep *w, flxi_site *s, const flxi_node *n, const flxi_cotangent *dy, flx_val *dx,
                            const flxi_facts **known, bool *is_exact)
{
    flx_graph *g = w->r->g;
    flxi_need *need = flxi_new(&g->arena, flxi_need, n->nin);
    if (!need)
        return flxi_oom(w->err, "a rule");
    if (!flxi_node_needs(s, w->r->src, n, dy, need))
        return flxi_built(g, w->err);
    for (uint32_t k = 0; k < n->nin; k++) {
        if (flxi_is_none(dx[k]) || !wants(w->r, n, k))
            continue;
        if (!need[k].arrives)
            dx[k] = FLX_NONE;
        if (!need[k].arrives || !need[k].facts)
            continue;
        is_exact[k] = !known[k];
        known[k] = flxi_with_facts(s, known[k], need[k].facts);
    }
    return flxi_built(g, w->err);
}

/* What a rule has given is added to the operands' cotangents, from the last operand to the first: lists grow at their
   head. */
static flx_code put_all(sweep *w, flxi_site *s, const flxi_node *n, const flxi_cotangent *dy, const flx_val *dx,
                        const flxi_facts **known, const bool *is_exact)
{
    const flxi_facts *facts = dy[0].facts;
    bool is_pointwise = s->op->op_class == CLASS_POINTWISE && n->nout == 1;
    for (uint32_t k = n->nin; k-- > 0;) {
        if (!s->wanted[k] || flxi_is_none(dx[k]))
            continue;
        if (s->op->traits & TRAIT_SELECTS) {
            const flxi_cotangent chosen = {dy[0].v, flxi_add_choice(s, facts, k), dy[0].dirty};
            FLXI_TRY(flxi_pass_facts(s->g, w->r->src, n, &chosen, known, w->err));
        }
        flxi_cotangent d = {dx[k], known[k], !is_exact[k] && (dy[0].dirty || may_spoil(w->r, n, k))};
        FLXI_TRY(put(w, s, n, k, d, is_pointwise ? facts : NULL));
    }
    return FLX_OK;
}

static flx_code call_rule(sweep *w, const flxi_node *n, uint32_t i, flxi_cotangent *dy, flx_val *dx)
{
    flx_graph *g = w->r->g;
    flxi_site s = flxi_site_of(g, w->r->src, i, w->r->map);
    FLXI_TRY(flxi_built(g, w->err));
    const bool *wanted = wanted_operands(w->r, n);
    flx_val *given = flxi_new(&g->arena, flx_val, n->nout);
    const flxi_facts **known = flxi_new(&g->arena, const flxi_facts *, n->nin);
    bool *is_exact = flxi_new(&g->arena, bool, n->nin);
    if (!wanted || !given || !known || !is_exact)
        return flxi_oom(w->err, "a rule");
    s.wanted = wanted;
    s.saved = w->r->saved[i];
    set_options(w->r, &s);
    bool is_pointwise = s.op->op_class == CLASS_POINTWISE && n->nout == 1;
    for (uint32_t k = 0; k < n->nout; k++) {
        if (!is_pointwise)
            clean(w, &dy[k]);
        given[k] = dy[k].v;
    }
    FLXI_TRY(flxi_pass_facts(g, w->r->src, n, dy, known, w->err));
    if (!is_pointwise && n->nout == 1 && dy[0].facts && loses_facts(&s, dy[0].facts, known)) {
        s.zeros = dy[0].facts;
        if (s.op->traits & TRAIT_MULTILINEAR)
            guard_factors(&s, known);
    }
    if (!append_vjp(w, n, &s, given, dx))
        return flxi_no_rule(w->err, w->r->src, n, "reverse");
    FLXI_TRY(flxi_built(g, w->err));
    if (s.op->rules->bodies && may_spoil_zeros(w, n, dx))
        FLXI_TRY(apply_needs(w, &s, n, dy, dx, known, is_exact));
    return put_all(w, &s, n, dy, dx, known, is_exact);
}

static flx_code visit(sweep *w, uint32_t i)
{
    const flxi_node *n = flxi_node_at(w->r->src, i);
    flx_graph *g = w->r->g;
    bool arrived = false;
    flxi_cotangent *dy = flxi_new(&g->arena, flxi_cotangent, n->nout);
    flx_val *dx = flxi_new(&g->arena, flx_val, n->nin);
    if (!dy || !dx)
        return flxi_oom(w->err, "cotangents");
    for (uint32_t k = 0; k < n->nout; k++) {
        if (w->r->active[n->first + k])
            FLXI_TRY(gather(w, n->first + k, &dy[k]));
        if (w->r->wrt[n->first + k])
            clean(w, &dy[k]);
        w->r->cotangent[n->first + k] = dy[k].v;
        arrived |= !flxi_is_none(dy[k].v);
    }
    if (!arrived || !any_active(w->r, n) || flxi_rule_kind(&flxi_ops[n->op], MODE_VJP) == FLX_RULE_ZERO)
        return FLX_OK;
    flx_code code = call_rule(w, n, i, dy, dx);
    if (code != FLX_OK)
        flxi_at_node(w->err, w->r->src, n);
    return code;
}

flx_code flxi_reverse_sweep(flxi_reverse *r, flx_error *err)
{
    size_t ids = (size_t)r->src->value_count + 1;
    sweep w = {.r = r, .mem = &r->g->ctx->mem, .err = err};
    w.head = flxi_alloc(w.mem, ids, sizeof *w.head);
    flx_code code = w.head ? FLX_OK : flxi_oom(err, "differentiating");
    for (size_t id = 1; code == FLX_OK && id < ids; id++)
        if (!flxi_is_none(r->cotangent[id]))
            code = contribute(&w, (uint32_t)id, (flxi_cotangent){.v = r->cotangent[id]});
    for (uint32_t i = r->src->node_count; code == FLX_OK && i-- > 0;)
        code = visit(&w, i);
    flxi_free(w.mem, w.head, ids, sizeof *w.head);
    flxi_vec_free(w.mem, &w.parts);
    return code;
}
