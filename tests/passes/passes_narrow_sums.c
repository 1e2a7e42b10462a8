/* SPDX-License-Identifier: Apache-2.0 */
/* passes_narrow_sums.c: sums that are read in parts, and those that stay whole; bits do not change. */
#include "passes/pass.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <string.h>

enum { MOST_OUTPUTS = 3 };

static const struct {
    const char *text;
    size_t outputs, adds; /* that are left */
} rows[] = {
    /* a bias along the axis, along the other one, and for all */
    {"graph g(a: f64[4, 6], b: f64[6]) { y = add(a, b)\n"
     "  return narrow(y, axis=1, start=0, len=2), narrow(y, axis=1, start=2, len=4) }",
     2, 2},
    {"graph g(a: f64[4, 6], b: f64[4, 1]) { y = add(b, a)\n"
     "  return narrow(y, axis=1, start=1, len=2), narrow(y, axis=1, start=3, len=1), narrow(y, axis=0, start=3, len=1) "
     "}",
     3, 3},
    {"graph g(a: f64[4, 6], b: f64[]) { y = add(a, b)\n"
     "  return narrow(y, axis=0, start=0, len=2), narrow(y, axis=0, start=2, len=2) }",
     2, 2},
    /* read once, read whole, and in parts that overlap too much */
    {"graph g(a: f64[4, 6], b: f64[6]) { return narrow(add(a, b), axis=1, start=0, len=2) }", 1, 1},
    {"graph g(a: f64[4, 6], b: f64[6]) { y = add(a, b)\n"
     "  return narrow(y, axis=1, start=0, len=2), narrow(y, axis=1, start=2, len=4), neg(y) }",
     3, 1},
    {"graph g(a: f64[4, 6], b: f64[6]) { y = add(a, b)\n"
     "  return narrow(y, axis=1, start=0, len=2), narrow(y, axis=1, start=2, len=4), y }",
     3, 1},
    {"graph g(a: f64[4, 6], b: f64[6]) { y = add(a, b)\n"
     "  return narrow(y, axis=1, start=0, len=5), narrow(y, axis=1, start=1, len=5) }",
     2, 1},
};

static size_t count_adds(const flx_graph *g)
{
    size_t n = 0;
    flx_node_view v;
    for (size_t i = 0; flx_graph_node(g, i, &v) == FLX_OK; i++)
        n += strcmp(v.op, "add") == 0;
    return n;
}

static void run(const flx_graph *g, flx_tensor **out)
{
    flx_feed feeds[2];
    flx_error err = {0};
    for (size_t i = 0; i < 2; i++) {
        flx_val v = flx_graph_input(g, i);
        flx_tensor *t = flx_tensor_new(flx_graph_context(g), flx_val_type(g, v), NULL, &err);
        CHECK(t);
        for (int64_t k = 0; k < flx_tensor_count(t); k++)
            ((double *)flx_tensor_data(t))[k] = (double)((k * 7 + (int64_t)i * 3) % 11 - 5);
        feeds[i] = (flx_feed){flx_val_name(g, v), t};
    }
    flx_run_options o = {.device = "ref"};
    CHECK_OK(flx_run(g, &o, feeds, 2, out, &err), &err);
    for (size_t i = 0; i < 2; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
}

TEST(narrow_sums_that_are_read_in_parts)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        flx_module *m = flx_parse(ctx, rows[i].text, strlen(rows[i].text), "row", &err);
        CHECK_MSG(m, "%s: %s", rows[i].text, err.message);
        flx_graph *g = flx_module_main(m), *narrowed = NULL, *clean = NULL;
        CHECK_OK(flxi_pass_narrow_sums(g, &narrowed, NULL, &err), &err);
        CHECK_OK(flxi_pass_dce(narrowed, &clean, NULL, &err), &err);
        EXPECT_MSG(count_adds(clean) == rows[i].adds, "%s: %zu sums", rows[i].text, count_adds(clean));
        flx_tensor *want[MOST_OUTPUTS], *got[MOST_OUTPUTS];
        run(g, want);
        run(clean, got);
        for (size_t k = 0; k < rows[i].outputs; k++) {
            size_t bytes = (size_t)flx_tensor_count(want[k]) * sizeof(double);
            EXPECT_MSG(memcmp(flx_tensor_const_data(want[k]), flx_tensor_const_data(got[k]), bytes) == 0,
                       "%s: output %zu", rows[i].text, k);
            flx_tensor_release(want[k]);
            flx_tensor_release(got[k]);
        }
        flx_graph_release(narrowed);
        flx_graph_release(clean);
        flx_module_free(m);
        flx_context_free(ctx);
        test_count_case();
    }
}
