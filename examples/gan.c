/* SPDX-License-Identifier: Apache-2.0 */
/* A generative adversarial network in the plane: one network makes points of noise, the other tells them from points on
   a ring, and each learns from the other. Two trainers, with two losses, share one set of parameters; each trains the
   part that is its own. Prints the radius of the points that are made, and how evenly they cover the ring. */
#include "example.h"
#include <fluxion/nn.h>

enum { BATCH = 128, NOISE = 4, SECTORS = 8 };

static flx_val make_points(flx_graph *g, flx_val noise)
{
    return flx_nn_mlp(g, "maker", noise, (const int64_t[]){64, 64, 2}, 3, "relu");
}

/* One logit for each point, large where it looks real. */
static flx_val judge(flx_graph *g, flx_val points)
{
    return flx_nn_mlp(g, "judge", points, (const int64_t[]){64, 64, 1}, 3, "leaky_relu");
}

/* Noise from a key that is a state: each training step has new numbers, and the program feeds none. */
static flx_val draw_noise(flx_graph *g, const char *key)
{
    return flx_rng_normal(g, flx_nn_key(g, key), .shape = FLX_INTS(BATCH, NOISE));
}

/* -log p(all are judged rightly), real points first. One call of the judge, because it declares its parameters. */
static flx_graph *build_judge_loss(flx_context *ctx)
{
    flx_graph *g = flx_graph_new(ctx, "judge_loss");
    flx_type points = of_type(FLX_F32, FLX_INTS(BATCH, 2));
    flx_val both[] = {flx_input(g, "real", &points), make_points(g, draw_noise(g, "key.judge"))};
    flx_val logits = judge(g, flx_concat(g, both, 2, .axis = 0));
    flx_val real = flx_narrow(g, logits, 0, 0, BATCH), made = flx_narrow(g, logits, 0, BATCH, BATCH);
    flx_val wrong = flx_add(g, flx_softplus(g, flx_neg(g, real)), flx_softplus(g, made));
    flx_output(g, flx_reduce_mean(g, wrong, FLX_ALL, 0), "loss");
    need(flx_graph_error(g, &err) == FLX_OK);
    return g;
}

/* -log p(what was made is judged as real). */
static flx_graph *build_maker_loss(flx_context *ctx)
{
    flx_graph *g = flx_graph_new(ctx, "maker_loss");
    flx_val logits = judge(g, make_points(g, draw_noise(g, "key.maker")));
    flx_output(g, flx_reduce_mean(g, flx_softplus(g, flx_neg(g, logits)), FLX_ALL, 0), "loss");
    need(flx_graph_error(g, &err) == FLX_OK);
    return g;
}

static flx_trainer *trainer_of(const flx_graph *loss, flx_params *set, const char *pattern)
{
    flx_train_options adam = {
        .struct_size = sizeof adam, .optimiser = FLX_ADAM, .rate = 0.001, .beta1 = 0.5, .seed = 1};
    adam.set = set;
    adam.params = &pattern;
    adam.num_params = 1;
    flx_trainer *t = flx_compile_training(loss, &adam, NULL, &err);
    need(t != NULL);
    return t;
}

static void draw_ring(float *xy)
{
    for (int i = 0; i < BATCH; i++) {
        double angle = 6.283185307179586 * uniform(), radius = 1 + 0.05 * normal();
        xy[2 * i] = (float)(radius * cos(angle));
        xy[2 * i + 1] = (float)(radius * sin(angle));
    }
}

/* Makes 2000 points: the mean of | radius - 1 |, and the share of the emptiest of eight sectors. */
static void measure(flx_context *ctx, const flx_params *set, double *off, double *emptiest)
{
    enum { POINTS = 2000 };
    flx_graph *g = flx_graph_new(ctx, "maker");
    flx_type type = of_type(FLX_F32, FLX_INTS(POINTS, NOISE));
    flx_output(g, make_points(g, flx_input(g, "noise", &type)), "points");
    flx_tensor *noise = tensor(ctx, FLX_F32, FLX_INTS(POINTS, NOISE), NULL), *points = NULL;
    for (int i = 0; i < POINTS * NOISE; i++)
        ((float *)flx_tensor_data(noise))[i] = (float)normal();
    flx_feed feeds[7] = {{"noise", noise}};
    size_t count = flx_params_feeds(set, g, feeds + 1, 6);
    need(flx_run(g, NULL, feeds, 1 + count, &points, &err) == FLX_OK);
    int sectors[SECTORS] = {0};
    *off = 0;
    for (int64_t i = 0; i < POINTS; i++) {
        double x = flx_tensor_get(points, 2 * i), y = flx_tensor_get(points, 2 * i + 1);
        *off += fabs(hypot(x, y) - 1) / POINTS;
        sectors[(int)((atan2(y, x) / 6.283185307179586 + 0.5) * SECTORS) % SECTORS]++;
    }
    *emptiest = 1;
    for (int i = 0; i < SECTORS; i++)
        *emptiest = fmin(*emptiest, (double)sectors[i] / POINTS);
    flx_tensor_release(points);
    flx_tensor_release(noise);
    flx_graph_release(g);
}

int main(int argc, char **argv)
{
    const int quick = is_quick(argc, argv), steps = quick ? 800 : 6000;
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *judge_loss = build_judge_loss(ctx), *maker_loss = build_maker_loss(ctx);
    flx_params *set = flx_params_new(ctx, &err);
    need(set != NULL);
    flx_trainer *judge_trainer = trainer_of(judge_loss, set, "judge.*"),
                *maker_trainer = trainer_of(maker_loss, set, "maker.*");
    flx_tensor *real = tensor(ctx, FLX_F32, FLX_INTS(BATCH, 2), NULL);
    const flx_feed feed = {"real", real};
    double judged = 0, made = 0, off = 1, emptiest = 0;
    for (int step = 1; step <= steps; step++) {
        draw_ring(flx_tensor_data(real));
        need(flx_trainer_step(judge_trainer, &feed, 1, &judged, &err) == FLX_OK);
        need(flx_trainer_step(maker_trainer, NULL, 0, &made, &err) == FLX_OK);
        if (step % (steps / 5) == 0) {
            measure(ctx, set, &off, &emptiest);
            printf("step %4d: losses %.2f and %.2f; distance from the ring %.3f, emptiest eighth %.1f %%\n", step,
                   judged, made, off, 100 * emptiest);
        }
    }
    flx_tensor_release(real);
    flx_trainer_free(judge_trainer);
    flx_trainer_free(maker_trainer);
    flx_params_release(set);
    flx_graph_release(judge_loss);
    flx_graph_release(maker_loss);
    flx_context_free(ctx);
    return verdict(quick ? off < 0.3 : off < 0.12 && emptiest > 0.05);
}
