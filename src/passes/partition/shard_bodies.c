/* SPDX-License-Identifier: Apache-2.0 */
/* shard_bodies.c: loops, branches and calls on parts. Their bodies are graphs that are cut in turn: inputs as the
   operands of the node are, outputs as its results. What a round of a loop hands to the next one must be cut alike
   before and after it: a carry that begins whole, such as zeros, and is cut by the first round, is cut from the
   beginning. Exchanges within a body are made in every round; all processes make the same rounds, since what a loop
   tests and what a branch depends on are whole values. */
#include "graph/op/work.h"
#include "ops/rule/shard.h"
#include "passes/partition/cut_memo.h"

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

/* By input of the body. */
static flxi_cuts *input_cuts(const flxi_partition *p, const flxi_body *b, const flxi_cuts *operands)
{
    flxi_cuts *inputs = flxi_new(p->arena, flxi_cuts, b->graph->leaves.n + 1);
    for (uint32_t i = 0; inputs && i < b->graph->leaves.n; i++) {
        const flxi_cuts *c = &operands[b->first + i];
        inputs[i] = is_row(b, i) ? row_of(c) : *c;
    }
    return inputs;
}

/* The body as a partition of its own, composites taken apart. The graph is to be released. */
static flx_code open_body(const flxi_partition *p, const flxi_cut_question *question, flx_graph **open,
                          flxi_partition *out)
{
    const flx_graph *g = question->body;
    flx_sharding *list = flxi_new(p->arena, flx_sharding, g->leaves.n + 1);
    size_t count = 0;
    if (!list)
        return flxi_oom(p->err, "a partition");
    for (uint32_t i = 0; i < g->leaves.n; i++)
        if (flxi_is_cut(&question->inputs[i]))
            list[count++] = (flx_sharding){flxi_value_at(g, g->leaves.at[i])->name, "cut"};
    FLXI_TRY(flxi_open_composites(g, list, count, open, p->err));
    *out = (flxi_partition){.from = *open, .arena = p->arena, .memo = p->memo, .num_axes = p->num_axes, .err = p->err};
    memcpy(out->axes, p->axes, sizeof out->axes);
    flxi_cuts *given = flxi_new(p->arena, flxi_cuts, (*open)->value_count + 1);
    for (uint32_t i = 0; given && i < (*open)->leaves.n; i++)
        given[(*open)->leaves.at[i]] = question->inputs[i];
    out->given = given;
    out->given_output = question->wanted;
    return given ? FLX_OK : flxi_oom(p->err, "a partition");
}

/* How the outputs of a body are cut, and how many of its nodes would have to gather. */
static flx_code place_anew(const flxi_partition *p, const flxi_cut_question *question, flxi_cuts *outputs)
{
    flxi_partition q = {0};
    flx_graph *open = NULL;
    flx_code code = open_body(p, question, &open, &q);
    if (code == FLX_OK)
        code = flxi_place_all(&q);
    for (size_t i = 0; code == FLX_OK && i < open->outputs.n; i++)
        outputs[i] = q.placed[open->outputs.at[i].val].cuts;
    flx_graph_release(open);
    const flxi_cut_answer a = {.question = *question, .outputs = outputs, .report.gathered = q.report.gathered};
    return code == FLX_OK ? flxi_cut_memo_keep(p->memo, &a, p->err) : code;
}

static flx_code place_body(const flxi_partition *p, const flxi_body *b, const flxi_cuts *operands, flxi_cuts *outputs,
                           int64_t *gathered)
{
    const flxi_cut_question question = {.body = b->graph, .inputs = input_cuts(p, b, operands)};
    if (!question.inputs)
        return flxi_oom(p->err, "a partition");
    const flxi_cut_answer *known = flxi_cut_memo_find(p->memo, &question);
    if (!known) {
        FLXI_TRY(place_anew(p, &question, outputs));
        known = flxi_cut_memo_find(p->memo, &question);
    }
    memcpy(outputs, known->outputs, b->graph->outputs.n * sizeof *outputs);
    *gathered = flxi_plus(*gathered, known->report.gathered);
    return FLX_OK;
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
                            .results = flxi_new(p->arena, flxi_cuts, n->nout + 1),
                            .terms = flxi_new(p->arena, flxi_along, n->nin + 1),
                            .sums = flxi_new(p->arena, flxi_along, n->nout + 1)};
    if (!out->operands || !out->results || !out->terms || !out->sums)
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

/* How the outputs of the body must be cut: what a loop tests is whole. */
static flxi_cuts *output_cuts(const cutting *c, const flxi_body *b, bool is_test)
{
    flxi_cuts *outputs = flxi_new(c->p->arena, flxi_cuts, b->graph->outputs.n + 1);
    for (uint32_t k = 0; outputs && k < b->graph->outputs.n; k++) {
        int rank = flxi_type_at(b->graph, b->graph->outputs.at[k].val)->rank;
        bool is_stack = !is_test && flxi_type_at(c->p->from, c->n->first + k)->rank > rank;
        outputs[k] = is_test ? flxi_no_cuts() : is_stack ? row_of(&c->cuts->results[k]) : c->cuts->results[k];
    }
    return outputs;
}

/* The body of a loop collects sums in some of its carries. */
static flx_code cut_open(flxi_partition *q, flxi_cut_answer *a)
{
    uint32_t carries = a->question.carries;
    flxi_along *terms = flxi_new(q->arena, flxi_along, carries + 1);
    if (!terms)
        return flxi_oom(q->err, "a partition");
    if (carries)
        FLXI_TRY(flxi_find_accumulators(q, carries, a->question.test));
    FLXI_TRY(flxi_partition_open(q, &a->made));
    for (uint32_t i = 0; i < carries; i++)
        terms[i] = q->placed[q->from->leaves.at[i]].terms;
    a->terms = terms;
    a->report = q->report;
    return FLX_OK;
}

static flx_code cut_anew(const flxi_partition *p, const flxi_cut_question *question)
{
    flxi_partition q = {0};
    flx_graph *open = NULL;
    flxi_cut_answer a = {.question = *question};
    flx_code code = open_body(p, question, &open, &q);
    if (code == FLX_OK)
        code = cut_open(&q, &a);
    flx_graph_release(open);
    if (code == FLX_OK)
        code = flxi_cut_memo_keep(p->memo, &a, p->err);
    flx_graph_release(a.made);
    return code;
}

/* Sums are collected by the rounds of a loop that has one body. */
static flxi_cut_question question_of(const cutting *c, const flxi_body *b, bool is_test)
{
    bool is_round = !is_test && c->list->is_loop && c->list->n == 1;
    return (flxi_cut_question){.body = b->graph,
                               .inputs = input_cuts(c->p, b, c->cuts->operands),
                               .wanted = output_cuts(c, b, is_test),
                               .carries = is_round ? b->carries : 0,
                               .test = is_round && c->list->has_test ? c->list->test.graph : NULL};
}

/* The body for parts, which the memo holds; NULL: it failed. */
static flx_graph *cut_body(cutting *c, const flxi_body *b, bool is_test)
{
    const flxi_cut_question question = question_of(c, b, is_test);
    if (!question.inputs || !question.wanted) {
        flxi_oom(c->p->err, "a partition");
        return NULL;
    }
    const flxi_cut_answer *known = flxi_cut_memo_find(c->p->memo, &question);
    if (!known && cut_anew(c->p, &question) == FLX_OK)
        known = flxi_cut_memo_find(c->p->memo, &question);
    if (!known)
        return NULL;
    flx_partition_report *sum = &c->p->report;
    sum->cut = flxi_plus(sum->cut, known->report.cut);
    sum->whole = flxi_plus(sum->whole, known->report.whole);
    sum->gathered = flxi_plus(sum->gathered, known->report.gathered);
    sum->exchanges = flxi_plus(sum->exchanges, known->report.exchanges);
    sum->bytes = flxi_plus(sum->bytes, known->report.bytes);
    for (uint32_t i = 0; i < question.carries; i++)
        c->cuts->terms[b->first + i] = c->cuts->sums[i] = known->terms[i];
    return known->made;
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
    return b ? cut_body(c, b, is_test) : NULL;
}

flx_code flxi_cut_bodies(flxi_partition *p, const flxi_node *n, flxi_body_cuts *cuts, void **attrs)
{
    body_list list;
    list_bodies(p, n, &list);
    cutting c = {.p = p, .n = n, .list = &list, .cuts = cuts};
    const flxi_attr_map map = {.body = other_body, .user = &c};
    return flxi_attrs_clone(p->to, &flxi_ops[n->op], n->attrs, &map, attrs, p->err);
}
