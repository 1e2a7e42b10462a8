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

/* A digit of the number of a device, and where it is in the number that counts tiles. */
typedef struct {
    int64_t size, in_device, in_tiles; /* how many values it has, and what one of it is worth */
} digit;

/* The digits from the last one that counts tiles, without those of one value. Those that are neighbours in both numbers
   are one digit, so that every division of it is seen. */
static int list_digits(const tiling *t, digit *out)
{
    int64_t in_tiles = 1;
    int n = 0;
    for (int i = t->num_order - 1; i >= 0; i--) {
        int64_t k = t->order[i], size = t->dims[k], in_device = product(t->dims + k + 1, t->num_dims - (int)k - 1);
        if (size > 1 && n && in_device == out[n - 1].in_device * out[n - 1].size)
            out[n - 1].size *= size;
        else if (size > 1)
            out[n++] = (digit){size, in_device, in_tiles};
        in_tiles *= size;
    }
    return n;
}

/* Tiles along an axis are some digits, or parts of them, of the number of a device. If these are consecutive there, the
   next tile is at the device that is `stride` further on, which is returned. 0: they are not consecutive, or the tiles
   end within a digit that they do not divide. */
static int64_t stride_of_tiles(const tiling *t, int axis)
{
    digit d[MOST];
    int n = list_digits(t, d);
    int64_t low = product(t->tiles + axis + 1, t->num_tiles - axis - 1), high = low * t->tiles[axis];
    int64_t stride = 0, count = 1;
    for (int i = 0; i < n; i++) {
        int64_t above = d[i].in_tiles * d[i].size;
        int64_t from = d[i].in_tiles > low ? d[i].in_tiles : low, to = above < high ? above : high;
        if (from >= to)
            continue;
        int64_t worth = from / d[i].in_tiles * d[i].in_device;
        if (from % d[i].in_tiles || to % from || above % to || (stride && worth != stride * count))
            return 0;
        stride = stride ? stride : worth;
        count *= to / from;
    }
    return stride;
}

/* The axis of the mesh whose coordinate is the tile of every device. */
static const flxi_mesh_axis *axis_of_tiles(const hlo_mesh *m, const tiling *t, int axis)
{
    int64_t stride = stride_of_tiles(t, axis);
    for (int i = 0; i < m->num_axes; i++)
        if (m->axes[i].size == t->tiles[axis] && m->axes[i].stride == stride)
            return &m->axes[i];
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
