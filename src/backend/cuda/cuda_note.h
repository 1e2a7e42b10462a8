/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_note.h: queues, which are streams, and steps that are noted as graphs of the driver (backend/backend.h). */
#ifndef FLXI_CUDA_NOTE_H
#define FLXI_CUDA_NOTE_H

#include "backend/cuda/cuda_card.h"

flx_code flxi_cuda_open_queue(flx_context *ctx, int threads, flxi_queue **out, flx_error *err);
void flxi_cuda_close_queue(flxi_queue *q);

flx_code flxi_cuda_note(const flxi_device_run *r, flxi_queue **out);
flx_code flxi_cuda_note_piece(const flxi_device_run *r, uint32_t i, const uint32_t *after, uint32_t num_after);
flx_code flxi_cuda_end_note(const flxi_device_run *r, flxi_queue *queue, flxi_sequence **out);
flx_code flxi_cuda_run_sequence(const flxi_device_run *r, flxi_sequence *s);
void flxi_cuda_free_sequence(flxi_sequence *s);

#endif
