/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_wire.c: see onnx_wire.h. */
#include "onnx/syntax/onnx_wire.h"

#include "format/endian.h"

#include <stdarg.h>

bool flxi_onnx_malformed(onnx_wire *w, const unsigned char *at, const char *fmt, ...)
{
    va_list args;
    if (w->err->code != FLX_OK)
        return false;
    va_start(args, fmt);
    flxi_fail_va(w->err, FLX_E_SYNTAX, NULL, fmt, args);
    va_end(args);
    flxi_at(w->err, "%.90s:%zu", w->file, (size_t)(at - w->base));
    return false;
}

static void advance(onnx_span *s, size_t n)
{
    s->at += n;
    s->size -= n;
}

bool flxi_onnx_varint(onnx_wire *w, onnx_span *s, uint64_t *out)
{
    const unsigned char *start = s->at;
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && s->size; shift += 7) {
        unsigned char byte = *s->at;
        advance(s, 1);
        if (shift == 63 && byte > 1)
            return flxi_onnx_malformed(w, start, "a number has more than 64 bits");
        value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128)) {
            *out = value;
            return true;
        }
    }
    return flxi_onnx_malformed(w, start, "a number is not complete");
}

static bool take_fixed(onnx_wire *w, onnx_span *s, size_t n, uint64_t *out)
{
    if (s->size < n)
        return flxi_onnx_malformed(w, s->at, "a field of %zu bytes is not complete", n);
    *out = n == 8 ? flxi_get64(s->at) : flxi_get32(s->at);
    advance(s, n);
    return true;
}

static bool take_bytes(onnx_wire *w, onnx_span *s, onnx_span *out)
{
    const unsigned char *start = s->at;
    uint64_t n;
    if (!flxi_onnx_varint(w, s, &n))
        return false;
    if (n > s->size)
        return flxi_onnx_malformed(w, start, "a field claims %llu bytes, but only %zu are left", (unsigned long long)n,
                                   s->size);
    *out = (onnx_span){s->at, (size_t)n};
    advance(s, (size_t)n);
    return true;
}

bool flxi_onnx_next(onnx_wire *w, onnx_span *s, onnx_field *out)
{
    const unsigned char *start = s->at;
    uint64_t tag;
    if (s->size == 0 || w->err->code != FLX_OK || !flxi_onnx_varint(w, s, &tag))
        return false;
    *out = (onnx_field){.number = (uint32_t)(tag >> 3), .kind = (onnx_wire_kind)(tag & 7)};
    if (tag >> 3 == 0 || tag >> 32 != 0)
        return flxi_onnx_malformed(w, start, "there is no field with this number");
    switch (out->kind) {
    case ONNX_VARINT: return flxi_onnx_varint(w, s, &out->value);
    case ONNX_FIXED64: return take_fixed(w, s, 8, &out->value);
    case ONNX_FIXED32: return take_fixed(w, s, 4, &out->value);
    case ONNX_BYTES: return take_bytes(w, s, &out->bytes);
    }
    return flxi_onnx_malformed(w, start, "a field has the unknown wire type %u", (unsigned)(tag & 7));
}

size_t flxi_onnx_count(onnx_wire *w, onnx_span s, uint32_t number)
{
    size_t n = 0;
    for (onnx_field f; flxi_onnx_next(w, &s, &f);)
        n += f.number == number;
    return w->err->code == FLX_OK ? n : 0;
}
