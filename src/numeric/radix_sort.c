/* SPDX-License-Identifier: Apache-2.0 */
/* radix_sort.c: see radix_sort.h. Each pass distributes the items by one digit of their keys, in order, so it is
   stable. Digits have 11 bits, 8 where items are too few to fill that many counters. A pass in which all digits are
   equal is left out: keys of a narrow range cost what their varying digits cost. Few items are sorted by insertion.

   With several parts, each counts its own digits and has its own offsets for each of them, after those of the parts
   before it: the result is that of one part. */
#include "numeric/radix_sort.h"

#include "base/host/stop.h"

#include <stdbool.h>
#include <string.h>

enum {
    WIDE = 11,
    NARROW = 8,
    FEW = 32,        /* items that are inserted */
    MANY = 6144,     /* items for which wide digits pay */
    PART = 1 << 15,  /* items for which a thread pays */
    MOST_PASSES = 8, /* of 64 bits */
    POLL = 1 << 16,  /* items between two questions whether to stop */
    PAGE = 1 << 12   /* bytes, at most those of a page */
};

size_t flxi_radix_item(flxi_radix_kind kind)
{
    return kind == FLXI_KEY_32 ? sizeof(uint32_t) : sizeof(uint64_t);
}

size_t flxi_radix_counts(int parts)
{
    size_t rows = parts > MOST_PASSES ? (size_t)parts : MOST_PASSES;
    return rows * ((size_t)1 << WIDE) * sizeof(uint64_t);
}

int flxi_radix_parts(int64_t n, int threads)
{
    int64_t parts = n / PART;
    return parts < 1 ? 1 : parts < threads ? (int)parts : threads;
}

typedef struct {
    const flxi_radix *r;
    const void *from;
    void *to;
    int shift, digit; /* of the key, in bits */
} pass;

static uint64_t *counts_of(const pass *p, int64_t part)
{
    return (uint64_t *)p->r->counts + (part << p->digit);
}

static int64_t part_begin(const flxi_radix *r, int64_t part)
{
    return r->n / r->parts * part + (part < r->n % r->parts ? part : r->n % r->parts);
}

#define KEY_ITSELF(x) (x)
#define KEY_UPPER(x) ((x) >> 32)

#define RADIX(suffix, T, KEY)                                                               \
    static void count_##suffix(const pass *p, int64_t begin, int64_t end, uint64_t *counts) \
    {                                                                                       \
        const T *v = p->from;                                                               \
        const unsigned mask = (1U << p->digit) - 1;                                         \
        for (int64_t i = begin; i < end; i++)                                               \
            counts[(unsigned)(KEY(v[i]) >> p->shift) & mask]++;                             \
    }                                                                                       \
    static void move_##suffix(const pass *p, int64_t begin, int64_t end, uint64_t *offsets) \
    {                                                                                       \
        const T *v = p->from;                                                               \
        T *to = p->to;                                                                      \
        const unsigned mask = (1U << p->digit) - 1;                                         \
        for (int64_t i = begin; i < end; i++)                                               \
            to[offsets[(unsigned)(KEY(v[i]) >> p->shift) & mask]++] = v[i];                 \
    }                                                                                       \
    static void insert_##suffix(const flxi_radix *r)                                        \
    {                                                                                       \
        T *v = r->items;                                                                    \
        for (int64_t i = 1; i < r->n; i++) {                                                \
            const T x = v[i];                                                               \
            int64_t k = i;                                                                  \
            for (; k > 0 && KEY(v[k - 1]) > KEY(x); k--)                                    \
                v[k] = v[k - 1];                                                            \
            v[k] = x;                                                                       \
        }                                                                                   \
    }
RADIX(k32, uint32_t, KEY_ITSELF)
RADIX(k64, uint64_t, KEY_ITSELF)
RADIX(p32, uint64_t, KEY_UPPER)

typedef void (*range_fn)(const pass *p, int64_t begin, int64_t end, uint64_t *counts);

static const struct {
    range_fn count, move;
    void (*insert)(const flxi_radix *r);
} loops[] = {
    [FLXI_KEY_32] = {count_k32, move_k32, insert_k32},
    [FLXI_KEY_64] = {count_k64, move_k64, insert_k64},
    [FLXI_PAIR_32] = {count_p32, move_p32, insert_p32},
};

/* False when the work is stopped. */
static bool each_range(range_fn fn, const pass *p, int64_t begin, int64_t end, uint64_t *counts)
{
    for (int64_t i = begin; i < end; i += POLL) {
        if (flxi_stopped())
            return false;
        fn(p, i, end - i < POLL ? end : i + POLL, counts);
    }
    return true;
}

/* Counts become first offsets. False when one digit has all items. */
static bool accumulate(uint64_t *counts, int64_t digits, uint64_t n)
{
    uint64_t sum = 0;
    for (int64_t d = 0; d < digits; d++) {
        uint64_t count = counts[d];
        if (count == n)
            return false;
        counts[d] = sum;
        sum += count;
    }
    return true;
}

static bool accumulate_parts(const pass *p)
{
    uint64_t sum = 0, n = (uint64_t)p->r->n;
    for (int64_t d = 0; d < (int64_t)1 << p->digit; d++) {
        uint64_t before = sum;
        for (int64_t part = 0; part < p->r->parts; part++) {
            uint64_t *count = &counts_of(p, part)[d], own = *count;
            *count = sum;
            sum += own;
        }
        if (sum - before == n)
            return false;
    }
    return true;
}

/* ---- One part ---- */

/* The order of items does not change how many have a digit, so all passes are counted at once. */
static void count_all(const flxi_radix *r, pass *p, int passes)
{
    memset(r->counts, 0, ((size_t)passes << p->digit) * sizeof(uint64_t));
    for (int64_t i = 0; i < r->n && !flxi_stopped(); i += POLL)
        for (int k = 0; k < passes; k++) {
            p->shift = k * p->digit;
            loops[r->kind].count(p, i, r->n - i < POLL ? r->n : i + POLL, counts_of(p, k));
        }
}

static bool sort_alone(const flxi_radix *r, pass *p, int passes)
{
    count_all(r, p, passes);
    for (int k = 0; k < passes; k++) {
        p->shift = k * p->digit;
        if (flxi_stopped())
            return false;
        if (!accumulate(counts_of(p, k), (int64_t)1 << p->digit, (uint64_t)r->n))
            continue;
        if (!each_range(loops[r->kind].move, p, 0, r->n, counts_of(p, k)))
            return false;
        void *sorted = p->to;
        p->to = (void *)(uintptr_t)p->from;
        p->from = sorted;
    }
    return true;
}

/* ---- Several parts ---- */

static void count_part(void *user, int64_t begin, int64_t end)
{
    const pass *p = user;
    for (int64_t part = begin; part < end; part++) {
        memset(counts_of(p, part), 0, ((size_t)1 << p->digit) * sizeof(uint64_t));
        each_range(loops[p->r->kind].count, p, part_begin(p->r, part), part_begin(p->r, part + 1), counts_of(p, part));
    }
}

static void move_part(void *user, int64_t begin, int64_t end)
{
    const pass *p = user;
    for (int64_t part = begin; part < end; part++)
        each_range(loops[p->r->kind].move, p, part_begin(p->r, part), part_begin(p->r, part + 1), counts_of(p, part));
}

static bool sort_parts(const flxi_radix *r, pass *p, int passes)
{
    for (int k = 0; k < passes; k++) {
        p->shift = k * p->digit;
        flxi_pool_run(r->pool, r->parts, 1, count_part, p);
        if (flxi_stopped())
            return false;
        if (!accumulate_parts(p))
            continue;
        flxi_pool_run(r->pool, r->parts, 1, move_part, p);
        if (flxi_stopped())
            return false;
        void *sorted = p->to;
        p->to = (void *)(uintptr_t)p->from;
        p->from = sorted;
    }
    return true;
}

/* The first move goes to places all over the spare items. Where these are new memory, the system clears most of it
   between two questions whether to stop; so pages are touched before, in order. */
static void touch_spare(const flxi_radix *r)
{
    char *spare = r->spare;
    int64_t n = r->n * (int64_t)flxi_radix_item(r->kind);
    for (int64_t i = 0; i < n && !flxi_stopped(); i += POLL)
        for (int64_t k = i; k < n && k < i + POLL; k += PAGE)
            spare[k] = 0;
}

void *flxi_radix_sort(const flxi_radix *r)
{
    if (r->n <= FEW) {
        loops[r->kind].insert(r);
        return r->items;
    }
    if (r->n > POLL)
        touch_spare(r);
    int widest = r->n < MANY ? NARROW : WIDE, passes = (r->bits + widest - 1) / widest;
    pass p = {.r = r, .from = r->items, .to = r->spare, .digit = (r->bits + passes - 1) / passes};
    bool is_done = r->parts > 1 ? sort_parts(r, &p, passes) : sort_alone(r, &p, passes);
    return is_done ? (void *)(uintptr_t)p.from : NULL;
}
