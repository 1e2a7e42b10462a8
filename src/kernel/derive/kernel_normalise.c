/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_normalise.c: three-address form without calls, regions and returns, as derivatives need it. */
#include "kernel/derive/kernel_normalise.h"

#include "kernel/derive/kernel_extension_rule.h"
#include "kernel/program/kernel_extension.h"

/* An asynchronous copy: the operands of its start, kept until the wait. */
typedef struct {
    const flxi_ks *start;
    uint32_t on, offset, size; /* variables */
} copy;

/* An extension with derivatives, on operands of the same types as in this expression. */
typedef struct {
    uint32_t expr, fn;
} wrapped;

typedef struct {
    const flx_kernel *k;
    flxi_kb *b;
    flxi_arena scratch;
    FLXI_VEC(copy) copies;
    FLXI_VEC(wrapped) wraps;
    uint32_t *vars;    /* by variable of k: the variable that replaces it */
    uint32_t *hoisted; /* by expression of k: the leaf of a load that was moved to the top, or 0 */
    uint8_t *written;  /* by buffer of k */
    uint32_t live;     /* a bool variable that a return clears, 0 while no return needs it */
    int calls;         /* depth of inlined calls */
    bool stops;        /* inside a region marked stop_gradient */
    bool whole;        /* false: only a fragment is emitted, and all functions are inlined */
} normaliser;

static void list_of(normaliser *z, flxi_klist list);

/* ---- Expressions ---- */

static uint32_t leaf_of(normaliser *z, uint32_t expr);

/* A leaf that holds e: e itself, or a new variable. */
static uint32_t bind(normaliser *z, const char *name, uint32_t e)
{
    const flxi_kx *x = flxi_kb_expr(z->b, e);
    if (!e || flxi_kx_is_leaf(x))
        return e;
    return flxi_kb_var(z->b, flxi_kb_let(z->b, flxi_kb_fresh_name(z->b, name), e));
}

uint32_t flxi_kernel_adjoint_fn(const flx_kernel *k, uint32_t fn, uint32_t param)
{
    for (uint32_t i = 1; i <= k->num_fns; i++)
        if (k->fns[i].adjoint_of == fn + 1 && k->fns[i].adjoint_param == param)
            return i;
    return 0;
}

static bool has_own_derivative(const flx_kernel *k, uint32_t fn)
{
    for (uint32_t i = 1; i <= k->num_fns; i++)
        if (k->fns[i].adjoint_of == fn + 1)
            return true;
    return false;
}

static uint32_t inline_call(normaliser *z, uint32_t fn, const uint32_t *args)
{
    const flxi_kfn *f = &z->k->fns[fn];
    if (++z->calls > FLXI_KERNEL_MAX_CALLS) {
        if (flxi_kb_ok(z->b))
            flxi_kernel_fail(&z->b->err, "K63", "inline some of the functions", "calls are nested more than %d deep",
                             FLXI_KERNEL_MAX_CALLS);
        return 0;
    }
    for (uint32_t i = 0; i < f->num_params; i++) {
        const char *name = flxi_kb_fresh_name(z->b, z->k->vars[f->params[i]].name);
        z->vars[f->params[i]] = flxi_kb_let(z->b, name, args[i]);
    }
    uint32_t position = z->b->position;
    list_of(z, f->body);
    uint32_t result = leaf_of(z, f->result);
    z->b->position = position;
    z->calls--;
    return result;
}

/* Whether the derivative of a value, or the value itself, can be infinite: then a zero adjoint must not reach it. */
static bool may_overflow(const flx_kernel *k, uint32_t expr)
{
    const flxi_kx *e = &k->exprs[expr];
    switch ((flxi_kx_kind)e->kind) {
    case KX_CAST: return may_overflow(k, e->x[0]);
    case KX_SELECT: return may_overflow(k, e->x[1]) || may_overflow(k, e->x[2]);
    case KX_UNARY: return e->op != KUN_neg || may_overflow(k, e->x[0]);
    case KX_BINARY:
        if (e->op == KBIN_mul && k->exprs[e->x[0]].kind == KX_LITERAL)
            return may_overflow(k, e->x[1]);
        if (e->op == KBIN_mul && k->exprs[e->x[1]].kind == KX_LITERAL)
            return may_overflow(k, e->x[0]);
        return (e->op != KBIN_add && e->op != KBIN_sub) || may_overflow(k, e->x[0]) || may_overflow(k, e->x[1]);
    case KX_FMA:
    case KX_OPAQUE:
    case KX_CALL: return true;
    default: return false;
    }
}

/* select(c, a, b) as a branch: the derivative of the arm that is not taken is never computed, so an infinite one cannot
   meet the zero that comes back to it. */
static uint32_t branch_of(normaliser *z, const flxi_kx *e)
{
    flxi_kb *b = z->b;
    uint32_t condition = leaf_of(z, e->x[0]);
    uint32_t chosen = flxi_kb_let(b, flxi_kb_fresh_name(b, "chosen"), flxi_kb_literal(b, e->type, 0));
    flxi_kb_if(b, condition);
    flxi_kb_assign(b, chosen, leaf_of(z, e->x[1]));
    flxi_kb_else(b);
    flxi_kb_assign(b, chosen, leaf_of(z, e->x[2]));
    flxi_kb_end(b);
    return flxi_kb_var(b, chosen);
}

static bool is_branched(const normaliser *z, uint32_t expr)
{
    const flxi_kx *e = &z->k->exprs[expr];
    return e->kind == KX_SELECT && flxi_ktype_is_float(e->type) && !(e->does & (KX_ATOMICS | KX_SUBGROUP)) &&
           may_overflow(z->k, expr) && z->b->frames.n + 8 < FLXI_KERNEL_MAX_NESTING;
}

static bool same_operands(const flx_kernel *k, const flxi_kx *a, const flxi_kx *b)
{
    bool is_same = a->ref == b->ref && a->num_args == b->num_args;
    for (size_t i = 0; is_same && i < a->num_args; i++)
        is_same = k->exprs[a->args[i]].type == k->exprs[b->args[i]].type;
    return is_same;
}

/* The function that represents an extension, or 0. */
static uint32_t wrapper_of(const normaliser *z, const flxi_kx *e)
{
    for (size_t i = 0; i < z->wraps.n; i++)
        if (same_operands(z->k, &z->k->exprs[z->wraps.at[i].expr], e))
            return z->wraps.at[i].fn;
    return 0;
}

static uint32_t extension_of(normaliser *z, const flxi_kx *e, const uint32_t *args)
{
    uint32_t fn = wrapper_of(z, e);
    if (fn)
        return flxi_kb_call(z->b, fn, args, e->num_args);
    return flxi_kb_opaque(z->b, flxi_kb_add_opaque(z->b, &z->k->opaques[e->ref]), args, e->num_args);
}

/* The value in one operation. */
static uint32_t value_of(normaliser *z, uint32_t expr)
{
    if (!flxi_kb_ok(z->b) || expr == 0)
        return 0;
    const flxi_kx *e = &z->k->exprs[expr];
    if (z->hoisted && z->hoisted[expr])
        return z->hoisted[expr];
    if (e->kind == KX_VAR)
        return flxi_kb_var(z->b, z->vars[e->ref]);
    if (is_branched(z, expr))
        return branch_of(z, e);
    uint32_t x[3] = {0}, *args = NULL;
    for (int i = 0; i < flxi_kx_operands(e); i++)
        x[i] = leaf_of(z, e->x[i]);
    if (e->num_args && !(args = flxi_new(&z->scratch, uint32_t, e->num_args))) {
        flxi_oom(&z->b->err, "a kernel");
        return 0;
    }
    for (size_t i = 0; i < e->num_args; i++)
        args[i] = leaf_of(z, e->args[i]);
    if (e->kind == KX_CALL && !(z->whole && has_own_derivative(z->k, e->ref)))
        return inline_call(z, e->ref, args);
    if (e->kind == KX_OPAQUE)
        return extension_of(z, e, args);
    return flxi_kb_rebuild(z->b, e, x, args);
}

static uint32_t leaf_of(normaliser *z, uint32_t expr)
{
    return bind(z, "t", value_of(z, expr));
}

/* An assigned or stored value: a leaf, without derivative inside a region that has none. */
static uint32_t outgoing(normaliser *z, uint32_t expr)
{
    uint32_t e = leaf_of(z, expr);
    if (!z->stops || !flxi_ktype_is_float(flxi_kb_type(z->b, e)))
        return e;
    return bind(z, "t", flxi_kb_unary(z->b, KUN_stop_gradient, e));
}

/* ---- Returns ---- */

static bool may_return(flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++)
        if (list.at[i].kind == KS_RETURN || may_return(list.at[i].body) || may_return(list.at[i].other))
            return true;
    return false;
}

/* Ends in a return and contains no other. */
static bool returns_at_end(flxi_klist list)
{
    return list.n > 0 && list.at[list.n - 1].kind == KS_RETURN && !may_return((flxi_klist){list.at, list.n - 1});
}

/* `if (c) { A; return; } rest` is `if (c) { A } else { rest }`; true if s has this form and everything was emitted. */
static bool return_as_else(normaliser *z, const flxi_ks *s, flxi_klist rest)
{
    bool is_first = s->kind == KS_IF && returns_at_end(s->body) && !may_return(s->other);
    bool is_second = s->kind == KS_IF && returns_at_end(s->other) && !may_return(s->body);
    if (!is_first && !is_second)
        return false;
    flxi_kb_if(z->b, leaf_of(z, s->a));
    list_of(z, s->body);
    if (!is_first)
        list_of(z, rest);
    flxi_kb_else(z->b);
    list_of(z, s->other);
    if (is_first)
        list_of(z, rest);
    flxi_kb_end(z->b);
    return true;
}

/* ---- Statements ---- */

static void loop_of(normaliser *z, const flxi_ks *s)
{
    uint32_t from = leaf_of(z, s->a), to = leaf_of(z, s->b);
    const char *name = flxi_kb_fresh_name(z->b, z->k->vars[s->var].name);
    z->vars[s->var] = flxi_kb_loop(z->b, name, from, to);
    bool is_guarded = may_return(s->body);
    if (is_guarded)
        flxi_kb_if(z->b, flxi_kb_var(z->b, z->live));
    list_of(z, s->body);
    if (is_guarded)
        flxi_kb_end(z->b);
    flxi_kb_end(z->b);
}

static void region_of(normaliser *z, const flxi_ks *s)
{
    const unsigned choices = FLX_KERNEL_REGION_RECOMPUTE | FLX_KERNEL_REGION_RECORD;
    bool stops = z->stops;
    uint16_t marks = z->b->marks;
    z->stops |= (s->flags & FLX_KERNEL_REGION_STOP_GRADIENT) != 0;
    if (s->flags & choices)
        z->b->marks = (uint16_t)(s->flags & choices);
    list_of(z, s->body);
    z->stops = stops;
    z->b->marks = marks;
}

/* ---- Asynchronous copies: they take effect where they are waited for, element by element ---- */

static void find_copies(normaliser *z, flxi_klist list)
{
    flxi_kb *b = z->b;
    for (size_t i = 0; i < list.n && flxi_kb_ok(b); i++) {
        const flxi_ks *s = &list.at[i];
        if (s->kind == KS_ASYNC_LOAD || s->kind == KS_ASYNC_STORE) {
            copy c = {.start = s};
            c.on = flxi_kb_let(b, flxi_kb_fresh_name(b, "copying"), flxi_kb_bool(b, false));
            c.offset = flxi_kb_let(b, flxi_kb_fresh_name(b, "offset"), flxi_kb_u32(b, 0));
            c.size = flxi_kb_let(b, flxi_kb_fresh_name(b, "size"), flxi_kb_u32(b, 0));
            if (z->k->buffers[s->buffer].element != z->k->buffers[s->target].element)
                flxi_kernel_fail(&b->err, "unsupported statement", "copy between buffers of the same element type",
                                 "copy '%.60s' changes the element type", s->text);
            if (!flxi_push(flxi_kernel_mem(z->k), &z->copies, c))
                flxi_oom(&b->err, "a kernel");
        }
        find_copies(z, s->body);
        find_copies(z, s->other);
    }
}

static void start_of(normaliser *z, const flxi_ks *s)
{
    for (size_t i = 0; i < z->copies.n; i++) {
        const copy *c = &z->copies.at[i];
        if (c->start != s)
            continue;
        uint32_t width = flxi_kb_u32(z->b, (uint32_t)flxi_ktype_bytes(z->k->buffers[s->buffer].element, 1));
        flxi_kb_assign(z->b, c->offset, bind(z, "t", flxi_kb_binary(z->b, KBIN_div, leaf_of(z, s->a), width)));
        flxi_kb_assign(z->b, c->size, bind(z, "t", flxi_kb_binary(z->b, KBIN_div, leaf_of(z, s->b), width)));
        flxi_kb_assign(z->b, c->on, flxi_kb_bool(z->b, true));
    }
}

static void copy_now(normaliser *z, const copy *c)
{
    flxi_kb *b = z->b;
    bool to_storage = c->start->kind == KS_ASYNC_STORE;
    flxi_kb_if(b, flxi_kb_var(b, c->on));
    flxi_kb_assign(b, c->on, flxi_kb_bool(b, false));
    uint32_t n = flxi_kb_loop(b, flxi_kb_fresh_name(b, "n"), flxi_kb_u32(b, 0), flxi_kb_var(b, c->size));
    uint32_t near = flxi_kb_var(b, n);
    uint32_t far = bind(z, "t", flxi_kb_binary(b, KBIN_add, flxi_kb_var(b, c->offset), near));
    uint32_t from = to_storage ? near : far, to = to_storage ? far : near;
    uint32_t inside = bind(z, "t", flxi_kb_binary(b, KBIN_lt, from, flxi_kb_length(b, c->start->buffer)));
    flxi_kb_if(b, inside); /* a copy ends at the end of its source */
    flxi_kb_store(b, c->start->target, to, bind(z, "t", flxi_kb_load(b, c->start->buffer, from)));
    flxi_kb_end(b);
    flxi_kb_end(b);
    flxi_kb_end(b);
}

static void wait_of(normaliser *z, const flxi_ks *s)
{
    for (size_t i = 0; i < z->copies.n; i++)
        if (strcmp(z->copies.at[i].start->text, s->text) == 0)
            copy_now(z, &z->copies.at[i]);
}

static void trap_of(normaliser *z, const flxi_ks *s)
{
    flxi_ks t = *s;
    t.a = leaf_of(z, s->a);
    flxi_kb_simple(z->b, &t);
}

static void statement_of(normaliser *z, const flxi_ks *s)
{
    flxi_kb *b = z->b;
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET: {
        uint32_t value = value_of(z, s->a);
        z->vars[s->var] = flxi_kb_let(b, flxi_kb_fresh_name(b, z->k->vars[s->var].name), value);
        break;
    }
    case KS_ASSIGN: flxi_kb_assign(b, z->vars[s->var], outgoing(z, s->a)); break;
    case KS_STORE: {
        uint32_t index = leaf_of(z, s->a);
        flxi_kb_store(b, s->buffer, index, outgoing(z, s->b));
        break;
    }
    case KS_EFFECT: flxi_kb_effect(b, value_of(z, s->a)); break;
    case KS_IF:
        flxi_kb_if(b, leaf_of(z, s->a));
        list_of(z, s->body);
        flxi_kb_else(b);
        list_of(z, s->other);
        flxi_kb_end(b);
        break;
    case KS_LOOP: loop_of(z, s); break;
    case KS_BLOCK:
    case KS_REGION: region_of(z, s); break;
    case KS_RETURN: flxi_kb_assign(b, z->live, flxi_kb_bool(b, false)); break;
    case KS_TRAP: trap_of(z, s); break;
    case KS_ASYNC_LOAD:
    case KS_ASYNC_STORE: start_of(z, s); break;
    case KS_ASYNC_WAIT: wait_of(z, s); break;
    case KS_OPAQUE: {
        flxi_ks t = *s;
        t.opaque = flxi_kb_add_opaque(b, &z->k->opaques[s->opaque]);
        flxi_kb_simple(b, &t);
        break;
    }
    default: flxi_kb_simple(b, s);
    }
}

static void list_of(normaliser *z, flxi_klist list)
{
    for (size_t i = 0; i < list.n && flxi_kb_ok(z->b); i++) {
        const flxi_ks *s = &list.at[i];
        flxi_klist rest = {list.at + i + 1, list.n - i - 1};
        z->b->position = s->position;
        if (s->kind == KS_RETURN) {
            if (z->live)
                statement_of(z, s);
            return;
        }
        if (!may_return((flxi_klist){s, 1})) {
            statement_of(z, s);
            continue;
        }
        if (!z->live && return_as_else(z, s, rest))
            return;
        statement_of(z, s);
        if (rest.n == 0)
            return;
        flxi_kb_if(z->b, flxi_kb_var(z->b, z->live));
        list_of(z, rest);
        flxi_kb_end(z->b);
        return;
    }
}

/* Whether every return can be expressed by an else branch: then no variable is needed. */
static bool returns_are_simple(flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        if (s->kind == KS_RETURN)
            return true;
        if (!may_return((flxi_klist){s, 1}))
            continue;
        flxi_klist rest = {list.at + i + 1, list.n - i - 1};
        if (s->kind == KS_BLOCK || s->kind == KS_REGION)
            return returns_are_simple(s->body) && rest.n == 0;
        if (s->kind != KS_IF)
            return false;
        bool is_first = returns_at_end(s->body) && !may_return(s->other);
        bool is_second = returns_at_end(s->other) && !may_return(s->body);
        return (is_first || is_second) && returns_are_simple(rest);
    }
    return true;
}

/* ---- Loads that serve a whole workgroup ---- */

static void mark_written(normaliser *z, flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        if (s->kind == KS_STORE)
            z->written[s->buffer] = 1;
        if (s->kind == KS_ASYNC_LOAD || s->kind == KS_ASYNC_STORE || s->kind == KS_COLLECTIVE)
            z->written[s->target] = 1;
        mark_written(z, s->body);
        mark_written(z, s->other);
    }
}

static bool serves_workgroup(const normaliser *z, uint32_t expr)
{
    const flxi_kx *e = &z->k->exprs[expr];
    switch ((flxi_kx_kind)e->kind) {
    case KX_LITERAL:
    case KX_LENGTH: return true;
    case KX_ID: return e->op == FLX_KERNEL_WORKGROUP_ID || e->op == FLX_KERNEL_NUM_WORKGROUPS;
    case KX_UNARY: return serves_workgroup(z, e->x[0]);
    case KX_BINARY: return serves_workgroup(z, e->x[0]) && serves_workgroup(z, e->x[1]);
    default: return false;
    }
}

static void hoist_loads(normaliser *z)
{
    const flx_kernel *k = z->k;
    for (uint32_t i = 1; i <= k->num_exprs; i++)
        if (k->exprs[i].kind == KX_ATOMIC)
            z->written[k->exprs[i].ref] = 1;
    mark_written(z, k->body);
    for (uint32_t i = 1; i <= k->num_exprs && flxi_kb_ok(z->b); i++) {
        const flxi_kx *e = &k->exprs[i];
        uint8_t access = e->kind == KX_LOAD ? k->buffers[e->ref].access : 0;
        bool is_bound = access == FLX_KERNEL_READ || access == FLX_KERNEL_READ_WRITE || access == FLX_KERNEL_UNIFORM;
        if (is_bound && !z->written[e->ref] && flxi_ktype_is_float(e->type) && serves_workgroup(z, e->x[0]))
            z->hoisted[i] = bind(z, k->buffers[e->ref].name, value_of(z, i));
    }
}

/* ---- Functions ---- */

uint32_t flxi_kernel_inline_call(flxi_kb *b, const flx_kernel *k, uint32_t fn, const uint32_t *args, flx_error *err)
{
    normaliser z = {.k = k, .b = b};
    flxi_arena_init(&z.scratch, flxi_kernel_mem(k));
    z.vars = flxi_new(&z.scratch, uint32_t, k->num_vars + 1);
    uint32_t result = 0;
    if (z.vars)
        result = inline_call(&z, fn, args);
    else
        flxi_oom(err, "a kernel");
    flxi_arena_free(&z.scratch);
    return result;
}

/* A function's expressions and variables, unchanged; with `of` as the derivative of that function. */
static uint32_t copy_function(normaliser *z, const flxi_kfn *f, const char *name, uint32_t of)
{
    flxi_kb *b = z->b;
    uint32_t number = flxi_kb_function(b, name, f->type);
    if (of)
        flxi_kb_adjoint_of(b, of, f->adjoint_param);
    for (uint32_t i = 0; i < f->num_params; i++) {
        const flxi_kvar *p = &z->k->vars[f->params[i]];
        z->vars[f->params[i]] = flxi_kb_param(b, flxi_kb_fresh_name(b, p->name), p->type);
    }
    list_of(z, f->body);
    flxi_kb_result(b, leaf_of(z, f->result));
    return number;
}

uint32_t flxi_kernel_copy_rule(flxi_kb *b, const flx_kernel *d, const char *name)
{
    normaliser z = {.k = d, .b = b};
    uint32_t self = 0;
    flxi_arena_init(&z.scratch, flxi_kernel_mem(d));
    z.vars = flxi_new(&z.scratch, uint32_t, d->num_vars + 1);
    if (!z.vars)
        flxi_oom(&b->err, "a kernel");
    else
        self = copy_function(&z, &d->fns[1], flxi_kb_fresh_name(b, name), 0);
    for (uint32_t i = 2; i <= d->num_fns && flxi_kb_ok(b); i++)
        if (d->fns[i].adjoint_of == 2)
            copy_function(&z, &d->fns[i], "", self);
    flxi_arena_free(&z.scratch);
    return flxi_kb_ok(b) ? self : 0;
}

void flxi_kernel_copy_functions(flxi_kb *b, const flx_kernel *k)
{
    normaliser z = {.k = k, .b = b};
    flxi_arena_init(&z.scratch, flxi_kernel_mem(k));
    z.vars = flxi_new(&z.scratch, uint32_t, k->num_vars + 1);
    if (!z.vars && flxi_kb_ok(b))
        flxi_oom(&b->err, "a kernel");
    for (uint32_t i = 1; i <= k->num_fns && flxi_kb_ok(b); i++)
        copy_function(&z, &k->fns[i], k->fns[i].name, k->fns[i].adjoint_of ? k->fns[i].adjoint_of - 1 : 0);
    flxi_arena_free(&z.scratch);
}

/* Functions that are never called are dropped with other dead code. */
static void wrap_extensions(normaliser *z)
{
    const flx_kernel *k = z->k;
    for (uint32_t i = 1; i <= k->num_exprs && flxi_kb_ok(z->b); i++) {
        const flxi_kx *e = &k->exprs[i];
        const flxi_kextension *known = e->kind == KX_OPAQUE ? k->opaques[e->ref].known : NULL;
        if (!known || !known->is.derivative || !flxi_ktype_is_float(e->type) || wrapper_of(z, e))
            continue;
        wrapped w = {i, flxi_kextension_function(z->b, k, e)};
        if (w.fn && !flxi_push(flxi_kernel_mem(k), &z->wraps, w))
            flxi_oom(&z->b->err, "a kernel");
    }
}

/* ---- The whole ---- */

static flx_kernel *normalise_into(normaliser *z, flx_error *err)
{
    const flx_kernel *k = z->k;
    z->vars = flxi_new(&z->scratch, uint32_t, k->num_vars + 1);
    z->hoisted = flxi_new(&z->scratch, uint32_t, k->num_exprs + 1);
    z->written = flxi_new(&z->scratch, uint8_t, k->num_buffers + 1);
    if (!z->vars || !z->hoisted || !z->written)
        flxi_oom(&z->b->err, "a kernel");
    for (uint32_t i = 1; i <= k->num_buffers; i++)
        flxi_kb_buffer(z->b, &k->buffers[i]);
    flxi_kernel_copy_functions(z->b, k);
    if (flxi_kb_ok(z->b))
        wrap_extensions(z);
    if (flxi_kb_ok(z->b))
        hoist_loads(z);
    if (flxi_kb_ok(z->b) && may_return(k->body) && !returns_are_simple(k->body))
        z->live = flxi_kb_let(z->b, flxi_kb_fresh_name(z->b, "live"), flxi_kb_bool(z->b, true));
    if (flxi_kb_ok(z->b))
        find_copies(z, k->body);
    if (flxi_kb_ok(z->b))
        list_of(z, k->body);
    flxi_vec_free(flxi_kernel_mem(k), &z->copies);
    flxi_vec_free(flxi_kernel_mem(k), &z->wraps);
    return flxi_kb_finish(z->b, err);
}

flx_kernel *flxi_kernel_normalise(const flx_kernel *k, flx_error *err)
{
    normaliser z = {.k = k, .b = flxi_kb_like(k, err), .whole = true};
    if (!z.b)
        return NULL;
    flxi_arena_init(&z.scratch, flxi_kernel_mem(k));
    flx_kernel *n = normalise_into(&z, err);
    flxi_arena_free(&z.scratch);
    return n;
}
