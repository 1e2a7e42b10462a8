/* SPDX-License-Identifier: Apache-2.0 */
/* packed_route.c: dequant_matmul with the blocks of GGUF files, and decoding them (dequant_moe_weights). Few rows meet
   each packed row in registers (packed_rows.h); many rows are a matrix product whose right side is decoded while it is
   packed for the product. Rows that are rounded to 8 bits first have products of their own (rounded_rows.h). */
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/gemm_turn.h"
#include "backend/cpu/quant/packed_rows.h"
#include "backend/cpu/quant/rounded_rows.h"
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "ops/quant/dequant.h"

#include <math.h>

/* From here on decoding once for all rows pays. */
static const int64_t many_rows = 24;

typedef struct {
    flxi_gguf format;
    const flxi_gguf_format *f;
    int64_t rows, k, columns;
    int64_t row_bytes; /* of a packed row */
    int64_t sums;      /* numbers for a row of x */
    const uint8_t *w;
    const float *x;
    float *y, *of_x; /* of_x: the sums of all rows */
    flxi_packed_fn product;
} packed;

static bool is_rounded(const flxi_route_node *n)
{
    return flxi_route_int(n, "x_bits") != 0;
}

static packed packed_of(const flxi_route_node *n)
{
    const flx_type *x = n->in_types[0], *y = n->out_types[0];
    flxi_gguf format = (flxi_gguf)(flxi_route_int(n, "scheme") - SCHEME_GGUF);
    packed p = {.format = format, .f = &flxi_gguf_formats[format], .k = x->dims[x->rank - 1]};
    p.columns = y->dims[y->rank - 1];
    p.rows = 1;
    for (int i = 0; i < x->rank - 1; i++)
        p.rows *= x->dims[i];
    p.row_bytes = p.k / p.f->count * p.f->nbytes;
    p.sums = flxi_packed_sums(format, p.k);
    return p;
}

/* ---- Many rows ---- */

/* Elements (line + i, depth + d) of the decoded matrix, as flxi_gemm_source wants them. Blocks that the range cuts are
   decoded whole. */
static void pack_decoded(const void *user, const void *base, void *to, int64_t pitch, int64_t line, int64_t lines,
                         int64_t depth, int64_t depths)
{
    const packed *p = user;
    const int64_t count = p->f->count;
    const flxi_decoder decoder = flxi_packed_decoder(p->format);
    float numbers[FLXI_GGUF_MOST];
    for (int64_t i = 0; i < lines; i++) {
        const uint8_t *row = (const uint8_t *)base + (line + i) * p->row_bytes;
        for (int64_t at = depth / count * count; at < depth + depths; at += count) {
            flxi_packed_decode(&decoder, row + at / count * p->f->nbytes, numbers);
            int64_t from = at < depth ? depth - at : 0, end = at + count > depth + depths ? depth + depths - at : count;
            for (int64_t e = from; e < end; e++)
                ((float *)to)[(at + e - depth) * pitch + i] = numbers[e];
        }
    }
}

static flxi_gemm gemm_of(const packed *p, const flxi_gemm_source *source)
{
    flxi_gemm g = flxi_gemm_matrices(FLX_F32, p->rows, p->columns, p->k, p->k, 1, 1, p->k);
    g.a.data = p->x;
    g.b.data = p->w;
    g.b.source = source;
    g.c = p->y;
    return g;
}

/* ---- Few rows ---- */

/* The product as it is defined, for results that are not finite: an infinity in x times a code of 0 and a minimum. */
static float exact_product(const packed *p, const float *x, const uint8_t *w)
{
    double numbers[FLXI_GGUF_MOST], sum = 0;
    for (int64_t at = 0; at < p->k; at += p->f->count, w += p->f->nbytes) {
        p->f->decode(w, numbers);
        for (int e = 0; e < p->f->count; e++)
            sum += (double)x[at + e] * (double)(float)numbers[e];
    }
    return (float)sum;
}

static void multiply_columns(void *user, int64_t begin, int64_t end)
{
    const packed *p = user;
    for (int64_t j = begin; j < end && !flxi_stopped(); j++) {
        const uint8_t *w = p->w + j * p->row_bytes;
        for (int64_t i = 0; i < p->rows;) {
            int n = p->rows - i >= FLXI_PACKED_ROWS ? FLXI_PACKED_ROWS : 1;
            float *y = p->y + i * p->columns + j;
            p->product(w, p->x + i * p->k, p->sums ? p->of_x + i * p->sums : NULL, p->k, n, y, p->columns);
            for (int r = 0; r < n; r++, i++)
                if (!isfinite(y[r * p->columns]))
                    y[r * p->columns] = exact_product(p, p->x + i * p->k, w);
        }
    }
}

/* ---- Rounded rows ---- */

/* From here on unpacking a tile for all rows pays. */
static const int64_t many_rounded_rows = 4;

typedef struct {
    flxi_rounded_engine engine;
    flxi_rounded_call call; /* for all packed rows */
    const float *x;
    char *rounded;
} rounding;

static void round_rows(void *user, int64_t begin, int64_t end)
{
    const rounding *r = user;
    for (int64_t i = begin; i < end; i++)
        r->engine.round(r->call.format, r->x + i * r->call.k, r->call.k, r->rounded + i * r->call.layout.size);
}

static void multiply_parts(const rounding *r, int64_t begin, int64_t end, int64_t most,
                           void (*multiply)(const flxi_rounded_call *))
{
    for (int64_t j = begin * most; j < end * most && j < r->call.columns && !flxi_stopped(); j += most) {
        flxi_rounded_call c = r->call;
        c.w += j * c.row_bytes;
        c.y += j;
        c.columns = c.columns - j < most ? c.columns - j : most;
        multiply(&c);
    }
}

static void multiply_few(void *user, int64_t begin, int64_t end)
{
    const rounding *r = user;
    multiply_parts(r, begin, end, FLXI_ROUNDED_FEW, r->engine.few);
}

static void multiply_many(void *user, int64_t begin, int64_t end)
{
    const rounding *r = user;
    multiply_parts(r, begin, end, FLXI_ROUNDED_MANY, r->engine.many);
}

static void run_rounded(const flxi_route_node *n, const packed *p)
{
    const bool is_many = p->rows >= many_rounded_rows;
    const int64_t most = is_many ? FLXI_ROUNDED_MANY : FLXI_ROUNDED_FEW, parts = (p->columns + most - 1) / most;
    rounding r = {.engine = flxi_rounded_engine_of(p->format), .x = p->x, .rounded = n->scratch};
    r.call = (flxi_rounded_call){.format = p->format,
                                 .w = p->w,
                                 .row_bytes = p->row_bytes,
                                 .columns = p->columns,
                                 .x = n->scratch,
                                 .layout = flxi_rounded_layout_of(p->format, p->k),
                                 .k = p->k,
                                 .rows = p->rows,
                                 .y = p->y,
                                 .y_step = p->columns};
    flxi_pool_run(n->pool, p->rows, flxi_route_chunk(p->rows, 4 * p->k), round_rows, &r);
    flxi_pool_run(n->pool, parts, flxi_route_chunk(parts, most * p->row_bytes), is_many ? multiply_many : multiply_few,
                  &r);
}

/* ---- The route ---- */

const char *flxi_packed_applies(const flxi_route_node *n)
{
    if (flxi_route_int(n, "scheme") < SCHEME_GGUF)
        return "for the blocks of GGUF files";
    return n->in_types[0]->dtype == FLX_F32 ? NULL : "for f32";
}

size_t flxi_packed_scratch(const flxi_route_node *n, int threads)
{
    packed p = packed_of(n);
    flxi_gemm_source source = {pack_decoded, &p};
    if (p.rows == 0 || p.columns == 0 || p.k == 0)
        return 0;
    if (is_rounded(n))
        return (size_t)(p.rows * flxi_rounded_layout_of(p.format, p.k).size);
    if (p.rows < many_rows)
        return (size_t)(p.rows * p.sums) * sizeof(float);
    flxi_gemm g = gemm_of(&p, &source);
    return flxi_gemm_scratch(&g, threads);
}

flx_code flxi_packed_route(const flxi_route_node *n)
{
    packed p = packed_of(n);
    flxi_gemm_source source = {pack_decoded, &p};
    p.x = n->in[0];
    p.w = n->in[1];
    p.y = n->out[0];
    if (p.rows == 0 || p.columns == 0)
        return FLX_OK;
    if (is_rounded(n)) {
        run_rounded(n, &p);
        return FLX_OK;
    }
    if (p.rows >= many_rows && p.k > 0) {
        flxi_gemm g = gemm_of(&p, &source);
        flxi_gemm_run(&g, n->pool, n->scratch);
        return FLX_OK;
    }
    p.of_x = n->scratch;
    p.product = flxi_packed_product(p.format);
    for (int64_t i = 0; p.sums && i < p.rows; i++)
        flxi_packed_sum(p.format, p.x + i * p.k, p.k, p.of_x + i * p.sums);
    flxi_pool_run(n->pool, p.columns, flxi_route_chunk(p.columns, p.row_bytes), multiply_columns, &p);
    return FLX_OK;
}

/* ---- dequant_moe_weights ---- */

enum { TILE = 16 }; /* rows whose blocks are decoded side by side, and turned together */

typedef struct {
    flxi_decoder decoder;
    const uint8_t *w;
    float *y;
    int64_t k, columns; /* of a decoded matrix */
    int64_t tiles;      /* of a matrix */
} decoding;

/* Packed row j of a matrix is column j of the decoded one. */
static void decode_tile(const decoding *d, int64_t tile)
{
    const int64_t count = d->decoder.format->count, nbytes = d->decoder.format->nbytes, row = d->k / count * nbytes;
    const int64_t matrix = tile / d->tiles, j = tile % d->tiles * TILE;
    const int64_t rows = d->columns - j < TILE ? d->columns - j : TILE;
    const uint8_t *from = d->w + (matrix * d->columns + j) * row;
    float *to = d->y + matrix * d->k * d->columns + j;
    _Alignas(64) float numbers[TILE * FLXI_GGUF_MOST];
    for (int64_t p = 0; p < d->k; p += count, from += nbytes, to += count * d->columns) {
        for (int64_t i = 0; i < rows; i++)
            flxi_packed_decode(&d->decoder, from + i * row, numbers + i * count);
        if (flxi_turn_words(FLXI_ISA_BEST, numbers, to, d->columns, rows, count, count))
            continue;
        for (int64_t e = 0; e < count; e++)
            for (int64_t i = 0; i < rows; i++)
                to[e * d->columns + i] = numbers[i * count + e];
    }
}

static void decode_tiles(void *user, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end && !flxi_stopped(); t++)
        decode_tile(user, t);
}

flx_code flxi_decode_route(const flxi_route_node *n)
{
    const flx_dim *dims = n->out_types[0]->dims;
    decoding d = {.decoder = flxi_packed_decoder((flxi_gguf)flxi_route_int(n, "scheme")),
                  .w = n->in[0],
                  .y = n->out[0],
                  .k = dims[1],
                  .columns = dims[2],
                  .tiles = (dims[2] + TILE - 1) / TILE};
    if (flxi_route_count(n->out_types[0]) > 0)
        flxi_pool_run(n->pool, dims[0] * d.tiles, flxi_route_chunk(dims[0] * d.tiles, 4 * TILE * d.k), decode_tiles,
                      &d);
    return FLX_OK;
}
