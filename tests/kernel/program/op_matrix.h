/* SPDX-License-Identifier: Apache-2.0 */
/* op_matrix.h: kernels that apply every op to every type it takes, made from the op tables. */
#ifndef FLX_TEST_OP_MATRIX_H
#define FLX_TEST_OP_MATRIX_H

#include "emit/device_pair.h"

enum { OP_MATRIX_MAX = 256 };

enum {
    OP_MATRIX_NO_F64 = 1,         /* for devices without it */
    OP_MATRIX_EXACT = 2,          /* only ops that are exact … */
    OP_MATRIX_TRANSCENDENTAL = 4, /* … or only those that are not */
};

typedef struct {
    flx_kernel *at[OP_MATRIX_MAX];
    size_t n;
} op_matrix;

/* Unary, binary and ternary ops, casts, bitcasts, and loads and stores of all element types. */
void op_matrix_make(op_matrix *m, flx_context *ctx, unsigned flags);
void op_matrix_free(op_matrix *m);
/* Runs all of them on the device and on the interpreter. */
void op_matrix_check(const op_matrix *m, const char *device, uint32_t max_ulp);

#endif
