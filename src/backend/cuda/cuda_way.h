/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_way.h: ways to compute nodes that NVIDIA's cards alone have, by libraries or by texts in CUDA C++; those that
   all cards share are in backend/card. */
#ifndef FLXI_CUDA_WAY_H
#define FLXI_CUDA_WAY_H

#include "backend/card/card_way.h"
#include "backend/cuda/cuda_card.h"

/* Where a run launches. */
typedef struct {
    flxi_launcher on;
    flxi_card *card;
    flxi_cu_stream stream;
} flxi_cuda_launcher;

flxi_cuda_launcher flxi_cuda_launcher_for(flxi_card *card, flxi_cu_stream stream);
/* Its kernels of programs: cuda_kernel.c. */
flx_code flxi_cuda_run(const flxi_launcher *on, const flxi_card_kernel *k, const flxi_card_dispatch *d, flx_error *err);
static inline const flxi_cuda_launcher *flxi_cuda_launcher_of(const flxi_launcher *on)
{
    return (const flxi_cuda_launcher *)on;
}

/* Libraries want workspaces that are aligned so; scratch is aligned to 64 bytes. */
enum { FLXI_CUDA_WORKSPACE_ALIGNMENT = 256 };
static inline void *flxi_cuda_aligned(void *scratch)
{
    return (char *)scratch + (0 - (uintptr_t)scratch) % FLXI_CUDA_WORKSPACE_ALIGNMENT;
}

extern const flxi_card_way flxi_cuda_products, flxi_cuda_attention_way, flxi_cuda_conv, flxi_cuda_dense,
    flxi_cuda_orthogonal, flxi_cuda_singular;

/* ---- Functions of our own ---- */

/* In CUDA C++; their writers ignore the language. */
extern const flxi_card_text flxi_cuda_dense_text, flxi_cuda_orthogonal_text, flxi_cuda_singular_text,
    flxi_cuda_few_text;

flx_code flxi_cuda_own_function(flxi_card *card, const flxi_card_text *text, int32_t variant, const char *name,
                                flxi_cu_function *out, flx_error *err);
void flxi_cuda_free_own(flxi_card *card);

/* A launch of blocks along one axis; for none of them nothing is done. */
flx_code flxi_cuda_launch_line(const flxi_card *card, flxi_cu_stream stream, flxi_cu_function f, uint64_t blocks,
                               unsigned threads, void **parameters, flx_error *err);

#endif
