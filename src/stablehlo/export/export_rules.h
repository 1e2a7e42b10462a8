/* SPDX-License-Identifier: Apache-2.0 */
/* export_rules.h: ops in terms of those that StableHLO has too, where the op's own decomposition does not do. The
   name of a rule is that of the op it is for, or says what is made of several. */
#ifndef FLXI_STABLEHLO_EXPORT_RULES_H
#define FLXI_STABLEHLO_EXPORT_RULES_H

#include "stablehlo/export/export.h"

#define EXPORT_POINTWISE_RULES(X) \
    X(or)                         \
    X(and)                        \
    X(identity)                   \
    X(mod)                        \
    X(fma)                        \
    X(add_n)                      \
    X(is_nan)                     \
    X(is_inf)                     \
    X(is_finite)                  \
    X(exp2)                       \
    X(log2)                       \
    X(log10)                      \
    X(reciprocal)                 \
    X(square)                     \
    X(relu)                       \
    X(silu)                       \
    X(trunc)                      \
    X(sign)                       \
    X(where)                      \
    X(complex_norm_sq)            \
    X(conjugate)                  \
    X(bessel_i0e)                 \
    X(cast)                       \
    X(bitcast)                    \
    X(eye)                        \
    X(dim_size)

#define EXPORT_AXIS_RULES(X) \
    X(widened)               \
    X(keep_dims)             \
    X(reduce)                \
    X(argmax)                \
    X(argmin)                \
    X(cumsum)                \
    X(cumprod)               \
    X(cummax)                \
    X(cummin)                \
    X(cumlogsumexp)          \
    X(sort)                  \
    X(argsort)               \
    X(topk)                  \
    X(top_k)                 \
    X(pool_argmax)           \
    X(fft)                   \
    X(rope)

#define EXPORT_INDEX_RULES(X) \
    X(gather)                 \
    X(scatter_add)            \
    X(take_along)             \
    X(dynamic_slice)          \
    X(dynamic_update_slice)   \
    X(gather_nd)              \
    X(scatter_nd)

#define EXPORT_PRODUCT_RULES(X)       \
    X(matmul)                         \
    X(dot_general)                    \
    X(grouped_matmul)                 \
    X(grouped_matmul_input_backward)  \
    X(grouped_matmul_weight_backward) \
    X(conv)                           \
    X(conv_backward_input)            \
    X(conv_backward_weight)           \
    X(dequant_moe_weights)

#define EXPORT_MATRIX_RULES(X) \
    X(cholesky)                \
    X(solve_triangular)        \
    X(lu)                      \
    X(solve)                   \
    X(inv)                     \
    X(det)                     \
    X(adjugate)                \
    X(qr)                      \
    X(sparse_solve)            \
    X(eigh)                    \
    X(svd)                     \
    X(pinv)                    \
    X(expm)

#define EXPORT_RANDOM_RULES(X) \
    X(rng_bit_generator)       \
    X(rng_bits)                \
    X(rng_uniform)             \
    X(rng_normal)              \
    X(rng_split)               \
    X(rng_fold_in)             \
    X(exponential)             \
    X(truncated_normal)        \
    X(categorical)             \
    X(permutation)             \
    X(sample)                  \
    X(gamma)

#define EXPORT_CONTROL_RULES(X) \
    X(if)                       \
    X(case)                     \
    X(while)                    \
    X(scan)                     \
    X(fixed_point)              \
    X(cg)                       \
    X(gmres)                    \
    X(root)                     \
    X(check)                    \
    X(recv)

#define EXPORT_DECLARE_RULE(name) void flxi_export_as_##name(flxi_site *s, flx_val *y);
EXPORT_POINTWISE_RULES(EXPORT_DECLARE_RULE)
EXPORT_AXIS_RULES(EXPORT_DECLARE_RULE)
EXPORT_INDEX_RULES(EXPORT_DECLARE_RULE)
EXPORT_PRODUCT_RULES(EXPORT_DECLARE_RULE)
EXPORT_MATRIX_RULES(EXPORT_DECLARE_RULE)
EXPORT_RANDOM_RULES(EXPORT_DECLARE_RULE)
EXPORT_CONTROL_RULES(EXPORT_DECLARE_RULE)
#undef EXPORT_DECLARE_RULE

/* ---- What rules share ---- */

static inline int64_t site_int(const flxi_site *s, const char *name)
{
    return export_int(s->op, s->attrs, name);
}
static inline double site_real(const flxi_site *s, const char *name)
{
    return export_real(s->op, s->attrs, name);
}
static inline flx_ints site_ints(const flxi_site *s, const char *name)
{
    return export_ints(s->op, s->attrs, name);
}
static inline const flx_graph *site_graph(const flxi_site *s, const char *name)
{
    return export_graph(s->op, s->attrs, name);
}
static inline bool site_says(const flxi_site *s, const char *name, const char *word)
{
    return flxi_export_is_word(s->op, s->attrs, name, word);
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
