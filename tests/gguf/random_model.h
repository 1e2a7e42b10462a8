/* SPDX-License-Identifier: Apache-2.0 */
/* random_model.h: small random decoders in GGUF files, made from a seed: the same bytes on every machine, so that
   answers of another program can be stored. tests/oracle/gguf_logits.py has them computed. */
#ifndef FLX_RANDOM_MODEL_H
#define FLX_RANDOM_MODEL_H

#include <fluxion/gguf.h>

enum { MODEL_WIDTH = 256, MODEL_VOCABULARY = 288, MODEL_BLOCKS = 2 };

/* Writes a model of this architecture whose matrices have this type. */
flx_code random_model_write(flx_context *ctx, const char *path, const char *architecture, const char *type,
                            flx_error *err);

/* Random packed blocks of numbers of about 1 / sqrt(count of a row): u8 [rows, bytes]. */
flx_tensor *random_blocks(flx_context *ctx, const char *type, int64_t rows, int64_t row, uint64_t *state);

#endif
