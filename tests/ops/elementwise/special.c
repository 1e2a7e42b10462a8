/* SPDX-License-Identifier: Apache-2.0 */
/* Special functions: poles, identities between them, no shared state. Values: tests/oracle/special.py. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"

#include <fluxion/stablehlo.h>
#include <math.h>

/* lgamma() of the C library writes the global signgam; many threads may run one graph. */
TEST(lgamma_leaves_signgam_alone)
{
    signgam = 7;
    text_run r = text_begin("graph g() { return lgamma(const(f64[2], [-0.5, 3])) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), 1.2655121234846454, 1e-15); /* log 2√π */
    CHECK_NEAR(flx_tensor_get(r.out[0], 1), 0.6931471805599453, 1e-15); /* log 2 */
    CHECK_EQ_I64(signgam, 7);
    text_end(&r);
}

TEST(special_poles_have_the_defined_values)
{
    text_run r =
        text_begin("graph g() { x = const(f64[4], [0, -0.0, -1, -2])"
                   "  return digamma(x), polygamma(1, x), lgamma(x), zeta(1, const(f64[4], [1, 2, 0.5, -3])) }");
    static const double want[4][4] = {
        {-INFINITY, INFINITY, NAN, NAN},
        {INFINITY, INFINITY, INFINITY, INFINITY},
        {INFINITY, INFINITY, INFINITY, INFINITY},
        {INFINITY, INFINITY, INFINITY, INFINITY},
    };
    CHECK_OK(r.code, &r.err);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 4; i++) {
            test_fail_context("function %d, point %d", k, i);
            CHECK_NEAR(flx_tensor_get(r.out[k], i), want[k][i], 0);
        }
    text_end(&r);
}

/* erf(erf_inv(x)) = x; ψ(x+1) - ψ(x) = 1/x, on both sides of 0 and across the change of method at 10; ζ(2, x) = ψ'(x);
   e^-x (I0 + I1) is continuous where the asymptotic series takes over. */
TEST(special_functions_satisfy_their_identities)
{
    text_run r = text_begin("graph g() { u = div(sub(iota(f64[200]), 99.5), 100)  x = mul(u, 13)"
                            "  p = add(abs(x), 0.01)  b = const(f64[2], [29.999999999999, 30])"
                            "  return reduce_max(abs(sub(erf(erf_inv(u)), u))),"
                            "         reduce_max(abs(sub(mul(sub(digamma(add(x, 1)), digamma(x)), x), 1))),"
                            "         reduce_max(abs(sub(div(zeta(2, p), polygamma(1, p)), 1))),"
                            "         add(bessel_i0e(b), bessel_i1e(b)) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), 0, 4e-16);
    CHECK_NEAR(flx_tensor_get(r.out[1], 0), 0, 1e-12); /* up to 13 times the error of values near 200 */
    CHECK_NEAR(flx_tensor_get(r.out[2], 0), 0, 1e-15);
    CHECK_NEAR(flx_tensor_get(r.out[3], 0), flx_tensor_get(r.out[3], 1), 1e-14);
    text_end(&r);
}

/* Operands that would need endless sums or are out of range return at once. */
TEST(special_functions_end_for_every_operand)
{
    text_run r = text_begin("graph g() { n = const(f64[7], [1e300, 2.5e16, 1e17, 9e15, 1, 2, 1e308])"
                            "  x = const(f64[7], [3, 9e15, 1e16, 1e16, -1e300, 1e300, 1e308])"
                            "  return polygamma(n, x), zeta(n, x), digamma(x), bessel_i0e(x) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), -INFINITY, 0);
    CHECK_NEAR(flx_tensor_get(r.out[1], 0), 0, 0);
    CHECK_NEAR(flx_tensor_get(r.out[1], 4), INFINITY, 0);
    CHECK(isnan(flx_tensor_get(r.out[2], 4)));
    text_end(&r);
}

/* ---- Derivatives ---- */

/* i1e'(0) is the limit ½ of a quotient 0/0; sign(0) = 0 keeps the kinks of e^-|x| out. */
TEST(bessel_derivatives_at_zero)
{
    static const gradient_row even[] = {{"x", {0, -0.0}, {0, 0}}};
    static const gradient_row odd[] = {{"x", {0, -0.0}, {0.5, 0.5}}};
    check_gradient("graph g(x: f64[2]) { return bessel_i0e(x) }", even, 1);
    check_gradient("graph g(x: f64[2]) { return bessel_i1e(x) }", odd, 1);
    check_hessian_of_ones("graph g(x: f64[2]) { return reduce_sum(bessel_i1e(x)) }", even, 1);
}

/* i1e' = ½ - |x| … and i1e'' = -sign(x) + 15/8 x … : nothing may be divided by a power of x. */
TEST(bessel_derivatives_beside_zero)
{
    static const gradient_row first[] = {{"x", {1e-200, 1e-20, -1e-20}, {0.5, 0.5, 0.5}}};
    static const gradient_row second[] = {{"x", {1e-200, 1e-20, -1e-20}, {-1, -1, 1}}};
    check_gradient("graph g(x: f64[3]) { return bessel_i1e(x) }", first, 1);
    check_hessian_of_ones("graph g(x: f64[3]) { return reduce_sum(bessel_i1e(x)) }", second, 1);
}

TEST(special_derivatives_at_poles_and_limits)
{
    static const gradient_row ends[] = {{"x", {-1, 1}, {INFINITY, INFINITY}}};
    static const gradient_row tails[] = {{"x", {-INFINITY, -1e200, 1e200, INFINITY}, {0, 0, 0, 0}}};
    static const gradient_row pole[] = {{"x", {0, -0.0}, {-INFINITY, INFINITY}}};
    check_gradient("graph g(x: f64[2]) { return erf_inv(x) }", ends, 1);
    check_gradient("graph g(x: f64[4]) { return erf(x) }", tails, 1);
    check_gradient("graph g(x: f64[4]) { return erfc(x) }", tails, 1);
    check_reverse("graph g(x: f64[2]) { return lgamma(x) }", pole, 1);
}

static void check_no_rule(const char *text, const char *wrt, const char *message)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    CHECK(flx_grad(flx_module_main(m), &wrt, 1, NULL, &err) == NULL);
    CHECK_CODE(err.code, FLX_E_NO_RULE, &err);
    CHECK_EQ_STR(err.message, message);
    CHECK(flx_jvp(flx_module_main(m), &wrt, 1, &err) == NULL);
    CHECK_CODE(err.code, FLX_E_NO_RULE, &err);
    CHECK_EQ_STR(err.message, message);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* Values by mpmath with 40 digits. */
TEST(zeta_derivatives_in_x_have_their_values)
{
    static const struct {
        double x, q;
        int order;
        double value;
    } rows[] = {
        {2, 1, 1, -0.93754825431584375},      {2, 1, 2, 1.989280234298901},
        {1.5, 0.5, 1, -2.0682093782329916},   {3.25, 4, 1, -0.044413299057321246},
        {1.01, 2, 1, -9999.927281160435},     {30, 0.25, 1, 1.598288580650332e+18},
        {30, 10, 1, -2.4515778883426859e-30}, {2.5, 1000, 2, 0.0012196296355368673},
        {7, 1.5, 3, -0.0056177422375090814},  {200, 10, 1, -2.3025851056208425e-200},
        {1.25, 0.125, 4, 24827.565571935167},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[160];
        snprintf(text, sizeof text,
                 "graph g() { x = const(f64[], %.17g) q = const(f64[], %.17g) return zeta_derivative(x, q, order=%d) }",
                 rows[i].x, rows[i].q, rows[i].order);
        text_run r = text_begin(text);
        CHECK_OK(r.code, &r.err);
        test_fail_context("zeta(%g, %g), order %d", rows[i].x, rows[i].q, rows[i].order);
        CHECK_NEAR(flx_tensor_get(r.out[0], 0) / rows[i].value, 1, 1e-13);
        text_end(&r);
        test_count_case();
    }
}

TEST(zeta_derivatives_have_defined_values_at_the_ends)
{
    text_run r = text_begin("graph g() { q = const(f64[5], [0, -0.5, inf, nan, 2])"
                            "  return zeta_derivative(3, q), zeta_derivative(1, q), zeta_derivative(1, q, order=2),"
                            "         zeta_derivative(0.5, q) }");
    static const double want[4][5] = {
        {INFINITY, NAN, 0, NAN, -0.19812624288563685},
        {INFINITY, NAN, -INFINITY, NAN, -INFINITY},
        {INFINITY, NAN, INFINITY, NAN, INFINITY},
        {NAN, NAN, NAN, NAN, NAN},
    };
    CHECK_OK(r.code, &r.err);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 5; i++) {
            test_fail_context("function %d, point %d", k, i);
            CHECK_NEAR(flx_tensor_get(r.out[k], i), want[k][i], 1e-15);
        }
    text_end(&r);
}

/* The program that StableHLO gets, read back, and compiled code both have the formula as plain ops. */
static void check_as_ops(flx_context *ctx, const char *text, bool exported)
{
    flx_error err = {0};
    flx_buffer hlo = {0};
    flx_tensor *want[1] = {0}, *found[1] = {0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "t", &err), *back = NULL;
    CHECK_MADE(m, &err);
    CHECK_OK(flx_run(flx_module_main(m), ON_REF, NULL, 0, want, &err), &err);
    if (exported) {
        CHECK_OK(flx_export_stablehlo(flx_module_main(m), &hlo, &err), &err);
        back = flx_import_stablehlo(ctx, hlo.data, hlo.size, "t", &err);
        CHECK_MADE(back, &err);
    }
    flx_run_options o = {.device = exported ? "ref" : "cpu"};
    CHECK_OK(flx_run(flx_module_main(back ? back : m), &o, NULL, 0, found, &err), &err);
    for (int64_t i = 0; i < flx_tensor_count(want[0]); i++) {
        double x = flx_tensor_get(found[0], i), y = flx_tensor_get(want[0], i);
        bool same = isfinite(y) ? fabs(x - y) <= 1e-12 * fabs(y) : isnan(y) ? isnan(x) : x == y;
        EXPECT_MSG(same, "%s%s: element %lld is %.17g, not %.17g", exported ? "exported " : "", text, (long long)i, x,
                   y);
    }
    test_count_case();
    flx_tensor_release(want[0]);
    flx_tensor_release(found[0]);
    flx_buffer_free(&hlo);
    flx_module_free(back);
    flx_module_free(m);
}

TEST(zeta_derivatives_are_a_formula_of_other_ops)
{
    static const int orders[] = {1, 2, 5, 16};
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        for (int exported = 0; exported < 2; exported++) {
            char text[300];
            snprintf(text, sizeof text,
                     "graph g() { x = const(f64[10, 1], [[1.01], [1.5], [2], [3.25], [7], [30], [0.5], [1], [inf], "
                     "[nan]]) q = const(f64[9], [0.125, 1, 2.5, 10, 1000, 0, -0.5, inf, nan]) "
                     "return zeta_derivative(x, q, order=%d) }",
                     orders[i]);
            check_as_ops(ctx, text, exported);
        }
    flx_context_free(ctx);
}

/* The order of polygamma is an integer: requesting its derivative is an error, not a zero, unless stop_gradient
   excludes the path. */
TEST(special_orders_have_no_derivative)
{
    static const char *const poly = "graph g(n: f64[], x: f64[]) { return polygamma(n, x) }";
    check_no_rule(poly, "n", "polygamma: there is no derivative in n, which must be an integer");
    static const gradient_row cut[] = {{"x", {1}, {0}}};
    check_gradient("graph g(x: f64[]) { s = stop_gradient(x)  return polygamma(s, s) }", cut, 1);
}
