/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_dispatch.c: a kernel of the user on the card. Buffers are copied there and those that it may write are copied
   back. */
#include "backend/cuda/cuda_kernel.h"
#include "backend/cuda/cuda_way.h"
#include "backend/kernel_status.h"

typedef struct {
    flxi_cu_module module;
    flxi_cuda_kernel kernel;
} compiled;

void flxi_cuda_discard_kernel(void *owner, void *data)
{
    const flxi_card *card = owner;
    compiled *k = data;
    if (k->module)
        card->cu->ModuleUnload(k->module);
    flxi_free(card->mem, k, 1, sizeof *k);
}

/* ---- Compiling ---- */

static flx_code check_workgroup(const flxi_card *card, const flx_kernel *k, flx_error *err)
{
    int most = 0;
    FLXI_CU_TRY(card->cu, err, DeviceGetAttribute, &most, FLXI_CU_MAX_THREADS_PER_BLOCK, card->device);
    if (flxi_kernel_workgroup(k) <= (uint32_t)most && k->size[2] <= 64)
        return FLX_OK;
    return flxi_kernel_fail(err, "K01", "use a smaller workgroup", "%u invocations: the card takes %d",
                            flxi_kernel_workgroup(k), most);
}

static flx_code build(flxi_card *card, const flxi_strbuf *text, compiled *k, flx_error *err)
{
    FLXI_TRY(flxi_cuda_compile(card, card->cache, text, 1, &k->module, NULL, err));
    return flxi_cuda_find_function(card, k->module, &k->kernel, err);
}

static flx_code compile(void *owner, const flx_kernel *kernel, void *made, flx_error *err)
{
    flxi_card *card = owner;
    compiled *k = made;
    flxi_kfile file;
    flxi_strbuf text;
    FLXI_TRY(flxi_kernel_check_target(kernel, &flxi_target_cuda, err));
    FLXI_TRY(check_workgroup(card, kernel, err));
    if (kernel->num_buffers > FLXI_CUDA_MOST_BUFFERS)
        return flxi_kernel_fail(err, "K31", "use fewer buffers", "%u buffers: a launch takes %d", kernel->num_buffers,
                                FLXI_CUDA_MOST_BUFFERS);
    flxi_kfile_init(&file, &flxi_target_cuda, card->mem);
    flxi_strbuf_init(&text, card->mem);
    flx_code code = flxi_kernel_write(&file, kernel, &k->kernel.of.entry, err);
    if (code == FLX_OK)
        code = flxi_kfile_text(&file, &text, err);
    if (code == FLX_OK)
        code = build(card, &text, k, err);
    flxi_strbuf_free(&text);
    flxi_kfile_free(&file);
    return code;
}

/* ---- Running ---- */

typedef struct {
    flxi_card *card;
    const flxi_kdispatch *d;
    flxi_cuda_kernel kernel; /* as compiled, for this kernel */
    void **memory;           /* on the card, by buffer - 1; then the status and the arrivals */
    uint32_t *count;
    uint32_t status[KSTATUS_WORDS];
    flx_error *err;
} dispatch;

static size_t size_of(const dispatch *r, uint32_t i)
{
    return flxi_ktype_bytes(r->d->kernel->buffers[i].element, r->d->bound[i].count);
}

/* Whole words, since 4-bit elements are accessed in words, and there is no memory of no bytes. */
static flx_code send(dispatch *r, uint32_t at, const void *data, size_t size)
{
    const flxi_card *c = r->card;
    flxi_cu_address address = 0;
    FLXI_CU_TRY(c->cu, r->err, MemAlloc, &address, (size + 8) / 4 * 4);
    r->memory[at] = (void *)(uintptr_t)address;
    FLXI_CU_TRY(c->cu, r->err, MemsetD8Async, address, 0, (size + 8) / 4 * 4, c->stream);
    if (size && data)
        FLXI_CU_TRY(c->cu, r->err, MemcpyHtoDAsync, address, data, size, c->stream);
    return FLX_OK;
}

static flx_code receive(dispatch *r, uint32_t at, void *data, size_t size)
{
    const flxi_card *c = r->card;
    if (size)
        FLXI_CU_TRY(c->cu, r->err, MemcpyDtoHAsync, data, (flxi_cu_address)(uintptr_t)r->memory[at], size, c->stream);
    return FLX_OK;
}

static flx_code send_all(dispatch *r)
{
    const flx_kernel *k = r->d->kernel;
    uint32_t n = k->num_buffers;
    for (uint32_t i = 1; i <= n; i++)
        if (flxi_kbuffer_is_bound(&k->buffers[i])) {
            r->count[i - 1] = flxi_kbound_length(&r->d->bound[i]);
            FLXI_TRY(send(r, i - 1, r->d->bound[i].data, size_of(r, i)));
        }
    FLXI_TRY(send(r, n, NULL, sizeof r->status));
    return send(r, n + 1, NULL, sizeof(uint32_t));
}

static flx_code run(dispatch *r)
{
    const flx_kernel *k = r->d->kernel;
    uint32_t n = k->num_buffers;
    FLXI_TRY(send_all(r));
    const flxi_cuda_launcher c = flxi_cuda_launcher_for(r->card, r->card->stream);
    const flxi_card_dispatch d = {.data = r->memory,
                                  .count = r->count,
                                  .grid = {r->d->grid[0], r->d->grid[1], r->d->grid[2]},
                                  .status = r->memory[n],
                                  .arrivals = r->memory[n + 1]};
    FLXI_TRY(c.on.run(&c.on, &r->kernel.of, &d, r->err));
    for (uint32_t i = 1; i <= n; i++)
        if (k->buffers[i].access == FLX_KERNEL_WRITE || k->buffers[i].access == FLX_KERNEL_READ_WRITE)
            FLXI_TRY(receive(r, i - 1, r->d->bound[i].data, size_of(r, i)));
    FLXI_TRY(receive(r, n, r->status, sizeof r->status));
    FLXI_CU_TRY(r->card->cu, r->err, StreamSynchronize, r->card->stream);
    return flxi_kernel_report_status(r->d, r->status, r->err);
}

static flx_code run_bound(dispatch *r)
{
    const flxi_allocator *mem = r->card->mem;
    size_t n = r->d->kernel->num_buffers + 2u;
    r->memory = flxi_alloc(mem, n, sizeof *r->memory);
    r->count = flxi_alloc(mem, n, sizeof *r->count);
    flx_code code = r->memory && r->count ? run(r) : flxi_oom(r->err, "the memory of a kernel");
    if (code != FLX_OK)
        r->card->cu->StreamSynchronize(r->card->stream); /* nothing may use the memory when it is freed */
    for (size_t i = 0; r->memory && i < n; i++)
        if (r->memory[i])
            r->card->cu->MemFree((flxi_cu_address)(uintptr_t)r->memory[i]);
    if (r->memory)
        flxi_free(mem, r->memory, n, sizeof *r->memory);
    if (r->count)
        flxi_free(mem, r->count, n, sizeof *r->count);
    return code;
}

flx_code flxi_kernel_run_cuda(const flxi_kdispatch *d, flx_error *err)
{
    dispatch r = {.d = d, .err = err};
    flxi_kcached *held;
    if (d->options.subgroup_size != 32)
        return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "leave the size open, or run it with device cpu or ref",
                              "a card has subgroups of 32 lanes, not of %u", d->options.subgroup_size);
    FLXI_TRY(flxi_card_of(d->kernel->ctx, &r.card, err));
    FLXI_TRY(flxi_kcache_get(&r.card->kernels, d->kernel, sizeof(compiled), compile, &held, err));
    r.kernel = ((const compiled *)flxi_kcached_data(held))->kernel;
    r.kernel.of.kernel = d->kernel;
    bool is_empty = d->grid[0] == 0 || d->grid[1] == 0 || d->grid[2] == 0;
    flx_code code = is_empty ? FLX_OK : run_bound(&r);
    flxi_kcache_put_back(&r.card->kernels, held);
    return code;
}
