/* SPDX-License-Identifier: Apache-2.0 */
/* default_device.c: one default for graphs and kernels: compiled code on this machine, unless the user says otherwise. */
#include "base/host/default_device.h"

#include <stdlib.h>

const char *flxi_device_or_default(const char *name)
{
    const char *wanted = name ? name : getenv("FLX_DEVICE");
    return wanted && *wanted ? wanted : "cpu";
}
