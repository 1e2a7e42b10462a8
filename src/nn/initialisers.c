/* SPDX-License-Identifier: Apache-2.0 */
/* initialisers.c: the numbers that a parameter is initialised with, computed by small graphs, so that a seed gives the
   same numbers on every machine. */
#include "graph/initialisation.h"
#include "nn/layer.h"

#include <fluxion/run.h>
#include <math.h>

static flx_ints shape_of(const flx_type *t)
{
    return (flx_ints){t->dims, (size_t)t->rank};
}

static flx_val uniform(flx_graph *g, const flx_type *t, double bound, uint64_t seed)
{
    const flx_attr attrs[] = {flx_attr_ints("shape", shape_of(t)),
                              flx_attr_dtype("dtype", (flx_dtype)t->dtype),
                              flx_attr_real("lo", -bound),
                              flx_attr_real("hi", bound),
                              flx_attr_int("seed", (int64_t)(seed & UINT32_MAX)),
                              flx_attr_int("stream", (int64_t)(seed >> 32))};
    return flx_op1(g, "rng_uniform", NULL, 0, attrs, 6);
}

static flx_val normal(flx_graph *g, const flx_type *t, double deviation, uint64_t seed)
{
    const flx_attr attrs[] = {flx_attr_ints("shape", shape_of(t)), flx_attr_dtype("dtype", (flx_dtype)t->dtype),
                              flx_attr_real("std", deviation), flx_attr_int("seed", (int64_t)(seed & UINT32_MAX)),
                              flx_attr_int("stream", (int64_t)(seed >> 32))};
    return flx_op1(g, "rng_normal", NULL, 0, attrs, 5);
}

/* The distribution function of the normal numbers within two deviations is a multiple of erf(x / sqrt(2)); its inverse
   takes uniform numbers to them. */
static flx_val truncated_normal(flx_graph *g, const flx_type *t, double deviation, uint64_t seed)
{
    flx_type wide = *t;
    wide.dtype = t->dtype == FLX_F64 ? FLX_F64 : FLX_F32;
    flx_val u = uniform(g, &wide, erf(sqrt(2)), seed);
    flx_val x = flx_mul(g, flx_erf_inv(g, u), flx_scalar(g, (flx_dtype)wide.dtype, deviation * sqrt(2)));
    return t->dtype == wide.dtype ? x : flx_cast(g, x, (flx_dtype)t->dtype);
}

/* Q of a random matrix with at least as many rows as columns, in f64; transposed if the type has fewer rows than
   columns. */
static flx_val orthogonal(flx_graph *g, const flx_type *t, double gain, uint64_t seed)
{
    int64_t columns = t->rank ? t->dims[t->rank - 1] : 1, rows = 1;
    for (int k = 0; k + 1 < t->rank; k++)
        rows *= t->dims[k];
    const flx_dim dims[] = {rows > columns ? rows : columns, rows > columns ? columns : rows};
    flx_type tall = flx_type_make(FLX_F64, 2, dims);
    flx_val x = normal(g, &tall, 1, seed), factors[2] = {FLX_NONE, FLX_NONE};
    flx_op(g, "qr", &x, 1, NULL, 0, factors, 2);
    flx_val q = rows > columns ? factors[0] : flx_transpose(g, factors[0], (flx_ints){0, 0});
    q = flx_mul(g, q, flx_scalar(g, FLX_F64, gain));
    return flx_reshape(g, flx_cast(g, q, (flx_dtype)t->dtype), shape_of(t));
}

static flx_val constant(flx_graph *g, const flx_type *t, double value)
{
    return flx_expand(g, flx_scalar(g, (flx_dtype)t->dtype, value), shape_of(t));
}

static flx_val identity(flx_graph *g, const flx_type *t, double value)
{
    flx_eye_attrs attrs = FLX_EYE_ATTRS;
    attrs.n = t->dims[0];
    attrs.m = t->dims[1];
    attrs.dtype = (flx_dtype)t->dtype;
    return flx_mul(g, flx_eye_with(g, &attrs), flx_scalar(g, (flx_dtype)t->dtype, value));
}

static flx_val key(flx_graph *g, const flx_type *t, uint64_t seed)
{
    const flx_val words[] = {flx_scalar(g, FLX_U32, (double)(seed & UINT32_MAX)),
                             flx_scalar(g, FLX_U32, (double)(seed >> 32))};
    return flx_rng_bits(g, flx_stack(g, words, 2, 0), shape_of(t), FLX_U32, NULL);
}

static flx_val values(flx_graph *g, const flx_type *t, flx_init init, uint64_t seed)
{
    init = flxi_init_settled(t, init);
    switch (init.kind) {
    case FLX_INIT_CONSTANT: return constant(g, t, init.scale);
    case FLX_INIT_UNIFORM: return uniform(g, t, init.scale, seed);
    case FLX_INIT_NORMAL: return normal(g, t, init.scale, seed);
    case FLX_INIT_TRUNCATED_NORMAL: return truncated_normal(g, t, init.scale, seed);
    case FLX_INIT_ORTHOGONAL: return orthogonal(g, t, init.scale, seed);
    case FLX_INIT_IDENTITY: return identity(g, t, init.scale);
    case FLX_INIT_KEY: return key(g, t, seed);
    default: return constant(g, t, 0);
    }
}

static flx_code check(flx_context *ctx, const flx_type *type, flx_init *init, flx_error *err)
{
    static const char function[] = "flx_init_tensor";
    if (!ctx || !type)
        return flxi_fail(err, FLX_E_USAGE, "%s needs a context and a type", function);
    FLXI_TRY(flxi_type_check(ctx, type, err));
    if (init->kind == FLX_INIT_USUAL)
        *init = flxi_init_usual(NULL, type);
    FLXI_TRY(flxi_init_check(type, init, err));
    flxi_type_text text;
    if (!flxi_type_is_static(type))
        return flxi_fail_hint(err, FLX_E_UNBOUND_DIM, "flx_specialise() gives symbols their extents",
                              "%s: the extents must be numbers, but the type is %s", function,
                              flxi_type_str(ctx, type, &text));
    return FLX_OK;
}

flx_tensor *flx_init_tensor(flx_context *ctx, const flx_type *type, flx_init init, uint64_t seed, flx_error *err)
{
    flx_tensor *out = NULL;
    if (check(ctx, type, &init, err) != FLX_OK)
        return NULL;
    flx_graph *g = flx_graph_new(ctx, "init");
    if (!g) {
        flxi_oom(err, "initial values");
        return NULL;
    }
    flx_output(g, values(g, type, init, seed), "values");
    const flx_run_options o = {.device = "ref"};
    if (flx_graph_error(g, err) == FLX_OK)
        flx_run(g, &o, NULL, 0, &out, err);
    flx_graph_release(g);
    return out;
}
