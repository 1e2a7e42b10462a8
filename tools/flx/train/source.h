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
} source;

/* Reads the data that the setting describes. Paths are relative to `folder`. A text is encoded by the tokeniser of
   `like`, if that has one. Free with source_free(), also after a failure. */
int source_open(source *out, const settings *s, setting *from, const char *folder, flx_context *ctx,
                const source *like);
void source_free(source *d);

/* Moves the last part of the rows, at least one, to a source of its own. */
int source_split(source *d, double part, source *rest);

/* `path` as seen from the folder; allocated. NULL when memory is exhausted. */
char *path_in(const char *folder, const char *path);

#endif
