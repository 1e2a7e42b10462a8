/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_bits_derivative.c: a derivative that would be lost in the bits of a float is rejected; bits that only decide
   are accepted. */
#include "kernel/flk.h"

#define HEAD                                                                                          \
    "kernel bits() { buffer x: f32[4] read; buffer out: f32[4] output; buffer other: u32[4] output; " \
    "buffer cells: u32[4] private; let i = invocation_id(0); let b = bitcast<u32>(x[i]); "

static flx_kernel_derived *derive(const char *text, bool is_forward, flx_error *err)
{
    flx_kernel *k = flk(text);
    const char *const out[] = {"out"}, *const x[] = {"x"};
    flx_kernel_derived *d =
        is_forward ? flx_kernel_jvp(k, out, 1, x, 1, NULL, err) : flx_kernel_grad(k, out, 1, x, 1, NULL, err);
    flx_kernel_release(k);
    return d;
}

TEST(kernel_bits_refuse_derivatives)
{
    static const char *const texts[] = {
        HEAD "out[i] = bitcast<f32>(b & 0xffff0000); }",
        HEAD "out[i] = cast<f32>(b >> 23); }",
        HEAD "cells[0] = b; out[i] = 2.0 * bitcast<f32>(cells[0]); }",
        HEAD "let c = 0; for (j in 0..4) { c = c ^ b; } out[i] = x[i] + bitcast<f32>(c); }",
        HEAD "if (b > 7) { let c = ~b; out[i] = bitcast<f32>(c); } }",
    };
    for (size_t i = 0; i < 2 * (sizeof texts / sizeof texts[0]); i++) {
        flx_error err = {0};
        test_fail_context("%s", texts[i / 2]);
        CHECK(derive(texts[i / 2], i % 2, &err) == NULL);
        CHECK_CODE(err.code, FLX_E_KERNEL, &err);
        CHECK_EQ_STR(err.message, "not differentiable bitcast has no derivative");
        CHECK_EQ_STR(err.hint, "wrap it in stop_gradient, or give its function an adjoint");
        test_count_case();
    }
}

TEST(kernel_bits_may_decide)
{
    static const char *const texts[] = {
        HEAD "out[i] = select(b >> 31 == 1, -x[i], x[i]); }",
        HEAD "if ((b & 0x80000000) != 0) { out[i] = -x[i]; } else { out[i] = x[i]; } }",
        HEAD "out[i] = x[b % 4]; }",
        HEAD "other[i] = b; out[i] = x[i] * x[i]; }",
        HEAD "other[i] = bitcast<u32>(2.0 * bitcast<f32>(b)); out[i] = x[i]; }",
        HEAD "out[i] = x[i] * bitcast<f32>(bitcast<u32>(stop_gradient(x[i])) ^ 1); }",
    };
    for (size_t i = 0; i < 2 * (sizeof texts / sizeof texts[0]); i++) {
        flx_error err = {0};
        test_fail_context("%s", texts[i / 2]);
        flx_kernel_derived *d = derive(texts[i / 2], i % 2, &err);
        CHECK_MSG(d != NULL, "%s", err.message);
        flx_kernel_derived_free(d);
        test_count_case();
    }
}
