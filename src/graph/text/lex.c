/* SPDX-License-Identifier: Apache-2.0 */
/* lex.c: see lex.h. Bytes are classified by hand, so the locale has no effect and any byte is legal input. */
#include "graph/text/lex.h"

#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_mark_char(char c)
{
    switch (c) {
    case '(':
    case ')':
    case '{':
    case '}':
    case '[':
    case ']':
    case ',':
    case ':':
    case '=':
    case '~':
    case '@':
    case '*':
    case '/':
    case '+':
    case '-': return true;
    default: return false;
    }
}

static void skip_blanks(flxi_lexer *x)
{
    while (x->at < x->end) {
        char c = *x->at;
        if (c == '#') {
            const char *line_end = memchr(x->at, '\n', (size_t)(x->end - x->at));
            x->at = line_end ? line_end : x->end;
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            x->at++;
        } else {
            return;
        }
    }
}

/* A sign belongs to the number only after an exponent letter: 1e-3, 0x1p+4. */
static const char *number_end(const char *s, const char *end)
{
    bool is_hex = end - s > 1 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
    const char *p = s;
    while (p < end) {
        char c = *p;
        bool exponent = p > s && (is_hex ? (p[-1] == 'p' || p[-1] == 'P') : (p[-1] == 'e' || p[-1] == 'E'));
        if (!is_letter(c) && !is_digit(c) && c != '.' && !((c == '+' || c == '-') && exponent))
            break;
        p++;
    }
    return p;
}

static const char *string_end(const char *s, const char *end)
{
    for (const char *p = s + 1; p < end && *p != '\n'; p++) {
        if (*p == '"')
            return p + 1;
        if (*p == '\\' && p + 1 < end && p[1] != '\n')
            p++;
    }
    return NULL;
}

void flxi_lex_next(flxi_lexer *x)
{
    skip_blanks(x);
    const char *s = x->at;
    const char *p = s;
    flxi_token_kind kind = TOKEN_END;
    if (s < x->end) {
        if (is_letter(*s)) {
            kind = TOKEN_NAME;
            while (p < x->end && (is_letter(*p) || is_digit(*p) || *p == '.'))
                p++;
        } else if (is_digit(*s) || (*s == '.' && s + 1 < x->end && is_digit(s[1]))) {
            kind = TOKEN_NUMBER;
            p = number_end(s, x->end);
        } else if (*s == '"') {
            p = string_end(s, x->end);
            kind = p ? TOKEN_STRING : TOKEN_BAD;
            p = p ? p : s + 1;
        } else if (is_mark_char(*s)) {
            kind = TOKEN_MARK;
            p = *s == '/' && s + 1 < x->end && s[1] == '/' ? s + 2 : s + 1;
        } else {
            kind = TOKEN_BAD;
            p = s + 1;
        }
    }
    x->token = (flxi_token){kind, s, (size_t)(p - s)};
    x->at = p;
}

void flxi_lex_start(flxi_lexer *x, const char *text, const char *end, const char *at)
{
    *x = (flxi_lexer){.text = text, .end = end, .at = at};
    flxi_lex_next(x);
}

bool flxi_is_word(const flxi_token *t, const char *word)
{
    return t->kind == TOKEN_NAME && strlen(word) == t->n && memcmp(t->s, word, t->n) == 0;
}

void flxi_lex_position(const flxi_lexer *x, const char *at, size_t *line, size_t *column)
{
    const char *start = x->text;
    *line = 1;
    for (const char *p = x->text; p < at; p++)
        if (*p == '\n') {
            ++*line;
            start = p + 1;
        }
    *column = (size_t)(at - start) + 1;
}
