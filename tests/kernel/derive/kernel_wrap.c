/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_wrap.c: indices that wrap around at 2^32: invocations collide unexpectedly, and gradients must not be lost. */
#include "kernel/flk.h"

static flx_kernel_derived *gradient_of(const char *text)
{
    flx_error err = {0};
    flx_kernel *k = flk(text);
    flx_kernel_derived *d =
        flx_kernel_grad(k, (const char *const[]){"out"}, 1, (const char *const[]){"x"}, 1, NULL, &err);
    CHECK_MSG(d != NULL, "%s", err.message);
    flx_kernel_release(k);
    return d;
}

static bool says(const flx_kernel_derived *d, const char *word)
{
    flx_buffer text = flk_text(flx_kernel_derived_kernel(d, 0));
    bool found = strstr(text.data, word) != NULL;
    test_fail_context("%s", text.data);
    flx_buffer_free(&text);
    return found;
}

/* Invocations 0 and 2 read the same element. */
TEST(kernel_gradient_of_a_wrapping_index_is_atomic)
{
    flx_error err = {0};
    flx_kernel_derived *d = gradient_of("kernel k() { buffer x: f32[2] read; buffer out: f32[4] output; "
                                        "let i = invocation_id(0); out[i] = x[i * 2147483648] * 3.0; }");
    float x[2] = {5, 7}, cotangent[4] = {1, 2, 4, 8}, gradient[2] = {0};
    flx_kernel_memory memory[] = {
        {"x", x, sizeof x}, {"grad_out", cotangent, sizeof cotangent}, {"grad_x", gradient, sizeof gradient}};
    flx_kernel_run_options options = {.struct_size = sizeof options, .flags = FLX_KERNEL_DETECT_RACES};
    CHECK(says(d, "atomic_add(grad_x"));
    CHECK_OK(flx_kernel_derived_run(d, (const uint32_t[]){4, 1, 1}, memory, 3, &options, &err), &err);
    CHECK_NEAR(gradient[0], 15, 0);
    CHECK_NEAR(gradient[1], 0, 0);
    flx_kernel_derived_free(d);
}

/* A stride that may be zero does not distinguish invocations, and neither does one whose multiples may be anything. */
TEST(kernel_gradient_along_an_unknown_stride_is_atomic)
{
    static const char *const texts[] = {
        "kernel k() { buffer x: f32[8] read; buffer s: u32[1] uniform; buffer out: f32[8] output; "
        "let i = invocation_id(0); out[i] = x[i * s[0]] * 2.0; }",
        "kernel k(workgroup = [4, 1, 1]) { buffer x: f32[8] read; buffer out: f32[4] output; let i = local_id(0); "
        "let a = 0.0; for (j in 0..4294967295) { if (j < 2) { a = a + x[j * 5 + i] * x[j * 5 + i]; } } out[i] = a; }",
        "kernel k() { buffer x: f32[8] read; buffer out: f32[8] output; let i = invocation_id(0); "
        "out[i] = x[i * 2654435761] * 2.0; }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        flx_kernel_derived *d = gradient_of(texts[i]);
        CHECK(says(d, "atomic_add("));
        CHECK(!says(d, "trap"));
        flx_kernel_derived_free(d);
        test_count_case();
    }
}

/* Proofs by ranges need neither. */
TEST(kernel_gradient_within_ranges_is_plain)
{
    static const char *const texts[] = {
        "kernel k() { buffer x: f32[8] read; buffer out: f32[8] output; let i = invocation_id(0); out[i] = x[i] * 2.0; "
        "}",
        "kernel k() { buffer x: f32[8] read; buffer out: f32[8] output; let i = invocation_id(0); "
        "if (i < 100) { out[i] = x[i * 3 + 1] * 2.0; } }",
        "kernel k(workgroup = [4, 1, 1]) { buffer x: f32[] read; buffer out: f32[4] output; let i = invocation_id(0); "
        "if (i < 4) { let a = 0.0; for (j in 0..buf_len(x) / 4) { a = a + x[j * 4 + i] * x[j * 4 + i]; } out[i] = a; } "
        "}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        flx_kernel_derived *d = gradient_of(texts[i]);
        CHECK(!says(d, "atomic_add("));
        CHECK(!says(d, "trap"));
        flx_kernel_derived_free(d);
        test_count_case();
    }
}

static void check_dispatch(const flx_kernel_derived *d, const uint32_t grid[3], const flx_kernel_memory *memory,
                           size_t n, flx_code code)
{
    flx_error err = {0};
    CHECK_CODE((int32_t)flx_kernel_derived_run(d, grid, memory, n, NULL, &err), code, &err);
    if (code != FLX_OK)
        CHECK_EQ_STR(err.message, "trap 'index_wraps' at address 0");
}

/* Three numbers per invocation: plain, and a dispatch that would wrap is rejected at run time. */
TEST(kernel_gradient_refuses_dispatches_that_wrap)
{
    flx_kernel_derived *d = gradient_of("kernel k() { buffer x: f32[6] read; buffer out: f32[2] output; "
                                        "let i = invocation_id(0); out[i] = x[i * 3] * x[i * 3] + x[i * 3 + 2]; }");
    float x[6] = {1, 2, 3, 4, 5, 6}, cotangent[2] = {1, 10}, gradient[6] = {0};
    flx_kernel_memory memory[] = {
        {"x", x, sizeof x}, {"grad_out", cotangent, sizeof cotangent}, {"grad_x", gradient, sizeof gradient}};
    static const float want[6] = {2, 0, 1, 80, 0, 10};
    CHECK(!says(d, "atomic_add("));
    CHECK(says(d, "trap"));
    check_dispatch(d, (const uint32_t[]){2, 1, 1}, memory, 3, FLX_OK);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(gradient[i], want[i], 0);
    check_dispatch(d, (const uint32_t[]){1431655766, 1, 1}, memory, 3, FLX_E_KERNEL);
    flx_kernel_derived_free(d);
}

TEST(kernel_gradient_refuses_strides_that_wrap)
{
    flx_kernel_derived *d =
        gradient_of("kernel k() { buffer x: f32[] read; buffer width: u32[1] uniform; buffer out: f32[] output; "
                    "let col = invocation_id(0); let row = invocation_id(1); let w = width[0]; "
                    "if (col < w) { out[row * w + col] = x[row * w + col] * 2.0; } }");
    float x[6] = {1, 2, 3, 4, 5, 6}, cotangent[6] = {1, 2, 3, 4, 5, 6}, gradient[6] = {0};
    uint32_t width = 3;
    flx_kernel_memory memory[] = {{"x", x, sizeof x},
                                  {"width", &width, sizeof width},
                                  {"grad_out", cotangent, sizeof cotangent},
                                  {"grad_x", gradient, sizeof gradient}};
    CHECK(!says(d, "atomic_add("));
    check_dispatch(d, (const uint32_t[]){3, 2, 1}, memory, 4, FLX_OK);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(gradient[i], 2 * cotangent[i], 0);
    width = UINT32_C(1) << 31;
    check_dispatch(d, (const uint32_t[]){1, 2, 1}, memory, 4, FLX_OK);
    check_dispatch(d, (const uint32_t[]){1, 3, 1}, memory, 4, FLX_E_KERNEL);
    flx_kernel_derived_free(d);
}
