/* SPDX-License-Identifier: Apache-2.0 */
/* io_json.c: the JSON reader: what it accepts, what it rejects, and the order of its tokens. */
#include "test.h"

#include "format/json.h"

#include <stdlib.h>
#include <string.h>

/* Reads a text in a block of exactly its size; returns one letter per token. */
static const char *walk(const char *text, size_t size)
{
    static const char letters[] = "!.{}[]ksntf0";
    static char out[4096];
    char *copy = malloc(size ? size : 1);
    CHECK(copy);
    memcpy(copy, text, size);
    flxi_json j = flxi_json_begin(copy, size);
    size_t k = 0;
    flxi_json_token t;
    do {
        t = flxi_json_next(&j);
        CHECK(k + 1 < sizeof out);
        out[k++] = letters[t];
    } while (t != FLXI_JSON_END && t != FLXI_JSON_ERROR);
    out[k] = 0;
    CHECK((t == FLXI_JSON_ERROR) == (j.error != NULL));
    CHECK(flxi_json_next(&j) == t); /* the end is returned again */
    free(copy);
    return out;
}

TEST(json_tokens_come_in_order)
{
    static const struct {
        const char *text, *tokens;
    } rows[] = {
        {"0", "n."},
        {" \"a\" ", "s."},
        {"{}", "{}."},
        {"[]", "[]."},
        {"[1, -2.5e+3, true, false, null, \"\"]", "[nntf0s]."},
        {"{\"a\": {\"b\": [1, {}]}, \"c\":\t\"d\"}\n", "{k{k[n{}]}ks}."},
        {"[[[]], []]", "[[[]][]]."},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"", "s."},
        {"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", "s."},
        {"-0", "n."},
        {"0.0e0", "n."},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_fail_context("%s", rows[i].text);
        CHECK_EQ_STR(walk(rows[i].text, strlen(rows[i].text)), rows[i].tokens);
    }
}

TEST(json_refuses_what_is_not_json)
{
    static const char *const rows[] = {
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{\"a\"1}",
        "[1}",
        "{\"a\":1]",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1e",
        "1e+",
        "--1",
        "0x1",
        "tru",
        "True",
        "nul",
        "NaN",
        "Infinity",
        "1 1",
        "{} {}",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800x\"",
        "'a'",
        "\"a\nb\"",
        "\"\t\"",
        "\"\x80\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xf5\x80\x80\x80\"",
        "\"\xe2\x82\"",
        "\"\xf4\x90\x80\x80\"",
        "\xef\xbb\xbf{}",
        "/**/1",
        "[1]//",
        "\v1",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *tokens = walk(rows[i], strlen(rows[i]));
        test_fail_context("%s", rows[i]);
        CHECK_MSG(strchr(tokens, '!'), "tokens %s", tokens);
    }
    CHECK(strchr(walk("1\0", 2), '!'));
    CHECK(strchr(walk("\"a\0\"", 4), '!'));
}

TEST(json_cut_anywhere_is_an_error)
{
    static const char text[] = "{\"a\": [1, 2.5, \"x\\u0041\", {\"b\": null}], \"c\": true}";
    for (size_t n = 0; n < sizeof text - 1; n++)
        CHECK(strchr(walk(text, n), '!'));
    CHECK(!strchr(walk(text, sizeof text - 1), '!'));
}

TEST(json_depth_is_bounded)
{
    char text[2 * FLXI_JSON_DEPTH + 4];
    memset(text, '[', FLXI_JSON_DEPTH + 1);
    memset(text + FLXI_JSON_DEPTH + 1, ']', FLXI_JSON_DEPTH + 1);
    CHECK(strchr(walk(text, 2 * FLXI_JSON_DEPTH + 2), '!'));
    CHECK(!strchr(walk(text + 1, 2 * FLXI_JSON_DEPTH), '!'));
}

TEST(json_strings_are_decoded)
{
    static const char text[] = "\"a\\u00e9\\ud83d\\ude00\\n\\u0000z\"";
    char out[32];
    flxi_json j = flxi_json_begin(text, sizeof text - 1);
    CHECK(flxi_json_next(&j) == FLXI_JSON_STRING);
    CHECK_EQ_U64(flxi_json_text(&j, out, sizeof out), 10);
    CHECK(memcmp(out, "a\xc3\xa9\xf0\x9f\x98\x80\n\0z", 11) == 0);
    CHECK(!flxi_json_is(&j, "a\xc3\xa9\xf0\x9f\x98\x80\n")); /* the 0 inside counts */
    CHECK_EQ_U64(flxi_json_text(&j, out, 4), 10);
    CHECK_EQ_STR(out, "a\xc3\xa9");
    CHECK_EQ_U64(flxi_json_text(&j, NULL, 0), 10);

    j = flxi_json_begin("\"k\\u0065y\"", 10);
    CHECK(flxi_json_next(&j) == FLXI_JSON_STRING);
    CHECK(flxi_json_is(&j, "key") && !flxi_json_is(&j, "ke") && !flxi_json_is(&j, "keys") && !flxi_json_is(&j, ""));
}

TEST(json_numbers_are_read)
{
    uint64_t u = 0;
    double x = 0.0;
    flxi_json j = flxi_json_begin("[18446744073709551615, 1.5, 1e2, -1, 18446744073709551616]", 58);
    CHECK(flxi_json_next(&j) == FLXI_JSON_ARRAY);
    CHECK(flxi_json_next(&j) == FLXI_JSON_NUMBER && flxi_json_u64(&j, &u) && u == UINT64_MAX);
    CHECK(flxi_json_next(&j) == FLXI_JSON_NUMBER && !flxi_json_u64(&j, &u) && flxi_json_double(&j, &x) && x == 1.5);
    CHECK(flxi_json_next(&j) == FLXI_JSON_NUMBER && !flxi_json_u64(&j, &u) && flxi_json_double(&j, &x) && x == 100.0);
    CHECK(flxi_json_next(&j) == FLXI_JSON_NUMBER && !flxi_json_u64(&j, &u));
    CHECK(flxi_json_next(&j) == FLXI_JSON_NUMBER && !flxi_json_u64(&j, &u));
}

TEST(json_skip_passes_one_value)
{
    static const char text[] = "[{\"a\": [1, {\"b\": []}]}, 5, [], 7]";
    uint64_t u = 0;
    flxi_json j = flxi_json_begin(text, sizeof text - 1);
    CHECK(flxi_json_next(&j) == FLXI_JSON_ARRAY);
    CHECK(flxi_json_skip(&j, flxi_json_next(&j)));
    CHECK(flxi_json_next(&j) == FLXI_JSON_NUMBER && flxi_json_u64(&j, &u) && u == 5);
    CHECK(flxi_json_skip(&j, flxi_json_next(&j)));
    CHECK(flxi_json_skip(&j, flxi_json_next(&j)));
    CHECK(flxi_json_next(&j) == FLXI_JSON_ARRAY_END);
    j = flxi_json_begin("[1,{", 4);
    CHECK(!flxi_json_skip(&j, flxi_json_next(&j)));
}
