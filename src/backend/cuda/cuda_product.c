/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_product.c: see cuda_product.h. */
#include "backend/cuda/cuda_product.h"

#include "backend/cuda/cuda_way.h"
#include "backend/cuda/node/cuda_few_rows.h"

/* More is not faster, and with less large products take up to 10% longer. */
static size_t workspace_of(const flxi_card_product *p)
{
    double work = (double)p->m * p->n * p->k * p->batches;
    return work > 1e7 ? (size_t)32 << 20 : work > 1e6 ? (size_t)4 << 20 : 0;
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    flxi_card_product_plan p = flxi_card_plan_product(n);
    p.workspace = workspace_of(&p.product);
    memcpy(table, &p, sizeof p);
    return p.workspace ? p.workspace + FLXI_CUDA_WORKSPACE_ALIGNMENT : 0;
}

static flx_code run(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    const flxi_cuda_launcher *c = flxi_cuda_launcher_of(on);
    const flxi_card_product_plan *p = s->way->table;
    bool done = false;
    if ((uint64_t)p->product.m * p->product.n * p->product.batches == 0)
        return FLX_OK;
    if (p->product.k == 0 || (!flxi_cuda_is_few(p, s->in[1]) && flxi_card_is_thin(p)))
        return flxi_card_run_product(on, p, s->in, s->out[0], err);
    if (flxi_cuda_is_few(p, s->in[1]))
        return flxi_cuda_run_few(c->card, c->stream, p, s->in, s->out[0], err);
    FLXI_TRY(flxi_cuda_run_lt(c->card, c->stream, p, s->in, s->out[0], flxi_cuda_aligned(s->scratch), &done, err));
    return done ? FLX_OK : flxi_card_run_product(on, p, s->in, s->out[0], err);
}

const flxi_card_way flxi_cuda_products = {.name = "product",
                                          .refuse = flxi_card_refuse_product,
                                          .table_bytes = sizeof(flxi_card_product_plan),
                                          .prepare = prepare,
                                          .run = run};
