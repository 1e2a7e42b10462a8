/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_rules.c: local derivatives of kernel operations, one function per operation and operand, found by a table. */
#include "kernel/derive/kernel_rules.h"

typedef uint32_t (*partial_fn)(const flxi_ksite *s, uint32_t g);

/* Shorthands, so that rules read like formulas. */
#define A s->x[0]
#define B s->x[1]
#define Z s->z
#define UN(op, a) flxi_kb_unary(s->b, KUN_##op, a)
#define BIN(op, a, b_) flxi_kb_binary(s->b, KBIN_##op, a, b_)
#define MUL(a, b_) BIN(mul, a, b_)
#define DIV(a, b_) BIN(div, a, b_)
#define ADD(a, b_) BIN(add, a, b_)
#define SUB(a, b_) BIN(sub, a, b_)
#define NUM(value) flxi_kb_number(s->b, s->type, value)
#define PICK(c, a, b_) flxi_kb_select(s->b, c, a, b_)
#define RULE(name, formula)                               \
    static uint32_t name(const flxi_ksite *s, uint32_t g) \
    {                                                     \
        return formula;                                   \
    }

static const double ln_2 = 0.69314718055994530942;
static const double ln_10 = 2.30258509299404568402;
static const double two_over_sqrt_pi = 1.12837916709551257390;

static uint32_t pass_on(const flxi_ksite *s, uint32_t g)
{
    (void)s;
    return g;
}

RULE(negate, UN(neg, g))

/* ---- One operand ---- */

RULE(by_abs, MUL(g, UN(sign, A)))
RULE(by_sqrt, DIV(g, MUL(NUM(2), Z)))
RULE(by_rsqrt, UN(neg, MUL(g, MUL(NUM(0.5), MUL(Z, MUL(Z, Z))))))
RULE(by_recip, UN(neg, MUL(g, MUL(Z, Z))))
RULE(by_exp, MUL(g, Z))
RULE(by_exp2, MUL(g, MUL(Z, NUM(ln_2))))
RULE(by_expm1, MUL(g, ADD(Z, NUM(1))))
RULE(by_log, DIV(g, A))
RULE(by_log2, DIV(g, MUL(A, NUM(ln_2))))
RULE(by_log10, DIV(g, MUL(A, NUM(ln_10))))
RULE(by_log1p, DIV(g, ADD(NUM(1), A)))
RULE(by_sin, MUL(g, UN(cos, A)))
RULE(by_cos, UN(neg, MUL(g, UN(sin, A))))
RULE(by_tan, MUL(g, ADD(NUM(1), MUL(Z, Z))))
RULE(by_asin, DIV(g, UN(sqrt, MUL(SUB(NUM(1), A), ADD(NUM(1), A)))))
RULE(by_acos, UN(neg, by_asin(s, g)))
RULE(by_atan, DIV(g, ADD(NUM(1), MUL(A, A))))
RULE(by_sinh, MUL(g, UN(cosh, A)))
RULE(by_cosh, MUL(g, UN(sinh, A)))
RULE(by_tanh, MUL(g, SUB(NUM(1), MUL(Z, Z))))
RULE(by_asinh, DIV(g, UN(sqrt, ADD(MUL(A, A), NUM(1)))))
RULE(by_acosh, DIV(g, UN(sqrt, MUL(SUB(A, NUM(1)), ADD(A, NUM(1))))))
RULE(by_atanh, DIV(g, MUL(SUB(NUM(1), A), ADD(NUM(1), A))))
RULE(by_erf, MUL(g, MUL(NUM(two_over_sqrt_pi), UN(exp, UN(neg, MUL(A, A))))))
RULE(by_erfc, UN(neg, by_erf(s, g)))
RULE(by_sigmoid, MUL(g, MUL(Z, SUB(NUM(1), Z))))

static const partial_fn unary_rules[KUN_COUNT] = {
    [KUN_neg] = negate,     [KUN_abs] = by_abs,     [KUN_sqrt] = by_sqrt,       [KUN_rsqrt] = by_rsqrt,
    [KUN_recip] = by_recip, [KUN_exp] = by_exp,     [KUN_exp2] = by_exp2,       [KUN_expm1] = by_expm1,
    [KUN_log] = by_log,     [KUN_log2] = by_log2,   [KUN_log10] = by_log10,     [KUN_log1p] = by_log1p,
    [KUN_sin] = by_sin,     [KUN_cos] = by_cos,     [KUN_tan] = by_tan,         [KUN_asin] = by_asin,
    [KUN_acos] = by_acos,   [KUN_atan] = by_atan,   [KUN_sinh] = by_sinh,       [KUN_cosh] = by_cosh,
    [KUN_tanh] = by_tanh,   [KUN_asinh] = by_asinh, [KUN_acosh] = by_acosh,     [KUN_atanh] = by_atanh,
    [KUN_erf] = by_erf,     [KUN_erfc] = by_erfc,   [KUN_sigmoid] = by_sigmoid,
};

/* ---- Two operands ---- */

RULE(mul_by_b, MUL(g, B))
RULE(mul_by_a, MUL(g, A))
RULE(div_by_a, DIV(g, B))
RULE(div_by_b, UN(neg, MUL(DIV(g, B), Z)))
RULE(mod_by_b, UN(neg, MUL(g, UN(trunc, DIV(A, B)))))
RULE(abs_diff_by_a, MUL(UN(sign, SUB(A, B)), g))
RULE(abs_diff_by_b, UN(neg, abs_diff_by_a(s, g)))
RULE(atan2_by_a, MUL(DIV(g, ADD(MUL(A, A), MUL(B, B))), B))
RULE(atan2_by_b, UN(neg, MUL(DIV(g, ADD(MUL(A, A), MUL(B, B))), A)))
RULE(hypot_by_a, PICK(BIN(eq, Z, NUM(0)), NUM(0), DIV(MUL(g, A), Z)))
RULE(hypot_by_b, PICK(BIN(eq, Z, NUM(0)), NUM(0), DIV(MUL(g, B), Z)))
RULE(copysign_by_a, PICK(BIN(eq, BIN(copysign, NUM(1), A), BIN(copysign, NUM(1), B)), g, UN(neg, g)))

/* At 0^0 the factor is 0 * 0^-1, which is NaN, but the derivative is 0. */
RULE(pow_by_a, PICK(BIN(logical_and, BIN(eq, A, NUM(0)), BIN(eq, B, NUM(0))), NUM(0),
                    MUL(g, MUL(B, BIN(pow, A, SUB(B, NUM(1)))))))

/* NaN for a negative base: the function is not differentiable along b there. */
RULE(pow_by_b,
     PICK(BIN(gt, A, NUM(0)), MUL(g, MUL(Z, UN(log, A))), PICK(BIN(eq, A, NUM(0)), NUM(0), NUM(__builtin_nan("")))))

/* Selections select: an infinite g times a zero weight would be NaN. */
static uint32_t tie_share(const flxi_ksite *s, int operand, uint32_t g)
{
    if (s->ties_left)
        return operand == 0 ? g : NUM(0);
    return MUL(g, NUM(0.5));
}

static uint32_t chosen(const flxi_ksite *s, int operand, uint32_t wins, uint32_t g)
{
    return PICK(wins, g, PICK(BIN(eq, A, B), tie_share(s, operand, g), NUM(0)));
}

/* If one operand is NaN the other is returned; of two NaNs the first. */
static uint32_t first_wins(const flxi_ksite *s, flxi_kbinary order)
{
    return BIN(logical_or, flxi_kb_binary(s->b, order, A, B), UN(is_nan, B));
}

static uint32_t second_wins(const flxi_ksite *s, flxi_kbinary order)
{
    uint32_t only_a_is_nan = BIN(logical_and, UN(is_nan, A), UN(logical_not, UN(is_nan, B)));
    return BIN(logical_or, flxi_kb_binary(s->b, order, B, A), only_a_is_nan);
}

RULE(min_by_a, chosen(s, 0, first_wins(s, KBIN_lt), g))
RULE(min_by_b, chosen(s, 1, second_wins(s, KBIN_lt), g))
RULE(max_by_a, chosen(s, 0, first_wins(s, KBIN_gt), g))
RULE(max_by_b, chosen(s, 1, second_wins(s, KBIN_gt), g))
RULE(min_nan_by_a, chosen(s, 0, BIN(lt, A, B), g))
RULE(min_nan_by_b, chosen(s, 1, BIN(lt, B, A), g))
RULE(max_nan_by_a, chosen(s, 0, BIN(gt, A, B), g))
RULE(max_nan_by_b, chosen(s, 1, BIN(gt, B, A), g))

static const partial_fn binary_rules[KBIN_COUNT][2] = {
    [KBIN_add] = {pass_on, pass_on},
    [KBIN_sub] = {pass_on, negate},
    [KBIN_mul] = {mul_by_b, mul_by_a},
    [KBIN_div] = {div_by_a, div_by_b},
    [KBIN_mod] = {pass_on, mod_by_b},
    [KBIN_abs_diff] = {abs_diff_by_a, abs_diff_by_b},
    [KBIN_min] = {min_by_a, min_by_b},
    [KBIN_max] = {max_by_a, max_by_b},
    [KBIN_min_nan] = {min_nan_by_a, min_nan_by_b},
    [KBIN_max_nan] = {max_nan_by_a, max_nan_by_b},
    [KBIN_pow] = {pow_by_a, pow_by_b},
    [KBIN_atan2] = {atan2_by_a, atan2_by_b},
    [KBIN_hypot] = {hypot_by_a, hypot_by_b},
    [KBIN_copysign] = {copysign_by_a, NULL},
};

/* ---- Three operands ---- */

RULE(select_first, PICK(A, g, NUM(0)))
RULE(select_second, PICK(A, NUM(0), g))

uint32_t flxi_kernel_partial(const flxi_ksite *s, int operand, uint32_t g)
{
    switch ((flxi_kx_kind)s->e->kind) {
    case KX_UNARY: return unary_rules[s->e->op](s, g);
    case KX_BINARY: return binary_rules[s->e->op][operand](s, g);
    case KX_SELECT: return operand == 1 ? select_first(s, g) : select_second(s, g);
    case KX_FMA: return operand == 0 ? mul_by_b(s, g) : operand == 1 ? mul_by_a(s, g) : g;
    case KX_CAST: return g;
    default: return 0;
    }
}

/* ---- Which operands carry derivatives ---- */

static flxi_kpass pass_of_unary(const flxi_kx *e)
{
    if (unary_rules[e->op])
        return KPASS_RULE;
    if (e->op == KUN_stop_gradient || !flxi_ktype_is_float(e->type))
        return KPASS_NONE;
    return KPASS_ZERO;
}

flxi_kpass flxi_kernel_pass(const flx_kernel *k, const flxi_kx *e, int operand)
{
    uint32_t x = e->num_args ? e->args[operand] : e->x[operand];
    if (!flxi_ktype_is_float(k->exprs[x].type))
        return KPASS_NONE;
    switch ((flxi_kx_kind)e->kind) {
    case KX_UNARY: return pass_of_unary(e);
    case KX_BINARY:
        if (!flxi_ktype_is_float(e->type))
            return KPASS_NONE; /* a comparison: both branches that it decides between are differentiated */
        return binary_rules[e->op][operand] ? KPASS_RULE : KPASS_ZERO;
    case KX_SELECT: return operand == 0 ? KPASS_NONE : KPASS_RULE;
    case KX_FMA: return KPASS_RULE;
    case KX_CAST: return flxi_ktype_is_float(e->type) ? KPASS_RULE : e->type == FLX_BOOL ? KPASS_NONE : KPASS_ZERO;
    case KX_SUBGROUP_ADD: return KPASS_RULE;
    case KX_SUBGROUP_SHUFFLE: return operand == 0 ? KPASS_RULE : KPASS_NONE;
    case KX_CALL: return KPASS_RULE;
    case KX_BITCAST:
    case KX_ATOMIC:
    case KX_OPAQUE: return KPASS_REFUSED;
    default: return KPASS_NONE;
    }
}

const char *flxi_kx_name(const flxi_kx *e)
{
    static const char *const names[KX_KIND_COUNT] = {
        [KX_LITERAL] = "literal",
        [KX_VAR] = "variable",
        [KX_LOAD] = "load",
        [KX_LENGTH] = "buf_len",
        [KX_LANE] = "subgroup_lane",
        [KX_LANES] = "subgroup_size",
        [KX_SELECT] = "select",
        [KX_FMA] = "fma",
        [KX_CAST] = "cast",
        [KX_BITCAST] = "bitcast",
        [KX_CALL] = "call",
        [KX_SUBGROUP_ADD] = "subgroup_add",
        [KX_SUBGROUP_SHUFFLE] = "subgroup_shuffle",
        [KX_SUBGROUP_BALLOT] = "subgroup_ballot",
        [KX_OPAQUE] = "opaque",
    };
    switch ((flxi_kx_kind)e->kind) {
    case KX_UNARY: return flxi_kunaries[e->op].name;
    case KX_BINARY: return flxi_kbinaries[e->op].name;
    case KX_ID: return flxi_kid_names[e->op];
    case KX_ATOMIC: return "atomic";
    default: return names[e->kind] ? names[e->kind] : "expression";
    }
}

flx_code flxi_kernel_refuse(const flx_kernel *k, const flxi_kx *e, flx_error *err)
{
    static const char word[] = "not differentiable";
    if (e->kind == KX_ATOMIC)
        return flxi_kernel_fail(err, word, "reduce in workgroup memory and store the result, or write a custom rule",
                                "atomic_%s has no derivative", flxi_katomic_names[e->op]);
    if (e->kind == KX_OPAQUE)
        return flxi_kernel_fail(err, word, "register it with a derivative, or wrap it in stop_gradient",
                                "extension '%.80s' has no derivative", k->opaques[e->ref].extension);
    if (e->kind == KX_CALL)
        return flxi_kernel_fail(err, word, "give it an adjoint for each operand, or wrap the operand in stop_gradient",
                                "'%.80s' has no derivative with respect to one of its operands", k->fns[e->ref].name);
    return flxi_kernel_fail(err, word, "wrap it in stop_gradient, or give its function an adjoint",
                            "%s has no derivative", flxi_kx_name(e));
}
