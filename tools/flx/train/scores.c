/* SPDX-License-Identifier: Apache-2.0 */
/* scores.c: see scores.h. */
#include "train/scores.h"

#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Classes of a matrix that is printed, and of one that is counted; characters of a name in it. */
enum { MAX_SHOWN = 24, MAX_COUNTED = 1 << 12, NAME_WIDTH = 9 };

int scores_begin(scores *s, const char *const *names, size_t num_names, int64_t width, bool is_classes)
{
    *s = (scores){.names = names, .num_names = num_names, .width = width, .is_classes = is_classes && width > 1};
    s->counts = calloc(s->is_classes && width < MAX_COUNTED ? (size_t)(width * width) : 1, sizeof *s->counts);
    return s->counts ? STATUS_OK : fail_memory();
}

void scores_end(scores *s)
{
    free(s->counts);
    *s = (scores){0};
}

/* ---- The table ---- */

static const char *class_name(const scores *s, int64_t i, char text[24])
{
    if (i >= 0 && (size_t)i < s->num_names)
        return s->names[i];
    snprintf(text, 24, "%lld", (long long)i);
    return text;
}

/* Quoted where the table needs it. */
static void put_name(const char *name, FILE *to)
{
    if (!strpbrk(name, ",\"\r\n")) {
        fputs(name, to);
        return;
    }
    fputc('"', to);
    for (; *name; name++) {
        if (*name == '"')
            fputc('"', to);
        fputc(*name, to);
    }
    fputc('"', to);
}

void scores_head(const scores *s, FILE *to)
{
    fputs("row", to);
    if (s->is_classes)
        fputs(",class,probability", to);
    for (int64_t k = 0; !s->is_classes && k < s->width; k++) {
        fputs(",predicted", to);
        if (s->width > 1)
            fprintf(to, "%lld", (long long)k);
    }
    fputs(!s->has_truth ? "\n" : s->is_classes ? ",label\n" : ",target\n", to);
}

/* The probability of the class: numbers that are probabilities already stay as they are, others are logits. */
static double probability(const flx_tensor *t, int64_t first, int64_t width, int64_t chosen)
{
    double sum = 0, least = INFINITY, most = flx_tensor_get(t, first + chosen), exponentials = 0;
    for (int64_t k = 0; k < width; k++) {
        double x = flx_tensor_get(t, first + k);
        sum += x;
        least = fmin(least, x);
        exponentials += exp(x - most);
    }
    return least >= 0 && fabs(sum - 1) < 1e-3 ? most : 1 / exponentials;
}

static void add_class(scores *s, const flx_tensor *logits, int64_t row, const flx_tensor *truth, FILE *to)
{
    char text[2][24];
    int64_t first = row * s->width, best = 0;
    for (int64_t k = 1; k < s->width; k++)
        if (flx_tensor_get(logits, first + k) > flx_tensor_get(logits, first + best))
            best = k;
    int64_t label = truth ? (int64_t)flx_tensor_get(truth, row) : -1;
    if (truth) {
        s->right += label == best;
        if (label >= 0 && label < s->width && s->width < MAX_COUNTED)
            s->counts[label * s->width + best]++;
    }
    if (!to)
        return;
    fprintf(to, "%lld,", (long long)s->rows);
    put_name(class_name(s, best, text[0]), to);
    fprintf(to, ",%.4f", probability(logits, first, s->width, best));
    if (truth) {
        fputc(',', to);
        put_name(class_name(s, label, text[1]), to);
    }
    fputc('\n', to);
}

static void add_numbers(scores *s, const flx_tensor *values, int64_t row, const flx_tensor *truth, FILE *to)
{
    int64_t n = flx_tensor_count(truth) / (int64_t)flx_tensor_type(truth)->dims[0];
    for (int64_t k = 0; k < n; k++) {
        double right = flx_tensor_get(truth, row * n + k);
        double error = flx_tensor_get(values, row * s->width + (n == s->width ? k : 0)) - right;
        s->absolute += fabs(error);
        s->squares += error * error;
        s->sum += right;
        s->sum_squares += right * right;
        s->numbers++;
        if (to)
            fprintf(to, ",%.6g", right);
    }
}

int scores_add(scores *s, const flx_tensor *predicted, const flx_tensor *truth, FILE *to)
{
    int64_t rows = s->width ? flx_tensor_count(predicted) / s->width : 0;
    for (int64_t i = 0; i < rows; i++, s->rows++) {
        if (s->is_classes) {
            add_class(s, predicted, i, truth, to);
            continue;
        }
        if (to)
            fprintf(to, "%lld", (long long)s->rows);
        for (int64_t k = 0; to && k < s->width; k++)
            fprintf(to, ",%.6g", flx_tensor_get(predicted, i * s->width + k));
        if (truth)
            add_numbers(s, predicted, i, truth, to);
        if (to)
            fputc('\n', to);
    }
    return STATUS_OK;
}

/* ---- The summary ---- */

static void put_short(const scores *s, int64_t i, FILE *to)
{
    char text[24];
    fprintf(to, " %*.*s", NAME_WIDTH, NAME_WIDTH, class_name(s, i, text));
}

static int64_t sum_of(const scores *s, int64_t i, bool is_row)
{
    int64_t sum = 0;
    for (int64_t k = 0; k < s->width; k++)
        sum += is_row ? s->counts[i * s->width + k] : s->counts[k * s->width + i];
    return sum;
}

/* The part of `sum` that is right, or a dash where there is none. */
static void put_part(int64_t right, int64_t sum, FILE *to)
{
    if (sum)
        fprintf(to, " %*.3f", NAME_WIDTH, (double)right / (double)sum);
    else
        fprintf(to, " %*s", NAME_WIDTH, "-");
}

/* Rows are the classes, columns what was predicted; then the part of each class that was found, and the part of what
   was predicted that is right. */
static void put_matrix(const scores *s, FILE *to)
{
    int64_t n = s->width;
    fprintf(to, "%*s", NAME_WIDTH + 1, "");
    for (int64_t k = 0; k < n; k++)
        put_short(s, k, to);
    fprintf(to, " %*s\n", NAME_WIDTH, "recall");
    for (int64_t i = 0; i < n; i++) {
        put_short(s, i, to);
        for (int64_t k = 0; k < n; k++)
            fprintf(to, " %*lld", NAME_WIDTH, (long long)s->counts[i * n + k]);
        put_part(s->counts[i * n + i], sum_of(s, i, true), to);
        fputc('\n', to);
    }
    fprintf(to, " %*s", NAME_WIDTH, "precision");
    for (int64_t k = 0; k < n; k++)
        put_part(s->counts[k * n + k], sum_of(s, k, false), to);
    fputc('\n', to);
}

void scores_summary(const scores *s, FILE *to)
{
    if (s->is_classes) {
        fprintf(to, "%lld of %lld are right: accuracy %.4f\n", (long long)s->right, (long long)s->rows,
                s->rows ? (double)s->right / (double)s->rows : 0);
        if (s->width <= MAX_SHOWN)
            put_matrix(s, to);
        return;
    }
    double n = s->numbers ? (double)s->numbers : 1, spread = s->sum_squares - s->sum * s->sum / n;
    fprintf(to, "%lld rows: mean absolute error %.6g, root mean square error %.6g", (long long)s->rows, s->absolute / n,
            sqrt(s->squares / n));
    if (spread > 0)
        fprintf(to, ", R2 %.4f", 1 - s->squares / spread);
    fputc('\n', to);
}
