/* SPDX-License-Identifier: Apache-2.0 */
/* apply_recomputed.c: the graph of a routine, written again step by step, with copies of what is computed again. A step
   from which on a value is computed again reads the copy, which is made before the first such step; views between the
   two, which no step computes, are made again too. */
#include "compile/budget/recompute.h"
#include "passes/pass.h"

typedef struct {
    flxi_copy c;
    const flxi_routine *l;
    const flxi_recomputations *list;
    const uint32_t *step_of;           /* by node, + 1 */
    uint32_t *again;                   /* by value: number of its recomputation + 1; 0: none */
    uint32_t **made;                   /* by recomputation: first results of the copies, by its nodes; NULL: not yet */
    uint32_t *view_of, *view_step;     /* by node: the view for that step + 1 */
    FLXI_VEC(flxi_position) positions; /* by node of the new graph */
    flxi_position position;            /* of nodes that are being made */
    flxi_arena *arena;
    const flxi_allocator *mem;
} writer;

static flx_code resolve(writer *w, uint32_t value, uint32_t step, uint32_t *id);

static uint32_t node_of(const writer *w, uint32_t value)
{
    return flxi_value_at(w->c.from, value)->node;
}

/* Says where nodes were made that have no position yet. */
static flx_code note_positions(writer *w)
{
    while (w->positions.n < w->c.to->node_count)
        if (!flxi_push(w->mem, &w->positions, w->position))
            return flxi_oom(w->c.err, "a memory plan");
    return FLX_OK;
}

static flx_code copy_plain(writer *w, uint32_t node)
{
    FLXI_TRY(flxi_copy_node(&w->c, node));
    return note_positions(w);
}

/* A copy of the node on these operands. */
static flx_code add_node(writer *w, const flxi_node *n, const uint32_t *in, uint32_t *first)
{
    flx_graph *g = w->c.to;
    void *attrs;
    FLXI_TRY(flxi_attrs_clone(g, &flxi_ops[n->op], n->attrs, &w->c.attrs, &attrs, w->c.err));
    *first = flxi_add_copy(g, w->c.from, n, in, attrs);
    if (!*first) {
        if (w->c.err)
            *w->c.err = g->error;
        return (flx_code)g->error.code;
    }
    return note_positions(w);
}

/* ---- Copies ---- */

static uint32_t member_of(const flxi_recomputation *r, uint32_t node)
{
    for (uint32_t i = 0; i < r->num_nodes; i++)
        if (r->nodes[i] == node)
            return i;
    return UINT32_MAX;
}

static flx_code make_member(writer *w, const flxi_recomputation *r, uint32_t *firsts, uint32_t k)
{
    const flxi_node *n = flxi_node_at(w->c.from, r->nodes[k]);
    uint32_t *in = flxi_new(&w->c.to->arena, uint32_t, n->nin);
    if (!in)
        return flxi_oom(w->c.err, "a memory plan");
    for (uint32_t i = 0; i < n->nin; i++) {
        uint32_t node = node_of(w, n->in[i]), member = member_of(r, node);
        if (member < k)
            in[i] = firsts[member] + (n->in[i] - flxi_node_at(w->c.from, node)->first);
        else
            FLXI_TRY(resolve(w, n->in[i], 0, &in[i]));
    }
    return add_node(w, n, in, &firsts[k]);
}

static flx_code make_again(writer *w, uint32_t number, uint32_t *id)
{
    const flxi_recomputation *r = &w->list->at[number];
    uint32_t value = r->value, last = r->num_nodes - 1;
    if (!w->made[number]) {
        uint32_t *firsts = flxi_new(w->arena, uint32_t, r->num_nodes);
        flxi_position before = w->position;
        if (!firsts)
            return flxi_oom(w->c.err, "a memory plan");
        w->position = (flxi_position){.step = before.step, .is_copy = true};
        for (uint32_t k = 0; k < r->num_nodes; k++)
            FLXI_TRY(make_member(w, r, firsts, k));
        w->position = before;
        w->made[number] = firsts;
    }
    *id = w->made[number][last] + (value - flxi_node_at(w->c.from, r->nodes[last])->first);
    return FLX_OK;
}

/* ---- Operands ---- */

/* A view, an input or a constant: made where it is first read, and again where its operands differ. */
static flx_code resolve_view(writer *w, uint32_t node, uint32_t step)
{
    const flxi_node *n = flxi_node_at(w->c.from, node);
    uint32_t *in = flxi_new(&w->c.to->arena, uint32_t, n->nin);
    bool is_plain = true;
    if (!in)
        return flxi_oom(w->c.err, "a memory plan");
    for (uint32_t i = 0; i < n->nin; i++) {
        FLXI_TRY(resolve(w, n->in[i], step, &in[i]));
        is_plain &= in[i] == w->c.remap.id[n->in[i]];
    }
    w->view_step[node] = step + 1;
    if (!is_plain)
        return add_node(w, n, in, &w->view_of[node]);
    if (!w->c.remap.id[n->first])
        FLXI_TRY(copy_plain(w, node));
    w->view_of[node] = w->c.remap.id[n->first];
    return FLX_OK;
}

/* The value as the step reads it. */
static flx_code resolve(writer *w, uint32_t value, uint32_t step, uint32_t *id)
{
    uint32_t node = node_of(w, value), number = w->again[value];
    if (number && w->list->at[number - 1].step <= step)
        return make_again(w, number - 1, id);
    if (w->step_of[node]) {
        *id = w->c.remap.id[value];
        return FLX_OK;
    }
    if (w->view_step[node] != step + 1)
        FLXI_TRY(resolve_view(w, node, step));
    *id = w->view_of[node] + (value - flxi_node_at(w->c.from, node)->first);
    return FLX_OK;
}

static flx_code write_node(writer *w, uint32_t node, uint32_t step)
{
    const flxi_node *n = flxi_node_at(w->c.from, node);
    uint32_t first, *in = flxi_new(&w->c.to->arena, uint32_t, n->nin);
    if (!in)
        return flxi_oom(w->c.err, "a memory plan");
    for (uint32_t i = 0; i < n->nin; i++)
        FLXI_TRY(resolve(w, n->in[i], step, &in[i]));
    w->c.to->pending_label = n->nout ? flxi_value_at(w->c.from, n->first)->name : NULL;
    flx_code code = add_node(w, n, in, &first);
    w->c.to->pending_label = NULL;
    for (uint32_t k = 0; code == FLX_OK && k < n->nout; k++)
        flxi_copy_replace(&w->c, n->first + k, first + k);
    return code;
}

/* ---- The whole ---- */

static flx_code write_step(writer *w, uint32_t step, uint32_t position, const flxi_position *positions)
{
    const flxi_step *s = &w->l->steps[step];
    uint32_t count = s->num_nodes ? s->num_nodes : s->kind != STEP_COPY;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t node = s->num_nodes ? s->nodes[k] : s->node;
        w->position = (flxi_position){.step = position,
                                      .is_copy = positions && positions[node].is_copy,
                                      .is_apart = positions && positions[node].is_apart};
        FLXI_TRY(write_node(w, node, step));
    }
    return FLX_OK;
}

static flx_code write_graph(writer *w, const uint32_t *order)
{
    const flx_graph *g = w->c.from;
    uint32_t id;
    for (size_t i = 0; i < g->leaves.n; i++)
        FLXI_TRY(copy_plain(w, node_of(w, g->leaves.at[i])));
    for (uint32_t i = 0; i < w->l->num_steps; i++)
        FLXI_TRY(write_step(w, order ? order[i] : i, i, w->l->positions));
    w->position = (flxi_position){.step = w->l->num_steps};
    for (size_t i = 0; i < g->outputs.n; i++) {
        FLXI_TRY(resolve(w, g->outputs.at[i].val, 0, &id));
        w->c.remap.id[g->outputs.at[i].val] = id;
    }
    return FLX_OK;
}

static flx_code begin(writer *w, flx_error *err)
{
    const flx_graph *g = w->l->g;
    w->step_of = flxi_steps_of_nodes(w->l, w->arena);
    w->again = flxi_new(w->arena, uint32_t, g->value_count + 1);
    w->made = flxi_new(w->arena, uint32_t *, w->list->n + 1);
    w->view_of = flxi_new(w->arena, uint32_t, g->node_count + 1);
    w->view_step = flxi_new(w->arena, uint32_t, g->node_count + 1);
    if (!w->step_of || !w->again || !w->made || !w->view_of || !w->view_step)
        return flxi_oom(err, "a memory plan");
    for (uint32_t i = 0; i < w->list->n; i++)
        w->again[w->list->at[i].value] = i + 1;
    return FLX_OK;
}

flx_code flxi_apply_recomputations(const flxi_routine *l, const uint32_t *order, const flxi_recomputations *list,
                                   flxi_arena *arena, flx_graph **out, flxi_position **positions, flx_error *err)
{
    static const flxi_recomputations none = {0};
    writer w = {.l = l, .list = list ? list : &none, .arena = arena, .mem = &l->g->ctx->mem};
    FLXI_TRY(begin(&w, err));
    flx_code code = flxi_copy_begin(&w.c, l->g, err);
    if (code == FLX_OK)
        code = write_graph(&w, order);
    if (code == FLX_OK)
        *positions = flxi_dup(arena, flxi_position, w.positions.at, w.positions.n);
    flxi_vec_free(w.mem, &w.positions);
    if (code == FLX_OK && !*positions)
        code = flxi_oom(err, "a memory plan");
    return flxi_copy_end(&w.c, code, out, NULL);
}
