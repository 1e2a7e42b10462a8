/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.c: helpers with which patterns examine graphs and build proposals; see pattern.h. */
#include "passes/patterns/pattern.h"

#include "base/number.h"
#include "graph/op/eval.h"
#include "ops/composite/fused.h"

#include <math.h>

/* ---- Looking at a graph ---- */

bool flxi_known_number(const flx_graph *g, uint32_t id, double *x)
{
    const double most = 0x1p53; /* larger integers cannot be distinguished */
    const flxi_node *n = flxi_maker(g, id);
    const flx_tensor *t = NULL;
    while (n->op == OP_expand || n->op == OP_broadcast_in_dim || n->op == OP_reshape || n->op == OP_unsqueeze ||
           n->op == OP_squeeze)
        n = flxi_maker(g, n->in[0]);
    if (n->op == OP_full)
        t = flxi_node_tensor(n, "value");
    else if (flxi_is_const(n) && flxi_const_data(n)->count == 1)
        t = flxi_const_data(n);
    if (!t || flxi_is_complex(t->type.dtype))
        return false;
    *x = flxi_load_double(t->type.dtype, t->data, 0);
    return !flxi_is_int(t->type.dtype) || fabs(*x) < most;
}

bool flxi_is_reshaped(const flx_graph *g, uint32_t id, uint32_t *base)
{
    const flxi_node *n = flxi_maker(g, id);
    if (n->op != OP_reshape && n->op != OP_unsqueeze && n->op != OP_squeeze)
        return false;
    *base = n->in[0];
    return true;
}

uint32_t flxi_reshaped_from(const flx_graph *g, uint32_t id)
{
    while (flxi_is_reshaped(g, id, &id))
        continue;
    return id;
}

/* A type with n elements along one axis and 1 along all others. */
static bool is_line(const flx_type *t, flx_dim n)
{
    int wide = 0;
    for (int k = 0; k < t->rank; k++) {
        if (t->dims[k] != 1 && t->dims[k] != n)
            return false;
        wide += t->dims[k] == n;
    }
    return wide == 1 || (n == 1 && t->rank > 0);
}

bool flxi_as_vector(const flx_graph *g, uint32_t v, flx_dim n, flxi_pattern_operand *out)
{
    uint32_t line = 0;
    for (;;) {
        const flx_type *t = flxi_type_at(g, v);
        const flxi_node *made = flxi_maker(g, v);
        if (is_line(t, n)) {
            line = line && t->rank != 1 ? line : v;
            if (t->rank == 1)
                break;
        }
        if (made->op != OP_expand && made->op != OP_broadcast_in_dim && !flxi_is_reshaped(g, v, &v))
            break;
        if (made->op == OP_expand || made->op == OP_broadcast_in_dim)
            v = made->in[0];
    }
    if (!line)
        return false;
    *out = flxi_whole(line);
    if (flxi_type_at(g, line)->rank != 1) {
        out->view = VIEW_RESHAPE;
        out->rank = 1;
        out->dims[0] = n;
    }
    return true;
}

/* ---- Building proposals ---- */

void flxi_propose_attr(flxi_proposal *p, flx_attr a)
{
    if (p->nattrs < FLXI_MOST_ATTRS)
        p->attrs[p->nattrs++] = a;
}

void flxi_propose_attrs_of(flxi_proposal *p, const flxi_node *n)
{
    flx_node_attr_view a;
    for (uint32_t k = 0; flxi_node_attr(n, k, &a); k++)
        /* The text of a word does not outlive the view. Where one matters, the proof fails. */
        if (!a.is_default && a.value.kind != FLX_ATTR_WORD && flxi_find_attr(&flxi_ops[p->op], a.value.key))
            flxi_propose_attr(p, a.value);
}

double flxi_short_number(int32_t dtype, double x)
{
    char text[FLXI_NUMBER_MAX];
    double y;
    int digits = dtype == FLX_F64 ? 53 : dtype == FLX_F32 ? 24 : dtype == FLX_F16 ? 11 : 8;
    size_t n = flxi_write_double(text, x, digits);
    return flxi_read_double(text, n, &y) ? y : x;
}

int64_t flxi_activation_of(flxi_opcode op)
{
    switch (op) {
#define ROW(name) \
    case OP_##name: return FLXI_ACT_##name;
        FLXI_ACTIVATION_MAP(ROW)
#undef ROW
    default: return FLXI_ACT_none;
    }
}
