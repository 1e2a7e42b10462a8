/* SPDX-License-Identifier: Apache-2.0 */
/* default_device.h: the device of a run that names none. */
#ifndef FLXI_DEFAULT_DEVICE_H
#define FLXI_DEFAULT_DEVICE_H

/* `name`, or if it is NULL $FLX_DEVICE, or if that is not set "cpu". Whether there is such a device is for the caller to
   check. */
const char *flxi_device_or_default(const char *name);

#endif
