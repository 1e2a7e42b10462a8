/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_race.c: see kernel_race.h. */
#include "kernel/interpret/kernel_race.h"

#include "kernel/program/kernel_scalar.h"

#include <stdlib.h>

/* ---- Shadows ---- */

static uint32_t workgroup_of(const flxi_kdispatch *d, flxi_ktouch t)
{
    return (t.who - 1) / flxi_kernel_workgroup(d->kernel);
}

/* Whether the earlier access, in `interval` of its workgroup, is by another invocation and not ordered before `a`. */
static bool is_unordered(const flxi_kdispatch *d, const flxi_kaccess *a, flxi_ktouch earlier, uint32_t interval)
{
    if (earlier.who == 0 || earlier.who == a->touch.who)
        return false;
    return interval == a->interval || workgroup_of(d, earlier) != workgroup_of(d, a->touch);
}

static flxi_ktouch find_among(const flxi_kdispatch *d, const flxi_kaccess *a, const flxi_ktouches *few)
{
    for (int i = 0; i < 2; i++)
        if (is_unordered(d, a, few->at[i], few->interval))
            return few->at[i];
    return (flxi_ktouch){0};
}

/* The earlier access that `a` conflicts with, and its kind. */
static flxi_ktouch find_conflict(const flxi_kshadow *s, const flxi_kdispatch *d, const flxi_kaccess *a,
                                 flxi_ktouch_kind *kind)
{
    *kind = KTOUCH_STORE;
    if (is_unordered(d, a, s->store, s->interval))
        return s->store;
    for (int i = KTOUCH_LOAD; i <= KTOUCH_ATOMIC; i++) {
        if (a->kind == (flxi_ktouch_kind)i)
            continue; /* loads do not conflict with loads, nor atomics with atomics */
        *kind = (flxi_ktouch_kind)i;
        flxi_ktouch found = find_among(d, a, &s->few[i]);
        if (found.who)
            return found;
    }
    return (flxi_ktouch){0};
}

/* Two are enough: any later invocation differs from one of them. Two of different workgroups are unordered with all
   others for the rest of the epoch. */
static void add_touch(flxi_ktouches *few, const flxi_kdispatch *d, const flxi_kaccess *a)
{
    uint32_t group = workgroup_of(d, a->touch);
    flxi_ktouch *at = few->at;
    bool two_groups = at[1].who && workgroup_of(d, at[0]) != workgroup_of(d, at[1]);
    if (two_groups)
        return;
    if (at[0].who && workgroup_of(d, at[0]) != group) {
        at[1] = a->touch;
    } else if (!at[0].who || few->interval != a->interval) {
        at[0] = a->touch;
        at[1] = (flxi_ktouch){0};
        few->interval = a->interval;
    } else if (at[0].who != a->touch.who && !at[1].who) {
        at[1] = a->touch;
    }
}

static void record(flxi_kshadow *s, const flxi_kdispatch *d, const flxi_kaccess *a)
{
    if (a->kind == KTOUCH_STORE) {
        s->store = a->touch;
        s->interval = a->interval;
    } else {
        add_touch(&s->few[a->kind], d, a);
    }
}

/* ---- Reports ---- */

void flxi_krace_id(const flxi_kdispatch *d, uint64_t number, uint32_t id[3])
{
    const uint32_t *size = d->kernel->size;
    uint64_t local = number % flxi_kernel_workgroup(d->kernel);
    uint64_t group = number / flxi_kernel_workgroup(d->kernel);
    for (int a = 0; a < 3; a++) {
        id[a] = (uint32_t)(group % d->grid[a] * size[a] + local % size[a]);
        group /= d->grid[a];
        local /= size[a];
    }
}

typedef struct {
    char path[40];
    uint32_t id[3];
} described;

static described describe(const flxi_kdispatch *d, const flxi_kcode *code, flxi_ktouch t)
{
    described r;
    flxi_kcode_path(d->kernel, code->statements.at[t.statement], r.path, sizeof r.path);
    flxi_krace_id(d, t.who - 1, r.id);
    return r;
}

static const char *const verbs[] = {
    [KTOUCH_LOAD] = "loaded",
    [KTOUCH_ATOMIC] = "changed atomically",
    [KTOUCH_STORE] = "stored",
    [KTOUCH_ANY] = "accessed",
};

static flx_code report(const flxi_kdispatch *d, const flxi_kcode *code, const flxi_kaccess *a, flxi_ktouch earlier,
                       flxi_ktouch_kind kind, flx_error *err)
{
    bool promise = kind == KTOUCH_ANY;
    bool same_group = workgroup_of(d, earlier) == workgroup_of(d, a->touch);
    const char *hint = "separate them with a barrier, or make both atomic";
    if (promise)
        hint = "let only one invocation access each element, or drop `exclusive`";
    else if (!same_group)
        hint = "make both atomic, separate them with a grid barrier, or use two dispatches";
    described x = describe(d, code, earlier), y = describe(d, code, a->touch);
    flx_code failed = flxi_kernel_fail(
        err, promise ? "exclusive" : "race", hint,
        "%s'%.40s'[%llu] is %s by invocation [%u, %u, %u] at %s and %s by invocation [%u, %u, %u] at %s",
        promise ? "broken promise: " : "", d->kernel->buffers[a->buffer].name, (unsigned long long)a->index,
        verbs[kind], x.id[0], x.id[1], x.id[2], x.path, verbs[a->kind], y.id[0], y.id[1], y.id[2], y.path);
    flxi_at(err, "kernel %.60s: %s", d->kernel->name, y.path);
    return failed;
}

flx_code flxi_krace_access(flxi_kshadow *s, const flxi_kdispatch *d, const flxi_kcode *code, const flxi_kaccess *a,
                           flx_error *err)
{
    if (s->epoch != a->epoch) {
        flxi_ktouch owner = s->owner;
        *s = (flxi_kshadow){.epoch = a->epoch, .owner = owner};
    }
    flxi_ktouch_kind kind;
    flxi_ktouch earlier = find_conflict(s, d, a, &kind);
    if (earlier.who)
        return report(d, code, a, earlier, kind, err);
    if (d->kernel->buffers[a->buffer].flags & FLX_KERNEL_EXCLUSIVE) {
        if (s->owner.who && s->owner.who != a->touch.who)
            return report(d, code, a, s->owner, KTOUCH_ANY, err);
        s->owner = a->touch;
    }
    record(s, d, a);
    return FLX_OK;
}

/* ---- Distinct ---- */

typedef struct {
    uint64_t value, index;
} entry;

static int by_value(const void *x, const void *y)
{
    const entry *a = x, *b = y;
    if (a->value != b->value)
        return a->value < b->value ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static flx_code check_distinct(const flx_kernel *k, const flxi_kbuffer *b, const flxi_kbound *bound, flx_error *err)
{
    const flxi_allocator *mem = flxi_kernel_mem(k);
    entry *entries = flxi_alloc(mem, (size_t)bound->count, sizeof *entries);
    if (!entries)
        return flxi_oom(err, "checking a promise");
    for (uint64_t i = 0; i < bound->count; i++)
        entries[i] = (entry){flxi_kscalar_load(b->element, bound->data, i), i};
    qsort(entries, (size_t)bound->count, sizeof *entries, by_value);
    flx_code code = FLX_OK;
    for (uint64_t i = 1; i < bound->count && code == FLX_OK; i++)
        if (entries[i].value == entries[i - 1].value)
            code = flxi_kernel_fail(err, "distinct", "bind distinct indices, or drop `distinct`",
                                    "broken promise: '%.60s'[%llu] and [%llu] hold the same value", b->name,
                                    (unsigned long long)entries[i - 1].index, (unsigned long long)entries[i].index);
    flxi_free(mem, entries, (size_t)bound->count, sizeof *entries);
    return code;
}

flx_code flxi_krace_check_distinct(const flxi_kdispatch *d, bool written, flx_error *err)
{
    for (uint32_t i = 1; i <= d->kernel->num_buffers; i++) {
        const flxi_kbuffer *b = &d->kernel->buffers[i];
        bool is_written = b->access == FLX_KERNEL_WRITE || b->access == FLX_KERNEL_READ_WRITE;
        if ((b->flags & FLX_KERNEL_DISTINCT) && d->bound[i].data && is_written == written)
            FLXI_TRY(check_distinct(d->kernel, b, &d->bound[i], err));
    }
    return FLX_OK;
}
