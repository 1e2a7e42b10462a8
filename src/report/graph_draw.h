/* SPDX-License-Identifier: Apache-2.0 */
/* graph_draw.h: views of graphs as pictures that do not change: SVG, and a description for Graphviz. */
#ifndef FLXI_GRAPH_DRAW_H
#define FLXI_GRAPH_DRAW_H

#include "report/graph_view.h"

flx_code flxi_draw_svg(const flxi_graph_view *v, const char *title, flxi_strbuf *out, flx_error *err);
void flxi_draw_dot(const flxi_graph_view *v, const char *title, flxi_strbuf *out);

#endif
