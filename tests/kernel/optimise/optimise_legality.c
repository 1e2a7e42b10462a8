/* SPDX-License-Identifier: Apache-2.0 */
/* optimise_legality.c: the optimiser's contract as a table. For every kind of rewrite there are kernels that it must
   change, with the result, and for each condition that makes it legal one where the condition does not hold, which must
   stay unchanged. Every case is run before and after, on irregular data (optimise_case.h). */
#include "kernel/optimise/optimise_case.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const char *row; /* the kind of rewrite */
    const char *passes;
    const char *before, *after; /* after is NULL: unchanged */
    const char *condition;      /* why, or why not */
} law;

static const law laws[] = {
    /* ---- fold ---- */
    {"fold", "fold", "res[i] = 7 / 2 * n[i] + 0;", "res[i] = n[i] * 3;", "literals by the interpreter's evaluator"},
    {"fold", "fold", "res[i] = n[i] * 0 + (n[i] - n[i]);", "res[i] = 0;", "x*0 and x-x are 0 for integers"},
    {"fold", "fold", "out[i] = a[i] * 0.0;", NULL, "x*0 is not 0 for NaN, infinities and -0"},
    {"fold", "fold", "out[i] = a[i] - a[i];", NULL, "x-x is NaN for infinities"},
    {"fold", "fold", "out[i] = a[i] / a[i];", NULL, "x/x is NaN for 0"},
    {"fold", "fold", "res[i] = n[i] / n[i];", NULL, "x/x has all bits set for the integer 0"},
    {"fold", "fold", "out[i] = a[i] - 0.0; x[i] = b[i] + -0.0;", "out[i] = a[i]; x[i] = b[i];", "exact for -0, too"},
    {"fold", "fold", "out[i] = a[i] + 0.0;", NULL, "-0 + 0 is +0"},
    {"fold", "fold", "out[i] = a[i] - -0.0;", NULL, "-0 - -0 is +0"},
    {"fold", "fold", "res[i] = atomic_add(m[i], 1) * 0;", NULL, "the atomic is not pure"},

    /* ---- algebraic canonicalisation ---- */
    {"canonical", "fold", "res[i] = 3 + n[i] + 4;", "res[i] = n[i] + 7;", "integers wrap: any order gives the same"},
    {"canonical", "fold", "res[i] = (n[i] & 12) & 10;", "res[i] = n[i] & 8;", "bit operations are associative"},
    {"canonical", "fold", "out[i] = a[i] + 1.0 + 2.0;", NULL, "float sums round in between"},
    {"canonical", "fold", "out[i] = a[i] * 3.0 * 5.0;", NULL, "float products round in between"},
    {"canonical", "fold",
     "kernel k(flags = [reassociate]) { buffer a: f32[1] read; buffer out: f32[1] output; out[0] = a[0] + 1.0 + 2.0; }",
     "kernel k(flags = [reassociate]) { buffer a: f32[1] read; buffer out: f32[1] output; out[0] = a[0] + 3.0; }",
     "the flag permits it"},
    {"canonical", "cse", "out[i] = a[i] * b[i]; x[i] = b[i] * a[i];", "let t = a[i] * b[i]; out[i] = t; x[i] = t;",
     "operands of commutative ops have one order"},
    {"canonical", "cse", "out[i] = a[i] / b[i]; x[i] = b[i] / a[i];",
     "let t = a[i]; let t_2 = b[i]; out[i] = t / t_2; x[i] = t_2 / t;", "those of other ops keep theirs"},
    {"canonical", "fold", "res[i] = m[i] + atomic_add(m[i], 1);", NULL, "effects stay where they are evaluated"},

    /* ---- CSE ---- */
    {"cse", "cse", "out[i] = exp(a[i]); x[i] = exp(a[i]);", "let t = exp(a[i]); out[i] = t; x[i] = t;",
     "equal, pure and stable"},
    {"cse", "cse", "out[i] = exp(x[i]); x[i] = 1.0; y[i] = exp(x[i]);", NULL, "what it loads is written in between"},
    {"cse", "cse", "let v = n[i]; for (j in 0..2) { res[j] = v * v; v = v + j; m[j] = v * v; }", NULL,
     "an operand is assigned in between"},
    {"cse", "cse", "buffer s: f32[4] workgroup; s[l] = a[i]; out[i] = s[l]; barrier(); x[i] = s[l];", NULL,
     "others may have written after a barrier"},
    {"cse", "cse", "out[i] = exp(a[i]); barrier(); x[i] = exp(a[i]);",
     "let t = exp(a[i]); out[i] = t; barrier(); x[i] = t;", "read-only memory is never written"},
    {"cse", "cse", "if (l < 2) { out[i] = exp(a[i]); } x[i] = exp(a[i]);", NULL, "its scope has ended"},
    {"cse", "cse", "res[i] = atomic_add(m[0], 1); res[l] = atomic_add(m[0], 1);", NULL, "atomics are not pure"},
    {"cse", "cse", "let v = a[i]; if (l < 2) { x[i] = subgroup_add(v); } else { y[i] = subgroup_add(v); }", NULL,
     "subgroup ops depend on who is there"},

    /* ---- copy and constant propagation ---- */
    {"propagate", "propagate", "let p = 3; let q = p; res[i] = q * n[i];", "res[i] = n[i] * 3;", "a constant"},
    {"propagate", "propagate", "let p = a[i]; let q = p; out[i] = q; x[i] = p;", "let p = a[i]; out[i] = p; x[i] = p;",
     "a copy of a variable that stays"},
    {"propagate", "propagate", "let v = n[i]; let w = v; for (j in 0..2) { v = v * n[j]; res[j] = w; } m[i] = v;", NULL,
     "the source is reassigned"},
    {"propagate", "propagate", "let v = 1; for (j in 0..4) { res[j] = v; v = n[j]; }", NULL,
     "the next iteration sees another value"},
    {"propagate", "propagate", "let p = x[i]; x[i] = 1.0; out[i] = p;", NULL, "the memory is written in between"},

    /* ---- DCE ---- */
    {"dce", "dce", "let p = exp(a[i]); let q = 0; for (j in 0..4) { q = q + j; } out[i] = 1.0;", "out[i] = 1.0;",
     "unused values and assignments"},
    {"dce", "dce", "out[i] = 1.0; if (l < 2) { return; } else { return; } x[i] = 1.0;", "out[i] = 1.0;",
     "code that is not reached"},
    {"dce", "dce", "buffer s: f32[4] private; s[l] = a[i]; out[i] = 1.0;", "out[i] = 1.0;",
     "private memory that is never loaded"},
    {"dce", "dead_store", "buffer s: f32[4] private; s[0] = a[i]; out[i] = s[0]; s[1] = b[i];",
     "buffer s: f32[4] private; s[0] = a[i]; out[i] = s[0];", "nor loads afterwards"},
    {"dce", "dead_store",
     "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); out[i] = s[3 - l]; barrier(); s[l] = b[i];",
     "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); out[i] = s[3 - l]; barrier();", "nor others afterwards"},
    {"dce", "dead_store", "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); out[i] = s[3 - l];", NULL,
     "others load it afterwards"},
    {"dce", "dead_store", "buffer s: f32[4] private; for (j in 0..3) { out[j] = s[0]; s[0] = b[j]; }", NULL,
     "the next iteration loads it"},
    {"dce", "dead_store", "x[l] = a[i];", NULL, "storage is seen after the dispatch"},
    {"dce", "dce", "let p = a[i]; out[i] = p;", NULL, "the value is used"},
    {"dce", "dce", "let p = atomic_add(m[i], 1) + 1;", NULL, "atomics stay"},
    {"dce", "dce", "if (n[i] > 3) { trap(n[i], bad); }", NULL, "traps stay"},

    /* ---- dead store ---- */
    {"dead store", "dead_store", "x[i] = 1.0; y[i] = 3.0; x[i] = a[i];", "y[i] = 3.0; x[i] = a[i];",
     "the same element, not read in between"},
    {"dead store", "dead_store", "x[i] = 1.0; x[l] = a[i];", NULL, "the indices are not structurally equal"},
    {"dead store", "dead_store", "x[1] = 1.0; out[i] = x[l]; x[1] = a[i];", NULL, "an access in between"},
    {"dead store", "dead_store", "x[i] = 1.0; barrier(); x[i] = 2.0;", NULL, "a barrier in between"},
    {"dead store", "dead_store", "m[i] = 1; atomic_add(m[l], 2); m[i] = 3;", NULL, "an atomic in between"},
    {"dead store", "dead_store",
     "kernel k() { buffer a: u32[4] read; buffer s: u32[4] workgroup; buffer out: u32[4] output;"
     "s[0] = 1; async_load(a, s, 0, 16, t); async_wait(t); s[0] = 2; out[0] = s[0]; }",
     NULL, "a copy in between"},
    {"dead store", "dead_store", "x[i] = 1.0; if (n[i] > 3) { x[i] = 2.0; }", NULL, "the later one is conditional"},
    {"dead store", "dead_store", "x[i] = 1.0; if (n[i] > 3) { return; } x[i] = 2.0;", NULL,
     "the program may end before"},
    {"dead store", "dead_store", "let v = i; x[v] = 1.0; for (j in 0..1) { v = v + 8; } x[v] = 2.0;", NULL,
     "the index has another value by then"},

    /* ---- store-to-load forwarding ---- */
    {"forward", "forward", "x[l] = exp(a[i]); out[i] = x[l] + x[l];", "let t = exp(a[i]); x[l] = t; out[i] = t + t;",
     "let-bound, not evaluated again"},
    {"forward", "forward", "x[l] = a[i]; out[i] = x[3 - l];", NULL, "the indices are not structurally equal"},
    {"forward", "forward", "x[i] = a[i]; out[i] = x[i];", NULL, "out of range a load gives 0"},
    {"forward", "forward", "x[l] = a[i]; x[3] = 1.0; out[i] = x[l];", NULL, "another store may meet the element"},
    {"forward", "forward", "m[l] = n[i]; atomic_add(m[0], 1); res[i] = m[l];", NULL, "an atomic in between"},
    {"forward", "forward", "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); out[i] = s[l]; s[0] = 1.0;", NULL,
     "a barrier in between"},
    {"forward", "forward", "x[l] = a[i]; if (n[i] > 3) { x[l] = 1.0; } out[i] = x[l];", NULL, "a store in a branch"},
    {"forward", "forward",
     "kernel k() { buffer a: u32[4] read; buffer s: u32[4] workgroup; buffer out: u32[4] output;"
     "s[0] = 1; async_load(a, s, 0, 16, t); async_wait(t); out[0] = s[0]; }",
     NULL, "a copy in between"},
    {"forward", "forward", "buffer s: f8e4m3[4] private; s[l] = a[i]; out[i] = s[l];", NULL, "storing rounds"},

    /* ---- loop invariant motion ---- */
    {"licm", "licm", "for (j in 0..n[i] % 4) { let p = exp(a[i]); out[j] = p; }",
     "let p = exp(a[i]); for (j in 0..n[i] % 4) { out[j] = p; }", "invariant; harmless for a loop without trips"},
    {"licm", "licm", "for (j in 0..4) { out[j] = a[j] * exp(b[i]); }",
     "let t = exp(b[i]); for (j in 0..4) { out[j] = a[j] * t; }", "parts of expressions, too"},
    {"licm", "licm", "for (j in 0..4) { let p = exp(a[j]); out[j] = p; }", NULL, "it reads the loop's variable"},
    {"licm", "licm", "for (j in 0..4) { let p = x[i]; x[i] = p + 1.0; }", NULL, "the loop writes what it loads"},
    {"licm", "licm", "let v = 0; for (j in 0..4) { let p = n[v]; v = p + 1; res[j] = v; }", NULL,
     "the loop assigns what it reads"},
    {"licm", "licm",
     "buffer s: f32[4] workgroup; for (j in 0..4) { let p = s[3 - l]; out[i] = p; barrier(); s[l] = a[j]; barrier(); }",
     NULL, "others write it after a barrier"},
    {"licm", "licm", "for (j in 0..4) { region r stop_gradient { let p = exp(a[i]); out[j] = p; } }", NULL,
     "the region's flags apply to its contents"},
    {"licm", "licm", "for (j in 0..4) { let p = atomic_add(m[i], 1); res[j] = p; }", NULL, "not pure"},

    /* ---- strength reduction ---- */
    {"strength", "strength", "res[i] = n[i] * 8; m[i] = n[i] / 4 + n[i] % 16;",
     "res[i] = n[i] << 3; m[i] = (n[i] >> 2) + (n[i] & 15);", "powers of two, unsigned"},
    {"strength", "strength", "let v = n[i]; res[i] = v / 10; m[i] = v % 10;",
     "let v = n[i]; res[i] = mul_high(v, 3435973837) >> 3; m[i] = v - (mul_high(v, 3435973837) >> 3) * 10;",
     "other divisors: the upper half of a product"},
    {"strength", "strength", "let v = n[i]; res[i] = v / 7;",
     "let v = n[i]; res[i] = (v - mul_high(v, 613566757) >> 1) + mul_high(v, 613566757) >> 2;",
     "the factor has a bit more than fits"},
    {"strength", "strength",
     "buffer s: i32[16] read; buffer r: i32[16] output; let v = s[i]; r[i] = v / 4i32; r[i + 8] = v % 4i32;",
     "buffer s: i32[16] read; buffer r: i32[16] output; let v = s[i]; r[i] = v + (v >> 31i32 & 3i32) >> 2i32;"
     "r[i + 8] = v - (v + (v >> 31i32 & 3i32) & -4i32);",
     "signed: with a bias where it is negative"},
    {"strength", "strength", "buffer s: i32[16] read; buffer r: i32[16] output; r[i] = s[i] / 7i32;", NULL,
     "signed by another number: left to the target's compiler"},
    {"strength", "strength", "res[i] = n[i] / m[i] + n[i] % m[i];", NULL, "no constant"},
    {"strength", "strength", "let v = a[i]; out[i] = v * 2.0; x[i] = v / 8.0;",
     "let v = a[i]; out[i] = v + v; x[i] = v * 0.125;", "exact in floats"},
    {"strength", "strength", "out[i] = a[i] / 3.0; x[i] = b[i] / 10.0;", NULL, "the reciprocal is not exact"},
    {"strength", "strength", "out[i] = a[i] / 0x1p-127; x[i] = a[i] / 0x1p+127;", NULL,
     "the reciprocal of a power of two, or itself, is not normal"},
    {"strength", "strength", "out[i] = 1.0 / a[i]; x[i] = 1.0 / sqrt(b[i]); y[i] = a[i] * b[i] + 1.0;", NULL,
     "nothing permits another rounding"},

    /* ---- if simplification ---- */
    {"if", "if", "if (true) { out[i] = 1.0; } else { x[i] = 1.0; } if (n[i] < 3) { }", "out[i] = 1.0;",
     "constant conditions, empty branches"},
    {"if", "if", "if (l < 2) { if (l < 2) { out[i] = 1.0; } }", "if (l < 2) { out[i] = 1.0; }", "known from outside"},
    {"if", "if", "if (m[i] < 3) { m[i] = 7; if (m[i] < 3) { out[i] = 1.0; } }", NULL, "what was known has changed"},
    {"if", "if", "if (atomic_add(m[0], 1) < 3) { }", NULL, "the condition acts"},
    {"if", "select", "let v = a[i]; if (v < 0.0) { v = -v; } out[i] = v;",
     "let v = a[i]; v = select(v < 0.0, -v, v); out[i] = v;", "cheap, pure arms"},
    {"if", "select", "if (n[i] > 3) { out[i] = 1.0; }", NULL, "an arm stores"},
    {"if", "select", "let v = a[i]; if (n[i] > 3) { v = exp(exp(v)); } out[i] = v;", NULL, "an arm is not cheap"},
    {"if", "select", "let v = n[i]; if (v > 3) { v = atomic_add(m[0], 1); } res[i] = v;", NULL, "an arm is not pure"},
    {"if", "fuse", "if (l < 2) { let p = a[i]; x[i] = p; } if (l < 2) { let p = b[i]; y[i] = p; } else { y[i] = 1.0; }",
     "if (l < 2) { let p = a[i]; x[i] = p; let p_2 = b[i]; y[i] = p_2; } else { y[i] = 1.0; }",
     "neighbours of one condition"},
    {"if", "fuse", "if (m[i] < 2) { m[i] = 7; } if (m[i] < 2) { y[i] = 1.0; }", NULL,
     "the first changes the condition"},
    {"if", "fuse", "let v = n[i]; if (v < 2) { v = v + 1; } if (v < 2) { res[i] = v; }", NULL, "or a variable of it"},
    {"if", "fuse", "if (atomic_add(m[i], 1) < 2) { x[i] = 1.0; } if (atomic_add(m[i], 1) < 2) { y[i] = 1.0; }", NULL,
     "the condition acts"},
    {"if", "fuse", "if (l < 2) { x[i] = 1.0; return; } if (l < 2) { y[i] = 1.0; } y[l] = 2.0;", NULL,
     "the first ends the program"},

    /* ---- loops ---- */
    {"loops", "unroll", "for (j in 1..3) { out[j] = a[j]; }", "out[1] = a[1]; out[2] = a[2];", "constant trips, few"},
    {"loops", "unroll", "for (j in 0..n[i] % 4) { out[j] = 1.0; }", NULL, "the trips are not constant"},
    {"loops", "unroll", "for (j in 0..9) { out[j] = 1.0; }", NULL, "too many trips"},
    {"loops", "unroll", "for (j in 0..2) { region r once { out[j] = 1.0; } }", NULL, "the body may not be repeated"},
    {"loops", "peel", "for (j in 0..9) { if (j == 0) { x[i] = 1.0; } out[j] = 1.0; }",
     "if (true) { if (true) { x[i] = 1.0; } out[0] = 1.0; }"
     "for (j in 1..9) { if (j == 0) { x[i] = 1.0; } out[j] = 1.0; }",
     "the first iteration is special"},
    {"loops", "peel", "for (j in 0..9) { if (j == 3) { x[i] = 1.0; } out[j] = 1.0; }", NULL, "another one is"},
    {"loops", "strip_mine", "let v = 0; for (j in 0..96) { v = v * 3 + j; } res[i] = v;",
     "let v = 0; for (j_2 in 0..6) { for (j in j_2 * 16..j_2 * 16 + 16) { v = v * 3 + j; } } res[i] = v;",
     "the order stays"},
    {"loops", "strip_mine", "let v = 0; for (j in 0..n[i] % 100) { v = v * 3 + j; } res[i] = v;", NULL,
     "the trips are not constant"},
    {"loops", "fuse", "for (j in 0..9) { x[j] = a[j]; } for (k in 0..9) { y[k] = x[k]; }",
     "for (j in 0..9) { x[j] = a[j]; y[j] = x[j]; }", "each element belongs to one iteration"},
    {"loops", "fuse", "for (j in 0..9) { x[j] = a[j]; } for (k in 0..9) { y[k] = x[k + 1]; }", NULL,
     "a dependence would be reversed"},
    {"loops", "fuse", "let v = 0; for (j in 0..9) { v = v + n[j]; } for (k in 0..9) { res[k] = v; }", NULL,
     "one through a variable"},
    {"loops", "fuse", "for (j in 0..9) { x[j] = a[j]; } barrier(); for (k in 0..9) { y[k] = b[k]; }", NULL,
     "a barrier between"},
    {"loops", "fuse", "for (j in 0..9) { x[j] = a[j]; } for (k in 0..8) { y[k] = b[k]; }", NULL, "the ranges differ"},

    /* ---- barriers ---- */
    {"barriers", "barriers", "x[i] = 1.0; barrier(); y[i] = 2.0;", "x[i] = 1.0; y[i] = 2.0;", "nothing is kept apart"},
    {"barriers", "barriers",
     "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(acquire); barrier(seq_cst); out[i] = s[3 - l];",
     "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(seq_cst); out[i] = s[3 - l];",
     "two in a row merge, the stronger stays"},
    {"barriers", "barriers", "buffer s: f32[4] workgroup; out[i] = s[l]; barrier(); x[i] = s[3 - l];",
     "buffer s: f32[4] workgroup; out[i] = s[l]; x[i] = s[3 - l];", "both sides only read"},
    {"barriers", "barriers", "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); out[i] = s[3 - l];", NULL,
     "a write before a read"},
    {"barriers", "barriers", "buffer s: f32[4] workgroup; out[i] = s[3 - l]; barrier(); s[l] = a[i];", NULL,
     "a read before a write"},
    {"barriers", "barriers", "buffer s: f32[4] workgroup; s[l] = a[i]; barrier(); s[3 - l] = b[i];", NULL,
     "two writes"},
    {"barriers", "barriers", "buffer s: u32[4] workgroup; atomic_add(s[0], 1); barrier(); res[i] = s[0];", NULL,
     "an atomic before a read"},
    {"barriers", "barriers",
     "buffer s: f32[4] workgroup; for (j in 0..3) { out[i] = s[3 - l]; s[l] = a[j]; barrier(); }", NULL,
     "conflicting around a loop"},

    /* ---- region inlining ---- */
    {"inline", "inline", "region r { let p = a[i]; out[i] = p; } region q { let p = b[i]; x[i] = p; }",
     "let p_2 = a[i]; out[i] = p_2; let p_3 = b[i]; x[i] = p_3;", "lets that collide are renamed"},
    {"inline", "inline", "region r stop_gradient { out[i] = a[i]; }", NULL, "its flags would be lost"},
    {"inline", "inline_always", "region r once { out[i] = a[i]; }", NULL, "also under the policy always"},
    {"inline", "-inline,-propagate,-cse", "region r { out[i] = a[i]; }", NULL, "the policy never"},

    /* ---- bound-check elision: see also below ---- */
    {"bounds", "bounds", "for (j in 0..16) { if (j < 16) { out[j] = a[j]; } }",
     "for (j in 0..16) { if (true) { out[j] = a[j]; } }", "the interval is below the length"},
    {"bounds", "bounds", "for (j in 0..17) { if (j < 16) { out[j] = a[j]; } }", NULL, "it is not"},
    {"bounds", "bounds", "if (n[i] + 1 > 0) { out[i] = 1.0; }", NULL, "sums wrap"},
};

enum { NUM_LAWS = sizeof laws / sizeof *laws };

static void check_row(const char *row)
{
    int fires = 0, stays = 0;
    for (size_t i = 0; i < NUM_LAWS; i++) {
        const law *w = &laws[i];
        if (strcmp(w->row, row) != 0)
            continue;
        optimise_expect(w->passes, w->before, w->after ? w->after : w->before);
        fires += w->after != NULL;
        stays += w->after == NULL;
        test_count_case();
    }
    CHECK(fires > 0 && stays > 0);
}

#define ROW(test, row)             \
    TEST(optimise_legality_##test) \
    {                              \
        check_row(row);            \
    }

ROW(fold, "fold")
ROW(canonical, "canonical")
ROW(cse, "cse")
ROW(propagate, "propagate")
ROW(dce, "dce")
ROW(dead_store, "dead store")
ROW(forward, "forward")
ROW(licm, "licm")
ROW(strength, "strength")
ROW(if, "if")
ROW(loops, "loops")
ROW(barriers, "barriers")
ROW(inline, "inline")
ROW(bounds, "bounds")

/* ---- Sizes, for the policies of inlining ---- */

/* Whether the passes leave the region, or the calls, of a kernel that has many statements there. */
static void check_policy(const char *passes, int statements, bool keeps)
{
    static char text[40000];
    test_fail_context("pass %s, %d statements", passes, statements);
    size_t n = (size_t)snprintf(text, sizeof text, "fn f(p: f32) -> f32 { let v = p; ");
    for (int i = 0; i < statements; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "v = v * p + %d.0; ", i);
    n += (size_t)snprintf(text + n, sizeof text - n, "return v; } out[i] = f(a[i]); x[i] = f(b[i]); region r { ");
    for (int i = 0; i < statements; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "y[i] = y[i] + %d.0; ", i);
    snprintf(text + n, sizeof text - n, "}");
    flx_error err = {0};
    flx_kernel *k = optimise_kernel(text), *made = flx_kernel_optimise(k, passes, &err);
    CHECK_MSG(made != NULL, "%s", err.message);
    optimise_check_same(k, made);
    flx_buffer printed = flk_text(made);
    CHECK(keeps == (strstr(printed.data, "region r") != NULL));
    CHECK(keeps == (strstr(printed.data, "= f(") != NULL));
    flx_buffer_free(&printed);
    flx_kernel_release(made);
    flx_kernel_release(k);
}

TEST(optimise_legality_inline_policies)
{
    check_policy("inline", 5, false);
    check_policy("inline", 100, true);
    check_policy("inline_always", 5, false);
    check_policy("inline_always", 100, false);
    check_policy("-inline", 5, true);
    check_policy("-inline,inline_always", 100, false);
}

TEST(optimise_legality_lists_that_leave_out)
{
    flx_error err = {0};
    flx_kernel *k = optimise_kernel("for (j in 0..2) { out[j] = exp(a[i]); }");
    flx_kernel *all = flx_kernel_optimise(k, NULL, &err), *rest = flx_kernel_optimise(k, "-unroll", &err);
    CHECK(all && rest && all->body.n == 4 && rest->body.n == 3); /* the loop, or two stores */
    CHECK(flx_kernel_optimise(k, "-unroll,-unroll", &err) == NULL);
    CHECK_EQ_STR(err.message, "pass 'unroll' cannot be removed: it is not in the list");
    CHECK(flx_kernel_optimise(k, "-fold", &err) == NULL);
    CHECK(flx_kernel_optimise(k, "-nonsense", &err) == NULL);
    CHECK_EQ_STR(err.message, "unknown kernel pass 'nonsense'");
    CHECK(flx_kernel_optimise(k, "-", &err) == NULL);
    flx_kernel_release(all);
    flx_kernel_release(rest);
    flx_kernel_release(k);
}

/* ---- Kernel fusion ---- */

static const struct {
    const char *first, *second;
    const char *after; /* optimised; NULL: refused */
    const char *condition;
} fusions[] = {
    {"x[l] = a[l] * 2.0;", "y[l] = x[l] + 1.0;",
     "let l_2 = local_id(0); let t = a[l_2] * 2.0; x[l_2] = t; y[l_2] = t + 1.0;",
     "an invocation reads what it wrote itself"},
    {"if (i < 9) { x[i] = a[i]; }", "if (i < 9) { y[i] = x[i] * x[i]; }",
     "let i_2 = invocation_id(0); if (i_2 < 9) { let t_2 = a[i_2]; x[i_2] = t_2; y[i_2] = t_2 * t_2; }",
     "under the same condition"},
    {"x[l] = a[l];", "y[l] = b[l];", "let l_2 = local_id(0); x[l_2] = a[l_2]; y[l_2] = b[l_2];", "nothing in common"},
    {"x[l] = a[l];", "y[l] = x[3 - l];", NULL, "the element of another invocation"},
    {"x[n[l]] = a[l];", "y[l] = x[l];", NULL, "written anywhere"},
    {"if (l < 2) { x[l] = a[l]; }", "y[l] = x[l];", NULL, "read where it is not written"},
    {"y[l] = x[l];", "x[3 - l] = a[l];", NULL, "overwritten before it was read"},
    {"if (l < 2) { return; } x[l] = a[l];", "y[l] = x[l];", NULL, "the first returns early"},
};

static flx_kernel *fusible(const char *body)
{
    char text[600];
    snprintf(text, sizeof text,
             "kernel k(workgroup = [4, 1, 1]) { buffer a: f32[16] read; buffer b: f32[16] read; buffer n: u32[16] read;"
             "buffer x: f32[16] read_write; buffer y: f32[16] read_write; %s %s }",
             strstr(body, "let ") ? ""
             : strchr(body, 'l')  ? "let l = local_id(0);"
                                  : "let i = invocation_id(0);",
             body);
    return flk(text);
}

TEST(optimise_legality_kernel_fusion)
{
    for (size_t i = 0; i < sizeof fusions / sizeof *fusions; i++) {
        flx_error err = {0};
        test_fail_context("%s THEN %s: %s", fusions[i].first, fusions[i].second, fusions[i].condition);
        flx_kernel *a = fusible(fusions[i].first), *b = fusible(fusions[i].second);
        flx_kernel *fused = flx_kernel_fuse(a, b, &err);
        CHECK_MSG((fused != NULL) == (fusions[i].after != NULL), "%s", err.message);
        if (fused) {
            flx_kernel *fast = flx_kernel_optimise(fused, NULL, &err), *expected = fusible(fusions[i].after);
            CHECK_MSG(fast != NULL, "%s", err.message);
            flx_buffer got = flk_text(fast), wanted = flk_text(expected);
            CHECK_EQ_STR(got.data, wanted.data);
            flx_buffer_free(&got);
            flx_buffer_free(&wanted);
            flx_kernel_release(fast);
            flx_kernel_release(expected);
        } else {
            CHECK(strncmp(err.message, "not fused:", 10) == 0 && err.hint[0]);
        }
        flx_kernel_release(a);
        flx_kernel_release(b);
        flx_kernel_release(fused);
        test_count_case();
    }
    flx_error err = {0};
    flx_kernel *k = fusible("x[l] = a[l];");
    CHECK(flx_kernel_fuse(NULL, k, &err) == NULL && err.code == FLX_E_USAGE);
    CHECK(flx_kernel_fuse(k, NULL, &err) == NULL && err.code == FLX_E_USAGE);
    flx_kernel_release(k);
}

/* ---- Bound-check elision and vector access, in the emitted text ---- */

static const struct {
    const char *body;
    bool is_guarded;
    bool is_vector; /* consecutive, in range, unconditional: gcc vectorises it */
    const char *condition;
} accesses[] = {
    {"if (i < 4096) { v[i] = w[i] * 2.0; }", false, true, "in range under the guard, consecutive across lanes"},
    {"if (i < 4096) { v[i] = w[4095 - i]; }", false, false,
     "in range, but downwards: to a compiler the index may wrap"},
    {"for (j in 0..4096) { v[j] = w[j]; }", false, true, "consecutive across a loop"},
    {"if (i < 4097) { v[i] = w[i]; }", true, false, "one too many"},
    {"if (i < 4096) { v[i] = w[i + 1]; }", true, false, "one further"},
    {"if (i < 4096) { v[k[i] % 4096] = w[i]; }", false, false, "stored anywhere"},
};

static flx_buffer emitted(const char *body)
{
    char text[400];
    flx_error err = {0};
    flx_buffer c = {0};
    snprintf(text, sizeof text,
             "kernel k(workgroup = [64, 1, 1]) { buffer w: f32[4096] read; buffer k: u32[4096] read;"
             "buffer v: f32[4096] write; let i = invocation_id(0); %s }",
             body);
    flx_kernel *k = flk(text);
    CHECK_OK(flx_kernel_emit(k, "c", &c, &err), &err);
    flx_kernel_release(k);
    return c;
}

TEST(optimise_legality_bound_checks_in_text)
{
    for (size_t i = 0; i < sizeof accesses / sizeof *accesses; i++) {
        test_fail_context("%s: %s", accesses[i].body, accesses[i].condition);
        flx_buffer c = emitted(accesses[i].body);
        CHECK(accesses[i].is_guarded == (strstr(c.data, "k_load_") != NULL));
        flx_buffer_free(&c);
        test_count_case();
    }
}

/* Short vectors are not part of the language. The compiler of the emitted text vectorises adjacent accesses: across
   lanes, because local ids are inner loops there, and across the kernel's own loops. */
TEST(optimise_legality_vector_access)
{
    char path[600], command[1400];
    if (system("gcc -fopt-info-vec-optimized -march=native -x c -c /dev/null -o /dev/null >/dev/null 2>&1") != 0) {
        printf("   left out: there is no gcc that reports what it vectorises\n");
        return;
    }
    for (size_t i = 0; i < sizeof accesses / sizeof *accesses; i++) {
        test_fail_context("%s: %s", accesses[i].body, accesses[i].condition);
        flx_buffer c = emitted(accesses[i].body);
        snprintf(path, sizeof path, "%s/access.c", test_temp_dir());
        FILE *f = fopen(path, "w");
        CHECK(f && fwrite(c.data, 1, c.size, f) == c.size);
        fclose(f);
        snprintf(command, sizeof command,
                 "gcc -std=gnu17 -O2 -ftree-vectorize -march=native -ffp-contract=off -fno-math-errno "
                 "-fno-strict-aliasing -fno-builtin -w -fopt-info-vec-optimized -c '%s' -o /dev/null "
                 "2>&1 | grep -q 'loop vectorized'",
                 path);
        CHECK(accesses[i].is_vector == (system(command) == 0));
        flx_buffer_free(&c);
        test_count_case();
    }
}

/* ---- Completeness of the table ---- */

TEST(optimise_legality_covers_every_pass)
{
    char path[600], name[40];
    snprintf(path, sizeof path, "%s/docs/kernels.md", test_source_dir());
    FILE *f = fopen(path, "r");
    CHECK_MSG(f != NULL, "%s", path);
    static char docs[200000];
    docs[fread(docs, 1, sizeof docs - 1, f)] = 0;
    fclose(f);
    for (size_t p = 0; flxi_kernel_pass_name(p); p++) {
        const char *pass = flxi_kernel_pass_name(p);
        bool is_tested = strcmp(pass, "coalesce") == 0 || strcmp(pass, "split") == 0; /* in tests of their own */
        for (size_t i = 0; i < NUM_LAWS && !is_tested; i++)
            is_tested = strcmp(laws[i].passes, pass) == 0;
        EXPECT_MSG(is_tested, "no law about pass %s", pass);
        snprintf(name, sizeof name, "`%s`", pass);
        EXPECT_MSG(strstr(docs, name) != NULL, "docs/kernels.md does not name pass %s", pass);
    }
}
