/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_model.h: an ONNX file as a tree. Texts end with a 0 and are in the arena of the tree; the elements of tensors
   stay where they are in the file. */
#ifndef FLXI_ONNX_MODEL_H
#define FLXI_ONNX_MODEL_H

#include "base/memory.h"
#include "onnx/syntax/onnx_wire.h"

typedef struct onnx_graph onnx_graph;
typedef struct onnx_type onnx_type;

typedef struct {
    const char *key;
    const char *value;
} onnx_pair;

/* A tensor: dimensions, and the elements in one of several fields. */
typedef struct {
    const char *name;
    size_t offset; /* in the file */
    int32_t element;
    const int64_t *dims;
    size_t rank;
    bool has_raw;
    onnx_span raw;           /* elements as in memory, lowest byte first */
    const uint64_t *numbers; /* of float_data (bits), int32_data, int64_data, double_data (bits) or uint64_data */
    size_t num_numbers;
    uint32_t numbers_field; /* which of them: its field number; 0 for none */
    const char *const *texts;
    size_t num_texts;
    const onnx_pair *external; /* of data in another file */
    size_t num_external;
    bool is_external;
} onnx_tensor;

typedef struct {
    onnx_tensor values, indices;
    const int64_t *dims;
    size_t rank;
} onnx_sparse;

/* ONNX_T_TEXTS: a value that is a tensor of texts; its type is ONNX_T_TENSOR as of all tensors. */
typedef enum {
    ONNX_T_NONE,
    ONNX_T_TENSOR,
    ONNX_T_SEQUENCE,
    ONNX_T_OPTIONAL,
    ONNX_T_OTHER,
    ONNX_T_TEXTS
} onnx_type_kind;

typedef struct {
    int64_t value;     /* -1: not given as a number */
    const char *param; /* NULL: it has no name */
} onnx_dim;

struct onnx_type {
    onnx_type_kind kind;
    int32_t element; /* of a tensor */
    bool has_shape;
    const onnx_dim *dims;
    size_t rank;
    const onnx_type *item; /* of a sequence or optional */
};

typedef struct {
    const char *name;
    onnx_type type;
} onnx_value_info;

/* Kinds of attributes, as in the file. */
enum {
    ONNX_A_FLOAT = 1,
    ONNX_A_INT = 2,
    ONNX_A_STRING = 3,
    ONNX_A_TENSOR = 4,
    ONNX_A_GRAPH = 5,
    ONNX_A_FLOATS = 6,
    ONNX_A_INTS = 7,
    ONNX_A_STRINGS = 8,
    ONNX_A_TENSORS = 9,
    ONNX_A_SPARSE = 11,
    ONNX_A_TYPE = 13
};

typedef struct {
    const char *name;
    const char *ref; /* in a function: the attribute of the call that has the value; NULL: this one has it */
    int32_t kind;
    double f;
    int64_t i;
    const char *s;
    const onnx_tensor *t;
    const onnx_graph *g;
    const onnx_sparse *sparse;
    const onnx_type *type;
    const double *floats;
    const int64_t *ints;
    const char *const *strings;
    size_t num_floats, num_ints, num_strings; /* a file may have several lists, whatever the kind says */
} onnx_attr;

typedef struct {
    const char *name, *op, *domain, *overload;
    size_t offset; /* in the file */
    const char *const *inputs;
    const char *const *outputs; /* "": left out */
    size_t num_inputs, num_outputs;
    const onnx_attr *attributes;
    size_t num_attrs;
} onnx_node;

struct onnx_graph {
    const char *name;
    const onnx_node *nodes;
    size_t num_nodes;
    const onnx_tensor *initialisers;
    size_t num_initialisers;
    const onnx_sparse *sparse;
    size_t num_sparse;
    const onnx_value_info *inputs, *outputs;
    size_t num_inputs, num_outputs;
};

typedef struct {
    const char *domain; /* "" for the standard one */
    int64_t version;
} onnx_opset;

typedef struct {
    const char *name, *domain, *overload;
    size_t offset;
    const char *const *inputs;
    const char *const *outputs;
    size_t num_inputs, num_outputs;
    const onnx_node *nodes;
    size_t num_nodes;
    const onnx_opset *opsets;
    size_t num_opsets;
    const onnx_attr *defaults; /* attributes with a value for calls that leave them out */
    size_t num_defaults;
} onnx_function;

typedef struct {
    flxi_arena arena;
    const onnx_graph *graph;
    const onnx_opset *opsets;
    size_t num_opsets;
    const onnx_function *functions;
    size_t num_functions;
} onnx_model;

/* Reads a model; the tree refers to `bytes`, which must outlive it. On failure err has FILE:OFFSET. Free it with
   flxi_onnx_model_free(), also after a failure. */
flx_code flxi_onnx_parse(const flxi_allocator *mem, const void *bytes, size_t size, const char *file, onnx_model *out,
                         flx_error *err);
void flxi_onnx_model_free(onnx_model *m);

/* ---- Files that hold one value: those of the test data ---- */

typedef struct onnx_datum {
    onnx_type_kind kind; /* a tensor; a sequence of `n` items; an optional, with n 0 when it is empty */
    onnx_tensor tensor;
    struct onnx_datum *items;
    size_t n;
} onnx_datum;

/* Reads a value of this kind (ONNX_T_TENSOR, …) in the arena. */
flx_code flxi_onnx_parse_datum(flxi_arena *arena, const void *bytes, size_t size, const char *file,
                               const onnx_type *type, onnx_datum *out, flx_error *err);

/* ---- Parts of the reader, one file each ---- */

typedef struct {
    onnx_wire wire;
    flxi_arena *arena;
    unsigned depth; /* of graphs and types inside each other */
} onnx_reader;

#define ONNX_MAX_DEPTH 48

/* The end of memory as an error of the reader; returns false. */
bool flxi_onnx_starved(onnx_reader *r);
const char *flxi_onnx_text(onnx_reader *r, onnx_span s); /* NULL after an error */
bool flxi_onnx_read_tensor(onnx_reader *r, onnx_span s, onnx_tensor *out);
bool flxi_onnx_read_sparse(onnx_reader *r, onnx_span s, onnx_sparse *out);
bool flxi_onnx_read_type(onnx_reader *r, onnx_span s, onnx_type *out);
bool flxi_onnx_read_attr(onnx_reader *r, onnx_span s, onnx_attr *out);
bool flxi_onnx_read_graph(onnx_reader *r, onnx_span s, onnx_graph *out);
/* All fields of this number as texts. */
bool flxi_onnx_read_texts(onnx_reader *r, onnx_span s, uint32_t number, const char *const **out, size_t *n);
/* All fields of this number as integers, packed or not; `width` 0: variable-length, 4 or 8: fixed. */
bool flxi_onnx_read_numbers(onnx_reader *r, onnx_span s, uint32_t number, int width, const uint64_t **out, size_t *n);

/* All fields of this number, each read by `read`, as an array of elements of `size` bytes; NULL after an error. */
typedef bool (*onnx_read_fn)(onnx_reader *r, onnx_span s, void *out);
void *flxi_onnx_read_list(onnx_reader *r, onnx_span s, uint32_t number, size_t size, onnx_read_fn read, size_t *n);

#endif
