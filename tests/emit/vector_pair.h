/* SPDX-License-Identifier: Apache-2.0 */
/* vector_pair.h: the vector form of kernels as device "vector" of device_pair.h. */
#ifndef FLX_TEST_VECTOR_PAIR_H
#define FLX_TEST_VECTOR_PAIR_H

#include "emit/device_pair.h"

#include "emit/vector/vector_emit.h"

/* The compiler: a program and an optimisation level. */
extern const char *vector_compiler, *vector_level;
/* Compiles a text and loads it; to be closed with dlclose(). */
void *vector_compile(const char *text);

/* Compiles kernels in one file; device "vector" then knows them until vector_forget(). Returns how many of them are
   vectorised. */
size_t vector_prepare(flx_kernel *const *kernels, size_t n, const flxi_vector_options *o);
void vector_forget(void);
/* The text of one kernel, to be freed with free(). */
char *vector_text(const flx_kernel *k, const flxi_vector_options *o, const char **reason);

/* The runner that device_pair_check() uses. */
flx_code vector_run(const flx_kernel *k, const uint32_t grid[3], flx_kernel_memory *memory, size_t n,
                    uint32_t subgroup_size, flx_error *err);

#endif
