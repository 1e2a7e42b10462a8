/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/graph.h: contexts, and building and inspecting graphs.

   A context owns the allocator and the symbolic dimensions; graphs made in it may be built by different threads at the
   same time, but one graph by one thread at a time. A graph owns its nodes; handles die with it. Building is sticky:
   the first error is kept in the graph, later calls do nothing and return FLX_NONE, so a caller checks once, with
   flx_graph_error(). A finished graph may be read by many threads. */
#ifndef FLUXION_GRAPH_H
#define FLUXION_GRAPH_H

#include <fluxion/types.h>

FLX_BEGIN_DECLS

/* ---- Context ---- */

typedef struct flx_context flx_context;

/* One function allocates, resizes and frees: new_size 0 frees `block`; block NULL allocates; otherwise resizes.
   Returns NULL when memory is exhausted (the old block then stays). Results are aligned for any C type. The function
   is called from any thread that uses the context. */
typedef void *(*flx_alloc_fn)(void *user, void *block, size_t old_size, size_t new_size);

/* What the library reports while it works: nothing of it is an error. Experimental: more events may be added. */
typedef enum flx_log_event {
    FLX_LOG_COMPILED = 1,   /* a graph was compiled; the text says how long it took */
    FLX_LOG_CACHE_HIT = 2,  /* something compiled earlier is used again; the text begins with the cache's name */
    FLX_LOG_CACHE_MISS = 3, /* nothing compiled earlier fits; the text begins with the cache's name */
    FLX_LOG_FALLBACK = 4,   /* something is computed in a slower way than usual; the text gives the reason */
    FLX_LOG_REFUSED = 5,    /* the same because of a defect of the compiler, which is worth a report */
    FLX_LOG_UNSOLVED = 6    /* cg, gmres, fixed_point or root did not solve its equation to its tol */
} flx_log_event;

/* Called for each event with what it is about and a line of text, which live until it returns. The subject is the name
   of the graph; for the object cache, which all graphs share, that of the device ("cpu"); for a node that the reference
   evaluator computes, or whose equation is not solved, that of the node or its op. A graph that is interpreted on
   request (FLX_COMPILE_INTERPRET) reports no fallbacks. The function is called from any thread that uses the context,
   also from several at once, and must not call the library. */
typedef void (*flx_log_fn)(void *user, flx_log_event event, const char *subject, const char *text);

typedef struct flx_context_options {
    uint32_t struct_size; /* sizeof(flx_context_options); 0: the layout of version 0.2 */
    uint32_t flags;       /* none yet; must be 0 */
    flx_alloc_fn alloc;   /* NULL: the C library's */
    void *alloc_user;     /* passed to alloc */
    int64_t memory_limit; /* bytes for one tensor, one file or the memory of one run; 0: what the machine has */
    flx_log_fn log;       /* NULL: nothing is reported */
    void *log_user;       /* passed to log */
    int64_t node_limit;   /* nodes of one graph, those of sub-graphs not counted; more fail with SIZE. 0: 2^24 */
} flx_context_options;

/** A new context, or NULL when memory is exhausted or an option is not accepted. `options` may be NULL. Free with
    flx_context_free(), after everything made in it. */
FLX_API flx_context *flx_context_new(const flx_context_options *options);
FLX_API void flx_context_free(flx_context *ctx); /* NULL is fine */

/* ---- Symbolic dimensions ---- */

/** The dimension called `name` ([A-Za-z_][A-Za-z0-9_.]*). The same name is the same dimension throughout a context.
    On failure FLX_DIM_INVALID, which any use reports. */
FLX_API flx_dim flx_dim_symbol(flx_context *ctx, const char *name);

#define FLX_DIM_INVALID INT64_MIN

/* Exact arithmetic, overflow gives FLX_DIM_INVALID. Division must be exact; what cannot be proven is checked when the
   symbols are bound. */
FLX_API flx_dim flx_dim_add(flx_context *ctx, flx_dim a, flx_dim b);
FLX_API flx_dim flx_dim_sub(flx_context *ctx, flx_dim a, flx_dim b);
FLX_API flx_dim flx_dim_mul(flx_context *ctx, flx_dim a, flx_dim b);
FLX_API flx_dim flx_dim_div(flx_context *ctx, flx_dim a, flx_dim b);

/** 1 if `dim` is a number, 0 if it is symbolic or invalid. */
FLX_API int flx_dim_is_static(flx_dim dim);

/* The printers below write at most `size` bytes with a terminating 0 and return the full length, like snprintf; nothing
   is written where `buffer` is NULL. */
FLX_API size_t flx_dim_print(flx_context *ctx, flx_dim dim, char *buffer, size_t size);
FLX_API size_t flx_type_print(flx_context *ctx, const flx_type *type, char *buffer, size_t size);

/* ---- Graphs ---- */

typedef struct flx_graph flx_graph;
typedef struct flx_tensor flx_tensor;

/* A result of a node of one graph. Handles of one graph used in another are reported. */
typedef struct flx_val {
    uint32_t id;    /* 0 means none */
    uint32_t graph; /* serial number of the graph it belongs to */
} flx_val;

#ifdef __cplusplus
#define FLX_NONE (flx_val{0, 0})
#else
#define FLX_NONE ((flx_val){0, 0})
#endif

/** A new empty graph, or NULL when memory is exhausted or an argument is NULL. Release when done. */
FLX_API flx_graph *flx_graph_new(flx_context *ctx, const char *name);

/** One more hold on a graph, such as one that belongs to a module. Returns `g`. */
FLX_API flx_graph *flx_graph_retain(flx_graph *g);
/** Gives up a hold. A graph that another one uses as a body lives on inside it. NULL is fine. */
FLX_API void flx_graph_release(flx_graph *g);

/** FLX_OK, or the first error met while building; `err` (may be NULL) receives it. */
FLX_API flx_code flx_graph_error(const flx_graph *g, flx_error *err);

/** Declares the next input. Names of inputs and parameters are unique in a graph. */
FLX_API flx_val flx_input(flx_graph *g, const char *name, const flx_type *type);

/** Declares the next input as a parameter: one that persists and that training updates. */
FLX_API flx_val flx_param(flx_graph *g, const char *name, const flx_type *type);

/* How a parameter is initialised: by random numbers, or by equal ones. `scale` is the value, bound or deviation where
   the kind says so, otherwise a factor; 0 means 1 except for FLX_INIT_CONSTANT. The inputs and outputs of a matrix are
   its first and last extents; those of a convolution's [outputs, inputs, spatial...] are counted with the spatial
   ones. */
enum {                                /* kinds of flx_init */
       FLX_INIT_USUAL = 0,            /* nothing is said: see flx_graph_input_init() */
       FLX_INIT_ZEROS = 1,            /* all 0 */
       FLX_INIT_ONES = 2,             /* all 1 */
       FLX_INIT_CONSTANT = 3,         /* all `scale` */
       FLX_INIT_UNIFORM = 4,          /* within -scale and scale */
       FLX_INIT_NORMAL = 5,           /* deviation scale */
       FLX_INIT_TRUNCATED_NORMAL = 6, /* the same, within two deviations */
       FLX_INIT_XAVIER_UNIFORM = 7,   /* within sqrt(6 / (inputs + outputs)) */
       FLX_INIT_XAVIER_NORMAL = 8,    /* deviation sqrt(2 / (inputs + outputs)) */
       FLX_INIT_HE_UNIFORM = 9,       /* within sqrt(6 / inputs) */
       FLX_INIT_HE_NORMAL = 10,       /* deviation sqrt(2 / inputs) */
       FLX_INIT_LECUN_UNIFORM = 11,   /* within sqrt(3 / inputs) */
       FLX_INIT_LECUN_NORMAL = 12,    /* deviation sqrt(1 / inputs) */
       FLX_INIT_ORTHOGONAL = 13,      /* orthonormal rows or columns, all axes but the last taken as one */
       FLX_INIT_IDENTITY = 14,        /* of a matrix: ones in the diagonal */
       FLX_INIT_KEY = 15              /* random bits of u32: a key of the random ops */
};

typedef struct flx_init {
    int32_t kind;     /* FLX_INIT_… */
    int32_t reserved; /* must be 0 */
    double scale;
} flx_init;

/** Says how a parameter of the graph is initialised; a later call replaces it, and FLX_INIT_USUAL takes it back. It
    does not change what the graph computes: neither the hash nor a comparison sees it. Printed text, the binary form,
    copies and transforms keep it. Random kinds are for floating parameters, FLX_INIT_KEY for u32: DTYPE otherwise.
    Returns `param`. */
FLX_API flx_val flx_set_init(flx_graph *g, flx_val param, flx_init init);

/** The initialisation of input i, which is a parameter: what was set, or else what is usual for its name. `gamma` (or
    what ends in `.gamma`) is ones, `b`, `c`, `beta` and `bias` are zeros, as are all that are not floating; others are
    Xavier-uniform. Of kind FLX_INIT_USUAL only for what is not a parameter. */
FLX_API flx_init flx_graph_input_init(const flx_graph *g, size_t i);

/** A tensor of a static type, initialised so; FLX_INIT_USUAL is that of a parameter without a name. Equal seeds give
    equal numbers on every machine. NULL on failure. */
FLX_API flx_tensor *flx_init_tensor(flx_context *ctx, const flx_type *type, flx_init init, uint64_t seed,
                                    flx_error *err);

/** Makes `v` the next output. With `name` NULL it is called after the value, or out0, out1 … by position; a name that
    is taken gets the suffix _2, _3 … Outputs that a layer adds for its states (fluxion/nn.h) come after those
    that are declared here. */
FLX_API flx_code flx_output(flx_graph *g, flx_val v, const char *name);

/** Names a value, for messages and printing. Inputs and parameters keep theirs. Returns `v`. */
FLX_API flx_val flx_named(flx_graph *g, flx_val v, const char *name);

/** Pins a value: passes keep it, no group computes past it, and reports show where it is computed. Returns `v`. */
FLX_API flx_val flx_pin(flx_graph *g, flx_val v);

/* ---- Any op by name; fluxion/ops.h has a typed function for each ---- */

/* Absent integer argument of the functions in fluxion/ops.h: take the default of the manual. */
#define FLX_DEFAULT INT64_MAX

typedef struct flx_ints { /* a list of integers or dimensions; v NULL means absent: the default */
    const int64_t *v;
    size_t n;
} flx_ints;

typedef struct flx_reals {
    const double *v;
    size_t n;
} flx_reals;

typedef struct flx_graphs {
    const flx_graph *const *v;
    size_t n;
} flx_graphs;

typedef struct flx_types {
    const flx_type *v;
    size_t n;
} flx_types;

#ifdef __cplusplus
#define FLX_ALL (flx_ints{nullptr, 0})
#else
#define FLX_ALL ((flx_ints){0, 0})
/* A list in place: FLX_INTS(0, 2). */
#define FLX_INTS(...) \
    ((flx_ints){(const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)})
#define FLX_NO_INTS ((flx_ints){(const int64_t[]){0}, 0})
#endif

enum {                       /* kinds of flx_attr */
       FLX_ATTR_INT = 1,     /* i: an integer, dimension, or 0/1 */
       FLX_ATTR_REAL = 2,    /* r */
       FLX_ATTR_WORD = 3,    /* s: a bare word: an enumerator, true/false, a dtype or a symbol */
       FLX_ATTR_STRING = 4,  /* s: quoted text; NUL-terminated */
       FLX_ATTR_INTS = 5,    /* ints */
       FLX_ATTR_REALS = 6,   /* reals */
       FLX_ATTR_PAIRS = 7,   /* ints: low, high, low, high … as in padding=[[0, 1], [2, 2]] */
       FLX_ATTR_TYPE = 8,    /* type */
       FLX_ATTR_TYPES = 9,   /* types */
       FLX_ATTR_GRAPH = 10,  /* graph: kept alive by the graph that uses it, and read-only from then on */
       FLX_ATTR_GRAPHS = 11, /* graphs */
       FLX_ATTR_TENSOR = 12  /* tensor: kept alive */
};

typedef struct flx_attr {
    const char *key;
    int32_t kind;
    union {
        int64_t i;
        double r;
        const char *s;
        flx_ints ints;
        flx_reals reals;
        const flx_type *type;
        flx_types types;
        const flx_graph *graph;
        flx_graphs graphs;
        const flx_tensor *tensor;
    } as;
} flx_attr;

/** Appends a node. Writes the first `capacity` results to `results` (may be NULL when 0) and returns how many the node
    has, 0 on error (the graph keeps it). */
FLX_API uint32_t flx_op(flx_graph *g, const char *op, const flx_val *inputs, size_t num_inputs, const flx_attr *attrs,
                        size_t num_attrs, flx_val *results, size_t capacity);

/** Checks a struct of attributes by its struct_size (fluxion/types.h); `size` and `alignment` are those of its type.
    USAGE for a size that is not accepted, which the graph keeps. The functions of fluxion/ops.h call it. */
FLX_API flx_code flx_attrs_check(flx_graph *g, const void *attrs, const char *type, size_t size, size_t alignment);

/** Appends the nodes of `body`, a finished graph of the same context, with its inputs and parameters, in order of
    declaration, standing for `inputs`, values of g of exactly these types. With `inputs` NULL they stand for the inputs
    and parameters of g that have their names, and those that g lacks are declared. Writes the values of the first
    `capacity` outputs to `results` and returns how many there are, 0 on error (the graph keeps it). So a gradient can
    be part of a larger graph. */
FLX_API uint32_t flx_inline(flx_graph *g, const flx_graph *body, const flx_val *inputs, size_t num_inputs,
                            flx_val *results, size_t capacity);

/** A scalar constant of the given dtype; `value` is rounded to it. */
FLX_API flx_val flx_scalar(flx_graph *g, flx_dtype dtype, double value);

/* ---- Reading a graph ---- */

FLX_API flx_context *flx_graph_context(const flx_graph *g);
FLX_API const char *flx_graph_name(const flx_graph *g); /* lives as long as the graph; "" for NULL */
FLX_API size_t flx_graph_node_count(const flx_graph *g);

/* Everything known of node i, 0 ≤ i < flx_graph_node_count(): strings and types live as long as the graph. */
typedef struct flx_node_view {
    const char *op;
    uint32_t num_inputs, num_results;
    uint32_t num_graphs; /* sub-graphs among its attributes */
    uint32_t pinned;     /* 1 if any result is pinned */
    uint32_t num_attrs;
} flx_node_view;

FLX_API flx_code flx_graph_node(const flx_graph *g, size_t i, flx_node_view *out);
FLX_API flx_val flx_node_input(const flx_graph *g, size_t i, uint32_t k);          /* FLX_NONE when out of range */
FLX_API flx_val flx_node_result(const flx_graph *g, size_t i, uint32_t k);         /* FLX_NONE when out of range */
FLX_API const flx_graph *flx_node_graph(const flx_graph *g, size_t i, uint32_t k); /* NULL when out of range */

/* An attribute of a node, in the form in which flx_op() takes it. Lists, texts and graphs live as long as the graph;
   where `word` is not empty, value.as.s points to it, so a copy of this struct must set that pointer again. */
typedef struct flx_node_attr_view {
    flx_attr value;     /* with its key */
    const char *kind;   /* as in flx_attr_view: "int", "ints", "bool", "real", "word", "dtype", "graph" … */
    int32_t is_default; /* 1: the node would have the same value if the attribute had been left out */
    char word[60];
} flx_node_attr_view;

/** Attribute k of node i, in the manual's order, then those of a custom op's own. An optional attribute without a value
    is left out of the count. FLX_E_NAME when out of range. */
FLX_API flx_code flx_node_attr(const flx_graph *g, size_t i, uint32_t k, flx_node_attr_view *out);
/** The attribute of this name; FLX_E_NAME when the node has none. */
FLX_API flx_code flx_node_attr_find(const flx_graph *g, size_t i, const char *key, flx_node_attr_view *out);

FLX_API size_t flx_graph_input_count(const flx_graph *g); /* inputs and parameters, in order of declaration */
FLX_API flx_val flx_graph_input(const flx_graph *g, size_t i);
FLX_API int flx_graph_input_is_param(const flx_graph *g, size_t i);
FLX_API size_t flx_graph_output_count(const flx_graph *g);
FLX_API flx_val flx_graph_output(const flx_graph *g, size_t i);
FLX_API const char *flx_graph_output_name(const flx_graph *g, size_t i); /* NULL when out of range */

FLX_API const flx_type *flx_val_type(const flx_graph *g, flx_val v);  /* NULL for none or a foreign handle */
FLX_API const char *flx_val_name(const flx_graph *g, flx_val v);      /* NULL when unnamed */
FLX_API flx_val flx_graph_find(const flx_graph *g, const char *name); /* an input, parameter or output by name */
/** How many bits hold an element of a quantised value; 0 when it is not quantised. That is what quantize, fake_quantize
    and fake_quantize_lsq give, also through ops that only move elements and through dequantize, and the packed weights
    of dequant_matmul and its relatives, by their scheme. */
FLX_API uint32_t flx_val_bits(const flx_graph *g, flx_val v);

/** Names of the symbols the graph's types and attributes use, in order of first use; NULL when `i` is out of range. */
FLX_API const char *flx_graph_symbol(const flx_graph *g, size_t i);

/** Re-derives every type and checks every invariant, sub-graphs included. */
FLX_API flx_code flx_graph_verify(const flx_graph *g, flx_error *err);

/** A 64-bit hash of the structure: ops, attributes, types, constants, leaf and output names; not labels. Equal graphs
    of any context have equal hashes, on any machine. 0 only for NULL or a graph with an error. */
FLX_API uint64_t flx_graph_hash(const flx_graph *g);

/** Bytes the graph holds from the allocator, sub-graphs and constants not included. */
FLX_API size_t flx_graph_memory(const flx_graph *g);

/* ---- Specialising symbolic dimensions ---- */

typedef struct flx_dim_binding {
    const char *name;
    int64_t extent;
} flx_dim_binding;

/** A new graph in which the named symbols are the given numbers; others stay symbolic. Shapes and shape-bearing
    attributes are recomputed and checked, sub-graphs included. */
FLX_API flx_graph *flx_specialise(const flx_graph *g, const flx_dim_binding *bindings, size_t count, flx_error *err);

FLX_END_DECLS
#endif
