/* SPDX-License-Identifier: Apache-2.0 */
/* pendulum_train.c: trains the controller of pendulum.flx on the host, with the library, through three seconds of
   simulation of 64 pendulums, and writes its parameters. The controller itself then becomes a C file:

       cc -std=c11 -Iinclude -Iexamples examples/standalone/pendulum_train.c build/libfluxion.a -lm -pthread -o train
       ./train examples/standalone/pendulum.flx control.safetensors
       flx build examples/standalone/pendulum.flx --graph control --set N=1 --params embed \
           --values control.safetensors -o control.c --header control.h

   and pendulum_run.c, compiled with control.c, holds a pendulum with it. */
#include "example.h"

enum { PENDULUMS = 64, STEPS = 300 };

static flx_module *read_module(flx_context *ctx, const char *path)
{
    static char text[8192];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    if (f)
        fclose(f);
    flx_module *m = flx_parse(ctx, text, n, path, &err);
    need(m != NULL);
    return m;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s pendulum.flx control.safetensors\n", argv[0]);
        return 2;
    }
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = read_module(ctx, argv[1]);
    const flx_dim_binding dims[] = {{"N", PENDULUMS}};
    flx_graph *swing = flx_specialise(flx_module_main(m), dims, 1, &err);
    need(swing != NULL);
    const flx_train_options options = {.struct_size = sizeof options, .optimiser = FLX_ADAM, .rate = 0.01, .seed = 1};
    flx_trainer *t = flx_compile_training(swing, &options, NULL, &err);
    need(t != NULL);

    flx_tensor *start = tensor(ctx, FLX_F32, FLX_INTS(PENDULUMS, 2), NULL);
    float *state = flx_tensor_data(start);
    double first = 0, loss = 0;
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < PENDULUMS; i++) {
            state[2 * i] = (float)(1.4 * uniform() - 0.7);
            state[2 * i + 1] = (float)(uniform() - 0.5);
        }
        need(flx_trainer_step(t, &(flx_feed){"start", start}, 1, &loss, &err) == FLX_OK);
        first = step == 0 ? loss : first;
    }
    printf("loss %.4f, after %d steps %.4f\n", first, STEPS, loss);
    need(flx_params_save(flx_trainer_params(t), argv[2], &err) == FLX_OK);

    flx_tensor_release(start);
    flx_trainer_free(t);
    flx_graph_release(swing);
    flx_module_free(m);
    flx_context_free(ctx);
    return loss < first / 4 ? 0 : 1;
}
