/* SPDX-License-Identifier: Apache-2.0 */
/* optimiser_setting.c: an optimiser takes the numbers that its formula has, and no others: a momentum that would be
   ignored is an error. */
#include "train/optimiser_setting.h"

#include "report.h"

#include <stdint.h>
#include <string.h>

enum { MAX_NAMES = 32 };

enum { MOMENTUM = 1, BETA1 = 2, BETA2 = 4, EPSILON = 8, NESTEROV = 16, MOMENTS = BETA1 | BETA2 | EPSILON };

static const uint8_t numbers_of[] = {
    [FLX_SGD] = 0,
    [FLX_MOMENTUM] = MOMENTUM | NESTEROV,
    [FLX_ADAM] = MOMENTS,
    [FLX_ADAMW] = MOMENTS,
    [FLX_NADAM] = MOMENTS,
    [FLX_ADAGRAD] = EPSILON,
    [FLX_RMSPROP] = BETA2 | EPSILON,
    [FLX_LION] = BETA1 | BETA2,
    [FLX_ADAFACTOR] = EPSILON,
    [FLX_LAMB] = MOMENTS,
    [FLX_MUON] = MOMENTS | MOMENTUM, /* moments: of parameters that are not matrices */
};

/* Optimisers of other programs that have another name here, or take no batches. */
static const struct {
    const char *theirs, *hint;
} other_names[] = {
    {"lbfgs", "it takes all data at once: flx_minimise() in C (docs/training.md)"},
    {"newton", "it takes all data at once: flx_minimise() in C (docs/training.md)"},
    {"gauss_newton", "it takes all data at once: flx_minimise() in C (docs/training.md)"},
    {"nesterov", "write momentum(nesterov=true)"},
};

static int unknown_optimiser(const settings *s, const setting *o)
{
    const char *names[MAX_NAMES];
    size_t n = 0;
    for (size_t i = 0; o->text && i < sizeof other_names / sizeof *other_names; i++)
        if (strcmp(o->text, other_names[i].theirs) == 0) {
            int status = settings_fail(s, o, "unknown optimiser '%s'", o->text);
            hint("%s", other_names[i].hint);
            return status;
        }
    while (n < MAX_NAMES && flx_optimiser_name((int32_t)n)) {
        names[n] = flx_optimiser_name((int32_t)n);
        n++;
    }
    return settings_unknown(s, o, "optimiser", names, n);
}

static int read_numbers(settings *s, setting *o, unsigned takes, flx_train_options *t)
{
    const struct {
        unsigned which;
        const char *name;
        double most;
        double *value;
    } rows[] = {{MOMENTUM, "momentum", SETTINGS_BELOW_1, &t->momentum},
                {BETA1, "beta1", SETTINGS_BELOW_1, &t->beta1},
                {BETA2, "beta2", SETTINGS_BELOW_1, &t->beta2},
                {EPSILON, "epsilon", 1, &t->epsilon}};
    int status = settings_number(s, o, "rate", SETTINGS_ABOVE_0, 1e6, &t->rate);
    for (size_t i = 0; !status && i < sizeof rows / sizeof *rows; i++)
        if (takes & rows[i].which)
            status = settings_number(s, o, rows[i].name, SETTINGS_ABOVE_0, rows[i].most, rows[i].value);
    return status;
}

int optimiser_setting_read(settings *s, flx_train_options *t, bool *has_no_decay)
{
    setting *o = settings_take(&s->root, "optimiser");
    bool nesterov = false;
    double decay = -1; /* not said */
    t->optimiser = FLX_ADAMW;
    if (!o)
        return 0;
    if (o->kind == SETTING_CALL || o->kind == SETTING_TEXT)
        t->optimiser = flx_optimiser_find(o->text);
    if (t->optimiser < 0 || (o->kind != SETTING_CALL && o->kind != SETTING_TEXT))
        return unknown_optimiser(s, o);
    unsigned takes = numbers_of[t->optimiser];
    int status = read_numbers(s, o, takes, t);
    if (!status)
        status = settings_number(s, o, "weight_decay", 0, 1e6, &decay);
    *has_no_decay = decay == 0;
    t->weight_decay = decay > 0 ? decay : 0;
    if (!status && takes & NESTEROV)
        status = settings_bool(s, o, "nesterov", &nesterov);
    t->flags |= nesterov ? FLX_TRAIN_NESTEROV : 0u;
    return status ? status : settings_check_taken(s, o);
}
