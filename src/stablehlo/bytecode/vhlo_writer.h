/* SPDX-License-Identifier: Apache-2.0 */
/* vhlo_writer.h: what the files of the bytecode writer share: the tables of the file under construction.

   Strings, attributes and types are encoded when they are first needed, after those they refer to, and found again by
   their bytes; an operation then refers to them by number. The version written is 1.4.0: old enough to be read by
   everything that reads portable artifacts of version 1, and the operations have few attributes. */
#ifndef FLXI_STABLEHLO_VHLO_WRITER_H
#define FLXI_STABLEHLO_VHLO_WRITER_H

#include "base/error.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "stablehlo/bytecode/vhlo_reader.h"

/* Things of one kind, each once: their bytes one after another, and where each ends. */
typedef struct {
    flxi_strbuf bytes;
    FLXI_VEC(size_t) ends;
    FLXI_VEC(unsigned char) dialects; /* a vhlo_dialect for each */
    flxi_index index;
} vhlo_pool;

typedef struct {
    const flxi_allocator *mem;
    flx_error *err;
    flx_code code; /* of the first error; after it nothing counts */
    const char *file;
    vhlo_pool strings, names, attrs, types, properties;
    uint32_t *numbers; /* of values, by their numbers in the function */
    flxi_arena scratch;
} vhlo_writer;

/* ---- vhlo_encode.c ---- */

void flxi_vhlo_put_varint(flxi_strbuf *b, uint64_t v);
void flxi_vhlo_put_svarint(flxi_strbuf *b, int64_t v);
/* The number of a thing in its pool; it is added if it is new. The bytes are freed. */
uint64_t flxi_vhlo_intern(vhlo_writer *w, vhlo_pool *pool, vhlo_dialect dialect, flxi_strbuf *bytes);
flxi_strbuf flxi_vhlo_buffer(const vhlo_writer *w);
uint64_t flxi_vhlo_put_string(vhlo_writer *w, const char *text, size_t n);
void flxi_vhlo_writer_fail(vhlo_writer *w, hlo_location at, flx_code code, const char *hint, const char *fmt, ...)
    FLX_PRINTF(5, 6);

uint64_t flxi_vhlo_put_type(vhlo_writer *w, const hlo_type *t);
/* An attribute of the file for one of the tree; `name` says what words mean. */
uint64_t flxi_vhlo_put_attr(vhlo_writer *w, const char *name, const hlo_attr *a);
uint64_t flxi_vhlo_put_text(vhlo_writer *w, const char *text); /* a string */
uint64_t flxi_vhlo_put_array(vhlo_writer *w, const uint64_t *items, size_t n);
uint64_t flxi_vhlo_put_int(vhlo_writer *w, hlo_element element, int64_t v);
uint64_t flxi_vhlo_put_ints(vhlo_writer *w, hlo_element element, const int64_t *v, int rank, const int64_t *dims);
uint64_t flxi_vhlo_put_coded(vhlo_writer *w, unsigned code, uint64_t v); /* an enumerator or a boolean */
uint64_t flxi_vhlo_put_type_attr(vhlo_writer *w, const hlo_type *t);

/* ---- vhlo_defaults.c ---- */

/* Whether every attribute of the operation has a place in the row (NULL: it has none); otherwise fails. */
bool flxi_vhlo_has_all(vhlo_writer *w, const hlo_op *op, const vhlo_row *row);
/* The number of the properties of an operation. */
uint64_t flxi_vhlo_put_properties(vhlo_writer *w, const hlo_op *op, const vhlo_row *row);

#endif
