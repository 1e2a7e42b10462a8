/* SPDX-License-Identifier: Apache-2.0 */
/* summary.c: what a user wants to know of a tensor that is too large to print: its type, its range and how it
   begins. */
#include "io/summary.h"

#include "io/elements.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static const int64_t first_values = 8;

/* ---- Types ---- */

char *type_text(flx_context *ctx, const flx_type *type)
{
    size_t n = flx_type_print(ctx, type, NULL, 0);
    char *text = malloc(n + 1);
    if (text)
        flx_type_print(ctx, type, text, n + 1);
    return text;
}

static void dim_json(json *j, flx_context *ctx, flx_dim dim)
{
    if (flx_dim_is_static(dim)) {
        json_integer(j, NULL, dim);
        return;
    }
    size_t n = flx_dim_print(ctx, dim, NULL, 0);
    char *text = malloc(n + 1);
    if (text)
        flx_dim_print(ctx, dim, text, n + 1);
    json_text(j, NULL, text);
    free(text);
}

void type_json(json *j, flx_context *ctx, const flx_type *type)
{
    char *text = type_text(ctx, type);
    json_text(j, "type", text);
    free(text);
    json_text(j, "dtype", flx_dtype_name(type->dtype));
    json_array_begin(j, "shape");
    for (int32_t i = 0; i < type->rank; i++)
        dim_json(j, ctx, type->dims[i]);
    json_array_end(j);
}

/* ---- Elements ---- */

static void integer_text(FILE *f, integer v)
{
    fprintf(f, "%s%" PRIu64, v.negative ? "-" : "", v.magnitude);
}

/* The C library prints the sign of a NaN, which means nothing here. */
static double plain(double x)
{
    return isnan(x) ? (double)NAN : x;
}

void element_text(FILE *f, const flx_tensor *t, int64_t i)
{
    switch (kind_of(flx_tensor_type(t)->dtype)) {
    case KIND_BOOL: fputs(element_integer(t, i).magnitude ? "true" : "false", f); break;
    case KIND_SIGNED:
    case KIND_UNSIGNED: integer_text(f, element_integer(t, i)); break;
    case KIND_COMPLEX: fprintf(f, "%.6g%+.6gi", plain(flx_tensor_get(t, i)), plain(element_imaginary(t, i))); break;
    default: fprintf(f, "%.6g", plain(flx_tensor_get(t, i))); break;
    }
}

void elements_text(FILE *f, const flx_tensor *t, int64_t limit)
{
    int64_t count = flx_tensor_count(t);
    for (int64_t i = 0; i < count && i < limit; i++) {
        if (i > 0)
            fputs(", ", f);
        element_text(f, t, i);
    }
    if (count > limit)
        fputs(", ...", f);
}

static int mantissa_bits(int32_t dtype)
{
    return dtype == FLX_F64 || dtype == FLX_C128 ? 53 : 24;
}

static void element_json(json *j, const char *key, const flx_tensor *t, int64_t i)
{
    int32_t dtype = flx_tensor_type(t)->dtype;
    dtype_kind kind = kind_of(dtype);
    if (kind == KIND_BOOL) {
        json_bool(j, key, element_integer(t, i).magnitude != 0);
    } else if (kind == KIND_SIGNED) {
        json_integer(j, key, (int64_t)integer_bits(element_integer(t, i)));
    } else if (kind == KIND_UNSIGNED) {
        json_unsigned(j, key, element_integer(t, i).magnitude);
    } else if (kind == KIND_COMPLEX) {
        json_array_begin(j, key);
        json_number(j, NULL, flx_tensor_get(t, i), mantissa_bits(dtype));
        json_number(j, NULL, element_imaginary(t, i), mantissa_bits(dtype));
        json_array_end(j);
    } else {
        json_number(j, key, flx_tensor_get(t, i), mantissa_bits(dtype));
    }
}

/* ---- Statistics ---- */

/* Of the elements that are not NaN. */
typedef struct {
    int64_t numbers, nans;
    double min, max, mean;
    int64_t min_at, max_at; /* positions, for integers, which a double may not hold */
} statistics;

static statistics statistics_of_floats(const flx_tensor *t)
{
    statistics s = {.min = INFINITY, .max = -INFINITY};
    int64_t count = flx_tensor_count(t);
    long double sum = 0; /* the sum of large doubles overflows sooner than their mean */
    for (int64_t i = 0; i < count; i++) {
        double x = flx_tensor_get(t, i);
        if (isnan(x)) {
            s.nans++;
            continue;
        }
        s.numbers++;
        s.min = fmin(s.min, x);
        s.max = fmax(s.max, x);
        sum += x;
    }
    s.mean = (double)(sum / (long double)s.numbers);
    if (isnan(s.mean))
        s.mean = NAN; /* of infinities of both signs, whose NaN has a sign */
    return s;
}

static statistics statistics_of_integers(const flx_tensor *t)
{
    statistics s = {.numbers = flx_tensor_count(t)};
    for (int64_t i = 1; i < s.numbers; i++) {
        integer v = element_integer(t, i);
        if (integer_compare(v, element_integer(t, s.min_at)) < 0)
            s.min_at = i;
        if (integer_compare(v, element_integer(t, s.max_at)) > 0)
            s.max_at = i;
    }
    return s;
}

static void statistics_text(const flx_tensor *t)
{
    dtype_kind kind = kind_of(flx_tensor_type(t)->dtype);
    if (kind == KIND_FLOAT) {
        statistics s = statistics_of_floats(t);
        if (s.numbers)
            printf("  min %.6g, max %.6g, mean %.6g", s.min, s.max, s.mean);
        if (s.nans)
            printf("%s%" PRId64 " nan", s.numbers ? ", " : "  ", s.nans);
        putchar('\n');
    } else if (kind_is_integer(kind)) {
        statistics s = statistics_of_integers(t);
        fputs("  min ", stdout);
        element_text(stdout, t, s.min_at);
        fputs(", max ", stdout);
        element_text(stdout, t, s.max_at);
        putchar('\n');
    }
}

/* A line for each row along the last axis, with an empty one between matrices. */
static void rows_text(const flx_tensor *t)
{
    const flx_type *type = flx_tensor_type(t);
    int64_t count = flx_tensor_count(t), width = type->dims[type->rank - 1];
    int64_t height = type->rank > 2 ? type->dims[type->rank - 2] : count;
    for (int64_t i = 0; i < count; i++) {
        if (i && i % (width * height) == 0)
            putchar('\n');
        fputs(i % width ? ", " : "  ", stdout);
        element_text(stdout, t, i);
        if ((i + 1) % width == 0)
            putchar('\n');
    }
}

void summary_text(flx_context *ctx, const char *name, const flx_tensor *t, bool has_all)
{
    char *type = type_text(ctx, flx_tensor_type(t));
    printf("%s: %s", name, type ? type : "");
    free(type);
    int64_t count = flx_tensor_count(t);
    if (count == 1) {
        fputs(" = ", stdout);
        element_text(stdout, t, 0);
    }
    putchar('\n');
    if (count <= 1)
        return;
    statistics_text(t);
    if (has_all) {
        rows_text(t);
        return;
    }
    fputs("  ", stdout);
    elements_text(stdout, t, first_values);
    putchar('\n');
}

void summary_json(json *j, flx_context *ctx, const char *name, const flx_tensor *t, bool has_all)
{
    const flx_type *type = flx_tensor_type(t);
    int64_t count = flx_tensor_count(t);
    json_text(j, "name", name);
    type_json(j, ctx, type);
    if (kind_of(type->dtype) == KIND_FLOAT) {
        statistics s = statistics_of_floats(t);
        int bits = mantissa_bits(type->dtype);
        if (s.numbers) {
            json_number(j, "min", s.min, bits);
            json_number(j, "max", s.max, bits);
            json_number(j, "mean", s.mean, 53);
        }
        json_integer(j, "nan", s.nans);
    } else if (kind_is_integer(kind_of(type->dtype)) && count > 0) {
        statistics s = statistics_of_integers(t);
        element_json(j, "min", t, s.min_at);
        element_json(j, "max", t, s.max_at);
    }
    json_array_begin(j, "values");
    for (int64_t i = 0; i < count && (has_all || i < first_values); i++)
        element_json(j, NULL, t, i);
    json_array_end(j);
    if (!has_all && count > first_values)
        json_bool(j, "cut", true);
}
