/* SPDX-License-Identifier: Apache-2.0 */
/* transform_linearity.c: a jvp_body that reverse mode transposes must be linear in its tangents. What is linear is
   accepted and transposed correctly, everything else is rejected with the value that is not linear. */
#include "autodiff/transform_text.h"

static const char *const by_x[] = {"x"};

/* f(x) = custom_fn(x) with this jvp_body of x, t, y: f64[3]; `bodies` are graphs that it uses. */
static text_bench with_jvp(const char *body, const char *bodies)
{
    char text[1600];
    snprintf(text, sizeof text,
             "%s\n"
             "graph value(x: f64[3]) { return sin(x) }\n"
             "graph push(x: f64[3], t: f64[3], y: f64[3]) { %s }\n"
             "graph f(x: f64[3]) { return reduce_sum(mul(custom_fn(x, fwd_body=@value, jvp_body=@push), "
             "const(f64[3], [1, -2, 0.5]))) }\n",
             bodies, body);
    text_bench b = bench_open(text, NULL);
    bench_feed(&b, "x", 1, (const flx_dim[]){3}, (const double[]){0.25, 1.5, -0.75});
    return b;
}

/* Reverse mode is the transpose of forward mode: the same Jacobian both ways. */
static void accepted(const char *body, const char *bodies)
{
    text_bench b = with_jvp(body, bodies);
    flx_tensor *rows[TEXT_OUTPUTS] = {0}, *columns[TEXT_OUTPUTS] = {0};
    flx_graph *reverse = flx_jacobian(b.g, by_x, 1, &(flx_jacobian_options){.mode = FLX_JACOBIAN_REVERSE}, &b.err);
    CHECK_MSG(reverse != NULL, "%s: %s (%s)", body, b.err.message, b.err.where);
    flx_graph *forward = flx_jacobian(b.g, by_x, 1, &(flx_jacobian_options){.mode = FLX_JACOBIAN_FORWARD}, &b.err);
    bench_run(&b, reverse, rows);
    bench_run(&b, forward, columns);
    for (int64_t i = 0; i < 3; i++) {
        test_fail_context("%s: element %lld", body, (long long)i);
        CHECK_NEAR(flx_tensor_get(rows[0], i), flx_tensor_get(columns[0], i), 1e-13);
    }
    bench_release(reverse, rows);
    bench_release(forward, columns);
    flx_graph_release(reverse);
    flx_graph_release(forward);
    bench_close(&b);
}

static void rejected(const char *body, const char *bodies, const char *why)
{
    text_bench b = with_jvp(body, bodies);
    flx_graph *made = flx_grad(b.g, by_x, 1, NULL, &b.err);
    CHECK_MSG(made == NULL, "%s: accepted", body);
    CHECK_CODE(b.err.code, FLX_E_NO_RULE, &b.err);
    CHECK_MSG(strstr(b.err.message, "jvp_body is not linear in its tangents") && strstr(b.err.message, why), "%s: %s",
              body, b.err.message);
    flx_graph *pushed = flx_jvp(b.g, by_x, 1, &b.err); /* uses the body as it is */
    CHECK_MSG(pushed != NULL, "%s: %s", body, b.err.message);
    flx_graph_release(pushed);
    bench_close(&b);
}

TEST(jvp_bodies_that_are_linear_are_transposed)
{
    accepted("return mul(t, cos(x))", "");
    accepted("return div(t, add(x, 3))", "");
    accepted("return sub(mul(2, t), neg(reverse(t, axes=[0])))", "");
    accepted("return where(gt(x, 0), t, 0)", "");
    accepted("return where(gt(x, 0), t, mul(t, x))", "");
    accepted("return mul(0, t)", "");
    accepted("return concat(narrow(t, axis=0, start=0, len=2), full(f64[1], 0), axis=0)", "");
    accepted("return reduce_sum(matmul(expand(t, shape=[3, 3]), expand(x, shape=[3, 3])), axes=[0])", "");
    accepted("return solve(const(f64[3, 3], [[2, 1, 0], [1, 3, 0], [0, 1, 4]]), t)", "");
    accepted("return cast(cast(t, to=f64), to=f64)", "");
    accepted("return fma(t, x, 0)", "");
    accepted("return fma(t, x, t)", "");
    accepted("return fma(0, x, t)", "");
    accepted("return scatter_nd(t, const(i64[1, 1], [[1]]), const(f64[1], [5]), start_index_map=[0], "
             "collapsed_axes=[0], combine=mul)",
             "");
    accepted("return scatter_nd(t, const(i64[1, 1], [[1]]), const(f64[1], [0]), start_index_map=[0], "
             "collapsed_axes=[0], combine=set)",
             "");
    accepted("return reduce_window(t, 0, window=[2], pad_low=[1], combine=add)", "");
    accepted("return select_and_scatter(x, narrow(t, axis=0, start=0, len=1), 0, window=[3], strides=[3])", "");
    accepted("return mul(t, cast(dim_size(t, axis=0), to=f64))", "");
    accepted("return real(mul(complex(t, t), complex(x, y)))", "");
    accepted("return full(f64[3], 0)", "");
    accepted("return cumsum(t, axis=0)", "");
}

TEST(jvp_bodies_with_bodies_that_are_linear_are_transposed)
{
    static const char scaled[] = "graph one(t: f64[3], x: f64[3]) { return mul(t, x) }\n"
                                 "graph two(t: f64[3], x: f64[3]) { return neg(t) }\n"
                                 "graph none(t: f64[3], x: f64[3]) { return full(f64[3], 0) }";
    accepted("return if(gt(reduce_sum(x), 0), t, x, then=@one, else=@two)", scaled);
    accepted("return if(gt(reduce_sum(x), 0), t, x, then=@one, else=@none)", scaled);
    accepted("return custom_fn(t, x, fwd_body=@one)", scaled);
    accepted("return scan(t, x, body=@one, num_bcast=1, length=3)", scaled);
    accepted("c, n = while(t, full(f64[], 0), cond=@few, body=@step) return c",
             "graph few(t: f64[3], n: f64[]) { return lt(n, 3) }\n"
             "graph step(t: f64[3], n: f64[]) { return mul(t, 2), add(n, 1) }");
}

TEST(jvp_bodies_that_are_not_linear_are_rejected)
{
    rejected("return mul(t, t)", "", "mul");
    rejected("return add(t, x)", "", "add");
    rejected("return sin(t)", "", "sin");
    rejected("s = mul(t, cos(x)) bent = abs(s) return mul(bent, 2)", "", "abs 'bent'");
    rejected("return div(x, t)", "", "div");
    rejected("return max(t, 0)", "", "max");
    rejected("return where(gt(t, 0), t, 0)", "", "gt");
    rejected("return where(gt(x, 0), t, x)", "", "where");
    rejected("return stop_gradient(t)", "", "stop_gradient");
    rejected("return fma(t, x, x)", "", "fma");
    rejected("return fma(x, y, t)", "", "fma");
    rejected("return rem(t, 3)", "", "rem");
    rejected("return round(t)", "", "round");
    rejected("return sign(t)", "", "sign");
    rejected("return reduce_window(t, 1, window=[2], pad_low=[1], combine=add)", "", "reduce_window");
    rejected("return select_and_scatter(x, narrow(t, axis=0, start=0, len=1), 1, window=[3], strides=[3])", "",
             "select_and_scatter");
    rejected("return prelu(x, t)", "", "prelu");
    rejected("return scatter_nd(t, const(i64[1, 1], [[1]]), const(f64[1], [5]), start_index_map=[0], "
             "collapsed_axes=[0], combine=set)",
             "", "scatter_nd");
    rejected("return x", "", "an output does not depend on them and is not zero");
    rejected("return sort(t, axis=0)", "", "sort");
}

TEST(jvp_bodies_with_bodies_that_are_not_linear_are_rejected)
{
    static const char bent[] = "graph one(t: f64[3], x: f64[3]) { return mul(t, x) }\n"
                               "graph square(t: f64[3], x: f64[3]) { return mul(t, t) }\n"
                               "graph other(t: f64[3], x: f64[3]) { return x }";
    rejected("return if(gt(reduce_sum(x), 0), t, x, then=@one, else=@square)", bent, "if");
    rejected("return if(gt(reduce_sum(x), 0), t, x, then=@one, else=@other)", bent, "if");
    rejected("return if(gt(reduce_sum(t), 0), t, x, then=@one, else=@one)", bent, "gt");
    rejected("return scan(x, t, body=@one, num_bcast=1, length=3)", bent, "scan");
    rejected("return scan(x, t, body=@sum, num_bcast=1, length=3)",
             "graph sum(c: f64[3], t: f64[3]) { return add(c, t) }", "scan");
    rejected("return while(t, cond=@small, body=@step)",
             "graph small(t: f64[3]) { return lt(reduce_sum(t), 100) }\n"
             "graph step(t: f64[3]) { return mul(t, 2) }",
             "while");
}
