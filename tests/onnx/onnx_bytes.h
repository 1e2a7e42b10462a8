/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_bytes.h: writes small ONNX models for tests: fields of protocol buffers, one after the other. */
#ifndef TESTS_ONNX_BYTES_H
#define TESTS_ONNX_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    unsigned char at[4096];
    size_t n;
} onnx_bytes;

static inline void put_varint(onnx_bytes *b, uint64_t v)
{
    for (; v >= 128 && b->n < sizeof b->at; v >>= 7)
        b->at[b->n++] = (unsigned char)(v & 127) | 128;
    if (b->n < sizeof b->at)
        b->at[b->n++] = (unsigned char)v;
}

static inline void put_int(onnx_bytes *b, uint32_t field, uint64_t v)
{
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, v);
}

static inline void put_bytes(onnx_bytes *b, uint32_t field, const void *data, size_t n)
{
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, n);
    if (b->n + n <= sizeof b->at) {
        memcpy(b->at + b->n, data, n);
        b->n += n;
    }
}

static inline void put_text(onnx_bytes *b, uint32_t field, const char *s)
{
    put_bytes(b, field, s, strlen(s));
}

static inline void put_part(onnx_bytes *b, uint32_t field, const onnx_bytes *part)
{
    put_bytes(b, field, part->at, part->n);
}

/* A node with up to two operands. */
static inline onnx_bytes onnx_node_bytes(const char *op, const char *a, const char *c, const char *result)
{
    onnx_bytes n = {.n = 0};
    put_text(&n, 1, a);
    if (c)
        put_text(&n, 1, c);
    put_text(&n, 2, result);
    put_text(&n, 4, op);
    return n;
}

/* A tensor without elements; the caller adds them. */
static inline onnx_bytes onnx_tensor_bytes(const char *name, int element, const int64_t *dims, size_t rank)
{
    onnx_bytes t = {.n = 0};
    for (size_t i = 0; i < rank; i++)
        put_int(&t, 1, (uint64_t)dims[i]);
    put_int(&t, 2, (uint64_t)element);
    put_text(&t, 8, name);
    return t;
}

/* An input or output that is a tensor; an extent of -1 is called N. */
static inline onnx_bytes onnx_info_bytes(const char *name, int element, const int64_t *dims, size_t rank)
{
    onnx_bytes shape = {.n = 0}, tensor = {.n = 0}, type = {.n = 0}, info = {.n = 0};
    for (size_t i = 0; i < rank; i++) {
        onnx_bytes dim = {.n = 0};
        if (dims[i] < 0)
            put_text(&dim, 2, "N");
        else
            put_int(&dim, 1, (uint64_t)dims[i]);
        put_part(&shape, 1, &dim);
    }
    put_int(&tensor, 1, (uint64_t)element);
    put_part(&tensor, 2, &shape);
    put_part(&type, 1, &tensor);
    put_text(&info, 1, name);
    put_part(&info, 2, &type);
    return info;
}

/* A model of this graph and version of the standard domain. */
static inline onnx_bytes onnx_model_bytes(const onnx_bytes *graph, int64_t version)
{
    onnx_bytes m = {.n = 0}, opset = {.n = 0};
    put_text(&opset, 1, "");
    put_int(&opset, 2, (uint64_t)version);
    put_int(&m, 1, 8);
    put_part(&m, 7, graph);
    put_part(&m, 8, &opset);
    return m;
}

#endif
