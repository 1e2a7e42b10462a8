/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c: reading the text of a training. A value is kept as a small tree; the functions that know what a setting
   means take from it what they need, and what none of them took is an error. */
#include "train/settings.h"

#include "args.h"
#include "report.h"
#include "suggest.h"

#include <fluxion/graph.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 8, MAX_SETTINGS = 10000 };

/* ---- Memory: pieces in a list, freed together ---- */

typedef struct piece {
    struct piece *next;
    max_align_t data[];
} piece;

static void *take_memory(settings *s, size_t size)
{
    piece *p = calloc(1, sizeof *p + size);
    if (!p)
        return NULL;
    p->next = s->memory;
    s->memory = p;
    return p->data;
}

void settings_free(settings *s)
{
    for (piece *p = s->memory, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    free(s->bytes.data);
    *s = (settings){0};
}

/* ---- Tokens ---- */

typedef enum { END, NAME, NUMBER, STRING, MARK, BAD } token_kind;

typedef struct {
    settings *s;
    const char *at, *end, *line_start;
    int line;
    token_kind kind;
    const char *text; /* of the token, in the file */
    size_t size;
    int token_line, token_column;
    size_t count; /* of settings so far */
    int depth;
} reader;

static bool is_word_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_word_start(c) || is_digit(c) || c == '.';
}

static void skip_space(reader *r)
{
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#')
            while (r->at + 1 < r->end && r->at[1] != '\n')
                r->at++;
        else if (*r->at == '\n') {
            r->line++;
            r->line_start = r->at + 1;
        } else if (*r->at != ' ' && *r->at != '\t' && *r->at != '\r')
            return;
    }
}

static bool starts_number(const reader *r)
{
    const char *p = r->at;
    if (p < r->end && *p == '-')
        p++;
    if (p < r->end && *p == '.')
        p++;
    return p < r->end && is_digit(*p);
}

/* Digits, points, signs after an exponent: read_number() decides whether it is a number. */
static void take_number(reader *r)
{
    do
        r->at++;
    while (r->at < r->end && (is_word(*r->at) || ((*r->at == '-' || *r->at == '+') && strchr("eE", r->at[-1]))));
    r->kind = NUMBER;
}

static void take_string(reader *r)
{
    for (r->at++; r->at < r->end && *r->at != '"' && *r->at != '\n'; r->at++)
        if (*r->at == '\\' && r->at + 1 < r->end && r->at[1] != '\n')
            r->at++;
    r->kind = r->at < r->end && *r->at == '"' ? STRING : BAD;
    r->at += r->kind == STRING;
}

static void next_token(reader *r)
{
    skip_space(r);
    r->text = r->at;
    r->token_line = r->line;
    r->token_column = (int)(r->at - r->line_start) + 1;
    if (r->at == r->end)
        r->kind = END;
    else if (is_word_start(*r->at)) {
        while (r->at < r->end && is_word(*r->at))
            r->at++;
        r->kind = NAME;
    } else if (starts_number(r))
        take_number(r);
    else if (*r->at == '"')
        take_string(r);
    else {
        r->kind = strchr("=(),[]", *r->at) && *r->at ? MARK : BAD;
        r->at++;
    }
    r->size = (size_t)(r->at - r->text);
}

static bool is_mark(const reader *r, char c)
{
    return r->kind == MARK && *r->text == c;
}

static int fail_at(const settings *s, flx_code code, int line, int column, const char *fmt, va_list list)
{
    flx_error err = {.code = code};
    snprintf(err.where, sizeof err.where, "file:%d:%d", line, column);
    vsnprintf(err.message, sizeof err.message, fmt, list);
    return report(&err, s->file);
}

static int FLX_PRINTF(2, 3) token_fail(const reader *r, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    int status = fail_at(r->s, FLX_E_SYNTAX, r->token_line, r->token_column, fmt, list);
    va_end(list);
    return status;
}

static int expected(const reader *r, const char *what)
{
    if (r->kind == END)
        return token_fail(r, "expected %s at the end of the file", what);
    if (r->kind == BAD && *r->text == '"')
        return token_fail(r, "the string does not end on its line");
    if (r->kind == BAD && ((unsigned char)*r->text < ' ' || (unsigned char)*r->text > '~'))
        return token_fail(r, "expected %s, not the byte 0x%02x", what, (unsigned char)*r->text);
    return token_fail(r, "expected %s, not '%.*s'", what, (int)(r->size < 40 ? r->size : 40), r->text);
}

int settings_fail(const settings *s, const setting *at, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    int status = fail_at(s, FLX_E_USAGE, at->line, at->column, fmt, list);
    va_end(list);
    return status;
}

/* ---- Values ---- */

/* The token as text of its own; of a string without its quotes and backslashes. */
static const char *token_text(reader *r)
{
    char *text = take_memory(r->s, r->size + 1);
    bool is_string = r->kind == STRING;
    size_t n = 0;
    if (!text)
        return NULL;
    for (size_t i = is_string; i < r->size - is_string; i++) {
        bool is_escaped = is_string && r->text[i] == '\\';
        char c = r->text[i += is_escaped];
        text[n++] = is_escaped && c == 'n' ? '\n' : is_escaped && c == 't' ? '\t' : c;
    }
    return text;
}

static int read_value(reader *r, setting *out);

/* Adds a setting after *last. */
static int add_setting(reader *r, setting ***last, setting **out)
{
    if (++r->count > MAX_SETTINGS)
        return token_fail(r, "more than %d settings and arguments", MAX_SETTINGS);
    *out = take_memory(r->s, sizeof **out);
    if (!*out)
        return fail_memory();
    (*out)->line = r->token_line;
    (*out)->column = r->token_column;
    **last = *out;
    *last = &(*out)->next;
    return STATUS_OK;
}

static setting *find(const setting *of, const char *name)
{
    setting *part = of->first;
    while (part && (!part->name || strcmp(part->name, name) != 0))
        part = part->next;
    return part;
}

static bool comes_equals(const reader *r)
{
    reader ahead = *r;
    next_token(&ahead);
    return is_mark(&ahead, '=');
}

static int read_parts(reader *r, setting *of, char close, bool may_be_named)
{
    setting **last = &of->first, *part = NULL;
    if (++r->depth > MAX_DEPTH)
        return token_fail(r, "values are nested more than %d deep", MAX_DEPTH);
    next_token(r);
    for (int status; !is_mark(r, close);) {
        if ((status = add_setting(r, &last, &part)))
            return status;
        if (may_be_named && r->kind == NAME && comes_equals(r)) {
            const char *name = token_text(r);
            if (!name)
                return fail_memory();
            if (find(of, name))
                return token_fail(r, "'%.40s' is given twice", name);
            part->name = name;
            next_token(r);
            next_token(r);
        }
        if ((status = read_value(r, part)))
            return status;
        if (!is_mark(r, ',') && !is_mark(r, close))
            return expected(r, close == ')' ? "',' or ')'" : "',' or ']'");
        if (is_mark(r, ','))
            next_token(r);
    }
    next_token(r);
    r->depth--;
    return STATUS_OK;
}

static int read_value(reader *r, setting *out)
{
    if (is_mark(r, '[')) {
        out->kind = SETTING_LIST;
        return read_parts(r, out, ']', false);
    }
    if (r->kind != NAME && r->kind != STRING && r->kind != NUMBER)
        return expected(r, "a value");
    if (!(out->text = token_text(r)))
        return fail_memory();
    out->kind = r->kind == NUMBER ? SETTING_NUMBER : SETTING_TEXT;
    if (r->kind == NUMBER && !read_number(out->text, &out->number)) {
        if (!read_amount(out->text, &(int64_t){0}))
            return expected(r, "a number");
        out->kind = SETTING_TEXT; /* 64M */
    }
    bool may_be_call = r->kind == NAME;
    next_token(r);
    if (!may_be_call || !is_mark(r, '('))
        return STATUS_OK;
    out->kind = SETTING_CALL;
    return read_parts(r, out, ')', true);
}

static bool begins_graphs(const reader *r)
{
    return r->kind == NAME &&
           ((r->size == 5 && memcmp(r->text, "graph", 5) == 0) ||
            (r->size == 6 && memcmp(r->text, "kernel", 6) == 0)) &&
           !comes_equals(r);
}

static int read_setting(reader *r, setting ***last)
{
    setting *made;
    int status;
    if (r->kind != NAME)
        return expected(r, "the name of a setting");
    const char *name = token_text(r);
    if (!name)
        return fail_memory();
    setting *before = find(&r->s->root, name);
    if (before)
        return token_fail(r, "'%.40s' is given twice, first on line %d", name, before->line);
    if ((status = add_setting(r, last, &made)))
        return status;
    made->name = name;
    next_token(r);
    if (!is_mark(r, '='))
        return expected(r, "'='");
    next_token(r);
    return read_value(r, made);
}

static const char *take_text(settings *s, const char *text, size_t size)
{
    char *copy = take_memory(s, size + 1);
    if (copy && size)
        memcpy(copy, text, size);
    return copy;
}

int settings_parse(settings *s, const char *name, file_bytes bytes)
{
    int status;
    *s = (settings){.file = name, .bytes = bytes, .root = {.kind = SETTING_LIST, .line = 1, .column = 1}};
    const char *data = s->bytes.data ? s->bytes.data : "";
    reader r = {.s = s, .at = data, .end = data + s->bytes.size, .line_start = data, .line = 1};
    setting **last = &s->root.first;
    for (next_token(&r); r.kind != END && !begins_graphs(&r);)
        if ((status = read_setting(&r, &last)))
            return status;
    s->has_graphs = r.kind != END;
    s->text = take_text(s, data, (size_t)(r.text - data));
    if (!s->text)
        return fail_memory();
    for (char *p = s->bytes.data; s->has_graphs && p < r.text; p++)
        if (*p != '\n')
            *p = ' ';
    return STATUS_OK;
}

int settings_read(settings *s, const char *path)
{
    file_bytes bytes = {0};
    *s = (settings){.file = file_name(path)};
    int status = file_read(path, &bytes);
    return status ? status : settings_parse(s, file_name(path), bytes);
}

/* ---- Taking ---- */

setting *settings_take(setting *of, const char *name)
{
    setting *part = find(of, name);
    if (part)
        part->is_taken = true;
    for (size_t i = 0; i < of->num_asked; i++)
        if (strcmp(of->asked[i], name) == 0)
            return part;
    if (of->num_asked < SETTINGS_MAX_ASKED)
        of->asked[of->num_asked++] = name;
    return part;
}

static int out_of_range(const settings *s, const setting *part, double least, double most)
{
    char range[80];
    if (least == SETTINGS_ABOVE_0 && most == SETTINGS_BELOW_1)
        snprintf(range, sizeof range, "above 0, below 1");
    else if (least == SETTINGS_ABOVE_0)
        snprintf(range, sizeof range, "above 0, up to %g", most);
    else
        snprintf(range, sizeof range, "%g to %g", least, most);
    return settings_fail(s, part, "%s = %s is out of range: %s", part->name, part->text, range);
}

int settings_number(const settings *s, setting *of, const char *name, double least, double most, double *value)
{
    setting *part = settings_take(of, name);
    if (!part)
        return STATUS_OK;
    if (part->kind != SETTING_NUMBER)
        return settings_fail(s, part, "%s must be a number", name);
    if (!(part->number >= least && part->number <= most))
        return out_of_range(s, part, least, most);
    *value = part->number;
    return STATUS_OK;
}

int settings_integer(const settings *s, setting *of, const char *name, int64_t least, int64_t most, int64_t *value)
{
    setting *part = settings_take(of, name);
    int64_t read;
    if (!part)
        return STATUS_OK;
    if (part->kind != SETTING_NUMBER || !read_i64(part->text, &read))
        return settings_fail(s, part, "%s must be an integer", name);
    if (read < least || read > most)
        return settings_fail(s, part, "%s = %s is out of range: %lld to %lld", name, part->text, (long long)least,
                             (long long)most);
    *value = read;
    return STATUS_OK;
}

int settings_bool(const settings *s, setting *of, const char *name, bool *value)
{
    setting *part = settings_take(of, name);
    if (!part)
        return STATUS_OK;
    bool is_true = part->kind == SETTING_TEXT && strcmp(part->text, "true") == 0;
    if (!is_true && (part->kind != SETTING_TEXT || strcmp(part->text, "false") != 0))
        return settings_fail(s, part, "%s must be true or false", name);
    *value = is_true;
    return STATUS_OK;
}

int settings_text(const settings *s, setting *of, const char *name, const char **value)
{
    setting *part = settings_take(of, name);
    if (!part)
        return STATUS_OK;
    if (part->kind != SETTING_TEXT)
        return settings_fail(s, part, "%s must be a name or a string in quotes", name);
    *value = part->text;
    return STATUS_OK;
}

int settings_operand(const settings *s, setting *of, size_t position, const char *what, const char **value)
{
    setting *part = of->first;
    for (size_t i = 0; part && i < position; i++)
        part = part->next;
    if (!part || part->name)
        return settings_fail(s, of, "%s needs %s: %s(\"…\")", of->text, what, of->text);
    if (part->kind != SETTING_TEXT)
        return settings_fail(s, part, "%s must be a string in quotes", what);
    part->is_taken = true;
    *value = part->text;
    return STATUS_OK;
}

static void hint_nearest(const char *word, const char *const *names, size_t count)
{
    suggestion guess = suggest_begin(word);
    for (size_t i = 0; i < count; i++)
        suggest_consider(&guess, names[i]);
    if (guess.best) {
        hint("did you mean '%s'?", guess.best);
        return;
    }
    hint_list_begin("known are");
    for (size_t i = 0; i < count; i++)
        list_item(names[i]);
    hint_list_end();
}

int settings_unknown(const settings *s, const setting *at, const char *what, const char *const *names, size_t count)
{
    const char *word = at->text ? at->text : "[";
    int status = settings_fail(s, at, "unknown %s '%.40s'", what, word);
    hint_nearest(word, names, count);
    return status;
}

/* What is called otherwise elsewhere, and what is not a setting at all. */
static const struct {
    const char *theirs, *ours, *hint, *of; /* of: where the hint is given; NULL: among the settings themselves */
} usual_names[] = {
    {"momentum", NULL, "write momentum(momentum=0.9)", "sgd"},
    {"nesterov", NULL, "write momentum(nesterov=true)", "sgd"},
    {"lr", "rate", "the rate is of the optimiser: optimiser = adamw(rate=0.001)", NULL},
    {"learning_rate", "rate", "the rate is of the optimiser: optimiser = adamw(rate=0.001)", NULL},
    {"rate", NULL, "the rate is of the optimiser: optimiser = adamw(rate=0.001)", NULL},
    {"weight_decay", NULL, "it is of the optimiser: optimiser = adamw(weight_decay=0.01)", NULL},
    {"wd", "weight_decay", "it is of the optimiser: optimiser = adamw(weight_decay=0.01)", NULL},
    {"eps", "epsilon", "it is of the optimiser: optimiser = adam(epsilon=1e-8)", NULL},
    {"batch_size", "batch", NULL, NULL},
    {"early_stop", "patience", NULL, NULL},
    {"early_stopping", "patience", NULL, NULL},
    {"device", NULL, "it is an option: flx train FILE --device NAME", NULL},
    {"out", NULL, "it is an option: flx train FILE --out DIR", NULL},
    {"dropout", NULL, "it is part of the graph `loss`", NULL},
    {"metrics", NULL, "outputs of the loss that are scalars are metrics", NULL},
};

/* Whether a hint is known for this name, and given. */
static bool hint_usual(const setting *of, const char *name)
{
    for (size_t i = 0; i < sizeof usual_names / sizeof *usual_names; i++) {
        if (strcmp(usual_names[i].theirs, name) != 0)
            continue;
        for (size_t k = 0; usual_names[i].ours && k < of->num_asked; k++)
            if (strcmp(of->asked[k], usual_names[i].ours) == 0) {
                hint("did you mean '%s'?", usual_names[i].ours);
                return true;
            }
        const char *call = usual_names[i].of;
        bool fits = usual_names[i].hint && (call ? of->text && strcmp(of->text, call) == 0 : !of->text);
        if (fits)
            hint("%s", usual_names[i].hint);
        return fits;
    }
    return false;
}

int settings_check_taken(const settings *s, const setting *of)
{
    const setting *part = of->first;
    while (part && part->is_taken)
        part = part->next;
    if (!part)
        return STATUS_OK;
    if (!part->name)
        return settings_fail(s, part, "%s has too many operands", of->text ? of->text : "the list");
    int status = settings_fail(s, part, "unknown %s '%.40s'%s%s", of->text ? "argument" : "setting", part->name,
                               of->text ? " of " : "", of->text ? of->text : "");
    if (!hint_usual(of, part->name))
        hint_nearest(part->name, of->asked, of->num_asked);
    return status;
}
