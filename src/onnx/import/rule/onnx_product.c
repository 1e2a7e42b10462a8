/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_product.c: products of matrices. */
#include "graph/type/type.h"
#include "onnx/import/onnx_site.h"

#include <stdio.h>

/* The last two axes swapped. */
static flx_val transposed(onnx_site *s, flx_val x)
{
    int rank = flxi_onnx_rank(s, x);
    int64_t perm[FLX_MAX_RANK];
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    if (rank >= 2) {
        perm[rank - 1] = rank - 2;
        perm[rank - 2] = rank - 1;
    }
    return flx_transpose(s->g, x, .perm = {perm, (size_t)rank});
}

/* numpy's matmul: a vector is a matrix of one row or column, whose axis is removed again. */
static flx_val matmul(onnx_site *s, flx_val a, flx_val b)
{
    int ra = flxi_onnx_rank(s, a), rb = flxi_onnx_rank(s, b);
    if (ra == 1)
        a = flx_unsqueeze(s->g, a, .axes = FLX_INTS(0));
    if (rb == 1)
        b = flx_unsqueeze(s->g, b, .axes = FLX_INTS(1));
    flx_val y = flx_matmul(s->g, a, b);
    int r = flxi_onnx_rank(s, y);
    if (ra == 1 && rb == 1)
        return flx_reshape(s->g, y, .shape = FLX_NO_INTS);
    if (ra == 1)
        return flx_squeeze(s->g, y, .axes = FLX_INTS(r - 2));
    return rb == 1 ? flx_squeeze(s->g, y, .axes = FLX_INTS(r - 1)) : y;
}

void flxi_onnx_import_matmul(onnx_site *s)
{
    s->y[0] = matmul(s, s->x[0], s->x[1]);
}

static flx_val scaled(onnx_site *s, flx_val x, double by)
{
    if (by == 1)
        return x;
    if (flxi_is_float((int32_t)flxi_onnx_dtype(s, x)))
        return flx_mul(s->g, x, flxi_onnx_number(s, x, by));
    flx_val wide = flx_mul(s->g, flxi_onnx_cast(s, x, FLX_F64), flx_scalar(s->g, FLX_F64, by));
    return flxi_onnx_cast(s, wide, flxi_onnx_dtype(s, x));
}

void flxi_onnx_import_gemm(onnx_site *s)
{
    flx_val a = flxi_onnx_int(s, "transA", 0) ? transposed(s, s->x[0]) : s->x[0];
    flx_val b = flxi_onnx_int(s, "transB", 0) ? transposed(s, s->x[1]) : s->x[1];
    flx_val y = scaled(s, flx_matmul(s->g, a, b), flxi_onnx_real(s, "alpha", 1));
    if (flxi_onnx_given(s->x[2]))
        y = flx_add(s->g, y, scaled(s, s->x[2], flxi_onnx_real(s, "beta", 1)));
    s->y[0] = y;
}

/* ---- Einsum ---- */

enum { MAX_TERMS = 16 };

typedef struct {
    char term[MAX_TERMS][64];
    int count;
    char result[64];
    bool has_result;
} einsum_text;

/* "ij, jk -> ik" without blanks, term by term; letters of both cases. */
static bool split_equation(const char *eq, einsum_text *e)
{
    char *out = e->term[0];
    size_t n = 0;
    e->count = 1;
    for (; *eq; eq++) {
        if (*eq == ' ')
            continue;
        if (*eq == ',' && !e->has_result && e->count < MAX_TERMS) {
            out[n] = 0;
            out = e->term[e->count++];
            n = 0;
        } else if (eq[0] == '-' && eq[1] == '>' && !e->has_result) {
            out[n] = 0;
            out = e->result;
            e->has_result = true;
            n = 0;
            eq++;
        } else if (n < 60) {
            out[n++] = *eq;
        } else {
            return false;
        }
    }
    out[n] = 0;
    return true;
}

static int letters_in(const char *term)
{
    int n = 0;
    for (; *term; term++)
        n += *term != '.';
    return n;
}

/* Letters that the text does not use, for the axes of an ellipsis, the last one first. */
static char fresh_letter(const einsum_text *e, int k)
{
    for (char c = 'A'; c <= 'Z'; c++) {
        bool used = strchr(e->result, c) != NULL;
        for (int i = 0; i < e->count; i++)
            used |= strchr(e->term[i], c) != NULL;
        if (!used && k-- == 0)
            return c;
    }
    return '?';
}

/* Replaces "..." by letters for `n` axes. */
static void spell_ellipsis(const einsum_text *e, const char *term, int n, char *out, size_t size)
{
    size_t k = 0;
    for (; *term && k + 1 < size; term++) {
        if (strncmp(term, "...", 3) != 0) {
            out[k++] = *term;
            continue;
        }
        for (int i = n; i-- > 0 && k + 1 < size;)
            out[k++] = fresh_letter(e, i);
        term += 2;
    }
    out[k] = 0;
}

/* Without "->" the result has the letters that occur once, in alphabetical order, after those of an ellipsis. */
static void imply_result(einsum_text *e)
{
    size_t n = 0;
    bool has_ellipsis = false;
    for (int i = 0; i < e->count; i++)
        has_ellipsis |= strstr(e->term[i], "...") != NULL;
    if (has_ellipsis) {
        memcpy(e->result, "...", 3);
        n = 3;
    }
    for (int c = 'A'; c <= 'z'; c++) {
        int uses = 0;
        for (int i = 0; i < e->count; i++)
            for (const char *t = e->term[i]; *t; t++)
                uses += *t == c;
        if (uses == 1 && c != '.' && n + 1 < sizeof e->result)
            e->result[n++] = (char)c;
    }
    e->result[n] = 0;
}

void flxi_onnx_import_einsum(onnx_site *s)
{
    einsum_text e = {.count = 0};
    char eq[1200], part[80];
    size_t n = 0;
    int most = 0;
    if (!split_equation(flxi_onnx_word(s, "equation", ""), &e) || (size_t)e.count != s->nx) {
        flxi_onnx_fail(s, FLX_E_ATTRIBUTE, NULL, "the equation does not fit its %zu operands", s->nx);
        return;
    }
    if (!e.has_result)
        imply_result(&e);
    for (int i = 0; i < e.count; i++) {
        int hidden = strstr(e.term[i], "...") ? flxi_onnx_rank(s, s->x[i]) - letters_in(e.term[i]) : 0;
        most = hidden > most ? hidden : most;
        spell_ellipsis(&e, e.term[i], hidden > 0 ? hidden : 0, part, sizeof part);
        n += (size_t)snprintf(eq + n, sizeof eq - n, "%s%s", i ? "," : "", part);
    }
    spell_ellipsis(&e, e.result, most, part, sizeof part);
    snprintf(eq + n, sizeof eq - n, "->%s", part);
    s->y[0] = flx_einsum(s->g, s->x, s->nx, .eq = eq);
}

/* ---- Determinant ---- */

void flxi_onnx_import_det(onnx_site *s)
{
    s->y[0] = flxi_onnx_unary(s, "det", s->x[0]);
}
