/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_run.c: from the caller's memory to a checked dispatch, and to what runs it. */
#include "kernel/interpret/kernel_run.h"

#include "base/options.h"
#include "base/strbuf.h"
#include "kernel/check/kernel_check_buffer.h"
#include "kernel/check/kernel_validate.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Options ---- */

flx_code flxi_kernel_options(const flx_kernel_run_options *given, flx_kernel_run_options *o, flx_error *err)
{
    FLXI_TRY(FLXI_READ_OPTIONS(flx_kernel_run_options, o, given, err));
    if (o->flags & ~(uint32_t)(FLX_KERNEL_DETECT_RACES | FLX_KERNEL_CHECKED))
        return flxi_fail(err, FLX_E_USAGE, "unknown flags 0x%x in the options of a run", (unsigned)o->flags);
    if (o->schedule > FLX_KERNEL_SHUFFLED)
        return flxi_fail(err, FLX_E_USAGE, "schedule %u does not exist", (unsigned)o->schedule);
    if (o->subgroup_size > 32)
        return flxi_fail_hint(err, FLX_E_USAGE, "subgroup_ballot returns one bit per lane in a u32",
                              "subgroup size %u: at most 32", (unsigned)o->subgroup_size);
    if (!o->subgroup_size)
        o->subgroup_size = 32;
    if (!o->max_steps)
        o->max_steps = FLXI_KERNEL_MAX_STEPS;
    return FLX_OK;
}

static flx_code check_grid(const flx_kernel *k, const uint32_t grid[3], flx_error *err)
{
    for (int a = 0; a < 3; a++)
        if ((uint64_t)grid[a] * k->size[a] > UINT64_C(1) << 32)
            return flxi_fail_hint(err, FLX_E_SIZE, "use more axes, or several dispatches",
                                  "grid axis %d: %u workgroups of %u invocations exceed the range of u32 ids", a,
                                  (unsigned)grid[a], (unsigned)k->size[a]);
    return FLX_OK;
}

/* ---- Binding ---- */

static bool is_written(const flxi_kbuffer *b)
{
    return b->access == FLX_KERNEL_WRITE || b->access == FLX_KERNEL_READ_WRITE;
}

static flx_code fail_unknown(const flx_kernel *k, const char *name, flx_error *err)
{
    char shown[80], names[120] = "";
    size_t n = 0;
    for (uint32_t i = 1; i <= k->num_buffers && n < sizeof names - 1; i++)
        if (flxi_kbuffer_is_bound(&k->buffers[i]))
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", k->buffers[i].name);
    flxi_fail(err, FLX_E_NAME, "kernel '%.60s' has no buffer '%s'", k->name,
              flxi_printable(shown, sizeof shown, name, strlen(name)));
    flxi_hint(err, "it has %s", names[0] ? names : "none to bind");
    return FLX_E_NAME;
}

/* The number of elements, if the size of the memory determines it. */
static flx_code count_open(const flxi_kbuffer *b, size_t size, uint64_t *count, flx_error *err)
{
    size_t each = flxi_ktype_bytes(b->element, 1);
    bool is_packed = flxi_ktype_of(b->element)->bits == 4;
    *count = is_packed ? (uint64_t)size * 2 : size / each;
    if (size % each != 0)
        return flxi_fail_hint(err, FLX_E_SIZE, "bind a whole number of elements",
                              "buffer '%.60s': %zu bytes are not a whole number of %s elements of %zu bytes", b->name,
                              size, flxi_ktype_of(b->element)->name, each);
    if (!flxi_kpredicate_holds(b->predicates, b->num_predicates, *count))
        return flxi_kernel_fail(err, "K07", "bind as many elements as its declaration asks for",
                                "buffer '%.60s': %llu elements do not satisfy its condition", b->name,
                                (unsigned long long)*count);
    return FLX_OK;
}

static flx_code bind_one(const flx_kernel *k, const flx_kernel_memory *m, flxi_kbound *bound, uint8_t *seen,
                         flx_error *err)
{
    if (!m->buffer)
        return flxi_fail(err, FLX_E_USAGE, "memory for kernel '%.60s' has no buffer name", k->name);
    uint32_t i = flxi_kernel_find_buffer(k, m->buffer);
    const flxi_kbuffer *b = &k->buffers[i];
    if (!i)
        return fail_unknown(k, m->buffer, err);
    if (!flxi_kbuffer_is_bound(b))
        return flxi_fail_hint(err, FLX_E_USAGE, "do not bind it: the kernel allocates it",
                              "buffer '%.60s' is %s memory and cannot be bound", b->name,
                              flxi_kaccess_names[b->access]);
    if (seen[i])
        return flxi_fail(err, FLX_E_DUP_NAME, "buffer '%.60s' is bound twice", b->name);
    if (!m->data && m->size)
        return flxi_fail(err, FLX_E_USAGE, "buffer '%.60s': no memory given", b->name);
    seen[i] = 1;
    bound[i].data = m->data;
    if (b->count == 0)
        return count_open(b, m->size, &bound[i].count, err);
    size_t needed = flxi_ktype_bytes(b->element, b->count);
    if (m->size < needed)
        return flxi_fail_hint(err, FLX_E_SIZE, "bind memory as large as the declaration says",
                              "buffer '%.60s': %llu %s elements take %zu bytes, got %zu", b->name,
                              (unsigned long long)b->count, flxi_ktype_of(b->element)->name, needed, m->size);
    return FLX_OK;
}

static flx_code bind(const flx_kernel *k, const flx_kernel_memory *memory, size_t n, flxi_kbound *bound, uint8_t *seen,
                     flx_error *err)
{
    for (uint32_t i = 1; i <= k->num_buffers; i++)
        bound[i].count = k->buffers[i].count;
    for (size_t i = 0; i < n; i++)
        FLXI_TRY(bind_one(k, &memory[i], bound, seen, err));
    for (uint32_t i = 1; i <= k->num_buffers; i++)
        if (flxi_kbuffer_is_bound(&k->buffers[i]) && !seen[i])
            return flxi_fail_hint(err, FLX_E_MISSING_INPUT, "every bound buffer needs memory, including outputs",
                                  "buffer '%.60s' of kernel '%.60s' has no memory", k->buffers[i].name, k->name);
    return FLX_OK;
}

/* ---- Overlap ---- */

typedef struct {
    uintptr_t begin, end;
    uint32_t buffer;
} extent;

static int by_begin(const void *x, const void *y)
{
    const extent *a = x, *b = y;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* Of extents sorted by begin, one overlaps an earlier one if it begins before the largest end so far; tracked for all
   extents and for those that are written. */
static flx_code check_sorted(const flx_kernel *k, const extent *at, size_t n, flx_error *err)
{
    extent reach = {0}, written = {0};
    for (size_t i = 0; i < n; i++) {
        bool writes = is_written(&k->buffers[at[i].buffer]);
        const extent *other = writes ? &reach : &written;
        if (at[i].begin < other->end)
            return flxi_fail_hint(err, FLX_E_USAGE, "bind separate memory",
                                  "buffers '%.60s' and '%.60s' overlap, and '%.60s' is written",
                                  k->buffers[other->buffer].name, k->buffers[at[i].buffer].name,
                                  k->buffers[writes ? at[i].buffer : other->buffer].name);
        if (at[i].end > reach.end)
            reach = at[i];
        if (writes && at[i].end > written.end)
            written = at[i];
    }
    return FLX_OK;
}

static flx_code check_overlap(const flx_kernel *k, const flxi_kbound *bound, flx_error *err)
{
    const flxi_allocator *mem = flxi_kernel_mem(k);
    extent *at = flxi_alloc(mem, k->num_buffers, sizeof *at);
    if (!at)
        return flxi_oom(err, "a dispatch");
    size_t n = 0;
    for (uint32_t i = 1; i <= k->num_buffers; i++) {
        uintptr_t begin = (uintptr_t)bound[i].data;
        size_t size = flxi_ktype_bytes(k->buffers[i].element, bound[i].count);
        if (begin && size)
            at[n++] = (extent){begin, begin + size, i};
    }
    qsort(at, n, sizeof *at, by_begin);
    flx_code code = check_sorted(k, at, n, err);
    flxi_free(mem, at, k->num_buffers, sizeof *at);
    return code;
}

/* ---- The dispatch ---- */

flx_code flxi_kernel_report_stage(const flxi_kdispatch *d, const flxi_ks *s, flx_error *err)
{
    const flxi_kbuffer *b = &d->kernel->buffers[s->buffer];
    size_t size = flxi_ktype_bytes(b->element, d->bound[s->buffer].count);
    uint32_t grid[3];
    if (s->offset > size || size - s->offset < sizeof grid)
        return flxi_kernel_fail(err, "K49", "bind a larger buffer, or use a smaller offset",
                                "the three words of the next grid do not fit in '%.60s' at %llu", b->name,
                                (unsigned long long)s->offset);
    memcpy(grid, d->bound[s->buffer].data + s->offset, sizeof grid);
    return flxi_fail(err, FLX_OK, "the next stage has the grid [%u, %u, %u]", grid[0], grid[1], grid[2]);
}

static void clear_outputs(const flxi_kdispatch *d)
{
    for (uint32_t i = 1; i <= d->kernel->num_buffers; i++) {
        const flxi_kbuffer *b = &d->kernel->buffers[i];
        if ((b->flags & FLX_KERNEL_OUTPUT) && d->bound[i].data)
            memset(d->bound[i].data, 0, flxi_ktype_bytes(b->element, d->bound[i].count));
    }
}

static flx_code dispatch(flxi_kernel_runner run, flxi_kdispatch *d, const flx_kernel_memory *memory, size_t num_memory,
                         flx_error *err)
{
    const flxi_allocator *mem = flxi_kernel_mem(d->kernel);
    size_t n = d->kernel->num_buffers + 1;
    flxi_kbound *bound = flxi_alloc(mem, n, sizeof *bound);
    uint8_t *seen = flxi_alloc(mem, n, sizeof *seen);
    flx_code code = bound && seen ? FLX_OK : flxi_oom(err, "a dispatch");
    if (code == FLX_OK)
        code = bind(d->kernel, memory, num_memory, bound, seen, err);
    if (code == FLX_OK)
        code = check_overlap(d->kernel, bound, err);
    if (code == FLX_OK) {
        d->bound = bound;
        clear_outputs(d);
        code = run(d, err);
    }
    flxi_free(mem, bound, n, sizeof *bound);
    flxi_free(mem, seen, n, sizeof *seen);
    return code;
}

flx_code flxi_kernel_dispatch(const flx_kernel *k, const uint32_t grid[3], const flx_kernel_memory *memory,
                              size_t num_memory, const flx_kernel_run_options *options, flxi_kernel_runner run,
                              flx_error *err)
{
    flxi_kdispatch d = {.kernel = k, .options = *options};
    memcpy(d.grid, grid, sizeof d.grid);
    FLXI_TRY(flxi_kernel_check(k, err));
    FLXI_TRY(check_grid(k, grid, err));
    return dispatch(run, &d, memory, num_memory, err);
}
