/* SPDX-License-Identifier: Apache-2.0 */
/* linearity.c: whether a graph is linear in some of its inputs, by its structure. Transposing is right only for such a
   graph: what is not linear would be transposed at zero, and constant terms would be dropped, both in silence.

   Every value is independent of these inputs, zero, linear in them, or neither. Ops that are linear in their operands
   together take linear values and zeros; bodies are followed; any other op is linear in operands if its derivative with
   respect to them does not depend on them and its results scale with them, which its rule or its decomposition says.
   */
#include "autodiff/autodiff.h"

#include <fluxion/catalogue.h>

typedef enum { INDEPENDENT, ZERO, LINEAR, NEITHER } kind;

enum { MOST = 64 }; /* operands and results of a node whose bodies are followed */

typedef struct {
    uint32_t serial; /* of the body */
    uint8_t in[MOST], out[MOST];
} followed;

typedef FLXI_VEC(followed) followed_list;

typedef struct {
    const flx_graph *g;
    kind *of;            /* by id */
    uint32_t *why;       /* by id, of NEITHER: the value that first is so */
    followed_list *done; /* bodies may be used exponentially often */
    flx_error *err;
} walk;

static bool carries_derivative(const flx_type *t)
{
    return flxi_in(FLXI_FLOATS | FLXI_COMPLEX, t->dtype);
}

static bool depends(kind k)
{
    return k == LINEAR || k == NEITHER;
}

/* ---- One op without bodies ---- */

/* Whether a value of g depends on one of the marked leaves. */
static bool reaches(const flx_graph *g, uint32_t id, const bool *leaf, bool *seen)
{
    const flxi_node *n = flxi_node_of(g, id);
    if (leaf[id])
        return true;
    for (uint32_t k = 0; k < n->nin; k++) {
        if (seen[n->in[k]])
            continue;
        seen[n->in[k]] = true;
        if (reaches(g, n->in[k], leaf, seen))
            return true;
    }
    return false;
}

/* A graph of its own for the op, in `s`, with its operands as inputs. NULL with the error. */
static flx_graph *open_alone(const walk *w, const flxi_node *n, flxi_site *s)
{
    flx_graph *t = flx_graph_new(w->g->ctx, "alone");
    if (!t) {
        flxi_oom(w->err, "transposing");
        return NULL;
    }
    *s = flxi_plain_site(t);
    s->op = &flxi_ops[n->op];
    s->attrs = n->attrs;
    s->nin = n->nin;
    s->nout = n->nout;
    s->bodies = &flxi_bodies;
    flx_val *x = flxi_rule_new(s, flx_val, n->nin);
    for (uint32_t k = 0; x && k < n->nin; k++)
        x[k] = flxi_new_leaf(t, "x", "", flxi_type_at(w->g, n->in[k]));
    s->x = x;
    return t;
}

/* The op with the derivatives along tangents of the dependent operands, simplified. Outputs: a tangent for each result;
   NEITHER in `kinds` for a result whose derivative is zero: it depends on the operands, but in steps. */
static flx_graph *derivative_of(const walk *w, const flxi_node *n, kind *kinds)
{
    flxi_site s;
    flx_graph *t = open_alone(w, n, &s);
    if (!t)
        return NULL;
    flx_val *y = flxi_rule_new(&s, flx_val, n->nout);
    flx_val *tx = flxi_rule_new(&s, flx_val, n->nin);
    flx_val *ty = flxi_rule_new(&s, flx_val, n->nout);
    flx_val *new_y = flxi_rule_new(&s, flx_val, n->nout);
    if (y && tx && ty && new_y) {
        for (uint32_t k = 0; k < n->nin; k++)
            if (depends(w->of[n->in[k]]))
                tx[k] = flxi_new_leaf(t, "t", "", flxi_type_at(w->g, n->in[k]));
        flxi_append(&s, NULL, s.x, n->nin, y);
        s.y = y;
        s.new_y = new_y;
        if (!t->error.code && !flxi_append_jvp(&s, tx, ty))
            flxi_graph_failf(t, FLX_E_NO_RULE, NULL, "%s has no derivative in forward mode", s.op->name);
        for (uint32_t k = 0; k < n->nout && !t->error.code; k++) {
            kinds[k] = flxi_is_none(ty[k]) ? NEITHER : LINEAR;
            flx_output(t, flxi_or_zeros(&s, ty[k], y[k]), NULL);
        }
    }
    return flxi_finish(&t, w->err) == FLX_OK ? t : NULL;
}

/* What the op means in terms of others. */
static flx_graph *decomposition_of(const walk *w, const flxi_node *n)
{
    flxi_site s;
    flx_graph *t = open_alone(w, n, &s);
    if (!t)
        return NULL;
    flx_val *y = flxi_rule_new(&s, flx_val, n->nout);
    if (y)
        s.op->rules->decompose(&s, y);
    for (uint32_t k = 0; k < n->nout && !t->error.code; k++)
        flx_output(t, y[k], NULL);
    return flxi_finish(&t, w->err) == FLX_OK ? t : NULL;
}

/* A result is linear in the operands that depend if its derivative does not depend on them. */
static flx_code try_derivative(const walk *w, const flxi_node *n, kind *y)
{
    const flxi_allocator *mem = &w->g->ctx->mem;
    flx_graph *t = derivative_of(w, n, y);
    if (!t)
        return (flx_code)w->err->code;
    size_t ids = (size_t)t->value_count + 1;
    bool *leaf = flxi_alloc(mem, ids, sizeof *leaf);
    bool *seen = flxi_alloc(mem, ids, sizeof *seen);
    flx_code code = leaf && seen ? FLX_OK : flxi_oom(w->err, "transposing");
    for (uint32_t k = 0; code == FLX_OK && k < n->nin; k++) /* leaves keep their order */
        leaf[t->leaves.at[k]] = depends(w->of[n->in[k]]);
    for (size_t k = 0; code == FLX_OK && k < t->outputs.n; k++) {
        memset(seen, 0, ids * sizeof *seen);
        if (reaches(t, t->outputs.at[k].val, leaf, seen))
            y[k] = NEITHER;
    }
    flxi_free(mem, leaf, ids, sizeof *leaf);
    flxi_free(mem, seen, ids, sizeof *seen);
    flx_graph_release(t);
    return code;
}

/* ---- Bodies ---- */

static flx_code follow(walk *w);

static flx_code walk_body(const walk *outer, const flx_graph *body, const kind *in, kind *out)
{
    const flxi_allocator *mem = &body->ctx->mem;
    flx_graph *prepared = NULL;
    FLXI_TRY(flxi_prepare(body, MODE_JVP, &prepared, NULL, outer->err));
    size_t ids = (size_t)prepared->value_count + 1;
    walk w = {.g = prepared, .done = outer->done, .err = outer->err};
    w.of = flxi_alloc(mem, ids, sizeof *w.of);
    w.why = flxi_alloc(mem, ids, sizeof *w.why);
    flx_code code = w.of && w.why ? FLX_OK : flxi_oom(outer->err, "transposing");
    for (size_t i = 0; code == FLX_OK && i < prepared->leaves.n; i++)
        w.of[prepared->leaves.at[i]] = in[i];
    if (code == FLX_OK)
        code = follow(&w);
    for (size_t k = 0; code == FLX_OK && k < prepared->outputs.n; k++)
        out[k] = w.of[prepared->outputs.at[k].val];
    flxi_free(mem, w.of, ids, sizeof *w.of);
    flxi_free(mem, w.why, ids, sizeof *w.why);
    flx_graph_release(prepared);
    return code;
}

static bool is_same_question(const followed *f, const flx_graph *body, const kind *in)
{
    bool is_same = f->serial == body->serial;
    for (size_t i = 0; is_same && i < body->leaves.n; i++)
        is_same = f->in[i] == in[i];
    return is_same;
}

/* The kinds of a body's outputs from those of its inputs. */
static flx_code follow_body(const walk *w, const flx_graph *body, const kind *in, kind *out)
{
    for (size_t i = 0; i < w->done->n; i++)
        if (is_same_question(&w->done->at[i], body, in)) {
            for (size_t k = 0; k < body->outputs.n; k++)
                out[k] = (kind)w->done->at[i].out[k];
            return FLX_OK;
        }
    FLXI_TRY(walk_body(w, body, in, out));
    followed f = {.serial = body->serial};
    for (size_t i = 0; i < body->leaves.n; i++)
        f.in[i] = (uint8_t)in[i];
    for (size_t k = 0; k < body->outputs.n; k++)
        f.out[k] = (uint8_t)out[k];
    return flxi_push(&body->ctx->mem, w->done, f) ? FLX_OK : flxi_oom(w->err, "transposing");
}

/* What is one or the other is linear if each is linear or zero. */
static kind either(kind a, kind b)
{
    if (a == b)
        return a;
    if (a == NEITHER || b == NEITHER)
        return NEITHER;
    if (depends(a) || depends(b))
        return a == INDEPENDENT || b == INDEPENDENT ? NEITHER : LINEAR;
    return INDEPENDENT;
}

typedef struct {
    kind in[MOST], out[MOST];
} body_kinds;

/* Branches, and a function that is called: each result is that of one of the bodies. */
static flx_code follow_branches(walk *w, const flxi_node *n, body_kinds *k, kind *y)
{
    flxi_body b;
    const flxi_rules *rules = flxi_ops[n->op].rules;
    for (uint32_t i = 0; rules->bodies(w->g, n, i, &b); i++) {
        if (b.role == BODY_RULE)
            continue;
        for (uint32_t j = 0; j < b.shared; j++)
            k->in[j] = w->of[n->in[b.first + j]];
        FLXI_TRY(follow_body(w, b.graph, k->in, k->out));
        for (uint32_t j = 0; j < n->nout; j++)
            y[j] = i == 0 ? k->out[j] : either(y[j], k->out[j]);
    }
    for (uint32_t j = 0; j < b.first && j < n->nin; j++) /* the selector */
        for (uint32_t r = 0; depends(w->of[n->in[j]]) && r < n->nout; r++)
            y[r] = NEITHER;
    return FLX_OK;
}

/* A loop: rounds until the kinds of the carries no longer change. */
static flx_code follow_loop(walk *w, const flxi_node *n, body_kinds *k, kind *y)
{
    flxi_body b;
    flxi_body test = {0};
    const flxi_rules *rules = flxi_ops[n->op].rules;
    uint32_t i = 0;
    for (; rules->bodies(w->g, n, i, &b) && b.role != BODY_ROUND; i++)
        test = b;
    uint32_t nin = b.carries + b.shared + b.rows;
    for (uint32_t j = 0; j < nin; j++)
        k->in[j] = w->of[n->in[b.first + j]];
    for (bool changed = true; changed;) {
        changed = false;
        FLXI_TRY(follow_body(w, b.graph, k->in, k->out));
        for (uint32_t j = 0; j < b.carries; j++) {
            kind now = either(k->in[j], k->out[j]);
            changed |= now != k->in[j];
            k->in[j] = now;
        }
    }
    for (uint32_t j = 0; j < n->nout; j++)
        y[j] = j < b.carries ? k->in[j] : k->out[j];
    if (test.graph) {
        kind more = INDEPENDENT;
        FLXI_TRY(follow_body(w, test.graph, k->in, &more));
        for (uint32_t j = 0; depends(more) && j < n->nout; j++)
            y[j] = NEITHER;
    }
    return FLX_OK;
}

/* ---- The walk ---- */

static bool is_zero_constant(const flxi_node *n)
{
    const flx_tensor *t = n->nin || n->nout != 1 ? NULL : flxi_held_tensor(n);
    for (size_t i = 0; t && i < t->nbytes; i++)
        if (((const unsigned char *)t->data)[i])
            return false;
    return t != NULL;
}

/* Ops that are linear in their operands without a role together; the others must be independent. */
static kind jointly_linear(const walk *w, const flxi_node *n)
{
    const flxi_operands *o = flxi_operands_of(&flxi_ops[n->op]);
    kind y = ZERO;
    for (uint32_t k = 0; k < n->nin; k++) {
        kind x = w->of[n->in[k]];
        if (flxi_operand_role(o, k) != ROLE_SAME && depends(x))
            return NEITHER;
        if (flxi_operand_role(o, k) == ROLE_SAME)
            y = either(y, x);
    }
    return y;
}

/* Whether the results scale with the operands that depend. Zeros scale with anything. */
static flx_code try_scaling(const walk *w, const flxi_node *n, bool *scales)
{
    const flxi_allocator *mem = &w->g->ctx->mem;
    const flxi_rules *rules = flxi_ops[n->op].rules;
    *scales = true;
    if (!rules->scales)
        return FLX_OK;
    bool *in = flxi_alloc(mem, n->nin, sizeof *in);
    if (!in)
        return flxi_oom(w->err, "transposing");
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = w->of[n->in[k]] != INDEPENDENT;
    *scales = rules->scales(n, in);
    flxi_free(mem, in, n->nin, sizeof *in);
    return FLX_OK;
}

static bool has_bodies(const walk *w, const flxi_node *n, flxi_body_role *role)
{
    flxi_body b;
    const flxi_rules *rules = flxi_ops[n->op].rules;
    if (!rules->bodies || n->nin > MOST || n->nout > MOST)
        return false;
    bool found = false;
    for (uint32_t i = 0; rules->bodies(w->g, n, i, &b) && b.graph; i++)
        if (b.role != BODY_TEST && b.role != BODY_RULE) {
            *role = b.role == BODY_CALLED && b.shared == n->nin ? BODY_FUNCTION : b.role;
            found = b.graph->leaves.n <= MOST && b.graph->outputs.n <= MOST;
        }
    return found;
}

/* A derivative that does not depend on the operands leaves constant terms open: the decomposition decides. */
static flx_code try_decomposition(const walk *w, const flxi_node *n, kind *y)
{
    const flxi_allocator *mem = &w->g->ctx->mem;
    flx_graph *t = decomposition_of(w, n);
    if (!t)
        return (flx_code)w->err->code;
    kind *in = flxi_alloc(mem, n->nin, sizeof *in);
    kind *out = flxi_alloc(mem, n->nout, sizeof *out);
    flx_code code = in && out ? FLX_OK : flxi_oom(w->err, "transposing");
    for (uint32_t k = 0; code == FLX_OK && k < n->nin; k++)
        in[k] = w->of[n->in[k]];
    if (code == FLX_OK)
        code = walk_body(w, t, in, out);
    for (uint32_t k = 0; code == FLX_OK && k < n->nout; k++)
        if (out[k] == NEITHER || out[k] == INDEPENDENT)
            y[k] = NEITHER;
    flxi_free(mem, in, n->nin, sizeof *in);
    flxi_free(mem, out, n->nout, sizeof *out);
    flx_graph_release(t);
    return code;
}

/* An op without bodies, of which some operands are linear and the others independent or zero. */
static flx_code judge_plain(const walk *w, const flxi_node *n, kind *y)
{
    const flxi_op *op = &flxi_ops[n->op];
    bool scales = false;
    bool is_linear = false;
    for (uint32_t k = 0; k < n->nout; k++)
        y[k] = op->traits & TRAIT_LINEAR ? jointly_linear(w, n) : NEITHER;
    if (!(op->traits & TRAIT_LINEAR) && flxi_rule_kind(op, MODE_JVP) != FLX_RULE_ZERO)
        FLXI_TRY(try_scaling(w, n, &scales));
    if (scales)
        FLXI_TRY(try_derivative(w, n, y));
    for (uint32_t k = 0; k < n->nout; k++) {
        if (!flxi_gives_derivative(op, flxi_type_at(w->g, n->first + k)->dtype, false))
            y[k] = NEITHER;
        is_linear |= y[k] == LINEAR;
    }
    bool is_known = op->rules->scales || (op->traits & (TRAIT_LINEAR | TRAIT_MULTILINEAR));
    return is_linear && !is_known && op->rules->decompose ? try_decomposition(w, n, y) : FLX_OK;
}

static flx_code judge(walk *w, const flxi_node *n, kind *y)
{
    const flxi_op *op = &flxi_ops[n->op];
    bool any = false;
    bool broken = false;
    flxi_body_role role;
    body_kinds kinds;
    for (uint32_t k = 0; k < n->nin; k++) {
        any |= depends(w->of[n->in[k]]);
        broken |= w->of[n->in[k]] == NEITHER;
    }
    for (uint32_t k = 0; k < n->nout; k++)
        y[k] = broken ? NEITHER : INDEPENDENT;
    if (broken || !any) {
        if (n->nout == 1 && !broken)
            y[0] = is_zero_constant(n)                     ? ZERO
                   : (op->traits & TRAIT_LINEAR) && n->nin ? jointly_linear(w, n)
                                                           : INDEPENDENT;
        return FLX_OK;
    }
    if (op->traits & TRAIT_SHAPE_ONLY)
        return FLX_OK;
    if (has_bodies(w, n, &role) && (role == BODY_BRANCH || role == BODY_FUNCTION))
        return follow_branches(w, n, &kinds, y);
    if (has_bodies(w, n, &role) && role == BODY_ROUND)
        return follow_loop(w, n, &kinds, y);
    return judge_plain(w, n, y);
}

static flx_code follow(walk *w)
{
    for (uint32_t i = 0; i < w->g->node_count; i++) {
        const flxi_node *n = flxi_node_at(w->g, i);
        if (flxi_ops[n->op].traits & TRAIT_DECLARED)
            continue;
        uint32_t first = 0;
        FLXI_TRY(judge(w, n, w->of + n->first));
        for (uint32_t k = 0; !first && k < n->nin; k++)
            first = w->why[n->in[k]];
        for (uint32_t k = 0; k < n->nout; k++)
            if (w->of[n->first + k] == NEITHER)
                w->why[n->first + k] = first ? first : n->first;
    }
    return FLX_OK;
}

bool flxi_check_linear(flxi_site *s, const flx_graph *body, const bool *linear_in, const char *what)
{
    flx_error err = {0};
    flx_graph *prepared = NULL;
    const flxi_allocator *mem = &body->ctx->mem;
    flx_code code = flxi_prepare(body, MODE_JVP, &prepared, NULL, &err);
    size_t ids = prepared ? (size_t)prepared->value_count + 1 : 0;
    followed_list done = {0};
    walk w = {.g = prepared, .done = &done, .err = &err};
    if (code == FLX_OK) {
        w.of = flxi_alloc(mem, ids, sizeof *w.of);
        w.why = flxi_alloc(mem, ids, sizeof *w.why);
        code = w.of && w.why ? FLX_OK : flxi_oom(&err, "transposing");
    }
    for (size_t i = 0; code == FLX_OK && i < prepared->leaves.n; i++)
        if (linear_in[i] && carries_derivative(flxi_type_at(prepared, prepared->leaves.at[i])))
            w.of[prepared->leaves.at[i]] = LINEAR;
    if (code == FLX_OK)
        code = follow(&w);
    if (code != FLX_OK)
        flxi_graph_fail(s->g, &err);
    for (size_t k = 0; code == FLX_OK && k < prepared->outputs.n; k++) {
        uint32_t id = prepared->outputs.at[k].val;
        flxi_value_text text;
        if (w.of[id] == LINEAR || w.of[id] == ZERO || !carries_derivative(flxi_type_at(prepared, id)))
            continue;
        code = FLX_E_NO_RULE;
        flxi_site_fail(s, code, "reverse mode transposes it: make it linear, or give a vjp",
                       "%s is not linear in its tangents: %s", what,
                       w.of[id] == INDEPENDENT ? "an output does not depend on them and is not zero"
                                               : flxi_value_str(prepared, w.why[id], NULL, &text));
    }
    flxi_free(mem, w.of, ids, sizeof *w.of);
    flxi_free(mem, w.why, ids, sizeof *w.why);
    flxi_vec_free(mem, &done);
    flx_graph_release(prepared);
    return code == FLX_OK;
}
