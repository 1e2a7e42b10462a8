/* SPDX-License-Identifier: Apache-2.0 */
/* initialisers.c: initial values of parameters, computed by small graphs, so that a seed gives the same numbers on
   every machine. */
#include "nn/layer.h"

#include <fluxion/run.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

flx_nn_init_kind flx_nn_usual_init(const char *name)
{
    const char *end = name ? strrchr(name, '.') : NULL;
    end = end ? end + 1 : name ? name : "";
    if (strcmp(end, "gamma") == 0)
        return FLX_NN_ONES;
    if (strcmp(end, "b") == 0 || strcmp(end, "c") == 0 || strcmp(end, "beta") == 0)
        return FLX_NN_ZEROS;
    return FLX_NN_XAVIER_UNIFORM;
}

/* Fan-in, how many numbers one result depends on, and fan-out, how many results depend on one number. */
typedef struct {
    double inputs, outputs;
} fans;

static fans fans_of(const flx_type *t)
{
    fans f = {t->rank ? (double)t->dims[0] : 1, t->rank ? (double)t->dims[t->rank - 1] : 1};
    if (t->rank <= 2)
        return f;
    f = (fans){(double)t->dims[1], (double)t->dims[0]};
    for (int k = 2; k < t->rank; k++) {
        f.inputs *= (double)t->dims[k];
        f.outputs *= (double)t->dims[k];
    }
    return f;
}

static flx_val uniform(flx_graph *g, const flx_type *t, double bound, uint64_t seed)
{
    const flx_attr attrs[] = {flx_attr_ints("shape", (flx_ints){t->dims, (size_t)t->rank}),
                              flx_attr_dtype("dtype", (flx_dtype)t->dtype),
                              flx_attr_real("lo", -bound),
                              flx_attr_real("hi", bound),
                              flx_attr_int("seed", (int64_t)(seed & UINT32_MAX)),
                              flx_attr_int("stream", (int64_t)(seed >> 32))};
    return flx_op1(g, "rng_uniform", NULL, 0, attrs, 6);
}

static flx_val normal(flx_graph *g, const flx_type *t, double deviation, uint64_t seed)
{
    const flx_attr attrs[] = {flx_attr_ints("shape", (flx_ints){t->dims, (size_t)t->rank}),
                              flx_attr_dtype("dtype", (flx_dtype)t->dtype), flx_attr_real("std", deviation),
                              flx_attr_int("seed", (int64_t)(seed & UINT32_MAX)),
                              flx_attr_int("stream", (int64_t)(seed >> 32))};
    return flx_op1(g, "rng_normal", NULL, 0, attrs, 5);
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
    return flx_reshape(g, flx_cast(g, q, (flx_dtype)t->dtype), (flx_ints){t->dims, (size_t)t->rank});
}

static flx_val values(flx_graph *g, const flx_type *t, flx_nn_init_kind kind, double gain, uint64_t seed)
{
    fans f = fans_of(t);
    double both = f.inputs + f.outputs > 0 ? f.inputs + f.outputs : 1, in = f.inputs > 0 ? f.inputs : 1;
    switch (kind) {
    case FLX_NN_XAVIER_UNIFORM: return uniform(g, t, gain * sqrt(6 / both), seed);
    case FLX_NN_XAVIER_NORMAL: return normal(g, t, gain * sqrt(2 / both), seed);
    case FLX_NN_HE_UNIFORM: return uniform(g, t, gain * sqrt(6 / in), seed);
    case FLX_NN_HE_NORMAL: return normal(g, t, gain * sqrt(2 / in), seed);
    case FLX_NN_ORTHOGONAL: return orthogonal(g, t, gain, seed);
    default:
        return flx_expand(g, flx_scalar(g, (flx_dtype)t->dtype, kind == FLX_NN_ONES ? gain : 0),
                          (flx_ints){t->dims, (size_t)t->rank});
    }
}

static flx_tensor *fail(flx_error *err, flx_code code, const char *message)
{
    if (err) {
        memset(err, 0, sizeof *err);
        err->code = code;
        snprintf(err->message, sizeof err->message, "%s", message);
    }
    return NULL;
}

flx_tensor *flx_nn_init(flx_context *ctx, const flx_type *type, flx_nn_init_kind kind, double gain, uint64_t seed,
                        flx_error *err)
{
    if (!ctx || !type || type->rank < 0 || type->rank > FLX_MAX_RANK)
        return fail(err, FLX_E_USAGE, "flx_nn_init needs a context and a type");
    if ((int)kind < 0 || kind > FLX_NN_ORTHOGONAL)
        return fail(err, FLX_E_USAGE, "flx_nn_init: unknown kind of initialisation");
    if (flx_dtype_size(type->dtype) == 0 || type->dtype > FLX_BF16)
        return fail(err, FLX_E_DTYPE, "flx_nn_init: the dtype must be floating");
    if (!isfinite(gain))
        return fail(err, FLX_E_USAGE, "flx_nn_init: the gain must be finite");
    for (int k = 0; k < type->rank; k++)
        if (!flx_dim_is_static(type->dims[k]))
            return fail(err, FLX_E_UNBOUND_DIM, "flx_nn_init: the extents must be static");
    flx_graph *g = flx_graph_new(ctx, "init");
    flx_tensor *out = NULL;
    if (!g)
        return fail(err, FLX_E_OOM, "out of memory: initial values");
    flx_output(g, values(g, type, kind, gain, seed), "values");
    const flx_run_options o = {.device = "ref"};
    if (flx_graph_error(g, err) == FLX_OK)
        flx_run(g, &o, NULL, 0, &out, err);
    flx_graph_release(g);
    return out;
}
