/* oracle.c: runs the fixtures of tests/oracle. Each graph of a fixture returns pairs of a computed value and the answer of an
   independent implementation; its name ends in __ulp<N> (N units in the last place of each element) or __rel<N> (N units in
   the last place of the largest expected magnitude). */
#include "test.h"

#include <complex.h>
#include <dirent.h>
#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int mantissa_bits(int32_t dtype)
{
    switch (dtype) {
    case FLX_F64:
    case FLX_C128:
        return 53;
    case FLX_F32:
    case FLX_C64:
        return 24;
    case FLX_F16:
        return 11;
    case FLX_BF16:
        return 8;
    default:
        return 0;
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
        return ((const float complex *)flx_tensor_bytes(t))[i];
    if (type->dtype == FLX_C128)
        return ((const double complex *)flx_tensor_bytes(t))[i];
    return flx_tensor_get(t, i);
}

/* Equal values, NaN like NaN, infinities exactly; the sign of zero does not count. */
static bool same_part(double y, double e)
{
    return y == e || (isnan(y) && isnan(e));
}

static bool near(int32_t dtype, double complex y, double complex e, double allowed)
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
    (void)dtype;
    return true;
}

static double magnitude(double complex z)
{
    double a = isfinite(creal(z)) ? fabs(creal(z)) : 0.0;
    double b = isfinite(cimag(z)) ? fabs(cimag(z)) : 0.0;
    return fmax(a, b);
}

static void compare(const char *name, size_t output, const flx_tensor *y, const flx_tensor *e)
{
    const flx_type *ty = flx_tensor_type(y);
    const flx_type *te = flx_tensor_type(e);
    bool same = ty->dtype == te->dtype && ty->rank == te->rank &&
                memcmp(ty->dims, te->dims, (size_t)ty->rank * sizeof(flx_dim)) == 0;
    if (!EXPECT_MSG(same, "%s: result %zu has another type than expected", name, output))
        return;
    const char *ulp = strstr(name, "__ulp");
    const char *rel = strstr(name, "__rel");
    double units = atof((rel ? rel : ulp ? ulp : "__ulp0") + 5);
    double largest = 0.0;
    for (int64_t i = 0; i < flx_tensor_count(e); i++)
        largest = fmax(largest, magnitude(element(e, i)));
    bool exact_ints = mantissa_bits(te->dtype) == 0;
    if (exact_ints) {
        EXPECT_MSG(memcmp(flx_tensor_bytes(y), flx_tensor_bytes(e), flx_tensor_size(e)) == 0,
                   "%s: result %zu differs (first element %g, expected %g)", name, output, flx_tensor_get(y, 0),
                   flx_tensor_get(e, 0));
        return;
    }
    for (int64_t i = 0; i < flx_tensor_count(e); i++) {
        double complex a = element(y, i);
        double complex b = element(e, i);
        double allowed = units * ulp_of(te->dtype, rel ? largest : magnitude(b));
        if (!EXPECT_MSG(near(te->dtype, a, b, allowed), "%s: result %zu, element %lld: %.17g%+.17gi, expected %.17g%+.17gi",
                        name, output, (long long)i, creal(a), cimag(a), creal(b), cimag(b)))
            return;
    }
}

static void run_case(const flx_graph *g)
{
    flx_error err = {0};
    size_t n = flx_graph_output_count(g);
    if (n == 0 || n % 2)
        return; /* a body that other cases use */
    flx_tensor **out = calloc(n, sizeof *out);
    flx_code code = flx_run(g, NULL, NULL, 0, out, &err);
    if (EXPECT_MSG(code == FLX_OK, "%s: %s", flx_graph_name(g), err.message))
        for (size_t i = 0; i + 1 < n; i += 2)
            compare(flx_graph_name(g), i / 2, out[i], out[i + 1]);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(out[i]);
    free(out);
    test_count_case();
}

static void run_fixture(const char *path)
{
    flx_error err = {0};
    FILE *f = fopen(path, "rb");
    CHECK_MSG(f != NULL, "%s cannot be opened", path);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *text = malloc((size_t)size + 1);
    CHECK(text && fread(text, 1, (size_t)size, f) == (size_t)size);
    fclose(f);
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, (size_t)size, path, &err);
    if (EXPECT_MSG(m != NULL, "%s: %s (%s)", err.where, err.message, err.hint))
        for (size_t i = 0; i < flx_module_count(m); i++)
            if (flx_graph_input_count(flx_module_graph(m, i)) == 0)
                run_case(flx_module_graph(m, i));
    flx_module_free(m);
    flx_context_free(ctx);
    free(text);
}

/* FLX_ORACLE=softmax runs only the fixtures whose file name contains that. */
TEST(oracle_fixtures_agree)
{
    char path[4096];
    const char *filter = getenv("FLX_ORACLE");
    snprintf(path, sizeof path, "%s/tests/oracle/fixtures", test_source_dir());
    DIR *dir = opendir(path);
    CHECK_MSG(dir != NULL, "%s cannot be opened", path);
    int files = 0;
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        size_t n = strlen(d->d_name);
        if (n < 5 || strcmp(d->d_name + n - 4, ".flx") != 0 || (filter && !strstr(d->d_name, filter)))
            continue;
        snprintf(path, sizeof path, "%s/tests/oracle/fixtures/%s", test_source_dir(), d->d_name);
        test_fail_context("fixture %s; regenerate with tests/oracle/make_all.py", d->d_name);
        run_fixture(path);
        files++;
    }
    closedir(dir);
    CHECK(files > 0);
}
