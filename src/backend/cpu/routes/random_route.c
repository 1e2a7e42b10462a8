/* SPDX-License-Identifier: Apache-2.0 */
/* random_route.c: rng_bit_generator by blocks: each block of words is computed once, several of them side by side. */
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "ops/random/random.h"

enum { SIDE = 16, WORDS = 4 }; /* blocks side by side, in loops of fixed length that are compiled to vectors */

typedef struct {
    flxi_rng g;
    const flx_type *y;
    void *to;
    int words;    /* of a block */
    bool is_wide; /* an element takes two words */
    flxi_split s; /* Threefry: at the axis along which the two words of a block are neighbours */
    bool is_paired;
} drawing;

/* ---- Blocks ---- */

static void philox(const flxi_rng *g, uint32_t c[WORDS][SIDE])
{
    uint32_t k0 = g->key[0], k1 = g->key[1];
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < SIDE; i++) {
            uint64_t p0 = UINT64_C(0xD2511F53) * c[0][i], p1 = UINT64_C(0xCD9E8D57) * c[2][i];
            c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
            c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
            c[1][i] = (uint32_t)(p1 & UINT32_MAX);
            c[3][i] = (uint32_t)(p0 & UINT32_MAX);
        }
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
}

static void threefry(const flxi_rng *g, uint32_t c[WORDS][SIDE])
{
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t k[3] = {g->key[0], g->key[1], g->key[0] ^ g->key[1] ^ UINT32_C(0x1BD11BDA)};
    for (int i = 0; i < SIDE; i++) {
        c[0][i] += k[0];
        c[1][i] += k[1];
    }
    for (uint32_t group = 0; group < 5; group++) {
        for (int round = 0; round < 4; round++) {
            const int by = rotations[group % 2][round];
            for (int i = 0; i < SIDE; i++) {
                c[0][i] += c[1][i];
                c[1][i] = (c[1][i] << by | c[1][i] >> (32 - by)) ^ c[0][i];
            }
        }
        for (int i = 0; i < SIDE; i++) {
            c[0][i] += k[(group + 1) % 3];
            c[1][i] += k[(group + 2) % 3] + group + 1;
        }
    }
}

/* Blocks `first` … `first` + SIDE - 1. */
static void draw_blocks(const flxi_rng *g, uint64_t first, uint32_t c[WORDS][SIDE])
{
    for (uint64_t i = 0; i < SIDE; i++) {
        uint64_t low = g->low + first + i, high = g->high + (low < g->low);
        c[0][i] = (uint32_t)(low & UINT32_MAX);
        c[1][i] = (uint32_t)(low >> 32);
        c[2][i] = (uint32_t)(high & UINT32_MAX);
        c[3][i] = (uint32_t)(high >> 32);
    }
    if (g->algorithm == FLXI_PHILOX)
        philox(g, c);
    else
        threefry(g, c);
}

/* ---- Elements ---- */

static void put(const drawing *d, int64_t at, uint64_t bits)
{
    switch (flx_dtype_size(d->y->dtype)) {
    case 8: ((uint64_t *)d->to)[at] = bits; break;
    case 4: ((uint32_t *)d->to)[at] = (uint32_t)(bits & UINT32_MAX); break;
    default: flxi_store_int(d->y->dtype, d->to, at, (int64_t)bits); break;
    }
}

/* The words of one block; `left` elements are not written yet. */
static void put_block(const drawing *d, int64_t block, const uint32_t *w, int64_t count)
{
    if (d->is_paired) {
        int64_t half = (d->s.n + 1) / 2, q = block % d->s.inner, j = block / d->s.inner % half;
        int64_t at = (block / d->s.inner / half * d->s.n + 2 * j) * d->s.inner + q;
        put(d, at, w[0]);
        if (2 * j + 1 < d->s.n)
            put(d, at + d->s.inner, w[1]);
        return;
    }
    int64_t each = d->words / (d->is_wide ? 2 : 1), at = block * each;
    for (int64_t i = 0; i < each && at + i < count; i++)
        put(d, at + i, d->is_wide ? w[2 * i] | (uint64_t)w[2 * i + 1] << 32 : w[i]);
}

static void draw_range(void *user, int64_t begin, int64_t end)
{
    const drawing *d = user;
    int64_t count = flxi_route_count(d->y);
    for (int64_t b = begin; b < end && !flxi_stopped_by_now(); b += SIDE) {
        uint32_t c[WORDS][SIDE];
        draw_blocks(&d->g, (uint64_t)b, c);
        for (int64_t i = 0; i < SIDE && b + i < end; i++)
            put_block(d, b + i, (const uint32_t[]){c[0][i], c[1][i], c[2][i], c[3][i]}, count);
    }
}

static int64_t block_count(const drawing *d)
{
    int64_t count = flxi_route_count(d->y);
    if (d->is_paired)
        return d->s.outer * ((d->s.n + 1) / 2) * d->s.inner;
    int64_t each = d->words / (d->is_wide ? 2 : 1);
    return (count + each - 1) / each;
}

flx_code flxi_bit_generator_route(const flxi_route_node *n)
{
    flxi_rng_algorithm algorithm = (flxi_rng_algorithm)flxi_route_int(n, "algorithm");
    drawing d = {.g = flxi_state_rng(n->in_types[0], n->in[0], algorithm), .y = n->out_types[1], .to = n->out[1]};
    d.words = flxi_rng_block_words(&d.g);
    d.is_wide = flx_dtype_size(d.y->dtype) == 8;
    d.is_paired = algorithm == FLXI_THREEFRY && !d.is_wide;
    d.s = (flxi_split){1, 1, 1};
    if (d.is_paired && d.y->rank > 0)
        d.s = flxi_split_at(d.y, flxi_pair_axis(d.y));
    int64_t blocks = flxi_route_count(d.y) == 0 ? 0 : block_count(&d);
    flxi_state_advance(n->in_types[0], n->in[0], &d.g, (uint64_t)blocks, n->out[0]);
    if (blocks > 0)
        flxi_pool_run(n->pool, blocks, 1 << 12, draw_range, &d);
    return FLX_OK;
}
