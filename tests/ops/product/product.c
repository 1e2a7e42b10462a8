/* SPDX-License-Identifier: Apache-2.0 */
/* Products: empty sums, the notation of einsum and error texts. Values: tests/oracle/product.py. */
#include "ops/gradient_text.h"
#include "ops/symbolic_text.h"

#include <string.h>

/* The message and the hint for the most common shape error. */
TEST(matmul_error_shows_both_shapes_and_suggests_the_transpose)
{
    text_run r = text_begin("graph g(x: f32[32, 784], w: f32[10, 784]) { z = matmul(x, w) return z }");
    CHECK_CODE(r.code, FLX_E_SHAPE, &r.err);
    CHECK_EQ_STR(r.err.message, "matmul 'z': inner dimensions differ: a is [32, 784], b is [10, 784]");
    CHECK_EQ_STR(r.err.hint, "matmul(x, transpose(w, perm=[1, 0]))");
    text_end(&r);
    check_text_fails("graph g(x: f32[4], w: f32[4, 2]) { z = matmul(x, w) return z }", FLX_E_SHAPE,
                     "matmul 'z': a must have rank 2 or more, but it is f32[4]");
}

TEST(product_shapes_with_symbols)
{
    check_text_type("graph g(x: f32[N, K], w: f32[K, 10]) { return matmul(x, w) }", "f32[N, 10]");
    check_text_type("graph g(x: f32[B, 1, N, 3], w: f32[5, 3, M]) { return matmul(x, w) }", "f32[B, 5, N, M]");
    check_text_type("graph g(x: f32[N, 4], w: f32[6, M]) { return dot_general(x, w, lb=[0], rb=[0]) }", "f32[6, 4, M]");
    check_text_type("graph g(x: f32[N, K], w: f32[K, M]) { return einsum(x, w, eq=\"ij,jk\") }", "f32[N, M]");
}

TEST(matmul_possible_equality_is_decided_when_bound)
{
    const char *text = "graph g(x: f32[2, N]) { return matmul(x, full(f32[3, 4], 1)) }";
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 2, (flx_dim[]){2, 3}), &y, &err), &err);
    CHECK_CODE(run_text_at(text, flx_type_make(FLX_F32, 2, (flx_dim[]){2, 4}), &y, &err), FLX_E_SHAPE, &err);
}

TEST(dot_general_errors_name_the_axes)
{
    check_text_fails("graph g(l: f32[3, 4], r: f32[3, 2]) { y = dot_general(l, r, lc=[1], rc=[0]) return y }",
                     FLX_E_SHAPE,
                     "dot_general 'y': lc and rc pair axis 1 of l with axis 0 of r, but l is [3, 4], r is [3, 2]");
    check_text_fails("graph g(l: f32[3, 4], r: f32[4, 2]) { y = dot_general(l, r, lc=[1]) return y }", FLX_E_ATTRIBUTE,
                     "dot_general 'y': lc and rc must have the same number of axes: 1 and 0");
    check_text_fails("graph g(l: f32[3, 4], r: f32[4, 4]) { y = dot_general(l, r, lc=[1], rc=[0], lb=[1], rb=[1])"
                     "  return y }",
                     FLX_E_ATTRIBUTE, "dot_general 'y': axis 1 is both in lc and in lb");
}

TEST(einsum_errors_quote_eq)
{
    static const struct {
        const char *eq, *message;
    } rows[] = {
        {"ij->ik", "einsum: eq=\"ij->ik\": a letter of the result occurs in no operand"},
        {"ij->ii", "einsum: eq=\"ij->ii\": the result has a letter twice"},
        {"ij->i->j", "einsum: eq=\"ij->i->j\": a term consists of letters and '...'"},
        {"i.j", "einsum: eq=\"i.j\": a term consists of letters and '...'"},
        {"......", "einsum: eq=\"......\": a term has '...' twice"},
        {"...j->j", "einsum: eq=\"...j->j\": the result must have the '...' of the operands"},
        {"abcdefghijklmnopq", "einsum: eq=\"abcdefghijklmnopq\": a term has more letters than a tensor can have axes"},
        {"ij,jk", "einsum: eq has 2 terms for 1 operand"},
        {"ijk", "einsum: the term of operand 0 has 3 letters, but its shape is [3, 4]"},
        {"ii", "einsum: the extents of 'i' differ between the operands: operand 0 is [3, 4]"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char text[160] = "graph g(x: f32[3, 4]) { return einsum(x, eq=\"";
        strcat(strcat(text, rows[k].eq), "\") }");
        test_fail_context("eq=\"%s\"", rows[k].eq);
        text_run r = text_begin(text);
        CHECK(r.code == FLX_E_ATTRIBUTE || r.code == FLX_E_SHAPE);
        CHECK_EQ_STR(r.err.message, rows[k].message);
        text_end(&r);
    }
}

/* All 52 letters may be summed over at once. */
TEST(einsum_sums_over_every_letter)
{
    text_run r =
        text_begin("graph g() { x = full(f32[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], 2)"
                   "  y = full(f32[1, 1, 1, 1, 1, 1, 1, 1, 1, 1], 3)"
                   "  return einsum(x, x, x, y, eq=\"abcdefghijklmn,opqrstuvwxyzAB,CDEFGHIJKLMNOP,QRSTUVWXYZ->\") }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), 24, 0);
    text_end(&r);
}

/* ---- Derivatives ---- */

/* Contracted axes come out in the order of the other operand: l[0, i, j] is paired with r[j, 0, i]. */
/* A batch axis that is last in one operand, two free axes, and a leading contracted axis. */
TEST(trap_32_dot_general_of_any_rank_has_cotangents)
{
    static const gradient_row rows[] = {{"l", {1, 2, 3, 4, 5, 6, 7, 8}, {30, 70, 30, 70, 110, 150, 110, 150}},
                                        {"r", {10, 20, 30, 40, 50, 60, 70, 80}, {4, 4, 6, 6, 12, 12, 14, 14}}};
    check_gradient("graph g(l: f64[2, 2, 2], r: f64[2, 2, 2]) {\n"
                   "return dot_general(l, r, lc=[0], rc=[0], lb=[2], rb=[1]) }",
                   rows, 2);
}

TEST(trap_33_dot_general_cotangent_is_permuted_back)
{
    static const gradient_row rows[] = {{"l", {1, 2, 3, 4, 5, 6}, {10, 30, 50, 20, 40, 60}},
                                        {"r", {10, 20, 30, 40, 50, 60}, {1, 4, 2, 5, 3, 6}}};
    check_gradient("graph g(l: f64[1, 2, 3], r: f64[3, 1, 2]) { return dot_general(l, r, lc=[1, 2], rc=[2, 0]) }", rows,
                   2);
}

TEST(trap_34_complex_products_use_the_conjugate)
{
    static const gradient_row rows[] = {{"a", {1, 2}, {3, -4}}, {"b", {3, 4}, {1, -2}}};
    check_reverse("graph g(a: c128[1, 1], b: c128[1, 1]) { return matmul(a, b) }", rows, 2);
    check_reverse("graph g(a: c128[1, 1], b: c128[1, 1]) { return dot_general(a, b, lc=[1], rc=[0]) }", rows, 2);
    check_reverse("graph g(a: c128[1, 1], b: c128[1, 1]) { return einsum(a, b, eq=\"ij,jk->ik\") }", rows, 2);
}

/* One matrix for a whole batch: its cotangent is the sum over the batch, not one matrix for each. */
TEST(matmul_gradient_of_shared_matrix_sums_over_the_batch)
{
    static const gradient_row right[] = {{"a", {1, 2, 3, 4}, {7, 8, 7, 8}}, {"b", {7, 8}, {4, 6}}};
    check_gradient("graph g(a: f64[2, 1, 2], b: f64[2, 1]) { return matmul(a, b) }", right, 2);
    static const gradient_row left[] = {{"a", {7, 8}, {4, 6}}, {"b", {1, 2, 3, 4}, {7, 8, 7, 8}}};
    check_gradient("graph g(a: f64[1, 2], b: f64[2, 2, 1]) { return matmul(a, b) }", left, 2);
}

/* A repeated letter reads the diagonal only; a letter that only one operand has was summed over. */
TEST(einsum_gradient_of_diagonals_and_lone_letters)
{
    static const gradient_row trace[] = {{"x", {1, 2, 3, 4}, {1, 0, 0, 1}}};
    check_gradient("graph g(x: f64[2, 2]) { return einsum(x, eq=\"ii\") }", trace, 1);
    static const gradient_row lone[] = {{"x", {1, 2, 3, 4}, {5, 5, 5, 5}}, {"y", {5}, {10}}};
    check_gradient("graph g(x: f64[2, 2], y: f64[]) { return einsum(x, y, eq=\"ij,->\") }", lone, 2);
    static const gradient_row stretched[] = {{"x", {3}, {6}}, {"y", {1, 2, 3}, {3, 3, 3}}};
    check_gradient("graph g(x: f64[1], y: f64[3]) { return einsum(x, y, eq=\"...,...->...\") }", stretched, 2);
}

/* The axes of "..." get letters of their own in the derivative; with all 52 in use the derivative still has enough, a
   batch axis has none. */
TEST(einsum_runs_out_of_letters_with_an_error)
{
    const char *text =
        "graph g(x: f64[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], y: f64[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]) {"
        "  return einsum(x, x, x, y, eq=\"abcdefghijklmn,opqrstuvwxyzAB,CDEFGHIJKLMNOP,QRSTUVWXYZ->\") }";
    static const gradient_row rows[] = {{"x", {2}, {36}}, {"y", {3}, {8}}};
    check_gradient(text, rows, 2);
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    CHECK(flx_vmap(flx_module_main(m), &(flx_vmap_axis){"x", 0}, 1, NULL, 0, 2, &err) == NULL);
    CHECK_CODE(err.code, FLX_E_UNSUPPORTED, &err);
    flx_module_free(m);
    flx_context_free(ctx);
}
