/* SPDX-License-Identifier: Apache-2.0 */
/* module.c: see module.h. */
#include "graph/module.h"

#include "graph/names.h"

flx_module *flxi_module_new(flx_context *ctx)
{
    flx_module *m = flxi_alloc(&ctx->mem, 1, sizeof *m);
    if (m)
        m->ctx = ctx;
    return m;
}

flx_code flxi_module_add(flx_module *m, flx_graph *g)
{
    if (!flxi_push(&m->ctx->mem, &m->graphs, g))
        return FLX_E_OOM;
    flx_graph_retain(g);
    return FLX_OK;
}

flx_code flx_module_add(flx_module *m, flx_graph *g, flx_error *err)
{
    if (!m || !g || g->ctx != m->ctx)
        return flxi_fail(err, FLX_E_USAGE, "flx_module_add: a module and a graph of its context must be given");
    FLXI_TRY(flx_graph_error(g, err));
    if (flx_module_find(m, g->name))
        return flxi_fail(err, FLX_E_DUP_NAME, "the module has a graph '%.60s' already", g->name);
    return flxi_module_add(m, g) == FLX_OK ? FLX_OK : flxi_oom(err, "a graph of a module");
}

void flx_module_free(flx_module *m)
{
    if (!m)
        return;
    const flxi_allocator *mem = &m->ctx->mem;
    for (size_t i = 0; i < m->graphs.n; i++)
        flx_graph_release(m->graphs.at[i]);
    flxi_vec_free(mem, &m->graphs);
    flxi_free(mem, m, 1, sizeof *m);
}

size_t flx_module_count(const flx_module *m)
{
    return m ? m->graphs.n : 0;
}

flx_graph *flx_module_graph(const flx_module *m, size_t i)
{
    return i < flx_module_count(m) ? m->graphs.at[i] : NULL;
}

flx_graph *flx_module_find(const flx_module *m, const char *name)
{
    for (size_t i = 0; name && i < flx_module_count(m); i++)
        if (strcmp(m->graphs.at[i]->name, name) == 0)
            return m->graphs.at[i];
    return NULL;
}

flx_graph *flx_module_main(const flx_module *m)
{
    flx_graph *named = flx_module_find(m, "main");
    return named ? named : flx_module_graph(m, flx_module_count(m) - 1);
}

size_t flxi_graph_position(const flxi_graph_list *list, const flx_graph *g)
{
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&list->index, g->serial); flxi_index_next(&list->index, &p, &i);)
        if (list->graphs.at[i] == g)
            return i;
    return SIZE_MAX;
}

/* The recursion is bounded, since nesting is; a graph that is already listed ends it. */
flx_code flxi_collect_graphs(const flxi_allocator *mem, const flx_graph *root, flxi_graph_list *list)
{
    if (flxi_graph_position(list, root) != SIZE_MAX)
        return FLX_OK;
    for (size_t i = 0; i < root->bodies.n; i++)
        FLXI_TRY(flxi_collect_graphs(mem, root->bodies.at[i], list));
    if (!flxi_push(mem, &list->graphs, root) ||
        !flxi_index_add(mem, &list->index, root->serial, (uint32_t)list->graphs.n - 1))
        return FLX_E_OOM;
    return FLX_OK;
}

void flxi_graph_list_free(const flxi_allocator *mem, flxi_graph_list *list)
{
    flxi_vec_free(mem, &list->graphs);
    flxi_index_free(mem, &list->index);
}

/* The main graph chooses its name first. */
flx_code flxi_name_graphs(const flxi_graph_list *list, const flx_graph *main_graph, flxi_arena *arena,
                          const char **names)
{
    flxi_names taken;
    size_t main_at = flxi_graph_position(list, main_graph);
    flxi_names_init(&taken, arena);
    names[main_at] = flxi_unique_name(&taken, main_graph->name);
    bool ok = names[main_at] && flxi_intern(&taken.pool, "main", 4);
    for (size_t i = 0; ok && i < list->graphs.n; i++) {
        if (i == main_at)
            continue;
        names[i] = flxi_unique_name(&taken, list->graphs.at[i]->name);
        ok = names[i] != NULL;
    }
    flxi_names_free(&taken);
    return ok ? FLX_OK : FLX_E_OOM;
}
