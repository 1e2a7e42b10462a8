/* SPDX-License-Identifier: Apache-2.0 */
/* Quantisation: a network that reads digits is trained in f32, and again while its weights and activations are rounded;
   flx_quantise() makes both graphs, and the one that then runs in integers: products of 8-bit numbers, sums in 32 bits.
   Prints the accuracy of the integer programs on held-out digits, for weights of 8 and of 3 bits, rounded only after
   the training and trained with the rounding. */
#include "digits_data.h"

static const char text[] =
    "graph digits(x: f32[N, 1, 28, 28], label: i32[N], param w0: f32[784, 128] ~ he_normal, param b0: f32[128] ~ "
    "zeros,\n"
    "             param w1: f32[128, 10], param b1: f32[10] ~ zeros) {\n"
    "  h      = relu(linear(reshape(x, shape=[N, 784]), w0, b0))\n"
    "  logits = linear(h, w1, b1)\n"
    "  loss   = reduce_mean(softmax_cross_entropy(logits, label))\n"
    "  return loss, reduce_mean(cast(eq(argmax(logits, axis=1, dtype=i32), label), to=f32))\n"
    "}\n";

/* Trains with weights rounded to that many bits and activations to 8, or with f32 for 0; release the result. */
static flx_params *train(const data *d, const flx_graph *g, int bits, int steps)
{
    flx_quantise_options rounding = {.struct_size = sizeof rounding, .flags = FLX_QUANTISE_TRAIN, .weight_bits = bits};
    flx_graph *rounded = bits ? flx_quantise(g, &rounding, &err) : NULL;
    need(rounded || !bits);
    flx_schedule_options cosine = {.struct_size = sizeof cosine, .kind = FLX_SCHEDULE_COSINE, .steps = steps};
    flx_graph *schedule = flx_schedule_graph(d->ctx, &cosine, &err);
    flx_train_options adam = {.struct_size = sizeof adam, .optimiser = FLX_ADAM, .rate = 0.003, .seed = 1};
    adam.schedule = schedule;
    flx_trainer *t = flx_compile_training(rounded ? rounded : g, &adam, NULL, &err);
    need(t != NULL);
    need(flx_loader_seek(d->loader, 0, 0, &err) == FLX_OK);
    for (int step = 0; step < steps; step++) {
        const flx_feed *feeds;
        size_t count;
        need(flx_loader_next(d->loader, &feeds, &count, &err) == FLX_OK);
        need(flx_trainer_step(t, feeds, count, NULL, &err) == FLX_OK);
    }
    flx_params *set = flx_params_retain(flx_trainer_params(t));
    flx_trainer_free(t);
    flx_graph_release(schedule);
    flx_graph_release(rounded);
    return set;
}

/* The accuracy of the integer program with the weights of the set, rounded to that many bits. */
static double test(const data *d, const flx_graph *g, const flx_params *set, int bits)
{
    flx_feed feeds[8];
    flx_quantise_options o = {.struct_size = sizeof o, .weight_bits = bits, .params = feeds, .num_batches = 1};
    flx_tensor *out[2] = {NULL, NULL};
    o.num_params = flx_params_feeds(set, g, feeds, 8);
    need(flx_loader_next(d->loader, &o.batches, &o.num_inputs, &err) == FLX_OK);
    flx_graph *integer = flx_quantise(g, &o, &err);
    need(integer != NULL);
    size_t n = flx_params_feeds(set, integer, feeds, 6); /* biases: the weights are in the graph now */
    feeds[n++] = (flx_feed){"x", d->x};
    feeds[n++] = (flx_feed){"label", d->label};
    need(flx_run(integer, NULL, feeds, n, out, &err) == FLX_OK);
    double accuracy = flx_tensor_get(out[1], 0);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    flx_graph_release(integer);
    return accuracy;
}

int main(int argc, char **argv)
{
    const int quick = is_quick(argc, argv), rows = quick ? 3000 : 30000, steps = quick ? 300 : 4000;
    flx_context *ctx = flx_context_new(NULL);
    data d = open_data(ctx, rows);
    flx_graph *g = parse(ctx, text);
    flx_params *plain = train(&d, g, 0, steps), *eight = train(&d, g, 8, steps), *three = train(&d, g, 3, steps);
    double after[] = {test(&d, g, plain, 8), test(&d, g, plain, 3)},
           aware[] = {test(&d, g, eight, 8), test(&d, g, three, 3)};
    printf("accuracy in integers   rounded after training   trained with rounding\n");
    printf("weights of 8 bits      %20.1f %%  %20.1f %%\n", 100 * after[0], 100 * aware[0]);
    printf("weights of 3 bits      %20.1f %%  %20.1f %%\n", 100 * after[1], 100 * aware[1]);
    flx_params_release(plain);
    flx_params_release(eight);
    flx_params_release(three);
    flx_graph_release(g);
    close_data(&d);
    flx_context_free(ctx);
    return verdict(quick ? aware[0] > 0.5 : aware[0] > 0.95 && aware[1] > 0.93 && aware[1] > after[1] + 0.02);
}
