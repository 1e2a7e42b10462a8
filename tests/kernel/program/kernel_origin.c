/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_origin.c: messages of derivatives refer to statements of the original kernel. */
#include "kernel/flk.h"

#define HEAD                                                                                                          \
    "kernel k() { buffer x: f32[4] read; buffer out: f32[4] output; fn f(a: f32) -> f32 "                             \
    "{ let b = a * 2.0; let c = floor(b); if (c > 1.0) { c = c * b; } return c + a; } let i = invocation_id(0); let " \
    "unused = 3; "

static void check_where(const char *text, uint32_t flags, const char *where)
{
    const char *const out[] = {"out"}, *const x[] = {"x"};
    flx_kernel_grad_options options = {.struct_size = sizeof options, .flags = flags};
    flx_kernel *k = flk(text);
    for (int is_forward = 0; is_forward < 2; is_forward++) {
        flx_error err = {0};
        flx_kernel_derived *d = is_forward ? flx_kernel_jvp(k, out, 1, x, 1, &options, &err)
                                           : flx_kernel_grad(k, out, 1, x, 1, &options, &err);
        test_fail_context("%s, mode %d", text, is_forward);
        CHECK(d == NULL);
        CHECK_EQ_STR(err.where, where);
        test_count_case();
    }
    flx_kernel_release(k);
}

TEST(kernel_derivatives_name_the_statement_of_the_source)
{
    check_where(HEAD "let a = x[i]; out[i] = a + floor(a); }", FLX_KERNEL_STRICT, "body/3");
    check_where(HEAD "if (i < 2) { out[i] = x[i]; } else { let a = 1.0; let b = a; for (j in 0..3) "
                     "{ out[i] = x[i] * b; out[i] = out[i] + round(x[i]); } } }",
                FLX_KERNEL_STRICT, "body/2/else/2/1");
    check_where(HEAD "{ region r { let u = bitcast<u32>(x[i]); out[i] = bitcast<f32>(u ^ 1); } } }", 0, "body/2/0/1");
    check_where(HEAD "if (i > 5) { return; } out[i] = x[i]; if (i > 3) { return; } out[i] = out[i] * ceil(x[i]); }",
                FLX_KERNEL_STRICT, "body/5");
    check_where(HEAD "out[i] = f(x[i]); }", FLX_KERNEL_STRICT, "fn f/1");
    check_where(HEAD "let y = f(stop_gradient(x[i])); out[i] = y * x[i] + trunc(x[i]); }", FLX_KERNEL_STRICT, "body/3");
}

TEST(kernel_derivatives_warn_about_the_statement_of_the_source)
{
    const char *const out[] = {"out"}, *const x[] = {"x"};
    flx_error err = {0};
    flx_kernel *k = flk(HEAD "let a = x[i]; if (i < 3) { out[i] = a + floor(a); } }");
    flx_kernel_derived *d = flx_kernel_grad(k, out, 1, x, 1, NULL, &err);
    CHECK_MSG(d != NULL, "%s", err.message);
    CHECK_EQ_U64(flx_kernel_derived_warning_count(d), 1);
    CHECK_EQ_STR(flx_kernel_derived_warning(d, 0), "body/3/0: floor is piecewise constant, its derivative is zero");
    flx_kernel_derived_free(d);
    flx_kernel_release(k);
}
