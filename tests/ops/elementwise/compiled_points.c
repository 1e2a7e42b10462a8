/* SPDX-License-Identifier: Apache-2.0 */
/* compiled_points.c: pointwise ops whose compiled form is a formula of its own, at many points and at special values,
   beside the reference evaluator in f64. docs/performance.md states the permitted errors. */
#include "test.h"

#include <fluxion/exec.h>
#include <fluxion/run.h>
#include <fluxion/text.h>
#include <math.h>
#include <stdio.h>

typedef struct {
    const char *text;
    double max_f32, max_f64; /* ULP */
    double least;            /* of f64: units are those of a value of at least this size: terms of that size cancel */
} point_row;

static const point_row rows[] = {
    {"erf_inv(x)", 3, 4, 0},
    {"bessel_i0e(x)", 4, 8, 0},
    {"bessel_i1e(x)", 4, 8, 0},
    {"lgamma(x)", 1, 0, 0},
    {"digamma(x)", 1, 8, 8},
    {"polygamma(0, x)", 1, 8, 8},
    {"polygamma(1, x)", 1, 0, 0},
    {"polygamma(4, x)", 1, 0, 0},
    {"polygamma(floor(abs(y)), x)", 1, 8, 8},
    {"zeta(3, x)", 1, 0, 0},
    {"zeta(1.25, x)", 1, 0, 0},
    {"zeta(x, abs(y))", 1, 0, 0},
    {"cbrt(x)", 1, 1, 0},
    {"pow(x, -3)", 4, 4, 0},
    {"pow(x, -2)", 3, 3, 0},
    {"pow(x, -1.5)", 3, 3, 0},
    {"pow(x, -1)", 1, 1, 0},
    {"pow(x, -0.5)", 2, 2, 0},
    {"pow(x, 0)", 0, 0, 0},
    {"pow(x, 0.5)", 1, 1, 0},
    {"pow(x, 1)", 0, 0, 0},
    {"pow(x, 1.5)", 2, 2, 0},
    {"pow(x, 2)", 1, 1, 0},
    {"pow(x, 2.5)", 3, 3, 0},
    {"pow(x, 3)", 2, 2, 0},
    {"pow(x, 6)", 4, 4, 0},
    {"pow(x, 7)", 1, 2, 0},
    {"pow(x, 0.3125)", 1, 2, 0},
    {"rem(x, y)", 0, 0, 0},
    {"mod(x, y)", 1, 1, 0},
    {"reduce_precision(x, exponent=5, mantissa=10)", 0, 0, 0},
    {"reduce_precision(x, exponent=8, mantissa=7)", 0, 0, 0},
    {"reduce_precision(x, exponent=4, mantissa=3)", 0, 0, 0},
    {"reduce_precision(x, exponent=1, mantissa=1)", 0, 0, 0},
    {"reduce_precision(x, exponent=11, mantissa=5)", 0, 0, 0},
    {"abs(complex(x, y))", 1, 1, 0},
    {"real(sign(complex(x, y)))", 1, 3, 0},
    {"imag(sign(complex(x, y)))", 1, 3, 0},
    {"imag(conjugate(complex(x, y)))", 0, 0, 0},
};

enum { NUM_ROWS = sizeof rows / sizeof *rows, NUM_POINTS = 4001 }; /* the last vector is not full */

static const double specials[] = {0.0, -0.0,  INFINITY, -INFINITY,   NAN,         1,    -1,    2,     -2,   3,
                                  8,   12,    0.5,      -0.5,        0x1p-149,    1e38, -1e38, 1e-38, -3.5, 10,
                                  5,   -1e-8, 1e-42,    1 - 0x1p-24, 0x1p-24 - 1, 30,   -30,   1e20,  4,    0x1.fp5};

static double point(uint64_t *state, size_t i)
{
    enum { N = sizeof specials / sizeof *specials };
    double u = test_uniform(state), v = test_uniform(state) - 0.5;
    switch (i < N * N ? 0 : test_random(state) % 6) {
    case 0: return specials[(size_t)(u * N)];
    case 1: return 2 * v;
    case 2: return 40 * v;
    case 3: return copysign(1 - pow(10, -16 * u), v);
    case 4: return 1 + (double)(test_random(state) % 3) / 2 + v * 1e-4;
    default: return copysign(pow(10, 60 * u - 30), v);
    }
}

static double error_of(double found, double expected, bool is_f32, double least)
{
    double rounded = is_f32 ? (double)(float)expected : expected, size = fmax(fabs(expected), is_f32 ? 0 : least);
    if (isnan(found) || isnan(rounded))
        return isnan(found) && isnan(rounded) ? 0 : 1e9;
    if (isinf(found) || isinf(rounded))
        return found == rounded ? 0 : 1e9;
    if (found == 0 && rounded == 0 && signbit(found) != signbit(expected))
        return 1e9;
    double smallest = is_f32 ? 0x1p-126 : 0x1p-1022;
    return fabs(found - expected) / ldexp(1, ilogb(fmax(size, smallest)) - (is_f32 ? 23 : 52));
}

static flx_module *parse_rows(flx_context *ctx, const char *type)
{
    char text[8000];
    flx_error err = {0};
    int n = snprintf(text, sizeof text, "graph g(x: %s[%d], y: %s[%d]) { return ", type, NUM_POINTS, type, NUM_POINTS);
    for (size_t i = 0; i < NUM_ROWS; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%s", i ? ", " : "", rows[i].text);
    n += snprintf(text + n, sizeof text - (size_t)n, " }");
    flx_module *m = flx_parse(ctx, text, (size_t)n, "points", &err);
    CHECK_OK(err.code, &err);
    return m;
}

static void check_row(const point_row *row, const flx_tensor *found, const flx_tensor *expected, bool is_f32,
                      const double *x, const double *y)
{
    double worst = 0, limit = is_f32 ? row->max_f32 : row->max_f64;
    size_t at = 0;
    for (size_t i = 0; i < NUM_POINTS; i++) {
        double e =
            error_of(flx_tensor_get(found, (int64_t)i), flx_tensor_get(expected, (int64_t)i), is_f32, row->least);
        if (!(e <= worst)) {
            worst = e;
            at = i;
        }
    }
    EXPECT_MSG(worst <= limit, "%s of %s: %.3g ULP at x = %a, y = %a: %.17g instead of %.17g", row->text,
               is_f32 ? "f32" : "f64", worst, x[at], y[at], flx_tensor_get(found, (int64_t)at),
               flx_tensor_get(expected, (int64_t)at));
    test_count_case();
}

static flx_tensor *tensor_of(flx_context *ctx, const double *x, bool is_f32)
{
    static float narrow[NUM_POINTS];
    flx_error err = {0};
    for (size_t i = 0; i < NUM_POINTS; i++)
        narrow[i] = (float)x[i];
    flx_type type = {.dtype = is_f32 ? FLX_F32 : FLX_F64, .rank = 1, .dims = {NUM_POINTS}};
    flx_tensor *t = flx_tensor_new(ctx, &type, is_f32 ? (const void *)narrow : x, &err);
    CHECK_OK(err.code, &err);
    return t;
}

static void check_points(bool is_f32, uint32_t flags)
{
    static double x[NUM_POINTS], y[NUM_POINTS];
    uint64_t state = test_seed();
    for (size_t i = 0; i < NUM_POINTS; i++) {
        x[i] = is_f32 ? (double)(float)point(&state, i) : point(&state, i);
        y[i] = is_f32 ? (double)(float)point(&state, i) : point(&state, i);
    }
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *compiled = parse_rows(ctx, is_f32 ? "f32" : "f64"), *defined = parse_rows(ctx, "f64");
    flx_tensor *in[] = {tensor_of(ctx, x, is_f32), tensor_of(ctx, y, is_f32), tensor_of(ctx, x, false),
                        tensor_of(ctx, y, false)};
    flx_feed feeds[] = {{"x", in[0]}, {"y", in[1]}}, wide[] = {{"x", in[2]}, {"y", in[3]}};
    flx_tensor *found[NUM_ROWS], *expected[NUM_ROWS];
    flx_exec *e = flx_compile(flx_module_main(compiled), &(flx_compile_options){.device = "cpu", .flags = flags}, &err);
    CHECK_OK(err.code, &err);
    CHECK_OK(flx_exec_run(e, NULL, feeds, 2, found, &err), &err);
    CHECK_OK(flx_run(flx_module_main(defined), ON_REF, wide, 2, expected, &err), &err);
    for (size_t i = 0; i < NUM_ROWS; i++) {
        check_row(&rows[i], found[i], expected[i], is_f32, x, y);
        flx_tensor_release(found[i]);
        flx_tensor_release(expected[i]);
    }
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        flx_tensor_release(in[i]);
    flx_exec_free(e);
    flx_module_free(compiled);
    flx_module_free(defined);
    flx_context_free(ctx);
}

TEST(compiled_points_f32)
{
    check_points(true, 0);
}

TEST(compiled_points_f32_scalar)
{
    check_points(true, FLX_COMPILE_SCALAR);
}

TEST(compiled_points_f64)
{
    check_points(false, 0);
}

TEST(compiled_points_f64_scalar)
{
    check_points(false, FLX_COMPILE_SCALAR);
}
