/* SPDX-License-Identifier: Apache-2.0 */
/* random_route.c: rng_bit_generator by blocks: each block of words is computed once, several of them side by side. */
#include "backend/cpu/routes/random_blocks.h"
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "ops/random/random.h"

enum { SIDE = FLXI_BLOCKS_SIDE, WORDS = FLXI_BLOCK_WORDS };

typedef struct {
    flxi_blocks_fn draw;
    flxi_rng g;
    const flx_type *y;
    void *to;
    int words;    /* of a block */
    bool is_wide; /* an element takes two words */
    flxi_split s; /* Threefry: at the axis along which the two words of a block are neighbours */
    bool is_paired;
} drawing;

/* ---- rng_bit_generator ---- */

static void put(const drawing *d, int64_t at, uint64_t bits)
{
    switch (flx_dtype_size(d->y->dtype)) {
    case 8: ((uint64_t *)d->to)[at] = bits; break;
    case 4: ((uint32_t *)d->to)[at] = (uint32_t)(bits & UINT32_MAX); break;
    default: flxi_store_int(d->y->dtype, d->to, at, (int64_t)bits); break;
    }
}

/* The words of one block. */
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

/* Elements of one word, pairs complete: whether the n blocks from `block` on are written. */
static bool put_words(const drawing *d, int64_t block, uint32_t c[WORDS][SIDE], int64_t n, int64_t count)
{
    uint32_t *to = d->to;
    if (flx_dtype_size(d->y->dtype) != 4 || (d->is_paired ? d->s.n % 2 != 0 : (block + n) * d->words > count))
        return false;
    if (!d->is_paired) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t w = 0; w < d->words; w++)
                to[(block + i) * d->words + w] = c[w][i];
        return true;
    }
    if (d->s.inner == 1) {
        for (int64_t i = 0; i < n; i++) {
            to[2 * (block + i)] = c[0][i];
            to[2 * (block + i) + 1] = c[1][i];
        }
        return true;
    }
    for (int64_t i = 0, run; i < n; i += run) {
        int64_t q = (block + i) % d->s.inner, at = 2 * (block + i) - q;
        run = d->s.inner - q < n - i ? d->s.inner - q : n - i;
        memcpy(to + at, c[0] + i, (size_t)run * sizeof *to);
        memcpy(to + at + d->s.inner, c[1] + i, (size_t)run * sizeof *to);
    }
    return true;
}

static void draw_range(void *user, int64_t begin, int64_t end)
{
    const drawing *d = user;
    int64_t count = flxi_route_count(d->y);
    for (int64_t b = begin; b < end && !flxi_stopped_by_now(); b += SIDE) {
        uint32_t c[WORDS][SIDE];
        d->draw(&d->g, (uint64_t)b, c);
        int64_t n = end - b < SIDE ? end - b : SIDE;
        bool is_done = put_words(d, b, c, n, count);
        for (int64_t i = 0; i < n && !is_done; i++)
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
    drawing d = {.draw = flxi_random_blocks(),
                 .g = flxi_state_rng(n->in_types[0], n->in[0], algorithm),
                 .y = n->out_types[1],
                 .to = n->out[1]};
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
