/* SPDX-License-Identifier: Apache-2.0 */
/* checkpointed_scans.c: gradients of scans with num_checkpoints in compiled code: the memory of a run follows the
   option, and values are those of the reference evaluator. Most kernels are interpreted, so that lengths cost no
   compiler; the program and its memory are the same. */
#include "test.h"

#include <fluxion/build.h>
#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static flx_graph *parse(flx_context *ctx, const char *text, flx_module **m)
{
    flx_error err = {0};
    *m = flx_parse(ctx, text, strlen(text), "text", &err);
    CHECK_MSG(*m, "%s", err.message);
    return flx_module_main(*m);
}

/* ---- Memory ---- */

/* In carries, of the gradient of a scan of 1000 steps over a carry of 64 KiB. */
static double memory_in_carries(const char *options)
{
    char text[300];
    flx_error err = {0};
    flx_module *m;
    flx_context *ctx = flx_context_new(NULL);
    snprintf(text, sizeof text,
             "graph step(h: f64[8192]) { return sin(h) }\n"
             "graph f(x: f64[8192]) { c = scan(x, body=@step, length=1000%s) return reduce_sum(c) }\n",
             options);
    const char *wrt[] = {"x"};
    flx_graph *d = flx_grad(parse(ctx, text, &m), wrt, 1, NULL, &err);
    CHECK_MSG(d, "%s", err.message);
    flx_exec *e = flx_compile(d, &(flx_compile_options){.flags = FLX_COMPILE_INTERPRET, .device = "cpu"}, &err);
    CHECK_MADE(e, &err);
    double carries = (double)flx_exec_memory(e) / (8192 * sizeof(double));
    flx_exec_free(e);
    flx_graph_release(d);
    flx_module_free(m);
    flx_context_free(ctx);
    return carries;
}

TEST(compiled_scan_with_ten_checkpoints_keeps_ten_carries_at_each_level)
{
    double all = memory_in_carries(""), ten = memory_in_carries(", num_checkpoints=10");
    double some = memory_in_carries(", num_checkpoints=25"), hundred = memory_in_carries(", num_checkpoints=100");
    if (effort(EFFORT_report))
        printf("  carries: %.1f without checkpoints, %.1f with 10, %.1f with 25, %.1f with 100\n", all, ten, some,
               hundred);
    CHECK_MSG(all > 1000, "without checkpoints %.1f carries", all);
    CHECK_MSG(ten < 40, "with 10 checkpoints %.1f carries", ten);
    CHECK_MSG(some > 65 && some < 75, "with 25 checkpoints %.1f carries: 25, and 40 of a segment that is not cut",
              some);
    CHECK_MSG(hundred < 120, "with 100 checkpoints %.1f carries", hundred);
}

/* ---- Values ---- */

#define STEP                                                    \
    "graph step(h: f64[3], n: i32[], w: f64[3], x: f64[3]) {\n" \
    "  k = tanh(add(mul(h, w), x))\n  z = mul(k, cast(n, to=f64))\n  return k, add(n, 1), mul(z, x)\n}\n"

typedef struct {
    flx_context *ctx;
    flx_module *m;
    flx_graph *g;
} scan_case;

/* A loss of all results, and its gradient; of order 2 their derivative along themselves; of order 0 without stacked
   results. */
static scan_case open_case(int length, const char *options, int order)
{
    static const char *const wrt[] = {"h", "w", "xs"};
    char text[700];
    flx_error err = {0};
    scan_case c = {.ctx = flx_context_new(NULL)};
    if (order == 0)
        snprintf(text, sizeof text,
                 "graph step(h: f64[3], w: f64[3], x: f64[3]) { return tanh(add(mul(h, w), x)) }\n"
                 "graph f(h: f64[3], w: f64[3], xs: f64[%d, 3]) {\n"
                 "  c = scan(h, w, xs, body=@step, num_bcast=1%s)\n  return reduce_sum(mul(c, c))\n}\n",
                 length, options);
    else
        snprintf(text, sizeof text,
                 STEP "graph f(h: f64[3], w: f64[3], xs: f64[%d, 3]) {\n"
                      "  c, n, y = scan(h, full(i32[], 0), w, xs, body=@step, num_carry=2, num_bcast=1%s)\n"
                      "  return add(reduce_sum(mul(c, c)), reduce_sum(sin(y)))\n}\n",
                 length, options);
    c.g = flx_grad(parse(c.ctx, text, &c.m), wrt, 3, &(flx_grad_options){.flags = FLX_GRAD_VALUE}, &err);
    CHECK_MSG(c.g, "%s", err.message);
    if (order == 2) {
        flx_graph *second = flx_jvp(c.g, wrt, 3, &err);
        CHECK_MSG(second, "%s", err.message);
        flx_graph_release(c.g);
        c.g = second;
    }
    return c;
}

static void close_case(scan_case *c)
{
    flx_graph_release(c->g);
    flx_module_free(c->m);
    flx_context_free(c->ctx);
}

static void check_case(int length, const char *options, int order, uint32_t flags)
{
    enum { MOST = 8 };
    scan_case c = open_case(length, options, order);
    flx_tensor *right[MOST] = {0}, *got[MOST] = {0}, *in[MOST];
    flx_feed feeds[MOST];
    flx_error err = {0};
    uint64_t state = test_seed();
    size_t n = flx_graph_input_count(c.g), outputs = flx_graph_output_count(c.g);
    CHECK(n <= MOST && outputs <= MOST);
    test_fail_context("length %d%s, order %d", length, options, order);
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(c.g, i);
        in[i] = flx_tensor_new(c.ctx, flx_val_type(c.g, v), NULL, &err);
        CHECK_MADE(in[i], &err);
        for (int64_t k = 0; k < flx_tensor_count(in[i]); k++)
            ((double *)flx_tensor_data(in[i]))[k] = test_uniform(&state) - 0.5;
        feeds[i] = (flx_feed){flx_val_name(c.g, v), in[i]};
    }
    flx_exec *e = flx_compile(c.g, &(flx_compile_options){.flags = flags, .device = "cpu"}, &err);
    CHECK_MADE(e, &err);
    CHECK_OK(flx_run(c.g, ON_REF, feeds, n, right, &err), &err);
    CHECK_OK(flx_exec_run(e, NULL, feeds, n, got, &err), &err);
    for (size_t k = 0; k < outputs; k++)
        for (int64_t i = 0; i < flx_tensor_count(right[k]); i++) {
            double a = flx_tensor_get(right[k], i), b = flx_tensor_get(got[k], i);
            EXPECT_MSG(fabs(a - b) <= 1e-11 * fmax(1, fabs(a)), "output %zu at %lld: %.17g by reference, %.17g", k,
                       (long long)i, a, b);
        }
    for (size_t k = 0; k < outputs; k++) {
        flx_tensor_release(right[k]);
        flx_tensor_release(got[k]);
    }
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(in[i]);
    flx_exec_free(e);
    close_case(&c);
}

/* Lengths below, at and above those that are kept whole; that divide evenly and do not; no steps. */
TEST(compiled_scan_with_checkpoints_has_the_gradients_of_the_reference)
{
    static const int lengths[] = {0, 1, 2, 3, 4, 5, 8, 9, 12, 13, 27, 29, 64, 65, 97};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        check_case(lengths[i], ", num_checkpoints=1", 1, FLX_COMPILE_INTERPRET);
        check_case(lengths[i], ", num_checkpoints=3, reverse=true", 1, FLX_COMPILE_INTERPRET);
    }
    check_case(29, ", num_checkpoints=2", 1, 0);
    check_case(30, ", num_checkpoints=5, reverse=true", 1, 0);
}

TEST(compiled_scan_with_checkpoints_has_second_derivatives)
{
    check_case(0, ", num_checkpoints=1", 2, FLX_COMPILE_INTERPRET);
    check_case(7, ", num_checkpoints=2", 2, FLX_COMPILE_INTERPRET);
    check_case(13, ", num_checkpoints=3, reverse=true", 2, FLX_COMPILE_INTERPRET);
    check_case(28, ", num_checkpoints=1", 2, FLX_COMPILE_INTERPRET);
}

TEST(compiled_scan_with_checkpoints_and_no_rows_has_the_gradients_of_the_reference)
{
    static const int lengths[] = {0, 1, 2, 5, 8, 9, 29, 64, 65};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        check_case(lengths[i], ", num_checkpoints=1", 0, FLX_COMPILE_INTERPRET);
        check_case(lengths[i], ", num_checkpoints=3, reverse=true", 0, FLX_COMPILE_INTERPRET);
    }
}

/* ---- Work ---- */

/* Of a loss and its gradient, counted by steps. */
static double flops_of(const char *options)
{
    char text[300];
    flx_error err = {0};
    flx_module *m;
    flx_buffer source;
    flx_build_sizes sizes = {.struct_size = sizeof sizes};
    flx_context *ctx = flx_context_new(NULL);
    snprintf(text, sizeof text,
             "graph step(h: f32[8, 64], w: f32[64, 64]) { return sin(matmul(h, w)) }\n"
             "graph f(h: f32[8, 64], w: f32[64, 64]) {\n"
             "  c = scan(h, w, body=@step, num_bcast=1, length=100%s)\n  return reduce_sum(c)\n}\n",
             options);
    const char *wrt[] = {"w"};
    flx_graph *d = flx_grad(parse(ctx, text, &m), wrt, 1, &(flx_grad_options){.flags = FLX_GRAD_VALUE}, &err);
    CHECK_MSG(d, "%s", err.message);
    CHECK_OK(flx_build_c(d, NULL, &source, NULL, &sizes, &err), &err);
    flx_buffer_free(&source);
    flx_graph_release(d);
    flx_module_free(m);
    flx_context_free(ctx);
    return (double)sizes.flops;
}

TEST(compiled_scan_with_checkpoints_computes_its_steps_once_more)
{
    double forward = 100 * 2.0 * 8 * 64 * 64, more = flops_of(", num_checkpoints=10") - flops_of("");
    CHECK_MSG(more > 0.9 * forward && more < 1.1 * forward, "%.3g more operations, a forward pass has %.3g", more,
              forward);
}
