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
    const onnx_label *leaves; /* of a body: what its inputs are called outside; NULL: their own names */
    uint32_t body;            /* of a body: a number that its values have in their names; 0: none */
    flxi_strbuf nodes;        /* fields of the graph: nodes … */
    flxi_strbuf tensors;      /* … and initialisers */
    uint32_t *fresh;          /* names made so far, in all graphs of the model */
    uint32_t op;              /* the opcode of the node being written */
    uint32_t *refused;        /* … and of the one that was refused */
    uint32_t *visits;         /* nodes of ours written so far, in all graphs: a body is written at each use */
    flx_error *err;           /* the first */
} onnx_writer;

/* Operands and results of a node in other dtypes than ours. */
typedef struct {
    const onnx_label *in, *out;
    const flx_type *in_types, *out_types;
} onnx_carried;

/* A node of the graph about to be written. */
typedef struct {
    onnx_writer *w;
    size_t index;
    const char *op; /* ours */
    const char *to; /* the operation of the row */
    uint32_t nin, nout;
    const onnx_carried *carried; /* NULL: as they are */
} onnx_source;

/* A row of onnx_export.def. */
typedef struct {
    const char *op, *to;
    void (*write)(const onnx_source *n);
    uint32_t types; /* a bit for each dtype */
} onnx_export_row;

#define ONNX_EXPORT_VERSION 21

/* ---- Names ---- */

onnx_label flxi_onnx_in(const onnx_source *n, uint32_t i);
onnx_label flxi_onnx_out(const onnx_source *n, uint32_t i);
onnx_label flxi_onnx_fresh(onnx_writer *w);
onnx_label flxi_onnx_value_label(const onnx_writer *w, flx_val v);

/* ---- Attributes of our node ---- */

bool flxi_onnx_list(const onnx_source *n, const char *key, flx_ints *out); /* false: it has no value */
bool flxi_onnx_numbers(const onnx_source *n, const char *key, flx_reals *out);
int64_t flxi_onnx_integer(const onnx_source *n, const char *key, int64_t absent);
double flxi_onnx_number_of(const onnx_source *n, const char *key, double absent);
const char *flxi_onnx_word_of(const onnx_source *n, const char *key, onnx_label *buffer);
const flx_type *flxi_onnx_in_type(const onnx_source *n, uint32_t i);
const flx_type *flxi_onnx_out_type(const onnx_source *n, uint32_t i);

/* ---- Writing ---- */

/* An attribute of an operation. */
typedef struct {
    const char *name;
    enum { ONNX_W_INT, ONNX_W_REAL, ONNX_W_TEXT, ONNX_W_INTS, ONNX_W_GRAPH } kind;
    int64_t i;
    double r;
    const char *s;
    flx_ints ints;
    const flxi_strbuf *graph; /* its bytes */
} onnx_setting;

#define ONNX_INT(key, v) ((onnx_setting){.name = (key), .kind = ONNX_W_INT, .i = (v)})
#define ONNX_REAL(key, v) ((onnx_setting){.name = (key), .kind = ONNX_W_REAL, .r = (v)})
#define ONNX_TEXT(key, v) ((onnx_setting){.name = (key), .kind = ONNX_W_TEXT, .s = (v)})
#define ONNX_INTS(key, v) ((onnx_setting){.name = (key), .kind = ONNX_W_INTS, .ints = (v)})

#define ONNX_GRAPH(key, v) ((onnx_setting){.name = (key), .kind = ONNX_W_GRAPH, .graph = (v)})

void flxi_onnx_put(onnx_writer *w, const char *operation, const onnx_label *in, size_t nin, const onnx_label *out,
                   size_t nout, const onnx_setting *settings, size_t num_settings);
/* One result. */
void flxi_onnx_put1(onnx_writer *w, const char *operation, const onnx_label *in, size_t nin, const onnx_label *out);
/* A constant of this name: an initialiser, or a node where that would be read as a parameter. */
void flxi_onnx_put_tensor(onnx_writer *w, const char *name, const flx_tensor *t);
/* A constant vector of integers, refused where one is a symbol; a scalar of a dtype. */
onnx_label flxi_onnx_put_ints(onnx_writer *w, flx_ints v);
onnx_label flxi_onnx_put_scalar(onnx_writer *w, flx_dtype dtype, double x);
/* A constant vector of a dtype, or with `is_scalar` its first element alone. */
onnx_label flxi_onnx_put_numbers(onnx_writer *w, flx_dtype dtype, flx_reals v, bool is_scalar);

/* ---- Bodies ---- */

/* A body with attribute `key` of our node; NULL when it has none. */
const flx_graph *flxi_onnx_node_body(const onnx_source *n, const char *key);
/* Writes the nodes of a body whose inputs are called so, and says what its outputs are called. */
void flxi_onnx_put_body(onnx_writer *w, const flx_graph *body, const onnx_label *leaves, onnx_label *outputs);
/* A graph within the model: a writer for its nodes, inputs and outputs by name, then its bytes. Both must be ended. */
onnx_writer flxi_onnx_graph_begin(onnx_writer *outer);
flxi_strbuf flxi_onnx_graph_border(const onnx_writer *w);
void flxi_onnx_put_info(flxi_strbuf *border, bool is_output, const flx_graph *g, onnx_label name, const flx_type *type);
flxi_strbuf flxi_onnx_graph_end(onnx_writer *w, flxi_strbuf *border);

/* Fails with UNSUPPORTED, naming the op. */
void flxi_onnx_refuse(const onnx_source *n, const char *why);

/* Control flow: onnx_export_control.c. Order, scatters, quantised numbers: onnx_export_order.c. rope:
   onnx_export_rotary.c. Elements at positions: onnx_export_index.c. Pointwise ops: onnx_export_formulas.c. */
void flxi_onnx_write_rope(const onnx_source *n);
void flxi_onnx_write_if(const onnx_source *n);
void flxi_onnx_write_while(const onnx_source *n);
void flxi_onnx_write_scan(const onnx_source *n);
void flxi_onnx_write_top_k(const onnx_source *n);
void flxi_onnx_write_argsort(const onnx_source *n);
void flxi_onnx_write_sort(const onnx_source *n);
void flxi_onnx_write_scatter_add(const onnx_source *n);
void flxi_onnx_write_scatter_nd(const onnx_source *n);
void flxi_onnx_write_quantize(const onnx_source *n);
void flxi_onnx_write_topk(const onnx_source *n);
void flxi_onnx_write_gather(const onnx_source *n);
void flxi_onnx_write_take_along(const onnx_source *n);
void flxi_onnx_write_dynamic_slice(const onnx_source *n);
void flxi_onnx_write_reverse(const onnx_source *n);
void flxi_onnx_write_square(const onnx_source *n);
void flxi_onnx_write_rsqrt(const onnx_source *n);
void flxi_onnx_write_silu(const onnx_source *n);
void flxi_onnx_write_expm1(const onnx_source *n);
void flxi_onnx_write_log1p(const onnx_source *n);
void flxi_onnx_write_erfc(const onnx_source *n);
void flxi_onnx_write_exp2(const onnx_source *n);
void flxi_onnx_write_log2(const onnx_source *n);
void flxi_onnx_write_log10(const onnx_source *n);
void flxi_onnx_write_trunc(const onnx_source *n);
void flxi_onnx_write_is_finite(const onnx_source *n);
void flxi_onnx_write_clamp(const onnx_source *n);
void flxi_onnx_write_fma(const onnx_source *n);
void flxi_onnx_write_not_equal(const onnx_source *n);
void flxi_onnx_write_same(const onnx_source *n);

/* Positions of this type in the dtype of ONNX. */
onnx_label flxi_onnx_as_i64(const onnx_source *n, onnx_label x, const flx_type *type);

/* The row of an op; NULL when it has none. */
const onnx_export_row *flxi_onnx_row_of(const char *op);
/* Writes a node by its row, with casts where the operation does not have the dtype: onnx_export_types.c. */
void flxi_onnx_write_by(const onnx_export_row *row, const onnx_source *n);
/* x in another dtype. */
onnx_label flxi_onnx_put_cast(onnx_writer *w, onnx_label x, flx_dtype to);

#endif
