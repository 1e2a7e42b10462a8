/* Reductions: errors, and shapes that only a fold with a body can have. Values: tests/oracle/reduce.py. */
#include "run_text.h"

TEST(argmax_of_empty_axis_is_a_shape_error)
{
    check_text_fails("graph g(x: f32[3, 0]) { return argmax(x) }", FLX_E_SHAPE,
                     "argmax: axis 1 of x [3, 0] is empty");
}

TEST(argmin_dtype_must_hold_every_position)
{
    check_text_fails("graph g(x: f32[129]) { return argmin(x, dtype=i8) }", FLX_E_DTYPE,
                     "argmin: i8 cannot hold 129 positions");
}

TEST(reduce_needs_one_init_for_each_array)
{
    check_text_fails("graph f(a: f32[], x: f32[]) { return add(a, x) }"
                     "graph g(x: f32[2], y: f32[2]) { z = reduce(x, y, 0, body=@f) return z }",
                     FLX_E_ARITY, "reduce 'z': 3 operands are not as many arrays as inits");
}

TEST(reduce_body_failure_reaches_the_caller)
{
    text_run r = text_begin("graph f(a: i32[], x: i32[]) { return check(a, x, message=\"zero\") }"
                            "graph g() { x = const(i32[3], [2, 0, 1]) return reduce(x, full(i32[], 8), body=@f) }");
    CHECK_CODE(r.code, FLX_E_CHECK, &r.err);
    text_end(&r);
}

TEST(map_result_shows_a_number_where_one_operand_does)
{
    const char text[] = "graph f(a: f32[], b: f32[]) { return add(a, b) }"
                        "graph g(x: f32[N, 3], y: f32[2, M]) { z = map(x, y, body=@f) return z }";
    flx_error err;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    const flx_graph *g = flx_module_main(m);
    char type[40];
    flx_type_print(ctx, flx_val_type(g, flx_graph_output(g, 0)), type, sizeof type);
    CHECK_EQ_STR(type, "f32[2, 3]");
    flx_module_free(m);
    flx_context_free(ctx);
}

/* The number of elements reduced does not fit 64 bits; nothing may be counted where no result exists. */
TEST(reduce_of_empty_tensor_with_huge_dims_is_empty)
{
    text_run r = text_begin("graph g() { x = full(f32[0, 4294967296, 4294967296], 1)"
                            "  return reduce_mean(x, axes=[1, 2]) }");
    CHECK_OK(r.code, &r.err);
    CHECK_EQ_I64(flx_tensor_count(r.out[0]), 0);
    text_end(&r);
}
