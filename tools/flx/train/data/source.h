/* SPDX-License-Identifier: Apache-2.0 */
/* source.h: where the data of a training comes from: `digits(rows=8000)`, `csv("iris.csv", label=species)` … */
#ifndef FLX_SOURCE_H
#define FLX_SOURCE_H

#include "train/settings.h"

#include <fluxion/data.h>

typedef struct {
    flx_dataset *data;
    flx_tokeniser *tokeniser; /* of a text that is not read byte by byte; or NULL */
    bool is_text;             /* rows are windows of a text */
    int64_t length;           /* tokens of a row, of a text */
    int64_t tokens;           /* the largest token of a text, and one */
    const char *label;        /* the column with classes, or NULL */
    bool is_sequence;         /* rows follow each other in time */
    bool has_names;           /* of its features: a table with a header */
} source;

typedef struct {
    flx_context *ctx;
    const char *folder;          /* which paths are relative to */
    const source *like;          /* a text is encoded by its tokeniser, if it has one; or NULL */
    const char *const *features; /* the columns of a table with a header, by name, in the order of the model … */
    size_t num_features;         /* … or 0: as in the table */
    bool may_lack_truth;         /* a table need not have the columns of the label and the target */
} source_request;

/* Reads the data that the setting describes. Free with source_free(), also after a failure. */
int source_open(source *out, const settings *s, setting *from, const source_request *request);
void source_free(source *d);

/* Numbers the classes as in the list. */
int source_use_classes(source *d, const char *const *classes, size_t count, flx_error *err);

/* Which rows are split off: the usual ones are the last of a text and of other sequences, and random ones of other
   sources. */
typedef enum { SPLIT_USUAL, SPLIT_LAST, SPLIT_RANDOM } split_kind;

/* Whether rows follow each other, so that a split takes the last ones. */
bool source_is_ordered(const source *d);

/* Moves a part of the rows, at least one, to a source of its own. Random rows are those that the seed says. */
int source_split(source *d, double part, split_kind kind, uint64_t seed, source *rest);

/* `path` as seen from the folder; allocated. NULL when memory is exhausted. */
char *path_in(const char *folder, const char *path);

#endif
