/* SPDX-License-Identifier: Apache-2.0 */
/* table.c: the op table, made from ops.def. Adding an op does not change this file; a second name for one is a line of
   the lists below. */
#include "ops/opcode.h"

#define OP(name, ...) extern const flxi_rules flxi_rules_##name;
#include "ops/ops.def" /* a row without rules does not link */

const flxi_op flxi_ops[OP_COUNT] = {
#define OP(name, operands, results, op_class, dtypes, traits, doc) \
    [OP_##name] = {#name, operands, results, CLASS_##op_class, dtypes, traits, doc, FAMILY, &flxi_rules_##name},
#include "ops/ops.def"
};

const uint32_t flxi_op_rows = OP_COUNT;
_Static_assert((int)OP_COUNT <= (int)FLXI_MAX_OPS, "the lookup in graph/op/op.c has no room for more ops");

/* ---- Second names ---- */

const flxi_op_synonym flxi_op_synonyms[] = {
    {"softmax_cross_entropy", "softmax_cross_entropy_with_logits"},
    {"erf_gelu", "gelu"},
    {"triangular_solve", "solve_triangular"},
    {"uniform", "rng_uniform"},
    {"normal", "rng_normal"},
    {"flip", "reverse"},
    {"conj", "conjugate"},
    {"logistic", "sigmoid"},
    {"logical_and", "and"},
    {"logical_or", "or"},
    {"logical_xor", "xor"},
    {"logical_not", "not"},
    {NULL, NULL},
};

const flxi_attr_synonym flxi_attr_synonyms[] = {
    {"conv", "feature_groups", "groups"},
    {"conv", "kernel_dilation", "dilation"},
    {"fused_conv_bias_act", "feature_groups", "groups"},
    {"fused_conv_bias_act", "kernel_dilation", "dilation"},
    {"fused_conv_affine_act", "feature_groups", "groups"},
    {"fused_conv_affine_act", "kernel_dilation", "dilation"},
    {NULL, NULL, NULL},
};
