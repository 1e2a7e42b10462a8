/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_pack.c: packs f32 numbers into the simple blocks of GGUF files: 32 numbers with one scale d, and with a
   minimum m where the type ends in 1. The scale is chosen so that the number of largest magnitude is represented
   best; codes are rounded to the nearest. What a reader decodes is then within half a step, d / 2, of the number,
   except that of types that end in 0 the end of the range opposite to that number is one step short. */
#include "base/half.h"
#include "gguf/gguf_file.h"
#include "graph/type/tensor.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 32 };

static void put_half(uint8_t *to, double x)
{
    uint16_t bits = flxi_to_f16(x);
    to[0] = (uint8_t)(bits & 255);
    to[1] = (uint8_t)(bits >> 8);
}

/* round(x / d) + zero, within 0 … most. */
static int code_of(double x, double d, int zero, int most)
{
    double q = d != 0 ? floor(x / d + 0.5) + zero : zero;
    return q < 0 ? 0 : q > most ? most : (int)q;
}

static void put_half_bytes(uint8_t *qs, const int codes[BLOCK])
{
    for (int i = 0; i < 16; i++)
        qs[i] = (uint8_t)((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}

static void put_fifth_bits(uint8_t *qh, const int codes[BLOCK])
{
    memset(qh, 0, 4);
    for (int i = 0; i < BLOCK; i++)
        qh[i / 8] = (uint8_t)(qh[i / 8] | (codes[i] >> 4 & 1) << i % 8);
}

/* The number of largest magnitude, with its sign. */
static double extreme(const float *x)
{
    double most = 0;
    for (int i = 0; i < BLOCK; i++)
        if (fabs((double)x[i]) > fabs(most))
            most = (double)x[i];
    return most;
}

/* Codes around 2^(bits - 1); the extreme has the code 0, the only one without an opposite. */
static void pack_centred(const float *x, int bits, uint8_t *to, int codes[BLOCK])
{
    int zero = 1 << (bits - 1);
    double d = extreme(x) / -zero;
    put_half(to, d);
    for (int i = 0; i < BLOCK; i++)
        codes[i] = code_of((double)x[i], d, zero, 2 * zero - 1);
}

/* Codes from the minimum on. */
static void pack_from_minimum(const float *x, int bits, uint8_t *to, int codes[BLOCK])
{
    double least = (double)x[0], most = (double)x[0];
    for (int i = 1; i < BLOCK; i++) {
        least = fmin(least, (double)x[i]);
        most = fmax(most, (double)x[i]);
    }
    int top = (1 << bits) - 1;
    double d = (most - least) / top;
    put_half(to, d);
    put_half(to + 2, least);
    for (int i = 0; i < BLOCK; i++)
        codes[i] = code_of((double)x[i] - least, d, 0, top);
}

static void pack_q4_0(const float *x, uint8_t *to)
{
    int codes[BLOCK];
    pack_centred(x, 4, to, codes);
    put_half_bytes(to + 2, codes);
}

static void pack_q4_1(const float *x, uint8_t *to)
{
    int codes[BLOCK];
    pack_from_minimum(x, 4, to, codes);
    put_half_bytes(to + 4, codes);
}

static void pack_q5_0(const float *x, uint8_t *to)
{
    int codes[BLOCK];
    pack_centred(x, 5, to, codes);
    put_fifth_bits(to + 2, codes);
    put_half_bytes(to + 6, codes);
}

static void pack_q5_1(const float *x, uint8_t *to)
{
    int codes[BLOCK];
    pack_from_minimum(x, 5, to, codes);
    put_fifth_bits(to + 4, codes);
    put_half_bytes(to + 8, codes);
}

static void pack_q8_0(const float *x, uint8_t *to)
{
    double d = fabs(extreme(x)) / 127;
    put_half(to, d);
    for (int i = 0; i < BLOCK; i++)
        to[2 + i] = (uint8_t)(code_of((double)x[i], d, 127, 254) - 127);
}

static void pack_f16(const float *x, uint8_t *to)
{
    put_half(to, (double)*x);
}

static void pack_bf16(const float *x, uint8_t *to)
{
    uint16_t bits = flxi_to_bf16((double)*x);
    to[0] = (uint8_t)(bits & 255);
    to[1] = (uint8_t)(bits >> 8);
}

static void (*packer_of(int32_t format))(const float *x, uint8_t *to)
{
    switch (format) {
    case FLXI_GGUF_f16: return pack_f16;
    case FLXI_GGUF_bf16: return pack_bf16;
    case FLXI_GGUF_q4_0: return pack_q4_0;
    case FLXI_GGUF_q4_1: return pack_q4_1;
    case FLXI_GGUF_q5_0: return pack_q5_0;
    case FLXI_GGUF_q5_1: return pack_q5_1;
    case FLXI_GGUF_q8_0: return pack_q8_0;
    default: return NULL;
    }
}

flx_tensor *flx_gguf_pack(const flx_tensor *t, const char *type, flx_error *err)
{
    const flxi_gguf_type *to = type ? flxi_gguf_type_named(type) : NULL;
    void (*pack)(const float *, uint8_t *) = to ? packer_of(to->format) : NULL;
    if (!t || !pack) {
        flxi_fail_hint(err, t ? FLX_E_UNSUPPORTED : FLX_E_USAGE, "types: f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0",
                       "flx_gguf_pack: cannot pack into '%.40s'", type ? type : "");
        return NULL;
    }
    flx_type out_type = t->type;
    flx_dim *row = out_type.rank ? &out_type.dims[out_type.rank - 1] : NULL;
    if (t->type.dtype != FLX_F32 || !row || *row % to->count != 0) {
        flxi_fail(err, FLX_E_SHAPE, "flx_gguf_pack: needs f32 with rows of a multiple of %d numbers", (int)to->count);
        return NULL;
    }
    out_type.dtype = FLX_U8;
    *row = *row / to->count * to->nbytes;
    flx_tensor *out = flx_tensor_new(t->ctx, &out_type, NULL, err);
    const float *x = t->data;
    uint8_t *y = out ? flx_tensor_data(out) : NULL;
    for (int64_t i = 0; out && i < t->count; i += to->count, y += to->nbytes)
        pack(x + i, y);
    return out;
}
