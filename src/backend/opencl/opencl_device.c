/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_device.c: device "opencl": kernels of the user only. */
#include "backend/backend.h"
#include "backend/opencl/kernel_opencl.h"
#include "backend/opencl/opencl_api.h"

#include <stdio.h>

static void write_library(char *text, size_t size)
{
    flxi_opencl cl;
    flx_error err = {0};
    if (flxi_opencl_load(&cl, &err) == FLX_OK) {
        snprintf(text, size, "libOpenCL.so.1");
        flxi_opencl_unload(&cl);
    } else {
        snprintf(text, size, "none: %s", err.message);
    }
}

static const flxi_device_fact facts[] = {{"library", write_library}, {0}};

extern const flxi_device flxi_device_opencl; /* devices.def */

const flxi_device flxi_device_opencl = {
    .name = "opencl",
    .about = "kernels on the first device that an OpenCL driver offers",
    .no_graphs = "it runs kernels only, no graphs",
    .facts = facts,
    .run_dispatch = flxi_kernel_run_opencl,
};
