/* SPDX-License-Identifier: Apache-2.0 */
/* transform_laws.c: guarantees of the transforms beyond the rules of single ops: names, seeds, errors, composition,
   control flow, checkpoints, Jacobians, Taylor mode, cost. */
#include "fault.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };

/* ---- A context, a graph, values by name ---- */

typedef struct {
    flx_context *ctx;
    flx_module *m;
    flx_graph *g; /* the main one */
    flx_error err;
} bench;

static bench open_text(const char *text)
{
    bench b = {.ctx = flx_context_new(NULL)};
    b.m = flx_parse(b.ctx, text, strlen(text), "text", &b.err);
    CHECK_MSG(b.m != NULL, "%s: %s", b.err.where, b.err.message);
    b.g = flx_module_main(b.m);
    return b;
}

static void close_bench(bench *b)
{
    flx_module_free(b->m);
    flx_context_free(b->ctx);
}

static flx_tensor *vector(bench *b, size_t n, const double *x)
{
    flx_dim dims[1] = {(flx_dim)n};
    flx_type t = flx_type_make(FLX_F64, 1, dims);
    flx_tensor *v = flx_tensor_new(b->ctx, &t, x, &b->err);
    CHECK(v != NULL);
    return v;
}

static flx_tensor *scalar(bench *b, double x)
{
    flx_type t = {.dtype = FLX_F64};
    flx_tensor *v = flx_tensor_new(b->ctx, &t, &x, &b->err);
    CHECK(v != NULL);
    return v;
}

/* Runs g on the feeds and copies output k to y; releases everything except the feeds. */
static void run_to(bench *b, const flx_graph *g, const flx_feed *feeds, size_t n, size_t k, double *y, size_t room)
{
    flx_tensor *out[MOST] = {0};
    CHECK_MSG(g != NULL, "%s (%s)", b->err.message, b->err.where);
    CHECK_OK(flx_graph_verify(g, &b->err), &b->err);
    CHECK_OK(flx_run(g, ON_REF, feeds, n, out, &b->err), &b->err);
    CHECK_EQ_I64(flx_tensor_count(out[k]), (int64_t)room);
    for (size_t i = 0; i < room; i++)
        y[i] = flx_tensor_get(out[k], (int64_t)i);
    for (size_t i = 0; i < flx_graph_output_count(g); i++)
        flx_tensor_release(out[i]);
}

static void expect_error(flx_graph *g, const bench *b, flx_code code, const char *message, const char *where)
{
    CHECK(g == NULL);
    CHECK_CODE(b->err.code, code, &b->err);
    CHECK_EQ_STR(b->err.message, message);
    CHECK_EQ_STR(b->err.where, where);
}

static const char *const by_x[] = {"x"};

/* ---- Names, seeds, errors ---- */

TEST(grad_outputs_are_loss_aux_then_gradients)
{
    static const char *const wrt[] = {"w", "x"};
    flx_grad_options value = {.flags = FLX_GRAD_VALUE};
    bench b = open_text("graph f(x: f64[3], w: f64[3]) { y = mul(x, w) loss = reduce_sum(y) return loss, y }");
    flx_graph *d = flx_grad(b.g, wrt, 2, &value, &b.err);
    CHECK(d != NULL);
    CHECK_EQ_I64(flx_graph_output_count(d), 4);
    CHECK_EQ_STR(flx_graph_output_name(d, 0), "loss");
    CHECK_EQ_STR(flx_graph_output_name(d, 1), "y");
    CHECK_EQ_STR(flx_graph_output_name(d, 2), "d_w");
    CHECK_EQ_STR(flx_graph_output_name(d, 3), "d_x");
    flx_graph_release(d);
    d = flx_grad(b.g, wrt, 2, NULL, &b.err);
    CHECK(d != NULL);
    CHECK_EQ_STR(flx_graph_output_name(d, 0), "y");
    flx_graph_release(d);
    close_bench(&b);
}

TEST(grad_errors_name_what_is_wrong)
{
    static const char *const by_i[] = {"i"};
    static const char *const by_z[] = {"z"};
    static const char *const by_u[] = {"u"};
    bench b = open_text("graph f(x: f64[3], i: i32[], u: f64[]) { y = mul(x, 2) return y, reduce_sum(x) }");
    expect_error(flx_grad(b.g, by_x, 1, NULL, &b.err), &b, FLX_E_NON_SCALAR,
                 "the loss mul 'y' (f64[3]) must have one element", "grad of 'f'");
    flx_grad_options seed = {.flags = FLX_GRAD_SEED_INPUT};
    expect_error(flx_grad(b.g, by_i, 1, &seed, &b.err), &b, FLX_E_NOT_DIFFERENTIABLE,
                 "cannot differentiate with respect to input 'i' (i32[])", "grad of 'f'");
    expect_error(flx_grad(b.g, by_z, 1, &seed, &b.err), &b, FLX_E_NAME, "the graph 'f' has no input called 'z'",
                 "grad of 'f'");
    expect_error(flx_grad(b.g, by_u, 1, &seed, &b.err), &b, FLX_E_NO_GRAD_PATH,
                 "the loss mul 'y' (f64[3]) does not depend on input 'u' (f64[])", "grad of 'f'");
    flx_graph *d = flx_grad(b.g, by_x, 1, &seed, &b.err);
    CHECK(d != NULL && flx_graph_find(d, "d_output").id != 0);
    flx_graph *dd =
        flx_grad(d, by_x, 1, &(flx_grad_options){.flags = FLX_GRAD_SEED_INPUT | FLX_GRAD_MISSING_ZERO}, &b.err);
    CHECK(dd != NULL && flx_graph_find(dd, "d_output_2").id != 0);
    flx_graph_release(dd);
    flx_graph_release(d);
    close_bench(&b);
}

TEST(vmap_errors_name_what_is_wrong)
{
    bench b = open_text("graph f(x: f64[3]) { return exp(x) }");
    flx_vmap_axis unknown = {"y", 0};
    flx_vmap_axis outside = {"x", 3};
    flx_vmap_axis fine = {"x", 0};
    int64_t none[1] = {FLX_NO_AXIS};
    expect_error(flx_vmap(b.g, &unknown, 1, NULL, 0, 2, &b.err), &b, FLX_E_NAME,
                 "the graph 'f' has no input called 'y'", "vmap of 'f'");
    expect_error(flx_vmap(b.g, &outside, 1, NULL, 0, 2, &b.err), &b, FLX_E_SHAPE,
                 "the batch axis 3 of input 'x' (f64[3]) is outside -2 .. 1, its axes including the batch axis",
                 "vmap of 'f'");
    expect_error(flx_vmap(b.g, &fine, 1, none, 1, 2, &b.err), &b, FLX_E_SHAPE,
                 "the output exp 'out0' (f64[3]) depends on the batch and needs a batch axis", "vmap of 'f'");
    expect_error(flx_vmap(b.g, &fine, 1, none, 2, 2, &b.err), &b, FLX_E_ARITY, "2 output axes are given for 1 output",
                 "vmap of 'f'");
    close_bench(&b);
}

TEST(grad_of_special_graphs)
{
    double y[3];
    double x[3] = {1.0, 2.0, 3.0};
    bench b = open_text("graph f(x: f64[1]) { return x }\n");
    flx_tensor *one = vector(&b, 1, x);
    flx_graph *d = flx_grad(b.g, by_x, 1, NULL, &b.err); /* the loss is the leaf itself */
    run_to(&b, d, &(flx_feed){"x", one}, 1, 0, y, 1);
    CHECK_EQ_I64((int64_t)y[0], 1);
    flx_tensor_release(one);
    flx_graph_release(d);
    close_bench(&b);

    char *text = NULL; /* a leaf used a thousand times */
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    fputs("graph f(x: f64[3]) {\n  y0 = x\n", f);
    for (int i = 1; i < 1000; i++)
        fprintf(f, "  y%d = add(y%d, mul(x, %d))\n", i, i - 1, i);
    fputs("  return reduce_sum(y999)\n}\n", f);
    fclose(f);
    b = open_text(text);
    free(text);
    flx_tensor *v = vector(&b, 3, x);
    d = flx_grad(b.g, by_x, 1, NULL, &b.err);
    run_to(&b, d, &(flx_feed){"x", v}, 1, 0, y, 3);
    CHECK_NEAR(y[1], 1.0 + 999.0 * 1000.0 / 2.0, 1e-9);
    flx_tensor_release(v);
    flx_graph_release(d);
    close_bench(&b);
}

TEST(grad_through_declared_zero_is_zeros_not_an_error)
{
    double y[2];
    double x[2] = {1.5, 2.5};
    bench b = open_text("graph f(x: f64[2]) { return reduce_sum(floor(x)) }");
    flx_tensor *v = vector(&b, 2, x);
    flx_graph *d = flx_grad(b.g, by_x, 1, NULL, &b.err);
    run_to(&b, d, &(flx_feed){"x", v}, 1, 0, y, 2);
    CHECK(y[0] == 0.0 && y[1] == 0.0);
    flx_tensor_release(v);
    flx_graph_release(d);
    close_bench(&b);
}

/* ---- Control flow ---- */

/* x → x² until it reaches 100: n squarings from 2 give derivative 2^n x^(2^n − 1). */
TEST(while_gradient_respects_its_condition)
{
    static const struct {
        double x;
        int n;
    } rows[] = {{200.0, 0}, {11.0, 1}, {4.0, 2}, {1.5, 4}};
    bench b = open_text("graph more(x: f64[]) { return lt(x, 100) }\n"
                        "graph step(x: f64[]) { return mul(x, x) }\n"
                        "graph f(x: f64[]) { return while(x, cond=@more, body=@step) }\n");
    flx_graph *d = flx_grad(b.g, by_x, 1, NULL, &b.err);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double y[1];
        flx_tensor *v = scalar(&b, rows[i].x);
        double power = ldexp(1.0, rows[i].n);
        run_to(&b, d, &(flx_feed){"x", v}, 1, 0, y, 1);
        CHECK_NEAR(y[0], power * pow(rows[i].x, power - 1.0), 1e-9 * y[0]);
        flx_tensor_release(v);
    }
    flx_graph_release(d);
    close_bench(&b);
}

static const char rnn_text[] = "graph step(h: f64[2], w: f64[2], x: f64[2]) {\n"
                               "  n = tanh(add(mul(h, w), x))\n  return n, mul(n, x)\n}\n"
                               "graph f(h: f64[2], w: f64[2], x: f64[6, 2]) {\n"
                               "  c, ys = scan(h, w, x, body=@step, num_bcast=1%s)\n"
                               "  return add(reduce_sum(exp(c)), reduce_sum(square(ys)))\n}\n";

static void rnn_gradient(const char *options, double *dw, double *dx)
{
    static const char *const wrt[] = {"w", "x"};
    char text[600];
    double h[2] = {0.3, -0.2};
    double w[2] = {0.7, 1.1};
    double x[12];
    snprintf(text, sizeof text, rnn_text, options);
    for (int i = 0; i < 12; i++)
        x[i] = sin(i + 1.0);
    bench b = open_text(text);
    flx_dim dims[2] = {6, 2};
    flx_type t = flx_type_make(FLX_F64, 2, dims);
    flx_tensor *vh = vector(&b, 2, h);
    flx_tensor *vw = vector(&b, 2, w);
    flx_tensor *vx = flx_tensor_new(b.ctx, &t, x, &b.err);
    flx_feed feeds[] = {{"h", vh}, {"w", vw}, {"x", vx}};
    flx_graph *d = flx_grad(b.g, wrt, 2, NULL, &b.err);
    run_to(&b, d, feeds, 3, 0, dw, 2);
    run_to(&b, d, feeds, 3, 1, dx, 12);
    flx_tensor_release(vh);
    flx_tensor_release(vw);
    flx_tensor_release(vx);
    flx_graph_release(d);
    close_bench(&b);
}

TEST(scan_checkpoints_do_not_change_gradients)
{
    double dw[2];
    double dx[12];
    rnn_gradient("", dw, dx);
    for (int k = 1; k <= 8; k++) {
        char options[64];
        double cw[2];
        double cx[12];
        snprintf(options, sizeof options, ", num_checkpoints=%d", k);
        rnn_gradient(options, cw, cx);
        CHECK(memcmp(dx, cx, sizeof dx) == 0);
        CHECK_NEAR(cw[0], dw[0], 1e-14);
        CHECK_NEAR(cw[1], dw[1], 1e-14);
    }
}

/* A carry of 64 KiB over 1000 steps: without checkpoints the backward pass holds a thousand of them, with 10 a
   dozen. */
static double peak_in_carries(const char *options)
{
    enum { WIDE = 8192 };
    char text[400];
    fault f = {0};
    flx_context_options o = {.alloc = fault_alloc, .alloc_user = &f};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(&o);
    snprintf(text, sizeof text,
             "graph step(h: f64[8192]) { return sin(h) }\n"
             "graph f(x: f64[8192]) { c = scan(x, body=@step, length=1000%s) return reduce_sum(c) }\n",
             options);
    flx_module *m = flx_parse(ctx, text, strlen(text), "text", &err);
    CHECK_MSG(m != NULL, "%s", err.message);
    flx_graph *d = flx_grad(flx_module_main(m), by_x, 1, NULL, &err);
    CHECK_MSG(d != NULL, "%s", err.message);
    flx_dim dims[1] = {WIDE};
    flx_type t = flx_type_make(FLX_F64, 1, dims);
    flx_tensor *x = flx_tensor_new(ctx, &t, NULL, &err);
    flx_tensor *out[1] = {NULL};
    size_t before = f.live_bytes;
    f.peak_bytes = f.live_bytes;
    CHECK_OK(flx_run(d, ON_REF, &(flx_feed){"x", x}, 1, out, &err), &err);
    double peak = (double)(f.peak_bytes - before) / (WIDE * sizeof(double));
    flx_tensor_release(out[0]);
    flx_tensor_release(x);
    flx_graph_release(d);
    flx_module_free(m);
    flx_context_free(ctx);
    CHECK(fault_is_clean(&f));
    return peak;
}

TEST(scan_with_ten_checkpoints_keeps_a_dozen_carries)
{
    double all = peak_in_carries("");
    double few = peak_in_carries(", num_checkpoints=10");
    CHECK_MSG(all > 1000.0, "without checkpoints %.1f carries", all);
    /* 10 checkpoints, the start, the current carries; the rest are the temporaries of one step and its vjp. */
    CHECK_MSG(few < 20.0, "with 10 checkpoints %.1f carries' worth of memory", few);
}

TEST(custom_fn_honours_a_wrong_vjp_in_reverse_and_ignores_it_in_forward)
{
    double y[1];
    bench b = open_text("graph fwd(x: f64[]) { return mul(x, x) }\n"
                        "graph wrong(x: f64[], y: f64[], g: f64[]) { return mul(g, 100) }\n"
                        "graph f(x: f64[]) { return custom_fn(x, fwd_body=@fwd, vjp_body=@wrong) }\n");
    flx_tensor *v = scalar(&b, 3.0);
    flx_tensor *one = scalar(&b, 1.0);
    flx_feed feeds[] = {{"x", v}, {"tangent_x", one}};
    flx_graph *d = flx_grad(b.g, by_x, 1, NULL, &b.err);
    run_to(&b, d, feeds, 1, 0, y, 1);
    CHECK_NEAR(y[0], 100.0, 0.0);
    flx_graph *j = flx_jvp(b.g, by_x, 1, &b.err);
    run_to(&b, j, feeds, 2, 1, y, 1);
    CHECK_NEAR(y[0], 6.0, 0.0);
    flx_tensor_release(v);
    flx_tensor_release(one);
    flx_graph_release(d);
    flx_graph_release(j);
    close_bench(&b);
}

/* ---- Jacobians and Hessians ---- */

TEST(jacobian_forward_reverse_and_chunked_agree)
{
    bench b =
        open_text("graph f(x: f64[4]) { return mul(sin(x), reduce_sum(x)), exp(narrow(x, axis=0, start=1, len=2)) }");
    double x[4] = {0.1, 0.5, -0.7, 1.3};
    double first[16];
    flx_tensor *v = vector(&b, 4, x);
    for (int mode = 0; mode < 6; mode++) {
        flx_jacobian_options o = {.mode = (uint32_t)(mode % 3), .chunk = mode < 3 ? 0 : 2};
        double y[16];
        flx_graph *j = flx_jacobian(b.g, by_x, 1, &o, &b.err);
        CHECK_MSG(j != NULL, "%s", b.err.message);
        CHECK_EQ_STR(flx_graph_output_name(j, 0), "jac_out0_x");
        CHECK_EQ_STR(flx_graph_output_name(j, 1), "jac_out1_x");
        run_to(&b, j, &(flx_feed){"x", v}, 1, 0, y, 16);
        for (int i = 0; i < 16; i++) {
            if (mode == 0)
                first[i] = y[i];
            CHECK_NEAR(y[i], first[i], 1e-14);
        }
        CHECK_NEAR(y[1], sin(x[0]), 1e-14); /* d (sin x_0 Σx) / d x_1 */
        flx_graph_release(j);
    }
    flx_tensor_release(v);
    close_bench(&b);
}

TEST(hessian_is_symmetric_and_gives_the_hvp)
{
    bench b = open_text("graph f(x: f64[3]) { s = reduce_sum(mul(x, x)) return mul(sin(s), reduce_prod(x)) }");
    double x[3] = {0.4, -1.2, 0.9};
    double t[3] = {1.0, 0.5, -2.0};
    double h[9];
    double hv[3];
    flx_tensor *v = vector(&b, 3, x);
    flx_tensor *tv = vector(&b, 3, t);
    flx_feed feeds[] = {{"x", v}, {"tangent_x", tv}};
    flx_graph *hessian = flx_hessian(b.g, by_x, 1, NULL, &b.err);
    flx_graph *hvp = flx_hvp(b.g, by_x, 1, NULL, &b.err);
    CHECK_EQ_STR(flx_graph_output_name(hessian, 0), "hessian_x_x");
    run_to(&b, hessian, feeds, 1, 0, h, 9);
    run_to(&b, hvp, feeds, 2, 0, hv, 3);
    for (int i = 0; i < 3; i++) {
        double sum = 0.0;
        for (int k = 0; k < 3; k++) {
            CHECK_NEAR(h[3 * i + k], h[3 * k + i], 1e-13);
            sum += h[3 * i + k] * t[k];
        }
        CHECK_NEAR(sum, hv[i], 1e-12);
    }
    flx_tensor_release(v);
    flx_tensor_release(tv);
    flx_graph_release(hessian);
    flx_graph_release(hvp);
    close_bench(&b);
}

TEST(per_example_gradients_sum_to_the_gradient_of_the_sum)
{
    static const char *const by_w[] = {"w"};
    bench b = open_text("graph f(w: f64[3], x: f64[3]) { return log1p(exp(reduce_sum(mul(w, x)))) }");
    double w[3] = {0.2, -0.4, 0.6};
    double x[6] = {1.0, 2.0, 3.0, -1.0, 0.5, 0.25};
    flx_dim dims[2] = {2, 3};
    flx_type t = flx_type_make(FLX_F64, 2, dims);
    flx_tensor *vw = vector(&b, 3, w);
    flx_tensor *vx = flx_tensor_new(b.ctx, &t, x, &b.err);
    flx_feed feeds[] = {{"w", vw}, {"x", vx}};
    flx_vmap_axis axis = {"x", 0};
    double each[6];
    double sum[3];
    flx_graph *d = flx_grad(b.g, by_w, 1, NULL, &b.err);
    flx_graph *per_example = flx_vmap(d, &axis, 1, NULL, 0, 2, &b.err);
    run_to(&b, per_example, feeds, 2, 0, each, 6);
    flx_graph *batched = flx_vmap(b.g, &axis, 1, NULL, 0, 2, &b.err);
    flx_grad_options seed = {.flags = FLX_GRAD_SEED_INPUT};
    flx_graph *total = flx_grad(batched, by_w, 1, &seed, &b.err);
    double ones[2] = {1.0, 1.0};
    flx_tensor *vo = vector(&b, 2, ones);
    flx_feed with_seed[] = {{"w", vw}, {"x", vx}, {"d_output", vo}};
    run_to(&b, total, with_seed, 3, 0, sum, 3);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(each[i] + each[3 + i], sum[i], 1e-14);
    flx_tensor_release(vw);
    flx_tensor_release(vx);
    flx_tensor_release(vo);
    flx_graph_release(d);
    flx_graph_release(per_example);
    flx_graph_release(batched);
    flx_graph_release(total);
    close_bench(&b);
}

/* ---- Higher orders ---- */

static size_t taylor_values(const char *text, double at, int32_t order, double *y)
{
    bench b = open_text(text);
    flx_tensor *v = scalar(&b, at);
    flx_tensor *one = scalar(&b, 1.0);
    flx_feed feeds[] = {{"x", v}, {"tangent_x", one}};
    flx_graph *t = flx_taylor(b.g, by_x, 1, order, &b.err);
    CHECK_MSG(t != NULL, "%s", b.err.message);
    for (int32_t k = 0; k <= order && y; k++)
        run_to(&b, t, feeds, 2, (size_t)k, &y[k], 1);
    size_t nodes = flx_graph_node_count(t);
    flx_graph_release(t);
    flx_tensor_release(v);
    flx_tensor_release(one);
    close_bench(&b);
    return nodes;
}

TEST(taylor_equals_closed_forms)
{
    double y[7];
    taylor_values("graph f(x: f64[]) { return exp(mul(x, 2)) }", 0.3, 6, y);
    for (int k = 0; k <= 6; k++)
        CHECK_NEAR(y[k], pow(2.0, k) * exp(0.6), 1e-10 * y[k]);
    taylor_values("graph f(x: f64[]) { return sin(x) }", 0.3, 6, y);
    for (int k = 0; k <= 6; k++)
        CHECK_NEAR(y[k], sin(0.3 + k * 1.5707963267948966), 1e-12);
    taylor_values("graph f(x: f64[]) { return log(x) }", 1.7, 6, y);
    double factorial = 1.0;
    for (int k = 1; k <= 6; k++) {
        CHECK_NEAR(y[k], (k % 2 ? 1.0 : -1.0) * factorial / pow(1.7, k), 1e-10);
        factorial *= k;
    }
    taylor_values("graph f(x: f64[]) { return div(1, sub(1, x)) }", 0.25, 6, y);
    factorial = 1.0;
    for (int k = 1; k <= 6; k++) {
        factorial *= k;
        CHECK_NEAR(y[k], factorial / pow(0.75, k + 1), 1e-9 * y[k]);
    }
}

TEST(taylor_grows_quadratically)
{
    static const char text[] = "graph f(x: f64[]) { return div(exp(sin(x)), add(tanh(x), 2)) }";
    size_t eight = taylor_values(text, 0.5, 8, NULL);
    size_t sixteen = taylor_values(text, 0.5, 16, NULL);
    CHECK_MSG(sixteen < 5 * eight, "%zu nodes for order 8, %zu for order 16", eight, sixteen);
}

TEST(nth_grad_of_polynomials)
{
    double y[2];
    double x[2] = {1.5, -2.0};
    bench b = open_text("graph f(x: f64[2]) { return reduce_sum(pow(x, 3)) }");
    flx_tensor *v = vector(&b, 2, x);
    flx_graph *third = flx_nth_grad(b.g, "x", 3, &b.err);
    run_to(&b, third, &(flx_feed){"x", v}, 1, 0, y, 2);
    CHECK_NEAR(y[0], 6.0, 1e-12);
    CHECK_NEAR(y[1], 6.0, 1e-12);
    flx_graph *fourth = flx_nth_grad(b.g, "x", 4, &b.err);
    run_to(&b, fourth, &(flx_feed){"x", v}, 1, 0, y, 2);
    CHECK(y[0] == 0.0 && y[1] == 0.0);
    flx_tensor_release(v);
    flx_graph_release(third);
    flx_graph_release(fourth);
    close_bench(&b);
}

/* ---- Memory running out ---- */

static flx_code transform_all(fault *f)
{
    static const char text[] =
        "graph step(c: f32[2], w: f32[2], x: f32[2]) { n = tanh(add(mul(c, w), x)) return n, n }\n"
        "graph f(x: f32[3, 2], w: f32[2]) {\n"
        "  c, ys = scan(full(f32[2], 0), w, x, body=@step, num_bcast=1)\n"
        "  return reduce_sum(mul(softmax(ys), exp(c)))\n}\n";
    flx_context_options o = {.alloc = fault_alloc, .alloc_user = f};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(&o);
    if (!ctx)
        return FLX_E_OOM;
    flx_module *m = flx_parse(ctx, text, strlen(text), "text", &err);
    const flx_graph *g = flx_module_main(m);
    flx_vmap_axis axis = {"x", 0};
    flx_graph *made[4] = {0};
    flx_code code = m ? FLX_OK : (flx_code)err.code;
    for (int i = 0; code == FLX_OK && i < 4; i++) {
        made[i] = i == 0   ? flx_grad(g, by_x, 1, NULL, &err)
                  : i == 1 ? flx_hvp(g, by_x, 1, NULL, &err)
                  : i == 2 ? flx_vmap(g, &axis, 1, NULL, 0, 2, &err)
                           : flx_taylor(g, by_x, 1, 2, &err);
        code = made[i] ? FLX_OK : (flx_code)err.code;
    }
    for (int i = 0; i < 4; i++)
        flx_graph_release(made[i]);
    flx_module_free(m);
    flx_context_free(ctx);
    return code;
}

TEST(transforms_survive_memory_running_out)
{
    fault whole = {0};
    CHECK_CODE(transform_all(&whole), FLX_OK, NULL);
    size_t stride = whole.calls / 400 + 1; /* a few hundred requests spread over all, and every one of the first */
    for (size_t n = 1; n <= whole.calls; n += n < 200 ? 1 : stride) {
        fault f = {.fail_at = n};
        flx_code code = transform_all(&f);
        if (!EXPECT_MSG(fault_is_clean(&f), "allocation %zu of %zu failed: %zu blocks leaked", n, whole.calls,
                        f.live_blocks) ||
            !EXPECT_MSG(code == FLX_E_OOM, "allocation %zu of %zu failed: %s", n, whole.calls, flx_code_name(code)))
            return;
        test_count_case();
    }
}
