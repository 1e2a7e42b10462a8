/* SPDX-License-Identifier: Apache-2.0 */
/* bench_conv.c: convolutions of many shapes without a graph around them: gathered, and summed towards the weights. One
   thread, and its processor time, so that a busy machine disturbs the least. It uses internals of the library.

       bench_conv [ROUNDS]      (default: 9; the best one counts) */
#include "backend/cpu/conv/conv_direct.h"
#include "inside.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const char *name;
    int64_t images, channels, features, extent, taps, stride, padding;
    bool is_last;      /* channels last */
    bool is_depthwise; /* a group for each channel */
} bench_case;

static const bench_case cases[] = {
    {"3 x 3, 64, channels last", 2, 64, 64, 56, 3, 1, 1, true, false},
    {"3 x 3, 64, channels first", 2, 64, 64, 56, 3, 1, 1, false, false},
    {"3 x 3, 32 to 64, 26 x 26, channels first", 32, 32, 64, 26, 3, 1, 0, false, false},
    {"3 x 3, 1 to 32, 28 x 28, channels first", 32, 1, 32, 28, 3, 1, 0, false, false},
    {"3 x 3, 256, 14 x 14, channels last", 2, 256, 256, 14, 3, 1, 1, true, false},
    {"3 x 3, 512, 7 x 7, channels first", 4, 512, 512, 7, 3, 1, 1, false, false},
    {"7 x 7, 3 to 64, stride 2, channels first", 1, 3, 64, 224, 7, 2, 3, false, false},
    {"1 x 1, 256 to 64, channels last", 2, 256, 64, 56, 1, 1, 0, true, false},
    {"1 x 1, 256 to 64, channels first", 2, 256, 64, 56, 1, 1, 0, false, false},
    {"3 x 3, 128, stride 2, channels last", 2, 128, 128, 56, 3, 2, 1, true, false},
    {"3 x 3, 96, depthwise, channels last", 4, 96, 96, 56, 3, 1, 1, true, true},
    {"3 x 3, 96, depthwise, channels first", 4, 96, 96, 56, 3, 1, 1, false, true},
};

static float *new_values(int64_t count)
{
    float *x = block_of((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(i * 7919 % 1000) / 1000 - 0.5f;
    return x;
}

static flxi_conv_view image_view(int64_t channels, int64_t extent, bool is_last)
{
    int64_t plane = extent * extent;
    if (is_last)
        return (flxi_conv_view){.outer = plane * channels, .inner = 1, .at = {extent * channels, channels}};
    return (flxi_conv_view){.outer = plane * channels, .inner = plane, .at = {extent, 1}};
}

static flxi_conv_problem problem_of(const bench_case *c)
{
    int64_t out = (c->extent + 2 * c->padding - c->taps) / c->stride + 1;
    int64_t taps = c->taps * c->taps;
    flxi_conv_axis axis = {.out = out,
                           .taps = c->taps,
                           .in = c->extent,
                           .stride = c->stride,
                           .dilation = 1,
                           .low = c->padding,
                           .spread = 1};
    flxi_conv_problem p = {.dtype = FLX_F32,
                           .images = c->images,
                           .channels = c->is_depthwise ? 1 : c->channels,
                           .features = c->is_depthwise ? 1 : c->features,
                           .groups = c->is_depthwise ? c->channels : 1,
                           .axis = {axis, axis}};
    p.x = image_view(c->channels, c->extent, c->is_last);
    p.z = image_view(c->features, out, c->is_last);
    p.x.group = p.x.inner;
    p.z.group = p.z.inner;
    p.w = (flxi_conv_view){.outer = p.channels * taps, .inner = taps, .at = {c->taps, 1}, .group = taps};
    return p;
}

typedef void (*run_fn)(const flxi_conv_problem *p, flxi_pool *pool, void *scratch);

static double best_of(int rounds, const flxi_conv_problem *p, run_fn run, size_t scratch_bytes)
{
    double best = 1e9;
    void *scratch = block_of(scratch_bytes);
    for (int i = 0; i < rounds; i++) {
        double begin = seconds_by(CLOCK_THREAD_CPUTIME_ID);
        run(p, NULL, scratch);
        double taken = seconds_by(CLOCK_THREAD_CPUTIME_ID) - begin;
        best = taken < best ? taken : best;
    }
    free(scratch);
    return best;
}

static void bench(const bench_case *c, int rounds)
{
    flxi_conv_problem p = problem_of(c);
    int64_t out = p.axis[0].out * p.axis[1].out;
    float *x = new_values(c->images * c->channels * c->extent * c->extent);
    float *w = new_values(p.groups * p.features * p.channels * c->taps * c->taps);
    float *z = new_values(c->images * c->features * out);
    p.x_data = x;
    p.w_data = w;
    p.z_data = z;
    double flops = 2.0 * (double)(c->images * c->features * out * p.channels * c->taps * c->taps);
    double gather = best_of(rounds, &p, flxi_conv_gather, flxi_conv_gather_scratch(&p, 1));
    double weight = best_of(rounds, &p, flxi_conv_weight, flxi_conv_weight_scratch(&p, 1));
    printf("%-42s %8.3f ms %6.1f GFLOP/s   to the weights %8.3f ms %6.1f GFLOP/s\n", c->name, 1e3 * gather,
           1e-9 * flops / gather, 1e3 * weight, 1e-9 * flops / weight);
    free(x);
    free(w);
    free(z);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 9;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        bench(&cases[i], rounds < 1 ? 1 : rounds);
    return 0;
}
