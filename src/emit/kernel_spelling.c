/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_spelling.c: spellings that the targets share: ops, casts, narrow formats, memory.

   The semantics are those of kernel_scalar.c, written so that no operation is undefined in C whatever its operands, and
   without branches where possible, so that loops over it vectorise. 16-bit floats are held in f32, with values that the
   format can represent; an op on them is the op on f32 followed by a rounding. */
#include "emit/kernel_spelling.h"

/* ---- Ops ---- */

#define SAME(text) .of_unsigned = text, .of_signed = text
#define EXACT .is_exact = true

static const flxi_kspelling unaries[KUN_COUNT] = {
    [KUN_neg] = {NULL, SAME("(($T)(0 - ($X)$a))"), "(-$a)", "(0 - $a)", EXACT},
    [KUN_bit_not] = {NULL, SAME("(($T)~$a)")},
    [KUN_reverse_bits] = {NULL,
                          SAME("{ $U u = ($U)a, r = 0; for (int i = 0; i < $w; i++) r = ($U)(r << 1 | (u >> i & 1)); "
                               "return ($T)r; }")},
    [KUN_logical_not] = {.of_bool = "(!$a)", .of_unsigned = "($a == 0)"},
    [KUN_abs] = {NULL, "$a", "{ return a < 0 ? ($T)(0 - ($X)a) : a; }", "fabs$f($a)", NULL, EXACT},
    [KUN_sign] = {NULL, "(($T)($a != 0))", "{ return ($T)((a > 0) - (a < 0)); }",
                  "{ return a != a ? a : ($T)((a > 0) - (a < 0)); }", NULL, EXACT},
    [KUN_floor] = {.of_float = "floor$f($a)", EXACT},
    [KUN_ceil] = {.of_float = "ceil$f($a)", EXACT},
    [KUN_trunc] = {.of_float = "trunc$f($a)", EXACT},
    [KUN_round] = {.of_float = "round$f($a)", EXACT},
    [KUN_rint] = {.of_float = "rint$f($a)", EXACT},
    [KUN_sqrt] = {.of_float = "sqrt$f($a)"},
    [KUN_rsqrt] = {.of_float = "@recip(@sqrt($a))"},
    [KUN_recip] = {.of_float = "(1 / $a)"},
    [KUN_exp] = {.of_float = "exp$f($a)"},
    [KUN_exp2] = {.of_float = "exp2$f($a)"},
    [KUN_expm1] = {.of_float = "expm1$f($a)"},
    [KUN_log] = {.of_float = "log$f($a)"},
    [KUN_log2] = {.of_float = "log2$f($a)"},
    [KUN_log10] = {.of_float = "log10$f($a)"},
    [KUN_log1p] = {.of_float = "log1p$f($a)"},
    [KUN_sin] = {.of_float = "sin$f($a)"},
    [KUN_cos] = {.of_float = "cos$f($a)"},
    [KUN_tan] = {.of_float = "tan$f($a)"},
    [KUN_asin] = {.of_float = "asin$f($a)"},
    [KUN_acos] = {.of_float = "acos$f($a)"},
    [KUN_atan] = {.of_float = "atan$f($a)"},
    [KUN_sinh] = {.of_float = "sinh$f($a)"},
    [KUN_cosh] = {.of_float = "cosh$f($a)"},
    [KUN_tanh] = {.of_float = "tanh$f($a)"},
    [KUN_asinh] = {.of_float = "asinh$f($a)"},
    [KUN_acosh] = {.of_float = "acosh$f($a)"},
    [KUN_atanh] = {.of_float = "atanh$f($a)"},
    [KUN_erf] = {.of_float = "erf$f($a)"},
    [KUN_erfc] = {.of_float = "erfc$f($a)"},
    /* e^-|x| cannot overflow. */
    [KUN_sigmoid] = {.of_float = "{ const $T e = @exp(-@abs(a)); return a < 0 ? e / (1 + e) : 1 / (1 + e); }"},
    [KUN_is_nan] = {.of_float = "{ return a != a; }"},
    [KUN_is_inf] = {.of_float = "{ return a == a && a - a != 0; }"},
    [KUN_is_finite] = {.of_float = "{ return a - a == 0; }"},
    [KUN_unpack_4_low] = {.of_unsigned = "($a & 15u)"},
    [KUN_unpack_4_high] = {.of_unsigned = "($a >> 4 & 15u)"},
    [KUN_unpack_8_low] = {.of_unsigned = "($a & 255u)"},
    [KUN_unpack_8_high] = {.of_unsigned = "($a >> 24)"},
    [KUN_stop_gradient] = {.of_float = "$a", EXACT},
};

#define WRAPPED(sign) SAME("(($T)(($X)$a " sign " ($X)$b))")
#define WORDS(sign) "($a " sign " $b)"
#define COMPARED(sign) .of_bool = "($a " sign " $b)", "($a " sign " $b)", "($a " sign " $b)", "($a " sign " $b)"

/* Equal floats are the same or zeros of opposite sign: `or` of their bits gives -0, `and` gives +0. */
#define CHOICE(nan_a, nan_b, sign, zeros)                                                                       \
    "{ return a != a ? " nan_a " : b != b ? " nan_b " : a == b ? @value(@bits(a) " zeros " @bits(b)) : a " sign \
    " b ? a : b; }"

static const flxi_kspelling binaries[KBIN_COUNT] = {
    [KBIN_add] = {NULL, WRAPPED("+"), "($a + $b)", WORDS("+")},
    [KBIN_sub] = {NULL, WRAPPED("-"), "($a - $b)", WORDS("-")},
    [KBIN_mul] = {NULL, WRAPPED("*"), "($a * $b)", WORDS("*")},
    [KBIN_div] = {.of_unsigned = "{ return b ? ($T)(a / b) : ($T)~($T)0; }",
                  "{ return b == 0 ? ($T)-1 : b == -1 ? ($T)(0 - ($X)a) : ($T)(a / b); }",
                  "($a / $b)"},
    [KBIN_mod] = {.of_unsigned = "{ return b ? ($T)(a % b) : a; }",
                  "{ return b == 0 ? a : b == -1 ? ($T)0 : ($T)(a % b); }",
                  "fmod$f($a, $b)",
                  NULL,
                  EXACT},
    [KBIN_wrapping_add] = {NULL, WRAPPED("+"), NULL, WORDS("+")},
    [KBIN_wrapping_sub] = {NULL, WRAPPED("-"), NULL, WORDS("-")},
    [KBIN_saturating_add] =
        {.of_unsigned = "{ const $T r = ($T)(a + b); return r < a ? $M : r; }",
         "{ const $T r = ($T)(($X)a + ($X)b); return ((a ^ r) & (b ^ r)) < 0 ? a < 0 ? $L : $M : r; }"},
    [KBIN_saturating_sub] =
        {.of_unsigned = "{ return a < b ? ($T)0 : ($T)(a - b); }",
         "{ const $T r = ($T)(($X)a - ($X)b); return ((a ^ b) & (a ^ r)) < 0 ? a < 0 ? $L : $M : r; }"},
    [KBIN_saturating_mul] =
        {.of_unsigned = "{ if ($w < 64) { const k_u64 p = (k_u64)a * b; return p > $M ? $M : ($T)p; } "
                        "return a != 0 && b > $M / a ? $M : ($T)(($X)a * ($X)b); }",
         "{ if ($w < 64) { const k_i64 p = (k_i64)((k_u64)a * (k_u64)b); return p < $L ? $L : p > $M ? $M : ($T)p; } "
         "const k_bool less = (a < 0) != (b < 0); "
         "const k_u64 x = a < 0 ? 0 - (k_u64)a : (k_u64)a, y = b < 0 ? 0 - (k_u64)b : (k_u64)b; "
         "if (x != 0 && y > ((k_u64)$M + less) / x) return less ? $L : $M; "
         "return ($T)(less ? 0 - x * y : x * y); }"},
    [KBIN_mul_high] =
        {.of_unsigned =
             "{ if ($w < 64) return ($T)((k_u64)a * b >> ($w & 63)); "
             "const k_u64 lo = (k_u64)(k_u32)a * (k_u32)b, m = ((k_u64)a >> 31 >> 1) * (k_u32)b + (lo >> 32), "
             "n = (k_u64)(k_u32)a * ((k_u64)b >> 31 >> 1) + (k_u32)m; "
             "return ($T)(((k_u64)a >> 31 >> 1) * ((k_u64)b >> 31 >> 1) + (m >> 32) + (n >> 32)); }"},
    [KBIN_abs_diff] = {NULL, SAME("{ return a < b ? ($R)(($X)b - ($X)a) : ($R)(($X)a - ($X)b); }"), "@abs($a - $b)"},
    [KBIN_min] = {NULL, SAME("{ return a < b ? a : b; }"), CHOICE("b", "a", "<", "|"), NULL, EXACT},
    [KBIN_max] = {NULL, SAME("{ return a > b ? a : b; }"), CHOICE("b", "a", ">", "&"), NULL, EXACT},
    [KBIN_min_nan] = {.of_float = CHOICE("a", "b", "<", "|"), EXACT},
    [KBIN_max_nan] = {.of_float = CHOICE("a", "b", ">", "&"), EXACT},
    [KBIN_bit_and] = {NULL, SAME("($a & $b)")},
    [KBIN_bit_or] = {NULL, SAME("($a | $b)")},
    [KBIN_bit_xor] = {NULL, SAME("($a ^ $b)")},
    [KBIN_shl] = {NULL, SAME("(($T)(($X)$a << (($X)$b & $m)))"), NULL, "($a << ($b & $m))"},
    [KBIN_shr] = {NULL, SAME("(($T)($a >> (($X)$b & $m)))"), NULL, "($a >> ($b & $m))"},
    [KBIN_rotate_left] = {.of_unsigned = "{ const $X n = b & $m; return ($T)(a << n | a >> (($w - n) & $m)); }"},
    [KBIN_rotate_right] = {.of_unsigned = "{ const $X n = b & $m; return ($T)(a >> n | a << (($w - n) & $m)); }"},
    [KBIN_eq] = {COMPARED("==")},
    [KBIN_ne] = {COMPARED("!=")},
    [KBIN_lt] = {COMPARED("<")},
    [KBIN_gt] = {COMPARED(">")},
    [KBIN_le] = {COMPARED("<=")},
    [KBIN_ge] = {COMPARED(">=")},
    [KBIN_logical_and] = {.of_bool = "(($a != 0) & ($b != 0))", .of_unsigned = "(($a != 0) & ($b != 0))"},
    [KBIN_logical_or] = {.of_bool = "(($a != 0) | ($b != 0))", .of_unsigned = "(($a != 0) | ($b != 0))"},
    [KBIN_pow] = {.of_float = "{ return b == 0 || a == 1 ? ($T)1 : pow$f(a, b); }"},
    [KBIN_atan2] = {.of_float = "atan2$f($a, $b)"},
    [KBIN_hypot] = {.of_float = "hypot$f($a, $b)"},
    [KBIN_copysign] = {.of_float = "copysign$f($a, $b)", EXACT},
};

static const char *column(const flxi_kspelling *s, uint32_t type)
{
    switch (flxi_ktype_of(type)->kind) {
    case TAKES_BOOL: return s->of_bool;
    case TAKES_UNSIGNED: return s->of_word && flxi_ktype_of(type)->bits >= 32 ? s->of_word : s->of_unsigned;
    case TAKES_SIGNED: return s->of_signed;
    default: return s->of_float;
    }
}

const char *flxi_kspell_unary(const flxi_kfile *f, flxi_kunary op, uint32_t type)
{
    const flxi_kspelling *own = f->target->unaries;
    const char *text = own ? column(&own[op], type) : NULL;
    return text ? text : column(&unaries[op], type);
}

const char *flxi_kspell_binary(const flxi_kfile *f, flxi_kbinary op, uint32_t type)
{
    const flxi_kspelling *own = f->target->binaries, *strict = f->target->strict;
    const char *text = NULL;
    if (strict && !(f->flags & FLX_KERNEL_CONTRACT))
        text = column(&strict[op], type);
    if (!text && own)
        text = column(&own[op], type);
    return text ? text : column(&binaries[op], type);
}

bool flxi_kspell_unary_is_exact(flxi_kunary op)
{
    return unaries[op].is_exact;
}

bool flxi_kspell_binary_is_exact(flxi_kbinary op)
{
    return binaries[op].is_exact;
}

static bool is_half(uint32_t type)
{
    return type == FLX_F16 || type == FLX_BF16;
}

/* Opens the rounding that ends an op on 16-bit floats; returns the type in which the op is computed. */
static uint32_t begin_half(flxi_kfile *f, flxi_strbuf *out, uint32_t type, bool rounds)
{
    if (!is_half(type))
        return type;
    if (rounds) {
        flxi_kfile_name(f, out, type == FLX_F16 ? "round_f16" : "round_bf16", &(flxi_ksubject){0});
        flxi_add_char(out, '(');
    }
    return FLX_F32;
}

static void write_op(flxi_kfile *f, flxi_strbuf *out, const char *text, const flxi_kop *op, flxi_ksubject *s)
{
    if (!text) {
        f->failed = true;
        return;
    }
    s->result = flxi_kop_type(op, s->type);
    if (text[0] != '{') {
        flxi_kfile_expand(f, out, text, s);
        return;
    }
    flxi_kfile_name(f, out, op->name, s);
    flxi_addf(out, "(");
    flxi_add_text(out, s->x[0]);
    if (s->x[1]) {
        flxi_add_text(out, ", ");
        flxi_add_text(out, s->x[1]);
    }
    flxi_add_char(out, ')');
}

void flxi_ktext_unary(flxi_kfile *f, flxi_strbuf *out, flxi_kunary op, uint32_t type, const char *x)
{
    bool rounds = is_half(type) && !unaries[op].is_exact && flxi_kunaries[op].result == KRESULT_SAME;
    flxi_ksubject s = {.x = {x}, .type = begin_half(f, out, type, rounds)};
    write_op(f, out, flxi_kspell_unary(f, op, s.type), &flxi_kunaries[op], &s);
    if (rounds)
        flxi_add_char(out, ')');
}

/* What compilers warn of is written in another way: whether an unsigned number is below 0, and | of truths. */
static bool write_plainly(const flxi_kfile *f, flxi_strbuf *out, flxi_kbinary op, uint32_t type, const char *x,
                          const char *y)
{
    bool divides = (op == KBIN_div || op == KBIN_mod) && type == FLX_U32 && y[0] >= '1' && y[0] <= '9';
    if (f->plain && divides && y[strspn(y, "0123456789")] == 'u') { /* by a literal, which is not 0 */
        flxi_addf(out, "(");
        flxi_add_text(out, x);
        flxi_add_text(out, op == KBIN_div ? " / " : " % ");
        flxi_add_text(out, y);
        flxi_addf(out, ")");
        return true;
    }
    if (f->plain && (op == KBIN_logical_and || op == KBIN_logical_or)) {
        flxi_addf(out, "(");
        flxi_add_text(out, x);
        flxi_add_text(out, op == KBIN_logical_and ? " && " : " || ");
        flxi_add_text(out, y);
        flxi_addf(out, ")");
        return true;
    }
    bool is_zero =
        strcmp(y, "0u") == 0 || strcmp(y, "0ull") == 0 || strcmp(y, "((k_u8)0u)") == 0 || strcmp(y, "((k_u16)0u)") == 0;
    if (!f->plain || flxi_ktype_of(type)->kind != TAKES_UNSIGNED || !is_zero || (op != KBIN_lt && op != KBIN_ge))
        return false;
    flxi_add_text(out, op == KBIN_lt ? "((k_bool)0)" : "((k_bool)1)");
    return true;
}

void flxi_ktext_binary(flxi_kfile *f, flxi_strbuf *out, flxi_kbinary op, uint32_t type, const char *x, const char *y)
{
    if (write_plainly(f, out, op, type, x, y))
        return;
    bool rounds = is_half(type) && !binaries[op].is_exact && flxi_kbinaries[op].result != KRESULT_BOOL;
    flxi_ksubject s = {.x = {x, y}, .type = begin_half(f, out, type, rounds)};
    write_op(f, out, flxi_kspell_binary(f, op, s.type), &flxi_kbinaries[op], &s);
    if (rounds)
        flxi_add_char(out, ')');
}

void flxi_ktext_fma(flxi_kfile *f, flxi_strbuf *out, uint32_t type, const char *const x[3])
{
    flxi_ksubject s = {.x = {x[0], x[1], x[2]}, .type = begin_half(f, out, type, true)};
    flxi_kfile_expand(f, out, f->target->fma, &s);
    if (is_half(type))
        flxi_add_char(out, ')');
}

/* ---- Casts ---- */

static void call(flxi_kfile *f, flxi_strbuf *out, const char *name, const flxi_ksubject *s)
{
    flxi_kfile_name(f, out, name, s);
    flxi_add_char(out, '(');
    flxi_add_text(out, s->x[0]);
    flxi_add_char(out, ')');
}

static void cast_to_half(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s)
{
    const flxi_ktype *from = flxi_ktype_of(s->type);
    flxi_kfile_name(f, out, s->result == FLX_F16 ? "round_f16" : "round_bf16", s);
    flxi_add_char(out, '(');
    if (s->type == FLX_F64)
        call(f, out, "odd", s);
    else if (from->kind == TAKES_SIGNED)
        call(f, out, "odd_signed", s);
    else if (from->kind == TAKES_UNSIGNED)
        call(f, out, "odd_unsigned", s);
    else
        flxi_kfile_expand(f, out, "(k_f32)$a", s);
    flxi_add_char(out, ')');
}

void flxi_ktext_cast(flxi_kfile *f, flxi_strbuf *out, uint32_t to, uint32_t from, const char *x)
{
    flxi_ksubject s = {.x = {x}, .type = from, .result = to};
    bool from_float = flxi_ktype_is_float(from);
    if (to == FLX_BOOL) {
        flxi_kfile_expand(f, out, "($a != 0)", &s);
    } else if (is_half(to)) {
        cast_to_half(f, out, &s);
    } else if (from_float && !flxi_ktype_is_float(to)) {
        s.type = from == FLX_F64 ? FLX_F64 : FLX_F32;
        call(f, out, "saturate", &s);
    } else {
        flxi_kfile_expand(f, out, "(($R)$a)", &s);
    }
}

static const char *bits_name(uint32_t type)
{
    return type == FLX_F16 ? "f16_bits" : type == FLX_BF16 ? "bf16_bits" : flxi_ktype_is_float(type) ? "bits" : NULL;
}

static const char *value_name(uint32_t type)
{
    return type == FLX_F16 ? "f16_value" : type == FLX_BF16 ? "bf16_value" : flxi_ktype_is_float(type) ? "value" : NULL;
}

void flxi_ktext_bitcast(flxi_kfile *f, flxi_strbuf *out, uint32_t to, uint32_t from, const char *x)
{
    const char *take = bits_name(from), *give = value_name(to);
    if (to == from) {
        flxi_add_text(out, x);
        return;
    }
    if (give)
        flxi_kfile_name(f, out, give, &(flxi_ksubject){.type = to});
    flxi_addf(out, give ? "(" : "((%s)", flxi_ktext_type(to));
    if (take)
        call(f, out, take, &(flxi_ksubject){.x = {x}, .type = from});
    else
        flxi_kfile_expand(f, out, "($U)$a", &(flxi_ksubject){.x = {x}, .type = from});
    flxi_add_char(out, ')');
}

/* ---- Elements ---- */

const char *flxi_kspell_decode(uint32_t element)
{
    switch (element) {
    case FLX_BOOL: return "($a != 0)";
    case FLX_F16: return "@f16_value($a)";
    case FLX_BF16: return "@bf16_value($a)";
    case FLX_KERNEL_F8E4M3: return "@f8e4m3_value($a)";
    case FLX_KERNEL_F8E5M2: return "@f8e5m2_value($a)";
    case FLX_KERNEL_I4: return "(((k_i32)$a ^ 8) - 8)";
    case FLX_KERNEL_U4: return "(k_u32)$a";
    case FLX_KERNEL_FP4: return "@fp4_value($a)";
    case FLX_KERNEL_NF4: return "@nf4_value($a)";
    default: return "$a";
    }
}

const char *flxi_kspell_encode(uint32_t element)
{
    switch (element) {
    case FLX_BOOL: return "(k_u32)($a != 0)";
    case FLX_F16: return "@f16_bits($a)";
    case FLX_BF16: return "@bf16_bits($a)";
    case FLX_KERNEL_F8E4M3: return "@f8e4m3_bits($a)";
    case FLX_KERNEL_F8E5M2: return "@f8e5m2_bits($a)";
    case FLX_KERNEL_I4:
    case FLX_KERNEL_U4: return "((k_u32)$a & 15u)";
    case FLX_KERNEL_FP4: return "@fp4_bits($a)";
    case FLX_KERNEL_NF4: return "@nf4_bits($a)";
    default: return "$a";
    }
}

/* ---- Functions ---- */

const flxi_khelper flxi_khelpers[] = {
    {"bits", KBY_TYPE, "$F $U $n($T a)\n{ union { $T t; $U u; } x; x.t = a; return x.u; }\n"},
    {"value", KBY_TYPE, "$F $T $n($U a)\n{ union { $T t; $U u; } x; x.u = a; return x.t; }\n"},

    /* The quiet NaN without payload for every NaN: where a program inspects the bits of results. */
    {"canonical", KBY_TYPE,
     "$F $T $n($T a)\n"
     "{ return a != a ? @value(($w == 64 ? ($U)0x7ff80000u << ($m & 32) : ($U)0x7fc00000u)) : a; }\n"},

    /* Also normalises signs of NaNs, where the processor's operation need not keep their bits. */
    {"flip_sign", KBY_TYPE, "$F $T $n($T a)\n{ return @value(@bits(a) ^ ($U)1 << ($w == 64 ? 63 : 31)); }\n"},
    {"clear_sign", KBY_TYPE, "$F $T $n($T a)\n{ return @value(@bits(a) & ~(($U)1 << ($w == 64 ? 63 : 31))); }\n"},

    {"saturate", KBY_TYPE | KBY_RESULT,
     "$F $R $n($T a)\n"
     "{ return a != a ? ($R)0 : a <= $l ? $L : a >= $h ? $M : ($R)a; }\n"},

    /* An f32 that rounds to every shorter format as the operand would: truncated, with the last bit set if anything was
       lost, so that it neither creates nor hides a tie. */
    {"odd", 0,
     "$F k_f32 $n(k_f64 a)\n"
     "{\n"
     "    const k_f32 r = (k_f32)a;\n"
     "    const k_f64 back = (k_f64)r;\n"
     "    const k_u32 u = @bits:f32(r);\n"
     "    const k_u32 cut = (a > 0 ? back > a : back < a) ? u - 1u : u;\n"
     "    return a != a || back == a ? r : @value:f32(cut | 1u);\n"
     "}\n"},
    {"odd_unsigned", 0,
     "$F k_f32 $n(k_u64 a)\n"
     "{\n"
     "    const k_u32 high = (k_u32)(a >> 32), low = (k_u32)a;\n"
     "    const k_u32 shift = high >> 24 ? 40u : high >> 16 ? 32u : high >> 8 ? 24u : high ? 16u : low >> 24 ? 8u : "
     "0u;\n"
     "    const k_u64 q = a >> shift;\n"
     "    return (k_f32)(q << shift == a ? q : q | 1u) * @value:f32((127u + shift) << 23);\n"
     "}\n"},
    {"odd_signed", 0,
     "$F k_f32 $n(k_i64 a)\n"
     "{ return a < 0 ? -@odd_unsigned(0 - (k_u64)a) : @odd_unsigned((k_u64)a); }\n"},

    {"round_f16", 0,
     "$F k_f32 $n(k_f32 a)\n"
     "{\n"
     "    const k_u32 u = @bits:f32(a), m = u & 0x7fffffffu;\n"
     "    const k_u32 near = (m + 0xfffu + (m >> 13 & 1u)) & 0xffffe000u;\n"
     "    const k_u32 small = @bits:f32((@value:f32(m) + 0.5f) - 0.5f); /* steps of 2^-24 */\n"
     "    const k_u32 r = m < 0x38800000u ? small : near > 0x477fe000u ? 0x7f800000u : near;\n"
     "    return @value:f32(m > 0x7f800000u ? 0x7fc00000u : (u & 0x80000000u) | r);\n"
     "}\n"},
    {"f16_value", 0,
     "$F k_f32 $n(k_u16 a)\n"
     "{\n"
     "    const k_u32 e = a >> 10 & 31u, m = a & 0x3ffu, s = (k_u32)(a & 0x8000u) << 16;\n"
     "    const k_u32 small = @bits:f32((k_f32)m * 0x1p-24f);\n"
     "    return @value:f32(s | (e == 0 ? small : e == 31u ? 0x7f800000u | m << 13 : (e + 112u) << 23 | m << 13));\n"
     "}\n"},
    {"f16_bits", 0, /* of a value that f16 can represent */
     "$F k_u16 $n(k_f32 a)\n"
     "{\n"
     "    const k_u32 u = @bits:f32(a), m = u & 0x7fffffffu;\n"
     "    const k_u32 nan = m >> 13 & 0x3ffu, small = m < 0x38800000u ? (k_u32)(@value:f32(m) * 0x1p24f) : 0u;\n"
     "    const k_u32 r = m > 0x7f800000u ? 0x7c00u | (nan ? nan : 0x200u) : m >= 0x47800000u ? 0x7c00u\n"
     "                    : m < 0x38800000u ? small : (m - 0x38000000u) >> 13;\n"
     "    return (k_u16)((u >> 16 & 0x8000u) | r);\n"
     "}\n"},
    {"round_bf16", 0,
     "$F k_f32 $n(k_f32 a)\n"
     "{\n"
     "    const k_u32 u = @bits:f32(a);\n"
     "    return @value:f32(a != a ? 0x7fc00000u : (u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u);\n"
     "}\n"},
    {"bf16_value", 0, "$F k_f32 $n(k_u16 a)\n{ return @value:f32((k_u32)a << 16); }\n"},
    {"bf16_bits", 0, "$F k_u16 $n(k_f32 a)\n{ return (k_u16)(@bits:f32(a) >> 16); }\n"},

    {"f8e4m3_value", 0,
     "$F k_f32 $n(k_u8 a)\n"
     "{\n"
     "    const k_u32 m = a & 0x7fu, small = @bits:f32((k_f32)m * 0x1p-9f);\n"
     "    const k_u32 r = m == 0x7fu ? 0x7fc00000u : (a & 0x80u) << 24 | (m < 8u ? small : (m << 20) + 0x3c000000u);\n"
     "    return @value:f32(r);\n"
     "}\n"},
    {"f8e4m3_bits", 0,
     "$F k_u8 $n(k_f32 a)\n"
     "{\n"
     "    const k_u32 u = @bits:f32(a), m = u & 0x7fffffffu;\n"
     "    const k_u32 near = (m + 0x7ffffu + (m >> 20 & 1u)) >> 20;\n"
     "    const k_f32 small = m < 0x3c800000u ? (@value:f32(m) + 16384.0f) - 16384.0f : 0.0f; /* steps of 2^-9 */\n"
     "    const k_u32 r = m < 0x3c800000u ? (k_u32)(small * 512.0f) : near > 0x43eu ? 0x7fu : near - 0x3c0u;\n"
     "    return (k_u8)(m > 0x7f800000u ? 0x7fu : (u >> 24 & 0x80u) | r);\n"
     "}\n"},
    {"f8e5m2_value", 0,
     "$F k_f32 $n(k_u8 a)\n"
     "{\n"
     "    const k_f32 r = @f16_value((k_u16)(a << 8));\n"
     "    return r != r ? @value:f32(0x7fc00000u) : r;\n"
     "}\n"},
    {"f8e5m2_bits", 0,
     "$F k_u8 $n(k_f32 a)\n"
     "{\n"
     "    const k_u32 u = @bits:f32(a), m = u & 0x7fffffffu;\n"
     "    const k_u32 near = (m + 0xfffffu + (m >> 21 & 1u)) & 0xffe00000u;\n"
     "    const k_u32 small = @bits:f32((@value:f32(m) + 128.0f) - 128.0f); /* steps of 2^-16 */\n"
     "    const k_u32 r = m < 0x38800000u ? small : near > 0x47600000u ? 0x7f800000u : near;\n"
     "    return (k_u8)(m > 0x7f800000u ? 0x7eu : (k_u32)@f16_bits(@value:f32((u & 0x80000000u) | r)) >> 8);\n"
     "}\n"},
    {"fp4_value", 0,
     "$F k_f32 $n(k_u32 a)\n"
     "{\n"
     "    const k_u32 e = a >> 1 & 3u, m = a & 1u;\n"
     "    return @value:f32((a & 8u) << 28 | (e ? (e + 126u) << 23 | m << 22 : m * 0x3f000000u));\n"
     "}\n"},
    {"fp4_bits", 0,
     "$F k_u32 $n(k_f32 a)\n"
     "{\n"
     "    const k_u32 u = @bits:f32(a);\n"
     "    const k_f32 x = @value:f32(u & 0x7fffffffu);\n"
     "    const k_u32 r = (k_u32)((x > 0.25f) + (x >= 0.75f) + (x > 1.25f) + (x >= 1.75f) + (x > 2.5f) + (x >= 3.5f) + "
     "(x > 5.0f));\n"
     "    return a != a ? 0u : (u >> 28 & 8u) | r;\n"
     "}\n"},
    {"nf4_value", 0,
     "$F k_f32 $n(k_u32 a)\n"
     "{\n"
     "    return a < 8u ? a < 4u ? a < 2u ? a < 1u ? -0x1p+0f : -0x1.647362p-1f : a < 3u ? -0x1.0cd66p-1f : "
     "-0x1.94654p-2f\n"
     "                           : a < 6u ? a < 5u ? -0x1.23449ap-2f : -0x1.7a6a7ep-3f : a < 7u ? -0x1.74f0e2p-4f : "
     "0.0f\n"
     "                  : a < 12u ? a < 10u ? a < 9u ? 0x1.45f5fep-4f : 0x1.4995c6p-3f : a < 11u ? 0x1.f809bap-3f : "
     "0x1.5a0674p-2f\n"
     "                            : a < 14u ? a < 13u ? 0x1.c3497p-2f : 0x1.200f56p-1f : a < 15u ? 0x1.722766p-1f : "
     "0x1p+0f;\n"
     "}\n"},
    {"nf4_bits", 0, /* the number of midpoints between adjacent values that are below a */
     "$F k_u32 $n(k_f32 a)\n"
     "{\n"
     "    const k_u32 r = (k_u32)((a > -0x1.b239b2p-1f) + (a > -0x1.38a4e2p-1f) + (a > -0x1.d709p-2f) + (a > "
     "-0x1.5bd4eep-2f) +\n"
     "        (a > -0x1.e079dap-3f) + (a > -0x1.1a7178p-3f) + (a > -0x1.74f0e2p-5f) + (a >= 0x1.45f5fep-5f) +\n"
     "        (a > 0x1.ec90c4p-4f) + (a >= 0x1.a0cfcp-3f) + (a > 0x1.2b05a8p-2f) + (a >= 0x1.8ea7f2p-2f) +\n"
     "        (a > 0x1.00da06p-1f) + (a >= 0x1.491b5ep-1f) + (a > 0x1.b913b2p-1f));\n"
     "    return a != a ? 7u : r;\n"
     "}\n"},

    /* Memory: n elements; out of bounds a load gives 0 and a store does nothing. `peek` reads memory that other
       invocations may be writing, for a value that determines an address: it must not be read twice. `at` and `put` are
       for proven indices. 4-bit elements share a unit of memory with others: where other threads may be writing those,
       the target defines put_half. */
    {"load", KBY_TYPE | KBY_SPACE, "$F $T $n(const $Q$E *b, k_u32 n, k_u32 i)\n{ return i < n ? $D : 0; }\n"},
    {"peek", KBY_TYPE | KBY_SPACE, "$F $T $n(const $Q$E *b, k_u32 n, k_u32 i)\n{ return i < n ? $V : 0; }\n"},
    {"at", KBY_TYPE | KBY_SPACE, "$F $T $n(const $Q$E *b, k_u32 i)\n{ return $D; }\n"},
    {"peek_at", KBY_TYPE | KBY_SPACE, "$F $T $n(const $Q$E *b, k_u32 i)\n{ return $V; }\n"},
    {"put", KBY_TYPE | KBY_SPACE, "$F void $n($Q$E *b, k_u32 i, $T v)\n{ b[i] = $C; }\n"},
    {"store", KBY_TYPE | KBY_SPACE, "$F void $n($Q$E *b, k_u32 n, k_u32 i, $T v)\n{ if (i < n) @put(b, i, v); }\n"},
    {"put_own_half", KBY_TYPE | KBY_SPACE,
     "$F void $n($Q$E *b, k_u32 i, $T v)\n"
     "{\n"
     "    const k_u32 shift = i % $K * 4, code = $C;\n"
     "    b[i / $K] = ($E)((b[i / $K] & ~(15u << shift)) | code << shift);\n"
     "}\n"},
    {"store_own_half", KBY_TYPE | KBY_SPACE,
     "$F void $n($Q$E *b, k_u32 n, k_u32 i, $T v)\n{ if (i < n) @put_own_half(b, i, v); }\n"},
    {"store_half", KBY_TYPE | KBY_SPACE,
     "$F void $n($Q$E *b, k_u32 n, k_u32 i, $T v)\n{ if (i < n) @put_half(b, i, v); }\n"},
    /* The memory of a workgroup that is run by one thread. */
    {"change_*", KBY_TYPE,
     "$F $T $n($E *b, k_u32 n, k_u32 i, $T v, $T x, int order)\n"
     "{\n"
     "    if (i >= n)\n"
     "        return 0;\n"
     "    const $T old = b[i];\n"
     "    b[i] = $N;\n"
     "    return old;\n"
     "}\n"},
    {NULL, 0, NULL},
};
