/* SPDX-License-Identifier: Apache-2.0 */
/* draw_route.c: gamma and categorical. Blocks of random words are computed side by side; the rest is the definition,
   element by element with the same functions of the C library, so that the bits are the same. */
#include "backend/cpu/routes/random_blocks.h"
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "ops/random/random.h"

#include <math.h>

enum { SIDE = FLXI_BLOCKS_SIDE, WORDS = FLXI_BLOCK_WORDS };

/* ---- gamma ---- */

typedef struct {
    flxi_blocks_fn draw;
    flxi_rng key;
    const flx_type *y, *a;
    const void *shapes; /* the parameters a */
    void *to;
    int64_t strides[FLX_MAX_RANK];
} gammas;

/* Blocks one after the other. All are written before the first is read: a number of 64 bits that is read right after
   its halves were written waits for memory. */
static void draw_side(const gammas *q, const flxi_rng *g, int64_t first, uint32_t blocks[SIDE][WORDS])
{
    uint32_t c[WORDS][SIDE];
    q->draw(g, (uint64_t)first, c);
    for (int j = 0; j < SIDE; j++)
        for (int w = 0; w < WORDS; w++)
            blocks[j][w] = c[w][j];
}

/* Element i, with the blocks of its first attempt; few need another. */
static double gamma_of(const gammas *q, int64_t i, const flxi_gamma_shape *s, const uint32_t *normal,
                       const uint32_t *uniform)
{
    double x;
    bool is_regular = s->a > 0 && !isinf(s->a);
    if (is_regular && flxi_rng_gamma_attempt(s, normal, uniform, &x))
        return x * flxi_rng_gamma_boost(s, uniform);
    return flxi_rng_gamma(&q->key, (uint64_t)i, s->a);
}

static void draw_gammas(void *user, int64_t begin, int64_t end)
{
    const gammas *q = user;
    flxi_rng normals = q->key, uniforms = q->key;
    normals.high = FLXI_GAMMA_STREAM;
    uniforms.high = FLXI_GAMMA_STREAM + 1;
    int64_t at[FLX_MAX_RANK] = {0};
    for (int64_t k = q->y->rank - 1, rest = begin; k >= 0; rest /= q->y->dims[k], k--)
        at[k] = rest % q->y->dims[k];
    flxi_gamma_shape s = {.a = NAN};
    for (int64_t i = begin; i < end && !flxi_stopped(); i += SIDE) {
        uint32_t z[SIDE][WORDS], u[SIDE][WORDS];
        draw_side(q, &normals, i, z);
        draw_side(q, &uniforms, i, u);
        for (int64_t j = 0; j < SIDE && i + j < end; j++, flxi_next(at, q->y->dims, q->y->rank)) {
            double a = flxi_load_double(q->a->dtype, q->shapes, flxi_offset(at, q->strides, q->y->rank));
            s = a == s.a ? s : flxi_rng_gamma_shape(a);
            double x = gamma_of(q, i + j, &s, z[j], u[j]);
            flxi_store_draw(q->y->dtype, q->to, i + j, x);
        }
    }
}

flx_code flxi_gamma_route(const flxi_route_node *n)
{
    gammas q = {.draw = flxi_random_blocks(),
                .key = flxi_rng_keyed(n->in[0], 0),
                .y = n->out_types[0],
                .a = n->in_types[1],
                .shapes = n->in[1],
                .to = n->out[0]};
    int64_t count = flxi_route_count(q.y);
    flxi_broadcast_strides(q.a, q.y, q.strides);
    if (count > 0)
        flxi_pool_run(n->pool, count, flxi_route_chunk(count, 256), draw_gammas, &q);
    return FLX_OK;
}

/* ---- categorical ---- */

typedef struct {
    flxi_blocks_fn draw;
    flxi_rng key;
    int32_t dtype;
    const void *logits;
    int32_t *to;
    int64_t n;     /* logits of a row */
    int64_t words; /* of a draw: 1 for 24 bits, 2 for 53 */
} choices;

/* Draws of the elements from a block on: WORDS * SIDE / words of them. */
static void open_draws(const choices *q, int64_t block, double *u)
{
    uint32_t c[WORDS][SIDE];
    q->draw(&q->key, (uint64_t)block, c);
    for (int64_t j = 0; j < SIDE; j++)
        for (int64_t w = 0; w < WORDS; w += q->words) {
            uint64_t wide = c[w][j] | (uint64_t)c[w | 1][j] << 32;
            *u++ = q->words == 1 ? flxi_rng_midpoint((double)(c[w][j] >> 8), 0x1p-24)
                                 : flxi_rng_midpoint((double)(wide >> 11), 0x1p-53);
        }
}

static void draw_rows(void *user, int64_t begin, int64_t end)
{
    const choices *q = user;
    const int64_t each = WORDS / q->words;
    double u[WORDS * SIDE];
    for (int64_t r = begin; r < end && !flxi_stopped(); r++) {
        int64_t first = r * q->n, ready = first, best = 0, at = first / each * each;
        double most = 0;
        for (int64_t i = first; i < first + q->n && !flxi_stopped_by_now(); i++) {
            if (i == ready) {
                at = i / each * each;
                open_draws(q, at / each, u);
                ready = at + each * SIDE;
            }
            double x = flxi_load_double(q->dtype, q->logits, i) - log(-log(u[i - at]));
            if (i == first || x > most) {
                most = x;
                best = i - first;
            }
        }
        q->to[r] = (int32_t)best;
    }
}

/* NaNs in order, as the definition meets them. */
static flx_code check_logits(const flxi_route_node *n, int64_t length)
{
    const flx_type *x = n->in_types[1];
    int64_t count = flxi_route_count(x);
    for (int64_t i = 0; i < count && !flxi_stopped_by_now(); i++)
        if (isnan(flxi_load_double(x->dtype, n->in[1], i))) {
            flxi_eval e = {.op = &flxi_ops[n->op], .label = n->label, .origin = n->origin, .err = n->err};
            return flxi_random_nan(&e, i % length, i / length);
        }
    return FLX_OK;
}

flx_code flxi_categorical_route(const flxi_route_node *n)
{
    const flx_type *x = n->in_types[1];
    int64_t rows = flxi_route_count(n->out_types[0]);
    choices q = {.draw = flxi_random_blocks(),
                 .key = flxi_rng_keyed(n->in[0], 0),
                 .dtype = x->dtype,
                 .logits = n->in[1],
                 .to = n->out[0],
                 .n = x->dims[x->rank - 1],
                 .words = flxi_draw_bits(x->dtype) == FLXI_RNG_24 ? 1 : 2};
    if (rows == 0)
        return FLX_OK;
    FLXI_TRY(check_logits(n, q.n));
    flxi_pool_run(n->pool, rows, flxi_route_chunk(rows, 128 * q.n), draw_rows, &q);
    return FLX_OK;
}
