/* SPDX-License-Identifier: Apache-2.0 */
/* A network of layers learns the exclusive or: built with fluxion/nn.h, trained, evaluated. */
#include <fluxion/fluxion.h>
#include <fluxion/nn.h>
#include <stdio.h>

enum { BATCH = 4, STEPS = 200 };

/* Output 0 is the loss, output 1 the class with the larger logit. */
static flx_graph *build(flx_context *ctx)
{
    flx_graph *g = flx_graph_new(ctx, "xor");
    flx_type points = flx_type_make(FLX_F32, 2, (const flx_dim[]){BATCH, 2});
    flx_type labels = flx_type_make(FLX_I32, 1, (const flx_dim[]){BATCH});
    flx_val x = flx_input(g, "x", &points), label = flx_input(g, "label", &labels);
    flx_val logits = flx_nn_mlp(g, "net", x, (const int64_t[]){8, 2}, 2, "tanh"); /* 2 -> 8 -> 2 */
    flx_output(g, flx_nn_cross_entropy(g, logits, label, 0), "loss");
    flx_output(g, flx_argmax(g, logits, 1, 0, FLX_I32), "guess");
    return g;
}

static void show_params(flx_context *ctx, const flx_graph *g)
{
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        char type[40];
        flx_val v = flx_graph_input(g, i);
        flx_type_print(ctx, flx_val_type(g, v), type, sizeof type);
        if (flx_graph_input_is_param(g, i))
            printf("%s: %s\n", flx_val_name(g, v), type);
    }
}

static flx_code train(flx_context *ctx, const flx_graph *g, flx_trainer *t, flx_error *err)
{
    const flx_type *points = flx_val_type(g, flx_graph_find(g, "x")),
                   *labels = flx_val_type(g, flx_graph_find(g, "label"));
    flx_tensor *x = flx_tensor_new(ctx, points, (const float[]){0, 0, 0, 1, 1, 0, 1, 1}, err);
    flx_tensor *label = flx_tensor_new(ctx, labels, (const int32_t[]){0, 1, 1, 0}, err);
    const flx_feed feeds[] = {{"x", x}, {"label", label}};
    flx_code code = x && label ? FLX_OK : (flx_code)err->code;
    for (int step = 1; code == FLX_OK && step <= STEPS; step++) {
        double loss;
        code = flx_trainer_step(t, feeds, 2, &loss, err);
        if (code == FLX_OK && (step == 1 || step == STEPS))
            printf("step %d: the loss is %.2f\n", step, loss);
    }
    for (int i = 0; code == FLX_OK && i < BATCH; i++)
        printf("%g xor %g is %g\n", flx_tensor_get(x, 2 * i), flx_tensor_get(x, 2 * i + 1),
               flx_tensor_get(flx_trainer_output(t, "guess"), i));
    flx_tensor_release(x);
    flx_tensor_release(label);
    return code;
}

int main(void)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = build(ctx);
    const flx_train_options adam = {.struct_size = sizeof adam, .optimiser = FLX_ADAM, .rate = 0.05};
    flx_trainer *t = flx_compile_training(g, &adam, NULL, &err);
    show_params(ctx, g);
    if (t)
        train(ctx, g, t, &err);
    flx_trainer_free(t);
    flx_graph_release(g);
    flx_context_free(ctx);
    return err.code ? fprintf(stderr, "%s: %s\n", err.where, err.message), 1 : 0;
}
