/* SPDX-License-Identifier: Apache-2.0 */
/* draw_route.c: gamma and categorical. Blocks of random words are computed side by side; the rest is the definition,
   element by element with the same functions of the C library, so that the bits are the same. Draws of gamma that are
   rounded to f32 are computed side by side too (gamma_side.h), and by the definition only where that may differ. */
#include "backend/cpu/routes/gamma_side.h"
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "ops/random/random.h"

#include <math.h>

enum { SIDE = FLXI_BLOCKS_SIDE, WORDS = FLXI_BLOCK_WORDS };

/* ---- gamma ---- */

typedef struct {
    flxi_blocks_fn draw;
    flxi_gammas_fn attempt; /* or NULL */
    flxi_rng key;
    const flx_type *y, *a;
    const void *shapes; /* the parameters a */
    void *to;
    int64_t strides[FLX_MAX_RANK];
} gammas;

/* Neighbouring elements. */
typedef struct {
    flxi_gamma_shape shape[SIDE];
    uint32_t normal[WORDS][SIDE], uniform[WORDS][SIDE]; /* of their first attempts */
    double d[SIDE], c[SIDE], x[SIDE];
} gamma_side;

/* By the definition; few need another attempt. */
static double gamma_of(const gammas *q, int64_t i, const gamma_side *s, int64_t j)
{
    double x;
    const flxi_gamma_shape *shape = &s->shape[j];
    uint32_t normal[WORDS], uniform[WORDS];
    for (int w = 0; w < WORDS; w++) {
        normal[w] = s->normal[w][j];
        uniform[w] = s->uniform[w][j];
    }
    bool is_regular = shape->a > 0 && !isinf(shape->a);
    if (is_regular && flxi_rng_gamma_attempt(shape, normal, uniform, &x))
        return x * flxi_rng_gamma_boost(shape, uniform);
    return flxi_rng_gamma(&q->key, (uint64_t)i, shape->a);
}

/* Draws n elements from `first` on. */
static void draw_side(const gammas *q, int64_t first, int64_t n, gamma_side *s)
{
    flxi_rng g = q->key;
    g.high = FLXI_GAMMA_STREAM;
    q->draw(&g, (uint64_t)first, s->normal);
    g.high++;
    q->draw(&g, (uint64_t)first, s->uniform);
    for (int j = 0; j < SIDE; j++) {
        s->d[j] = s->shape[j < n ? j : 0].d;
        s->c[j] = s->shape[j < n ? j : 0].c;
    }
    bool is_rounded = q->attempt && q->y->dtype != FLX_F64;
    if (is_rounded)
        q->attempt(s->d, s->c, s->normal, s->uniform, s->x);
    for (int64_t j = 0; j < n; j++) {
        const double x = s->x[j];
        bool is_sure = is_rounded && s->shape[j].a >= 1 && !isinf(s->shape[j].a) &&
                       (float)(x - x * FLXI_GAMMA_ERROR) == (float)(x + x * FLXI_GAMMA_ERROR);
        flxi_store_draw(q->y->dtype, q->to, first + j, is_sure ? (float)x : gamma_of(q, first + j, s, j));
    }
}

static void draw_gammas(void *user, int64_t begin, int64_t end)
{
    const gammas *q = user;
    gamma_side side = {.shape = {{.a = NAN}}};
    int64_t at[FLX_MAX_RANK] = {0};
    for (int64_t k = q->y->rank - 1, rest = begin; k >= 0; rest /= q->y->dims[k], k--)
        at[k] = rest % q->y->dims[k];
    flxi_gamma_shape s = {.a = NAN};
    for (int64_t i = begin; i < end && !flxi_stopped(); i += SIDE) {
        int64_t n = end - i < SIDE ? end - i : SIDE;
        for (int64_t j = 0; j < n; j++, flxi_next(at, q->y->dims, q->y->rank)) {
            double a = flxi_load_double(q->a->dtype, q->shapes, flxi_offset(at, q->strides, q->y->rank));
            s = a == s.a ? s : flxi_rng_gamma_shape(a);
            side.shape[j] = s;
        }
        draw_side(q, i, n, &side);
    }
}

flx_code flxi_gamma_route(const flxi_route_node *n)
{
    gammas q = {.draw = flxi_random_blocks(),
                .attempt = flxi_gamma_side(),
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
