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

/* Graphs and transports know plain names; an axis with another one is called after its number. False: another axis has
   the name. */
static bool name_axis(hlo_mesh *m, int i, const char *name, size_t n)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    m->names[i] = name;
    if (n < FLXI_MESH_NAME && strspn(name, letters) == n)
        snprintf(m->axes[i].name, sizeof m->axes[i].name, "%.*s", (int)n, name);
    else
        snprintf(m->axes[i].name, sizeof m->axes[i].name, "axis%d", i);
    for (int k = 0; k < i; k++)
        if (strcmp(m->axes[k].name, m->axes[i].name) == 0)
            return false;
    return true;
}

/* ["data"=2, "model"=2], device_ids=[1, 0, 2, 3] */
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
        if (!n || s[n + 2] != '=' || s[n + 3] < '1' || s[n + 3] > '9' || !name_axis(out, out->num_axes, s + 1, n))
            return;
        a->size = strtoll(s + n + 3, &end, 10);
        if (a->size > FLXI_MESH_RANKS / ranks || (*end != ',' && *end != ']'))
            return;
        ranks *= a->size;
        out->num_axes++;
        s = end;
    }
    for (int i = out->num_axes - 1; i >= 0; i--)
        out->axes[i].stride = i == out->num_axes - 1 ? 1 : out->axes[i + 1].stride * out->axes[i + 1].size;
    static const char ids[] = ", device_ids=[";
    s = skip_space(s + 1);
    out->ids = strncmp(s, ids, sizeof ids - 1) == 0 ? s + sizeof ids - 1 : NULL;
    out->ranks = *s && *s != '>' && !out->ids ? 0 : ranks;
}

void flxi_hlo_read_mesh(const hlo_module *program, hlo_mesh *out)
{
    *out = (hlo_mesh){.ranks = 0};
    if (!program->num_meshes)
        flxi_hlo_find_mesh(program, out);
    for (size_t i = 0; i < program->num_meshes && (out->ranks < 2 || out->ids); i++)
        read_mesh_text(program->meshes[i].text, out);
    if (out->ids) /* its devices are not the processes in their order */
        *out = (hlo_mesh){.ranks = 0};
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

/* {"data", "model"}; a `?`, which says that more is allowed, and a priority are left out. A sharding has every axis of
   the mesh once at most, and `used` those that it had so far. NULL: something else. */
static const char *read_axes(const hlo_mesh *m, const char *s, char out[HLO_AXES_TEXT], uint32_t *used)
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
        uint32_t bit = a ? 1u << (a - m->axes) : 0;
        s += n + 2;
        if (!a || (*used & bit) || (*s != ',' && *s != '}'))
            return NULL;
        *used |= bit;
        strcat(strcat(out, out[0] ? "," : ""), a->name);
    }
    s++;
    if (*s == 'p') /* p1: a priority */
        s += 1 + strspn(s + 1, "0123456789");
    return s;
}

/* After the axes of a value: , replicated={"x"}, unreduced={"y"}> */
static bool read_summed(const hlo_mesh *m, const char *s, char out[HLO_AXES_TEXT], uint32_t *used)
{
    static const char name[] = "unreduced=";
    for (s = skip_space(s); s && *s == ','; s = s ? skip_space(s) : NULL) {
        char ignored[HLO_AXES_TEXT];
        s = skip_space(s + 1);
        bool is_summed = strncmp(s, name, sizeof name - 1) == 0;
        s += strcspn(s, "{");
        s = read_axes(m, s, is_summed ? out : ignored, used);
    }
    return s != NULL;
}

bool flxi_hlo_read_cuts(const hlo_mesh *m, const char *text, size_t index, hlo_cuts *out)
{
    const char *s = find_sharding(text, index);
    uint32_t used = 0;
    out->rank = 0;
    out->summed[0] = 0;
    s = s ? strstr(s, *s == '@' ? "[" : ">, [") : NULL;
    s = s ? strchr(s, '[') : NULL;
    if (!s || m->ranks < 1)
        return false;
    for (s = skip_space(s + 1); *s != ']'; s = skip_space(s + (*s == ','))) {
        s = out->rank < FLX_MAX_RANK ? read_axes(m, s, out->at[out->rank], &used) : NULL;
        if (!s || (*s != ',' && *s != ']'))
            return false;
        out->rank++;
    }
    return read_summed(m, s + 1, out->summed, &used);
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

bool flxi_hlo_add_cut(const hlo_mesh *m, const char *axes, flx_dim extent, char spec[HLO_SPEC_TEXT])
{
    flxi_mesh_axes along = {.n = 0};
    bool takes = *axes && flxi_mesh_find_axes(m->axes, m->num_axes, axes, &along, NULL) == FLX_OK &&
                 flx_dim_is_static(extent) && extent % flxi_mesh_count(&along) == 0;
    for (int i = 1; i < along.n; i++)
        takes &= along.at[i - 1] < along.at[i];
    strcat(spec, spec[0] ? "," : "");
    for (int i = 0; takes && i < along.n; i++)
        strcat(strcat(spec, i ? "+" : ""), along.at[i]->name);
    strcat(spec, takes ? "" : "-");
    return takes;
}

flx_val flxi_hlo_sharded(flx_graph *g, const hlo_mesh *m, flx_val v, const hlo_attr *sharding)
{
    const flx_type *t = flx_val_type(g, v);
    hlo_cuts cuts;
    char spec[HLO_SPEC_TEXT] = "";
    bool is_cut = false;
    if (!t || m->ranks < 2 || m->is_manual || m->has_ignored || !flxi_hlo_read_sharding(m, sharding, &cuts) ||
        cuts.rank != t->rank)
        return v;
    for (int k = 0; k < t->rank; k++)
        is_cut |= flxi_hlo_add_cut(m, cuts.at[k], t->dims[k], spec);
    const flx_attr attr = flx_attr_string("spec", spec);
    return is_cut ? flx_op1(g, "shard", &v, 1, &attr, 1) : v;
}

/* ---- Programs for several devices ---- */

static bool is_used(const hlo_region *r, const char *name, const char *target)
{
    for (const hlo_op *op = r->first; op; op = op->next) {
        const hlo_attr *called = target ? flxi_hlo_attr(op, "call_target_name") : NULL;
        if (strcmp(op->name, name) == 0 && (!target || (called && strcmp(called->text, target) == 0)))
            return true;
        for (size_t i = 0; i < op->num_regions; i++)
            if (is_used(&op->regions[i], name, target))
                return true;
    }
    return false;
}

bool flxi_hlo_uses(const hlo_module *m, const char *name, const char *target)
{
    for (size_t i = 0; i < m->num_functions; i++)
        if (is_used(&m->functions[i].body, name, target))
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

/* The mesh and the axes of a sharding. */
static bool read_cuts_of(const hlo_module *m, const hlo_attr *sharding, int64_t n, hlo_mesh *mesh, hlo_cuts *cuts)
{
    cuts->rank = 0;
    cuts->summed[0] = 0;
    if (sharding->kind == HLO_A_OPAQUE && !flxi_hlo_mesh_of(m, sharding->text, 0, mesh))
        return false;
    if (sharding->kind == HLO_A_STRING && strcmp(sharding->text, "{replicated}") == 0)
        return true;
    if (sharding->kind == HLO_A_STRING)
        flxi_hlo_read_mesh(m, mesh);
    return mesh->num_axes == 0 || (flxi_hlo_read_sharding(mesh, sharding, cuts) && mesh->ranks == n);
}

/* Where a device is in the mesh; −1: nowhere. */
static int64_t position_of(const hlo_mesh *m, int64_t device)
{
    const char *s = m->ids;
    for (int64_t i = 0; s && i < m->ranks; i++) {
        char *end;
        if (strtoll(s, &end, 10) == device)
            return i;
        s = *end == ',' ? end + 1 : NULL;
    }
    return m->ids ? -1 : device;
}

/* How many parts there are along some axes, and which of them each device has; every `step`-th entry is its. */
static bool place(const hlo_mesh *m, const char *axes, int64_t n, int64_t *count, int64_t *at, int step)
{
    flxi_mesh_axes along;
    if (flxi_mesh_find_axes(m->axes, m->num_axes, axes, &along, NULL) != FLX_OK)
        return false;
    *count = flxi_mesh_count(&along);
    for (int64_t d = 0; d < n; d++) {
        int64_t position = position_of(m, d);
        if (position < 0)
            return false;
        at[d * step] = flxi_mesh_index(&along, position);
    }
    return true;
}

bool flxi_hlo_read_tiles_of(const hlo_module *m, const hlo_attr *dict, const hlo_cuts *spread, int rank, int64_t n,
                            hlo_tiles *out)
{
    const hlo_attr *sharding = flxi_hlo_sharding_of(dict);
    hlo_mesh mesh = {.ranks = 0};
    hlo_cuts cuts = {.rank = 0};
    memset(out->at, 0, (size_t)(n * rank) * sizeof *out->at);
    memset(out->summand, 0, (size_t)n * sizeof *out->summand);
    out->summands = 1;
    for (int k = 0; k < rank; k++)
        out->parts[k] = 1;
    if (spread)
        flxi_hlo_read_mesh(m, &mesh);
    if (!spread && sharding && !read_cuts_of(m, sharding, n, &mesh, &cuts))
        return false;
    if (spread && mesh.ranks == n)
        cuts = *spread;
    if (cuts.summed[0] && !place(&mesh, cuts.summed, n, &out->summands, out->summand, 1))
        return false;
    for (int k = 0; k < cuts.rank && k < rank; k++)
        if (cuts.at[k][0] && !place(&mesh, cuts.at[k], n, &out->parts[k], out->at + k, rank))
            return false;
    return true;
}
