/* SPDX-License-Identifier: Apache-2.0 */
/* token_mutator.h: changes text token by token, so that most results get past the lexer and many past the parser:
   tokens are dropped, doubled, swapped, replaced by others of their kind; ops become other ops; statements that call a
   random op on names of the text are inserted. */
#ifndef FLX_FUZZ_TOKEN_MUTATOR_H
#define FLX_FUZZ_TOKEN_MUTATOR_H

#include "graph/op/op.h"
#include "graph/text/lex.h"
#include "ops/opcode.h"

#include <stdio.h>
#include <string.h>

enum { MAX_TOKENS = 2000 };

typedef struct {
    flxi_token tokens[MAX_TOKENS];
    size_t n;
    uint64_t random;
} token_text;

static inline size_t below(token_text *t, size_t n)
{
    t->random = t->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return n ? (size_t)(t->random >> 33) % n : 0;
}

static inline void read_tokens(token_text *t, const char *text, size_t size)
{
    flxi_lexer x;
    t->n = 0;
    for (flxi_lex_start(&x, text, text + size, text); x.token.kind != TOKEN_END && t->n < MAX_TOKENS; flxi_lex_next(&x))
        t->tokens[t->n++] = x.token;
}

static inline flxi_token token_of(const char *s)
{
    flxi_lexer x;
    flxi_lex_start(&x, s, s + strlen(s), s);
    return x.token;
}

static inline flxi_token any_token(token_text *t)
{
    static const char *const some[] = {"0",
                                       "1",
                                       "-",
                                       "2",
                                       "0.5",
                                       "inf",
                                       "nan",
                                       "true",
                                       "none",
                                       "N",
                                       "f32",
                                       "i32",
                                       "bool",
                                       "c64",
                                       "f16",
                                       "u8",
                                       "[",
                                       "]",
                                       "(",
                                       ")",
                                       ",",
                                       "=",
                                       ":",
                                       "@",
                                       "*",
                                       "/",
                                       "//",
                                       "+",
                                       "return",
                                       "pin",
                                       "_",
                                       "param",
                                       "~",
                                       "he_normal",
                                       "constant",
                                       "\"\"",
                                       "\"00\"",
                                       "axis",
                                       "axes",
                                       "shape",
                                       "4",
                                       "4611686018427387904",
                                       "9007199254740993",
                                       "1e30",
                                       "0x1p-149",
                                       "out0",
                                       "a_2"};
    if (t->n && below(t, 3))
        return t->tokens[below(t, t->n)];
    if (below(t, 4) == 0)
        return token_of(flxi_ops[1 + below(t, OP_COUNT - 1)].name);
    return token_of(some[below(t, sizeof some / sizeof some[0])]);
}

static inline void insert_token(token_text *t, size_t at, flxi_token token)
{
    if (t->n == MAX_TOKENS)
        return;
    memmove(&t->tokens[at + 1], &t->tokens[at], (t->n - at) * sizeof token);
    t->tokens[at] = token;
    t->n++;
}

static inline void remove_token(token_text *t, size_t at)
{
    memmove(&t->tokens[at], &t->tokens[at + 1], (t->n - at - 1) * sizeof t->tokens[0]);
    t->n--;
}

/* Another token of the same kind. */
static inline flxi_token like(token_text *t, flxi_token token)
{
    for (int i = 0; i < 20; i++) {
        flxi_token other = any_token(t);
        if (other.kind == token.kind)
            return other;
    }
    return token;
}

/* `NAME = op(NAME, ..., key=...)` before a statement or the return; the name is one that ends in the count of
   tokens. */
static inline void insert_call(token_text *t, size_t at)
{
    static char names[8][24];
    static unsigned count;
    const flxi_op *op = &flxi_ops[1 + below(t, OP_COUNT - 1)];
    const flxi_operands *o = flxi_operands_of(op);
    char *name = names[count++ % 8];
    snprintf(name, sizeof names[0], "z%u", (unsigned)below(t, 1000));
    insert_token(t, at++, token_of(name));
    insert_token(t, at++, token_of("="));
    insert_token(t, at++, token_of(op->name));
    insert_token(t, at++, token_of("("));
    int operands = o->required + (o->variadic ? (int)below(t, 3) : 0);
    for (int i = 0; i < operands; i++) {
        insert_token(t, at++, below(t, 5) ? like(t, token_of("x")) : token_of("1"));
        insert_token(t, at++, token_of(","));
    }
    for (const flxi_attr *a = op->rules->schema; a && a->name; a++)
        if ((a->flags & ATTR_REQUIRED) || below(t, 4) == 0) {
            insert_token(t, at++, token_of(a->name));
            insert_token(t, at++, token_of("="));
            bool list = a->kind == ATTR_INTS || a->kind == ATTR_DIMS || a->kind == ATTR_PAIRS;
            if (list)
                insert_token(t, at++, token_of("["));
            insert_token(t, at++, a->words ? token_of(a->words) : any_token(t));
            if (list)
                insert_token(t, at++, token_of("]"));
            insert_token(t, at++, token_of(","));
        }
    insert_token(t, at, token_of(")"));
}

/* A position where a statement may begin: after a { or before a NAME that = follows. */
static inline size_t statement(token_text *t)
{
    for (int i = 0; i < 50 && t->n > 2; i++) {
        size_t at = 1 + below(t, t->n - 1);
        if (flxi_is_mark(&t->tokens[at - 1], '{') || flxi_is_word(&t->tokens[at], "return") ||
            (at + 1 < t->n && t->tokens[at].kind == TOKEN_NAME && flxi_is_mark(&t->tokens[at + 1], '=') &&
             flxi_is_mark(&t->tokens[at - 1], ')')))
            return at;
    }
    return t->n;
}

static inline void change_tokens(token_text *t)
{
    size_t at = below(t, t->n);
    size_t other = below(t, t->n);
    switch (below(t, 8)) {
    case 0: remove_token(t, at); break;
    case 1: insert_token(t, at, any_token(t)); break;
    case 2: {
        flxi_token swap = t->tokens[at];
        t->tokens[at] = t->tokens[other];
        t->tokens[other] = swap;
        break;
    }
    case 3:
    case 4: t->tokens[at] = like(t, t->tokens[at]); break;
    case 5: t->tokens[at] = any_token(t); break;
    default: insert_call(t, statement(t)); break;
    }
}

/* Writes the tokens with blanks between them; as many as fit. */
static inline size_t write_tokens(const token_text *t, char *out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n && n + t->tokens[i].n + 1 <= room; i++) {
        memcpy(out + n, t->tokens[i].s, t->tokens[i].n);
        n += t->tokens[i].n;
        out[n++] = ' ';
    }
    return n;
}

#endif
