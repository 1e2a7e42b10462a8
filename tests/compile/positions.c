/* SPDX-License-Identifier: Apache-2.0 */
/* positions.c: compiled argmax and argmin equal the reference evaluator's, with ties, NaN and extreme values, for every
   dtype and axis; and they are compiled. */
#include "test.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void count_fallback(void *user, flx_log_event event, const char *subject, const char *text)
{
    (void)subject;
    (void)text;
    *(int *)user += event == FLX_LOG_FALLBACK;
}

typedef enum { FEW_VALUES, SOME_NAN, ALL_LOWEST, ALL_HIGHEST, ALL_NAN, NUM_FILLINGS } filling;

static double value_of(filling how, uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    uint64_t bits = *state >> 40;
    switch (how) {
    case SOME_NAN: return bits % 50 == 0 ? NAN : (double)(bits % 5);
    case ALL_LOWEST: return -INFINITY;
    case ALL_HIGHEST: return INFINITY;
    case ALL_NAN: return NAN;
    default: return (double)(bits % 4); /* ties */
    }
}

static flx_tensor *make_input(flx_context *ctx, const flx_type *t, filling how, uint64_t *state)
{
    flx_error err = {0};
    flx_type wide = flx_type_make(FLX_F64, t->rank, t->dims);
    flx_tensor *x = flx_tensor_new(ctx, &wide, NULL, &err);
    CHECK_MADE(x, &err);
    for (size_t i = 0; i < flx_tensor_nbytes(x) / sizeof(double); i++)
        ((double *)flx_tensor_data(x))[i] = value_of(how, state);
    flx_tensor *y = flx_tensor_cast(x, (flx_dtype)t->dtype, &err); /* saturates: the lowest and highest integers */
    CHECK_MADE(y, &err);
    flx_tensor_release(x);
    return y;
}

static void check_graph(const flx_graph *g, flx_tensor *x)
{
    static const char *const devices[] = {"ref", "cpu"};
    flx_tensor *out[2][2];
    flx_error err = {0};
    for (int d = 0; d < 2; d++) {
        const flx_run_options o = {.struct_size = sizeof o, .device = devices[d]};
        CHECK_OK(flx_run(g, &o, &(flx_feed){"x", x}, 1, out[d], &err), &err);
    }
    for (int k = 0; k < 2; k++) {
        CHECK(flx_tensor_nbytes(out[0][k]) == flx_tensor_nbytes(out[1][k]));
        CHECK_MSG(memcmp(flx_tensor_data(out[0][k]), flx_tensor_data(out[1][k]), flx_tensor_nbytes(out[0][k])) == 0,
                  "%s", k ? "argmin" : "argmax");
        flx_tensor_release(out[0][k]);
        flx_tensor_release(out[1][k]);
    }
    test_count_case();
}

static void check_shape(int32_t dtype, int32_t rank, const flx_dim *dims, const char *position_dtype)
{
    int fallbacks = 0;
    uint64_t state = 1;
    char shape[60] = "";
    for (int k = 0; k < rank; k++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%lld", k ? ", " : "", (long long)dims[k]);
    const flx_context_options logging = {.struct_size = sizeof logging, .log = count_fallback, .log_user = &fallbacks};
    flx_context *ctx = flx_context_new(&logging);
    for (int axis = 0; axis < rank; axis++) {
        char text[300];
        flx_error err = {0};
        snprintf(text, sizeof text,
                 "graph f(x: %s[%s]) { y = where(eq(x, x), x, x) return argmax(y, axis=%d, dtype=%s), "
                 "argmin(x, axis=%d, keep_dims=true, dtype=%s) }",
                 flx_dtype_name(dtype), shape, axis, position_dtype, axis, position_dtype);
        flx_module *m = flx_parse(ctx, text, strlen(text), "f", &err);
        CHECK_MADE(m, &err);
        flx_type t = flx_type_make((flx_dtype)dtype, rank, dims);
        for (int how = 0; how < NUM_FILLINGS; how++) {
            test_fail_context("%s[%s], axis %d, filling %d", flx_dtype_name(dtype), shape, axis, how);
            flx_tensor *x = make_input(ctx, &t, (filling)how, &state);
            check_graph(flx_module_main(m), x);
            flx_tensor_release(x);
        }
        flx_module_free(m);
    }
    flx_context_free(ctx);
    CHECK_EQ_I64(fallbacks, 0);
}

TEST(compiled_positions_equal_the_reference)
{
    static const int32_t dtypes[] = {FLX_F64, FLX_F32, FLX_F16, FLX_BF16, FLX_I64, FLX_I32, FLX_I16,
                                     FLX_I8,  FLX_U64, FLX_U32, FLX_U16,  FLX_U8,  FLX_BOOL};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        check_shape(dtypes[i], 1, (flx_dim[]){37}, "i32");
        check_shape(dtypes[i], 3, (flx_dim[]){5, 33, 18}, "u8");
    }
    check_shape(FLX_F32, 1, (flx_dim[]){1}, "i64");
    check_shape(FLX_F32, 2, (flx_dim[]){1, 7}, "i32");
    check_shape(FLX_F32, 2, (flx_dim[]){200, 3}, "i16");
}

/* Long axes are cut into parts. */
TEST(compiled_positions_along_long_axes)
{
    check_shape(FLX_F32, 1, (flx_dim[]){40000}, "i32");
    check_shape(FLX_F64, 2, (flx_dim[]){3, 16384}, "i64");
    check_shape(FLX_I8, 2, (flx_dim[]){20000, 2}, "i32");
    check_shape(FLX_F16, 2, (flx_dim[]){2, 12288}, "i32");
}
