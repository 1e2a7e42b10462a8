/* SPDX-License-Identifier: Apache-2.0 */
/* optimiser.c: the optimisers, one row each. An update is a formula over ordinary values, written with primitive ops,
   so that it joins the end of the gradient's computation in one kernel and can itself be differentiated. */
#include "train/optimiser.h"

#include <fluxion/ops.h>
#include <math.h>

static flx_val number(const flxi_update *u, double value)
{
    return flx_scalar(u->g, u->dtype, value);
}

static flx_val scaled(const flxi_update *u, double factor, flx_val x)
{
    return flx_mul(u->g, number(u, factor), x);
}

static flx_val square(const flxi_update *u, flx_val x)
{
    return flx_mul(u->g, x, x);
}

/* decay x + (1 - decay) y. */
static flx_val average(const flxi_update *u, double decay, flx_val x, flx_val y)
{
    return flx_add(u->g, scaled(u, decay, x), scaled(u, 1 - decay, y));
}

/* p - rate along. */
static flx_val descend(const flxi_update *u, flx_val rate, flx_val along)
{
    return flx_sub(u->g, u->p, flx_mul(u->g, rate, along));
}

/* p - rate weight_decay p, for decay that is separate from the gradient. */
static void decay(flxi_update *u)
{
    u->p = descend(u, scaled(u, u->o->weight_decay, u->rate), u->p);
}

/* ---- Gradient descent and momentum ---- */

static flx_val update_sgd(flxi_update *u)
{
    return descend(u, u->rate, u->dp);
}

static flx_val update_momentum(flxi_update *u)
{
    flx_val m = flx_add(u->g, scaled(u, u->o->momentum, u->state[0]), u->dp);
    flx_val along = m;
    u->next[0] = m;
    if (u->o->flags & FLX_TRAIN_NESTEROV)
        along = flx_add(u->g, u->dp, scaled(u, u->o->momentum, m));
    return descend(u, u->rate, along);
}

static flx_val update_lion(flxi_update *u)
{
    flx_val along = flx_sign(u->g, average(u, u->o->beta1, u->state[0], u->dp));
    u->next[0] = average(u, u->o->beta2, u->state[0], u->dp);
    decay(u);
    return descend(u, u->rate, along);
}

/* ---- Adam and its relatives ---- */

/* 1 - beta^(t + later). Written as -expm1(t log beta): 1 - 0.999^1 in f32 would have lost four digits. */
static flx_val bias_correction(const flxi_update *u, double beta, double later)
{
    flx_val t = later > 0 ? flx_add(u->g, u->step, number(u, later)) : u->step;
    return flx_neg(u->g, flx_expm1(u->g, scaled(u, log(beta), t)));
}

static void next_moments(flxi_update *u)
{
    u->next[0] = average(u, u->o->beta1, u->state[0], u->dp);
    u->next[1] = average(u, u->o->beta2, u->state[1], square(u, u->dp));
}

/* sqrt(v / (1 - beta2^t)) + epsilon. */
static flx_val spread(const flxi_update *u)
{
    flx_val shrink = flx_reciprocal(u->g, flx_sqrt(u->g, bias_correction(u, u->o->beta2, 0)));
    return flx_add(u->g, flx_mul(u->g, flx_sqrt(u->g, u->next[1]), shrink), number(u, u->o->epsilon));
}

static flx_val update_adam(flxi_update *u)
{
    next_moments(u);
    flx_val rate = flx_div(u->g, u->rate, bias_correction(u, u->o->beta1, 0));
    return descend(u, rate, flx_div(u->g, u->next[0], spread(u)));
}

static flx_val update_adamw(flxi_update *u)
{
    decay(u);
    return update_adam(u);
}

/* The momentum of the next step is used already. */
static flx_val update_nadam(flxi_update *u)
{
    double b1 = u->o->beta1;
    next_moments(u);
    flx_val ahead = flx_div(u->g, scaled(u, b1, u->next[0]), bias_correction(u, b1, 1));
    flx_val now = flx_div(u->g, scaled(u, 1 - b1, u->dp), bias_correction(u, b1, 0));
    return descend(u, u->rate, flx_div(u->g, flx_add(u->g, ahead, now), spread(u)));
}

static flx_val norm_of(const flxi_update *u, flx_val x)
{
    return flx_sqrt(u->g, flx_reduce_sum(u->g, square(u, x), FLX_ALL, 0));
}

/* The step has the length of the parameter, times the rate. */
static flx_val update_lamb(flxi_update *u)
{
    flx_graph *g = u->g;
    next_moments(u);
    flx_val along = flx_div(g, flx_div(g, u->next[0], bias_correction(u, u->o->beta1, 0)), spread(u));
    along = flx_add(g, along, scaled(u, u->o->weight_decay, u->p));
    flx_val length = norm_of(u, u->p), step = norm_of(u, along), zero = number(u, 0), one = number(u, 1);
    flx_val is_usable = flx_and(g, flx_gt(g, length, zero), flx_gt(g, step, zero));
    flx_val trust = flx_where(g, is_usable, flx_div(g, length, flx_where(g, is_usable, step, one)), one);
    return descend(u, flx_mul(g, u->rate, trust), along);
}

/* ---- Sums of squares ---- */

static flx_val divided_by_root(const flxi_update *u, flx_val v)
{
    return flx_div(u->g, u->dp, flx_add(u->g, flx_sqrt(u->g, v), number(u, u->o->epsilon)));
}

static flx_val update_adagrad(flxi_update *u)
{
    u->next[0] = flx_add(u->g, u->state[0], square(u, u->dp));
    return descend(u, u->rate, divided_by_root(u, u->next[0]));
}

static flx_val update_rmsprop(flxi_update *u)
{
    u->next[0] = average(u, u->o->beta2, u->state[0], square(u, u->dp));
    return descend(u, u->rate, divided_by_root(u, u->next[0]));
}

/* A matrix keeps the mean squares of its rows and columns instead of one number for each element. */
static int adafactor_states(const flx_type *p, flxi_state *out)
{
    if (p->rank < 2) {
        out[0] = (flxi_state){"v", *p};
        return 1;
    }
    out[0] = (flxi_state){"rows", *p};
    out[0].type.dims[p->rank - 1] = 1;
    out[1] = (flxi_state){"columns", *p};
    out[1].type.dims[p->rank - 2] = 1;
    return 2;
}

/* x + weight (y - x). */
static flx_val towards(const flxi_update *u, flx_val x, flx_val y, flx_val weight)
{
    return flx_add(u->g, flx_mul(u->g, flx_sub(u->g, number(u, 1), weight), x), flx_mul(u->g, weight, y));
}

static flx_val root_mean_square(const flxi_update *u, flx_val x)
{
    return flx_sqrt(u->g, flx_reduce_mean(u->g, square(u, x), FLX_ALL, 0));
}

static flx_val factored_squares(flxi_update *u, flx_val weight, double tiny)
{
    flx_graph *g = u->g;
    int rank = flx_val_type(g, u->dp) ? flx_val_type(g, u->dp)->rank : 0;
    flx_val squares = square(u, u->dp);
    if (rank < 2)
        return u->next[0] = towards(u, u->state[0], squares, weight);
    u->next[0] = towards(u, u->state[0], flx_reduce_mean(g, squares, FLX_INTS(rank - 1), 1), weight);
    u->next[1] = towards(u, u->state[1], flx_reduce_mean(g, squares, FLX_INTS(rank - 2), 1), weight);
    flx_val mean = flx_reduce_mean(g, u->next[0], FLX_INTS(rank - 2), 1);
    return flx_div(g, flx_mul(g, u->next[0], u->next[1]), flx_max(g, mean, number(u, tiny)));
}

/* Shazeer and Stern, with the step relative to the size of the parameter and limited to a root mean square of 1. */
static flx_val update_adafactor(flxi_update *u)
{
    flx_graph *g = u->g;
    double tiny = u->dtype == FLX_F64 ? 0x1p-52 : 0x1p-23;
    flx_val weight = flx_pow(g, u->step, number(u, -0.8));
    flx_val v = factored_squares(u, weight, tiny);
    flx_val along = flx_mul(g, u->dp, flx_rsqrt(g, flx_max(g, v, number(u, tiny * tiny))));
    flx_val limit = flx_max(g, number(u, 1), root_mean_square(u, along));
    flx_val rate = flx_min(g, u->rate, flx_rsqrt(g, u->step));
    rate = flx_mul(g, rate, flx_max(g, number(u, u->o->epsilon), root_mean_square(u, u->p)));
    decay(u);
    return descend(u, flx_div(g, rate, limit), along);
}

/* ---- Muon ---- */

static bool is_matrix(const flx_type *p)
{
    return p->rank == 2;
}

static int muon_states(const flx_type *p, flxi_state *out)
{
    out[0] = (flxi_state){"m", *p};
    out[1] = (flxi_state){"v", *p};
    return is_matrix(p) ? 1 : 2;
}

/* Five iterations of Newton and Schulz bring all singular values near 1. They work on the smaller side. */
static flx_val orthogonalised(const flxi_update *u, flx_val x, bool is_tall)
{
    flx_graph *g = u->g;
    x = flx_div(g, x, flx_add(g, norm_of(u, x), number(u, 1e-7)));
    if (is_tall)
        x = flx_transpose(g, x, FLX_ALL);
    for (int k = 0; k < 5; k++) {
        flx_val a = flx_matmul(g, x, flx_transpose(g, x, FLX_ALL));
        flx_val b = flx_add(g, scaled(u, -4.7750, a), scaled(u, 2.0315, flx_matmul(g, a, a)));
        x = flx_add(g, scaled(u, 3.4445, x), flx_matmul(g, b, x));
    }
    return is_tall ? flx_transpose(g, x, FLX_ALL) : x;
}

static flx_val update_muon(flxi_update *u)
{
    const flx_type *type = flx_val_type(u->g, u->dp);
    if (!type || !is_matrix(type))
        return update_adamw(u);
    if (!flx_dim_is_static(type->dims[0]) || !flx_dim_is_static(type->dims[1])) {
        flxi_type_text text;
        flxi_graph_failf(u->g, FLX_E_UNBOUND_DIM, "bind them with flx_specialise()",
                         "muon needs matrices with static extents, but a parameter is %s",
                         flxi_type_str(u->g->ctx, type, &text));
        return u->p;
    }
    double rows = (double)type->dims[0], columns = (double)type->dims[1];
    u->next[0] = average(u, u->o->momentum, u->state[0], u->dp);
    flx_val along = average(u, u->o->momentum, u->next[0], u->dp);
    along = orthogonalised(u, along, rows > columns);
    decay(u);
    return descend(u, u->rate, scaled(u, 0.2 * sqrt(fmax(rows, columns)), along));
}

/* ---- The table ---- */

#define MOMENTS .num_state = 2, .state = {"m", "v"}, .counts_steps = true

static const flxi_optimiser optimisers[] = {
    [FLX_SGD] = {.name = "sgd", .rate = 0.01, .update = update_sgd},
    [FLX_MOMENTUM] = {.name = "momentum", .num_state = 1, .state = {"m"}, .rate = 0.01, .update = update_momentum},
    [FLX_ADAM] = {.name = "adam", MOMENTS, .rate = 0.001, .update = update_adam},
    [FLX_ADAMW] =
        {.name = "adamw", MOMENTS, .rate = 0.001, .weight_decay = 0.01, .decay_is_apart = true, .update = update_adamw},
    [FLX_NADAM] = {.name = "nadam", MOMENTS, .rate = 0.001, .update = update_nadam},
    [FLX_ADAGRAD] =
        {.name = "adagrad", .num_state = 1, .state = {"v"}, .rate = 0.01, .epsilon = 1e-10, .update = update_adagrad},
    [FLX_RMSPROP] =
        {.name = "rmsprop", .num_state = 1, .state = {"v"}, .rate = 0.01, .beta2 = 0.99, .update = update_rmsprop},
    [FLX_LION] = {.name = "lion",
                  .num_state = 1,
                  .state = {"m"},
                  .rate = 0.0001,
                  .beta2 = 0.99,
                  .decay_is_apart = true,
                  .update = update_lion},
    [FLX_ADAFACTOR] = {.name = "adafactor",
                       .states = adafactor_states,
                       .counts_steps = true,
                       .rate = 0.01,
                       .epsilon = 0.001,
                       .decay_is_apart = true,
                       .update = update_adafactor},
    [FLX_LAMB] =
        {.name = "lamb", MOMENTS, .rate = 0.001, .epsilon = 1e-6, .decay_is_apart = true, .update = update_lamb},
    [FLX_MUON] = {.name = "muon",
                  .states = muon_states,
                  .counts_steps = true,
                  .rate = 0.001,
                  .momentum = 0.95,
                  .weight_decay = 0.1,
                  .decay_is_apart = true,
                  .update = update_muon},
};

enum { NUM_OPTIMISERS = sizeof optimisers / sizeof *optimisers };

const flxi_optimiser *flxi_optimiser_at(int32_t number)
{
    return number >= 0 && number < NUM_OPTIMISERS ? &optimisers[number] : NULL;
}

int flxi_optimiser_states(const flxi_optimiser *row, const flx_type *p, flxi_state *out)
{
    if (row->states)
        return row->states(p, out);
    for (int k = 0; k < row->num_state; k++)
        out[k] = (flxi_state){row->state[k], *p};
    return row->num_state;
}

const char *flx_optimiser_name(int32_t optimiser)
{
    const flxi_optimiser *row = flxi_optimiser_at(optimiser);
    return row ? row->name : NULL;
}

int32_t flx_optimiser_find(const char *name)
{
    for (int32_t i = 0; name && i < NUM_OPTIMISERS; i++)
        if (strcmp(optimisers[i].name, name) == 0)
            return i;
    return -1;
}
