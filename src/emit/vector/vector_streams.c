/* SPDX-License-Identifier: Apache-2.0 */
/* vector_streams.c: which results of a kernel are written past the caches. */
#include "emit/vector/vector_emit.h"

static bool reads(const flx_kernel *k, uint32_t buffer)
{
    for (uint32_t i = 1; i <= k->num_exprs; i++)
        if ((k->exprs[i].kind == KX_LOAD || k->exprs[i].kind == KX_ATOMIC) && k->exprs[i].ref == buffer)
            return true;
    return false;
}

static uint64_t buffer_bytes(const flx_kernel *k, uint32_t buffer)
{
    return flxi_ktype_bytes(k->buffers[buffer].element, k->buffers[buffer].count);
}

/* Results too large for a cache to hold until they are read: a plain store would read each line first. Not where an
   operand is as large: the result may take its place, whose lines are there. Returns how many. */
size_t flxi_vector_streams(const flx_kernel *k, uint32_t streams[FLXI_MAX_STREAMS])
{
    const uint64_t least = UINT64_C(1) << 25;
    uint64_t largest = 0;
    size_t n = 0;
    for (uint32_t i = 1; i <= k->num_buffers; i++)
        if (reads(k, i) && buffer_bytes(k, i) > largest)
            largest = buffer_bytes(k, i);
    for (uint32_t i = 1; i <= k->num_buffers && n < FLXI_MAX_STREAMS; i++)
        if (!reads(k, i) && buffer_bytes(k, i) >= least && buffer_bytes(k, i) > largest)
            streams[n++] = i;
    return n;
}
