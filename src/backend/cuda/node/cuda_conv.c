/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_conv.c: see cuda_conv.h. */
#include "backend/cuda/node/cuda_conv.h"

#include "backend/cuda/cuda_way.h"

static size_t prepare(const flxi_device_node *n, void *table)
{
    flxi_card_conv_plan p = flxi_card_plan_conv(n);
    flxi_card *card;
    size_t workspace = 0;
    bool by_library = p.form.count && n->ctx && flxi_card_of(n->ctx, &card, NULL) == FLX_OK &&
                      flxi_cuda_conv_by_library(card, &p, &workspace);
    p.by_library = by_library;
    p.workspace = workspace;
    memcpy(table, &p, sizeof p);
    return workspace ? workspace + FLXI_CUDA_WORKSPACE_ALIGNMENT : 0;
}

static flx_code run(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    const flxi_cuda_launcher *c = flxi_cuda_launcher_of(on);
    const flxi_card_conv_plan *p = s->way->table;
    uintptr_t all_bits = (uintptr_t)s->in[0] | (uintptr_t)s->in[1] | (uintptr_t)s->out[0];
    if (p->by_library && all_bits % 16 == 0)
        return flxi_cuda_conv_run_library(c->card, c->stream, p, s->in, s->out[0], flxi_cuda_aligned(s->scratch), err);
    return flxi_card_run_conv(on, s, err);
}

const flxi_card_way flxi_cuda_conv = {.name = "conv",
                                      .refuse = flxi_card_refuse_conv,
                                      .table_bytes = sizeof(flxi_card_conv_plan),
                                      .prepare = prepare,
                                      .run = run};
