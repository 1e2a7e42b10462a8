/* SPDX-License-Identifier: Apache-2.0 */
/* count_words.h: which words of a format follow a number, and that other text stays as it is. */
#include "base/error.h"
#include "base/text/count_words.h"
#include "test.h"

#include <string.h>

/* The text of a format with one number, for 1 and for 2. */
static void check_words(const char *fmt, const char *one, const char *two)
{
    char text[200];
    test_fail_context("%s", fmt);
    size_t n = flxi_format(text, sizeof text, fmt, (size_t)1);
    CHECK_EQ_STR(text, one);
    CHECK_EQ_U64(n, strlen(one));
    flxi_format(text, sizeof text, fmt, (size_t)2);
    CHECK_EQ_STR(text, two);
}

TEST(count_words_follow_the_number_before_them)
{
    check_words("%zu elements", "1 element", "2 elements");
    check_words("x has %zu elements, y", "x has 1 element, y", "x has 2 elements, y");
    check_words("(%zu axes)", "(1 axis)", "(2 axes)");
    check_words("%zu output axes are given", "1 output axis is given", "2 output axes are given");
    check_words("there are %zu inputs", "there is 1 input", "there are 2 inputs");
    check_words("%zu names are", "1 name is", "2 names are");
    check_words("%zu near misses, the first", "1 near miss, the first", "2 near misses, the first");
    check_words("%4zu bytes", "   1 byte", "   2 bytes");
    check_words("more than the %zu inputs", "more than the 1 input", "more than the 2 inputs");
}

TEST(count_words_leave_other_words)
{
    check_words("step %zu has no kind", "step 1 has no kind", "step 2 has no kind");
    check_words("rank %zu exceeds the limit", "rank 1 exceeds the limit", "rank 2 exceeds the limit");
    check_words("%zu or more operands", "1 or more operands", "2 or more operands");
    check_words("%zu rows_left", "1 rows_left", "2 rows_left");
    check_words("100%% of %zu bytes", "100% of 1 byte", "100% of 2 bytes");
    check_words("elements: %zu", "elements: 1", "elements: 2");
    char text[64];
    flxi_format(text, sizeof text, "%s lists %d axes, %s steps 1 row", "axes", 1, "it"); /* "list" may be a noun */
    CHECK_EQ_STR(text, "axes lists 1 axis, it steps 1 row");
}

TEST(count_words_know_numbers_from_parts_of_others)
{
    static const struct {
        const char *number, *text;
    } rows[] = {
        {"1", "1 element"},     {"11", "11 elements"},   {"21", "21 elements"},           {"-1", "-1 elements"},
        {"0", "0 elements"},    {"2*N", "2*N elements"}, {"N1", "N1 elements"},           {"N*1", "N*1 elements"},
        {"a 1", "a 1 element"}, {"", " elements"},       {"2*N + 1", "2*N + 1 elements"}, {"2 * 1", "2 * 1 elements"}};
    char text[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flxi_format(text, sizeof text, "%s elements", rows[i].number);
        CHECK_EQ_STR(text, rows[i].text);
    }
    flxi_format(text, sizeof text, "%zu rows of %zu columns in %d tiles", (size_t)1, (size_t)2, 1);
    CHECK_EQ_STR(text, "1 row of 2 columns in 1 tile");
    flxi_format(text, sizeof text, "'%s' has %d rows", "there are 1 rows", 1); /* what is an argument stays */
    CHECK_EQ_STR(text, "'there are 1 rows' has 1 row");
}

/* Texts that are cut off end within the room, as those of snprintf() do. */
TEST(count_words_fit_into_any_room)
{
    char whole[64], text[64];
    size_t n = flxi_format(whole, sizeof whole, "there are %d input rows are here", 1);
    CHECK_EQ_STR(whole, "there is 1 input row is here");
    for (size_t size = 1; size <= n + 1; size++) {
        memset(text, '#', sizeof text);
        CHECK_EQ_U64(flxi_format(text, size, "there are %d input rows are here", 1), size - 1);
        CHECK(strncmp(text, whole, size - 1) == 0 && text[size - 1] == 0 && text[size] == '#');
    }
}

TEST(count_words_are_those_of_errors)
{
    flx_error err = {0};
    flxi_fail(&err, FLX_E_ARITY, "got %d operands", 1);
    CHECK_EQ_STR(err.message, "got 1 operand");
    flxi_hint(&err, "there are %d names", 1);
    CHECK_EQ_STR(err.hint, "there is 1 name");
}
