/* SPDX-License-Identifier: Apache-2.0 */
/* bench_extents.c: what a new extent of a symbolic dimension costs. The gradient of an attention layer runs on N = 64 …
   124 rows, in two ways: with one machine code for all N, and with machine code for each N alone. No objects are taken
   from the cache of the user.

       bench_extents [ROUNDS]        (default 200)

   Prints the seconds that the first runs of all N take together, and the best time of one run for some N. */
#include "bench.h"

#include <fluxion/fluxion.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST = 64, LAST = 124, INPUTS = 5, OUTPUTS = 5 };

static const char text[] =
    "graph f(x: f32[N, 64], wq: f32[64, 64], wk: f32[64, 64], wv: f32[64, 64], wo: f32[64, 64]) {\n"
    "  q = matmul(x, wq)\n"
    "  k = matmul(x, wk)\n"
    "  v = matmul(x, wv)\n"
    "  p = softmax(mul(matmul(q, transpose(k)), 0.125), axis=1)\n"
    "  h = gelu(add(x, matmul(matmul(p, v), wo)))\n"
    "  return reduce_sum(mul(h, h))\n"
    "}\n";

static const char *const names[INPUTS] = {"x", "wq", "wk", "wv", "wo"};

static flx_tensor *matrix(flx_context *ctx, int64_t rows)
{
    flx_error err = {0};
    flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){rows, 64});
    flx_tensor *t = flx_tensor_new(ctx, &type, NULL, &err);
    check(t != NULL, &err);
    for (int64_t i = 0; i < flx_tensor_count(t); i++)
        ((float *)flx_tensor_data(t))[i] = (float)(i * 7 % 31 - 15) / 64;
    return t;
}

/* The best time of some runs. */
static double best_run(flx_context *ctx, flx_exec *e, int64_t n, int rounds)
{
    flx_feed feeds[INPUTS];
    flx_error err = {0};
    double best = 1e9;
    for (int i = 0; i < INPUTS; i++)
        feeds[i] = (flx_feed){names[i], matrix(ctx, i == 0 ? n : 64)};
    for (int r = 0; r < rounds; r++) {
        flx_tensor *out[OUTPUTS];
        double begin = now();
        check(flx_exec_run(e, NULL, feeds, INPUTS, out, &err) == FLX_OK, &err);
        double time = now() - begin;
        best = time < best ? time : best;
        for (int i = 0; i < OUTPUTS; i++)
            flx_tensor_release(out[i]);
    }
    for (int i = 0; i < INPUTS; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    return best;
}

static void measure(flx_context *ctx, const flx_graph *g, const char *what, uint32_t flags, int rounds)
{
    flx_error err = {0};
    flx_compile_options o = {.struct_size = sizeof o, .flags = flags, .cache = FLX_CACHE_OFF};
    flx_exec *e = flx_compile(g, &o, &err);
    check(e != NULL, &err);
    double begin = now();
    for (int64_t n = FIRST; n <= LAST; n++)
        best_run(ctx, e, n, 1);
    printf("%s: first runs %.2f s;", what, now() - begin);
    for (int64_t n = FIRST; n <= LAST; n += 20)
        printf("  N=%lld %.3f ms", (long long)n, 1e3 * best_run(ctx, e, n, rounds));
    printf("\n");
    flx_exec_free(e);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "attention", &err);
    check(m != NULL, &err);
    flx_graph *grad = flx_grad(flx_module_main(m), names, INPUTS, NULL, &err);
    check(grad != NULL, &err);
    measure(ctx, grad, "one code for all", 0, rounds);
    measure(ctx, grad, "code for each N ", FLX_COMPILE_SPECIALISE, rounds);
    flx_graph_release(grad);
    flx_module_free(m);
    flx_context_free(ctx);
}
