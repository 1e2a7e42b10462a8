/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_program.c: finished kernels: reference counts and queries. */
#include "kernel/program/kernel.h"

#include "base/context.h"
#include "base/options.h"
#include "base/text/count_words.h"

flx_kernel *flx_kernel_retain(flx_kernel *k)
{
    if (k)
        atomic_fetch_add_explicit(&k->holds, 1, memory_order_relaxed);
    return k;
}

void flx_kernel_release(flx_kernel *k)
{
    if (!k || atomic_fetch_sub_explicit(&k->holds, 1, memory_order_acq_rel) != 1)
        return;
    const flxi_allocator *mem = flxi_context_mem(k->ctx);
    flxi_arena_free(&k->arena);
    flxi_free(mem, k, 1, sizeof *k);
}

const flxi_allocator *flxi_kernel_mem(const flx_kernel *k)
{
    return flxi_context_mem(k->ctx);
}

const char *flx_kernel_name(const flx_kernel *k)
{
    return k ? k->name : "";
}

void flx_kernel_workgroup_size(const flx_kernel *k, uint32_t size[3])
{
    for (int a = 0; size && a < 3; a++)
        size[a] = k ? k->size[a] : 0;
}

size_t flx_kernel_buffer_count(const flx_kernel *k)
{
    return k ? k->num_buffers : 0;
}

flx_code flx_kernel_buffer_at(const flx_kernel *k, size_t i, flx_kernel_buffer *out)
{
    if (!k || !out || i >= k->num_buffers)
        return FLX_E_USAGE;
    const flxi_kbuffer *b = &k->buffers[i + 1];
    const flx_kernel_buffer full = {
        .struct_size = sizeof full,
        .flags = b->flags,
        .name = b->name,
        .access = b->access,
        .element = b->element,
        .count = b->count,
        .binding = b->binding,
        .usage = b->usage,
        .range_begin = b->range_begin,
        .range_end = b->range_end,
        .alignment = b->alignment,
        .locality = b->locality,
        .coalescing = b->coalescing,
        .predicates = b->predicates,
        .num_predicates = b->num_predicates,
        .descriptor = b->descriptor,
        .descriptor_size = b->descriptor_size,
    };
    return FLXI_FILL_OPTIONS(flx_kernel_buffer, out, &full, NULL);
}

uint32_t flxi_kernel_find_buffer(const flx_kernel *k, const char *name)
{
    for (uint32_t i = 1; i <= k->num_buffers; i++)
        if (strcmp(k->buffers[i].name, name) == 0)
            return i;
    return 0;
}

int flxi_kx_operands(const flxi_kx *e)
{
    switch ((flxi_kx_kind)e->kind) {
    case KX_LOAD:
    case KX_UNARY:
    case KX_CAST:
    case KX_BITCAST:
    case KX_SUBGROUP_ADD:
    case KX_SUBGROUP_BALLOT: return 1;
    case KX_BINARY:
    case KX_SUBGROUP_SHUFFLE: return 2;
    case KX_ATOMIC: return e->x[2] ? 3 : 2;
    case KX_SELECT:
    case KX_FMA: return 3;
    default: return 0;
    }
}

flx_code flxi_kernel_fail(flx_error *err, const char *code, const char *hint, const char *fmt, ...)
{
    char text[240];
    va_list args;
    va_start(args, fmt);
    flxi_format_va(text, sizeof text, fmt, args);
    va_end(args);
    return flxi_fail_hint(err, FLX_E_KERNEL, hint, "%s %.230s", code, text);
}
