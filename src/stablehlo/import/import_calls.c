/* SPDX-License-Identifier: Apache-2.0 */
/* import_calls.c: functions that are called. A small function, or one with few calls, is inlined, so that it can be
   computed together with its surroundings. Any other becomes a graph, once for each list of argument types, and its
   calls are nodes: what it costs to import, transform and compile the program then grows with its text. */
#include "stablehlo/import/import_scope.h"

enum { FEW_ELEMENTS = 64 }; /* of an argument that may be a shape */

static bool is_active(const hlo_scope *sc, const hlo_function *f)
{
    while (sc) {
        if (sc->function == f)
            return true;
        sc = sc->parent ? sc->parent : sc->caller;
    }
    return false;
}

/* ---- Sizes ---- */

static const hlo_function *callee_of(const hlo_import *im, const hlo_op *op)
{
    for (size_t i = 0; i < op->num_attrs; i++) {
        const hlo_attr *a = op->attrs[i].value;
        bool is_callee = strcmp(op->attrs[i].name, "callee") == 0 || strcmp(op->attrs[i].name, "decomposition") == 0;
        if (is_callee && (a->kind == HLO_A_SYMBOL || a->kind == HLO_A_STRING))
            return flxi_hlo_find(im->module, a->text);
    }
    return NULL;
}

static int64_t plus(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static int64_t size_of(hlo_import *im, const hlo_function *f, int depth);

/* Counts the operations; with `uses`, also who calls whom. */
static int64_t count(hlo_import *im, const hlo_region *r, int depth, bool uses)
{
    int64_t n = 0;
    for (const hlo_op *op = r->first; op; op = op->next) {
        const hlo_function *f = callee_of(im, op);
        n = plus(n, 1);
        if (f && uses)
            im->function_uses[f - im->module->functions]++;
        else if (f)
            n = plus(n, size_of(im, f, depth + 1));
        for (size_t i = 0; i < op->num_regions; i++)
            n = plus(n, count(im, &op->regions[i], depth, uses));
    }
    return n;
}

/* One that calls itself is found when it is imported. */
static int64_t size_of(hlo_import *im, const hlo_function *f, int depth)
{
    int64_t *size = &im->function_sizes[f - im->module->functions];
    if (*size == 0) {
        *size = INT64_MAX;
        *size = depth > FLXI_MAX_NESTING ? INT64_MAX : plus(1, count(im, &f->body, depth, false));
    }
    return *size;
}

static bool measure(hlo_site *s)
{
    hlo_import *im = s->im;
    if (im->function_sizes)
        return true;
    size_t n = im->module->num_functions;
    im->function_uses = flxi_hlo_new(s, uint32_t, n);
    int64_t *sizes = flxi_hlo_new(s, int64_t, n);
    if (!im->function_uses || !sizes)
        return false;
    im->function_sizes = sizes;
    for (size_t i = 0; i < n; i++)
        count(im, &im->module->functions[i].body, 0, true);
    return true;
}

/* Whether the program may need to know the value while it is imported: a shape, say. */
static bool may_be_needed(hlo_site *s, flx_val v)
{
    const flx_type *t = flxi_hlo_typeof(s, v);
    int64_t n = 0;
    if (!flxi_is_int(t->dtype) || !flxi_static_count(t, &n) || n > FEW_ELEMENTS)
        return false;
    if (flxi_hlo_is_constant(s->g, v) || flxi_hlo_is_extent(s, v))
        return true;
    flx_tensor *known = flxi_hlo_known(s, v);
    flx_tensor_release(known);
    return known != NULL;
}

static bool is_inlined(hlo_site *s, const hlo_function *f, const flx_val *args, size_t n)
{
    if (!measure(s) || f->num_results == 0)
        return true;
    int64_t size = size_of(s->im, f, 0), uses = s->im->function_uses[f - s->im->module->functions];
    if (size <= FLXI_INLINE_EACH || (size <= FLXI_INLINE_TOGETHER && size * uses <= FLXI_INLINE_TOGETHER))
        return true;
    for (size_t i = 0; i < n; i++)
        if (may_be_needed(s, args[i]))
            return true;
    return false;
}

/* ---- Graphs ---- */

static const flx_graph *find_graph(const hlo_import *im, const hlo_function *f, const flx_type *const *types, size_t n)
{
    for (size_t i = 0; i < im->called.n; i++) {
        const hlo_called *c = &im->called.at[i];
        bool is_same = c->function == f && c->is_manual == im->mesh.is_manual;
        for (size_t k = 0; is_same && k < n; k++)
            is_same = flxi_type_equal(c->types[k], types[k]);
        if (is_same)
            return c->graph;
    }
    return NULL;
}

static bool build(hlo_scope *sc, const hlo_scope *from, const flx_type *const *types)
{
    flx_val *results = NULL;
    size_t n = 0;
    if (!flxi_hlo_enter(sc, from) || !flxi_hlo_declare_args(sc, &sc->function->body, types) ||
        !flxi_hlo_import_ops(sc, &sc->function->body, &results, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        flx_output(sc->g, results[i], NULL);
    return flx_graph_error(sc->g, NULL) == FLX_OK;
}

/* NULL with the error in s->g. */
static const flx_graph *graph_of(hlo_site *s, const hlo_function *f, const flx_val *args, size_t n)
{
    const flx_type **types = flxi_hlo_new(s, const flx_type *, n + 1);
    if (!types)
        return NULL;
    for (size_t i = 0; i < n; i++)
        types[i] = flxi_hlo_typeof(s, args[i]);
    const flx_graph *known = find_graph(s->im, f, types, n);
    if (known)
        return known;
    flx_graph *g = flx_graph_new(s->im->ctx, flxi_is_name(f->name, strlen(f->name)) ? f->name : "function");
    if (!flxi_hlo_keep(s, g))
        return NULL;
    hlo_scope sc = {.im = s->im, .caller = s->scope, .function = f, .g = g, .count = f->num_values};
    flx_error err = {0};
    if (build(&sc, s->scope, types)) {
        hlo_called made = {f, types, g, s->im->mesh.is_manual};
        for (size_t i = 0; i < n; i++) /* those of the caller may be freed before */
            types[i] = flxi_type_at(g, g->leaves.at[i]);
        if (flxi_push(s->im->arena.mem, &s->im->called, made))
            return g;
        flxi_hlo_fail(s, FLX_E_OOM, NULL, "no memory for a function");
        return NULL;
    }
    flxi_hlo_note_error(&sc, s->op);
    if (flx_graph_error(g, &err) == FLX_OK)
        flxi_hlo_fail(s, FLX_E_INTERNAL, NULL, "a function could not be built");
    else
        flxi_graph_fail(s->g, &err);
    return NULL;
}

size_t flxi_hlo_call(hlo_site *s, const char *function, const flx_val *args, size_t num_args, flx_val *out,
                     size_t capacity)
{
    const hlo_function *f = flxi_hlo_find(s->im->module, function);
    if (!f || f->is_declared_only) {
        flxi_hlo_fail(s, FLX_E_NAME, NULL, "there is no function @%.80s with a body", function);
        return 0;
    }
    if (is_active(s->scope, f)) {
        flxi_hlo_fail(s, FLX_E_UNBOUNDED_LOOP, NULL, "@%.80s calls itself", function);
        return 0;
    }
    if (args == s->x && num_args == s->nx && !flxi_hlo_check_call(s, f))
        return 0;
    if (is_inlined(s, f, args, num_args)) {
        hlo_scope sc = {.im = s->im, .caller = s->scope, .function = f, .g = s->g, .count = f->num_values};
        return flxi_hlo_run_scope(&sc, s->scope, &f->body, args, num_args, out, capacity);
    }
    const flx_graph *g = graph_of(s, f, args, num_args);
    return g ? flx_call(s->g, args, num_args, out, capacity, g) : 0;
}
