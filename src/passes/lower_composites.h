/* SPDX-License-Identifier: Apache-2.0 */
/* lower_composites.h: from HIR to MIR: composites become other ops. */
#ifndef FLXI_LOWER_COMPOSITES_H
#define FLXI_LOWER_COMPOSITES_H

#include "passes/decompose.h"
#include "passes/pass.h"

#include <fluxion/lower.h>

flx_code flxi_lower(const flx_graph *in, flx_policy policy, flx_graph **out, flxi_remap *remap, flx_error *err);

/* By a choice of the caller instead of a policy. */
flx_code flxi_lower_by(const flx_graph *in, flxi_choose_expansion choose, const void *user, flx_graph **out,
                       flx_error *err);

/* With the policy direct, as a pass. */
flx_code flxi_pass_lower(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

#endif
