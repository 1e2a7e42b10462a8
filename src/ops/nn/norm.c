/* SPDX-License-Identifier: Apache-2.0 */
/* norm.c: normalisation of rows, groups and channels; see norm.h. Each op means its decomposition. With
   FLX_GRAD_BACKWARD_OPS reverse mode appends the ops of norm_backward.c instead of the decomposition's derivative. */
#include "ops/nn/norm.h"

#include "ops/rule/axis/along.h"
#include "ops/rule/decomposed.h"

#include <math.h>
#include <stdio.h>

const flxi_attr flxi_norm_axis_schema[] = {NORM_AXIS, NORM_EPS, A_END};
const flxi_attr flxi_norm_groups_schema[] = {NORM_GROUPS, NORM_EPS, A_END};
const flxi_attr flxi_norm_eps_schema[] = {NORM_EPS, A_END};

/* ---- Inference ---- */

static bool is_parameter(const flxi_op *op, uint32_t i)
{
    return flxi_operand_role(flxi_operands_of(op), i) == ROLE_ANY;
}

static flx_code check_parameter(flxi_infer *f, uint32_t i, int64_t axis)
{
    const flx_type *x = f->in[0];
    const flx_type *p = f->in[i];
    char name[32];
    flxi_type_text tp, tx;
    flxi_operand_name(f, i, name, sizeof name);
    if (p->dtype != x->dtype && p->dtype != flxi_wide_dtype(x->dtype)) {
        flxi_infer_fail(f, FLX_E_DTYPE, NULL,
                        "%s is %s, but the data is %s: it must have the same dtype, or be f32 for f16 and bf16", name,
                        flx_dtype_name(p->dtype), flx_dtype_name(x->dtype));
        flxi_hint(f->err, "cast(%s, to=%s)", name, flx_dtype_name(x->dtype));
        return FLX_E_DTYPE;
    }
    if (p->rank == 1 && flxi_dims_may_equal(f, p->dims[0], x->dims[axis]))
        return FLX_OK;
    return flxi_infer_fail(
        f, FLX_E_SHAPE, NULL, "%s must have one element for each position along axis %lld: %s is %s, %s is %s", name,
        (long long)axis, name, flxi_shape_str(f->ctx, p, &tp), f->nin > 1 ? "x" : "dy", flxi_shape_str(f->ctx, x, &tx));
}

static flx_code check_data(flxi_infer *f, uint32_t i)
{
    const flx_type *x = f->in[0];
    const flx_type *d = f->in[i];
    char name[32];
    flxi_type_text td, tx;
    bool is_same = d->rank == x->rank;
    for (int k = 0; is_same && k < x->rank; k++)
        is_same = flxi_dims_may_equal(f, d->dims[k], x->dims[k]);
    return is_same ? FLX_OK
                   : flxi_infer_fail(f, FLX_E_SHAPE, NULL, "%s must have the shape of x: it is %s, x is %s",
                                     flxi_operand_name(f, i, name, sizeof name), flxi_shape_str(f->ctx, d, &td),
                                     flxi_shape_str(f->ctx, x, &tx));
}

flx_code flxi_check_eps(flxi_infer *f, const char *name, double eps)
{
    if (eps >= 0 && !isinf(eps))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "%s must be a finite number >= 0, got %g", name, eps);
}

static flx_code check_operands(flxi_infer *f)
{
    const flxi_norm_attrs *a = f->attrs;
    FLXI_TRY(flxi_check_eps(f, "eps", a->eps));
    for (uint32_t i = 1; i < f->nin; i++)
        FLXI_TRY(is_parameter(f->op, i) ? check_parameter(f, i, a->axis) : check_data(f, i));
    return FLX_OK;
}

flx_code flxi_check_axis_norm(flxi_infer *f)
{
    flxi_norm_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, f->in[0]->rank));
    a->num_groups = 0;
    return check_operands(f);
}

flx_code flxi_check_channel_norm(flxi_infer *f)
{
    flxi_norm_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    a->axis = 1;
    a->num_groups = 0;
    return check_operands(f);
}

flx_code flxi_check_group_norm(flxi_infer *f)
{
    flxi_norm_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    a->axis = 1;
    flx_dim channels = f->in[0]->dims[1];
    if (a->num_groups < 1)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "num_groups must be at least 1, got %lld",
                               (long long)a->num_groups);
    if (flx_dim_is_static(channels) && channels % a->num_groups)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL,
                               "num_groups must divide the channels: %lld groups, %lld channels",
                               (long long)a->num_groups, (long long)channels);
    return check_operands(f);
}

static flx_code infer_axis_norm(flxi_infer *f)
{
    FLXI_TRY(flxi_check_axis_norm(f));
    f->out[0] = *f->in[0];
    return FLX_OK;
}

static flx_code infer_group_norm(flxi_infer *f)
{
    FLXI_TRY(flxi_check_group_norm(f));
    f->out[0] = *f->in[0];
    return FLX_OK;
}

static flx_code infer_channel_norm(flxi_infer *f)
{
    FLXI_TRY(flxi_check_channel_norm(f));
    f->out[0] = *f->in[0];
    return FLX_OK;
}

/* The statistics are parameters of the next run's inference: they have gamma's dtype. */
static flx_code infer_batch_norm_training(flxi_infer *f)
{
    FLXI_TRY(infer_channel_norm(f));
    f->out[1] = f->out[2] = flx_type_make((flx_dtype)f->in[1]->dtype, 1, &f->in[0]->dims[1]);
    return FLX_OK;
}

/* ---- Pieces ---- */

flx_val flxi_norm_rows(flxi_site *s, flx_val v)
{
    const flxi_norm_attrs *a = s->attrs;
    const flx_type *t = flxi_typeof(s, v);
    if (!a->num_groups)
        return v;
    flx_dim rest = flx_dim_div(s->ctx, t->dims[1], a->num_groups);
    for (int k = 2; k < t->rank; k++)
        rest = flx_dim_mul(s->ctx, rest, t->dims[k]);
    return flxi_reshape_to(s, v, 3, (flx_dim[]){t->dims[0], a->num_groups, rest});
}

flx_val flxi_norm_unrows(flxi_site *s, flx_val rows, flx_val like)
{
    const flxi_norm_attrs *a = s->attrs;
    const flx_type *t = flxi_typeof(s, like);
    return a->num_groups ? flxi_reshape_to(s, rows, t->rank, t->dims) : rows;
}

flx_val flxi_norm_mean(flxi_site *s, flx_val rows)
{
    const flxi_norm_attrs *a = s->attrs;
    int64_t axis = a->num_groups ? 2 : a->axis;
    return flx_reduce_mean(s->g, rows, FLX_INTS(axis), 1);
}

flxi_normalised flxi_normalise(flxi_site *s, flx_val rows, bool centred)
{
    const flxi_norm_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_val c = centred ? flx_sub(g, rows, flxi_norm_mean(s, rows)) : rows;
    flx_val power = flxi_norm_mean(s, flx_square(g, c));
    flx_val r = flx_rsqrt(g, flx_add(g, power, flxi_number(s, power, a->eps)));
    return (flxi_normalised){flx_mul(g, c, r), r};
}

flx_val flxi_norm_parameter(flxi_site *s, flx_val p, int rank)
{
    const flxi_norm_attrs *a = s->attrs;
    flx_dim dims[FLX_MAX_RANK] = {flxi_typeof(s, p)->dims[0]};
    int behind = rank - (int)a->axis;
    for (int k = 1; k < behind; k++)
        dims[k] = 1;
    return flxi_reshape_to(s, flxi_widen(s, p), behind, dims);
}

flx_val flxi_norm_scale(flxi_site *s, flx_val var)
{
    const flxi_norm_attrs *a = s->attrs;
    flx_val wide = flxi_widen(s, var);
    return flx_rsqrt(s->g, flx_add(s->g, wide, flxi_number(s, wide, a->eps)));
}

flx_val flxi_norm_sum(flxi_site *s, flx_val v)
{
    const flxi_norm_attrs *a = s->attrs;
    int64_t axes[FLX_MAX_RANK];
    size_t n = 0;
    for (int k = 0; k < flxi_typeof(s, v)->rank; k++)
        if (k != a->axis)
            axes[n++] = k;
    return flxi_sum_axes(s, v, (flx_ints){axes, n}, false);
}

/* gamma x̂ + beta in the dtype of x. */
static flx_val affine(flxi_site *s, flx_val hat, flx_val gamma, flx_val beta)
{
    const flx_type *x = flxi_typeof(s, s->x[0]);
    flx_val y = flx_mul(s->g, hat, flxi_norm_parameter(s, gamma, x->rank));
    if (!flxi_is_none(beta))
        y = flx_add(s->g, y, flxi_norm_parameter(s, beta, x->rank));
    return flxi_as_dtype(s, y, x->dtype);
}

static void decompose_rows(flxi_site *s, bool centred, flx_val *y)
{
    flx_val x = flxi_widen(s, s->x[0]);
    flx_val hat = flxi_normalise(s, flxi_norm_rows(s, x), centred).hat;
    y[0] = affine(s, flxi_norm_unrows(s, hat, x), s->x[1], s->nin > 2 ? s->x[2] : FLX_NONE);
}

static void decompose_layer_norm(flxi_site *s, flx_val *y)
{
    decompose_rows(s, true, y);
}

static void decompose_rms_norm(flxi_site *s, flx_val *y)
{
    decompose_rows(s, false, y);
}

static void decompose_batch_norm_inference(flxi_site *s, flx_val *y)
{
    flx_val x = flxi_widen(s, s->x[0]);
    int rank = flxi_typeof(s, x)->rank;
    flx_val centred = flx_sub(s->g, x, flxi_norm_parameter(s, s->x[3], rank));
    flx_val r = flxi_norm_parameter(s, flxi_norm_scale(s, s->x[4]), rank);
    y[0] = affine(s, flx_mul(s->g, centred, r), s->x[1], s->x[2]);
}

static void decompose_batch_norm_training(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_val x = flxi_widen(s, s->x[0]);
    int rank = flxi_typeof(s, x)->rank;
    int32_t dtype = flxi_typeof(s, s->x[1])->dtype;
    int64_t axes[FLX_MAX_RANK] = {0};
    for (int k = 2; k < rank; k++)
        axes[k - 1] = k;
    flx_ints others = {axes, (size_t)rank - 1};
    flx_val mean = flx_reduce_mean(g, x, others, 0);
    flx_val centred = flx_sub(g, x, flxi_norm_parameter(s, mean, rank));
    flx_val var = flx_reduce_mean(g, flx_square(g, centred), others, 0);
    flx_val r = flxi_norm_parameter(s, flxi_norm_scale(s, var), rank);
    y[0] = affine(s, flx_mul(g, centred, r), s->x[1], s->x[2]);
    y[1] = flxi_as_dtype(s, mean, dtype);
    y[2] = flxi_as_dtype(s, var, dtype);
}

/* ---- Batching ---- */

static bool shares_parameters(const flxi_site *s)
{
    for (uint32_t i = 0; i < s->nin; i++)
        if (is_parameter(s->op, i) && s->batched[i])
            return false;
    return true;
}

/* The operands with the data lifted; NULL when memory is exhausted. */
static flx_val *lifted(flxi_site *s)
{
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    for (uint32_t i = 0; x && i < s->nin; i++)
        x[i] = is_parameter(s->op, i) ? s->x[i] : flxi_lift(s, i);
    return x;
}

void flxi_batch_axis_norm(flxi_site *s, flx_val *by)
{
    if (!shares_parameters(s)) {
        flxi_batch_decomposed(s, by);
        return;
    }
    flxi_norm_attrs *a = flxi_site_attrs(s);
    flx_val *x = lifted(s);
    if (!a || !x)
        return;
    a->axis++;
    by[0] = flxi_emit1(s, a, x, s->nin);
}

/* [B, N, …] as [B·N, …]. */
static flx_val folded(flxi_site *s, flx_val v)
{
    const flx_type *t = flxi_typeof(s, v);
    flx_dim dims[FLX_MAX_RANK] = {flx_dim_mul(s->ctx, t->dims[0], t->dims[1])};
    for (int k = 2; k < t->rank; k++)
        dims[k - 1] = t->dims[k];
    return flxi_reshape_to(s, v, t->rank - 1, dims);
}

void flxi_batch_folded(flxi_site *s, flx_val *by)
{
    if (!shares_parameters(s)) {
        flxi_batch_decomposed(s, by);
        return;
    }
    flx_val *x = lifted(s);
    if (!x)
        return;
    flx_type like = *flxi_typeof(s, x[0]);
    for (uint32_t i = 0; i < s->nin; i++)
        if (!is_parameter(s->op, i))
            x[i] = folded(s, x[i]);
    flx_val y = flxi_emit1(s, NULL, x, s->nin);
    const flx_type *t = flxi_typeof(s, y);
    flx_dim dims[FLX_MAX_RANK] = {like.dims[0], like.dims[1]};
    for (int k = 1; k < t->rank && k + 1 < FLX_MAX_RANK; k++)
        dims[k + 1] = t->dims[k];
    by[0] = flxi_reshape_to(s, y, t->rank + 1, dims);
}

/* ---- Reverse mode with backward ops ---- */

/* `<family>_backward_<part>` on these operands, with the node's attributes. */
static flx_val backward(flxi_site *s, const char *family, const char *part, const flx_val *in, size_t n)
{
    const flxi_norm_attrs *a = s->attrs;
    char name[64];
    flx_attr attrs[2] = {flx_attr_real("eps", a->eps)};
    size_t num_attrs = 1;
    snprintf(name, sizeof name, "%s_backward_%s", family, part);
    if (a->num_groups)
        attrs[num_attrs++] = flx_attr_int("num_groups", a->num_groups);
    else if (strcmp(family, "batch_norm_inference") != 0)
        attrs[num_attrs++] = flx_attr_int("axis", a->axis);
    return flx_op1(s->g, name, in, n, attrs, num_attrs);
}

/* v in a dtype as wide as the parameter's: the cotangent of an f32 parameter must not be rounded to f16 in between. */
static flx_val beside(flxi_site *s, flx_val v, flx_val parameter)
{
    return flxi_as_dtype(s, v, flxi_typeof(s, parameter)->dtype);
}

static void backward_vjp_layer_norm(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    if (s->wanted[0])
        dx[0] = backward(s, "layer_norm", "input", (flx_val[]){s->x[0], s->x[1], dy[0]}, 3);
    if (s->wanted[1])
        dx[1] =
            backward(s, "layer_norm", "gamma", (flx_val[]){beside(s, s->x[0], s->x[1]), beside(s, dy[0], s->x[1])}, 2);
    if (s->wanted[2])
        dx[2] = flxi_norm_sum(s, beside(s, dy[0], s->x[2]));
}

static void backward_vjp_rms_norm(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    static const char *const parts[] = {"input", "gamma", "beta"};
    flx_val beta = s->nin > 2 ? s->x[2] : flxi_zeros_like(s, s->x[1]); /* none of the three reads it */
    for (uint32_t i = 0; i < s->nin; i++)
        if (s->wanted[i])
            dx[i] = backward(s, "rms_norm", parts[i], (flx_val[]){s->x[0], s->x[1], beta, dy[0]}, 4);
}

static void backward_vjp_group_norm(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    static const char *const parts[] = {NULL, "gamma", "beta"};
    if (s->wanted[0])
        dx[0] = backward(s, "group_norm", "input", (flx_val[]){s->x[0], s->x[1], s->x[2], dy[0]}, 4);
    for (uint32_t i = 1; i < 3; i++)
        if (s->wanted[i])
            dx[i] = backward(s, "group_norm", parts[i],
                             (flx_val[]){beside(s, s->x[0], s->x[i]), beside(s, dy[0], s->x[i])}, 2);
}

/* With d_gamma = Σ g (x - m) r and d_beta = Σ g: d_mean = -gamma r d_beta, d_var = -½ gamma r² d_gamma. All four in the
   wide dtype, which the caller rounds to each operand's. */
static void backward_vjp_batch_norm_inference(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_graph *g = s->g;
    flx_val x = flxi_widen(s, s->x[0]);
    flx_val d = flxi_widen(s, dy[0]);
    flx_val mean = flxi_widen(s, s->x[3]);
    flx_val var = flxi_widen(s, s->x[4]);
    flx_val gamma = flxi_widen(s, s->x[1]);
    flx_val slope = flx_mul(g, gamma, flxi_norm_scale(s, s->x[4]));
    if (s->wanted[0])
        dx[0] = backward(s, "batch_norm_inference", "input", (flx_val[]){s->x[0], s->x[1], s->x[3], s->x[4], dy[0]}, 5);
    flx_val d_gamma = FLX_NONE;
    flx_val d_beta = FLX_NONE;
    if (s->wanted[1] || s->wanted[4])
        d_gamma = backward(s, "batch_norm_inference", "gamma", (flx_val[]){x, mean, var, d}, 4);
    if (s->wanted[2] || s->wanted[3])
        d_beta = backward(s, "batch_norm_inference", "beta", &d, 1);
    dx[1] = d_gamma;
    dx[2] = d_beta;
    if (s->wanted[3])
        dx[3] = flx_neg(g, flx_mul(g, slope, d_beta));
    if (s->wanted[4]) {
        flx_val half = flx_mul(g, flxi_number(s, slope, -0.5), flxi_norm_scale(s, s->x[4]));
        dx[4] = flx_mul(g, flx_mul(g, slope, half), d_gamma);
    }
}

/* ---- Samples ---- */

/* The elements of rows of two or three may be nearly equal, and then derivatives are large and lose digits: hence an
   eps of 0.1. */
static const flxi_sample samples_layer_norm[] = {
    {"T[3, 5], T[5], T[5]", NULL, NULL, FLX_OK},
    {"T[4, 2, 2], T[4], T[4]", "axis=0, eps=0.1", NULL, FLX_OK},
    {"T[2, 4, 2], T[4], T[4]", "axis=-2, eps=0.1", NULL, FLX_OK},
    {"T[6], T[6], T[6]", NULL, NULL, FLX_OK},
    {"T[3, 1], T[1], T[1]", NULL, NULL, FLX_OK},
    {"T[N, 4], T[4], T[4]", "eps=0.1", NULL, FLX_OK},
    {"T[2, N], T[N], T[N]", "eps=0.1", NULL, FLX_OK},
    {"T[0, 4], T[4], T[4]", NULL, NULL, FLX_OK},
    {"T[3, 0], T[0], T[0]", NULL, NULL, FLX_OK},
    {"bf16[3, 4], f32[4], f32[4]", "eps=0.1", NULL, FLX_OK},
    {"f16[3, 4], f32[4], f16[4]", "eps=0.1", NULL, FLX_OK},
    {"T[], T[1], T[1]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 5], T[3], T[5]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 5], T[5], T[1, 5]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 5], T[5], T[5]", "axis=2", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 5], T[5], T[5]", "eps=-1", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 5], T[5], T[5]", "eps=inf", NULL, FLX_E_ATTRIBUTE},
    {"f32[3, 5], f64[5], f32[5]", NULL, NULL, FLX_E_DTYPE},
    {"f32[3, 5], f32[5], f16[5]", NULL, NULL, FLX_E_DTYPE},
    {"f32[3, 5], f32[5]", NULL, NULL, FLX_E_ARITY},
    {0},
};

static const flxi_sample samples_rms_norm[] = {
    {"T[3, 5], T[5]", NULL, NULL, FLX_OK},
    {"T[3, 5], T[5], T[5]", NULL, NULL, FLX_OK},
    {"T[4, 2, 2], T[4], T[4]", "axis=0, eps=0.1", NULL, FLX_OK},
    {"T[2, 3, 2], T[3]", "axis=-2, eps=0.1", NULL, FLX_OK},
    {"T[6], T[6]", NULL, NULL, FLX_OK},
    {"T[3, 1]{-0.5..0.5}, T[1]", "eps=1", NULL, FLX_OK}, /* r - x^2 r^3 cancels where x^2 is above eps */
    {"T[N, M], T[M]", "eps=0.1", NULL, FLX_OK},
    {"T[0, 4], T[4], T[4]", NULL, NULL, FLX_OK},
    {"T[3, 0], T[0]", NULL, NULL, FLX_OK},
    {"bf16[3, 4], f32[4]", "eps=0.1", NULL, FLX_OK},
    {"f16[3, 4], f16[4], f32[4]", "eps=0.1", NULL, FLX_OK},
    {"T[], T[1]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 5], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 5], T[5], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 5], T[5]", "axis=-3", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 5], T[5]", "eps=nan", NULL, FLX_E_ATTRIBUTE},
    {"bf16[3, 5], f64[5]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_group_norm[] = {
    {"T[2, 4, 3], T[4], T[4]", "num_groups=2", NULL, FLX_OK},
    {"T[2, 4], T[4], T[4]", "num_groups=1, eps=0.1", NULL, FLX_OK},
    {"T[1, 2, 2, 2], T[2], T[2]", "num_groups=2, eps=0.1", NULL, FLX_OK},
    {"T[2, 3], T[3], T[3]", "num_groups=3, eps=0.1", NULL, FLX_OK},
    {"T[N, 4, M], T[4], T[4]", "num_groups=2, eps=0.1", NULL, FLX_OK},
    {"T[2, 2*N, 2], T[2*N], T[2*N]", "num_groups=2, eps=0.1", NULL, FLX_OK},
    {"T[0, 4, 3], T[4], T[4]", "num_groups=2", NULL, FLX_OK},
    {"T[2, 0, 3], T[0], T[0]", "num_groups=2", NULL, FLX_OK},
    {"T[2, 4, 0], T[4], T[4]", "num_groups=2", NULL, FLX_OK},
    {"bf16[2, 4, 2], f32[4], f32[4]", "num_groups=2, eps=0.1", NULL, FLX_OK},
    {"T[4], T[4], T[4]", "num_groups=2", NULL, FLX_E_SHAPE},
    {"T[2, 4, 3], T[3], T[4]", "num_groups=2", NULL, FLX_E_SHAPE},
    {"T[2, 4, 3], T[4], T[4]", "num_groups=3", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 4, 3], T[4], T[4]", "num_groups=0", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 4, 3], T[4], T[4]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_channel_norm[] = {
    {"T[2, 4, 2], T[4], T[4]", "eps=0.1", NULL, FLX_OK},
    {"T[4, 3], T[3], T[3]", "eps=0.1", NULL, FLX_OK},
    {"T[1, 4, 2, 2], T[4], T[4]", "eps=0.1", NULL, FLX_OK},
    {"T[N, 4, M], T[4], T[4]", "eps=0.1", NULL, FLX_OK},
    {"T[2, 4, 0], T[4], T[4]", NULL, NULL, FLX_OK},
    {"T[2, 0, 3], T[0], T[0]", NULL, NULL, FLX_OK},
    {"f16[2, 4, 2], f32[4], f32[4]", "eps=0.1", NULL, FLX_OK},
    {"T[4], T[4], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 4, 3], T[3], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 4, 3], T[4], T[4]", "axis=1", NULL, FLX_E_ATTRIBUTE},
    {"f32[2, 4], f64[4], f64[4]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_batch_norm_inference[] = {
    {"T[2, 3, 2], T[3], T[3], T[3], T[3]{0.5..2}", NULL, NULL, FLX_OK},
    {"T[4, 2], T[2], T[2], T[2], T[2]{0.5..2}", "eps=0.1", NULL, FLX_OK},
    {"T[1, 2, 2, 2], T[2], T[2], T[2], T[2]{0.5..2}", NULL, NULL, FLX_OK},
    {"T[N, 3], T[3], T[3], T[3], T[3]{0.5..2}", NULL, NULL, FLX_OK},
    {"T[0, 3], T[3], T[3], T[3], T[3]{0.5..2}", NULL, NULL, FLX_OK},
    {"bf16[2, 3], f32[3], f32[3], f32[3], f32[3]{0.5..2}", NULL, NULL, FLX_OK},
    {"f16[2, 3], f32[3], f16[3], f16[3], f32[3]{0.5..2}", NULL, NULL, FLX_OK},
    {"T[3], T[3], T[3], T[3], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3], T[3], T[3], T[2], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3], T[3], T[3], T[3], T[3]", "eps=-0.5", NULL, FLX_E_ATTRIBUTE},
    {"f64[2, 3], f32[3], f64[3], f64[3], f64[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

#define NORM_RULES(inference, described, expansion, list)                                                  \
    .infer = infer_##inference, .eval = flxi_eval_decomposed, .decompose = expansion, .schema = described, \
    .attrs_size = sizeof(flxi_norm_attrs), .samples = samples_##list

const flxi_rules flxi_rules_layer_norm = {
    NORM_RULES(axis_norm, flxi_norm_axis_schema, decompose_layer_norm, layer_norm),
    .backward_vjp = backward_vjp_layer_norm,
    .batch = flxi_batch_axis_norm,
};

const flxi_rules flxi_rules_rms_norm = {
    NORM_RULES(axis_norm, flxi_norm_axis_schema, decompose_rms_norm, rms_norm),
    .backward_vjp = backward_vjp_rms_norm,
    .batch = flxi_batch_axis_norm,
};

const flxi_rules flxi_rules_group_norm = {
    NORM_RULES(group_norm, flxi_norm_groups_schema, decompose_layer_norm, group_norm),
    .backward_vjp = backward_vjp_group_norm,
    .batch = flxi_batch_folded,
};

const flxi_rules flxi_rules_layer_norm2d = {
    NORM_RULES(channel_norm, flxi_norm_eps_schema, decompose_layer_norm, channel_norm),
    .backward_vjp = backward_vjp_layer_norm,
    .batch = flxi_batch_folded,
};

const flxi_rules flxi_rules_batch_norm_inference = {
    NORM_RULES(channel_norm, flxi_norm_eps_schema, decompose_batch_norm_inference, batch_norm_inference),
    .backward_vjp = backward_vjp_batch_norm_inference,
    .batch = flxi_batch_folded,
};

/* The statistics are computed per example. */
const flxi_rules flxi_rules_batch_norm_training = {
    NORM_RULES(batch_norm_training, flxi_norm_eps_schema, decompose_batch_norm_training, channel_norm),
};
