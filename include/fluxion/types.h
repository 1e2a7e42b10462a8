/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/types.h: what every other public header needs: linkage, dtypes, dimensions, types, errors.

   Conventions of the whole API:
   - A function that makes an object returns it, NULL on failure. Any other function that can fail returns a flx_code.
     Either way the last parameter is a `flx_error *`, which receives the code, the message and the position; it may be
     NULL. Results that are not returned are written to parameters before it.
   - What is made by flx_…_new(), flx_…_read(), flx_…_decode() or a verb is freed by flx_…_free(). Objects that are
     shared (graphs, tensors, kernels) count their holders instead: flx_…_retain() and flx_…_release().
   - A struct of options begins with struct_size, its sizeof. So a program that was compiled with an older header gives
     a shorter struct, and fields that it does not have take their defaults. A longer struct, of a newer program, is
     accepted while the fields that the library does not know are zero, and is FLX_E_USAGE otherwise. So is a size that
     no version can have: 4 or less, not a multiple of the struct's alignment, or above 4096. 0 means the layout of
     version 0.2, the first with these structs: all fields of 0.2 are read and no later ones. Zero is the default of
     every option, so `{.struct_size = sizeof o, …}` sets what differs. Structs of attributes (fluxion/ops.h) and those
     that a function fills follow the same rule; of a filled one struct_size says how much room there is.
   - NULL where an object, a name, a list or a place for a result is needed is FLX_E_USAGE. Unknown flags and values out
     of range are FLX_E_USAGE, names that do not exist FLX_E_NAME, names given twice FLX_E_DUP_NAME; kernels report
     buffers that do not exist as FLX_E_KERNEL.
   - What is marked experimental may change in any version. */
#ifndef FLUXION_TYPES_H
#define FLUXION_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define FLX_BEGIN_DECLS extern "C" {
#define FLX_END_DECLS }
#else
#define FLX_BEGIN_DECLS
#define FLX_END_DECLS
#endif

#if defined(__GNUC__)
#define FLX_API __attribute__((visibility("default")))
#define FLX_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define FLX_API
#define FLX_PRINTF(fmt, args)
#endif

FLX_BEGIN_DECLS

/* ---- Version ---- */

#define FLX_VERSION_MAJOR 0
#define FLX_VERSION_MINOR 2
#define FLX_VERSION_PATCH 0
#define FLX_VERSION "0.2.0"

/** The version of the library that is running, e.g. "0.2.0"; compare with FLX_VERSION. Static storage. */
FLX_API const char *flx_version(void);

/* ---- Dtypes ---- */

/* X(ENUM, value, text, bytes, kind). Values are part of the ABI and never reused. */
#define FLX_DTYPE_MAP(X)          \
    X(F64, 1, f64, 8, FLOAT)      \
    X(F32, 2, f32, 4, FLOAT)      \
    X(F16, 3, f16, 2, FLOAT)      \
    X(BF16, 4, bf16, 2, FLOAT)    \
    X(C64, 5, c64, 8, COMPLEX)    \
    X(C128, 6, c128, 16, COMPLEX) \
    X(I64, 7, i64, 8, SIGNED)     \
    X(I32, 8, i32, 4, SIGNED)     \
    X(I16, 9, i16, 2, SIGNED)     \
    X(I8, 10, i8, 1, SIGNED)      \
    X(U64, 11, u64, 8, UNSIGNED)  \
    X(U32, 12, u32, 4, UNSIGNED)  \
    X(U16, 13, u16, 2, UNSIGNED)  \
    X(U8, 14, u8, 1, UNSIGNED)    \
    X(BOOL, 15, bool, 1, BOOL)

typedef enum flx_dtype {
    FLX_DTYPE_SIGNED = -1, /* no dtype: makes the enumeration signed, like the int32_t in structs */
    FLX_DTYPE_NONE = 0,
#define FLX_DTYPE_ENUM(name, value, text, bytes, kind) FLX_##name = value,
    FLX_DTYPE_MAP(FLX_DTYPE_ENUM)
#undef FLX_DTYPE_ENUM
        FLX_DTYPE_COUNT = 16
} flx_dtype;

/** The spelling used in text ("f32"), or "none" for a value that is not a dtype. Static storage. */
FLX_API const char *flx_dtype_name(int32_t dtype);

/** Bytes of one element, 0 for a value that is not a dtype. */
FLX_API size_t flx_dtype_size(int32_t dtype);

/** The dtype called `name`, or FLX_DTYPE_NONE. */
FLX_API flx_dtype flx_dtype_parse(const char *name);

/* ---- Dimensions and types ---- */

/* A dimension: a number, or a symbolic extent made by flx_dim_symbol() and arithmetic on it (fluxion/graph.h). */
typedef int64_t flx_dim;

#define FLX_MAX_RANK 16

/* Element type and shape of a tensor. Plain data; dims beyond `rank` are ignored. */
typedef struct flx_type {
    int32_t dtype; /* a flx_dtype */
    int32_t rank;  /* 0 is a scalar */
    flx_dim dims[FLX_MAX_RANK];
} flx_type;

/** A type from its parts. A rank outside 0..FLX_MAX_RANK is kept and reported where the type is used. */
FLX_API flx_type flx_type_make(flx_dtype dtype, int32_t rank, const flx_dim *dims);

/* ---- Errors ---- */

/* X(NAME, value, exit status of the command line, what it means). Values are never reused. */
#define FLX_ERROR_MAP(X)                                                             \
    X(SYNTAX, 1, 2, "the text or file could not be read")                            \
    X(STAGE, 2, 2, "the operation does not exist at this stage of the compiler")     \
    X(ARITY, 3, 2, "wrong number of operands or results")                            \
    X(ATTRIBUTE, 4, 2, "an attribute is unknown, missing, repeated or out of range") \
    X(NAME, 5, 2, "a name is not defined")                                           \
    X(DUP_NAME, 6, 2, "a name is defined twice")                                     \
    X(SHAPE, 7, 2, "shapes do not fit")                                              \
    X(DTYPE, 8, 2, "the dtype is not accepted here")                                 \
    X(UNBOUND_DIM, 9, 2, "a symbolic dimension has no extent")                       \
    X(NO_RULE, 10, 2, "no derivative or batching rule exists")                       \
    X(NO_GRAD_PATH, 11, 2, "the loss does not depend on an input of the derivative") \
    X(NON_SCALAR, 12, 2, "a loss with more than one element needs a seed")           \
    X(NOT_DIFFERENTIABLE, 13, 2, "values of this dtype carry no derivative")         \
    X(UNSUPPORTED, 14, 2, "valid, but not supported here")                           \
    X(UNBOUNDED_LOOP, 15, 2, "the loop has no bound where one is needed")            \
    X(ILLEGAL_OP, 16, 2, "the op is not allowed here")                               \
    X(MISSING_INPUT, 17, 2, "an input has no value")                                 \
    X(SIZE, 18, 2, "a size is too large or overflows")                               \
    X(INDEX, 19, 2, "an index is out of range at run time")                          \
    X(CHECK, 20, 1, "a run-time check failed")                                       \
    X(NUMERIC, 21, 2, "a value is not usable, such as a NaN where none is allowed")  \
    X(KERNEL, 22, 2, "a kernel is not valid")                                        \
    X(OOM, 23, 3, "out of memory")                                                   \
    X(DEVICE, 24, 3, "a device or compiler is missing or was lost")                  \
    X(IO, 25, 2, "a file could not be read or written")                              \
    X(VERSION, 26, 2, "the file was written by an incompatible version")             \
    X(USAGE, 27, 2, "a function was called with an argument it does not accept")     \
    X(CANCELLED, 28, 3, "cancelled by the caller")                                   \
    X(TIMEOUT, 29, 3, "not finished within the time limit")                          \
    X(INTERNAL, 99, 3, "a bug in the library; please report it")

typedef enum flx_code {
    FLX_CODE_SIGNED = -1, /* no code: makes the enumeration signed, like the int32_t in structs */
    FLX_OK = 0,
#define FLX_ERROR_ENUM(name, value, status, text) FLX_E_##name = value,
    FLX_ERROR_MAP(FLX_ERROR_ENUM)
#undef FLX_ERROR_ENUM
} flx_code;

/* What went wrong. The storage is the caller's, so reporting "no memory" needs no memory. Every function that takes
   a `flx_error *` accepts NULL. Success leaves it as it was. */
typedef struct flx_error {
    int32_t code;      /* a flx_code */
    char message[240]; /* what is wrong: op, name, shapes, both values */
    char where[120];   /* FILE:LINE:COL of the text, or graph/node, or "" */
    char hint[120];    /* what the user can do, or "" */
} flx_error;

/** The name of a code as messages and documents spell it ("SHAPE"; "OK" for FLX_OK). Static storage. */
FLX_API const char *flx_code_name(int32_t code);

/** One sentence on what the code means. Static storage. */
FLX_API const char *flx_code_text(int32_t code);

/** The exit status a command line should use for the code: 0, 1, 2 or 3. */
FLX_API int flx_code_exit_status(int32_t code);

FLX_END_DECLS
#endif
