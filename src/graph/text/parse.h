/* SPDX-License-Identifier: Apache-2.0 */
/* parse.h: the parser's state, shared by parse.c (files, graphs, statements), parse_expr.c (expressions) and
   parse_value.c (attributes, dimensions, types, literals). */
#ifndef FLXI_PARSE_H
#define FLXI_PARSE_H

#include "graph/graph.h"
#include "graph/text/lex.h"

typedef struct flxi_parser flxi_parser;

/* The graph being read. Graphs it refers to are read first, each with a reader of its own. */
typedef struct {
    flxi_parser *p;
    flxi_lexer x;
    flx_graph *g;
    flxi_arena scratch; /* of one statement */
    flxi_index scope;   /* names to `defined` */
    FLXI_VEC(struct {
        const char *s;
        size_t n;
        uint32_t id;
    })
    defined;
    int depth; /* of readers waiting for this one */
} flxi_reader;

/* ---- parse.c ---- */

/* Fails at a position of the text; returns the code. */
flx_code flxi_fail_at(flxi_reader *r, const char *at, flx_code code, const char *hint, const char *fmt, ...)
    FLX_PRINTF(5, 6);
/* "expected …, found …" at the current token. */
flx_code flxi_expected(flxi_reader *r, const char *what);
/* Passes on an error of the graph or of a check, with the position in the text. */
flx_code flxi_pass_at(flxi_reader *r, const char *at, const flx_error *err);
flx_code flxi_expect_mark(flxi_reader *r, char c);
/* The graph called s, parsed now if it has not been yet. */
/* What a name is in the file. */
typedef enum { NAMED_NOTHING, NAMED_GRAPH, NAMED_KERNEL } flxi_named;
flxi_named flxi_what_is(flxi_reader *r, const flxi_token *name);
flx_code flxi_find_graph(flxi_reader *r, const flxi_token *name, const flx_graph **out);
/* The text of the kernel called s, in the scratch arena. */
flx_code flxi_find_kernel(flxi_reader *r, const flxi_token *name, const char **out);
/* The value a name stands for, 0 when undefined. */
uint32_t flxi_find_value(const flxi_reader *r, const char *s, size_t n);
flx_error *flxi_parse_error(flxi_reader *r);
const char *flxi_parse_text(const flxi_reader *r); /* the whole text */

/* ---- parse_expr.c ---- */

/* Reads an expression. *first is the id of its first result and *count their number; *is_name: it is a bare name. */
flx_code flxi_parse_expr(flxi_reader *r, const char *label, uint32_t *first, uint32_t *count, bool *is_name);

/* ---- habits.c ---- */

/* Each may replace the hint of the error that was just reported. At the current token, a mark or a word: */
void flxi_hint_mark(flxi_reader *r);
void flxi_hint_word(flxi_reader *r);
/* What to write instead of a word that begins a block elsewhere, as `for`; NULL for other words. */
const char *flxi_control_hint(const flxi_token *t);
/* after the first name of a statement, where '=' is missing, */
void flxi_hint_statement(flxi_reader *r, const flxi_token *name);
/* a name after a minus sign, something else than a type, */
void flxi_hint_negative(flxi_reader *r);
void flxi_hint_type(flxi_reader *r);
/* or an operand of `op`, NULL outside of calls, that is not a value, and a name that is not defined. */
void flxi_hint_operand(flxi_reader *r, const flxi_op *op);
void flxi_hint_undefined(flxi_reader *r, const flxi_token *t, const flxi_op *op);

/* ---- parse_value.c ---- */

flx_code flxi_parse_dim(flxi_reader *r, flx_dim *out);
/* Reads a dimension from its own text, for the binary form. */
flx_code flxi_dim_read(flx_graph *g, const char *text, flx_dim *out, flx_error *err);
flx_code flxi_parse_type(flxi_reader *r, flx_type *out);
/* The value of an attribute of this kind; lists go to the scratch arena. `type` is the one given before, for
   literals. */
flx_code flxi_parse_attr(flxi_reader *r, const flxi_attr *a, const flx_type *type, flx_attr *out);
/* A number with optional sign, true or false: *negative and the token. Advances. */
typedef struct {
    flxi_token token;
    bool negative;
    const char *at; /* where it starts, the sign included */
} flxi_literal;
bool flxi_at_number(const flxi_reader *r);
flx_code flxi_parse_number(flxi_reader *r, flxi_literal *out);
/* Writes the literal as element i of the dtype. */
flx_code flxi_store_literal(flxi_reader *r, const flxi_literal *l, int32_t dtype, void *base, int64_t i);

#endif
