/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of energies and forces: exact numbers, what is omitted with a weight of zero, and errors. The model with
   a network is in tests/nn/nn_forces.c. */
#include "autodiff/transform_text.h"

#include <math.h>

/* A spring of length 0 and stiffness k between two atoms on a line, for each example: E = k (x0 - x1)^2 / 2,
   F = (-k (x0 - x1), k (x0 - x1)). */
static const char spring[] = "graph spring(x: f64[N, 2], param k: f64[]) {\n"
                             "  d = sub(narrow(x, axis=1, start=0, len=1), narrow(x, axis=1, start=1, len=1))\n"
                             "  e = mul(mul(k, 0.5), squeeze(mul(d, d), axes=[1]))\n"
                             "  return e\n}\n";

enum { LOSS, ENERGY, FORCES };

static text_bench open_spring(void)
{
    text_bench b = bench_open(spring, NULL);
    const flx_dim two[] = {2, 2};
    bench_feed(&b, "x", 2, two, (const double[]){3, 1, 0, 1});
    bench_feed_number(&b, "k", 2);
    bench_feed(&b, "target_energy", 1, two, (const double[]){3, 2});
    bench_feed(&b, "target_forces", 2, two, (const double[]){-4, 3, 2, 0});
    return b;
}

/* Energies are 4 and 1, forces -4, 4 and 2, -2: errors 1, -1 and 0, 1, 0, -2. */
TEST(force_energy_loss_of_springs_is_exact)
{
    static const double energies[] = {4, 1}, forces[] = {-4, 4, 2, -2};
    text_bench b = open_spring();
    flx_graph *g =
        flx_force_energy_loss(b.g, "x", &(flx_force_options){.energy_weight = 0.5, .force_weight = 3}, &b.err);
    flx_tensor *out[3] = {0};
    bench_run(&b, g, out);
    CHECK_EQ_STR(flx_graph_output_name(g, LOSS), "loss");
    CHECK_EQ_STR(flx_graph_output_name(g, ENERGY), "energy");
    CHECK_EQ_STR(flx_graph_output_name(g, FORCES), "forces");
    CHECK_NEAR(flx_tensor_get(out[LOSS], 0), 0.5 * 2.0 / 2 + 3 * 5.0 / 4, 0);
    for (int i = 0; i < 2; i++)
        CHECK_NEAR(flx_tensor_get(out[ENERGY], i), energies[i], 0);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(flx_tensor_get(out[FORCES], i), forces[i], 0);
    bench_release(g, out);
    /* dL/dk = 0.5 mean(2 de dE/dk) + 3 mean(2 df dF/dk), dE/dk = E / k, dF/dk = F / k */
    const char *by_k[] = {"k"};
    flx_graph *grad = flx_extract(g, (const flx_val[]){flx_graph_output(g, LOSS)}, 1, &b.err);
    flx_graph_release(g);
    g = flx_grad(grad, by_k, 1, NULL, &b.err);
    flx_graph_release(grad);
    double de = (1 * 2.0 - 1 * 0.5) / 2, df = (0 + 1 * 2.0 + 0 + -2 * -1.0) / 4;
    CHECK_NEAR(bench_number(&b, g, 0), 0.5 * 2 * de + 3 * 2 * df, 1e-15);
    bench_close(&b);
}

TEST(force_energy_loss_without_options_has_weights_of_one)
{
    text_bench b = open_spring();
    flx_graph *g = flx_force_energy_loss(b.g, "x", NULL, &b.err);
    CHECK_NEAR(bench_number(&b, flx_extract(g, (const flx_val[]){flx_graph_output(g, LOSS)}, 1, &b.err), 0),
               2.0 / 2 + 5.0 / 4, 0);
    flx_graph_release(g);
    bench_close(&b);
}

/* A part whose weight is zero is not in the graph: with forces left out it is plain regression. */
TEST(force_energy_loss_leaves_out_what_has_no_weight)
{
    text_bench b = open_spring();
    flx_graph *plain = flx_force_energy_loss(b.g, "x", &(flx_force_options){.energy_weight = 1}, &b.err);
    CHECK_MSG(plain, "%s", b.err.message);
    CHECK_EQ_U64(flx_graph_output_count(plain), 2);
    CHECK_EQ_U64(flx_graph_input_count(plain), 3);
    CHECK(flx_graph_find(plain, "target_energy").id && !flx_graph_find(plain, "target_forces").id);
    CHECK_MSG(flx_graph_node_count(plain) <= flx_graph_node_count(b.g) + 4, "%zu nodes", flx_graph_node_count(plain));
    CHECK_NEAR(bench_number(&b, flx_extract(plain, (const flx_val[]){flx_graph_output(plain, LOSS)}, 1, &b.err), 0),
               1.0, 0);
    flx_graph *forces = flx_force_energy_loss(b.g, "x", &(flx_force_options){.force_weight = 2}, &b.err);
    CHECK(flx_graph_output_count(forces) == 3 && !flx_graph_find(forces, "target_energy").id);
    CHECK_NEAR(bench_number(&b, flx_extract(forces, (const flx_val[]){flx_graph_output(forces, LOSS)}, 1, &b.err), 0),
               2 * 5.0 / 4, 0);
    flx_graph_release(plain);
    flx_graph_release(forces);
    bench_close(&b);
}

/* Energies in f32 with positions in f64, and names that are in use. */
TEST(force_energy_loss_of_mixed_widths_and_taken_names)
{
    text_bench b = bench_open("graph f(x: f64[2], target_forces: f32[]) {\n"
                              "  e = cast(reduce_sum(mul(x, x)), to=f32)\n  return mul(e, target_forces)\n}\n",
                              NULL);
    flx_graph *g = flx_force_energy_loss(b.g, "x", NULL, &b.err);
    CHECK_MSG(g, "%s", b.err.message);
    CHECK_EQ_I64(flx_val_type(g, flx_graph_output(g, LOSS))->dtype, FLX_F32);
    CHECK_EQ_I64(flx_val_type(g, flx_graph_output(g, FORCES))->dtype, FLX_F64);
    CHECK_EQ_I64(flx_val_type(g, flx_graph_find(g, "target_forces_2"))->dtype, FLX_F64);
    flx_graph_release(g);
    bench_close(&b);
}

/* ---- Errors ---- */

TEST(force_energy_loss_refuses_what_has_no_forces)
{
    static const char real[] = "energies and positions are real floating numbers";
    static const char weights[] = "weights must be finite and nonnegative; both 0 stand for 1 and 1";
    text_bench b = bench_open(spring, NULL);
    bench_refused(&b, flx_force_energy_loss(b.g, "y", NULL, &b.err), FLX_E_NAME,
                  "the graph 'spring' has no input called 'y'", "force_energy_loss of 'spring'", "its inputs: x, k");
    bench_refused(&b, flx_force_energy_loss(b.g, NULL, NULL, &b.err), FLX_E_USAGE,
                  "flx_force_energy_loss: a graph with an output and the name of an input are needed",
                  "force_energy_loss of 'spring'", "");
    bench_refused(&b, flx_force_energy_loss(b.g, "x", &(flx_force_options){.force_weight = -1}, &b.err), FLX_E_USAGE,
                  "flx_force_energy_loss: the weights are 0 and -1", "force_energy_loss of 'spring'", weights);
    bench_refused(&b, flx_force_energy_loss(b.g, "x", &(flx_force_options){.energy_weight = INFINITY}, &b.err),
                  FLX_E_USAGE, "flx_force_energy_loss: the weights are inf and 0", "force_energy_loss of 'spring'",
                  weights);
    bench_refused(&b, flx_force_energy_loss(b.g, "x", &(flx_force_options){.flags = 5}, &b.err), FLX_E_USAGE,
                  "flx_force_energy_loss: unknown flags 0x5", "force_energy_loss of 'spring'", "");
    bench_close(&b);
    b = bench_open("graph f(x: f64[2], i: i32[2]) { return argmax(x, axis=0), reduce_sum(mul(x, x)) }", NULL);
    bench_refused(&b, flx_force_energy_loss(b.g, "x", NULL, &b.err), FLX_E_NOT_DIFFERENTIABLE,
                  "forces are not defined for argmax 'out0' (i32[])", "force_energy_loss of 'f'", real);
    bench_refused(&b, flx_force_energy_loss(b.g, "i", NULL, &b.err), FLX_E_NOT_DIFFERENTIABLE,
                  "forces are not defined for input 'i' (i32[2])", "force_energy_loss of 'f'", real);
    bench_close(&b);
    b = bench_open("graph f(x: f64[2], y: f64[]) { return exp(y) }", NULL);
    bench_refused(&b, flx_force_energy_loss(b.g, "x", NULL, &b.err), FLX_E_NO_GRAD_PATH,
                  "the loss reduce_sum 'out0' (f64[]) does not depend on input 'x' (f64[2])",
                  "force_energy_loss of 'f'", "choose only inputs that the loss depends on");
    bench_close(&b);
    CHECK(!flx_force_energy_loss(NULL, "x", NULL, NULL));
}
