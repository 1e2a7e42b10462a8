/* SPDX-License-Identifier: Apache-2.0 */
/* leaf.c: values that depend on no operand's elements: declarations, literals, counters, the identity matrix and the
   extent of an axis. Types are attributes; all but a literal's may be symbolic and get their extents when the symbols
   are bound. */
#include "base/host/stop.h"
#include "ops/express/express.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/copy.h"
#include "ops/rule/pointwise.h"

/* ---- input, param ---- */

static const flxi_attr type_schema[] = {A_TYPE_POS(flxi_leaf_attrs, type), A_END};

/* Every struct of this family that holds a type has it first. */
static flx_code infer_type(flxi_infer *f)
{
    const flx_type *type = *(const flx_type *const *)f->attrs;
    FLXI_TRY(flxi_type_check(f->ctx, type, f->err));
    f->out[0] = *type;
    return FLX_OK;
}

static flx_code eval_declared(flxi_eval *e)
{
    return flxi_eval_fail(e, FLX_E_INTERNAL, NULL, "a declared value has no evaluation");
}

#define DECLARED_RULES \
    .infer = infer_type, .eval = eval_declared, .schema = type_schema, .attrs_size = sizeof(flxi_leaf_attrs)

const flxi_rules flxi_rules_input = {DECLARED_RULES};
const flxi_rules flxi_rules_param = {DECLARED_RULES};

/* ---- const, full ---- */

typedef struct {
    const flx_type *type;
    const flx_tensor *data;
} data_attrs;

static const flxi_attr const_schema[] = {A_TYPE_POS(data_attrs, type), A_DATA_POS(data_attrs, data), A_END};

typedef struct {
    const flx_type *type;
    const flx_tensor *value; /* rank 0 */
} full_attrs;

static const flxi_attr full_schema[] = {A_TYPE_POS(full_attrs, type), A_VALUE_POS(full_attrs, value), A_END};

static flx_code infer_const(flxi_infer *f)
{
    const data_attrs *a = f->attrs;
    FLXI_TRY(infer_type(f));
    flxi_type_text t, d;
    if (!flxi_type_is_static(a->type))
        return flxi_infer_fail(f, FLX_E_UNBOUND_DIM, "write the extents as numbers, or use full(type, value)",
                               "a literal needs a type without symbols, not %s", flxi_type_str(f->ctx, a->type, &t));
    if (!flxi_type_equal(a->type, &a->data->type))
        return flxi_infer_fail(f, a->type->dtype == a->data->type.dtype ? FLX_E_SHAPE : FLX_E_DTYPE, NULL,
                               "the type is %s, but the data is %s", flxi_type_str(f->ctx, a->type, &t),
                               flxi_type_str(f->ctx, &a->data->type, &d));
    return FLX_OK;
}

static flx_code eval_const(flxi_eval *e)
{
    const data_attrs *a = e->attrs;
    flxi_stop_copy(e->out[0]->data, a->data->data, e->out[0]->nbytes);
    return FLX_OK;
}

static flx_code infer_full(flxi_infer *f)
{
    const full_attrs *a = f->attrs;
    FLXI_TRY(infer_type(f));
    const flx_type *v = &a->value->type;
    if (v->rank == 0 && v->dtype == a->type->dtype)
        return FLX_OK;
    flxi_type_text t;
    return flxi_infer_fail(f, v->rank ? FLX_E_SHAPE : FLX_E_DTYPE, NULL, "the value must be %s[], not %s",
                           flx_dtype_name(a->type->dtype), flxi_type_str(f->ctx, v, &t));
}

static flx_code eval_full(flxi_eval *e)
{
    const full_attrs *a = e->attrs;
    flx_tensor *y = e->out[0];
    flxi_fill_elements(y->data, y->count, a->value->data, a->value->nbytes);
    return FLX_OK;
}

static const flxi_sample samples_const[] = {
    {"", "T[2, 2], [[1, 0], [1, 1]]", NULL, FLX_OK},
    {"", "f32[2, 3], [[1, -2, 0.5], [inf, nan, -0.0]]", NULL, FLX_OK},
    {"", "i16[], -7", NULL, FLX_OK},
    {"", "bool[3], [true, false, 1]", NULL, FLX_OK},
    {"", "c64[2], [[1, -2], 3]", NULL, FLX_OK},
    {"", "f64[0, 4], []", NULL, FLX_OK},
    {"", "u16[2], \"01000200\"", NULL, FLX_OK},
    {"", "f32[N], [1, 2]", NULL, FLX_E_UNBOUND_DIM},
    {0},
};

static const flxi_sample samples_full[] = {
    {"", "T[2, 3], 1", NULL, FLX_OK},       {"", "T[N, 2], 0", NULL, FLX_OK},
    {"", "f32[2, 3], 1.5", NULL, FLX_OK},   {"", "bf16[], -inf", NULL, FLX_OK},
    {"", "u8[4], 255", NULL, FLX_OK},       {"", "bool[2, 2], true", NULL, FLX_OK},
    {"", "c128[3], 2.5", NULL, FLX_OK},     {"", "i64[0, 5], 7", NULL, FLX_OK},
    {"", "i32[2], 0.5", NULL, FLX_E_DTYPE}, {0},
};

const flxi_rules flxi_rules_const = {
    .infer = infer_const,
    .eval = eval_const,
    .schema = const_schema,
    .attrs_size = sizeof(data_attrs),
    .samples = samples_const,
};

/* One number, with exactly its bits. */
static uint32_t part_of(flxi_express *e, const flx_tensor *value, size_t part)
{
    int32_t dtype = flxi_part_dtype(value->type.dtype);
    size_t size = flx_dtype_size(dtype);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)value->data + part * size, size); /* little-endian */
    return dtype == FLX_BOOL ? flxi_kb_bool(e->k, bits != 0) : flxi_kb_literal(e->k, (uint32_t)dtype, bits);
}

static flxi_kval pull_full(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const full_attrs *a = e->attrs;
    (void)result, (void)at;
    return (flxi_kval){part_of(e, a->value, 0), flxi_is_complex(a->type->dtype) ? part_of(e, a->value, 1) : 0};
}

const flxi_rules flxi_rules_full = {
    .infer = infer_full,
    .eval = eval_full,
    .pull = pull_full,
    .schema = full_schema,
    .attrs_size = sizeof(full_attrs),
    .samples = samples_full,
};

/* ---- iota ---- */

typedef struct {
    const flx_type *type;
    int64_t axis;
} iota_attrs;

static const flxi_attr iota_schema[] = {A_TYPE_POS(iota_attrs, type), A_INT(iota_attrs, axis, 0), A_END};

static flx_code infer_iota(flxi_infer *f)
{
    iota_attrs *a = f->attrs;
    FLXI_TRY(infer_type(f));
    if (!flxi_in(f->op->dtypes, a->type->dtype))
        return flxi_infer_fail(f, FLX_E_DTYPE, "count in an integer dtype and compare, or cast",
                               "%s cannot count; use a numeric dtype", flx_dtype_name(a->type->dtype));
    if (a->type->rank == 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, "for a single zero write full(type, 0)",
                               "the type must have at least one axis, but %s[] has none",
                               flx_dtype_name(a->type->dtype));
    return flxi_norm_axis(f, "axis", &a->axis, a->type->rank);
}

/* k in the arithmetic of the dtype; storing rounds or wraps it. */
static flxi_num counted(int32_t dtype, int64_t k)
{
    if (flxi_is_float(dtype))
        return (flxi_num){.f = (double)k};
    if (flxi_is_complex(dtype))
        return (flxi_num){.c = (double)k};
    return (flxi_num){.i = k};
}

static flx_code eval_iota(flxi_eval *e)
{
    const iota_attrs *a = e->attrs;
    flx_tensor *y = e->out[0];
    const flxi_arith *arith = flxi_arith_of(y->type.dtype);
    flxi_split s = flxi_split_at(&y->type, a->axis);
    for (int64_t at = 0; at < y->count && !flxi_stopped_by_now(); at++)
        arith->store(y->data, at, counted(y->type.dtype, at / s.inner % s.n));
    return FLX_OK;
}

static const flxi_sample samples_iota[] = {
    {"", "T[5]", NULL, FLX_OK},
    {"", "f16[2, 3], axis=1", NULL, FLX_OK},
    {"", "i32[2, 3, 2], axis=-2", NULL, FLX_OK},
    {"", "i8[300]", NULL, FLX_OK},
    {"", "c64[4]", NULL, FLX_OK},
    {"", "u64[3, 0], axis=0", NULL, FLX_OK},
    {"", "i64[3, 0], axis=1", NULL, FLX_OK},
    {"", "T[N, 2], axis=-2", NULL, FLX_OK},
    {"", "bool[4]", NULL, FLX_E_DTYPE},
    {"", "f32[]", NULL, FLX_E_SHAPE},
    {"", "f32[2], axis=1", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static flxi_kval pull_iota(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const iota_attrs *a = e->attrs;
    flxi_kindex to = *at;
    uint32_t i = flxi_at_axis(e, e->out[result], &to, (int)a->axis);
    flxi_kval zero = flxi_kzero(e, e->out[result]->dtype);
    return (flxi_kval){flxi_kb_cast(e->k, flxi_kb_type(e->k, zero.re), i), zero.im};
}

const flxi_rules flxi_rules_iota = {
    .infer = infer_iota,
    .eval = eval_iota,
    .pull = pull_iota,
    .schema = iota_schema,
    .attrs_size = sizeof(iota_attrs),
    .samples = samples_iota,
};

/* ---- eye ---- */

typedef struct {
    flx_dim n, m;
    int64_t k;
    int64_t dtype;
} eye_attrs;

static const flxi_attr eye_schema[] = {
    A_DIM_REQ(eye_attrs, n),
    A_DIM_OPT(eye_attrs, m, "n"),
    A_INT(eye_attrs, k, 0),
    A_DTYPE(eye_attrs, dtype, FLX_F32),
    A_END,
};

static flx_code infer_eye(flxi_infer *f)
{
    eye_attrs *a = f->attrs;
    if (a->m == FLXI_ABSENT)
        a->m = a->n;
    flx_dim dims[2] = {a->n, a->m};
    FLXI_TRY(flxi_need_count(f, "n", a->n));
    FLXI_TRY(flxi_need_count(f, "m", a->m));
    f->out[0] = flx_type_make((flx_dtype)a->dtype, 2, dims);
    return FLX_OK;
}

static flx_code eval_eye(flxi_eval *e)
{
    const eye_attrs *a = e->attrs;
    flx_tensor *y = e->out[0];
    const flxi_arith *arith = flxi_arith_of(y->type.dtype);
    int64_t n = y->type.dims[0], m = y->type.dims[1];
    if (a->k <= -n || a->k >= m)
        return FLX_OK; /* the diagonal is outside the matrix; below, i + k cannot overflow */
    for (int64_t i = a->k < 0 ? -a->k : 0; i < n && i + a->k < m && !flxi_stopped_by_now(); i++)
        arith->store(y->data, i * m + i + a->k, arith->one);
    return FLX_OK;
}

static const flxi_sample samples_eye[] = {
    {"", "n=3", NULL, FLX_OK},
    {"", "n=3, m=2, dtype=T", NULL, FLX_OK},
    {"", "n=2, m=4, k=1, dtype=i32", NULL, FLX_OK},
    {"", "n=4, m=2, k=-3, dtype=bool", NULL, FLX_OK},
    {"", "n=3, k=4611686018427387904, dtype=c64", NULL, FLX_OK},
    {"", "n=3, k=-4611686018427387904, dtype=bf16", NULL, FLX_OK},
    {"", "n=0, m=3", NULL, FLX_OK},
    {"", "n=N, m=N+1, dtype=f64", NULL, FLX_OK},
    {"", "n=-1", NULL, FLX_E_ATTRIBUTE},
    {"", "n=2, m=-2", NULL, FLX_E_ATTRIBUTE},
    {"", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

static flxi_kval pull_eye(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const eye_attrs *a = e->attrs;
    const flx_type *y = e->out[result];
    flxi_kval zero = flxi_kzero(e, y->dtype);
    flxi_kindex to = *at;
    if (a->k <= -y->dims[0] || a->k >= y->dims[1])
        return zero;
    uint32_t row = flxi_at_axis(e, y, &to, 0), col = flxi_at_axis(e, y, &to, 1);
    uint32_t hit = a->k < 0 ? flxi_k2(e, KBIN_eq, flxi_ku_add(e, col, flxi_ku(e, -a->k)), row)
                            : flxi_k2(e, KBIN_eq, col, flxi_ku_add(e, row, flxi_ku(e, a->k)));
    flxi_kval one = flxi_kone(e, y->dtype);
    return (flxi_kval){flxi_kb_select(e->k, hit, one.re, zero.re), zero.im};
}

const flxi_rules flxi_rules_eye = {
    .infer = infer_eye,
    .eval = eval_eye,
    .pull = pull_eye,
    .schema = eye_schema,
    .attrs_size = sizeof(eye_attrs),
    .samples = samples_eye,
};

/* ---- dim_size ---- */

typedef struct {
    int64_t axis;
} axis_attrs;

static const flxi_attr axis_schema[] = {A_INT_REQ(axis_attrs, axis), A_END};

static flx_code infer_dim_size(flxi_infer *f)
{
    axis_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, f->in[0]->rank));
    f->out[0] = (flx_type){.dtype = FLX_I64};
    return FLX_OK;
}

static flx_code eval_dim_size(flxi_eval *e)
{
    const axis_attrs *a = e->attrs;
    flxi_store_int(FLX_I64, e->out[0]->data, 0, e->in[0]->type.dims[a->axis]);
    return FLX_OK;
}

static const flxi_sample samples_dim_size[] = {
    {"f32[3, 4]", "axis=1", NULL, FLX_OK},
    {"i8[3, 4]", "axis=-2", NULL, FLX_OK},
    {"bool[0]", "axis=0", NULL, FLX_OK},
    {"c64[2, N]", "axis=1", NULL, FLX_OK},
    {"f32[3, 4]", "axis=2", NULL, FLX_E_ATTRIBUTE},
    {"f32[3, 4]", NULL, NULL, FLX_E_ATTRIBUTE},
    {"f32[]", "axis=0", NULL, FLX_E_SHAPE},
    {0},
};

/* All examples have the same extents, so the result has no batch axis. */
static void batch_dim_size(flxi_site *s, flx_val *by)
{
    axis_attrs *a = flxi_site_attrs(s);
    if (!a)
        return;
    a->axis++;
    flxi_append(s, a, s->x, s->nin, by);
    s->by_batched[0] = false;
}

static flxi_kval pull_dim_size(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const axis_attrs *a = e->attrs;
    (void)result, (void)at;
    return flxi_kreal(flxi_kb_literal(e->k, FLX_I64, (uint64_t)e->in[0]->dims[a->axis]));
}

const flxi_rules flxi_rules_dim_size = {
    .infer = infer_dim_size,
    .eval = eval_dim_size,
    .pull = pull_dim_size,
    .batch = batch_dim_size,
    .schema = axis_schema,
    .attrs_size = sizeof(axis_attrs),
    .samples = samples_dim_size,
};
