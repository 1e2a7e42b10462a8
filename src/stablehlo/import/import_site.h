/* SPDX-License-Identifier: Apache-2.0 */
/* import_site.h: from the tree of a StableHLO program to a graph, seen from the rule of one operation.

   A rule reads its operands `x` and attributes, appends nodes to `g` and puts its results in `y`. Like the rules of ops
   it needs no error plumbing: builders and readers of attributes leave the first error in the graph, and the caller
   adds the location in the text. What the caller also does for every rule: it counts operands, results and regions,
   takes quantised operands apart and puts results together, rounds results of element types narrower than their
   carrier, and compares the types of the results with those in the text. */
#ifndef FLXI_STABLEHLO_IMPORT_SITE_H
#define FLXI_STABLEHLO_IMPORT_SITE_H

#include "graph/graph.h"
#include "stablehlo/operations.h"
#include "stablehlo/syntax/syntax.h"

#include <fluxion/ops.h>

typedef struct hlo_import hlo_import; /* of one program */
typedef struct hlo_scope hlo_scope;   /* a function being called, or a region being imported */

struct hlo_site {
    hlo_import *im;
    hlo_scope *scope;
    const hlo_operation *row; /* what operations.def says about it */
    const hlo_op *op;
    flx_graph *g;
    const flx_val *x; /* operands; of a tuple its parts, of a token nothing */
    size_t nx;
    flx_val *y; /* results, likewise; set by the rule */
    size_t ny;
};

/* ---- Errors ---- */

/* Fails in the graph being built with "stablehlo.op: …". */
void flxi_hlo_fail(hlo_site *s, flx_code code, const char *hint, const char *fmt, ...) FLX_PRINTF(4, 5);
/* The same with UNSUPPORTED. */
void flxi_hlo_unsupported(hlo_site *s, const char *fmt, ...) FLX_PRINTF(2, 3);
bool flxi_hlo_failed(const hlo_site *s);

/* ---- Attributes: absent ones give the default, others of the wrong kind fail ---- */

bool flxi_hlo_has(const hlo_site *s, const char *name);
int64_t flxi_hlo_int(hlo_site *s, const char *name, int64_t absent);
bool flxi_hlo_flag(hlo_site *s, const char *name, bool absent);
/* An enumerator or a string. */
const char *flxi_hlo_word(hlo_site *s, const char *name, const char *absent);
/* Integers: array<i64: …>, [1, 2], dense<…> or one number. {NULL, 0} when absent; lives as long as the import. */
flx_ints flxi_hlo_ints(hlo_site *s, const char *name);
/* The same with n entries, all `absent` where the attribute is missing; another count is an error. */
flx_ints flxi_hlo_ints_of(hlo_site *s, const char *name, size_t n, int64_t absent);
/* Members of an attribute that is a structure, such as dimension_numbers. */
flx_ints flxi_hlo_member_ints(hlo_site *s, const char *name, const char *member);
int64_t flxi_hlo_member_int(hlo_site *s, const char *name, const char *member, int64_t absent);
/* Any attribute as integers; false when it does not hold integers. */
bool flxi_hlo_ints_in(hlo_site *s, const hlo_attr *a, flx_ints *out);

/* ---- Types and values ---- */

/* Type of a value of the graph; after an error a harmless one. */
const flx_type *flxi_hlo_typeof(const hlo_site *s, flx_val v);
flx_dtype flxi_hlo_dtype(const hlo_site *s, flx_val v);

/* Number of values of the graph that a value of this type stands for. */
size_t flxi_hlo_parts(const hlo_type *t);
/* The declared type of operand or result i as in the text. */
const hlo_type *flxi_hlo_operand_type(const hlo_site *s, size_t i);
const hlo_type *flxi_hlo_result_type(const hlo_site *s, size_t i);
/* The declared tensor type of result i as one of ours; fails where an extent is `?`. */
bool flxi_hlo_static_result(hlo_site *s, size_t i, flx_type *out);
flx_dtype flxi_hlo_carrier(const hlo_type *t); /* of its elements, quantised ones as stored */

/* Room that lives as long as the import; NULL with the error in the graph. */
#define flxi_hlo_new(s, T, n) ((T *)flxi_hlo_alloc((s), (size_t)(n), sizeof(T)))
void *flxi_hlo_alloc(hlo_site *s, size_t n, size_t size);

/* A scalar of the dtype of `like`; x is rounded to it. */
flx_val flxi_hlo_number(hlo_site *s, flx_val like, double x);
/* `v` (a scalar) broadcast to the shape of a type. */
flx_val flxi_hlo_fill(hlo_site *s, flx_val v, const flx_type *type);
/* The extents of a type as the attribute `shape` takes them. */
static inline flx_ints flxi_hlo_dims(const flx_type *t)
{
    return (flx_ints){t->dims, (size_t)t->rank};
}
/* One of our ops by name, with one result. */
flx_val flxi_hlo_append(hlo_site *s, const char *op, const flx_val *x, size_t n);

/* The value of v if it follows from the program alone, without its inputs; NULL when it does not (no error). The caller
   releases it. */
flx_tensor *flxi_hlo_known(hlo_site *s, flx_val v);
/* The elements of an integer value as extents: known numbers, or symbolic ones built from the sizes of inputs. False
   with an UNSUPPORTED error that names the operand otherwise. */
bool flxi_hlo_extents(hlo_site *s, flx_val v, flx_ints *out);

/* ---- Regions ---- */

/* What regions use from outside. Constants are not among them: they are copied into the body. */
typedef struct {
    const hlo_value *const *values;
    size_t num_values;
    const flx_val *vals; /* in s->g, all parts of tuples */
    size_t num_vals;
    bool are_carried; /* a body returns them unchanged, after its results */
} hlo_captures;

/* Of `n` regions together, in a fixed order. */
bool flxi_hlo_captures(hlo_site *s, const hlo_region *regions, size_t n, hlo_captures *out);

/* The region as a graph. Its inputs: the arguments with all parts of tuples, of the types given (NULL: the declared
   ones), then the captures. Its outputs: what the region returns. The import owns it; NULL with the error in s->g. */
const flx_graph *flxi_hlo_body(hlo_site *s, const hlo_region *r, const flx_type *const *arg_types,
                               const hlo_captures *captures);

/* The region's nodes appended to s->g itself, its arguments standing for `args`; returns the number of values returned,
   the first `capacity` of them in `out`. */
size_t flxi_hlo_inline_region(hlo_site *s, const hlo_region *r, const flx_val *args, size_t num_args, flx_val *out,
                              size_t capacity);

/* The function's results likewise: a large one that is called several times becomes a graph of its own, which the node
   `call` uses; the nodes of all others are appended. */
size_t flxi_hlo_call(hlo_site *s, const char *function, const flx_val *args, size_t num_args, flx_val *out,
                     size_t capacity);

/* Takes over a graph that rules built; freed with the import. Returns it. */
const flx_graph *flxi_hlo_keep(hlo_site *s, flx_graph *g);

#endif
