/* SPDX-License-Identifier: Apache-2.0 */
/* Ops along an axis: what oracle values cannot show. Values: tests/oracle/axis.py. */
#include "ops/batch_text.h"
#include "ops/gradient_text.h"
#include "ops/run_text.h"

#include <math.h>

TEST(softmax_of_scalar_is_a_shape_error)
{
    text_run r = text_begin("graph g(x: f32[]) { return softmax(x) }");
    CHECK_CODE(r.code, FLX_E_SHAPE, &r.err);
    text_end(&r);
}

/* 2^40 empty rows: must not be visited row by row. */
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

/* The sums of the two smallest terms are not lost next to a maximum beyond the range of exp. */
TEST(cumlogsumexp_does_not_overflow)
{
    text_run r = text_begin("graph g() { return cumlogsumexp(const(f64[3], [1e5, 1e5, -1e5])) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 1), 1e5 + 0.69314718055994531, 1e-10);
    CHECK_NEAR(flx_tensor_get(r.out[0], 2), 1e5 + 0.69314718055994531, 1e-10);
    text_end(&r);
}

/* ---- Derivatives at special points ---- */

#define CHECK_ROW(text, ...) check_gradient((text), (const gradient_row[]){{"x", __VA_ARGS__}}, 1)
#define CHECK_HESSIAN_ROW(text, ...) check_hessian_of_ones((text), (const gradient_row[]){{"x", __VA_ARGS__}}, 1)

TEST(softmax_gives_nothing_to_masked_entries)
{
    CHECK_ROW("graph g(x: f64[3]) { return mul(softmax(x), const(f64[3], [1, 3, 7])) }", {0, 0, -INFINITY},
              {-0.5, 0.5, 0});
    CHECK_ROW("graph g(x: f64[2, 1]) { return softmax(x) }", {5, -5}, {0, 0});
}

TEST(cumprod_with_zeros)
{
    CHECK_ROW("graph g(x: f64[4]) { return cumprod(x) }", {2, 0, 3, 0}, {1, 8, 0, 0});
    CHECK_ROW("graph g(x: f64[3]) { return cumprod(x, exclusive=true, reverse=true) }", {2, 0, 3}, {0, 3, 1});
    CHECK_HESSIAN_ROW("graph g(x: f64[4]) { return reduce_sum(cumprod(x)) }", {2, 0, 3, 0}, {4, 12, 2, 6});
}

/* An infinite first factor is not multiplied by a zero from before the start. */
TEST(cumprod_with_infinite_factor_has_no_nan)
{
    CHECK_ROW("graph g(x: f64[2]) { return cumprod(x) }", {INFINITY, 2}, {3, INFINITY});
    CHECK_ROW("graph g(x: f64[3]) { return cumprod(x, reverse=true) }", {2, 3, INFINITY}, {INFINITY, INFINITY, 10});
}

TEST(cummax_gives_ties_to_the_first_winner)
{
    CHECK_ROW("graph g(x: f64[4]) { return cummax(x) }", {1, 3, 3, 2}, {1, 3, 0, 0});
    CHECK_ROW("graph g(x: f64[4]) { return cummax(x, reverse=true) }", {1, 3, 3, 2}, {0, 0, 3, 1});
    CHECK_ROW("graph g(x: f64[4]) { return cummin(x) }", {0, -1, -1, 5}, {1, 3, 0, 0});
    CHECK_ROW("graph g(x: f64[3]) { return cummax(x) }", {-INFINITY, -INFINITY, -INFINITY}, {3, 0, 0});
    CHECK_ROW("graph g(x: f64[2]) { return cummin(x, reverse=true) }", {INFINITY, INFINITY}, {0, 2});
}

TEST(cummax_gives_all_to_the_first_nan)
{
    CHECK_ROW("graph g(x: f64[4]) { return cummax(x) }", {1, NAN, 5, NAN}, {1, 3, 0, 0});
    CHECK_ROW("graph g(x: f64[4]) { return cummin(x, reverse=true) }", {NAN, 1, NAN, 7}, {0, 0, 3, 1});
}

/* The element that nothing precedes is infinite and constant. */
TEST(cummax_exclusive_starts_from_a_constant)
{
    CHECK_ROW("graph g(x: f64[3]) { return cummax(x, exclusive=true) }", {1, 3, 2}, {1, 1, 0});
    CHECK_ROW("graph g(x: f64[3]) { return cummin(x, exclusive=true, reverse=true) }", {1, 3, 2}, {0, 0, 2});
    CHECK_ROW("graph g(x: f64[1]) { return cumlogsumexp(x, exclusive=true) }", {4}, {0});
}

TEST(cumlogsumexp_has_no_nan_at_infinities)
{
    CHECK_ROW("graph g(x: f64[3]) { return cumlogsumexp(x) }", {-INFINITY, -INFINITY, 0}, {2, 1, 1});
    CHECK_ROW("graph g(x: f64[2]) { return cumlogsumexp(x) }", {1000, 0}, {2, 0});
    CHECK_ROW("graph g(x: f64[3]) { return cumlogsumexp(x, exclusive=true, reverse=true) }", {5, -INFINITY, 0},
              {0, 0, 2});
}

/* Shifted as it is written, axis -1 would be the batch: axes are normalised before anything is shifted. */
TEST(trap_22_last_axis_stays_the_last_in_a_batch)
{
    static const batch_row rows[] = {{"x", {1, 2, 3, 4}, true}};
    static const double sums[] = {1, 3, 3, 7};
    static const double totals[] = {3, 7};
    static const double halves[] = {0.5, 0.5, 0.25, 0.75};
    static const batch_row logs[] = {{"x", {0, 0, 0, 1.0986122886681098}, true}};
    check_batched("graph g(x: f64[2]) { return cumsum(x, axis=-1) }", 2, rows, 1, sums, 4);
    check_batched("graph g(x: f64[2]) { return reduce_sum(x, axes=[-1]) }", 2, rows, 1, totals, 2);
    check_batched("graph g(x: f64[2]) { return softmax(x, axis=-1) }", 2, logs, 1, halves, 4);
}
