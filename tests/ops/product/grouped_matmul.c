/* SPDX-License-Identifier: Apache-2.0 */
/* grouped_matmul: cotangents per group, indices out of range, and what its gradient never materialises. Values:
   tests/oracle/fused.py. */
#include "ops/batch_text.h"
#include "ops/run_text.h"

#include "graph/graph.h"

/* Rows 0 and 2 use matrix 1, row 1 uses matrix 0, and no row matrix 2: its cotangent is zero, not absent. */
TEST(grouped_matmul_cotangent_of_weights_is_a_sum_over_each_group)
{
    static const gradient_row rows[] = {
        {"x", {1, 2, 3, 4, 5, 6}, {70, 110, 30, 70, 70, 110}},
        {"w", {10, 20, 30, 40, 30, 40, 50, 60, 7, 7, 7, 7}, {3, 3, 4, 4, 6, 6, 8, 8, 0, 0, 0, 0}},
    };
    check_gradient("graph g(x: f64[3, 2], w: f64[3, 2, 2]) {\n"
                   "  return grouped_matmul(x, w, const(i32[3], [1, 0, 1])) }",
                   rows, 2);
}

/* A row that is dropped has no value and no cotangent; one that is clamped counts for the last matrix. */
TEST(grouped_matmul_out_of_range_rows_follow_the_policy_in_both_directions)
{
    static const gradient_row dropped[] = {{"x", {1, 2, 3}, {0, 10, 0}}, {"w", {10, 20}, {2, 0}}};
    check_gradient("graph g(x: f64[3, 1], w: f64[2, 1, 1]) {\n"
                   "  return grouped_matmul(x, w, const(i32[3], [-1, 0, 2]), oob=zero) }",
                   dropped, 2);
    static const gradient_row clamped[] = {{"x", {1, 2, 3}, {10, 10, 20}}, {"w", {10, 20}, {3, 3}}};
    check_gradient("graph g(x: f64[3, 1], w: f64[2, 1, 1]) {\n"
                   "  return grouped_matmul(x, w, const(i32[3], [-1, 0, 2]), oob=clamp) }",
                   clamped, 2);
}

/* x w with complex numbers: the cotangents are multiplied by the conjugates. */
TEST(grouped_matmul_of_complex_numbers_uses_the_conjugate)
{
    static const gradient_row rows[] = {{"x", {1, 2}, {3, -4}}, {"w", {3, 4}, {1, -2}}};
    check_reverse("graph g(x: c128[1, 1], w: c128[1, 1, 1]) { return grouped_matmul(x, w, const(i32[1], [0])) }", rows,
                  2);
}

/* Every example has matrices of its own: index 2 of example 0 is not a matrix of example 1. */
TEST(grouped_matmul_batched_weights_keep_bad_indices_from_their_neighbours)
{
    static const batch_row rows[] = {{"x", {1, 2}, false}, {"w", {10, 20, 30, 40}, true}};
    check_batched("graph g(x: f64[2, 1], w: f64[2, 1, 1]) {\n"
                  "  return grouped_matmul(x, w, const(i32[2], [2, 1]), oob=zero) }",
                  2, rows, 2, (const double[]){0, 40, 0, 80}, 4);
    double found[GRADIENT_MAX_PARTS];
    flx_error err = {0};
    CHECK_CODE(run_batched("graph g(x: f64[2, 1], w: f64[2, 1, 1]) {\n"
                           "  return grouped_matmul(x, w, const(i32[2], [2, 1])) }",
                           2, rows, 2, found, &err),
               FLX_E_INDEX, &err);
}

/* Each example sums into matrices of its own. */
TEST(grouped_matmul_batched_weight_sums_stay_apart)
{
    static const batch_row rows[] = {{"x", {1, 2, 3, 4}, true}, {"g", {10, 20}, false}};
    check_batched("graph g(x: f64[2, 1], g: f64[2, 1]) {\n"
                  "  return grouped_matmul_weight_backward(x, g, const(i32[2], [1, 1]), E=2) }",
                  2, rows, 2, (const double[]){0, 50, 0, 110}, 4);
}

/* The largest tensor of a gradient with respect to all operands, to second order, has no more elements than the largest
   operand. */
TEST(grouped_matmul_gradients_hold_no_matrix_for_each_row)
{
    static const char text[] = "graph g(x: f32[64, 8], w: f32[4, 8, 8], e: i32[64]) {\n  y = grouped_matmul(x, w, e)\n"
                               "  return reduce_sum(mul(y, y)) }";
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    const char *const wrt[] = {"x", "w"};
    flx_graph *grad = flx_grad(flx_module_main(m), wrt, 2, NULL, &err);
    flx_graph *hvp = flx_hvp(flx_module_main(m), wrt, 2, NULL, &err);
    CHECK_OK(grad && hvp ? FLX_OK : err.code, &err);
    const flx_graph *graphs[] = {grad, hvp};
    for (int k = 0; k < 2; k++)
        for (uint32_t id = 1; id <= graphs[k]->value_count; id++) {
            int64_t count;
            CHECK(flxi_static_count(flxi_type_at(graphs[k], id), &count));
            CHECK_MSG(count <= 64 * 8, "%s makes %lld elements", flxi_ops[flxi_node_of(graphs[k], id)->op].name,
                      (long long)count);
        }
    flx_graph_release(grad);
    flx_graph_release(hvp);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* Compiled code checks the indices before it multiplies, and fails with the message of the reference evaluator. */
TEST(grouped_matmul_bad_index_fails_on_every_device)
{
    static const char text[] =
        "graph g() {\n"
        "  y = grouped_matmul(full(f32[2, 3], 1), full(f32[2, 3, 2], 1), const(i32[2], [0, 2]))\n"
        "  return y }";
    static const char *const devices[] = {"ref", "cpu"};
    flx_context *ctx = flx_context_new(NULL);
    for (int k = 0; k < 2; k++) {
        flx_error err = {0};
        flx_tensor *y = NULL;
        flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
        CHECK_OK(m ? FLX_OK : err.code, &err);
        flx_run_options options = {.struct_size = sizeof options, .device = devices[k]};
        test_fail_context("device %s", devices[k]);
        CHECK_CODE((int32_t)flx_run(flx_module_main(m), &options, NULL, 0, &y, &err), FLX_E_INDEX, &err);
        CHECK_EQ_STR(err.message, "grouped_matmul 'y': index 2 is out of range for an axis of extent 2");
        flx_module_free(m);
    }
    flx_context_free(ctx);
}
