/* SPDX-License-Identifier: Apache-2.0 */
/* mixed_precision.c: products in 16 bits, everything else in f32. */
#include "fault.h"
#include "graph/graph_text.h"

#include <fluxion/run.h>
#include <fluxion/transform.h>

static void check_mixes(const char *text, const char *expected)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, text), *mixed = flx_mixed_precision(g, FLX_BF16, &err);
    CHECK_MSG(mixed != NULL, "%s", err.message);
    flx_buffer printed = text_of(mixed);
    CHECK_EQ_STR(printed.data, expected);
    check_round_trip(mixed);
    flx_buffer_free(&printed);
    flx_graph_release(mixed);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(mixed_precision_rounds_operands_of_products_alone)
{
    check_mixes("graph f(x: f32[2, 3], w: f32[3, 4], b: f32[4]) { return tanh(add(matmul(x, w), b)) }\n",
                "graph f(x: f32[2, 3], w: f32[3, 4], b: f32[4]) {\n"
                "  v0 = cast(x, to=bf16)\n"
                "  v1 = cast(w, to=bf16)\n"
                "  v2 = matmul(v0, v1)\n"
                "  v3 = cast(v2, to=f32)\n"
                "  v4 = add(v3, b)\n"
                "  out0 = tanh(v4)\n"
                "  return out0\n"
                "}\n");
}

/* What lies between two products and only moves elements is not rounded again. */
TEST(mixed_precision_moves_elements_in_the_low_dtype)
{
    check_mixes("graph f(x: f32[2, 3], w: f32[3, 2]) { return matmul(transpose(matmul(x, w)), x) }\n",
                "graph f(x: f32[2, 3], w: f32[3, 2]) {\n"
                "  v0 = cast(x, to=bf16)\n"
                "  v1 = cast(w, to=bf16)\n"
                "  v2 = matmul(v0, v1)\n"
                "  v3 = transpose(v2, perm=[1, 0])\n"
                "  v4 = matmul(v3, v0)\n"
                "  out0 = cast(v4, to=f32)\n"
                "  return out0\n"
                "}\n");
}

TEST(mixed_precision_leaves_other_dtypes_and_ops)
{
    check_mixes(
        "graph f(x: f64[2, 2], i: i32[2, 2], s: f32[2, 2]) { return matmul(x, x), matmul(i, i), cholesky(s) }\n",
        "graph f(x: f64[2, 2], i: i32[2, 2], s: f32[2, 2]) {\n"
        "  out0 = matmul(x, x)\n"
        "  out1 = matmul(i, i)\n"
        "  out2 = cholesky(s)\n"
        "  return out0, out1, out2\n"
        "}\n");
}

/* Bodies keep the types of their ends, and a block becomes primitive ops. */
TEST(mixed_precision_changes_bodies_once)
{
    check_mixes("graph step(h: f32[2, 2], w: f32[2, 2]) { return matmul(h, w) }\n"
                "graph f(h: f32[2, 2], w: f32[2, 2]) {\n"
                "  a = scan(h, w, body=@step, num_bcast=1, length=3)\n"
                "  return scan(a, w, body=@step, num_bcast=1, length=2)\n}\n",
                "graph step(h: f32[2, 2], w: f32[2, 2]) {\n"
                "  v0 = cast(h, to=bf16)\n"
                "  v1 = cast(w, to=bf16)\n"
                "  v2 = matmul(v0, v1)\n"
                "  out0 = cast(v2, to=f32)\n"
                "  return out0\n"
                "}\n"
                "\n"
                "graph f(h: f32[2, 2], w: f32[2, 2]) {\n"
                "  a = scan(h, w, body=@step, num_bcast=1, length=3)\n"
                "  out0 = scan(a, w, body=@step, num_bcast=1, length=2)\n"
                "  return out0\n"
                "}\n");
}

/* ---- Values ---- */

static const char model[] =
    "graph f(x: f32[4, 8], param w: f32[8, 6], param v: f32[6, 3]) {\n"
    "  h = softmax(matmul(x, w), axis=-1)\n  return reduce_sum(mul(matmul(h, v), matmul(h, v)))\n}\n";

static flx_tensor *value_of(flx_context *ctx, const flx_type *t, uint64_t seed)
{
    flx_tensor *x = flx_tensor_new(ctx, t, NULL, NULL);
    float *data = flx_tensor_data(x);
    for (int64_t i = 0; i < flx_tensor_count(x); i++)
        data[i] = (float)((seed * 37 + (uint64_t)i * 29) % 97) / 97 - 0.5f;
    return x;
}

static void run_on_values(const flx_graph *g, flx_tensor **out)
{
    flx_error err = {0};
    flx_feed feeds[8];
    size_t n = flx_graph_input_count(g);
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(g, i);
        feeds[i] = (flx_feed){flx_val_name(g, v), value_of(flx_graph_context(g), flx_val_type(g, v), i)};
    }
    CHECK_OK(flx_run(g, NULL, feeds, n, out, &err), &err);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
}

/* Close to f32, and not the same: 8 bits of each operand are lost. */
static void check_close(const flx_graph *a, const flx_graph *b, double bound)
{
    flx_tensor *x[8] = {0}, *y[8] = {0};
    double most = 0;
    run_on_values(a, x);
    run_on_values(b, y);
    for (size_t k = 0; k < flx_graph_output_count(a); k++) {
        CHECK_EQ_U64((uint64_t)flx_tensor_type(y[k])->dtype, FLX_F32);
        for (int64_t i = 0; i < flx_tensor_count(x[k]); i++) {
            double apart = flx_tensor_get(x[k], i) - flx_tensor_get(y[k], i);
            most = apart * apart > most ? apart * apart : most;
        }
        flx_tensor_release(x[k]);
        flx_tensor_release(y[k]);
    }
    CHECK_MSG(most > 0 && most < bound * bound, "the square of the largest difference is %g", most);
}

TEST(mixed_precision_is_close_and_so_are_gradients)
{
    static const char *const wrt[] = {"w", "v"};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, model), *mixed = flx_mixed_precision(g, FLX_BF16, &err);
    CHECK_MSG(mixed != NULL, "%s", err.message);
    check_close(g, mixed, 1e-2);
    flx_graph *dg = flx_grad(g, wrt, 2, NULL, &err), *dm = flx_grad(mixed, wrt, 2, NULL, &err);
    CHECK_MSG(dg && dm, "%s", err.message);
    check_close(dg, dm, 1e-2);
    flx_graph_release(dg);
    flx_graph_release(dm);
    flx_graph_release(mixed);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(mixed_precision_out_of_memory)
{
    flx_code code = FLX_E_OOM;
    for (size_t at = 1; code != FLX_OK; at++) {
        fault f = {0};
        flx_error err = {0};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        flx_graph *g = graph_of(ctx, model);
        f.fail_at = f.calls + at;
        flx_graph *mixed = flx_mixed_precision(g, FLX_F16, &err);
        code = mixed ? FLX_OK : (flx_code)err.code;
        CHECK(code == FLX_OK || code == FLX_E_OOM);
        flx_graph_release(mixed);
        flx_graph_release(g);
        flx_context_free(ctx);
    }
}
