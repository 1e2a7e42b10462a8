/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/kernel.h: kernels: small data-parallel programs of loops, loads, stores and barriers; reading, building,
   checking, running, differentiating and emitting them. docs/kernels.md is the guide. Experimental: extensions,
   findings and derived kernels may change.

   A kernel is immutable and may be shared between threads; hold it with flx_kernel_retain(), give it up with
   flx_kernel_release(). Errors have the code FLX_E_KERNEL and begin with a stable number or word ("K23 …"). */
#ifndef FLUXION_KERNEL_H
#define FLUXION_KERNEL_H

#include <fluxion/text.h>

FLX_BEGIN_DECLS

/* ---- Types of values and of buffer elements ---- */

/* Those a kernel computes with have the numbers of flx_dtype. The others are elements of buffers only: a load widens
   (to f32, i32 or u32), a store rounds. Descriptive types are carried, never computed with. */
typedef enum flx_kernel_type {
    FLX_KERNEL_F8E4M3 = 32,
    FLX_KERNEL_F8E5M2 = 33,
    FLX_KERNEL_I4 = 34,
    FLX_KERNEL_U4 = 35,
    FLX_KERNEL_FP4 = 36, /* 1-2-1: 0 0.5 1 1.5 2 3 4 6 and their negatives */
    FLX_KERNEL_NF4 = 37, /* 16 quantiles of the normal distribution */
    FLX_KERNEL_BYTES = 48,
    FLX_KERNEL_RECORDS = 49,
    FLX_KERNEL_TENSOR = 50,
    FLX_KERNEL_SPARSE = 51,
    FLX_KERNEL_QUANTISED = 52,
    FLX_KERNEL_MESH = 53,
    FLX_KERNEL_HANDLE = 54,
    FLX_KERNEL_EXTENSION_TYPE = 55
} flx_kernel_type;

/** The spelling of a type in kernel text ("f32", "nf4"), or "none" for a value that is not a type. Static storage. */
FLX_API const char *flx_kernel_type_name(uint32_t type);

/* ---- Buffers ---- */

typedef enum flx_kernel_access {
    FLX_KERNEL_READ = 1,
    FLX_KERNEL_WRITE,
    FLX_KERNEL_READ_WRITE,
    FLX_KERNEL_UNIFORM,
    FLX_KERNEL_WORKGROUP, /* shared by a workgroup, zero at its start */
    FLX_KERNEL_PRIVATE,   /* one array per invocation, zero at its start */
    FLX_KERNEL_ACCESS_COUNT
} flx_kernel_access;

enum {
    FLX_KERNEL_OUTPUT = 1,        /* with READ_WRITE: starts at zero, is returned */
    FLX_KERNEL_LIVE_OUT = 2,      /* kept after the dispatch although it is not a result */
    FLX_KERNEL_DISTINCT = 4,      /* promise: an index buffer without repeated values */
    FLX_KERNEL_STOP_GRADIENT = 8, /* carries no derivative */
    FLX_KERNEL_EXCLUSIVE = 16     /* promise: an element is accessed by one invocation only (tapes are) */
};

typedef enum flx_kernel_usage {
    FLX_KERNEL_ANY_USE,
    FLX_KERNEL_AT_MOST_ONCE,
    FLX_KERNEL_AT_LEAST_ONCE,
    FLX_KERNEL_EXACTLY_ONCE
} flx_kernel_usage;

/* Conditions on a buffer's count, in prefix order: AND and OR are followed by two, NOT by one. */
typedef enum flx_kernel_test {
    FLX_KERNEL_COUNT_GE = 1,   /* count >= a */
    FLX_KERNEL_COUNT_LE,       /* count <= a */
    FLX_KERNEL_COUNT_EQ,       /* count == a */
    FLX_KERNEL_COUNT_MULTIPLE, /* count is a multiple of a */
    FLX_KERNEL_COUNT_MOD,      /* count mod a == b */
    FLX_KERNEL_COUNT_AFFINE,   /* b <= a * count <= c */
    FLX_KERNEL_COUNT_AND,
    FLX_KERNEL_COUNT_OR,
    FLX_KERNEL_COUNT_NOT
} flx_kernel_test;

typedef struct flx_kernel_predicate {
    uint32_t test; /* a flx_kernel_test */
    uint64_t a, b, c;
} flx_kernel_predicate;

typedef struct flx_kernel_buffer {
    uint32_t struct_size; /* sizeof(flx_kernel_buffer); 0: the layout of version 0.2 */
    uint32_t flags;       /* FLX_KERNEL_OUTPUT … */
    const char *name;
    uint32_t access;                          /* a flx_kernel_access */
    uint32_t element;                         /* a flx_dtype or flx_kernel_type */
    uint64_t count;                           /* elements; 0: decided at dispatch */
    uint32_t binding;                         /* slot; ignored for workgroup and private buffers */
    uint32_t usage;                           /* a flx_kernel_usage */
    uint64_t range_begin, range_end;          /* of an output: the bytes that are read back; both 0: all */
    uint32_t alignment, locality, coalescing; /* hints, never change meaning */
    const flx_kernel_predicate *predicates;
    size_t num_predicates;  /* entries of the list */
    const void *descriptor; /* what a descriptive element type describes */
    size_t descriptor_size;
} flx_kernel_buffer;

/* ---- Extensions ----

   Operations that a program adds to kernels. They belong to a context, are registered before the kernels that use them
   are made, and stay as long as the context. In text: opaque<f32>("name", "payload", fingerprint, pure, operands …), or
   opaque<f32>(id, "payload", operands …), which says the same and is written to bytes by its number. */

/* How a target writes it. Text of the program itself: it is trusted. */
typedef struct flx_kernel_spelling {
    /* An expression (of a statement: a statement), with $0 $1 … for operands, $T for the type of the result, $P for the
       payload's bytes as 1, 2, 3, $$ for a dollar; NULL: the target cannot run it. */
    const char *text;
    const char *prelude; /* functions and includes that it needs, written once before all kernels; or NULL */
} flx_kernel_spelling;

enum {
    FLX_KERNEL_EXTENSION_IMPURE = 1,   /* evaluating it has effects: it is neither moved nor repeated nor left out */
    FLX_KERNEL_EXTENSION_STATEMENT = 2 /* a statement, without operands or result */
};

/* Values are bit patterns in the low bits of a uint64_t, the rest zero. Threads may call the functions at the same
   time. */
typedef struct flx_kernel_extension {
    uint32_t struct_size; /* sizeof(flx_kernel_extension); 0: the layout of version 0.2 */
    uint32_t flags;       /* FLX_KERNEL_EXTENSION_… */
    const char *name;
    uint64_t fingerprint; /* of its meaning, not 0: a kernel that was written for another one is refused */
    uint32_t id;          /* its number in bytes, not 0 */
    uint32_t num_args;
    void *user; /* handed to the functions */
    /** The type of the result for operands of these types, 0 if it does not take them. */
    uint32_t (*type)(void *user, const uint32_t *types, size_t num_args);
    /** 0 if the payload is fine, else a reason in `why`, a text of at most `room` bytes with its 0. NULL: any
        payload is accepted. */
    int32_t (*check)(void *user, const void *payload, size_t size, char *why, size_t room);
    /** What it gives, of the operands' types and bits. Of a statement it may be NULL: nothing happens. */
    uint64_t (*evaluate)(void *user, const void *payload, size_t size, const uint32_t *types, const uint64_t *args,
                         size_t num_args);
    flx_kernel_spelling c, cuda, opencl;
    /** Its derivatives as kernel text, or NULL: adjoint self[0](…) -> $G { … } for each operand that has one, as of a
        function `self`, and functions they use. $T is the type of the result, $G the type that derivatives are computed
        in, $P the payload as a string. */
    const char *derivative;
} flx_kernel_extension;

/** Adds an extension; everything but `user` is copied. DUP_NAME if the context has its name or its number. */
FLX_API flx_code flx_kernel_register_extension(flx_context *ctx, const flx_kernel_extension *extension, flx_error *err);

/* ---- Building ----

   The first error sticks: later calls return 0 and do nothing; flx_kernel_finish() reports it. An expression is a
   number that belongs to its builder; it may be used several times, and each use is a computation of its own. */

typedef struct flx_kernel flx_kernel;
typedef struct flx_kernel_builder flx_kernel_builder;
typedef uint32_t flx_kx; /* an expression; 0 is none */

typedef enum flx_kernel_id {
    FLX_KERNEL_INVOCATION_ID,
    FLX_KERNEL_WORKGROUP_ID,
    FLX_KERNEL_LOCAL_ID,
    FLX_KERNEL_NUM_WORKGROUPS,
    FLX_KERNEL_ID_COUNT
} flx_kernel_id;

typedef enum flx_kernel_atomic {
    FLX_KERNEL_ATOMIC_ADD,
    FLX_KERNEL_ATOMIC_SUB,
    FLX_KERNEL_ATOMIC_MIN,
    FLX_KERNEL_ATOMIC_MAX,
    FLX_KERNEL_ATOMIC_AND,
    FLX_KERNEL_ATOMIC_OR,
    FLX_KERNEL_ATOMIC_XOR,
    FLX_KERNEL_ATOMIC_EXCHANGE,
    FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE,
    FLX_KERNEL_ATOMIC_COUNT
} flx_kernel_atomic;

typedef enum flx_kernel_order {
    FLX_KERNEL_RELAXED,
    FLX_KERNEL_ACQUIRE,
    FLX_KERNEL_RELEASE,
    FLX_KERNEL_ACQ_REL,
    FLX_KERNEL_SEQ_CST,
    FLX_KERNEL_GRID, /* of a barrier: the whole grid */
    FLX_KERNEL_ORDER_COUNT
} flx_kernel_order;

typedef enum flx_kernel_collective {
    FLX_KERNEL_ALL_REDUCE,
    FLX_KERNEL_ALL_GATHER,
    FLX_KERNEL_REDUCE_SCATTER,
    FLX_KERNEL_BROADCAST,
    FLX_KERNEL_COLLECTIVE_COUNT
} flx_kernel_collective;

/* Flags of a kernel. Without them arithmetic is exact IEEE. */
enum {
    FLX_KERNEL_FLUSH = 1,       /* subnormals may become zero */
    FLX_KERNEL_CONTRACT = 2,    /* a * b + c may become fma */
    FLX_KERNEL_REASSOCIATE = 4, /* sums and products may be reordered */
    FLX_KERNEL_RECIPROCAL = 8   /* division may become a product with the reciprocal */
};

/* Flags of a region. */
enum {
    FLX_KERNEL_REGION_ONCE = 1,          /* may occur once in a program */
    FLX_KERNEL_REGION_STOP_GRADIENT = 2, /* its values carry no derivative */
    FLX_KERNEL_REGION_RECOMPUTE = 4,     /* reverse mode runs it again … */
    FLX_KERNEL_REGION_RECORD = 8         /* … or keeps its values */
};

/** Starts a kernel with workgroups of sx * sy * sz invocations. NULL when memory is exhausted or an argument is
    NULL. */
FLX_API flx_kernel_builder *flx_kernel_begin(flx_context *ctx, const char *name, uint32_t sx, uint32_t sy, uint32_t sz);
/** The finished kernel, validated, or NULL with the first error. The builder is gone in any case. */
FLX_API flx_kernel *flx_kernel_finish(flx_kernel_builder *b, flx_error *err);
FLX_API void flx_kernel_abandon(flx_kernel_builder *b); /* NULL is fine */

FLX_API void flx_kernel_set_flags(flx_kernel_builder *b, uint32_t flags);
FLX_API void flx_kernel_set_meta(flx_kernel_builder *b, const char *key, const char *value);
/** Declares a buffer; the number stands for it in the functions below. */
FLX_API uint32_t flx_kernel_add_buffer(flx_kernel_builder *b, const flx_kernel_buffer *buffer);

FLX_API flx_kx flx_kx_literal(flx_kernel_builder *b, uint32_t type, uint64_t bits); /* by its bit pattern */
FLX_API flx_kx flx_kx_number(flx_kernel_builder *b, uint32_t type, double value);   /* rounded to the type */
FLX_API flx_kx flx_kx_u32(flx_kernel_builder *b, uint32_t value);
FLX_API flx_kx flx_kx_f32(flx_kernel_builder *b, float value);
FLX_API flx_kx flx_kx_load(flx_kernel_builder *b, uint32_t buffer, flx_kx index);
FLX_API flx_kx flx_kx_length(flx_kernel_builder *b, uint32_t buffer);
FLX_API flx_kx flx_kx_id(flx_kernel_builder *b, flx_kernel_id which, uint32_t axis);
FLX_API flx_kx flx_kx_subgroup_lane(flx_kernel_builder *b);
FLX_API flx_kx flx_kx_subgroup_size(flx_kernel_builder *b);
/** By the op's name: "neg", "exp" …; "add", "lt", "pow" … */
FLX_API flx_kx flx_kx_unary(flx_kernel_builder *b, const char *op, flx_kx x);
FLX_API flx_kx flx_kx_binary(flx_kernel_builder *b, const char *op, flx_kx x, flx_kx y);
FLX_API flx_kx flx_kx_select(flx_kernel_builder *b, flx_kx condition, flx_kx x, flx_kx y);
FLX_API flx_kx flx_kx_fma(flx_kernel_builder *b, flx_kx x, flx_kx y, flx_kx z);
FLX_API flx_kx flx_kx_cast(flx_kernel_builder *b, uint32_t type, flx_kx x);
FLX_API flx_kx flx_kx_bitcast(flx_kernel_builder *b, uint32_t type, flx_kx x);
FLX_API flx_kx flx_kx_call(flx_kernel_builder *b, uint32_t function, const flx_kx *args, size_t num_args);
/** `expected` only with COMPARE_EXCHANGE, else 0. The value is the old element. */
FLX_API flx_kx flx_kx_atomic(flx_kernel_builder *b, flx_kernel_atomic op, uint32_t buffer, flx_kx index, flx_kx value,
                             flx_kx expected, flx_kernel_order order);
FLX_API flx_kx flx_kx_subgroup_add(flx_kernel_builder *b, flx_kx x);
FLX_API flx_kx flx_kx_subgroup_shuffle(flx_kernel_builder *b, flx_kx x, flx_kx lane);
FLX_API flx_kx flx_kx_subgroup_ballot(flx_kernel_builder *b, flx_kx x);
/** A registered extension by its number; the type is what its rule gives. */
FLX_API flx_kx flx_kx_extension(flx_kernel_builder *b, uint32_t id, const void *payload, size_t payload_size,
                                const flx_kx *args, size_t num_args);

/** Declares a variable and gives it as an expression. */
FLX_API flx_kx flx_kernel_let(flx_kernel_builder *b, const char *name, flx_kx value);
FLX_API void flx_kernel_assign(flx_kernel_builder *b, flx_kx variable, flx_kx value);
FLX_API void flx_kernel_store(flx_kernel_builder *b, uint32_t buffer, flx_kx index, flx_kx value);
FLX_API void flx_kernel_effect(flx_kernel_builder *b, flx_kx atomic);
/* These open a body, which flx_kernel_end() closes; flx_kernel_else() starts the other branch of the open `if`. */
FLX_API void flx_kernel_if(flx_kernel_builder *b, flx_kx condition);
FLX_API void flx_kernel_else(flx_kernel_builder *b);
FLX_API flx_kx flx_kernel_loop(flx_kernel_builder *b, const char *name, flx_kx from, flx_kx to);
FLX_API void flx_kernel_block(flx_kernel_builder *b);
FLX_API void flx_kernel_region(flx_kernel_builder *b, const char *generator, const char *source, uint32_t flags);
FLX_API void flx_kernel_end(flx_kernel_builder *b);
/** Begins the derivative of the open region, in place of the automatic one: then come only contributions, and
    flx_kernel_end(). In text: region NAME { … } adjoint { adjoint(v) += e; … }. */
FLX_API void flx_kernel_region_adjoint(flx_kernel_builder *b);
/** There: the adjoint that a variable, which the region assigns, has after it; f64 for f64, else f32. */
FLX_API flx_kx flx_kx_adjoint(flx_kernel_builder *b, flx_kx variable);
/** There: adds to the adjoint that a variable has before the region. Linear in adjoints; other variables have the
    values that they have after the region. */
FLX_API void flx_kernel_contribute(flx_kernel_builder *b, flx_kx variable, flx_kx value);
FLX_API void flx_kernel_barrier(flx_kernel_builder *b, flx_kernel_order order);
FLX_API void flx_kernel_return(flx_kernel_builder *b);
FLX_API void flx_kernel_trap(flx_kernel_builder *b, flx_kx address, const char *tag);
/** A registered extension that is a statement. */
FLX_API void flx_kernel_extend(flx_kernel_builder *b, uint32_t id, const void *payload, size_t payload_size);

/** A pure function: parameters, statements, then flx_kernel_result(). The number is for flx_kx_call(). */
FLX_API uint32_t flx_kernel_function(flx_kernel_builder *b, const char *name, uint32_t type);
/** The derivative of `function` with respect to parameter `param`, instead of the automatic one: a fragment of the
    function's parameters, its result and a factor g, giving g times the partial derivative. */
FLX_API void flx_kernel_adjoint(flx_kernel_builder *b, uint32_t function, uint32_t param);
FLX_API flx_kx flx_kernel_param(flx_kernel_builder *b, const char *name, uint32_t type);
FLX_API void flx_kernel_result(flx_kernel_builder *b, flx_kx value);

/* ---- Kernels ---- */

FLX_API flx_kernel *flx_kernel_retain(flx_kernel *k);
FLX_API void flx_kernel_release(flx_kernel *k); /* NULL is fine */
FLX_API const char *flx_kernel_name(const flx_kernel *k);
FLX_API void flx_kernel_workgroup_size(const flx_kernel *k, uint32_t size[3]);
FLX_API size_t flx_kernel_buffer_count(const flx_kernel *k);
/** Buffer i from 0; the texts live as long as the kernel. Set out->struct_size first: no more than that is written;
    with 0 it is the layout of version 0.2. FLX_E_USAGE when out of range. */
FLX_API flx_code flx_kernel_buffer_at(const flx_kernel *k, size_t i, flx_kernel_buffer *out);

/* ---- Text and bytes ---- */

/** Reads `.flk` text that holds one kernel. On failure NULL, with FILE:LINE:COL in err->where. The kernel is
    validated. */
FLX_API flx_kernel *flx_kernel_parse(flx_context *ctx, const char *text, size_t length, const char *file,
                                     flx_error *err);
/** Writes text that reads back to the same kernel. */
FLX_API flx_code flx_kernel_print(const flx_kernel *k, flx_buffer *out, flx_error *err);
/** The wire form: equal kernels have equal bytes. */
FLX_API flx_code flx_kernel_encode(const flx_kernel *k, flx_buffer *out, flx_error *err);
/** Reads the wire form; what it holds may still be invalid. Errors carry the byte offset. */
FLX_API flx_kernel *flx_kernel_decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err);
/** A hash of the wire form. */
FLX_API flx_code flx_kernel_hash(const flx_kernel *k, uint64_t *hash, flx_error *err);

/* ---- Validation ---- */

typedef struct flx_kernel_target {
    uint32_t struct_size;         /* sizeof(flx_kernel_target); 0: the layout of version 0.2 */
    uint32_t flags;               /* FLX_KERNEL_HAS_… */
    uint32_t max_workgroup;       /* invocations; 0: 1024 */
    uint32_t subgroup_size;       /* 0: 32 */
    uint64_t max_workgroup_bytes; /* 0: 48 KiB */
    uint64_t max_private_bytes;   /* of one invocation; 0: 64 KiB */
} flx_kernel_target;

enum {
    FLX_KERNEL_HAS_SUBGROUPS = 1,
    FLX_KERNEL_HAS_GRID_BARRIER = 2,
    FLX_KERNEL_HAS_COLLECTIVES = 4,
    FLX_KERNEL_HAS_RESUME = 8,
    FLX_KERNEL_LACKS_F64 = 16,
    FLX_KERNEL_LACKS_F16 = 32,
    FLX_KERNEL_ALLOWS_SHADOWING = 64,
    FLX_KERNEL_NEEDS_CONVERGENCE = 128 /* subgroup ops only where all invocations of a workgroup arrive together */
};

typedef struct flx_kernel_finding {
    char code[4]; /* "K23" */
    int32_t is_warning;
    char path[120]; /* statement numbers from the top, as in "body/2/else/0" */
    char message[240];
    char hint[120];
    uint32_t position; /* offset + 1 in the text it was read from, or 0 */
} flx_kernel_finding;

/** As flx_kernel_parse(), with all that is wrong: `found` receives the number of errors and warnings, `findings` the
    first `room` of them. Text that is malformed has none, only `err`. */
FLX_API flx_kernel *flx_kernel_parse_findings(flx_context *ctx, const char *text, size_t length, const char *file,
                                              flx_kernel_finding *findings, size_t room, size_t *found, flx_error *err);
/** All errors and warnings in program order: `found` receives their number, `findings` the first `room` of them.
    `target` NULL: the reference interpreter, which has everything. FLX_OK if there is no error, FLX_E_KERNEL if there
    is one. */
FLX_API flx_code flx_kernel_validate(const flx_kernel *k, const flx_kernel_target *target, flx_kernel_finding *findings,
                                     size_t room, size_t *found, flx_error *err);

/* ---- Running ---- */

typedef struct flx_kernel_memory {
    const char *buffer; /* its name */
    void *data;         /* little-endian elements; outputs too are the caller's */
    size_t size;        /* bytes: what the count demands, or where the count is open, decides it */
} flx_kernel_memory;

typedef enum flx_kernel_schedule {
    FLX_KERNEL_FORWARD,     /* workgroups and invocations in order */
    FLX_KERNEL_REVERSE,     /* in opposite order */
    FLX_KERNEL_INTERLEAVED, /* invocations take turns, one statement each */
    FLX_KERNEL_SHUFFLED     /* a random order made from the seed */
} flx_kernel_schedule;

enum {
    FLX_KERNEL_DETECT_RACES = 1,
    FLX_KERNEL_CHECKED = 2 /* zero divisors and signed overflow are errors */
};

typedef struct flx_kernel_run_options {
    uint32_t struct_size;   /* sizeof(flx_kernel_run_options); 0: the layout of version 0.2 */
    uint32_t flags;         /* FLX_KERNEL_DETECT_RACES … */
    const char *device;     /* "cpu": compiled C; "ref": the interpreter; "opencl"; NULL: see below */
    uint32_t schedule;      /* a flx_kernel_schedule; other devices than "ref" have only FLX_KERNEL_FORWARD */
    uint32_t subgroup_size; /* 0: 32 */
    uint64_t seed;
    uint64_t max_steps; /* evaluated nodes, 0: 2^33; a limit without a device selects the interpreter */
} flx_kernel_run_options;

/** One dispatch over grid[0] * grid[1] * grid[2] workgroups. Every bound buffer needs memory. Where no device is named,
    the interpreter runs what needs it (flags, a schedule, a kernel that the default device cannot run), and the default
    device the rest: $FLX_DEVICE, else "cpu". */
FLX_API flx_code flx_kernel_run(const flx_kernel *k, const uint32_t grid[3], const flx_kernel_memory *memory,
                                size_t num_memory, const flx_kernel_run_options *options, flx_error *err);

/* ---- Transforms ---- */

/** A kernel that does the same with less. `passes` NULL: the usual ones in their order, else names separated by commas
    (docs/kernels.md lists them); "-inline,-unroll" are the usual ones without these. */
FLX_API flx_kernel *flx_kernel_optimise(const flx_kernel *k, const char *passes, flx_error *err);

/** A kernel that does what dispatching `first` and then `second` over the same grid does. Bound buffers of one name are
    the same memory. NULL with the reason when an invocation of the second may need what another one of the first did,
    or when they do not fit together otherwise. Optimise it: then little need go through memory. */
FLX_API flx_kernel *flx_kernel_fuse(const flx_kernel *first, const flx_kernel *second, flx_error *err);

/** A kernel that does for many examples what `k` does for one; no example sees the others. The buffers named in
    `batched` hold the elements of all examples, one after the other; buffers that `k` may write must be among them.
    Examples go along `axis` of the grid, which takes `groups` workgroups for each: dispatch with grid[axis] = groups *
    size. Either `size` or `groups` may be 0: then the dispatch decides it. */
FLX_API flx_kernel *flx_kernel_vmap(const flx_kernel *k, const char *const *batched, size_t num_batched, uint32_t axis,
                                    uint32_t groups, uint64_t size, flx_error *err);

typedef enum flx_kernel_role {
    FLX_KERNEL_PRIMAL,    /* a buffer of the forward kernel with its initial contents */
    FLX_KERNEL_SCRATCH,   /* a copy of such a buffer, made by the caller of the dispatch: it is written */
    FLX_KERNEL_RESULT,    /* a forward output, computed (with_forward) or supplied (saved) */
    FLX_KERNEL_COTANGENT, /* grad_<output>, given */
    FLX_KERNEL_GRADIENT,  /* grad_<input>, added to */
    FLX_KERNEL_ADJOINT,   /* adj_<buffer>, scratch */
    FLX_KERNEL_TAPE,      /* tape_<k>, scratch */
    FLX_KERNEL_TANGENT,   /* tan_<buffer> */
    FLX_KERNEL_COUNTER    /* counts_<k>: how much tape the counting kernel found to be needed; overflow flag */
} flx_kernel_role;

/* What the caller that dispatches a derived kernel must know of one of its buffers. */
typedef struct flx_kernel_need {
    const char *buffer;  /* in the derived kernel */
    const char *forward; /* the forward buffer that it belongs to, or "" */
    uint32_t role;       /* a flx_kernel_role */
    uint32_t element;
    uint32_t flags;     /* FLX_KERNEL_NEED_… */
    const char *length; /* elements, as an expression of forward lengths and the grid, such as "buf_len(x)" */
} flx_kernel_need;

enum {
    FLX_KERNEL_NEED_ZERO = 1,     /* must be zero before the dispatch */
    FLX_KERNEL_NEED_CONSUMED = 2, /* its contents are destroyed: pass a copy */
    FLX_KERNEL_NEED_ATOMIC = 4,   /* accumulated with atomics, else by plain additions */
    FLX_KERNEL_NEED_ONES = 8,     /* must be filled with 1 */
    FLX_KERNEL_NEED_GIVEN = 16    /* the results of the forward kernel, which the caller has (FLX_KERNEL_SAVED) */
};

/* A derived kernel: one or more dispatches in order, and what they need. Owns everything in it. */
typedef struct flx_kernel_derived flx_kernel_derived;

enum {
    FLX_KERNEL_SEED_ONES = 1,      /* cotangents are ones, whatever is given */
    FLX_KERNEL_OVERWRITE = 2,      /* gradients are stored instead of added; an error where an element gets several */
    FLX_KERNEL_WITH_FORWARD = 4,   /* the forward results are computed as well */
    FLX_KERNEL_SAVED = 8,          /* the forward results are given, so they need not be recomputed */
    FLX_KERNEL_STRICT = 16,        /* a piecewise constant operation on the way is an error instead of a warning */
    FLX_KERNEL_DETERMINISTIC = 32, /* no float atomics: contributions are kept and added in order by one more kernel */
    FLX_KERNEL_PRIMAL_TYPES = 64,  /* cotangents and gradients have the type of their buffer, not f32 or f64 */
    FLX_KERNEL_TIES_LEFT = 128     /* a tie of min or max goes to the first operand instead of being shared */
};

typedef struct flx_kernel_grad_options {
    uint32_t struct_size;   /* sizeof(flx_kernel_grad_options); 0: the layout of version 0.2 */
    uint32_t flags;         /* FLX_KERNEL_SEED_ONES … */
    uint64_t tape_budget;   /* bytes of tape per invocation; 0: no limit */
    uint64_t private_words; /* tapes up to this many 4-byte words are private arrays; 0: 64 */
    uint32_t max_trips;     /* bound on trips that depend on data; 0: counted by a kernel of its own */
    uint32_t unroll;        /* loops of up to this many constant trips are unrolled; 0: none */
    uint32_t columns;       /* of flx_kernel_jvp: tangents carried per value; 0: 1 */
} flx_kernel_grad_options;

/** Reverse mode: from cotangents of `outputs` to gradients of `inputs`. */
FLX_API flx_kernel_derived *flx_kernel_grad(const flx_kernel *k, const char *const *outputs, size_t num_outputs,
                                            const char *const *inputs, size_t num_inputs,
                                            const flx_kernel_grad_options *options, flx_error *err);
/** Forward mode: from tangents of `inputs` to tangents of `outputs`. */
FLX_API flx_kernel_derived *flx_kernel_jvp(const flx_kernel *k, const char *const *outputs, size_t num_outputs,
                                           const char *const *inputs, size_t num_inputs,
                                           const flx_kernel_grad_options *options, flx_error *err);

FLX_API void flx_kernel_derived_free(flx_kernel_derived *d); /* NULL is fine */
FLX_API size_t flx_kernel_derived_count(const flx_kernel_derived *d);
/** Kernel i of the sequence; owned by `d`. */
FLX_API flx_kernel *flx_kernel_derived_kernel(const flx_kernel_derived *d, size_t i);
/** The kernel that counts how much tape is needed, or NULL when the lengths are known. */
FLX_API flx_kernel *flx_kernel_derived_counting(const flx_kernel_derived *d);
FLX_API size_t flx_kernel_derived_need_count(const flx_kernel_derived *d);
FLX_API flx_code flx_kernel_derived_need(const flx_kernel_derived *d, size_t i, flx_kernel_need *out);
FLX_API size_t flx_kernel_derived_warning_count(const flx_kernel_derived *d);
FLX_API const char *flx_kernel_derived_warning(const flx_kernel_derived *d, size_t i);

/** Runs the sequence with whatever it needs: `memory` holds forward buffers, cotangents or tangents (missing cotangents
    are ones) and the gradients or tangents wanted; tapes, adjoints and copies are made and thrown away. NAME for a
    buffer that neither the forward kernel nor the derivative has, DUP_NAME for one that is given twice. */
FLX_API flx_code flx_kernel_derived_run(const flx_kernel_derived *d, const uint32_t grid[3],
                                        const flx_kernel_memory *memory, size_t num_memory,
                                        const flx_kernel_run_options *options, flx_error *err);

/** Source text for a target: "c", "cuda" or "opencl". */
FLX_API flx_code flx_kernel_emit(const flx_kernel *k, const char *target, flx_buffer *out, flx_error *err);

FLX_END_DECLS
#endif
