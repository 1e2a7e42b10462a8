/* SPDX-License-Identifier: Apache-2.0 */
/* quant_product.c: products and convolutions of 8-bit integers. The sum is exact: in i32 where it always fits, else in
   i64. It is scaled in f64, since f32 rounds it above 2^24, and rounded and saturated once.

   Derivatives pass straight through the rounding: those of mult (bias + product(x - x_zp, w - w_zp)), in f32, and
   zero where the result saturates. The formulas of matmul are here, a convolution uses the rules of conv. */
#include "ops/opcode.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"
#include "ops/signal/conv.h"

typedef struct {
    double mult;
    int64_t x_zp, w_zp, out_zp;
} output_grid;

typedef struct {
    output_grid grid;
} matmul_attrs;

typedef struct {
    flxi_conv_attrs conv; /* first: conv's own rules read it */
    output_grid grid;
} conv_attrs;

#define GRID_ROW_REAL(T, f)                                                                                           \
    {                                                                                                                 \
        .name = #f, .kind = ATTR_REAL, .offset = offsetof(T, grid) + offsetof(output_grid, f), .flags = ATTR_REQUIRED \
    }
#define GRID_ROW_INT(T, f)                                                                   \
    {                                                                                        \
        .name = #f, .kind = ATTR_INT, .offset = offsetof(T, grid) + offsetof(output_grid, f) \
    }
#define GRID_ROWS(T) GRID_ROW_REAL(T, mult), GRID_ROW_INT(T, x_zp), GRID_ROW_INT(T, w_zp), GRID_ROW_INT(T, out_zp)

static const flxi_attr matmul_schema[] = {GRID_ROWS(matmul_attrs), A_END};
static const flxi_attr conv_schema[] = {GRID_ROWS(conv_attrs), FLXI_CONV_ROWS, A_END};

static bool is_conv(const flxi_op *op)
{
    return op == &flxi_ops[OP_q_conv];
}

static const output_grid *grid_of(const flxi_op *op, const void *attrs)
{
    return is_conv(op) ? &((const conv_attrs *)attrs)->grid : &((const matmul_attrs *)attrs)->grid;
}

/* ---- Inference ---- */

static flx_code check_grid(flxi_infer *f)
{
    const output_grid *a = grid_of(f->op, f->attrs);
    const struct {
        const char *name;
        int64_t value;
    } points[] = {{"x_zp", a->x_zp}, {"w_zp", a->w_zp}, {"out_zp", a->out_zp}};
    if (!isfinite(a->mult))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "mult must be finite: it is %g", a->mult);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        if (points[i].value < INT8_MIN || points[i].value > INT8_MAX)
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "%s must be within -128 ... 127: it is %lld",
                                   points[i].name, (long long)points[i].value);
    return FLX_OK;
}

static flx_code check_bias(flxi_infer *f, flx_dim features)
{
    const flx_type *b = f->in[2];
    flxi_type_text text;
    flxi_dim_text n;
    if (b->dtype != FLX_I32)
        return flxi_infer_fail(f, FLX_E_DTYPE, "cast it: cast(bias, to=i32)", "bias must be i32: it is %s",
                               flxi_type_str(f->ctx, b, &text));
    if (b->rank == 1 && flxi_dims_may_equal(f, b->dims[0], features))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "bias must be [%s], one for each output feature: it is %s",
                           flxi_dim_str(f->ctx, features, &n), flxi_shape_str(f->ctx, b, &text));
}

static flx_code infer_q_matmul(flxi_infer *f)
{
    const flx_type *x = f->in[0];
    const flx_type *w = f->in[1];
    flxi_type_text tx;
    flxi_type_text tw;
    FLXI_TRY(check_grid(f));
    if (x->rank != 2 || w->rank != 2)
        return flxi_infer_fail(f, FLX_E_SHAPE, "reshape leading axes into the rows",
                               "x and w must be matrices: x is %s, w is %s", flxi_shape_str(f->ctx, x, &tx),
                               flxi_shape_str(f->ctx, w, &tw));
    if (!flxi_dims_may_equal(f, x->dims[1], w->dims[0]))
        return flxi_infer_fail(f, FLX_E_SHAPE,
                               flxi_dims_may_equal(f, x->dims[1], w->dims[1]) ? "transpose w: w is [K, N]" : NULL,
                               "inner dimensions differ: x is %s, w is %s", flxi_shape_str(f->ctx, x, &tx),
                               flxi_shape_str(f->ctx, w, &tw));
    FLXI_TRY(check_bias(f, w->dims[1]));
    f->out[0] = flx_type_make(FLX_I8, 2, (flx_dim[]){x->dims[0], w->dims[1]});
    return FLX_OK;
}

static flx_code infer_q_conv(flxi_infer *f)
{
    const flxi_conv_attrs *a = f->attrs;
    FLXI_TRY(flxi_infer_conv(f));
    FLXI_TRY(check_grid(f));
    return check_bias(f, f->in[1]->dims[a->kernel_axes.v[0]]);
}

/* ---- Values ---- */

/* conv with the attributes of a site of q_conv. */
static flxi_site conv_site(const flxi_site *s)
{
    flxi_site c = *s;
    c.op = &flxi_ops[OP_conv];
    c.nin = 2;
    c.nout = 1;
    return c;
}

static flx_val product(flxi_site *s, flx_val x, flx_val w)
{
    if (!is_conv(s->op))
        return flx_matmul(s->g, x, w);
    flxi_site c = conv_site(s);
    return flxi_emit1(&c, NULL, (flx_val[]){x, w}, 2);
}

/* The axis of the result that the bias runs along. */
static int64_t feature_axis(const flxi_site *s)
{
    return is_conv(s->op) ? ((const flxi_conv_attrs *)s->attrs)->output_axes.v[1] : 1;
}

/* The type of the bias when it broadcasts over a result of this type. */
static flx_type bias_type(const flxi_site *s, const flx_type *y)
{
    flx_type t = *y;
    for (int k = 0; k < t.rank; k++)
        t.dims[k] = k == feature_axis(s) ? y->dims[k] : 1;
    return t;
}

static flx_val stretched_bias(flxi_site *s, flx_val b, const flx_type *y)
{
    flx_type t = bias_type(s, y);
    return flxi_reshape_to(s, b, t.rank, t.dims);
}

/* v - zero_point in another dtype. */
static flx_val centred(flxi_site *s, flx_val v, int64_t zero_point, flx_dtype dtype)
{
    v = flx_cast(s->g, v, dtype);
    return zero_point ? flx_sub(s->g, v, flxi_number(s, v, (double)zero_point)) : v;
}

/* Each of n terms is at most 255^2; i32 holds the sum of fewer than 33000. */
static flx_dtype sum_dtype(const flxi_site *s)
{
    const flx_type *w = flxi_typeof(s, s->x[1]);
    flx_dim terms = w->dims[0];
    if (is_conv(s->op)) {
        const int64_t *axes = ((const flxi_conv_attrs *)s->attrs)->kernel_axes.v;
        terms = 1;
        for (int k = 1; k < w->rank; k++)
            terms = flx_dim_mul(s->ctx, terms, w->dims[axes[k]]);
    }
    return flxi_dim_is_number(terms) && terms < 33000 ? FLX_I32 : FLX_I64;
}

/* Σ_k (x - x_zp) (w - w_zp) of matrices, from the product of the bytes as they are, which devices multiply fast, and
   sums of rows and columns. Where sums wrap around, those of the terms do too: the result is the same. */
static flx_val product_of_bytes(flxi_site *s)
{
    const output_grid *a = grid_of(s->op, s->attrs);
    flx_graph *g = s->g;
    flx_val x = flx_cast(g, s->x[0], FLX_I32);
    flx_val w = flx_cast(g, s->x[1], FLX_I32);
    flx_val acc = flx_matmul(g, x, w);
    int64_t both = flxi_typeof(s, x)->dims[1] * a->x_zp * a->w_zp;
    if (a->x_zp)
        acc = flx_sub(g, acc, flx_mul(g, flx_reduce_sum(g, w, FLX_INTS(0), 1), flxi_number(s, w, (double)a->x_zp)));
    if (a->w_zp)
        acc = flx_sub(g, acc, flx_mul(g, flx_reduce_sum(g, x, FLX_INTS(1), 1), flxi_number(s, x, (double)a->w_zp)));
    return both ? flx_add(g, acc, flxi_number(s, acc, (double)both)) : acc;
}

static flx_val centred_product(flxi_site *s)
{
    const output_grid *a = grid_of(s->op, s->attrs);
    flx_dtype dtype = sum_dtype(s);
    if (!is_conv(s->op) && dtype == FLX_I32 && flxi_dim_is_number(flxi_typeof(s, s->x[0])->dims[1]))
        return product_of_bytes(s);
    return product(s, centred(s, s->x[0], a->x_zp, dtype), centred(s, s->x[1], a->w_zp, dtype));
}

/* round(acc * mult) + out_zp in f64, before it saturates. */
static flx_val unsaturated(flxi_site *s)
{
    const output_grid *a = grid_of(s->op, s->attrs);
    flx_graph *g = s->g;
    flx_val acc = centred_product(s);
    flx_val bias = stretched_bias(s, flx_cast(g, s->x[2], FLX_I64), flxi_typeof(s, acc));
    acc = flx_cast(g, flx_add(g, flx_cast(g, acc, FLX_I64), bias), FLX_F64);
    flx_val v = flx_round(g, flx_mul(g, acc, flxi_number(s, acc, a->mult)), NULL);
    return flx_add(g, v, flxi_number(s, v, (double)a->out_zp));
}

static void decompose_product(flxi_site *s, flx_val *y)
{
    flx_val v = unsaturated(s);
    flx_val inside = flx_clamp(s->g, flxi_number(s, v, INT8_MIN), v, flxi_number(s, v, INT8_MAX));
    y[0] = flx_cast(s->g, inside, FLX_I8);
}

/* ---- Derivatives ---- */

/* where(not saturated, t, 0) * mult */
static flx_val through_rounding(flxi_site *s, flx_val t)
{
    flx_graph *g = s->g;
    flx_val v = unsaturated(s);
    flx_val inside = flx_and(g, flx_ge(g, v, flxi_number(s, v, INT8_MIN)), flx_le(g, v, flxi_number(s, v, INT8_MAX)));
    return flx_mul(g, flxi_masked(s, inside, t), flxi_number(s, t, grid_of(s->op, s->attrs)->mult));
}

/* x - x_zp and w - w_zp in f32. */
static void centred_operands(flxi_site *s, flx_val *x)
{
    const output_grid *a = grid_of(s->op, s->attrs);
    x[0] = centred(s, s->x[0], a->x_zp, FLX_F32);
    x[1] = centred(s, s->x[1], a->w_zp, FLX_F32);
}

static void vjp_product(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_graph *g = s->g;
    flx_val x[2];
    flx_val u = through_rounding(s, dy[0]);
    centred_operands(s, x);
    if (is_conv(s->op)) {
        flxi_site c = conv_site(s);
        c.x = x;
        flxi_vjp_conv(&c, &u, dx);
    } else {
        flx_ints swap = {(const int64_t[]){1, 0}, 2};
        if (s->wanted[0])
            dx[0] = flx_matmul(g, u, flx_transpose(g, x[1], swap));
        if (s->wanted[1])
            dx[1] = flx_matmul(g, flx_transpose(g, x[0], swap), u);
    }
    if (s->wanted[2]) {
        flx_type t = bias_type(s, flxi_typeof(s, u));
        const flx_type *b = flxi_typeof(s, s->x[2]);
        dx[2] = flxi_reshape_to(s, flxi_unbroadcast(s, u, &t), b->rank, b->dims);
    }
}

static void jvp_product(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_val x[2];
    flx_val t = FLX_NONE;
    const flx_type *y = flxi_typeof(s, s->y[0]);
    centred_operands(s, x);
    if (!flxi_is_none(tx[0]))
        t = product(s, tx[0], x[1]);
    if (!flxi_is_none(tx[1]))
        t = flxi_sum(s, t, product(s, x[0], tx[1]));
    if (!flxi_is_none(tx[2])) {
        flx_type whole = flxi_tangent_type(y);
        t = flxi_sum(s, t, flxi_expand_like(s, stretched_bias(s, tx[2], y), &whole));
    }
    ty[0] = through_rounding(s, t);
}

/* ---- Batching ---- */

/* Merges the leading batch axis of a lifted operand into `axis` of the example; and splits it off again. */
static flx_val fold_into(flxi_site *s, flx_val v, int axis)
{
    flx_dim dims[FLX_MAX_RANK];
    v = flxi_move_axis(s, v, 0, axis);
    const flx_type *t = flxi_typeof(s, v);
    for (int k = 0; k < t->rank; k++)
        dims[k > axis ? k - 1 : k] = k == axis + 1 ? flx_dim_mul(s->ctx, t->dims[axis], t->dims[k]) : t->dims[k];
    return flxi_reshape_to(s, v, t->rank - 1, dims);
}

static flx_val unfold_from(flxi_site *s, flx_val v, int axis, const flx_type *example)
{
    flx_dim dims[FLX_MAX_RANK];
    for (int k = 0; k <= example->rank; k++)
        dims[k] = k == axis ? s->size : example->dims[k > axis ? k - 1 : k];
    return flxi_move_axis(s, flxi_reshape_to(s, v, example->rank + 1, dims), axis, 0);
}

/* The type of the result for one example. */
static bool example_result(flxi_site *s, flx_type *y)
{
    flx_type x[3];
    uint32_t n = 1;
    flx_error err = {0};
    void *attrs = flxi_site_attrs(s);
    for (uint32_t i = 0; i < 3; i++) {
        const flx_type *t = flxi_typeof(s, s->x[i]);
        x[i] = s->batched[i] ? flx_type_make((flx_dtype)t->dtype, t->rank - 1, t->dims + 1) : *t;
    }
    if (s->g->error.code)
        return false;
    if (flxi_infer_node(s->g, (flxi_opcode)(s->op - flxi_ops), (const flx_type *const[]){&x[0], &x[1], &x[2]}, 3, attrs,
                        &y, &n, &err) != FLX_OK)
        flxi_graph_fail(s->g, &err);
    return !s->g->error.code;
}

/* An empty batch: a number of groups cannot be 0. */
static flx_val no_examples(flxi_site *s, const flx_type *example)
{
    flx_dim dims[FLX_MAX_RANK + 1] = {0};
    memcpy(dims + 1, example->dims, (size_t)example->rank * sizeof *dims);
    flx_type none = flx_type_make(FLX_I8, example->rank + 1, dims);
    return flxi_zeros(s, &none);
}

/* Where only x is batched, all examples are rows of one matrix. Otherwise a product for each example is a convolution
   of no spatial axes with a group for each: x [M, B·K], w [B·N, K]. */
static void batch_q_matmul(flxi_site *s, flx_val *by)
{
    const output_grid *a = grid_of(s->op, s->attrs);
    flx_type y;
    if (!example_result(s, &y))
        return;
    if (!s->batched[1] && !s->batched[2]) {
        flx_val x[3] = {fold_into(s, s->x[0], 0), s->x[1], s->x[2]};
        by[0] = unfold_from(s, flxi_emit1(s, NULL, x, 3), 0, &y);
    } else if (s->size == 0) {
        by[0] = no_examples(s, &y);
    } else {
        flx_val x[3] = {fold_into(s, flxi_lift(s, 0), 1), fold_into(s, flxi_move_axis(s, flxi_lift(s, 1), 2, 1), 0),
                        fold_into(s, flxi_lift(s, 2), 0)};
        flx_attr attrs[] = {flx_attr_real("mult", a->mult), flx_attr_int("x_zp", a->x_zp),
                            flx_attr_int("w_zp", a->w_zp), flx_attr_int("out_zp", a->out_zp),
                            flx_attr_int("groups", s->size)};
        by[0] = unfold_from(s, flx_op1(s->g, "q_conv", x, 3, attrs, sizeof attrs / sizeof *attrs), 1, &y);
    }
}

/* Into the batch where only x is batched, else into the groups. */
static void batch_q_conv(flxi_site *s, flx_val *by)
{
    conv_attrs *a = flxi_site_attrs(s);
    flx_type y;
    if (!a || !example_result(s, &y))
        return;
    flxi_conv_attrs *c = &a->conv;
    bool in_batch = c->batch_groups != 1;
    bool is_shared = !s->batched[1] && !s->batched[2] && !in_batch;
    if (s->size == 0) {
        by[0] = no_examples(s, &y);
        return;
    }
    flx_val x[3] = {fold_into(s, flxi_lift(s, 0), (int)c->input_axes.v[is_shared || in_batch ? 0 : 1]), s->x[1],
                    s->x[2]};
    if (!is_shared) {
        flx_dim *groups = in_batch ? &c->batch_groups : &c->common.groups;
        *groups = flx_dim_mul(s->ctx, *groups, s->size);
        x[1] = fold_into(s, flxi_lift(s, 1), (int)c->kernel_axes.v[0]);
        x[2] = fold_into(s, flxi_lift(s, 2), 0);
    }
    by[0] = unfold_from(s, flxi_emit1(s, a, x, 3), (int)c->output_axes.v[is_shared ? 0 : 1], &y);
}

/* ---- Rules ---- */

static const flxi_sample samples_q_matmul[] = {
    {"i8[3, 4]{-128..127}, i8[4, 5]{-128..127}, i32[5]{-999..999}", "mult=0.004", NULL, FLX_OK},
    {"i8[3, 4], i8[4, 2], i32[2]", "mult=-1.5, x_zp=3, w_zp=-2, out_zp=100", NULL, FLX_OK},
    {"i8[1, 1]{-128..127}, i8[1, 1]{-128..127}, i32[1]", "mult=1, x_zp=127, w_zp=-128", NULL, FLX_OK},
    {"i8[3, 0], i8[0, 2], i32[2]", "mult=2.5", NULL, FLX_OK},
    {"i8[0, 2], i8[2, 3], i32[3]", "mult=1", NULL, FLX_OK},
    {"i8[N, 4], i8[4, M], i32[M]", "mult=0.5", NULL, FLX_OK},
    {"i8[2, N], i8[N, 3], i32[3]", "mult=0.5, out_zp=-7", NULL, FLX_OK},
    {"i8[3, 4], i8[4, 5], i32[5]", NULL, NULL, FLX_E_ATTRIBUTE},
    {"i8[3, 4], i8[4, 5], i32[5]", "mult=1, x_zp=200", NULL, FLX_E_ATTRIBUTE},
    {"i8[3, 4], i8[5, 4], i32[5]", "mult=1", NULL, FLX_E_SHAPE},
    {"i8[2, 3, 4], i8[4, 5], i32[5]", "mult=1", NULL, FLX_E_SHAPE},
    {"i8[3, 4], i8[4, 5], i32[4]", "mult=1", NULL, FLX_E_SHAPE},
    {"i8[3, 4], i8[4, 5], i64[5]", "mult=1", NULL, FLX_E_DTYPE},
    {"f32[3, 4], f32[4, 5], i32[5]", "mult=1", NULL, FLX_E_DTYPE},
    {"i8[3, 4], i8[4, 5]", "mult=1", NULL, FLX_E_ARITY},
    {0},
};

static const flxi_sample samples_q_conv[] = {
    {"i8[2, 3, 6]{-128..127}, i8[4, 3, 3]{-128..127}, i32[4]{-999..999}", "mult=0.003", NULL, FLX_OK},
    {"i8[1, 2, 4, 3], i8[2, 1, 2, 2], i32[2]", "mult=1.5, x_zp=3, w_zp=-1, out_zp=9, groups=2, padding=[1, [0, 1]]",
     NULL, FLX_OK},
    {"i8[2, 2, 5], i8[2, 2, 2], i32[2]", "mult=0.5, x_zp=-5, stride=[2], dilation=[2], padding=[2]", NULL, FLX_OK},
    {"i8[5, 2, 3], i8[2, 4, 3], i32[4]",
     "mult=1, x_zp=2, input_axes=[1, 2, 0], kernel_axes=[1, 2, 0], output_axes=[2, 1, 0], reverse=[true]", NULL,
     FLX_OK},
    {"i8[4, 2, 3], i8[4, 2, 2], i32[4]", "mult=0.5, batch_groups=2", NULL, FLX_OK},
    {"i8[2, 3], i8[4, 3], i32[4]", "mult=1", NULL, FLX_OK},
    {"i8[0, 3, 4], i8[2, 3, 2], i32[2]", "mult=1", NULL, FLX_OK},
    {"i8[N, 2, 5], i8[3, 2, 2], i32[3]", "mult=0.25", NULL, FLX_OK},
    {"i8[2, 3, 6], i8[4, 3, 3], i32[3]", "mult=1", NULL, FLX_E_SHAPE},
    {"i8[2, 3, 6], i8[4, 2, 3], i32[4]", "mult=1", NULL, FLX_E_SHAPE},
    {"i8[2, 3, 6], i8[4, 3, 3], i8[4]", "mult=1", NULL, FLX_E_DTYPE},
    {"i8[2, 3, 6], i8[4, 3, 3], i32[4]", "mult=1, w_zp=-129", NULL, FLX_E_ATTRIBUTE},
    {"i8[2, 3, 6], i8[4, 3, 3], i32[4]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_q_matmul = {
    .infer = infer_q_matmul,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_product,
    .vjp = vjp_product,
    .jvp = jvp_product,
    .batch = batch_q_matmul,
    .schema = matmul_schema,
    .attrs_size = sizeof(matmul_attrs),
    .samples = samples_q_matmul,
    .link = flxi_link_dense,
};

const flxi_rules flxi_rules_q_conv = {
    .infer = infer_q_conv,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_product,
    .vjp = vjp_product,
    .jvp = jvp_product,
    .batch = batch_q_conv,
    .schema = conv_schema,
    .attrs_size = sizeof(conv_attrs),
    .samples = samples_q_conv,
    .link = flxi_link_dense,
};
