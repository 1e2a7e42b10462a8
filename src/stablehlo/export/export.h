/* SPDX-License-Identifier: Apache-2.0 */
/* export.h: writing graphs as StableHLO text.

   A table (export_table.def) has a row for each op that StableHLO or CHLO has too: its name there and how the rest of
   the line is written. An op without a row, or a node that its row cannot express, is first rewritten in terms of other
   ops: by a rule of the table where meanings differ, else by the op's own decomposition. The rewritten nodes are
   written in its place, and may be rewritten in turn. So every line of the text is an op that has exactly one
   counterpart. */
#ifndef FLXI_STABLEHLO_EXPORT_H
#define FLXI_STABLEHLO_EXPORT_H

#include "graph/op/attr_access.h"
#include "graph/op/site.h"

/* A value of the text: its number, which is its name, and its type. It gets the number where it is defined. */
typedef struct {
    uint32_t number;
    const flx_type *type;
} export_val;

#define EXPORT_UNBOUND UINT32_MAX

/* A graph that is written as a function of its own, called @f and its position. */
typedef struct {
    flx_graph *body; /* held */
    uint64_t size;   /* nodes, with those of its bodies */
    bool is_function, is_written;
} export_body;

typedef struct {
    flx_context *ctx;
    flxi_strbuf out;
    flxi_arena scratch;    /* what lives as long as one graph is being written */
    const flx_graph *main; /* the first numbers are its leaves and print as their names */
    uint32_t next;         /* number of the next value */
    int indent;
    int depth;           /* of rewrites within rewrites */
    flxi_opcode wrapped; /* in a rewritten node: the op that is written as one operation; OP_NONE: none */
    FLXI_VEC(export_body) bodies;
    flxi_index body_index; /* by hash */
    flx_error error;       /* the first one */
} exporter;

/* A node about to be written. */
typedef struct {
    exporter *w;
    const flxi_op *op;
    const void *attrs;
    const char *name; /* of the row */
    uint32_t nin, nout;
    export_val *in;
    export_val *out; /* without numbers: a writer gives them theirs */
} export_node;

/* What decides between writing and rewriting a node. */
typedef struct {
    const flxi_op *op;
    const void *attrs;
    uint32_t nin;
    const flx_type *const *in;
} export_query;

typedef struct {
    const char *name;                          /* "stablehlo.add" */
    void (*write)(export_node *n);             /* NULL: always rewritten */
    bool (*plain)(const export_query *q);      /* whether a node is written as it is; NULL: always */
    void (*rewrite)(flxi_site *s, flx_val *y); /* NULL: the op's decomposition */
    bool wraps; /* the rule prepares operands and results for its own op, which then stands for the counterpart */
} export_row;

const export_row *flxi_export_row(flxi_opcode op);

/* An attribute by name, of several ops at once; 0 where the op has no such integer. */
static inline int64_t export_int(const flxi_op *op, const void *attrs, const char *name)
{
    const int64_t *v = flxi_attr_field(op, attrs, name, STORED_INT);
    return v ? *v : 0;
}

static inline bool export_is_half(int32_t dtype)
{
    return dtype == FLX_F16 || dtype == FLX_BF16;
}
static inline bool export_is_empty(const flx_type *t)
{
    return flxi_static_extent(t, 0, t->rank) == 0;
}

/* ---- Text (export_text.c) ---- */

void flxi_export_fail(exporter *w, flx_code code, const char *hint, const char *fmt, ...) FLX_PRINTF(4, 5);

void flxi_export_line(exporter *w); /* starts a line */
void flxi_export_value(exporter *w, uint32_t number);
void flxi_export_type(exporter *w, const flx_type *t);
void flxi_export_types(exporter *w, const export_val *v, uint32_t n);
void flxi_export_values(exporter *w, const export_val *v, uint32_t n);
void flxi_export_list(exporter *w, const int64_t *v, size_t n);                    /* [1, 2] */
void flxi_export_array(exporter *w, const char *name, const int64_t *v, size_t n); /* name = array<i64: 1, 2> */
/* On a new line: %1, %2 =, which get their numbers here. */
void flxi_export_results(exporter *w, export_val *v, uint32_t n);
void flxi_export_signature(exporter *w, const export_val *in, uint32_t nin, const export_val *out, uint32_t nout);

/* %out = "name"(%in…), to be followed by attributes, regions and the signature. */
void flxi_export_generic(exporter *w, const char *name, const export_val *in, uint32_t nin, export_val *out,
                         uint32_t nout);

/* %out = name %in…, to be followed by attributes and the signature. */
void flxi_export_open(exporter *w, const char *name, const export_val *in, uint32_t nin, export_val *out);

/* A constant of `count` elements, or of one repeated. */
void flxi_export_constant(exporter *w, const flx_type *t, const void *data, bool is_splat, export_val *out);
export_val flxi_export_number(exporter *w, const flx_type *scalar, double x); /* a new constant */
/* One element of a type from a real number, as bytes. */
void flxi_export_splat(exporter *w, const flx_type *t, double x, export_val *out);
/* v with the shape of `to`, right-aligned, which keeps v's dtype; v itself where it has it. */
export_val flxi_export_broadcast(exporter *w, export_val v, const flx_type *to);
export_val flxi_export_convert(exporter *w, export_val v, int32_t dtype);

/* ---- Functions (export_functions.c) ---- */

/* The number of the function that the body becomes. */
uint32_t flxi_export_function(exporter *w, const flx_graph *body);
/* Whether the body is better called than written where it is used: bodies may use each other exponentially often. */
bool flxi_export_is_called(exporter *w, const flx_graph *body);
/* %out = func.call @f1(%in) … */
void flxi_export_call(exporter *w, const flx_graph *body, const export_val *in, uint32_t nin, export_val *out,
                      uint32_t nout);
/* All functions that were called, and those that they call. */
void flxi_export_functions(exporter *w);
void flxi_export_functions_free(exporter *w);

/* ---- Graphs (export.c) ---- */

/* A line that returns values. */
void flxi_export_return(exporter *w, const char *op, const export_val *v, uint32_t n);

/* Writes the nodes that the outputs need. args: numbers of the leaves; results: receives those of the outputs. */
void flxi_export_graph_nodes(exporter *w, const flx_graph *g, const uint32_t *args, uint32_t *results);

/* " ({ … })" without the line around it: a region of the body. Leaves with bound[i] are values from outside, the others
   are arguments of the block; bound NULL: all. Outputs k with dropped[k] are not returned; NULL: none. */
void flxi_export_region(exporter *w, const flx_graph *body, const uint32_t *bound, const bool *dropped);
/* The same for an op of two scalars by its name, or for "set", the second of them. */
void flxi_export_word_region(exporter *w, const char *word, int32_t dtype);

#endif
