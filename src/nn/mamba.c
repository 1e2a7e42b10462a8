/* SPDX-License-Identifier: Apache-2.0 */
/* mamba.c: a selective state space. Each inner channel has `states` numbers h with h' = exp(d a) h + d u b and the
   result y = c h + skip u, where the step size d and the vectors b and c depend on the token: the layer selects what
   it keeps. */
#include "nn/layer.h"

#include <math.h>

static const char function[] = "flx_nn_mamba";

typedef struct {
    flx_graph *g;
    const char *name;
    flx_dtype dtype;
    int64_t width, inner, states, kernel, rank;
    flx_dim batch;
} mamba;

static bool read(mamba *m, flx_val x, const flx_nn_mamba_options *options)
{
    flx_nn_mamba_options o;
    flx_graph *g = m->g;
    flxi_nn_type_text text;
    FLXI_NN_READ(g, flx_nn_mamba_options, &o, options);
    if (!flxi_nn_check_name(g, function, m->name) || !flxi_nn_check_rank(g, function, x, 3, 3, "[N, S, width]") ||
        !flxi_nn_require(g, o.inner >= 0 && o.states >= 0 && o.kernel >= 0 && o.rank >= 0 && o.reserved == 0, function,
                         "inner %lld, states %lld, kernel %lld, rank %lld: none may be negative, and reserved is 0",
                         (long long)o.inner, (long long)o.states, (long long)o.kernel, (long long)o.rank) ||
        !flxi_nn_require_shape(g, flx_dim_is_static(flxi_nn_width(g, x)), NULL, function,
                               "the width of x, %s, must be a number", flxi_nn_text(g, x, &text)))
        return false;
    m->dtype = flxi_nn_dtype(g, x);
    m->batch = flxi_nn_type(g, x)->dims[0];
    m->width = flxi_nn_width(g, x);
    m->inner = o.inner ? o.inner : 2 * m->width;
    m->states = o.states ? o.states : 16;
    m->kernel = o.kernel ? o.kernel : 4;
    m->rank = o.rank ? o.rank : (m->width + 15) / 16;
    return true;
}

static flx_val project(const mamba *m, const char *part, flx_val x, int64_t units)
{
    char full[FLXI_NN_NAME];
    return flx_nn_project(m->g, flxi_nn_join(full, m->name, part), x, units);
}

static flx_val columns(const mamba *m, flx_val x, int64_t from, int64_t count)
{
    return flx_narrow(m->g, x, -1, from, count);
}

/* A convolution of each channel [N, S, inner] alone over the tokens up to this one. */
static flx_val convolve(const mamba *m, flx_val x)
{
    char full[FLXI_NN_NAME];
    flx_graph *g = m->g;
    const int64_t perm[] = {0, 2, 1}, kernel = m->kernel, padding[] = {m->kernel - 1, 0};
    const flx_nn_conv_options o = {.struct_size = sizeof o,
                                   .kernel = {&kernel, 1},
                                   .padding = {padding, 2},
                                   .groups = m->inner,
                                   .activation = "silu"};
    flx_val y =
        flx_nn_conv(g, flxi_nn_join(full, m->name, "conv"), flx_transpose(g, x, (flx_ints){perm, 3}), m->inner, &o);
    return flx_transpose(g, y, (flx_ints){perm, 3});
}

/* One token. Inputs: h [N, inner, states], a [inner, states], d [N, inner], u [N, inner], b and c [N, states]; outputs:
   the next h, and c h [N, inner]. */
static flx_graph *step_of(const mamba *m, flx_context *ctx)
{
    flx_graph *g = flx_graph_new(ctx, "mamba");
    const flx_dim h_dims[] = {m->batch, m->inner, m->states}, a_dims[] = {m->inner, m->states};
    const flx_dim u_dims[] = {m->batch, m->inner}, b_dims[] = {m->batch, m->states};
    flx_type h_type = flx_type_make(m->dtype, 3, h_dims), a_type = flx_type_make(m->dtype, 2, a_dims);
    flx_type u_type = flx_type_make(m->dtype, 2, u_dims), b_type = flx_type_make(m->dtype, 2, b_dims);
    flx_val h = flx_input(g, "h", &h_type), a = flx_input(g, "a", &a_type), d = flx_input(g, "d", &u_type);
    flx_val u = flx_input(g, "u", &u_type), b = flx_input(g, "b", &b_type), c = flx_input(g, "c", &b_type);
    flx_val kept = flx_exp(g, flx_mul(g, flx_unsqueeze(g, d, FLX_INTS(2)), a));
    flx_val added = flx_mul(g, flx_unsqueeze(g, flx_mul(g, d, u), FLX_INTS(2)), flx_unsqueeze(g, b, FLX_INTS(1)));
    flx_val next = flx_add(g, flx_mul(g, kept, h), added);
    flx_output(g, next, NULL);
    flx_output(g, flx_reduce_sum(g, flx_mul(g, next, flx_unsqueeze(g, c, FLX_INTS(1))), FLX_INTS(2), 0), "y");
    return g;
}

/* -exp(p) (1, 2, …, states) for the parameter p: at first every channel decays at these rates. */
static flx_val rates(const mamba *m)
{
    flx_graph *g = m->g;
    const flx_dim dims[] = {m->inner, m->states};
    flx_type row = flx_type_make(m->dtype, 1, dims + 1);
    flx_val p = flxi_nn_param(g, m->name, "a", m->dtype, dims, 2, flxi_nn_zeros());
    flx_val numbers = flx_add(g, flx_iota(g, &row, FLX_DEFAULT), flx_scalar(g, m->dtype, 1));
    return flx_neg(g, flx_mul(g, flx_exp(g, p), numbers));
}

/* softplus(x w + b); at first about 0.01. */
static flx_val step_sizes(const mamba *m, flx_val x)
{
    char full[FLXI_NN_NAME];
    flx_graph *g = m->g;
    const flx_init init = {.kind = FLX_INIT_CONSTANT, .scale = log(expm1(0.01))};
    flxi_nn_join(full, m->name, "step");
    flx_val y = flx_nn_project(g, full, x, m->inner);
    return flx_softplus(g, flx_add(g, y, flxi_nn_param(g, full, "b", m->dtype, &m->inner, 1, init)));
}

/* The recurrence over u [N, S, inner]. */
static flx_val recurrence(const mamba *m, flx_val u)
{
    flx_graph *g = m->g;
    flx_val selected = project(m, "select", u, m->rank + 2 * m->states);
    flx_val d = step_sizes(m, columns(m, selected, 0, m->rank));
    const flx_dim h_dims[] = {m->batch, m->inner, m->states};
    const flx_val operands[] = {flx_expand(g, flx_scalar(g, m->dtype, 0), (flx_ints){h_dims, 3}),
                                rates(m),
                                flxi_nn_swap01(g, d),
                                flxi_nn_swap01(g, u),
                                flxi_nn_swap01(g, columns(m, selected, m->rank, m->states)),
                                flxi_nn_swap01(g, columns(m, selected, m->rank + m->states, m->states))};
    flx_val results[2] = {FLX_NONE, FLX_NONE};
    flx_scan_attrs attrs = FLX_SCAN_ATTRS;
    flx_graph *body = step_of(m, flx_graph_context(g));
    attrs.body = body;
    attrs.num_bcast = 1;
    flx_scan_with(g, operands, 6, results, 2, &attrs);
    flx_graph_release(body); /* the graph has its own hold on it */
    flx_val skip = flxi_nn_param(g, m->name, "d", m->dtype, &m->inner, 1, flxi_nn_ones());
    return flx_add(g, flxi_nn_swap01(g, results[1]), flx_mul(g, u, skip));
}

flx_val flx_nn_mamba(flx_graph *g, const char *name, flx_val x, const flx_nn_mamba_options *options)
{
    mamba m = {.g = g, .name = name};
    if (!read(&m, x, options))
        return FLX_NONE;
    flx_val both = project(&m, "in", x, 2 * m.inner);
    flx_val u = convolve(&m, columns(&m, both, 0, m.inner)), z = columns(&m, both, m.inner, m.inner);
    return project(&m, "out", flx_mul(g, recurrence(&m, u), flx_silu(g, z)), m.width);
}
