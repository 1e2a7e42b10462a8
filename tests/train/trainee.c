/* SPDX-License-Identifier: Apache-2.0 */
/* trainee.c: see trainee.h. */
#include "trainee.h"

#include <stdio.h>
#include <string.h>

const char trainee_network[] =
    "graph net(x: %s[N, 6], y: %s[N, 4], param w1: %s[6, 8], param b1: %s[8], param w2: %s[8, 4], param b2: %s[4]) {\n"
    "  h = tanh(add(matmul(x, w1), b1))\n"
    "  z = add(matmul(h, w2), b2)\n"
    "  loss = neg(reduce_mean(mul(y, log_softmax(z, axis=-1))))\n"
    "  return loss, z\n"
    "}\n";

flx_graph *trainee_graph(flx_context *ctx, const char *text, flx_dtype dtype)
{
    char full[4000];
    size_t n = 0;
    flx_error err = {0};
    for (const char *s = text; *s && n + 8 < sizeof full;) {
        bool is_place = s[0] == '%' && s[1] == 's';
        n += is_place ? (size_t)snprintf(full + n, 8, "%s", flx_dtype_name(dtype)) : 0;
        if (!is_place)
            full[n++] = *s;
        s += is_place ? 2 : 1;
    }
    flx_module *m = flx_parse(ctx, full, n, "trainee", &err);
    CHECK_MSG(m, "%s: %s", err.where, err.message);
    flx_graph *g = flx_graph_retain(flx_module_main(m));
    flx_module_free(m);
    return g;
}

flx_compile_options trainee_options(int32_t threads)
{
    static const flx_dim_binding batch = {"N", 16};
    return (flx_compile_options){.threads = threads, .dims = &batch, .num_dims = 1};
}

/* ---- Values ---- */

flx_tensor *trainee_random(flx_context *ctx, const flx_type *type, uint64_t *seed)
{
    flx_error err = {0};
    flx_type wide = *type;
    wide.dtype = FLX_F64;
    flx_tensor *t = flx_tensor_new(ctx, &wide, NULL, &err);
    CHECK_MSG(t, "%s", err.message);
    for (int64_t i = 0; i < flx_tensor_count(t); i++)
        ((double *)flx_tensor_data(t))[i] = 2 * test_uniform(seed) - 1;
    flx_tensor *narrow = flx_tensor_cast(t, (flx_dtype)type->dtype, &err);
    CHECK_MSG(narrow, "%s", err.message);
    flx_tensor_release(t);
    return narrow;
}

trainee_values trainee_values_for(const flx_graph *step, uint64_t seed)
{
    trainee_values v = {.n = flx_graph_input_count(step)};
    CHECK(v.n <= TRAINEE_LEAVES);
    for (size_t i = 0; i < v.n; i++) {
        flx_val leaf = flx_graph_input(step, i);
        const flx_type *type = flx_val_type(step, leaf);
        v.at[i].name = flx_val_name(step, leaf);
        bool is_state = strncmp(v.at[i].name, "state_", 6) == 0;
        v.at[i].value = is_state ? flx_tensor_new(flx_graph_context(step), type, NULL, NULL)
                                 : trainee_random(flx_graph_context(step), type, &seed);
        CHECK(v.at[i].value);
    }
    return v;
}

void trainee_release(trainee_values *v)
{
    for (size_t i = 0; i < v->n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)v->at[i].value);
    v->n = 0;
}

const flx_tensor *trainee_find(const trainee_values *v, const char *name)
{
    for (size_t i = 0; i < v->n; i++)
        if (strcmp(v->at[i].name, name) == 0)
            return v->at[i].value;
    return NULL;
}

size_t trainee_begin(flx_trainer *t, const flx_graph *step, const trainee_values *v, flx_feed *inputs)
{
    size_t n = 0;
    flx_error err = {0};
    for (size_t i = 0; i < v->n; i++) {
        if (flx_graph_input_is_param(step, i))
            CHECK_OK(flx_trainer_set_param(t, v->at[i].name, v->at[i].value, &err), &err);
        else
            inputs[n++] = v->at[i];
    }
    return n;
}

/* ---- Trainers ---- */

flx_trainer *trainee_trainer(const flx_graph *g, const flx_train_options *o, const flx_compile_options *c)
{
    flx_error err = {0};
    flx_trainer *t = flx_compile_training(g, o, c, &err);
    CHECK_MADE(t, &err);
    return t;
}

double trainee_element(const flx_trainer *t, const char *name, int64_t i)
{
    flx_error err = {0};
    flx_tensor *x = flx_trainer_param(t, name, &err);
    CHECK_MADE(x, &err);
    double value = flx_tensor_get(x, i);
    flx_tensor_release(x);
    return value;
}

flx_tensor *trainee_numbers(flx_context *ctx, flx_dtype dtype, int64_t n, const double *x)
{
    const flx_type wide = flx_type_make(FLX_F64, n ? 1 : 0, (flx_dim[]){n});
    flx_tensor *t = flx_tensor_new(ctx, &wide, x, NULL), *narrow = flx_tensor_cast(t, dtype, NULL);
    CHECK(narrow);
    flx_tensor_release(t);
    return narrow;
}

void trainee_set(flx_trainer *t, flx_context *ctx, const char *name, double a, double b)
{
    flx_error err = {0};
    flx_tensor *x = trainee_numbers(ctx, FLX_F32, 2, (double[]){a, b});
    CHECK_OK(flx_trainer_set_param(t, name, x, &err), &err);
    flx_tensor_release(x);
}
