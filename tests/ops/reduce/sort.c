/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting: inconsistent comparisons, and error texts. Values: tests/oracle/sort.py. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"

#include <math.h>

/* Whatever compare says, the result is a permutation of the input. */
static void check_permutation(const char *answer)
{
    char text[256];
    snprintf(text, sizeof text,
             "graph f(a: i32[], b: i32[]) { return %s }"
             "graph g() { return sort(iota(i32[33]), compare=@f) }",
             answer);
    test_fail_context("compare is %s", answer);
    text_run r = text_begin(text);
    CHECK_OK(r.code, &r.err);
    CHECK_EQ_I64(flx_tensor_count(r.out[0]), 33);
    bool seen[33] = {false};
    for (int i = 0; i < 33; i++) {
        int v = (int)flx_tensor_get(r.out[0], i);
        CHECK(v >= 0 && v < 33 && !seen[v]);
        seen[v] = true;
    }
    text_end(&r);
}

TEST(sort_with_inconsistent_compare_is_a_permutation)
{
    check_permutation("eq(a, a)");                 /* everything before everything */
    check_permutation("eq(rem(add(a, b), 2), 0)"); /* symmetric */
    check_permutation("eq(rem(sub(a, b), 3), 1)"); /* a cycle */
}

TEST(sort_compare_failure_reaches_the_caller)
{
    text_run r = text_begin("graph f(a: i32[], b: i32[]) { return lt(check(a, b, message=\"zero\"), 2) }"
                            "graph g() { return sort(const(i32[3], [1, 0, 2]), compare=@f) }");
    CHECK_CODE(r.code, FLX_E_CHECK, &r.err);
    text_end(&r);
}

TEST(sort_errors_say_what_differs)
{
    check_text_fails("graph g(x: f32[3], y: f32[4]) { a, b = sort(x, y) return a, b }", FLX_E_SHAPE,
                     "sort 'a': operand 1, of shape [4], does not match the shape [3] before it");
    check_text_fails("graph g(x: c64[3]) { a = sort(x) return a }", FLX_E_DTYPE,
                     "sort 'a': key 1 is c64, which has no order");
    check_text_fails("graph g(x: f32[2, 3]) { return topk(x, k=4) }", FLX_E_ATTRIBUTE,
                     "topk: k=4 is out of range for axis 1 of x [2, 3]");
}

TEST(topk_checks_k_again_when_symbols_are_bound)
{
    const char text[] = "graph g(x: f32[N]) { return topk(x, k=3) }";
    flx_error err;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_dim_binding fits = {"N", 3};
    flx_graph *g = flx_specialise(flx_module_main(m), &fits, 1, &err);
    CHECK_OK(g ? FLX_OK : err.code, &err);
    flx_graph_release(g);
    flx_dim_binding small = {"N", 2};
    CHECK(flx_specialise(flx_module_main(m), &small, 1, &err) == NULL);
    CHECK_EQ_I64(err.code, FLX_E_ATTRIBUTE);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* ---- Derivatives ---- */

#define CHECK_ROW(text, ...) check_gradient((text), (const gradient_row[]){{"x", __VA_ARGS__}}, 1)

TEST(sort_sends_cotangents_back_where_values_came_from)
{
    CHECK_ROW("graph g(x: f64[3]) { return mul(sort(x), const(f64[3], [10, 20, 30])) }", {2, 1, 1}, {30, 10, 20});
    CHECK_ROW("graph g(x: f64[3]) { return mul(sort(x, descending=true), const(f64[3], [10, 20, 30])) }", {1, NAN, 1},
              {20, 10, 30});
    CHECK_ROW("graph g(x: f64[2, 2]) { k, v = sort(const(i32[2, 2], [[2, 7], [1, 9]]), x, axis=0)"
              "  return mul(v, const(f64[2, 2], [[1, 2], [3, 4]])) }",
              {5, 6, 7, 8}, {3, 2, 1, 4});
}

TEST(sort_by_comparison_sends_cotangents_back)
{
    CHECK_ROW("graph f(a: f64[], b: f64[]) { return gt(mul(a, a), mul(b, b)) }"
              "graph g(x: f64[3]) { return mul(sort(x, compare=@f), const(f64[3], [10, 20, 30])) }",
              {1, -3, 2}, {30, 10, 20});
}

TEST(top_k_values_scatter_back)
{
    CHECK_ROW("graph g(x: f64[4]) { v, i = top_k(x, k=2) return mul(v, const(f64[2], [10, 20])) }", {1, 5, 5, NAN},
              {0, 20, 0, 10});
    CHECK_ROW("graph g(x: f64[2, 2]) { v, i = top_k(x, k=1, axis=0) return v }", {1, 4, 2, 3}, {0, 1, 1, 0});
}

static int count_in(const flx_graph *g, const char *word)
{
    flx_buffer text;
    flx_error err = {0};
    int n = 0;
    CHECK_OK((int32_t)flx_graph_print(g, &text, &err), &err);
    for (const char *at = strstr(text.data, word); at; at = strstr(at + 1, word))
        n++;
    flx_buffer_free(&text);
    return n;
}

/* Positions are sorted along with the values in either mode: the order is computed once. */
TEST(sort_is_differentiated_with_one_sort)
{
    const char text[] = "graph g(x: f64[5]) { y = sort(x) return reduce_sum(mul(y, y)) }";
    const char *names[] = {"x"};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_grad_options options = {.flags = FLX_GRAD_VALUE};
    flx_graph *grad = flx_grad(flx_module_main(m), names, 1, &options, &err);
    CHECK_OK(grad ? FLX_OK : err.code, &err);
    flx_graph *jvp = flx_jvp(flx_module_main(m), names, 1, &err);
    CHECK_OK(jvp ? FLX_OK : err.code, &err);
    CHECK_EQ_I64(count_in(grad, "sort("), 1);
    CHECK_EQ_I64(count_in(jvp, "sort("), 1);
    flx_graph_release(grad);
    flx_graph_release(jvp);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* A winner is marked and not overwritten by -inf: positions are distinct. */
TEST(trap_24_topk_of_minus_infinities_gives_distinct_positions)
{
    text_run r = text_begin("graph g() {\n  x = const(f32[2, 3], [[-inf, -inf, 3], [-inf, -inf, -inf]])\n"
                            "  v, i = top_k(x, k=3)\n  return topk(x, k=3), i\n}");
    static const double want[] = {2, 0, 1, 0, 1, 2};
    CHECK_OK(r.code, &r.err);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 6; i++)
            CHECK_NEAR(flx_tensor_get(r.out[k], i), want[i], 0);
    text_end(&r);
}
