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

#endif
