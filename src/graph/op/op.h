/* SPDX-License-Identifier: Apache-2.0 */
/* op.h: the op table. An op is one row of a family's .def file in src/ops and one flxi_rules in the .c of the same
   name; everything that works on ops (parser, printer, binary form, verifier, evaluator, transforms, manual) reads this
   table. */
#ifndef FLXI_OP_H
#define FLXI_OP_H

#include "base/error.h"
#include "graph/type/type.h"

/* ---- Names ---- */

typedef uint32_t flxi_opcode; /* graph/op/opcode.h; in memory only: files and hashes use the name */
enum { OP_NONE };

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

typedef enum {
    ATTR_END,
    ATTR_INT,     /* int64_t; FLXI_ABSENT when optional and absent */
    ATTR_BOOL,    /* int64_t 0 or 1 */
    ATTR_REAL,    /* double; NaN when optional and absent */
    ATTR_WORD,    /* int64_t: index into `words` */
    ATTR_DTYPE,   /* int64_t: a flx_dtype */
    ATTR_DIM,     /* flx_dim: an integer or a symbolic dimension; FLXI_ABSENT when optional and absent */
    ATTR_INTS,    /* flx_ints; v NULL when optional and absent */
    ATTR_BOOLS,   /* flx_ints of 0 and 1 */
    ATTR_DIMS,    /* flx_ints of dimensions */
    ATTR_PAIRS,   /* flx_ints low, high, low, high …; a plain number in the list means both sides */
    ATTR_REALS,   /* flx_reals */
    ATTR_STRING,  /* const char * */
    ATTR_TYPE,    /* const flx_type * */
    ATTR_TYPES,   /* flx_types */
    ATTR_GRAPH,   /* const flx_graph *; NULL when optional and absent */
    ATTR_GRAPHS,  /* flx_graphs */
    ATTR_COMBINE, /* flxi_combine: a word or a graph */
    ATTR_DATA,    /* const flx_tensor *: elements of the attribute `type` before it; positional */
    ATTR_VALUE    /* const flx_tensor *: one element of that type's dtype; positional */
} flxi_attr_kind;

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
    const char *note;  /* optional without a fixed default: how the manual states the default ("all", "none") */
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
typedef struct flxi_express flxi_express; /* ops/express/express.h: a node being expressed as a kernel */
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
    uint32_t (*num_saved)(const flxi_site *s);
    /* From cotangents of the results to cotangents of the operands with s->wanted; dx is preset to FLX_NONE. */
    void (*vjp)(flxi_site *s, const flx_val *dy, flx_val *dx);
    /* The same with dedicated backward ops, where grad is called with FLX_GRAD_FUSED_BACKWARD; otherwise vjp, or
       the decomposition, is used. Both agree to rounding. */
    void (*fused_vjp)(flxi_site *s, const flx_val *dy, flx_val *dx);
    /* From tangents of the operands to tangents of the results, which have the results' shapes; ty is preset to
       FLX_NONE. Linear ops and ops with partials need no such rule. */
    void (*jvp)(flxi_site *s, const flx_val *tx, flx_val *ty);
    /* The op on operands that have a leading batch axis where s->batched says so. Pointwise ops need none; without a
       rule, or when it leaves its first result unset, the op is run in a loop over the examples. */
    void (*batch)(flxi_site *s, flx_val *by);
    /* The op in terms of others; for composites. */
    void (*decompose)(flxi_site *s, flx_val *y);
    /* Composites: the same in terms of fused ops, where `decompose` uses none. */
    void (*fuse)(flxi_site *s, flx_val *y);
    const char *undefined; /* why there is no derivative */

    /* The op as a kernel expression (ops/express/express.h); an op has at most one of the three. Without any it is
       decomposed, or computed by a route or by `eval`. */
    /* Pointwise ops: one element from the operands' elements. f16 and bf16 are widened to f32 before and rounded
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
       TRAIT_LINEAR = 2,       /* in all its operands without a role together */
       TRAIT_ZERO_GRAD = 4,    /* the derivative is zero by definition */
       TRAIT_DECLARED = 8,     /* input and param: made by declarations, not by calls */
       TRAIT_EFFECT = 16,      /* may fail or have effects at run time: never removed, merged or folded */
       TRAIT_OPAQUE = 32,      /* never merged or folded, but removed when its results are unused */
       TRAIT_MULTILINEAR = 64, /* in each of its operands without a role, the others fixed */
       TRAIT_COMPOSITE = 128,  /* of the stage HIR: lowering replaces it (passes/lower_blocks.h) */
       TRAIT_QUANTISES = 256,  /* its integer results have derivatives: those of the numbers they represent */
       TRAIT_SHADOW = 512      /* quantised integers keep their derivatives through this op */
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

extern const flxi_op flxi_ops[]; /* by opcode */

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
flxi_role flxi_operand_role(const flxi_operands *o, uint32_t i);
/* Which of n operands gives its dtype to a bare number at position i (is_bare marks the other bare numbers); UINT32_MAX
   when none does: then the dtype is flxi_number_dtype. */
uint32_t flxi_number_anchor(const flxi_op *op, uint32_t i, uint32_t n, bool (*is_bare)(const void *user, uint32_t k),
                            const void *user);
int32_t flxi_number_dtype(const flxi_op *op, uint32_t i, bool is_truth);
/* Number of results the row names, or -1 for "...". */
int flxi_fixed_results(const flxi_op *op);

typedef enum { MODE_VJP, MODE_FUSED_VJP, MODE_JVP, MODE_BATCH } flxi_mode;

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
