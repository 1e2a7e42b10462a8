/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_run.c: from the caller's memory to a checked dispatch, and to the device that runs it. */
#include "kernel/interpret/kernel_run.h"

#include "base/host/default_device.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "kernel/check/kernel_check_buffer.h"
#include "kernel/check/kernel_validate.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Devices ---- */

typedef struct {
    const char *name;
    flxi_kernel_runner run; /* NULL: known, but not in this build … */
    const char *reason;     /* … because of this */
} device;

static const device devices[] = {
#define KERNEL_DEVICE(name, runner) {#name, runner, ""},
#define KERNEL_NO_DEVICE(name, reason) {#name, NULL, reason},
#include "kernel/interpret/kernel_devices.def"
};

enum { num_devices = sizeof devices / sizeof devices[0] };

static flx_code find_device(const char *name, const device **found, flx_error *err)
{
    char shown[40], names[80] = "";
    *found = NULL;
    for (size_t i = 0; i < num_devices; i++) {
        *found = &devices[i];
        if (strcmp(devices[i].name, name) == 0)
            return devices[i].run ? FLX_OK
                                  : flxi_fail_hint(err, FLX_E_DEVICE, "run it with device ref", "device '%s': %s", name,
                                                   devices[i].reason);
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", devices[i].name);
    }
    flxi_fail(err, FLX_E_NAME, "there is no device '%s' for kernels",
              flxi_printable(shown, sizeof shown, name, strlen(name)));
    flxi_hint(err, "devices are %s", names);
    return FLX_E_NAME;
}

/* ---- Options ---- */

static flx_code complete_options(const flx_kernel_run_options *given, flx_kernel_run_options *o, flx_error *err)
{
    FLXI_TRY(FLXI_READ_OPTIONS(flx_kernel_run_options, o, given, err));
    if (o->flags & ~(uint32_t)(FLX_KERNEL_DETECT_RACES | FLX_KERNEL_CHECKED))
        return flxi_fail(err, FLX_E_USAGE, "unknown flags 0x%x in the options of a run", (unsigned)o->flags);
    if (o->schedule > FLX_KERNEL_SHUFFLED)
        return flxi_fail(err, FLX_E_USAGE, "there is no schedule %u", (unsigned)o->schedule);
    if (o->subgroup_size > 32)
        return flxi_fail_hint(err, FLX_E_USAGE, "subgroup_ballot has a bit per lane of a u32",
                              "subgroup size %u: at most 32", (unsigned)o->subgroup_size);
    if (!o->subgroup_size)
        o->subgroup_size = 32;
    if (!o->max_steps)
        o->max_steps = UINT64_C(1) << 33;
    return FLX_OK;
}

static flx_code check_grid(const flx_kernel *k, const uint32_t grid[3], flx_error *err)
{
    for (int a = 0; a < 3; a++)
        if ((uint64_t)grid[a] * k->size[a] > UINT64_C(1) << 32)
            return flxi_fail_hint(err, FLX_E_SIZE, "use more axes, or several dispatches",
                                  "grid axis %d: %u workgroups of %u invocations have no u32 ids", a, (unsigned)grid[a],
                                  (unsigned)k->size[a]);
    return FLX_OK;
}

/* What only the interpreter offers is run by it, unless another device is named. */
static const char *device_name(const flx_kernel_run_options *o)
{
    bool needs_interpreter = o->flags || o->schedule != FLX_KERNEL_FORWARD;
    return !o->device && needs_interpreter ? devices[0].name : flxi_device_or_default(o->device);
}

/* ---- Binding ---- */

static bool is_bound(const flxi_kbuffer *b)
{
    return b->access != FLX_KERNEL_WORKGROUP && b->access != FLX_KERNEL_PRIVATE;
}

static bool is_written(const flxi_kbuffer *b)
{
    return b->access == FLX_KERNEL_WRITE || b->access == FLX_KERNEL_READ_WRITE;
}

static flx_code fail_unknown(const flx_kernel *k, const char *name, flx_error *err)
{
    char shown[80], names[120] = "";
    size_t n = 0;
    for (uint32_t i = 1; i <= k->num_buffers && n < sizeof names - 1; i++)
        if (is_bound(&k->buffers[i]))
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", k->buffers[i].name);
    flxi_fail(err, FLX_E_NAME, "kernel '%.60s' has no buffer '%s'", k->name,
              flxi_printable(shown, sizeof shown, name, strlen(name)));
    flxi_hint(err, "it has %s", names[0] ? names : "none to bind");
    return FLX_E_NAME;
}

/* The number of elements, where the size of the memory decides it. */
static flx_code count_open(const flxi_kbuffer *b, size_t size, uint64_t *count, flx_error *err)
{
    size_t each = flxi_ktype_bytes(b->element, 1);
    bool packed = flxi_ktype_of(b->element)->bits == 4;
    *count = packed ? (uint64_t)size * 2 : size / each;
    if (size % each != 0)
        return flxi_fail_hint(err, FLX_E_SIZE, "give whole elements",
                              "buffer '%.60s': %zu bytes are no whole number of %s elements of %zu bytes", b->name,
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
        return flxi_fail(err, FLX_E_USAGE, "memory for kernel '%.60s' names no buffer", k->name);
    uint32_t i = flxi_kernel_find_buffer(k, m->buffer);
    const flxi_kbuffer *b = &k->buffers[i];
    if (!i)
        return fail_unknown(k, m->buffer, err);
    if (!is_bound(b))
        return flxi_fail_hint(err, FLX_E_USAGE, "leave it out: it has memory of its own",
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
        if (is_bound(&k->buffers[i]) && !seen[i])
            return flxi_fail_hint(err, FLX_E_MISSING_INPUT, "every bound buffer needs memory, outputs too",
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

/* Of extents in rising order one overlaps an earlier one if it begins before the largest end so far; kept for all, and
   for those that are written. */
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

/* Where the caller named no device, the interpreter runs what the default device cannot. */
static flx_code run_on(const device *on, flxi_kdispatch *d, flx_error *err)
{
    flx_error local = {0};
    clear_outputs(d);
    flx_code code = on->run(d, &local);
    if (!d->options.device && on != &devices[0] && (code == FLX_E_DEVICE || code == FLX_E_UNSUPPORTED)) {
        clear_outputs(d);
        return devices[0].run(d, err);
    }
    if (err && (code != FLX_OK || local.message[0])) /* a dispatch that succeeds may report its next stage */
        *err = local;
    return code;
}

static flx_code dispatch(const device *on, flxi_kdispatch *d, const flx_kernel_memory *memory, size_t num_memory,
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
        code = run_on(on, d, err);
    }
    flxi_free(mem, bound, n, sizeof *bound);
    flxi_free(mem, seen, n, sizeof *seen);
    return code;
}

flx_code flx_kernel_run(const flx_kernel *k, const uint32_t grid[3], const flx_kernel_memory *memory, size_t num_memory,
                        const flx_kernel_run_options *options, flx_error *err)
{
    const device *on;
    flxi_kdispatch d = {.kernel = k};
    if (!k || !grid || (num_memory && !memory))
        return flxi_fail(err, FLX_E_USAGE, "flx_kernel_run: %s is NULL",
                         !k      ? "the kernel"
                         : !grid ? "the grid"
                                 : "memory");
    memcpy(d.grid, grid, sizeof d.grid);
    FLXI_TRY(complete_options(options, &d.options, err));
    FLXI_TRY(find_device(device_name(&d.options), &on, err));
    if (on != &devices[0] && d.options.flags)
        return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "run it with device ref",
                              "device '%s' neither detects races nor checks arithmetic", on->name);
    FLXI_TRY(flxi_kernel_check(k, err));
    FLXI_TRY(check_grid(k, grid, err));
    return dispatch(on, &d, memory, num_memory, err);
}
