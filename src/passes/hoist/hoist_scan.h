/* SPDX-License-Identifier: Apache-2.0 */
/* hoist_scan.h: moves work that need not be done in every step out of the loop of a scan. */
#ifndef FLXI_HOIST_SCAN_H
#define FLXI_HOIST_SCAN_H

#include "passes/pass.h"

/* What needs no carry of a scan is computed for all steps at once before it, what no carry needs after it, and carries
   that are only added to become one sum. Bodies are examined after `prepare`. Sums may be computed in a different
   order. */
typedef flx_code (*flxi_prepare_body)(const void *user, const flx_graph *body, flx_graph **out, flx_error *err);
flx_code flxi_hoist_scans(const flx_graph *in, flxi_prepare_body prepare, const void *user, flx_graph **out,
                          flxi_remap *remap, flx_error *err);

/* A pass over the scans of at least two steps, without effects and of static types. `visit` gets the prepared body and
   either replaces node n, with *is_done set, or leaves it to be copied. */
typedef flx_code (*flxi_visit_scan)(flxi_copy *c, const flxi_node *n, const flx_graph *body, int64_t length,
                                    bool *is_done);
flx_code flxi_visit_scans(const flx_graph *in, flxi_prepare_body prepare, const void *user, flxi_visit_scan visit,
                          flx_graph **out, flxi_remap *remap, flx_error *err);

#endif
