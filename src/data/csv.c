/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c: tables as text (RFC 4180, and other separators). The text is read twice: first every field is checked, rows
   are counted and the dtype of each column is found; then columns are allocated and filled. Each field takes at least
   one byte of the file, its separator, so what is allocated is a small multiple of the file. */
#include "data/dataset.h"

#include "base/distinct.h"
#include "base/host/stop.h"
#include "base/number.h"
#include "base/options.h"
#include "format/file.h"
#include "graph/type/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_LISTED = 4 }; /* positions of fields in a hint */

typedef struct {
    const char *text;
    size_t size, at;
    char separator;
    int64_t line, column; /* of the next field: counted from 1, in bytes */
} reader;

/* A field: its contents, and where it is. Inside of quotes "" is one quote. */
typedef struct {
    const char *at;
    size_t size;
    bool is_quoted, is_last; /* of its line */
    int64_t line, column;
} field;

typedef struct {
    char *name;      /* owned by the arena; first, for flxi_check_distinct() */
    bool is_integer; /* all so far */
    bool is_number;  /* likewise */
} kind;

typedef struct {
    flx_context *ctx;
    flxi_arena arena;
    flx_csv_options o;
    const char *text;
    size_t size;
    FLXI_VEC(kind) kinds; /* by column */
    size_t label, target; /* their columns; SIZE_MAX: none */
    int64_t rows;
    flxi_strings words; /* of the label */
    flx_error bad;      /* the first field that is refused … */
    size_t num_bad;     /* … and how many there are */
    char more[64];      /* where the next of them are */
} table;

/* ---- Fields ---- */

static flx_code fail_at(flx_error *err, int64_t line, int64_t column, const char *what)
{
    flxi_fail(err, FLX_E_SYNTAX, "%s", what);
    return flxi_at(err, "%lld:%lld", (long long)line, (long long)column);
}

static void advance(reader *r)
{
    if (r->text[r->at++] == '\n') {
        r->line++;
        r->column = 1;
    } else {
        r->column++;
    }
}

static bool is_line_end(const reader *r)
{
    if (r->at == r->size || r->text[r->at] == '\n')
        return true;
    return r->text[r->at] == '\r' && (r->at + 1 == r->size || r->text[r->at + 1] == '\n');
}

static void skip_line_end(reader *r)
{
    if (r->at < r->size && r->text[r->at] == '\r')
        advance(r);
    if (r->at < r->size)
        advance(r);
}

static flx_code read_quoted(reader *r, field *f, flx_error *err)
{
    advance(r);
    f->is_quoted = true;
    f->at = r->text + r->at;
    for (;; advance(r)) {
        if (r->at == r->size)
            return fail_at(err, f->line, f->column, "a quoted field has no end");
        if (r->text[r->at] != '"')
            continue;
        if (r->at + 1 < r->size && r->text[r->at + 1] == '"')
            advance(r);
        else
            break;
    }
    f->size = (size_t)(r->text + r->at - f->at);
    advance(r);
    if (!is_line_end(r) && r->text[r->at] != r->separator)
        return fail_at(err, r->line, r->column, "text follows the end of a quoted field");
    return FLX_OK;
}

/* Blanks around a field that is not quoted are not part of it. */
static void read_plain(reader *r, field *f)
{
    f->at = r->text + r->at;
    while (!is_line_end(r) && r->text[r->at] != r->separator)
        advance(r);
    f->size = (size_t)(r->text + r->at - f->at);
    while (f->size && (f->at[0] == ' ' || f->at[0] == '\t')) {
        f->at++;
        f->size--;
    }
    while (f->size && (f->at[f->size - 1] == ' ' || f->at[f->size - 1] == '\t'))
        f->size--;
}

/* The next field of a line; the caller has checked that there is one. */
static flx_code next_field(reader *r, field *f, flx_error *err)
{
    *f = (field){.line = r->line, .column = r->column};
    if (r->at < r->size && r->text[r->at] == '"')
        FLXI_TRY(read_quoted(r, f, err));
    else
        read_plain(r, f);
    f->is_last = is_line_end(r);
    if (f->is_last)
        skip_line_end(r);
    else
        advance(r);
    return FLX_OK;
}

/* Whether there is another line that is not empty. */
static bool next_line(reader *r)
{
    while (r->at < r->size && is_line_end(r))
        skip_line_end(r);
    return r->at < r->size;
}

static reader begin(const table *t)
{
    reader r = {.text = t->text, .size = t->size, .line = 1, .column = 1};
    r.separator = (char)t->o.separator;
    if (r.size >= 3 && memcmp(r.text, "\xef\xbb\xbf", 3) == 0) /* a mark that some programs begin UTF-8 with */
        r.at = 3;
    return r;
}

/* The contents, with "" as one quote; at most `room` bytes, which f->size is enough for. */
static size_t plain_text(const field *f, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < f->size; i++) {
        out[n++] = f->at[i];
        if (f->is_quoted && f->at[i] == '"')
            i++;
    }
    return n;
}

/* ---- The first reading ---- */

static flx_code add_column(table *t, const field *f, flx_error *err)
{
    size_t room = f ? f->size + 1 : 24;
    kind k = {.is_integer = true, .is_number = true, .name = flxi_new(&t->arena, char, room)};
    if (!k.name)
        return flxi_oom(err, "the columns of a table");
    if (f)
        k.name[plain_text(f, k.name)] = 0;
    else
        snprintf(k.name, room, "c%zu", t->kinds.n);
    return flxi_push(t->arena.mem, &t->kinds, k) ? FLX_OK : flxi_oom(err, "the columns of a table");
}

/* What columns there are: one whose name has separators is a header of another kind of table. */
static void hint_at_columns(const table *t, flx_error *err)
{
    const char *end = t->kinds.at[t->kinds.n - 1].name;
    char last[64];
    flxi_printable(last, sizeof last, end, strlen(end));
    if (t->kinds.n == 1 && strpbrk(end, ";\t|"))
        flxi_hint(err, "its only column is '%s': is the separator another one?", last);
    else
        flxi_hint(err, "it has %zu columns, the last is '%s'", t->kinds.n, last);
}

/* The column of this name; SIZE_MAX without a name. */
static flx_code find_column(const table *t, const char *name, size_t *out, flx_error *err)
{
    char shown[64];
    *out = SIZE_MAX;
    for (size_t i = 0; name && i < t->kinds.n; i++)
        if (strcmp(t->kinds.at[i].name, name) == 0)
            *out = i;
    if (!name || *out != SIZE_MAX)
        return FLX_OK;
    flxi_printable(shown, sizeof shown, name, strlen(name));
    flxi_fail(err, FLX_E_NAME, "the table has no column '%s'", shown);
    hint_at_columns(t, err);
    return FLX_E_NAME;
}

static bool is_feature(const table *t, size_t i)
{
    return i != t->label && i != t->target;
}

/* The place of column i among the features: that of its name in the order that is asked for. */
static size_t place_in_order(const table *t, size_t i)
{
    size_t k = 0;
    while (k < t->o.num_order && strcmp(t->o.order[k], t->kinds.at[i].name) != 0)
        k++;
    return k;
}

/* The table has each name of the order, and no other features. */
static flx_code check_order(const table *t, flx_error *err)
{
    char shown[64];
    for (size_t k = 0; k < t->o.num_order; k++) {
        bool found = false;
        for (size_t i = 0; i < t->kinds.n; i++)
            found |= is_feature(t, i) && place_in_order(t, i) == k;
        flxi_printable(shown, sizeof shown, t->o.order[k], strlen(t->o.order[k]));
        if (!found) {
            flxi_fail(err, FLX_E_NAME, "the table lacks the column '%s'", shown);
            hint_at_columns(t, err);
            return FLX_E_NAME;
        }
    }
    for (size_t i = 0; i < t->kinds.n; i++) {
        flxi_printable(shown, sizeof shown, t->kinds.at[i].name, strlen(t->kinds.at[i].name));
        if (is_feature(t, i) && place_in_order(t, i) == t->o.num_order)
            return flxi_fail(err, FLX_E_SHAPE, "the table has a column '%s', which is not one of the %zu features",
                             shown, t->o.num_order);
    }
    return FLX_OK;
}

static flx_code read_header(table *t, reader *r, flx_error *err)
{
    bool has_names = !(t->o.flags & FLX_CSV_NO_HEADER);
    reader first = *r;
    field f = {0};
    if (!next_line(&first))
        return fail_at(err, 1, 1, "the table is empty");
    while (!f.is_last) {
        FLXI_TRY(next_field(&first, &f, err));
        if (has_names && f.size == 0)
            return fail_at(err, f.line, f.column, "a column has no name");
        FLXI_TRY(add_column(t, has_names ? &f : NULL, err));
    }
    if (has_names)
        *r = first;
    FLXI_TRY(flxi_check_distinct(&t->ctx->mem, "the table has two columns", t->kinds.at, t->kinds.n,
                                 sizeof *t->kinds.at, err));
    FLXI_TRY(flxi_check_distinct(&t->ctx->mem, "flx_csv_options: the order has twice the column", t->o.order,
                                 t->o.num_order, sizeof *t->o.order, err));
    FLXI_TRY(find_column(t, t->o.label, &t->label, err));
    FLXI_TRY(find_column(t, t->o.target, &t->target, err));
    return t->o.order ? check_order(t, err) : FLX_OK;
}

/* Whether x is a value of f32, which every column of fractions is kept in: 1e39 would become inf there. */
static bool is_finite_value(double x)
{
    return isfinite((float)x);
}

/* What to do about a field that is text. A table with an order of features is for a model that knows them: there is no
   other label to name. */
static const char *text_hint(const table *t)
{
    return t->o.order   ? "the column is one of the features, which are numbers"
           : t->o.label ? "only the label may be text"
                        : "write a number; a column with classes is given as the label";
}

static flx_code check_field(const table *t, kind *k, const field *f, bool is_label, flx_error *err)
{
    int64_t i;
    double x;
    char shown[64], name[64];
    flxi_printable(name, sizeof name, k->name, strlen(k->name));
    bool is_number = flxi_read_double(f->at, f->size, &x);
    if (f->size == 0 || (is_number && !is_finite_value(x) && (!is_label || isnan(x)))) {
        const char *const hint_text = "remove the line, or write a number";
        flxi_printable(shown, sizeof shown, f->at, f->size);
        if (f->size)
            flxi_fail_hint(err, FLX_E_SYNTAX, hint_text,
                           isnan(x) ? "column '%s': '%s' is not a number" : "column '%s': '%s' is not a finite f32",
                           name, shown);
        else
            flxi_fail_hint(err, FLX_E_SYNTAX, hint_text, "column '%s' has no value", name);
        return flxi_at(err, "%lld:%lld", (long long)f->line, (long long)f->column);
    }
    k->is_integer = k->is_integer && flxi_read_i64(f->at, f->size, &i);
    k->is_number = k->is_number && is_number;
    if (is_number || is_label)
        return FLX_OK;
    flxi_printable(shown, sizeof shown, f->at, f->size);
    flxi_fail_hint(err, FLX_E_SYNTAX, text_hint(t), "column '%s': '%s' is not a number", name, shown);
    return flxi_at(err, "%lld:%lld", (long long)f->line, (long long)f->column);
}

/* Fields are refused together, so that a table is put right at once. */
static void keep_bad(table *t, const field *f, const flx_error *why)
{
    size_t at = strlen(t->more);
    if (t->num_bad == 0)
        t->bad = *why;
    else if (t->num_bad <= MOST_LISTED)
        snprintf(t->more + at, sizeof t->more - at, "%s%lld:%lld", at ? ", " : "", (long long)f->line,
                 (long long)f->column);
    t->num_bad++;
}

static flx_code report_bad(const table *t, flx_error *err)
{
    if (err && t->num_bad) {
        *err = t->bad;
        if (t->num_bad > 1)
            flxi_hint(err, "%s; %zu more: %s%s", t->bad.hint, t->num_bad - 1, t->more,
                      t->num_bad - 1 > MOST_LISTED ? " ..." : "");
    }
    return (flx_code)t->bad.code;
}

static flx_code wrong_fields(const table *t, size_t n, int64_t line, flx_error *err)
{
    char name[64] = "";
    const char *missing = n < t->kinds.n ? t->kinds.at[n].name : "";
    flxi_printable(name, sizeof name, missing, strlen(missing));
    flxi_fail(err, FLX_E_SYNTAX, "the line has %zu fields, but the first has %zu", n, t->kinds.n);
    if (n < t->kinds.n)
        flxi_hint(err, "give a value for column '%s', or remove the line", name);
    else
        flxi_hint(err, "quote a field that has the separator in it");
    return flxi_at(err, "%lld:1", (long long)line);
}

static flx_code check_line(table *t, reader *r, flx_error *err)
{
    field f = {0};
    int64_t line = r->line;
    size_t n = 0;
    for (; !f.is_last; n++) {
        FLXI_TRY(next_field(r, &f, err));
        flx_error why = {0};
        if (n < t->kinds.n && check_field(t, &t->kinds.at[n], &f, n == t->label, &why) != FLX_OK)
            keep_bad(t, &f, &why);
    }
    if (n == t->kinds.n)
        return FLX_OK;
    return wrong_fields(t, n, line, err);
}

/* Numbers with fractions are measured, not classes: numbering them would be nonsense. */
static flx_code check_label(const table *t, flx_error *err)
{
    char name[64];
    const kind *k = t->label == SIZE_MAX ? NULL : &t->kinds.at[t->label];
    if (!k || k->is_integer || !k->is_number)
        return FLX_OK;
    flxi_printable(name, sizeof name, k->name, strlen(k->name));
    return flxi_fail_hint(err, FLX_E_DTYPE,
                          "classes are integers or text; a number to predict is a target, not a label",
                          "the label '%s' has numbers that are not integers", name);
}

static flx_code check_all(table *t, flx_error *err)
{
    reader r = begin(t);
    const char *zero = t->size ? memchr(t->text, 0, t->size) : NULL;
    if (zero)
        return flxi_fail(err, FLX_E_SYNTAX, "not a table: byte %zu is zero", (size_t)(zero - t->text));
    FLXI_TRY(read_header(t, &r, err));
    while (next_line(&r)) {
        flx_code code = check_line(t, &r, err);
        if (code != FLX_OK)
            return t->num_bad ? report_bad(t, err) : code;
        if (flxi_stopped_by_now())
            return flxi_stop_check(err);
        t->rows++;
    }
    FLXI_TRY(report_bad(t, err));
    return check_label(t, err);
}

/* ---- The second reading ---- */

/* Where the numbers of a column go. */
typedef struct {
    int32_t dtype;
    void *to;
    int64_t step; /* elements from row to row */
} target;

static flx_code put_word(table *t, const field *f, int32_t *out, flx_error *err)
{
    const char *word = f->at;
    size_t n = f->size;
    if (f->is_quoted && memchr(word, '"', n)) {
        char *copy = flxi_new(&t->arena, char, n);
        if (!copy)
            return flxi_oom(err, "the classes of a table");
        n = plain_text(f, copy);
        word = copy;
    }
    size_t number = flxi_intern_number(&t->words, word, n);
    if (number > INT32_MAX)
        return flxi_oom(err, "the classes of a table");
    *out = (int32_t)number;
    return FLX_OK;
}

static flx_code put_field(table *t, const field *f, const target *to, int64_t row, bool is_word, flx_error *err)
{
    int64_t i = 0;
    double x = 0;
    if (is_word)
        return put_word(t, f, (int32_t *)to->to + row, err);
    if (to->dtype == FLX_F32) {
        flxi_read_double(f->at, f->size, &x);
        ((float *)to->to)[row * to->step] = (float)x;
        return FLX_OK;
    }
    flxi_read_i64(f->at, f->size, &i);
    if (to->dtype == FLX_I64) {
        ((int64_t *)to->to)[row] = i;
        return FLX_OK;
    }
    if (i < INT32_MIN || i > INT32_MAX) {
        flxi_fail(err, FLX_E_SIZE, "the label %lld does not fit into 32 bits", (long long)i);
        return flxi_at(err, "%lld:%lld", (long long)f->line, (long long)f->column);
    }
    ((int32_t *)to->to)[row] = (int32_t)i;
    return FLX_OK;
}

static flx_code fill(table *t, const target *targets, flx_error *err)
{
    reader r = begin(t);
    if (!(t->o.flags & FLX_CSV_NO_HEADER) && next_line(&r))
        for (field f = {0}; !f.is_last;)
            FLXI_TRY(next_field(&r, &f, err));
    for (int64_t row = 0; next_line(&r); row++)
        for (size_t i = 0; i < t->kinds.n; i++) {
            field f;
            FLXI_TRY(next_field(&r, &f, err));
            FLXI_TRY(put_field(t, &f, &targets[i], row, i == t->label && !t->kinds.at[i].is_integer, err));
        }
    return FLX_OK;
}

/* ---- Classes ---- */

typedef struct {
    const char *text;
    size_t number; /* in order of appearance */
} word;

static int by_text(const void *a, const void *b)
{
    return strcmp(((const word *)a)->text, ((const word *)b)->text);
}

/* The classes in order of the alphabet, and labels with their numbers in that order. */
static flx_code number_classes(table *t, flx_dataset *d, int32_t *labels, flx_error *err)
{
    size_t n = t->words.texts.n;
    int32_t *rank = flxi_new(&t->arena, int32_t, n);
    word *words = flxi_new(&t->arena, word, n);
    if (!rank || !words)
        return flxi_oom(err, "the classes of a table");
    for (size_t i = 0; i < n; i++)
        words[i] = (word){t->words.texts.at[i], i};
    if (n)
        qsort(words, n, sizeof *words, by_text);
    for (size_t i = 0; i < n; i++) {
        rank[words[i].number] = (int32_t)i;
        FLXI_TRY(flxi_dataset_add_class(d, words[i].text, strlen(words[i].text), err));
    }
    for (int64_t i = 0; i < t->rows; i++)
        labels[i] = rank[labels[i]];
    return FLX_OK;
}

/* ---- Columns ---- */

static flx_code add_tensor(flx_dataset *d, const char *name, flx_type type, target *out, flx_error *err)
{
    flx_tensor *x = flx_tensor_new(d->ctx, &type, NULL, err);
    out->dtype = type.dtype;
    out->step = 1;
    out->to = flx_tensor_data(x);
    return flxi_dataset_own(d, name, x, err);
}

/* The names of the features, in their order. */
static flx_code name_features(const table *t, flx_dataset *d, flx_error *err)
{
    for (size_t i = 0; i < t->o.num_order; i++)
        FLXI_TRY(flxi_dataset_add_feature(d, t->o.order[i], err));
    for (size_t i = 0; i < t->kinds.n && !t->o.order; i++)
        if (is_feature(t, i))
            FLXI_TRY(flxi_dataset_add_feature(d, t->kinds.at[i].name, err));
    return FLX_OK;
}

static flx_code make_columns(const table *t, flx_dataset *d, target *targets, flx_error *err)
{
    size_t features = t->kinds.n - (t->label != SIZE_MAX) - (t->target != SIZE_MAX);
    target joined = {.dtype = FLX_DTYPE_NONE};
    if (t->o.features) {
        const flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){t->rows, (int64_t)features});
        FLXI_TRY(add_tensor(d, t->o.features, type, &joined, err));
        FLXI_TRY(name_features(t, d, err));
    }
    for (size_t i = 0, k = 0; i < t->kinds.n; i++) {
        bool is_label = i == t->label, is_target = i == t->target;
        bool is_integer = t->kinds.at[i].is_integer && !is_target;
        const flx_dtype dtype = is_label ? FLX_I32 : is_integer ? FLX_I64 : FLX_F32;
        const flx_type type = flx_type_make(dtype, 1, (flx_dim[]){t->rows});
        if (is_label || is_target || !t->o.features)
            FLXI_TRY(add_tensor(d, t->kinds.at[i].name, type, &targets[i], err));
        else {
            size_t place = t->o.order ? place_in_order(t, i) : k++;
            targets[i] = (target){FLX_F32, (float *)joined.to + place, (int64_t)features};
        }
    }
    return FLX_OK;
}

static flx_code make_dataset(table *t, flx_dataset *d, flx_error *err)
{
    FLXI_TRY(check_all(t, err));
    target *targets = flxi_new(&t->arena, target, t->kinds.n);
    if (!targets)
        return flxi_oom(err, "a table");
    FLXI_TRY(make_columns(t, d, targets, err));
    FLXI_TRY(fill(t, targets, err));
    bool has_words = t->label != SIZE_MAX && !t->kinds.at[t->label].is_integer;
    return has_words ? number_classes(t, d, targets[t->label].to, err) : FLX_OK;
}

/* ---- Public functions ---- */

static flx_code check_options(flx_csv_options *o, flx_error *err)
{
    if (o->flags & ~(uint32_t)FLX_CSV_NO_HEADER)
        return flxi_fail(err, FLX_E_USAGE, "flx_csv_options: unknown flags %#x", (unsigned)o->flags);
    if (o->label && o->target && strcmp(o->label, o->target) == 0)
        return flxi_fail(err, FLX_E_USAGE, "flx_csv_options: one column cannot be both label and target");
    if (o->order && !o->features)
        return flxi_fail(err, FLX_E_USAGE, "flx_csv_options: an order is that of the features, which have no name");
    if (!o->order && o->num_order)
        return flxi_fail(err, FLX_E_USAGE, "flx_csv_options: the order is missing");
    o->separator = o->separator ? o->separator : ',';
    if (o->separator < 1 || o->separator > 127 || strchr("\"\r\n", (char)o->separator))
        return flxi_fail(err, FLX_E_USAGE, "flx_csv_options: %ld is not a separator", (long)o->separator);
    return FLX_OK;
}

static flx_dataset *decode(flx_context *ctx, const void *bytes, size_t size, const flx_csv_options *options,
                           flx_error *err)
{
    table t = {.ctx = ctx, .text = bytes, .size = size};
    if (FLXI_READ_OPTIONS(flx_csv_options, &t.o, options, err) != FLX_OK || check_options(&t.o, err) != FLX_OK)
        return NULL;
    flx_dataset *d = flx_dataset_new(ctx, err);
    if (!d)
        return NULL;
    flxi_arena_init(&t.arena, d->mem);
    t.words.arena = &t.arena;
    flx_code code = make_dataset(&t, d, err);
    flxi_strings_free(&t.words);
    flxi_vec_free(d->mem, &t.kinds);
    flxi_arena_free(&t.arena);
    return flxi_dataset_if(d, code);
}

flx_dataset *flx_csv_decode(flx_context *ctx, const void *bytes, size_t size, const flx_csv_options *options,
                            flx_error *err)
{
    if (!ctx || (!bytes && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_csv_decode: context and bytes must not be NULL");
        return NULL;
    }
    return decode(ctx, size ? bytes : "", size, options, err);
}

flx_dataset *flx_csv_read(flx_context *ctx, const char *path, const flx_csv_options *options, flx_error *err)
{
    flxi_file_bytes file;
    flx_dataset *d = NULL;
    if (!ctx || !path) {
        flxi_fail(err, FLX_E_USAGE, "flx_csv_read: context and path must not be NULL");
        return NULL;
    }
    flx_error own = {0};
    if (flxi_file_read(&file, flxi_context_mem(ctx), path, flxi_context_limit(ctx), &own) == FLX_OK) {
        d = decode(ctx, file.bytes, file.size, options, &own);
        flxi_file_free(&file);
    }
    if (!d && err) { /* the position is that of the text so far */
        char at[sizeof own.where];
        memcpy(at, own.where, sizeof at);
        *err = own;
        err->where[0] = 0;
        flxi_at(err, at[0] ? "%s:%s" : "%s", path, at);
    }
    return d;
}
