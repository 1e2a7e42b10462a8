/* Complex numbers: branch cuts and parts that must not mix. Values: tests/oracle/complex.py, tests/oracle/arith.py. */
#include "run_text.h"

#include <math.h>

/* On the negative real axis the sign of the zero imaginary part tells the side of the cut. */
TEST(angle_distinguishes_the_sides_of_its_cut)
{
    text_run r = text_begin("graph g() { re = full(f64[], -1)  return angle(complex(re, 0)), angle(complex(re, -0.0)),"
                            "  angle(re), angle(full(f64[], 2)) }");
    static const double want[] = {3.14159265358979323846, -3.14159265358979323846, 3.14159265358979323846, 0};
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(flx_tensor_get(r.out[i], 0), want[i], 0);
    text_end(&r);
}

/* With re + im*i computed as arithmetic, an infinite imaginary part would make the real part NaN. */
TEST(complex_keeps_parts_apart)
{
    text_run r = text_begin("graph g() { z = complex(full(f32[], 2), inf)"
                            "  return real(z), imag(z), real(conjugate(z)), imag(conjugate(z)) }");
    static const double want[] = {2, INFINITY, 2, -INFINITY};
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(flx_tensor_get(r.out[i], 0), want[i], 0);
    text_end(&r);
}

/* The quotient of two numbers near the end of the range, whose squares do not fit. */
TEST(complex_division_does_not_overflow)
{
    text_run r = text_begin("graph g() { a = const(c128[], [1e308, 1e308])  q = div(a, a)"
                            "  return real(q), imag(q) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), 1, 1e-15);
    CHECK_NEAR(flx_tensor_get(r.out[1], 0), 0, 1e-15);
    text_end(&r);
}

TEST(complex_needs_parts_that_have_a_complex_dtype)
{
    check_text_fails("graph g(x: f16[2]) { z = complex(x, x) return z }", FLX_E_DTYPE,
                     "complex 'z': re may not be f16");
}
