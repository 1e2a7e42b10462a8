/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_check_buffer.h: the rules of declarations: K01 to K09, and types that a target does not support. */
#ifndef FLXI_KERNEL_CHECK_BUFFER_H
#define FLXI_KERNEL_CHECK_BUFFER_H

#include "kernel/check/kernel_checker.h"

/* Workgroup size, name, metadata and all buffers, in this order. Needs c->uses. */
void flxi_kcheck_declarations(flxi_kchecker *c);

/* K31 if the target has no such type. */
void flxi_kcheck_type(flxi_kchecker *c, const char *what, uint32_t type);

/* Whether the conditions, in prefix order, form exactly one condition. */
bool flxi_kpredicate_is_whole(const flx_kernel_predicate *p, size_t n);

/* Whether a count satisfies them; an empty list is always satisfied. False for an incomplete list. */
bool flxi_kpredicate_holds(const flx_kernel_predicate *p, size_t n, uint64_t count);

#endif
