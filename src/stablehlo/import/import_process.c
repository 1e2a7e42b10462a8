/* SPDX-License-Identifier: Apache-2.0 */
/* import_process.c: the graph of each process of a program for several devices, by its shardings: what as_text() of the
   plugin shows. */
#include "stablehlo/import/import_mesh.h"
#include "stablehlo/import/import_program.h"

#include <fluxion/mesh.h>
#include <stdio.h>

enum { AXES_TEXT = HLO_AXES_TEXT + 32 * FLXI_MESH_AXES };

enum { NAME_TEXT = 32 };

typedef struct {
    char name[NAME_TEXT], spec[HLO_SPEC_TEXT];
} named_cut;

typedef struct {
    const hlo_mesh *mesh;
    flx_sharding *list;
    named_cut *texts;
    size_t count;
} cut_list;

static void add_cut(cut_list *c, const hlo_cuts *cuts, const flx_type *t, const char *kind, size_t i)
{
    named_cut *text = &c->texts[c->count];
    bool is_cut = false;
    text->spec[0] = 0;
    for (int k = 0; t && k < t->rank; k++)
        is_cut |= flxi_hlo_add_cut(c->mesh, k < cuts->rank ? cuts->at[k] : "", t->dims[k], text->spec);
    if (!is_cut)
        return;
    snprintf(text->name, sizeof text->name, "%s%zu", kind, i);
    c->list[c->count++] = (flx_sharding){text->name, text->spec};
}

static bool read_cuts(const hlo_mesh *m, const hlo_attr *dict, hlo_cuts *out)
{
    const hlo_attr *a = flxi_hlo_sharding_of(dict);
    return a && flxi_hlo_read_sharding(m, a, out);
}

/* Those of the arguments, and of the results as the program says or as follows. */
static bool list_cuts(const hlo_module *program, const hlo_function *f, const flx_graph *g, flxi_arena *arena,
                      cut_list *c)
{
    const hlo_cuts **spread = flxi_new(arena, const hlo_cuts *, f->num_results + 1);
    c->list = flxi_new(arena, flx_sharding, f->body.num_args + f->num_results + 1);
    c->texts = flxi_new(arena, named_cut, f->body.num_args + f->num_results + 1);
    if (!c->list || !c->texts || !spread || !flxi_hlo_spread(program, f, arena, spread))
        return false;
    hlo_cuts cuts;
    for (size_t i = 0; i < f->body.num_args && f->arg_attrs && f->body.num_args == flx_graph_input_count(g); i++)
        if (read_cuts(c->mesh, f->arg_attrs[i], &cuts))
            add_cut(c, &cuts, flx_val_type(g, flx_graph_input(g, i)), "arg", i);
    for (size_t i = 0; i < f->num_results && f->num_results == flx_graph_output_count(g); i++) {
        const flx_type *t = flx_val_type(g, flx_graph_output(g, i));
        if (f->result_attrs && read_cuts(c->mesh, f->result_attrs[i], &cuts))
            add_cut(c, &cuts, t, "out", i);
        else if (spread[i])
            add_cut(c, spread[i], t, "out", i);
    }
    return true;
}

static flx_graph *cut_graph(flx_context *ctx, const hlo_module *program, const hlo_function *f, const flx_graph *g,
                            const hlo_mesh *mesh, flx_error *err)
{
    char axes[AXES_TEXT];
    flxi_arena arena;
    flx_graph *out = NULL;
    flxi_hlo_mesh_text(mesh, axes);
    flxi_arena_init(&arena, &ctx->mem);
    cut_list c = {.mesh = mesh};
    if (list_cuts(program, f, g, &arena, &c))
        out = flx_partition(g, axes, c.list, c.count, NULL, err);
    else
        flxi_oom(err, "a list of cuts");
    flxi_arena_free(&arena);
    return out;
}

flx_graph *flxi_hlo_process_graph(flx_context *ctx, const hlo_module *program, const char *file, flx_error *err)
{
    hlo_mesh mesh;
    bool is_manual = flxi_hlo_uses(program, "sdy.manual_computation", NULL);
    const hlo_function *f = flxi_hlo_entry_function(program, err);
    flx_module *m = f ? flxi_hlo_import(ctx, program, file, is_manual ? HLO_IMPORT_WHOLE : 0, err) : NULL;
    if (!m)
        return NULL;
    flxi_hlo_read_mesh(program, &mesh);
    flx_graph *g = flx_module_main(m);
    flx_graph *out = mesh.ranks < 2 || is_manual ? flx_graph_retain(g) : cut_graph(ctx, program, f, g, &mesh, err);
    flx_module_free(m);
    return out;
}
