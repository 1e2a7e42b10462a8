/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_tiles.c: shardings by tiles (mhlo.sharding) are along an axis of the mesh where every device has the tile
   that is its coordinate, which is counted here device by device. */
#include "test.h"

#include "stablehlo/import/import_mesh.h"

#include <stdio.h>
#include <string.h>

enum { DIGITS_MOST = 4 };

typedef struct {
    int64_t tiles[DIGITS_MOST], dims[DIGITS_MOST];
    int order[DIGITS_MOST];
    int num_tiles, num_dims;
} tiling;

static int64_t count_of(const int64_t *v, int n)
{
    int64_t product = 1;
    for (int i = 0; i < n; i++)
        product *= v[i];
    return product;
}

/* By definition: the tiles in their order go to the devices in the order of the transposed count. */
static int64_t tile_of(const tiling *t, int64_t device, int axis)
{
    int64_t at[DIGITS_MOST], position = 0;
    for (int i = t->num_dims - 1; i >= 0; device /= t->dims[i], i--)
        at[i] = device % t->dims[i];
    for (int i = 0; i < t->num_dims; i++)
        position = position * t->dims[t->order[i]] + at[t->order[i]];
    return position / count_of(t->tiles + axis + 1, t->num_tiles - axis - 1) % t->tiles[axis];
}

static const char *axis_by_devices(const hlo_mesh *m, const tiling *t, int axis)
{
    for (int i = 0; i < m->num_axes; i++) {
        bool fits = m->axes[i].size == t->tiles[axis];
        for (int64_t d = 0; fits && d < m->ranks; d++)
            fits = tile_of(t, d, axis) == d / m->axes[i].stride % m->axes[i].size;
        if (fits)
            return m->axes[i].name;
    }
    return "";
}

/* Some division of `devices`. */
static int divide(uint64_t *r, int64_t devices, int64_t *out)
{
    int n = 0;
    while (n < DIGITS_MOST - 1 && (devices > 1 || n == 0)) {
        int64_t part = 1 + (int64_t)(test_random(r) % (uint64_t)devices);
        while (devices % part)
            part--;
        out[n++] = part;
        devices /= part;
    }
    if (devices > 1)
        out[n++] = devices;
    return n;
}

static hlo_mesh random_mesh(uint64_t *r, int64_t devices)
{
    hlo_mesh m = {.ranks = devices};
    int64_t sizes[DIGITS_MOST], stride = devices;
    m.num_axes = divide(r, devices, sizes);
    for (int i = 0; i < m.num_axes; i++) {
        stride /= sizes[i];
        m.axes[i] = (flxi_mesh_axis){.size = sizes[i], .stride = stride};
        snprintf(m.axes[i].name, sizeof m.axes[i].name, "a%d", i);
    }
    return m;
}

static tiling random_tiling(uint64_t *r, int64_t devices)
{
    tiling t = {.num_tiles = 0};
    t.num_tiles = divide(r, devices, t.tiles);
    t.num_dims = divide(r, devices, t.dims);
    for (int i = 0; i < t.num_dims; i++) {
        int k = (int)(test_random(r) % (uint64_t)(i + 1));
        t.order[i] = t.order[k];
        t.order[k] = i;
    }
    return t;
}

static size_t add_list(char *out, size_t size, const char *before, const int64_t *v, int n, const char *after)
{
    size_t at = (size_t)snprintf(out, size, "%s", before);
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? "," : "", (long long)v[i]);
    return at + (size_t)snprintf(out + at, size - at, "%s", after);
}

static void tiling_text(const tiling *t, char *out, size_t size)
{
    int64_t order[DIGITS_MOST];
    for (int i = 0; i < t->num_dims; i++)
        order[i] = t->order[i];
    size_t n = add_list(out, size, "{devices=[", t->tiles, t->num_tiles, "]<=[");
    n += add_list(out + n, size - n, "", t->dims, t->num_dims, "]T(");
    add_list(out + n, size - n, "", order, t->num_dims, ")}");
}

/* Whatever the tiling is, no axis is found that some device contradicts. */
TEST(stablehlo_tiles_are_no_axes_that_a_device_contradicts)
{
    static const int64_t devices[] = {4, 6, 8, 12, 16, 24, 36};
    uint64_t r = test_seed();
    int found = 0;
    for (int i = 0; i < 20000; i++) {
        char text[200];
        int64_t n = devices[test_random(&r) % (sizeof devices / sizeof *devices)];
        hlo_mesh m = random_mesh(&r, n);
        tiling t = random_tiling(&r, n);
        hlo_cuts cuts;
        tiling_text(&t, text, sizeof text);
        CHECK_MSG(flxi_hlo_read_tiles(&m, text, &cuts) && cuts.rank == t.num_tiles, "%s", text);
        for (int k = 0; k < t.num_tiles; k++) {
            const char *want = t.tiles[k] > 1 ? axis_by_devices(&m, &t, k) : "";
            CHECK_MSG(!cuts.at[k][0] || strcmp(cuts.at[k], want) == 0, "%s, axis %d: '%s', expected '%s'", text, k,
                      cuts.at[k], want);
            found += cuts.at[k][0] != 0;
        }
    }
    CHECK(found > 1000);
    test_count_case();
}

/* As JAX writes the axes of a mesh in any order; neighbours may be written as one number. */
TEST(stablehlo_tiles_of_all_orders_of_axes_are_found)
{
    uint64_t r = test_seed();
    for (int i = 0; i < 5000; i++) {
        char text[200];
        int64_t n = 24 + 24 * (int64_t)(test_random(&r) % 3);
        hlo_mesh m = random_mesh(&r, n);
        tiling t = random_tiling(&r, n);
        hlo_cuts cuts;
        bool joins = test_random(&r) % 2;
        t.num_dims = t.num_tiles = m.num_axes;
        for (int k = 0; k < m.num_axes; k++)
            t.order[k] = m.num_axes - 1 - k;
        for (int k = m.num_axes - 1; !joins && k > 0; k--) {
            int other = (int)(test_random(&r) % (uint64_t)(k + 1)), order = t.order[k];
            t.order[k] = t.order[other];
            t.order[other] = order;
        }
        for (int k = 0; k < m.num_axes; k++) {
            t.order[k] = joins ? k : t.order[k];
            t.dims[k] = m.axes[k].size;
        }
        for (int k = 0; k < m.num_axes; k++)
            t.tiles[k] = t.dims[t.order[k]];
        if (joins) {
            t.num_dims = 1;
            t.dims[0] = n;
        }
        tiling_text(&t, text, sizeof text);
        CHECK_MSG(flxi_hlo_read_tiles(&m, text, &cuts), "%s", text);
        for (int k = 0; k < t.num_tiles; k++)
            CHECK_MSG(strcmp(cuts.at[k], t.tiles[k] > 1 ? axis_by_devices(&m, &t, k) : "") == 0, "%s, axis %d: '%s'",
                      text, k, cuts.at[k]);
    }
    test_count_case();
}
