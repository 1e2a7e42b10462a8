/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h: reference-counted buffers with a static type. */
#ifndef FLXI_TENSOR_H
#define FLXI_TENSOR_H

#include "base/context.h"
#include "graph/type/type.h"

#include <fluxion/tensor.h>

/* Who has elements of tensors on a device, such as a trainer. */
typedef struct flxi_keeper flxi_keeper;

struct flxi_keeper {
    /* Brings all elements that are newer on the device to the tensors that it keeps. */
    flx_code (*fetch)(flxi_keeper *k, flx_error *err);
};

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
    flxi_keeper *keeper; /* has the elements too, on a device; NULL: none has */
    bool is_behind;      /* what the keeper has is newer than `data` */
};

/* Before `data` is read: brings newer elements from the device. */
flx_code flxi_tensor_fetch(const flx_tensor *t, flx_error *err);
/* Before `data` is written: no one else has the elements afterwards. */
flx_code flxi_tensor_take(flx_tensor *t, flx_error *err);

#endif
