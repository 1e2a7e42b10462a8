/* SPDX-License-Identifier: Apache-2.0 */
/* bound_strength.c: what the derived bounds (error_bound.h) are worth: without noise their evaluator is the
   reference, and a wrong factor is beyond them on nearly every sample. With FLX_TEST_EFFORT=full,report=1 it says on
   which it is not. */
#include "compile/error_bound.h"
#include "graph/op/eval.h"
#include "ops/sample.h"
#include "test.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OUTPUTS = 64 };

typedef struct {
    flx_context *ctx;
    flx_module *m;
    flx_graph *g;
    flx_tensor *values[SAMPLE_MAX_OPERANDS], *expected[MOST_OUTPUTS];
    size_t nin, nout;
} trial;

static flx_code run_trial(trial *t)
{
    flx_feed feeds[SAMPLE_MAX_OPERANDS];
    flx_error err = {0};
    for (size_t i = 0; i < t->nin; i++)
        feeds[i] = (flx_feed){flx_val_name(t->g, flx_graph_input(t->g, i)), t->values[i]};
    return flx_run(t->g, ON_REF, feeds, t->nin, t->expected, &err);
}

/* False where the sample must fail or is not for f32. */
static bool trial_begin(trial *t, const sample_case *c)
{
    flx_error err = {0};
    flx_dim_binding dims[8];
    size_t n = 0;
    uint64_t state = test_seed() + (uint64_t)c->op;
    *t = (trial){0};
    if (c->sample->error != FLX_OK || (c->dtype != FLX_F32 && c->dtype != FLX_DTYPE_NONE))
        return false;
    t->ctx = flx_context_new(NULL);
    t->m = sample_parse(t->ctx, c, &err);
    CHECK_MSG(t->m, "%s: %s", sample_describe(c), err.message);
    for (const char *s; n < 8 && (s = flx_graph_symbol(flx_module_main(t->m), n)) != NULL; n++)
        dims[n] = (flx_dim_binding){s, SAMPLE_EXTENT};
    t->g = flx_specialise(flx_module_main(t->m), dims, n, &err);
    CHECK_MSG(t->g, "%s: %s", sample_describe(c), err.message);
    t->nin = flx_graph_input_count(t->g);
    t->nout = flx_graph_output_count(t->g);
    CHECK(t->nout <= MOST_OUTPUTS);
    for (size_t i = 0; i < t->nin; i++) {
        const flx_type *type = flx_val_type(t->g, flx_graph_input(t->g, i));
        t->values[i] = sample_value(t->ctx, c, i, type, FILL_RANDOM, &state, &err);
        CHECK_MSG(t->values[i], "%s: %s", sample_describe(c), err.message);
    }
    return run_trial(t) == FLX_OK;
}

static void trial_end(trial *t)
{
    for (size_t i = 0; i < t->nin; i++)
        flx_tensor_release(t->values[i]);
    for (size_t i = 0; i < t->nout; i++)
        flx_tensor_release(t->expected[i]);
    flx_graph_release(t->g);
    flx_module_free(t->m);
    flx_context_free(t->ctx);
}

/* ---- Without noise ---- */

static void try_silence(const sample_case *c)
{
    trial t;
    flx_error err = {0};
    flx_tensor *out[MOST_OUTPUTS] = {0};
    if (trial_begin(&t, c)) {
        CHECK_OK(noisy_run(t.g, t.values, 0, out, &err), &err);
        for (size_t k = 0; k < t.nout; k++) {
            EXPECT_MSG(memcmp(flx_tensor_const_data(out[k]), flx_tensor_const_data(t.expected[k]),
                              flx_tensor_nbytes(out[k])) == 0,
                       "%s: output %zu", sample_describe(c), k);
            flx_tensor_release(out[k]);
        }
        test_count_case();
    }
    trial_end(&t);
}

TEST(bounds_without_noise_are_of_the_reference)
{
    sample_each(try_silence);
}

/* ---- A wrong factor ---- */

static const double wrong = 1e-5; /* 84 units of f32 */
static size_t tried, found;

/* Whether the result times 1 + wrong is beyond the bound somewhere. */
static bool is_found(const flx_tensor *y, const double *noise)
{
    int32_t dtype = flx_tensor_type(y)->dtype;
    for (int64_t i = 0; i < flx_tensor_count(y); i++) {
        double size = cabs(flxi_load_complex(dtype, flx_tensor_const_data(y), i));
        if (isfinite(size) && wrong * size > element_bound(dtype, size) + noise[i])
            return true;
    }
    return false;
}

static bool has_number(const flx_tensor *y)
{
    int32_t dtype = flx_tensor_type(y)->dtype;
    for (int64_t i = 0; i < flx_tensor_count(y); i++) {
        double size = cabs(flxi_load_complex(dtype, flx_tensor_const_data(y), i));
        if (size > 0 && isfinite(size))
            return true;
    }
    return false;
}

static void try_factor(const sample_case *c)
{
    trial t;
    double *bounds[MOST_OUTPUTS] = {0};
    if (trial_begin(&t, c)) {
        noise_bounds(t.g, t.values, t.expected, bounds);
        for (size_t k = 0; k < t.nout; k++) {
            int32_t dtype = flx_tensor_type(t.expected[k])->dtype;
            if ((dtype == FLX_F32 || dtype == FLX_C64) && has_number(t.expected[k])) {
                bool is_seen = is_found(t.expected[k], bounds[k]);
                tried++;
                found += is_seen;
                if (!is_seen && effort(EFFORT_report))
                    printf("not found: %s, output %zu\n", sample_describe(c), k);
            }
            free(bounds[k]);
        }
        test_count_case();
    }
    trial_end(&t);
}

TEST(bounds_find_a_wrong_factor)
{
    tried = found = 0;
    sample_each(try_factor);
    CHECK_MSG(found * 100 >= tried * 99, "a factor of 1 + %g is found in %zu of %zu results", wrong, found, tried);
}
