/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_names.c: what the names of a model stand for, and what they are called in the graph; types, initialisers. */
#include "onnx/import/onnx_scope.h"

#include "base/context.h"
#include "graph/type/dim.h"

#include <ctype.h>
#include <stdio.h>

/* ---- Scopes ---- */

void flxi_onnx_scope_init(onnx_scope *sc, onnx_import *im, const onnx_scope *parent)
{
    *sc = (onnx_scope){.im = im, .parent = parent, .names.arena = &im->arena};
    if (!parent)
        return;
    sc->g = parent->g;
    sc->opsets = parent->opsets;
    sc->num_opsets = parent->num_opsets;
    sc->function = parent->function;
    sc->call = parent->call;
    sc->caller = parent->caller;
    sc->depth = parent->depth + 1;
}

void flxi_onnx_scope_free(onnx_scope *sc)
{
    flxi_strings_free(&sc->names);
    flxi_vec_free(&sc->im->ctx->mem, &sc->values);
}

bool flxi_onnx_bind(onnx_scope *sc, const char *name, const onnx_value *v)
{
    size_t known = sc->names.texts.n;
    size_t i = flxi_intern_number(&sc->names, name, strlen(name));
    if (i != SIZE_MAX && i < known) {
        flxi_graph_failf(sc->g, FLX_E_DUP_NAME, NULL, "the name '%.80s' is defined twice in a graph of the model",
                         name);
        return false;
    }
    bool ok = i != SIZE_MAX && flxi_push(&sc->im->ctx->mem, &sc->values, *v);
    if (!ok)
        flxi_graph_failf(sc->g, FLX_E_OOM, NULL, "no memory for an ONNX model");
    return ok;
}

static size_t find_name(const flxi_strings *names, const char *name)
{
    uint32_t i;
    uint64_t hash = flxi_hash_bytes(FLXI_HASH_SEED, name, strlen(name));
    for (flxi_probe p = flxi_index_first(&names->index, hash); flxi_index_next(&names->index, &p, &i);)
        if (strcmp(names->texts.at[i], name) == 0)
            return i;
    return SIZE_MAX;
}

const onnx_value *flxi_onnx_lookup(const onnx_scope *sc, const char *name)
{
    for (; sc; sc = sc->parent) {
        size_t i = find_name(&sc->names, name);
        if (i < sc->values.n)
            return &sc->values.at[i];
    }
    return NULL;
}

const onnx_value *flxi_onnx_value_of(const onnx_site *s, const char *name)
{
    for (const onnx_scope *sc = s->scope; sc && sc->g == s->g; sc = sc->parent) {
        size_t i = find_name(&sc->names, name);
        if (i < sc->values.n)
            return &sc->values.at[i];
    }
    return NULL;
}

/* ---- Names in the graph ---- */

size_t flxi_onnx_plain_name(const char *name, char *out, size_t size)
{
    size_t n = 0;
    while (*name == '/' || *name == ':')
        name++;
    if (isdigit((unsigned char)*name) || *name == '.' || *name == 0)
        out[n++] = '_';
    for (; *name && n + 1 < size; name++)
        out[n++] = isalnum((unsigned char)*name) || *name == '.' || *name == '_' ? *name : '_';
    out[n] = 0;
    if (!flxi_is_label(out, n) && n + 2 < size) { /* a word of the language */
        out[n++] = '_';
        out[n++] = '1';
        out[n] = 0;
    }
    return n;
}

const char *flxi_onnx_leaf_name(onnx_import *im, const char *name)
{
    char plain[160];
    flxi_onnx_plain_name(name, plain, sizeof plain);
    return flxi_unique_name(&im->leaves, plain);
}

/* ---- Types ---- */

static flx_dim extent_of(onnx_import *im, const onnx_dim *d, const char *name, size_t axis)
{
    char symbol[100];
    if (d->value >= 0)
        return d->value;
    for (size_t i = 0; i < im->options.num_dims && d->param; i++)
        if (strcmp(im->options.dims[i].name, d->param) == 0) {
            im->is_bound[i] = true;
            return im->options.dims[i].extent;
        }
    if (d->param && d->param[0])
        flxi_onnx_plain_name(d->param, symbol, sizeof symbol);
    else if (name)
        snprintf(symbol, sizeof symbol, "%.70s_d%zu", name, axis);
    else
        return FLX_DIM_INVALID;
    return flx_dim_symbol(im->ctx, symbol);
}

bool flxi_onnx_our_type(onnx_import *im, const onnx_type *t, const char *name, flx_type *out, flx_error *err)
{
    const onnx_element *e = flxi_onnx_element(t->element);
    if (!e || !t->has_shape || t->rank > FLX_MAX_RANK) {
        flxi_fail(err, FLX_E_UNSUPPORTED, "unsupported: input '%.60s' has %s", name ? name : "",
                  !e              ? "an element type that is not known here"
                  : !t->has_shape ? "no declared shape"
                                  : "too many axes");
        return false;
    }
    *out = (flx_type){.dtype = (int32_t)e->carrier, .rank = (int32_t)t->rank};
    for (size_t i = 0; i < t->rank; i++) {
        out->dims[i] = extent_of(im, &t->dims[i], name, i);
        if (out->dims[i] == FLX_DIM_INVALID) {
            flxi_fail(err, flxi_dim_starved(im->ctx) ? FLX_E_OOM : FLX_E_UNSUPPORTED,
                      "unsupported: input '%.60s' has an extent that is not known", name ? name : "");
            return false;
        }
    }
    return true;
}

/* ---- Initialisers ---- */

/* Trainable: floating, with an axis. Scalars are constants of formulas as a rule. */
static bool becomes_param(const onnx_import *im, const flx_tensor *t)
{
    const flx_type *type = flx_tensor_type(t);
    return !(im->options.flags & FLX_ONNX_CONSTANTS) && type->rank > 0 && flxi_is_float(type->dtype);
}

static bool declare_param(onnx_scope *sc, const char *name, flx_tensor *t, flx_val *v)
{
    onnx_import *im = sc->im;
    const char *ours = flxi_onnx_leaf_name(im, name);
    char *kept = ours ? flxi_arena_text(&im->result->arena, ours, strlen(ours)) : NULL;
    if (!kept)
        return false;
    *v = flx_param(sc->g, kept, flx_tensor_type(t));
    onnx_param p = {.name = kept, .id = v->id, .value = flx_tensor_retain(t)};
    if (!flxi_push(&im->ctx->mem, &im->result->params, p)) {
        flx_tensor_release(t);
        return false;
    }
    return true;
}

/* Consumes the tensor. */
static bool declare_initialiser(onnx_scope *sc, const char *name, int32_t element, flx_tensor *t, bool is_param)
{
    onnx_value v = {.kind = ONNX_T_TENSOR, .element = element};
    bool is_narrow = flxi_onnx_float_format(element) != NULL;
    bool ok = true;
    if (is_param && !is_narrow && becomes_param(sc->im, t)) {
        ok = declare_param(sc, name, t, &v.v);
    } else {
        v.v = flx_const(sc->g, .type = flx_tensor_type(t), .data = t);
        v.is_const = true;
    }
    flx_tensor_release(t);
    if (!ok)
        flxi_graph_failf(sc->g, FLX_E_OOM, NULL, "no memory for an ONNX model");
    return ok && flxi_onnx_bind(sc, name, &v);
}

static bool declare_texts(onnx_scope *sc, const onnx_tensor *t)
{
    onnx_value v = {.kind = ONNX_T_TEXTS, .element = ONNX_STRING, .is_const = true};
    flx_error err = {0};
    if (flxi_onnx_texts_read(t, &v.texts, &err) == FLX_OK)
        return flxi_onnx_bind(sc, t->name, &v);
    flxi_graph_fail(sc->g, &err);
    flxi_onnx_note_error(sc, t->offset);
    return false;
}

bool flxi_onnx_declare_initialisers(onnx_scope *sc, const onnx_graph *g, bool are_params)
{
    onnx_import *im = sc->im;
    for (size_t i = 0; i < g->num_initialisers + g->num_sparse; i++) {
        bool is_sparse = i >= g->num_initialisers;
        const onnx_sparse *sparse = is_sparse ? &g->sparse[i - g->num_initialisers] : NULL;
        const onnx_tensor *t = is_sparse ? &sparse->values : &g->initialisers[i];
        flx_error err = {0};
        if (!is_sparse && t->element == ONNX_STRING) {
            if (!declare_texts(sc, t))
                return false;
            continue;
        }
        flx_tensor *value = is_sparse ? flxi_onnx_sparse_tensor(im->ctx, sparse, &im->origin, &err)
                                      : flxi_onnx_tensor(im->ctx, t, &im->origin, &err);
        if (!value) {
            if (im->error.code == FLX_OK)
                im->error = err;
            return false;
        }
        if (!declare_initialiser(sc, t->name, t->element, value, are_params))
            return false;
    }
    return true;
}

bool flxi_onnx_take_outputs(onnx_scope *sc, const onnx_graph *g, onnx_value *out)
{
    for (size_t i = 0; i < g->num_outputs; i++) {
        const onnx_value *v = flxi_onnx_lookup(sc, g->outputs[i].name);
        if (!v) {
            flxi_graph_failf(sc->g, FLX_E_NAME, NULL, "output '%.80s' of the graph is not defined", g->outputs[i].name);
            return false;
        }
        out[i] = *v;
    }
    return true;
}

void flxi_onnx_note_error(const onnx_scope *sc, size_t offset)
{
    onnx_import *im = sc->im;
    if (im->error.code != FLX_OK || flx_graph_error(sc->g, &im->error) == FLX_OK)
        return;
    im->error.where[0] = 0;
    flxi_at(&im->error, "%.90s:%zu", im->origin.file, offset);
}
