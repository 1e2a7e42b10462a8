/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_optimise.c: the passes that shorten programs: folding, propagation, common subexpressions, dead code. Every
   legality condition is tested in both directions. */
#include "kernel/optimise/optimise_case.h"

#include "fault.h"
#include "kernel/check/kernel_validate.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- fold ---- */

TEST(kernel_fold_evaluates_literals)
{
    optimise_expect("fold", "res[i] = 3 + 4 * 5; out[i] = sqrt(2.0) * select(true, 1.5, 2.5);",
                    "res[i] = 23; out[i] = 0x1.0f876cp+1;");
    optimise_expect("fold", "res[i] = cast<u32>(-1.5); out[i] = bitcast<f32>(1065353216);",
                    "res[i] = 0; out[i] = 1.0;");
}

TEST(kernel_fold_integer_identities)
{
    optimise_expect("fold", "res[i] = (n[i] + 0) * 1 - 0; m[i] = n[i] / 1 | 0;", "res[i] = n[i]; m[i] = n[i];");
    optimise_expect("fold", "res[i] = n[i] * 0 + (n[i] - n[i]) + n[i] % 1;", "res[i] = 0;");
    optimise_expect("fold", "res[i] = cast<u32>(n[i] < 0) + cast<u32>(n[i] >= 0) + cast<u32>(n[i] == n[i]);",
                    "res[i] = 2;");
    optimise_expect("fold", "res[i] = n[i] << 32 | n[i] << 33;", "res[i] = n[i] | n[i] << 1;");
}

TEST(kernel_fold_zero_divisors_vanish)
{
    /* As literals they would be errors of the program. */
    optimise_expect("propagate", "let d = 0; res[i] = n[i] / d; m[i] = n[i] % d;", "res[i] = 4294967295; m[i] = n[i];");
}

TEST(kernel_fold_float_identities_that_are_exact)
{
    optimise_expect("fold", "out[i] = a[i] * 1.0; x[i] = a[i] / 1.0; y[i] = a[i] - 0.0;",
                    "out[i] = a[i]; x[i] = a[i]; y[i] = a[i];");
    optimise_expect("fold", "out[i] = a[i] + -0.0; x[i] = -1.0 * a[i]; y[i] = a[i] + -b[i];",
                    "out[i] = a[i]; x[i] = -a[i]; y[i] = a[i] - b[i];");
    optimise_expect("fold", "out[i] = fma(a[i], b[i], -0.0); x[i] = fma(1.0, a[i], b[i]); y[i] = pow(a[i], 0.0);",
                    "out[i] = a[i] * b[i]; x[i] = a[i] + b[i]; y[i] = 1.0;");
}

TEST(kernel_fold_leaves_float_identities_that_are_not)
{
    optimise_keeps("fold", "out[i] = a[i] + 0.0; x[i] = a[i] * 0.0; y[i] = a[i] - a[i];");
    optimise_keeps("fold", "out[i] = a[i] / a[i]; x[i] = 0.0 - a[i]; y[i] = fma(a[i], b[i], 0.0);");
    optimise_keeps("fold", "res[i] = cast<u32>(a[i] == a[i]); m[i] = cast<u32>(!(a[i] < b[i]));");
    optimise_keeps("fold", "out[i] = a[i] + 1.0 + 2.0;");
}

TEST(kernel_fold_zero_sums_on_request)
{
    flxi_ksimplify_options o = {.flags = FLXI_KERNEL_ZERO_SUMS};
    optimise_expect_with(flxi_kpass_fold, &o, "out[i] = 0.0 + a[i] + 0.0; x[i] = 0.0 - a[i]; y[i] = a[i] * 0.0;",
                         "out[i] = a[i]; x[i] = -a[i]; y[i] = a[i] * 0.0;");
}

TEST(kernel_fold_merges_literals)
{
    optimise_expect("fold", "res[i] = n[i] + 3 + 4; m[i] = 2 + n[i] - 5;", "res[i] = n[i] + 7; m[i] = n[i] - 3;");
    optimise_expect("fold", "res[i] = n[i] * 3 * 4; m[i] = n[i] & 12 & 10;", "res[i] = n[i] * 12; m[i] = n[i] & 8;");
    optimise_expect("fold",
                    "kernel k(flags = [reassociate]) { buffer a: f32[1] read; buffer out: f32[1] output;"
                    "out[0] = a[0] + 1.0 + 2.0; }",
                    "kernel k(flags = [reassociate]) { buffer a: f32[1] read; buffer out: f32[1] output;"
                    "out[0] = a[0] + 3.0; }");
}

TEST(kernel_fold_conditions)
{
    optimise_expect("fold", "res[i] = cast<u32>(!(n[i] < 4)); m[i] = cast<u32>(!!(n[i] < 5));",
                    "res[i] = cast<u32>(n[i] >= 4); m[i] = cast<u32>(n[i] < 5);");
    optimise_expect("fold", "out[i] = select(!(a[i] < 0.0), a[i], b[i]); x[i] = select(n[i] > 2, a[i], a[i]);",
                    "out[i] = select(a[i] < 0.0, b[i], a[i]); x[i] = a[i];");
    optimise_expect("fold", "res[i] = cast<u32>(n[i] < 5 && true); m[i] = cast<u32>(n[i] < 5 || true);",
                    "res[i] = cast<u32>(n[i] < 5); m[i] = 1;");
    optimise_expect("fold", "if (cast<u32>(n[i] < 5) != 0) { res[i] = 1; }", "if (n[i] < 5) { res[i] = 1; }");
}

TEST(kernel_fold_casts)
{
    optimise_expect("fold", "res[i] = cast<u32>(cast<u64>(n[i])); out[i] = cast<f32>(cast<f64>(a[i]));",
                    "res[i] = n[i]; out[i] = a[i];");
    optimise_keeps("fold", "res[i] = cast<u32>(cast<u8>(n[i])); out[i] = cast<f32>(cast<f16>(a[i]));");
}

TEST(kernel_fold_keeps_effects)
{
    optimise_keeps("fold", "res[i] = atomic_add(m[0], 1) * 0;");
    optimise_expect("propagate", "let z = 0; res[i] = atomic_add(m[0], 1) / z;",
                    "res[i] = atomic_add(m[0], 1) | 4294967295;");
}

TEST(kernel_fold_keeps_stop_gradient)
{
    optimise_keeps("fold", "out[i] = stop_gradient(a[i]);");
}

TEST(kernel_fold_accesses_out_of_range)
{
    optimise_expect("propagate", "let j = 16; out[i] = a[j]; x[j] = 1.0; res[i] = atomic_add(m[j], 1);",
                    "out[i] = 0.0; res[i] = 0;");
    optimise_expect("fold", "res[i] = buf_len(a) + 1;", "res[i] = 17;");
    optimise_keeps("fold", "buffer z: f32[] read; res[i] = buf_len(z); out[i] = z[1000];");
}

/* ---- propagate ---- */

TEST(kernel_propagate_literals_and_copies)
{
    optimise_expect("propagate", "let p = 2; let q = p + 1; let r = q; res[i] = r * n[i]; m[i] = r;",
                    "res[i] = n[i] * 3; m[i] = 3;");
    optimise_expect("propagate", "let p = n[i] * n[l]; let q = p; res[i] = q; m[i] = q + p;",
                    "let p = n[i] * n[l]; res[i] = p; m[i] = p + p;");
}

TEST(kernel_propagate_moves_what_is_used_once)
{
    optimise_expect("propagate", "let p = a[i] * b[i]; let q = p + 1.0; out[i] = q;", "out[i] = a[i] * b[i] + 1.0;");
    optimise_keeps("propagate", "let p = a[i] * b[i]; out[i] = p; x[i] = p;");
}

TEST(kernel_propagate_does_not_move_into_loops)
{
    optimise_keeps("propagate", "let p = a[i] * b[i]; for (j in 0..4) { out[j] = p; }");
    optimise_expect("propagate", "let p = n[i] % 5; for (j in 0..p) { out[j] = 1.0; }",
                    "for (j in 0..n[i] % 5) { out[j] = 1.0; }");
    optimise_expect("propagate", "for (j in 0..4) { let p = a[j] * b[i]; out[j] = p; }",
                    "for (j in 0..4) { out[j] = a[j] * b[i]; }");
}

TEST(kernel_propagate_loads_stay_before_writes)
{
    optimise_keeps("propagate", "let p = x[i]; x[i] = 1.0; out[i] = p;");
    optimise_expect("propagate", "let p = x[i]; y[i] = 1.0; out[i] = p;", "y[i] = 1.0; out[i] = x[i];");
    optimise_keeps("propagate", "let p = m[i]; let q = atomic_add(m[0], 1); res[i] = p; res[i] = q;");
    optimise_keeps("propagate", "let p = m[i]; res[atomic_add(m[0], 1)] = p;");
    /* a let that moves takes along what moved into it */
    optimise_expect("propagate", "let p = x[i]; let q = p + 1.0; x[i] = 1.0; out[i] = q * q;",
                    "let q = x[i] + 1.0; x[i] = 1.0; out[i] = q * q;");
    optimise_expect("propagate", "let p = x[i]; let q = p + 1.0; x[i] = 1.0; out[i] = q;",
                    "let q = x[i] + 1.0; x[i] = 1.0; out[i] = q;");
}

TEST(kernel_propagate_loads_stay_before_barriers)
{
    optimise_keeps("propagate", "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); let p = s[3 - l]; barrier();"
                                "out[i] = p; s[l] = 2.0;");
    /* no other invocation accesses private memory, none writes read-only memory */
    optimise_expect("propagate", "buffer s: f32[4] private; s[l] = a[i]; let p = s[l]; barrier(); out[i] = p;",
                    "buffer s: f32[4] private; s[l] = a[i]; barrier(); out[i] = s[l];");
    optimise_expect("propagate", "let p = a[i]; barrier(); out[i] = p;", "barrier(); out[i] = a[i];");
    optimise_keeps("propagate", "let p = x[i]; res[i] = atomic_add(m[0], 1, acq_rel); out[i] = p; x[l] = 0.0;");
    optimise_expect("propagate", "let p = x[i]; res[i] = atomic_add(m[0], 1); out[i] = p; x[l] = 0.0;",
                    "res[i] = atomic_add(m[0], 1); out[i] = x[i]; x[l] = 0.0;");
}

TEST(kernel_propagate_copies_of_changing_variables)
{
    optimise_keeps("propagate", "let v = 1; for (j in 0..4) { let w = v; v = v * n[j]; res[j] = w; }");
    optimise_expect("propagate", "let v = 1; for (j in 0..4) { let w = v; res[j] = w; v = v * n[j]; }",
                    "let v = 1; for (j in 0..4) { res[j] = v; v = v * n[j]; }");
    optimise_keeps("propagate", "let v = n[i]; let w = v; for (j in 0..4) { res[j] = w; v = v * n[j]; } m[i] = v;");
}

TEST(kernel_propagate_knows_what_was_assigned)
{
    optimise_expect("propagate", "let v = 1; if (n[i] < 3) { res[i] = v; v = n[i]; } m[i] = v;",
                    "let v = 1; if (n[i] < 3) { res[i] = 1; v = n[i]; } m[i] = v;");
    optimise_expect("propagate", "let v = 1; if (n[i] < 3) { v = 2; res[i] = v; } else { res[i] = v; } m[i] = v;",
                    "let v = 1; if (n[i] < 3) { v = 2; res[i] = 2; } else { res[i] = 1; } m[i] = v;");
    /* the second iteration sees what the first assigned */
    optimise_keeps("propagate", "let v = 1; for (j in 0..4) { res[j] = v; v = n[j]; }");
}

TEST(kernel_propagate_splits_variables)
{
    optimise_expect("propagate", "let v = a[i]; v = v * v; v = v * v; out[i] = v;",
                    "let v = a[i]; let v_2 = v * v; out[i] = v_2 * v_2;");
    optimise_expect("propagate", "let v = a[i]; out[i] = v; v = b[i]; if (v > 0.0) { v = -v; } x[i] = v;",
                    "out[i] = a[i]; let v_2 = b[i]; if (v_2 > 0.0) { v_2 = -v_2; } x[i] = v_2;");
    optimise_keeps("propagate", "let v = a[i]; for (j in 0..3) { v = v * v; } out[i] = v;");
}

TEST(kernel_propagate_bounds_depth)
{
    static char text[20000];
    size_t n = (size_t)snprintf(text, sizeof text, "let v0 = a[i];");
    for (int j = 1; j < 300; j++)
        n += (size_t)snprintf(text + n, sizeof text - n, "let v%d = sin(v%d) ;", j, j - 1);
    snprintf(text + n, sizeof text - n, "out[i] = v299;");
    flx_kernel *k = optimise_kernel(text);
    flx_kernel *o = flx_kernel_optimise(k, NULL, NULL);
    CHECK(o != NULL);
    optimise_check_same(k, o);
    CHECK(o->body.n > 8 && o->body.n < 30);
    flx_kernel_release(k);
    flx_kernel_release(o);
}

TEST(kernel_propagate_keeps_placed_values)
{
    optimise_keeps("propagate", "let p = subgroup_add(a[i]); if (l < 2) { out[i] = p; }");
    optimise_keeps("propagate", "let p = atomic_add(m[0], 1); if (l < 2) { res[i] = p; }");
}

/* ---- coalesce ---- */

TEST(kernel_coalesce_assigns_where_it_computes)
{
    optimise_expect("coalesce",
                    "let v = a[i]; let w = b[i]; for (j in 0..3) { let p = v * w; w = w + v; v = p; } out[i] = v + w;",
                    "let v = a[i]; let w = b[i]; for (j in 0..3) { let p = v * w; w = w + v; v = p; } out[i] = v + w;");
    optimise_expect(
        "coalesce",
        "let v = a[i]; let w = b[i]; for (j in 0..3) { let p = v * w; w = w + 1.0; v = p; } out[i] = v + w;",
        "let v = a[i]; let w = b[i]; for (j in 0..3) { v = v * w; w = w + 1.0; } out[i] = v + w;");
    optimise_keeps("coalesce",
                   "let v = a[i]; for (j in 0..3) { let p = v + 1.0; if (n[j] > 3) { out[j] = v; } v = p; }");
    optimise_keeps("coalesce", "let v = a[i]; for (j in 0..3) { let p = v + 1.0; v = 2.0; out[j] = v; v = p; }");
    optimise_keeps("coalesce", "let v = a[i]; for (j in 0..3) { let p = v + 1.0; v = p; out[j] = p; }");
    optimise_keeps("coalesce", "let p = a[i]; let v = 1.0f32; v = p; out[i] = v;");
}

/* ---- cse ---- */

TEST(kernel_cse_shares_lets)
{
    optimise_expect("cse", "let p = a[i] * b[i]; let q = a[i] * b[i]; out[i] = p; x[i] = q;",
                    "let p = a[i] * b[i]; out[i] = p; x[i] = p;");
    optimise_expect("cse",
                    "let p = a[i] * b[i]; let q = b[i] * a[i]; let r = p + 1.0; let s = q + 1.0; out[i] = r; x[i] = s;",
                    "let p = a[i] * b[i]; let r = p + 1.0; out[i] = r; x[i] = r;");
    optimise_expect("cse", "let p = a[i] - b[i]; let q = b[i] - a[i]; out[i] = p; x[i] = q;",
                    "let t = a[i]; let t_2 = b[i]; let p = t - t_2; let q = t_2 - t; out[i] = p; x[i] = q;");
}

TEST(kernel_cse_makes_variables)
{
    optimise_expect("cse", "out[i] = a[i] * b[i]; x[i] = a[i] * b[i];", "let t = a[i] * b[i]; out[i] = t; x[i] = t;");
    optimise_expect("cse", "out[i] = (a[i] + 1.0) * (a[i] + 1.0);", "let t = a[i] + 1.0; out[i] = t * t;");
    /* not worth a variable */
    optimise_keeps("cse", "res[i] = i + 1; m[i] = i + 1;");
}

TEST(kernel_cse_respects_scopes)
{
    optimise_keeps("cse", "if (l < 2) { out[i] = a[i]; } x[i] = a[i];");
    optimise_expect("cse", "x[i] = a[i]; if (l < 2) { out[i] = a[i]; }",
                    "let t = a[i]; x[i] = t; if (l < 2) { out[i] = t; }");
    optimise_keeps("cse", "if (l < 2) { out[i] = a[i]; } else { x[i] = a[i]; }");
    optimise_expect("cse", "if (l < 2) { out[i] = a[l]; } else { x[i] = a[i]; y[i] = a[i]; }",
                    "if (l < 2) { out[i] = a[l]; } else { let t = a[i]; x[i] = t; y[i] = t; }");
}

TEST(kernel_cse_respects_writes)
{
    optimise_keeps("cse", "out[i] = x[i]; x[i] = 1.0; y[i] = x[i];");
    optimise_expect("cse", "out[i] = x[i]; y[i] = x[i]; x[i] = 1.0;",
                    "let t = x[i]; out[i] = t; y[i] = t; x[i] = 1.0;");
    optimise_keeps("cse", "x[i] = x[i] + 1.0; x[i] = x[i] + 2.0;");
    optimise_keeps("cse", "for (j in 0..4) { out[j] = x[i]; x[i] = 1.0; }");
    optimise_keeps("cse", "y[i] = x[i]; for (j in 0..4) { out[j] = x[i]; x[i] = 1.0; }");
}

TEST(kernel_cse_respects_barriers)
{
    optimise_keeps("cse", "buffer s: f32[4] workgroup; s[l] = a[i]; out[i] = s[l]; barrier(); x[i] = s[l];");
    optimise_expect("cse", "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); out[i] = s[l]; x[i] = s[l];",
                    "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); let t = s[l]; out[i] = t; x[i] = t;");
    optimise_expect("cse", "out[i] = a[i]; barrier(); x[i] = a[i];", "let t = a[i]; out[i] = t; barrier(); x[i] = t;");
}

TEST(kernel_cse_respects_assignments)
{
    optimise_keeps("cse", "let v = n[i]; for (j in 0..2) { res[j] = v * v + 1; v = v + j; m[j] = v * v + 1; }");
    optimise_expect("cse", "let v = n[i]; for (j in 0..2) { res[j] = v * v + 1; m[j] = v * v + 1; v = v + j; }",
                    "let v = n[i]; for (j in 0..2) { let t = v * v + 1; res[j] = t; m[j] = t; v = v + j; }");
    /* a variable that changes later cannot hold it */
    optimise_expect("cse", "let v = n[i] * 3; let w = n[i] * 3; res[i] = w; for (j in 0..2) { v = v + w; } m[i] = v;",
                    "let t = n[i] * 3; let v = t; res[i] = t; for (j in 0..2) { v = v + t; } m[i] = v;");
}

TEST(kernel_cse_leaves_effects_alone)
{
    optimise_keeps("cse", "res[i] = atomic_add(m[0], 1); res[l] = atomic_add(m[0], 1);");
    optimise_keeps("cse", "out[i] = subgroup_add(a[i]); if (l < 2) { x[i] = subgroup_add(b[i]); }");
    optimise_keeps("cse", "res[m[i]] = atomic_add(m[i], 1) + m[i];");
}

TEST(kernel_cse_names_ids)
{
    optimise_expect(
        "cse",
        "kernel k() { buffer a: f32[4] read; buffer out: f32[4] output; out[invocation_id(0)] = a[invocation_id(0)]; }",
        "kernel k() { buffer a: f32[4] read; buffer out: f32[4] output; let i = invocation_id(0); out[i] = a[i]; }");
}

/* ---- if, select ---- */

TEST(kernel_if_literal_conditions)
{
    optimise_expect("if", "if (true) { let p = a[i]; out[i] = p; } else { out[i] = 1.0; } let q = 1.0; x[i] = q;",
                    "let p = a[i]; out[i] = p; let q = 1.0; x[i] = q;");
    optimise_expect("if", "if (false) { out[i] = 1.0; } else { out[i] = 2.0; } if (0) { x[i] = 1.0; }",
                    "out[i] = 2.0;");
    optimise_expect("if", "for (j in 3..3) { out[j] = 1.0; } for (j in 0..0) { out[j] = 1.0; }", "");
}

/* A copy and its wait stay together. */
TEST(kernel_if_keeps_copies)
{
    static const char copies[] = "kernel k() { buffer a: f32[8] read; buffer out: f32[8] output;\n"
                                 "  buffer s: f32[4] workgroup; %s barrier(); out[0] = s[0]; }";
    static const char *const bodies[] = {
        "if (false) { async_load(a, s, 0, 16, \"t\"); } async_wait(\"t\");",
        "async_load(a, s, 0, 16, \"t\"); if (true) { out[1] = 2.0; } else { async_wait(\"t\"); }",
        "async_load(a, s, 0, 16, \"t\"); for (j in 3..3) { async_wait(\"t\"); }",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char text[400];
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        snprintf(text, sizeof text, copies, bodies[i]);
        flx_kernel *k = flx_kernel_parse(ctx, text, strlen(text), "k", &err);
        CHECK_MADE(k, &err);
        flx_kernel *lean = flx_kernel_optimise(k, NULL, &err);
        CHECK_MADE(lean, &err);
        CHECK_OK(flxi_kernel_check(lean, &err), &err);
        flx_kernel_release(lean);
        flx_kernel_release(k);
        flx_context_free(ctx);
    }
}

TEST(kernel_if_splices_with_new_names)
{
    optimise_expect("if", "if (true) { let p = a[i]; out[i] = p; } let p = b[i]; x[i] = p;",
                    "let p_2 = a[i]; out[i] = p_2; let p = b[i]; x[i] = p;");
    optimise_expect("if", "if (true) { let p = a[i]; out[i] = p; } if (l < 2) { let p = b[i]; x[i] = p; }",
                    "let p_2 = a[i]; out[i] = p_2; if (l < 2) { let p = b[i]; x[i] = p; }");
}

TEST(kernel_if_returns_end_their_list)
{
    optimise_expect("if", "if (true) { out[i] = 1.0; return; } x[i] = 1.0;", "out[i] = 1.0; return;");
}

TEST(kernel_if_empty_branches)
{
    optimise_expect("if", "if (n[i] < 3) { } else { out[i] = 1.0; } if (n[i] < 4) { }",
                    "if (n[i] >= 3) { out[i] = 1.0; }");
    optimise_keeps("if", "if (atomic_add(m[0], 1) < 3) { }");
}

TEST(kernel_if_known_conditions)
{
    optimise_expect("if", "if (n[i] < 3) { if (n[i] < 3) { out[i] = 1.0; } } else { if (n[i] < 3) { out[i] = 2.0; } }",
                    "if (n[i] < 3) { out[i] = 1.0; } else { }");
    optimise_expect("if", "if (l < 2 && i < 5) { if (i < 5) { out[i] = 1.0; } }",
                    "if (l < 2 && i < 5) { out[i] = 1.0; }");
    optimise_keeps("if", "if (l < 2 || i < 5) { if (i < 5) { out[i] = 1.0; } }");
    optimise_keeps("if", "if (m[i] < 3) { m[i] = 7; if (m[i] < 3) { out[i] = 1.0; } }");
    optimise_keeps("if", "let v = n[i]; if (v < 3) { v = v + 1; if (v < 3) { out[i] = 1.0; } }");
}

TEST(kernel_select_from_small_branches)
{
    optimise_expect("select", "let v = a[i]; let w = b[i]; if (v > w) { v = w * 2.0; } out[i] = v;",
                    "let v = a[i]; let w = b[i]; v = select(v > w, w * 2.0, v); out[i] = v;");
    optimise_expect("select", "let v = a[i]; if (n[i] > 3) { v = 1.0; } else { v = -v; } out[i] = v;",
                    "let v = a[i]; v = select(n[i] > 3, 1.0, -v); out[i] = v;");
    optimise_expect(
        "select", "let v = a[i]; let w = b[i]; if (v > w) { v = w; w = v + 1.0; } out[i] = v + w;",
        "let v = a[i]; let w = b[i]; let c = v > w; v = select(c, w, v); w = select(c, v + 1.0, w); out[i] = v + w;");
}

TEST(kernel_select_not_from_others)
{
    optimise_keeps("select", "let v = 0.0f32; if (n[i] > 3) { v = a[i]; } out[i] = v;");
    optimise_keeps("select", "if (n[i] > 3) { out[i] = 1.0; }");
    optimise_keeps("select", "let v = a[i]; if (n[i] > 3) { v = exp(exp(v)); } out[i] = v;");
    optimise_keeps("select", "let v = a[i]; if (n[i] > 3) { v = subgroup_add(v); } out[i] = v;");
    optimise_keeps("select", "let v = a[i]; if (atomic_add(m[0], 1) > 3) { v = 1.0; } out[i] = v;");
}

/* ---- dce ---- */

TEST(kernel_dce_drops_unused_values)
{
    optimise_expect("dce", "let p = a[i]; let q = p + 1.0; q = q * 2.0; out[i] = 1.0;", "out[i] = 1.0;");
    optimise_expect("dce", "let p = exp(a[i]); let q = subgroup_add(p); out[i] = 1.0;", "out[i] = 1.0;");
    optimise_keeps("dce", "let p = a[i]; let q = p + 1.0; q = q * 2.0; out[i] = q;");
}

TEST(kernel_dce_drops_variables_that_feed_themselves)
{
    optimise_expect("dce", "let p = 0; let q = 0; for (j in 0..9) { p = p + q; q = q + p * j; } out[i] = 1.0;",
                    "out[i] = 1.0;");
    optimise_expect("dce", "let p = 0; let q = 0; for (j in 0..9) { p = p + j; q = q + p; } res[i] = p;",
                    "let p = 0; for (j in 0..9) { p = p + j; } res[i] = p;");
}

TEST(kernel_dce_drops_assignments_nobody_reads)
{
    optimise_expect("dce", "let v = a[i]; if (v > 0.0) { out[i] = v; v = 0.0; } else { x[i] = v; v = 1.0; }",
                    "let v = a[i]; if (v > 0.0) { out[i] = v; } else { x[i] = v; }");
    optimise_expect("dce", "let v = a[i]; let w = b[i]; out[i] = v; w = v; v = w; v = 1.0; out[l] = v;",
                    "let v = a[i]; out[i] = v; v = 1.0; out[l] = v;");
    optimise_keeps("dce", "let v = a[i]; if (v > 0.0) { v = 0.0; } out[i] = v;");
    optimise_expect("dce", "let v = a[i]; v = 2.0; if (n[i] > 3) { v = 3.0; } else { v = 4.0; } out[i] = v;",
                    "let v = a[i]; if (n[i] > 3) { v = 3.0; } else { v = 4.0; } out[i] = v;");
    optimise_keeps("dce", "let v = a[i]; v = 2.0; if (n[i] > 3) { v = 3.0; } out[i] = v;");
    /* the next iteration reads it; and there may be no next iteration */
    optimise_keeps("dce", "let v = a[i]; for (j in 0..3) { out[j] = v; v = b[j]; }");
    optimise_keeps("dce", "let v = a[i]; v = 2.0; for (j in 0..n[0] % 3) { v = b[j]; } out[i] = v;");
    optimise_expect("dce", "for (j in 0..3) { let v = a[j]; out[j] = v; v = b[j]; }",
                    "for (j in 0..3) { let v = a[j]; out[j] = v; }");
    optimise_keeps("dce", "let v = n[i]; res[i] = v; v = atomic_add(m[i], 1) + 1;");
}

TEST(kernel_dce_keeps_effects)
{
    optimise_keeps("dce", "atomic_add(m[i], 1);");
    optimise_expect("dce", "let p = atomic_add(m[i], 1);", "atomic_add(m[i], 1);");
    optimise_keeps("dce", "let p = atomic_add(m[i], 1) + 1;");
    optimise_keeps("dce", "if (atomic_add(m[i], 1) > 3) { }");
    optimise_keeps("dce", "if (n[i] > 3) { trap(n[i], bad); }");
}

TEST(kernel_dce_inner_buffers)
{
    optimise_expect(
        "dce",
        "buffer s: f32[4] private; buffer t: f32[4] workgroup; s[l] = a[i]; t[l] = s[l]; barrier(); out[i] = 1.0;",
        "out[i] = 1.0;");
    optimise_keeps("dce", "buffer s: f32[4] private; s[l] = a[i]; out[i] = s[0];");
    /* stored values feed only loads that feed only stores there */
    optimise_expect("dce", "buffer s: f32[4] private; for (j in 0..3) { s[j + 1] = s[j] * a[i]; } out[i] = 1.0;",
                    "out[i] = 1.0;");
    optimise_expect("dce", "buffer s: u32[4] workgroup; atomic_add(s[0], 1); res[i] = 1;", "res[i] = 1;");
    optimise_keeps("dce", "buffer s: u32[4] workgroup; res[i] = atomic_add(s[0], 1);");
    optimise_expect("dce", "buffer s: f32[4] private; s[0] = 1.0; res[i] = buf_len(s);",
                    "buffer s: f32[4] private; res[i] = buf_len(s);");
}

TEST(kernel_dce_scratch_of_the_caller)
{
    static const char head[] = "kernel k() { buffer a: f32[4] read; buffer tape: f32[4] read_write exclusive;"
                               "buffer other: f32[4] read_write; buffer out: f32[4] output;";
    char before[400], after[400];
    uint8_t open[5] = {0, 0, 1, 0, 0};
    flxi_ksimplify_options o = {.only_if_loaded = open};
    snprintf(before, sizeof before, "%s tape[0] = a[0]; other[0] = a[1]; out[0] = tape[0]; }", head);
    optimise_expect_with(flxi_kpass_dce, &o, before, before);
    snprintf(before, sizeof before, "%s let t = tape[0]; tape[0] = a[0]; other[0] = a[1]; out[0] = 1.0; }", head);
    snprintf(after, sizeof after, "%s",
             "kernel k() { buffer a: f32[4] read; buffer other: f32[4] read_write @2; buffer out: f32[4] output @3;"
             "other[0] = a[1]; out[0] = 1.0; }");
    optimise_expect_with(flxi_kpass_dce, &o, before, after);
    /* the flags follow the buffers when others are removed */
    uint8_t two[5] = {0, 0, 1, 1, 0};
    o.only_if_loaded = two;
    snprintf(before, sizeof before, "%s tape[0] = a[0]; other[0] = tape[1]; out[0] = 1.0; }", head);
    optimise_expect_with(flxi_kernel_simplify, &o, before,
                         "kernel k() { buffer a: f32[4] read; buffer out: f32[4] output @3; out[0] = 1.0; }");
}

TEST(kernel_dce_bound_buffers_stay)
{
    optimise_keeps("dce", "buffer unused: f32[4] read; out[i] = 1.0;");
    optimise_keeps("dce", "x[i] = 1.0;");
}

TEST(kernel_dce_barriers)
{
    optimise_expect("dce", "barrier(); out[i] = 1.0; barrier();", "out[i] = 1.0;");
    optimise_keeps("dce", "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); out[i] = s[3 - l];");
    optimise_expect("dce", "buffer s: f32[4] workgroup; s[l] = a[i]; out[i] = s[l]; barrier();",
                    "buffer s: f32[4] workgroup; s[l] = a[i]; out[i] = s[l];");
    optimise_keeps(
        "dce", "buffer s: f32[4] workgroup; for (j in 0..3) { out[i] = s[3 - l]; barrier(); s[l] = a[i]; barrier(); }");
    optimise_keeps("dce", "x[i] = 1.0; barrier(); x[(i + 1) % 4] = 2.0;");
    optimise_expect("dce", "for (j in 0..3) { let p = a[j]; barrier(); }", "");
    optimise_expect("dce", "buffer s: f32[4] private; s[l] = a[i]; barrier(); out[i] = s[3 - l];",
                    "buffer s: f32[4] private; s[l] = a[i]; out[i] = s[3 - l];");
}

TEST(kernel_dce_returns_and_unreachable_code)
{
    optimise_expect("dce", "{ out[i] = 1.0; return; } x[i] = 1.0;", "{ out[i] = 1.0; }");
    optimise_expect("dce", "if (l < 2) { return; } else { out[i] = 1.0; return; } x[i] = 1.0;",
                    "if (l < 2) { return; } else { out[i] = 1.0; }");
    optimise_keeps("dce", "if (l < 2) { return; } x[i] = 1.0;");
    optimise_expect("dce", "x[i] = 1.0; if (l < 2) { return; } let p = a[i];", "x[i] = 1.0;");
    optimise_keeps("dce", "for (j in 0..4) { x[i] = cast<f32>(j); if (n[j] == 3) { return; } }");
}

TEST(kernel_dce_functions)
{
    optimise_expect("dce", "fn f(p: f32) -> f32 { return p * p; } fn g(p: f32) -> f32 { return p; } out[i] = g(a[i]);",
                    "fn g(p: f32) -> f32 { return p; } out[i] = g(a[i]);");
    optimise_keeps("dce",
                   "fn f(p: f32) -> f32 { return p * p; } fn g(p: f32) -> f32 { return f(p); } out[i] = g(a[i]);");
    optimise_keeps("dce",
                   "fn f(p: f32) -> f32 { return p * p; } adjoint f.p(p: f32, z: f32, g: f32) -> f32 { return g; }"
                   "out[i] = f(a[i]);");
    optimise_expect("dce", "fn f(p: f32) -> f32 { let q = p; let r = q * 2.0; return q; } out[i] = f(a[i]);",
                    "fn f(p: f32) -> f32 { let q = p; return q; } out[i] = f(a[i]);");
}

TEST(kernel_dce_prescribed_uses_stay)
{
    optimise_keeps("dce", "buffer once: f32[4] read usage(exactly_once); let p = once[i]; out[i] = 1.0;");
    optimise_keeps("cse", "buffer once: f32[4] read usage(at_least_once); out[i] = once[i]; x[i] = once[i];");
    optimise_keeps("fold", "buffer once: u32[4] read usage(exactly_once); res[i] = once[i] * 0;");
    optimise_expect("propagate", "buffer once: f32[4] read usage(exactly_once); let j = 4; out[i] = once[j];",
                    "buffer once: f32[4] read usage(exactly_once); out[i] = once[buf_len(once)];");
}

/* ---- the whole ---- */

TEST(kernel_optimise_reports_unknown_passes)
{
    flx_error err = {0};
    flx_kernel *k = optimise_kernel("out[i] = 1.0;");
    CHECK(flx_kernel_optimise(k, "dce,nonsense", &err) == NULL);
    CHECK(err.code == FLX_E_NAME);
    CHECK_EQ_STR(err.message, "unknown kernel pass 'nonsense'");
    CHECK(flx_kernel_optimise(k, "dce,dce", &err) == NULL);
    CHECK(flx_kernel_optimise(NULL, NULL, &err) == NULL);
    flx_kernel *same = flx_kernel_optimise(k, "", &err);
    CHECK(same != NULL);
    flx_kernel_release(same);
    flx_kernel_release(k);
}

/* Something for every pass. */
static const char rich[] =
    "kernel k(workgroup = [4, 1, 1]) { buffer a: f32[16] read; buffer n: u32[16] read; buffer out: f32[16] output;"
    "buffer s: f32[4] workgroup; buffer p: f32[4] private;"
    "fn sq(v: f32) -> f32 { let w = v * 1.0; return w * w; }"
    "let i = invocation_id(0); let l = local_id(0); let c = 2.0 + 3.0; let unused = sq(a[i]);"
    "let v = a[i] * c; let w = a[i] * c; v = v + sq(w); if (true) { let q = v; p[l] = q; } else { p[l] = 1.0; }"
    "if (l < 2) { v = -v; } s[l] = v; barrier(); let acc = 0.0f32;"
    "for (j in 0..4) { let k = n[i] * 3; acc = acc + s[j] * a[k] + s[j]; } barrier();"
    "if (n[i] / 4 > 3) { out[i] = acc; } else { region r { let q = acc * 2.0; out[i] = q; } } out[i] = acc + a[i] * c; "
    "}";

static void starve(const char *passes)
{
    size_t stride = (size_t)effort(EFFORT_starved_stride);
    for (size_t n = 1 + test_seed() % stride;; n += stride) {
        fault f = {0};
        flx_error err = {0};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        flx_kernel *k = flk_in(ctx, rich);
        f.fail_at = f.calls + n;
        flx_kernel *o = flx_kernel_optimise(k, passes, &err);
        bool failed = f.failed > 0;
        test_fail_context("passes %s, request %zu", passes ? passes : "all", n);
        CHECK(failed == (o == NULL));
        CHECK(!failed || err.code == FLX_E_OOM);
        flx_kernel_release(o);
        flx_kernel_release(k);
        flx_context_free(ctx);
        CHECK(fault_is_clean(&f));
        if (!failed)
            return;
    }
}

TEST(kernel_optimise_survives_lack_of_memory)
{
    starve(NULL);
}

/* The time per pass for a kernel of many statements must be linear in their number. */
static double seconds_of(size_t statements, const char *passes)
{
    size_t size = statements * 80 + 200, n = 0;
    char *text = malloc(size);
    CHECK(text != NULL);
    n +=
        (size_t)snprintf(text, size, "kernel k() { buffer a: f32[16] read; buffer out: f32[16] output; let v0 = a[0];");
    for (size_t j = 1; j < statements; j++)
        n += (size_t)snprintf(text + n, size - n, "let v%zu = v%zu * a[%zu] + v%zu;\n", j, j - 1, j % 15, j / 2);
    snprintf(text + n, size - n, "out[0] = v%zu; }", statements - 1);
    flx_kernel *k = flk(text);
    free(text);
    clock_t start = clock();
    flx_kernel *o = flx_kernel_optimise(k, passes, NULL);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    CHECK(o != NULL);
    flx_kernel_release(o);
    flx_kernel_release(k);
    return seconds;
}

TEST(kernel_optimise_time_is_linear)
{
    double small = seconds_of(5000, NULL), large = seconds_of(40000, NULL);
    CHECK_MSG(large < 0.1 + 8 * 3 * small, "5,000 statements take %g s, 40,000 take %g s", small, large);
}
