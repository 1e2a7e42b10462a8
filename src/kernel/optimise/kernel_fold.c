/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_fold.c: constant folding with the interpreter's own evaluator, and identities that hold bit for bit.

   Identities with a literal and identities of an operand with itself are rows of tables; rules that examine an
   operand's own operands are code below them. Every rewrite makes the expression smaller or moves a literal to the
   right, so folding ends. */
#include "kernel/optimise/kernel_fold.h"

#include "kernel/optimise/kernel_optimise.h"
#include "kernel/program/kernel_extension.h"
#include "kernel/program/kernel_scalar.h"

/* ---- Literals and operands ---- */

/* Expressions move when the builder grows: copy them. */
static flxi_kx at(const flxi_kfolder *f, uint32_t e)
{
    return *flxi_kb_expr(f->b, e);
}

static bool is_literal(const flxi_kfolder *f, uint32_t e)
{
    return flxi_kb_expr(f->b, e)->kind == KX_LITERAL;
}

static uint32_t number(const flxi_kfolder *f, uint32_t type, double value)
{
    return flxi_kb_literal(f->b, type, flxi_kscalar_from_double(type, value));
}

static uint64_t mask_of(uint32_t type)
{
    uint8_t bits = flxi_ktype_of(type)->bits;
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static bool names_held(const flxi_kfolder *f, uint32_t number_of)
{
    flxi_kx e = at(f, number_of);
    bool names = e.kind == KX_LOAD || e.kind == KX_LENGTH || e.kind == KX_ATOMIC;
    if (names && f->b->buffers.at[e.ref].usage != FLX_KERNEL_ANY_USE)
        return true;
    for (int i = flxi_kx_operands(&e); i-- > 0;)
        if (names_held(f, e.x[i]))
            return true;
    for (size_t i = 0; i < e.num_args; i++)
        if (names_held(f, e.args[i]))
            return true;
    return false;
}

/* Whether omitting its evaluation is unobservable. */
static bool may_drop(const flxi_kfolder *f, uint32_t e)
{
    return !(at(f, e).does & (KX_ATOMICS | KX_OPAQUES)) && !(f->holds && names_held(f, e));
}

/* Whether operands may be swapped: evaluation order is from left to right. */
static bool may_swap(const flxi_kx *e)
{
    return !(e->does & (KX_ATOMICS | KX_OPAQUES));
}

flxi_kfolder flxi_kfolder_of(flxi_kb *b, uint32_t flags)
{
    flxi_kfolder f = {.b = b, .flags = flags};
    for (size_t i = 1; i < b->buffers.n; i++)
        f.holds = f.holds || b->buffers.at[i].usage != FLX_KERNEL_ANY_USE;
    return f;
}

static uint32_t unary(const flxi_kfolder *f, flxi_kunary op, uint32_t x)
{
    return flxi_kfold(f, flxi_kb_unary(f->b, op, x));
}

static uint32_t binary(const flxi_kfolder *f, flxi_kbinary op, uint32_t x, uint32_t y)
{
    return flxi_kfold(f, flxi_kb_binary(f->b, op, x, y));
}

/* ---- All operands are literals ---- */

static uint32_t evaluate(const flxi_kfolder *f, const flxi_kx *e)
{
    uint32_t types[3] = {0};
    uint64_t x[3] = {0}, result;
    int n = flxi_kx_operands(e);
    bool is_op = e->kind == KX_UNARY || e->kind == KX_BINARY || e->kind == KX_SELECT || e->kind == KX_FMA ||
                 e->kind == KX_CAST || e->kind == KX_BITCAST;
    for (int i = 0; is_op && i < n; i++) {
        flxi_kx operand = at(f, e->x[i]);
        is_op = operand.kind == KX_LITERAL;
        types[i] = operand.type;
        x[i] = operand.bits;
    }
    return is_op && flxi_kscalar_eval(e, types, x, &result) ? flxi_kb_literal(f->b, e->type, result) : 0;
}

/* A pure extension of literals is evaluated now. */
static uint32_t fold_opaque(const flxi_kfolder *f, const flxi_kx *e)
{
    uint32_t types[FLXI_KEXTENSION_MAX_ARGS] = {0};
    uint64_t x[FLXI_KEXTENSION_MAX_ARGS] = {0};
    const flxi_kopaque *o = &f->b->opaques.at[e->ref];
    if (!o->known || !o->pure || !o->known->is.evaluate || e->num_args != o->known->is.num_args)
        return 0;
    for (size_t i = 0; i < e->num_args; i++) {
        flxi_kx operand = at(f, e->args[i]);
        if (operand.kind != KX_LITERAL)
            return 0;
        types[i] = operand.type;
        x[i] = operand.bits;
    }
    return flxi_kb_literal(f->b, e->type, flxi_kextension_eval(o, types, x, e->num_args));
}

/* ---- Identities with one literal ---- */

typedef enum { ZERO, MINUS_ZERO, ONE, MINUS_ONE, ALL_ONES, LEAST, GREATEST } constant;

typedef enum {
    GIVES_X,       /* the other operand */
    GIVES_LITERAL, /* the literal itself */
    GIVES_ZERO,
    GIVES_ONE,
    GIVES_ONES,
    GIVES_NEG,
    GIVES_NOT,
    GIVES_TRUTH, /* x as a bool */
    GIVES_FALSE,
    GIVES_TRUE,
} outcome;

enum { LEFT = 1, RIGHT = 2, BOTH = 3 };

typedef struct {
    uint8_t op;
    uint8_t side;  /* side of the literal */
    uint8_t kinds; /* of the operands */
    uint8_t literal;
    uint8_t gives;
    uint8_t flags; /* requires this permission */
} identity;

/* For floats: x + 0 is not x when x is -0, and x * 0 is not 0 when x is infinite or NaN. */
static const identity identities[] = {
    {KBIN_add, BOTH, TAKES_INT, ZERO, GIVES_X, 0},
    {KBIN_add, BOTH, TAKES_FLOAT, MINUS_ZERO, GIVES_X, 0},
    {KBIN_add, BOTH, TAKES_FLOAT, ZERO, GIVES_X, FLXI_KERNEL_ZERO_SUMS},
    {KBIN_wrapping_add, BOTH, TAKES_INT, ZERO, GIVES_X, 0},
    {KBIN_saturating_add, BOTH, TAKES_INT, ZERO, GIVES_X, 0},
    {KBIN_sub, RIGHT, TAKES_NUMBER, ZERO, GIVES_X, 0},
    {KBIN_sub, RIGHT, TAKES_FLOAT, MINUS_ZERO, GIVES_X, FLXI_KERNEL_ZERO_SUMS},
    {KBIN_sub, LEFT, TAKES_INT, ZERO, GIVES_NEG, 0},
    {KBIN_sub, LEFT, TAKES_FLOAT, MINUS_ZERO, GIVES_NEG, 0},
    {KBIN_sub, LEFT, TAKES_FLOAT, ZERO, GIVES_NEG, FLXI_KERNEL_ZERO_SUMS},
    {KBIN_wrapping_sub, RIGHT, TAKES_INT, ZERO, GIVES_X, 0},
    {KBIN_saturating_sub, RIGHT, TAKES_INT, ZERO, GIVES_X, 0},
    {KBIN_saturating_sub, LEFT, TAKES_UNSIGNED, ZERO, GIVES_ZERO, 0},
    {KBIN_mul, BOTH, TAKES_NUMBER, ONE, GIVES_X, 0},
    {KBIN_mul, BOTH, TAKES_INT, ZERO, GIVES_ZERO, 0},
    {KBIN_mul, BOTH, TAKES_SIGNED | TAKES_FLOAT, MINUS_ONE, GIVES_NEG, 0},
    {KBIN_saturating_mul, BOTH, TAKES_INT, ONE, GIVES_X, 0},
    {KBIN_saturating_mul, BOTH, TAKES_INT, ZERO, GIVES_ZERO, 0},
    {KBIN_mul_high, BOTH, TAKES_UNSIGNED, ZERO, GIVES_ZERO, 0},
    {KBIN_mul_high, BOTH, TAKES_UNSIGNED, ONE, GIVES_ZERO, 0},
    {KBIN_div, RIGHT, TAKES_NUMBER, ONE, GIVES_X, 0},
    {KBIN_div, RIGHT, TAKES_FLOAT, MINUS_ONE, GIVES_NEG, 0},
    {KBIN_div, RIGHT, TAKES_INT, ZERO, GIVES_ONES, 0},
    {KBIN_mod, RIGHT, TAKES_INT, ZERO, GIVES_X, 0},
    {KBIN_mod, RIGHT, TAKES_INT, ONE, GIVES_ZERO, 0},
    {KBIN_mod, LEFT, TAKES_INT, ZERO, GIVES_ZERO, 0},
    {KBIN_abs_diff, BOTH, TAKES_UNSIGNED, ZERO, GIVES_X, 0},
    {KBIN_min, BOTH, TAKES_INT, LEAST, GIVES_LITERAL, 0},
    {KBIN_min, BOTH, TAKES_INT, GREATEST, GIVES_X, 0},
    {KBIN_max, BOTH, TAKES_INT, LEAST, GIVES_X, 0},
    {KBIN_max, BOTH, TAKES_INT, GREATEST, GIVES_LITERAL, 0},
    {KBIN_bit_and, BOTH, TAKES_INT, ZERO, GIVES_ZERO, 0},
    {KBIN_bit_and, BOTH, TAKES_INT, ALL_ONES, GIVES_X, 0},
    {KBIN_bit_or, BOTH, TAKES_INT, ZERO, GIVES_X, 0},
    {KBIN_bit_or, BOTH, TAKES_INT, ALL_ONES, GIVES_ONES, 0},
    {KBIN_bit_xor, BOTH, TAKES_INT, ZERO, GIVES_X, 0},
    {KBIN_shl, RIGHT, TAKES_INT, ZERO, GIVES_X, 0},
    {KBIN_shr, RIGHT, TAKES_INT, ZERO, GIVES_X, 0},
    {KBIN_shl, LEFT, TAKES_INT, ZERO, GIVES_ZERO, 0},
    {KBIN_shr, LEFT, TAKES_INT, ZERO, GIVES_ZERO, 0},
    {KBIN_rotate_left, RIGHT, TAKES_UNSIGNED, ZERO, GIVES_X, 0},
    {KBIN_rotate_right, RIGHT, TAKES_UNSIGNED, ZERO, GIVES_X, 0},
    {KBIN_eq, BOTH, TAKES_BOOL, ONE, GIVES_X, 0},
    {KBIN_eq, BOTH, TAKES_BOOL, ZERO, GIVES_NOT, 0},
    {KBIN_ne, BOTH, TAKES_BOOL, ZERO, GIVES_X, 0},
    {KBIN_ne, BOTH, TAKES_BOOL, ONE, GIVES_NOT, 0},
    {KBIN_lt, RIGHT, TAKES_INT, LEAST, GIVES_FALSE, 0},
    {KBIN_ge, RIGHT, TAKES_INT, LEAST, GIVES_TRUE, 0},
    {KBIN_gt, RIGHT, TAKES_INT, GREATEST, GIVES_FALSE, 0},
    {KBIN_le, RIGHT, TAKES_INT, GREATEST, GIVES_TRUE, 0},
    {KBIN_pow, RIGHT, TAKES_FLOAT, ZERO, GIVES_ONE, 0},
    {KBIN_pow, RIGHT, TAKES_FLOAT, MINUS_ZERO, GIVES_ONE, 0},
};

static uint64_t constant_bits(uint32_t type, constant c)
{
    uint64_t ones = mask_of(type), top = ones ^ ones >> 1;
    bool is_float = flxi_ktype_is_float(type), is_signed = flxi_ktype_of(type)->kind == TAKES_SIGNED;
    switch (c) {
    case ZERO: return 0;
    case MINUS_ZERO: return is_float ? top : 0;
    case ONE: return flxi_kscalar_from_double(type, 1);
    case MINUS_ONE: return flxi_kscalar_from_double(type, -1);
    case ALL_ONES: return ones;
    case LEAST: return is_signed ? top : 0;
    case GREATEST: return is_signed ? ones >> 1 : ones;
    }
    return 0;
}

static uint32_t truth(const flxi_kfolder *f, uint32_t x)
{
    uint32_t type = flxi_kb_type(f->b, x);
    return type == FLX_BOOL ? x : binary(f, KBIN_ne, x, flxi_kb_literal(f->b, type, 0));
}

/* 0 if the result would drop an operand that must be evaluated. */
static uint32_t outcome_of(const flxi_kfolder *f, outcome gives, uint32_t x, uint32_t literal)
{
    uint32_t type = flxi_kb_type(f->b, x);
    switch (gives) {
    case GIVES_X: return x;
    case GIVES_NEG: return unary(f, KUN_neg, x);
    case GIVES_NOT: return unary(f, KUN_logical_not, x);
    case GIVES_TRUTH: return truth(f, x);
    default: break;
    }
    if (!may_drop(f, x)) /* a zero divisor must go in any case */
        return gives == GIVES_ONES ? flxi_kb_binary(f->b, KBIN_bit_or, x, flxi_kb_literal(f->b, type, mask_of(type)))
                                   : 0;
    switch (gives) {
    case GIVES_LITERAL: return literal;
    case GIVES_ZERO: return flxi_kb_literal(f->b, type, 0);
    case GIVES_ONE: return number(f, type, 1);
    case GIVES_ONES: return flxi_kb_literal(f->b, type, mask_of(type));
    case GIVES_FALSE: return flxi_kb_bool(f->b, false);
    default: return flxi_kb_bool(f->b, true);
    }
}

/* `side` is the side of the literal. */
static uint32_t apply_identities(const flxi_kfolder *f, const flxi_kx *e, int side)
{
    uint32_t literal = e->x[side == LEFT ? 0 : 1], x = e->x[side == LEFT ? 1 : 0];
    flxi_kx l = at(f, literal);
    for (size_t i = 0; i < sizeof identities / sizeof *identities; i++) {
        const identity *r = &identities[i];
        if (r->op == e->op && (r->side & side) && flxi_ktype_fits(l.type, r->kinds) && (r->flags & ~f->flags) == 0 &&
            l.bits == constant_bits(l.type, (constant)r->literal)) {
            uint32_t y = outcome_of(f, (outcome)r->gives, x, literal);
            if (y)
                return y;
        }
    }
    return 0;
}

/* ---- Identities of an operand with itself ---- */

static const identity self_identities[] = {
    {KBIN_sub, 0, TAKES_INT, 0, GIVES_ZERO, 0},
    {KBIN_wrapping_sub, 0, TAKES_INT, 0, GIVES_ZERO, 0},
    {KBIN_saturating_sub, 0, TAKES_INT, 0, GIVES_ZERO, 0},
    {KBIN_mod, 0, TAKES_INT, 0, GIVES_ZERO, 0},
    {KBIN_min, 0, TAKES_NUMBER, 0, GIVES_X, 0},
    {KBIN_max, 0, TAKES_NUMBER, 0, GIVES_X, 0},
    {KBIN_min_nan, 0, TAKES_FLOAT, 0, GIVES_X, 0},
    {KBIN_max_nan, 0, TAKES_FLOAT, 0, GIVES_X, 0},
    {KBIN_bit_and, 0, TAKES_INT, 0, GIVES_X, 0},
    {KBIN_bit_or, 0, TAKES_INT, 0, GIVES_X, 0},
    {KBIN_bit_xor, 0, TAKES_INT, 0, GIVES_ZERO, 0},
    {KBIN_eq, 0, TAKES_INT | TAKES_BOOL, 0, GIVES_TRUE, 0},
    {KBIN_le, 0, TAKES_INT, 0, GIVES_TRUE, 0},
    {KBIN_ge, 0, TAKES_INT, 0, GIVES_TRUE, 0},
    {KBIN_ne, 0, TAKES_INT | TAKES_BOOL, 0, GIVES_FALSE, 0},
    {KBIN_lt, 0, TAKES_INT, 0, GIVES_FALSE, 0},
    {KBIN_gt, 0, TAKES_INT, 0, GIVES_FALSE, 0},
    {KBIN_logical_and, 0, TAKES_TRUTH, 0, GIVES_TRUTH, 0},
    {KBIN_logical_or, 0, TAKES_TRUTH, 0, GIVES_TRUTH, 0},
    {KBIN_copysign, 0, TAKES_FLOAT, 0, GIVES_X, 0},
};

/* The two uses of a load read the same value: nothing comes between them. */
static uint32_t apply_self_identities(const flxi_kfolder *f, const flxi_kx *e)
{
    if (!may_drop(f, e->x[0]))
        return 0;
    for (size_t i = 0; i < sizeof self_identities / sizeof *self_identities; i++) {
        const identity *r = &self_identities[i];
        if (r->op == e->op && flxi_ktype_fits(flxi_kb_type(f->b, e->x[0]), r->kinds))
            return outcome_of(f, (outcome)r->gives, e->x[0], 0);
    }
    return 0;
}

/* ---- Two literals in a row ---- */

bool flxi_kbinary_commutes(uint8_t op)
{
    switch (op) {
    case KBIN_add:
    case KBIN_mul:
    case KBIN_wrapping_add:
    case KBIN_saturating_add:
    case KBIN_saturating_mul:
    case KBIN_mul_high:
    case KBIN_abs_diff:
    case KBIN_min:
    case KBIN_max:
    case KBIN_min_nan:
    case KBIN_max_nan:
    case KBIN_bit_and:
    case KBIN_bit_or:
    case KBIN_bit_xor:
    case KBIN_eq:
    case KBIN_ne:
    case KBIN_logical_and:
    case KBIN_logical_or: return true;
    default: return false;
    }
}

static flxi_kbinary mirrored(uint8_t op)
{
    switch (op) {
    case KBIN_lt: return KBIN_gt;
    case KBIN_gt: return KBIN_lt;
    case KBIN_le: return KBIN_ge;
    case KBIN_ge: return KBIN_le;
    default: return flxi_kbinary_commutes(op) ? (flxi_kbinary)op : KBIN_NONE;
    }
}

/* (x ∘ a) ∘ b is x ∘ (a ∘ b): integers wrap, so always; floats only where the program permits it. */
static bool associates(const flxi_kfolder *f, uint8_t op, uint32_t type)
{
    bool sums = op == KBIN_add || op == KBIN_mul;
    if (flxi_ktype_is_float(type))
        return sums && (f->b->k->flags & FLX_KERNEL_REASSOCIATE);
    return sums || op == KBIN_wrapping_add || op == KBIN_bit_and || op == KBIN_bit_or || op == KBIN_bit_xor ||
           op == KBIN_min || op == KBIN_max;
}

/* x plus the sum of a chain of additions and subtractions of literals, written with the smaller literal. */
static uint32_t merge_offsets(const flxi_kfolder *f, const flxi_kx *e, const flxi_kx *inner)
{
    uint64_t mask = mask_of(e->type);
    uint64_t a = at(f, inner->x[1]).bits, b = at(f, e->x[1]).bits;
    uint64_t total = (inner->op == KBIN_add ? a : 0 - a) + (e->op == KBIN_add ? b : 0 - b);
    total &= mask;
    uint64_t back = (0 - total) & mask;
    if (back < total)
        return binary(f, KBIN_sub, inner->x[0], flxi_kb_literal(f->b, e->type, back));
    return binary(f, KBIN_add, inner->x[0], flxi_kb_literal(f->b, e->type, total));
}

static uint32_t merge_literals(const flxi_kfolder *f, const flxi_kx *e)
{
    flxi_kx inner = at(f, e->x[0]);
    if (inner.kind != KX_BINARY || !is_literal(f, inner.x[1]))
        return 0;
    bool offsets = (e->op == KBIN_add || e->op == KBIN_sub) && (inner.op == KBIN_add || inner.op == KBIN_sub);
    if (offsets && flxi_ktype_fits(e->type, TAKES_INT))
        return merge_offsets(f, e, &inner);
    if (inner.op == e->op && associates(f, e->op, e->type))
        return binary(f, (flxi_kbinary)e->op, inner.x[0], binary(f, (flxi_kbinary)e->op, inner.x[1], e->x[1]));
    return 0;
}

/* Shift amounts are taken modulo the width. */
static uint32_t fold_shift(const flxi_kfolder *f, const flxi_kx *e)
{
    uint8_t width = flxi_ktype_of(e->type)->bits;
    uint64_t amount = at(f, e->x[1]).bits;
    if (width && amount >= width)
        return binary(f, (flxi_kbinary)e->op, e->x[0], flxi_kb_literal(f->b, e->type, amount % width));
    return 0;
}

/* ---- Kinds of expressions ---- */

static uint32_t fold_truth(const flxi_kfolder *f, const flxi_kx *e, int side)
{
    uint32_t literal = e->x[side == LEFT ? 0 : 1], x = e->x[side == LEFT ? 1 : 0];
    bool is_true = at(f, literal).bits != 0;
    if (is_true == (e->op == KBIN_logical_and))
        return truth(f, x);
    return may_drop(f, x) ? flxi_kb_bool(f->b, is_true) : 0;
}

/* A bool that was converted to a number is compared with 0. */
static uint32_t fold_bool_test(const flxi_kfolder *f, const flxi_kx *e)
{
    flxi_kx x = at(f, e->x[0]);
    if (x.kind != KX_CAST || flxi_kb_type(f->b, x.x[0]) != FLX_BOOL || at(f, e->x[1]).bits != 0)
        return 0;
    if (e->op == KBIN_ne || (e->op == KBIN_gt && flxi_ktype_fits(x.type, TAKES_UNSIGNED)))
        return x.x[0];
    return e->op == KBIN_eq ? unary(f, KUN_logical_not, x.x[0]) : 0;
}

static uint32_t fold_with_literal(const flxi_kfolder *f, const flxi_kx *e, int side)
{
    if (e->op == KBIN_logical_and || e->op == KBIN_logical_or)
        return fold_truth(f, e, side);
    uint32_t y = apply_identities(f, e, side);
    if (y)
        return y;
    if (side == LEFT) {
        flxi_kbinary turned = mirrored(e->op);
        return turned ? binary(f, turned, e->x[1], e->x[0]) : 0;
    }
    if (e->op == KBIN_shl || e->op == KBIN_shr || e->op == KBIN_rotate_left || e->op == KBIN_rotate_right)
        return fold_shift(f, e);
    y = fold_bool_test(f, e);
    return y ? y : merge_literals(f, e);
}

static bool is_unary(const flxi_kx *e, flxi_kunary op)
{
    return e->kind == KX_UNARY && e->op == op;
}

/* x + (-y) and x - (-y): exact for integers and floats. */
static uint32_t fold_signs(const flxi_kfolder *f, const flxi_kx *e)
{
    flxi_kx x = at(f, e->x[0]), y = at(f, e->x[1]);
    if (e->op == KBIN_add && is_unary(&y, KUN_neg))
        return binary(f, KBIN_sub, e->x[0], y.x[0]);
    if (e->op == KBIN_add && is_unary(&x, KUN_neg) && may_swap(e))
        return binary(f, KBIN_sub, e->x[1], x.x[0]);
    if (e->op == KBIN_sub && is_unary(&y, KUN_neg))
        return binary(f, KBIN_add, e->x[0], y.x[0]);
    return 0;
}

static uint32_t fold_binary(const flxi_kfolder *f, const flxi_kx *e)
{
    uint32_t y = 0;
    if (is_literal(f, e->x[1]))
        y = fold_with_literal(f, e, RIGHT);
    else if (is_literal(f, e->x[0]))
        y = fold_with_literal(f, e, LEFT);
    else if (e->x[0] == e->x[1])
        y = apply_self_identities(f, e);
    return y ? y : fold_signs(f, e);
}

static flxi_kbinary negated(uint8_t op, bool is_int)
{
    switch (op) {
    case KBIN_eq: return KBIN_ne;
    case KBIN_ne: return KBIN_eq;
    case KBIN_lt: return is_int ? KBIN_ge : KBIN_NONE; /* with NaN both are false */
    case KBIN_ge: return is_int ? KBIN_lt : KBIN_NONE;
    case KBIN_gt: return is_int ? KBIN_le : KBIN_NONE;
    case KBIN_le: return is_int ? KBIN_gt : KBIN_NONE;
    default: return KBIN_NONE;
    }
}

static uint32_t fold_not(const flxi_kfolder *f, const flxi_kx *x)
{
    if (is_unary(x, KUN_logical_not))
        return truth(f, x->x[0]);
    if (x->kind != KX_BINARY)
        return 0;
    flxi_kbinary op = negated(x->op, flxi_ktype_fits(flxi_kb_type(f->b, x->x[0]), TAKES_INT));
    return op ? binary(f, op, x->x[0], x->x[1]) : 0;
}

static bool rounds(uint8_t op)
{
    return op == KUN_floor || op == KUN_ceil || op == KUN_trunc || op == KUN_round || op == KUN_rint;
}

static uint32_t fold_unary(const flxi_kfolder *f, const flxi_kx *e)
{
    flxi_kx x = at(f, e->x[0]);
    if (e->op == KUN_logical_not)
        return fold_not(f, &x);
    if (x.kind == KX_BINARY && x.op == KBIN_sub && e->op == KUN_neg && flxi_ktype_fits(e->type, TAKES_INT) &&
        may_swap(&x))
        return binary(f, KBIN_sub, x.x[1], x.x[0]);
    if (x.kind != KX_UNARY)
        return 0;
    bool undoes = e->op == x.op && (e->op == KUN_neg || e->op == KUN_bit_not || e->op == KUN_reverse_bits);
    if (undoes)
        return x.x[0];
    bool repeats = e->op == x.op && (e->op == KUN_abs || e->op == KUN_sign || e->op == KUN_stop_gradient);
    if (repeats || (rounds(e->op) && rounds(x.op)))
        return e->x[0];
    return e->op == KUN_abs && x.op == KUN_neg ? unary(f, KUN_abs, x.x[0]) : 0;
}

static uint32_t fold_select(const flxi_kfolder *f, const flxi_kx *e)
{
    flxi_kx c = at(f, e->x[0]), x = at(f, e->x[1]), y = at(f, e->x[2]);
    if (c.kind == KX_LITERAL) {
        uint32_t taken = e->x[c.bits ? 1 : 2];
        return may_drop(f, e->x[c.bits ? 2 : 1]) ? taken : 0;
    }
    if (e->x[1] == e->x[2] && may_drop(f, e->x[0]) && may_drop(f, e->x[1]))
        return e->x[1];
    if (is_unary(&c, KUN_logical_not) && may_swap(e))
        return flxi_kfold(f, flxi_kb_select(f->b, c.x[0], e->x[2], e->x[1]));
    if (e->type == FLX_BOOL && x.kind == KX_LITERAL && y.kind == KX_LITERAL)
        return x.bits ? truth(f, e->x[0]) : unary(f, KUN_logical_not, e->x[0]);
    return 0;
}

static bool is_number(const flxi_kfolder *f, uint32_t e, constant c)
{
    flxi_kx x = at(f, e);
    return x.kind == KX_LITERAL && x.bits == constant_bits(x.type, c);
}

static uint32_t fold_fma(const flxi_kfolder *f, const flxi_kx *e)
{
    bool adds_nothing =
        is_number(f, e->x[2], MINUS_ZERO) || ((f->flags & FLXI_KERNEL_ZERO_SUMS) && is_number(f, e->x[2], ZERO));
    if (adds_nothing)
        return binary(f, KBIN_mul, e->x[0], e->x[1]);
    for (int i = 0; i < 2; i++) {
        if (is_number(f, e->x[i], ONE))
            return binary(f, KBIN_add, e->x[1 - i], e->x[2]);
        if (is_number(f, e->x[i], MINUS_ONE) && may_swap(e))
            return binary(f, KBIN_sub, e->x[2], e->x[1 - i]);
    }
    return 0;
}

/* A cast after a lossless cast. */
static uint32_t fold_cast(const flxi_kfolder *f, const flxi_kx *e)
{
    flxi_kx x = at(f, e->x[0]);
    if (x.kind != KX_CAST)
        return 0;
    uint32_t source = flxi_kb_type(f->b, x.x[0]);
    const flxi_ktype *to = flxi_ktype_of(e->type), *between = flxi_ktype_of(x.type), *from = flxi_ktype_of(source);
    bool ints =
        flxi_ktype_fits(e->type, TAKES_INT) && flxi_ktype_fits(x.type, TAKES_INT) && flxi_ktype_fits(source, TAKES_INT);
    if (ints && to->bits <= between->bits)
        return flxi_kfold(f, flxi_kb_cast(f->b, e->type, x.x[0]));
    bool widens = x.type == FLX_F64 || (x.type == FLX_F32 && from->bits < 32);
    if (from->kind == TAKES_FLOAT && e->type == source && widens)
        return x.x[0];
    return source == FLX_BOOL && e->type == FLX_BOOL ? x.x[0] : 0;
}

static uint32_t fold_bitcast(const flxi_kfolder *f, const flxi_kx *e)
{
    flxi_kx x = at(f, e->x[0]);
    if (x.type == e->type)
        return e->x[0];
    return x.kind == KX_BITCAST ? flxi_kfold(f, flxi_kb_bitcast(f->b, e->type, x.x[0])) : 0;
}

/* ---- Buffers ---- */

static bool is_outside(const flxi_kfolder *f, uint32_t buffer, uint32_t index)
{
    const flxi_kbuffer *b = &f->b->buffers.at[buffer];
    flxi_kx i = at(f, index);
    return b->count && i.kind == KX_LITERAL && i.bits >= b->count;
}

static uint32_t fold_load(const flxi_kfolder *f, const flxi_kx *e)
{
    bool is_held = f->b->buffers.at[e->ref].usage != FLX_KERNEL_ANY_USE;
    if (!is_outside(f, e->ref, e->x[0]))
        return 0;
    /* Its own length is an index out of range that is not a literal. */
    return is_held ? flxi_kb_load(f->b, e->ref, flxi_kb_length(f->b, e->ref)) : flxi_kb_literal(f->b, e->type, 0);
}

static uint32_t fold_length(const flxi_kfolder *f, const flxi_kx *e)
{
    const flxi_kbuffer *b = &f->b->buffers.at[e->ref];
    bool is_known = b->count && b->count <= UINT32_MAX && b->usage == FLX_KERNEL_ANY_USE;
    return is_known ? flxi_kb_u32(f->b, (uint32_t)b->count) : 0;
}

static uint32_t fold_atomic(const flxi_kfolder *f, const flxi_kx *e)
{
    if (!is_outside(f, e->ref, e->x[0]))
        return 0;
    bool is_held = f->b->buffers.at[e->ref].usage != FLX_KERNEL_ANY_USE;
    if (!is_held && may_drop(f, e->x[1]) && may_drop(f, e->x[2]))
        return flxi_kb_literal(f->b, e->type, 0);
    return flxi_kb_atomic(f->b, (flx_kernel_atomic)e->op, e->ref, flxi_kb_length(f->b, e->ref), e->x[1], e->x[2],
                          (flx_kernel_order)e->order);
}

/* The index of a store of `value`: 0 if the store is dropped because it is out of range. */
static uint32_t store_index(const flxi_kfolder *f, uint32_t buffer, uint32_t index, uint32_t value)
{
    if (!is_outside(f, buffer, index))
        return index;
    bool is_held = f->b->buffers.at[buffer].usage != FLX_KERNEL_ANY_USE;
    return !is_held && may_drop(f, value) ? 0 : flxi_kb_length(f->b, buffer);
}

/* ---- The whole ---- */

uint32_t flxi_kfold(const flxi_kfolder *f, uint32_t number_of)
{
    if (!flxi_kb_ok(f->b))
        return 0;
    flxi_kx e = at(f, number_of);
    uint32_t y = e.type ? evaluate(f, &e) : number_of;
    if (y)
        return y;
    switch ((flxi_kx_kind)e.kind) {
    case KX_UNARY: y = fold_unary(f, &e); break;
    case KX_BINARY: y = fold_binary(f, &e); break;
    case KX_SELECT: y = fold_select(f, &e); break;
    case KX_FMA: y = fold_fma(f, &e); break;
    case KX_CAST: y = fold_cast(f, &e); break;
    case KX_BITCAST: y = fold_bitcast(f, &e); break;
    case KX_LOAD: y = fold_load(f, &e); break;
    case KX_LENGTH: y = fold_length(f, &e); break;
    case KX_ATOMIC: y = fold_atomic(f, &e); break;
    case KX_OPAQUE: y = fold_opaque(f, &e); break;
    default: break;
    }
    return y ? y : number_of;
}

/* ---- The pass ---- */

static void begin_fold(flxi_krewrite *r)
{
    flxi_kfolder *f = r->user;
    *f = flxi_kfolder_of(r->to, f->flags);
}

static uint32_t fold_node(flxi_krewrite *r, uint32_t made)
{
    return flxi_kfold(r->user, made);
}

bool flxi_kfold_stmt(flxi_krewrite *r, const flxi_kfolder *f, const flxi_ks *s)
{
    if (s->kind == KS_EFFECT) {
        uint32_t e = flxi_krewrite_expr(r, s->a);
        if (flxi_kb_expr(r->to, e)->kind == KX_ATOMIC)
            flxi_kb_effect(r->to, e);
        return true;
    }
    if (s->kind != KS_STORE)
        return false;
    uint32_t buffer = r->buffers[s->buffer];
    uint32_t index = flxi_krewrite_expr(r, s->a), value = flxi_krewrite_expr(r, s->b);
    index = store_index(f, buffer, index, value);
    if (index)
        flxi_kb_store(r->to, buffer, index, value);
    return true;
}

static bool fold_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    return flxi_kfold_stmt(r, r->user, s);
}

flx_kernel *flxi_kpass_fold(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {
        .begin = begin_fold, .node = fold_node, .stmt = fold_stmt, .is_blind = true};
    flxi_kfolder f = {.flags = o->flags};
    flxi_krewrite r = {.from = k, .hooks = &hooks, .user = &f};
    return flxi_krewrite_run(&r, err);
}
