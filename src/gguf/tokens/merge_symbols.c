/* SPDX-License-Identifier: Apache-2.0 */
/* merge_symbols.c: see merge_symbols.h. Pairs wait in a binary heap. Joining two symbols makes the pairs that had one
   of them out of date; they are recognised when they are taken, by the sizes they were made for. Each join adds at
   most two pairs, so n symbols take O(n log n) however the text is made. */
#include "gguf/tokens/merge_symbols.h"

typedef struct {
    double rank;
    int32_t left, right; /* symbols */
    int32_t token;
    uint32_t size; /* of both together */
} candidate;

typedef struct {
    const flxi_allocator *mem;
    flxi_symbol *symbols;
    flxi_join_fn join;
    void *user;
    FLXI_VEC(candidate) heap;
} merging;

static bool comes_before(const candidate *a, const candidate *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->left < b->left);
}

static void swap(candidate *a, candidate *b)
{
    candidate t = *a;
    *a = *b;
    *b = t;
}

static bool put(merging *m, candidate c)
{
    if (!flxi_push(m->mem, &m->heap, c))
        return false;
    for (size_t i = m->heap.n - 1; i > 0 && comes_before(&m->heap.at[i], &m->heap.at[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&m->heap.at[i], &m->heap.at[(i - 1) / 2]);
    return true;
}

static candidate take(merging *m)
{
    candidate *h = m->heap.at, best = h[0];
    size_t n = --m->heap.n;
    h[0] = h[n];
    for (size_t i = 0;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            return best;
        if (child + 1 < n && comes_before(&h[child + 1], &h[child]))
            child++;
        if (!comes_before(&h[child], &h[i]))
            return best;
        swap(&h[i], &h[child]);
        i = child;
    }
}

static bool consider(merging *m, int32_t left, int32_t right)
{
    candidate c = {.left = left, .right = right};
    if (left < 0 || right < 0)
        return true;
    c.token = m->join(m->user, &m->symbols[left], &m->symbols[right], &c.rank);
    c.size = m->symbols[left].size + m->symbols[right].size;
    return c.token < 0 || put(m, c);
}

static bool join_pair(merging *m, const candidate *c)
{
    flxi_symbol *left = &m->symbols[c->left], *right = &m->symbols[c->right];
    if (left->size == 0 || right->size == 0 || left->size + right->size != c->size)
        return true; /* one of them was joined to another */
    left->size = c->size;
    left->token = c->token;
    left->next = right->next;
    right->size = 0;
    if (left->next >= 0)
        m->symbols[left->next].previous = c->left;
    return consider(m, left->previous, c->left) && consider(m, c->left, left->next);
}

flx_code flxi_merge_symbols(const flxi_allocator *mem, flxi_symbol *symbols, size_t count, flxi_join_fn join,
                            void *user, flx_error *err)
{
    merging m = {.mem = mem, .symbols = symbols, .join = join, .user = user};
    bool ok = true;
    for (size_t i = 0; i < count; i++) {
        symbols[i].previous = (int32_t)i - 1;
        symbols[i].next = i + 1 < count ? (int32_t)i + 1 : -1;
    }
    for (size_t i = 1; ok && i < count; i++)
        ok = consider(&m, (int32_t)i - 1, (int32_t)i);
    while (ok && m.heap.n > 0) {
        candidate c = take(&m);
        ok = join_pair(&m, &c);
    }
    flxi_vec_free(mem, &m.heap);
    return ok ? FLX_OK : flxi_oom(err, "the tokens of a text");
}
