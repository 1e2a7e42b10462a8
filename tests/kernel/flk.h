/* SPDX-License-Identifier: Apache-2.0 */
/* flk.h: kernels from text, for tests. All of them share one context that lives as long as the program. */
#ifndef FLX_TEST_FLK_H
#define FLX_TEST_FLK_H

#include "test.h"

#include <fluxion/fluxion.h>
#include <fluxion/kernel.h>
#include <string.h>

/* The context of flk(); tests that count allocations create their own. */
static inline flx_context *flk_context(void)
{
    static flx_context *ctx;
    if (!ctx)
        ctx = flx_context_new(NULL);
    CHECK(ctx != NULL);
    return ctx;
}

static inline flx_kernel *flk_in(flx_context *ctx, const char *text)
{
    flx_error err = {0};
    flx_kernel *k = flx_kernel_parse(ctx, text, strlen(text), "t", &err);
    CHECK_MSG(k != NULL, "%s: %s (hint: %s) in\n%s", err.where, err.message, err.hint, text);
    return k;
}

/* The kernel of the text, which must be valid; free it with flx_kernel_release(). */
static inline flx_kernel *flk(const char *text)
{
    return flk_in(flk_context(), text);
}

/* Of these buffers the ones that a derivative knows, its own or those of the kernel it is of; `out` may be `m`. */
static inline size_t flk_known_memory(const flx_kernel_derived *d, const flx_kernel_memory *m, size_t n,
                                      flx_kernel_memory *out)
{
    size_t known = 0;
    for (size_t i = 0; i < n; i++) {
        bool is_known = false;
        flx_kernel_need need;
        for (size_t k = 0; !is_known && flx_kernel_derived_need(d, k, &need) == FLX_OK; k++)
            is_known = strcmp(need.buffer, m[i].buffer) == 0;
        if (is_known)
            out[known++] = m[i];
    }
    return known;
}

/* The kernel as text; free it with flx_buffer_free(). */
static inline flx_buffer flk_text(const flx_kernel *k)
{
    flx_error err = {0};
    flx_buffer out = {0};
    CHECK_OK(flx_kernel_print(k, &out, &err), &err);
    CHECK(out.data && strlen(out.data) == out.size);
    return out;
}

#endif
