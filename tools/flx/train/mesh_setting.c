/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_setting.c: see mesh_setting.h. A step that is cut has numbers for all its dimensions: that of examples is the
   batch, others are those of the columns. */
#include "train/mesh_setting.h"

#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 16 };

static const char data_axis[] = "data";

/* ---- Settings ---- */

/* cut("*.up.w", "-,model") */
static int read_cut(train_plan *p, setting *from, flx_sharding *out)
{
    if (from->kind != SETTING_CALL || strcmp(from->text, "cut") != 0)
        return settings_fail(&p->settings, from, "write cut(\"NAME\", \"-,model\")");
    int status = settings_operand(&p->settings, from, 0, "a name or a pattern", &out->name);
    if (!status)
        status = settings_operand(&p->settings, from, 1, "how it is cut", &out->spec);
    return status ? status : settings_check_taken(&p->settings, from);
}

int mesh_setting_read(train_plan *p)
{
    settings *s = &p->settings;
    setting *list = settings_take(&s->root, "shardings");
    int64_t zero = 0;
    size_t n = flx_graph_input_count(p->loss) + 1;
    int status = settings_text(s, &s->root, "mesh", &p->mesh);
    if (!status)
        status = settings_integer(s, &s->root, "zero", 0, 3, &zero);
    p->options.zero = (int32_t)zero;
    if (!status && list && list->kind != SETTING_LIST)
        status = settings_fail(s, list, "shardings must be a list: [cut(\"*.up.w\", \"-,model\")]");
    if (status)
        return status;
    for (const setting *part = list ? list->first : NULL; part; part = part->next)
        n++;
    p->shardings = calloc(n, sizeof *p->shardings);
    if (!p->shardings)
        return fail_memory();
    for (setting *part = list ? list->first : NULL; !status && part; part = part->next)
        status = read_cut(p, part, &p->shardings[p->options.num_shardings++]);
    return status;
}

/* ---- Extents ---- */

static const flx_type *column_type(const train_plan *p, const char *input)
{
    const char *name = plan_column(p, input);
    for (size_t i = 0; i < flx_dataset_columns(p->data.data); i++)
        if (strcmp(flx_dataset_name(p->data.data, i), name) == 0)
            return flx_dataset_type(p->data.data, i);
    return NULL;
}

/* The extent of a symbol, if it is a dimension of this input; else -1. */
static int64_t extent_in(const train_plan *p, flx_val input, const char *symbol)
{
    char text[64];
    const flx_type *type = flx_val_type(p->loss, input), *column = column_type(p, flx_val_name(p->loss, input));
    for (int k = 0; column && k < type->rank && k < column->rank; k++) {
        flx_dim_print(p->model.ctx, type->dims[k], text, sizeof text);
        if (strcmp(text, symbol) == 0)
            return k == 0 ? p->batch : (int64_t)column->dims[k];
    }
    return -1;
}

static int fix_extents(train_plan *p)
{
    flx_dim_binding dims[MAX_DIMS];
    const char *symbol;
    flx_error err = {0};
    size_t n = 0;
    for (size_t i = 0; n < MAX_DIMS && (symbol = flx_graph_symbol(p->loss, i)); i++) {
        dims[n] = (flx_dim_binding){symbol, -1};
        for (size_t k = 0; k < flx_graph_input_count(p->loss) && dims[n].extent < 0; k++)
            if (!flx_graph_input_is_param(p->loss, k))
                dims[n].extent = extent_in(p, flx_graph_input(p->loss, k), symbol);
        n += dims[n].extent >= 0;
    }
    p->fixed = flx_specialise(p->loss, dims, n, &err);
    if (!p->fixed)
        return report(&err, p->model.name);
    p->loss = p->fixed;
    return STATUS_OK;
}

/* ---- Cuts ---- */

const char *mesh_setting_cut(const train_plan *p, const char *input)
{
    const char *found = NULL;
    for (size_t i = 0; i < p->options.num_shardings; i++)
        if (flx_name_matches(p->options.shardings[i].name, input))
            found = p->options.shardings[i].spec;
    return found;
}

static bool has_axis(const char *axes, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = axes; *s; s += strcspn(s, ","), s += *s == ',')
        if (strncmp(s, name, n) == 0 && s[n] == '=')
            return true;
    return false;
}

/* Inputs that the settings say nothing about are cut by examples, where there is an axis for that. */
static int cut_inputs(train_plan *p)
{
    size_t n = flx_graph_input_count(p->loss);
    p->row_cuts = calloc(n, sizeof *p->row_cuts);
    if (!p->row_cuts)
        return fail_memory();
    for (size_t i = 0; p->options.data_axis && i < n; i++) {
        flx_val v = flx_graph_input(p->loss, i);
        const char *name = flx_val_name(p->loss, v);
        int rank = flx_val_type(p->loss, v)->rank;
        if (flx_graph_input_is_param(p->loss, i) || rank == 0 || mesh_setting_cut(p, name))
            continue;
        strcpy(p->row_cuts[i], data_axis);
        for (int k = 1; k < rank; k++)
            strcat(p->row_cuts[i], ",-");
        p->shardings[p->options.num_shardings++] = (flx_sharding){name, p->row_cuts[i]};
    }
    return STATUS_OK;
}

int mesh_setting_apply(train_plan *p, const char *axes)
{
    int64_t rows = flx_dataset_rows(p->data.data);
    p->mesh = axes ? axes : p->mesh;
    if (!p->mesh) { /* one process, or several that share batches: nothing is cut */
        p->options.num_shardings = 0;
        p->options.zero = 0;
        return STATUS_OK;
    }
    if (!p->drop_last && rows % p->batch) {
        int status = fail(FLX_E_USAGE, "the last batch has %" PRId64 " %s, fewer than the others", rows % p->batch,
                          plural(rows % p->batch, "example", "examples"));
        hint("a step that is cut for a mesh has batches of one size: write drop_last = true");
        return status;
    }
    int status = fix_extents(p);
    p->options.mesh = p->mesh;
    p->options.shardings = p->shardings;
    p->options.data_axis = has_axis(p->mesh, data_axis) ? data_axis : NULL;
    if (!status && p->options.zero && !p->options.data_axis) {
        status =
            fail(FLX_E_USAGE, "zero = %d needs an axis 'data' of the mesh, which is %s", (int)p->options.zero, p->mesh);
        hint("ranks along it share the optimiser's state: write data=1 beside the others, or zero = 0");
    }
    return status ? status : cut_inputs(p);
}
