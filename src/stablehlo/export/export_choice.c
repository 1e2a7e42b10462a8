/* SPDX-License-Identifier: Apache-2.0 */
/* export_choice.c: draws whose counters StableHLO's generator does not count through, one per row or per attempt:
   Philox 4x32 with 10 rounds in integer arithmetic, and the ops that use it so. See export_rules.h. */
#include "stablehlo/export/export_loop.h"

#include <math.h>

/* ---- Philox ---- */

typedef struct {
    flx_val word[4]; /* u32, of one shape or scalars */
} block;

static flx_val u32(flx_graph *g, uint32_t x)
{
    return flx_scalar(g, FLX_U32, (double)x);
}

/* The two halves of a product with a constant. */
static void product(flx_graph *g, flx_val x, uint32_t factor, flx_val *high, flx_val *low)
{
    flx_val p = flx_mul(g, flx_cast(g, x, FLX_U64), flx_scalar(g, FLX_U64, (double)factor));
    *high = flx_cast(g, flx_shr_logical(g, p, flx_scalar(g, FLX_U64, 32.0)), FLX_U32);
    *low = flx_cast(g, p, FLX_U32);
}

static block philox(flx_graph *g, block c, flx_val key0, flx_val key1)
{
    for (int round = 0; round < 10; round++) {
        flx_val high[2];
        flx_val low[2];
        product(g, c.word[0], UINT32_C(0xD2511F53), &high[0], &low[0]);
        product(g, c.word[2], UINT32_C(0xCD9E8D57), &high[1], &low[1]);
        c = (block){{flx_bit_xor(g, flx_bit_xor(g, high[1], c.word[1]), key0), low[1],
                     flx_bit_xor(g, flx_bit_xor(g, high[0], c.word[3]), key1), low[0]}};
        key0 = flx_add(g, key0, u32(g, UINT32_C(0x9E3779B9)));
        key1 = flx_add(g, key1, u32(g, UINT32_C(0xBB67AE85)));
    }
    return c;
}

/* Draw 0 or 1 of a block as a whole number of steps of 2^-53. */
static flx_val fine_steps(flx_graph *g, const block *b, int draw)
{
    flx_val low = flx_cast(g, b->word[2 * draw], FLX_U64);
    flx_val high = flx_shl(g, flx_cast(g, b->word[2 * draw + 1], FLX_U64), flx_scalar(g, FLX_U64, 32.0));
    flx_val bits = flx_shr_logical(g, flx_bit_or(g, low, high), flx_scalar(g, FLX_U64, 11.0));
    return flx_cast(g, bits, FLX_F64);
}

static flx_val f64(flx_graph *g, double x)
{
    return flx_scalar(g, FLX_F64, x);
}

/* The middle of a step of 2^-53, in (0, 1). */
static flx_val open_draw(flx_graph *g, const block *b, int draw)
{
    flx_val u = flx_add(g, flx_mul(g, fine_steps(g, b, draw), f64(g, 0x1p-53)), f64(g, 0x1p-54));
    return flx_min(g, u, f64(g, 1.0 - 0x1p-53));
}

static flx_val normal_draw(flx_graph *g, const block *b)
{
    flx_val u1 = flx_mul(g, flx_add(g, fine_steps(g, b, 0), f64(g, 1.0)), f64(g, 0x1p-53));
    flx_val angle =
        flx_mul(g, flx_mul(g, fine_steps(g, b, 1), f64(g, 0x1p-53)), f64(g, 6.283185307179586476925286766559));
    return flx_mul(g, flx_sqrt(g, flx_mul(g, flx_log(g, u1), f64(g, -2.0))), flx_cos(g, angle));
}

/* ---- sample ---- */

/* One number of each row r, [rows, 1]: draw 0 of stream r. */
static flx_val row_draws(flxi_site *s, flx_dim rows, bool fine)
{
    flx_graph *g = s->g;
    uint64_t seed = (uint64_t)site_int(s, "seed");
    flx_type column = flx_type_make(FLX_U32, 2, (flx_dim[]){rows, 1});
    block c = {{u32(g, 0), u32(g, 0), flx_iota(g, &column, 0), u32(g, 0)}};
    block b = philox(g, c, u32(g, (uint32_t)seed), u32(g, (uint32_t)(seed >> 32)));
    if (fine)
        return flx_mul(g, fine_steps(g, &b, 0), f64(g, 0x1p-53));
    return flx_mul(g, flx_cast(g, flx_shr_logical(g, b.word[0], u32(g, 8)), FLX_F64), f64(g, 0x1p-24));
}

/* Softmax, not divided by the sum; the largest logit, infinite or not, weighs 1. */
static flx_val weights(flxi_site *s, flx_val logits)
{
    flx_graph *g = s->g;
    flx_val most = flx_reduce_max(g, logits, FLX_INTS(1), 1);
    flx_val fall = flx_div(g, flx_sub(g, logits, most), f64(g, site_real(s, "temperature")));
    flx_val none = flx_or(g, flx_is_inf(g, most), flx_is_inf(g, logits));
    return flx_where(g, flx_eq(g, logits, most), f64(g, 1.0), flx_where(g, none, f64(g, 0.0), flx_exp(g, fall)));
}

/* Without all but the top_k first and, of these, the shortest prefix that holds top_p of their weight. */
static flx_val cut(flxi_site *s, flx_val logits, flx_val w, flx_dim n)
{
    flx_graph *g = s->g;
    int64_t top = site_int(s, "top_k");
    double p = site_real(s, "top_p");
    int64_t kept = top > 0 && top < n ? top : n;
    if (kept == n && p >= 1.0)
        return w;
    flx_val order = flx_argsort(g, logits, 1, 1, 1, FLX_I32);
    flx_val sorted = flx_take_along(g, w, order, 1, "clamp");
    flx_type line = flx_type_make(FLX_I32, 2, (flx_dim[]){1, n});
    flx_val position = flx_iota(g, &line, 1);
    flx_val stays = flx_lt(g, position, flx_scalar(g, FLX_I32, (double)kept));
    flx_val first = flx_where(g, stays, sorted, f64(g, 0.0));
    if (p < 1.0) {
        flx_val goal = flx_mul(g, flx_reduce_sum(g, first, FLX_INTS(1), 1), f64(g, p));
        flx_val held = flx_cumsum(g, first, 1, 1, 0);
        flx_val is_first = flx_eq(g, position, flx_scalar(g, FLX_I32, 0.0));
        stays = flx_and(g, stays, flx_or(g, is_first, flx_lt(g, held, goal)));
    }
    const flx_type *t = flxi_typeof(s, logits);
    flx_val rank = flx_argsort(g, order, 1, 1, 0, FLX_I32);
    flx_val all = flxi_expand_to(s, stays, t->rank, t->dims);
    return flx_where(g, flx_take_along(g, all, rank, 1, "clamp"), w, f64(g, 0.0));
}

/* The first token whose cumulative weight exceeds its share, else the last one that has any. */
void flxi_export_as_sample(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    const flx_type *t = flxi_typeof(s, s->x[0]);
    flx_dim n = t->dims[t->rank - 1];
    flx_dim rows = flxi_static_extent(t, 0, t->rank - 1);
    flx_type out = flx_type_make(FLX_I32, t->rank - 1, t->dims);
    if (rows == 0) {
        y[0] = flxi_zeros(s, &out);
        return;
    }
    flx_val logits = flxi_reshape_to(s, flx_cast(g, s->x[0], FLX_F64), 2, (flx_dim[]){rows, n});
    if (site_real(s, "temperature") <= 0.0) {
        y[0] = flxi_reshape_to(s, flx_argmax(g, logits, 1, 0, FLX_I32), out.rank, out.dims);
        return;
    }
    flx_val w = cut(s, logits, weights(s, logits), n);
    flx_val share = flx_mul(g, row_draws(s, rows, t->dtype == FLX_F64), flx_reduce_sum(g, w, FLX_INTS(1), 1));
    flx_val hit = flx_lt(g, share, flx_cumsum(g, w, 1, 0, 0));
    flx_val possible = flx_gt(g, w, f64(g, 0.0));
    flx_val from_back = flx_argmax(g, flx_reverse(g, possible, FLX_INTS(1)), 1, 0, FLX_I32);
    flx_val last = flx_sub(g, flx_scalar(g, FLX_I32, (double)n - 1.0), from_back);
    flx_val found = flx_where(g, flx_reduce_any(g, hit, FLX_INTS(1), 0), flx_argmax(g, hit, 1, 0, FLX_I32), last);
    y[0] = flxi_reshape_to(s, found, out.rank, out.dims);
}

/* ---- gamma ---- */

/* What attempts need of an element, and what they leave: carries of the loop. */
enum { DONE = 1, RESULT, D, C, INDEX, KEY0, KEY1, NUM_CARRIES };

static flx_val key_word(flxi_site *s, int i)
{
    return flxi_reshape_to(s, flx_narrow(s->g, s->x[0], 0, i, 1), 0, NULL);
}

/* Block of attempt t, an i64, and of its second half: counters (i, 2^63 + 2t + half). */
static block attempt(flx_graph *g, flx_val index, flx_val t, int half, flx_val key0, flx_val key1)
{
    flx_val low = flx_cast(g, index, FLX_U32);
    flx_val high = flx_cast(g, flx_shr_logical(g, index, flx_scalar(g, FLX_I64, 32.0)), FLX_U32);
    flx_val twice = flx_add(g, flx_add(g, t, t), flx_scalar(g, FLX_I64, (double)half));
    block c = {{low, high, flx_cast(g, twice, FLX_U32), u32(g, UINT32_C(0x80000000))}};
    return philox(g, c, key0, key1);
}

/* One attempt of Marsaglia and Tsang for every element. */
static void write_attempt(export_loop *l)
{
    flx_graph *g = l->body;
    const flx_val *in = l->in_body;
    block first = attempt(g, in[INDEX], in[EXPORT_COUNTER], 0, in[KEY0], in[KEY1]);
    block second = attempt(g, in[INDEX], in[EXPORT_COUNTER], 1, in[KEY0], in[KEY1]);
    flx_val z = normal_draw(g, &first);
    flx_val root = flx_add(g, f64(g, 1.0), flx_mul(g, in[C], z));
    flx_val v = flx_mul(g, root, flx_mul(g, root, root));
    flx_val positive = flx_gt(g, root, f64(g, 0.0));
    flx_val log_v = flx_log(g, flx_where(g, positive, v, f64(g, 1.0)));
    flx_val limit =
        flx_add(g, flx_sub(g, flx_add(g, flx_mul(g, flx_mul(g, z, z), f64(g, 0.5)), in[D]), flx_mul(g, in[D], v)),
                flx_mul(g, in[D], log_v));
    flx_val accepted = flx_and(g, positive, flx_lt(g, flx_log(g, open_draw(g, &second, 0)), limit));
    flx_val now = flx_and(g, accepted, flx_not(g, in[DONE]));
    l->out[RESULT] = flx_where(g, now, flx_mul(g, in[D], v), in[RESULT]);
    l->out[DONE] = flx_or(g, in[DONE], accepted);
    flxi_loop_count(l);
}

/* d v of the first attempt that is accepted, f64[n], for d = a - 1/3, of elements for which there are any. */
static flx_val attempts(flxi_site *s, flx_val d, flx_val idle, flx_val index)
{
    enum { MOST = 1 << 16 };
    flx_val made[NUM_CARRIES] = {FLX_NONE};
    export_loop l;
    if (flxi_loop_begin(&l, s, NUM_CARRIES)) {
        flxi_loop_counter(&l);
        flxi_loop_carry(&l, idle);
        flxi_loop_carry(&l, d);
        flxi_loop_carry(&l, d);
        flxi_loop_carry(&l, flx_rsqrt(s->g, flx_mul(s->g, d, f64(s->g, 9.0))));
        flxi_loop_carry(&l, index);
        flxi_loop_carry(&l, key_word(s, 0));
        flxi_loop_carry(&l, key_word(s, 1));
        write_attempt(&l);
        flx_val open = flx_not(l.cond, flx_reduce_all(l.cond, l.in_cond[DONE], FLX_ALL, 0));
        flxi_loop_end(&l, flx_and(l.cond, open, flxi_loop_below(&l, MOST)), made);
    }
    flxi_loop_free(&l);
    return made[RESULT];
}

/* A shape below 1 draws with a + 1 and multiplies by U^(1/a). */
void flxi_export_as_gamma(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_ints shape = site_ints(s, "shape");
    flx_dtype dtype = (flx_dtype)flxi_typeof(s, s->x[1])->dtype;
    flx_type t = flx_type_make(dtype, (int)shape.n, shape.v);
    flx_dim n = flxi_static_extent(&t, 0, t.rank);
    flx_type line = flx_type_make(FLX_I64, 1, &n);
    if (n == 0) {
        y[0] = flxi_zeros(s, &t);
        return;
    }
    flx_val a = flx_cast(g, flxi_expand_to(s, s->x[1], t.rank, t.dims), FLX_F64);
    a = flxi_reshape_to(s, a, 1, &n);
    flx_val idle = flx_not(g, flx_and(g, flx_gt(g, a, f64(g, 0.0)), flx_is_finite(g, a)));
    flx_val safe = flx_where(g, idle, f64(g, 1.0), a);
    flx_val small = flx_lt(g, safe, f64(g, 1.0));
    flx_val raised = flx_where(g, small, flx_add(g, safe, f64(g, 1.0)), safe);
    flx_val index = flx_iota(g, &line, 0);
    flx_val v = attempts(s, flx_sub(g, raised, f64(g, 1.0 / 3.0)), idle, index);
    block extra = attempt(g, index, flx_scalar(g, FLX_I64, 0.0), 1, key_word(s, 0), key_word(s, 1));
    flx_val boost = flx_pow(g, open_draw(g, &extra, 1), flx_reciprocal(g, safe));
    v = flx_where(g, small, flx_mul(g, v, boost), v);
    flx_val other = flx_where(g, flx_gt(g, a, f64(g, 0.0)), a, f64(g, NAN)); /* infinite, or no shape at all */
    v = flx_where(g, idle, other, v);
    v = dtype == FLX_F64 ? v : flx_cast(g, flx_cast(g, v, FLX_F32), dtype);
    y[0] = flxi_reshape_to(s, v, t.rank, t.dims);
}
