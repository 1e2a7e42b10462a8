/* SPDX-License-Identifier: Apache-2.0 */
/* patterns_norm.c: softmax and normalisations from primitive ops, and ops built on them. */
#include "ops/rule/oob.h"
#include "passes/patterns/pattern.h"

/* The axis of a sum or mean along one axis, kept or brought back by a view; FLXI_ABSENT otherwise. */
static int64_t reduced_axis(const flx_graph *g, uint32_t v, flxi_opcode op)
{
    const flxi_node *n = flxi_made_by(g, flxi_reshaped_from(g, v), op);
    const flx_ints *axes = n ? flxi_node_ints(n, "axes") : NULL;
    return axes && axes->n == 1 ? axes->v[0] : FLXI_ABSENT;
}

/* ---- softmax, log_softmax ---- */

/* Of exponents z = x - max; without the maximum the proof fails and reports it. */
static void propose_softmax(flxi_rewriting *f, flxi_opcode op, uint32_t z, int64_t axis)
{
    const flxi_node *shifted = flxi_made_by(flxi_fused_graph(f), z, OP_sub);
    flxi_proposal p = {.op = op, .nin = 1, .stops_cancel = true};
    p.in[0] = flxi_whole(shifted ? shifted->in[0] : z);
    flxi_propose_attr(&p, flx_attr_int("axis", axis));
    flxi_propose(f, &p);
}

void flxi_pattern_softmax(flxi_rewriting *f, uint32_t root)
{
    const flx_graph *g = flxi_fused_graph(f);
    const flxi_node *n = flxi_maker(g, root);
    const flxi_node *e = flxi_made_by(g, n->in[0], OP_exp);
    int64_t axis = reduced_axis(g, n->in[1], OP_reduce_sum);
    if (e && axis != FLXI_ABSENT)
        propose_softmax(f, OP_softmax, e->in[0], axis);
}

void flxi_pattern_log_softmax(flxi_rewriting *f, uint32_t root)
{
    const flx_graph *g = flxi_fused_graph(f);
    const flxi_node *n = flxi_maker(g, root);
    const flxi_node *log = flxi_made_by(g, flxi_reshaped_from(g, n->in[1]), OP_log);
    int64_t axis = log ? reduced_axis(g, log->in[0], OP_reduce_sum) : FLXI_ABSENT;
    if (axis == FLXI_ABSENT)
        return;
    const flxi_node *sum = flxi_maker(g, flxi_reshaped_from(g, log->in[0]));
    if (flxi_made_by(g, sum->in[0], OP_exp))
        propose_softmax(f, OP_log_softmax, n->in[0], axis);
}

/* ---- layer_norm, rms_norm ---- */

typedef struct { /* x̂ = c r */
    uint32_t centred;
    int64_t axis;
    double eps;
} normalised;

/* The axis of a mean, however it is spelled; FLXI_ABSENT otherwise. */
static int64_t mean_axis(const flx_graph *g, uint32_t v)
{
    const flxi_node *n = flxi_maker(g, flxi_reshaped_from(g, v));
    int64_t axis = reduced_axis(g, v, OP_reduce_mean);
    for (uint32_t i = 0; axis == FLXI_ABSENT && (n->op == OP_div || n->op == OP_mul) && i < 2; i++)
        axis = reduced_axis(g, n->in[i], OP_reduce_sum);
    return axis;
}

/* The variance under a root: a mean, plus a number. */
static bool read_variance(const flx_graph *g, uint32_t v, normalised *out)
{
    const flxi_node *n = flxi_made_by(g, flxi_reshaped_from(g, v), OP_add);
    for (uint32_t k = 0; n && k < 2; k++)
        if (flxi_known_number(g, n->in[k], &out->eps)) {
            out->axis = mean_axis(g, n->in[1 - k]);
            return out->axis != FLXI_ABSENT;
        }
    return false;
}

/* x where v = 1 / sqrt(x); 0 when v is something else. */
static uint32_t under_inverse_root(const flx_graph *g, uint32_t v)
{
    const flxi_node *n = flxi_maker(g, flxi_reshaped_from(g, v));
    if (n->op == OP_rsqrt || n->op == OP_pow)
        return n->in[0];
    const flxi_node *root =
        n->op == OP_reciprocal || n->op == OP_div ? flxi_made_by(g, n->in[n->nin - 1], OP_sqrt) : NULL;
    return root ? root->in[0] : 0;
}

static bool read_normalised(const flx_graph *g, uint32_t v, normalised *out)
{
    const flxi_node *n = flxi_maker(g, v);
    if (n->op == OP_div) {
        const flxi_node *root = flxi_made_by(g, flxi_reshaped_from(g, n->in[1]), OP_sqrt);
        out->centred = n->in[0];
        return root && read_variance(g, root->in[0], out);
    }
    for (uint32_t k = 0; n->op == OP_mul && k < 2; k++) {
        uint32_t var = under_inverse_root(g, n->in[k]);
        out->centred = n->in[1 - k];
        if (var && read_variance(g, var, out))
            return true;
    }
    return false;
}

/* gamma x̂ + beta; `beta` is 0 where there is none, and then only rms_norm can match. */
static bool propose_norm(flxi_rewriting *f, const flxi_node *scaled, uint32_t beta)
{
    const flx_graph *g = flxi_fused_graph(f);
    for (uint32_t k = 0; k < 2; k++) {
        normalised h;
        if (!read_normalised(g, scaled->in[k], &h))
            continue;
        const flx_type *t = flxi_type_at(g, h.centred);
        const flxi_node *c = flxi_made_by(g, h.centred, OP_sub);
        bool centred = beta && c && mean_axis(g, c->in[1]) == h.axis;
        flxi_proposal p = {.op = centred ? OP_layer_norm : OP_rms_norm, .nin = beta ? 3 : 2};
        p.in[0] = flxi_whole(centred ? c->in[0] : h.centred);
        if (h.axis >= t->rank || !flxi_as_vector(g, scaled->in[1 - k], t->dims[h.axis], &p.in[1]) ||
            (beta && !flxi_as_vector(g, beta, t->dims[h.axis], &p.in[2])))
            continue;
        if (h.axis != t->rank - 1)
            flxi_propose_attr(&p, flx_attr_int("axis", h.axis));
        flxi_propose_attr(&p, flx_attr_real("eps", flxi_short_number(t->dtype, h.eps)));
        if (flxi_propose(f, &p))
            return true;
    }
    return false;
}

void flxi_pattern_norm(flxi_rewriting *f, uint32_t root)
{
    const flx_graph *g = flxi_fused_graph(f);
    const flxi_node *n = flxi_maker(g, root);
    if (n->op == OP_mul) {
        propose_norm(f, n, 0);
        return;
    }
    for (uint32_t k = 0; k < 2; k++) {
        const flxi_node *scaled = flxi_made_by(g, n->in[k], OP_mul);
        if (scaled && propose_norm(f, scaled, n->in[1 - k]))
            return;
    }
}

/* ---- A residual before a norm ---- */

void flxi_pattern_residual_norm(flxi_rewriting *f, uint32_t root)
{
    const flx_graph *g = flxi_fused_graph(f);
    const flxi_node *norm = flxi_maker(g, root);
    const flxi_node *sum = flxi_made_by(g, norm->in[0], OP_add);
    if (!sum || norm->nin != 3)
        return;
    flxi_proposal p = {.op = norm->op == OP_layer_norm ? OP_fused_residual_ln : OP_fused_residual_rms_norm};
    flx_attr eps = flx_attr_real("eps", flxi_node_real(norm, "eps"));
    const flx_type *t = flxi_type_at(g, norm->in[0]);
    for (uint32_t k = 0; k < 2; k++) { /* a bias is a vector that is added last */
        const flxi_node *inner = flxi_made_by(g, sum->in[k], OP_add);
        if (!inner || flxi_type_at(g, sum->in[1 - k])->rank != 1 || t->rank < 2)
            continue;
        const uint32_t in[] = {inner->in[0], inner->in[1], sum->in[1 - k], norm->in[1], norm->in[2]};
        flxi_proposal q = {.op = p.op, .nin = 5};
        for (uint32_t i = 0; i < q.nin; i++)
            q.in[i] = flxi_whole(in[i]);
        flxi_propose_attr(&q, flx_attr_int("has_bias", 1));
        flxi_propose_attr(&q, eps);
        if (flxi_propose(f, &q))
            return;
    }
    const uint32_t in[] = {sum->in[0], sum->in[1], norm->in[1], norm->in[2]};
    p.nin = 4;
    for (uint32_t i = 0; i < p.nin; i++)
        p.in[i] = flxi_whole(in[i]);
    flxi_propose_attr(&p, eps);
    flxi_propose(f, &p);
}

/* ---- Cross entropy ---- */

void flxi_pattern_cross_entropy(flxi_rewriting *f, uint32_t root)
{
    const flx_graph *g = flxi_fused_graph(f);
    const flxi_node *n = flxi_maker(g, root);
    const flxi_node *take = flxi_made_by(g, flxi_reshaped_from(g, n->in[n->nin - 1]), OP_take_along);
    const flxi_node *log_p = take ? flxi_made_by(g, take->in[0], OP_log_softmax) : NULL;
    if (!log_p)
        return;
    flxi_proposal p = {.op = OP_softmax_cross_entropy_with_logits, .nin = 2};
    p.in[0] = flxi_whole(log_p->in[0]);
    if (!flxi_as_vector(g, take->in[1], flxi_type_at(g, take->in[1])->dims[0], &p.in[1]))
        return;
    flxi_propose_attr(&p, flx_attr_word("oob", flxi_oob_word(flxi_node_int(take, "oob"))));
    flxi_propose(f, &p);
}
