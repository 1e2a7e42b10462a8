/* SPDX-License-Identifier: Apache-2.0 */
/* Quantisation-aware training: a network that reads digits is trained while its weights and activations are rounded,
   and then runs in integers alone: products of 8-bit numbers, sums in 32 bits. Prints the accuracy of the integer
   program on held-out digits, for weights of 8 and of 3 bits, and that of a network whose weights are rounded only
   after its training. */
#include "digits_data.h"

/* The scales of the activations are states: moving averages that the step updates. Those of the weights follow from
   their largest element. Derivatives pass through the rounding. */
static const char training_text[] =
    "graph training(x: f32[N, 1, 28, 28], label: i32[N], param w0: f32[784, 128] ~ he_normal, param b0: f32[128] ~ "
    "zeros,\n"
    "               param w1: f32[128, 10], param b1: f32[10] ~ zeros, param h_scale: f32[], param l_scale: f32[]) {\n"
    "  h                = relu(linear(reshape(x, shape=[N, 784]), %s, b0))\n"
    "  h8, new_h_scale  = fake_quantize(h, h_scale, scale_mode=ema)\n"
    "  logits           = linear(h8, %s, b1)\n"
    "  l8, new_l_scale  = fake_quantize(logits, l_scale, scale_mode=ema)\n"
    "  loss             = reduce_mean(softmax_cross_entropy(l8, label))\n"
    "  return loss, new_h_scale, new_l_scale\n"
    "}\n";

/* The same in integers: pixels from 0 to 1 become 0 to 127, and each product is scaled to 8 bits again. */
static const char integer_text[] = "graph integer(x: f32[N, 1, 28, 28], label: i32[N], q0: i8[784, 128], c0: i32[128], "
                                   "q1: i8[128, 10], c1: i32[10]) {\n"
                                   "  x8 = quantize(reshape(x, shape=[N, 784]), scales=[%.17g])\n"
                                   "  h8 = max(q_matmul(x8, q0, c0, mult=%.17g), 0)\n"
                                   "  l8 = q_matmul(h8, q1, c1, mult=%.17g)\n"
                                   "  return reduce_mean(cast(eq(argmax(l8, axis=1, dtype=i32), label), to=f32))\n"
                                   "}\n";

/* Trains with weights rounded to that many bits, or with those of f32 for 0; release the result. */
static flx_params *train(const data *d, int bits, int steps)
{
    char text[sizeof training_text + 80], weights[2][40];
    for (int k = 0; k < 2; k++)
        snprintf(weights[k], sizeof weights[k], bits ? "fake_quantize(w%d, bits=%d)" : "w%d", k, bits);
    snprintf(text, sizeof text, training_text, weights[0], weights[1]);
    flx_graph *g = parse(d->ctx, text);
    flx_schedule_options cosine = {.struct_size = sizeof cosine, .kind = FLX_SCHEDULE_COSINE, .steps = steps};
    flx_graph *schedule = flx_schedule_graph(d->ctx, &cosine, &err);
    flx_train_options adam = {.struct_size = sizeof adam, .optimiser = FLX_ADAM, .rate = 0.003, .seed = 1};
    adam.schedule = schedule;
    flx_trainer *t = flx_compile_training(g, &adam, NULL, &err);
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
    flx_graph_release(g);
    return set;
}

/* The scale with which fake_quantize rounds a matrix. */
static double scale_of(const flx_tensor *w, int bits)
{
    double largest = 0;
    for (int64_t i = 0; i < flx_tensor_count(w); i++)
        largest = fmax(largest, fabs(flx_tensor_get(w, i)));
    return largest / ((1 << (bits - 1)) - 1);
}

/* w / scale as integers of this dtype, which is i8 or i32. */
static flx_tensor *rounded(const data *d, const flx_tensor *w, double scale, flx_dtype dtype)
{
    const flx_type *type = flx_tensor_type(w);
    flx_tensor *q = tensor(d->ctx, dtype, (flx_ints){type->dims, (size_t)type->rank}, NULL);
    for (int64_t i = 0; i < flx_tensor_count(w); i++)
        if (dtype == FLX_I8)
            ((int8_t *)flx_tensor_data(q))[i] = (int8_t)lround(flx_tensor_get(w, i) / scale);
        else
            ((int32_t *)flx_tensor_data(q))[i] = (int32_t)lround(flx_tensor_get(w, i) / scale);
    return q;
}

/* The accuracy of the integer program with the weights of the set, rounded to that many bits. */
static double test(const data *d, const flx_params *set, int bits)
{
    const flx_tensor *w0 = flx_params_find(set, "w0"), *w1 = flx_params_find(set, "w1");
    double s0 = scale_of(w0, bits), s1 = scale_of(w1, bits), x_scale = 1.0 / 127, accuracy;
    double h_scale = flx_tensor_get(flx_params_find(set, "h_scale"), 0),
           l_scale = flx_tensor_get(flx_params_find(set, "l_scale"), 0);
    char text[sizeof integer_text + 100];
    snprintf(text, sizeof text, integer_text, x_scale, x_scale * s0 / h_scale, h_scale * s1 / l_scale);
    flx_graph *g = parse(d->ctx, text);
    flx_tensor *q[] = {rounded(d, w0, s0, FLX_I8), rounded(d, flx_params_find(set, "b0"), x_scale * s0, FLX_I32),
                       rounded(d, w1, s1, FLX_I8), rounded(d, flx_params_find(set, "b1"), h_scale * s1, FLX_I32)};
    const flx_feed feeds[] = {{"x", d->x}, {"label", d->label}, {"q0", q[0]}, {"c0", q[1]}, {"q1", q[2]}, {"c1", q[3]}};
    flx_tensor *out = NULL;
    need(flx_run(g, NULL, feeds, 6, &out, &err) == FLX_OK);
    accuracy = flx_tensor_get(out, 0);
    flx_tensor_release(out);
    for (int i = 0; i < 4; i++)
        flx_tensor_release(q[i]);
    flx_graph_release(g);
    return accuracy;
}

int main(int argc, char **argv)
{
    const int quick = is_quick(argc, argv), rows = quick ? 3000 : 30000, steps = quick ? 300 : 4000;
    flx_context *ctx = flx_context_new(NULL);
    data d = open_data(ctx, rows);
    flx_params *plain = train(&d, 0, steps), *eight = train(&d, 8, steps), *three = train(&d, 3, steps);
    double after[] = {test(&d, plain, 8), test(&d, plain, 3)}, aware[] = {test(&d, eight, 8), test(&d, three, 3)};
    printf("accuracy in integers   rounded after training   trained with rounding\n");
    printf("weights of 8 bits      %20.1f %%  %20.1f %%\n", 100 * after[0], 100 * aware[0]);
    printf("weights of 3 bits      %20.1f %%  %20.1f %%\n", 100 * after[1], 100 * aware[1]);
    flx_params_release(plain);
    flx_params_release(eight);
    flx_params_release(three);
    close_data(&d);
    flx_context_free(ctx);
    return verdict(quick ? aware[0] > 0.5 : aware[0] > 0.95 && aware[1] > 0.93 && aware[1] > after[1] + 0.05);
}
