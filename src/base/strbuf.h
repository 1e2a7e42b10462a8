/* SPDX-License-Identifier: Apache-2.0 */
/* strbuf.h: text or bytes under construction. A failure to grow is recorded, so writers check once at the end. */
#ifndef FLXI_STRBUF_H
#define FLXI_STRBUF_H

#include "base/memory.h"

typedef struct {
    const flxi_allocator *mem;
    char *at; /* always followed by a 0 byte after the first addition */
    size_t n, cap;
    bool failed;
} flxi_strbuf;

void flxi_strbuf_init(flxi_strbuf *b, const flxi_allocator *mem);
void flxi_strbuf_free(flxi_strbuf *b);
void flxi_add_bytes(flxi_strbuf *b, const void *data, size_t n);
void flxi_add_text(flxi_strbuf *b, const char *s);
void flxi_add_char(flxi_strbuf *b, char c);
void flxi_add_quoted(flxi_strbuf *b, const char *s);                   /* "…", with \n \t \" \\ where needed */
void flxi_addf(flxi_strbuf *b, const char *fmt, ...) FLX_PRINTF(2, 3); /* no floats: number.h */
/* At most 500 characters for people, with words that agree with their numbers (count_words.h). */
void flxi_add_counts(flxi_strbuf *b, const char *fmt, ...) FLX_PRINTF(2, 3);

#endif
