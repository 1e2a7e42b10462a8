/* SPDX-License-Identifier: Apache-2.0 */
/* log_program.h: what compiling reports through the log of the context. */
#ifndef FLXI_LOG_PROGRAM_H
#define FLXI_LOG_PROGRAM_H

#include "compile/program.h"

/* A program for the graph `name` was compiled in `time_ns`. */
void flxi_log_program(const flxi_program *p, const char *name, int64_t time_ns);

/* Nanoseconds of a clock that never goes back. */
int64_t flxi_log_clock(void);

#endif
