/* SPDX-License-Identifier: Apache-2.0 */
/* permutation.c: see permutation.h. Few rows are shuffled in a table (Fisher and Yates; every order is equally likely
   as far as the generator goes). Many rows need no memory: a Feistel network is a bijection of the numbers of 2 half
   bits, and a result that is not below n is sent through it again until it is (the walk ends, since it follows a cycle
   that contains a number below n: the one it began with). The numbers are at most four times as many as the rows, so a
   walk has fewer than four steps on average. */
#include "data/permutation.h"

#include "numeric/counter_rng.h"

/* ---- A table ---- */

typedef struct {
    flxi_rng rng;
    uint64_t drawn;
} source;

/* Below n, without bias (Lemire, "Fast random integer generation in an interval", 2019). */
static uint32_t draw_below(source *s, uint32_t n)
{
    uint32_t least = (0u - n) % n; /* products whose low half is less are one too many */
    uint64_t m;
    do {
        m = (uint64_t)flxi_rng_word(&s->rng, s->drawn++) * n;
    } while ((uint32_t)(m & UINT32_MAX) < least);
    return (uint32_t)(m >> 32);
}

static void fill_table(flxi_permutation *p, source s)
{
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t k = draw_below(&s, i + 1);
        if (k != i)
            p->table[i] = p->table[k];
        p->table[k] = i;
    }
}

/* ---- A network ---- */

/* The mixing step of splitmix64. */
static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t through(const flxi_permutation *p, uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << p->half) - 1;
    uint64_t left = x >> p->half, right = x & mask;
    for (int i = 0; i < FLXI_PERMUTATION_ROUNDS; i++) {
        uint64_t next = left ^ (mixed(right + p->keys[i]) & mask);
        left = right;
        right = next;
    }
    return left << p->half | right;
}

/* ---- Both ---- */

void flxi_permutation_begin(flxi_permutation *p, uint64_t n, uint64_t seed, uint64_t epoch, uint32_t *table)
{
    flxi_rng rng = flxi_rng_seeded(seed, epoch);
    *p = (flxi_permutation){.n = n, .table = n <= FLXI_PERMUTATION_TABLE ? table : NULL};
    if (p->table) {
        fill_table(p, (source){rng, 0});
        return;
    }
    while (p->half < 32 && UINT64_C(1) << 2 * p->half < n)
        p->half++;
    for (uint64_t i = 0; i < FLXI_PERMUTATION_ROUNDS; i++)
        p->keys[i] = flxi_rng_wide(&rng, i);
}

uint64_t flxi_permutation_at(const flxi_permutation *p, uint64_t i)
{
    if (p->table)
        return p->table[i];
    do {
        i = through(p, i);
    } while (i >= p->n);
    return i;
}
