/* SPDX-License-Identifier: Apache-2.0 */
/* import_dynamic.c: operations whose shapes are operands, and what other dialects compute shapes with. A shape is
   known when the program is read, as numbers or in terms of the extents of @main's arguments (import_extents.c). */
#include "graph/type/type.h"
#include "stablehlo/import/import_custom_call.h"
#include "stablehlo/import/import_scope.h"

#include <stdio.h>
#include <string.h>

/* ---- Sizes ---- */

static void import_get_dimension_size(hlo_site *s)
{
    s->y[0] = flx_cast(s->g, flx_dim_size(s->g, s->x[0], flxi_hlo_int(s, "dimension", 0)), FLX_I32);
}

/* A known size: the elements beyond it do not count any more. */
static void import_set_dimension_size(hlo_site *s)
{
    const flx_type *t = flxi_hlo_typeof(s, s->x[0]);
    int64_t axis = flxi_hlo_int(s, "dimension", 0);
    flx_ints size;
    if (!flxi_hlo_extents(s, s->x[1], &size))
        return;
    s->y[0] = size.v[0] == t->dims[axis] ? s->x[0] : flx_narrow(s->g, s->x[0], axis, 0, size.v[0]);
}

/* ---- Shapes as operands ---- */

static void import_dynamic_reshape(hlo_site *s)
{
    flx_ints shape;
    if (flxi_hlo_extents(s, s->x[1], &shape))
        s->y[0] = flx_reshape(s->g, s->x[0], shape);
}

static void import_dynamic_broadcast_in_dim(hlo_site *s)
{
    flx_ints shape;
    flx_ints axes = flxi_hlo_ints_of(s, "broadcast_dimensions", (size_t)flxi_hlo_typeof(s, s->x[0])->rank, 0);
    if (flxi_hlo_extents(s, s->x[1], &shape))
        s->y[0] = flx_broadcast_in_dim(s->g, s->x[0], shape, axes);
}

static void import_dynamic_iota(hlo_site *s)
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

static void import_dynamic_pad(hlo_site *s)
{
    flx_ints edges[3];
    if (read_lists(s, 2, edges, 3))
        s->y[0] = flx_pad(s->g, s->x[0], s->x[1], edges[0], edges[1], edges[2]);
}

/* A window of known extents at a place that only the run knows: what dynamic_slice takes. */
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

static void import_real_dynamic_slice(hlo_site *s)
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
static void import_shape_of(hlo_site *s)
{
    flx_val sizes[FLX_MAX_RANK];
    flx_dtype dtype = flxi_hlo_carrier(flxi_hlo_result_type(s, 0));
    int rank = flxi_hlo_typeof(s, s->x[0])->rank;
    flx_type none = {.dtype = (int32_t)dtype, .rank = 1};
    for (int i = 0; i < rank; i++)
        sizes[i] = flx_cast(s->g, flx_dim_size(s->g, s->x[0], i), dtype);
    s->y[0] = rank ? flx_stack(s->g, sizes, (size_t)rank, 0) : flx_iota(s->g, &none, 0);
}

static void import_num_elements(hlo_site *s)
{
    s->y[0] = flx_reduce_prod(s->g, s->x[0], FLX_INTS(0), 0);
}

/* The axis is an operand. */
static void import_tensor_dim(hlo_site *s)
{
    flx_ints axis;
    if (!flxi_hlo_extents(s, s->x[1], &axis))
        return;
    if (axis.n != 1 || axis.v[0] < 0 || axis.v[0] >= flxi_hlo_typeof(s, s->x[0])->rank)
        flxi_hlo_fail(s, FLX_E_INDEX, NULL, "operand 0 has no such axis");
    else
        s->y[0] = flx_dim_size(s->g, s->x[0], axis.v[0]);
}

static void import_get_extent(hlo_site *s)
{
    flx_ints axis;
    if (!flxi_hlo_extents(s, s->x[1], &axis))
        return;
    if (axis.n != 1)
        flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "operand 1 must be one number");
    else
        s->y[0] = flx_reshape(s->g, flx_narrow(s->g, s->x[0], 0, axis.v[0], 1), FLX_NO_INTS);
}

static void import_from_elements(hlo_site *s)
{
    flx_type type;
    if (s->nx == 0)
        flxi_hlo_unsupported(s, "no elements");
    else if (flxi_hlo_static_result(s, 0, &type))
        s->y[0] = flx_reshape(s->g, flx_stack(s->g, s->x, s->nx, 0), flxi_hlo_dims(&type));
}

static void import_as_carrier(hlo_site *s)
{
    s->y[0] = flx_cast(s->g, s->x[0], flxi_hlo_carrier(flxi_hlo_result_type(s, 0)));
}

static void import_named_op(hlo_site *s)
{
    s->y[0] = flxi_hlo_append(s, s->rule->ours, s->x, s->nx);
}

static void import_arith_constant(hlo_site *s)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, "value");
    if (a && a->kind == HLO_A_INT)
        s->y[0] = flx_scalar(s->g, flxi_hlo_carrier(flxi_hlo_result_type(s, 0)), (double)a->integer);
    else
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute value must be an integer");
}

/* The larger of two extents, right-aligned: one of them is 1 or they are equal. */
static void import_shape_broadcast(hlo_site *s)
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

const hlo_rule flxi_hlo_dynamic_rules[] = {
    {"stablehlo.get_dimension_size", 1, 0, HLO_MOVES, import_get_dimension_size, NULL, NULL},
    {"stablehlo.set_dimension_size", 2, 0, HLO_MOVES, import_set_dimension_size, NULL, NULL},
    {"stablehlo.dynamic_reshape", 2, 0, HLO_MOVES, import_dynamic_reshape, NULL, NULL},
    {"stablehlo.dynamic_broadcast_in_dim", 2, 0, HLO_MOVES, import_dynamic_broadcast_in_dim, NULL, NULL},
    {"stablehlo.dynamic_iota", 1, 0, 0, import_dynamic_iota, NULL, NULL},
    {"stablehlo.dynamic_pad", 5, 0, HLO_MOVES, import_dynamic_pad, NULL, NULL},
    {"stablehlo.real_dynamic_slice", 4, 0, HLO_MOVES, import_real_dynamic_slice, NULL, NULL},
    {"chlo.dynamic_reshape", 2, 0, HLO_MOVES, import_dynamic_reshape, NULL, NULL},
    {"shape.shape_of", 1, 0, HLO_MOVES, import_shape_of, NULL, NULL},
    {"shape.num_elements", 1, 0, HLO_MOVES, import_num_elements, NULL, NULL},
    {"shape.get_extent", 2, 0, HLO_MOVES, import_get_extent, NULL, NULL},
    {"shape.dim", 2, 0, HLO_MOVES, import_tensor_dim, NULL, NULL},
    {"shape.broadcast", 2, 0, HLO_MOVES, import_shape_broadcast, NULL, NULL},
    {"tensor.dim", 2, 0, HLO_MOVES, import_tensor_dim, NULL, NULL},
    {"tensor.from_elements", HLO_MANY, 0, HLO_MOVES | HLO_ELEMENTS, import_from_elements, NULL, NULL},
    {"tensor.cast", 1, 0, HLO_MOVES, import_as_carrier, NULL, NULL},
    {"arith.constant", 0, 0, HLO_MOVES, import_arith_constant, NULL, NULL},
    {"arith.index_cast", 1, 0, HLO_MOVES | HLO_SAME_TYPE, import_as_carrier, NULL, NULL},
    {"arith.addi", 2, 0, HLO_SAME_TYPE | HLO_ELEMENTS, import_named_op, "add", NULL},
    {"arith.subi", 2, 0, HLO_SAME_TYPE | HLO_ELEMENTS, import_named_op, "sub", NULL},
    {"arith.muli", 2, 0, HLO_SAME_TYPE | HLO_ELEMENTS, import_named_op, "mul", NULL},
    {"arith.divsi", 2, 0, HLO_SAME_TYPE | HLO_ELEMENTS, import_named_op, "div", NULL},
    {"arith.maxsi", 2, 0, HLO_SAME_TYPE | HLO_ELEMENTS, import_named_op, "max", NULL},
    {"arith.minsi", 2, 0, HLO_SAME_TYPE | HLO_ELEMENTS, import_named_op, "min", NULL},
    {0},
};

/* ---- Calls ---- */

/* What the program demands of the shapes it is given: settled now, or a check that the run makes. */
static void shape_assertion(hlo_site *s)
{
    if (s->nx == 0 || flxi_hlo_dtype(s, s->x[0]) != FLX_BOOL || flxi_hlo_typeof(s, s->x[0])->rank != 0) {
        flxi_hlo_fail(s, FLX_E_DTYPE, NULL, "@shape_assertion takes a scalar i1 first");
        return;
    }
    char message[160];
    snprintf(message, sizeof message, "%.150s", flxi_hlo_word(s, "error_message", "shape assertion"));
    hlo_decision is = flxi_hlo_learn(s, s->x[0]);
    if (is == HLO_FALSE)
        flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "%s", message);
    else if (is == HLO_OPEN && !flxi_hlo_failed(s))
        flx_check(s->g, s->x[0], s->x[0], message);
}

static void dynamic_top_k(hlo_site *s)
{
    flx_ints k;
    if (s->nx != 2 || s->ny != 2)
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it takes a tensor and k, and gives values and indices");
    else if (flxi_hlo_extents(s, s->x[1], &k) && k.n == 1)
        flx_top_k(s->g, s->x[0], s->y, k.v[0], -1, flxi_hlo_carrier(flxi_hlo_result_type(s, 1)));
}

/* An attribute that holds extents. */
static const hlo_attr *list_attr(hlo_site *s, flx_val v)
{
    hlo_attr *a = flxi_hlo_new(s, hlo_attr, 1);
    flx_ints list;
    if (!a || !flxi_hlo_extents(s, v, &list))
        return NULL;
    *a = (hlo_attr){.kind = HLO_A_LIST, .at = s->op->at};
    a->ints = list.v;
    a->num_numbers = list.n;
    return a;
}

const hlo_function *flxi_hlo_called(hlo_site *s)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, "called_computations");
    bool is_one = a && a->kind == HLO_A_ARRAY && a->num_items == 1 && a->items[0]->kind == HLO_A_SYMBOL;
    const hlo_function *f = is_one ? flxi_hlo_find(s->l->module, a->items[0]->text) : NULL;
    if (!f || f->is_declared_only) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute called_computations must name a function with a body");
        return NULL;
    }
    return f;
}

/* Inputs, first values, and the five lists of a reduce_window. */
static void dynamic_reduce_window(hlo_site *s)
{
    static const char *const names[5] = {"window_dimensions", "window_strides", "base_dilations", "window_dilations",
                                         "padding"};
    const hlo_function *f = flxi_hlo_called(s);
    size_t n = s->nx >= 7 ? (s->nx - 5) / 2 : 0;
    if (!f)
        return;
    if (s->nx != s->op->num_operands || s->nx != 2 * n + 5 || s->ny != n) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it takes inputs, as many first values and 5 lists");
        return;
    }
    hlo_op *op = flxi_hlo_new(s, hlo_op, 1);
    hlo_entry *attrs = flxi_hlo_new(s, hlo_entry, 5);
    hlo_region *region = flxi_hlo_new(s, hlo_region, 1);
    if (!op || !attrs || !region)
        return;
    for (size_t i = 0; i < 5; i++) {
        attrs[i] = (hlo_entry){names[i], list_attr(s, s->x[2 * n + i])};
        if (!attrs[i].value)
            return;
    }
    *region = f->body;
    *op = *s->op;
    op->name = "stablehlo.reduce_window";
    op->num_operands = 2 * n;
    op->attrs = attrs;
    op->num_attrs = 5;
    op->regions = region;
    op->num_regions = 1;
    flxi_hlo_import_as(s, op, s->x, 2 * n);
}

/* A state and the shape of the bits. */
static void dynamic_rng_bit_generator(hlo_site *s)
{
    flx_ints shape;
    if (s->nx != 2 || s->op->num_operands != 2 || s->op->num_results != 2) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it takes a state and a shape, and gives a state and bits");
        return;
    }
    hlo_op *op = flxi_hlo_new(s, hlo_op, 1);
    hlo_type *type = flxi_hlo_new(s, hlo_type, 1);
    hlo_value *bits = flxi_hlo_new(s, hlo_value, 1);
    const hlo_value **results = flxi_hlo_new(s, const hlo_value *, 2);
    if (!op || !type || !bits || !results || !flxi_hlo_extents(s, s->x[1], &shape))
        return;
    *bits = *s->op->results[1];
    *type = *bits->type;
    type->rank = (int)shape.n;
    type->dims = shape.v;
    bits->type = type;
    results[0] = s->op->results[0];
    results[1] = bits;
    *op = *s->op;
    op->name = "stablehlo.rng_bit_generator";
    op->num_operands = 1;
    op->results = results;
    flxi_hlo_import_as(s, op, s->x, 1);
}

const hlo_call_target flxi_hlo_dynamic_targets[] = {
    {"shape_assertion", shape_assertion},
    {"stablehlo.shape_assertion", shape_assertion},
    {"stablehlo.dynamic_top_k", dynamic_top_k},
    {"stablehlo.dynamic_reduce_window", dynamic_reduce_window},
    {"stablehlo.dynamic_rng_bit_generator", dynamic_rng_bit_generator},
    {0},
};
