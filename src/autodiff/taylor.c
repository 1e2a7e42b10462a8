/* SPDX-License-Identifier: Apache-2.0 */
/* taylor.c: Taylor mode: the derivatives d^k/dt^k of f(x + t v) at t = 0 for k = 1 … K, without nesting K transforms.

   Every value y of the graph becomes a curve y(t), known by its derivatives Y_0, Y_1 … Linear ops act on each alone;
   products follow Leibniz, Z_k = Σ C(k,j) X_j Y_{k−j}; quotients solve that for Z_k. For any other op the derivative of
   its result is y' = w with w = jvp(x, x'), a small expression of x, y and x'; so Y_k = W_{k−1}, and the same rules
   find the derivatives of w, one order lower. The expressions are built once, in a graph of expressions, where equal
   ones are shared: sin and cos refer to each other, exp to itself, and the whole costs O(K²) terms for them.
   Expressions of expressions are at most K deep, since each level needs one order less.

   A value at depth d takes part with its derivative j in round j + d. In a round, the expressions of a node come before
   the node; everything else they refer to was computed in an earlier round. */
#include "autodiff/autodiff.h"

#include <fluxion/catalogue.h>
#include <stdio.h>

typedef struct {
    uint32_t depth;
    bool active;            /* differs from its value at t = 0 */
    uint32_t derivative_of; /* a leaf that stands for the derivative of this value; 0: none */
    uint32_t derivative;    /* the leaf that stands for this value's derivative; 0: not needed so far */
    uint32_t rate;          /* the expression w with y' = w; 0: the op has a rule of its own */
    uint32_t same_as;       /* an equal value built before, which is used instead; 0: none */
    uint32_t parts;         /* the same value through the op's decomposition, built for this node; 0: none */
    flx_val *order;         /* Y_0 … Y_K in the graph being built; FLX_NONE is zero */
} curve;

typedef struct {
    const flx_graph *src; /* prepared */
    flx_graph *t;         /* the graph of expressions */
    flx_graph *out;
    flxi_index seen;              /* nodes of t by content */
    FLXI_VEC(curve) curves;       /* by id in t */
    FLXI_VEC(uint32_t) block_end; /* by node of t: its expressions are the nodes [block_begin, block_end) */
    FLXI_VEC(uint32_t) block_begin;
    FLXI_VEC(uint32_t) schedule; /* nodes of t, expressions before their node */
    bool *scheduled;             /* by node of t */
    uint32_t *map;               /* ids of src to ids of t */
    uint32_t *self;              /* ids of t to themselves … */
    uint32_t *copied;            /* … and to those of out, of the operands of one node */
    size_t self_room, copied_room;
    uint32_t orders; /* K */
    flxi_arena arena;
    flx_error *err;
} taylor;

static const flxi_allocator *memory(const taylor *w)
{
    return &w->out->ctx->mem;
}

/* Room for the ids of t, which grow: twice as many, so that all rooms together take linear memory. */
static bool reserve_ids(taylor *w, uint32_t **ids, size_t *room)
{
    size_t need = w->t->value_count + 1;
    if (need <= *room)
        return true;
    *ids = flxi_new(&w->arena, uint32_t, 2 * need);
    *room = *ids ? 2 * need : 0;
    return *ids;
}

static const uint32_t *same_ids(taylor *w)
{
    size_t room = w->self_room;
    if (!reserve_ids(w, &w->self, &w->self_room))
        return NULL;
    for (uint32_t id = 0; w->self_room > room && id < w->self_room; id++)
        w->self[id] = id;
    return w->self;
}

/* ---- The graph of expressions ---- */

static bool has_own_rule(const flxi_node *n, const flxi_op *op)
{
    bool product = (op->traits & TRAIT_MULTILINEAR) && n->nin == 2;
    return product || (op->traits & TRAIT_LINEAR) || op->rules->series;
}

/* Records the values and nodes that were added to t since the last call. */
static flx_code note_new(taylor *w, uint32_t depth)
{
    while (w->curves.n <= w->t->value_count) {
        curve c = {.depth = depth, .order = flxi_new(&w->arena, flx_val, w->orders + 1)};
        if (!c.order || !flxi_push(memory(w), &w->curves, c))
            return flxi_oom(w->err, "Taylor mode");
    }
    while (w->block_end.n < w->t->node_count)
        if (!flxi_push(memory(w), &w->block_begin, 0) || !flxi_push(memory(w), &w->block_end, 0))
            return flxi_oom(w->err, "Taylor mode");
    return flxi_built(w->t, w->err);
}

/* The value that replaces this one. */
static uint32_t own(const taylor *w, uint32_t id)
{
    return w->curves.at[id].same_as ? w->curves.at[id].same_as : id;
}

static uint64_t body_identity(const flx_graph *g)
{
    return g->serial;
}

static bool same_node(const taylor *w, const flxi_node *a, const flxi_node *b)
{
    if (a->op != b->op || a->nin != b->nin || !flxi_attrs_equal(&flxi_ops[a->op], a->attrs, b->attrs))
        return false;
    for (uint32_t k = 0; k < a->nin; k++)
        if (own(w, a->in[k]) != own(w, b->in[k]))
            return false;
    return true;
}

/* Derivatives of a deeper node are computed in later rounds, too late to replace another. */
static bool is_as_early(const taylor *w, const flxi_node *a, const flxi_node *b)
{
    return a->nout == 0 || w->curves.at[a->first].depth <= w->curves.at[b->first].depth;
}

/* Nodes from `from` on that equal an earlier node are replaced by it. */
static flx_code share_equal(taylor *w, uint32_t from)
{
    for (uint32_t i = from; i < w->t->node_count; i++) {
        const flxi_node *n = flxi_node_at(w->t, i);
        if (flxi_ops[n->op].traits & (TRAIT_DECLARED | TRAIT_EFFECT))
            continue;
        uint64_t h = flxi_hash_u64(FLXI_HASH_SEED, n->op);
        for (uint32_t k = 0; k < n->nin; k++)
            h = flxi_hash_u64(h, own(w, n->in[k]));
        h = flxi_attrs_hash(w->t->ctx, &flxi_ops[n->op], n->attrs, h, body_identity);
        uint32_t j;
        bool found = false;
        for (flxi_probe p = flxi_index_first(&w->seen, h); !found && flxi_index_next(&w->seen, &p, &j);)
            if (same_node(w, n, flxi_node_at(w->t, j)) && is_as_early(w, flxi_node_at(w->t, j), n)) {
                found = true;
                for (uint32_t k = 0; k < n->nout; k++)
                    w->curves.at[n->first + k].same_as = flxi_node_at(w->t, j)->first + k;
            }
        if (!found && !flxi_index_add(memory(w), &w->seen, h, i))
            return flxi_oom(w->err, "Taylor mode");
    }
    return FLX_OK;
}

/* Whether operand k of a node differs from its value at t = 0 in a way that matters to the node. */
static bool moves(const taylor *w, const flxi_node *n, uint32_t k)
{
    return w->curves.at[own(w, n->in[k])].active &&
           flxi_takes_derivative(&flxi_ops[n->op], flxi_type_at(w->t, n->in[k])->dtype);
}

static void mark_active(taylor *w, uint32_t from)
{
    for (uint32_t i = from; i < w->t->node_count; i++) {
        const flxi_node *n = flxi_node_at(w->t, i);
        const flxi_op *op = &flxi_ops[n->op];
        bool any = false;
        bool is_quantised = false;
        if (op->traits & TRAIT_DECLARED)
            continue;
        for (uint32_t k = 0; k < n->nin; k++)
            if (moves(w, n, k)) {
                any = true;
                is_quantised |= flxi_is_int(flxi_type_at(w->t, n->in[k])->dtype);
            }
        any &= !(op->traits & TRAIT_ZERO_GRAD);
        for (uint32_t k = 0; k < n->nout; k++)
            w->curves.at[n->first + k].active =
                any && flxi_gives_derivative(op, flxi_type_at(w->t, n->first + k)->dtype, is_quantised);
    }
}

/* The leaf that stands for the derivative of a value in expressions of the given depth or a greater one. A leaf that is
   only one deeper than its value takes its derivatives in the round that computes them; where the value belongs to a
   node that these expressions are built for, that is too early, and their own depth is used. */
static flx_code derivative_leaf(taylor *w, uint32_t id, uint32_t depth, flx_val *out)
{
    uint32_t known = w->curves.at[id].derivative;
    if (!known || w->curves.at[known].depth > depth) {
        flx_type type = flxi_tangent_type(flxi_type_at(w->t, id));
        char number[16]; /* names of their own: searching for a free one would take quadratic time */
        snprintf(number, sizeof number, "%u", (unsigned)id);
        flx_val leaf = flxi_new_leaf(w->t, "rate", number, &type);
        FLXI_TRY(note_new(w, depth));
        w->curves.at[id].derivative = leaf.id;
        w->curves.at[leaf.id].derivative_of = id;
        w->curves.at[leaf.id].active = true;
    }
    *out = (flx_val){w->curves.at[id].derivative, w->t->serial};
    return FLX_OK;
}

/* Builds the expression of y' for a node without a rule of its own. */
static flx_code write_rate(taylor *w, uint32_t i)
{
    const flxi_node *n = flxi_node_at(w->t, i);
    uint32_t depth = w->curves.at[n->first].depth;
    uint32_t begin = w->t->node_count;
    flx_val *tx = flxi_new(&w->arena, flx_val, n->nin);
    flx_val *ty = flxi_new(&w->arena, flx_val, n->nout);
    flx_val *new_y = flxi_new(&w->arena, flx_val, n->nout);
    const uint32_t *self = same_ids(w);
    if (!tx || !ty || !new_y || !self)
        return flxi_oom(w->err, "Taylor mode");
    for (uint32_t k = 0; k < n->nin; k++)
        if (moves(w, n, k))
            FLXI_TRY(derivative_leaf(w, own(w, n->in[k]), depth + 1, &tx[k]));
    flxi_site s = flxi_site_of(w->t, w->t, i, self);
    FLXI_TRY(flxi_built(w->t, w->err));
    s.new_y = new_y;
    flxi_origin_scope scope;
    flxi_origin_begin(&scope, w->t, n);
    bool has_rule = flxi_append_jvp(&s, tx, ty);
    flxi_origin_end(&scope);
    if (!has_rule) {
        flxi_no_rule(w->err, w->t, n, "Taylor");
        flxi_at_node(w->err, w->t, n);
        return FLX_E_NO_RULE;
    }
    FLXI_TRY(note_new(w, depth + 1));
    FLXI_TRY(share_equal(w, begin));
    mark_active(w, begin);
    for (uint32_t k = 0; k < n->nout; k++)
        w->curves.at[n->first + k].rate = ty[k].id ? own(w, ty[k].id) : 0;
    w->block_begin.at[i] = begin;
    w->block_end.at[i] = w->t->node_count;
    return FLX_OK;
}

/* Builds the decomposition of a node that has no rule of its own, at the node's own depth. */
static flx_code write_parts(taylor *w, uint32_t i)
{
    const flxi_node *n = flxi_node_at(w->t, i);
    uint32_t begin = w->t->node_count;
    flx_val *y = flxi_new(&w->arena, flx_val, n->nout);
    const uint32_t *self = same_ids(w);
    if (!y || !self)
        return flxi_oom(w->err, "Taylor mode");
    flxi_site s = flxi_site_of(w->t, w->t, i, self);
    FLXI_TRY(flxi_built(w->t, w->err));
    flxi_origin_scope scope;
    flxi_origin_begin(&scope, w->t, n);
    s.op->rules->decompose(&s, y);
    flxi_origin_end(&scope);
    FLXI_TRY(note_new(w, w->curves.at[n->first].depth));
    FLXI_TRY(share_equal(w, begin));
    mark_active(w, begin);
    for (uint32_t k = 0; k < n->nout; k++)
        w->curves.at[n->first + k].parts = own(w, y[k].id);
    w->block_begin.at[i] = begin;
    w->block_end.at[i] = w->t->node_count;
    return FLX_OK;
}

/* t grows during the loop: expressions need expressions of their own, down to depth K. */
static flx_code write_rates(taylor *w)
{
    for (uint32_t i = 0; i < w->t->node_count; i++) {
        const flxi_node *n = flxi_node_at(w->t, i);
        const flxi_op *op = &flxi_ops[n->op];
        bool is_active = false;
        for (uint32_t k = 0; k < n->nout; k++)
            is_active |= w->curves.at[n->first + k].active;
        if (!is_active || own(w, n->first) != n->first || (op->traits & TRAIT_DECLARED) || has_own_rule(n, op) ||
            w->curves.at[n->first].depth >= w->orders)
            continue;
        if (flxi_rule_kind(op, MODE_JVP) == FLX_RULE_DECOMPOSE)
            FLXI_TRY(write_parts(w, i));
        else
            FLXI_TRY(write_rate(w, i));
    }
    return FLX_OK;
}

static flx_code schedule_node(taylor *w, uint32_t i);

/* The node that makes a value, unless an earlier round has computed what is needed from it. */
static flx_code schedule_value(taylor *w, uint32_t id, uint32_t depth)
{
    id = own(w, id);
    return w->curves.at[id].depth < depth ? FLX_OK : schedule_node(w, flxi_value_at(w->t, id)->node);
}

/* Expressions, operands and what a leaf stands for come before a node: usually they exist already, but an operand may
   have been replaced by an equal value of an expression that belongs to a later node. */
static flx_code schedule_node(taylor *w, uint32_t i)
{
    const flxi_node *n = flxi_node_at(w->t, i);
    uint32_t depth = n->nout ? w->curves.at[n->first].depth : 0;
    if ((n->nout && own(w, n->first) != n->first) || w->scheduled[i])
        return FLX_OK;
    w->scheduled[i] = true;
    for (uint32_t k = 0; k < n->nin; k++)
        FLXI_TRY(schedule_value(w, n->in[k], depth));
    if (n->nout && w->curves.at[n->first].derivative_of)
        FLXI_TRY(schedule_value(w, w->curves.at[n->first].derivative_of, depth - 1));
    for (uint32_t k = w->block_begin.at[i]; k < w->block_end.at[i]; k++)
        FLXI_TRY(schedule_node(w, k));
    for (uint32_t k = 0; k < n->nout; k++) {
        const curve c = w->curves.at[n->first + k];
        if (c.rate) /* a round later than the node's own, unless it is shared with a node of an earlier one */
            FLXI_TRY(schedule_value(w, c.rate, depth + 1));
        if (c.parts)
            FLXI_TRY(schedule_value(w, c.parts, depth));
    }
    return flxi_push(memory(w), &w->schedule, i) ? FLX_OK : flxi_oom(w->err, "Taylor mode");
}

/* ---- Derivatives of each kind of op ---- */

typedef struct {
    taylor *w;
    const flxi_node *n;
    flxi_site s; /* in the graph being built; operands and results at t = 0 */
    uint32_t k;
} step;

static flx_val operand_order(const step *p, uint32_t i, uint32_t k)
{
    return p->w->curves.at[own(p->w, p->n->in[i])].order[k];
}

static double binomial(uint32_t n, uint32_t k)
{
    double c = 1.0;
    for (uint32_t i = 0; i < k; i++)
        c = c * (double)(n - i) / (double)(i + 1);
    return c;
}

static flx_val times(step *p, flx_val v, double c)
{
    return c == 1.0 ? v : flx_mul(p->s.g, v, flxi_number(&p->s, v, c));
}

/* All results are recomputed for each of them; equal nodes are merged afterwards. */
static flx_val linear_order(step *p, uint32_t result)
{
    const flxi_operands *o = flxi_operands_of(p->s.op);
    flx_val *x = flxi_rule_new(&p->s, flx_val, p->n->nin);
    flx_val *y = flxi_rule_new(&p->s, flx_val, p->n->nout);
    bool any = false;
    for (uint32_t i = 0; x && i < p->n->nin; i++) {
        bool fixed = flxi_operand_role(o, i) != ROLE_SAME;
        flx_val v = fixed ? FLX_NONE : operand_order(p, i, p->k);
        any |= !flxi_is_none(v);
        x[i] = fixed ? operand_order(p, i, 0) : flxi_or_zero_tangent(&p->s, v, operand_order(p, i, 0));
    }
    if (!any || !x || !y)
        return FLX_NONE;
    flxi_append(&p->s, NULL, x, p->n->nin, y);
    return y[result];
}

/* Σ_{j=from..k} C(k,j) op(X_j, Y_{k−j}) */
static flx_val product_order(step *p, const flx_val *a, const flx_val *b, uint32_t from, bool is_op)
{
    flx_val sum = FLX_NONE;
    for (uint32_t j = from; j <= p->k; j++) {
        flx_val x[2] = {a[j], b[p->k - j]};
        if (flxi_is_none(x[0]) || flxi_is_none(x[1]))
            continue;
        flx_val term = is_op ? flxi_emit1(&p->s, NULL, x, 2) : flx_mul(p->s.g, x[0], x[1]);
        sum = flxi_sum(&p->s, sum, times(p, term, binomial(p->k, j)));
    }
    return sum;
}

/* Z Y = X: Z_k = (X_k − Σ_{j=1..k} C(k,j) Y_j Z_{k−j}) / Y_0 */
static flx_val quotient_order(step *p)
{
    const curve *y = &p->w->curves.at[own(p->w, p->n->in[1])];
    flx_val rest = product_order(p, y->order, p->w->curves.at[p->n->first].order, 1, false);
    flx_val top = operand_order(p, 0, p->k);
    if (!flxi_is_none(rest))
        top = flxi_is_none(top) ? flx_neg(p->s.g, rest) : flx_sub(p->s.g, top, rest);
    return flxi_is_none(top) ? top : flx_div(p->s.g, top, y->order[0]);
}

static flx_val order_of(step *p, uint32_t result)
{
    const curve *c = &p->w->curves.at[p->n->first + result];
    if (!has_own_rule(p->n, p->s.op))
        return c->rate ? p->w->curves.at[c->rate].order[p->k - 1] : FLX_NONE;
    if (p->s.op->traits & TRAIT_LINEAR)
        return linear_order(p, result);
    bool is_square = p->s.op->rules->series == SERIES_SQUARE;
    if (p->s.op->rules->series == SERIES_QUOTIENT)
        return quotient_order(p);
    const flx_val *a = p->w->curves.at[own(p->w, p->n->in[0])].order;
    const flx_val *b = is_square ? a : p->w->curves.at[own(p->w, p->n->in[1])].order;
    return product_order(p, a, b, 0, !is_square);
}

/* ---- Rounds ---- */

/* Derivative 0 of a node: the op on values. */
static flx_code copy_value(taylor *w, uint32_t i)
{
    const flxi_node *n = flxi_node_at(w->t, i);
    if (!reserve_ids(w, &w->copied, &w->copied_room))
        return flxi_oom(w->err, "Taylor mode");
    uint32_t *map = w->copied;
    for (uint32_t k = 0; k < n->nin; k++)
        map[n->in[k]] = w->curves.at[own(w, n->in[k])].order[0].id;
    FLXI_TRY(flxi_graft(w->out, w->t, i, map, w->err));
    for (uint32_t k = 0; k < n->nout; k++)
        w->curves.at[n->first + k].order[0] = (flx_val){map[n->first + k], w->out->serial};
    return FLX_OK;
}

/* A declared rate is its value one order up; Y_0 of a rate must exist even where it is zero. */
static flx_code compute_declared(taylor *w, const flxi_node *n, uint32_t k)
{
    curve *c = &w->curves.at[n->first];
    if (c->derivative_of) {
        flxi_site s = flxi_plain_site(w->out);
        c->order[k] = w->curves.at[c->derivative_of].order[k + 1];
        if (k == 0 && flxi_is_none(c->order[0]))
            c->order[0] = flxi_zeros(&s, flxi_type_at(w->t, n->first));
    }
    return flxi_built(w->out, w->err);
}

static flx_code compute(taylor *w, uint32_t i, uint32_t k)
{
    const flxi_node *n = flxi_node_at(w->t, i);
    if (flxi_ops[n->op].traits & TRAIT_DECLARED)
        return compute_declared(w, n, k);
    if (w->curves.at[n->first].parts) {
        for (uint32_t j = 0; j < n->nout; j++)
            w->curves.at[n->first + j].order[k] = w->curves.at[w->curves.at[n->first + j].parts].order[k];
        return FLX_OK;
    }
    if (k == 0)
        return copy_value(w, i);
    flx_val *vals = flxi_new(&w->arena, flx_val, n->nin);
    if (!vals)
        return flxi_oom(w->err, "Taylor mode");
    for (uint32_t j = 0; j < n->nin; j++)
        vals[j] = w->curves.at[own(w, n->in[j])].order[0];
    step p = {.w = w,
              .n = n,
              .k = k,
              .s = {.g = w->out,
                    .ctx = w->out->ctx,
                    .op = &flxi_ops[n->op],
                    .attrs = n->attrs,
                    .nin = n->nin,
                    .nout = n->nout,
                    .x = vals,
                    .bodies = &flxi_bodies}};
    for (uint32_t j = 0; j < n->nout; j++) {
        curve *c = &w->curves.at[n->first + j];
        if (!c->active)
            continue;
        flx_val v = order_of(&p, j);
        c->order[k] = flxi_is_none(v) ? v : flxi_expand_like(&p.s, v, flxi_type_at(w->t, n->first + j));
    }
    return flxi_built(w->out, w->err);
}

static flx_code run_rounds(taylor *w)
{
    for (uint32_t round = 0; round <= w->orders; round++)
        for (size_t i = 0; i < w->schedule.n; i++) {
            uint32_t node = w->schedule.at[i];
            const flxi_node *n = flxi_node_at(w->t, node);
            uint32_t depth = n->nout ? w->curves.at[n->first].depth : 0;
            if (depth <= round && n->nout)
                FLXI_TRY(compute(w, node, round - depth));
        }
    return FLX_OK;
}

/* ---- The transform ---- */

static flx_code copy_source(taylor *w)
{
    FLXI_TRY(flxi_copy_leaves(w->src, w->t, w->map, w->err));
    for (uint32_t i = 0; i < w->src->node_count; i++)
        if (!(flxi_ops[flxi_node_at(w->src, i)->op].traits & TRAIT_DECLARED))
            FLXI_TRY(flxi_graft(w->t, w->src, i, w->map, w->err));
    return note_new(w, 0);
}

/* Leaves of the result: those of the graph, then a tangent for each that is differentiated. */
static flx_code declare_leaves(taylor *w, const char *const *names, size_t count)
{
    for (size_t i = 0; i < w->t->leaves.n; i++) {
        uint32_t id = w->t->leaves.at[i];
        const flxi_value *v = flxi_value_at(w->t, id);
        uint32_t made = flxi_add_leaf_like(w->out, w->t, id, v->type);
        if (!made)
            return flxi_built(w->out, w->err);
        w->curves.at[id].order[0] = (flx_val){made, w->out->serial};
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t id;
        FLXI_TRY(flxi_find_wrt(w->t, names[i], &id, w->err));
        const flxi_value *v = flxi_value_at(w->t, id);
        w->curves.at[id].order[1] = flxi_new_leaf(w->out, "tangent_", v->name, v->type);
        w->curves.at[id].active = true;
    }
    return flxi_built(w->out, w->err);
}

static flx_code write_outputs(taylor *w)
{
    flxi_site s = flxi_plain_site(w->out);
    for (uint32_t k = 0; k <= w->orders; k++)
        for (size_t i = 0; i < w->src->outputs.n; i++) {
            char name[300];
            const flxi_output *o = &w->src->outputs.at[i];
            flx_val v = w->curves.at[own(w, w->map[o->val])].order[k];
            snprintf(name, sizeof name, k ? "taylor_%.250s_%u" : "%.250s", o->name, k);
            flx_output(w->out, flxi_is_none(v) ? flxi_zeros(&s, flxi_type_at(w->src, o->val)) : v, name);
        }
    return flxi_built(w->out, w->err);
}

static flx_code expand(taylor *w, const char *const *names, size_t count)
{
    FLXI_TRY(copy_source(w));
    FLXI_TRY(declare_leaves(w, names, count));
    FLXI_TRY(share_equal(w, 0));
    mark_active(w, 0);
    uint32_t originals = w->t->node_count;
    FLXI_TRY(write_rates(w));
    w->scheduled = flxi_new(&w->arena, bool, w->t->node_count);
    if (!w->scheduled)
        return flxi_oom(w->err, "Taylor mode");
    for (uint32_t i = 0; i < originals; i++)
        FLXI_TRY(schedule_node(w, i));
    FLXI_TRY(run_rounds(w));
    FLXI_TRY(write_outputs(w));
    return flxi_finish(&w->out, w->err);
}

static void release(taylor *w, const flxi_allocator *mem, size_t ids)
{
    flxi_vec_free(mem, &w->curves);
    flxi_vec_free(mem, &w->block_begin);
    flxi_vec_free(mem, &w->block_end);
    flxi_vec_free(mem, &w->schedule);
    flxi_index_free(mem, &w->seen);
    flxi_free(mem, w->map, ids, sizeof *w->map);
    flxi_arena_free(&w->arena);
    flx_graph_release(w->t);
}

static flx_code run(const flx_graph *g, const char *const *wrt, size_t count, int32_t order, flx_graph **out,
                    flx_error *err)
{
    const flxi_allocator *mem = &g->ctx->mem;
    flx_graph *prepared = NULL;
    if (order < 0 || order > FLXI_MAX_NESTING)
        return flxi_fail(err, FLX_E_USAGE, "the order must be in 0 .. %d, got %d", FLXI_MAX_NESTING, (int)order);
    FLXI_TRY(flxi_prepare(g, MODE_JVP, &prepared, NULL, err));
    taylor w = {.src = prepared, .orders = (uint32_t)order, .err = err};
    size_t ids = (size_t)prepared->value_count + 1;
    flxi_arena_init(&w.arena, mem);
    w.t = flx_graph_new(g->ctx, g->name);
    w.out = flxi_derived_graph(g, "taylor");
    w.map = flxi_alloc(mem, ids, sizeof *w.map);
    flx_code code = w.t && w.out && w.map ? expand(&w, wrt, count) : flxi_oom(err, "Taylor mode");
    if (code == FLX_OK)
        *out = w.out;
    else
        flx_graph_release(w.out);
    release(&w, mem, ids);
    flx_graph_release(prepared);
    return code;
}

flx_graph *flx_taylor(const flx_graph *g, const char *const *wrt, size_t count, int32_t order, flx_error *err)
{
    flx_error local = {0};
    flx_graph *out = NULL;
    flx_code code = flx_graph_error(g, &local);
    if (code == FLX_OK)
        code = flxi_check_wrt("flx_taylor", wrt, count, &local);
    if (code == FLX_OK)
        code = run(g, wrt, count, order, &out, &local);
    return flxi_transformed(out, g, "taylor", &local, err);
}
