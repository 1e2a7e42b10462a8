/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_index.h: gather and scatter_add on the card. */
#ifndef FLXI_CUDA_INDEX_H
#define FLXI_CUDA_INDEX_H

#include "backend/cuda/cuda_card.h"

/* The table of a node. */
typedef struct {
    int64_t outer, extent, inner; /* of the table, or of the result of scatter_add: [outer, extent, inner] elements */
    int64_t count;                /* indices */
    int32_t index, dtype;
    uint32_t size;   /* bytes of an element */
    uint32_t oob;    /* a flxi_oob */
    uint32_t padded; /* indices as they are sorted: a power of two (node/cuda_keys.h); 0: gather */
} flxi_cuda_index_plan;

/* NULL, or why the card does not compute the node. */
const char *flxi_cuda_refuse_index(const flxi_device_node *n);
flxi_cuda_index_plan flxi_cuda_plan_index(const flxi_device_node *n);
size_t flxi_cuda_index_scratch(const flxi_cuda_index_plan *p);

flx_code flxi_cuda_run_index(flxi_card *card, flxi_cu_stream stream, const flxi_device_node *n,
                             const flxi_cuda_index_plan *p, const void *const in[2], void *out, void *scratch,
                             flx_error *err);

/* Texts for a dtype of indices, and for one of updates. */
flx_code flxi_cuda_index_text(int32_t index, flxi_strbuf *out, flx_error *err);
flx_code flxi_cuda_sum_text(int32_t dtype, flxi_strbuf *out, flx_error *err);

#endif
