/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_few_rows.h: products of f32 that are too small to fill a card with tiles of the library. */
#ifndef FLXI_CUDA_FEW_ROWS_H
#define FLXI_CUDA_FEW_ROWS_H

#include "backend/cuda/cuda_product.h"

/* Whether the kernel takes the product, with the second factor at that address. */
bool flxi_cuda_is_few(const flxi_card_product_plan *plan, const void *b);
flx_code flxi_cuda_run_few(flxi_card *card, flxi_cu_stream stream, const flxi_card_product_plan *plan,
                           const void *const in[2], void *out, flx_error *err);

#endif
