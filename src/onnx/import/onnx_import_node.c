/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_import_node.c: for one node after the other: find its row, pass the operands to its rule, keep the results.
   Calls of the model's own functions are replaced by their nodes. */
#include "onnx/import/onnx_scope.h"

#include "base/context.h"
#include "base/text/count_words.h"
#include "graph/type/dim.h"

enum { MAX_CALLS = 64, MAX_FOLDED = 4096 };

/* ---- Errors ---- */

bool flxi_onnx_failed(const onnx_site *s)
{
    return flx_graph_error(s->g, NULL) != FLX_OK;
}

static void fail_va(onnx_site *s, flx_code code, const char *hint, const char *prefix, const char *fmt, va_list args)
{
    char text[180], op[40], name[60];
    flxi_format_va(text, sizeof text, fmt, args);
    flxi_printable(op, sizeof op, s->node->op, strlen(s->node->op));
    flxi_printable(name, sizeof name, s->node->name, strlen(s->node->name));
    if (name[0])
        flxi_graph_failf(s->g, code, hint, "%s%s '%s': %s", prefix, op, name, text);
    else
        flxi_graph_failf(s->g, code, hint, "%s%s: %s", prefix, op, text);
}

void flxi_onnx_fail(onnx_site *s, flx_code code, const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail_va(s, code, hint, "", fmt, args);
    va_end(args);
}

void flxi_onnx_unsupported(onnx_site *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail_va(s, FLX_E_UNSUPPORTED, NULL, "unsupported: ", fmt, args);
    va_end(args);
}

static void fail_with(onnx_site *s, const char *hint, const char *fmt, ...) FLX_PRINTF(3, 4);
static void fail_with(onnx_site *s, const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail_va(s, FLX_E_UNSUPPORTED, hint, "unsupported: ", fmt, args);
    va_end(args);
}

void flxi_onnx_unknown(onnx_site *s, const char *operand)
{
    fail_with(
        s, "fix the input that it comes from: flx_onnx_options.inputs, --fix NAME=SPEC, or `fixed` of fluxion.load()",
        "operand '%.60s' must be known when the model is read", operand);
}

void *flxi_onnx_alloc(onnx_site *s, size_t n, size_t size)
{
    void *p = flxi_arena_alloc(&s->im->arena, n ? n : 1, size, _Alignof(max_align_t));
    if (!p)
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "no memory for %.40s", s->node->op);
    return p;
}

/* ---- Folding ---- */

static bool is_literal(const flx_graph *g, flx_val v)
{
    return v.id && flxi_is_const(flxi_node_of(g, v.id));
}

/* Whether all that the node reads was evaluated, so that its results can be. */
static bool reads_constants(const onnx_site *s)
{
    for (size_t i = 0; i < s->nx; i++)
        if (s->in[i].kind != ONNX_T_NONE && s->in[i].kind != ONNX_T_TEXTS &&
            !(s->in[i].kind == ONNX_T_TENSOR && s->in[i].is_const))
            return false;
    return !s->row->is_random;
}

static bool is_small(const flx_type *t)
{
    int64_t n;
    return t && flxi_type_is_static(t) && flxi_static_count(t, &n) && n <= MAX_FOLDED;
}

static void fold_result(onnx_site *s, onnx_value *v)
{
    v->is_const = is_literal(s->g, v->v);
    if (v->is_const || !is_small(flx_val_type(s->g, v->v)))
        return;
    flx_tensor *value = flxi_onnx_known(s, v->v);
    if (value) {
        v->v = flx_const(s->g, .type = flx_tensor_type(value), .data = value);
        v->is_const = true;
    }
    flx_tensor_release(value);
}

/* A vector of extents that are all numbers is a literal. */
static void settle_extents(onnx_site *s, onnx_value *v)
{
    const flx_type *t = flx_val_type(s->g, v->v);
    if (!v->extents || v->is_const || !t || t->rank > 1 || t->dtype != FLX_I64)
        return;
    for (size_t i = 0; i < v->num_extents; i++)
        if (!flxi_dim_is_number(v->extents[i]))
            return;
    flx_tensor *value = flx_tensor_new(s->im->ctx, t, v->extents, NULL);
    if (!value)
        return;
    v->v = flx_const(s->g, .type = t, .data = value);
    v->is_const = true;
    flx_tensor_release(value);
}

void flxi_onnx_fold(onnx_site *s)
{
    bool constant = reads_constants(s);
    for (size_t i = 0; i < s->ny && !flxi_onnx_failed(s); i++) {
        onnx_value *v = &s->out[i];
        if (v->kind == ONNX_T_TENSOR && constant)
            fold_result(s, v);
        if (v->kind == ONNX_T_TENSOR)
            settle_extents(s, v);
    }
}

/* ---- Operands and results ---- */

static bool take_operands(onnx_site *s)
{
    const onnx_node *n = s->node;
    onnx_value *in = flxi_onnx_new(s, onnx_value, n->num_inputs + ONNX_SPARE);
    flx_val *x = flxi_onnx_new(s, flx_val, n->num_inputs + ONNX_SPARE);
    if (!in || !x)
        return false;
    for (size_t i = 0; i < n->num_inputs; i++) {
        const onnx_value *v = n->inputs[i][0] ? flxi_onnx_lookup(s->scope, n->inputs[i]) : &(onnx_value){0};
        if (!v) {
            flxi_onnx_fail(s, FLX_E_NAME, NULL, "operand '%.80s' is not defined before it is used", n->inputs[i]);
            return false;
        }
        in[i] = *v;
        x[i] = v->kind == ONNX_T_TENSOR ? v->v : FLX_NONE;
    }
    s->in = in;
    s->x = x;
    s->nx = n->num_inputs;
    return true;
}

/* A rule sees only what it can treat: tensors whose elements have a dtype, unless its row says more. */
static bool check_operands(onnx_site *s)
{
    const onnx_operation *row = s->row;
    size_t n = s->nx;
    while (n > 0 && s->in[n - 1].kind == ONNX_T_NONE)
        n--;
    if ((int)n < row->min_inputs || (row->max_inputs >= 0 && (int)n > row->max_inputs)) {
        flxi_onnx_fail(s, FLX_E_ARITY, NULL, "it has %zu operands", n);
        return false;
    }
    for (size_t i = 0; i < s->nx; i++) {
        const onnx_value *v = &s->in[i];
        bool is_other = v->kind == ONNX_T_SEQUENCE || v->kind == ONNX_T_OPTIONAL || v->is_optional;
        const onnx_element *e = v->kind == ONNX_T_TENSOR ? flxi_onnx_element(v->element) : NULL;
        if (is_other && !row->takes_others) {
            flxi_onnx_unsupported(s, "operand %zu is not a tensor", i);
            return false;
        }
        if (v->kind == ONNX_T_TEXTS && !row->takes_texts && !row->takes_others) {
            flxi_onnx_unsupported(s, "operand %zu has texts", i);
            return false;
        }
        if (e && (e->bits < 8 || flxi_onnx_float_format(e->number)) && !row->is_narrow) {
            flxi_onnx_unsupported(s, "operand %zu has elements of type %s", i, e->name);
            return false;
        }
        if (i < (size_t)row->min_inputs && v->kind == ONNX_T_NONE && row->max_inputs >= 0) {
            flxi_onnx_fail(s, FLX_E_ARITY, NULL, "operand %zu is left out", i);
            return false;
        }
    }
    return true;
}

static bool make_results(onnx_site *s)
{
    s->ny = s->node->num_outputs;
    s->y = flxi_onnx_new(s, flx_val, s->ny + ONNX_SPARE);
    s->out = flxi_onnx_new(s, onnx_value, s->ny + ONNX_SPARE);
    return s->y && s->out;
}

/* What the rule left as a value is a tensor of that dtype, unless it said something else. */
static void settle_results(onnx_site *s)
{
    for (size_t i = 0; i < s->ny; i++) {
        onnx_value *v = &s->out[i];
        if (s->y[i].id) {
            v->kind = ONNX_T_TENSOR;
            v->v = s->y[i];
        }
        if (v->kind == ONNX_T_TENSOR && v->element == 0)
            v->element = flxi_onnx_element_of((int32_t)flxi_onnx_dtype(s, v->v));
    }
}

static bool bind_results(onnx_site *s)
{
    const onnx_node *n = s->node;
    for (size_t i = 0; i < n->num_outputs; i++) {
        if (!n->outputs[i][0])
            continue;
        if (s->out[i].kind == ONNX_T_NONE) {
            flxi_onnx_unsupported(s, "result %zu", i);
            return false;
        }
        if (s->out[i].kind == ONNX_T_TENSOR && !flx_val_name(s->g, s->out[i].v)) {
            char label[100];
            flxi_onnx_plain_name(n->outputs[i], label, sizeof label);
            flx_named(s->g, s->out[i].v, label);
        }
        if (!flxi_onnx_bind(s->scope, n->outputs[i], &s->out[i]))
            return false;
    }
    return true;
}

/* ---- Functions ---- */

static const onnx_function *find_function(const onnx_site *s)
{
    const onnx_model *m = s->im->model;
    for (size_t i = 0; i < m->num_functions; i++)
        if (strcmp(m->functions[i].name, s->node->op) == 0 && strcmp(m->functions[i].domain, s->node->domain) == 0 &&
            strcmp(m->functions[i].overload, s->node->overload) == 0)
            return &m->functions[i];
    return NULL;
}

/* A function that calls itself would not end. */
static bool check_calls(onnx_site *s, const onnx_function *f)
{
    int depth = 0;
    for (const onnx_scope *sc = s->scope; sc; sc = sc->caller, depth++)
        if (sc->function == f || depth > MAX_CALLS) {
            flxi_onnx_fail(s, FLX_E_SYNTAX, NULL, "the function calls itself, or calls are too deep");
            return false;
        }
    return true;
}

static bool call_function(onnx_site *s, const onnx_function *f)
{
    onnx_scope sc;
    if (!check_calls(s, f))
        return false;
    flxi_onnx_scope_init(&sc, s->im, NULL);
    sc.g = s->g;
    sc.opsets = f->num_opsets ? f->opsets : s->scope->opsets;
    sc.num_opsets = f->num_opsets ? f->num_opsets : s->scope->num_opsets;
    sc.function = f;
    sc.call = s->node;
    sc.caller = s->scope;
    sc.depth = s->scope->depth + 1;
    bool ok = true;
    for (size_t i = 0; i < f->num_inputs && ok; i++)
        ok = flxi_onnx_bind(&sc, f->inputs[i], i < s->nx ? &s->in[i] : &(onnx_value){0});
    ok = ok && flxi_onnx_import_nodes(&sc, f->nodes, f->num_nodes);
    for (size_t i = 0; i < f->num_outputs && i < s->ny && ok; i++) {
        const onnx_value *v = flxi_onnx_lookup(&sc, f->outputs[i]);
        if (v)
            s->out[i] = *v;
        s->y[i] = v ? v->v : FLX_NONE;
    }
    flxi_onnx_scope_free(&sc);
    return ok;
}

/* ---- Nodes ---- */

bool flxi_onnx_spend(onnx_site *s, int64_t nodes)
{
    s->im->budget -= nodes;
    if (s->im->budget >= 0)
        return true;
    flxi_onnx_fail(s, FLX_E_SIZE, NULL, "the model has too many nodes once functions and loops are expanded");
    return false;
}

static int64_t version_of(const onnx_scope *sc, const char *domain)
{
    for (size_t i = 0; i < sc->num_opsets; i++)
        if (strcmp(sc->opsets[i].domain, domain) == 0)
            return sc->opsets[i].version;
    return 1; /* the domain is not imported: old files leave it out */
}

static bool find_row(onnx_site *s)
{
    const onnx_node *n = s->node;
    s->version = version_of(s->scope, n->domain);
    s->row = flxi_onnx_operation(n->domain, n->op, s->version);
    if (s->row)
        return true;
    if (flxi_onnx_is_operation(n->domain, n->op))
        flxi_onnx_unsupported(s, "version %lld of the operation", (long long)s->version);
    else
        flxi_onnx_unsupported(s, "there is no operation %.60s%s%.60s here", n->domain, n->domain[0] ? "." : "", n->op);
    return false;
}

static bool import_node(onnx_scope *sc, const onnx_node *n)
{
    onnx_site s = {.im = sc->im, .scope = sc, .node = n, .g = sc->g};
    const onnx_function *f = find_function(&s);
    if (!flxi_onnx_spend(&s, 1) || !take_operands(&s) || !make_results(&s))
        return false;
    if (f)
        return call_function(&s, f) && bind_results(&s);
    if (!find_row(&s) || !check_operands(&s))
        return false;
    s.row->import(&s);
    settle_results(&s);
    if (s.row->extents && !flxi_onnx_failed(&s))
        s.row->extents(&s);
    flxi_onnx_fold(&s);
    return !flxi_onnx_failed(&s) && bind_results(&s);
}

bool flxi_onnx_import_nodes(onnx_scope *sc, const onnx_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!import_node(sc, &nodes[i])) {
            flxi_onnx_note_error(sc, nodes[i].offset);
            return false;
        }
    return true;
}
