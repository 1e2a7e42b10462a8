/* SPDX-License-Identifier: Apache-2.0 */
/* sounds.c: WAV files: those of another program, floats, odd chunks, damage, and what is refused. */
#include "test.h"

#include "damage.h"
#include "format/endian.h"

#include <fluxion/data.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(wav_of_another_program_is_read)
{
    flx_context *ctx = flx_context_new(NULL);
    for (int bits = 8; bits <= 32; bits += 8) {
        char path[700], expected[700];
        flx_error err = {0};
        int64_t rate = 0;
        snprintf(path, sizeof path, "%s/tests/oracle/fixtures/data/sound%d.wav", test_source_dir(), bits);
        snprintf(expected, sizeof expected, "%s/tests/oracle/fixtures/data/sound%d_wav.npy", test_source_dir(), bits);
        test_fail_context("%d bits", bits);
        flx_tensor *t = flx_wav_read(ctx, path, &rate, &err);
        CHECK_MADE(t, &err);
        flx_tensor *values = flx_npy_read(ctx, expected, &err);
        CHECK_MADE(values, &err);
        CHECK_EQ_I64(rate, 1000 * bits);
        CHECK(flx_tensor_type(t)->rank == 2 && flx_tensor_type(t)->dims[0] == flx_tensor_type(values)->dims[0]);
        CHECK_EQ_I64(flx_tensor_count(t), flx_tensor_count(values));
        for (int64_t i = 0; i < flx_tensor_count(t); i++)
            CHECK_NEAR(flx_tensor_get(t, i), flx_tensor_get(values, i), 0);
        flx_tensor_release(t);
        flx_tensor_release(values);
    }
    flx_context_free(ctx);
}

/* ---- Files made here ---- */

typedef struct {
    unsigned char bytes[512];
    size_t n;
} file;

static void put(file *f, const void *bytes, size_t n)
{
    memcpy(f->bytes + f->n, bytes, n);
    f->n += n;
}

static void put_chunk(file *f, const char *name, const void *bytes, size_t n)
{
    unsigned char size[4];
    flxi_put32(size, (uint32_t)n);
    put(f, name, 4);
    put(f, size, 4);
    put(f, bytes, n);
    if (n % 2)
        put(f, "", 1);
}

static file begin(int format, int channels, int bits, int frame, bool extended)
{
    file f = {.n = 0};
    unsigned char fmt[40] = "";
    put(&f, "RIFF\0\0\0\0WAVE", 12);
    put_chunk(&f, "LIST", "odd", 3);
    flxi_put16(fmt, extended ? 0xfffe : (uint32_t)format);
    flxi_put16(fmt + 2, (uint32_t)channels);
    flxi_put32(fmt + 4, 44100);
    flxi_put16(fmt + 12, (uint32_t)frame);
    flxi_put16(fmt + 14, (uint32_t)bits);
    flxi_put16(fmt + 24, (uint32_t)format);
    put_chunk(&f, "fmt ", fmt, extended ? 40 : 16);
    return f;
}

static flx_tensor *decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    return flx_wav_decode(ctx, bytes, size, NULL, err);
}

TEST(wav_floats_and_extensible_formats_are_read)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    file f = begin(3, 2, 32, 8, true);
    put_chunk(&f, "data", "\0\0\0\x3f\0\0\x80\xbf\0\0\0\0\0\0\0\x40", 16);
    flx_tensor *t = decode(ctx, f.bytes, f.n, &err);
    CHECK_MADE(t, &err);
    CHECK(flx_tensor_type(t)->dims[0] == 2 && flx_tensor_type(t)->dims[1] == 2);
    CHECK(memcmp(flx_tensor_const_data(t), (float[]){0.5f, 0, -1, 2}, 16) == 0);
    flx_tensor_release(t);
    f = begin(1, 1, 24, 3, true);
    put_chunk(&f, "data", "\0\0\x80\xff\xff\x7f\xff\xff\xff", 9);
    t = decode(ctx, f.bytes, f.n, &err);
    CHECK_MADE(t, &err);
    CHECK(memcmp(flx_tensor_const_data(t), (float[]){-1, 8388607.0f / 8388608, -1.0f / 8388608}, 12) == 0);
    flx_tensor_release(t);
    f = begin(1, 1, 16, 2, false);
    put_chunk(&f, "data", "", 0);
    t = decode(ctx, f.bytes, f.n, &err);
    CHECK(t && flx_tensor_count(t) == 0);
    flx_tensor_release(t);
    flx_context_free(ctx);
}

TEST(wav_withstands_damage)
{
    static const int kinds[][3] = {{1, 8, 1}, {1, 16, 2}, {1, 24, 3}, {1, 32, 4}, {3, 32, 4}};
    for (size_t i = 0; i < 5; i++) {
        file f = begin(kinds[i][0], 1, kinds[i][1], kinds[i][2], i % 2);
        put_chunk(&f, "data", "\0\0\0\x3f\0\0\0\0\0\0\0\x3f", 12);
        damage_everywhere(decode, f.bytes, f.n, 4096);
        damage_allocations(decode, f.bytes, f.n);
    }
}

TEST(wav_wrong_files_are_refused)
{
    static const struct {
        int format, channels, bits, frame;
        const char *data;
        size_t size;
        flx_code code;
        const char *message;
    } rows[] = {
        {2, 1, 4, 1, "", 0, FLX_E_UNSUPPORTED, "WAV format 2 with 4 bits is not supported"},
        {1, 1, 12, 2, "", 0, FLX_E_UNSUPPORTED, "with 12 bits"},
        {3, 1, 64, 8, "", 0, FLX_E_UNSUPPORTED, "WAV format 3 with 64 bits"},
        {1, 0, 16, 0, "", 0, FLX_E_SYNTAX, "0 channels"},
        {1, 2, 16, 3, "", 0, FLX_E_SYNTAX, "2 channels of 16 bits in frames of 3 bytes"},
        {1, 2, 16, 4, "abcdef", 6, FLX_E_SYNTAX, "ends inside of a sample"},
        {3, 1, 32, 4, "\0\0\xc0\x7f", 4, FLX_E_NUMERIC, "sample 0 of the WAV file is not finite"},
        {3, 1, 32, 4, "\0\0\x80\xff", 4, FLX_E_NUMERIC, "sample 0 of the WAV file is not finite"},
    };
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        file f = begin(rows[i].format, rows[i].channels, rows[i].bits, rows[i].frame, false);
        put_chunk(&f, "data", rows[i].data, rows[i].size);
        CHECK(!decode(ctx, f.bytes, f.n, &err));
        CHECK_MSG(err.code == rows[i].code && strstr(err.message, rows[i].message), "%s: %s", flx_code_name(err.code),
                  err.message);
    }
    file f = begin(1, 1, 16, 2, false);
    CHECK(!decode(ctx, f.bytes, f.n, &err) && strstr(err.message, "has no data"));
    f = (file){.n = 0};
    put(&f, "RIFF\0\0\0\0WAVEdata\0\0\0\0", 20);
    CHECK(!decode(ctx, f.bytes, f.n, &err) && strstr(err.message, "no format before its data"));
    memcpy(f.bytes + 12, "fmt \2\0\0\0..", 10);
    f.n = 22;
    CHECK(!decode(ctx, f.bytes, f.n, &err) && strstr(err.message, "a format of only 2 bytes"));
    memcpy(f.bytes + 16, "\xff\xff\xff\xff", 4);
    CHECK(!decode(ctx, f.bytes, f.n, &err) && strstr(err.message, "ends inside of a chunk of 4294967295 bytes"));
    CHECK(!decode(ctx, "RIFX\0\0\0\0WAVE", 12, &err) && strstr(err.message, "not a WAV file"));
    CHECK(!decode(NULL, "", 0, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_wav_read(ctx, test_missing_path("a.wav"), NULL, &err) && err.code == FLX_E_IO);
    CHECK(!flx_wav_read(ctx, NULL, NULL, &err) && err.code == FLX_E_USAGE);
    flx_context_free(ctx);
}
