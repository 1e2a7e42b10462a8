/* SPDX-License-Identifier: Apache-2.0 */
/* pictures.c: PNG, PGM and PPM: files of other programs, images of every kind that a small encoder here writes, damage,
   and what is refused with which words. */
#include "test.h"

#include "damage.h"
#include "format/crc32.h"

#include <fluxion/data.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Files of other programs ---- */

static void check_fixture(flx_context *ctx, const char *name)
{
    char path[700], expected[700];
    flx_error err = {0};
    snprintf(path, sizeof path, "%s/tests/oracle/fixtures/data/%s", test_source_dir(), name);
    snprintf(expected, sizeof expected, "%s", path);
    *strrchr(expected, '.') = '_';
    strcat(expected, ".npy");
    test_fail_context("%s", name);
    flx_tensor *image = flx_image_read(ctx, path, &err);
    CHECK_MADE(image, &err);
    flx_tensor *values = flx_npy_read(ctx, expected, &err);
    CHECK_MADE(values, &err);
    CHECK_EQ_I64(flx_tensor_type(image)->dtype, flx_tensor_type(values)->dtype);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_I64(flx_tensor_type(image)->dims[i], flx_tensor_type(values)->dims[i]);
    for (int64_t i = 0; i < flx_tensor_count(values); i++)
        CHECK_MSG(flx_tensor_get(image, i) == flx_tensor_get(values, i), "element %lld is %g instead of %g",
                  (long long)i, flx_tensor_get(image, i), flx_tensor_get(values, i));
    flx_tensor_release(image);
    flx_tensor_release(values);
    test_count_case();
}

TEST(image_of_another_program_is_read)
{
    static const char *const names[] = {"grey.png",       "grey_alpha.png",    "rgb.png",      "rgba.png",
                                        "grey16.png",     "bits.png",          "palette3.png", "palette13.png",
                                        "palette200.png", "palette_holes.png", "grey.pgm",     "rgb.ppm"};
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_fixture(ctx, names[i]);
    flx_context_free(ctx);
}

/* ---- An encoder: stored blocks, any filter, both orders ---- */

enum { ROOM = 1 << 16 };

typedef struct {
    unsigned char bytes[ROOM];
    size_t n;
} file;

static void put_big(file *f, size_t width, uint64_t v)
{
    for (size_t i = width; i-- > 0;)
        f->bytes[f->n++] = (unsigned char)(v >> (8 * i) & 255);
}

static void put_bytes(file *f, const void *bytes, size_t n)
{
    CHECK(f->n + n <= ROOM);
    if (n)
        memcpy(f->bytes + f->n, bytes, n);
    f->n += n;
}

static void put_chunk(file *f, const char *type, const void *bytes, size_t n)
{
    flxi_crc32 crc;
    put_big(f, 4, n);
    flxi_crc32_begin(&crc);
    flxi_crc32_add(&crc, type, 4);
    flxi_crc32_add(&crc, bytes, n);
    put_bytes(f, type, 4);
    put_bytes(f, bytes, n);
    put_big(f, 4, flxi_crc32_end(&crc));
}

typedef struct {
    uint32_t width, height;
    int depth, colour, interlace;
    const void *palette;
    size_t palette_size;
    const void *transparency; /* of the chunk tRNS, or NULL */
    size_t transparency_size;
} sketch;

static int samples_of(const sketch *s)
{
    return s->colour == 2 ? 3 : s->colour == 4 ? 2 : s->colour == 6 ? 4 : 1;
}

static int predict(int filter, int a, int b, int c)
{
    int p = a + b - c;
    int pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
    switch (filter) {
    case 1: return a;
    case 2: return b;
    case 3: return (a + b) / 2;
    case 4: return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
    default: return 0;
    }
}

/* The rows of one pass to `raw`: values[(y * width + x) * samples + k]. Filters take turns. */
static void add_pass(const sketch *s, const uint16_t *values, const uint32_t pass[4], file *raw, uint64_t *state)
{
    size_t samples = (size_t)samples_of(s), bits = samples * (size_t)s->depth, step = (bits + 7) / 8;
    unsigned char row[4096], above[4096] = {0};
    for (uint32_t y = pass[1]; y < s->height; y += pass[3]) {
        size_t n = 0;
        memset(row, 0, sizeof row);
        for (uint32_t x = pass[0]; x < s->width; x += pass[2])
            for (size_t k = 0; k < samples; k++, n++) {
                unsigned v = values[((size_t)y * s->width + x) * samples + k];
                size_t bit = n * (size_t)s->depth;
                if (s->depth == 16) {
                    row[2 * n] = (unsigned char)(v >> 8);
                    row[2 * n + 1] = (unsigned char)(v & 255);
                } else {
                    row[bit / 8] |= (unsigned char)(v << (8 - (size_t)s->depth - bit % 8));
                }
            }
        size_t bytes = (n * (size_t)s->depth + 7) / 8;
        if (bytes == 0)
            return;
        int filter = (int)(test_random(state) % 5);
        put_big(raw, 1, (uint64_t)filter);
        for (size_t i = 0; i < bytes; i++)
            put_big(raw, 1,
                    (unsigned)(row[i] - predict(filter, i >= step ? row[i - step] : 0, above[i],
                                                i >= step ? above[i - step] : 0)) &
                        255);
        memcpy(above, row, sizeof above);
    }
}

/* A zlib stream of stored blocks. */
static void add_stream(const file *raw, file *out)
{
    uint32_t a = 1, b = 0;
    put_big(out, 2, 0x7801);
    for (size_t at = 0; at < raw->n || at == 0;) {
        size_t n = raw->n - at < 1000 ? raw->n - at : 1000;
        put_big(out, 1, at + n == raw->n);
        unsigned char head[4] = {(unsigned char)(n & 255), (unsigned char)(n >> 8), (unsigned char)(~n & 255),
                                 (unsigned char)(~n >> 8 & 255)};
        put_bytes(out, head, 4);
        put_bytes(out, raw->bytes + at, n);
        at += n ? n : 1;
    }
    for (size_t i = 0; i < raw->n; i++) {
        a = (a + raw->bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    put_big(out, 4, (uint64_t)b << 16 | a);
}

static void begin_png(const sketch *s, file *out)
{
    file header = {.n = 0};
    out->n = 0;
    put_bytes(out, "\x89PNG\r\n\x1a\n", 8);
    put_big(&header, 4, s->width);
    put_big(&header, 4, s->height);
    put_big(&header, 1, (uint64_t)s->depth);
    put_big(&header, 1, (uint64_t)s->colour);
    put_big(&header, 2, 0);
    put_big(&header, 1, (uint64_t)s->interlace);
    put_chunk(out, "IHDR", header.bytes, header.n);
    put_chunk(out, "tEXt", "Title\0a", 7); /* to be ignored */
    if (s->palette)
        put_chunk(out, "PLTE", s->palette, s->palette_size);
    if (s->transparency)
        put_chunk(out, "tRNS", s->transparency, s->transparency_size);
}

static void encode(const sketch *s, const uint16_t *values, file *out, uint64_t *state)
{
    static const uint32_t plain[4] = {0, 0, 1, 1};
    static const uint32_t passes[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                          {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
    static file raw, stream;
    raw.n = stream.n = 0;
    for (int i = 0; i < (s->interlace ? 7 : 1); i++)
        add_pass(s, values, s->interlace ? passes[i] : plain, &raw, state);
    add_stream(&raw, &stream);
    begin_png(s, out);
    size_t half = stream.n / 2; /* in two chunks */
    put_chunk(out, "IDAT", stream.bytes, half);
    put_chunk(out, "IDAT", stream.bytes + half, stream.n - half);
    put_chunk(out, "IEND", NULL, 0);
}

/* What element (c, i) of the image must be. */
static double expected(const sketch *s, const uint16_t *values, int c, size_t i)
{
    int samples = samples_of(s);
    const uint16_t *v = values + i * (size_t)samples;
    if (s->colour == 3) {
        const unsigned char *alpha = s->transparency;
        if (c < 3)
            return ((const unsigned char *)s->palette)[3 * v[0] + c];
        return v[0] < s->transparency_size ? alpha[v[0]] : 255;
    }
    if (c < samples)
        return s->depth < 8 ? v[c] * 255.0 / ((1 << s->depth) - 1) : v[c];
    bool is_key = true;
    const unsigned char *key = s->transparency;
    for (int k = 0; k < samples; k++)
        is_key = is_key && v[k] == (key[2 * k] << 8 | key[2 * k + 1]);
    return is_key ? 0 : s->depth == 16 ? 65535 : 255;
}

static void check_png(flx_context *ctx, const sketch *s, uint64_t *state)
{
    static file out;
    flx_error err = {0};
    size_t samples = (size_t)samples_of(s), area = (size_t)s->width * s->height, n = area * samples;
    uint16_t *values = malloc(n * sizeof *values);
    CHECK(values);
    unsigned most = s->palette ? (unsigned)(s->palette_size / 3) : 1u << s->depth;
    for (size_t i = 0; i < n; i++)
        values[i] = (uint16_t)(test_random(state) % most);
    if (s->transparency && s->colour != 3) /* one pixel has the colour that is transparent */
        for (size_t k = 0; k < samples; k++)
            values[k] = (uint16_t)(((const unsigned char *)s->transparency)[2 * k] << 8 |
                                   ((const unsigned char *)s->transparency)[2 * k + 1]);
    encode(s, values, &out, state);
    flx_tensor *t = flx_image_decode(ctx, out.bytes, out.n, &err);
    CHECK_MADE(t, &err);
    const flx_type *type = flx_tensor_type(t);
    int channels = (s->colour == 3 ? 3 : (int)samples) + (s->transparency != NULL);
    CHECK(type->dtype == (s->depth == 16 ? FLX_U16 : FLX_U8) && type->dims[0] == channels);
    CHECK(type->dims[1] == s->height && type->dims[2] == s->width);
    for (int c = 0; c < channels; c++)
        for (size_t i = 0; i < area; i++)
            CHECK_EQ_I64(flx_tensor_get(t, (int64_t)((size_t)c * area + i)), expected(s, values, c, i));
    flx_tensor_release(t);
    free(values);
    test_count_case();
}

static const struct {
    int colour, depth;
} kinds[] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
             {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};
enum { NUM_KINDS = sizeof kinds / sizeof *kinds };

TEST(png_of_every_kind_is_read)
{
    static const unsigned char palette[12] = "\1\2\3\377\0\10\11\12\13\14\15\16";
    static const unsigned char key[6] = "\0\1\0\1\0\1";
    flx_context *ctx = flx_context_new(NULL);
    uint64_t state = test_seed();
    for (size_t i = 0; i < NUM_KINDS; i++)
        for (int interlace = 0; interlace < 2; interlace++)
            for (int transparent = 0; transparent < 2; transparent++)
                for (uint32_t size = 1; size < 12; size++) {
                    sketch s = {size, 1 + (size * 5) % 9, kinds[i].depth, kinds[i].colour, interlace, 0, 0, 0, 0};
                    if (s.colour == 3) {
                        s.palette = palette;
                        s.palette_size = kinds[i].depth == 1 ? 6 : 12;
                    }
                    if (transparent && s.colour < 4) {
                        s.transparency = s.colour == 3 ? (const void *)"\200" : key;
                        s.transparency_size = s.colour == 0 ? 2 : s.colour == 2 ? 6 : 1;
                    }
                    test_fail_context("colour %d, depth %d, %u by %u, interlace %d, tRNS %d", s.colour, s.depth,
                                      s.width, s.height, interlace, transparent);
                    check_png(ctx, &s, &state);
                }
    flx_context_free(ctx);
}

/* ---- Damage ---- */

TEST(png_withstands_damage)
{
    static file out;
    uint64_t state = test_seed();
    uint16_t values[12];
    for (int i = 0; i < 12; i++)
        values[i] = (uint16_t)(test_random(&state) % 4);
    for (int interlace = 0; interlace < 2; interlace++) {
        sketch s = {4, 3, 2, 3, interlace, "abcdefghijkl", 12, "\1", 1};
        encode(&s, values, &out, &state);
        damage_everywhere(flx_image_decode, out.bytes, out.n, out.n + 4096);
        damage_allocations(flx_image_decode, out.bytes, out.n);
    }
}

TEST(pnm_withstands_damage)
{
    static const char *const files[] = {"P2\n# a comment\n3 2 9\n1 2 3\n4 5 6", "P3 1 1 255 10 200 3",
                                        "P5 3 2 255\nabcdef", "P6 1 2 65535\nabcdefghijkl"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        damage_everywhere(flx_image_decode, files[i], strlen(files[i]), 8192);
        damage_allocations(flx_image_decode, files[i], strlen(files[i]));
    }
}

/* ---- What is refused ---- */

static void check_refused(flx_context *ctx, const void *bytes, size_t n, flx_code code, const char *text)
{
    flx_error err = {0};
    char *exact = malloc(n ? n : 1);
    CHECK(exact);
    memcpy(exact, bytes, n);
    CHECK(!flx_image_decode(ctx, exact, n, &err));
    free(exact);
    CHECK_MSG(err.code == code && strstr(err.message, text), "%s: '%s' does not say '%s'", flx_code_name(err.code),
              err.message, text);
    test_count_case();
}

TEST(pnm_wrong_files_are_refused)
{
    static const struct {
        const char *text;
        flx_code code;
        const char *message;
    } rows[] = {
        {"", FLX_E_SYNTAX, "not an image"},
        {"P", FLX_E_SYNTAX, "not an image"},
        {"P7 1 1 255\n", FLX_E_SYNTAX, "not an image"},
        {"GIF89a", FLX_E_SYNTAX, "not an image"},
        {"P1 1 1\n0", FLX_E_UNSUPPORTED, "bitmaps (P1) are not supported"},
        {"P5", FLX_E_SYNTAX, "not an image"},
        {"P5 ", FLX_E_SYNTAX, "the image ends at byte 3, expected the width"},
        {"P5 a", FLX_E_SYNTAX, "the image has something else at byte 3, expected the width"},
        {"P5 1 1 0\n.", FLX_E_SYNTAX, "largest value 0"},
        {"P5 0 1 255\n.", FLX_E_SYNTAX, "width 0"},
        {"P5 1 1 65536\n..", FLX_E_SYNTAX, "is larger than 65535"},
        {"P5 99999999999999999999 1 255\n.", FLX_E_SYNTAX, "the width of the image at byte 3 is larger"},
        {"P5 2147483647 2147483647 255\n.", FLX_E_SYNTAX, "the file ends after 30 bytes"},
        {"P6 2147483647 2147483647 65535\n.", FLX_E_SYNTAX, "the file ends after"},
        {"P2 2147483647 2147483647 255\n1 2", FLX_E_SYNTAX, "the file ends after"},
        {"P5 2 2 255\nabc", FLX_E_SYNTAX, "the image is 2 by 2, but the file ends"},
        {"P5 1 1 255", FLX_E_SYNTAX, "no blank after its header"},
        {"P5 1 1 5\n\6", FLX_E_SYNTAX, "a value of the image is 6, but the largest is 5"},
        {"P2 1 1 5\n6", FLX_E_SYNTAX, "a value of the image at byte 9 is larger than 5"},
        {"P2 2 1 5\n1 x", FLX_E_SYNTAX, "expected a value"},
    };
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_fail_context("%s", rows[i].text);
        check_refused(ctx, rows[i].text, strlen(rows[i].text), rows[i].code, rows[i].message);
    }
    flx_context_free(ctx);
}

TEST(pnm_values_are_scaled)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_tensor *t = flx_image_decode(ctx, "P2 3 1 # wide\n2 0 1 2", 21, &err);
    CHECK_MADE(t, &err);
    CHECK(memcmp(flx_tensor_const_data(t), "\0\200\377", 3) == 0);
    flx_tensor_release(t);
    t = flx_image_decode(ctx, "P3 1 2 1000\n0 500 1000 1 2 3", 28, &err);
    CHECK_MADE(t, &err);
    static const uint16_t wide[] = {0, 66, 32768, 131, 65535, 197}; /* planes */
    CHECK(flx_tensor_type(t)->dtype == FLX_U16 && memcmp(flx_tensor_const_data(t), wide, sizeof wide) == 0);
    flx_tensor_release(t);
    CHECK(!flx_image_decode(NULL, "", 0, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_image_decode(ctx, NULL, 1, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_image_read(ctx, NULL, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_image_read(ctx, test_missing_path("a.png"), &err) && err.code == FLX_E_IO);
    CHECK_EQ_STR(err.where, test_missing_path("a.png"));
    flx_context_free(ctx);
}

/* Headers with values of their own, complete and with correct checksums. */
TEST(png_wrong_files_are_refused)
{
    static file f;
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 1 << 20});
    static const struct {
        sketch s;
        const char *message;
    } rows[] = {
        {{0, 1, 8, 0, 0, 0, 0, 0, 0}, "width or height"},
        {{1, 0, 8, 0, 0, 0, 0, 0, 0}, "width or height"},
        {{UINT32_MAX, 1, 8, 0, 0, 0, 0, 0, 0}, "width or height"},
        {{1, 1, 3, 0, 0, 0, 0, 0, 0}, "values that are not defined"},
        {{1, 1, 16, 3, 0, 0, 0, 0, 0}, "values that are not defined"},
        {{1, 1, 4, 2, 0, 0, 0, 0, 0}, "values that are not defined"},
        {{1, 1, 8, 1, 0, 0, 0, 0, 0}, "values that are not defined"},
        {{1, 1, 8, 7, 0, 0, 0, 0, 0}, "values that are not defined"},
        {{1, 1, 8, 0, 2, 0, 0, 0, 0}, "values that are not defined"},
        {{1, 1, 8, 3, 0, 0, 0, 0, 0}, "it has no palette"},
        {{1, 1, 8, 3, 0, "ab", 2, 0, 0}, "its palette is not valid"},
        {{1, 1, 8, 3, 0, "abc", 3, "12", 2}, "its chunk tRNS is not valid"},
        {{1, 1, 8, 0, 0, 0, 0, "1", 1}, "its chunk tRNS is not valid"},
        {{1, 1, 8, 4, 0, 0, 0, "1", 1}, "its chunk tRNS is not valid"},
        {{INT32_MAX, INT32_MAX, 16, 6, 0, 0, 0, 0, 0}, "less data than its size requires"},
        {{INT32_MAX, INT32_MAX, 16, 6, 1, 0, 0, 0, 0}, "less data than its size requires"},
        {{5, 5, 8, 0, 0, 0, 0, 0, 0}, "DEFLATE"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_fail_context("%s: %zu", rows[i].message, i);
        begin_png(&rows[i].s, &f);
        put_chunk(&f, "IDAT", "\x78\x01\x01\x01\0\xfe\xff\0\0\1\0\1", 12); /* one byte, too few */
        put_chunk(&f, "IEND", NULL, 0);
        flx_error err = {0};
        CHECK(!flx_image_decode(ctx, f.bytes, f.n, &err));
        bool is_inflate = strcmp(rows[i].message, "DEFLATE") == 0;
        CHECK_MSG(err.code == FLX_E_SYNTAX && (is_inflate || strstr(err.message, rows[i].message)), "%s: %s",
                  flx_code_name(err.code), err.message);
    }
    const sketch one = {1, 1, 8, 0, 0, 0, 0, 0, 0};
    begin_png(&one, &f);
    size_t start = f.n;
    check_refused(ctx, f.bytes, f.n, FLX_E_SYNTAX, "truncated");
    put_chunk(&f, "IEND", NULL, 0);
    check_refused(ctx, f.bytes, f.n, FLX_E_SYNTAX, "not a zlib stream");
    f.n = start;
    put_chunk(&f, "ABCD", NULL, 0);
    put_chunk(&f, "IEND", NULL, 0);
    check_refused(ctx, f.bytes, f.n, FLX_E_SYNTAX, "must not be ignored");
    f.n = start;
    put_chunk(&f, "IDAT", "\x78\x01\x01\x02\0\xfd\xff\5\0\0\x0c\0\6", 13);
    put_chunk(&f, "IEND", NULL, 0);
    check_refused(ctx, f.bytes, f.n, FLX_E_SYNTAX, "a filter that is not defined");
    f.n = start;
    put_chunk(&f, "IDAT", "\x78\x01\x01\x02\0\xfd\xff\0\0\0\7\0\6", 13);
    put_chunk(&f, "IEND", NULL, 0);
    check_refused(ctx, f.bytes, f.n, FLX_E_SYNTAX, "the checksum of its data is wrong");
    const sketch coloured = {1, 1, 8, 3, 0, "abc", 3, 0, 0};
    begin_png(&coloured, &f);
    put_chunk(&f, "IDAT", "\x78\x01\x01\x02\0\xfd\xff\0\1\0\3\0\2", 13);
    put_chunk(&f, "IEND", NULL, 0);
    check_refused(ctx, f.bytes, f.n, FLX_E_SYNTAX, "a colour that is not in the palette");
    flx_context_free(ctx);
}
