/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a small network to separate two spirals, with compiled code: builds the loss, checks its gradient against
   finite differences, compiles the training step, runs it, and counts how many new points the trained network
   classifies correctly. */
#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 128, HIDDEN = 48, STEPS = 1500, SHOWN = 15, NUM_PARAMS = 6 };

static const char *const names[NUM_PARAMS] = {"w1", "b1", "w2", "b2", "w3", "b3"};

/* ---- Random numbers and data ---- */

static uint64_t seed = 1;

static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform());
}

/* Points on two spirals that wind around each other one and a half times, with a little noise. */
static void draw_batch(flx_tensor *x, flx_tensor *label)
{
    float *xy = flx_tensor_data(x);
    int32_t *side = flx_tensor_data(label);
    for (int i = 0; i < BATCH; i++) {
        double way = sqrt(uniform()), angle = 9.42 * way + 3.141592653589793 * (i % 2);
        xy[2 * i] = (float)(way * cos(angle) + 0.02 * normal());
        xy[2 * i + 1] = (float)(way * sin(angle) + 0.02 * normal());
        side[i] = i % 2;
    }
}

/* ---- The model ---- */

static flx_val layer(flx_graph *g, flx_val x, int k, flx_dim from, flx_dim to)
{
    flx_type w = flx_type_make(FLX_F32, 2, (flx_dim[]){from, to}), b = flx_type_make(FLX_F32, 1, (flx_dim[]){to});
    flx_val weights = flx_set_init(g, flx_param(g, names[2 * k], &w), (flx_init){.kind = FLX_INIT_LECUN_NORMAL});
    flx_val bias = flx_set_init(g, flx_param(g, names[2 * k + 1], &b), (flx_init){.kind = FLX_INIT_ZEROS});
    return flx_add(g, flx_matmul(g, x, weights), bias);
}

/* Output 0 is the loss, the mean of -log p(label); output 1 is the predicted labels. */
static flx_graph *build_loss(flx_context *ctx)
{
    flx_graph *g = flx_graph_new(ctx, "spirals");
    flx_type points = flx_type_make(FLX_F32, 2, (flx_dim[]){BATCH, 2});
    flx_type labels = flx_type_make(FLX_I32, 1, (flx_dim[]){BATCH});
    flx_val x = flx_input(g, "x", &points), label = flx_input(g, "label", &labels);
    flx_val h = flx_tanh(g, layer(g, x, 0, 2, HIDDEN));
    h = flx_tanh(g, layer(g, h, 1, HIDDEN, HIDDEN));
    flx_val z = layer(g, h, 2, HIDDEN, 2);
    flx_val at = flx_unsqueeze(g, label, FLX_INTS(1));
    flx_val chosen = flx_take_along(g, flx_log_softmax(g, z, -1), at, 1, NULL);
    flx_output(g, flx_neg(g, flx_reduce_mean(g, chosen, FLX_ALL, 0)), "loss");
    flx_output(g, flx_argmax(g, z, 1, 0, FLX_I32), "guess");
    return g;
}

/* ---- Gradient check ---- */

/* Runs a graph in double precision; output k is returned. */
static flx_tensor *run_wide(const flx_graph *g, const flx_feed *feeds, size_t k, flx_error *err)
{
    flx_tensor *out[1 + NUM_PARAMS + 1] = {0};
    flx_tensor *wanted = flx_run(g, NULL, feeds, 2 + NUM_PARAMS, out, err) == FLX_OK ? flx_tensor_retain(out[k]) : NULL;
    for (size_t i = 0; i < flx_graph_output_count(g); i++)
        flx_tensor_release(out[i]);
    return wanted;
}

static double loss_at(const flx_graph *wide, const flx_feed *feeds, flx_error *err)
{
    flx_tensor *t = run_wide(wide, feeds, 0, err);
    double loss = flx_tensor_get(t, 0);
    flx_tensor_release(t);
    return loss;
}

/* The largest difference between the gradient and (L(p + h) - L(p - h)) / 2h, for one element of each parameter. */
static double gradient_error(const flx_graph *loss, const flx_feed *feeds, flx_error *err)
{
    flx_graph *wide = flx_widen(loss, err);
    flx_graph *grad = wide ? flx_grad(wide, names, NUM_PARAMS, NULL, err) : NULL; /* guess, then d_w1, d_b1 … */
    flx_feed all[2 + NUM_PARAMS];
    double worst = grad ? 0 : 1, h = 1e-5;
    for (int i = 0; i < 2 + NUM_PARAMS; i++) {
        all[i] = feeds[i];
        if (strcmp(feeds[i].name, "label") != 0)
            all[i].value = flx_tensor_cast(feeds[i].value, FLX_F64, err);
    }
    for (int i = 0; grad && i < NUM_PARAMS; i++) {
        flx_tensor *d = run_wide(grad, all, (size_t)(1 + i), err);
        double *p = flx_tensor_data((flx_tensor *)(uintptr_t)all[2 + i].value);
        int64_t at = flx_tensor_count(all[2 + i].value) / 2;
        double before = p[at];
        p[at] = before + h;
        double up = loss_at(wide, all, err);
        p[at] = before - h;
        double difference = (up - loss_at(wide, all, err)) / (2 * h), error = fabs(difference - flx_tensor_get(d, at));
        p[at] = before;
        worst = error > worst || error != error ? error : worst;
        flx_tensor_release(d);
    }
    for (int i = 0; i < 2 + NUM_PARAMS; i++)
        if (all[i].value != feeds[i].value)
            flx_tensor_release((flx_tensor *)(uintptr_t)all[i].value);
    flx_graph_release(wide);
    flx_graph_release(grad);
    return worst;
}

/* ---- Training ---- */

static int count_right(const flx_tensor *guess, const flx_tensor *label)
{
    int right = 0;
    for (int i = 0; i < BATCH; i++)
        right += flx_tensor_get(guess, i) == flx_tensor_get(label, i);
    return right;
}

static void show(int step, double loss, int right)
{
    char bar[41] = "";
    int n = (int)(40 * (loss < 0.75 ? loss / 0.75 : 1) + 0.5);
    memset(bar, '#', (size_t)n);
    printf("step %4d  loss %.4f  %3d of %d right  %s\n", step, loss, right, BATCH, bar);
    fflush(stdout);
}

/* Each step draws new points, so the accuracy before the update is measured on points that the network has not seen. */
static double train(flx_trainer *t, flx_tensor *x, flx_tensor *label, flx_error *err)
{
    flx_feed feeds[] = {{"x", x}, {"label", label}};
    double loss = 0;
    int right = 0, seen = 0;
    for (int step = 1; step <= STEPS; step++) {
        draw_batch(x, label);
        if (flx_trainer_step(t, feeds, 2, &loss, err) != FLX_OK)
            return 0;
        int now = count_right(flx_trainer_output(t, "guess"), label);
        if (step == 1 || step % (STEPS / SHOWN) == 0)
            show(step, loss, now);
        if (step > STEPS - 50) {
            right += now;
            seen += BATCH;
        }
    }
    return 100.0 * right / seen;
}

int main(void)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *loss = build_loss(ctx);
    flx_train_options adam = {.optimiser = FLX_ADAM, .rate = 0.01};
    flx_trainer *t = flx_compile_training(loss, &adam, NULL, &err);
    double accuracy = 0;
    if (t) {
        flx_feed feeds[2 + NUM_PARAMS];
        flx_tensor *x = flx_tensor_new(ctx, flx_val_type(loss, flx_graph_find(loss, "x")), NULL, &err);
        flx_tensor *label = flx_tensor_new(ctx, flx_val_type(loss, flx_graph_find(loss, "label")), NULL, &err);
        draw_batch(x, label);
        feeds[0] = (flx_feed){"x", x};
        feeds[1] = (flx_feed){"label", label};
        flx_params_feeds(flx_trainer_params(t), loss, feeds + 2, NUM_PARAMS);
        double error = gradient_error(loss, feeds, &err);
        printf("gradient check: the largest difference is %.1e\n", error);
        accuracy = error < 1e-6 ? train(t, x, label, &err) : 0;
        printf("accuracy on new points: %.1f %%\n", accuracy);
        flx_tensor_release(x);
        flx_tensor_release(label);
    }
    flx_trainer_free(t);
    flx_graph_release(loss);
    flx_context_free(ctx);
    if (err.code)
        fprintf(stderr, "%s: %s\n", flx_code_name(err.code), err.message);
    return err.code || accuracy < 95;
}
