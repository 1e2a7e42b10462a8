/* SPDX-License-Identifier: Apache-2.0 */
/* Composites against formulas in this file, with the C library's functions; shapes and error texts. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"
#include "ops/symbolic_text.h"

#include <fluxion/ops.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 3, COLUMNS = 4 };

/* The literals of x, w, v: f64[.., 4] and b: f64[4] in the texts below. */
static const double x_at[ROWS][COLUMNS] = {{0.5, -1, 2, 0.25}, {-0.75, 1.5, 0, 1}, {3, -2, 0.125, -0.5}};
static const double w_at[COLUMNS][COLUMNS] = {
    {1, -0.5, 0.25, 2}, {0.5, 1, -1, 0}, {-0.25, 0.75, 1, -1}, {2, 0, 0.5, 1}};
static const double v_at[COLUMNS][COLUMNS] = {{0, 1, 0.5, -1}, {1, -0.25, 0, 2}, {0.5, 0.5, -1, 1}, {-2, 1, 0.25, 0}};
static const double b_at[COLUMNS] = {0.5, -0.25, 1, -2};

static const char literals[] =
    "x = const(f64[3, 4], [[0.5, -1, 2, 0.25], [-0.75, 1.5, 0, 1], [3, -2, 0.125, -0.5]])\n"
    "w = const(f64[4, 4], [[1, -0.5, 0.25, 2], [0.5, 1, -1, 0], [-0.25, 0.75, 1, -1], [2, 0, 0.5, 1]])\n"
    "v = const(f64[4, 4], [[0, 1, 0.5, -1], [1, -0.25, 0, 2], [0.5, 0.5, -1, 1], [-2, 1, 0.25, 0]])\n"
    "b = const(f64[4], [0.5, -0.25, 1, -2])\n";

typedef double matrix[ROWS][COLUMNS];

static double sigmoid(double z)
{
    return 1 / (1 + exp(-z));
}

static double activation(const char *name, double z)
{
    switch (name[0]) {
    case 'r': return z > 0 ? z : 0;
    case 't': return tanh(z);
    case 'm': return z * tanh(log1p(exp(z)));
    case 'g':
        return name[4] ? z / 2 * (1 + tanh(sqrt(2 / acos(-1.0)) * (z + 0.044715 * z * z * z)))
                       : z / 2 * erfc(-z / sqrt(2));
    case 'h': return z * fmin(fmax(z / 6 + 0.5, 0), 1);
    case 's':
        return name[1] == 'i'   ? (name[2] == 'g' ? sigmoid(z) : z * sigmoid(z))
               : name[1] == 'o' ? log1p(exp(z))
                                : 1.0507009873554805 * (z > 0 ? z : 1.6732632423543772 * expm1(z));
    default: return z;
    }
}

/* act(x w + b); b may be NULL. */
static void layer(matrix y, double (*x)[COLUMNS], const double w[COLUMNS][COLUMNS], const double *b, const char *act)
{
    matrix z;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            z[i][j] = b ? b[j] : 0;
            for (int k = 0; k < COLUMNS; k++)
                z[i][j] += x[i][k] * w[k][j];
            z[i][j] = activation(act, z[i][j]);
        }
    memcpy(y, z, sizeof z);
}

static void input(matrix x)
{
    memcpy(x, x_at, sizeof x_at);
}

/* Result k of the call. */
static void check_result(const char *call, const char *names, int k, double (*expected)[COLUMNS])
{
    char text[1200];
    test_fail_context("%s", call);
    snprintf(text, sizeof text, "graph g() {\n%s%s = %s\nreturn %s }", literals, names, call, names);
    text_run r = text_begin(text);
    CHECK_CODE(r.code, FLX_OK, &r.err);
    CHECK_EQ_I64(flx_tensor_count(r.out[k]), ROWS * COLUMNS);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        CHECK_NEAR(flx_tensor_get(r.out[k], i), expected[i / COLUMNS][i % COLUMNS],
                   1e-14 * (1 + fabs(expected[i / COLUMNS][i % COLUMNS])) * 16);
    text_end(&r);
}

TEST(linear_has_every_activation)
{
    static const char *const acts[] = {"none",        "relu",     "sigmoid", "tanh",       "silu", "gelu",
                                       "gelu_approx", "softplus", "selu",    "hard_swish", "mish"};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        char call[80];
        matrix x, y;
        input(x);
        layer(y, x, w_at, b_at, acts[i]);
        snprintf(call, sizeof call, "fused_matmul_bias_act(x, w, b, act=%s)", acts[i]);
        check_result(call, "y", 0, y);
        snprintf(call, sizeof call, "linear(x, w, b, act=%s)", acts[i]);
        check_result(call, "y", 0, y);
        layer(y, x, w_at, NULL, acts[i]);
        snprintf(call, sizeof call, "fused_linear(x, w, act=%s)", acts[i]);
        check_result(call, "y", 0, y);
    }
}

TEST(linear_pair_shares_its_input)
{
    matrix x, y, z;
    input(x);
    layer(y, x, w_at, b_at, "tanh");
    layer(z, x, v_at, b_at, "none");
    check_result("linear_pair(x, w, v, b, b, act1=tanh)", "y, z", 0, y);
    check_result("linear_pair(x, w, v, b, b, act1=tanh)", "y, z", 1, z);
}

TEST(gated_ffn_activates_the_gate_only)
{
    matrix x, gate, up, y;
    input(x);
    layer(gate, x, w_at, NULL, "silu");
    layer(up, x, v_at, NULL, "none");
    for (int i = 0; i < ROWS * COLUMNS; i++)
        up[i / COLUMNS][i % COLUMNS] *= gate[i / COLUMNS][i % COLUMNS];
    layer(y, up, w_at, NULL, "none");
    check_result("gated_ffn(x, w, v, w)", "y", 0, y);
}

/* Which half is the gate is a common mistake. */
TEST(swiglu_takes_the_second_half_as_gate_unless_told)
{
    matrix x, gate, up, y;
    input(x);
    layer(gate, x, w_at, NULL, "silu");
    layer(up, x, v_at, NULL, "none");
    for (int i = 0; i < ROWS * COLUMNS; i++)
        up[i / COLUMNS][i % COLUMNS] *= gate[i / COLUMNS][i % COLUMNS];
    check_result("fused_swiglu(concat(matmul(x, v), matmul(x, w), axis=1))", "y", 0, up);
    check_result("fused_swiglu(matmul(x, concat(w, v, axis=1)), gate_first=true)", "y", 0, up);
    layer(y, up, v_at, NULL, "none");
    check_result("swiglu_ffn(x, concat(v, w, axis=1), v)", "y", 0, y);
    check_result("swiglu_ffn(x, concat(w, v, axis=1), v, gate_first=true)", "y", 0, y);
}

/* silu(0) = 0 with slope 1/2: where the gate is 0 only the gate has a derivative, half of what it multiplies. */
TEST(trap_101_swiglu_gradient_knows_which_half_is_the_gate)
{
    static const gradient_row second[] = {{"p", {3, 0}, {0, 1.5}}};
    check_gradient("graph g(p: f64[1, 2]) { return fused_swiglu(p) }", second, 1);
    static const gradient_row first[] = {{"p", {0, 3}, {1.5, 0}}};
    check_gradient("graph g(p: f64[1, 2]) { return fused_swiglu(p, gate_first=true) }", first, 1);
}

TEST(swiglu_casts_at_the_end)
{
    check_text_type("graph g(p: f32[N, 6]) { return fused_swiglu(p, cast_to=bf16) }", "bf16[N, 3]");
    check_text_type("graph g(p: f32[3, 2*N]) { return fused_swiglu(p) }", "f32[3, N]");
}

TEST(mlp_activates_all_layers_but_the_last)
{
    matrix x, y;
    input(x);
    layer(y, x, w_at, b_at, "relu");
    layer(y, y, v_at, b_at, "relu");
    layer(y, y, w_at, b_at, "none");
    check_result("mlp(x, w, b, v, b, w, b)", "y", 0, y);
    layer(y, x, w_at, NULL, "mish");
    layer(y, y, v_at, NULL, "sigmoid");
    check_result("mlp(x, w, v, bias=false, act=mish, out_act=sigmoid)", "y", 0, y);
}

TEST(linear_errors_name_the_weights)
{
    check_text_fails("graph g(x: f32[4], w: f32[4, 2]) { y = linear(x, w) return y }", FLX_E_SHAPE,
                     "linear 'y': x must have rank 2 or more: it is [4]");
    check_text_fails("graph g(x: f32[3, 4], w: f32[2, 4, 5]) { y = linear(x, w) return y }", FLX_E_SHAPE,
                     "linear 'y': w must be a matrix: it is [2, 4, 5]");
    check_text_fails("graph g(x: f32[3, 4], w: f32[4, 5], b: f32[4]) { y = linear(x, w, b) return y }", FLX_E_SHAPE,
                     "linear 'y': b must have one element for each column of w: b is [4], w is [4, 5]");
    check_text_fails("graph g(x: f32[3, 4], w: f32[4, 5], b: f32[5]) { y, z = linear_pair(x, w, w, b) return y }",
                     FLX_E_ARITY, "linear_pair 'y': b1 is given without b2");
    check_text_fails("graph g(x: f32[3, 4], w: f32[4, 5], v: f32[4, 6]) { y = gated_ffn(x, w, v, w) return y }",
                     FLX_E_SHAPE,
                     "gated_ffn 'y': w_gate and w_up must have the same number of columns: [4, 5] and [4, 6]");
    check_text_fails("graph g(p: f32[3, 5]) { y = fused_swiglu(p) return y }", FLX_E_SHAPE,
                     "fused_swiglu 'y': the last axis must have two halves: it is [3, 5]");
}

/* ---- Residuals and normalisation ---- */

/* sum_i = x_i + 2 x_i [+ b], its rows normalised as `centre` says. */
static void normalised(matrix y, const double *bias, bool centre, double eps)
{
    for (int i = 0; i < ROWS; i++) {
        double row[COLUMNS], mean = 0, square = 0;
        for (int j = 0; j < COLUMNS; j++)
            row[j] = 3 * x_at[i][j] + (bias ? bias[j] : 0);
        for (int j = 0; j < COLUMNS; j++)
            mean += centre ? row[j] / COLUMNS : 0;
        for (int j = 0; j < COLUMNS; j++)
            square += (row[j] - mean) * (row[j] - mean) / COLUMNS;
        for (int j = 0; j < COLUMNS; j++)
            y[i][j] = (row[j] - mean) / sqrt(square + eps);
    }
}

TEST(fused_residual_norms_add_before_they_normalise)
{
    matrix y;
    for (int k = 0; k < 4; k++) {
        char call[120];
        bool centre = k % 2;
        bool has_bias = k / 2;
        normalised(y, has_bias ? b_at : NULL, centre, 0.25);
        for (int i = 0; i < ROWS * COLUMNS; i++)
            y[i / COLUMNS][i % COLUMNS] = y[i / COLUMNS][i % COLUMNS] * w_at[0][i % COLUMNS] + b_at[i % COLUMNS];
        snprintf(call, sizeof call, "%s(x, mul(x, 2)%s, const(f64[4], [1, -0.5, 0.25, 2]), b, eps=0.25%s)",
                 centre ? "fused_residual_ln" : "fused_residual_rms_norm", has_bias ? ", b" : "",
                 has_bias ? ", has_bias=true" : "");
        check_result(call, "y", 0, y);
    }
    normalised(y, NULL, true, 1e-5);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        y[i / COLUMNS][i % COLUMNS] = y[i / COLUMNS][i % COLUMNS] * (1 + b_at[i % COLUMNS]) + 2;
    check_result("fused_ada_layer_norm(mul(x, 3), b, 2)", "y", 0, y);
}

/* An operand that is FLX_NONE is omitted, although others follow it. */
TEST(fused_residual_builder_leaves_out_an_absent_bias)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "g");
    flx_type rows = flx_type_make(FLX_F32, 2, (flx_dim[]){2, 4});
    flx_type line = flx_type_make(FLX_F32, 1, (flx_dim[]){4});
    flx_val x = flx_input(g, "x", &rows);
    flx_val v = flx_input(g, "v", &line);
    flx_output(g, flx_fused_residual_ln(g, x, x, FLX_NONE, v, v, 0, 1e-5), "without");
    flx_output(g, flx_fused_residual_rms_norm(g, x, x, v, v, v, 1, 1e-5), "with");
    CHECK_OK(flx_graph_verify(g, &err), &err);
    CHECK_EQ_I64(flx_graph_output_count(g), 2);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* A row without variance is mapped to beta, and its gradient is finite. */
TEST(fused_residual_ln_of_a_constant_row_is_beta)
{
    static const gradient_row rows[] = {{"x", {1, 2}, {0, 0}}, {"r", {2, 1}, {0, 0}}, {"b", {5, 7}, {1, 1}}};
    check_gradient(
        "graph g(x: f64[1, 2], r: f64[1, 2], b: f64[2]) { return fused_residual_ln(x, r, full(f64[2], 3), b) }", rows,
        3);
    text_run t = text_begin("graph g() { x = const(f64[1, 2], [[1, 2]])"
                            "  return fused_residual_ln(x, neg(x), full(f64[2], 3), const(f64[2], [5, 7])) }");
    CHECK_OK(t.code, &t.err);
    CHECK_NEAR(flx_tensor_get(t.out[0], 0), 5, 0);
    CHECK_NEAR(flx_tensor_get(t.out[0], 1), 7, 0);
    text_end(&t);
}

TEST(fused_residuals_of_products)
{
    matrix x, y;
    input(x);
    layer(y, x, w_at, b_at, "none");
    check_result("fused_matmul_residual(x, w, b)", "y", 0, y);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        y[i / COLUMNS][i % COLUMNS] = 2 + b_at[i % COLUMNS] * x_at[i / COLUMNS][i % COLUMNS];
    check_result("fused_gated_residual(x, b, 2)", "y", 0, y);
}

/* A convolution with a kernel of one tap is a matrix product; features are the last axis of the result here. */
TEST(fused_convolutions_act_on_features)
{
    static const char layout[] = "input_axes=[0, 2, 1], kernel_axes=[2, 1, 0], output_axes=[0, 2, 1]";
    matrix x, y;
    char call[240];
    input(x);
    layer(y, x, w_at, b_at, "silu");
    snprintf(call, sizeof call,
             "fused_conv_bias_act(reshape(x, shape=[1, 3, 4]), reshape(w, shape=[1, 4, 4]), b, act=silu, %s)", layout);
    check_result(call, "y", 0, y);
    layer(y, x, w_at, NULL, "none");
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        double z = y[i / COLUMNS][i % COLUMNS] * b_at[i % COLUMNS] + w_at[0][i % COLUMNS];
        y[i / COLUMNS][i % COLUMNS] = z > 0 ? z : 0;
    }
    snprintf(call, sizeof call,
             "fused_conv_affine_act(reshape(x, shape=[1, 3, 4]), reshape(w, shape=[1, 4, 4]), b,"
             " const(f64[4], [1, -0.5, 0.25, 2]), act=relu, %s)",
             layout);
    check_result(call, "y", 0, y);
}

TEST(fused_errors_name_the_operand)
{
    check_text_fails("graph g(x: f32[2, 4], g: f32[3]) { y = fused_residual_ln(x, x, g, g) return y }", FLX_E_SHAPE,
                     "fused_residual_ln 'y': gamma must be a vector as long as the last axis of the normalised value: "
                     "it is [3], that is [2, 4]");
    check_text_fails("graph g(x: f32[2, 4], g: f32[4], b: f32[3]) {\n"
                     "  y = fused_residual_ln(x, x, g, g, b, has_bias=true) return y }",
                     FLX_E_SHAPE,
                     "fused_residual_ln 'y': beta must be a vector as long as the last axis of the normalised value: "
                     "it is [3], that is [2, 4]");
    check_text_fails("graph g(x: f32[2, 4], g: f32[4]) { y = fused_residual_rms_norm(x, x, g, g, g) return y }",
                     FLX_E_ARITY, "fused_residual_rms_norm 'y': with has_bias=false, expected 4 operands, got 5");
    check_text_fails(
        "graph g(x: f32[1, 3, 5], w: f32[2, 3, 3], b: f32[3]) { y = fused_conv_bias_act(x, w, b) return y }",
        FLX_E_SHAPE,
        "fused_conv_bias_act 'y': b must have one element for each output feature: it is [3], w is [2, 3, 3]");
}
