/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_reader.c: see kernel_reader.h. */
#include "kernel/text/kernel_reader.h"

#include "base/text/count_words.h"

#include <stdio.h>

/* ---- Errors ---- */

void flxi_kset_where(flx_error *err, const char *text, const char *file, const char *at)
{
    size_t line, column;
    char position[48];
    if (!err)
        return;
    flxi_klex_position(text, at, &line, &column);
    int n = snprintf(position, sizeof position, ":%zu:%zu", line, column);
    snprintf(err->where, sizeof err->where, "%.*s%s", (int)sizeof err->where - n - 1, file ? file : "text", position);
}

flx_code flxi_kfail_at(flxi_kparser *p, const char *at, const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    flxi_fail_va(p->err, FLX_E_SYNTAX, hint, fmt, args);
    va_end(args);
    flxi_kset_where(p->err, p->x.text, p->file, at);
    return FLX_E_SYNTAX;
}

flx_code flxi_kfail_rule(flxi_kparser *p, const char *at, const char *rule, const char *hint, const char *fmt, ...)
{
    char text[200];
    va_list args;
    va_start(args, fmt);
    flxi_format_va(text, sizeof text, fmt, args);
    va_end(args);
    flxi_kernel_fail(p->err, rule, hint, "%s", text);
    flxi_kset_where(p->err, p->x.text, p->file, at);
    return FLX_E_KERNEL;
}

flx_code flxi_kfail_memory(flxi_kparser *p)
{
    return flxi_oom(p->err, "a kernel");
}

flx_code flxi_kexpected(flxi_kparser *p, const char *what)
{
    flxi_ktoken t = p->x.token;
    char found[60], hint[120];
    flxi_printable(found, sizeof found, t.s, t.n < 40 ? t.n : 40);
    if (t.kind == KT_END)
        return flxi_kfail_at(p, t.s, NULL, "expected %s, found the end of the text", what);
    if (t.kind == KT_BAD && *t.s == '"')
        return flxi_kfail_at(p, t.s, "strings end on the line on which they begin", "unterminated string");
    if (t.kind == KT_BAD && *t.s == '/')
        return flxi_kfail_at(p, t.s, "end it with */", "unterminated comment");
    if (t.kind == KT_BAD)
        return flxi_kfail_at(p, t.s, flxi_khabit(p, what, hint, sizeof hint), "unexpected character '%s'", found);
    return flxi_kfail_at(p, t.s, flxi_khabit(p, what, hint, sizeof hint),
                         t.kind == KT_STRING ? "expected %s, found %s" : "expected %s, found '%s'", what, found);
}

flx_code flxi_kcheck_builder(flxi_kparser *p, const char *at)
{
    if (flxi_kb_ok(p->b))
        return FLX_OK;
    if (p->err)
        *p->err = p->b->err;
    if (p->b->err.code != FLX_E_OOM)
        flxi_kset_where(p->err, p->x.text, p->file, at);
    return (flx_code)p->b->err.code;
}

/* ---- Similar names ---- */

#define NEAR_MAX 24 /* longer names are not compared */

/* Whether changing, adding or dropping at most two letters turns a into b; *distance is their number. */
static bool is_near(const char *a, const char *b, size_t *distance)
{
    size_t row[NEAR_MAX + 1];
    size_t n = strlen(a), m = strlen(b);
    if (n == 0 || m == 0 || n > NEAR_MAX || m > NEAR_MAX)
        return false;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            size_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < other ? change : other;
        }
    }
    *distance = row[m];
    return row[m] <= 2 && row[m] < n;
}

typedef struct {
    const char *wanted;
    const char *best;
    size_t distance;
} near_search;

static void consider(near_search *s, const char *name)
{
    size_t distance;
    if (is_near(s->wanted, name, &distance) && (!s->best || distance < s->distance)) {
        s->best = name;
        s->distance = distance;
    }
}

static void consider_all(const flxi_kparser *p, near_search *s, flxi_kunknown what)
{
    const flxi_kb *b = p->b;
    for (size_t i = 1; what == UNKNOWN_BUFFER && i < b->buffers.n; i++)
        consider(s, b->buffers.at[i].name);
    for (size_t i = 0; what <= UNKNOWN_TARGET && i < b->visible.n; i++)
        consider(s, b->vars.at[b->visible.at[i]].name);
    if (what != UNKNOWN_FUNCTION)
        return;
    for (size_t i = 1; i < b->fns.n; i++)
        consider(s, b->fns.at[i].name);
    for (size_t i = 1; i < KUN_COUNT; i++)
        if (!*flxi_kunaries[i].sign)
            consider(s, flxi_kunaries[i].name);
    for (size_t i = 1; i < KBIN_COUNT; i++)
        if (!*flxi_kbinaries[i].sign)
            consider(s, flxi_kbinaries[i].name);
}

void flxi_kunknown_name(flxi_kparser *p, const char *at, size_t symbol, flxi_kunknown what)
{
    static const char *const rules[] = {"K10", "K13", "K15", "K60"};
    static const char *const nouns[] = {"unknown variable", "assignment to an undeclared name", "unknown buffer",
                                        "unknown op or function"};
    static const char *const hints[] = {"declare it: let name = value;", "declare it: let name = value;",
                                        "declare it before the statements: buffer name: f32[] read;",
                                        "declare it before the statements: fn name(p: f32) -> f32 { return e; }"};
    char name[80];
    if (p->notes.n == p->notes.room)
        return;
    const char *text = flxi_ksymbol_text(p, symbol);
    flxi_knote *note = &p->notes.at[p->notes.n++];
    *note = (flxi_knote){.statement = p->b->position ? p->b->position : 1, .position = (uint32_t)(at - p->x.text) + 1};
    near_search s = {.wanted = text};
    consider_all(p, &s, what);
    flxi_printable(name, sizeof name, text, strlen(text));
    flxi_kernel_fail(&note->err, rules[what], hints[what], "%s '%s'", nouns[what], name);
    if (what == UNKNOWN_VAR && p->symbols.at[symbol].buffer)
        flxi_hint(&note->err, "%.60s is a buffer: an element is %.40s[i]", name, name);
    else if (what == UNKNOWN_FUNCTION && flxi_khabit_function(text))
        flxi_hint(&note->err, "%s", flxi_khabit_function(text));
    else if (s.best)
        flxi_hint(&note->err, "did you mean %.60s?", s.best);
    flxi_kset_where(&note->err, p->x.text, p->file, at);
}

/* ---- Tokens ---- */

void flxi_knext(flxi_kparser *p)
{
    flxi_klex_next(&p->x);
}

bool flxi_kis_mark(const flxi_kparser *p, char c)
{
    return p->x.token.mark == FLXI_MARK(c, 0);
}

bool flxi_ktake_mark(flxi_kparser *p, char c)
{
    if (!flxi_kis_mark(p, c))
        return false;
    flxi_knext(p);
    return true;
}

flx_code flxi_kneed_mark(flxi_kparser *p, char c)
{
    char what[8] = {'\'', c, '\'', 0};
    return flxi_ktake_mark(p, c) ? FLX_OK : flxi_kexpected(p, what);
}

bool flxi_ktake_word(flxi_kparser *p, const char *word)
{
    if (!flxi_ktoken_is(&p->x.token, word))
        return false;
    flxi_knext(p);
    return true;
}

uint32_t flxi_kread_word(flxi_kparser *p, const char *const *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (flxi_ktake_word(p, words[i]))
            return i;
    return count;
}

/* The bytes of the string token, in scratch, with a 0 after them. */
static flx_code unquote(flxi_kparser *p, size_t *n)
{
    flxi_ktoken t = p->x.token;
    const char *bad = t.s;
    while (p->scratch.cap < t.n)
        if (!flxi_vec_grow(p->mem, (void **)&p->scratch.at, p->scratch.cap, &p->scratch.cap, 1))
            return flxi_kfail_memory(p);
    *n = flxi_kstring_read(&t, p->scratch.at, &bad);
    if (*n == SIZE_MAX)
        return flxi_kfail_at(p, bad, "the escapes are \\\" \\\\ \\n \\t \\r \\xHH", "unknown escape in a string");
    p->scratch.at[*n] = 0;
    flxi_knext(p);
    return FLX_OK;
}

flx_code flxi_kread_string(flxi_kparser *p, const char *what, const char **text)
{
    size_t n;
    const char *at = p->x.token.s;
    if (p->x.token.kind != KT_STRING)
        return flxi_kexpected(p, what);
    FLXI_TRY(unquote(p, &n));
    *text = flxi_kb_text(p->b, p->scratch.at, n);
    return flxi_kcheck_builder(p, at);
}

static int nibble(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

flx_code flxi_kread_bytes(flxi_kparser *p, const char **bytes, size_t *n)
{
    static const char what[] = "bytes as a string of hexadecimal digits";
    const char *at = p->x.token.s;
    size_t digits;
    if (p->x.token.kind != KT_STRING)
        return flxi_kexpected(p, what);
    FLXI_TRY(unquote(p, &digits));
    for (size_t i = 0; i + 1 < digits; i += 2) {
        int high = nibble(p->scratch.at[i]), low = nibble(p->scratch.at[i + 1]);
        if (high < 0 || low < 0)
            return flxi_kfail_at(p, at, NULL, "expected %s", what);
        p->scratch.at[i / 2] = (char)(unsigned char)(high * 16 + low);
    }
    if (digits % 2)
        return flxi_kfail_at(p, at, "each byte takes two digits", "an odd number of hexadecimal digits");
    *bytes = p->scratch.at;
    *n = digits / 2;
    return FLX_OK;
}

flx_code flxi_kread_u64(flxi_kparser *p, const char *what, uint64_t most, uint64_t *out)
{
    flxi_knumber number;
    char text[60];
    flxi_ktoken t = p->x.token;
    if (t.kind != KT_NUMBER || flxi_knumber_read(&t, &number) || number.real || number.type)
        return flxi_kexpected(p, what);
    if (!flxi_knumber_u64(&number, out) || *out > most)
        return flxi_kfail_at(p, t.s, NULL, "%s is too large, at most %llu is allowed here",
                             flxi_printable(text, sizeof text, t.s, t.n), (unsigned long long)most);
    flxi_knext(p);
    return FLX_OK;
}

flx_code flxi_kread_type(flxi_kparser *p, uint32_t *type)
{
    flxi_ktoken t = p->x.token;
    char text[40];
    *type = t.kind == KT_NAME ? flxi_ktype_find(t.s, t.n) : 0;
    if (!*type)
        return flxi_kexpected(p, "a type such as f32 or u32");
    if (flxi_ktype_of(*type)->storage)
        return flxi_kfail_at(p, t.s, "loads widen it", "%s is a storage type for buffers, not a type of values",
                             flxi_printable(text, sizeof text, t.s, t.n));
    flxi_knext(p);
    return FLX_OK;
}

/* ---- Names ---- */

bool flxi_kat_name(const flxi_kparser *p)
{
    return p->x.token.kind == KT_NAME || p->x.token.kind == KT_STRING;
}

const char *flxi_ksymbol_text(const flxi_kparser *p, size_t symbol)
{
    return p->b->texts.texts.at[symbol];
}

flxi_ksymbol *flxi_ksymbol_at(flxi_kparser *p, size_t symbol)
{
    while (p->symbols.n <= symbol)
        if (!flxi_push(p->mem, &p->symbols, (flxi_ksymbol){0}))
            return NULL;
    return &p->symbols.at[symbol];
}

flx_code flxi_kread_name(flxi_kparser *p, const char *what, size_t *symbol)
{
    flxi_ktoken t = p->x.token;
    char text[60];
    size_t n = t.n;
    if (!flxi_kat_name(p))
        return flxi_kexpected(p, what);
    if (t.kind == KT_NAME && flxi_kname_is_reserved(t.s, t.n))
        return flxi_kfail_at(p, t.s, "quote it to use it as a name", "expected %s, found the reserved word '%s'", what,
                             flxi_printable(text, sizeof text, t.s, t.n));
    if (t.kind == KT_STRING)
        FLXI_TRY(unquote(p, &n));
    else
        flxi_knext(p);
    *symbol = flxi_intern_number(&p->b->texts, t.kind == KT_STRING ? p->scratch.at : t.s, n);
    return *symbol == SIZE_MAX ? flxi_kfail_memory(p) : FLX_OK;
}

flx_code flxi_kread_buffer(flxi_kparser *p, uint32_t *buffer)
{
    size_t symbol;
    const char *at = p->x.token.s;
    FLXI_TRY(flxi_kread_name(p, "a buffer", &symbol));
    const flxi_ksymbol *s = flxi_ksymbol_at(p, symbol);
    if (!s)
        return flxi_kfail_memory(p);
    *buffer = s->buffer;
    if (!*buffer)
        flxi_kunknown_name(p, at, symbol, UNKNOWN_BUFFER);
    return FLX_OK;
}

/* From here on the name denotes the variable, until its scope closes. */
flx_code flxi_kshow_var(flxi_kparser *p, size_t symbol, uint32_t var)
{
    flxi_ksymbol *s = flxi_ksymbol_at(p, symbol);
    if (!s || !flxi_reserve(p->mem, &p->hidden))
        return flxi_kfail_memory(p);
    p->hidden.at[p->hidden.n].symbol = symbol;
    p->hidden.at[p->hidden.n++].var = s->var;
    s->var = var;
    return FLX_OK;
}

void flxi_kclose_scope(flxi_kparser *p, size_t mark)
{
    while (p->hidden.n > mark) {
        p->hidden.n--;
        p->symbols.at[p->hidden.at[p->hidden.n].symbol].var = p->hidden.at[p->hidden.n].var;
    }
}

void flxi_kparser_free(flxi_kparser *p)
{
    flxi_vec_free(p->mem, &p->symbols);
    flxi_vec_free(p->mem, &p->hidden);
    flxi_vec_free(p->mem, &p->unbound);
    flxi_vec_free(p->mem, &p->nodes);
    flxi_vec_free(p->mem, &p->kids);
    flxi_vec_free(p->mem, &p->values);
    flxi_vec_free(p->mem, &p->waiting);
    flxi_vec_free(p->mem, &p->scratch);
}
