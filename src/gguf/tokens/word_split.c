/* SPDX-License-Identifier: Apache-2.0 */
/* word_split.c: divides a text into the pieces inside of which byte pairs are joined: words, numbers, signs and white
   space. Models differ in how: whether a piece may begin with a blank or with any sign, how many digits it has, and
   whether line ends belong to the signs before them. Each rule below looks at the beginning of the text and returns how
   many bytes it takes; the first that takes any decides. */
#include "base/text/utf8.h"
#include "gguf/tokens/vocabulary.h"

#include "gguf/tokens/unicode_classes.inc"

typedef enum { CLASS_LETTER, CLASS_NUMBER, CLASS_SPACE, CLASS_SIGN, CLASS_END } char_class;

/* ---- Characters ---- */

static uint32_t code_point(const char *s, size_t length)
{
    const unsigned char *p = (const unsigned char *)s;
    uint32_t c = length == 1 ? p[0] : length == 2 ? p[0] & 31 : length == 3 ? p[0] & 15 : p[0] & 7;
    for (size_t i = 1; i < length; i++)
        c = c << 6 | (p[i] & 63);
    return c;
}

static bool is_in(const uint32_t (*ranges)[2], size_t count, uint32_t c)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c > ranges[middle][1])
            low = middle + 1;
        else if (c < ranges[middle][0])
            high = middle;
        else
            return true;
    }
    return false;
}

static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* The class of the character at i, and its length; bytes that are not UTF-8 are signs. */
static char_class class_at(const char *s, size_t n, size_t i, size_t *length)
{
    *length = 1;
    if (i >= n)
        return CLASS_END;
    size_t found = flxi_utf8_length(s + i, n - i);
    if (found == 0)
        return CLASS_SIGN;
    *length = found;
    uint32_t c = code_point(s + i, found);
    if (is_in(letters, sizeof letters / sizeof *letters, c))
        return CLASS_LETTER;
    if (is_in(numbers, sizeof numbers / sizeof *numbers, c))
        return CLASS_NUMBER;
    return is_space(c) ? CLASS_SPACE : CLASS_SIGN;
}

/* Where the run of characters of this class that begins at i ends; at most `most` of them, 0: any number. */
static size_t run_end(const char *s, size_t n, size_t i, char_class of, int most)
{
    size_t length;
    for (int count = 0; (most == 0 || count < most) && class_at(s, n, i, &length) == of; count++)
        i += length;
    return i;
}

static bool is_line_end(char c)
{
    return c == '\r' || c == '\n';
}

/* ---- Rules ---- */

/* 's 't 're 've 'm 'll 'd; newer divisions accept capitals too. */
static size_t contraction(const char *s, size_t n, bool any_case)
{
    static const char *const ends[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (s[0] != '\'')
        return 0;
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        size_t size = strlen(ends[k]), i = 0;
        for (; i < size && i + 1 < n; i++) {
            char c = s[1 + i];
            if (any_case && c >= 'A' && c <= 'Z')
                c = (char)(c - 'A' + 'a');
            if (c != ends[k][i])
                break;
        }
        if (i == size)
            return 1 + size;
    }
    return 0;
}

/* A run of one class, with one character before it that `may_lead`. */
static size_t word(const char *s, size_t n, char_class of, int most, bool may_lead)
{
    size_t length;
    size_t from = class_at(s, n, 0, &length) == of ? 0 : may_lead ? length : n;
    size_t end = from < n ? run_end(s, n, from, of, most) : from;
    return end > from && from < n ? end : 0;
}

/* White space that is followed by something else leaves its last character to that. */
static size_t spaces(const char *s, size_t n)
{
    size_t end = run_end(s, n, 0, CLASS_SPACE, 0), last = 0, length;
    for (size_t i = 0; i < end; i += length) {
        class_at(s, n, i, &length);
        last = i;
    }
    return end == n || last == 0 ? end : last;
}

/* White space up to the last line end in it. */
static size_t lines(const char *s, size_t n)
{
    size_t end = run_end(s, n, 0, CLASS_SPACE, 0);
    while (end > 0 && !is_line_end(s[end - 1]))
        end--;
    return end;
}

static size_t signs(const char *s, size_t n, bool with_line_ends)
{
    size_t end = word(s, n, CLASS_SIGN, 0, s[0] == ' ');
    while (end && with_line_ends && end < n && is_line_end(s[end]))
        end++;
    return end;
}

static size_t older_piece(const flx_vocabulary *v, const char *s, size_t n)
{
    bool is_blank = s[0] == ' ';
    size_t size = contraction(s, n, false);
    size = size ? size : word(s, n, CLASS_LETTER, 0, is_blank);
    size = size ? size : word(s, n, CLASS_NUMBER, v->digits, is_blank && v->digits == 0);
    size = size ? size : signs(s, n, false);
    return size ? size : spaces(s, n);
}

static size_t newer_piece(const flx_vocabulary *v, const char *s, size_t n)
{
    size_t length;
    char_class first = class_at(s, n, 0, &length);
    bool may_lead = first != CLASS_NUMBER && !is_line_end(s[0]);
    size_t size = contraction(s, n, true);
    size = size ? size : word(s, n, CLASS_LETTER, 0, may_lead);
    size = size ? size : word(s, n, CLASS_NUMBER, v->digits, false);
    size = size ? size : signs(s, n, true);
    size = size ? size : lines(s, n);
    return size ? size : spaces(s, n);
}

size_t flxi_word_length(const flx_vocabulary *v, const char *s, size_t n)
{
    size_t size = v->is_gpt2 ? older_piece(v, s, n) : newer_piece(v, s, n);
    return size ? size : 1;
}
