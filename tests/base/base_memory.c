/* SPDX-License-Identifier: Apache-2.0 */
/* base_memory.c: the allocator's arithmetic, arenas, growable arrays and string buffers, with and without failures. */
#include "test.h"

#include "base/memory.h"
#include "base/strbuf.h"
#include "fault.h"

#include <stdint.h>

static bool is_zero(const void *p, size_t n)
{
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++)
        if (b[i])
            return false;
    return true;
}

TEST(memory_sizes_are_checked)
{
    size_t out;
    CHECK(flxi_mul_size(3, 5, &out) && out == 15);
    CHECK(!flxi_mul_size(SIZE_MAX, 2, &out));
    CHECK(flxi_add_size(SIZE_MAX, 0, &out) && out == SIZE_MAX);
    CHECK(!flxi_add_size(SIZE_MAX, 1, &out));
}

TEST(memory_alloc_is_zeroed_and_refuses_overflow)
{
    fault f = {0};
    flxi_allocator mem = {fault_alloc, &f};
    int64_t *p = flxi_alloc(&mem, 100, sizeof *p);
    CHECK(p && is_zero(p, 100 * sizeof *p));
    flxi_free(&mem, p, 100, sizeof *p);
    void *none = flxi_alloc(&mem, 0, 8);
    CHECK(none);
    flxi_free(&mem, none, 0, 8);
    flxi_free(&mem, NULL, 5, 8);
    CHECK(!flxi_alloc(&mem, SIZE_MAX / 4, 8));
    CHECK(!flxi_alloc(&mem, SIZE_MAX, 1)); /* more than pointers can span */
    CHECK_EQ_U64(f.calls, 2);
    CHECK(fault_is_clean(&f));
}

/* ---- Arena ---- */

TEST(arena_pieces_are_zeroed_aligned_and_apart)
{
    fault f = {0};
    flxi_allocator mem = {fault_alloc, &f};
    flxi_arena a;
    flxi_arena_init(&a, &mem);
    unsigned char *last = NULL;
    for (size_t i = 0; i < 2000; i++) {
        size_t n = i * 7 % 61 + 1;
        size_t align = (size_t)1 << (i % 5);
        unsigned char *p = flxi_arena_alloc(&a, n, 1, align);
        CHECK(p && (uintptr_t)p % align == 0 && is_zero(p, n));
        CHECK(!last || *last == 0xaa);
        memset(p, 0xaa, n);
        last = p + n - 1;
    }
    CHECK_EQ_U64(a.held, f.live_bytes);
    double *big = flxi_new(&a, double, 1 << 20); /* larger than any ordinary block */
    CHECK(big && is_zero(big, sizeof(double) << 20));
    CHECK(!flxi_arena_alloc(&a, SIZE_MAX / 2, 8, 8));
    CHECK(!flxi_arena_alloc(&a, PTRDIFF_MAX, 1, 1));
    CHECK_EQ_STR(flxi_arena_text(&a, "abcdef", 3), "abc");
    CHECK_EQ_STR(flxi_arena_text(&a, NULL, 0), "");
    int source[3] = {1, 2, 3};
    int *copy = flxi_dup(&a, int, source, 3);
    CHECK(copy && copy[2] == 3);
    CHECK_EQ_U64(a.held, f.live_bytes);
    flxi_arena_free(&a);
    CHECK(fault_is_clean(&f));
}

TEST(arena_rewind_keeps_what_came_before)
{
    fault f = {0};
    flxi_allocator mem = {fault_alloc, &f};
    flxi_arena a;
    flxi_arena_init(&a, &mem);
    flxi_mark empty = flxi_arena_mark(&a);
    int *kept = flxi_new(&a, int, 10);
    CHECK(kept);
    for (int i = 0; i < 10; i++)
        kept[i] = i;
    flxi_mark mark = flxi_arena_mark(&a);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 1000; i++)
            CHECK(flxi_new(&a, int, 50));
        flxi_arena_rewind(&a, mark);
        for (int i = 0; i < 10; i++)
            CHECK_EQ_I64(kept[i], i);
        CHECK_EQ_U64(a.held, f.live_bytes);
    }
    int *again = flxi_new(&a, int, 10);
    CHECK(again && again != kept && is_zero(again, 10 * sizeof *again));
    flxi_arena_rewind(&a, empty);
    CHECK(f.live_blocks <= 1);
    int *first = flxi_new(&a, int, 10);
    CHECK(first && is_zero(first, 10 * sizeof *first));
    flxi_arena_free(&a);
    flxi_arena_free(&a); /* an empty one may be freed again */
    CHECK(fault_is_clean(&f));
}

TEST(arena_failure_leaves_it_usable)
{
    for (size_t n = 1; n <= 4; n++) {
        fault f = {.fail_at = n};
        flxi_allocator mem = {fault_alloc, &f};
        flxi_arena a;
        flxi_arena_init(&a, &mem);
        int failures = 0;
        for (int i = 0; i < 300; i++)
            failures += !flxi_arena_alloc(&a, 100, 1, 8);
        CHECK_EQ_I64(failures, 1);
        flxi_arena_free(&a);
        CHECK(fault_is_clean(&f));
    }
}

/* ---- Growable array ---- */

TEST(vec_grows_and_keeps_its_elements)
{
    fault f = {0};
    flxi_allocator mem = {fault_alloc, &f};
    FLXI_VEC(int64_t) v = {0};
    for (int64_t i = 0; i < 5000; i++)
        CHECK(flxi_push(&mem, &v, i * i));
    CHECK_EQ_U64(v.n, 5000);
    for (int64_t i = 0; i < 5000; i++)
        CHECK_EQ_I64(v.at[i], i * i);
    flxi_vec_free(&mem, &v);
    CHECK(!v.at && v.n == 0 && v.cap == 0);
    flxi_vec_free(&mem, &v);
    CHECK(fault_is_clean(&f));
}

TEST(vec_failure_keeps_what_was_there)
{
    for (size_t n = 1; n <= 6; n++) {
        fault f = {.fail_at = n, .forever = true};
        flxi_allocator mem = {fault_alloc, &f};
        FLXI_VEC(int) v = {0};
        int pushed = 0;
        while (pushed < 1000 && flxi_push(&mem, &v, pushed))
            pushed++;
        CHECK(pushed < 1000 && v.n == (size_t)pushed);
        for (int i = 0; i < pushed; i++)
            CHECK_EQ_I64(v.at[i], i);
        flxi_vec_free(&mem, &v);
        CHECK(fault_is_clean(&f));
    }
}

/* ---- String buffer ---- */

TEST(strbuf_collects_text_and_remembers_failure)
{
    for (size_t n = 0; n <= 4; n++) {
        fault f = {.fail_at = n};
        flxi_allocator mem = {fault_alloc, &f};
        flxi_strbuf b;
        flxi_strbuf_init(&b, &mem);
        for (int i = 0; i < 300; i++) {
            flxi_add_char(&b, 'x');
            flxi_addf(&b, "%d,", i % 10);
            flxi_add_text(&b, "ab");
            flxi_add_bytes(&b, NULL, 0);
        }
        if (n == 0) {
            CHECK(!b.failed && b.n == 300 * 5);
            CHECK(strlen(b.at) == b.n && memcmp(b.at + 5, "x1,ab", 5) == 0);
        }
        CHECK(b.failed == (f.failed > 0));
        flxi_strbuf_free(&b);
        flxi_strbuf_free(&b);
        CHECK(fault_is_clean(&f));
    }
}

TEST(strbuf_takes_pieces_of_any_length)
{
    fault f = {0};
    flxi_allocator mem = {fault_alloc, &f};
    flxi_strbuf b;
    flxi_strbuf_init(&b, &mem);
    flxi_addf(&b, "%511d", 1);
    flxi_addf(&b, "%512d", 2);
    flxi_addf(&b, "%6000d", 3);
    CHECK(!b.failed && b.n == 511 + 512 + 6000 && b.at[b.n] == 0 && b.at[510] == '1' && b.at[1022] == '2');
    CHECK(b.at[b.n - 1] == '3');
    flxi_strbuf_free(&b);
    CHECK(fault_is_clean(&f));
}

/* ---- The fault allocator itself ---- */

TEST(fault_counts_wrong_sizes_and_leaks)
{
    fault f = {0};
    char *p = fault_alloc(&f, NULL, 0, 10);
    CHECK(p && f.live_blocks == 1 && f.live_bytes == 10 && !fault_is_clean(&f));
    p = fault_alloc(&f, p, 9, 20);
    CHECK(p && f.errors == 1 && f.live_bytes == 20);
    p[20] = 1;
    fault_alloc(&f, p, 20, 0);
    CHECK(f.errors == 2 && f.live_blocks == 0 && f.calls == 2 && f.largest == 20);
    fault g = {.fail_at = 2};
    p = fault_alloc(&g, NULL, 0, 4);
    memcpy(p, "abc", 4);
    CHECK(!fault_alloc(&g, p, 4, 8));
    CHECK_EQ_STR(p, "abc"); /* the old block stays */
    p = fault_alloc(&g, p, 4, 8);
    CHECK_EQ_STR(p, "abc");
    fault_alloc(&g, p, 8, 0);
    CHECK(fault_is_clean(&g) && g.failed == 1);
}
