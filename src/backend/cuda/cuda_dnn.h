/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_dnn.h: graphs of cuDNN's operations, and plans for them. Errors are sticky: what cuDNN does not take has no
   plan. Descriptors live as long as the graph. */
#ifndef FLXI_CUDA_DNN_H
#define FLXI_CUDA_DNN_H

#include "backend/cuda/cuda_card.h"

enum { FLXI_DNN_MOST_DESCRIPTORS = 128, FLXI_DNN_MOST_OPERATIONS = 24, FLXI_DNN_MOST_CONFIGS = 16 };

typedef struct {
    const flxi_cudnn *dnn;
    flxi_dnn_desc owned[FLXI_DNN_MOST_DESCRIPTORS];
    int num_owned;
    flxi_dnn_desc operations[FLXI_DNN_MOST_OPERATIONS];
    int num_operations;
    bool failed;
    flxi_dnn_desc plan; /* NULL: it is not taken */
    int64_t workspace;
} flxi_dnn_builder;

typedef struct {
    int64_t id;
    int type, rank;
    const int64_t *dims, *strides;
    bool is_virtual, is_by_value;
} flxi_dnn_tensor;

flxi_dnn_desc flxi_dnn_make(flxi_dnn_builder *b, int kind);
void flxi_dnn_set(flxi_dnn_builder *b, flxi_dnn_desc d, int name, int type, int64_t n, const void *value);
void flxi_dnn_set_desc(flxi_dnn_builder *b, flxi_dnn_desc d, int name, flxi_dnn_desc value);
void flxi_dnn_finish(flxi_dnn_builder *b, flxi_dnn_desc d);
flxi_dnn_desc flxi_dnn_add_tensor(flxi_dnn_builder *b, const flxi_dnn_tensor *t);
void flxi_dnn_add_operation(flxi_dnn_builder *b, flxi_dnn_desc d);

/* The first engine that the library suggests, can build, and that has none of the numerical notes `refused`: a bit for
   each. */
void flxi_dnn_make_plan(flxi_dnn_builder *b, flxi_dnn_handle handle, uint32_t refused);
void flxi_dnn_free(flxi_dnn_builder *b);

/* The card's handle, made when it is first needed; NULL: there is no library. The lock is held. */
flxi_dnn_handle flxi_dnn_handle_of(flxi_card *card);

/* Runs the plan on these tensors, by id; scalars by value are addresses of the host. */
typedef struct {
    const int64_t *ids;
    void *const *pointers;
    int64_t n;
    void *workspace;
} flxi_dnn_operands;
flx_code flxi_dnn_execute(flxi_card *card, flxi_cu_stream stream, const flxi_dnn_builder *b, const flxi_dnn_operands *o,
                          const char *what, flx_error *err);

#endif
