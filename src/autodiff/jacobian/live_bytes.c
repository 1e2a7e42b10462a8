/* SPDX-License-Identifier: Apache-2.0 */
/* live_bytes.c: estimates how much memory a graph will need while it runs: every value counts from the node that makes
   it to the last node that reads it, in the order of the nodes, and all values of a body while its node runs. Values
   that depend on the seed exist once per copy, the others once. Bytes are counted in double: exact as far as any memory
   goes, and no sum overflows. */
#include "autodiff/jacobian/jacobian.h"

typedef struct {
    const flx_graph *g;
    uint32_t *last_use;  /* by id: index of the last node that reads it; UINT32_MAX: it stays */
    bool *copied;        /* by id: depends on the seed */
    double shared, each; /* bytes that are live now: once, and for each copy */
    double budget;
    double most; /* copies that it allows so far */
} meter;

static double bytes_of(const flx_graph *g, uint32_t id)
{
    size_t nbytes = 0;
    return flxi_static_bytes(flxi_type_at(g, id), &nbytes) ? (double)nbytes : 0.0;
}

static double bytes_of_all(const flx_graph *g);

static flx_code add_body(void *user, const flx_graph *body)
{
    *(double *)user += bytes_of_all(body);
    return FLX_OK;
}

static double bytes_of_bodies(const flxi_node *n)
{
    double sum = 0.0;
    const flxi_attr_visitor v = {.graph = add_body, .user = &sum};
    flxi_attrs_visit(&flxi_ops[n->op], n->attrs, &v);
    return sum;
}

/* An upper bound for a body: the lifetimes of its values are not followed. */
static double bytes_of_all(const flx_graph *g)
{
    double sum = 0.0;
    for (uint32_t id = 1; id <= g->value_count; id++)
        sum += bytes_of(g, id);
    for (uint32_t i = 0; i < g->node_count; i++)
        sum += bytes_of_bodies(flxi_node_at(g, i));
    return sum;
}

static void find_last_uses(meter *m)
{
    for (uint32_t i = 0; i < m->g->node_count; i++) {
        const flxi_node *n = flxi_node_at(m->g, i);
        for (uint32_t k = 0; k < n->nout; k++)
            m->last_use[n->first + k] = i;
        for (uint32_t k = 0; k < n->nin; k++)
            m->last_use[n->in[k]] = i;
    }
    for (size_t i = 0; i < m->g->outputs.n; i++)
        m->last_use[m->g->outputs.at[i].val] = UINT32_MAX;
}

/* Inputs other than the seed are the caller's. */
static void count(meter *m, uint32_t id, double sign)
{
    const flxi_node *n = flxi_node_of(m->g, id);
    if (m->copied[id])
        m->each += sign * bytes_of(m->g, id);
    else if (!(flxi_ops[n->op].traits & TRAIT_DECLARED))
        m->shared += sign * bytes_of(m->g, id);
}

static void count_if_last(meter *m, uint32_t id, uint32_t i)
{
    if (m->last_use[id] != i)
        return;
    m->last_use[id] = UINT32_MAX; /* an operand that appears twice is freed once */
    count(m, id, -1.0);
}

static void run_node(meter *m, uint32_t i)
{
    const flxi_node *n = flxi_node_at(m->g, i);
    bool is_copied = false;
    for (uint32_t k = 0; k < n->nin; k++)
        is_copied |= m->copied[n->in[k]];
    for (uint32_t k = 0; k < n->nout; k++) {
        m->copied[n->first + k] |= is_copied;
        count(m, n->first + k, 1.0);
    }
    double inside = bytes_of_bodies(n);
    double each = m->each + (is_copied ? inside : 0.0);
    double left = m->budget - m->shared - (is_copied ? 0.0 : inside);
    if (each > 0.0 && left / each < m->most)
        m->most = left / each;
    for (uint32_t k = 0; k < n->nin; k++)
        count_if_last(m, n->in[k], i);
    for (uint32_t k = 0; k < n->nout; k++)
        count_if_last(m, n->first + k, i);
}

flx_code flxi_copies_within(const flx_graph *g, uint32_t seed, int64_t budget, int64_t *copies, flx_error *err)
{
    const flxi_allocator *mem = &g->ctx->mem;
    size_t ids = (size_t)g->value_count + 1;
    meter m = {.g = g, .budget = (double)budget, .most = 0x1p53};
    *copies = 1;
    if (g->symbols.n) /* some extent is not known */
        return FLX_OK;
    m.last_use = flxi_alloc(mem, ids, sizeof *m.last_use);
    m.copied = flxi_alloc(mem, ids, sizeof *m.copied);
    flx_code code = m.last_use && m.copied ? FLX_OK : flxi_oom(err, "a Jacobian");
    if (code == FLX_OK) {
        m.copied[seed] = true;
        find_last_uses(&m);
        for (uint32_t i = 0; i < g->node_count; i++)
            run_node(&m, i);
        *copies = m.most > 1.0 ? (int64_t)m.most : 1;
    }
    flxi_free(mem, m.last_use, ids, sizeof *m.last_use);
    flxi_free(mem, m.copied, ids, sizeof *m.copied);
    return code;
}
