/* SPDX-License-Identifier: Apache-2.0 */
/* bench_pool.c: the cost of starting and ending a parallel loop: empty loops back to back, after pauses, and in a run.

       bench_pool [THREADS]      (default: one for each core) */
#include "base/host/thread_pool.h"
#include "inside.h"

#include <stdio.h>
#include <stdlib.h>

static double now_us(void)
{
    return now() * 1e6;
}

static void wait_us(double us)
{
    for (double end = now_us() + us; now_us() < end;)
        ;
}

static void do_nothing(void *user, int64_t begin, int64_t end)
{
    (void)user;
    (void)begin;
    (void)end;
}

/* Each chunk ends only when all have begun, so all threads must take part: the cost of a fork and a join. */
static _Atomic int64_t arrived;
static int64_t expected;

static void meet(void *user, int64_t begin, int64_t end)
{
    (void)user;
    (void)begin;
    (void)end;
    arrived++;
    while (arrived % expected != 0)
        ;
}

typedef struct {
    float *x, *y, *out;
} vectors;

static void add_vectors(void *user, int64_t begin, int64_t end)
{
    const vectors *v = user;
    for (int64_t i = begin; i < end; i++)
        v->out[i] = v->x[i] + v->y[i];
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Least and median over rounds: of single loops after a pause, of the mean of a hundred without. */
static void measure(const char *what, flxi_pool *p, flxi_chunk_fn fn, double pause)
{
    enum { ROUNDS = 401 };
    static double times[ROUNDS];
    int64_t threads = flxi_pool_threads(p);
    int repeats = pause > 0 ? 1 : 100;
    for (int r = 0; r < ROUNDS; r++) {
        wait_us(pause);
        double start = now_us();
        for (int k = 0; k < repeats; k++) {
            arrived = 0;
            flxi_pool_run(p, threads, 1, fn, NULL);
        }
        times[r] = (now_us() - start) / repeats;
    }
    qsort(times, ROUNDS, sizeof times[0], by_value);
    printf("  %-44s %8.2f us, median %8.2f\n", what, times[0], times[ROUNDS / 2]);
}

static void measure_addition(flxi_pool *p, int64_t n)
{
    enum { ROUNDS = 100 };
    vectors v = {calloc((size_t)n, 4), calloc((size_t)n, 4), calloc((size_t)n, 4)};
    double best[2] = {1e9, 1e9};
    for (int r = 0; v.x && v.y && v.out && r < ROUNDS; r++) {
        for (int parallel = 0; parallel < 2; parallel++) {
            double start = now_us();
            for (int k = 0; k < 20; k++)
                flxi_pool_run(parallel ? p : NULL, n, n / 8, add_vectors, &v);
            double time = (now_us() - start) / 20;
            best[parallel] = time < best[parallel] ? time : best[parallel];
        }
    }
    printf("  x + y, %6lld elements: alone %8.2f us, pool %8.2f us\n", (long long)n, best[0], best[1]);
    free(v.x);
    free(v.y);
    free(v.out);
}

int main(int argc, char **argv)
{
    flxi_pool *p = flxi_pool_new(&mem, argc > 1 ? atoi(argv[1]) : 0);
    if (!p) {
        fprintf(stderr, "bench_pool: no pool\n");
        return 3;
    }
    expected = flxi_pool_threads(p);
    printf("%d threads, one chunk for each\n", flxi_pool_threads(p));
    measure("empty loop, back to back", p, do_nothing, 0);
    measure("all threads meet, back to back", p, meet, 0);
    measure("all threads meet, after 20 us", p, meet, 20);
    measure("all threads meet, after 200 us", p, meet, 200);
    flxi_pool_wake(p);
    measure("all threads meet, after 200 us, in a run", p, meet, 200);
    flxi_pool_rest(p);
    measure("all threads meet, after 5 ms", p, meet, 5000);
    for (int64_t n = 4096; n <= 65536; n *= 4)
        measure_addition(p, n);
    flxi_pool_free(p);
    return 0;
}
