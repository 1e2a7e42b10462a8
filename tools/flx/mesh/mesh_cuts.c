/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_cuts.c: see mesh_cuts.h. */
#include "mesh/mesh_cuts.h"

#include "report.h"

#include <stdlib.h>
#include <string.h>

int mesh_cuts_read(mesh_cuts *c, const args *a)
{
    const char *text;
    *c = (mesh_cuts){calloc(a->num_given + 1, sizeof *c->list), 0};
    if (!c->list)
        return fail_memory();
    for (size_t at = 0; (text = args_next(a, "--shard", &at)) != NULL;) {
        char *name = NULL;
        const char *spec = NULL;
        int status = args_split("--shard", text, "NAME=SPEC", &name, &spec);
        if (status)
            return status;
        c->list[c->count++] = (flx_sharding){name, spec};
    }
    return STATUS_OK;
}

void mesh_cuts_free(mesh_cuts *c)
{
    for (size_t i = 0; i < c->count; i++)
        free((char *)(uintptr_t)c->list[i].name);
    free(c->list);
    *c = (mesh_cuts){0};
}

const char *mesh_cuts_find(const mesh_cuts *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->list[i].name, name) == 0)
            return c->list[i].spec;
    return NULL;
}

static bool is_input(const flx_graph *g, flx_val v)
{
    for (size_t i = 0; i < flx_graph_input_count(g); i++)
        if (flx_graph_input(g, i).id == v.id)
            return true;
    return false;
}

/* Inputs that the graph itself cuts by the op `shard`, unless an option says something else. */
int mesh_cuts_add_said(mesh_cuts *c, const flx_graph *g)
{
    for (size_t i = 0; i < flx_graph_node_count(g); i++) {
        flx_node_view n;
        flx_node_attr_view spec;
        flx_val x = flx_node_input(g, i, 0);
        if (flx_graph_node(g, i, &n) || strcmp(n.op, "shard") != 0 || !is_input(g, x) ||
            flx_node_attr_find(g, i, "spec", &spec) || mesh_cuts_find(c, flx_val_name(g, x)))
            continue;
        flx_sharding *list = realloc(c->list, (c->count + 1) * sizeof *list);
        if (!list)
            return fail_memory();
        c->list = list;
        c->list[c->count] = (flx_sharding){strdup(flx_val_name(g, x)), spec.value.as.s};
        if (!c->list[c->count].name)
            return fail_memory();
        c->count++;
    }
    return STATUS_OK;
}

/* Outputs are joined at the end. */
static int check_names(const mesh_cuts *c, const flx_graph *g)
{
    for (size_t i = 0; i < c->count; i++) {
        size_t k = 0, n = flx_graph_input_count(g);
        while (k < n && strcmp(flx_val_name(g, flx_graph_input(g, k)), c->list[i].name) != 0)
            k++;
        if (k < n)
            continue;
        int status = fail(FLX_E_NAME, "--shard: graph '%s' has no input '%s'", flx_graph_name(g), c->list[i].name);
        hint_list_begin("its inputs");
        for (k = 0; k < n; k++)
            list_item(flx_val_name(g, flx_graph_input(g, k)));
        hint_list_end();
        return status;
    }
    return STATUS_OK;
}

void mesh_cuts_note(const model *m, const char *axes)
{
    const char *own = m->mesh.data;
    if (axes && own && own[0] && strcmp(own, axes) != 0)
        note("the program is written for the mesh %s: here its values are cut for %s", own, axes);
}

int mesh_cuts_apply(const mesh_cuts *c, const flx_graph *g, const char *axes, const inputs *in, flx_graph **out)
{
    flx_error err = {0};
    *out = NULL;
    int status = check_names(c, g);
    if (status)
        return status;
    flx_graph *fixed = flx_specialise(g, in->dims, in->num_dims, &err);
    if (!fixed)
        return report(&err, NULL);
    flx_partition_report counts = {.struct_size = sizeof counts};
    status = mesh_cuts_partition(c, fixed, axes, out, &counts);
    flx_graph_release(fixed);
    return status;
}

int mesh_cuts_partition(const mesh_cuts *c, const flx_graph *g, const char *axes, flx_graph **out,
                        flx_partition_report *counts)
{
    flx_error err = {0};
    *out = flx_partition(g, axes, c->list, c->count, counts, &err);
    if (!*out && err.code == FLX_E_UNSUPPORTED && c->count == 0)
        *out = flx_graph_retain((flx_graph *)(uintptr_t)g);
    return *out ? STATUS_OK : report(&err, NULL);
}
