/* SPDX-License-Identifier: Apache-2.0 */
/* block_ops.c: how ops treat the axis that is cut into blocks. The rule `link` of an op says where an axis goes; here
   is the list of ops whose results at a position do not depend on the position itself, and what a reshape does to an
   axis whose blocks are parts of a longer axis. */
#include "passes/blocks/block_rows.h"

#include "graph/op/attr_access.h"
#include "ops/opcode.h"

bool flxi_is_contraction(const flxi_node *n)
{
    return n->op == OP_matmul || n->op == OP_dot_general;
}

static bool is_reshape(const flxi_node *n)
{
    return n->op == OP_reshape || n->op == OP_squeeze || n->op == OP_unsqueeze;
}

static bool is_known_op(const flx_graph *g, const flxi_node *n)
{
    switch (n->op) {
    case OP_reshape:
    case OP_squeeze:
    case OP_unsqueeze:
    case OP_transpose:
    case OP_expand:
    case OP_broadcast_in_dim:
    case OP_narrow:
    case OP_slice:
    case OP_pad:
    case OP_concat:
    case OP_stop_gradient:
    case OP_iota:
    case OP_full:
    case OP_dot_general: return true;
    case OP_matmul: return flxi_type_at(g, n->in[0])->rank > 1 && flxi_type_at(g, n->in[1])->rank > 1;
    default: break;
    }
    const flxi_op *op = &flxi_ops[n->op];
    return op->op_class == CLASS_POINTWISE || (op->op_class == CLASS_REDUCE && op->rules->fold);
}

bool flxi_block_knows(const flx_graph *g, const flxi_node *n)
{
    if (n->nout != 1 || flxi_has_effect(n) || flxi_value_at(g, n->first)->pinned || !is_known_op(g, n))
        return false;
    for (uint32_t k = 0; k < n->nin; k++)
        if (!flxi_type_is_static(flxi_type_at(g, n->in[k])))
            return false;
    return flxi_type_is_static(flxi_type_at(g, n->first));
}

/* An axis of the result that begins where the operand's does, in the order of elements. */
static int reshaped_axis(const flx_type *x, const flx_type *y, int axis, int64_t extent)
{
    int64_t before = 1, now = 1;
    for (int k = 0; k < axis; k++)
        before *= x->dims[k];
    for (int k = 0; k < y->rank; k++) {
        if (now == before && y->dims[k] % extent == 0)
            return k;
        now *= y->dims[k];
    }
    return -1;
}

int flxi_block_push(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis, int64_t extent)
{
    const flx_type *x = flxi_type_at(g, n->in[operand]), *y = flxi_type_at(g, n->first);
    const flxi_op *op = &flxi_ops[n->op];
    flxi_use use = {.g = g, .n = n, .operand = operand};
    flxi_link link = {.axis = axis};
    if (is_reshape(n))
        return reshaped_axis(x, y, axis, extent);
    if (n->op == OP_stop_gradient)
        return axis;
    if (op->rules->link ? !op->rules->link(&use, &link) : op->op_class != CLASS_POINTWISE)
        return -1;
    if (!op->rules->link)
        link.axis = axis + y->rank - x->rank;
    bool is_same = link.lo == 0 && link.hi == 0 && link.axis >= 0 && x->dims[axis] == y->dims[link.axis];
    return is_same ? link.axis : -1;
}

bool flxi_block_pull(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis, int64_t extent, int *out)
{
    const flx_type *x = flxi_type_at(g, n->in[operand]);
    *out = -1;
    for (int k = 0; k < x->rank && *out < 0; k++)
        if (x->dims[k] % extent == 0 && flxi_block_push(g, n, operand, k, extent) == axis)
            *out = k;
    bool repeats = flxi_ops[n->op].op_class == CLASS_POINTWISE || flxi_is_contraction(n) || n->op == OP_expand ||
                   n->op == OP_broadcast_in_dim || (n->op == OP_pad && operand == 1);
    return *out >= 0 || repeats;
}

static bool has(const flx_ints *axes, int axis, int *at)
{
    for (size_t i = 0; axes && i < axes->n; i++)
        if (axes->v[i] == axis) {
            *at = (int)i;
            return true;
        }
    return false;
}

/* Sums of other dtypes are exact, or rounded in each step. */
static bool is_summed_in_order(const flx_type *t)
{
    return t->dtype == FLX_F32 || t->dtype == FLX_F64;
}

bool flxi_block_sums(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis, int *other)
{
    int at;
    *other = -1;
    if (!is_summed_in_order(flxi_type_at(g, n->first)))
        return false;
    if (n->op == OP_reduce_sum)
        return has(flxi_node_ints(n, "axes"), axis, &at);
    const flx_type *l = flxi_type_at(g, n->in[0]), *r = flxi_type_at(g, n->in[n->nin - 1]);
    if (n->op == OP_matmul) {
        *other = operand ? l->rank - 1 : r->rank - 2;
        return axis == (operand ? r->rank - 2 : l->rank - 1);
    }
    if (n->op != OP_dot_general || !has(flxi_node_ints(n, operand ? "rc" : "lc"), axis, &at))
        return false;
    *other = (int)flxi_node_ints(n, operand ? "lc" : "rc")->v[at];
    return true;
}
