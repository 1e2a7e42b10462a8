/* SPDX-License-Identifier: Apache-2.0 */
/* Training that protects its examples: the gradient of each example is clipped and noise is added to their sum, so that
   no example can be seen in the result (differential privacy). Trains a classifier with and without it, with and
   without an outlier among the examples. Prints the accuracy on new points, how far the one outlier moves the weights,
   and the budget epsilon that was spent. */
#include "example.h"

enum { ROWS = 2000, TEST = 1000, WIDTH = 10, STEPS = 60 };

static const double noise = 8, clip = 0.5;

static const char text[] = "graph loss(x: f32[N, 10], y: f32[N], param w: f32[10] ~ zeros, param b: f32[] ~ zeros) {\n"
                           "  logit = add(reduce_sum(mul(x, w), axes=[1]), b)\n"
                           "  loss  = reduce_mean(sub(softplus(logit), mul(y, logit)))\n" /* -log p(y) */
                           "  return loss\n"
                           "}\n";

/* Two clouds of points, whose centres differ along one direction. */
static void draw(float *x, float *y, int rows)
{
    for (int i = 0; i < rows; i++) {
        y[i] = (float)(i % 2);
        for (int k = 0; k < WIDTH; k++)
            x[i * WIDTH + k] = (float)(normal() + (y[i] > 0 ? 0.6 : -0.6) * (k % 2 ? 1 : -1));
    }
}

/* Trains on all examples in each step; writes the weights, then the bias. */
static void train(flx_context *ctx, const flx_graph *g, const float *x, const float *y, int is_private, double *weights)
{
    flx_train_options sgd = {.struct_size = sizeof sgd, .optimiser = FLX_SGD, .rate = 1, .seed = 1};
    if (is_private) {
        sgd.clip_example = clip;
        sgd.noise = noise; /* its deviation, as a multiple of `clip` */
    }
    flx_trainer *t = flx_compile_training(g, &sgd, NULL, &err);
    need(t != NULL);
    flx_tensor *xs = tensor(ctx, FLX_F32, FLX_INTS(ROWS, WIDTH), x), *ys = tensor(ctx, FLX_F32, FLX_INTS(ROWS), y);
    const flx_feed feeds[] = {{"x", xs}, {"y", ys}};
    for (int step = 0; step < STEPS; step++)
        need(flx_trainer_step(t, feeds, 2, NULL, &err) == FLX_OK);
    for (int k = 0; k < WIDTH; k++)
        weights[k] = flx_tensor_get(flx_params_find(flx_trainer_params(t), "w"), k);
    weights[WIDTH] = flx_tensor_get(flx_params_find(flx_trainer_params(t), "b"), 0);
    flx_tensor_release(xs);
    flx_tensor_release(ys);
    flx_trainer_free(t);
}

static double accuracy(const double *weights, const float *x, const float *y)
{
    int right = 0;
    for (int i = 0; i < TEST; i++) {
        double logit = weights[WIDTH];
        for (int k = 0; k < WIDTH; k++)
            logit += weights[k] * x[i * WIDTH + k];
        right += (logit > 0) == (y[i] > 0);
    }
    return (double)right / TEST;
}

/* The seed of the noise is fixed here, so that runs repeat; a real training keeps it secret. Data sets with and without
   one example count as neighbours. Each step is a Gaussian mechanism with the deviation
   `noise` for a sensitivity of 1, which spends 1 / (2 noise²) of concentrated differential privacy; the sum over all
   steps is converted to epsilon at this delta. */
static double epsilon_spent(double delta)
{
    double rho = STEPS / (2 * noise * noise);
    return rho + 2 * sqrt(rho * log(1 / delta));
}

int main(void)
{
    static float x[ROWS * WIDTH], y[ROWS], test_x[TEST * WIDTH], test_y[TEST];
    draw(x, y, ROWS);
    draw(test_x, test_y, TEST);
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = parse(ctx, text);
    double weights[2][WIDTH + 1], with_outlier[WIDTH + 1], moved[2] = {0}, right[2];
    for (int is_private = 0; is_private < 2; is_private++)
        train(ctx, g, x, y, is_private, weights[is_private]);
    for (int k = 0; k < WIDTH; k++)
        x[k] *= -100; /* one example is far away, on the wrong side */
    for (int p = 0; p < 2; p++) {
        train(ctx, g, x, y, p, with_outlier);
        for (int k = 0; k <= WIDTH; k++)
            moved[p] = hypot(moved[p], with_outlier[k] - weights[p][k]);
        right[p] = accuracy(weights[p], test_x, test_y);
        printf("%s: accuracy %.1f %%, and one outlier moves the weights by %.3f\n", p ? "private" : "plain  ",
               100 * right[p], moved[p]);
    }
    printf("spent: epsilon %.1f at delta 1e-5\n", epsilon_spent(1e-5));
    flx_graph_release(g);
    flx_context_free(ctx);
    return verdict(right[1] > 0.93 && right[1] > right[0] - 0.03 && moved[1] < 0.1 * moved[0]);
}
