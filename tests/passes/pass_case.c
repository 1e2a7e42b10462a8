/* SPDX-License-Identifier: Apache-2.0 */
/* pass_case.c: see pass_case.h. */
#include "passes/pass_case.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { MOST_VALUES = 4 }; /* inputs, and outputs */

pass_case pass_case_begin(const char *text)
{
    flx_error err = {0};
    pass_case c = {.ctx = flx_context_new(NULL)};
    test_fail_context("%s", text);
    c.m = flx_parse(c.ctx, text, strlen(text), "row", &err);
    CHECK_MADE(c.m, &err);
    c.g = flx_module_main(c.m);
    return c;
}

void pass_case_end(pass_case *c)
{
    flx_module_free(c->m);
    flx_context_free(c->ctx);
    test_count_case();
}

/* Floats in [-0.3, 0.3], and integers that are positions of small tensors, some of them twice. */
static void fill(flx_tensor *t, size_t input)
{
    void *data = flx_tensor_data(t);
    for (int64_t k = 0; k < flx_tensor_count(t); k++) {
        double value = 0.3 * sin((double)(k + 1) * (double)(input + 2));
        switch (flx_tensor_type(t)->dtype) {
        case FLX_F64: ((double *)data)[k] = value; break;
        case FLX_F32: ((float *)data)[k] = (float)value; break;
        case FLX_I32: ((int32_t *)data)[k] = (int32_t)(k % 2 * 5); break;
        default: FAIL("no values of this dtype");
        }
    }
}

static void run(const flx_graph *g, flx_tensor **out)
{
    flx_feed feeds[MOST_VALUES];
    flx_tensor *values[MOST_VALUES];
    flx_error err = {0};
    size_t inputs = flx_graph_input_count(g);
    CHECK(inputs <= MOST_VALUES && flx_graph_output_count(g) <= MOST_VALUES);
    for (size_t i = 0; i < inputs; i++) {
        flx_val v = flx_graph_input(g, i);
        values[i] = flx_tensor_new(flx_graph_context(g), flx_val_type(g, v), NULL, &err);
        CHECK_MADE(values[i], &err);
        fill(values[i], i);
        feeds[i] = (flx_feed){flx_val_name(g, v), values[i]};
    }
    CHECK_OK(flx_run(g, ON_REF, feeds, inputs, out, &err), &err);
    for (size_t i = 0; i < inputs; i++)
        flx_tensor_release(values[i]);
}

static void check_bits(const flx_tensor *expected, const flx_tensor *found, size_t output)
{
    size_t bytes = flx_tensor_nbytes(expected);
    EXPECT_MSG(flx_tensor_nbytes(found) == bytes &&
                   memcmp(flx_tensor_const_data(expected), flx_tensor_const_data(found), bytes) == 0,
               "output %zu differs", output);
}

static void check_near(const flx_tensor *expected, const flx_tensor *found, size_t output, double tolerance)
{
    CHECK(flx_tensor_count(found) == flx_tensor_count(expected));
    for (int64_t e = 0; e < flx_tensor_count(found); e++) {
        double x = flx_tensor_get(expected, e), y = flx_tensor_get(found, e);
        CHECK_MSG(fabs(x - y) <= tolerance * (1 + fabs(x)), "output %zu: %g, not %g", output, y, x);
    }
}

/* A tolerance below 0: the same bits. */
static void compare(const pass_case *c, const flx_graph *changed, double tolerance)
{
    flx_tensor *expected[MOST_VALUES] = {0}, *found[MOST_VALUES] = {0};
    CHECK(flx_graph_output_count(changed) == flx_graph_output_count(c->g));
    run(c->g, expected);
    run(changed, found);
    for (size_t k = 0; k < flx_graph_output_count(c->g); k++) {
        if (tolerance < 0)
            check_bits(expected[k], found[k], k);
        else
            check_near(expected[k], found[k], k, tolerance);
        flx_tensor_release(expected[k]);
        flx_tensor_release(found[k]);
    }
}

void pass_case_same_bits(const pass_case *c, const flx_graph *changed)
{
    compare(c, changed, -1);
}

void pass_case_near(const pass_case *c, const flx_graph *changed, double tolerance)
{
    compare(c, changed, tolerance);
}
