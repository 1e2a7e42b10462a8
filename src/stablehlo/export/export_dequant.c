/* SPDX-License-Identifier: Apache-2.0 */
/* export_dequant.c: the packed blocks of GGUF files as arithmetic on bytes. See export_rules.h.

   A number of a block is d·scale·(code − zero) − least·minimum, where scale, code and minimum are small integers put
   together from fields of bits. Which bits of which bytes depends on the number's position alone, so a field is four
   lists of constants: the byte, how far to shift it down, what to keep of it, how far to shift that up. */
#include "stablehlo/export/export_rules.h"

enum { MOST = 256 }; /* numbers in a block */

/* Of number e: (block[byte] >> down & mask) << up. */
typedef struct {
    int32_t byte[MOST], down[MOST], mask[MOST], up[MOST];
} field;

typedef struct {
    const char *word;
    int count, nbytes;
    int d, dmin; /* where these f16 are; -1: there is none */
    int zero;    /* what is subtracted from a code */
    bool signed_code, d_is_f32;
    /* Fills the fields; parts of one integer come one after the other. A part without mask is left out. */
    void (*code)(int e, int part, int32_t out[4]);
    void (*scale)(int e, int part, int32_t out[4]);   /* NULL: 1 */
    void (*minimum)(int e, int part, int32_t out[4]); /* NULL: the number dmin alone, or nothing */
    int scale_zero;
    bool signed_scale;
} format;

static void set(int32_t out[4], int byte, int down, int mask, int up)
{
    out[0] = byte;
    out[1] = down;
    out[2] = mask;
    out[3] = up;
}

/* ---- Blocks of 32: the first 16 numbers in the low halves of the bytes, the last 16 in the high ones ---- */

static void half_byte(int from, int e, int part, int32_t out[4])
{
    if (part == 0)
        set(out, from + e % 16, e < 16 ? 0 : 4, 15, 0);
}

static void half_at_2(int e, int part, int32_t out[4])
{
    half_byte(2, e, part, out);
}

static void half_at_4(int e, int part, int32_t out[4])
{
    half_byte(4, e, part, out);
}

static void five_bits(int low, int high, int e, int part, int32_t out[4])
{
    half_byte(low, e, part, out);
    if (part == 1)
        set(out, high + e / 8, e % 8, 1, 4);
}

static void five_at_6(int e, int part, int32_t out[4])
{
    five_bits(6, 2, e, part, out);
}

static void five_at_8(int e, int part, int32_t out[4])
{
    five_bits(8, 4, e, part, out);
}

static void byte_at_2(int e, int part, int32_t out[4])
{
    if (part == 0)
        set(out, 2 + e, 0, 255, 0);
}

static void byte_at_4(int e, int part, int32_t out[4])
{
    if (part == 0)
        set(out, 4 + e, 0, 255, 0);
}

/* ---- Blocks of 256 with 16 sub-blocks ---- */

/* A half of the block has four layers of two bits in 32 bytes, two sub-blocks in each layer. */
static void two_bits(int from, int e, int32_t out[4])
{
    int t = e / 16;
    set(out, from + 32 * (t / 8) + 16 * (t % 2) + e % 16, 2 * (t % 8 / 2), 3, 0);
}

static void code_q2(int e, int part, int32_t out[4])
{
    if (part == 0)
        two_bits(16, e, out);
}

static void scale_q2(int e, int part, int32_t out[4])
{
    if (part == 0)
        set(out, e / 16, 0, 15, 0);
}

static void minimum_q2(int e, int part, int32_t out[4])
{
    if (part == 0)
        set(out, e / 16, 4, 15, 0);
}

/* The third bit is in a mask of its own. */
static void code_q3(int e, int part, int32_t out[4])
{
    int t = e / 16;
    if (part == 0)
        two_bits(32, e, out);
    else if (part == 1)
        set(out, 16 * (t % 2) + e % 16, 4 * (t / 8) + t % 8 / 2, 1, 2);
}

static void scale_q3(int e, int part, int32_t out[4])
{
    int t = e / 16;
    if (part == 0)
        set(out, 96 + t % 8, t < 8 ? 0 : 4, 15, 0);
    else if (part == 1)
        set(out, 96 + 8 + t % 4, 2 * (t / 4), 3, 4);
}

static void code_q6(int e, int part, int32_t out[4])
{
    int h = e / 128;
    int layer = e % 128 / 32;
    if (part == 0)
        set(out, 64 * h + 32 * (layer % 2) + e % 32, layer < 2 ? 0 : 4, 15, 0);
    else if (part == 1)
        set(out, 128 + 32 * h + e % 32, 2 * layer, 3, 4);
}

static void scale_q6(int e, int part, int32_t out[4])
{
    if (part == 0)
        set(out, 192 + e / 16, 0, 255, 0);
}

/* ---- Blocks of 256 with 8 sub-blocks ---- */

/* Six bits: the first four whole, of the last four the upper two in the upper bits of the first. */
static void six_bits(int e, int part, int own, int shift, int upper, int32_t out[4])
{
    int t = e / 32;
    if (part == 0 && t < 4)
        set(out, 4 + own + t, 0, 63, 0);
    else if (part == 0)
        set(out, 4 + t + 4, shift, 15, 0);
    else if (part == 1 && t >= 4)
        set(out, 4 + upper + t - 4, 6, 3, 4);
}

static void scale_pairs(int e, int part, int32_t out[4])
{
    six_bits(e, part, 0, 0, 0, out);
}

static void minimum_pairs(int e, int part, int32_t out[4])
{
    six_bits(e, part, 4, 4, 4, out);
}

static void code_pairs(int from, int e, int part, int32_t out[4])
{
    int t = e / 32;
    if (part == 0)
        set(out, from + 32 * (t / 2) + e % 32, t % 2 ? 4 : 0, 15, 0);
}

static void code_q4(int e, int part, int32_t out[4])
{
    code_pairs(16, e, part, out);
}

static void code_q5(int e, int part, int32_t out[4])
{
    code_pairs(48, e, part, out);
    if (part == 1)
        set(out, 16 + e % 32, e / 32, 1, 4);
}

static const format formats[] = {
    {.word = "gguf_q4_0", .count = 32, .nbytes = 18, .d = 0, .dmin = -1, .zero = 8, .code = half_at_2},
    {.word = "gguf_q4_1", .count = 32, .nbytes = 20, .d = 0, .dmin = 2, .code = half_at_4},
    {.word = "gguf_q5_0", .count = 32, .nbytes = 22, .d = 0, .dmin = -1, .zero = 16, .code = five_at_6},
    {.word = "gguf_q5_1", .count = 32, .nbytes = 24, .d = 0, .dmin = 2, .code = five_at_8},
    {.word = "gguf_q8_0", .count = 32, .nbytes = 34, .d = 0, .dmin = -1, .signed_code = true, .code = byte_at_2},
    {.word = "gguf_q2_k",
     .count = 256,
     .nbytes = 84,
     .d = 80,
     .dmin = 82,
     .code = code_q2,
     .scale = scale_q2,
     .minimum = minimum_q2},
    {.word = "gguf_q3_k",
     .count = 256,
     .nbytes = 110,
     .d = 108,
     .dmin = -1,
     .zero = 4,
     .code = code_q3,
     .scale = scale_q3,
     .scale_zero = 32},
    {.word = "gguf_q4_k",
     .count = 256,
     .nbytes = 144,
     .d = 0,
     .dmin = 2,
     .code = code_q4,
     .scale = scale_pairs,
     .minimum = minimum_pairs},
    {.word = "gguf_q5_k",
     .count = 256,
     .nbytes = 176,
     .d = 0,
     .dmin = 2,
     .code = code_q5,
     .scale = scale_pairs,
     .minimum = minimum_pairs},
    {.word = "gguf_q6_k",
     .count = 256,
     .nbytes = 210,
     .d = 208,
     .dmin = -1,
     .zero = 32,
     .code = code_q6,
     .scale = scale_q6,
     .signed_scale = true},
    {.word = "gguf_q8_k",
     .count = 256,
     .nbytes = 292,
     .d = 0,
     .dmin = -1,
     .signed_code = true,
     .d_is_f32 = true,
     .code = byte_at_4},
};

/* ---- Arithmetic ---- */

static flx_val const_list(flxi_site *s, const int32_t *v, int count)
{
    flx_dim n = count;
    flx_type t = flx_type_make(FLX_I32, 1, &n);
    flx_tensor *tensor = flx_tensor_new(s->ctx, &t, v, NULL);
    if (!tensor) {
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
        return FLX_NONE;
    }
    flx_val c = flx_const(s->g, &t, tensor);
    flx_tensor_release(tensor);
    return c;
}

/* Integers of bytes, i32[blocks, nbytes], as i32[blocks, count]. */
static flx_val integers(flxi_site *s, flx_val bytes, int count, void (*part_of)(int, int, int32_t *))
{
    flx_graph *g = s->g;
    flx_val sum = FLX_NONE;
    for (int part = 0; part < 2; part++) {
        field f = {{0}, {0}, {0}, {0}};
        bool any = false;
        for (int e = 0; e < count; e++) {
            int32_t out[4] = {0};
            part_of(e, part, out);
            f.byte[e] = out[0];
            f.down[e] = out[1];
            f.mask[e] = out[2];
            f.up[e] = out[3];
            any |= out[2] != 0;
        }
        if (!any)
            continue;
        flx_val v = flx_gather(g, bytes, const_list(s, f.byte, count), 1, "clamp");
        v = flx_bit_and(g, flx_shr_logical(g, v, const_list(s, f.down, count)), const_list(s, f.mask, count));
        sum = flxi_sum(s, sum, flx_shl(g, v, const_list(s, f.up, count)));
    }
    return sum;
}

/* A byte as a number of two's complement. */
static flx_val with_sign(flxi_site *s, flx_val v)
{
    flx_val wrap = flx_sub(s->g, v, flxi_number(s, v, 256.0));
    return flx_where(s->g, flx_gt(s->g, v, flxi_number(s, v, 127.0)), wrap, v);
}

/* The float at a position of each block, f64[blocks, 1]. */
static flx_val float_at(flxi_site *s, flx_val block, flx_dim blocks, int at, flx_dtype dtype)
{
    flx_val bytes = flx_narrow(s->g, block, 1, at, (flx_dim)flx_dtype_size(dtype));
    flx_val v = flx_cast(s->g, flx_bitcast(s->g, bytes, dtype), FLX_F64);
    return flxi_reshape_to(s, v, 2, (flx_dim[]){blocks, 1});
}

static flx_val as_f64(flxi_site *s, flx_val v)
{
    return flx_cast(s->g, v, FLX_F64);
}

/* f64[blocks, count] */
static flx_val decoded(flxi_site *s, const format *f, flx_val block, flx_dim blocks)
{
    flx_graph *g = s->g;
    flx_val bytes = flx_cast(g, block, FLX_I32);
    flx_val code = integers(s, bytes, f->count, f->code);
    code = f->signed_code ? with_sign(s, code) : flx_sub(g, code, flxi_number(s, code, f->zero));
    flx_val d = float_at(s, block, blocks, f->d, f->d_is_f32 ? FLX_F32 : FLX_F16);
    flx_val v = as_f64(s, code);
    if (f->scale) {
        flx_val scale = integers(s, bytes, f->count, f->scale);
        scale = f->signed_scale ? with_sign(s, scale) : flx_sub(g, scale, flxi_number(s, scale, f->scale_zero));
        v = flx_mul(g, as_f64(s, scale), v);
    }
    v = flx_mul(g, d, v);
    if (f->dmin < 0)
        return v;
    flx_val least = float_at(s, block, blocks, f->dmin, FLX_F16);
    if (!f->minimum)
        return flx_add(g, v, least);
    return flx_sub(g, v, flx_mul(g, least, as_f64(s, integers(s, bytes, f->count, f->minimum))));
}

/* u8 of any shape as f32[E, K, N]: E·N rows of K numbers, one after the other. */
void flxi_export_as_dequant_moe_weights(flxi_site *s, flx_val *y)
{
    flx_dim dims[3] = {site_int(s, "E"), site_int(s, "N"), site_int(s, "K")};
    flx_type out = flx_type_make(FLX_F32, 3, (flx_dim[]){dims[0], dims[2], dims[1]});
    const format *f = formats;
    while (!site_says(s, "scheme", f->word)) {
        if (++f == formats + sizeof formats / sizeof *formats) {
            flxi_site_fail(s, FLX_E_UNSUPPORTED, NULL, "weights of this format cannot be written as StableHLO");
            return;
        }
    }
    if (flxi_static_extent(&out, 0, 3) == 0) {
        y[0] = flxi_zeros(s, &out);
        return;
    }
    flx_dim blocks = dims[0] * dims[1] * dims[2] / f->count;
    flx_val block = flxi_reshape_to(s, s->x[0], 2, (flx_dim[]){blocks, f->nbytes});
    flx_val rows = flxi_reshape_to(s, flx_cast(s->g, decoded(s, f, block, blocks), FLX_F32), 3, dims);
    y[0] = flx_transpose(s->g, rows, FLX_INTS(0, 2, 1));
}
