/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_product.h: matmul and dot_general by cuBLASLt where it is there and takes the layout, else by kernels of our own
   (backend/card/card_product.h). */
#ifndef FLXI_CUDA_PRODUCT_H
#define FLXI_CUDA_PRODUCT_H

#include "backend/card/card_product.h"
#include "backend/cuda/cuda_card.h"

/* By cuBLASLt; *done is false, without an error, where it does not take the product. */
flx_code flxi_cuda_run_lt(flxi_card *card, flxi_cu_stream stream, const flxi_card_product_plan *p,
                          const void *const in[2], void *out, void *scratch, bool *done, flx_error *err);
void flxi_cuda_free_lt_plans(flxi_card *card);

#endif
