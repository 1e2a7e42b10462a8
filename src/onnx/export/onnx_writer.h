/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_writer.h: writing graphs as ONNX models. A table (onnx_export.def) has a row for each op that can be written:
   the operation there, and the function that writes it. A node may become several operations; values between them have
   names of their own. */
#ifndef FLXI_ONNX_WRITER_H
#define FLXI_ONNX_WRITER_H

#include "base/strbuf.h"
#include "graph/graph.h"

typedef struct {
    char text[120];
} onnx_label;

typedef struct {
    const flx_graph *g;
    flxi_strbuf nodes;   /* fields of the graph: nodes … */
    flxi_strbuf tensors; /* … and initialisers */
    uint32_t fresh;      /* names made so far */
    flx_error *err;      /* the first */
} onnx_writer;

/* A node of the graph about to be written. */
typedef struct {
    onnx_writer *w;
    size_t index;
    const char *op; /* ours */
    const char *to; /* the operation of the row */
    uint32_t nin, nout;
} onnx_source;

#define ONNX_EXPORT_VERSION 21

/* ---- Names ---- */

onnx_label flxi_onnx_in(const onnx_source *n, uint32_t i);
onnx_label flxi_onnx_out(const onnx_source *n, uint32_t i);
onnx_label flxi_onnx_fresh(onnx_writer *w);
onnx_label flxi_onnx_value_label(const flx_graph *g, flx_val v);

/* ---- Attributes of our node ---- */

bool flxi_onnx_list(const onnx_source *n, const char *key, flx_ints *out); /* false: it has no value */
int64_t flxi_onnx_integer(const onnx_source *n, const char *key, int64_t absent);
double flxi_onnx_number_of(const onnx_source *n, const char *key, double absent);
const char *flxi_onnx_word_of(const onnx_source *n, const char *key, onnx_label *buffer);
const flx_type *flxi_onnx_in_type(const onnx_source *n, uint32_t i);
const flx_type *flxi_onnx_out_type(const onnx_source *n, uint32_t i);

/* ---- Writing ---- */

/* An attribute of an operation. */
typedef struct {
    const char *name;
    enum { ONNX_W_INT, ONNX_W_REAL, ONNX_W_TEXT, ONNX_W_INTS } kind;
    int64_t i;
    double r;
    const char *s;
    flx_ints ints;
} onnx_setting;

#define ONNX_INT(key, v) ((onnx_setting){.name = (key), .kind = ONNX_W_INT, .i = (v)})
#define ONNX_REAL(key, v) ((onnx_setting){.name = (key), .kind = ONNX_W_REAL, .r = (v)})
#define ONNX_TEXT(key, v) ((onnx_setting){.name = (key), .kind = ONNX_W_TEXT, .s = (v)})
#define ONNX_INTS(key, v) ((onnx_setting){.name = (key), .kind = ONNX_W_INTS, .ints = (v)})

void flxi_onnx_put(onnx_writer *w, const char *operation, const onnx_label *in, size_t nin, const onnx_label *out,
                   size_t nout, const onnx_setting *settings, size_t num_settings);
/* One result. */
void flxi_onnx_put1(onnx_writer *w, const char *operation, const onnx_label *in, size_t nin, const onnx_label *out);
/* A tensor as an initialiser of this name. */
void flxi_onnx_put_tensor(onnx_writer *w, const char *name, const flx_tensor *t);
/* A constant vector of integers; a scalar of a dtype. */
onnx_label flxi_onnx_put_ints(onnx_writer *w, flx_ints v);
onnx_label flxi_onnx_put_scalar(onnx_writer *w, flx_dtype dtype, double x);

/* Fails with UNSUPPORTED, naming the op. */
void flxi_onnx_refuse(const onnx_source *n, const char *why);

/* The writer of an op; NULL when it has no row. */
typedef void (*onnx_write_fn)(const onnx_source *n);
onnx_write_fn flxi_onnx_writer_of(const char *op, const char **to);

#endif
