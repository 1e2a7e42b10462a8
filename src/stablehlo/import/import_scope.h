/* SPDX-License-Identifier: Apache-2.0 */
/* import_scope.h: what the files that drive the import share; rules include import_site.h only. */
#ifndef FLXI_STABLEHLO_IMPORT_SCOPE_H
#define FLXI_STABLEHLO_IMPORT_SCOPE_H

#include "ops/rule/known.h"
#include "stablehlo/import/check/hlo_checks.h"
#include "stablehlo/import/import_mesh.h"
#include "stablehlo/import/import_site.h"

/* What a value of the program stands for: as many values of the graph as it has parts. */
typedef struct {
    const flx_val *v;
    size_t n;
    bool is_set;
} hlo_binding;

typedef struct {
    uint32_t number;
    hlo_binding binding;
} hlo_outer;

struct hlo_scope {
    hlo_import *im;
    const hlo_scope *parent; /* of a region: where it appears; NULL: a function */
    const hlo_scope *caller; /* of a function */
    const hlo_function *function;
    flx_graph *g;
    uint32_t first; /* the values of this scope have the numbers [first, first + count) */
    uint32_t count;
    hlo_binding *bound;
    const hlo_outer *outer; /* of a region with a graph of its own: what it uses from outside, by number */
    size_t num_outer;
    int depth; /* of calls and regions */
};

/* A function that has become a graph, for arguments of these types. */
typedef struct {
    const hlo_function *function;
    const flx_type *const *types;
    const flx_graph *graph;
    bool is_manual; /* of a manual computation: its collective operations are exchanges */
} hlo_called;

struct hlo_import {
    flx_context *ctx;
    const hlo_module *module;
    const char *file;
    uint32_t flags; /* HLO_IMPORT_… */
    flxi_arena arena;
    FLXI_VEC(flx_graph *) kept;
    FLXI_VEC(hlo_called) called;
    int64_t *function_sizes; /* by position: operations with those of calls, each as often as it runs; 0: not known */
    uint32_t *function_uses; /* by position: operations that call it */
    flxi_known known;        /* scratch of flxi_hlo_known */
    FLXI_VEC(flx_dim_binding) assumed;  /* extents of @main's arguments that the program needs to be equal to others */
    FLXI_VEC(flx_dim_binding) at_least; /* lower bounds of symbols that the program asserts */
    bool restarts;                      /* another one was found: the import starts again with it */
    hlo_mesh mesh;
    size_t num_renamed; /* numbers that were given to arguments whose names were taken */
    int64_t budget;     /* operations that may still be imported: calls multiply them */
    flx_error error;    /* the first, with its location */
};

/* The first error of a graph is that of the import; its location is that of the innermost operation. */
void flxi_hlo_note_error(const hlo_scope *sc, const hlo_op *op);
/* Adds the line of the program that this one was made from, where it is known and fits. */
void flxi_hlo_add_source(flx_error *err, const hlo_source *source);

const hlo_binding *flxi_hlo_lookup(const hlo_scope *sc, uint32_t number);
bool flxi_hlo_bind(hlo_scope *sc, const hlo_value *value, const flx_val *v, size_t n);

/* Makes room for the values of a scope that is met in another one (NULL: none). */
bool flxi_hlo_enter(hlo_scope *sc, const hlo_scope *from);
/* Declares the arguments of a body, all parts of tuples one after the other, of these types (NULL: as declared). */
bool flxi_hlo_declare_args(hlo_scope *sc, const hlo_region *r, const flx_type *const *types);
/* Appends the nodes of a region with its arguments standing for `args`; the number of values that it returns, the first
   `capacity` of them in `out`. */
size_t flxi_hlo_run_scope(hlo_scope *sc, const hlo_scope *from, const hlo_region *r, const flx_val *args,
                          size_t num_args, flx_val *out, size_t capacity);
/* Whether a body can have a copy of the value: a leaf of the graph that is not an input. */
bool flxi_hlo_is_constant(const flx_graph *g, flx_val v);

/* Imports the operations of a region into sc->g; *out receives what its terminator returns. False after an error. */
bool flxi_hlo_import_ops(hlo_scope *sc, const hlo_region *r, flx_val **out, size_t *n);

/* The operation that another one stands for: its rule on operands x, its results in s->y. */
void flxi_hlo_import_as(hlo_site *s, const hlo_op *op, const flx_val *x, size_t nx);
/* The same with the operands of s->op and all checks that the row of `op` asks for; there must be such a row. */
void flxi_hlo_import_checked(hlo_site *s, const hlo_op *op);

/* The declared type as one of ours with the `?` extents symbols made from `name` (NULL: an error in the graph). */
bool flxi_hlo_our_type(flx_graph *g, const hlo_type *t, const char *name, flx_type *out);

/* ---- Quantised types (import_quant.c) ---- */

bool flxi_hlo_same_quant(const hlo_quant *a, const hlo_quant *b);
/* Whether the rule is to work on the numbers that quantised operands and results express; and doing so. */
bool flxi_hlo_is_expressed(const hlo_site *s);
void flxi_hlo_import_expressed(hlo_site *s);

/* ---- Extents (import_extents.c) ---- */

typedef struct {
    flx_dim dim;      /* FLX_DIM_INVALID: not known */
    int64_t least;    /* it is not below this number; INT64_MIN: not known */
    flx_dim dividend; /* where divisor > 0: it is dividend mod divisor */
    int64_t divisor;
} hlo_extent;

/* The elements of an integer value as extents, some maybe unknown; NULL when nothing is known (no error). */
hlo_extent *flxi_hlo_extent_values(hlo_site *s, flx_val v, size_t *n);

/* a − b for each element; they may be known only in their difference. False when that is not known (no error). */
bool flxi_hlo_extent_differences(hlo_site *s, flx_val a, flx_val b, flx_ints *out);

/* Whether v holds a few integers that follow from extents alone; and the same value in a body, which knows the symbols
   too. */
bool flxi_hlo_is_extent(hlo_site *s, flx_val v);
flx_val flxi_hlo_copy_extent(hlo_site *s, flx_graph *body, flx_val v);

/* Whether two extents are the same. Where one is an extent of @main's arguments that was a symbol of its own, it is
   assumed to be the other one and the import starts again. */
bool flxi_hlo_equal_extents(hlo_site *s, flx_dim a, flx_dim b);
typedef enum { HLO_FALSE, HLO_TRUE, HLO_OPEN } hlo_decision;
/* The value of an assertion about extents, a scalar i1; one that is open is used as a fact where possible. */
hlo_decision flxi_hlo_learn(hlo_site *s, flx_val holds);

/* The extent that the program needs in place of an extent of @main's arguments. */
flx_dim flxi_hlo_assumed_extent(hlo_import *im, flx_dim d);

#endif
