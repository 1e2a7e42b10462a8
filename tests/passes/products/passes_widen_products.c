/* SPDX-License-Identifier: Apache-2.0 */
/* passes_widen_products.c: products of integers that are cast before read the narrow ones, where a device has a way. */
#include "graph/count_nodes.h"
#include "passes/pass.h"
#include "passes/pass_case.h"
#include "test.h"

static const struct {
    const char *text;
    size_t left;  /* products that stay as they are */
    size_t taken; /* products that read narrow integers */
} rows[] = {
    {"graph g(a: i8[40, 50], b: i8[50, 30]) { return matmul(cast(a, to=i32), cast(b, to=i32)) }", 0, 1},
    {"graph g(a: u8[40, 50], b: i8[50, 30]) { return matmul(cast(a, to=i32), cast(b, to=i32)) }", 0, 1},
    {"graph g(a: i16[40, 50], b: u8[30, 50]) {\n"
     "  return dot_general(cast(a, to=u32), cast(b, to=u32), lc=[1], rc=[1]) }",
     0, 1},
    {"graph g(a: i8[3, 40, 50], b: i8[50, 30]) { return matmul(cast(a, to=i32), cast(b, to=i32)) }", 0, 1},
    {"graph g(a: i8[3, 40, 50], b: i8[3, 50, 30]) { return matmul(cast(a, to=i32), cast(b, to=i32)) }", 0, 1},
    /* a batch that broadcasts, a narrow operand beside a wide one, floats, few products */
    {"graph g(a: i8[40, 50], b: i8[3, 50, 30]) { return matmul(cast(a, to=i32), cast(b, to=i32)) }", 1, 0},
    {"graph g(a: i8[40, 50], b: i32[50, 30]) { return matmul(cast(a, to=i32), b) }", 1, 0},
    {"graph g(a: i8[40, 50], b: i8[50, 30]) { return matmul(cast(a, to=f32), cast(b, to=f32)) }", 1, 0},
    {"graph g(a: i32[40, 50], b: i32[50, 30]) { return matmul(cast(a, to=i8), cast(b, to=i8)) }", 1, 0},
    {"graph g(a: i8[4, 5], b: i8[5, 3]) { return matmul(cast(a, to=i32), cast(b, to=i32)) }", 1, 0},
};

static bool always(const flx_graph *g, uint32_t node, const void *user)
{
    (void)g, (void)node, (void)user;
    return true;
}

static bool never(const flx_graph *g, uint32_t node, const void *user)
{
    (void)g, (void)node, (void)user;
    return false;
}

static int32_t type_of_result(const flx_graph *g)
{
    return flx_val_type(g, flx_graph_output(g, 0))->dtype;
}

TEST(products_of_narrow_integers_read_them_as_they_are)
{
    flx_error err = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int can = 0; can < 2; can++) {
            flx_graph *wide = NULL, *out = NULL;
            pass_case c = pass_case_begin(rows[i].text);
            CHECK_OK(flxi_widen_products(c.g, can ? always : never, NULL, &wide, NULL, &err), &err);
            CHECK_OK(flxi_pass_dce(wide, &out, NULL, &err), &err);
            CHECK_EQ_U64(count_nodes(out, "matmul") + count_nodes(out, "dot_general"),
                         can ? rows[i].left : rows[i].left + rows[i].taken);
            CHECK_EQ_U64(count_nodes(out, "widening_dot"), can ? rows[i].taken : 0);
            CHECK_EQ_I64(type_of_result(out), type_of_result(c.g));
            flx_graph_release(wide);
            flx_graph_release(out);
            pass_case_end(&c);
        }
}
