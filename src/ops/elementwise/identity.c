/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c: ops whose result is their operand, unchanged, in another dtype, in fewer bits, or with a side effect
   (`print` prints, `check` may fail). */
#include "base/half.h"
#include "base/host/stop.h"
#include "ops/express/express_formula.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/element.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"
#include "ops/rule/tame.h"

#include <stdio.h>

/* ---- Shared parts ---- */

/* The derivative of all of them except cast: each cotangent and tangent passes through unchanged. An operand without a
   result of its own (the condition of check) has none. */
static void vjp_identity(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    for (uint32_t k = 0; k < s->nout; k++)
        dx[k] = dy[k];
}

static void jvp_identity(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    for (uint32_t k = 0; k < s->nout; k++)
        ty[k] = tx[k];
}

/* The same op on operands with or without a leading batch axis; result k is batched if operand k is. */
static void batch_identity(flxi_site *s, flx_val *by)
{
    flxi_append(s, NULL, s->x, s->nin, by);
    for (uint32_t k = 0; k < s->nout; k++)
        s->by_batched[k] = s->batched[k];
}

/* ---- stop_gradient ---- */

static const flxi_sample samples_any_shape[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},         {"T[]", NULL, NULL, FLX_OK},
    {"T[0, 2]", NULL, NULL, FLX_OK},         {"T[N, 3]", NULL, NULL, FLX_OK},
    {"T[2], T[2]", NULL, NULL, FLX_E_ARITY}, {0},
};

static flxi_kval pull_same(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    (void)result;
    return flxi_operand_at(e, 0, at);
}

/* Links are about derivatives, which it has none of; its elements are those of its operand. */
static int same_axis(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    (void)g, (void)n, (void)operand;
    return axis;
}

static const struct flxi_shard shard_same = {.becomes = same_axis};

const flxi_rules flxi_rules_stop_gradient = {.infer = flxi_infer_same,
                                             .eval = flxi_eval_copy,
                                             .pull = pull_same,
                                             .batch = batch_identity,
                                             .samples = samples_any_shape,
                                             .shard = &shard_same};

/* ---- cast ---- */

typedef struct {
    int64_t to;
} to_attrs;

static const flxi_attr to_schema[] = {A_DTYPE_REQ(to_attrs, to), A_END};

#define CAST_TO(dtype)                       \
    {                                        \
        "T[3, 4]", "to=" dtype, NULL, FLX_OK \
    }

static const flxi_sample samples_cast[] = {
    CAST_TO("f64"),
    CAST_TO("f32"),
    CAST_TO("f16"),
    CAST_TO("bf16"),
    CAST_TO("c64"),
    CAST_TO("c128"),
    CAST_TO("i64"),
    CAST_TO("i32"),
    CAST_TO("i16"),
    CAST_TO("i8"),
    CAST_TO("u64"),
    CAST_TO("u32"),
    CAST_TO("u16"),
    CAST_TO("u8"),
    CAST_TO("bool"),
    {"T[]", "to=f32", NULL, FLX_OK},
    {"T[2, 0]", "to=i8", NULL, FLX_OK},
    {"T[N, 2]", "to=f64", NULL, FLX_OK},
    {"T[2]", NULL, NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "to=f12", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static flx_code infer_cast(flxi_infer *f)
{
    f->out[0] = *f->in[0];
    f->out[0].dtype = (int32_t)((const to_attrs *)f->attrs)->to;
    return FLX_OK;
}

static flx_code eval_cast(flxi_eval *e)
{
    const flx_tensor *x = e->in[0];
    flx_tensor *y = e->out[0];
    for (int64_t i = 0; i < x->count && !flxi_stopped_by_now(); i++)
        flxi_cast_element(x->type.dtype, x->data, i, y->type.dtype, y->data, i);
    return FLX_OK;
}

/* Between floats the derivative is 1, also for an integer that has one. The cotangent of a real number widened to
   complex is a real part, and that of a complex number narrowed to real is real: casting does both. */
static void vjp_cast(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = flx_cast(s->g, dy[0], (flx_dtype)flxi_tangent_type(flxi_typeof(s, s->x[0])).dtype);
}

static void jvp_cast(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const flx_type *y = flxi_typeof(s, s->y[0]);
    if (flxi_gives_derivative(s->op, y->dtype, flxi_is_int(flxi_typeof(s, s->x[0])->dtype)))
        ty[0] = flx_cast(s->g, tx[0], (flx_dtype)flxi_tangent_type(y).dtype);
}

/* Directly to the dtype of the result, so that f16 and bf16 are rounded once, whatever the source dtype. */
static flxi_kval element_cast(flxi_express *e, const flxi_kval *x)
{
    int32_t to = e->out[0]->dtype;
    uint32_t type = flxi_kernel_dtype(to);
    if (to == FLX_BOOL)
        return flxi_kreal(flxi_ktruth(e, x[0]));
    flxi_kval y = {flxi_kb_cast(e->k, type, x[0].re), 0};
    if (flxi_is_complex(to))
        y.im = x[0].im ? flxi_kb_cast(e->k, type, x[0].im) : flxi_kb_number(e->k, type, 0);
    return y;
}

const flxi_rules flxi_rules_cast = {
    .infer = infer_cast,
    .eval = eval_cast,
    .element = element_cast,
    .vjp = vjp_cast,
    .jvp = jvp_cast,
    .is_tame = flxi_always_tame,
    .schema = to_schema,
    .attrs_size = sizeof(to_attrs),
    .samples = samples_cast,
};

/* ---- bitcast ---- */

static const flxi_sample samples_bitcast[] = {
    {"T[3, 4]", "to=u8", NULL, FLX_OK},
    {"T[]", "to=i8", NULL, FLX_OK},
    {"T[0, 2]", "to=u8", NULL, FLX_OK},
    {"T[N]", "to=u8", NULL, FLX_OK},
    {"f32[3]", "to=i32", NULL, FLX_OK},
    {"c64[3]", "to=f32", NULL, FLX_OK},
    {"u8[3, 4]", "to=f32", NULL, FLX_OK},
    {"u8[16]", "to=c128", NULL, FLX_OK},
    {"bool[2, 4]", "to=u32", NULL, FLX_OK},
    {"u16[N, 2]", "to=i32", NULL, FLX_OK},
    {"bool[3]", "to=bool", NULL, FLX_OK},
    {"u8[3]", "to=f32", NULL, FLX_E_SHAPE},
    {"u8[]", "to=u16", NULL, FLX_E_SHAPE},
    {"u16[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]", "to=u8", NULL, FLX_E_SIZE},
    {"u8[4]", "to=bool", NULL, FLX_E_DTYPE},
    {"f32[3]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

/* The narrower type gets one more axis, which holds the parts of one wide element. */
static flx_code split_elements(flxi_infer *f, int64_t ratio)
{
    flx_type *y = &f->out[0];
    FLXI_TRY(flxi_need_result_rank(f, (size_t)y->rank + 1));
    y->dims[y->rank++] = ratio;
    return FLX_OK;
}

static flx_code join_elements(flxi_infer *f, int64_t ratio)
{
    flx_type *y = &f->out[0];
    flxi_type_text text;
    if (y->rank == 0 || !flxi_dims_may_equal(f, y->dims[y->rank - 1], ratio))
        return flxi_infer_fail(f, FLX_E_SHAPE, "reshape x so that its last axis holds the parts of one element",
                               "to %s the last axis must have extent %lld, but x is %s", flx_dtype_name(y->dtype),
                               (long long)ratio, flxi_type_str(f->ctx, f->in[0], &text));
    y->rank--;
    return FLX_OK;
}

static flx_code infer_bitcast(flxi_infer *f)
{
    int32_t to = (int32_t)((const to_attrs *)f->attrs)->to;
    int32_t from = f->in[0]->dtype;
    /* A byte other than 0 and 1 is not a valid bool. */
    if (to == FLX_BOOL && from != FLX_BOOL)
        return flxi_infer_fail(f, FLX_E_DTYPE, "compare instead: ne(x, 0)", "the bytes of %s may not be valid as bool",
                               flx_dtype_name(from));
    int64_t old_size = (int64_t)flx_dtype_size(from);
    int64_t new_size = (int64_t)flx_dtype_size(to);
    f->out[0] = *f->in[0];
    f->out[0].dtype = to;
    if (new_size < old_size)
        return split_elements(f, old_size / new_size);
    if (new_size > old_size)
        return join_elements(f, new_size / old_size);
    return FLX_OK;
}

static bool expresses_bitcast(const void *attrs, const flx_type *const *in, uint32_t nin)
{
    int32_t to = (int32_t)((const to_attrs *)attrs)->to;
    int32_t from = in[0]->dtype;
    (void)nin;
    bool is_pair = flxi_is_complex(from) || flxi_is_complex(to);
    return from == to || (!is_pair && flx_dtype_size(from) == flx_dtype_size(to));
}

static flxi_kval pull_bitcast(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    int32_t to = e->out[result]->dtype;
    int32_t from = e->in[0]->dtype;
    flxi_kval x = flxi_operand_at(e, 0, at);
    if (from == to)
        return x;
    uint32_t type = flxi_kernel_dtype(to);
    return flxi_kreal(from == FLX_BOOL ? flxi_kb_cast(e->k, type, x.re) : flxi_kb_bitcast(e->k, type, x.re));
}

const flxi_rules flxi_rules_bitcast = {
    .infer = infer_bitcast,
    .eval = flxi_eval_copy, /* little-endian storage: the low bytes come first */
    .pull = pull_bitcast,
    .expresses = expresses_bitcast,
    .schema = to_schema,
    .attrs_size = sizeof(to_attrs),
    .batch = batch_identity, /* axes are added and removed at the end only */
    .undefined = "bits are not numbers; cast converts values, real and imag give the parts of a complex number",
    .samples = samples_bitcast,
};

/* ---- reduce_precision ---- */

typedef struct {
    int64_t exponent, mantissa;
} precision_attrs;

static const flxi_attr precision_schema[] = {A_INT_REQ(precision_attrs, exponent), A_INT_REQ(precision_attrs, mantissa),
                                             A_END};

static const flxi_sample samples_precision[] = {
    {"T[3, 4]", "exponent=5, mantissa=10", NULL, FLX_OK},
    {"T[3, 4]", "exponent=8, mantissa=7", NULL, FLX_OK},
    {"T[]", "exponent=4, mantissa=3", NULL, FLX_OK},
    {"T[5]", "exponent=2, mantissa=0", NULL, FLX_OK},
    {"T[5]", "exponent=1, mantissa=1", NULL, FLX_OK},
    {"T[5]", "exponent=64, mantissa=100", NULL, FLX_OK},
    {"T[0]", "exponent=8, mantissa=23", NULL, FLX_OK},
    {"T[N, 2]", "exponent=8, mantissa=23", NULL, FLX_OK},
    {"T[2]", "exponent=0, mantissa=3", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "exponent=5, mantissa=-1", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "exponent=5", NULL, FLX_E_ATTRIBUTE},
    {"i32[2]", "exponent=5, mantissa=3", NULL, FLX_E_DTYPE},
    {0},
};

static flx_code infer_precision(flxi_infer *f)
{
    const precision_attrs *a = f->attrs;
    if (a->exponent < 1)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "f16 is exponent=5, mantissa=10",
                               "exponent must be at least 1, got %lld", (long long)a->exponent);
    if (a->mantissa < 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "f16 is exponent=5, mantissa=10",
                               "mantissa must not be negative, got %lld", (long long)a->mantissa);
    return flxi_infer_same(f);
}

/* More bits than double has make no difference. */
static double rounded(const double *x, const void *attrs)
{
    const precision_attrs *a = attrs;
    return flxi_round_to(x[0], a->exponent < 11 ? (int)a->exponent : 11, a->mantissa < 52 ? (int)a->mantissa : 52);
}

/* Rounding to formats narrower than double can be done in double, see below. Excluded are double itself, formats that
   f32 exceeds in range but not in mantissa bits, and those without mantissa bits, whose ties the exponent decides. */
static bool expresses_precision(const void *attrs, const flx_type *const *in, uint32_t nin)
{
    const precision_attrs *a = attrs;
    (void)nin;
    return in[0]->dtype != FLX_F64 && a->mantissa > 0 && (a->mantissa < 52 || a->exponent >= 8);
}

/* |x| is between 2^n and 2^(n+1), or below the format's normal numbers, where n is that of the smallest of them. Adding
   c = 2^(n + 52 - m) leaves m bits after 2^n in double; subtracting it again is exact. Nothing overflows: x is an f32
   number. */
static flxi_kval reduced_in_f64(flxi_express *e, const flxi_kval *operands)
{
    const precision_attrs *a = e->attrs;
    int bits = a->exponent < 11 ? (int)a->exponent : 11;
    int bias = (1 << (bits - 1)) - 1;
    int64_t mantissa = a->mantissa < 51 ? a->mantissa : 51;
    uint32_t x = HOLD(flxi_kb_cast(e->k, FLX_F64, operands[0].re));
    uint32_t word = flxi_kb_bitcast(e->k, FLX_U64, F1(abs, x));
    uint32_t field = F2(max, F2(shr, word, NUM(word, 52)), NUM(word, 1024 - bias));
    uint32_t power = F2(shl, F2(add, field, NUM(word, (double)(52 - mantissa))), NUM(word, 52));
    uint32_t c = HOLD(flxi_kb_bitcast(e->k, FLX_F64, power));
    uint32_t y = HOLD(F2(sub, F2(add, F1(abs, x), c), c));
    uint32_t fits = F2(lt, y, NUM(x, ldexp(1, bias + 1)));
    y = F2(copysign, PICK(fits, y, NUM(x, INFINITY)), x);
    y = PICK(F1(is_finite, x), y, x);
    return flxi_kreal(flxi_kb_cast(e->k, flxi_kb_type(e->k, operands[0].re), y));
}

/* f32 to a format with fewer bits in both fields: half of the last bit that is kept, or less where a tie would go up
   to an odd number, is added to the encoding, a carry moves into the exponent. Below the format's normal numbers all
   have the same spacing, that of c. */
static flxi_kval reduced_in_f32(flxi_express *e, uint32_t x)
{
    const precision_attrs *a = e->attrs;
    int dropped = 23 - (int)a->mantissa, bias = (1 << (a->exponent - 1)) - 1;
    uint32_t m = HOLD(F1(abs, x)), word = HOLD(flxi_kb_bitcast(e->k, FLX_U32, m));
    uint32_t is_odd = F2(bit_and, F2(shr, word, flxi_ku(e, dropped)), flxi_ku(e, 1));
    uint32_t sum = F2(add, F2(add, word, is_odd), flxi_ku(e, (1 << (dropped - 1)) - 1));
    uint32_t kept = flxi_ku(e, (int64_t)(UINT32_MAX << dropped));
    uint32_t y = HOLD(flxi_kb_bitcast(e->k, FLX_F32, F2(bit_and, sum, kept)));
    if (a->exponent < 8) {
        uint32_t c = NUM(x, ldexp(1, 1 - bias + dropped)), is_small = F2(lt, m, NUM(x, ldexp(1, 1 - bias)));
        y = HOLD(PICK(is_small, F2(sub, F2(add, m, c), c), y));
        y = PICK(F2(lt, y, NUM(x, ldexp(1, bias + 1))), y, NUM(x, INFINITY));
    }
    return flxi_kreal(PICK(F1(is_finite, x), F2(copysign, y, x), x));
}

static flxi_kval element_reduce_precision(flxi_express *e, const flxi_kval *operands)
{
    const precision_attrs *a = e->attrs;
    bool is_narrow = flxi_kb_type(e->k, operands[0].re) == FLX_F32 && a->exponent <= 8 && a->mantissa <= 22;
    return is_narrow ? reduced_in_f32(e, operands[0].re) : reduced_in_f64(e, operands);
}

const flxi_rules flxi_rules_reduce_precision = {
    .infer = infer_precision,
    .eval = flxi_eval_pointwise,
    .element = element_reduce_precision,
    .expresses = expresses_precision,
    .scalar = rounded,
    .vjp = vjp_identity, /* straight-through */
    .jvp = jvp_identity,
    .schema = precision_schema,
    .attrs_size = sizeof(precision_attrs),
    .samples = samples_precision,
};

/* ---- optimization_barrier ---- */

static const flxi_sample samples_barrier[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[2], f32[3, 1], i8[0]", NULL, NULL, FLX_OK},
    {"T[], T[N]", NULL, NULL, FLX_OK},
    {"T[2]", "axis=0", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static flx_code infer_barrier(flxi_infer *f)
{
    FLXI_TRY(flxi_need_operands(f));
    FLXI_TRY(flxi_results(f, f->nin));
    for (uint32_t k = 0; k < f->nin; k++)
        f->out[k] = *f->in[k];
    return FLX_OK;
}

static flx_code eval_barrier(flxi_eval *e)
{
    for (uint32_t k = 0; k < e->nin; k++)
        memcpy(e->out[k]->data, e->in[k]->data, e->out[k]->nbytes);
    return FLX_OK;
}

const flxi_rules flxi_rules_optimization_barrier = {
    .infer = infer_barrier,
    .eval = eval_barrier,
    .vjp = vjp_identity,
    .jvp = jvp_identity,
    .batch = batch_identity,
    .samples = samples_barrier,
    .link = flxi_link_dense,
};

/* ---- print and check ---- */

typedef struct {
    const char *message;
} message_attrs;

static const flxi_attr print_schema[] = {A_STRING(message_attrs, message), A_END};
static const flxi_attr check_schema[] = {A_STRING_REQ(message_attrs, message), A_END};

static const flxi_sample samples_print[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[]", "message=\"value\"", NULL, FLX_OK},
    {"T[0]", "message=\"\"", NULL, FLX_OK},
    {"T[N, 2]", "message=\"rows\"", NULL, FLX_OK},
    {"T[2]", "text=\"value\"", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_check[] = {
    {"T[3, 4], bool[]{1..1}", "message=\"holds\"", NULL, FLX_OK},
    {"T[], bool[2, 3]{1..1}", "message=\"all hold\"", NULL, FLX_OK},
    {"T[2], i32[2]{1..3}", "message=\"nonzero\"", NULL, FLX_OK},
    {"T[0], bool[0]", "message=\"nothing to check\"", NULL, FLX_OK},
    {"T[N, 2], bool[N]{1..1}", "message=\"per row\"", NULL, FLX_OK},
    {"T[2], bool[2]", NULL, NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "message=\"no predicate\"", NULL, FLX_E_ARITY},
    {0},
};

static flx_code eval_print(flxi_eval *e)
{
    if (e->print)
        e->print(e, ((const message_attrs *)e->attrs)->message, e->in[0]);
    return flxi_eval_copy(e);
}

/* How many elements of x belong to each element of ok: one where both have the same shape, the extent of the last axis
   where x has one more axis, else none. */
static int64_t elements_beside(const flx_type *x, const flx_type *ok)
{
    for (int32_t k = 0; k < ok->rank && k < x->rank; k++)
        if (x->dims[k] != ok->dims[k])
            return 0;
    if (x->rank == ok->rank)
        return 1;
    return x->rank == ok->rank + 1 ? x->dims[ok->rank] : 0;
}

/* "element [1, 2] of ok is false, where x is 1.5": of several elements of x only as many as fit on a line. */
static void tell_element(flxi_strbuf *out, const flx_tensor *x, const flx_tensor *ok, int64_t i)
{
    enum { MOST = 4 };
    int64_t strides[FLX_MAX_RANK];
    flxi_strides(&ok->type, strides);
    flxi_add_text(out, ok->type.rank ? "element [" : "ok");
    for (int32_t k = 0; k < ok->type.rank; k++)
        flxi_addf(out, "%s%lld", k ? ", " : "", (long long)(i / strides[k] % ok->type.dims[k]));
    flxi_add_text(out, ok->type.rank ? "] of ok is false" : " is false");
    int64_t n = elements_beside(&x->type, &ok->type);
    for (int64_t k = 0; k < n && k < MOST; k++) {
        flxi_add_text(out, k ? ", " : ", where x is ");
        flxi_write_element(out, x->type.dtype, x->data, i * n + k);
    }
    flxi_add_text(out, n > MOST ? " ..." : "");
}

static flx_code fail_check(flxi_eval *e, int64_t i)
{
    const char *message = ((const message_attrs *)e->attrs)->message;
    char text[130];
    flxi_strbuf element;
    flxi_printable(text, sizeof text, message, strlen(message));
    flxi_strbuf_init(&element, e->mem);
    tell_element(&element, e->in[0], e->in[1], i);
    flx_code code = flxi_eval_fail(e, FLX_E_CHECK, NULL, "%s (%.90s)", *text ? text : "a check failed",
                                   element.failed ? "an element of ok is false" : element.at);
    flxi_strbuf_free(&element);
    return code;
}

static flx_code eval_check(flxi_eval *e)
{
    const flx_tensor *ok = e->in[1];
    for (int64_t i = 0; i < ok->count && !flxi_stopped_by_now(); i++)
        if (!flxi_load_truth(ok->type.dtype, ok->data, i))
            return fail_check(e, i);
    return flxi_eval_copy(e);
}

const flxi_rules flxi_rules_print = {
    .infer = flxi_infer_same,
    .eval = eval_print,
    .vjp = vjp_identity,
    .jvp = jvp_identity,
    .batch = batch_identity,
    .schema = print_schema,
    .attrs_size = sizeof(message_attrs),
    .samples = samples_print,
    .link = flxi_link_aligned,
};
static bool link_check(const flxi_use *u, flxi_link *l)
{
    return u->operand == 0 && flxi_link_aligned(u, l);
}

const flxi_rules flxi_rules_check = {
    .infer = flxi_infer_same,
    .eval = eval_check,
    .vjp = vjp_identity,
    .jvp = jvp_identity,
    .batch = batch_identity,
    .schema = check_schema,
    .attrs_size = sizeof(message_attrs),
    .samples = samples_check,
    .link = link_check,
};
