/* SPDX-License-Identifier: Apache-2.0 */
/* import_tiles.c: shardings as XLA wrote them before meshes had names: mhlo.sharding = "{devices=[2,1,2]<=[2,2]T(1,0)
   last_tile_dim_replicate}". Tiles of a value go to devices in the order of a transposed count. The mesh is found from
   the finest division of the devices that the program has; its axes are axis0, axis1 … */
#include "stablehlo/import/import_mesh.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = FLX_MAX_RANK + 1 };

typedef struct {
    int64_t tiles[MOST], dims[MOST], order[MOST];
    int num_tiles, num_dims, num_order;
    bool has_copies; /* the last tiles are copies of each other */
} tiling;

/* Numbers with commas between them up to `close`, which is consumed; NULL: something else. */
static const char *read_numbers(const char *s, char close, int64_t *out, int *n)
{
    *n = 0;
    for (;; s++) {
        if (*n == MOST || *s < '0' || *s > '9')
            return NULL;
        char *end;
        out[(*n)++] = strtoll(s, &end, 10);
        s = end;
        if (*s == close)
            return s + 1;
        if (*s != ',')
            return NULL;
    }
}

static int64_t product(const int64_t *v, int n)
{
    int64_t p = 1;
    for (int i = 0; i < n; i++)
        p = v[i] < 1 || v[i] > FLXI_MESH_RANKS / p ? 0 : p * v[i];
    return p;
}

static bool is_order(const tiling *t)
{
    uint32_t seen = 0;
    for (int i = 0; i < t->num_order; i++)
        if (t->order[i] < t->num_dims)
            seen |= 1u << t->order[i];
    return t->num_order == t->num_dims && seen == (1u << t->num_dims) - 1;
}

static bool read_tiling(const char *s, tiling *t)
{
    static const char start[] = "{devices=[", iota[] = "<=[", copies[] = " last_tile_dim_replicate}";
    *t = (tiling){.num_tiles = 0};
    s = strncmp(s, start, sizeof start - 1) == 0 ? read_numbers(s + sizeof start - 1, ']', t->tiles, &t->num_tiles)
                                                 : NULL;
    s = s && strncmp(s, iota, sizeof iota - 1) == 0 ? read_numbers(s + sizeof iota - 1, ']', t->dims, &t->num_dims)
                                                    : NULL;
    if (s && strncmp(s, "T(", 2) == 0)
        s = read_numbers(s + 2, ')', t->order, &t->num_order);
    else
        for (t->num_order = 0; t->num_order < t->num_dims; t->num_order++)
            t->order[t->num_order] = t->num_order;
    t->has_copies = s && strcmp(s, copies) == 0;
    int64_t devices = product(t->tiles, t->num_tiles);
    return s && (t->has_copies || strcmp(s, "}") == 0) && devices > 0 && devices == product(t->dims, t->num_dims) &&
           is_order(t);
}

/* The tile along an axis of the value that a device has. */
static int64_t tile_of(const tiling *t, int64_t device, int axis)
{
    int64_t at[MOST], position = 0;
    for (int i = t->num_dims - 1; i >= 0; device /= t->dims[i], i--)
        at[i] = device % t->dims[i];
    for (int i = 0; i < t->num_order; i++)
        position = position * t->dims[t->order[i]] + at[t->order[i]];
    return position / product(t->tiles + axis + 1, t->num_tiles - axis - 1) % t->tiles[axis];
}

/* ---- The mesh ---- */

static void divide_more(hlo_mesh *m, const int64_t *sizes, int n)
{
    hlo_mesh finer = {.ranks = 1};
    for (int i = 0; i < n; i++)
        if (sizes[i] > 1 && finer.num_axes < FLXI_MESH_AXES) {
            flxi_mesh_axis *a = &finer.axes[finer.num_axes++];
            snprintf(a->name, sizeof a->name, "axis%d", finer.num_axes - 1);
            a->size = sizes[i];
            finer.ranks *= sizes[i];
        }
    for (int i = finer.num_axes - 1; i >= 0; i--)
        finer.axes[i].stride = i == finer.num_axes - 1 ? 1 : finer.axes[i + 1].stride * finer.axes[i + 1].size;
    if (finer.num_axes > m->num_axes && finer.ranks == product(sizes, n))
        *m = finer;
}

static void see_sharding(hlo_mesh *m, const hlo_attr *a)
{
    tiling t;
    if (!a || a->kind != HLO_A_STRING || !read_tiling(a->text, &t))
        return;
    divide_more(m, t.dims, t.num_dims);
    if (t.num_dims == 1)
        divide_more(m, t.tiles, t.num_tiles);
}

static void see_operations(hlo_mesh *m, const hlo_region *r)
{
    for (const hlo_op *op = r->first; op; op = op->next) {
        see_sharding(m, flxi_hlo_attr(op, "mhlo.sharding"));
        for (size_t i = 0; i < op->num_regions; i++)
            see_operations(m, &op->regions[i]);
    }
}

void flxi_hlo_find_mesh(const hlo_module *program, hlo_mesh *out)
{
    *out = (hlo_mesh){.ranks = 0};
    for (size_t i = 0; i < program->num_functions; i++) {
        const hlo_function *f = &program->functions[i];
        for (size_t k = 0; f->arg_attrs && k < f->body.num_args; k++)
            see_sharding(out, f->arg_attrs[k] ? flxi_hlo_entry(f->arg_attrs[k], "mhlo.sharding") : NULL);
        for (size_t k = 0; f->result_attrs && k < f->num_results; k++)
            see_sharding(out, f->result_attrs[k] ? flxi_hlo_entry(f->result_attrs[k], "mhlo.sharding") : NULL);
        see_operations(out, &f->body);
    }
}

/* ---- Values ---- */

/* The axis of the mesh whose coordinate is the tile of every device. */
static const flxi_mesh_axis *axis_of_tiles(const hlo_mesh *m, const tiling *t, int axis)
{
    for (int i = 0; i < m->num_axes; i++) {
        bool fits = m->axes[i].size == t->tiles[axis];
        for (int64_t d = 0; fits && d < m->ranks; d++)
            fits = tile_of(t, d, axis) == d / m->axes[i].stride % m->axes[i].size;
        if (fits)
            return &m->axes[i];
    }
    return NULL;
}

bool flxi_hlo_read_tiles(const hlo_mesh *m, const char *text, hlo_cuts *out)
{
    tiling t;
    if (!read_tiling(text, &t) || product(t.dims, t.num_dims) != m->ranks)
        return false;
    out->rank = t.num_tiles - t.has_copies;
    for (int k = 0; k < out->rank; k++) {
        const flxi_mesh_axis *a = t.tiles[k] > 1 ? axis_of_tiles(m, &t, k) : NULL;
        snprintf(out->at[k], sizeof out->at[k], "%s", a ? a->name : "");
    }
    return true;
}
