/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_text_values.c: texts of ONNX models: results of operations on them, and what is refused. */
#include "format/file.h"
#include "onnx/onnx_bytes.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <fluxion/onnx.h>
#include <stdio.h>

enum { STRING = 8 };

/* ---- A model of texts that are constants: tests/fuzz/corpus/onnx/texts ---- */

/* Texts with bars between them, numbers with blanks. */
static void write_value(const flx_tensor *t, char *out, size_t size)
{
    const flx_type *type = flx_tensor_type(t);
    int64_t width = type->dtype == FLX_U8 ? type->dims[type->rank - 1] : 1;
    const char *bytes = flx_tensor_const_data(t);
    size_t n = 0;
    for (int64_t i = 0; i < flx_tensor_count(t) / width; i++)
        if (type->dtype == FLX_U8)
            n += (size_t)snprintf(out + n, size - n, "%s%.*s", i ? "|" : "", (int)width, bytes + i * width);
        else
            n += (size_t)snprintf(out + n, size - n, "%s%g", i ? " " : "", flx_tensor_get(t, i));
}

TEST(onnx_operations_on_texts_give_the_expected_texts)
{
    static const struct {
        const char *name, *type, *value;
    } expected[] = {
        {"up", "u8[3, 19]", "ZÜRICH|ПРИВЕТ МИР|A  B "},
        {"both", "u8[2, 3, 20]", "ZÜRICH-|ПРИВЕТ МИР-|A  B -|ZÜRICH|ПРИВЕТ МИР|A  B "},
        {"parts", "u8[4, 2, 12]", "zürich||monday||привет|мир|a|b"},
        {"counts", "i64[4]", "1 1 2 2"},
        {"two", "u8[2, 3, 2, 12]", "ZÜRICH-||ПРИВЕТ|МИР-|A| B -|ZÜRICH||ПРИВЕТ|МИР|A| B "},
        {"twos", "i64[2, 3]", "1 2 2 1 2 2"},
        {"same", "bool[4]", "1 0 0 0"},
        {"names", "u8[4, 2]", "?|Mo|?|?"},
        {"y", "f32[4]", "8 14 -9 -12"},
    };
    enum { N = sizeof expected / sizeof *expected };
    flx_error err = {0};
    char text[400];
    flx_context *ctx = flx_context_new(NULL);
    flx_onnx *m = flx_onnx_read(ctx, FLX_SOURCE_DIR "/tests/fuzz/corpus/onnx/texts", NULL, &err);
    CHECK_MADE(m, &err);
    const flx_graph *g = flx_onnx_graph(m);
    CHECK_EQ_U64(flx_graph_output_count(g), N);
    flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){4});
    flx_tensor *x = flx_tensor_new(ctx, &type, (float[]){1, 2, 3, 4}, &err), *y[N] = {0};
    CHECK_OK(flx_run(g, &(flx_run_options){.device = "ref"}, &(flx_feed){"x", x}, 1, y, &err), &err);
    for (size_t i = 0; i < N; i++) {
        test_fail_context("%s", expected[i].name);
        flx_type_print(ctx, flx_tensor_type(y[i]), text, sizeof text);
        CHECK_EQ_STR(text, expected[i].type);
        write_value(y[i], text, sizeof text);
        CHECK_EQ_STR(text, expected[i].value);
        flx_tensor_release(y[i]);
    }
    flx_tensor_release(x);
    flx_onnx_free(m);
    flx_context_free(ctx);
}

/* ---- What is refused ---- */

static onnx_bytes texts_bytes(const char *name, const char *const *texts, size_t n, int64_t extent)
{
    onnx_bytes t = onnx_tensor_bytes(name, STRING, &extent, 1);
    for (size_t i = 0; i < n; i++)
        put_text(&t, 6, texts[i]);
    return t;
}

/* The nodes on t, texts of the file, and x, an input of `element`; the result is y. */
static flx_code read_texts(const onnx_bytes *t, const onnx_bytes *nodes, size_t n, int element,
                           const flx_onnx_options *o, flx_error *err)
{
    onnx_bytes g = {.n = 0};
    onnx_bytes x = onnx_info_bytes("x", element, (int64_t[]){2}, 1), y = onnx_info_bytes("y", element, NULL, 0);
    for (size_t i = 0; i < n; i++)
        put_part(&g, 1, &nodes[i]);
    put_part(&g, 5, t);
    put_part(&g, 11, &x);
    put_part(&g, 12, &y);
    onnx_bytes m = onnx_model_bytes(&g, 21);
    CHECK(m.n < sizeof m.at);
    flx_context *ctx = flx_context_new(NULL);
    *err = (flx_error){0};
    flx_onnx *read = flx_onnx_decode(ctx, m.at, m.n, "m", o, err);
    flx_code code = read ? FLX_OK : (flx_code)err->code;
    CHECK(read || strncmp(err->where, "m:", 2) == 0);
    flx_onnx_free(read);
    flx_context_free(ctx);
    return code;
}

static const char *const two[] = {"one", "two"};

TEST(onnx_texts_that_do_not_fit_are_refused)
{
    flx_error err;
    onnx_bytes good = texts_bytes("t", two, 2, 2), few = texts_bytes("t", two, 2, 3);
    onnx_bytes huge = texts_bytes("t", two, 2, INT64_MAX),
               broken = texts_bytes("t", (const char *[]){"\xff", "b"}, 2, 2);
    onnx_bytes pass = onnx_node_bytes("Identity", "t", NULL, "y"), add = onnx_node_bytes("Add", "t", "x", "y");
    onnx_bytes equal = onnx_node_bytes("Equal", "t", "x", "y"), split = onnx_node_bytes("StringSplit", "x", NULL, "y");
    CHECK_CODE(read_texts(&good, &pass, 1, 1, NULL, &err), FLX_OK, &err);
    CHECK_CODE(read_texts(&few, &pass, 1, 1, NULL, &err), FLX_E_SYNTAX, &err);
    CHECK_CODE(read_texts(&huge, &pass, 1, 1, NULL, &err), FLX_E_SYNTAX, &err);
    CHECK_CODE(read_texts(&broken, &pass, 1, 1, NULL, &err), FLX_E_SYNTAX, &err);
    CHECK_CODE(read_texts(&good, &add, 1, 1, NULL, &err), FLX_E_UNSUPPORTED, &err);
    CHECK_EQ_STR(err.message, "unsupported: Add: operand 0 has texts");
    CHECK_CODE(read_texts(&good, &equal, 1, 1, NULL, &err), FLX_E_DTYPE, &err);
    CHECK_CODE(read_texts(&good, &split, 1, 1, NULL, &err), FLX_E_DTYPE, &err);
}

TEST(onnx_texts_that_double_are_refused)
{
    onnx_bytes nodes[40], t = texts_bytes("t", two, 2, 2);
    char from[16] = "t", to[16];
    flx_error err;
    for (int i = 0; i < 40; i++) {
        snprintf(to, sizeof to, i == 39 ? "y" : "t%d", i);
        nodes[i] = onnx_node_bytes("StringConcat", from, from, to);
        memcpy(from, to, sizeof to);
    }
    CHECK_CODE(read_texts(&t, nodes, 40, 1, NULL, &err), FLX_E_SIZE, &err);
    CHECK_MSG(strstr(err.message, "bytes of texts"), "%s", err.message);
}

TEST(onnx_inputs_of_texts_must_be_fixed)
{
    flx_error err;
    onnx_bytes t = texts_bytes("t", two, 2, 2), join = onnx_node_bytes("StringConcat", "x", "t", "y");
    flx_context *ctx = flx_context_new(NULL);
    static const struct {
        flx_dtype dtype;
        flx_dim dims[2];
        const char *bytes;
        flx_code code;
    } rows[] = {
        {FLX_U8, {2, 3}, "ab\0cde", FLX_OK},
        {FLX_U8, {3, 2}, "abcdef", FLX_E_SHAPE},
        {FLX_I8, {2, 3}, "abcdef", FLX_E_DTYPE},
        {FLX_U8, {2, 0}, "", FLX_E_DTYPE},
        {FLX_U8,
         {2, 1},
         "\xc3"
         "a",
         FLX_E_SYNTAX},
    };
    CHECK_CODE(read_texts(&t, &join, 1, STRING, NULL, &err), FLX_E_UNSUPPORTED, &err);
    CHECK_MSG(strstr(err.message, "'x' has texts, which must be known") && strstr(err.hint, "--fix"), "%s",
              err.message);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_type type = flx_type_make(rows[i].dtype, 2, rows[i].dims);
        flx_tensor *x = flx_tensor_new(ctx, &type, rows[i].bytes, &err);
        flx_onnx_options o = {.struct_size = sizeof o, .inputs = &(flx_feed){"x", x}, .num_inputs = 1};
        test_fail_context("row %zu", i);
        CHECK_CODE(read_texts(&t, &join, 1, STRING, &o, &err), rows[i].code, &err);
        flx_tensor_release(x);
    }
    flx_context_free(ctx);
}

/* Attributes may have any bytes. */
TEST(onnx_attributes_of_texts_that_are_not_utf8_are_refused)
{
    static const char *const rows[][2] = {{"StringNormalizer", "stopwords"}, {"StringSplit", "delimiter"}};
    flx_error err;
    for (size_t i = 0; i < 2; i++) {
        onnx_bytes t = texts_bytes("t", two, 2, 2), node = onnx_node_bytes(rows[i][0], "t", NULL, "y"), a = {.n = 0};
        put_text(&a, 1, rows[i][1]);
        put_text(&a, i ? 4 : 9, "\x80");
        put_int(&a, 20, i ? 3 : 8);
        put_part(&node, 5, &a);
        CHECK_CODE(read_texts(&t, &node, 1, 1, NULL, &err), FLX_E_ATTRIBUTE, &err);
    }
}

/* Letters whose counterpart is not one letter in every language. */
TEST(onnx_letters_without_one_counterpart_are_unsupported)
{
    static const char *const letters[] = {"straße", "ΣΊΣΥΦΟΣ", "ﬁn", "İ", "ǅ"};
    onnx_bytes node = onnx_node_bytes("StringNormalizer", "t", NULL, "y");
    static const char *const changes[] = {"UPPER", "LOWER", "UPPER", "LOWER", "LOWER"};
    flx_error err;
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        onnx_bytes t = texts_bytes("t", &letters[i], 1, 1), changed = node, a = {.n = 0};
        put_text(&a, 1, "case_change_action");
        put_text(&a, 4, changes[i]);
        put_int(&a, 20, 3);
        put_part(&changed, 5, &a);
        CHECK_CODE(read_texts(&t, &changed, 1, 1, NULL, &err), FLX_E_UNSUPPORTED, &err);
        CHECK_MSG(strstr(err.message, "capitals and small letters of the character U+"), "%s", err.message);
    }
}
