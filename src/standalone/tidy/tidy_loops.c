/* SPDX-License-Identifier: Apache-2.0 */
/* tidy_loops.c: heads of loops as one writes them, conditions that hold in the loops around them, and the letters i, j,
   k … for the variables of loops. */
#include "standalone/tidy/tidy.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 32, NAME = 24 };

/* A loop whose variable is below a number; of other blocks the name is empty. */
typedef struct {
    char name[NAME], limit[NAME];
} open_loop;

static bool is_number(const char *text)
{
    size_t n = strspn(text, "0123456789");
    return n > 0 && n < 10 && (!text[n] || (text[n] == 'u' && !text[n + 1]));
}

static void drop_suffix(char *number)
{
    if (is_number(number) && strlen(number) > 1 && number[strlen(number) - 1] == 'u')
        number[strlen(number) - 1] = 0;
}

/* for (uint32_t v3 = 0u, e3 = 17u; v3 < e3; v3++) {   or with the number itself; `row` is that line. */
static bool read_head(const flxi_sa_row *row, open_loop *out, char start[NAME])
{
    char line[200], end_name[NAME], again[3][NAME];
    if (row->n - row->indent >= sizeof line)
        return false;
    snprintf(line, sizeof line, "%.*s", (int)(row->n - row->indent), row->at + row->indent);
    int all = 0; /* characters of a line that has this form */
    sscanf(line, "for (uint32_t %23[a-z0-9] = %23[0-9u]; %23[a-z0-9] < %23[0-9u]; %23[a-z0-9]++) {%n", out->name, start,
           again[0], out->limit, again[1], &all);
    if (!all) {
        sscanf(line,
               "for (uint32_t %23[a-z0-9] = %23[0-9u], %23[a-z0-9] = %23[0-9u]; %23[a-z0-9] < %23[a-z0-9]; "
               "%23[a-z0-9]++) {%n",
               out->name, start, end_name, out->limit, again[0], again[2], again[1], &all);
        if (!all || strcmp(again[2], end_name) != 0)
            return false;
    }
    return !line[all] && is_number(start) && is_number(out->limit) && strcmp(again[0], out->name) == 0 &&
           strcmp(again[1], out->name) == 0;
}

/* if (w1 < 4u) {   where a loop around it says so */
static bool is_implied(const flxi_sa_row *row, const open_loop *loops, size_t depth)
{
    char name[NAME], limit[NAME], line[100];
    if (row->n - row->indent >= sizeof line)
        return false;
    snprintf(line, sizeof line, "%.*s", (int)(row->n - row->indent), row->at + row->indent);
    char after = 0;
    if (sscanf(line, "if (%23[a-z0-9] < %23[0-9u]) %c", name, limit, &after) != 3 || after != '{' ||
        line[strlen(line) - 1] != '{')
        return false;
    for (size_t i = 0; i < depth && i < MOST; i++)
        if (strcmp(loops[i].name, name) == 0 && strcmp(loops[i].limit, limit) == 0)
            return true;
    return false;
}

void flxi_sa_tidy_loops(flxi_sa_file *f, const flxi_strbuf *text, flxi_strbuf *out)
{
    open_loop loops[MOST];
    char start[NAME];
    size_t depth = 0;
    flxi_sa_row row;
    for (size_t at = 0; flxi_sa_next_row(text, &at, &row);) {
        open_loop now = {{0}, {0}};
        bool closes = row.n > row.indent && row.at[row.indent] == '}', opens = row.n > 0 && row.at[row.n - 1] == '{';
        depth -= closes && depth > 0;
        bool is_loop = opens && !closes && read_head(&row, &now, start);
        if (!is_loop)
            now.name[0] = 0;
        if (is_loop) {
            open_loop shown = now;
            if (!f->num_symbols) {
                drop_suffix(start);
                drop_suffix(shown.limit);
            }
            flxi_addf(out, "%*sfor (uint32_t %s = %s; %s < %s; %s++) {\n", (int)row.indent, "", now.name, start,
                      now.name, shown.limit, now.name);
        } else if (opens && !closes && is_implied(&row, loops, depth)) {
            flxi_addf(out, "%*s{\n", (int)row.indent, "");
        } else {
            flxi_add_bytes(out, row.at, row.n);
            flxi_add_char(out, '\n');
        }
        if (opens && depth < MOST)
            loops[depth] = now;
        depth += opens;
    }
}

/* ---- Names ---- */

typedef struct {
    char from[NAME];
    char to[2];
} new_name;

typedef struct {
    new_name at[256];
    size_t n;
} new_names;

static const char *find_new(const void *user, const char *name, size_t n)
{
    const new_names *x = user;
    for (size_t i = 0; i < x->n; i++)
        if (strlen(x->at[i].from) == n && memcmp(x->at[i].from, name, n) == 0)
            return x->at[i].to;
    return NULL;
}

/* The variable that the head of a loop declares. */
static bool declares(const flxi_sa_row *row, char name[NAME])
{
    static const char head[] = "for (uint32_t ";
    const char *p = row->at + row->indent, *end = row->at + row->n;
    size_t n = sizeof head - 1, length = 0;
    if ((size_t)(end - p) < n + 2 || memcmp(p, head, n) != 0)
        return false;
    for (p += n; p + length < end && flxi_sa_is_word(p[length]); length++)
        continue;
    if (length == 0 || length >= NAME)
        return false;
    memcpy(name, p, length);
    name[length] = 0;
    return true;
}

/* Letters by how deep a loop is; a variable that two loops of other depths declare keeps its name. */
static void choose(const flxi_strbuf *text, const char *letters, new_names *out)
{
    size_t depth = 0, at = 0;
    bool is_loop[MOST] = {false};
    flxi_sa_row row;
    while (flxi_sa_next_row(text, &at, &row)) {
        bool closes = row.n > row.indent && row.at[row.indent] == '}', opens = row.n > 0 && row.at[row.n - 1] == '{';
        new_name now = {{0}, {0}};
        depth -= closes && depth > 0;
        bool is_head = declares(&row, now.from);
        size_t level = 0;
        for (size_t i = 0; i < depth && i < MOST; i++)
            level += is_loop[i];
        now.to[0] = level < strlen(letters) ? letters[level] : 0;
        const char *known = find_new(out, now.from, strlen(now.from));
        if (is_head && (!now.to[0] || (known && known[0] != now.to[0]) || out->n == 256 || !opens)) {
            out->n = 0;
            return;
        }
        if (is_head && !known)
            out->at[out->n++] = now;
        if (opens && depth < MOST)
            is_loop[depth] = is_head;
        depth += opens;
    }
}

void flxi_sa_rename_loops(flxi_sa_file *f, const flxi_strbuf *text, flxi_strbuf *out)
{
    static const char all[] = "ijknopqrst";
    char free_letters[sizeof all] = "";
    new_names names = {.n = 0};
    for (size_t i = 0; all[i]; i++) {
        const char letter[2] = {all[i], 0};
        if (!flxi_sa_mentions(text, letter))
            strcat(free_letters, letter);
    }
    choose(text, free_letters, &names);
    flxi_sa_rewrite(out, text->at ? text->at : "", text->n, find_new, &names);
    (void)f;
}
