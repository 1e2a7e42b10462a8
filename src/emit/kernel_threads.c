/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_threads.c: the function of a kernel where each invocation is a thread of the device: CUDA C and OpenCL C.

   Its parameters are, in this order: which invocation it is, where the target wants that; a pointer and a length for
   each bound buffer, in order of declaration; the status if the kernel traps or requests another stage; the subgroup
   width for OpenCL with subgroups; the word that counts arrivals for CUDA with grid barriers. Statements follow
   unchanged: barriers, subgroup ops and returns are those of the device. */
#include "emit/kernel_writer.h"

static void write_parameters(flxi_kwriter *w)
{
    const flxi_kthreads *t = w->target->threads;
    const char *separator = "";
    if (t->place_parameter) {
        flxi_kw_addf(w, "\n    %s", t->place_parameter);
        separator = ",";
    }
    /* Invocations of subgroups read elements that others write, so nothing of theirs shares memory. */
    bool may_alias = w->file->may_alias && !w->uses_lanes;
    for (uint32_t i = 1; i <= w->k->num_buffers; i++) {
        if (!flxi_kw_is_bound(w, i))
            continue;
        flxi_kw_addf(w, "%s\n    %s%s%s *%s b%u, k_u32 n%u", separator, w->is_written[i] ? "" : "const ",
                     w->target->space[KADDRESS_STORAGE], flxi_ktext_element(w->target, w->k->buffers[i].element),
                     may_alias ? "" : t->restricts, i, i);
        separator = ",";
    }
    if (w->has_traps || w->has_indirect) {
        flxi_kw_addf(w, "%s\n    %sk_u32 *status", separator, w->target->space[KADDRESS_STORAGE]);
        separator = ",";
    }
    if (w->uses_lanes && t->lanes_parameter) {
        flxi_kw_addf(w, "%s\n    %s", separator, t->lanes_parameter);
        separator = ",";
    }
    if (w->has_grid_barrier)
        flxi_kw_addf(w, "%s\n    %sk_u32 *arrivals", separator, w->target->space[KADDRESS_STORAGE]);
}

static bool has_loop(flxi_klist list)
{
    bool has = false;
    for (size_t i = 0; i < list.n && !has; i++)
        has = list.at[i].kind == KS_LOOP || has_loop(list.at[i].body) || has_loop(list.at[i].other);
    return has;
}

/* So that neighbouring elements can be read and written as vectors. A compiler to which this is said forgets that
   nothing else is in that memory: threads that walk along rows of their own have no vectors, but must not wait for what
   they store before they load more. */
static void declare_alignment(flxi_kwriter *w)
{
    if (!w->file->may_alias && !w->uses_lanes && has_loop(w->k->body))
        return;
    for (uint32_t i = 1; w->file->aligns && i <= w->k->num_buffers; i++) {
        const flxi_kbuffer *b = &w->k->buffers[i];
        if (!flxi_kw_is_bound(w, i) || !b->count || flxi_ktype_bytes(b->element, b->count) % 16)
            continue;
        const char *element = flxi_ktext_element(w->target, b->element), *constant = w->is_written[i] ? "" : "const ";
        flxi_kw_line(w, "b%u = (%s%s *)__builtin_assume_aligned(b%u, 16);", i, constant, element, i);
    }
}

static bool is_shared(const flxi_kwriter *w, uint32_t buffer)
{
    return w->is_accessed[buffer] && flxi_kw_address(w, buffer) == KADDRESS_WORKGROUP;
}

/* Arrays that begin at multiples of 16 bytes. */
static size_t shared_bytes(const flxi_kwriter *w, uint32_t buffer)
{
    size_t each = flxi_ktype_bytes(w->k->buffers[buffer].element, 1);
    return (flxi_kw_array_count(w, buffer) * each + 15) / 16 * 16;
}

static size_t all_shared_bytes(const flxi_kwriter *w)
{
    size_t all = 0;
    for (uint32_t i = 1; i <= w->k->num_buffers; i++)
        all += is_shared(w, i) ? shared_bytes(w, i) : 0;
    return all;
}

static bool has_shared(const flxi_kwriter *w)
{
    return all_shared_bytes(w) > 0;
}

/* Those that are used; l is the linear local id. */
static void declare_ids(flxi_kwriter *w)
{
    static const char names[FLX_KERNEL_ID_COUNT] = {'i', 'w', 'l', 'q'};
    const flxi_kthreads *t = w->target->threads;
    const uint32_t *size = w->k->size;
    bool needs_linear = w->uses_lanes || has_shared(w);
    uint8_t used[FLX_KERNEL_ID_COUNT];
    memcpy(used, w->ids, sizeof used);
    used[FLX_KERNEL_WORKGROUP_ID] |= used[FLX_KERNEL_INVOCATION_ID];
    used[FLX_KERNEL_LOCAL_ID] |= (uint8_t)(used[FLX_KERNEL_INVOCATION_ID] | (needs_linear ? 7 : 0));
    for (unsigned i = FLX_KERNEL_WORKGROUP_ID; i < FLX_KERNEL_ID_COUNT; i++)
        for (unsigned a = 0; a < 3; a++)
            if (used[i] >> a & 1)
                flxi_kw_line(w, "const k_u32 %c%u = %s%c%s;", names[i], a, t->ids[i], t->axes[a], t->id_end);
    for (unsigned a = 0; a < 3; a++)
        if (used[FLX_KERNEL_INVOCATION_ID] >> a & 1)
            flxi_kw_line(w, "const k_u32 i%u = w%u * %uu + l%u;", a, a, size[a], a);
    if (needs_linear)
        flxi_kw_line(w, "const k_u32 l = (l2 * %uu + l1) * %uu + l0;", size[1], size[0]);
}

static void declare_lanes(flxi_kwriter *w)
{
    const flxi_kthreads *t = w->target->threads;
    uint32_t n = flxi_kernel_workgroup(w->k);
    if (!w->uses_lanes)
        return;
    flxi_kw_line(w, "const k_u32 size = %uu;", n);
    for (int i = 0; t->declare_lanes[i]; i++)
        flxi_kw_line(w, "%s", t->declare_lanes[i]);
    if (t->lanes_memory)
        flxi_kw_line(w, "%s[%u];", t->lanes_memory, n);
}

/* One array for all, whose size is given at the launch. */
static void declare_dynamic(flxi_kwriter *w)
{
    size_t at = 0;
    flxi_kw_line(w, "%s", w->target->threads->dynamic);
    for (uint32_t i = 1; i <= w->k->num_buffers; i++) {
        const char *element = flxi_ktext_element(w->target, w->k->buffers[i].element);
        if (!is_shared(w, i))
            continue;
        flxi_kw_line(w, "%s *const b%u = (%s *)(k_shared + %zu);", element, i, element, at);
        at += shared_bytes(w, i);
    }
    w->entry->dynamic_bytes = at;
}

static void declare_static(flxi_kwriter *w)
{
    for (uint32_t i = 1; i <= w->k->num_buffers; i++)
        if (is_shared(w, i))
            flxi_kw_line(w, "%s%s b%u[%lu];", w->target->threads->shared,
                         flxi_ktext_element(w->target, w->k->buffers[i].element), i,
                         (unsigned long)flxi_kw_array_count(w, i));
}

/* Workgroup memory: declared, and zeroed by all together where that can be observed. */
static void declare_shared(flxi_kwriter *w)
{
    const flxi_kthreads *t = w->target->threads;
    uint32_t n = flxi_kernel_workgroup(w->k);
    w->entry->dynamic_bytes = 0;
    if (t->dynamic && all_shared_bytes(w) > t->most_shared)
        declare_dynamic(w);
    else
        declare_static(w);
    if (w->file->writes_first)
        return;
    for (uint32_t i = 1; i <= w->k->num_buffers; i++)
        if (is_shared(w, i))
            flxi_kw_line(w, "for (k_u32 j = l; j < %luu; j += %uu) b%u[j] = 0;",
                         (unsigned long)flxi_kw_array_count(w, i), n, i);
    if (has_shared(w))
        flxi_kw_line(w, "%s", w->target->barrier);
}

void flxi_kw_write_threads(flxi_kwriter *w)
{
    const flxi_kthreads *t = w->target->threads;
    flxi_kw_restart(w);
    flxi_kw_addf(w, t->kernel, w->k->size[0], w->k->size[1], w->k->size[2]);
    flxi_kw_addf(w, "%s(", w->entry->name);
    write_parameters(w);
    flxi_kw_add(w, ")\n{\n");
    w->depth++;
    declare_alignment(w);
    declare_ids(w);
    declare_lanes(w);
    declare_shared(w);
    flxi_kw_declare_private(w);
    flxi_kw_list(w, w->k->body);
    flxi_kw_close(w);
}
