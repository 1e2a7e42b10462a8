/* SPDX-License-Identifier: Apache-2.0 */
/* borrow.c: see borrow.h. A source is cut into its items: functions, types, constants and macros, each with the comment
   before it. What a function mentions is written before it, under names that are new in the file. Questions whether to
   stop are left out: nothing stops a C file. dense_body.h is included twice by dense.c, for real and for complex
   numbers: here too it is two sources, each after the macros that it is included with. */
#include "standalone/borrow.h"

#include "standalone/standalone.h"

typedef struct {
    const char *text; /* with its comment */
    size_t n;
    size_t source;
    bool is_written;
} item;

typedef struct {
    const char *name; /* as in the source */
    size_t item;
    const char *given; /* in the file; NULL: not there yet */
} declared;

struct flxi_sa_library {
    FLXI_VEC(const char *) sources; /* names */
    FLXI_VEC(item) items;
    FLXI_VEC(declared) names;
};

typedef struct {
    flxi_sa_file *f;
    struct flxi_sa_library *l;
} borrower;

/* ---- Texts ---- */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool begins(const char *p, const char *end, const char *with)
{
    size_t n = strlen(with);
    return (size_t)(end - p) >= n && memcmp(p, with, n) == 0;
}

static const char *line_end(const char *p, const char *end)
{
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    return newline ? newline + 1 : end;
}

/* A question whether to stop that is a whole statement, with what it guards; else p. */
static const char *skip_question(const char *p, const char *end)
{
    const char *q = p;
    while (q < end && *q == ' ')
        q++;
    if (!begins(q, end, "if (flxi_stopped())") && !begins(q, end, "if (flxi_stopped_by_now())"))
        return p;
    return line_end(line_end(q, end), end);
}

/* The text without questions whether to stop, and NAME(x) as x. */
static const char *cleaned(flxi_sa_file *f, const char *text, size_t n)
{
    static const char *const dropped[] = {" && !flxi_stopped_by_now()", " && !flxi_stopped()", " && !is_stopped_at(n)"};
    flxi_strbuf out;
    flxi_strbuf_init(&out, f->mem);
    for (const char *p = text, *end = text + n; p < end;) {
        const char *after = p == text || p[-1] == '\n' ? skip_question(p, end) : p;
        for (size_t i = 0; after == p && i < sizeof dropped / sizeof *dropped; i++)
            after += begins(p, end, dropped[i]) ? strlen(dropped[i]) : 0;
        if (after == p && begins(p, end, "NAME(") && (p == text || !is_word(p[-1])) && !begins(p, end, "NAME(x)")) {
            const char *close = memchr(p, ')', (size_t)(end - p));
            flxi_add_bytes(&out, p + 5, (size_t)(close - p) - 5);
            after = close + 1;
        }
        if (after == p)
            flxi_add_char(&out, *after++);
        p = after;
    }
    const char *kept = out.at ? flxi_arena_text(&f->arena, out.at, out.n) : NULL;
    flxi_strbuf_free(&out);
    f->failed |= !kept;
    return kept ? kept : "";
}

/* ---- Items ---- */

static const char *skip_comment(const char *p, const char *end)
{
    for (p += 2; p < end && !(p[0] == '/' && p[-1] == '*'); p++)
        continue;
    return p < end ? p + 1 : end;
}

/* After the item that begins at p: a semicolon outside of all braces, or the closing brace of a function. */
static const char *item_end(const char *p, const char *end)
{
    int depth = 0;
    if (*p == '#') {
        while (line_end(p, end) < end && line_end(p, end)[-2] == '\\')
            p = line_end(p, end);
        return line_end(p, end);
    }
    for (; p < end; p++) {
        if (begins(p, end, "/*"))
            p = skip_comment(p, end) - 1;
        depth += (*p == '{' || *p == '(' || *p == '[') - (*p == '}' || *p == ')' || *p == ']');
        if (depth == 0 && (*p == ';' || (*p == '}' && p[-1] == '\n' && p + 1 < end && p[1] == '\n')))
            return line_end(p, end);
    }
    return end;
}

static void declare(borrower *b, const char *name, size_t n)
{
    declared d = {.name = flxi_arena_text(&b->f->arena, name, n), .item = b->l->items.n - 1};
    b->f->failed |= !d.name || !flxi_push(b->f->mem, &b->l->names, d);
}

/* The word that ends before p. */
static void declare_before(borrower *b, const char *p, const char *begin)
{
    while (p > begin && !is_word(p[-1]))
        p--;
    const char *end = p;
    while (p > begin && is_word(p[-1]))
        p--;
    declare(b, p, (size_t)(end - p));
}

/* The words of an enum that follow its brace and its commas. */
static void declare_words(borrower *b, const char *p, const char *end)
{
    bool is_next = true;
    for (p++; p < end && *p != '}'; p++) {
        if (begins(p, end, "/*"))
            p = skip_comment(p, end);
        const char *from = p;
        while (is_word(*p))
            p++;
        if (is_next && p > from)
            declare(b, from, (size_t)(p - from));
        is_next = *p == ',' || (is_next && p == from);
        p -= *p == '}';
    }
}

/* What an item is called: its text without the comment before it. False: it does not define anything. */
static bool declare_item(borrower *b, const char *p, const char *end)
{
    const char *brace = memchr(p, '{', (size_t)(end - p)), *parenthesis = memchr(p, '(', (size_t)(end - p));
    const char *equals = memchr(p, '=', (size_t)(end - p)), *bracket = memchr(p, '[', (size_t)(end - p));
    const char *last = end;
    while (last > p && *last != ';')
        last--;
    if (begins(p, end, "#define")) {
        const char *word = p + 8, *after = word;
        while (is_word(*after))
            after++;
        declare(b, word, (size_t)(after - word));
    } else if (begins(p, end, "enum") || begins(p, end, "typedef enum")) {
        declare_words(b, brace, end);
        if (*p == 't')
            declare_before(b, last, p);
    } else if (begins(p, end, "typedef")) {
        declare_before(b, !brace && parenthesis ? parenthesis + 2 + strcspn(parenthesis + 2, ")") : last, p);
    } else if (brace && (!equals || brace < equals) && parenthesis && parenthesis < brace) {
        declare_before(b, parenthesis, p);
    } else if (equals && !begins(p, end, "_Static_assert")) {
        declare_before(b, bracket && bracket < equals ? bracket : equals, p);
    } else {
        return false;
    }
    return true;
}

static void cut(borrower *b, const char *text, size_t source)
{
    const char *end = text + strlen(text), *comment = NULL;
    for (const char *p = text; p < end && !b->f->failed;) {
        if (begins(p, end, "/*")) {
            comment = p;
            p = line_end(skip_comment(p, end), end);
        } else if (*p == '\n' || (*p == '#' && !begins(p, end, "#define"))) {
            comment = NULL;
            p = line_end(p, end);
        } else {
            const char *after = item_end(p, end), *from = comment ? comment : p;
            item x = {.text = from, .n = (size_t)(after - from), .source = source};
            b->f->failed |= !flxi_push(b->f->mem, &b->l->items, x);
            if (!b->f->failed && !declare_item(b, p, after))
                b->l->items.n--;
            comment = NULL;
            p = after;
        }
    }
}

static void add_source(borrower *b, const char *name, const char *text, size_t n)
{
    b->f->failed |= !flxi_push(b->f->mem, &b->l->sources, name);
    if (!b->f->failed)
        cut(b, cleaned(b->f, text, n), b->l->sources.n - 1);
}

static const flxi_sa_source *source_called(const char *name)
{
    size_t i = 0;
    while (i + 1 < flxi_sa_num_sources && strcmp(flxi_sa_sources[i].name, name) != 0)
        i++;
    return &flxi_sa_sources[i];
}

/* The macros between the n-th and the next line that includes the body, then the body. */
static void add_dense(borrower *b, const char *name, const char *begin, const char *end)
{
    const flxi_sa_source *body = source_called("dense_body.h");
    flxi_strbuf whole;
    flxi_strbuf_init(&whole, b->f->mem);
    flxi_add_bytes(&whole, begin, (size_t)(end - begin));
    flxi_add_bytes(&whole, body->text, body->n);
    b->f->failed |= whole.failed;
    if (!whole.failed)
        add_source(b, name, whole.at, whole.n);
    flxi_strbuf_free(&whole);
}

static void read_sources(borrower *b)
{
    static const char marker[] = "#include \"numeric/linalg/dense_body.h\"\n";
    for (size_t i = 0; i < flxi_sa_num_sources && !b->f->failed; i++) {
        const flxi_sa_source *s = &flxi_sa_sources[i];
        const char *text = (const char *)s->text, *end = text + s->n, *first = text, *second;
        if (strcmp(s->name, "dense_body.h") == 0)
            continue;
        if (strcmp(s->name, "dense.c") != 0) {
            add_source(b, s->name, text, s->n);
            continue;
        }
        while (!begins(first, end, marker))
            first = line_end(first, end);
        second = line_end(first, end);
        while (!begins(second, end, marker))
            second = line_end(second, end);
        add_dense(b, "real", text, first);
        add_dense(b, "complex", line_end(first, end), second);
    }
}

/* ---- Writing ---- */

static bool is_shared_name(const char *name)
{
    return strncmp(name, "flxi_", 5) == 0 || strncmp(name, "FLXI_", 5) == 0 || strncmp(name, "DENSE_", 6) == 0;
}

/* A name of this source, or one that sources share. */
static declared *find(const borrower *b, size_t source, const char *name, size_t n)
{
    declared *found = NULL;
    for (size_t i = 0; i < b->l->names.n; i++) {
        declared *d = &b->l->names.at[i];
        bool is_own = b->l->items.at[d->item].source == source;
        if (strlen(d->name) == n && memcmp(d->name, name, n) == 0 && (is_own || (!found && is_shared_name(d->name))))
            found = d;
    }
    return found;
}

static void write_item(borrower *b, size_t number);

typedef struct {
    borrower *b;
    size_t source, item;
} mention;

/* Members of structs have names of their own. Before an item there is always some text. */
static bool is_member(const char *name)
{
    return name[-1] == '.' || (name[-1] == '>' && name[-2] == '-');
}

static const char *write_mentioned(const void *user, const char *name, size_t n)
{
    const mention *m = user;
    const declared *d = is_member(name) ? NULL : find(m->b, m->source, name, n);
    if (d && d->item != m->item)
        write_item(m->b, d->item);
    return NULL;
}

static const char *rename_mentioned(const void *user, const char *name, size_t n)
{
    static const struct {
        const char *from, *to;
    } words[] = {{"bool", "int"}, {"true", "1"}, {"false", "0"}};
    const mention *m = user;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].from) == n && memcmp(words[i].from, name, n) == 0)
            return words[i].to;
    const declared *d = is_member(name) ? NULL : find(m->b, m->source, name, n);
    return d ? d->given : NULL;
}

static void give_names(borrower *b, size_t number)
{
    for (size_t i = 0; i < b->l->names.n; i++) {
        declared *d = &b->l->names.at[i];
        if (d->item == number)
            d->given = flxi_sa_name(b->f, is_shared_name(d->name) && d->name[4] == '_' ? d->name + 5 : d->name);
    }
}

/* Functions of other files are static here. */
static bool needs_static(const item *x)
{
    const char *p = x->text, *end = x->text + x->n;
    if (begins(p, end, "/*"))
        p = line_end(skip_comment(p, end), end);
    return !begins(p, end, "static") && !begins(p, end, "typedef") && !begins(p, end, "enum") && *p != '#';
}

static void write_item(borrower *b, size_t number)
{
    flxi_sa_file *f = b->f;
    item *x = &b->l->items.at[number];
    mention m = {b, x->source, number};
    flxi_strbuf unused;
    if (x->is_written || f->failed)
        return;
    x->is_written = true;
    flxi_strbuf_init(&unused, f->mem);
    flxi_sa_rewrite(&unused, x->text, x->n, write_mentioned, &m);
    flxi_strbuf_free(&unused);
    give_names(b, number);
    const char *head = x->text, *end = x->text + x->n;
    if (begins(head, end, "/*"))
        head = line_end(skip_comment(head, end), end);
    flxi_add_text(&f->code, "\n");
    flxi_add_bytes(&f->code, x->text, (size_t)(head - x->text));
    flxi_add_text(&f->code, needs_static(x) ? "static " : "");
    flxi_sa_rewrite(&f->code, head, (size_t)(end - head), rename_mentioned, &m);
}

static struct flxi_sa_library *library_of(flxi_sa_file *f)
{
    if (f->library || f->failed)
        return f->library;
    f->library = flxi_new(&f->arena, struct flxi_sa_library, 1);
    borrower b = {f, f->library};
    f->failed |= !f->library;
    if (f->library)
        read_sources(&b);
    return f->library;
}

void flxi_sa_library_free(flxi_sa_file *f)
{
    if (!f->library)
        return;
    flxi_vec_free(f->mem, &f->library->sources);
    flxi_vec_free(f->mem, &f->library->items);
    flxi_vec_free(f->mem, &f->library->names);
}

const char *flxi_sa_borrow(flxi_sa_file *f, const char *source, const char *name)
{
    borrower b = {f, library_of(f)};
    size_t number = 0;
    if (f->failed)
        return "";
    while (number + 1 < b.l->sources.n && strcmp(b.l->sources.at[number], source) != 0)
        number++;
    const declared *d = find(&b, number, name, strlen(name));
    if (!d) {
        f->failed = true;
        return "";
    }
    write_item(&b, d->item);
    return d->given ? d->given : "";
}
