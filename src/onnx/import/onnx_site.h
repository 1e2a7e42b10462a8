/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_site.h: from the tree of an ONNX model to a graph, seen from the rule of one operation.

   A rule reads its operands `x` and attributes, appends nodes to `g` and puts its results in `y`. It needs no error
   plumbing: builders and readers of attributes leave the first error in the graph, and the caller adds the location in
   the file. The caller also counts operands, and replaces small results that follow from constants by their values, so
   that shapes which a model computes are numbers. */
#ifndef FLXI_ONNX_SITE_H
#define FLXI_ONNX_SITE_H

#include "graph/graph.h"
#include "onnx/onnx_operations.h"
#include "onnx/syntax/onnx_elements.h"
#include "onnx/syntax/onnx_texts.h"

#include <fluxion/ops.h>

typedef struct onnx_import onnx_import; /* of one model */
typedef struct onnx_scope onnx_scope;   /* a graph or a function being imported */

/* What a name of the model refers to. */
typedef struct onnx_value {
    onnx_type_kind kind; /* ONNX_T_NONE: an operand that was left out; ONNX_T_OPTIONAL: an optional without a value */
    int32_t element;     /* of a tensor: its element type in the file */
    flx_val v;           /* of a tensor: in the graph */
    const flx_dim *extents; /* of a scalar or vector of integers: its elements, if known, as numbers or symbols */
    size_t num_extents;
    const struct onnx_value *items; /* of a sequence */
    size_t num_items;
    onnx_texts texts; /* of ONNX_T_TEXTS: they exist only while the model is read */
    bool is_const;    /* a literal, or it was evaluated */
    bool is_optional; /* a tensor or a sequence in an optional */
} onnx_value;

struct onnx_site {
    onnx_import *im;
    onnx_scope *scope;
    const onnx_operation *row;
    const onnx_node *node;
    int64_t version; /* of the operation's domain */
    flx_graph *g;
    const onnx_value *in; /* operands; those left out at the end are there as ONNX_T_NONE */
    const flx_val *x;     /* the same as values of the graph; FLX_NONE where there is none */
    size_t nx;            /* operands of the node */
    flx_val *y;           /* results, set by the rule */
    onnx_value *out;      /* the same where more than the value matters: element type, extents, sequences */
    size_t ny;
};

#define ONNX_SPARE 12 /* operands after the last one of the node that a rule may look at */

/* ---- Errors ---- */

/* Fails in the graph being built with "Op 'name': …". */
void flxi_onnx_fail(onnx_site *s, flx_code code, const char *hint, const char *fmt, ...) FLX_PRINTF(4, 5);
/* The same with UNSUPPORTED. */
void flxi_onnx_unsupported(onnx_site *s, const char *fmt, ...) FLX_PRINTF(2, 3);
/* The same: an operand of this name must be known when the model is read. */
void flxi_onnx_unknown(onnx_site *s, const char *operand);
bool flxi_onnx_failed(const onnx_site *s);
/* Counts nodes that a rule reads or appends beyond a few, of those that a model may have; false after an error. */
bool flxi_onnx_spend(onnx_site *s, int64_t nodes);

/* ---- Attributes: absent ones give the default, others of the wrong kind fail ---- */

bool flxi_onnx_has(onnx_site *s, const char *name);
int64_t flxi_onnx_int(onnx_site *s, const char *name, int64_t absent);
double flxi_onnx_real(onnx_site *s, const char *name, double absent);
const char *flxi_onnx_word(onnx_site *s, const char *name, const char *absent);
flx_ints flxi_onnx_ints(onnx_site *s, const char *name);   /* {NULL, 0} when absent */
flx_reals flxi_onnx_reals(onnx_site *s, const char *name); /* {NULL, 0} when absent */
const char *const *flxi_onnx_words(onnx_site *s, const char *name, size_t *n);
/* With n entries, all `absent` where the attribute is missing; another count is an error. */
flx_ints flxi_onnx_ints_of(onnx_site *s, const char *name, size_t n, int64_t absent);
const onnx_graph *flxi_onnx_graph(onnx_site *s, const char *name); /* fails when absent */
const onnx_attr *flxi_onnx_attr(onnx_site *s, const char *name);   /* NULL when absent */
/* What a name refers to that was defined before this node, in the graph that it is in; NULL: nothing. */
const onnx_value *flxi_onnx_value_of(const onnx_site *s, const char *name);
/* A tensor of the file as a constant, its element type in *element (may be NULL). */
flx_val flxi_onnx_constant(onnx_site *s, const onnx_tensor *t, int32_t *element);
/* Whether the node is a constant of texts, which is then its result, unless that fails. */
bool flxi_onnx_constant_texts(onnx_site *s);

/* ---- Types and values ---- */

const flx_type *flxi_onnx_typeof(const onnx_site *s, flx_val v); /* after an error a harmless one */
int flxi_onnx_rank(const onnx_site *s, flx_val v);
flx_dtype flxi_onnx_dtype(const onnx_site *s, flx_val v);
flx_dim flxi_onnx_dim(const onnx_site *s, flx_val v, int axis);
static inline bool flxi_onnx_given(flx_val v)
{
    return v.id != 0;
}
static inline flx_ints flxi_onnx_dims(const flx_type *t)
{
    return (flx_ints){t->dims, (size_t)t->rank};
}

/* Room that lives as long as the import; NULL with the error in the graph. */
#define flxi_onnx_new(s, T, n) ((T *)flxi_onnx_alloc((s), (size_t)(n), sizeof(T)))
void *flxi_onnx_alloc(onnx_site *s, size_t n, size_t size);

/* An axis counted from the end where negative; fails when out of range of `rank`, and gives 0. */
int flxi_onnx_axis(onnx_site *s, int64_t axis, int rank);
/* A list of axes without negative ones. */
flx_ints flxi_onnx_axes(onnx_site *s, flx_ints axes, int rank);

/* A scalar of this dtype, or of that of `like`; x is rounded to it. */
flx_val flxi_onnx_number(onnx_site *s, flx_val like, double x);
/* A literal vector of i64. */
flx_val flxi_onnx_vector(onnx_site *s, const int64_t *v, size_t n);
/* One of our ops by name, without attributes, with one result. */
flx_val flxi_onnx_append(onnx_site *s, const char *op, const flx_val *x, size_t n);
flx_val flxi_onnx_unary(onnx_site *s, const char *op, flx_val x);
flx_val flxi_onnx_binary(onnx_site *s, const char *op, flx_val a, flx_val b);
flx_val flxi_onnx_cast(onnx_site *s, flx_val x, flx_dtype to); /* x itself where it has the dtype */
flx_val flxi_onnx_softmax(onnx_site *s, flx_val x, int axis);
flx_val flxi_onnx_fill(onnx_site *s, flx_val scalar, flx_ints shape);
/* x + 0 … along one axis. */
flx_val flxi_onnx_slice_axis(onnx_site *s, flx_val x, int axis, int64_t start, int64_t limit);

/* The value of v if it follows from the model alone; NULL when it does not (no error). The caller releases it. */
flx_tensor *flxi_onnx_known(onnx_site *s, flx_val v);
/* The same of operand i; fails with UNSUPPORTED where it is not known. */
flx_tensor *flxi_onnx_need(onnx_site *s, size_t i);
/* The elements of operand i as extents, or as reals; false with an UNSUPPORTED error that names the operand. */
bool flxi_onnx_extents(onnx_site *s, size_t i, flx_ints *out);
bool flxi_onnx_known_reals(onnx_site *s, size_t i, flx_reals *out);
/* Operand i as extents if it is given, else the attribute of this name (older versions had it there); {NULL, 0} where
   neither is given. */
flx_ints flxi_onnx_ints_at(onnx_site *s, size_t i, const char *attr);

/* ---- Graphs inside of nodes ---- */

/* The nodes of a graph appended to s->g itself, its inputs standing for `args`; its outputs in `out`, which has room
   for all. False after an error. */
bool flxi_onnx_inline(onnx_site *s, const onnx_graph *g, const onnx_value *args, size_t num_args, onnx_value *out);

/* What graphs use from outside. */
typedef struct {
    const char **names;
    const onnx_value *values; /* in s->g */
    flx_val *vals;            /* those that a body has as inputs */
    size_t n, num_vals;
} onnx_captures;

bool flxi_onnx_captures(onnx_site *s, const onnx_graph *const *graphs, size_t n, onnx_captures *out);
/* A body: a graph whose inputs have the given types, named args first, then the captures. */
typedef struct {
    flx_graph *g;
    onnx_scope *scope;
    onnx_value *outputs; /* of the ONNX graph, in g; outputs of g are not declared yet */
} onnx_body;
bool flxi_onnx_body(onnx_site *s, const onnx_graph *graph, const flx_type *args, const int32_t *elements,
                    size_t num_args, const onnx_captures *captures, onnx_body *out);
/* Takes over a graph that a rule built; it is released with the import. */
flx_graph *flxi_onnx_keep(onnx_site *s, flx_graph *g);

/* ---- Element types that have no dtype ---- */

/* x rounded to such a type, in its carrier; `saturates`: what is too large becomes the largest number. */
flx_val flxi_onnx_narrow(onnx_site *s, flx_val x, int32_t element, bool saturates);

#endif
