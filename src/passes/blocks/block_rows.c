/* SPDX-License-Identifier: Apache-2.0 */
/* block_rows.c: products whose result is far larger than their operands, as the scores of attention are, are never in
   memory as a whole. The nodes between such a product and those that make something small of it again (other products,
   sums) are computed for one block of rows after the other, in a loop (a scan). The blocks stay in the cache, less
   memory is needed, and loops whose steps are independent run on several threads.

   The pass knows no attention. It looks for a product with a large result, follows the large values through all nodes
   that use them, and finds an axis along which all of these treat positions independently (block_axes.c). Masks,
   biases, soft caps, backward passes and second derivatives are only more nodes.

   Every node is one of these:
     inner    its result is large, or is small but computed from large values by cheap ops: the maximum of a row;
     exit     a product that makes something small from large values;
     outside  everything else, also values that a loop computes again because that takes less than reading them.
   Loops compute exits, and inner values that nodes outside read. What reads the result of a loop is in a later stage;
   exits of one stage that use common values are in one loop. A loop of a later stage computes again what it needs of
   an earlier one: the backward pass its weights, as the alternative is to keep them in memory as a whole.

   The bodies of the loops go through the passes in turn: where one block is one head, the body is a loop over rows. */
#include "passes/blocks/block_rows.h"

#include "graph/op/attr_access.h"
#include "ops/opcode.h"

const flxi_block_limits flxi_usual_blocks = {.least_result = 1 << 20,
                                             .least_growth = 2,
                                             .most_terms = 256,
                                             .wanted_block = 2 << 20,
                                             .most_block = 8 << 20,
                                             .least_whole = 3 << 20,
                                             .least_rows = 32,
                                             .least_shared = 1 << 14,
                                             .part_rows = 256,
                                             .part_columns = 64,
                                             .most_parts = 8};

/* An op generates its result if its operands have this many times fewer elements. */
static const int64_t generated_growth = 8;

typedef enum { NODE_OUTSIDE, NODE_INNER, NODE_EXIT } node_kind;

typedef struct {
    const flx_graph *g;
    flxi_arena arena;
    flx_error *err;
    const flxi_block_limits *limits;
    int64_t size;        /* elements of the products that are looked for */
    uint8_t *kind;       /* by node */
    bool *is_generated;  /* by node */
    bool *is_seed;       /* by node */
    bool *is_large;      /* by value */
    bool *escapes;       /* by value: a node outside reads it, or it is an output */
    bool *is_kept;       /* by node: a set that cannot be cut has it */
    uint32_t *stage;     /* by node */
    uint32_t *parent;    /* by node: towards the root of its set */
    uint32_t *position;  /* by node: see flxi_block_set */
    int *axis, *column;  /* by value */
    uint32_t *loop_of;   /* by value: the loop that computes it, + 1 */
    uint32_t num_stages; /* that have a product that is looked for */
    FLXI_VEC(flxi_block_loop *) loops;
} finder;

static uint32_t producer(const flx_graph *g, uint32_t value)
{
    return flxi_value_at(g, value)->node;
}

/* ---- Products to look for ---- */

static double bytes_of(const flx_graph *g, uint32_t value)
{
    const flx_type *t = flxi_type_at(g, value);
    return (double)flxi_count_at(g, value) * (double)flx_dtype_size((flx_dtype)t->dtype);
}

static int64_t terms_of(const flx_graph *g, const flxi_node *n)
{
    const flx_type *l = flxi_type_at(g, n->in[0]);
    if (n->op == OP_matmul)
        return l->dims[l->rank - 1];
    const flx_ints *axes = flxi_node_ints(n, "lc");
    int64_t terms = 1;
    for (size_t i = 0; i < axes->n; i++)
        terms *= l->dims[axes->v[i]];
    return terms;
}

static bool is_seed(const flx_graph *g, const flxi_node *n, const flxi_block_limits *w)
{
    if (!flxi_is_contraction(n) || !flxi_block_knows(g, n))
        return false;
    double result = bytes_of(g, n->first);
    return result >= w->least_result && result >= w->least_growth * (bytes_of(g, n->in[0]) + bytes_of(g, n->in[1])) &&
           terms_of(g, n) <= w->most_terms;
}

/* The largest number of elements of such a product below a limit; 0: there is none. */
static int64_t next_size(const flx_graph *g, const flxi_block_limits *w, int64_t limit)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        int64_t count = is_seed(g, n, w) ? flxi_count_at(g, n->first) : 0;
        most = count < limit && count > most ? count : most;
    }
    return most;
}

/* ---- Kinds ---- */

static bool is_fold(const flxi_node *n)
{
    return flxi_ops[n->op].op_class == CLASS_REDUCE;
}

/* Masks that are made of positions, broadcasts, and what is computed from these alone. */
static bool is_generated(const finder *f, const flxi_node *n)
{
    int64_t count = flxi_count_at(f->g, n->first);
    if (flxi_is_contraction(n) || is_fold(n) || count < generated_growth)
        return false;
    for (uint32_t k = 0; k < n->nin; k++) {
        uint32_t p = producer(f->g, n->in[k]);
        if (f->kind[p] != NODE_OUTSIDE ||
            (!f->is_generated[p] && flxi_count_at(f->g, n->in[k]) > count / generated_growth))
            return false;
    }
    return true;
}

/* Results of products that are looked for, and what is computed from them. Other values of that size, such as the
   activations of a layer, are computed as a whole anyway. */
static bool is_large(const finder *f, uint32_t i)
{
    const flxi_node *n = flxi_node_at(f->g, i);
    bool is_ours = is_seed(f->g, n, f->limits);
    for (uint32_t k = 0; k < n->nin; k++)
        is_ours |= f->kind[producer(f->g, n->in[k])] == NODE_INNER;
    return is_ours && flxi_count_at(f->g, n->first) >= f->size / 2;
}

static node_kind kind_of(const finder *f, const flxi_node *n)
{
    bool is_inner = f->is_large[n->first], reads_large = false;
    for (uint32_t k = 0; k < n->nin; k++) {
        bool from_inner = f->kind[producer(f->g, n->in[k])] == NODE_INNER;
        is_inner |= from_inner && !flxi_is_contraction(n);
        reads_large |= from_inner && f->is_large[n->in[k]];
    }
    if (is_inner)
        return NODE_INNER;
    return flxi_is_contraction(n) && reads_large ? NODE_EXIT : NODE_OUTSIDE;
}

static uint32_t stage_of(const finder *f, uint32_t i)
{
    const flxi_node *n = flxi_node_at(f->g, i);
    uint32_t stage = 0;
    for (uint32_t k = 0; k < n->nin; k++) {
        uint32_t p = producer(f->g, n->in[k]);
        bool is_same_loop = f->kind[p] == NODE_INNER && f->kind[i] != NODE_OUTSIDE;
        uint32_t least = f->stage[p] + (f->kind[p] != NODE_OUTSIDE && !is_same_loop);
        stage = least > stage ? least : stage;
    }
    return stage;
}

static void sort_nodes(finder *f)
{
    const flx_graph *g = f->g;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        if (flxi_block_knows(g, n)) {
            f->is_generated[i] = is_generated(f, n);
            f->is_large[n->first] = is_large(f, i);
            f->kind[i] = (uint8_t)kind_of(f, n);
            f->is_seed[i] = is_seed(g, n, f->limits) && flxi_count_at(g, n->first) == f->size;
        }
        f->stage[i] = stage_of(f, i);
        for (uint32_t k = 0; k < n->nin; k++)
            f->escapes[n->in[k]] |= f->kind[i] == NODE_OUTSIDE;
    }
    for (size_t k = 0; k < g->outputs.n; k++)
        f->escapes[g->outputs.at[k].val] = true;
    for (uint32_t i = 0; i < g->node_count; i++)
        if (f->kind[i] != NODE_OUTSIDE && f->stage[i] >= f->num_stages)
            f->num_stages = f->stage[i] + 1;
}

/* ---- Sets ---- */

static bool is_root(const finder *f, uint32_t i)
{
    return f->kind[i] == NODE_EXIT || (f->kind[i] == NODE_INNER && f->escapes[flxi_node_at(f->g, i)->first]);
}

static uint32_t set_of(finder *f, uint32_t i)
{
    while (f->parent[i] != i)
        i = f->parent[i] = f->parent[f->parent[i]];
    return i;
}

/* All that the roots of a stage need: parent[i] is the node itself or another of its set, UINT32_MAX for others. */
static void collect(finder *f, uint32_t stage)
{
    for (uint32_t i = 0; i < f->g->node_count; i++)
        f->parent[i] = is_root(f, i) && f->stage[i] == stage ? i : UINT32_MAX;
    for (uint32_t i = f->g->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(f->g, i);
        for (uint32_t k = 0; f->parent[i] != UINT32_MAX && k < n->nin; k++) {
            uint32_t p = producer(f->g, n->in[k]);
            if (f->kind[p] != NODE_INNER && !f->is_generated[p])
                continue;
            if (f->parent[p] == UINT32_MAX)
                f->parent[p] = p;
            if (!f->is_generated[p]) /* a mask alone is no reason to be in one loop */
                f->parent[set_of(f, p)] = set_of(f, i);
        }
    }
}

/* A generated node belongs to every set that reads it. */
static bool take_nodes(finder *f, uint32_t root, flxi_block_set *s, uint32_t *seed)
{
    const flx_graph *g = f->g;
    bool *is_taken = flxi_new(&f->arena, bool, g->node_count);
    s->nodes = flxi_new(&f->arena, uint32_t, g->node_count);
    s->results = flxi_new(&f->arena, uint32_t, g->node_count);
    *seed = 0;
    if (!is_taken || !s->nodes || !s->results)
        return false;
    for (uint32_t i = g->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(g, i);
        is_taken[i] |= f->parent[i] != UINT32_MAX && f->kind[i] != NODE_OUTSIDE && set_of(f, i) == root;
        for (uint32_t k = 0; is_taken[i] && k < n->nin; k++)
            is_taken[producer(g, n->in[k])] |= f->is_generated[producer(g, n->in[k])];
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (is_taken[i])
            s->nodes[s->num_nodes++] = i;
        if (is_taken[i] && f->is_seed[i] && !*seed)
            *seed = flxi_node_at(g, i)->first;
    }
    return true;
}

/* Large results are kept as a whole anyway: then there must be much more that is not. */
static bool keeps_too_much(const finder *f, const flxi_block_set *s)
{
    int large = 0, kept = 0;
    for (uint32_t i = 0; i < s->num_nodes; i++) {
        const flxi_node *n = flxi_node_at(f->g, s->nodes[i]);
        bool is_product = flxi_is_contraction(n) && f->is_large[n->first];
        large += is_product;
        kept += f->is_large[n->first] && f->escapes[n->first] && f->kind[s->nodes[i]] == NODE_INNER;
        if (is_product && f->is_kept[s->nodes[i]])
            return true;
    }
    return kept >= large;
}

static void list_results(const finder *f, uint32_t stage, flxi_block_set *s)
{
    for (uint32_t i = 0; i < s->num_nodes; i++)
        if (is_root(f, s->nodes[i]) && f->stage[s->nodes[i]] == stage)
            s->results[s->num_results++] = flxi_node_at(f->g, s->nodes[i])->first;
}

/* In parts where that pays, else, or where a part cannot be made, in equal blocks. */
static flx_code new_loop(flxi_block_set *s, uint32_t seed, flxi_block_loop **out)
{
    FLXI_TRY(flxi_block_find_parts(s, seed));
    FLXI_TRY(flxi_block_loop_new(s, out));
    if (*out || !s->num_parts)
        return FLX_OK;
    s->num_parts = 0;
    return flxi_block_loop_new(s, out);
}

static flx_code make_loop(finder *f, uint32_t stage, flxi_block_set *s, uint32_t seed)
{
    flxi_block_loop *l = NULL;
    for (uint32_t i = 0; i < s->num_nodes; i++)
        f->position[s->nodes[i]] = i + 1;
    bool can = !keeps_too_much(f, s) && flxi_block_choose(s, seed);
    list_results(f, stage, s);
    flx_code code = can && s->num_results ? new_loop(s, seed, &l) : FLX_OK;
    for (uint32_t i = 0; i < s->num_nodes; i++) {
        f->position[s->nodes[i]] = 0;
        f->is_kept[s->nodes[i]] |= !l;
    }
    if (code != FLX_OK || !l)
        return code;
    if (!flxi_push(&f->g->ctx->mem, &f->loops, l)) {
        flxi_block_loop_free(l);
        return flxi_oom(f->err, "a pass");
    }
    for (uint32_t i = 0; i < s->num_results; i++)
        f->loop_of[s->results[i]] = (uint32_t)f->loops.n;
    return FLX_OK;
}

static flx_code cut_stage(finder *f, uint32_t stage)
{
    bool *is_done = flxi_new(&f->arena, bool, f->g->node_count);
    if (!is_done)
        return flxi_oom(f->err, "a pass");
    collect(f, stage);
    for (uint32_t i = 0; i < f->g->node_count; i++) {
        if (!f->is_seed[i] || f->parent[i] == UINT32_MAX || is_done[set_of(f, i)] ||
            f->escapes[flxi_node_at(f->g, i)->first]) /* such as the gradient of a weight */
            continue;
        flxi_mark mark = flxi_arena_mark(&f->arena);
        flxi_block_set s = {.g = f->g,
                            .limits = f->limits,
                            .position = f->position,
                            .is_large = f->is_large,
                            .is_generated = f->is_generated,
                            .axis = f->axis,
                            .column = f->column,
                            .arena = &f->arena,
                            .err = f->err};
        uint32_t seed;
        is_done[set_of(f, i)] = true;
        if (!take_nodes(f, set_of(f, i), &s, &seed))
            return flxi_oom(f->err, "a pass");
        FLXI_TRY(make_loop(f, stage, &s, seed));
        flxi_arena_rewind(&f->arena, mark);
    }
    return FLX_OK;
}

static flx_code start(finder *f)
{
    uint32_t nodes = f->g->node_count, values = f->g->value_count + 1;
    f->kind = flxi_new(&f->arena, uint8_t, nodes);
    f->is_generated = flxi_new(&f->arena, bool, nodes);
    f->is_seed = flxi_new(&f->arena, bool, nodes);
    f->is_kept = flxi_new(&f->arena, bool, nodes);
    f->stage = flxi_new(&f->arena, uint32_t, nodes);
    f->parent = flxi_new(&f->arena, uint32_t, nodes);
    f->position = flxi_new(&f->arena, uint32_t, nodes);
    f->is_large = flxi_new(&f->arena, bool, values);
    f->escapes = flxi_new(&f->arena, bool, values);
    f->axis = flxi_new(&f->arena, int, values);
    f->column = flxi_new(&f->arena, int, values);
    f->loop_of = flxi_new(&f->arena, uint32_t, values);
    bool ok = f->kind && f->is_generated && f->is_seed && f->is_kept && f->stage && f->parent && f->position &&
              f->is_large && f->escapes && f->axis && f->column && f->loop_of;
    return ok ? FLX_OK : flxi_oom(f->err, "a pass");
}

/* Later stages first: those that stay as they are need values of earlier ones as a whole. */
static flx_code find_loops(finder *f)
{
    FLXI_TRY(start(f));
    sort_nodes(f);
    for (uint32_t stage = f->num_stages; stage-- > 0;)
        FLXI_TRY(cut_stage(f, stage));
    return FLX_OK;
}

/* ---- The new graph ---- */

static bool is_ready(const flxi_copy *c, const flxi_node *n)
{
    for (uint32_t k = 0; k < n->nin; k++)
        if (!c->remap.id[n->in[k]])
            return false;
    return true;
}

/* A loop may need values that come after the first of the nodes it replaces, and what reads its results then waits:
   nodes are copied in their order, again and again until none is left. Stages bound the number of rounds. */
static flx_code copy_round(finder *f, flxi_copy *c, bool *is_copied, bool *is_appended, uint32_t *left)
{
    *left = 0;
    for (uint32_t i = 0; i < f->g->node_count; i++) {
        const flxi_node *n = flxi_node_at(f->g, i);
        uint32_t loop = n->nout == 1 ? f->loop_of[n->first] : 0;
        if (is_copied[i])
            continue;
        if (loop && !is_appended[loop - 1] && flxi_block_loop_is_ready(f->loops.at[loop - 1], c)) {
            FLXI_TRY(flxi_block_loop_append(f->loops.at[loop - 1], c));
            is_appended[loop - 1] = true;
        } else if (!loop && is_ready(c, n)) {
            FLXI_TRY(flxi_copy_node(c, i));
            is_copied[i] = true;
        }
        is_copied[i] |= loop && is_appended[loop - 1];
        *left += !is_copied[i];
    }
    return FLX_OK;
}

static flx_code copy_with_loops(finder *f, flxi_copy *c)
{
    bool *is_copied = flxi_new(&f->arena, bool, f->g->node_count);
    bool *is_appended = flxi_new(&f->arena, bool, f->loops.n + 1);
    uint32_t left = f->g->node_count, before;
    if (!is_copied || !is_appended)
        return flxi_oom(f->err, "a pass");
    do {
        before = left;
        FLXI_TRY(copy_round(f, c, is_copied, is_appended, &left));
    } while (left && left < before);
    return left ? flxi_fail(f->err, FLX_E_INTERNAL, "the loops over blocks depend on each other") : FLX_OK;
}

/* What loops replace is swept. */
static flx_code rewrite(finder *f, flx_graph **out, flxi_remap *remap)
{
    flxi_copy c;
    flx_graph *cut;
    flxi_remap swept = {0};
    flx_code code = flxi_copy_begin(&c, f->g, f->err);
    if (code == FLX_OK)
        code = copy_with_loops(f, &c);
    FLXI_TRY(flxi_copy_end(&c, code, &cut, remap));
    code = flxi_pass_dce(cut, out, &swept, f->err);
    flx_graph_release(cut);
    if (code == FLX_OK)
        flxi_remap_compose(remap, &swept);
    else
        flxi_remap_free(remap);
    flxi_remap_free(&swept);
    return code;
}

/* NULL in *out: there is nothing to cut. */
static flx_code cut_size(const flx_graph *in, const flxi_block_limits *limits, int64_t size, flx_graph **out,
                         flxi_remap *remap, flx_error *err)
{
    finder f = {.g = in, .limits = limits, .size = size, .err = err};
    *out = NULL;
    flxi_arena_init(&f.arena, &in->ctx->mem);
    flx_code code = find_loops(&f);
    if (code == FLX_OK && f.loops.n)
        code = rewrite(&f, out, remap);
    for (size_t i = 0; i < f.loops.n; i++)
        flxi_block_loop_free(f.loops.at[i]);
    flxi_vec_free(&in->ctx->mem, &f.loops);
    flxi_arena_free(&f.arena);
    return code;
}

/* One size after the other, the largest first: what is large is a matter of the product that is looked for. */
flx_code flxi_block_rows(const flx_graph *in, const flxi_block_limits *limits, flx_graph **out, flxi_remap *remap,
                         flx_error *err)
{
    flx_graph *now;
    flxi_remap total;
    FLXI_TRY(flxi_pass_dce(in, &now, &total, err));
    for (int64_t size = next_size(now, limits, INT64_MAX); size; size = next_size(now, limits, size)) {
        flx_graph *next;
        flxi_remap step = {0};
        flx_code code = cut_size(now, limits, size, &next, &step, err);
        if (code != FLX_OK) {
            flx_graph_release(now);
            flxi_remap_free(&total);
            return code;
        }
        if (!next)
            continue;
        flxi_remap_compose(&total, &step);
        flxi_remap_free(&step);
        flx_graph_release(now);
        now = next;
    }
    *out = now;
    if (remap)
        *remap = total;
    else
        flxi_remap_free(&total);
    return FLX_OK;
}

flx_code flxi_pass_block_rows(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    return flxi_block_rows(in, &flxi_usual_blocks, out, remap, err);
}
