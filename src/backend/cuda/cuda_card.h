/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_card.h: the card as a context of the library sees it: the driver's primary context, a stream for what belongs to
   no run, and the handles of libraries. Made when it is first needed. */
#ifndef FLXI_CUDA_CARD_H
#define FLXI_CUDA_CARD_H

#include "backend/card/card_way.h"
#include "backend/cuda/cuda_api.h"
#include "backend/kernel_cache.h"
#include "backend/object_cache.h"

typedef struct flxi_lt_plan flxi_lt_plan;         /* cuda_lt.c */
typedef struct flxi_dnn_graph flxi_dnn_graph;     /* cuda_dnn_graph.c */
typedef struct flxi_dnn_conv flxi_dnn_conv;       /* node/cuda_conv_dnn.c */
typedef struct flxi_cuda_own flxi_cuda_own;       /* cuda_own.c */
typedef struct flxi_cuda_pieces flxi_cuda_pieces; /* cuda_note.c */

typedef struct {
    const flxi_allocator *mem;
    const flxi_cuda *cu; /* NULL: there is no card */
    flxi_cu_device device;
    flxi_cu_context context; /* NULL: it could not be had */
    flxi_cu_stream stream;
    int sm;               /* 10 * the major number of the compute capability + the minor one */
    flxi_kcache kernels;  /* of the user's dispatches */
    pthread_mutex_t lock; /* guards handles, plans and modules */
    flxi_lt_handle lt;    /* of cuBLASLt; NULL before it is needed */
    flxi_lt_plan *lt_plans;
    flxi_dnn_handle dnn; /* of cuDNN, likewise */
    flxi_dnn_graph *dnn_graphs;
    flxi_dnn_conv *convs;
    flxi_cuda_own *own;         /* functions of our own */
    flxi_object_cache *cache;   /* of texts that belong to no program */
    flxi_card_finding *finding; /* memory of the host that kernels write to */
    atomic_int active;          /* runs */
    bool is_ready;
    flx_error why_not; /* if it is not */
} flxi_card;

struct flxi_queue {
    flxi_card *card;
    flxi_cu_stream stream;
    flxi_cuda_pieces *pieces; /* of steps that are noted; or NULL */
};

/* The card, with its context current on the calling thread. */
flx_code flxi_card_of(flx_context *ctx, flxi_card **out, flx_error *err);
/* The stream of a run, or the card's own. */
flxi_cu_stream flxi_card_stream(const flxi_card *card, const flxi_device_run *r);

/* cuBLASLt with a handle, or NULL with the reason. */
const flxi_cublaslt *flxi_card_lt(flxi_card *card, flxi_lt_handle *handle, flx_error *err);

/* Frees what a dispatch of the user's was compiled to; `owner` is the card. */
void flxi_cuda_discard_kernel(void *owner, void *data);

/* For `flx devices`: ended by {0}. */
extern const flxi_device_fact flxi_cuda_facts[];

#endif
