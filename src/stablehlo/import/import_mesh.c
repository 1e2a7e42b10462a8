/* SPDX-License-Identifier: Apache-2.0 */
/* import_mesh.c: see import_mesh.h. */
#include "stablehlo/import/import_mesh.h"

#include "stablehlo/import/import_scope.h"

#include <stdio.h>
#include <stdlib.h>

hlo_mesh *flxi_hlo_mesh(const hlo_site *s)
{
    return &s->im->mesh;
}

/* ---- The mesh ---- */

/* A name in quotes; the position after it, or NULL. */
static const char *read_name(const char *s, char name[FLXI_MESH_NAME])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    size_t n = *s == '"' ? strspn(s + 1, letters) : 0;
    if (n == 0 || n >= FLXI_MESH_NAME || s[n + 1] != '"')
        return NULL;
    memcpy(name, s + 1, n);
    name[n] = 0;
    return s + n + 2;
}

/* A bit for the axis of this name; 0: there is none. */
static uint32_t axis_bit(const hlo_mesh *m, const char *name)
{
    for (int i = 0; i < m->num_axes; i++)
        if (strcmp(m->axes[i].name, name) == 0)
            return 1u << i;
    return 0;
}

static const char *skip_space(const char *s)
{
    return s + strspn(s, " \t\r\n");
}

/* ["data"=2, "model"=2]; devices in another order than theirs are not understood. */
void flxi_hlo_read_mesh(const hlo_module *program, hlo_mesh *out)
{
    const char *s = program->mesh ? skip_space(program->mesh) : "";
    int64_t ranks = 1;
    *out = (hlo_mesh){.ranks = 0};
    if (!program->mesh)
        flxi_hlo_find_mesh(program, out);
    if (*s != '[')
        return;
    for (s = skip_space(s + 1); *s != ']'; s = skip_space(s + (*s == ','))) {
        flxi_mesh_axis *a = &out->axes[out->num_axes];
        char *end;
        s = out->num_axes < FLXI_MESH_AXES ? read_name(s, a->name) : NULL;
        if (!s || *s != '=' || s[1] < '1' || s[1] > '9' || axis_bit(out, a->name))
            return;
        a->size = strtoll(s + 1, &end, 10);
        if (a->size > FLXI_MESH_RANKS / ranks || (*end != ',' && *end != ']'))
            return;
        ranks *= a->size;
        out->num_axes++;
        s = end;
    }
    for (int i = out->num_axes - 1; i >= 0; i--)
        out->axes[i].stride = i == out->num_axes - 1 ? 1 : out->axes[i + 1].stride * out->axes[i + 1].size;
    out->ranks = *skip_space(s + 1) ? 0 : ranks;
}

void flxi_hlo_mesh_text(const hlo_mesh *m, char out[HLO_AXES_TEXT + 32 * FLXI_MESH_AXES])
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; m->ranks > 1 && i < m->num_axes; i++)
        at += (size_t)sprintf(out + at, "%s%s=%lld", i ? "," : "", m->axes[i].name, (long long)m->axes[i].size);
}

/* ---- Shardings ---- */

/* {"data", "model"}; a `?`, which says that more is allowed, and a priority are left out. Every axis of the mesh cuts
   once, and `used` has those that did. NULL: something else. */
static const char *read_axes(const hlo_mesh *m, const char *s, char out[HLO_AXES_TEXT], uint32_t *used)
{
    out[0] = 0;
    if (*s != '{')
        return NULL;
    for (s = skip_space(s + 1); *s != '}'; s = skip_space(s)) {
        char name[FLXI_MESH_NAME];
        if (*s == '?' || *s == ',') {
            s++;
            continue;
        }
        s = read_name(s, name);
        uint32_t bit = s ? axis_bit(m, name) : 0;
        if (!bit || (*used & bit) || (*s != ',' && *s != '}'))
            return NULL;
        *used |= bit;
        strcat(strcat(out, out[0] ? "," : ""), name);
    }
    s++;
    if (*s == 'p') /* p1: a priority */
        s += 1 + strspn(s + 1, "0123456789");
    return s;
}

bool flxi_hlo_read_cuts(const hlo_mesh *m, const char *text, size_t index, hlo_cuts *out)
{
    const char *s = text;
    uint32_t used = 0;
    out->rank = 0;
    for (size_t i = 0; s && i <= index; i++) {
        s = strstr(s, "<@");
        s = s ? s + 2 : NULL;
    }
    s = s ? strchr(s, '[') : NULL;
    if (!s || m->ranks < 1)
        return false;
    for (s = skip_space(s + 1); *s != ']'; s = skip_space(s + (*s == ','))) {
        s = out->rank < FLX_MAX_RANK ? read_axes(m, s, out->at[out->rank], &used) : NULL;
        if (!s || (*s != ',' && *s != ']'))
            return false;
        out->rank++;
    }
    return true;
}

static bool read_sharding(const hlo_mesh *m, const hlo_attr *a, hlo_cuts *out)
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
    if (!t || m->ranks < 2 || m->is_manual || !read_sharding(m, sharding, &cuts) || cuts.rank != t->rank)
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
