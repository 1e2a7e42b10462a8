/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_strength.c: replaces costly operations with a literal operand by cheaper ones with the same result.

   Products, quotients and remainders by powers of two are shifts and masks; a signed quotient needs a bias, since
   shifting rounds down and dividing rounds toward zero. Other unsigned quotients are the upper half of a product with
   a scaled reciprocal (Granlund and Montgomery, "Division by invariant integers using multiplication"), up to 32
   bits. A float quotient by a power of two is a product. If the program's flags permit it, also fused sums and
   reciprocals, which are not exact. */
#include "kernel/optimise/kernel_fold.h"
#include "kernel/optimise/kernel_optimise.h"
#include "kernel/program/kernel_scalar.h"

typedef struct {
    flxi_kfolder fold;
} reducer;

static uint32_t literal(flxi_kb *b, uint32_t type, uint64_t bits)
{
    return flxi_kb_literal(b, type, bits);
}

static uint32_t binary(flxi_kb *b, flxi_kbinary op, uint32_t x, uint32_t y)
{
    return flxi_kb_binary(b, op, x, y);
}

/* Whether evaluating it twice costs nothing. */
static bool is_leaf(flxi_kb *b, uint32_t e)
{
    uint8_t kind = flxi_kb_expr(b, e)->kind;
    return kind == KX_VAR || kind == KX_ID || kind == KX_LITERAL;
}

static bool is_power(uint64_t x)
{
    return x && !(x & (x - 1));
}

static uint32_t log_of(uint64_t x)
{
    return (uint32_t)__builtin_ctzll(x);
}

/* ---- Signed quotients by powers of two ---- */

/* x plus 2^k - 1 where x is negative. */
static uint32_t biased(flxi_kb *b, uint32_t type, uint32_t x, uint32_t k)
{
    uint64_t width = flxi_ktype_of(type)->bits;
    uint32_t sign = binary(b, KBIN_shr, x, literal(b, type, width - 1));
    return binary(b, KBIN_add, x, binary(b, KBIN_bit_and, sign, literal(b, type, (UINT64_C(1) << k) - 1)));
}

static uint32_t signed_quotient(flxi_kb *b, const flxi_kx *e, uint64_t c)
{
    uint8_t width = flxi_ktype_of(e->type)->bits;
    if (!is_power(c) || log_of(c) + 1 >= width || c == 1 || !is_leaf(b, e->x[0]))
        return 0;
    uint32_t k = log_of(c), sum = biased(b, e->type, e->x[0], k);
    if (e->op == KBIN_div)
        return binary(b, KBIN_shr, sum, literal(b, e->type, k));
    uint32_t whole = binary(b, KBIN_bit_and, sum, literal(b, e->type, ~(c - 1)));
    return binary(b, KBIN_sub, e->x[0], whole);
}

/* ---- Unsigned quotients ---- */

typedef struct {
    uint64_t factor;
    uint32_t shift;
    bool adds; /* the factor has one bit more than fits */
} magic;

/* For 0 <= x < 2^bits: x / c is (x * factor) >> (width + shift), for c >= 3, no power of two; width <= 32. With 2^p =
   q c + r the factor is (2^p + c - r) / c; its error, times the largest x, must stay below one step of the quotient.
   Factor 0 means that there is none. */
static magic find_magic(uint64_t c, uint32_t width, uint32_t bits)
{
    for (uint32_t shift = 0; width + shift < 64; shift++) {
        uint64_t power = UINT64_C(1) << (width + shift), error = c - power % c;
        if (error <= power >> bits) {
            uint64_t factor = power / c + 1;
            return (magic){factor & ((UINT64_C(1) << width) - 1), shift, factor >> width != 0};
        }
    }
    return (magic){0, 0, true};
}

static uint32_t shifted(flxi_kb *b, uint32_t type, uint32_t x, uint32_t by)
{
    return by ? binary(b, KBIN_shr, x, literal(b, type, by)) : x;
}

static uint32_t unsigned_quotient(flxi_kb *b, uint32_t type, uint32_t x, uint64_t c)
{
    uint32_t width = flxi_ktype_of(type)->bits;
    if (width > 32)
        return 0;
    magic m = find_magic(c, width, width);
    if (m.adds && !(c & 1)) { /* an even divisor: shift first, then the factor fits */
        uint32_t k = log_of(c);
        x = shifted(b, type, x, k);
        m = find_magic(c >> k, width, width - k);
    }
    uint32_t high = binary(b, KBIN_mul_high, x, literal(b, type, m.factor));
    if (!m.adds)
        return shifted(b, type, high, m.shift);
    if (!is_leaf(b, x) || m.shift == 0 || m.factor == 0)
        return 0;
    uint32_t half = shifted(b, type, binary(b, KBIN_sub, x, high), 1);
    return shifted(b, type, binary(b, KBIN_add, half, high), m.shift - 1);
}

static uint32_t reduce_unsigned(flxi_kb *b, const flxi_kx *e, uint64_t c)
{
    uint32_t x = e->x[0];
    if (is_power(c) && e->op == KBIN_div)
        return shifted(b, e->type, x, log_of(c));
    if (is_power(c))
        return binary(b, KBIN_bit_and, x, literal(b, e->type, c - 1));
    if (c < 3 || (e->op == KBIN_mod && !is_leaf(b, x)))
        return 0;
    uint32_t q = unsigned_quotient(b, e->type, x, c);
    if (!q || e->op == KBIN_div)
        return q;
    return binary(b, KBIN_sub, x, binary(b, KBIN_mul, q, literal(b, e->type, c)));
}

static uint32_t reduce_int(flxi_kb *b, const flxi_kx *e, uint64_t c)
{
    if (e->op == KBIN_mul)
        return is_power(c) && c > 1 ? binary(b, KBIN_shl, e->x[0], literal(b, e->type, log_of(c))) : 0;
    if (e->op != KBIN_div && e->op != KBIN_mod)
        return 0;
    return flxi_ktype_fits(e->type, TAKES_SIGNED) ? signed_quotient(b, e, c) : reduce_unsigned(b, e, c);
}

/* ---- Floats ---- */

/* Exponent bits of a format, all set; its mantissa bits are those below. */
static uint64_t exponent_mask(uint32_t type)
{
    switch (type) {
    case FLX_F64: return UINT64_C(0x7ff) << 52;
    case FLX_F32: return UINT64_C(0xff) << 23;
    case FLX_F16: return UINT64_C(0x1f) << 10;
    default: return UINT64_C(0xff) << 7;
    }
}

/* A normal power of two. */
static bool is_exact_scale(uint32_t type, uint64_t bits)
{
    uint64_t exponents = exponent_mask(type), lowest = exponents & (0 - exponents);
    uint64_t exponent = bits & exponents;
    return (bits & (lowest - 1)) == 0 && exponent != 0 && exponent != exponents;
}

static uint32_t reduce_float(flxi_kb *b, const flxi_kx *e, uint64_t c)
{
    uint32_t type = e->type;
    uint64_t one = flxi_kscalar_from_double(type, 1), two = flxi_kscalar_from_double(type, 2);
    if (e->op == KBIN_mul)
        return c == two && is_leaf(b, e->x[0]) ? binary(b, KBIN_add, e->x[0], e->x[0]) : 0;
    if (e->op != KBIN_div)
        return 0;
    uint64_t inverse = flxi_kscalar_binary(KBIN_div, type, one, c);
    bool is_exact = is_exact_scale(type, c) && is_exact_scale(type, inverse);
    bool is_allowed = (b->k->flags & FLX_KERNEL_RECIPROCAL) && (inverse & exponent_mask(type)) != exponent_mask(type) &&
                      (inverse & exponent_mask(type)) != 0;
    return is_exact || is_allowed ? binary(b, KBIN_mul, e->x[0], literal(b, type, inverse)) : 0;
}

/* 1 / sqrt(x) and 1 / x, where approximations are allowed: targets have instructions for them. */
static uint32_t reduce_inverse(flxi_kb *b, const flxi_kx *e)
{
    flxi_kx x = *flxi_kb_expr(b, e->x[0]), y = *flxi_kb_expr(b, e->x[1]);
    bool is_inverse = e->op == KBIN_div && x.kind == KX_LITERAL && x.bits == flxi_kscalar_from_double(e->type, 1);
    if (!is_inverse || !(b->k->flags & FLX_KERNEL_RECIPROCAL))
        return 0;
    if (y.kind == KX_UNARY && y.op == KUN_sqrt)
        return flxi_kb_unary(b, KUN_rsqrt, y.x[0]);
    return flxi_kb_unary(b, KUN_recip, e->x[1]);
}

/* a * b + c in one rounding, where the program allows it. */
static uint32_t contract(flxi_kb *b, const flxi_kx *e)
{
    flxi_kx x = *flxi_kb_expr(b, e->x[0]), y = *flxi_kb_expr(b, e->x[1]);
    if (!(b->k->flags & FLX_KERNEL_CONTRACT) || (e->op != KBIN_add && e->op != KBIN_sub))
        return 0;
    if (x.kind == KX_BINARY && x.op == KBIN_mul)
        return flxi_kb_fma(b, x.x[0], x.x[1], e->op == KBIN_add ? e->x[1] : flxi_kb_unary(b, KUN_neg, e->x[1]));
    bool is_pure = !(e->does & (KX_ATOMICS | KX_OPAQUES));
    if (is_pure && e->op == KBIN_add && y.kind == KX_BINARY && y.op == KBIN_mul)
        return flxi_kb_fma(b, y.x[0], y.x[1], e->x[0]);
    return 0;
}

/* ---- The pass ---- */

static uint32_t reduce_node(flxi_krewrite *r, uint32_t made)
{
    const reducer *p = r->user;
    flxi_kb *b = r->to;
    uint32_t number = flxi_kfold(&p->fold, made), y = 0;
    flxi_kx e = *flxi_kb_expr(b, number);
    if (e.kind != KX_BINARY || !e.type)
        return number;
    const flxi_kx c = *flxi_kb_expr(b, e.x[1]);
    bool is_float = flxi_ktype_is_float(e.type);
    if (c.kind == KX_LITERAL)
        y = is_float ? reduce_float(b, &e, c.bits) : reduce_int(b, &e, c.bits);
    else if (is_float)
        y = reduce_inverse(b, &e);
    if (!y && is_float)
        y = contract(b, &e);
    return y ? y : number;
}

static void begin_reduce(flxi_krewrite *r)
{
    reducer *p = r->user;
    p->fold = flxi_kfolder_of(r->to, p->fold.flags);
}

static bool reduce_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    return flxi_kfold_stmt(r, &((const reducer *)r->user)->fold, s);
}

/* Whether any operation is of a kind that has a cheaper form. */
static bool has_work(const flx_kernel *k)
{
    bool may_bend = k->flags & (FLX_KERNEL_CONTRACT | FLX_KERNEL_RECIPROCAL);
    for (uint32_t i = 1; i <= k->num_exprs; i++) {
        const flxi_kx *e = &k->exprs[i];
        bool is_costly = e->kind == KX_BINARY && (e->op == KBIN_mul || e->op == KBIN_div || e->op == KBIN_mod);
        if (e->kind == KX_BINARY && (may_bend || (is_costly && k->exprs[e->x[1]].kind == KX_LITERAL)))
            return true;
        if (is_costly && k->exprs[e->x[0]].kind == KX_LITERAL)
            return true;
    }
    return false;
}

flx_kernel *flxi_kpass_strength(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {
        .begin = begin_reduce, .node = reduce_node, .stmt = reduce_stmt, .is_blind = true};
    if (!has_work(k))
        return flxi_krewrite_nothing(k);
    reducer p = {.fold = {.flags = o->flags}};
    flxi_krewrite r = {.from = k, .hooks = &hooks, .user = &p};
    return flxi_krewrite_run(&r, err);
}
