/* SPDX-License-Identifier: Apache-2.0 */
/* mutate_text.c: changes to text in a notation of words, numbers, strings, marks and brackets, which is all that the
   languages here have in common. A token keeps whether it began a line, so statements stay lines. */
#include "mutate.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT_TOKENS = 6000, OWN_TEXT = 1 << 14 };

typedef enum { WORD, NUMBER, STRING, MARK } kind;

typedef struct {
    const char *s;
    uint32_t n;
    uint8_t kind;
    bool begins_line, after_space;
} tok;

typedef struct {
    tok at[MAX_TEXT_TOKENS];
    size_t n;
    const language *l;
    char own[OWN_TEXT]; /* texts of new tokens */
    size_t own_size;
} token_list;

/* ---- Tokens ---- */

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '%' || c == '@' || c == '!';
}

static uint32_t length_of(const char *p, const char *end, uint8_t *k)
{
    const char *q = p + 1;
    if (*p == '"') {
        *k = STRING;
        while (q < end && *q != '"' && *q != '\n')
            q += *q == '\\' && q + 1 < end ? 2 : 1;
        return (uint32_t)(q < end ? q + 1 - p : end - p);
    }
    *k = isdigit((unsigned char)*p) ? NUMBER : is_word_char(*p) ? WORD : MARK;
    if (*k == MARK)
        return 1;
    while (q < end && (is_word_char(*q) || (*q == '.' && (*k == NUMBER || is_word_char(q[-1])))))
        q++;
    return (uint32_t)(q - p);
}

/* Comments are left out. */
static size_t tokenize(const char *p, size_t size, tok *out, size_t room)
{
    const char *end = p + size;
    size_t n = 0;
    bool line = true, space = false;
    while (p < end && n < room) {
        if (isspace((unsigned char)*p)) {
            line |= *p == '\n';
            space = true;
            p++;
        } else if (*p == '#' || (*p == '/' && p + 1 < end && p[1] == '/')) {
            while (p < end && *p != '\n')
                p++;
        } else {
            tok *t = &out[n++];
            *t = (tok){.s = p, .begins_line = line, .after_space = space};
            t->n = length_of(p, end, &t->kind);
            p += t->n;
            line = space = false;
        }
    }
    return n;
}

static tok token_from(token_list *t, const char *text)
{
    size_t n = strlen(text);
    if (t->own_size + n > sizeof t->own)
        return (tok){.s = "0", .n = 1, .kind = NUMBER};
    char *s = t->own + t->own_size;
    memcpy(s, text, n);
    t->own_size += n;
    tok out = {.s = s, .n = (uint32_t)n, .after_space = true};
    if (n > 0)
        length_of(s, s + n, &out.kind);
    return out;
}

static bool is_mark(const tok *t, char c)
{
    return t->kind == MARK && *t->s == c;
}

static bool equal(const tok *a, const tok *b)
{
    return a->kind == b->kind && a->n == b->n && memcmp(a->s, b->s, a->n) == 0;
}

static void insert(token_list *t, size_t at, const tok *what, size_t n)
{
    if (t->n + n > MAX_TEXT_TOKENS || at > t->n)
        return;
    memmove(&t->at[at + n], &t->at[at], (t->n - at) * sizeof *what);
    memcpy(&t->at[at], what, n * sizeof *what);
    t->n += n;
}

/* The same from the list itself. */
static void insert_copy(token_list *t, size_t at, size_t from, size_t n)
{
    tok *copy = malloc((n + 1) * sizeof *copy);
    if (!copy)
        return;
    memcpy(copy, &t->at[from], n * sizeof *copy);
    insert(t, at, copy, n);
    free(copy);
}

static void remove_range(token_list *t, size_t at, size_t n)
{
    memmove(&t->at[at], &t->at[at + n], (t->n - at - n) * sizeof t->at[0]);
    t->n -= n;
}

/* ---- Parts of the text ---- */

static size_t find_kind(const token_list *t, kind k)
{
    size_t begin = pick_below(t->n);
    for (size_t i = 0; i < t->n; i++)
        if (t->at[(begin + i) % t->n].kind == k)
            return (begin + i) % t->n;
    return t->n;
}

/* The line around a token. */
static void line_around(const token_list *t, size_t at, size_t *begin, size_t *end)
{
    while (at > 0 && !t->at[at].begins_line)
        at--;
    *begin = at++;
    while (at < t->n && !t->at[at].begins_line)
        at++;
    *end = at;
}

/* A bracket and the one that closes it; false when there is none. */
static bool any_group(const token_list *t, size_t *open, size_t *close)
{
    static const char opens[] = "([{<", closes[] = ")]}>";
    size_t begin = pick_below(t->n);
    for (size_t i = 0; i < t->n; i++) {
        *open = (begin + i) % t->n;
        const char *which = t->at[*open].kind == MARK ? strchr(opens, *t->at[*open].s) : NULL;
        if (!which || !*which)
            continue;
        int depth = 0;
        for (*close = *open; *close < t->n; (*close)++) {
            depth += is_mark(&t->at[*close], *which);
            depth -= is_mark(&t->at[*close], closes[which - opens]);
            if (depth == 0)
                return true;
        }
    }
    return false;
}

/* ---- New tokens ---- */

static tok any_number(token_list *t, const tok *old)
{
    char text[64];
    size_t other = find_kind(t, NUMBER);
    int64_t value = old ? strtoll(old->s, NULL, 10) : 0;
    switch (pick_below(8)) {
    case 0: snprintf(text, sizeof text, "%" PRId64, value < INT64_MAX ? value + 1 : value); break;
    case 1: snprintf(text, sizeof text, "%" PRId64, value > 0 ? value - 1 : 0); break;
    case 2: snprintf(text, sizeof text, "%" PRId64, value < INT64_MAX / 4 ? value * 2 : value); break;
    case 3: snprintf(text, sizeof text, "%" PRIu64, odd_integer()); break;
    case 4: snprintf(text, sizeof text, "%s", pick_below(2) ? "0.5" : pick_below(2) ? "1e30" : "1e-310"); break;
    case 5:
    case 6:
        if (other < t->n)
            return t->at[other];
        /* fall through */
    default: snprintf(text, sizeof text, "%zu", pick_below(6)); break;
    }
    return token_from(t, text);
}

static tok any_word(token_list *t)
{
    size_t other = find_kind(t, WORD);
    if (other < t->n && pick_below(2))
        return t->at[other];
    return token_from(t, t->l->words->words[pick_below(t->l->words->n)]);
}

static tok any_token(token_list *t)
{
    static const char *const marks[] = {"(", ")", "[", "]", "{", "}", ",", "=", ":", "-", "<", ">", "@", "*", "?", "."};
    switch (pick_below(4)) {
    case 0: return any_word(t);
    case 1: return any_number(t, NULL);
    case 2: return token_from(t, marks[pick_below(sizeof marks / sizeof *marks)]);
    default: return t->at[pick_below(t->n)];
    }
}

/* A token instead of another of its kind. */
static tok like(token_list *t, const tok *old)
{
    tok fresh = old->kind == NUMBER ? any_number(t, old) : old->kind == WORD ? any_word(t) : *old;
    fresh.begins_line = old->begins_line;
    fresh.after_space = old->after_space;
    return fresh;
}

/* ---- Changes ---- */

static void change_one(token_list *t)
{
    size_t at = find_kind(t, pick_below(2) ? NUMBER : WORD);
    if (at < t->n)
        t->at[at] = like(t, &t->at[at]);
}

/* Every occurrence: another extent, dtype or name, with which the text may well be valid. */
static void change_all(token_list *t)
{
    size_t at = find_kind(t, pick_below(2) ? NUMBER : WORD);
    if (at == t->n)
        return;
    tok old = t->at[at], fresh = like(t, &old);
    for (size_t i = 0; i < t->n; i++)
        if (equal(&t->at[i], &old)) {
            t->at[i].s = fresh.s;
            t->at[i].n = fresh.n;
        }
}

static void change_dtype(token_list *t)
{
    static const char *const names[] = {"f64", "f32", "f16", "bf16", "c64", "c128", "i64",  "i32",
                                        "i16", "i8",  "u64", "u32",  "u16", "u8",   "bool", "i1"};
    enum { COUNT = sizeof names / sizeof *names };
    size_t begin = pick_below(t->n);
    bool all = pick_below(2);
    tok fresh = token_from(t, names[pick_below(COUNT)]), old = {0};
    for (size_t i = 0; i < t->n; i++) {
        tok *at = &t->at[(begin + i) % t->n];
        bool is_dtype = false;
        for (size_t k = 0; k < COUNT && at->kind == WORD && !old.s; k++)
            is_dtype |= strlen(names[k]) == at->n && memcmp(names[k], at->s, at->n) == 0;
        if (!is_dtype && !(old.s && equal(at, &old)))
            continue;
        old = *at;
        at->s = fresh.s;
        at->n = fresh.n;
        if (!all)
            return;
    }
}

static void change_line(token_list *t)
{
    size_t a, b, c, d;
    line_around(t, pick_below(t->n), &a, &b);
    line_around(t, pick_below(t->n), &c, &d);
    switch (pick_below(4)) {
    case 0: remove_range(t, a, b - a); break;
    case 1: insert_copy(t, b, a, b - a); break;
    case 2: insert_copy(t, c, a, b - a); break;
    default: /* moved */
        insert_copy(t, c, a, b - a);
        if (c >= b)
            remove_range(t, a, b - a);
        break;
    }
}

static void change_group(token_list *t)
{
    size_t a, b, c, d;
    if (!any_group(t, &a, &b) || !any_group(t, &c, &d))
        return;
    switch (pick_below(4)) {
    case 0: remove_range(t, a + 1, b - a - 1); break;
    case 1: remove_range(t, a, b - a + 1); break;
    case 2:
        if (a > 0 && t->at[a - 1].kind == WORD) { /* f(x) becomes g(f(x)) */
            tok close = token_from(t, ")"), open[2] = {any_word(t), token_from(t, "(")};
            insert(t, b + 1, &close, 1);
            insert(t, a - 1, open, 2);
            break;
        }
        /* fall through */
    default:
        if (d < a || c > b) { /* another group instead */
            insert_copy(t, b + 1, c, d - c + 1);
            remove_range(t, a, b - a + 1);
        }
        break;
    }
}

/* An element of a list: removed, or there twice. */
static void change_element(token_list *t)
{
    size_t open, close;
    if (!any_group(t, &open, &close) || close == open + 1)
        return;
    size_t begin = open + 1 + pick_below(close - open - 1), end;
    int depth = 0;
    while (begin > open + 1 && !is_mark(&t->at[begin - 1], ','))
        begin--;
    for (end = begin; end < close && (depth > 0 || !is_mark(&t->at[end], ',')); end++)
        depth += is_mark(&t->at[end], '(') + is_mark(&t->at[end], '[') - is_mark(&t->at[end], ')') -
                 is_mark(&t->at[end], ']');
    if (pick_below(2)) {
        tok comma = token_from(t, ",");
        insert_copy(t, end, begin, end - begin);
        insert(t, end, &comma, 1);
    } else {
        remove_range(t, begin, end - begin + (is_mark(&t->at[end], ',') ? 1 : 0));
    }
}

/* A line, or a whole block, of another file. */
static void splice(token_list *t)
{
    static token_list other;
    const seed_file *f = pick_seed(t->l->seeds);
    size_t begin, end, a, b;
    other.n = tokenize(f->bytes, f->size, other.at, MAX_TEXT_TOKENS);
    other.l = t->l;
    if (other.n == 0)
        return;
    line_around(&other, pick_below(other.n), &begin, &end);
    if (pick_below(3) == 0 && any_group(&other, &a, &b)) {
        line_around(&other, a, &begin, &end);
        end = b + 1 > end ? b + 1 : end;
    }
    line_around(t, pick_below(t->n), &a, &b);
    insert(t, pick_below(2) ? a : b, &other.at[begin], end - begin);
}

static void change_tokens(token_list *t)
{
    size_t at = pick_below(t->n);
    tok fresh = any_token(t);
    if (pick_below(2))
        insert(t, at, &fresh, 1);
    else
        remove_range(t, at, 1);
}

static size_t write_tokens(const token_list *t, char *out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n && n + t->at[i].n + 1 <= room; i++) {
        bool wordy = i > 0 && t->at[i].kind != MARK && t->at[i - 1].kind != MARK;
        if (t->at[i].begins_line || t->at[i].after_space || wordy)
            out[n++] = t->at[i].begins_line && i > 0 ? '\n' : ' ';
        memcpy(out + n, t->at[i].s, t->at[i].n);
        n += t->at[i].n;
    }
    return n;
}

static void change_somehow(token_list *t)
{
    static void (*const changes[])(token_list *) = {change_one,  change_one,  change_all,   change_dtype,
                                                    change_line, change_line, change_group, change_element,
                                                    splice,      change_all,  change_tokens};
    changes[pick_below(sizeof changes / sizeof *changes)](t);
}

/* One change that the reader accepts, if a few tries find it. */
static void change_validly(token_list *t, char *out, size_t room)
{
    static tok before[MAX_TEXT_TOKENS];
    size_t n = t->n;
    memcpy(before, t->at, n * sizeof *before);
    for (int tries = 0; tries < 6; tries++) {
        change_somehow(t);
        if (t->n > 0 && t->l->accepts(out, write_tokens(t, out, room)))
            return;
        memcpy(t->at, before, n * sizeof *before);
        t->n = n;
    }
}

size_t mutate_text(const language *l, const char *text, size_t size, char *out, size_t room)
{
    static token_list t;
    t.l = l;
    t.own_size = 0;
    t.n = tokenize(text, size, t.at, MAX_TEXT_TOKENS);
    bool guided = l->accepts && pick_below(8) && t.n > 0 && l->accepts(text, size);
    for (size_t n = pick_below(pick_below(4) ? 4 : 12); guided && n > 0 && t.n > 0; n--)
        change_validly(&t, out, room);
    for (size_t n = guided ? pick_below(3) == 0 : 1 + pick_below(4); n > 0 && t.n > 0; n--)
        change_somehow(&t);
    size_t written = write_tokens(&t, out, room);
    if (pick_below(16) == 0 && written > 0)
        written = LLVMFuzzerMutate((uint8_t *)out, written, room);
    return written;
}
