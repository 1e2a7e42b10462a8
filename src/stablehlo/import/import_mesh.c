/* SPDX-License-Identifier: Apache-2.0 */
/* import_mesh.c: see import_mesh.h. */
#include "stablehlo/import/import_mesh.h"

#include "stablehlo/import/import_program.h"
#include "stablehlo/import/import_scope.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

hlo_mesh *flxi_hlo_mesh(const hlo_site *s)
{
    return &s->im->mesh;
}

bool flxi_hlo_program_mesh(const hlo_site *s, const char *text, hlo_mesh *out)
{
    return flxi_hlo_mesh_of(s->im->module, text, 0, out);
}

/* ---- Meshes ---- */

/* The length of a name in quotes; 0: there is none. */
static size_t name_length(const char *s)
{
    const char *end = *s == '"' ? strchr(s + 1, '"') : NULL;
    return end ? (size_t)(end - s) - 1 : 0;
}

static const char *skip_space(const char *s)
{
    return s + strspn(s, " \t\r\n");
}

/* Graphs and transports know plain names; an axis with another one is called after its number. */
static void name_axis(hlo_mesh *m, int i, const char *name, size_t n)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    m->names[i] = name;
    if (n < FLXI_MESH_NAME && strspn(name, letters) == n)
        snprintf(m->axes[i].name, sizeof m->axes[i].name, "%.*s", (int)n, name);
    else
        snprintf(m->axes[i].name, sizeof m->axes[i].name, "axis%d", i);
}

/* ["data"=2, "model"=2]; devices in another order than theirs are not understood. */
static void read_mesh_text(const char *text, hlo_mesh *out)
{
    const char *s = skip_space(text);
    int64_t ranks = 1;
    *out = (hlo_mesh){.ranks = 0};
    if (*s != '[')
        return;
    for (s = skip_space(s + 1); *s != ']'; s = skip_space(s + (*s == ','))) {
        flxi_mesh_axis *a = &out->axes[out->num_axes];
        size_t n = out->num_axes < FLXI_MESH_AXES ? name_length(s) : 0;
        char *end;
        if (!n || s[n + 2] != '=' || s[n + 3] < '1' || s[n + 3] > '9')
            return;
        name_axis(out, out->num_axes, s + 1, n);
        a->size = strtoll(s + n + 3, &end, 10);
        if (a->size > FLXI_MESH_RANKS / ranks || (*end != ',' && *end != ']'))
            return;
        ranks *= a->size;
        out->num_axes++;
        s = end;
    }
    for (int i = out->num_axes - 1; i >= 0; i--)
        out->axes[i].stride = i == out->num_axes - 1 ? 1 : out->axes[i + 1].stride * out->axes[i + 1].size;
    s = skip_space(s + 1);
    out->ranks = *s && *s != '>' ? 0 : ranks;
}

void flxi_hlo_read_mesh(const hlo_module *program, hlo_mesh *out)
{
    *out = (hlo_mesh){.ranks = 0};
    if (!program->num_meshes)
        flxi_hlo_find_mesh(program, out);
    for (size_t i = 0; i < program->num_meshes && out->ranks < 2; i++)
        read_mesh_text(program->meshes[i].text, out);
}

/* Where the i-th sharding of a text begins: after its <. NULL: there are not as many. */
static const char *find_sharding(const char *text, size_t index)
{
    const char *s = text;
    for (size_t i = 0; s && i <= index; i++) {
        const char *named = strstr(s, "<@"), *own = strstr(s, "<mesh<");
        s = !named || (own && own < named) ? own : named;
        s = s ? s + 1 : NULL;
    }
    return s;
}

bool flxi_hlo_mesh_of(const hlo_module *program, const char *text, size_t index, hlo_mesh *out)
{
    const char *s = find_sharding(text, index);
    size_t n = s ? strcspn(s, ",>") - 1 : 0;
    *out = (hlo_mesh){.ranks = 0};
    if (s && *s != '@')
        read_mesh_text(s + strlen("mesh<"), out);
    for (size_t i = 0; s && *s == '@' && i < program->num_meshes; i++)
        if (strlen(program->meshes[i].name) == n && memcmp(program->meshes[i].name, s + 1, n) == 0)
            read_mesh_text(program->meshes[i].text, out);
    return out->ranks > 0;
}

void flxi_hlo_mesh_text(const hlo_mesh *m, char out[HLO_AXES_TEXT + 32 * FLXI_MESH_AXES])
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; m->ranks > 1 && i < m->num_axes; i++)
        at += (size_t)sprintf(out + at, "%s%s=%lld", i ? "," : "", m->axes[i].name, (long long)m->axes[i].size);
}

/* ---- Shardings ---- */

static const flxi_mesh_axis *find_axis(const hlo_mesh *m, const char *name, size_t n)
{
    for (int i = 0; i < m->num_axes; i++) {
        const char *written = m->names[i] ? m->names[i] : m->axes[i].name;
        if (strncmp(written, name, n) == 0 && (written[n] == '"' || written[n] == 0))
            return &m->axes[i];
    }
    return NULL;
}

/* {"data", "model"}; a `?`, which says that more is allowed, and a priority are left out. NULL: something else. */
static const char *read_axes(const hlo_mesh *m, const char *s, char out[HLO_AXES_TEXT])
{
    out[0] = 0;
    if (*s != '{')
        return NULL;
    for (s = skip_space(s + 1); *s != '}'; s = skip_space(s)) {
        if (*s == '?' || *s == ',') {
            s++;
            continue;
        }
        size_t n = name_length(s);
        const flxi_mesh_axis *a = n ? find_axis(m, s + 1, n) : NULL;
        s += n + 2;
        if (!a || (*s != ',' && *s != '}') || strlen(out) + strlen(a->name) + 2 > HLO_AXES_TEXT)
            return NULL;
        if (out[0])
            strcat(out, ",");
        strcat(out, a->name);
    }
    s++;
    if (*s == 'p') /* p1: a priority */
        s += 1 + strspn(s + 1, "0123456789");
    return s;
}

bool flxi_hlo_read_cuts(const hlo_mesh *m, const char *text, size_t index, hlo_cuts *out)
{
    const char *s = find_sharding(text, index);
    out->rank = 0;
    s = s ? strstr(s, *s == '@' ? "[" : ">, [") : NULL;
    s = s ? strchr(s, '[') : NULL;
    if (!s || m->ranks < 1)
        return false;
    for (s = skip_space(s + 1); *s != ']'; s = skip_space(s + (*s == ','))) {
        s = out->rank < FLX_MAX_RANK ? read_axes(m, s, out->at[out->rank]) : NULL;
        if (!s || (*s != ',' && *s != ']'))
            return false;
        out->rank++;
    }
    return true;
}

bool flxi_hlo_read_sharding(const hlo_mesh *m, const hlo_attr *a, hlo_cuts *out)
{
    if (a && a->kind == HLO_A_STRING)
        return flxi_hlo_read_tiles(m, a->text, out);
    return a && a->kind == HLO_A_OPAQUE && flxi_hlo_read_cuts(m, a->text, 0, out);
}

const hlo_attr *flxi_hlo_sharding_of(const hlo_attr *dict)
{
    const hlo_attr *a = dict ? flxi_hlo_entry(dict, "sdy.sharding") : NULL;
    return a || !dict ? a : flxi_hlo_entry(dict, "mhlo.sharding");
}

/* One axis of the mesh for an axis of the value that it divides; others stay whole. */
flx_val flxi_hlo_sharded(flx_graph *g, const hlo_mesh *m, flx_val v, const hlo_attr *sharding)
{
    const flx_type *t = flx_val_type(g, v);
    hlo_cuts cuts;
    char spec[FLX_MAX_RANK * (FLXI_MESH_NAME + 1)] = "";
    bool is_cut = false;
    if (!t || m->ranks < 2 || m->is_manual || m->has_ignored || !flxi_hlo_read_sharding(m, sharding, &cuts) ||
        cuts.rank != t->rank)
        return v;
    for (int k = 0; k < t->rank; k++) {
        const flxi_mesh_axis *a = NULL;
        for (int i = 0; i < m->num_axes; i++)
            a = strcmp(m->axes[i].name, cuts.at[k]) == 0 ? &m->axes[i] : a;
        bool takes = a && flx_dim_is_static(t->dims[k]) && t->dims[k] % a->size == 0;
        strcat(strcat(spec, k ? "," : ""), takes ? a->name : "-");
        is_cut |= takes;
    }
    const flx_attr attr = flx_attr_string("spec", spec);
    return is_cut ? flx_op1(g, "shard", &v, 1, &attr, 1) : v;
}

/* ---- Programs for several devices ---- */

static bool has_manual(const hlo_region *r)
{
    for (const hlo_op *op = r->first; op; op = op->next) {
        if (strcmp(op->name, "sdy.manual_computation") == 0)
            return true;
        for (size_t i = 0; i < op->num_regions; i++)
            if (has_manual(&op->regions[i]))
                return true;
    }
    return false;
}

bool flxi_hlo_has_manual(const hlo_module *m)
{
    for (size_t i = 0; i < m->num_functions; i++)
        if (has_manual(&m->functions[i].body))
            return true;
    return false;
}

static_assert(HLO_MESH_TEXT >= HLO_AXES_TEXT + 32 * FLXI_MESH_AXES, "room for the axes of a mesh");

void flxi_hlo_mesh_of_processes(const hlo_module *m, char out[HLO_MESH_TEXT])
{
    hlo_mesh mesh;
    flxi_hlo_read_mesh(m, &mesh);
    flxi_hlo_mesh_text(&mesh, out);
}

/* The mesh and the axes of a sharding; axes of a mesh of other devices than n are none. */
static bool read_tiles(const hlo_module *m, const hlo_attr *sharding, int64_t n, hlo_mesh *mesh, hlo_cuts *cuts)
{
    if (sharding->kind == HLO_A_OPAQUE && !flxi_hlo_mesh_of(m, sharding->text, 0, mesh)) {
        cuts->rank = 0;
        return mesh->num_axes == 0; /* a value of one device: all have it here */
    }
    if (sharding->kind == HLO_A_STRING)
        flxi_hlo_read_mesh(m, mesh);
    if (sharding->kind == HLO_A_STRING && strcmp(sharding->text, "{replicated}") == 0) {
        cuts->rank = 0;
        return true;
    }
    return flxi_hlo_read_sharding(mesh, sharding, cuts) && (mesh->ranks == n || mesh->ranks == 1);
}

bool flxi_hlo_tiles(const hlo_module *m, const hlo_attr *dict, int rank, int64_t n, int64_t *parts, int64_t *at)
{
    const hlo_attr *sharding = flxi_hlo_sharding_of(dict);
    hlo_mesh mesh;
    hlo_cuts cuts = {.rank = 0};
    memset(at, 0, (size_t)(n * rank) * sizeof *at);
    for (int k = 0; k < rank; k++)
        parts[k] = 1;
    if (sharding && !read_tiles(m, sharding, n, &mesh, &cuts))
        return false;
    for (int k = 0; k < cuts.rank && k < rank; k++) {
        flxi_mesh_axes along;
        if (!cuts.at[k][0])
            continue;
        if (flxi_mesh_find_axes(mesh.axes, mesh.num_axes, cuts.at[k], &along, NULL) != FLX_OK)
            return false;
        parts[k] = flxi_mesh_count(&along);
        for (int64_t d = 0; d < n; d++)
            at[d * rank + k] = flxi_mesh_index(&along, d);
    }
    return true;
}
