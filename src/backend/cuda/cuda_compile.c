/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_compile.c: see cuda_compile.h. A key of the cache identifies a text, an architecture and a version of NVRTC
   with fixed options. Nothing is contracted: the text says where a product
   and a sum are one operation. */
#include "backend/cuda/cuda_compile.h"

#include "base/host/thread_pool.h"

#include <stdio.h>

static const char no_contraction[] = "-fmad=false";

static flx_code fail_build(const flxi_nvrtc *rtc, flxi_nvrtc_program program, const flxi_allocator *mem, flx_error *err)
{
    char shown[240] = "";
    size_t size = 0;
    char *log = rtc->GetProgramLogSize(program, &size) == 0 && size ? flxi_alloc(mem, size, 1) : NULL;
    if (log && rtc->GetProgramLog(program, log) == 0)
        flxi_printable(shown, sizeof shown, log, strnlen(log, size));
    if (log)
        flxi_free(mem, log, size, 1);
    return flxi_fail(err, FLX_E_KERNEL, "NVRTC cannot compile the kernels: %s", shown);
}

static flx_code take_code(const flxi_nvrtc *rtc, flxi_nvrtc_program program, const flxi_allocator *mem,
                          unsigned char **bytes, size_t *size, flx_error *err)
{
    if (rtc->GetCUBINSize(program, size) != 0 || !*size)
        return flxi_fail(err, FLX_E_DEVICE, "NVRTC made no machine code");
    *bytes = flxi_alloc(mem, *size, 1);
    if (!*bytes)
        return flxi_oom(err, "machine code");
    if (rtc->GetCUBIN(program, (char *)*bytes) == 0)
        return FLX_OK;
    flxi_free(mem, *bytes, *size, 1);
    *bytes = NULL;
    return flxi_fail(err, FLX_E_DEVICE, "NVRTC made no machine code");
}

flx_code flxi_cuda_assemble(const flxi_allocator *mem, const char *sm, const char *text, unsigned char **bytes,
                            size_t *size, flx_error *err)
{
    char arch[32];
    const flxi_nvrtc *rtc = flxi_cuda_nvrtc(err);
    flxi_nvrtc_program program;
    snprintf(arch, sizeof arch, "-arch=%.20s", sm);
    const char *const options[] = {arch, no_contraction};
    *bytes = NULL;
    if (!rtc)
        return FLX_E_DEVICE;
    if (rtc->CreateProgram(&program, text, "kernels.cu", 0, NULL, NULL) != 0)
        return flxi_fail(err, FLX_E_DEVICE, "nvrtcCreateProgram failed");
    flx_code code = rtc->CompileProgram(program, 2, options) == 0 ? take_code(rtc, program, mem, bytes, size, err)
                                                                  : fail_build(rtc, program, mem, err);
    rtc->DestroyProgram(&program);
    return code;
}

/* ---- Several texts ---- */

typedef struct {
    const flxi_strbuf *text;
    unsigned char key[FLXI_SHA256_BYTES];
    flxi_cache_entry made;
    bool is_found;
    flx_code code;
    flx_error err;
} part;

typedef struct {
    flxi_card *card;
    flxi_object_cache *cache;
    part *parts;
    size_t n;
} work;

static void find_key(const flxi_card *card, const flxi_nvrtc *rtc, part *p)
{
    flxi_sha256 h;
    int of[3] = {0, 0, card->sm};
    rtc->Version(&of[0], &of[1]);
    flxi_sha256_init(&h);
    flxi_sha256_add_field(&h, "cuda 1", 6);
    flxi_sha256_add_field(&h, of, sizeof of);
    flxi_sha256_add_field(&h, no_contraction, sizeof no_contraction);
    flxi_sha256_add_field(&h, p->text->at, p->text->n);
    flxi_sha256_end(&h, p->key);
}

static void make_part(void *user, int64_t begin, int64_t end)
{
    const work *w = user;
    char sm[16];
    snprintf(sm, sizeof sm, "sm_%d", w->card->sm);
    for (part *p = w->parts + begin; p < w->parts + end; p++) {
        p->is_found = flxi_object_cache_read(w->cache, p->key, &p->made);
        if (p->is_found)
            continue;
        p->code = flxi_cuda_assemble(w->card->mem, sm, p->text->at, &p->made.bytes, &p->made.n, &p->err);
        if (p->code != FLX_OK)
            continue;
        flxi_sha256_of(p->made.bytes, p->made.n, p->made.digest);
        flxi_object_cache_write(w->cache, p->key, &p->made);
    }
}

static void free_parts(const work *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->parts[i].is_found)
            flxi_cache_entry_free(w->cache, &w->parts[i].made);
        else if (w->parts[i].made.bytes)
            flxi_free(w->card->mem, w->parts[i].made.bytes, w->parts[i].made.n, 1);
    flxi_free(w->card->mem, w->parts, w->n, sizeof *w->parts);
}

static flx_code load_parts(const work *w, flxi_cu_module *modules, flx_error *err)
{
    for (size_t i = 0; i < w->n; i++) {
        const part *p = &w->parts[i];
        if (p->code != FLX_OK) {
            if (err)
                *err = p->err;
            return p->code;
        }
        FLXI_CU_TRY(w->card->cu, err, ModuleLoadData, &modules[i], p->made.bytes);
    }
    return FLX_OK;
}

void flxi_cuda_unload(const flxi_card *card, flxi_cu_module *modules, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (modules[i])
            card->cu->ModuleUnload(modules[i]);
    if (n)
        memset(modules, 0, n * sizeof *modules);
}

static flx_code compile(work *w, const flxi_nvrtc *rtc, const flxi_strbuf *texts, flxi_cu_module *modules,
                        flx_error *err)
{
    for (size_t i = 0; i < w->n; i++) {
        w->parts[i].text = &texts[i];
        find_key(w->card, rtc, &w->parts[i]);
    }
    flxi_pool *pool = w->n > 1 ? flxi_pool_new(w->card->mem, 0) : NULL;
    flxi_pool_run(pool, (int64_t)w->n, 1, make_part, w);
    flxi_pool_free(pool);
    flx_code code = load_parts(w, modules, err);
    if (code != FLX_OK)
        flxi_cuda_unload(w->card, modules, w->n);
    return code;
}

flx_code flxi_cuda_compile(flxi_card *card, flxi_object_cache *cache, const flxi_strbuf *texts, size_t n,
                           flxi_cu_module *modules, size_t *num_found, flx_error *err)
{
    work w = {.card = card, .cache = cache, .n = n};
    const flxi_nvrtc *rtc = flxi_cuda_nvrtc(err);
    if (!rtc)
        return FLX_E_DEVICE;
    memset(modules, 0, n * sizeof *modules);
    w.parts = flxi_alloc(card->mem, n, sizeof *w.parts);
    if (!w.parts)
        return flxi_oom(err, "kernels");
    flx_code code = compile(&w, rtc, texts, modules, err);
    for (size_t i = 0; num_found && i < n; i++)
        *num_found += w.parts[i].is_found;
    free_parts(&w);
    return code;
}
