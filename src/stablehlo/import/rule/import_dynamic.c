/* SPDX-License-Identifier: Apache-2.0 */
/* import_dynamic.c: operations whose shapes are operands, and what other dialects compute shapes with. A shape is
   known when the program is read, as numbers or in terms of the extents of @main's arguments (import_extents.c). */
#include "graph/type/type.h"
#include "stablehlo/import/import_scope.h"

#include <stdio.h>
#include <string.h>

/* ---- Sizes ---- */

void flxi_hlo_import_get_dimension_size(hlo_site *s)
{
    s->y[0] = flx_cast(s->g, flx_dim_size(s->g, s->x[0], flxi_hlo_int(s, "dimension", 0)), FLX_I32);
}

/* A known size: the elements beyond it are dropped. */
void flxi_hlo_import_set_dimension_size(hlo_site *s)
{
    const flx_type *t = flxi_hlo_typeof(s, s->x[0]);
    int64_t axis = flxi_hlo_int(s, "dimension", 0);
    flx_ints size;
    if (!flxi_hlo_extents(s, s->x[1], &size))
        return;
    s->y[0] = size.v[0] == t->dims[axis] ? s->x[0] : flx_narrow(s->g, s->x[0], axis, 0, size.v[0]);
}

/* ---- Shapes as operands ---- */

void flxi_hlo_import_dynamic_reshape(hlo_site *s)
{
    flx_ints shape;
    if (flxi_hlo_extents(s, s->x[1], &shape))
        s->y[0] = flx_reshape(s->g, s->x[0], shape);
}

void flxi_hlo_import_dynamic_broadcast_in_dim(hlo_site *s)
{
    flx_ints shape;
    flx_ints axes = flxi_hlo_ints_of(s, "broadcast_dimensions", (size_t)flxi_hlo_typeof(s, s->x[0])->rank, 0);
    if (flxi_hlo_extents(s, s->x[1], &shape))
        s->y[0] = flx_broadcast_in_dim(s->g, s->x[0], shape, axes);
}

void flxi_hlo_import_dynamic_iota(hlo_site *s)
{
    flx_ints shape;
    if (!flxi_hlo_extents(s, s->x[0], &shape))
        return;
    if (shape.n > FLX_MAX_RANK) {
        flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "more than %d axes", FLX_MAX_RANK);
        return;
    }
    flx_type type = flx_type_make(flxi_hlo_carrier(flxi_hlo_result_type(s, 0)), (int32_t)shape.n, shape.v);
    s->y[0] = flx_iota(s->g, &type, flxi_hlo_int(s, "iota_dimension", 0));
}

/* The shape operands from `first` on, each with an entry for every axis of operand 0. */
static bool read_lists(hlo_site *s, size_t first, flx_ints *lists, size_t n)
{
    size_t rank = (size_t)flxi_hlo_typeof(s, s->x[0])->rank;
    for (size_t i = 0; i < n; i++) {
        if (!flxi_hlo_extents(s, s->x[first + i], &lists[i]))
            return false;
        if (lists[i].n != rank) {
            flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "operand %zu has %zu elements, but operand 0 has %zu axes", first + i,
                          lists[i].n, rank);
            return false;
        }
    }
    return true;
}

void flxi_hlo_import_dynamic_pad(hlo_site *s)
{
    flx_ints edges[3];
    if (read_lists(s, 2, edges, 3))
        s->y[0] = flx_pad(s->g, s->x[0], s->x[1], edges[0], edges[1], edges[2]);
}

/* A window of known extents at a position that only the run knows: what dynamic_slice takes. */
static bool slice_at(hlo_site *s, flx_ints sizes)
{
    flx_val x[FLX_MAX_RANK + 1] = {s->x[0]};
    int rank = flxi_hlo_typeof(s, s->x[0])->rank;
    flx_ints strides;
    if (sizes.n != (size_t)rank || !flxi_hlo_extents(s, s->x[3], &strides))
        return false;
    for (size_t i = 0; i < strides.n; i++)
        if (strides.v[i] != 1)
            return false;
    for (int i = 0; i < rank; i++)
        x[i + 1] = flx_reshape(s->g, flx_narrow(s->g, s->x[1], 0, i, 1), FLX_NO_INTS);
    s->y[0] = flx_dynamic_slice(s->g, x, (size_t)rank + 1, sizes);
    return true;
}

void flxi_hlo_import_real_dynamic_slice(hlo_site *s)
{
    flx_ints bounds[3];
    flx_ints sizes;
    size_t n;
    const hlo_extent *start = flxi_hlo_extent_values(s, s->x[1], &n);
    bool is_known = start != NULL;
    for (size_t i = 0; i < n; i++)
        is_known &= start[i].dim != FLX_DIM_INVALID;
    if (!is_known && flxi_hlo_extent_differences(s, s->x[2], s->x[1], &sizes) && slice_at(s, sizes))
        return;
    if (read_lists(s, 1, bounds, 3))
        s->y[0] = flx_slice(s->g, s->x[0], bounds[0], bounds[1], bounds[2]);
}

/* ---- Other dialects ---- */

/* The extents of operand 0, one after the other. */
void flxi_hlo_import_shape_of(hlo_site *s)
{
    flx_val sizes[FLX_MAX_RANK];
    flx_dtype dtype = flxi_hlo_carrier(flxi_hlo_result_type(s, 0));
    int rank = flxi_hlo_typeof(s, s->x[0])->rank;
    flx_type none = {.dtype = (int32_t)dtype, .rank = 1};
    for (int i = 0; i < rank; i++)
        sizes[i] = flx_cast(s->g, flx_dim_size(s->g, s->x[0], i), dtype);
    s->y[0] = rank ? flx_stack(s->g, sizes, (size_t)rank, 0) : flx_iota(s->g, &none, 0);
}

void flxi_hlo_import_num_elements(hlo_site *s)
{
    s->y[0] = flx_reduce_prod(s->g, s->x[0], FLX_INTS(0), 0);
}

/* The axis is an operand. */
void flxi_hlo_import_tensor_dim(hlo_site *s)
{
    flx_ints axis;
    if (!flxi_hlo_extents(s, s->x[1], &axis))
        return;
    if (axis.n != 1 || axis.v[0] < 0 || axis.v[0] >= flxi_hlo_typeof(s, s->x[0])->rank)
        flxi_hlo_fail(s, FLX_E_INDEX, NULL, "the axis is out of range for operand 0");
    else
        s->y[0] = flx_dim_size(s->g, s->x[0], axis.v[0]);
}

void flxi_hlo_import_get_extent(hlo_site *s)
{
    flx_ints axis;
    if (!flxi_hlo_extents(s, s->x[1], &axis))
        return;
    if (axis.n != 1)
        flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "operand 1 must be one number");
    else
        s->y[0] = flx_reshape(s->g, flx_narrow(s->g, s->x[0], 0, axis.v[0], 1), FLX_NO_INTS);
}

void flxi_hlo_import_from_elements(hlo_site *s)
{
    flx_type type;
    if (s->nx == 0)
        flxi_hlo_unsupported(s, "no elements");
    else if (flxi_hlo_static_result(s, 0, &type))
        s->y[0] = flx_reshape(s->g, flx_stack(s->g, s->x, s->nx, 0), flxi_hlo_dims(&type));
}

void flxi_hlo_import_cast(hlo_site *s)
{
    s->y[0] = flx_cast(s->g, s->x[0], flxi_hlo_carrier(flxi_hlo_result_type(s, 0)));
}

void flxi_hlo_import_arith_constant(hlo_site *s)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, "value");
    if (a && a->kind == HLO_A_INT)
        s->y[0] = flx_scalar(s->g, flxi_hlo_carrier(flxi_hlo_result_type(s, 0)), (double)a->integer);
    else
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute value must be an integer");
}

/* The larger of two extents, right-aligned: one of them is 1 or they are equal. */
void flxi_hlo_import_shape_broadcast(hlo_site *s)
{
    const flx_type *a = flxi_hlo_typeof(s, s->x[0]);
    const flx_type *b = flxi_hlo_typeof(s, s->x[1]);
    bool is_static = a->rank == 1 && b->rank == 1 && flxi_type_is_static(a) && flxi_type_is_static(b);
    if (!is_static) {
        flxi_hlo_unsupported(s, "shapes of unknown rank");
        return;
    }
    bool swap = b->dims[0] > a->dims[0];
    flx_val longer = s->x[swap];
    flx_val shorter = s->x[!swap];
    int64_t missing = swap ? b->dims[0] - a->dims[0] : a->dims[0] - b->dims[0];
    flx_val one = flxi_hlo_number(s, longer, 1);
    shorter = flx_pad(s->g, shorter, one, FLX_INTS(missing), FLX_INTS(0), FLX_INTS(0));
    s->y[0] = flx_where(s->g, flx_eq(s->g, longer, one), shorter, longer);
}
