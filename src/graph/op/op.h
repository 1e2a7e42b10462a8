/* SPDX-License-Identifier: Apache-2.0 */
/* op.h: the op table. An op is one row of a family's .def file in src/ops and one flxi_rules in the .c of the same
   name; everything that works on ops (parser, printer, binary form, verifier, evaluator, transforms, manual) reads this
   table. */
#ifndef FLXI_OP_H
#define FLXI_OP_H

#include "base/error.h"
#include "graph/type/type.h"

/* ---- Names ---- */

typedef uint32_t flxi_opcode; /* ops/opcode.h; in memory only: files and hashes use the name */
enum { OP_NONE, FLXI_MAX_OPS = 1024 };

typedef enum { /* for grouping and the manual */
               CLASS_LEAF,
               CLASS_POINTWISE, /* one element in, one element out, operands broadcast */
               CLASS_REDUCE,
               CLASS_AXIS, /* along one axis */
               CLASS_SHAPE,
               CLASS_INDEX,
               CLASS_PRODUCT,
               CLASS_WINDOW,
               CLASS_RANDOM,
               CLASS_CONTROL,
               CLASS_IDENTITY
} flxi_class;

/* ---- Attributes: a typed struct per op, described once by a schema ---- */

/* The kinds of attributes. What is done with each is a row of a table: graph/op/attr_kinds.h for the data, and in text/
   and binary/ for how it is written. */
#define FLXI_ATTR_KINDS(X)                                                                                      \
    X(INT, int)         /* int64_t; FLXI_ABSENT when optional and absent */                                     \
    X(BOOL, bool)       /* int64_t 0 or 1 */                                                                    \
    X(REAL, real)       /* double; NaN when optional and absent */                                              \
    X(WORD, word)       /* int64_t: index into `words` */                                                       \
    X(DTYPE, dtype)     /* int64_t: a flx_dtype */                                                              \
    X(DIM, dim)         /* flx_dim: an integer or a symbolic dimension; FLXI_ABSENT when optional and absent */ \
    X(INTS, ints)       /* flx_ints; v NULL when optional and absent */                                         \
    X(BOOLS, bools)     /* flx_ints of 0 and 1 */                                                               \
    X(DIMS, dims)       /* flx_ints of dimensions */                                                            \
    X(PAIRS, pairs)     /* flx_ints low, high, low, high …; a plain number in the list means both sides */    \
    X(REALS, reals)     /* flx_reals */                                                                         \
    X(STRING, string)   /* const char * */                                                                      \
    X(TYPE, type)       /* const flx_type * */                                                                  \
    X(TYPES, types)     /* flx_types */                                                                         \
    X(GRAPH, graph)     /* const flx_graph *; NULL when optional and absent */                                  \
    X(GRAPHS, graphs)   /* flx_graphs */                                                                        \
    X(COMBINE, combine) /* flxi_combine: a word or a graph */                                                   \
    X(DATA, data)       /* const flx_tensor *: elements of the attribute `type` before it; positional */        \
    X(VALUE, value)     /* const flx_tensor *: one element of that type's dtype; positional */

typedef enum {
    ATTR_END,
#define KIND(NAME, name) ATTR_##NAME,
    FLXI_ATTR_KINDS(KIND)
#undef KIND
        ATTR_KINDS
} flxi_attr_kind;

typedef enum {             /* the C type of an attribute's field */
               STORED_INT, /* int64_t */
               STORED_REAL,
               STORED_INTS,
               STORED_REALS,
               STORED_STRING,
               STORED_TYPE,
               STORED_TYPES,
               STORED_GRAPH,
               STORED_GRAPHS,
               STORED_COMBINE,
               STORED_TENSOR
} flxi_attr_storage;

#define FLXI_ABSENT INT64_MAX

typedef struct {
    int64_t word; /* index into `words`, or -1 when `graph` is given */
    const flx_graph *graph;
} flxi_combine;

enum { /* flags of an attribute */
       ATTR_REQUIRED = 1,
       ATTR_POSITIONAL = 2, /* written without its name in text, before all others */
       ATTR_KERNEL = 4,     /* of a STRING: the text of a kernel */
       ATTR_OWN =
           8, /* of a STRING: attributes that the schema does not know (graph/op/own_attrs.h), written one by one */
       ATTR_EFFECT = 16 /* of a BOOL: the node has effects */
};

typedef struct {
    const char *name;
    flxi_attr_kind kind;
    int flags;
    size_t offset;     /* in the op's attribute struct */
    int64_t fallback;  /* default of INT BOOL WORD DTYPE DIM */
    double real;       /* default of REAL */
    const char *words; /* WORD, COMBINE: the words, separated by spaces */
    const char *note;  /* optional without a fixed default: how the manual states the default ("all", "none");
                          required: what to give, as a hint */
} flxi_attr;

/* Rows of a schema. T is the op's struct, f its field; the name in text is the field's unless _AS says otherwise. */
#define A_INT(T, f, v)                                                          \
    {                                                                           \
        .name = #f, .kind = ATTR_INT, .offset = offsetof(T, f), .fallback = (v) \
    }
#define A_INT_REQ(T, f)                                                                \
    {                                                                                  \
        .name = #f, .kind = ATTR_INT, .offset = offsetof(T, f), .flags = ATTR_REQUIRED \
    }
#define A_INT_OPT(T, f, text)                                                                         \
    {                                                                                                 \
        .name = #f, .kind = ATTR_INT, .offset = offsetof(T, f), .fallback = FLXI_ABSENT, .note = text \
    }
#define A_BOOL(T, f, v)                                                          \
    {                                                                            \
        .name = #f, .kind = ATTR_BOOL, .offset = offsetof(T, f), .fallback = (v) \
    }
#define A_REAL(T, f, v)                                                      \
    {                                                                        \
        .name = #f, .kind = ATTR_REAL, .offset = offsetof(T, f), .real = (v) \
    }
#define A_REAL_REQ(T, f)                                                                \
    {                                                                                   \
        .name = #f, .kind = ATTR_REAL, .offset = offsetof(T, f), .flags = ATTR_REQUIRED \
    }
#define A_REAL_OPT(T, f, text)                                                             \
    {                                                                                      \
        .name = #f, .kind = ATTR_REAL, .offset = offsetof(T, f), .real = NAN, .note = text \
    }
#define A_WORD(T, f, list)                                                     \
    {                                                                          \
        .name = #f, .kind = ATTR_WORD, .offset = offsetof(T, f), .words = list \
    } /* first is default */
#define A_WORD_REQ(T, f, list)                                                                         \
    {                                                                                                  \
        .name = #f, .kind = ATTR_WORD, .offset = offsetof(T, f), .words = list, .flags = ATTR_REQUIRED \
    }
#define A_DTYPE(T, f, v)                                                          \
    {                                                                             \
        .name = #f, .kind = ATTR_DTYPE, .offset = offsetof(T, f), .fallback = (v) \
    }
#define A_DTYPE_OPT(T, f, text)                                                                            \
    {                                                                                                      \
        .name = #f, .kind = ATTR_DTYPE, .offset = offsetof(T, f), .fallback = FLX_DTYPE_NONE, .note = text \
    }
#define A_DTYPE_REQ(T, f)                                                                \
    {                                                                                    \
        .name = #f, .kind = ATTR_DTYPE, .offset = offsetof(T, f), .flags = ATTR_REQUIRED \
    }
#define A_DIM(T, f, v)                                                          \
    {                                                                           \
        .name = #f, .kind = ATTR_DIM, .offset = offsetof(T, f), .fallback = (v) \
    }
#define A_DIM_REQ(T, f)                                                                \
    {                                                                                  \
        .name = #f, .kind = ATTR_DIM, .offset = offsetof(T, f), .flags = ATTR_REQUIRED \
    }
#define A_DIM_OPT(T, f, text)                                                                         \
    {                                                                                                 \
        .name = #f, .kind = ATTR_DIM, .offset = offsetof(T, f), .fallback = FLXI_ABSENT, .note = text \
    }
#define A_LIST(T, f, k, text)                                           \
    {                                                                   \
        .name = #f, .kind = (k), .offset = offsetof(T, f), .note = text \
    }
#define A_LIST_REQ(T, f, k)                                                       \
    {                                                                             \
        .name = #f, .kind = (k), .offset = offsetof(T, f), .flags = ATTR_REQUIRED \
    }
#define A_INTS(T, f, text) A_LIST(T, f, ATTR_INTS, text)
#define A_INTS_REQ(T, f) A_LIST_REQ(T, f, ATTR_INTS)
#define A_DIMS(T, f, text) A_LIST(T, f, ATTR_DIMS, text)
#define A_DIMS_REQ(T, f) A_LIST_REQ(T, f, ATTR_DIMS)
#define A_STRING(T, f)                                            \
    {                                                             \
        .name = #f, .kind = ATTR_STRING, .offset = offsetof(T, f) \
    } /* default "" */
#define A_STRING_REQ(T, f)                                                                \
    {                                                                                     \
        .name = #f, .kind = ATTR_STRING, .offset = offsetof(T, f), .flags = ATTR_REQUIRED \
    }
#define A_TYPE_POS(T, f)                                                                                  \
    {                                                                                                     \
        .name = #f, .kind = ATTR_TYPE, .offset = offsetof(T, f), .flags = ATTR_REQUIRED | ATTR_POSITIONAL \
    }
#define A_DATA_POS(T, f)                                                                                  \
    {                                                                                                     \
        .name = #f, .kind = ATTR_DATA, .offset = offsetof(T, f), .flags = ATTR_REQUIRED | ATTR_POSITIONAL \
    }
#define A_VALUE_POS(T, f)                                                                                  \
    {                                                                                                      \
        .name = #f, .kind = ATTR_VALUE, .offset = offsetof(T, f), .flags = ATTR_REQUIRED | ATTR_POSITIONAL \
    }
#define A_GRAPH_AS(T, f, text)                                                             \
    {                                                                                      \
        .name = text, .kind = ATTR_GRAPH, .offset = offsetof(T, f), .flags = ATTR_REQUIRED \
    }
#define A_GRAPH_OPT(T, f)                                                        \
    {                                                                            \
        .name = #f, .kind = ATTR_GRAPH, .offset = offsetof(T, f), .note = "none" \
    }
#define A_COMBINE(T, f, list)                                                     \
    {                                                                             \
        .name = #f, .kind = ATTR_COMBINE, .offset = offsetof(T, f), .words = list \
    }
#define A_COMBINE_REQ(T, f, list)                                                                         \
    {                                                                                                     \
        .name = #f, .kind = ATTR_COMBINE, .offset = offsetof(T, f), .words = list, .flags = ATTR_REQUIRED \
    }
#define A_END        \
    {                \
        .name = NULL \
    }

/* ---- What the rules of an op see ---- */

typedef struct flxi_infer flxi_infer;     /* graph/op/infer.h */
typedef struct flxi_eval flxi_eval;       /* graph/op/eval.h */
typedef struct flxi_site flxi_site;       /* a node being differentiated or batched */
typedef struct flxi_node flxi_node;       /* graph/graph.h */
typedef struct flxi_express flxi_express; /* ops/express/express.h: a node being lowered to a kernel */
typedef struct flxi_kindex flxi_kindex;
typedef struct {
    uint32_t re, im; /* expressions of a kernel; im is 0 unless the dtype is complex */
} flxi_kval;
typedef struct flxi_int_type {
    int32_t dtype;
    int bits; /* 8…64, bool 1 */
    bool is_signed;
} flxi_int_type;

/* One generic test case: types of operands, T for each dtype the op takes, each with its values in braces: {lo..hi}
   uniform
   (integers: inclusive), {lo..hi+3I} with 3 added on diagonals of matrices. Without braces floats are in -2..2,
   integers in
   -3..3 (unsigned 0..3). Example: {"T[3, 4], i32[5]{0..2}", "axis=0"}. */
typedef struct flxi_sample {
    const char *operands;
    const char *attrs;  /* as in text: "axis=0, keep_dims=true"; NULL for none */
    const char *graphs; /* text of graphs that attrs refers to, with T as above; NULL for none */
    flx_code error;     /* the code that building must fail with; FLX_OK for a valid case */
} flxi_sample;

/* Appends to s->g nodes that compute the results of the node at the site. */
typedef void (*flxi_expansion)(flxi_site *s, flx_val *y);

/* What a node costs, for reports and cost models (graph/op/work.h). */
typedef struct {
    int64_t flops; /* operations on floats that the node takes at least */
    int64_t bytes; /* that it reads and writes at least, each tensor once */
} flxi_work;

/* How the elements of a value depend on one axis of a leaf: position i along `axis` of the value depends on the leaf's
   positions i + lo … i + hi alone. With axis -1 it may depend on all of them.

   If `blocks` is above 0, a weaker link is of use too: both axes are divided in that many equal blocks, and positions
   in a block depend on the block of the same number alone. A rule that says this sets `by_blocks`. */
typedef struct {
    int axis;
    int64_t lo, hi;
    int64_t blocks;
    bool by_blocks;
} flxi_link;

typedef struct { /* one operand of a node as one of its results depends on it */
    const flx_graph *g;
    const flxi_node *n;
    uint32_t operand, result;
} flxi_use;

/* Ops whose Taylor series have a recurrence of their own. Linear and bilinear ops are known by their traits; all
   others go by their jvp. */
typedef enum { SERIES_BY_JVP, SERIES_QUOTIENT, SERIES_SQUARE } flxi_series;

typedef enum {               /* what a node does with a body */
               BODY_BRANCH,  /* one of these runs, once */
               BODY_TEST,    /* of a loop: runs before each round, sees the carries, decides whether there is another */
               BODY_ROUND,   /* of a loop: one round of it */
               BODY_ELEMENT, /* runs on the elements of the operands, in an order that the op chooses */
               BODY_FUNCTION, /* runs once, on the operands */
               BODY_CALLED,   /* runs in a way of the op's own, which its `eval` knows */
               BODY_RULE      /* does not run here: how to differentiate the others */
} flxi_body_role;

/* How a body is bound to its node. The inputs of the body are `carries` values that start as the operands from `first`
   on and become the first outputs of each round, then `shared` values that are the operands after those, then `rows`
   values, each a row of one of the operands after those. What the op binds in another way is counted in none of them.
 */
typedef struct {
    const flx_graph *graph;
    flxi_body_role role;
    uint32_t first, carries, shared, rows;
    flx_dim runs; /* how often it runs; FLXI_ABSENT: that depends on the data */
} flxi_body;

typedef struct {
    flx_code (*infer)(flxi_infer *f);
    flx_code (*eval)(flxi_eval *e);

    /* Pointwise ops: one element. `a` are the op's attributes. Floats of any width are computed in double and rounded
       once. A missing function means that kind of dtype is not taken. */
    double (*scalar)(const double *x, const void *a);
    double _Complex (*scalar_c)(const double _Complex *x, const void *a);
    int64_t (*scalar_i)(const int64_t *x, const flxi_int_type *t); /* result is wrapped to t by the caller */

    const flxi_attr *schema; /* ended by A_END; NULL: no attributes */
    size_t attrs_size;

    /* Derivatives and batching; a missing rule is reported as NO_RULE. */
    /* Pointwise ops with one result give ∂y/∂x_i, in broadcast shape or smaller: either a factor (`partial`) or, where
       the factor is 1 on a set and 0 elsewhere, the set as a bool (`mask`), which selects with where and so lets no
       infinity through. FLX_NONE means that this operand has no derivative. Both modes use it, so they cannot
       disagree. */
    flx_val (*partial)(flxi_site *s, uint32_t operand);
    flx_val (*mask)(flxi_site *s, uint32_t operand);
    /* Appends the forward computation together with the values that vjp needs later (returned in `saved`, which has
       room for `num_saved` values); the results go to y. Only for ops that keep something. */
    void (*primal)(flxi_site *s, flx_val *y, flx_val *saved);
    uint32_t (*num_saved)(flxi_site *s);
    /* From cotangents of the results to cotangents of the operands with s->wanted; dx is preset to FLX_NONE. */
    void (*vjp)(flxi_site *s, const flx_val *dy, flx_val *dx);
    /* The same with dedicated backward ops, where grad is called with FLX_GRAD_BACKWARD_OPS; otherwise vjp, or
       the decomposition, is used. Both agree to rounding. */
    void (*backward_vjp)(flxi_site *s, const flx_val *dy, flx_val *dx);
    /* From tangents of the operands to tangents of the results, which have the results' shapes; ty is preset to
       FLX_NONE. Linear ops and ops with partials need no such rule. */
    void (*jvp)(flxi_site *s, const flx_val *tx, flx_val *ty);
    /* The op on operands that have a leading batch axis where s->batched says so. Pointwise ops need none; without a
       rule, or when it leaves its first result unset, the op is run in a loop over the examples. */
    void (*batch)(flxi_site *s, flx_val *by);
    /* The op in terms of others; for composites. */
    void (*decompose)(flxi_site *s, flx_val *y);
    /* Composites of HIR: the same in terms of composites of MIR, where `decompose` uses none. */
    void (*to_composites)(flxi_site *s, flx_val *y);
    /* Ops of which only two together have a derivative: what a node is replaced by before its graph is transformed;
       NULL: it stays. */
    flxi_expansion (*pair)(const flx_graph *g, uint32_t node);
    flxi_series series; /* how Taylor mode gets the orders of the result from those of the operands; see flxi_series */
    const char *undefined; /* why there is no derivative */
    /* Whether doubling the operands i with in[i], and no others, doubles the results. Asked where the derivative does
       not depend on these operands: the op is then linear in them if it does. Absent: its decomposition says it, or
       else yes. */
    bool (*scales)(const flxi_node *n, const bool *in);
    /* Whether the derivative with respect to the operand is finite at every element, by what is known of the others
       (ops/rule/tame.h). Absent: only where the op is linear or has masks. */
    bool (*is_tame)(const flx_graph *g, const flxi_node *n, uint32_t operand);

    /* What cost models, sparsity and passes over bodies ask. tests/ops/completeness.c says who must answer. */
    /* The cost of the node; `w` comes with no flops and with the bytes of all operands and results. Absent: by the
       class of the op, or that of its decomposition (graph/op/work.h). */
    void (*work)(const flx_graph *g, const flxi_node *n, flxi_work *w);
    /* How a link (see flxi_link) passes from the operand to the result, or false: it is lost. Pointwise ops need none;
       others that have a derivative of their own say flxi_link_dense where they always lose it. */
    bool (*link)(const flxi_use *u, flxi_link *l);
    /* Body i of the node; false: there is none. Every graph among the attributes is one of them. */
    bool (*bodies)(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out);
    /* How the op runs on tensors that are cut among processes: which axes of operands and results are cut alike, and
       what must be exchanged (ops/rule/shard.h). Absent: on whole tensors, unless it is pointwise. */
    const struct flxi_shard *shard;

    /* Lowering to kernels (ops/express/express.h); an op has at most one of the three. Without any it is decomposed, or
       computed by a route or by `eval`. */
    /* Pointwise ops: one element from the operands' elements. f16 and bf16 come widened to f32 and are rounded
       afterwards. */
    flxi_kval (*element)(flxi_express *e, const flxi_kval *x);
    /* The element of result `result` at an index, from elements of the operands at indices computed from it. */
    flxi_kval (*pull)(flxi_express *e, uint32_t result, const flxi_kindex *at);
    const struct flxi_kfold *fold; /* reductions over attribute-given axes */
    /* Whether the rule above applies to this node; NULL: always. */
    bool (*expresses)(const void *attrs, const flx_type *const *in, uint32_t nin);

    const flxi_sample *samples; /* ended by {0} */
} flxi_rules;

/* ---- Rows ---- */

enum { /* traits */
       TRAIT_COMMUTES = 1,
       TRAIT_LINEAR = 2,         /* in all its operands without a role together */
       TRAIT_ZERO_GRAD = 4,      /* the derivative is zero by definition */
       TRAIT_DECLARED = 8,       /* input and param: made by declarations, not by calls */
       TRAIT_EFFECT = 16,        /* may fail or have effects at run time: never removed, merged or folded */
       TRAIT_OPAQUE = 32,        /* never merged or folded, but removed when its results are unused */
       TRAIT_MULTILINEAR = 64,   /* in each of its operands without a role, the others fixed */
       TRAIT_HIR = 128,          /* a composite that only HIR has: lowering replaces it (passes/lower_composites.h) */
       TRAIT_QUANTISES = 256,    /* its integer results have derivatives: those of the numbers they stand for */
       TRAIT_SHADOW = 512,       /* and they keep them through this op */
       TRAIT_PARAM = 1024,       /* of a declared one: it persists between runs */
       TRAIT_CONST = 2048,       /* its value is its attribute of kind ATTR_DATA */
       TRAIT_COPIES = 4096,      /* every element of its results is an element of its only operand */
       TRAIT_SELECTS = 8192,     /* an element of operand 1 where operand 0 is true, of operand 2 elsewhere */
       TRAIT_INVERTS = 16384,    /* true where its only operand is false, and false where it is true */
       TRAIT_SHAPE_ONLY = 32768, /* its results depend on the shapes of its operands, not on their elements */
       TRAIT_EXCHANGES = 65536,  /* its results depend on operands that other processes have */
       TRAIT_COSTLY = 131072     /* pointwise: storing and loading an element is much cheaper than computing it again */
};

typedef struct {
    const char *name;
    const char *operands; /* "x", "c:pred, a, b", "x...", "x, [beta]"; see flxi_role */
    const char *results;  /* "y", "values, indices", "..." */
    flxi_class op_class;
    flxi_dtypes dtypes; /* what the operands without a role may be; all of them have the same one */
    int traits;
    const char *doc;
    const char *family;
    const flxi_rules *rules;
} flxi_op;

/* The table, which src/ops/table.c fills: row 0 is none. */
extern const flxi_op flxi_ops[]; /* by opcode */
extern const uint32_t flxi_op_rows;

/* Second names: read, never printed. */
typedef struct {
    const char *synonym, *name;
} flxi_op_synonym;
typedef struct {
    const char *op, *synonym, *name;
} flxi_attr_synonym;
extern const flxi_op_synonym flxi_op_synonyms[]; /* ended by {NULL} */
extern const flxi_attr_synonym flxi_attr_synonyms[];

/* The rows of what the language itself knows: declarations (TRAIT_DECLARED) and literals (TRAIT_CONST). */
flxi_opcode flxi_leaf_op(bool is_param);
flxi_opcode flxi_const_op(void);

typedef enum {             /* suffix of an operand in the row */
               ROLE_SAME,  /* none: shares one dtype with the other operands that have no role */
               ROLE_INDEX, /* :index  any integer dtype, or floats that hold integers; a bare number is i64 */
               ROLE_PRED,  /* :pred   bool or a number; a bare number is bool */
               ROLE_KEY,   /* :key    u32[2] */
               ROLE_ANY,   /* :any    its own dtype, which infer checks; a bare number is f32 */
               ROLE_INT,   /* :int    any integer dtype; a bare number is i64 */
               ROLE_PAIR   /* :pair   its own dtype, as :any; a bare number in the second half of the operands has the
                            dtype of its partner in the first half */
} flxi_role;

typedef struct {
    flxi_role role[8];
    int count;    /* named operands; the last one repeats when variadic */
    int required; /* how many must be given */
    bool variadic;
} flxi_operands;

/* The row's operand text, parsed. */
const flxi_operands *flxi_operands_of(const flxi_op *op);
/* "reduce_sum(x; axes=all, keep_dims=false)", as the manual writes signatures; … replaces what does not fit. */
const char *flxi_op_signature(const flxi_op *op, char *buffer, size_t size);
flxi_role flxi_operand_role(const flxi_operands *o, uint32_t i);
/* Which of n operands gives its dtype to a bare number at position i (is_bare marks the other bare numbers); UINT32_MAX
   when none does: then the dtype is flxi_number_dtype. */
uint32_t flxi_number_anchor(const flxi_op *op, uint32_t i, uint32_t n, bool (*is_bare)(const void *user, uint32_t k),
                            const void *user);
int32_t flxi_number_dtype(const flxi_op *op, uint32_t i, bool is_truth);
/* Number of results the row names, or -1 for "...". */
int flxi_fixed_results(const flxi_op *op);

typedef enum { MODE_VJP, MODE_BACKWARD_OPS, MODE_JVP, MODE_BATCH } flxi_mode;

/* How an op gets its rule for a mode: FLX_RULE_… of fluxion/catalogue.h. */
int32_t flxi_rule_kind(const flxi_op *op, flxi_mode mode);

/* ---- Which values have derivatives ---- */

/* Floats and complex numbers have derivatives, bools do not. An integer has one when it is quantised: made by an op
   that quantises, or from a quantised integer by an op with TRAIT_SHADOW. Its cotangents and tangents are f32 (its
   "shadow"), since they would vanish if rounded to integers. */
static inline flx_type flxi_tangent_type(const flx_type *t)
{
    flx_type y = *t;
    if (flxi_is_int(t->dtype))
        y.dtype = FLX_F32;
    return y;
}

/* Whether the derivative of an operand of this dtype matters to the op. */
bool flxi_takes_derivative(const flxi_op *op, int32_t dtype);
/* Whether a result of this dtype has a derivative when such an operand has one; `quantised`: one of these operands is
   an integer. */
bool flxi_gives_derivative(const flxi_op *op, int32_t dtype, bool quantised);

/* By name or synonym; OP_NONE when not found. */
flxi_opcode flxi_op_lookup(const char *name, size_t n);
/* Synonyms of attribute names (conv's feature_groups); the name itself when it is not a synonym. */
const char *flxi_attr_name_of(const flxi_op *op, const char *key);

#endif
