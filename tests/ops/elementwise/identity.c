/* SPDX-License-Identifier: Apache-2.0 */
/* Identity-like ops: effects and messages. Values: tests/oracle/identity.py. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"

#include <string.h>

typedef struct {
    int calls;
    char message[16];
    double first;
} printed;

static void record(void *user, const char *message, const flx_tensor *value)
{
    printed *p = user;
    p->calls++;
    strncat(p->message, message, sizeof p->message - strlen(p->message) - 1);
    p->first = flx_tensor_get(value, 0);
}

/* A print whose result is unused still prints. */
TEST(print_hands_message_and_value_to_the_host)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    static const char text[] = "graph g() { x = full(f32[2], 7)  y = print(x, message=\"seen\")  return x }";
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "test", &err);
    CHECK_OK(err.code, &err);
    printed p = {0};
    flx_run_options options = {.struct_size = sizeof options, .device = "ref", .print = record, .print_user = &p};
    flx_tensor *out = NULL;
    CHECK_OK((int32_t)flx_run(flx_module_main(m), &options, NULL, 0, &out, &err), &err);
    CHECK_EQ_I64(p.calls, 1);
    CHECK_EQ_STR(p.message, "seen");
    CHECK_NEAR(p.first, 7, 0);
    flx_tensor_release(out);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(check_fails_with_its_message)
{
    check_text_fails("graph g() { ok = const(bool[3], [true, false, true])"
                     "  y = check(1, ok, message=\"rows must\\nhold\") return y }",
                     FLX_E_CHECK, "check 'y': rows must?hold (element [1] of ok is false)");
    check_text_fails("graph g() { y = check(1, full(f32[], nan), message=\"\") return y }", FLX_E_CHECK,
                     "check 'y': a check failed (ok is false, where x is 1)");
}

TEST(check_tells_what_stands_where_it_fails)
{
    check_text_fails("graph g() { x = iota(i32[2, 3], axis=1)  y = check(x, lt(x, 2), message=\"small\") return y }",
                     FLX_E_CHECK, "check 'y': small (element [0, 2] of ok is false, where x is 2)");
    check_text_fails("graph g() { x = const(f32[2, 2], [[1, 1], [0.1, -inf]])  ok = const(bool[2], [1, 0])"
                     "  y = check(x, ok, message=\"pairs\") return y }",
                     FLX_E_CHECK, "check 'y': pairs (element [1] of ok is false, where x is 0.1, -inf)");
    check_text_fails("graph g() { x = const(c64[1], [[1, -2]])  y = check(x, const(bool[1], [false]), message=\"z\")"
                     "  return y }",
                     FLX_E_CHECK, "check 'y': z (element [0] of ok is false, where x is [1, -2])");
    check_text_fails("graph g() { x = iota(i32[1, 6], axis=1)  y = check(x, const(bool[1], [false]), message=\"six\")"
                     "  return y }",
                     FLX_E_CHECK, "check 'y': six (element [0] of ok is false, where x is 0, 1, 2, 3 ...)");
}

TEST(bitcast_errors_say_what_the_last_axis_must_be)
{
    check_text_fails("graph g(x: u8[2, 3]) { y = bitcast(x, to=f32) return y }", FLX_E_SHAPE,
                     "bitcast 'y': to f32 the last axis must have extent 4, but x is u8[2, 3]");
    check_text_fails("graph g(x: u8[2]) { y = bitcast(x, to=bool) return y }", FLX_E_DTYPE,
                     "bitcast 'y': the bytes of u8 may not be valid as bool");
}

TEST(reduce_precision_rejects_formats_without_exponent)
{
    check_text_fails("graph g(x: f32[2]) { y = reduce_precision(x, exponent=0, mantissa=3) return y }", FLX_E_ATTRIBUTE,
                     "reduce_precision 'y': exponent must be at least 1, got 0");
    check_text_fails("graph g(x: f32[2]) { y = reduce_precision(x, exponent=5, mantissa=-1) return y }",
                     FLX_E_ATTRIBUTE, "reduce_precision 'y': mantissa must not be negative, got -1");
}

/* Any bit pattern survives, a signalling NaN included. */
TEST(identities_keep_nan_payloads)
{
    static const uint8_t signalling[4] = {0x01, 0x00, 0xa0, 0xff};
    text_run r = text_begin("graph g() { x = const(f32[1], \"0100a0ff\")  b = optimization_barrier(x)"
                            "  return stop_gradient(x), b, bitcast(bitcast(x, to=u8), to=f32), print(x) }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK(memcmp(flx_tensor_const_data(r.out[i]), signalling, 4) == 0);
    text_end(&r);
}

/* ---- Derivatives ---- */

/* The real part comes back from a complex cotangent and a real one is widened, without factors of 2 or 1/2. */
TEST(trap_61_cast_between_real_and_complex)
{
    static const gradient_row widened[] = {{"x", {5}, {2}}};
    static const gradient_row narrowed[] = {{"z", {5, 7}, {3, 0}}};
    check_gradient("graph g(x: f32[]) { return mul(cast(x, to=c64), const(c64[], [2, 3])) }", widened, 1);
    check_gradient("graph g(z: c128[]) { return mul(cast(z, to=f32), 3) }", narrowed, 1);
}

TEST(cast_between_floats_gives_each_its_own_dtype)
{
    static const char *const floats[] = {"f16", "bf16", "f32", "f64"};
    static const gradient_row rows[] = {{"x", {1, -2}, {0.5, 0.5}}};
    char text[120];
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++) {
            snprintf(text, sizeof text, "graph g(x: %s[2]) { return mul(cast(x, to=%s), 0.5) }", floats[from],
                     floats[to]);
            check_gradient(text, rows, 1);
        }
}

/* Integers carry no derivative: only the other factor counts. */
TEST(cast_through_integers_cuts_the_path)
{
    static const gradient_row rows[] = {{"x", {2.75, -1.5}, {2, -1}}};
    static const gradient_row none[] = {{"x", {2.75, -1.5}, {0, 0}}};
    check_gradient("graph g(x: f64[2]) { return mul(cast(cast(x, to=i32), to=f64), x) }", rows, 1);
    check_gradient("graph g(x: f64[2]) { return cast(cast(x, to=bool), to=f64) }", none, 1);
}

TEST(reduce_precision_is_straight_through)
{
    static const gradient_row rows[] = {{"x", {1.03, 300, 0}, {1, 1, 1}}};
    check_gradient("graph g(x: f32[3]) { return reduce_precision(x, exponent=4, mantissa=3) }", rows, 1);
}

TEST(stop_gradient_has_derivative_zero)
{
    static const gradient_row rows[] = {{"x", {2, 3}, {2, 3}}};
    check_gradient("graph g(x: f64[2]) { return mul(stop_gradient(x), x) }", rows, 1);
}

TEST(barrier_passes_each_derivative_to_its_own_operand)
{
    static const gradient_row rows[] = {{"x", {2}, {0}}, {"y", {3}, {6}}};
    check_gradient("graph g(x: f64[], y: f64[]) { a, b = optimization_barrier(x, y)  return square(b) }", rows, 2);
}

TEST(bitcast_says_why_it_has_no_derivative)
{
    static const char text[] = "graph g(z: c64[2]) { return reduce_sum(bitcast(z, to=f32)) }";
    static const char *const names[] = {"z"};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    CHECK(flx_grad(flx_module_main(m), names, 1, NULL, &err) == NULL);
    CHECK_CODE(err.code, FLX_E_NO_RULE, &err);
    CHECK_EQ_STR(err.hint,
                 "bits are not numbers; cast converts values, real and imag give the parts of a complex number");
    flx_module_free(m);
    flx_context_free(ctx);
}

/* Runs a transform of the text at x, the two numbers of its one input; what it prints goes to p. */
static int32_t run_transformed(const char *text, flx_graph *(*transform)(const flx_graph *, flx_error *),
                               const double *x, printed *p, flx_error *err)
{
    flx_tensor *out[4] = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", err);
    CHECK_OK(m ? FLX_OK : err->code, err);
    flx_graph *g = transform(flx_module_main(m), err);
    CHECK_OK(g ? FLX_OK : err->code, err);
    CHECK(flx_graph_output_count(g) <= 4);
    flx_tensor *value = gradient_tensor(ctx, flx_val_type(g, flx_graph_find(g, "x")), x);
    flx_run_options options = {.struct_size = sizeof options, .device = "ref", .print = record, .print_user = p};
    int32_t code = (int32_t)flx_run(g, &options, &(flx_feed){"x", value}, 1, out, err);
    for (int i = 0; i < 4; i++)
        flx_tensor_release(out[i]);
    flx_tensor_release(value);
    flx_graph_release(g);
    flx_module_free(m);
    flx_context_free(ctx);
    return code;
}

static flx_graph *gradient_by_x(const flx_graph *g, flx_error *err)
{
    static const char *const names[] = {"x"};
    return flx_grad(g, names, 1, NULL, err);
}

static flx_graph *batch_of_x(const flx_graph *g, flx_error *err)
{
    return flx_vmap(g, &(flx_vmap_axis){"x", 0}, 1, NULL, 0, 2, err);
}

/* The gradient of a sum does not need the value, yet the effects of computing it stay, once. */
TEST(effects_survive_differentiation)
{
    flx_error err = {0};
    printed p = {0};
    static const double x[] = {3, -1};
    CHECK_OK(run_transformed("graph g(x: f64[2]) { return reduce_sum(print(x, message=\"seen\")) }", gradient_by_x, x,
                             &p, &err),
             &err);
    CHECK_EQ_I64(p.calls, 1);
    CHECK_NEAR(p.first, 3, 0);
    CHECK_CODE(run_transformed("graph g(x: f64[2]) { return reduce_sum(check(x, gt(x, 0), message=\"positive\")) }",
                               gradient_by_x, x, &p, &err),
               FLX_E_CHECK, &err);
}

/* A batched print prints all examples at once; a batched check passes if it does for all of them. */
TEST(effects_of_a_batch_happen_once)
{
    flx_error err = {0};
    printed p = {0};
    static const double x[] = {3, -1};
    CHECK_OK(run_transformed("graph g(x: f64[]) { return print(x, message=\"all\") }", batch_of_x, x, &p, &err), &err);
    CHECK_EQ_I64(p.calls, 1);
    CHECK_EQ_STR(p.message, "all");
    CHECK_CODE(run_transformed("graph g(x: f64[]) { y = check(1, gt(x, 0), message=\"positive\")  return y }",
                               batch_of_x, x, &p, &err),
               FLX_E_CHECK, &err);
}
