/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c: what this machine can do at most: bytes per second from memory and from caches, multiply-adds per second.

       limits THREADS

   Compiled by limits.py with -O3 -march=native. Prints one JSON object; every number is the best of several trials with
   all threads at once. A sum of two arrays stands for all loops over memory: two reads, one write. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Vectors as wide as a register, so that all chains stay in registers. */
#if defined __AVX512F__
enum { LANES = 16 };
#elif defined __AVX__
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
#ifdef __clang__
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif
enum { MAX_THREADS = 64, CHAINS = 12, TRIALS = 20 };

typedef float vector __attribute__((vector_size(4 * LANES)));

typedef struct {
    float *a, *b, *c;
    size_t n;      /* elements of each array */
    size_t repeat; /* passes over them */
    float result;
} work;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *add_arrays(void *at)
{
    work *w = at;
    for (size_t r = 0; r < w->repeat; r++) {
        float *restrict c = w->c;
        const float *restrict a = w->a, *restrict b = w->b;
        for (size_t i = 0; i < w->n; i++)
            c[i] = a[i] + 3.0f * b[i];
        __asm__ volatile("" ::: "memory");
    }
    return NULL;
}

/* As many independent chains as hide the latency of a multiply-add. They are only registers where every loop over them
   is unrolled: no index is left. */
static void *multiply_add(void *at)
{
    work *w = at;
    vector x[CHAINS], m = (vector){0} + 0.999f, d = (vector){0} + 0.001f, sum = {0};
    UNROLLED
    for (int j = 0; j < CHAINS; j++)
        x[j] = m * (float)j;
    for (size_t r = 0; r < w->repeat; r++) {
        UNROLLED
        for (int j = 0; j < CHAINS; j++)
            x[j] = x[j] * m + d;
        __asm__ volatile("" : "+m"(w->result));
    }
    UNROLLED
    for (int j = 0; j < CHAINS; j++)
        sum += x[j];
    w->result += sum[0];
    return NULL;
}

/* Seconds of the fastest trial. */
static double timed(void *(*run)(void *), work *all, int threads)
{
    double best = 1e9;
    for (int t = 0; t < TRIALS; t++) {
        pthread_t ids[MAX_THREADS];
        double start = now();
        for (int i = 1; i < threads; i++)
            if (pthread_create(&ids[i], NULL, run, &all[i]))
                exit(3);
        run(&all[0]);
        for (int i = 1; i < threads; i++)
            pthread_join(ids[i], NULL);
        double took = now() - start;
        best = took < best ? took : best;
    }
    return best;
}

static float *filled(size_t n)
{
    float *x = aligned_alloc(64, n * sizeof *x);
    if (!x)
        exit(3);
    for (size_t i = 0; i < n; i++)
        x[i] = 1;
    return x;
}

/* Bytes per second for three arrays of `n` elements together. */
static double rate(size_t n, int threads)
{
    work all[MAX_THREADS] = {{0}};
    size_t share = n / (size_t)threads / LANES * LANES, passes = ((size_t)1 << 24) / n + 1;
    for (int i = 0; i < threads; i++)
        all[i] = (work){.a = filled(share), .b = filled(share), .c = filled(share), .n = share, .repeat = passes};
    double took = timed(add_arrays, all, threads);
    for (int i = 0; i < threads; i++) {
        free(all[i].a);
        free(all[i].b);
        free(all[i].c);
    }
    return 3.0 * (double)(share * (size_t)threads * passes) * sizeof(float) / took;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    if (threads < 1 || threads > MAX_THREADS)
        return 2;
    work all[MAX_THREADS] = {{0}};
    for (int i = 0; i < threads; i++)
        all[i].repeat = 2000000; /* long enough to hide the start of the threads */
    double flops = 2.0 * CHAINS * LANES * (double)all[0].repeat * threads / timed(multiply_add, all, threads);
    printf("{\"memory\": %.4g, \"cache\": %.4g, \"flops\": %.4g}\n", rate((size_t)1 << 23, threads),
           rate((size_t)1 << 16, threads), flops);
    return 0;
}
