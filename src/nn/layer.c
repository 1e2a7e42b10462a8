/* SPDX-License-Identifier: Apache-2.0 */
/* layer.c: what layers share, and layers of single vectors: linear, embedding, dropout. */
#include "nn/layer.h"

#include "base/options.h"
#include "base/text/count_words.h"
#include "graph/graph.h"

#include <fluxion/catalogue.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Types ---- */

const flx_type *flxi_nn_type(flx_graph *g, flx_val v)
{
    static const flx_type harmless = {.dtype = FLX_F32, .rank = 1, .dims = {1}};
    const flx_type *t = flx_val_type(g, v);
    return t ? t : &harmless;
}

flx_dtype flxi_nn_dtype(flx_graph *g, flx_val v)
{
    return (flx_dtype)flxi_nn_type(g, v)->dtype;
}

flx_dim flxi_nn_width(flx_graph *g, flx_val v)
{
    const flx_type *t = flxi_nn_type(g, v);
    return t->rank ? t->dims[t->rank - 1] : 1;
}

bool flxi_nn_is_integer(flx_graph *g, flx_val v)
{
    return flxi_nn_dtype(g, v) >= FLX_I64 && flxi_nn_dtype(g, v) <= FLX_U8;
}

flx_val flxi_nn_number(flx_graph *g, flx_val like, double x)
{
    return flx_scalar(g, flxi_nn_dtype(g, like), x);
}

flx_val flxi_nn_swap01(flx_graph *g, flx_val v)
{
    int64_t perm[FLX_MAX_RANK];
    int rank = flxi_nn_type(g, v)->rank;
    for (int k = 0; k < rank; k++)
        perm[k] = k < 2 && rank > 1 ? 1 - k : k;
    return flx_transpose(g, v, (flx_ints){perm, (size_t)rank});
}

flx_val flxi_nn_per_channel(flx_graph *g, flx_val v, int spatial)
{
    int64_t axes[FLX_MAX_RANK];
    for (int k = 0; k < spatial; k++)
        axes[k] = k + 1;
    return spatial ? flx_unsqueeze(g, v, (flx_ints){axes, (size_t)spatial}) : v;
}

/* ---- Parameters and states ---- */

const char *flxi_nn_join(char *buffer, const char *name, const char *part)
{
    snprintf(buffer, FLXI_NN_NAME, "%s.%s", name ? name : "", part);
    return buffer;
}

flx_init flxi_nn_zeros(void)
{
    return (flx_init){.kind = FLX_INIT_ZEROS};
}

flx_init flxi_nn_ones(void)
{
    return (flx_init){.kind = FLX_INIT_ONES};
}

flx_init flxi_nn_uniform(double inputs)
{
    return (flx_init){.kind = FLX_INIT_UNIFORM, .scale = 1 / sqrt(inputs > 0 ? inputs : 1)};
}

flx_val flxi_nn_param(flx_graph *g, const char *name, const char *part, flx_dtype dtype, const flx_dim *dims, int rank,
                      flx_init init)
{
    char full[FLXI_NN_NAME];
    flx_type type = flx_type_make(dtype, rank, dims);
    return flx_set_init(g, flx_param(g, flxi_nn_join(full, name, part), &type), init);
}

void flxi_nn_update(flx_graph *g, flx_val param, flx_val next)
{
    if (flx_graph_error(g, NULL) == FLX_OK)
        flxi_output_update(g, param, next);
}

/* ---- Options and errors ---- */

void flxi_nn_read(flx_graph *g, void *dst, size_t size, size_t alignment, const void *given, const char *name)
{
    flx_error err = {0};
    if (flxi_options_read(dst, size, size, alignment, given, name, &err) == FLX_OK || !g)
        return;
    memset(dst, 0, size);
    flxi_graph_fail(g, &err);
}

static void fail(flx_graph *g, flx_code code, const char *hint, const char *function, const char *fmt, va_list args)
{
    char text[200];
    flxi_format_va(text, sizeof text, fmt, args);
    flxi_graph_failf(g, code, hint, "%s: %s", function, text);
}

bool flxi_nn_require(flx_graph *g, bool is_fit, const char *function, const char *fmt, ...)
{
    va_list args;
    if (is_fit || flx_graph_error(g, NULL) != FLX_OK)
        return is_fit;
    va_start(args, fmt);
    fail(g, FLX_E_USAGE, NULL, function, fmt, args);
    va_end(args);
    return false;
}

bool flxi_nn_require_shape(flx_graph *g, bool is_fit, const char *hint, const char *function, const char *fmt, ...)
{
    va_list args;
    if (is_fit || flx_graph_error(g, NULL) != FLX_OK)
        return is_fit;
    va_start(args, fmt);
    fail(g, FLX_E_SHAPE, hint, function, fmt, args);
    va_end(args);
    return false;
}

const char *flxi_nn_text(flx_graph *g, flx_val v, flxi_nn_type_text *text)
{
    flx_type_print(flx_graph_context(g), flxi_nn_type(g, v), text->s, sizeof text->s);
    return text->s;
}

bool flxi_nn_check_name(flx_graph *g, const char *function, const char *name)
{
    return flxi_nn_require(g, name != NULL, function, "the name of the layer is NULL");
}

bool flxi_nn_check_layer(flx_graph *g, const char *function, const char *name, int64_t units)
{
    return flxi_nn_check_name(g, function, name) &&
           flxi_nn_require(g, units > 0, function, "the number of units must be positive, got %lld", (long long)units);
}

bool flxi_nn_check_activation(flx_graph *g, const char *function, const char *activation)
{
    flx_op_view op;
    if (!activation)
        return true;
    bool is_known = flx_op_find(activation, &op) == FLX_OK;
    if (!is_known && flx_graph_error(g, NULL) == FLX_OK)
        flxi_graph_failf(g, FLX_E_NAME, NULL, "%s: there is no activation called '%.60s'", function, activation);
    return is_known && flxi_nn_require(g, op.min_operands == 1, function,
                                       "'%.60s' is not an activation: it does not take one operand", activation);
}

bool flxi_nn_check_eps(flx_graph *g, const char *function, double eps)
{
    return flxi_nn_require(g, eps >= 0 && isfinite(eps), function, "eps must be a finite number >= 0, got %g", eps);
}

bool flxi_nn_check_rank(flx_graph *g, const char *function, flx_val x, int least, int most, const char *shape)
{
    flxi_nn_type_text text;
    if (!flx_val_type(g, x)) /* the graph has an error, or gets one from the next op */
        return true;
    int rank = flxi_nn_type(g, x)->rank;
    return flxi_nn_require_shape(g, rank >= least && rank <= most, NULL, function, "x must be %s, but it is %s", shape,
                                 flxi_nn_text(g, x, &text));
}

bool flxi_nn_check_same(flx_graph *g, const char *function, flx_val x, flx_val y)
{
    const flx_type *a = flx_val_type(g, x), *b = flx_val_type(g, y);
    flxi_nn_type_text first, second;
    if (!a || !b) /* the graph has an error, or gets one from the next op */
        return true;
    bool is_same = a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
    return flxi_nn_require_shape(g, is_same, "reshape or expand one of them", function,
                                 "the shapes of %s and %s differ", flxi_nn_text(g, x, &first),
                                 flxi_nn_text(g, y, &second));
}

/* ---- Activation ---- */

flx_val flxi_nn_activate(flx_graph *g, flx_val x, const char *activation)
{
    if (!activation)
        return x;
    flx_val y = flx_op1(g, activation, &x, 1, NULL, 0);
    const flx_type *before = flx_val_type(g, x), *after = flx_val_type(g, y);
    bool is_same = !after || (before && before->dtype == after->dtype && before->rank == after->rank &&
                              memcmp(before->dims, after->dims, (size_t)after->rank * sizeof *after->dims) == 0);
    flxi_nn_require(g, is_same, "fluxion/nn.h", "'%.60s' is not an activation: it changes the type", activation);
    return y;
}

flx_val flx_nn_activate(flx_graph *g, flx_val x, const char *activation)
{
    if (!flxi_nn_check_activation(g, "flx_nn_activate", activation))
        return FLX_NONE;
    return flxi_nn_activate(g, x, activation);
}

/* ---- Linear ---- */

flx_val flx_nn_project(flx_graph *g, const char *name, flx_val x, int64_t units)
{
    const flx_dim dims[] = {flxi_nn_width(g, x), units};
    if (!flxi_nn_check_layer(g, "flx_nn_project", name, units))
        return FLX_NONE;
    const flx_init init = {.kind = FLX_INIT_XAVIER_UNIFORM};
    return flx_matmul(g, x, flxi_nn_param(g, name, "w", flxi_nn_dtype(g, x), dims, 2, init));
}

flx_val flx_nn_linear(flx_graph *g, const char *name, flx_val x, int64_t units, const char *activation)
{
    if (!flxi_nn_check_layer(g, "flx_nn_linear", name, units) ||
        !flxi_nn_check_activation(g, "flx_nn_linear", activation))
        return FLX_NONE;
    flx_val y = flx_nn_project(g, name, x, units);
    flx_val b = flxi_nn_param(g, name, "b", flxi_nn_dtype(g, x), &units, 1, flxi_nn_zeros());
    return flxi_nn_activate(g, flx_add(g, y, b), activation);
}

flx_val flx_nn_mlp(flx_graph *g, const char *name, flx_val x, const int64_t *units, size_t count,
                   const char *activation)
{
    if (!flxi_nn_require(g, name && units && count, "flx_nn_mlp", "a name and at least one layer are needed") ||
        !flxi_nn_check_activation(g, "flx_nn_mlp", activation))
        return FLX_NONE;
    for (size_t i = 0; i < count; i++) {
        char layer[FLXI_NN_NAME], number[24];
        snprintf(number, sizeof number, "%zu", i);
        x = flx_nn_linear(g, flxi_nn_join(layer, name, number), x, units[i], i + 1 < count ? activation : NULL);
    }
    return x;
}

/* ---- Others ---- */

flx_val flx_nn_embedding(flx_graph *g, const char *name, flx_val indices, int64_t count, int64_t width, flx_dtype dtype)
{
    static const char function[] = "flx_nn_embedding";
    const flx_dim dims[] = {count, width};
    if (!flxi_nn_check_layer(g, function, name, width) ||
        !flxi_nn_require(g, count > 0, function, "the count must be positive, got %lld", (long long)count) ||
        !flxi_nn_require(g, flxi_nn_is_integer(g, indices), function, "indices must be integers, not %s",
                         flx_dtype_name(flxi_nn_dtype(g, indices))))
        return FLX_NONE;
    const flx_init init = {.kind = FLX_INIT_NORMAL, .scale = 0.02};
    return flx_gather(g, flxi_nn_param(g, name, "table", dtype, dims, 2, init), indices, 0, NULL);
}

/* Row 0 of the split key is the next state, row 1 the key of this step. */
flx_val flx_nn_key(flx_graph *g, const char *name)
{
    const flx_dim two = 2;
    flx_type type = flx_type_make(FLX_U32, 1, &two);
    if (!flxi_nn_require(g, name != NULL, "flx_nn_key", "the name of the state is NULL"))
        return FLX_NONE;
    flx_val state = flx_set_init(g, flx_param(g, name, &type), (flx_init){.kind = FLX_INIT_KEY});
    flx_val keys = flx_rng_split(g, state, 2);
    flxi_nn_update(g, state, flx_squeeze(g, flx_narrow(g, keys, 0, 0, 1), FLX_INTS(0)));
    return flx_squeeze(g, flx_narrow(g, keys, 0, 1, 1), FLX_INTS(0));
}

flx_val flx_nn_dropout(flx_graph *g, flx_val x, flx_val key, double rate)
{
    if (!flxi_nn_require(g, rate >= 0 && rate <= 1, "flx_nn_dropout", "the rate must be in [0, 1], got %g", rate))
        return FLX_NONE;
    return key.id && rate > 0 ? flx_dropout(g, x, key, rate) : x;
}
