/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest training: a line is fitted to points with noise. Prints the loss and the line, which should be close to
   y = 3 x + 2. */
#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>

static const char text[] = "graph loss(x: f32[N], y: f32[N], param w: f32[] ~ zeros, param b: f32[] ~ zeros) {\n"
                           "  loss = reduce_mean(square(sub(add(mul(x, w), b), y)))\n"
                           "  return loss\n"
                           "}\n";

int main(void)
{
    float x[50], y[50];
    for (int i = 0; i < 50; i++) {
        x[i] = (float)i / 25 - 1;
        y[i] = 3 * x[i] + 2 + 0.1F * sinf(100 * (float)i); /* a sine of large numbers serves as noise */
    }
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_type points = flx_type_make(FLX_F32, 1, (flx_dim[]){50});
    flx_tensor *xs = flx_tensor_new(ctx, &points, x, &err), *ys = flx_tensor_new(ctx, &points, y, &err);
    flx_feed feeds[] = {{"x", xs}, {"y", ys}};
    flx_module *model = flx_parse(ctx, text, sizeof text - 1, NULL, &err);
    flx_train_options sgd = {.struct_size = sizeof sgd, .optimiser = FLX_SGD, .rate = 0.3};
    flx_trainer *t = model ? flx_compile_training(flx_module_main(model), &sgd, NULL, &err) : NULL;
    double loss = 0, w = 0, b = 0;
    for (int step = 0; t && step < 100 && flx_trainer_step(t, feeds, 2, &loss, &err) == FLX_OK; step++)
        if (step % 20 == 0)
            printf("step %2d: the loss is %.4f\n", step, loss);
    if (err.code) {
        fprintf(stderr, "%s: %s\n", flx_code_name(err.code), err.message);
    } else {
        w = flx_tensor_get(flx_params_find(flx_trainer_params(t), "w"), 0);
        b = flx_tensor_get(flx_params_find(flx_trainer_params(t), "b"), 0);
        printf("y = %.2f x + %.2f\n", w, b);
    }
    flx_trainer_free(t);
    flx_module_free(model);
    flx_tensor_release(xs);
    flx_tensor_release(ys);
    flx_context_free(ctx);
    return fabs(w - 3) > 0.05 || fabs(b - 2) > 0.05;
}
