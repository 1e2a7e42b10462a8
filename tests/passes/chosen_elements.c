/* SPDX-License-Identifier: Apache-2.0 */
/* chosen_elements.c: where one element is chosen of each row, what is computed of all elements is computed of that one:
   results are those of the reference evaluator, and no other value of the size of the operand is in memory. */
#include "compile/program.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

extern const flxi_device flxi_device_cpu;

#define ROWS "x: f32[40, 600], l: i32[40]"
#define HIT "  hit = eq(iota(i32[40, 600], axis=1), unsqueeze(l, axes=[1]))\n"

/* Labels are between -5 and 607, or 0 and 599 where others are an error. */
static const struct {
    const char *text, *wrt;
    bool is_inside;
    int64_t most; /* bytes of the arena */
} graphs[] = {
    {"graph f(" ROWS ") {\n" HIT "  return reduce_sum(where(hit, log_softmax(x, axis=1), 0), axes=[1]) }", NULL, false,
     9600},
    {"graph f(" ROWS ") {\n" HIT "  return reduce_mean(reduce_sum(where(hit, log_softmax(x, axis=1), 0), axes=[1])) }",
     "x", false, 9600},
    {"graph f(" ROWS ") {\n" HIT "  return reduce_sum(where(hit, 2.5, 0), axes=[1], keep_dims=true) }", NULL, false, 0},
    {"graph f(" ROWS ") { return reduce_mean(softmax_cross_entropy_with_logits(x, l)) }", "x", true, 9600},
    {"graph f(" ROWS ") { return reduce_mean(softmax_cross_entropy_with_logits(x, l, oob=zero)) }", "x", false, 9600},
    {"graph f(" ROWS ") { return reduce_mean(softmax_cross_entropy_with_logits(x, l, oob=clamp)) }", "x", false, 9600},
    {"graph f(" ROWS ") {\n  i = unsqueeze(l, axes=[1])\n"
     "  y = exp(mul(x, tanh(x)))\n  return take_along(y, i, axis=1, oob=zero), take_along(sqrt(add(y, 1)), i, axis=1, "
     "oob=clamp) }",
     NULL, false, 9600},
    /* Several of each row; along the first axis; an operand that varies along the axis but has fewer axes. */
    {"graph f(x: f32[40, 600], i: i32[40, 3]) { return take_along(sub(x, 1.5), i, axis=1, oob=clamp) }", NULL, false,
     9600},
    {"graph f(x: f32[600, 40], i: i32[2, 40], b: f32[40]) { return take_along(add(x, b), i, axis=0, oob=zero) }", NULL,
     false, 9600},
    {"graph f(x: f32[40, 600], i: i32[40, 1], b: f32[600]) { return take_along(add(x, b), i, axis=1, oob=zero) }", NULL,
     false, INT64_MAX},
};

static flx_graph *make(flx_context *ctx, size_t i)
{
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, graphs[i].text, strlen(graphs[i].text), "case", &err);
    CHECK_MSG(m, "%s: %s", graphs[i].text, err.message);
    flx_graph *g = flx_module_main(m);
    const flx_grad_options o = {.struct_size = sizeof o, .flags = FLX_GRAD_VALUE};
    if (graphs[i].wrt)
        g = flx_grad(g, &graphs[i].wrt, 1, &o, &err);
    else
        flx_graph_retain(g);
    CHECK_MSG(g, "%s: %s", graphs[i].text, err.message);
    flx_module_free(m);
    return g;
}

/* Elements that are not finite must not reach what is not chosen. */
static flx_tensor *fill(flx_context *ctx, const flx_type *t, bool is_inside, uint64_t *seed)
{
    flx_error err = {0};
    flx_tensor *x = flx_tensor_new(ctx, t, NULL, &err);
    CHECK_MADE(x, &err);
    for (int64_t i = 0; i < flx_tensor_count(x); i++) {
        double u = test_uniform(seed);
        if (t->dtype == FLX_F32)
            ((float *)flx_tensor_data(x))[i] = i % 977 == 5 ? -INFINITY : (float)(6 * u - 3);
        else
            ((int32_t *)flx_tensor_data(x))[i] = is_inside ? (int32_t)(600 * u) : (int32_t)(613 * u) - 5;
    }
    return x;
}

static void check_equal(const char *text, const flx_tensor *a, const flx_tensor *b)
{
    for (int64_t i = 0; i < flx_tensor_count(a); i++) {
        double x = flx_tensor_get(a, i), y = flx_tensor_get(b, i);
        bool is_close = x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= 1e-5 * (1 + fabs(y));
        CHECK_MSG(is_close, "%s: element %lld is %g, and %g on ref", text, (long long)i, x, y);
    }
}

static void check_results(flx_context *ctx, const flx_graph *g, size_t i)
{
    enum { MOST = 4 };
    static const char *const devices[] = {"cpu", "ref"};
    flx_error err = {0};
    flx_feed feeds[MOST];
    flx_tensor *out[2][MOST];
    uint64_t seed = test_seed() + i;
    size_t nin = flx_graph_input_count(g), nout = flx_graph_output_count(g);
    for (size_t k = 0; k < nin; k++) {
        flx_val v = flx_graph_input(g, k);
        feeds[k] = (flx_feed){flx_val_name(g, v), fill(ctx, flx_val_type(g, v), graphs[i].is_inside, &seed)};
    }
    for (int d = 0; d < 2; d++) {
        const flx_run_options o = {.struct_size = sizeof o, .device = devices[d]};
        CHECK_MSG(flx_run(g, &o, feeds, nin, out[d], &err) == FLX_OK, "%s: %s", graphs[i].text, err.message);
    }
    for (size_t k = 0; k < nout; k++) {
        check_equal(graphs[i].text, out[0][k], out[1][k]);
        flx_tensor_release(out[0][k]);
        flx_tensor_release(out[1][k]);
    }
    for (size_t k = 0; k < nin; k++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[k].value);
}

static void check_memory(flx_context *ctx, const flx_graph *g, size_t i)
{
    flx_error err = {0};
    flxi_program m;
    const flx_compile_options o = {.struct_size = sizeof o};
    flxi_program_init(&m, ctx, &flxi_device_cpu, &o);
    CHECK_MSG(flxi_routine_compile(&m, g, &m.main, &err) == FLX_OK, "%s: %s", graphs[i].text, err.message);
    CHECK_MSG((int64_t)m.main->arena_bytes <= graphs[i].most, "%s: an arena of %lld bytes", graphs[i].text,
              (long long)m.main->arena_bytes);
    flxi_program_free(&m);
}

TEST(only_elements_that_are_chosen_are_computed)
{
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        flx_graph *g = make(ctx, i);
        check_results(ctx, g, i);
        check_memory(ctx, g, i);
        flx_graph_release(g);
        test_count_case();
    }
    flx_context_free(ctx);
}
