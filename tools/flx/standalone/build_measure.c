/* SPDX-License-Identifier: Apache-2.0 */
/* build_measure.c: bytes of code and stack. Which function calls which is read from the text of the file: all calls that
   a compiler may keep, those of inlined functions too, so that the chain found is never shorter than a real one. */
#include "standalone/build_measure.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- Code ---- */

static uint64_t number_at(const unsigned char *p, int bytes, bool is_big)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++)
        x = x << 8 | p[is_big ? i : bytes - 1 - i];
    return x;
}

/* Sections of ELF files of 32 and 64 bits: where fields are. */
typedef struct {
    size_t table, entry_bytes, entries; /* in the file's header */
    size_t flags, size;                 /* in a section's */
    int word;
} layout;

static const layout layouts[2] = {{32, 46, 48, 8, 20, 4}, {40, 58, 60, 8, 32, 8}};

int64_t measure_code(const file_bytes *object)
{
    enum { CLASS = 4, ORDER = 5, BIG = 2, HEADER = 64, ALLOCATED_CODE = 2 | 4 };
    const unsigned char *p = (const unsigned char *)object->data;
    if (object->size < HEADER || memcmp(p, "\177ELF", 4) != 0 || p[CLASS] < 1 || p[CLASS] > 2)
        return -1;
    const layout *l = &layouts[p[CLASS] - 1];
    bool is_big = p[ORDER] == BIG;
    uint64_t at = number_at(p + l->table, l->word, is_big), each = number_at(p + l->entry_bytes, 2, is_big);
    uint64_t count = number_at(p + l->entries, 2, is_big), sum = 0;
    if (each < l->size + (uint64_t)l->word || at > object->size || count > (object->size - at) / each)
        return -1;
    for (uint64_t i = 0; i < count; i++) {
        const unsigned char *s = p + at + i * each;
        bool is_code = (number_at(s + l->flags, l->word, is_big) & ALLOCATED_CODE) == ALLOCATED_CODE;
        sum += is_code ? number_at(s + l->size, l->word, is_big) : 0;
    }
    return sum < INT64_MAX ? (int64_t)sum : -1;
}

/* ---- Functions of the text ---- */

typedef struct {
    const char *name, *body; /* in the text */
    size_t name_size, body_size;
    int64_t own, deepest;   /* bytes of stack; deepest: -1 before it is known */
    bool is_open, is_taken; /* its depth is being computed; its address is used */
} function;

typedef struct {
    function *at;
    size_t n, room;
    bool failed;
    const char *text, *end;
} functions;

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* After what has no meaning here: a comment, a text, a line of the preprocessor; the same place if there is none. */
static const char *skip(const char *p, const char *begin, const char *end)
{
    if (*p == '/' && p + 1 < end && p[1] == '*') {
        for (p += 2; p < end && !(*p == '/' && p[-1] == '*'); p++)
            continue;
        return p < end ? p + 1 : end;
    }
    if (*p == '"') {
        for (p++; p < end && *p != '"'; p++)
            p += *p == '\\' && p + 1 < end;
        return p < end ? p + 1 : end;
    }
    if (*p == '#' && (p == begin || p[-1] == '\n'))
        while (p < end && *p != '\n')
            p++;
    return p;
}

static void add_function(functions *f, function one)
{
    if (f->n == f->room) {
        size_t room = f->room ? 2 * f->room : 64;
        function *more = realloc(f->at, room * sizeof *more);
        if (!more) {
            f->failed = true;
            return;
        }
        f->at = more;
        f->room = room;
    }
    f->at[f->n++] = one;
}

/* After the bracket that closes the one at p. */
static const char *skip_brackets(const char *p, const char *begin, const char *end, char open, char close)
{
    int depth = 0;
    while (p < end) {
        const char *after = skip(p, begin, end);
        if (after != p) {
            p = after;
            continue;
        }
        depth += (*p == open) - (*p == close);
        p++;
        if (depth == 0)
            break;
    }
    return p;
}

/* A definition is, outside of braces, a name with an argument list before a brace. */
static void find_functions(functions *f, const char *text, const char *end)
{
    const char *name = NULL;
    size_t name_size = 0;
    for (const char *p = text; p < end;) {
        const char *after = skip(p, text, end);
        if (after != p) {
            p = after;
        } else if (is_word(*p)) {
            name = p;
            while (p < end && is_word(*p))
                p++;
            name_size = (size_t)(p - name);
        } else if (*p == '(') {
            p = skip_brackets(p, text, end, '(', ')');
            const char *brace = p;
            while (brace < end && isspace((unsigned char)*brace))
                brace++;
            if (brace < end && *brace == '{' && name) {
                p = skip_brackets(brace, text, end, '{', '}');
                add_function(f, (function){name, brace, name_size, (size_t)(p - brace), 0, -1, false, false});
            }
        } else if (*p == '{') {
            p = skip_brackets(p, text, end, '{', '}');
        } else {
            p++;
        }
    }
}

static function *find(functions *f, const char *name, size_t n)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->at[i].name_size == n && memcmp(f->at[i].name, name, n) == 0)
            return &f->at[i];
    return NULL;
}

/* ---- Stack ---- */

/* FILE:LINE:COLUMN:NAME, tab, bytes, tab, `static` or `dynamic,bounded`. Parts of a function that was split are lines of
   their own, with a point after its name. */
static bool read_usage(functions *f, const file_bytes *usage)
{
    const char *p = usage->data, *end = usage->data + usage->size;
    while (p < end) {
        const char *line_end = memchr(p, '\n', (size_t)(end - p)), *tab = memchr(p, '\t', (size_t)(end - p));
        line_end = line_end ? line_end : end;
        if (!tab || tab > line_end)
            return false;
        const char *name = tab;
        while (name > p && name[-1] != ':')
            name--;
        const char *dot = memchr(name, '.', (size_t)(tab - name));
        function *one = find(f, name, (size_t)((dot ? dot : tab) - name));
        int64_t bytes = strtoll(tab + 1, NULL, 10);
        const char *kind = memchr(tab + 1, '\t', (size_t)(line_end - tab - 1));
        if (!kind || (kind[1] == 'd' && !memchr(kind, ',', (size_t)(line_end - kind))))
            return false;
        if (one)
            one->own += bytes; /* it calls its parts */
        p = line_end < end ? line_end + 1 : end;
    }
    return true;
}

static int64_t deepest_of(functions *f, function *one);

/* Whether the text declares a pointer to a function with this name: (*NAME)(. */
static bool is_pointer(const functions *f, const char *name, size_t n)
{
    for (const char *p = f->text; p && p + n + 4 < f->end; p = memchr(p + 1, '(', (size_t)(f->end - p - 1)))
        if (p[0] == '(' && p[1] == '*' && memcmp(p + 2, name, n) == 0 && p[n + 2] == ')' && p[n + 3] == '(')
            return true;
    return false;
}

/* What such a pointer may be: all functions whose address is taken. */
static int64_t deepest_taken(functions *f)
{
    int64_t most = 0;
    for (size_t i = 0; i < f->n; i++) {
        int64_t bytes = f->at[i].is_taken ? deepest_of(f, &f->at[i]) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Of all calls in the body. */
static int64_t deepest_call(functions *f, const function *one)
{
    const char *end = one->body + one->body_size;
    int64_t most = 0;
    for (const char *p = one->body; p < end;) {
        const char *after = skip(p, one->body, end);
        if (after != p || !is_word(*p)) {
            p = after != p ? after : p + 1;
            continue;
        }
        const char *name = p;
        while (p < end && is_word(*p))
            p++;
        size_t n = (size_t)(p - name);
        function *called = *p == '(' ? find(f, name, n) : NULL;
        int64_t bytes = 0;
        if (called && called != one)
            bytes = deepest_of(f, called);
        else if (*p == '(' && !called && is_pointer(f, name, n))
            bytes = deepest_taken(f);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* No function of a file calls itself. */
static int64_t deepest_of(functions *f, function *one)
{
    if (one->deepest < 0 && !one->is_open) {
        one->is_open = true;
        one->deepest = one->own + deepest_call(f, one);
        one->is_open = false;
    }
    return one->deepest < 0 ? 0 : one->deepest;
}

/* Functions that are named without being called. */
static void find_taken(functions *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const char *end = f->at[i].body + f->at[i].body_size;
        for (const char *p = f->at[i].body; p < end;) {
            const char *after = skip(p, f->at[i].body, end), *name = p;
            if (after != p || !is_word(*p)) {
                p = after != p ? after : p + 1;
                continue;
            }
            while (p < end && is_word(*p))
                p++;
            function *named = *p != '(' ? find(f, name, (size_t)(p - name)) : NULL;
            if (named)
                named->is_taken = true;
        }
    }
}

int64_t measure_stack(const char *text, size_t size, const file_bytes *usage)
{
    functions f = {.text = text, .end = text + size};
    int64_t most = -1;
    find_functions(&f, text, text + size);
    find_taken(&f);
    if (!f.failed && read_usage(&f, usage))
        for (size_t i = 0; i < f.n; i++) {
            int64_t bytes = deepest_of(&f, &f.at[i]);
            most = bytes > most ? bytes : most;
        }
    free(f.at);
    return most;
}
