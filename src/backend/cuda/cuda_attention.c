/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_attention.c: see cuda_attention.h. The cotangents need the result and the logarithms of the sums of each row:
   both are computed again, which takes a third of the time and no memory between the passes. */
#include "backend/cuda/cuda_attention.h"

#include "backend/cuda/cuda_way.h"
#include "ops/nn/attention.h"
#include "ops/nn/head_layout.h"
#include "ops/opcode.h"

#include <math.h>

static size_t rounded(size_t n)
{
    return (n + 255) / 256 * 256;
}

static bool is_number(flx_dim d)
{
    return d > 0 && d <= INT32_MAX;
}

/* NULL, or why not; heads of queries, keys and values are the same. */
static const char *describe(const flxi_device_node *n, flxi_cuda_attention *out)
{
    const flxi_attention_attrs *a = flxi_attention_attrs_of(n->op, n->attrs);
    const flx_type *q = n->in_types[0], *k = n->in_types[1], *v = n->in_types[2];
    if ((q->dtype != FLX_BF16 && q->dtype != FLX_F16) || k->dtype != q->dtype || v->dtype != q->dtype)
        return "for f16 and bf16";
    if ((a->mask_kind != MASK_NONE && a->mask_kind != MASK_CAUSAL) || !isnan(a->softcap))
        return "for no mask or a causal one, without a soft cap";
    if (a->num_heads != a->num_kv_heads || a->head_dim % 8 || a->head_dim > 256)
        return "for as many heads of keys as of queries, and widths that are multiples of 8 up to 256";
    flxi_heads hq = flxi_heads_of(q, a->layout, a->num_heads, a->head_dim);
    flxi_heads hk = flxi_heads_of(k, a->layout, a->num_heads, a->head_dim);
    flxi_heads hv = flxi_heads_of(v, a->layout, a->num_heads, a->head_dim);
    if (!is_number(hq.n) || !is_number(hq.tokens) || !is_number(hk.tokens) || hv.n != hq.n || hk.n != hq.n ||
        hv.tokens != hk.tokens || v->dims[v->rank - 1] != k->dims[k->rank - 1])
        return "for extents that agree, of at least 1";
    if (a->mask_kind == MASK_CAUSAL && hq.tokens != hk.tokens)
        return "a causal mask for as many keys as queries";
    memset(out, 0, sizeof *out); /* compared by its bytes */
    out->n = hq.n;
    out->heads = a->num_heads;
    out->queries = hq.tokens;
    out->keys = hk.tokens;
    out->width = a->head_dim;
    out->dtype = q->dtype;
    out->is_heads_first = a->layout == HEADS_BHSD;
    out->is_causal = a->mask_kind == MASK_CAUSAL;
    out->is_fast = n->is_fast && n->op != OP_attention;
    out->scale = isnan(a->score_scale) ? 1 / sqrt((double)a->head_dim) : a->score_scale;
    return NULL;
}

/* The forward plan, and for cotangents the other one too; NULL where it is not wanted. */
static bool find_plans(flxi_card *card, const flxi_device_node *n, const flxi_cuda_attention *of,
                       const flxi_dnn_graph *plans[2])
{
    flxi_cuda_attention one = *of;
    one.is_backward = one.is_fast = 0;
    plans[0] = flxi_cuda_attention_plan(card, &one);
    one.is_backward = 1;
    one.is_fast = of->is_fast;
    plans[1] = n->op == OP_attention ? NULL : flxi_cuda_attention_plan(card, &one);
    return plans[0] && (plans[1] || n->op == OP_attention);
}

static const char *refuse(const flxi_device_node *n)
{
    flxi_card *card;
    flxi_cuda_attention of;
    const flxi_dnn_graph *plans[2];
    const char *why = describe(n, &of);
    if (why)
        return why;
    if (!n->ctx || flxi_card_of(n->ctx, &card, NULL) != FLX_OK || !flxi_cuda_dnn(NULL))
        return "there is no cuDNN here";
    return find_plans(card, n, &of, plans) ? NULL : "cuDNN does not take it";
}

static size_t prepare_plans(const flxi_device_node *n, flxi_cuda_attention_table *out)
{
    flxi_card *card;
    const flxi_dnn_graph *plans[2] = {0};
    *out = (flxi_cuda_attention_table){0};
    if (describe(n, &out->of) || flxi_card_of(n->ctx, &card, NULL) != FLX_OK || !find_plans(card, n, &out->of, plans))
        return 0;
    size_t rows = (size_t)(out->of.n * out->of.heads * out->of.queries), row_bytes = rounded(rows * sizeof(float));
    bool is_backward = plans[1] != NULL;
    for (int i = 0; i < 2; i++)
        if (plans[i] && flxi_dnn_workspace(plans[i]) > out->workspace_bytes)
            out->workspace_bytes = flxi_dnn_workspace(plans[i]);
    out->delta = row_bytes;
    out->sums = out->delta + (is_backward ? row_bytes : 0);
    out->y = out->sums + (out->of.is_fast ? rounded(rows * (size_t)out->of.width * sizeof(float)) : 0);
    out->workspace = out->y + (is_backward ? rounded(rows * (size_t)out->of.width * 2) : 0);
    return out->workspace + out->workspace_bytes;
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    flxi_cuda_attention_table t;
    size_t scratch = prepare_plans(n, &t);
    memcpy(table, &t, sizeof t);
    return scratch + FLXI_CUDA_WORKSPACE_ALIGNMENT;
}

static flx_code run_attention(flxi_card *card, flxi_cu_stream stream, const flxi_node_step *s, flx_error *err)
{
    const flxi_cuda_attention_table *t = s->way->table;
    const flxi_dnn_graph *plans[2];
    char *scratch = flxi_cuda_aligned(s->scratch);
    void *q = (void *)(uintptr_t)s->in[0], *k = (void *)(uintptr_t)s->in[1], *v = (void *)(uintptr_t)s->in[2];
    bool is_backward = s->node->op != OP_attention;
    void *y = is_backward ? scratch + t->y : s->out[0], *workspace = scratch + t->workspace;
    if (!find_plans(card, s->node, &t->of, plans))
        return flxi_fail(err, FLX_E_INTERNAL, "attention has no plan any more");
    const int64_t forward[] = {FLXI_DNN_Q, FLXI_DNN_K, FLXI_DNN_V, FLXI_DNN_Y, FLXI_DNN_STATS};
    void *const of_forward[] = {q, k, v, y, scratch};
    FLXI_TRY(flxi_dnn_run(card, stream, plans[0], forward, of_forward, 5, workspace, err));
    if (!is_backward)
        return FLX_OK;
    const int64_t backward[] = {FLXI_DNN_Q,     FLXI_DNN_K,  FLXI_DNN_V,  FLXI_DNN_Y,  FLXI_DNN_STATS, FLXI_DNN_DY,
                                FLXI_DNN_DELTA, FLXI_DNN_DQ, FLXI_DNN_DK, FLXI_DNN_DV, FLXI_DNN_SUMS};
    void *const of_backward[] = {q,
                                 k,
                                 v,
                                 y,
                                 scratch,
                                 (void *)(uintptr_t)s->in[3],
                                 scratch + t->delta,
                                 s->out[0],
                                 s->out[1],
                                 s->out[2],
                                 scratch + t->sums};
    return flxi_dnn_run(card, stream, plans[1], backward, of_backward, t->of.is_fast ? 11 : 10, workspace, err);
}

static flx_code run(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    const flxi_cuda_launcher *c = flxi_cuda_launcher_of(on);
    return run_attention(c->card, c->stream, s, err);
}

const flxi_card_way flxi_cuda_attention_way = {.name = "cudnn",
                                               .refuse = refuse,
                                               .table_bytes = sizeof(flxi_cuda_attention_table),
                                               .prepare = prepare,
                                               .run = run};
