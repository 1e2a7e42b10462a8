/* SPDX-License-Identifier: Apache-2.0 */
/* passes_widen_products.c: products of integers that are cast before read the narrow ones, where a device has a way. */
#include "passes/pass.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <string.h>

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

static size_t count(const flx_graph *g, const char *op)
{
    size_t n = 0;
    flx_node_view v;
    for (size_t i = 0; flx_graph_node(g, i, &v) == FLX_OK; i++)
        n += strcmp(v.op, op) == 0;
    return n;
}

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

TEST(products_of_narrow_integers_read_them_as_they_are)
{
    flx_error err = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int can = 0; can < 2; can++) {
            flx_context *ctx = flx_context_new(NULL);
            flx_module *m = flx_parse(ctx, rows[i].text, strlen(rows[i].text), "row", &err);
            CHECK_MSG(m, "%s", err.message);
            flx_graph *wide = NULL, *out = NULL;
            test_fail_context("%s", rows[i].text);
            CHECK_OK(flxi_widen_products(flx_module_main(m), can ? always : never, NULL, &wide, NULL, &err), &err);
            CHECK_OK(flxi_pass_dce(wide, &out, NULL, &err), &err);
            CHECK_EQ_I64((int64_t)(count(out, "matmul") + count(out, "dot_general")),
                         (int64_t)(can ? rows[i].left : rows[i].left + rows[i].taken));
            CHECK_EQ_I64((int64_t)count(out, "widening_dot"), (int64_t)(can ? rows[i].taken : 0));
            CHECK_EQ_I64(flx_val_type(out, flx_graph_output(out, 0))->dtype,
                         flx_val_type(flx_module_main(m), flx_graph_output(flx_module_main(m), 0))->dtype);
            flx_graph_release(wide);
            flx_graph_release(out);
            flx_module_free(m);
            flx_context_free(ctx);
        }
}
