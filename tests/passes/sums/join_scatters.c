/* SPDX-License-Identifier: Apache-2.0 */
/* join_scatters.c: which scatters into zeros are joined with the tensor that they are added to. */
#include "passes/pass.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <string.h>

#define ROWS "graph g(i: i32[3], u: f32[3, 64], x: f32[128, 64], w: f32[64, 64]) {\n  y = matmul(x, w)\n"
#define ZEROS "  s = scatter_nd(full(f32[128, 64], 0), i, u, start_index_map=[0], collapsed_axes=[0], offset_axes=[1],"

static const struct {
    const char *text;
    size_t sums; /* that are left */
} rows[] = {
    {ROWS "  return add(scatter_add(u, i, R=128), y) }", 0},
    {ROWS "  return add(y, scatter_add(u, i, R=128, oob=clamp)) }", 0},
    {ROWS ZEROS " index_vector_axis=1)\n  return add(y, s) }", 0},
    /* The zeros are none, what comes twice is not added, or others need what would be overwritten. */
    {ROWS "  s = scatter_nd(full(f32[128, 64], 1), i, u, start_index_map=[0], collapsed_axes=[0], offset_axes=[1],"
          " index_vector_axis=1)\n  return add(y, s) }",
     1},
    {ROWS ZEROS " index_vector_axis=1, combine=max)\n  return add(y, s) }", 1},
    {ROWS "  return add(scatter_add(u, i, R=128), y), y }", 1},
    {ROWS "  return add(scatter_add(u, i, R=128), x) }", 1},
    {ROWS "  s = scatter_add(u, i, R=128)\n  return add(s, y), s }", 1},
    /* Broadcast, rounded to 16 bits, or small. */
    {ROWS "  return add(scatter_add(u, i, R=128), reduce_sum(y, axes=[0])) }", 1},
    {ROWS "  return add(scatter_add(cast(u, to=bf16), i, R=128), cast(y, to=bf16)) }", 1},
    {"graph g(i: i32[3], u: f32[3, 4], x: f32[8, 8], w: f32[8, 4]) {\n"
     "  return add(scatter_add(u, i, R=8), matmul(x, w)) }",
     1},
};

static size_t count(const flx_graph *g, const char *op)
{
    size_t n = 0;
    flx_node_view v;
    for (size_t i = 0; flx_graph_node(g, i, &v) == FLX_OK; i++)
        n += strcmp(v.op, op) == 0;
    return n;
}

static void fill(flx_tensor *t)
{
    for (int64_t k = 0; k < flx_tensor_count(t); k++)
        if (flx_tensor_type(t)->dtype == FLX_I32)
            ((int32_t *)flx_tensor_data(t))[k] = (int32_t)(k % 2 * 5); /* one of them twice */
        else
            ((float *)flx_tensor_data(t))[k] = (float)((k * 7 + 3) % 11 - 5) / 8;
}

/* The first result of the graph by the reference evaluator. */
static flx_tensor *run(const flx_graph *g)
{
    flx_feed feeds[4];
    flx_tensor *out[2] = {NULL, NULL};
    flx_error err = {0};
    const flx_run_options o = {.struct_size = sizeof o, .device = "ref"};
    for (size_t i = 0; i < 4; i++) {
        flx_val v = flx_graph_input(g, i);
        flx_tensor *t = flx_tensor_new(flx_graph_context(g), flx_val_type(g, v), NULL, &err);
        CHECK_MADE(t, &err);
        fill(t);
        feeds[i] = (flx_feed){flx_val_name(g, v), t};
    }
    CHECK_OK(flx_run(g, &o, feeds, 4, out, &err), &err);
    for (size_t i = 0; i < 4; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    flx_tensor_release(out[1]);
    return out[0];
}

static void check_row(const flx_graph *g, size_t row)
{
    flx_error err = {0};
    flx_graph *joined, *tidy;
    CHECK_OK(flxi_pass_join_scatters(g, &joined, NULL, &err), &err);
    CHECK_MSG(count(joined, "add") == rows[row].sums, "row %zu: %zu sums are left", row, count(joined, "add"));
    CHECK_OK(flxi_pass_dce(joined, &tidy, NULL, &err), &err);
    flx_tensor *a = run(g), *b = run(tidy);
    for (int64_t k = 0; flx_tensor_type(a)->dtype == FLX_F32 && k < flx_tensor_count(a); k++)
        CHECK_NEAR(((const float *)flx_tensor_const_data(a))[k], ((const float *)flx_tensor_const_data(b))[k], 1e-5);
    flx_tensor_release(a);
    flx_tensor_release(b);
    flx_graph_release(tidy);
    flx_graph_release(joined);
}

TEST(join_scatters_adds_rows_in_place_where_nothing_else_needs_them)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        flx_module *m = flx_parse(ctx, rows[i].text, strlen(rows[i].text), "row", &err);
        CHECK_MSG(m, "%s: %s", rows[i].text, err.message);
        check_row(flx_module_main(m), i);
        flx_module_free(m);
        flx_context_free(ctx);
        test_count_case();
    }
}
