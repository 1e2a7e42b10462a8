/* SPDX-License-Identifier: Apache-2.0 */
/* sort_quick.c: the partitions in vectors give the order that digits give, for all lengths around those of the networks
   and for items that pivots divide badly. */
#include "backend/cpu/routes/sort/sort_quick.h"
#include "numeric/radix_sort.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 70000, MARGIN = 16 };

typedef uint64_t (*pattern_fn)(int64_t i, int64_t n, uint64_t *state);

static uint64_t random_item(int64_t i, int64_t n, uint64_t *state)
{
    (void)i;
    (void)n;
    return test_random(state);
}

static uint64_t few_values(int64_t i, int64_t n, uint64_t *state)
{
    (void)i;
    (void)n;
    return test_random(state) % 3 ? UINT64_MAX : test_random(state) % 4;
}

static uint64_t one_value(int64_t i, int64_t n, uint64_t *state)
{
    (void)i;
    (void)state;
    return (uint64_t)n;
}

static uint64_t falling(int64_t i, int64_t n, uint64_t *state)
{
    (void)state;
    return (uint64_t)(n - i) * UINT64_C(0x100000003);
}

static uint64_t rising_and_falling(int64_t i, int64_t n, uint64_t *state)
{
    (void)state;
    return (uint64_t)(i < n / 2 ? i : n - i);
}

/* Samples for pivots see the least items alone. */
static uint64_t hidden(int64_t i, int64_t n, uint64_t *state)
{
    return i % (n / 64 + 1) < 40 ? (uint64_t)i : test_random(state) | UINT64_C(1) << 63 | UINT64_C(1) << 31;
}

static void check(const flxi_quick *q, pattern_fn pattern, int64_t n, flxi_pool *pool)
{
    static uint64_t items[MOST + MARGIN], spare[MOST + MARGIN], expected[MOST], other[MOST];
    static char counts[1 << 18];
    uint64_t state = test_seed() + (uint64_t)n;
    CHECK(sizeof counts >= flxi_radix_counts(1));
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = pattern(i, n, &state);
        if (q->item == sizeof(uint32_t))
            ((uint32_t *)items)[i] = (uint32_t)(x & UINT32_MAX);
        else
            items[i] = x;
    }
    size_t bytes = (size_t)n * q->item;
    memset((char *)items + bytes, 0x5a, MARGIN);
    memset((char *)spare + bytes, 0x5a, MARGIN);
    memcpy(expected, items, bytes);
    const void *sorted = flxi_radix_sort(&(flxi_radix){.kind = q->item == 4 ? FLXI_KEY_32 : FLXI_KEY_64,
                                                       .bits = (int)q->item * 8,
                                                       .items = expected,
                                                       .spare = other,
                                                       .n = n,
                                                       .counts = counts,
                                                       .parts = 1});
    flxi_quick_sort(q, items, n, spare, pool);
    CHECK_MSG(!memcmp(items, sorted, bytes), "items of %zu bytes, %lld of them", q->item, (long long)n);
    for (int i = 0; i < MARGIN; i++)
        CHECK_MSG(((char *)items)[bytes + (size_t)i] == 0x5a && ((char *)spare)[bytes + (size_t)i] == 0x5a,
                  "written beyond %lld items", (long long)n);
}

TEST(quick_sort_gives_the_order_of_digits)
{
    static const pattern_fn patterns[] = {random_item, few_values, one_value, falling, rising_and_falling, hidden};
    static const int64_t counts[] = {0,   1,   2,   15,  17,  31,  64,  65,   127, 128,
                                     129, 255, 256, 257, 300, 511, 513, 4095, 5001};
    const flxi_allocator mem = {flxi_default_alloc, NULL};
    flxi_pool *pool = flxi_pool_new(&mem, 2);
    CHECK(pool);
    if (!flxi_quick_of(4))
        printf("   left out: the sort with vectors: this processor has no AVX-512\n");
    for (size_t item = 4; item <= 8; item += 4) {
        const flxi_quick *q = flxi_quick_of(item);
        for (size_t p = 0; q && p < sizeof patterns / sizeof *patterns; p++) {
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                check(q, patterns[p], counts[c], NULL);
            check(q, patterns[p], MOST, NULL);
            check(q, patterns[p], MOST, pool);
        }
    }
    flxi_pool_free(pool);
}
