/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_own.c: functions of our own in CUDA C that are not made from a group of nodes. */
#include "backend/cuda/cuda_compile.h"
#include "backend/cuda/cuda_way.h"

struct flxi_cuda_own {
    const flxi_card_text *text;
    int32_t variant;
    flxi_cu_module module;
    flxi_cuda_own *next;
};

static flx_code compile(flxi_card *card, flxi_cuda_own *own, flx_error *err)
{
    flxi_strbuf text;
    flxi_strbuf_init(&text, card->mem);
    own->text->write(FLXI_CARD_CUDA, own->variant, &text);
    flx_code code = text.failed ? flxi_oom(err, "a kernel")
                                : flxi_cuda_compile(card, card->cache, &text, 1, &own->module, NULL, err);
    flxi_strbuf_free(&text);
    return code;
}

/* With the lock held. */
static flx_code find(flxi_card *card, const flxi_card_text *text, int32_t variant, flxi_cu_module *out, flx_error *err)
{
    flxi_cuda_own *own = card->own;
    while (own && (own->text != text || own->variant != variant))
        own = own->next;
    if (!own) {
        own = flxi_alloc(card->mem, 1, sizeof *own);
        if (!own)
            return flxi_oom(err, "a kernel");
        *own = (flxi_cuda_own){.text = text, .variant = variant};
        flx_code code = compile(card, own, err);
        if (code != FLX_OK) {
            flxi_free(card->mem, own, 1, sizeof *own);
            return code;
        }
        own->next = card->own;
        card->own = own;
    }
    *out = own->module;
    return FLX_OK;
}

flx_code flxi_cuda_own_function(flxi_card *card, const flxi_card_text *text, int32_t variant, const char *name,
                                flxi_cu_function *out, flx_error *err)
{
    flxi_cu_module module = NULL;
    pthread_mutex_lock(&card->lock);
    flx_code code = find(card, text, variant, &module, err);
    pthread_mutex_unlock(&card->lock);
    FLXI_TRY(code);
    FLXI_CU_TRY(card->cu, err, ModuleGetFunction, out, module, name);
    return FLX_OK;
}

void flxi_cuda_free_own(flxi_card *card)
{
    for (flxi_cuda_own *own = card->own, *next; own; own = next) {
        next = own->next;
        card->cu->ModuleUnload(own->module);
        flxi_free(card->mem, own, 1, sizeof *own);
    }
    card->own = NULL;
}

/* ---- Launching ---- */

static flx_code launch_blocks(const flxi_card *card, flxi_cu_stream stream, flxi_cu_function f, uint64_t blocks,
                              const unsigned threads[2], void **parameters, flx_error *err)
{
    if (blocks == 0)
        return FLX_OK;
    if (blocks > INT32_MAX)
        return flxi_fail(err, FLX_E_SIZE, "%llu blocks are too many for a launch", (unsigned long long)blocks);
    FLXI_CU_TRY(card->cu, err, LaunchKernel, f, (unsigned)blocks, 1, 1, threads[0], threads[1], 1, 0, stream,
                parameters, NULL);
    return FLX_OK;
}

flx_code flxi_cuda_launch_line(const flxi_card *card, flxi_cu_stream stream, flxi_cu_function f, uint64_t blocks,
                               unsigned threads, void **parameters, flx_error *err)
{
    return launch_blocks(card, stream, f, blocks, (const unsigned[2]){threads, 1}, parameters, err);
}

/* The driver reads each argument at its address, whatever it is. */
static flx_code launch(const flxi_launcher *on, const flxi_card_launch *l, flx_error *err)
{
    const flxi_cuda_launcher *c = flxi_cuda_launcher_of(on);
    void *parameters[FLXI_CARD_MOST_ARGUMENTS];
    flxi_cu_function f;
    FLXI_TRY(flxi_cuda_own_function(c->card, l->text, l->variant, l->name, &f, err));
    for (uint32_t i = 0; i < l->num_arguments; i++)
        parameters[i] = (void *)(uintptr_t)l->arguments[i].at;
    return launch_blocks(c->card, c->stream, f, l->blocks, (const unsigned[2]){l->wide, l->high}, parameters, err);
}

static flx_code copy(const flxi_launcher *on, void *to, const void *from, size_t nbytes, flx_error *err)
{
    const flxi_cuda_launcher *c = flxi_cuda_launcher_of(on);
    FLXI_CU_TRY(c->card->cu, err, MemcpyDtoDAsync, (flxi_cu_address)(uintptr_t)to, (flxi_cu_address)(uintptr_t)from,
                nbytes, c->stream);
    return FLX_OK;
}

static flx_code fetch(const flxi_launcher *on, void *to, const void *from, size_t nbytes, flx_error *err)
{
    const flxi_cuda_launcher *c = flxi_cuda_launcher_of(on);
    FLXI_CU_TRY(c->card->cu, err, MemcpyDtoHAsync, to, (flxi_cu_address)(uintptr_t)from, nbytes, c->stream);
    FLXI_CU_TRY(c->card->cu, err, StreamSynchronize, c->stream);
    return FLX_OK;
}

static flx_code clear(const flxi_launcher *on, void *to, size_t nbytes, flx_error *err)
{
    const flxi_cuda_launcher *c = flxi_cuda_launcher_of(on);
    FLXI_CU_TRY(c->card->cu, err, MemsetD8Async, (flxi_cu_address)(uintptr_t)to, 0, nbytes, c->stream);
    return FLX_OK;
}

flxi_cuda_launcher flxi_cuda_launcher_for(flxi_card *card, flxi_cu_stream stream)
{
    return (flxi_cuda_launcher){.on = {.language = FLXI_CARD_CUDA,
                                       .most_threads = 1024,
                                       .finding = card->finding,
                                       .launch = launch,
                                       .run = flxi_cuda_run,
                                       .copy = copy,
                                       .fetch = fetch,
                                       .clear = clear},
                                .card = card,
                                .stream = stream};
}
