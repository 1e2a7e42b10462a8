/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_operations.h: what is known about the operations of ONNX. The rows are in onnx_operations.def. */
#ifndef FLXI_ONNX_OPERATIONS_H
#define FLXI_ONNX_OPERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct onnx_site onnx_site; /* import/onnx_site.h */

#define ONNX_LATEST INT64_MAX

typedef struct {
    const char *domain; /* "" is the standard one */
    const char *name;
    int64_t since, until;       /* the versions of the domain that the rule is for, both included */
    int min_inputs, max_inputs; /* -1: any number */
    void (*import)(onnx_site *s);
    const char *ours;              /* the op that a rule for several operations appends */
    double number;                 /* a constant that such a rule needs */
    void (*extents)(onnx_site *s); /* what is known of its results as extents; NULL: nothing */
    bool is_narrow;                /* the rule handles element types that have no dtype */
    bool takes_others;             /* operands may be sequences, optionals or texts */
    bool takes_texts;              /* operands may be texts */
    bool is_random;                /* never evaluated at import */
} onnx_operation;

/* The row for this version of the domain; NULL when there is none. */
const onnx_operation *flxi_onnx_operation(const char *domain, const char *name, int64_t version);
/* Whether there is a row for any version. */
bool flxi_onnx_is_operation(const char *domain, const char *name);

/* Row i; NULL after the last. */
const onnx_operation *flxi_onnx_operation_at(size_t i);

#endif
