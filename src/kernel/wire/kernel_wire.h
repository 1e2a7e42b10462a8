/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_wire.h: the binary form of kernels. Everything is a sequence of little-endian 32-bit words.

   Header: the magic bytes "FLXK"; major version (low half) and minor version (high half); flags, 0; length of the whole
   in words; FNV-1a of the rest, low word first. Then four sections in this order, each beginning with its number and
   the length of its contents in words:
     strings       count; per string its length in bytes and the bytes, padded with zeros. Each distinct text once, in
                   order of first use; below, `text` is an index into this table.
     declarations  workgroup size; number of buffers, the buffers; number of functions, the functions
     metadata      name (text); flags; number of pairs, per pair key and value (texts)
     body          a list of statements

     buffer     access | element << 8 | usage << 16; name; binding (0 for workgroup and private buffers); flags; count,
                begin and end of the byte range (two words each, low first); alignment; locality; coalescing; descriptor
                (length and padded bytes); number of conditions, per condition its test and the numbers of the test, two
                words each
     function   type | is-adjoint << 8; name, or of an adjoint: the number of its function, the parameter; number of
                parameters, per parameter type and name; list; result
     list       number of statements; the statements
     statement, expression   tag | details << 8, then the fields as listed below, then operands in order

   Variables are numbered from 0 in the order in which functions' parameters, lets and loops declare them in the bytes;
   a variable without a declaration before its use is written as its name. Buffers and functions are numbered from 1; 0
   is an unknown one. What is not part of a program's meaning (source positions, table rows that nothing refers to) is
   not written, so equal programs have equal bytes; whatever the encoder would not write is rejected. */
#ifndef FLXI_KERNEL_WIRE_H
#define FLXI_KERNEL_WIRE_H

#include "kernel/program/kernel.h"

enum {
    WIRE_MAGIC = 0x4b584c46, /* "FLXK" */
    WIRE_MAJOR = 1,
    WIRE_MINOR = 0,
    WIRE_HEADER_BYTES = 24,
    WIRE_MAX_BYTES = 64 << 20,
    WIRE_MAX_STRING = 1 << 20,
    WIRE_MAX_TEXT = 64 << 20, /* of all texts, counted once per reference: the work of looking them up */
    WIRE_MAX_PAYLOAD = 4 << 20,
};

enum { WIRE_STRINGS = 1, WIRE_DECLARATIONS, WIRE_METADATA, WIRE_BODY };

/* Tags never change their meaning; new ones use free numbers below 0x80. */
enum {
    WIRE_LITERAL = 0x01, /* type; one word, or two of a 64-bit type, low first */
    WIRE_VAR = 0x02,     /* 1: by name; variable, or text */
    WIRE_LOAD = 0x03,    /* buffer; index */
    WIRE_LENGTH = 0x04,  /* buffer */
    WIRE_ID = 0x05,      /* which; axis */
    WIRE_LANE = 0x06,
    WIRE_LANES = 0x07,
    WIRE_UNARY = 0x08,            /* op; x */
    WIRE_BINARY = 0x09,           /* op; x, y */
    WIRE_SELECT = 0x0a,           /* condition, x, y */
    WIRE_FMA = 0x0b,              /* x, y, z */
    WIRE_CAST = 0x0c,             /* type; x */
    WIRE_BITCAST = 0x0d,          /* type; x */
    WIRE_CALL = 0x0e,             /* function; number of arguments; arguments */
    WIRE_ATOMIC = 0x0f,           /* op | ordering << 8 | has-expected << 16; buffer; index, value, expected */
    WIRE_SUBGROUP_ADD = 0x10,     /* x */
    WIRE_SUBGROUP_SHUFFLE = 0x11, /* x, lane */
    WIRE_SUBGROUP_BALLOT = 0x12,  /* x */
    WIRE_OPAQUE_EXPR = 0x13, /* type | is-pure << 8; kind (text); fingerprint, two words; payload (length and padded
                                     bytes); number of arguments; arguments */
    WIRE_LET = 0x41,         /* name (text); value */
    WIRE_ASSIGN = 0x42,      /* 1: by name; variable, or text; value */
    WIRE_STORE = 0x43,       /* buffer; index, value */
    WIRE_EFFECT = 0x44,      /* value */
    WIRE_IF = 0x45,          /* condition; list, list */
    WIRE_LOOP = 0x46,        /* name (text); bounds; list */
    WIRE_BARRIER = 0x47,     /* ordering */
    WIRE_BLOCK = 0x48,       /* list */
    WIRE_REGION = 0x49,      /* flags; generator (text); source (text); list */
    WIRE_RETURN = 0x4a,
    WIRE_INDIRECT = 0x4b,    /* buffer; offset, two words */
    WIRE_ASYNC_LOAD = 0x4c,  /* source; target; tag (text); offset, size */
    WIRE_ASYNC_STORE = 0x4d, /* the same */
    WIRE_ASYNC_WAIT = 0x4e,  /* tag (text) */
    WIRE_TRAP = 0x4f,        /* tag (text); address */
    WIRE_RESUME = 0x50,      /* tag (text) */
    WIRE_COLLECTIVE = 0x51,  /* which; source; target; of a broadcast: root, two words */
    WIRE_OPAQUE = 0x52,      /* is-pure << 8; as WIRE_OPAQUE_EXPR without arguments */
    WIRE_EXTENSION = 0x80, /* type, 0 in a statement; number; payload (length and padded bytes); number of arguments and
                                arguments, which a statement has not: of a registered extension */
};

/* How many numbers a condition has. */
static inline int flxi_kwire_numbers(uint32_t test)
{
    switch ((flx_kernel_test)test) {
    case FLX_KERNEL_COUNT_GE:
    case FLX_KERNEL_COUNT_LE:
    case FLX_KERNEL_COUNT_EQ:
    case FLX_KERNEL_COUNT_MULTIPLE: return 1;
    case FLX_KERNEL_COUNT_MOD: return 2;
    case FLX_KERNEL_COUNT_AFFINE: return 3;
    default: return 0;
    }
}

#endif
