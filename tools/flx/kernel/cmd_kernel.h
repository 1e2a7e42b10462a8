/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_kernel.h: the commands of `flx kernel`. */
#ifndef FLX_CMD_KERNEL_H
#define FLX_CMD_KERNEL_H

#include "args.h"
#include "command/derive.h"

/* All of them, ended by NULL; their names begin with "kernel ". */
extern const command *const kernel_commands[];

/* The one called `flx kernel NAME`, or NULL. */
const command *kernel_command_find(const char *name);

/* --outputs and --inputs, which must be given. */
int kernel_names_read(const args *a, text_list *outputs, text_list *inputs);

#endif
