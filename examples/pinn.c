/* SPDX-License-Identifier: Apache-2.0 */
/* A network solves an equation: -(u_xx + u_yy) = f in the unit square, u = 0 on its boundary. The loss is the residual
   of the equation, so it contains second derivatives of the network, by flx_taylor(), and training differentiates them
   once more. f = 2 pi² sin(pi x) sin(pi y), whose solution is sin(pi x) sin(pi y). Prints the largest error between the
   points of training. */
#include "example.h"
#include <fluxion/nn.h>

/* u(x, y) at n points, [n]. The factor x (1 - x) y (1 - y) makes it zero on the boundary. */
static flx_graph *build_solution(flx_context *ctx, int64_t n)
{
    flx_graph *g = flx_graph_new(ctx, "solution");
    flx_type points = of_type(FLX_F64, FLX_INTS(n));
    flx_val x = flx_input(g, "x", &points), y = flx_input(g, "y", &points), one = flx_scalar(g, FLX_F64, 1);
    flx_val net =
        flx_nn_mlp(g, "net", flx_stack(g, ((flx_val[]){x, y}), 2, 1), (const int64_t[]){16, 16, 1}, 3, "tanh");
    flx_val edge = flx_mul(g, flx_mul(g, x, flx_sub(g, one, x)), flx_mul(g, y, flx_sub(g, one, y)));
    flx_output(g, flx_mul(g, flx_reshape(g, net, .shape = FLX_INTS(n)), edge), "u");
    need(flx_graph_error(g, &err) == FLX_OK);
    return g;
}

/* Appends d²u/dv² for the input v. Along the direction 1 of v, the input tangent_v, it is the second derivative. */
static flx_val second_derivative(flx_graph *g, const flx_graph *u, const char *v)
{
    flx_graph *taylor = flx_taylor(u, &v, 1, 2, &err); /* outputs u, taylor_u_1, taylor_u_2 */
    need(taylor != NULL);
    flx_val out[3] = {0};
    flx_inline(g, taylor, NULL, 0, out, 3); /* inputs and parameters are those of the same names */
    flx_graph_release(taylor);
    return out[2];
}

/* The mean square of u_xx + u_yy + f. */
static flx_graph *build_loss(flx_context *ctx, const flx_graph *u, int64_t n)
{
    flx_graph *g = flx_graph_new(ctx, "residual");
    flx_type points = of_type(FLX_F64, FLX_INTS(n));
    flx_val x = flx_input(g, "x", &points), y = flx_input(g, "y", &points),
            pi = flx_scalar(g, FLX_F64, 3.141592653589793);
    flx_val f = flx_mul(g, flx_sin(g, flx_mul(g, pi, x)), flx_sin(g, flx_mul(g, pi, y)));
    f = flx_mul(g, f, flx_mul(g, flx_scalar(g, FLX_F64, 2), flx_square(g, pi)));
    flx_val sum = flx_add(g, second_derivative(g, u, "x"), second_derivative(g, u, "y"));
    flx_output(g, flx_reduce_mean(g, flx_square(g, flx_add(g, sum, f)), FLX_ALL, 0), "loss");
    need(flx_graph_error(g, &err) == FLX_OK);
    return g;
}

/* The largest error at the points, which are between those of training. */
static double largest_error(const flx_graph *u, const flx_params *set, const flx_tensor *x, const flx_tensor *y)
{
    flx_feed feeds[16] = {{"x", x}, {"y", y}};
    size_t count = flx_params_feeds(set, u, feeds + 2, 14);
    flx_tensor *out = NULL;
    double worst = 0;
    need(flx_run(u, NULL, feeds, 2 + count, &out, &err) == FLX_OK);
    for (int64_t i = 0; i < flx_tensor_count(out); i++) {
        double exact = sin(3.141592653589793 * flx_tensor_get(x, i)) * sin(3.141592653589793 * flx_tensor_get(y, i));
        worst = fmax(worst, fabs(flx_tensor_get(out, i) - exact));
    }
    flx_tensor_release(out);
    return worst;
}

/* Coordinate `axis` of a grid of side * side points, the first of which is at `from` grid steps. */
static flx_tensor *grid(flx_context *ctx, int64_t side, int axis, double from)
{
    flx_tensor *t = tensor(ctx, FLX_F64, FLX_INTS(side * side), NULL);
    for (int64_t i = 0; i < side * side; i++)
        ((double *)flx_tensor_data(t))[i] = ((double)(axis ? i / side : i % side) + from) / (double)side;
    return t;
}

int main(void)
{
    const int64_t side = 12, n = side * side;
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *u = build_solution(ctx, n), *loss = build_loss(ctx, u, n);
    flx_params *set = flx_params_of(u, 1, &err);
    need(set != NULL);
    flx_tensor *x = grid(ctx, side, 0, 0.5), *y = grid(ctx, side, 1, 0.5),
               *ones = tensor(ctx, FLX_F64, FLX_INTS(n), NULL);
    for (int64_t i = 0; i < n; i++)
        ((double *)flx_tensor_data(ones))[i] = 1;
    const flx_feed feeds[] = {{"x", x}, {"y", y}, {"tangent_x", ones}, {"tangent_y", ones}};
    flx_minimise_options options = {.struct_size = sizeof options, .max_iterations = 500, .history = 30};
    flx_minimise_result result;
    need(flx_minimise(loss, set, feeds, 4, &options, &result, &err) == FLX_OK);
    printf("L-BFGS, %lld iterations: the loss falls from %.3g to %.3g\n", (long long)result.iterations, result.first,
           result.value);
    flx_tensor *test_x = grid(ctx, side, 0, 0), *test_y = grid(ctx, side, 1, 0);
    double worst = largest_error(u, set, test_x, test_y);
    printf("the largest error of u, which is up to 1, is %.2e\n", worst);

    flx_tensor_release(test_x);
    flx_tensor_release(test_y);
    flx_tensor_release(ones);
    flx_tensor_release(x);
    flx_tensor_release(y);
    flx_params_release(set);
    flx_graph_release(loss);
    flx_graph_release(u);
    flx_context_free(ctx);
    return verdict(worst < 2e-4);
}
