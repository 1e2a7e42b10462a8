/* contraction.c: the definition of a product of tensors. One element after the other in row-major order, so that the
   order of a sum, and with it the rounding of half floats, is fixed. */
#include "ops/contraction.h"

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

/* The sum over contracted positions, none of whose extents is 0. Without contracted axes it is the product itself:
   adding it to 0 would lose the sign of a zero. */
static flxi_num sum_products(const flxi_arith *m, const flxi_contraction *c, const flxi_factor *factors)
{
    int64_t at_sum[FLXI_MAX_CONTRACTED] = {0};
    flxi_num sum = m->zero;
    if (c->num_sums == 0)
        return product_at(m, c, factors, at_sum);
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
    for (int64_t i = 0; i < y->count; i++, flxi_next(at, y->type.dims, y->type.rank)) {
        for (size_t j = 0; j < c->factors; j++)
            factors[j].base = flxi_offset(at, factors[j].along_result, y->type.rank);
        m->store(y->data, i, sum_products(m, c, factors));
    }
}
