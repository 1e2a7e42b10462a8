/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison, bits and selection: what oracle values cannot show. Values: tests/oracle/compare.py. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"

#include <math.h>
#include <string.h>

/* Every byte shifted by every byte, against the definition on whole numbers: a floor division by a power of two. */
TEST(shifts_of_bytes_are_total)
{
    text_run r = text_begin("graph g() { a = cast(iota(i32[256, 256], axis=0), to=i8)"
                            "  n = cast(iota(i32[256, 256], axis=1), to=i8)"
                            "  return shl(a, n), shr_arith(a, n), shr_logical(a, n) }");
    CHECK_OK(r.code, &r.err);
    for (int64_t i = 0; i < 256 * 256; i++) {
        int a = (int8_t)(i / 256);
        int n = (int8_t)(i % 256);
        int out = n < 0 || n > 7;
        int power = 1 << (out ? 8 : n);
        test_fail_context("%d shifted by %d", a, n);
        CHECK_EQ_I64(flx_tensor_get(r.out[0], i), (int8_t)(out ? 0 : a * power));
        CHECK_EQ_I64(flx_tensor_get(r.out[1], i), (a - ((a % power) + power) % power) / power);
        CHECK_EQ_I64(flx_tensor_get(r.out[2], i), (int8_t)((uint8_t)a / power));
    }
    text_end(&r);
}

/* Selection moves elements; arithmetic on them would quiet and truncate this NaN. */
TEST(where_keeps_nan_payloads)
{
    static const uint8_t signalling[4] = {0x01, 0x00, 0xa0, 0xff};
    text_run r = text_begin("graph g() { x = const(f32[1], \"0100a0ff\")"
                            "  return where(full(f32[], nan), x, 0), where(false, 0, x) }");
    CHECK_OK(r.code, &r.err);
    CHECK(memcmp(flx_tensor_const_data(r.out[0]), signalling, 4) == 0);
    CHECK(memcmp(flx_tensor_const_data(r.out[1]), signalling, 4) == 0);
    text_end(&r);
}

TEST(compare_errors_name_the_dtype)
{
    check_text_fails("graph g(z: c64[2]) { m = lt(z, z) return m }", FLX_E_DTYPE, "lt 'm': a cannot be c64");
    check_text_fails("graph g(i: i32[2]) { m = and(i, i) return m }", FLX_E_DTYPE, "and 'm': a cannot be i32");
}

/* ---- Derivatives ---- */

TEST(where_keeps_infinite_cotangents_from_the_other_branch)
{
    static const gradient_row rows[] = {{"a", {1, 2}, {INFINITY, 0}}, {"b", {3, 4}, {0, INFINITY}}};
    check_reverse("graph g(a: f64[2], b: f64[2]) { return mul(where(const(bool[2], [1, 0]), a, b), inf) }", rows, 2);
}

/* The zero of the branch not taken has the dtype of the cotangent, whatever that is. */
TEST(trap_15_where_cotangents_have_their_own_dtype)
{
    static const char *const reals[] = {"f16", "bf16", "f32", "f64"};
    static const char *const complexes[] = {"c64", "c128"};
    static const gradient_row real[] = {{"a", {1, 2, 3}, {1, 0, 1}}, {"b", {4}, {1}}};
    static const gradient_row complex[] = {{"a", {1, 1, 2, 2, 3, 3}, {1, 0, 0, 0, 1, 0}}, {"b", {4, 4}, {1, 0}}};
    char text[160];
    for (int i = 0; i < 6; i++) {
        const char *t = i < 4 ? reals[i] : complexes[i - 4];
        snprintf(text, sizeof text, "graph g(a: %s[3], b: %s[1]) { return where(const(i8[3], [1, 0, -1]), a, b) }", t,
                 t);
        check_gradient(text, i < 4 ? real : complex, 2);
    }
}

/* The untaken branch computes log 0, but not on the value that is differentiated. */
TEST(where_with_double_guard_is_finite)
{
    static const gradient_row rows[] = {{"x", {0, -1, 2}, {0, 0, 0.5}}};
    check_gradient("graph g(x: f64[3]) { ok = gt(x, 0)  return where(ok, log(where(ok, x, 1)), 0) }", rows, 1);
}

TEST(where_gives_a_numeric_predicate_no_derivative)
{
    static const gradient_row rows[] = {{"x", {0, 3}, {0, 2}}};
    static const gradient_row alone[] = {{"x", {0, 3}, {0, 0}}};
    check_gradient("graph g(x: f64[2]) { return where(x, mul(x, 2), 1) }", rows, 1);
    check_gradient("graph g(x: f64[2]) { return where(x, full(f64[2], 2), 1) }", alone, 1);
}
