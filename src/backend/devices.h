/* SPDX-License-Identifier: Apache-2.0 */
/* devices.h: finding devices by name. */
#ifndef FLXI_DEVICES_H
#define FLXI_DEVICES_H

#include "backend/backend.h"

/* The device of this name; NULL means the default (flx_device_default()). NAME when no device is called that, DEVICE
   when nothing can run there. */
flx_code flxi_device_find(const char *name, const flxi_device **out, flx_error *err);
/* The same, and graphs can run on it. */
flx_code flxi_device_for_graphs(const char *name, const flxi_device **out, flx_error *err);
/* The same, and it runs programs. */
flx_code flxi_device_for_programs(const char *name, const flxi_device **out, flx_error *err);
/* The same, whether or not it is on this machine: to show what would run there. */
flx_code flxi_device_for_showing(const char *name, const flxi_device **out, flx_error *err);
/* The device for a user's kernel. What only the interpreter offers is run by it, unless another device is named. */
flx_code flxi_device_for_kernels(const flx_kernel_run_options *o, const flxi_device **out, flx_error *err);

/* What evaluates nodes on the host that a device refuses. */
const flxi_device *flxi_reference_device(void);

/* For tests: one more device, which is known by its name until it is removed. No other thread may look for devices
   meanwhile. False when there is no room. */
bool flxi_device_add(const flxi_device *d);
void flxi_device_remove(const flxi_device *d);

#endif
