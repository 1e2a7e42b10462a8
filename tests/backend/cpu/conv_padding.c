/* SPDX-License-Identifier: Apache-2.0 */
/* conv_padding.c: an infinite weight beside padding. The definition leaves terms in the padding out; 0 times infinity
   in their place would be NaN. */
#include "test.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const char *call; /* of x, a row of ones, and w, a row that begins with infinity */
    int64_t x, w, y;  /* extents */
    double expected[8];
} padding_case;

static const padding_case cases[] = {
    {"conv(x, w, padding=[1])", 4, 3, 4, {2, INFINITY, INFINITY, INFINITY}},
    {"conv(x, w, padding=[[2, 0]], stride=[2])", 5, 3, 3, {1, INFINITY, INFINITY}},
    {"conv(x, w, input_dilation=[2])", 3, 2, 4, {INFINITY, 1, INFINITY, 1}},
    {"conv(x, w, padding=[[0, 2]], reverse=[true])", 4, 3, 4, {INFINITY, INFINITY, 2, 1}},
    {"conv_transpose(x, w)", 3, 3, 5, {INFINITY, INFINITY, INFINITY, 2, 1}},
    {"conv_transpose(x, w, stride=[2])", 3, 3, 7, {INFINITY, 1, INFINITY, 1, INFINITY, 1, 1}},
    {"conv_backward_input(x, w, input_size=[4], padding=[1])", 4, 3, 4, {INFINITY, INFINITY, INFINITY, 2}},
    {"conv(x, w, input_dilation=[2], padding=[[2, 1]])", 3, 7, 2, {3, 3}},
    {"conv(w, x, input_dilation=[2], padding=[[0, 4]])", 7, 3, 3, {INFINITY, 2, 2}},
    /* w takes the place of z here: the result has an element for each tap, and that of the first misses the infinity */
    {"conv_backward_weight(x, w, kernel_size=[3], padding=[1])", 4, 4, 3, {3, INFINITY, INFINITY}},
};

static flx_tensor *row(flx_context *ctx, int32_t dtype, int64_t n, double first)
{
    flx_error err = {0};
    flx_type f64 = flx_type_make(FLX_F64, 3, (int64_t[]){1, 1, n});
    double values[8];
    for (int64_t i = 0; i < n; i++)
        values[i] = i == 0 ? first : 1;
    flx_tensor *wide = flx_tensor_new(ctx, &f64, values, &err);
    CHECK_MSG(wide, "%s", err.message);
    flx_tensor *t = flx_tensor_cast(wide, dtype, &err);
    CHECK_MSG(t, "%s", err.message);
    flx_tensor_release(wide);
    return t;
}

static void check_case(flx_context *ctx, const padding_case *c, int32_t dtype)
{
    char text[400];
    const char *d = flx_dtype_name(dtype);
    flx_error err = {0};
    snprintf(text, sizeof text, "graph g(x: %s[1, 1, %d], w: %s[1, 1, %d]) {\n  y = %s\n  return y\n}\n", d, (int)c->x,
             d, (int)c->w, c->call);
    test_fail_context("%s: %s", d, c->call);
    flx_module *m = flx_parse(ctx, text, strlen(text), "case", &err);
    CHECK_MSG(m, "%s", err.message);
    flx_feed feeds[] = {{"x", row(ctx, dtype, c->x, 1)}, {"w", row(ctx, dtype, c->w, INFINITY)}};
    flx_tensor *y = NULL;
    CHECK_OK(flx_run(flx_module_main(m), &(flx_run_options){.device = "cpu"}, feeds, 2, &y, &err), &err);
    CHECK_EQ_I64(flx_tensor_count(y), c->y);
    flx_tensor *wide = flx_tensor_cast(y, FLX_F64, &err);
    CHECK_MSG(wide, "%s", err.message);
    for (int64_t i = 0; i < c->y; i++)
        CHECK_NEAR(((const double *)flx_tensor_const_data(wide))[i], c->expected[i], 0);
    flx_tensor_release(wide);
    flx_tensor_release(y);
    for (int i = 0; i < 2; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    flx_module_free(m);
    test_count_case();
}

TEST(conv_routes_leave_padding_out_beside_infinite_weights)
{
    static const int32_t dtypes[] = {FLX_F32, FLX_F64, FLX_F16, FLX_BF16};
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
            check_case(ctx, &cases[i], dtypes[k]);
    flx_context_free(ctx);
}
