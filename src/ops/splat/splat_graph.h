/* SPDX-License-Identifier: Apache-2.0 */
/* splat_graph.h: gaussian_splat_render in terms of tensor ops. */
#ifndef FLXI_SPLAT_GRAPH_H
#define FLXI_SPLAT_GRAPH_H

#include "graph/op/site.h"
#include "ops/splat/splat.h"

void flxi_decompose_splat(flxi_site *s, flx_val *y);

/* Coefficients for each splat and channel when `harmonics` is the total for n splats; -1: it does not fit. */
int64_t flxi_splat_bands(flx_context *ctx, flx_dim n, flx_dim harmonics);

#endif
