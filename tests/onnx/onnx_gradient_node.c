/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_gradient_node.c: nodes `Gradient` of ONNX models: y = sum(x w) of vectors, with w an initialiser, differentiated
   with respect to x, or to a tensor that a node computes. */
#include "onnx/onnx_bytes.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <fluxion/onnx.h>
#include <stdio.h>
#include <stdlib.h>

static const int64_t three[] = {3};

static void put_names(onnx_bytes *node, const char *attr, const char *name)
{
    onnx_bytes a = {.n = 0};
    put_text(&a, 1, attr);
    put_text(&a, 9, name);
    put_int(&a, 20, 8); /* a list of texts */
    put_part(node, 5, &a);
}

static onnx_bytes gradient_bytes(const char *y, const char *x, const char *at, const char *result)
{
    onnx_bytes n = onnx_node_bytes("Gradient", at, NULL, result), a = {.n = 0};
    put_text(&n, 7, "ai.onnx.preview.training");
    put_names(&n, "xs", x);
    put_text(&a, 1, "y");
    put_text(&a, 4, y);
    put_int(&a, 20, 3);
    put_part(&n, 5, &a);
    return n;
}

/* Nodes before the result d, in the order of `nodes`. */
static onnx_bytes model_bytes(const onnx_bytes *nodes, size_t n, const char *result)
{
    static const float w[] = {2, 3, 5};
    onnx_bytes g = {.n = 0}, own = {.n = 0}, wt = onnx_tensor_bytes("w", 1, three, 1);
    onnx_bytes x = onnx_info_bytes("x", 1, three, 1), at = onnx_info_bytes("at", 1, three, 1);
    onnx_bytes y = onnx_info_bytes(result, 1, three, 1);
    put_bytes(&wt, 9, w, sizeof w);
    for (size_t i = 0; i < n; i++)
        put_part(&g, 1, &nodes[i]);
    put_part(&g, 5, &wt);
    put_part(&g, 11, &x);
    put_part(&g, 11, &at);
    put_part(&g, 12, &y);
    onnx_bytes m = onnx_model_bytes(&g, 17);
    put_text(&own, 1, "ai.onnx.preview.training");
    put_int(&own, 2, 1);
    put_part(&m, 8, &own);
    CHECK(m.n < sizeof m.at);
    return m;
}

static flx_code read_model(const onnx_bytes *m, flx_error *err)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_onnx *read = flx_onnx_decode(ctx, m->at, m->n, "m.onnx", NULL, err);
    flx_code code = read ? FLX_OK : (flx_code)err->code;
    flx_onnx_free(read);
    flx_context_free(ctx);
    return code;
}

/* y = x x w, t = x x; what d is at x = (1, 1, 1), at = (1, 2, 3). */
static void check_values(const char *wrt, const float expected[3])
{
    static const float ones[] = {1, 1, 1}, at[] = {1, 2, 3};
    const onnx_bytes nodes[] = {onnx_node_bytes("Mul", "x", "x", "t"), onnx_node_bytes("Mul", "t", "w", "y"),
                                gradient_bytes("y", wrt, "at", "d")};
    onnx_bytes bytes = model_bytes(nodes, 3, "d");
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_onnx *m = flx_onnx_decode(ctx, bytes.at, bytes.n, "m.onnx", NULL, &err);
    CHECK_MSG(m, "%s", err.message);
    flx_type type = flx_type_make(FLX_F32, 1, three);
    flx_tensor *d = NULL;
    flx_feed feeds[] = {{"x", flx_tensor_new(ctx, &type, ones, NULL)},
                        {"at", flx_tensor_new(ctx, &type, at, NULL)},
                        {"w", flx_onnx_param_value(m, 0)}};
    CHECK_OK(flx_run(flx_onnx_graph(m), &(flx_run_options){.device = "ref"}, feeds, 3, &d, &err), &err);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(flx_tensor_get(d, i), (double)expected[i], 0);
    flx_tensor_release(d);
    flx_tensor_release((flx_tensor *)feeds[0].value);
    flx_tensor_release((flx_tensor *)feeds[1].value);
    flx_onnx_free(m);
    flx_context_free(ctx);
}

TEST(onnx_gradient_is_taken_at_its_operands)
{
    check_values("x", (const float[]){4, 12, 30}); /* 2 at w */
    check_values("t", (const float[]){2, 3, 5});   /* w, whatever the operand is */
}

TEST(onnx_gradient_of_what_is_not_there_is_refused)
{
    flx_error err = {0};
    const onnx_bytes late[] = {gradient_bytes("y", "x", "at", "d"), onnx_node_bytes("Mul", "x", "w", "y")};
    onnx_bytes m = model_bytes(late, 2, "d");
    CHECK_CODE(read_model(&m, &err), FLX_E_NAME, &err);
    CHECK_MSG(strstr(err.message, "no tensor 'y' is computed before it"), "%s", err.message);
    const onnx_bytes other[] = {onnx_node_bytes("ReduceSum", "x", NULL, "y"), gradient_bytes("y", "x", "y", "d")};
    m = model_bytes(other, 2, "d");
    CHECK_CODE(read_model(&m, &err), FLX_E_SHAPE, &err);
    CHECK_MSG(strstr(err.message, "operand 0 must be one tensor of the type of 'x'"), "%s", err.message);
}

/* Uses of a constant are evaluated when the model is read: its gradient would be zeros without a word. */
TEST(onnx_gradient_of_a_constant_is_refused)
{
    const onnx_bytes nodes[] = {onnx_node_bytes("Mul", "x", "w", "y"), gradient_bytes("y", "w", "at", "d")};
    const flx_onnx_options constants = {.struct_size = sizeof constants, .flags = FLX_ONNX_CONSTANTS};
    onnx_bytes m = model_bytes(nodes, 2, "d");
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_onnx *read = flx_onnx_decode(ctx, m.at, m.n, "m.onnx", &constants, &err);
    CHECK(!read);
    CHECK_CODE((flx_code)err.code, FLX_E_UNSUPPORTED, &err);
    CHECK_MSG(strstr(err.message, "'w' is a constant"), "%s", err.message);
    flx_context_free(ctx);
}

/* Each gradient is about as large as what it is of, and part of what the next one is of. */
TEST(onnx_gradients_that_multiply_are_refused_by_their_nodes)
{
    enum { MOST = 20 };
    onnx_bytes *nodes = calloc(2 * MOST + 1, sizeof *nodes);
    char name[MOST + 1][2][8];
    flx_error err = {0};
    CHECK(nodes);
    snprintf(name[0][0], sizeof name[0][0], "x");
    for (int i = 0; i < MOST; i++) {
        snprintf(name[i][1], sizeof name[i][1], "y%d", i);
        snprintf(name[i + 1][0], sizeof name[i + 1][0], "d%d", i);
        nodes[2 * i] = onnx_node_bytes("Mul", name[i][0], "x", name[i][1]);
        nodes[2 * i + 1] = gradient_bytes(name[i][1], "x", "x", name[i + 1][0]);
    }
    onnx_bytes m = model_bytes(nodes, 6, name[3][0]);
    CHECK_CODE(read_model(&m, &err), FLX_OK, &err);
    m = model_bytes(nodes, 2 * MOST, name[MOST][0]);
    flx_code code = read_model(&m, &err);
    CHECK_MSG(code == FLX_OK || code == FLX_E_SIZE, "%s", err.message);
    free(nodes);
}
