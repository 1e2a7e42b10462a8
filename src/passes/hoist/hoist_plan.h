/* SPDX-License-Identifier: Apache-2.0 */
/* hoist_plan.h: which part of a scan's body needs the loop. What does not depend on the carries is computed for all
   steps at once before it, what no carry depends on, for all steps at once after it: a product of one step's few rows
   becomes a product of all steps' rows. */
#ifndef FLXI_HOIST_PLAN_H
#define FLXI_HOIST_PLAN_H

#include "ops/control/control.h"

typedef enum {
    PART_LOOP,     /* inside, like the carries */
    PART_ONCE,     /* before it, and the same for all steps, like the broadcast inputs */
    PART_BEFORE,   /* before it, for all steps at once, like the sequences */
    PART_AFTER,    /* after it, for all steps at once */
    PART_TERM,     /* only summed up over the steps: becomes part of the sum after the loop (hoist_scan.c) */
    PART_ANYWHERE, /* as often as needed: constants, and views of what is the same for all steps */
} flxi_hoist_part;

typedef struct {
    const flx_graph *body; /* of static types */
    const scan_attrs *a;
    int64_t length;
    uint32_t carries, shared; /* inputs of the body that are carries; that are carries or broadcast */
    bool only_once;           /* only what is the same in all steps may leave the loop */
    flxi_arena arena;
    uint8_t *part;    /* by node: a flxi_hoist_part */
    uint8_t *depends; /* by value: on carries, on sequences */
    uint32_t *uses;   /* by value */
    bool *is_sunk;    /* by carry: it is only added to, and its sum is computed after the loop */
    bool *is_stacked; /* by value made inside: something after the loop needs it from every step */
} flxi_hoist_plan;

/* `p` has the fields before `arena`. OOM, or FLX_OK; free it in any case. */
flx_code flxi_hoist_plan_make(flxi_hoist_plan *p, const flxi_allocator *mem, flx_error *err);
void flxi_hoist_plan_free(flxi_hoist_plan *p);

/* Whether anything leaves the loop. */
bool flxi_hoist_pays(const flxi_hoist_plan *p);

/* The node that makes a value, the part it belongs to, and an attribute of a node that is a list. */
const flxi_node *flxi_hoist_node(const flxi_hoist_plan *p, uint32_t value);
flxi_hoist_part flxi_hoist_part_of(const flxi_hoist_plan *p, uint32_t value);

/* The term that a sunk carry adds in each step. */
uint32_t flxi_hoist_term(const flxi_hoist_plan *p, uint32_t carry);

#endif
