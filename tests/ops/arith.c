/* Arithmetic: signs of zero, totality and messages. Values: tests/oracle/arith.py. */
#include "run_text.h"

#include <math.h>

/* Values alone do not tell 0 from -0: the reciprocal does. */
TEST(arith_zeros_have_the_defined_sign)
{
    text_run r = text_begin("graph g() { p = full(f32[], 0)  n = full(f32[], -0.0)  m = full(f32[], -6)"
                            "  z = stack(max(p, n), max(n, p), min(p, n), min(n, p), rem(m, 3), mod(m, 3), mod(6, m),"
                            "            add_n(n, n, n), fma(p, m, n), nextafter(n, p))"
                            "  return div(1, z) }");
    static const int negative[] = {0, 0, 1, 1, 1, 0, 1, 1, 1, 0};
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 10; i++) {
        test_fail_context("zero %d", i);
        CHECK_NEAR(flx_tensor_get(r.out[0], i), negative[i] ? -INFINITY : INFINITY, 0);
    }
    text_end(&r);
}

/* a = (a/b)*b + rem(a, b) for every pair of bytes, zero and MIN/-1 included. */
TEST(integer_division_and_remainder_recompose)
{
    text_run r = text_begin("graph g() { i = iota(i32[256, 256], axis=0)  k = iota(i32[256, 256], axis=1)"
                            "  a = cast(i, to=i8)  b = cast(k, to=i8)  u = cast(i, to=u8)  v = cast(k, to=u8)"
                            "  return reduce_all(eq(a, add(mul(div(a, b), b), rem(a, b)))),"
                            "         reduce_all(eq(u, add(mul(div(u, v), v), rem(u, v)))) }");
    CHECK_OK(r.code, &r.err);
    CHECK_EQ_I64(flx_tensor_get(r.out[0], 0), 1);
    CHECK_EQ_I64(flx_tensor_get(r.out[1], 0), 1);
    text_end(&r);
}

TEST(clamp_with_crossed_bounds_gives_the_upper_one)
{
    text_run r = text_begin("graph g() { return clamp(3, const(f64[3], [1, 2.5, 9]), 2) }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(flx_tensor_get(r.out[0], i), 2, 0);
    text_end(&r);
}

TEST(arith_errors_name_shapes_and_dtypes)
{
    check_text_fails("graph g(x: f32[2, 3], y: f32[4]) { z = add(x, y) return z }", FLX_E_SHAPE,
                     "add 'z': shapes do not broadcast: [2, 3] and [4]");
    check_text_fails("graph g(x: bool[2]) { z = sub(x, x) return z }", FLX_E_DTYPE, "sub 'z': a may not be bool");
    check_text_fails("graph g() { return add_n() }", FLX_E_ARITY, "add_n: at least one operand is needed");
}
