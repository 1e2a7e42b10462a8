/* SPDX-License-Identifier: Apache-2.0 */
/* import.c: flx_import_stablehlo: parse, then lower the entry function into a graph. */
#include "base/context.h"
#include "graph/module.h"
#include "stablehlo/import/import_scope.h"

#include <fluxion/stablehlo.h>
#include <stdio.h>

static const int64_t max_operations = 4000000; /* once calls are expanded */

/* @main, or the only public function. */
static const hlo_function *entry_of(const hlo_module *m, flx_error *err)
{
    const hlo_function *f = flxi_hlo_find(m, "main");
    size_t n = 0;
    for (size_t i = 0; !f && i < m->num_functions; i++)
        n += m->functions[i].is_public;
    for (size_t i = 0; !f && n == 1 && i < m->num_functions; i++)
        f = m->functions[i].is_public ? &m->functions[i] : NULL;
    if (!f)
        flxi_fail_hint(err, FLX_E_NAME, "call the function that is to run @main", "there is no function @main");
    else if (f->is_declared_only)
        flxi_fail(err, FLX_E_NAME, "@%.80s has no body", f->name);
    return err->code == FLX_OK ? f : NULL;
}

/* Declares the argument's tensors as inputs: arg0, and for the parts of a tuple arg0_0, arg0_1 … */
static bool declare(hlo_scope *sc, const hlo_type *t, const char *name, flx_val *v, size_t *n)
{
    flx_type type;
    if (t->kind == HLO_TENSOR || t->kind == HLO_SCALAR) {
        if (!flxi_hlo_our_type(sc->g, t, name, &type))
            return false;
        for (int i = 0; i < type.rank; i++)
            type.dims[i] = flxi_hlo_assumed_extent(sc->l, type.dims[i]);
        v[(*n)++] = flx_input(sc->g, name, &type);
    }
    for (size_t i = 0; i < t->num_parts && (t->kind == HLO_TUPLE || t->kind == HLO_FUTURE); i++) {
        char part[80];
        snprintf(part, sizeof part, "%.50s_%zu", name, i);
        if (!declare(sc, t->parts[i], part, v, n))
            return false;
    }
    return true;
}

static bool declare_arguments(hlo_scope *sc, const hlo_function *f)
{
    for (size_t i = 0; i < f->body.num_args; i++) {
        const hlo_type *t = f->body.args[i]->type;
        char name[32];
        snprintf(name, sizeof name, "arg%zu", i);
        size_t n = 0;
        flx_val *v = flxi_new(&sc->l->arena, flx_val, flxi_hlo_parts(t) + 1);
        if (!v || !declare(sc, t, name, v, &n) || !flxi_hlo_bind(sc, f->body.args[i], v, n))
            return false;
    }
    return true;
}

static bool import_entry(hlo_lowering *l, const hlo_function *f, flx_graph *g)
{
    hlo_scope sc = {.l = l, .function = f, .g = g, .count = f->num_values};
    flx_val *results = NULL;
    size_t n = 0;
    sc.bound = flxi_new(&l->arena, hlo_binding, f->num_values + 1);
    if (!sc.bound || !declare_arguments(&sc, f) || !flxi_hlo_import_ops(&sc, &f->body, &results, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "out%zu", i);
        flx_output(g, results[i], name);
    }
    return flx_graph_error(g, NULL) == FLX_OK;
}

/* The graph of the entry function; NULL with l->error. */
static flx_graph *import_once(hlo_lowering *l, const hlo_function *f)
{
    flx_graph *g = flx_graph_new(l->ctx, "main");
    if (g && import_entry(l, f, g))
        return g;
    if (l->error.code == FLX_OK) {
        if (!g || flx_graph_error(g, &l->error) == FLX_OK)
            flxi_oom(&l->error, "a program");
        l->error.where[0] = 0;
        flxi_at(&l->error, "%.110s:%u:%u", l->file, f->at.line, f->at.column);
    }
    flx_graph_release(g);
    return NULL;
}

static flx_code lower(hlo_lowering *l, flx_module *out)
{
    const hlo_function *f = entry_of(l->module, &l->error);
    flx_graph *g = NULL;
    if (f && !flxi_hlo_index_rules(l))
        flxi_oom(&l->error, "a program");
    else if (f)
        g = import_once(l, f);
    while (l->restarts) { /* each time with one symbol less */
        l->restarts = false;
        l->error = (flx_error){0};
        g = import_once(l, f);
    }
    if (g && flxi_module_add(out, g) != FLX_OK)
        flxi_oom(&l->error, "a module");
    flx_graph_release(g);
    return (flx_code)l->error.code;
}

static void lowering_free(hlo_lowering *l)
{
    for (size_t i = l->kept.n; i-- > 0;)
        flx_graph_release(l->kept.at[i]);
    flxi_vec_free(&l->ctx->mem, &l->kept);
    flxi_vec_free(&l->ctx->mem, &l->map);
    flxi_vec_free(&l->ctx->mem, &l->assumed);
    flxi_vec_free(&l->ctx->mem, &l->at_least);
    flxi_arena_free(&l->arena);
}

flx_module *flx_import_stablehlo(flx_context *ctx, const char *text, size_t length, const char *file, flx_error *err)
{
    flx_error local = {0};
    hlo_module program = {0};
    flx_module *m = NULL;
    if (!ctx || (!text && length)) {
        flxi_fail(err, FLX_E_USAGE, "flx_import_stablehlo: context and text must be given");
        return NULL;
    }
    file = file ? file : "text";
    flx_code code = flxi_hlo_parse(&ctx->mem, text, length, file, &program, &local);
    if (code == FLX_OK) {
        m = flxi_module_new(ctx);
        hlo_lowering l = {.ctx = ctx, .module = &program, .file = file, .budget = max_operations};
        flxi_arena_init(&l.arena, &ctx->mem);
        code = m ? lower(&l, m) : flxi_oom(&l.error, "a module");
        local = l.error;
        lowering_free(&l);
        flxi_hlo_module_free(&program);
    }
    if (code == FLX_OK)
        return m;
    flx_module_free(m);
    if (err)
        *err = local;
    return NULL;
}
