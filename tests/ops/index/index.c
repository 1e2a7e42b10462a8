/* SPDX-License-Identifier: Apache-2.0 */
/* Indexing: indices out of range, empty axes, bytes and error texts. Values: tests/oracle/index.py. */
#include "ops/batch_text.h"
#include "ops/symbolic_text.h"

#include <math.h>
#include <string.h>

TEST(gather_out_of_range_index_fails_the_run)
{
    check_text_fails("graph g() { t = full(f32[3], 1)  y = gather(t, const(i32[2], [0, 3]))  return y }", FLX_E_INDEX,
                     "gather 'y': index 3 is out of range for an axis of extent 3");
    check_text_fails("graph g() { t = full(f32[3], 1)  y = gather(t, const(i32[1], [-1]))  return y }", FLX_E_INDEX,
                     "gather 'y': index -1 is out of range for an axis of extent 3");
    check_text_fails("graph g() { t = full(f32[3], 1)  y = gather(t, const(f32[2], [1, 0.5]))  return y }", FLX_E_INDEX,
                     "gather 'y': element 1 of the index operand is not an integer");
}

/* An empty axis has no position to clamp to, and an index is checked even where nothing would be read. */
TEST(index_into_empty_axis_is_an_error)
{
    static const char *const calls[] = {
        "gather(full(f32[0, 2], 1), i, oob=clamp)",        "gather(full(f32[0, 0], 1), i)",
        "gather(full(f32[3, 0], 1), const(i32[1], [3]))",  "take_along(full(f32[0], 1), i, oob=clamp)",
        "scatter_add(full(f32[1], 1), i, R=0, oob=clamp)", "one_hot(i, n=0)",
    };
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        char text[160] = "graph g() { i = const(i32[1], [0])  return ";
        strcat(strcat(text, calls[k]), " }");
        test_fail_context("%s", calls[k]);
        text_run r = text_begin(text);
        CHECK_CODE(r.code, FLX_E_INDEX, &r.err);
        text_end(&r);
    }
}

/* Gathering moves elements; arithmetic on them would quiet and truncate this NaN. */
TEST(indexing_keeps_nan_payloads)
{
    static const uint8_t signalling[4] = {0x01, 0x00, 0xa0, 0xff};
    text_run r = text_begin("graph g() { x = const(f32[1], \"0100a0ff\")  i = const(i32[1], [0])"
                            "  return gather(x, i), take_along(x, i), dynamic_slice(x, 0, sizes=[1]),"
                            "         dynamic_update_slice(full(f32[1], 0), x, 0) }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK(memcmp(flx_tensor_const_data(r.out[i]), signalling, 4) == 0);
    text_end(&r);
}

/* A fraction is cut off, NaN is 0: the clamped ops never fail. */
TEST(dynamic_slice_takes_any_float_as_index)
{
    text_run r = text_begin("graph g() { x = iota(i32[8])"
                            "  return dynamic_slice(x, full(f64[], 2.75), sizes=[2]),"
                            "         dynamic_slice(x, full(f32[], nan), sizes=[2]),"
                            "         dynamic_slice(x, full(f16[], inf), sizes=[2]),"
                            "         dynamic_slice(x, full(f64[], -1e300), sizes=[2]) }");
    static const int want[] = {2, 0, 6, 0};
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_I64(flx_tensor_get(r.out[i], 0), want[i]);
    text_end(&r);
}

TEST(indexing_shapes_with_symbols)
{
    check_text_type("graph g(t: f32[N, 3], i: i32[M, 2]) { return gather(t, i) }", "f32[M, 2, 3]");
    check_text_type("graph g(u: f32[N, 3], i: i32[N]) { return scatter_add(u, i, R=2*N) }", "f32[2*N, 3]");
    check_text_type("graph g(i: i32[N]) { return one_hot(i, n=M, axis=0) }", "f32[M, N]");
    check_text_type("graph g(x: f32[N, 3]) { return dynamic_slice(x, 0, 1, sizes=[N, 2]) }", "f32[N, 2]");
}

TEST(dynamic_slice_window_is_checked_when_bound)
{
    const char *text = "graph g(x: f32[N]) { return dynamic_slice(x, 0, sizes=[3]) }";
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){3}), &y, &err), &err);
    CHECK_CODE(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){2}), &y, &err), FLX_E_ATTRIBUTE, &err);
}

TEST(indexing_errors_name_shapes)
{
    check_text_fails("graph g(u: f32[5, 2], i: i32[4]) { y = scatter_add(u, i, R=3) return y }", FLX_E_SHAPE,
                     "scatter_add 'y': the shape of upd must begin with that of idx: upd is [5, 2], idx is [4]");
    check_text_fails(
        "graph g(x: f32[3, 4], i: i32[1, 2]) { y = take_along(x, i) return y }", FLX_E_SHAPE,
        "take_along 'y': x and idx must have the same shape except along axis 1: x is [3, 4], idx is [1, 2]");
    check_text_fails("graph g(x: f32[3, 4]) { y = dynamic_slice(x, 0, sizes=[2, 2]) return y }", FLX_E_ARITY,
                     "dynamic_slice 'y': got 1 index for x of shape [3, 4]");
    check_text_fails("graph g(x: f32[3, 4]) { y = dynamic_slice(x, 0, 0, sizes=[2, 5]) return y }", FLX_E_ATTRIBUTE,
                     "dynamic_slice 'y': sizes[1] is 5, which does not fit axis 1 of x of shape [3, 4]");
    check_text_fails("graph g(i: i32[3]) { y = one_hot(i, n=-2) return y }", FLX_E_ATTRIBUTE,
                     "one_hot 'y': n must not be negative, got -2");
}

/* ---- Derivatives and batching ---- */

TEST(gather_gradient_of_repeated_rows_adds_up)
{
    static const gradient_row table[] = {{"t", {1, 2, 3}, {2, 0, 1}}};
    check_gradient("graph g(t: f64[3]) { return gather(t, const(i32[3], [0, 2, 0])) }", table, 1);
    static const gradient_row dropped[] = {{"t", {1, 2, 3}, {0, 1, 0}}};
    check_gradient("graph g(t: f64[3]) { return gather(t, const(i32[3], [-1, 1, 3]), oob=zero) }", dropped, 1);
    static const gradient_row clamped[] = {{"t", {1, 2, 3}, {1, 1, 1}}};
    check_gradient("graph g(t: f64[3]) { return gather(t, const(i32[3], [-1, 1, 3]), oob=clamp) }", clamped, 1);
}

/* Each example has its own table and its own indices; example 0 does not see the table of example 1. */
TEST(trap_36_gather_along_a_later_axis_keeps_those_before)
{
    static const gradient_row rows[] = {{"t", {1, 2, 3, 4, 5, 6}, {0, 1, 2, 0, 1, 2}}};
    check_text_type("graph g(t: f32[4, 5, 6], i: i32[2, 3]) { return gather(t, i, axis=1) }", "f32[4, 2, 3, 6]");
    check_gradient("graph g(t: f64[2, 3]) { return gather(t, const(i32[3], [2, 1, 2]), axis=1) }", rows, 1);
}

TEST(trap_37_gather_pairs_tables_and_indices)
{
    static const batch_row rows[] = {{"t", {1, 2, 3, 4, 5, 6}, true}, {"i", {2, 0, 0, 1}, true}};
    check_batched("graph g(t: f64[3], i: i32[2]) { return gather(t, i) }", 2, rows, 2, (double[]){3, 1, 4, 5}, 4);
}

/* Row 3 of example 0 would be row 0 of example 1. */
TEST(trap_38_index_out_of_range_does_not_reach_the_next_example)
{
    static const batch_row rows[] = {{"t", {1, 2, 3, 4, 5, 6}, true}, {"i", {3, 0}, true}};
    double out[GRADIENT_MAX_PARTS];
    flx_error err = {0};
    CHECK_CODE(run_batched("graph g(t: f64[3], i: i32[]) { return gather(t, i) }", 2, rows, 2, out, &err), FLX_E_INDEX,
               &err);
    check_batched("graph g(t: f64[3], i: i32[]) { return gather(t, i, oob=zero) }", 2, rows, 2, (double[]){0, 4}, 2);
    check_batched("graph g(t: f64[3], i: i32[]) { return gather(t, i, oob=clamp) }", 2, rows, 2, (double[]){3, 4}, 2);
    CHECK_CODE(run_batched("graph g(t: f64[], i: i32[]) { return scatter_add(t, i, R=3) }", 2,
                           (batch_row[]){{"t", {1, 2}, true}, {"i", {3, 0}, true}}, 2, out, &err),
               FLX_E_INDEX, &err);
}

TEST(trap_39_scatter_add_keeps_examples_apart)
{
    static const batch_row rows[] = {{"u", {1, 2, 3, 4}, true}, {"i", {0, 0, 0, 1}, true}};
    check_batched("graph g(u: f64[2], i: i32[2]) { return scatter_add(u, i, R=2) }", 2, rows, 2, (double[]){3, 0, 3, 4},
                  4);
}

TEST(gather_from_an_empty_table_batches)
{
    static const batch_row rows[] = {{"t", {0}, true}, {"i", {0, 1}, true}};
    check_batched("graph g(t: f64[0], i: i32[]) { return gather(t, i, oob=zero) }", 2, rows, 2, (double[]){0, 0}, 2);
    double out[GRADIENT_MAX_PARTS];
    flx_error err = {0};
    CHECK_CODE(run_batched("graph g(t: f64[0], i: i32[]) { return gather(t, i) }", 2, rows, 2, out, &err), FLX_E_INDEX,
               &err);
}

/* A position beyond i64 is too large, not negative. */
TEST(dynamic_slice_batches_over_any_position)
{
    static const batch_row rows[] = {{"x", {1, 2, 3, 4}, false}, {"i", {18446744073709549568.0, 1}, true}};
    check_batched("graph g(x: f64[4], i: u64[]) { return dynamic_slice(x, i, sizes=[2]) }", 2, rows, 2,
                  (double[]){3, 4, 2, 3}, 4);
    static const batch_row floats[] = {{"x", {1, 2, 3, 4}, false}, {"i", {-INFINITY, 1.75}, true}};
    check_batched("graph g(x: f64[4], i: f64[]) { return dynamic_slice(x, i, sizes=[2]) }", 2, floats, 2,
                  (double[]){1, 2, 2, 3}, 4);
}

TEST(dynamic_update_slice_gradient_is_cut_out)
{
    static const gradient_row rows[] = {{"x", {1, 2, 3, 4}, {1, 1, 0, 0}}, {"u", {5, 6}, {1, 1}}};
    check_gradient("graph g(x: f64[4], u: f64[2]) { return dynamic_update_slice(x, u, 9) }", rows, 2);
}

/* The number in the message is the one that was read: 16777217 exists in integers but not in f32. Positions that are
   results cannot have a float dtype at all. */
TEST(trap_25_integer_indices_are_exact_beyond_f32)
{
    static const struct {
        const char *dtype, *read;
    } rows[] = {
        {"i32", "16777217"}, {"u32", "16777217"}, {"i64", "16777217"}, {"f64", "16777217"}, {"f32", "16777216"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[160];
        char message[160];
        snprintf(text, sizeof text,
                 "graph g() { y = gather(full(f32[3], 1), cast(const(i64[1], [16777217]), to=%s))  return y }",
                 rows[i].dtype);
        snprintf(message, sizeof message, "gather 'y': index %s is out of range for an axis of extent 3", rows[i].read);
        check_text_fails(text, FLX_E_INDEX, message);
    }
    check_text_fails("graph g(x: f32[4]) { return argmax(x, dtype=f32) }", FLX_E_DTYPE,
                     "argmax: positions cannot be f32");
    check_text_fails("graph g(x: f32[4]) { return topk(x, k=1, dtype=f32) }", FLX_E_DTYPE,
                     "topk: positions cannot be f32");
}
