/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_rounded.c: see gguf_rounded.h. This is the definition; backends have faster forms with equal results. */
#include "numeric/gguf_rounded.h"

#include <math.h>
#include <string.h>

static int64_t sums_of(const flxi_gguf_grid *g)
{
    return g->count == 32 ? 1 : 16;
}

static int64_t up_to_64(int64_t nbytes)
{
    return (nbytes + 63) / 64 * 64;
}

flxi_rounded_layout flxi_rounded_layout_of(flxi_gguf format, int64_t k)
{
    const flxi_gguf_grid *g = &flxi_gguf_grids[format];
    int64_t blocks = k / g->count;
    int64_t d_at = up_to_64(k);
    int64_t sums_at = d_at + up_to_64(blocks * (int64_t)sizeof(float));
    return (flxi_rounded_layout){d_at, sums_at, sums_at + up_to_64(blocks * sums_of(g) * (int64_t)sizeof(int16_t))};
}

flxi_rounded flxi_rounded_at(const flxi_rounded_layout *l, const void *base, int64_t row)
{
    const char *p = (const char *)base + row * l->size;
    return (flxi_rounded){(const void *)p, (const void *)(p + l->d_at), (const void *)(p + l->sums_at)};
}

/* To an integer, ties to even: |x| is at most 128, so the sum has the integer in its lowest bits. */
static int8_t round_to_even(float x)
{
    return (int8_t)((x + 0x1.8p23f) - 0x1.8p23f);
}

/* d of a block, which is NaN where a number is not finite. */
static float scale_of(const float *x, int count)
{
    float most = 0;
    for (int e = 0; e < count; e++) {
        if (!isfinite(x[e]))
            return NAN;
        most = fmaxf(most, fabsf(x[e]));
    }
    return fmaxf(most / 127, FLXI_ROUNDED_LEAST);
}

void flxi_round_row(flxi_gguf format, const float *x, int64_t k, void *out)
{
    const flxi_gguf_grid *g = &flxi_gguf_grids[format];
    const flxi_rounded_layout l = flxi_rounded_layout_of(format, k);
    int8_t *codes = out;
    float *scales = (void *)((char *)out + l.d_at);
    int16_t *sums = (void *)((char *)out + l.sums_at);
    for (int64_t p = 0; p < k; p += g->count, sums += sums_of(g)) {
        float d = scales[p / g->count] = scale_of(x + p, g->count);
        memset(sums, 0, (size_t)sums_of(g) * sizeof *sums);
        for (int e = 0; e < g->count; e++) {
            int8_t code = isnan(d) ? 0 : round_to_even(x[p + e] / d);
            codes[p + e] = code;
            sums[e / g->sub] = (int16_t)(sums[e / g->sub] + code);
        }
    }
}

/* What a block adds. */
static float block_product(const flxi_gguf_grid *g, const flxi_gguf_codes *w, const int8_t *x, const int16_t *sums,
                           float d)
{
    int32_t a = 0;
    int32_t b = 0;
    for (int p = 0; p < g->count; p += 16) {
        int32_t sum = 0;
        for (int e = p; e < p + 16; e++)
            sum += (w->codes[e] - g->zero) * x[e];
        a += w->scales[p / g->sub] * sum;
    }
    for (int t = 0; t < g->count / g->sub; t++)
        b += w->minima[t] * sums[t];
    float y = (float)a * (w->d * d);
    return g->least_at < 0 ? y : y + (float)b * (w->least * d);
}

void flxi_rounded_products(flxi_gguf format, const uint8_t *w, const void *x, int64_t rows, int64_t k, float *y,
                           int64_t y_step)
{
    const flxi_gguf_grid *g = &flxi_gguf_grids[format];
    const flxi_rounded_layout l = flxi_rounded_layout_of(format, k);
    flxi_gguf_codes codes;
    for (int64_t i = 0; i < rows; i++)
        y[i * y_step] = 0;
    for (int64_t p = 0; p < k; p += g->count, w += g->nbytes) {
        int64_t block = p / g->count;
        flxi_gguf_unpack(format, w, &codes);
        for (int64_t i = 0; i < rows; i++) {
            flxi_rounded r = flxi_rounded_at(&l, x, i);
            y[i * y_step] += block_product(g, &codes, r.codes + p, r.sums + block * sums_of(g), r.d[block]);
        }
    }
}
