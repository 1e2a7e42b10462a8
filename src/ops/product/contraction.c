/* SPDX-License-Identifier: Apache-2.0 */
/* contraction.c: the definition of a product of tensors. One element after the other in row-major order, so that the
   order of a sum, and with it the rounding of half floats, is fixed. */
#include "ops/product/contraction.h"

#include "base/complex_arith.h"
#include "base/host/stop.h"

static flxi_num product_at(const flxi_arith *m, const flxi_contraction *c, const flxi_factor *factors,
                           const int64_t *at_sum)
{
    flxi_num product = m->one;
    for (size_t i = 0; i < c->factors; i++) {
        int64_t at = factors[i].base + flxi_offset(at_sum, factors[i].along_sum, c->num_sums);
        flxi_num x = m->load(factors[i].data, at);
        product = i == 0 ? x : m->mul(product, x); /* complex 1 * x could change the sign of a zero */
    }
    return product;
}

/* ---- Short sums ---- */

/* A sum of a few products of f32 or c64 is computed in f32, as hardware does: each product of reals is added with one
   rounding, those of complex numbers are rounded separately. More digits would gain nothing significant, and where the
   terms cancel the result is the one that other implementations get. */
enum { SHORT_SUM = 16 };

static bool is_short(const flxi_arith *m, const flxi_contraction *c)
{
    int64_t terms = 1;
    for (int k = 0; k < c->num_sums && terms <= SHORT_SUM; k++)
        terms *= c->sum_dims[k];
    return (m->dtype == FLX_F32 || m->dtype == FLX_C64) && c->factors == 2 && terms <= SHORT_SUM;
}

static flxi_num rounded_product(flxi_num a, flxi_num b)
{
    float ar = (float)creal(a.c), ai = (float)cimag(a.c), br = (float)creal(b.c), bi = (float)cimag(b.c);
    return (flxi_num){.c = flxi_cmake(ar * br - ai * bi, ar * bi + ai * br)};
}

static flxi_num short_sum(const flxi_arith *m, const flxi_contraction *c, const flxi_factor *factors)
{
    int64_t at[FLXI_MAX_CONTRACTED] = {0};
    flxi_num sum = m->zero;
    do {
        flxi_num x[2];
        for (int i = 0; i < 2; i++)
            x[i] = m->load(factors[i].data, factors[i].base + flxi_offset(at, factors[i].along_sum, c->num_sums));
        if (m->dtype == FLX_F32) {
            sum.f = (float)(sum.f + x[0].f * x[1].f);
            continue;
        }
        flxi_num product = rounded_product(x[0], x[1]);
        sum.c =
            flxi_cmake((float)creal(sum.c) + (float)creal(product.c), (float)cimag(sum.c) + (float)cimag(product.c));
    } while (flxi_next(at, c->sum_dims, c->num_sums));
    return sum;
}

/* The sum over contracted positions, none of whose extents is 0. Without contracted axes it is the product itself:
   adding it to 0 would lose the sign of a zero. */
static flxi_num sum_products(const flxi_arith *m, const flxi_contraction *c, const flxi_factor *factors)
{
    int64_t at_sum[FLXI_MAX_CONTRACTED] = {0};
    flxi_num sum = m->zero;
    if (c->num_sums == 0)
        return product_at(m, c, factors, at_sum);
    if (is_short(m, c))
        return short_sum(m, c, factors);
    do {
        sum = m->accumulate(sum, product_at(m, c, factors, at_sum));
    } while (flxi_next(at_sum, c->sum_dims, c->num_sums));
    return sum;
}

void flxi_contract(const flxi_contraction *c, flxi_factor *factors, flx_tensor *y)
{
    const flxi_arith *m = flxi_arith_of(y->type.dtype);
    for (int k = 0; k < c->num_sums; k++)
        if (c->sum_dims[k] == 0)
            return;
    int64_t at[FLX_MAX_RANK] = {0};
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++, flxi_next(at, y->type.dims, y->type.rank)) {
        for (size_t j = 0; j < c->factors; j++)
            factors[j].base = flxi_offset(at, factors[j].along_result, y->type.rank);
        m->store(y->data, i, sum_products(m, c, factors));
    }
}
