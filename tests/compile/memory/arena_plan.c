/* SPDX-License-Identifier: Apache-2.0 */
/* Memory plans: what is live together never shares bytes, whatever the sizes and lifetimes, and little room is lost. */
#include "compile/memory/arena_plan.h"
#include "fault.h"
#include "test.h"

#include <stdlib.h>

static const flxi_allocator plain = {flxi_default_alloc, NULL};

static size_t rounded(size_t nbytes)
{
    return (nbytes + 63) / 64 * 64;
}

/* ---- What every plan must satisfy, by brute force ---- */

static void check_offsets(const flxi_interval *v, size_t n, const flxi_arena_size *size)
{
    size_t end = 0;
    for (size_t i = 0; i < n; i++) {
        CHECK(v[i].offset % 64 == 0);
        CHECK_MSG(v[i].nbytes || v[i].offset == 0, "interval %zu has no bytes but offset %zu", i, v[i].offset);
        CHECK_MSG(v[i].offset + v[i].nbytes <= size->bytes, "interval %zu ends at %zu, the arena at %zu", i,
                  v[i].offset + v[i].nbytes, size->bytes);
        if (v[i].nbytes && v[i].offset + rounded(v[i].nbytes) > end)
            end = v[i].offset + rounded(v[i].nbytes);
    }
    CHECK_EQ_U64(size->bytes, end);
}

static void check_overlaps(const flxi_interval *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++) {
            bool together = v[i].from <= v[k].to && v[k].from <= v[i].to;
            bool share = v[i].offset < v[k].offset + v[k].nbytes && v[k].offset < v[i].offset + v[i].nbytes;
            CHECK_MSG(!together || !share || !v[i].nbytes || !v[k].nbytes, "intervals %zu and %zu share bytes", i, k);
        }
}

/* The most that is live at one step: it is reached where some interval begins. */
static size_t most_live(const flxi_interval *v, size_t n)
{
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
        size_t live = 0;
        for (size_t k = 0; k < n; k++)
            if (v[k].from <= v[i].from && v[i].from <= v[k].to)
                live += rounded(v[k].nbytes);
        most = live > most ? live : most;
    }
    return most;
}

/* Plans and checks everything; the ratio of the size to its lower bound. */
static double check_plan(flxi_interval *v, size_t n)
{
    flx_error err;
    flxi_arena_size size;
    CHECK_OK(flxi_plan_arena(&plain, v, n, &size, &err), &err);
    check_offsets(v, n, &size);
    check_overlaps(v, n);
    CHECK_EQ_U64(size.max_live, most_live(v, n));
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += rounded(v[i].nbytes);
    CHECK(size.bytes <= sum && size.bytes >= size.max_live);
    return size.max_live ? (double)size.bytes / (double)size.max_live : 1.0;
}

/* ---- Random sets ---- */

typedef enum { CHAIN, GRAPH, TRAINING, CLOUD, TINY, KIND_COUNT } set_kind;

/* Lifetimes as they come from an inference, a graph with skips, a training step, and no program at all. */
static void fill(flxi_interval *v, size_t n, set_kind kind, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++) {
        size_t nbytes = (size_t)256 << test_random(seed) % 14;
        nbytes += test_random(seed) % nbytes;
        uint32_t at = (uint32_t)i;
        uint64_t life = 1 + test_random(seed) % 8;
        if (kind == GRAPH && test_random(seed) % 3 == 0)
            life = test_random(seed) % 200;
        if (kind == TRAINING && i < n / 2 && test_random(seed) % 2)
            life = 2 * (n / 2 - i);
        if (kind == CLOUD || kind == TINY) {
            at = (uint32_t)(test_random(seed) % n);
            life = test_random(seed) % n;
        }
        if (kind == TINY)
            nbytes = test_random(seed) % 200;
        v[i] = (flxi_interval){.nbytes = nbytes, .from = at, .to = at + (uint32_t)life};
    }
}

TEST(arena_plan_of_random_sets_is_valid)
{
    enum { MOST = 60 };
    flxi_interval v[MOST];
    uint64_t seed = test_seed();
    for (int round = 0; round < 5000; round++) {
        size_t n = test_random(&seed) % (MOST + 1);
        set_kind kind = (set_kind)(test_random(&seed) % KIND_COUNT);
        test_fail_context("round %d, %zu intervals, kind %d", round, n, (int)kind);
        fill(v, n, kind, &seed);
        check_plan(v, n);
    }
}

TEST(arena_plan_of_random_graphs_is_near_the_lower_bound)
{
    enum { COUNT = 800, ROUNDS = 8 };
    uint64_t seed = test_seed();
    flxi_interval *v = calloc(COUNT, sizeof *v);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        double sum = 0;
        for (int round = 0; round < ROUNDS; round++) {
            test_fail_context("kind %d, round %d", kind, round);
            fill(v, COUNT, (set_kind)kind, &seed);
            sum += check_plan(v, COUNT);
        }
        CHECK_MSG(sum / ROUNDS <= 1.10, "the mean ratio is %.3f", sum / ROUNDS);
    }
    free(v);
}

/* ---- Large sets: the fits run out of their allowance, the rest is swept ---- */

/* Validity of many intervals: at each step in turn, what is live is in order of offset and does not overlap. The live
   ones are kept in a list by offset, so this is independent of how the planner looks for gaps. */
static int by_from(const void *x, const void *y)
{
    const flxi_interval *p = x;
    const flxi_interval *q = y;
    return p->from < q->from ? -1 : p->from > q->from;
}

static void check_sweep(flxi_interval *v, size_t n)
{
    size_t *live = calloc(n, sizeof *live);
    size_t count = 0;
    qsort(v, n, sizeof *v, by_from);
    for (size_t i = 0; i < n; i++) {
        size_t kept = 0;
        size_t at = 0; /* the first that lies above interval i */
        for (size_t k = 0; k < count; k++) {
            if (v[live[k]].to < v[i].from)
                continue;
            live[kept++] = live[k];
            if (v[live[k]].offset < v[i].offset)
                at = kept;
        }
        count = kept;
        if (!v[i].nbytes)
            continue;
        if (at > 0)
            CHECK(v[live[at - 1]].offset + v[live[at - 1]].nbytes <= v[i].offset);
        if (at < count)
            CHECK(v[i].offset + v[i].nbytes <= v[live[at]].offset);
        memmove(&live[at + 1], &live[at], (count - at) * sizeof *live);
        live[at] = i;
        count++;
    }
    free(live);
}

static void check_large(set_kind kind, size_t n, double most)
{
    uint64_t seed = test_seed();
    flx_error err;
    flxi_arena_size size;
    flxi_interval *v = calloc(n, sizeof *v);
    test_fail_context("kind %d, %zu intervals", (int)kind, n);
    fill(v, n, kind, &seed);
    CHECK_OK(flxi_plan_arena(&plain, v, n, &size, &err), &err);
    check_offsets(v, n, &size);
    double ratio = (double)size.bytes / (double)size.max_live;
    CHECK_MSG(ratio <= most, "the ratio is %.3f", ratio);
    check_sweep(v, n);
    free(v);
}

TEST(arena_plan_of_twenty_thousand_intervals)
{
    for (int kind = 0; kind < KIND_COUNT; kind++)
        check_large((set_kind)kind, 20000, 1.10);
}

TEST(arena_plan_of_a_hundred_thousand_intervals)
{
    check_large(GRAPH, 100000, 1.25);
    check_large(CHAIN, 100000, 1.25);
}

/* ---- Special sets ---- */

TEST(arena_plan_of_nothing)
{
    flx_error err;
    flxi_arena_size size = {1, 1};
    CHECK_OK(flxi_plan_arena(&plain, NULL, 0, &size, &err), &err);
    CHECK_EQ_U64(size.bytes, 0);
    CHECK_EQ_U64(size.max_live, 0);
    flxi_interval none[] = {{.nbytes = 0, .from = 0, .to = 9, .offset = 77},
                            {.nbytes = 0, .from = 3, .to = 3, .offset = 5}};
    CHECK_OK(flxi_plan_arena(&plain, none, 2, &size, &err), &err);
    CHECK_EQ_U64(size.bytes, 0);
    CHECK_EQ_U64(none[0].offset, 0);
    CHECK_EQ_U64(none[1].offset, 0);
}

/* A step's operands and results are live together: intervals that touch at one step overlap. */
TEST(arena_plan_keeps_touching_intervals_apart)
{
    flxi_interval v[] = {
        {.nbytes = 100, .from = 0, .to = 1}, {.nbytes = 100, .from = 1, .to = 2}, {.nbytes = 100, .from = 2, .to = 3}};
    flx_error err;
    flxi_arena_size size;
    check_plan(v, 3);
    CHECK_OK(flxi_plan_arena(&plain, v, 3, &size, &err), &err);
    CHECK_EQ_U64(size.bytes, 256);
}

TEST(arena_plan_of_one_step_is_the_sum)
{
    flxi_interval v[40];
    for (size_t i = 0; i < 40; i++)
        v[i] = (flxi_interval){.nbytes = 64 * (i + 1), .from = 7, .to = 7};
    CHECK(check_plan(v, 40) == 1.0);
}

/* The last step of the counter must not be lost to an overflow. */
TEST(arena_plan_reaches_the_last_step)
{
    flxi_interval v[] = {{.nbytes = 64, .from = 0, .to = UINT32_MAX},
                         {.nbytes = 128, .from = UINT32_MAX, .to = UINT32_MAX},
                         {.nbytes = 256, .from = 0, .to = UINT32_MAX - 1}};
    CHECK(check_plan(v, 3) == 1.0);
}

/* Sizes double while lifetimes nest and alternate: the sets on which fits in order of time waste the most. */
TEST(arena_plan_of_adversarial_sets)
{
    enum { COUNT = 48 };
    flxi_interval v[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) /* a growing buffer, each copied into the next */
        v[i] = (flxi_interval){.nbytes = (size_t)64 << i / 2, .from = i, .to = i + 1};
    CHECK(check_plan(v, COUNT) == 1.0);
    for (uint32_t i = 0; i < COUNT; i++) /* nested: the outermost is the smallest */
        v[i] = (flxi_interval){.nbytes = 64 * (size_t)(i + 1), .from = i, .to = 2 * COUNT - i};
    CHECK(check_plan(v, COUNT) == 1.0);
    for (uint32_t i = 0; i < COUNT; i++) /* small ones stay between large ones that go */
        v[i] = (flxi_interval){.nbytes = i % 2 ? 64 : 4096, .from = i, .to = i % 2 ? COUNT : i + 1};
    CHECK(check_plan(v, COUNT) <= 1.10);
    for (uint32_t i = 0; i < COUNT; i++) /* stairs up and down */
        v[i] = (flxi_interval){.nbytes = 64 * (size_t)(1 + i % 7), .from = i, .to = i + 1 + i % 5};
    CHECK(check_plan(v, COUNT) <= 1.10);
}

TEST(arena_plan_is_deterministic)
{
    enum { COUNT = 500 };
    uint64_t seed = test_seed();
    flxi_interval *v = calloc(2 * (size_t)COUNT, sizeof *v);
    fill(v, COUNT, GRAPH, &seed);
    memcpy(v + COUNT, v, COUNT * sizeof *v);
    check_plan(v, COUNT);
    for (size_t i = COUNT; i < 2 * (size_t)COUNT; i++)
        v[i].offset = 1000 + i; /* what was there before does not count */
    check_plan(v + COUNT, COUNT);
    CHECK(memcmp(v, v + COUNT, COUNT * sizeof *v) == 0);
    free(v);
}

/* ---- Failures ---- */

TEST(arena_plan_reports_sizes_that_overflow)
{
    flx_error err;
    flxi_arena_size size;
    flxi_interval one[] = {{.nbytes = SIZE_MAX, .from = 0, .to = 1}};
    CHECK_CODE(flxi_plan_arena(&plain, one, 1, &size, &err), FLX_E_SIZE, &err);
    flxi_interval many[100];
    for (uint32_t i = 0; i < 100; i++) /* the sum of all wraps to a small number */
        many[i] = (flxi_interval){.nbytes = SIZE_MAX / 4 + 1, .from = 0, .to = i, .offset = 9};
    CHECK_CODE(flxi_plan_arena(&plain, many, 100, &size, &err), FLX_E_SIZE, &err);
    for (uint32_t i = 0; i < 100; i++)
        CHECK_EQ_U64(many[i].offset, 9);
}

/* Each alone nearly fills the address space; in turn they fit. */
TEST(arena_plan_reuses_the_whole_address_space)
{
    flx_error err;
    flxi_arena_size size;
    flxi_interval v[100];
    for (uint32_t i = 0; i < 100; i++)
        v[i] = (flxi_interval){.nbytes = SIZE_MAX - 127, .from = i, .to = i};
    CHECK_OK(flxi_plan_arena(&plain, v, 100, &size, &err), &err);
    CHECK_EQ_U64(size.bytes, SIZE_MAX - 127);
}

/* What is live fits, but not every order of placing does: a plan that leaves the address space is given up. */
TEST(arena_plan_gives_up_plans_that_overflow)
{
    enum { COUNT = 30 };
    flx_error err;
    flxi_interval v[COUNT];
    uint64_t seed = test_seed();
    int planned = 0;
    for (int round = 0; round < 500; round++) {
        test_fail_context("round %d", round);
        fill(v, COUNT, CLOUD, &seed);
        size_t scale = SIZE_MAX / most_live(v, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            v[i].nbytes = rounded(v[i].nbytes) * scale / 64 * 64;
        flxi_arena_size size;
        flx_code code = flxi_plan_arena(&plain, v, COUNT, &size, &err);
        if (code == FLX_OK) {
            check_offsets(v, COUNT, &size);
            check_overlaps(v, COUNT);
            planned++;
        } else {
            CHECK_CODE(code, FLX_E_SIZE, &err);
        }
    }
    CHECK(planned > 0 && planned < 500);
}

TEST(arena_plan_rejects_an_interval_that_ends_before_it_begins)
{
    flx_error err;
    flxi_arena_size size;
    flxi_interval v[] = {{.nbytes = 8, .from = 0, .to = 1}, {.nbytes = 8, .from = 5, .to = 4}};
    CHECK_CODE(flxi_plan_arena(&plain, v, 2, &size, &err), FLX_E_INTERNAL, &err);
    CHECK_EQ_STR(err.message, "memory plan: interval 1 ends at step 4, before step 5");
}

TEST(arena_plan_survives_memory_failure)
{
    enum { COUNT = 300 };
    flxi_interval v[COUNT];
    uint64_t seed = test_seed();
    fill(v, COUNT, GRAPH, &seed);
    for (size_t n = 1;; n++) {
        fault f = {.fail_at = n};
        flx_error err;
        flxi_arena_size size;
        flxi_allocator mem = {fault_alloc, &f};
        flx_code code = flxi_plan_arena(&mem, v, COUNT, &size, &err);
        CHECK(fault_is_clean(&f));
        if (!f.failed) {
            CHECK_OK(code, &err);
            CHECK(n > 2);
            break;
        }
        CHECK_CODE(code, FLX_E_OOM, &err);
    }
}
