/* SPDX-License-Identifier: Apache-2.0 */
/* json.c: see json.h. The grammar is a state machine with a stack of one bit per level: whether the level is an object.
   Strings are validated when they are skipped, so decoding them later cannot fail. */
#include "format/json.h"

#include "base/number.h"
#include "base/text/utf8.h"

#include <string.h>

enum {
    expect_value,          /* one value */
    expect_value_or_close, /* first element of an array */
    expect_key_or_close,   /* first key of an object */
    expect_key,
    expect_comma_or_close, /* after a value inside an array or object */
    expect_nothing,        /* after the outermost value */
};

flxi_json flxi_json_begin(const char *text, size_t size)
{
    return (flxi_json){.text = text, .size = size, .expect = expect_value};
}

static flxi_json_token fail(flxi_json *j, const char *what)
{
    if (!j->error)
        j->error = what;
    return FLXI_JSON_ERROR;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int hex_value(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The next byte, or 0 at the end (a 0 in the text is not part of any token). */
static char peek(const flxi_json *j)
{
    return j->at < j->size ? j->text[j->at] : 0;
}

static void skip_space(flxi_json *j)
{
    while (j->at < j->size && (peek(j) == ' ' || peek(j) == '\t' || peek(j) == '\n' || peek(j) == '\r'))
        j->at++;
}

/* ---- Strings ---- */

/* Four hexadecimal digits at s, where four bytes are available; -1 if they are something else. */
static int32_t read_unit(const char *s, size_t n)
{
    int32_t v = 0;
    if (n < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int d = hex_value(s[i]);
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

static bool is_high(int32_t unit)
{
    return unit >= 0xd800 && unit < 0xdc00;
}

static bool is_low(int32_t unit)
{
    return unit >= 0xdc00 && unit < 0xe000;
}

/* Length of the escape at s (a backslash), 0 if it is not one; *c receives its value. An unpaired surrogate is not an
   escape. */
static size_t read_escape(const char *s, size_t n, int32_t *c)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    if (n < 2)
        return 0;
    const char *p = s[1] ? strchr(letters, s[1]) : NULL;
    if (p) {
        *c = meanings[p - letters];
        return 2;
    }
    if (s[1] != 'u')
        return 0;
    *c = read_unit(s + 2, n - 2);
    if (*c < 0 || is_low(*c))
        return 0;
    if (!is_high(*c))
        return 6;
    int32_t low = n >= 12 && s[6] == '\\' && s[7] == 'u' ? read_unit(s + 8, n - 8) : -1;
    if (low < 0 || !is_low(low))
        return 0;
    *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
    return 12;
}

static size_t utf8_encode(char out[4], int32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    int32_t lead = n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead | c);
    return n;
}

static flxi_json_token read_string(flxi_json *j, flxi_json_token kind)
{
    j->start = j->text + ++j->at;
    while (j->at < j->size) {
        const char *s = j->text + j->at;
        if (*s == '"') {
            j->length = (size_t)(s - j->start);
            j->at++;
            return kind;
        }
        if ((unsigned char)*s < 0x20)
            return fail(j, "a string contains a control character");
        int32_t c;
        size_t n = *s == '\\' ? read_escape(s, j->size - j->at, &c) : flxi_utf8_length(s, j->size - j->at);
        if (n == 0)
            return fail(j, *s == '\\' ? "invalid escape" : "a string is not UTF-8");
        j->at += n;
    }
    return fail(j, "unterminated string");
}

/* Iterates over a validated string: the next few decoded bytes, 0 of them at its end. */
static size_t decode_step(const flxi_json *j, size_t *at, char out[4])
{
    if (*at >= j->length)
        return 0;
    if (j->start[*at] != '\\') {
        out[0] = j->start[(*at)++];
        return 1;
    }
    int32_t c = 0;
    size_t n = read_escape(j->start + *at, j->length - *at, &c);
    *at = n ? *at + n : j->length;
    return n ? utf8_encode(out, c) : 0;
}

bool flxi_json_is(const flxi_json *j, const char *text)
{
    char piece[4];
    size_t k = 0;
    size_t n = strlen(text);
    for (size_t at = 0, m; (m = decode_step(j, &at, piece)) > 0; k += m)
        if (m > n - k || memcmp(piece, text + k, m) != 0)
            return false;
    return k == n;
}

size_t flxi_json_text(const flxi_json *j, char *out, size_t size)
{
    char piece[4];
    size_t k = 0;
    for (size_t at = 0, m; (m = decode_step(j, &at, piece)) > 0;)
        for (size_t i = 0; i < m; i++, k++)
            if (k + 1 < size)
                out[k] = piece[i];
    if (size)
        out[k < size ? k : size - 1] = 0;
    return k;
}

/* ---- Numbers and words ---- */

static bool skip_digits(flxi_json *j)
{
    size_t before = j->at;
    while (is_digit(peek(j)))
        j->at++;
    return j->at > before;
}

static flxi_json_token read_number(flxi_json *j)
{
    j->start = j->text + j->at;
    if (peek(j) == '-')
        j->at++;
    bool is_zero = peek(j) == '0';
    size_t first = j->at;
    if (!skip_digits(j) || (is_zero && j->at - first > 1))
        return fail(j, "invalid number");
    if (peek(j) == '.') {
        j->at++;
        if (!skip_digits(j))
            return fail(j, "invalid number");
    }
    if (peek(j) == 'e' || peek(j) == 'E') {
        j->at++;
        if (peek(j) == '+' || peek(j) == '-')
            j->at++;
        if (!skip_digits(j))
            return fail(j, "invalid number");
    }
    j->length = (size_t)(j->text + j->at - j->start);
    return FLXI_JSON_NUMBER;
}

static flxi_json_token read_word(flxi_json *j)
{
    static const struct {
        const char *word;
        flxi_json_token token;
    } words[] = {{"true", FLXI_JSON_TRUE}, {"false", FLXI_JSON_FALSE}, {"null", FLXI_JSON_NULL}};
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i].word);
        if (j->size - j->at >= n && memcmp(j->text + j->at, words[i].word, n) == 0) {
            j->at += n;
            return words[i].token;
        }
    }
    return fail(j, "expected a value");
}

bool flxi_json_u64(const flxi_json *j, uint64_t *out)
{
    return j->start && flxi_read_u64(j->start, j->length, out);
}

bool flxi_json_double(const flxi_json *j, double *out)
{
    return j->start && flxi_read_double(j->start, j->length, out);
}

/* ---- The machine ---- */

static bool in_object(const flxi_json *j)
{
    return j->depth > 0 && (j->objects >> (j->depth - 1) & 1);
}

static flxi_json_token open_level(flxi_json *j, bool object)
{
    if (j->depth == FLXI_JSON_DEPTH)
        return fail(j, "nesting is too deep");
    j->at++;
    uint64_t bit = UINT64_C(1) << j->depth++;
    j->objects = object ? j->objects | bit : j->objects & ~bit;
    j->expect = object ? expect_key_or_close : expect_value_or_close;
    return object ? FLXI_JSON_OBJECT : FLXI_JSON_ARRAY;
}

static void value_done(flxi_json *j)
{
    j->expect = j->depth ? expect_comma_or_close : expect_nothing;
}

static flxi_json_token close_level(flxi_json *j)
{
    bool object = in_object(j);
    if (peek(j) != (object ? '}' : ']'))
        return fail(j, object ? "expected a comma or }" : "expected a comma or ]");
    j->at++;
    j->depth--;
    value_done(j);
    return object ? FLXI_JSON_OBJECT_END : FLXI_JSON_ARRAY_END;
}

static flxi_json_token read_key(flxi_json *j)
{
    if (peek(j) != '"')
        return fail(j, "expected a key");
    if (read_string(j, FLXI_JSON_KEY) == FLXI_JSON_ERROR)
        return FLXI_JSON_ERROR;
    skip_space(j);
    if (peek(j) != ':')
        return fail(j, "expected a colon");
    j->at++;
    j->expect = expect_value;
    return FLXI_JSON_KEY;
}

static flxi_json_token read_value(flxi_json *j)
{
    char c = peek(j);
    if (c == '{' || c == '[')
        return open_level(j, c == '{');
    flxi_json_token t = c == '"'                  ? read_string(j, FLXI_JSON_STRING)
                        : c == '-' || is_digit(c) ? read_number(j)
                                                  : read_word(j);
    if (t != FLXI_JSON_ERROR)
        value_done(j);
    return t;
}

flxi_json_token flxi_json_next(flxi_json *j)
{
    if (j->error)
        return FLXI_JSON_ERROR;
    skip_space(j);
    if (j->expect == expect_nothing)
        return j->at == j->size ? FLXI_JSON_END : fail(j, "data follows the end");
    if (j->expect == expect_comma_or_close) {
        if (peek(j) != ',')
            return close_level(j);
        j->at++;
        skip_space(j);
        j->expect = in_object(j) ? expect_key : expect_value;
    }
    if (j->expect == expect_value_or_close && peek(j) == ']')
        return close_level(j);
    if (j->expect == expect_key_or_close && peek(j) == '}')
        return close_level(j);
    if (j->expect == expect_key || j->expect == expect_key_or_close)
        return read_key(j);
    return read_value(j);
}

bool flxi_json_skip(flxi_json *j, flxi_json_token first)
{
    if (first != FLXI_JSON_OBJECT && first != FLXI_JSON_ARRAY)
        return first != FLXI_JSON_ERROR;
    unsigned outside = j->depth - 1;
    while (j->depth > outside)
        if (flxi_json_next(j) == FLXI_JSON_ERROR)
            return false;
    return true;
}
