/* SPDX-License-Identifier: Apache-2.0 */
/* count_words.h: messages whose words agree with their numbers. Where a format has a number and then a noun of the list
   in count_words.c, as in "there are %zu inputs", the text has "there is 1 input" for 1. All functions that write
   messages format them here, so that a message is written in the plural and nothing else needs to be done. Words that
   are arguments do not change. */
#ifndef FLXI_COUNT_WORDS_H
#define FLXI_COUNT_WORDS_H

#include <fluxion/types.h>
#include <stdarg.h>
#include <stddef.h>

/* As snprintf() and vsnprintf(), but what they return is the length of the text that was kept. */
size_t flxi_format(char *to, size_t size, const char *fmt, ...) FLX_PRINTF(3, 4);
size_t flxi_format_va(char *to, size_t size, const char *fmt, va_list args);

#endif
