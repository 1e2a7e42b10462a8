/* SPDX-License-Identifier: Apache-2.0 */
/* ref.h: the reference backend: evaluates a static graph node by node with the ops' own definitions. */
#ifndef FLXI_REF_H
#define FLXI_REF_H

#include "graph/graph.h"
#include "graph/op/eval.h"

#include <fluxion/run.h>

/* Runs g, whose types are all static, on one tensor per leaf, in order. `out` receives one new hold per output. */
flx_code flxi_ref_run(const flx_graph *g, const flx_run_options *options, const flx_tensor *const *in, flx_tensor **out,
                      flx_error *err);

#endif
