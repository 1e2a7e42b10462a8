/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_elements.h: the element types of ONNX, and tensors of the file as ours.

   Types narrower than a byte and 8-bit floats have no dtype here. Their values are held by a wider dtype, the carrier,
   which represents each of them exactly. */
#ifndef FLXI_ONNX_ELEMENTS_H
#define FLXI_ONNX_ELEMENTS_H

#include "onnx/syntax/onnx_model.h"

#include <fluxion/tensor.h>

/* X(number in the file, name, carrier, bits) */
#define ONNX_ELEMENTS(X)          \
    X(FLOAT, 1, F32, 32)          \
    X(UINT8, 2, U8, 8)            \
    X(INT8, 3, I8, 8)             \
    X(UINT16, 4, U16, 16)         \
    X(INT16, 5, I16, 16)          \
    X(INT32, 6, I32, 32)          \
    X(INT64, 7, I64, 64)          \
    X(BOOL, 9, BOOL, 8)           \
    X(FLOAT16, 10, F16, 16)       \
    X(DOUBLE, 11, F64, 64)        \
    X(UINT32, 12, U32, 32)        \
    X(UINT64, 13, U64, 64)        \
    X(COMPLEX64, 14, C64, 64)     \
    X(COMPLEX128, 15, C128, 128)  \
    X(BFLOAT16, 16, BF16, 16)     \
    X(FLOAT8E4M3FN, 17, F32, 8)   \
    X(FLOAT8E4M3FNUZ, 18, F32, 8) \
    X(FLOAT8E5M2, 19, F32, 8)     \
    X(FLOAT8E5M2FNUZ, 20, F32, 8) \
    X(UINT4, 21, U8, 4)           \
    X(INT4, 22, I8, 4)            \
    X(FLOAT4E2M1, 23, F32, 4)     \
    X(FLOAT8E8M0, 24, F32, 8)     \
    X(UINT2, 25, U8, 2)           \
    X(INT2, 26, I8, 2)

enum {
#define X(name, number, carrier, bits) ONNX_##name = number,
    ONNX_ELEMENTS(X)
#undef X
        ONNX_STRING = 8
};

typedef struct {
    int32_t number;
    const char *name;
    flx_dtype carrier;
    int bits;
} onnx_element;

/* NULL for a type that is not known here, such as STRING. */
const onnx_element *flxi_onnx_element(int32_t number);
/* The element type that a dtype is. */
int32_t flxi_onnx_element_of(int32_t dtype);

/* An 8-bit or 4-bit float: exponent and mantissa bits, bias, the largest number. */
typedef struct {
    int32_t number;
    int exponent, mantissa, bias;
    bool has_inf;
    bool has_nan;
    bool is_fnuz; /* one zero and one NaN, where others have minus zero */
    double largest;
} onnx_float_format;

/* NULL for a type that has a dtype of its own. */
const onnx_float_format *flxi_onnx_float_format(int32_t element);
double flxi_onnx_float_decode(const onnx_float_format *f, unsigned bits);

/* Where the bytes of external data come from. */
typedef struct {
    const char *folder; /* NULL: external data is refused */
    const char *file;   /* for messages */
} onnx_origin;

/* The tensor as one of the carrier, or texts as their bytes (onnx_texts.h). Sizes are compared with the bytes that are
   there before memory is taken. */
flx_tensor *flxi_onnx_tensor(flx_context *ctx, const onnx_tensor *t, const onnx_origin *origin, flx_error *err);
/* A sparse tensor with all of its zeros. */
flx_tensor *flxi_onnx_sparse_tensor(flx_context *ctx, const onnx_sparse *t, const onnx_origin *origin, flx_error *err);

#endif
