/* SPDX-License-Identifier: Apache-2.0 */
/* minimising.c: L-BFGS, Newton's method and Gauss-Newton on problems whose minimum is known. */
#include "trainee.h"

#include <math.h>
#include <string.h>

static const char *const method_names[] = {"L-BFGS", "Newton", "Gauss-Newton"};

typedef struct {
    flx_context *ctx;
    flx_graph *g;
    flx_params *set;
    flx_minimise_result r;
    flx_error err;
} problem;

static void begin(problem *p, const char *text, flx_dtype dtype, const double *start, int64_t n)
{
    *p = (problem){.ctx = flx_context_new(NULL)};
    p->g = trainee_graph(p->ctx, text, dtype);
    p->set = flx_params_new(p->ctx, &p->err);
    const flx_type type = flx_type_make(FLX_F64, 1, &n);
    flx_tensor *x = flx_tensor_new(p->ctx, &type, start, &p->err), *narrow = flx_tensor_cast(x, dtype, &p->err);
    CHECK_OK(flx_params_add(p->set, "x", narrow, &p->err), &p->err);
    flx_tensor_release(x);
    flx_tensor_release(narrow);
}

static void end(problem *p)
{
    flx_params_release(p->set);
    flx_graph_release(p->g);
    flx_context_free(p->ctx);
}

static double at(const problem *p, int64_t i)
{
    return flx_tensor_get(flx_params_find(p->set, "x"), i);
}

#define ROSENBROCK                                                                                            \
    "graph f(param x: %s[6]) {\n  a = slice(x, start=[0], limit=[5])\n  b = slice(x, start=[1], limit=[6])\n" \
    "  u = mul(10.0, sub(b, mul(a, a)))\n  v = sub(1.0, a)\n"

TEST(minimise_finds_the_minimum_of_rosenbrocks_function)
{
    static const double start[] = {-1.2, 1, -1.2, 1, -1.2, 1};
    for (int32_t method = FLX_LBFGS; method <= FLX_GAUSS_NEWTON; method++)
        for (int narrow = 0; narrow < 2; narrow++) {
            problem p;
            begin(&p,
                  method == FLX_GAUSS_NEWTON ? ROSENBROCK "  return mul(1.4142135623730951, concat(u, v, axis=0))\n}\n"
                                             : ROSENBROCK
                      "  return add(reduce_sum(square(u)), reduce_sum(square(v)))\n}\n",
                  narrow ? FLX_F32 : FLX_F64, start, 6);
            flx_minimise_options o = {.struct_size = sizeof o, .method = method, .tolerance = narrow ? 1e-3 : 0};
            test_fail_context("%s, %s", method_names[method], narrow ? "f32" : "f64");
            CHECK_OK(flx_minimise(p.g, p.set, NULL, 0, &o, &p.r, &p.err), &p.err);
            for (int64_t i = 0; i < 6; i++)
                CHECK_NEAR(at(&p, i), 1, narrow ? 2e-3 : 1e-7);
            CHECK(p.r.iterations > 3 && p.r.iterations < 150 && p.r.evaluations >= p.r.iterations);
            CHECK(p.r.first > 100 && p.r.value < 1e-5);
            CHECK_EQ_I64(p.r.reason,
                         p.r.gradient <= (narrow ? 1e-3 : 1e-8) ? FLX_MINIMISE_GRADIENT : FLX_MINIMISE_STEP);
            end(&p);
            test_count_case();
        }
}

/* A fit with data as inputs, and a parameter that stays. */
#define CURVE                                                                      \
    "graph f(t: f64[9], y: f64[9], param x: f64[2], param c: f64[]) {\n"           \
    "  a = slice(x, start=[0], limit=[1])\n  b = slice(x, start=[1], limit=[2])\n" \
    "  r = sub(add(mul(a, exp(mul(b, t))), c), y)\n"

TEST(minimise_fits_a_curve_to_points)
{
    static const double start[] = {1, 0};
    for (int32_t method = FLX_LBFGS; method <= FLX_GAUSS_NEWTON; method++) {
        problem p;
        begin(&p, method == FLX_GAUSS_NEWTON ? CURVE "  return r\n}\n" : CURVE "  return reduce_sum(square(r)), r\n}\n",
              FLX_F64, start, 2);
        double ts[9], ys[9], c = 0.5;
        for (int i = 0; i < 9; i++) {
            ts[i] = i / 4.0;
            ys[i] = 2.5 * exp(-1.3 * ts[i]) + 0.5;
        }
        const flx_type nine = flx_type_make(FLX_F64, 1, (flx_dim[]){9}), scalar = flx_type_make(FLX_F64, 0, NULL);
        flx_tensor *t = flx_tensor_new(p.ctx, &nine, ts, &p.err), *y = flx_tensor_new(p.ctx, &nine, ys, &p.err);
        flx_tensor *ct = flx_tensor_new(p.ctx, &scalar, &c, &p.err);
        CHECK_OK(flx_params_add(p.set, "c", ct, &p.err), &p.err);
        const flx_feed feeds[] = {{"t", t}, {"y", y}};
        const char *const only[] = {"x*"};
        flx_minimise_options o = {.struct_size = sizeof o, .method = method, .params = only, .num_params = 1};
        test_fail_context("%s", method_names[method]);
        CHECK_OK(flx_minimise(p.g, p.set, feeds, 2, &o, &p.r, &p.err), &p.err);
        CHECK_NEAR(at(&p, 0), 2.5, 1e-6);
        CHECK_NEAR(at(&p, 1), -1.3, 1e-6);
        CHECK_NEAR(flx_tensor_get(flx_params_find(p.set, "c"), 0), 0.5, 0);
        o.params = NULL; /* all, from the minimum on */
        o.num_params = 0;
        CHECK_OK(flx_minimise(p.g, p.set, feeds, 2, &o, &p.r, &p.err), &p.err);
        CHECK(p.r.value <= p.r.first);
        CHECK_CODE(flx_minimise(p.g, p.set, feeds, 1, &o, &p.r, &p.err), FLX_E_MISSING_INPUT, &p.err);
        flx_tensor_release(t);
        flx_tensor_release(y);
        flx_tensor_release(ct);
        end(&p);
    }
}

/* A quadratic form: Newton's method needs few iterations, and none goes up. */
TEST(minimise_never_goes_up_and_stops_at_its_limit)
{
    static const double start[] = {3, -2, 5, 1};
    for (int32_t method = FLX_LBFGS; method < FLX_GAUSS_NEWTON; method++) {
        double before = INFINITY;
        for (int64_t limit = 1; limit <= 13; limit += 4) {
            problem p;
            begin(&p, "graph f(param x: f64[4]) { return reduce_sum(sub(exp(x), mul(2.0, x))) }\n", FLX_F64, start, 4);
            flx_minimise_options o = {.struct_size = sizeof o, .method = method, .max_iterations = limit};
            CHECK_OK(flx_minimise(p.g, p.set, NULL, 0, &o, &p.r, &p.err), &p.err);
            CHECK(p.r.iterations <= limit && p.r.value <= before);
            before = p.r.value;
            if (limit == 13)
                CHECK_NEAR(at(&p, 2), log(2), method ? 1e-8 : 1e-3);
            end(&p);
        }
    }
}

/* A saddle: products with the Hessian that are negative lead away from it. */
TEST(minimise_leaves_a_saddle)
{
    static const double start[] = {1e-3, 0.5};
    problem p;
    begin(&p,
          "graph f(param x: f64[2]) {\n  a = slice(x, start=[0], limit=[1])\n  b = slice(x, start=[1], limit=[2])\n"
          "  return reduce_sum(add(sub(mul(0.25, pow(a, 4.0)), mul(0.5, square(a))), square(b)))\n}\n",
          FLX_F64, start, 2);
    flx_minimise_options o = {.struct_size = sizeof o, .method = FLX_NEWTON_CG};
    CHECK_OK(flx_minimise(p.g, p.set, NULL, 0, &o, &p.r, &p.err), &p.err);
    CHECK_NEAR(fabs(at(&p, 0)), 1, 1e-7);
    CHECK_NEAR(at(&p, 1), 0, 1e-7);
    CHECK_NEAR(p.r.value, -0.25, 1e-12);
    end(&p);
}

TEST(minimise_refuses_what_has_no_minimum_to_find)
{
    static const double start[] = {-1, 1};
    problem p;
    flx_minimise_options o = {.struct_size = sizeof o};
    begin(&p, "graph f(param x: f64[2]) { return reduce_sum(log(x)) }\n", FLX_F64, start, 2);
    CHECK_CODE(flx_minimise(p.g, p.set, NULL, 0, &o, &p.r, &p.err), FLX_E_NUMERIC, &p.err);
    CHECK_NEAR(at(&p, 0), -1, 0);
    o.method = 3;
    CHECK_CODE(flx_minimise(p.g, p.set, NULL, 0, &o, &p.r, &p.err), FLX_E_USAGE, &p.err);
    o = (flx_minimise_options){.struct_size = sizeof o, .tolerance = -1};
    CHECK_CODE(flx_minimise(p.g, p.set, NULL, 0, &o, &p.r, &p.err), FLX_E_USAGE, &p.err);
    const char *const none[] = {"y"}, *const null[] = {NULL};
    o = (flx_minimise_options){.struct_size = sizeof o, .params = none, .num_params = 1};
    CHECK_CODE(flx_minimise(p.g, p.set, NULL, 0, &o, &p.r, &p.err), FLX_E_NAME, &p.err);
    o.params = null;
    CHECK_CODE(flx_minimise(p.g, p.set, NULL, 0, &o, &p.r, &p.err), FLX_E_USAGE, &p.err);
    CHECK_CODE(flx_minimise(p.g, NULL, NULL, 0, NULL, NULL, &p.err), FLX_E_USAGE, &p.err);
    CHECK(flx_minimise(NULL, p.set, NULL, 0, NULL, NULL, &p.err) != FLX_OK);
    end(&p);
    begin(&p, "graph f(param x: f64[2]) { return x }\n", FLX_F64, start, 2);
    CHECK_CODE(flx_minimise(p.g, p.set, NULL, 0, NULL, NULL, &p.err), FLX_E_NON_SCALAR, &p.err);
    end(&p);
    begin(&p, "graph f(param x: f64[2]) { return reduce_sum(square(x)) }\n", FLX_F64, start, 2);
    flx_stop *stop = flx_stop_new(p.ctx, 0, &p.err);
    flx_stop_request(stop);
    o = (flx_minimise_options){.struct_size = sizeof o, .stop = stop};
    CHECK_CODE(flx_minimise(p.g, p.set, NULL, 0, &o, &p.r, &p.err), FLX_E_CANCELLED, &p.err);
    flx_stop_free(stop);
    end(&p);
}
