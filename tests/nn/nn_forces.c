/* SPDX-License-Identifier: Apache-2.0 */
/* nn_forces.c: the model of examples/forces.c, whose loss contains a gradient, against the answers of another framework
   (tests/oracle/nn_forces.py), against finite differences, and against the laws of mechanics. */
#include "answers.h"
#include "example_models.h"
#include "test.h"

#include <fluxion/nn.h>

#include <math.h>
#include <string.h>

enum { EXAMPLES = 2, ATOMS = 4, AXES = 3, MOST_INPUTS = 8 };
enum { LOSS, ENERGY, FORCES, NUM_OUTPUTS };

static const flx_force_options weights = {.energy_weight = 0.5, .force_weight = 3};

static flx_graph *open_loss(answers *a)
{
    flx_error err = {0};
    answers_open(a, "forces");
    flx_graph *energy = example_energy(a->ctx, FLX_F64);
    flx_graph *loss = flx_force_energy_loss(energy, "x", &weights, &err);
    CHECK_MSG(loss, "%s", err.message);
    flx_graph_release(energy);
    return loss;
}

TEST(forces_loss_agrees_with_another_framework_by_value_and_gradient)
{
    answers a;
    flx_graph *loss = open_loss(&a);
    answers_check(&a, loss, "ref");
    answers_check(&a, loss, "cpu");
    test_fail_context("gradient");
    CHECK_EQ_U64(answers_check_gradient(&a, loss, FLX_GRAD_VALUE), 5);
    test_fail_context("gradient by backward ops");
    CHECK_EQ_U64(answers_check_gradient(&a, loss, FLX_GRAD_VALUE | FLX_GRAD_BACKWARD_OPS), 5);
    flx_graph_release(loss);
    answers_close(&a);
}

/* The same loss by hand, from a gradient that is inlined. */
TEST(forces_loss_can_be_written_with_an_inlined_gradient)
{
    answers a;
    flx_error err = {0};
    flx_graph *loss = open_loss(&a), *energy = example_energy(a.ctx, FLX_F64);
    flx_val e = FLX_NONE, at[1];
    flx_graph *total = flx_graph_new(a.ctx, "total");
    flx_inline(total, energy, NULL, 0, &e, 1);
    flx_output(total, flx_reduce_sum(total, e, FLX_ALL, 0), "sum");
    const char *by_x[] = {"x"};
    flx_graph *slope = flx_grad(total, by_x, 1, NULL, &err);
    CHECK_MSG(slope, "%s", err.message);
    flx_inline(a.g, energy, NULL, 0, &e, 1);
    flx_inline(a.g, slope, NULL, 0, at, 1);
    flx_val forces = flx_neg(a.g, at[0]);
    flx_val wanted = flx_input(a.g, "target_energy", flx_val_type(a.g, e));
    flx_val energy_part = flx_nn_mse(a.g, e, wanted);
    wanted = flx_input(a.g, "target_forces", flx_val_type(a.g, forces));
    flx_val force_part = flx_nn_mse(a.g, forces, wanted);
    flx_output(a.g,
               flx_add(a.g, flx_mul(a.g, energy_part, flx_scalar(a.g, FLX_F64, weights.energy_weight)),
                       flx_mul(a.g, force_part, flx_scalar(a.g, FLX_F64, weights.force_weight))),
               "loss");
    CHECK_OK(flx_graph_verify(a.g, &err), &err);
    answers_check(&a, a.g, "ref");
    CHECK_EQ_U64(answers_check_gradient(&a, a.g, FLX_GRAD_VALUE), 5);
    flx_graph_release(slope);
    flx_graph_release(total);
    flx_graph_release(energy);
    flx_graph_release(loss);
    answers_close(&a);
}

/* ---- Differences ---- */

typedef struct {
    flx_feed feeds[MOST_INPUTS];
    size_t n;
} inputs;

static void read_inputs(const answers *a, const flx_graph *g, inputs *in)
{
    in->n = flx_graph_input_count(g);
    CHECK(in->n <= MOST_INPUTS);
    for (size_t i = 0; i < in->n; i++) {
        in->feeds[i].name = flx_val_name(g, flx_graph_input(g, i));
        in->feeds[i].value = answers_read(a, in->feeds[i].name);
        CHECK_MSG(in->feeds[i].value, "no %s", in->feeds[i].name);
    }
}

static flx_tensor *value_of(const inputs *in, const char *name)
{
    for (size_t i = 0; i < in->n; i++)
        if (strcmp(in->feeds[i].name, name) == 0)
            return (flx_tensor *)(uintptr_t)in->feeds[i].value;
    FAIL("there is no input %s", name);
    return NULL;
}

static void release_inputs(inputs *in)
{
    for (size_t i = 0; i < in->n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)in->feeds[i].value);
}

/* Element i of output k, or the sum of all for i < 0. */
static double run_for(const flx_graph *g, const inputs *in, size_t k, int64_t i)
{
    flx_error err = {0};
    flx_tensor *out[NUM_OUTPUTS] = {0};
    double y = 0;
    CHECK_OK(flx_run(g, &(flx_run_options){.device = "ref"}, in->feeds, in->n, out, &err), &err);
    for (int64_t j = 0; i < 0 && j < flx_tensor_count(out[k]); j++)
        y += flx_tensor_get(out[k], j);
    if (i >= 0)
        y = flx_tensor_get(out[k], i);
    for (size_t j = 0; j < flx_graph_output_count(g); j++)
        flx_tensor_release(out[j]);
    return y;
}

/* (f(p + h) - f(p - h)) / 2h for the sum of output k, with respect to element i of an input. */
static double difference(const flx_graph *g, const inputs *in, const char *name, int64_t i, size_t k)
{
    double *p = (double *)flx_tensor_data(value_of(in, name)) + i, before = *p, h = 1e-5;
    *p = before + h;
    double up = run_for(g, in, k, -1);
    *p = before - h;
    double down = run_for(g, in, k, -1);
    *p = before;
    return (up - down) / (2 * h);
}

/* With h = 1e-5 both the error of the difference, h² times a third derivative, and rounding are some 1e-10 of the
   loss. */
TEST(forces_loss_has_the_gradient_that_differences_show)
{
    static const char *const params[] = {"pair.0.w", "pair.0.b", "pair.1.w", "pair.1.b"};
    answers a;
    inputs in;
    flx_graph *loss = open_loss(&a);
    read_inputs(&a, loss, &in);
    double size = run_for(loss, &in, LOSS, 0);
    for (size_t k = 0; k < sizeof params / sizeof *params; k++) {
        flx_error err = {0};
        flx_graph *first = flx_extract(loss, (const flx_val[]){flx_graph_output(loss, LOSS)}, 1, &err);
        flx_graph *grad = first ? flx_grad(first, &params[k], 1, NULL, &err) : NULL;
        CHECK_MSG(grad, "%s", err.message);
        for (int64_t i = 0; i < flx_tensor_count(value_of(&in, params[k])); i += 7)
            CHECK_NEAR(run_for(grad, &in, 0, i), difference(loss, &in, params[k], i, LOSS), 1e-8 * (1 + size));
        flx_graph_release(first);
        flx_graph_release(grad);
    }
    for (int64_t i = 0; i < EXAMPLES * ATOMS * AXES; i++)
        CHECK_NEAR(run_for(loss, &in, FORCES, i), -difference(loss, &in, "x", i, ENERGY), 1e-8 * (1 + size));
    release_inputs(&in);
    flx_graph_release(loss);
    answers_close(&a);
}

/* ---- Laws ---- */

/* The energy depends only on distances: forces sum to zero, and so do their torques. */
TEST(forces_of_distances_have_neither_sum_nor_torque)
{
    answers a;
    inputs in;
    flx_graph *loss = open_loss(&a);
    read_inputs(&a, loss, &in);
    const double *x = flx_tensor_data(value_of(&in, "x"));
    for (int b = 0; b < EXAMPLES; b++) {
        double sum[AXES] = {0}, torque[AXES] = {0}, size = 0;
        for (int i = 0; i < ATOMS; i++) {
            double f[AXES];
            const double *r = x + (b * ATOMS + i) * AXES;
            for (int k = 0; k < AXES; k++) {
                f[k] = run_for(loss, &in, FORCES, (b * ATOMS + i) * AXES + k);
                sum[k] += f[k];
                size += fabs(f[k]);
            }
            for (int k = 0; k < AXES; k++)
                torque[k] += r[(k + 1) % AXES] * f[(k + 2) % AXES] - r[(k + 2) % AXES] * f[(k + 1) % AXES];
        }
        CHECK(size > 0.1);
        for (int k = 0; k < AXES; k++) {
            CHECK_NEAR(sum[k], 0, 1e-13 * size);
            CHECK_NEAR(torque[k], 0, 1e-12 * size);
        }
    }
    release_inputs(&in);
    flx_graph_release(loss);
    answers_close(&a);
}
