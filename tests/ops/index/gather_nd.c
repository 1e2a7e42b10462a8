/* SPDX-License-Identifier: Apache-2.0 */
/* gather_nd and scatter_nd: edges, order of updates and error texts. Values: tests/oracle/gather_nd.py. */
#include "ops/gradient_text.h"
#include "ops/symbolic_text.h"

#include <math.h>
#include <string.h>

#define ROWS "start_index_map=[0], collapsed_axes=[0], offset_axes=[1], index_vector_axis=1"

static void check_values(const flx_tensor *t, const double *want, int64_t n)
{
    CHECK_EQ_I64(flx_tensor_count(t), n);
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(flx_tensor_get(t, i), want[i], 0);
}

/* The window [3, 6) of an axis of 5: an error as a whole, two elements under zero, moved under clamp. */
TEST(gather_nd_window_over_the_edge_follows_its_policy)
{
    text_run r =
        text_begin("graph g() { x = add(iota(f32[5]), 1)  i = const(i64[1], [3])"
                   "  return gather_nd(x, i, slice_sizes=[3], start_index_map=[0], offset_axes=[0], oob=zero),"
                   "         gather_nd(x, i, slice_sizes=[3], start_index_map=[0], offset_axes=[0], oob=clamp) }");
    CHECK_OK(r.code, &r.err);
    check_values(r.out[0], (const double[]){4, 5, 0}, 3);
    check_values(r.out[1], (const double[]){3, 4, 5}, 3);
    text_end(&r);
    check_text_fails("graph g() { x = iota(f32[5])  i = const(i64[1], [3])"
                     "  y = gather_nd(x, i, slice_sizes=[3], start_index_map=[0], offset_axes=[0])  return y }",
                     FLX_E_INDEX, "gather_nd 'y': the start 3 is out of range: axis 0 has extent 5, the window 3");
}

TEST(scatter_nd_window_over_the_edge_follows_its_policy)
{
    text_run r = text_begin("graph g() { x = full(f32[4], 0)  u = const(f32[3], [1, 2, 3])  i = const(i32[1], [-1])"
                            "  return scatter_nd(x, i, u, start_index_map=[0], offset_axes=[0], oob=zero),"
                            "         scatter_nd(x, i, u, start_index_map=[0], offset_axes=[0], oob=clamp) }");
    CHECK_OK(r.code, &r.err);
    check_values(r.out[0], (const double[]){2, 3, 0, 0}, 4);
    check_values(r.out[1], (const double[]){1, 2, 3, 0}, 4);
    text_end(&r);
}

/* An empty axis is legal as long as nothing is read from it, as for gather. */
TEST(gather_nd_into_an_empty_axis_fails_only_where_there_is_an_index)
{
    text_run r = text_begin("graph g() { x = full(f32[0, 2], 1)  none = full(i32[0], 0)  two = full(i32[2], 0)"
                            "  return gather_nd(x, none, slice_sizes=[1, 2], " ROWS "),"
                            "         gather_nd(x, two, slice_sizes=[1, 2], " ROWS ", oob=zero),"
                            "         scatter_nd(x, two, full(f32[2, 2], 1), " ROWS ", oob=zero) }");
    CHECK_OK(r.code, &r.err);
    CHECK_EQ_I64(flx_tensor_count(r.out[0]), 0);
    check_values(r.out[1], (const double[]){0, 0, 0, 0}, 4);
    CHECK_EQ_I64(flx_tensor_count(r.out[2]), 0);
    text_end(&r);
    check_text_fails("graph g() { x = full(f32[0, 2], 1)"
                     "  y = gather_nd(x, full(i32[1], 0), slice_sizes=[1, 2], " ROWS ")  return y }",
                     FLX_E_INDEX, "gather_nd 'y': the start 0 is out of range: axis 0 has extent 0, the window 1");
}

/* A start out of range is an error although its window reads nothing. */
TEST(gather_nd_checks_starts_of_empty_windows)
{
    text_run r = text_begin("graph g() { x = full(f32[3, 4], 0)"
                            "  return gather_nd(x, const(i32[1], [7]), slice_sizes=[1, 0], " ROWS ") }");
    CHECK_CODE(r.code, FLX_E_INDEX, &r.err);
    text_end(&r);
}

TEST(scatter_nd_set_keeps_the_last_update)
{
    text_run r = text_begin("graph g() { x = full(i32[2], 7)  u = iota(i32[5])  i = const(i32[5], [0, 0, 1, 0, 1])"
                            "  return scatter_nd(x, i, u, start_index_map=[0], collapsed_axes=[0],"
                            "                    index_vector_axis=1, combine=set) }");
    CHECK_OK(r.code, &r.err);
    check_values(r.out[0], (const double[]){3, 4}, 2);
    text_end(&r);
}

/* The body receives the element first, then the update, in row-major order of the updates. */
TEST(scatter_nd_body_folds_in_order)
{
    text_run r =
        text_begin("graph f(old: f64[], new: f64[]) { return sub(mul(old, 10), new) }"
                   "graph main() { x = full(f64[2], 1)  u = const(f64[3], [1, 2, 3])  i = const(i32[3], [0, 1, 0])"
                   "  return scatter_nd(x, i, u, start_index_map=[0], collapsed_axes=[0],"
                   "                    index_vector_axis=1, combine=@f) }");
    CHECK_OK(r.code, &r.err);
    check_values(r.out[0], (const double[]){87, 8}, 2);
    text_end(&r);
}

TEST(scatter_nd_body_failure_is_passed_on)
{
    text_run r = text_begin("graph f(a: f32[], b: f32[]) { return check(a, lt(b, 2), message=\"too large\") }"
                            "graph main() { x = full(f32[2], 1)  u = const(f32[2], [1, 2])  i = const(i32[2], [0, 1])"
                            "  return scatter_nd(x, i, u, start_index_map=[0], collapsed_axes=[0],"
                            "                    index_vector_axis=1, combine=@f) }");
    CHECK_CODE(r.code, FLX_E_CHECK, &r.err);
    text_end(&r);
}

TEST(gather_nd_shapes_with_symbols)
{
    check_text_type("graph g(x: f32[N, 4], i: i32[M]) { return gather_nd(x, i, slice_sizes=[1, 4], " ROWS ") }",
                    "f32[M, 4]");
    check_text_type("graph g(x: f32[B, 5, 4], i: i32[B, M, 1]) { return gather_nd(x, i, slice_sizes=[1, 1, 4],"
                    "  start_index_map=[1], collapsed_axes=[1], offset_axes=[-1], operand_batching_axes=[0],"
                    "  indices_batching_axes=[0]) }",
                    "f32[B, M, 4]");
}

TEST(gather_nd_batch_of_none_is_legal)
{
    const char *text = "graph g(x: f32[N, 3, 2]) { return gather_nd(x, iota(i32[N, 2]), slice_sizes=[1, 1, 2],"
                       "  start_index_map=[1], collapsed_axes=[1], offset_axes=[2], operand_batching_axes=[0],"
                       "  indices_batching_axes=[0], index_vector_axis=2, oob=clamp) }";
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 3, (flx_dim[]){0, 3, 2}), &y, &err), &err);
    CHECK_EQ_I64(y.dims[0], 0);
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 3, (flx_dim[]){4, 3, 2}), &y, &err), &err);
}

TEST(gather_nd_errors_name_the_attribute)
{
    check_text_fails("graph g(x: f32[3, 4], i: i32[5, 2]) { y = gather_nd(x, i, slice_sizes=[1, 1],"
                     "  start_index_map=[0, 1], collapsed_axes=[0]) return y }",
                     FLX_E_ATTRIBUTE, "gather_nd 'y': offset_axes has 0 entries, but the window has 1 axis");
    check_text_fails("graph g(x: f32[3, 4], i: i32[5]) { y = gather_nd(x, i, slice_sizes=[1, 5], " ROWS ") return y }",
                     FLX_E_ATTRIBUTE, "gather_nd 'y': slice_sizes is 5 along axis 1 of x, which is [3, 4]");
    check_text_fails("graph g(x: f32[3, 4], i: i32[5], u: f32[4, 4]) { y = scatter_nd(x, i, u, " ROWS ") return y }",
                     FLX_E_SHAPE,
                     "scatter_nd 'y': the index axes of updates do not fit: indices is [5], updates is [4, 4]");
}

/* ---- Derivatives ---- */

#define SCATTER(x, u, i, rest)                                                                                       \
    "graph g(x: f64[" x "], u: f64[" u "]) { return scatter_nd(x, const(i32[" u "], " i "), u, start_index_map=[0]," \
    "  collapsed_axes=[0], index_vector_axis=1" rest ") }"

TEST(scatter_nd_set_gradient_goes_to_the_last_writer)
{
    static const gradient_row rows[] = {{"x", {1, 2, 3}, {1, 0, 1}}, {"u", {4, 5, 6}, {0, 0, 1}}};
    check_gradient(SCATTER("3", "3", "[1, 1, 1]", ", combine=set"), rows, 2);
    static const gradient_row dropped[] = {{"x", {1, 2, 3}, {1, 0, 1}}, {"u", {4, 5, 6}, {0, 1, 0}}};
    check_gradient(SCATTER("3", "3", "[-1, 1, 3]", ", combine=set, oob=zero"), dropped, 2);
    static const gradient_row unique[] = {{"x", {1, 2, 3}, {0, 0, 1}}, {"u", {4, 5}, {1, 1}}};
    check_gradient(SCATTER("3", "2", "[1, 0]", ", combine=set, unique=true"), unique, 2);
}

/* y = x u0 u1 u2: each factor's derivative is the product of the others, also where one or two of them are 0. */
TEST(trap_19_scatter_nd_product_with_zeros)
{
    static const gradient_row one[] = {{"x", {2, 7}, {0, 1}}, {"u", {0, 3, 5}, {30, 0, 0}}};
    check_gradient(SCATTER("2", "3", "[0, 0, 0]", ", combine=mul"), one, 2);
    static const gradient_row two[] = {{"x", {2, 7}, {0, 1}}, {"u", {0, 3, 0}, {0, 0, 0}}};
    check_gradient(SCATTER("2", "3", "[0, 0, 0]", ", combine=mul"), two, 2);
    static const gradient_row apart[] = {{"x", {2, 7}, {15, 4}}, {"u", {3, 4, 5}, {10, 7, 6}}};
    check_gradient(SCATTER("2", "3", "[0, 1, 0]", ", combine=mul"), apart, 2);
    static const gradient_row infinite[] = {{"x", {2, 7}, {3, INFINITY}}, {"u", {3, INFINITY, INFINITY}, {2, 7, 0}}};
    check_reverse(SCATTER("2", "3", "[0, 1, 9]", ", combine=mul, oob=zero"), infinite, 2);
}

/* With two zeros among the factors only the mixed second derivative with respect to those two is not 0. */
TEST(trap_19_scatter_nd_product_second_order)
{
    static const gradient_row rows[] = {{"x", {2}, {0}}, {"u", {0, 3, 0}, {6, 0, 6}}};
    check_hessian_of_ones("graph g(x: f64[1], u: f64[3]) { return reduce_sum(scatter_nd(x, const(i32[3], [0, 0, 0]), u,"
                          "  start_index_map=[0], collapsed_axes=[0], index_vector_axis=1, combine=mul)) }",
                          rows, 2);
}

TEST(scatter_nd_tie_splits_gradient)
{
    static const gradient_row max[] = {{"x", {1, 5, 2}, {1. / 3, 1, 0}},
                                       {"u", {1, 1, 3, 4, 4}, {1. / 3, 1. / 3, 0, 0.5, 0.5}}};
    check_reverse(SCATTER("3", "5", "[0, 0, 1, 2, 2]", ", combine=max"), max, 2);
    static const gradient_row min[] = {{"x", {1, 5}, {0.5, 1}}, {"u", {1, 7, 0}, {0.5, 0, 0}}};
    check_gradient(SCATTER("2", "3", "[0, 1, 2]", ", combine=min, oob=zero"), min, 2);
}

/* a/b of a dropped update is never computed: its derivative would be infinite. */
TEST(scatter_nd_fold_does_not_try_dropped_updates)
{
    static const gradient_row rows[] = {{"x", {6, 8}, {0.5, 1}}, {"u", {0, 2}, {0, -1.5}}};
    check_gradient(
        "graph f(a: f64[], b: f64[]) { return div(a, b) }\n" SCATTER("2", "2", "[5, 0]", ", combine=@f, oob=zero"),
        rows, 2);
}

TEST(scatter_nd_fold_gradient_follows_the_order)
{
    /* a b + b twice: y = (x u0 + u0) u1 + u1 */
    static const gradient_row rows[] = {{"x", {2}, {20}}, {"u", {4, 5}, {15, 13}}};
    check_gradient(
        "graph f(a: f64[], b: f64[]) { return add(mul(a, b), b) }\n" SCATTER("1", "2", "[0, 0]", ", combine=@f"), rows,
        2);
}

/* 256 + 1 is 256 in bf16: the word adds in wider numbers and rounds once, a graph is applied literally, one op or
   not. */
TEST(scatters_with_a_graph_round_at_each_step)
{
#define TWICE "scatter_nd(x, i, u, start_index_map=[0], collapsed_axes=[0], index_vector_axis=1, combine="
    text_run r = text_begin("graph add1(a: bf16[], b: bf16[]) { return add(b, a) }\n"
                            "graph add2(a: bf16[], b: bf16[]) { return neg(sub(neg(a), b)) }\n"
                            "graph g() {\n"
                            "  x = const(bf16[1], [256])\n"
                            "  i = const(i32[2], [0, 0])\n"
                            "  u = const(bf16[2], [1, 1])\n"
                            "  return " TWICE "add), " TWICE "@add1), " TWICE "@add2)\n"
                            "}\n");
#undef TWICE
    static const double expected[] = {258, 256, 256};
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(flx_tensor_get(r.out[i], 0), expected[i], 0);
    text_end(&r);
}
