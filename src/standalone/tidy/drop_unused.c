/* SPDX-License-Identifier: Apache-2.0 */
/* drop_unused.c: lines of a function that compute a constant that nothing uses, and functions that nothing calls. The
   text is read from its end, so that what only such lines use is found unused too. */
#include "standalone/standalone.h"

typedef struct {
    flxi_sa_file *f;
    flxi_strings names;
    FLXI_VEC(uint32_t) uses; /* by number of the name */
    int add;
} census;

static const char *count_name(const void *user, const char *name, size_t n)
{
    census *c = (census *)(uintptr_t)user;
    size_t number = flxi_intern_number(&c->names, name, n);
    while (number != SIZE_MAX && c->uses.n <= number)
        if (!flxi_push(c->f->mem, &c->uses, 0))
            break;
    if (number >= c->uses.n) {
        c->f->failed = true;
        return NULL;
    }
    c->uses.at[number] += (uint32_t)c->add;
    return NULL;
}

static void count_line(census *c, const char *line, size_t n, int add)
{
    flxi_strbuf unused;
    flxi_strbuf_init(&unused, c->f->mem);
    c->add = add;
    flxi_sa_rewrite(&unused, line, n, count_name, c);
    flxi_strbuf_free(&unused);
}

/* The name that the line declares, if it is a constant in one line without an effect. */
static bool declares(const char *line, size_t n, const char **name, size_t *length)
{
    size_t i = 0;
    while (i < n && line[i] == ' ')
        i++;
    if (n - i < 12 || memcmp(line + i, "const ", 6) != 0 || line[n - 1] != ';' || memchr(line, '{', n))
        return false;
    const char *equals = memchr(line, '=', n);
    if (!equals || equals - line < 8 || memchr(line, '*', (size_t)(equals - line)))
        return false;
    const char *end = equals - 1, *begin = end;
    while (begin[-1] != ' ')
        begin--;
    *name = begin;
    *length = (size_t)(end - begin);
    for (const char *p = line; p + 9 < line + n; p++)
        if (memcmp(p, "k_atomic_", 9) == 0 || memcmp(p, "k_fetch_", 8) == 0 || memcmp(p, "k_change_", 9) == 0)
            return false;
    return true;
}

static bool is_unused(census *c, const char *line, size_t n)
{
    const char *name;
    size_t length;
    if (!declares(line, n, &name, &length))
        return false;
    size_t number = flxi_intern_number(&c->names, name, length);
    return number < c->uses.n && c->uses.at[number] == 1;
}

void flxi_sa_drop_unused(flxi_sa_file *f, flxi_strbuf *text)
{
    census c = {.f = f, .names = {.arena = &f->arena}};
    if (!text->at)
        return;
    count_line(&c, text->at, text->n, 1);
    size_t end = text->n; /* of what has not been read yet */
    while (end > 0 && !f->failed) {
        size_t begin = end - 1; /* the newline of the line */
        while (begin > 0 && text->at[begin - 1] != '\n')
            begin--;
        size_t n = end - 1 - begin;
        if (n && is_unused(&c, text->at + begin, n)) {
            count_line(&c, text->at + begin, n, -1);
            memmove(text->at + begin, text->at + end, text->n - end + 1);
            text->n -= end - begin;
        }
        end = begin;
    }
    flxi_vec_free(f->mem, &c.uses);
    flxi_strings_free(&c.names);
}

/* ---- Functions ---- */

/* The name of the function whose definition begins here. */
static const char *function_name(flxi_sa_file *f, const char *text)
{
    const char *end = strchr(text, '('), *begin = end;
    while (begin && begin > text && begin[-1] != ' ' && begin[-1] != '*')
        begin--;
    return begin ? flxi_sa_text(f, "%.*s", (int)(end - begin), begin) : "";
}

/* The definition before `end`, which begins a line with `static`. */
static size_t definition_before(const char *text, size_t end)
{
    size_t at = end;
    while (at > 0) {
        for (at--; at > 0 && text[at - 1] != '\n'; at--)
            continue;
        if (strncmp(text + at, "static ", 7) == 0)
            return at;
    }
    return 0;
}

void flxi_sa_keep_used(flxi_sa_file *f, const flxi_strbuf *functions, const flxi_strbuf *code, flxi_strbuf *out)
{
    flxi_strbuf kept; /* definitions so far, last first */
    flxi_strbuf_init(&kept, f->mem);
    for (size_t end = functions->n; end > 0;) {
        size_t begin = definition_before(functions->at, end);
        const char *name = function_name(f, functions->at + begin);
        if (flxi_sa_mentions(code, name) || flxi_sa_mentions(&kept, name)) {
            flxi_strbuf all;
            flxi_strbuf_init(&all, f->mem);
            flxi_add_bytes(&all, functions->at + begin, end - begin);
            if (kept.at)
                flxi_add_bytes(&all, kept.at, kept.n);
            f->failed |= kept.failed || all.failed;
            flxi_strbuf_free(&kept);
            kept = all;
        }
        end = begin;
    }
    if (kept.at)
        flxi_add_bytes(out, kept.at, kept.n);
    flxi_strbuf_free(&kept);
}
