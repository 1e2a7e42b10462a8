/* SPDX-License-Identifier: Apache-2.0 */
/* jvp.c: forward mode for users, and the Hessian product, forward over reverse. */
#include "autodiff/autodiff.h"

#include "base/options.h"

#include <stdio.h>

typedef struct {
    const flx_graph *g;
    flx_graph *prepared;
    flx_graph *out;
    flxi_remap remap;
    uint32_t *map;
    flx_val *tangent;
    flx_error *err;
} jvp_work;

static flx_code allocate(jvp_work *w)
{
    const flxi_allocator *mem = &w->g->ctx->mem;
    size_t n = (size_t)w->prepared->value_count + 1;
    w->out = flxi_derived_graph(w->g, "jvp");
    w->map = flxi_alloc(mem, n, sizeof *w->map);
    w->tangent = flxi_alloc(mem, n, sizeof *w->tangent);
    return w->out && w->map && w->tangent ? FLX_OK : flxi_oom(w->err, "differentiating");
}

static flx_code declare_tangents(jvp_work *w, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t id;
        flxi_value_text text;
        FLXI_TRY(flxi_find_wrt(w->g, names[i], &id, w->err));
        const flxi_value *v = flxi_value_at(w->g, id);
        if (!(flxi_ops[flxi_node_at(w->g, v->node)->op].traits & TRAIT_DECLARED))
            return flxi_fail(w->err, FLX_E_NAME, "%s is not an input of '%.100s': only inputs have tangents",
                             flxi_value_str(w->g, id, names[i], &text), w->g->name);
        w->tangent[w->remap.id[id]] = flxi_new_leaf(w->out, "tangent_", v->name, v->type);
    }
    return flxi_built(w->out, w->err);
}

static flx_code write_outputs(jvp_work *w)
{
    const flx_graph *src = w->prepared;
    flxi_site s = flxi_plain_site(w->out);
    for (size_t k = 0; k < src->outputs.n; k++)
        flx_output(w->out, (flx_val){w->map[src->outputs.at[k].val], w->out->serial}, src->outputs.at[k].name);
    for (size_t k = 0; k < src->outputs.n; k++) {
        char name[300];
        uint32_t id = src->outputs.at[k].val;
        flx_val t = w->tangent[id];
        snprintf(name, sizeof name, "tangent_%.250s", src->outputs.at[k].name);
        flx_output(w->out, flxi_is_none(t) ? flxi_zeros(&s, flxi_type_at(src, id)) : t, name);
    }
    return flxi_built(w->out, w->err);
}

static flx_code push_forward(jvp_work *w, const char *const *names, size_t count)
{
    FLXI_TRY(flxi_prepare(w->g, MODE_JVP, &w->prepared, &w->remap, w->err));
    FLXI_TRY(allocate(w));
    FLXI_TRY(flxi_copy_leaves(w->prepared, w->out, w->map, w->err));
    FLXI_TRY(declare_tangents(w, names, count));
    flxi_forward f = {.src = w->prepared, .g = w->out, .map = w->map, .tangent = w->tangent};
    FLXI_TRY(flxi_forward_sweep(&f, w->err));
    FLXI_TRY(write_outputs(w));
    return flxi_finish(&w->out, w->err);
}

flx_graph *flx_jvp(const flx_graph *g, const char *const *wrt, size_t count, flx_error *err)
{
    flx_error local = {0};
    jvp_work w = {.g = g, .err = &local};
    flx_code code = flx_graph_error(g, &local);
    if (code == FLX_OK)
        code = flxi_check_wrt("flx_jvp", wrt, count, &local);
    if (code == FLX_OK)
        code = push_forward(&w, wrt, count);
    w.out = flxi_transformed(w.out, g, "jvp", &local, err);
    if (w.prepared) {
        const flxi_allocator *mem = &g->ctx->mem;
        size_t n = (size_t)w.prepared->value_count + 1;
        flxi_free(mem, w.map, n, sizeof *w.map);
        flxi_free(mem, w.tangent, n, sizeof *w.tangent);
        flxi_remap_free(&w.remap);
        flx_graph_release(w.prepared);
    }
    return w.out;
}

/* ---- Hessian products ---- */

/* The first output alone: auxiliary outputs are ignored. */
static flx_graph *loss_alone(const flx_graph *g, flx_error *err)
{
    flxi_choice loss = {.output = 0};
    return flxi_check_loss(g, err) == FLX_OK ? flxi_choose_outputs(g, &loss, 1, err) : NULL;
}

flx_graph *flx_hvp(const flx_graph *g, const char *const *wrt, size_t count, const flx_grad_options *options,
                   flx_error *err)
{
    flx_error local = {0};
    flx_grad_options o = {0};
    bool is_usable = flx_graph_error(g, &local) == FLX_OK &&
                     flxi_check_grad_options("flx_hvp", options, &o, &local) == FLX_OK &&
                     flxi_check_wrt("flx_hvp", wrt, count, &local) == FLX_OK;
    flx_graph *loss = is_usable ? loss_alone(g, &local) : NULL;
    bool value = is_usable && (o.flags & FLX_GRAD_VALUE);
    o.flags |= FLX_GRAD_VALUE;
    flxi_name name;
    flx_graph *gradient = loss ? flx_grad(loss, wrt, count, &o, &local) : NULL;
    flx_graph *pushed = gradient ? flx_jvp(gradient, wrt, count, &local) : NULL;
    flx_graph *out = NULL;
    size_t n = value ? 2 * count + 1 : count;
    flxi_choice *choices = pushed ? flxi_alloc(&g->ctx->mem, n, sizeof *choices) : NULL;
    if (choices) { /* outputs are loss, gradients, then the tangents of both */
        size_t at = 0;
        for (size_t i = 0; value && i <= count; i++)
            choices[at++] = (flxi_choice){.output = i};
        for (size_t i = 0; i < count; i++) {
            choices[at] = (flxi_choice){.output = count + 2 + i};
            snprintf(choices[at++].name, sizeof choices[0].name, "hvp_%.250s", wrt[i]);
        }
        out = flxi_choose_outputs_as(pushed, flxi_derived_name(g, "hvp", &name), choices, n, &local);
        flxi_free(&g->ctx->mem, choices, n, sizeof *choices);
    } else if (pushed) {
        flxi_oom(&local, "a Hessian product");
    }
    flx_graph_release(loss);
    flx_graph_release(gradient);
    flx_graph_release(pushed);
    flxi_without_options(&local);
    return flxi_transformed(out, g, "hvp", &local, err);
}
