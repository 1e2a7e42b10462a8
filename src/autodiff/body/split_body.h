/* SPDX-License-Identifier: Apache-2.0 */
/* split_body.h: a vjp in two parts. */
#ifndef FLXI_SPLIT_BODY_H
#define FLXI_SPLIT_BODY_H

#include "passes/decompose.h"

/* joint: the inputs of the body, then the cotangents → the outputs of the body, then the cotangents of its inputs. What
   does not depend on the cotangents is the forward part. The caller holds both parts; none are made where the parts
   would exchange too many values. */
flx_code flxi_split_joint(const flx_graph *joint, const flx_graph *body, flxi_split_body *out, flx_error *err);

#endif
