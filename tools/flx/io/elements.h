/* SPDX-License-Identifier: Apache-2.0 */
/* elements.h: single elements of tensors, exactly. The library's flx_tensor_get() gives a double, which cannot hold
   every 64-bit integer, and only the real part of a complex number. */
#ifndef FLX_ELEMENTS_H
#define FLX_ELEMENTS_H

#include <fluxion/tensor.h>
#include <stdbool.h>

typedef enum {
    KIND_NONE,
    KIND_FLOAT,
    KIND_COMPLEX,
    KIND_SIGNED,
    KIND_UNSIGNED,
    KIND_BOOL,
} dtype_kind;

dtype_kind kind_of(int32_t dtype);
bool kind_is_integer(dtype_kind kind); /* bool is none */

/* An integer that any integer dtype can hold: its sign and its absolute value. */
typedef struct {
    bool negative; /* never for 0 */
    uint64_t magnitude;
} integer;

integer element_integer(const flx_tensor *t, int64_t i); /* of an integer or bool tensor */
int integer_compare(integer a, integer b);               /* negative, 0 or positive */
bool integer_fits(integer v, int32_t dtype);
/* The little end of `v` in two's complement. */
uint64_t integer_bits(integer v);

double element_imaginary(const flx_tensor *t, int64_t i); /* 0 unless complex */

#endif
