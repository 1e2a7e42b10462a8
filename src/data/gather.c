/* SPDX-License-Identifier: Apache-2.0 */
/* gather.c: rows of a column, one after the other. Rows that are stored as they are given are copied, neighbours in one
   piece; others are converted element by element, in loops that the compiler vectorises. Rows at random addresses are
   fetched some rows ahead, since the processor cannot guess them. */
#include "data/dataset.h"

#include "base/half.h"
#include "base/host/stop.h"
#include "graph/type/tensor.h"

enum { AHEAD = 8, LINE = 64, FETCHED = 1024, BETWEEN_POLLS = 256 };

static size_t stored_bytes(const flxi_column *c)
{
    return (size_t)c->row_count * flx_dtype_size(c->stored);
}

size_t flxi_column_row_bytes(const flxi_column *c)
{
    return (size_t)c->row_count * flx_dtype_size(c->type.dtype);
}

size_t flxi_column_scratch(const flxi_column *c)
{
    return c->make && c->is_converted ? stored_bytes(c) : 0;
}

/* ---- Conversion ---- */

/* For f32 the arithmetic is f32: 8 and 16 bits are exact in it, and it is twice as fast. Integers keep their value:
   only conversions to wider ones get here. */
#define LOOP(from_type, to_type, expression) \
    do {                                     \
        const from_type *x = from;           \
        to_type *y = to;                     \
        for (int64_t i = 0; i < n; i++)      \
            y[i] = (to_type)(expression);    \
    } while (0)

#define CASES(from_type)                                                           \
    switch (c->type.dtype) {                                                       \
    case FLX_F32: LOOP(from_type, float, (float)x[i] * scale32 + offset32); break; \
    case FLX_F64: LOOP(from_type, double, (double)x[i] * scale + offset); break;   \
    case FLX_I32: LOOP(from_type, int32_t, x[i]); break;                           \
    default: LOOP(from_type, int64_t, x[i]); break;                                \
    }

#define FLOAT_CASES(from_type, value)                              \
    if (c->type.dtype == FLX_F32)                                  \
        LOOP(from_type, float, (float)(value)*scale32 + offset32); \
    else                                                           \
        LOOP(from_type, double, (double)(value)*scale + offset);

static void convert(const flxi_column *c, const void *from, void *to)
{
    const int64_t n = c->row_count;
    const double scale = c->scale, offset = c->offset;
    const float scale32 = (float)scale, offset32 = (float)offset;
    switch (c->stored) {
    case FLX_BOOL:
    case FLX_U8: CASES(uint8_t); break;
    case FLX_I8: CASES(int8_t); break;
    case FLX_U16: CASES(uint16_t); break;
    case FLX_I16: CASES(int16_t); break;
    case FLX_U32: CASES(uint32_t); break;
    case FLX_I32: CASES(int32_t); break;
    case FLX_I64: CASES(int64_t); break;
    case FLX_U64: FLOAT_CASES(uint64_t, x[i]); break;
    case FLX_F32: FLOAT_CASES(float, x[i]); break;
    case FLX_F64: FLOAT_CASES(double, x[i]); break;
    case FLX_F16: FLOAT_CASES(uint16_t, flxi_from_f16(x[i])); break;
    case FLX_BF16: FLOAT_CASES(uint16_t, flxi_from_bf16(x[i])); break;
    default: break; /* complex: refused by flx_dataset_convert() */
    }
}

/* ---- Rows ---- */

static flx_code make_rows(const flxi_column *c, const int64_t *rows, int64_t count, void *out, void *scratch,
                          flx_error *err)
{
    unsigned char *to = out;
    size_t step = flxi_column_row_bytes(c);
    for (int64_t i = 0; i < count && !flxi_stopped(); i++, to += step) {
        flx_error inner = {0};
        int64_t row = c->first_row + flxi_column_row(c, rows[i]);
        flx_code code = c->make(c->user, row, c->is_converted ? scratch : to, &inner);
        if (code != FLX_OK) {
            code = flxi_is_code((int32_t)code) ? code : FLX_E_USAGE;
            flxi_fail(err, code, "column '%.60s', row %lld: %.120s", c->name, (long long)row,
                      inner.message[0] ? inner.message : "the function of the program failed");
            if (inner.where[0])
                flxi_at(err, "%s", inner.where);
            if (inner.hint[0])
                flxi_hint(err, "%s", inner.hint);
            return code;
        }
        if (c->is_converted)
            convert(c, scratch, to);
    }
    return FLX_OK;
}

static const unsigned char *row_at(const flxi_column *c, int64_t row)
{
    return (const unsigned char *)c->base->data + c->first + (size_t)flxi_column_row(c, row) * c->stride;
}

/* Fetches the beginning of a row that is needed soon; the processor guesses how it continues. */
static void fetch_row(const flxi_column *c, int64_t row)
{
    const unsigned char *p = row_at(c, row);
    size_t n = stored_bytes(c);
    for (size_t i = 0; i < n && i < FETCHED; i += LINE)
        __builtin_prefetch(p + i);
}

static void convert_rows(const flxi_column *c, const int64_t *rows, int64_t count, unsigned char *out)
{
    size_t step = flxi_column_row_bytes(c);
    for (int64_t i = 0; i < count; i++, out += step) {
        if (i % BETWEEN_POLLS == 0 && flxi_stopped())
            return;
        if (i + AHEAD < count)
            fetch_row(c, rows[i + AHEAD]);
        convert(c, row_at(c, rows[i]), out);
    }
}

static void copy_rows(const flxi_column *c, const int64_t *rows, int64_t count, unsigned char *out)
{
    size_t step = flxi_column_row_bytes(c);
    bool is_dense = c->stride == step && !c->order;
    for (int64_t i = 0; i < count;) {
        int64_t run = 1;
        while (is_dense && i + run < count && run < BETWEEN_POLLS && rows[i + run] == rows[i] + run)
            run++;
        if (i % BETWEEN_POLLS < run && flxi_stopped())
            return;
        if (i + AHEAD < count)
            fetch_row(c, rows[i + AHEAD]);
        memcpy(out, row_at(c, rows[i]), (size_t)run * step);
        out += (size_t)run * step;
        i += run;
    }
}

flx_code flxi_column_gather(const flxi_column *c, const int64_t *rows, int64_t count, void *out, void *scratch,
                            flx_error *err)
{
    if (c->make)
        return make_rows(c, rows, count, out, scratch, err);
    if (c->row_count == 0)
        return FLX_OK;
    if (c->is_converted)
        convert_rows(c, rows, count, out);
    else
        copy_rows(c, rows, count, out);
    return FLX_OK;
}
