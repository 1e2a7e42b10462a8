/* SPDX-License-Identifier: Apache-2.0 */
/* type.h: properties of dtypes and types. */
#ifndef FLXI_TYPE_H
#define FLXI_TYPE_H

#include "graph/type/dim.h"

/* Sets of dtypes, bit 1 << dtype. */
typedef uint32_t flxi_dtypes;
#define FLXI_BIT(d) (UINT32_C(1) << (d))
#define FLXI_FLOATS (FLXI_BIT(FLX_F64) | FLXI_BIT(FLX_F32) | FLXI_BIT(FLX_F16) | FLXI_BIT(FLX_BF16))
#define FLXI_COMPLEX (FLXI_BIT(FLX_C64) | FLXI_BIT(FLX_C128))
#define FLXI_FACTORED \
    (FLXI_BIT(FLX_F64) | FLXI_BIT(FLX_F32) | FLXI_COMPLEX) /* for linear algebra: f16 would lose too
                                                                                much precision */
#define FLXI_SIGNED (FLXI_BIT(FLX_I64) | FLXI_BIT(FLX_I32) | FLXI_BIT(FLX_I16) | FLXI_BIT(FLX_I8))
#define FLXI_UNSIGNED (FLXI_BIT(FLX_U64) | FLXI_BIT(FLX_U32) | FLXI_BIT(FLX_U16) | FLXI_BIT(FLX_U8))
#define FLXI_INTS (FLXI_SIGNED | FLXI_UNSIGNED)
#define FLXI_BOOL FLXI_BIT(FLX_BOOL)
#define FLXI_ANY (FLXI_FLOATS | FLXI_COMPLEX | FLXI_INTS | FLXI_BOOL)

static inline bool flxi_in(flxi_dtypes set, int32_t dtype)
{
    return dtype > 0 && dtype < FLX_DTYPE_COUNT && (set >> dtype & 1);
}
static inline bool flxi_is_float(int32_t d)
{
    return flxi_in(FLXI_FLOATS, d);
}
static inline bool flxi_is_complex(int32_t d)
{
    return flxi_in(FLXI_COMPLEX, d);
}
static inline bool flxi_is_int(int32_t d)
{
    return flxi_in(FLXI_INTS, d);
}
static inline bool flxi_is_signed(int32_t d)
{
    return flxi_in(FLXI_SIGNED, d);
}

int32_t flxi_part_dtype(int32_t dtype);    /* c64 → f32, c128 → f64, others themselves */
int32_t flxi_complex_dtype(int32_t dtype); /* f32 → c64, f64 → c128, others FLX_DTYPE_NONE */
int flxi_int_bits(int32_t dtype);          /* 8…64; bool 1; others 0 */
int flxi_mantissa_bits(int32_t dtype);     /* of a float or of a complex number's parts: 53 24 11 8 */

bool flxi_type_equal(const flx_type *a, const flx_type *b);
bool flxi_type_is_static(const flx_type *t);
uint64_t flxi_type_hash(uint64_t h, const flx_type *t); /* within one context */
void flxi_type_write(flx_context *ctx, const flx_type *t, flxi_strbuf *out);

/* The product of dims [from, to), 1 when empty; FLX_DIM_INVALID on overflow. */
flx_dim flxi_dims_product(flx_context *ctx, const flx_type *t, int from, int to);
flx_dim flxi_type_count(flx_context *ctx, const flx_type *t);

/* Elements and bytes of a static type; false when they overflow or exceed what one address space holds. */
bool flxi_static_count(const flx_type *t, int64_t *count);
bool flxi_static_bytes(const flx_type *t, size_t *nbytes);
/* Its elements; 0 where flxi_static_count() fails. */
int64_t flxi_known_count(const flx_type *t);

/* The product of numbers dims [from, to), 1 when empty; 0 where one of them is 0, however large the others are. */
int64_t flxi_static_extent(const flx_type *t, int from, int to);

/* dtype known, rank in range, every dim a number ≥ 0 or symbolic, size representable. */
flx_code flxi_type_check(flx_context *ctx, const flx_type *t, flx_error *err);

/* The type as text in one of a few rotating slots of the caller's buffer: for messages. */
typedef struct {
    char text[160];
} flxi_type_text;
const char *flxi_type_str(flx_context *ctx, const flx_type *t, flxi_type_text *buffer);  /* "f32[2, 3]" */
const char *flxi_shape_str(flx_context *ctx, const flx_type *t, flxi_type_text *buffer); /* "[2, 3]" */

#endif
