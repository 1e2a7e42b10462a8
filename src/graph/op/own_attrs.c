/* SPDX-License-Identifier: Apache-2.0 */
/* own_attrs.c: see own_attrs.h. The text may come from a file and is treated as untrusted: a text that differs from
   what the writer produces is rejected. */
#include "graph/op/own_attrs.h"

#include "base/number.h"
#include "graph/type/type.h"

#include <stdlib.h>

/* ---- Writing ---- */

static void write_real(flxi_strbuf *out, double x)
{
    char text[FLXI_NUMBER_MAX];
    flxi_write_double(text, x, 53);
    flxi_add_text(out, text);
    if (strspn(text, "-0123456789") == strlen(text))
        flxi_add_text(out, ".0"); /* or it would be read as an integer */
}

static bool write_list(flxi_strbuf *out, const flx_attr *a)
{
    bool is_real = a->kind == FLX_ATTR_REALS;
    size_t n = is_real ? a->as.reals.n : a->as.ints.n;
    flxi_add_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        flxi_add_text(out, i ? ", " : "");
        if (is_real)
            write_real(out, a->as.reals.v[i]);
        else if (flxi_dim_is_number(a->as.ints.v[i]))
            flxi_addf(out, "%lld", (long long)a->as.ints.v[i]);
        else
            return false;
    }
    flxi_add_char(out, ']');
    return true;
}

static bool write_value(flxi_strbuf *out, const flx_attr *a)
{
    switch (a->kind) {
    case FLX_ATTR_INT: flxi_addf(out, "%lld", (long long)a->as.i); return flxi_dim_is_number(a->as.i);
    case FLX_ATTR_REAL: write_real(out, a->as.r); return true;
    case FLX_ATTR_STRING: flxi_add_quoted(out, a->as.s ? a->as.s : ""); return a->as.s;
    case FLX_ATTR_WORD:
        flxi_add_text(out, a->as.s ? a->as.s : "");
        return a->as.s && (strcmp(a->as.s, "true") == 0 || strcmp(a->as.s, "false") == 0);
    case FLX_ATTR_INTS:
    case FLX_ATTR_REALS: return write_list(out, a);
    default: return false;
    }
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const flx_attr *)a)->key, ((const flx_attr *)b)->key);
}

static bool is_name(const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return *s && !strchr("0123456789", *s) && strspn(s, letters) == strlen(s);
}

flx_code flxi_own_attrs_write(const char *op, flx_attr *given, size_t n, flxi_strbuf *out, flx_error *err)
{
    char name[40];
    if (n)
        qsort(given, n, sizeof *given, compare_keys);
    for (size_t i = 0; i < n; i++) {
        flxi_printable(name, sizeof name, given[i].key, strlen(given[i].key));
        if (!is_name(given[i].key))
            return flxi_fail(err, FLX_E_ATTRIBUTE, "%s: '%s' is not a valid attribute name", op, name);
        if (i && strcmp(given[i].key, given[i - 1].key) == 0)
            return flxi_fail(err, FLX_E_ATTRIBUTE, "%s: attribute '%s' is given twice", op, name);
        flxi_addf(out, "%s%s=", i ? ", " : "", given[i].key);
        if (!write_value(out, &given[i]))
            return flxi_fail_hint(err, FLX_E_ATTRIBUTE,
                                  "attributes of registered ops are numbers, strings, flags or lists of numbers",
                                  "%s: attribute '%s' has a value of an unsupported kind", op, name);
    }
    return out->failed ? flxi_oom(err, "attributes") : FLX_OK;
}

/* ---- Reading ---- */

typedef struct {
    const char *s;
    flxi_arena *arena;
} reader;

static bool skip(reader *r, const char *text)
{
    size_t n = strlen(text);
    bool found = strncmp(r->s, text, n) == 0;
    r->s += found ? n : 0;
    return found;
}

static const char *read_name(reader *r)
{
    size_t n = strcspn(r->s, "=");
    char *name = flxi_arena_text(r->arena, r->s, n);
    r->s += n;
    return name;
}

/* The bytes with escapes resolved; the closing quote must be present. */
static bool read_string(reader *r, flx_attr *out)
{
    char *text = flxi_new(r->arena, char, strlen(r->s) + 1);
    size_t n = 0;
    while (text && *r->s && *r->s != '"') {
        char c = *r->s++;
        if (c == '\\' && *r->s) {
            c = *r->s++;
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        text[n++] = c;
    }
    *out = (flx_attr){.kind = FLX_ATTR_STRING, .as.s = text};
    return text && skip(r, "\"");
}

/* A number, as an integer if it is one. */
static bool read_number(reader *r, flx_attr *out)
{
    size_t n = strcspn(r->s, ",]");
    const char *s = r->s;
    r->s += n;
    if (flxi_read_i64(s, n, &out->as.i)) {
        out->kind = FLX_ATTR_INT;
        return true;
    }
    out->kind = FLX_ATTR_REAL;
    return flxi_read_double(s, n, &out->as.r);
}

static bool read_list(reader *r, flx_attr *out)
{
    size_t most = 1, n = 0;
    for (const char *s = r->s; *s && *s != ']'; s++)
        most += *s == ',';
    int64_t *ints = flxi_new(r->arena, int64_t, most);
    double *reals = flxi_new(r->arena, double, most);
    bool is_real = false;
    while (ints && reals && *r->s && *r->s != ']' && n < most) {
        flx_attr one;
        if (!read_number(r, &one))
            return false;
        is_real |= one.kind == FLX_ATTR_REAL;
        ints[n] = one.kind == FLX_ATTR_INT ? one.as.i : 0;
        reals[n++] = one.kind == FLX_ATTR_REAL ? one.as.r : (double)one.as.i;
        if (!skip(r, ", "))
            break;
    }
    if (is_real)
        *out = (flx_attr){.kind = FLX_ATTR_REALS, .as.reals = {reals, n}};
    else
        *out = (flx_attr){.kind = FLX_ATTR_INTS, .as.ints = {ints, n}};
    return ints && reals && skip(r, "]");
}

static bool read_value(reader *r, flx_attr *out)
{
    if (skip(r, "\""))
        return read_string(r, out);
    if (skip(r, "["))
        return read_list(r, out);
    *out = (flx_attr){.kind = FLX_ATTR_WORD, .as.s = "true"};
    if (skip(r, "true"))
        return true;
    out->as.s = "false";
    return skip(r, "false") || read_number(r, out);
}

static bool read_all(reader *r, flx_attr *list, size_t room, size_t *n)
{
    for (*n = 0; *r->s && *n < room; (*n)++) {
        if (*n && !skip(r, ", "))
            return false;
        const char *key = read_name(r);
        if (!key || !skip(r, "=") || !read_value(r, &list[*n]))
            return false;
        list[*n].key = key;
    }
    return !*r->s;
}

/* Whether the attributes would be written as this text. */
static flx_code is_written_so(const char *op, const char *text, flx_attr *list, size_t n, flxi_arena *arena,
                              bool *is_so, flx_error *err)
{
    flxi_strbuf again;
    flx_attr *sorted = n ? flxi_dup(arena, flx_attr, list, n) : NULL;
    flxi_strbuf_init(&again, arena->mem);
    flx_code code = n && !sorted ? flxi_oom(err, "attributes") : flxi_own_attrs_write(op, sorted, n, &again, err);
    *is_so = code == FLX_OK && strcmp(again.at ? again.at : "", text) == 0;
    flxi_strbuf_free(&again);
    return code;
}

flx_code flxi_own_attrs_read(const char *op, const char *text, flxi_arena *arena, flx_attr **out, size_t *n,
                             flx_error *err)
{
    size_t room = 0;
    for (const char *s = text; *s; s++)
        room += *s == '=';
    flx_attr *list = flxi_new(arena, flx_attr, room + 1);
    if (!list)
        return flxi_oom(err, "attributes");
    reader r = {text, arena};
    bool is_so = false;
    if (read_all(&r, list, room, n))
        FLXI_TRY(is_written_so(op, text, list, *n, arena, &is_so, err));
    if (!is_so)
        return flxi_fail(err, FLX_E_ATTRIBUTE, "%s: its own attributes are not a list of names and values", op);
    *out = list;
    return FLX_OK;
}
