/* SPDX-License-Identifier: Apache-2.0 */
/* profile_table.h: what the steps of a run took, as a table or as JSON. */
#ifndef FLX_PROFILE_TABLE_H
#define FLX_PROFILE_TABLE_H

#include <fluxion/exec.h>
#include <stddef.h>

/* Times of the outermost steps together, in seconds. */
double profile_seconds(const flx_step_time *steps, size_t n);

void profile_print(const flx_step_time *steps, size_t n);
/* One object for each step. */
void profile_json(const flx_exec *e, const flx_step_time *steps, size_t n);

/* A number of bytes, or of operations, in a unit that suits it: "1.5 MB". */
const char *scaled_text(char text[24], double value, const char *unit);

#endif
