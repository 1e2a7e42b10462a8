/* SPDX-License-Identifier: Apache-2.0 */
/* force_energy.c: the loss of a model of energies that is trained on forces too. Forces are minus the gradient of the
   energy with respect to the positions; that gradient is a graph, which becomes part of the loss, so that the gradient
   of the loss with respect to the parameters goes through it: reverse over reverse mode, at the cost of a few
   evaluations and without a Hessian.

   A batch of energies is summed before it is differentiated: each energy depends on its own positions only, so the
   gradient of the sum holds the forces of all. */
#include "autodiff/autodiff.h"
#include "base/options.h"

#include <math.h>

typedef struct {
    const flx_graph *energy;
    const char *positions;
    flx_force_options o;
    flx_error *err;
} force_work;

static flx_code check_real(const force_work *w, uint32_t id, const char *name)
{
    flxi_value_text text;
    if (flxi_is_float(flxi_type_at(w->energy, id)->dtype))
        return FLX_OK;
    return flxi_fail_hint(w->err, FLX_E_NOT_DIFFERENTIABLE, "energies and positions are real floating numbers",
                          "forces are not defined for %s", flxi_value_str(w->energy, id, name, &text));
}

static flx_code read_options(force_work *w, const flx_force_options *given)
{
    FLXI_TRY(FLXI_READ_OPTIONS(flx_force_options, &w->o, given, w->err));
    if (w->o.energy_weight == 0 && w->o.force_weight == 0)
        w->o.energy_weight = w->o.force_weight = 1;
    return FLX_OK;
}

static flx_code check_work(const force_work *w)
{
    FLXI_TRY(flx_graph_error(w->energy, w->err));
    if (!w->positions || !w->energy->outputs.n)
        return flxi_fail(w->err, FLX_E_USAGE,
                         "flx_force_energy_loss: a graph with an output and the name of an input are needed");
    if (w->o.flags)
        return flxi_fail(w->err, FLX_E_USAGE, "flx_force_energy_loss: unknown flags 0x%x", (unsigned)w->o.flags);
    double e = w->o.energy_weight, f = w->o.force_weight;
    if (!(e >= 0 && f >= 0 && isfinite(e + f) && e + f > 0))
        return flxi_fail_hint(w->err, FLX_E_USAGE, "weights must be finite and nonnegative; both 0 stand for 1 and 1",
                              "flx_force_energy_loss: the weights are %g and %g", e, f);
    size_t leaf;
    if (!flxi_find_leaf(w->energy, w->positions, &leaf))
        return flxi_no_input(w->err, w->energy, w->positions);
    FLXI_TRY(check_real(w, w->energy->leaves.at[leaf], w->positions));
    return check_real(w, w->energy->outputs.at[0].val, w->energy->outputs.at[0].name);
}

/* A new graph with the leaves of `body`, and in it the values of body's outputs; NULL with the error in err. */
static flx_graph *around(const flx_graph *body, flx_graph *g, flx_val *out, size_t n, flx_error *err)
{
    if (!g)
        flxi_oom(err, "the loss of energies");
    else if (flx_inline(g, body, NULL, 0, out, n) || flxi_built(g, err) == FLX_OK)
        return g;
    flx_graph_release(g);
    return NULL;
}

/* Outputs: the energy and its gradient with respect to the positions. */
static flx_graph *energy_and_slope(const force_work *w)
{
    flx_val e;
    flx_graph *sum = around(w->energy, flx_graph_new(w->energy->ctx, w->energy->name), &e, 1, w->err);
    flx_graph *out = NULL;
    if (!sum)
        return NULL;
    flx_output(sum, flx_reduce_sum(sum, e, FLX_ALL, 0), NULL);
    flx_output(sum, e, NULL);
    if (flxi_built(sum, w->err) == FLX_OK)
        out = flx_grad(sum, &w->positions, 1, NULL, w->err);
    flx_graph_release(sum);
    return out;
}

/* weight * mean((y - target)^2) as a number of the given dtype; the target becomes an input. */
static flx_val term(flx_graph *g, flx_val y, const char *target, double weight, flx_dtype dtype)
{
    const flx_type *type = flx_val_type(g, y);
    if (!type)
        return FLX_NONE;
    flx_val mean = flx_reduce_mean(g, flx_square(g, flx_sub(g, y, flxi_new_leaf(g, target, "", type))), FLX_ALL, 0);
    if (type->dtype != (int32_t)dtype)
        mean = flx_cast(g, mean, dtype);
    return weight == 1 ? mean : flx_mul(g, mean, flx_scalar(g, dtype, weight));
}

static flx_graph *write_loss(const force_work *w, const flx_graph *body)
{
    bool has_forces = w->o.force_weight > 0;
    flx_val at[2] = {FLX_NONE, FLX_NONE}, loss = FLX_NONE, forces = FLX_NONE;
    flx_graph *g = around(body, flxi_derived_graph(w->energy, "force_energy_loss"), at, has_forces ? 2 : 1, w->err);
    if (!g)
        return NULL;
    const flx_type *type = flx_val_type(g, at[0]);
    flx_dtype dtype = type ? (flx_dtype)type->dtype : FLX_F32;
    if (w->o.energy_weight > 0)
        loss = term(g, at[0], "target_energy", w->o.energy_weight, dtype);
    if (has_forces) {
        forces = flx_neg(g, at[1]);
        flx_val part = term(g, forces, "target_forces", w->o.force_weight, dtype);
        loss = flxi_is_none(loss) ? part : flx_add(g, loss, part);
    }
    flx_output(g, loss, "loss");
    flx_output(g, at[0], "energy");
    if (has_forces)
        flx_output(g, forces, "forces");
    return flxi_finish(&g, w->err) == FLX_OK ? g : NULL;
}

flx_graph *flx_force_energy_loss(const flx_graph *energy, const char *positions, const flx_force_options *options,
                                 flx_error *err)
{
    flx_error local = {0};
    force_work w = {.energy = energy, .positions = positions, .err = &local};
    flx_graph *out = NULL;
    if (read_options(&w, options) == FLX_OK && check_work(&w) == FLX_OK) {
        flx_graph *slope = w.o.force_weight > 0 ? energy_and_slope(&w) : NULL;
        if (slope || w.o.force_weight == 0)
            out = write_loss(&w, slope ? slope : energy);
        flx_graph_release(slope);
    }
    flxi_without_options(&local);
    return flxi_transformed(out, energy, "force_energy_loss", &local, err);
}
