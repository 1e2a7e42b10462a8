/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_fusion.c: a fused kernel does what its two kernels do one after the other. */
#include "kernel/optimise/optimise_case.h"

#include "fault.h"

#include <stdio.h>
#include <stdlib.h>

static const char head[] = "kernel k(workgroup = [4, 1, 1]) { buffer a: f32[8] read @0; buffer n: u32[4] read @1;"
                           "buffer mid: f32[8] read_write @2; buffer out: f32[8] read_write @3;"
                           "buffer s: f32[4] workgroup; fn f(p: f32) -> f32 { return p * p; }"
                           "let i = invocation_id(0); let l = local_id(0);";

static flx_kernel *kernel_of(flx_context *ctx, const char *body)
{
    char text[2000];
    snprintf(text, sizeof text, "%s %s }", head, body);
    return flk_in(ctx, text);
}

typedef struct {
    float a[8], mid[8], out[8];
    uint32_t n[4];
} memory;

static void run(const flx_kernel *k, memory *m)
{
    flx_kernel_memory at[] = {{"a", m->a, sizeof m->a},
                              {"n", m->n, sizeof m->n},
                              {"mid", m->mid, sizeof m->mid},
                              {"out", m->out, sizeof m->out}};
    uint32_t grid[3] = {2, 1, 1};
    flx_error err = {0};
    flx_kernel_run_options o = {
        .struct_size = sizeof o, .schedule = FLX_KERNEL_REVERSE, .flags = FLX_KERNEL_DETECT_RACES};
    CHECK_OK(flx_kernel_run(k, grid, at, 4, &o, &err), &err);
}

static void check(const char *first, const char *second, const char *refusal)
{
    flx_error err = {0};
    test_fail_context("%s THEN %s", first, second);
    flx_kernel *a = kernel_of(flk_context(), first), *b = kernel_of(flk_context(), second);
    flx_kernel *k = flx_kernel_fuse(a, b, &err);
    if (refusal) {
        CHECK(k == NULL);
        CHECK_MSG(strstr(err.message, refusal) != NULL, "%s", err.message);
    } else {
        CHECK_MSG(k != NULL, "%s", err.message);
        memory apart = {.a = {1, 2, 3, 4, 5, 6, 7, 8}, .mid = {9, 8, 7}, .n = {5, 3, 2, 1}}, fused = apart,
               fast = apart;
        run(a, &apart);
        run(b, &apart);
        run(k, &fused);
        CHECK(memcmp(&apart, &fused, sizeof apart) == 0);
        flx_kernel *o = flx_kernel_optimise(k, NULL, &err);
        CHECK_MSG(o != NULL, "%s", err.message);
        run(o, &fast);
        CHECK(memcmp(&apart, &fast, sizeof apart) == 0);
        flx_kernel_release(o);
    }
    flx_kernel_release(a);
    flx_kernel_release(b);
    flx_kernel_release(k);
}

TEST(kernel_fusion_of_elementwise_kernels)
{
    check("mid[i] = f(a[i]);", "out[i] = f(mid[i]) + 1.0;", NULL);
    check("let j = i; mid[j + 0] = a[j];", "let q = invocation_id(0); out[q] = mid[q + 0];", NULL);
    check("if (i < n[0]) { mid[i] = a[i]; }", "if (i < n[0]) { if (l > 1) { out[i] = mid[i]; } }", NULL);
    check("out[i] = mid[i];", "mid[i] = a[i];", NULL);
    check("s[l] = a[i]; barrier(); mid[i] = s[3 - l];", "s[l] = mid[i] + s[l]; barrier(); out[i] = s[3 - l];", NULL);
    check("mid[i] = a[i];", "if (l == 2) { return; } out[i] = mid[i];", NULL);
}

TEST(kernel_fusion_refuses_what_others_wrote)
{
    check("mid[i] = a[i];", "out[i] = mid[7 - i];", "index");
    check("mid[i] = a[i];", "out[i] = mid[i] + mid[n[0]];", "index");
    check("mid[n[l]] = a[l];", "out[i] = mid[i];", "index");
    /* an invocation that did not store may access the element of one that did */
    check("if (i < 5) { mid[i] = a[i]; }", "out[i] = mid[i];", "conditions");
    check("if (i < 5) { mid[i] = a[i]; }", "if (i < 6) { out[i] = mid[i]; }", "conditions");
    check("for (j in 0..n[3]) { mid[i] = a[i]; }", "out[i] = mid[i];", "conditions");
    check("out[i] = mid[i];", "if (l == 2) { return; } mid[i] = a[i];", "conditions");
    check("out[i] = mid[i];", "mid[7 - i] = a[i];", "index");
}

TEST(kernel_fusion_refuses_misfits)
{
    check("if (i > 3) { return; } mid[i] = a[i];", "out[i] = mid[i];", "returns early");
    check("trap(i, t);", "out[i] = mid[i];", "traps");
    flx_error err = {0};
    flx_kernel *a = kernel_of(flk_context(), "mid[i] = a[i];");
    flx_kernel *b = flk("kernel q(workgroup = [2, 1, 1]) { buffer mid: f32[8] read; }");
    flx_kernel *c = flk("kernel q(workgroup = [4, 1, 1]) { buffer mid: f32[9] read; }");
    flx_kernel *d = flk("kernel q(workgroup = [4, 1, 1]) { buffer mid: f32[8] output; }");
    CHECK(flx_kernel_fuse(a, b, &err) == NULL && strstr(err.message, "workgroup"));
    CHECK(flx_kernel_fuse(a, c, &err) == NULL && strstr(err.message, "counts"));
    CHECK(flx_kernel_fuse(a, d, &err) == NULL && strstr(err.message, "zero"));
    flx_kernel_release(a);
    flx_kernel_release(b);
    flx_kernel_release(c);
    flx_kernel_release(d);
}

TEST(kernel_fusion_renames_and_rebinds)
{
    flx_error err = {0};
    flx_kernel *a = flk("kernel p() { buffer x: f32[1] read @0; buffer t: f32[1] private; buffer y: f32[1] write @1;"
                        "t[0] = x[0]; y[0] = t[0]; }");
    flx_kernel *b = flk("kernel q() { buffer y: f32[1] read @0; buffer t: f32[2] private; buffer z: f32[1] output @1;"
                        "t[1] = y[0]; z[0] = t[1]; }");
    flx_kernel *k = flx_kernel_fuse(a, b, &err);
    CHECK_MSG(k != NULL, "%s", err.message);
    flx_buffer text = flk_text(k);
    CHECK_EQ_STR(text.data, "kernel p(workgroup = [1, 1, 1]) {\n"
                            "  buffer x: f32[1] read @0;\n"
                            "  buffer t: f32[1] private;\n"
                            "  buffer y: f32[1] read_write @1;\n"
                            "  buffer t_2: f32[2] private;\n"
                            "  buffer z: f32[1] output @2;\n"
                            "  {\n"
                            "    t[0] = x[0];\n"
                            "    y[0] = t[0];\n"
                            "  }\n"
                            "  {\n"
                            "    t_2[1] = y[0];\n"
                            "    z[0] = t_2[1];\n"
                            "  }\n"
                            "}\n");
    flx_kernel *o = flx_kernel_optimise(k, NULL, &err);
    flx_buffer fast = flk_text(o);
    CHECK_EQ_STR(fast.data, "kernel p(workgroup = [1, 1, 1]) {\n"
                            "  buffer x: f32[1] read @0;\n"
                            "  buffer y: f32[1] read_write @1;\n"
                            "  buffer z: f32[1] output @2;\n"
                            "  let t_3 = x[0];\n"
                            "  y[0] = t_3;\n"
                            "  z[0] = t_3;\n"
                            "}\n");
    flx_buffer_free(&text);
    flx_buffer_free(&fast);
    flx_kernel_release(a);
    flx_kernel_release(b);
    flx_kernel_release(k);
    flx_kernel_release(o);
}

TEST(kernel_fusion_survives_lack_of_memory)
{
    for (size_t n = 1;; n++) {
        fault f = {0};
        flx_error err = {0};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        flx_kernel *a = kernel_of(ctx, "if (i < n[0]) { mid[i] = f(a[i]); }");
        flx_kernel *b = kernel_of(ctx, "if (i < n[0]) { s[l] = mid[i]; out[i] = f(s[l]); }");
        f.fail_at = f.calls + n;
        flx_kernel *k = flx_kernel_fuse(a, b, &err);
        bool failed = f.failed > 0;
        CHECK(failed == (k == NULL));
        CHECK(!failed || err.code == FLX_E_OOM);
        flx_kernel_release(a);
        flx_kernel_release(b);
        flx_kernel_release(k);
        flx_context_free(ctx);
        CHECK(fault_is_clean(&f));
        if (!failed)
            return;
    }
}
