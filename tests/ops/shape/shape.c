/* SPDX-License-Identifier: Apache-2.0 */
/* Shape ops: symbolic extents, empty tensors and error texts. Values: tests/oracle/shape.py. */
#include "ops/symbolic_text.h"

TEST(reshape_error_shows_both_counts)
{
    check_text_fails("graph g(x: f32[2, 3]) { return reshape(x, shape=[4, 2]) }", FLX_E_SHAPE,
                     "reshape: element counts differ: x is [2, 3] (6 elements), shape is [4, 2] (8 elements)");
    check_text_fails("graph g(x: f32[N, 2]) { return reshape(x, shape=[2*N+1]) }", FLX_E_SHAPE,
                     "reshape: element counts differ: x is [N, 2] (2*N elements), "
                     "shape is [2*N + 1] (2*N + 1 elements)");
}

TEST(reshape_infers_a_symbolic_extent)
{
    check_text_type("graph g(x: f32[N, 6]) { return reshape(x, shape=[-1, 3]) }", "f32[2*N, 3]");
    check_text_type("graph g(x: f32[N, M]) { return reshape(x, shape=[M, -1]) }", "f32[M, N]");
}

TEST(reshape_decides_possible_equality_when_bound)
{
    const char *text = "graph g(x: f32[N, 2]) { return reshape(x, shape=[3, 4]) }";
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 2, (flx_dim[]){6, 2}), &y, &err), &err);
    CHECK_CODE(run_text_at(text, flx_type_make(FLX_F32, 2, (flx_dim[]){5, 2}), &y, &err), FLX_E_SHAPE, &err);
}

/* -1 with symbols is a division that must be exact once they are numbers. */
TEST(reshape_inexact_division_fails_when_bound)
{
    const char *text = "graph g(x: f32[N, 2]) { return reshape(x, shape=[-1, 4]) }";
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 2, (flx_dim[]){6, 2}), &y, &err), &err);
    CHECK_EQ_I64(y.dims[0], 3);
    CHECK(run_text_at(text, flx_type_make(FLX_F32, 2, (flx_dim[]){5, 2}), &y, &err) != FLX_OK);
}

/* The rank of a result must not depend on what a symbol is bound to. */
TEST(squeeze_keeps_symbolic_axes)
{
    const char *text = "graph g(x: f32[N, 1, 3]) { return squeeze(x) }";
    check_text_type(text, "f32[N, 3]");
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 3, (flx_dim[]){1, 1, 3}), &y, &err), &err);
    CHECK_EQ_I64(y.rank, 2);
}

TEST(expand_stretches_a_symbol_bound_to_one)
{
    const char *text = "graph g(x: f32[N]) { return expand(x, shape=[2, 4]) }";
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){1}), &y, &err), &err);
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){4}), &y, &err), &err);
    CHECK_CODE(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){3}), &y, &err), FLX_E_SHAPE, &err);
}

TEST(expand_error_names_axis_and_extent)
{
    check_text_fails("graph g(x: f32[3, 2]) { return expand(x, shape=[4, 2]) }", FLX_E_SHAPE,
                     "expand: axis 0 of x, of shape [3, 2], cannot become 4");
}

/* 2^40 empty rows: must not be visited row by row. */
TEST(shape_ops_do_not_walk_empty_tensors)
{
    text_run r = text_begin("graph g() { x = full(f32[1099511627776, 0], 1)"
                            "  return transpose(x), expand(x, shape=[2, -1, 0]), roll(x, shift=1, axis=0),"
                            "    tile(x, repeats=[2, 2]) }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_I64(flx_tensor_count(r.out[i]), 0);
    text_end(&r);
}
