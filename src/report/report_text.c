/* SPDX-License-Identifier: Apache-2.0 */
/* report_text.c: see report_text.h. */
#include "report/report_text.h"

#include "base/number.h"
#include "base/text/utf8.h"

#include <math.h>
#include <stdlib.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* U+2028 and U+2029 end a line in JavaScript, but not in JSON. */
static bool is_line_separator(const char *s, size_t n)
{
    return n == 3 && (unsigned char)s[0] == 0xe2 && (unsigned char)s[1] == 0x80 && ((unsigned char)s[2] & 0xfe) == 0xa8;
}

static void add_json_byte(flxi_strbuf *out, char c)
{
    switch (c) {
    case '"': flxi_add_text(out, "\\\""); return;
    case '\\': flxi_add_text(out, "\\\\"); return;
    case '\n': flxi_add_text(out, "\\n"); return;
    case '\t': flxi_add_text(out, "\\t"); return;
    default: break;
    }
    if ((unsigned char)c < 32 || c == 127 || c == '<' || c == '>' || c == '&')
        flxi_addf(out, "\\u%04x", (unsigned)(unsigned char)c);
    else
        flxi_add_char(out, c);
}

void flxi_json_part(flxi_strbuf *out, const char *s, size_t n)
{
    while (n && *s) {
        size_t length = flxi_utf8_length(s, n);
        if (length == 0)
            flxi_add_text(out, "\\ufffd");
        else if (length == 1)
            add_json_byte(out, *s);
        else if (is_line_separator(s, length))
            flxi_add_text(out, ((unsigned char)s[2] & 1) ? "\\u2029" : "\\u2028");
        else
            flxi_add_bytes(out, s, length);
        length += length == 0;
        s += length;
        n -= length;
    }
}

void flxi_json_string(flxi_strbuf *out, const char *s)
{
    flxi_add_char(out, '"');
    flxi_json_part(out, s, strlen(s));
    flxi_add_char(out, '"');
}

void flxi_json_number(flxi_strbuf *out, double x)
{
    char text[FLXI_NUMBER_MAX];
    if (!isfinite(x)) {
        flxi_add_text(out, "null");
        return;
    }
    flxi_write_double(text, x, 53);
    flxi_add_text(out, text);
}

void flxi_add_fixed(flxi_strbuf *out, double x, int digits)
{
    double scale = digits == 0 ? 1 : digits == 1 ? 10 : 100;
    long long whole = llround(x * scale), unit = (long long)scale;
    flxi_addf(out, "%s%lld", whole < 0 ? "-" : "", llabs(whole) / unit);
    long long rest = llabs(whole) % unit;
    if (rest && digits == 1)
        flxi_addf(out, ".%lld", rest);
    else if (rest)
        flxi_addf(out, ".%02lld", rest);
}

/* ---- XML ---- */

static void add_xml_byte(flxi_strbuf *out, char c)
{
    switch (c) {
    case '<': flxi_add_text(out, "&lt;"); return;
    case '>': flxi_add_text(out, "&gt;"); return;
    case '&': flxi_add_text(out, "&amp;"); return;
    case '"': flxi_add_text(out, "&quot;"); return;
    case '\'': flxi_add_text(out, "&#39;"); return;
    default: break;
    }
    if (((unsigned char)c < 32 && c != '\n' && c != '\t') || c == 127)
        flxi_add_text(out, replacement);
    else
        flxi_add_char(out, c);
}

static size_t add_xml_character(flxi_strbuf *out, const char *s, size_t n)
{
    size_t length = flxi_utf8_length(s, n);
    if (length == 1)
        add_xml_byte(out, *s);
    else if (length == 0)
        flxi_add_text(out, replacement);
    else
        flxi_add_bytes(out, s, length);
    return length ? length : 1;
}

void flxi_add_xml(flxi_strbuf *out, const char *s)
{
    for (size_t n = strlen(s), done; n; n -= done, s += done)
        done = add_xml_character(out, s, n);
}

size_t flxi_text_length(const char *s)
{
    size_t count = 0;
    for (; *s; s++)
        count += ((unsigned char)*s & 0xc0) != 0x80;
    return count;
}

void flxi_add_xml_cut(flxi_strbuf *out, const char *s, size_t max)
{
    bool is_cut = flxi_text_length(s) > max;
    size_t left = is_cut ? max - 1 : max;
    for (size_t n = strlen(s), done; n && left; n -= done, s += done, left--)
        done = add_xml_character(out, s, n);
    if (is_cut)
        flxi_add_text(out, "\xe2\x80\xa6");
}

/* ---- Bytes ---- */

void flxi_add_base64(flxi_strbuf *out, const void *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n && !out->failed; i += 3) {
        size_t left = n - i;
        uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0u);
        char text[4] = {digits[v >> 18], digits[v >> 12 & 63], left > 1 ? digits[v >> 6 & 63] : '=',
                        left > 2 ? digits[v & 63] : '='};
        flxi_add_bytes(out, text, 4);
    }
}
