/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_parse.c: reads a kernel from text: functions and statements. Statements nest by recursion, which the builder
   bounds (K70). Time is linear in the text: names are looked up by number, and a line and column are computed only for
   the one error that is reported. */
#include "kernel/text/kernel_parse.h"

#include "base/context.h"
#include "kernel/check/kernel_validate.h"
#include "kernel/text/kernel_reader.h"

#include <stdio.h>

/* ---- Statements ---- */

static flx_code parse_statement(flxi_kparser *p);

/* "{ … }", a scope of its own; the builder's body is open. */
static flx_code parse_body(flxi_kparser *p)
{
    size_t mark = p->hidden.n;
    FLXI_TRY(flxi_kneed_mark(p, '{'));
    while (!flxi_kis_mark(p, '}')) {
        if (p->x.token.kind == KT_END)
            return flxi_kexpected(p, "a statement or '}'");
        FLXI_TRY(parse_statement(p));
    }
    flxi_kclose_scope(p, mark);
    flxi_knext(p);
    return FLX_OK;
}

static flx_code parse_let(flxi_kparser *p, const char *at)
{
    size_t symbol;
    uint32_t value;
    flxi_knext(p);
    FLXI_TRY(flxi_kread_name(p, "a variable's name", &symbol));
    FLXI_TRY(flxi_kneed_mark(p, '='));
    FLXI_TRY(flxi_kparse_expr(p, 0, &value));
    uint32_t var = flxi_kb_let(p->b, flxi_ksymbol_text(p, symbol), value);
    FLXI_TRY(flxi_kcheck_builder(p, at));
    FLXI_TRY(flxi_kshow_var(p, symbol, var));
    return flxi_kneed_mark(p, ';');
}

static flx_code parse_assign(flxi_kparser *p, const char *at)
{
    size_t symbol;
    uint32_t value;
    FLXI_TRY(flxi_kread_name(p, "a variable's name", &symbol));
    FLXI_TRY(flxi_kneed_mark(p, '='));
    const flxi_ksymbol *s = flxi_ksymbol_at(p, symbol);
    if (!s)
        return flxi_kfail_memory(p);
    uint32_t var = s->var;
    if (!var) {
        const char *text = flxi_ksymbol_text(p, symbol);
        flxi_kunknown_name(p, at, symbol, UNKNOWN_TARGET);
        var = flxi_kb_unknown(p->b, text, strlen(text));
        FLXI_TRY(flxi_kcheck_builder(p, at));
    }
    FLXI_TRY(flxi_kparse_expr(p, p->b->vars.at[var].type, &value));
    flxi_kb_assign(p->b, var, value);
    FLXI_TRY(flxi_kcheck_builder(p, at));
    return flxi_kneed_mark(p, ';');
}

/* A store, or an expression for its effect. */
static flx_code parse_store(flxi_kparser *p, const char *at)
{
    uint32_t buffer, index, value;
    bool is_plain = flxi_kat_name(p);
    if (p->x.token.kind == KT_MARK && !memchr("(-!~", *at, 4))
        return flxi_kexpected(p, "a statement");
    FLXI_TRY(flxi_kparse_nodes(p));
    if (!flxi_kis_mark(p, '=')) {
        FLXI_TRY(flxi_kbuild_nodes(p, 0, &value));
        flxi_kb_effect(p->b, value);
    } else if (is_plain && flxi_knodes_are_load(p)) {
        FLXI_TRY(flxi_kbuild_target(p, &buffer, &index));
        flxi_knext(p);
        FLXI_TRY(flxi_kparse_expr(p, flxi_ktype_of(p->b->buffers.at[buffer].element)->value, &value));
        flxi_kb_store(p->b, buffer, index, value);
    } else {
        return flxi_kfail_at(p, p->x.token.s, "only variables and buffer elements can be assigned to",
                             "this is not allowed on the left of '='");
    }
    FLXI_TRY(flxi_kcheck_builder(p, at));
    return flxi_kneed_mark(p, ';');
}

static flx_code parse_if(flxi_kparser *p, const char *at)
{
    uint32_t condition;
    flxi_knext(p);
    FLXI_TRY(flxi_kneed_mark(p, '('));
    FLXI_TRY(flxi_kparse_expr(p, 0, &condition));
    FLXI_TRY(flxi_kneed_mark(p, ')'));
    flxi_kb_if(p->b, condition);
    FLXI_TRY(flxi_kcheck_builder(p, at));
    FLXI_TRY(parse_body(p));
    if (flxi_ktake_word(p, "else")) {
        flxi_kb_else(p->b);
        FLXI_TRY(flxi_kcheck_builder(p, at));
        FLXI_TRY(flxi_ktoken_is(&p->x.token, "if") ? parse_statement(p) : parse_body(p));
    }
    flxi_kb_end(p->b);
    return flxi_kcheck_builder(p, at);
}

static flx_code parse_for(flxi_kparser *p, const char *at)
{
    size_t symbol;
    uint32_t from, to;
    flxi_knext(p);
    FLXI_TRY(flxi_kneed_mark(p, '('));
    FLXI_TRY(flxi_kread_name(p, "a loop variable", &symbol));
    if (!flxi_ktake_word(p, "in"))
        return flxi_kexpected(p, "in");
    FLXI_TRY(flxi_kparse_expr(p, FLX_U32, &from));
    if (p->x.token.mark != FLXI_MARK('.', '.'))
        return flxi_kexpected(p, "'..'");
    flxi_knext(p);
    FLXI_TRY(flxi_kparse_expr(p, FLX_U32, &to));
    FLXI_TRY(flxi_kneed_mark(p, ')'));
    size_t mark = p->hidden.n;
    uint32_t var = flxi_kb_loop(p->b, flxi_ksymbol_text(p, symbol), from, to);
    FLXI_TRY(flxi_kcheck_builder(p, at));
    FLXI_TRY(flxi_kshow_var(p, symbol, var));
    FLXI_TRY(parse_body(p));
    flxi_kclose_scope(p, mark);
    flxi_kb_end(p->b);
    return flxi_kcheck_builder(p, at);
}

static flx_code parse_block(flxi_kparser *p, const char *at)
{
    flxi_kb_block(p->b);
    FLXI_TRY(flxi_kcheck_builder(p, at));
    FLXI_TRY(parse_body(p));
    flxi_kb_end(p->b);
    return flxi_kcheck_builder(p, at);
}

/* A variable by its name: it must exist. */
static flx_code read_var(flxi_kparser *p, uint32_t *var)
{
    size_t symbol;
    char text[60];
    flxi_ktoken t = p->x.token;
    FLXI_TRY(flxi_kread_name(p, "a variable", &symbol));
    const flxi_ksymbol *s = flxi_ksymbol_at(p, symbol);
    if (!s)
        return flxi_kfail_memory(p);
    *var = s->var;
    if (*var)
        return FLX_OK;
    return flxi_kfail_rule(p, t.s, "K10", "declare it with let before the region", "no variable '%s' is in scope",
                           flxi_printable(text, sizeof text, t.s, t.n));
}

flx_code flxi_kread_bar(flxi_kparser *p, uint32_t *var)
{
    flxi_knext(p);
    FLXI_TRY(flxi_kneed_mark(p, '('));
    FLXI_TRY(read_var(p, var));
    return flxi_kneed_mark(p, ')');
}

/* adjoint { adjoint(v) += e; … } */
static flx_code parse_rule(flxi_kparser *p)
{
    uint32_t var;
    uint32_t value;
    flxi_kb_rule(p->b);
    FLXI_TRY(flxi_kcheck_builder(p, p->x.token.s));
    FLXI_TRY(flxi_kneed_mark(p, '{'));
    while (!flxi_ktake_mark(p, '}')) {
        const char *at = p->x.token.s;
        if (!flxi_ktoken_is(&p->x.token, "adjoint"))
            return flxi_kexpected(p, "adjoint(v) += …; or '}'");
        FLXI_TRY(flxi_kread_bar(p, &var));
        FLXI_TRY(flxi_kneed_mark(p, '+'));
        FLXI_TRY(flxi_kneed_mark(p, '='));
        FLXI_TRY(flxi_kparse_expr(p, p->b->vars.at[var].type == FLX_F64 ? FLX_F64 : FLX_F32, &value));
        if (flxi_kb_type(p->b, value) || !p->notes.n) /* else it contains an unknown name, which is noted */
            flxi_kb_rule_term(p->b, var, value);
        FLXI_TRY(flxi_kcheck_builder(p, at));
        FLXI_TRY(flxi_kneed_mark(p, ';'));
    }
    return FLX_OK;
}

static flx_code parse_region(flxi_kparser *p, const char *at)
{
    size_t name;
    const char *source = "";
    uint32_t flags = 0;
    flxi_knext(p);
    FLXI_TRY(flxi_kread_name(p, "a region's name", &name));
    if (flxi_ktake_word(p, "from"))
        FLXI_TRY(flxi_kread_string(p, "the source, as a string", &source));
    for (uint32_t i;
         (i = flxi_kread_word(p, flxi_kregion_flag_words, FLXI_KREGION_FLAG_WORDS)) < FLXI_KREGION_FLAG_WORDS;)
        flags |= 1u << i;
    flxi_kb_region(p->b, flxi_ksymbol_text(p, name), source, flags);
    FLXI_TRY(flxi_kcheck_builder(p, at));
    FLXI_TRY(parse_body(p));
    if (p->x.ahead.mark == FLXI_MARK('{', 0) && flxi_ktake_word(p, "adjoint"))
        FLXI_TRY(parse_rule(p));
    flxi_kb_end(p->b);
    return flxi_kcheck_builder(p, at);
}

/* ---- Statements written as calls ---- */

static const flxi_kform statements[] = {
    {"barrier", "o", KS_BARRIER, FLX_KERNEL_ACQ_REL},
    {"indirect_dispatch", "bn", KS_INDIRECT, 0},
    {"async_load", "btxyg", KS_ASYNC_LOAD, 0},
    {"async_store", "btxyg", KS_ASYNC_STORE, 0},
    {"async_wait", "g", KS_ASYNC_WAIT, 0},
    {"trap", "xg", KS_TRAP, 0},
    {"resume", "g", KS_RESUME, 0},
    {"all_reduce", "bt", KS_COLLECTIVE, FLX_KERNEL_ALL_REDUCE},
    {"all_gather", "bt", KS_COLLECTIVE, FLX_KERNEL_ALL_GATHER},
    {"reduce_scatter", "bt", KS_COLLECTIVE, FLX_KERNEL_REDUCE_SCATTER},
    {"broadcast", "btn", KS_COLLECTIVE, FLX_KERNEL_BROADCAST},
    {"opaque", "", KS_OPAQUE, 0},
};

static const flxi_kform *find_statement(const char *s, size_t n)
{
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++)
        if (strlen(statements[i].name) == n && memcmp(statements[i].name, s, n) == 0)
            return &statements[i];
    return NULL;
}

const flxi_kform *flxi_kform_of(const flxi_ks *s)
{
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++)
        if (statements[i].kind == s->kind && (s->kind != KS_COLLECTIVE || statements[i].order == s->order))
            return &statements[i];
    return &statements[0];
}

bool flxi_kname_is_statement(const char *s, size_t n)
{
    return find_statement(s, n) != NULL;
}

static flx_code read_tag(flxi_kparser *p, const char **text)
{
    size_t symbol;
    FLXI_TRY(flxi_kread_name(p, "a tag", &symbol));
    *text = flxi_ksymbol_text(p, symbol);
    return FLX_OK;
}

static flx_code parse_argument(flxi_kparser *p, char what, flxi_ks *s)
{
    switch (what) {
    case 'b': return flxi_kread_buffer(p, &s->buffer);
    case 't': return flxi_kread_buffer(p, &s->target);
    case 'x': return flxi_kparse_expr(p, FLX_U32, &s->a);
    case 'y': return flxi_kparse_expr(p, FLX_U32, &s->b);
    case 'n': return flxi_kread_u64(p, "a number", UINT64_MAX, &s->offset);
    case 'g': return read_tag(p, &s->text);
    default: {
        uint32_t order = flxi_kread_word(p, flxi_korder_names, FLX_KERNEL_ORDER_COUNT);
        if (order == FLX_KERNEL_ORDER_COUNT)
            return flxi_kexpected(p, "an ordering: acquire release acq_rel seq_cst grid");
        s->order = (uint8_t)order;
        return FLX_OK;
    }
    }
}

static flx_code parse_arguments(flxi_kparser *p, const flxi_kform *form, flxi_ks *s)
{
    FLXI_TRY(flxi_kneed_mark(p, '('));
    if (form->kind == KS_BARRIER && flxi_kis_mark(p, ')'))
        return FLX_OK;
    for (const char *what = form->args; *what; what++) {
        if (what > form->args)
            FLXI_TRY(flxi_kneed_mark(p, ','));
        FLXI_TRY(parse_argument(p, *what, s));
    }
    return FLX_OK;
}

static flx_code parse_call_statement(flxi_kparser *p, const flxi_kform *form, const char *at)
{
    flxi_ks s = {.kind = form->kind, .order = form->order};
    flxi_knext(p);
    FLXI_TRY(form->kind == KS_OPAQUE ? flxi_kread_opaque(p, 0, &s.opaque) : parse_arguments(p, form, &s));
    FLXI_TRY(flxi_kneed_mark(p, ')'));
    flxi_kb_simple(p->b, &s);
    FLXI_TRY(flxi_kcheck_builder(p, at));
    return flxi_kneed_mark(p, ';');
}

/* ---- Any statement ---- */

static bool is_declaration(const flxi_kparser *p)
{
    static const char *const words[] = {"buffer", "fn", "adjoint", "meta"};
    bool names = p->x.ahead.kind == KT_NAME || p->x.ahead.kind == KT_STRING;
    for (size_t i = 0; names && i < sizeof words / sizeof words[0]; i++)
        if (flxi_ktoken_is(&p->x.token, words[i]))
            return true;
    return false;
}

static flx_code parse_return(flxi_kparser *p, const char *at)
{
    flxi_knext(p);
    if (!flxi_kis_mark(p, ';'))
        return flxi_kfail_at(p, p->x.token.s, "only the last statement of a function returns a value",
                             "this return must not have a value");
    flxi_kb_return(p->b);
    FLXI_TRY(flxi_kcheck_builder(p, at));
    return flxi_kneed_mark(p, ';');
}

static flx_code parse_statement(flxi_kparser *p)
{
    flxi_ktoken t = p->x.token;
    flxi_ktoken ahead = p->x.ahead;
    bool call = ahead.mark == FLXI_MARK('(', 0);
    p->b->position = (uint32_t)(t.s - p->x.text) + 1;
    if (flxi_kis_mark(p, '{'))
        return parse_block(p, t.s);
    if (flxi_ktoken_is(&t, "let"))
        return parse_let(p, t.s);
    if (flxi_ktoken_is(&t, "if"))
        return parse_if(p, t.s);
    if (flxi_ktoken_is(&t, "for"))
        return parse_for(p, t.s);
    if (flxi_ktoken_is(&t, "return"))
        return parse_return(p, t.s);
    if (flxi_ktoken_is(&t, "else"))
        return flxi_kfail_at(p, t.s, NULL, "else without a preceding if");
    if (is_declaration(p))
        return flxi_kfail_at(p, t.s, "declare buffers and functions before the first statement",
                             "a declaration is not allowed among the statements");
    if (flxi_kat_name(p) && ahead.mark == FLXI_MARK('=', 0))
        return parse_assign(p, t.s);
    if (flxi_ktoken_is(&t, "region") && (ahead.kind == KT_NAME || ahead.kind == KT_STRING))
        return parse_region(p, t.s);
    const flxi_kform *form = t.kind == KT_NAME && call ? find_statement(t.s, t.n) : NULL;
    return form ? parse_call_statement(p, form, t.s) : parse_store(p, t.s);
}

/* ---- Functions ---- */

typedef struct {
    size_t symbol;
    uint32_t type;
} param;

typedef FLXI_VEC(param) param_list;

static flx_code parse_params(flxi_kparser *p, param_list *params)
{
    FLXI_TRY(flxi_kneed_mark(p, '('));
    while (!flxi_kis_mark(p, ')')) {
        param next;
        FLXI_TRY(flxi_kread_name(p, "a parameter", &next.symbol));
        FLXI_TRY(flxi_kneed_mark(p, ':'));
        FLXI_TRY(flxi_kread_type(p, &next.type));
        if (!flxi_push(p->mem, params, next))
            return flxi_kfail_memory(p);
        if (!flxi_ktake_mark(p, ','))
            break;
    }
    return flxi_kneed_mark(p, ')');
}

static flx_code parse_result(flxi_kparser *p, uint32_t fn, const char *at)
{
    uint32_t value;
    FLXI_TRY(flxi_kneed_mark(p, '{'));
    while (!(flxi_ktoken_is(&p->x.token, "return") && p->x.ahead.mark != FLXI_MARK(';', 0))) {
        if (p->x.token.kind == KT_END || flxi_kis_mark(p, '}'))
            return flxi_kexpected(p, "a statement or return");
        FLXI_TRY(parse_statement(p));
    }
    p->b->position = (uint32_t)(p->x.token.s - p->x.text) + 1;
    flxi_knext(p);
    FLXI_TRY(flxi_kparse_expr(p, p->b->fns.at[fn].type, &value));
    FLXI_TRY(flxi_kneed_mark(p, ';'));
    FLXI_TRY(flxi_kneed_mark(p, '}'));
    flxi_kb_result(p->b, value);
    return flxi_kcheck_builder(p, at);
}

/* The part before the parameters. */
typedef struct {
    const char *at;
    const char *name;
    size_t symbol;         /* of a function that can be called */
    uint32_t of, of_param; /* of an adjoint */
} function_head;

static flx_code parse_function(flxi_kparser *p, const function_head *head, param_list *params)
{
    uint32_t type;
    size_t mark = p->hidden.n;
    FLXI_TRY(parse_params(p, params));
    if (p->x.token.mark != FLXI_MARK('-', '>'))
        return flxi_kexpected(p, "'->' and a type");
    flxi_knext(p);
    FLXI_TRY(flxi_kread_type(p, &type));
    uint32_t fn = flxi_kb_function(p->b, head->name, type);
    if (head->of)
        flxi_kb_adjoint_of(p->b, head->of, head->of_param);
    FLXI_TRY(flxi_kcheck_builder(p, head->at));
    if (!head->of) {
        flxi_ksymbol *s = flxi_ksymbol_at(p, head->symbol);
        if (!s)
            return flxi_kfail_memory(p);
        if (!s->fn)
            s->fn = fn;
    }
    for (size_t i = 0; i < params->n; i++) {
        size_t symbol = params->at[i].symbol;
        uint32_t var = flxi_kb_param(p->b, flxi_ksymbol_text(p, symbol), params->at[i].type);
        FLXI_TRY(flxi_kcheck_builder(p, head->at));
        FLXI_TRY(flxi_kshow_var(p, symbol, var));
    }
    FLXI_TRY(parse_result(p, fn, head->at));
    flxi_kclose_scope(p, mark);
    return FLX_OK;
}

static flx_code parse_fn_head(flxi_kparser *p, function_head *head)
{
    flxi_ktoken t = p->x.token;
    char text[60];
    if (t.kind == KT_NAME && flxi_kname_is_callee(t.s, t.n))
        return flxi_kfail_at(p, t.s, "choose another name, or quote it here and where it is called",
                             "'%s' is the name of an op", flxi_printable(text, sizeof text, t.s, t.n));
    FLXI_TRY(flxi_kread_name(p, "a function's name", &head->symbol));
    head->name = flxi_ksymbol_text(p, head->symbol);
    return FLX_OK;
}

/* The parameter by its name, .p, or its number, [0]. */
static flx_code read_param(flxi_kparser *p, uint32_t fn, uint32_t *out)
{
    const flxi_kfn *f = &p->b->fns.at[fn];
    size_t symbol;
    uint64_t number;
    char text[60];
    if (flxi_ktake_mark(p, '[')) {
        FLXI_TRY(flxi_kread_u64(p, "a parameter's number", UINT32_MAX, &number));
        *out = (uint32_t)number;
        return flxi_kneed_mark(p, ']');
    }
    FLXI_TRY(flxi_kneed_mark(p, '.'));
    flxi_ktoken t = p->x.token;
    FLXI_TRY(flxi_kread_name(p, "a parameter", &symbol));
    for (uint32_t i = 0; i < f->num_params; i++)
        if (strcmp(p->b->vars.at[f->params[i]].name, flxi_ksymbol_text(p, symbol)) == 0) {
            *out = i;
            return FLX_OK;
        }
    return flxi_kfail_at(p, t.s, NULL, "the function has no parameter '%s'",
                         flxi_printable(text, sizeof text, t.s, t.n));
}

/* adjoint FUNCTION.PARAMETER [as NAME] */
static flx_code parse_adjoint_head(flxi_kparser *p, function_head *head)
{
    size_t symbol;
    flxi_ktoken t = p->x.token;
    char text[60];
    FLXI_TRY(flxi_kread_name(p, "a function", &symbol));
    const flxi_ksymbol *s = flxi_ksymbol_at(p, symbol);
    if (!s)
        return flxi_kfail_memory(p);
    head->of = s->fn;
    head->name = "";
    if (!head->of)
        return flxi_kfail_at(p, t.s, "declare it before its adjoints", "there is no function '%s'",
                             flxi_printable(text, sizeof text, t.s, t.n));
    FLXI_TRY(read_param(p, head->of, &head->of_param));
    if (flxi_ktake_word(p, "as")) {
        FLXI_TRY(flxi_kread_name(p, "a name", &symbol));
        head->name = flxi_ksymbol_text(p, symbol);
    }
    return FLX_OK;
}

static flx_code parse_fn(flxi_kparser *p)
{
    function_head head = {.at = p->x.token.s};
    param_list params = {0};
    bool adjoint = flxi_ktoken_is(&p->x.token, "adjoint");
    flxi_knext(p);
    FLXI_TRY(adjoint ? parse_adjoint_head(p, &head) : parse_fn_head(p, &head));
    flx_code code = parse_function(p, &head, &params);
    flxi_vec_free(p->mem, &params);
    return code;
}

/* ---- Kernels ---- */

static flx_code parse_kernel(flxi_kparser *p)
{
    uint32_t position = (uint32_t)(p->x.token.s - p->x.text) + 1;
    FLXI_TRY(flxi_kparse_header(p));
    p->b->k->position = position;
    while (is_declaration(p)) {
        p->b->position = (uint32_t)(p->x.token.s - p->x.text) + 1;
        if (flxi_ktoken_is(&p->x.token, "meta"))
            FLXI_TRY(flxi_kparse_meta(p));
        else
            FLXI_TRY(flxi_ktoken_is(&p->x.token, "buffer") ? flxi_kparse_buffer(p) : parse_fn(p));
    }
    FLXI_TRY(flxi_kbind_rest(p));
    while (!flxi_kis_mark(p, '}')) {
        if (p->x.token.kind == KT_END)
            return flxi_kexpected(p, "a statement or '}'");
        FLXI_TRY(parse_statement(p));
    }
    flxi_knext(p);
    if (flxi_ktoken_is(&p->x.token, "graph"))
        return flxi_kfail_at(
            p, p->x.token.s, "flx kernel reads files of one kernel; kernels of a graph file run by its graphs",
            "expected the end of the text after the kernel, found '%.*s'", (int)p->x.token.n, p->x.token.s);
    if (p->x.token.kind != KT_END)
        return flxi_kexpected(p, "the end of the text after the kernel");
    return FLX_OK;
}

/* The kernel that begins at an offset of the text and ends where the text does, and the notes about unknown names in
   it. */
static flx_kernel *read_text(flx_context *ctx, const char *text, size_t begin, size_t length, const char *file,
                             flxi_knotes *notes, flx_error *err)
{
    flx_error own = {0};
    flxi_kparser p = {.ctx = ctx, .file = file, .err = &own, .notes = *notes};
    flx_kernel *k = NULL;
    if (!ctx || (!text && length)) {
        flxi_fail(err, FLX_E_USAGE, "reading a kernel: context and text must not be NULL");
        return NULL;
    }
    p.mem = flxi_context_mem(ctx);
    text = text ? text : "";
    flxi_klex_start(&p.x, text, text + length, text + begin);
    flx_code code = length < UINT32_MAX ? parse_kernel(&p)
                                        : flxi_kfail_at(&p, text, NULL, "the text is too long: %zu bytes", length);
    if (code == FLX_OK)
        k = flxi_kb_finish(p.b, &own);
    else
        flxi_kb_free(p.b);
    notes->n = p.notes.n;
    flxi_kparser_free(&p);
    if (err && !k)
        *err = own;
    return k;
}

flx_kernel *flxi_kernel_parse_only(flx_context *ctx, const char *text, size_t length, const char *file, flx_error *err)
{
    flxi_knotes none = {0};
    return read_text(ctx, text, 0, length, file, &none, err);
}

void flxi_kernel_set_position(flx_error *err, const char *text, const char *file, uint32_t position)
{
    if (position)
        flxi_kset_where(err, text, file, text + position - 1);
}

/* The first error of the kernel: what validation finds, or the first noted name if it comes earlier. */
static flx_code check(const flx_kernel *k, const char *text, const char *file, const flxi_knotes *notes, flx_error *err)
{
    uint32_t position = 0;
    flx_code code = flxi_kernel_check_position(k, &position, err);
    if (code != FLX_OK && code != FLX_E_KERNEL)
        return code;
    if (notes->n && (code == FLX_OK || !position || position >= notes->at[0].statement)) {
        *err = notes->at[0].err;
        return (flx_code)err->code;
    }
    flxi_kernel_set_position(err, text, file, position);
    return code;
}

/* Replaces the findings of validation about unknown names. */
static void tell_names(flx_kernel_finding *findings, size_t n, flxi_knotes *notes)
{
    for (size_t i = 0; i < n; i++) {
        flxi_knote *note = notes->at;
        const flxi_knote *end = notes->at + notes->n;
        while (note < end &&
               (note->statement != findings[i].position || memcmp(note->err.message, findings[i].code, 3) != 0))
            note++;
        if (note == end)
            continue;
        findings[i].position = note->position;
        memcpy(findings[i].hint, note->err.hint, sizeof findings[i].hint);
        snprintf(findings[i].message, sizeof findings[i].message, "%s", note->err.message + 4);
        note->statement = 0;
    }
}

enum { MAX_NOTES = 32 };

flx_kernel *flx_kernel_parse_findings(flx_context *ctx, const char *text, size_t length, const char *file,
                                      flx_kernel_finding *findings, size_t room, size_t *found, flx_error *err)
{
    flxi_knote notes[MAX_NOTES];
    flxi_knotes list = {.at = notes, .room = MAX_NOTES};
    flx_error own = {0};
    size_t count = 0;
    flx_kernel *k = read_text(ctx, text, 0, length, file, &list, &own);
    flx_code code = k ? check(k, text, file, &list, &own) : (flx_code)own.code;
    if (k && (code == FLX_OK || code == FLX_E_KERNEL)) {
        flx_error again = {0};
        flx_code other = flx_kernel_validate(k, NULL, findings, room, &count, &again);
        if (other != FLX_OK && other != FLX_E_KERNEL) {
            own = again;
            code = other;
        }
        tell_names(findings, count < room ? count : room, &list);
    }
    if (found)
        *found = count;
    if (code == FLX_OK)
        return k;
    flx_kernel_release(k);
    if (err)
        *err = own;
    return NULL;
}

flx_kernel *flxi_kernel_parse_part(flx_context *ctx, const char *text, size_t begin, size_t end, const char *file,
                                   flx_error *err)
{
    flxi_knote first;
    flxi_knotes notes = {.at = &first, .room = 1};
    flx_error own = {0};
    flx_kernel *k = read_text(ctx, text, begin, end, file, &notes, &own);
    if (k && check(k, text, file, &notes, &own) != FLX_OK) {
        flx_kernel_release(k);
        k = NULL;
    }
    if (err && !k)
        *err = own;
    return k;
}

flx_kernel *flx_kernel_parse(flx_context *ctx, const char *text, size_t length, const char *file, flx_error *err)
{
    return flxi_kernel_parse_part(ctx, text, 0, length, file, err);
}
