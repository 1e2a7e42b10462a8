/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_here.h: whether this machine has an OpenCL device. */
#ifndef FLX_OPENCL_HERE_H
#define FLX_OPENCL_HERE_H

#include <stdbool.h>

/* Reports it when there is none. A driver may end the program, for example where /sys is not mounted, so a separate
   process tries first. */
bool opencl_here(void);

/* Whether the device of that name runs graphs here: what tests of all devices ask before they use one. */
bool device_here(const char *name);

#endif
