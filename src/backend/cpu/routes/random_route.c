/* SPDX-License-Identifier: Apache-2.0 */
/* random_route.c: rng_bit_generator, rng_uniform and rng_bits by blocks: each block of words is computed once, several
   of them side by side. In a kernel each element computes its own block, of which it uses a quarter or half. */
#include "backend/cpu/routes/random_blocks.h"
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "ops/random/random.h"

#include <string.h>

enum { SIDE = FLXI_BLOCKS_SIDE, WORDS = FLXI_BLOCK_WORDS };

/* ---- Philox: elements take their words in order ---- */

enum {
    DRAWN = 64, /* blocks at a time */
    FEWEST_DRAWS = 4096
};

typedef struct {
    flxi_rng g;
    int32_t dtype;
    void *to;
    int64_t count;
    int64_t words;        /* of an element: 1 or 2 */
    double offset, scale; /* of rng_uniform */
    bool is_bits;
} draws;

/* Blocks of `each` elements. */
static int64_t block_count(int64_t count, int64_t each)
{
    return (count + each - 1) / each;
}

static uint64_t wide_word(const uint32_t *words, int64_t i)
{
    return words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
}

/* All draws, also those that nothing reads: loops of fixed length become vectors. Numbers from 0 to 1 in f32 are whole
   numbers of steps, which are exact without f64. */
static void put_f32(const draws *d, const uint32_t *words, int64_t first, int64_t n)
{
    float y[DRAWN * WORDS];
    if (d->offset == 0 && d->scale == 1)
        for (int i = 0; i < DRAWN * WORDS; i++)
            y[i] = (float)(int32_t)(words[i] >> 8) * 0x1p-24F;
    else
        for (int i = 0; i < DRAWN * WORDS; i++)
            y[i] = (float)(d->offset + d->scale * ((double)(int32_t)(words[i] >> 8) * 0x1p-24));
    memcpy((float *)d->to + first, y, (size_t)n * sizeof *y);
}

static void put_uniform(const draws *d, const uint32_t *words, int64_t first, int64_t n)
{
    if (d->dtype == FLX_F32) {
        put_f32(d, words, first, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t steps = d->words == 2 ? (int64_t)(wide_word(words, i) >> 11) : words[i] >> 8;
        double u = (double)steps * (d->words == 2 ? 0x1p-53 : 0x1p-24);
        flxi_store_draw(d->dtype, d->to, first + i, d->offset + d->scale * u);
    }
}

static void put_bits(const draws *d, const uint32_t *words, int64_t first, int64_t n)
{
    size_t size = flx_dtype_size(d->dtype);
    if (size >= sizeof *words) /* low words first, as in memory */
        memcpy((char *)d->to + (size_t)first * size, words, (size_t)n * size);
    else
        for (int64_t i = 0; i < n; i++)
            flxi_store_int(d->dtype, d->to, first + i, (int64_t)words[i]);
}

static void draw_elements(void *user, int64_t begin, int64_t end)
{
    const draws *d = user;
    const int64_t each = WORDS / d->words; /* elements of a block */
    uint32_t words[DRAWN * WORDS];
    for (int64_t b = begin; b < end && !flxi_stopped_by_now(); b += DRAWN) {
        int64_t first = b * each, n = d->count - first < DRAWN * each ? d->count - first : DRAWN * each;
        flxi_philox_words(&d->g, (uint64_t)b, DRAWN, words);
        (d->is_bits ? put_bits : put_uniform)(d, words, first, n);
    }
}

static flx_code draw_all(const flxi_route_node *n, const flx_type *y, draws d)
{
    d.dtype = y->dtype;
    d.count = flxi_route_count(y);
    d.words = y->dtype == FLX_F64 || flxi_int_bits(y->dtype) == 64 ? 2 : 1;
    int64_t blocks = block_count(d.count, WORDS / d.words);
    if (blocks > 0)
        flxi_pool_run(n->pool, blocks, 1 << 11, draw_elements, &d);
    return FLX_OK;
}

bool flxi_many_draws(const flxi_route_node *n)
{
    return flxi_route_count(n->out_types[0]) >= FEWEST_DRAWS;
}

const char *flxi_philox_applies(const flxi_route_node *n)
{
    return flxi_route_int(n, "algorithm") == FLXI_PHILOX ? NULL : "another algorithm than Philox";
}

flx_code flxi_uniform_route(const flxi_route_node *n)
{
    const flxi_draw_attrs *a = flxi_draw_attrs_of(n->op, n->attrs);
    draws d = {.to = n->out[0], .offset = a->offset, .scale = a->scale - a->offset};
    d.g = n->nin > 0 ? flxi_rng_keyed(n->in[0], (uint64_t)a->stream)
                     : flxi_rng_seeded((uint64_t)a->seed, (uint64_t)a->stream);
    return draw_all(n, n->out_types[0], d);
}

flx_code flxi_bits_route(const flxi_route_node *n)
{
    return draw_all(n, n->out_types[0], (draws){.g = flxi_rng_keyed(n->in[0], 0), .to = n->out[0], .is_bits = true});
}

/* ---- Threefry ---- */

typedef struct {
    flxi_blocks_fn draw;
    flxi_rng g;
    const flx_type *y;
    void *to;
    flxi_split s; /* at the axis along which the two words of a block are neighbours */
    bool is_wide; /* an element takes both */
} drawing;

static void put(const drawing *d, int64_t at, uint64_t bits)
{
    if (flx_dtype_size(d->y->dtype) == 4)
        ((uint32_t *)d->to)[at] = (uint32_t)(bits & UINT32_MAX);
    else
        flxi_store_int(d->y->dtype, d->to, at, (int64_t)bits);
}

/* The words of one block. */
static void put_block(const drawing *d, int64_t block, uint32_t first, uint32_t second)
{
    if (d->is_wide) {
        ((uint64_t *)d->to)[block] = first | (uint64_t)second << 32;
        return;
    }
    int64_t half = (d->s.n + 1) / 2, q = block % d->s.inner, j = block / d->s.inner % half;
    int64_t at = (block / d->s.inner / half * d->s.n + 2 * j) * d->s.inner + q;
    put(d, at, first);
    if (2 * j + 1 < d->s.n)
        put(d, at + d->s.inner, second);
}

/* Complete pairs of elements of one word: whether the n blocks from `block` on are written. */
static bool put_pairs(const drawing *d, int64_t block, uint32_t c[WORDS][SIDE], int64_t n)
{
    uint32_t *to = d->to;
    if (flx_dtype_size(d->y->dtype) != 4 || d->s.n % 2 != 0)
        return false;
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
    for (int64_t b = begin; b < end && !flxi_stopped_by_now(); b += SIDE) {
        uint32_t c[WORDS][SIDE];
        d->draw(&d->g, (uint64_t)b, c);
        int64_t n = end - b < SIDE ? end - b : SIDE;
        bool is_done = !d->is_wide && put_pairs(d, b, c, n);
        for (int64_t i = 0; i < n && !is_done; i++)
            put_block(d, b + i, c[0][i], c[1][i]);
    }
}

static int64_t threefry_blocks(const drawing *d)
{
    int64_t count = flxi_route_count(d->y);
    return d->is_wide || count == 0 ? count : d->s.outer * ((d->s.n + 1) / 2) * d->s.inner;
}

/* ---- rng_bit_generator ---- */

flx_code flxi_bit_generator_route(const flxi_route_node *n)
{
    flxi_rng_algorithm algorithm = (flxi_rng_algorithm)flxi_route_int(n, "algorithm");
    drawing d = {.draw = flxi_random_blocks(),
                 .g = flxi_state_rng(n->in_types[0], n->in[0], algorithm),
                 .y = n->out_types[1],
                 .to = n->out[1],
                 .s = {1, 1, 1}};
    d.is_wide = flx_dtype_size(d.y->dtype) == 8;
    if (!d.is_wide && d.y->rank > 0)
        d.s = flxi_split_at(d.y, flxi_pair_axis(d.y));
    bool is_philox = algorithm == FLXI_PHILOX;
    int64_t blocks =
        is_philox ? block_count(flxi_route_count(d.y), d.is_wide ? WORDS / 2 : WORDS) : threefry_blocks(&d);
    flxi_state_advance(n->in_types[0], n->in[0], &d.g, (uint64_t)blocks, n->out[0]);
    if (is_philox)
        return draw_all(n, d.y, (draws){.g = d.g, .to = d.to, .is_bits = true});
    if (blocks > 0)
        flxi_pool_run(n->pool, blocks, 1 << 12, draw_range, &d);
    return FLX_OK;
}
