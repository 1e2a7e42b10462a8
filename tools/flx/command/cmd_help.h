/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_help.h: help pages. */
#ifndef FLX_CMD_HELP_H
#define FLX_CMD_HELP_H

#include "command.h"

#include <stdio.h>

void help_overview(FILE *f);
void help_page(const command *c);

#endif
