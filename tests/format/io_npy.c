/* SPDX-License-Identifier: Apache-2.0 */
/* io_npy.c: .npy files: dtypes, orders, versions, headers good and bad, damage, and writing. */
#include "test.h"

#include "damage.h"

#include <fluxion/tensor.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    unsigned char bytes[2048];
    size_t size;
} file;

/* A .npy file with this text as its header, unpadded. */
static file make_npy(int major, const char *header, const void *data, size_t n)
{
    file f = {.size = 0};
    size_t length = strlen(header);
    memcpy(f.bytes, "\x93NUMPY", 6);
    f.bytes[6] = (unsigned char)major;
    f.bytes[8] = (unsigned char)(length & 255);
    f.bytes[9] = (unsigned char)(length >> 8);
    f.size = major == 1 ? 10 : 12;
    memcpy(f.bytes + f.size, header, length);
    f.size += length;
    if (n)
        memcpy(f.bytes + f.size, data, n);
    f.size += n;
    return f;
}

static flx_tensor *decode(flx_context *ctx, const file *f, flx_error *err)
{
    unsigned char *copy = malloc(f->size ? f->size : 1); /* of the exact size, for the sanitizer */
    CHECK(copy);
    memcpy(copy, f->bytes, f->size);
    flx_tensor *t = flx_npy_decode(ctx, copy, f->size, err);
    free(copy);
    return t;
}

/* ---- Reading ---- */

static const struct {
    const char *descr;
    int32_t dtype;
    size_t n;
    const char *data; /* two elements, 1 and 2 unless noted otherwise */
} dtypes[] = {
    {"<f8", FLX_F64, 16, "\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\x40"},
    {">f8", FLX_F64, 16, "\x3f\xf0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0"},
    {"<f4", FLX_F32, 8, "\0\0\x80\x3f\0\0\0\x40"},
    {">f4", FLX_F32, 8, "\x3f\x80\0\0\x40\0\0\0"},
    {"<f2", FLX_F16, 4, "\0\x3c\0\x40"},
    {">f2", FLX_F16, 4, "\x3c\0\x40\0"},
    {"<c8", FLX_C64, 16, "\0\0\x80\x3f\0\0\x40\x40\0\0\0\x40\0\0\0\0"},
    {">c8", FLX_C64, 16, "\x3f\x80\0\0\x40\x40\0\0\x40\0\0\0\0\0\0\0"},
    {"<i8", FLX_I64, 16, "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"},
    {">i8", FLX_I64, 16, "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2"},
    {"<i4", FLX_I32, 8, "\1\0\0\0\2\0\0\0"},
    {">i2", FLX_I16, 4, "\0\1\0\2"},
    {"|i1", FLX_I8, 2, "\1\2"},
    {"<u8", FLX_U64, 16, "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"},
    {">u4", FLX_U32, 8, "\0\0\0\1\0\0\0\2"},
    {"<u2", FLX_U16, 4, "\1\0\2\0"},
    {"|u1", FLX_U8, 2, "\1\2"},
    {"=u1", FLX_U8, 2, "\1\2"},
    {"u1", FLX_U8, 2, "\1\2"},
};

TEST(npy_reads_every_dtype)
{
    flx_context *ctx = flx_context_new(NULL);
    CHECK(ctx);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        char header[128];
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (2,), }\n", dtypes[i].descr);
        file f = make_npy(1, header, dtypes[i].data, dtypes[i].n);
        flx_error err = {0};
        flx_tensor *t = decode(ctx, &f, &err);
        test_fail_context("%s: %s", dtypes[i].descr, err.message);
        CHECK(t);
        CHECK_EQ_I64(flx_tensor_type(t)->dtype, dtypes[i].dtype);
        CHECK_EQ_I64(flx_tensor_type(t)->rank, 1);
        CHECK_EQ_I64(flx_tensor_count(t), 2);
        CHECK(flx_tensor_get(t, 0) == 1.0 && flx_tensor_get(t, 1) == 2.0);
        if (dtypes[i].dtype == FLX_C64)
            CHECK(((const float *)flx_tensor_const_data(t))[1] == 3.0f);
        flx_tensor_release(t);
    }
    flx_context_free(ctx);
}

TEST(npy_complex_parts_are_swapped_each)
{
    static const unsigned char data[16] = {0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0};
    flx_context *ctx = flx_context_new(NULL);
    flx_error err;
    file f = make_npy(1, "{'descr': '>c16', 'fortran_order': False, 'shape': (), }", data, 16);
    flx_tensor *t = decode(ctx, &f, &err);
    CHECK(t && flx_tensor_type(t)->rank == 0);
    const double *z = flx_tensor_const_data(t);
    CHECK(z[0] == 1.0 && z[1] == -2.0);
    flx_tensor_release(t);
    flx_context_free(ctx);
}

TEST(npy_bools_become_zero_or_one)
{
    flx_context *ctx = flx_context_new(NULL);
    file f = make_npy(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (4,), }", "\0\1\2\xff", 4);
    flx_tensor *t = decode(ctx, &f, NULL);
    CHECK(t);
    CHECK(memcmp(flx_tensor_const_data(t), "\0\1\1\1", 4) == 0);
    flx_tensor_release(t);
    flx_context_free(ctx);
}

/* Made by numpy.save. */
static const char numpy_fortran[] =
    "934e554d5059010076007b276465736372273a20273c6932272c2027666f727472616e5f6f72646572273a20547275652c20277368617065"
    "273a2028322c2033292c207d2020202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "2020202020202020202020202020200a00006400c8002c019001f401";

TEST(npy_fortran_order_is_converted)
{
    flx_context *ctx = flx_context_new(NULL);
    file f = {.size = 0};
    f.size = damage_hex(numpy_fortran, f.bytes, sizeof f.bytes);
    flx_error err;
    flx_tensor *t = decode(ctx, &f, &err);
    CHECK(t);
    CHECK(flx_tensor_type(t)->rank == 2 && flx_tensor_type(t)->dims[0] == 2 && flx_tensor_type(t)->dims[1] == 3);
    static const double expected[6] = {0, 200, 400, 100, 300, 500};
    for (int i = 0; i < 6; i++)
        CHECK(flx_tensor_get(t, i) == expected[i]);
    flx_tensor_release(t);

    /* Four axes: the element at [a, b, c, d] of a 2 x 3 x 4 x 5 array is a + 2 b + 6 c + 24 d. */
    unsigned char data[120];
    for (int i = 0; i < 120; i++)
        data[i] = (unsigned char)i;
    f = make_npy(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4, 5), }", data, 120);
    t = decode(ctx, &f, &err);
    CHECK(t);
    for (int i = 0; i < 120; i++)
        CHECK_EQ_I64(flx_tensor_get(t, i), i / 60 + i / 20 % 3 * 2 + i / 5 % 4 * 6 + i % 5 * 24);
    flx_tensor_release(t);

    f = make_npy(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (3, 0, 2), }", NULL, 0);
    t = decode(ctx, &f, &err);
    CHECK(t && flx_tensor_count(t) == 0);
    flx_tensor_release(t);
    flx_context_free(ctx);
}

TEST(npy_headers_may_be_spelled_in_many_ways)
{
    static const struct {
        int major;
        const char *header;
        int rank;
        int64_t dims[2];
    } rows[] = {
        {1, "{'descr':'|u1','fortran_order':False,'shape':(2,3)}", 2, {2, 3}},
        {2, "{ 'shape' : ( 2 , 3 , ) , 'fortran_order' : False , 'descr' : '|u1' , } \n", 2, {2, 3}},
        {3, "{\"descr\": \"|u1\", \"fortran_order\": False, \"shape\": (6,)}                \n", 1, {6, 0}},
        {1, "\t{'descr': '|u1', 'fortran_order': True, 'shape': (6L,), }\n", 1, {6, 0}},
        {1, "{'descr': '|u1',\n 'fortran_order': False,\n 'shape': (1, 6)}", 2, {1, 6}},
    };
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        file f = make_npy(rows[i].major, rows[i].header, "\1\2\3\4\5\6", 6);
        flx_tensor *t = decode(ctx, &f, &err);
        test_fail_context("%s: %s", rows[i].header, err.message);
        CHECK(t);
        CHECK_EQ_I64(flx_tensor_type(t)->rank, rows[i].rank);
        for (int k = 0; k < rows[i].rank; k++)
            CHECK_EQ_I64(flx_tensor_type(t)->dims[k], rows[i].dims[k]);
        flx_tensor_release(t);
    }
    flx_context_free(ctx);
}

#define HEAD "{'descr': '|u1', 'fortran_order': False, 'shape': "

TEST(npy_bad_headers_are_refused)
{
    static const struct {
        const char *header;
        int32_t code;
    } rows[] = {
        {"", FLX_E_SYNTAX},
        {"{}", FLX_E_SYNTAX},
        {"[]", FLX_E_SYNTAX},
        {"{'descr': '|u1', 'fortran_order': False}", FLX_E_SYNTAX},
        {HEAD "(6,)", FLX_E_SYNTAX},
        {HEAD "(6,)} x", FLX_E_SYNTAX},
        {HEAD "(6,), 'x': 1}", FLX_E_SYNTAX},
        {HEAD "(6,), 'shape': (6,)}", FLX_E_SYNTAX},
        {HEAD "(6)}", FLX_E_SYNTAX},
        {HEAD "6}", FLX_E_SYNTAX},
        {HEAD "[6]}", FLX_E_SYNTAX},
        {HEAD "(2 3)}", FLX_E_SYNTAX},
        {HEAD "(,6)}", FLX_E_SYNTAX},
        {HEAD "(-6,)}", FLX_E_SYNTAX},
        {HEAD "(6.0,)}", FLX_E_SYNTAX},
        {HEAD "(0x6,)}", FLX_E_SYNTAX},
        {HEAD "(7,)}", FLX_E_SYNTAX}, /* more than the file has */
        {HEAD "(5,)}", FLX_E_SYNTAX}, /* less */
        {HEAD "()}", FLX_E_SYNTAX},
        {HEAD "(9223372036854775807,)}", FLX_E_SIZE},
        {HEAD "(9223372036854775808,)}", FLX_E_SIZE},
        {HEAD "(4611686018427387904, 4)}", FLX_E_SIZE},
        {HEAD "(4294967296, 4294967296, 4294967296)}", FLX_E_SIZE},
        {HEAD "(99999999999999999999999,)}", FLX_E_SIZE},
        {HEAD "(6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)}", FLX_E_UNSUPPORTED},
        {"{'descr': '|u1', 'fortran_order': 0, 'shape': (6,)}", FLX_E_SYNTAX},
        {"{'descr': '|u1', 'fortran_order': true, 'shape': (6,)}", FLX_E_SYNTAX},
        {"{'descr': |u1, 'fortran_order': False, 'shape': (6,)}", FLX_E_SYNTAX},
        {"{'descr': '|u1, 'fortran_order': False, 'shape': (6,)}", FLX_E_UNSUPPORTED},
        {"{'de\\scr': '|u1', 'fortran_order': False, 'shape': (6,)}", FLX_E_SYNTAX},
        {"{descr: '|u1', 'fortran_order': False, 'shape': (6,)}", FLX_E_SYNTAX},
        {"{'descr' '|u1', 'fortran_order': False, 'shape': (6,)}", FLX_E_SYNTAX},
        {"{'descr': '|u1' 'fortran_order': False, 'shape': (6,)}", FLX_E_SYNTAX},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (6,)}", FLX_E_UNSUPPORTED},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (6,)}", FLX_E_UNSUPPORTED},
        {"{'descr': '|S6', 'fortran_order': False, 'shape': (1,)}", FLX_E_UNSUPPORTED},
        {"{'descr': '|V2', 'fortran_order': False, 'shape': (3,)}", FLX_E_UNSUPPORTED},
        {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,)}", FLX_E_UNSUPPORTED},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}", FLX_E_UNSUPPORTED},
        {"{'descr': '<f3', 'fortran_order': False, 'shape': (2,)}", FLX_E_UNSUPPORTED},
        {"{'descr': '<f', 'fortran_order': False, 'shape': (2,)}", FLX_E_UNSUPPORTED},
        {"{'descr': '<', 'fortran_order': False, 'shape': (2,)}", FLX_E_UNSUPPORTED},
        {"{'descr': '', 'fortran_order': False, 'shape': (2,)}", FLX_E_UNSUPPORTED},
        {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,)}", FLX_E_UNSUPPORTED},
        {"{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (2,)}", FLX_E_UNSUPPORTED},
    };
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        file f = make_npy(1, rows[i].header, "\1\2\3\4\5\6", 6);
        test_fail_context("%s", rows[i].header);
        CHECK(!decode(ctx, &f, &err));
        CHECK_MSG(err.code == rows[i].code, "%s: %s", flx_code_name(err.code), err.message);
        CHECK(!decode(ctx, &f, NULL));
    }
    flx_context_free(ctx);
}

TEST(npy_bad_preambles_are_refused)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err;
    file good = make_npy(1, HEAD "(6,)}", "\1\2\3\4\5\6", 6);
    file f = good;
    f.bytes[0] = 'x';
    CHECK(!decode(ctx, &f, &err) && err.code == FLX_E_SYNTAX);
    f = good;
    f.bytes[6] = 4;
    CHECK(!decode(ctx, &f, &err) && err.code == FLX_E_UNSUPPORTED);
    f = good;
    f.bytes[7] = 1;
    CHECK(!decode(ctx, &f, &err) && err.code == FLX_E_UNSUPPORTED);
    f = good;
    f.bytes[9] = 0xff; /* a header longer than the file */
    CHECK(!decode(ctx, &f, &err) && err.code == FLX_E_SYNTAX);
    f.size = 9;
    CHECK(!decode(ctx, &f, &err) && err.code == FLX_E_SYNTAX);
    CHECK(!flx_npy_decode(ctx, NULL, 0, &err) && err.code == FLX_E_SYNTAX);
    CHECK(!flx_npy_decode(ctx, NULL, 5, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_npy_decode(NULL, "x", 1, &err) && err.code == FLX_E_USAGE);

    static unsigned char big[70000]; /* a header of 68 KiB that is really there */
    memset(big, ' ', sizeof big);
    memcpy(big, "\x93NUMPY\2\0\0\x10\1\0", 12);
    CHECK(!flx_npy_decode(ctx, big, sizeof big, &err) && err.code == FLX_E_SIZE);
    flx_context_free(ctx);
}

TEST(npy_limit_of_the_context_holds)
{
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 5});
    flx_error err;
    file f = make_npy(1, HEAD "(6,)}", "\1\2\3\4\5\6", 6);
    CHECK(!decode(ctx, &f, &err));
    CHECK_EQ_I64(err.code, FLX_E_SIZE);
    flx_context_free(ctx);
}

TEST(npy_withstands_damage)
{
    unsigned char bytes[256];
    size_t n = damage_hex(numpy_fortran, bytes, sizeof bytes);
    damage_everywhere(flx_npy_decode, bytes, n, 512);
    damage_allocations(flx_npy_decode, bytes, n);
    file f = make_npy(2, "{'descr': '>c8', 'fortran_order': False, 'shape': (1, 2)}", dtypes[7].data, 16);
    damage_everywhere(flx_npy_decode, f.bytes, f.size, 512);
    damage_allocations(flx_npy_decode, f.bytes, f.size);
}

/* ---- Files ---- */

static const char *temp_path(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", test_temp_dir(), name);
    return path;
}

TEST(npy_write_and_read_give_the_same_tensor)
{
    flx_context *ctx = flx_context_new(NULL);
    static const int64_t dims[3] = {2, 3, 4};
    for (int32_t dtype = 1; dtype < FLX_DTYPE_COUNT; dtype++) {
        for (int rank = 0; rank <= 3; rank++) {
            flx_error err = {0};
            flx_type type = flx_type_make((flx_dtype)dtype, rank, dims);
            unsigned char data[24 * 16];
            for (size_t i = 0; i < sizeof data; i++)
                data[i] = dtype == FLX_BOOL ? i % 3 == 0 : (unsigned char)(i * 37 + 11);
            flx_tensor *t = flx_tensor_new(ctx, &type, data, &err);
            CHECK(t);
            const char *path = temp_path("round.npy");
            CHECK_OK((int32_t)flx_npy_write(t, path, &err), &err);
            flx_tensor *u = flx_npy_read(ctx, path, &err);
            test_fail_context("%s rank %d: %s", flx_dtype_name(dtype), rank, err.message);
            CHECK(u);
            CHECK_EQ_I64(flx_tensor_type(u)->rank, rank);
            for (int k = 0; k < rank; k++)
                CHECK_EQ_I64(flx_tensor_type(u)->dims[k], dims[k]);
            if (dtype == FLX_BF16) {
                CHECK_EQ_I64(flx_tensor_type(u)->dtype, FLX_F32);
                for (int64_t i = 0; i < flx_tensor_count(t); i++) {
                    double x = flx_tensor_get(t, i);
                    CHECK(x == flx_tensor_get(u, i) || (isnan(x) && isnan(flx_tensor_get(u, i))));
                }
            } else {
                CHECK_EQ_I64(flx_tensor_type(u)->dtype, dtype);
                CHECK(memcmp(flx_tensor_const_data(t), flx_tensor_const_data(u), flx_tensor_nbytes(t)) == 0);
            }
            flx_tensor_release(t);
            flx_tensor_release(u);
        }
    }
    flx_context_free(ctx);
}

/* What numpy.save writes for numpy.arange(3, dtype='<f4'), byte for byte. */
TEST(npy_write_is_what_numpy_writes)
{
    static const char expected[] = "\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
    static const float values[3] = {0.0f, 1.0f, 2.0f};
    flx_context *ctx = flx_context_new(NULL);
    flx_error err;
    flx_type type = flx_type_make(FLX_F32, 1, (const int64_t[]){3});
    flx_tensor *t = flx_tensor_new(ctx, &type, values, &err);
    CHECK(t);
    const char *path = temp_path("golden.npy");
    CHECK_OK((int32_t)flx_npy_write(t, path, &err), &err);
    unsigned char bytes[256];
    FILE *in = fopen(path, "rb");
    CHECK(in);
    size_t n = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    CHECK_EQ_U64(n, 128 + 12);
    CHECK(memcmp(bytes, expected, sizeof expected - 1) == 0);
    for (size_t i = sizeof expected - 1; i < 127; i++)
        CHECK(bytes[i] == ' ');
    CHECK(bytes[127] == '\n' && memcmp(bytes + 128, values, 12) == 0);
    flx_tensor_release(t);
    flx_context_free(ctx);
}

TEST(npy_file_errors_name_the_path)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err;
    CHECK(!flx_npy_read(ctx, "/no/such/file.npy", &err));
    CHECK_EQ_I64(err.code, FLX_E_IO);
    CHECK_EQ_STR(err.where, "/no/such/file.npy");
    CHECK_MSG(strstr(err.message, "No such file"), "%s", err.message);
    CHECK(!flx_npy_read(ctx, test_temp_dir(), &err));
    CHECK_EQ_I64(err.code, FLX_E_IO);
    FILE *out = fopen(temp_path("bad.npy"), "wb");
    CHECK(out);
    fputs("this is not an array", out);
    fclose(out);
    CHECK(!flx_npy_read(ctx, temp_path("bad.npy"), &err));
    CHECK_EQ_I64(err.code, FLX_E_SYNTAX);
    CHECK_EQ_STR(err.where, temp_path("bad.npy"));
    flx_type type = flx_type_make(FLX_F32, 0, NULL);
    flx_tensor *t = flx_tensor_new(ctx, &type, NULL, &err);
    CHECK_EQ_I64(flx_npy_write(t, "/no/such/folder/x.npy", &err), FLX_E_IO);
    CHECK_EQ_STR(err.where, "/no/such/folder/x.npy");
    CHECK_EQ_I64(flx_npy_write(t, test_temp_dir(), &err), FLX_E_IO);
    CHECK_EQ_I64(flx_npy_write(NULL, "x", &err), FLX_E_USAGE);
    CHECK_EQ_I64(flx_npy_write(t, NULL, NULL), FLX_E_USAGE);
    CHECK(!flx_npy_read(ctx, NULL, NULL));
    flx_tensor_release(t);
    flx_context_free(ctx);
}

static flx_tensor *read_from_disk(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    FILE *out = fopen(temp_path("disk.npy"), "wb");
    CHECK(out);
    CHECK(fwrite(bytes, 1, size, out) == size);
    fclose(out);
    return flx_npy_read(ctx, temp_path("disk.npy"), err);
}

TEST(npy_file_reading_withstands_damage)
{
    unsigned char bytes[256];
    size_t n = damage_hex(numpy_fortran, bytes, sizeof bytes);
    damage_everywhere(read_from_disk, bytes, n, 512);
    damage_allocations(read_from_disk, bytes, n);
}
