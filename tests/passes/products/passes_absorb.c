/* SPDX-License-Identifier: Apache-2.0 */
/* passes_absorb.c: transposes that products absorb, and those that must stay. */
#include "graph/count_nodes.h"
#include "passes/pass.h"
#include "passes/pass_case.h"
#include "test.h"

#include <string.h>

static const struct {
    const char *text;
    size_t transposes; /* that are left */
} rows[] = {
    {"graph g(a: f64[4, 3], b: f64[4, 5]) { return matmul(transpose(a, perm=[1, 0]), b) }", 0},
    {"graph g(a: f64[3, 4], b: f64[5, 4]) { return matmul(a, transpose(b, perm=[1, 0])) }", 0},
    {"graph g(a: f64[4, 3], b: f64[5, 4]) { return matmul(transpose(a, perm=[1, 0]), transpose(b, perm=[1, 0])) }", 0},
    {"graph g(a: f64[3, 4], b: f64[4, 5]) { return transpose(matmul(a, b), perm=[1, 0]) }", 0},
    {"graph g(a: f64[4, 3], b: f64[4, 5]) { return transpose(matmul(transpose(a, perm=[1, 0]), b), perm=[1, 0]) }", 0},
    {"graph g(a: f64[2, 4, 3], b: f64[2, 4, 5]) { return matmul(transpose(a, perm=[0, 2, 1]), b) }", 0},
    {"graph g(a: f64[2, 3, 4], b: f64[2, 4, 5]) { return transpose(matmul(a, b), perm=[0, 2, 1]) }", 0},
    {"graph g(a: f64[4, 3], b: f64[4, 5]) { return transpose(dot_general(a, b, lc=[0], rc=[0]), perm=[1, 0]) }", 0},
    {"graph g(a: f64[2, 4, 3, 5], b: f64[4, 6, 2]) { y = dot_general(a, b, lc=[1], rc=[0], lb=[0], rb=[2])"
     " return transpose(y, perm=[0, 3, 1, 2]) }",
     0},
    /* Free axes of one operand exchanged as well. */
    {"graph g(a: f64[4, 3, 5], b: f64[4, 6]) { y = dot_general(a, b, lc=[0], rc=[0])"
     " return transpose(y, perm=[2, 1, 0]) }",
     1},
    /* dot_general: the sides change places, operands are read as stored, chains of transposes too */
    {"graph g(a: f64[4, 3, 2], b: f64[4, 5]) { return transpose(dot_general(a, b, lc=[0], rc=[0]), perm=[2, 0, 1]) }",
     0},
    {"graph g(a: f64[2, 4, 3], b: f64[5, 2, 4]) {\n"
     "  return transpose(dot_general(a, b, lc=[1], rc=[2], lb=[0], rb=[1]), perm=[0, 2, 1]) }",
     0},
    {"graph g(a: f64[3, 2, 4], b: f64[2, 4, 5]) {\n"
     "  return dot_general(transpose(a, perm=[1, 2, 0]), b, lc=[1], rc=[1], lb=[0], rb=[0]) }",
     0},
    {"graph g(a: f64[3, 2, 4], b: f64[2, 5, 4]) {\n"
     "  x = transpose(transpose(a, perm=[2, 0, 1]), perm=[2, 1, 0])\n"
     "  return dot_general(x, transpose(b, perm=[1, 2, 0]), lc=[2], rc=[1], lb=[0], rb=[2]) }",
     0},
    /* matmul whose operands have their batch axes elsewhere, as heads */
    {"graph g(a: f64[2, 3, 4, 5], b: f64[2, 6, 4, 5]) {\n"
     "  return matmul(transpose(a, perm=[0, 2, 1, 3]), transpose(b, perm=[0, 2, 3, 1])) }",
     0},
    {"graph g(a: f64[3, 2, 4], b: f64[2, 4, 5]) { return matmul(transpose(a, perm=[1, 0, 2]), b) }", 0},
    {"graph g(a: f64[3, 4, 2, 2], b: f64[2, 2, 4, 6]) { return matmul(transpose(a, perm=[3, 2, 0, 1]), b) }", 0},
    {"graph g(a: f64[2, 3, 4], b: f64[5, 2, 3]) {\n"
     "  return matmul(transpose(a, perm=[0, 2, 1]), transpose(b, perm=[1, 2, 0])) }",
     0},
    /* one matrix for a batch */
    {"graph g(a: f64[2, 3, 4], b: f64[5, 4]) { return matmul(a, transpose(b, perm=[1, 0])) }", 0},
    {"graph g(a: f64[4, 2, 3], b: f64[5, 4]) {\n"
     "  return matmul(transpose(a, perm=[1, 2, 0]), transpose(b, perm=[1, 0])) }",
     0},
    {"graph g(a: f64[3, 2, 4], b: f64[4, 5]) { return matmul(transpose(a, perm=[1, 0, 2]), b) }", 1},
    /* the order of axes would change */
    {"graph g(a: f64[3, 2, 4], b: f64[4, 5]) { return dot_general(transpose(a, perm=[1, 0, 2]), b, lc=[2], rc=[0]) }",
     1},
    {"graph g(a: f64[4, 3, 2], b: f64[4, 5]) { return transpose(dot_general(a, b, lc=[0], rc=[0]), perm=[1, 0, 2]) }",
     1},
    {"graph g(a: f64[4, 3], b: f64[4, 5]) {\n"
     "  y = dot_general(a, b, lc=[0], rc=[0])\n  return y, transpose(y, perm=[1, 0]) }",
     1},
    /* The product itself is needed too. */
    {"graph g(a: f64[3, 4], b: f64[4, 5]) { y = matmul(a, b) return y, transpose(y, perm=[1, 0]) }", 1},
    /* A batch that broadcasts. */
    {"graph g(a: f64[4, 3], b: f64[2, 4, 5]) { return matmul(transpose(a, perm=[1, 0]), b) }", 1},
};

TEST(absorb_transposes_into_products)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        flx_graph *absorbed = NULL, *clean = NULL;
        pass_case c = pass_case_begin(rows[i].text);
        CHECK_OK(flxi_pass_absorb_transposes(c.g, &absorbed, NULL, &err), &err);
        CHECK_OK(flxi_pass_dce(absorbed, &clean, NULL, &err), &err);
        EXPECT_MSG(count_nodes(clean, "transpose") == rows[i].transposes, "%zu transposes are left",
                   count_nodes(clean, "transpose"));
        pass_case_same_bits(&c, clean);
        flx_graph_release(absorbed);
        flx_graph_release(clean);
        pass_case_end(&c);
    }
}

/* ---- Products of single terms ---- */

static const struct {
    const char *text;
    size_t left; /* transposes of results */
} outer_products[] = {
    {"graph g(a: f64[1, 3], b: f64[1, 5]) {\n"
     "  return transpose(dot_general(b, a, lc=[0], rc=[0], lb=[], rb=[]), perm=[1, 0]) }",
     0},
    {"graph g(a: f64[2, 1, 3], b: f64[2, 1, 5]) {\n"
     "  return transpose(dot_general(b, a, lc=[1], rc=[1], lb=[0], rb=[0]), perm=[0, 2, 1]) }",
     0},
    {"graph g(a: f64[2, 3, 1], b: f64[2, 1, 5]) { return transpose(matmul(a, b), perm=[1, 2, 0]) }", 0},
    {"graph g(a: f64[3, 1], b: f64[1, 5]) { y = matmul(a, b) return y, transpose(y, perm=[1, 0]) }", 1},
};

/* Nothing as large as the result is transposed. */
static size_t count_large_transposes(const flx_graph *g)
{
    size_t n = 0;
    flx_node_view v;
    for (size_t i = 0; flx_graph_node(g, i, &v) == FLX_OK; i++) {
        const flx_type *t = flx_val_type(g, flx_node_result(g, i, 0));
        int64_t elements = 1;
        for (int k = 0; k < t->rank; k++)
            elements *= t->dims[k];
        n += strcmp(v.op, "transpose") == 0 && elements >= 15;
    }
    return n;
}

TEST(spread_products_are_computed_transposed)
{
    for (size_t i = 0; i < sizeof outer_products / sizeof *outer_products; i++) {
        flx_error err = {0};
        flx_graph *out;
        pass_case c = pass_case_begin(outer_products[i].text);
        CHECK_OK(flxi_pass_spread_products(c.g, &out, NULL, &err), &err);
        CHECK_EQ_U64(count_large_transposes(out), outer_products[i].left);
        CHECK(count_nodes(out, "dot_general") + count_nodes(out, "matmul") == 0);
        pass_case_near(&c, out, 0);
        flx_graph_release(out);
        pass_case_end(&c);
    }
}
