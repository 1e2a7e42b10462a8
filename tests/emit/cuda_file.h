/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_file.h: writes the CUDA text of kernels that tests check, for a compiler to read. Nothing happens unless the
   variable FLX_TEST_KEEP names a folder; script/cuda sets it and compiles the files written there. */
#ifndef CUDA_FILE_H
#define CUDA_FILE_H

#include "kernel/flk.h"

/* Kernels that CUDA cannot run are skipped, and the reason is printed. */
void cuda_file_add(const flx_kernel *k);
void cuda_file_add_derived(const flx_kernel_derived *d);
/* Writes what was added since the last call as one file, named after the test. */
void cuda_file_end(void);

#endif
