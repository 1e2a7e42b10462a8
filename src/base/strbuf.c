/* SPDX-License-Identifier: Apache-2.0 */
/* strbuf.c: see strbuf.h. */
#include "base/strbuf.h"

#include "base/host/stop.h"
#include "base/text/count_words.h"

#include <stdarg.h>
#include <stdio.h>

void flxi_strbuf_init(flxi_strbuf *b, const flxi_allocator *mem)
{
    *b = (flxi_strbuf){.mem = mem};
}

void flxi_strbuf_free(flxi_strbuf *b)
{
    if (b->at)
        b->mem->fn(b->mem->user, b->at, b->cap, 0);
    *b = (flxi_strbuf){.mem = b->mem};
}

static bool make_room(flxi_strbuf *b, size_t n)
{
    size_t need;
    if (b->failed || flxi_stopped_by_now() || !flxi_add_size(b->n, n, &need) || !flxi_add_size(need, 1, &need) ||
        need > PTRDIFF_MAX / 2) {
        b->failed = true;
        return false;
    }
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap * 2 : 256;
    if (cap < need)
        cap = need;
    char *p = b->mem->fn(b->mem->user, b->at, b->cap, cap);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->at = p;
    b->cap = cap;
    return true;
}

void flxi_add_bytes(flxi_strbuf *b, const void *data, size_t n)
{
    if (!make_room(b, n))
        return;
    if (n)
        memcpy(b->at + b->n, data, n);
    b->n += n;
    b->at[b->n] = 0;
}

void flxi_add_text(flxi_strbuf *b, const char *s)
{
    flxi_add_bytes(b, s, strlen(s));
}

void flxi_add_char(flxi_strbuf *b, char c)
{
    flxi_add_bytes(b, &c, 1);
}

void flxi_add_quoted(flxi_strbuf *b, const char *s)
{
    flxi_add_char(b, '"');
    for (; *s; s++) {
        if (*s == '\n')
            flxi_add_text(b, "\\n");
        else if (*s == '\t')
            flxi_add_text(b, "\\t");
        else {
            if (*s == '"' || *s == '\\')
                flxi_add_char(b, '\\');
            flxi_add_char(b, *s);
        }
    }
    flxi_add_char(b, '"');
}

void flxi_addf(flxi_strbuf *b, const char *fmt, ...)
{
    char piece[512];
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(piece, sizeof piece, fmt, args);
    if (n < 0) {
        b->failed = true;
    } else if ((size_t)n < sizeof piece) {
        flxi_add_bytes(b, piece, (size_t)n);
    } else if (make_room(b, (size_t)n)) { /* and for the 0 */
        vsnprintf(b->at + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void flxi_add_counts(flxi_strbuf *b, const char *fmt, ...)
{
    char piece[501];
    va_list args;
    va_start(args, fmt);
    size_t n = flxi_format_va(piece, sizeof piece, fmt, args);
    va_end(args);
    flxi_add_bytes(b, piece, n);
}
