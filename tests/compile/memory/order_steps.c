/* SPDX-License-Identifier: Apache-2.0 */
/* order_steps.c: steps run late or early where that needs less memory. Weights in bf16 are made where they are read,
   forward and backward, and gradients in bf16 are in memory as such until the update: of a training step the working
   memory is then about half of the weights, not as much as they, and once more for their copies. */
#include "test.h"

#include <fluxion/fluxion.h>
#include <fluxion/train.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS = 6, WIDTH = 1024, ROWS = 16 };

static flx_module *make_layers(flx_context *ctx)
{
    char text[4096];
    flx_error err = {0};
    size_t n = (size_t)snprintf(text, sizeof text, "graph net(x0: f32[%d, %d]", ROWS, WIDTH);
    for (int l = 0; l < LAYERS; l++)
        n += (size_t)snprintf(text + n, sizeof text - n, ", param w%d: f32[%d, %d]", l, WIDTH, WIDTH);
    n += (size_t)snprintf(text + n, sizeof text - n, ") {\n");
    for (int l = 0; l < LAYERS; l++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "  x%d = tanh(cast(matmul(cast(x%d, to=bf16), cast(w%d, to=bf16)), to=f32))\n", l + 1, l,
                              l);
    n += (size_t)snprintf(text + n, sizeof text - n, "  return reduce_mean(mul(x%d, x%d))\n}\n", LAYERS, LAYERS);
    flx_module *m = flx_parse(ctx, text, n, "layers", &err);
    CHECK_MADE(m, &err);
    return m;
}

static const size_t weight_bytes = (size_t)LAYERS * WIDTH * WIDTH * sizeof(float);

TEST(order_of_steps_makes_narrow_weights_where_they_are_read)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = make_layers(ctx);
    static const char *const wrt[LAYERS] = {"w0", "w1", "w2", "w3", "w4", "w5"};
    flx_graph *g = flx_grad(flx_module_main(m), wrt, LAYERS, NULL, &err);
    CHECK_MADE(g, &err);
    const flx_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    flx_exec *e = flx_compile(g, &o, &err);
    CHECK_MADE(e, &err);
    CHECK_MSG(flx_exec_memory(e) < weight_bytes / 3, "%zu bytes", flx_exec_memory(e));
    flx_exec_free(e);
    flx_graph_release(g);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(order_of_steps_keeps_gradients_as_narrow_as_they_are_until_the_update)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = make_layers(ctx);
    const flx_train_options train = {.struct_size = sizeof train, .optimiser = FLX_ADAMW, .rate = 1e-3};
    const flx_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    flx_trainer *t = flx_compile_training(flx_module_main(m), &train, &o, &err);
    CHECK_MADE(t, &err);
    size_t work = flx_exec_memory(flx_trainer_exec(t));
    CHECK_MSG(work < weight_bytes * 3 / 4, "%zu bytes", work);
    flx_trainer_free(t);
    flx_module_free(m);
    flx_context_free(ctx);
}
