/* SPDX-License-Identifier: Apache-2.0 */
/* symbolic_thread.c: extents as arguments. A static function needs them when its text mentions one, or calls a function
   that needs them; then its definition and all its calls get them as their last arguments. A task of threads finds them
   in the table of its arguments instead: it has a line `extents_(at[3]);`, which becomes their declarations. */
#include "standalone/symbolic/symbolic.h"

#include <ctype.h>

typedef struct {
    const char *name;
    size_t n;
    const char *begin, *end; /* of its whole text */
    unsigned needs;          /* a bit for each extent */
    bool is_task;            /* it declares them itself */
} function;

static const char marker[] = "    extents_(";

/* A call or definition whose arguments are not closed yet. */
typedef struct {
    int depth; /* of its parentheses */
    unsigned needs;
    bool is_definition;
} open_list;

typedef struct {
    const flxi_sa_points *p;
    const char *text, *end;
    FLXI_VEC(function) functions;
    FLXI_VEC(open_list) open;
    const char *least, *limit;
    const flxi_allocator *mem;
    flxi_strbuf *out;
    flx_error *err;
} threader;

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static const char *word_end(const char *p, const char *end)
{
    while (p < end && is_word(*p))
        p++;
    return p;
}

static const char *skip_comment(const char *p, const char *end)
{
    for (p += 2; p < end && !(p[0] == '/' && p[-1] == '*'); p++)
        continue;
    return p < end ? p + 1 : end;
}

/* The end of a text or character in quotes that begins at p. */
static const char *skip_quoted(const char *p, const char *end)
{
    const char quote = *p++;
    while (p < end && *p != quote)
        p += *p == '\\' && p + 1 < end ? 2 : 1;
    return p < end ? p + 1 : end;
}

/* The definition that begins at p, a line with `static`; false: it is not a function. */
static bool read_function(const threader *x, const char *p, function *out)
{
    const char *parenthesis = p;
    while (parenthesis < x->end && *parenthesis != '(' && *parenthesis != ';' && *parenthesis != '=')
        parenthesis++;
    if (parenthesis == x->end || *parenthesis != '(')
        return false;
    const char *body = parenthesis, *name = parenthesis;
    while (body < x->end && *body != '{' && *body != ';')
        body++;
    if (body == x->end || *body != '{')
        return false;
    while (name > p && is_word(name[-1]))
        name--;
    const char *end = body;
    int depth = 0;
    do {
        if (end + 1 < x->end && end[0] == '/' && end[1] == '*')
            end = skip_comment(end, x->end) - 1;
        else if (*end == '"' || *end == '\'')
            end = skip_quoted(end, x->end) - 1;
        depth += (*end == '{') - (*end == '}');
        end++;
    } while (end < x->end && depth > 0);
    const char *line = memchr(body, '\n', (size_t)(end - body));
    bool is_task = line && end - line > (ptrdiff_t)sizeof marker && memcmp(line + 1, marker, sizeof marker - 1) == 0;
    *out = (function){name, (size_t)(parenthesis - name), p, end, 0, is_task};
    return true;
}

static function *find(threader *x, const char *name, size_t n)
{
    for (size_t i = 0; i < x->functions.n; i++)
        if (x->functions.at[i].n == n && memcmp(x->functions.at[i].name, name, n) == 0)
            return &x->functions.at[i];
    return NULL;
}

static unsigned extent_bit(const threader *x, const char *name, size_t n)
{
    for (size_t s = 0; s < x->p->num_symbols; s++)
        if (strlen(x->p->names[s]) == n && memcmp(x->p->names[s], name, n) == 0)
            return 1u << s;
    return 0;
}

/* The extents that the text of a function mentions, and those that the functions need which it mentions. */
static unsigned needs_of(threader *x, const function *f)
{
    unsigned needs = 0;
    for (const char *p = f->begin; p < f->end;) {
        const char *after = word_end(p, f->end);
        const function *called;
        if (p + 1 < f->end && p[0] == '/' && p[1] == '*') {
            p = skip_comment(p, f->end);
            continue;
        }
        if (after == p) {
            p = *p == '"' || *p == '\'' ? skip_quoted(p, f->end) : p + 1;
            continue;
        }
        called = find(x, p, (size_t)(after - p));
        needs |= extent_bit(x, p, (size_t)(after - p));
        needs |= called && called != f && !called->is_task ? called->needs : 0;
        p = after;
    }
    return needs;
}

static flx_code find_functions(threader *x)
{
    for (const char *p = x->text; p < x->end; p++) {
        function f;
        if ((p == x->text || p[-1] == '\n') && x->end - p > 7 && memcmp(p, "static ", 7) == 0 &&
            read_function(x, p, &f) && !flxi_push(x->mem, &x->functions, f))
            return flxi_oom(x->err, "C text");
    }
    for (size_t i = 0; i < x->functions.n; i++) /* each comes after those that it calls */
        x->functions.at[i].needs = needs_of(x, &x->functions.at[i]);
    return FLX_OK;
}

static void add_extents(const threader *x, const open_list *list, bool is_first)
{
    for (size_t s = 0; s < x->p->num_symbols; s++) {
        if (!(list->needs >> s & 1))
            continue;
        flxi_addf(x->out, "%s%s%s", is_first ? "" : ", ", list->is_definition ? "int64_t " : "", x->p->names[s]);
        is_first = false;
    }
}

/* A word of the text; a function that needs extents is followed by its arguments. */
static flx_code write_word(threader *x, const char **at, int depth)
{
    const char *p = *at, *after = word_end(p, x->end);
    const function *f = find(x, p, (size_t)(after - p));
    *at = after;
    bool is_least = after - p == 6 && memcmp(p, "least_", 6) == 0;
    if (is_least || (after - p == 6 && memcmp(p, "limit_", 6) == 0)) {
        flxi_add_text(x->out, is_least ? x->least : x->limit);
        return FLX_OK;
    }
    flxi_add_bytes(x->out, p, (size_t)(after - p));
    if (!f || !f->needs || f->is_task)
        return FLX_OK;
    if (after == x->end || *after != '(')
        return flxi_fail(x->err, FLX_E_UNSUPPORTED, "'%.*s' is called with an extent that is not known", (int)f->n,
                         f->name);
    const open_list list = {depth + 1, f->needs, p == f->name};
    return flxi_push(x->mem, &x->open, list) ? FLX_OK : flxi_oom(x->err, "C text");
}

static void write_close(threader *x, const char *p, int depth)
{
    const open_list *last = x->open.n ? &x->open.at[x->open.n - 1] : NULL;
    if (!last || last->depth != depth)
        return;
    bool is_empty = p[-1] == '(';
    if (last->is_definition && p - x->text > 5 && memcmp(p - 5, "(void", 5) == 0) {
        x->out->n -= 4;
        is_empty = true;
    }
    add_extents(x, last, is_empty);
    x->open.n--;
}

/* A macro of the extents, which may be any expressions where it is used; the end of its line. */
static const char *write_macro(threader *x, const char *p)
{
    bool is_body = false;
    while (p < x->end && *p != '\n') {
        const char *after = is_word(*p) ? word_end(p, x->end) : p + 1;
        bool is_extent = is_body && extent_bit(x, p, (size_t)(after - p));
        flxi_add_text(x->out, is_extent ? "(" : "");
        flxi_add_bytes(x->out, p, (size_t)(after - p));
        flxi_add_text(x->out, is_extent ? ")" : "");
        is_body |= *p == ')';
        p = after;
    }
    return p;
}

/* The line of a task at which it declares the extents that what it calls needs; the end of it. */
static const char *write_extents(threader *x, const char *p)
{
    const char *table = p + sizeof marker - 1, *end = strchr(table, '\n') + 1;
    const function *f = NULL;
    for (size_t i = 0; i < x->functions.n && !f; i++)
        if (x->functions.at[i].begin <= p && p < x->functions.at[i].end)
            f = &x->functions.at[i];
    for (size_t s = 0; f && s < x->p->num_symbols; s++)
        if (f->needs >> s & 1)
            flxi_addf(x->out, "    const int64_t %s = ((const int64_t *)%.*s)[%zu];\n", x->p->names[s],
                      (int)(end - table - 3), table, s);
    return end;
}

static flx_code write_all(threader *x)
{
    int depth = 0;
    for (const char *p = x->text; p < x->end;) {
        if (x->end - p > (ptrdiff_t)sizeof marker && memcmp(p, marker, sizeof marker - 1) == 0)
            p = write_extents(x, p);
        else if (x->end - p > 8 && memcmp(p, "#define ", 8) == 0)
            p = write_macro(x, p);
        else if (p + 1 < x->end && p[0] == '/' && p[1] == '*') {
            const char *after = skip_comment(p, x->end);
            flxi_add_bytes(x->out, p, (size_t)(after - p));
            p = after;
        } else if (is_word(*p)) {
            FLXI_TRY(write_word(x, &p, depth));
        } else {
            if (*p == ')')
                write_close(x, p, depth);
            depth += (*p == '(') - (*p == ')');
            flxi_add_char(x->out, *p++);
        }
    }
    return FLX_OK;
}

flx_code flxi_sa_thread_extents(const flxi_sa_points *p, const flxi_sa_range *range, const flxi_strbuf *text,
                                flxi_sa_file *f, flxi_strbuf *out, flx_error *err)
{
    threader x = {.p = p, .text = text->at, .end = text->at + text->n, .mem = f->mem, .out = out, .err = err};
    x.least = flxi_sa_text(f, "%lld", (long long)range->least);
    x.limit = flxi_sa_text(f, "%lld", (long long)range->limit);
    flx_code code = text->at ? find_functions(&x) : FLX_OK;
    if (code == FLX_OK && text->at)
        code = write_all(&x);
    flxi_vec_free(x.mem, &x.functions);
    flxi_vec_free(x.mem, &x.open);
    return code;
}
