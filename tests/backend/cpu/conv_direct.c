/* SPDX-License-Identifier: Apache-2.0 */
/* conv_direct.c: random convolutions and gradients of pooling against their definitions, with one and several threads;
   and the same bits from every instruction set. */
#include "backend/cpu/conv/conv_direct.h"
#include "graph/op/eval.h"
#include "route_check.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static int between(int low, int high)
{
    return low + (int)(test_random(&state) % (uint64_t)(high - low + 1));
}

/* ---- conv, with axes in any order ---- */

typedef struct {
    int spatial, groups, batch_groups, batch, channels, features; /* channels of one group, features of all */
    int extent[2], window[2], stride[2], dilation[2], spread[2], low[2], high[2];
    bool reverse[2];
} conv_case;

static int room_of(const conv_case *c, int k)
{
    return (c->extent[k] - 1) * c->spread[k] + 1 + c->low[k] + c->high[k] - ((c->window[k] - 1) * c->dilation[k] + 1);
}

static conv_case random_case(void)
{
    conv_case c = {.spatial = between(1, 2), .groups = 1, .batch_groups = 1, .batch = between(1, 3)};
    int wide = between(0, 3); /* many channels, many features, or neither */
    c.channels = wide == 1 ? between(60, 300) : between(1, 20);
    c.features = wide == 2 ? between(60, 140) : between(1, 20);
    if (between(0, 3) == 0)
        *(between(0, 1) ? &c.groups : &c.batch_groups) = between(2, 3);
    c.features = c.groups * c.batch_groups > 1 ? c.groups * c.batch_groups * between(1, 12) : c.features;
    c.batch *= c.batch_groups;
    if (between(0, 4) == 0) { /* a group for each channel */
        c.channels = c.batch = c.groups = c.batch_groups = 1;
        int groups = between(2, 70);
        bool is_by_batch = between(0, 1);
        *(is_by_batch ? &c.batch_groups : &c.groups) = groups;
        c.batch = is_by_batch ? groups : between(1, 3);
        c.channels = is_by_batch ? between(1, 3) : 1;
        c.features = groups * (between(0, 3) ? 1 : 2);
    }
    bool is_gradient = between(0, 3) == 0; /* more taps than positions, as a gradient has */
    for (int k = 0; k < c.spatial; k++) {
        c.extent[k] = between(1, wide ? 9 : 17);
        c.window[k] = is_gradient ? c.extent[k] : between(1, 4);
        c.stride[k] = between(1, 3);
        c.dilation[k] = between(1, 2);
        c.spread[k] = between(0, 2) ? 1 : between(2, 3);
        c.low[k] = between(-1, 3);
        c.high[k] = between(-1, 3);
        c.reverse[k] = between(0, 3) == 0;
        while (room_of(&c, k) < 0) /* the window must fit */
            c.high[k] += 1 - room_of(&c, k);
    }
    return c;
}

/* Axis of part i (batch or feature, feature, spatial axes) for each factor, and their extents in that order. */
static void random_order(int *axes, int rank)
{
    for (int i = 0; i < rank; i++)
        axes[i] = i;
    for (int i = rank - 1; i > 0; i--) {
        int j = between(0, i);
        int a = axes[i];
        axes[i] = axes[j];
        axes[j] = a;
    }
    if (between(0, 1)) /* channels first, as usual */
        for (int i = 0; i < rank; i++)
            axes[i] = i;
}

static void print_shape(FILE *f, const char *dtype, const int *axes, const int *extents, int rank)
{
    int dims[4];
    for (int i = 0; i < rank; i++)
        dims[axes[i]] = extents[i];
    fprintf(f, "%s[", dtype);
    for (int i = 0; i < rank; i++)
        fprintf(f, "%s%d", i ? ", " : "", dims[i]);
    fprintf(f, "]");
}

static void print_list(FILE *f, const char *name, const int *x, int n)
{
    fprintf(f, "%s=[", name);
    for (int i = 0; i < n; i++)
        fprintf(f, "%s%d", i ? ", " : "", x[i]);
    fprintf(f, "], ");
}

static void check_conv(const conv_case *c, const char *dtype)
{
    char operands[200];
    char attrs[600];
    int rank = c->spatial + 2;
    int axes[3][4];
    int x[4] = {c->batch, c->channels * c->groups, c->extent[0], c->extent[1]};
    int w[4] = {c->features, c->channels, c->window[0], c->window[1]};
    for (int i = 0; i < 3; i++)
        random_order(axes[i], rank);
    FILE *f = fmemopen(operands, sizeof operands, "w");
    print_shape(f, dtype, axes[0], x, rank);
    fprintf(f, ", ");
    print_shape(f, dtype, axes[1], w, rank);
    fclose(f);
    f = fmemopen(attrs, sizeof attrs, "w");
    print_list(f, "input_axes", axes[0], rank);
    print_list(f, "kernel_axes", axes[1], rank);
    print_list(f, "output_axes", axes[2], rank);
    print_list(f, "stride", c->stride, c->spatial);
    print_list(f, "dilation", c->dilation, c->spatial);
    print_list(f, "input_dilation", c->spread, c->spatial);
    fprintf(f, "padding=[");
    for (int k = 0; k < c->spatial; k++)
        fprintf(f, "%s[%d, %d]", k ? ", " : "", c->low[k], c->high[k]);
    fprintf(f, "], reverse=[");
    for (int k = 0; k < c->spatial; k++)
        fprintf(f, "%s%s", k ? ", " : "", c->reverse[k] ? "true" : "false");
    fprintf(f, "], groups=%d, batch_groups=%d", c->groups, c->batch_groups);
    fclose(f);
    route_check_text("conv", operands, attrs, 0, 0);
}

TEST(conv_direct_agrees_with_the_definition)
{
    static const char *const dtypes[] = {"f32", "f32", "f64", "bf16", "f16"};
    state = test_seed();
    for (int64_t i = 0; i < effort(EFFORT_random_graphs) / 4; i++) {
        conv_case c = random_case();
        check_conv(&c, dtypes[between(0, 4)]);
    }
}

/* ---- Its gradients as ops, and transposed convolutions ---- */

static void check_gradient(const conv_case *c, const char *dtype)
{
    char operands[200];
    char attrs[400];
    int out[2];
    for (int k = 0; k < c->spatial; k++)
        out[k] = room_of(c, k) / c->stride[k] + 1;
    bool to_weight = between(0, 1);
    FILE *f = fmemopen(operands, sizeof operands, "w");
    int identity[4] = {0, 1, 2, 3};
    int rank = c->spatial + 2;
    int x[4] = {c->batch, c->channels * c->groups, c->extent[0], c->extent[1]};
    int w[4] = {c->features, c->channels, c->window[0], c->window[1]};
    int z[4] = {c->batch, c->features, out[0], out[1]};
    print_shape(f, dtype, identity, to_weight ? x : z, rank);
    fprintf(f, ", ");
    print_shape(f, dtype, identity, to_weight ? z : w, rank);
    fclose(f);
    f = fmemopen(attrs, sizeof attrs, "w");
    print_list(f, to_weight ? "kernel_size" : "input_size", to_weight ? c->window : c->extent, c->spatial);
    print_list(f, "stride", c->stride, c->spatial);
    print_list(f, "dilation", c->dilation, c->spatial);
    fprintf(f, "padding=[");
    for (int k = 0; k < c->spatial; k++)
        fprintf(f, "%s[%d, %d]", k ? ", " : "", c->low[k], c->high[k]);
    fprintf(f, "], groups=%d", c->groups);
    fclose(f);
    route_check_text(to_weight ? "conv_backward_weight" : "conv_backward_input", operands, attrs, 0, 0);
}

TEST(conv_direct_gradients_agree_with_the_definition)
{
    static const char *const dtypes[] = {"f32", "f32", "f64", "bf16", "f16"};
    state = test_seed() + 1;
    for (int64_t i = 0; i < effort(EFFORT_random_graphs) / 16; i++) {
        conv_case c = random_case();
        for (int k = 0; k < c.spatial; k++) {
            c.spread[k] = 1;
            while (room_of(&c, k) < 0)
                c.high[k] += 1 - room_of(&c, k);
        }
        c.groups = c.groups > 1 ? c.groups : c.batch_groups;
        c.batch = between(1, 3);
        c.batch_groups = 1;
        check_gradient(&c, dtypes[between(0, 4)]);
    }
}

/* ---- Instruction sets ---- */

typedef struct {
    flxi_conv_problem p;
    int64_t counts[3]; /* elements of x, w and z */
} problem_case;

static problem_case random_problem(int32_t dtype)
{
    problem_case c = {.p = {.dtype = dtype, .groups = between(1, 2)}};
    flxi_conv_problem *p = &c.p;
    p->images = between(1, 3);
    p->channels = between(1, 90);
    p->features = between(1, 140);
    if (between(0, 3) == 0) { /* a group for each channel */
        p->channels = p->features = 1;
        p->groups = between(2, 80);
    }
    for (int k = 0; k < 2; k++) {
        flxi_conv_axis *a = &p->axis[k];
        *a = (flxi_conv_axis){.in = between(3, 30), .taps = between(1, 3), .stride = between(1, 2), .spread = 1};
        a->dilation = between(1, 2);
        a->low = between(0, 2);
        a->out = (a->in + a->low + between(0, 2) + 2 - (a->taps - 1) * a->dilation - 1) / a->stride + 1;
        a->out = a->out < 1 ? 1 : a->out;
    }
    int64_t rows = p->axis[0].in;
    int64_t columns = p->axis[1].in;
    bool last = between(0, 1); /* channels last */
    int64_t x = p->channels * p->groups;
    int64_t z = p->features * p->groups;
    int64_t out = p->axis[0].out * p->axis[1].out;
    c.counts[0] = p->images * x * rows * columns;
    c.counts[1] = z * p->channels * p->axis[0].taps * p->axis[1].taps;
    c.counts[2] = p->images * z * out;
    p->x.outer = x * rows * columns;
    p->x.inner = last ? 1 : rows * columns;
    p->x.at[0] = columns * (last ? x : 1);
    p->x.at[1] = last ? x : 1;
    p->x.group = p->channels * p->x.inner;
    p->z.outer = z * out;
    p->z.inner = last ? 1 : out;
    p->z.at[0] = p->axis[1].out * (last ? z : 1);
    p->z.at[1] = last ? z : 1;
    p->z.group = p->features * p->z.inner;
    p->w.at[1] = 1;
    p->w.at[0] = p->axis[1].taps;
    p->w.inner = p->axis[0].taps * p->axis[1].taps;
    p->w.outer = p->w.inner * p->channels;
    p->w.group = p->w.outer * p->features;
    return c;
}

static void *random_values(int32_t dtype, int64_t count)
{
    void *data = malloc((size_t)count * flx_dtype_size(dtype));
    for (int64_t i = 0; i < count; i++)
        flxi_store_double(dtype, data, i, 2 * test_uniform(&state) - 1);
    return data;
}

typedef size_t (*scratch_fn)(const flxi_conv_problem *p, int threads);
typedef void (*run_fn)(const flxi_conv_problem *p, flxi_pool *pool, void *scratch);

/* The same problem with all kernels that this machine has: `result` is one of the data pointers of the problem. */
static void check_isas(problem_case *c, scratch_fn scratch_of, run_fn run, const void **result, int64_t count)
{
    size_t nbytes = (size_t)count * flx_dtype_size(c->p.dtype);
    void *expected = NULL;
    for (int isa = FLXI_ISA_GENERIC; isa <= FLXI_ISA_AVX512; isa++) {
        if (!flxi_isa_available((flxi_isa)isa))
            continue;
        void *y = malloc(nbytes);
        memset(y, 0xdd, nbytes);
        *result = y;
        c->p.isa = (uint32_t)isa;
        size_t size = scratch_of(&c->p, 1);
        void *scratch = aligned_alloc(64, (size + 127) / 64 * 64);
        memset(scratch, 0xff, size);
        run(&c->p, NULL, scratch);
        free(scratch);
        test_fail_context("instruction set %d, %d channels, %d features", isa, (int)c->p.channels, (int)c->p.features);
        CHECK(!expected || memcmp(expected, y, nbytes) == 0);
        free(expected);
        expected = y;
        test_count_case();
    }
    free(expected);
}

TEST(conv_direct_has_the_same_bits_on_every_instruction_set)
{
    state = test_seed() + 2;
    for (int64_t i = 0; i < effort(EFFORT_random_graphs) / 20; i++) {
        problem_case c = random_problem(between(0, 2) ? FLX_F32 : FLX_F64);
        void *x = random_values(c.p.dtype, c.counts[0]);
        void *w = random_values(c.p.dtype, c.counts[1]);
        void *z = random_values(c.p.dtype, c.counts[2]);
        c.p.x_data = x;
        c.p.w_data = w;
        check_isas(&c, flxi_conv_gather_scratch, flxi_conv_gather, &c.p.z_data, c.counts[2]);
        c.p.z_data = z;
        check_isas(&c, flxi_conv_weight_scratch, flxi_conv_weight, &c.p.w_data, c.counts[1]);
        free(x);
        free(w);
        free(z);
    }
}

/* ---- Gradients of pooling ---- */

static int windows_along(int extent, int window, int stride, int low, int high)
{
    return (extent + low + high - window) / stride + 1;
}

TEST(window_lanes_agree_with_the_definition)
{
    static const char *const selects[] = {"ge", "gt", "le", "lt"};
    state = test_seed() + 3;
    for (int64_t i = 0; i < effort(EFFORT_random_graphs) / 2; i++) {
        char operands[200];
        char attrs[300];
        const char *dtype = between(0, 2) ? "f32" : "f64";
        bool squares = between(0, 3) == 0;
        bool last = between(0, 1); /* channels last */
        int extent[2];
        int window[2];
        int stride[2];
        int low[2];
        int high[2];
        int out[2];
        int planes = between(1, 4);
        int channels = between(1, 2) == 1 ? between(1, 5) : between(100, 160);
        channels = last ? channels : between(1, 6);
        for (int k = 0; k < 2; k++) {
            window[k] = squares ? 2 : between(1, 3);
            stride[k] = squares ? 2 : between(1, 3);
            extent[k] = squares ? 2 * between(1, last ? 4 : 20) : between(window[k], last ? 7 : 30);
            low[k] = squares ? 0 : between(0, window[k] - 1);
            high[k] = squares ? 0 : between(0, window[k] - 1);
            out[k] = windows_along(extent[k], window[k], stride[k], low[k], high[k]);
        }
        if (last)
            snprintf(operands, sizeof operands, "%s[%d, %d, %d, %d], %s[%d, %d, %d, %d], %s[]", dtype, planes,
                     extent[0], extent[1], channels, dtype, planes, out[0], out[1], channels, dtype);
        else
            snprintf(operands, sizeof operands, "%s[%d, %d, %d, %d], %s[%d, %d, %d, %d], %s[]", dtype, planes, channels,
                     extent[0], extent[1], dtype, planes, channels, out[0], out[1], dtype);
        snprintf(attrs, sizeof attrs,
                 last ? "window=[1, %d, %d, 1], strides=[1, %d, %d, 1], pad_low=[0, %d, %d, 0],"
                        " pad_high=[0, %d, %d, 0], select=%s, combine=add"
                      : "window=[1, 1, %d, %d], strides=[1, 1, %d, %d], pad_low=[0, 0, %d, %d],"
                        " pad_high=[0, 0, %d, %d], select=%s, combine=add",
                 window[0], window[1], stride[0], stride[1], low[0], low[1], high[0], high[1], selects[between(0, 3)]);
        route_check_text("select_and_scatter", operands, attrs, 0, 0);
        if (last)
            continue;
        *strrchr(operands, ',') = 0;
        snprintf(attrs, sizeof attrs, "kernel_size=[%d, %d], stride=[%d, %d], padding=[[%d, %d], [%d, %d]]", window[0],
                 window[1], stride[0], stride[1], low[0], high[0], low[1], high[1]);
        route_check_text("max_pool_backward", operands, attrs, 0, 0);
    }
}

TEST(window_folds_agree_with_the_definition)
{
    static const char *const combines[] = {"add", "max", "min"};
    state = test_seed() + 4;
    for (int64_t i = 0; i < effort(EFFORT_random_graphs) / 2; i++) {
        char operands[200];
        char attrs[500];
        const char *dtype = between(0, 2) ? "f32" : "f64";
        int last = between(0, 1); /* channels last */
        int at = last ? 1 : 2;
        int dims[4] = {between(1, 3), between(1, 5), between(1, 5), between(1, 40)};
        int list[6][4]; /* window, strides, base_dilation, window_dilation, pad_low, pad_high */
        for (int k = 0; k < 4; k++)
            for (int j = 0; j < 6; j++)
                list[j][k] = j < 4;
        for (int k = at; k < at + 2; k++) {
            dims[k] = between(1, last ? 8 : 40);
            for (int j = 0; j < 4; j++)
                list[j][k] = between(0, 1) ? 1 : between(1, 3);
            list[4][k] = between(-1, 3);
            list[5][k] = between(0, 3);
            int room = (dims[k] - 1) * list[2][k] + 1 + list[4][k] + list[5][k] - (list[0][k] - 1) * list[3][k] - 1;
            list[5][k] -= room < 0 ? room : 0; /* the window must fit */
        }
        snprintf(operands, sizeof operands, "%s[%d, %d, %d, %d], %s[]", dtype, dims[0], dims[1], dims[2], dims[3],
                 dtype);
        FILE *f = fmemopen(attrs, sizeof attrs, "w");
        static const char *const names[] = {"window",          "strides", "base_dilation",
                                            "window_dilation", "pad_low", "pad_high"};
        for (int j = 0; j < 6; j++)
            print_list(f, names[j], list[j], 4);
        fprintf(f, "combine=%s", combines[between(0, 2)]);
        fclose(f);
        route_check_text("reduce_window", operands, attrs, 0, 0);
    }
}
