/* SPDX-License-Identifier: Apache-2.0 */
/* operations.h: what is known about an operation of StableHLO and of the dialects used with it. The rows are in
   operations.def, which also describes the notations of their strings. */
#ifndef FLXI_STABLEHLO_OPERATIONS_H
#define FLXI_STABLEHLO_OPERATIONS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hlo_site hlo_site; /* import/import_site.h */

typedef struct {
    const char *name; /* with its dialect */
    const char *form; /* NULL: written in the generic form only */
    const char *signature;
    void (*import)(hlo_site *s); /* NULL: the operation is only read */
    const char *ours;            /* the op that a rule for several operations appends */
    const char *ours_bool;       /* the same for i1; NULL: the same op */
    const char *stands_for;      /* the operation that this one is once its operands are broadcast */
    const char *attributes;      /* constraints; NULL: none */
    const char *regions;         /* NULL: no regions */
    bool (*check)(hlo_site *s);  /* what else must agree (hlo_agreement.c); NULL: nothing */
    bool moves;                  /* results hold elements of the operands or literals: nothing is rounded */
    bool as_stored;              /* the rule sees quantised operands as they are stored, not as what they express */
    bool rescales;               /* quantised results may have other scales than the operands although it moves them */
} hlo_operation;

/* Sorted by name. */
extern const hlo_operation flxi_hlo_operations[];
extern const size_t flxi_hlo_num_operations;

/* NULL when there is no such row. */
const hlo_operation *flxi_hlo_operation(const char *name);

/* Every rule that a row names. */
#define HLO_DECLARE(rule, ...) void flxi_hlo_import_##rule(hlo_site *s);
#define HLO_OP(name, form, signature, ...) HLO_DECLARE(__VA_ARGS__, ~)
#define HLO_FORM(name, form)
#include "stablehlo/operations.def"
#undef HLO_DECLARE

#endif
