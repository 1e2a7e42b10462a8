/* SPDX-License-Identifier: Apache-2.0 */
/* export_random.c: random numbers in terms of StableHLO's rng_bit_generator, whose Philox is the same function of key
   and counter: the state (key, block, stream) is the counter described in docs/numerics.md. See export_rules.h. */
#include "stablehlo/export/export_rules.h"

static const uint64_t split_stream = UINT64_MAX;
static const uint64_t fold_stream = UINT64_MAX - 1;

static flx_val const_words(flxi_site *s, flx_dtype dtype, const void *data, flx_dim n)
{
    flx_type t = flx_type_make(dtype, 1, &n);
    flx_tensor *tensor = flx_tensor_new(s->ctx, &t, data, NULL);
    if (!tensor) {
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
        return FLX_NONE;
    }
    flx_val v = flx_const(s->g, &t, tensor);
    flx_tensor_release(tensor);
    return v;
}

/* u64[1] of a u32[2] key, or of the seed where there is none. */
static flx_val key_number(flxi_site *s, bool has_key)
{
    flx_dim one = 1;
    if (has_key)
        return flxi_reshape_to(s, flx_bitcast(s->g, s->x[0], FLX_U64), 1, &one);
    uint64_t seed = (uint64_t)site_int(s, "seed");
    return const_words(s, FLX_U64, &seed, 1);
}

/* n words (u32[n]) of a generator whose first block is `block`, u64[1]. */
static flx_val words(flxi_site *s, flx_val key, flx_val block, uint64_t stream, flx_dim n, const char *algorithm)
{
    bool is_philox = strcmp(algorithm, "philox4x32") == 0;
    flx_val parts[3] = {key, block, const_words(s, FLX_U64, &stream, 1)};
    flx_val out[2] = {FLX_NONE, FLX_NONE};
    flx_attr attrs[3] = {flx_attr_ints("shape", (flx_ints){&n, 1}), flx_attr_word("dtype", "u32"),
                         flx_attr_word("algorithm", algorithm)};
    flx_val state = flx_concat(s->g, parts, is_philox ? 3 : 2, 0);
    flx_op(s->g, "rng_bit_generator", &state, 1, attrs, 3, out, 2);
    return out[1];
}

static flx_val from_zero(flxi_site *s)
{
    uint64_t zero = 0;
    return const_words(s, FLX_U64, &zero, 1);
}

/* The first n of v, and these in a shape. */
static flx_val shaped(flxi_site *s, flx_val v, flx_dim n, const flx_type *t)
{
    return flxi_reshape_to(s, flx_narrow(s->g, v, 0, 0, n), t->rank, t->dims);
}

static flx_type result_type(flxi_site *s, flx_dtype dtype)
{
    flx_ints shape = site_ints(s, "shape");
    return flx_type_make(dtype, (int)shape.n, shape.v);
}

static int64_t count_of(const flx_type *t)
{
    return flxi_static_extent(t, 0, t->rank);
}

/* u64[n] of u32[2n], low words first. */
static flx_val joined(flxi_site *s, flx_val v, flx_dim n)
{
    return flx_bitcast(s->g, flxi_reshape_to(s, v, 2, (flx_dim[]){n, 2}), FLX_U64);
}

/* ---- Bits and keys ---- */

void flxi_export_as_rng_bits(flxi_site *s, flx_val *y)
{
    flx_dtype dtype = (flx_dtype)site_int(s, "dtype");
    bool is_wide = flxi_int_bits(dtype) == 64;
    flx_type t = result_type(s, dtype);
    int64_t n = count_of(&t);
    bool is_philox = site_says(s, "algorithm", "philox4x32");
    if (n == 0) {
        y[0] = flxi_zeros(s, &t);
        return;
    }
    flx_dim drawn = is_wide ? 2 * n : n + n % 2; /* both words of a block of Threefry */
    flx_val v = words(s, key_number(s, true), from_zero(s), 0, drawn, is_philox ? "philox4x32" : "threefry2x32");
    v = is_wide ? joined(s, v, n) : v;
    y[0] = flx_cast(s->g, shaped(s, v, n, &t), dtype);
}

/* A state of u32 as one of u64, and back. */
void flxi_export_as_rng_bit_generator(flxi_site *s, flx_val *y)
{
    flx_dim pairs[2] = {flxi_typeof(s, s->x[0])->dims[0] / 2, 2};
    flx_val state = flx_bitcast(s->g, flxi_reshape_to(s, s->x[0], 2, pairs), FLX_U64);
    flxi_append(s, NULL, &state, 1, y);
    y[0] = flxi_reshape_to(s, flx_bitcast(s->g, y[0], FLX_U32), 1, flxi_typeof(s, s->x[0])->dims);
}

/* The first two words of each of n blocks. */
static flx_val keys(flxi_site *s, flx_val block, uint64_t stream, flx_dim n)
{
    flx_val v = words(s, key_number(s, true), block, stream, 4 * n, "philox4x32");
    return flx_narrow(s->g, flxi_reshape_to(s, v, 2, (flx_dim[]){n, 4}), 1, 0, 2);
}

void flxi_export_as_rng_split(flxi_site *s, flx_val *y)
{
    flx_dim n = site_int(s, "num");
    flx_type none = flx_type_make(FLX_U32, 2, (flx_dim[]){0, 2});
    y[0] = n == 0 ? flxi_zeros(s, &none) : keys(s, from_zero(s), split_stream, n);
}

void flxi_export_as_rng_fold_in(flxi_site *s, flx_val *y)
{
    flx_dim one = 1;
    flx_dim two = 2;
    flx_val data = flx_cast(s->g, flx_cast(s->g, s->x[1], FLX_I64), FLX_U64); /* the sign is extended */
    y[0] = flxi_reshape_to(s, keys(s, flxi_reshape_to(s, data, 1, &one), fold_stream, 1), 1, &two);
}

/* ---- Uniform and normal numbers ---- */

typedef struct {
    flx_val steps; /* f64[n]: draws as whole numbers of steps */
    double step;
} draws;

/* f64 has 53 bits, everything else 24. */
static draws draw(flxi_site *s, flx_dtype dtype, flx_dim n, bool has_key, uint64_t stream)
{
    flx_graph *g = s->g;
    bool is_wide = dtype == FLX_F64;
    flx_val w = words(s, key_number(s, has_key), from_zero(s), stream, is_wide ? 2 * n : n, "philox4x32");
    flx_val v = is_wide ? joined(s, w, n) : w;
    flx_val kept = flx_shr_logical(g, v, flxi_number(s, v, is_wide ? 11.0 : 8.0));
    return (draws){flx_cast(g, kept, FLX_F64), is_wide ? 0x1p-53 : 0x1p-24};
}

static flx_val times(flxi_site *s, flx_val v, double x)
{
    return flx_mul(s->g, v, flxi_number(s, v, x));
}

static flx_val plus(flxi_site *s, flx_val v, double x)
{
    return flx_add(s->g, v, flxi_number(s, v, x));
}

static flx_val uniform(flxi_site *s, draws d)
{
    return times(s, d.steps, d.step);
}

/* The middle of a step: never 0 or 1. */
static flx_val open_uniform(flxi_site *s, draws d)
{
    flx_val u = plus(s, times(s, d.steps, d.step), d.step / 2.0);
    return flx_min(s->g, u, flxi_number(s, u, 1.0 - d.step));
}

/* f64[n] as a result; the narrow floats are rounded from f32. */
static flx_val stored(flxi_site *s, flx_val v, const flx_type *t)
{
    flx_dtype dtype = (flx_dtype)t->dtype;
    flx_val narrow = dtype == FLX_F64 ? v : flx_cast(s->g, flx_cast(s->g, v, FLX_F32), dtype);
    return shaped(s, narrow, count_of(t), t);
}

void flxi_export_as_rng_uniform(flxi_site *s, flx_val *y)
{
    flx_type t = result_type(s, (flx_dtype)site_int(s, "dtype"));
    double lo = site_real(s, "lo");
    double hi = site_real(s, "hi");
    int64_t n = count_of(&t);
    if (n == 0) {
        y[0] = flxi_zeros(s, &t);
        return;
    }
    draws d = draw(s, (flx_dtype)t.dtype, n, s->nin > 0, (uint64_t)site_int(s, "stream"));
    y[0] = stored(s, plus(s, times(s, uniform(s, d), hi - lo), lo), &t);
}

/* Elements 2j and 2j + 1 are the cosine and the sine of one angle, at one radius. */
void flxi_export_as_rng_normal(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_type t = result_type(s, (flx_dtype)site_int(s, "dtype"));
    int64_t n = count_of(&t);
    flx_dim even = n + n % 2;
    flx_dim pairs[2] = {even / 2, 2};
    if (n == 0) {
        y[0] = flxi_zeros(s, &t);
        return;
    }
    draws d = draw(s, (flx_dtype)t.dtype, even, s->nin > 0, (uint64_t)site_int(s, "stream"));
    flx_val both = flxi_reshape_to(s, d.steps, 2, pairs);
    flx_val u1 = times(s, plus(s, flx_narrow(g, both, 1, 0, 1), 1.0), d.step);
    flx_val angle = times(s, times(s, flx_narrow(g, both, 1, 1, 1), d.step), 6.283185307179586476925286766559);
    flx_val radius = flx_sqrt(g, times(s, flx_log(g, u1), -2.0));
    flx_val z[2] = {flx_mul(g, radius, flx_cos(g, angle)), flx_mul(g, radius, flx_sin(g, angle))};
    flx_val normal = flxi_reshape_to(s, flx_concat(g, z, 2, 1), 1, &even);
    double mean = site_real(s, "mean");
    y[0] = stored(s, plus(s, times(s, normal, site_real(s, "std")), mean), &t);
}

void flxi_export_as_exponential(flxi_site *s, flx_val *y)
{
    flx_type t = result_type(s, (flx_dtype)site_int(s, "dtype"));
    if (count_of(&t) == 0) {
        y[0] = flxi_zeros(s, &t);
        return;
    }
    flx_val u = uniform(s, draw(s, (flx_dtype)t.dtype, count_of(&t), true, 0));
    y[0] = stored(s, flx_neg(s->g, flx_log1p(s->g, flx_neg(s->g, u))), &t);
}

void flxi_export_as_truncated_normal(flxi_site *s, flx_val *y)
{
    static const double root_of_two = 1.41421356237309504880;
    static const double reach = 0.95449973610364158560; /* erf of it */
    flx_type t = result_type(s, (flx_dtype)site_int(s, "dtype"));
    if (count_of(&t) == 0) {
        y[0] = flxi_zeros(s, &t);
        return;
    }
    flx_val u = open_uniform(s, draw(s, (flx_dtype)t.dtype, count_of(&t), true, 0));
    flx_val centred = times(s, plus(s, times(s, u, 2.0), -1.0), reach);
    y[0] = stored(s, times(s, flx_erf_inv(s->g, centred), root_of_two), &t);
}

/* ---- Choices ---- */

/* The largest of logits - ln(-ln u). */
void flxi_export_as_categorical(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    const flx_type *t = flxi_typeof(s, s->x[1]);
    flx_type out = flx_type_make(FLX_I32, t->rank - 1, t->dims);
    if (count_of(&out) == 0) {
        y[0] = flxi_zeros(s, &out);
        return;
    }
    flx_val u = open_uniform(s, draw(s, (flx_dtype)t->dtype, count_of(t), true, 0));
    flx_val noise = flx_log(g, flx_neg(g, flx_log(g, flxi_reshape_to(s, u, t->rank, t->dims))));
    flx_val score = flx_sub(g, flx_cast(g, s->x[1], FLX_F64), noise);
    y[0] = flx_argmax(g, score, t->rank - 1, 0, FLX_I32);
}

void flxi_export_as_permutation(flxi_site *s, flx_val *y)
{
    flx_dim n = site_int(s, "n");
    flx_type t = flx_type_make(FLX_I32, 1, &n);
    if (n == 0) {
        y[0] = flxi_zeros(s, &t);
        return;
    }
    flx_val bits = joined(s, words(s, key_number(s, true), from_zero(s), 0, 2 * n, "philox4x32"), n);
    y[0] = flx_argsort(s->g, bits, 0, 1, 0, FLX_I32);
}
