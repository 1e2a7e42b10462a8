/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_rules.h: local derivatives of kernel operations. */
#ifndef FLXI_KERNEL_RULES_H
#define FLXI_KERNEL_RULES_H

#include "kernel/program/kernel.h"

/* What happens to the derivative of an operand. */
typedef enum {
    KPASS_NONE,    /* the operand has none: an index, a condition, an integer, an operand of stop_gradient */
    KPASS_ZERO,    /* the operation is piecewise constant in it: zero, and worth a warning */
    KPASS_RULE,    /* it propagates */
    KPASS_REFUSED, /* there is no derivative */
} flxi_kpass;

flxi_kpass flxi_kernel_pass(const flx_kernel *k, const flxi_kx *e, int operand);

/* The type derivatives of a float type are computed in: f64 for f64, else f32. */
static inline uint32_t flxi_kernel_adjoint_type(uint32_t type)
{
    return type == FLX_F64 ? FLX_F64 : FLX_F32;
}

typedef struct {
    flxi_kb *b;
    const flxi_kx *e; /* the operation */
    uint32_t type;    /* of everything below: the adjoint type of the operation's type */
    uint32_t x[3];    /* its operands (the condition of a select unchanged) */
    uint32_t z;       /* its result */
    bool ties_left;   /* of min and max: a tie goes to the first operand, else it is shared */
} flxi_ksite;

/* g times the partial derivative with respect to the operand. The map is linear in g, so it serves both modes: g is the
   adjoint of the result, or the tangent of the operand. */
uint32_t flxi_kernel_partial(const flxi_ksite *s, int operand, uint32_t g);

/* How messages name the operation: "floor", "a cast to u32", … */
const char *flxi_kx_name(const flxi_kx *e);

/* FLX_E_KERNEL with "not differentiable" first: the operation has no derivative. */
flx_code flxi_kernel_refuse(const flx_kernel *k, const flxi_kx *e, flx_error *err);

#endif
