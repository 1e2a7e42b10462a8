/* SPDX-License-Identifier: Apache-2.0 */
/* numeric_random.c: block functions against the published vectors of their authors (Random123, file kat_vectors), words
   by their number, and draws at the ends of their range. */
#include "numeric/counter_rng.h"
#include "numeric/token_draw.h"
#include "test.h"

#include <math.h>
#include <string.h>

TEST(philox_gives_the_published_words)
{
    static const struct {
        uint32_t counter[4], key[2], words[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t out[4];
        flxi_philox4x32(rows[i].counter, rows[i].key, out);
        CHECK_MSG(memcmp(out, rows[i].words, sizeof out) == 0, "row %zu: %08x %08x %08x %08x", i, out[0], out[1],
                  out[2], out[3]);
    }
}

TEST(threefry_gives_the_published_words)
{
    static const struct {
        uint32_t counter[2], key[2], words[2];
    } rows[] = {
        {{0, 0}, {0, 0}, {0x6b200159, 0x99ba4efe}},
        {{0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x1cb996fc, 0xbb002be7}},
        {{0x243f6a88, 0x85a308d3}, {0x13198a2e, 0x03707344}, {0xc4923a9c, 0x483df7a0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t out[2];
        flxi_threefry2x32(rows[i].counter, rows[i].key, out);
        CHECK_MSG(memcmp(out, rows[i].words, sizeof out) == 0, "row %zu: %08x %08x", i, out[0], out[1]);
    }
}

/* The number of a block is added to a counter of 128 bits, with the carry. */
TEST(rng_words_are_numbered_through_the_blocks)
{
    const flxi_rng g = {.algorithm = FLXI_PHILOX, .key = {1, 2}, .low = UINT64_MAX, .high = 5};
    uint32_t first[4], second[4];
    flxi_philox4x32((uint32_t[]){0xffffffff, 0xffffffff, 5, 0}, g.key, first);
    flxi_philox4x32((uint32_t[]){0, 0, 6, 0}, g.key, second);
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQ_U64(flxi_rng_word(&g, i), first[i]);
        CHECK_EQ_U64(flxi_rng_word(&g, 4 + i), second[i]);
    }
    CHECK_EQ_U64(flxi_rng_wide(&g, 1), (uint64_t)first[3] << 32 | first[2]);
    CHECK_EQ_I64(flxi_rng_block_words(&g), 4);
}

TEST(rng_draws_are_in_their_range)
{
    const flxi_rng g = flxi_rng_seeded(test_seed(), 3);
    double sum = 0, squares = 0;
    enum { DRAWS = 4000 };
    for (uint64_t i = 0; i < DRAWS; i++) {
        double low = flxi_rng_uniform(&g, FLXI_RNG_24, i), open = flxi_rng_open(&g, FLXI_RNG_24, i);
        double z = flxi_rng_normal(&g, FLXI_RNG_53, i);
        CHECK(low >= 0 && low < 1 && low * 0x1p24 == floor(low * 0x1p24));
        CHECK(open > 0 && open < 1 && fabs(open - low) <= 0x1p-24);
        CHECK(isfinite(z));
        sum += z;
        squares += z * z;
    }
    CHECK_NEAR(sum / DRAWS, 0.0, 6 / sqrt(DRAWS));
    CHECK_NEAR(squares / DRAWS, 1.0, 6 * sqrt(2.0 / DRAWS));
    CHECK(isnan(flxi_rng_gamma(&g, 0, 0.0)) && isnan(flxi_rng_gamma(&g, 0, -1.0)) && flxi_rng_gamma(&g, 0, 0.3) > 0);
}

/* Of the probabilities 1/4, 1/2, 0, 1/4; likely tokens in order are 1, 0, 3. */
TEST(token_draw_follows_the_cumulative_probabilities)
{
    static const struct {
        int64_t top_k;
        double top_p, u;
        int64_t token;
    } rows[] = {
        {0, 1.0, 0.0, 0},  {0, 1.0, 0.24, 0}, {0, 1.0, 0.26, 1}, {0, 1.0, 0.74, 1}, {0, 1.0, 0.76, 3},
        {0, 1.0, 1.0, 3},  {1, 1.0, 0.0, 1},  {2, 1.0, 0.3, 0},  {2, 1.0, 0.99, 1}, {0, 0.4, 0.0, 1},
        {0, 0.6, 0.99, 1}, {0, 0.6, 0.3, 0},  {0, 0.8, 0.99, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double logit[] = {log(0.25), log(0.5), -INFINITY, log(0.25)};
        int64_t order[8];
        flxi_token_row row = {logit, order, 4, rows[i].top_k, rows[i].top_p, 1.0, 0};
        int64_t token = flxi_draw_token(&row, rows[i].u);
        CHECK_MSG(token == rows[i].token, "row %zu: token %lld", i, (long long)token);
    }
    const double ties[] = {1, 3, 3, 2};
    CHECK_EQ_I64(flxi_argmax(ties, 4), 1);
}
