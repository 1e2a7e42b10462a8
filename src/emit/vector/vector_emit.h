/* SPDX-License-Identifier: Apache-2.0 */
/* vector_emit.h: emits kernels as C with explicit vectors: the lanes of a vector are consecutive invocations of axis 0.

   The text has the same entry and the same semantics as the scalar text of emit_c.c, with two differences: functions
   such as exp are our own, accurate to some units in the last place (docs/performance.md), and a kernel with subgroup
   ops must be dispatched with subgroups of flxi_vector_lanes(). Kernels without a vector form are written in the scalar
   form. */
#ifndef FLXI_VECTOR_EMIT_H
#define FLXI_VECTOR_EMIT_H

#include "emit/kernel_emit.h"

struct flxi_vector_options {
    unsigned bytes; /* of a vector: 64, 32 or 16; 0: that of this processor. The same for all kernels of a file */
    unsigned parts; /* vectors processed together; 0: chosen. Kernels with subgroup ops choose their own number */
    const uint32_t *stream; /* numbers of buffers that are written past the cache; they must not be read */
    size_t num_streams;
};

/* How many invocations form a vector for subgroup ops, on every machine: 16, or 8 where 64-bit values occur. A kernel
   with subgroup ops must have workgroups of [lanes, 1, 1]. */
unsigned flxi_vector_lanes(const flx_kernel *k);

/* The buffers of a kernel that should be written past the cache. */
enum { FLXI_MAX_STREAMS = 8 };
size_t flxi_vector_streams(const flx_kernel *k, uint32_t streams[FLXI_MAX_STREAMS]);

/* Bytes of a vector of this processor. */
unsigned flxi_vector_host_bytes(void);

/* Writes the function of a kernel into a file of the target C. `reason` may be NULL; otherwise it becomes NULL for a
   vectorised kernel, and the reason for one that is written in the scalar form. */
flx_code flxi_vector_write(flxi_kfile *f, const flx_kernel *k, const flxi_vector_options *o, flxi_kentry *entry,
                           const char **reason, flx_error *err);

#endif
