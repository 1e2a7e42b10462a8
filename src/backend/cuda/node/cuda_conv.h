/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_conv.h: convolutions by cuDNN where it takes them, else by kernels of our own (backend/card/card_conv.h). */
#ifndef FLXI_CUDA_CONV_H
#define FLXI_CUDA_CONV_H

#include "backend/card/card_conv.h"
#include "backend/cuda/cuda_card.h"

/* cuda_conv_dnn.c: plans live as long as the card. */
bool flxi_cuda_conv_by_library(flxi_card *card, const flxi_card_conv_plan *p, size_t *workspace);
flx_code flxi_cuda_conv_run_library(flxi_card *card, flxi_cu_stream stream, const flxi_card_conv_plan *p,
                                    const void *const in[2], void *out, void *workspace, flx_error *err);
void flxi_cuda_free_convs(flxi_card *card);

/* Whether cuDNN takes the descriptors, also without a card; DEVICE where there is no library. */
flx_code flxi_cuda_conv_describes(const flxi_allocator *mem, const flxi_card_conv_plan *p, flx_error *err);

#endif
