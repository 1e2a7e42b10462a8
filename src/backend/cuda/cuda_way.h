/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_way.h: a way to compute nodes on the card, and the functions of our own that ways launch. */
#ifndef FLXI_CUDA_WAY_H
#define FLXI_CUDA_WAY_H

#include "backend/cuda/cuda_card.h"

typedef struct {
    const char *name;                                          /* for reports */
    const char *(*refuse)(const flxi_device_node *n);          /* NULL, or why the card does not compute the node */
    size_t table_bytes;                                        /* of what prepare() fills in */
    size_t (*prepare)(const flxi_device_node *n, void *table); /* gives the bytes of scratch */
    flx_code (*run)(flxi_card *card, flxi_cu_stream stream, const flxi_node_step *s, flx_error *err);
} flxi_cuda_way;

enum { FLXI_CUDA_MOST_TABLE = 2048 }; /* bytes */

extern const flxi_cuda_way flxi_cuda_running, flxi_cuda_sorting;

/* ---- Functions of our own ---- */

/* A text for each of some variants, compiled when it is first used and kept by the card. */
typedef struct {
    flx_code (*write)(int32_t variant, flxi_strbuf *out, flx_error *err);
    int32_t num_variants;
} flxi_cuda_text;

extern const flxi_cuda_text flxi_cuda_running_text, flxi_cuda_sort_text;

flx_code flxi_cuda_own_function(flxi_card *card, const flxi_cuda_text *text, int32_t variant, const char *name,
                                flxi_cu_function *out, flx_error *err);
void flxi_cuda_free_own(flxi_card *card);

/* A launch of blocks along one axis; for none of them nothing is done. */
flx_code flxi_cuda_launch_line(const flxi_card *card, flxi_cu_stream stream, flxi_cu_function f, uint64_t blocks,
                               unsigned threads, void **parameters, flx_error *err);

#endif
