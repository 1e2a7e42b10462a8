/* SPDX-License-Identifier: Apache-2.0 */
/* sort_keys.c: see sort_keys.h; the loops are sort_keys.inc. They run over vectors of 16 elements. */
#include "backend/cpu/routes/sort/sort_keys.h"

#include "backend/cpu/gemm/gemm.h"
#include "graph/op/eval.h"

#include <string.h>

enum { LANES = 16 };

/* Keys of the elements in a vector v of their bits, and back. `sign` is the highest bit, `inf` the bits of +inf: a
   negative number turns all bits over, another one its sign; NaNs get all bits, zeros the key of +0. */
#define FLOAT_KEY(V, v, sign, inf)                                                           \
    {                                                                                        \
        const V top = (V){0} + (sign), size = (v) & ~top, is_negative = (V)(((v)&top) != 0); \
        const V is_nan = (V)(size > (inf)), is_zero = (V)(size == 0);                        \
        (v) = ((((v) ^ (top | is_negative)) | is_nan) & ~is_zero) | (top & is_zero);         \
    }
#define FLOAT_VALUE(V, v, sign)                          \
    {                                                    \
        const V was_negative = (V)(((v) & (sign)) == 0); \
        (v) ^= (sign) | was_negative;                    \
    }
#define SIGN_f64 (UINT64_C(1) << 63)
#define SIGN_f32 (UINT32_C(1) << 31)
#define SIGN_f16 ((uint16_t)0x8000)
#define SIGN_bf16 ((uint16_t)0x8000)
#define KEY_f64(V, v) FLOAT_KEY(V, v, SIGN_f64, UINT64_C(0x7ff0000000000000))
#define KEY_f32(V, v) FLOAT_KEY(V, v, SIGN_f32, UINT32_C(0x7f800000))
#define KEY_f16(V, v) FLOAT_KEY(V, v, SIGN_f16, (uint16_t)0x7c00)
#define KEY_bf16(V, v) FLOAT_KEY(V, v, SIGN_bf16, (uint16_t)0x7f80)
#define VALUE_f64(V, v) FLOAT_VALUE(V, v, SIGN_f64)
#define VALUE_f32(V, v) FLOAT_VALUE(V, v, SIGN_f32)
#define VALUE_f16(V, v) FLOAT_VALUE(V, v, SIGN_f16)
#define VALUE_bf16 VALUE_f16
#define KEY_u(V, v)
#define VALUE_u KEY_u
#define KEY_i8(V, v) (v) ^= (uint8_t)0x80;
#define KEY_i16(V, v) (v) ^= SIGN_f16;
#define KEY_i32(V, v) (v) ^= SIGN_f32;
#define KEY_i64(V, v) (v) ^= SIGN_f64;

#define EACH_DTYPE(SHORT, LONG)                                 \
    LONG(f64, FLX_F64, true, uint64_t, KEY_f64, VALUE_f64)      \
    SHORT(f32, FLX_F32, true, uint32_t, KEY_f32, VALUE_f32)     \
    SHORT(f16, FLX_F16, true, uint16_t, KEY_f16, VALUE_f16)     \
    SHORT(bf16, FLX_BF16, true, uint16_t, KEY_bf16, VALUE_bf16) \
    SHORT(u8, FLX_U8, false, uint8_t, KEY_u, VALUE_u)           \
    SHORT(u16, FLX_U16, false, uint16_t, KEY_u, VALUE_u)        \
    SHORT(u32, FLX_U32, false, uint32_t, KEY_u, VALUE_u)        \
    LONG(u64, FLX_U64, false, uint64_t, KEY_u, VALUE_u)         \
    SHORT(i8, FLX_I8, false, uint8_t, KEY_i8, KEY_i8)           \
    SHORT(i16, FLX_I16, false, uint16_t, KEY_i16, KEY_i16)      \
    SHORT(i32, FLX_I32, false, uint32_t, KEY_i32, KEY_i32)      \
    LONG(i64, FLX_I64, false, uint64_t, KEY_i64, KEY_i64)

#define TARGET
#define FN(name) plain_##name
#include "backend/cpu/routes/sort/sort_keys.inc"

#if defined(__x86_64__)

#define TARGET __attribute__((target("avx2")))
#define FN(name) avx2_##name
#include "backend/cpu/routes/sort/sort_keys.inc"

#define TARGET __attribute__((target("avx2,avx512f,avx512vl,avx512bw,avx512dq")))
#define FN(name) avx512_##name
#include "backend/cpu/routes/sort/sort_keys.inc"

#endif

const flxi_sort_keys *flxi_sort_keys_of(int32_t dtype)
{
#if defined(__x86_64__)
    if (flxi_isa_available(FLXI_ISA_AVX512) && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return &avx512_rows[dtype];
    if (flxi_isa_available(FLXI_ISA_AVX2))
        return &avx2_rows[dtype];
#endif
    return &plain_rows[dtype];
}
