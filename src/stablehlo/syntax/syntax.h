/* SPDX-License-Identifier: Apache-2.0 */
/* syntax.h: a StableHLO program as it was read: modules, functions, regions, operations, attributes and types.

   The parser gives both ways of writing an operation, the generic form and the pretty one, the same shape: operands,
   attributes by name, regions, result types. The tree does not say which of the two the text used. Everything lives in
   the arena of the module and is only read once it is built. */
#ifndef FLXI_STABLEHLO_SYNTAX_H
#define FLXI_STABLEHLO_SYNTAX_H

#include "base/memory.h"

#include <fluxion/types.h>

/* Place in the text, from 1; of bytecode line 0 and the offset of the byte. */
typedef struct {
    uint32_t line, column;
} hlo_location;

/* Place in the program that this one was made from, as bytecode notes it. */
typedef struct {
    const char *file; /* NULL: not known */
    uint32_t line, column;
    const char *name; /* "jit(f)/add"; NULL: none */
} hlo_source;

/* ---- Types ---- */

/* X(NAME, text, carrier, bits): the carrier is the dtype that holds such elements here; formats narrower than any dtype
   are held in a wider one, and results are rounded or wrapped to the format. */
#define HLO_ELEMENT_MAP(X)                        \
    X(I1, "i1", FLX_BOOL, 1)                      \
    X(I2, "i2", FLX_I8, 2)                        \
    X(I4, "i4", FLX_I8, 4)                        \
    X(I8, "i8", FLX_I8, 8)                        \
    X(I16, "i16", FLX_I16, 16)                    \
    X(I32, "i32", FLX_I32, 32)                    \
    X(I64, "i64", FLX_I64, 64)                    \
    X(UI2, "ui2", FLX_U8, 2)                      \
    X(UI4, "ui4", FLX_U8, 4)                      \
    X(UI8, "ui8", FLX_U8, 8)                      \
    X(UI16, "ui16", FLX_U16, 16)                  \
    X(UI32, "ui32", FLX_U32, 32)                  \
    X(UI64, "ui64", FLX_U64, 64)                  \
    X(INDEX, "index", FLX_I64, 64)                \
    X(F4E2M1FN, "f4E2M1FN", FLX_F32, 4)           \
    X(F6E2M3FN, "f6E2M3FN", FLX_F32, 6)           \
    X(F6E3M2FN, "f6E3M2FN", FLX_F32, 6)           \
    X(F8E3M4, "f8E3M4", FLX_F32, 8)               \
    X(F8E4M3, "f8E4M3", FLX_F32, 8)               \
    X(F8E4M3FN, "f8E4M3FN", FLX_F32, 8)           \
    X(F8E4M3FNUZ, "f8E4M3FNUZ", FLX_F32, 8)       \
    X(F8E4M3B11FNUZ, "f8E4M3B11FNUZ", FLX_F32, 8) \
    X(F8E5M2, "f8E5M2", FLX_F32, 8)               \
    X(F8E5M2FNUZ, "f8E5M2FNUZ", FLX_F32, 8)       \
    X(F8E8M0FNU, "f8E8M0FNU", FLX_F32, 8)         \
    X(BF16, "bf16", FLX_BF16, 16)                 \
    X(F16, "f16", FLX_F16, 16)                    \
    X(F32, "f32", FLX_F32, 32)                    \
    X(F64, "f64", FLX_F64, 64)                    \
    X(TF32, "tf32", FLX_F32, 19)                  \
    X(C64, "complex<f32>", FLX_C64, 64)           \
    X(C128, "complex<f64>", FLX_C128, 128)

typedef enum {
#define HLO_ELEMENT_ENUM(name, text, carrier, bits) HLO_##name,
    HLO_ELEMENT_MAP(HLO_ELEMENT_ENUM)
#undef HLO_ELEMENT_ENUM
        HLO_ELEMENT_COUNT
} hlo_element;

typedef struct {
    const char *text;
    flx_dtype carrier;
    int bits;
} hlo_element_info;
const hlo_element_info *flxi_hlo_element(hlo_element e);

/* !quant.uniform<storage<min:max>:expressed:axis, {scale:zero, …}> */
typedef struct {
    hlo_element storage, expressed;
    int64_t min, max;  /* of the storage; its whole range where the text gives none */
    int64_t axis;      /* −1: one scale for the whole tensor */
    size_t num_scales; /* 1, or one per slice along the axis */
    const double *scales;
    const int64_t *zero_points;
} hlo_quant;

typedef enum {
    HLO_TENSOR,
    HLO_SCALAR, /* a bare element type, as in the type of a number: 3 : i64 */
    HLO_TOKEN,
    HLO_TUPLE,    /* parts */
    HLO_FUTURE,   /* parts */
    HLO_FUNCTION, /* parts: the operands; results */
    HLO_NONE
} hlo_type_kind;

#define HLO_DYNAMIC (-1) /* the extent written ? */

typedef struct hlo_type hlo_type;
struct hlo_type {
    hlo_type_kind kind;
    hlo_element element;    /* tensor, scalar; of a quantised one: what is stored */
    const hlo_quant *quant; /* NULL: not quantised */
    bool is_unranked;       /* tensor<*xf32> */
    int rank;
    const int64_t *dims;
    const int64_t *bounds; /* of #stablehlo.bounds / type_extensions, HLO_DYNAMIC for none; NULL: not given */
    size_t num_parts, num_results;
    const hlo_type *const *parts;
    const hlo_type *const *results;
};

/* ---- Attributes ---- */

typedef enum {
    HLO_A_UNIT,
    HLO_A_BOOL,   /* integer */
    HLO_A_INT,    /* integer, type */
    HLO_A_REAL,   /* real, type */
    HLO_A_STRING, /* text, length: without quotes, escapes resolved */
    HLO_A_SYMBOL, /* text: @name without the @ */
    HLO_A_WORD,   /* text: an enumerator: EQ of #stablehlo<comparison_direction EQ> or of `comparison_direction = EQ` */
    HLO_A_TYPE,   /* type */
    HLO_A_ARRAY,  /* items: [a, b] */
    HLO_A_LIST,   /* ints or reals: array<i64: 1, 2>; type is that of an element */
    HLO_A_DICT,   /* entries: {a = 1}, and #stablehlo.gather<offset_dims = [0], …>, whose `text` is then "gather" */
    HLO_A_DENSE,  /* dense: a literal of the tensor type `type` */
    HLO_A_OPAQUE  /* text: kept as written, as other dialects' attributes are */
} hlo_attr_kind;

typedef struct hlo_attr hlo_attr;

typedef struct {
    const char *name;
    const hlo_attr *value;
} hlo_entry;

struct hlo_attr {
    hlo_attr_kind kind;
    hlo_location at;
    const hlo_type *type; /* NULL where the kind has none */
    union {
        int64_t integer;
        double real;
        struct {
            const char *text; /* ends with a 0 */
            size_t length;
        };
        struct {
            const hlo_attr *const *items;
            size_t num_items;
        };
        struct {
            const int64_t *ints; /* bools too */
            const double *reals; /* of a floating element type: then ints is NULL */
            size_t num_numbers;
        };
        struct {
            const hlo_entry *entries;
            size_t num_entries;
            const char *struct_name; /* "gather", "dot", "conv" …; NULL for a plain dictionary */
        };
        struct {
            const void *bytes; /* elements of the carrier, row-major; one element when is_splat; not aligned */
            size_t num_bytes;
            bool is_splat;
        };
    };
};

/* ---- Operations ---- */

typedef struct hlo_op hlo_op;

/* A result of an operation or an argument of a block. Numbers run from 0 within a function. */
typedef struct {
    const hlo_type *type;
    const char *name;   /* without the %; "0#1" for the second of %0:2 */
    const char *source; /* of an argument: its name in the program that this one was made from; NULL: not known */
    uint32_t number;
} hlo_value;

typedef struct {
    const hlo_value *const *args;
    size_t num_args;
    const hlo_op *first; /* in order; the last one is the terminator (stablehlo.return, func.return) */
} hlo_region;            /* StableHLO has one block per region */

struct hlo_op {
    const char *name; /* with its dialect: "stablehlo.add", "chlo.erf", "func.call", "func.return" */
    hlo_location at;
    const hlo_value *const *operands;
    size_t num_operands;
    const hlo_value *const *results;
    size_t num_results;
    const hlo_entry *attrs;
    size_t num_attrs;
    const hlo_region *regions;
    size_t num_regions;
    const hlo_source *source; /* NULL: not known */
    const hlo_op *next;
};

typedef struct {
    const char *name; /* without the @ */
    bool is_public;
    hlo_location at;
    const hlo_source *source; /* NULL: not known */
    uint32_t num_values;      /* of all its regions */
    hlo_region body;
    const hlo_type *const *results;
    size_t num_results;
    const hlo_attr *const *arg_attrs; /* one dictionary per argument, NULL: none */
    const hlo_attr *const *result_attrs;
    bool is_declared_only; /* no body */
} hlo_function;

/* sdy.mesh @name = <["data"=2, "model"=2]> */
typedef struct {
    const char *name;
    const char *text; /* between < and >, as written */
    hlo_location at;
} hlo_named_mesh;

typedef struct {
    flxi_arena arena;
    const char *name; /* NULL: none */
    const hlo_function *functions;
    size_t num_functions;
    const hlo_named_mesh *meshes;
    size_t num_meshes;
} hlo_module;

/* Reads a program: the text of one file, with or without a module around the functions. Errors carry FILE:LINE:COL in
   err->where. On failure *out holds nothing. */
flx_code flxi_hlo_parse(const flxi_allocator *mem, const char *text, size_t length, const char *file, hlo_module *out,
                        flx_error *err);
void flxi_hlo_module_free(hlo_module *m);

const hlo_function *flxi_hlo_find(const hlo_module *m, const char *name); /* NULL when absent */

/* The attribute of that name, NULL when absent. */
const hlo_attr *flxi_hlo_attr(const hlo_op *op, const char *name);
const hlo_attr *flxi_hlo_entry(const hlo_attr *dict, const char *name);

/* Adds the location to an error that has none: FILE:LINE:COL, or FILE:OFFSET in bytecode. */
void flxi_hlo_locate(flx_error *err, const char *file, hlo_location at);

/* Type as in the text, for messages; like snprintf. */
size_t flxi_hlo_type_print(const hlo_type *type, char *buffer, size_t size);

#endif
