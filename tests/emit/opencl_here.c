/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_here.c: see opencl_here.h. */
#include "emit/opencl_here.h"

#include "kernel/flk.h"
#include "test.h"

#include <fluxion/run.h>
#include <stdio.h>
#include <string.h>

/* Runs a small kernel; false with the reason when there is no device. */
PROBE(opencl)
{
    flx_error err = {0};
    const uint32_t grid[3] = {1, 1, 1};
    flx_kernel *k = flk("kernel probe { buffer out: u32[1] output; out[0] = 1; }");
    uint32_t out = 0;
    flx_kernel_memory m = {"out", &out, sizeof out};
    flx_code code = flx_kernel_run(k, grid, &m, 1, &(flx_kernel_run_options){.device = "opencl"}, &err);
    flx_kernel_release(k);
    CHECK_MSG(code == FLX_OK || code == FLX_E_DEVICE, "%s", err.message);
    CHECK(code != FLX_OK || out == 1);
    snprintf(reason, size, "%s", err.message);
    return code == FLX_OK;
}

bool opencl_here(void)
{
    static int known = -1;
    char reason[300] = "";
    if (known < 0) {
        known = test_survives("opencl", reason, sizeof reason);
        if (!known)
            printf("   left out: OpenCL: %s\n", reason);
    }
    return known;
}

bool device_here(const char *name)
{
    return flx_device_check(name, NULL) == FLX_OK && (strcmp(name, "opencl") != 0 || opencl_here());
}
