/* SPDX-License-Identifier: Apache-2.0 */
/* calibrate.c: the ranges of operands: the graph with the smallest and the largest element of each as its outputs, run
   on every batch. */
#include "passes/pass.h"
#include "passes/quantise/quantised_products.h"

#include <fluxion/exec.h>
#include <fluxion/ops.h>
#include <math.h>

typedef struct {
    flxi_quantised_products *p;
    const flx_quantise_options *o;
    FLXI_VEC(uint32_t) observed; /* values, each once */
    flx_exec *exec;
    flx_feed *feeds;
    flx_tensor **out;
    flx_error *err;
} calibration;

const flx_tensor *flxi_given_value(const flx_graph *g, uint32_t value, const flx_quantise_options *o)
{
    const flxi_node *n = flxi_node_of(g, value);
    const char *name = flxi_value_at(g, value)->name;
    if (flxi_is_const(n))
        return flxi_const_data(n);
    for (size_t i = 0; name && i < o->num_params; i++)
        if (o->params[i].name && strcmp(o->params[i].name, name) == 0)
            return o->params[i].value;
    return NULL;
}

/* ---- What is observed ---- */

static flx_code list_observed(calibration *c)
{
    const flx_graph *g = c->p->g;
    for (uint32_t i = 0; i < g->node_count; i++) {
        uint32_t x = c->p->at[i].x;
        bool is_known = !x;
        for (size_t k = 0; k < c->observed.n; k++)
            is_known |= c->observed.at[k] == x;
        if (!is_known && !flxi_push(&g->ctx->mem, &c->observed, x))
            return flxi_oom(c->err, "quantisation");
    }
    return FLX_OK;
}

static flx_code make_graph(calibration *c, flx_graph **out)
{
    const flx_graph *g = c->p->g;
    flxi_copy copy;
    flx_code code = flxi_copy_begin(&copy, g, c->err);
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++)
        code = flxi_copy_node(&copy, i);
    for (size_t k = 0; code == FLX_OK && k < c->observed.n; k++) {
        flx_val x = {copy.remap.id[c->observed.at[k]], copy.to->serial};
        flx_output(copy.to, flx_reduce_min(copy.to, x, FLX_ALL, 0), NULL);
        flx_output(copy.to, flx_reduce_max(copy.to, x, FLX_ALL, 0), NULL);
        code = flx_graph_error(copy.to, c->err);
    }
    if (code == FLX_OK)
        code = flxi_pass_dce(copy.to, out, NULL, c->err);
    flx_graph_release(copy.to);
    flxi_remap_free(&copy.remap);
    return code;
}

/* ---- Runs ---- */

static flx_code widen_range(calibration *c, size_t k)
{
    uint32_t value = c->observed.at[k];
    double low = flx_tensor_get(c->out[2 * k], 0), high = flx_tensor_get(c->out[2 * k + 1], 0);
    const char *name = flxi_value_at(c->p->g, value)->name;
    if (low > high) /* the least and the most of nothing */
        return flxi_fail_hint(c->err, FLX_E_NUMERIC, "calibrate on batches that are not empty",
                              "the operand '%.60s' of a product has no elements", name ? name : "");
    if (!isfinite(low) || !isfinite(high))
        return flxi_fail_hint(c->err, FLX_E_NUMERIC, "calibrate on batches whose values are finite",
                              "the operand '%.60s' of a product is between %g and %g", name ? name : "", low, high);
    c->p->low[value] = fmin(c->p->low[value], low);
    c->p->high[value] = fmax(c->p->high[value], high);
    return FLX_OK;
}

static flx_code run_batch(calibration *c, size_t batch)
{
    const flx_quantise_options *o = c->o;
    size_t n = 0;
    for (size_t i = 0; i < o->num_inputs; i++)
        c->feeds[n++] = o->batches[batch * o->num_inputs + i];
    for (size_t i = 0; i < o->num_params; i++)
        c->feeds[n++] = o->params[i];
    flx_code code = flx_exec_run(c->exec, NULL, c->feeds, n, c->out, c->err);
    for (size_t k = 0; code == FLX_OK && k < c->observed.n; k++)
        code = widen_range(c, k);
    for (size_t k = 0; k < 2 * c->observed.n; k++) {
        flx_tensor_release(c->out[k]);
        c->out[k] = NULL;
    }
    return code;
}

static flx_code run_batches(calibration *c)
{
    flx_graph *g = NULL;
    FLXI_TRY(list_observed(c));
    if (!c->observed.n)
        return FLX_OK;
    c->feeds = flxi_new(&c->p->arena, flx_feed, c->o->num_inputs + c->o->num_params);
    c->out = flxi_new(&c->p->arena, flx_tensor *, 2 * c->observed.n);
    if (!c->feeds || !c->out)
        return flxi_oom(c->err, "quantisation");
    FLXI_TRY(make_graph(c, &g));
    c->exec = flx_compile(g, NULL, c->err);
    flx_graph_release(g);
    if (!c->exec)
        return c->err->code ? (flx_code)c->err->code : FLX_E_OOM;
    for (size_t i = 0; i < c->o->num_batches; i++)
        FLXI_TRY(run_batch(c, i));
    return FLX_OK;
}

flx_code flxi_calibrate(flxi_quantised_products *p, const flx_quantise_options *o, flx_error *err)
{
    calibration c = {.p = p, .o = o, .err = err};
    if (!o->num_batches || !o->batches || (o->num_params && !o->params))
        return flxi_fail_hint(err, FLX_E_USAGE, "give some batches, on which the ranges of values are measured",
                              "flx_quantise: there are %zu batches of %zu inputs", o->num_batches, o->num_inputs);
    flx_code code = run_batches(&c);
    flx_exec_free(c.exec);
    flxi_vec_free(&p->g->ctx->mem, &c.observed);
    return code;
}
