/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_part.c: the part of a whole tensor that a process of a mesh has. */
#include "passes/partition/partition.h"

#include "base/error.h"

#include <fluxion/tensor.h>

typedef struct {
    flx_type whole, part;
    int64_t begin[FLX_MAX_RANK]; /* of the part in the whole */
} cutting;

/* Rows of the last axis, one after another. */
static void copy_rows(const cutting *c, const unsigned char *from, unsigned char *to)
{
    int last = c->whole.rank - 1;
    size_t bytes = flx_dtype_size(c->whole.dtype), row = (size_t)c->part.dims[last] * bytes;
    int64_t rows = 1;
    for (int k = 0; k < last; k++)
        rows *= c->part.dims[k];
    for (int64_t r = 0; row && r < rows; r++) {
        int64_t rest = r, offset = c->begin[last], step = c->whole.dims[last];
        for (int k = last - 1; k >= 0; k--) {
            offset += (c->begin[k] + rest % c->part.dims[k]) * step;
            rest /= c->part.dims[k];
            step *= c->whole.dims[k];
        }
        memcpy(to + (size_t)r * row, from + (size_t)offset * bytes, row);
    }
}

static flx_code find_cutting(const char *axes, const char *spec, int64_t rank, cutting *c, flx_error *err)
{
    flxi_partition mesh = {0};
    flxi_cuts cuts;
    int64_t size = 0;
    FLXI_TRY(flxi_mesh_read_axes(axes, &size, mesh.axes, &mesh.num_axes, err));
    if (rank < 0 || rank >= size)
        return flxi_fail(err, FLX_E_USAGE, "the mesh has processes 0 to %lld, not %lld", (long long)size - 1,
                         (long long)rank);
    FLXI_TRY(flxi_read_cuts(&mesh, spec, &c->whole, "the tensor", &cuts, err));
    c->part = flxi_part_type(&mesh, &c->whole, &cuts);
    for (int k = 0; k < c->whole.rank; k++)
        c->begin[k] = flxi_along_index(&mesh, cuts.at[k], rank) * c->part.dims[k];
    return FLX_OK;
}

flx_tensor *flx_mesh_part(flx_context *ctx, const flx_tensor *whole, const char *axes, const char *spec, int64_t rank,
                          flx_error *err)
{
    if (!ctx || !whole || !axes || !spec) {
        flxi_fail(err, FLX_E_USAGE, "flx_mesh_part: a context, a tensor, axes and how it is cut are needed");
        return NULL;
    }
    cutting c = {.whole = *flx_tensor_type(whole)};
    if (find_cutting(axes, spec, rank, &c, err) != FLX_OK)
        return NULL;
    if (c.whole.rank == 0)
        return flx_tensor_new(ctx, &c.whole, flx_tensor_const_data(whole), err);
    flx_tensor *t = flx_tensor_new(ctx, &c.part, NULL, err);
    if (t)
        copy_rows(&c, flx_tensor_const_data(whole), flx_tensor_data(t));
    return t;
}
