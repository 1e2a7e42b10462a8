/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_dispatch.c: a kernel of the user on a device. */
#include "backend/devices.h"

flx_code flx_kernel_run(const flx_kernel *k, const uint32_t grid[3], const flx_kernel_memory *memory, size_t num_memory,
                        const flx_kernel_run_options *options, flx_error *err)
{
    const flxi_device *on;
    flx_kernel_run_options o;
    if (!k || !grid || (num_memory && !memory))
        return flxi_fail(err, FLX_E_USAGE, "flx_kernel_run: %s is NULL",
                         !k      ? "the kernel"
                         : !grid ? "the grid"
                                 : "memory");
    FLXI_TRY(flxi_kernel_options(options, &o, err));
    FLXI_TRY(flxi_device_for_kernels(o.device, o.flags, &on, err));
    return flxi_kernel_dispatch(k, grid, memory, num_memory, &o, on->run_dispatch, err);
}
