/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_dispatch.c: a kernel of the user on a device. Where the caller names none, the interpreter runs what the
   default device cannot. */
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
    FLXI_TRY(flxi_device_for_kernels(&o, &on, err));
    flx_error local = {0};
    flx_code code = flxi_kernel_dispatch(k, grid, memory, num_memory, &o, on->run_dispatch, &local);
    const flxi_device *ref = flxi_reference_device();
    if (!o.device && on != ref && (code == FLX_E_DEVICE || code == FLX_E_UNSUPPORTED)) {
        flxi_log(k->ctx, FLX_LOG_FALLBACK, k->name, "interpreted instead of run by %s: %.300s", on->name,
                 local.message);
        return flxi_kernel_dispatch(k, grid, memory, num_memory, &o, ref->run_dispatch, err);
    }
    if (err && (code != FLX_OK || local.message[0])) /* a dispatch that succeeds may report its next stage */
        *err = local;
    return code;
}
