/* SPDX-License-Identifier: Apache-2.0 */
/* source.c: the sources of data, one row each. A source reads its arguments, then makes a dataset. */
#include "train/data/source.h"

#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t most_rows = INT64_C(1) << 32;

typedef struct {
    const settings *s;
    setting *from; /* the call */
    const char *folder;
    flx_context *ctx;
    const source *like;
    const source_request *request;
    source *out;
} opening;

char *path_in(const char *folder, const char *path)
{
    char *joined = NULL;
    bool is_whole = path[0] == '/' || !folder[0];
    if (asprintf(&joined, "%s%s%s", is_whole ? "" : folder, is_whole ? "" : "/", path) < 0)
        return NULL;
    return joined;
}

/* The first operand, a path. */
static int read_path(const opening *o, char **path)
{
    const char *given;
    int status = settings_operand(o->s, o->from, 0, "a path", &given);
    if (status)
        return status;
    *path = path_in(strcmp(given, "-") == 0 ? "" : o->folder, given);
    return *path ? STATUS_OK : fail_memory();
}

/* All arguments are known: before anything is read or made, which may take long. */
static int check_arguments(const opening *o, int status)
{
    return status ? status : settings_check_taken(o->s, o->from);
}

static int made(const opening *o, flx_dataset *data, const char *path, const flx_error *err)
{
    o->out->data = data;
    return data ? STATUS_OK : report(err, path);
}

/* ---- Generated ---- */

static int read_count(const opening *o, const char *name, int64_t *count)
{
    return settings_integer(o->s, o->from, name, 1, most_rows, count);
}

static int read_seed(const opening *o, int64_t *seed)
{
    return settings_integer(o->s, o->from, "seed", 0, INT64_MAX, seed);
}

static int open_digits(opening *o)
{
    int64_t rows = 8000, seed = 1;
    flx_error err = {0};
    int status = read_count(o, "rows", &rows);
    if (!status)
        status = read_seed(o, &seed);
    status = check_arguments(o, status);
    o->out->label = "label";
    return status ? status : made(o, flx_digits(o->ctx, rows, (uint64_t)seed, &err), NULL, &err);
}

static int open_pendulum(opening *o)
{
    int64_t rows = 1000, length = 50, seed = 1;
    o->out->is_sequence = true;
    flx_error err = {0};
    int status = read_count(o, "rows", &rows);
    if (!status)
        status = read_count(o, "length", &length);
    if (!status)
        status = read_seed(o, &seed);
    status = check_arguments(o, status);
    return status ? status : made(o, flx_pendulum(o->ctx, rows, length, (uint64_t)seed, &err), NULL, &err);
}

/* ---- Text ---- */

typedef struct {
    int64_t length, stride, vocabulary;
} windows;

static int read_windows(const opening *o, windows *w)
{
    int status = settings_integer(o->s, o->from, "length", 1, 1 << 24, &w->length);
    if (!status)
        status = settings_integer(o->s, o->from, "stride", 1, 1 << 24, &w->stride);
    if (!status)
        status = settings_integer(o->s, o->from, "vocabulary", 256, 1 << 20, &w->vocabulary);
    return status;
}

static int open_text(opening *o, const char *text, size_t size, const windows *w, const char *path)
{
    flx_error err = {0};
    const flx_tokeniser *tokeniser = o->like ? o->like->tokeniser : NULL;
    if (w->vocabulary > 256 && !o->like) {
        tokeniser = o->out->tokeniser = flx_tokeniser_train(o->ctx, text, size, w->vocabulary, &err);
        if (!tokeniser)
            return report(&err, path);
    }
    o->out->is_text = true;
    o->out->tokens = tokeniser ? flx_tokeniser_size(tokeniser) : 0;
    for (size_t i = 0; !tokeniser && i < size; i++)
        if ((unsigned char)text[i] >= o->out->tokens)
            o->out->tokens = (unsigned char)text[i] + 1;
    o->out->length = w->length;
    return made(o, flx_dataset_text(o->ctx, text, size, tokeniser, w->length, w->stride, &err), path, &err);
}

static int open_text_file(opening *o)
{
    windows w = {.length = 64, .vocabulary = 256};
    flx_error err = {0};
    char *path = NULL;
    int status = read_path(o, &path);
    if (!status)
        status = read_windows(o, &w);
    status = check_arguments(o, status);
    flx_tensor *bytes = status ? NULL : flx_bytes_read(o->ctx, path, &err);
    if (!status)
        status =
            bytes ? open_text(o, flx_tensor_const_data(bytes), flx_tensor_nbytes(bytes), &w, path) : report(&err, path);
    flx_tensor_release(bytes);
    free(path);
    return status;
}

static int open_demo_text(opening *o)
{
    windows w = {.length = 64, .vocabulary = 256};
    int64_t size = 100000, seed = 1;
    flx_error err = {0};
    flx_buffer text = {0};
    int status = read_count(o, "size", &size);
    if (!status)
        status = read_seed(o, &seed);
    if (!status)
        status = read_windows(o, &w);
    status = check_arguments(o, status);
    if (!status && flx_demo_text(o->ctx, (size_t)size, (uint64_t)seed, &text, &err) != FLX_OK)
        status = report(&err, NULL);
    if (!status)
        status = open_text(o, text.data, text.size, &w, NULL);
    flx_buffer_free(&text);
    return status;
}

/* ---- Files ---- */

static int open_arrays(opening *o)
{
    flx_error err = {0};
    char *path = NULL;
    int status = check_arguments(o, read_path(o, &path));
    if (!status)
        status = made(o, flx_arrays_read(o->ctx, path, &err), path, &err);
    free(path);
    return status;
}

/* Arguments of csv(). */
static int read_csv_options(const opening *o, flx_csv_options *options, bool *has_header)
{
    const char *separator = ",";
    int status = settings_text(o->s, o->from, "label", &options->label);
    if (!status)
        status = settings_text(o->s, o->from, "target", &options->target);
    if (!status)
        status = settings_text(o->s, o->from, "features", &options->features);
    if (!status)
        status = settings_bool(o->s, o->from, "header", has_header);
    if (!status)
        status = settings_text(o->s, o->from, "separator", &separator);
    if (!status && strlen(separator) != 1)
        status = settings_fail(o->s, o->from, "separator must be one character");
    options->flags = *has_header ? 0 : FLX_CSV_NO_HEADER;
    options->separator = separator[0];
    return status;
}

/* A file, or bytes that standard input had. */
static flx_dataset *read_table(const opening *o, const char *path, const file_bytes *given,
                               const flx_csv_options *options, flx_error *err)
{
    flx_error own = {0};
    if (!given)
        return flx_csv_read(o->ctx, path, options, err);
    flx_dataset *data = flx_csv_decode(o->ctx, given->data, given->size, options, &own);
    *err = own;
    if (own.where[0]) /* LINE:COLUMN, before which messages have the name of a file */
        snprintf(err->where, sizeof err->where, "file:%.100s", own.where);
    return data;
}

static int open_csv(opening *o)
{
    flx_csv_options options = {.struct_size = sizeof options, .features = "x"};
    bool has_header = true;
    flx_error err = {0};
    char *path = NULL;
    file_bytes bytes = {0};
    int status = read_path(o, &path);
    if (!status)
        status = read_csv_options(o, &options, &has_header);
    status = check_arguments(o, status);
    bool is_stream = !status && strcmp(path, "-") == 0;
    if (is_stream)
        status = file_read(path, &bytes);
    options.order = has_header && o->request->num_features ? o->request->features : NULL;
    options.num_order = options.order ? o->request->num_features : 0;
    o->out->has_names = has_header;
    const file_bytes *given = is_stream ? &bytes : NULL;
    flx_dataset *data = status ? NULL : read_table(o, path, given, &options, &err);
    if (!status && !data && o->request->may_lack_truth && err.code == FLX_E_NAME) {
        options.label = options.target = NULL;
        err = (flx_error){0};
        data = read_table(o, path, given, &options, &err);
    }
    o->out->label = options.label;
    if (!status)
        status = made(o, data, file_name(path), &err);
    free(bytes.data);
    free(path);
    return status;
}

static int open_folder(opening *o)
{
    flx_folder_options options = {.struct_size = sizeof options};
    int64_t channels = 0;
    flx_error err = {0};
    char *path = NULL;
    int status = read_path(o, &path);
    if (!status)
        status = settings_integer(o->s, o->from, "channels", 1, 3, &channels);
    if (!status)
        status = settings_integer(o->s, o->from, "samples", 1, most_rows, &options.samples);
    status = check_arguments(o, status);
    options.channels = (int32_t)channels;
    o->out->label = "label";
    flx_dataset *data = status ? NULL : flx_folder_read(o->ctx, path, &options, &err);
    if (!status)
        status = made(o, data, err.where[0] ? err.where : path, &err); /* the file that is wrong */
    free(path);
    return status;
}

/* One image as a row: f32 from 0 to 1 in batches, as those of a folder. */
static int open_image(opening *o)
{
    flx_error err = {0};
    char *path = NULL;
    int status = check_arguments(o, read_path(o, &path));
    flx_tensor *image = status ? NULL : flx_image_read(o->ctx, path, &err), *row = NULL;
    flx_dataset *data = image ? flx_dataset_new(o->ctx, &err) : NULL;
    if (data) {
        const flx_type *t = flx_tensor_type(image);
        const flx_type type = flx_type_make(t->dtype, 4, (flx_dim[]){1, t->dims[0], t->dims[1], t->dims[2]});
        row = flx_tensor_new(o->ctx, &type, flx_tensor_const_data(image), &err);
        double most = t->dtype == FLX_U8 ? 255 : 65535;
        if (!row || flx_dataset_add(data, "x", row, &err) != FLX_OK ||
            flx_dataset_convert(data, "x", FLX_F32, 1 / most, 0, &err) != FLX_OK) {
            flx_dataset_free(data);
            data = NULL;
        }
    }
    flx_tensor_release(row);
    flx_tensor_release(image);
    if (!status)
        status = made(o, data, path, &err);
    free(path);
    return status;
}

/* ---- The table ---- */

static const struct {
    const char *name;
    int (*open)(opening *o);
} rows[] = {
    {"digits", open_digits},  {"demo_text", open_demo_text}, {"pendulum", open_pendulum},
    {"text", open_text_file}, {"arrays", open_arrays},       {"csv", open_csv},
    {"folder", open_folder},  {"image", open_image},
};

static int unknown_source(const settings *s, const setting *from)
{
    const char *names[sizeof rows / sizeof *rows];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        names[i] = rows[i].name;
    return settings_unknown(s, from, "source of data", names, sizeof rows / sizeof *rows);
}

int source_open(source *out, const settings *s, setting *from, const source_request *request)
{
    opening o = {.s = s,
                 .from = from,
                 .folder = request->folder,
                 .ctx = request->ctx,
                 .like = request->like,
                 .request = request,
                 .out = out};
    *out = (source){0};
    bool is_named = from->kind == SETTING_CALL || from->kind == SETTING_TEXT;
    for (size_t i = 0; is_named && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, from->text) == 0) {
            return rows[i].open(&o);
        }
    return unknown_source(s, from);
}

void source_free(source *d)
{
    flx_dataset_free(d->data);
    flx_tokeniser_free(d->tokeniser);
    *d = (source){0};
}

int source_use_classes(source *d, const char *const *classes, size_t count, flx_error *err)
{
    if (!d->label || !flx_dataset_classes(d->data) || !count)
        return STATUS_OK;
    return flx_dataset_use_classes(d->data, d->label, classes, count, err) == FLX_OK ? STATUS_OK : STATUS_BAD_INPUT;
}

/* Rows that are sorted, such as those of a folder, would leave whole classes to the last part. */
static int mix_rows(source *d, uint64_t seed)
{
    flx_error err = {0};
    flx_dataset *mixed = flx_dataset_shuffle(d->data, seed, &err);
    if (!mixed)
        return report(&err, NULL);
    flx_dataset_free(d->data);
    d->data = mixed;
    return STATUS_OK;
}

bool source_is_ordered(const source *d)
{
    return d->is_sequence || d->is_text;
}

int source_split(source *d, double part, split_kind kind, uint64_t seed, source *rest)
{
    bool is_random = kind == SPLIT_RANDOM || (kind == SPLIT_USUAL && !source_is_ordered(d));
    int64_t rows_there = flx_dataset_rows(d->data), kept = rows_there - (int64_t)ceil(part * (double)rows_there);
    flx_error err = {0};
    if (kept < 1)
        return fail(FLX_E_USAGE, "the data has too few rows to split off %g of them: %lld", part,
                    (long long)rows_there);
    int status = is_random ? mix_rows(d, seed) : STATUS_OK;
    if (status)
        return status;
    *rest = *d;
    rest->tokeniser = NULL;
    rest->data = flx_dataset_slice(d->data, kept, rows_there, &err);
    flx_dataset *first = rest->data ? flx_dataset_slice(d->data, 0, kept, &err) : NULL;
    if (!first)
        return report(&err, NULL);
    flx_dataset_free(d->data);
    d->data = first;
    return STATUS_OK;
}
