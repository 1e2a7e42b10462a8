/* SPDX-License-Identifier: Apache-2.0 */
/* train_options.c: the options of training: defaults, ranges, and what goes together. */
#include "train/train.h"

#include "base/options.h"
#include "train/optimiser.h"

#include <fluxion/mesh.h>
#include <math.h>

typedef struct {
    const char *name;
    double *value;
    double usual, limit; /* below `limit` */
} option_row;

static double either(double special, double general)
{
    return special > 0 ? special : general;
}

static flx_code check_numbers(flx_train_options *o, const flxi_optimiser *row, flx_error *err)
{
    const option_row rows[] = {
        {"rate", &o->rate, row->rate, INFINITY},
        {"momentum", &o->momentum, either(row->momentum, 0.9), 1},
        {"beta1", &o->beta1, either(row->beta1, 0.9), 1},
        {"beta2", &o->beta2, either(row->beta2, 0.999), 1},
        {"epsilon", &o->epsilon, either(row->epsilon, 1e-8), INFINITY},
        {"weight_decay", &o->weight_decay, row->weight_decay, INFINITY},
        {"clip_norm", &o->clip_norm, 0, INFINITY},
        {"clip_value", &o->clip_value, 0, INFINITY},
        {"ema", &o->ema, 0, 1},
        {"loss_scale", &o->loss_scale, 65536, 0x1p64},
        {"clip_example", &o->clip_example, 0, INFINITY},
        {"noise", &o->noise, 0, INFINITY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!(*rows[i].value >= 0 && *rows[i].value < rows[i].limit))
            return flxi_fail_hint(err, FLX_E_USAGE, "0 means the default", "training: %s=%g is out of range",
                                  rows[i].name, *rows[i].value);
        if (*rows[i].value == 0)
            *rows[i].value = rows[i].usual;
    }
    return FLX_OK;
}

static flx_code check_counts(flx_train_options *o, flx_error *err)
{
    const struct {
        const char *name;
        int64_t *value;
        int64_t usual, most;
    } rows[] = {
        {"accumulate", &o->accumulate, 1, 1 << 20},
        {"scale_interval", &o->scale_interval, 2000, 1 << 30},
        {"recompute", &o->recompute, 0, 1 << 20},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (*rows[i].value < 0 || *rows[i].value > rows[i].most)
            return flxi_fail_hint(err, FLX_E_USAGE, "0 means the default", "training: %s=%lld is out of range",
                                  rows[i].name, (long long)*rows[i].value);
        if (*rows[i].value == 0)
            *rows[i].value = rows[i].usual;
    }
    int exponent;
    if (frexp(o->loss_scale, &exponent) != 0.5)
        return flxi_fail(err, FLX_E_USAGE, "training: loss_scale=%g is not a power of two", o->loss_scale);
    return FLX_OK;
}

static flx_code check_groups(const flx_train_options *o, flx_error *err)
{
    if (o->num_groups && !o->groups)
        return flxi_fail(err, FLX_E_USAGE, "training: the list of groups is missing");
    for (size_t i = 0; i < o->num_groups; i++) {
        const flx_train_group *r = &o->groups[i];
        if (!r->pattern)
            return flxi_fail(err, FLX_E_USAGE, "training: group %zu has no pattern", i);
        if (r->reserved || r->flags & ~(uint32_t)(FLX_GROUP_FROZEN | FLX_GROUP_NO_DECAY))
            return flxi_fail(err, FLX_E_USAGE, "training: unknown flags 0x%x of the group '%.60s'", (unsigned)r->flags,
                             r->pattern);
        if (!(r->rate_factor >= 0 && r->rate_factor < INFINITY && r->weight_decay >= 0 && r->weight_decay < INFINITY))
            return flxi_fail_hint(err, FLX_E_USAGE, "0 means the default",
                                  "training: a number of the group '%.60s' is out of range", r->pattern);
    }
    return FLX_OK;
}

static flx_code check_flags(const flx_train_options *o, const flxi_optimiser *row, flx_error *err)
{
    const uint32_t known = FLX_TRAIN_NESTEROV | FLX_TRAIN_RATE_INPUT | FLX_TRAIN_MISSING_ZERO | FLX_TRAIN_UNGUARDED |
                           FLX_TRAIN_LOSS_SCALE | FLX_TRAIN_NORMS | FLX_TRAIN_BACKWARD_OPS;
    if (o->flags & ~known)
        return flxi_fail(err, FLX_E_USAGE, "training: unknown flags 0x%x", (unsigned)o->flags);
    if ((o->flags & FLX_TRAIN_NESTEROV) && o->optimiser != FLX_MOMENTUM)
        return flxi_fail_hint(err, FLX_E_USAGE, "use FLX_MOMENTUM", "training: %s has no Nesterov variant", row->name);
    if ((o->flags & FLX_TRAIN_LOSS_SCALE) && o->flags & FLX_TRAIN_UNGUARDED)
        return flxi_fail(err, FLX_E_USAGE, "training: FLX_TRAIN_LOSS_SCALE does not work with FLX_TRAIN_UNGUARDED");
    if (o->noise > 0 && !(o->clip_example > 0))
        return flxi_fail_hint(err, FLX_E_USAGE, "noise is relative to clip_example",
                              "training: noise without clip_example");
    return FLX_OK;
}

static flx_code check_mesh(const flx_train_options *o, flx_error *err)
{
    if (o->reserved2)
        return flxi_fail(err, FLX_E_USAGE, "training: reserved2 is %d, must be 0", (int)o->reserved2);
    if (o->zero < 0 || o->zero > 3)
        return flxi_fail_hint(err, FLX_E_USAGE, "0, 1, 2 or 3", "training: zero=%d is out of range", (int)o->zero);
    if (o->num_shardings && !o->shardings)
        return flxi_fail(err, FLX_E_USAGE, "training: the list of shardings is missing");
    if (!o->mesh && (o->num_shardings || o->zero))
        return flxi_fail_hint(err, FLX_E_USAGE, "such as \"data=4\"", "training: %s needs the mesh that is cut for",
                              o->zero ? "zero" : "a sharding");
    if (o->zero && !o->data_axis)
        return flxi_fail_hint(err, FLX_E_USAGE, "the axis of the mesh that batches are cut along",
                              "training: zero needs data_axis");
    for (size_t i = 0; i < o->num_shardings; i++)
        if (!o->shardings[i].name || !o->shardings[i].spec)
            return flxi_fail(err, FLX_E_USAGE, "training: sharding %zu has no name or no cuts", i);
    return FLX_OK;
}

static flx_code check_options(flx_train_options *o, flx_error *err)
{
    const flxi_optimiser *row = flxi_optimiser_at(o->optimiser);
    if (!row)
        return flxi_fail_hint(err, FLX_E_USAGE, "FLX_SGD … FLX_MUON", "training: unknown optimiser %d",
                              (int)o->optimiser);
    FLXI_TRY(check_numbers(o, row, err));
    FLXI_TRY(check_counts(o, err));
    FLXI_TRY(check_groups(o, err));
    FLXI_TRY(check_flags(o, row, err));
    if (o->reserved)
        return flxi_fail(err, FLX_E_USAGE, "training: reserved is %d, must be 0", (int)o->reserved);
    if (o->num_params && !o->params)
        return flxi_fail(err, FLX_E_USAGE, "training: the list of parameters is missing");
    FLXI_TRY(check_mesh(o, err));
    return o->schedule ? flx_graph_error(o->schedule, err) : FLX_OK;
}

flx_code flxi_train_options_read(flx_train_options *out, const flx_train_options *given, flx_error *err)
{
    FLXI_TRY(FLXI_READ_GROWN_OPTIONS(flx_train_options, groups, out, given, err));
    return check_options(out, err);
}

flxi_group flxi_group_of(const flx_train_options *o, const char *name)
{
    flxi_group group = {.rate_factor = 1, .weight_decay = o->weight_decay};
    for (size_t i = 0; i < o->num_groups; i++) {
        const flx_train_group *r = &o->groups[i];
        if (!flx_name_matches(r->pattern, name))
            continue;
        group.is_frozen = r->flags & FLX_GROUP_FROZEN;
        group.rate_factor = r->rate_factor > 0 ? r->rate_factor : 1;
        group.weight_decay = r->weight_decay > 0 ? r->weight_decay : o->weight_decay;
        if (r->flags & FLX_GROUP_NO_DECAY)
            group.weight_decay = 0;
    }
    return group;
}
