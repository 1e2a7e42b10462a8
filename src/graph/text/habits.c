/* SPDX-License-Identifier: Apache-2.0 */
/* habits.c: hints for text that follows the habits of other languages: infix operators, indexing, methods, names of
   types, semicolons, declarations, control flow. They are looked for only where the text is wrong already. */
#include "graph/text/parse.h"

#include "graph/op/attr_kinds.h"
#include "graph/op/foreign_names.h"
#include "graph/text/typo.h"

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

/* Operators of two marks, the longer ones of the table below first; and what begins a comment elsewhere. */
static bool hint_pair(flxi_reader *r)
{
    static const struct {
        const char *pair, *op;
    } pairs[] = {{"**", "pow"}, {"==", "eq"},  {"!=", "ne"},        {"<=", "le"}, {">=", "ge"},
                 {"<<", "shl"}, {"&&", "and"}, {">>", "shr_arith"}, {"||", "or"}};
    const char *s = r->x.token.s;
    if (s + 1 >= r->x.end)
        return false;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (memcmp(pairs[i].pair, s, 2) == 0) {
            hint_infix(r, pairs[i].op, 1);
            return true;
        }
    bool is_comment = *s == '/' && (s[1] == '/' || s[1] == '*');
    if (is_comment)
        flxi_hint(flxi_parse_error(r), "a comment begins with #; a rounded quotient is floor(div(a, b))");
    return is_comment;
}

/* `y += x`: the current token is the operator; `op` is what it means. */
static void hint_update(flxi_reader *r, const char *op)
{
    const char *left;
    size_t n = value_before(r, r->x.token.s, &left);
    if (n)
        flxi_hint(flxi_parse_error(r), "a value does not change: give the new one a name of its own, z = %s(%.*s, …)",
                  op, (int)n, left);
}

static void hint_operator(flxi_reader *r, char next)
{
    static const struct {
        char mark;
        const char *op;
    } infix[] = {{'+', "add"}, {'-', "sub"}, {'*', "mul"}, {'/', "div"}, {'@', "matmul"}, {'%', "rem"},
                 {'^', "pow"}, {'<', "lt"},  {'>', "gt"},  {'&', "and"}, {'|', "or"}};
    for (size_t i = 0; i < sizeof infix / sizeof *infix; i++) {
        if (infix[i].mark == *r->x.token.s && next == '=')
            hint_update(r, infix[i].op);
        else if (infix[i].mark == *r->x.token.s)
            hint_infix(r, infix[i].op, 0);
    }
}

void flxi_hint_mark(flxi_reader *r)
{
    const char *s = r->x.token.s;
    const char *left;
    size_t n = value_before(r, s, &left);
    char next = s + 1 < r->x.end ? s[1] : 0;
    if (*s == ';')
        flxi_hint(flxi_parse_error(r), "no ';' is needed: a statement ends where the next one begins");
    else if (*s == '?')
        flxi_hint(flxi_parse_error(r), "write where(c, a, b) for c ? a : b");
    else if (*s == '!' && next != '=')
        flxi_hint(flxi_parse_error(r), "write not(…)");
    else if (*s == '[' && n)
        flxi_hint(flxi_parse_error(r),
                  "there is no indexing: write narrow(%.*s, axis=0, start=…, len=1) or gather(%.*s, i)", (int)n, left,
                  (int)n, left);
    else if (*s == '-' && next == '>')
        flxi_hint(flxi_parse_error(r), "results are not declared: return lists them, and their types are inferred");
    else if (!hint_pair(r))
        hint_operator(r, next);
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

const char *flxi_control_hint(const flxi_token *t)
{
    static const struct {
        const char *words, *hint;
    } rows[] = {
        {"if else elif unless", "write where(c, a, b), or if(c, x, then=@f, else=@g) with graphs as branches"},
        {"switch match case", "write case(i, x, branches=[@f, @g]) with graphs as branches"},
        {"for foreach loop repeat", "write scan(x, body=@f, length=…) with a graph as body, or while(…)"},
        {"while do until", "write while(x, cond=@c, body=@b) with graphs as condition and body"},
    };
    for (size_t i = 0; t->kind == TOKEN_NAME && i < sizeof rows / sizeof *rows; i++)
        if (is_one_of(rows[i].words, t->s, t->n))
            return rows[i].hint;
    return NULL;
}

void flxi_hint_statement(flxi_reader *r, const flxi_token *name)
{
    const flxi_token *t = &r->x.token;
    flx_error *err = flxi_parse_error(r);
    const char *control = flxi_control_hint(name);
    int shown = (int)(name->n < LONGEST_SHOWN ? name->n : LONGEST_SHOWN);
    if (control)
        flxi_hint(err, "%s", control);
    else if (flxi_is_mark(t, '('))
        flxi_hint(err, "a statement gives its results names: y = %.*s(…)", shown, name->s);
    else if (flxi_is_mark(t, ':'))
        flxi_hint(err, "types of results are inferred: write %.*s = …", shown, name->s);
    else if (t->kind == TOKEN_NAME && flxi_foreign_dtype(name->s, name->n))
        flxi_hint(err, "types of results are inferred: write %.*s = …",
                  (int)(t->n < LONGEST_SHOWN ? t->n : LONGEST_SHOWN), t->s);
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
    if (flxi_op_lookup(t->s, t->n) != OP_NONE) {
        flxi_hint(flxi_parse_error(r), "it is an op: write %s(…)", word);
        return;
    }
    if (is_one_of("None null NULL nil", t->s, t->n)) {
        flxi_hint(flxi_parse_error(r), "what is optional is left out");
        return;
    }
    flxi_typo typo = flxi_typo_begin(t->s, t->n, t->n / 3);
    for (size_t i = 0; i < r->defined.n; i++)
        flxi_typo_consider(&typo, r->defined.at[i].s, r->defined.at[i].n);
    if (typo.best)
        flxi_hint(flxi_parse_error(r), "did you mean %.*s?", (int)typo.best_n, typo.best);
}

/* `[x, y]`: a list of operands. */
static bool hint_list(flxi_reader *r, const flxi_op *op, const flxi_token *first)
{
    bool is_value = first->kind == TOKEN_NAME && flxi_find_value(r, first->s, first->n);
    bool is_operands = is_value && op && flxi_operands_of(op)->variadic;
    if (is_operands)
        flxi_hint(flxi_parse_error(r), "operands are not in brackets: write %s(%.*s, …)", op->name,
                  (int)(first->n < LONGEST_SHOWN ? first->n : LONGEST_SHOWN), first->s);
    else if (!op)
        flxi_hint(flxi_parse_error(r), "write stack(a, b, axis=0) of values, const(f32[2], [1, 2]) of numbers");
    return is_operands || !op;
}

/* `@f`, `[…]` or `(…)` where a value is needed: the attribute of the op that it may be meant for. */
void flxi_hint_operand(flxi_reader *r, const flxi_op *op)
{
    flxi_lexer ahead = r->x;
    if (flxi_is_mark(&ahead.token, '(')) {
        flxi_hint(flxi_parse_error(r), "write the value without parentheses");
        return;
    }
    bool is_graph = flxi_is_mark(&ahead.token, '@');
    flxi_lex_next(&ahead);
    flxi_token name = ahead.token;
    flxi_lex_next(&ahead);
    if (!is_graph && hint_list(r, op, &name))
        return;
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
