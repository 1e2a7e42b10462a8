/* SPDX-License-Identifier: Apache-2.0 */
/* tidy_text.c: the text of a kernel as one would write it by hand: names for ids that have one already are not given a
   second one, and blocks that nothing heads are part of what is around them. Then the other rewrites (tidy.h). */
#include "standalone/tidy/tidy.h"

/* ---- Second names ---- */

typedef struct {
    const char *from, *to;
} alias;

typedef struct {
    flxi_sa_file *f;
    FLXI_VEC(alias) at;
} aliases;

static bool is_digits(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return n > 0;
}

/* `const uint32_t v1 = i0;`: an id of the invocation or of the workgroup, which does not change. */
static bool is_alias(flxi_sa_file *f, const char *line, size_t n, alias *out)
{
    static const char head[] = "const uint32_t v";
    size_t indent = 0, skip = sizeof head - 1;
    while (indent < n && line[indent] == ' ')
        indent++;
    const char *text = line + indent;
    n -= indent;
    const char *equals = n > skip && memcmp(text, head, skip) == 0 ? memchr(text, '=', n) : NULL;
    if (!equals || text[n - 1] != ';' || !is_digits(text + skip, (size_t)(equals - 1 - text) - skip))
        return false;
    const char *value = equals + 2;
    size_t length = n - 1 - (size_t)(value - text);
    if (length < 2 || !strchr("iwl", value[0]) || !is_digits(value + 1, length - 1))
        return false;
    *out = (alias){flxi_sa_text(f, "%.*s", (int)(equals - 1 - text - (long)skip + 1), text + skip - 1),
                   flxi_sa_text(f, "%.*s", (int)length, value)};
    return true;
}

static const char *resolve(const void *user, const char *name, size_t n)
{
    const aliases *a = user;
    for (size_t i = 0; i < a->at.n; i++)
        if (strlen(a->at.at[i].from) == n && memcmp(a->at.at[i].from, name, n) == 0)
            return a->at.at[i].to;
    return NULL;
}

/* ---- Lines ---- */

static size_t line_length(const char *text, size_t n)
{
    const char *end = memchr(text, '\n', n);
    return end ? (size_t)(end - text) : n;
}

static void drop_aliases(aliases *a, const flxi_strbuf *text, flxi_strbuf *out)
{
    for (size_t at = 0; at < text->n;) {
        size_t n = line_length(text->at + at, text->n - at);
        alias found;
        if (is_alias(a->f, text->at + at, n, &found)) {
            if (!flxi_push(a->f->mem, &a->at, found))
                a->f->failed = true;
        } else {
            flxi_add_bytes(out, text->at + at, n);
            flxi_add_char(out, '\n');
        }
        at += n + 1;
    }
}

/* Lines of a brace alone vanish with the brace that closes them, and what is between moves to the left. */
static void flatten(flxi_sa_file *f, const flxi_strbuf *text, flxi_strbuf *out)
{
    (void)f;
    enum { MOST = 64 };
    bool is_bare[MOST] = {false};
    size_t depth = 0, bare = 0;
    for (size_t at = 0; at < text->n;) {
        size_t n = line_length(text->at + at, text->n - at), indent = 0;
        const char *line = text->at + at;
        at += n + 1;
        while (indent < n && line[indent] == ' ')
            indent++;
        bool opens = n > 0 && line[n - 1] == '{', closes = n > indent && line[indent] == '}';
        bool is_brace = indent > 0 && n == indent + 1;
        if (closes && depth > 0 && depth <= MOST && is_bare[--depth] && is_brace) {
            bare--;
            continue;
        }
        bool drops = opens && is_brace;
        if (!drops) {
            size_t left = 4 * bare < indent ? 4 * bare : indent;
            flxi_add_bytes(out, line + left, n - left);
            flxi_add_char(out, '\n');
        }
        if (opens && depth < MOST) {
            is_bare[depth++] = drops;
            bare += drops;
        }
    }
}

static void drop_second_names(flxi_sa_file *f, const flxi_strbuf *text, flxi_strbuf *out)
{
    aliases a = {.f = f};
    flxi_strbuf without;
    flxi_strbuf_init(&without, f->mem);
    drop_aliases(&a, text, &without);
    if (without.at)
        flxi_sa_rewrite(out, without.at, without.n, resolve, &a);
    f->failed |= without.failed;
    flxi_strbuf_free(&without);
    flxi_vec_free(f->mem, &a.at);
}

typedef void (*rewrite)(flxi_sa_file *f, const flxi_strbuf *text, flxi_strbuf *out);

static void apply(flxi_sa_file *f, flxi_strbuf *text, const rewrite *rewrites, size_t n)
{
    for (size_t i = 0; text->at && i < n; i++) {
        flxi_strbuf out;
        flxi_strbuf_init(&out, f->mem);
        rewrites[i](f, text, &out);
        out.failed |= text->failed;
        flxi_strbuf_free(text);
        *text = out;
    }
}

void flxi_sa_tidy(flxi_sa_file *f, flxi_strbuf *text)
{
    static const rewrite rewrites[] = {drop_second_names,     flxi_sa_tidy_loops,  flatten,
                                       flxi_sa_tidy_brackets, flxi_sa_tidy_values, flxi_sa_tidy_brackets,
                                       flxi_sa_rename_loops};
    apply(f, text, rewrites, sizeof rewrites / sizeof *rewrites);
}

/* ---- Parts ---- */

/* `(p * 1 + i) * 1 + q` in square brackets: an index without factors of 1. */
static void drop_ones(flxi_sa_file *f, const flxi_strbuf *text, flxi_strbuf *out)
{
    int depth = 0;
    (void)f;
    for (size_t i = 0; i < text->n; i++) {
        const char *p = text->at + i;
        depth += (*p == '[') - (*p == ']');
        depth = *p == '\n' ? 0 : depth;
        if (depth > 0 && strncmp(p, " * 1", 4) == 0 && !flxi_sa_is_word(p[4]) && p[4] != '.')
            i += 3;
        else
            flxi_add_char(out, *p);
    }
}

void flxi_sa_tidy_part(flxi_sa_file *f, flxi_strbuf *text)
{
    static const rewrite rewrites[] = {drop_ones, flxi_sa_tidy_brackets};
    apply(f, text, rewrites, sizeof rewrites / sizeof *rewrites);
}
