/* SPDX-License-Identifier: Apache-2.0 */
/* feeds.h: what a run is given, matched with what the graph declares; extents of symbolic dimensions follow from it. */
#ifndef FLXI_FEEDS_H
#define FLXI_FEEDS_H

#include "graph/graph.h"

#include <fluxion/run.h>

typedef struct {
    const flx_graph *g;
    const flx_tensor **in;           /* by position of the leaf */
    FLXI_VEC(flx_dim_binding) bound; /* every symbol of the graph; none when it has none */
    flx_error *err;
} flxi_feeding;

/* USAGE when a flag does not exist; options may be NULL. */
flx_code flxi_run_options_read(const flx_run_options *given, flx_run_options *out, flx_error *err);

/* Matches names and binds symbols. Ended by flxi_feeding_end() whether it succeeds or not. */
flx_code flxi_feeding_begin(flxi_feeding *s, const flx_graph *g, const flx_run_options *options, const flx_feed *feeds,
                            size_t num_feeds, flx_error *err);
/* Whether the values have the types of the inputs: before anything is compiled, which can take long. */
flx_code flxi_feeding_check(flxi_feeding *s);
void flxi_feeding_end(flxi_feeding *s);

#endif
