/* SPDX-License-Identifier: Apache-2.0 */
/* parse_expr.c: expressions of the text form, read with an explicit stack instead of recursion: a file may nest calls
   to any depth without using the machine's stack.

   One frame per open call. Operands and attributes of all open calls are in two shared arrays; a frame stores where its
   own begin. A bare number is kept as text until its call closes, since its dtype comes from its neighbours; its
   constant is then made right before the call's node (print.c relies on that order). */
#include "graph/text/parse.h"

#include "graph/op/eval.h"
#include "graph/op/foreign_names.h"
#include "graph/text/typo.h"

#include <fluxion/catalogue.h>
#include <stdio.h>

typedef struct {
    uint32_t id;   /* 0: a bare number */
    int32_t dtype; /* of a bare number, once its call closes */
    flxi_literal number;
    const char *at;
} operand;

typedef struct {
    flxi_opcode op;
    const char *at;              /* of the op's name */
    size_t operands, attrs;      /* where this call's begin in the shared arrays */
    const flxi_attr *positional; /* the next attribute that is written without its name, or NULL */
    const flx_type *type;        /* given so far: literals need it */
} frame;

typedef struct {
    flxi_reader *r;
    const flxi_allocator *mem;
    FLXI_VEC(frame) frames;
    FLXI_VEC(operand) operands;
    FLXI_VEC(flx_attr) attrs;
    const char *label; /* of the statement: for errors of the outermost call */
} calls;

static flx_code no_memory(calls *c)
{
    return flxi_fail_at(c->r, c->r->x.token.s, FLX_E_OOM, NULL, "out of memory: an expression");
}

/* ---- Opening a call ---- */

/* Of ops here and elsewhere, the likeliest to be meant. */
static void suggest_near(flxi_reader *r, const flxi_token *t)
{
    flxi_typo typo = flxi_typo_begin(t->s, t->n, t->n / 3 + 1); /* further away it is another word */
    flx_foreign_view other, nearest = {0};
    for (uint32_t i = 1; i < flxi_op_rows; i++)
        if (!(flxi_ops[i].traits & TRAIT_DECLARED))
            flxi_typo_consider(&typo, flxi_ops[i].name, strlen(flxi_ops[i].name));
    if (typo.most > t->n / 3 + 1) /* a note is long and must be the right one */
        typo.most = t->n / 3 + 1;
    for (size_t i = 0; flx_foreign_name(i, &other) == FLX_OK; i++)
        if (t->n > 4 && flxi_typo_consider(&typo, other.name, strlen(other.name)))
            nearest = other;
    if (nearest.note && nearest.note[0])
        flxi_hint(flxi_parse_error(r), "%s", nearest.note);
    else if (typo.best)
        flxi_hint(flxi_parse_error(r), "did you mean %s? 'flx ops' lists all ops",
                  nearest.ours ? nearest.ours : typo.best);
    else
        flxi_hint(flxi_parse_error(r), "'flx ops' lists all ops");
}

static void suggest_op(flxi_reader *r, const flxi_token *t)
{
    char hint[120];
    flxi_named is = flxi_what_is(r, t);
    if (is == NAMED_GRAPH) {
        flxi_hint(flxi_parse_error(r), "it is a graph of this file: call(..., body=@%.60s)",
                  flxi_printable(hint, 64, t->s, t->n));
        return;
    }
    if (is == NAMED_KERNEL) {
        flxi_hint(flxi_parse_error(r), "it is a kernel of this file: kernel_call(..., kernel=@%.60s)",
                  flxi_printable(hint, 64, t->s, t->n));
        return;
    }
    if (flxi_foreign_hint(t->s, t->n, hint, sizeof hint)) {
        flxi_hint(flxi_parse_error(r), "%s", hint);
        return;
    }
    suggest_near(r, t);
}

static flx_code open_call(calls *c, const flxi_token *name)
{
    char text[60];
    flxi_opcode op = flxi_op_lookup(name->s, name->n);
    if (op == OP_NONE || (flxi_ops[op].traits & TRAIT_DECLARED)) {
        flx_code code = flxi_fail_at(c->r, name->s, FLX_E_NAME, NULL, "there is no op called '%s'",
                                     flxi_printable(text, sizeof text, name->s, name->n));
        suggest_op(c->r, name);
        return code;
    }
    frame f = {.op = op, .at = name->s, .operands = c->operands.n, .attrs = c->attrs.n};
    const flxi_attr *schema = flxi_ops[op].rules->schema;
    if (schema && schema->name && (schema->flags & ATTR_POSITIONAL))
        f.positional = schema;
    return flxi_push(c->mem, &c->frames, f) ? FLX_OK : no_memory(c);
}

/* ---- Attributes ---- */

static flx_code keep_attr(calls *c, frame *f, const flx_attr *value)
{
    if (value->kind == FLX_ATTR_TYPE)
        f->type = value->as.type;
    if (flxi_push(c->mem, &c->attrs, *value))
        return FLX_OK;
    if (value->kind == FLX_ATTR_TENSOR)
        flx_tensor_release((flx_tensor *)(uintptr_t)value->as.tensor);
    return no_memory(c);
}

static flx_code read_positional(calls *c, frame *f)
{
    flx_attr value;
    const flxi_attr *a = f->positional;
    FLXI_TRY(flxi_parse_attr(c->r, a, f->type, &value));
    value.key = a->name;
    f->positional = a[1].name && (a[1].flags & ATTR_POSITIONAL) ? a + 1 : NULL;
    return keep_attr(c, f, &value);
}

static flx_code read_attr(calls *c, frame *f, const flxi_token *key)
{
    flxi_reader *r = c->r;
    const flxi_op *op = &flxi_ops[f->op];
    char *name = flxi_arena_text(&r->scratch, key->s, key->n);
    if (!name)
        return no_memory(c);
    const char *real_name = flxi_attr_name_of(op, name);
    const flxi_attr *a = op->rules->schema;
    while (a && a->name && strcmp(a->name, real_name) != 0)
        a++;
    static const flxi_attr own = {.name = "its own", .kind = ATTR_STRING};
    if ((!a || !a->name) && flxi_has_own_attrs(op))
        a = &own;
    if (!a || !a->name) {
        flx_error err = {0};
        flxi_unknown_attr(op, name, &err);
        return flxi_pass_at(r, key->s, &err);
    }
    if (f->positional == a)
        f->positional = a[1].name && (a[1].flags & ATTR_POSITIONAL) ? a + 1 : NULL;
    flx_attr value;
    FLXI_TRY(flxi_parse_attr(r, a, f->type, &value));
    value.key = name;
    return keep_attr(c, f, &value);
}

/* ---- Closing a call ---- */

static bool is_bare(const void *user, uint32_t k)
{
    return ((const operand *)user)[k].id == 0;
}

/* The dtype a bare number takes among the operands of its call. */
static int32_t number_dtype(const calls *c, const frame *f, size_t i)
{
    const operand *own = &c->operands.at[f->operands];
    uint32_t k = (uint32_t)(i - f->operands);
    const flxi_token *t = &own[k].number.token;
    uint32_t anchor = flxi_number_anchor(&flxi_ops[f->op], k, (uint32_t)(c->operands.n - f->operands), is_bare, own);
    if (anchor != UINT32_MAX)
        return flxi_type_at(c->r->g, own[anchor].id)->dtype;
    return flxi_number_dtype(&flxi_ops[f->op], k, flxi_is_word(t, "true") || flxi_is_word(t, "false"));
}

static flx_code make_constant(calls *c, const flxi_literal *number, int32_t dtype, uint32_t *id)
{
    flxi_reader *r = c->r;
    flx_error err = {0};
    flx_type type = {.dtype = dtype};
    void *attrs;
    flx_tensor *t = flx_tensor_new(r->g->ctx, &type, NULL, &err);
    if (!t)
        return flxi_pass_at(r, number->at, &err);
    flx_attr given[] = {{.key = "type", .kind = FLX_ATTR_TYPE, .as.type = &type},
                        {.key = "data", .kind = FLX_ATTR_TENSOR, .as.tensor = t}};
    flx_code code = flxi_store_literal(r, number, dtype, t->data, 0);
    if (code == FLX_OK && flxi_attrs_fill(r->g, &flxi_ops[flxi_const_op()], given, 2, &attrs, &err) != FLX_OK)
        code = flxi_pass_at(r, number->at, &err);
    if (code == FLX_OK) {
        *id = flxi_add_node(r->g, flxi_const_op(), NULL, 0, attrs);
        if (!*id)
            code = flxi_pass_at(r, number->at, &r->g->error);
    }
    flx_tensor_release(t);
    return code;
}

static void release_attrs(calls *c, size_t from)
{
    for (size_t i = from; i < c->attrs.n; i++)
        if (c->attrs.at[i].kind == FLX_ATTR_TENSOR)
            flx_tensor_release((flx_tensor *)(uintptr_t)c->attrs.at[i].as.tensor);
    c->attrs.n = from;
}

/* Makes the node of the innermost call. */
static flx_code close_call(calls *c, uint32_t *first, uint32_t *count)
{
    flxi_reader *r = c->r;
    frame f = c->frames.at[c->frames.n - 1];
    flx_error err = {0};
    void *attrs;
    for (size_t i = f.operands; i < c->operands.n; i++) /* dtypes first: a constant is no longer a bare number */
        c->operands.at[i].dtype = c->operands.at[i].id ? FLX_DTYPE_NONE : number_dtype(c, &f, i);
    for (size_t i = f.operands; i < c->operands.n; i++)
        if (!c->operands.at[i].id)
            FLXI_TRY(make_constant(c, &c->operands.at[i].number, c->operands.at[i].dtype, &c->operands.at[i].id));
    size_t nin = c->operands.n - f.operands;
    uint32_t *in = flxi_new(&r->scratch, uint32_t, nin);
    if (!in)
        return no_memory(c);
    for (size_t i = 0; i < nin; i++)
        in[i] = c->operands.at[f.operands + i].id;
    r->g->pending_label = c->frames.n == 1 ? c->label : NULL;
    const flx_attr *given = c->attrs.at ? c->attrs.at + f.attrs : NULL;
    flx_code code = flxi_attrs_fill(r->g, &flxi_ops[f.op], given, c->attrs.n - f.attrs, &attrs, &err);
    if (code == FLX_OK) {
        *first = flxi_add_node(r->g, f.op, in, (uint32_t)nin, attrs);
        if (!*first)
            err = r->g->error;
    }
    r->g->pending_label = NULL;
    if (err.code)
        return flxi_pass_at(r, f.at, &err);
    *count = flxi_node_at(r->g, r->g->node_count - 1)->nout;
    release_attrs(c, f.attrs);
    c->operands.n = f.operands;
    c->frames.n--;
    return FLX_OK;
}

/* ---- The loop ---- */

static bool mark_follows(const flxi_reader *r, char mark)
{
    flxi_lexer ahead = r->x;
    flxi_lex_next(&ahead);
    return flxi_is_mark(&ahead.token, mark);
}

/* Reads one atom: a number, a name, or the opening of a call. *opened: it is the opening of a call. */
static flx_code read_atom(calls *c, operand *out, bool *opened)
{
    flxi_reader *r = c->r;
    flxi_token t = r->x.token;
    *out = (operand){.at = t.s};
    *opened = false;
    if (flxi_at_number(r))
        return flxi_parse_number(r, &out->number);
    const flxi_op *op = c->frames.n ? &flxi_ops[c->frames.at[c->frames.n - 1].op] : NULL;
    if (t.kind != TOKEN_NAME) {
        flx_code code = flxi_expected(r, "a value: a name, a number or a call");
        if (flxi_is_mark(&t, '@') || flxi_is_mark(&t, '[') || flxi_is_mark(&t, '('))
            flxi_hint_operand(r, op);
        return code;
    }
    if (mark_follows(r, '(')) {
        *opened = true;
        flxi_lex_next(&r->x);
        flxi_lex_next(&r->x);
        return open_call(c, &t);
    }
    out->id = flxi_find_value(r, t.s, t.n);
    if (!out->id) {
        char text[60];
        flx_code code = flxi_fail_at(r, t.s, FLX_E_NAME, NULL, "the name '%s' is not defined here",
                                     flxi_printable(text, sizeof text, t.s, t.n));
        flxi_hint_undefined(r, &t, op);
        return code;
    }
    flxi_lex_next(&r->x);
    return FLX_OK;
}

/* Reads attributes and separators of the innermost call until an operand is due (*due) or the call ends. */
static flx_code read_arguments(calls *c, bool is_first, bool *due)
{
    flxi_reader *r = c->r;
    *due = false;
    while (!flxi_is_mark(&r->x.token, ')')) {
        if (!is_first) {
            if (!flxi_is_mark(&r->x.token, ','))
                return flxi_expected(r, "',' or ')'");
            flxi_lex_next(&r->x);
            if (flxi_is_mark(&r->x.token, ')'))
                return FLX_OK;
        }
        is_first = false;
        frame *f = &c->frames.at[c->frames.n - 1];
        flxi_token t = r->x.token;
        if (t.kind == TOKEN_NAME && mark_follows(r, '=')) {
            flxi_lex_next(&r->x);
            flxi_lex_next(&r->x);
            FLXI_TRY(read_attr(c, f, &t));
        } else if (f->positional) {
            FLXI_TRY(read_positional(c, f));
        } else {
            if (c->attrs.n > f->attrs && !(flxi_ops[f->op].rules->schema->flags & ATTR_POSITIONAL))
                return flxi_fail_at(r, t.s, FLX_E_SYNTAX, NULL, "operands come before attributes");
            *due = true;
            return FLX_OK;
        }
    }
    return FLX_OK;
}

/* A call inside a call must return exactly one value. */
static flx_code check_nested(calls *c, const char *at, uint32_t count)
{
    if (c->frames.n == 0 || count == 1)
        return FLX_OK;
    return flxi_fail_at(c->r, at, FLX_E_ARITY, "write it as a statement: a, b = op(...)",
                        "a call inside an expression must have one result, not %u", count);
}

static flx_code read_calls(calls *c, uint32_t *first, uint32_t *count)
{
    for (;;) {
        operand value;
        bool opened;
        FLXI_TRY(read_atom(c, &value, &opened));
        bool fresh = opened; /* the call was just opened: no separator yet */
        bool is_due = false;
        *count = 1;
        if (!opened && c->frames.n == 0) { /* the whole expression is a name or a number */
            if (value.id) {
                *first = value.id;
                return FLX_OK;
            }
            bool truth = flxi_is_word(&value.number.token, "true") || flxi_is_word(&value.number.token, "false");
            return make_constant(c, &value.number, truth ? FLX_BOOL : FLX_F32, first);
        }
        if (!opened && !flxi_push(c->mem, &c->operands, value))
            return no_memory(c);
        for (;;) { /* close every call that ends here */
            FLXI_TRY(read_arguments(c, fresh, &is_due));
            if (is_due)
                break;
            flxi_lex_next(&c->r->x); /* ) */
            const char *at = c->frames.at[c->frames.n - 1].at;
            FLXI_TRY(close_call(c, first, count));
            FLXI_TRY(check_nested(c, at, *count));
            if (c->frames.n == 0)
                return FLX_OK;
            if (!flxi_push(c->mem, &c->operands, ((operand){.id = *first, .at = at})))
                return no_memory(c);
            fresh = false;
        }
    }
}

flx_code flxi_parse_expr(flxi_reader *r, const char *label, uint32_t *first, uint32_t *count, bool *is_name)
{
    calls c = {.r = r, .mem = &r->g->ctx->mem, .label = label};
    *is_name = r->x.token.kind == TOKEN_NAME && !mark_follows(r, '(') && !flxi_at_number(r);
    flx_code code = read_calls(&c, first, count);
    release_attrs(&c, 0);
    flxi_vec_free(c.mem, &c.frames);
    flxi_vec_free(c.mem, &c.operands);
    flxi_vec_free(c.mem, &c.attrs);
    return code;
}
