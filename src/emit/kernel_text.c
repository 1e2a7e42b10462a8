/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_text.c: see kernel_text.h. Expands templates; the functions that they refer to are written on first use. */
#include "emit/kernel_text.h"

#include "base/half.h"
#include "base/number.h"
#include "emit/kernel_spelling.h"

#include <stdio.h>

static const flxi_ktarget *const targets[] = {&flxi_target_c, &flxi_target_cuda, &flxi_target_opencl};

const flxi_ktarget *flxi_ktarget_find(const char *name)
{
    for (size_t i = 0; name && i < sizeof targets / sizeof targets[0]; i++)
        if (strcmp(targets[i]->name, name) == 0)
            return targets[i];
    return NULL;
}

/* ---- Files ---- */

void flxi_kfile_init(flxi_kfile *f, const flxi_ktarget *target, const flxi_allocator *mem)
{
    *f = (flxi_kfile){.target = target, .mem = mem};
    flxi_arena_init(&f->arena, mem);
    f->written.arena = &f->arena;
    flxi_strbuf_init(&f->functions, mem);
    flxi_strbuf_init(&f->kernels, mem);
}

void flxi_kfile_free(flxi_kfile *f)
{
    flxi_strings_free(&f->written);
    flxi_strbuf_free(&f->functions);
    flxi_strbuf_free(&f->kernels);
    flxi_arena_free(&f->arena);
}

static void add_buffer(flxi_strbuf *out, const flxi_strbuf *b)
{
    out->failed |= b->failed;
    if (b->at)
        flxi_add_bytes(out, b->at, b->n);
}

flx_code flxi_kfile_text(flxi_kfile *f, flxi_strbuf *out, flx_error *err)
{
    flxi_add_text(out, f->target->heading);
    if (f->uses_f64 && f->target->heading_f64)
        flxi_add_text(out, f->target->heading_f64);
    if (f->uses_wide_atomics && f->target->heading_wide_atomics)
        flxi_add_text(out, f->target->heading_wide_atomics);
    add_buffer(out, &f->functions);
    add_buffer(out, &f->kernels);
    return f->failed || out->failed ? flxi_oom(err, "the text of a kernel") : FLX_OK;
}

/* ---- Names of types ---- */

const char *flxi_ktext_type(uint32_t type)
{
    switch (type) {
    case FLX_F64: return "k_f64";
    case FLX_F32: return "k_f32";
    case FLX_F16: return "k_f16";
    case FLX_BF16: return "k_bf16";
    case FLX_I64: return "k_i64";
    case FLX_I32: return "k_i32";
    case FLX_I16: return "k_i16";
    case FLX_I8: return "k_i8";
    case FLX_U64: return "k_u64";
    case FLX_U32: return "k_u32";
    case FLX_U16: return "k_u16";
    case FLX_U8: return "k_u8";
    case FLX_BOOL: return "k_bool";
    default: return "k_u8"; /* bytes of a descriptive type */
    }
}

static uint32_t unsigned_type(unsigned bits)
{
    return bits <= 8 ? FLX_U8 : bits == 16 ? FLX_U16 : bits == 32 ? FLX_U32 : FLX_U64;
}

static uint32_t signed_type(unsigned bits)
{
    return bits <= 8 ? FLX_I8 : bits == 16 ? FLX_I16 : bits == 32 ? FLX_I32 : FLX_I64;
}

const char *flxi_ktext_element(const flxi_ktarget *t, uint32_t element)
{
    switch (element) {
    case FLX_F16:
    case FLX_BF16: return "k_u16";
    case FLX_BOOL: return "k_u32";
    case FLX_KERNEL_I4:
    case FLX_KERNEL_U4:
    case FLX_KERNEL_FP4:
    case FLX_KERNEL_NF4: return t->has_words ? "k_u32" : "k_u8";
    default: return flxi_ktext_type(element);
    }
}

/* ---- Literals ---- */

/* Exact, in the same form under every locale: 0x1.8p+1. */
static void add_hex_float(flxi_strbuf *out, uint64_t f64_bits, const char *suffix)
{
    uint64_t mantissa = f64_bits & ((UINT64_C(1) << 52) - 1);
    int field = (int)(f64_bits >> 52 & 2047);
    const char *sign = f64_bits >> 63 ? "-" : "";
    if (field == 0 && mantissa == 0) {
        flxi_addf(out, "%s0x0p+0%s", sign, suffix);
        return;
    }
    char digits[16];
    int n = snprintf(digits, sizeof digits, "%013llx", (unsigned long long)mantissa);
    while (n > 0 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
    flxi_addf(out, "%s0x%d%s%sp%+d%s", sign, field != 0, n ? "." : "", digits, field ? field - 1023 : -1022, suffix);
}

/* The shortest decimal that reads back to the same value, for people. */
static void add_decimal(flxi_strbuf *out, double d, bool is_double)
{
    char text[FLXI_NUMBER_MAX];
    flxi_write_double(text, d, is_double ? 53 : 24);
    bool is_negative = text[0] == '-', is_whole = !strpbrk(text, ".e");
    flxi_addf(out, "%s%s%s%s%s", is_negative ? "(" : "", text, is_whole ? ".0" : "", is_double ? "" : "f",
              is_negative ? ")" : "");
}

/* Infinities and NaNs have no literal: they are built from their bits. */
static void add_float(flxi_kfile *f, flxi_strbuf *out, uint32_t type, uint64_t bits)
{
    double d = flxi_kscalar_to_double(type, bits);
    if (d - d == 0 && f->plain) {
        add_decimal(out, d, type == FLX_F64);
        return;
    }
    if (d - d == 0) {
        flxi_add_char(out, '(');
        add_hex_float(out, flxi_f64_bits(d), type == FLX_F64 ? "" : "f");
        flxi_add_char(out, ')');
        return;
    }
    flxi_ksubject s = {.type = type};
    if (type == FLX_F64 || type == FLX_F32)
        flxi_kfile_name(f, out, "value", &s);
    else
        flxi_kfile_name(f, out, type == FLX_F16 ? "f16_value" : "bf16_value", &s);
    flxi_addf(out, "(0x%llxu%s)", (unsigned long long)bits, type == FLX_F64 ? f->target->u64_suffix + 1 : "");
}

/* The least integer of a width has no literal: the minus sign is an operator. */
static void add_signed(flxi_kfile *f, flxi_strbuf *out, uint32_t type, uint64_t bits)
{
    unsigned w = flxi_ktype_of(type)->bits;
    int64_t x = (int64_t)(bits << (64 - w)) >> (64 - w);
    const char *suffix = w == 64 ? f->target->i64_suffix : "";
    if (w < 32)
        flxi_addf(out, "((%s)%lld)", flxi_ktext_type(type), (long long)x);
    else if (bits == UINT64_C(1) << (w - 1))
        flxi_addf(out, "(%lld%s - 1)", (long long)(x + 1), suffix);
    else
        flxi_addf(out, x < 0 ? "(%lld%s)" : "%lld%s", (long long)x, suffix);
}

void flxi_ktext_literal(flxi_kfile *f, flxi_strbuf *out, uint32_t type, uint64_t bits)
{
    switch (flxi_ktype_of(type)->kind) {
    case TAKES_FLOAT: add_float(f, out, type, bits); break;
    case TAKES_SIGNED: add_signed(f, out, type, bits); break;
    case TAKES_BOOL: flxi_addf(out, "((k_bool)%d)", bits != 0); break;
    default:
        if (flxi_ktype_of(type)->bits < 32)
            flxi_addf(out, "((%s)%lluu)", flxi_ktext_type(type), (unsigned long long)bits);
        else
            flxi_addf(out, "%llu%s", (unsigned long long)bits, type == FLX_U64 ? f->target->u64_suffix : "u");
    }
}

/* ---- Functions of the file ---- */

static const flxi_khelper *find_in(const flxi_khelper *rows, const char *name)
{
    for (; rows && rows->name; rows++) {
        size_t n = strlen(rows->name);
        if (strcmp(rows->name, name) == 0 || (rows->name[n - 1] == '*' && strncmp(rows->name, name, n - 1) == 0))
            return rows;
    }
    return NULL;
}

static const flxi_khelper *find_helper(const flxi_kfile *f, const char *name)
{
    const flxi_khelper *row = find_in(f->target->helpers, name);
    return row ? row : find_in(flxi_khelpers, name);
}

/* Writes an op as a function: the text of its body, or a return of its expression. */
static void define_op(flxi_kfile *f, flxi_strbuf *out, const char *name, flxi_ksubject *s)
{
    uint8_t unary = flxi_kunary_find(name, strlen(name)), binary = flxi_kbinary_find(name, strlen(name));
    const flxi_kop *op = unary ? &flxi_kunaries[unary] : &flxi_kbinaries[binary];
    const char *text = unary    ? flxi_kspell_unary(f, (flxi_kunary)unary, s->type)
                       : binary ? flxi_kspell_binary(f, (flxi_kbinary)binary, s->type)
                                : NULL;
    if (!text) {
        f->failed = true;
        return;
    }
    s->result = flxi_kop_type(op, s->type);
    s->x[0] = "a";
    s->x[1] = "b";
    flxi_kfile_expand(f, out, unary ? "$F $R $n($T a)\n" : "$F $R $n($T a, $T b)\n", s);
    if (text[0] != '{')
        flxi_add_text(out, "{ return ");
    flxi_kfile_expand(f, out, text, s);
    flxi_add_text(out, text[0] != '{' ? "; }\n" : "\n");
}

static void define(flxi_kfile *f, const flxi_khelper *row, const char *name, const char *full, const flxi_ksubject *s)
{
    flxi_strbuf text;
    flxi_strbuf_init(&text, f->mem);
    flxi_ksubject own = *s;
    own.name = full;
    if (row && row->text)
        flxi_kfile_expand(f, &text, row->text, &own);
    else if (s->lanes)
        f->vector_spelling->define(f, &text, name, &own);
    else
        define_op(f, &text, name, &own);
    add_buffer(&f->functions, &text); /* after those that it calls */
    f->failed |= text.failed;
    flxi_strbuf_free(&text);
}

void flxi_kfile_name(flxi_kfile *f, flxi_strbuf *out, const char *name, const flxi_ksubject *s)
{
    const flxi_khelper *row = s->lanes ? f->vector_spelling->find(name, s) : find_helper(f, name);
    unsigned by = row ? row->by : KBY_TYPE;
    char full[80];
    const char *type = flxi_ktype_of(s->type)->name, *result = flxi_ktype_of(s->result)->name;
    snprintf(full, sizeof full, "k_%s%s%s%s%s%s", name, by & KBY_TYPE ? "_" : "", by & KBY_TYPE && type ? type : "",
             by & KBY_RESULT ? "_" : "", by & KBY_RESULT && result ? result : "",
             by & KBY_SPACE ? f->target->suffix[s->space] : "");
    if (s->lanes)
        snprintf(full + strlen(full), sizeof full - strlen(full), "x%u", s->lanes);
    flxi_add_text(out, full);
    if (flxi_is_interned(&f->written, full))
        return;
    const char *kept = flxi_intern(&f->written, full, strlen(full));
    if (kept)
        define(f, row, name, kept, s);
    else
        f->failed = true;
}

/* ---- Templates ---- */

static void add_power(flxi_strbuf *out, uint32_t type, const char *sign, unsigned exponent)
{
    flxi_addf(out, "%s0x1p+%u%s", sign, exponent, type == FLX_F64 ? "" : "f");
}

/* Smallest and largest value of the result as integers and, one too large, as floats. */
static void add_limit(flxi_kfile *f, flxi_strbuf *out, char code, const flxi_ksubject *s)
{
    const flxi_ktype *r = flxi_ktype_of(s->result);
    bool is_signed = r->kind == TAKES_SIGNED;
    uint64_t all = ~UINT64_C(0) >> (64 - r->bits), top = UINT64_C(1) << (r->bits - 1);
    switch (code) {
    case 'L': flxi_ktext_literal(f, out, s->result, is_signed ? top : 0); break;
    case 'M': flxi_ktext_literal(f, out, s->result, is_signed ? top - 1 : all); break;
    case 'l':
        if (is_signed)
            add_power(out, s->type, "-", r->bits - 1u);
        else
            flxi_add_char(out, '0');
        break;
    default: add_power(out, s->type, "", is_signed ? r->bits - 1u : r->bits);
    }
}

/* 16-bit floats are held in f32. */
static unsigned held_bits(uint32_t type)
{
    return type == FLX_F16 || type == FLX_BF16 ? 32 : flxi_ktype_of(type)->bits;
}

static void add_width_type(flxi_strbuf *out, char code, const flxi_ksubject *s)
{
    unsigned bits = held_bits(s->type);
    uint32_t type = code == 'U' ? unsigned_type(bits) : code == 'S' ? signed_type(bits) : bits < 64 ? FLX_U32 : FLX_U64;
    flxi_add_text(out, flxi_ktext_type(type));
}

/* Element i of the array b as stored in memory, `volatile` where it must not be read twice. */
static void add_element(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s, bool is_volatile)
{
    unsigned bits = flxi_ktype_of(s->type)->bits;
    const char *index = bits != 4 ? "i" : f->target->has_words ? "i / 8" : "i / 2";
    char element[160], text[240];
    if (is_volatile)
        snprintf(element, sizeof element, "*(const volatile %s%s *)(b + %s)", f->target->space[s->space],
                 flxi_ktext_element(f->target, s->type), index);
    else
        snprintf(element, sizeof element, "b[%s]", index);
    if (bits == 4)
        snprintf(text, sizeof text, "(%s >> i %% %d * 4 & 15)", element, f->target->has_words ? 8 : 2);
    else
        snprintf(text, sizeof text, "%s", element);
    flxi_ksubject inner = *s;
    inner.x[0] = text;
    flxi_kfile_expand(f, out, flxi_kspell_decode(s->type), &inner);
}

static void add_new_value(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s)
{
    static const uint8_t ops[FLX_KERNEL_ATOMIC_COUNT] = {
        [FLX_KERNEL_ATOMIC_ADD] = KBIN_add,     [FLX_KERNEL_ATOMIC_SUB] = KBIN_sub,
        [FLX_KERNEL_ATOMIC_MIN] = KBIN_min,     [FLX_KERNEL_ATOMIC_MAX] = KBIN_max,
        [FLX_KERNEL_ATOMIC_AND] = KBIN_bit_and, [FLX_KERNEL_ATOMIC_OR] = KBIN_bit_or,
        [FLX_KERNEL_ATOMIC_XOR] = KBIN_bit_xor,
    };
    if (s->atomic == FLX_KERNEL_ATOMIC_EXCHANGE)
        flxi_add_text(out, "v");
    else if (s->atomic == FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE)
        flxi_add_text(out, "(old == x ? v : old)");
    else
        flxi_ktext_binary(f, out, (flxi_kbinary)ops[s->atomic], s->type, "old", "v");
}

/* -0 is the zero of floating addition: it keeps the sign of a sum of zeros. */
static void add_neutral(flxi_kfile *f, flxi_strbuf *out, uint32_t type)
{
    bool is_float = flxi_ktype_is_float(type);
    flxi_ktext_literal(f, out, type, is_float ? UINT64_C(1) << (flxi_ktype_of(type)->bits - 1) : 0);
}

/* Codes for elements in memory and atomics; false for other codes. */
static bool add_memory_code(flxi_kfile *f, flxi_strbuf *out, char code, const flxi_ksubject *s)
{
    switch (code) {
    case 'E': flxi_add_text(out, flxi_ktext_element(f->target, s->type)); return true;
    case 'Q': flxi_add_text(out, f->target->space[s->space]); return true;
    case 'D': add_element(f, out, s, false); return true;
    case 'V': add_element(f, out, s, true); return true;
    case 'C': {
        flxi_ksubject inner = *s;
        inner.x[0] = "v";
        flxi_kfile_expand(f, out, flxi_kspell_encode(s->type), &inner);
        return true;
    }
    case 'K': flxi_addf(out, "%d", f->target->has_words ? 8 : 2); return true;
    case 'N': add_new_value(f, out, s); return true;
    case 'Z': add_neutral(f, out, s->type); return true;
    case 'p':
        flxi_add_text(out, flxi_ktype_of(s->type)->bits == 64 ? f->target->atomic64 : f->target->atomic32);
        return true;
    case 'o': flxi_add_text(out, flxi_katomic_names[s->atomic]); return true;
    default: return false;
    }
}

static void add_code(flxi_kfile *f, flxi_strbuf *out, char code, const flxi_ksubject *s)
{
    const flxi_ktype *t = flxi_ktype_of(s->type);
    switch (code) {
    case 'a':
    case 'b':
    case 'c': flxi_add_text(out, s->x[code - 'a'] ? s->x[code - 'a'] : ""); break;
    case 'T': flxi_add_text(out, flxi_ktext_type(t->value ? t->value : s->type)); break;
    case 'R': flxi_add_text(out, flxi_ktext_type(s->result)); break;
    case 'U':
    case 'S':
    case 'X': add_width_type(out, code, s); break;
    case 'f': flxi_add_text(out, s->type == FLX_F64 ? "" : f->target->f32_suffix); break;
    case 'g': flxi_add_char(out, s->type == FLX_F64 ? 'd' : 'f'); break;
    case 'w': flxi_addf(out, "%u", t->bits); break;
    case 'm': flxi_addf(out, "%u", t->bits - 1u); break;
    case 'L':
    case 'M':
    case 'l':
    case 'h': add_limit(f, out, code, s); break;
    case 'F': flxi_add_text(out, s->lanes ? f->vector_spelling->function : f->target->function); break;
    case 'n': flxi_add_text(out, s->name ? s->name : ""); break;
    default:
        if (add_memory_code(f, out, code, s))
            break;
        if (s->lanes)
            f->vector_spelling->expand(f, out, code, s);
        else
            f->failed = true;
    }
}

static size_t word_length(const char *s)
{
    size_t n = 0;
    while ((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= '0' && s[n] <= '9') || s[n] == '_')
        n++;
    return n;
}

/* "name" or "name:type" after an @; returns its length. */
static size_t add_call(flxi_kfile *f, flxi_strbuf *out, const char *at, const flxi_ksubject *s)
{
    char name[48];
    flxi_ksubject inner = *s;
    bool is_half = *at == '/';
    at += is_half;
    size_t n = word_length(at), end = n;
    unsigned bits = held_bits(s->type);
    if (is_half)
        inner.lanes /= 2;
    if (n >= sizeof name) {
        f->failed = true;
        return n;
    }
    memcpy(name, at, n);
    name[n] = 0;
    if (at[n] == ':') {
        const char *type = at + n + 1;
        size_t length = word_length(type);
        end = n + 1 + (length ? length : 1);
        inner.type = length         ? flxi_ktype_find(type, length)
                     : *type == 'R' ? s->result
                     : *type == 'U' ? unsigned_type(bits)
                     : bits < 64    ? FLX_U32
                                    : FLX_U64;
    }
    flxi_kfile_name(f, out, name, &inner);
    return end + is_half;
}

/* "1exp" after a %: declared once, as a function of one or two doubles. */
static size_t add_library_call(flxi_kfile *f, flxi_strbuf *out, const char *at)
{
    size_t n = word_length(at);
    char name[40];
    if (n < 2 || n >= sizeof name) {
        f->failed = true;
        return n;
    }
    memcpy(name, at, n);
    name[n] = 0;
    flxi_add_text(out, name + 1);
    if (f->plain || flxi_is_interned(&f->written, name))
        return n;
    if (!flxi_intern(&f->written, name, n))
        f->failed = true;
    flxi_addf(&f->functions, "double %s(double%s);\n", name + 1, name[0] == '2' ? ", double" : "");
    return n;
}

void flxi_kfile_expand(flxi_kfile *f, flxi_strbuf *out, const char *text, const flxi_ksubject *s)
{
    while (*text && !f->failed) {
        size_t plain = strcspn(text, "$@%");
        flxi_add_bytes(out, text, plain);
        text += plain;
        if (*text == '$' && text[1]) {
            add_code(f, out, text[1], s);
            text += 2;
        } else if (*text == '@') {
            text += 1 + add_call(f, out, text + 1, s);
        } else if (*text == '%' && (text[1] == '1' || text[1] == '2') && word_length(text + 1) > 1) {
            text += 1 + add_library_call(f, out, text + 1);
        } else if (*text) {
            flxi_add_char(out, *text++); /* a literal percent sign */
        }
    }
}
