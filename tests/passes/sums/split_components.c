/* SPDX-License-Identifier: Apache-2.0 */
/* split_components.c: which reductions of vectors are computed component by component, and that values stay. */
#include "graph/count_nodes.h"
#include "passes/pass.h"
#include "passes/pass_case.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

/* Inputs a: f64[64, 3] and b: f64[64]. */
static const struct {
    const char *body;
    size_t stacks;  /* reductions that are split */
    size_t vectors; /* values of at least 64 x 64 x 3 elements that are left */
} rows[] = {
    {"d = sub(unsqueeze(a, axes=[0]), unsqueeze(a, axes=[1]))\n  return reduce_sum(d, axes=[1])", 1, 0},
    {"d = sub(unsqueeze(a, axes=[0]), unsqueeze(a, axes=[1]))\n  return reduce_sum(d, axes=[0])", 1, 0},
    {"d = sub(unsqueeze(a, axes=[0]), unsqueeze(a, axes=[1]))\n  return reduce_max(d, axes=[0], keep_dims=true)", 1, 0},
    {"d = sub(unsqueeze(a, axes=[0]), unsqueeze(a, axes=[1]))\n  return reduce_sum(d, axes=[0, 1])", 1, 0},
    /* lengths of the same vectors, and a factor for each */
    {"d = sub(unsqueeze(a, axes=[0]), unsqueeze(a, axes=[1]))\n  r = sqrt(add(reduce_sum(mul(d, d), axes=[2]), 1))\n"
     "  return reduce_sum(div(d, unsqueeze(r, axes=[2])), axes=[1]), reduce_sum(r)",
     1, 0},
    {"d = sub(unsqueeze(a, axes=[0]), unsqueeze(a, axes=[1]))\n  r = reduce_sum(mul(d, d), axes=[2], keep_dims=true)\n"
     "  return reduce_sum(mul(d, r), axes=[1]), reduce_sum(mul(d, r), axes=[0])",
     2, 0},
    /* other views, conditions, operands without the axis, a constant */
    {"x = broadcast_in_dim(a, shape=[64, 64, 3], axes=[1, 2])\n  y = reshape(a, shape=[64, 1, 3])\n"
     "  z = where(lt(x, y), mul(x, unsqueeze(b, axes=[1])), sub(y, const(f64[3], [1, -2, 3])))\n"
     "  return reduce_sum(z, axes=[0])",
     1, 0},
    /* the vectors themselves are needed as well */
    {"d = sub(unsqueeze(a, axes=[0]), unsqueeze(a, axes=[1]))\n  return reduce_sum(d, axes=[1]), d", 1, 1},
    /* components are read from what no pointwise op makes */
    {"d = cumsum(mul(unsqueeze(a, axes=[0]), unsqueeze(a, axes=[1])), axis=0)\n  return reduce_sum(exp(d), axes=[1])",
     1, 2},
    /* nothing to gain: few terms, few elements, no vectors */
    /* sums of components; slices of them, put together again, as in a cross product; an expanded operand */
    {"d = sub(unsqueeze(a, axes=[0]), unsqueeze(a, axes=[1]))\n  return reduce_sum(mul(d, d), axes=[-1], "
     "keep_dims=true)",
     0, 0},
    {"d = sub(unsqueeze(a, axes=[0]), unsqueeze(a, axes=[1]))\n"
     "  u = slice(d, start=[0, 0, 1], limit=[64, 64, 2], stride=[1, 1, 1])\n"
     "  w = narrow(d, axis=2, start=2, len=1)\n  c = concat(w, abs(u), w, axis=2)\n"
     "  return reduce_sum(mul(c, d), axes=[2])",
     0, 0},
    {"d = mul(expand(unsqueeze(a, axes=[0]), shape=[64, 64, 3]), 2)\n  e = narrow(d, axis=2, start=1, len=2)\n"
     "  return narrow(stack(reduce_sum(d, axes=[2]), reduce_sum(e, axes=[2]), axis=2), axis=2, start=1, len=1)",
     0, 0},
    /* but not where something else reads the vectors, or a slice takes some of them */
    {"d = sub(unsqueeze(a, axes=[0]), unsqueeze(a, axes=[1]))\n  return reduce_sum(mul(d, d), axes=[2]), cumsum(d, "
     "axis=0)",
     0, 2},
    {"d = sub(unsqueeze(a, axes=[0]), unsqueeze(a, axes=[1]))\n"
     "  return slice(d, start=[0, 9, 1], limit=[64, 64, 3], stride=[1, 1, 1])",
     0, 1},
    {"return reduce_sum(reshape(mul(a, 2), shape=[8, 8, 3]), axes=[1])", 0, 0},
    {"return reduce_sum(mul(unsqueeze(b, axes=[0]), unsqueeze(b, axes=[1])), axes=[1])", 0, 0},
};

static size_t count_vectors(const flx_graph *g)
{
    size_t n = 0;
    flx_node_view v;
    for (size_t i = 0; flx_graph_node(g, i, &v) == FLX_OK; i++) {
        const flx_type *t = flx_val_type(g, flx_node_result(g, i, 0));
        n += t->rank == 3 && t->dims[0] * t->dims[1] * t->dims[2] >= 64 * 64 * 3 && strcmp(v.op, "reshape") != 0 &&
             strcmp(v.op, "unsqueeze") != 0 && strcmp(v.op, "broadcast_in_dim") != 0;
    }
    return n;
}

TEST(split_components_of_reduced_vectors)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[640];
        flx_error err = {0};
        flx_graph *split, *clean;
        snprintf(text, sizeof text, "graph g(a: f64[64, 3], b: f64[64]) {\n  %s\n}\n", rows[i].body);
        pass_case c = pass_case_begin(text);
        CHECK_OK(flxi_pass_split_components(c.g, &split, NULL, &err), &err);
        CHECK_OK(flxi_simplify(split, &clean, NULL, &err), &err);
        EXPECT_MSG(count_nodes(clean, "stack") == rows[i].stacks, "%zu are split", count_nodes(clean, "stack"));
        EXPECT_MSG(count_vectors(clean) == rows[i].vectors, "%zu values have vectors", count_vectors(clean));
        pass_case_near(&c, clean, 1e-12);
        flx_graph_release(split);
        flx_graph_release(clean);
        pass_case_end(&c);
    }
}
