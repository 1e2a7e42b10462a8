/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.h: the passes that every graph goes through. */
#ifndef FLXI_COMPILE_H
#define FLXI_COMPILE_H

#include "compile/program.h"
#include "passes/pass.h"

/* The passes over one graph, without its bodies. `groups`: nodes will be grouped into kernels. *left_out is set when a
   pass had to be left out because of a defect of its own. */
flx_code flxi_optimise(const flx_graph *g, const flxi_device *device, bool groups, flx_graph **out, bool *left_out,
                       flx_error *err);
/* The name of the i-th of them, or NULL when there are fewer; and the pass alone. */
const char *flxi_compile_pass_name(size_t i);
flx_code flxi_compile_pass(size_t i, const flxi_device *device, const flx_graph *in, flx_graph **out, flx_error *err);

#endif
