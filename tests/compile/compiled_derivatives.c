/* SPDX-License-Identifier: Apache-2.0 */
/* compiled_derivatives.c: the transforms of the samples of every op, compiled, against the reference
   evaluator: the gradient of the sample's loss, its tangent, its Hessian along a direction, and the loss and the
   gradient in two lanes.

   One sample in many, others with each seed, each graph in one of the ways; effort compiled_all: all of them in all
   ways. */
#include "compile/bundle.h"
#include "ops/experiment.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARE = 300, LANES = 2 };

static bundle_spread now = {.most = 300, .check = bundle_check};

/* ---- Values ---- */

static const flx_tensor *value_by_name(const void *user, const char *name)
{
    return bag_get(user, name);
}

/* The value, and three quarters of it. */
static flx_tensor *in_lanes(flx_context *ctx, const flx_tensor *x)
{
    flx_error err = {0};
    flx_type t = *flx_tensor_type(x);
    memmove(t.dims + 1, t.dims, (size_t)t.rank * sizeof *t.dims);
    t.dims[0] = LANES;
    t.rank++;
    flx_tensor *y = flx_tensor_new(ctx, &t, NULL, &err);
    CHECK_MSG(y, "%s", err.message);
    int64_t n = flx_tensor_count(x) * experiment_parts(t.dtype);
    char *data = flx_tensor_data(y);
    for (int64_t lane = 0; lane < LANES && n; lane++)
        memcpy(data + (size_t)lane * flx_tensor_nbytes(x), flx_tensor_const_data(x), flx_tensor_nbytes(x));
    for (int64_t i = n; i < 2 * n && (t.dtype == FLX_F64 || t.dtype == FLX_C128); i++)
        ((double *)(void *)data)[i] *= 0.75;
    return y;
}

static void add_graph(const experiment *x, const flx_graph *g, const bag *values, const char *what)
{
    flx_error err = {0};
    char about[200];
    if (!g)
        return; /* there is no such derivative, or a lane too many: other tests say whether that is right */
    snprintf(about, sizeof about, "%s: %s", what, sample_describe(x->c));
    flx_graph *bound = flx_specialise(g, x->dims, x->num_dims, &err);
    CHECK_MSG(bound, "%s: %s", about, err.message);
    bundle_spread_copy(&now, bound, value_by_name, values, about);
    flx_graph_release(bound);
}

/* ---- Graphs ---- */

static void add_lanes(const experiment *x, const flx_graph *g, const char *what)
{
    flx_error err = {0};
    flx_vmap_axis axes[MAX_LEAVES];
    bag values = {0};
    size_t n = flx_graph_input_count(g);
    for (size_t i = 0; i < n; i++) {
        const char *name = flx_val_name(g, flx_graph_input(g, i));
        axes[i] = (flx_vmap_axis){name, 0};
        bag_put(&values, name, in_lanes(x->ctx, bag_get(&x->in, name)));
    }
    flx_graph *batched = flx_vmap(g, axes, n, NULL, 0, LANES, &err);
    add_graph(x, batched, &values, what);
    flx_graph_release(batched);
    bag_free(&values);
}

static void add_case(const sample_case *sample)
{
    sample_case c = *sample;
    experiment x;
    flx_error err = {0};
    if (!experiment_is_wide(&c) || !case_turn(SHARE))
        return;
    if (experiment_begin(&x, &c)) {
        flx_grad_options o = {.flags = FLX_GRAD_MISSING_ZERO};
        flx_graph *grad = experiment_gradient(&x, x.loss, &err);
        flx_graph *jvp = flx_jvp(x.loss, x.names, x.count, &err);
        flx_graph *hvp = flx_hvp(x.loss, x.names, x.count, &o, &err);
        add_graph(&x, grad, &x.in, "gradient");
        add_graph(&x, jvp, &x.in, "tangent");
        add_graph(&x, hvp, &x.in, "Hessian product");
        add_lanes(&x, x.loss, "lanes");
        if (grad)
            add_lanes(&x, grad, "lanes of the gradient");
        flx_graph_release(grad);
        flx_graph_release(jvp);
        flx_graph_release(hvp);
    }
    experiment_end(&x);
}

TEST(compiled_derivatives_agree_with_the_reference)
{
    sample_each(add_case);
    bundle_spread_end(&now);
}
