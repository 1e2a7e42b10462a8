/* SPDX-License-Identifier: Apache-2.0 */
/* A diffusion model in the plane: a network learns to remove noise from points on a spiral, and then makes new points
   of noise alone, in 40 steps. A point with noise is cos(a) point + sin(a) noise, for an angle a from 0 to pi / 2; the
   network predicts v = cos(a) noise - sin(a) point, from which both follow. Prints how far from the spiral the new
   points are, and draws them. */
#include "example.h"
#include <fluxion/nn.h>

enum { BATCH = 512, MADE = 1000, SAMPLING_STEPS = 40 };

/* v for points x [n, 2] and angles [n, 1], which the network sees as sines and cosines of multiples. */
static flx_val network(flx_graph *g, flx_val x, flx_val angle)
{
    flx_val parts[7] = {x};
    for (int k = 0; k < 3; k++) {
        flx_val multiple = flx_mul(g, angle, flx_scalar(g, FLX_F32, 1 << k));
        parts[1 + 2 * k] = flx_sin(g, multiple);
        parts[2 + 2 * k] = flx_cos(g, multiple);
    }
    return flx_nn_mlp(g, "net", flx_concat(g, parts, 7, .axis = 1), (const int64_t[]){128, 128, 128, 2}, 4, "silu");
}

/* The mean squared error of v. Noise and angles are drawn in the graph, from keys that change with each step. */
static flx_graph *build_loss(flx_context *ctx)
{
    flx_graph *g = flx_graph_new(ctx, "loss");
    flx_type points = of_type(FLX_F32, FLX_INTS(BATCH, 2));
    flx_val x = flx_input(g, "x", &points);
    flx_val noise = flx_rng_normal(g, flx_nn_key(g, "key.noise"), .shape = FLX_INTS(BATCH, 2));
    flx_val angle = flx_rng_uniform(g, flx_nn_key(g, "key.angle"), .shape = FLX_INTS(BATCH, 1));
    angle = flx_mul(g, angle, flx_scalar(g, FLX_F32, 1.5707963));
    flx_val c = flx_cos(g, angle), s = flx_sin(g, angle);
    flx_val noisy = flx_add(g, flx_mul(g, c, x), flx_mul(g, s, noise));
    flx_val v = flx_sub(g, flx_mul(g, c, noise), flx_mul(g, s, x));
    flx_output(g, flx_nn_mse(g, network(g, noisy, angle), v), "loss");
    need(flx_graph_error(g, &err) == FLX_OK);
    return g;
}

/* One step of making points: estimates point and noise, and mixes them again for a smaller angle `to`. */
static flx_graph *build_step(flx_context *ctx)
{
    flx_graph *g = flx_graph_new(ctx, "step");
    flx_type points = of_type(FLX_F32, FLX_INTS(MADE, 2)), scalar = of_type(FLX_F32, FLX_NO_INTS);
    flx_val x = flx_input(g, "x", &points), from = flx_input(g, "from", &scalar), to = flx_input(g, "to", &scalar);
    flx_val v = network(g, x, flx_expand(g, from, .shape = FLX_INTS(MADE, 1)));
    flx_val c = flx_cos(g, from), s = flx_sin(g, from);
    flx_val point = flx_sub(g, flx_mul(g, c, x), flx_mul(g, s, v)),
            noise = flx_add(g, flx_mul(g, s, x), flx_mul(g, c, v));
    flx_output(g, flx_add(g, flx_mul(g, flx_cos(g, to), point), flx_mul(g, flx_sin(g, to), noise)), "next");
    need(flx_graph_error(g, &err) == FLX_OK);
    return g;
}

/* The point of the spiral at `way`, from 0 to 1. */
static void spiral(double way, double *x, double *y)
{
    double angle = 2 + 7 * way, radius = 0.4 + 1.4 * way;
    *x = radius * cos(angle);
    *y = radius * sin(angle);
}

static flx_tensor *make_points(flx_context *ctx, const flx_params *set)
{
    flx_graph *g = build_step(ctx);
    flx_exec *e = flx_compile(g, NULL, &err);
    need(e && flx_params_bind(set, e, &err) == FLX_OK);
    flx_tensor *x = tensor(ctx, FLX_F32, FLX_INTS(MADE, 2), NULL);
    for (int i = 0; i < 2 * MADE; i++)
        ((float *)flx_tensor_data(x))[i] = (float)normal();
    for (int i = SAMPLING_STEPS; i > 0; i--) {
        float angles[] = {1.5707963F * (float)i / SAMPLING_STEPS, 1.5707963F * (float)(i - 1) / SAMPLING_STEPS};
        flx_tensor *from = tensor(ctx, FLX_F32, FLX_NO_INTS, &angles[0]),
                   *to = tensor(ctx, FLX_F32, FLX_NO_INTS, &angles[1]);
        const flx_feed feeds[] = {{"x", x}, {"from", from}, {"to", to}};
        flx_tensor *next = NULL;
        need(flx_exec_run(e, NULL, feeds, 3, &next, &err) == FLX_OK);
        flx_tensor_release(from);
        flx_tensor_release(to);
        flx_tensor_release(x);
        x = next;
    }
    flx_exec_free(e);
    flx_graph_release(g);
    return x;
}

/* Draws the points and returns their mean distance from the spiral. */
static double show(const flx_tensor *points)
{
    enum { ROWS = 21, COLUMNS = 45 };
    char picture[ROWS][COLUMNS + 1];
    memset(picture, ' ', sizeof picture);
    double sum = 0;
    for (int64_t i = 0; i < MADE; i++) {
        double x = flx_tensor_get(points, 2 * i), y = flx_tensor_get(points, 2 * i + 1), nearest = 10, sx, sy;
        for (int k = 0; k <= 1000; k++) {
            spiral(k / 1000.0, &sx, &sy);
            nearest = fmin(nearest, hypot(x - sx, y - sy));
        }
        sum += nearest;
        int row = (int)((2 - y) / 4 * ROWS), column = (int)((x + 2) / 4 * COLUMNS);
        if (row >= 0 && row < ROWS && column >= 0 && column < COLUMNS)
            picture[row][column] = '*';
    }
    for (int row = 0; row < ROWS; row++)
        printf("%.*s\n", COLUMNS, picture[row]);
    return sum / MADE;
}

int main(int argc, char **argv)
{
    const int quick = is_quick(argc, argv), steps = quick ? 400 : 5000;
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *loss = build_loss(ctx);
    flx_schedule_options cosine = {.struct_size = sizeof cosine, .kind = FLX_SCHEDULE_COSINE, .steps = steps};
    flx_graph *schedule = flx_schedule_graph(ctx, &cosine, &err);
    flx_train_options adam = {.struct_size = sizeof adam,
                              .optimiser = FLX_ADAM,
                              .rate = quick ? 0.01 : 0.003,
                              .schedule = schedule,
                              .seed = 1};
    flx_trainer *t = flx_compile_training(loss, &adam, NULL, &err);
    need(t != NULL);
    flx_tensor *x = tensor(ctx, FLX_F32, FLX_INTS(BATCH, 2), NULL);
    const flx_feed feed = {"x", x};
    double value = 0;
    for (int step = 1; step <= steps; step++) {
        float *xy = flx_tensor_data(x);
        for (int i = 0; i < BATCH; i++) {
            double sx, sy;
            spiral(uniform(), &sx, &sy);
            xy[2 * i] = (float)sx;
            xy[2 * i + 1] = (float)sy;
        }
        need(flx_trainer_step(t, &feed, 1, &value, &err) == FLX_OK);
        if (step % (steps / 5) == 0)
            printf("step %4d: the loss is %.3f\n", step, value);
    }
    flx_tensor *made = make_points(ctx, flx_trainer_params(t));
    double distance = show(made);
    printf("mean distance from the spiral: %.3f\n", distance);
    flx_tensor_release(made);
    flx_tensor_release(x);
    flx_trainer_free(t);
    flx_graph_release(schedule);
    flx_graph_release(loss);
    flx_context_free(ctx);
    return verdict(distance < (quick ? 0.25 : 0.05));
}
