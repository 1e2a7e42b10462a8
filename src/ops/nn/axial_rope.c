/* SPDX-License-Identifier: Apache-2.0 */
/* axial_rope.c: axial_rope2d, a rotary embedding for tokens on a grid. It has no tables: the angles are computed from
   positions, in f64, so that they are as accurate as the dtype of x allows. There are few of them, one for each token
   and pair of a head. */
#include "ops/nn/head_layout.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/decomposed.h"

#include <math.h>

typedef enum { REPEAT_TILE, REPEAT_INTERLEAVE } repeat_mode; /* positions in the list of words */

typedef struct {
    int64_t end_x, end_y;
    int64_t num_heads;
    double theta;
    int64_t repeat_factor, repeat_mode;
} axial_attrs;

static const flxi_attr axial_schema[] = {
    A_INT_REQ(axial_attrs, end_x),
    A_INT_REQ(axial_attrs, end_y),
    A_INT_REQ(axial_attrs, num_heads),
    A_REAL(axial_attrs, theta, 10000.0),
    A_INT(axial_attrs, repeat_factor, 1),
    A_WORD(axial_attrs, repeat_mode, "tile interleave"),
    A_END,
};

static flx_code infer_axial(flxi_infer *f)
{
    const axial_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    flxi_heads heads;
    flxi_type_text text;
    int64_t num_heads = a->num_heads;
    int64_t head_dim = FLXI_ABSENT;
    if (a->end_x < 1 || a->end_y < 1 || num_heads < 1 || a->repeat_factor < 1)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL,
                               "end_x, end_y, num_heads and repeat_factor must be at least 1, got %lld, %lld, %lld, "
                               "%lld",
                               (long long)a->end_x, (long long)a->end_y, (long long)num_heads,
                               (long long)a->repeat_factor);
    if (!(a->theta > 0) || isinf(a->theta))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "theta must be positive and finite: it is %g", a->theta);
    FLXI_TRY(flxi_infer_heads(f, 0, HEADS_BSD, &num_heads, &head_dim, &heads));
    if (head_dim % 4)
        return flxi_infer_fail(f, FLX_E_SHAPE, "each half of a head consists of pairs",
                               "the width of a head must be a multiple of 4: it is %lld", (long long)head_dim);
    flx_dim tokens = flx_dim_mul(f->ctx, flx_dim_mul(f->ctx, a->end_x, a->end_y), a->repeat_factor);
    if (tokens == FLX_DIM_INVALID || !flxi_dims_may_equal(f, x->dims[1], tokens))
        return flxi_infer_fail(f, FLX_E_SHAPE, "axis 1 must be end_x * end_y * repeat_factor",
                               "x, of shape %s, does not have %lld * %lld * %lld tokens",
                               flxi_shape_str(f->ctx, x, &text), (long long)a->end_x, (long long)a->end_y,
                               (long long)a->repeat_factor);
    f->out[0] = *x;
    return FLX_OK;
}

static flx_val int_number(flxi_site *s, int64_t x)
{
    return flx_scalar(s->g, FLX_I64, (double)x);
}

/* The grid position of each token, (px, py): [S, 2] */
static flx_val grid_positions(flxi_site *s, flx_dim tokens)
{
    const axial_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_type column = flx_type_make(FLX_I64, 2, (flx_dim[]){tokens, 1});
    flx_val t = flx_iota(g, &column, 0);
    flx_val p = a->repeat_mode == REPEAT_TILE ? flx_rem(g, t, int_number(s, a->end_x * a->end_y))
                                              : flx_div(g, t, int_number(s, a->repeat_factor));
    flx_val along[2] = {flx_rem(g, p, int_number(s, a->end_x)), flx_div(g, p, int_number(s, a->end_x))};
    return flx_concat(g, along, 2, 1);
}

/* The angles of all pairs: [S, 1, 2, D/4, 1] */
static flx_val angles(flxi_site *s, flx_dim tokens, int64_t head_dim)
{
    const axial_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_type pairs = flx_type_make(FLX_F64, 2, (flx_dim[]){head_dim / 4, 1});
    flx_val c = flx_iota(g, &pairs, 0);
    flx_val f = flx_exp(g, flx_mul(g, c, flx_scalar(g, FLX_F64, -4 * log(a->theta) / (double)head_dim)));
    flx_val at = flx_cast(g, grid_positions(s, tokens), FLX_F64);
    return flx_mul(g, flxi_reshape_to(s, at, 5, (flx_dim[]){tokens, 1, 2, 1, 1}), f);
}

/* (u, v) to (u, v) cos + (v, u) (-sin, sin), for all pairs at once. */
static void decompose_axial(flxi_site *s, flx_val *y)
{
    const axial_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_type t = *flxi_typeof(s, s->x[0]);
    flx_dim tokens = a->end_x * a->end_y * a->repeat_factor;
    int64_t head_dim = t.rank == 3 ? t.dims[2] / a->num_heads : 4;
    flx_dim pairs[6] = {t.dims[0], tokens, a->num_heads, 2, head_dim / 4, 2};
    flx_type two = flx_type_make(FLX_F64, 1, (flx_dim[]){2});
    flx_val x = flxi_reshape_to(s, flxi_widen(s, s->x[0]), 6, pairs);
    int32_t dtype = flxi_typeof(s, x)->dtype;
    flx_val angle = angles(s, tokens, head_dim);
    flx_val number_of_sign = flx_mul(g, flx_iota(g, &two, 0), flx_scalar(g, FLX_F64, 2));
    flx_val sign = flx_sub(g, number_of_sign, flx_scalar(g, FLX_F64, 1));
    flx_val cosine = flxi_as_dtype(s, flx_cos(g, angle), dtype);
    flx_val sine = flxi_as_dtype(s, flx_mul(g, flx_sin(g, angle), sign), dtype);
    flx_val turned = flx_add(g, flx_mul(g, x, cosine), flx_mul(g, flx_reverse(g, x, FLX_INTS(5)), sine));
    y[0] = flxi_as_dtype(s, flxi_reshape_to(s, turned, t.rank, t.dims), t.dtype);
}

static void batch_axial(flxi_site *s, flx_val *by)
{
    flx_type example = flxi_example_type(s, 0);
    flx_val x = flxi_fold_batch(s, s->x[0], true, example.dims[0]);
    by[0] = flxi_unfold_batch(s, flxi_emit1(s, NULL, &x, 1), &example);
}

static const flxi_sample samples_axial[] = {
    {"T[2, 6, 8]", "end_x=3, end_y=2, num_heads=1", NULL, FLX_OK},
    {"T[1, 4, 8]", "end_x=2, end_y=1, num_heads=2, theta=100, repeat_factor=2", NULL, FLX_OK},
    {"T[1, 4, 4]", "end_x=2, end_y=1, num_heads=1, repeat_factor=2, repeat_mode=interleave", NULL, FLX_OK},
    {"T[N, 2, 4]", "end_x=1, end_y=2, num_heads=1", NULL, FLX_OK},
    {"T[N, M, 4]", "end_x=3, end_y=1, num_heads=1", NULL, FLX_OK},
    {"T[0, 2, 4]", "end_x=1, end_y=2, num_heads=1", NULL, FLX_OK},
    {"T[1, 2, 0]", "end_x=1, end_y=2, num_heads=1", NULL, FLX_OK},
    {"T[1, 2, 6]", "end_x=1, end_y=2, num_heads=1", NULL, FLX_E_SHAPE},
    {"T[1, 2, 6]", "end_x=1, end_y=2, num_heads=4", NULL, FLX_E_SHAPE},
    {"T[1, 3, 4]", "end_x=1, end_y=2, num_heads=1", NULL, FLX_E_SHAPE},
    {"T[2, 4]", "end_x=1, end_y=2, num_heads=1", NULL, FLX_E_SHAPE},
    {"T[1, 2, N]", "end_x=1, end_y=2, num_heads=1", NULL, FLX_E_SHAPE},
    {"T[1, 2, 4]", "end_x=1, end_y=2, num_heads=1, repeat_factor=4611686018427387904", NULL, FLX_E_SHAPE},
    {"T[1, 2, 4]", "end_x=0, end_y=2, num_heads=1", NULL, FLX_E_ATTRIBUTE},
    {"T[1, 2, 4]", "end_x=1, end_y=2, num_heads=1, theta=0", NULL, FLX_E_ATTRIBUTE},
    {"T[1, 2, 4]", "end_x=1, end_y=2", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_axial_rope2d = {
    .infer = infer_axial,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_axial,
    .batch = batch_axial,
    .schema = axial_schema,
    .attrs_size = sizeof(axial_attrs),
    .samples = samples_axial,
};
