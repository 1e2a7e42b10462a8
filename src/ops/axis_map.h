/* axis_map.h: ops in which each axis of the result shows one axis of an operand, or none, independently of the others.

   transpose, expand, slice, pad, roll, tile and their kin differ in two answers only: which operand axis a result axis
   runs along, and which position of it the result shows at i. One walk over the result then moves the bytes. Also here:
   the checks on shapes that those ops share. */
#ifndef FLXI_AXIS_MAP_H
#define FLXI_AXIS_MAP_H

#include "ir/eval.h"
#include "ir/infer.h"

/* The position along operand axis `axis` that the result shows at i; negative: none, the result is left as it is. */
typedef int64_t (*flxi_axis_at)(const flxi_eval *e, int axis, int64_t i);

typedef struct {
    int from[FLX_MAX_RANK]; /* per result axis: the operand axis it runs along; -1: the operand repeats along it */
    flxi_axis_at at;        /* NULL: position i shows position i */
} flxi_axis_map;

/* Fills y with the elements of x that the map shows. */
void flxi_move(const flxi_eval *e, const flxi_axis_map *map, const flx_tensor *x, flx_tensor *y);
/* The same from operand 0 to result 0 of equal rank, every axis along its own. */
flx_code flxi_move_each(flxi_eval *e, flxi_axis_at at);

/* Position i of an axis of operand 0 that stretches when its extent is 1. */
int64_t flxi_at_stretched(const flxi_eval *e, int axis, int64_t i);

/* ---- Inference ---- */

typedef struct {
    char text[48];
} flxi_dim_text;
/* A dimension as text, for messages. */
const char *flxi_dim_str(flx_context *ctx, flx_dim d, flxi_dim_text *buffer);

static inline bool flxi_dim_negative(flx_dim d)
{
    return flxi_dim_is_number(d) && d < 0;
}

/* Fails with ARITY when an op of any number of operands has none. */
flx_code flxi_need_operands(flxi_infer *f);
/* Fails with SIZE when a result of that many axes cannot be. */
flx_code flxi_need_result_rank(flxi_infer *f, size_t rank);
/* Fails with ATTRIBUTE when an entry is a negative number. */
flx_code flxi_need_not_negative(flxi_infer *f, const char *name, const flx_ints *list);
/* Fails with SHAPE unless axis `axis` of operand 0 has extent 1 or may be equal to `target`. */
flx_code flxi_need_stretch(flxi_infer *f, int axis, flx_dim target);

#endif
