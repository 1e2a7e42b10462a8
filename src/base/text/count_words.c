/* SPDX-License-Identifier: Apache-2.0 */
/* count_words.c: see count_words.h. A copy of the format gets choices with both forms of the words that depend on a
   number, ONE form TWO form END; of each choice one form is removed from the text. A format without such words is used
   as it is. tests/check/counts finds numbers with nouns that are missing here. */
#include "base/text/count_words.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { ONE = 1, TWO = 2, END = 3, AHEAD = 4 }; /* AHEAD: ONE of a choice whose number follows it */
enum { LONGEST = 1200 };

/* ---- Words ---- */

/* Before a noun. */
static const char adjectives[] = " batch different equal evaluated hexadecimal input kv near operand output resident "
                                 "spatial symbolic whole zero ";

/* Without the s of the plural. */
static const char nouns[] =
    " angle argument array attribute bit block bound branching buffer byte candidate card channel character column "
    "cotangent device digit dimension direction element epoch example extent factor feature field flop function group "
    "head input instruction invocation iteration item kernel key layer letter level line link list loop name node "
    "number "
    "object op operand operation output pad parameter part partition pixel point position program rank region replica "
    "result row run scale sequence setting slice slot source step stride sum tangent target term text thread tile "
    "time token trip type unit unknown update value vector window word workgroup ";

typedef struct {
    const char *many, *one;
} word_pair;

static const word_pair irregular[] = {
    {"axes", "axis"},     {"batches", "batch"}, {"branches", "branch"}, {"carries", "carry"}, {"classes", "class"},
    {"entries", "entry"}, {"indices", "index"}, {"matrices", "matrix"}, {"misses", "miss"},   {"processes", "process"},
};

/* After a noun; "are" before a number too. */
static const word_pair verbs[] = {
    {"are", "is"},         {"were", "was"},     {"have", "has"},   {"do", "does"},
    {"exceed", "exceeds"}, {"leave", "leaves"}, {"need", "needs"},
};

static const char *find_one(const word_pair *pairs, size_t count, const char *s, size_t n)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(pairs[i].many) == n && memcmp(pairs[i].many, s, n) == 0)
            return pairs[i].one;
    return NULL;
}

static bool is_in(const char *list, const char *s, size_t n)
{
    for (const char *at = list + 1; *at; at = strchr(at, ' ') + 1)
        if (strncmp(at, s, n) == 0 && at[n] == ' ')
            return true;
    return false;
}

static size_t word_length(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz");
    return strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-(", s[n]) && s[n] ? 0 : n;
}

/* ---- Formats ---- */

typedef struct {
    char *at;
    size_t n, room;
    bool has_choices;
} format_copy;

static void copy(format_copy *c, const char *s, size_t n)
{
    n = n < c->room - c->n ? n : c->room - c->n;
    memcpy(c->at + c->n, s, n);
    c->n += n;
}

/* The words at s that depend on the number before them: adjectives, a noun, a verb. Writes them for 1, if there are
   any, and returns how many characters they have. */
static size_t counted_words(const char *s, format_copy *one)
{
    const char *from = s;
    size_t n = word_length(s);
    while (n && is_in(adjectives, s, n) && s[n] == ' ')
        s += n + 1, n = word_length(s);
    const char *noun = find_one(irregular, sizeof irregular / sizeof *irregular, s, n);
    if (!noun && (n < 2 || s[n - 1] != 's' || !is_in(nouns, s, n - 1)))
        return 0;
    copy(one, from, (size_t)(s - from));
    copy(one, noun ? noun : s, noun ? strlen(noun) : n - 1);
    s += n;
    n = *s == ' ' ? word_length(s + 1) : 0;
    const char *verb = n ? find_one(verbs, sizeof verbs / sizeof *verbs, s + 1, n) : NULL;
    if (!verb)
        return (size_t)(s - from);
    copy(one, " ", 1);
    copy(one, verb, strlen(verb));
    return (size_t)(s + 1 + n - from);
}

static void add_choice(format_copy *c, char begin, const char *one, size_t one_length, const char *many,
                       size_t many_length)
{
    copy(c, &begin, 1);
    copy(c, one, one_length);
    copy(c, &(char){TWO}, 1);
    copy(c, many, many_length);
    copy(c, &(char){END}, 1);
    c->has_choices = true;
}

/* The conversion at s, and the words after it. Returns what follows. */
static const char *copy_conversion(format_copy *c, const char *s)
{
    char words[160];
    format_copy one = {.at = words, .room = sizeof words};
    const char *end = s + 1 + strspn(s + 1, "-+ #0123456789.*hlzjt");
    size_t n = *end && strchr("dius", *end) && end[1] == ' ' ? counted_words(end + 2, &one) : 0;
    if (n && c->n >= 4 && memcmp(c->at + c->n - 4, "are ", 4) == 0 && (c->n == 4 || c->at[c->n - 5] == ' ')) {
        c->n -= 4;
        add_choice(c, AHEAD, "is", 2, "are", 3);
        copy(c, " ", 1);
    }
    end += *end != 0;
    copy(c, s, (size_t)(end - s));
    if (!n)
        return end;
    copy(c, " ", 1);
    add_choice(c, ONE, one.at, one.n, end + 1, n);
    return end + 1 + n;
}

/* The format with choices; false when there are none, or when it is too long. */
static bool mark_format(const char *fmt, char *out, size_t size)
{
    format_copy c = {.at = out, .room = size - 1};
    while (*fmt) {
        size_t n = strcspn(fmt, "%");
        copy(&c, fmt, n);
        fmt += n;
        if (*fmt)
            fmt = copy_conversion(&c, fmt);
    }
    out[c.n] = 0;
    return c.has_choices && c.n < c.room;
}

/* ---- Texts ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_part_of_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || strchr("._-*/", c);
}

/* Whether a number at `end` is an operand of a formula: 2*N + 1 elements are more than one. */
static bool is_operand(const char *begin, const char *end)
{
    while (end > begin && end[-1] == ' ')
        end--;
    return end > begin && strchr("+-*/", end[-1]);
}

/* Whether the word before the choice, or with AHEAD the word after it, is the number 1. */
static bool is_one(const char *begin, const char *choice, bool is_ahead, const char *after, const char *end)
{
    const char *p = choice;
    if (is_ahead)
        return end - after > 1 && after[1] == '1' && (end - after == 2 || !is_part_of_word(after[2]));
    while (p > begin && p[-1] == ' ')
        p--;
    bool is_word = p > begin && p[-1] == '1' && (p - begin == 1 || !is_part_of_word(p[-2]));
    return is_word && !is_operand(begin, p - 1);
}

static const char *find(const char *from, const char *end, int mark)
{
    const char *found = memchr(from, mark, (size_t)(end - from));
    return found ? found : end;
}

static const char *find_choice(const char *from, const char *end)
{
    const char *one = find(from, end, ONE);
    return find(from, one, AHEAD);
}

/* Returns the length of the text that is left. The last choice may have been cut off. */
static size_t choose_words(char *text, size_t n)
{
    const char *from = text, *end = text + n;
    char *to = text;
    while (from < end) {
        const char *choice = find_choice(from, end);
        memmove(to, from, (size_t)(choice - from));
        to += choice - from;
        const char *last = find(choice, end, END), *middle = find(choice, last, TWO);
        from = last < end ? last + 1 : end;
        bool one = choice < end && is_one(text, to, *choice == AHEAD, from, end);
        const char *word = one ? choice + 1 : middle < last ? middle + 1 : last;
        const char *word_end = one ? middle : last;
        if (choice < end && word < word_end) {
            memmove(to, word, (size_t)(word_end - word));
            to += word_end - word;
        }
    }
    return (size_t)(to - text);
}

size_t flxi_format_va(char *to, size_t size, const char *fmt, va_list args)
{
    char marked[LONGEST], wide[LONGEST];
    bool has_choices = mark_format(fmt, marked, sizeof marked);
    size_t room = has_choices ? sizeof wide : size;
    int wanted = vsnprintf(has_choices ? wide : to, room, has_choices ? marked : fmt, args);
    size_t n = wanted < 0 ? 0 : (size_t)wanted < room ? (size_t)wanted : room - 1;
    if (!has_choices)
        return n;
    n = choose_words(wide, n);
    n = n < size ? n : size - 1;
    memcpy(to, wide, n);
    to[n] = 0;
    return n;
}

size_t flxi_format(char *to, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    size_t n = flxi_format_va(to, size, fmt, args);
    va_end(args);
    return n;
}
