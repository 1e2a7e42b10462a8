/* SPDX-License-Identifier: Apache-2.0 */
/* scores.h: what a model predicts, row by row, and how good that is: classes that are right, or errors of numbers. */
#ifndef FLX_SCORES_H
#define FLX_SCORES_H

#include <fluxion/data.h>
#include <stdbool.h>
#include <stdio.h>

/* What is written for each row: nothing, a line of a table, an object of JSON. */
typedef enum { SCORES_SILENT, SCORES_TABLE, SCORES_JSON } scores_form;

typedef struct {
    const char *const *names; /* of classes; after those that are predicted others may follow, of labels */
    size_t num_names;
    scores_form form; /* set it */
    int64_t width;    /* numbers of a prediction */
    bool is_classes;  /* they are logits of classes */
    bool has_truth;   /* set it: there is a column with what is right */
    int64_t rows, right;
    int64_t unknown;                            /* rows whose label is not one of the classes that are predicted */
    int64_t *counts;                            /* [class][predicted] */
    double absolute, squares, sum, sum_squares; /* of errors; of what is right */
    int64_t numbers;
} scores;

/* `is_classes`: the `width` numbers of a prediction are logits of classes. */
int scores_begin(scores *s, const char *const *names, size_t num_names, int64_t width, bool is_classes);
void scores_end(scores *s);

/* The first line of the table, and what is written for each row of a batch, on standard output. */
void scores_head(const scores *s);
void scores_add(scores *s, const flx_tensor *predicted, const flx_tensor *truth);

/* Accuracy and confusion matrix, or errors; the same as an object of JSON on standard output. */
void scores_summary(const scores *s, FILE *to);
void scores_summary_json(const scores *s);

#endif
