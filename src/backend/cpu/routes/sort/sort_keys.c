/* SPDX-License-Identifier: Apache-2.0 */
/* sort_keys.c: see sort_keys.h. Dense loops run over blocks of fixed length, which are compiled to vectors. */
#include "backend/cpu/routes/sort/sort_keys.h"

#include "graph/op/eval.h"

enum { BLOCK = 16 };

/* x is the bits of a float; `sign` the highest of them, and `inf` those of +inf. */
#define FLOAT_KEY(U, x, sign, inf)              \
    ((U)((x) & (U) ~(sign)) > (inf) ? (U) ~(U)0 \
     : (U)((x) & (U) ~(sign)) == 0  ? (sign)    \
     : (x) & (sign)                 ? (U) ~(x)  \
                                    : (U)((x) | (sign)))
#define FLOAT_VALUE(U, k, sign) ((k) & (sign) ? (U)((k) ^ (sign)) : (U) ~(k))

#define KEY_f64(x) FLOAT_KEY(uint64_t, x, UINT64_C(1) << 63, UINT64_C(0x7ff0000000000000))
#define KEY_f32(x) FLOAT_KEY(uint32_t, x, UINT32_C(1) << 31, UINT32_C(0x7f800000))
#define KEY_f16(x) FLOAT_KEY(uint16_t, x, (uint16_t)0x8000, 0x7c00)
#define KEY_bf16(x) FLOAT_KEY(uint16_t, x, (uint16_t)0x8000, 0x7f80)
#define VALUE_f64(k) FLOAT_VALUE(uint64_t, k, UINT64_C(1) << 63)
#define VALUE_f32(k) FLOAT_VALUE(uint32_t, k, UINT32_C(1) << 31)
#define VALUE_f16(k) FLOAT_VALUE(uint16_t, k, (uint16_t)0x8000)
#define VALUE_bf16 VALUE_f16
#define KEY_u(x) (x)
#define VALUE_u KEY_u
#define KEY_i8(x) ((uint8_t)((x) ^ 0x80))
#define KEY_i16(x) ((uint16_t)((x) ^ 0x8000))
#define KEY_i32(x) ((x) ^ UINT32_C(1) << 31)
#define KEY_i64(x) ((x) ^ UINT64_C(1) << 63)

/* U: the bits of an element; K: an item that is a key alone. */
#define KEYS(name, U, K, KEY, VALUE)                                                                              \
    static void keys_##name(const void *from, int64_t step, int64_t n, uint64_t flip, void *items)                \
    {                                                                                                             \
        const U *restrict x = from;                                                                               \
        K *restrict to = items;                                                                                   \
        const U turn = (U)flip;                                                                                   \
        int64_t i = 0;                                                                                            \
        if (step == 1)                                                                                            \
            for (; i + BLOCK <= n; i += BLOCK)                                                                    \
                for (int64_t j = i; j < i + BLOCK; j++)                                                           \
                    to[j] = (U)(KEY(x[j]) ^ turn);                                                                \
        for (; i < n; i++)                                                                                        \
            to[i] = (U)(KEY(x[i * step]) ^ turn);                                                                 \
    }                                                                                                             \
    static void values_##name(const void *items, int64_t n, uint64_t flip, void *to, int64_t step)                \
    {                                                                                                             \
        const K *restrict keys = items;                                                                           \
        U *restrict y = to;                                                                                       \
        const K turn = (K)flip;                                                                                   \
        int64_t i = 0;                                                                                            \
        if (step == 1)                                                                                            \
            for (; i + BLOCK <= n; i += BLOCK)                                                                    \
                for (int64_t j = i; j < i + BLOCK; j++)                                                           \
                    y[j] = (U)VALUE((U)(keys[j] ^ turn));                                                         \
        for (; i < n; i++)                                                                                        \
            y[i * step] = (U)VALUE((U)(keys[i] ^ turn));                                                          \
    }                                                                                                             \
    static void restore_##name(const void *from, int64_t step, int64_t n, void *to, int64_t y_step, int64_t zero, \
                               int64_t nan)                                                                       \
    {                                                                                                             \
        const U *x = from;                                                                                        \
        U *y = to;                                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                         \
            const U v = x[i * step];                                                                              \
            const U key = (U)KEY(v);                                                                              \
            if (key == (U)((U)1 << (sizeof(U) * 8 - 1)))                                                          \
                y[y_step * zero++] = v;                                                                           \
            else if (key == (U) ~(U)0)                                                                            \
                y[y_step * nan++] = v;                                                                            \
        }                                                                                                         \
    }
#define PAIRS(name, U, KEY)                                                                                        \
    static void pairs_##name(const void *from, int64_t step, int64_t n, uint64_t flip, int64_t first, void *items) \
    {                                                                                                              \
        const U *restrict x = from;                                                                                \
        uint64_t *restrict to = items;                                                                             \
        const U turn = (U)flip;                                                                                    \
        for (int64_t i = 0; i < n; i++)                                                                            \
            to[i] = (uint64_t)(U)(KEY(x[i * step]) ^ turn) << 32 | (uint32_t)(first + i);                          \
    }
#define SHORT(name, U, KEY, VALUE)      \
    KEYS(name, U, uint32_t, KEY, VALUE) \
    PAIRS(name, U, KEY)
#define LONG(name, U, KEY, VALUE) KEYS(name, U, uint64_t, KEY, VALUE)

LONG(f64, uint64_t, KEY_f64, VALUE_f64)
SHORT(f32, uint32_t, KEY_f32, VALUE_f32)
SHORT(f16, uint16_t, KEY_f16, VALUE_f16)
SHORT(bf16, uint16_t, KEY_bf16, VALUE_bf16)
SHORT(u8, uint8_t, KEY_u, VALUE_u)
SHORT(u16, uint16_t, KEY_u, VALUE_u)
SHORT(u32, uint32_t, KEY_u, VALUE_u)
LONG(u64, uint64_t, KEY_u, VALUE_u)
SHORT(i8, uint8_t, KEY_i8, KEY_i8)
SHORT(i16, uint16_t, KEY_i16, KEY_i16)
SHORT(i32, uint32_t, KEY_i32, KEY_i32)
LONG(i64, uint64_t, KEY_i64, KEY_i64)

#define ROW(bits, is_float, name)                                                \
    {                                                                            \
        bits, is_float, keys_##name, pairs_##name, values_##name, restore_##name \
    }
#define LONG_ROW(is_float, name)                                       \
    {                                                                  \
        64, is_float, keys_##name, NULL, values_##name, restore_##name \
    }

const flxi_sort_keys *flxi_sort_keys_of(int32_t dtype)
{
    static const flxi_sort_keys rows[] = {
        [FLX_BOOL] = ROW(8, false, u8),  [FLX_I8] = ROW(8, false, i8),     [FLX_I16] = ROW(16, false, i16),
        [FLX_I32] = ROW(32, false, i32), [FLX_I64] = LONG_ROW(false, i64), [FLX_U8] = ROW(8, false, u8),
        [FLX_U16] = ROW(16, false, u16), [FLX_U32] = ROW(32, false, u32),  [FLX_U64] = LONG_ROW(false, u64),
        [FLX_F16] = ROW(16, true, f16),  [FLX_BF16] = ROW(16, true, bf16), [FLX_F32] = ROW(32, true, f32),
        [FLX_F64] = LONG_ROW(true, f64),
    };
    return &rows[dtype];
}
