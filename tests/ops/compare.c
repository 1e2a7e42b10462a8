/* Comparison, bits and selection: what oracle values cannot show. Values: tests/oracle/compare.py. */
#include "run_text.h"

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

/* Selection moves elements; arithmetic on them would quieten and shorten this NaN. */
TEST(where_keeps_nan_payloads)
{
    static const uint8_t signalling[4] = {0x01, 0x00, 0xa0, 0xff};
    text_run r = text_begin("graph g() { x = const(f32[1], \"0100a0ff\")"
                            "  return where(full(f32[], nan), x, 0), where(false, 0, x) }");
    CHECK_OK(r.code, &r.err);
    CHECK(memcmp(flx_tensor_bytes(r.out[0]), signalling, 4) == 0);
    CHECK(memcmp(flx_tensor_bytes(r.out[1]), signalling, 4) == 0);
    text_end(&r);
}

TEST(compare_errors_name_the_dtype)
{
    check_text_fails("graph g(z: c64[2]) { m = lt(z, z) return m }", FLX_E_DTYPE, "lt 'm': a may not be c64");
    check_text_fails("graph g(i: i32[2]) { m = and(i, i) return m }", FLX_E_DTYPE, "and 'm': a may not be i32");
}
