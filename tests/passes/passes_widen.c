/* SPDX-License-Identifier: Apache-2.0 */
/* passes_widen.c: the same computation in double precision. */
#include "fault.h"
#include "graph/graph_text.h"

static void check_widens(const char *text, const char *expected)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, text);
    flx_buffer before = text_of(g);
    flx_graph *wide = flx_widen(g, &err);
    CHECK_MSG(wide != NULL, "%s", err.message);
    flx_buffer printed = text_of(wide);
    CHECK_EQ_STR(printed.data, expected);
    check_round_trip(wide);
    flx_buffer after = text_of(g);
    CHECK_EQ_STR(after.data, before.data);
    flx_buffer_free(&before);
    flx_buffer_free(&after);
    flx_buffer_free(&printed);
    flx_graph_release(wide);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(widen_changes_leaves_constants_and_casts)
{
    check_widens("graph f(x: f32[N, 2], param h: bf16[3], z: c64[2], i: i32[2], b: bool[], d: f64[]) {\n"
                 "  k = const(f32[2], [0.1, 2])\n"
                 "  y = mul(add(x, k), full(f32[], 3))\n"
                 "  e = eye(n=2)\n"
                 "  n = cast(i, to=f16)\n"
                 "  m = cast(y, to=i32)\n"
                 "  o = full(c64[2], 1)\n"
                 "  return y, h, z, e, n, m, o, b, d\n"
                 "}\n",
                 "graph f(x: f64[N, 2], param h: f64[3], z: c128[2], i: i32[2], b: bool[], d: f64[]) {\n"
                 "  k = const(f64[2], [0.10000000149011612, 2])\n"
                 "  v0 = add(x, k)\n"
                 "  v1 = full(f64[], 3)\n"
                 "  y = mul(v0, v1)\n"
                 "  e = eye(n=2, m=2, dtype=f64)\n"
                 "  n = cast(i, to=f64)\n"
                 "  m = cast(y, to=i32)\n"
                 "  o = full(c128[2], [1, 0])\n"
                 "  return y, h, z, e, n, m, o, b, d\n"
                 "}\n");
}

static const char with_bodies[] = "graph inner(x: f16[]) { return mul(x, 0.5) }\n"
                                  "graph other(x: f16[]) { return x }\n"
                                  "graph step(h: f16[], p: bool[]) {\n"
                                  "  return if(p, h, then=@inner, else=@other)\n"
                                  "}\n"
                                  "graph f(h: f16[], p: bool[T]) {\n"
                                  "  a = scan(h, p, body=@step)\n"
                                  "  b = scan(a, p, body=@step)\n"
                                  "  return b\n"
                                  "}\n";

TEST(widen_changes_bodies_once)
{
    check_widens(with_bodies, "graph inner(x: f64[]) {\n"
                              "  out0 = mul(x, 0.5)\n"
                              "  return out0\n"
                              "}\n"
                              "\n"
                              "graph other(x: f64[]) {\n"
                              "  return x\n"
                              "}\n"
                              "\n"
                              "graph step(h: f64[], p: bool[]) {\n"
                              "  out0 = if(p, h, then=@inner, else=@other)\n"
                              "  return out0\n"
                              "}\n"
                              "\n"
                              "graph f(h: f64[], p: bool[T]) {\n"
                              "  a = scan(h, p, body=@step)\n"
                              "  b = scan(a, p, body=@step)\n"
                              "  return b\n"
                              "}\n");
}

TEST(widen_reports_ops_that_depend_on_the_width)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, "graph f(x: f32[3]) {\n"
                                 "  b = bitcast(x, to=i32)\n"
                                 "  return add(b, const(i32[3], [1, 2, 3]))\n"
                                 "}\n");
    CHECK(flx_widen(g, &err) == NULL);
    CHECK(err.code != FLX_OK);
    CHECK(strncmp(err.where, "widen of 'f'", 12) == 0);
    CHECK(flx_widen(g, NULL) == NULL);
    CHECK(flx_widen(NULL, &err) == NULL);
    CHECK_CODE(err.code, FLX_E_USAGE, &err);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* Fails at every request for memory in turn; nothing may leak. */
TEST(widen_survives_exhausted_memory)
{
    for (size_t n = 1;; n++) {
        fault f = {0};
        flx_error err = {0};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        flx_graph *g = graph_of(ctx, with_bodies);
        f.fail_at = f.calls + n;
        flx_graph *wide = flx_widen(g, &err);
        bool failed = f.failed > 0;
        CHECK_MSG(failed ? !wide && err.code == FLX_E_OOM : wide != NULL, "request %zu: %s", n, err.message);
        f.fail_at = 0;
        flx_graph_release(wide);
        flx_graph_release(g);
        flx_context_free(ctx);
        CHECK(fault_is_clean(&f));
        if (!failed)
            break;
    }
}
