/* SPDX-License-Identifier: Apache-2.0 */
/* passes_widen.c: the same computation in double precision. */
#include "fault.h"
#include "graph/graph_text.h"
#include "ops/opcode.h"
#include "ops/sample.h"

#include <math.h>

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

TEST(widen_keeps_the_dtypes_of_bits)
{
    check_widens("graph one(x: f32[]) { return add(bitcast(x, to=i32), 255) }\n"
                 "graph f(x: f32[3], z: c64[2], i: i16[4]) {\n"
                 "  b = bitcast(x, to=i32)\n"
                 "  y = bitcast(add(b, const(i32[3], [1, 2, 3])), to=f32)\n"
                 "  p = bitcast(z, to=f32)\n"
                 "  h = bitcast(i, to=f16)\n"
                 "  m = map(x, body=@one)\n"
                 "  return y, p, h, m, bitcast(i, to=u8)\n"
                 "}\n",
                 "graph one(x: f64[]) {\n"
                 "  v0 = cast(x, to=f32)\n"
                 "  v1 = bitcast(v0, to=i32)\n"
                 "  out0 = add(v1, 255)\n"
                 "  return out0\n"
                 "}\n"
                 "\n"
                 "graph f(x: f64[3], z: c128[2], i: i16[4]) {\n"
                 "  v0 = cast(x, to=f32)\n"
                 "  b = bitcast(v0, to=i32)\n"
                 "  v1 = const(i32[3], [1, 2, 3])\n"
                 "  v2 = add(b, v1)\n"
                 "  v3 = bitcast(v2, to=f32)\n"
                 "  y = cast(v3, to=f64)\n"
                 "  v4 = cast(z, to=c64)\n"
                 "  v5 = bitcast(v4, to=f32)\n"
                 "  p = cast(v5, to=f64)\n"
                 "  v6 = bitcast(i, to=f16)\n"
                 "  h = cast(v6, to=f64)\n"
                 "  m = map(x, body=@one)\n"
                 "  out4 = bitcast(i, to=u8)\n"
                 "  return y, p, h, m, out4\n"
                 "}\n");
}

TEST(widen_of_nothing_is_an_error)
{
    flx_error err = {0};
    CHECK(flx_widen(NULL, &err) == NULL);
    CHECK_CODE(err.code, FLX_E_USAGE, &err);
    CHECK(flx_widen(NULL, NULL) == NULL);
}

/* ---- Every op ---- */

/* Draws of f64 take other words than those of f32, and custom ops are what their program says. */
static bool takes_width(const sample_case *c)
{
    return flxi_ops[c->op].op_class != CLASS_RANDOM;
}

static void check_close(const sample_case *c, const flx_tensor *narrow, const flx_tensor *wide)
{
    bool is_float = flx_tensor_type(narrow)->dtype == FLX_F32;
    double scale = 1;
    for (int64_t i = 0; i < flx_tensor_count(wide); i++)
        if (isfinite(flx_tensor_get(wide, i)))
            scale = fmax(scale, fabs(flx_tensor_get(wide, i)));
    for (int64_t i = 0; is_float && i < flx_tensor_count(narrow); i++) {
        double a = flx_tensor_get(narrow, i), b = flx_tensor_get(wide, i);
        bool is_close = a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-3 * scale;
        if (!EXPECT_MSG(is_close, "%s: element %lld is %g in f32 and %g in f64", sample_describe(c), (long long)i, a,
                        b))
            return;
    }
}

/* In f32, with small whole numbers: f64 has the same ones. */
static void widen_case(const sample_case *c)
{
    flx_error err = {0};
    bool is_narrow = c->dtype == FLX_F32 || (c->dtype == FLX_DTYPE_NONE && sample_says(c->sample, "f32"));
    if (c->sample->error != FLX_OK || !is_narrow)
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, c, &err);
    CHECK_MSG(m, "%s: %s", sample_describe(c), err.message);
    flx_graph *g = flx_module_main(m), *wide = flx_widen(g, &err);
    flx_tensor *a[SAMPLE_MAX_OPERANDS] = {0}, *b[SAMPLE_MAX_OPERANDS] = {0};
    EXPECT_MSG(wide, "%s: %s", sample_describe(c), err.message);
    if (wide && takes_width(c) && sample_run(g, c, FILL_ONES, a, &err) == FLX_OK &&
        EXPECT_MSG(sample_run(wide, c, FILL_ONES, b, &err) == FLX_OK, "%s: %s", sample_describe(c), err.message))
        for (size_t k = 0; k < flx_graph_output_count(g); k++)
            check_close(c, a[k], b[k]);
    for (size_t k = 0; k < SAMPLE_MAX_OPERANDS; k++) {
        flx_tensor_release(a[k]);
        flx_tensor_release(b[k]);
    }
    flx_graph_release(wide);
    flx_module_free(m);
    flx_context_free(ctx);
    test_count_case();
}

TEST(widen_takes_every_op)
{
    sample_each(widen_case);
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
