/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_status.c: what a dispatch says about itself when it is over. */
#include "backend/kernel_status.h"

#include "emit/kernel_emit.h"
#include "kernel/interpret/kernel_code.h"

static flx_code fail_trap(const flxi_kdispatch *d, const uint32_t *status, flx_error *err)
{
    const flx_kernel *k = d->kernel;
    const uint32_t *id = status + KSTATUS_ID;
    const flxi_ks *s = flxi_kernel_site(k, KS_TRAP, status[KSTATUS_SITE]);
    char path[48];
    if (!s)
        return flxi_fail(err, FLX_E_INTERNAL, "kernel '%.60s' has no trap %u", k->name, status[KSTATUS_SITE]);
    flxi_kernel_fail(err, "trap", "the kernel ended the dispatch itself", "'%.60s' at address %u", s->text,
                     status[KSTATUS_ADDRESS]);
    flxi_at(err, "kernel %.30s: %s, invocation [%u, %u, %u]", k->name, flxi_kcode_path(k, s, path, sizeof path), id[0],
            id[1], id[2]);
    return FLX_E_KERNEL;
}

flx_code flxi_kernel_report_status(const flxi_kdispatch *d, const uint32_t *status, flx_error *err)
{
    if (status[KSTATUS_TRAPPED])
        return fail_trap(d, status, err);
    if (!status[KSTATUS_INDIRECT])
        return FLX_OK;
    const flxi_ks *s = flxi_kernel_site(d->kernel, KS_INDIRECT, status[KSTATUS_INDIRECT] - 1);
    return s ? flxi_kernel_report_stage(d, s, err) : FLX_OK;
}
