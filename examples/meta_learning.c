/* SPDX-License-Identifier: Apache-2.0 */
/* Learning to learn (MAML): a network is trained so that one step of gradient descent on ten points of a sine, of
   unknown amplitude and phase, makes it predict the rest of that sine. The training differentiates through that step:
   the gradient is an ordinary graph that is put into a larger one, batched over tasks and differentiated again. Prints
   the error on new sines before and after the one step. */
#include "example.h"

enum { TASKS = 20, POINTS = 10, PARAMS = 6 };

/* The mean squared error of a network on the points of one task. */
static const char text[] =
    "graph error(x: f32[10, 1], y: f32[10, 1], param w1: f32[1, 40] ~ normal(1.0), param b1: f32[40] ~ zeros,\n"
    "            param w2: f32[40, 40] ~ he_normal, param b2: f32[40] ~ zeros, param w3: f32[40, 1], param b3: f32[1]) "
    "{\n"
    "  h1 = relu(linear(x, w1, b1))\n"
    "  h2 = relu(linear(h1, w2, b2))\n"
    "  return reduce_mean(square(sub(linear(h2, w3, b3), y)))\n"
    "}\n";

static const char *const params[PARAMS] = {"w1", "b1", "w2", "b2", "w3", "b3"};

/* One task. Outputs are the errors on the points x, y: after a step on the points of the support, and before it. */
static flx_graph *build_task(flx_context *ctx, const flx_graph *error)
{
    flx_graph *slope = flx_grad(error, params, PARAMS, NULL, &err), *g = flx_graph_new(ctx, "task");
    need(slope != NULL);
    flx_type points = of_type(FLX_F32, FLX_INTS(POINTS, 1));
    flx_val support[2 + PARAMS], question[2 + PARAMS], adapted[2 + PARAMS], d[PARAMS], before, after;
    support[0] = flx_input(g, "support_x", &points);
    support[1] = flx_input(g, "support_y", &points);
    question[0] = adapted[0] = flx_input(g, "x", &points);
    question[1] = adapted[1] = flx_input(g, "y", &points);
    for (size_t i = 2; i < 2 + PARAMS; i++) {
        flx_val p = flx_param(g, params[i - 2], flx_val_type(error, flx_graph_input(error, i)));
        support[i] = question[i] = flx_set_init(g, p, flx_graph_input_init(error, i));
    }
    flx_inline(g, slope, support, 2 + PARAMS, d, PARAMS);
    for (int i = 0; i < PARAMS; i++)
        adapted[2 + i] = flx_sub(g, support[2 + i], flx_mul(g, flx_scalar(g, FLX_F32, 0.02), d[i]));
    flx_inline(g, error, adapted, 2 + PARAMS, &after, 1);
    flx_inline(g, error, question, 2 + PARAMS, &before, 1);
    flx_output(g, after, "after");
    flx_output(g, before, "before");
    need(flx_graph_error(g, &err) == FLX_OK);
    flx_graph_release(slope);
    return g;
}

/* The means of both errors over all tasks, each with its own points but the same parameters. */
static flx_graph *build_loss(flx_context *ctx, const flx_graph *task)
{
    const flx_vmap_axis axes[] = {{"support_x", 0}, {"support_y", 0}, {"x", 0}, {"y", 0}};
    flx_graph *all = flx_vmap(task, axes, 4, NULL, 0, TASKS, &err), *g = flx_graph_new(ctx, "loss");
    need(all != NULL);
    flx_val errors[2];
    flx_inline(g, all, NULL, 0, errors, 2); /* declares its inputs and parameters */
    flx_output(g, flx_reduce_mean(g, errors[0], FLX_ALL, 0), "after");
    flx_output(g, flx_reduce_mean(g, errors[1], FLX_ALL, 0), "before");
    need(flx_graph_error(g, &err) == FLX_OK);
    flx_graph_release(all);
    return g;
}

/* New sines: points of the support, then of the question. */
static void draw(float *const values[4])
{
    for (int task = 0; task < TASKS; task++) {
        double amplitude = 0.5 + 4 * uniform(), phase = 3.14159 * uniform();
        for (int i = task * POINTS; i < (task + 1) * POINTS; i++)
            for (int part = 0; part < 4; part += 2) {
                double x = 10 * uniform() - 5;
                values[part][i] = (float)x;
                values[part + 1][i] = (float)(amplitude * sin(x + phase));
            }
    }
}

int main(int argc, char **argv)
{
    const int quick = is_quick(argc, argv), steps = quick ? 500 : 10000;
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *error = parse(ctx, text), *task = build_task(ctx, error), *loss = build_loss(ctx, task);
    flx_train_options adam = {
        .struct_size = sizeof adam, .optimiser = FLX_ADAM, .rate = 0.001, .clip_norm = 10, .seed = 1};
    flx_trainer *t = flx_compile_training(loss, &adam, NULL, &err);
    need(t != NULL);
    static const char *const names[] = {"support_x", "support_y", "x", "y"};
    flx_feed feeds[4];
    float *values[4];
    flx_tensor *held[4];
    for (int i = 0; i < 4; i++) {
        held[i] = tensor(ctx, FLX_F32, FLX_INTS(TASKS, POINTS, 1), NULL);
        values[i] = flx_tensor_data(held[i]);
        feeds[i] = (flx_feed){names[i], held[i]};
    }
    double after = 0, before = 0, value; /* means over a fifth of the steps: each is on new sines */
    for (int step = 1; step <= steps; step++) {
        draw(values);
        need(flx_trainer_step(t, feeds, 4, &value, &err) == FLX_OK);
        if (step % (steps / 5) == 1)
            after = before = 0;
        after += value / (steps / 5);
        before += flx_tensor_get(flx_trainer_output(t, "before"), 0) / (steps / 5);
        if (step % (steps / 5) == 0)
            printf("step %5d: error %.2f before, %.2f after one step on ten points\n", step, before, after);
    }
    for (int i = 0; i < 4; i++)
        flx_tensor_release(held[i]);
    flx_trainer_free(t);
    flx_graph_release(loss);
    flx_graph_release(task);
    flx_graph_release(error);
    flx_context_free(ctx);
    return verdict(after < before * (quick ? 0.9 : 0.25));
}
