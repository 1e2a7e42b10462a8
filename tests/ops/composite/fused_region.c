/* SPDX-License-Identifier: Apache-2.0 */
/* Regions: how operands broadcast, what slices a body runs on, what a body may hold. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"
#include "ops/symbolic_text.h"

/* The first result of the text has these elements. */
static void check_elements(const char *text, const double *want, int count)
{
    text_run r = text_begin(text);
    test_fail_context("%s", text);
    CHECK_OK(r.code, &r.err);
    CHECK_EQ_I64(flx_tensor_count(r.out[0]), count);
    for (int i = 0; i < count; i++)
        CHECK_NEAR(flx_tensor_get(r.out[0], i), want[i], 0);
    text_end(&r);
}

/* [2, 1, 2] against [2, 2, 2]: element (1, 0, 0) is paired with 3, not with element 4 mod 4 of the smaller one. */
TEST(trap_103_elementwise_region_reads_the_rows_that_broadcasting_names)
{
    static const double want[] = {11, 22, 31, 42, 53, 64, 73, 84};
    check_elements("graph f(x: f64[2, 2, 2], y: f64[2, 1, 2]) { return add(x, y) }\n"
                   "graph g() {\n  x = const(f64[2, 2, 2], [[[10, 20], [30, 40]], [[50, 60], [70, 80]]])\n"
                   "  return elementwise_region(x, const(f64[2, 1, 2], [[[1, 2]], [[3, 4]]]), body=@f) }",
                   want, 8);
    check_elements("graph f(x: f64[], y: f64[]) { return add(x, y) }\n"
                   "graph g() {\n  x = const(f64[2, 2, 2], [[[10, 20], [30, 40]], [[50, 60], [70, 80]]])\n"
                   "  return elementwise_region(x, const(f64[2, 1, 2], [[[1, 2]], [[3, 4]]]), body=@f) }",
                   want, 8);
    static const gradient_row rows[] = {{"x", {1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 1, 2, 3, 4, 3, 4}},
                                        {"y", {1, 2, 3, 4}, {4, 6, 12, 14}}};
    check_gradient("graph f(x: f64[], y: f64[]) { return mul(x, y) }\n"
                   "graph g(x: f64[2, 2, 2], y: f64[2, 1, 2]) { return elementwise_region(x, y, body=@f) }",
                   rows, 2);
}

/* One geometric step on the first operand may come first. */
TEST(elementwise_region_takes_a_prologue)
{
    check_elements("graph f(x: f64[2, 3], y: f64[]) { t = transpose(x) return mul(t, y) }\n"
                   "graph g() { return elementwise_region(const(f64[2, 3], [[1, 2, 3], [4, 5, 6]]),"
                   " const(f64[2], [1, 10]), body=@f) }",
                   (const double[]){1, 40, 2, 50, 3, 60}, 6);
    check_text_fails("graph f(x: f64[2, 2]) { t = transpose(x) u = transpose(t) return neg(u) }\n"
                     "graph g(x: f64[2, 2]) { y = elementwise_region(x, body=@f) return y }",
                     FLX_E_ATTRIBUTE, "elementwise_region 'y': body=@f: transpose 'u' is not an elementwise op");
}

TEST(elementwise_region_takes_sixteen_operands)
{
    static const char body[] = "graph f(a: f64[], b: f64[], c: f64[], d: f64[], e: f64[], f: f64[], g: f64[], h: f64[],"
                               " i: f64[], j: f64[], k: f64[], l: f64[], m: f64[], n: f64[], o: f64[], p: f64[]%s) {\n"
                               "  return add_n(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p) }\n"
                               "graph g() { x = full(f64[2], 1) y = elementwise_region(x, x, x, x, x, x, x, x,"
                               " x, x, x, x, x, x, x, x%s, body=@f) return y }";
    char text[1000];
    snprintf(text, sizeof text, body, "", "");
    check_elements(text, (const double[]){16, 16}, 2);
    snprintf(text, sizeof text, body, ", q: f64[]", ", x");
    check_text_fails(text, FLX_E_ARITY, "elementwise_region 'y': expected at most 16 operands, got 17");
}

/* Slices of several lengths, one body; an operand of extent 1 along the axis serves them all, and elements between the
   slices are skipped. */
TEST(batch_elementwise_region_concatenates_its_slices)
{
    check_elements("graph f(x: f64[], y: f64[]) { return mul(x, y) }\n"
                   "graph g() {\n  x = const(f64[2, 5], [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]])\n"
                   "  y = const(f64[2, 1], [[10], [100]])\n"
                   "  return batch_elementwise_region(x, y, body=@f, axis=1, starts=[0, 3], lens=[1, 2]) }",
                   (const double[]){10, 40, 50, 600, 900, 1000}, 6);
    static const gradient_row rows[] = {{"x", {1, 2, 3, 4, 5}, {2, 4, 0, 8, 10}}};
    check_gradient("graph f(x: f64[]) { return mul(x, x) }\n"
                   "graph g(x: f64[5]) {\n"
                   "  return batch_elementwise_region(x, body=@f, axis=0, starts=[0, 3], lens=[2, 2]) }",
                   rows, 1);
}

TEST(batch_elementwise_region_checks_its_slices)
{
    static const struct {
        const char *slices, *message;
    } rows[] = {
        {"starts=[0, 1], lens=[2, 1]", "slice 1 starts at 1, but the one before it ends at 2"},
        {"starts=[2, 0], lens=[1, 1]", "slice 1 starts at 0, but the one before it ends at 3"},
        {"starts=[0, 3], lens=[3, 3]", "the last slice ends at 6, but axis 0 has extent 5"},
        {"starts=[0], lens=[2, 3]", "starts has 1 entry, lens has 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[240], message[160];
        snprintf(text, sizeof text,
                 "graph f(x: f32[]) { return neg(x) }\n"
                 "graph g(x: f32[5]) { y = batch_elementwise_region(x, body=@f, axis=0, %s) return y }",
                 rows[i].slices);
        snprintf(message, sizeof message, "batch_elementwise_region 'y': %s", rows[i].message);
        check_text_fails(text, FLX_E_ATTRIBUTE, message);
    }
}

TEST(regions_with_symbols)
{
    check_text_type("graph f(x: f32[], y: f32[]) { return gt(x, y) }\n"
                    "graph g(x: f32[N, 3], y: f32[M, 1, 1]) { return elementwise_region(x, y, body=@f) }",
                    "bool[M, N, 3]");
    check_text_type("graph f(x: f32[]) { return exp(x) }\n"
                    "graph g(x: f32[N, 3]) {\n"
                    "  return batch_elementwise_region(x, body=@f, axis=0, starts=[0, 2], lens=[2, N - 2]) }",
                    "f32[N, 3]");
    check_text_type(
        "graph f(x: f32[1, 3, H, W]) {\n  r = resize_nearest_2x(x)\n  return transpose(r, perm=[0, 2, 3, 1]) }\n"
        "graph g(x: f32[1, 3, H, W]) { return transform_region(x, body=@f) }",
        "f32[1, 2*H, 2*W, 3]");
}

TEST(transform_region_holds_a_chain)
{
    static const gradient_row rows[] = {{"x", {1, 2, 3, 4}, {20, 0, 40, 0}}};
    check_gradient(
        "graph f(x: f64[1, 2, 2, 1]) {\n  n = narrow(x, axis=2, start=0, len=1)\n  u = resize_nearest_2x(n)\n"
        "  s = mul(u, const(f64[2, 1, 1], [[[5]], [[10]]]))\n  return add(s, 1) }\n"
        "graph g(x: f64[1, 2, 2, 1]) { return transform_region(x, body=@f) }",
        rows, 1);
    check_text_fails(
        "graph f(x: f64[2, 2]) { t = transpose(x) return add(t, x) }\n"
        "graph g(x: f64[2, 2]) { y = transform_region(x, body=@f) return y }",
        FLX_E_ATTRIBUTE,
        "transform_region 'y': body=@f: add must read the step before it once, and constants for each channel");
}
