/* SPDX-License-Identifier: Apache-2.0 */
/* specialise.c: binding symbolic dimensions. Every node is rebuilt with its shape-bearing attributes bound, so shapes
   that only seemed to fit are detected here. A sub-graph that uses none of the bound symbols is shared, any other is
   specialised once however often it is used. */
#include "passes/pass.h"

#include <stdio.h>

typedef struct {
    const flx_graph *from;
    flx_graph *to; /* held */
} special_body;

typedef struct {
    flx_context *ctx;
    const flx_dim_binding *bindings;
    size_t count;
    FLXI_VEC(special_body) bodies;
} binding_scope;

static flx_code specialise_in(binding_scope *s, const flx_graph *in, flx_graph **out, flxi_remap *remap,
                              flx_error *err);

static flx_dim bind_dim(void *user, flx_dim d, flx_error *err)
{
    binding_scope *s = user;
    return flxi_dim_bind(s->ctx, d, s->bindings, s->count, err);
}

static bool uses_bound_symbol(const binding_scope *s, const flx_graph *g)
{
    for (size_t i = 0; i < g->symbols.n; i++)
        for (size_t k = 0; k < s->count; k++)
            if (strcmp(g->symbols.at[i], s->bindings[k].name) == 0)
                return true;
    return false;
}

static flx_graph *bind_body(void *user, const flx_graph *body, flx_error *err)
{
    binding_scope *s = user;
    special_body made = {.from = body};
    if (!uses_bound_symbol(s, body))
        return (flx_graph *)(uintptr_t)body; /* shared unchanged */
    for (size_t i = 0; i < s->bodies.n; i++)
        if (s->bodies.at[i].from == body)
            return s->bodies.at[i].to;
    if (specialise_in(s, body, &made.to, NULL, err) != FLX_OK)
        return NULL;
    if (!flxi_push(&s->ctx->mem, &s->bodies, made)) {
        flx_graph_release(made.to);
        flxi_oom(err, "specialising");
        return NULL;
    }
    return made.to;
}

static flx_code specialise_in(binding_scope *s, const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    c.attrs = (flxi_attr_map){.dim = bind_dim, .body = bind_body, .user = s};
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++)
        code = flxi_copy_node(&c, i);
    return flxi_copy_end(&c, code, out, remap);
}

flx_code flxi_specialise(const flx_graph *in, const flx_dim_binding *bindings, size_t count, flx_graph **out,
                         flxi_remap *remap, flx_error *err)
{
    binding_scope s = {.ctx = in->ctx, .bindings = bindings, .count = count};
    flx_code code = specialise_in(&s, in, out, remap, err);
    for (size_t i = 0; i < s.bodies.n; i++)
        flx_graph_release(s.bodies.at[i].to);
    flxi_vec_free(&in->ctx->mem, &s.bodies);
    return code;
}

flx_code flxi_check_bindings(const flx_dim_binding *b, size_t n, flx_error *err)
{
    for (size_t i = 0; i < n; i++) {
        char name[60];
        if (!b[i].name || b[i].extent < 0 || b[i].extent > FLXI_DIM_LARGEST)
            return flxi_fail(err, FLX_E_USAGE, "binding %zu needs a name and a nonnegative extent", i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(b[k].name, b[i].name) == 0)
                return flxi_fail(err, FLX_E_DUP_NAME, "the dimension %s is bound twice, to %lld and %lld",
                                 flxi_printable(name, sizeof name, b[i].name, strlen(b[i].name)),
                                 (long long)b[k].extent, (long long)b[i].extent);
    }
    return FLX_OK;
}

static bool has_symbol(const char *const *symbols, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(symbols[i], name) == 0)
            return true;
    return false;
}

flx_code flxi_check_symbols(const char *const *symbols, size_t count, const char *graph, const flx_dim_binding *b,
                            size_t n, flx_error *err)
{
    FLXI_TRY(flxi_check_bindings(b, n, err));
    for (size_t i = 0; i < n; i++) {
        char name[60], list[100] = "";
        if (has_symbol(symbols, count, b[i].name))
            continue;
        size_t at = 0;
        for (size_t k = 0; k < count && at < sizeof list; k++)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", k ? ", " : "", symbols[k]);
        flxi_fail(err, FLX_E_NAME, "the graph '%.100s' has no dimension %s", graph,
                  flxi_printable(name, sizeof name, b[i].name, strlen(b[i].name)));
        flxi_hint(err, count ? "its symbolic dimensions: %s%s" : "all its dimensions are numbers", list,
                  at < sizeof list ? "" : "...");
        return FLX_E_NAME;
    }
    return FLX_OK;
}

flx_graph *flx_specialise(const flx_graph *g, const flx_dim_binding *bindings, size_t count, flx_error *err)
{
    flx_graph *out = NULL;
    flx_error local = {0};
    if (!flxi_graph_alive(g) || (count && !bindings)) {
        flxi_fail(err, FLX_E_USAGE, "flx_specialise: graph and bindings must be given");
        return NULL;
    }
    flx_code code = flx_graph_error(g, &local);
    if (code == FLX_OK)
        code = flxi_check_symbols(g->symbols.at, g->symbols.n, g->name, bindings, count, &local);
    if (code == FLX_OK)
        code = flxi_specialise(g, bindings, count, &out, NULL, &local);
    if (code != FLX_OK && err)
        *err = local;
    return code == FLX_OK ? out : NULL;
}
