/* SPDX-License-Identifier: Apache-2.0 */
/* import_linalg.h: matrices, as the rules of the language and of the library functions that programs call use them. */
#ifndef FLXI_STABLEHLO_IMPORT_LINALG_H
#define FLXI_STABLEHLO_IMPORT_LINALG_H

#include "stablehlo/import/import_site.h"

/* Fails unless `a` has two axes or more. */
bool flxi_hlo_need_matrix(hlo_site *s, flx_val a);

/* The last two axes swapped, and conjugated. */
flx_val flxi_hlo_transposed(hlo_site *s, flx_val a);
flx_val flxi_hlo_adjoint(hlo_site *s, flx_val a);

/* bool [m, n]: true where column − row ≤ k. */
flx_val flxi_hlo_triangle_mask(hlo_site *s, flx_val a, int64_t k);

/* The Hermitian matrix of which one triangle of `a` is given. */
flx_val flxi_hlo_hermitian(hlo_site *s, flx_val a, bool lower);

/* Factors and solutions in f32 for f16 and bf16, which have none of their own; then back. */
flx_val flxi_hlo_widened(hlo_site *s, flx_val a);
flx_val flxi_hlo_narrowed(hlo_site *s, flx_val a, flx_val like);

typedef struct {
    bool left_side, lower, unit_diagonal;
    const char *trans; /* a word of solve_triangular */
} hlo_triangular;
flx_val flxi_hlo_solve_triangular(hlo_site *s, flx_val a, flx_val b, const hlo_triangular *how);

/* Reflections H_k = 1 − tau_k v_k v_k^H, as LAPACK's geqrf leaves them: v_k has a one in row k, zeros above it and
   column k of `packed` below; H_1 H_2 … packed's upper triangle = a. */
void flxi_hlo_reflect(hlo_site *s, flx_val a, flx_val *packed, flx_val *taus);
/* The first `columns` columns of their product. */
flx_val flxi_hlo_reflected(hlo_site *s, flx_val packed, flx_val taus, flx_dim columns);
/* Their product, or its adjoint, times c; or c times it. */
flx_val flxi_hlo_apply_reflections(hlo_site *s, flx_val packed, flx_val taus, flx_val c, bool left, bool is_adjoint);

/* The same after an exchange of columns in each step: those where `fixed` [.., n] is not zero come first, then the
   longest, so that the diagonal does not grow; `order` [.., n] counts them from 1. */
void flxi_hlo_reflect_pivoted(hlo_site *s, flx_val a, flx_val fixed, flx_val *packed, flx_val *order, flx_val *taus);
/* The Hessenberg form in the rows up to the one after the diagonal, v_k with a one in row k + 1 below it, as gehrd. */
void flxi_hlo_hessenberg(hlo_site *s, flx_val a, flx_val *packed, flx_val *taus);

#endif
