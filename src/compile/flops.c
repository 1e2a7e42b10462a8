/* SPDX-License-Identifier: Apache-2.0 */
/* flops.c: see flops.h. Sizes come from the types alone; a count that does not fit is the largest that does. */
#include "compile/flops.h"

#include "graph/op/opcode.h"
#include "ops/signal/conv.h"

static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t count_of(const flx_type *t)
{
    int64_t count = 0;
    return flxi_static_count(t, &count) ? count : 0;
}

static bool is_floating(const flx_type *t)
{
    return flxi_in(FLXI_FLOATS | FLXI_COMPLEX, t->dtype);
}

static const flx_type *operand(const flx_graph *g, const flxi_node *n, uint32_t i)
{
    return flxi_type_at(g, n->in[i]);
}

/* ---- Products: how many pairs are multiplied ---- */

static int64_t pairs_of_matmul(const flx_graph *g, const flxi_node *n)
{
    const flx_type *a = operand(g, n, 0);
    return times(count_of(flxi_type_at(g, n->first)), a->dims[a->rank - 1]);
}

static int64_t pairs_of_dot(const flx_graph *g, const flxi_node *n)
{
    const flx_type *l = operand(g, n, 0);
    int64_t pairs = count_of(flxi_type_at(g, n->first));
    for (const flxi_attr *a = flxi_ops[n->op].rules->schema; a && a->name; a++) {
        if (strcmp(a->name, "lc") != 0)
            continue;
        const flx_ints *axes = (const void *)((const char *)n->attrs + a->offset);
        for (size_t k = 0; k < axes->n; k++)
            pairs = times(pairs, l->dims[axes->v[k]]);
    }
    return pairs;
}

/* Each element on the side of the features meets all weights of its feature. */
static int64_t pairs_of_conv(const flx_type *features, const flx_type *w, int64_t axis)
{
    return w->dims[axis] ? times(count_of(features), count_of(w) / w->dims[axis]) : 0;
}

/* Each row meets one matrix, wherever the weights stand. */
static int64_t pairs_of_grouped(const flx_type *rows, const flx_type *w)
{
    return times(rows->dims[0], times(w->dims[1], w->dims[2]));
}

/* Eliminations: the leading terms, `sixths` / 6 of the cube of the extent for each matrix, and half a product of the
   matrix with the right-hand sides for each triangle. */
static int64_t pairs_of_elimination(const flx_graph *g, const flxi_node *n, int64_t sixths, int64_t triangles)
{
    const flx_type *a = operand(g, n, 0);
    int64_t extent = a->dims[a->rank - 1];
    int64_t factors = times(times(count_of(a), extent), sixths) / 6;
    int64_t sides = times(times(count_of(flxi_type_at(g, n->first)), extent), triangles) / 2;
    return factors > INT64_MAX - sides ? INT64_MAX : factors + sides;
}

static int64_t pairs_of(const flx_graph *g, const flxi_node *n)
{
    const flx_type *y = flxi_type_at(g, n->first);
    switch (n->op) {
    case OP_matmul:
        return pairs_of_matmul(g, n);
    case OP_dot_general:
        return pairs_of_dot(g, n);
    case OP_conv:
        return pairs_of_conv(y, operand(g, n, 1), ((const flxi_conv_attrs *)n->attrs)->kernel_axes.v[0]);
    case OP_conv_transpose:
    case OP_conv_backward_input:
        return pairs_of_conv(operand(g, n, 0), operand(g, n, 1), 0);
    case OP_grouped_matmul:
    case OP_grouped_matmul_input_backward:
        return pairs_of_grouped(operand(g, n, 0), operand(g, n, 1));
    case OP_grouped_matmul_weight_backward:
        return pairs_of_grouped(operand(g, n, 0), y);
    case OP_conv_backward_weight:
        return pairs_of_conv(operand(g, n, 1), y, 0);
    case OP_lu:
    case OP_det:
        return pairs_of_elimination(g, n, 2, 0);
    case OP_cholesky:
        return pairs_of_elimination(g, n, 1, 0);
    case OP_solve:
    case OP_inv:
        return pairs_of_elimination(g, n, 2, 2);
    case OP_solve_triangular:
        return pairs_of_elimination(g, n, 0, 1);
    default:
        return 0; /* other products are made of these before they are computed */
    }
}

/* ---- All ---- */

int64_t flxi_node_flops(const flx_graph *g, uint32_t node)
{
    const flxi_node *n = flxi_node_at(g, node);
    if (n->nin == 0 || n->nout == 0)
        return 0;
    const flx_type *y = flxi_type_at(g, n->first);
    bool is_arithmetic = is_floating(y);
    for (uint32_t i = 0; i < n->nin; i++)
        is_arithmetic |= is_floating(operand(g, n, i));
    if (!is_arithmetic)
        return 0;
    switch (flxi_ops[n->op].op_class) {
    case CLASS_POINTWISE:
        return count_of(y);
    case CLASS_REDUCE:
    case CLASS_AXIS:
        return count_of(operand(g, n, 0));
    case CLASS_PRODUCT:
        return times(pairs_of(g, n), flxi_in(FLXI_COMPLEX, y->dtype) ? 8 : 2);
    default:
        return 0;
    }
}
