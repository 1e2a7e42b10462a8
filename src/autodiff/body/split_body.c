/* SPDX-License-Identifier: Apache-2.0 */
/* split_body.c: see split_body.h. Nodes without operands (constants, iota), and shapes of those and of inputs, are in
   both parts, so they are never kept. */
#include "autodiff/body/split_body.h"

#include "autodiff/autodiff.h"

#include <stdio.h>

enum { MOST_KEPT = 128 }; /* more are computed again */

typedef struct {
    const flx_graph *joint;
    size_t inputs;  /* of the body: the first leaves of joint */
    size_t outputs; /* of the body: the first outputs of joint */
    bool *is_late;  /* by node: depends on a cotangent */
    bool *is_free;  /* by node: costs nothing, so it is in both parts */
    bool *is_kept;  /* by value: early, and read by something late */
    uint32_t kept;
    flx_error *err;
} splitting;

static bool is_early(const splitting *p, uint32_t id)
{
    return !p->is_late[flxi_value_at(p->joint, id)->node];
}

static bool is_free(const splitting *p, const flxi_node *n)
{
    bool is_free = n->nin == 0 || flxi_ops[n->op].op_class == CLASS_SHAPE;
    for (uint32_t k = 0; k < n->nin; k++)
        is_free &= p->is_free[flxi_value_at(p->joint, n->in[k])->node];
    return is_free;
}

/* An early value that the backward part reads; inputs it has anyway. */
static void keep(splitting *p, uint32_t id)
{
    if (!is_early(p, id) || p->is_free[flxi_value_at(p->joint, id)->node] || p->is_kept[id])
        return;
    p->is_kept[id] = true;
    p->kept++;
}

static void find_parts(splitting *p)
{
    const flx_graph *g = p->joint;
    for (size_t i = p->inputs; i < g->leaves.n; i++)
        p->is_late[flxi_value_at(g, g->leaves.at[i])->node] = true;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        for (uint32_t k = 0; k < n->nin; k++)
            p->is_late[i] |= !is_early(p, n->in[k]);
        p->is_free[i] = !p->is_late[i] && is_free(p, n);
        for (uint32_t k = 0; p->is_late[i] && k < n->nin; k++)
            keep(p, n->in[k]);
    }
    for (size_t k = p->outputs; k < g->outputs.n; k++)
        keep(p, g->outputs.at[k].val);
}

static flx_code add_output(flxi_copy *c, uint32_t id)
{
    flx_output(c->to, (flx_val){c->remap.id[id], c->to->serial}, NULL);
    return flxi_built(c->to, c->err);
}

/* Frees the copy, or hands it over simplified. */
static flx_code finish(flxi_copy *c, flx_code code, flx_graph **out)
{
    flxi_remap_free(&c->remap);
    *out = c->to;
    if (code == FLX_OK)
        code = flxi_finish(out, c->err);
    else {
        flx_graph_release(*out);
        *out = NULL;
    }
    return code;
}

static flx_code copy_forward(const splitting *p, flxi_copy *c)
{
    for (uint32_t i = 0; i < p->joint->node_count; i++)
        if (!p->is_late[i])
            FLXI_TRY(flxi_copy_node(c, i));
    for (size_t k = 0; k < p->outputs; k++)
        FLXI_TRY(add_output(c, p->joint->outputs.at[k].val));
    for (uint32_t id = 1; id <= p->joint->value_count; id++)
        if (p->is_kept[id])
            FLXI_TRY(add_output(c, id));
    return FLX_OK;
}

static flx_code declare_kept(const splitting *p, flxi_copy *c)
{
    uint32_t number = 0;
    for (uint32_t id = 1; id <= p->joint->value_count; id++) {
        char name[32];
        if (!p->is_kept[id])
            continue;
        snprintf(name, sizeof name, "kept%u", number++);
        c->remap.id[id] = flxi_new_leaf(c->to, name, "", flxi_type_at(p->joint, id)).id;
    }
    return flxi_built(c->to, c->err);
}

/* Leaves in the order that the calls rely on: inputs of the body, kept values, cotangents. */
static flx_code copy_backward(const splitting *p, flxi_copy *c)
{
    const flx_graph *g = p->joint;
    for (size_t i = 0; i < g->leaves.n; i++) {
        if (i == p->inputs)
            FLXI_TRY(declare_kept(p, c));
        FLXI_TRY(flxi_copy_node(c, flxi_value_at(g, g->leaves.at[i])->node));
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        bool is_leaf = flxi_ops[n->op].traits & TRAIT_DECLARED;
        if (!is_leaf && (p->is_late[i] || p->is_free[i]))
            FLXI_TRY(flxi_copy_node(c, i));
    }
    for (size_t k = p->outputs; k < g->outputs.n; k++)
        FLXI_TRY(add_output(c, g->outputs.at[k].val));
    return FLX_OK;
}

static flx_code make_part(const splitting *p, flx_code (*copy)(const splitting *p, flxi_copy *c), flx_graph **out)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, p->joint, p->err);
    if (code == FLX_OK)
        code = copy(p, &c);
    return finish(&c, code, out);
}

flx_code flxi_split_joint(const flx_graph *joint, const flx_graph *body, flxi_split_body *out, flx_error *err)
{
    const flxi_allocator *mem = &joint->ctx->mem;
    splitting p = {.joint = joint, .inputs = body->leaves.n, .outputs = body->outputs.n, .err = err};
    size_t ids = (size_t)joint->value_count + 1;
    p.is_late = flxi_alloc(mem, joint->node_count, sizeof *p.is_late);
    p.is_free = flxi_alloc(mem, joint->node_count, sizeof *p.is_free);
    p.is_kept = flxi_alloc(mem, ids, sizeof *p.is_kept);
    flx_code code = p.is_late && p.is_free && p.is_kept ? FLX_OK : flxi_oom(err, "splitting a body");
    *out = (flxi_split_body){0};
    if (code == FLX_OK)
        find_parts(&p);
    if (code == FLX_OK && p.kept <= MOST_KEPT) {
        out->kept = p.kept;
        code = make_part(&p, copy_forward, &out->forward);
        if (code == FLX_OK)
            code = make_part(&p, copy_backward, &out->backward);
    }
    if (code != FLX_OK) {
        flx_graph_release(out->forward);
        *out = (flxi_split_body){0};
    }
    flxi_free(mem, p.is_late, joint->node_count, sizeof *p.is_late);
    flxi_free(mem, p.is_free, joint->node_count, sizeof *p.is_free);
    flxi_free(mem, p.is_kept, ids, sizeof *p.is_kept);
    return code;
}
