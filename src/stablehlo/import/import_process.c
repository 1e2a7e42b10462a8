/* SPDX-License-Identifier: Apache-2.0 */
/* import_process.c: the graph of each process of a program for several devices, by its shardings: what as_text() of the
   plugin shows. flx_partition() cuts an axis of a value along one axis of the mesh; where a program cuts along several
   at once, and always the same, they become one. */
#include "stablehlo/import/import_mesh.h"
#include "stablehlo/import/import_program.h"

#include <fluxion/mesh.h>
#include <stdio.h>

enum { AXES_TEXT = HLO_AXES_TEXT + 32 * FLXI_MESH_AXES };

enum { SPEC_TEXT = FLX_MAX_RANK * (FLXI_MESH_NAME + 1), NAME_TEXT = 32 };

typedef struct {
    char name[NAME_TEXT], spec[SPEC_TEXT];
} named_cut;

/* "data,-": the axis of the mesh that each axis of the value is cut along; one that is cut along several is whole.
   False: the value is whole. */
static bool spec_of(const hlo_mesh *targets, const hlo_mesh *plain, const hlo_cuts *cuts, const flx_type *t,
                    char out[SPEC_TEXT])
{
    bool is_cut = false;
    out[0] = 0;
    for (int k = 0; k < t->rank; k++) {
        int found = -1;
        for (int i = 0; k < cuts->rank && i < targets->num_axes; i++)
            found = strcmp(targets->axes[i].name, cuts->at[k]) == 0 ? i : found;
        bool takes = found >= 0 && flx_dim_is_static(t->dims[k]) && t->dims[k] % targets->axes[found].size == 0;
        strcat(strcat(out, k ? "," : ""), takes ? plain->axes[found].name : "-");
        is_cut |= takes;
    }
    return is_cut;
}

typedef struct {
    const hlo_mesh *mesh;    /* of the program */
    const hlo_mesh *targets; /* whose axes cuts are along */
    const hlo_mesh *plain;   /* and what these are called */
    flx_sharding *list;
    named_cut *texts;
    size_t count;
} cut_list;

static void add_cut(cut_list *c, const hlo_cuts *cuts, const flx_type *t, const char *kind, size_t i)
{
    named_cut *text = &c->texts[c->count];
    if (!t || !spec_of(c->targets, c->plain, cuts, t, text->spec))
        return;
    snprintf(text->name, sizeof text->name, "%s%zu", kind, i);
    c->list[c->count++] = (flx_sharding){text->name, text->spec};
}

static bool read_cuts(const hlo_mesh *m, const hlo_attr *dict, hlo_cuts *out)
{
    const hlo_attr *a = flxi_hlo_sharding_of(dict);
    return a && flxi_hlo_read_sharding(m, a, out);
}

/* The axes "x,y" that an axis of an argument or result is cut along at once; "": each along one only. */
static void find_joint(const hlo_mesh *m, const hlo_attr *const *dicts, size_t n, char out[HLO_AXES_TEXT])
{
    hlo_cuts cuts;
    for (size_t i = 0; dicts && i < n; i++)
        for (int k = 0; read_cuts(m, dicts[i], &cuts) && k < cuts.rank; k++)
            if (strchr(cuts.at[k], ','))
                strcpy(out, cuts.at[k]);
}

static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = list; *s; s += strcspn(s, ","), s += *s == ',')
        if (strcspn(s, ",") == n && memcmp(s, name, n) == 0)
            return true;
    return false;
}

/* The mesh with these axes as one, which cuts call as before. False: their names are too long. */
static bool join_axes(hlo_mesh *m, const char *joint)
{
    int n = 0;
    int64_t size = 1;
    if (strlen(joint) >= FLXI_MESH_NAME)
        return false;
    for (int i = 0; i < m->num_axes; i++)
        if (is_listed(joint, m->axes[i].name))
            size *= m->axes[i].size;
        else
            m->axes[n++] = m->axes[i];
    m->axes[n] = (flxi_mesh_axis){.size = size};
    strcpy(m->axes[n].name, joint);
    m->num_axes = n + 1;
    return true;
}

/* Names with commas are written with _ for flx_partition(). */
static void plain_names(hlo_mesh *m)
{
    for (int i = 0; i < m->num_axes; i++)
        for (char *c = m->axes[i].name; *c; c++)
            *c = *c == ',' ? '_' : *c;
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

/* The graph cut along the axes of `targets`. */
static flx_graph *cut_graph(flx_context *ctx, const hlo_module *program, const hlo_function *f, const flx_graph *g,
                            const hlo_mesh *mesh, const hlo_mesh *targets, flx_error *err)
{
    char axes[AXES_TEXT];
    flxi_arena arena;
    flx_graph *out = NULL;
    hlo_mesh plain = *targets;
    plain_names(&plain);
    flxi_hlo_mesh_text(&plain, axes);
    flxi_arena_init(&arena, &ctx->mem);
    cut_list c = {.mesh = mesh, .targets = targets, .plain = &plain};
    if (list_cuts(program, f, g, &arena, &c))
        out = flx_partition(g, axes, c.list, c.count, NULL, err);
    else
        flxi_oom(err, "a list of cuts");
    flxi_arena_free(&arena);
    return out;
}

flx_graph *flxi_hlo_process_graph(flx_context *ctx, const hlo_module *program, const char *file, flx_error *err)
{
    char joint[HLO_AXES_TEXT] = "";
    hlo_mesh mesh;
    flx_graph *out = NULL;
    bool is_manual = flxi_hlo_uses(program, "sdy.manual_computation", NULL);
    const hlo_function *f = flxi_hlo_entry_function(program, err);
    flx_module *m = f ? flxi_hlo_import(ctx, program, file, is_manual ? HLO_IMPORT_WHOLE : 0, err) : NULL;
    if (!m)
        return NULL;
    flxi_hlo_read_mesh(program, &mesh);
    flx_graph *g = flx_module_main(m);
    hlo_mesh joined = mesh;
    find_joint(&mesh, f->arg_attrs, f->body.num_args, joint);
    find_joint(&mesh, f->result_attrs, f->num_results, joint);
    if (mesh.ranks < 2 || is_manual)
        out = flx_graph_retain(g);
    else if (joint[0] && join_axes(&joined, joint)) /* fails where something is cut along one of them */
        out = cut_graph(ctx, program, f, g, &mesh, &joined, NULL);
    if (!out)
        out = cut_graph(ctx, program, f, g, &mesh, &mesh, err);
    flx_module_free(m);
    return out;
}
