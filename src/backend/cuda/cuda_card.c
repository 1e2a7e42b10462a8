/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_card.c: see cuda_card.h. */
#include "backend/cuda/cuda_card.h"

#include "backend/cuda/cuda_attention.h"
#include "backend/cuda/cuda_product.h"
#include "backend/cuda/cuda_way.h"
#include "backend/cuda/node/cuda_conv.h"
#include "base/text/count_words.h"

#include <stdio.h>
#include <stdlib.h>

static flx_code ask_card(flxi_card *c, flx_error *err)
{
    int major = 0, minor = 0;
    FLXI_CU_TRY(c->cu, err, DeviceGetAttribute, &major, FLXI_CU_COMPUTE_CAPABILITY_MAJOR, c->device);
    FLXI_CU_TRY(c->cu, err, DeviceGetAttribute, &minor, FLXI_CU_COMPUTE_CAPABILITY_MINOR, c->device);
    c->sm = 10 * major + minor;
    return FLX_OK;
}

/* Processes of one machine that mpirun or srun has started each get a card of their own, as far as there are any;
   CUDA_VISIBLE_DEVICES chooses which there are. */
static int card_of_process(const flxi_cuda *cu)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};
    int count = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && *text && cu->DeviceGetCount(&count) == FLXI_CU_SUCCESS && count > 0)
            return (int)(strtoul(text, NULL, 10) % (unsigned long)count);
    }
    return 0;
}

static flx_code open_card(flxi_card *c, flx_error *err)
{
    c->cu = flxi_cuda_driver(err);
    if (!c->cu)
        return FLX_E_DEVICE;
    FLXI_CU_TRY(c->cu, err, DeviceGet, &c->device, card_of_process(c->cu));
    FLXI_TRY(ask_card(c, err));
    FLXI_CU_TRY(c->cu, err, PrimaryCtxRetain, &c->context, c->device);
    FLXI_CU_TRY(c->cu, err, CtxSetCurrent, c->context);
    FLXI_CU_TRY(c->cu, err, StreamCreate, &c->stream, FLXI_CU_STREAM_NON_BLOCKING);
    FLXI_CU_TRY(c->cu, err, MemHostAlloc, (void **)&c->finding, sizeof *c->finding, FLXI_CU_HOST_MAPPED);
    memset(c->finding, 0, sizeof *c->finding);
    return FLX_OK;
}

/* Without a card there is one too: it knows why. */
static void *make_card(flx_context *ctx)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flxi_card *c = flxi_alloc(mem, 1, sizeof *c);
    if (!c)
        return NULL;
    c->mem = mem;
    c->cache = flxi_object_cache_new(mem, &(flxi_cache_options){0});
    bool has_lock = c->cache && pthread_mutex_init(&c->lock, NULL) == 0;
    if (!has_lock || !flxi_kcache_init(&c->kernels, mem, flxi_cuda_discard_kernel, c)) {
        if (has_lock)
            pthread_mutex_destroy(&c->lock);
        flxi_object_cache_free(c->cache);
        flxi_free(mem, c, 1, sizeof *c);
        return NULL;
    }
    c->is_ready = open_card(c, &c->why_not) == FLX_OK;
    return c;
}

static void free_card(void *data)
{
    flxi_card *c = data;
    if (c->context)
        c->cu->CtxSetCurrent(c->context);
    flxi_kcache_free(&c->kernels);
    flxi_cuda_free_lt_plans(c);
    flxi_cuda_free_convs(c);
    flxi_cuda_free_dnn(c);
    flxi_cuda_free_own(c);
    if (c->lt)
        flxi_cuda_lt(NULL)->Destroy(c->lt);
    if (c->finding)
        c->cu->MemFreeHost(c->finding);
    if (c->stream)
        c->cu->StreamDestroy(c->stream);
    if (c->context)
        c->cu->PrimaryCtxRelease(c->device);
    flxi_object_cache_free(c->cache);
    pthread_mutex_destroy(&c->lock);
    flxi_free(c->mem, c, 1, sizeof *c);
}

flx_code flxi_card_of(flx_context *ctx, flxi_card **out, flx_error *err)
{
    flxi_card *c = *out = flxi_context_attached(ctx, make_card, free_card);
    if (!c)
        return flxi_oom(err, "the card");
    if (!c->is_ready && err)
        *err = c->why_not;
    if (!c->is_ready)
        return (flx_code)c->why_not.code;
    FLXI_CU_TRY(c->cu, err, CtxSetCurrent, c->context);
    return FLX_OK;
}

flxi_cu_stream flxi_card_stream(const flxi_card *card, const flxi_device_run *r)
{
    return r->queue ? r->queue->stream : card->stream;
}

const flxi_cublaslt *flxi_card_lt(flxi_card *card, flxi_lt_handle *handle, flx_error *err)
{
    const flxi_cublaslt *lt = flxi_cuda_lt(err);
    if (!lt)
        return NULL;
    pthread_mutex_lock(&card->lock);
    int status = card->lt ? 0 : lt->Create(&card->lt);
    *handle = card->lt;
    pthread_mutex_unlock(&card->lock);
    if (status == 0)
        return lt;
    flxi_fail(err, FLX_E_DEVICE, "cublasLtCreate failed with status %d", status);
    return NULL;
}

/* ---- Facts ---- */

static void write_card(char *text, size_t size)
{
    flx_error err = {0};
    const flxi_cuda *cu = flxi_cuda_driver(&err);
    char name[128] = "";
    flxi_cu_device device;
    size_t bytes = 0;
    int major = 0, minor = 0;
    if (!cu || cu->DeviceGet(&device, card_of_process(cu)) != FLXI_CU_SUCCESS) {
        snprintf(text, size, "none: %s", err.message);
        return;
    }
    cu->DeviceGetName(name, sizeof name, device);
    cu->DeviceTotalMem(&bytes, device);
    cu->DeviceGetAttribute(&major, FLXI_CU_COMPUTE_CAPABILITY_MAJOR, device);
    cu->DeviceGetAttribute(&minor, FLXI_CU_COMPUTE_CAPABILITY_MINOR, device);
    snprintf(text, size, "%s, %.1f GiB, compute capability %d.%d", name, (double)bytes / (1 << 30), major, minor);
}

static void write_driver(char *text, size_t size)
{
    flx_error err = {0};
    const flxi_cuda *cu = flxi_cuda_driver(&err);
    int version = 0, count = 0;
    if (cu && cu->DriverGetVersion(&version) == FLXI_CU_SUCCESS && cu->DeviceGetCount(&count) == FLXI_CU_SUCCESS)
        flxi_format(text, size, "for CUDA %d.%d, %d cards", version / 1000, version % 1000 / 10, count);
    else
        snprintf(text, size, "none: %s", err.message);
}

static void write_nvrtc(char *text, size_t size)
{
    flx_error err = {0};
    const flxi_nvrtc *rtc = flxi_cuda_nvrtc(&err);
    int major = 0, minor = 0;
    if (rtc && rtc->Version(&major, &minor) == 0)
        snprintf(text, size, "NVRTC %d.%d", major, minor);
    else
        snprintf(text, size, "none: %s", err.message);
}

static void write_products(char *text, size_t size)
{
    flx_error err = {0};
    if (flxi_cuda_lt(&err))
        snprintf(text, size, "cuBLASLt");
    else
        snprintf(text, size, "own kernels: %s", err.message);
}

static void write_attention(char *text, size_t size)
{
    flx_error err = {0};
    if (flxi_cuda_dnn(&err))
        snprintf(text, size, "cuDNN");
    else
        snprintf(text, size, "products and own kernels: %s", err.message);
}

const flxi_device_fact flxi_cuda_facts[] = {{"card", write_card},           {"driver", write_driver},
                                            {"nvrtc", write_nvrtc},         {"products", write_products},
                                            {"attention", write_attention}, {0}};
