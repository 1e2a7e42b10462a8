/* SPDX-License-Identifier: Apache-2.0 */
/* host_op.c: operations that a program registers: the list of them in a context, and the rules of the op `custom`,
   which call the functions of the operation it refers to. */
#include "ops/custom/host_op.h"

#include "base/options.h"
#include "base/registry.h"
#include "graph/op/eval.h"
#include "graph/op/infer.h"
#include "graph/op/own_attrs.h"
#include "graph/op/site.h"
#include "graph/op/work.h"
#include "ops/rule/link.h"

#include <fluxion/custom.h>
#include <stdio.h>

enum { MAX_RESULTS = 16 };

/* ---- The operations of a context ---- */

typedef struct entry {
    flx_custom_op op;
    const struct entry *next;
} entry;

static void *make_registry(flx_context *ctx)
{
    return flxi_registry_new(ctx);
}

static const flx_custom_op *find_in(const flxi_registry *r, const char *name)
{
    const entry *e = r->first;
    while (e && strcmp(e->op.name, name) != 0)
        e = e->next;
    return e ? &e->op : NULL;
}

static const flx_custom_op *find_op(flx_context *ctx, const char *name)
{
    flxi_registry *r = flxi_context_find_attached(ctx, make_registry);
    if (strcmp(name, flxi_schur_op.name) == 0)
        return &flxi_schur_op;
    if (!r)
        return NULL;
    pthread_mutex_lock(&r->lock);
    const flx_custom_op *found = find_in(r, name);
    pthread_mutex_unlock(&r->lock);
    return found;
}

bool flxi_custom_is_registered(flx_context *ctx, const char *name)
{
    return find_op(ctx, name) != NULL;
}

static bool is_fit_name(const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.0123456789";
    return s && *s && strlen(s) < 100 && strspn(s, letters) == strlen(s);
}

static flx_code add_op(flxi_registry *r, const flx_custom_op *op, flx_error *err)
{
    if (find_in(r, op->name))
        return flxi_fail(err, FLX_E_DUP_NAME, "the context already has an operation '%s'", op->name);
    entry *e = flxi_new(&r->arena, entry, 1);
    char *name = flxi_arena_text(&r->arena, op->name, strlen(op->name));
    if (!e || !name)
        return flxi_oom(err, "an operation");
    *e = (entry){*op, r->first};
    e->op.name = name;
    r->first = e;
    return FLX_OK;
}

flx_code flx_register_custom(flx_context *ctx, const flx_custom_op *given, flx_error *err)
{
    flx_custom_op read;
    const flx_custom_op *op = &read;
    if (!ctx || !given)
        return flxi_fail(err, FLX_E_USAGE, "an operation needs a context and a description");
    FLXI_TRY(FLXI_READ_OPTIONS(flx_custom_op, &read, given, err));
    if (!is_fit_name(op->name))
        return flxi_fail_hint(err, FLX_E_NAME, "letters, digits, '_' and '.'", "an operation needs a name");
    if (op->flags & ~(uint32_t)FLX_CUSTOM_EFFECT)
        return flxi_fail(err, FLX_E_USAGE, "operation '%.100s': unknown flags 0x%x", op->name, (unsigned)op->flags);
    if (!op->infer || !op->eval)
        return flxi_fail(err, FLX_E_USAGE, "operation '%s' needs functions infer and eval", op->name);
    flxi_registry *r = flxi_context_attached(ctx, make_registry, flxi_registry_free);
    if (!r)
        return flxi_oom(err, "operations");
    pthread_mutex_lock(&r->lock);
    flx_code code = add_op(r, op, err);
    pthread_mutex_unlock(&r->lock);
    return code;
}

/* ---- A call ---- */

typedef struct {
    const char *name;
    const char *attrs; /* its own: graph/op/own_attrs.h */
    int64_t effect;    /* infer sets it */
} call_attrs;

static const flxi_attr schema[] = {
    A_STRING_REQ(call_attrs, name),
    {.name = "effect", .kind = ATTR_BOOL, .offset = offsetof(call_attrs, effect), .flags = ATTR_EFFECT},
    {.name = "attrs", .kind = ATTR_STRING, .offset = offsetof(call_attrs, attrs), .flags = ATTR_OWN},
    A_END,
};

struct flx_custom_call {
    const char *name;
    size_t num_inputs, num_results, num_attrs;
    const flx_type *const *inputs;
    const flx_type *const *results;
    const flx_attr *attrs;
};

const char *flx_custom_name(const flx_custom_call *c)
{
    return c ? c->name : "";
}

size_t flx_custom_num_inputs(const flx_custom_call *c)
{
    return c ? c->num_inputs : 0;
}

size_t flx_custom_num_results(const flx_custom_call *c)
{
    return c ? c->num_results : 0;
}

const flx_type *flx_custom_input(const flx_custom_call *c, size_t i)
{
    return c && i < c->num_inputs ? c->inputs[i] : NULL;
}

const flx_type *flx_custom_result(const flx_custom_call *c, size_t i)
{
    return c && i < c->num_results ? c->results[i] : NULL;
}

const flx_attr *flx_custom_attr(const flx_custom_call *c, const char *key)
{
    for (size_t i = 0; c && key && i < c->num_attrs; i++)
        if (strcmp(c->attrs[i].key, key) == 0)
            return &c->attrs[i];
    return NULL;
}

double flx_custom_real(const flx_custom_call *c, const char *key, double otherwise)
{
    const flx_attr *a = flx_custom_attr(c, key);
    if (a && a->kind == FLX_ATTR_INT)
        return (double)a->as.i;
    return a && a->kind == FLX_ATTR_REAL ? a->as.r : otherwise;
}

static flx_code read_attrs(flx_custom_call *c, const call_attrs *a, flxi_arena *arena, flx_error *err)
{
    flx_attr *list = NULL;
    c->name = a->name;
    FLXI_TRY(flxi_own_attrs_read("custom", a->attrs, arena, &list, &c->num_attrs, err));
    c->attrs = list;
    return FLX_OK;
}

/* ---- What functions of the program return ---- */

/* The outcome of a call. A code that does not exist is an error of the function; texts end inside their arrays. */
static flx_code outcome(const char *function, flx_code code, flx_error *why)
{
    why->message[sizeof why->message - 1] = 0;
    why->hint[sizeof why->hint - 1] = 0;
    if (flxi_is_code(code))
        return code;
    return flxi_fail_hint(why, FLX_E_USAGE, "return FLX_OK or one of the FLX_E_ codes",
                          "%s returned %d, which is not a code", function, (int)code);
}

/* ---- Inference ---- */

static flx_code unknown_op(flxi_infer *f, const char *name)
{
    char shown[80];
    return flxi_infer_fail(
        f, FLX_E_NAME,
        "programs in C add operations with flx_register_custom(), before they read the graph; flx has none",
        "there is no operation '%s' in this context", flxi_printable(shown, sizeof shown, name, strlen(name)));
}

static flx_code infer_custom(flxi_infer *f)
{
    call_attrs *a = f->attrs;
    const flx_custom_op *op = find_op(f->ctx, a->name);
    if (!op)
        return unknown_op(f, a->name);
    a->effect = (op->flags & FLX_CUSTOM_EFFECT) != 0;
    flx_custom_call c = {.num_inputs = f->nin, .inputs = f->in};
    FLXI_TRY(read_attrs(&c, a, f->arena, f->err));
    flx_type results[MAX_RESULTS] = {0};
    size_t n = 0;
    flx_error why = {0};
    flx_code code = outcome("infer", op->infer(op->user, &c, results, &n, &why), &why);
    if (code != FLX_OK)
        return flxi_infer_fail(f, code, why.hint[0] ? why.hint : NULL, "%s: %s", op->name,
                               why.message[0] ? why.message : "its operands are not valid");
    if (n == 0 || n > MAX_RESULTS)
        return flxi_infer_fail(f, FLX_E_USAGE, NULL, "%s: an operation has 1 to %d results, not %zu", op->name,
                               MAX_RESULTS, n);
    for (size_t i = 0; i < n; i++)
        if (flxi_type_check(f->ctx, &results[i], &why) != FLX_OK)
            return flxi_infer_fail(f, FLX_E_USAGE, "infer must give a valid type for every result",
                                   "%s: infer gave a wrong type to result %zu: %s", op->name, i, why.message);
    FLXI_TRY(flxi_results(f, n));
    memcpy(f->out, results, n * sizeof *results);
    return FLX_OK;
}

/* ---- Evaluation ---- */

/* Arrays of a call, all of them in one arena that the caller frees. */
static flx_code call_eval(flxi_eval *e, const flx_custom_op *op, flxi_arena *arena)
{
    const flx_type **types = flxi_new(arena, const flx_type *, e->nin + e->nout);
    const void **in = flxi_new(arena, const void *, e->nin);
    void **out = flxi_new(arena, void *, e->nout);
    if (!types || !in || !out)
        return flxi_oom(e->err, "an operation");
    for (uint32_t i = 0; i < e->nin; i++) {
        types[i] = &e->in[i]->type;
        in[i] = e->in[i]->data;
    }
    for (uint32_t i = 0; i < e->nout; i++) {
        types[e->nin + i] = &e->out[i]->type;
        out[i] = e->out[i]->data;
    }
    flx_custom_call c = {.num_inputs = e->nin, .inputs = types, .num_results = e->nout, .results = types + e->nin};
    FLXI_TRY(read_attrs(&c, e->attrs, arena, e->err));
    flx_error why = {0};
    void *user = op == &flxi_schur_op ? (void *)(uintptr_t)e->mem : op->user;
    flx_code code = outcome("eval", op->eval(user, &c, in, out, &why), &why);
    if (code == FLX_OK)
        return FLX_OK;
    return flxi_eval_fail(e, code, why.hint[0] ? why.hint : NULL, "%s: %s", op->name,
                          why.message[0] ? why.message : "it failed");
}

static flx_code eval_custom(flxi_eval *e)
{
    const call_attrs *a = e->attrs;
    const flx_custom_op *op = find_op(e->out[0]->ctx, a->name);
    if (!op)
        return flxi_eval_fail(e, FLX_E_NAME, NULL, "there is no operation '%s' in this context", a->name);
    flxi_arena arena;
    flxi_arena_init(&arena, e->mem);
    flx_code code = call_eval(e, op, &arena);
    flxi_arena_free(&arena);
    return code;
}

/* ---- Derivatives and batching ---- */

/* The call that a site represents. False: the graph being built has the error. */
static bool open_call(flxi_site *s, flx_custom_call *c, const flx_custom_op **op)
{
    const call_attrs *a = s->attrs;
    const flx_type **types = flxi_rule_new(s, const flx_type *, s->nin + s->nout);
    flx_error err = {0};
    *op = find_op(s->ctx, a->name);
    if (!types)
        return false;
    for (uint32_t i = 0; i < s->nin; i++)
        types[i] = flxi_typeof(s, s->x[i]);
    for (uint32_t i = 0; s->y && i < s->nout; i++)
        types[s->nin + i] = flxi_typeof(s, s->y[i]);
    *c = (flx_custom_call){.num_inputs = s->nin, .inputs = types};
    c->num_results = s->y ? s->nout : 0;
    c->results = types + s->nin;
    flx_code code = *op ? read_attrs(c, a, &s->g->arena, &err) : flxi_fail(&err, FLX_E_NAME, "it is not registered");
    if (code != FLX_OK)
        flxi_site_fail(s, code, NULL, "%s: %s", a->name, err.message);
    return code == FLX_OK;
}

/* A function of the program while it appends to a graph: what it must leave as it was. */
typedef struct {
    flxi_site *s;
    const flx_custom_op *op;
    const char *function; /* vjp, jvp or batch */
    size_t leaves, outputs;
    unsigned holders;
    flx_error why;
} appending;

/* The graph is held meanwhile, so that a function that releases it does not end it. */
static appending begin_appending(flxi_site *s, const flx_custom_op *op, const char *function)
{
    appending a = {.s = s, .op = op, .function = function, .leaves = s->g->leaves.n, .outputs = s->g->outputs.n};
    flx_graph_retain(s->g);
    a.holders = atomic_load(&s->g->refs);
    return a;
}

/* What the function did to the graph that it must not do; NULL: nothing. */
static const char *damage_of(const appending *a)
{
    const flx_graph *g = a->s->g;
    if (g->leaves.n != a->leaves)
        return "added an input to the graph";
    return g->outputs.n != a->outputs ? "added an output to the graph" : NULL;
}

static bool end_appending(appending *a, flx_code returned)
{
    flxi_site *s = a->s;
    bool is_released = atomic_load(&s->g->refs) < a->holders;
    flx_code code = outcome(a->function, returned, &a->why);
    const char *damage = is_released ? "released the graph" : damage_of(a);
    if (!is_released)
        flx_graph_release(s->g);
    if (s->g->error.code)
        return false;
    if (code != FLX_OK)
        flxi_site_fail(s, code, a->why.hint[0] ? a->why.hint : NULL, "%s: %s", a->op->name,
                       a->why.message[0] ? a->why.message : "its rule failed");
    else if (damage)
        flxi_site_fail(s, FLX_E_USAGE, "append nodes and hand over values in `out`; leave the graph's interface alone",
                       "%s: %s %s", a->op->name, a->function, damage);
    return code == FLX_OK && !damage;
}

/* Whether a value that the function gave is one of the graph and has the type. */
static bool check_given(const appending *a, flx_val v, const flx_type *want, const char *what, uint32_t k)
{
    flxi_type_text made_text, want_text;
    const flx_type *made = flx_val_type(a->s->g, v);
    if (made && flxi_type_equal(made, want))
        return true;
    if (made)
        flxi_site_fail(a->s, FLX_E_USAGE, "see fluxion/custom.h for the types that it must have",
                       "%s: %s gave a %s for %s %u, expected %s", a->op->name, a->function,
                       flxi_type_str(a->s->ctx, made, &made_text), what, k, flxi_type_str(a->s->ctx, want, &want_text));
    else
        flxi_site_fail(a->s, FLX_E_USAGE, "values belong to the graph that the function was given",
                       "%s: %s gave no value of the graph for %s %u", a->op->name, a->function, what, k);
    return false;
}

/* Derivatives of values: those that are absent are zero, and those of integers do not count. */
static void check_derivatives(const appending *a, const flx_val *values, const flx_val *given, const bool *wanted,
                              uint32_t n, const char *what)
{
    for (uint32_t k = 0; k < n; k++) {
        const flx_type *t = flxi_typeof(a->s, values[k]);
        bool counts = flxi_in(FLXI_FLOATS | FLXI_COMPLEX, t->dtype) && (!wanted || wanted[k]);
        if (counts && !flxi_is_none(given[k]) && !check_given(a, given[k], t, what, k))
            return;
    }
}

static void no_rule(flxi_site *s, const flx_custom_op *op, const char *what)
{
    flxi_site_fail(s, FLX_E_NO_RULE, "provide one when registering it", "operation '%s' has no %s", op->name, what);
}

static void vjp_custom(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_custom_call c;
    const flx_custom_op *op;
    if (!open_call(s, &c, &op))
        return;
    if (op->vjp) {
        appending a = begin_appending(s, op, "vjp");
        if (end_appending(&a, op->vjp(op->user, &c, s->g, s->x, s->y, dy, dx, &a.why)))
            check_derivatives(&a, s->x, dx, s->wanted, s->nin, "the cotangent of operand");
    } else if (op->jvp) {
        s->bodies->vjp_from_jvp(s, dy, dx);
    } else {
        no_rule(s, op, "vjp");
    }
}

static void jvp_custom(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_custom_call c;
    const flx_custom_op *op;
    if (!open_call(s, &c, &op))
        return;
    if (op->jvp) {
        appending a = begin_appending(s, op, "jvp");
        if (end_appending(&a, op->jvp(op->user, &c, s->g, s->x, s->y, tx, ty, &a.why)))
            check_derivatives(&a, s->y, ty, NULL, s->nout, "the tangent of result");
    } else if (op->vjp) {
        s->bodies->jvp_from_vjp(s, tx, ty);
    } else {
        no_rule(s, op, "jvp");
    }
}

/* The types of the results for one example. False: the graph being built has the error. */
static bool infer_example(flxi_site *s, const flx_custom_op *op, const flx_custom_call *c, flx_type *results, size_t *n)
{
    flx_type *one = flxi_rule_new(s, flx_type, s->nin);
    const flx_type **in = flxi_rule_new(s, const flx_type *, s->nin);
    flx_error why = {0};
    if (!one || !in)
        return false;
    for (uint32_t i = 0; i < s->nin; i++) {
        const flx_type *t = flxi_typeof(s, s->x[i]);
        one[i] = s->batched[i] ? flx_type_make((flx_dtype)t->dtype, t->rank - 1, t->dims + 1) : *t;
        in[i] = &one[i];
    }
    flx_custom_call example = *c;
    example.inputs = in;
    flx_code code = outcome("infer", op->infer(op->user, &example, results, n, &why), &why);
    if (code == FLX_OK && *n != s->nout)
        code = flxi_fail(&why, FLX_E_USAGE, "the number of results differs");
    for (size_t k = 0; code == FLX_OK && k < *n; k++)
        code = flxi_type_check(s->ctx, &results[k], &why);
    if (code != FLX_OK)
        flxi_site_fail(s, code == FLX_E_OOM ? code : FLX_E_USAGE,
                       "infer must give the same results for the same operands",
                       "%s: infer fails for operands that it accepted: %s", op->name, why.message);
    return code == FLX_OK;
}

/* Every result has the leading axis. */
static void check_batched(const appending *a, const flx_custom_call *c, const flx_val *by)
{
    flxi_site *s = a->s;
    flx_type results[MAX_RESULTS] = {0};
    size_t n = 0;
    if (!infer_example(s, a->op, c, results, &n))
        return;
    for (uint32_t k = 0; k < s->nout; k++) {
        flx_type want = results[k];
        if (want.rank == FLX_MAX_RANK) /* no value has one more */
            return;
        memmove(want.dims + 1, want.dims, (size_t)want.rank * sizeof *want.dims);
        want.dims[0] = s->size;
        want.rank++;
        if (!check_given(a, by[k], &want, "result", k))
            return;
    }
}

/* Without a rule nothing is set, and the examples are computed in a loop, which effects forbid. */
static void batch_custom(flxi_site *s, flx_val *by)
{
    flx_custom_call c;
    const flx_custom_op *op;
    if (!open_call(s, &c, &op))
        return;
    if (!op->batch && (op->flags & FLX_CUSTOM_EFFECT))
        no_rule(s, op, "batch rule, and its effects must not be repeated");
    if (!op->batch)
        return;
    int32_t *batched = flxi_rule_new(s, int32_t, s->nin);
    for (uint32_t i = 0; batched && i < s->nin; i++)
        batched[i] = s->batched[i];
    if (!batched)
        return;
    appending a = begin_appending(s, op, "batch");
    if (end_appending(&a, op->batch(op->user, &c, s->g, s->x, batched, s->size, by, &a.why)))
        check_batched(&a, &c, by);
}

static const flxi_sample samples[] = {
    {"T[3]", "name=\"unknown\"", NULL, FLX_E_NAME},
    {"T[3]", "name=\"unknown\", alpha=0.5, axes=[0, 1], mode=\"a\"", NULL, FLX_E_NAME},
    {"T[3]", NULL, NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "name=\"unknown\", alpha=f32", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_custom = {
    .infer = infer_custom,
    .eval = eval_custom,
    .schema = schema,
    .attrs_size = sizeof(call_attrs),
    .vjp = vjp_custom,
    .jvp = jvp_custom,
    .batch = batch_custom,
    .samples = samples,
    .work = flxi_work_results,
    .link = flxi_link_dense,
};
