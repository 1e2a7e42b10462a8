/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_reader.c: GGUF files: what is written reads back, parts of split files, and files that are damaged, hostile or
   starved of memory: an error with a location, never a crash or a leak. */
#include "base/context.h"
#include "damage.h"
#include "fault.h"
#include "format/endian.h"
#include "format/file.h"
#include "gguf/random_model.h"
#include "test.h"

#include <fluxion/decoder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Files under construction ---- */

typedef struct {
    unsigned char at[1024];
    size_t n;
} bytes;

static void add_u32(bytes *b, uint32_t v)
{
    flxi_put32(b->at + b->n, v);
    b->n += 4;
}

static void add_u64(bytes *b, uint64_t v)
{
    flxi_put64(b->at + b->n, v);
    b->n += 8;
}

static void add_text(bytes *b, const char *s)
{
    add_u64(b, strlen(s));
    memcpy(b->at + b->n, s, strlen(s));
    b->n += strlen(s);
}

static bytes header(uint32_t version, uint64_t tensors, uint64_t values)
{
    bytes b = {.at = "GGUF", .n = 4};
    add_u32(&b, version);
    add_u64(&b, tensors);
    add_u64(&b, values);
    return b;
}

static void add_tensor(bytes *b, const char *name, uint32_t rank, const uint64_t *dims, uint32_t type, uint64_t offset)
{
    add_text(b, name);
    add_u32(b, rank);
    for (uint32_t i = 0; i < rank; i++)
        add_u64(b, dims[i]);
    add_u32(b, type);
    add_u64(b, offset);
}

static void check_fails(const bytes *b, flx_code code, const char *where, const char *message)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_gguf *f = flx_gguf_decode(ctx, b->at, b->n, "f", &err);
    EXPECT_MSG(!f && err.code == (int32_t)code && strcmp(err.where, where) == 0 && strstr(err.message, message),
               "%s at %s: %s", flx_code_name(err.code), err.where, err.message);
    flx_gguf_free(f);
    flx_context_free(ctx);
}

TEST(gguf_reader_names_the_offset_of_what_is_wrong)
{
    bytes b = header(3, 0, 0);
    b.at[0] = 'X';
    check_fails(&b, FLX_E_SYNTAX, "f:0", "does not begin with GGUF");
    b = header(1, 0, 0);
    check_fails(&b, FLX_E_VERSION, "f:4", "neither 2 nor 3");
    b = header(3u << 24, 0, 0);
    check_fails(&b, FLX_E_UNSUPPORTED, "f:4", "big-endian");
    b = header(3, UINT64_C(1) << 63, 0);
    check_fails(&b, FLX_E_SYNTAX, "f:8", "count is larger");
    b = header(3, 0, UINT64_MAX);
    check_fails(&b, FLX_E_SYNTAX, "f:16", "count is larger");
    b = header(2, 0, 1);
    add_u64(&b, UINT64_MAX); /* a key of that length */
    add_u64(&b, 0);
    check_fails(&b, FLX_E_SYNTAX, "f:24", "count is larger");
    b = header(3, 0, 1);
    add_text(&b, "k");
    add_u32(&b, FLX_GGUF_ARRAY);
    add_u32(&b, FLX_GGUF_ARRAY); /* of arrays of arrays … */
    add_u64(&b, 1);
    add_u32(&b, FLX_GGUF_ARRAY);
    check_fails(&b, FLX_E_SYNTAX, "f:49", "arrays of arrays");
    b = header(3, 0, 1);
    add_text(&b, "k");
    add_u32(&b, 77);
    add_u32(&b, 0);
    check_fails(&b, FLX_E_SYNTAX, "f:37", "unknown kind");
}

TEST(gguf_reader_rejects_impossible_tensors)
{
    const uint64_t huge[] = {UINT64_C(1) << 63, 2}, wide[] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    const uint64_t few[] = {32}, odd[] = {33};
    bytes b = header(3, 1, 0);
    add_tensor(&b, "t", 2, huge, 0, 0);
    check_fails(&b, FLX_E_SIZE, "f:37", "dimension is too large");
    b = header(3, 1, 0);
    add_tensor(&b, "t", 2, wide, 0, 0);
    check_fails(&b, FLX_E_SIZE, "f:24", "larger than the file");
    b = header(3, 1, 0);
    add_tensor(&b, "t", 1, odd, 2, 0);
    check_fails(&b, FLX_E_SYNTAX, "f:24", "whole number of blocks");
    b = header(3, 1, 0);
    add_tensor(&b, "t", 1, few, 9, 0);
    check_fails(&b, FLX_E_UNSUPPORTED, "f:45", "unknown type 9");
    b = header(3, 1, 0);
    add_tensor(&b, "t", 1, few, 2, 7);
    check_fails(&b, FLX_E_SYNTAX, "f:49", "not aligned");
    b = header(3, 1, 0);
    add_tensor(&b, "t", 1, few, 2, 0);
    check_fails(&b, FLX_E_SYNTAX, "f:57", "beyond the end");
    b = header(3, 1, 0);
    add_tensor(&b, "t", 1, few, 2, UINT64_MAX - 31);
    check_fails(&b, FLX_E_SYNTAX, "f:57", "beyond the end");
    b = header(3, 2, 0);
    add_tensor(&b, "t", 1, (const uint64_t[]){0}, 0, 0);
    add_tensor(&b, "t", 1, (const uint64_t[]){0}, 0, 0);
    b.n = 128;
    check_fails(&b, FLX_E_DUP_NAME, "f:0", "'t' occurs twice");
}

/* ---- Round trips ---- */

static const char *write_small(flx_context *ctx, char path[600])
{
    static const float numbers[] = {1, -2, 3.5f};
    static const char *const words[] = {"a", "", "three"};
    static const uint64_t large = UINT64_C(1) << 40;
    static const uint8_t yes = 1;
    flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){2, 32});
    flx_error err = {0};
    float values[64];
    for (int i = 0; i < 64; i++)
        values[i] = (float)(i - 31) / 8;
    flx_tensor *x = flx_tensor_new(ctx, &type, values, &err), *q = flx_gguf_pack(x, "q8_0", &err);
    CHECK_MADE(q, &err);
    const flx_gguf_pair pairs[] = {{"text", FLX_GGUF_STRING, FLX_GGUF_STRING, 1, words + 2},
                                   {"words", FLX_GGUF_ARRAY, FLX_GGUF_STRING, 3, words},
                                   {"numbers", FLX_GGUF_ARRAY, FLX_GGUF_F32, 3, numbers},
                                   {"large", FLX_GGUF_U64, FLX_GGUF_U64, 1, &large},
                                   {"yes", FLX_GGUF_BOOL, FLX_GGUF_BOOL, 1, &yes}};
    const flx_gguf_source tensors[] = {{"x", NULL, x}, {"q", "q8_0", q}};
    snprintf(path, 600, "%s/small.gguf", test_temp_dir());
    CHECK_OK(flx_gguf_write(path, pairs, 5, tensors, 2, &err), &err);
    flx_tensor_release(x);
    flx_tensor_release(q);
    return path;
}

TEST(gguf_file_reads_back_what_was_written)
{
    char path[600];
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_gguf *f = flx_gguf_read(ctx, write_small(ctx, path), &err);
    CHECK_MADE(f, &err);
    size_t size;
    CHECK_EQ_I64(flx_gguf_pair_count(f), 5);
    CHECK(strncmp(flx_gguf_string(f, flx_gguf_find(f, "words"), 2, &size), "three", 5) == 0 && size == 5);
    CHECK(flx_gguf_string(f, flx_gguf_find(f, "words"), 3, &size) == NULL);
    CHECK_NEAR(flx_gguf_number(f, flx_gguf_find(f, "numbers"), 2, 0), 3.5, 0);
    CHECK_NEAR(flx_gguf_number(f, flx_gguf_find(f, "large"), 0, 0), 0x1p40, 0);
    CHECK_NEAR(flx_gguf_number(f, flx_gguf_find(f, "none"), 0, -7), -7, 0);
    flx_gguf_tensor_info info = {.struct_size = sizeof info};
    CHECK_OK(flx_gguf_tensor_at(f, 1, &info, &err), &err);
    CHECK_EQ_STR(info.type, "q8_0");
    CHECK(info.rank == 2 && info.dims[0] == 2 && info.dims[1] == 32 && info.nbytes == 68 && info.offset % 32 == 0);
    flx_tensor *x = flx_gguf_tensor(f, 0, &err), *q = flx_gguf_tensor_f32(f, 1, &err);
    flx_gguf_free(f); /* the tensors keep the memory */
    CHECK_MADE(q, &err);
    for (int i = 0; i < 64; i++) {
        CHECK_NEAR(flx_tensor_get(x, i), (i - 31) / 8.0, 0);
        CHECK_NEAR(flx_tensor_get(q, i), (i - 31) / 8.0, 4.0 / 254 + 0.003);
    }
    flx_tensor_release(x);
    flx_tensor_release(q);
    flx_context_free(ctx);
}

TEST(gguf_packed_numbers_decode_within_half_a_step)
{
    static const struct {
        const char *type;
        double steps; /* between the least and the largest number */
    } types[] = {{"q4_0", 15}, {"q4_1", 15}, {"q5_0", 31}, {"q5_1", 31}, {"q8_0", 254}, {"f16", 2048}, {"bf16", 256}};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){64});
    float x[64];
    uint64_t state = test_seed();
    for (int i = 0; i < 64; i++)
        x[i] = (float)(test_uniform(&state) * 2 - 1);
    flx_tensor *t = flx_tensor_new(ctx, &type, x, &err);
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        char path[600];
        snprintf(path, sizeof path, "%s/packed.gguf", test_temp_dir());
        flx_tensor *q = flx_gguf_pack(t, types[k].type, &err);
        CHECK_MADE(q, &err);
        CHECK_OK(flx_gguf_write(path, NULL, 0, &(flx_gguf_source){"q", types[k].type, q}, 1, &err), &err);
        flx_gguf *f = flx_gguf_read(ctx, path, &err);
        flx_tensor *back = flx_gguf_tensor_f32(f, 0, &err);
        for (int i = 0; i < 64; i++) /* one step at the end that has no code; scales are rounded to f16 */
            CHECK_NEAR(flx_tensor_get(back, i), (double)x[i], 2.1 / types[k].steps);
        flx_tensor_release(back);
        flx_tensor_release(q);
        flx_gguf_free(f);
    }
    flx_tensor_release(t);
    flx_context_free(ctx);
}

TEST(gguf_writer_refuses_what_the_format_lacks)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_type type = flx_type_make(FLX_U8, 1, (flx_dim[]){35});
    flx_tensor *t = flx_tensor_new(ctx, &type, NULL, &err);
    char path[600];
    snprintf(path, sizeof path, "%s/refused.gguf", test_temp_dir());
    CHECK_CODE(flx_gguf_write(path, NULL, 0, &(flx_gguf_source){"t", NULL, t}, 1, &err), FLX_E_UNSUPPORTED, &err);
    CHECK_CODE(flx_gguf_write(path, NULL, 0, &(flx_gguf_source){"t", "q8_0", t}, 1, &err), FLX_E_SHAPE, &err);
    CHECK_CODE(flx_gguf_write(path, &(flx_gguf_pair){"k", 99, 0, 1, "x"}, 1, NULL, 0, &err), FLX_E_USAGE, &err);
    const uint32_t three = 3;
    CHECK_CODE(
        flx_gguf_write(path, &(flx_gguf_pair){"general.alignment", FLX_GGUF_U32, 0, 1, &three}, 1, NULL, 0, &err),
        FLX_E_USAGE, &err);
    CHECK(flx_gguf_read(ctx, path, &err) == NULL && err.code == FLX_E_IO);
    flx_tensor_release(t);
    flx_context_free(ctx);
}

/* ---- Parts ---- */

TEST(gguf_split_file_has_the_tensors_of_all_parts)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){2});
    char path[600];
    const uint16_t parts = 3;
    for (int i = 0; i < 3; i++) {
        float x[2] = {(float)i, (float)-i};
        char name[8];
        flx_tensor *t = flx_tensor_new(ctx, &type, x, &err);
        snprintf(path, sizeof path, "%s/s-%05d-of-00003.gguf", test_temp_dir(), i + 1);
        snprintf(name, sizeof name, "t%d", i);
        CHECK_OK(flx_gguf_write(path, &(flx_gguf_pair){"split.count", FLX_GGUF_U16, 0, 1, &parts}, 1,
                                &(flx_gguf_source){name, NULL, t}, 1, &err),
                 &err);
        flx_tensor_release(t);
    }
    CHECK(flx_gguf_read(ctx, path, &err) == NULL && err.code == FLX_E_SYNTAX); /* the last part alone */
    CHECK(strstr(err.hint, "first part"));
    snprintf(path, sizeof path, "%s/s-00001-of-00003.gguf", test_temp_dir());
    flx_gguf *f = flx_gguf_read(ctx, path, &err);
    CHECK_MADE(f, &err);
    CHECK_EQ_I64(flx_gguf_tensor_count(f), 3);
    flx_tensor *t = flx_gguf_tensor(f, (size_t)flx_gguf_find_tensor(f, "t2"), &err);
    CHECK_NEAR(flx_tensor_get(t, 1), -2, 0);
    flx_tensor_release(t);
    flx_gguf_free(f);
    flx_context_free(ctx);
}

/* ---- Damage ---- */

static flx_tensor *decode_all(flx_context *ctx, const void *data, size_t size, flx_error *err)
{
    flx_gguf *f = flx_gguf_decode(ctx, data, size, "f", err);
    flx_tensor *t = NULL;
    if (!f)
        return NULL;
    for (size_t i = 0; i < flx_gguf_tensor_count(f); i++) {
        flx_tensor_release(t);
        t = flx_gguf_tensor_f32(f, i, err);
        if (!t)
            break;
    }
    if (flx_gguf_tensor_count(f) == 0)
        t = flx_tensor_new(ctx, &(flx_type){.dtype = FLX_F32}, NULL, err);
    flx_gguf_free(f);
    return t;
}

TEST(gguf_reader_withstands_damaged_files)
{
    static const flxi_allocator mem = {flxi_default_alloc, NULL};
    char path[600];
    flxi_file_bytes f;
    flx_context *ctx = flx_context_new(NULL);
    CHECK(flxi_file_read(&f, &mem, write_small(ctx, path), 0, NULL) == FLX_OK);
    flx_context_free(ctx);
    size_t n = f.size - 28; /* without the padding after the last tensor, of which nothing may be missing */
    damage_everywhere(decode_all, f.bytes, n, 1 << 16);
    damage_allocations(decode_all, f.bytes, n);
    flxi_file_free(&f);
}

TEST(gguf_decoder_refuses_files_that_are_no_model)
{
    char path[600];
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_gguf *f = flx_gguf_read(ctx, write_small(ctx, path), &err);
    CHECK(flx_decoder_new(f, NULL, &err) == NULL && err.code == FLX_E_NAME && strstr(err.message, "architecture"));
    CHECK(flx_vocabulary_new(f, &err) == NULL && err.code == FLX_E_NAME && strstr(err.message, "tokenizer"));
    flx_gguf_free(f);
    flx_context_free(ctx);
}
