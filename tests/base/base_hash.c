/* SPDX-License-Identifier: Apache-2.0 */
/* base_hash.c: the hash function's fixed values, the index and the string table. */
#include "test.h"

#include "base/hash.h"
#include "fault.h"

#include <stdio.h>

TEST(hash_has_its_published_values)
{
    /* FNV-1a test vectors; the values are part of file formats, so they must not change. */
    CHECK_EQ_U64(flxi_hash_bytes(FLXI_HASH_SEED, "", 0), UINT64_C(0xcbf29ce484222325));
    CHECK_EQ_U64(flxi_hash_bytes(FLXI_HASH_SEED, "a", 1), UINT64_C(0xaf63dc4c8601ec8c));
    CHECK_EQ_U64(flxi_hash_bytes(FLXI_HASH_SEED, "foobar", 6), UINT64_C(0x85944171f73967e8));
    unsigned char le[8] = {0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01};
    CHECK_EQ_U64(flxi_hash_u64(FLXI_HASH_SEED, UINT64_C(0x0123456789abcdef)), flxi_hash_bytes(FLXI_HASH_SEED, le, 8));
    CHECK_EQ_U64(flxi_hash_text(FLXI_HASH_SEED, "ab"), flxi_hash_bytes(FLXI_HASH_SEED, "ab", 3));
}

TEST(hash_index_finds_all_numbers_of_a_hash)
{
    fault f = {0};
    flxi_allocator mem = {fault_alloc, &f};
    flxi_index x = {0};
    uint32_t value;
    flxi_probe none = flxi_index_first(&x, 5);
    CHECK(!flxi_index_next(&x, &none, &value));
    /* 300 hashes, number i under hash i % 300; hash 0 and ~0 are ordinary. */
    for (uint32_t i = 0; i < 3000; i++)
        CHECK(flxi_index_add(&mem, &x, i % 300 == 299 ? UINT64_MAX : i % 300, i));
    for (uint32_t h = 0; h < 300; h++) {
        int found = 0;
        uint64_t hash = h == 299 ? UINT64_MAX : h;
        for (flxi_probe p = flxi_index_first(&x, hash); flxi_index_next(&x, &p, &value); found++)
            CHECK_EQ_U64(value % 300, h);
        CHECK_EQ_I64(found, 10);
    }
    for (flxi_probe p = flxi_index_first(&x, 12345); flxi_index_next(&x, &p, &value);)
        FAIL("found %u under a hash that was never added", value);
    flxi_index_free(&mem, &x);
    CHECK(fault_is_clean(&f));
}

TEST(hash_index_failure_keeps_what_was_there)
{
    for (size_t n = 1; n <= 8; n++) {
        fault f = {.fail_at = n, .forever = true};
        flxi_allocator mem = {fault_alloc, &f};
        flxi_index x = {0};
        uint32_t added = 0;
        while (added < 1000 && flxi_index_add(&mem, &x, added * UINT64_C(77), added))
            added++;
        CHECK(added < 1000);
        for (uint32_t i = 0; i < added; i++) {
            uint32_t value = UINT32_MAX;
            flxi_probe p = flxi_index_first(&x, i * UINT64_C(77));
            CHECK(flxi_index_next(&x, &p, &value) && value == i);
        }
        flxi_index_free(&mem, &x);
        CHECK(fault_is_clean(&f));
    }
}

TEST(intern_keeps_each_text_once)
{
    fault f = {0};
    flxi_allocator mem = {fault_alloc, &f};
    flxi_arena a;
    flxi_arena_init(&a, &mem);
    flxi_strings s = {.arena = &a};
    const char *first[500];
    for (int i = 0; i < 500; i++) {
        char text[32];
        int n = snprintf(text, sizeof text, "name%d", i);
        first[i] = flxi_intern(&s, text, (size_t)n);
        CHECK_EQ_STR(first[i], text);
    }
    for (int i = 0; i < 500; i++) {
        char text[32];
        int n = snprintf(text, sizeof text, "name%d", i);
        CHECK(flxi_intern(&s, text, (size_t)n) == first[i]);
    }
    CHECK(flxi_intern(&s, "name12", 5) == first[1]); /* only the given length counts */
    CHECK_EQ_STR(flxi_intern(&s, "", 0), "");
    CHECK(flxi_intern(&s, "x", 0) == flxi_intern(&s, "", 0));
    flxi_strings_free(&s);
    flxi_arena_free(&a);
    CHECK(fault_is_clean(&f));
}

TEST(intern_failure_is_null_and_leaves_the_table_sound)
{
    for (size_t n = 1; n <= 12; n++) {
        fault f = {.fail_at = n};
        flxi_allocator mem = {fault_alloc, &f};
        flxi_arena a;
        flxi_arena_init(&a, &mem);
        flxi_strings s = {.arena = &a};
        for (int i = 0; i < 300; i++) {
            char text[32];
            int k = snprintf(text, sizeof text, "%d", i);
            const char *p = flxi_intern(&s, text, (size_t)k);
            if (!p)
                p = flxi_intern(&s, text, (size_t)k); /* fails once only */
            CHECK_EQ_STR(p, text);
            CHECK(flxi_intern(&s, text, (size_t)k) == p);
        }
        CHECK_EQ_U64(f.failed, 1);
        flxi_strings_free(&s);
        flxi_arena_free(&a);
        CHECK(fault_is_clean(&f));
    }
}
