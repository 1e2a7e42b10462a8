/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: the in-memory form of a kernel program, and its builder.

   A program is a tree of statements over expressions. Expressions are interned: equal expressions have the same number,
   operands come before their users, and number 0 means none. Because evaluation reads state, an expression denotes a
   computation and not a value: two uses of a load are two loads. Variables are numbered; a name may occur in several
   scopes. Finished programs are immutable and shared by reference counts. The builder bounds depth and size, so code
   that walks a program may recurse. */
#ifndef FLXI_KERNEL_H
#define FLXI_KERNEL_H

#include "base/error.h"
#include "base/hash.h"

#include <fluxion/kernel.h>
#include <stdatomic.h>

/* ---- Types: the numbers of flx_kernel_type ---- */

enum { TAKES_BOOL = 1, TAKES_UNSIGNED = 2, TAKES_SIGNED = 4, TAKES_FLOAT = 8, TAKES_WORD = 16 };
enum {
    TAKES_INT = TAKES_UNSIGNED | TAKES_SIGNED,
    TAKES_NUMBER = TAKES_INT | TAKES_FLOAT,
    TAKES_ANY = TAKES_NUMBER | TAKES_BOOL,
    TAKES_TRUTH = TAKES_BOOL | TAKES_WORD, /* TAKES_WORD is u32 alone */
};

typedef struct {
    const char *name;
    uint8_t bits;    /* of a value; in a buffer a bool takes 32 */
    uint8_t kind;    /* TAKES_BOOL, TAKES_UNSIGNED, TAKES_SIGNED, TAKES_FLOAT; 0 for descriptive types */
    uint8_t storage; /* 1: usable as a buffer's element only */
    uint8_t value;   /* the type a load gives: itself, or what a storage type widens to */
} flxi_ktype;

const flxi_ktype *flxi_ktype_of(uint32_t type); /* for an unknown type: a row of zeros */
uint32_t flxi_ktype_find(const char *name, size_t n);
size_t flxi_ktype_bytes(uint32_t type, uint64_t count); /* of `count` elements in a buffer; SIZE_MAX on overflow */

static inline bool flxi_ktype_is_float(uint32_t type)
{
    return flxi_ktype_of(type)->kind == TAKES_FLOAT;
}
/* Whether an op that takes `kinds` accepts values of the type. */
bool flxi_ktype_fits(uint32_t type, unsigned kinds);

/* ---- Ops ---- */

typedef enum {
    KUN_NONE,
#define KERNEL_UNARY(name, ...) KUN_##name,
#include "kernel/program/kernel_ops.def"
    KUN_COUNT
} flxi_kunary;

typedef enum {
    KBIN_NONE,
#define KERNEL_BINARY(name, ...) KBIN_##name,
#include "kernel/program/kernel_ops.def"
    KBIN_COUNT
} flxi_kbinary;

typedef enum { KRESULT_SAME, KRESULT_BOOL, KRESULT_UNSIGNED } flxi_kresult;

typedef struct {
    const char *name;
    const char *sign; /* its operator in text, "" for an op written as a call */
    unsigned kinds;   /* TAKES_… */
    flxi_kresult result;
    const char *doc;
} flxi_kop;

extern const flxi_kop flxi_kunaries[KUN_COUNT];
extern const flxi_kop flxi_kbinaries[KBIN_COUNT];

uint8_t flxi_kunary_find(const char *name, size_t n);              /* KUN_NONE if there is no such op */
uint8_t flxi_kbinary_find(const char *name, size_t n);             /* KBIN_NONE */
uint32_t flxi_kop_type(const flxi_kop *op, uint32_t operand_type); /* 0 if the op does not take the operand type */

/* Names of the numbers of flx_kernel_atomic, flx_kernel_order and flx_kernel_access, by number. */
extern const char *const flxi_katomic_names[FLX_KERNEL_ATOMIC_COUNT];
extern const char *const flxi_korder_names[FLX_KERNEL_ORDER_COUNT];
extern const char *const flxi_kaccess_names[FLX_KERNEL_ACCESS_COUNT];
extern const char *const flxi_kid_names[FLX_KERNEL_ID_COUNT];

/* ---- Expressions ---- */

typedef enum {
    KX_NONE,
    KX_LITERAL,      /* type; bits */
    KX_VAR,          /* ref: variable */
    KX_LOAD,         /* ref: buffer; x[0]: index */
    KX_LENGTH,       /* ref: buffer */
    KX_ID,           /* op: a flx_kernel_id; ref: axis */
    KX_LANE,         /* subgroup lane */
    KX_LANES,        /* subgroup size */
    KX_UNARY,        /* op: flxi_kunary; x[0] */
    KX_BINARY,       /* op: flxi_kbinary; x[0], x[1] */
    KX_SELECT,       /* x[0] ? x[1] : x[2] */
    KX_FMA,          /* x[0] * x[1] + x[2] */
    KX_CAST,         /* to type; x[0] */
    KX_BITCAST,      /* to type; x[0] */
    KX_CALL,         /* ref: function; args */
    KX_ATOMIC,       /* op: a flx_kernel_atomic; order; ref: buffer; x[0]: index; x[1]: value; x[2]: expected or 0 */
    KX_SUBGROUP_ADD, /* x[0] */
    KX_SUBGROUP_SHUFFLE, /* x[0] from lane x[1] */
    KX_SUBGROUP_BALLOT,  /* x[0] */
    KX_OPAQUE,           /* ref: number of its flxi_kopaque; args */
    KX_KIND_COUNT
} flxi_kx_kind;

/* What evaluating a tree of expressions does, gathered from its leaves. */
enum {
    KX_READS = 1,    /* loads, or reads a length */
    KX_ATOMICS = 2,  /* changes memory */
    KX_SUBGROUP = 4, /* exchanges data with other lanes */
    KX_OPAQUES = 8,  /* an extension or a call */
    KX_VARIES = 16,  /* reads a variable */
};

typedef struct {
    uint8_t kind; /* a flxi_kx_kind */
    uint8_t op;
    uint8_t type;  /* a flx_kernel_type; 0 when the expression is not well typed */
    uint8_t does;  /* KX_READS … of the whole tree */
    uint8_t depth; /* of the tree: 1 for a leaf; at most FLXI_KERNEL_MAX_DEPTH */
    uint8_t order; /* of an atomic */
    uint16_t num_args;
    uint32_t size; /* nodes of the tree, no more than UINT32_MAX */
    uint32_t ref;
    uint32_t x[3];
    union {
        uint64_t bits;
        const uint32_t *args; /* of a call or an opaque */
    };
} flxi_kx;

#define FLXI_KERNEL_MAX_DEPTH 128
#define FLXI_KERNEL_MAX_NESTING 64
#define FLXI_KERNEL_MAX_NODES 1000000
#define FLXI_KERNEL_MAX_BUFFERS 16384
#define FLXI_KERNEL_MAX_ARGS 4096
#define FLXI_KERNEL_MAX_PREDICATES 256 /* parts of the condition on one buffer's count */
#define FLXI_KERNEL_MAX_CALLS 32       /* depth of calls */

/* All flags that exist, of kernels, buffers and regions. */
enum {
    FLXI_KERNEL_FLAGS = FLX_KERNEL_FLUSH | FLX_KERNEL_CONTRACT | FLX_KERNEL_REASSOCIATE | FLX_KERNEL_RECIPROCAL,
    FLXI_KERNEL_BUFFER_FLAGS =
        FLX_KERNEL_OUTPUT | FLX_KERNEL_LIVE_OUT | FLX_KERNEL_DISTINCT | FLX_KERNEL_STOP_GRADIENT | FLX_KERNEL_EXCLUSIVE,
    FLXI_KERNEL_REGION_FLAGS = FLX_KERNEL_REGION_ONCE | FLX_KERNEL_REGION_STOP_GRADIENT | FLX_KERNEL_REGION_RECOMPUTE |
                               FLX_KERNEL_REGION_RECORD,
};

/* How many entries of x are expressions. */
int flxi_kx_operands(const flxi_kx *e);

/* A part whose meaning an extension defines: carried, compared and written always, computed only where it is
   registered. */
typedef struct flxi_kextension flxi_kextension;

typedef struct {
    const char *extension; /* "" means the extension is missing */
    const void *payload;
    size_t payload_size;
    uint64_t fingerprint;
    uint8_t type; /* 0 in a statement */
    uint8_t pure;
    uint32_t id;                  /* the extension's number if the text names it by number, else 0 */
    const flxi_kextension *known; /* the extension, or NULL if none of this name is registered; set by the builder */
} flxi_kopaque;

/* ---- Statements ---- */

typedef enum {
    KS_NONE,
    KS_LET,     /* var, a: value */
    KS_ASSIGN,  /* var, a: value */
    KS_STORE,   /* buffer, a: index, b: value */
    KS_EFFECT,  /* a: an atomic */
    KS_IF,      /* a: condition; body, other */
    KS_LOOP,    /* var; a, b: bounds; body */
    KS_BARRIER, /* order */
    KS_BLOCK,   /* body */
    KS_REGION,  /* text: generator; source; flags; body */
    KS_RETURN,
    KS_INDIRECT,   /* buffer; offset */
    KS_ASYNC_LOAD, /* buffer: source; target; a: byte offset, b: bytes; text: tag */
    KS_ASYNC_STORE,
    KS_ASYNC_WAIT, /* text: tag */
    KS_TRAP,       /* a: address (u32); text: tag */
    KS_RESUME,     /* text: tag */
    KS_COLLECTIVE, /* order: a flx_kernel_collective; buffer: source; target; offset: the root of a broadcast */
    KS_OPAQUE,     /* opaque: number */
    KS_KIND_COUNT
} flxi_ks_kind;

typedef struct flxi_ks flxi_ks;

typedef struct {
    const flxi_ks *at;
    size_t n;
} flxi_klist;

struct flxi_ks {
    uint8_t kind;
    uint8_t order;
    uint16_t
        flags; /* of a region: FLX_KERNEL_REGION_…; of lets and loops taken out of a region: what matters to reverse
                  mode; not part of the program's value */
    uint32_t var;
    uint32_t buffer, target;
    uint32_t a, b;
    uint32_t opaque;
    uint32_t position; /* offset + 1 in the text it was read from; not part of the program's value */
    uint64_t offset;
    const char *text, *source;
    flxi_klist body, other;
};

/* ---- Programs ---- */

typedef enum { KVAR_LET, KVAR_LOOP, KVAR_PARAM, KVAR_UNKNOWN } flxi_kvar_kind;

typedef struct {
    const char *name;
    uint8_t type;
    uint8_t kind; /* KVAR_UNKNOWN: the name was used where no such variable is in scope */
} flxi_kvar;

typedef struct {
    const char *name;
    uint32_t binding;
    uint8_t access; /* a flx_kernel_access; never OUTPUT: that is READ_WRITE with the flag FLX_KERNEL_OUTPUT */
    uint8_t element;
    uint8_t usage;
    uint32_t flags;                  /* FLX_KERNEL_OUTPUT … */
    uint64_t count;                  /* 0: decided at dispatch */
    uint64_t range_begin, range_end; /* bytes; both 0: all */
    uint32_t alignment, locality, coalescing;
    const flx_kernel_predicate *predicates; /* in prefix order */
    size_t num_predicates;
    const void *descriptor; /* of a descriptive element type */
    size_t descriptor_size;
    uint32_t position; /* as in flxi_ks; set by the builder */
} flxi_kbuffer;

/* Whether the caller gives its memory: it has a binding. */
static inline bool flxi_kbuffer_is_bound(const flxi_kbuffer *b)
{
    return b->access != FLX_KERNEL_WORKGROUP && b->access != FLX_KERNEL_PRIVATE;
}

/* A pure function: parameters are variables, the result is an expression after the body. */
typedef struct {
    const char *name;
    const uint32_t *params;
    uint32_t num_params;
    uint8_t type;
    flxi_klist body;
    uint32_t result;
    uint32_t adjoint_of; /* number + 1 of the function whose derivative this is, with respect to … */
    uint32_t
        adjoint_param; /* … this parameter; parameters: those of the function, then its result z and the factor g */
    uint32_t position; /* as in flxi_ks */
} flxi_kfn;

typedef struct {
    const char *key, *value;
} flxi_kmeta;

struct flx_kernel {
    atomic_uint holds;
    flx_context *ctx;
    flxi_arena arena;
    const char *name;
    uint32_t size[3];            /* of a workgroup */
    uint32_t flags;              /* FLX_KERNEL_FLUSH … */
    uint32_t position;           /* as in flxi_ks */
    const flxi_kbuffer *buffers; /* numbered from 1, as are all below: at[0] is a row of zeros */
    uint32_t num_buffers;        /* highest number */
    const flxi_kvar *vars;
    uint32_t num_vars;
    const flxi_kx *exprs;
    uint32_t num_exprs;
    const flxi_kfn *fns;
    uint32_t num_fns;
    const flxi_kopaque *opaques;
    uint32_t num_opaques;
    const flxi_kmeta *meta; /* from 0 */
    size_t num_meta;
    flxi_klist body;
    uint64_t nodes; /* statements and expression trees */
};

const flxi_allocator *flxi_kernel_mem(const flx_kernel *k);
uint32_t flxi_kernel_find_buffer(const flx_kernel *k, const char *name); /* 0: none */

static inline uint32_t flxi_kernel_workgroup(const flx_kernel *k)
{
    return k->size[0] * k->size[1] * k->size[2];
}

/* ---- Builder ----

   Used by the text reader, the decoder, transforms and the public functions. The first error sticks; later calls return
   0 and do nothing. Types are computed but not checked: validation checks them. Every opened body is closed by
   flxi_kb_end. */

typedef struct {
    flxi_klist first; /* the first branch of an `if` whose else is open */
    bool in_else;
    flxi_ks head;      /* the statement whose body is open; KS_NONE for the whole program */
    uint32_t function; /* when a function's body is open: its number */
    size_t scope;      /* number of visible variables when it was opened */
    FLXI_VEC(flxi_ks) list;
} flxi_kframe;

typedef struct flx_kernel_builder flxi_kb;

/* In the adjoint of a region: a term added to the adjoint of a variable; or a variable, and the variable that denotes
   its adjoint there. */
typedef struct {
    uint32_t var, value;
} flxi_kterm;

struct flx_kernel_builder {
    flx_kernel *k; /* under construction: its tables point into the vectors below */
    flx_error err; /* the first */
    const flxi_allocator *mem;
    flxi_strings texts;
    flxi_index expr_index, opaque_index;
    FLXI_VEC(flxi_kx) exprs;
    FLXI_VEC(flxi_kvar) vars;
    FLXI_VEC(flxi_kbuffer) buffers;
    FLXI_VEC(flxi_kfn) fns;
    FLXI_VEC(flxi_kopaque) opaques;
    FLXI_VEC(flxi_kmeta) meta;
    FLXI_VEC(uint32_t) visible; /* variables in scope, innermost last */
    FLXI_VEC(flxi_kframe) frames;
    FLXI_VEC(uint32_t) params; /* of the function whose body is open */
    struct {
        bool is_open; /* the adjoint of the innermost region is being built */
        FLXI_VEC(flxi_kterm) terms, bars;
    } rule;
    uint32_t position; /* given to statements, buffers and functions from now on */
    uint16_t marks;    /* given to lets and loops from now on, as their flags */
    uint64_t nodes;
    uint32_t next_fresh;
};

flxi_kb *flxi_kb_new(flx_context *ctx, const char *name, const uint32_t size[3], flx_error *err);
void flxi_kb_free(flxi_kb *b);                          /* discards an unfinished program */
flx_kernel *flxi_kb_finish(flxi_kb *b, flx_error *err); /* frees b in any case */
bool flxi_kb_ok(const flxi_kb *b);
/* A new builder with the name, workgroup size, flags and metadata of `k`, no buffers, no body. */
flxi_kb *flxi_kb_like(const flx_kernel *k, flx_error *err);

const char *flxi_kb_text(flxi_kb *b, const char *s, size_t n); /* kept with the program */
void flxi_kb_set_flags(flxi_kb *b, uint32_t flags);
void flxi_kb_meta(flxi_kb *b, const char *key, const char *value);
uint32_t flxi_kb_buffer(flxi_kb *b, const flxi_kbuffer *buffer); /* copies texts */
uint32_t flxi_kb_find_buffer(const flxi_kb *b, const char *name);
const char *flxi_kb_fresh_name(flxi_kb *b, const char *stem); /* not the name of any buffer, variable or function */

/* Expressions. A variable has the type of its declaration; an operand 0 gives an expression of type 0. */
uint32_t flxi_kb_literal(flxi_kb *b, uint32_t type, uint64_t bits);
uint32_t flxi_kb_number(flxi_kb *b, uint32_t type, double value); /* rounded to the type */
uint32_t flxi_kb_u32(flxi_kb *b, uint32_t value);
uint32_t flxi_kb_bool(flxi_kb *b, bool value);
uint32_t flxi_kb_var(flxi_kb *b, uint32_t var);
uint32_t flxi_kb_lookup(flxi_kb *b, const char *name, size_t n); /* the variable in scope, 0 if there is none */
uint32_t flxi_kb_unknown(flxi_kb *b, const char *name,
                         size_t n); /* a new KVAR_UNKNOWN variable: validation reports it */
uint32_t flxi_kb_load(flxi_kb *b, uint32_t buffer, uint32_t index);
uint32_t flxi_kb_length(flxi_kb *b, uint32_t buffer);
uint32_t flxi_kb_id(flxi_kb *b, flx_kernel_id which, uint32_t axis);
uint32_t flxi_kb_lane(flxi_kb *b);
uint32_t flxi_kb_lanes(flxi_kb *b);
uint32_t flxi_kb_unary(flxi_kb *b, flxi_kunary op, uint32_t x);
uint32_t flxi_kb_binary(flxi_kb *b, flxi_kbinary op, uint32_t x, uint32_t y);
uint32_t flxi_kb_select(flxi_kb *b, uint32_t c, uint32_t x, uint32_t y);
uint32_t flxi_kb_fma(flxi_kb *b, uint32_t x, uint32_t y, uint32_t z);
uint32_t flxi_kb_cast(flxi_kb *b, uint32_t type, uint32_t x); /* x itself if it has the type */
uint32_t flxi_kb_bitcast(flxi_kb *b, uint32_t type, uint32_t x);
uint32_t flxi_kb_call(flxi_kb *b, uint32_t fn, const uint32_t *args, size_t n);
uint32_t flxi_kb_atomic(flxi_kb *b, flx_kernel_atomic op, uint32_t buffer, uint32_t index, uint32_t value,
                        uint32_t expected, flx_kernel_order order);
uint32_t flxi_kb_subgroup_add(flxi_kb *b, uint32_t x);
uint32_t flxi_kb_subgroup_shuffle(flxi_kb *b, uint32_t x, uint32_t lane);
uint32_t flxi_kb_subgroup_ballot(flxi_kb *b, uint32_t x);
uint32_t flxi_kb_opaque(flxi_kb *b, uint32_t opaque, const uint32_t *args, size_t n);
/* Returns its number, the same for equal parts; texts and payload are copied. With an id, the name, fingerprint and
   purity come from the extension, which must be registered (K60). */
uint32_t flxi_kb_add_opaque(flxi_kb *b, const flxi_kopaque *opaque);
/* All opaque parts of k under their numbers, in a builder that has none yet. */
void flxi_kb_copy_opaques(flxi_kb *b, const flx_kernel *k);
/* The expression with its operands (and arguments) replaced; everything else is kept. */
uint32_t flxi_kb_rebuild(flxi_kb *b, const flxi_kx *e, const uint32_t *x, const uint32_t *args);

/* Statements. */
uint32_t flxi_kb_let(flxi_kb *b, const char *name, uint32_t value); /* the variable */
void flxi_kb_assign(flxi_kb *b, uint32_t var, uint32_t value);
void flxi_kb_store(flxi_kb *b, uint32_t buffer, uint32_t index, uint32_t value);
void flxi_kb_effect(flxi_kb *b, uint32_t value);
void flxi_kb_if(flxi_kb *b, uint32_t condition);
void flxi_kb_else(flxi_kb *b);
uint32_t flxi_kb_loop(flxi_kb *b, const char *name, uint32_t from, uint32_t to); /* the variable */
void flxi_kb_block(flxi_kb *b);
void flxi_kb_region(flxi_kb *b, const char *generator, const char *source, uint32_t flags);
/* Begins the derivative of the open region, which replaces the automatic one; flxi_kb_end closes both. See
   kernel_region_rule.c. */
void flxi_kb_rule(flxi_kb *b);
uint32_t flxi_kb_rule_bar(flxi_kb *b, uint32_t var);              /* the variable that denotes adjoint(var) there */
void flxi_kb_rule_term(flxi_kb *b, uint32_t var, uint32_t value); /* adjoint(var) += value */
void flxi_kb_end_rule(flxi_kb *b);                                /* for flxi_kb_end */
void flxi_kb_end(flxi_kb *b);
void flxi_kb_barrier(flxi_kb *b, flx_kernel_order order);
void flxi_kb_return(flxi_kb *b);
void flxi_kb_simple(flxi_kb *b, const flxi_ks *s); /* any statement without a body or variable, texts copied */

/* A function: its parameters, its body, then flxi_kb_result. */
uint32_t flxi_kb_function(flxi_kb *b, const char *name, uint32_t type);
uint32_t flxi_kb_inner_function(flxi_kb *b, const char *name, uint32_t type); /* also while bodies are open */
uint32_t flxi_kb_param(flxi_kb *b, const char *name, uint32_t type);
void flxi_kb_adjoint_of(flxi_kb *b, uint32_t fn, uint32_t param);
void flxi_kb_result(flxi_kb *b, uint32_t value);
uint32_t flxi_kb_find_function(const flxi_kb *b, const char *name, size_t n); /* 0: none; adjoints have no name */

const flxi_kx *flxi_kb_expr(const flxi_kb *b, uint32_t e);
uint32_t flxi_kb_type(const flxi_kb *b, uint32_t e);

/* ---- Errors ---- */

/* FLX_E_KERNEL with `code` first in the message, as in "K23 operands of …". */
flx_code flxi_kernel_fail(flx_error *err, const char *code, const char *hint, const char *fmt, ...) FLX_PRINTF(4, 5);

#endif
