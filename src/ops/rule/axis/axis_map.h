/* SPDX-License-Identifier: Apache-2.0 */
/* axis_map.h: ops in which each axis of the result reads one axis of an operand, or none, independently of the others.
   transpose, expand, slice, pad, roll, tile and similar ops differ only in which operand axis a result axis runs along,
   and which position of it the result reads at i. One walk over the result then moves the bytes. */
#ifndef FLXI_AXIS_MAP_H
#define FLXI_AXIS_MAP_H

#include "graph/op/eval.h"
#include "ops/rule/axis/extent.h"

/* The position along operand axis `axis` that the result reads at i; negative: none, the result is not written. */
typedef int64_t (*flxi_axis_at)(const flxi_eval *e, int axis, int64_t i);

typedef struct {
    int from[FLX_MAX_RANK]; /* per result axis: the operand axis it runs along; -1: the operand repeats along it */
    flxi_axis_at at;        /* NULL: position i reads position i */
} flxi_axis_map;

/* Fills y with the elements of x that the map selects. */
void flxi_move(const flxi_eval *e, const flxi_axis_map *map, const flx_tensor *x, flx_tensor *y);
/* The same from operand 0 to result 0 of equal rank, every axis along its own. */
flx_code flxi_move_each(flxi_eval *e, flxi_axis_at at);

/* Position i of an axis of operand 0 that stretches when its extent is 1. */
int64_t flxi_at_stretched(const flxi_eval *e, int axis, int64_t i);

/* ---- Inference ---- */

/* Fails with SHAPE unless axis `axis` of operand 0 has extent 1 or may be equal to `target`. */
flx_code flxi_need_stretch(flxi_infer *f, int axis, flx_dim target);

#endif
