/* SPDX-License-Identifier: Apache-2.0 */
/* io_inflate.c: DEFLATE data made by zlib, made by hand, and broken in every way the format allows. */
#include "test.h"

#include "damage.h"
#include "format/inflate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The squares of 0, 1, 2 … as text, compressed by zlib in its three ways. */
static const char squares_dynamic[] =
    "2552c901c030085ac511bce2b1ff6205fb696c8288a88a49ca8a95f89328c9954a19135315739c997805620101c61fce59094fe0910d5c26"
    "ce4979bef2baa4802b9c8dffc6fde07d81db222f124dc160062a23a739c82d582559eeb16e5140514943914d520314ba528551b1eb8a87a6"
    "78aa411932bc1835ef86af0b5c3023c04fd1501ee08b0473b04634aac5a06e2c14a4424b525506f4654269163467b35bb6f114fd3c63c3c1"
    "8ef1228f3dbf66b4b82bc52bb20c6e22a31e72abc15203bed6477390d1a829fd50b71b0a7aa16568fd38f44d721605cd3350bfec03084450"
    "0937d1e58edeac6896fac5a934b88080cd009b31cfcc8371d2472b5a6a4377fd9f74d0737fb4df9b93f0bda1dc7c22df0d88538be500d3ea"
    "7683b950c97886a3431ebe0123ec3cb1378cebee2b88a9c317adb43e9e4e72f6f1f7b2d65c5d0c9df1e959a5b63d9d7bcbb1d48f9ed18b2b"
    "fb726d2e88fd1b125c11a30fce64ac0bfdf17f4d9cbe7918ef236f8f9af8bcdc0cf2249dc7c690ff711e1f";
static const char squares_fixed[] =
    "335030543051b05430345330325530365330b154303351b0305430343050303402d226264059a00a4ba012a01a2353206d61a9606c0400";
static const char squares_stored[] = "011e00e1ff302031203420392031362032352033362034392036342038312031303020";

static const struct {
    const char *name, *hex;
    size_t size;
} samples[] = {{"dynamic", squares_dynamic, 814}, {"fixed", squares_fixed, 60}, {"stored", squares_stored, 30}};

static void make_squares(char out[1024])
{
    size_t k = 0;
    for (int i = 0; i < 160; i++)
        k += (size_t)snprintf(out + k, 1024 - k, "%d ", i * i);
}

/* Inflates from and to blocks of exactly the sizes given. */
static flx_code inflate_copy(const void *in, size_t n, void *out, size_t size, flx_error *err)
{
    unsigned char *from = malloc(n ? n : 1);
    unsigned char *to = malloc(size ? size : 1);
    CHECK(from && to);
    if (n)
        memcpy(from, in, n);
    flx_code code = flxi_inflate(from, n, to, size, err);
    if (code == FLX_OK && out && size)
        memcpy(out, to, size);
    free(from);
    free(to);
    return code;
}

TEST(inflate_reads_what_zlib_writes)
{
    char squares[1024];
    make_squares(squares);
    for (int i = 0; i < 3; i++) {
        unsigned char in[512];
        char out[1024];
        flx_error err;
        size_t n = damage_hex(samples[i].hex, in, sizeof in);
        test_fail_context("%s", samples[i].name);
        CHECK_OK((int32_t)inflate_copy(in, n, out, samples[i].size, &err), &err);
        CHECK(memcmp(out, squares, samples[i].size) == 0);
    }
}

TEST(inflate_rejects_other_sizes_and_cuts)
{
    for (int i = 0; i < 3; i++) {
        unsigned char in[512];
        size_t n = damage_hex(samples[i].hex, in, sizeof in);
        test_fail_context("%s", samples[i].name);
        for (size_t k = 0; k < n; k++)
            CHECK_CODE((int32_t)inflate_copy(in, k, NULL, samples[i].size, NULL), FLX_E_SYNTAX, NULL);
        for (size_t size = 0; size < samples[i].size; size++)
            CHECK_CODE((int32_t)inflate_copy(in, n, NULL, size, NULL), FLX_E_SYNTAX, NULL);
        CHECK_CODE((int32_t)inflate_copy(in, n, NULL, samples[i].size + 1, NULL), FLX_E_SYNTAX, NULL);
        in[n] = 0;
        CHECK_CODE((int32_t)inflate_copy(in, n + 1, NULL, samples[i].size, NULL), FLX_E_SYNTAX, NULL);
    }
}

TEST(inflate_survives_every_changed_byte)
{
    for (int i = 0; i < 3; i++) {
        unsigned char in[512];
        size_t n = damage_hex(samples[i].hex, in, sizeof in);
        for (size_t k = 0; k < n; k++) {
            for (unsigned flip = 1; flip < 256; flip += flip < 8 ? 1 : 31) {
                flx_error err = {0};
                in[k] ^= (unsigned char)flip;
                flx_code code = inflate_copy(in, n, NULL, samples[i].size, &err);
                in[k] ^= (unsigned char)flip;
                CHECK(code == FLX_OK || (code == FLX_E_SYNTAX && err.message[0]));
            }
        }
    }
}

TEST(inflate_survives_random_bytes)
{
    uint64_t state = test_seed();
    for (int i = 0; i < 20000; i++) {
        unsigned char in[64];
        size_t n = (size_t)(test_random(&state) % sizeof in);
        for (size_t k = 0; k < n; k++)
            in[k] = (unsigned char)test_random(&state);
        if (n)
            in[0] = (unsigned char)((in[0] & 0xf8) | (i % 3 << 1) | 1); /* a last block of each kind */
        inflate_copy(in, n, NULL, (size_t)(test_random(&state) % 300), NULL);
    }
}

/* ---- Streams made by hand ---- */

typedef struct {
    unsigned char bytes[512];
    size_t bits;
} bit_writer;

static void put(bit_writer *w, unsigned value, unsigned n)
{
    for (unsigned i = 0; i < n; i++, w->bits++)
        if (value >> i & 1)
            w->bytes[w->bits / 8] |= (unsigned char)(1u << w->bits % 8);
}

/* A code goes first bit highest. */
static void put_code(bit_writer *w, unsigned code, unsigned length)
{
    for (unsigned i = length; i-- > 0;)
        put(w, code >> i & 1, 1);
}

/* A literal or length symbol of the fixed code. */
static void put_fixed(bit_writer *w, unsigned symbol)
{
    if (symbol < 144)
        put_code(w, 0x30 + symbol, 8);
    else if (symbol < 256)
        put_code(w, 0x190 + symbol - 144, 9);
    else if (symbol < 280)
        put_code(w, symbol - 256, 7);
    else
        put_code(w, 0xc0 + symbol - 280, 8);
}

static flx_code run(const bit_writer *w, void *out, size_t size, flx_error *err)
{
    return inflate_copy(w->bytes, (w->bits + 7) / 8, out, size, err);
}

/* Must be rejected, for the reason that contains `why`. */
static void check_refused(const bit_writer *w, size_t size, const char *why)
{
    flx_error err = {0};
    CHECK_CODE((int32_t)run(w, NULL, size, &err), FLX_E_SYNTAX, &err);
    CHECK_MSG(strstr(err.message, why), "the message is: %s", err.message);
}

static bit_writer last_block(unsigned kind)
{
    bit_writer w = {.bits = 0};
    put(&w, 1, 1);
    put(&w, kind, 2);
    return w;
}

TEST(inflate_blocks_follow_each_other)
{
    char out[16];
    flx_error err;
    bit_writer w = {.bits = 0};
    put(&w, 0, 1); /* stored "ab" */
    put(&w, 0, 2);
    w.bits = 8;
    put(&w, 2, 16);
    put(&w, 0xfffd, 16);
    put(&w, 'a', 8);
    put(&w, 'b', 8);
    put(&w, 0, 1); /* fixed: the two bytes again, and once more across the blocks */
    put(&w, 1, 2);
    put_fixed(&w, 258); /* length 4 */
    put_code(&w, 1, 5); /* distance 2 */
    put_fixed(&w, 256);
    put(&w, 0, 1); /* stored, empty */
    put(&w, 0, 2);
    w.bits = (w.bits + 7) / 8 * 8;
    put(&w, 0, 16);
    put(&w, 0xffff, 16);
    put(&w, 1, 1);
    put(&w, 1, 2);
    put_fixed(&w, 'c');
    put_fixed(&w, 256);
    CHECK_OK((int32_t)run(&w, out, 7, &err), &err);
    CHECK(memcmp(out, "abababc", 7) == 0);
}

TEST(inflate_empty_output)
{
    flx_error err;
    bit_writer w = last_block(1);
    put_fixed(&w, 256);
    CHECK_OK((int32_t)run(&w, NULL, 0, &err), &err);
    CHECK_CODE((int32_t)flxi_inflate(NULL, 0, NULL, 0, &err), FLX_E_SYNTAX, &err);
}

TEST(inflate_longest_match_and_overlap)
{
    flx_error err;
    bit_writer w = last_block(1);
    put_fixed(&w, 'x');
    put_fixed(&w, 285); /* 258 */
    put_code(&w, 0, 5); /* distance 1 */
    put_fixed(&w, 284); /* 227 + 30 = 257, which has no symbol of its own */
    put(&w, 30, 5);
    put_code(&w, 0, 5);
    put_fixed(&w, 256);
    char *all = malloc(516);
    CHECK(all);
    CHECK_OK((int32_t)run(&w, all, 516, &err), &err);
    for (int i = 0; i < 516; i++)
        CHECK(all[i] == 'x');
    free(all);
}

TEST(inflate_refuses_broken_blocks)
{
    bit_writer w = last_block(3);
    check_refused(&w, 0, "unknown kind");

    w = last_block(0);
    w.bits = 8;
    put(&w, 3, 16);
    put(&w, 3, 16);
    check_refused(&w, 3, "damaged length");

    w = last_block(1);
    put_fixed(&w, 286);
    put_code(&w, 0, 5);
    check_refused(&w, 100, "reserved length");

    w = last_block(1);
    put_fixed(&w, 'x');
    put_fixed(&w, 257);
    put_code(&w, 30, 5);
    put_fixed(&w, 256);
    check_refused(&w, 100, "reserved distance");

    w = last_block(1);
    put_fixed(&w, 'x');
    put_fixed(&w, 257);
    put_code(&w, 1, 5); /* distance 2, but there is only one byte */
    put_fixed(&w, 256);
    check_refused(&w, 100, "before its beginning");

    w = last_block(1);
    put_fixed(&w, 'x');
    put_fixed(&w, 257);
    put_code(&w, 0, 5);
    put_fixed(&w, 256);
    check_refused(&w, 3, "longer than stated");
    check_refused(&w, 5, "shorter than stated");
}

/* ---- Dynamic blocks ---- */

typedef struct {
    unsigned char lengths[320]; /* literals, then distances */
    unsigned num_literals, num_distances;
} code_lengths;

/* The header of a dynamic block in which every length is written with four bits, so all of 0…15 have codes and none of
   the run symbols do. */
static bit_writer dynamic_block(const code_lengths *c)
{
    bit_writer w = last_block(2);
    put(&w, c->num_literals - 257, 5);
    put(&w, c->num_distances - 1, 5);
    put(&w, 19 - 4, 4);
    for (int i = 0; i < 19; i++)
        put(&w, i < 3 ? 0 : 4, 3); /* the first three in order are 16, 17, 18 */
    for (unsigned i = 0; i < c->num_literals + c->num_distances; i++)
        put_code(&w, c->lengths[i], 4);
    return w;
}

TEST(inflate_codes_of_every_length)
{
    /* Literals 0…13 have 1…14 bits, 14 and the end of block 15 bits: codes 0, 10, 110 … */
    code_lengths c = {.num_literals = 257, .num_distances = 1};
    for (unsigned i = 0; i < 15; i++)
        c.lengths[i] = (unsigned char)(i + 1);
    c.lengths[256] = 15;
    bit_writer w = dynamic_block(&c);
    for (unsigned i = 0; i < 15; i++)
        put_code(&w, (1u << (i + 1)) - 2, i + 1);
    for (unsigned i = 15; i-- > 0;)
        put_code(&w, (1u << (i + 1)) - 2, i + 1);
    put_code(&w, 0x7fff, 15);
    unsigned char out[30];
    flx_error err;
    CHECK_OK((int32_t)run(&w, out, 30, &err), &err);
    for (unsigned i = 0; i < 15; i++)
        CHECK(out[i] == i && out[29 - i] == i);
}

TEST(inflate_single_codes)
{
    /* One symbol of one bit in either code is the only exception to codes that use all patterns. */
    code_lengths c = {.num_literals = 257, .num_distances = 1};
    flx_error err;
    c.lengths[256] = 1;
    bit_writer w = dynamic_block(&c);
    put_code(&w, 0, 1);
    CHECK_OK((int32_t)run(&w, NULL, 0, &err), &err);
    w = dynamic_block(&c);
    put_code(&w, 1, 1);
    put(&w, 0xffff, 16);
    check_refused(&w, 0, "not declared");

    c = (code_lengths){.num_literals = 258, .num_distances = 1};
    c.lengths['a'] = 1;
    c.lengths[256] = 2;
    c.lengths[257] = 2;
    c.lengths[258] = 1; /* the distance */
    w = dynamic_block(&c);
    put_code(&w, 0, 1);
    put_code(&w, 3, 2);
    put_code(&w, 0, 1);
    put_code(&w, 2, 2);
    char out[4];
    CHECK_OK((int32_t)run(&w, out, 4, &err), &err);
    CHECK(memcmp(out, "aaaa", 4) == 0);

    c.lengths[258] = 0; /* no distance code at all, yet one is used */
    w = dynamic_block(&c);
    put_code(&w, 0, 1);
    put_code(&w, 3, 2);
    put(&w, 0, 16);
    check_refused(&w, 4, "not declared");
}

TEST(inflate_refuses_broken_codes)
{
    code_lengths good = {.num_literals = 257, .num_distances = 1};
    good.lengths['a'] = 1;
    good.lengths[256] = 1;

    code_lengths c = good; /* three codes of one bit */
    c.lengths['b'] = 1;
    bit_writer w = dynamic_block(&c);
    put(&w, 0, 32);
    check_refused(&w, 0, "code lengths");

    c = good; /* patterns left over */
    c.lengths['a'] = 2;
    w = dynamic_block(&c);
    put(&w, 0, 32);
    check_refused(&w, 0, "code lengths");

    c = good; /* no end of block */
    c.lengths[256] = 0;
    c.lengths['b'] = 1;
    w = dynamic_block(&c);
    put(&w, 0, 32);
    check_refused(&w, 0, "code lengths");

    c = good; /* distances: one code of two bits */
    c.lengths[257] = 2;
    w = dynamic_block(&c);
    put(&w, 0, 32);
    check_refused(&w, 0, "code lengths");

    w = last_block(2); /* 287 literals */
    put(&w, 30, 5);
    put(&w, 0, 32);
    check_refused(&w, 0, "too many");

    w = last_block(2); /* 31 distances */
    put(&w, 0, 5);
    put(&w, 30, 5);
    put(&w, 0, 32);
    check_refused(&w, 0, "too many");

    w = last_block(2); /* the code for lengths has no symbols */
    put(&w, 0, 14);
    put(&w, 0, 12);
    put(&w, 0, 32);
    check_refused(&w, 0, "not declared");
}

TEST(inflate_refuses_broken_runs)
{
    /* A code for lengths with 16 and 18 only: 0 is "repeat", 1 is a run of zeros. */
    bit_writer w = last_block(2);
    put(&w, 0, 10);
    put(&w, 0, 4);
    put(&w, 1, 3);
    put(&w, 0, 3);
    put(&w, 1, 3);
    put(&w, 0, 3);
    put_code(&w, 0, 1); /* repeats a length before the first */
    put(&w, 0, 32);
    check_refused(&w, 0, "code lengths");

    w = last_block(2);
    put(&w, 0, 10);
    put(&w, 0, 4);
    put(&w, 1, 3);
    put(&w, 0, 3);
    put(&w, 1, 3);
    put(&w, 0, 3);
    for (int i = 0; i < 3; i++) { /* 3 * 138 zeros are more than 258 lengths */
        put_code(&w, 1, 1);
        put(&w, 127, 7);
    }
    check_refused(&w, 0, "code lengths");
}

/* Literals 0 and 256 have one bit each, written as 1, 255 zeros, 1; then a repeat gives three distances the length
   1. */
TEST(inflate_run_must_end_with_the_lengths)
{
    for (unsigned num_distances = 1; num_distances <= 4; num_distances++) {
        bit_writer w = last_block(2);
        put(&w, 0, 5);
        put(&w, num_distances - 1, 5);
        put(&w, 18 - 4, 4);
        for (int i = 0; i < 18; i++)
            put(&w, i == 17 ? 1 : i == 0 || i == 2 ? 2 : 0, 3); /* symbol 1: 0, 16: 10, 18: 11 */
        put_code(&w, 0, 1);
        put_code(&w, 3, 2);
        put(&w, 138 - 11, 7);
        put_code(&w, 3, 2);
        put(&w, 117 - 11, 7);
        put_code(&w, 0, 1);
        put_code(&w, 2, 2); /* three times, whether or not there is room */
        put(&w, 0, 2);
        if (num_distances == 4)
            put_code(&w, 0, 1);
        put_code(&w, 1, 1); /* end of block */
        test_fail_context("%u distances", num_distances);
        check_refused(&w, 0, "code lengths"); /* three and four are over-subscribed */
    }
    bit_writer w = last_block(2); /* two distances, one by one: valid */
    put(&w, 0, 5);
    put(&w, 1, 5);
    put(&w, 18 - 4, 4);
    for (int i = 0; i < 18; i++)
        put(&w, i == 17 ? 1 : i == 0 || i == 2 ? 2 : 0, 3);
    put_code(&w, 0, 1);
    put_code(&w, 3, 2);
    put(&w, 138 - 11, 7);
    put_code(&w, 3, 2);
    put(&w, 117 - 11, 7);
    put_code(&w, 0, 1);
    put_code(&w, 0, 1);
    put_code(&w, 0, 1);
    put_code(&w, 1, 1);
    flx_error err;
    CHECK_OK((int32_t)run(&w, NULL, 0, &err), &err);
}

TEST(inflate_bound_holds)
{
    CHECK_EQ_U64(flxi_inflate_bound(10), 10320);
    CHECK_EQ_U64(flxi_inflate_bound(UINT64_MAX), UINT64_MAX);
}
