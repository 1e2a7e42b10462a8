/* SPDX-License-Identifier: Apache-2.0 */
/* show_gguf.c: see show_gguf.h. Of long lists the first elements are shown, of long texts the beginning. */
#include "gguf/show_gguf.h"

#include "io/json_writer.h"
#include "report.h"

#include <fluxion/gguf.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ELEMENTS = 6, MOST_BYTES = 60 };

bool is_gguf(const char *path)
{
    size_t n = strlen(path);
    return n >= 5 && strcmp(path + n - 5, ".gguf") == 0;
}

static const char *kind_name(int32_t kind)
{
    static const char *const names[] = {
#define NAME(name, value, nbytes) [value] = #name,
        FLX_GGUF_KIND_MAP(NAME)
#undef NAME
    };
    return kind >= 0 && kind < (int32_t)(sizeof names / sizeof *names) ? names[kind] : "?";
}

/* ---- Text ---- */

/* Control bytes are dots, so that a file cannot move the cursor. */
static void print_plain(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        putchar((unsigned char)s[i] < 32 || s[i] == 127 ? '.' : s[i]);
}

static void print_text(const char *s, size_t n)
{
    putchar('"');
    print_plain(s, n < MOST_BYTES ? n : MOST_BYTES);
    fputs(n > MOST_BYTES ? "…\"" : "\"", stdout);
}

static void print_element(const flx_gguf *f, size_t i, const flx_gguf_pair *p, uint64_t at)
{
    size_t n = 0;
    const char *text = flx_gguf_string(f, (int64_t)i, at, &n);
    if (text)
        print_text(text, n);
    else if (p->element == FLX_GGUF_BOOL)
        fputs(flx_gguf_number(f, (int64_t)i, at, 0) != 0 ? "true" : "false", stdout);
    else
        printf("%.9g", flx_gguf_number(f, (int64_t)i, at, 0));
}

static void print_pair(const flx_gguf *f, size_t i)
{
    flx_gguf_pair p;
    if (flx_gguf_pair_at(f, i, &p) != FLX_OK)
        return;
    print_plain(p.key, strlen(p.key));
    fputs(" = ", stdout);
    if (p.kind == FLX_GGUF_ARRAY)
        putchar('[');
    for (uint64_t at = 0; at < p.count && at < MOST_ELEMENTS; at++) {
        fputs(at ? ", " : "", stdout);
        print_element(f, i, &p, at);
    }
    if (p.kind == FLX_GGUF_ARRAY)
        printf(p.count > MOST_ELEMENTS ? ", … %llu in all]" : "]", (unsigned long long)p.count);
    putchar('\n');
}

static void print_tensor(const flx_gguf_tensor_info *t)
{
    char dims[160] = "";
    size_t n = 0;
    for (int k = 0; k < t->rank; k++)
        n += (size_t)snprintf(dims + n, sizeof dims - n, "%s%lld", k ? ", " : "", (long long)t->dims[k]);
    printf("%10llu %12llu  %-8s [%s]%*s ", (unsigned long long)t->offset, (unsigned long long)t->nbytes, t->type, dims,
           n < 16 ? (int)(16 - n) : 0, "");
    print_plain(t->name, strlen(t->name));
    if (t->part)
        printf(" (part %u)", (unsigned)t->part + 1);
    putchar('\n');
}

/* ---- JSON ---- */

static void pair_json(const flx_gguf *f, size_t i)
{
    flx_gguf_pair p;
    json j = {0};
    char text[4 * MOST_BYTES + 1];
    if (flx_gguf_pair_at(f, i, &p) != FLX_OK)
        return;
    json_object_begin(&j, NULL);
    json_text(&j, "key", p.key);
    json_text(&j, "kind", kind_name(p.kind));
    json_unsigned(&j, "count", p.count);
    json_array_begin(&j, "values");
    for (uint64_t at = 0; at < p.count && at < MOST_ELEMENTS; at++) {
        size_t n = 0;
        const char *s = flx_gguf_string(f, (int64_t)i, at, &n);
        if (s)
            snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text - 1), s);
        if (s)
            json_text(&j, NULL, text);
        else
            json_number(&j, NULL, flx_gguf_number(f, (int64_t)i, at, 0), 53);
    }
    json_array_end(&j);
    json_object_end(&j);
}

static void tensor_json(const flx_gguf_tensor_info *t)
{
    json j = {0};
    json_object_begin(&j, NULL);
    json_text(&j, "tensor", t->name);
    json_text(&j, "type", t->type);
    json_array_begin(&j, "shape");
    for (int k = 0; k < t->rank; k++)
        json_integer(&j, NULL, t->dims[k]);
    json_array_end(&j);
    json_unsigned(&j, "offset", t->offset);
    json_unsigned(&j, "nbytes", t->nbytes);
    json_unsigned(&j, "part", t->part);
    json_object_end(&j);
}

/* ---- The file ---- */

int show_gguf(const char *path, bool as_json)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_gguf *f = ctx ? flx_gguf_read(ctx, path, &err) : NULL;
    int status = !ctx ? fail_memory() : !f ? report(&err, path) : STATUS_OK;
    for (size_t i = 0; i < flx_gguf_pair_count(f); i++)
        (as_json ? pair_json : print_pair)(f, i);
    if (f && !as_json && flx_gguf_tensor_count(f))
        printf("%10s %12s  %-8s %-18s %s\n", "offset", "bytes", "type", "shape", "tensor");
    for (size_t i = 0; i < flx_gguf_tensor_count(f); i++) {
        flx_gguf_tensor_info t = {.struct_size = sizeof t};
        if (flx_gguf_tensor_at(f, i, &t, &err) == FLX_OK)
            (as_json ? tensor_json : print_tensor)(&t);
    }
    flx_gguf_free(f);
    flx_context_free(ctx);
    return status;
}
