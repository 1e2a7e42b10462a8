/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_lex.c: see kernel_lex.h. Bytes are classified by hand, so the locale does not matter and any byte is legal
   input. A number ends before `..`, so that 0..4 is a range. */
#include "kernel/text/kernel_lex.h"

#include "base/number.h"
#include "kernel/program/kernel.h"
#include "kernel/program/kernel_scalar.h"

#include <math.h>

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_digit_of(char c, bool is_hex)
{
    return is_hex ? hex_digit(c) >= 0 : is_digit(c);
}

/* ---- Tokens ---- */

/* Skips blanks and comments; stops at the start of an unterminated comment. */
static const char *skip_blanks(const char *p, const char *end)
{
    while (p < end) {
        if (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r') {
            p++;
        } else if (*p == '#' || (*p == '/' && p + 1 < end && p[1] == '/')) {
            const char *line_end = memchr(p, '\n', (size_t)(end - p));
            p = line_end ? line_end : end;
        } else if (*p == '/' && p + 1 < end && p[1] == '*') {
            const char *q = p + 2;
            while (q + 1 < end && !(q[0] == '*' && q[1] == '/'))
                q++;
            if (q + 1 >= end)
                return p;
            p = q + 2;
        } else {
            return p;
        }
    }
    return p;
}

/* The end of the numeral at s, without its suffix. */
static const char *numeral_end(const char *s, const char *end)
{
    bool is_hex = end - s > 1 && s[0] == '0' && (s[1] | 32) == 'x';
    const char *p = is_hex ? s + 2 : s;
    while (p < end && is_digit_of(*p, is_hex))
        p++;
    if (p < end && *p == '.' && !(p + 1 < end && p[1] == '.')) {
        p++;
        while (p < end && is_digit_of(*p, is_hex))
            p++;
    }
    if (p < end && (*p | 32) == (is_hex ? 'p' : 'e')) {
        const char *q = p + 1;
        if (q < end && (*q == '+' || *q == '-'))
            q++;
        if (q < end && is_digit(*q)) {
            while (q < end && is_digit(*q))
                q++;
            p = q;
        }
    }
    return p;
}

static const char *word_end(const char *p, const char *end)
{
    while (p < end && (is_letter(*p) || is_digit(*p)))
        p++;
    return p;
}

static const char *string_end(const char *s, const char *end)
{
    for (const char *p = s + 1; p < end && *p != '\n' && *p != 0; p++) {
        if (*p == '"')
            return p + 1;
        if (*p == '\\' && p + 1 < end && p[1] != '\n' && p[1] != 0)
            p++;
    }
    return NULL;
}

static uint32_t mark_at(const char *s, const char *end)
{
    static const char pairs[][3] = {"==", "!=", "<=", ">=", "<<", ">>", "&&", "||", "->", ".."};
    for (size_t i = 0; s + 1 < end && i < sizeof pairs / sizeof pairs[0]; i++)
        if (s[0] == pairs[i][0] && s[1] == pairs[i][1])
            return FLXI_MARK(s[0], s[1]);
    return *s && strchr("(){}[],;:=@.+-*/%&|^~!<>", *s) ? FLXI_MARK(*s, 0) : 0;
}

static flxi_ktoken token_at(const char *s, const char *end)
{
    flxi_ktoken t = {.kind = KT_END, .s = s};
    const char *p = s;
    if (s == end)
        return t;
    if (is_letter(*s)) {
        t.kind = KT_NAME;
        p = word_end(s, end);
    } else if (is_digit(*s) || (*s == '.' && s + 1 < end && is_digit(s[1]))) {
        t.kind = KT_NUMBER;
        p = word_end(numeral_end(s, end), end);
    } else if (*s == '"') {
        p = string_end(s, end);
        t.kind = p ? KT_STRING : KT_BAD;
        p = p ? p : s + 1;
    } else if (*s == '/' && s + 1 < end && s[1] == '*') {
        t.kind = KT_BAD;
        p = s + 2;
    } else {
        t.mark = mark_at(s, end);
        t.kind = t.mark ? KT_MARK : KT_BAD;
        p = s + (t.mark >> 8 ? 2 : 1);
    }
    t.n = (size_t)(p - s);
    return t;
}

void flxi_klex_next(flxi_klexer *x)
{
    x->token = x->ahead;
    if (x->token.kind == KT_BAD)
        return; /* the rest is not read: the text is rejected here */
    x->ahead = token_at(skip_blanks(x->at, x->end), x->end);
    x->at = x->ahead.s + x->ahead.n;
}

void flxi_klex_start(flxi_klexer *x, const char *text, const char *end, const char *at)
{
    *x = (flxi_klexer){.text = text, .end = end, .at = at};
    x->ahead = token_at(skip_blanks(at, end), end);
    x->at = x->ahead.s + x->ahead.n;
    flxi_klex_next(x);
}

bool flxi_ktoken_is(const flxi_ktoken *t, const char *word)
{
    return t->kind == KT_NAME && strlen(word) == t->n && memcmp(t->s, word, t->n) == 0;
}

void flxi_klex_position(const char *text, const char *at, size_t *line, size_t *column)
{
    const char *start = text;
    *line = 1;
    for (const char *p = text; p < at; p++)
        if (*p == '\n') {
            ++*line;
            start = p + 1;
        }
    *column = (size_t)(at - start) + 1;
}

/* ---- Names and strings ---- */

bool flxi_kname_is_reserved(const char *s, size_t n)
{
    static const char *const words[] = {"let", "if", "else", "for", "return", "true", "false"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == n && memcmp(words[i], s, n) == 0)
            return true;
    return flxi_knumber_is_word(&(flxi_ktoken){.kind = KT_NAME, .s = s, .n = n});
}

bool flxi_kname_is_plain(const char *s, size_t n)
{
    if (n == 0 || !is_letter(*s) || word_end(s, s + n) != s + n)
        return false;
    /* Before `<` these begin a typed call, so they are quoted as names. */
    flxi_ktoken t = {.kind = KT_NAME, .s = s, .n = n};
    return !flxi_ktoken_is(&t, "cast") && !flxi_ktoken_is(&t, "bitcast") && !flxi_ktoken_is(&t, "opaque") &&
           !flxi_kname_is_reserved(s, n);
}

/* The byte that an escape denotes and its length after the backslash; 0 if there is no such escape. */
static size_t read_escape(const char *s, const char *end, char *out)
{
    static const char from[] = "\"\\ntr", to[] = "\"\\\n\t\r";
    const char *found = *s ? strchr(from, *s) : NULL;
    if (found) {
        *out = to[found - from];
        return 1;
    }
    if (*s != 'x' || end - s < 3 || hex_digit(s[1]) < 0 || hex_digit(s[2]) < 0)
        return 0;
    int value = hex_digit(s[1]) * 16 + hex_digit(s[2]);
    *out = (char)(unsigned char)value;
    return value ? 3 : 0;
}

size_t flxi_kstring_read(const flxi_ktoken *t, char *out, const char **bad)
{
    size_t n = 0;
    const char *end = t->s + t->n - 1;
    for (const char *p = t->s + 1; p < end;) {
        if (*p != '\\') {
            out[n++] = *p++;
            continue;
        }
        size_t length = read_escape(p + 1, end, &out[n]);
        if (!length) {
            *bad = p;
            return SIZE_MAX;
        }
        n++;
        p += 1 + length;
    }
    return n;
}

const char *const flxi_kernel_flag_words[FLXI_KERNEL_FLAG_WORDS] = {"flush", "contract", "reassociate", "reciprocal"};
const char *const flxi_kbuffer_flag_words[FLXI_KBUFFER_FLAG_WORDS] = {"output", "live_out", "distinct", "stop_gradient",
                                                                      "exclusive"};
const char *const flxi_kregion_flag_words[FLXI_KREGION_FLAG_WORDS] = {"once", "stop_gradient", "recompute", "record"};
const char *const flxi_kusage_words[FLXI_KUSAGE_WORDS] = {"any", "at_most_once", "at_least_once", "exactly_once"};

/* ---- Literals ---- */

bool flxi_knumber_is_word(const flxi_ktoken *t)
{
    if (t->kind != KT_NAME || t->n < 3 || (memcmp(t->s, "inf", 3) != 0 && memcmp(t->s, "nan", 3) != 0))
        return false;
    uint32_t type = flxi_ktype_find(t->s + 3, t->n - 3);
    return t->n == 3 || (flxi_ktype_is_float(type) && !flxi_ktype_of(type)->storage);
}

const char *flxi_knumber_read(const flxi_ktoken *t, flxi_knumber *out)
{
    bool word = t->kind == KT_NAME;
    const char *end = word ? t->s + 3 : numeral_end(t->s, t->s + t->n);
    *out = (flxi_knumber){.s = t->s, .n = (size_t)(end - t->s), .real = word};
    out->hex = !word && out->n > 1 && (t->s[1] | 32) == 'x';
    bool exponent = false;
    for (const char *p = t->s; !word && p < end; p++) {
        exponent = exponent || (*p | 32) == (out->hex ? 'p' : 'e');
        out->real = out->real || exponent || *p == '.';
    }
    if (out->hex && (out->n < 3 || (out->real && !exponent)))
        return out->n < 3 ? "a hexadecimal number without digits"
                          : "a hexadecimal real needs its exponent, as in 0x1.8p3";
    size_t suffix = t->n - out->n;
    if (suffix) {
        out->type = (uint8_t)flxi_ktype_find(end, suffix);
        const flxi_ktype *type = flxi_ktype_of(out->type);
        if (!type->name || type->storage || out->type == FLX_BOOL)
            return "not a number: the suffix must be a type, as in 2.0f64 or 3i32";
        if (out->real && !flxi_ktype_is_float(out->type))
            return "a real number cannot have an integer's type";
    }
    double value;
    return flxi_read_double(out->s, out->n, &value) ? NULL : "not a number";
}

bool flxi_knumber_u64(const flxi_knumber *number, uint64_t *out)
{
    uint64_t v = 0;
    if (number->real)
        return false;
    for (size_t i = number->hex ? 2 : 0; i < number->n; i++)
        if (__builtin_mul_overflow(v, number->hex ? 16u : 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)hex_digit(number->s[i]), &v))
            return false;
    *out = v;
    return true;
}

static bool integer_bits(const flxi_knumber *number, uint32_t type, uint64_t *bits)
{
    uint64_t v;
    const flxi_ktype *t = flxi_ktype_of(type);
    uint64_t top = UINT64_C(1) << (t->bits - 1);
    if (!flxi_knumber_u64(number, &v))
        return false;
    uint64_t most = t->kind == TAKES_SIGNED ? (number->negative ? top : top - 1)
                    : number->negative      ? 0
                                            : 2 * (top - 1) + 1;
    *bits = number->negative ? 0 - v : v;
    return v <= most;
}

uint64_t flxi_kfloat_nan(uint32_t type)
{
    switch (type) {
    case FLX_F16: return 0x7e00;
    case FLX_BF16: return 0x7fc0;
    case FLX_F32: return 0x7fc00000;
    default: return UINT64_C(0x7ff8000000000000);
    }
}

bool flxi_knumber_bits(const flxi_knumber *number, uint32_t type, uint64_t *bits)
{
    uint8_t width = flxi_ktype_of(type)->bits;
    uint64_t sign = number->negative ? UINT64_C(1) << (width - 1) : 0;
    double value;
    if (!flxi_ktype_is_float(type))
        return type != FLX_BOOL && integer_bits(number, type, bits);
    if (number->exact) {
        if (!flxi_knumber_u64(number, bits) || (width < 64 && *bits >> width))
            return false;
        *bits ^= sign;
        return isnan(flxi_kscalar_to_double(type, *bits));
    }
    if (!flxi_read_double(number->s, number->n, &value))
        return false;
    bool infinite = *number->s == 'i';
    *bits = (isnan(value) ? flxi_kfloat_nan(type) : flxi_kscalar_from_double(type, value)) | sign;
    return infinite || !isinf(flxi_kscalar_to_double(type, *bits));
}
