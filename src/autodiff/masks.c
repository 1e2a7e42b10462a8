/* SPDX-License-Identifier: Apache-2.0 */
/* masks.c: see masks.h. How an axis passes from a result to an operand is the rule `link` of the op, read backwards;
   loops and branches are followed through their bodies. */
#include "autodiff/masks.h"

#include "ops/rule/link.h"

#include <fluxion/catalogue.h>

/* Axes of values: which one an axis of the predicate goes along. */
enum { UNSEEN = -2, LOST = -1 }; /* no cotangent arrives; one arrives about which nothing is known */

/* ---- Facts ---- */

static bool is_same(const flxi_fact *a, const flxi_fact *b)
{
    return a->cond.id == b->cond.id && a->when == b->when;
}

static const flxi_fact *find_fact(const flxi_facts *f, const flxi_fact *x)
{
    for (uint32_t i = 0; f && i < f->n; i++)
        if (is_same(&f->v[i], x))
            return &f->v[i];
    return NULL;
}

static bool has_fact(const flxi_facts *f, const flxi_fact *x)
{
    const flxi_fact *y = find_fact(f, x);
    return y && memcmp(y->axis, x->axis, sizeof x->axis) == 0;
}

const flxi_facts *flxi_common_facts(flx_graph *g, const flxi_facts *a, const flxi_facts *b)
{
    if (!a || !b || a == b)
        return a == b ? a : NULL;
    flxi_facts *c = flxi_new(&g->arena, flxi_facts, 1);
    for (uint32_t i = 0; c && i < a->n; i++)
        if (has_fact(b, &a->v[i]))
            c->v[c->n++] = a->v[i];
    return c && c->n ? c : NULL;
}

/* ---- Axes ---- */

static bool follow(const flxi_use *u, flxi_link *l)
{
    const flxi_op *op = &flxi_ops[u->n->op];
    if (op->rules->link)
        return op->rules->link(u, l);
    return op->op_class == CLASS_POINTWISE && flxi_link_aligned(u, l);
}

/* The axis of the operand that becomes axis `to` of the result, position by position and all of it, or block by block
   if there are as many blocks; 0: not by blocks. An axis of blocks needs room for one more (repeat_blocks()). */
static int axis_before(const flxi_use *u, int to, int64_t blocks)
{
    const flx_type *x = flxi_link_operand(u);
    for (int p = 0; p < x->rank; p++) {
        flxi_link l = {.axis = p, .blocks = blocks};
        bool is_whole = x->dims[p] == flxi_link_result(u)->dims[to];
        bool has_room = blocks == 0 || x->dims[p] == blocks || x->rank < FLX_MAX_RANK;
        if (has_room && follow(u, &l) && l.axis == to && l.lo == 0 && l.hi == 0 && (is_whole || l.by_blocks))
            return p;
    }
    return LOST;
}

/* A predicate that only copies another one says the same as that, so that facts from several places are recognised as
   one. Where every axis of the operand becomes an axis of the predicate, the predicate is constant along its others. */
static bool look_through(flxi_site *s, flxi_fact *f)
{
    const flxi_node *n = flxi_node_of(s->g, f->cond.id);
    int traits = flxi_ops[n->op].traits;
    if (!(traits & (TRAIT_COPIES | TRAIT_INVERTS)))
        return false;
    const flxi_use use = {s->g, n, 0, f->cond.id - n->first};
    const flx_type *from = flxi_link_operand(&use);
    flxi_fact root = {.cond = {n->in[0], s->g->serial}, .when = f->when != ((traits & TRAIT_INVERTS) != 0)};
    memset(root.axis, -1, sizeof root.axis);
    for (int q = 0; q < flxi_link_result(&use)->rank; q++) {
        int p = f->axis[q] < 0 ? LOST : axis_before(&use, q, 0);
        if (p >= 0)
            root.axis[p] = f->axis[q];
    }
    for (int p = 0; p < from->rank; p++)
        if (root.axis[p] < 0 && from->dims[p] != 1)
            return false;
    *f = root;
    return true;
}

/* The facts and one more, about no axis yet; NULL when memory is exhausted. */
static flxi_facts *with_fact(flxi_site *s, const flxi_facts *facts, flx_val cond, bool when)
{
    flxi_facts *more = flxi_rule_new(s, flxi_facts, 1);
    if (!more)
        return NULL;
    if (facts)
        *more = *facts;
    if (more->n == FLXI_MAX_FACTS) /* the oldest has done most of its work */
        memmove(more->v, more->v + 1, --more->n * sizeof *more->v);
    flxi_fact *f = &more->v[more->n++];
    *f = (flxi_fact){.cond = cond, .when = when};
    memset(f->axis, -1, sizeof f->axis);
    return more;
}

const flxi_facts *flxi_add_choice(flxi_site *s, const flxi_facts *facts, uint32_t k)
{
    flxi_facts *more = with_fact(s, facts, s->x[0], k == 1);
    if (!more)
        return NULL;
    const flx_type *c = flxi_typeof(s, s->x[0]);
    int rank = flxi_typeof(s, s->y[0])->rank;
    flxi_fact *f = &more->v[more->n - 1];
    for (int q = 0; q < c->rank; q++)
        f->axis[q] = (int8_t)(c->dims[q] == 1 ? -1 : rank - c->rank + q);
    while (look_through(s, f))
        continue;
    return more;
}

const flxi_facts *flxi_add_flag(flxi_site *s, const flxi_facts *facts, flx_val flag, const int8_t *axis)
{
    flxi_facts *more = with_fact(s, facts, flag, true);
    if (!more)
        return NULL;
    flxi_fact *f = &more->v[more->n - 1];
    memcpy(f->axis, axis, sizeof f->axis);
    while (look_through(s, f))
        continue;
    return more;
}

const flxi_facts *flxi_with_facts(flxi_site *s, const flxi_facts *facts, const flxi_facts *more)
{
    for (uint32_t i = 0; more && i < more->n; i++) {
        flxi_facts *sum = with_fact(s, facts, more->v[i].cond, more->v[i].when);
        if (!sum)
            return NULL;
        sum->v[sum->n - 1] = more->v[i];
        facts = sum;
    }
    return facts;
}

static bool is_comparable(flx_graph *g, const flxi_fact *a, const flxi_fact *b)
{
    const flx_type *s = flx_val_type(g, a->cond), *t = flx_val_type(g, b->cond);
    return s && t && s->dtype == FLX_BOOL && flxi_type_equal(s, t) && memcmp(a->axis, b->axis, sizeof a->axis) == 0;
}

/* All that the facts say along the same axes as `like`, as one boolean; FLX_NONE: nothing. */
static flx_val conjunction(flx_graph *g, const flxi_facts *facts, const flxi_fact *like)
{
    flx_val all = FLX_NONE;
    for (uint32_t i = 0; facts && i < facts->n; i++) {
        const flxi_fact *f = &facts->v[i];
        if (!is_comparable(g, f, like))
            continue;
        flx_val holds = f->when ? f->cond : flx_not(g, f->cond);
        all = flxi_is_none(all) ? holds : flx_and(g, all, holds);
    }
    return all;
}

static bool is_in_all(flx_graph *g, const flxi_facts *const *facts, size_t n, const flxi_fact *like)
{
    for (size_t k = 0; k < n; k++) {
        bool has = false;
        for (uint32_t i = 0; i < facts[k]->n; i++)
            has |= is_comparable(g, &facts[k]->v[i], like);
        if (!has)
            return false;
    }
    return true;
}

/* Two that say the opposite of each other: one of the two always holds. */
static bool are_opposite(const flxi_facts *a, const flxi_facts *b)
{
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t j = 0; j < b->n; j++)
            if (a->v[i].cond.id == b->v[j].cond.id && a->v[i].when != b->v[j].when)
                return true;
    return false;
}

const flxi_facts *flxi_joined_facts(flx_graph *g, const flxi_facts *const *facts, size_t n)
{
    enum { MOST = 16 };
    flxi_facts *out = NULL;
    if (n > MOST)
        return NULL;
    for (size_t k = 0; k < n; k++)
        if (!facts[k])
            return NULL;
    for (size_t k = 0; k < n; k++)
        for (size_t m = 0; m < k; m++)
            if (are_opposite(facts[k], facts[m]))
                return NULL;
    for (uint32_t i = 0; i < facts[0]->n && !out; i++) {
        const flxi_fact *like = &facts[0]->v[i];
        if (!is_in_all(g, facts, n, like) || !(out = flxi_new(&g->arena, flxi_facts, 1)))
            continue;
        flx_val any = FLX_NONE;
        for (size_t k = 0; k < n; k++) {
            flx_val holds = conjunction(g, facts[k], like);
            any = flxi_is_none(any) ? holds : flx_or(g, any, holds);
        }
        out->n = 1;
        out->v[0] = *like;
        out->v[0].cond = any;
        out->v[0].when = true;
    }
    return out;
}

/* The elements of the predicate, of these extents, repeated to the extents of the value where it goes along blocks. */
static flx_val repeat_blocks(flxi_site *s, flx_val c, flx_dim *dims, const flx_type *value)
{
    for (int p = 0; p < value->rank; p++) {
        flx_dim wide[FLX_MAX_RANK];
        if (dims[p] == 1 || dims[p] == value->dims[p])
            continue;
        memcpy(wide, dims, (size_t)(p + 1) * sizeof *wide);
        memcpy(wide + p + 2, dims + p + 1, (size_t)(value->rank - p - 1) * sizeof *wide);
        wide[p + 1] = 1;
        c = flxi_reshape_to(s, c, value->rank + 1, wide);
        wide[p + 1] = flx_dim_div(s->ctx, value->dims[p], dims[p]);
        c = flxi_expand_to(s, c, value->rank + 1, wide);
        dims[p] = value->dims[p];
        c = flxi_reshape_to(s, c, value->rank, dims);
    }
    return c;
}

/* The predicate with its axes where the value has them. */
static flx_val aligned_cond(flxi_site *s, const flxi_fact *f, const flx_type *value)
{
    const flx_type *t = flxi_typeof(s, f->cond);
    int rank = value->rank;
    flx_dim dims[FLX_MAX_RANK];
    int64_t perm[FLX_MAX_RANK];
    int n = 0;
    bool is_moved = false;
    for (int p = 0; p < rank; p++) {
        dims[p] = 1;
        for (int q = 0; q < t->rank; q++)
            if (f->axis[q] == p) {
                dims[p] = t->dims[q];
                perm[n++] = q;
            }
    }
    for (int q = 0; q < t->rank; q++) /* the axes of extent 1 go to the end and vanish */
        if (f->axis[q] < 0)
            perm[n++] = q;
    for (int q = 0; q < n; q++)
        is_moved |= perm[q] != q;
    flx_val c = is_moved ? flx_transpose(s->g, f->cond, (flx_ints){perm, (size_t)n}) : f->cond;
    return repeat_blocks(s, flxi_reshape_to(s, c, rank, dims), dims, value);
}

flx_val flxi_restore_zeros(flxi_site *s, flx_val v, const flxi_facts *facts, const flxi_facts *except)
{
    for (uint32_t i = 0; facts && i < facts->n; i++) {
        const flxi_fact *f = &facts->v[i];
        if (has_fact(except, f))
            continue;
        flx_val c = aligned_cond(s, f, flxi_typeof(s, v));
        flx_val zero = flxi_number(s, v, 0.0);
        v = f->when ? flx_where(s->g, c, v, zero) : flx_where(s->g, c, zero, v);
    }
    return v;
}

/* ---- Through one node ---- */

enum { MAX_DEPTH = 5 };

typedef struct {
    const flx_graph *g;
    flx_error *err;
    int depth;      /* of bodies in bodies */
    int64_t blocks; /* that the axis may be divided in; 0: it is followed position by position */
} walk;

static int merged(int a, int b)
{
    return a == UNSEEN ? b : b == UNSEEN || a == b ? a : LOST;
}

static flx_code pass_node(const walk *w, const flxi_node *n, const int *y, int *x);

/* From the axes of a body's outputs to those of its inputs. */
static flx_code pass_body(const walk *outer, const flx_graph *body, const int *out, int *in)
{
    const flxi_allocator *mem = &body->ctx->mem;
    flx_graph *prepared = NULL;
    FLXI_TRY(flxi_prepare(body, MODE_VJP, &prepared, NULL, outer->err));
    walk w = {prepared, outer->err, outer->depth + 1, outer->blocks};
    size_t ids = (size_t)prepared->value_count + 1;
    int *axis = flxi_alloc(mem, ids, sizeof *axis);
    uint32_t most = 0;
    for (uint32_t i = 0; i < prepared->node_count; i++)
        most = flxi_node_at(prepared, i)->nin > most ? flxi_node_at(prepared, i)->nin : most;
    int *x = flxi_alloc(mem, most, sizeof *x);
    flx_code code = axis && x ? FLX_OK : flxi_oom(outer->err, "differentiating");
    for (size_t id = 0; code == FLX_OK && id < ids; id++)
        axis[id] = UNSEEN;
    for (size_t k = 0; code == FLX_OK && k < prepared->outputs.n; k++) {
        uint32_t id = prepared->outputs.at[k].val;
        axis[id] = merged(axis[id], out[k]);
    }
    for (uint32_t i = prepared->node_count; code == FLX_OK && i-- > 0;) {
        const flxi_node *n = flxi_node_at(prepared, i);
        if (n->nin)
            code = pass_node(&w, n, axis + n->first, x);
        for (uint32_t k = 0; code == FLX_OK && k < n->nin; k++)
            axis[n->in[k]] = merged(axis[n->in[k]], x[k]);
    }
    for (size_t i = 0; code == FLX_OK && i < prepared->leaves.n; i++)
        in[i] = axis[prepared->leaves.at[i]];
    flxi_free(mem, axis, ids, sizeof *axis);
    flxi_free(mem, x, most, sizeof *x);
    flx_graph_release(prepared);
    return code;
}

static bool has_derivative(const flx_type *t)
{
    return flxi_in(FLXI_FLOATS | FLXI_COMPLEX, t->dtype);
}

/* One of the branches runs, on the operands after the selector; or the body of a call, on all of them. */
static flx_code pass_branches(const walk *w, const flxi_node *n, const int *y, int *x)
{
    flxi_body b;
    const flxi_allocator *mem = &w->g->ctx->mem;
    int *in = flxi_alloc(mem, n->nin, sizeof *in);
    flx_code code = in ? FLX_OK : flxi_oom(w->err, "differentiating");
    for (uint32_t i = 0; code == FLX_OK && flxi_ops[n->op].rules->bodies(w->g, n, i, &b); i++) {
        code = pass_body(w, b.graph, y, in);
        for (uint32_t k = 0; code == FLX_OK && k < b.shared; k++)
            x[b.first + k] = merged(x[b.first + k], in[k]);
    }
    flxi_free(mem, in, n->nin, sizeof *in);
    return code;
}

/* Rounds in reverse until the carries no longer change. Results and operands with a row for each round have one axis
   more than the body sees. */
static flx_code pass_rounds(const walk *w, const flxi_body *b, int *in, int *out, int *x)
{
    for (bool changed = true; changed;) {
        changed = false;
        FLXI_TRY(pass_body(w, b->graph, out, in));
        for (uint32_t k = 0; k < b->carries; k++) {
            int now = merged(out[k], in[k]);
            changed |= now != out[k];
            out[k] = now;
        }
    }
    for (uint32_t k = 0; k < b->carries; k++)
        x[b->first + k] = out[k];
    for (uint32_t k = b->carries; k < b->carries + b->shared + b->rows; k++)
        x[b->first + k] = in[k] >= 0 && k >= b->carries + b->shared ? in[k] + 1 : in[k];
    return FLX_OK;
}

/* What the outputs of the body see of the axes of the node's results. */
static void enter_rounds(const walk *w, const flxi_node *n, const flxi_body *b, const int *y, int *out)
{
    for (size_t k = 0; k < b->graph->outputs.n; k++) {
        const flx_type *t = flxi_type_at(b->graph, b->graph->outputs.at[k].val);
        bool is_stacked = k < n->nout && flxi_type_at(w->g, n->first + (uint32_t)k)->rank != t->rank;
        out[k] = k < n->nout ? y[k] : UNSEEN;
        if (out[k] >= 0 && is_stacked)
            out[k] = out[k] > 0 ? out[k] - 1 : LOST;
    }
}

/* Rounds that are independent of each other: no carry has a cotangent, all results are rows and the axis is that of the
   rounds. Then a round in which all of them are zero gives zeros to its rows. */
static flx_code pass_independent(const walk *w, const flxi_node *n, const flxi_body *b, const int *y, int *in, int *out,
                                 int *x, bool *done)
{
    *done = true;
    for (uint32_t k = 0; k < n->nout; k++)
        *done &= y[k] == UNSEEN || (y[k] == 0 && k >= b->carries);
    if (!*done)
        return FLX_OK;
    FLXI_TRY(pass_body(w, b->graph, out, in));
    for (uint32_t k = 0; k < b->carries; k++)
        *done &= in[k] == UNSEEN;
    for (uint32_t k = b->carries; *done && k < b->carries + b->shared + b->rows; k++)
        x[b->first + k] = in[k] == UNSEEN ? UNSEEN : k < b->carries + b->shared ? LOST : 0;
    return FLX_OK;
}

static flx_code pass_loop(const walk *w, const flxi_node *n, const int *y, int *x)
{
    flxi_body b = {0};
    bool done = false;
    const flxi_allocator *mem = &w->g->ctx->mem;
    for (uint32_t i = 0; flxi_ops[n->op].rules->bodies(w->g, n, i, &b) && b.role != BODY_ROUND; i++)
        continue;
    size_t outputs = b.graph->outputs.n;
    int *in = flxi_alloc(mem, n->nin, sizeof *in);
    int *out = flxi_alloc(mem, outputs, sizeof *out);
    flx_code code = in && out ? FLX_OK : flxi_oom(w->err, "differentiating");
    if (code == FLX_OK) {
        enter_rounds(w, n, &b, y, out);
        code = pass_independent(w, n, &b, y, in, out, x, &done);
    }
    if (code == FLX_OK && !done)
        code = pass_rounds(w, &b, in, out, x);
    flxi_free(mem, in, n->nin, sizeof *in);
    flxi_free(mem, out, outputs, sizeof *out);
    return code;
}

/* From the axes of a node's results to those of its operands. */
static flx_code pass_node(const walk *w, const flxi_node *n, const int *y, int *x)
{
    const flxi_op *op = &flxi_ops[n->op];
    bool arrives = false;
    for (uint32_t i = 0; i < n->nin; i++)
        x[i] = UNSEEN;
    for (uint32_t k = 0; k < n->nout; k++)
        arrives |= y[k] != UNSEEN && has_derivative(flxi_type_at(w->g, n->first + k));
    if (!arrives || flxi_rule_kind(op, MODE_VJP) == FLX_RULE_ZERO)
        return FLX_OK;
    if (w->depth >= MAX_DEPTH && op->rules->bodies) { /* calls of calls may be exponentially many */
        for (uint32_t i = 0; i < n->nin; i++)
            x[i] = LOST;
        return FLX_OK;
    }
    flxi_body first;
    bool has_bodies = op->rules->bodies && op->rules->bodies(w->g, n, 0, &first);
    if (has_bodies && (first.role == BODY_BRANCH || first.role == BODY_FUNCTION))
        return pass_branches(w, n, y, x);
    if (has_bodies && (first.role == BODY_ROUND || first.role == BODY_TEST))
        return pass_loop(w, n, y, x);
    for (uint32_t k = 0; k < n->nout; k++)
        for (uint32_t i = 0; y[k] != UNSEEN && i < n->nin; i++)
            if (flxi_takes_derivative(op, flxi_type_at(w->g, n->in[i])->dtype))
                x[i] = merged(x[i], y[k] == LOST ? LOST : axis_before(&(flxi_use){w->g, n, i, k}, y[k], w->blocks));
    return FLX_OK;
}

/* ---- Through a node of the sweep ---- */

/* By operand: whether it is known to be zero where a fact says so, and the fact as it holds for the operand. By result
   and by operand: the axis that goes along with one of the fact. */
typedef struct {
    flxi_fact *to;
    bool *kept;
    int *y, *x;
} passed;

static flx_code pass_fact(walk *w, const flxi_node *n, const flxi_cotangent *dy, const flxi_fact *f,
                          const flx_type *cond, const passed *p)
{
    for (uint32_t i = 0; i < n->nin; i++) {
        p->to[i] = *f;
        p->kept[i] = true;
    }
    for (int q = 0; q < cond->rank; q++) {
        bool goes_along = false;
        for (uint32_t k = 0; k < n->nout; k++) {
            const flxi_fact *own = find_fact(dy[k].facts, f);
            p->y[k] = dy[k].v.id == 0 ? UNSEEN : own ? own->axis[q] : LOST;
            goes_along |= own && own->axis[q] >= 0;
        }
        if (!goes_along)
            continue;
        w->blocks = flxi_dim_is_number(cond->dims[q]) ? cond->dims[q] : 0;
        FLXI_TRY(pass_node(w, n, p->y, p->x));
        for (uint32_t i = 0; i < n->nin; i++) {
            p->kept[i] &= p->x[i] >= 0;
            p->to[i].axis[q] = (int8_t)p->x[i];
        }
    }
    return FLX_OK;
}

/* Every result with a cotangent has it. */
static bool is_everywhere(const flxi_node *n, const flxi_cotangent *dy, const flxi_fact *f)
{
    for (uint32_t k = 0; k < n->nout; k++)
        if (dy[k].v.id && !find_fact(dy[k].facts, f))
            return false;
    return true;
}

flx_code flxi_pass_facts(flx_graph *g, const flx_graph *src, const flxi_node *n, const flxi_cotangent *dy,
                         const flxi_facts **dx, flx_error *err)
{
    walk w = {.g = src, .err = err};
    const flxi_facts *facts = NULL;
    for (uint32_t i = 0; i < n->nin; i++)
        dx[i] = NULL;
    for (uint32_t k = 0; k < n->nout && !facts; k++)
        facts = dy[k].v.id ? dy[k].facts : NULL;
    if (!facts || flxi_has_exchange(n)) /* a cotangent that is zero here need not be zero elsewhere */
        return FLX_OK;
    flxi_facts *own = flxi_new(&g->arena, flxi_facts, n->nin);
    const passed p = {flxi_new(&g->arena, flxi_fact, n->nin), flxi_new(&g->arena, bool, n->nin),
                      flxi_new(&g->arena, int, n->nout), flxi_new(&g->arena, int, n->nin)};
    if (!own || !p.to || !p.kept || !p.y || !p.x)
        return flxi_oom(err, "differentiating");
    for (uint32_t j = 0; j < facts->n; j++) {
        const flxi_fact *f = &facts->v[j];
        if (!is_everywhere(n, dy, f))
            continue;
        FLXI_TRY(pass_fact(&w, n, dy, f, flx_val_type(g, f->cond), &p));
        for (uint32_t i = 0; i < n->nin; i++)
            if (p.kept[i])
                own[i].v[own[i].n++] = p.to[i];
    }
    for (uint32_t i = 0; i < n->nin; i++)
        dx[i] = own[i].n ? &own[i] : NULL;
    return FLX_OK;
}
