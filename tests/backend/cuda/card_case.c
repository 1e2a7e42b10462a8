/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/cuda/card_case.h"

#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

flx_graph *card_case_graph(flx_context *ctx, const card_case *c)
{
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, c->text, strlen(c->text), "case", &err);
    CHECK_MSG(m, "%s: %s: %s", c->text, err.where, err.message);
    const flx_grad_options o = {.struct_size = sizeof o, .flags = FLX_GRAD_SEED_INPUT | FLX_GRAD_VALUE};
    flx_graph *g = flx_module_main(m);
    flx_graph_retain(g);
    if (c->wrt[0]) {
        flx_graph_release(g);
        g = flx_grad(flx_module_main(m), (const char *const *)c->wrt, c->wrt[1] ? 2 : 1, &o, &err);
    }
    CHECK_MSG(g, "%s: %s", c->text, err.message);
    flx_module_free(m);
    return g;
}

/* |x - y| / |y| over all elements; NaN and infinities in the same places are equal. */
static double distance(const flx_tensor *x, const flx_tensor *y)
{
    double sum = 0, norm = 0;
    for (int64_t i = 0; i < flx_tensor_count(x); i++) {
        double a = flx_tensor_get(x, i), b = flx_tensor_get(y, i), d = a - b;
        if (a == b || (isnan(a) && isnan(b)))
            d = 0;
        sum += d * d;
        norm += isfinite(b) ? b * b : 0;
    }
    return norm > 0 ? sqrt(sum / norm) : sqrt(sum);
}

flx_tensor *card_case_value(flx_context *ctx, const flx_type *want, uint64_t *seed)
{
    flx_error err = {0};
    flx_type type = *want;
    bool is_index = type.dtype == FLX_I32;
    type.dtype = FLX_F32;
    flx_tensor *wide = flx_tensor_new(ctx, &type, NULL, &err);
    CHECK_MADE(wide, &err);
    for (int64_t k = 0; k < flx_tensor_count(wide); k++)
        ((float *)flx_tensor_data(wide))[k] =
            is_index ? floorf((float)(8 * test_uniform(seed) - 1)) : (float)(2 * test_uniform(seed) - 1);
    flx_tensor *t = flx_tensor_cast(wide, (flx_dtype)want->dtype, &err);
    CHECK_MADE(t, &err);
    flx_tensor_release(wide);
    return t;
}

/* How many outputs are not close, each with a line that says so. */
static int compare(flx_context *ctx, const card_case *c)
{
    enum { MOST = 8 };
    flx_error err = {0};
    flx_feed feeds[MOST];
    flx_tensor *out[2][MOST] = {{0}};
    uint64_t seed = 11;
    int bad = 0;
    flx_graph *g = card_case_graph(ctx, c);
    size_t inputs = flx_graph_input_count(g), outputs = flx_graph_output_count(g);
    for (size_t i = 0; i < inputs; i++) {
        flx_val v = flx_graph_input(g, i);
        feeds[i] = (flx_feed){flx_val_name(g, v), card_case_value(ctx, flx_val_type(g, v), &seed)};
    }
    const flx_compile_options o = {.struct_size = sizeof o, .device = "cuda"};
    const flx_run_options ref = {.struct_size = sizeof ref, .device = "cpu"};
    flx_exec *e = flx_compile(g, &o, &err);
    CHECK_MSG(e, "%s: %s", c->text, err.message);
    for (int run = 0; run < 3; run++) { /* the third is a graph of the driver */
        for (size_t k = 0; k < outputs; k++)
            flx_tensor_release(out[0][k]);
        CHECK_MSG(flx_exec_run(e, NULL, feeds, inputs, out[0], &err) == FLX_OK, "%s: %s", c->text, err.message);
    }
    CHECK_OK(flx_run(g, &ref, feeds, inputs, out[1], &err), &err);
    for (size_t k = 0; k < outputs; k++) {
        double d = distance(out[0][k], out[1][k]);
        if (!(d <= c->most))
            bad += printf("%s, output %zu: %.3g\n", c->text, k, d) > 0;
    }
    for (size_t i = 0; i < inputs; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    for (size_t k = 0; k < 2 * MOST; k++)
        flx_tensor_release(out[k / MOST][k % MOST]);
    flx_exec_free(e);
    flx_graph_release(g);
    return bad;
}

void card_cases_agree(const card_case *cases, size_t n)
{
    flx_error err = {0};
    int bad = 0;
    if (flx_device_check("cuda", &err) != FLX_OK) {
        printf("%s\n", err.message);
        return;
    }
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < n; i++)
        bad += compare(ctx, &cases[i]);
    CHECK(bad == 0);
    flx_context_free(ctx);
}
