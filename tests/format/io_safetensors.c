/* SPDX-License-Identifier: Apache-2.0 */
/* io_safetensors.c: .safetensors files: dtypes, headers good and bad, damage, and reading from disk. */
#include "test.h"

#include "damage.h"
#include "fault.h"
#include "format/endian.h"

#include <fluxion/tensor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    unsigned char bytes[4096];
    size_t size;
} file;

static file make_file(const char *header, const void *data, size_t n)
{
    file f = {.size = 8};
    flxi_put64(f.bytes, strlen(header));
    memcpy(f.bytes + f.size, header, strlen(header));
    f.size += strlen(header);
    if (n)
        memcpy(f.bytes + f.size, data, n);
    f.size += n;
    return f;
}

static flx_tensor *decode(flx_context *ctx, const file *f, const char *key, flx_error *err)
{
    unsigned char *copy = malloc(f->size ? f->size : 1);
    CHECK(copy);
    memcpy(copy, f->bytes, f->size);
    flx_tensor *t = flx_safetensors_decode(ctx, copy, f->size, key, err);
    free(copy);
    return t;
}

TEST(safetensors_reads_every_dtype)
{
    static const struct {
        const char *name;
        int32_t dtype;
        size_t n;
        const char *data; /* 1 and 2 */
    } rows[] = {
        {"F64", FLX_F64, 16, "\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\x40"},
        {"F32", FLX_F32, 8, "\0\0\x80\x3f\0\0\0\x40"},
        {"F16", FLX_F16, 4, "\0\x3c\0\x40"},
        {"BF16", FLX_BF16, 4, "\x80\x3f\0\x40"},
        {"C64", FLX_C64, 16, "\0\0\x80\x3f\0\0\x40\x40\0\0\0\x40\0\0\0\0"},
        {"I64", FLX_I64, 16, "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"},
        {"I32", FLX_I32, 8, "\1\0\0\0\2\0\0\0"},
        {"I16", FLX_I16, 4, "\1\0\2\0"},
        {"I8", FLX_I8, 2, "\1\2"},
        {"U64", FLX_U64, 16, "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"},
        {"U32", FLX_U32, 8, "\1\0\0\0\2\0\0\0"},
        {"U16", FLX_U16, 4, "\1\0\2\0"},
        {"U8", FLX_U8, 2, "\1\2"},
    };
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char header[200];
        snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[1,2],\"data_offsets\":[0,%zu]}}",
                 rows[i].name, rows[i].n);
        file f = make_file(header, rows[i].data, rows[i].n);
        flx_error err = {0};
        flx_tensor *t = decode(ctx, &f, "t", &err);
        test_fail_context("%s: %s", rows[i].name, err.message);
        CHECK(t);
        CHECK_EQ_I64(flx_tensor_type(t)->dtype, rows[i].dtype);
        CHECK(flx_tensor_type(t)->rank == 2 && flx_tensor_type(t)->dims[0] == 1 && flx_tensor_type(t)->dims[1] == 2);
        CHECK(flx_tensor_get(t, 0) == 1.0 && flx_tensor_get(t, 1) == 2.0);
        flx_tensor_release(t);
    }
    file f = make_file("{\"t\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[0,3]}}", "\0\1\7", 3);
    flx_tensor *t = decode(ctx, &f, "t", NULL);
    CHECK(t && memcmp(flx_tensor_const_data(t), "\0\1\1", 3) == 0);
    flx_tensor_release(t);
    flx_context_free(ctx);
}

static const char three[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                            "\"a.w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                            "\"b\":{\"data_offsets\":[2,3],\"shape\":[],\"x\":[{}],\"dtype\":\"I8\"},"
                            "\"\\u00e9\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,0],\"data_offsets\":[3,3]},"
                            "\"z\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[3,3]}}   ";

TEST(safetensors_finds_its_tensors)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    file f = make_file(three, "\5\6\xff", 3);
    flx_tensor *t = decode(ctx, &f, "a.w", &err);
    CHECK_MSG(t, "%s", err.message);
    CHECK(flx_tensor_get(t, 0) == 5.0 && flx_tensor_get(t, 1) == 6.0);
    flx_tensor_release(t);
    t = decode(ctx, &f, "b", &err);
    CHECK(t && flx_tensor_type(t)->rank == 0 && flx_tensor_get(t, 0) == -1.0);
    flx_tensor_release(t);
    t = decode(ctx, &f, "z", &err);
    CHECK(t && flx_tensor_count(t) == 0);
    flx_tensor_release(t);
    CHECK(!decode(ctx, &f, "\xc3\xa9", &err));
    CHECK_EQ_I64(err.code, FLX_E_UNSUPPORTED);
    CHECK_MSG(strstr(err.message, "F8_E4M3"), "%s", err.message);
    CHECK(!decode(ctx, &f, "a", &err));
    CHECK_EQ_I64(err.code, FLX_E_NAME);
    CHECK_MSG(strstr(err.message, "'a'"), "%s", err.message);
    CHECK_EQ_STR(err.hint, "available: a.w, b, ??, z");
    CHECK(!decode(ctx, &f, "__metadata__", &err));
    CHECK_EQ_I64(err.code, FLX_E_NAME);
    CHECK(!flx_safetensors_decode(ctx, f.bytes, f.size, NULL, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_safetensors_decode(NULL, f.bytes, f.size, "a", &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_safetensors_decode(ctx, NULL, 9, "a", NULL));
    flx_context_free(ctx);
}

TEST(safetensors_hint_names_only_a_few)
{
    char header[3000] = "{";
    size_t k = 1;
    for (int i = 0; i < 30; i++)
        k += (size_t)snprintf(header + k, sizeof header - k,
                              "\"block.%d.weight\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}%s", i,
                              i < 29 ? "," : "}");
    flx_context *ctx = flx_context_new(NULL);
    flx_error err;
    file f = make_file(header, NULL, 0);
    CHECK(!decode(ctx, &f, "x", &err));
    CHECK_EQ_STR(err.hint, "available: block.0.weight, block.1.weight, block.2.weight, block.3.weight, block.4.weight "
                           "and 25 more");
    memset(header, 'n', sizeof header); /* too long to show */
    memcpy(header, "{\"", 2);
    snprintf(header + 90, sizeof header - 90, "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}");
    f = make_file(header, NULL, 0);
    CHECK(!decode(ctx, &f, "x", &err));
    CHECK_EQ_STR(err.hint, "it has 1 with long names");
    flx_context_free(ctx);
}

#define T(text) "{\"t\":{" text "}}"
#define GOOD "\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]"

TEST(safetensors_bad_headers_are_refused)
{
    static const struct {
        const char *header;
        int32_t code;
    } rows[] = {
        {"", FLX_E_SYNTAX},
        {" {}", FLX_E_SYNTAX},
        {"[]", FLX_E_SYNTAX},
        {"{", FLX_E_SYNTAX},
        {"{}x", FLX_E_SYNTAX},
        {"{}", FLX_E_NAME},
        {"{\"t\":1}", FLX_E_SYNTAX},
        {"{\"t\":[]}", FLX_E_SYNTAX},
        {"{\"__metadata__\":{\"a\":}," GOOD "}", FLX_E_SYNTAX},
        {T(""), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":[2]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"data_offsets\":[0,2]"), FLX_E_SYNTAX},
        {T("\"shape\":[2],\"data_offsets\":[0,2]"), FLX_E_SYNTAX},
        {T(GOOD ",\"dtype\":\"U8\""), FLX_E_SYNTAX},
        {T(GOOD ",\"y\":tru"), FLX_E_SYNTAX},
        {"{\"t\":{" GOOD "},\"t\":{" GOOD "}}", FLX_E_SYNTAX},
        {"{\"t\":{" GOOD "},\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,4]}}", FLX_E_SYNTAX},
        {"{\"t\":{" GOOD "},\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,1]}}", FLX_E_SYNTAX},
        {"{\"t\":{" GOOD "},}", FLX_E_SYNTAX},
        {T("\"dtype\":8,\"shape\":[2],\"data_offsets\":[0,2]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":2,\"data_offsets\":[0,2]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":[\"2\"],\"data_offsets\":[0,2]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":[[2]],\"data_offsets\":[0,2]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":[-2],\"data_offsets\":[0,2]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":[2.0],\"data_offsets\":[0,2]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":[9223372036854775808],\"data_offsets\":[0,2]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":[9223372036854775807],\"data_offsets\":[0,2]"), FLX_E_SIZE},
        {T("\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,2]"), FLX_E_SIZE},
        {T("\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,2]"), FLX_E_UNSUPPORTED},
        {T("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2,2]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,0]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,1]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[18446744073709551614,18446744073709551615]"),
         FLX_E_SYNTAX},
        {T("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,18446744073709551616]"), FLX_E_SYNTAX},
        {T("\"dtype\":\"U9\",\"shape\":[2],\"data_offsets\":[0,2]"), FLX_E_UNSUPPORTED},
        {T("\"dtype\":\"\",\"shape\":[2],\"data_offsets\":[0,2]"), FLX_E_UNSUPPORTED},
        {T("\"dtype\":\"u8\",\"shape\":[2],\"data_offsets\":[0,2]"), FLX_E_UNSUPPORTED},
        {T(GOOD), FLX_OK},
    };
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        file f = make_file(rows[i].header, "\1\2", 2);
        flx_tensor *t = decode(ctx, &f, "t", &err);
        test_fail_context("%s", rows[i].header);
        CHECK_MSG(err.code == rows[i].code && !t == (rows[i].code != FLX_OK), "%s: %s", flx_code_name(err.code),
                  err.message);
        flx_tensor_release(t);
    }
    flx_context_free(ctx);
}

TEST(safetensors_header_length_is_checked)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err;
    file f = make_file(T(GOOD), "\1\2", 2);
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 7, INT64_MAX, 1 << 20, 61};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        flxi_put64(f.bytes, lengths[i]);
        CHECK(!decode(ctx, &f, "t", &err));
        CHECK_EQ_I64(err.code, FLX_E_SYNTAX);
    }
    f.size = 7;
    CHECK(!decode(ctx, &f, "t", &err) && err.code == FLX_E_SYNTAX);
    flx_context_free(ctx);

    ctx = flx_context_new(&(flx_context_options){.memory_limit = 20}); /* the header is longer */
    f = make_file(T(GOOD), "\1\2", 2);
    CHECK(!decode(ctx, &f, "t", &err) && err.code == FLX_E_SIZE);
    flx_context_free(ctx);
}

static flx_tensor *decode_aw(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    return flx_safetensors_decode(ctx, bytes, size, "a.w", err);
}

TEST(safetensors_withstands_damage)
{
    file f = make_file(three, "\5\6\xff", 3);
    damage_everywhere(decode_aw, f.bytes, f.size, 512);
    damage_allocations(decode_aw, f.bytes, f.size);
}

/* ---- Files ---- */

static const char *temp_path(void)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/disk.safetensors", test_temp_dir());
    return path;
}

static flx_tensor *read_from_disk(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    FILE *out = fopen(temp_path(), "wb");
    CHECK(out);
    CHECK(fwrite(bytes, 1, size, out) == size);
    fclose(out);
    return flx_safetensors_read(ctx, temp_path(), "a.w", err);
}

TEST(safetensors_file_reading_withstands_damage)
{
    file f = make_file(three, "\5\6\xff", 3);
    damage_everywhere(read_from_disk, f.bytes, f.size, 512);
    damage_allocations(read_from_disk, f.bytes, f.size);
}

TEST(safetensors_file_errors_name_the_path)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err;
    CHECK(!flx_safetensors_read(ctx, "/no/such.safetensors", "t", &err));
    CHECK_EQ_I64(err.code, FLX_E_IO);
    CHECK_EQ_STR(err.where, "/no/such.safetensors");
    CHECK(!flx_safetensors_read(ctx, NULL, "t", &err) && err.code == FLX_E_USAGE);
    flx_context_free(ctx);
}

/* Only the header and the tensor are read into memory, however large the file. */
TEST(safetensors_reads_only_what_is_asked_for)
{
    FILE *out = fopen(temp_path(), "wb");
    CHECK(out);
    char header[200];
    int n = snprintf(header, sizeof header,
                     "{\"big\":{\"dtype\":\"U8\",\"shape\":[100000000],\"data_offsets\":[0,100000000]},"
                     "\"t\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[100000000,100000002]}}");
    unsigned char length[8];
    flxi_put64(length, (uint64_t)n);
    fwrite(length, 1, 8, out);
    fwrite(header, 1, (size_t)n, out);
    CHECK(fseek(out, 100000000, SEEK_CUR) == 0); /* a hole: takes no room on disk */
    fwrite("\3\4", 1, 2, out);
    fclose(out);
    fault f = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
    flx_error err;
    f.largest = 0;
    flx_tensor *t = flx_safetensors_read(ctx, temp_path(), "t", &err);
    CHECK_MSG(t, "%s", err.message);
    CHECK(flx_tensor_get(t, 0) == 3.0 && flx_tensor_get(t, 1) == 4.0 && f.largest < 1024);
    flx_tensor_release(t);
    flx_context_free(ctx);
    CHECK(fault_is_clean(&f));
}

/* ---- Writing ---- */

TEST(safetensors_written_to_the_byte)
{
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                                 "\"b\":{\"dtype\":\"I16\",\"shape\":[1,1],\"data_offsets\":[3,5]}}";
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_type types[2] = {flx_type_make(FLX_U8, 1, (const int64_t[]){3}),
                         flx_type_make(FLX_I16, 2, (const int64_t[]){1, 1})};
    const flx_tensor *tensors[2] = {flx_tensor_new(ctx, &types[0], "\1\2\3", &err),
                                    flx_tensor_new(ctx, &types[1], &(int16_t){0x0504}, &err)};
    const char *path = temp_path();
    CHECK_OK((int32_t)flx_safetensors_write(path, (const char *const[]){"a", "b"}, tensors, 2, &err), &err);
    unsigned char bytes[300];
    FILE *f = fopen(path, "rb");
    CHECK(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    size_t padded = (sizeof header - 1 + 7) / 8 * 8;
    CHECK_EQ_U64(n, 8 + padded + 5);
    CHECK_EQ_U64(flxi_get64(bytes), padded);
    CHECK(memcmp(bytes + 8, header, sizeof header - 1) == 0);
    for (size_t i = sizeof header - 1; i < padded; i++)
        CHECK(bytes[8 + i] == ' ');
    CHECK(memcmp(bytes + 8 + padded, "\1\2\3\4\5", 5) == 0);
    flx_tensor_release((flx_tensor *)(uintptr_t)tensors[0]);
    flx_tensor_release((flx_tensor *)(uintptr_t)tensors[1]);
    flx_context_free(ctx);
}

/* One tensor of each dtype, with elements that are not symmetric in their bytes. */
TEST(safetensors_write_and_read_give_the_same_tensors)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    const flx_tensor *tensors[FLX_DTYPE_COUNT];
    char names[FLX_DTYPE_COUNT][40];
    const char *keys[FLX_DTYPE_COUNT];
    size_t count = 0;
    for (int32_t d = FLX_DTYPE_NONE + 1; d < FLX_DTYPE_COUNT; d++) {
        if (d == FLX_C128)
            continue;
        unsigned char data[64];
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = d == FLX_BOOL ? i % 3 == 0 : (unsigned char)(i + 1);
        flx_type type = flx_type_make((flx_dtype)d, 2, (const int64_t[]){2, 3});
        tensors[count] = flx_tensor_new(ctx, &type, data, &err);
        CHECK(tensors[count]);
        snprintf(names[count], sizeof *names, "a \"\\%s\"\n\x01\xc3\xa9", flx_dtype_name(d));
        keys[count] = names[count];
        count++;
    }
    const char *path = temp_path();
    CHECK_OK((int32_t)flx_safetensors_write(path, keys, tensors, count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        flx_tensor *t = flx_safetensors_read(ctx, path, keys[i], &err);
        CHECK_MSG(t, "%s", err.message);
        CHECK_EQ_I64(flx_tensor_type(t)->dtype, flx_tensor_type(tensors[i])->dtype);
        CHECK(flx_tensor_type(t)->rank == 2 && flx_tensor_type(t)->dims[0] == 2 && flx_tensor_type(t)->dims[1] == 3);
        CHECK(memcmp(flx_tensor_const_data(t), flx_tensor_const_data(tensors[i]), flx_tensor_nbytes(t)) == 0);
        flx_tensor_release(t);
        flx_tensor_release((flx_tensor *)(uintptr_t)tensors[i]);
    }
    flx_context_free(ctx);
}

TEST(safetensors_write_refuses)
{
    fault f = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
    flx_error err = {0};
    flx_type types[3] = {flx_type_make(FLX_F32, 0, NULL), flx_type_make(FLX_I8, 1, (const int64_t[]){0}),
                         flx_type_make(FLX_C128, 0, NULL)};
    const flx_tensor *t[3];
    for (int i = 0; i < 3; i++)
        t[i] = flx_tensor_new(ctx, &types[i], NULL, &err);
    const char *path = temp_path();
    static const char *const keys[3] = {"a", "b", "c"};
    CHECK_OK((int32_t)flx_safetensors_write(path, keys, t, 2, &err), &err);
    CHECK_EQ_I64(flx_safetensors_write(path, keys, t, 3, &err), FLX_E_UNSUPPORTED);
    CHECK_MSG(strstr(err.message, "'c'") && strstr(err.message, "c128"), "%s", err.message);
    CHECK_EQ_STR(err.where, path);
    CHECK_EQ_I64(flx_safetensors_write(path, (const char *const[]){"a", "a"}, t, 2, &err), FLX_E_DUP_NAME);
    CHECK_EQ_I64(flx_safetensors_write(path, (const char *const[]){"a", ""}, t, 2, &err), FLX_E_NAME);
    CHECK_EQ_I64(flx_safetensors_write(path, (const char *const[]){"__metadata__"}, t, 1, &err), FLX_E_NAME);
    CHECK_EQ_I64(flx_safetensors_write(path, (const char *const[]){"a", NULL}, t, 2, &err), FLX_E_USAGE);
    CHECK_EQ_I64(flx_safetensors_write(NULL, keys, t, 2, &err), FLX_E_USAGE);
    CHECK_EQ_I64(flx_safetensors_write("/no/such/folder/x", keys, t, 2, &err), FLX_E_IO);
    flx_tensor *old = flx_safetensors_read(ctx, path, "b", &err); /* failures left the old file */
    CHECK(old && flx_tensor_count(old) == 0);
    flx_tensor_release(old);
    size_t before = f.calls;
    CHECK_OK((int32_t)flx_safetensors_write(path, keys, t, 2, &err), &err);
    size_t calls = f.calls - before;
    for (size_t n = 1; n <= calls; n++) {
        size_t live = f.live_blocks;
        f.fail_at = f.calls + n;
        test_fail_context("allocation %zu of %zu fails", n, calls);
        CHECK_CODE((int32_t)flx_safetensors_write(path, keys, t, 2, &err), FLX_E_OOM, &err);
        CHECK_EQ_U64(f.live_blocks, live);
    }
    f.fail_at = 0;
    CHECK_OK((int32_t)flx_safetensors_write(path, NULL, NULL, 0, &err), &err);
    CHECK(!flx_safetensors_read(ctx, path, "a", &err) && err.code == FLX_E_NAME);
    for (int i = 0; i < 3; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)t[i]);
    flx_context_free(ctx);
}
