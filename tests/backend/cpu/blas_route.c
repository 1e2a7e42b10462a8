/* SPDX-License-Identifier: Apache-2.0 */
/* blas_route.c: the library route computes the same products, whatever the threads, and says why it does not apply. */
#include "backend/cpu/gemm/blas.h"
#include "backend/cpu/routes/routes.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const flxi_allocator mem = {flxi_default_alloc, NULL};

static const flxi_route *blas_route(void)
{
    size_t count;
    const flxi_route *list = flxi_route_list(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, "blas") == 0)
            return &list[i];
    return NULL;
}

static const flxi_route *gemm_route(const flxi_route_node *n)
{
    size_t count;
    const flxi_route *list = flxi_route_list(&count);
    for (size_t i = 0; i < count; i++)
        if (list[i].op == n->op && strcmp(list[i].name, "gemm") == 0)
            return &list[i];
    return NULL;
}

TEST(blas_route_agrees_with_our_product)
{
    enum { N = 1024 };
    const flx_type t = {.dtype = FLX_F32, .rank = 2, .dims = {N, N}};
    const flx_type *const in_types[] = {&t, &t};
    const flx_type *const out_types[] = {&t};
    float *a = malloc(sizeof(float) * N * N);
    float *b = malloc(sizeof(float) * N * N);
    float *c[3];
    uint64_t seed = test_seed();
    if (!flxi_blas_library(NULL))
        return; /* nothing to compare on this machine */
    for (int i = 0; i < N * N; i++) {
        a[i] = (float)(test_uniform(&seed) - 0.5);
        b[i] = (float)(test_uniform(&seed) - 0.5);
    }
    const void *const in[] = {a, b};
    for (int way = 0; way < 3; way++) { /* the library with 1 and 3 threads, then our own */
        c[way] = malloc(sizeof(float) * N * N);
        void *const out[] = {c[way]};
        flxi_pool *pool = way == 1 ? flxi_pool_new(&mem, 3) : NULL;
        flxi_route_node n = {.op = flxi_op_lookup("matmul", 6),
                             .nin = 2,
                             .nout = 1,
                             .in_types = in_types,
                             .out_types = out_types,
                             .in = in,
                             .out = out,
                             .pool = pool};
        const flxi_route *r = way == 2 ? gemm_route(&n) : blas_route();
        CHECK(r);
        n.scratch = aligned_alloc(64, (r->scratch(&n, 3) + 127) / 64 * 64);
        CHECK_OK(r->run(&n), NULL);
        free(n.scratch);
        flxi_pool_free(pool);
    }
    CHECK(memcmp(c[0], c[1], sizeof(float) * N * N) == 0);
    for (int i = 0; i < N * N; i++) /* both are within 1024 eps of a sum of 1024 terms below 1/4 */
        CHECK_NEAR(c[0][i], c[2][i], 2 * 1024 * 0x1p-24 * 256);
    for (int way = 0; way < 3; way++)
        free(c[way]);
    free(a);
    free(b);
}

static void check_reason(int32_t dtype, int64_t n, const char *expected)
{
    const flx_type t = {.dtype = dtype, .rank = 2, .dims = {n, n}};
    const flx_type *const in_types[] = {&t, &t};
    const flx_type *const out_types[] = {&t};
    flxi_route_node node = {
        .op = flxi_op_lookup("matmul", 6), .nin = 2, .nout = 1, .in_types = in_types, .out_types = out_types};
    CHECK_EQ_STR(blas_route()->applies(&node), expected);
}

TEST(blas_route_says_why_not)
{
    check_reason(FLX_I32, 2048, "only f32 and f64");
    check_reason(FLX_F32, 100, "too small for a library call to pay");
    check_reason(FLX_F64, 0, "nothing to compute");
}
