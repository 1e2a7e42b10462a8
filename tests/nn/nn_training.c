/* SPDX-License-Identifier: Apache-2.0 */
/* nn_training.c: a trainer carries the states of layers from step to step, and the network for inference has the same
   parameters. */
#include "test.h"

#include <fluxion/fluxion.h>
#include <fluxion/nn.h>
#include <math.h>

enum { IMAGES = 12, CLASSES = 3, PIXELS = 36, STEPS = 80 };

static flx_val classify(flx_graph *g, flx_val x, int is_training)
{
    const flx_nn_batch_norm_options norm = {.struct_size = sizeof norm, .is_training = is_training};
    x = flx_nn_conv(g, "conv", x, 8, NULL);
    x = flx_nn_activate(g, flx_nn_batch_norm(g, "norm", x, &norm), "relu");
    x = flx_nn_dropout(g, x, is_training ? flx_nn_key(g, "key") : FLX_NONE, 0.1);
    x = flx_nn_adaptive_avg_pool(g, x, FLX_INTS(3));
    return flx_nn_linear(g, "head", flx_reshape(g, x, FLX_INTS(IMAGES, -1)), CLASSES, NULL);
}

static flx_graph *network(flx_context *ctx, int is_training)
{
    flx_graph *g = flx_graph_new(ctx, is_training ? "training" : "inference");
    flx_type images = flx_type_make(FLX_F32, 4, (flx_dim[]){IMAGES, 1, 6, 6});
    flx_type labels = flx_type_make(FLX_I32, 1, (flx_dim[]){IMAGES});
    flx_val x = flx_input(g, "x", &images), label = flx_input(g, "label", &labels);
    flx_val logits = classify(g, x, is_training);
    flx_output(g, flx_nn_cross_entropy(g, logits, label, 0), "loss");
    flx_output(g, flx_argmax(g, logits, 1, 0, FLX_I32), "guess");
    return g;
}

/* Class k has a bright third of its rows, on a background that is not centred. */
static flx_tensor *make_images(flx_context *ctx, const flx_type *type)
{
    float x[IMAGES * PIXELS];
    for (int i = 0; i < IMAGES; i++)
        for (int p = 0; p < PIXELS; p++)
            x[i * PIXELS + p] = 5.0f + (p / 12 == i % CLASSES ? 2.0f : 0.0f) + 0.1f * (float)((7 * i + 3 * p) % 11);
    return flx_tensor_new(ctx, type, x, NULL);
}

static double param(const flx_trainer *t, const char *name, int64_t i)
{
    flx_tensor *x = flx_params_find(flx_trainer_params(t), name);
    CHECK_MSG(x, "%s", name);
    return flx_tensor_get(x, i);
}

TEST(nn_trainer_carries_the_states_of_layers)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *training = network(ctx, 1), *inference = network(ctx, 0);
    int32_t numbers[IMAGES];
    for (int i = 0; i < IMAGES; i++)
        numbers[i] = i % CLASSES;
    flx_tensor *x = make_images(ctx, flx_val_type(training, flx_graph_find(training, "x")));
    flx_tensor *label = flx_tensor_new(ctx, flx_val_type(training, flx_graph_find(training, "label")), numbers, &err);
    const flx_train_options adam = {.struct_size = sizeof adam, .optimiser = FLX_ADAM, .rate = 0.02};
    flx_trainer *t = flx_compile_training(training, &adam, NULL, &err);
    CHECK_MSG(t && x && label, "%s", err.message);
    flx_feed feeds[32] = {{"x", x}, {"label", label}};
    double first = 0, loss = 0, keys[2];
    for (int step = 0; step < STEPS; step++) {
        CHECK_OK(flx_trainer_step(t, feeds, 2, &loss, &err), &err);
        if (step == 0)
            first = loss;
        if (step < 2)
            keys[step] = param(t, "key", 0) + 4294967296.0 * param(t, "key", 1);
    }
    CHECK(keys[0] != keys[1]);
    CHECK_MSG(loss < 0.5 * first, "%g after %g", loss, first);
    double largest = 0;
    for (int i = 0; i < 8; i++) {
        largest = fmax(largest, fabs(param(t, "norm.mean", i)));
        CHECK(param(t, "norm.var", i) > 0 && isfinite(param(t, "norm.var", i)));
    }
    CHECK_MSG(largest > 0.1, "the running means are still 0: %g", largest);
    size_t n = 2 + flx_params_feeds(flx_trainer_params(t), inference, feeds + 2, 30);
    CHECK(n <= 32);
    flx_tensor *out[2] = {NULL, NULL};
    CHECK_OK(flx_run(inference, ON_REF, feeds, n, out, &err), &err);
    int right = 0;
    for (int i = 0; i < IMAGES; i++)
        right += flx_tensor_get(out[1], i) == numbers[i];
    CHECK_MSG(right >= IMAGES - 1, "%d of %d are right", right, IMAGES);
    flx_tensor *all[] = {x, label, out[0], out[1]};
    for (size_t i = 0; i < 4; i++)
        flx_tensor_release(all[i]);
    flx_trainer_free(t);
    flx_graph_release(training);
    flx_graph_release(inference);
    flx_context_free(ctx);
}
