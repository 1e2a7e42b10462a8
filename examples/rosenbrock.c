/* SPDX-License-Identifier: Apache-2.0 */
/* Rosenbrock's valley, a test of minimisers: L-BFGS finds the minimum in ten dimensions, and so does Newton's method on
   products with the Hessian; then the whole Hessian is computed there. Prints how many iterations each takes, and the
   condition number of the Hessian, which says why plain descent is slow. */
#include "example.h"

enum { SIZE = 10 };

static const char text[] = "graph rosenbrock(param x: f64[10] ~ constant(-1.2)) {\n"
                           "  here = narrow(x, axis=0, start=0, len=9)\n"
                           "  next = narrow(x, axis=0, start=1, len=9)\n"
                           "  bend = sub(next, square(here))\n"
                           "  flat = sub(1, here)\n"
                           "  return reduce_sum(add(mul(100, square(bend)), square(flat)))\n"
                           "}\n";

/* Minimises from the initialisation; returns the largest distance of an element of x from 1. */
static double minimise(const flx_graph *g, flx_params *set, flx_minimiser method, const char *name)
{
    flx_minimise_options options = {.struct_size = sizeof options, .method = method, .max_iterations = 1000};
    flx_minimise_result result;
    need(flx_minimise(g, set, NULL, 0, &options, &result, &err) == FLX_OK);
    double worst = 0;
    for (int i = 0; i < SIZE; i++)
        worst = fmax(worst, fabs(flx_tensor_get(flx_params_find(set, "x"), i) - 1));
    printf("%s: from %.3g to %.3g in %lld iterations and %lld evaluations; largest error %.1e\n", name, result.first,
           result.value, (long long)result.iterations, (long long)result.evaluations, worst);
    return worst;
}

/* The largest over the smallest eigenvalue of the Hessian at x. */
static double condition(flx_context *ctx, const flx_graph *g, const flx_params *set)
{
    const char *x = "x";
    flx_graph *hessian = flx_hessian(g, &x, 1, NULL, &err), *eigen = flx_graph_new(ctx, "eigen");
    need(hessian != NULL);
    flx_val h = FLX_NONE, pair[2];
    flx_inline(eigen, hessian, NULL, 0, &h, 1); /* declares x; the output is hessian_x_x, [10, 10] */
    flx_eigh(eigen, h, pair);
    flx_output(eigen, pair[0], "values");
    need(flx_graph_error(eigen, &err) == FLX_OK);
    flx_feed feed = {x, flx_params_find(set, x)};
    flx_tensor *values = NULL;
    need(flx_run(eigen, NULL, &feed, 1, &values, &err) == FLX_OK);
    double ratio = flx_tensor_get(values, SIZE - 1) / flx_tensor_get(values, 0);
    flx_tensor_release(values);
    flx_graph_release(eigen);
    flx_graph_release(hessian);
    return ratio;
}

int main(void)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = parse(ctx, text);
    flx_params *a = flx_params_of(g, 1, &err), *b = flx_params_of(g, 1, &err);
    need(a && b);
    double worst = minimise(g, a, FLX_LBFGS, "L-BFGS");
    worst = fmax(worst, minimise(g, b, FLX_NEWTON_CG, "Newton"));
    double ratio = condition(ctx, g, a);
    printf("condition number of the Hessian at the minimum: %.0f\n", ratio);
    flx_params_release(a);
    flx_params_release(b);
    flx_graph_release(g);
    flx_context_free(ctx);
    return verdict(worst < 1e-5 && ratio > 100);
}
