/* SPDX-License-Identifier: Apache-2.0 */
/* optimiser.c: the optimisers, one row each. An update is a formula over ordinary values, written with primitive ops,
   so that it joins the end of the gradient's computation in one kernel and can itself be differentiated. */
#include "train/train.h"

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

/* ---- Updates ---- */

static flx_val update_sgd(flxi_update *u)
{
    return flx_sub(u->g, u->p, flx_mul(u->g, u->rate, u->dp));
}

static flx_val update_momentum(flxi_update *u)
{
    flx_val m = flx_add(u->g, scaled(u, u->o->momentum, u->state[0]), u->dp);
    flx_val along = m;
    u->next[0] = m;
    if (u->o->flags & FLX_TRAIN_NESTEROV)
        along = flx_add(u->g, u->dp, scaled(u, u->o->momentum, m));
    return flx_sub(u->g, u->p, flx_mul(u->g, u->rate, along));
}

/* 1 - beta^t. Written as -expm1(t log beta): 1 - 0.999^1 in f32 would have lost four digits. */
static flx_val bias_correction(const flxi_update *u, double beta)
{
    return flx_neg(u->g, flx_expm1(u->g, scaled(u, log(beta), u->step)));
}

static flx_val update_adam(flxi_update *u)
{
    flx_graph *g = u->g;
    double b1 = u->o->beta1, b2 = u->o->beta2;
    flx_val m = flx_add(g, scaled(u, b1, u->state[0]), scaled(u, 1 - b1, u->dp));
    flx_val v = flx_add(g, scaled(u, b2, u->state[1]), scaled(u, 1 - b2, flx_mul(g, u->dp, u->dp)));
    flx_val rate = flx_div(g, u->rate, bias_correction(u, b1));
    flx_val shrink = flx_reciprocal(g, flx_sqrt(g, bias_correction(u, b2)));
    flx_val below = flx_add(g, flx_mul(g, flx_sqrt(g, v), shrink), number(u, u->o->epsilon));
    u->next[0] = m;
    u->next[1] = v;
    return flx_sub(g, u->p, flx_mul(g, rate, flx_div(g, m, below)));
}

static flx_val update_adamw(flxi_update *u)
{
    flx_val decay = scaled(u, u->o->weight_decay, u->rate);
    u->p = flx_sub(u->g, u->p, flx_mul(u->g, decay, u->p));
    return update_adam(u);
}

static const flxi_optimiser optimisers[] = {
    [FLX_SGD] = {.name = "sgd", .rate = 0.01, .update = update_sgd},
    [FLX_MOMENTUM] = {.name = "momentum", .num_state = 1, .state = {"m"}, .rate = 0.01, .update = update_momentum},
    [FLX_ADAM] = {.name = "adam",
                  .num_state = 2,
                  .state = {"m", "v"},
                  .counts_steps = true,
                  .rate = 0.001,
                  .update = update_adam},
    [FLX_ADAMW] = {.name = "adamw",
                   .num_state = 2,
                   .state = {"m", "v"},
                   .counts_steps = true,
                   .rate = 0.001,
                   .weight_decay = 0.01,
                   .decay_is_apart = true,
                   .update = update_adamw},
};

const flxi_optimiser *flxi_optimiser_at(int32_t number)
{
    return number >= 0 && (size_t)number < sizeof optimisers / sizeof *optimisers ? &optimisers[number] : NULL;
}

/* ---- Options ---- */

typedef struct {
    const char *name;
    double *value;
    double usual, limit; /* below `limit` */
} option_row;

flx_code flxi_train_options_check(const flx_train_options *given, flx_train_options *out, flx_error *err)
{
    *out = given ? *given : (flx_train_options){0};
    const flxi_optimiser *row = flxi_optimiser_at(out->optimiser);
    if (!row)
        return flxi_fail_hint(err, FLX_E_USAGE, "FLX_SGD, FLX_MOMENTUM, FLX_ADAM or FLX_ADAMW",
                              "training: unknown optimiser %d", (int)out->optimiser);
    const option_row rows[] = {
        {"rate", &out->rate, row->rate, INFINITY},
        {"momentum", &out->momentum, 0.9, 1},
        {"beta1", &out->beta1, 0.9, 1},
        {"beta2", &out->beta2, 0.999, 1},
        {"epsilon", &out->epsilon, 1e-8, INFINITY},
        {"weight_decay", &out->weight_decay, row->weight_decay, INFINITY},
        {"clip_norm", &out->clip_norm, 0, INFINITY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!(*rows[i].value >= 0 && *rows[i].value < rows[i].limit))
            return flxi_fail_hint(err, FLX_E_USAGE, "0 means the default", "training: %s=%g is out of range",
                                  rows[i].name, *rows[i].value);
        if (*rows[i].value == 0)
            *rows[i].value = rows[i].usual;
    }
    if (out->flags &
        ~(uint32_t)(FLX_TRAIN_NESTEROV | FLX_TRAIN_RATE_INPUT | FLX_TRAIN_MISSING_ZERO | FLX_TRAIN_UNGUARDED))
        return flxi_fail(err, FLX_E_USAGE, "training: unknown flags 0x%x", (unsigned)out->flags);
    if ((out->flags & FLX_TRAIN_NESTEROV) && out->optimiser != FLX_MOMENTUM)
        return flxi_fail_hint(err, FLX_E_USAGE, "use FLX_MOMENTUM", "training: %s has no Nesterov variant", row->name);
    if (out->reserved)
        return flxi_fail(err, FLX_E_USAGE, "training: reserved is %d, must be 0", (int)out->reserved);
    if (out->num_params && !out->params)
        return flxi_fail(err, FLX_E_USAGE, "training: the list of parameters is missing");
    return FLX_OK;
}
