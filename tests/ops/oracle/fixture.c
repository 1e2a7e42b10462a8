/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.c: shared by the tests that run the fixtures of tests/oracle. */
#include "fixture.h"
#include "test.h"

#include <complex.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Comparing ---- */

static int mantissa_bits(int32_t dtype)
{
    switch (dtype) {
    case FLX_F64:
    case FLX_C128: return 53;
    case FLX_F32:
    case FLX_C64: return 24;
    case FLX_F16: return 11;
    case FLX_BF16: return 8;
    default: return 0;
    }
}

static int lowest_exponent(int32_t dtype)
{
    return dtype == FLX_F64 || dtype == FLX_C128 ? -1021 : dtype == FLX_F16 ? -13 : -125;
}

/* One unit in the last place of x in the dtype; of the smallest normal number below that. */
static double ulp_of(int32_t dtype, double x)
{
    int e;
    frexp(x, &e);
    if (x == 0.0 || e < lowest_exponent(dtype))
        e = lowest_exponent(dtype);
    return ldexp(1.0, e - mantissa_bits(dtype));
}

static double complex element(const flx_tensor *t, int64_t i)
{
    const flx_type *type = flx_tensor_type(t);
    if (type->dtype == FLX_C64)
        return ((const float complex *)flx_tensor_const_data(t))[i];
    if (type->dtype == FLX_C128)
        return ((const double complex *)flx_tensor_const_data(t))[i];
    return flx_tensor_get(t, i);
}

/* Equal values, NaN like NaN, infinities exactly; the sign of zero does not count. */
static bool same_part(double y, double e)
{
    return y == e || (isnan(y) && isnan(e));
}

static bool near(double complex y, double complex e, double allowed)
{
    double parts[2][2] = {{creal(y), creal(e)}, {cimag(y), cimag(e)}};
    for (int k = 0; k < 2; k++) {
        double a = parts[k][0];
        double b = parts[k][1];
        if (same_part(a, b))
            continue;
        if (!isfinite(a) || !isfinite(b) || !(fabs(a - b) <= allowed))
            return false;
    }
    return true;
}

static double magnitude(double complex z)
{
    double a = isfinite(creal(z)) ? fabs(creal(z)) : 0.0;
    double b = isfinite(cimag(z)) ? fabs(cimag(z)) : 0.0;
    return fmax(a, b);
}

static bool same_type(const flx_type *a, const flx_type *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof(flx_dim)) == 0;
}

/* What __2p<K> and __2m<K> say: 2^K and 2^-K; 0 without one. */
static double scale_of(const char *name)
{
    const char *scale = name ? strstr(name, "__2") : NULL;
    return !scale ? 0.0 : ldexp(1.0, (scale[3] == 'm' ? -1 : 1) * atoi(scale + 4));
}

static int64_t first_other_bytes(const flx_tensor *found, const flx_tensor *expected)
{
    const char *x = flx_tensor_const_data(found), *y = flx_tensor_const_data(expected);
    size_t size = flx_dtype_size(flx_tensor_type(expected)->dtype);
    for (int64_t i = 0; i < flx_tensor_count(expected); i++)
        if (memcmp(x + (size_t)i * size, y + (size_t)i * size, size) != 0)
            return i;
    return -1;
}

int64_t fixture_first_difference(const char *case_name, const flx_tensor *found, const flx_tensor *expected,
                                 const char *answer_name, const double *more)
{
    const flx_type *type = flx_tensor_type(expected);
    int64_t count = flx_tensor_count(expected);
    if (!same_type(flx_tensor_type(found), type))
        return 0;
    if (mantissa_bits(type->dtype) == 0)
        return first_other_bytes(found, expected);
    const char *ulp = strstr(case_name, "__ulp");
    const char *rel = strstr(case_name, "__rel");
    double units = atof((rel ? rel : ulp ? ulp : "__ulp0") + 5);
    double largest = scale_of(answer_name);
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, magnitude(element(expected, i)));
    for (int64_t i = 0; i < count; i++) {
        double complex e = element(expected, i);
        double allowed = units * ulp_of(type->dtype, rel ? largest : magnitude(e)) + (more ? more[i] : 0);
        if (!near(element(found, i), e, allowed))
            return i;
    }
    return -1;
}

void fixture_report(const char *case_name, const char *result, const flx_tensor *found, const flx_tensor *expected,
                    int64_t difference)
{
    int32_t dtype = flx_tensor_type(expected)->dtype;
    if (difference < 0 || !EXPECT_MSG(same_type(flx_tensor_type(found), flx_tensor_type(expected)),
                                      "%s: %s has another type than expected", case_name, result))
        return;
    double complex y = element(found, difference), e = element(expected, difference);
    double unit = mantissa_bits(dtype) ? ulp_of(dtype, magnitude(e)) : 1;
    EXPECT_MSG(false, "%s: %s, element %lld: %.17g%+.17gi, expected %.17g%+.17gi (%.4g units of %g)", case_name, result,
               (long long)difference, creal(y), cimag(y), creal(e), cimag(e), magnitude(y - e) / unit, unit);
}

void fixture_agree(const char *case_name, const char *result, const flx_tensor *found, const flx_tensor *expected,
                   const char *answer_name)
{
    fixture_report(case_name, result, found, expected,
                   fixture_first_difference(case_name, found, expected, answer_name, NULL));
}

/* ---- Reading ---- */

static char *read_whole_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    CHECK_MSG(f != NULL, "%s cannot be opened", path);
    fseek(f, 0, SEEK_END);
    long length = ftell(f);
    rewind(f);
    char *text = malloc((size_t)length + 1);
    CHECK(text && fread(text, 1, (size_t)length, f) == (size_t)length);
    fclose(f);
    *size = (size_t)length;
    return text;
}

static void visit_file(const char *path, const char *filter, void (*visit)(const flx_module *m, const flx_graph *g))
{
    flx_error err = {0};
    size_t size;
    char *text = read_whole_file(path, &size);
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, size, path, &err);
    if (EXPECT_MSG(m != NULL, "%s: %s (%s)", err.where, err.message, err.hint))
        for (size_t i = 0; i < flx_module_count(m); i++)
            if (!filter || strstr(flx_graph_name(flx_module_graph(m, i)), filter))
                visit(m, flx_module_graph(m, i));
    flx_module_free(m);
    flx_context_free(ctx);
    free(text);
}

void fixture_each(const char *folder, void (*visit)(const flx_module *m, const flx_graph *g))
{
    char path[4096];
    const char *filter = test_case_wanted();
    snprintf(path, sizeof path, "%s/tests/oracle/%s", test_source_dir(), folder);
    DIR *dir = opendir(path);
    CHECK_MSG(dir != NULL, "%s cannot be opened", path);
    int files = 0;
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        size_t n = strlen(d->d_name);
        if (n < 5 || strcmp(d->d_name + n - 4, ".flx") != 0)
            continue;
        snprintf(path, sizeof path, "%s/tests/oracle/%s/%s", test_source_dir(), folder, d->d_name);
        test_fail_context("%s/%s; regenerate with tests/oracle/make_all.py", folder, d->d_name);
        visit_file(path, filter && strstr(d->d_name, filter) ? NULL : filter, visit);
        files++;
    }
    closedir(dir);
    CHECK(files > 0);
}
