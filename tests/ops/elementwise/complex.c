/* SPDX-License-Identifier: Apache-2.0 */
/* Complex numbers: branch cuts and parts that must not mix. Values: tests/oracle/complex.py, tests/oracle/arith.py. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"

#include <math.h>

/* On the negative real axis the sign of the zero imaginary part selects the side of the cut. */
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
    check_text_fails("graph g(x: f16[2]) { z = complex(x, x) return z }", FLX_E_DTYPE, "complex 'z': re cannot be f16");
}

/* ---- Derivatives: the cotangent of z is dL/dx + i dL/dy ---- */

TEST(parts_of_complex_numbers_give_their_cotangents_back)
{
    static const gradient_row re[] = {{"z", {3, 4}, {1, 0}}};
    static const gradient_row im[] = {{"z", {3, 4}, {0, 1}}};
    static const gradient_row whole[] = {{"x", {3}, {2}}, {"y", {4}, {3}}};
    static const gradient_row mirrored[] = {{"z", {3, 4}, {2, 3}}};
    check_gradient("graph g(z: c64[]) { return real(z) }", re, 1);
    check_gradient("graph g(z: c64[]) { return imag(z) }", im, 1);
    check_gradient("graph g(x: f64[], y: f64[]) { return mul(complex(x, y), const(c128[], [2, -3])) }", whole, 2);
    check_gradient("graph g(z: c128[]) { return mul(conjugate(z), const(c128[], [2, 3])) }", mirrored, 1);
}

TEST(parts_of_real_numbers_are_themselves_or_constant)
{
    static const gradient_row one[] = {{"x", {-2, 3}, {1, 1}}};
    static const gradient_row zero[] = {{"x", {-2, 3}, {0, 0}}};
    check_gradient("graph g(x: f16[2]) { return real(x) }", one, 1);
    check_gradient("graph g(x: bf16[2]) { return conjugate(x) }", one, 1);
    check_gradient("graph g(x: f32[2]) { return imag(x) }", zero, 1);
    check_gradient("graph g(x: f64[2]) { return angle(x) }", zero, 1);
}

TEST(trap_63_complex_norm_sq_has_gradient_two_z)
{
    static const gradient_row rows[] = {{"z", {3, 4, 0, 0}, {6, 8, 0, 0}}};
    static const gradient_row infinite[] = {{"z", {INFINITY, 0}, {INFINITY, 0}}}; /* not NaN: the parts stay separate */
    check_gradient("graph g(z: c64[2]) { return complex_norm_sq(z) }", rows, 1);
    check_reverse("graph g(z: c64[1]) { return complex_norm_sq(z) }", infinite, 1);
}

/* i z/|z|², 0 at 0; large and small numbers whose squares do not fit. */
TEST(angle_has_gradient_zero_at_zero)
{
    static const gradient_row rows[] = {{"z", {3, 4, 0, 0}, {-0.16, 0.12, 0, 0}}};
    static const gradient_row narrow[] = {{"z", {0x1p80, 0, 0, 0x1p-80}, {0, 0x1p-80, -0x1p80, 0}}};
    check_gradient("graph g(z: c128[2]) { return angle(z) }", rows, 1);
    check_gradient("graph g(z: c64[2]) { return angle(z) }", narrow, 1);
}
