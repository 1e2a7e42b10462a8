/* SPDX-License-Identifier: Apache-2.0 */
/* lex.h: tokens of the text form. */
#ifndef FLXI_LEX_H
#define FLXI_LEX_H

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    TOKEN_END,
    TOKEN_NAME,   /* [A-Za-z_][A-Za-z0-9_.]* */
    TOKEN_NUMBER, /* starts with a digit; its reader checks whether it is well-formed */
    TOKEN_STRING, /* "…" with its quotes; escapes are not resolved */
    TOKEN_MARK,   /* one of ( ) { } [ ] , : = ~ @ * / + - or // */
    TOKEN_BAD     /* anything else, or an unterminated string */
} flxi_token_kind;

typedef struct {
    flxi_token_kind kind;
    const char *s;
    size_t n;
} flxi_token;

typedef struct {
    const char *text;
    const char *end;
    const char *at;
    flxi_token token; /* the current one */
} flxi_lexer;

void flxi_lex_start(flxi_lexer *x, const char *text, const char *end, const char *at);
void flxi_lex_next(flxi_lexer *x);

static inline bool flxi_is_mark(const flxi_token *t, char c)
{
    return t->kind == TOKEN_MARK && t->n == 1 && *t->s == c;
}
bool flxi_is_word(const flxi_token *t, const char *word);

/* Line and column (in bytes) of a position in the text, counted from 1. Linear in the text: for errors only. */
void flxi_lex_position(const flxi_lexer *x, const char *at, size_t *line, size_t *column);

#endif
