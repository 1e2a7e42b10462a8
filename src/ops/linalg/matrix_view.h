/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_view.h: a matrix inside a tensor of any dtype, and copies of it in scratch memory, where the factorisations of
   numeric/linalg/dense.h compute: elements are widened to double or complex double when they are loaded and rounded
   once when they are stored. */
#ifndef FLXI_MATRIX_VIEW_H
#define FLXI_MATRIX_VIEW_H

#include "graph/op/eval.h"
#include "numeric/linalg/dense.h"

typedef struct {
    int32_t dtype;
    void *data;
    int64_t first;    /* element */
    int64_t row, col; /* strides in elements */
} flxi_matrix_view;

/* Copies rows x cols elements, dense and row-major in scratch. */
void flxi_matrix_load(void *to, const flxi_matrix_view *from, int64_t rows, int64_t cols);
void flxi_matrix_store(const flxi_matrix_view *to, const void *from, int64_t rows, int64_t cols);

static inline const flxi_dense *flxi_dense_for(int32_t dtype)
{
    return flxi_dense_of(flxi_is_complex(dtype));
}

/* Calls `rule` with memory that is freed when it returns. */
flx_code flxi_eval_with_scratch(flxi_eval *e, flx_code (*rule)(flxi_eval *e, flxi_arena *scratch));

#endif
