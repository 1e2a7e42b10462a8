/* SPDX-License-Identifier: Apache-2.0 */
/* The length and the damping of a pendulum are found from measurements with noise of how it swings. The equation of
   motion is solved by the op odeint inside of the residual, and the fit differentiates through the solver. Prints the
   guess and what was fitted, beside the truth. */
#include "example.h"

enum { TIMES = 41 };

/* y is the angle and its velocity. `motion` is the right-hand side of the equation. */
static const char text[] = "graph motion(y: f64[2], t: f64[], length: f64[], damping: f64[]) {\n"
                           "  angle    = reshape(narrow(y, axis=0, start=0, len=1), shape=[])\n"
                           "  velocity = reshape(narrow(y, axis=0, start=1, len=1), shape=[])\n"
                           "  force    = neg(add(mul(div(9.81, length), sin(angle)), mul(damping, velocity)))\n"
                           "  return stack(velocity, force, axis=0)\n"
                           "}\n"
                           "graph residual(start: f64[2], times: f64[41], seen: f64[41],\n"
                           "               param length: f64[] ~ constant(2.0), param damping: f64[] ~ zeros) {\n"
                           "  ys    = odeint(start, times, length, damping, body=@motion)\n"
                           "  angle = reshape(narrow(ys, axis=1, start=0, len=1), shape=[41])\n"
                           "  return sub(angle, seen)\n"
                           "}\n";

static const double true_length = 1.3, true_damping = 0.25;

/* The angle at each tenth of a second, by many small steps of the midpoint rule, with a little noise. */
static void simulate(double *times, double *seen)
{
    const int parts = 1000;
    double angle = 1.5, velocity = 0, h = 0.1 / parts;
    for (int i = 0; i < TIMES; i++) {
        times[i] = 0.1 * i;
        seen[i] = angle + 0.02 * normal();
        for (int k = 0; k < parts; k++) {
            double force = -9.81 / true_length * sin(angle) - true_damping * velocity;
            double middle = angle + h / 2 * velocity, speed = velocity + h / 2 * force;
            angle += h * speed;
            velocity += h * (-9.81 / true_length * sin(middle) - true_damping * speed);
        }
    }
}

int main(void)
{
    double times[TIMES], seen[TIMES];
    simulate(times, seen);
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = parse(ctx, text);
    flx_params *set = flx_params_of(g, 1, &err);
    need(set != NULL);
    flx_tensor *start = tensor(ctx, FLX_F64, FLX_INTS(2), (const double[]){1.5, 0});
    flx_tensor *at = tensor(ctx, FLX_F64, FLX_INTS(TIMES), times),
               *angles = tensor(ctx, FLX_F64, FLX_INTS(TIMES), seen);
    const flx_feed feeds[] = {{"start", start}, {"times", at}, {"seen", angles}};
    const flx_tensor *length = flx_params_find(set, "length"), *damping = flx_params_find(set, "damping");
    printf("guess:  length %.3f, damping %.3f\n", flx_tensor_get(length, 0), flx_tensor_get(damping, 0));

    /* Half the sum of the squares of the residual is minimised, as Gauss and Newton did, with a damping of its own. */
    flx_minimise_options options = {.struct_size = sizeof options, .method = FLX_GAUSS_NEWTON};
    flx_minimise_result result;
    need(flx_minimise(g, set, feeds, 3, &options, &result, &err) == FLX_OK);
    double found[] = {flx_tensor_get(length, 0), flx_tensor_get(damping, 0)};
    printf("fitted: length %.3f, damping %.3f, in %lld iterations\n", found[0], found[1], (long long)result.iterations);
    printf("truth:  length %.3f, damping %.3f\n", true_length, true_damping);

    flx_tensor_release(start);
    flx_tensor_release(at);
    flx_tensor_release(angles);
    flx_params_release(set);
    flx_graph_release(g);
    flx_context_free(ctx);
    return verdict(fabs(found[0] - true_length) < 0.02 && fabs(found[1] - true_damping) < 0.03);
}
