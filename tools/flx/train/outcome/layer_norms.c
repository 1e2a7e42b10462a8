/* SPDX-License-Identifier: Apache-2.0 */
/* layer_norms.c: see layer_norms.h. */
#include "train/outcome/layer_norms.h"

#include "report.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LAYERS = 24, MAX_NAME = 100 };

/* The characters of a name that are its layer's. */
static int layer_length(const char *name)
{
    size_t n = strcspn(name, ".");
    return n < MAX_NAME ? (int)n : MAX_NAME;
}

/* Whether parameter i is the first one of its layer. */
static bool is_first(const flx_params *set, size_t i)
{
    const char *name = flx_params_name(set, i), *before = i ? flx_params_name(set, i - 1) : "";
    int n = layer_length(name);
    return !i || layer_length(before) != n || strncmp(before, name, (size_t)n) != 0;
}

static int count_layers(const flx_params *set)
{
    int n = 0;
    for (size_t i = 0; i < flx_params_count(set); i++)
        n += is_first(set, i);
    return n;
}

int layer_norms_add(const flx_trainer *t, int64_t step, flx_report *to)
{
    const flx_params *set = flx_trainer_params(t);
    flx_error err = {0};
    int layers = count_layers(set);
    for (size_t i = 0; layers > 1 && layers <= MAX_LAYERS && i < flx_params_count(set); i++) {
        const char *name = flx_params_name(set, i);
        char pattern[MAX_NAME + 8], series[MAX_NAME + 24];
        int n = layer_length(name);
        if (!is_first(set, i))
            continue;
        snprintf(pattern, sizeof pattern, "%.*s%s", n, name, name[n] ? ".*" : "");
        snprintf(series, sizeof series, "gradient norm/%.*s", n, name);
        double norm = flx_trainer_norm_of(t, pattern);
        if (isfinite(norm) && flx_report_add_value(to, series, step, norm, &err) != FLX_OK)
            return report(&err, NULL);
    }
    return STATUS_OK;
}
