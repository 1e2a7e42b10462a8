/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_case.c: see gemm_case.h. */
#include "gemm_case.h"

#include "graph/op/eval.h"
#include "test.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>

static const flxi_allocator mem = {flxi_default_alloc, NULL};

static void *filled(int32_t dtype, int64_t count, size_t *nbytes, uint64_t *seed)
{
    *nbytes = (size_t)count * flx_dtype_size(dtype);
    void *data = malloc(*nbytes + 1); /* exactly as long as it is used, so that a sanitizer sees what reads too far */
    int64_t parts = flxi_is_complex(dtype) ? 2 * count : count;
    int32_t part = flxi_part_dtype(dtype);
    for (int64_t i = 0; i < parts; i++)
        if (flxi_is_float(part))
            flxi_store_double(part, data, i, 4 * test_uniform(seed) - 2);
        else
            flxi_store_int(part, data, i, part == FLX_BOOL ? test_random(seed) % 16 == 0 : (int64_t)test_random(seed));
    return data;
}

static int32_t result_of(const gemm_shape *s)
{
    return s->result ? s->result : s->dtype;
}

gemm_case gemm_case_new(const gemm_shape *s, uint64_t *seed)
{
    gemm_case g = {.shape = *s};
    int32_t b_dtype = s->b_dtype ? s->b_dtype : s->dtype;
    int64_t batch = s->batch ? s->batch : 1;
    g.p = flxi_gemm_matrices(s->dtype, s->m, s->n, s->k, s->a_transposed ? 1 : s->k, s->a_transposed ? s->m : 1,
                             s->b_transposed ? 1 : s->n, s->b_transposed ? s->k : 1);
    g.p.b_dtype = s->b_dtype;
    g.p.result = result_of(s);
    g.p.c_row = s->n + s->c_gap;
    if (s->batch) {
        g.p.batch_rank = 1;
        g.p.batch_dims[0] = s->batch;
        g.p.a.batch[0] = s->a_shared ? 0 : s->m * s->k;
        g.p.b.batch[0] = s->b_shared ? 0 : s->k * s->n;
        g.p.c_batch[0] = s->m * g.p.c_row;
    }
    g.a = filled(s->dtype, (s->a_shared ? 1 : batch) * s->m * s->k, &g.a_bytes, seed);
    g.b = filled(b_dtype, (s->b_shared ? 1 : batch) * s->k * s->n, &g.b_bytes, seed);
    g.c_bytes = (size_t)(batch * s->m * g.p.c_row) * flx_dtype_size(result_of(s));
    g.c = malloc(g.c_bytes + 1);
    g.p.a.data = g.a;
    g.p.b.data = g.b;
    g.p.c = g.c;
    return g;
}

void gemm_case_free(gemm_case *g)
{
    free(g->a);
    free(g->b);
    free(g->c);
}

void gemm_case_run(gemm_case *g, int threads, flxi_isa isa)
{
    flxi_pool *pool = threads > 1 ? flxi_pool_new(&mem, threads) : NULL;
    g->p.isa = isa;
    size_t nbytes = flxi_gemm_scratch(&g->p, threads);
    void *scratch = aligned_alloc(64, (nbytes + 63) / 64 * 64 + 64);
    memset(scratch, 0xff, nbytes);
    memset(g->c, 0xee, g->c_bytes);
    flxi_gemm_run(&g->p, pool, scratch);
    free(scratch);
    flxi_pool_free(pool);
}

typedef struct {
    long double re, im;    /* the sum */
    long double magnitude; /* Σ |a| |b| */
    uint64_t wrapped;
    bool any;
} plain_sum;

/* Operands as they are summed: parts of floats and complex numbers, or the bits of integers. */
typedef struct {
    double *re, *im;
    uint64_t *bits;
} plain_matrix;

static plain_matrix widened(int32_t dtype, const void *data, size_t nbytes)
{
    int64_t count = (int64_t)(nbytes / flx_dtype_size(dtype));
    size_t room = (size_t)count + 1;
    plain_matrix w = {malloc(room * sizeof(double)), malloc(room * sizeof(double)), malloc(room * sizeof(uint64_t))};
    bool is_int = !flxi_is_float(dtype) && !flxi_is_complex(dtype);
    for (int64_t i = 0; i < count; i++) {
        double _Complex x = is_int ? 0 : flxi_load_complex(dtype, data, i);
        w.re[i] = creal(x);
        w.im[i] = cimag(x);
        w.bits[i] = is_int ? (uint64_t)flxi_load_int(dtype, data, i) : 0;
    }
    return w;
}

static void free_widened(plain_matrix *w)
{
    free(w->re);
    free(w->im);
    free(w->bits);
}

static plain_sum sum_of(const gemm_case *g, const plain_matrix *x, int64_t a, int64_t a_step, const plain_matrix *y,
                        int64_t b, int64_t b_step)
{
    plain_sum s = {0};
    int32_t d = g->shape.dtype;
    bool is_int = !flxi_is_float(d) && !flxi_is_complex(d);
    for (int64_t k = 0; k < g->shape.k; k++, a += a_step, b += b_step) {
        if (is_int) {
            s.wrapped += x->bits[a] * y->bits[b];
            s.any |= x->bits[a] && y->bits[b];
            continue;
        }
        s.re += (long double)x->re[a] * y->re[b];
        s.magnitude += fabsl((long double)x->re[a] * y->re[b]);
        if (!flxi_is_complex(d))
            continue;
        s.re -= (long double)x->im[a] * y->im[b];
        s.im += (long double)x->re[a] * y->im[b] + (long double)x->im[a] * y->re[b];
        s.magnitude += fabsl((long double)x->im[a] * y->im[b]) + fabsl((long double)x->re[a] * y->im[b]) +
                       fabsl((long double)x->im[a] * y->re[b]);
    }
    return s;
}

static void check_element(const gemm_case *g, int64_t at, const plain_sum *s)
{
    int32_t d = result_of(&g->shape);
    if (flxi_is_float(d) || flxi_is_complex(d)) {
        double unit = ldexp(1, -flxi_mantissa_bits(d));                                        /* of the result */
        double chain = d == FLX_F64 || d == FLX_C128 ? 0x1p-53 : 0x1p-24;                      /* of the sum */
        double bound = ((double)(2 * g->shape.k + 2) * chain) * (double)s->magnitude * 1.0001; /* 2k: complex */
        double _Complex y = flxi_load_complex(d, g->c, at);
        CHECK_MSG(fabsl(creal(y) - s->re) <= bound + unit * fabs((double)s->re) &&
                      fabsl(cimag(y) - s->im) <= bound + unit * fabs((double)s->im),
                  "element %lld is %.17g %+.17gi, expected %.17g %+.17gi, bound %.3g", (long long)at, creal(y),
                  cimag(y), (double)s->re, (double)s->im, bound);
    } else {
        int64_t expected = d == FLX_BOOL ? s->any : flxi_wrap_int(d, (int64_t)s->wrapped);
        CHECK_EQ_I64(flxi_load_int(d, g->c, at), expected);
    }
}

void gemm_case_check(const gemm_case *g)
{
    const gemm_shape *s = &g->shape;
    const flxi_gemm *p = &g->p;
    size_t size = flx_dtype_size(result_of(s));
    plain_matrix x = widened(s->dtype, g->a, g->a_bytes);
    plain_matrix y = widened(s->b_dtype ? s->b_dtype : s->dtype, g->b, g->b_bytes);
    for (int64_t q = 0; q < (s->batch ? s->batch : 1); q++)
        for (int64_t i = 0; i < s->m; i++) {
            int64_t row = q * p->c_batch[0] + i * p->c_row;
            for (int64_t j = 0; j < s->n; j++) {
                int64_t a = q * p->a.batch[0] + i * (s->a_transposed ? 1 : s->k);
                int64_t b = q * p->b.batch[0] + j * (s->b_transposed ? s->k : 1);
                plain_sum sum = sum_of(g, &x, a, s->a_transposed ? s->m : 1, &y, b, s->b_transposed ? 1 : s->n);
                check_element(g, row + j, &sum);
            }
            const unsigned char *gap = (const unsigned char *)g->c + (size_t)(row + s->n) * size;
            for (size_t e = 0; e < (size_t)s->c_gap * size; e++)
                CHECK_EQ_I64(gap[e], 0xee);
        }
    free_widened(&x);
    free_widened(&y);
}
