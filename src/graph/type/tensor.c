/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c: reference-counted tensors. */
#include "graph/type/tensor.h"

#include "base/error.h"
#include "graph/op/eval.h"

#include <math.h>

enum { DATA_ALIGN = 64 }; /* a cache line, and the widest vector */

static flx_code check_type(flx_context *ctx, const flx_type *type, int64_t limit, size_t *nbytes, flx_error *err)
{
    flxi_type_text text;
    FLXI_TRY(flxi_type_check(ctx, type, err));
    if (!flxi_type_is_static(type))
        return flxi_fail(err, FLX_E_UNBOUND_DIM, "a tensor needs numbers for its dimensions, not %s",
                         flxi_type_str(ctx, type, &text));
    if (!flxi_static_bytes(type, nbytes))
        return flxi_fail(err, FLX_E_SIZE, "a tensor of type %s has more bytes than there are addresses",
                         flxi_type_str(ctx, type, &text));
    if (limit && *nbytes > (size_t)limit)
        return flxi_fail_hint(err, FLX_E_SIZE,
                              "the limit is the memory of the machine, or flx_context_options.memory_limit in C",
                              "a tensor of type %s has %zu bytes, and the limit of memory is %lld",
                              flxi_type_str(ctx, type, &text), *nbytes, (long long)limit);
    return FLX_OK;
}

flx_tensor *flx_tensor_new(flx_context *ctx, const flx_type *type, const void *data, flx_error *err)
{
    size_t nbytes;
    if (!ctx || !type) {
        flxi_fail(err, FLX_E_USAGE, "flx_tensor_new: context and type must be given");
        return NULL;
    }
    if (check_type(ctx, type, ctx->memory_limit, &nbytes, err) != FLX_OK)
        return NULL;
    flx_tensor *t = flxi_alloc(&ctx->mem, 1, sizeof *t);
    void *block = flxi_alloc(&ctx->mem, nbytes + DATA_ALIGN, 1);
    if (!t || !block) {
        flxi_free(&ctx->mem, t, 1, sizeof *t);
        flxi_free(&ctx->mem, block, nbytes + DATA_ALIGN, 1);
        flxi_fail(err, FLX_E_OOM, "out of memory: a tensor of %zu bytes", nbytes);
        return NULL;
    }
    t->ctx = ctx;
    atomic_init(&t->refs, 1);
    t->type = *type;
    flxi_static_count(type, &t->count);
    t->nbytes = nbytes;
    t->block = block;
    t->block_size = nbytes + DATA_ALIGN;
    t->data = (void *)(((uintptr_t)block + DATA_ALIGN - 1) & ~(uintptr_t)(DATA_ALIGN - 1));
    if (data && nbytes)
        memcpy(t->data, data, nbytes);
    return t;
}

/* What an element must be aligned to: a complex one is two numbers. */
static size_t alignment_of(int32_t dtype)
{
    size_t size = flx_dtype_size(dtype);
    return dtype == FLX_C64 || dtype == FLX_C128 ? size / 2 : size;
}

flx_tensor *flx_tensor_wrap(flx_context *ctx, const flx_type *type, void *data, flx_release_fn release, void *user,
                            flx_error *err)
{
    size_t nbytes;
    if (!ctx || !type) {
        flxi_fail(err, FLX_E_USAGE, "flx_tensor_wrap: context and type must be given");
        return NULL;
    }
    if (check_type(ctx, type, 0, &nbytes, err) != FLX_OK)
        return NULL;
    if (nbytes && !data) {
        flxi_fail(err, FLX_E_USAGE, "flx_tensor_wrap: data is NULL");
        return NULL;
    }
    if ((uintptr_t)data % alignment_of(type->dtype)) {
        flxi_fail(err, FLX_E_USAGE, "flx_tensor_wrap: %s elements need memory that is aligned to %zu bytes",
                  flx_dtype_name(type->dtype), alignment_of(type->dtype));
        return NULL;
    }
    flx_tensor *t = flxi_alloc(&ctx->mem, 1, sizeof *t);
    if (!t) {
        flxi_oom(err, "a tensor");
        return NULL;
    }
    *t = (flx_tensor){.ctx = ctx, .type = *type, .nbytes = nbytes, .data = data, .release_user = user};
    t->release = release;
    atomic_init(&t->refs, 1);
    flxi_static_count(type, &t->count);
    return t;
}

flx_tensor *flx_tensor_retain(flx_tensor *t)
{
    if (t)
        atomic_fetch_add(&t->refs, 1);
    return t;
}

void flx_tensor_release(flx_tensor *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) != 1)
        return;
    const flxi_allocator *mem = &t->ctx->mem;
    if (t->release)
        t->release(t->release_user, t->data);
    flxi_free(mem, t->block, t->block_size, 1);
    flxi_free(mem, t, 1, sizeof *t);
}

const flx_type *flx_tensor_type(const flx_tensor *t)
{
    return t ? &t->type : NULL;
}

flx_code flxi_tensor_fetch(const flx_tensor *t, flx_error *err)
{
    return t->is_behind ? t->keeper->fetch(t->keeper, err) : FLX_OK;
}

flx_code flxi_tensor_take(flx_tensor *t, flx_error *err)
{
    FLXI_TRY(flxi_tensor_fetch(t, err));
    t->keeper = NULL;
    return FLX_OK;
}

void *flx_tensor_data(flx_tensor *t)
{
    return t && flxi_tensor_take(t, NULL) == FLX_OK ? t->data : NULL;
}

const void *flx_tensor_const_data(const flx_tensor *t)
{
    return t && flxi_tensor_fetch(t, NULL) == FLX_OK ? t->data : NULL;
}

size_t flx_tensor_nbytes(const flx_tensor *t)
{
    return t ? t->nbytes : 0;
}

int64_t flx_tensor_count(const flx_tensor *t)
{
    return t ? t->count : 0;
}

double flx_tensor_get(const flx_tensor *t, int64_t i)
{
    if (!t || i < 0 || i >= t->count || flxi_tensor_fetch(t, NULL) != FLX_OK)
        return NAN;
    return flxi_load_double(t->type.dtype, t->data, i);
}

flx_tensor *flx_tensor_cast(const flx_tensor *t, flx_dtype to, flx_error *err)
{
    if (!t) {
        flxi_fail(err, FLX_E_USAGE, "flx_tensor_cast: the tensor is NULL");
        return NULL;
    }
    flx_type type = t->type;
    type.dtype = (int32_t)to;
    if (flxi_tensor_fetch(t, err) != FLX_OK)
        return NULL;
    flx_tensor *y = flx_tensor_new(t->ctx, &type, NULL, err);
    for (int64_t i = 0; y && i < t->count; i++)
        flxi_cast_element(t->type.dtype, t->data, i, type.dtype, y->data, i);
    return y;
}
