/* SPDX-License-Identifier: Apache-2.0 */
/* join_scatters.c: which scatters into zeros are joined with the tensor that they are added to. */
#include "graph/count_nodes.h"
#include "passes/pass.h"
#include "passes/pass_case.h"
#include "test.h"

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

TEST(join_scatters_adds_rows_in_place_where_nothing_else_needs_them)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        flx_graph *joined, *tidy;
        pass_case c = pass_case_begin(rows[i].text);
        CHECK_OK(flxi_pass_join_scatters(c.g, &joined, NULL, &err), &err);
        CHECK_MSG(count_nodes(joined, "add") == rows[i].sums, "%zu sums are left", count_nodes(joined, "add"));
        CHECK_OK(flxi_pass_dce(joined, &tidy, NULL, &err), &err);
        pass_case_near(&c, tidy, 1e-5);
        flx_graph_release(tidy);
        flx_graph_release(joined);
        pass_case_end(&c);
    }
}
