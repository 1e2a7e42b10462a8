/* SPDX-License-Identifier: Apache-2.0 */
/* emit_random.h: random kernels of all types, ops and statements, for comparing devices. */
#ifndef FLX_TEST_EMIT_RANDOM_H
#define FLX_TEST_EMIT_RANDOM_H

#include "kernel/flk.h"

enum {
    EMIT_RANDOM_SAFE = 1, /* no races and no atomics with a visible order: any schedule gives the same; else only
                                   programs without barriers and subgroup ops have them */
    EMIT_RANDOM_NO_F64 = 2,
    EMIT_RANDOM_EXACT = 4,      /* no transcendentals */
    EMIT_RANDOM_CONVERGENT = 8, /* subgroup ops only where all invocations arrive */
};

/* A valid kernel made from the seed. Buffers of open count need 100 elements; use a small grid. */
flx_kernel *emit_random(flx_context *ctx, uint64_t seed, unsigned flags);

#endif
