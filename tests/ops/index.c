/* Indexing: bad indices, empty axes, bytes and error texts. Values: tests/oracle/index.py. */
#include "symbolic_text.h"

#include <string.h>

TEST(gather_out_of_range_index_fails_the_run)
{
    check_text_fails("graph g() { t = full(f32[3], 1)  y = gather(t, const(i32[2], [0, 3]))  return y }", FLX_E_INDEX,
                     "gather 'y': index 3 is out of range: the axis has extent 3");
    check_text_fails("graph g() { t = full(f32[3], 1)  y = gather(t, const(i32[1], [-1]))  return y }", FLX_E_INDEX,
                     "gather 'y': index -1 is out of range: the axis has extent 3");
    check_text_fails("graph g() { t = full(f32[3], 1)  y = gather(t, const(f32[2], [1, 0.5]))  return y }", FLX_E_INDEX,
                     "gather 'y': index 1 of the index operand is no whole number");
}

/* An empty axis has no position to clamp to, and an index is checked even where nothing would be read. */
TEST(index_into_empty_axis_is_an_error)
{
    static const char *const calls[] = {
        "gather(full(f32[0, 2], 1), i, oob=clamp)",        "gather(full(f32[0, 0], 1), i)",
        "gather(full(f32[3, 0], 1), const(i32[1], [3]))",  "take_along(full(f32[0], 1), i, oob=clamp)",
        "scatter_add(full(f32[1], 1), i, R=0, oob=clamp)", "one_hot(i, n=0)",
    };
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        char text[160] = "graph g() { i = const(i32[1], [0])  return ";
        strcat(strcat(text, calls[k]), " }");
        test_fail_context("%s", calls[k]);
        text_run r = text_begin(text);
        CHECK_CODE(r.code, FLX_E_INDEX, &r.err);
        text_end(&r);
    }
}

/* Gathering moves elements; arithmetic on them would quieten and shorten this NaN. */
TEST(indexing_keeps_nan_payloads)
{
    static const uint8_t signalling[4] = {0x01, 0x00, 0xa0, 0xff};
    text_run r = text_begin("graph g() { x = const(f32[1], \"0100a0ff\")  i = const(i32[1], [0])"
                            "  return gather(x, i), take_along(x, i), dynamic_slice(x, 0, sizes=[1]),"
                            "         dynamic_update_slice(full(f32[1], 0), x, 0) }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK(memcmp(flx_tensor_bytes(r.out[i]), signalling, 4) == 0);
    text_end(&r);
}

/* A fraction is cut off, NaN is 0: the clamped ops never fail. */
TEST(dynamic_slice_takes_any_float_as_index)
{
    text_run r = text_begin("graph g() { x = iota(i32[8])"
                            "  return dynamic_slice(x, full(f64[], 2.75), sizes=[2]),"
                            "         dynamic_slice(x, full(f32[], nan), sizes=[2]),"
                            "         dynamic_slice(x, full(f16[], inf), sizes=[2]),"
                            "         dynamic_slice(x, full(f64[], -1e300), sizes=[2]) }");
    static const int want[] = {2, 0, 6, 0};
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_I64(flx_tensor_get(r.out[i], 0), want[i]);
    text_end(&r);
}

TEST(indexing_shapes_with_symbols)
{
    check_text_type("graph g(t: f32[N, 3], i: i32[M, 2]) { return gather(t, i) }", "f32[M, 2, 3]");
    check_text_type("graph g(u: f32[N, 3], i: i32[N]) { return scatter_add(u, i, R=2*N) }", "f32[2*N, 3]");
    check_text_type("graph g(i: i32[N]) { return one_hot(i, n=M, axis=0) }", "f32[M, N]");
    check_text_type("graph g(x: f32[N, 3]) { return dynamic_slice(x, 0, 1, sizes=[N, 2]) }", "f32[N, 2]");
}

TEST(dynamic_slice_window_is_checked_when_bound)
{
    const char *text = "graph g(x: f32[N]) { return dynamic_slice(x, 0, sizes=[3]) }";
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){3}), &y, &err), &err);
    CHECK_CODE(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){2}), &y, &err), FLX_E_ATTRIBUTE, &err);
}

TEST(indexing_errors_name_shapes)
{
    check_text_fails("graph g(u: f32[5, 2], i: i32[4]) { y = scatter_add(u, i, R=3) return y }", FLX_E_SHAPE,
                     "scatter_add 'y': the shape of idx does not lead that of upd: upd is [5, 2], idx is [4]");
    check_text_fails(
        "graph g(x: f32[3, 4], i: i32[1, 2]) { y = take_along(x, i) return y }", FLX_E_SHAPE,
        "take_along 'y': x and idx must have the same shape except along axis 1: x is [3, 4], idx is [1, 2]");
    check_text_fails("graph g(x: f32[3, 4]) { y = dynamic_slice(x, 0, sizes=[2, 2]) return y }", FLX_E_ARITY,
                     "dynamic_slice 'y': 1 indices for x of shape [3, 4]");
    check_text_fails("graph g(x: f32[3, 4]) { y = dynamic_slice(x, 0, 0, sizes=[2, 5]) return y }", FLX_E_ATTRIBUTE,
                     "dynamic_slice 'y': sizes[1] is 5, which does not fit axis 1 of x of shape [3, 4]");
    check_text_fails("graph g(i: i32[3]) { y = one_hot(i, n=-2) return y }", FLX_E_ATTRIBUTE,
                     "one_hot 'y': n must not be negative, it is -2");
}
