/* SPDX-License-Identifier: Apache-2.0 */
/* import_linalg.c: Cholesky factors and triangular systems, and what functions on matrices are made of. */
#include "stablehlo/import/rule/import_linalg.h"

#include "graph/type/type.h"

#include <string.h>

/* ---- Parts of matrices ---- */

bool flxi_hlo_need_matrix(hlo_site *s, flx_val a)
{
    if (flxi_hlo_typeof(s, a)->rank >= 2)
        return true;
    flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "operands must be matrices, with two axes or more");
    return false;
}

flx_val flxi_hlo_transposed(hlo_site *s, flx_val a)
{
    int rank = flxi_hlo_typeof(s, a)->rank;
    int64_t perm[FLX_MAX_RANK];
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return flx_transpose(s->g, a, (flx_ints){perm, (size_t)rank});
}

flx_val flxi_hlo_adjoint(hlo_site *s, flx_val a)
{
    flx_val t = flxi_hlo_transposed(s, a);
    return flxi_is_complex((int32_t)flxi_hlo_dtype(s, a)) ? flx_conjugate(s->g, t) : t;
}

flx_val flxi_hlo_triangle_mask(hlo_site *s, flx_val a, int64_t k)
{
    const flx_type *t = flxi_hlo_typeof(s, a);
    if (!flxi_hlo_need_matrix(s, a))
        return FLX_NONE;
    flx_type plane = flx_type_make(FLX_I64, 2, t->dims + t->rank - 2);
    flx_val row = flx_iota(s->g, &plane, 0);
    flx_val column = flx_iota(s->g, &plane, 1);
    return flx_le(s->g, flx_sub(s->g, column, row), flx_scalar(s->g, FLX_I64, (double)k));
}

flx_val flxi_hlo_hermitian(hlo_site *s, flx_val a, bool lower)
{
    const flx_type *t = flxi_hlo_typeof(s, a);
    if (!flxi_hlo_need_matrix(s, a))
        return FLX_NONE;
    if (t->dims[t->rank - 2] != t->dims[t->rank - 1]) {
        flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "the matrix must be square");
        return FLX_NONE;
    }
    flx_val half = lower ? flx_tril(s->g, a, -1) : flx_triu(s->g, a, 1);
    flx_val diagonal = flx_tril(s->g, flx_triu(s->g, a, 0), 0);
    if (flxi_is_complex((int32_t)flxi_hlo_dtype(s, a))) /* of the diagonal only the real part counts */
        diagonal = flx_cast(s->g, flx_real(s->g, diagonal), flxi_hlo_dtype(s, a));
    return flx_add(s->g, flx_add(s->g, half, diagonal), flxi_hlo_adjoint(s, half));
}

flx_val flxi_hlo_widened(hlo_site *s, flx_val a)
{
    flx_dtype d = flxi_hlo_dtype(s, a);
    return d == FLX_F16 || d == FLX_BF16 ? flx_cast(s->g, a, FLX_F32) : a;
}

flx_val flxi_hlo_narrowed(hlo_site *s, flx_val a, flx_val like)
{
    flx_dtype d = flxi_hlo_dtype(s, like);
    return d == FLX_F16 || d == FLX_BF16 ? flx_cast(s->g, a, d) : a;
}

/* ---- cholesky, triangular_solve ---- */

void flxi_hlo_import_cholesky(hlo_site *s)
{
    bool lower = flxi_hlo_flag(s, "lower", false);
    if (!flxi_hlo_need_matrix(s, s->x[0]))
        return;
    flx_val a = flxi_hlo_hermitian(s, flxi_hlo_widened(s, s->x[0]), lower);
    s->y[0] = flxi_hlo_narrowed(s, flx_cholesky(s->g, a, lower), s->x[0]);
}

flx_val flxi_hlo_solve_triangular(hlo_site *s, flx_val a, flx_val b, const hlo_triangular *how)
{
    return flx_solve_triangular(s->g, a, b, how->lower, how->trans, how->unit_diagonal, how->left_side);
}

void flxi_hlo_import_triangular_solve(hlo_site *s)
{
    static const char *const words[][2] = {
        {"NO_TRANSPOSE", "none"}, {"TRANSPOSE", "transpose"}, {"ADJOINT", "adjoint"}};
    const char *transpose = flxi_hlo_word(s, "transpose_a", "NO_TRANSPOSE");
    hlo_triangular how = {flxi_hlo_flag(s, "left_side", false), flxi_hlo_flag(s, "lower", false),
                          flxi_hlo_flag(s, "unit_diagonal", false), NULL};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(transpose, words[i][0]) == 0)
            how.trans = words[i][1];
    if (!how.trans) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "transpose_a must be NO_TRANSPOSE, TRANSPOSE or ADJOINT");
        return;
    }
    if (!flxi_hlo_need_matrix(s, s->x[0]) || !flxi_hlo_need_matrix(s, s->x[1]))
        return;
    flx_val x = flxi_hlo_solve_triangular(s, flxi_hlo_widened(s, s->x[0]), flxi_hlo_widened(s, s->x[1]), &how);
    s->y[0] = flxi_hlo_narrowed(s, x, s->x[1]);
}
