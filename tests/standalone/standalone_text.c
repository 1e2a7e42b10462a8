/* SPDX-License-Identifier: Apache-2.0 */
/* standalone_text.c: C files as texts: short, formatted, the same every time, with the names of nodes in comments; and
   what the objects of such files need and hold. */
#include "standalone/c_file.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char perceptron[] =
    "graph mlp(x: f32[16, 784], label: i32[16], param w1: f32[784, 128], param b1: f32[128] ~ zeros,\n"
    "          param w2: f32[128, 10], param b2: f32[10] ~ zeros) {\n"
    "  hidden = relu(add(matmul(x, w1), b1))\n"
    "  logits = add(matmul(hidden, w2), b2)\n"
    "  loss = reduce_mean(softmax_cross_entropy_with_logits(logits, label))\n"
    "  return loss, logits\n"
    "}\n";

typedef struct {
    flx_context *ctx;
    flx_graph *g;
    flx_params *values;
} text_subject;

static text_subject open_subject(const char *text)
{
    flx_error err = {0};
    text_subject s = {.ctx = flx_context_new(NULL)};
    flx_module *m = flx_parse(s.ctx, text, strlen(text), "text", &err);
    CHECK_MSG(m, "%s", err.message);
    s.g = flx_graph_retain(flx_module_main(m));
    s.values = flx_params_of(s.g, 1, &err);
    CHECK_MSG(s.values, "%s", err.message);
    flx_module_free(m);
    return s;
}

static void close_subject(text_subject *s)
{
    flx_params_release(s->values);
    flx_graph_release(s->g);
    flx_context_free(s->ctx);
}

static flx_buffer build(const text_subject *s, const flx_build_options *o, flx_build_sizes *sizes)
{
    flx_error err = {0};
    flx_buffer text;
    CHECK_OK(flx_build_c(s->g, o, &text, NULL, sizes, &err), &err);
    return text;
}

/* Lines of at most 120 columns, indented by fours, without blanks at their ends, and no two empty ones. */
static void check_format(const flx_buffer *text)
{
    size_t number = 1, empty = 0;
    bool in_comment = false;
    for (const char *p = text->data, *end = p + text->size; p < end; number++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        CHECK_MSG(newline, "the last line has no end");
        size_t n = (size_t)(newline - p), indent = strspn(p, " ");
        empty = n == 0 ? empty + 1 : 0;
        EXPECT_MSG(n <= 120, "line %zu has %zu columns: %.60s", number, n, p);
        EXPECT_MSG(n == 0 || p[n - 1] != ' ', "line %zu ends with a blank", number);
        EXPECT_MSG(empty < 2, "line %zu is one more empty line", number);
        EXPECT_MSG(in_comment || indent % 4 == 0, "line %zu is indented by %zu: %.60s", number, indent, p);
        EXPECT_MSG(!memchr(p, '\t', n), "line %zu has a tab", number);
        for (; p < newline; p++)
            in_comment = in_comment ? !(p[0] == '*' && p[1] == '/') : p[0] == '/' && p[1] == '*';
        p = newline + 1;
    }
}

static size_t count_lines(const flx_buffer *text)
{
    size_t lines = 0;
    for (size_t i = 0; i < text->size; i++)
        lines += text->data[i] == '\n';
    return lines;
}

TEST(standalone_text_of_perceptron_can_be_read)
{
    text_subject s = open_subject(perceptron), other = open_subject(perceptron);
    const flx_build_options o = {.struct_size = sizeof o};
    flx_buffer text = build(&s, &o, NULL), again = build(&other, &o, NULL);
    CHECK_MSG(count_lines(&text) < 300, "the file of a perceptron has %zu lines", count_lines(&text));
    CHECK(text.size == again.size && memcmp(text.data, again.data, text.size) == 0);
    static const char *const names[] = {"hidden", "logits", "loss", "w1", "b2", "label"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK_MSG(strstr(text.data, names[i]), "nothing in the text is called %s", names[i]);
    check_format(&text);
    flx_buffer_free(&text);
    flx_buffer_free(&again);
    close_subject(&s);
    close_subject(&other);
}

/* A text as one would write it: no brackets that precedence makes superfluous, values and loops by their names, every
   function after what it computes. */
TEST(standalone_text_of_kernels_is_plain)
{
    static const char *const expected[] = {
        "/* hidden = relu(add(matmul_8, b1)) */\n",
        "    for (uint32_t i = 0; i < 16; i++) {\n        for (uint32_t j = 0; j < 128; j++) {\n",
        "            hidden[i * 128 + j] = k_max_nan_f32(matmul_8[i * 128 + j] + b1[j], 0.0f);\n",
        "float v2 = -INFINITY;\n", "return MLP_BAD_INDEX;\n"};
    static const char *const other[] = {"[((", "if (i < ", "0xff800000u", "e3", "\n\n\n", "return 5;"};
    text_subject s = open_subject(perceptron);
    const flx_build_options o = {.struct_size = sizeof o};
    flx_buffer text = build(&s, &o, NULL);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        EXPECT_MSG(strstr(text.data, expected[i]), "not in the text: %s", expected[i]);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        EXPECT_MSG(!strstr(text.data, other[i]), "in the text: %s", other[i]);
    flx_buffer_free(&text);
    close_subject(&s);
}

/* Of all functions together, and with extents as arguments. */
TEST(standalone_text_of_training_is_formatted)
{
    static const char symbolic[] =
        "graph mlp(x: f32[N, 20], label: i32[N], param w1: f32[20, 30], param b1: f32[30]) {\n"
        "  z = add(matmul(x, w1), b1)\n"
        "  return reduce_mean(softmax_cross_entropy_with_logits(z, label))\n}\n";
    const flx_train_options train = {.struct_size = sizeof train, .optimiser = FLX_ADAMW};
    const char *const graphs[] = {perceptron, symbolic};
    for (size_t i = 0; i < 2; i++) {
        text_subject s = open_subject(graphs[i]);
        const flx_build_options o = {.struct_size = sizeof o, .flags = FLX_BUILD_GRAD, .train = &train};
        flx_buffer text = build(&s, &o, NULL);
        check_format(&text);
        flx_buffer_free(&text);
        close_subject(&s);
    }
}

/* ---- Objects ---- */

typedef void (*symbol_visit)(char kind, const char *name, unsigned bytes);

/* Calls `visit` for each symbol of the text as an object of these flags. */
static void each_symbol(const flx_buffer *text, const char *flags, symbol_visit visit)
{
    const char *path = test_temp_path("model.c"), *object = test_temp_path("model.o");
    char command[1000], line[300], name[200], kind;
    unsigned bytes;
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(text->data, 1, text->size, f) == text->size && fclose(f) == 0);
    snprintf(command, sizeof command, "gcc -std=c99 -ffp-contract=off %s -c '%s' -o '%s' && nm -S '%s'", flags, path,
             object, object);
    f = popen(command, "r");
    CHECK(f);
    size_t lines = 0;
    while (fgets(line, sizeof line, f)) {
        lines++;
        if (sscanf(line, "%*[0-9a-f] %x %c %199s", &bytes, &kind, name) == 3)
            visit(kind, name, bytes);
        else if (sscanf(line, " %c %199s", &kind, name) == 2)
            visit(kind, name, 0);
    }
    CHECK_MSG(pclose(f) == 0 && lines > 3, "%s", command);
}

/* Functions of the C library that files may call: memcpy, memset, and those of <math.h>, whatever their precision.
   Compilers also make calls of memmove, and of sincos. */
static bool is_permitted(const char *name)
{
    static const char *const known[] = {"memcpy", "memset", "memmove", "exp",   "exp2",  "expm1", "log",    "log2",
                                        "log10",  "log1p",  "sin",     "cos",   "tan",   "asin",  "acos",   "atan",
                                        "atan2",  "sinh",   "cosh",    "tanh",  "asinh", "acosh", "atanh",  "erf",
                                        "erfc",   "sqrt",   "pow",     "fmod",  "hypot", "floor", "ceil",   "trunc",
                                        "round",  "rint",   "fma",     "frexp", "ldexp", "cbrt",  "sincos", "lgamma"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i]);
        if (strncmp(name, known[i], n) == 0 && (!name[n] || (name[n] == 'f' && !name[n + 1])))
            return true;
    }
    return strcmp(name, "_GLOBAL_OFFSET_TABLE_") == 0;
}

static void check_symbol(char kind, const char *name, unsigned bytes)
{
    (void)bytes;
    EXPECT_MSG(kind != 'U' || is_permitted(name), "the file calls %s", name);
    EXPECT_MSG(!strchr("dDbBC", kind), "%s is a variable of the file (%c)", name, kind);
}

TEST(standalone_objects_call_mathematics_alone_and_have_no_variables)
{
    static const char *const flags[] = {"-O0 -fno-pic", "-O2 -fno-pic", "-O2 -fno-pic -fno-builtin"};
    text_subject s = open_subject(perceptron);
    const flx_train_options train = {.struct_size = sizeof train, .optimiser = FLX_ADAMW};
    flx_build_options o = {.struct_size = sizeof o, .flags = FLX_BUILD_GRAD, .values = s.values, .train = &train};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        o.params = i == 0 ? FLX_BUILD_EMBED : i == 1 ? FLX_BUILD_FILE : FLX_BUILD_CALLER;
        flx_buffer text = build(&s, &o, NULL);
        each_symbol(&text, flags[i], check_symbol);
        flx_buffer_free(&text);
    }
    close_subject(&s);
}

static size_t code_bytes;

static void add_bytes(char kind, const char *name, unsigned bytes)
{
    (void)name;
    code_bytes += strchr("tTrR", kind) ? bytes : 0;
}

/* 101,770 parameters that are trained where they are: 16 images at a time. */
TEST(standalone_training_of_perceptron_for_digits_is_small)
{
    enum { PARAMETERS = 784 * 128 + 128 + 128 * 10 + 10 };
    text_subject s = open_subject(perceptron);
    const flx_train_options train = {.struct_size = sizeof train, .optimiser = FLX_ADAMW};
    const flx_build_options o = {.struct_size = sizeof o, .train = &train};
    flx_build_sizes sizes = {.struct_size = sizeof sizes};
    flx_buffer text = build(&s, &o, &sizes);
    code_bytes = 0;
    each_symbol(&text, "-Os", add_bytes);
    CHECK_MSG(code_bytes > 1000 && code_bytes <= 16 << 10, "%zu bytes of code and constants", code_bytes);
    /* Parameters and two moments of each; a gradient for each, and little else. */
    CHECK_MSG(sizes.memory_bytes <= 4 * 4 * PARAMETERS + (64 << 10), "%lld bytes of memory",
              (long long)sizes.memory_bytes);
    flx_buffer_free(&text);
    close_subject(&s);
}
