/* SPDX-License-Identifier: Apache-2.0 */
/* ref_device.c: device "ref": graphs by the definitions of the ops, kernels by the interpreter. */
#include "backend/backend.h"
#include "backend/ref/ref.h"

extern const flxi_device flxi_device_ref; /* devices.def */

const flxi_device flxi_device_ref = {
    .name = "ref",
    .about = "reference evaluator: every op by its definition, one thread",
    .run_dispatch = flxi_kernel_interpret,
    .checks_kernels = true,
    .run_graph = flxi_ref_run,
};
