/* SPDX-License-Identifier: Apache-2.0 */
/* vhlo_reader.h: what the files of the bytecode reader share: a cursor over bytes, and the tables of the file.

   Attributes and types are decoded at their first use and kept, so that each is decoded once whatever the number of
   its uses. Every count is compared with the bytes that are left, since each counted thing takes one byte or more: the
   memory for the tree is bounded by a multiple of the file's size. The stacks and constructors are those of the text
   parser. */
#ifndef FLXI_STABLEHLO_VHLO_READER_H
#define FLXI_STABLEHLO_VHLO_READER_H

#include "stablehlo/syntax/hlo_parser.h"

/* ---- Cursor ---- */

/* Bytes that are left. Reading past the end sets `failed` and gives 0; callers look at it once per thing they read. */
typedef struct {
    const unsigned char *at, *end;
    bool failed;
} vhlo_bytes;

static inline size_t flxi_vhlo_left(const vhlo_bytes *b)
{
    return (size_t)(b->end - b->at);
}

uint64_t flxi_vhlo_long_varint(vhlo_bytes *b);

/* The zero bits below the lowest set bit of the first byte are the number of further bytes. */
static inline uint64_t flxi_vhlo_varint(vhlo_bytes *b)
{
    if (b->at < b->end && *b->at & 1)
        return *b->at++ >> 1;
    return flxi_vhlo_long_varint(b);
}

static inline int64_t flxi_vhlo_svarint(vhlo_bytes *b)
{
    uint64_t u = flxi_vhlo_varint(b);
    return (int64_t)(u >> 1 ^ (0 - (u & 1)));
}

static inline unsigned flxi_vhlo_byte(vhlo_bytes *b)
{
    if (b->at < b->end)
        return *b->at++;
    b->failed = true;
    return 0;
}

/* A number of things of at least one byte each. */
size_t flxi_vhlo_count(vhlo_bytes *b);
/* The next n bytes as a cursor of their own. */
vhlo_bytes flxi_vhlo_part(vhlo_bytes *b, uint64_t n);

/* ---- Tables ---- */

typedef enum { VHLO_BUILTIN, VHLO_VHLO, VHLO_SDY, VHLO_STABLEHLO, VHLO_OTHER } vhlo_dialect;

typedef enum {
    VHLO_OPERATION,
    VHLO_FUNCTION,
    VHLO_RETURN,
    VHLO_MODULE,
    VHLO_CAST, /* unrealized_conversion_cast: the results are the operands */
    VHLO_MESH  /* sdy.mesh */
} vhlo_role;

/* The attributes of an operation: see vhlo_operations.def. */
typedef struct {
    const char *name;                  /* with its version: "gather_v2" */
    const char *attribute, *structure; /* what the members marked with a point are gathered in; NULL: no such members */
    const char *properties;
} vhlo_row;

/* An operation as the file names it. */
typedef struct {
    const char *name; /* as in the text: "stablehlo.gather" */
    const vhlo_row *row;
    vhlo_role role;
    vhlo_dialect dialect;
} vhlo_name;

/* An attribute or a type as it is in the file. */
typedef struct {
    const unsigned char *at;
    size_t size;
    vhlo_dialect dialect;
    bool is_text; /* MLIR text instead of an encoding */
    union {
        const hlo_attr *attr; /* once it was decoded */
        const hlo_type *type;
    };
    union {
        const hlo_source *source; /* of an attribute that is a location */
        size_t weight;            /* of a type: types that it consists of */
    };
} vhlo_encoded;

/* An entry of the section of properties, and the attributes that it means for the operation that used it last. */
typedef struct {
    const unsigned char *at;
    size_t size;
    const vhlo_name *name;
    const hlo_entry *entries;
    size_t num_entries;
} vhlo_property;

enum { VHLO_NUM_SECTIONS = 9 };

typedef struct {
    hlo_parser p; /* constructors, stacks and errors of the parser */
    const unsigned char *start, *file_end;
    flxi_arena scratch; /* of the tables */
    vhlo_bytes sections[VHLO_NUM_SECTIONS];
    const char **strings; /* each ends with a 0 */
    size_t *lengths;
    vhlo_dialect *dialects;
    const char **dialect_names;
    vhlo_name *names;
    vhlo_encoded *attrs, *types;
    vhlo_property *properties;
    size_t num_strings, num_dialects, num_names, num_attrs, num_types, num_properties;

    FLXI_VEC(const hlo_value *) values; /* by the numbers of the file, from `base` on */
    size_t base;                        /* where the numbers of the innermost isolated operation begin */
    size_t num_claimed;                 /* values that regions say they define: each takes a byte */
    size_t weight;                      /* of the type that is decoded */
    size_t spent;                       /* see flxi_vhlo_charge */
} vhlo_reader;

/* Fails at a place in the file. */
flx_code flxi_vhlo_fail(vhlo_reader *r, const unsigned char *at, flx_code code, const char *hint, const char *fmt, ...)
    FLX_PRINTF(5, 6);
hlo_location flxi_vhlo_position(const vhlo_reader *r, const unsigned char *at);
/* One level deeper; flxi_hlop_leave() is the way back. */
flx_code flxi_vhlo_enter(vhlo_reader *r, const unsigned char *at);
/* Parts of the file may be used any number of times. What is copied for a use is counted and may not exceed a multiple
   of the file's size, so that a short file cannot take much memory. */
flx_code flxi_vhlo_charge(vhlo_reader *r, const unsigned char *at, size_t items);
/* FLX_OK, or the error for bytes that end too early. */
flx_code flxi_vhlo_check(vhlo_reader *r, const vhlo_bytes *b, const char *what);

/* ---- vhlo_container.c ---- */

/* The next section: its number and its contents. */
flx_code flxi_vhlo_section(vhlo_reader *r, vhlo_bytes *b, unsigned *id, vhlo_bytes *contents);
/* A string by number, from the cursor. */
flx_code flxi_vhlo_string(vhlo_reader *r, vhlo_bytes *b, hlo_span *out);

/* ---- vhlo_types.c ---- */

flx_code flxi_vhlo_type(vhlo_reader *r, const unsigned char *at, uint64_t number, const hlo_type **out);
/* The number of a type, from the cursor. */
flx_code flxi_vhlo_read_type(vhlo_reader *r, vhlo_bytes *b, const hlo_type **out);
/* Integers, as many as a count says, on `ints`. */
flx_code flxi_vhlo_read_ints(vhlo_reader *r, vhlo_bytes *b);

/* ---- vhlo_attrs.c ---- */

flx_code flxi_vhlo_attr(vhlo_reader *r, const unsigned char *at, uint64_t number, const hlo_attr **out);
flx_code flxi_vhlo_read_attr(vhlo_reader *r, vhlo_bytes *b, const hlo_attr **out);
/* The program text that a location names; NULL where it names none. */
flx_code flxi_vhlo_source(vhlo_reader *r, const unsigned char *at, uint64_t number, const hlo_source **out);

/* ---- vhlo_sharding.c ---- */

/* The attribute of the dialect sdy with this number, from the cursor, as its text. */
flx_code flxi_vhlo_sharding(vhlo_reader *r, uint64_t code, vhlo_bytes *b, hlo_attr *out);

/* ---- vhlo_properties.c ---- */

/* The row of an operation of VHLO; NULL: it has no properties. */
const vhlo_row *flxi_vhlo_row(const char *name);
/* The attributes of an operation as StableHLO has them, on `entries`. */
flx_code flxi_vhlo_properties(vhlo_reader *r, const vhlo_name *name, vhlo_bytes b);

/* ---- vhlo_ir.c ---- */

flx_code flxi_vhlo_module(vhlo_reader *r, hlo_module *out);

#endif
