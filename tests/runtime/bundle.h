/* bundle.h: many small graphs as one, so that one call of the compiler serves them all. Each piece has inputs of its own; the
   pieces are run by the reference evaluator, the whole by compiled code, and the results must agree. */
#ifndef FLX_BUNDLE_H
#define FLX_BUNDLE_H

#include <fluxion/fluxion.h>
#include <stdbool.h>

typedef struct bundle bundle;

/* How close results must be. Integers and bools always agree to the bit; a NaN agrees with any NaN, an infinity only with
   itself. */
typedef struct {
    double element; /* units in the last place of the element */
    double overall; /* of the largest finite element of its tensor */
    double least;   /* of this number */
    bool is_exact;  /* to the bit, signs of zeros included */
    bool is_mixed;  /* a unit is that of the coarsest dtype among the result and the inputs */
} bundle_rule;

extern const bundle_rule bundle_usual;

bundle *bundle_new(flx_context *ctx);
void bundle_free(bundle *b);

/* Adds a graph of static types; `values` are taken over. `about` names it in messages. False when the reference evaluator
   cannot run it: then it is left out. */
bool bundle_add(bundle *b, const flx_graph *g, flx_tensor *const *values, const char *about, const bundle_rule *rule);

/* The same for a graph of another context, which is copied. `find` gives the value of an input by its name; it is copied
   too. */
typedef const flx_tensor *(*bundle_find)(const void *user, const char *name);
bool bundle_add_copy(bundle *b, const flx_graph *g, bundle_find find, const void *user, const char *about,
                     const bundle_rule *rule);
size_t bundle_size(const bundle *b);

/* Compiles all pieces as one graph, runs it and compares; every piece that differs is a failed expectation. */
void bundle_check(bundle *b, const flx_compile_options *o);

/* Compiles, runs, and shows the results of each piece in turn instead. */
typedef void (*bundle_visit)(void *user, size_t piece, flx_tensor *const *out);
void bundle_run(bundle *b, const flx_compile_options *o, bundle_visit visit, void *user);

/* All pieces as one graph, whose inputs are called i<piece>_<input>, with the values for them in its order; the caller frees
   the graph and the array, not the values. */
flx_graph *bundle_join(const bundle *b, flx_feed **feeds);

/* Whether it is a case's turn: one in so many, others with each seed; FLX_COMPILED_RARELY=N: one in N times as many;
   FLX_COMPILED_ALL: always. */
bool bundle_turn(unsigned share);

/* The usual ways of compiling: 0 … bundle_ways() - 1. */
size_t bundle_ways(void);
const char *bundle_way(size_t i, flx_compile_options *o);

#endif
