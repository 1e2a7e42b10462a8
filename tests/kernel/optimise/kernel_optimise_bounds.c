/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_optimise_bounds.c: ranges of indices, the decisions they allow, and inlining. */
#include "kernel/optimise/optimise_case.h"

#include "kernel/optimise/kernel_bounds.h"

/* ---- bounds ---- */

TEST(kernel_bounds_decides_comparisons)
{
    optimise_expect("bounds", "if (l < 4) { out[l] = 1.0; } if (l >= 4) { x[l] = 1.0; }",
                    "if (true) { out[l] = 1.0; } if (false) { x[l] = 1.0; }");
    optimise_keeps("bounds", "if (l < 3) { out[i] = 1.0; }");
    optimise_expect("bounds", "for (j in 2..6) { if (j < 6) { out[j] = 1.0; } if (j == 6) { x[j] = 1.0; } }",
                    "for (j in 2..6) { if (true) { out[j] = 1.0; } if (false) { x[j] = 1.0; } }");
    optimise_keeps("bounds", "for (j in 2..6) { if (j < 5) { out[j] = 1.0; } }");
    optimise_expect("bounds", "let p = n[i] % 5; if (p < 5) { out[p] = 1.0; }",
                    "let p = n[i] % 5; if (true) { out[p] = 1.0; }");
}

TEST(kernel_bounds_knows_that_sums_wrap)
{
    optimise_keeps("bounds", "if (n[i] + 1 > 0) { out[i] = 1.0; }");
    optimise_keeps("bounds", "if (n[i] - 1 < n[i]) { out[i] = 1.0; }");
    optimise_expect("bounds", "if (n[i] % 8 + 1 > 0) { out[i] = 1.0; }", "if (true) { out[i] = 1.0; }");
    optimise_keeps("bounds", "if (l - 1 < 4) { out[i] = 1.0; }");
    optimise_expect("bounds", "if (3 - l < 4) { out[l] = 1.0; }", "if (true) { out[l] = 1.0; }");
    optimise_keeps("bounds", "if (n[i] % m[i] < 100) { out[i] = 1.0; }");
}

TEST(kernel_bounds_learns_from_branches)
{
    optimise_expect("bounds", "if (i < 5) { if (i < 8) { out[i] = 1.0; } } else { if (i > 4) { x[i] = 1.0; } }",
                    "if (i < 5) { if (true) { out[i] = 1.0; } } else { if (true) { x[i] = 1.0; } }");
    optimise_keeps("bounds", "if (i < 8) { if (i < 5) { out[i] = 1.0; } }");
    optimise_expect("bounds", "if (i >= 5) { return; } if (i < 5) { out[i] = 1.0; }",
                    "if (i >= 5) { return; } if (true) { out[i] = 1.0; }");
    optimise_keeps("bounds", "if (i >= 5) { x[i] = 2.0; } if (i < 5) { out[i] = 1.0; }");
    /* facts that may change are not learned */
    optimise_keeps("bounds", "if (m[i] < 5) { m[i] = 7; if (m[i] < 5) { out[i] = 1.0; } }");
    optimise_keeps("bounds", "let v = n[i]; if (v < 5) { v = v + 3; if (v < 5) { out[i] = 1.0; } }");
    /* … and only inside the branch */
    optimise_keeps("bounds", "if (i < 5) { x[i] = 1.0; } if (i < 5) { out[i] = 1.0; }");
}

TEST(kernel_bounds_learns_from_the_condition_of_a_select)
{
    optimise_expect("bounds", "let p = select(i < 5, i, 0); if (p < 5) { out[p] = 1.0; }",
                    "let p = select(i < 5, i, 0); if (true) { out[p] = 1.0; }");
    optimise_expect("bounds", "let p = select(i <= 5, i, 2); if (p < 6) { out[p] = 1.0; }",
                    "let p = select(i <= 5, i, 2); if (true) { out[p] = 1.0; }");
    optimise_expect("bounds", "let p = select(7 > i && i > 2, i, 3); if (p < 7 && p > 2) { out[p] = 1.0; }",
                    "let p = select(i < 7 && i > 2, i, 3); if (true) { out[p] = 1.0; }");
    optimise_expect("bounds", "let p = select(i > 5, 0, i); if (p <= 5) { out[p] = 1.0; }",
                    "let p = select(i > 5, 0, i); if (true) { out[p] = 1.0; }");
    optimise_expect("bounds", "let p = select(i < 2 || i >= 9, 4, i); if (p < 9) { out[p] = 1.0; }",
                    "let p = select(i < 2 || i >= 9, 4, i); if (true) { out[p] = 1.0; }");
    optimise_keeps("bounds", "let p = select(i <= 5, i, 0); if (p < 5) { out[p] = 1.0; }");
    optimise_keeps("bounds", "let p = select(i < 5, i, 5); if (p < 5) { out[p] = 1.0; }");
    optimise_keeps("bounds", "let p = select(i < 5 || i > 7, i, 0); if (p < 5) { out[p] = 1.0; }");
    optimise_keeps("bounds", "let p = select(i < 5, i + 1, 0); if (p < 5) { out[p] = 1.0; }");
    /* memory that is written may differ from one read to the next */
    optimise_keeps("bounds", "let p = select(m[i] < 5, m[i], 0); m[i] = 9; if (p < 5) { out[p] = 1.0; }");
}

TEST(kernel_bounds_settles_min_max_mod)
{
    optimise_expect("bounds", "res[i] = min(l, 9) + max(l, 9) + l % 4;", "res[i] = l + 9 + l;");
    optimise_keeps("bounds", "res[i] = min(l, 2) + l % 3;");
}

/* The only load and the only store of a body: whether they are proved to be in range. */
static void check_proof(const char *body, bool load, bool store)
{
    flx_error err = {0};
    flxi_kbounds b;
    flx_kernel *k = optimise_kernel(body);
    test_fail_context("%s", body);
    CHECK_OK(flxi_kbounds_find(&b, k, &err), &err);
    bool has_load = true, has_store = true;
    for (uint32_t e = 1; e <= k->num_exprs; e++)
        if (k->exprs[e].kind == KX_LOAD)
            has_load = has_load && b.exprs[e];
    for (uint32_t at = 1; at <= b.f.num_positions; at++)
        if (b.f.stmt[at]->kind == KS_STORE)
            has_store = has_store && b.stores[at];
    CHECK(has_load == load);
    CHECK(has_store == store);
    flxi_kbounds_free(&b);
    flx_kernel_release(k);
}

TEST(kernel_bounds_proves_accesses)
{
    check_proof("out[l] = a[l * 4 + 3];", true, true);
    check_proof("out[l] = a[l * 4 + 4];", false, true);
    check_proof("out[i] = a[i];", false, false);
    check_proof("if (i < 16) { out[i] = a[i]; }", true, true);
    check_proof("if (i >= 16) { return; } out[i] = a[i];", true, true);
    check_proof("if (i < 17) { out[i] = a[i]; }", false, false);
    check_proof("for (j in 0..16) { out[j] = a[15 - j]; }", true, true);
    check_proof("for (j in 0..17) { out[j] = a[j]; }", false, false);
}

TEST(kernel_bounds_proves_accesses_of_open_length)
{
    check_proof("buffer z: f32[] read_write; if (i < buf_len(z)) { z[i] = z[i] + 1.0; }", true, true);
    check_proof("buffer z: f32[] read_write; if (i <= buf_len(z)) { z[i] = z[i] + 1.0; }", false, false);
    check_proof("buffer z: f32[] read_write; let q = buf_len(z); for (j in 0..q) { z[j] = z[j] + 1.0; }", true, true);
    check_proof("buffer z: f32[] read_write; buffer w: f32[] read_write; if (i < buf_len(w)) { z[i] = w[i]; }", true,
                false);
    /* every occurrence counts */
    check_proof("if (i < 16) { out[l] = a[i]; } x[l] = a[i];", false, true);
}

/* ---- inline ---- */

TEST(kernel_inline_blocks_and_regions)
{
    optimise_expect("inline", "{ let p = a[i]; out[i] = p; } region r { let p = b[i]; x[i] = p; }",
                    "let p_2 = a[i]; out[i] = p_2; let p_3 = b[i]; x[i] = p_3;");
    optimise_expect("inline", "{ { let p = a[i]; out[i] = p; return; } } x[i] = 1.0;",
                    "let p = a[i]; out[i] = p; return;");
    optimise_keeps("inline", "region r stop_gradient { out[i] = a[i]; } region s once { x[i] = a[i]; }");
}

TEST(kernel_inline_calls)
{
    optimise_expect(
        "inline", "fn f(p: f32, q: f32) -> f32 { let r = p * q; return r + p; } out[i] = f(a[i], 2.0) + f(1.0, b[i]);",
        "fn f(p: f32, q: f32) -> f32 { let r = p * q; return r + p; }"
        "let p_2 = a[i]; let r_3 = p_2 * 2.0; let q_4 = b[i]; let r_5 = 1.0 * q_4; out[i] = r_3 + p_2 + (r_5 + 1.0);");
    optimise_expect("inline,dce",
                    "fn f(p: f32) -> f32 { return p * p; } fn g(p: f32) -> f32 { return f(p) + 1.0; }"
                    "let v = a[i]; if (g(v) > 3.0) { out[i] = f(f(v)); }",
                    "let v = a[i]; if (v * v + 1.0 > 3.0) { let p_2 = v * v; out[i] = p_2 * p_2; }");
    optimise_expect("inline,dce",
                    "fn f(p: u32) -> u32 { let s = 0; for (j in 0..p) { s = s + j; } return s; }"
                    "for (j in 0..3) { res[j] = f(j); }",
                    "for (j in 0..3) { let s_2 = 0; for (j_3 in 0..j) { s_2 = s_2 + j_3; } res[j] = s_2; }");
}

TEST(kernel_inline_not_where_it_shows)
{
    /* inlining would lose its own derivative */
    optimise_keeps("inline",
                   "fn f(p: f32) -> f32 { return p * p; } adjoint f.p(p: f32, z: f32, g: f32) -> f32 { return g; }"
                   "out[i] = f(a[i]);");
    /* the load comes after the atomic */
    optimise_keeps("inline", "fn f(p: u32) -> u32 { return p * p; } res[atomic_add(m[i], 1)] = f(m[i]);");
}
