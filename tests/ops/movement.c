/* Movement: ranges that lie outside, symbolic extents and error texts. Values: tests/oracle/movement.py. */
#include "symbolic_text.h"

TEST(narrow_error_shows_the_range)
{
    check_text_fails("graph g(x: f32[4, 3]) { return narrow(x, axis=-2, start=2, len=3) }", FLX_E_ATTRIBUTE,
                     "narrow: start=2, len=3 leave axis 0 of x, of shape [4, 3]");
}

/* Numbers beyond those of text, whose differences leave the range of dimensions: they must not pass as "unknown". */
TEST(narrow_rejects_huge_offsets)
{
    static const int64_t ranges[][2] = {{INT64_MAX - 1, 0}, {INT64_MAX / 2 + 100, 1}, {1, INT64_MAX - 1}, {-1, 1}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        test_fail_context("start=%lld, len=%lld", (long long)ranges[i][0], (long long)ranges[i][1]);
        flx_context *ctx = flx_context_new(NULL);
        flx_graph *g = flx_graph_new(ctx, "g");
        flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){4});
        flx_val x = flx_input(g, "x", &type);
        flx_attr attrs[] = {
            {.key = "axis", .kind = FLX_ATTR_INT, .as.i = 0},
            {.key = "start", .kind = FLX_ATTR_INT, .as.i = ranges[i][0]},
            {.key = "len", .kind = FLX_ATTR_INT, .as.i = ranges[i][1]},
        };
        flx_op(g, "narrow", &x, 1, attrs, 3, NULL, 0);
        flx_error err;
        int32_t code = (int32_t)flx_graph_error(g, &err);
        CHECK_CODE(code, FLX_E_ATTRIBUTE, &err);
        flx_graph_free(g);
        flx_context_free(ctx);
    }
}

TEST(narrow_of_symbolic_range_is_checked_when_bound)
{
    const char *text = "graph g(x: f32[N]) { return narrow(x, axis=0, start=2, len=2) }";
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){4}), &y, &err), &err);
    CHECK_CODE(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){3}), &y, &err), FLX_E_ATTRIBUTE, &err);
}

TEST(slice_of_symbolic_axis_rounds_up)
{
    const char *text = "graph g(x: f32[N]) { return slice(x, start=[1], limit=[N], stride=[3]) }";
    flx_error err;
    flx_type y;
    for (int64_t n = 1; n < 9; n++) {
        CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 1, &n), &y, &err), &err);
        CHECK_EQ_I64(y.dims[0], (n - 1 + 2) / 3);
    }
}

/* No element, no gaps: an extent of 0 is not (0 - 1)(interior + 1) + 1. */
TEST(pad_of_symbol_bound_to_zero_has_no_interior)
{
    const char *text = "graph g(x: f32[N]) { return pad(x, 1, low=[1], high=[1], interior=[2]) }";
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){0}), &y, &err), &err);
    CHECK_EQ_I64(y.dims[0], 2);
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){2}), &y, &err), &err);
    CHECK_EQ_I64(y.dims[0], 6);
}

TEST(concat_error_names_the_operand)
{
    check_text_fails("graph g(x: f32[2, 3], y: f32[2, 4]) { return concat(x, x, y, axis=0) }", FLX_E_SHAPE,
                     "concat: operand 2, of shape [2, 4], does not fit to [4, 3] before it");
}

TEST(concat_prefers_numbers_to_symbols)
{
    check_text_type("graph g(x: f32[N, 2], y: f32[3, M]) { return concat(x, y, axis=1) }", "f32[3, M + 2]");
}

TEST(split_sizes_must_cover_the_axis)
{
    check_text_fails("graph g(x: f32[5]) { a, b = split(x, sizes=[2, 2]) return a, b }", FLX_E_SHAPE,
                     "split 'a': sizes add up to 4, x, of shape [5], does not have that extent on axis 0");
}

TEST(unstack_of_symbolic_axis_is_unbound)
{
    check_text_fails("graph g(x: f32[N, 2]) { a, b = unstack(x) return a, b }", FLX_E_UNBOUND_DIM,
                     "unstack 'a': axis 0 of x, of shape [N, 2], has no number as extent");
}

TEST(diag_of_symbolic_matrix_is_clipped_when_bound)
{
    const char *text = "graph g(x: f32[N, N]) { return diag(x, k=3) }";
    check_text_type(text, "f32[N - 3]");
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 2, (flx_dim[]){2, 2}), &y, &err), &err);
    CHECK_EQ_I64(y.dims[0], 0);
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 2, (flx_dim[]){5, 5}), &y, &err), &err);
    CHECK_EQ_I64(y.dims[0], 2);
}

/* 2^40 rows of nothing: must not be walked row by row. */
TEST(movement_does_not_walk_empty_tensors)
{
    text_run r = text_begin("graph g() { x = full(f32[1099511627776, 0], 1)"
                            "  a, b = split(x, sizes=[1, 1099511627775])"
                            "  return concat(x, x, axis=0), b, stack(x, x, axis=2), triu(x) }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_I64(flx_tensor_count(r.out[i]), 0);
    text_end(&r);
}
