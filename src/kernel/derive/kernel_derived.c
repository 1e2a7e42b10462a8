/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_derived.c: holds a derived kernel and runs it with the buffers that it needs. */
#include "kernel/derive/kernel_derived.h"

#include "base/half.h"
#include "base/number.h"

#include <stdio.h>

/* ---- The object ---- */

flx_kernel_derived *flxi_kernel_derived_new(const flx_kernel *forward, flx_error *err)
{
    const flxi_allocator *mem = flxi_kernel_mem(forward);
    flx_kernel_derived *d = flxi_alloc(mem, 1, sizeof *d);
    if (!d) {
        flxi_oom(err, "the derivative of a kernel");
        return NULL;
    }
    d->ctx = forward->ctx;
    flxi_arena_init(&d->arena, mem);
    d->forward = flx_kernel_retain((flx_kernel *)forward);
    return d;
}

void flx_kernel_derived_free(flx_kernel_derived *d)
{
    if (!d)
        return;
    const flxi_allocator *mem = flxi_kernel_mem(d->forward);
    for (size_t i = 0; i < d->kernels.n; i++)
        flx_kernel_release(d->kernels.at[i]);
    flxi_vec_free(mem, &d->kernels);
    flxi_vec_free(mem, &d->needs);
    flxi_vec_free(mem, &d->warnings);
    flx_kernel_release(d->counting);
    flxi_arena_free(&d->arena);
    flx_kernel_release(d->forward);
    flxi_free(mem, d, 1, sizeof *d);
}

bool flxi_kernel_derived_add_kernel(flx_kernel_derived *d, flx_kernel *k)
{
    if (flxi_push(flxi_kernel_mem(d->forward), &d->kernels, k))
        return true;
    flx_kernel_release(k);
    return false;
}

/* The length in human-readable form, also for the command line. */
static const char *length_text(flx_kernel_derived *d, const flxi_klength *l)
{
    char text[1400];
    int n = 0;
    if (l->forward)
        n = snprintf(text, sizeof text, "buf_len(%.1024s)", d->forward->buffers[l->forward].name);
    else
        n = snprintf(text, sizeof text, "%llu", (unsigned long long)l->slots);
    for (size_t i = 0; i < l->num_counters && n > 0 && (size_t)n < sizeof text; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, " * " FLXI_KERNEL_COUNTS "[%u]", l->counters[i] - 1);
    if (l->forward && l->slots > 1 && (size_t)n < sizeof text)
        n += snprintf(text + n, sizeof text - (size_t)n, " * %llu", (unsigned long long)l->slots);
    if (l->per_invocation && (size_t)n < sizeof text)
        n += snprintf(text + n, sizeof text - (size_t)n, " * invocations");
    size_t length = (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    return flxi_arena_text(&d->arena, text, length);
}

bool flxi_kernel_derived_add_need(flx_kernel_derived *d, const flxi_kneed *need)
{
    flxi_kneed kept = *need;
    kept.name = flxi_arena_text(&d->arena, need->name, strlen(need->name));
    kept.length.counters = flxi_dup(&d->arena, uint32_t, need->length.counters, need->length.num_counters);
    kept.length_text = length_text(d, &need->length);
    return kept.name && kept.length.counters && kept.length_text &&
           flxi_push(flxi_kernel_mem(d->forward), &d->needs, kept);
}

bool flxi_kernel_derived_warn(flx_kernel_derived *d, const char *text)
{
    for (size_t i = 0; i < d->warnings.n; i++)
        if (strcmp(d->warnings.at[i], text) == 0)
            return true;
    const char *kept = flxi_arena_text(&d->arena, text, strlen(text));
    return kept && flxi_push(flxi_kernel_mem(d->forward), &d->warnings, kept);
}

size_t flx_kernel_derived_count(const flx_kernel_derived *d)
{
    return d ? d->kernels.n : 0;
}

flx_kernel *flx_kernel_derived_kernel(const flx_kernel_derived *d, size_t i)
{
    return d && i < d->kernels.n ? d->kernels.at[i] : NULL;
}

flx_kernel *flx_kernel_derived_counting(const flx_kernel_derived *d)
{
    return d ? d->counting : NULL;
}

size_t flx_kernel_derived_need_count(const flx_kernel_derived *d)
{
    return d ? d->needs.n : 0;
}

flx_code flx_kernel_derived_need(const flx_kernel_derived *d, size_t i, flx_kernel_need *out)
{
    if (!d || !out || i >= d->needs.n)
        return FLX_E_USAGE;
    const flxi_kneed *n = &d->needs.at[i];
    *out = (flx_kernel_need){
        n->name, n->forward ? d->forward->buffers[n->forward].name : "", n->role, n->element, n->flags, n->length_text};
    return FLX_OK;
}

size_t flx_kernel_derived_warning_count(const flx_kernel_derived *d)
{
    return d ? d->warnings.n : 0;
}

const char *flx_kernel_derived_warning(const flx_kernel_derived *d, size_t i)
{
    return d && i < d->warnings.n ? d->warnings.at[i] : "";
}

/* ---- Memory of one run ---- */

typedef struct {
    const flx_kernel_derived *d;
    const flxi_allocator *mem;
    const flx_kernel_memory *given;
    size_t num_given;
    uint64_t invocations;
    uint32_t *counts; /* by loop - 1 */
    flxi_arena arena; /* memory that the caller did not provide */
    flx_error *err;
} runner;

static const flx_kernel_memory *given(const runner *r, const char *name)
{
    for (size_t i = 0; i < r->num_given; i++)
        if (strcmp(r->given[i].buffer, name) == 0)
            return &r->given[i];
    return NULL;
}

static uint64_t elements(uint32_t element, size_t bytes)
{
    uint32_t bits = element == FLX_BOOL ? 32 : flxi_ktype_of(element)->bits;
    return bits ? (uint64_t)bytes * 8 / bits : 0;
}

static bool forward_length(const runner *r, uint32_t forward, uint64_t *length);

/* "N", "N * invocations" or "buf_len(b)": the metadata of derived kernels gives the lengths of their own buffers. */
static bool read_length(const runner *r, const char *text, uint64_t *length)
{
    size_t n = strlen(text);
    if (strncmp(text, "buf_len(", 8) == 0 && text[n - 1] == ')') {
        const flx_kernel *k = r->d->forward;
        for (uint32_t i = 1; i <= k->num_buffers; i++)
            if (strlen(k->buffers[i].name) == n - 9 && memcmp(k->buffers[i].name, text + 8, n - 9) == 0)
                return forward_length(r, i, length);
        return false;
    }
    size_t digits = strspn(text, "0123456789");
    uint64_t number;
    if (!flxi_read_u64(text, digits, &number))
        return false;
    if (strcmp(text + digits, " * invocations") == 0)
        return !__builtin_mul_overflow(number, r->invocations, length);
    *length = number;
    return text[digits] == 0;
}

/* The metadata about the length of a buffer that the derivative added; NULL for a buffer of the user. */
static const char *own_length(const flx_kernel *k, const char *name)
{
    for (size_t i = 0; i < k->num_meta; i++)
        if (strncmp(k->meta[i].key, "length ", 7) == 0 && strcmp(k->meta[i].key + 7, name) == 0)
            return k->meta[i].value;
    return NULL;
}

static bool length_from_meta(const runner *r, const char *name, uint64_t *length)
{
    const char *text = own_length(r->d->forward, name);
    return text && read_length(r, text, length);
}

/* Elements of a forward buffer: declared, given, or those of its adjoint or tangent. */
static bool forward_length(const runner *r, uint32_t forward, uint64_t *length)
{
    const flxi_kbuffer *b = &r->d->forward->buffers[forward];
    const flx_kernel_memory *m = given(r, b->name);
    if (b->count) {
        *length = b->count;
        return true;
    }
    if (m) {
        *length = elements(b->element, m->size);
        return true;
    }
    for (size_t i = 0; i < r->d->needs.n; i++) {
        const flxi_kneed *n = &r->d->needs.at[i];
        if (n->forward == forward && n->length.slots == 1 && (m = given(r, n->name))) {
            *length = elements(n->element, m->size);
            return true;
        }
    }
    return length_from_meta(r, b->name, length);
}

static flx_code need_length(const runner *r, const flxi_kneed *n, uint64_t *length)
{
    uint64_t x = 1;
    bool fits = true;
    if (n->length.forward && !forward_length(r, n->length.forward, &x))
        return flxi_fail_hint(r->err, FLX_E_MISSING_INPUT, "bind memory to it",
                              "the length of buffer '%.100s' is unknown",
                              r->d->forward->buffers[n->length.forward].name);
    fits &= !__builtin_mul_overflow(x, n->length.slots, &x);
    for (size_t i = 0; i < n->length.num_counters; i++) {
        uint32_t count = r->counts[n->length.counters[i] - 1];
        fits &= !__builtin_mul_overflow(x, (uint64_t)(count ? count : 1), &x);
    }
    if (n->length.per_invocation)
        fits &= !__builtin_mul_overflow(x, r->invocations, &x);
    if (!fits || x > UINT32_MAX)
        return flxi_kernel_fail(r->err, "resource limit", "set a tape budget, or run the kernel on smaller pieces",
                                "buffer %.100s would have more than 2^32 elements", n->name);
    *length = x;
    return FLX_OK;
}

static void fill_ones(void *data, uint32_t element, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        switch (element) {
        case FLX_F64: ((double *)data)[i] = 1; break;
        case FLX_F32: ((float *)data)[i] = 1; break;
        case FLX_F16: ((uint16_t *)data)[i] = flxi_to_f16(1); break;
        case FLX_BF16: ((uint16_t *)data)[i] = flxi_to_bf16(1); break;
        default: break;
        }
}

/* New memory: a copy of the given data, ones, or zeros. */
static flx_code own_memory(runner *r, uint32_t element, uint64_t length, const flx_kernel_memory *from, bool ones,
                           flx_kernel_memory *out)
{
    size_t size = flxi_ktype_bytes(element, length);
    out->data = size == SIZE_MAX ? NULL : flxi_arena_alloc(&r->arena, size ? size : 1, 1, 16);
    if (!out->data)
        return flxi_oom(r->err, "the buffers of a derivative");
    out->size = size;
    if (from)
        memcpy(out->data, from->data, from->size < size ? from->size : size);
    else if (ones)
        fill_ones(out->data, element, length);
    return FLX_OK;
}

static flx_code missing(runner *r, const char *name)
{
    return flxi_fail_hint(r->err, FLX_E_MISSING_INPUT, "bind memory to it by name", "buffer '%.100s' has no memory",
                          name);
}

/* A forward buffer: the caller's memory, or a copy of it if the kernel writes it, or zeros if it starts at zero. */
static flx_code forward_memory(runner *r, uint32_t forward, bool is_written, flx_kernel_memory *out)
{
    const flxi_kbuffer *b = &r->d->forward->buffers[forward];
    const flx_kernel_memory *m = given(r, b->name);
    bool starts_zero = (b->flags & FLX_KERNEL_OUTPUT) != 0;
    uint64_t length = 0;
    if (m && !is_written) {
        *out = (flx_kernel_memory){out->buffer, m->data, m->size};
        return FLX_OK;
    }
    if (!m && !starts_zero && !own_length(r->d->forward, b->name))
        return missing(r, b->name);
    if (!forward_length(r, forward, &length))
        return missing(r, b->name);
    return own_memory(r, b->element, length, starts_zero ? NULL : m, false, out);
}

static flx_code memory_for(runner *r, const flxi_kneed *n, flx_kernel_memory *out)
{
    const flx_kernel_memory *m = given(r, n->name);
    uint64_t length = 0;
    *out = (flx_kernel_memory){.buffer = n->name};
    switch ((flx_kernel_role)n->role) {
    case FLX_KERNEL_PRIMAL:
        if ((n->flags & FLX_KERNEL_NEED_GIVEN) && !m)
            return missing(r, n->name);
        return forward_memory(r, n->forward, false, out);
    case FLX_KERNEL_SCRATCH: return forward_memory(r, n->forward, true, out);
    case FLX_KERNEL_RESULT: return forward_memory(r, n->forward, m == NULL, out);
    case FLX_KERNEL_COUNTER:
        if (!(n->flags & FLX_KERNEL_NEED_ZERO)) {
            out->data = r->counts;
            out->size = r->d->num_counters * sizeof *r->counts;
            return FLX_OK;
        }
        break;
    case FLX_KERNEL_TANGENT:
        if (!m && !(n->flags & FLX_KERNEL_NEED_ZERO))
            return missing(r, n->name);
        break;
    default: break;
    }
    FLXI_TRY(need_length(r, n, &length));
    bool wants_ones = n->role == FLX_KERNEL_COTANGENT;
    if (n->flags & FLX_KERNEL_NEED_ONES)
        return own_memory(r, n->element, length, NULL, true, out);
    if (!m || (n->flags & FLX_KERNEL_NEED_CONSUMED))
        return own_memory(r, n->element, length, m, wants_ones, out);
    if (m->size != flxi_ktype_bytes(n->element, length))
        return flxi_fail(r->err, FLX_E_SIZE, "buffer '%.100s' has %zu bytes, its forward buffer requires %zu", n->name,
                         m->size, flxi_ktype_bytes(n->element, length));
    if (n->flags & FLX_KERNEL_NEED_ZERO)
        memset(m->data, 0, m->size);
    *out = *m;
    return FLX_OK;
}

/* ---- Counting, then running ---- */

static flx_code run_counting(runner *r, const uint32_t grid[3], const flx_kernel_run_options *options)
{
    const flx_kernel *k = r->d->counting;
    flx_kernel_memory *memory = flxi_new(&r->arena, flx_kernel_memory, k->num_buffers + 1);
    if (!memory)
        return flxi_oom(r->err, "the buffers of a derivative");
    size_t n = 0;
    for (uint32_t i = 1; i <= k->num_buffers; i++) {
        const flxi_kbuffer *b = &k->buffers[i];
        if (!flxi_kbuffer_is_bound(b))
            continue;
        memory[n].buffer = b->name;
        uint32_t forward = flxi_kernel_find_buffer(r->d->forward, b->name);
        if (b->flags & FLX_KERNEL_OUTPUT) {
            memory[n].data = r->counts;
            memory[n].size = r->d->num_counters * sizeof *r->counts;
        } else {
            FLXI_TRY(forward_memory(r, forward, b->access == FLX_KERNEL_READ_WRITE, &memory[n]));
        }
        n++;
    }
    return flx_kernel_run(k, grid, memory, n, options, r->err);
}

static flx_code check_overflow(runner *r, const flx_kernel_memory *memory, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(memory[i].buffer, FLXI_KERNEL_OVERFLOW) != 0 || *(const uint32_t *)memory[i].data == 0)
            continue;
        return flxi_kernel_fail(r->err, "resource limit", "raise max_trips, or set it to 0 to count trips",
                                "a loop ran %u iterations, more than max_trips", *(const uint32_t *)memory[i].data);
    }
    return FLX_OK;
}

/* The tapes of loops whose lengths the derivation did not know. */
static flx_code check_budget(runner *r)
{
    const flx_kernel_derived *d = r->d;
    uint64_t bytes = 0;
    for (size_t i = 0; d->tape_budget && r->invocations && i < d->needs.n; i++) {
        const flxi_kneed *n = &d->needs.at[i];
        uint64_t length = 0;
        if (n->role != FLX_KERNEL_TAPE)
            continue;
        FLXI_TRY(need_length(r, n, &length));
        bytes += flxi_ktype_bytes(n->element, length) / r->invocations;
    }
    if (bytes <= d->tape_budget)
        return FLX_OK;
    return flxi_kernel_fail(r->err, "resource limit", "raise the tape budget, or run the kernel on smaller pieces",
                            "the reverse of '%.60s' needs %llu bytes of tape per invocation for loops of these "
                            "lengths; the budget is %llu",
                            d->forward->name, (unsigned long long)bytes, (unsigned long long)d->tape_budget);
}

/* The memory of one kernel of the sequence, by buffer. */
static size_t memory_of(const flx_kernel *k, const flx_kernel_memory *all, size_t n, flx_kernel_memory *out)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (flxi_kernel_find_buffer(k, all[i].buffer))
            out[count++] = all[i];
    return count;
}

static flx_code run_all(runner *r, const uint32_t grid[3], const flx_kernel_run_options *options)
{
    const flx_kernel_derived *d = r->d;
    r->counts = flxi_new(&r->arena, uint32_t, d->num_counters + 1);
    flx_kernel_memory *memory = flxi_new(&r->arena, flx_kernel_memory, d->needs.n + 1);
    flx_kernel_memory *own = flxi_new(&r->arena, flx_kernel_memory, d->needs.n + 1);
    if (!r->counts || !memory || !own)
        return flxi_oom(r->err, "the buffers of a derivative");
    if (d->counting)
        FLXI_TRY(run_counting(r, grid, options));
    FLXI_TRY(check_budget(r));
    for (size_t i = 0; i < d->needs.n; i++)
        FLXI_TRY(memory_for(r, &d->needs.at[i], &memory[i]));
    for (size_t i = 0; i < d->kernels.n; i++) {
        size_t n = memory_of(d->kernels.at[i], memory, d->needs.n, own);
        FLXI_TRY(flx_kernel_run(d->kernels.at[i], grid, own, n, options, r->err));
    }
    return check_overflow(r, memory, d->needs.n);
}

static bool is_needed(const flx_kernel_derived *d, const char *name)
{
    for (size_t i = 0; i < d->needs.n; i++)
        if (strcmp(d->needs.at[i].name, name) == 0)
            return true;
    return false;
}

static flx_code fail_unknown(const runner *r, const char *name)
{
    char shown[80], names[120] = "";
    size_t n = 0;
    for (size_t i = 0; i < r->d->needs.n && n < sizeof names - 1; i++)
        if (r->d->needs.at[i].role != FLX_KERNEL_TAPE && r->d->needs.at[i].role != FLX_KERNEL_ADJOINT)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", r->d->needs.at[i].name);
    flxi_fail(r->err, FLX_E_NAME, "the derivative of '%.60s' has no buffer '%s'", r->d->forward->name,
              flxi_printable(shown, sizeof shown, name, strlen(name)));
    flxi_hint(r->err, "it takes %s", names);
    return FLX_E_NAME;
}

/* Buffers of the forward kernel may be given, needed or not; all others must be needed. */
static flx_code check_given(const runner *r)
{
    const flx_kernel *k = r->d->forward;
    for (size_t i = 0; i < r->num_given; i++)
        if (!r->given[i].buffer)
            return flxi_fail(r->err, FLX_E_USAGE, "memory for the derivative of '%.60s' has no buffer name", k->name);
    for (size_t i = 0; i < r->num_given; i++) {
        const flx_kernel_memory *m = &r->given[i];
        uint32_t b = flxi_kernel_find_buffer(k, m->buffer);
        if (!is_needed(r->d, m->buffer) && (!b || !flxi_kbuffer_is_bound(&k->buffers[b])))
            return fail_unknown(r, m->buffer);
        if (given(r, m->buffer) != m)
            return flxi_fail(r->err, FLX_E_DUP_NAME, "buffer '%.100s' is bound twice", m->buffer);
        if (!m->data && m->size)
            return flxi_fail(r->err, FLX_E_USAGE, "buffer '%.100s': no memory given", m->buffer);
        if (b && k->buffers[b].count && m->size < flxi_ktype_bytes(k->buffers[b].element, k->buffers[b].count))
            return flxi_fail(r->err, FLX_E_SIZE, "buffer '%.100s' has %zu bytes, its declaration requires %zu",
                             m->buffer, m->size, flxi_ktype_bytes(k->buffers[b].element, k->buffers[b].count));
    }
    return FLX_OK;
}

static flx_code check_grid(const flx_kernel_derived *d, const uint32_t grid[3], uint64_t *invocations, flx_error *err)
{
    *invocations = 1;
    for (uint32_t a = 0; a < 3; a++) {
        uint64_t extent = (uint64_t)grid[a] * d->forward->size[a];
        if (__builtin_mul_overflow(*invocations, extent, invocations))
            return flxi_fail(err, FLX_E_SIZE, "the grid has too many invocations");
        if (d->lone_axes[a] && extent > 1)
            return flxi_kernel_fail(
                err, "grid", "use invocation_id of that axis in the kernel, or a grid of 1 along it",
                "the derivative of '%.80s' needs one invocation along axis %u", d->forward->name, a);
    }
    return FLX_OK;
}

flx_code flx_kernel_derived_run(const flx_kernel_derived *d, const uint32_t grid[3], const flx_kernel_memory *memory,
                                size_t num_memory, const flx_kernel_run_options *options, flx_error *err)
{
    flx_error local = {0};
    if (!d || !grid || (num_memory && !memory))
        return flxi_fail(err, FLX_E_USAGE, "flx_kernel_derived_run: an argument is NULL");
    runner r = {.d = d, .mem = flxi_kernel_mem(d->forward), .given = memory, .num_given = num_memory, .err = &local};
    flx_code code = check_grid(d, grid, &r.invocations, &local);
    flxi_arena_init(&r.arena, r.mem);
    if (code == FLX_OK)
        code = check_given(&r);
    if (code == FLX_OK)
        code = run_all(&r, grid, options);
    flxi_arena_free(&r.arena);
    if (err)
        *err = local;
    return code;
}
