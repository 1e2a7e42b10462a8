/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights: blocks written byte by byte with the numbers they represent, derivatives of scales and zero points
   by hand, and the traps. Random blocks of every scheme are in tests/oracle/dequant.py. */
#include "numeric/gguf_block.h"
#include "ops/batch_text.h"
#include "ops/run_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Blocks ---- */

static void put_half(uint8_t *at, uint16_t bits)
{
    at[0] = (uint8_t)bits;
    at[1] = (uint8_t)(bits >> 8);
}

enum { HALF_ONE = 0x3c00, HALF_TWO = 0x4000 };

static void decode(flxi_gguf scheme, const uint8_t *block, double *y)
{
    flxi_gguf_formats[scheme].decode(block, y);
}

TEST(gguf_halves_of_bytes_are_sixteen_apart)
{
    uint8_t b[24] = {0};
    double y[256];
    put_half(b, HALF_TWO);
    b[2] = 0xf1;
    decode(FLXI_GGUF_q4_0, b, y);
    CHECK_NEAR(y[0], (1 - 8) * 2, 0);
    CHECK_NEAR(y[16], (15 - 8) * 2, 0);
    CHECK_NEAR(y[1], -16, 0);
    memset(b, 0, sizeof b);
    put_half(b, HALF_TWO);
    put_half(b + 2, HALF_ONE);
    b[4] = 0x01; /* number 0 */
    b[6] = 0x80; /* number 23 */
    b[8] = 0x03;
    decode(FLXI_GGUF_q5_1, b, y);
    CHECK_NEAR(y[0], (16 + 3) * 2 + 1, 0);
    CHECK_NEAR(y[23], 16 * 2 + 1, 0);
    CHECK_NEAR(y[16], 1, 0);
}

/* Sub-scale 0xff is -1, not 255. Number 0 has the code 33: 1 in ql and 2 above it. */
TEST(trap_84_q6_k_sub_scales_are_signed)
{
    uint8_t b[210] = {0};
    double y[256];
    put_half(b + 208, HALF_TWO);
    b[0] = 0x01;
    b[128] = 0x02;
    b[192] = 0xff;
    decode(FLXI_GGUF_q6_k, b, y);
    CHECK_NEAR(y[0], 2.0 * -1 * (33 - 32), 0);
    CHECK_NEAR(y[1], 2.0 * -1 * (0 - 32), 0);
    CHECK_NEAR(y[16], 0, 0);
}

/* d and dmin are the last four bytes, after the 16 scales and the codes; of q3_k the last two. */
TEST(trap_85_q2_k_and_q3_k_store_d_last)
{
    uint8_t b[110] = {0};
    double y[256];
    b[0] = 0x35; /* scale 5, minimum 3 */
    b[16] = 0x02;
    put_half(b + 80, HALF_TWO);
    put_half(b + 82, HALF_ONE);
    decode(FLXI_GGUF_q2_k, b, y);
    CHECK_NEAR(y[0], 2.0 * 5 * 2 - 1.0 * 3, 0);
    CHECK_NEAR(y[1], -3, 0);
    CHECK_NEAR(y[16], 0, 0);
    memset(b, 0, sizeof b);
    b[0] = 0x01;      /* the third bit of number 0 */
    b[32] = 0x03;     /* its other two */
    b[96] = 0x05;     /* the low bits of its scale */
    b[96 + 8] = 0x03; /* and the upper ones: 5 + 48 - 32 = 21 */
    put_half(b + 108, HALF_TWO);
    decode(FLXI_GGUF_q3_k, b, y);
    CHECK_NEAR(y[0], 2.0 * 21 * 3, 0);
    CHECK_NEAR(y[1], 2.0 * 21 * (0 - 4), 0);
}

/* A NaN scale makes the numbers NaN, and nothing else happens. */
TEST(gguf_scales_may_be_anything)
{
    uint8_t b[292];
    double y[256];
    for (int i = 0; i < FLXI_GGUF_COUNT; i++)
        for (int byte = 0; byte < 256; byte++) {
            memset(b, byte, sizeof b);
            decode((flxi_gguf)i, b, y);
            for (int k = 0; k < flxi_gguf_formats[i].count; k++)
                CHECK(isnan(y[k]) || fabs(y[k]) <= HUGE_VAL);
        }
}

/* Two matrices of one row each; the second has d = 2. */
TEST(moe_weights_are_transposed)
{
    char hex[2 * 68 + 1] = "";
    for (int row = 0; row < 2; row++) {
        snprintf(hex + strlen(hex), sizeof hex - strlen(hex), "00%s", row ? "40" : "3c");
        for (int k = 0; k < 32; k++)
            snprintf(hex + strlen(hex), sizeof hex - strlen(hex), "%02x", k);
    }
    char text[600];
    snprintf(text, sizeof text,
             "graph g() { w = const(u8[68], \"%s\")\n"
             "  a = dequant_moe_weights(w, scheme=gguf_q8_0, E=2, K=32, N=1)\n"
             "  return a, dequant_moe_weights(w, scheme=gguf_q8_0, E=1, K=32, N=2) }",
             hex);
    text_run r = text_begin(text);
    CHECK_CODE(r.code, FLX_OK, &r.err);
    for (int k = 0; k < 32; k++) {
        CHECK_NEAR(flx_tensor_get(r.out[0], k), k, 0);
        CHECK_NEAR(flx_tensor_get(r.out[0], 32 + k), 2 * k, 0);
        CHECK_NEAR(flx_tensor_get(r.out[1], 2 * k), k, 0);
        CHECK_NEAR(flx_tensor_get(r.out[1], 2 * k + 1), 2 * k, 0);
    }
    text_end(&r);
}

/* ---- dequant_matmul ---- */

/* k = 3 in blocks of 2, x = (1, 2, 3), codes (5; 6; 7), scales (0.5; 2), zero points (1; 3): D = x. d_scale = (1
   (5-1) + 2 (6-1), 3 (7-3)), d_zp = -(0.5 (1 + 2), 2·3). */
TEST(trap_80_scales_and_zero_points_learn_by_block)
{
    gradient_row rows[] = {
        {"x", {1, 2, 3}, {0.5 * 4, 0.5 * 5, 2 * 4}}, {"s", {0.5, 2}, {14, 12}}, {"z", {1, 3}, {-1.5, -6}}};
    check_gradient("graph g(x: f32[1, 3], s: f32[2, 1], z: f32[2, 1]) {\n"
                   "  w = const(i8[3, 1], [[5], [6], [7]])\n"
                   "  return dequant_matmul(x, w, s, z, scheme=int8_block_asym, bs=2) }",
                   rows, 3);
    /* Without zero points z is given but has no effect. */
    gradient_row ignored[] = {{"x", {1, 2, 3}, {2.5, 3, 14}}, {"s", {0.5, 2}, {17, 21}}, {"z", {1, 3}, {0, 0}}};
    check_gradient("graph g(x: f32[1, 3], s: f32[2, 1], z: f32[2, 1]) {\n"
                   "  w = const(i8[3, 1], [[5], [6], [7]])\n"
                   "  return dequant_matmul(x, w, s, z, scheme=int8_block, bs=2) }",
                   ignored, 3);
    /* fp8: 0x38 is 1, 0x40 is 2; one scale for both columns sums over them as well. */
    gradient_row fp8[] = {{"x", {3}, {0.5 * 3}}, {"s", {0.5}, {3 * 1 + 3 * 2}}};
    check_gradient("graph g(x: f32[1, 1], s: f32[1]) {\n"
                   "  return dequant_matmul(x, const(u8[1, 2], [[56, 64]]), s, scheme=fp8_e4m3) }",
                   fp8, 2);
    /* nvfp4: codes 2 and 7 are 1 and 6, the block's scale 0x40 is 2. */
    gradient_row global[] = {{"x", {1, 1}, {0.25 * 2 * 1, 0.25 * 2 * 6}}, {"s", {0.25}, {2 * (1 + 6)}}};
    check_gradient("graph g(x: f32[1, 2], s: f32[1]) {\n"
                   "  return dequant_matmul(x, const(u8[1], [114]), const(u8[1, 1], [[64]]), s, scheme=nvfp4_block) }",
                   global, 2);
}

/* y = x (q - z) s: of second derivatives along ones x gets (q - z) - s, s gets (q - z) - x, z gets -s - x. */
TEST(dequant_matmul_has_second_derivatives)
{
    gradient_row rows[] = {{"x", {2}, {6 - 0.5}}, {"s", {0.5}, {6 - 2}}, {"z", {1}, {-0.5 - 2}}};
    check_hessian_of_ones("graph g(x: f32[1, 1], s: f32[1, 1], z: f32[1, 1]) {\n"
                          "  return dequant_matmul(x, const(i8[1, 1], [[7]]), s, z, scheme=int8_block_asym) }",
                          rows, 3);
}

TEST(trap_81_packed_schemes_have_no_side_tensors)
{
    gradient_row rows[] = {{"x", {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {0}}};
    for (int k = 0; k < 16; k++)
        rows[0].want[k] = k < 2 ? (k ? -2 : -7) : -8;
    check_gradient("graph g(x: f32[1, 16]) {\n"
                   "  whole = concat(x, full(f32[1, 16], 0), axis=1)\n"
                   "  w = const(u8[18], [0, 60, 1, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])\n"
                   "  return dequant_matmul(whole, w, scheme=gguf_q4_0) }",
                   rows, 1);
    check_text_fails("graph g(x: f32[1, 32], w: u8[18], s: f32[1, 1]) {\n"
                     "  y = dequant_matmul(x, w, s, scheme=gguf_q4_0)\n"
                     "  return y }",
                     FLX_E_ARITY, "dequant_matmul 'y': this scheme takes x, w only: got 3 operands");
}

/* Codes 3 and 12 with the zero point 8 are -5 and 4. The low half comes first, along the flat index p n + j. */
TEST(trap_82_int4_honours_its_zero_point)
{
    text_run r = text_begin("graph g() { x = const(f32[2, 2], [[1, 0], [0, 1]])\n"
                            "  w = const(u8[2], [195, 120])\n"
                            "  s = const(f32[1, 2], [[1, 0.5]])\n"
                            "  return dequant_matmul(x, w, s, full(f32[1, 2], 8), scheme=int4_block) }");
    static const double want[] = {3 - 8, (12 - 8) * 0.5, 8 - 8, (7 - 8) * 0.5};
    CHECK_CODE(r.code, FLX_OK, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(flx_tensor_get(r.out[0], i), want[i], 0);
    text_end(&r);
}

/* 0x78 … 0x7e are 256 … 448, 0x7f is not a number; the scale of nvfp4 reads it as 0. e5m2 has infinities: 0x7c. */
TEST(trap_83_fp8_e4m3_has_no_infinities)
{
    text_run r =
        text_begin("graph g() { x = const(f32[1, 1], [[1]]) s = full(f32[1], 1)\n"
                   "  a = dequant_matmul(x, const(u8[1, 5], [[120, 126, 127, 255, 254]]), s, scheme=fp8_e4m3)\n"
                   "  b = dequant_matmul(x, const(u8[1, 5], [[123, 124, 125, 252, 1]]), s, scheme=fp8_e5m2)\n"
                   "  c = dequant_matmul(x, const(u8[1], [47]), const(u8[1, 2], [[127, 126]]), s,\n"
                   "                     scheme=nvfp4_block)\n"
                   "  return a, b, c }");
    static const double e4m3[] = {256, 448, NAN, NAN, -448};
    static const double e5m2[] = {57344, INFINITY, NAN, -INFINITY, 0x1p-16};
    static const double nvfp4[] = {-6 * 0.0, 448};
    CHECK_CODE(r.code, FLX_OK, &r.err);
    for (int i = 0; i < 5; i++) {
        double a = flx_tensor_get(r.out[0], i);
        double b = flx_tensor_get(r.out[1], i);
        CHECK(a == e4m3[i] || (isnan(a) && isnan(e4m3[i])));
        CHECK(b == e5m2[i] || (isnan(b) && isnan(e5m2[i])));
    }
    for (int i = 0; i < 2; i++)
        CHECK_NEAR(flx_tensor_get(r.out[2], i), nvfp4[i], 0);
    text_end(&r);
}

/* [2, 16] has 32 numbers, one block's, and yet no row is a block. */
TEST(trap_86_blocks_do_not_straddle_rows)
{
    check_text_fails("graph g(x: f32[3, 16], w: u8[18]) {\n"
                     "  y = dequant_matmul(x, w, scheme=gguf_q4_0)\n"
                     "  return y }",
                     FLX_E_SHAPE, "dequant_matmul 'y': the length of a row must be a multiple of 32: it is 16");
    check_text_fails("graph g(w: u8[18]) {\n"
                     "  y = dequant_moe_weights(w, scheme=gguf_q4_0, E=1, K=16, N=2)\n"
                     "  return y }",
                     FLX_E_SHAPE, "dequant_moe_weights 'y': the length of a row must be a multiple of 32: it is 16");
}

/* f16 is multiplied in f32: 300 · 300 - 300 · 300 is not inf - inf, and the weight 1/3 is not rounded before the
   product. */
TEST(dequant_matmul_of_halves_rounds_once)
{
    text_run r = text_begin("graph g() { x = const(f16[1, 2], [[300, -300]])\n"
                            "  s = const(f32[2, 1], [[300], [300]])\n"
                            "  a = dequant_matmul(x, const(i8[2, 1], [[1], [1]]), s, scheme=int8_block, bs=1)\n"
                            "  t = const(f32[2, 1], [[0.33333334], [0.33329]])\n"
                            "  return a, dequant_matmul(x, const(i8[2, 1], [[1], [1]]), t, scheme=int8_block, bs=1) }");
    CHECK_CODE(r.code, FLX_OK, &r.err);
    CHECK_EQ_I64(flx_tensor_type(r.out[0])->dtype, FLX_F16);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), 0, 0);
    CHECK_NEAR(flx_tensor_get(r.out[1], 0), 0.0130, 1e-4);
    text_end(&r);
}

/* Rows 0 and 2 go to the second matrix, whose scale is twice that of the first; the gradient of x is its weights. */
TEST(dequant_grouped_matmul_chooses_matrices)
{
    char w[2 * 36 + 1] = "";
    for (int e = 0; e < 2; e++) {
        snprintf(w + strlen(w), sizeof w - strlen(w), "00%s", e ? "40" : "3c");
        for (int k = 0; k < 16; k++)
            snprintf(w + strlen(w), sizeof w - strlen(w), "%s", k ? "88" : "89");
    }
    char text[700];
    snprintf(text, sizeof text,
             "graph g(x: f32[3, 1]) {\n"
             "  whole = concat(x, full(f32[3, 31], 1), axis=1)\n"
             "  w = const(u8[36], \"%s\")\n"
             "  return dequant_grouped_matmul(whole, w, const(i32[3], [1, 0, 1]), scheme=gguf_q4_0, N=1) }",
             w);
    gradient_row rows[] = {{"x", {5, 6, 7}, {2, 1, 2}}};
    check_gradient(text, rows, 1);
}

/* Packed weights of each example: decoded one by one. */
TEST(dequant_matmul_batched_in_its_weights)
{
    batch_row rows[] = {{"x", {1, 2}, false}, {"w", {3, 4, 5, 6}, true}, {"s", {1, 10}, true}};
    check_batched("graph g(x: f32[1, 2], w: i8[2, 1], s: f32[1, 1]) {\n"
                  "  return dequant_matmul(x, w, s, scheme=int8_block) }",
                  2, rows, 3, (double[]){11, 170}, 2);
}
