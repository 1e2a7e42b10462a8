/* SPDX-License-Identifier: Apache-2.0 */
/* quant.c: numbers as integers of 8 bits, or of 32 for biases of products, and back. Derivatives pass straight through
   the rounding: the integer's cotangent, an f32 tensor, is that of round(x / s) + z as if nothing were rounded, and
   zero where the value saturates. */
#include "ops/quant/channel.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"

typedef struct {
    flx_reals scales;
    flx_ints zero_points;
    int64_t axis;
} quantize_attrs;

typedef struct { /* dtype: of the result */
    quantize_attrs grid;
    int64_t dtype;
} typed_attrs;

#define GRID_ROWS                                                                                 \
    A_LIST_REQ(quantize_attrs, scales, ATTR_REALS), A_INTS(quantize_attrs, zero_points, "all 0"), \
        A_INT_OPT(quantize_attrs, axis, "none")

static const flxi_attr quantize_schema[] = {GRID_ROWS, A_DTYPE(typed_attrs, dtype, FLX_I8), A_END};
static const flxi_attr dequantize_schema[] = {GRID_ROWS, A_DTYPE(typed_attrs, dtype, FLX_F32), A_END};

/* ---- Inference ---- */

static flx_code check_scales(flxi_infer *f, const quantize_attrs *a, flx_dim count)
{
    flxi_type_text text;
    if (!flxi_dims_may_equal(f, (flx_dim)a->scales.n, count))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE,
                               a->axis == FLXI_ABSENT ? "give axis= for one scale for each channel" : NULL,
                               "there must be one scale for each channel: got %zu scales for an operand %s",
                               a->scales.n, flxi_shape_str(f->ctx, f->in[0], &text));
    for (size_t i = 0; i < a->scales.n; i++)
        if (!(a->scales.v[i] > 0.0 && isfinite(a->scales.v[i])))
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "scale %zu must be positive and finite: it is %g", i,
                                   a->scales.v[i]);
    return FLX_OK;
}

static flx_code infer_grid(flxi_infer *f, int64_t least, int64_t most)
{
    quantize_attrs *a = f->attrs;
    flx_dim count;
    FLXI_TRY(flxi_norm_channels(f, &a->axis, f->in[0], &count));
    FLXI_TRY(check_scales(f, a, count));
    FLXI_TRY(flxi_norm_list(f, "zero_points", &a->zero_points, a->scales.n, 0));
    for (size_t i = 0; i < a->zero_points.n; i++)
        if (a->zero_points.v[i] < least || a->zero_points.v[i] > most)
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "zero point %zu must be within %lld ... %lld: it is %lld",
                                   i, (long long)least, (long long)most, (long long)a->zero_points.v[i]);
    f->out[0] = *f->in[0];
    return FLX_OK;
}

static flx_code infer_quantize(flxi_infer *f)
{
    int64_t to = ((const typed_attrs *)f->attrs)->dtype;
    if (to != FLX_I8 && to != FLX_I32)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "dtype must be i8 or i32: it is %s",
                               flx_dtype_name((int32_t)to));
    FLXI_TRY(infer_grid(f, to == FLX_I8 ? INT8_MIN : INT32_MIN, to == FLX_I8 ? INT8_MAX : INT32_MAX));
    f->out[0].dtype = (int32_t)to;
    return FLX_OK;
}

static flx_code infer_dequantize(flxi_infer *f)
{
    const typed_attrs *a = f->attrs;
    FLXI_TRY(infer_grid(f, INT8_MIN, INT8_MAX));
    if (!flxi_is_float((int32_t)a->dtype))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "dtype must be a float: it is %s",
                               flx_dtype_name((int32_t)a->dtype));
    f->out[0].dtype = (int32_t)a->dtype;
    return FLX_OK;
}

/* ---- Values ---- */

/* The scales, which broadcast over x, in its dtype. */
static flx_val scales_of(flxi_site *s, flx_val x)
{
    const quantize_attrs *a = s->attrs;
    return flxi_channel_constants(s, a->scales.v, a->scales.n, a->axis, x);
}

static flx_val zero_points_of(flxi_site *s, flx_val x)
{
    const quantize_attrs *a = s->attrs;
    double *z = flxi_rule_new(s, double, a->zero_points.n);
    for (size_t i = 0; z && i < a->zero_points.n; i++)
        z[i] = (double)a->zero_points.v[i];
    return z ? flxi_channel_constants(s, z, a->zero_points.n, a->axis, x) : FLX_NONE;
}

static bool is_long(const flxi_site *s)
{
    return ((const typed_attrs *)s->attrs)->dtype == FLX_I32;
}

/* round(x / s) + z, before it saturates; in f64 for 32 bits, which f32 does not hold. */
static flx_val codes_of(flxi_site *s)
{
    flx_val x = is_long(s) ? flx_cast(s->g, s->x[0], FLX_F64) : flxi_wide(s, s->x[0]);
    return flx_add(s->g, flx_round(s->g, flx_div(s->g, x, scales_of(s, x)), NULL), zero_points_of(s, x));
}

/* The least and the greatest integer of the result. */
static void limits_of(flxi_site *s, flx_val code, flx_val *least, flx_val *most)
{
    *least = flxi_number(s, code, is_long(s) ? INT32_MIN : INT8_MIN);
    *most = flxi_number(s, code, is_long(s) ? INT32_MAX : INT8_MAX);
}

static void decompose_quantize(flxi_site *s, flx_val *y)
{
    flx_val code = codes_of(s);
    flx_val least;
    flx_val most;
    limits_of(s, code, &least, &most);
    y[0] = flx_cast(s->g, flx_clamp(s->g, least, code, most), is_long(s) ? FLX_I32 : FLX_I8);
}

static void decompose_dequantize(flxi_site *s, flx_val *y)
{
    flx_dtype to = (flx_dtype)((const typed_attrs *)s->attrs)->dtype;
    flx_val q = flx_cast(s->g, s->x[0], to == FLX_F64 ? FLX_F64 : FLX_F32);
    y[0] = flx_cast(s->g, flx_mul(s->g, flx_sub(s->g, q, zero_points_of(s, q)), scales_of(s, q)), to);
}

/* ---- Derivatives: of floats on one side, f32 on the integer's ---- */

/* where(in range, t / s, 0) in f32: maps a tangent of x to one of q, and a cotangent of q to one of x. */
static flx_val through_rounding(flxi_site *s, flx_val t)
{
    flx_graph *g = s->g;
    flx_val code = codes_of(s);
    flx_val least;
    flx_val most;
    limits_of(s, code, &least, &most);
    flx_val inside = flx_and(g, flx_ge(g, code, least), flx_le(g, code, most));
    t = flx_cast(g, t, FLX_F32);
    return flxi_masked(s, inside, flx_div(g, t, scales_of(s, t)));
}

static void vjp_quantize(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = through_rounding(s, dy[0]);
}

static void jvp_quantize(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    ty[0] = through_rounding(s, tx[0]);
}

static void vjp_dequantize(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_val t = flx_cast(s->g, dy[0], FLX_F32);
    dx[0] = flx_mul(s->g, t, scales_of(s, t));
}

static void jvp_dequantize(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    ty[0] =
        flx_cast(s->g, flx_mul(s->g, tx[0], scales_of(s, tx[0])), (flx_dtype)((const typed_attrs *)s->attrs)->dtype);
}

/* The scales are attributes, so all examples share them. */
static void batch_grid(flxi_site *s, flx_val *by)
{
    quantize_attrs *a = flxi_site_attrs(s);
    if (!a)
        return;
    if (a->axis != FLXI_ABSENT)
        a->axis++;
    flxi_append(s, a, s->x, 1, by);
}

/* ---- Rules ---- */

static const flxi_sample samples_quantize[] = {
    {"T[3, 4]", "scales=[0.01]", NULL, FLX_OK},
    {"T[3, 4]", "scales=[0.5, 0.25, 0.01], zero_points=[0, -3, 100], axis=0", NULL, FLX_OK},
    {"T[2, 2, 2]", "scales=[0.02, 0.003], axis=-1", NULL, FLX_OK},
    {"T[]", "scales=[2], zero_points=[-128]", NULL, FLX_OK},
    {"T[0, 2]", "scales=[1, 2], axis=1", NULL, FLX_OK},
    {"T[0]", "scales=[], axis=0", NULL, FLX_OK},
    {"T[N, 2]", "scales=[0.1]", NULL, FLX_OK},
    {"T[2, N]", "scales=[0.1, 0.2], axis=0", NULL, FLX_OK},
    {"T[N, 2]", "scales=[0.1, 0.2, 0.3], axis=0", NULL, FLX_OK},
    {"T[3, 4]", NULL, NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "scales=[0.1, 0.2]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "scales=[0.1, 0.2], axis=0", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "scales=[0.1], axis=2", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "scales=[0]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "scales=[-1]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "scales=[1], zero_points=[128]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "scales=[0.0001, 0.01, 1e-9], zero_points=[0, 1000, -5], axis=0, dtype=i32", NULL, FLX_OK},
    {"T[3, 4]", "scales=[1], dtype=i16", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "scales=[1], zero_points=[1, 2]", NULL, FLX_E_ATTRIBUTE},
    {"i32[3, 4]", "scales=[1]", NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_dequantize[] = {
    {"i8[3, 4]{-128..127}", "scales=[0.01]", NULL, FLX_OK},
    {"i8[3, 4]{-128..127}", "scales=[0.5, 0.25, 0.01], zero_points=[0, -3, 100], axis=0, dtype=f64", NULL, FLX_OK},
    {"i8[2, 2, 2]{-128..127}", "scales=[0.02, 0.003], axis=-1, dtype=f16", NULL, FLX_OK},
    {"i8[]", "scales=[2], zero_points=[-128], dtype=bf16", NULL, FLX_OK},
    {"i8[0, 2]", "scales=[1, 2], axis=1", NULL, FLX_OK},
    {"i8[N, 2]", "scales=[0.1, 0.2], axis=1", NULL, FLX_OK},
    {"i8[3, 4]", "scales=[0.1, 0.2]", NULL, FLX_E_ATTRIBUTE},
    {"i8[3, 4]", "scales=[1], dtype=i32", NULL, FLX_E_ATTRIBUTE},
    {"f32[3, 4]", "scales=[1]", NULL, FLX_E_DTYPE},
    {"u8[3, 4]", "scales=[1]", NULL, FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_quantize = {
    .infer = infer_quantize,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_quantize,
    .vjp = vjp_quantize,
    .jvp = jvp_quantize,
    .batch = batch_grid,
    .schema = quantize_schema,
    .attrs_size = sizeof(typed_attrs),
    .samples = samples_quantize,
    .link = flxi_link_aligned,
};

const flxi_rules flxi_rules_dequantize = {
    .infer = infer_dequantize,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_dequantize,
    .vjp = vjp_dequantize,
    .jvp = jvp_dequantize,
    .batch = batch_grid,
    .schema = dequantize_schema,
    .attrs_size = sizeof(typed_attrs),
    .samples = samples_dequantize,
    .link = flxi_link_aligned,
};
