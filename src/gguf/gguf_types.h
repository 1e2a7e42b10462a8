/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_types.h: the types of tensors in GGUF files, by the numbers that files use. */
#ifndef FLXI_GGUF_TYPES_H
#define FLXI_GGUF_TYPES_H

#include "numeric/gguf_block.h"

#include <fluxion/types.h>

/* X(name, number in files, dtype or FLX_DTYPE_NONE where it is packed). Other numbers, such as 9 (q8_1), occur in
   memory of other programs and not in files. */
#define FLXI_GGUF_TYPE_MAP(X)      \
    X(f32, 0, FLX_F32)             \
    X(f16, 1, FLX_F16)             \
    X(q4_0, 2, FLX_DTYPE_NONE)     \
    X(q4_1, 3, FLX_DTYPE_NONE)     \
    X(q5_0, 6, FLX_DTYPE_NONE)     \
    X(q5_1, 7, FLX_DTYPE_NONE)     \
    X(q8_0, 8, FLX_DTYPE_NONE)     \
    X(q2_k, 10, FLX_DTYPE_NONE)    \
    X(q3_k, 11, FLX_DTYPE_NONE)    \
    X(q4_k, 12, FLX_DTYPE_NONE)    \
    X(q5_k, 13, FLX_DTYPE_NONE)    \
    X(q6_k, 14, FLX_DTYPE_NONE)    \
    X(q8_k, 15, FLX_DTYPE_NONE)    \
    X(iq2_xxs, 16, FLX_DTYPE_NONE) \
    X(iq2_xs, 17, FLX_DTYPE_NONE)  \
    X(iq3_xxs, 18, FLX_DTYPE_NONE) \
    X(iq1_s, 19, FLX_DTYPE_NONE)   \
    X(iq4_nl, 20, FLX_DTYPE_NONE)  \
    X(iq3_s, 21, FLX_DTYPE_NONE)   \
    X(iq2_s, 22, FLX_DTYPE_NONE)   \
    X(iq4_xs, 23, FLX_DTYPE_NONE)  \
    X(iq1_m, 29, FLX_DTYPE_NONE)   \
    X(bf16, 30, FLX_BF16)          \
    X(tq1_0, 34, FLX_DTYPE_NONE)   \
    X(tq2_0, 35, FLX_DTYPE_NONE)   \
    X(mxfp4, 39, FLX_DTYPE_NONE)

/* X(name, number, dtype, bytes): those that are never the weights of a product. */
#define FLXI_GGUF_PLAIN_MAP(X) \
    X(i8, 24, FLX_I8, 1)       \
    X(i16, 25, FLX_I16, 2)     \
    X(i32, 26, FLX_I32, 4)     \
    X(i64, 27, FLX_I64, 8)     \
    X(f64, 28, FLX_F64, 8)

typedef struct {
    const char *name;
    uint32_t number;
    int32_t dtype;  /* FLX_DTYPE_NONE: packed */
    int32_t format; /* a flxi_gguf; -1: none */
    int32_t count;  /* numbers in a block, 1 for a dtype */
    int32_t nbytes; /* bytes of a block */
} flxi_gguf_type;

/* NULL when there is none. */
const flxi_gguf_type *flxi_gguf_type_of(uint32_t number);
const flxi_gguf_type *flxi_gguf_type_named(const char *name);
const flxi_gguf_type *flxi_gguf_type_of_dtype(int32_t dtype);

#endif
