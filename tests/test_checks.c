/* SPDX-License-Identifier: Apache-2.0 */
/* test_checks.c: what the macros of test.h call. */
#include "test.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void report(const char *file, int line, const char *text, const char *fmt, ...) FLX_PRINTF(4, 5);

static void report(const char *file, int line, const char *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    test_report(file, line, text, fmt, args);
    va_end(args);
}

bool test_expect(const char *file, int line, bool ok, const char *text, const char *fmt, ...)
{
    if (ok)
        return true;
    va_list args;
    va_start(args, fmt);
    test_report(file, line, text, fmt, args);
    va_end(args);
    return false;
}

void test_require(const char *file, int line, bool ok, const char *text, const char *fmt, ...)
{
    if (ok)
        return;
    va_list args;
    va_start(args, fmt);
    test_report(file, line, text, fmt, args);
    va_end(args);
    test_end();
}

void test_require_i64(const char *file, int line, const char *ta, const char *tb, int64_t a, int64_t b)
{
    if (a == b)
        return;
    report(file, line, "values differ", "%s is %" PRId64 "\n    %s is %" PRId64, ta, a, tb, b);
    test_end();
}

void test_require_u64(const char *file, int line, const char *ta, const char *tb, uint64_t a, uint64_t b)
{
    if (a == b)
        return;
    report(file, line, "values differ", "%s is %" PRIu64 " (%#" PRIx64 ")\n    %s is %" PRIu64 " (%#" PRIx64 ")", ta, a,
           a, tb, b, b);
    test_end();
}

void test_require_str(const char *file, int line, const char *ta, const char *tb, const char *a, const char *b)
{
    if (a == b || (a && b && strcmp(a, b) == 0))
        return;
    const char *qa = a ? "\"" : "";
    const char *qb = b ? "\"" : "";
    report(file, line, "texts differ", "%s is %s%s%s\n    %s is %s%s%s", ta, qa, a ? a : "NULL", qa, tb, qb,
           b ? b : "NULL", qb);
    test_end();
}

void test_require_near(const char *file, int line, const char *ta, const char *tb, double a, double b, double tolerance)
{
    if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tolerance)
        return;
    report(file, line, "values differ", "%s is %.17g\n    %s is %.17g\n    difference %.3g, tolerance %.3g", ta, a, tb,
           b, fabs(a - b), tolerance);
    test_end();
}

void test_require_code(const char *file, int line, const char *text, int32_t code, int32_t expected,
                       const flx_error *err)
{
    if (code == expected)
        return;
    if (err && err->code)
        report(file, line, text, "code %d, expected %d: %s\n    at: %s\n    hint: %s", code, expected, err->message,
               err->where, err->hint);
    else
        report(file, line, text, "code %d, expected %d", code, expected);
    test_end();
}
