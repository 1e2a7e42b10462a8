/* SPDX-License-Identifier: Apache-2.0 */
/* attr_kinds.h: one row for each kind of attribute: how it is checked, copied, compared, hashed, shown and described.
   Text and binary form have tables of their own, in their folders, by the same list (FLXI_ATTR_KINDS). */
#ifndef FLXI_ATTR_KINDS_H
#define FLXI_ATTR_KINDS_H

#include "graph/graph.h"

typedef struct { /* an attribute that was given */
    flx_graph *g;
    const flxi_op *op;
    const flxi_attr *attr;
    const flx_attr *given;
    char *field;
    flx_error *err;
} flxi_filling;

typedef struct { /* attributes being copied to another graph */
    flx_graph *to;
    const flxi_attr_map *map;
    flx_error *err;
    const flxi_attr *attr; /* the current one */
} flxi_cloning;

typedef struct {
    const char *name; /* in the catalogue: "int" */
    const char *text; /* in messages: "an integer" */
    flxi_attr_storage storage;
    flx_code (*fill)(flxi_filling *s);
    void (*set_default)(const flxi_attr *a, void *field); /* NULL: zeros, which are an absent list, graph or tensor */
    bool (*is_default)(const flxi_attr *a, const void *field);
    flx_code (*clone)(flxi_cloning *c, void *field); /* after a copy of the bytes; NULL: those suffice */
    bool (*equal)(const void *x, const void *y, flxi_same_body same, void *user);
    uint64_t (*hash)(const void *field, uint64_t h);                  /* of what `visit` does not show; NULL: nothing */
    flx_code (*visit)(const void *field, const flxi_attr_visitor *v); /* NULL: has no graph, constant or dimension */
    bool (*view)(const flxi_attr *a, const void *field, flx_node_attr_view *out); /* false: without a value */
    void (*write_default)(const flxi_attr *a, char *buffer, size_t size);
} flxi_attr_kind_row;

extern const flxi_attr_kind_row flxi_attr_kinds[ATTR_KINDS]; /* ATTR_END: an empty row */

static inline bool flxi_attr_is_list(flxi_attr_kind kind)
{
    flxi_attr_storage storage = flxi_attr_kinds[kind].storage;
    return storage == STORED_INTS || storage == STORED_REALS || storage == STORED_TYPES || storage == STORED_GRAPHS;
}

/* ---- Filling (attr_fill.c) ---- */

flx_code flxi_fill_int(flxi_filling *s); /* and dimensions */
flx_code flxi_fill_bool(flxi_filling *s);
flx_code flxi_fill_real(flxi_filling *s);
flx_code flxi_fill_word(flxi_filling *s);
flx_code flxi_fill_dtype(flxi_filling *s);
flx_code flxi_fill_ints(flxi_filling *s); /* and all other lists of integers */
flx_code flxi_fill_reals(flxi_filling *s);
flx_code flxi_fill_string(flxi_filling *s);
flx_code flxi_fill_type(flxi_filling *s);
flx_code flxi_fill_types(flxi_filling *s);
flx_code flxi_fill_graph(flxi_filling *s);
flx_code flxi_fill_graphs(flxi_filling *s);
flx_code flxi_fill_combine(flxi_filling *s);
flx_code flxi_fill_tensor(flxi_filling *s);

/* ---- Showing, in the form in which flx_op() takes it (node_attrs.c) ---- */

bool flxi_view_int(const flxi_attr *a, const void *field, flx_node_attr_view *out); /* also booleans and dimensions */
bool flxi_view_real(const flxi_attr *a, const void *field, flx_node_attr_view *out);
bool flxi_view_word(const flxi_attr *a, const void *field, flx_node_attr_view *out);
bool flxi_view_dtype(const flxi_attr *a, const void *field, flx_node_attr_view *out);
bool flxi_view_ints(const flxi_attr *a, const void *field, flx_node_attr_view *out);
bool flxi_view_pairs(const flxi_attr *a, const void *field, flx_node_attr_view *out);
bool flxi_view_reals(const flxi_attr *a, const void *field, flx_node_attr_view *out);
bool flxi_view_string(const flxi_attr *a, const void *field, flx_node_attr_view *out);
bool flxi_view_type(const flxi_attr *a, const void *field, flx_node_attr_view *out);
bool flxi_view_types(const flxi_attr *a, const void *field, flx_node_attr_view *out);
bool flxi_view_graph(const flxi_attr *a, const void *field, flx_node_attr_view *out);
bool flxi_view_graphs(const flxi_attr *a, const void *field, flx_node_attr_view *out);
bool flxi_view_combine(const flxi_attr *a, const void *field, flx_node_attr_view *out);
bool flxi_view_tensor(const flxi_attr *a, const void *field, flx_node_attr_view *out);

#endif
