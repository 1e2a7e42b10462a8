/* SPDX-License-Identifier: Apache-2.0 */
/* body_memo.c: see body_memo.h. Bodies are compared by content, because rules build the same body again for each node
   that they are asked about. */
#include "autodiff/body_memo.h"

typedef struct {
    uint64_t hash; /* of the body */
    flx_dim size;
    uint32_t asked, options, has, unused;
} key_head;

/* Room for the key of a question, and its bytes there; NULL when memory is exhausted. */
static unsigned char *write_key(const flxi_allocator *mem, const flxi_question *q, size_t *size)
{
    size_t inputs = q->inputs ? q->body->leaves.n : 0, outputs = q->outputs ? q->body->outputs.n : 0;
    key_head head = {.asked = q->asked,
                     .hash = flx_graph_hash(q->body),
                     .options = q->options,
                     .has = (q->inputs ? 1u : 0u) | (q->outputs ? 2u : 0u),
                     .size = q->size};
    *size = sizeof head + inputs + outputs;
    unsigned char *key = flxi_alloc(mem, *size, 1);
    if (!key)
        return NULL;
    memcpy(key, &head, sizeof head);
    for (size_t i = 0; i < inputs; i++)
        key[sizeof head + i] = q->inputs[i];
    for (size_t i = 0; i < outputs; i++)
        key[sizeof head + inputs + i] = q->outputs[i];
    return key;
}

const flxi_answer *flxi_memo_find(const flxi_body_memo *m, const flxi_question *q)
{
    const flxi_answer *found = NULL;
    size_t size;
    uint32_t i;
    unsigned char *key = m && m->mem ? write_key(m->mem, q, &size) : NULL;
    if (!key)
        return NULL;
    uint64_t hash = flxi_hash_bytes(FLXI_HASH_SEED, key, size);
    for (flxi_probe p = flxi_index_first(&m->index, hash); !found && flxi_index_next(&m->index, &p, &i);)
        if (m->answers.at[i].key_size == size && memcmp(m->answers.at[i].key, key, size) == 0 &&
            flxi_graphs_alike(m->answers.at[i].body, q->body))
            found = &m->answers.at[i];
    flxi_free(m->mem, key, size, 1);
    return found;
}

bool flxi_memo_keep(flxi_body_memo *m, const flxi_allocator *mem, const flxi_question *q, const flxi_answer *a)
{
    if (!m->mem) {
        m->mem = mem;
        flxi_arena_init(&m->arena, mem);
    }
    flxi_answer kept = *a;
    unsigned char *key = write_key(mem, q, &kept.key_size);
    kept.key = key ? flxi_dup(&m->arena, unsigned char, key, kept.key_size) : NULL;
    kept.out = a->out ? flxi_dup(&m->arena, bool, a->out, q->body->outputs.n) : NULL;
    flxi_free(mem, key, key ? kept.key_size : 0, 1);
    if (!kept.key || (a->out && !kept.out) || !flxi_reserve(mem, &m->answers) ||
        !flxi_index_add(mem, &m->index, flxi_hash_bytes(FLXI_HASH_SEED, kept.key, kept.key_size),
                        (uint32_t)m->answers.n))
        return false;
    kept.body = flx_graph_retain((flx_graph *)(uintptr_t)q->body);
    m->answers.at[m->answers.n++] = kept;
    flx_graph_retain(a->made);
    flx_graph_retain(a->second);
    return true;
}

void flxi_memo_free(flxi_body_memo *m)
{
    if (!m->mem)
        return;
    for (size_t i = 0; i < m->answers.n; i++) {
        flx_graph_release(m->answers.at[i].body);
        flx_graph_release(m->answers.at[i].made);
        flx_graph_release(m->answers.at[i].second);
    }
    flxi_vec_free(m->mem, &m->answers);
    flxi_index_free(m->mem, &m->index);
    flxi_arena_free(&m->arena);
    *m = (flxi_body_memo){0};
}
