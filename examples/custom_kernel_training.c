/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel written by hand is part of a model, and its gradient is derived automatically. The kernel is a bank of two
   leaky integrators, a loop over time for each; the model learns their decays and how to mix them, so that it does what
   an unknown system does: 0.7 times an integrator with the decay 0.9 minus 0.4 times one with 0.5. Prints the error and
   what was learned. */
#include "example.h"

enum { ROWS = 16, TIMES = 64 };

static const char text[] =
    "kernel leak(workgroup = [32, 1, 1]) {\n"
    "  buffer x: f32[1024] read;\n" /* [row, time] */
    "  buffer decay: f32[2] read;\n"
    "  buffer y: f32[2048] output;\n" /* [row, integrator, time] */
    "  let i = invocation_id(0);\n"   /* the row times 2 plus the integrator */
    "  let state = 0.0;\n"
    "  for (t in 0..64) {\n"
    "    state = fma(decay[i % 2], state, x[i / 2 * 64 + t]);\n"
    "    y[i * 64 + t] = state;\n"
    "  }\n"
    "}\n"
    "graph loss(x: f32[16, 64], seen: f32[16, 64], param logit: f32[2] ~ normal(1.0), param mix: f32[2] ~ zeros) {\n"
    "  decay = sigmoid(logit)\n" /* between 0 and 1 */
    "  bank  = kernel_call(reshape(x, shape=[1024]), decay, kernel=@leak, grid=[1], outputs=[f32[2048]])\n"
    "  y     = einsum(reshape(bank, shape=[16, 2, 64]), mix, eq=\"rkt,k->rt\")\n"
    "  loss  = reduce_mean(square(sub(y, seen)))\n"
    "  return loss, decay\n"
    "}\n";

/* Random signals, and what the unknown system returns for them. */
static void measure(float *x, float *seen)
{
    for (int row = 0; row < ROWS; row++) {
        double slow = 0, fast = 0;
        for (int t = 0; t < TIMES; t++) {
            double now = normal();
            slow = 0.9 * slow + now;
            fast = 0.5 * fast + now;
            x[row * TIMES + t] = (float)now;
            seen[row * TIMES + t] = (float)(0.7 * slow - 0.4 * fast);
        }
    }
}

int main(int argc, char **argv)
{
    const int quick = is_quick(argc, argv), steps = quick ? 300 : 1500;
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = parse(ctx, text);
    flx_train_options adam = {.struct_size = sizeof adam, .optimiser = FLX_ADAM, .rate = 0.02, .seed = 3};
    flx_trainer *t = flx_compile_training(g, &adam, NULL, &err);
    need(t != NULL);
    flx_tensor *x = tensor(ctx, FLX_F32, FLX_INTS(ROWS, TIMES), NULL),
               *seen = tensor(ctx, FLX_F32, FLX_INTS(ROWS, TIMES), NULL);
    const flx_feed feeds[] = {{"x", x}, {"seen", seen}};
    double loss = 0, first = 0;
    for (int step = 1; step <= steps; step++) {
        measure(flx_tensor_data(x), flx_tensor_data(seen));
        need(flx_trainer_step(t, feeds, 2, &loss, &err) == FLX_OK);
        first = step == 1 ? loss : first;
        if (step == 1 || step % (steps / 5) == 0)
            printf("step %4d: the error is %.1e\n", step, loss);
    }
    for (int k = 0; k < 2; k++)
        printf("decay %.3f, weight %+.3f\n", flx_tensor_get(flx_trainer_output(t, "decay"), k),
               flx_tensor_get(flx_params_find(flx_trainer_params(t), "mix"), k));
    flx_tensor_release(x);
    flx_tensor_release(seen);
    flx_trainer_free(t);
    flx_graph_release(g);
    flx_context_free(ctx);
    return verdict(quick ? loss < first / 10 : loss < 1e-6);
}
