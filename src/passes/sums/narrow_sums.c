/* SPDX-License-Identifier: Apache-2.0 */
/* narrow_sums.c: the parts of a sum are sums of parts. Where all that reads a sum are several narrows, which together
   take no more than all of it, each of them becomes the sum of the narrowed operands: it is computed where it is
   wanted, and the whole sum is not written to memory and read again. Such are queries, keys and values as thirds of a
   projection with a bias. Bits do not change. */
#include "passes/pass.h"

#include "graph/op/attr_access.h"
#include "ops/opcode.h"

#include <fluxion/ops.h>

/* How a value is read. */
typedef struct {
    uint32_t uses, parts; /* all of them, and those by narrows … */
    int64_t taken;        /* … which take that many elements together */
} readers;

static void count_readers(const flx_graph *g, readers *of)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        int64_t count;
        for (uint32_t k = 0; k < n->nin; k++)
            of[n->in[k]].uses++;
        if (n->op != OP_narrow || !flxi_static_count(flxi_type_at(g, n->first), &count))
            continue;
        of[n->in[0]].taken += count;
        of[n->in[0]].parts++;
    }
    for (size_t k = 0; k < g->outputs.n; k++)
        of[g->outputs.at[k].val].uses++;
}

/* The sum that narrow n takes a part of, if it is to be narrowed before; otherwise NULL. */
static const flxi_node *sum_of(const flx_graph *g, const readers *of, const flxi_node *n)
{
    int64_t count;
    if (n->op != OP_narrow || flxi_value_at(g, n->in[0])->pinned)
        return NULL;
    const readers *r = &of[n->in[0]];
    const flxi_node *sum = flxi_node_at(g, flxi_value_at(g, n->in[0])->node);
    bool is_cut = sum->op == OP_add && r->parts > 1 && r->parts == r->uses &&
                  flxi_static_count(flxi_type_at(g, n->in[0]), &count) && r->taken <= count;
    return is_cut ? sum : NULL;
}

/* That part of an operand which is broadcast to the shape of the sum; all of it where it has one element along the
   axis. */
static flx_val part_of(flxi_copy *c, const flxi_node *n, uint32_t value, int rank)
{
    const flx_type *t = flxi_type_at(c->from, value);
    int64_t axis = flxi_node_int(n, "axis") - (rank - t->rank);
    flx_val x = {c->remap.id[value], c->to->serial};
    if (axis < 0 || t->dims[axis] == 1)
        return x;
    return flx_narrow(c->to, x, axis, flxi_node_int(n, "start"), flxi_node_int(n, "len"));
}

static flx_code copy_all(flxi_copy *c, const readers *of, flx_error *err)
{
    const flx_graph *g = c->from;
    flx_code code = FLX_OK;
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i), *sum = sum_of(g, of, n);
        if (!sum) {
            code = flxi_copy_node(c, i);
            continue;
        }
        int rank = flxi_type_at(g, n->in[0])->rank;
        flx_val part = flx_add(c->to, part_of(c, n, sum->in[0], rank), part_of(c, n, sum->in[1], rank));
        code = flx_graph_error(c->to, err);
        if (code == FLX_OK)
            flxi_copy_replace(c, n->first, part.id);
    }
    return code;
}

flx_code flxi_pass_narrow_sums(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    const flxi_allocator *mem = &in->ctx->mem;
    size_t ids = (size_t)in->value_count + 1;
    flxi_copy c;
    readers *of = flxi_alloc(mem, ids, sizeof *of);
    if (!of)
        return flxi_oom(err, "the parts of sums");
    count_readers(in, of);
    flx_code code = flxi_copy_begin(&c, in, err);
    if (code == FLX_OK)
        code = copy_all(&c, of, err);
    flxi_free(mem, of, ids, sizeof *of);
    return flxi_copy_end(&c, code, out, remap);
}
