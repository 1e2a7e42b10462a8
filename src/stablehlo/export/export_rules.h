/* SPDX-License-Identifier: Apache-2.0 */
/* export_rules.h: ops in terms of those that StableHLO has too, where the op's own decomposition does not do. The
   name of a rule is that of the op it is for, or says what is made of several. */
#ifndef FLXI_STABLEHLO_EXPORT_RULES_H
#define FLXI_STABLEHLO_EXPORT_RULES_H

#include "stablehlo/export/export.h"

/* Every rule that a row names. */
#define EXPORT_LINE(op, name, writer)
#define EXPORT_LINE_IF(op, name, writer, when)
#define EXPORT_LINE_ELSE(op, name, writer, when, rule) void flxi_export_as_##rule(flxi_site *s, flx_val *y);
#define EXPORT_RULE(op) void flxi_export_as_##op(flxi_site *s, flx_val *y);
#define EXPORT_WRAPPED(op, name, writer) void flxi_export_as_##op(flxi_site *s, flx_val *y);
#include "stablehlo/export/export_table.def"

/* ---- What rules share ---- */

static inline int64_t site_int(const flxi_site *s, const char *name)
{
    return export_int(s->op, s->attrs, name);
}
static inline double site_real(const flxi_site *s, const char *name)
{
    return flxi_attr_real(s->op, s->attrs, name);
}
static inline flx_ints site_ints(const flxi_site *s, const char *name)
{
    return *flxi_attr_ints(s->op, s->attrs, name);
}
static inline const flx_graph *site_graph(const flxi_site *s, const char *name)
{
    return flxi_attr_graph(s->op, s->attrs, name);
}
static inline bool site_says(const flxi_site *s, const char *name, const char *word)
{
    return flxi_attr_is_word(s->op, s->attrs, name, word);
}

/* The word of the attribute oob. */
const char *flxi_export_oob(const flxi_site *s);

/* v as bool: neither 0 nor NaN, as control flow asks. */
flx_val flxi_export_truth(flxi_site *s, flx_val v);
/* 0, 1, 2 … along one axis of a shape. */
flx_val flxi_export_iota(flxi_site *s, flx_dtype dtype, const flx_type *shape, int axis);

/* Matrices (export_matrix.c): the last two axes exchanged and conjugated; as [batch, rows, columns]; v / |v|, 1 where
   v is 0. */
flx_val flxi_export_adjoint(flxi_site *s, flx_val v);
flx_val flxi_export_in_batch(flxi_site *s, flx_val v);
flx_val flxi_export_phase(flxi_site *s, flx_val v);

#endif
