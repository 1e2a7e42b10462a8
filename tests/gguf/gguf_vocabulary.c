/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_vocabulary.c: texts to tokens and back. The tokens of the tables are those that llama.cpp returns for the same
   files. */
#include "gguf/random_model.h"
#include "test.h"

#include <fluxion/decoder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static flx_vocabulary *open_vocabulary(flx_context *ctx, const char *path)
{
    flx_error err = {0};
    flx_gguf *f = flx_gguf_read(ctx, path, &err);
    CHECK_MADE(f, &err);
    flx_vocabulary *v = flx_vocabulary_new(f, &err);
    CHECK_MADE(v, &err);
    flx_gguf_free(f);
    return v;
}

static flx_vocabulary *open_corpus(flx_context *ctx, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/gguf/%s", test_source_dir(), name);
    return open_vocabulary(ctx, path);
}

static void check_tokens(const flx_vocabulary *v, const char *text, uint32_t flags, const char *expected)
{
    flx_error err = {0};
    char found[200] = "";
    flx_tensor *t = flx_vocabulary_encode(v, text, strlen(text), flags, &err);
    CHECK_MADE(t, &err);
    for (int64_t i = 0; i < flx_tensor_count(t); i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%d", i ? " " : "", (int)flx_tensor_get(t, i));
    CHECK_EQ_STR(found, expected);
    flx_tensor_release(t);
}

TEST(gguf_vocabulary_joins_pieces_as_llama_cpp_does)
{
    static const struct {
        const char *text, *tokens;
        uint32_t flags;
    } rows[] = {
        {"the tea", "1 265 264 260 100", 3},
        {" the", "1 259 265", 3},
        {"hehe", "1 259 263 263", 3},
        {"h\xc3\xa9", "1 259 262 198 172", 3},
        {"t  he\n", "1 264 259 259 263 13", 3},
        {"a<s>b", "1 259 100 1 259 101", 3},
        {"a<s>b", "1 259 100 63 118 65 101", 1},
        {"", "1", 3},
        {"the", "265", 0},
    };
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    char path[600];
    snprintf(path, sizeof path, "%s/vocabulary.gguf", test_temp_dir());
    CHECK_OK(random_model_write(ctx, path, "llama", "q8_0", &err), &err);
    flx_vocabulary *v = open_vocabulary(ctx, path);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_tokens(v, rows[i].text, rows[i].flags, rows[i].tokens);
    flx_buffer text = {0};
    CHECK_OK(flx_vocabulary_decode(v, (int32_t[]){1, 265, 264, 260, 198, 172, 2}, 7, &text, &err), &err);
    CHECK_EQ_STR(text.data, " the te\xc3\xa9");
    flx_buffer_free(&text);
    CHECK_CODE(flx_vocabulary_decode(v, (int32_t[]){-1}, 1, &text, &err), FLX_E_INDEX, &err);
    CHECK(flx_vocabulary_is_end(v, 2) && !flx_vocabulary_is_end(v, 265) && flx_vocabulary_find(v, "he") == 263);
    flx_vocabulary_free(v);
    flx_context_free(ctx);
}

TEST(gguf_vocabulary_joins_byte_pairs_as_llama_cpp_does)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_vocabulary *v = open_corpus(ctx, "qwen3_q8_0");
    check_tokens(v, "hello hello", FLX_ENCODE_CONTROLS, "8 4 5 8 4");
    check_tokens(v, "hell<|im_end|>o", FLX_ENCODE_CONTROLS, "8 0 4");
    check_tokens(v, "hehehell", FLX_ENCODE_CONTROLS, "6 6 8");
    CHECK(flx_vocabulary_is_end(v, 0));
    flx_vocabulary_free(v);
    flx_context_free(ctx);
}

/* ▁the (-4.5) is better than ▁ (-2) and the (-4). */
TEST(gguf_vocabulary_finds_the_most_probable_division)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_vocabulary *v = open_corpus(ctx, "gemma_q5_1");
    check_tokens(v, "the the", 0, "7 7");
    check_tokens(v, "hethe", 0, "2 4 5 6");
    flx_vocabulary_free(v);
    flx_context_free(ctx);
}

/* The byte-pair model of the corpus with one byte of `text` changed to x. */
static flx_vocabulary *open_changed(flx_context *ctx, const char *text, size_t at)
{
    static char bytes[100000];
    char path[600];
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/gguf/qwen3_q8_0", test_source_dir());
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    size_t size = fread(bytes, 1, sizeof bytes, f), i = 0;
    fclose(f);
    CHECK(size < sizeof bytes);
    while (i + strlen(text) < size && memcmp(bytes + i, text, strlen(text)) != 0)
        i++;
    CHECK(i + at < size);
    bytes[i + at] = 'x';
    snprintf(path, sizeof path, "%s/changed.gguf", test_temp_dir());
    f = fopen(path, "wb");
    CHECK(f && fwrite(bytes, 1, size, f) == size);
    fclose(f);
    return open_vocabulary(ctx, path);
}

TEST(gguf_vocabulary_warns_of_unknown_divisions_and_missing_kinds_of_tokens)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_vocabulary *v = open_corpus(ctx, "qwen3_q8_0");
    CHECK(!flx_vocabulary_warning(v));
    flx_vocabulary_free(v);
    v = open_changed(ctx, "tokenizer.ggml.pre", strlen("tokenizer.ggml.pre") + 12); /* after its type and length */
    CHECK(flx_vocabulary_warning(v) && strstr(flx_vocabulary_warning(v), "'xwen2'"));
    check_tokens(v, "hello hello", FLX_ENCODE_CONTROLS, "8 4 5 8 4");
    flx_vocabulary_free(v);
    v = open_changed(ctx, "tokenizer.ggml.token_type", 0);
    CHECK(flx_vocabulary_warning(v) && strstr(flx_vocabulary_warning(v), "control tokens"));
    flx_vocabulary_free(v);
    flx_context_free(ctx);
}

TEST(gguf_vocabulary_takes_long_texts_in_little_time)
{
    enum { SIZE = 200000 };
    flx_context *ctx = flx_context_new(NULL);
    static const char *const files[] = {"llama_q4_0", "qwen3_q8_0", "gemma_q5_1"};
    char *text = malloc(SIZE);
    memset(text, 'h', SIZE);
    for (size_t i = 0; i < 3; i++) {
        flx_error err = {0};
        flx_vocabulary *v = open_corpus(ctx, files[i]);
        flx_tensor *t = flx_vocabulary_encode(v, text, SIZE, 0, &err);
        CHECK_MADE(t, &err);
        CHECK(flx_tensor_count(t) >= SIZE);
        flx_tensor_release(t);
        flx_vocabulary_free(v);
    }
    free(text);
    flx_context_free(ctx);
}
