/* SPDX-License-Identifier: Apache-2.0 */
/* Equations: where methods stop, what they report, derivatives that do not go through the iterations, and the
   accuracy of odeint against closed forms. Derivatives against JAX: tests/oracle/functions/implicit.py. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"

#include <fluxion/graph.h>
#include <math.h>

static double element(const text_run *r, int i, int64_t k)
{
    return flx_tensor_get(r->out[i], k);
}

/* Runs the main graph of the text, without inputs; its first element and the status. */
static double run_for_status(const char *text, uint32_t *status)
{
    flx_error err = {0};
    flx_tensor *out[1] = {NULL};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_run_options options = {.struct_size = sizeof options, .device = "ref", .status = status};
    CHECK_OK((int32_t)flx_run(flx_module_main(m), &options, NULL, 0, out, &err), &err);
    double y = flx_tensor_get(out[0], 0);
    flx_tensor_release(out[0]);
    flx_module_free(m);
    flx_context_free(ctx);
    return y;
}

/* The gradient of the one-element output within a tolerance. */
static void check_near_gradient(const char *text, const gradient_row *rows, size_t n, double tolerance)
{
    flx_error err = {0};
    flx_tensor *out[GRADIENT_MAX_INPUTS] = {0};
    gradient_run r = gradient_begin(text, rows, n);
    flx_grad_options options = {.flags = FLX_GRAD_MISSING_ZERO};
    flx_graph *grad = flx_grad(flx_module_main(r.module), r.names, n, &options, &err);
    CHECK_OK(grad ? FLX_OK : err.code, &err);
    gradient_eval(&r, grad, 0, out);
    for (size_t i = 0; i < n; i++) {
        double v[GRADIENT_MAX_PARTS];
        gradient_read(out[i], v);
        for (int64_t k = 0; k < flx_tensor_count(out[i]) * gradient_parts(flx_tensor_type(out[i])); k++) {
            test_fail_context("gradient of %s, number %lld", rows[i].name, (long long)k);
            CHECK_NEAR(v[k], rows[i].want[k], tolerance);
        }
        flx_tensor_release(out[i]);
    }
    gradient_end(&r);
}

/* ---- Linear systems ---- */

/* The matrix [[4, 1], [1, 3]] and a right-hand side whose solution is (1, 2). */
#define SYSTEM                                   \
    "graph a(x: f64[2]) {\n"                     \
    "  m = const(f64[2, 2], [[4, 1], [1, 3]])\n" \
    "  return reshape(matmul(m, reshape(x, shape=[2, 1])), shape=[2])\n}\n"

TEST(cg_and_gmres_solve_in_as_many_steps_as_there_are_unknowns)
{
    text_run r =
        text_begin(SYSTEM "graph main() { b = const(f64[2], [6, 7])\n"
                          "  return cg(b, body=@a, tol=1e-14), gmres(b, body=@a, tol=1e-14, max_iterations=6),\n"
                          "    cg(full(f64[2], 0), body=@a) }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 2; i++) {
        CHECK_NEAR(element(&r, i, 0), 1, 1e-14);
        CHECK_NEAR(element(&r, i, 1), 2, 1e-14);
    }
    CHECK_NEAR(element(&r, 2, 1), 0, 0);
    text_end(&r);
}

enum { CUT = FLX_RUN_LOOP_CUT | FLX_RUN_UNSOLVED };

TEST(implicit_ops_report_when_they_stop_early)
{
    static const struct {
        const char *call;
        uint32_t status;
        double y;
    } rows[] = {
        {"cg(const(f64[2], [6, 7]), body=@a)", 0, 1},
        {"cg(const(f64[2], [6, 7]), body=@a, max_iterations=0)", CUT, 0},
        {"gmres(const(f64[2], [6, 7]), body=@a, max_iterations=0)", CUT, 0},
        {"gmres(const(f64[2], [1, 1]), body=@zero)", CUT, 0}, /* no solution */
        {"fixed_point(const(f64[2], [0, 0]), body=@half)", 0, 2},
        {"fixed_point(const(f64[2], [0, 0]), body=@half, max_iterations=2)", CUT, 1.5},
        {"root(const(f64[2], [3, 3]), body=@square, tol=1e-12)", 0, 2},
        {"root(const(f64[2], [3, 3]), body=@square, max_iterations=0)", CUT, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1000];
        uint32_t status = 99;
        snprintf(text, sizeof text,
                 SYSTEM "graph zero(x: f64[2]) { return mul(x, 0) }\n"
                        "graph half(x: f64[2]) { return add(mul(x, 0.5), 1) }\n"
                        "graph square(x: f64[2]) { return sub(square(x), 4) }\n"
                        "graph main() { return %s }",
                 rows[i].call);
        test_fail_context("%s", rows[i].call);
        CHECK_NEAR(run_for_status(text, &status), rows[i].y, 4e-6);
        CHECK_EQ_I64(status, rows[i].status);
    }
}

TEST(implicit_ops_of_nan_are_nan)
{
    text_run r =
        text_begin(SYSTEM "graph double(x: f64[2]) { return mul(x, 2) }\n"
                          "graph log(x: f64[2]) { return log(x) }\n"
                          "graph main() { b = const(f64[2], [nan, 7])\n"
                          "  return cg(b, body=@a), gmres(b, body=@a), fixed_point(full(f64[2], 1), body=@double),\n"
                          "    root(full(f64[2], -1), body=@log) }");
    CHECK_OK(r.code, &r.err);
    CHECK(isnan(element(&r, 0, 1)));
    CHECK(isnan(element(&r, 1, 1)));
    CHECK(!isfinite(element(&r, 2, 0)));
    CHECK(isnan(element(&r, 3, 0)));
    text_end(&r);
}

/* A system larger than the basis that GMRES keeps: the discrete Laplacian with a shift. */
TEST(gmres_restarts)
{
    text_run r =
        text_begin("graph a(x: f64[200]) {\n"
                   "  return sub(mul(x, 2.5), add(roll(x, shift=1, axis=0), mul(roll(x, shift=-1, axis=0), 0.5))) }\n"
                   "graph main() { b = iota(f64[200])\n"
                   "  x = gmres(b, body=@a, tol=1e-12)\n"
                   "  r = sub(b, custom_fn(x, fwd_body=@a))\n"
                   "  return div(reduce_max(abs(r)), 199) }");
    CHECK_OK(r.code, &r.err);
    CHECK(element(&r, 0, 0) < 1e-11);
    text_end(&r);
}

/* ---- Derivatives ---- */

/* x = x / 2 + c has the solution 2 c, and is started there: one iteration, whose own derivative with respect to c is
   1. */
TEST(fixed_point_derivative_is_that_of_the_solution_not_of_the_steps)
{
    check_near_gradient("graph half(x: f64[], c: f64[]) { return add(mul(x, 0.5), c) }\n"
                        "graph f(x: f64[], c: f64[]) { return fixed_point(x, c, body=@half) }",
                        (const gradient_row[]){{"x", {6}, {0}}, {"c", {3}, {2}}}, 2, 1e-14);
    check_hessian_of_ones("graph half(x: f64[], c: f64[]) { return add(mul(x, 0.5), mul(c, c)) }\n"
                          "graph f(x: f64[], c: f64[]) { return fixed_point(x, c, body=@half) }",
                          (const gradient_row[]){{"x", {8}, {0}}, {"c", {2}, {4}}}, 2);
}

TEST(root_derivative_is_that_of_the_solution_not_of_the_steps)
{
    check_near_gradient("graph square(x: f64[], p: f64[]) { return sub(mul(x, x), p) }\n"
                        "graph f(x: f64[], p: f64[]) { return root(x, p, body=@square) }",
                        (const gradient_row[]){{"x", {2}, {0}}, {"p", {4}, {0.25}}}, 2, 1e-14);
}

/* No loop may be in the graph of the gradient. */
TEST(implicit_gradients_have_no_loop)
{
    static const char text[] = "graph half(x: f64[2], c: f64[2]) { return add(mul(sin(x), 0.5), c) }\n"
                               "graph f(x: f64[2], c: f64[2]) { return reduce_sum(fixed_point(x, c, body=@half)) }";
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_graph *grad = flx_grad(flx_module_main(m), (const char *const[]){"c"}, 1, NULL, &err);
    CHECK_OK(grad ? FLX_OK : err.code, &err);
    flx_buffer b = {0};
    CHECK_OK((int32_t)flx_graph_print(grad, &b, &err), &err);
    CHECK(strstr((const char *)b.data, "gmres(") != NULL);
    CHECK(strstr((const char *)b.data, "while") == NULL && strstr((const char *)b.data, "scan") == NULL);
    flx_buffer_free(&b);
    flx_graph_release(grad);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* 2 x + conj(x) = b is linear over the reals only: x = b.re / 3 + i b.im. */
TEST(gmres_solves_what_is_linear_over_the_reals)
{
    check_near_gradient("graph a(x: c128[]) { return add(mul(x, 2), conjugate(x)) }\n"
                        "graph f(b: c128[]) { x = gmres(b, body=@a, tol=0)  return add(real(x), mul(imag(x), 5)) }",
                        (const gradient_row[]){{"b", {3, 4}, {1.0 / 3, 5}}}, 1, 1e-14);
}

/* ---- odeint ---- */

#define DECAY "graph decay(y: f64[], t: f64[], k: f64[]) { return neg(mul(k, y)) }\n"

/* y = 3 exp(-2 (t - t0)), forward, backward, and for an interval of length 0. */
TEST(odeint_is_as_accurate_as_its_tolerances)
{
    static const double tolerances[] = {1e-3, 1e-6, 1e-9, 1e-12};
    static const double times[] = {1, 1.5, 1.5, 0.25, 3};
    for (size_t i = 0; i < sizeof tolerances / sizeof tolerances[0]; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 DECAY
                 "graph main() { return odeint(full(f64[], 3), const(f64[5], [1, 1.5, 1.5, 0.25, 3]), full(f64[], 2), "
                 "body=@decay, rtol=%g, atol=%g) }",
                 tolerances[i], tolerances[i] * 1e-2);
        text_run r = text_begin(text);
        CHECK_OK(r.code, &r.err);
        for (int k = 0; k < 5; k++) {
            double want = 3 * exp(-2 * (times[k] - 1));
            test_fail_context("rtol %g, time %g", tolerances[i], times[k]);
            CHECK_NEAR(element(&r, 0, k), want, 20 * tolerances[i] * 14); /* 14 is the largest y */
        }
        CHECK_NEAR(element(&r, 0, 2), element(&r, 0, 1), 0);
        text_end(&r);
    }
}

/* The body uses the time: y' = cos t. */
TEST(odeint_passes_the_time)
{
    text_run r = text_begin("graph c(y: f32[], t: f32[]) { return cos(t) }\n"
                            "graph main() { return odeint(full(f32[], 0), const(f32[3], [0, 1, -2]), body=@c) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(element(&r, 0, 1), sin(1), 1e-6);
    CHECK_NEAR(element(&r, 0, 2), sin(-2), 1e-6);
    text_end(&r);
}

/* y(t1) = y0 exp(-k (t1 - t0)) = 2 exp(-1): its derivatives with respect to y0, both times and k. */
TEST(odeint_gradients_of_state_times_and_parameters)
{
    double y = 2 * exp(-1);
    const gradient_row rows[] = {{"y0", {2}, {y / 2}}, {"ts", {1, 3}, {y / 2, -y / 2}}, {"k", {0.5}, {-2 * y}}};
    check_near_gradient(DECAY "graph f(y0: f64[], ts: f64[2], k: f64[]) {\n"
                              "  y = odeint(y0, ts, k, body=@decay, rtol=1e-11, atol=1e-12)\n"
                              "  return reduce_sum(narrow(y, axis=0, start=1, len=1)) }",
                        rows, 3, 1e-10);
}

/* y' = y^2 from 1 has a pole at t = 1. */
TEST(odeint_beyond_a_pole_is_nan)
{
    text_run r = text_begin("graph blow(y: f64[], t: f64[]) { return square(y) }\n"
                            "graph nothing(y: f64[], t: f64[]) { return mul(y, nan) }\n"
                            "graph main() { return odeint(full(f64[], 1), const(f64[3], [0, 0.5, 2]), body=@blow),\n"
                            "  odeint(full(f64[], 1), const(f64[2], [0, 1]), body=@nothing) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(element(&r, 0, 1), 2, 1e-5);
    CHECK(isnan(element(&r, 0, 2)));
    CHECK_NEAR(element(&r, 1, 0), 1, 0);
    CHECK(isnan(element(&r, 1, 1)));
    text_end(&r);
}

/* A stiff equation takes many steps and stays accurate: y' = -500 (y - sin t) follows sin t. */
TEST(odeint_takes_as_many_steps_as_it_needs)
{
    text_run r = text_begin("graph stiff(y: f64[], t: f64[]) { return mul(sub(y, sin(t)), -500) }\n"
                            "graph main() { return odeint(full(f64[], 3), const(f64[2], [0, 2]), body=@stiff) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(element(&r, 0, 1), (sin(2) - cos(2) / 500) / (1 + 1.0 / 250000), 1e-5);
    text_end(&r);
}

/* ---- Errors ---- */

TEST(implicit_errors_name_what_the_body_gives)
{
    check_text_fails("graph s(x: f32[2]) { return reduce_sum(x) }\n"
                     "graph g(x: f32[2]) { y = root(x, body=@s)  return y }",
                     FLX_E_SHAPE, "root 'y': body must return the type of its first input, f32[2], but returns f32[]");
    check_text_fails("graph s(y: f32[2], t: f32[]) { return y }\n"
                     "graph g(y: f32[2], t: f64[3]) { z = odeint(y, t, body=@s)  return z }",
                     FLX_E_DTYPE, "odeint 'z': ts must be f32, the real dtype of y0, but it is f64[3]");
    check_text_fails("graph s(x: f32[2]) { return x }\n"
                     "graph g(x: f32[2]) { y = cg(x, body=@s, tol=-1)  return y }",
                     FLX_E_ATTRIBUTE, "cg 'y': tol=-1 must be a nonnegative number");
}
