/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_program.h: what a StableHLO program gives, as text. */
#ifndef TEST_STABLEHLO_PROGRAM_H
#define TEST_STABLEHLO_PROGRAM_H

#include "test.h"

#include <stddef.h>
#include <stdint.h>

/* Imports the program and runs it on `device` with every argument 1, 2, 3 … in row-major order, its symbolic extents,
   in order of their first use, being `extents` (the last one also for those that are left; NULL: none). Gives the
   outputs, one per line, as "f32[2] 1 2", or "CODE: message at position". The text is overwritten by the next call. */
const char *program_outcome(const char *text, const char *device, const int64_t *extents, size_t num_extents);

/* The same on ref and on cpu; fails the test unless both are `expected`, or begin with it where it ends in "…". */
void expect_program(const char *text, const int64_t *extents, size_t num_extents, const char *expected);

#endif
