/* SPDX-License-Identifier: Apache-2.0 */
/* Low-rank adapters on a frozen, quantised model. A network learns to read digits; its weights are packed to 8 bits;
   then it learns to read the same digits in a mirror, while only two thin matrices beside each packed one are trained.
   Prints the accuracy of each stage on held-out digits, and how many numbers were trained. */
#include "digits_data.h"

enum { BLOCK = 32 };

static const char base_text[] =
    "graph base(x: f32[N, 1, 28, 28], label: i32[N], param w0: f32[784, 128] ~ he_normal, param b0: f32[128] ~ zeros,\n"
    "           param w1: f32[128, 10], param b1: f32[10] ~ zeros) {\n"
    "  h        = relu(linear(reshape(x, shape=[N, 784]), w0, b0))\n"
    "  logits   = linear(h, w1, b1)\n"
    "  loss     = reduce_mean(softmax_cross_entropy(logits, label))\n"
    "  accuracy = reduce_mean(cast(eq(argmax(logits, axis=1, dtype=i32), label), to=f32))\n"
    "  return loss, accuracy\n"
    "}\n";

/* q is a packed matrix and s has its scales, one for 32 rows of a column. The products with `up` begin as zero. */
static const char adapted_text[] =
    "graph adapted(x: f32[N, 1, 28, 28], label: i32[N], param b0: f32[128], param b1: f32[10],\n"
    "              param q0: i8[784, 128], param s0: f32[25, 128], param q1: i8[128, 10], param s1: f32[4, 10],\n"
    "              param lora.down0: f32[784, 16] ~ lecun_normal, param lora.up0: f32[16, 128] ~ zeros,\n"
    "              param lora.down1: f32[128, 16] ~ lecun_normal, param lora.up1: f32[16, 10] ~ zeros) {\n"
    "  mirrored = reshape(reverse(x, axes=[3]), shape=[N, 784])\n"
    "  whole0   = dequant_matmul(mirrored, q0, s0, scheme=int8_block, bs=32)\n"
    "  h        = relu(add(add(whole0, matmul(matmul(mirrored, lora.down0), lora.up0)), b0))\n"
    "  whole1   = dequant_matmul(h, q1, s1, scheme=int8_block, bs=32)\n"
    "  logits   = add(add(whole1, matmul(matmul(h, lora.down1), lora.up1)), b1)\n"
    "  loss     = reduce_mean(softmax_cross_entropy(logits, label))\n"
    "  accuracy = reduce_mean(cast(eq(argmax(logits, axis=1, dtype=i32), label), to=f32))\n"
    "  return loss, accuracy\n"
    "}\n";

/* The accuracy on the held-out digits. */
static double test(const data *d, const flx_graph *g, const flx_params *set)
{
    flx_feed feeds[16] = {{"x", d->x}, {"label", d->label}};
    size_t count = flx_params_feeds(set, g, feeds + 2, 14);
    flx_tensor *out[2];
    need(flx_run(g, NULL, feeds, 2 + count, out, &err) == FLX_OK);
    double accuracy = flx_tensor_get(out[1], 0);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    return accuracy;
}

/* Trains the parameters of the set whose names match. */
static void train(const data *d, const flx_graph *g, flx_params *set, const char *pattern, int steps)
{
    flx_schedule_options cosine = {.struct_size = sizeof cosine, .kind = FLX_SCHEDULE_COSINE, .steps = steps};
    flx_graph *schedule = flx_schedule_graph(d->ctx, &cosine, &err);
    flx_train_options adam = {.struct_size = sizeof adam, .optimiser = FLX_ADAM, .rate = 0.003, .set = set};
    adam.schedule = schedule;
    adam.params = &pattern;
    adam.num_params = 1;
    flx_trainer *t = flx_compile_training(g, &adam, NULL, &err);
    need(t != NULL);
    for (int step = 0; step < steps; step++) {
        const flx_feed *feeds;
        size_t count;
        need(flx_loader_next(d->loader, &feeds, &count, &err) == FLX_OK);
        need(flx_trainer_step(t, feeds, count, NULL, &err) == FLX_OK);
    }
    flx_trainer_free(t);
    flx_graph_release(schedule);
}

/* Packs matrix k of one set, w [rows, columns], as q and s of the other: q s is w, rounded to 8 bits in each block. */
static void pack(const data *d, const flx_params *from, flx_params *to, int k)
{
    const char *names[][3] = {{"w0", "q0", "s0"}, {"w1", "q1", "s1"}};
    const flx_tensor *w = flx_params_find(from, names[k][0]);
    int64_t rows = flx_tensor_type(w)->dims[0], columns = flx_tensor_type(w)->dims[1],
            blocks = (rows + BLOCK - 1) / BLOCK;
    flx_tensor *q = tensor(d->ctx, FLX_I8, FLX_INTS(rows, columns), NULL),
               *s = tensor(d->ctx, FLX_F32, FLX_INTS(blocks, columns), NULL);
    int8_t *packed = flx_tensor_data(q);
    float *scales = flx_tensor_data(s);
    for (int64_t i = 0; i < rows * columns; i++) {
        float *scale = &scales[i / columns / BLOCK * columns + i % columns];
        *scale = fmaxf(*scale, (float)fabs(flx_tensor_get(w, i)) / 127);
    }
    for (int64_t i = 0; i < rows * columns; i++)
        packed[i] =
            (int8_t)lround(flx_tensor_get(w, i) / fmax(scales[i / columns / BLOCK * columns + i % columns], 1e-30));
    need(flx_params_set(to, names[k][1], q, &err) == FLX_OK && flx_params_set(to, names[k][2], s, &err) == FLX_OK);
    flx_tensor_release(q);
    flx_tensor_release(s);
}

int main(int argc, char **argv)
{
    const int quick = is_quick(argc, argv), rows = quick ? 3000 : 30000, steps = quick ? 400 : 5000;
    flx_context *ctx = flx_context_new(NULL);
    data d = open_data(ctx, rows);
    flx_graph *base = parse(ctx, base_text), *adapted = parse(ctx, adapted_text);
    flx_params *set = flx_params_of(base, 1, &err), *packed = flx_params_of(adapted, 1, &err);
    need(set && packed);
    train(&d, base, set, "*", steps);
    double accuracy[3] = {test(&d, base, set)};
    for (int k = 0; k < 2; k++)
        pack(&d, set, packed, k);
    need(flx_params_set(packed, "b0", flx_params_find(set, "b0"), &err) == FLX_OK);
    need(flx_params_set(packed, "b1", flx_params_find(set, "b1"), &err) == FLX_OK);
    accuracy[1] = test(&d, adapted, packed);
    train(&d, adapted, packed, "lora.*", steps);
    accuracy[2] = test(&d, adapted, packed);
    printf("base: %lld numbers, accuracy %.1f %%\n", (long long)flx_params_elements(set, NULL), 100 * accuracy[0]);
    printf("packed, in the mirror, before: %.1f %%\n", 100 * accuracy[1]);
    printf("packed, in the mirror, after training %lld numbers: %.1f %%\n",
           (long long)flx_params_elements(packed, "lora.*"), 100 * accuracy[2]);

    flx_params_release(packed);
    flx_params_release(set);
    flx_graph_release(adapted);
    flx_graph_release(base);
    close_data(&d);
    flx_context_free(ctx);
    return verdict(quick ? accuracy[2] > accuracy[1] + 0.2 : accuracy[0] > 0.95 && accuracy[2] > 0.9);
}
