/* SPDX-License-Identifier: Apache-2.0 */
/* vector_math.c: the mathematical functions on vectors against the C library in the next larger format.

   f32: one bit pattern in vector_stride (an effort), starting at vector_first; f64: random numbers and special cases.
   The permitted errors in units of the last place are those that docs/performance.md states. The effort report=1 prints
   the measured errors. */
#include "emit/vector_pair.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const char *name;
    double (*near)(double);
    long double (*far)(long double);
    double max_f32, max_f64; /* ULP */
} function;

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static long double sigmoid_l(long double x)
{
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}

static double rsqrt(double x)
{
    return 1 / sqrt(x);
}

static long double rsqrt_l(long double x)
{
    return 1 / sqrtl(x);
}

static const function functions[] = {
    {"exp", exp, expl, 1.1, 1.3},   {"exp2", exp2, exp2l, 1.2, 1.5},     {"expm1", expm1, expm1l, 2, 2},
    {"log", log, logl, 1, 1},       {"log2", log2, log2l, 2, 2},         {"log10", log10, log10l, 2, 2},
    {"log1p", log1p, log1pl, 2, 2}, {"sin", sin, sinl, 1.6, 1.7},        {"cos", cos, cosl, 1.6, 1.7},
    {"tan", tan, tanl, 4, 4},       {"tanh", tanh, tanhl, 2, 2},         {"sigmoid", sigmoid, sigmoid_l, 2.5, 2.5},
    {"erf", erf, erfl, 1.2, 1.2},   {"erfc", erfc, erfcl, 4, 4},         {"sinh", sinh, sinhl, 3, 3},
    {"cosh", cosh, coshl, 3, 3},    {"asin", asin, asinl, 3, 3},         {"acos", acos, acosl, 3, 3},
    {"atan", atan, atanl, 3, 3},    {"asinh", asinh, asinhl, 3, 3},      {"acosh", acosh, acoshl, 3, 3},
    {"atanh", atanh, atanhl, 3, 3}, {"rsqrt", rsqrt, rsqrt_l, 1.5, 1.5},
};

enum { NUM_FUNCTIONS = sizeof functions / sizeof *functions, BLOCK = 4096 };

static double ulp_f32(double x)
{
    float r = (float)fabs(x);
    if (isinf(r))
        r = 3.4e38f;
    return !(r >= 0x1p-126f) ? 0x1p-149 : ldexp(1, ilogbf(r) - 23);
}

static long double ulp_f64(long double x)
{
    double r = (double)fabsl(x);
    if (isinf(r))
        r = 1.7e308;
    return !(r >= 0x1p-1022) ? 0x1p-1074L : ldexpl(1, ilogb(r) - 52);
}

/* The error of a result; a NaN, infinity or zero where there should be none, or of the wrong sign, is 1e9. */
static double error_of(long double found, long double expected, long double ulp, bool overflows)
{
    if (isnan(expected) || isnan(found))
        return isnan(expected) && isnan(found) ? 0 : 1e9;
    if (isinf(expected) || (isinf(found) && !overflows))
        return expected == found ? 0 : 1e9;
    if (isinf(found))
        return (found > 0) == (expected > 0) ? 0 : 1e9;
    if (expected == 0 && (found != 0 || signbit(found) != signbit(expected)))
        return 1e9;
    return (double)(fabsl(found - expected) / ulp);
}

static flx_kernel *make_kernel(const char *name, const char *type)
{
    char text[400];
    snprintf(text, sizeof text,
             "kernel f(workgroup = [64, 1, 1]) { buffer x: %s[] read; buffer out: %s[] output;"
             " let i = invocation_id(0); if (i < buf_len(out)) { out[i] = %s(x[i]); } }",
             type, type, name);
    return flk(text);
}

static void run(const flx_kernel *k, void *x, void *out, size_t size, uint32_t count)
{
    flx_error err = {0};
    const uint32_t grid[3] = {(count + 63) / 64, 1, 1};
    flx_kernel_memory m[] = {{"x", x, count * size}, {"out", out, count * size}};
    CHECK_OK(vector_run(k, grid, m, 2, 0, &err), &err);
}

static void report(const char *name, const char *type, double worst, double at, double limit)
{
    if (effort(EFFORT_report))
        printf("%-8s %s %.2f ULP at %a\n", name, type, worst, at);
    EXPECT_MSG(worst <= limit, "%s of %s: %.3g ULP at %a, at most %.3g are allowed", name, type, worst, at, limit);
    test_count_case();
}

static void check_f32(const flx_kernel *k, const function *f, uint32_t stride)
{
    static float x[BLOCK], out[BLOCK];
    double worst = 0, at = 0;
    int64_t first = effort(EFFORT_vector_first);
    uint64_t bits = first >= 0 ? (uint64_t)first : test_seed() % stride; /* another seed tests other patterns */
    while (bits <= UINT32_MAX) {
        uint32_t n = 0;
        for (; n < BLOCK && bits <= UINT32_MAX; n++, bits += stride)
            memcpy(&x[n], &(uint32_t){(uint32_t)bits}, 4);
        run(k, x, out, 4, n);
        for (uint32_t i = 0; i < n; i++) {
            double y = f->near((double)x[i]);
            float rounded = (float)y;
            if (memcmp(&rounded, &out[i], sizeof rounded) == 0)
                continue; /* correctly rounded, as most are */
            double e = error_of(out[i], y, ulp_f32(y), fabs(y) > 3.4028235e38);
            if (!(e <= worst)) {
                worst = e;
                at = x[i];
            }
        }
    }
    report(f->name, "f32", worst, at, f->max_f32);
}

static double random_f64(uint64_t *state, size_t i)
{
    static const double specials[] = {0.0,    -0.0,      INFINITY,   -INFINITY, NAN,     1,        -1,     0.5,
                                      -0.5,   0x1p-1074, -0x1p-1074, 0x1p-1022, 1.7e308, -1.7e308, 709.78, 709.8,
                                      -745.1, -745.2,    -708.4,     0.625,     -0.625,  1e-300,   1e-17,  -1e-17,
                                      1e6,    1.1e6,     1e22,       0.75,      1.25,    -0.75,    M_PI,   M_PI_2,
                                      6,      -6,        1024,       -1075};
    if (i < sizeof specials / sizeof *specials)
        return specials[i];
    uint64_t r = test_random(state);
    double u = test_uniform(state);
    switch (r % 5) {
    case 0: return (u - 0.5) * 2;
    case 1: return (u - 0.5) * 20;
    case 2: return (u - 0.5) * 1500;
    case 3: return (u - 0.5) * ldexp(1, (int)(r >> 8 & 63) - 43);
    default: memcpy(&u, &r, 8); return u;
    }
}

static void check_f64(const flx_kernel *k, const function *f, size_t blocks)
{
    static double x[BLOCK], out[BLOCK];
    double worst = 0, at = 0;
    uint64_t state = test_seed();
    for (size_t b = 0; b < blocks; b++) {
        for (size_t i = 0; i < BLOCK; i++)
            x[i] = random_f64(&state, b ? 1000 : i);
        run(k, x, out, 8, BLOCK);
        for (size_t i = 0; i < BLOCK; i++) {
            long double y = f->far((long double)x[i]);
            double e = error_of(out[i], y, ulp_f64(y), fabsl(y) > 1.7976931348623157e308L);
            if (!(e <= worst)) {
                worst = e;
                at = x[i];
            }
        }
    }
    report(f->name, "f64", worst, at, f->max_f64);
}

/* ---- Two operands ---- */

static double pow_1(double x, double y)
{
    return y == 0 || x == 1 ? 1 : pow(x, y);
}

static long double pow_l(long double x, long double y)
{
    return y == 0 || x == 1 ? 1 : powl(x, y);
}

typedef struct {
    const char *text, *type;
    double (*near)(double, double);
    long double (*far)(long double, long double);
    double max;
} pair_function;

static const pair_function pairs[] = {
    {"pow(x[i], y[i])", "f32", pow_1, NULL, 0.6},   {"pow(x[i], y[i])", "f64", NULL, pow_l, 2.5},
    {"hypot(x[i], y[i])", "f32", hypot, NULL, 1},   {"hypot(x[i], y[i])", "f64", NULL, hypotl, 1},
    {"x[i] % y[i]", "f32", fmod, NULL, 0},          {"x[i] % y[i]", "f64", NULL, fmodl, 0},
    {"atan2(x[i], y[i])", "f32", atan2, NULL, 2.5}, {"atan2(x[i], y[i])", "f64", NULL, atan2l, 2.5},
};

enum { NUM_PAIRS = sizeof pairs / sizeof *pairs };

static double pair_number(uint64_t *state, size_t i)
{
    static const double specials[] = {0.0,   -0.0,     INFINITY, -INFINITY, NAN, 1,         -1,     0.5,
                                      -0.5,  2,        -2,       3,         -3,  1e-30,     -1e-42, 1e30,
                                      -1e30, 16777217, 1e-45,    2.5,       -7,  1048576.5, 1e200,  -1e-250};
    enum { N = sizeof specials / sizeof *specials };
    double u = test_uniform(state) - 0.5;
    uint64_t r = test_random(state);
    return i < N        ? specials[i]
           : r % 3 == 0 ? u * 8
           : r % 3 == 1 ? rint(u * 40)
                        : u * ldexp(1, (int)(r >> 8 & 127) - 63);
}

static void check_pair(const flx_kernel *k, const pair_function *f)
{
    enum { N = 24 };
    static double x[BLOCK], y[BLOCK], out[BLOCK];
    static float nx[BLOCK], ny[BLOCK], nout[BLOCK];
    bool is_f32 = f->near != NULL;
    double worst = 0, at_x = 0, at_y = 0;
    uint64_t state = test_seed();
    for (size_t b = 0; b < 40; b++) {
        for (size_t i = 0; i < BLOCK; i++) {
            bool special = b == 0 && i < N * N;
            x[i] = pair_number(&state, special ? i % N : 1000);
            y[i] = pair_number(&state, special ? i / N : 1000);
            x[i] = is_f32 ? (double)(nx[i] = (float)x[i]) : x[i];
            y[i] = is_f32 ? (double)(ny[i] = (float)y[i]) : y[i];
        }
        flx_error err = {0};
        size_t size = is_f32 ? 4 : 8;
        flx_kernel_memory m[] = {{"x", is_f32 ? (void *)nx : x, BLOCK * size},
                                 {"y", is_f32 ? (void *)ny : y, BLOCK * size},
                                 {"out", is_f32 ? (void *)nout : out, BLOCK * size}};
        CHECK_OK(vector_run(k, (const uint32_t[]){BLOCK / 64, 1, 1}, m, 3, 0, &err), &err);
        for (size_t i = 0; i < BLOCK; i++) {
            long double expected = is_f32 ? (long double)f->near(x[i], y[i]) : f->far(x[i], y[i]);
            long double ulp = is_f32 ? (long double)ulp_f32((double)expected) : ulp_f64(expected);
            double e = error_of(is_f32 ? (long double)nout[i] : out[i], expected, ulp,
                                fabsl(expected) > (is_f32 ? 3.4028235e38L : 1.7976931348623157e308L));
            if (!(e <= worst)) {
                worst = e;
                at_x = x[i];
                at_y = y[i];
            }
        }
    }
    if (effort(EFFORT_report))
        printf("%-18s %s %.2f ULP at %a, %a\n", f->text, f->type, worst, at_x, at_y);
    EXPECT_MSG(worst <= f->max, "%s of %s: %.3g ULP at %a, %a", f->text, f->type, worst, at_x, at_y);
}

TEST(vector_math_functions_of_two)
{
    flx_kernel *k[NUM_PAIRS];
    for (size_t i = 0; i < NUM_PAIRS; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "kernel f(workgroup = [64, 1, 1]) { buffer x: %s[] read; buffer y: %s[] read; buffer out: %s[] output;"
                 " let i = invocation_id(0); out[i] = %s; }",
                 pairs[i].type, pairs[i].type, pairs[i].type, pairs[i].text);
        k[i] = flk(text);
    }
    CHECK(vector_prepare(k, NUM_PAIRS, NULL) == NUM_PAIRS);
    for (size_t i = 0; i < NUM_PAIRS; i++)
        check_pair(k[i], &pairs[i]);
    vector_forget();
    for (size_t i = 0; i < NUM_PAIRS; i++)
        flx_kernel_release(k[i]);
}

TEST(vector_math_f32_functions)
{
    flx_kernel *k[NUM_FUNCTIONS];
    for (size_t i = 0; i < NUM_FUNCTIONS; i++)
        k[i] = make_kernel(functions[i].name, "f32");
    CHECK(vector_prepare(k, NUM_FUNCTIONS, NULL) == NUM_FUNCTIONS);
    for (size_t i = 0; i < NUM_FUNCTIONS; i++)
        check_f32(k[i], &functions[i], (uint32_t)effort(EFFORT_vector_stride));
    vector_forget();
    for (size_t i = 0; i < NUM_FUNCTIONS; i++)
        flx_kernel_release(k[i]);
}

TEST(vector_math_f64_functions)
{
    flx_kernel *k[NUM_FUNCTIONS];
    for (size_t i = 0; i < NUM_FUNCTIONS; i++)
        k[i] = make_kernel(functions[i].name, "f64");
    CHECK(vector_prepare(k, NUM_FUNCTIONS, NULL) == NUM_FUNCTIONS);
    for (size_t i = 0; i < NUM_FUNCTIONS; i++)
        check_f64(k[i], &functions[i], (size_t)effort(EFFORT_vector_blocks));
    vector_forget();
    for (size_t i = 0; i < NUM_FUNCTIONS; i++)
        flx_kernel_release(k[i]);
}

/* ---- The same bits in every way ---- */

static const struct {
    const char *compiler, *level;
    unsigned bytes;
} ways[] = {{"gcc", "-O0", 32}, {"gcc", "-O3", 64}, {"clang", "-O0", 16}, {"clang", "-O1", 32}, {"clang", "-O3", 64}};

/* Results for one pattern in a million, with all NaNs equal. */
static void sample(const flx_kernel *k, uint32_t *bits)
{
    static float x[BLOCK], out[BLOCK];
    for (uint32_t i = 0; i < BLOCK; i++)
        memcpy(&x[i], &(uint32_t){i * 1048573u}, 4);
    run(k, x, out, 4, BLOCK);
    memcpy(bits, out, sizeof out);
    for (size_t i = 0; i < BLOCK; i++)
        bits[i] = isnan(out[i]) ? 0x7fc00000u : bits[i];
}

TEST(vector_math_has_the_same_bits_in_every_way)
{
    static uint32_t expected[NUM_FUNCTIONS][BLOCK], found[BLOCK];
    flx_kernel *k[NUM_FUNCTIONS];
    for (size_t i = 0; i < NUM_FUNCTIONS; i++)
        k[i] = make_kernel(functions[i].name, "f32");
    vector_prepare(k, NUM_FUNCTIONS, NULL);
    for (size_t i = 0; i < NUM_FUNCTIONS; i++)
        sample(k[i], expected[i]);
    vector_forget();
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        if (!test_has_program(ways[w].compiler))
            continue;
        vector_compiler = ways[w].compiler;
        vector_level = ways[w].level;
        vector_prepare(k, NUM_FUNCTIONS, &(flxi_vector_options){.bytes = ways[w].bytes});
        for (size_t i = 0; i < NUM_FUNCTIONS; i++) {
            sample(k[i], found);
            EXPECT_MSG(memcmp(found, expected[i], sizeof found) == 0, "%s differs with %s %s in vectors of %u bytes",
                       functions[i].name, ways[w].compiler, ways[w].level, ways[w].bytes);
        }
        vector_forget();
    }
    vector_compiler = "cc";
    vector_level = "-O2";
    for (size_t i = 0; i < NUM_FUNCTIONS; i++)
        flx_kernel_release(k[i]);
}
