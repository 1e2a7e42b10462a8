/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_kernel.c: the kernels of a program as functions of the card. They are shared out among a few texts of about the
   same length, which are compiled at the same time: a text costs NVRTC some tens of milliseconds, however short. */
#include "backend/cuda/cuda_kernel.h"

#include "backend/compile_request.h"
#include "backend/cuda/cuda_way.h"
#include "backend/cuda/loop/cuda_loop.h"

enum { MOST_TEXTS = 8 }; /* of kernels, and as many of loops */

struct flxi_device_code {
    flxi_arena arena;
    flxi_card *card;
    flxi_cuda_kernel *kernels;
    flxi_cuda_loop *loops;
    flxi_cu_module modules[2 * MOST_TEXTS];
    size_t num_modules;
};

const char *flxi_cuda_refuse_kernel(const flx_kernel *k)
{
    return k->num_buffers > FLXI_CUDA_MOST_BUFFERS ? "the card takes no more than 240 buffers in a launch" : NULL;
}

/* ---- Launching ---- */

static flx_code check_grid(const flx_kernel *k, const uint32_t grid[3], flx_error *err)
{
    const uint32_t most = 65535; /* along the second and the third axis; the first has room for all */
    if (grid[0] <= INT32_MAX && grid[1] <= most && grid[2] <= most)
        return FLX_OK;
    return flxi_fail_hint(err, FLX_E_SIZE, "make the first axis the longest, or make it several dispatches",
                          "kernel '%.60s': a card takes no grid of [%u, %u, %u] workgroups", k->name, grid[0], grid[1],
                          grid[2]);
}

flx_code flxi_cuda_run(const flxi_launcher *on, const flxi_card_kernel *k, const flxi_card_dispatch *d, flx_error *err)
{
    const flxi_cuda_launcher *c = flxi_cuda_launcher_of(on);
    const flxi_cuda *cu = c->card->cu;
    flxi_cu_function function = ((const flxi_cuda_kernel *)k)->function;
    void *parameters[2 * FLXI_CUDA_MOST_BUFFERS + 2];
    uint32_t lengths[FLXI_CUDA_MOST_BUFFERS];
    flxi_card_dispatch own = *d;
    size_t n = 0;
    const uint32_t *grid = d->grid, *size = k->kernel->size;
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0)
        return FLX_OK;
    FLXI_TRY(check_grid(k->kernel, grid, err));
    for (uint32_t i = 0; i < k->kernel->num_buffers; i++) {
        if (!flxi_kbuffer_is_bound(&k->kernel->buffers[i + 1]))
            continue;
        uint64_t count = d->count ? d->count[i] : k->kernel->buffers[i + 1].count;
        lengths[i] = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
        parameters[n++] = (void *)(uintptr_t)&d->data[i];
        parameters[n++] = &lengths[i];
    }
    if (k->entry.has_status)
        parameters[n++] = &own.status;
    if (k->entry.has_grid_barrier) {
        parameters[n++] = &own.arrivals;
        FLXI_CU_TRY(cu, err, LaunchCooperativeKernel, function, grid[0], grid[1], grid[2], size[0], size[1], size[2],
                    (unsigned)k->entry.dynamic_bytes, c->stream, parameters);
        return FLX_OK;
    }
    FLXI_CU_TRY(cu, err, LaunchKernel, function, grid[0], grid[1], grid[2], size[0], size[1], size[2],
                (unsigned)k->entry.dynamic_bytes, c->stream, parameters, NULL);
    return FLX_OK;
}

flx_code flxi_cuda_find_function(const flxi_card *card, flxi_cu_module module, flxi_cuda_kernel *k, flx_error *err)
{
    const flxi_kentry *entry = &k->of.entry;
    FLXI_CU_TRY(card->cu, err, ModuleGetFunction, &k->function, module, entry->name);
    if (entry->dynamic_bytes)
        FLXI_CU_TRY(card->cu, err, FuncSetAttribute, k->function, FLXI_CU_FUNC_MOST_SHARED, (int)entry->dynamic_bytes);
    return FLX_OK;
}

/* ---- Texts ---- */

/* Which kernels are in which text: text_of by kernel. */
typedef struct {
    size_t n;
    uint8_t *text_of;
} division;

static flx_code divide(const flxi_compile_request *q, flxi_arena *arena, division *out, flx_error *err)
{
    uint64_t load[MOST_TEXTS] = {0};
    out->n = q->num_kernels < MOST_TEXTS ? q->num_kernels : MOST_TEXTS;
    out->text_of = flxi_new(arena, uint8_t, q->num_kernels);
    if (!out->text_of)
        return flxi_oom(err, "kernels");
    for (size_t i = 0; i < q->num_kernels; i++) {
        uint8_t least = 0;
        for (uint8_t t = 1; t < out->n; t++)
            least = load[t] < load[least] ? t : least;
        out->text_of[i] = least;
        load[least] += q->kernels[i]->num_exprs + 16;
    }
    return FLX_OK;
}

/* Loops over rows wait for memory unless several elements are on their way, which needs memory that does not overlap
   where they store elements too. */
static const flxi_card_style style = {.target = &flxi_target_cuda, .before_loop = "#pragma unroll 4", .aligns = true};

static flx_code try_kernel(const flx_kernel *k, flxi_kentry *entry, flx_error *err)
{
    flxi_kfile file;
    FLXI_TRY(flxi_kernel_check_target(k, &flxi_target_cuda, err));
    flxi_kfile_init(&file, &flxi_target_cuda, flxi_kernel_mem(k));
    flx_code code = flxi_kernel_write(&file, k, entry, err);
    flxi_kfile_free(&file);
    return code;
}

flx_code flxi_cuda_check_kernel(const flx_kernel *k, flx_error *err)
{
    flxi_kentry entry;
    return try_kernel(k, &entry, err);
}

/* The grid barrier counts arrivals of workgroups that all run at once, which a large grid on a card does not. */
flx_code flxi_cuda_check_call(const flx_kernel *k, flx_error *err)
{
    enum { MOST_INVOCATIONS = 1024, MOST_DEEP = 64 };
    flxi_kentry entry = {0};
    if (flxi_kernel_workgroup(k) > MOST_INVOCATIONS || k->size[2] > MOST_DEEP)
        return flxi_fail(err, FLX_E_UNSUPPORTED, "a workgroup of %u invocations is too large for a card",
                         flxi_kernel_workgroup(k));
    if (k->num_buffers > FLXI_CUDA_MOST_BUFFERS)
        return flxi_fail(err, FLX_E_UNSUPPORTED, "%s", flxi_cuda_refuse_kernel(k));
    FLXI_TRY(try_kernel(k, &entry, err));
    return entry.has_grid_barrier ? flxi_fail(err, FLX_E_UNSUPPORTED, "its workgroups wait for each other") : FLX_OK;
}

flx_code flxi_cuda_write_source(const flxi_compile_request *q, flxi_strbuf *out, flx_error *err)
{
    FLXI_TRY(flxi_card_write_source(&style, q, out, err));
    return q->num_chains ? flxi_cuda_write_loops(q->chains, q->num_chains, out, err) : FLX_OK;
}

/* ---- Texts of loops ---- */

static size_t loop_texts(const flxi_compile_request *q)
{
    return q->num_chains < MOST_TEXTS ? q->num_chains : MOST_TEXTS;
}

/* The first of the loops in a text. */
static size_t first_loop(const flxi_compile_request *q, size_t text)
{
    return text * q->num_chains / loop_texts(q);
}

static flx_code write_loops(const flxi_compile_request *q, flxi_strbuf *texts, flx_error *err)
{
    for (size_t t = 0; t < loop_texts(q); t++) {
        size_t first = first_loop(q, t), end = first_loop(q, t + 1);
        FLXI_TRY(flxi_cuda_write_loops(q->chains + first, end - first, &texts[t], err));
    }
    return FLX_OK;
}

static flx_code find_loops(flxi_device_code *c, const flxi_compile_request *q, const flxi_cu_module *modules,
                           flx_error *err)
{
    for (size_t t = 0; t < loop_texts(q); t++)
        for (size_t i = first_loop(q, t); i < first_loop(q, t + 1); i++)
            FLXI_TRY(flxi_cuda_find_loop(c->card, modules[t], i - first_loop(q, t), q->chains[i], &c->loops[i], err));
    return FLX_OK;
}

/* ---- Programs ---- */

void flxi_cuda_free_code(flxi_device_code *c)
{
    if (!c)
        return;
    const flxi_allocator *mem = c->arena.mem;
    if (c->num_modules && c->card->cu->CtxSetCurrent(c->card->context) == FLXI_CU_SUCCESS)
        flxi_cuda_unload(c->card, c->modules, c->num_modules);
    flxi_arena_free(&c->arena);
    flxi_free(mem, c, 1, sizeof *c);
}

static flx_code find_functions(flxi_device_code *c, const flxi_compile_request *q, const division *d,
                               const flxi_kentry *entries, flx_error *err)
{
    for (size_t i = 0; i < q->num_kernels; i++) {
        c->kernels[i].of = (flxi_card_kernel){entries[i], q->kernels[i]};
        FLXI_TRY(flxi_cuda_find_function(c->card, c->modules[d->text_of[i]], &c->kernels[i], err));
    }
    return FLX_OK;
}

static flx_code write_texts(flxi_device_code *c, const flxi_compile_request *q, const division *d, flxi_kentry *entries,
                            flxi_strbuf *texts, flx_error *err)
{
    for (size_t t = 0; t < d->n; t++)
        FLXI_TRY(flxi_card_write(&style, q, d->text_of, (uint8_t)t, entries, &texts[t], err));
    FLXI_TRY(write_loops(q, texts + d->n, err));
    for (size_t t = 0; q->options->dump_dir && t < c->num_modules; t++)
        FLXI_TRY(flxi_dump_text(q->options->dump_dir, t, "cu", &texts[t], err));
    return FLX_OK;
}

/* From the cache of the request, or by NVRTC. */
static flx_code build_modules(flxi_device_code *c, const flxi_compile_request *q, const flxi_strbuf *texts,
                              flx_error *err)
{
    flxi_object_cache *cache;
    size_t num_found = 0;
    FLXI_TRY(flxi_open_cache(q, &cache, err));
    flx_code code = flxi_cuda_compile(c->card, cache, texts, c->num_modules, c->modules, &num_found, err);
    flxi_close_cache(q, "cuda", cache, num_found, code == FLX_OK ? c->num_modules - num_found : 0);
    return code;
}

static flx_code build_texts(flxi_device_code *c, const flxi_compile_request *q, const division *d, flxi_strbuf *texts,
                            flx_error *err)
{
    flxi_kentry *entries = flxi_new(&c->arena, flxi_kentry, q->num_kernels);
    if (!entries)
        return flxi_oom(err, "kernels");
    FLXI_TRY(write_texts(c, q, d, entries, texts, err));
    FLXI_TRY(build_modules(c, q, texts, err));
    FLXI_TRY(find_functions(c, q, d, entries, err));
    return find_loops(c, q, c->modules + d->n, err);
}

static flx_code build(flxi_device_code *c, const flxi_compile_request *q, flx_error *err)
{
    division d;
    flxi_strbuf texts[2 * MOST_TEXTS];
    FLXI_TRY(flxi_card_of(q->ctx, &c->card, err));
    c->kernels = flxi_new(&c->arena, flxi_cuda_kernel, q->num_kernels);
    c->loops = flxi_new(&c->arena, flxi_cuda_loop, q->num_chains);
    if (!c->kernels || !c->loops)
        return flxi_oom(err, "kernels");
    FLXI_TRY(divide(q, &c->arena, &d, err));
    c->num_modules = d.n + loop_texts(q);
    if (c->num_modules == 0)
        return FLX_OK;
    for (size_t t = 0; t < c->num_modules; t++)
        flxi_strbuf_init(&texts[t], c->arena.mem);
    flx_code code = build_texts(c, q, &d, texts, err);
    for (size_t t = 0; t < c->num_modules; t++)
        flxi_strbuf_free(&texts[t]);
    return code;
}

static const flxi_card_kernel *kernel_at(const flxi_device_code *c, size_t i)
{
    return &c->kernels[i].of;
}

flx_code flxi_cuda_compile_program(const flxi_compile_request *q, flxi_kernel_code *kernels, flxi_device_code **out,
                                   flx_error *err)
{
    static const flxi_card_compiler by = {sizeof(flxi_device_code), build, kernel_at, flxi_cuda_free_code};
    return flxi_card_compile(&by, q, kernels, out, err);
}
