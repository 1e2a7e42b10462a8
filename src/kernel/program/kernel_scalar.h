/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_scalar.h: what one op does to the bits of its operands, and the layout of elements in memory. This is the
   single definition of kernel arithmetic: the interpreter runs it and constant folding calls it.

   A value is its bit pattern in the low bits of a uint64_t, the rest zero: the i8 -1 is 0xff, a bool is 0 or 1. All
   functions are total: nothing faults, and an op on a type that it does not take gives 0. Results that are NaN are the
   positive quiet NaN without payload. Ops that only move data (select, bitcast, min and max of numbers, loads and
   stores of arithmetic types) keep all bits, and neg, abs and copysign change only the sign bit, also of a NaN. */
#ifndef FLXI_KERNEL_SCALAR_H
#define FLXI_KERNEL_SCALAR_H

#include "kernel/program/kernel.h"

/* `type` is that of the operands; the result has the type flxi_kop_type() gives. The operands of logical_and and
   logical_or may differ in type: they are compared with 0. */
uint64_t flxi_kscalar_unary(flxi_kunary op, uint32_t type, uint64_t x);
uint64_t flxi_kscalar_binary(flxi_kbinary op, uint32_t type, uint64_t x, uint64_t y);
uint64_t flxi_kscalar_fma(uint32_t type, uint64_t x, uint64_t y, uint64_t z);
uint64_t flxi_kscalar_cast(uint32_t to, uint32_t from, uint64_t x);

/* The value of a unary, binary, select, fma, cast or bitcast expression `e` whose operands have these types and bits.
   False for other expressions and for ill-typed ones. */
bool flxi_kscalar_eval(const flxi_kx *e, const uint32_t *types, const uint64_t *x, uint64_t *result);

/* What checked mode reports about an op that is defined nevertheless: "division by zero" or "signed overflow"; else
   NULL. */
const char *flxi_kscalar_unary_fault(flxi_kunary op, uint32_t type, uint64_t x);
const char *flxi_kscalar_binary_fault(flxi_kbinary op, uint32_t type, uint64_t x, uint64_t y);

/* The value that an atomic leaves in an element that held `old`; only compare-exchange uses `expected`, and it compares
   bits. */
uint64_t flxi_kscalar_atomic(flx_kernel_atomic op, uint32_t type, uint64_t old, uint64_t value, uint64_t expected);

/* Conversion between values and doubles, for literals, messages and tests. From double: floats are rounded once,
   integers are truncated and saturate, NaN becomes 0 in types without NaN. To double: exact, except for integers beyond
   2^53. */
uint64_t flxi_kscalar_from_double(uint32_t type, double value);
double flxi_kscalar_to_double(uint32_t type, uint64_t x);

/* Elements of a buffer. `index` must be in range. A load gives the bits of flxi_ktype_of(element)->value; a store
   takes them and rounds to nearest, ties to even codes:
   - f8e4m3 has no infinities: values that round beyond 448 become NaN; f8e5m2 has infinities.
   - fp4 (0 0.5 1 1.5 2 3 4 6 and negatives) and nf4 (flxi_knf4) have neither infinities nor NaN: larger values saturate
     to the largest value, NaN becomes 0.
   - i4 and u4 keep the low 4 bits, as casts between integers do.
   4-bit elements share a byte, low half first; a store keeps the other half. Descriptive elements load 0 and are not
   stored. */
uint64_t flxi_kscalar_load(uint32_t element, const void *memory, uint64_t index);
void flxi_kscalar_store(uint32_t element, void *memory, uint64_t index, uint64_t value);

extern const float flxi_kfp4[16]; /* values by code */
extern const float flxi_knf4[16]; /* values by code, ascending */

#endif
