/* SPDX-License-Identifier: Apache-2.0 */
/* An LSTM learns to add: of a sequence of random numbers two are marked, and it must return their sum after the last
   one, so it has to remember them. Prints the mean squared error on new sequences; who always answers 1 has 0.167. */
#include "example.h"
#include <fluxion/nn.h>

enum { BATCH = 64, UNITS = 32 };

/* x [BATCH, length, 2] has a number and its mark in each step; `sum` [BATCH, 1]. */
static flx_graph *build(flx_context *ctx, int64_t length)
{
    flx_graph *g = flx_graph_new(ctx, "adding");
    flx_type sequences = of_type(FLX_F32, FLX_INTS(BATCH, length, 2)), sums = of_type(FLX_F32, FLX_INTS(BATCH, 1));
    flx_val x = flx_input(g, "x", &sequences), sum = flx_input(g, "sum", &sums);
    flx_nn_recurrent_state last;
    flx_nn_lstm(g, "memory", x, UNITS, NULL, &last);
    flx_val hidden = flx_squeeze(g, last.hidden, FLX_INTS(0)); /* of the one layer: [BATCH, UNITS] */
    flx_output(g, flx_nn_mse(g, flx_nn_linear(g, "answer", hidden, 1, NULL), sum), "error");
    need(flx_graph_error(g, &err) == FLX_OK);
    return g;
}

/* One of the two marks is in the first half of the sequence, the other in the second. */
static void draw(float *x, float *sum, int length)
{
    for (int i = 0; i < BATCH; i++, x += 2 * length) {
        int first = (int)(uniform() * (length / 2)), second = length / 2 + (int)(uniform() * (length - length / 2));
        for (int k = 0; k < length; k++) {
            x[2 * k] = (float)uniform();
            x[2 * k + 1] = k == first || k == second;
        }
        sum[i] = x[2 * first] + x[2 * second];
    }
}

int main(int argc, char **argv)
{
    const int quick = is_quick(argc, argv), length = quick ? 8 : 40, steps = quick ? 250 : 2500;
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = build(ctx, length);
    flx_train_options adam = {
        .struct_size = sizeof adam, .optimiser = FLX_ADAM, .rate = 0.005, .clip_norm = 1, .seed = 1};
    flx_trainer *t = flx_compile_training(g, &adam, NULL, &err);
    need(t != NULL);
    flx_tensor *x = tensor(ctx, FLX_F32, FLX_INTS(BATCH, length, 2), NULL),
               *sum = tensor(ctx, FLX_F32, FLX_INTS(BATCH, 1), NULL);
    const flx_feed feeds[] = {{"x", x}, {"sum", sum}};
    double error = 0, mean = 0;
    for (int step = 1; step <= steps; step++) {
        draw(flx_tensor_data(x), flx_tensor_data(sum), length); /* each sequence is new, so the loss is a test too */
        need(flx_trainer_step(t, feeds, 2, &error, &err) == FLX_OK);
        mean += error;
        if (step % (steps / 5) == 0) {
            printf("step %4d: the error is %.4f\n", step, mean /= steps / 5);
            mean = step < steps ? 0 : mean;
        }
    }
    flx_tensor_release(x);
    flx_tensor_release(sum);
    flx_trainer_free(t);
    flx_graph_release(g);
    flx_context_free(ctx);
    return verdict(mean < (quick ? 0.1 : 0.01));
}
