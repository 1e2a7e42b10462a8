/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_whole.c: a whole tensor from the parts that the processes of a mesh have. */
#include "passes/partition/partition.h"

#include "base/error.h"

#include <fluxion/tensor.h>

/* Joins the parts along one axis of the tensor, which is cut along that many processes. */
static flx_tensor *join_axis(flx_context *ctx, const flx_tensor *part, int axis, const char *names, int64_t size,
                             flx_error *err)
{
    flxi_mesh *mesh = flxi_mesh_of(ctx);
    flx_type type = *flx_tensor_type(part);
    type.dims[axis] *= size;
    flx_tensor *whole = flx_tensor_new(ctx, &type, NULL, err);
    if (!whole)
        return NULL;
    const flxi_collective c = {.kind = COLLECT_ALL_GATHER,
                               .op = "flx_mesh_whole",
                               .axis_name = names,
                               .size = size,
                               .dtype = type.dtype,
                               .from = flxi_split_at(flx_tensor_type(part), axis),
                               .to = flxi_split_at(&type, axis),
                               .in = flx_tensor_const_data(part),
                               .out = flx_tensor_data(whole),
                               .elements = (size_t)flx_tensor_count(part),
                               .value = (uint64_t)axis};
    flx_code code = mesh ? mesh->collect(mesh, &c, err)
                         : flxi_fail(err, FLX_E_CHECK, "flx_mesh_whole: the context has no mesh of %lld processes",
                                     (long long)size);
    if (code == FLX_OK)
        return whole;
    flx_tensor_release(whole);
    return NULL;
}

static flx_code find_cuts(const char *axes, const char *spec, const flx_type *part, flxi_partition *mesh,
                          flxi_cuts *cuts, flx_error *err)
{
    int64_t size = 0;
    FLXI_TRY(flxi_mesh_read_axes(axes, &size, mesh->axes, &mesh->num_axes, err));
    return flxi_read_part_cuts(mesh, spec, part, cuts, err);
}

flx_tensor *flx_mesh_whole(flx_context *ctx, const flx_tensor *part, const char *axes, const char *spec, flx_error *err)
{
    flxi_partition mesh = {0};
    flxi_cuts cuts;
    if (!ctx || !part || !axes || !spec) {
        flxi_fail(err, FLX_E_USAGE, "flx_mesh_whole: a context, a tensor, axes and how it is cut are needed");
        return NULL;
    }
    if (find_cuts(axes, spec, flx_tensor_type(part), &mesh, &cuts, err) != FLX_OK)
        return NULL;
    flx_tensor *now = flx_tensor_retain((flx_tensor *)(uintptr_t)part);
    for (int k = 0; now && k < flx_tensor_type(part)->rank; k++) {
        char names[FLXI_ALONG_TEXT];
        int64_t size = flxi_along_size(&mesh, cuts.at[k]);
        if (size == 1)
            continue;
        flx_tensor *next = join_axis(ctx, now, k, flxi_along_names(&mesh, cuts.at[k], names), size, err);
        flx_tensor_release(now);
        now = next;
    }
    return now;
}
