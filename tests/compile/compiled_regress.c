/* SPDX-License-Identifier: Apache-2.0 */
/* compiled_regress.c: mistakes of compiled code that were found once. */
#include "test.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <string.h>

/* Runs a graph of one input and one output, both f32[8], in two forms of emitted text. */
static void run_both(const char *text, const float *x, float y[2][8])
{
    static const uint32_t flags[2] = {0, FLX_COMPILE_SCALAR};
    for (int way = 0; way < 2; way++) {
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        flx_module *m = flx_parse(ctx, text, strlen(text), "regress", &err);
        CHECK_MSG(m, "%s", err.message);
        flx_compile_options o = {.flags = flags[way], .cache = FLX_CACHE_OFF};
        flx_exec *e = NULL;
        e = flx_compile(flx_module_main(m), &o, &err);
        CHECK_MADE(e, &err);
        const void *in[1] = {x};
        void *out[1] = {y[way]};
        CHECK_OK(flx_exec_run_at(e, in, out, &err), &err);
        flx_exec_free(e);
        flx_module_free(m);
        flx_context_free(ctx);
    }
}

/* gcc without trapping maths makes trunc(x) of it, which keeps the sign of a zero. */
TEST(compiled_float_of_an_integer_is_never_minus_zero)
{
    const float x[8] = {-0.3f, -0.0f, 0.7f, -1.5f, -0.99f, 0.0f, 2.5f, -7.0f};
    float y[2][8];
    run_both("graph g(x: f32[8]) { return cast(cast(x, to=i32), to=f32) }", x, y);
    for (int way = 0; way < 2; way++)
        for (int i = 0; i < 8; i++) {
            float want = (float)(int)x[i] + 0.0f;
            EXPECT_MSG(y[way][i] == want && !(want == 0 && signbit(y[way][i])), "way %d: %g gives %g", way,
                       (double)x[i], (double)y[way][i]);
        }
}

/* A value without elements is never computed, and once had a kernel without a result. */
TEST(compiled_concat_of_something_empty_computes_the_rest)
{
    const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    float y[2][8];
    run_both("graph g(x: f32[8]) { return concat(x, neg(narrow(x, axis=0, start=0, len=0)), axis=0) }", x, y);
    for (int way = 0; way < 2; way++)
        for (int i = 0; i < 8; i++)
            EXPECT_MSG(y[way][i] == x[i], "way %d: element %d is %g", way, i, (double)y[way][i]);
}

/* Ops divide integers by the number 0 too (ops are total), though a kernel must not have it for a divisor. */
TEST(compiled_division_of_integers_by_the_number_zero)
{
    static const char *const calls[] = {"div(x, 0)", "rem(x, 0)", "mod(x, 0)"};
    const int32_t x[3] = {-7, 0, 5};
    for (size_t i = 0; i < 3; i++) {
        char text[80] = "graph g(x: i32[3]) { return ";
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        strcat(strcat(text, calls[i]), " }");
        flx_module *m = flx_parse(ctx, text, strlen(text), "regress", &err);
        CHECK_MSG(m, "%s", err.message);
        flx_dim n = 3;
        flx_type type = flx_type_make(FLX_I32, 1, &n);
        flx_tensor *in = flx_tensor_new(ctx, &type, x, &err), *y = NULL;
        flx_feed feed = {"x", in};
        CHECK_OK(flx_run(flx_module_main(m), &(flx_run_options){.device = "cpu"}, &feed, 1, &y, &err), &err);
        for (int64_t k = 0; k < 3; k++)
            CHECK_NEAR(flx_tensor_get(y, k), i == 0 ? -1 : x[k], 0);
        flx_tensor_release(in);
        flx_tensor_release(y);
        flx_module_free(m);
        flx_context_free(ctx);
    }
}
