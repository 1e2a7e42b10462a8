/* SPDX-License-Identifier: Apache-2.0 */
/* Leaves: errors, and types that need an extent. Values: tests/oracle/leaf.py. */
#include "ops/run_text.h"

#include <fluxion/transform.h>

/* A leaf of type f64[N] whose second attribute is a tensor of the given type; text cannot express this. */
static void check_leaf_fails(const char *op, const char *key, flx_type data_type, int32_t code, const char *message)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "g");
    flx_type type = flx_type_make(FLX_F64, 1, (flx_dim[]){flx_dim_symbol(ctx, "N")});
    flx_error err;
    flx_tensor *data = flx_tensor_new(ctx, &data_type, NULL, &err);
    flx_attr attrs[] = {
        {.key = "type", .kind = FLX_ATTR_TYPE, .as.type = &type},
        {.key = key, .kind = FLX_ATTR_TENSOR, .as.tensor = data},
    };
    flx_op(g, op, NULL, 0, attrs, 2, NULL, 0);
    int32_t found = (int32_t)flx_graph_error(g, &err);
    CHECK_CODE(found, code, &err);
    CHECK_EQ_STR(err.message, message);
    flx_tensor_release(data);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(const_of_symbolic_type_is_unbound)
{
    check_leaf_fails("const", "data", flx_type_make(FLX_F64, 1, (flx_dim[]){2}), FLX_E_UNBOUND_DIM,
                     "const: a literal needs a type without symbols, not f64[N]");
}

TEST(full_value_must_be_one_element_of_the_dtype)
{
    check_leaf_fails("full", "value", flx_type_make(FLX_I32, 0, NULL), FLX_E_DTYPE,
                     "full: the value must be f64[], not i32[]");
    check_leaf_fails("full", "value", flx_type_make(FLX_F64, 1, (flx_dim[]){2}), FLX_E_SHAPE,
                     "full: the value must be f64[], not f64[2]");
}

TEST(iota_cannot_count_in_bool)
{
    check_text_fails("graph g() { return iota(bool[4]) }", FLX_E_DTYPE, "iota: bool cannot count; use a numeric dtype");
}

TEST(full_of_unknown_extent_is_unbound)
{
    text_run r = text_begin("graph g() { return full(f32[N], 1) }");
    CHECK_CODE(r.code, FLX_E_UNBOUND_DIM, &r.err);
    text_end(&r);
}

TEST(leaves_take_extents_from_a_bound_symbol)
{
    const char text[] = "graph g(x: f32[N, 2]) {"
                        "  return dim_size(x, axis=0), full(i32[N+1], 7), iota(f64[N]), eye(n=N, m=2, k=-1) }";
    flx_error err;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){3, 2});
    flx_tensor *x = flx_tensor_new(ctx, &type, NULL, &err);
    flx_tensor *out[4];
    int32_t code = (int32_t)flx_run(flx_module_main(m), ON_REF, &(flx_feed){"x", x}, 1, out, &err);
    CHECK_OK(code, &err);
    CHECK_NEAR(flx_tensor_get(out[0], 0), 3, 0);
    CHECK_EQ_I64(flx_tensor_count(out[1]), 4);
    CHECK_NEAR(flx_tensor_get(out[1], 3), 7, 0);
    CHECK_NEAR(flx_tensor_get(out[2], 2), 2, 0);
    CHECK_EQ_I64(flx_tensor_count(out[3]), 6);
    CHECK_NEAR(flx_tensor_get(out[3], 2), 1, 0);
    CHECK_NEAR(flx_tensor_get(out[3], 5), 1, 0);
    for (int i = 0; i < 4; i++)
        flx_tensor_release(out[i]);
    flx_tensor_release(x);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* All examples have the same extents: the result has no batch axis. */
TEST(dim_size_of_a_batch_is_that_of_an_example)
{
    static const char text[] = "graph g(x: f32[3, 4]) { return dim_size(x, axis=1) }";
    static const int64_t none[] = {FLX_NO_AXIS};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_graph *g = flx_vmap(flx_module_main(m), &(flx_vmap_axis){"x", 0}, 1, none, 1, 5, &err);
    CHECK_OK(g ? FLX_OK : err.code, &err);
    flx_type type = flx_type_make(FLX_F32, 3, (flx_dim[]){5, 3, 4});
    flx_tensor *x = flx_tensor_new(ctx, &type, NULL, &err);
    flx_tensor *out = NULL;
    CHECK_OK((int32_t)flx_run(g, ON_REF, &(flx_feed){"x", x}, 1, &out, &err), &err);
    CHECK_EQ_I64(flx_tensor_get(out, 0), 4);
    flx_tensor_release(out);
    flx_tensor_release(x);
    flx_graph_release(g);
    flx_module_free(m);
    flx_context_free(ctx);
}
