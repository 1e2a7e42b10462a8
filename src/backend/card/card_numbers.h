/* SPDX-License-Identifier: Apache-2.0 */
/* card_numbers.h: how texts for cards know a dtype of numbers. */
#ifndef FLXI_CARD_NUMBERS_H
#define FLXI_CARD_NUMBERS_H

#include "base/strbuf.h"

/* Types T of elements and A of sums, LOAD, SAVE, ZERO, ADD and STEP (c + x y), in the dialect; NULL: not at all. */
const char *flxi_card_number_text(int32_t dtype);

/* These dtypes are counted: the number of one, or -1; and the dtype with a number. */
enum { FLXI_CARD_NUM_NUMBERS = 14 };
int32_t flxi_card_number_of(int32_t dtype);
int32_t flxi_card_number_at(int32_t number);

/* The function chosen(a, b): the larger or the smaller of two numbers of a type, which is double or an integer. Of
   floats the first NaN stays, and +0 is above -0. */
void flxi_card_add_chosen(const char *type, bool is_larger, flxi_strbuf *out);

#endif
