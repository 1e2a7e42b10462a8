/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_elementwise.c: operations on elements. */
#include "graph/type/type.h"
#include "onnx/import/onnx_site.h"

void flxi_onnx_import_unary(onnx_site *s)
{
    s->y[0] = flxi_onnx_unary(s, s->row->ours, s->x[0]);
}

/* Before version 7 the second operand was aligned by attributes. */
static flx_val aligned(onnx_site *s, flx_val a, flx_val b)
{
    int rank = flxi_onnx_rank(s, a);
    int inner = flxi_onnx_rank(s, b);
    if (s->version >= 7 || !flxi_onnx_int(s, "broadcast", 0) || !flxi_onnx_has(s, "axis") || inner >= rank)
        return b;
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", 0), rank);
    const flx_type *t = flxi_onnx_typeof(s, b);
    flx_dim dims[FLX_MAX_RANK];
    int n = 0;
    for (int i = 0; i < inner; i++)
        dims[n++] = t->dims[i];
    while (axis + n < rank && n < FLX_MAX_RANK)
        dims[n++] = 1;
    return flx_reshape(s->g, b, .shape = {dims, (size_t)n});
}

void flxi_onnx_import_binary(onnx_site *s)
{
    s->y[0] = flxi_onnx_binary(s, s->row->ours, s->x[0], aligned(s, s->x[0], s->x[1]));
}

/* Sum, Max, Min: any number of operands. */
void flxi_onnx_import_variadic(onnx_site *s)
{
    flx_val y = s->x[0];
    for (size_t i = 1; i < s->nx; i++)
        y = flxi_onnx_binary(s, s->row->ours, y, s->x[i]);
    s->y[0] = y;
}

void flxi_onnx_import_mean(onnx_site *s)
{
    flx_val y = s->x[0];
    for (size_t i = 1; i < s->nx; i++)
        y = flx_add(s->g, y, s->x[i]);
    s->y[0] = flx_div(s->g, y, flxi_onnx_number(s, y, (double)s->nx));
}

static bool is_float(onnx_site *s, flx_val x)
{
    return flxi_is_float((int32_t)flxi_onnx_dtype(s, x));
}

/* The dtypes of base and exponent may differ; the result has that of the base. */
void flxi_onnx_import_pow(onnx_site *s)
{
    flx_val a = s->x[0];
    flx_val b = aligned(s, a, s->x[1]);
    flx_dtype base = flxi_onnx_dtype(s, a);
    if (!is_float(s, a) && is_float(s, b)) {
        s->y[0] = flxi_onnx_cast(s, flx_pow(s->g, flxi_onnx_cast(s, a, flxi_onnx_dtype(s, b)), b), base);
        return;
    }
    s->y[0] = flx_pow(s->g, a, flxi_onnx_cast(s, b, base));
}

void flxi_onnx_import_mod(onnx_site *s)
{
    const char *op = flxi_onnx_int(s, "fmod", 0) ? "rem" : "mod";
    s->y[0] = flxi_onnx_binary(s, op, s->x[0], s->x[1]);
}

void flxi_onnx_import_bit_shift(onnx_site *s)
{
    bool left = strcmp(flxi_onnx_word(s, "direction", "LEFT"), "LEFT") == 0;
    bool is_signed = flxi_is_signed((int32_t)flxi_onnx_dtype(s, s->x[0]));
    s->y[0] = flxi_onnx_binary(s, left ? "shl" : is_signed ? "shr_arith" : "shr_logical", s->x[0], s->x[1]);
}

void flxi_onnx_import_is_inf(onnx_site *s)
{
    flx_val x = s->x[0];
    flx_val zero = flxi_onnx_number(s, x, 0);
    flx_val y = flx_is_inf(s->g, x);
    if (!flxi_onnx_int(s, "detect_positive", 1))
        y = flx_and(s->g, y, flx_lt(s->g, x, zero));
    if (!flxi_onnx_int(s, "detect_negative", 1))
        y = flx_and(s->g, y, flx_gt(s->g, x, zero));
    s->y[0] = y;
}

/* ---- Activations ---- */

static void with_alpha(onnx_site *s, double absent)
{
    flx_attr alpha = flx_attr_real("alpha", flxi_onnx_real(s, "alpha", absent));
    s->y[0] = flx_op1(s->g, s->row->ours, s->x, 1, &alpha, 1);
}

/* Elu, Celu, LeakyRelu: the row has the default. */
void flxi_onnx_import_alpha(onnx_site *s)
{
    with_alpha(s, s->row->number);
}

void flxi_onnx_import_selu(onnx_site *s)
{
    double alpha = flxi_onnx_real(s, "alpha", 1.67326319217681884765625);
    double gamma = flxi_onnx_real(s, "gamma", 1.05070102214813232421875);
    flx_val y = flx_elu(s->g, s->x[0], .alpha = alpha);
    s->y[0] = flx_mul(s->g, y, flxi_onnx_number(s, y, gamma));
}

void flxi_onnx_import_thresholded_relu(onnx_site *s)
{
    flx_val x = s->x[0];
    flx_val over = flx_gt(s->g, x, flxi_onnx_number(s, x, flxi_onnx_real(s, "alpha", 1)));
    s->y[0] = flx_where(s->g, over, x, flxi_onnx_number(s, x, 0));
}

void flxi_onnx_import_hard_sigmoid(onnx_site *s)
{
    s->y[0] = flx_hard_sigmoid(s->g, s->x[0], .alpha = flxi_onnx_real(s, "alpha", 0.2),
                               .beta = flxi_onnx_real(s, "beta", 0.5));
}

/* x < -lambd: x + bias; x > lambd: x - bias; else 0. */
void flxi_onnx_import_shrink(onnx_site *s)
{
    flx_val x = s->x[0];
    flx_val bias = flxi_onnx_number(s, x, flxi_onnx_real(s, "bias", 0));
    double lambd = flxi_onnx_real(s, "lambd", 0.5);
    flx_val above = flx_gt(s->g, x, flxi_onnx_number(s, x, lambd));
    flx_val below = flx_lt(s->g, x, flxi_onnx_number(s, x, -lambd));
    flx_val rest = flx_where(s->g, below, flx_add(s->g, x, bias), flxi_onnx_number(s, x, 0));
    s->y[0] = flx_where(s->g, above, flx_sub(s->g, x, bias), rest);
}

void flxi_onnx_import_softsign(onnx_site *s)
{
    flx_val x = s->x[0];
    s->y[0] = flx_div(s->g, x, flx_add(s->g, flxi_onnx_number(s, x, 1), flx_abs(s->g, x)));
}

void flxi_onnx_import_gelu(onnx_site *s)
{
    bool approximate = strcmp(flxi_onnx_word(s, "approximate", "none"), "tanh") == 0;
    s->y[0] = flxi_onnx_unary(s, approximate ? "gelu_approx" : "gelu", s->x[0]);
}

void flxi_onnx_import_swish(onnx_site *s)
{
    flx_val x = s->x[0];
    flx_val scaled = flx_mul(s->g, x, flxi_onnx_number(s, x, flxi_onnx_real(s, "alpha", 1)));
    s->y[0] = flx_mul(s->g, x, flx_sigmoid(s->g, scaled));
}

void flxi_onnx_import_prelu(onnx_site *s)
{
    flx_val x = s->x[0];
    flx_val slope = s->x[1];
    int rank = flxi_onnx_rank(s, x);
    if (s->version < 7 && flxi_onnx_rank(s, slope) == 1 && rank > 2) { /* one for each channel */
        flx_dim dims[FLX_MAX_RANK];
        dims[0] = flxi_onnx_dim(s, slope, 0);
        for (int i = 1; i < rank - 1; i++)
            dims[i] = 1;
        slope = flx_reshape(s->g, slope, .shape = {dims, (size_t)rank - 1});
    }
    flx_val below = flx_lt(s->g, x, flxi_onnx_number(s, x, 0));
    s->y[0] = flx_where(s->g, below, flx_mul(s->g, slope, x), x);
}

/* Bounds are operands, or attributes before version 11. */
void flxi_onnx_import_clip(onnx_site *s)
{
    flx_val y = s->x[0];
    flx_val low = s->x[1], high = s->x[2];
    if (s->version < 11 && flxi_onnx_has(s, "min"))
        low = flxi_onnx_number(s, y, flxi_onnx_real(s, "min", 0));
    if (s->version < 11 && flxi_onnx_has(s, "max"))
        high = flxi_onnx_number(s, y, flxi_onnx_real(s, "max", 0));
    if (flxi_onnx_given(low))
        y = flx_max(s->g, y, low);
    if (flxi_onnx_given(high))
        y = flx_min(s->g, y, high);
    s->y[0] = y;
}

void flxi_onnx_import_where(onnx_site *s)
{
    s->y[0] = flxi_onnx_append(s, "where", s->x, 3);
}

void flxi_onnx_import_identity(onnx_site *s)
{
    s->out[0] = s->in[0];
    s->y[0] = s->x[0];
}

/* ---- Dropout ---- */

/* Only inference: the identity, and a mask of ones. With training_mode the mask would be random. */
void flxi_onnx_import_dropout(onnx_site *s)
{
    flx_ints training = {NULL, 0};
    if (s->in[2].kind == ONNX_T_TENSOR && !flxi_onnx_extents(s, 2, &training))
        return;
    flx_reals ratio = {NULL, 0};
    bool trains = training.n && training.v[0];
    if (trains && s->in[1].kind == ONNX_T_TENSOR && !flxi_onnx_known_reals(s, 1, &ratio))
        return;
    if (trains && !(ratio.n == 1 && ratio.v[0] == 0)) {
        flxi_onnx_unsupported(s, "training_mode with a ratio other than 0");
        return;
    }
    s->y[0] = s->x[0];
    flx_val one = flx_scalar(s->g, FLX_BOOL, 1);
    if (s->ny > 1)
        s->y[1] = flxi_onnx_fill(s, one, flxi_onnx_dims(flxi_onnx_typeof(s, s->x[0])));
}

/* ---- Softmax ---- */

/* Before version 13 all axes from `axis` on are one. */
static flx_val flattened(onnx_site *s, flx_val x, int axis)
{
    const flx_type *t = flxi_onnx_typeof(s, x);
    flx_dim rows = flxi_dims_product(s->g->ctx, t, 0, axis);
    flx_dim columns = flxi_dims_product(s->g->ctx, t, axis, t->rank);
    return flx_reshape(s->g, x, .shape = FLX_INTS(rows, columns));
}

static flx_val hardmax(onnx_site *s, flx_val x, int axis)
{
    flx_val at = flx_argmax(s->g, x, .axis = axis);
    return flx_one_hot(s->g, at, .n = flxi_onnx_dim(s, x, axis), .axis = axis, .dtype = flxi_onnx_dtype(s, x));
}

/* In f16 and bf16 as the operation is defined, by steps that round: one step of rounding less moves some results of
   attention beyond the bounds of the node tests. */
flx_val flxi_onnx_softmax(onnx_site *s, flx_val x, int axis)
{
    int32_t d = flxi_onnx_dtype(s, x);
    if (d != FLX_F16 && d != FLX_BF16)
        return flx_softmax(s->g, x, .axis = axis);
    flx_val top = flx_reduce_max(s->g, x, .axes = FLX_INTS(axis), .keep_dims = 1);
    flx_val e = flx_exp(s->g, flx_sub(s->g, x, top));
    return flx_div(s->g, e, flx_reduce_sum(s->g, e, .axes = FLX_INTS(axis), .keep_dims = 1));
}

static flx_val along(onnx_site *s, flx_val x, int axis)
{
    if (strcmp(s->row->ours, "hardmax") == 0)
        return hardmax(s, x, axis);
    if (strcmp(s->row->ours, "softmax") == 0)
        return flxi_onnx_softmax(s, x, axis);
    flx_attr a = flx_attr_int("axis", axis);
    return flx_op1(s->g, s->row->ours, &x, 1, &a, 1);
}

void flxi_onnx_import_softmax(onnx_site *s)
{
    flx_val x = s->x[0];
    const flx_type *t = flxi_onnx_typeof(s, x);
    int64_t given = flxi_onnx_int(s, "axis", s->version < 13 ? 1 : -1);
    if (s->version < 13) {
        int axis = given == t->rank ? t->rank : flxi_onnx_axis(s, given, t->rank);
        flx_ints dims = flxi_onnx_dims(t);
        s->y[0] = flx_reshape(s->g, along(s, flattened(s, x, axis), 1), .shape = dims);
        return;
    }
    s->y[0] = along(s, x, flxi_onnx_axis(s, given, t->rank));
}
