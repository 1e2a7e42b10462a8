/* SPDX-License-Identifier: Apache-2.0 */
/* contraction_route.c: matmul and dot_general (what einsum decomposes to) as one matrix product each. Axes become
   batch, lines or depth of the two sides as stored; nothing is transposed in memory. */
#include "backend/cpu/routes/contraction_route.h"

#include "graph/op/eval.h"
#include "ops/opcode.h"

static void set_data(const flxi_route_node *n, flxi_gemm *p)
{
    p->a.data = n->in ? n->in[0] : NULL;
    p->b.data = n->in ? n->in[1] : NULL;
    p->c = n->out ? n->out[0] : NULL;
}

/* ---- matmul ---- */

/* How a matrix operand moves with the batch axes of the result. */
static void batch_steps(const flx_type *t, const flx_type *y, int64_t steps[FLX_MAX_RANK])
{
    int64_t strides[FLX_MAX_RANK];
    flxi_strides(t, strides);
    for (int k = 0; k < y->rank - 2; k++) {
        int own = k - (y->rank - t->rank);
        steps[k] = own < 0 || t->dims[own] == 1 ? 0 : strides[own];
    }
}

static flxi_gemm matmul_product(const flxi_route_node *n)
{
    const flx_type *a = n->in_types[0];
    const flx_type *b = n->in_types[1];
    const flx_type *y = n->out_types[0];
    int64_t rows = y->dims[y->rank - 2];
    int64_t cols = y->dims[y->rank - 1];
    int64_t depth = a->dims[a->rank - 1];
    flxi_gemm p = flxi_gemm_matrices(a->dtype, rows, cols, depth, depth, 1, cols, 1);
    int64_t steps[FLX_MAX_RANK];
    flxi_strides(y, steps);
    p.batch_rank = y->rank - 2;
    for (int k = 0; k < p.batch_rank; k++) {
        p.batch_dims[k] = y->dims[k];
        p.c_batch[k] = steps[k];
    }
    batch_steps(a, y, p.a.batch);
    batch_steps(b, y, p.b.batch);
    return p;
}

/* ---- dot_general ---- */

static bool has_axis(flx_ints axes, int64_t axis)
{
    for (size_t i = 0; i < axes.n; i++)
        if (axes.v[i] == axis)
            return true;
    return false;
}

static void dot_side(flxi_gemm_operand *x, const flx_type *t, flx_ints contracted, flx_ints batch)
{
    int64_t strides[FLX_MAX_RANK];
    flxi_strides(t, strides);
    for (size_t i = 0; i < batch.n; i++)
        x->batch[i] = strides[batch.v[i]];
    for (size_t i = 0; i < contracted.n; i++)
        flxi_walk_push(&x->depth, t->dims[contracted.v[i]], strides[contracted.v[i]]);
    for (int k = 0; k < t->rank; k++)
        if (!has_axis(contracted, k) && !has_axis(batch, k))
            flxi_walk_push(&x->line, t->dims[k], strides[k]);
}

static flxi_gemm dot_product(const flxi_route_node *n)
{
    flx_ints lc = flxi_route_ints(n, "lc");
    flx_ints lb = flxi_route_ints(n, "lb");
    const flx_type *l = n->in_types[0];
    const flx_type *y = n->out_types[0];
    const flx_type *r = n->in_types[1];
    flxi_gemm p = {.dtype = l->dtype, .b_dtype = r->dtype, .result = y->dtype, .c_col = 1, .alpha = 1};
    int64_t steps[FLX_MAX_RANK];
    flxi_strides(y, steps);
    dot_side(&p.a, l, lc, lb);
    dot_side(&p.b, r, flxi_route_ints(n, "rc"), flxi_route_ints(n, "rb"));
    p.m = flxi_walk_count(&p.a.line);
    p.n = flxi_walk_count(&p.b.line);
    p.k = flxi_walk_count(&p.a.depth);
    p.c_row = p.n;
    p.batch_rank = (int)lb.n;
    for (int k = 0; k < p.batch_rank; k++) {
        p.batch_dims[k] = y->dims[k];
        p.c_batch[k] = steps[k];
    }
    return p;
}

flxi_gemm flxi_contraction_product(const flxi_route_node *n)
{
    flxi_gemm p = n->op == OP_matmul ? matmul_product(n) : dot_product(n);
    set_data(n, &p);
    return p;
}

/* ---- The route ---- */

const char *flxi_gemm_applies(const flxi_route_node *n)
{
    (void)n;
    return NULL; /* every dtype, every layout */
}

/* Integers of 8 and 16 bits with sums in 32: no operand is converted beforehand. */
const char *flxi_widening_applies(const flxi_route_node *n)
{
    const uint32_t narrow = FLXI_BIT(FLX_I8) | FLXI_BIT(FLX_U8) | FLXI_BIT(FLX_I16);
    const uint32_t wide = FLXI_BIT(FLX_I32) | FLXI_BIT(FLX_U32);
    bool is_narrow = flxi_in(narrow, n->in_types[0]->dtype) && flxi_in(narrow, n->in_types[1]->dtype);
    return is_narrow && flxi_in(wide, n->out_types[0]->dtype) ? NULL : "for i8, u8 and i16 with sums in 32 bits";
}

size_t flxi_gemm_route_scratch(const flxi_route_node *n, int threads)
{
    if (flxi_route_count(n->out_types[0]) == 0)
        return 0;
    flxi_gemm p = flxi_contraction_product(n);
    return flxi_gemm_scratch(&p, threads);
}

flx_code flxi_gemm_route(const flxi_route_node *n)
{
    if (flxi_route_count(n->out_types[0]) == 0)
        return FLX_OK;
    flxi_gemm p = flxi_contraction_product(n);
    flxi_gemm_run(&p, n->pool, n->scratch);
    return FLX_OK;
}

flxi_product_order flxi_order_of_product(const flxi_device_node *given)
{
    flxi_route_node n = flxi_route_node_of(given);
    flxi_gemm p = flxi_contraction_product(&n);
    return flxi_gemm_order_of(&p);
}
