/* SPDX-License-Identifier: Apache-2.0 */
/* transform_control.c: loops and custom functions under the transforms: second derivatives against closed forms, loops
   that hit their bound or have none, and functions that are recomputed instead of kept. */
#include "autodiff/transform_text.h"
#include "ops/opcode.h"

#include "graph/graph.h"

#include <math.h>

static const char *const by_x[] = {"x"};
static const char *const by_xw[] = {"x", "w"};

/* ---- Second derivatives ---- */

typedef struct {
    double xx, xw, ww;
} second;

static void check_second(const second *want, double xx, double xw, double wx, double ww, const char *how)
{
    test_fail_context("%s", how);
    CHECK_NEAR(xx, want->xx, 1e-11 * fabs(want->xx));
    CHECK_NEAR(xw, want->xw, 1e-11 * fabs(want->xw));
    CHECK_NEAR(wx, want->xw, 1e-11 * fabs(want->xw));
    CHECK_NEAR(ww, want->ww, 1e-11 * fabs(want->ww));
}

/* All ways to compute the second derivatives of the text's f(x, w), both scalars. */
static void second_by_all_ways(const char *text, double x, double w, const second *want)
{
    text_bench b = bench_open(text, NULL);
    double h[2][2];
    bench_feed_number(&b, "x", x);
    bench_feed_number(&b, "w", w);
    flx_grad_options value = {.flags = FLX_GRAD_VALUE};
    for (size_t i = 0; i < 2; i++) /* reverse over reverse */
        for (size_t k = 0; k < 2; k++) {
            flx_graph *first = flx_grad(b.g, &by_xw[i], 1, NULL, &b.err);
            CHECK_MSG(first != NULL, "%s (%s)", b.err.message, b.err.where);
            h[i][k] = bench_number(&b, flx_grad(first, &by_xw[k], 1, &value, &b.err), 1);
            flx_graph_release(first);
        }
    check_second(want, h[0][0], h[0][1], h[1][0], h[1][1], "reverse over reverse");
    for (size_t i = 0; i < 2; i++) {
        double *row = h[i];
        flx_graph *hessian = flx_hessian(b.g, by_xw, 2, NULL, &b.err); /* forward over reverse */
        row[0] = bench_number(&b, hessian, 2 * i);
        row[1] = bench_number(
            &b, flx_hessian(b.g, by_xw, 2, &(flx_jacobian_options){.mode = FLX_JACOBIAN_REVERSE}, &b.err), 2 * i + 1);
    }
    check_second(want, h[0][0], h[0][1], h[1][0], h[1][1], "the Hessian");
    flx_graph *squared[2];
    for (size_t i = 0; i < 2; i++) { /* reverse over forward: d/d(x, w) of the derivative with respect to one of them */
        flx_graph *pushed = flx_jvp(b.g, &by_xw[i], 1, &b.err);
        CHECK_MSG(pushed != NULL, "%s (%s)", b.err.message, b.err.where);
        flx_val tangent = flx_graph_output(pushed, 1);
        flx_graph *alone = flx_extract(pushed, &tangent, 1, &b.err);
        squared[i] = flx_grad(alone, by_xw, 2, NULL, &b.err);
        flx_graph_release(alone);
        flx_graph_release(pushed);
    }
    bench_feed_number(&b, "tangent_x", 1.0);
    bench_feed_number(&b, "tangent_w", 1.0);
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 2; k++)
            h[i][k] = bench_number(&b, flx_graph_retain(squared[i]), k);
    check_second(want, h[0][0], h[0][1], h[1][0], h[1][1], "reverse over forward");
    flx_graph_release(squared[0]);
    flx_graph_release(squared[1]);
    h[0][0] = bench_number(&b, flx_taylor(b.g, &by_xw[0], 1, 2, &b.err), 2);
    h[1][1] = bench_number(&b, flx_taylor(b.g, &by_xw[1], 1, 2, &b.err), 2);
    double both = bench_number(&b, flx_taylor(b.g, by_xw, 2, 2, &b.err), 2); /* xx + 2 xw + ww */
    double mixed = (both - h[0][0] - h[1][1]) / 2;
    check_second(want, h[0][0], mixed, mixed, h[1][1], "Taylor mode");
    h[0][0] = bench_number(&b, flx_nth_grad(b.g, "x", 2, &b.err), 0);
    h[1][1] = bench_number(&b, flx_nth_grad(b.g, "w", 2, &b.err), 0);
    check_second(want, h[0][0], want->xw, want->xw, h[1][1], "the second gradient");
    bench_close(&b);
}

/* c → w c² n times from x gives w^(2^n − 1) x^(2^n). */
static second of_squarings(int n, double x, double w)
{
    double p = ldexp(1.0, n);
    return (second){p * (p - 1) * pow(w, p - 1) * pow(x, p - 2), (p - 1) * p * pow(w, p - 2) * pow(x, p - 1),
                    (p - 1) * (p - 2) * pow(w, p - 3) * pow(x, p)};
}

static void second_of_scan(const char *options, int length)
{
    char text[400];
    snprintf(text, sizeof text,
             "graph step(c: f64[], w: f64[]) { return mul(w, mul(c, c)) }\n"
             "graph f(x: f64[], w: f64[]) { return scan(x, w, body=@step, num_bcast=1, length=%d%s) }\n",
             length, options);
    second want = of_squarings(length, 1.125, 0.9375);
    second_by_all_ways(text, 1.125, 0.9375, &want);
}

TEST(scan_second_derivatives_equal_closed_forms)
{
    second_of_scan("", 2);
    second_of_scan("", 5);
    second_of_scan(", reverse=true", 5);
}

TEST(scan_with_checkpoints_second_derivatives_equal_closed_forms)
{
    second_of_scan(", num_checkpoints=1", 3);
    second_of_scan(", num_checkpoints=2", 5);
    second_of_scan(", num_checkpoints=5", 5);
}

/* Sequences and stacked outputs: Σ_t c_t with c_{t+1} = c_t w x_t is x Σ_t w^(t+1) t!/1! for x_t = t. */
TEST(scan_with_sequences_second_derivatives_equal_closed_forms)
{
    second want = {0, 0, 0};
    double factorial = 1;
    for (int t = 1; t <= 4; t++) {
        factorial *= t;
        want.xw += factorial * t * pow(1.5, t - 1) * 2 * 0.75; /* from x², so that xx is not zero */
        want.ww += factorial * t * (t - 1) * pow(1.5, t - 2) * 0.75 * 0.75;
        want.xx += factorial * pow(1.5, t) * 2;
    }
    for (int k = 0; k < 3; k++) {
        char text[500];
        snprintf(text, sizeof text,
                 "graph step(c: f64[], w: f64[], t: f64[]) { n = mul(mul(c, w), t) return n, n }\n"
                 "graph f(x: f64[], w: f64[]) {\n"
                 "  _, ys = scan(mul(x, x), w, const(f64[4], [1, 2, 3, 4]), body=@step, num_bcast=1%s)\n"
                 "  return reduce_sum(ys)\n}\n",
                 k == 0   ? ""
                 : k == 1 ? ", num_checkpoints=1"
                          : ", num_checkpoints=3");
        second_by_all_ways(text, 0.75, 1.5, &want);
    }
}

TEST(while_second_derivatives_equal_closed_forms)
{
    static const char *const bounds[] = {"", ", max_iterations=3", ", max_iterations=9"};
    for (int k = 0; k < 3; k++) {
        char text[500];
        snprintf(text, sizeof text,
                 "graph more(c: f64[], w: f64[]) { return lt(c, 50) }\n"
                 "graph step(c: f64[], w: f64[]) { return mul(w, mul(c, c)), w }\n"
                 "graph f(x: f64[], w: f64[]) { y, _ = while(x, w, cond=@more, body=@step%s) return y }\n",
                 bounds[k]);
        second want = of_squarings(3, 1.75, 0.9375); /* 1.75, 2.87, 7.7, 56 */
        second_by_all_ways(text, 1.75, 0.9375, &want);
        want = of_squarings(1, 8.0, 0.875); /* 8, 56 */
        second_by_all_ways(text, 8.0, 0.875, &want);
    }
}

TEST(if_second_derivatives_are_those_of_the_taken_branch)
{
    double w = 1.375;
    second want = {6 * 0.5 * w * w, 6 * 0.25 * w, 2 * 0.125}; /* of x³ w² at 0.5 */
    second_by_all_ways("graph cube(x: f64[], w: f64[]) { return mul(pow(x, 3), mul(w, w)) }\n"
                       "graph bad(x: f64[], w: f64[]) { return log(mul(mul(x, w), 0)) }\n"
                       "graph f(x: f64[], w: f64[]) { return if(gt(x, 0), x, w, then=@cube, else=@bad) }\n",
                       0.5, w, &want);
}

/* ---- Loops that hit their bound ---- */

static uint32_t status_of(text_bench *b, const flx_graph *g)
{
    uint32_t status = 77;
    flx_run_options o = {.struct_size = sizeof o, .device = "ref", .status = &status};
    flx_tensor *out[TEXT_OUTPUTS] = {0};
    flx_feed used[TEXT_FEEDS];
    size_t n = 0;
    CHECK_MSG(g != NULL, "%s (%s)", b->err.message, b->err.where);
    for (size_t i = 0; i < b->n; i++)
        if (flx_graph_find(g, b->feeds[i].name).id)
            used[n++] = b->feeds[i];
    CHECK_OK(flx_run(g, &o, used, n, out, &b->err), &b->err);
    bench_release(g, out);
    return status;
}

/* x → 2x while x < 10, from 3: 6, 12. */
static const char doubling_text[] = "graph more(x: f64[]) { return lt(x, 10) }\n"
                                    "graph twice(x: f64[]) { return mul(x, 2) }\n"
                                    "graph f(x: f64[]) { y = while(x, cond=@more, body=@twice%s) return y }\n";

static text_bench doubling(const char *bound, double x)
{
    char text[400];
    snprintf(text, sizeof text, doubling_text, bound);
    text_bench b = bench_open(text, NULL);
    bench_feed_number(&b, "x", x);
    bench_feed_number(&b, "tangent_x", 1.0);
    return b;
}

TEST(while_that_hits_its_bound_says_so)
{
    static const struct {
        const char *bound;
        double x;
        uint32_t status;
    } rows[] = {{"", 3, 0},
                {", max_iterations=0", 3, FLX_RUN_LOOP_CUT},
                {", max_iterations=0", 12, 0},
                {", max_iterations=1", 3, FLX_RUN_LOOP_CUT},
                {", max_iterations=2", 3, 0}, /* just enough */
                {", max_iterations=3", 3, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        text_bench b = doubling(rows[i].bound, rows[i].x);
        flx_vmap_axis axis = {"x", 0};
        flx_graph *made[] = {
            flx_graph_retain(b.g),
            flx_grad(b.g, by_x, 1, NULL, &b.err), /* the forward loop is gone: the backward one runs it */
            flx_grad(b.g, by_x, 1, &(flx_grad_options){.flags = FLX_GRAD_VALUE}, &b.err),
            flx_jvp(b.g, by_x, 1, &b.err),
            flx_hvp(b.g, by_x, 1, NULL, &b.err),
        };
        for (size_t k = 0; k < sizeof made / sizeof made[0]; k++) {
            test_fail_context("%s from %g, graph %zu", rows[i].bound, rows[i].x, k);
            CHECK_EQ_U64(status_of(&b, made[k]), rows[i].status);
            flx_graph_release(made[k]);
        }
        flx_graph *v =
            flx_vmap(b.g, &axis, 1, NULL, 0, 2, &b.err); /* one example that ends at once does not hide the other */
        text_bench pair = {.ctx = b.ctx, .m = b.m, .g = b.g};
        bench_feed(&pair, "x", 1, (const flx_dim[]){2}, (const double[]){100, rows[i].x});
        test_fail_context("%s from %g, batched", rows[i].bound, rows[i].x);
        CHECK_EQ_U64(status_of(&pair, v), rows[i].status);
        flx_graph_release(v);
        flx_tensor_release((flx_tensor *)(uintptr_t)pair.feeds[0].value);
        bench_close(&b);
    }
}

TEST(while_inside_a_scan_reports_to_the_run)
{
    text_bench b = bench_open("graph more(x: f64[]) { return lt(x, 10) }\n"
                              "graph twice(x: f64[]) { return mul(x, 2) }\n"
                              "graph step(c: f64[], x: f64[]) {\n"
                              "  return add(c, while(x, cond=@more, body=@twice, max_iterations=2))\n}\n"
                              "graph f(x: f64[3]) { return scan(full(f64[], 0), x, body=@step) }\n",
                              NULL);
    flx_dim three = 3;
    bench_feed(&b, "x", 1, &three, (const double[]){20, 3, 4});
    CHECK_EQ_U64(status_of(&b, b.g), 0);
    flx_tensor_release((flx_tensor *)(uintptr_t)b.feeds[0].value);
    b.n = 0;
    bench_feed(&b, "x", 1, &three, (const double[]){20, 2, 4}); /* 2, 4, 8 and still below 10 */
    CHECK_EQ_U64(status_of(&b, b.g), FLX_RUN_LOOP_CUT);
    bench_close(&b);
}

/* ---- Loops without a bound ---- */

TEST(while_without_a_bound_can_be_refused)
{
    static const char message[] =
        "while 'y': without max_iterations the tape of its carries has no known bound (f64[])";
    static const char hint[] = "set max_iterations, or make it a custom_fn whose vjp_body solves for the fixed point";
    flx_grad_options strict = {.flags = FLX_GRAD_UNBOUNDED_ERROR};
    text_bench b = doubling("", 3);
    bench_refused(&b, flx_grad(b.g, by_x, 1, &strict, &b.err), FLX_E_UNBOUNDED_LOOP, message, "grad of 'f', at f/y",
                  hint);
    bench_refused(&b, flx_hvp(b.g, by_x, 1, &strict, &b.err), FLX_E_UNBOUNDED_LOOP, message, "hvp of 'f', at f/y",
                  hint);
    CHECK_NEAR(bench_number(&b, flx_grad(b.g, by_x, 1, NULL, &b.err), 0), 4.0, 0); /* by default the tape grows */
    bench_close(&b);
    b = doubling(", max_iterations=5", 3);
    flx_graph *d = flx_grad(b.g, by_x, 1, &strict, &b.err);
    CHECK_NEAR(bench_number(&b, flx_graph_retain(d), 0), 4.0, 0);
    CHECK_NEAR(bench_number(&b, flx_grad(d, by_x, 1, &strict, &b.err), 0), 0.0,
               0); /* its derivatives are bounded too */
    flx_graph_release(d);
    bench_close(&b);
}

TEST(while_without_a_bound_is_refused_in_bodies_but_not_off_the_path)
{
    flx_grad_options strict = {.flags = FLX_GRAD_UNBOUNDED_ERROR};
    text_bench b =
        bench_open("graph more(x: f64[2]) { return lt(reduce_sum(x), 10) }\n"
                   "graph twice(x: f64[2]) { return mul(x, 2) }\n"
                   "graph step(c: f64[2], x: f64[2]) { y = while(x, cond=@more, body=@twice) return mul(c, y) }\n"
                   "graph f(x: f64[3, 2]) { return reduce_sum(scan(full(f64[2], 1), x, body=@step)) }\n",
                   NULL);
    bench_refused(&b, flx_grad(b.g, by_x, 1, &strict, &b.err), FLX_E_UNBOUNDED_LOOP,
                  "while 'y': without max_iterations the tape of its carries has no known bound (f64[2])",
                  "grad of 'f', at step/y",
                  "set max_iterations, or make it a custom_fn whose vjp_body solves for the fixed point");
    bench_close(&b);
    b = bench_open(
        "graph more(i: i32[]) { return lt(i, 10) }\n"
        "graph next(i: i32[]) { return add(i, 1) }\n"
        "graph f(x: f64[]) { n = while(const(i32[], 0), cond=@more, body=@next) return mul(x, cast(n, to=f64)) }\n",
        NULL);
    bench_feed_number(&b, "x", 3.0);
    CHECK_NEAR(bench_number(&b, flx_grad(b.g, by_x, 1, &strict, &b.err), 0), 10.0, 0);
    bench_close(&b);
}

/* ---- Functions that are recomputed ---- */

enum { REGION_WIDTH = 4096, REGIONS = 12 };

static char *chain_of_regions(const char *options)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    fputs("graph block(x: f64[4096]) {\n"
          "  a = sin(x)\n  b = mul(a, a)\n  c = exp(neg(b))\n  d = mul(c, a)\n  e = tanh(d)\n  return mul(e, d)\n}\n"
          "graph f(x: f64[4096]) {\n  y0 = x\n",
          f);
    for (int i = 1; i <= REGIONS; i++)
        fprintf(f, "  y%d = custom_fn(y%d, fwd_body=@block%s)\n", i, i - 1, options);
    fprintf(f, "  return reduce_sum(y%d)\n}\n", REGIONS);
    fclose(f);
    return text;
}

/* Peak of a run of `make`'s graph in vectors; the gradient goes to y. */
static double region_peak(const char *options, bool second_order, double *y)
{
    fault f = {0};
    char *text = chain_of_regions(options);
    text_bench b = bench_open(text, &f);
    double *x = malloc(REGION_WIDTH * sizeof *x);
    for (int i = 0; i < REGION_WIDTH; i++)
        x[i] = 0.5 + sin(i);
    flx_dim dims[1] = {REGION_WIDTH};
    bench_feed(&b, "x", 1, dims, x);
    if (second_order)
        bench_feed(&b, "tangent_x", 1, dims, x);
    flx_graph *d = second_order ? flx_hvp(b.g, by_x, 1, NULL, &b.err) : flx_grad(b.g, by_x, 1, NULL, &b.err);
    CHECK_MSG(d != NULL, "%s (%s)", b.err.message, b.err.where);
    flx_tensor *out[TEXT_OUTPUTS] = {0};
    size_t before = f.live_bytes;
    f.peak_bytes = f.live_bytes;
    CHECK_OK(flx_run(d, ON_REF, b.feeds, b.n, out, &b.err), &b.err);
    double peak = (double)(f.peak_bytes - before) / (REGION_WIDTH * sizeof(double));
    memcpy(y, flx_tensor_const_data(out[0]), REGION_WIDTH * sizeof *y);
    bench_release(d, out);
    flx_graph_release(d);
    bench_close(&b);
    CHECK(fault_is_clean(&f));
    free(x);
    free(text);
    return peak;
}

TEST(custom_fn_with_recompute_keeps_only_its_operands)
{
    double *kept = malloc(REGION_WIDTH * sizeof *kept);
    double *again = malloc(REGION_WIDTH * sizeof *again);
    double all = region_peak("", false, kept);
    double few = region_peak(", recompute=true", false, again);
    CHECK(memcmp(kept, again, REGION_WIDTH * sizeof *kept) == 0);
    CHECK_MSG(all > 4 * REGIONS, "%.1f vectors are alive when everything is kept", all);
    /* an operand of each function, and what one function and its reverse need */
    CHECK_MSG(few < REGIONS + 14, "%.1f vectors are alive with recomputation", few);
    all = region_peak("", true, kept);
    few = region_peak(", recompute=true", true, again);
    for (int i = 0; i < REGION_WIDTH; i++)
        CHECK_NEAR(again[i], kept[i], 1e-13 * fabs(kept[i]));
    CHECK_MSG(few < all / 2, "second order: %.1f vectors, %.1f when everything is kept", few, all);
    free(kept);
    free(again);
}

static size_t count_op(const flx_graph *g, flxi_opcode op)
{
    size_t n = 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        n += flxi_node_at(g, i)->op == (uint32_t)op;
    return n;
}

/* Without rules and without recompute the body is part of the graph, and nothing in it is computed twice. */
TEST(custom_fn_without_rules_is_inlined_by_reverse_mode)
{
    text_bench b = bench_open("graph body(x: f64[]) { return exp(sin(x)) }\n"
                              "graph f(x: f64[]) { return custom_fn(x, fwd_body=@body) }\n",
                              NULL);
    flx_graph *d = flx_grad(b.g, by_x, 1, &(flx_grad_options){.flags = FLX_GRAD_VALUE}, &b.err);
    CHECK_MSG(d != NULL, "%s", b.err.message);
    CHECK_EQ_U64(count_op(d, OP_custom_fn), 0);
    CHECK_EQ_U64(count_op(d, OP_exp), 1);
    CHECK_EQ_U64(count_op(d, OP_sin), 1);
    flx_graph_release(d);
    bench_close(&b);
}

/* Whatever rules it has, recomputing changes no derivative of any order, batched or not. */
TEST(custom_fn_with_recompute_has_the_same_derivatives)
{
    static const char *const rules[] = {"", ", vjp_body=@back, num_residuals=1", ", jvp_body=@push, num_residuals=1",
                                        ", vjp_body=@back, jvp_body=@push, num_residuals=1", ", num_residuals=1"};
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        double y[2][4];
        for (int again = 0; again < 2; again++) {
            char text[700];
            snprintf(
                text, sizeof text,
                "graph body(x: f64[], w: f64[]) { s = sin(mul(x, w)) return mul(s, x)%s }\n"
                "graph back(x: f64[], w: f64[], y: f64[], s: f64[], g: f64[]) { return mul(g, mul(s, w)), mul(g, y) }\n"
                "graph push(x: f64[], w: f64[], tx: f64[], tw: f64[], y: f64[]) {\n"
                "  return add(mul(tx, mul(y, w)), mul(mul(tw, x), cos(y)))\n}\n"
                "graph f(x: f64[], w: f64[]) { return exp(custom_fn(x, w, fwd_body=@body%s%s)) }\n",
                r ? ", s" : "", rules[r], again ? ", recompute=true" : "");
            text_bench b = bench_open(text, NULL);
            bench_feed_number(&b, "x", 0.7);
            bench_feed_number(&b, "w", 1.3);
            bench_feed_number(&b, "tangent_x", 1.0);
            bench_feed_number(&b, "tangent_w", -0.5);
            test_fail_context("rules '%s', recompute %d", rules[r], again);
            y[again][0] = bench_number(&b, flx_grad(b.g, by_xw, 2, NULL, &b.err), 1);
            y[again][1] = bench_number(&b, flx_jvp(b.g, by_xw, 2, &b.err), 1);
            y[again][2] = bench_number(&b, flx_hvp(b.g, by_xw, 2, NULL, &b.err), 0);
            flx_graph *d = flx_grad(b.g, by_x, 1, NULL, &b.err);
            y[again][3] = bench_number(&b, flx_grad(d, by_xw, 2, NULL, &b.err), 1);
            flx_graph_release(d);
            flx_vmap_axis axis = {"w", 0};
            flx_graph *v = flx_vmap(b.g, &axis, 1, NULL, 0, 3, &b.err);
            flx_graph *total = flx_grad(v, by_xw, 2, &(flx_grad_options){.flags = FLX_GRAD_SEED_INPUT}, &b.err);
            CHECK_MSG(total != NULL, "%s (%s)", b.err.message, b.err.where);
            CHECK_OK(flx_graph_verify(total, &b.err), &b.err);
            CHECK((count_op(v, OP_custom_fn) == 1) && (again == 0 || count_op(total, OP_custom_fn) == 2));
            flx_graph_release(v);
            flx_graph_release(total);
            bench_close(&b);
        }
        for (int k = 0; k < 4; k++)
            CHECK_NEAR(y[1][k], y[0][k], 1e-15 * fabs(y[0][k]));
    }
}
