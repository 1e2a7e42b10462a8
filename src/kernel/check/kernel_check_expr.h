/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_check_expr.h: the rules of expressions: types, access, atomics, calls and extensions. */
#ifndef FLXI_KERNEL_CHECK_EXPR_H
#define FLXI_KERNEL_CHECK_EXPR_H

#include "kernel/check/kernel_checker.h"

/* Checks the whole tree, operands first. Returns its type, 0 if something is wrong with it. */
uint32_t flxi_kcheck_expr(flxi_kchecker *c, uint32_t expr);

/* As flxi_kcheck_expr; also `code` unless the type is u32. `what` describes the expression in messages. */
void flxi_kcheck_u32(flxi_kchecker *c, uint32_t expr, const char *code, const char *what);

/* As flxi_kcheck_expr; also K25 unless the type is bool or u32. */
void flxi_kcheck_condition(flxi_kchecker *c, uint32_t expr, const char *what);

/* An access to B[index]: K20, K34, K46, K54. */
void flxi_kcheck_element(flxi_kchecker *c, uint32_t buffer, uint32_t index, const char *what, bool is_atomic);

/* K21 when a value of this type cannot be stored. */
void flxi_kcheck_value(flxi_kchecker *c, const flxi_kbuffer *b, uint32_t type, const char *what);

/* K64 for an incomplete extension. */
/* Part of expression e, or of a statement if e is NULL. */
void flxi_kcheck_opaque(flxi_kchecker *c, uint32_t opaque, const flxi_kx *e);

#endif
