/* SPDX-License-Identifier: Apache-2.0 */
/* A convolutional network with batch norm learns to read drawn digits. It shows layers, a loss and a prediction that
   share parameters, data with a loader, a schedule of the rate, and states: the running statistics of the batch norm,
   which a step updates without a gradient. Prints the loss and the accuracy on digits that were not trained on. */
#include "example.h"
#include <fluxion/data.h>
#include <fluxion/nn.h>

/* x [N, 1, 28, 28] to logits [N, 10]. In training the batch norm uses the statistics of the batch. */
static flx_val network(flx_graph *g, flx_val x, int is_training)
{
    const flx_nn_batch_norm_options norm = {.struct_size = sizeof norm, .is_training = is_training};
    const flx_nn_conv_options conv = {.struct_size = sizeof conv, .no_bias = 1};
    const int64_t channels[] = {12, 24};
    for (int k = 0; k < 2; k++) {
        char name[2][16];
        snprintf(name[0], sizeof name[0], "conv%d", k);
        snprintf(name[1], sizeof name[1], "norm%d", k);
        x = flx_nn_conv(g, name[0], x, channels[k], &conv);
        x = flx_nn_max_pool(g, flx_relu(g, flx_nn_batch_norm(g, name[1], x, &norm)), NULL); /* half the extents */
    }
    x = flx_reshape(g, x, .shape = FLX_INTS(flx_dim_symbol(flx_graph_context(g), "N"), 24 * 7 * 7));
    return flx_nn_linear(g, "head", x, 10, NULL);
}

/* Output `loss`, the mean over the batch, and `accuracy`. */
static flx_graph *build(flx_context *ctx, int is_training)
{
    flx_dim n = flx_dim_symbol(ctx, "N");
    flx_graph *g = flx_graph_new(ctx, is_training ? "training" : "prediction");
    flx_type images = of_type(FLX_F32, FLX_INTS(n, 1, 28, 28)), labels = of_type(FLX_I32, FLX_INTS(n));
    flx_val x = flx_input(g, "x", &images), label = flx_input(g, "label", &labels);
    flx_val logits = network(g, x, is_training);
    flx_output(g, flx_nn_cross_entropy(g, logits, label, 0), "loss");
    flx_output(g, flx_accuracy(g, logits, label), "accuracy");
    need(flx_graph_error(g, &err) == FLX_OK);
    return g;
}

/* The mean accuracy of all batches of a loader that ends. */
static double evaluate(flx_exec *e, flx_loader *test)
{
    const flx_feed *feeds;
    size_t count;
    double right = 0, seen = 0;
    need(flx_loader_seek(test, 0, 0, &err) == FLX_OK);
    for (;;) {
        flx_tensor *out[2];
        need(flx_loader_next(test, &feeds, &count, &err) == FLX_OK);
        if (!feeds)
            return right / seen;
        need(flx_exec_run(e, NULL, feeds, count, out, &err) == FLX_OK);
        double n = (double)flx_tensor_type(feeds[0].value)->dims[0];
        right += n * flx_tensor_get(out[1], 0);
        seen += n;
        flx_tensor_release(out[0]);
        flx_tensor_release(out[1]);
    }
}

int main(int argc, char **argv)
{
    const int quick = is_quick(argc, argv), rows = quick ? 1000 : 8000, epochs = quick ? 2 : 4;
    flx_context *ctx = flx_context_new(NULL);
    flx_dataset *digits = flx_digits(ctx, rows + 1000, 1, &err); /* the last 1000 are for the test */
    need(digits != NULL);
    flx_dataset *train = flx_dataset_slice(digits, 0, rows, &err),
                *held = flx_dataset_slice(digits, rows, rows + 1000, &err);
    need(train && held);
    flx_loader_options batches = {
        .struct_size = sizeof batches, .batch = 50, .flags = FLX_LOADER_SHUFFLE | FLX_LOADER_PREFETCH};
    flx_loader *loader = flx_loader_new(train, &batches, &err);
    flx_loader_options once = {.struct_size = sizeof once, .batch = 50, .epochs = 1};
    flx_loader *test = flx_loader_new(held, &once, &err);
    need(loader && test);

    const int steps = epochs * rows / 50;
    flx_graph *loss = build(ctx, 1), *predict = build(ctx, 0);
    flx_schedule_options cosine = {
        .struct_size = sizeof cosine, .kind = FLX_SCHEDULE_COSINE, .warmup = 10, .steps = steps};
    flx_graph *schedule = flx_schedule_graph(ctx, &cosine, &err);
    flx_train_options adam = {
        .struct_size = sizeof adam, .optimiser = FLX_ADAM, .rate = 0.003, .schedule = schedule, .seed = 1};
    flx_trainer *t = flx_compile_training(loss, &adam, NULL, &err);
    flx_exec *e = flx_compile(predict, NULL, &err);
    need(t && e && flx_params_bind(flx_trainer_params(t), e, &err) == FLX_OK); /* without copies */
    printf("%lld parameters\n", (long long)flx_params_elements(flx_trainer_params(t), NULL));

    double value = 0, accuracy = 0, mean = 0;
    for (int step = 1; step <= steps; step++) {
        const flx_feed *feeds;
        size_t count;
        need(flx_loader_next(loader, &feeds, &count, &err) == FLX_OK);
        need(flx_trainer_step(t, feeds, count, &value, &err) == FLX_OK);
        mean += value;
        if (step % (rows / 50) == 0) {
            accuracy = evaluate(e, test);
            printf("epoch %d: loss %.4f, accuracy on held-out digits %.2f %%\n", step / (rows / 50), mean / (rows / 50),
                   100 * accuracy);
            mean = 0;
        }
    }
    flx_exec_free(e);
    flx_trainer_free(t);
    flx_graph_release(schedule);
    flx_graph_release(predict);
    flx_graph_release(loss);
    flx_loader_free(test);
    flx_loader_free(loader);
    flx_dataset_free(held);
    flx_dataset_free(train);
    flx_dataset_free(digits);
    flx_context_free(ctx);
    return verdict(accuracy > (quick ? 0.5 : 0.97));
}
