/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.c: the byte-pair tokeniser: against a plain implementation of the definition, round trips, files, limits. */
#include "test.h"

#include "damage.h"
#include "fault.h"

#include <fluxion/data.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static flx_tokeniser *trained(flx_context *ctx, const char *text, int64_t vocabulary)
{
    flx_error err = {0};
    flx_tokeniser *t = flx_tokeniser_train(ctx, text, strlen(text), vocabulary, &err);
    CHECK_MADE(t, &err);
    return t;
}

/* Encodes and decodes; returns the number of tokens. */
static int64_t round_trip(const flx_tokeniser *t, const char *text, size_t size)
{
    flx_error err = {0};
    flx_buffer back = {0};
    flx_tensor *tokens = flx_tokeniser_encode(t, text, size, &err);
    CHECK_MADE(tokens, &err);
    int64_t n = flx_tensor_count(tokens);
    CHECK_OK(flx_tokeniser_decode(t, flx_tensor_const_data(tokens), (size_t)n, &back, &err), &err);
    CHECK(back.size == size && memcmp(back.data, text, size) == 0);
    flx_buffer_free(&back);
    flx_tensor_release(tokens);
    return n;
}

/* ---- The definition, as plainly as it can be written ---- */

enum { TEXT_MAX = 4000, JOINS_MAX = 60 };

static bool is_word(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 128;
}

/* Pieces of text that has letters and single blanks only: each blank begins one. */
static void split_plainly(const char *text, size_t n, int *piece)
{
    for (size_t i = 0, k = 0; i < n; i++) {
        k += i > 0 && text[i] == ' ';
        piece[i] = (int)k;
        CHECK(is_word((unsigned char)text[i]) || (text[i] == ' ' && i + 1 < n && text[i + 1] != ' '));
    }
}

static size_t learn_plainly(const char *text, size_t n, int joins[][2], size_t most, int *tokens, size_t *count)
{
    static int piece[TEXT_MAX];
    split_plainly(text, n, piece);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (unsigned char)text[i];
    for (size_t learned = 0;; learned++) {
        int best = 1, left = -1, right = -1;
        for (size_t i = 0; i + 1 < n; i++) { /* the count of every pair, again and again */
            int a = tokens[i], b = tokens[i + 1], found = 0;
            if (piece[i] != piece[i + 1])
                continue;
            for (size_t k = 0; k + 1 < n; k++)
                found += piece[k] == piece[k + 1] && tokens[k] == a && tokens[k + 1] == b;
            bool is_better = found > best || (found == best && best > 1 && (a < left || (a == left && b < right)));
            if (is_better) {
                best = found;
                left = a;
                right = b;
            }
        }
        if (left < 0 || learned == most) {
            *count = n;
            return learned;
        }
        joins[learned][0] = left;
        joins[learned][1] = right;
        size_t k = 0;
        for (size_t i = 0; i < n; k++) {
            bool is_it = i + 1 < n && piece[i] == piece[i + 1] && tokens[i] == left && tokens[i + 1] == right;
            piece[k] = piece[i];
            tokens[k] = is_it ? 256 + (int)learned : tokens[i];
            i += is_it ? 2 : 1;
        }
        n = k;
    }
}

TEST(tokeniser_learns_what_the_definition_says)
{
    flx_context *ctx = flx_context_new(NULL);
    uint64_t state = test_seed();
    for (int round = 0; round < 30; round++) {
        char text[200];
        int joins[JOINS_MAX][2], tokens[TEXT_MAX];
        size_t n = 0, count;
        unsigned letters = 2 + (unsigned)(test_random(&state) % 4);
        while (n < 150) { /* words of a few letters, runs included: aaaa */
            if (n)
                text[n++] = ' ';
            for (size_t k = 1 + test_random(&state) % 7; k > 0; k--)
                text[n++] = (char)('a' + test_random(&state) % letters);
        }
        text[n] = 0;
        test_fail_context("%s", text);
        size_t learned = learn_plainly(text, n, joins, JOINS_MAX, tokens, &count);
        flx_tokeniser *t = trained(ctx, text, 256 + JOINS_MAX);
        CHECK_EQ_I64(flx_tokeniser_size(t), 256 + learned);
        flx_buffer shown = {0};
        CHECK_OK(flx_tokeniser_print(t, &shown, NULL), NULL);
        const char *at = strstr(shown.data, "[");
        for (size_t i = 0; i < learned; i++) {
            char expected[40];
            snprintf(expected, sizeof expected, "\n[%d, %d]", joins[i][0], joins[i][1]);
            at++;
            CHECK_MSG(strncmp(at, expected, strlen(expected)) == 0, "pair %zu: %.20s instead of %s", i, at, expected);
            at += strlen(expected);
        }
        flx_buffer_free(&shown);
        flx_tensor *encoded = flx_tokeniser_encode(t, text, n, NULL);
        CHECK_EQ_I64(flx_tensor_count(encoded), count);
        for (size_t i = 0; i < count; i++)
            CHECK_EQ_I64(flx_tensor_get(encoded, (int64_t)i), tokens[i]);
        flx_tensor_release(encoded);
        flx_tokeniser_free(t);
    }
    flx_context_free(ctx);
}

TEST(tokeniser_gives_back_any_bytes)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_buffer text = {0};
    CHECK_OK(flx_demo_text(ctx, 20000, 3, &text, NULL), NULL);
    flx_tokeniser *t = flx_tokeniser_train(ctx, text.data, text.size, 500, NULL);
    CHECK(t && flx_tokeniser_size(t) == 500);
    int64_t n = round_trip(t, text.data, text.size);
    CHECK_MSG(n * 3 < (int64_t)text.size, "%lld tokens for %zu bytes", (long long)n, text.size);
    uint64_t state = test_seed();
    for (int round = 0; round < 300; round++) {
        char bytes[300];
        size_t size = test_random(&state) % sizeof bytes;
        for (size_t i = 0; i < size; i++)
            bytes[i] = round % 2 ? (char)test_random(&state) : " \n\tthe3.\xc3\xa9"[test_random(&state) % 10];
        round_trip(t, bytes, size);
    }
    CHECK_EQ_I64(round_trip(t, "", 0), 0);
    flx_tokeniser_free(t);
    flx_buffer_free(&text);
    flx_context_free(ctx);
}

TEST(tokeniser_is_written_and_read)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    char path[700];
    snprintf(path, sizeof path, "%s/tokens.json", test_temp_dir());
    flx_tokeniser *t = trained(ctx, "the cat and the hat and the bat", 300);
    CHECK(flx_tokeniser_size(t) > 256 && flx_tokeniser_size(t) < 300); /* no pair is left that occurs twice */
    CHECK_OK(flx_tokeniser_write(t, path, &err), &err);
    flx_tokeniser *back = flx_tokeniser_read(ctx, path, &err);
    CHECK_MADE(back, &err);
    flx_buffer a = {0}, b = {0};
    CHECK_OK(flx_tokeniser_print(t, &a, &err), &err);
    CHECK_OK(flx_tokeniser_print(back, &b, &err), &err);
    CHECK_EQ_STR(a.data, b.data);
    CHECK_EQ_I64(round_trip(t, "the rat", 7), round_trip(back, "the rat", 7));
    flx_buffer_free(&a);
    flx_buffer_free(&b);
    CHECK(!flx_tokeniser_read(ctx, test_missing_path("t.json"), &err) && err.code == FLX_E_IO);
    CHECK_EQ_STR(err.where, test_missing_path("t.json"));
    CHECK_CODE(flx_tokeniser_write(t, test_missing_path("t.json"), &err), FLX_E_IO, &err);
    CHECK_CODE(flx_tokeniser_decode(t, (int32_t[]){97, -1}, 2, &a, &err), FLX_E_INDEX, &err);
    CHECK_CODE(flx_tokeniser_decode(t, (int32_t[]){1000}, 1, &a, &err), FLX_E_INDEX, &err);
    CHECK_EQ_STR(err.message, "token 0 is 1000, but there are 263 tokens");
    CHECK(!flx_tokeniser_train(ctx, "a", 1, 255, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_tokeniser_train(ctx, "a", 1, 1 << 21, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_tokeniser_train(NULL, "a", 1, 300, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_tokeniser_encode(NULL, "a", 1, &err) && err.code == FLX_E_USAGE);
    flx_tokeniser_free(NULL);
    flx_tokeniser_free(t);
    flx_tokeniser_free(back);
    flx_context_free(ctx);
}

TEST(tokeniser_wrong_files_are_refused)
{
#define HEAD "{\"format\": \"fluxion tokeniser\", \"version\": 1, \"pairs\": ["
    static const struct {
        const char *text;
        flx_code code;
        const char *message;
    } rows[] = {
        {"", FLX_E_SYNTAX, "expected a value"},
        {"[]", FLX_E_SYNTAX, "it does not begin with"},
        {"{\"format\": \"bpe\"}", FLX_E_SYNTAX, "it does not begin with"},
        {"{\"format\": \"fluxion tokeniser\"}", FLX_E_SYNTAX, "expected the version"},
        {"{\"format\": \"fluxion tokeniser\", \"version\": 2, \"pairs\": []}", FLX_E_VERSION, "version 2"},
        {"{\"format\": \"fluxion tokeniser\", \"version\": 1}", FLX_E_SYNTAX, "expected the pairs"},
        {"{\"format\": \"fluxion tokeniser\", \"version\": 1, \"pairs\": 3}", FLX_E_SYNTAX, "must be a list"},
        {HEAD "3]}", FLX_E_SYNTAX, "a list of lists"},
        {HEAD "[1]]}", FLX_E_SYNTAX, "two numbers of earlier tokens"},
        {HEAD "[1, 2, 3]]}", FLX_E_SYNTAX, "two numbers of earlier tokens"},
        {HEAD "[1, 256]]}", FLX_E_SYNTAX, "two numbers of earlier tokens"},
        {HEAD "[1, -2]]}", FLX_E_SYNTAX, "two numbers of earlier tokens"},
        {HEAD "[1, 2], [1, 2]]}", FLX_E_SYNTAX, "a pair is listed twice"},
        {HEAD "[1, 1], [256, 256], [257, 257], [258, 258], [259, 259], [260, 260], [261, 261]]}", FLX_E_SYNTAX,
         "more than 64 bytes"},
        {HEAD "[1, 2]]}x", FLX_E_SYNTAX, "data follows the end"},
        {HEAD "[1, 2]], \"x\": 1}", FLX_E_SYNTAX, "expected the end"},
    };
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        CHECK(!flx_tokeniser_parse(ctx, rows[i].text, strlen(rows[i].text), &err));
        CHECK_MSG(err.code == rows[i].code && strstr(err.message, rows[i].message), "%s: %s: %s", rows[i].text,
                  flx_code_name(err.code), err.message);
    }
    flx_context_free(ctx);
}

/* For damage.h: the tokens of a word. */
static flx_tensor *parse_and_encode(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    flx_tokeniser *t = flx_tokeniser_parse(ctx, bytes, size, err);
    flx_tensor *tokens = t ? flx_tokeniser_encode(t, "abcabc abc", 10, err) : NULL;
    flx_tokeniser_free(t);
    return tokens;
}

static flx_tensor *train_and_encode(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    flx_tokeniser *t = flx_tokeniser_train(ctx, bytes, size, 270, err);
    flx_tensor *tokens = t ? flx_tokeniser_encode(t, bytes, size, err) : NULL;
    flx_tokeniser_free(t);
    return tokens;
}

TEST(tokeniser_withstands_damage)
{
    static const char text[] = HEAD "[97, 98], [256, 99], [32, 257], [257, 257]]}";
    damage_everywhere(parse_and_encode, text, sizeof text - 1, 8192);
    damage_allocations(parse_and_encode, text, sizeof text - 1);
    damage_allocations(train_and_encode, "the cat and the hat and the bat and the rat", 43);
}

/* Text without any break is the slowest: still proportional to its length. */
TEST(tokeniser_is_linear_for_hostile_text)
{
    flx_context *ctx = flx_context_new(NULL);
    size_t n = 1 << 18;
    char *text = malloc(n);
    CHECK(text);
    memset(text, 'a', n);
    flx_tokeniser *t = flx_tokeniser_train(ctx, text, 4096, 300, NULL);
    CHECK(t);
    CHECK_EQ_I64(flx_tokeniser_size(t), 262); /* 2, 4, … 64 bytes */
    CHECK_EQ_I64(round_trip(t, text, n), (int64_t)n / 64);
    flx_tokeniser_free(t);
    free(text);
    flx_context_free(ctx);
}
