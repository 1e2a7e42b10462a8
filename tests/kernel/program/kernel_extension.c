/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_extension.c: operations that a program adds to kernels, through every part that must support them. */
#include "fault.h"
#include "kernel/derive/kernel_case.h"

#include "kernel/check/kernel_validate.h"

#include <stdio.h>
#include <stdlib.h>

enum { CUBE = 0x1001, POWER = 0x1002, SLOPE = 0x1003, TICK = 0x1004, NOTE = 0x1005 };

/* ---- The extensions ---- */

static double value_of(uint32_t type, uint64_t bits)
{
    double d;
    float f;
    uint32_t low = (uint32_t)bits;
    memcpy(&d, &bits, sizeof d);
    memcpy(&f, &low, sizeof f);
    return type == FLX_F64 ? d : (double)f;
}

static uint64_t bits_of(uint32_t type, double value)
{
    uint64_t bits;
    uint32_t low;
    float f = (float)value;
    memcpy(&bits, &value, sizeof bits);
    memcpy(&low, &f, sizeof low);
    return type == FLX_F64 ? bits : low;
}

/* f32 or f64, the same for all operands. */
static uint32_t same_float(void *user, const uint32_t *types, size_t n)
{
    (void)user;
    for (size_t i = 1; i < n; i++)
        if (types[i] != types[0])
            return 0;
    return types[0] == FLX_F32 || types[0] == FLX_F64 ? types[0] : 0;
}

static uint32_t of_u32(void *user, const uint32_t *types, size_t n)
{
    (void)user;
    return n == 1 && types[0] == FLX_U32 ? FLX_U32 : 0;
}

static uint64_t cube(void *user, const void *payload, size_t size, const uint32_t *types, const uint64_t *args,
                     size_t n)
{
    (void)user;
    (void)payload;
    CHECK(size == 0 && n == 2);
    double x = value_of(types[0], args[0]), y = value_of(types[1], args[1]);
    if (types[0] == FLX_F64)
        return bits_of(FLX_F64, x * x * x * y);
    float xf = (float)x, square = xf * xf, third = square * xf, product = third * (float)y;
    return bits_of(FLX_F32, (double)product);
}

/* x to the power of the payload's only byte, plus `more`, times it: more is 0 for the power, -1 for its slope. */
static double raise(double x, int n, int more)
{
    double p = more ? n : 1;
    for (int i = 0; i < n + more; i++)
        p *= x;
    return p;
}

static uint64_t power(void *user, const void *payload, size_t size, const uint32_t *types, const uint64_t *args,
                      size_t n)
{
    CHECK(size == 1 && n == 1);
    int exponent = *(const unsigned char *)payload, more = user ? -1 : 0;
    return bits_of(types[0], raise(value_of(types[0], args[0]), exponent, more));
}

static int32_t one_byte(void *user, const void *payload, size_t size, char *why, size_t room)
{
    (void)user;
    (void)payload;
    if (size == 1)
        return 0;
    snprintf(why, room, "it has %zu bytes, not one", size);
    return 1;
}

static int ticks;

static uint64_t tick(void *user, const void *payload, size_t size, const uint32_t *types, const uint64_t *args,
                     size_t n)
{
    (void)payload;
    (void)size;
    (void)types;
    ++*(int *)user;
    return n ? args[0] + 1 : 0;
}

static int slope_mark;

static const flx_kernel_extension extensions[] = {
    {.struct_size = sizeof(flx_kernel_extension),
     .name = "test.cube",
     .fingerprint = 7,
     .id = CUBE,
     .num_args = 2,
     .type = same_float,
     .evaluate = cube,
     .c = {"$0 * $0 * $0 * $1", NULL},
     .cuda = {"cube<$T>($0, $1)", "template <class T> __device__ T cube(T x, T y) { return x * x * x * y; }"},
     .derivative = "fn three(a: $T) -> $G { return 3.0 * a; }\n"
                   "adjoint self[0](a: $T, b: $T, z: $T, g: $G) -> $G { return g * (three(a) * a * b); }\n"
                   "adjoint self.x1(a: $T, b: $T, z: $T, g: $G) -> $G { return g * (a * a * a); }\n"},
    {.name = "test.power",
     .fingerprint = 8,
     .id = POWER,
     .num_args = 1,
     .type = same_float,
     .check = one_byte,
     .evaluate = power,
     .c = {"($T)test_power($0, $P)",
           "static double test_power(double x, int n) { double p = 1; while (n-- > 0) p *= x; return p; }"},
     .cuda = {"($T)test_power($0, $P)", "__device__ double test_power(double x, int n)\n"
                                        "{ double p = 1; while (n-- > 0) p *= x; return p; }"},
     .derivative = "adjoint self[0](a: $T, z: $T, g: $G) -> $G { return g * opaque<$T>(0x1003, $P, a); }"},
    {.name = "test.slope",
     .fingerprint = 9,
     .id = SLOPE,
     .num_args = 1,
     .user = &slope_mark,
     .type = same_float,
     .check = one_byte,
     .evaluate = power,
     .c = {"($T)test_slope($0, $P)",
           "static double test_slope(double x, int n) { double p = n; while (--n > 0) p *= x; return p; }"},
     .cuda = {"($T)test_slope($0, $P)", "__device__ double test_slope(double x, int n)\n"
                                        "{ double p = n; while (--n > 0) p *= x; return p; }"}},
    {.name = "test.tick",
     .flags = FLX_KERNEL_EXTENSION_IMPURE,
     .fingerprint = 10,
     .id = TICK,
     .num_args = 1,
     .user = &ticks,
     .type = of_u32,
     .evaluate = tick,
     .c = {"test_tick($0)", "static k_u32 test_tick(k_u32 x) { static k_u32 n; return x + ++n; }"}},
    {.name = "test.note",
     .flags = FLX_KERNEL_EXTENSION_STATEMENT,
     .fingerprint = 11,
     .id = NOTE,
     .user = &ticks,
     .evaluate = tick,
     .c = {"(void)sizeof(\"costs $$1\")", NULL}},
};

static void add_extensions(flx_context *ctx)
{
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++) {
        flx_error err = {0};
        CHECK_OK(flx_kernel_register_extension(ctx, &extensions[i], &err), &err);
    }
}

static flx_context *extended(void)
{
    flx_context *ctx = flx_context_new(NULL);
    CHECK(ctx != NULL);
    add_extensions(ctx);
    return ctx;
}

/* The context of kernel cases is shared: register them only the first time. */
static void extend_case(flx_context *ctx)
{
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++) {
        flx_error err = {0};
        flx_code code = flx_kernel_register_extension(ctx, &extensions[i], &err);
        CHECK_MSG(code == FLX_OK || code == FLX_E_DUP_NAME, "%s", err.message);
    }
}

/* ---- Registering ---- */

TEST(kernel_extension_registered_twice_is_a_duplicate)
{
    flx_context *ctx = extended(), *other = flx_context_new(NULL);
    flx_error err = {0};
    flx_kernel_extension x = extensions[0];
    CHECK_CODE(flx_kernel_register_extension(ctx, &x, &err), FLX_E_DUP_NAME, &err);
    CHECK_EQ_STR(err.message, "an extension 'test.cube' is already registered");
    x.name = "test.other";
    CHECK_CODE(flx_kernel_register_extension(ctx, &x, &err), FLX_E_DUP_NAME, &err);
    CHECK_EQ_STR(err.message, "extension 'test.cube' already has the number 0x1001");
    CHECK_OK(flx_kernel_register_extension(other, &x, &err), &err);
    flx_context_free(other);
    flx_context_free(ctx);
}

TEST(kernel_extension_that_is_not_whole_is_refused)
{
    static const struct {
        const char *message;
        flx_kernel_extension x;
    } rows[] = {
        {"an extension needs a name, an id and a fingerprint", {.name = "", .id = 1, .fingerprint = 1}},
        {"an extension needs a name, an id and a fingerprint", {.name = "e", .id = 0, .fingerprint = 1}},
        {"an extension needs a name, an id and a fingerprint", {.name = "e", .id = 1}},
        {"flx_kernel_extension: struct_size is 9, which is not the size of any version of this struct",
         {.struct_size = 9, .name = "e", .id = 1, .fingerprint = 1}},
        {"extension 'e' has unknown flags", {.name = "e", .id = 1, .fingerprint = 1, .flags = 64}},
        {"extension 'e' lacks a type rule or an evaluator", {.name = "e", .id = 1, .fingerprint = 1, .evaluate = cube}},
        {"extension 'e' is a statement: it has no operands, type or derivative",
         {.name = "e", .id = 1, .fingerprint = 1, .flags = FLX_KERNEL_EXTENSION_STATEMENT, .type = of_u32}},
        {"extension 'e' has 17 operands, at most 16 are allowed",
         {.name = "e", .id = 1, .fingerprint = 1, .type = of_u32, .evaluate = cube, .num_args = 17}},
        {"extension 'e' is impure: it cannot have a derivative",
         {.name = "e", .id = 1, .fingerprint = 1, .flags = 1, .type = of_u32, .evaluate = cube, .derivative = ""}},
        {"extension 'e': its text for cuda refers to an operand that it does not have",
         {.name = "e",
          .id = 1,
          .fingerprint = 1,
          .type = of_u32,
          .evaluate = cube,
          .num_args = 2,
          .cuda = {"$1 $2", NULL}}},
        {"extension 'e': its text for c refers to an operand that it does not have",
         {.name = "e", .id = 1, .fingerprint = 1, .type = of_u32, .evaluate = cube, .c = {"x$", NULL}}},
    };
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        CHECK_CODE(flx_kernel_register_extension(ctx, &rows[i].x, &err), FLX_E_USAGE, &err);
        CHECK_EQ_STR(err.message, rows[i].message);
    }
    flx_error err = {0};
    CHECK_CODE(flx_kernel_register_extension(ctx, NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_kernel_register_extension(NULL, &extensions[0], &err), FLX_E_USAGE, &err);
    flx_context_free(ctx);
}

/* ---- Text, validation ---- */

TEST(kernel_extension_text_reads_back)
{
    flx_context *ctx = extended();
    flx_kernel *k = flk_in(ctx, "kernel k(workgroup = [1, 1, 1]) {\n"
                                "  buffer x: f32[4] read @0;\n"
                                "  buffer out: f32[4] output @1;\n"
                                "  opaque(0x1005, \"00ff\");\n"
                                "  opaque(\"test.note\", \"\", 0xb, impure);\n"
                                "  let a = opaque<f32>(\"test.cube\", \"\", 7, pure, x[0], 2.0);\n"
                                "  out[0] = opaque<f32>(4097, \"\", a, 0.5) + opaque<f32>(0x1002, \"03\", a);\n"
                                "}\n");
    flx_buffer text = flk_text(k);
    CHECK(strstr(text.data, "  opaque(0x1005, \"00ff\");\n  opaque(\"test.note\", \"\", 0xb, impure);\n"));
    CHECK(strstr(text.data, "opaque<f32>(\"test.cube\", \"\", 0x7, pure, x[0], 2.0)"));
    CHECK(strstr(text.data, "opaque<f32>(0x1001, \"\", a, 0.5) + opaque<f32>(0x1002, \"03\", a)"));
    flx_kernel *again = flk_in(ctx, text.data);
    flx_buffer second = flk_text(again);
    CHECK_EQ_STR(second.data, text.data);
    flx_buffer_free(&second);
    flx_buffer_free(&text);
    flx_kernel_release(again);
    flx_kernel_release(k);
    flx_context_free(ctx);
}

TEST(kernel_extension_uses_are_checked)
{
    static const char *const rows[][2] = {
        {"out[0] = opaque<f32>(0x77, \"\", x[0]);", "K60 there is no extension 0x77"},
        {"out[0] = opaque<f32>(0x1001, \"\", x[0]);", "K61 extension 'test.cube' takes 2 operands, got 1"},
        {"out[0] = opaque<f32>(0x1001, \"\", x[0], 1u32);",
         "K62 extension 'test.cube' does not take operands of these types, the first is f32"},
        {"let a = opaque<f64>(0x1001, \"\", x[0], x[1]);", "K64 extension 'test.cube' returns f32, not f64"},
        {"out[0] = opaque<f32>(\"test.cube\", \"\", 6, pure, x[0], x[1]);",
         "K64 extension 'test.cube' has fingerprint 0x6 here, but 0x7 is registered"},
        {"out[0] = opaque<f32>(\"test.cube\", \"\", 7, impure, x[0], x[1]);", "K64 extension 'test.cube' is pure"},
        {"out[0] = opaque<f32>(0x1002, \"0102\", x[0]);",
         "K64 extension 'test.power' rejects its payload: it has 2 bytes, not one"},
        {"opaque(0x1001, \"\");", "K64 extension 'test.cube' is an expression, not a statement"},
        {"opaque(\"test.cube\", \"\");", "K64 extension 'test.cube' is an expression, not a statement"},
        {"out[0] = opaque<f32>(0x1005, \"\");", "K64 extension 'test.note' is a statement, not an expression"},
    };
    flx_context *ctx = extended();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[300];
        flx_error err = {0};
        snprintf(text, sizeof text, "kernel k() { buffer x: f32[4] read; buffer out: f32[4] output; %s }", rows[i][0]);
        CHECK_MSG(!flx_kernel_parse(ctx, text, strlen(text), "t", &err), "%s", rows[i][0]);
        CHECK_EQ_STR(err.message, rows[i][1]);
        CHECK(err.hint[0] && strncmp(err.where, "t:1:", 4) == 0);
    }
    flx_context_free(ctx);
}

/* A function is pure, and so are extensions in it. */
TEST(kernel_extension_that_is_impure_has_no_place_in_a_function)
{
    flx_context *ctx = extended();
    flx_error err = {0};
    const char *text = "kernel k() { fn f(a: u32) -> u32 { return opaque<u32>(0x1004, \"\", a); } let b = f(1); }";
    CHECK(!flx_kernel_parse(ctx, text, strlen(text), "t", &err));
    CHECK_EQ_STR(err.message, "K64 function 'f' is not pure: an impure extension");
    flx_context_free(ctx);
}

/* ---- Running ---- */

static const char *const cube_text = "kernel k(workgroup = [2, 1, 1]) {\n"
                                     "  buffer x: f32[4] read @0;\n"
                                     "  buffer out: f32[4] output @1;\n"
                                     "  fn inner(a: f32) -> f32 { return opaque<f32>(0x1002, \"02\", a); }\n"
                                     "  let i = invocation_id(0);\n"
                                     "  out[i] = opaque<f32>(\"test.cube\", \"\", 7, pure, x[i], inner(x[i]) + 1.0);\n"
                                     "}\n";

TEST(kernel_extension_runs_the_same_interpreted_compiled_and_optimised)
{
    static const char *const devices[] = {"ref", "cpu"};
    flx_context *ctx = extended();
    flx_error err = {0};
    flx_kernel *plain = flk_in(ctx, cube_text), *fast = flx_kernel_optimise(plain, NULL, &err);
    CHECK_MSG(fast != NULL, "%s", err.message);
    for (int n = 0; n < 4; n++) {
        float x[] = {0.1f, -2, 3, 0.7f}, out[4] = {0};
        flx_kernel_memory memory[] = {{"x", x, sizeof x}, {"out", out, sizeof out}};
        flx_kernel_run_options options = {.struct_size = sizeof options, .device = devices[n / 2]};
        CHECK_OK(flx_kernel_run(n % 2 ? fast : plain, (const uint32_t[3]){2, 1, 1}, memory, 2, &options, &err), &err);
        for (int i = 0; i < 4; i++) {
            float square = (float)((double)x[i] * (double)x[i]), expected = x[i] * x[i] * x[i] * (square + 1.0f);
            CHECK(memcmp(&out[i], &expected, sizeof expected) == 0);
        }
    }
    flx_kernel_release(fast);
    flx_kernel_release(plain);
    flx_context_free(ctx);
}

/* A pure one is computed once where that is enough, outside of the loop, and not at all if its result is unused. */
TEST(kernel_extension_that_is_pure_is_shared_moved_and_dropped)
{
    flx_context *ctx = extended();
    flx_error err = {0};
    flx_kernel *k = flk_in(ctx, "kernel k() {\n"
                                "  buffer x: f32[2] read;\n"
                                "  buffer out: f32[64] output;\n"
                                "  let unused = opaque<f32>(0x1002, \"05\", x[1]);\n"
                                "  for (i in 0..64) {\n"
                                "    let a = opaque<f32>(0x1001, \"\", x[0], x[1]);\n"
                                "    out[i] = a + cast<f32>(i) * opaque<f32>(0x1001, \"\", x[0], x[1]);\n"
                                "  }\n"
                                "}\n");
    flx_kernel *fast = flx_kernel_optimise(k, NULL, &err);
    CHECK_MSG(fast != NULL, "%s", err.message);
    flx_buffer text = flk_text(fast);
    const char *first = strstr(text.data, "opaque<"), *loop = strstr(text.data, "for (");
    CHECK_MSG(first && loop && first < loop && !strstr(first + 1, "opaque<"), "%s", text.data);
    flx_buffer_free(&text);
    flx_kernel_release(fast);
    flx_kernel_release(k);
    flx_context_free(ctx);
}

TEST(kernel_extension_that_is_impure_runs_once_per_evaluation)
{
    flx_context *ctx = extended();
    flx_error err = {0};
    flx_kernel *k =
        flk_in(ctx, "kernel k() {\n"
                    "  buffer out: u32[4] output;\n"
                    "  let unused = opaque<u32>(0x1004, \"\", 1);\n"
                    "  opaque(0x1005, \"\");\n"
                    "  for (i in 0..3) { out[i] = opaque<u32>(0x1004, \"\", 5) - opaque<u32>(0x1004, \"\", 5); }\n"
                    "}\n");
    flx_kernel *fast = flx_kernel_optimise(k, NULL, &err);
    CHECK_MSG(fast != NULL, "%s", err.message);
    for (int n = 0; n < 2; n++) {
        uint32_t out[4] = {9, 9, 9, 9};
        flx_kernel_memory memory = {"out", out, sizeof out};
        ticks = 0;
        CHECK_OK(flx_kernel_run(n ? fast : k, (const uint32_t[3]){1, 1, 1}, &memory, 1, NULL, &err), &err);
        CHECK_EQ_I64(ticks, 1 + 1 + 6);
        CHECK(out[0] == 0 && out[2] == 0);
    }
    uint32_t out[4] = {0};
    flx_kernel_memory memory = {"out", out, sizeof out};
    flx_kernel_run_options options = {.struct_size = sizeof options, .device = "cpu"};
    CHECK_OK(flx_kernel_run(fast, (const uint32_t[3]){1, 1, 1}, &memory, 1, &options, &err), &err);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_U64(out[i], UINT32_MAX); /* 5 + n - (5 + n + 1), left operand first */
    flx_kernel_release(fast);
    flx_kernel_release(k);
    flx_context_free(ctx);
}

static uint64_t all_bits(void *user, const void *payload, size_t size, const uint32_t *types, const uint64_t *args,
                         size_t n)
{
    (void)user;
    (void)payload;
    (void)size;
    (void)types;
    (void)args;
    (void)n;
    return UINT64_MAX;
}

static uint32_t payload_free_type(void *user, const uint32_t *types, size_t n)
{
    (void)types;
    (void)n;
    return *(const uint32_t *)user;
}

/* Whatever an evaluator returns, the value is normalised to its type. */
TEST(kernel_extension_results_are_put_right)
{
    static const struct {
        uint32_t type;
        const char *name;
        uint64_t expected;
    } rows[] = {{FLX_F32, "f32", 0x7fc00000}, {FLX_F64, "f64", UINT64_C(0x7ff8000000000000)},
                {FLX_F16, "f16", 0x7e00},     {FLX_BF16, "bf16", 0x7fc0},
                {FLX_U8, "u8", 0xff},         {FLX_I32, "i32", 0xffffffff},
                {FLX_BOOL, "bool", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_context *ctx = flx_context_new(NULL);
        flx_error err = {0};
        flx_kernel_extension x = {
            .name = "ones", .fingerprint = 1, .id = 1, .type = payload_free_type, .evaluate = all_bits};
        uint32_t type = rows[i].type;
        uint64_t out[2] = {0};
        char text[200];
        x.user = &type;
        CHECK_OK(flx_kernel_register_extension(ctx, &x, &err), &err);
        snprintf(text, sizeof text, "kernel k() { buffer out: %s[1] output; out[0] = opaque<%s>(1, \"\"); }",
                 rows[i].name, rows[i].name);
        flx_kernel *k = flk_in(ctx, text), *folded = flx_kernel_optimise(k, "fold", &err);
        CHECK_MSG(folded != NULL, "%s", err.message);
        flx_buffer shown = flk_text(folded);
        CHECK(!strstr(shown.data, "opaque")); /* it has only literal operands */
        for (int n = 0; n < 2; n++) {
            size_t width = type == FLX_F64 ? 8 : type == FLX_U8 ? 1 : type == FLX_F16 || type == FLX_BF16 ? 2 : 4;
            flx_kernel_memory memory = {"out", out, width};
            out[0] = 0;
            CHECK_OK(flx_kernel_run(n ? folded : k, (const uint32_t[3]){1, 1, 1}, &memory, 1, NULL, &err), &err);
            CHECK_EQ_U64(out[0], rows[i].expected);
        }
        flx_buffer_free(&shown);
        flx_kernel_release(folded);
        flx_kernel_release(k);
        flx_context_free(ctx);
    }
}

TEST(kernel_extension_that_is_unknown_is_carried_but_not_run)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_kernel *k =
        flk_in(ctx, "kernel k() { buffer out: f32[1] output; out[0] = opaque<f32>(\"far\", \"\", 1, pure); }");
    float out;
    flx_kernel_memory memory = {"out", &out, sizeof out};
    flx_buffer text = {0};
    CHECK_CODE(flx_kernel_run(k, (const uint32_t[3]){1, 1, 1}, &memory, 1, NULL, &err), FLX_E_KERNEL, &err);
    CHECK_EQ_STR(err.message, "K64 kernel 'k': extension 'far' is not registered");
    CHECK_CODE(flx_kernel_emit(k, "c", &text, &err), FLX_E_KERNEL, &err);
    CHECK_EQ_STR(err.message, "K64 extension 'far' is not registered");
    flx_kernel_release(k);
    flx_context_free(ctx);
}

/* ---- Emitting ---- */

TEST(kernel_extension_is_spelled_for_each_target)
{
    flx_context *ctx = extended();
    flx_error err = {0};
    flx_kernel *k = flk_in(ctx, "kernel k() { buffer x: f32[2] read; buffer out: f32[2] output;\n"
                                "  let a = opaque<f32>(0x1001, \"\", x[0], x[1]);\n"
                                "  out[0] = opaque<f32>(0x1001, \"\", a, x[1] + 1.0); }\n");
    flx_buffer text = {0};
    CHECK_OK(flx_kernel_emit(k, "cuda", &text, &err), &err);
    const char *prelude = strstr(text.data, "template <class T> __device__ T cube(T x, T y)");
    CHECK(prelude && !strstr(prelude + 1, "template"));
    CHECK(strstr(prelude, "cube<k_f32>((") != NULL);
    flx_buffer_free(&text);
    CHECK_CODE(flx_kernel_emit(k, "opencl", &text, &err), FLX_E_KERNEL, &err);
    CHECK_EQ_STR(err.message, "K64 extension 'test.cube' has no text for opencl");
    flx_kernel_release(k);
    k = flk_in(ctx, "kernel k() { opaque(0x1005, \"\"); }");
    CHECK_OK(flx_kernel_emit(k, "c", &text, &err), &err);
    CHECK(strstr(text.data, "(void)sizeof(\"costs $1\");") != NULL);
    flx_buffer_free(&text);
    flx_kernel_release(k);
    flx_context_free(ctx);
}

/* ---- The builder ---- */

TEST(kernel_extension_is_built_without_text)
{
    flx_context *ctx = extended();
    flx_error err = {0};
    flx_kernel_builder *b = flx_kernel_begin(ctx, "k", 1, 1, 1);
    uint32_t out = flx_kernel_add_buffer(b, &(flx_kernel_buffer){.struct_size = sizeof(flx_kernel_buffer),
                                                                 .name = "out",
                                                                 .access = FLX_KERNEL_READ_WRITE,
                                                                 .element = FLX_F32,
                                                                 .count = 1,
                                                                 .flags = FLX_KERNEL_OUTPUT});
    const unsigned char three = 3;
    flx_kx two = flx_kx_f32(b, 2);
    flx_kernel_extend(b, NOTE, "x", 1);
    flx_kernel_store(b, out, flx_kx_u32(b, 0), flx_kx_extension(b, POWER, &three, 1, &two, 1));
    flx_kernel *k = flx_kernel_finish(b, &err);
    CHECK_MSG(k != NULL, "%s", err.message);
    float value = 0;
    flx_kernel_memory memory = {"out", &value, sizeof value};
    CHECK_OK(flx_kernel_run(k, (const uint32_t[3]){1, 1, 1}, &memory, 1, NULL, &err), &err);
    CHECK(value > 7.5f && value < 8.5f);
    flx_kernel_release(k);
    b = flx_kernel_begin(ctx, "k", 1, 1, 1);
    flx_kernel_let(b, "a", flx_kx_extension(b, 99, NULL, 0, NULL, 0));
    CHECK(!flx_kernel_finish(b, &err));
    CHECK_EQ_STR(err.message, "K60 there is no extension 0x63");
    b = flx_kernel_begin(ctx, "k", 1, 1, 1);
    flx_kernel_let(b, "a", flx_kx_extension(b, CUBE, NULL, 4, NULL, 0));
    CHECK(!flx_kernel_finish(b, &err));
    CHECK(err.code == FLX_E_USAGE);
    flx_context_free(ctx);
}

/* ---- Bytes ---- */

static flx_buffer encoded(const flx_kernel *k)
{
    flx_buffer out = {0};
    flx_error err = {0};
    CHECK_OK(flx_kernel_encode(k, &out, &err), &err);
    return out;
}

static const char *const wire_text = "kernel k() {\n"
                                     "  buffer x: f32[4] read @0;\n"
                                     "  buffer out: f32[4] output @1;\n"
                                     "  opaque(0x1005, \"00ff10\");\n"
                                     "  out[0] = opaque<f32>(0x1001, \"\", x[0], opaque<f32>(0x1002, \"03\", x[1]));\n"
                                     "  out[1] = opaque<f32>(\"test.cube\", \"\", 7, pure, x[0], x[1]);\n"
                                     "}\n";

TEST(kernel_extension_bytes_need_the_registration)
{
    flx_context *ctx = extended(), *bare = flx_context_new(NULL);
    flx_error err = {0};
    flx_kernel *k = flk_in(ctx, wire_text);
    flx_buffer bytes = encoded(k);
    CHECK(!flx_kernel_decode(bare, bytes.data, bytes.size, &err));
    CHECK_MSG(strstr(err.message, "bad tag at byte") && strstr(err.message, "extension 4101 is not registered"), "%s",
              err.message);
    add_extensions(bare);
    flx_kernel *there = flx_kernel_decode(bare, bytes.data, bytes.size, &err);
    CHECK_MSG(there != NULL, "%s", err.message);
    CHECK_OK(flxi_kernel_check(there, &err), &err);
    flx_buffer again = encoded(there), text = flk_text(there), before = flk_text(k);
    CHECK(again.size == bytes.size && memcmp(again.data, bytes.data, bytes.size) == 0);
    CHECK_EQ_STR(text.data, before.data);
    flx_buffer_free(&before);
    flx_buffer_free(&text);
    flx_buffer_free(&again);
    flx_buffer_free(&bytes);
    flx_kernel_release(there);
    flx_kernel_release(k);
    flx_context_free(bare);
    flx_context_free(ctx);
}

/* By name it can be read anywhere, and has a meaning where it is registered. */
TEST(kernel_extension_by_name_is_read_without_the_registration)
{
    flx_context *ctx = extended(), *bare = flx_context_new(NULL);
    flx_error err = {0};
    flx_kernel *k = flk_in(bare, "kernel k() { buffer out: f32[1] output @0;\n"
                                 "  out[0] = opaque<f32>(\"test.cube\", \"\", 7, pure, 2.0, 3.0); }\n");
    flx_buffer bytes = encoded(k);
    flx_kernel *there = flx_kernel_decode(ctx, bytes.data, bytes.size, &err);
    CHECK_MSG(there != NULL, "%s", err.message);
    flx_buffer again = encoded(there);
    CHECK(again.size == bytes.size && memcmp(again.data, bytes.data, bytes.size) == 0);
    float value = 0;
    flx_kernel_memory memory = {"out", &value, sizeof value};
    CHECK_OK(flx_kernel_run(there, (const uint32_t[3]){1, 1, 1}, &memory, 1, NULL, &err), &err);
    CHECK(value > 23.5f && value < 24.5f);
    flx_buffer_free(&again);
    flx_buffer_free(&bytes);
    flx_kernel_release(there);
    flx_kernel_release(k);
    flx_context_free(bare);
    flx_context_free(ctx);
}

static uint64_t fnv(const unsigned char *bytes, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* Damaged bytes with a correct checksum give an error or a kernel that encodes to exactly these bytes. */
TEST(kernel_extension_damaged_bytes_are_refused_or_canonical)
{
    enum { ROUNDS = 4000 };
    flx_context *ctx = extended();
    flx_kernel *k = flk_in(ctx, wire_text);
    flx_buffer bytes = encoded(k);
    unsigned char *damaged = malloc(bytes.size);
    uint64_t state = 77;
    int survivors = 0;
    CHECK(damaged != NULL);
    for (int n = 0; n < ROUNDS; n++) {
        flx_error err = {0};
        memcpy(damaged, bytes.data, bytes.size);
        for (uint64_t hits = 1 + test_random(&state) % 3; hits-- > 0;)
            damaged[24 + test_random(&state) % (bytes.size - 24)] ^= (unsigned char)(1u << test_random(&state) % 8);
        uint64_t sum = fnv(damaged + 24, bytes.size - 24);
        for (int i = 0; i < 8; i++)
            damaged[16 + i] = (unsigned char)(sum >> 8 * i);
        flx_kernel *there = flx_kernel_decode(ctx, damaged, bytes.size, &err);
        if (!there)
            continue;
        survivors++;
        flx_buffer again = encoded(there);
        CHECK_MSG(again.size == bytes.size && memcmp(again.data, damaged, bytes.size) == 0, "round %d", n);
        flx_buffer_free(&again);
        if (flxi_kernel_check(there, &err) == FLX_OK) {
            float x[4] = {1, 2, 3, 4}, out[4] = {0};
            flx_kernel_memory memory[] = {{"x", x, sizeof x}, {"out", out, sizeof out}};
            flx_kernel_run_options options = {.struct_size = sizeof options, .max_steps = 10000};
            flx_kernel_run(there, (const uint32_t[3]){1, 1, 1}, memory, 2, &options, &err);
        }
        flx_kernel_release(there);
    }
    CHECK(survivors > ROUNDS / 100);
    free(damaged);
    flx_buffer_free(&bytes);
    flx_kernel_release(k);
    flx_context_free(ctx);
}

/* ---- Derivatives ---- */

/* f = x^3 (x^2 + 1): both operands, a function around one of them, second order through both modes. */
TEST(kernel_extension_derivative_is_used_in_both_modes)
{
    kernel_case_check(&(kernel_case){
        .name = "cube",
        .text = "kernel cube(workgroup = [1, 1, 1]) {\n"
                "  buffer x: f32[3] read;\n"
                "  buffer out: f32[3] output;\n"
                "  let i = invocation_id(0);\n"
                "  let y = x[i];\n"
                "  for (n in 0..2) { y = opaque<f32>(0x1001, \"\", x[i], y); }\n"
                "  out[i] = y;\n"
                "}\n",
        .extend = extend_case,
        .outputs = "out",
        .inputs = "x",
        .grid = {3, 1, 1},
        .data = "x = 1, 2, -1",
        .values = "out = 1, 128, -1",
        .gradients = "grad_x = 7, 448, 7",
    });
}

TEST(kernel_extension_derivative_takes_the_payload)
{
    kernel_case_check(&(kernel_case){
        .name = "power",
        .text = "kernel power(workgroup = [1, 1, 1]) {\n"
                "  buffer x: f32[3] read;\n"
                "  buffer out: f32[3] output;\n"
                "  fn p(a: f32) -> f32 { return opaque<f32>(0x1002, \"03\", a) + opaque<f32>(0x1002, \"02\", a); }\n"
                "  let i = invocation_id(0);\n"
                "  out[i] = p(x[i]);\n"
                "}\n",
        .extend = extend_case,
        .outputs = "out",
        .inputs = "x",
        .grid = {3, 1, 1},
        .data = "x = 1, 2, -1",
        .values = "out = 2, 12, 0",
        .gradients = "grad_x = 5, 16, 1",
        .flags = CASE_NO_SECOND, /* the slope has no derivative */
    });
}

static void check_refused(const char *body, uint32_t flags, const char *message)
{
    static const char *const outputs[] = {"out"}, *const inputs[] = {"x"};
    flx_context *ctx = extended();
    char text[400];
    snprintf(text, sizeof text, "kernel k() { buffer x: f32[1] read; buffer out: f32[1] output; %s }", body);
    flx_kernel *k = flk_in(ctx, text);
    for (int n = 0; n < 2; n++) {
        flx_error err = {0};
        flx_kernel_derived *d = n ? flx_kernel_jvp(k, outputs, 1, inputs, 1, NULL, &err)
                                  : flx_kernel_grad(k, outputs, 1, inputs, 1, NULL, &err);
        if (flags >> n & 1) {
            CHECK_MSG(!d, "%s", body);
            CHECK_EQ_STR(err.message, message);
            CHECK(err.hint[0]);
        } else {
            CHECK_MSG(d != NULL, "%s", err.message);
        }
        flx_kernel_derived_free(d);
    }
    flx_kernel_release(k);
    flx_context_free(ctx);
}

TEST(kernel_extension_without_a_derivative_is_named)
{
    check_refused("out[0] = opaque<f32>(0x1003, \"03\", x[0]);", 3,
                  "not differentiable extension 'test.slope' has no derivative");
    check_refused("out[0] = opaque<f32>(\"far\", \"\", 1, pure, x[0]);", 3,
                  "not differentiable extension 'far' has no derivative");
    check_refused("out[0] = x[0] * opaque<f32>(0x1003, \"03\", stop_gradient(x[0]));", 0, "");
    check_refused("let n = opaque<u32>(0x1004, \"\", 1); out[0] = x[0] * cast<f32>(n);", 1,
                  "not differentiable extension 'test.tick' is impure: its effects cannot be repeated");
    check_refused("opaque(0x1005, \"\"); out[0] = x[0];", 1,
                  "unsupported statement an opaque statement has no derivative");
}

TEST(kernel_extension_with_a_wrong_derivative_says_where)
{
    static const char *const outputs[] = {"out"}, *const inputs[] = {"x"};
    static const char *const rows[][2] = {
        {"adjoint self[0](a: $T, z: $T, g: $G) -> $G { return g * b; }", "K10 no variable 'b' is in scope"},
        {"adjoint self[0](a: $T, g: $G) -> $G { return g; }",
         "K61 the derivative of 'self' has 2 parameters, expected 3"},
        {"adjoint self[0](a: $Q, z: $T, g: $G) -> $G { return g; }", ""},
        {"$", ""},
        {"let a = 1;", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_context *ctx = flx_context_new(NULL);
        flx_error err = {0};
        flx_kernel_extension x = extensions[1];
        x.derivative = rows[i][0];
        CHECK_OK(flx_kernel_register_extension(ctx, &x, &err), &err);
        flx_kernel *k = flk_in(ctx, "kernel k() { buffer x: f32[1] read; buffer out: f32[1] output;\n"
                                    "  out[0] = opaque<f32>(0x1002, \"03\", x[0]); }");
        flx_kernel_derived *d = flx_kernel_grad(k, outputs, 1, inputs, 1, NULL, &err);
        CHECK_MSG(!d || i == 4, "%s", rows[i][0]);
        if (!d && rows[i][1][0])
            CHECK_EQ_STR(err.message, rows[i][1]);
        if (!d)
            CHECK_MSG(strncmp(err.where, "the derivative of 'test.power'", 30) == 0 || err.code == FLX_E_KERNEL, "%s",
                      err.where);
        flx_kernel_derived_free(d);
        flx_kernel_release(k);
        flx_context_free(ctx);
    }
}

/* ---- Memory ---- */

static flx_code everything(flx_context *ctx, flx_error *err)
{
    static const char *const outputs[] = {"out"}, *const inputs[] = {"x"};
    for (size_t i = 0; i < 3; i++)
        if (flx_kernel_register_extension(ctx, &extensions[i], err) != FLX_OK)
            return (flx_code)err->code;
    flx_kernel *k = flx_kernel_parse(ctx, cube_text, strlen(cube_text), "t", err);
    flx_buffer bytes = {0}, text = {0};
    flx_kernel *there = NULL;
    flx_kernel_derived *d = NULL, *t = NULL;
    bool done = k && flx_kernel_encode(k, &bytes, err) == FLX_OK &&
                (there = flx_kernel_decode(ctx, bytes.data, bytes.size, err)) != NULL &&
                flx_kernel_emit(there, "c", &text, err) == FLX_OK &&
                (d = flx_kernel_grad(there, outputs, 1, inputs, 1, NULL, err)) != NULL &&
                (t = flx_kernel_jvp(there, outputs, 1, inputs, 1, NULL, err)) != NULL;
    flx_kernel_derived_free(t);
    flx_kernel_derived_free(d);
    flx_buffer_free(&text);
    flx_buffer_free(&bytes);
    flx_kernel_release(there);
    flx_kernel_release(k);
    return done ? FLX_OK : (flx_code)err->code;
}

/* About a hundred requests fail in turn. */
TEST(kernel_extension_survives_memory_failure)
{
    enum { MOST = 300 };
    size_t requests = 0;
    for (size_t at = 0; at <= requests; at += at ? 1 + requests / MOST : 1) {
        fault f = {.fail_at = at};
        flx_error err = {0};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        flx_code code = ctx ? everything(ctx, &err) : FLX_E_OOM;
        flx_context_free(ctx);
        CHECK_MSG(fault_is_clean(&f), "request %zu: %zu blocks leaked, %zu errors", at, f.live_blocks, f.errors);
        CHECK_MSG(code == (at ? FLX_E_OOM : FLX_OK), "request %zu: %s", at, err.message);
        requests = at ? requests : f.calls;
    }
}
