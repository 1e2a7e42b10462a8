/* SPDX-License-Identifier: Apache-2.0 */
/* drawing.h: graphs and runs as files to look at. */
#ifndef FLX_DRAWING_H
#define FLX_DRAWING_H

#include <fluxion/report.h>

/* Writes a page with one graph, a picture (SVG) or a description for Graphviz. `-` is standard output. */
int drawing_write_html(flx_context *ctx, const flx_report_graph *what, const char *path);
int drawing_write(const flx_report_graph *what, flx_drawing form, const char *path);

/* Writes the events of a traced run. */
int drawing_write_trace(const flx_exec *e, const flx_run_trace *trace, const char *path);

#endif
