/* Ops along an axis: what oracle values cannot show. Values: tests/oracle/axis.py. */
#include "run_text.h"

TEST(softmax_of_scalar_is_a_shape_error)
{
    text_run r = text_begin("graph g(x: f32[]) { return softmax(x) }");
    CHECK_CODE(r.code, FLX_E_SHAPE, &r.err);
    text_end(&r);
}

/* 2^40 rows of nothing: must not be walked row by row. */
TEST(axis_ops_skip_rows_of_an_empty_axis)
{
    text_run r = text_begin("graph g() { x = full(f32[1099511627776, 0], 1)"
                            "  s, i = top_k(full(f32[0, 3], 1), k=1)"
                            "  return softmax(x), cumsum(x), sort(x), s }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_I64(flx_tensor_count(r.out[i]), 0);
    text_end(&r);
}

/* The sums of the two smallest terms stay visible beside a maximum that dwarfs exp's range. */
TEST(cumlogsumexp_does_not_overflow)
{
    text_run r = text_begin("graph g() { return cumlogsumexp(const(f64[3], [1e5, 1e5, -1e5])) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 1), 1e5 + 0.69314718055994531, 1e-10);
    CHECK_NEAR(flx_tensor_get(r.out[0], 2), 1e5 + 0.69314718055994531, 1e-10);
    text_end(&r);
}
