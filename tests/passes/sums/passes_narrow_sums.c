/* SPDX-License-Identifier: Apache-2.0 */
/* passes_narrow_sums.c: sums that are read in parts, and those that stay whole; bits do not change. */
#include "graph/count_nodes.h"
#include "passes/pass.h"
#include "passes/pass_case.h"
#include "test.h"

static const struct {
    const char *text;
    size_t adds; /* that are left */
} rows[] = {
    /* a bias along the axis, along the other one, and for all */
    {"graph g(a: f64[4, 6], b: f64[6]) { y = add(a, b)\n"
     "  return narrow(y, axis=1, start=0, len=2), narrow(y, axis=1, start=2, len=4) }",
     2},
    {"graph g(a: f64[4, 6], b: f64[4, 1]) { y = add(b, a)\n"
     "  return narrow(y, axis=1, start=1, len=2), narrow(y, axis=1, start=3, len=1), narrow(y, axis=0, start=3, len=1) "
     "}",
     3},
    {"graph g(a: f64[4, 6], b: f64[]) { y = add(a, b)\n"
     "  return narrow(y, axis=0, start=0, len=2), narrow(y, axis=0, start=2, len=2) }",
     2},
    /* read once, read whole, and in parts that overlap too much */
    {"graph g(a: f64[4, 6], b: f64[6]) { return narrow(add(a, b), axis=1, start=0, len=2) }", 1},
    {"graph g(a: f64[4, 6], b: f64[6]) { y = add(a, b)\n"
     "  return narrow(y, axis=1, start=0, len=2), narrow(y, axis=1, start=2, len=4), neg(y) }",
     1},
    {"graph g(a: f64[4, 6], b: f64[6]) { y = add(a, b)\n"
     "  return narrow(y, axis=1, start=0, len=2), narrow(y, axis=1, start=2, len=4), y }",
     1},
    {"graph g(a: f64[4, 6], b: f64[6]) { y = add(a, b)\n"
     "  return narrow(y, axis=1, start=0, len=5), narrow(y, axis=1, start=1, len=5) }",
     1},
};

TEST(narrow_sums_that_are_read_in_parts)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        flx_graph *narrowed = NULL, *clean = NULL;
        pass_case c = pass_case_begin(rows[i].text);
        CHECK_OK(flxi_pass_narrow_sums(c.g, &narrowed, NULL, &err), &err);
        CHECK_OK(flxi_pass_dce(narrowed, &clean, NULL, &err), &err);
        EXPECT_MSG(count_nodes(clean, "add") == rows[i].adds, "%zu sums", count_nodes(clean, "add"));
        pass_case_same_bits(&c, clean);
        flx_graph_release(narrowed);
        flx_graph_release(clean);
        pass_case_end(&c);
    }
}
