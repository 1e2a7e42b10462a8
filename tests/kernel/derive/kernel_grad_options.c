/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_grad_options.c: the options of flx_kernel_grad and flx_kernel_jvp. */
#include "kernel/flk.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    flx_kernel *k;
    flx_kernel_derived *d;
} derivative;

static derivative grad_of(const char *text, const char *input, const flx_kernel_grad_options *options)
{
    const char *const out = "out";
    flx_error err = {0};
    derivative x = {.k = flk(text)};
    x.d = flx_kernel_grad(x.k, &out, 1, &input, 1, options, &err);
    CHECK_MSG(x.d != NULL, "%s (%s)", err.message, err.where);
    return x;
}

static void release(derivative *x)
{
    flx_kernel_derived_free(x->d);
    flx_kernel_release(x->k);
}

static bool says(const derivative *x, const char *word)
{
    flx_buffer text = flk_text(flx_kernel_derived_kernel(x->d, 0));
    bool found = strstr(text.data, word) != NULL;
    flx_buffer_free(&text);
    return found;
}

static const char gather[] = "kernel k(workgroup = [8, 1, 1]) { buffer x: f32[4] read; buffer at: u32[64] read;"
                             "buffer out: f32[64] output; let i = invocation_id(0); out[i] = sin(x[at[i]]); }";

/* Sums of floats in any order differ in their last bits; in order they do not. */
TEST(kernel_grad_deterministic_is_the_same_under_all_schedules)
{
    const flx_kernel_grad_options options = {.struct_size = sizeof options, .flags = FLX_KERNEL_DETERMINISTIC};
    derivative x = grad_of(gather, "x", &options);
    CHECK(!says(&x, "atomic_"));
    CHECK_EQ_U64(flx_kernel_derived_count(x.d), 2);
    float values[4] = {0.1f, 0.7f, 1.3f, 2.9f}, cotangent[64], first[4] = {0}, expected[4] = {0};
    uint32_t at[64];
    for (uint32_t i = 0; i < 64; i++) {
        at[i] = i * i % 4;
        cotangent[i] = 1.0f / (float)(i + 3);
        expected[at[i]] += cosf(values[at[i]]) * cotangent[i];
    }
    for (uint32_t schedule = 0; schedule < 4; schedule++) {
        const flx_kernel_run_options run = {.struct_size = sizeof run, .schedule = schedule, .seed = 5};
        float gradient[4] = {9, 9, 9, 9};
        flx_kernel_memory memory[] = {{"x", values, sizeof values},
                                      {"at", at, sizeof at},
                                      {"grad_out", cotangent, sizeof cotangent},
                                      {"grad_x", gradient, sizeof gradient}};
        flx_error err = {0};
        CHECK_OK(flx_kernel_derived_run(x.d, (const uint32_t[3]){8, 1, 1}, memory, 4, &run, &err), &err);
        if (schedule == 0)
            memcpy(first, gradient, sizeof first);
        CHECK(memcmp(first, gradient, sizeof first) == 0);
        for (int i = 0; i < 4; i++)
            CHECK_NEAR(gradient[i], expected[i], 1e-5);
    }
    release(&x);
}

TEST(kernel_grad_deterministic_refuses_what_it_cannot_order)
{
    const flx_kernel_grad_options options = {.struct_size = sizeof options, .flags = FLX_KERNEL_DETERMINISTIC};
    const char *const out = "out", *const in = "x";
    flx_kernel *k = flk("kernel k(workgroup = [4, 1, 1]) { buffer x: f32[4] read; buffer out: f32[4] output;"
                        "buffer sh: f32[4] workgroup; let l = local_id(0); sh[l] = x[l]; barrier();"
                        "out[l] = sh[3 - l] * sh[l]; }");
    flx_error err = {0};
    CHECK(flx_kernel_grad(k, &out, 1, &in, 1, &options, &err) == NULL);
    CHECK_EQ_STR(err.message,
                 "deterministic 'sh' is written, and its adjoint receives contributions from several invocations");
    flx_kernel_release(k);
}

TEST(kernel_grad_saved_uses_the_results)
{
    static const char text[] = "kernel k(workgroup = [2, 1, 1]) { buffer x: f32[2] read; buffer out: f32[2] output;"
                               "let i = invocation_id(0); out[i] = exp(x[i]); }";
    const flx_kernel_grad_options options = {.struct_size = sizeof options, .flags = FLX_KERNEL_SAVED};
    derivative x = grad_of(text, "x", &options);
    CHECK(!says(&x, "exp("));
    CHECK(!says(&x, "buffer x"));
    float out[2] = {2, 3}, gradient[2] = {0};
    flx_kernel_memory memory[] = {{"out", out, sizeof out}, {"grad_x", gradient, sizeof gradient}};
    flx_error err = {0};
    CHECK_OK(flx_kernel_derived_run(x.d, (const uint32_t[3]){1, 1, 1}, memory, 2, NULL, &err), &err);
    CHECK(gradient[0] == 2 && gradient[1] == 3);
    CHECK_CODE(flx_kernel_derived_run(x.d, (const uint32_t[3]){1, 1, 1}, memory + 1, 1, NULL, &err),
               FLX_E_MISSING_INPUT, &err);
    release(&x);
}

TEST(kernel_grad_with_forward_computes_both)
{
    static const char text[] = "kernel k(workgroup = [2, 1, 1]) { buffer x: f32[2] read; buffer out: f32[2] output;"
                               "let i = invocation_id(0); out[i] = x[i] * x[i]; }";
    const flx_kernel_grad_options options = {.struct_size = sizeof options, .flags = FLX_KERNEL_WITH_FORWARD};
    derivative x = grad_of(text, "x", &options);
    float in[2] = {3, -4}, out[2] = {0}, gradient[2] = {0};
    flx_kernel_memory memory[] = {
        {"x", in, sizeof in}, {"out", out, sizeof out}, {"grad_x", gradient, sizeof gradient}};
    flx_error err = {0};
    CHECK_OK(flx_kernel_derived_run(x.d, (const uint32_t[3]){1, 1, 1}, memory, 3, NULL, &err), &err);
    CHECK(out[0] == 9 && out[1] == 16 && gradient[0] == 6 && gradient[1] == -8);
    release(&x);
}

TEST(kernel_grad_overwrite_stores_where_each_element_gets_one_contribution)
{
    static const char text[] = "kernel k(workgroup = [2, 1, 1]) { buffer x: f32[2] read; buffer out: f32[2] output;"
                               "let i = invocation_id(0); let v = x[i]; out[i] = v * v; }";
    const flx_kernel_grad_options options = {.struct_size = sizeof options, .flags = FLX_KERNEL_OVERWRITE};
    derivative x = grad_of(text, "x", &options);
    CHECK(!says(&x, "= grad_x"));
    release(&x);
    const char *const out = "out", *const in = "x";
    flx_kernel *k = flk(gather);
    flx_error err = {0};
    CHECK(flx_kernel_grad(k, &out, 1, &in, 1, &options, &err) == NULL);
    CHECK_EQ_STR(err.message, "overwrite elements of the gradient of 'x' receive several contributions");
    flx_kernel_release(k);
}

TEST(kernel_grad_primal_types_keeps_halves)
{
    static const char text[] = "kernel k(workgroup = [2, 1, 1]) { buffer x: f16[2] read; buffer out: f16[2] output;"
                               "let i = invocation_id(0); let v = x[i]; out[i] = v * v; }";
    const flx_kernel_grad_options options = {.struct_size = sizeof options, .flags = FLX_KERNEL_PRIMAL_TYPES};
    derivative x = grad_of(text, "x", &options);
    CHECK(says(&x, "grad_x: f16[2]") && says(&x, "grad_out: f16[2]"));
    uint16_t in[2] = {0x4200, 0x3800}, gradient[2] = {0}; /* 3, 0.5 */
    flx_kernel_memory memory[] = {{"x", in, sizeof in}, {"grad_x", gradient, sizeof gradient}};
    flx_error err = {0};
    CHECK_OK(flx_kernel_derived_run(x.d, (const uint32_t[3]){1, 1, 1}, memory, 2, NULL, &err), &err);
    CHECK_EQ_U64(gradient[0], 0x4600); /* 6 */
    CHECK_EQ_U64(gradient[1], 0x3c00); /* 1 */
    release(&x);
}

TEST(kernel_grad_max_trips_reports_overflow)
{
    static const char text[] = "kernel k() { buffer x: f32[1] read; buffer n: u32[1] read; buffer out: f32[1] output;"
                               "let p = 1.0; for (j in 0..n[0]) { p = sin(p * x[0]); } out[0] = p; }";
    const flx_kernel_grad_options options = {.struct_size = sizeof options, .max_trips = 4};
    derivative x = grad_of(text, "x", &options);
    float in = 0.5f, gradient = 0;
    uint32_t n = 4;
    flx_kernel_memory memory[] = {{"x", &in, 4}, {"n", &n, 4}, {"grad_x", &gradient, 4}};
    flx_error err = {0};
    CHECK_OK(flx_kernel_derived_run(x.d, (const uint32_t[3]){1, 1, 1}, memory, 3, NULL, &err), &err);
    n = 5;
    CHECK_CODE(flx_kernel_derived_run(x.d, (const uint32_t[3]){1, 1, 1}, memory, 3, NULL, &err), FLX_E_KERNEL, &err);
    CHECK_EQ_STR(err.message, "resource limit a loop ran 5 iterations, more than max_trips");
    release(&x);
}

/* Splitting a loop into pieces changes what is kept, not what is computed. */
TEST(kernel_grad_budget_changes_no_bit)
{
    static const char text[] = "kernel k() { buffer x: f64[1] read; buffer n: u32[1] read; buffer out: f64[1] output;"
                               "let y = x[0]; for (s in 0..n[0]) { y = y - 0.01 * y * y; } out[0] = y; }";
    double plain = 0, limited = 0, in = 0.9;
    uint32_t n = 5000;
    flx_error err = {0};
    for (int i = 0; i < 2; i++) {
        const flx_kernel_grad_options options = {.struct_size = sizeof options, .tape_budget = i ? 4096 : 0};
        derivative x = grad_of(text, "x", &options);
        flx_kernel_memory memory[] = {{"x", &in, 8}, {"n", &n, 4}, {"grad_x", i ? &limited : &plain, 8}};
        CHECK_OK(flx_kernel_derived_run(x.d, (const uint32_t[3]){1, 1, 1}, memory, 3, NULL, &err), &err);
        release(&x);
    }
    CHECK(plain == limited && plain > 0 && plain < 1);
}

TEST(kernel_jvp_carries_columns)
{
    flx_kernel *k = flk("kernel k(workgroup = [2, 1, 1]) { buffer x: f32[2] read; buffer out: f32[2] output;"
                        "let i = invocation_id(0); out[i] = x[i] * x[1 - i]; }");
    const char *const out = "out", *const in = "x";
    const flx_kernel_grad_options options = {.struct_size = sizeof options, .columns = 2};
    flx_error err = {0};
    flx_kernel_derived *d = flx_kernel_jvp(k, &out, 1, &in, 1, &options, &err);
    CHECK_MSG(d != NULL, "%s", err.message);
    float x[2] = {3, 5}, result[2] = {0}, directions[4] = {1, 0, 0, 1}, tangents[4] = {0};
    flx_kernel_memory memory[] = {{"x", x, sizeof x},
                                  {"out", result, sizeof result},
                                  {"tan_x", directions, sizeof directions},
                                  {"tan_out", tangents, sizeof tangents}};
    CHECK_OK(flx_kernel_derived_run(d, (const uint32_t[3]){1, 1, 1}, memory, 4, NULL, &err), &err);
    CHECK(result[0] == 15 && tangents[0] == 5 && tangents[1] == 3 && tangents[2] == 5 && tangents[3] == 3);
    flx_kernel_derived_free(d);
    flx_kernel_release(k);
}

/* A function's own derivative replaces the automatic one, in both modes. */
TEST(kernel_grad_custom_rule)
{
    static const char text[] =
        "kernel k() { buffer x: f32[1] read; buffer y: f32[1] read; buffer out: f32[1] output;"
        "fn clipped(a: f32, b: f32) -> f32 { return min(a * b, 1.0); }"
        "adjoint clipped.a(a: f32, b: f32, z: f32, g: f32) -> f32 { return g * b * 10.0; }"
        "adjoint clipped.b(a: f32, b: f32, z: f32, g: f32) -> f32 { let w = g * a; return w * 100.0 + z; }"
        "out[0] = clipped(x[0], y[0]) * 2.0; }";
    derivative x = grad_of(text, "x", NULL);
    derivative y = grad_of(text, "y", NULL);
    float vx = 3, vy = 5, gx = 0, gy = 0;
    flx_error err = {0};
    flx_kernel_memory for_x[] = {{"x", &vx, 4}, {"y", &vy, 4}, {"grad_x", &gx, 4}};
    flx_kernel_memory for_y[] = {{"x", &vx, 4}, {"y", &vy, 4}, {"grad_y", &gy, 4}};
    CHECK_OK(flx_kernel_derived_run(x.d, (const uint32_t[3]){1, 1, 1}, for_x, 3, NULL, &err), &err);
    CHECK_OK(flx_kernel_derived_run(y.d, (const uint32_t[3]){1, 1, 1}, for_y, 3, NULL, &err), &err);
    CHECK(gx == 100); /* 2 * 5 * 10 */
    CHECK(gy == 601); /* 2 * 3 * 100 + 1 */
    release(&x);
    release(&y);
}

TEST(kernel_grad_stops_at_a_region)
{
    static const char text[] = "kernel k() { buffer x: f32[1] read; buffer out: f32[1] output; let s = 0.0;"
                               "region scale stop_gradient { s = x[0] * x[0]; } out[0] = s * x[0]; }";
    derivative x = grad_of(text, "x", NULL);
    float v = 3, g = 0;
    flx_error err = {0};
    flx_kernel_memory memory[] = {{"x", &v, 4}, {"grad_x", &g, 4}};
    CHECK_OK(flx_kernel_derived_run(x.d, (const uint32_t[3]){1, 1, 1}, memory, 2, NULL, &err), &err);
    CHECK(g == 9);
    release(&x);
}

/* An axis that the kernel never uses must have one invocation: two of them would add to one element unguarded. */
TEST(kernel_grad_refuses_a_grid_it_did_not_reckon_with)
{
    derivative x = grad_of(gather, "x", NULL);
    float values[4] = {0}, gradient[4];
    uint32_t at[64] = {0};
    flx_kernel_memory memory[] = {
        {"x", values, sizeof values}, {"at", at, sizeof at}, {"grad_x", gradient, sizeof gradient}};
    flx_error err = {0};
    CHECK_CODE(flx_kernel_derived_run(x.d, (const uint32_t[3]){8, 2, 1}, memory, 3, NULL, &err), FLX_E_KERNEL, &err);
    CHECK_EQ_STR(err.message, "grid the derivative of 'k' needs one invocation along axis 1");
    release(&x);
}

static size_t count_of(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *s = text; (s = strstr(s, word)) != NULL; s += strlen(word))
        n++;
    return n;
}

/* One load and one store forward; x, the cotangent and the gradient are read and the gradient is written backward. */
TEST(kernel_grad_of_elementwise_moves_little)
{
    derivative x =
        grad_of("kernel k(workgroup = [64, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output;"
                "let i = invocation_id(0); if (i < buf_len(x)) { let v = x[i]; out[i] = v * exp(-v) + sin(v); } }",
                "x", NULL);
    flx_buffer text = flk_text(flx_kernel_derived_kernel(x.d, 0));
    test_fail_context("%s", text.data);
    CHECK_EQ_U64(count_of(text.data, "[i]"), 4);
    CHECK_EQ_U64(count_of(text.data, "atomic"), 0);
    CHECK_EQ_U64(count_of(text.data, "tape"), 0);
    flx_buffer_free(&text);
    release(&x);
}
