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

/* Libraries want workspaces that are aligned so; scratch is aligned to 64 bytes. */
enum { FLXI_CUDA_WORKSPACE_ALIGNMENT = 256 };
static inline void *flxi_cuda_aligned(void *scratch)
{
    return (char *)scratch + (0 - (uintptr_t)scratch) % FLXI_CUDA_WORKSPACE_ALIGNMENT;
}

extern const flxi_cuda_way flxi_cuda_running, flxi_cuda_sorting, flxi_cuda_conv, flxi_cuda_windows, flxi_cuda_scatter,
    flxi_cuda_grouped, flxi_cuda_fourier, flxi_cuda_dense, flxi_cuda_orthogonal, flxi_cuda_along;

/* ---- Functions of our own ---- */

/* A text for each of some variants, compiled when it is first used and kept by the card. */
typedef struct {
    flx_code (*write)(int32_t variant, flxi_strbuf *out, flx_error *err);
    int32_t num_variants;
} flxi_cuda_text;

extern const flxi_cuda_text flxi_cuda_running_text, flxi_cuda_sort_text, flxi_cuda_conv_text, flxi_cuda_window_text,
    flxi_cuda_combine_text, flxi_cuda_group_keys_text, flxi_cuda_grouped_text, flxi_cuda_fourier_text,
    flxi_cuda_dense_text, flxi_cuda_orthogonal_text, flxi_cuda_along_text, flxi_cuda_few_text;

flx_code flxi_cuda_own_function(flxi_card *card, const flxi_cuda_text *text, int32_t variant, const char *name,
                                flxi_cu_function *out, flx_error *err);
void flxi_cuda_free_own(flxi_card *card);

/* The error of a start of gather_nd or scatter_nd. */
flx_code flxi_cuda_fail_start(const flxi_cuda_finding *t, flx_error *err);

/* A launch of blocks along one axis; for none of them nothing is done. */
flx_code flxi_cuda_launch_line(const flxi_card *card, flxi_cu_stream stream, flxi_cu_function f, uint64_t blocks,
                               unsigned threads, void **parameters, flx_error *err);

#endif
