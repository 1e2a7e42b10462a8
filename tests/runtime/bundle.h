/* bundle.h: many small graphs as one, so that one call of the compiler serves them all. Each piece has inputs of its own; the
   pieces are run by the reference evaluator, the whole by compiled code, and the results must agree. */
#ifndef FLX_BUNDLE_H
#define FLX_BUNDLE_H

#include <fluxion/fluxion.h>
#include <stdbool.h>

typedef struct bundle bundle;

bundle *bundle_new(flx_context *ctx);
void bundle_free(bundle *b);

/* Adds a graph of static types; `values` are taken over. `about` names it in messages, `slack` multiplies the tolerance (1:
   the usual). False when the reference evaluator cannot run it: then it is left out. */
bool bundle_add(bundle *b, const flx_graph *g, flx_tensor *const *values, const char *about, double slack);
size_t bundle_size(const bundle *b);

/* Compiles all pieces as one graph, runs it and compares; every piece that differs is a failed expectation. */
void bundle_check(bundle *b, const flx_compile_options *o);

/* The usual ways of compiling: 0 … bundle_ways() - 1. */
size_t bundle_ways(void);
const char *bundle_way(size_t i, flx_compile_options *o);

#endif
