/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_optimise_loops.c: the passes for loops and memory: code motion, unrolling, fusion, stores, barriers, strength
   reduction. */
#include "kernel/optimise/optimise_case.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- forward, dead_store ---- */

TEST(kernel_forward_loads_of_stored_values)
{
    optimise_expect("forward", "x[l] = a[i] * 2.0; out[i] = x[l];", "let t = a[i] * 2.0; x[l] = t; out[i] = t;");
    optimise_expect("forward", "let v = a[i]; x[l] = v; y[l] = 3.0; out[i] = x[l] + y[l];",
                    "let v = a[i]; x[l] = v; y[l] = 3.0; out[i] = v + 3.0;");
    /* out of range a load gives 0 */
    optimise_keeps("forward", "x[i] = a[i] * 2.0; out[i] = x[i];");
    optimise_expect("forward", "if (i < 16) { x[i] = a[i] * 2.0; out[i] = x[i]; }",
                    "if (i < 16) { let t = a[i] * 2.0; x[i] = t; out[i] = t; }");
}

TEST(kernel_forward_stops_at_other_writes)
{
    optimise_keeps("forward", "x[l] = a[i]; x[3] = 1.0; out[i] = x[l];");
    optimise_expect("forward", "x[1] = a[i]; x[3] = 1.0; out[i] = x[1];",
                    "let t = a[i]; x[1] = t; x[3] = 1.0; out[i] = t;");
    optimise_keeps("forward", "m[l] = n[i]; let q = atomic_add(m[0], 1); res[i] = m[l] + q;");
    optimise_keeps("forward", "x[l] = a[i]; if (n[i] > 3) { x[l] = 1.0; } out[i] = x[l];");
    optimise_keeps("forward", "if (n[i] > 3) { x[l] = a[i]; } out[i] = x[l];");
    optimise_keeps("forward", "let v = l; x[v] = a[i]; for (j in 0..2) { v = v + 1; out[j] = x[v]; }");
}

TEST(kernel_forward_stops_at_barriers)
{
    optimise_keeps("forward", "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); out[i] = s[l]; s[0] = 1.0;");
    optimise_expect("forward", "buffer s: f32[4] private; s[l] = a[i]; barrier(); out[i] = s[l];",
                    "buffer s: f32[4] private; let t = a[i]; s[l] = t; barrier(); out[i] = t;");
}

TEST(kernel_forward_respects_loops)
{
    optimise_keeps("forward", "buffer s: f32[4] private; s[l] = a[i]; for (j in 0..3) { out[j] = s[l]; s[l] = b[j]; }");
    optimise_expect("forward", "buffer s: f32[4] private; s[l] = a[i]; for (j in 0..3) { out[j] = s[l]; }",
                    "buffer s: f32[4] private; let t = a[i]; s[l] = t; for (j in 0..3) { out[j] = t; }");
}

TEST(kernel_forward_rounds_where_memory_does)
{
    optimise_keeps("forward", "buffer s: f8e4m3[4] private; s[l] = a[i]; out[i] = s[l];");
    optimise_expect("forward", "buffer s: f16[4] private; s[l] = cast<f16>(a[i]); out[i] = cast<f32>(s[l]);",
                    "buffer s: f16[4] private; let t = cast<f16>(a[i]); s[l] = t; out[i] = cast<f32>(t);");
}

TEST(kernel_dead_store_drops_overwritten)
{
    optimise_expect("dead_store", "x[i] = 1.0; x[i] = a[i];", "x[i] = a[i];");
    optimise_expect("dead_store", "x[1] = 1.0; x[2] = b[i] + x[3]; x[1] = a[i];", "x[2] = b[i] + x[3]; x[1] = a[i];");
    optimise_keeps("dead_store", "x[i] = 1.0; x[i] = x[i] + a[i];");
    optimise_keeps("dead_store", "x[i] = 1.0; x[l] = a[i];");
    optimise_keeps("dead_store", "x[1] = 1.0; out[i] = x[l]; x[1] = a[i];");
    optimise_keeps("dead_store", "x[i] = 1.0; if (n[i] > 3) { x[i] = 2.0; }");
    optimise_keeps("dead_store", "if (n[i] > 3) { x[i] = 2.0; } x[i] = 1.0;");
}

TEST(kernel_dead_store_keeps_what_others_see)
{
    optimise_keeps("dead_store", "x[i] = 1.0; barrier(); x[i] = 2.0;");
    optimise_keeps("dead_store", "x[i] = 1.0; if (n[i] > 3) { return; } x[i] = 2.0;");
    optimise_keeps("dead_store", "m[i] = 1; let q = atomic_add(m[i], 2); m[i] = q;");
    optimise_keeps("dead_store", "let v = i; x[v] = 1.0; for (j in 0..1) { v = v + 8; } x[v] = 2.0;");
    optimise_keeps("dead_store", "x[atomic_add(m[0], 1)] = 1.0; x[0] = 2.0;");
    optimise_expect("dead_store", "buffer s: f32[4] private; s[0] = 1.0; barrier(); s[0] = 2.0; out[i] = s[0];",
                    "buffer s: f32[4] private; barrier(); s[0] = 2.0; out[i] = s[0];");
}

/* ---- licm ---- */

TEST(kernel_licm_moves_lets)
{
    optimise_expect("licm", "for (j in 0..4) { let p = a[i] * b[i]; out[j] = p + cast<f32>(j); }",
                    "let p = a[i] * b[i]; for (j in 0..4) { out[j] = p + cast<f32>(j); }");
    optimise_expect("licm", "for (j in 0..4) { for (k in 0..2) { let p = a[i]; let q = p + b[j]; out[j] = q; } }",
                    "let p = a[i]; for (j in 0..4) { let q = p + b[j]; for (k in 0..2) { out[j] = q; } }");
    optimise_expect(
        "licm", "for (j in 0..4) { let p = a[i]; out[j] = p; } for (j in 0..4) { let p = b[i]; x[j] = p; }",
        "let p_2 = a[i]; for (j in 0..4) { out[j] = p_2; } let p_3 = b[i]; for (j in 0..4) { x[j] = p_3; }");
}

TEST(kernel_licm_moves_parts)
{
    optimise_expect("licm", "for (j in 0..4) { out[j] = a[j] * (a[i] + 1.0); }",
                    "let t = a[i] + 1.0; for (j in 0..4) { out[j] = a[j] * t; }");
    optimise_keeps("licm", "for (j in 0..4) { out[j] = a[j] * cast<f32>(i + 1); }");
}

TEST(kernel_licm_leaves_what_varies)
{
    optimise_keeps("licm", "for (j in 0..4) { let p = a[j]; out[j] = p; }");
    optimise_keeps("licm", "let v = 0; for (j in 0..4) { let p = n[v]; v = p + 1; res[j] = v; }");
    optimise_keeps("licm", "for (j in 0..4) { let p = x[i]; x[i] = p + 1.0; }");
    optimise_keeps("licm", "buffer s: f32[4] workgroup; for (j in 0..4) { let p = s[3 - l]; out[i] = p; barrier(); "
                           "s[l] = a[j]; barrier(); }");
    optimise_keeps("licm", "let q = a[i]; for (j in 0..4) { let p = subgroup_add(q); out[j] = p; }");
    optimise_keeps("licm", "for (j in 0..4) { let p = atomic_add(m[i], 1); res[j] = p; }");
    /* conditional code is not run early */
    optimise_keeps("licm", "for (j in 0..4) { if (n[j] > 3) { let p = a[i]; out[j] = p; } }");
}

/* ---- strength ---- */

TEST(kernel_strength_powers_of_two)
{
    optimise_expect("strength", "res[i] = n[i] * 8; m[i] = n[i] / 4 + n[i] % 16;",
                    "res[i] = n[i] << 3; m[i] = (n[i] >> 2) + (n[i] & 15);");
    optimise_expect("strength", "out[i] = a[i] / 4.0; let v = a[i]; x[i] = v * 2.0;",
                    "out[i] = a[i] * 0.25; let v = a[i]; x[i] = v + v;");
    optimise_keeps("strength", "out[i] = a[i] / 3.0; x[i] = a[i] * 3.0; y[i] = a[i] / 0x1p-149;");
}

/* Every quotient and remainder of interesting numbers, against the interpreter's division. */
static void check_divisor(const char *type, const char *divisor)
{
    char text[600];
    snprintf(
        text, sizeof text,
        "kernel k(workgroup = [64, 1, 1]) { buffer v: %s[128] read; buffer q: %s[128] output; buffer r: %s[128] output;"
        "let i = invocation_id(0); let p = v[i]; q[i] = p / %s%s; r[i] = p %% %s%s; }",
        type, type, type, divisor, type, divisor, type);
    test_fail_context("%s / %s", type, divisor);
    flx_kernel *k = flk(text);
    flx_error err = {0};
    flx_kernel *o = flx_kernel_optimise(k, "strength", &err);
    CHECK_MSG(o != NULL, "%s", err.message);
    size_t width = type[1] == '8' ? 1 : type[1] == '1' ? 2 : type[1] == '3' ? 4 : 8;
    static unsigned char v[1024], q[2][1024], r[2][1024];
    uint64_t state = test_seed();
    for (size_t i = 0; i < 128; i++) {
        uint64_t x = test_random(&state) >> (i % 64);
        if (i < 40)
            x = (uint64_t)strtoll(divisor, NULL, 10) * (i / 2) - i % 2;
        if (i >= 120)
            x = (UINT64_C(1) << (8 * width - 1)) + i - 124;
        memcpy(v + i * width, &x, width);
    }
    for (int pass = 0; pass < 2; pass++) {
        flx_kernel_memory m[] = {{"v", v, 128 * width}, {"q", q[pass], 128 * width}, {"r", r[pass], 128 * width}};
        uint32_t grid[3] = {2, 1, 1};
        CHECK_OK(flx_kernel_run(pass ? o : k, grid, m, 3, NULL, &err), &err);
    }
    CHECK(memcmp(q[0], q[1], 128 * width) == 0);
    CHECK(memcmp(r[0], r[1], 128 * width) == 0);
    flx_kernel_release(k);
    flx_kernel_release(o);
}

TEST(kernel_strength_quotients_are_exact)
{
    static const char *const types[] = {"u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"};
    static const char *const divisors[] = {"1",  "2",  "3",  "5",  "6",  "7",   "9",  "10",
                                           "11", "12", "14", "28", "64", "100", "125"};
    static const char *const large[] = {"641", "1000", "7919", "32768", "65535"};
    static const char *const larger[] = {"1000000007", "2147483648", "2147483649", "4294967295", "4294967291"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (size_t d = 0; d < sizeof divisors / sizeof *divisors; d++)
            check_divisor(types[t], divisors[d]);
        for (size_t d = 0; t >= 1 && t < 4 && d < sizeof large / sizeof *large; d++)
            check_divisor(types[t], large[d]);
        for (size_t d = 0; t >= 2 && t < 4 && d < sizeof larger / sizeof *larger; d++)
            check_divisor(types[t], larger[d]);
    }
}

TEST(kernel_strength_uses_permissions)
{
    static const char text[] =
        "kernel k(flags = [contract, reciprocal]) { buffer a: f32[4] read; buffer out: f32[4] output;"
        "out[0] = a[0] * a[1] + a[2]; out[1] = a[0] - 3.0; out[2] = 1.0 / sqrt(a[0]); out[3] = a[1] / 3.0; }";
    static const char made[] =
        "kernel k(flags = [contract, reciprocal]) { buffer a: f32[4] read; buffer out: f32[4] output;"
        "out[0] = fma(a[0], a[1], a[2]); out[1] = a[0] - 3.0; out[2] = rsqrt(a[0]);"
        "out[3] = a[1] * 0x1.555556p-2; }";
    optimise_expect_with(flxi_kpass_strength, &(flxi_ksimplify_options){0}, text, made);
    optimise_keeps("strength", "out[i] = a[i] * b[i] + 1.0; x[i] = 1.0 / sqrt(a[i]); y[i] = 1.0 / a[i];");
}

/* ---- unroll, peel, strip_mine ---- */

TEST(kernel_unroll_short_loops)
{
    optimise_expect("unroll", "for (j in 1..3) { let p = a[j]; out[j] = p; }",
                    "let p = a[1]; out[1] = p; let p_2 = a[2]; out[2] = p_2;");
    optimise_expect("unroll", "let v = 1; for (j in 0..2) { for (k in 0..2) { v = v * 3 + j + k; } } res[i] = v;",
                    "let v = 1; v = v * 3; v = v * 3 + 1; v = v * 3 + 1; v = v * 3 + 2; res[i] = v;");
    optimise_expect("unroll", "for (j in 7..8) { out[j] = 1.0; } for (j in 8..8) { x[j] = 1.0; }", "out[7] = 1.0;");
    /* indices that are out of range after unrolling */
    optimise_expect("unroll", "for (j in 14..18) { out[j] = 1.0; }", "out[14] = 1.0; out[15] = 1.0;");
}

TEST(kernel_unroll_leaves_others)
{
    optimise_keeps("unroll", "for (j in 0..9) { out[j] = 1.0; }");
    optimise_keeps("unroll", "for (j in 0..n[i] % 4) { out[j] = 1.0; }");
    optimise_keeps("unroll", "buffer once: f32[4] read usage(exactly_once); for (j in 0..2) { out[j] = once[0]; }");
    optimise_keeps("unroll", "for (j in 0..2) { region r once { out[j] = 1.0; } }");
}

TEST(kernel_unroll_stops_at_returns)
{
    optimise_expect("unroll", "for (j in 0..3) { out[j] = 1.0; return; } x[0] = 1.0;", "out[0] = 1.0; return;");
}

TEST(kernel_peel_special_first_iterations)
{
    optimise_expect("peel,fold,bounds,if",
                    "let v = 0.0f32; for (j in 0..9) { if (j == 0) { v = a[i]; } else { v = v + b[j]; } out[j] = v; }",
                    "let v = 0.0f32; v = a[i]; out[0] = v; for (j in 1..9) { v = v + b[j]; out[j] = v; }");
    optimise_expect("peel", "for (j in 0..n[i] % 5) { if (j == 0) { x[i] = 1.0; } out[j] = 1.0; }",
                    "let n_2 = n[i] % 5; if (n_2 > 0) { if (true) { x[i] = 1.0; } out[0] = 1.0; }"
                    "for (j in 1..n_2) { if (j == 0) { x[i] = 1.0; } out[j] = 1.0; }");
    optimise_keeps("peel", "for (j in 0..9) { if (j == 3) { x[i] = 1.0; } out[j] = 1.0; }");
}

TEST(kernel_strip_mine_long_loops)
{
    optimise_expect("strip_mine", "let v = 0; for (j in 3..103) { v = v * 3 + j; } res[i] = v;",
                    "let v = 0; for (j_2 in 0..7) { for (j in j_2 * 16 + 3..min(j_2 * 16 + 19, 103)) { v = v * 3 + j; "
                    "} } res[i] = v;");
    optimise_expect(
        "strip_mine", "let v = 0; for (j in 0..96) { v = v * 3 + j; } res[i] = v;",
        "let v = 0; for (j_2 in 0..6) { for (j in j_2 * 16..j_2 * 16 + 16) { v = v * 3 + j; } } res[i] = v;");
    optimise_keeps("strip_mine", "let v = 0; for (j in 0..64) { v = v * 3 + j; } res[i] = v;");
}

/* ---- fuse, split ---- */

TEST(kernel_fuse_independent_loops)
{
    optimise_expect("fuse",
                    "for (j in 0..9) { let t = a[j]; x[j] = t; } for (k in 0..9) { let t = b[k]; y[k] = t * 2.0; }",
                    "for (j in 0..9) { let t = a[j]; x[j] = t; let t_2 = b[j]; y[j] = t_2 * 2.0; }");
    optimise_expect("fuse", "for (j in 0..9) { x[j + 1] = a[j]; } for (k in 0..9) { y[k] = x[k + 1] * 2.0; }",
                    "for (j in 0..9) { x[j + 1] = a[j]; y[j] = x[j + 1] * 2.0; }");
    optimise_expect(
        "fuse",
        "let v = 0; let w = 0; for (j in 0..9) { v = v + n[j]; } for (k in 0..9) { w = w * 2 + n[k]; } res[i] = v + w;",
        "let v = 0; let w = 0; for (j in 0..9) { v = v + n[j]; w = w * 2 + n[j]; } res[i] = v + w;");
}

TEST(kernel_fuse_renames_what_would_be_hidden)
{
    optimise_expect(
        "fuse",
        "for (j in 0..9) { let t = a[j]; x[j] = t; } for (k in 0..9) { for (j in 0..2) { let t = b[j]; y[k] = t; } }",
        "for (j in 0..9) { let t = a[j]; x[j] = t; for (j_2 in 0..2) { let t_3 = b[j_2]; y[j] = t_3; } }");
}

TEST(kernel_fuse_leaves_dependent_loops)
{
    optimise_keeps("fuse", "for (j in 0..9) { x[j] = a[j]; } for (k in 0..9) { y[k] = x[k + 1]; }");
    optimise_keeps("fuse", "for (j in 0..9) { x[j] = a[j]; } for (k in 0..9) { y[k] = x[8 - k]; }");
    optimise_keeps("fuse", "for (j in 0..9) { x[n[j]] = a[j]; } for (k in 0..9) { y[k] = x[n[k]]; }");
    optimise_keeps("fuse", "let v = 0; for (j in 0..9) { v = v + n[j]; } for (k in 0..9) { res[k] = v; }");
    optimise_keeps("fuse", "let v = 0; for (j in 0..9) { res[j] = v; } for (k in 0..9) { v = v + n[k]; } m[i] = v;");
    optimise_keeps("fuse", "for (j in 0..9) { x[j] = a[j]; } for (k in 0..8) { y[k] = b[k]; }");
    optimise_keeps("fuse", "for (j in 0..9) { x[j] = a[j]; } barrier(); for (k in 0..9) { y[k] = b[k]; }");
    optimise_keeps("fuse", "for (j in 0..9) { x[j] = a[j]; barrier(); } for (k in 0..9) { y[k] = b[k]; }");
    optimise_keeps("fuse",
                   "for (j in 0..9) { x[j] = a[j]; if (n[j] > 3) { return; } } for (k in 0..9) { y[k] = b[k]; }");
    optimise_keeps("fuse",
                   "for (j in 0..9) { atomic_add(m[0], j); } for (k in 0..9) { res[k] = atomic_add(m[0], 1); }");
    /* the bound changes in between */
    optimise_keeps("fuse", "for (j in 0..m[0] % 4) { m[j] = 2; } for (k in 0..m[0] % 4) { y[k] = b[k]; }");
}

TEST(kernel_split_long_bodies)
{
    static char text[8000];
    size_t n = (size_t)snprintf(text, sizeof text, "for (j in 0..4) {");
    for (int s = 0; s < 70; s++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s[j + %d] = %d.0;", s < 35 ? "x" : "y", 0, s);
    snprintf(text + n, sizeof text - n, "}");
    flx_kernel *k = optimise_kernel(text);
    flx_kernel *o = flx_kernel_optimise(k, "split,fuse", NULL);
    CHECK(o != NULL && o->body.n == 2);
    CHECK_EQ_U64(o->body.at[0].body.n, 35);
    optimise_check_same(k, o);
    flx_kernel_release(k);
    flx_kernel_release(o);
    /* a chain through one variable cannot be cut */
    n = (size_t)snprintf(text, sizeof text, "let v = 1; for (j in 0..4) {");
    for (int s = 0; s < 70; s++)
        n += (size_t)snprintf(text + n, sizeof text - n, "v = v * 3 + j;");
    snprintf(text + n, sizeof text - n, "} res[i] = v;");
    optimise_keeps("split", text);
}

/* ---- barriers ---- */

TEST(kernel_barriers_that_keep_nothing_apart)
{
    optimise_expect("barriers", "x[i] = 1.0; barrier(); barrier(); y[i] = 2.0;", "x[i] = 1.0; y[i] = 2.0;");
    optimise_expect("barriers", "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); barrier(); out[i] = s[3 - l];",
                    "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); out[i] = s[3 - l];");
    optimise_keeps("barriers", "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); out[i] = s[3 - l];");
    optimise_keeps("barriers", "buffer s: f32[4] workgroup; out[i] = s[3 - l]; barrier(); s[l] = a[i];");
    optimise_keeps("barriers", "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); s[3 - l] = b[i];");
    optimise_expect("barriers",
                    "buffer s: f32[4] workgroup; out[i] = s[l]; barrier(); x[i] = s[3 - l]; barrier(); s[l] = a[i];",
                    "buffer s: f32[4] workgroup; out[i] = s[l]; x[i] = s[3 - l]; barrier(); s[l] = a[i];");
    optimise_keeps("barriers",
                   "buffer s: u32[4] workgroup; atomic_add(s[0], 1); barrier(); res[i] = atomic_add(s[0], 0);");
}

TEST(kernel_barriers_do_not_fall_together)
{
    /* each of the two separates nothing from its neighbours, but one of them must stay */
    optimise_expect("barriers",
                    "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); out[i] = 1.0; barrier(); x[i] = s[3 - l];",
                    "buffer s: f32[4] workgroup; s[l] = a[i]; out[i] = 1.0; barrier(); x[i] = s[3 - l];");
}

TEST(kernel_barriers_in_loops)
{
    optimise_keeps(
        "barriers",
        "buffer s: f32[4] workgroup; for (j in 0..3) { s[l] = a[j]; barrier(); out[i] = s[3 - l]; barrier(); }");
    optimise_expect(
        "barriers",
        "buffer s: f32[4] workgroup; let v = 1.0f32; for (j in 0..3) { v = v * s[3 - l]; barrier(); v = v + s[l]; } "
        "out[i] = v;",
        "buffer s: f32[4] workgroup; let v = 1.0f32; for (j in 0..3) { v = v * s[3 - l]; v = v + s[l]; } out[i] = v;");
    /* around the loop */
    optimise_keeps("barriers",
                   "buffer s: f32[4] workgroup; for (j in 0..3) { out[i] = s[3 - l]; s[l] = a[j]; barrier(); }");
    optimise_keeps("barriers",
                   "buffer s: f32[4] workgroup; if (u[0] > 3) { s[l] = a[i]; barrier(); } out[i] = s[3 - l];");
    optimise_expect("barriers",
                    "buffer s: f32[4] workgroup; if (u[0] > 3) { barrier(); } else { out[i] = s[l]; } x[i] = s[3 - l];",
                    "buffer s: f32[4] workgroup; if (u[0] > 3) { } else { out[i] = s[l]; } x[i] = s[3 - l];");
}

TEST(kernel_barriers_the_weaker_goes)
{
    optimise_expect("barriers",
                    "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(seq_cst); barrier(acquire); out[i] = s[3 - l];",
                    "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(seq_cst); out[i] = s[3 - l];");
    /* a grid barrier is not replaced by one of a workgroup */
    flx_kernel *k = optimise_kernel("x[i] = a[i]; barrier(grid); barrier(); out[i] = x[7 - i];");
    flx_kernel *o = flx_kernel_optimise(k, "barriers", NULL);
    CHECK(o != NULL);
    bool has_grid = false;
    for (size_t s = 0; s < o->body.n; s++)
        has_grid = has_grid || (o->body.at[s].kind == KS_BARRIER && o->body.at[s].order == FLX_KERNEL_GRID);
    CHECK(has_grid);
    flx_kernel_release(k);
    flx_kernel_release(o);
}
