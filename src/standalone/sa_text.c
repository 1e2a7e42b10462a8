/* SPDX-License-Identifier: Apache-2.0 */
/* sa_text.c: names, types and pieces of text of a standalone file. */
#include "base/context.h"
#include "base/hash.h"
#include "standalone/standalone.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- The file ---- */

void flxi_sa_file_init(flxi_sa_file *f, flx_context *ctx)
{
    *f = (flxi_sa_file){.ctx = ctx, .mem = flxi_context_mem(ctx)};
    flxi_arena_init(&f->arena, f->mem);
    flxi_kfile_init(&f->kernels, &flxi_target_c, f->mem);
    flxi_strbuf_init(&f->data, f->mem);
    flxi_strbuf_init(&f->code, f->mem);
    flxi_strbuf_init(&f->entries, f->mem);
    f->names.arena = &f->arena;
}

void flxi_sa_file_free(flxi_sa_file *f)
{
    flxi_sa_library_free(f);
    flxi_kfile_free(&f->kernels);
    flxi_strbuf_free(&f->data);
    flxi_strbuf_free(&f->code);
    flxi_strbuf_free(&f->entries);
    flxi_strings_free(&f->names);
    flxi_vec_free(f->mem, &f->statics);
    flxi_vec_free(f->mem, &f->constants);
    flxi_vec_free(f->mem, &f->pads);
    flxi_vec_free(f->mem, &f->tables);
    flxi_arena_free(&f->arena);
}

/* Different polynomials may have the same value for one sample. Then that sample alone uses the larger number of bytes:
   no formula fits, and the file is refused. */
static size_t room_of(const flxi_sa_file *f, size_t bytes, bool is_body)
{
    size_t most = f->num_symbols ? (bytes + 15) / 16 * 16 : (bytes + 63) / 64 * 64;
    for (size_t i = 0; i < f->pads.n; i++)
        if (f->pads.at[i].bytes == bytes && f->pads.at[i].is_body == is_body && f->pads.at[i].padded > most)
            most = f->pads.at[i].padded;
    return most;
}

size_t flxi_sa_padded(const flxi_sa_file *f, size_t bytes)
{
    return room_of(f, bytes, false);
}

size_t flxi_sa_body_room(const flxi_sa_file *f, size_t bytes)
{
    return room_of(f, bytes, true);
}

const char *flxi_sa_text(flxi_sa_file *f, const char *fmt, ...)
{
    char text[600];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *kept = n < 0 ? NULL : flxi_arena_text(&f->arena, text, strlen(text));
    f->failed |= !kept;
    return kept ? kept : "";
}

/* ---- Identifiers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Whether a name begins with the prefix in capitals and _. */
static bool begins_in_capitals(const char *name, const char *prefix)
{
    for (; *prefix; prefix++, name++)
        if (*name != (*prefix >= 'a' && *prefix <= 'z' ? *prefix - 'a' + 'A' : *prefix))
            return false;
    return *name == '_';
}

const char *flxi_sa_identifier(flxi_sa_file *f, const char *name)
{
    char text[72];
    size_t n = 0;
    if (!name || !*name)
        name = "value";
    if (name[0] == '_' && (name[1] == '_' || (name[1] >= 'A' && name[1] <= 'Z')))
        text[n++] = 'v'; /* C keeps these for compilers and libraries */
    if (is_digit(*name))
        text[n++] = '_';
    if (f->prefix && begins_in_capitals(name, f->prefix))
        text[n++] = 'v'; /* macros of the file begin so */
    for (; *name && n < 60; name++)
        text[n++] = is_letter(*name) || is_digit(*name) ? *name : '_';
    text[n] = 0;
    bool is_symbol = false;
    for (size_t i = 0; i < f->num_symbols; i++)
        is_symbol |= strcmp(f->symbols[i], text) == 0;
    if (is_symbol || flxi_sa_is_reserved(text)) {
        text[n++] = '_';
        text[n] = 0;
    }
    return flxi_sa_text(f, "%s", text);
}

/* The name, or the name with the first number that makes it new, kept in `taken`. */
static const char *new_name(flxi_sa_file *f, flxi_strings *taken, const char *wanted)
{
    char text[100];
    snprintf(text, sizeof text, "%.72s", wanted);
    for (unsigned i = 2; flxi_is_interned(taken, text); i++)
        snprintf(text, sizeof text, "%.72s_%u", wanted, i);
    const char *kept = flxi_intern(taken, text, strlen(text));
    f->failed |= !kept;
    return kept ? kept : "";
}

const char *flxi_sa_name(flxi_sa_file *f, const char *wanted)
{
    const char *id = flxi_sa_identifier(f, wanted);
    size_t n = strlen(id);
    const char *bare = n > 1 && id[n - 1] == '_' ? flxi_sa_text(f, "%.*s", (int)n - 1, id) : "";
    id = flxi_sa_is_reserved(bare) ? bare : id; /* words of C are fine after a prefix */
    return new_name(f, &f->names, flxi_sa_text(f, "%s_%.60s", f->prefix, id));
}

/* A variable must not hide a function: these begin with the prefix of the file, or are those of kernels. */
const char *flxi_sa_local(flxi_sa_routine *r, const char *wanted)
{
    flxi_sa_file *f = r->w.f;
    const char *name = flxi_sa_identifier(f, wanted);
    size_t n = strlen(f->prefix);
    if ((strncmp(name, f->prefix, n) == 0 && name[n] == '_') || strncmp(name, "k_", 2) == 0)
        name = flxi_sa_text(f, "v_%s", name);
    return new_name(f, &r->names, name);
}

const char *flxi_sa_type(int32_t dtype)
{
    switch (dtype) {
    case FLX_F64:
    case FLX_C128: return "double";
    case FLX_F32:
    case FLX_C64: return "float";
    case FLX_I64: return "int64_t";
    case FLX_I32: return "int32_t";
    case FLX_I16: return "int16_t";
    case FLX_I8: return "int8_t";
    case FLX_U64: return "uint64_t";
    case FLX_U32: return "uint32_t";
    case FLX_F16:
    case FLX_BF16:
    case FLX_U16: return "uint16_t";
    default: return "uint8_t";
    }
}

/* ---- Rewriting ---- */

/* The end of a number, of which letters are part: 0x1p-3f. */
static size_t number_end(const char *text, size_t n, size_t i)
{
    while (i < n && (is_digit(text[i]) || is_letter(text[i]) || text[i] == '.')) {
        bool has_sign = text[i] == 'p' || text[i] == 'P';
        i++;
        if (has_sign && i < n && (text[i] == '+' || text[i] == '-'))
            i++;
    }
    return i;
}

void flxi_sa_rewrite(flxi_strbuf *out, const char *text, size_t n, flxi_sa_rename rename, const void *user)
{
    size_t i = 0;
    while (i < n) {
        size_t from = i;
        if (text[i] == '/' && i + 1 < n && text[i + 1] == '*') {
            for (i += 2; i < n && !(text[i] == '/' && text[i - 1] == '*'); i++)
                continue;
            i += i < n;
        } else if (is_digit(text[i])) {
            i = number_end(text, n, i);
        } else if (is_letter(text[i])) {
            while (i < n && (is_letter(text[i]) || is_digit(text[i])))
                i++;
            const char *other = rename(user, text + from, i - from);
            if (other) {
                flxi_add_text(out, other);
                continue;
            }
        } else {
            i++;
        }
        flxi_add_bytes(out, text + from, i - from);
    }
}

typedef struct {
    const char *name;
    bool found;
} search;

static const char *find_name(const void *user, const char *name, size_t n)
{
    search *s = (search *)(uintptr_t)user;
    s->found |= strlen(s->name) == n && memcmp(s->name, name, n) == 0;
    return NULL;
}

bool flxi_sa_mentions(const flxi_strbuf *text, const char *name)
{
    search s = {name, false};
    flxi_strbuf unused;
    flxi_strbuf_init(&unused, text->mem);
    flxi_sa_rewrite(&unused, text->at ? text->at : "", text->n, find_name, &s);
    flxi_strbuf_free(&unused);
    return s.found;
}

void flxi_sa_add_comment(flxi_strbuf *out, const char *text)
{
    for (; *text; text++) {
        bool ends = (text[0] == '*' && text[1] == '/') || (text[0] == '/' && text[1] == '*');
        flxi_add_char(out, ends || *text == '\\' ? ' ' : *text);
        flxi_add_text(out, *text == '\n' ? "   " : "");
    }
}

/* ---- Static functions ---- */

static const char *give_name(const void *user, const char *name, size_t n)
{
    return n == 5 && memcmp(name, "NAME_", 5) == 0 ? (const char *)user : NULL;
}

const char *flxi_sa_static_of(flxi_sa_file *f, const flxi_strbuf *text, const flxi_strbuf *shown, const char *wanted,
                              const char *comment)
{
    if (text->failed || !text->at || shown->failed || !shown->at) {
        f->failed = true;
        return "";
    }
    uint64_t hash = flxi_hash_bytes(FLXI_HASH_SEED, text->at, text->n);
    for (size_t i = 0; i < f->statics.n; i++)
        if (f->statics.at[i].hash == hash && strcmp(f->statics.at[i].text, text->at) == 0)
            return f->statics.at[i].name;
    flxi_sa_static s = {hash, flxi_arena_text(&f->arena, text->at, text->n), flxi_sa_name(f, wanted)};
    if (!s.text || !flxi_push(f->mem, &f->statics, s)) {
        f->failed = true;
        return "";
    }
    flxi_add_text(&f->code, "\n/* ");
    flxi_sa_add_comment(&f->code, comment);
    flxi_add_text(&f->code, " */\n");
    flxi_sa_rewrite(&f->code, shown->at, shown->n, give_name, s.name);
    return s.name;
}

/* ---- Lines ---- */

static void add_line(flxi_sa_writer *w, const char *end, const char *fmt, va_list args)
{
    char text[1000];
    vsnprintf(text, sizeof text, fmt, args);
    flxi_addf(w->out, "%*s", 4 * w->depth, "");
    flxi_add_text(w->out, text);
    flxi_add_text(w->out, end);
}

void flxi_sa_line(flxi_sa_writer *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_line(w, "\n", fmt, args);
    va_end(args);
}

void flxi_sa_open(flxi_sa_writer *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_line(w, " {\n", fmt, args);
    va_end(args);
    w->depth++;
}

void flxi_sa_close(flxi_sa_writer *w)
{
    w->depth--;
    flxi_sa_line(w, "}");
}
