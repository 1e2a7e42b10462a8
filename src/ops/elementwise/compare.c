/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c: relations, predicates of floats, logic on bool, bits of integers, and selection. Only `where` has a
   derivative other than zero. */
#include "base/host/stop.h"
#include "ops/express/express_formula.h"
#include "ops/rule/broadcast.h"
#include "ops/rule/copy.h"
#include "ops/rule/element.h"

/* ---- Samples ---- */

#define SAMPLES_BINARY                                                                                                 \
    {"T[3, 4], T[3, 4]", NULL, NULL, FLX_OK}, {"T[3, 1], T[4]", NULL, NULL, FLX_OK},                                   \
        {"T[], T[2]", NULL, NULL, FLX_OK}, {"T[], T[]", NULL, NULL, FLX_OK}, {"T[0, 3], T[1, 3]", NULL, NULL, FLX_OK}, \
        {"T[N, 3], T[N, 1]", NULL, NULL, FLX_OK}, {"T[3], T[4]", NULL, NULL, FLX_E_SHAPE},                             \
    {                                                                                                                  \
        "i32[2], i64[2]", NULL, NULL, FLX_E_DTYPE                                                                      \
    }

#define SAMPLES_UNARY                                                                              \
    {"T[3, 4]", NULL, NULL, FLX_OK}, {"T[]", NULL, NULL, FLX_OK}, {"T[2, 0]", NULL, NULL, FLX_OK}, \
        {"T[N, 3]", NULL, NULL, FLX_OK},                                                           \
    {                                                                                              \
        "T[2], T[2]", NULL, NULL, FLX_E_ARITY                                                      \
    }

static const flxi_sample samples_equality[] = {SAMPLES_BINARY, {0}};
static const flxi_sample samples_order[] = {SAMPLES_BINARY, {"c64[2], c64[2]", NULL, NULL, FLX_E_DTYPE}, {0}};
static const flxi_sample samples_logic[] = {SAMPLES_BINARY, {"u8[2], u8[2]", NULL, NULL, FLX_E_DTYPE}, {0}};
static const flxi_sample samples_bits[] = {SAMPLES_BINARY, {"bool[2], bool[2]", NULL, NULL, FLX_E_DTYPE}, {0}};
static const flxi_sample samples_shift[] = {
    SAMPLES_BINARY,
    {"T[3, 4], T[4]{0..9}", NULL, NULL, FLX_OK},
    {"i8[3, 4]{-128..127}, i8[4]{0..9}", NULL, NULL, FLX_OK},
    {"f32[2], f32[2]", NULL, NULL, FLX_E_DTYPE},
    {0},
};
static const flxi_sample samples_not[] = {SAMPLES_UNARY, {"i32[2]", NULL, NULL, FLX_E_DTYPE}, {0}};
static const flxi_sample samples_count[] = {
    SAMPLES_UNARY, {"T[9]{0..127}", NULL, NULL, FLX_OK}, {"bool[2]", NULL, NULL, FLX_E_DTYPE}, {0}};
static const flxi_sample samples_question[] = {SAMPLES_UNARY, {"i32[2]", NULL, NULL, FLX_E_DTYPE}, {0}};

static const flxi_sample samples_where[] = {
    {"bool[3, 4], T[3, 4], T[3, 4]", NULL, NULL, FLX_OK},
    {"bool[3, 1], T[4], T[]", NULL, NULL, FLX_OK},
    {"bool[], T[], T[]", NULL, NULL, FLX_OK},
    {"bool[2, 1, 1], T[3, 1], T[4]", NULL, NULL, FLX_OK},
    {"i32[5], T[5], T[1]", NULL, NULL, FLX_OK},
    {"f32[5], T[1], T[5]", NULL, NULL, FLX_OK},
    {"bool[0], T[], T[1]", NULL, NULL, FLX_OK},
    {"bool[N, 1], T[N, 3], T[3]", NULL, NULL, FLX_OK},
    {"bool[3], T[4], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"bool[2], f32[2], f64[2]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

/* ---- Relations ---- */

static flx_code eval_relation(flxi_eval *e, bool (*holds)(const flxi_arith *t, flxi_num a, flxi_num b))
{
    const flx_tensor *a = e->in[0];
    const flx_tensor *b = e->in[1];
    uint8_t *y = e->out[0]->data;
    const flxi_arith *t = flxi_arith_of(a->type.dtype);
    for (flxi_lanes z = flxi_lanes_begin(e); z.i < z.count; flxi_lanes_next(&z))
        y[z.i] = holds(t, t->load(a->data, z.at[0]), t->load(b->data, z.at[1]));
    return FLX_OK;
}

static flxi_kval element_eq(flxi_express *e, const flxi_kval *x)
{
    uint32_t re = F2(eq, x[0].re, x[1].re);
    return flxi_kreal(x[0].im ? F2(logical_and, re, F2(eq, x[0].im, x[1].im)) : re);
}

static flxi_kval element_ne(flxi_express *e, const flxi_kval *x)
{
    uint32_t re = F2(ne, x[0].re, x[1].re);
    return flxi_kreal(x[0].im ? F2(logical_or, re, F2(ne, x[0].im, x[1].im)) : re);
}

/* Kernels do not order bool. */
static uint32_t ordered(flxi_express *e, flxi_kbinary op, uint32_t x, uint32_t y)
{
    if (e->dtype != FLX_BOOL)
        return flxi_k2(e, op, x, y);
    return flxi_k2(e, op, flxi_kb_cast(e->k, FLX_U32, x), flxi_kb_cast(e->k, FLX_U32, y));
}

ELEMENT_KERNEL_2(lt, ordered(e, KBIN_lt, x, y))
ELEMENT_KERNEL_2(le, ordered(e, KBIN_le, x, y))
ELEMENT_KERNEL_2(gt, ordered(e, KBIN_gt, x, y))
ELEMENT_KERNEL_2(ge, ordered(e, KBIN_ge, x, y))

/* With NaN nothing is less or equal, so each relation is written directly, never as the negation of another; `ne` is
   the negation of `eq`. */
#define RELATION(name, list, value)                                       \
    static bool holds_##name(const flxi_arith *t, flxi_num a, flxi_num b) \
    {                                                                     \
        return (value);                                                   \
    }                                                                     \
    static flx_code eval_##name(flxi_eval *e)                             \
    {                                                                     \
        return eval_relation(e, holds_##name);                            \
    }                                                                     \
    const flxi_rules flxi_rules_##name = {                                \
        .infer = flxi_infer_predicate, .eval = eval_##name, .element = element_##name, .samples = list};

RELATION(eq, samples_equality, t->equal(a, b))
RELATION(ne, samples_equality, !t->equal(a, b))
RELATION(lt, samples_order, t->less(a, b))
RELATION(le, samples_order, t->less(a, b) || t->equal(a, b))
RELATION(gt, samples_order, t->less(b, a))
RELATION(ge, samples_order, t->less(b, a) || t->equal(a, b))

/* ---- Predicates of floats; a complex number is a pair of them ---- */

static flx_code eval_question(flxi_eval *e, bool (*answer)(double re, double im))
{
    const flx_tensor *x = e->in[0];
    uint8_t *y = e->out[0]->data;
    int32_t part = flxi_part_dtype(x->type.dtype);
    bool is_paired = flxi_is_complex(x->type.dtype);
    for (int64_t i = 0; i < x->count && !flxi_stopped_by_now(); i++) {
        double re = flxi_load_double(part, x->data, is_paired ? 2 * i : i);
        double im = is_paired ? flxi_load_double(part, x->data, 2 * i + 1) : 0;
        y[i] = answer(re, im);
    }
    return FLX_OK;
}

#define QUESTION(name, value, joined)                                        \
    static bool answer_##name(double re, double im)                          \
    {                                                                        \
        return (value);                                                      \
    }                                                                        \
    static flx_code eval_##name(flxi_eval *e)                                \
    {                                                                        \
        return eval_question(e, answer_##name);                              \
    }                                                                        \
    static flxi_kval element_##name(flxi_express *e, const flxi_kval *x)     \
    {                                                                        \
        uint32_t re = F1(name, x[0].re);                                     \
        return flxi_kreal(x[0].im ? F2(joined, re, F1(name, x[0].im)) : re); \
    }                                                                        \
    const flxi_rules flxi_rules_##name = {                                   \
        .infer = flxi_infer_predicate, .eval = eval_##name, .element = element_##name, .samples = samples_question};

QUESTION(is_finite, isfinite(re) && isfinite(im), logical_and)
QUESTION(is_nan, isnan(re) || isnan(im), logical_or)
QUESTION(is_inf, isinf(re) || isinf(im), logical_or)

/* ---- Logic and bits ---- */

/* The bits of an element without those that widening added. */
static uint64_t own_bits(int64_t x, const flxi_int_type *t)
{
    return (uint64_t)x & (UINT64_MAX >> (64 - t->bits));
}

/* Whether the count moves all bits out of the element. A negative count, read as unsigned, is a large one. */
static bool shifts_out(int64_t count, const flxi_int_type *t)
{
    return (uint64_t)count >= (uint64_t)t->bits;
}

/* Arithmetic: the top bit is copied downwards, for unsigned dtypes as well. */
static int64_t shift_arith(const int64_t *x, const flxi_int_type *t)
{
    uint64_t bits = own_bits(x[0], t);
    uint64_t fill = bits >> (t->bits - 1) ? UINT64_MAX : 0;
    if (shifts_out(x[1], t))
        return (int64_t)fill;
    uint64_t kept = bits >> x[1];
    uint64_t filled = x[1] ? fill << (t->bits - (int)x[1]) : 0;
    return (int64_t)(kept | filled);
}

ELEMENT_INT(both, x[0] & x[1])
ELEMENT_INT(either, x[0] | x[1])
ELEMENT_INT(one_of, x[0] ^ x[1])
ELEMENT_INT(opposite, !x[0])
ELEMENT_INT(inverted, ~x[0])
ELEMENT_INT(shift_left, shifts_out(x[1], t) ? 0 : (int64_t)((uint64_t)x[0] << x[1]))
ELEMENT_INT(shift_logical, shifts_out(x[1], t) ? 0 : (int64_t)(own_bits(x[0], t) >> x[1]))
ELEMENT_INT(count_set, __builtin_popcountll(own_bits(x[0], t)))
ELEMENT_INT(count_leading, own_bits(x[0], t) ? __builtin_clzll(own_bits(x[0], t)) - (64 - t->bits) : t->bits)

/* Whether the count, read without a sign, leaves bits in the element. */
static uint32_t stays_inside(flxi_express *e, uint32_t count)
{
    uint32_t word = flxi_kunsigned(flxi_kb_type(e->k, count));
    uint32_t n = flxi_kb_cast(e->k, word, count);
    return F2(lt, n, NUM(n, flxi_int_bits((int32_t)word)));
}

static uint32_t shifted_logical(flxi_express *e, uint32_t x, uint32_t count)
{
    uint32_t type = flxi_kb_type(e->k, x);
    uint32_t word = flxi_kunsigned(type);
    return flxi_kb_cast(e->k, type, F2(shr, flxi_kb_cast(e->k, word, x), flxi_kb_cast(e->k, word, count)));
}

/* A count beyond the width has the same result as the largest one within it. */
static uint32_t shifted_arith(flxi_express *e, uint32_t x, uint32_t count)
{
    uint32_t type = flxi_kb_type(e->k, x);
    uint32_t with_sign = flxi_ksigned(type);
    uint32_t n = PICK(stays_inside(e, count), count, NUM(count, flxi_int_bits((int32_t)type) - 1));
    return flxi_kb_cast(e->k, type, F2(shr, flxi_kb_cast(e->k, with_sign, x), flxi_kb_cast(e->k, with_sign, n)));
}

ELEMENT_KERNEL_2(and, F2(logical_and, x, y))
ELEMENT_KERNEL_2(or, F2(logical_or, x, y))
ELEMENT_KERNEL_2(xor, F2(ne, x, y))
ELEMENT_KERNEL_1(not, F1(logical_not, x))
ELEMENT_KERNEL_2(bit_and, F2(bit_and, x, y))
ELEMENT_KERNEL_2(bit_or, F2(bit_or, x, y))
ELEMENT_KERNEL_2(bit_xor, F2(bit_xor, x, y))
ELEMENT_KERNEL_1(bit_not, F1(bit_not, x))
ELEMENT_KERNEL_2(shl, PICK(stays_inside(e, y), F2(shl, x, y), NUM(x, 0)))
ELEMENT_KERNEL_2(shr_arith, shifted_arith(e, x, y))
ELEMENT_KERNEL_2(shr_logical, PICK(stays_inside(e, y), shifted_logical(e, x, y), NUM(x, 0)))
ELEMENT_KERNEL_1(popcount, F1(popcount, x))
ELEMENT_KERNEL_1(clz, F1(clz, x))

#define INT_RULES(name, function, list)                                                                     \
    const flxi_rules flxi_rules_##name = {POINTWISE_RULES, .element = element_##name, .scalar_i = function, \
                                          .samples = list};

INT_RULES(and, both, samples_logic)
INT_RULES(or, either, samples_logic)
INT_RULES(xor, one_of, samples_logic)
INT_RULES(not, opposite, samples_not)
INT_RULES(bit_and, both, samples_bits)
INT_RULES(bit_or, either, samples_bits)
INT_RULES(bit_xor, one_of, samples_bits)
INT_RULES(bit_not, inverted, samples_count)
INT_RULES(shl, shift_left, samples_shift)
INT_RULES(shr_arith, shift_arith, samples_shift)
INT_RULES(shr_logical, shift_logical, samples_shift)
INT_RULES(popcount, count_set, samples_count)
INT_RULES(clz, count_leading, samples_count)

/* ---- Selection ---- */

/* Moves bytes, so that a NaN keeps its payload. The predicate is converted as by `cast` to bool. */
static flx_code eval_where(flxi_eval *e)
{
    const flx_tensor *c = e->in[0];
    flx_tensor *y = e->out[0];
    size_t size = flx_dtype_size(y->type.dtype);
    for (flxi_lanes z = flxi_lanes_begin(e); z.i < z.count; flxi_lanes_next(&z)) {
        uint8_t taken = 0;
        flxi_cast_element(c->type.dtype, c->data, z.at[0], FLX_BOOL, &taken, 0);
        int k = taken ? 1 : 2;
        flxi_copy_element(y->data, z.i, e->in[k]->data, z.at[k], size);
    }
    return FLX_OK;
}

static void vjp_where(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_val zero = flxi_number(s, dy[0], 0.0);
    if (s->wanted[1])
        dx[1] = flx_where(s->g, s->x[0], dy[0], zero);
    if (s->wanted[2])
        dx[2] = flx_where(s->g, s->x[0], zero, dy[0]);
}

/* A tangent of the predicate has no effect. */
static void jvp_where(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_val zero = flxi_number(s, s->x[1], 0.0);
    if (flxi_is_none(tx[1]) && flxi_is_none(tx[2]))
        return;
    ty[0] = flx_where(s->g, s->x[0], flxi_is_none(tx[1]) ? zero : tx[1], flxi_is_none(tx[2]) ? zero : tx[2]);
    ty[0] = flxi_expand_like(s, ty[0], flxi_typeof(s, s->y[0]));
}

ELEMENT_KERNEL(where, flxi_kchoose(e, flxi_ktruth(e, x[0]), x[1], x[2]))

const flxi_rules flxi_rules_where = {.infer = flxi_infer_pointwise,
                                     .eval = eval_where,
                                     .element = element_where,
                                     .vjp = vjp_where,
                                     .jvp = jvp_where,
                                     .samples = samples_where};
