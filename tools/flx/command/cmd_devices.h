/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_devices.h: where a graph can run. */
#ifndef FLX_CMD_DEVICES_H
#define FLX_CMD_DEVICES_H

/* The device that was given, or the default where it is NULL. Fails where graphs cannot run on it: an unknown name is
   bad usage; a device that this machine or this build lacks is a failure of the system. */
int device_choose(const char *given, const char **device);

#endif
