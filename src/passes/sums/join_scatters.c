/* SPDX-License-Identifier: Apache-2.0 */
/* join_scatters.c: rows that are scattered into zeros and then added to another tensor are added to that tensor in
   place. The gradient of a table that is looked up and multiplied with, such as tied embeddings, is such a sum: the
   zeros would take as much memory as the table, and be written and read although few rows differ from them.

   The order of additions changes, and with it the last bits; f16 and bf16 would be rounded once more and are left
   alone. */
#include "ops/index/gather_nd.h"
#include "ops/opcode.h"
#include "ops/rule/oob.h"
#include "passes/pass.h"

#include <fluxion/ops.h>

/* Smaller results are not worth a node that copies its operand where that is still needed. */
static const int64_t min_count = 4096;

static bool is_used_once(const flx_graph *g, const uint32_t *uses, uint32_t value)
{
    return uses[value] == 1 && !flxi_value_at(g, value)->pinned;
}

/* Whether the value may be overwritten: computed, and read by the sum alone. */
static bool is_computed_for_it(const flx_graph *g, const uint32_t *uses, uint32_t value)
{
    const flxi_node *n = flxi_node_at(g, flxi_value_at(g, value)->node);
    return is_used_once(g, uses, value) && !(flxi_ops[n->op].traits & TRAIT_DECLARED) && !flxi_is_const(n) &&
           flxi_ops[n->op].op_class != CLASS_LEAF;
}

/* Whether node s scatters sums into zeros. */
static bool scatters_into_zeros(const flx_graph *g, const flxi_node *s)
{
    const flxi_nd_attrs *a = flxi_scatter_nd_attrs_of(s->op, s->attrs);
    if (s->op == OP_scatter_add)
        return true;
    const flx_tensor *zero = a ? flxi_uniform(g, s->in[0]) : NULL;
    bool adds = a && (a->combine.graph ? flxi_scatter_adds(&a->combine) : a->combine.word == FLXI_SCATTER_ADD);
    return adds && zero && flxi_load_double(zero->type.dtype, zero->data, 0) == 0;
}

/* The scatter that is operand k of the sum n, if this can be joined with the other operand; otherwise NULL. */
static const flxi_node *joined_scatter(const flx_graph *g, const flxi_node *n, const uint32_t *uses, uint32_t k)
{
    const flx_type *t = flxi_type_at(g, n->first);
    const flxi_node *s = flxi_node_at(g, flxi_value_at(g, n->in[k])->node);
    uint32_t other = n->in[1 - k];
    int64_t count;
    if ((t->dtype != FLX_F32 && t->dtype != FLX_F64) || !flxi_static_count(t, &count) || count < min_count)
        return NULL;
    bool fits = flxi_type_equal(flxi_type_at(g, n->in[k]), t) && flxi_type_equal(flxi_type_at(g, other), t);
    bool is_alone = is_used_once(g, uses, n->in[k]) && is_computed_for_it(g, uses, other);
    return fits && is_alone && scatters_into_zeros(g, s) ? s : NULL;
}

static flx_val in_copy(const flxi_copy *c, uint32_t value)
{
    return (flx_val){c->remap.id[value], c->to->serial};
}

/* The rows of scatter_add, added to `to`. */
static uint32_t scatter_rows(flxi_copy *c, const flxi_node *s, uint32_t to)
{
    const int64_t first_axis = 0;
    int64_t window[FLX_MAX_RANK];
    int rank = flxi_type_at(c->from, s->in[0])->rank, index_rank = flxi_type_at(c->from, s->in[1])->rank;
    for (int k = index_rank; k < rank; k++)
        window[k - index_rank] = k;
    flx_scatter_nd_attrs a = FLX_SCATTER_ND_ATTRS;
    a.start_index_map = a.collapsed_axes = (flx_ints){&first_axis, 1};
    a.offset_axes = (flx_ints){window, (size_t)(rank - index_rank)};
    a.index_vector_axis = index_rank;
    a.oob = flxi_oob_word(flxi_node_int(s, "oob"));
    return flx_scatter_nd_with(c->to, in_copy(c, to), in_copy(c, s->in[1]), in_copy(c, s->in[0]), &a).id;
}

/* The windows of scatter_nd, added to `to`. */
static flx_code scatter_windows(flxi_copy *c, const flxi_node *s, uint32_t to, uint32_t *id)
{
    void *attrs;
    FLXI_TRY(flxi_attrs_clone(c->to, &flxi_ops[s->op], s->attrs, &c->attrs, &attrs, c->err));
    const uint32_t in[3] = {c->remap.id[to], c->remap.id[s->in[1]], c->remap.id[s->in[2]]};
    *id = flxi_add_node(c->to, s->op, in, 3, attrs);
    return FLX_OK;
}

/* In place of the sum n with the other operand, `to`. */
static flx_code join(flxi_copy *c, const flxi_node *n, const flxi_node *s, uint32_t to)
{
    uint32_t id = 0;
    if (s->op == OP_scatter_add)
        id = scatter_rows(c, s, to);
    else
        FLXI_TRY(scatter_windows(c, s, to, &id));
    FLXI_TRY(flx_graph_error(c->to, c->err));
    flxi_copy_replace(c, n->first, id);
    return FLX_OK;
}

static flx_code join_or_copy(flxi_copy *c, uint32_t i, const uint32_t *uses)
{
    const flxi_node *n = flxi_node_at(c->from, i);
    for (uint32_t k = 0; n->op == OP_add && k < 2; k++) {
        const flxi_node *s = joined_scatter(c->from, n, uses, k);
        if (s)
            return join(c, n, s, n->in[1 - k]);
    }
    return flxi_copy_node(c, i);
}

flx_code flxi_pass_join_scatters(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    uint32_t *uses = NULL;
    flx_code code = flxi_copy_begin(&c, in, err);
    if (code == FLX_OK && !(uses = flxi_count_uses(in)))
        code = flxi_oom(err, "a pass");
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++)
        code = join_or_copy(&c, i, uses);
    if (uses)
        flxi_free(&in->ctx->mem, uses, (size_t)in->value_count + 1, sizeof *uses);
    return flxi_copy_end(&c, code, out, remap);
}
