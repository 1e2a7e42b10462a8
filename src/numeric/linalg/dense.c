/* SPDX-License-Identifier: Apache-2.0 */
/* dense.c: see dense.h. */
#include "numeric/linalg/dense.h"

#include "base/complex_arith.h"

#include <math.h>

enum {                   /* tile sizes: a few thousand numbers, which fit the private caches of a core */
       DENSE_PANEL = 32, /* columns eliminated before the rest is updated */
       DENSE_TILE = 256, /* columns of the rest */
       DENSE_SIDES = 64  /* right-hand sides */
};

#define NUM double
#define NAME(x) real_##x
#define MUL(a, b) ((a) * (b))
#define DIV(a, b) ((a) / (b))
#define CONJ(a) (a)
#define SIZE(a) fabs(a)
#define ABS(a) fabs(a)
#define REAL(a) (a)
#include "base/host/stop.h"
#include "numeric/linalg/dense_body.h"

#define NUM double _Complex
#define NAME(x) complex_##x
#define MUL(a, b) flxi_cmul((a), (b))
#define DIV(a, b) flxi_cdiv((a), (b))
#define CONJ(a) conj(a)
#define SIZE(a) (fabs(creal(a)) + fabs(cimag(a)))
#define ABS(a) cabs(a)
#define REAL(a) creal(a)
#include "numeric/linalg/dense_body.h"

const flxi_dense *flxi_dense_of(bool is_complex)
{
    return is_complex ? &complex_functions : &real_functions;
}

bool flxi_dense_solve(const flxi_dense *d, const void *lu, int64_t n, const int64_t *pivots, void *b, int64_t k)
{
    d->exchange_rows(b, k, pivots, n);
    d->triangular(lu, &(flxi_triangle){.n = n, .row = n, .col = 1, .lower = true, .unit = true}, b, k);
    return d->triangular(lu, &(flxi_triangle){.n = n, .row = n, .col = 1}, b, k);
}

void flxi_permutation_of(const int64_t *pivots, int64_t count, int64_t rows, int64_t *perm)
{
    for (int64_t i = 0; i < rows; i++)
        perm[i] = i;
    for (int64_t k = 0; k < count; k++) {
        int64_t t = perm[k];
        perm[k] = perm[pivots[k]];
        perm[pivots[k]] = t;
    }
}
