/* SPDX-License-Identifier: Apache-2.0 */
/* habits.c: hints for text that follows the habits of other languages: infix operators, indexing, methods, names of
   types, semicolons, declarations. They are looked for only where the text is wrong already. */
#include "graph/text/parse.h"

#include "graph/op/attr_kinds.h"
#include "graph/op/foreign_names.h"

#include <ctype.h>
#include <stdio.h>

enum { LONGEST_SHOWN = 40 };

/* The name that ends before `at`; 0 when there is none, or none that can be a value. */
static size_t value_before(const flxi_reader *r, const char *at, const char **word)
{
    const char *begin = flxi_parse_text(r);
    while (at > begin && (at[-1] == ' ' || at[-1] == '\t'))
        at--;
    const char *end = at;
    while (at > begin && (isalnum((unsigned char)at[-1]) || at[-1] == '_' || at[-1] == '.'))
        at--;
    *word = at;
    size_t n = (size_t)(end - at);
    bool is_value = n && (isdigit((unsigned char)*at) || flxi_is_name(at, n));
    return is_value && n < LONGEST_SHOWN ? n : 0;
}

/* ---- Marks ---- */

/* `a + b`: the current token is the operator. */
static void hint_infix(flxi_reader *r, const char *op, size_t skip)
{
    const char *left;
    size_t n = value_before(r, r->x.token.s, &left);
    flxi_lexer ahead = r->x;
    for (size_t i = 0; i <= skip; i++)
        flxi_lex_next(&ahead);
    bool is_value = ahead.token.kind == TOKEN_NAME || ahead.token.kind == TOKEN_NUMBER;
    bool is_call = is_value && ahead.at < ahead.end && *ahead.at == '(';
    if (n && is_value && ahead.token.n < LONGEST_SHOWN)
        flxi_hint(flxi_parse_error(r), "there are no infix operators: write %s(%.*s, %.*s%s)", op, (int)n, left,
                  (int)ahead.token.n, ahead.token.s, is_call ? "(…)" : "");
}

void flxi_hint_mark(flxi_reader *r)
{
    static const struct {
        char mark;
        const char *op;
    } infix[] = {{'+', "add"}, {'-', "sub"}, {'*', "mul"}, {'/', "div"}, {'@', "matmul"}, {'%', "rem"},
                 {'^', "pow"}, {'<', "lt"},  {'>', "gt"},  {'&', "and"}, {'|', "or"}};
    const char *s = r->x.token.s;
    const char *left;
    size_t n = value_before(r, s, &left);
    char next = s + 1 < r->x.end ? s[1] : 0;
    if (*s == ';')
        flxi_hint(flxi_parse_error(r), "no ';' is needed: a statement ends where the next one begins");
    else if (*s == '[' && n)
        flxi_hint(flxi_parse_error(r),
                  "there is no indexing: write narrow(%.*s, axis=0, start=…, len=1) or gather(%.*s, i)", (int)n, left,
                  (int)n, left);
    else if (*s == '-' && next == '>')
        flxi_hint(flxi_parse_error(r), "results are not declared: return lists them, and their types are inferred");
    else if (*s == '*' && next == '*')
        hint_infix(r, "pow", 1);
    else
        for (size_t i = 0; i < sizeof infix / sizeof *infix; i++)
            if (infix[i].mark == *s)
                hint_infix(r, infix[i].op, 0);
}

void flxi_hint_negative(flxi_reader *r)
{
    const flxi_token *t = &r->x.token;
    bool is_call = r->x.at < r->x.end && *r->x.at == '(';
    if (t->kind == TOKEN_NAME && t->n < LONGEST_SHOWN)
        flxi_hint(flxi_parse_error(r), "write neg(%.*s%s)", (int)t->n, t->s, is_call ? "(…)" : "");
}

/* ---- Words ---- */

static bool is_one_of(const char *words, const char *s, size_t n)
{
    return n && flxi_word_find(words, s, n) >= 0;
}

void flxi_hint_word(flxi_reader *r)
{
    const flxi_token *t = &r->x.token;
    const char *before;
    size_t n = value_before(r, t->s, &before);
    if (is_one_of("let var val auto const", before, n))
        flxi_hint(flxi_parse_error(r), "no '%.*s' is needed: write %.*s = …", (int)n, before,
                  (int)(t->n < LONGEST_SHOWN ? t->n : LONGEST_SHOWN), t->s);
    else if (is_one_of("def fn func function fun import from class", t->s, t->n))
        flxi_hint(flxi_parse_error(r), "a graph is written: graph NAME(x: f32[2, 3]) { y = exp(x)  return y }");
}

/* ---- Values ---- */

/* A name that is not defined: `x.T`, `x.shape`, or a dtype without the name of its attribute. */
void flxi_hint_undefined(flxi_reader *r, const flxi_token *t, const flxi_op *op)
{
    char hint[120], word[LONGEST_SHOWN];
    bool is_method = memchr(t->s, '.', t->n) != NULL;
    if (is_method && flxi_foreign_hint(t->s, t->n, hint, sizeof hint)) {
        flxi_hint(flxi_parse_error(r), "%s", hint);
        return;
    }
    flxi_printable(word, sizeof word, t->s, t->n);
    const char *dtype = flx_dtype_parse(word) ? word : flxi_foreign_dtype(t->s, t->n);
    for (const flxi_attr *a = op ? op->rules->schema : NULL; dtype && a && a->name; a++)
        if (a->kind == ATTR_DTYPE) {
            flxi_hint(flxi_parse_error(r), "attributes are written with their names: %s=%s", a->name, dtype);
            return;
        }
}

/* `@f` or `[…]` where a value is needed: the attribute of the op that it may be meant for. */
void flxi_hint_operand(flxi_reader *r, const flxi_op *op)
{
    flxi_lexer ahead = r->x;
    bool is_graph = flxi_is_mark(&ahead.token, '@');
    flxi_lex_next(&ahead);
    flxi_token name = ahead.token;
    flxi_lex_next(&ahead);
    if (is_graph && (name.kind != TOKEN_NAME || name.n >= LONGEST_SHOWN))
        return;
    flx_error *err = flxi_parse_error(r);
    bool is_kernel = is_graph && flxi_what_is(r, &name) == NAMED_KERNEL;
    if (is_graph && (!op || flxi_is_mark(&ahead.token, '('))) {
        flxi_hint(err, is_kernel ? "write kernel_call(…, kernel=@%.*s, grid=[…])" : "write call(…, body=@%.*s)",
                  (int)name.n, name.s);
        return;
    }
    for (const flxi_attr *a = op ? op->rules->schema : NULL; a && a->name; a++) {
        if (is_graph && (a->kind == ATTR_GRAPH || (a->flags & ATTR_KERNEL))) {
            flxi_hint(err, "attributes are written with their names: %s=@%.*s", a->name, (int)name.n, name.s);
            return;
        }
        if (!is_graph && flxi_attr_is_list(a->kind)) {
            flxi_hint(err, "attributes are written with their names: %s=[…]", a->name);
            return;
        }
    }
}

/* ---- Types ---- */

void flxi_hint_type(flxi_reader *r)
{
    const flxi_token *t = &r->x.token;
    const char *dtype = t->kind == TOKEN_NAME ? flxi_foreign_dtype(t->s, t->n) : NULL;
    if (dtype)
        flxi_hint(flxi_parse_error(r),
                  "write %s[…]; dtypes: f64 f32 f16 bf16 c64 c128 i64 i32 i16 i8 u64 u32 u16 u8 bool", dtype);
    else
        flxi_hint(flxi_parse_error(r), "dtypes: f64 f32 f16 bf16 c64 c128 i64 i32 i16 i8 u64 u32 u16 u8 bool");
}
