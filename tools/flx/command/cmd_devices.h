/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_devices.h: where a graph can run. */
#ifndef FLX_CMD_DEVICES_H
#define FLX_CMD_DEVICES_H

/* What is used without --device: $FLX_DEVICE, or cpu. */
const char *default_device(void);

/* Succeeds when the device can be used. A name that no device has is bad usage; a device that this machine or this
   build lacks is a failure of the system. */
int device_require(const char *name);

#endif
