/* SPDX-License-Identifier: Apache-2.0 */
/* two_trainings.c: trainings in one process do not know of each other: at the same time on two threads, with contexts
   of their own, they end with the bits that they have alone. */
#include "trainee.h"

#include <fluxion/data.h>
#include <fluxion/nn.h>
#include <pthread.h>
#include <string.h>

enum { STEPS = 12, UNITS = 24 };

typedef struct {
    uint64_t seed;
    int32_t optimiser;
    double loss;
    float w[UNITS * 10]; /* of the last layer */
    flx_error err;
} training;

static flx_graph *build(flx_context *ctx)
{
    flx_graph *g = flx_graph_new(ctx, "loss");
    flx_dim n = flx_dim_symbol(ctx, "N");
    const flx_type image = flx_type_make(FLX_F32, 4, (flx_dim[]){n, 1, 28, 28}), label = flx_type_make(FLX_I32, 1, &n);
    flx_val x = flx_reshape(g, flx_input(g, "x", &image), FLX_INTS(-1, 784));
    flx_val z = flx_nn_mlp(g, "net", x, (const int64_t[]){UNITS, 10}, 2, "relu");
    flx_output(g, flx_nn_cross_entropy(g, z, flx_input(g, "label", &label), 0), "loss");
    return g;
}

/* No CHECK here: it is for the thread of the test. */
static void *train(void *user)
{
    training *k = user;
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = build(ctx);
    const flx_train_options o = {.struct_size = sizeof o, .optimiser = k->optimiser, .seed = k->seed};
    const flx_loader_options batches = {
        .struct_size = sizeof batches, .flags = FLX_LOADER_SHUFFLE | FLX_LOADER_PREFETCH, .batch = 16, .seed = k->seed};
    flx_trainer *t = flx_compile_training(g, &o, NULL, &k->err);
    flx_dataset *d = t ? flx_digits(ctx, 100, k->seed, &k->err) : NULL;
    flx_loader *l = d ? flx_loader_new(d, &batches, &k->err) : NULL;
    const flx_fit_options fit = {
        .struct_size = sizeof fit, .next = flx_loader_batch, .next_user = l, .epochs = STEPS, .max_steps = STEPS};
    flx_fit_result r = {0};
    if (l && flx_fit(t, &fit, &r, &k->err) == FLX_OK) {
        const flx_tensor *w = flx_params_find(flx_trainer_params(t), "net.1.w");
        memcpy(k->w, flx_tensor_const_data(w), sizeof k->w);
        k->loss = r.loss;
    }
    flx_loader_free(l);
    flx_dataset_free(d);
    flx_trainer_free(t);
    flx_graph_release(g);
    flx_context_free(ctx);
    return NULL;
}

TEST(trainings_in_one_process_do_not_disturb_each_other)
{
    const training begin[] = {{.seed = 1, .optimiser = FLX_ADAMW}, {.seed = 2, .optimiser = FLX_MOMENTUM}};
    training alone[2], together[2];
    pthread_t threads[2];
    memcpy(alone, begin, sizeof alone);
    memcpy(together, begin, sizeof together);
    for (int i = 0; i < 2; i++)
        train(&alone[i]);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, train, &together[i]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK_OK((flx_code)alone[i].err.code, &alone[i].err);
        CHECK_OK((flx_code)together[i].err.code, &together[i].err);
        CHECK(alone[i].loss > 0 && alone[i].loss == together[i].loss);
        CHECK(memcmp(alone[i].w, together[i].w, sizeof alone[i].w) == 0);
    }
    CHECK(alone[0].loss != alone[1].loss);
}
