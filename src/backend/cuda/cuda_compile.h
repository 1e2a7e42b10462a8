/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_compile.h: CUDA C to modules of the card, by NVRTC on threads, with a cache on disk. */
#ifndef FLXI_CUDA_COMPILE_H
#define FLXI_CUDA_COMPILE_H

#include "backend/cuda/cuda_card.h"

/* Texts, each of which becomes a module, for the card. `num_found`: of them were in the cache; may be NULL. On failure
   there are no modules. */
flx_code flxi_cuda_compile(flxi_card *card, flxi_object_cache *cache, const flxi_strbuf *texts, size_t n,
                           flxi_cu_module *modules, size_t *num_found, flx_error *err);
void flxi_cuda_unload(const flxi_card *card, flxi_cu_module *modules, size_t n); /* NULLs are fine */

/* A text to machine code for that architecture (sm_90): needs no card. The bytes are the caller's. */
flx_code flxi_cuda_assemble(const flxi_allocator *mem, const char *sm, const char *text, unsigned char **bytes,
                            size_t *size, flx_error *err);

#endif
