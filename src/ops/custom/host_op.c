/* SPDX-License-Identifier: Apache-2.0 */
/* host_op.c: operations that a program registers: the list of them in a context, and the rules of the op `custom`,
   which call the functions of the operation it refers to. */
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
    if (!r)
        return NULL;
    pthread_mutex_lock(&r->lock);
    const flx_custom_op *found = find_in(r, name);
    pthread_mutex_unlock(&r->lock);
    return found;
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
    flx_code code = op->infer(op->user, &c, results, &n, &why);
    if (code != FLX_OK)
        return flxi_infer_fail(f, code, why.hint[0] ? why.hint : NULL, "%s: %s", op->name,
                               why.message[0] ? why.message : "its operands are not valid");
    if (n == 0 || n > MAX_RESULTS)
        return flxi_infer_fail(f, FLX_E_USAGE, NULL, "%s: an operation has 1 to %d results, not %zu", op->name,
                               MAX_RESULTS, n);
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
    flx_code code = op->eval(op->user, &c, in, out, &why);
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

static void close_call(flxi_site *s, const flx_custom_op *op, flx_code code, const flx_error *why)
{
    if (code != FLX_OK && flx_graph_error(s->g, NULL) == FLX_OK)
        flxi_site_fail(s, code, why->hint[0] ? why->hint : NULL, "%s: %s", op->name,
                       why->message[0] ? why->message : "its rule failed");
}

static void no_rule(flxi_site *s, const flx_custom_op *op, const char *what)
{
    flxi_site_fail(s, FLX_E_NO_RULE, "provide one when registering it", "operation '%s' has no %s", op->name, what);
}

static void vjp_custom(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_custom_call c;
    const flx_custom_op *op;
    flx_error why = {0};
    if (!open_call(s, &c, &op))
        return;
    if (op->vjp)
        close_call(s, op, op->vjp(op->user, &c, s->g, s->x, s->y, dy, dx, &why), &why);
    else if (op->jvp)
        s->bodies->vjp_from_jvp(s, dy, dx);
    else
        no_rule(s, op, "vjp");
}

static void jvp_custom(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_custom_call c;
    const flx_custom_op *op;
    flx_error why = {0};
    if (!open_call(s, &c, &op))
        return;
    if (op->jvp)
        close_call(s, op, op->jvp(op->user, &c, s->g, s->x, s->y, tx, ty, &why), &why);
    else if (op->vjp)
        s->bodies->jvp_from_vjp(s, tx, ty);
    else
        no_rule(s, op, "jvp");
}

/* Without a rule nothing is set, and the examples are computed in a loop, which effects forbid. */
static void batch_custom(flxi_site *s, flx_val *by)
{
    flx_custom_call c;
    const flx_custom_op *op;
    flx_error why = {0};
    if (!open_call(s, &c, &op))
        return;
    if (!op->batch && (op->flags & FLX_CUSTOM_EFFECT))
        no_rule(s, op, "batch rule, and its effects must not be repeated");
    if (!op->batch)
        return;
    int32_t *batched = flxi_rule_new(s, int32_t, s->nin);
    for (uint32_t i = 0; batched && i < s->nin; i++)
        batched[i] = s->batched[i];
    if (batched)
        close_call(s, op, op->batch(op->user, &c, s->g, s->x, batched, s->size, by, &why), &why);
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
