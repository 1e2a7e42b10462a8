/* SPDX-License-Identifier: Apache-2.0 */
/* view_json.h: views of graphs as JSON, for the page; and the attributes of a node as text. */
#ifndef FLXI_VIEW_JSON_H
#define FLXI_VIEW_JSON_H

#include "report/graph_view.h"

/* Attributes that differ from their defaults, as in the text form: "axis=1, keep_dims=true". Large constants are
   written as their type. */
void flxi_add_attrs(const flx_graph *g, uint32_t node, flxi_strbuf *out);

/* An object; src/report/page/graph.js reads it. */
void flxi_view_json(const flxi_graph_view *v, const char *kind, flxi_strbuf *out);

#endif
