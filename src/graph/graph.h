/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h: the graph itself.

   Nodes are appended in topological order and never change. Ids of values start at 1; results of one node have
   consecutive ids. Nodes and values live in chunks of doubling size inside the graph's arena, so pointers to them stay
   valid while the graph grows. Types are kept once per graph: within a graph, equal types are equal pointers. */
#ifndef FLXI_IR_H
#define FLXI_IR_H

#include "base/error.h"
#include "graph/op/op.h"
#include "graph/type/tensor.h"

#include <fluxion/graph.h>

enum { FLXI_CHUNKS = 28, FLXI_MAX_NESTING = 64 };

/* Most nodes of a function that is always inlined, and most that all calls of one may add to a graph. */
enum { FLXI_INLINE_EACH = 64, FLXI_INLINE_TOGETHER = 2000 };

/* Nesting of sub-graphs is bounded because evaluation and passes recurse into them. */

struct flxi_node {
    uint32_t op; /* a flxi_opcode */
    uint32_t nin, nout;
    uint32_t first;                   /* id of result 0 */
    const uint32_t *in;               /* ids of operands, each below `first` */
    void *attrs;                      /* the op's struct, or NULL */
    const struct flxi_origin *origin; /* the node that a rule made this one for (graph/op/origin.h), or NULL */
};

/* Attributes of a leaf. The schema has the type only: the initialisation does not change what a graph computes. */
typedef struct {
    const flx_type *type;
    flx_init init;
} flxi_leaf_attrs;

typedef struct {
    const flx_type *type;
    const char *name; /* or NULL */
    uint32_t node;
    uint32_t pinned;
} flxi_value;

typedef struct {
    uint32_t val;
    uint32_t next_suffix; /* where the search continues for the next output with this name */
    const char *name;
} flxi_output;

#define FLXI_GRAPH_MAGIC UINT32_C(0x666c7867)
#define FLXI_GRAPH_DEAD UINT32_C(0xdeadf1c5)

struct flx_graph {
    uint32_t magic;
    uint32_t serial;
    atomic_uint refs;
    atomic_bool sealed;               /* in use as a body: read-only */
    atomic_uint_least64_t kept_hash;  /* of a sealed graph; 0: not yet worked out */
    atomic_uint_least64_t kept_flops; /* likewise, + 1 */
    flx_context *ctx;
    const char *name;
    flxi_arena arena;
    flxi_node *node_chunks[FLXI_CHUNKS];
    flxi_value *value_chunks[FLXI_CHUNKS];
    uint32_t node_count;
    uint32_t value_count; /* ids in use are 1 … value_count */
    FLXI_VEC(const flx_type *) types;
    flxi_index type_index;
    FLXI_VEC(uint32_t) leaves; /* ids of inputs and parameters */
    FLXI_VEC(flxi_output) outputs;
    size_t num_updates;               /* outputs at the end that flx_output() puts others before */
    flxi_index names;                 /* of leaves and outputs: 2·position, outputs + 1; see graph.c */
    FLXI_VEC(flx_graph *) bodies;     /* each held once per use */
    FLXI_VEC(flx_tensor *) constants; /* likewise */
    FLXI_VEC(const char *) symbols;   /* in order of first use; the context's own copies of the names */
    flxi_index symbol_index;          /* of symbols by address */
    int nesting;                      /* 1 + deepest body */
    bool has_effects;                 /* some node has effects, here or in a body */
    bool has_exchanges;               /* likewise: exchanges values with other processes */
    bool has_hir;                     /* some node is a composite of HIR, here or in a body */
    bool is_lowered;                  /* of the stage MIR: no composite may be added */
    const char *pending_label;        /* of the node about to be made, for messages */
    const char *pending_op;           /* its op, and the ids of its operands */
    const uint32_t *pending_in;
    bool is_call_pending;                  /* a program calls flx_op() */
    const struct flxi_origin *last_origin; /* the latest that a node was given */
    flx_error error;                       /* the first one; code FLX_OK when there is none */
    flx_graph *next_dead;
};

/* Distinguishes NULL, freed graphs (in debug builds) and foreign pointers. */
bool flxi_graph_alive(const flx_graph *g);

/* FLX_OK if the graph has no error. An attempt to change a body stores an error in it, but leaves it unchanged. */
flx_code flxi_graph_check(const flx_graph *g, flx_error *err);

const flxi_node *flxi_node_at(const flx_graph *g, uint32_t i);
flxi_value *flxi_value_at(const flx_graph *g, uint32_t id);
static inline const flx_type *flxi_type_at(const flx_graph *g, uint32_t id)
{
    return flxi_value_at(g, id)->type;
}
/* Its elements; 0 where the type is not static. */
static inline int64_t flxi_count_at(const flx_graph *g, uint32_t id)
{
    return flxi_known_count(flxi_type_at(g, id));
}
/* The node that has it as a result. */
static inline const flxi_node *flxi_node_of(const flx_graph *g, uint32_t id)
{
    return flxi_node_at(g, flxi_value_at(g, id)->node);
}
/* The position of a value among the leaves, in the order of their declarations; of others how many leaves there are. */
size_t flxi_leaf_at(const flx_graph *g, uint32_t id);

/* Declarations and literals, which the language itself knows. */
static inline bool flxi_is_input(const flxi_node *n)
{
    return (flxi_ops[n->op].traits & (TRAIT_DECLARED | TRAIT_PARAM)) == TRAIT_DECLARED;
}
static inline bool flxi_is_param(const flxi_node *n)
{
    return (flxi_ops[n->op].traits & TRAIT_PARAM) != 0;
}
static inline bool flxi_is_const(const flxi_node *n)
{
    return (flxi_ops[n->op].traits & TRAIT_CONST) != 0;
}

/* A value's number that does not depend on when leaves were declared: leaves come first, in order, then all other
   results, in order. Hash and binary form use it; text reads back that way. */
uint32_t flxi_value_number(const flx_graph *g, uint32_t id);

/* Whether the node may fail or have effects at run time, itself or in its bodies: then it is never removed, merged or
   folded. */
bool flxi_has_effect(const flxi_node *n);
/* Whether the node exchanges values with other processes, itself or in its bodies: what is known of its operands here
   then says nothing of its results, nor the other way round. */
bool flxi_has_exchange(const flxi_node *n);

/* Position of the leaf or of the output with this name; false when there is none. */
bool flxi_find_leaf(const flx_graph *g, const char *name, size_t *i);
/* The hint of an error about an input called `name`, which does not exist: the nearest one, and the inputs as far as
   they fit (input_hint.c). */
void flxi_hint_input(flx_error *err, const flx_graph *g, const char *name);
bool flxi_find_output(const flx_graph *g, const char *name, size_t *i);

/* The graph's own copy of a type; NULL when memory is exhausted. */
const flx_type *flxi_graph_type(flx_graph *g, const flx_type *t);

/* Keeps the first error. */
flx_code flxi_graph_fail(flx_graph *g, const flx_error *err);
flx_code flxi_graph_failf(flx_graph *g, flx_code code, const char *hint, const char *fmt, ...) FLX_PRINTF(4, 5);

/* The only function that makes nodes: builders, parser, decoder and passes all call it. `attrs` is in g's arena (from
   flxi_attrs_fill or flxi_attrs_clone) and is normalised in place. Returns the id of result 0, or 0 with the error in
   g. */
uint32_t flxi_add_node(flx_graph *g, flxi_opcode op, const uint32_t *in, uint32_t nin, void *attrs);

/* The same for a copy of node n of graph `like`, whose operands have the types they have there: nothing is inferred
   again. The verifier checks such nodes like all others. */
uint32_t flxi_add_copy(flx_graph *g, const flx_graph *like, const flxi_node *n, const uint32_t *in, void *attrs);

/* Declares a leaf. */
uint32_t flxi_add_leaf(flx_graph *g, flxi_opcode op, const char *name, const flx_type *type);
/* The same for a copy of leaf `id` of graph `from`: with its name and initialisation, but of this type. */
uint32_t flxi_add_leaf_like(flx_graph *g, const flx_graph *from, uint32_t id, const flx_type *type);
/* The initialisation that a leaf was given; of kind FLX_INIT_USUAL where it was given none. */
flx_init flxi_leaf_init(const flx_graph *g, uint32_t id);

/* Whether nodes may be added: the graph has no error and is not a body. An attempt to change a body is an error. */
bool flxi_may_build(flx_graph *g);

/* Like flx_output, but the output is the last one: what is read from a file stays in its order. */
flx_code flxi_output_last(flx_graph *g, flx_val v, const char *name);
/* Adds the output new_<param>, the next value of a state. A layer does so while there is no loss yet; outputs that the
   user declares later come before it, so that the loss is the first. */
flx_code flxi_output_update(flx_graph *g, flx_val param, flx_val next);

/* Like flx_output, but the name is used unchanged and the output is the last one: for copies of a graph. */
flx_code flxi_add_output(flx_graph *g, uint32_t id, const char *name);

/* Names value `id` (a label; leaves keep their names). */
void flxi_label(flx_graph *g, uint32_t id, const char *name, size_t n);

/* Infers the results of a node without adding it; `out` has room for `cap` types and *nout receives the number. */
flx_code flxi_infer_node(flx_graph *g, flxi_opcode op, const flx_type *const *in, uint32_t nin, void *attrs,
                         flx_type **out, uint32_t *nout, flx_error *err);

bool flxi_is_name(const char *s, size_t n);  /* [A-Za-z_][A-Za-z0-9_.]*, not reserved */
bool flxi_is_label(const char *s, size_t n); /* a name, but not the _ that discards */

/* ---- Attributes through their schema (attrs.c) ---- */

/* Checks what was given against the schema and fills the op's struct in g's arena. *out stays NULL for an op without
   attributes. */
flx_code flxi_attrs_fill(flx_graph *g, const flxi_op *op, const flx_attr *given, size_t n, void **out, flx_error *err);

/* Fails with ATTRIBUTE and a hint that lists the attributes the op has. */
flx_code flxi_unknown_attr(const flxi_op *op, const char *key, flx_error *err);

/* Whether the op takes attributes that its schema does not know. */
bool flxi_has_own_attrs(const flxi_op *op);

/* How a copy differs from the original. Each function may be NULL: unchanged. */
typedef struct {
    flx_dim (*dim)(void *user, flx_dim d, flx_error *err);
    flx_graph *(*body)(void *user, const flx_graph *body, flx_error *err); /* borrowed */
    int32_t (*dtype)(void *user, int32_t dtype);
    const flx_tensor *(*tensor)(void *user, const flx_tensor *t, flx_error *err);      /* borrowed */
    flx_code (*kernel)(void *user, const char *text, flx_buffer *out, flx_error *err); /* the text of a kernel */
    void *user;
} flxi_attr_map;

flx_code flxi_attrs_clone(flx_graph *to, const flxi_op *op, const void *attrs, const flxi_attr_map *map, void **out,
                          flx_error *err);

/* The elements of a node with flxi_is_const. */
const flx_tensor *flxi_const_data(const flxi_node *n);

/* How many attributes of the node have a value (node_attrs.c). */
uint32_t flxi_node_attr_count(const flxi_node *n);
/* Number k of those; false when there are fewer. */
bool flxi_node_attr(const flxi_node *n, uint32_t k, flx_node_attr_view *out);

/* Whether leaving the attribute out would give the same value. */
bool flxi_attr_is_default(const flxi_attr *a, const void *field);

/* Equal in value; both normalised, of one op. Bodies compare by identity. */
bool flxi_attrs_equal(const flxi_op *op, const void *a, const void *b);
/* The same with bodies compared by the caller; either may be NULL. */
typedef bool (*flxi_same_body)(const flx_graph *a, const flx_graph *b, void *user);
bool flxi_attrs_alike(const flxi_op *op, const void *a, const void *b, flxi_same_body same, void *user);
/* Of the content; the same in every context. `body_hash` gives the hash of a sub-graph. */
uint64_t flxi_attrs_hash(flx_context *ctx, const flxi_op *op, const void *attrs, uint64_t h,
                         uint64_t (*body_hash)(const flx_graph *));

/* Calls fn for each sub-graph, constant and dimension among the attributes; any of them may be NULL. */
typedef struct {
    flx_code (*graph)(void *user, const flx_graph *body);
    flx_code (*tensor)(void *user, const flx_tensor *t);
    flx_code (*dim)(void *user, flx_dim d);
    void *user;
} flxi_attr_visitor;
flx_code flxi_attrs_visit(const flxi_op *op, const void *attrs, const flxi_attr_visitor *v);

/* The first tensor among the attributes of a node; NULL: there is none. */
const flx_tensor *flxi_held_tensor(const flxi_node *n);

/* Word i of a list of words separated by spaces: its start and length; NULL past the end. */
const char *flxi_word_at(const char *words, int64_t i, size_t *n);
int64_t flxi_word_find(const char *words, const char *s, size_t n); /* -1 when absent */

/* Whether two graphs have the same nodes, leaves and outputs; labels may differ. False also where that would take too
   long to find out. */
bool flxi_graphs_alike(const flx_graph *a, const flx_graph *b);

/* ---- Verifying ---- */

flx_code flxi_verify(const flx_graph *g, flx_error *err);

#endif
