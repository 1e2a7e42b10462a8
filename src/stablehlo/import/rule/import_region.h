/* SPDX-License-Identifier: Apache-2.0 */
/* import_region.h: regions that work on single elements, as the bodies of our ops.

   Such a region becomes a graph of scalars. What it uses from outside is brought in as a constant where its value is
   known; other scalars become further inputs after the arguments, and the op carries them along as operands that it
   does not change. Whether a body is one of the combinations that our ops have a word for is seen from the graph, not
   from the text, so element types that need rounding after each operation are never mistaken for plain ones. */
#ifndef FLXI_STABLEHLO_IMPORT_REGION_H
#define FLXI_STABLEHLO_IMPORT_REGION_H

#include "stablehlo/import/import_site.h"

typedef struct {
    const flx_graph *graph; /* inputs: the arguments of the region, then `outer` */
    size_t num_args;
    const flx_val *outer; /* scalars of s->g that only a run knows */
    size_t num_outer;
} hlo_element_body;

/* Region r, which must have num_args scalar arguments; false with the error in s->g. */
bool flxi_hlo_element_body(hlo_site *s, const hlo_region *r, size_t num_args, hlo_element_body *out);

/* A body under construction, which the import owns, or NULL; input i of it; and the same once it is complete, or NULL
   with its error in s->g. */
flx_graph *flxi_hlo_new_body(hlo_site *s);
flx_val flxi_hlo_body_input(flx_graph *g, size_t i, const flx_type *type);
const flx_graph *flxi_hlo_finished(hlo_site *s, const flx_graph *g);

/* The body as an op wants it that has `num_outer` operands more. Element body (args..., outer...) becomes fold:
   (accumulators..., outer..., elements..., ignored...) → results..., outer... compare: (a1, b1, ..., outer1, ignored1,
   ...) → result The import owns the graph; NULL with the error in s->g. */
const flx_graph *flxi_hlo_fold_graph(hlo_site *s, const hlo_element_body *b);
const flx_graph *flxi_hlo_compare_graph(hlo_site *s, const hlo_element_body *b);

/* Output `output` of a body as one op on two of its inputs, by position; without op it is input `a` itself. False for
   anything else. */
typedef struct {
    const flxi_op *op;
    size_t a, b;
} hlo_combination;
bool flxi_hlo_combination(const flx_graph *body, size_t output, hlo_combination *out);

typedef enum { HLO_ZERO, HLO_ONE, HLO_LOWEST, HLO_HIGHEST } hlo_neutral;

/* How our ops call a combination of an element and an accumulator. */
typedef struct {
    const char *op;
    hlo_neutral neutral;   /* leaves everything unchanged */
    const char *word;      /* of reduce_window, scatter_nd, select_and_scatter */
    const char *reduction; /* the op that folds with it */
    const char *running;   /* the op that gives all partial folds; NULL: none */
} hlo_combine_name;
/* Output 0 of a body as such a combination of inputs 0 and 1, in any order; NULL for other bodies. */
const hlo_combine_name *flxi_hlo_combine_name(const hlo_element_body *b);
/* Whether a fold by name may differ from one that rounds at each step: sums and products of floating point numbers. */
bool flxi_hlo_rounds(const hlo_combine_name *name, flx_dtype dtype);
/* Whether v is known to be the neutral value of the combination. */
bool flxi_hlo_is_neutral(hlo_site *s, const hlo_combine_name *name, flx_val v);

/* x converted to the element types of the arguments from `first` on; NULL with the error in s->g. */
flx_val *flxi_hlo_promoted(hlo_site *s, const hlo_region *r, size_t first, const flx_val *x, size_t n);

/* Attribute padding, of shape [rank, 2], as two lists; all 0 where it is absent. */
bool flxi_hlo_padding(hlo_site *s, size_t rank, flx_ints *low, flx_ints *high);

/* `v` broadcast to the shape of `like`. */
flx_val flxi_hlo_like(hlo_site *s, flx_val v, flx_val like);

#endif
