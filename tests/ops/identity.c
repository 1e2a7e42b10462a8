/* Identity-like ops: effects and messages. Values: tests/oracle/identity.py. */
#include "run_text.h"

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

/* A print whose result nobody reads still talks. */
TEST(print_hands_message_and_value_to_the_host)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    static const char text[] = "graph g() { x = full(f32[2], 7)  y = print(x, message=\"seen\")  return x }";
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "test", &err);
    CHECK_OK(err.code, &err);
    printed p = {0};
    flx_run_options options = {.struct_size = sizeof options, .print = record, .print_user = &p};
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
                     FLX_E_CHECK, "check 'y': rows must?hold (element 1 of ok, which has 3, is false)");
    check_text_fails("graph g() { y = check(1, full(f32[], nan), message=\"\") return y }", FLX_E_CHECK,
                     "check 'y': a check failed (element 0 of ok, which has 1, is false)");
}

TEST(bitcast_errors_say_what_the_last_axis_must_be)
{
    check_text_fails("graph g(x: u8[2, 3]) { y = bitcast(x, to=f32) return y }", FLX_E_SHAPE,
                     "bitcast 'y': to f32 the last axis must have extent 4, but x is u8[2, 3]");
    check_text_fails("graph g(x: u8[2]) { y = bitcast(x, to=bool) return y }", FLX_E_DTYPE,
                     "bitcast 'y': the bytes of u8 need not be valid as bool");
}

TEST(reduce_precision_rejects_formats_without_exponent)
{
    check_text_fails("graph g(x: f32[2]) { y = reduce_precision(x, exponent=0, mantissa=3) return y }",
                     FLX_E_ATTRIBUTE, "reduce_precision 'y': exponent must be at least 1, but is 0");
    check_text_fails("graph g(x: f32[2]) { y = reduce_precision(x, exponent=5, mantissa=-1) return y }",
                     FLX_E_ATTRIBUTE, "reduce_precision 'y': mantissa must not be negative, but is -1");
}

/* Any bit pattern survives, a signalling NaN included. */
TEST(identities_keep_nan_payloads)
{
    static const uint8_t signalling[4] = {0x01, 0x00, 0xa0, 0xff};
    text_run r = text_begin("graph g() { x = const(f32[1], \"0100a0ff\")  b = optimization_barrier(x)"
                            "  return stop_gradient(x), b, bitcast(bitcast(x, to=u8), to=f32), print(x) }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK(memcmp(flx_tensor_bytes(r.out[i]), signalling, 4) == 0);
    text_end(&r);
}
