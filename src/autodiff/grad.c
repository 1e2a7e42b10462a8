/* SPDX-License-Identifier: Apache-2.0 */
/* grad.c: reverse mode for users: names, seeds, missing gradients, and the order of the outputs. */
#include "autodiff/autodiff.h"

#include "base/options.h"

#include <stdio.h>

typedef struct {
    const flx_graph *g; /* the user's */
    flx_graph *prepared;
    flx_graph *out;
    flxi_remap remap;
    uint32_t *ids; /* of the wrt values, in prepared */
    const char *const *names;
    size_t count;
    uint32_t flags;
    uint32_t *map;
    flx_val *cotangent;
    bool *wrt;
    bool *ancestor; /* by id of prepared: the loss depends on it, zero derivatives or not */
    flx_error *err;
} grad_work;

static const uint32_t all_flags =
    FLX_GRAD_VALUE | FLX_GRAD_MISSING_ZERO | FLX_GRAD_SEED_INPUT | FLX_GRAD_UNBOUNDED_ERROR | FLX_GRAD_BACKWARD_OPS;

static bool carries_derivative(const flx_type *t)
{
    return flxi_in(FLXI_FLOATS | FLXI_COMPLEX, t->dtype);
}

/* A leaf, an output or a pinned value by its name. */
static uint32_t find_value(const flx_graph *g, const char *name)
{
    flx_val v = flx_graph_find(g, name);
    for (uint32_t id = 1; !v.id && id <= g->value_count; id++) {
        const flxi_value *x = flxi_value_at(g, id);
        if (x->pinned && x->name && strcmp(x->name, name) == 0)
            v.id = id;
    }
    return v.id;
}

flx_code flxi_check_wrt(const char *function, const char *const *wrt, size_t count, flx_error *err)
{
    char text[60];
    if (!count || !wrt)
        return flxi_fail(err, FLX_E_USAGE, "%s: no input given to differentiate with respect to", function);
    for (size_t i = 0; i < count; i++) {
        if (!wrt[i])
            return flxi_fail(err, FLX_E_USAGE, "%s: name %zu of an input to differentiate is NULL", function, i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(wrt[i], wrt[k]) == 0)
                return flxi_fail(err, FLX_E_DUP_NAME, "%s: the input '%s' is named twice", function,
                                 flxi_printable(text, sizeof text, wrt[i], strlen(wrt[i])));
    }
    return FLX_OK;
}

flx_code flxi_check_grad_options(const char *function, const flx_grad_options *given, flx_grad_options *out,
                                 flx_error *err)
{
    FLXI_TRY(FLXI_READ_OPTIONS(flx_grad_options, out, given, err));
    if (out->flags & ~all_flags)
        return flxi_fail(err, FLX_E_USAGE, "%s: unknown flags 0x%x", function, (unsigned)(out->flags & ~all_flags));
    return FLX_OK;
}

flx_code flxi_find_wrt(const flx_graph *g, const char *name, uint32_t *id, flx_error *err)
{
    flxi_value_text text;
    if (!name)
        return flxi_fail(err, FLX_E_USAGE, "a name of an input to differentiate is NULL");
    *id = find_value(g, name);
    if (!*id)
        return flxi_no_input(err, g, name);
    if (!carries_derivative(flxi_type_at(g, *id)))
        return flxi_fail_hint(err, FLX_E_NOT_DIFFERENTIABLE, "only floating and complex values have derivatives",
                              "cannot differentiate with respect to %s", flxi_value_str(g, *id, name, &text));
    return FLX_OK;
}

flx_code flxi_check_loss(const flx_graph *g, flx_error *err)
{
    if (g->outputs.n)
        return FLX_OK;
    return flxi_fail(err, FLX_E_USAGE, "the graph '%.100s' has no output to differentiate", g->name);
}

static flx_code check_loss(const grad_work *w)
{
    flxi_value_text text;
    FLXI_TRY(flxi_check_loss(w->g, w->err));
    const flx_type *t = flxi_type_at(w->g, w->g->outputs.at[0].val);
    flxi_value_str(w->g, w->g->outputs.at[0].val, w->g->outputs.at[0].name, &text);
    if (!carries_derivative(t))
        return flxi_fail_hint(w->err, FLX_E_NOT_DIFFERENTIABLE, "only floating and complex values have derivatives",
                              "the loss %s has no derivative", text.s);
    if (w->flags & FLX_GRAD_SEED_INPUT)
        return FLX_OK;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] != 1)
            return flxi_fail_hint(w->err, FLX_E_NON_SCALAR,
                                  "reduce it to one element, or give its cotangent: --seed input (FLX_GRAD_SEED_INPUT)",
                                  "the loss %s must have one element", text.s);
    if (flxi_is_complex(t->dtype))
        return flxi_fail_hint(w->err, FLX_E_DTYPE, "take its real part or its absolute value", "the loss %s is complex",
                              text.s);
    return FLX_OK;
}

static void mark_ancestors(grad_work *w)
{
    const flx_graph *g = w->prepared;
    w->ancestor[g->outputs.at[0].val] = true;
    for (uint32_t i = g->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(g, i);
        bool is_needed = false;
        for (uint32_t k = 0; k < n->nout; k++)
            is_needed |= w->ancestor[n->first + k];
        for (uint32_t k = 0; is_needed && k < n->nin; k++)
            w->ancestor[n->in[k]] = true;
    }
}

static flx_code check_paths(const grad_work *w)
{
    const flx_graph *g = w->prepared;
    flxi_value_text loss;
    flxi_value_text leaf;
    for (size_t i = 0; i < w->count && !(w->flags & FLX_GRAD_MISSING_ZERO); i++)
        if (!w->ancestor[w->ids[i]])
            return flxi_fail_hint(w->err, FLX_E_NO_GRAD_PATH,
                                  "--missing zero (FLX_GRAD_MISSING_ZERO) gives zeros instead",
                                  "the loss %s does not depend on %s",
                                  flxi_value_str(g, g->outputs.at[0].val, g->outputs.at[0].name, &loss),
                                  flxi_value_str(g, w->ids[i], w->names[i], &leaf));
    return FLX_OK;
}

static flx_code allocate(grad_work *w)
{
    const flxi_allocator *mem = &w->g->ctx->mem;
    size_t n = (size_t)w->prepared->value_count + 1;
    w->out = flxi_derived_graph(w->g, "grad");
    w->ids = flxi_alloc(mem, w->count, sizeof *w->ids);
    w->map = flxi_alloc(mem, n, sizeof *w->map);
    w->cotangent = flxi_alloc(mem, n, sizeof *w->cotangent);
    w->wrt = flxi_alloc(mem, n, sizeof *w->wrt);
    w->ancestor = flxi_alloc(mem, n, sizeof *w->ancestor);
    bool ok = w->out && w->ids && w->map && w->cotangent && w->wrt && w->ancestor;
    return ok ? FLX_OK : flxi_oom(w->err, "differentiating");
}

static void release(grad_work *w)
{
    const flxi_allocator *mem = &w->g->ctx->mem;
    size_t n = w->prepared ? (size_t)w->prepared->value_count + 1 : 0;
    flxi_free(mem, w->ids, w->count, sizeof *w->ids);
    flxi_free(mem, w->map, n, sizeof *w->map);
    flxi_free(mem, w->cotangent, n, sizeof *w->cotangent);
    flxi_free(mem, w->wrt, n, sizeof *w->wrt);
    flxi_free(mem, w->ancestor, n, sizeof *w->ancestor);
    flxi_remap_free(&w->remap);
    flx_graph_release(w->prepared);
}

static flx_code sweep(grad_work *w)
{
    const flx_graph *src = w->prepared;
    flxi_reverse r = {.src = src,
                      .g = w->out,
                      .map = w->map,
                      .wrt = w->wrt,
                      .cotangent = w->cotangent,
                      .bounded = (w->flags & FLX_GRAD_UNBOUNDED_ERROR) != 0,
                      .backward_ops = (w->flags & FLX_GRAD_BACKWARD_OPS) != 0};
    uint32_t loss = src->outputs.at[0].val;
    const flx_type *type = flxi_type_at(src, loss);
    flxi_site s = flxi_plain_site(w->out);
    FLXI_TRY(flxi_copy_leaves(src, w->out, w->map, w->err));
    flx_val seed = w->flags & FLX_GRAD_SEED_INPUT ? flxi_new_leaf(w->out, "d_output", "", type) : FLX_NONE;
    flx_code code = flxi_reverse_forward(&r, w->err);
    w->cotangent[loss] = flxi_is_none(seed) ? flxi_full(&s, type, 1.0) : seed;
    if (code == FLX_OK)
        code = flxi_reverse_sweep(&r, w->err);
    flxi_reverse_free(&r);
    return code;
}

static flx_code write_outputs(grad_work *w)
{
    const flx_graph *src = w->prepared;
    flxi_site s = flxi_plain_site(w->out);
    for (size_t k = w->flags & FLX_GRAD_VALUE ? 0 : 1; k < src->outputs.n; k++)
        flx_output(w->out, (flx_val){w->map[src->outputs.at[k].val], w->out->serial}, src->outputs.at[k].name);
    for (size_t i = 0; i < w->count; i++) {
        char name[300];
        flx_val d = w->cotangent[w->ids[i]];
        snprintf(name, sizeof name, "d_%.250s", w->names[i]);
        if (flxi_is_none(d))
            d = flxi_zeros(&s, flxi_type_at(src, w->ids[i]));
        flx_output(w->out, d, name);
    }
    return flxi_built(w->out, w->err);
}

static flx_code differentiate(grad_work *w)
{
    FLXI_TRY(check_loss(w));
    flxi_mode mode = w->flags & FLX_GRAD_BACKWARD_OPS ? MODE_BACKWARD_OPS : MODE_VJP;
    FLXI_TRY(flxi_prepare(w->g, mode, &w->prepared, &w->remap, w->err));
    FLXI_TRY(allocate(w));
    for (size_t i = 0; i < w->count; i++) {
        uint32_t id;
        FLXI_TRY(flxi_find_wrt(w->g, w->names[i], &id, w->err));
        w->ids[i] = w->remap.id[id];
        w->wrt[w->ids[i]] = true;
    }
    mark_ancestors(w);
    FLXI_TRY(check_paths(w));
    FLXI_TRY(sweep(w));
    FLXI_TRY(write_outputs(w));
    return flxi_finish(&w->out, w->err);
}

flx_graph *flx_grad(const flx_graph *g, const char *const *wrt, size_t count, const flx_grad_options *options,
                    flx_error *err)
{
    flx_error local = {0};
    flx_grad_options o;
    flx_code code = flx_graph_error(g, &local);
    if (code == FLX_OK)
        code = flxi_check_grad_options("flx_grad", options, &o, &local);
    if (code == FLX_OK)
        code = flxi_check_wrt("flx_grad", wrt, count, &local);
    grad_work w = {.g = g, .names = wrt, .count = count, .flags = code == FLX_OK ? o.flags : 0, .err = &local};
    if (code == FLX_OK)
        code = differentiate(&w);
    w.out = flxi_transformed(w.out, g, "grad", &local, err);
    if (w.prepared || w.out)
        release(&w);
    return w.out;
}
