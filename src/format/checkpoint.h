/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h: checksums of checkpoints, by which one names another. */
#ifndef FLXI_CHECKPOINT_H
#define FLXI_CHECKPOINT_H

#include "base/sha256.h"

#include <fluxion/checkpoint.h>

/* That of the file which was read, 64 digits; empty where none was. Lives as long as the checkpoint. */
const char *flxi_checkpoint_checksum(const flx_checkpoint *c);

/* What the file says it is; its tensors are not read. */
flx_code flxi_checkpoint_read_checksum(flx_context *ctx, const char *path, char out[FLXI_SHA256_TEXT], flx_error *err);

#endif
