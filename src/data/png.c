/* SPDX-License-Identifier: Apache-2.0 */
/* png.c: PNG images (ISO/IEC 15948): chunks with checksums; the IDAT chunks together are one zlib stream, which
   inflates to rows of packed pixels, each with a filter that predicts its bytes from the row above and the pixel
   before. An interlaced image is seven smaller images, one after the other, whose pixels are spread over the large one;
   a plain image is treated as one such pass. */
#include "data/image.h"

#include "base/context.h"
#include "base/error.h"
#include "base/host/stop.h"
#include "format/crc32.h"
#include "format/inflate.h"
#include "graph/type/tensor.h"

#include <stdlib.h>

enum { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGBA = 6 };

typedef struct {
    flx_context *ctx;
    const flxi_allocator *mem;
    uint32_t width, height;
    int depth, colour, interlace;
    int samples; /* stored for each pixel */
    unsigned char palette[256][3];
    unsigned num_colours;
    unsigned char alpha[256]; /* of the palette */
    uint32_t key[3];          /* the colour that is transparent */
    bool has_alpha;           /* there is a tRNS chunk */
    unsigned char *packed;    /* the IDAT chunks together */
    size_t packed_size, packed_room;
    unsigned char *rows; /* inflated */
    size_t rows_size;
} png;

static uint32_t big32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t big16(const unsigned char *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static flx_code broken(flx_error *err, const char *what)
{
    return flxi_fail(err, FLX_E_SYNTAX, "the PNG image is damaged: %s", what);
}

bool flxi_is_png(const unsigned char *p, size_t n)
{
    return n >= 8 && memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0;
}

/* ---- Chunks ---- */

static bool is_valid_depth(int colour, int depth)
{
    switch (colour) {
    case GREY: return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
    case PALETTE: return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case RGB:
    case GREY_ALPHA:
    case RGBA: return depth == 8 || depth == 16;
    default: return false;
    }
}

static flx_code read_header(png *g, const unsigned char *p, size_t n, flx_error *err)
{
    static const int samples[7] = {1, 0, 3, 1, 2, 0, 4};
    if (n != 13)
        return broken(err, "its header has a wrong length");
    g->width = big32(p);
    g->height = big32(p + 4);
    g->depth = p[8];
    g->colour = p[9];
    g->interlace = p[12];
    if (g->width == 0 || g->height == 0 || g->width > INT32_MAX || g->height > INT32_MAX)
        return broken(err, "its width or height is not valid");
    if (!is_valid_depth(g->colour, g->depth) || p[10] != 0 || p[11] != 0 || g->interlace > 1)
        return broken(err, "its header has values that are not defined");
    g->samples = samples[g->colour];
    return FLX_OK;
}

static flx_code read_palette(png *g, const unsigned char *p, size_t n, flx_error *err)
{
    if (n % 3 || n > sizeof g->palette || n == 0 || g->num_colours)
        return broken(err, "its palette is not valid");
    memcpy(g->palette, p, n);
    g->num_colours = (unsigned)(n / 3);
    return FLX_OK;
}

static flx_code read_transparency(png *g, const unsigned char *p, size_t n, flx_error *err)
{
    if (g->has_alpha)
        return broken(err, "it has two chunks tRNS");
    g->has_alpha = true;
    if (g->colour == PALETTE && n <= g->num_colours) {
        memset(g->alpha, 255, sizeof g->alpha);
        memcpy(g->alpha, p, n);
        return FLX_OK;
    }
    if ((g->colour != GREY && g->colour != RGB) || n != 2 * (size_t)g->samples)
        return broken(err, "its chunk tRNS is not valid");
    for (int i = 0; i < g->samples; i++)
        g->key[i] = big16(p + 2 * i);
    return FLX_OK;
}

/* A chunk after the header; *is_end for the last one. */
static flx_code read_chunk(png *g, const unsigned char *type, const unsigned char *p, size_t n, bool *is_end,
                           flx_error *err)
{
    bool has_data = g->packed_size > 0;
    *is_end = memcmp(type, "IEND", 4) == 0;
    if (memcmp(type, "IDAT", 4) == 0) {
        memcpy(g->packed + g->packed_size, p, n); /* the room is the size of the file */
        g->packed_size += n;
        return FLX_OK;
    }
    if (memcmp(type, "PLTE", 4) == 0 && !has_data)
        return read_palette(g, p, n, err);
    if (memcmp(type, "tRNS", 4) == 0 && !has_data)
        return read_transparency(g, p, n, err);
    bool is_critical = (type[0] & 32) == 0;
    return is_critical && !*is_end ? broken(err, "it has a chunk that must not be ignored, and is not known") : FLX_OK;
}

static flx_code read_chunks(png *g, const unsigned char *p, size_t n, flx_error *err)
{
    flxi_crc32 crc;
    bool is_first = true, is_end = false;
    flxi_crc32_begin(&crc); /* once: its tables would take longer than small chunks */
    for (size_t at = 8; !is_end;) {
        if (n - at < 12)
            return broken(err, "it is truncated");
        size_t size = big32(p + at);
        const unsigned char *type = p + at + 4;
        if (size > n - at - 12)
            return broken(err, "it is truncated");
        crc.state = UINT32_MAX;
        flxi_crc32_add(&crc, type, size + 4);
        if (flxi_crc32_end(&crc) != big32(type + 4 + size))
            return broken(err, "the checksum of a chunk is wrong");
        if (is_first != (memcmp(type, "IHDR", 4) == 0))
            return broken(err, "it does not begin with its header");
        if (is_first)
            FLXI_TRY(read_header(g, type + 4, size, err));
        else
            FLXI_TRY(read_chunk(g, type, type + 4, size, &is_end, err));
        is_first = false;
        at += size + 12;
    }
    if (g->colour == PALETTE && g->num_colours == 0)
        return broken(err, "it has no palette");
    return FLX_OK;
}

/* ---- Passes ---- */

typedef struct {
    uint32_t x0, y0, dx, dy;
} pass;

static const pass plain[1] = {{0, 0, 1, 1}};
static const pass interlaced[7] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                   {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};

/* Pixels of a pass in a row, or rows; 0 for an empty one. */
static uint32_t extent(uint32_t size, uint32_t first, uint32_t step)
{
    return size > first ? (size - first - 1) / step + 1 : 0;
}

static uint64_t row_bytes(const png *g, uint32_t pixels)
{
    return ((uint64_t)pixels * (uint64_t)(g->samples * g->depth) + 7) / 8;
}

static uint64_t pass_bytes(const png *g, const pass *s)
{
    uint64_t columns = extent(g->width, s->x0, s->dx), rows = extent(g->height, s->y0, s->dy);
    return columns ? rows * (row_bytes(g, (uint32_t)columns) + 1) : 0; /* below 2^31 * 2^35 */
}

/* ---- Inflating ---- */

static uint32_t adler32(const unsigned char *p, size_t n)
{
    uint32_t a = 1, b = 0;
    while (n > 0) {
        size_t run = n < 5552 ? n : 5552; /* the sums fit until then */
        n -= run;
        for (; run > 0; run--) {
            a += *p++;
            b += a;
        }
        a %= 65521;
        b %= 65521;
    }
    return b << 16 | a;
}

static flx_code inflate_rows(png *g, const pass *passes, int count, flx_error *err)
{
    uint64_t size = 0;
    for (int i = 0; i < count; i++)
        size += pass_bytes(g, &passes[i]);
    if (g->packed_size < 6 || (g->packed[0] & 15) != 8 || big16(g->packed) % 31 || (g->packed[1] & 32))
        return broken(err, "its data is not a zlib stream");
    size_t stored = g->packed_size - 6; /* two bytes before, four after */
    if (size > flxi_inflate_bound(stored) || size > PTRDIFF_MAX)
        return broken(err, "it has less data than its size requires");
    int64_t limit = flxi_context_limit(g->ctx);
    if (limit > 0 && size > (uint64_t)limit)
        return flxi_fail(err, FLX_E_SIZE, "the PNG image is larger than the limit");
    g->rows_size = (size_t)size;
    g->rows = flxi_alloc(g->mem, g->rows_size, 1);
    if (!g->rows)
        return flxi_oom(err, "a PNG image");
    FLXI_TRY(flxi_inflate(g->packed + 2, stored, g->rows, g->rows_size, err));
    if (adler32(g->rows, g->rows_size) != big32(g->packed + g->packed_size - 4))
        return broken(err, "the checksum of its data is wrong");
    return FLX_OK;
}

/* ---- Filters ---- */

static int paeth(int a, int b, int c)
{
    int p = a + b - c;
    int pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
    return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

/* Undoes the filter of a row in place; `above` is NULL for the first row, `step` the bytes of a pixel. */
static bool unfilter(int filter, unsigned char *row, const unsigned char *above, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i++) {
        int a = i >= step ? row[i - step] : 0;
        int b = above ? above[i] : 0;
        int c = above && i >= step ? above[i - step] : 0;
        int guess;
        switch (filter) {
        case 0: return true;
        case 1: guess = a; break;
        case 2: guess = b; break;
        case 3: guess = (a + b) / 2; break;
        case 4: guess = paeth(a, b, c); break;
        default: return false;
        }
        row[i] = (unsigned char)((row[i] + guess) & 255);
    }
    return filter < 5;
}

/* ---- Pixels ---- */

static uint32_t sample_at(const png *g, const unsigned char *row, uint64_t i)
{
    if (g->depth == 16)
        return big16(row + 2 * i);
    if (g->depth == 8)
        return row[i];
    uint64_t bit = i * (uint64_t)g->depth;
    unsigned shift = 8 - (unsigned)g->depth - (unsigned)(bit % 8);
    return row[bit / 8] >> shift & ((1u << g->depth) - 1);
}

static int channels_of(const png *g)
{
    return (g->colour == PALETTE ? 3 : g->samples) + g->has_alpha;
}

static void put(const png *g, flx_tensor *t, int channel, size_t at, uint32_t v)
{
    size_t i = (size_t)channel * g->width * g->height + at;
    if (g->depth == 16)
        ((uint16_t *)t->data)[i] = (uint16_t)v;
    else
        ((uint8_t *)t->data)[i] = (uint8_t)v;
}

/* One pixel of a row to its position in the image. False for a colour that the palette does not have. */
static bool put_pixel(const png *g, flx_tensor *t, const unsigned char *row, uint32_t x, size_t at)
{
    uint32_t first = sample_at(g, row, (uint64_t)x * (uint64_t)g->samples);
    if (g->colour == PALETTE) {
        if (first >= g->num_colours)
            return false;
        for (int c = 0; c < 3; c++)
            put(g, t, c, at, g->palette[first][c]);
        if (g->has_alpha)
            put(g, t, 3, at, g->alpha[first]);
        return true;
    }
    uint32_t full = g->depth == 16 ? 65535 : 255;
    uint32_t scale = g->depth < 8 ? 255 / ((1u << g->depth) - 1) : 1; /* 1, 2 and 4 bits divide 255 */
    bool is_key = g->has_alpha;
    for (int c = 0; c < g->samples; c++) {
        uint32_t v = sample_at(g, row, (uint64_t)x * (uint64_t)g->samples + (uint64_t)c);
        is_key = is_key && v == g->key[c];
        put(g, t, c, at, v * scale);
    }
    if (g->has_alpha)
        put(g, t, g->samples, at, is_key ? 0 : full);
    return true;
}

/* Writes the pixels of a pass; *rows is advanced past its bytes. */
static flx_code put_pass(const png *g, const pass *s, unsigned char **rows, flx_tensor *t, flx_error *err)
{
    uint32_t columns = extent(g->width, s->x0, s->dx), count = extent(g->height, s->y0, s->dy);
    size_t n = (size_t)row_bytes(g, columns);
    size_t step = (size_t)(g->samples * g->depth + 7) / 8;
    const unsigned char *above = NULL;
    for (uint32_t i = 0; columns && i < count; i++) {
        FLXI_TRY(flxi_stop_check(err));
        unsigned char *row = *rows + 1;
        if (!unfilter((*rows)[0], row, above, n, step))
            return broken(err, "a row has a filter that is not defined");
        for (uint32_t k = 0; k < columns; k++) {
            size_t at = ((size_t)s->y0 + (size_t)i * s->dy) * g->width + s->x0 + (size_t)k * s->dx;
            if (!put_pixel(g, t, row, k, at))
                return broken(err, "a pixel has a colour that is not in the palette");
        }
        above = row;
        *rows += n + 1;
    }
    return FLX_OK;
}

static flx_tensor *decode(png *g, const unsigned char *p, size_t n, flx_error *err)
{
    if (read_chunks(g, p, n, err) != FLX_OK)
        return NULL;
    const pass *passes = g->interlace ? interlaced : plain;
    int count = g->interlace ? 7 : 1;
    if (inflate_rows(g, passes, count, err) != FLX_OK)
        return NULL;
    const flx_type type = flx_type_make(g->depth == 16 ? FLX_U16 : FLX_U8, 3,
                                        (flx_dim[]){channels_of(g), (int64_t)g->height, (int64_t)g->width});
    flx_tensor *t = flx_tensor_new(g->ctx, &type, NULL, err);
    unsigned char *rows = g->rows;
    for (int i = 0; t && i < count; i++)
        if (put_pass(g, &passes[i], &rows, t, err) != FLX_OK) {
            flx_tensor_release(t);
            t = NULL;
        }
    return t;
}

flx_tensor *flxi_png_decode(flx_context *ctx, const unsigned char *p, size_t n, flx_error *err)
{
    png g = {.ctx = ctx, .mem = flxi_context_mem(ctx), .packed_room = n};
    g.packed = flxi_alloc(g.mem, n, 1);
    if (!g.packed) {
        flxi_oom(err, "a PNG image");
        return NULL;
    }
    flx_tensor *t = decode(&g, p, n, err);
    flxi_free(g.mem, g.packed, g.packed_room, 1);
    flxi_free(g.mem, g.rows, g.rows_size, 1);
    return t;
}
