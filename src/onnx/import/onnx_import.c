/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_import.c: flx_onnx_read and its relatives: parse, then import the graph of the model. */
#include "base/context.h"
#include "base/distinct.h"
#include "base/options.h"
#include "format/file.h"
#include "graph/module.h"
#include "onnx/import/onnx_scope.h"

#include <stdio.h>

static const int64_t max_nodes = 300000; /* once functions and loops are expanded */

/* ---- Inputs ---- */

static bool is_initialiser(const onnx_graph *g, const char *name)
{
    for (size_t i = 0; i < g->num_initialisers; i++)
        if (strcmp(g->initialisers[i].name, name) == 0)
            return true;
    for (size_t i = 0; i < g->num_sparse; i++)
        if (strcmp(g->sparse[i].values.name, name) == 0)
            return true;
    return false;
}

/* The value that the caller has fixed for an input; NULL: none. */
static const flx_tensor *fixed_input(const onnx_import *im, const char *name, const char *ours)
{
    for (size_t i = 0; i < im->options.num_inputs; i++)
        if (strcmp(im->options.inputs[i].name, name) == 0 || strcmp(im->options.inputs[i].name, ours) == 0) {
            im->is_used[i] = true;
            return im->options.inputs[i].value;
        }
    return NULL;
}

/* A fixed value must have the type that the model declares, as far as it does. */
static bool check_fixed(onnx_scope *sc, const onnx_type *t, const char *name, const flx_type *given)
{
    const onnx_element *e = flxi_onnx_element(t->element);
    flx_context *ctx = sc->im->ctx;
    flxi_type_text text;
    if (e && (int32_t)e->carrier != given->dtype) {
        flxi_graph_failf(sc->g, FLX_E_DTYPE, NULL, "the input '%.60s' is declared %s, but the fixed value is %s", name,
                         flx_dtype_name((int32_t)e->carrier), flxi_type_str(ctx, given, &text));
        return false;
    }
    bool fits = !t->has_shape || t->rank == (size_t)given->rank;
    for (size_t i = 0; fits && t->has_shape && i < t->rank; i++)
        fits = t->dims[i].value < 0 || t->dims[i].value == given->dims[i];
    if (!fits)
        flxi_graph_failf(sc->g, FLX_E_SHAPE, NULL, "the input '%.60s' has another shape than the fixed value, %s", name,
                         flxi_type_str(ctx, given, &text));
    return fits;
}

/* A name that the model lacks is a mistake: its value would be left out in silence. */
static void check_given_names(const onnx_import *im, flx_graph *g)
{
    for (size_t i = 0; i < im->options.num_dims; i++)
        if (!im->is_bound[i]) {
            flxi_graph_failf(g, FLX_E_NAME, NULL, "no input of the model has a dimension '%.60s'",
                             im->options.dims[i].name);
            return;
        }
    for (size_t i = 0; i < im->options.num_inputs; i++)
        if (!im->is_used[i]) {
            const char *name = im->options.inputs[i].name;
            bool is_there = is_initialiser(im->model->graph, name);
            flxi_graph_failf(g, FLX_E_NAME, is_there ? "an initialiser has its value already" : NULL,
                             "the model has no input '%.60s' to be fixed", name);
            return;
        }
}

/* Texts must be fixed: the graph has no dtype for them. */
static bool declare_texts(onnx_scope *sc, const onnx_type *t, const char *name, const flx_tensor *fixed,
                          onnx_value *out)
{
    flx_error err = {0};
    *out = (onnx_value){.kind = ONNX_T_TEXTS, .element = ONNX_STRING, .is_const = true};
    if (!fixed) {
        flxi_graph_failf(sc->g, FLX_E_UNSUPPORTED,
                         "fix it: flx_onnx_options.inputs, --fix NAME=SPEC, or `fixed` of fluxion.load()",
                         "unsupported: input '%.60s' has texts, which must be known when the model is read", name);
        return false;
    }
    if (flxi_onnx_texts_unpack(&sc->im->arena, fixed, &out->texts, &err) != FLX_OK) {
        flxi_graph_failf(sc->g, (flx_code)err.code, NULL, "the value of the input '%.60s': %s", name, err.message);
        return false;
    }
    flx_type type = flx_type_make(FLX_U8, (int32_t)out->texts.rank, out->texts.dims);
    return check_fixed(sc, t, name, &type);
}

static bool declare_tensor(onnx_scope *sc, const onnx_type *t, const char *name, onnx_value *out)
{
    onnx_import *im = sc->im;
    const char *ours = flxi_onnx_leaf_name(im, name);
    flx_type type;
    if (!ours) {
        flxi_graph_failf(sc->g, FLX_E_OOM, NULL, "no memory for an ONNX model");
        return false;
    }
    const flx_tensor *fixed = fixed_input(im, name, ours);
    if (t->element == ONNX_STRING)
        return declare_texts(sc, t, name, fixed, out);
    *out = (onnx_value){.kind = ONNX_T_TENSOR, .element = t->element, .is_const = fixed != NULL};
    if (fixed) {
        if (!check_fixed(sc, t, name, flx_tensor_type(fixed)))
            return false;
        out->v = flx_const(sc->g, .type = flx_tensor_type(fixed), .data = fixed);
    } else {
        flx_error err = {0};
        if (!flxi_onnx_our_type(im, t, ours, &type, &err)) {
            flxi_graph_fail(sc->g, &err);
            return false;
        }
        out->v = flx_input(sc->g, ours, &type);
    }
    return flx_graph_error(sc->g, NULL) == FLX_OK;
}

/* A sequence must be fixed: its items are the fixed inputs NAME_0, NAME_1 … */
static bool declare_sequence(onnx_scope *sc, const onnx_type *t, const char *name, onnx_value *out)
{
    onnx_import *im = sc->im;
    size_t n = 0;
    char item[160];
    *out = (onnx_value){.kind = ONNX_T_SEQUENCE};
    do
        snprintf(item, sizeof item, "%.120s_%zu", name, n);
    while (fixed_input(im, item, item) && ++n);
    onnx_value *items = flxi_new(&im->arena, onnx_value, n + 1);
    for (size_t i = 0; items && i < n; i++) {
        snprintf(item, sizeof item, "%.120s_%zu", name, i);
        if (!declare_tensor(sc, t->item, item, &items[i]))
            return false;
    }
    out->items = items;
    out->num_items = n;
    return items != NULL;
}

/* With inputs fixed, an optional is one of them, or it has no value. */
static bool declare_optional(onnx_scope *sc, const onnx_type *t, const char *name, onnx_value *out)
{
    bool is_sequence = t->item->kind == ONNX_T_SEQUENCE && t->item->item;
    if (is_sequence && !sc->im->options.num_inputs) {
        flxi_graph_failf(sc->g, FLX_E_UNSUPPORTED, NULL, "unsupported: input '%.60s' is not a tensor", name);
        return false;
    }
    if (is_sequence && !declare_sequence(sc, t->item, name, out))
        return false;
    if (!is_sequence && sc->im->options.num_inputs && !fixed_input(sc->im, name, name))
        *out = (onnx_value){.kind = ONNX_T_OPTIONAL};
    else if (!is_sequence && !declare_tensor(sc, t->item, name, out))
        return false;
    out->is_optional = out->kind != ONNX_T_OPTIONAL;
    return true;
}

static bool declare_input(onnx_scope *sc, const onnx_value_info *info)
{
    onnx_value v = {0};
    const onnx_type *t = &info->type;
    if (t->kind == ONNX_T_OPTIONAL && t->item && t->item->kind != ONNX_T_OTHER) {
        if (!declare_optional(sc, t, info->name, &v))
            return false;
    } else if (t->kind == ONNX_T_SEQUENCE && t->item && t->item->kind == ONNX_T_TENSOR && sc->im->options.num_inputs) {
        if (!declare_sequence(sc, t, info->name, &v))
            return false;
    } else if (info->type.kind != ONNX_T_TENSOR) {
        flxi_graph_failf(sc->g, FLX_E_UNSUPPORTED, NULL, "unsupported: input '%.60s' is not a tensor", info->name);
        return false;
    } else if (!declare_tensor(sc, &info->type, info->name, &v)) {
        return false;
    }
    return flxi_onnx_bind(sc, info->name, &v);
}

static bool declare_inputs(onnx_scope *sc, const onnx_graph *g)
{
    for (size_t i = 0; i < g->num_inputs; i++)
        if (!is_initialiser(g, g->inputs[i].name) && !declare_input(sc, &g->inputs[i]))
            return false;
    return true;
}

/* ---- Outputs ---- */

static flx_val bytes_of_texts(onnx_scope *sc, const onnx_texts *texts)
{
    flx_error err = {0};
    flx_tensor *t = flxi_onnx_texts_pack(sc->im->ctx, texts, &err);
    if (!t)
        flxi_graph_fail(sc->g, &err);
    flx_val v = t ? flx_const(sc->g, .type = flx_tensor_type(t), .data = t) : FLX_NONE;
    flx_tensor_release(t);
    return v;
}

/* A sequence has an output for each item. */
static void declare_output(onnx_scope *sc, const onnx_value *v, const char *name)
{
    char ours[100];
    size_t n = flxi_onnx_plain_name(name, ours, sizeof ours - 20);
    if (v->kind == ONNX_T_TENSOR || v->kind == ONNX_T_TEXTS) {
        flx_output(sc->g, v->kind == ONNX_T_TEXTS ? bytes_of_texts(sc, &v->texts) : v->v, ours);
        return;
    }
    for (size_t i = 0; i < v->num_items; i++) {
        snprintf(ours + n, sizeof ours - n, "_%zu", i);
        declare_output(sc, &v->items[i], ours);
        ours[n] = 0;
    }
}

static bool import_main(onnx_import *im, flx_graph *g)
{
    const onnx_graph *main_graph = im->model->graph;
    onnx_scope sc;
    flxi_onnx_scope_init(&sc, im, NULL);
    sc.g = g;
    sc.opsets = im->model->opsets;
    sc.num_opsets = im->model->num_opsets;
    onnx_value *out = flxi_new(&im->arena, onnx_value, main_graph->num_outputs + 1);
    im->is_used = flxi_new(&im->arena, bool, im->options.num_inputs + 1);
    im->is_bound = flxi_new(&im->arena, bool, im->options.num_dims + 1);
    bool ok = out && im->is_used && im->is_bound && declare_inputs(&sc, main_graph) &&
              flxi_onnx_declare_initialisers(&sc, main_graph, true) &&
              flxi_onnx_import_nodes(&sc, main_graph->nodes, main_graph->num_nodes) &&
              flxi_onnx_take_outputs(&sc, main_graph, out);
    for (size_t i = 0; i < main_graph->num_outputs && ok; i++)
        declare_output(&sc, &out[i], main_graph->outputs[i].name);
    if (ok && main_graph->num_outputs == 0)
        flxi_graph_failf(g, FLX_E_SYNTAX, NULL, "the model has no outputs");
    if (ok)
        check_given_names(im, g);
    flxi_onnx_note_error(&sc, 0);
    flxi_onnx_scope_free(&sc);
    return ok && im->error.code == FLX_OK;
}

/* ---- The model ---- */

/* Parameters that no node uses stay: they are part of the file. */
static const flx_tensor *param_value(void *user, uint32_t id)
{
    const flx_onnx *m = user;
    for (size_t i = 0; i < m->params.n; i++)
        if (m->params.at[i].id == id)
            return m->params.at[i].value;
    return NULL;
}

static void import_free(onnx_import *im)
{
    for (size_t i = im->kept.n; i-- > 0;)
        flx_graph_release(im->kept.at[i]);
    flxi_vec_free(&im->ctx->mem, &im->kept);
    flxi_known_free(&im->known);
    flxi_names_free(&im->leaves);
    flxi_arena_free(&im->arena);
}

static flx_code import_model(flx_onnx *m, const onnx_model *model, const onnx_origin *origin,
                             const flx_onnx_options *options, flx_error *err)
{
    onnx_import im = {.ctx = m->ctx, .model = model, .origin = *origin, .options = *options, .result = m};
    im.budget = max_nodes;
    im.known = (flxi_known){.mem = &m->ctx->mem, .leaf = param_value, .user = m};
    flxi_arena_init(&im.arena, &m->ctx->mem);
    flxi_names_init(&im.leaves, &im.arena);
    m->graph = flx_graph_new(m->ctx, "main");
    if (!m->graph)
        flxi_oom(&im.error, "an ONNX model");
    else if (!import_main(&im, m->graph) && im.error.code == FLX_OK)
        flxi_oom(&im.error, "an ONNX model");
    import_free(&im);
    if (im.error.code != FLX_OK && err)
        *err = im.error;
    return (flx_code)im.error.code;
}

static flx_onnx *decode_at(flx_context *ctx, const void *bytes, size_t size, const onnx_origin *origin,
                           const flx_onnx_options *options, flx_error *err)
{
    onnx_model model = {0};
    flx_onnx *m = flxi_alloc(&ctx->mem, 1, sizeof *m);
    if (!m) {
        flxi_oom(err, "an ONNX model");
        return NULL;
    }
    *m = (flx_onnx){.ctx = ctx};
    flxi_arena_init(&m->arena, &ctx->mem);
    flx_code code = flxi_onnx_parse(&ctx->mem, bytes, size, origin->file, &model, err);
    if (code == FLX_OK)
        code = import_model(m, &model, origin, options, err);
    flxi_onnx_model_free(&model);
    if (code == FLX_OK)
        return m;
    flx_onnx_free(m);
    return NULL;
}

static flx_code read_options(const flx_context *ctx, const flx_onnx_options *given, flx_onnx_options *out,
                             flx_error *err)
{
    FLXI_TRY(FLXI_READ_OPTIONS(flx_onnx_options, out, given, err));
    if (out->flags & ~(uint32_t)FLX_ONNX_CONSTANTS)
        return flxi_fail(err, FLX_E_USAGE, "flx_onnx_options: unknown flags");
    if ((out->num_inputs && !out->inputs) || (out->num_dims && !out->dims))
        return flxi_fail(err, FLX_E_USAGE, "flx_onnx_options: a list is missing");
    for (size_t i = 0; i < out->num_inputs; i++)
        if (!out->inputs[i].name || !out->inputs[i].value)
            return flxi_fail(err, FLX_E_USAGE, "flx_onnx_options: input %zu has no name or value", i);
    for (size_t i = 0; i < out->num_dims; i++)
        if (!out->dims[i].name || out->dims[i].extent < 0)
            return flxi_fail(err, FLX_E_USAGE, "flx_onnx_options: dimension %zu has no name or a negative extent", i);
    FLXI_TRY(flxi_check_distinct(&ctx->mem, "flx_onnx_options: two values for the input", out->inputs, out->num_inputs,
                                 sizeof *out->inputs, err));
    return flxi_check_distinct(&ctx->mem, "flx_onnx_options: two extents of", out->dims, out->num_dims,
                               sizeof *out->dims, err);
}

flx_onnx *flx_onnx_decode(flx_context *ctx, const void *bytes, size_t size, const char *file,
                          const flx_onnx_options *options, flx_error *err)
{
    flx_onnx_options o;
    if (!ctx || (!bytes && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_onnx_decode: context and bytes must be given");
        return NULL;
    }
    if (read_options(ctx, options, &o, err) != FLX_OK)
        return NULL;
    return decode_at(ctx, bytes, size, &(onnx_origin){o.folder, file ? file : "model"}, &o, err);
}

flx_onnx *flx_onnx_read(flx_context *ctx, const char *path, const flx_onnx_options *options, flx_error *err)
{
    flx_onnx_options o;
    flxi_file_bytes f;
    char folder[FLXI_PATH_MAX];
    if (!ctx || !path || strlen(path) >= sizeof folder) {
        flxi_fail(err, FLX_E_USAGE, "flx_onnx_read: context and path must be given");
        return NULL;
    }
    if (read_options(ctx, options, &o, err) != FLX_OK ||
        flxi_file_read(&f, &ctx->mem, path, ctx->memory_limit, err) != FLX_OK)
        return NULL;
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    flx_onnx *m = decode_at(ctx, f.bytes, f.size, &(onnx_origin){o.folder ? o.folder : folder, path}, &o, err);
    flxi_file_free(&f);
    return m;
}

void flx_onnx_free(flx_onnx *m)
{
    if (!m)
        return;
    flx_context *ctx = m->ctx;
    for (size_t i = 0; i < m->params.n; i++)
        flx_tensor_release(m->params.at[i].value);
    flxi_vec_free(&ctx->mem, &m->params);
    flx_graph_release(m->graph);
    flxi_arena_free(&m->arena);
    flxi_free(&ctx->mem, m, 1, sizeof *m);
}

flx_graph *flx_onnx_graph(const flx_onnx *m)
{
    return m ? m->graph : NULL;
}

flx_module *flx_onnx_module(const flx_onnx *m, flx_error *err)
{
    if (!m) {
        flxi_fail(err, FLX_E_USAGE, "flx_onnx_module: a model must be given");
        return NULL;
    }
    flx_module *out = flxi_module_new(m->ctx);
    if (out && flxi_module_add(out, m->graph) == FLX_OK)
        return out;
    flx_module_free(out);
    flxi_oom(err, "a module");
    return NULL;
}

size_t flx_onnx_param_count(const flx_onnx *m)
{
    return m ? m->params.n : 0;
}

const char *flx_onnx_param_name(const flx_onnx *m, size_t i)
{
    return m && i < m->params.n ? m->params.at[i].name : NULL;
}

flx_tensor *flx_onnx_param_value(const flx_onnx *m, size_t i)
{
    return m && i < m->params.n ? m->params.at[i].value : NULL;
}

flx_tensor *flx_onnx_tensor_decode(flx_context *ctx, const void *bytes, size_t size, const char *file, flx_error *err)
{
    onnx_datum datum;
    flxi_arena arena;
    if (!ctx || (!bytes && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_onnx_tensor_decode: context and bytes must be given");
        return NULL;
    }
    file = file ? file : "tensor";
    flxi_arena_init(&arena, &ctx->mem);
    flx_tensor *t = NULL;
    if (flxi_onnx_parse_datum(&arena, bytes, size, file, &(onnx_type){.kind = ONNX_T_TENSOR}, &datum, err) == FLX_OK)
        t = flxi_onnx_tensor(ctx, &datum.tensor, &(onnx_origin){NULL, file}, err);
    flxi_arena_free(&arena);
    return t;
}
