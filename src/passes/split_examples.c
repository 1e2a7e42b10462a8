/* SPDX-License-Identifier: Apache-2.0 */
/* split_examples.c: the body of a loop for a part of its examples. Where every op of a body treats the rows of its
   carries and sequences (their first axis) independently, the loop over all rows can be split into loops over some rows
   each, which threads run in parallel from the first step to the last. Only ops whose bits do not depend on the number
   of rows qualify: elementwise ones, views along other axes, and products large enough to be products in either
   case. */
#include "passes/pass.h"

#include "graph/op/attr_access.h"
#include "ops/opcode.h"

/* Multiplications of a step per thread below which splitting does not pay: about a microsecond. And elements of a value
   per thread above which it is better to split the work of a step among threads than the examples. */
static const int64_t least_work = 1 << 15, most_elements = 1 << 13;

typedef struct {
    const flx_graph *body;
    bool *has_rows; /* by value: its first axis is that of the examples */
    int64_t rows, parts, work;
} splitting;

/* Operands meet at their last axes: those with rows have all axes of the result, the others at most one of extent 1
   there. */
static bool is_pointwise(const splitting *s, const flxi_node *n)
{
    int rank = flxi_type_at(s->body, n->first)->rank;
    for (uint32_t k = 0; k < n->nin; k++) {
        const flx_type *t = flxi_type_at(s->body, n->in[k]);
        if (s->has_rows[n->in[k]] ? t->rank != rank : t->rank == rank && t->dims[0] != 1)
            return false;
    }
    return n->nout == 1 && flxi_ops[n->op].op_class == CLASS_POINTWISE;
}

static bool is_product(splitting *s, const flxi_node *n)
{
    if (n->op != OP_matmul)
        return false;
    const flx_type *a = flxi_type_at(s->body, n->in[0]), *b = flxi_type_at(s->body, n->in[1]);
    if (a->rank != 2 || b->rank != 2 || !s->has_rows[n->in[0]] || s->has_rows[n->in[1]])
        return false;
    int64_t work = a->dims[0] * b->dims[0] * b->dims[1];
    s->work += work;
    return work / s->parts > FLXI_MOST_SPREAD;
}

static bool is_view(const flxi_node *n)
{
    if (n->op == OP_narrow)
        return flxi_node_int(n, "axis") != 0;
    static const char *const sides[] = {"low", "high", "interior"};
    for (size_t k = 0; n->op == OP_pad && k < 3; k++)
        if (flxi_node_ints(n, sides[k])->v[0] != 0)
            return false;
    return n->op == OP_pad;
}

static bool treats_rows_alike(splitting *s, const flxi_node *n)
{
    bool any = false;
    for (uint32_t k = 0; k < n->nin; k++)
        any |= s->has_rows[n->in[k]];
    if (!any)
        return true;
    if (flxi_has_effect(n) || (!is_pointwise(s, n) && !is_product(s, n) && !(is_view(n) && s->has_rows[n->in[0]])))
        return false;
    int64_t elements = 0;
    s->has_rows[n->first] = true;
    return flxi_static_count(flxi_type_at(s->body, n->first), &elements) && elements / s->parts <= most_elements;
}

static bool can_split(splitting *s, const bool *is_shared)
{
    const flx_graph *g = s->body;
    for (size_t i = 0; i < g->leaves.n; i++) {
        const flx_type *t = flxi_type_at(g, g->leaves.at[i]);
        if (is_shared[i])
            continue;
        s->rows = s->rows ? s->rows : t->rank ? t->dims[0] : 0;
        if (t->rank == 0 || t->dims[0] != s->rows)
            return false;
        s->has_rows[g->leaves.at[i]] = true;
    }
    if (s->rows == 0 || s->rows % s->parts)
        return false;
    for (uint32_t i = 0; i < g->node_count; i++)
        if (!treats_rows_alike(s, flxi_node_at(g, i)))
            return false;
    for (size_t k = 0; k < g->outputs.n; k++)
        if (!s->has_rows[g->outputs.at[k].val])
            return false;
    return s->work / s->parts >= least_work;
}

/* Makes copied nodes infer their types again. */
static flx_dim same_dim(void *user, flx_dim d, flx_error *err)
{
    (void)user;
    (void)err;
    return d;
}

static flx_code copy_part(const splitting *s, flx_graph **out, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, s->body, err);
    c.attrs.dim = same_dim;
    for (uint32_t i = 0; code == FLX_OK && i < s->body->node_count; i++) {
        const flxi_node *n = flxi_node_at(s->body, i);
        if (!(flxi_ops[n->op].traits & TRAIT_DECLARED)) {
            code = flxi_copy_node(&c, i);
            continue;
        }
        flx_type t = *flxi_type_at(s->body, n->first);
        if (s->has_rows[n->first])
            t.dims[0] /= s->parts;
        uint32_t id = flxi_add_leaf_like(c.to, s->body, n->first, &t);
        code = id ? FLX_OK : flx_graph_error(c.to, err);
        if (id)
            flxi_copy_replace(&c, n->first, id);
    }
    return flxi_copy_end(&c, code, out, NULL);
}

flx_code flxi_split_examples(const flx_graph *body, const bool *is_shared, int64_t parts, flx_graph **out,
                             flx_error *err)
{
    const flxi_allocator *mem = &body->ctx->mem;
    splitting s = {.body = body, .parts = parts};
    *out = NULL;
    s.has_rows = flxi_alloc(mem, (size_t)body->value_count + 1, sizeof *s.has_rows);
    if (!s.has_rows)
        return flxi_oom(err, "a pass");
    flx_code code = can_split(&s, is_shared) ? copy_part(&s, out, err) : FLX_OK;
    flxi_free(mem, s.has_rows, (size_t)body->value_count + 1, sizeof *s.has_rows);
    return code;
}
