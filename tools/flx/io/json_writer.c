/* SPDX-License-Identifier: Apache-2.0 */
/* json_writer.c: commas, quotes and escapes. */
#include "io/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Length of the UTF-8 sequence at `s`, 0 when there is none (overlong forms, surrogates and stray bytes included). */
static int utf8_length(const unsigned char *s)
{
    static const struct {
        unsigned char low, high, second_low, second_high;
        int length;
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    if (s[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (s[0] < forms[i].low || s[0] > forms[i].high)
            continue;
        if (s[1] < forms[i].second_low || s[1] > forms[i].second_high)
            return 0;
        for (int k = 2; k < forms[i].length; k++)
            if ((s[k] & 0xc0) != 0x80)
                return 0;
        return forms[i].length;
    }
    return 0;
}

static void put_string(const char *text)
{
    putchar('"');
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = utf8_length(s);
        if (n == 0) {
            fputs("\\ufffd", stdout);
            n = 1;
        } else if (*s == '"' || *s == '\\') {
            printf("\\%c", *s);
        } else if (*s == '\n') {
            fputs("\\n", stdout);
        } else if (*s == '\t') {
            fputs("\\t", stdout);
        } else if (*s < 32 || *s == 127) {
            printf("\\u%04x", *s);
        } else {
            fwrite(s, 1, (size_t)n, stdout);
        }
        s += n;
    }
    putchar('"');
}

static void begin_value(json *j, const char *key)
{
    if (j->needs_comma)
        fputs(", ", stdout);
    j->needs_comma = true;
    if (key) {
        put_string(key);
        fputs(": ", stdout);
    }
}

static void begin_container(json *j, const char *key, char bracket)
{
    begin_value(j, key);
    putchar(bracket);
    j->needs_comma = false;
    j->depth++;
}

static void end_container(json *j, char bracket)
{
    putchar(bracket);
    j->needs_comma = true;
    if (--j->depth == 0) {
        putchar('\n');
        j->needs_comma = false;
    }
}

void json_object_begin(json *j, const char *key)
{
    begin_container(j, key, '{');
}

void json_object_end(json *j)
{
    end_container(j, '}');
}

void json_array_begin(json *j, const char *key)
{
    begin_container(j, key, '[');
}

void json_array_end(json *j)
{
    end_container(j, ']');
}

void json_text(json *j, const char *key, const char *value)
{
    begin_value(j, key);
    if (value)
        put_string(value);
    else
        fputs("null", stdout);
}

void json_integer(json *j, const char *key, int64_t value)
{
    begin_value(j, key);
    printf("%" PRId64, value);
}

void json_unsigned(json *j, const char *key, uint64_t value)
{
    begin_value(j, key);
    printf("%" PRIu64, value);
}

void json_bool(json *j, const char *key, bool value)
{
    begin_value(j, key);
    fputs(value ? "true" : "false", stdout);
}

/* The fewest digits that read back to the same value. */
void json_number(json *j, const char *key, double value, int bits)
{
    if (!isfinite(value)) {
        json_text(j, key, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (bits > 24 ? back == value : (float)back == (float)value)
            break;
    }
    begin_value(j, key);
    fputs(text, stdout);
}
