/* SPDX-License-Identifier: Apache-2.0 */
/* cut_memo.c: see cut_memo.h. Bodies are compared by content, because taking composites apart makes them again. */
#include "passes/partition/cut_memo.h"

static uint64_t hash_cuts(uint64_t h, const flxi_cuts *cuts, size_t n)
{
    return cuts ? flxi_hash_bytes(h, cuts, n * sizeof *cuts) : flxi_hash_u64(h, 0);
}

static uint64_t hash_of(const flxi_cut_question *q)
{
    uint64_t h = hash_cuts(flx_graph_hash(q->body), q->inputs, q->body->leaves.n);
    h = flxi_hash_u64(hash_cuts(h, q->wanted, q->body->outputs.n), q->carries);
    return q->test ? flxi_hash_u64(h, flx_graph_hash(q->test)) : h;
}

static bool same_cuts(const flxi_cuts *a, const flxi_cuts *b, size_t n)
{
    return a && b ? memcmp(a, b, n * sizeof *a) == 0 : a == b;
}

static bool is_same(const flxi_cut_question *a, const flxi_cut_question *b)
{
    return flxi_graphs_alike(a->body, b->body) && same_cuts(a->inputs, b->inputs, a->body->leaves.n) &&
           same_cuts(a->wanted, b->wanted, a->body->outputs.n) && a->carries == b->carries &&
           flxi_graphs_alike(a->test, b->test);
}

const flxi_cut_answer *flxi_cut_memo_find(const flxi_cut_memo *m, const flxi_cut_question *q)
{
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&m->index, hash_of(q)); flxi_index_next(&m->index, &p, &i);)
        if (is_same(&m->answers.at[i].question, q))
            return &m->answers.at[i];
    return NULL;
}

flx_code flxi_cut_memo_keep(flxi_cut_memo *m, const flxi_cut_answer *a, flx_error *err)
{
    const flxi_cut_question *q = &a->question;
    flxi_cut_answer kept = *a;
    kept.question.inputs = flxi_dup(m->arena, flxi_cuts, q->inputs, q->body->leaves.n + 1);
    kept.question.wanted = q->wanted ? flxi_dup(m->arena, flxi_cuts, q->wanted, q->body->outputs.n + 1) : NULL;
    kept.terms = a->terms ? flxi_dup(m->arena, flxi_along, a->terms, q->carries + 1) : NULL;
    kept.outputs = a->outputs ? flxi_dup(m->arena, flxi_cuts, a->outputs, q->body->outputs.n + 1) : NULL;
    if (!kept.question.inputs || (q->wanted && !kept.question.wanted) || (a->terms && !kept.terms) ||
        (a->outputs && !kept.outputs) || !flxi_reserve(m->mem, &m->answers) ||
        !flxi_index_add(m->mem, &m->index, hash_of(q), (uint32_t)m->answers.n))
        return flxi_oom(err, "a partition");
    flx_graph_retain((flx_graph *)(uintptr_t)q->body); /* only the counts change */
    flx_graph_retain((flx_graph *)(uintptr_t)q->test);
    flx_graph_retain(a->made);
    m->answers.at[m->answers.n++] = kept;
    return FLX_OK;
}

void flxi_cut_memo_free(flxi_cut_memo *m)
{
    for (size_t i = 0; i < m->answers.n; i++) {
        flx_graph_release((flx_graph *)(uintptr_t)m->answers.at[i].question.body);
        flx_graph_release((flx_graph *)(uintptr_t)m->answers.at[i].question.test);
        flx_graph_release(m->answers.at[i].made);
    }
    flxi_vec_free(m->mem, &m->answers);
    flxi_index_free(m->mem, &m->index);
}
