/* SPDX-License-Identifier: Apache-2.0 */
/* vector_emit.h: kernels as C with explicit vectors: the lanes of a vector are consecutive invocations of axis 0.

   The text has the same entry and the same meaning as the scalar one of emit_c.c, with two differences: functions
   such as exp are our own, within some units in the last place (docs/performance.md), and a kernel with subgroup
   ops must be dispatched with subgroups of flxi_vector_lanes(). Kernels that do not fit are written in the scalar
   form. */
#ifndef FLXI_VECTOR_EMIT_H
#define FLXI_VECTOR_EMIT_H

#include "emit/kernel_emit.h"

struct flxi_vector_options {
    unsigned bytes; /* of a vector: 64, 32 or 16; 0: what this processor has. The same for all kernels of a file */
    unsigned parts; /* vectors that are worked on side by side; 0: chosen. Subgroup ops decide by themselves */
    const uint32_t *stream; /* numbers of buffers that are written past the cache; they must not be read */
    size_t num_streams;
};

/* How many invocations make up a vector in the sense of subgroup ops, on every machine: 16, or 8 where values of 64
   bits occur. A kernel with subgroup ops must have workgroups of [lanes, 1, 1]. */
unsigned flxi_vector_lanes(const flx_kernel *k);

/* Of a vector of the processor this runs on. */
unsigned flxi_vector_host_bytes(void);

/* Writes the function of a kernel into a file of the target C. `reason` may be NULL; else it becomes NULL for a
   kernel in vectors, and a few words on why for one that is written in the scalar form. */
flx_code flxi_vector_write(flxi_kfile *f, const flx_kernel *k, const flxi_vector_options *o, flxi_kentry *entry,
                           const char **reason, flx_error *err);

#endif
