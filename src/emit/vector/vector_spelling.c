/* SPDX-License-Identifier: Apache-2.0 */
/* vector_spelling.c: see vector_spelling.h.

   A vector holds one value of each lane. Floats of 16 bits are held as f32, as in scalar text. A bool is 0 or -1 in
   an integer as wide as the kernel's widest values ($B), so that masks of all types of a kernel fit each other.
   Signed arithmetic is done on unsigned types, because overflow is defined. Exact operations that C vectors lack
   (square root, rounding, fused multiply-add) are the processor's instructions where the compiler announces them; every
   variant gives the same bits. */
#include "emit/vector/vector_spelling.h"

#include "emit/kernel_spelling.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_half(uint32_t type)
{
    return type == FLX_F16 || type == FLX_BF16;
}

/* ---- Types ---- */

static unsigned mask_bits(const flxi_kfile *f, unsigned lanes)
{
    return f->vector_bytes * 8 / lanes > 32 ? 64 : 32;
}

/* The type of a lane's value. */
static uint32_t held_type(const flxi_kfile *f, uint32_t type, unsigned lanes)
{
    uint32_t value = flxi_ktype_of(type)->value ? flxi_ktype_of(type)->value : type;
    if (value == FLX_BOOL)
        return mask_bits(f, lanes) == 64 ? FLX_I64 : FLX_I32;
    return is_half(value) ? FLX_F32 : value;
}

static uint32_t integer_type(unsigned bits, bool is_signed)
{
    static const uint32_t types[2][4] = {{FLX_U8, FLX_U16, FLX_U32, FLX_U64}, {FLX_I8, FLX_I16, FLX_I32, FLX_I64}};
    return types[is_signed][bits <= 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3];
}

static uint32_t memory_type(uint32_t element)
{
    return element == FLX_BOOL ? FLX_U32 : is_half(element) ? FLX_U16 : element;
}

/* Whether the file does not contain it yet: the caller writes it. */
static bool is_first(flxi_kfile *f, const char *name)
{
    if (flxi_is_interned(&f->written, name))
        return false;
    if (!flxi_intern(&f->written, name, strlen(name)))
        f->failed = true;
    return true;
}

/* A compiler that does not optimise takes three times as long where bodies are copied to each call. Files of the
   user have no functions instead: compilers warn of parameters that not every machine passes in the same way. */
static void add_inline(flxi_kfile *f)
{
    static const char always[] = "#define k_inline static inline __attribute__((always_inline))\n";
    if (f->plain)
        flxi_add_text(&f->functions, always);
    else
        flxi_addf(&f->functions, "#ifdef __OPTIMIZE__\n%s#else\n#define k_inline static inline\n#endif\n", always);
}

static void add_type(flxi_kfile *f, flxi_strbuf *out, uint32_t type, unsigned lanes)
{
    char name[32];
    const flxi_ktype *t = flxi_ktype_of(type);
    snprintf(name, sizeof name, "k_%sx%u", t->name, lanes);
    flxi_add_text(out, name);
    if (is_first(f, "k_inline"))
        add_inline(f);
    if (is_first(f, name))
        flxi_addf(&f->functions, "typedef k_%s %s __attribute__((vector_size(%u)));\n", t->name, name,
                  lanes * t->bits / 8);
}

void flxi_vtext_type(flxi_kfile *f, flxi_strbuf *out, uint32_t type, unsigned lanes)
{
    add_type(f, out, held_type(f, type, lanes), lanes);
}

/* ---- Codes ---- */

static const char *decode_text(uint32_t element)
{
    return element == FLX_BOOL ? "__builtin_convertvector(r != 0, $B)" : is_half(element) ? "@decode(r)" : "r";
}

static const char *encode_text(uint32_t element)
{
    return element == FLX_BOOL ? "__builtin_convertvector(-a, $e)" : is_half(element) ? "@encode(a)" : "a";
}

static void expand_code(flxi_kfile *f, flxi_strbuf *out, char code, const flxi_ksubject *s)
{
    unsigned n = s->lanes;
    if (n == 0) {
        f->failed = true;
        return;
    }
    uint32_t held = held_type(f, s->type, n);
    switch (code) {
    case 'v': add_type(f, out, held, n); break;
    case 'q': flxi_vtext_type(f, out, s->result, n); break;
    case 'B': flxi_vtext_type(f, out, FLX_BOOL, n); break;
    case 'i': add_type(f, out, integer_type(flxi_ktype_of(held)->bits, true), n); break;
    case 'u': add_type(f, out, integer_type(flxi_ktype_of(held)->bits, false), n); break;
    case 'e': add_type(f, out, memory_type(s->type), n); break;
    case 'G': flxi_kfile_expand(f, out, decode_text(s->type), s); break;
    case 'H': flxi_kfile_expand(f, out, encode_text(s->type), s); break;
    case 'k': flxi_addf(out, "%u", n); break;
    case 't': add_type(f, out, FLX_F32, n / 2); break;
    case 'd': add_type(f, out, FLX_F64, n / 2); break;
    case 'A':
        for (unsigned i = 0; i < n; i++)
            flxi_add_text(out, i ? ", a" : "a");
        break;
    case 'I':
        for (unsigned i = 0; i < n; i++)
            flxi_addf(out, i ? ", %u" : "%u", i);
        break;
    case 'J':
        for (unsigned i = 0; i < n; i++)
            flxi_addf(out, i ? ", %u" : "%u", 2 * i);
        break;
    case 'j': add_type(f, out, integer_type(flxi_ktype_of(memory_type(s->type))->bits, true), n); break;
    default: f->failed = true;
    }
}

/* ---- Ops ---- */

#define MASK(c) "@mask(($i)(" c "))"
#define SIGN "($i)@all(($T)-0.0)"
#define BOTH(text) .of_unsigned = text, .of_signed = text

static const flxi_kspelling unaries[KUN_COUNT] = {
    [KUN_neg] = {BOTH("(($v)(-($u)$a))"), .of_float = "(-$a)"},
    [KUN_bit_not] = {BOTH("(~$a)")},
    [KUN_abs] = {.of_unsigned = "$a",
                 .of_signed = "{ const $u s = ($u)(a >> $m); return ($v)((($u)a ^ s) - s); }",
                 .of_float = "(($v)(($i)$a & ~" SIGN "))"},
    [KUN_sign] = {.of_float = "{ const $i one = ($i)@all(($T)1); return @pick(($i)(a != a), a, ($v)(($i)(a > "
                              "@all(($T)0)) & one) - ($v)(($i)(a < @all(($T)0)) & one)); }"},
    [KUN_round] = {.of_float = "{ const $v m = @abs(a), t = @trunc(m), r = t + ($v)(($i)(m - t >= @all(($T)0.5)) & "
                               "($i)@all(($T)1)); return ($v)(($i)r | (($i)a & " SIGN ")); }"},
    [KUN_rsqrt] = {.of_float = "(@all(($T)1) / @sqrt($a))"},
    [KUN_recip] = {.of_float = "(@all(($T)1) / $a)"},
    [KUN_is_nan] = {.of_float = "{ return " MASK("a != a") "; }"},
    [KUN_is_inf] = {.of_float = "{ return " MASK("(a == a) & (a - a != a - a)") "; }"},
    [KUN_is_finite] = {.of_float = "{ return " MASK("a - a == a - a") "; }"},
    [KUN_unpack_4_low] = {.of_unsigned = "($a & 15u)"},
    [KUN_unpack_4_high] = {.of_unsigned = "($a >> 4 & 15u)"},
    [KUN_unpack_8_low] = {.of_unsigned = "($a & 255u)"},
    [KUN_unpack_8_high] = {.of_unsigned = "($a >> 24)"},
    [KUN_stop_gradient] = {.of_float = "$a"},
};

#define WRAPPED(sign) .of_unsigned = "($a " sign " $b)", .of_signed = "(($v)(($u)$a " sign " ($u)$b))"
#define PLAIN(sign) BOTH("($a " sign " $b)")
#define COMPARED(sign) BOTH(MASK("$a " sign " $b")), .of_float = MASK("$a " sign " $b")

/* Equal floats are the same or zeros of opposite sign: `or` of their bits gives -0, `and` gives +0. */
#define CHOSEN(first, zeros) \
    "const $v r = @pick(($i)(" first "), a, b); return @pick(($i)(a == b), ($v)(($i)a " zeros " ($i)b), r);"
#define CHOICE(first, zeros) "{ " CHOSEN(first, zeros) " }"

/* The same with NaN, which `range` would drop, of either side: the first one. `way` is 4 for the smaller, 5 for the
   larger of two numbers, of which -0 is smaller than +0. */
#define RANGE(name, mask, way)                                                               \
    "const $v x = __builtin_ia32_range" name "512_mask(a, b, " way ", a, (" mask ")-1, 4), " \
    "r = @pick(($i)(b != b), b, x); return @pick(($i)(a != a), a, r);\n"
#define RANGE_F32(way) RANGE("ps", "unsigned short", way)
#define RANGE_F64(way) RANGE("pd", "unsigned char", way)
#define IF_F32 "{\n#if defined(__AVX512DQ__) && $k * $w == 512 && $w == 32\n    "
#define IF_F64 "#elif defined(__AVX512DQ__) && $k * $w == 512 && $w == 64\n    "
#define OTHERWISE "#else\n    "
#define CHOICE_NAN(first, zeros, way) \
    IF_F32 RANGE_F32(way)             \
    IF_F64 RANGE_F64(way)             \
    OTHERWISE CHOSEN(first, zeros) "\n#endif\n}"

static const flxi_kspelling binaries[KBIN_COUNT] = {
    [KBIN_add] = {WRAPPED("+"), .of_float = "($a + $b)"},
    [KBIN_sub] = {WRAPPED("-"), .of_float = "($a - $b)"},
    [KBIN_mul] = {WRAPPED("*"), .of_float = "($a * $b)"},
    [KBIN_div] = {.of_float = "($a / $b)"},
    [KBIN_wrapping_add] = {WRAPPED("+")},
    [KBIN_wrapping_sub] = {WRAPPED("-")},
    [KBIN_abs_diff] = {.of_float = "@abs($a - $b)"},
    [KBIN_min] = {BOTH("{ return @pick(($i)(a < b), a, b); }"), .of_float = CHOICE("(a < b) | (b != b)", "|")},
    [KBIN_max] = {BOTH("{ return @pick(($i)(a > b), a, b); }"), .of_float = CHOICE("(a > b) | (b != b)", "&")},
    [KBIN_min_nan] = {.of_float = CHOICE_NAN("(a < b) | (a != a)", "|", "4")},
    [KBIN_max_nan] = {.of_float = CHOICE_NAN("(a > b) | (a != a)", "&", "5")},
    [KBIN_bit_and] = {PLAIN("&")},
    [KBIN_bit_or] = {PLAIN("|")},
    [KBIN_bit_xor] = {PLAIN("^")},
    [KBIN_shl] = {BOTH("(($v)(($u)$a << (($u)$b & ($U)$m)))")},
    [KBIN_shr] = {BOTH("($a >> ($v)(($u)$b & ($U)$m))")},
    [KBIN_rotate_left] = {.of_unsigned = "{ const $v n = b & ($U)$m; return (a << n) | (a >> (-n & ($U)$m)); }"},
    [KBIN_rotate_right] = {.of_unsigned = "{ const $v n = b & ($U)$m; return (a >> n) | (a << (-n & ($U)$m)); }"},
    [KBIN_eq] = {.of_bool = "(~($a ^ $b))", COMPARED("==")},
    [KBIN_ne] = {.of_bool = "($a ^ $b)", COMPARED("!=")},
    [KBIN_lt] = {COMPARED("<")},
    [KBIN_gt] = {COMPARED(">")},
    [KBIN_le] = {COMPARED("<=")},
    [KBIN_ge] = {COMPARED(">=")},
    [KBIN_copysign] = {.of_float = "(($v)((($i)$a & ~" SIGN ") | (($i)$b & " SIGN ")))"},
};

static const char *column(const flxi_kspelling *s, uint32_t type)
{
    switch (flxi_ktype_of(type)->kind) {
    case TAKES_BOOL: return s->of_bool;
    case TAKES_UNSIGNED: return s->of_unsigned;
    case TAKES_SIGNED: return s->of_signed;
    default: return s->of_float;
    }
}

static const char *find_unary(flxi_kunary op, uint32_t type)
{
    return column(&unaries[op], type);
}

/* Integers of 32 bits divide as f64, each half of the lanes separately: a quotient that is not whole differs from the
   next integer by more than f64 rounds. Divisors 0 and -1, whose quotients might not fit, are replaced. */
#define DIVIDED(type)                                                                                 \
    "{ typedef k_" type " part __attribute__((vector_size(sizeof a / 2))); part x[2], y[2], r[2]; "   \
    "const $v one = @all(($T)1), c = @pick(($i)((b == 0) | (b == ($T)-1)), one, b); $v q; "           \
    "__builtin_memcpy(x, &a, sizeof a); __builtin_memcpy(y, &c, sizeof c); "                          \
    "for (int j = 0; j < 2; j++) r[j] = __builtin_convertvector(__builtin_convertvector(x[j], $d) / " \
    "__builtin_convertvector(y[j], $d), part); __builtin_memcpy(&q, r, sizeof q); "

static const char *find_quotient(flxi_kbinary op, uint32_t type)
{
    if (type == FLX_I32 && op == KBIN_div)
        return DIVIDED("i32") "return @pick(b == 0, @all(-1), @pick(b == -1, ($v)(-($u)a), q)); }";
    if (type == FLX_I32)
        return DIVIDED("i32") "return @pick(b == 0, a, @pick(b == -1, @all(0), ($v)(($u)a - ($u)q * ($u)b))); }";
    if (op == KBIN_div)
        return DIVIDED("u32") "return @pick(($i)(b == 0), @all(~0u), "
                              "@pick(($i)(b == ~0u), ($v)(a == ~0u) & 1u, q)); }";
    return DIVIDED("u32") "return @pick(($i)(b == 0), a, @pick(($i)(b == ~0u), a & ($v)(a != ~0u), a - q * b)); }";
}

static const char *find_binary(flxi_kbinary op, uint32_t type)
{
    if ((op == KBIN_div || op == KBIN_mod) && (type == FLX_I32 || type == FLX_U32))
        return find_quotient(op, type);
    if (op == KBIN_mul_high && type == FLX_U32)
        return "{ typedef k_u64 pairs __attribute__((vector_size(sizeof a))); const pairs x = (pairs)a, y = (pairs)b; "
               "return ($v)(((x & 0xffffffffull) * (y & 0xffffffffull) >> 32) | ((x >> 32) * (y >> 32) & "
               "0xffffffff00000000ull)); }";
    return column(&binaries[op], type);
}

static void write_op(flxi_kfile *f, flxi_strbuf *out, const flxi_kop *op, const char *text, bool is_exact,
                     const flxi_ksubject *s)
{
    bool rounds = is_half(s->type) && !is_exact && op->result != KRESULT_BOOL;
    flxi_ksubject own = *s;
    if (rounds) {
        flxi_kfile_name(f, out, "round_half", s);
        flxi_add_char(out, '(');
    }
    own.type = is_half(s->type) ? FLX_F32 : s->type;
    own.result = flxi_kop_type(op, own.type);
    if (text && text[0] != '{') {
        flxi_kfile_expand(f, out, text, &own);
    } else {
        flxi_kfile_name(f, out, op->name, &own);
        flxi_kfile_expand(f, out, s->x[1] ? "($a, $b)" : "($a)", &own);
    }
    if (rounds)
        flxi_add_char(out, ')');
}

void flxi_vtext_unary(flxi_kfile *f, flxi_strbuf *out, flxi_kunary op, const flxi_ksubject *s)
{
    write_op(f, out, &flxi_kunaries[op], find_unary(op, s->type), flxi_kspell_unary_is_exact(op), s);
}

void flxi_vtext_binary(flxi_kfile *f, flxi_strbuf *out, flxi_kbinary op, const flxi_ksubject *s)
{
    write_op(f, out, &flxi_kbinaries[op], find_binary(op, s->type), flxi_kspell_binary_is_exact(op), s);
}

void flxi_vtext_fma(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s)
{
    flxi_ksubject own = *s;
    if (is_half(s->type)) {
        flxi_kfile_name(f, out, "round_half", s);
        flxi_add_char(out, '(');
        own.type = FLX_F32;
    }
    flxi_kfile_expand(f, out, "@fma($a, $b, $c)", &own);
    if (is_half(s->type))
        flxi_add_char(out, ')');
}

/* ---- Casts ---- */

/* Whether a float of this type represents all numbers of the integer type, and 32 signed bits hold them. */
static bool saturates_in_vectors(uint32_t type, uint32_t result)
{
    return result == FLX_I8 || result == FLX_U8 || result == FLX_I16 || result == FLX_U16 ||
           (type == FLX_F64 && result == FLX_I32);
}

/* From an integer, or one float to another. gcc converts number by number where widths differ by more than a factor of
   two: then by way of integers between, which hold all numbers of the narrow side. */
static void convert(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s)
{
    unsigned from = flxi_ktype_of(s->type)->bits, to = flxi_ktype_of(s->result)->bits, bits = from < 8 ? 8 : from;
    bool from_float = flxi_ktype_is_float(s->type), is_signed = flxi_ktype_of(s->type)->kind == TAKES_SIGNED;
    bool is_byte_to_float = bits == 8 && flxi_ktype_is_float(s->result);
    uint32_t steps[2];
    unsigned n = 0;
    for (; !from_float && (2 * bits < to || (is_byte_to_float && bits < 32)); n++) {
        bits *= 2;
        steps[n] = integer_type(bits, is_signed || bits > 16);
    }
    for (; !from_float && bits > 2 * to; n++) {
        bits /= 2;
        steps[n] = integer_type(bits, is_signed);
    }
    for (unsigned i = 0; i <= n; i++)
        flxi_add_text(out, "__builtin_convertvector(");
    flxi_add_text(out, s->x[0]);
    for (unsigned i = 0; i <= n; i++) {
        flxi_add_text(out, ", ");
        flxi_vtext_type(f, out, i < n ? steps[i] : s->result, s->lanes);
        flxi_add_char(out, ')');
    }
}

void flxi_vtext_cast(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s)
{
    bool from_float = flxi_ktype_is_float(s->type), to_float = flxi_ktype_is_float(s->result);
    bool from_f32 = s->type == FLX_F32 || is_half(s->type);
    flxi_ksubject own = *s;
    if (s->result == FLX_BOOL)
        flxi_kfile_expand(f, out, "@truth($a)", s);
    else if (s->type == FLX_BOOL)
        flxi_kfile_expand(f, out, "__builtin_convertvector(-$a, $q)", s);
    else if (is_half(s->result) && from_f32) {
        own.type = s->result;
        flxi_kfile_expand(f, out, "@round_half($a)", &own);
    } else if (is_half(s->result) || (from_float && !to_float)) {
        own.type = is_half(s->type) ? FLX_F32 : s->type;
        bool fits = saturates_in_vectors(own.type, s->result) && !to_float;
        bool is_whole = own.type == FLX_F32 && s->result == FLX_I32;
        bool is_byte = fits && flxi_ktype_of(s->result)->bits == 8;
        flxi_kfile_expand(f, out,
                          is_byte    ? "@clip_byte($a)"
                          : fits     ? "@clip($a)"
                          : is_whole ? "@saturate($a)"
                                     : "@cast($a)",
                          &own);
    } else if (from_f32 && s->result == FLX_F32) {
        flxi_add_text(out, s->x[0]);
    } else {
        convert(f, out, s);
    }
}

void flxi_vtext_bitcast(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s)
{
    flxi_ksubject to = *s;
    to.type = s->result;
    if (s->type == s->result)
        flxi_add_text(out, s->x[0]);
    else if (is_half(s->type) && is_half(s->result))
        flxi_kfile_expand(f, out, "@recast($a)", s);
    else if (is_half(s->type))
        flxi_kfile_expand(f, out, "(($q)@encode($a))", s);
    else if (is_half(s->result))
        flxi_kfile_expand(f, out, "@decode(($e)$a)", &to);
    else
        flxi_kfile_expand(f, out, "(($q)$a)", s);
}

/* ---- Operations of the processor ---- */

/* One for f32 and f64, by the size of a vector; `native` is what follows __builtin_ia32_, with s or d for $. */
typedef struct {
    const char *name;
    const char *portable;             /* __builtin_elementwise_… of newer compilers */
    const char *scalar;               /* of one lane */
    const char *guard[3], *native[3]; /* of 128, 256 and 512 bits */
    const char *other;                /* of 512 bits, clang's name; NULL: the same */
} native_op;

#define ROUNDING(name, scalar, code)                                                                            \
    {                                                                                                           \
        name, name, scalar, {"__SSE4_1__", "__AVX__", "__AVX512F__"},                                           \
            {"roundp$(a, " code ")", "roundp$256(a, " code ")", "rndscalep$_mask(a, " code ", a, -1, 4)"}, NULL \
    }

static const native_op native_ops[] = {
    ROUNDING("floor", "floor$f(a[j])", "9"),
    ROUNDING("ceil", "ceil$f(a[j])", "10"),
    ROUNDING("trunc", "trunc$f(a[j])", "11"),
    ROUNDING("rint", "rint$f(a[j])", "8"),
    {"sqrt",
     "sqrt",
     "sqrt$f(a[j])",
     {"__SSE2__", "__AVX__", "__AVX512F__"},
     {"sqrtp$(a)", "sqrtp$256(a)", "sqrtp$512_mask(a, a, -1, 4)"},
     "sqrtp$512(a, 4)"},
    {"fma",
     "fma",
     "fma$f(a[j], b[j], c[j])",
     {"__FMA__", "__FMA__", "__AVX512F__"},
     {"vfmaddp$(a, b, c)", "vfmaddp$256(a, b, c)", "vfmaddp$512_mask(a, b, c, -1, 4)"},
     NULL},
};

static void add_native(flxi_strbuf *out, const char *text, bool is_f64)
{
    flxi_add_text(out, "    return __builtin_ia32_");
    for (; *text; text++)
        flxi_add_char(out, *text != '$' ? *text : is_f64 ? 'd' : 's');
    flxi_add_text(out, ";\n");
}

static void define_native(flxi_kfile *f, flxi_strbuf *out, const native_op *op, const flxi_ksubject *s)
{
    bool is_f64 = s->type == FLX_F64, is_fma = strcmp(op->name, "fma") == 0;
    unsigned bits = s->lanes * flxi_ktype_of(s->type)->bits;
    int size = bits == 128 ? 0 : bits == 256 ? 1 : bits == 512 ? 2 : -1;
    flxi_kfile_expand(f, out, is_fma ? "$F $v $n($v a, $v b, $v c)\n{\n" : "$F $v $n($v a)\n{\n", s);
    flxi_addf(out, "#if __has_builtin(__builtin_elementwise_%s)\n    return __builtin_elementwise_%s(%s);\n",
              op->portable, op->portable, is_fma ? "a, b, c" : "a");
    if (size == 2 && op->other) {
        flxi_addf(out, "#elif defined(%s) && defined(__clang__)\n", op->guard[size]);
        add_native(out, op->other, is_f64);
    }
    if (size >= 0) {
        flxi_addf(out, "#elif defined(%s)\n", op->guard[size]);
        add_native(out, op->native[size], is_f64);
    }
    flxi_kfile_expand(f, out, "#else\n    $v r = {0};\n    for (int j = 0; j < $k; j++)\n        r[j] = __builtin_", s);
    flxi_kfile_expand(f, out, op->scalar, s);
    flxi_add_text(out, ";\n    return r;\n#endif\n}\n");
}

/* ---- Functions of ops ---- */

/* What the scalar text does, lane by lane. */
static void define_each(flxi_kfile *f, flxi_strbuf *out, uint8_t unary, uint8_t binary, const flxi_ksubject *s)
{
    bool gives_bool = s->result == FLX_BOOL, takes_bool = s->type == FLX_BOOL;
    const char *x = takes_bool ? "(a[j] != 0)" : "a[j]", *y = takes_bool ? "(b[j] != 0)" : "b[j]";
    flxi_kfile_expand(f, out, "{\n    $q r = {0};\n    for (int j = 0; j < $k; j++)\n        r[j] = ", s);
    flxi_add_text(out, gives_bool ? "-" : "");
    if (unary)
        flxi_ktext_unary(f, out, (flxi_kunary)unary, s->type, x);
    else
        flxi_ktext_binary(f, out, (flxi_kbinary)binary, s->type, x, y);
    flxi_add_text(out, ";\n    return r;\n}\n");
}

/* Whether any lane of a mask is set. */
static void define_any(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s)
{
    unsigned bytes = s->lanes * mask_bits(f, s->lanes) / 8, part = bytes < 32 ? 16 : 32;
    flxi_kfile_expand(f, out, "$F int $n($B m)\n{\n#if defined(__AVX__)\n", s);
    flxi_addf(out, "    typedef long long part __attribute__((vector_size(%u)));\n    part p[%u];\n", part,
              bytes / part);
    flxi_add_text(out, "    __builtin_memcpy(p, &m, sizeof m);\n");
    if (bytes > part)
        flxi_add_text(out, "    p[0] |= p[1];\n");
    flxi_addf(out, "    return !__builtin_ia32_ptestz%u(p[0], p[0]);\n", part * 8);
    flxi_kfile_expand(f, out,
                      "#else\n    k_i64 r = 0;\n    for (int j = 0; j < $k; j++)\n        r |= m[j];\n    return r != "
                      "0;\n#endif\n}\n",
                      s);
}

/* Stores the lanes of a mask to consecutive elements: at once where the processor can, else one by one. */
static void define_store_some(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s)
{
    unsigned bits = flxi_ktype_of(memory_type(s->type))->bits, bytes = bits * s->lanes / 8, part = bytes < 32 ? 16 : 32;
    flxi_kfile_expand(f, out, "static void $n($E *b, k_u32 n, k_u32 i, $v a, $B m)\n{\n    const $e r = $H;\n", s);
    if (bits >= 32 && bytes >= 16) {
        const char *word = bits == 32 ? "int" : "long long";
        flxi_add_text(out, "#if defined(__AVX2__)\n    if ((k_u64)i + ");
        flxi_kfile_expand(f, out, "$k <= n) {\n        const $j c = __builtin_convertvector(m, $j);\n", s);
        flxi_addf(out, "        typedef %s part __attribute__((vector_size(%u)));\n", word, part);
        flxi_addf(out, "        part v[%u], w[%u];\n", bytes / part, bytes / part);
        flxi_add_text(out, "        __builtin_memcpy(v, &r, sizeof r);\n        __builtin_memcpy(w, &c, sizeof c);\n");
        flxi_addf(out, "        for (int j = 0; j < %u; j++)\n", bytes / part);
        flxi_addf(out, "            __builtin_ia32_maskstore%c%s((part *)(b + i) + j, w[j], v[j]);\n",
                  bits == 32 ? 'd' : 'q', part == 32 ? "256" : "");
        flxi_add_text(out, "        return;\n    }\n#endif\n");
    }
    flxi_kfile_expand(f, out,
                      "    for (k_u32 j = 0; j < $k; j++)\n        if (m[j] && i + j < n) b[i + j] = r[j];\n}\n", s);
}

static void define_sum(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s)
{
    flxi_kfile_expand(f, out, "$F $T $n($T s, $v a)\n{\n    for (int j = 0; j < $k; j++)\n        s = ", s);
    flxi_ktext_binary(f, out, KBIN_add, s->type, "s", "a[j]");
    flxi_add_text(out, ";\n    return s;\n}\n");
}

/* Lane j gets the value of lane j ^ c. */
static void define_exchange(flxi_kfile *f, flxi_strbuf *out, unsigned c, const flxi_ksubject *s)
{
    flxi_kfile_expand(f, out, "$F $v $n($v a)\n{\n#if defined(__clang__)\n    return __builtin_shufflevector(a, a", s);
    for (unsigned j = 0; j < s->lanes; j++)
        flxi_addf(out, ", %u", j ^ c);
    flxi_kfile_expand(f, out, ");\n#else\n    return __builtin_shuffle(a, ($i){", s);
    for (unsigned j = 0; j < s->lanes; j++)
        flxi_addf(out, j ? ", %u" : "%u", j ^ c);
    flxi_add_text(out, "});\n#endif\n}\n");
}

/* Element (i + j) / times + o to lane j: a vector of elements, each to several lanes. */
static void define_repeat(flxi_kfile *f, flxi_strbuf *out, unsigned times, const flxi_ksubject *s)
{
    flxi_kfile_expand(f, out, "$F $v $n(const $E *b, k_u32 n, k_u32 i, k_u32 o)\n{\n    $e r = {0};\n", s);
    flxi_addf(out, "    const k_u32 at = i / %uu + o;\n    if (i %% %uu == 0 && (k_u64)at + ", times, times);
    flxi_kfile_expand(f, out, "$k <= n) {\n        $e t;\n        __builtin_memcpy(&t, b + at, sizeof t);\n", s);
    flxi_add_text(out, "#if defined(__clang__)\n        r = __builtin_shufflevector(t, t");
    for (unsigned j = 0; j < s->lanes; j++)
        flxi_addf(out, ", %u", j / times);
    flxi_kfile_expand(f, out, ");\n#else\n        r = __builtin_shuffle(t, ($j){", s);
    for (unsigned j = 0; j < s->lanes; j++)
        flxi_addf(out, j ? ", %u" : "%u", j / times);
    flxi_kfile_expand(f, out, "});\n#endif\n    } else {\n        for (k_u32 j = 0; j < $k; j++) {\n", s);
    flxi_addf(out, "            const k_u32 l = (i + j) / %uu + o;\n", times);
    flxi_kfile_expand(f, out, "            r[j] = l < n ? b[l] : 0;\n        }\n    }\n    return $G;\n}\n", s);
}

/* Lanes of a and c in turn to consecutive elements from i on; where j is not i + 1, to every other element from i and
   from j on. */
static void define_put_pairs(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s)
{
    flxi_kfile_expand(f, out,
                      "$F void $n($E *b, k_u32 n, k_u32 i, k_u32 j, $v a, $v c)\n{\n"
                      "    if (j - i != 1 || (k_u64)i + 2 * $k > n) {\n"
                      "        @put_pairs_rest(b, n, i, j, a, c);\n        return;\n    }\n",
                      s);
    for (unsigned half = 0; half < 2; half++) {
        flxi_kfile_expand(f, out, "#if defined(__clang__)\n    const $v ", s);
        flxi_addf(out, "r%u = __builtin_shufflevector(a, c", half);
        for (unsigned j = 0; j < s->lanes; j++)
            flxi_addf(out, ", %u", (half * s->lanes + j) / 2 + j % 2 * s->lanes);
        flxi_kfile_expand(f, out, ");\n#else\n    const $v ", s);
        flxi_addf(out, "r%u = __builtin_shuffle(a, c, ", half);
        flxi_kfile_expand(f, out, "($i){", s);
        for (unsigned j = 0; j < s->lanes; j++)
            flxi_addf(out, j ? ", %u" : "%u", (half * s->lanes + j) / 2 + j % 2 * s->lanes);
        flxi_add_text(out, "});\n#endif\n");
    }
    flxi_kfile_expand(
        f, out, "    __builtin_memcpy(b + i, &r0, sizeof r0);\n    __builtin_memcpy(b + i + $k, &r1, sizeof r1);\n}\n",
        s);
}

static const char each_lane[] =
    "static $q $n($v a)\n{\n    $q r = {0};\n    for (int j = 0; j < $k; j++)\n        r[j] = ";

static void define_cast(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s)
{
    flxi_kfile_expand(f, out, each_lane, s);
    flxi_ktext_cast(f, out, s->result, s->type, "a[j]");
    flxi_add_text(out, ";\n    return r;\n}\n");
}

static void define_recast(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s)
{
    flxi_kfile_expand(f, out, each_lane, s);
    flxi_ktext_bitcast(f, out, s->result, s->type, "a[j]");
    flxi_add_text(out, ";\n    return r;\n}\n");
}

static const struct {
    const char *name;
    void (*define)(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s);
} made[] = {
    {"any", define_any},   {"store_some", define_store_some}, {"sum", define_sum},
    {"cast", define_cast}, {"recast", define_recast},         {"put_pairs", define_put_pairs},
};

static bool define_made(flxi_kfile *f, flxi_strbuf *out, const char *name, const flxi_ksubject *s)
{
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        if (strcmp(made[i].name, name) == 0) {
            made[i].define(f, out, s);
            return true;
        }
    for (size_t i = 0; i < sizeof native_ops / sizeof native_ops[0]; i++)
        if (strcmp(native_ops[i].name, name) == 0) {
            define_native(f, out, &native_ops[i], s);
            return true;
        }
    bool is_exchange = strncmp(name, "exchange_", 9) == 0, is_repeat = strncmp(name, "repeat_", 7) == 0;
    if (is_exchange)
        define_exchange(f, out, (unsigned)strtoul(name + 9, NULL, 10), s);
    if (is_repeat)
        define_repeat(f, out, (unsigned)strtoul(name + 7, NULL, 10), s);
    return is_exchange || is_repeat;
}

static void define_op(flxi_kfile *f, flxi_strbuf *out, const char *name, flxi_ksubject *s)
{
    if (define_made(f, out, name, s))
        return;
    uint8_t unary = flxi_kunary_find(name, strlen(name)), binary = flxi_kbinary_find(name, strlen(name));
    if (!unary && !binary) {
        f->failed = true;
        return;
    }
    const char *text = unary ? find_unary((flxi_kunary)unary, s->type) : find_binary((flxi_kbinary)binary, s->type);
    s->result = flxi_kop_type(unary ? &flxi_kunaries[unary] : &flxi_kbinaries[binary], s->type);
    s->x[0] = "a";
    s->x[1] = "b";
    flxi_kfile_expand(f, out, text ? "$F " : "static ", s);
    flxi_kfile_expand(f, out, unary ? "$q $n($v a)\n" : "$q $n($v a, $v b)\n", s);
    if (!text) {
        define_each(f, out, unary, binary, s);
        return;
    }
    flxi_add_text(out, text[0] == '{' ? "" : "{ return ");
    flxi_kfile_expand(f, out, text, s);
    flxi_add_text(out, text[0] == '{' ? "\n" : "; }\n");
}

/* ---- Other functions ---- */

bool flxi_vspell_moves(uint32_t element)
{
    return !flxi_ktype_of(element)->storage;
}

/* At the end of a buffer: a separate function, kept out of the hot loop. */
#define RARE "static __attribute__((noinline, cold)) "
#define LANES "for (k_u32 j = 0; j < $k; j++)\n        "

static const flxi_vhelper helpers[] = {
    {{"all", KBY_TYPE, "$F $v $n($T a)\n{ return ($v){$A}; }\n"}, 0},
    {{"all_bool", 0, "$F $B $n(k_bool b)\n{ const k_i32 a = -b; return ($B){$A}; }\n"}, 0},
    /* a, a + step, … */
    {{"ramp", KBY_TYPE, "$F $v $n($T a, $T step)\n{ return ($v)(($u)@all(a) + ($u){$I} * ($u)@all(step)); }\n"}, 0},
    {{"pick", KBY_TYPE, "$F $v $n($i m, $v a, $v b)\n{ return ($v)((m & ($i)a) | (~m & ($i)b)); }\n"}, 0},
    {{"select", KBY_TYPE, "$F $v $n($B m, $v a, $v b)\n{ return @pick(__builtin_convertvector(m, $i), a, b); }\n"}, 0},
    {{"mask", KBY_TYPE, "$F $B $n($i a)\n{ return __builtin_convertvector(a, $B); }\n"}, 0},
    {{"truth", KBY_TYPE, "$F $B $n($v a)\n{ return @mask(($i)(a != @all(($T)0))); }\n"}, 0},
    {{"any", 0, NULL}, 0}, /* generated */
    {{"canonical", KBY_TYPE,
      "$F $v $n($v a)\n"
      "{ return @pick(($i)(a != a), ($v)(($u){0} + ($w == 64 ? ($U)0x7ff80000u << ($m & 32) : ($U)0x7fc00000u)), a); "
      "}\n"},
     0},
    {{"flip_sign", KBY_TYPE, "$F $v $n($v a)\n{ return ($v)(($i)a ^ " SIGN "); }\n"}, 0},

    /* Subgroup ops: lane after lane, in the interpreter's order. */
    {{"sum", KBY_TYPE, NULL}, 0},
    {{"ballot", 0,
      "$F k_u32 $n($B m)\n{\n    k_u32 r = 0;\n    " LANES "r |= (k_u32)(m[j] & 1) << j;\n    return r;\n}\n"},
     0},

    {{"cast", KBY_TYPE | KBY_RESULT, NULL}, 0}, /* generated */
    {{"recast", KBY_TYPE | KBY_RESULT, NULL}, 0},
    {{"saturate", KBY_TYPE | KBY_RESULT,
      "$F $q $n($v a)\n"
      "{\n"
      "    const $v low = @pick(($i)(a > @all(-0x1p31f)), a, @all(-0x1p31f));\n"
      "    const $q r = __builtin_convertvector(@pick(($i)(low < @all(0x1p31f)), low, @all(0.0f)), $q);\n"
      "    return (r & ~(a >= @all(0x1p31f)) & (a == a)) | ((a >= @all(0x1p31f)) & 0x7fffffff);\n"
      "}\n"},
     0},

    {{"clip", KBY_TYPE | KBY_RESULT,
      "$F $q $n($v a)\n"
      "{\n"
      "    typedef k_i32 whole __attribute__((vector_size($k * 4)));\n"
      "    const $v low = @pick(($i)(a > @all(($T)$L)), a, @all(($T)$L));\n"
      "    const $v r = @pick(($i)(low < @all(($T)$M)), low, @all(($T)$M));\n"
      "    return __builtin_convertvector(__builtin_convertvector(($v)(($i)r & ($i)(a == a)), whole), $q);\n"
      "}\n"},
     0},
    /* The same to 8 bits, by way of 16. */
    {{"clip_byte", KBY_TYPE | KBY_RESULT,
      "$F $q $n($v a)\n"
      "{\n"
      "    typedef k_i32 whole __attribute__((vector_size($k * 4)));\n"
      "    typedef k_i16 half __attribute__((vector_size($k * 2)));\n"
      "    const $v low = @pick(($i)(a > @all(($T)$L)), a, @all(($T)$L));\n"
      "    const $v r = @pick(($i)(low < @all(($T)$M)), low, @all(($T)$M));\n"
      "    const whole w = __builtin_convertvector(($v)(($i)r & ($i)(a == a)), whole);\n"
      "    return __builtin_convertvector(__builtin_convertvector(w, half), $q);\n"
      "}\n"},
     0},

    /* ---- Halves ---- */

    {{"decode", KBY_TYPE, "$F $v $n($e a)\n{ return ($v)(__builtin_convertvector(a, $u) << 16); }\n"}, FLX_BF16},
    {{"encode", KBY_TYPE, "$F $e $n($v a)\n{ return __builtin_convertvector(($u)a >> 16, $e); }\n"}, FLX_BF16},
    {{"round_half", KBY_TYPE,
      "$F $v $n($v a)\n"
      "{\n"
      "    const $u u = ($u)a, r = (u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u;\n"
      "    return @pick(($i)(a != a), ($v)(($u){0} + 0x7fc00000u), ($v)r);\n"
      "}\n"},
     FLX_BF16},
    {{"decode", KBY_TYPE,
      "$F $v $n($e h)\n"
      "{\n"
      "    const $u a = __builtin_convertvector(h, $u), e = a >> 10 & 31u, m = a & 0x3ffu, s = (a & 0x8000u) << 16;\n"
      "    const $v small = __builtin_convertvector(($i)m, $v) * 0x1p-24f;\n"
      "    const $u big = (e << 23) + (112u << 23) + (m << 13), last = 0x7f800000u | m << 13;\n"
      "    const $v r = @pick(($i)(e == 0), small, @pick(($i)(e == 31u), ($v)last, ($v)big));\n"
      "    return ($v)(($u)r | s);\n"
      "}\n"},
     FLX_F16},
    {{"encode", KBY_TYPE,
      "$F $e $n($v a)\n"
      "{\n"
      "    const $u u = ($u)a;\n"
      "    const $i m = ($i)(u & 0x7fffffffu), nan = m >> 13 & 0x3ff;\n"
      "    const $i small = __builtin_convertvector(($v)(m & (m < 0x38800000)) * 0x1p24f, $i);\n"
      "    const $i big = (m - 0x38000000) >> 13, none = 0x7c00 | nan | ((nan == 0) & 0x200);\n"
      "    const $i finite = (small & (m < 0x38800000)) | (big & (m >= 0x38800000));\n"
      "    const $i r = (finite & (m < 0x47800000)) | ((m >= 0x47800000) & (m <= 0x7f800000) & 0x7c00) |\n"
      "                 (none & (m > 0x7f800000));\n"
      "    return __builtin_convertvector((u >> 16 & 0x8000u) | ($u)r, $e);\n"
      "}\n"},
     FLX_F16},
    {{"round_half", KBY_TYPE,
      "$F $v $n($v a)\n"
      "{\n"
      "#if defined(__F16C__) && $k >= 8\n"
      "    typedef float eight __attribute__((vector_size(32)));\n"
      "    eight w[$k / 8];\n"
      "    $v r = {0};\n"
      "    __builtin_memcpy(w, &a, sizeof a);\n"
      "    for (int j = 0; j < $k / 8; j++)\n"
      "        w[j] = __builtin_ia32_vcvtph2ps256(__builtin_ia32_vcvtps2ph256(w[j], 0));\n"
      "    __builtin_memcpy(&r, w, sizeof r);\n"
      "    return @pick(($i)(a != a), ($v)(($u){0} + 0x7fc00000u), r);\n"
      "#else\n"
      "    const $u u = ($u)a;\n"
      "    const $i m = ($i)(u & 0x7fffffffu), near = (m + 0xfff + (m >> 13 & 1)) & -0x2000;\n"
      "    const $i small = ($i)((($v)m + 0.5f) - 0.5f); /* steps of 2^-24 */\n"
      "    const $i big = (near & (near <= 0x477fe000)) | ((near > 0x477fe000) & 0x7f800000);\n"
      "    const $i r = (small & (m < 0x38800000)) | (big & (m >= 0x38800000));\n"
      "    return @pick(($i)(a != a), ($v)(($u){0} + 0x7fc00000u), ($v)(($u)r | (u & 0x80000000u)));\n"
      "#endif\n"
      "}\n"},
     FLX_F16},

    /* ---- Memory: n elements at b; i is the index of the first lane, or there is one for each lane ---- */

    {{"get", KBY_TYPE, "$F $v $n(const $E *b)\n{ $e r; __builtin_memcpy(&r, b, sizeof r); return $G; }\n"}, 0},
    {{"load_rest", KBY_TYPE,
      RARE "$v $n(const $E *b, k_u32 n, k_u32 i)\n"
           "{\n    $e r = {0};\n    " LANES "if (i + j < n) r[j] = b[i + j];\n    return $G;\n}\n"},
     0},
    {{"load", KBY_TYPE,
      "$F $v $n(const $E *b, k_u32 n, k_u32 i)\n"
      "{ return (k_u64)i + $k <= n ? @get(b + i) : @load_rest(b, n, i); }\n"},
     0},
    /* Every other element, of 32 or 64 bits. */
    {{"pairs_rest", KBY_TYPE,
      RARE "$v $n(const $E *b, k_u32 n, k_u32 i)\n"
           "{\n    $e r = {0};\n    " LANES "if (i + 2 * j < n) r[j] = b[i + 2 * j];\n    return $G;\n}\n"},
     0},
    {{"pairs", KBY_TYPE,
      "$F $v $n(const $E *b, k_u32 n, k_u32 i)\n"
      "{\n"
      "    if ((k_u64)i + 2 * $k > n)\n"
      "        return @pairs_rest(b, n, i);\n"
      "    $e s, t;\n"
      "    __builtin_memcpy(&s, b + i, sizeof s);\n"
      "    __builtin_memcpy(&t, b + i + $k, sizeof t);\n"
      "#if defined(__clang__)\n"
      "    const $e r = __builtin_shufflevector(s, t, $J);\n"
      "#else\n"
      "    const $e r = __builtin_shuffle(s, t, ($j){$J});\n"
      "#endif\n"
      "    return $G;\n"
      "}\n"},
     0},
    /* Every fourth one. */
    {{"quads_rest", KBY_TYPE,
      RARE "$v $n(const $E *b, k_u32 n, k_u32 i)\n"
           "{\n    $e r = {0};\n    " LANES "if (i + 4 * j < n) r[j] = b[i + 4 * j];\n    return $G;\n}\n"},
     0},
    {{"quads", KBY_TYPE,
      "$F $v $n(const $E *b, k_u32 n, k_u32 i)\n"
      "{\n"
      "    if ((k_u64)i + 4 * $k > n)\n"
      "        return @quads_rest(b, n, i);\n"
      "    $e s[4];\n"
      "    __builtin_memcpy(s, b + i, sizeof s);\n"
      "#if defined(__clang__)\n"
      "    const $e t = __builtin_shufflevector(s[0], s[1], $J), u = __builtin_shufflevector(s[2], s[3], $J);\n"
      "    const $e r = __builtin_shufflevector(t, u, $J);\n"
      "#else\n"
      "    const $e t = __builtin_shuffle(s[0], s[1], ($j){$J}), u = __builtin_shuffle(s[2], s[3], ($j){$J});\n"
      "    const $e r = __builtin_shuffle(t, u, ($j){$J});\n"
      "#endif\n"
      "    return $G;\n"
      "}\n"},
     0},
    {{"gather", KBY_TYPE,
      "$F $v $n(const $E *b, k_u32 n, $q i)\n"
      "{\n    $e r = {0};\n    " LANES "r[j] = i[j] < n ? b[i[j]] : 0;\n    return $G;\n}\n"},
     0},
    {{"gather_at", KBY_TYPE,
      "$F $v $n(const $E *b, $q i)\n{\n    $e r = {0};\n    " LANES "r[j] = b[i[j]];\n    return $G;\n}\n"},
     0},
    /* Lane j reads element o + (i + j) / d * m: two elements at most where d is at least the number of lanes, as it is
       for numbers; a d that a file gets as an argument may be less. */
    {{"stepped_rest", KBY_TYPE,
      RARE "$v $n(const $E *b, k_u32 n, k_u32 i, k_u32 d, k_u32 m, k_u32 o)\n"
           "{\n    $e r = {0};\n    " LANES "r[j] = o + (i + j) / d * m < n ? b[o + (i + j) / d * m] : 0;\n"
           "    return $G;\n}\n"},
     0},
    {{"stepped", KBY_TYPE,
      "$F $v $n(const $E *b, k_u32 n, k_u32 i, k_u32 d, k_u32 m, k_u32 o)\n"
      "{\n"
      "    if (~i < $k || d < $k)\n"
      "        return @stepped_rest(b, n, i, d, m, o); /* i + j wraps around */\n"
      "    const k_u32 first = o + i / d * m, last = o + (i + ($k - 1)) / d * m, turn = d - i % d;\n"
      "    const $v a = @all(first < n ? b[first] : ($E)0), c = @all(last < n ? b[last] : ($E)0);\n"
      "    return @pick(($i)(($u){$I} < ($u){0} + turn), a, c);\n"
      "}\n"},
     0},
    /* Consecutive elements from i on where m holds, element o in the other lanes. */
    {{"guarded_rest", KBY_TYPE,
      RARE "$v $n(const $E *b, k_u32 n, k_u32 i, k_u32 o, $B m)\n"
           "{\n    $e r = {0};\n    " LANES
           "r[j] = (m[j] ? i + j : o) < n ? b[m[j] ? i + j : o] : 0;\n    return $G;\n}\n"},
     0},
    {{"guarded", KBY_TYPE,
      "$F $v $n(const $E *b, k_u32 n, k_u32 i, k_u32 o, $B m)\n"
      "{\n"
      "    if (!@any(~m) && (k_u64)i + $k <= n)\n"
      "        return @get(b + i);\n"
      "    if (@any(m))\n"
      "        return @guarded_rest(b, n, i, o, m);\n"
      "    $e r = {0};\n"
      "    const $E other = o < n ? b[o] : 0;\n"
      "    " LANES "r[j] = other;\n"
      "    return $G;\n"
      "}\n"},
     0},
    {{"guarded_at", KBY_TYPE,
      "$F $v $n(const $E *b, k_u32 i, k_u32 o, $B m)\n"
      "{\n"
      "    if (!@any(~m))\n"
      "        return @get(b + i);\n"
      "    $e r = {0};\n"
      "    " LANES "r[j] = b[o];\n"
      "    if (@any(m))\n"
      "        " LANES "if (m[j]) r[j] = b[i + j];\n"
      "    return $G;\n"
      "}\n"},
     0},
    /* Consecutive elements from i on where m holds, from o on in the other lanes. */
    {{"either_rest", KBY_TYPE,
      RARE "$v $n(const $E *b, k_u32 n, k_u32 i, k_u32 o, $B m)\n"
           "{\n    $e r = {0};\n    " LANES
           "r[j] = (m[j] ? i : o) + j < n ? b[(m[j] ? i : o) + j] : 0;\n    return $G;\n}\n"},
     0},
    {{"either", KBY_TYPE,
      "$F $v $n(const $E *b, k_u32 n, k_u32 i, k_u32 o, $B m)\n"
      "{\n"
      "    const int all = !@any(~m);\n"
      "    const k_u32 at = all ? i : o;\n"
      "    return (all || !@any(m)) && (k_u64)at + $k <= n ? @get(b + at) : @either_rest(b, n, i, o, m);\n"
      "}\n"},
     0},
    {{"put", KBY_TYPE, "$F void $n($E *b, $v a)\n{ const $e r = $H; __builtin_memcpy(b, &r, sizeof r); }\n"}, 0},
    {{"store_rest", KBY_TYPE,
      RARE "void $n($E *b, k_u32 n, k_u32 i, $v a)\n"
           "{\n    const $e r = $H;\n    " LANES "if (i + j < n) b[i + j] = r[j];\n}\n"},
     0},
    {{"store", KBY_TYPE,
      "$F void $n($E *b, k_u32 n, k_u32 i, $v a)\n"
      "{\n    if ((k_u64)i + $k <= n)\n        @put(b + i, a);\n    else\n        @store_rest(b, n, i, a);\n}\n"},
     0},
    {{"scatter", KBY_TYPE,
      "$F void $n($E *b, k_u32 n, $q i, $v a)\n"
      "{\n    const $e r = $H;\n    " LANES "if (i[j] < n) b[i[j]] = r[j];\n}\n"},
     0},
    {{"scatter_at", KBY_TYPE,
      "$F void $n($E *b, $q i, $v a)\n{\n    const $e r = $H;\n    " LANES "b[i[j]] = r[j];\n}\n"},
     0},
    {{"put_pairs_rest", KBY_TYPE,
      RARE "void $n($E *b, k_u32 n, k_u32 i, k_u32 j, $v a, $v c)\n"
           "{\n"
           "    for (k_u32 l = 0; l < $k; l++)\n        if (i + 2 * l < n) b[i + 2 * l] = a[l];\n"
           "    for (k_u32 l = 0; l < $k; l++)\n        if (j + 2 * l < n) b[j + 2 * l] = c[l];\n"
           "}\n"},
     0},
    {{"put_pairs", KBY_TYPE, NULL}, 0},  /* generated */
    {{"store_some", KBY_TYPE, NULL}, 0}, /* generated */
    {{"scatter_some", KBY_TYPE,
      "$F void $n($E *b, k_u32 n, $q i, $v a, $B m)\n"
      "{\n    const $e r = $H;\n    " LANES "if (m[j] && i[j] < n) b[i[j]] = r[j];\n}\n"},
     0},
    /* Past the cache, where the alignment permits it. */
    {{"stream", KBY_TYPE,
      "$F void $n($E *b, $v a)\n"
      "{\n"
      "    const $e r = $H;\n"
      "#if __has_builtin(__builtin_nontemporal_store)\n"
      "    if (((k_u64)b & (sizeof r - 1)) == 0) {\n"
      "        __builtin_nontemporal_store(r, ($e *)b);\n"
      "        return;\n"
      "    }\n"
      "#elif defined(__AVX512F__)\n"
      "    typedef long long whole __attribute__((vector_size(64)));\n"
      "    if (sizeof r == 64 && ((k_u64)b & 63) == 0) {\n"
      "        whole w;\n"
      "        __builtin_memcpy(&w, &r, sizeof r < sizeof w ? sizeof r : sizeof w);\n"
      "        __builtin_ia32_movntdq512((whole *)b, w);\n"
      "        return;\n"
      "    }\n"
      "#elif defined(__AVX__)\n"
      "    typedef long long whole __attribute__((vector_size(32)));\n"
      "    if (sizeof r == 32 && ((k_u64)b & 31) == 0) {\n"
      "        whole w;\n"
      "        __builtin_memcpy(&w, &r, sizeof r < sizeof w ? sizeof r : sizeof w);\n"
      "        __builtin_ia32_movntdq256((whole *)b, w);\n"
      "        return;\n"
      "    }\n"
      "#endif\n"
      "    __builtin_memcpy(b, &r, sizeof r);\n"
      "}\n"},
     0},
    {{NULL, 0, NULL}, 0},
};

static const flxi_khelper *find_row(const flxi_vhelper *rows, const char *name, uint32_t type)
{
    for (; rows->helper.name; rows++)
        if ((rows->type == 0 || rows->type == type) && strcmp(rows->helper.name, name) == 0)
            return &rows->helper;
    return NULL;
}

static const flxi_khelper *find_helper(const char *name, const flxi_ksubject *s)
{
    const flxi_khelper *row = find_row(helpers, name, s->type);
    if (!row && s->type == FLX_F32)
        row = find_row(flxi_vector_math_f32, name, s->type);
    if (!row && s->type == FLX_F64)
        row = find_row(flxi_vector_math_f64, name, s->type);
    return row;
}

const flxi_kvector_spelling flxi_vector_spelling = {
    .function = "k_inline",
    .find = find_helper,
    .define = define_op,
    .expand = expand_code,
};
