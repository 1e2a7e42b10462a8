/* SPDX-License-Identifier: Apache-2.0 */
/* device.h: names of devices. */
#ifndef FLXI_DEVICE_H
#define FLXI_DEVICE_H

#include "base/error.h"

/* NAME when no device is called that, DEVICE when graphs cannot run on it; NULL is the usual one. */
flx_code flxi_check_device(const char *name, flx_error *err);

#endif
