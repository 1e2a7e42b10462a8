/* SPDX-License-Identifier: Apache-2.0 */
/* lower_composites.h: from HIR to MIR: composites become other ops. */
#ifndef FLXI_LOWER_COMPOSITES_H
#define FLXI_LOWER_COMPOSITES_H

#include "passes/pass.h"

#include <fluxion/lower.h>

flx_code flxi_lower(const flx_graph *in, flx_policy policy, flx_graph **out, flxi_remap *remap, flx_error *err);

/* With the policy direct, as a pass. */
flx_code flxi_pass_lower(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

#endif
