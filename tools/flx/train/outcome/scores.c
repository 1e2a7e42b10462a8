/* SPDX-License-Identifier: Apache-2.0 */
/* scores.c: see scores.h. */
#include "train/outcome/scores.h"

#include "io/json_writer.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Classes of a matrix that is printed, and of one that is counted; characters of a name in it. */
enum { MAX_SHOWN = 24, MAX_COUNTED = 1 << 12, LEAST_WIDTH = 9, MOST_WIDTH = 40 };

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
static void put_name(const char *name)
{
    if (!strpbrk(name, ",\"\r\n")) {
        fputs(name, stdout);
        return;
    }
    putchar('"');
    for (; *name; name++) {
        if (*name == '"')
            putchar('"');
        putchar(*name);
    }
    putchar('"');
}

void scores_head(const scores *s)
{
    if (s->form != SCORES_TABLE)
        return;
    fputs("row", stdout);
    if (s->is_classes)
        fputs(",class,probability", stdout);
    for (int64_t k = 0; !s->is_classes && k < s->width; k++) {
        fputs(",predicted", stdout);
        if (s->width > 1)
            printf("%lld", (long long)k);
    }
    puts(!s->has_truth ? "" : s->is_classes ? ",label" : ",target");
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

static void put_class(const scores *s, int64_t best, double likely, const int64_t *label)
{
    char text[2][24];
    const char *found = class_name(s, best, text[0]), *right = label ? class_name(s, *label, text[1]) : NULL;
    if (s->form == SCORES_JSON) {
        json j = {0};
        json_object_begin(&j, NULL);
        json_integer(&j, "row", s->rows);
        json_text(&j, "class", found);
        json_number(&j, "probability", likely, 24);
        if (right)
            json_text(&j, "label", right);
        json_object_end(&j);
        return;
    }
    printf("%lld,", (long long)s->rows);
    put_name(found);
    printf(",%.4f", likely);
    if (right) {
        putchar(',');
        put_name(right);
    }
    putchar('\n');
}

static void add_class(scores *s, const flx_tensor *logits, int64_t row, const flx_tensor *truth)
{
    int64_t first = row * s->width, best = 0;
    for (int64_t k = 1; k < s->width; k++)
        if (flx_tensor_get(logits, first + k) > flx_tensor_get(logits, first + best))
            best = k;
    int64_t label = truth ? (int64_t)flx_tensor_get(truth, row) : -1;
    bool is_known = label >= 0 && label < s->width;
    s->right += truth && label == best;
    s->unknown += truth && !is_known;
    if (is_known && s->width < MAX_COUNTED)
        s->counts[label * s->width + best]++;
    if (s->form != SCORES_SILENT)
        put_class(s, best, probability(logits, first, s->width, best), truth ? &label : NULL);
}

/* Numbers that were predicted, or that are right: an array of JSON under this key, or fields of the table. */
static void put_numbers(const scores *s, json *j, const char *key, const flx_tensor *t, int64_t row, int64_t width)
{
    if (s->form == SCORES_JSON && width > 1)
        json_array_begin(j, key);
    for (int64_t k = 0; k < width; k++) {
        double x = flx_tensor_get(t, row * width + k);
        if (s->form == SCORES_JSON)
            json_number(j, width > 1 ? NULL : key, x, flx_tensor_type(t)->dtype == FLX_F64 ? 53 : 24);
        else
            printf(",%.6g", x);
    }
    if (s->form == SCORES_JSON && width > 1)
        json_array_end(j);
}

static void count_errors(scores *s, const flx_tensor *values, int64_t row, const flx_tensor *truth, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        double right = flx_tensor_get(truth, row * n + k);
        double error = flx_tensor_get(values, row * s->width + (n == s->width ? k : 0)) - right;
        s->absolute += fabs(error);
        s->squares += error * error;
        s->sum += right;
        s->sum_squares += right * right;
        s->numbers++;
    }
}

static void add_numbers(scores *s, const flx_tensor *values, int64_t row, const flx_tensor *truth)
{
    int64_t n = truth ? flx_tensor_count(truth) / (int64_t)flx_tensor_type(truth)->dims[0] : 0;
    json j = {0};
    if (truth)
        count_errors(s, values, row, truth, n);
    if (s->form == SCORES_SILENT)
        return;
    if (s->form == SCORES_JSON) {
        json_object_begin(&j, NULL);
        json_integer(&j, "row", s->rows);
    } else {
        printf("%lld", (long long)s->rows);
    }
    put_numbers(s, &j, "predicted", values, row, s->width);
    if (truth)
        put_numbers(s, &j, "target", truth, row, n);
    if (s->form == SCORES_JSON)
        json_object_end(&j);
    else
        putchar('\n');
}

void scores_add(scores *s, const flx_tensor *predicted, const flx_tensor *truth)
{
    int64_t rows = s->width ? flx_tensor_count(predicted) / s->width : 0;
    for (int64_t i = 0; i < rows; i++, s->rows++) {
        if (s->is_classes)
            add_class(s, predicted, i, truth);
        else
            add_numbers(s, predicted, i, truth);
    }
}

/* ---- The summary ---- */

/* The columns of the matrix are as wide as the longest name of a class. */
static int width_of(const scores *s)
{
    char text[24];
    size_t most = LEAST_WIDTH;
    for (int64_t i = 0; i < s->width; i++) {
        size_t n = strlen(class_name(s, i, text));
        most = n > most ? n : most;
    }
    return most < MOST_WIDTH ? (int)most : MOST_WIDTH;
}

static void put_short(const scores *s, int64_t i, int width, FILE *to)
{
    char text[24];
    fprintf(to, " %*.*s", width, width, class_name(s, i, text));
}

static int64_t sum_of(const scores *s, int64_t i, bool is_row)
{
    int64_t sum = 0;
    for (int64_t k = 0; k < s->width; k++)
        sum += is_row ? s->counts[i * s->width + k] : s->counts[k * s->width + i];
    return sum;
}

/* The part of `sum` that is right, or a dash where there is none. */
static void put_part(int64_t right, int64_t sum, int width, FILE *to)
{
    if (sum)
        fprintf(to, " %*.3f", width, (double)right / (double)sum);
    else
        fprintf(to, " %*s", width, "-");
}

/* Rows are the classes, columns what was predicted; then the part of each class that was found, and the part of what
   was predicted that is right. */
static void put_matrix(const scores *s, FILE *to)
{
    int64_t n = s->width;
    int width = width_of(s);
    fprintf(to, "%*s", width + 1, "");
    for (int64_t k = 0; k < n; k++)
        put_short(s, k, width, to);
    fprintf(to, " %*s\n", width, "recall");
    for (int64_t i = 0; i < n; i++) {
        put_short(s, i, width, to);
        for (int64_t k = 0; k < n; k++)
            fprintf(to, " %*lld", width, (long long)s->counts[i * n + k]);
        put_part(s->counts[i * n + i], sum_of(s, i, true), width, to);
        fputc('\n', to);
    }
    fprintf(to, " %*s", width, "precision");
    for (int64_t k = 0; k < n; k++)
        put_part(s->counts[k * n + k], sum_of(s, k, false), width, to);
    fputc('\n', to);
}

/* Mean absolute error, root mean square error, and R2, which is NaN where all targets are equal. */
static void find_errors(const scores *s, double *absolute, double *square, double *r2)
{
    double n = s->numbers ? (double)s->numbers : 1, spread = s->sum_squares - s->sum * s->sum / n;
    *absolute = s->absolute / n;
    *square = sqrt(s->squares / n);
    *r2 = spread > 0 ? 1 - s->squares / spread : NAN;
}

static double accuracy(const scores *s)
{
    return s->rows ? (double)s->right / (double)s->rows : 0;
}

void scores_summary(const scores *s, FILE *to)
{
    double absolute, square, r2;
    if (s->is_classes) {
        fprintf(to, "%lld of %lld are right: accuracy %.4f\n", (long long)s->right, (long long)s->rows, accuracy(s));
        if (s->unknown)
            fprintf(to, "%lld of %lld have a label that the model does not know\n", (long long)s->unknown,
                    (long long)s->rows);
        if (s->width <= MAX_SHOWN)
            put_matrix(s, to);
        return;
    }
    find_errors(s, &absolute, &square, &r2);
    fprintf(to, "%lld %s: mean absolute error %.6g, root mean square error %.6g", (long long)s->rows,
            plural(s->rows, "row", "rows"), absolute, square);
    if (!isnan(r2))
        fprintf(to, ", R2 %.4f", r2);
    fputc('\n', to);
}

static void put_matrix_json(const scores *s, json *j)
{
    char text[24];
    json_array_begin(j, "classes");
    for (int64_t i = 0; i < s->width; i++)
        json_text(j, NULL, class_name(s, i, text));
    json_array_end(j);
    json_array_begin(j, "confusion");
    for (int64_t i = 0; s->width < MAX_COUNTED && i < s->width; i++) {
        json_array_begin(j, NULL);
        for (int64_t k = 0; k < s->width; k++)
            json_integer(j, NULL, s->counts[i * s->width + k]);
        json_array_end(j);
    }
    json_array_end(j);
}

void scores_summary_json(const scores *s)
{
    json j = {0};
    double absolute, square, r2;
    json_object_begin(&j, NULL);
    json_integer(&j, "rows", s->rows);
    if (s->is_classes) {
        json_integer(&j, "right", s->right);
        json_number(&j, "accuracy", accuracy(s), 53);
        json_integer(&j, "unknown_labels", s->unknown);
        put_matrix_json(s, &j);
    } else {
        find_errors(s, &absolute, &square, &r2);
        json_number(&j, "mean_absolute_error", absolute, 53);
        json_number(&j, "root_mean_square_error", square, 53);
        json_number(&j, "r2", r2, 53);
    }
    json_object_end(&j);
}
