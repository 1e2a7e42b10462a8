/* SPDX-License-Identifier: Apache-2.0 */
/* shard_bodies.c: loops, branches and calls on parts. Their bodies are graphs that are cut in turn: inputs as the
   operands of the node are, outputs as its results. What a round of a loop hands to the next one must be cut alike
   before and after it: a carry that begins whole, such as zeros, and is cut by the first round, is cut from the
   beginning. Exchanges within a body are made in every round; all processes make the same rounds, since what a loop
   tests and what a branch depends on are whole values. */
#include "ops/rule/shard.h"
#include "passes/partition/partition.h"

enum { MAX_BODIES = 64 };

bool flxi_is_by_bodies(const flxi_node *n)
{
    const struct flxi_shard *rule = flxi_ops[n->op].rules->shard;
    return rule && rule->by_bodies;
}

/* The bodies of the node that compute its results, and the one that decides about the next round, if there is one. */
typedef struct {
    flxi_body at[MAX_BODIES], test;
    uint32_t n;
    bool has_test, is_loop;
} body_list;

/* False: too many, or bound in a way that is not known here. */
static bool list_bodies(const flxi_partition *p, const flxi_node *n, body_list *list)
{
    flxi_body b;
    *list = (body_list){.n = 0};
    for (uint32_t i = 0; flxi_ops[n->op].rules->bodies(p->from, n, i, &b); i++) {
        if (b.role == BODY_TEST) {
            list->test = b;
            list->has_test = true;
            continue;
        }
        if (list->n == MAX_BODIES || b.graph->outputs.n != n->nout || b.first + b.carries + b.shared + b.rows != n->nin)
            return false;
        list->is_loop |= b.role == BODY_ROUND;
        list->at[list->n++] = b;
    }
    return list->n > 0;
}

/* ---- A body without its node ---- */

/* An input of a body from the operand: a row has no axis of rows. */
static flxi_cuts row_of(const flxi_cuts *c)
{
    flxi_cuts row = flxi_no_cuts();
    memcpy(row.at, c->at + 1, sizeof row.at - 1);
    return row;
}

static flxi_cuts rows_of(const flxi_cuts *c)
{
    flxi_cuts rows = flxi_no_cuts();
    memcpy(rows.at + 1, c->at, sizeof rows.at - 1);
    return rows;
}

static bool is_row(const flxi_body *b, uint32_t input)
{
    return input >= b->carries + b->shared;
}

/* The body as a partition of its own, composites taken apart. The graph is to be released. */
static flx_code open_body(const flxi_partition *p, const flxi_body *b, const flxi_cuts *operands, flx_graph **open,
                          flxi_partition *out)
{
    const flx_graph *g = b->graph;
    flx_sharding *list = flxi_new(p->arena, flx_sharding, g->leaves.n + 1);
    flxi_cuts *inputs = flxi_new(p->arena, flxi_cuts, g->leaves.n + 1);
    size_t count = 0;
    if (!list || !inputs)
        return flxi_oom(p->err, "a partition");
    for (uint32_t i = 0; i < g->leaves.n; i++) {
        const flxi_cuts *c = &operands[b->first + i];
        inputs[i] = is_row(b, i) ? row_of(c) : *c;
        if (flxi_is_cut(&inputs[i]))
            list[count++] = (flx_sharding){flxi_value_at(g, g->leaves.at[i])->name, "cut"};
    }
    FLXI_TRY(flxi_open_composites(g, list, count, open, p->err));
    *out = (flxi_partition){.from = *open, .arena = p->arena, .num_axes = p->num_axes, .err = p->err};
    memcpy(out->axes, p->axes, sizeof out->axes);
    flxi_cuts *given = flxi_new(p->arena, flxi_cuts, (*open)->value_count + 1);
    for (uint32_t i = 0; given && i < (*open)->leaves.n; i++)
        given[(*open)->leaves.at[i]] = inputs[i];
    out->given = given;
    return given ? FLX_OK : flxi_oom(p->err, "a partition");
}

/* How the outputs of a body are cut, and how many of its nodes would have to gather. */
static flx_code place_body(const flxi_partition *p, const flxi_body *b, const flxi_cuts *operands, flxi_cuts *outputs,
                           int64_t *gathered)
{
    flxi_partition q;
    flx_graph *open = NULL;
    flx_code code = open_body(p, b, operands, &open, &q);
    if (code == FLX_OK)
        code = flxi_place_all(&q);
    for (size_t i = 0; code == FLX_OK && i < open->outputs.n; i++)
        outputs[i] = q.placed[open->outputs.at[i].val].cuts;
    *gathered += code == FLX_OK ? q.report.gathered : 0;
    flx_graph_release(open);
    return code;
}

/* ---- Choosing ---- */

/* What the bodies see: branches do not see what chooses among them, and rows are whole. */
static void begin_operands(const flxi_partition *p, const flxi_node *n, const flxi_body *b, flxi_cuts *operands)
{
    for (uint32_t i = 0; i < n->nin; i++) {
        operands[i] = i < b->first ? flxi_no_cuts() : p->placed[n->in[i]].cuts;
        if (i >= b->first && is_row(b, i - b->first))
            operands[i].at[0] = WHOLE;
    }
}

/* Carries that a round cuts are cut before it. Whether there were any. */
static bool cut_carries(const flxi_partition *p, const flxi_node *n, const flxi_body *b, const flxi_cuts *outputs,
                        flxi_cuts *operands)
{
    bool is_any = false;
    for (uint32_t i = 0; i < b->carries; i++)
        is_any |= flxi_add_cuts(&operands[b->first + i], &outputs[i], flxi_type_at(p->from, n->in[b->first + i])->rank);
    return is_any;
}

/* Results have one axis more where they are the values of all rounds. */
static void name_results(const flxi_partition *p, const flxi_node *n, const flxi_body *b, const flxi_cuts *outputs,
                         flxi_body_cuts *out)
{
    for (uint32_t k = 0; k < n->nout; k++) {
        bool is_stack =
            flxi_type_at(p->from, n->first + k)->rank > flxi_type_at(b->graph, b->graph->outputs.at[k].val)->rank;
        flxi_cuts c = k < b->carries ? out->operands[b->first + k] : outputs[k];
        out->results[k] = is_stack ? rows_of(&c) : c;
    }
}

/* Branches may cut their results differently: the first cuts prevail. */
static flx_code place_all(const flxi_partition *p, const flxi_node *n, const body_list *list, const flxi_cuts *operands,
                          flxi_cuts *outputs, int64_t *gathered)
{
    flxi_cuts *own = flxi_new(p->arena, flxi_cuts, n->nout + 1);
    *gathered = 0;
    if (!own)
        return flxi_oom(p->err, "a partition");
    for (uint32_t k = 0; k < n->nout; k++)
        outputs[k] = flxi_no_cuts();
    for (uint32_t i = 0; i < list->n; i++) {
        FLXI_TRY(place_body(p, &list->at[i], operands, own, gathered));
        for (uint32_t k = 0; k < n->nout; k++)
            flxi_add_cuts(&outputs[k], &own[k], FLX_MAX_RANK);
    }
    return FLX_OK;
}

static flx_code choose(const flxi_partition *p, const flxi_node *n, const body_list *list, flxi_body_cuts *out)
{
    flxi_cuts *outputs = flxi_new(p->arena, flxi_cuts, n->nout + 1);
    int64_t gathered;
    if (!outputs)
        return flxi_oom(p->err, "a partition");
    begin_operands(p, n, &list->at[0], out->operands);
    do { /* each time a carry has more cuts */
        FLXI_TRY(place_all(p, n, list, out->operands, outputs, &gathered));
    } while (!gathered && list->is_loop && cut_carries(p, n, &list->at[0], outputs, out->operands));
    for (uint32_t i = 0; !gathered && i < n->nin; i++)
        out->is_cut |= flxi_is_cut(&out->operands[i]);
    if (out->is_cut)
        name_results(p, n, &list->at[0], outputs, out);
    return FLX_OK;
}

flx_code flxi_choose_body_cuts(flxi_partition *p, const flxi_node *n, flxi_body_cuts *out)
{
    body_list list;
    *out = (flxi_body_cuts){.operands = flxi_new(p->arena, flxi_cuts, n->nin + 1),
                            .results = flxi_new(p->arena, flxi_cuts, n->nout + 1)};
    if (!out->operands || !out->results)
        return flxi_oom(p->err, "a partition");
    for (uint32_t k = 0; k < n->nout; k++)
        out->results[k] = flxi_no_cuts();
    if (!flxi_reads_cut(p, n) || !list_bodies(p, n, &list))
        return FLX_OK;
    return choose(p, n, &list, out);
}

/* ---- Bodies for parts ---- */

typedef struct {
    flxi_partition *p;
    const flxi_node *n;
    const body_list *list;
    flxi_body_cuts *cuts;
} cutting;

static flx_code cut_body(cutting *c, const flxi_body *b, bool is_test, flx_graph **out)
{
    flxi_partition q = {0};
    flx_graph *open = NULL;
    flxi_cuts *outputs = flxi_new(c->p->arena, flxi_cuts, b->graph->outputs.n + 1);
    if (!outputs)
        return flxi_oom(c->p->err, "a partition");
    for (uint32_t k = 0; k < b->graph->outputs.n; k++) {
        int rank = flxi_type_at(b->graph, b->graph->outputs.at[k].val)->rank;
        bool is_stack = !is_test && flxi_type_at(c->p->from, c->n->first + k)->rank > rank;
        outputs[k] = is_test ? flxi_no_cuts() : is_stack ? row_of(&c->cuts->results[k]) : c->cuts->results[k];
    }
    flx_code code = open_body(c->p, b, c->cuts->operands, &open, &q);
    q.given_output = outputs;
    if (code == FLX_OK)
        code = flxi_partition_open(&q, out);
    flx_graph_release(open);
    c->p->report.cut += q.report.cut;
    c->p->report.whole += q.report.whole;
    c->p->report.gathered += q.report.gathered;
    c->p->report.exchanges += q.report.exchanges;
    c->p->report.bytes += q.report.bytes;
    return code;
}

/* A graph that is several bodies is cut as the first of them: their operands and results are the same. */
static flx_graph *other_body(void *user, const flx_graph *body, flx_error *err)
{
    cutting *c = user;
    const flxi_body *b = c->list->has_test && c->list->test.graph == body ? &c->list->test : NULL;
    bool is_test = b != NULL;
    (void)err;
    for (uint32_t i = 0; !b && i < c->list->n; i++)
        b = c->list->at[i].graph == body ? &c->list->at[i] : NULL;
    flx_graph **made = &c->cuts->made[c->cuts->num_made];
    if (!b || cut_body(c, b, is_test, made) != FLX_OK)
        return NULL;
    c->cuts->num_made++;
    return *made;
}

flx_code flxi_cut_bodies(flxi_partition *p, const flxi_node *n, flxi_body_cuts *cuts, void **attrs)
{
    body_list list;
    list_bodies(p, n, &list);
    cutting c = {.p = p, .n = n, .list = &list, .cuts = cuts};
    const flxi_attr_map map = {.body = other_body, .user = &c};
    cuts->made = flxi_new(p->arena, flx_graph *, list.n + 1);
    return cuts->made ? flxi_attrs_clone(p->to, &flxi_ops[n->op], n->attrs, &map, attrs, p->err)
                      : flxi_oom(p->err, "a partition");
}

void flxi_body_cuts_free(flxi_body_cuts *cuts)
{
    for (uint32_t i = 0; i < cuts->num_made; i++)
        flx_graph_release(cuts->made[i]);
}
