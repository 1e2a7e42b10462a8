/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_attention.h: attention and its cotangents on the card, by cuDNN, without the scores in memory. */
#ifndef FLXI_CUDA_ATTENTION_H
#define FLXI_CUDA_ATTENTION_H

#include "backend/cuda/cuda_card.h"

/* What a plan of cuDNN is for; found again by its bytes. */
typedef struct {
    int64_t n, heads, queries, keys, width;
    int32_t dtype;
    int32_t is_heads_first; /* [N, H, S, D]; else [N, S, H, D] */
    int32_t is_causal, is_backward;
    int32_t is_fast, reserved; /* of a gradient: queries are added in any order */
    double scale;
} flxi_cuda_attention;

/* The table of a node: what is where in its scratch. */
typedef struct {
    flxi_cuda_attention of;
    size_t delta, sums, y, workspace; /* statistics are at 0 */
    size_t workspace_bytes;
} flxi_cuda_attention_table;

/* Tensors of a graph of cuDNN's operations (cuda_dnn_graph.c). */
typedef enum {
    FLXI_DNN_Q = 1,
    FLXI_DNN_K,
    FLXI_DNN_V,
    FLXI_DNN_Y,
    FLXI_DNN_STATS,
    FLXI_DNN_SCALE,
    FLXI_DNN_LEAST,
    FLXI_DNN_DY,
    FLXI_DNN_DELTA,
    FLXI_DNN_ONE,
    FLXI_DNN_DQ,
    FLXI_DNN_DK,
    FLXI_DNN_DV,
    FLXI_DNN_SUMS, /* for the cotangent of the queries, where they are added in any order */
    FLXI_DNN_FIRST_VIRTUAL = 100
} flxi_dnn_id;

/* Plans live as long as the card. NULL: memory is exhausted, or cuDNN does not take it. */
const flxi_dnn_graph *flxi_cuda_attention_plan(flxi_card *card, const flxi_cuda_attention *of);
size_t flxi_dnn_workspace(const flxi_dnn_graph *g);
/* Runs it on these tensors, by id; the addresses of scalars are the plan's own. */
flx_code flxi_dnn_run(flxi_card *card, flxi_cu_stream stream, const flxi_dnn_graph *g, const int64_t *ids,
                      void *const *pointers, size_t n, void *workspace, flx_error *err);
void flxi_cuda_free_dnn(flxi_card *card);

/* How many operations the graph has; cuDNN checks each of them, also without a card. */
flx_code flxi_dnn_count_operations(const flxi_allocator *mem, const flxi_cuda_attention *of, int *out, flx_error *err);

#endif
