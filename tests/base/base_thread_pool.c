/* SPDX-License-Identifier: Apache-2.0 */
/* base_thread_pool.c: every chunk runs once, whatever the number of threads, from several callers and nested. */
#include "test.h"

#include "base/host/thread_pool.h"
#include "fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const flxi_allocator mem = {flxi_default_alloc, NULL};

typedef struct {
    int64_t count, chunk;
    unsigned char *seen; /* how often each index was visited */
    atomic_int bad;      /* chunks with unexpected bounds */
} coverage;

static void mark_range(void *user, int64_t begin, int64_t end)
{
    coverage *c = user;
    int64_t expected = begin + c->chunk < c->count ? begin + c->chunk : c->count;
    if (begin % c->chunk != 0 || end != expected)
        atomic_fetch_add(&c->bad, 1);
    for (int64_t i = begin; i < end; i++)
        c->seen[i]++;
}

static void check_coverage(flxi_pool *p, int64_t count, int64_t chunk)
{
    coverage c = {.count = count, .chunk = chunk, .seen = calloc((size_t)count + 1, 1)};
    flxi_pool_run(p, count, chunk, mark_range, &c);
    test_fail_context("threads %d count %lld chunk %lld", flxi_pool_threads(p), (long long)count, (long long)chunk);
    CHECK_EQ_I64(c.bad, 0);
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ_I64(c.seen[i], 1);
    free(c.seen);
}

TEST(thread_pool_covers_each_index_once)
{
    static const int threads[] = {1, 2, 3, 8};
    static const int64_t counts[] = {0, 1, 2, 7, 64, 1000, 10007};
    static const int64_t chunks[] = {1, 3, 64, 100000};
    for (int t = -1; t < 4; t++) {
        flxi_pool *p = t < 0 ? NULL : flxi_pool_new(&mem, threads[t]);
        CHECK(t < 0 || p);
        CHECK_EQ_I64(flxi_pool_threads(p), t < 0 ? 1 : threads[t]);
        for (int i = 0; i < 7; i++)
            for (int k = 0; k < 4; k++)
                check_coverage(p, counts[i], chunks[k]);
        flxi_pool_free(p);
    }
}

static void add_length(void *user, int64_t begin, int64_t end)
{
    atomic_fetch_add((_Atomic int64_t *)user, end - begin);
}

TEST(thread_pool_odd_arguments)
{
    _Atomic int64_t sum = 0;
    flxi_pool *p = flxi_pool_new(&mem, 2);
    CHECK(p);
    flxi_pool_run(p, -5, 1, add_length, &sum);
    CHECK_EQ_I64(sum, 0);
    flxi_pool_run(p, 10, 0, add_length, &sum); /* no chunk size: all at once */
    CHECK_EQ_I64(sum, 10);
    sum = 0;
    flxi_pool_run(p, INT64_MAX, INT64_MAX - 1, add_length, &sum); /* sums stay in range */
    CHECK_EQ_I64(sum, INT64_MAX);
    flxi_pool_free(p);
    flxi_pool_free(NULL);
    CHECK(!flxi_pool_new(&mem, -1));
    p = flxi_pool_new(&mem, 0);
    CHECK(p && flxi_pool_threads(p) >= 1);
    flxi_pool_free(p);
}

/* ---- Nested loops and several callers ---- */

typedef struct {
    flxi_pool *pool;
    _Atomic int64_t sum;
    atomic_int strays; /* inner chunks that left the thread of their outer chunk */
    pthread_t self;
} nest;

static void inner(void *user, int64_t begin, int64_t end)
{
    nest *n = user;
    if (!pthread_equal(pthread_self(), n->self))
        atomic_fetch_add(&n->strays, 1);
    atomic_fetch_add(&n->sum, end - begin);
}

static void outer(void *user, int64_t begin, int64_t end)
{
    nest *all = user;
    for (int64_t i = begin; i < end; i++) {
        nest own = {.pool = all->pool, .self = pthread_self()};
        flxi_pool_run(all->pool, 100, 7, inner, &own);
        atomic_fetch_add(&all->sum, own.sum);
        atomic_fetch_add(&all->strays, own.strays);
    }
}

TEST(thread_pool_nested_loop_stays_on_its_thread)
{
    flxi_pool *p = flxi_pool_new(&mem, 4);
    CHECK(p);
    nest n = {.pool = p};
    flxi_pool_run(p, 200, 1, outer, &n);
    CHECK_EQ_I64(n.sum, 200 * 100);
    CHECK_EQ_I64(n.strays, 0);
    flxi_pool_free(p);
}

typedef struct {
    flxi_pool *pool;
    int64_t sum; /* plain: the loop's end must make chunks' writes visible */
    int64_t cells[64];
} caller;

static void fill_cells(void *user, int64_t begin, int64_t end)
{
    int64_t *cells = user;
    for (int64_t i = begin; i < end; i++)
        cells[i]++;
}

static void *call_often(void *arg)
{
    caller *c = arg;
    for (int k = 0; k < 300; k++)
        flxi_pool_run(c->pool, 64, 3, fill_cells, c->cells);
    for (int i = 0; i < 64; i++)
        c->sum += c->cells[i];
    return NULL;
}

TEST(thread_pool_serves_several_callers_in_turn)
{
    flxi_pool *p = flxi_pool_new(&mem, 3);
    CHECK(p);
    caller callers[4] = {{0}};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        callers[i].pool = p;
        CHECK(pthread_create(&threads[i], NULL, call_often, &callers[i]) == 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_I64(callers[i].sum, 300 * 64);
    flxi_pool_free(p);
}

/* ---- Workers that sleep ---- */

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

/* Loops after pauses around the time when workers fall asleep, inside and outside of runs, with more threads than cores
   and with fewer: no loop and no chunk is lost. */
TEST(thread_pool_wakes_sleeping_workers)
{
    static const long pauses[] = {0, 1, 30, 49, 50, 51, 60, 100, 1990, 2010, 5000};
    for (int threads = 2; threads <= 5; threads++) {
        flxi_pool *p = flxi_pool_new(&mem, threads);
        CHECK(p);
        for (int i = 0; i < 66; i++) {
            if (i % 3 == 1)
                flxi_pool_wake(p);
            if (i % 3 == 2)
                flxi_pool_rest(p);
            pause_us(pauses[i % 11]);
            check_coverage(p, 97, 2);
        }
        flxi_pool_free(p);
    }
    flxi_pool_wake(NULL);
    flxi_pool_rest(NULL);
}

/* Two chunks that wait for each other: they end only if both threads take part. */
static void meet(void *user, int64_t begin, int64_t end)
{
    atomic_int *arrived = user;
    (void)begin;
    (void)end;
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < 2)
        pause_us(10);
}

TEST(thread_pool_brings_threads_together)
{
    flxi_pool *p = flxi_pool_new(&mem, 2);
    CHECK(p);
    for (int i = 0; i < 100; i++) {
        atomic_int arrived = 0;
        if (i % 10 == 0)
            pause_us(300); /* it is asleep */
        flxi_pool_run(p, 2, 1, meet, &arrived);
        CHECK_EQ_I64(arrived, 2);
    }
    flxi_pool_free(p);
}

/* The chunk of a worker takes longer than the caller spins. */
static void linger(void *user, int64_t begin, int64_t end)
{
    int64_t *cells = user;
    (void)end;
    if (begin == 0)
        while (atomic_load((_Atomic int64_t *)&cells[1]) == 0)
            pause_us(10);
    else
        atomic_store((_Atomic int64_t *)&cells[1], 1);
    if (begin == 1)
        pause_us(5000);
    cells[2 + begin] = begin + 1;
}

TEST(thread_pool_waits_for_the_slowest)
{
    flxi_pool *p = flxi_pool_new(&mem, 2);
    CHECK(p);
    for (int i = 0; i < 5; i++) {
        int64_t cells[4] = {0};
        flxi_pool_run(p, 2, 1, linger, cells);
        CHECK(cells[2] == 1 && cells[3] == 2);
    }
    flxi_pool_free(p);
}

/* A pool created and freed at once, while its workers are in any state. */
TEST(thread_pool_ends_at_any_time)
{
    for (int i = 0; i < 200; i++) {
        flxi_pool *p = flxi_pool_new(&mem, 2 + i % 3);
        CHECK(p);
        if (i % 4 == 1)
            flxi_pool_wake(p);
        if (i % 2)
            check_coverage(p, 11, 1);
        if (i % 20 == 0)
            pause_us(200);
        flxi_pool_free(p);
    }
}

/* A child process has no workers: the caller does all the work. */
TEST(thread_pool_works_in_a_forked_child)
{
    flxi_pool *p = flxi_pool_new(&mem, 3);
    CHECK(p);
    check_coverage(p, 50, 1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _Atomic int64_t sum = 0;
        flxi_pool_run(p, 1000, 3, add_length, &sum);
        _exit(sum != 1000);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQ_I64(status, 0);
    flxi_pool_free(p);
}

TEST(thread_pool_survives_allocation_failure)
{
    fault f = {.fail_at = 1};
    flxi_allocator failing = {fault_alloc, &f};
    CHECK(!flxi_pool_new(&failing, 3));
    flxi_pool *p = flxi_pool_new(&failing, 3);
    CHECK(p);
    flxi_pool_free(p);
    CHECK(fault_is_clean(&f));
}
