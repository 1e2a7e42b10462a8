/* Sorting: comparisons that lie, and error texts. Values: tests/oracle/sort.py. */
#include "run_text.h"

#include <stdio.h>

/* Whatever compare says, the result is a permutation of what came in. */
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
    check_permutation("eq(a, a)");                     /* everything before everything */
    check_permutation("eq(rem(add(a, b), 2), 0)");     /* symmetric */
    check_permutation("eq(rem(sub(a, b), 3), 1)");     /* a cycle */
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
                     "sort 'a': operand 1, of shape [4], does not fit to [3] before it");
    check_text_fails("graph g(x: c64[3]) { a = sort(x) return a }", FLX_E_DTYPE,
                     "sort 'a': key 1 is c64, which has no order");
    check_text_fails("graph g(x: f32[2, 3]) { return topk(x, k=4) }", FLX_E_ATTRIBUTE,
                     "topk: k is 4, but axis 1 of x [2, 3] must hold it");
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
    flx_graph_free(g);
    flx_dim_binding small = {"N", 2};
    CHECK(flx_specialise(flx_module_main(m), &small, 1, &err) == NULL);
    CHECK_EQ_I64(err.code, FLX_E_ATTRIBUTE);
    flx_module_free(m);
    flx_context_free(ctx);
}
