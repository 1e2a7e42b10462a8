/* SPDX-License-Identifier: Apache-2.0 */
/* recording.h: writing recordings, for the rest of the runtime. */
#ifndef FLXI_RECORDING_H
#define FLXI_RECORDING_H

#include "runtime/exec.h"

#include <fluxion/recording.h>

/* Writes what is run to a file; `failure`: what came of it, or NULL. */
flx_code flxi_recording_write(const flx_exec *e, const flx_run_options *options, const flxi_feeding *f,
                              const flx_error *failure, const char *path, flx_error *err);

/* Says in the failure's hint where it was recorded, or why it was not. */
void flxi_record_failure(const flx_exec *e, const flx_run_options *options, const flxi_feeding *f, flx_error *failure);

#endif
