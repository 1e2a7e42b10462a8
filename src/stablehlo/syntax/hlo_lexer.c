/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_lexer.c: see hlo_parser.h. Space, words, strings and errors. A line ends in space or in a comment and nowhere
   else, so lines are counted there and a location costs a subtraction. */
#include "stablehlo/syntax/hlo_parser.h"

#include <stdio.h>

/* ---- Errors ---- */

hlo_location flxi_hlop_position(hlo_parser *p)
{
    flxi_hlop_skip_space(p);
    return (hlo_location){p->c.line, (uint32_t)(p->c.at - p->c.line_start) + 1};
}

void flxi_hlo_locate(flx_error *err, const char *file, hlo_location at)
{
    if (at.line)
        flxi_at(err, "%.80s:%u:%u", file, at.line, at.column);
    else
        flxi_at(err, "%.80s:%u", file, at.column);
}

flx_code flxi_hlop_fail_at(hlo_parser *p, hlo_location at, flx_code code, const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    flx_code failed = flxi_fail_va(p->err, code, hint, fmt, args);
    va_end(args);
    for (char *s = p->err ? p->err->message : NULL; s && *s; s++) /* names may hold anything when they are quoted */
        if ((unsigned char)*s < 32 || *s == 127)
            *s = '?';
    flxi_hlo_locate(p->err, p->file, at);
    return failed;
}

flx_code flxi_hlop_oom(hlo_parser *p)
{
    return flxi_oom(p->err, "a StableHLO program");
}

flx_code flxi_hlop_expected(hlo_parser *p, const char *what)
{
    hlo_location at = flxi_hlop_position(p);
    if (p->c.at == p->end)
        return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "expected %s, found the end of the text", what);
    size_t left = (size_t)(p->end - p->c.at);
    hlo_span word = flxi_hlop_peek_word(p);
    size_t n = word.length ? word.length : 1;
    n = n > 40 ? 40 : n;
    char found[48];
    flxi_printable(found, sizeof found, p->c.at, n < left ? n : left);
    return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "expected %s, found '%s'", what, found);
}

void *flxi_hlop_take(hlo_parser *p, const void *items, size_t count, size_t size)
{
    void *kept = flxi_arena_copy(p->arena, items, count, size, _Alignof(max_align_t));
    if (!kept)
        flxi_hlop_oom(p);
    return kept;
}

/* ---- Space ---- */

static void new_line(hlo_parser *p, const char *behind)
{
    p->c.line++;
    p->c.line_start = behind;
}

void flxi_hlop_skip_space(hlo_parser *p)
{
    const char *s = p->c.at;
    const char *end = p->end;
    for (;; s++) {
        if (s < end && (*s == ' ' || *s == '\t' || *s == '\r'))
            continue;
        if (s < end && *s == '\n') {
            new_line(p, s + 1);
            continue;
        }
        if (s + 1 < end && s[0] == '/' && s[1] == '/') {
            const char *line_end = memchr(s, '\n', (size_t)(end - s));
            s = (line_end ? line_end : end) - 1;
            continue;
        }
        break;
    }
    p->c.at = s;
}

char flxi_hlop_peek(hlo_parser *p)
{
    flxi_hlop_skip_space(p);
    return p->c.at < p->end ? *p->c.at : 0;
}

bool flxi_hlop_eat(hlo_parser *p, const char *punctuation)
{
    flxi_hlop_skip_space(p);
    size_t left = (size_t)(p->end - p->c.at);
    size_t n = 0;
    for (; punctuation[n]; n++)
        if (n >= left || p->c.at[n] != punctuation[n])
            return false;
    p->c.at += n;
    return true;
}

flx_code flxi_hlop_expect(hlo_parser *p, const char *punctuation)
{
    if (flxi_hlop_eat(p, punctuation))
        return FLX_OK;
    char what[16];
    snprintf(what, sizeof what, "'%s'", punctuation);
    return flxi_hlop_expected(p, what);
}

/* ---- Words ---- */

enum { letter = 1, digit = 2, dot = 4, dash = 8 };

static unsigned class_of(char c)
{
    unsigned char low = (unsigned char)(c | 32);
    if ((low >= 'a' && low <= 'z') || c == '_')
        return letter;
    if (c >= '0' && c <= '9')
        return digit;
    if (c == '.' || c == '$')
        return dot;
    return c == '-' ? dash : 0;
}

hlo_span flxi_hlop_peek_word(hlo_parser *p)
{
    flxi_hlop_skip_space(p);
    const char *s = p->c.at;
    if (s < p->end && class_of(*s) == letter)
        for (s++; s < p->end && class_of(*s) & (letter | digit | dot); s++)
            ;
    return (hlo_span){p->c.at, (size_t)(s - p->c.at)};
}

hlo_span flxi_hlop_word(hlo_parser *p)
{
    hlo_span word = flxi_hlop_peek_word(p);
    p->c.at += word.length;
    return word;
}

hlo_span flxi_hlop_suffix(hlo_parser *p)
{
    const char *start = p->c.at;
    const char *s = start;
    if (s < p->end && class_of(*s) == digit) {
        for (; s < p->end && class_of(*s) == digit; s++)
            ;
    } else {
        for (; s < p->end && class_of(*s); s++)
            if (*s == '-' && s + 1 < p->end && s[1] == '>')
                break;
    }
    p->c.at = s;
    return (hlo_span){start, (size_t)(s - start)};
}

bool flxi_hlop_is(hlo_span s, const char *text)
{
    return s.length == strlen(text) && memcmp(s.at, text, s.length) == 0;
}

bool flxi_hlop_at_word(hlo_parser *p, const char *word)
{
    return flxi_hlop_is(flxi_hlop_peek_word(p), word);
}

bool flxi_hlop_eat_word(hlo_parser *p, const char *word)
{
    hlo_span next = flxi_hlop_peek_word(p);
    if (!flxi_hlop_is(next, word))
        return false;
    p->c.at += next.length;
    return true;
}

flx_code flxi_hlop_expect_word(hlo_parser *p, const char *word)
{
    if (flxi_hlop_eat_word(p, word))
        return FLX_OK;
    char what[48];
    snprintf(what, sizeof what, "'%.40s'", word);
    return flxi_hlop_expected(p, what);
}

const char *flxi_hlop_keep(hlo_parser *p, hlo_span s)
{
    const char *text = flxi_intern(&p->names, s.at, s.length);
    if (!text)
        flxi_hlop_oom(p);
    return text;
}

/* ---- Strings ---- */

flx_code flxi_hlop_raw_string(hlo_parser *p, hlo_span *out)
{
    hlo_location at = flxi_hlop_position(p);
    if (!flxi_hlop_eat(p, "\""))
        return flxi_hlop_expected(p, "a string");
    const char *start = p->c.at;
    const char *s = start;
    for (;;) {
        const char *quote = memchr(s, '"', (size_t)(p->end - s));
        if (!quote || memchr(s, '\n', (size_t)(quote - s)))
            return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "the string does not end on its line");
        const char *escape = memchr(s, '\\', (size_t)(quote - s));
        if (!escape) {
            *out = (hlo_span){start, (size_t)(quote - start)};
            p->c.at = quote + 1;
            return FLX_OK;
        }
        s = escape + 2; /* at most one past the quote, which is inside the text or its end */
        if (s > p->end)
            s = p->end;
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The character that the escape after a backslash represents, and how many characters it takes; 0: not an escape. */
static size_t read_escape(const char *s, size_t n, char *out)
{
    static const char letters[] = "\"\\nt";
    static const char meanings[] = "\"\\\n\t";
    const char *found = n && s[0] ? strchr(letters, s[0]) : NULL;
    if (found) {
        *out = meanings[found - letters];
        return 1;
    }
    if (n < 2 || hex_digit(s[0]) < 0 || hex_digit(s[1]) < 0)
        return 0;
    *out = (char)(hex_digit(s[0]) * 16 + hex_digit(s[1]));
    return 2;
}

flx_code flxi_hlop_string(hlo_parser *p, hlo_span *out)
{
    hlo_location at = flxi_hlop_position(p);
    hlo_span raw;
    FLXI_TRY(flxi_hlop_raw_string(p, &raw));
    *out = raw;
    if (!memchr(raw.at, '\\', raw.length))
        return FLX_OK;
    char *text = flxi_arena_text(p->arena, raw.at, raw.length);
    if (!text)
        return flxi_hlop_oom(p);
    size_t n = 0;
    for (size_t i = 0; i < raw.length;) {
        if (raw.at[i] != '\\') {
            text[n++] = raw.at[i++];
            continue;
        }
        size_t used = read_escape(raw.at + i + 1, raw.length - i - 1, &text[n++]);
        if (!used) {
            at.column += (uint32_t)i + 1;
            return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, "known are \\\" \\\\ \\n \\t and two hexadecimal digits",
                                     "unknown escape in a string");
        }
        i += used + 1;
    }
    *out = (hlo_span){text, n};
    return FLX_OK;
}

/* ---- Nesting ---- */

flx_code flxi_hlop_enter(hlo_parser *p)
{
    if (++p->depth <= HLO_MAX_DEPTH)
        return FLX_OK;
    return flxi_hlop_fail_at(p, flxi_hlop_position(p), FLX_E_SIZE, NULL, "nested deeper than %d levels", HLO_MAX_DEPTH);
}

void flxi_hlop_leave(hlo_parser *p)
{
    p->depth--;
}

flx_code flxi_hlop_skip_balanced(hlo_parser *p, char close)
{
    static const char opens[] = "([{<";
    static const char closes[] = ")]}>";
    char open[HLO_MAX_DEPTH];
    size_t n = 0;
    open[n++] = close;
    while (n) {
        char c = flxi_hlop_peek(p);
        if (c == 0) {
            char what[] = {'\'', open[n - 1], '\'', 0};
            return flxi_hlop_expected(p, what);
        }
        if (c == '"') {
            hlo_span ignored;
            FLXI_TRY(flxi_hlop_raw_string(p, &ignored));
            continue;
        }
        if (flxi_hlop_eat(p, "->"))
            continue;
        const char *opened = strchr(opens, c);
        if (opened) {
            if (n == HLO_MAX_DEPTH)
                return flxi_hlop_fail_at(p, flxi_hlop_position(p), FLX_E_SIZE, NULL, "nested deeper than %d levels",
                                         HLO_MAX_DEPTH);
            open[n++] = closes[opened - opens];
        } else if (c == open[n - 1]) {
            n--;
        } else if (strchr(closes, c)) {
            char what[] = {'\'', open[n - 1], '\'', 0};
            return flxi_hlop_expected(p, what);
        }
        p->c.at++;
    }
    return FLX_OK;
}

flx_code flxi_hlop_skip_location(hlo_parser *p)
{
    if (!flxi_hlop_eat_word(p, "loc"))
        return FLX_OK;
    FLXI_TRY(flxi_hlop_expect(p, "("));
    return flxi_hlop_skip_balanced(p, ')');
}

flx_code flxi_hlop_location(hlo_parser *p, const char **name, hlo_span *alias)
{
    *name = NULL;
    *alias = (hlo_span){0};
    if (!flxi_hlop_eat_word(p, "loc"))
        return FLX_OK;
    FLXI_TRY(flxi_hlop_expect(p, "("));
    if (flxi_hlop_peek(p) == '"') {
        hlo_span text;
        FLXI_TRY(flxi_hlop_string(p, &text));
        bool is_file = flxi_hlop_peek(p) == ':'; /* "file.py":1:2 */
        if (!is_file && !(*name = flxi_hlop_keep(p, text)))
            return FLX_E_OOM;
    } else if (flxi_hlop_eat(p, "#")) {
        *alias = flxi_hlop_suffix(p);
    }
    return flxi_hlop_skip_balanced(p, ')');
}
