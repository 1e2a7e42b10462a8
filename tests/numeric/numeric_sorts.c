/* SPDX-License-Identifier: Apache-2.0 */
/* numeric_sorts.c: sorts of positions and of keys: ordered, stable, and permutations whatever the comparison says. */
#include "numeric/merge_sort.h"
#include "numeric/radix_sort.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 3000 };

static bool before_by_key(void *user, int64_t a, int64_t b)
{
    const int *keys = user;
    return keys[a] < keys[b];
}

TEST(merge_sort_keeps_the_order_of_equal_keys)
{
    static const int64_t counts[] = {0, 1, 2, 3, 15, 16, 17, 100, 255, 1000};
    static int keys[1000];
    static int64_t v[1000], spare[1000];
    uint64_t state = test_seed();
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int64_t n = counts[c];
        for (int64_t i = 0; i < n; i++) {
            keys[i] = (int)(test_random(&state) % 7);
            v[i] = i;
        }
        const int64_t *sorted = flxi_sort_positions(v, spare, n, before_by_key, keys);
        CHECK(sorted == v || sorted == spare);
        for (int64_t i = 1; i < n; i++) {
            int before = keys[sorted[i - 1]], after = keys[sorted[i]];
            CHECK_MSG(before < after || (before == after && sorted[i - 1] < sorted[i]), "n %lld, position %lld",
                      (long long)n, (long long)i);
        }
    }
}

static bool before_by_chance(void *user, int64_t a, int64_t b)
{
    (void)a;
    (void)b;
    return test_random(user) & 1;
}

TEST(merge_sort_by_an_inconsistent_comparison_is_a_permutation)
{
    static int64_t v[501], spare[501];
    static bool seen[501];
    uint64_t state = test_seed();
    for (int64_t i = 0; i < 501; i++)
        v[i] = i;
    const int64_t *sorted = flxi_sort_positions(v, spare, 501, before_by_chance, &state);
    for (int64_t i = 0; i < 501; i++) {
        CHECK(sorted[i] >= 0 && sorted[i] < 501 && !seen[sorted[i]]);
        seen[sorted[i]] = true;
    }
}

/* Item i of an array of items of that kind, as a number. */
static uint64_t item(flxi_radix_kind kind, const void *items, int64_t i)
{
    return kind == FLXI_KEY_32 ? ((const uint32_t *)items)[i] : ((const uint64_t *)items)[i];
}

static void put_item(flxi_radix_kind kind, void *items, int64_t i, uint64_t value)
{
    if (kind == FLXI_KEY_32)
        ((uint32_t *)items)[i] = (uint32_t)value;
    else
        ((uint64_t *)items)[i] = value;
}

static void check_radix(flxi_radix_kind kind, int bits, int64_t n, flxi_pool *pool, int parts)
{
    static uint64_t items[MOST], spare[MOST];
    uint64_t state = test_seed() + (uint64_t)n, sum = 0;
    uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    for (int64_t i = 0; i < n; i++) {
        uint64_t key = test_random(&state) & mask;
        uint64_t value = kind == FLXI_PAIR_32 ? key << 32 | (uint64_t)i : key;
        put_item(kind, items, i, value);
        sum += value;
    }
    void *counts = malloc(flxi_radix_counts(parts) + 1);
    CHECK(counts);
    const flxi_radix r = {.kind = kind,
                          .bits = bits,
                          .items = items,
                          .spare = spare,
                          .n = n,
                          .counts = counts,
                          .pool = pool,
                          .parts = parts};
    const void *sorted = flxi_radix_sort(&r);
    CHECK(sorted == items || sorted == spare);
    for (int64_t i = 0; i < n; i++) {
        sum -= item(kind, sorted, i);
        /* Pairs with one key keep the order of their positions, so that they ascend as whole numbers. */
        CHECK_MSG(i == 0 || item(kind, sorted, i - 1) <= item(kind, sorted, i), "kind %d, %d bits, n %lld, at %lld",
                  (int)kind, bits, (long long)n, (long long)i);
    }
    CHECK_EQ_U64(sum, 0);
    free(counts);
}

TEST(radix_sort_orders_every_kind_of_item_in_any_number_of_parts)
{
    static const int64_t counts[] = {0, 1, 2, 255, 256, 257, MOST};
    static const struct {
        flxi_radix_kind kind;
        int bits;
    } rows[] = {{FLXI_KEY_32, 32}, {FLXI_KEY_32, 5},   {FLXI_KEY_64, 64},
                {FLXI_KEY_64, 33}, {FLXI_PAIR_32, 32}, {FLXI_PAIR_32, 3}};
    const flxi_allocator mem = {flxi_default_alloc, NULL};
    flxi_pool *pool = flxi_pool_new(&mem, 2);
    CHECK(pool);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            check_radix(rows[i].kind, rows[i].bits, counts[c], NULL, 1);
            check_radix(rows[i].kind, rows[i].bits, counts[c], pool, 3);
        }
    flxi_pool_free(pool);
}
