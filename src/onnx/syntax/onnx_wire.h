/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_wire.h: the wire form of protocol buffers, in which ONNX files are written: fields one after the other, each a
   tag and a value. Nothing is copied, and nothing outside of the span being read is touched. */
#ifndef FLXI_ONNX_WIRE_H
#define FLXI_ONNX_WIRE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* A part of the file. */
typedef struct {
    const unsigned char *at;
    size_t size;
} onnx_span;

typedef struct {
    const unsigned char *base; /* of the file: offsets in messages count from it */
    const char *file;          /* its name, for messages */
    flx_error *err;            /* the first error; filled once */
} onnx_wire;

typedef enum { ONNX_VARINT = 0, ONNX_FIXED64 = 1, ONNX_BYTES = 2, ONNX_FIXED32 = 5 } onnx_wire_kind;

typedef struct {
    uint32_t number;
    onnx_wire_kind kind;
    uint64_t value;  /* of the kinds that are numbers */
    onnx_span bytes; /* of ONNX_BYTES */
} onnx_field;

/* Takes the next field from the front of the span. False at its end, or after an error, which is in w->err. */
bool flxi_onnx_next(onnx_wire *w, onnx_span *s, onnx_field *out);

/* Takes one variable-length integer from the front of the span. */
bool flxi_onnx_varint(onnx_wire *w, onnx_span *s, uint64_t *out);

/* How many fields of this number the span has; 0 after an error. */
size_t flxi_onnx_count(onnx_wire *w, onnx_span s, uint32_t number);

/* SYNTAX at this byte of the file; returns false. */
bool flxi_onnx_malformed(onnx_wire *w, const unsigned char *at, const char *fmt, ...) FLX_PRINTF(3, 4);

#endif
