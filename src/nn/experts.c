/* SPDX-License-Identifier: Apache-2.0 */
/* experts.c: a mixture of experts. Every expert is computed for every token, as one product with a batch axis of
   experts, and the gate's weights are zero for all but the chosen ones: simple, differentiable, and fast where there
   are few experts. */
#include "nn/layer.h"

static const char function[] = "flx_nn_moe";

typedef struct {
    flx_graph *g;
    const char *name;
    flx_nn_moe_options o;
    int64_t experts;
    flx_dim width;
} mixture;

static bool check(mixture *m, flx_val x)
{
    flx_graph *g = m->g;
    bool is_open = !flx_dim_is_static(m->width);
    if (!flxi_nn_check_layer(g, function, m->name, m->experts) ||
        !flxi_nn_check_rank(g, function, x, 1, FLX_MAX_RANK - 2, "[..., width]") ||
        !flxi_nn_require(g, m->o.top_k >= 0 && m->o.top_k <= m->experts, function,
                         "top_k, %lld, must be between 1 and the number of experts, %lld", (long long)m->o.top_k,
                         (long long)m->experts) ||
        !flxi_nn_require(g, m->o.hidden > 0 || (m->o.hidden == 0 && !is_open), function,
                         "hidden must be positive, got %lld", (long long)m->o.hidden) ||
        !flxi_nn_check_activation(g, function, m->o.activation))
        return false;
    if (m->o.top_k == 0)
        m->o.top_k = m->experts > 1 ? 2 : 1;
    if (m->o.hidden == 0)
        m->o.hidden = 4 * m->width;
    if (!m->o.activation)
        m->o.activation = "gelu";
    return true;
}

/* [..., experts]: the softmax of the top_k logits at their experts, 0 at the others; *chosen is 1 there, else 0. */
static flx_val gate(const mixture *m, flx_val logits, flx_val *chosen)
{
    flx_graph *g = m->g;
    flx_val best[2] = {FLX_NONE, FLX_NONE};
    flx_top_k(g, logits, best, m->o.top_k);
    flx_one_hot_attrs attrs = FLX_ONE_HOT_ATTRS;
    attrs.n = m->experts;
    attrs.dtype = flxi_nn_dtype(g, logits);
    flx_val one_hots = flx_one_hot_with(g, best[1], &attrs); /* [..., top_k, experts] */
    flx_val weights = flx_unsqueeze(g, flx_softmax(g, best[0], FLX_DEFAULT), FLX_INTS(-1));
    *chosen = flx_reduce_sum(g, one_hots, FLX_INTS(-2), 0);
    return flx_reduce_sum(g, flx_mul(g, one_hots, weights), FLX_INTS(-2), 0);
}

/* One of the two linear layers of all experts: [experts, T, in] to [experts, T, out]. */
static flx_val linear(const mixture *m, const char *part, flx_val x, flx_dim in, flx_dim out)
{
    flx_graph *g = m->g;
    char full[FLXI_NN_NAME];
    const flx_dim dims[] = {m->experts, in, out}, b_dims[] = {m->experts, 1, out};
    flxi_nn_join(full, m->name, part);
    flx_init init = flxi_nn_uniform(flx_dim_is_static(in) ? (double)in : 1);
    flx_val y = flx_matmul(g, x, flxi_nn_param(g, full, "w", flxi_nn_dtype(g, x), dims, 3, init));
    if (m->o.no_bias)
        return y;
    return flx_add(g, y, flxi_nn_param(g, full, "b", flxi_nn_dtype(g, x), b_dims, 3, flxi_nn_zeros()));
}

/* experts * sum over the experts of (part of the choices) * (mean probability): 1 where both are even. */
static flx_val balance_of(const mixture *m, flx_val logits, flx_val chosen)
{
    flx_graph *g = m->g;
    flx_val part = flx_mul(g, flx_reduce_mean(g, flx_stop_gradient(g, chosen), FLX_INTS(0), 0),
                           flxi_nn_number(g, logits, (double)m->experts / (double)m->o.top_k));
    flx_val probability = flx_reduce_mean(g, flx_softmax(g, logits, FLX_DEFAULT), FLX_INTS(0), 0);
    return flx_reduce_sum(g, flx_mul(g, part, probability), FLX_ALL, 0);
}

flx_val flx_nn_moe(flx_graph *g, const char *name, flx_val x, int64_t experts, const flx_nn_moe_options *options,
                   flx_val *balance)
{
    mixture m = {.g = g, .name = name, .experts = experts, .width = flxi_nn_width(g, x)};
    char full[FLXI_NN_NAME];
    flx_val chosen;
    if (balance)
        *balance = FLX_NONE;
    FLXI_NN_READ(g, flx_nn_moe_options, &m.o, options);
    if (!check(&m, x))
        return FLX_NONE;
    const flx_type type = *flxi_nn_type(g, x);
    const flx_dim flat[] = {-1, m.width};
    flx_val tokens = flx_reshape(g, x, (flx_ints){flat, 2});
    flx_val logits = flx_nn_project(g, flxi_nn_join(full, name, "gate"), tokens, experts);
    flx_val weights = gate(&m, logits, &chosen);
    if (balance)
        *balance = balance_of(&m, logits, chosen);
    flx_val up = linear(&m, "up", flx_unsqueeze(g, tokens, FLX_INTS(0)), m.width, m.o.hidden);
    flx_val down = linear(&m, "down", flxi_nn_activate(g, up, m.o.activation), m.o.hidden, m.width);
    flx_val by_expert = flx_unsqueeze(g, flxi_nn_swap01(g, weights), FLX_INTS(2)); /* [experts, T, 1] */
    flx_val y = flx_reduce_sum(g, flx_mul(g, down, by_expert), FLX_INTS(0), 0);
    return flx_reshape(g, y, (flx_ints){type.dims, (size_t)type.rank});
}
