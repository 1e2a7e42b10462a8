/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h: reference-counted buffers with a static type. */
#ifndef FLXI_TENSOR_H
#define FLXI_TENSOR_H

#include "base/context.h"
#include "graph/type/type.h"

#include <fluxion/tensor.h>

struct flx_tensor {
    flx_context *ctx;
    atomic_uint refs;
    flx_type type; /* static */
    int64_t count;
    size_t nbytes;
    void *block; /* what the allocator gave */
    size_t block_size;
    void *data;             /* 64-byte aligned inside block, or the caller's memory */
    flx_release_fn release; /* of the caller's memory; NULL: nothing to call */
    void *release_user;
};

#endif
