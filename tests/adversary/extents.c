/* SPDX-License-Identifier: Apache-2.0 */
/* extents.c: see extents.h; and graphs that are compiled once. */
#include "extents.h"

#include "adversary.h"
#include "compile/error_bound.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RESULTS = 32, EXTENTS = 4 };

/* ---- Values ---- */

static flx_tensor *some_value(flx_context *ctx, const flx_type *type, uint64_t *state)
{
    bool is_complex = type->dtype == FLX_C64 || type->dtype == FLX_C128;
    bool is_whole = type->dtype >= FLX_I64;
    flx_type wide = *type;
    wide.dtype = is_complex ? FLX_C128 : FLX_F64;
    flx_tensor *w = flx_tensor_new(ctx, &wide, NULL, NULL);
    CHECK(w);
    for (int64_t i = 0; i < flx_tensor_count(w) * (is_complex ? 2 : 1); i++) {
        double u = test_uniform(state);
        ((double *)flx_tensor_data(w))[i] = is_whole ? floor(2 * u) : 2.4 * u - 1.2;
    }
    flx_tensor *t = flx_tensor_cast(w, (flx_dtype)type->dtype, NULL);
    CHECK(t);
    flx_tensor_release(w);
    return t;
}

/* ---- Comparing ---- */

static double number_at(const flx_tensor *t, int64_t i)
{
    return ((const double *)flx_tensor_const_data(t))[i];
}

/* Numbers of a tensor in double precision: two for a complex element: the width. */
static flx_tensor *as_numbers(const flx_tensor *t, int64_t *width)
{
    int32_t dtype = flx_tensor_type(t)->dtype;
    *width = dtype == FLX_C64 || dtype == FLX_C128 ? 2 : 1;
    flx_tensor *wide = flx_tensor_cast(t, *width == 2 ? FLX_C128 : FLX_F64, NULL);
    CHECK(wide);
    return wide;
}

static void compare(const flx_tensor *expected, const flx_tensor *found, const double *noise, size_t output)
{
    int64_t width, n = flx_tensor_count(expected);
    int32_t dtype = flx_tensor_type(expected)->dtype;
    CHECK_MSG(flx_tensor_nbytes(expected) == flx_tensor_nbytes(found), "output %zu has another size", output);
    flx_tensor *a = as_numbers(expected, &width), *b = as_numbers(found, &width);
    for (int64_t i = 0; i < n * width; i++) {
        double x = number_at(a, i), y = number_at(b, i), size = isfinite(x) ? fabs(x) : 0;
        if (width == 2)
            size = hypot(number_at(a, i / 2 * 2), number_at(a, i / 2 * 2 + 1));
        double bound = element_bound(dtype, isfinite(size) ? size : 0) + (noise ? noise[i / width] : 0);
        bool same = x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= bound;
        CHECK_MSG(same, "output %zu, number %lld: %.17g instead of %.17g, the bound is %g", output, (long long)i, y, x,
                  bound);
    }
    flx_tensor_release(a);
    flx_tensor_release(b);
}

/* ---- One extent ---- */

typedef struct {
    const subject *s;
    extent_run run;
    void *user;
    uint64_t state;
} trial;

static void release_all(flx_tensor **t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(t[i]);
}

static void compare_all(trial *t, const flx_graph *bound, flx_tensor **values, const flx_feed *feeds, size_t n,
                        const flx_dim_binding *dim)
{
    flx_tensor *expected[MAX_RESULTS], *found[MAX_RESULTS];
    double *noise[MAX_RESULTS] = {0};
    flx_error err = {0};
    size_t outputs = flx_graph_output_count(bound);
    flx_code code = flx_run(bound, ON_REF, feeds, n, expected, &err);
    bool declined = false;
    flx_code other = t->run(t->user, bound, dim, feeds, n, found, &declined, &err);
    CHECK_MSG(other != FLX_E_INTERNAL && (code != FLX_OK || other == FLX_OK || declined), "%s: %s",
              flx_code_name(other), err.message);
    if (code == FLX_OK && other == FLX_OK) {
        noise_bounds(bound, values, expected, noise);
        for (size_t i = 0; i < outputs; i++)
            compare(expected[i], found[i], noise[i], i);
        for (size_t i = 0; i < outputs; i++)
            free(noise[i]);
    }
    if (code == FLX_OK)
        release_all(expected, outputs);
    if (other == FLX_OK)
        release_all(found, outputs);
}

/* With the subject's own values where the extent is its own: there no kink is near. */
static void try_extent(trial *t, int64_t extent)
{
    const subject *s = t->s;
    flx_dim_binding dim = {s->dims[0].name, extent};
    flx_tensor *values[RANDOM_MAX_INPUTS];
    flx_feed feeds[RANDOM_MAX_INPUTS];
    flx_error err = {0};
    flx_graph *bound = flx_specialise(s->g, &dim, 1, &err);
    test_fail_context("%s = %lld", dim.name, (long long)extent);
    if (!bound) { /* a shape that does not fit */
        CHECK_MSG(err.code != FLX_E_INTERNAL, "%s", err.message);
        return;
    }
    size_t n = flx_graph_input_count(bound);
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(bound, i);
        values[i] = extent == s->dims[0].extent ? flx_tensor_retain(s->in[i].x)
                                                : some_value(s->ctx, flx_val_type(bound, v), &t->state);
        feeds[i] = (flx_feed){flx_val_name(bound, v), values[i]};
    }
    if (flx_graph_output_count(bound) <= MAX_RESULTS)
        compare_all(t, bound, values, feeds, n, &dim);
    release_all(values, n);
    flx_graph_release(bound);
}

/* One graph in four has a symbol. */
bool symbolic_subject(subject *s, uint64_t seed, flx_module **module)
{
    for (uint64_t k = 0; k < 24; k++) {
        uint64_t own = seed * 24 + k;
        if (!(own % 3 ? random_subject : random_control_subject)(s, own, module))
            continue;
        if (s->num_dims)
            return true;
        random_subject_free(s, *module);
    }
    return false;
}

void try_extents(const subject *s, uint64_t seed, extent_run run, void *user)
{
    trial t = {s, run, user, seed};
    try_extent(&t, s->dims[0].extent);
    for (int i = 0; i < EXTENTS; i++)
        try_extent(&t, 1 + (int64_t)(test_random(&t.state) % 9));
    try_extent(&t, s->dims[0].extent);
}

/* ---- Compiled once ---- */

static flx_code run_compiled(void *user, const flx_graph *bound, const flx_dim_binding *dim, const flx_feed *feeds,
                             size_t n, flx_tensor **out, bool *declined, flx_error *err)
{
    (void)bound;
    (void)declined;
    flx_run_options o = {.dims = dim, .num_dims = 1};
    return flx_exec_run(user, &o, feeds, n, out, err);
}

void attack_extents(uint64_t seed)
{
    static const uint32_t flags[] = {0, 0, FLX_COMPILE_UNGROUPED, FLX_COMPILE_SCALAR, FLX_COMPILE_INTERPRET};
    subject s;
    flx_module *module;
    flx_error err = {0};
    if (!symbolic_subject(&s, seed, &module))
        return;
    flx_compile_options o = {.flags = flags[seed % 5], .device = "cpu", .threads = 1 + (int32_t)(seed / 5 % 2)};
    o.optimisation = 1;
    o.cache = FLX_CACHE_OFF;
    flx_exec *exec = flx_compile(s.g, &o, &err);
    CHECK_MADE(exec, &err);
    try_extents(&s, seed, run_compiled, exec);
    case_accepted();
    flx_exec_free(exec);
    random_subject_free(&s, module);
}
