/* SPDX-License-Identifier: Apache-2.0 */
/* parse.c: reading a file of graphs and kernels. A first pass finds where each begins; then each kernel is checked and
   each graph is read, and a graph that it refers to by @name is read first. Kernels stay text, which goes to the ops
   that name them; checking them here covers those that no op names, and gives positions in the file. A graph that
   is reached again while it is being read calls itself, which is an error; so the recursion is as deep as graphs nest,
   which FLXI_MAX_NESTING bounds. */
#include "graph/text/parse.h"

#include "graph/initialisation.h"
#include "graph/module.h"
#include "graph/op/foreign_names.h"
#include "graph/text/typo.h"
#include "kernel/text/kernel_parse.h"

#include <fluxion/text.h>
#include <math.h>
#include <stdio.h>

typedef enum { UNREAD, READING, READ } read_state;

typedef struct {
    flxi_token name;
    const char *at; /* after the name */
    read_state state;
    flx_graph *graph;                /* the parser's reference; NULL for a kernel */
    const char *kernel, *kernel_end; /* the text of a kernel; NULL for a graph */
} entry;

struct flxi_parser {
    flx_context *ctx;
    const char *text;
    const char *end;
    const char *file;
    FLXI_VEC(entry) entries;
    flxi_index by_name; /* of entries */
    flx_error *err;
};

/* ---- Errors ---- */

flx_error *flxi_parse_error(flxi_reader *r)
{
    return r->p->err;
}

const char *flxi_parse_text(const flxi_reader *r)
{
    return r->p->text;
}

static void set_position(flxi_parser *p, const char *at)
{
    flxi_lexer x = {.text = p->text, .end = p->end};
    size_t line;
    size_t column;
    char position[48];
    flxi_lex_position(&x, at, &line, &column);
    int n = snprintf(position, sizeof position, ":%zu:%zu", line, column);
    snprintf(p->err->where, sizeof p->err->where, "%.*s%s", (int)sizeof p->err->where - n - 1, p->file, position);
}

flx_code flxi_fail_at(flxi_reader *r, const char *at, flx_code code, const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    flx_code failed = flxi_fail_va(r->p->err, code, hint, fmt, args);
    va_end(args);
    set_position(r->p, at);
    return failed;
}

flx_code flxi_pass_at(flxi_reader *r, const char *at, const flx_error *err)
{
    *r->p->err = *err;
    set_position(r->p, at);
    return (flx_code)err->code;
}

static flx_code expected_token(flxi_reader *r, const char *what);

flx_code flxi_expected(flxi_reader *r, const char *what)
{
    flx_code code = expected_token(r, what);
    const flxi_token *t = &r->x.token;
    if (t->kind == TOKEN_MARK || t->kind == TOKEN_BAD)
        flxi_hint_mark(r);
    else if (t->kind == TOKEN_NAME)
        flxi_hint_word(r);
    return code;
}

static flx_code expected_token(flxi_reader *r, const char *what)
{
    const flxi_token *t = &r->x.token;
    char text[40];
    if (t->kind == TOKEN_END)
        return flxi_fail_at(r, t->s, FLX_E_SYNTAX, NULL, "expected %s, found the end of the text", what);
    if (t->kind == TOKEN_BAD && *t->s == '"')
        return flxi_fail_at(r, t->s, FLX_E_SYNTAX, NULL, "this string has no end on its line");
    if (t->kind == TOKEN_BAD && (*t->s < 32 || *t->s > 126))
        return flxi_fail_at(r, t->s, FLX_E_SYNTAX, NULL, "expected %s, found the byte 0x%02x", what,
                            (unsigned)(unsigned char)*t->s);
    return flxi_fail_at(r, t->s, FLX_E_SYNTAX, NULL, "expected %s, found '%s'", what,
                        flxi_printable(text, sizeof text, t->s, t->n));
}

flx_code flxi_expect_mark(flxi_reader *r, char c)
{
    char what[8] = {'\'', c, '\'', 0};
    if (!flxi_is_mark(&r->x.token, c))
        return flxi_expected(r, what);
    flxi_lex_next(&r->x);
    return FLX_OK;
}

/* ---- Names in scope ---- */

uint32_t flxi_find_value(const flxi_reader *r, const char *s, size_t n)
{
    uint32_t i;
    uint64_t h = flxi_hash_bytes(FLXI_HASH_SEED, s, n);
    for (flxi_probe p = flxi_index_first(&r->scope, h); flxi_index_next(&r->scope, &p, &i);)
        if (r->defined.at[i].n == n && memcmp(r->defined.at[i].s, s, n) == 0)
            return r->defined.at[i].id;
    return 0;
}

/* A parameter that is declared in the body, as in other languages, is the usual reason. */
static flx_code fail_reserved(flxi_reader *r, const flxi_token *t)
{
    bool is_param = t->n == 5 && memcmp(t->s, "param", 5) == 0;
    char text[60];
    flxi_printable(text, sizeof text, t->s, t->n);
    return flxi_fail_at(r, t->s, FLX_E_SYNTAX,
                        is_param ? "parameters are declared with the inputs: graph f(x: f32[3], param w: f32[3]) { … }"
                                 : "choose another name",
                        "'%s' is a reserved word", text);
}

static flx_code check_new_name(flxi_reader *r, const flxi_token *t)
{
    char text[60];
    if (t->kind != TOKEN_NAME)
        return flxi_expected(r, "a name");
    if (!flxi_is_name(t->s, t->n))
        return fail_reserved(r, t);
    flxi_printable(text, sizeof text, t->s, t->n);
    if (flxi_find_value(r, t->s, t->n))
        return flxi_fail_at(r, t->s, FLX_E_DUP_NAME, "each name is defined once: give the new value a name of its own",
                            "the name '%s' is defined twice", text);
    return FLX_OK;
}

static flx_code define(flxi_reader *r, const flxi_token *t, uint32_t id)
{
    const flxi_allocator *mem = &r->g->ctx->mem;
    if (!flxi_reserve(mem, &r->defined) ||
        !flxi_index_add(mem, &r->scope, flxi_hash_bytes(FLXI_HASH_SEED, t->s, t->n), (uint32_t)r->defined.n))
        return flxi_fail_at(r, t->s, FLX_E_OOM, NULL, "out of memory: names");
    r->defined.at[r->defined.n].s = t->s;
    r->defined.at[r->defined.n].n = t->n;
    r->defined.at[r->defined.n++].id = id;
    return FLX_OK;
}

/* ---- Declarations and statements ---- */

static const char init_hint[] =
    "zeros, ones, constant, uniform, normal, or one of he, xavier, lecun with _normal, _uniform; see the text form";

/* A scale is a double: an integer that none is, for a parameter of integers, would be another one. */
static flx_code check_exact(flxi_reader *r, const flxi_literal *l, const flx_type *type, double scale)
{
    char nearest[40];
    const char *s = l->token.s;
    size_t n = l->token.n;
    while (n > 1 && *s == '0') {
        s++;
        n--;
    }
    snprintf(nearest, sizeof nearest, "%.0f", fabs(scale));
    bool has_fractions = flxi_is_float(type->dtype) || flxi_is_complex(type->dtype);
    if (has_fractions || fabs(scale) < 0x1p53 || fabs(scale) > 0x1p64 || strspn(s, "0123456789") < n ||
        (strlen(nearest) == n && memcmp(nearest, s, n) == 0))
        return FLX_OK;
    return flxi_fail_at(r, l->at, FLX_E_USAGE, NULL,
                        "initialisations have doubles, and none is this number: %s%s is near", l->negative ? "-" : "",
                        nearest);
}

/* The number in parentheses after the name of an initialisation; 0 where there is none. */
static flx_code parse_scale(flxi_reader *r, bool is_constant, const flx_type *type, double *out)
{
    flxi_literal l;
    *out = 0;
    if (!flxi_is_mark(&r->x.token, '('))
        return FLX_OK;
    flxi_lex_next(&r->x);
    if (!flxi_at_number(r))
        return flxi_expected(r, "a number");
    FLXI_TRY(flxi_parse_number(r, &l));
    FLXI_TRY(flxi_store_literal(r, &l, FLX_F64, out, 0));
    if (*out == 0 && !is_constant)
        return flxi_fail_at(r, l.at, FLX_E_USAGE, NULL, "the scale of an initialisation must not be 0");
    FLXI_TRY(check_exact(r, &l, type, *out));
    return flxi_expect_mark(r, ')');
}

/* `~ he_normal` or `~ normal(0.02)` after the declaration of a parameter, at the mark. */
static flx_code parse_init(flxi_reader *r, bool is_param, uint32_t id)
{
    const char *at = r->x.token.s;
    flx_init init = {0};
    char text[60];
    flxi_lex_next(&r->x);
    if (!is_param)
        return flxi_fail_at(r, at, FLX_E_USAGE, "write param before its name", "only a parameter is initialised");
    flxi_token kind = r->x.token;
    if (kind.kind != TOKEN_NAME)
        return flxi_expected(r, "an initialisation");
    init.kind = flxi_init_find(kind.s, kind.n);
    if (!init.kind)
        return flxi_fail_at(r, kind.s, FLX_E_NAME, init_hint, "there is no initialisation called '%s'",
                            flxi_printable(text, sizeof text, kind.s, kind.n));
    flxi_lex_next(&r->x);
    bool has_scale = flxi_is_mark(&r->x.token, '(');
    if (init.kind == FLX_INIT_CONSTANT && !has_scale)
        return flxi_fail_at(r, kind.s, FLX_E_USAGE, "write constant(0.5)", "the value of a constant is missing");
    FLXI_TRY(parse_scale(r, init.kind == FLX_INIT_CONSTANT, flxi_type_at(r->g, id), &init.scale));
    if (!flx_set_init(r->g, (flx_val){id, r->g->serial}, init).id)
        return flxi_pass_at(r, kind.s, &r->g->error);
    return FLX_OK;
}

static flx_code parse_decl(flxi_reader *r)
{
    flx_type type;
    bool is_param = flxi_is_word(&r->x.token, "param");
    if (is_param)
        flxi_lex_next(&r->x);
    flxi_token name = r->x.token;
    FLXI_TRY(check_new_name(r, &name));
    flxi_lex_next(&r->x);
    if (!flxi_is_mark(&r->x.token, ':')) {
        flx_code code = flxi_expect_mark(r, ':');
        flxi_hint(r->p->err, "an input has a type, as in x: f32[2, 3]; f32[] is a scalar");
        return code;
    }
    flxi_lex_next(&r->x);
    FLXI_TRY(flxi_parse_type(r, &type));
    const char *text = flxi_arena_text(&r->scratch, name.s, name.n);
    uint32_t id = text ? flxi_add_leaf(r->g, flxi_leaf_op(is_param), text, &type) : 0;
    if (!text)
        return flxi_fail_at(r, name.s, FLX_E_OOM, NULL, "out of memory: names");
    if (!id)
        return flxi_pass_at(r, name.s, &r->g->error);
    if (flxi_is_mark(&r->x.token, '~'))
        FLXI_TRY(parse_init(r, is_param, id));
    return define(r, &name, id);
}

static flx_code parse_decls(flxi_reader *r)
{
    FLXI_TRY(flxi_expect_mark(r, '('));
    while (!flxi_is_mark(&r->x.token, ')')) {
        FLXI_TRY(parse_decl(r));
        if (!flxi_is_mark(&r->x.token, ','))
            break;
        flxi_lex_next(&r->x);
    }
    return flxi_expect_mark(r, ')');
}

typedef FLXI_VEC(flxi_token) token_list;

static flx_code parse_names(flxi_reader *r, token_list *names)
{
    for (;;) {
        flxi_token t = r->x.token;
        if (!flxi_is_word(&t, "_"))
            FLXI_TRY(check_new_name(r, &t));
        if (!flxi_push(&r->g->ctx->mem, names, t))
            return flxi_fail_at(r, t.s, FLX_E_OOM, NULL, "out of memory: names");
        flxi_lex_next(&r->x);
        if (!flxi_is_mark(&r->x.token, ','))
            return FLX_OK;
        flxi_lex_next(&r->x);
    }
}

/* The op may mean something else elsewhere, with other results. */
static flx_code wrong_count(flxi_reader *r, const token_list *names, uint32_t count, bool alias)
{
    const flxi_node *n = alias || !r->g->node_count ? NULL : flxi_node_at(r->g, r->g->node_count - 1);
    const char *meaning = n ? flxi_foreign_meaning(flxi_ops[n->op].name) : NULL;
    const char *usual = names->n < count ? "give each result a name; _ discards one" : NULL;
    return flxi_fail_at(r, names->at[0].s, FLX_E_ARITY, meaning ? meaning : usual, "%zu names for %u results", names->n,
                        count);
}

static flx_code bind_names(flxi_reader *r, const token_list *names, uint32_t first, uint32_t count, bool alias,
                           bool is_pinned)
{
    if (names->n != count)
        return wrong_count(r, names, count, alias);
    for (uint32_t i = 0; i < count; i++) {
        flxi_token t = names->at[i];
        if (is_pinned)
            flxi_value_at(r->g, first + i)->pinned = 1;
        if (flxi_is_word(&t, "_"))
            continue;
        if (flxi_find_value(r, t.s, t.n)) /* twice in the same statement */
            return check_new_name(r, &t);
        FLXI_TRY(define(r, &t, first + i));
        if (!alias)
            flxi_label(r->g, first + i, t.s, t.n);
    }
    return r->g->error.code ? flxi_pass_at(r, names->at[0].s, &r->g->error) : FLX_OK;
}

static bool at_pin(const flxi_reader *r)
{
    flxi_lexer ahead = r->x;
    if (!flxi_is_word(&ahead.token, "pin"))
        return false;
    flxi_lex_next(&ahead);
    return ahead.token.kind == TOKEN_NAME;
}

static flx_code parse_statement(flxi_reader *r, token_list *names)
{
    uint32_t first;
    uint32_t count;
    bool alias;
    bool is_pinned = at_pin(r);
    if (is_pinned)
        flxi_lex_next(&r->x);
    names->n = 0;
    FLXI_TRY(parse_names(r, names));
    if (!flxi_is_mark(&r->x.token, '=')) {
        flx_code code = flxi_expect_mark(r, '=');
        flxi_hint_statement(r, &names->at[0]);
        return code;
    }
    flxi_lex_next(&r->x);
    const char *label = flxi_arena_text(&r->scratch, names->at[0].s, names->at[0].n);
    if (!label)
        return flxi_fail_at(r, names->at[0].s, FLX_E_OOM, NULL, "out of memory: names");
    FLXI_TRY(flxi_parse_expr(r, label, &first, &count, &alias));
    return bind_names(r, names, first, count, alias, is_pinned);
}

static flx_code parse_output(flxi_reader *r)
{
    uint32_t first;
    uint32_t count;
    bool is_name;
    char position[24];
    flxi_token t = r->x.token;
    FLXI_TRY(flxi_parse_expr(r, NULL, &first, &count, &is_name));
    if (count != 1)
        return flxi_fail_at(r, t.s, FLX_E_ARITY, "name the results in a statement first",
                            "a returned call must have one result, not %u", count);
    snprintf(position, sizeof position, "out%zu", r->g->outputs.n);
    const char *name = is_name ? flxi_arena_text(&r->scratch, t.s, t.n) : position;
    if (!name)
        return flxi_fail_at(r, t.s, FLX_E_OOM, NULL, "out of memory: names");
    if (flxi_output_last(r->g, (flx_val){first, r->g->serial}, name) != FLX_OK)
        return flxi_pass_at(r, t.s, &r->g->error);
    return FLX_OK;
}

static flx_code parse_returns(flxi_reader *r)
{
    flxi_lex_next(&r->x); /* return */
    while (!flxi_is_mark(&r->x.token, '}')) {
        FLXI_TRY(parse_output(r));
        if (!flxi_is_mark(&r->x.token, ','))
            break;
        flxi_lex_next(&r->x);
    }
    return flxi_is_mark(&r->x.token, '}') ? FLX_OK : flxi_expected(r, "',' or '}' after the returned values");
}

static flx_code parse_body(flxi_reader *r, token_list *names)
{
    FLXI_TRY(parse_decls(r));
    if (flxi_is_mark(&r->x.token, ':'))
        return flxi_fail_at(r, r->x.token.s, FLX_E_SYNTAX,
                            "results are not declared: return lists them, and their types are inferred",
                            "expected '{', found ':'");
    FLXI_TRY(flxi_expect_mark(r, '{'));
    while (!flxi_is_word(&r->x.token, "return")) {
        if (r->x.token.kind != TOKEN_NAME) {
            flx_code code = flxi_expected(r, "a statement or 'return'");
            if (flxi_is_mark(&r->x.token, '}'))
                flxi_hint(r->p->err, "a graph ends with its results: return y");
            return code;
        }
        flxi_mark mark = flxi_arena_mark(&r->scratch);
        FLXI_TRY(parse_statement(r, names));
        flxi_arena_rewind(&r->scratch, mark);
    }
    return parse_returns(r);
}

/* ---- Graphs ---- */

static flx_code read_graph(flxi_parser *p, entry *e, int depth)
{
    flxi_reader r = {.p = p, .depth = depth};
    const flxi_allocator *mem = &p->ctx->mem;
    token_list names = {0};
    flxi_lex_start(&r.x, p->text, p->end, e->at);
    flxi_arena_init(&r.scratch, mem);
    const char *name = flxi_arena_text(&r.scratch, e->name.s, e->name.n);
    r.g = name ? flx_graph_new(p->ctx, name) : NULL;
    e->state = READING;
    flx_code code = r.g ? parse_body(&r, &names) : flxi_fail_at(&r, e->at, FLX_E_OOM, NULL, "out of memory: a graph");
    e->state = READ;
    if (code == FLX_OK)
        e->graph = r.g;
    else
        flx_graph_release(r.g);
    flxi_vec_free(mem, &names);
    flxi_vec_free(mem, &r.defined);
    flxi_index_free(mem, &r.scope);
    flxi_arena_free(&r.scratch);
    return code;
}

static uint64_t hash_name(const flxi_token *name)
{
    return flxi_hash_bytes(FLXI_HASH_SEED, name->s, name->n);
}

static entry *find_entry(const flxi_parser *p, const flxi_token *name)
{
    uint32_t i;
    for (flxi_probe k = flxi_index_first(&p->by_name, hash_name(name)); flxi_index_next(&p->by_name, &k, &i);)
        if (p->entries.at[i].name.n == name->n && memcmp(p->entries.at[i].name.s, name->s, name->n) == 0)
            return &p->entries.at[i];
    return NULL;
}

flxi_named flxi_what_is(flxi_reader *r, const flxi_token *name)
{
    const entry *e = find_entry(r->p, name);
    return !e ? NAMED_NOTHING : e->kernel ? NAMED_KERNEL : NAMED_GRAPH;
}

static void suggest_entry(flxi_reader *r, const flxi_token *name, bool is_kernel)
{
    flxi_typo typo = flxi_typo_begin(name->s, name->n, name->n / 3);
    for (size_t i = 0; i < r->p->entries.n; i++)
        if (!r->p->entries.at[i].kernel == !is_kernel)
            flxi_typo_consider(&typo, r->p->entries.at[i].name.s, r->p->entries.at[i].name.n);
    if (typo.best)
        flxi_hint(r->p->err, "did you mean @%.*s?", (int)typo.best_n, typo.best);
}

flx_code flxi_find_graph(flxi_reader *r, const flxi_token *name, const flx_graph **out)
{
    char text[60];
    entry *e = find_entry(r->p, name);
    flxi_printable(text, sizeof text, name->s, name->n);
    if (!e || e->kernel) {
        flx_code code =
            flxi_fail_at(r, name->s, FLX_E_NAME, e ? "it is a kernel" : NULL, "there is no graph called '%s'", text);
        if (!e)
            suggest_entry(r, name, false);
        return code;
    }
    if (e->state == READING)
        return flxi_fail_at(r, name->s, FLX_E_NAME, "graphs must not call themselves, not even through others",
                            "the graph '%s' calls itself", text);
    if (r->depth >= FLXI_MAX_NESTING)
        return flxi_fail_at(r, name->s, FLX_E_SIZE, NULL, "graphs nest deeper than %d", FLXI_MAX_NESTING);
    if (e->state == UNREAD)
        FLXI_TRY(read_graph(r->p, e, r->depth + 1));
    *out = e->graph;
    return FLX_OK;
}

flx_code flxi_find_kernel(flxi_reader *r, const flxi_token *name, const char **out)
{
    char text[60];
    const entry *e = find_entry(r->p, name);
    flxi_printable(text, sizeof text, name->s, name->n);
    if (!e || !e->kernel) {
        flx_code code =
            flxi_fail_at(r, name->s, FLX_E_NAME, e ? "it is a graph" : NULL, "there is no kernel called '%s'", text);
        if (!e)
            suggest_entry(r, name, true);
        return code;
    }
    *out = flxi_arena_text(&r->scratch, e->kernel, (size_t)(e->kernel_end - e->kernel));
    return *out ? FLX_OK : flxi_fail_at(r, name->s, FLX_E_OOM, NULL, "out of memory: a kernel");
}

/* Kernel text has its own tokens and comments; only strings, comments and braces matter here. Returns the position
   after the kernel's last brace, or NULL. */
static const char *kernel_end(const char *s, const char *end)
{
    size_t depth = 0;
    while (s < end) {
        bool is_line = *s == '#' || (*s == '/' && end - s > 1 && s[1] == '/');
        bool is_comment = *s == '/' && end - s > 1 && s[1] == '*';
        if (is_line) {
            while (s < end && *s != '\n')
                s++;
        } else if (is_comment) {
            for (s += 2; end - s > 1 && (s[0] != '*' || s[1] != '/'); s++)
                ;
            s = end - s > 1 ? s + 2 : end;
        } else if (*s == '"') {
            for (s++; s < end && *s != '"' && *s != '\n'; s++)
                s += *s == '\\' && s + 1 < end;
            s += s < end;
        } else {
            depth += *s == '{';
            if (*s++ == '}' && depth-- <= 1)
                return s;
        }
    }
    return NULL;
}

/* The name after "graph" or "kernel" becomes an entry. */
static flx_code add_entry(flxi_parser *p, flxi_reader *r, entry *e)
{
    const flxi_allocator *mem = &p->ctx->mem;
    char text[60];
    const char *what = e->kernel ? "kernel" : "graph";
    if (!flxi_is_name(e->name.s, e->name.n))
        return fail_reserved(r, &e->name);
    flxi_printable(text, sizeof text, e->name.s, e->name.n);
    const entry *other = find_entry(p, &e->name);
    if (other)
        return flxi_fail_at(r, e->name.s, FLX_E_DUP_NAME,
                            !other->kernel != !e->kernel ? "graphs and kernels share names" : NULL,
                            "the %s '%s' is defined twice", what, text);
    if (!flxi_push(mem, &p->entries, *e) ||
        !flxi_index_add(mem, &p->by_name, hash_name(&e->name), (uint32_t)p->entries.n - 1))
        return flxi_fail_at(r, e->name.s, FLX_E_OOM, NULL, "out of memory: graphs");
    return FLX_OK;
}

static flx_code find_one_kernel(flxi_parser *p, flxi_reader *r)
{
    entry e = {.kernel = r->x.token.s, .state = READ};
    flxi_lex_next(&r->x);
    e.name = r->x.token;
    if (e.name.kind != TOKEN_NAME)
        return flxi_expected(r, "the name of the kernel");
    e.at = r->x.at;
    e.kernel_end = kernel_end(r->x.at, r->x.end);
    FLXI_TRY(add_entry(p, r, &e));
    if (!e.kernel_end)
        return flxi_fail_at(r, e.kernel, FLX_E_SYNTAX, NULL, "this kernel has no closing brace");
    flxi_lex_start(&r->x, p->text, p->end, e.kernel_end);
    return FLX_OK;
}

/* Braces occur only around bodies, so a graph ends at the next closing one. A block within a body, as other languages
   have them, fails at the word before it. */
static flx_code skip_body(flxi_reader *r)
{
    flxi_token word = {0};
    bool is_open = false;
    while (r->x.token.kind != TOKEN_END && !flxi_is_mark(&r->x.token, '}')) {
        const flxi_token *t = &r->x.token;
        char text[24];
        if (flxi_is_mark(t, '{') && is_open && word.s)
            return flxi_fail_at(r, word.s, FLX_E_SYNTAX, flxi_control_hint(&word), "a graph has no '%s' blocks",
                                flxi_printable(text, sizeof text, word.s, word.n));
        is_open |= flxi_is_mark(t, '{');
        if (is_open && flxi_control_hint(t))
            word = *t;
        else if (flxi_is_mark(t, '=') || flxi_is_word(t, "graph"))
            word = (flxi_token){0};
        flxi_lex_next(&r->x);
    }
    return FLX_OK;
}

static flx_code find_graphs(flxi_parser *p, flxi_reader *r)
{
    while (r->x.token.kind != TOKEN_END) {
        if (flxi_is_word(&r->x.token, "kernel")) {
            FLXI_TRY(find_one_kernel(p, r));
            continue;
        }
        if (!flxi_is_word(&r->x.token, "graph"))
            return flxi_expected(r, "'graph' or 'kernel'");
        flxi_lex_next(&r->x);
        entry e = {.name = r->x.token, .at = r->x.at};
        if (e.name.kind != TOKEN_NAME)
            return flxi_expected(r, "the name of the graph");
        FLXI_TRY(add_entry(p, r, &e));
        FLXI_TRY(skip_body(r));
        if (r->x.token.kind == TOKEN_END) { /* parsing it reports best what is missing */
            FLXI_TRY(read_graph(p, &p->entries.at[p->entries.n - 1], 1));
            return flxi_expected(r, "'}'");
        }
        flxi_lex_next(&r->x);
    }
    return FLX_OK;
}

flx_code flxi_dim_read(flx_graph *g, const char *text, flx_dim *out, flx_error *err)
{
    flxi_parser p = {.ctx = g->ctx, .text = text, .end = text + strlen(text), .file = "dimension", .err = err};
    flxi_reader r = {.p = &p, .g = g};
    flxi_arena_init(&r.scratch, &g->ctx->mem);
    flxi_lex_start(&r.x, p.text, p.end, p.text);
    flx_code code = flxi_parse_dim(&r, out);
    if (code == FLX_OK && r.x.token.kind != TOKEN_END)
        code = flxi_expected(&r, "the end of the dimension");
    flxi_arena_free(&r.scratch);
    return code;
}

static flx_code check_kernel(const flxi_parser *p, const entry *e)
{
    flx_kernel *k = flxi_kernel_parse_part(p->ctx, p->text, (size_t)(e->kernel - p->text),
                                           (size_t)(e->kernel_end - p->text), p->file, p->err);
    flx_kernel_release(k);
    return k ? FLX_OK : (flx_code)p->err->code;
}

static flx_code read_all(flxi_parser *p, flx_module *m)
{
    flxi_reader r = {.p = p};
    flxi_lex_start(&r.x, p->text, p->end, p->text);
    FLXI_TRY(find_graphs(p, &r));
    size_t graphs = 0;
    for (size_t i = 0; i < p->entries.n; i++)
        graphs += !p->entries.at[i].kernel;
    if (graphs == 0)
        return flxi_fail_at(&r, p->text, FLX_E_SYNTAX,
                            p->entries.n ? "it holds a kernel: flx kernel check reads it, in C flx_kernel_parse()"
                                         : NULL,
                            "the text holds no graph");
    for (size_t i = 0; i < p->entries.n; i++)
        if (p->entries.at[i].kernel)
            FLXI_TRY(check_kernel(p, &p->entries.at[i]));
    for (size_t i = 0; i < p->entries.n; i++) {
        entry *e = &p->entries.at[i];
        if (e->kernel)
            continue;
        if (e->state == UNREAD)
            FLXI_TRY(read_graph(p, e, 1));
        if (flxi_module_add(m, e->graph) != FLX_OK)
            return flxi_fail_at(&r, e->at, FLX_E_OOM, NULL, "out of memory: graphs");
    }
    return FLX_OK;
}

flx_module *flx_parse(flx_context *ctx, const char *text, size_t length, const char *file, flx_error *err)
{
    flx_error ignored;
    if (!ctx || (!text && length)) {
        flxi_fail(err, FLX_E_USAGE, "flx_parse: context and text must be given");
        return NULL;
    }
    if (!text)
        text = "";
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* the byte order mark that some editors write */
        text += 3;
        length -= 3;
    }
    flxi_parser p = {
        .ctx = ctx, .text = text, .end = text + length, .file = file ? file : "text", .err = err ? err : &ignored};
    memset(p.err, 0, sizeof *p.err);
    flx_module *m = flxi_module_new(ctx);
    flx_code code = m ? read_all(&p, m) : flxi_oom(p.err, "a module");
    for (size_t i = 0; i < p.entries.n; i++)
        flx_graph_release(p.entries.at[i].graph);
    flxi_vec_free(&ctx->mem, &p.entries);
    flxi_index_free(&ctx->mem, &p.by_name);
    if (code == FLX_OK)
        return m;
    flx_module_free(m);
    return NULL;
}
