/* SPDX-License-Identifier: Apache-2.0 */
/* jacobian.c: Jacobians and Hessians, built from the other transforms.

   Forward: the jvp is batched over its tangent and run on directions that together cover every element of an input.
   Reverse: the same with the vjp and an output. Where the graph shows that the Jacobian is zero off a diagonal or a
   band, elements far enough apart share a direction, and the results are rearranged afterwards. The result is an
   ordinary graph with the inputs of the given one. */
#include "autodiff/jacobian/jacobian.h"

#include "base/options.h"

#include <stdio.h>

typedef struct {
    const flx_graph *g;
    flx_graph *out;
    const char *const *wrt;
    size_t count;
    flxi_pattern *patterns; /* [input][output] */
    flx_val *blocks;        /* [output][input] */
    const char *suffix;     /* of the graph's name, and the beginning of its outputs' names */
    const flx_graph *named; /* whose name it is */
    flx_jacobian_options options;
    flx_error *err;
} jacobian_work;

static const flx_type *wrt_type(const jacobian_work *w, size_t i)
{
    return flx_val_type(w->g, flx_graph_find(w->g, w->wrt[i]));
}

static const flx_type *output_type(const jacobian_work *w, size_t k)
{
    return flxi_type_at(w->g, w->g->outputs.at[k].val);
}

static const flxi_pattern *pattern_of(const jacobian_work *w, size_t i, size_t k)
{
    return &w->patterns[i * w->g->outputs.n + k];
}

/* ---- Directions ---- */

static void no_pattern(const jacobian_work *w, size_t i)
{
    for (size_t k = 0; k < w->g->outputs.n; k++) {
        flxi_pattern *p = &w->patterns[i * w->g->outputs.n + k];
        p->reached = true;
        for (int q = 0; q < FLX_MAX_RANK; q++)
            p->link[q].axis = -1;
    }
}

static bool is_empty(const flx_type *t)
{
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k] == 0)
            return true;
    return false;
}

/* A block without elements needs no work, whatever its other extents are. */
static void skip_empty(const jacobian_work *w)
{
    for (size_t i = 0; i < w->count; i++)
        for (size_t k = 0; k < w->g->outputs.n; k++)
            if (is_empty(wrt_type(w, i)) || is_empty(output_type(w, k)))
                w->patterns[i * w->g->outputs.n + k].reached = false;
}

static flx_code find_patterns(jacobian_work *w)
{
    flx_graph *prepared = NULL;
    flxi_remap remap = {0};
    flx_code code = FLX_OK;
    w->patterns = flxi_new(&w->out->arena, flxi_pattern, w->count * w->g->outputs.n);
    if (!w->patterns)
        return flxi_oom(w->err, "a Jacobian");
    if (w->options.flags & FLX_JACOBIAN_DENSE) {
        for (size_t i = 0; i < w->count; i++)
            no_pattern(w, i);
        return FLX_OK;
    }
    FLXI_TRY(flxi_prepare(w->g, MODE_JVP, &prepared, &remap, w->err));
    for (size_t i = 0; code == FLX_OK && i < w->count; i++)
        code = flxi_find_patterns(prepared, remap.id[flx_graph_find(w->g, w->wrt[i]).id],
                                  &w->patterns[i * w->g->outputs.n], w->err);
    flxi_remap_free(&remap);
    flx_graph_release(prepared);
    return code;
}

static void widen(int64_t *width, const flxi_link *l)
{
    int64_t mine = l->hi - l->lo + 1;
    *width = mine > *width ? mine : *width;
}

/* Elements of input i that no element of any output depends on together share a direction. */
static flxi_directions along_input(const jacobian_work *w, size_t i)
{
    flxi_directions d = {.type = wrt_type(w, i)};
    for (int q = 0; q < d.type->rank; q++) {
        bool is_tied = true;
        for (size_t k = 0; k < w->g->outputs.n; k++) {
            const flxi_pattern *p = pattern_of(w, i, k);
            is_tied &= !p->reached || p->link[q].axis >= 0;
            if (p->reached)
                widen(&d.width[q], &p->link[q]);
        }
        if (!is_tied || (flxi_dim_is_number(d.type->dims[q]) && d.width[q] >= d.type->dims[q]))
            d.width[q] = 0;
    }
    flxi_count_colours(w->g->ctx, &d);
    return d;
}

/* The axis of input i that is tied to axis p of output k; -1: none. */
static int tied_axis(const jacobian_work *w, size_t i, size_t k, int p)
{
    for (int q = 0; q < wrt_type(w, i)->rank; q++)
        if (pattern_of(w, i, k)->link[q].axis == p)
            return q;
    return -1;
}

/* The same for output k: elements that depend on no element of any input together. */
static flxi_directions along_output(const jacobian_work *w, size_t k)
{
    flxi_directions d = {.type = output_type(w, k)};
    for (int p = 0; p < d.type->rank; p++) {
        bool is_tied = true;
        for (size_t i = 0; i < w->count; i++) {
            if (!pattern_of(w, i, k)->reached)
                continue;
            int q = tied_axis(w, i, k, p);
            is_tied &= q >= 0;
            if (q >= 0)
                widen(&d.width[p], &pattern_of(w, i, k)->link[q]);
        }
        if (!is_tied || (flxi_dim_is_number(d.type->dims[p]) && d.width[p] >= d.type->dims[p]))
            d.width[p] = 0;
    }
    flxi_count_colours(w->g->ctx, &d);
    return d;
}

static size_t ties_of_input(const jacobian_work *w, const flxi_directions *d, size_t i, size_t k, flxi_tie *ties)
{
    size_t n = 0;
    for (int q = 0; q < d->type->rank; q++) {
        const flxi_link *l = &pattern_of(w, i, k)->link[q];
        if (d->width[q])
            ties[n++] = (flxi_tie){.of = q, .to = l->axis, .lo = l->lo, .hi = l->hi};
    }
    return n;
}

static size_t ties_of_output(const jacobian_work *w, const flxi_directions *d, size_t i, size_t k, flxi_tie *ties)
{
    size_t n = 0;
    for (int p = 0; p < d->type->rank; p++) {
        int q = d->width[p] ? tied_axis(w, i, k, p) : -1;
        if (q < 0)
            continue;
        const flxi_link *l = &pattern_of(w, i, k)->link[q];
        ties[n++] = (flxi_tie){.of = p, .to = q, .lo = -l->hi, .hi = -l->lo};
    }
    return n;
}

/* ---- Blocks ---- */

/* The type of the block of output k with respect to input i: output ++ input, of the output's dtype unless the input is
   complex. */
static flx_code block_type(const jacobian_work *w, size_t i, size_t k, flx_type *t)
{
    const flx_type *y = output_type(w, k);
    const flx_type *x = wrt_type(w, i);
    if (y->rank + x->rank > FLX_MAX_RANK)
        return flxi_fail(w->err, FLX_E_SIZE,
                         "the Jacobian of '%.80s' with respect to '%.80s' would have rank %d, the limit is %d",
                         w->g->outputs.at[k].name, w->wrt[i], y->rank + x->rank, FLX_MAX_RANK);
    *t = *y;
    t->dtype = flxi_is_complex(x->dtype) ? x->dtype : y->dtype;
    t->rank = y->rank + x->rank;
    memcpy(t->dims + y->rank, x->dims, (size_t)x->rank * sizeof(flx_dim));
    return FLX_OK;
}

/* Zeros for derivatives without any dependency. */
static flx_code zero_block(jacobian_work *w, size_t i, size_t k)
{
    flxi_site s = flxi_plain_site(w->out);
    flx_type t;
    FLXI_TRY(block_type(w, i, k, &t));
    w->blocks[k * w->count + i] = flxi_zeros(&s, &t);
    return flxi_built(w->out, w->err);
}

/* From [elements, rest…], a row for each element of the input or of the output, to output ++ input. */
static flx_code output_block(jacobian_work *w, flx_val v, size_t i, size_t k, bool by_input)
{
    flxi_site s = flxi_plain_site(w->out);
    flx_type t;
    FLXI_TRY(block_type(w, i, k, &t));
    if (by_input)
        v = flxi_move_axis(&s, v, 0, output_type(w, k)->rank);
    v = flxi_reshape_to(&s, v, t.rank, t.dims);
    w->blocks[k * w->count + i] = flxi_typeof(&s, v)->dtype == t.dtype ? v : flx_cast(w->out, v, (flx_dtype)t.dtype);
    return flxi_built(w->out, w->err);
}

static flxi_many many(const jacobian_work *w, const flx_graph *one, const flxi_directions *d)
{
    return (flxi_many){.g = w->out,
                       .one = one,
                       .along = *d,
                       .chunk = w->options.chunk,
                       .budget = w->options.budget,
                       .seed = flxi_value_at(one, one->leaves.at[one->leaves.n - 1])->name,
                       .err = w->err};
}

/* The tangents of the outputs that input i reaches, and nothing else. */
static flx_graph *tangents_of(jacobian_work *w, size_t i)
{
    size_t outputs = w->g->outputs.n;
    size_t n = 0;
    flx_graph *jvp = flx_jvp(w->g, &w->wrt[i], 1, w->err);
    flxi_choice *choices = jvp ? flxi_alloc(&w->g->ctx->mem, outputs, sizeof *choices) : NULL;
    flx_graph *one = NULL;
    if (jvp && !choices)
        flxi_oom(w->err, "a Jacobian");
    for (size_t k = 0; choices && k < outputs; k++)
        if (pattern_of(w, i, k)->reached)
            choices[n++].output = outputs + k;
    if (choices)
        one = flxi_choose_outputs(jvp, choices, n, w->err);
    flxi_free(&w->g->ctx->mem, choices, outputs, sizeof *choices);
    flx_graph_release(jvp);
    return one;
}

/* All outputs with respect to input i: one batched jvp. */
static flx_code forward_column(jacobian_work *w, size_t i)
{
    flxi_site s = flxi_plain_site(w->out);
    flxi_directions d = along_input(w, i);
    flxi_tie ties[FLX_MAX_RANK];
    size_t reached = 0;
    for (size_t k = 0; k < w->g->outputs.n; k++) {
        reached += pattern_of(w, i, k)->reached;
        if (!pattern_of(w, i, k)->reached)
            FLXI_TRY(zero_block(w, i, k));
    }
    if (!reached)
        return FLX_OK;
    flx_graph *one = tangents_of(w, i);
    flx_val *out = flxi_new(&w->out->arena, flx_val, reached);
    flx_code code = one && out ? FLX_OK : one ? flxi_oom(w->err, "a Jacobian") : (flx_code)w->err->code;
    if (code == FLX_OK) {
        flxi_many m = many(w, one, &d);
        code = flxi_run_many(&m, out);
    }
    for (size_t k = 0, at = 0; code == FLX_OK && k < w->g->outputs.n; k++) {
        if (!pattern_of(w, i, k)->reached)
            continue;
        flx_val v = flxi_spread_colours(&s, &d, out[at++], ties, ties_of_input(w, &d, i, k, ties));
        code = output_block(w, v, i, k, true);
    }
    flx_graph_release(one);
    return code;
}

/* The cotangents of the inputs that reach output k. */
static flx_graph *cotangents_of(jacobian_work *w, size_t k, const char **names, size_t *count)
{
    flxi_choice choice = {.output = k};
    flx_grad_options o = {.struct_size = sizeof o, .flags = FLX_GRAD_SEED_INPUT | FLX_GRAD_MISSING_ZERO};
    flx_graph *alone = flxi_choose_outputs(w->g, &choice, 1, w->err);
    *count = 0;
    for (size_t i = 0; i < w->count; i++)
        if (pattern_of(w, i, k)->reached)
            names[(*count)++] = w->wrt[i];
    flx_graph *one = alone ? flx_grad(alone, names, *count, &o, w->err) : NULL;
    flx_graph_release(alone);
    return one;
}

/* Output k with respect to all inputs: one batched vjp. */
static flx_code reverse_row(jacobian_work *w, size_t k)
{
    flxi_site s = flxi_plain_site(w->out);
    flxi_directions d = along_output(w, k);
    flxi_tie ties[FLX_MAX_RANK];
    const char **names = flxi_new(&w->out->arena, const char *, w->count);
    flx_val *out = flxi_new(&w->out->arena, flx_val, w->count);
    size_t reached = 0;
    if (!names || !out)
        return flxi_oom(w->err, "a Jacobian");
    for (size_t i = 0; i < w->count; i++) {
        reached += pattern_of(w, i, k)->reached;
        if (!pattern_of(w, i, k)->reached)
            FLXI_TRY(zero_block(w, i, k));
    }
    if (!reached)
        return FLX_OK;
    flx_graph *one = cotangents_of(w, k, names, &reached);
    flx_code code = one ? FLX_OK : (flx_code)w->err->code;
    if (code == FLX_OK) {
        flxi_many m = many(w, one, &d);
        code = flxi_run_many(&m, out);
    }
    for (size_t i = 0, at = 0; code == FLX_OK && i < w->count; i++) {
        if (!pattern_of(w, i, k)->reached)
            continue;
        flx_val v = flxi_spread_colours(&s, &d, out[at++], ties, ties_of_output(w, &d, i, k, ties));
        code = output_block(w, v, i, k, false);
    }
    flx_graph_release(one);
    return code;
}

/* ---- The whole ---- */

/* Forward where it takes no more directions. A symbol counts as more than any number. */
static bool prefers_forward(const jacobian_work *w)
{
    flx_dim in = 0;
    flx_dim out = 0;
    for (size_t i = 0; i < w->count; i++)
        in = flx_dim_add(w->g->ctx, in, along_input(w, i).colours);
    for (size_t k = 0; k < w->g->outputs.n; k++)
        out = flx_dim_add(w->g->ctx, out, along_output(w, k).colours);
    if (!flxi_dim_is_number(in) || !flxi_dim_is_number(out))
        return !flxi_dim_is_number(out);
    return in <= out;
}

static flx_code name_blocks(jacobian_work *w)
{
    for (size_t k = 0; k < w->g->outputs.n; k++)
        for (size_t i = 0; i < w->count; i++) {
            char name[300];
            const char *output = w->g->outputs.at[k].name;
            bool hessian = strcmp(w->suffix, "hessian") == 0; /* outputs are then called d_<input> */
            snprintf(name, sizeof name, "%s_%.120s_%.120s", w->suffix, hessian ? output + 2 : output, w->wrt[i]);
            flx_output(w->out, w->blocks[k * w->count + i], name);
        }
    return flxi_built(w->out, w->err);
}

static flx_code check_types(const jacobian_work *w)
{
    flxi_value_text text;
    for (size_t i = 0; i < w->count; i++) {
        uint32_t id;
        FLXI_TRY(flxi_find_wrt(w->g, w->wrt[i], &id, w->err));
        if (!(flxi_ops[flxi_node_of(w->g, id)->op].traits & TRAIT_DECLARED))
            return flxi_fail(w->err, FLX_E_NAME, "%s is not an input of '%.100s'",
                             flxi_value_str(w->g, id, w->wrt[i], &text), w->g->name);
    }
    for (size_t k = 0; k < w->g->outputs.n; k++)
        if (!flxi_in(FLXI_FLOATS | FLXI_COMPLEX, output_type(w, k)->dtype))
            return flxi_fail_hint(w->err, FLX_E_NOT_DIFFERENTIABLE, "only floating and complex values have derivatives",
                                  "the output %s has no Jacobian",
                                  flxi_value_str(w->g, w->g->outputs.at[k].val, w->g->outputs.at[k].name, &text));
    return FLX_OK;
}

/* A tangent along a real direction is complex where the value is, and so is the cotangent of a complex input from a
   real output. A complex output with respect to a complex input would need two matrices. */
static flx_code choose_mode(const jacobian_work *w, bool *forward)
{
    flxi_value_text in = {""};
    flxi_value_text out = {""};
    uint32_t mode = w->options.mode;
    for (size_t i = 0; i < w->count; i++)
        if (flxi_is_complex(wrt_type(w, i)->dtype))
            flxi_value_str(w->g, flx_graph_find(w->g, w->wrt[i]).id, w->wrt[i], &in);
    for (size_t k = 0; k < w->g->outputs.n; k++)
        if (flxi_is_complex(output_type(w, k)->dtype))
            flxi_value_str(w->g, w->g->outputs.at[k].val, w->g->outputs.at[k].name, &out);
    if (in.s[0] && out.s[0])
        return flxi_fail_hint(w->err, FLX_E_UNSUPPORTED, "differentiate real and imaginary parts separately",
                              "%s and the output %s are both complex: no single complex matrix is their Jacobian", in.s,
                              out.s);
    if ((in.s[0] && mode == FLX_JACOBIAN_FORWARD) || (out.s[0] && mode == FLX_JACOBIAN_REVERSE))
        return flxi_fail(w->err, FLX_E_UNSUPPORTED, "%s%s is complex: that needs %s mode", in.s[0] ? "" : "the output ",
                         in.s[0] ? in.s : out.s, in.s[0] ? "reverse" : "forward");
    *forward =
        out.s[0] || (!in.s[0] && (mode == FLX_JACOBIAN_FORWARD || (mode == FLX_JACOBIAN_AUTO && prefers_forward(w))));
    return FLX_OK;
}

static flx_code build_jacobian(jacobian_work *w)
{
    size_t ids = (size_t)w->g->value_count + 1;
    bool is_forward;
    uint32_t *map = flxi_alloc(&w->g->ctx->mem, ids, sizeof *map);
    w->out = flxi_derived_graph(w->named, w->suffix);
    flx_code code = w->out && map ? flxi_copy_leaves(w->g, w->out, map, w->err) : flxi_oom(w->err, "a Jacobian");
    flxi_free(&w->g->ctx->mem, map, ids, sizeof *map);
    FLXI_TRY(code);
    w->blocks = flxi_new(&w->out->arena, flx_val, w->g->outputs.n * w->count);
    if (!w->blocks)
        return flxi_oom(w->err, "a Jacobian");
    FLXI_TRY(check_types(w));
    FLXI_TRY(find_patterns(w));
    skip_empty(w);
    FLXI_TRY(choose_mode(w, &is_forward));
    for (size_t i = 0; is_forward && i < w->count; i++)
        FLXI_TRY(forward_column(w, i));
    for (size_t k = 0; !is_forward && k < w->g->outputs.n; k++)
        FLXI_TRY(reverse_row(w, k));
    FLXI_TRY(name_blocks(w));
    return flxi_finish(&w->out, w->err);
}

static flx_graph *jacobian(jacobian_work *w, const flx_jacobian_options *options)
{
    if (FLXI_READ_OPTIONS(flx_jacobian_options, &w->options, options, w->err) != FLX_OK)
        return NULL;
    const flx_jacobian_options *o = &w->options;
    if (o->mode > FLX_JACOBIAN_REVERSE || (o->flags & ~(uint32_t)FLX_JACOBIAN_DENSE) || o->chunk < 0 || o->budget < 0 ||
        o->reserved) {
        flxi_fail_hint(w->err, FLX_E_USAGE, "mode 0 to 2, flags 0 or FLX_JACOBIAN_DENSE, chunk and budget from 0",
                       "flx_jacobian_options: mode %u, flags 0x%x, chunk %lld, budget %lld", (unsigned)o->mode,
                       (unsigned)o->flags, (long long)o->chunk, (long long)o->budget);
        return NULL;
    }
    if (build_jacobian(w) == FLX_OK)
        return w->out;
    flx_graph_release(w->out);
    return NULL;
}

static bool has_derivative(const flx_graph *g, size_t output)
{
    return flxi_in(FLXI_FLOATS | FLXI_COMPLEX, flxi_type_at(g, g->outputs.at[output].val)->dtype);
}

static flx_code choose_named(const flx_graph *g, const flx_jacobian_options *o, flxi_choice *choices, size_t *n,
                             flx_error *err)
{
    char text[60];
    for (; *n < o->num_outputs; ++*n) {
        const char *name = o->outputs ? o->outputs[*n] : NULL;
        if (!name)
            return flxi_fail(err, FLX_E_USAGE, "flx_jacobian: the name of an output is NULL");
        size_t k = 0;
        while (k < g->outputs.n && strcmp(g->outputs.at[k].name, name) != 0)
            k++;
        flxi_printable(text, sizeof text, name, strlen(name));
        if (k == g->outputs.n)
            return flxi_fail_hint(err, FLX_E_NAME, "flx check lists the outputs of a graph",
                                  "the graph '%.100s' has no output called '%s'", g->name, text);
        for (size_t i = 0; i < *n; i++)
            if (choices[i].output == k)
                return flxi_fail(err, FLX_E_DUP_NAME, "flx_jacobian: the output '%s' is named twice", text);
        choices[*n].output = k;
    }
    return FLX_OK;
}

/* The graph with the outputs that are asked for, or else those that have a derivative; NULL with the error in err. */
static flx_graph *with_outputs(const flx_graph *g, const flx_jacobian_options *o, flx_error *err)
{
    const flxi_allocator *mem = &g->ctx->mem;
    size_t n = 0, room = (o->num_outputs > g->outputs.n ? o->num_outputs : g->outputs.n) + 1;
    flxi_choice *choices = flxi_alloc(mem, room, sizeof *choices);
    flx_graph *out = NULL;
    if (!choices)
        flxi_oom(err, "a Jacobian");
    for (size_t k = 0; choices && !o->num_outputs && k < g->outputs.n; k++)
        if (has_derivative(g, k))
            choices[n++].output = k;
    if (choices && !o->num_outputs && !n && g->outputs.n) /* says which has none */
        choices[n++].output = 0;
    flx_code code = choices ? choose_named(g, o, choices, &n, err) : FLX_E_OOM;
    if (code == FLX_OK && n)
        out = flxi_choose_outputs(g, choices, n, err);
    else if (code == FLX_OK)
        flxi_check_loss(g, err);
    if (choices)
        flxi_free(mem, choices, room, sizeof *choices);
    return out;
}

flx_graph *flx_jacobian(const flx_graph *g, const char *const *wrt, size_t count, const flx_jacobian_options *options,
                        flx_error *err)
{
    flx_error local = {0};
    flx_graph *out = NULL;
    flx_jacobian_options o;
    if (flx_graph_error(g, &local) == FLX_OK && flxi_check_wrt("flx_jacobian", wrt, count, &local) == FLX_OK &&
        FLXI_READ_OPTIONS(flx_jacobian_options, &o, options, &local) == FLX_OK) {
        flx_graph *chosen = with_outputs(g, &o, &local);
        jacobian_work w = {.g = chosen, .wrt = wrt, .count = count, .suffix = "jac", .named = g, .err = &local};
        if (chosen)
            out = jacobian(&w, &o);
        flx_graph_release(chosen);
    }
    return flxi_transformed(out, g, "jac", &local, err);
}

flx_graph *flx_hessian(const flx_graph *g, const char *const *wrt, size_t count, const flx_jacobian_options *options,
                       flx_error *err)
{
    static const flx_jacobian_options forward = {.struct_size = sizeof forward, .mode = FLX_JACOBIAN_FORWARD};
    flx_error local = {0};
    flx_graph *out = NULL;
    flxi_choice loss = {.output = 0};
    flx_graph *alone = NULL;
    flx_jacobian_options o;
    if (flx_graph_error(g, &local) == FLX_OK && flxi_check_wrt("flx_hessian", wrt, count, &local) == FLX_OK &&
        FLXI_READ_OPTIONS(flx_jacobian_options, &o, options ? options : &forward, &local) == FLX_OK &&
        (!o.num_outputs || flxi_fail(&local, FLX_E_USAGE, "flx_hessian: outputs are for flx_jacobian") == FLX_OK) &&
        flxi_check_loss(g, &local) == FLX_OK)
        alone = flxi_choose_outputs(g, &loss, 1, &local);
    flx_graph *gradient = alone ? flx_grad(alone, wrt, count, NULL, &local) : NULL;
    if (gradient) {
        jacobian_work w = {.g = gradient, .wrt = wrt, .count = count, .suffix = "hessian", .named = g, .err = &local};
        out = jacobian(&w, &o);
    }
    flx_graph_release(alone);
    flx_graph_release(gradient);
    flxi_without_options(&local);
    return flxi_transformed(out, g, "hessian", &local, err);
}
