/* SPDX-License-Identifier: Apache-2.0 */
/* needs.c: see needs.h. A body is walked from its outputs to its inputs, with facts as in the reverse sweep but without
   cotangents. Where something inside of it decides, the answer is a graph of the same inputs that returns flags:
   booleans that are true where the cotangent of an input may be something else than zero. It is appended where the
   answer is needed, and vanishes where it is not. Each question about a body is answered once (body_memo.h). */
#include "autodiff/body/needs.h"

#include "ops/control/control.h"

#include <fluxion/catalogue.h>

enum { NEVER, SOMETIMES, ALWAYS };

/* The answer for a body: a status for each input, and the graph that returns the flags of those with SOMETIMES,
   borrowed from the memo; NULL: there are none. */
typedef struct {
    uint8_t *status;
    const flx_graph *flags;
    flxi_flag *of; /* by output of flags */
} body_needs;

static const flxi_need never = {false, NULL};
static const flxi_need always = {true, NULL};

static flxi_need either(flx_graph *g, flxi_need a, flxi_need b)
{
    if (!a.arrives || !b.arrives)
        return a.arrives ? a : b;
    if (!a.facts || !b.facts)
        return always;
    const flxi_facts *common = flxi_common_facts(g, a.facts, b.facts);
    return (flxi_need){true, common ? common : flxi_joined_facts(g, (const flxi_facts *const[]){a.facts, b.facts}, 2)};
}

/* ---- Bodies ---- */

static bool can_have(const flx_type *t)
{
    return flxi_in(FLXI_FLOATS | FLXI_COMPLEX, t->dtype);
}

typedef struct {
    const flx_graph *src; /* prepared */
    flx_graph *g;         /* gets a copy of src and the flags */
    uint32_t *map;
    flxi_need *need; /* by id of src */
    size_t ids;
    flxi_site *outer;
    flx_error err;
} walk;

/* What the bodies of a node add to what is known of its operands. */
static void add_needs(flxi_site *s, walk *w, const flxi_node *n, const flxi_cotangent *dy, const flxi_facts **known,
                      bool *arrives)
{
    flxi_need *own = flxi_rule_new(s, flxi_need, n->nin);
    if (!own || !flxi_node_needs(s, w->src, n, dy, own))
        return;
    for (uint32_t k = 0; k < n->nin; k++) {
        arrives[k] = own[k].arrives;
        known[k] = flxi_with_facts(s, known[k], own[k].facts);
    }
}

static flx_code walk_node(walk *w, uint32_t i)
{
    const flxi_node *n = flxi_node_at(w->src, i);
    const flxi_op *op = &flxi_ops[n->op];
    bool any = false;
    flxi_cotangent *dy = flxi_new(&w->g->arena, flxi_cotangent, n->nout);
    const flxi_facts **known = flxi_new(&w->g->arena, const flxi_facts *, n->nin);
    bool *arrives = flxi_new(&w->g->arena, bool, n->nin);
    if (!dy || !known || !arrives)
        return flxi_oom(&w->err, "differentiating");
    for (uint32_t k = 0; k < n->nout; k++) {
        const flxi_need *at = &w->need[n->first + k];
        bool is_there = at->arrives && can_have(flxi_type_at(w->src, n->first + k));
        dy[k].v = is_there ? (flx_val){w->map[n->first + k], w->g->serial} : FLX_NONE;
        dy[k].facts = at->facts;
        any |= is_there;
    }
    if (!any || n->nin == 0 || flxi_rule_kind(op, MODE_VJP) == FLX_RULE_ZERO)
        return FLX_OK;
    flxi_site s = flxi_site_of(w->g, w->src, i, w->map);
    s.memo = w->outer->memo;
    for (uint32_t k = 0; k < n->nin; k++)
        arrives[k] = true;
    FLXI_TRY(flxi_pass_facts(w->g, w->src, n, dy, known, &w->err));
    if (op->rules->bodies)
        add_needs(&s, w, n, dy, known, arrives);
    for (uint32_t k = 0; k < n->nin; k++) {
        if (!arrives[k] || !flxi_takes_derivative(op, flxi_type_at(w->src, n->in[k])->dtype))
            continue;
        if (op->traits & TRAIT_SELECTS) {
            const flxi_cotangent chosen = {.v = dy[0].v, .facts = flxi_add_choice(&s, dy[0].facts, k)};
            FLXI_TRY(flxi_pass_facts(w->g, w->src, n, &chosen, known, &w->err));
        }
        flxi_need *to = &w->need[n->in[k]];
        *to = either(w->g, *to, (flxi_need){true, known[k]});
    }
    return flxi_built(w->g, &w->err);
}

static flx_code copy_primal(walk *w)
{
    FLXI_TRY(flxi_copy_leaves(w->src, w->g, w->map, &w->err));
    for (uint32_t i = 0; i < w->src->node_count; i++)
        if (!(flxi_ops[flxi_node_at(w->src, i)->op].traits & TRAIT_DECLARED))
            FLXI_TRY(flxi_graft(w->g, w->src, i, w->map, &w->err));
    return FLX_OK;
}

/* The facts about the cotangent of an input as outputs of the graph. */
static flx_code write_flags(walk *w, uint32_t input, const flxi_facts *facts, flxi_flag *of, size_t *n)
{
    for (uint32_t j = 0; j < facts->n; j++) {
        const flxi_fact *f = &facts->v[j];
        const flx_type *t = flx_val_type(w->g, f->cond);
        flx_val flag = f->cond;
        if (t && t->dtype != FLX_BOOL)
            flag = flx_ne(w->g, flag, flx_scalar(w->g, (flx_dtype)t->dtype, 0));
        flx_output(w->g, f->when ? flag : flx_not(w->g, flag), NULL);
        of[*n].input = input;
        memcpy(of[(*n)++].axis, f->axis, sizeof f->axis);
    }
    return flxi_built(w->g, &w->err);
}

/* *flags: simplified, or NULL where all is known already; `of` has room for FLXI_MAX_FACTS of each input. */
static flx_code walk_body(walk *w, const bool *seeded, uint8_t *status, flx_graph **flags, flxi_flag *of)
{
    size_t n = 0;
    FLXI_TRY(copy_primal(w));
    for (size_t k = 0; k < w->src->outputs.n; k++)
        if (seeded[k])
            w->need[w->src->outputs.at[k].val] = always;
    for (uint32_t i = w->src->node_count; i-- > 0;)
        FLXI_TRY(walk_node(w, i));
    for (size_t i = 0; i < w->src->leaves.n; i++) {
        flxi_need at = w->need[w->src->leaves.at[i]];
        status[i] = !at.arrives ? NEVER : !at.facts ? ALWAYS : SOMETIMES;
        if (status[i] == SOMETIMES)
            FLXI_TRY(write_flags(w, (uint32_t)i, at.facts, of, &n));
    }
    if (!n)
        return FLX_OK;
    FLXI_TRY(flxi_finish(&w->g, &w->err));
    *flags = flx_graph_retain(w->g);
    return FLX_OK;
}

static flx_code answer(flxi_site *s, const flxi_question *q, body_needs *out, flx_graph **flags, flx_error *err)
{
    const flxi_allocator *mem = &s->ctx->mem;
    flx_graph *prepared = NULL;
    walk w = {.outer = s};
    FLXI_TRY(flxi_prepare(q->body, MODE_VJP, &prepared, NULL, err));
    w.src = prepared;
    w.ids = (size_t)prepared->value_count + 1;
    w.g = flx_graph_new(s->ctx, q->body->name);
    w.map = flxi_alloc(mem, w.ids, sizeof *w.map);
    w.need = flxi_alloc(mem, w.ids, sizeof *w.need);
    flx_code code = w.g && w.map && w.need ? walk_body(&w, q->outputs, out->status, flags, out->of)
                                           : flxi_oom(&w.err, "differentiating");
    if (code != FLX_OK)
        *err = w.err;
    flx_graph_release(w.g);
    flx_graph_release(prepared);
    flxi_free(mem, w.map, w.ids, sizeof *w.map);
    flxi_free(mem, w.need, w.ids, sizeof *w.need);
    return code;
}

/* False: the error is in s->g. */
static bool needs_of_body(flxi_site *s, const flx_graph *body, const bool *seeded, body_needs *out)
{
    const flxi_question q = {.asked = ASKED_NEEDS, .body = body, .outputs = seeded};
    const flxi_answer *known = flxi_memo_find(s->memo, &q);
    flx_error err = {0};
    flx_graph *flags = NULL;
    out->status = flxi_rule_new(s, uint8_t, body->leaves.n);
    out->of = flxi_rule_new(s, flxi_flag, body->leaves.n * FLXI_MAX_FACTS);
    out->flags = NULL;
    if (!out->status || !out->of)
        return false;
    if (known) {
        memcpy(out->status, known->status, body->leaves.n);
        if (known->made)
            memcpy(out->of, known->flags, known->made->outputs.n * sizeof *out->of);
        out->flags = known->made;
        return true;
    }
    flx_code code = answer(s, &q, out, &flags, &err);
    const flxi_answer made = {.made = flags, .status = out->status, .flags = out->of};
    if (code != FLX_OK)
        flxi_graph_fail(s->g, &err);
    else if (!flxi_memo_keep(s->memo, &s->ctx->mem, &q, &made))
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: differentiating");
    out->flags = flags;
    flx_graph_release(flags); /* the memo holds it */
    return !s->g->error.code;
}

/* What the answer and its flags, which are in the graph being built, say about each input. */
static void place_flags(flxi_site *s, const body_needs *b, size_t n, const flx_val *flags, flxi_need *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = b->status[i] == NEVER ? never : always;
    for (size_t k = 0; b->flags && k < b->flags->outputs.n; k++) {
        flxi_need *at = &out[b->of[k].input];
        at->facts = flxi_add_flag(s, at->facts, flags[k], b->of[k].axis);
    }
}

static flx_val *room_for_flags(flxi_site *s, const body_needs *b)
{
    return flxi_rule_new(s, flx_val, b->flags ? b->flags->outputs.n : 1);
}

/* ---- Calls ---- */

static void needs_of_call(flxi_site *s, const flxi_body *b, const bool *seeded, flxi_need *need)
{
    body_needs own;
    flx_val *flags = needs_of_body(s, b->graph, seeded, &own) ? room_for_flags(s, &own) : NULL;
    if (!flags)
        return;
    if (own.flags)
        flxi_inline_or_call(s->g, own.flags, FLXI_INLINE_EACH, s->x + b->first, flags);
    place_flags(s, &own, b->graph->leaves.n, flags, need + b->first);
}

/* ---- Branches ---- */

/* A graph with the inputs of `flags` that returns false everywhere for each of its outputs. */
static flx_graph *all_false(flxi_site *s, const flx_graph *flags)
{
    flx_graph *g = flxi_new_body(s, flags->name);
    flxi_site inner = *s;
    inner.g = g;
    for (size_t i = 0; g && i < flags->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(flags, flags->leaves.at[i]);
        flx_input(g, v->name, v->type);
    }
    for (size_t k = 0; g && k < flags->outputs.n; k++)
        flx_output(g, flxi_zeros(&inner, flxi_type_at(flags, flags->outputs.at[k].val)), NULL);
    return g;
}

/* The flags of a body that runs only if `holds`. */
static void flags_if(flxi_site *s, const flx_graph *flags, flx_val holds, const flx_val *x, flx_val *out)
{
    flx_val *in = flxi_rule_new(s, flx_val, flags->leaves.n + 1);
    flx_graph *none = in ? all_false(s, flags) : NULL;
    if (!none)
        return;
    in[0] = holds;
    memcpy(in + 1, x, flags->leaves.n * sizeof *x);
    flx_if(s->g, in, flags->leaves.n + 1, out, flags->outputs.n, flags, none);
    flx_graph_release(none);
}

/* One branch: whether it is taken, and its flags, which are false if it is not. */
typedef struct {
    body_needs own;
    flx_val taken;
    flx_val *flags;
} branch;

/* The flags of an input along these axes, of this type, as one; FLX_NONE: there are none. */
static flx_val flag_like(flxi_site *s, const branch *b, uint32_t input, const flxi_flag *like, const flx_type *type)
{
    flx_val all = FLX_NONE;
    for (size_t k = 0; b->own.flags && k < b->own.flags->outputs.n; k++) {
        const flxi_flag *f = &b->own.of[k];
        if (f->input != input || memcmp(f->axis, like->axis, sizeof f->axis) != 0 ||
            !flxi_type_equal(flxi_typeof(s, b->flags[k]), type))
            continue;
        all = flxi_is_none(all) ? b->flags[k] : flx_and(s->g, all, b->flags[k]);
    }
    return all;
}

/* Where some branch gives operand k something, along the axes of `like`; FLX_NONE: that is not known. */
static flx_val joined_flag(flxi_site *s, const branch *list, uint32_t n, uint32_t k, const flxi_flag *like,
                           const flx_type *type)
{
    flx_val any = FLX_NONE;
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].own.status[k] == NEVER)
            continue;
        bool is_always = list[i].own.status[k] == ALWAYS;
        flx_val here = is_always ? list[i].taken : flag_like(s, &list[i], k, like, type);
        if (flxi_is_none(here))
            return FLX_NONE;
        any = flxi_is_none(any) ? here : flx_or(s->g, any, here);
    }
    return any;
}

static flxi_need need_of_branches(flxi_site *s, const branch *list, uint32_t n, uint32_t k)
{
    uint32_t counts[3] = {0};
    flxi_flag scalar = {.input = k};
    const flxi_flag *like = &scalar;
    flx_type boolean = flx_type_make(FLX_BOOL, 0, NULL);
    const flx_type *type = &boolean;
    memset(scalar.axis, -1, sizeof scalar.axis);
    for (uint32_t i = 0; i < n; i++)
        counts[list[i].own.status[k]]++;
    if (counts[NEVER] == n || counts[ALWAYS] == n)
        return counts[NEVER] == n ? never : always;
    flx_val flag = joined_flag(s, list, n, k, like, type);
    for (uint32_t i = 0; i < n && flxi_is_none(flag); i++)
        for (size_t f = 0; list[i].own.flags && f < list[i].own.flags->outputs.n && flxi_is_none(flag); f++)
            if (list[i].own.of[f].input == k) {
                like = &list[i].own.of[f];
                type = flxi_typeof(s, list[i].flags[f]);
                flag = joined_flag(s, list, n, k, like, type);
            }
    return flxi_is_none(flag) ? always : (flxi_need){true, flxi_add_flag(s, NULL, flag, like->axis)};
}

static void needs_of_branches(flxi_site *s, const flx_graph *src, const flxi_node *n, const bool *seeded,
                              flxi_need *need)
{
    flxi_body b;
    uint32_t count = 0;
    while (s->op->rules->bodies(src, n, count, &b))
        count++;
    branch *list = flxi_rule_new(s, branch, count);
    for (uint32_t i = 0; list && s->op->rules->bodies(src, n, i, &b); i++) {
        branch *to = &list[i];
        if (!needs_of_body(s, b.graph, seeded, &to->own) || !(to->flags = room_for_flags(s, &to->own)))
            return;
        to->taken = flxi_branch_taken(s, i);
        if (to->own.flags)
            flags_if(s, to->own.flags, to->taken, s->x + 1, to->flags);
    }
    for (uint32_t k = 1; list && k < s->nin; k++)
        need[k] = need_of_branches(s, list, count, k - 1);
}

/* ---- Loops ---- */

typedef struct {
    flxi_site *s;
    flxi_body round;
    const flx_graph *test;    /* NULL: the number of rounds is known */
    const bool *seeded;       /* by result of the node */
    const flxi_cotangent *dy; /* likewise */
    bool *reached;            /* by output of the round: some cotangent of it arrives in some round */
    bool *passes;             /* by carry: the round returns it unchanged */
    body_needs own;           /* with the cotangents of `reached` */
} loop;

/* Carries that a round returns unchanged get what the rounds give them, and what their results have. */
static bool find_reached(loop *l)
{
    const flx_graph *body = l->round.graph;
    for (size_t k = 0; k < body->outputs.n; k++)
        l->reached[k] = k < l->s->nout && l->seeded[k] && can_have(flxi_type_at(body, body->outputs.at[k].val));
    for (uint32_t k = 0; k < l->round.carries; k++) {
        l->passes[k] = body->outputs.at[k].val == body->leaves.at[k];
        l->reached[k] &= !l->passes[k];
    }
    for (bool changed = true; changed;) {
        changed = false;
        if (!needs_of_body(l->s, body, l->reached, &l->own))
            return false;
        for (uint32_t k = 0; k < l->round.carries; k++)
            if (l->own.status[k] != NEVER && !l->reached[k] && !l->passes[k])
                changed = l->reached[k] = true;
    }
    return true;
}

/* Whether there is a round at all, as a boolean; FLX_NONE: there is. */
static flx_val runs_at_all(const loop *l)
{
    flx_val holds;
    if (!l->test)
        return FLX_NONE;
    flxi_inline_or_call(l->s->g, l->test, FLXI_INLINE_EACH, l->s->x, &holds);
    holds = flxi_reshape_to(l->s, holds, 0, NULL);
    flx_val is_nonzero = flx_ne(l->s->g, holds, flxi_number(l->s, holds, 0.0));
    return flxi_can_vary(flxi_typeof(l->s, holds)) ? flx_and(l->s->g, is_nonzero, flx_eq(l->s->g, holds, holds))
                                                   : is_nonzero;
}

/* Flags of carries and shared operands, which come before those of rows. */
static uint32_t held_flags(const loop *l)
{
    uint32_t held = 0;
    for (size_t k = 0; k < l->own.flags->outputs.n; k++)
        held += l->own.of[k].input < l->round.carries + l->round.shared;
    return held;
}

static const flx_type *flag_type(const loop *l, size_t k)
{
    return flxi_type_at(l->own.flags, l->own.flags->outputs.at[k].val);
}

/* A round and the flags of the operands so far: (c…, flags…; shared…, rows…) → c…, flags…, and those of rows. */
static flx_graph *flagging_round(const loop *l)
{
    const flx_graph *body = l->round.graph, *flags = l->own.flags;
    flx_graph *g = flxi_new_body(l->s, body->name);
    size_t inputs = body->leaves.n;
    flx_val *x = flxi_rule_new(l->s, flx_val, inputs + flags->outputs.n);
    flx_val *y = flxi_rule_new(l->s, flx_val, body->outputs.n);
    flx_val *now = flxi_rule_new(l->s, flx_val, flags->outputs.n);
    uint32_t held = held_flags(l);
    if (!g || !x || !y || !now) {
        flx_graph_release(g);
        return NULL;
    }
    for (uint32_t i = 0; i < l->round.carries; i++)
        x[i] = flxi_new_leaf(g, "c", "", flxi_type_at(body, body->leaves.at[i]));
    for (uint32_t k = 0; k < held; k++)
        x[inputs + k] = flxi_new_leaf(g, "flag", "", flag_type(l, k));
    for (size_t i = l->round.carries; i < inputs; i++)
        x[i] = flxi_new_leaf(g, "x", "", flxi_type_at(body, body->leaves.at[i]));
    flxi_inline(g, body, x, y);
    flxi_inline(g, flags, x, now);
    for (uint32_t i = 0; i < l->round.carries; i++)
        flx_output(g, y[i], NULL);
    for (size_t k = 0; k < flags->outputs.n; k++)
        flx_output(g, k < held ? flx_or(g, x[inputs + k], now[k]) : now[k], NULL);
    return flxi_finish_body(l->s, g);
}

/* The condition on the carries alone. */
static flx_graph *flagging_test(const loop *l)
{
    flx_graph *g = flxi_new_body(l->s, l->test->name);
    flx_val *x = flxi_rule_new(l->s, flx_val, l->round.carries);
    flx_val holds;
    if (!g || !x) {
        flx_graph_release(g);
        return NULL;
    }
    for (uint32_t i = 0; i < l->round.carries; i++)
        x[i] = flxi_new_leaf(g, "c", "", flxi_type_at(l->test, l->test->leaves.at[i]));
    for (uint32_t k = 0; k < held_flags(l); k++)
        flxi_new_leaf(g, "flag", "", flag_type(l, k));
    flxi_inline(g, l->test, x, &holds);
    flx_output(g, holds, NULL);
    return flxi_finish_body(l->s, g);
}

/* The loop once more, forward, with the flags: those of carries and shared operands are true where they are in some
   round, those of rows have a row for each. */
static void run_flags(const loop *l, flx_val *flags)
{
    flxi_site *s = l->s;
    uint32_t held = held_flags(l), n = l->round.carries;
    uint32_t count = (uint32_t)l->own.flags->outputs.n;
    flx_val *in = flxi_rule_new(s, flx_val, s->nin + count), *out = flxi_rule_new(s, flx_val, s->nin + count);
    flx_graph *round = in && out ? flagging_round(l) : NULL, *test = l->test ? flagging_test(l) : NULL;
    if (round && (test || !l->test)) {
        memcpy(in, s->x, n * sizeof *in);
        for (uint32_t k = 0; k < held; k++)
            in[n++] = flxi_zeros(s, flag_type(l, k));
        for (uint32_t i = l->round.carries; i < s->nin; i++)
            in[n++] = s->x[i];
        flxi_loop_again(s, round, test, l->round.carries + held, in, n, out, l->round.carries + count);
        memcpy(flags, out + l->round.carries, count * sizeof *flags);
    }
    flx_graph_release(round);
    flx_graph_release(test);
}

/* Rows have one axis more than a round sees of them. */
static void shift_rows(loop *l)
{
    for (size_t k = held_flags(l); k < l->own.flags->outputs.n; k++) {
        int8_t *axis = l->own.of[k].axis;
        for (int q = FLX_MAX_RANK - 1; q > 0; q--)
            axis[q] = (int8_t)(axis[q - 1] < 0 ? -1 : axis[q - 1] + 1);
        axis[0] = 0;
    }
}

/* Of a carry that stays the same: what its result has, apart from what the rounds give it. */
static flxi_need need_of_result(const loop *l, uint32_t k)
{
    if (k >= l->s->nout || !l->seeded[k])
        return never;
    const flx_type *x = flxi_typeof(l->s, l->s->x[k]), *y = flx_val_type(l->s->g, l->dy[k].v);
    return y && flxi_type_equal(x, y) ? (flxi_need){true, l->dy[k].facts} : always;
}

/* Of a carry that changes: what the first round may give it; if there is none, what its result has. */
static flxi_need need_of_carry(const loop *l, uint32_t k, flx_val runs)
{
    int8_t none[FLX_MAX_RANK];
    bool from_result = k < l->s->nout && l->seeded[k], from_round = l->own.status[k] != NEVER;
    if (flxi_is_none(runs) || from_result == from_round)
        return from_round ? always : never;
    memset(none, -1, sizeof none);
    flx_val flag = from_round ? runs : flx_not(l->s->g, runs);
    return (flxi_need){true, flxi_add_flag(l->s, NULL, flag, none)};
}

static void needs_of_loop(flxi_site *s, const flxi_body *round, const flx_graph *test, const bool *seeded,
                          const flxi_cotangent *dy, flxi_need *need)
{
    loop l = {.s = s,
              .round = *round,
              .test = test,
              .seeded = seeded,
              .dy = dy,
              .reached = flxi_rule_new(s, bool, round->graph->outputs.n),
              .passes = flxi_rule_new(s, bool, round->carries)};
    if (!l.reached || !l.passes || !find_reached(&l))
        return;
    flx_val *flags = room_for_flags(s, &l.own);
    if (!flags)
        return;
    if (l.own.flags) {
        run_flags(&l, flags);
        shift_rows(&l);
    }
    place_flags(s, &l.own, round->graph->leaves.n, flags, need);
    flx_val runs = runs_at_all(&l);
    for (uint32_t k = 0; k < round->carries; k++)
        if (!l.passes[k])
            need[k] = need_of_carry(&l, k, runs);
        else
            need[k] = either(s->g, need[k], need_of_result(&l, k));
}

/* ---- Nodes ---- */

/* Whether the loop runs at least once, as far as is known before it does. */
static bool may_run_never(const flxi_body *round)
{
    return round->runs != FLXI_ABSENT && (!flx_dim_is_static(round->runs) || round->runs < 1);
}

bool flxi_node_needs(flxi_site *s, const flx_graph *src, const flxi_node *n, const flxi_cotangent *dy, flxi_need *need)
{
    const flxi_rules *r = flxi_ops[n->op].rules;
    flxi_body first, second;
    for (uint32_t k = 0; k < n->nin; k++)
        need[k] = never;
    if (!r->bodies || !r->bodies(src, n, 0, &first) || !s->memo)
        return false;
    bool is_single = !r->bodies(src, n, 1, &second);
    bool *seeded = flxi_rule_new(s, bool, n->nout);
    if (!seeded)
        return false;
    for (uint32_t k = 0; k < n->nout; k++)
        seeded[k] = !flxi_is_none(dy[k].v);
    switch (first.role) {
    case BODY_BRANCH: needs_of_branches(s, src, n, seeded, need); return true;
    case BODY_FUNCTION: needs_of_call(s, &first, seeded, need); return true;
    case BODY_CALLED:
        if (!is_single || first.shared != n->nin || first.graph->outputs.n != n->nout)
            return false;
        needs_of_call(s, &first, seeded, need);
        return true;
    case BODY_ROUND:
        if (!is_single || may_run_never(&first) || !flxi_can_loop_again(n))
            return false;
        needs_of_loop(s, &first, NULL, seeded, dy, need);
        return true;
    case BODY_TEST:
        if (is_single || second.role != BODY_ROUND || !flxi_can_loop_again(n))
            return false;
        needs_of_loop(s, &second, first.graph, seeded, dy, need);
        return true;
    default: return false;
    }
}
