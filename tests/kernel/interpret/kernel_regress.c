/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_regress.c: one test per bug that fuzzing found in kernels. */
#include "kernel/flk.h"

#include "kernel/check/kernel_validate.h"

/* The result of a transform must be a valid kernel. */
static void check_derived(flx_kernel_derived *d, const flx_error *err)
{
    CHECK_MSG(d != NULL, "%s", err->message);
    for (size_t i = 0; i < flx_kernel_derived_count(d); i++) {
        flx_error other = {0};
        CHECK_OK(flxi_kernel_check(flx_kernel_derived_kernel(d, i), &other), &other);
    }
    flx_kernel_derived_free(d);
}

TEST(kernel_regress_tangents_do_not_take_bindings_of_the_forward_kernel)
{
    flx_kernel *k = flk("kernel k() {\n"
                        "  buffer x: f32[8] read @0;\n"
                        "  buffer y: f32[8] read_write @1;\n"
                        "  buffer o: f32[8] output @4;\n"
                        "  let i = invocation_id(0);\n"
                        "  o[i] = fma(2.0, x[i], y[i]);\n"
                        "}\n");
    const char *in = "x";
    const char *out = "o";
    flx_error err = {0};
    check_derived(flx_kernel_jvp(k, &out, 1, &in, 1, NULL, &err), &err);
    check_derived(flx_kernel_grad(k, &out, 1, &in, 1, NULL, &err), &err);
    flx_kernel_release(k);
}

/* The variable of a loop that never runs has no values; its range was empty in the wrong way, and dividing by it was a
   division by zero in the compiler. */
TEST(kernel_range_of_a_loop_that_never_runs)
{
    flx_kernel *k = flk("kernel k() { buffer out: u32[1] output; for (n in 3..0) { out[0] = 7 / n + 7 % n; } }");
    flx_buffer text = {0};
    flx_error err = {0};
    CHECK_OK(flx_kernel_emit(k, "c", &text, &err), &err);
    flx_kernel *fast = flx_kernel_optimise(k, NULL, &err);
    CHECK_MSG(fast != NULL, "%s", err.message);
    flx_buffer_free(&text);
    flx_kernel_release(fast);
    flx_kernel_release(k);
}

/* A u32 condition whose low byte is zero was lost when it became a byte of a mask. */
TEST(kernel_condition_with_only_high_bits)
{
    flx_kernel *k = flk("kernel k(workgroup = [4, 1, 1]) { buffer out: u32[4] output; let c = invocation_id(0) << 31;"
                        "if (c) { let v = subgroup_shuffle(c, 1); out[invocation_id(0)] = v; } }");
    static const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        uint32_t out[4] = {0};
        flx_kernel_memory memory = {"out", out, sizeof out};
        flx_kernel_run_options options = {.struct_size = sizeof options, .device = devices[d]};
        flx_error err = {0};
        CHECK_OK(flx_kernel_run(k, (const uint32_t[3]){1, 1, 1}, &memory, 1, &options, &err), &err);
        CHECK_EQ_U64(out[0], 0);
        CHECK_EQ_U64(out[1], 0x80000000u);
        CHECK_EQ_U64(out[2], 0);
        CHECK_EQ_U64(out[3], 0x80000000u);
    }
    flx_kernel_release(k);
}

/* Contributions from a copy of an inactive variable were added too, in variables of a branch that had ended. */
TEST(kernel_regress_adjoints_of_inactive_copies_are_dropped)
{
    flx_kernel *k = flk("kernel k() { buffer x: f64[1] read; buffer n: u32[1] read; buffer out: f64[1] output;"
                        "let v = cast<f64>(n[0]); let s = v;"
                        "if (n[0]) { let w = v; if (n[0] > 3) { w = x[0]; } s = w; } out[0] = s; }");
    const char *in = "x", *out = "out";
    flx_error err = {0};
    check_derived(flx_kernel_grad(k, &out, 1, &in, 1, NULL, &err), &err);
    flx_kernel_release(k);
}
