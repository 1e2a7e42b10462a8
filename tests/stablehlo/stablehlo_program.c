/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_program.c: see stablehlo_program.h. */
#include "stablehlo/stablehlo_program.h"

#include "graph/graph.h"
#include "graph/op/eval.h"

#include <fluxion/run.h>
#include <fluxion/stablehlo.h>
#include <fluxion/tensor.h>
#include <fluxion/text.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char outcome[20000];

static void say(const char *fmt, ...) FLX_PRINTF(1, 2);
static void say(const char *fmt, ...)
{
    size_t n = strlen(outcome);
    va_list args;
    va_start(args, fmt);
    vsnprintf(outcome + n, sizeof outcome - n, fmt, args);
    va_end(args);
}

static flx_tensor *counting(flx_context *ctx, const flx_type *type, const flx_dim_binding *dims, size_t num_dims)
{
    flx_error err = {0};
    flx_type t = *type;
    for (int i = 0; i < t.rank; i++)
        t.dims[i] = flxi_dim_bind(ctx, t.dims[i], dims, num_dims, &err);
    flx_tensor *x = flx_tensor_new(ctx, &t, NULL, &err);
    CHECK_MSG(x != NULL, "%s", err.message);
    for (int64_t i = 0; i < flx_tensor_count(x); i++)
        flxi_store_int(t.dtype, flx_tensor_data(x), i, t.dtype == FLX_BOOL ? (i + 1) % 2 : i + 1);
    return x;
}

static void show(flx_context *ctx, const flx_tensor *t)
{
    char type[160];
    flx_type_print(ctx, flx_tensor_type(t), type, sizeof type);
    say("%s%s", outcome[0] ? "\n" : "", type);
    for (int64_t i = 0; i < flx_tensor_count(t); i++)
        say(" %g", flx_tensor_get(t, i));
}

static void fail_with(const flx_error *err)
{
    outcome[0] = 0;
    say("%s: %s at %s", flx_code_name(err->code), err->message, err->where);
}

static void run(flx_context *ctx, const flx_graph *g, const flx_run_options *how)
{
    enum { MAX_VALUES = 16 };
    flx_feed feeds[MAX_VALUES];
    flx_tensor *outputs[MAX_VALUES] = {NULL};
    flx_error err = {0};
    size_t n = flx_graph_input_count(g);
    CHECK(n <= MAX_VALUES && flx_graph_output_count(g) <= MAX_VALUES);
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(g, i);
        feeds[i] = (flx_feed){flx_val_name(g, v), counting(ctx, flx_val_type(g, v), how->dims, how->num_dims)};
    }
    if (flx_run(g, how, feeds, n, outputs, &err) != FLX_OK)
        fail_with(&err);
    for (size_t i = 0; i < flx_graph_output_count(g) && err.code == FLX_OK; i++)
        show(ctx, outputs[i]);
    for (size_t i = 0; i < MAX_VALUES; i++)
        flx_tensor_release(outputs[i]);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
}

const char *program_outcome(const char *text, const char *device, const int64_t *extents, size_t num_extents)
{
    flx_error err = {0};
    flx_dim_binding dims[16];
    outcome[0] = 0;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_import_stablehlo(ctx, text, strlen(text), "t", &err);
    const flx_graph *g = m ? flx_module_main(m) : NULL;
    flx_run_options how = {.struct_size = sizeof how, .device = device, .dims = dims};
    for (const char *name; g && num_extents && (name = flx_graph_symbol(g, how.num_dims)); how.num_dims++)
        dims[how.num_dims] =
            (flx_dim_binding){name, extents[how.num_dims < num_extents ? how.num_dims : num_extents - 1]};
    if (g)
        run(ctx, g, &how);
    else
        fail_with(&err);
    flx_module_free(m);
    flx_context_free(ctx);
    return outcome;
}

void expect_program(const char *text, const int64_t *extents, size_t num_extents, const char *expected)
{
    static const char *const devices[] = {"ref", "cpu"};
    static const char rest[] = "…";
    size_t n = strlen(expected);
    bool is_start = n >= sizeof rest - 1 && strcmp(expected + n - (sizeof rest - 1), rest) == 0;
    test_count_case();
    for (size_t i = 0; i < 2; i++) {
        const char *got = program_outcome(text, devices[i], extents, num_extents);
        bool same = is_start ? strncmp(got, expected, n - (sizeof rest - 1)) == 0 : strcmp(got, expected) == 0;
        EXPECT_MSG(same, "%s on %s gives\n%s\nexpected\n%s", text, devices[i], got, expected);
    }
}
