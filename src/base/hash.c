/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c: see hash.h. The index mixes FNV's low bits with one multiplication, because FNV alone clusters on short
   keys. */
#include "base/hash.h"

uint64_t flxi_hash_bytes(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

uint64_t flxi_hash_u64(uint64_t h, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        h = (h ^ (v >> (8 * i) & 255)) * UINT64_C(0x100000001b3);
    return h;
}

uint64_t flxi_hash_text(uint64_t h, const char *s)
{
    return flxi_hash_bytes(h, s, strlen(s) + 1);
}

static size_t slot_of(const flxi_index *x, uint64_t hash)
{
    return (size_t)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (x->cap - 1);
}

static void insert(flxi_index *x, uint64_t hash, uint32_t stored)
{
    size_t i = slot_of(x, hash);
    while (x->values[i])
        i = (i + 1) & (x->cap - 1);
    x->hashes[i] = hash;
    x->values[i] = stored;
}

static bool grow(const flxi_allocator *mem, flxi_index *x)
{
    flxi_index bigger = {.n = x->n, .cap = x->cap ? x->cap * 2 : 16};
    bigger.hashes = flxi_alloc(mem, bigger.cap, sizeof *bigger.hashes);
    bigger.values = flxi_alloc(mem, bigger.cap, sizeof *bigger.values);
    if (!bigger.hashes || !bigger.values) {
        flxi_index_free(mem, &bigger);
        return false;
    }
    for (size_t i = 0; i < x->cap; i++)
        if (x->values[i])
            insert(&bigger, x->hashes[i], x->values[i]);
    flxi_index_free(mem, x);
    *x = bigger;
    return true;
}

bool flxi_index_add(const flxi_allocator *mem, flxi_index *x, uint64_t hash, uint32_t value)
{
    if (2 * (x->n + 1) > x->cap && !grow(mem, x))
        return false;
    insert(x, hash, value + 1);
    x->n++;
    return true;
}

flxi_probe flxi_index_first(const flxi_index *x, uint64_t hash)
{
    return (flxi_probe){x->cap ? slot_of(x, hash) : 0, hash};
}

/* Terminates because at least half of the slots are empty. */
bool flxi_index_next(const flxi_index *x, flxi_probe *p, uint32_t *value)
{
    if (!x->cap)
        return false;
    while (x->values[p->slot]) {
        size_t i = p->slot;
        p->slot = (p->slot + 1) & (x->cap - 1);
        if (x->hashes[i] == p->hash) {
            *value = x->values[i] - 1;
            return true;
        }
    }
    return false;
}

void flxi_index_replace(flxi_index *x, uint64_t hash, uint32_t value, uint32_t by)
{
    uint32_t found;
    for (flxi_probe p = flxi_index_first(x, hash); flxi_index_next(x, &p, &found);)
        if (found == value) {
            x->values[(p.slot - 1) & (x->cap - 1)] = by + 1; /* the probe is one slot further */
            return;
        }
}

void flxi_index_free(const flxi_allocator *mem, flxi_index *x)
{
    flxi_free(mem, x->hashes, x->cap, sizeof *x->hashes);
    flxi_free(mem, x->values, x->cap, sizeof *x->values);
    *x = (flxi_index){0};
}

static size_t find_text(const flxi_strings *s, uint64_t h, const char *text, size_t n)
{
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&s->index, h); flxi_index_next(&s->index, &p, &i);)
        if (strlen(s->texts.at[i]) == n && memcmp(s->texts.at[i], text, n) == 0)
            return i;
    return SIZE_MAX;
}

bool flxi_is_interned(const flxi_strings *s, const char *text)
{
    size_t n = strlen(text);
    return find_text(s, flxi_hash_bytes(FLXI_HASH_SEED, text, n), text, n) != SIZE_MAX;
}

size_t flxi_intern_number(flxi_strings *s, const char *text, size_t n)
{
    uint64_t h = flxi_hash_bytes(FLXI_HASH_SEED, text, n);
    size_t found = find_text(s, h, text, n);
    if (found != SIZE_MAX)
        return found;
    const flxi_allocator *mem = s->arena->mem;
    if (!flxi_reserve(mem, &s->texts))
        return SIZE_MAX;
    char *copy = flxi_arena_text(s->arena, text, n);
    if (!copy || !flxi_index_add(mem, &s->index, h, (uint32_t)s->texts.n))
        return SIZE_MAX;
    s->texts.at[s->texts.n] = copy;
    return s->texts.n++;
}

const char *flxi_intern(flxi_strings *s, const char *text, size_t n)
{
    size_t i = flxi_intern_number(s, text, n);
    return i == SIZE_MAX ? NULL : s->texts.at[i];
}

void flxi_strings_free(flxi_strings *s)
{
    flxi_index_free(s->arena->mem, &s->index);
    flxi_vec_free(s->arena->mem, &s->texts);
}
