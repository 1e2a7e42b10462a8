/* SPDX-License-Identifier: Apache-2.0 */
/* import_dynamic_calls.c: custom calls about shapes: assertions, and operations whose shapes are operands, which are
   the plain operations once those shapes are known. */
#include "stablehlo/import/call/import_custom_call.h"
#include "stablehlo/import/import_scope.h"

#include <stdio.h>

/* What the program requires of the shapes that it is given: decided now, or a check that the run makes. */
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
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it takes a tensor and k, and returns values and indices");
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
    const hlo_function *f = is_one ? flxi_hlo_find(s->im->module, a->items[0]->text) : NULL;
    if (!f || f->is_declared_only) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute called_computations must name a function with a body");
        return NULL;
    }
    return f;
}

/* Inputs, initial values, and the five lists of a reduce_window. */
static void dynamic_reduce_window(hlo_site *s)
{
    static const char *const names[5] = {"window_dimensions", "window_strides", "base_dilations", "window_dilations",
                                         "padding"};
    const hlo_function *f = flxi_hlo_called(s);
    size_t n = s->nx >= 7 ? (s->nx - 5) / 2 : 0;
    if (!f)
        return;
    if (s->nx != s->op->num_operands || s->nx != 2 * n + 5 || s->ny != n) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it takes inputs, as many initial values and 5 lists");
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
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it takes a state and a shape, and returns a state and bits");
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
