/* SPDX-License-Identifier: Apache-2.0 */
/* hoist_scan.h: moves work that need not be done in every step out of the loop of a scan. */
#ifndef FLXI_HOIST_SCAN_H
#define FLXI_HOIST_SCAN_H

#include "passes/pass.h"

/* What needs no carry of a scan is computed for all steps at once before it, what no carry needs after it, and carries
   that are only added to become one sum. Bodies are examined after `prepare`. Sums may be computed in a different
   order. */
flx_code flxi_hoist_scans(const flx_graph *in, flxi_pass prepare, flx_graph **out, flxi_remap *remap, flx_error *err);

#endif
