/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_scope.h: what the files that drive the import share; rules include onnx_site.h only. */
#ifndef FLXI_ONNX_SCOPE_H
#define FLXI_ONNX_SCOPE_H

#include "graph/names.h"
#include "onnx/import/onnx_site.h"
#include "ops/rule/known.h"

#include <fluxion/onnx.h>

struct onnx_scope {
    onnx_import *im;
    const onnx_scope *parent; /* where names that are not here are looked for; NULL: nowhere */
    flx_graph *g;
    flxi_strings names;
    FLXI_VEC(onnx_value) values; /* by number of the name */
    const onnx_opset *opsets;
    size_t num_opsets;
    const onnx_function *function; /* being called; NULL: none */
    const onnx_node *call;         /* the node that calls it, for the attributes that it refers to … */
    const onnx_scope *caller;      /* … which are in this scope */
    int depth;
};

typedef struct {
    const char *name; /* in the graph */
    uint32_t id;
    flx_tensor *value;
} onnx_param;

struct flx_onnx {
    flx_context *ctx;
    flx_graph *graph;
    flxi_arena arena; /* names of parameters */
    FLXI_VEC(onnx_param) params;
};

struct onnx_import {
    flx_context *ctx;
    const onnx_model *model;
    onnx_origin origin;
    flx_onnx_options options;
    bool *is_used;  /* by fixed input of the options: the model has it */
    bool *is_bound; /* by extent of the options: the same */
    flxi_arena arena;
    flxi_names leaves; /* names in use */
    FLXI_VEC(flx_graph *) kept;
    flx_onnx *result;
    flxi_known known;
    int64_t budget;  /* nodes that may still be imported: functions and loops multiply them */
    flx_error error; /* the first, with its location */
};

void flxi_onnx_scope_init(onnx_scope *sc, onnx_import *im, const onnx_scope *parent);
void flxi_onnx_scope_free(onnx_scope *sc);
bool flxi_onnx_bind(onnx_scope *sc, const char *name, const onnx_value *v);
const onnx_value *flxi_onnx_lookup(const onnx_scope *sc, const char *name);

/* The first error of a graph is that of the import, at this offset of the file. */
void flxi_onnx_note_error(const onnx_scope *sc, size_t offset);

/* Initialisers and nodes of a graph. Those of the model itself become parameters. */
bool flxi_onnx_declare_initialisers(onnx_scope *sc, const onnx_graph *g, bool are_params);
bool flxi_onnx_import_nodes(onnx_scope *sc, const onnx_node *nodes, size_t n);
/* The values of its outputs, in `out`. */
bool flxi_onnx_take_outputs(onnx_scope *sc, const onnx_graph *g, onnx_value *out);

/* A name of the file with `_` for what names here cannot have; returns its length. */
size_t flxi_onnx_plain_name(const char *name, char *out, size_t size);
/* A name that the graph can have, made from one of the file, and not used yet; NULL when memory is exhausted. */
const char *flxi_onnx_leaf_name(onnx_import *im, const char *name);

/* The declared type with symbols for named extents, and for unknown ones where `name` is given. */
bool flxi_onnx_our_type(onnx_import *im, const onnx_type *t, const char *name, flx_type *out, flx_error *err);

/* Replaces results that follow from constants by their values. */
void flxi_onnx_fold(onnx_site *s);

#endif
