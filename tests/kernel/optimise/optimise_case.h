/* SPDX-License-Identifier: Apache-2.0 */
/* optimise_case.h: the result of an optimiser pass on a text, and whether it is equivalent.

   Bodies are written without a header: they are put in a kernel of 4 invocations per workgroup, run on 2 workgroups,
   with these buffers before anything they declare themselves:

     a, b: f32[16] read   n: u32[16] read   u: u32[4] uniform   x, y: f32[16] read_write   m: u32[16] read_write
     out: f32[16] output   res: u32[16] output

   The names i (invocation id) and l (local id) are declared if they occur. */
#ifndef OPTIMISE_CASE_H
#define OPTIMISE_CASE_H

#include "kernel/flk.h"

#include "kernel/optimise/kernel_optimise.h"

/* The kernel of a body; a body that begins with "kernel" is a kernel already. */
flx_kernel *optimise_kernel(const char *body);

/* Both kernels, run on the same irregular data, leave the same bits in every bound buffer that both have, under two
   schedules. */
void optimise_check_same(const flx_kernel *before, const flx_kernel *after);

/* The passes turn the first body into the second; the result is equivalent and valid, and running them again does not
   change it. A kernel that should not change is given twice. */
void optimise_expect(const char *passes, const char *before, const char *after);
void optimise_keeps(const char *passes, const char *body);

/* The same for a function and options. */
void optimise_expect_with(flxi_kpass_fn pass, const flxi_ksimplify_options *o, const char *before, const char *after);

#endif
