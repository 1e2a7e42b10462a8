/* SPDX-License-Identifier: Apache-2.0 */
/* Learns the forces between atoms. A network gives an energy for each pair of atoms from their distance; the forces are
   minus the gradient of the total energy with respect to the positions. The loss compares both, so training
   differentiates a gradient. The reference is a Morse potential. */
#include <fluxion/fluxion.h>
#include <fluxion/nn.h>
#include <math.h>
#include <stdio.h>

enum { ATOMS = 4, AXES = 3, FEATURES = 6, HIDDEN = 16, BATCH = 32, STEPS = 400 };

/* ---- The model ---- */

/* [N, ATOMS, ATOMS]: the squares of all distances. */
static flx_val squared_distances(flx_graph *g, flx_val x)
{
    flx_val d = flx_sub(g, flx_unsqueeze(g, x, FLX_INTS(2)), flx_unsqueeze(g, x, FLX_INTS(1)));
    return flx_reduce_sum(g, flx_square(g, d), FLX_INTS(-1), 0);
}

/* Energies [N] of positions x [N, ATOMS, AXES]. The features of a distance are exp(-r² / s) for s = 1/2, 1, 2 …,
   which are smooth at r = 0, the distance of an atom to itself, a pair that does not count. */
static flx_graph *build_energy(flx_context *ctx, flx_dtype dtype)
{
    flx_graph *g = flx_graph_new(ctx, "energy");
    const flx_dim dims[] = {flx_dim_symbol(ctx, "N"), ATOMS, AXES}, features = FEATURES;
    flx_type type = flx_type_make(dtype, 3, dims), row = flx_type_make(dtype, 1, &features);
    flx_val r2 = squared_distances(g, flx_input(g, "x", &type));
    flx_val rates = flx_exp2(g, flx_sub(g, flx_scalar(g, dtype, 1), flx_iota(g, &row, FLX_DEFAULT)));
    flx_val bells = flx_exp(g, flx_neg(g, flx_mul(g, flx_unsqueeze(g, r2, FLX_INTS(3)), rates)));
    flx_val pairs = flx_squeeze(g, flx_nn_mlp(g, "pair", bells, (const int64_t[]){HIDDEN, 1}, 2, "tanh"), FLX_INTS(3));
    flx_val counts = flx_sub(g, flx_scalar(g, dtype, 1), flx_eye(g, ATOMS, ATOMS, 0, dtype));
    flx_val sum = flx_reduce_sum(g, flx_mul(g, pairs, counts), FLX_INTS(1, 2), 0);
    flx_output(g, flx_mul(g, sum, flx_scalar(g, dtype, 0.5)), "energy");
    return g;
}

/* ---- The reference ---- */

static uint64_t seed = 1;

static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / 9007199254740992.0;
}

/* Adds the energy of atoms i and j, e^(-2(r - 1)) - 2 e^(-(r - 1)), and the forces on them. */
static double add_pair(const float *xi, const float *xj, float *fi, float *fj)
{
    double r = 0;
    for (int k = 0; k < AXES; k++)
        r += (double)(xi[k] - xj[k]) * (double)(xi[k] - xj[k]);
    r = sqrt(r);
    double near = exp(1 - r), push = 2 * near * (near - 1);
    for (int k = 0; k < AXES; k++) {
        fi[k] += (float)(push * (double)(xi[k] - xj[k]) / r);
        fj[k] -= (float)(push * (double)(xi[k] - xj[k]) / r);
    }
    return near * near - 2 * near;
}

/* The corners of a tetrahedron with edges near 1.4, moved at random. */
static void draw_batch(float *x, float *energy, float *forces)
{
    static const float corners[ATOMS][AXES] = {{0, 0, 0}, {1, 1, 0}, {1, 0, 1}, {0, 1, 1}};
    for (int b = 0; b < BATCH; b++, x += ATOMS * AXES, forces += ATOMS * AXES) {
        energy[b] = 0;
        for (int i = 0; i < ATOMS * AXES; i++) {
            x[i] = corners[i / AXES][i % AXES] + (float)(0.8 * uniform() - 0.4);
            forces[i] = 0;
        }
        for (int i = 0; i < ATOMS; i++)
            for (int j = 0; j < i; j++)
                energy[b] += (float)add_pair(x + i * AXES, x + j * AXES, forces + i * AXES, forces + j * AXES);
    }
}

/* ---- Training ---- */

enum { POSITIONS, ENERGY, FORCES, NUM_FEEDS };

static const char *const feed_names[NUM_FEEDS] = {"x", "target_energy", "target_forces"};

/* Root mean square error of the forces, relative to the forces: 1 is no better than predicting no forces. */
static double force_error(const flx_tensor *forces, const flx_tensor *target)
{
    double error = 0, size = 0;
    for (int64_t i = 0; i < flx_tensor_count(target); i++) {
        double f = flx_tensor_get(target, i), d = flx_tensor_get(forces, i) - f;
        error += d * d;
        size += f * f;
    }
    return sqrt(error / size);
}

/* The error of the forces of the last step, on configurations that were not seen before. */
static double train(flx_trainer *t, flx_tensor *const *in, flx_error *err)
{
    flx_feed feeds[NUM_FEEDS];
    double loss, error = INFINITY;
    for (int i = 0; i < NUM_FEEDS; i++)
        feeds[i] = (flx_feed){feed_names[i], in[i]};
    for (int step = 1; step <= STEPS; step++) {
        draw_batch(flx_tensor_data(in[POSITIONS]), flx_tensor_data(in[ENERGY]), flx_tensor_data(in[FORCES]));
        if (flx_trainer_step(t, feeds, NUM_FEEDS, &loss, err) != FLX_OK)
            return INFINITY;
        error = force_error(flx_trainer_output(t, "forces"), in[FORCES]);
        if (step == 1 || step % 50 == 0)
            printf("step %3d  loss %8.5f  error of forces %5.1f %%\n", step, loss, 100 * error);
    }
    return error;
}

static double train_compiled(flx_context *ctx, const flx_graph *loss, flx_trainer *t, flx_error *err)
{
    const flx_dim_binding batch = {"N", BATCH};
    flx_graph *sized = flx_specialise(loss, &batch, 1, err);
    flx_tensor *in[NUM_FEEDS] = {0};
    int made = 0;
    while (sized && made < NUM_FEEDS &&
           (in[made] = flx_tensor_new(ctx, flx_val_type(sized, flx_graph_find(sized, feed_names[made])), NULL, err)))
        made++;
    double error = INFINITY;
    if (made == NUM_FEEDS)
        error = train(t, in, err);
    for (int i = 0; i < NUM_FEEDS; i++)
        flx_tensor_release(in[i]);
    flx_graph_release(sized);
    return error;
}

int main(void)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *energy = build_energy(ctx, FLX_F32);
    const flx_force_options weights = {.energy_weight = 1, .force_weight = 10};
    flx_graph *loss = flx_force_energy_loss(energy, "x", &weights, &err);
    const flx_train_options adam = {.optimiser = FLX_ADAM, .rate = 0.01};
    const flx_dim_binding batch = {"N", BATCH};
    const flx_compile_options options = {.flags = FLX_COMPILE_FLUSH, .dims = &batch, .num_dims = 1};
    flx_trainer *t = loss ? flx_compile_training(loss, &adam, &options, &err) : NULL;
    double error = INFINITY;
    if (t)
        error = train_compiled(ctx, loss, t, &err);
    flx_trainer_free(t);
    flx_graph_release(loss);
    flx_graph_release(energy);
    flx_context_free(ctx);
    if (err.code)
        fprintf(stderr, "%s: %s\n", flx_code_name(err.code), err.message);
    return err.code || !(error < 0.2);
}
