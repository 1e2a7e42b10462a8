/* SPDX-License-Identifier: Apache-2.0 */
/* random_rules.c: batching of the draws that have a stream. Example b draws from the stream of the op plus b, so that
   examples differ even where their keys agree; a draw that no operand batches is shared by all examples. The stream of
   rng_uniform and rng_normal is an attribute, so in the loop over the examples they are written in other ops:
   rng_bit_generator takes the stream as part of its state, and the rest is arithmetic in f64, rounded like the op
   itself. */
#include "ops/control/control.h"
#include "ops/opcode.h"
#include "ops/random/random.h"
#include "ops/rule/rule_lists.h"

static bool is_wide(const flxi_draw_attrs *a)
{
    return a->dtype == FLX_F64;
}

static flx_val f64(flx_graph *g, double x)
{
    return flx_scalar(g, FLX_F64, x);
}

/* A scalar that a double might not represent exactly. */
static flx_val exact_i64(flx_graph *g, int64_t x)
{
    flx_error err = {0};
    flx_type type = {.dtype = FLX_I64};
    flx_tensor *t = flx_tensor_new(g->ctx, &type, &x, &err);
    if (!t)
        flxi_graph_fail(g, &err);
    flx_val v = t ? flx_const(g, &type, t) : FLX_NONE;
    flx_tensor_release(t);
    return v;
}

/* Draws 0 … n - 1 of the key's stream as whole numbers of steps, in f64: 24 bits of a word each, or 53 of two. */
static flx_val draw_steps(flx_graph *g, const flxi_draw_attrs *a, flx_val key, flx_val stream, flx_dim n)
{
    flx_type none = {.dtype = FLX_U32, .rank = 1, .dims = {2}};
    flxi_site s = {.g = g, .ctx = g->ctx, .op = &flxi_ops[OP_rng_uniform]};
    flx_val state[3] = {key, flxi_zeros(&s, &none), flx_bitcast(g, stream, FLX_U32)}; /* key, block 0, stream */
    flx_dtype word = is_wide(a) ? FLX_U64 : FLX_U32;
    flx_val out[2];
    flx_rng_bit_generator(g, flx_concat(g, state, 3, 0), out, (flx_ints){&n, 1}, word, "philox4x32");
    return flx_cast(g, flx_div(g, out[1], flx_scalar(g, word, is_wide(a) ? 0x1p11 : 0x1p8)), FLX_F64);
}

static flx_val step_of(flx_graph *g, const flxi_draw_attrs *a)
{
    return f64(g, is_wide(a) ? 0x1p-53 : 0x1p-24);
}

static flx_val uniform_draws(flx_graph *g, const flxi_draw_attrs *a, flx_val key, flx_val stream, flx_dim n)
{
    flx_val u = flx_mul(g, draw_steps(g, a, key, stream, n), step_of(g, a));
    return flx_add(g, f64(g, a->offset), flx_mul(g, f64(g, a->scale - a->offset), u));
}

/* Box and Muller: each pair of draws makes two normal numbers. */
static flx_val normal_draws(flx_graph *g, const flxi_draw_attrs *a, flx_val key, flx_val stream, flx_dim n)
{
    flx_dim pairs = flxi_dim_ceil_div(g->ctx, n, 2);
    flx_dim even = flx_dim_mul(g->ctx, pairs, 2);
    flx_val steps = flx_reshape(g, draw_steps(g, a, key, stream, even), FLX_INTS(pairs, 2));
    flx_val u1 = flx_mul(g, flx_add(g, flx_narrow(g, steps, 1, 0, 1), f64(g, 1.0)), step_of(g, a));
    flx_val u2 = flx_mul(g, flx_narrow(g, steps, 1, 1, 1), step_of(g, a));
    flx_val radius = flx_sqrt(g, flx_mul(g, f64(g, -2.0), flx_log(g, u1)));
    flx_val angle = flx_mul(g, f64(g, 6.283185307179586476925286766559), u2);
    flx_val z[2] = {flx_mul(g, radius, flx_cos(g, angle)), flx_mul(g, radius, flx_sin(g, angle))};
    flx_val all = flx_reshape(g, flx_concat(g, z, 2, 1), FLX_INTS(even));
    flx_val some = even == n ? all : flx_narrow(g, all, 0, 0, n);
    return flx_add(g, f64(g, a->offset), flx_mul(g, f64(g, a->scale), some));
}

/* Rounds like flxi_store_draw. */
static flx_val rounded(flx_graph *g, flx_val v, flx_dtype dtype)
{
    if (dtype == FLX_F16 || dtype == FLX_BF16)
        v = flx_cast(g, v, FLX_F32);
    return dtype == FLX_F64 ? v : flx_cast(g, v, dtype);
}

/* (key, b) → the draws of example b. */
static flx_graph *example_body(flxi_site *s)
{
    const flxi_draw_attrs *a = s->attrs;
    flx_graph *g = flxi_new_body(s, "draw");
    flx_type key_type = {.dtype = FLX_U32, .rank = 1, .dims = {2}};
    flx_type number = {.dtype = FLX_I64};
    if (!g)
        return NULL;
    flx_type out = flx_type_make((flx_dtype)a->dtype, (int)a->shape.n, a->shape.v);
    flx_dim n = flxi_dims_product(g->ctx, &out, 0, out.rank);
    flx_val key = flx_input(g, "key", &key_type);
    flx_val stream = flx_add(g, flx_input(g, "example", &number), exact_i64(g, a->stream));
    flx_val draws =
        s->op == &flxi_ops[OP_rng_normal] ? normal_draws(g, a, key, stream, n) : uniform_draws(g, a, key, stream, n);
    flx_output(g, flx_reshape(g, rounded(g, draws, (flx_dtype)a->dtype), flxi_dims_list(out.rank, out.dims)), NULL);
    return flxi_finish_body(s, g);
}

void flxi_batch_draw(flxi_site *s, flx_val *by)
{
    flx_graph *body = example_body(s);
    flx_type row = flx_type_make(FLX_I64, 1, &s->size);
    if (body) {
        flx_val in[2] = {s->x[0], flx_iota(s->g, &row, 0)};
        flx_scan_attrs a = FLX_SCAN_ATTRS;
        a.body = body;
        a.num_carry = 0;
        a.length = s->size;
        flx_scan_with(s->g, in, 2, by, 1, &a);
    }
    flx_graph_release(body);
}

/* Rows are numbered consecutively over the whole batch, and a row's number is its stream. */
void flxi_batch_sample(flxi_site *s, flx_val *by)
{
    by[0] = flxi_emit1(s, NULL, s->x, 1);
}
