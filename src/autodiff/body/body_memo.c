/* SPDX-License-Identifier: Apache-2.0 */
/* body_memo.c: see body_memo.h. Bodies are compared by content, because rules build the same body again for each
   node. */
#include "autodiff/body/body_memo.h"

static uint64_t hash_flags(uint64_t h, const bool *flags, size_t n)
{
    for (size_t i = 0; flags && i < n; i++)
        h = flxi_hash_u64(h, flags[i]);
    return h;
}

static uint64_t hash_of(const flxi_question *q)
{
    uint64_t h = flxi_hash_u64(flx_graph_hash(q->body), (uint64_t)q->asked << 32 | q->options);
    h = flxi_hash_u64(h, (uint64_t)q->size);
    return hash_flags(hash_flags(h, q->inputs, q->body->leaves.n), q->outputs, q->body->outputs.n);
}

static bool same_flags(const bool *a, const bool *b, size_t n)
{
    return a && b ? memcmp(a, b, n * sizeof *a) == 0 : a == b;
}

static bool is_same(const flxi_question *a, const flxi_question *b)
{
    return a->asked == b->asked && a->options == b->options && a->size == b->size &&
           flxi_graphs_alike(a->body, b->body) && same_flags(a->inputs, b->inputs, a->body->leaves.n) &&
           same_flags(a->outputs, b->outputs, a->body->outputs.n);
}

const flxi_answer *flxi_memo_find(const flxi_body_memo *m, const flxi_question *q)
{
    uint32_t i;
    if (!m || !m->mem)
        return NULL;
    for (flxi_probe p = flxi_index_first(&m->index, hash_of(q)); flxi_index_next(&m->index, &p, &i);)
        if (is_same(&m->answers.at[i].question, q))
            return &m->answers.at[i];
    return NULL;
}

/* The arena's own copy of flags; *ok becomes false when memory is exhausted. */
static const bool *keep_flags(flxi_arena *arena, const bool *flags, size_t n, bool *ok)
{
    const bool *kept = flags ? flxi_dup(arena, bool, flags, n) : NULL;
    *ok &= !flags || kept;
    return kept;
}

bool flxi_memo_keep(flxi_body_memo *m, const flxi_allocator *mem, const flxi_question *q, const flxi_answer *a)
{
    bool ok = true;
    size_t leaves = q->body->leaves.n, outputs = q->body->outputs.n;
    flxi_answer kept = *a;
    if (!m->mem) {
        m->mem = mem;
        flxi_arena_init(&m->arena, mem);
    }
    kept.question = *q;
    kept.question.inputs = keep_flags(&m->arena, q->inputs, leaves, &ok);
    kept.question.outputs = keep_flags(&m->arena, q->outputs, outputs, &ok);
    kept.out = keep_flags(&m->arena, a->out, outputs, &ok);
    kept.status = a->status ? flxi_dup(&m->arena, uint8_t, a->status, leaves) : NULL;
    kept.flags = a->flags && a->made ? flxi_dup(&m->arena, flxi_flag, a->flags, a->made->outputs.n) : NULL;
    ok &= (!a->status || kept.status) && (!a->flags || !a->made || kept.flags);
    if (!ok || !flxi_reserve(mem, &m->answers) || !flxi_index_add(mem, &m->index, hash_of(q), (uint32_t)m->answers.n))
        return false;
    flx_graph_retain((flx_graph *)(uintptr_t)q->body);
    flx_graph_retain(a->made);
    flx_graph_retain(a->second);
    m->answers.at[m->answers.n++] = kept;
    return true;
}

void flxi_memo_free(flxi_body_memo *m)
{
    if (!m->mem)
        return;
    for (size_t i = 0; i < m->answers.n; i++) {
        flx_graph_release((flx_graph *)(uintptr_t)m->answers.at[i].question.body);
        flx_graph_release(m->answers.at[i].made);
        flx_graph_release(m->answers.at[i].second);
    }
    flxi_vec_free(m->mem, &m->answers);
    flxi_index_free(m->mem, &m->index);
    flxi_arena_free(&m->arena);
    *m = (flxi_body_memo){0};
}
