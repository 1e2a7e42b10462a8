/* SPDX-License-Identifier: Apache-2.0 */
/* standalone_names.c: names that could collide with those of a C file, names with escapes in a file of parameters, what
   integer products count, and running folds of numbers near the ends of their range. */
#include "graph/op/eval.h"
#include "standalone/c_file.h"
#include "standalone/standalone.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static flx_graph *parse(flx_context *ctx, const char *text)
{
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "model", &err);
    CHECK_MSG(m, "%s", err.message);
    flx_graph *g = flx_graph_retain(flx_module_main(m));
    flx_module_free(m);
    return g;
}

static c_file *compile(const flx_graph *g, const flx_build_options *o, flx_build_sizes *sizes)
{
    flx_error err = {0};
    flx_buffer source;
    CHECK_OK(flx_build_c(g, o, &source, NULL, sizes, &err), &err);
    c_file *f = c_file_compile(&source, "gcc", "-O1");
    flx_buffer_free(&source);
    return f;
}

/* The file compiles, and has the macros and codes under their own names. */
TEST(standalone_names_like_macros_are_changed)
{
    static const char *const texts[] = {
        "graph mlp(x: f32[2], param MLP_ARENA_BYTES: f32[2], MLP_BAD_FILE: f32[2]) {\n"
        "  MLP_MEMORY_BYTES = add(x, MLP_ARENA_BYTES)\n  return mul(MLP_MEMORY_BYTES, MLP_BAD_FILE)\n}\n",
        "graph MLP(x: f32[2], param BAD_FILE: f32[2], param ARENA_BYTES: f32[2], MEMORY_BYTES: f32[2]) {\n"
        "  TRAPPED = cumsum(add(x, BAD_FILE))\n  return mul(TRAPPED, mul(ARENA_BYTES, MEMORY_BYTES))\n}\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int params = FLX_BUILD_CALLER; params <= FLX_BUILD_FILE; params++) {
            flx_error err = {0};
            flx_context *ctx = flx_context_new(NULL);
            flx_graph *g = parse(ctx, texts[i]);
            flx_params *values = flx_params_of(g, 1, &err);
            const flx_build_options o = {.struct_size = sizeof o, .params = params, .values = values};
            c_file_free(compile(g, &o, NULL));
            flx_params_release(values);
            flx_graph_release(g);
            flx_context_free(ctx);
        }
}

/* Reads the names of the macros without parameters that the compiler has after all headers of C. */
static void check_macros(const char *command, size_t *count)
{
    static const char headers[] =
        "for h in assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign "
        "stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string threads time uchar wchar wctype; do "
        "echo \"#include <$h.h>\"; done";
    char line[400], name[100];
    snprintf(line, sizeof line, "(%s) | %s -dM -E -x c - 2>&1", headers, command);
    FILE *f = popen(line, "r");
    CHECK(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "#define %99[A-Za-z0-9_]%*[ \n]", name) == 1 && line[8 + strlen(name)] != '(' &&
            *name != '_') {
            CHECK_MSG(flxi_sa_is_reserved(name), "%s: %s", command, name);
            ++*count;
        }
    CHECK(pclose(f) == 0);
}

/* Which words C++ has is known to its compilers alone; those that C does not share and C++11 lacks are the traps. */
TEST(standalone_names_of_the_c_library_are_changed)
{
    static const char *const reserved[] = {"typeof",  "not_eq", "compl",  "char8_t", "co_await", "constinit", "printf",
                                           "FLT_MAX", "EACCES", "PRId64", "FP_NAN",  "int",      "isalpha",   "m"};
    static const char *const usable[] = {"x",         "W1",      "E",     "EX",      "SIGMA",
                                         "INTERCEPT", "weights", "types", "printer", "PRICE"};
    size_t count = 0;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        CHECK_MSG(flxi_sa_is_reserved(reserved[i]), "%s", reserved[i]);
    for (size_t i = 0; i < sizeof usable / sizeof *usable; i++)
        CHECK_MSG(!flxi_sa_is_reserved(usable[i]), "%s", usable[i]);
    check_macros("gcc -std=c99", &count);
    check_macros("gcc -std=c11", &count);
    CHECK(count > 800);
}

typedef struct {
    unsigned char *arena;
    const float *w;
} named_model;

/* The file is written by hand: flx_params_save() has no escapes for such names. */
TEST(standalone_params_with_escapes_are_found)
{
    static const struct {
        const char *json;
        int code;
    } files[] = {
        {"\"w\"", 0},    {"\"\\u0077\"", 0},        {"\"\\u0078\"", 4}, {"\"\\w\"", 4},
        {"\"w\\u\"", 4}, {"\"\\uD83D\\uDE00\"", 4}, {"\"\\uD83D\"", 4}, {"\"\\\"\"", 4},
    };
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = parse(ctx, "graph model(x: f32[2], param w: f32[2]) {\n  return add(x, w)\n}\n");
    const flx_build_options o = {.struct_size = sizeof o, .params = FLX_BUILD_FILE};
    c_file *f = compile(g, &o, NULL);
    int (*init)(named_model *, void *), (*load)(named_model *, const void *, size_t);
    *(void **)&init = c_file_symbol(f, "model_init");
    *(void **)&load = c_file_symbol(f, "model_load");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        _Alignas(64) char file[256] = {0};
        named_model m;
        int n = snprintf(file + 8, sizeof file - 8,
                         "{%s: {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}", files[i].json);
        n += (8 - n % 8) % 8 ? snprintf(file + 8 + n, sizeof file - 8 - (size_t)n, "%*s", (8 - n % 8) % 8, "") : 0;
        file[0] = (char)n;
        CHECK(init(&m, NULL) == 0);
        CHECK_MSG(load(&m, file, (size_t)n + 16) == files[i].code, "%s", files[i].json);
    }
    c_file_free(f);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(standalone_sizes_count_integer_products)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = parse(ctx, "graph model(x: i8[4, 8], w: i8[8, 3]) {\n  return matmul(x, w)\n}\n");
    flx_build_sizes sizes = {.struct_size = sizeof sizes};
    const flx_build_options o = {.struct_size = sizeof o};
    c_file_free(compile(g, &o, &sizes));
    CHECK(sizes.flops == 2 * 4 * 8 * 3);
    flx_graph_release(g);
    flx_context_free(ctx);
}

static flx_tensor *numbers(flx_context *ctx, flx_dtype dtype, const double *x, int64_t n)
{
    flx_error err = {0};
    flx_dim dim = n;
    flx_type type = flx_type_make(dtype, 1, &dim);
    flx_tensor *t = flx_tensor_new(ctx, &type, NULL, &err);
    CHECK_MSG(t, "%s", err.message);
    for (int64_t i = 0; i < n; i++)
        flxi_store_double(type.dtype, flx_tensor_data(t), i, x[i]);
    return t;
}

/* A product that leaves the range of f32 and comes back, and sums of exponentials with infinities and NaN. */
TEST(standalone_running_folds_of_extreme_numbers_agree_with_reference)
{
    static const double rows[][6] = {{3e38, -3e38, 1e-30, 1e-30, 2, 1},
                                     {-INFINITY, 1, INFINITY, 2, -INFINITY, 3},
                                     {-INFINITY, -INFINITY, 1, NAN, 2, INFINITY},
                                     {1e-40, 1e-30, 1e30, 1e30, 1e10, 0},
                                     {60000, 2, 0.5, 60000, 0, INFINITY}};
    static const flx_dtype dtypes[] = {FLX_BF16, FLX_F16, FLX_F32};
    flx_context *ctx = bundle_context();
    bundle *b = bundle_new(ctx);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (int log = 0; log < 2; log++) {
                char text[200];
                snprintf(text, sizeof text, "graph f(x: %s[6]) {\n  return %s(x), %s(x, exclusive=true)\n}\n",
                         flx_dtype_name(dtypes[d]), log ? "cumlogsumexp" : "cumprod", log ? "cumlogsumexp" : "cumprod");
                flx_graph *g = parse(ctx, text);
                flx_tensor *x = numbers(ctx, dtypes[d], rows[i], 6);
                bundle_add(b, g, &x, text);
                flx_graph_release(g);
            }
    c_file_check_bundle(b, "gcc", "-O1", 0);
    bundle_free(b);
    flx_context_free(ctx);
}
