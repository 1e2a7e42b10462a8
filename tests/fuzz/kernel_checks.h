/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_checks.h: what must hold for every kernel, however it was made: it is written and read back as bytes and, when
   it is valid, as text; passes and derivatives give valid kernels; a run ends, and optimising does not change its
   result. */
#ifndef FLX_FUZZ_KERNEL_CHECKS_H
#define FLX_FUZZ_KERNEL_CHECKS_H

#include "fuzz_checks.h"

#include "kernel/check/kernel_validate.h"

#include <fluxion/kernel.h>

/* ---- Reading back ---- */

static inline flx_buffer kernel_bytes(const flx_kernel *k)
{
    flx_error err = {0};
    flx_buffer bytes = {0};
    need(flx_kernel_encode(k, &bytes, &err) == FLX_OK);
    return bytes;
}

static inline void need_same(const flx_kernel *a, const flx_kernel *b)
{
    flx_buffer x = kernel_bytes(a);
    flx_buffer y = kernel_bytes(b);
    need(x.size == y.size && memcmp(x.data, y.data, x.size) == 0);
    flx_buffer_free(&x);
    flx_buffer_free(&y);
}

static inline void check_kernel_bytes(const flx_kernel *k)
{
    flx_error err = {0};
    flx_buffer bytes = kernel_bytes(k);
    flx_kernel *back = flx_kernel_decode(k->ctx, bytes.data, bytes.size, &err);
    need(back != NULL);
    need_same(k, back);
    uint64_t hash = 0;
    uint64_t other = 1;
    need(flx_kernel_hash(k, &hash, &err) == FLX_OK && flx_kernel_hash(back, &other, &err) == FLX_OK && hash == other);
    flx_kernel_release(back);
    flx_buffer_free(&bytes);
}

static inline void check_kernel_text(const flx_kernel *k)
{
    flx_error err = {0};
    flx_buffer once = {0};
    flx_buffer twice = {0};
    need(flx_kernel_print(k, &once, &err) == FLX_OK);
    flx_kernel *back = flx_kernel_parse(k->ctx, once.data, once.size, "printed", &err);
    need(back != NULL);
    need_same(k, back);
    need(flx_kernel_print(back, &twice, &err) == FLX_OK);
    need(once.size == twice.size && memcmp(once.data, twice.data, once.size) == 0);
    flx_buffer_free(&once);
    flx_buffer_free(&twice);
    flx_kernel_release(back);
}

/* A returned result: a valid kernel, or an error with a message. */
static inline void need_answer(const flx_kernel *k, const flx_error *err)
{
    flx_error other = {0};
    if (k)
        need(flxi_kernel_check(k, &other) == FLX_OK);
    else
        need(err->code != FLX_OK && err->code != FLX_E_INTERNAL && err->message[0]);
}

/* ---- Running ---- */

enum { MAX_BUFFERS = 8, MAX_BUFFER_BYTES = 512, OPEN_BYTES = 40, MAX_STEPS = 3000, MAX_INVOCATIONS = 32 };

typedef struct {
    flx_kernel_memory memory[MAX_BUFFERS];
    size_t n;
    unsigned char bytes[MAX_BUFFERS][MAX_BUFFER_BYTES];
} kernel_memory;

/* Memory with awkward contents for every bound buffer; 0 when the kernel is too large for a quick run. */
static inline int make_memory(const flx_kernel *k, kernel_memory *m)
{
    m->n = 0;
    if (flxi_kernel_workgroup(k) > MAX_INVOCATIONS)
        return 0;
    for (uint32_t i = 1; i <= k->num_buffers; i++) {
        const flxi_kbuffer *b = &k->buffers[i];
        size_t size = b->count ? flxi_ktype_bytes(b->element, b->count) : OPEN_BYTES;
        if (size > MAX_BUFFER_BYTES)
            return 0;
        if (b->access == FLX_KERNEL_WORKGROUP || b->access == FLX_KERNEL_PRIVATE)
            continue;
        if (m->n == MAX_BUFFERS)
            return 0;
        for (size_t at = 0; at < size; at++)
            m->bytes[m->n][at] = (unsigned char)(at % 7 == 3 ? 0xff : at % 4 == 0 ? at + i : at * i / 3);
        m->memory[m->n] = (flx_kernel_memory){b->name, m->bytes[m->n], size};
        m->n++;
    }
    return 1;
}

static const uint32_t kernel_grid[3] = {2, 1, 1};

static inline flx_code run_kernel(const flx_kernel *k, kernel_memory *m, uint32_t flags, uint32_t schedule)
{
    flx_error err = {0};
    flx_kernel_run_options options = {.struct_size = sizeof options,
                                      .flags = flags,
                                      .schedule = schedule,
                                      .subgroup_size = 4,
                                      .max_steps = MAX_STEPS};
    flx_code code = flx_kernel_run(k, kernel_grid, m->memory, m->n, &options, &err);
    need(code == FLX_OK || (code != FLX_E_INTERNAL && err.message[0]));
    return code;
}

/* The result of atomic float additions depends on the order of the invocations, which passes may change. */
static inline int is_exact(const flx_kernel *k)
{
    if (k->flags & (FLX_KERNEL_CONTRACT | FLX_KERNEL_REASSOCIATE | FLX_KERNEL_RECIPROCAL | FLX_KERNEL_FLUSH))
        return 0;
    for (uint32_t i = 1; i <= k->num_exprs; i++)
        if (k->exprs[i].kind == KX_ATOMIC || k->exprs[i].kind == KX_OPAQUE)
            return 0;
    return 1;
}

/* A kernel without races gives the same result under every schedule and after optimising. */
static inline void check_kernel_runs(const flx_kernel *k, const flx_kernel *optimised)
{
    static kernel_memory first;
    static kernel_memory second;
    if (!make_memory(k, &first) || run_kernel(k, &first, FLX_KERNEL_DETECT_RACES, FLX_KERNEL_FORWARD) != FLX_OK)
        return;
    static const uint32_t schedules[] = {FLX_KERNEL_REVERSE, FLX_KERNEL_INTERLEAVED, FLX_KERNEL_SHUFFLED};
    for (size_t s = 0; s < 4; s++) {
        const flx_kernel *other = s < 3 ? k : optimised;
        if (!other || !is_exact(k) || !make_memory(k, &second))
            continue;
        flx_code code = run_kernel(other, &second, 0, s < 3 ? schedules[s] : FLX_KERNEL_FORWARD);
        for (size_t i = 0; code == FLX_OK && i < first.n; i++)
            need(memcmp(first.bytes[i], second.bytes[i], first.memory[i].size) == 0);
    }
}

/* ---- Transforms ---- */

/* The first buffer of floats that is read, or written; NULL when there is none. */
static inline const char *float_buffer(const flx_kernel *k, int written)
{
    for (uint32_t i = 1; i <= k->num_buffers; i++) {
        const flxi_kbuffer *b = &k->buffers[i];
        int fits = written ? b->access == FLX_KERNEL_WRITE || b->access == FLX_KERNEL_READ_WRITE
                           : b->access == FLX_KERNEL_READ || b->access == FLX_KERNEL_UNIFORM;
        if (fits && flxi_ktype_is_float(b->element))
            return b->name;
    }
    return NULL;
}

static inline void check_derived(flx_kernel_derived *d, const flx_error *err)
{
    if (!d)
        need_answer(NULL, err);
    for (size_t i = 0; i < flx_kernel_derived_count(d); i++) {
        const flx_kernel *k = flx_kernel_derived_kernel(d, i);
        need_answer(k, err);
        check_kernel_bytes(k);
        check_kernel_text(k);
    }
    flx_kernel_derived_free(d);
}

static inline void check_derivatives(const flx_kernel *k)
{
    flx_error err = {0};
    const char *in = float_buffer(k, 0);
    const char *out = float_buffer(k, 1);
    if (!in || !out)
        return;
    flx_kernel_derived *d = flx_kernel_grad(k, &out, 1, &in, 1, NULL, &err);
    check_derived(d, &err);
    d = flx_kernel_jvp(k, &out, 1, &in, 1, NULL, &err);
    check_derived(d, &err);
}

enum { MAX_KERNEL_NODES = 300 }; /* limit for passes and transforms */

/* All checks, for a kernel that may be invalid. */
static inline void check_kernel(const flx_kernel *k)
{
    flx_error err = {0};
    check_kernel_bytes(k);
    if (flxi_kernel_check(k, &err) != FLX_OK) {
        flx_buffer text = {0};
        need(err.code == FLX_E_KERNEL && err.message[0] == 'K' && err.where[0] && err.hint[0]);
        flx_kernel_print(k, &text, NULL);
        flx_buffer_free(&text);
        return;
    }
    check_kernel_text(k);
    if (k->nodes > MAX_KERNEL_NODES)
        return;
    flx_kernel *optimised = flx_kernel_optimise(k, NULL, &err);
    need_answer(optimised, &err);
    if (optimised) {
        check_kernel_bytes(optimised);
        check_kernel_text(optimised);
    }
    check_kernel_runs(k, optimised);
    check_derivatives(k);
    flx_kernel_release(optimised);
}

#endif
