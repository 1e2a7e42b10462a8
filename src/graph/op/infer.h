/* SPDX-License-Identifier: Apache-2.0 */
/* infer.h: shape and dtype inference, seen from the rule of an op.

   When a rule runs, the number of operands, their dtypes and roles have been checked against the row, and the attribute
   struct is filled with what was given and with defaults. The rule checks the rest, completes and normalises the
   attributes in place (negative axes, "all axes", absent lists) and sets the result types. Afterwards the types are
   checked for overflow. Everything after construction sees normalised attributes only. */
#ifndef FLXI_INFER_H
#define FLXI_INFER_H

#include "graph/op/op.h"

struct flxi_infer {
    flx_graph *g;
    flx_context *ctx;
    const flxi_op *op;
    const char *label; /* of the node, or NULL: for messages */
    uint32_t nin;
    const flx_type *const *in;
    const uint32_t *ids; /* of the operands in g, or NULL: for messages */
    void *attrs;
    uint32_t nout; /* preset to the row's number; with "..." the rule calls flxi_results */
    flx_type *out;
    flxi_arena *arena; /* for lists in attributes */
    flx_error *err;
};

/* Fails with "op 'label': …". */
flx_code flxi_infer_fail(flxi_infer *f, flx_code code, const char *hint, const char *fmt, ...) FLX_PRINTF(4, 5);

/* Makes room for n results of a "..." op. */
flx_code flxi_results(flxi_infer *f, size_t n);

/* axis + rank where negative; fails with ATTRIBUTE unless it is in range for `rank` axes. */
flx_code flxi_norm_axis(flxi_infer *f, const char *name, int64_t *axis, int rank);
/* A list of distinct axes, normalised; absent means all `rank` axes. `sorted` orders them (a set). */
flx_code flxi_norm_axes(flxi_infer *f, const char *name, flx_ints *axes, int rank, bool sorted);
/* A list of exactly n entries; absent is filled with `value`. */
flx_code flxi_norm_list(flxi_infer *f, const char *name, flx_ints *list, size_t n, int64_t value);
/* A copy of a list in the node's memory that the rule may change; NULL with OOM reported. */
int64_t *flxi_own_list(flxi_infer *f, flx_ints *list);
/* A new list of n entries in the node's memory. */
int64_t *flxi_new_list(flxi_infer *f, flx_ints *list, size_t n);

flx_code flxi_need_rank(flxi_infer *f, uint32_t operand, int at_least);
/* Both dims are the same, or may become equal when symbols are bound (then specialising checks again). */
bool flxi_dims_may_equal(flxi_infer *f, flx_dim a, flx_dim b);
/* Shapes broadcast as in NumPy; a symbol broadcasts with 1 and with itself only. The dtype of out is not changed. */
flx_code flxi_broadcast(flxi_infer *f, const flx_type *const *in, uint32_t n, flx_type *out);
/* The name of operand i for messages. */
const char *flxi_operand_name(const flxi_infer *f, uint32_t i, char *buffer, size_t size);
/* The same, but the name that the user gave the value, if it has one. */
const char *flxi_operand_label(const flxi_infer *f, uint32_t i, char *buffer, size_t size);

/* The inputs of the sub-graph must have exactly these types. */
flx_code flxi_match_body(flxi_infer *f, const char *attr, const flx_graph *body, const flx_type *const *types,
                         size_t n);
size_t flxi_body_inputs(const flx_graph *body);
size_t flxi_body_outputs(const flx_graph *body);
const flx_type *flxi_body_output(const flx_graph *body, size_t i);

/* Ready-made rules. */
flx_code flxi_infer_same(flxi_infer *f);      /* results have operand 0's type */
flx_code flxi_infer_pointwise(flxi_infer *f); /* operands broadcast, dtype of operand 0 (of the first without role) */
flx_code flxi_infer_predicate(flxi_infer *f); /* operands broadcast, result bool */

#endif
