/* SPDX-License-Identifier: Apache-2.0 */
/* bundle.h: many small graphs as one, so that one call of the compiler serves them all. Each piece has inputs of its
   own; the pieces are run by the reference evaluator, the whole by compiled code, and the results must agree within the
   bound that error_bound.h derives for each piece. */
#ifndef FLX_BUNDLE_H
#define FLX_BUNDLE_H

#include "compile/compiled_ways.h"

#include <fluxion/fluxion.h>
#include <stdbool.h>

typedef struct bundle bundle;

/* A context for one: what the compiler refuses there although it should compile it fails the check. */
flx_context *bundle_context(void);
bundle *bundle_new(flx_context *ctx);
void bundle_free(bundle *b);

/* Adds a graph of static types; `values` are taken over. `about` names it in messages. False when the reference
   evaluator cannot run it: then it is left out. */
bool bundle_add(bundle *b, const flx_graph *g, flx_tensor *const *values, const char *about);

/* The same where results must agree to the bit, signs of zeros included. */
bool bundle_add_exact(bundle *b, const flx_graph *g, flx_tensor *const *values, const char *about);

/* The same where only the signs of zeros are compared, at elements where both results have one. */
bool bundle_add_signs(bundle *b, const flx_graph *g, flx_tensor *const *values, const char *about);

/* The same as bundle_add() for a graph of another context, which is copied. `find` gives the value of an input by its
   name; it is copied too. */
typedef const flx_tensor *(*bundle_find)(const void *user, const char *name);
bool bundle_add_copy(bundle *b, const flx_graph *g, bundle_find find, const void *user, const char *about);
size_t bundle_size(const bundle *b);

/* Compiles all pieces as one graph in a way, runs it and compares; every piece that differs is a failed expectation. */
void bundle_check(bundle *b, size_t way);

/* The same, and shows the results of each piece in turn. */
typedef void (*bundle_visit)(void *user, size_t piece, flx_tensor *const *out);
void bundle_check_and(bundle *b, size_t way, bundle_visit visit, void *user);

/* Compares results of the joined graph that came in another way, which the messages name. */
void bundle_compare(bundle *b, flx_tensor *const *out, const char *way);

/* Compares the bits of two results of the joined graph, where all NaNs are the same, and says which pieces differ. */
typedef void (*bundle_differs)(const flx_graph *g, const char *about);
void bundle_compare_bits(const bundle *b, flx_tensor *const *one, flx_tensor *const *other, bundle_differs differs);

/* By output of a piece: the bound of each of its elements beyond element_bound(); NULL for one that is exact. */
double *const *bundle_bounds(bundle *b, size_t piece);

/* All pieces as one graph, whose inputs are called i<piece>_<input>, with the values for them in its order; the caller
   frees the graph and the array, not the values. */
flx_graph *bundle_join(const bundle *b, flx_feed **feeds);

/* ---- A bundle for each way ---- */

typedef struct {
    size_t most;                          /* pieces of a bundle */
    void (*check)(bundle *b, size_t way); /* one that is full, and all at the end */
    struct {
        flx_context *ctx;
        bundle *b;
    } at[WAY_COUNT];
} bundle_spread;

bundle *bundle_spread_open(bundle_spread *s, size_t way); /* where the next piece goes */
void bundle_spread_end(bundle_spread *s);

/* bundle_add_copy() for every way that takes the case `about`. False when it does not run. */
bool bundle_spread_copy(bundle_spread *s, const flx_graph *g, bundle_find find, const void *user, const char *about);

#endif
