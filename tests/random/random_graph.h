/* random_graph.h: graphs made from a seed, with inputs at which all derivatives are tame, for testing the transforms.

   A graph is written as text, statement by statement. Each is tried before it is kept: on the values its operands have at the
   chosen point and at four points near it along the direction t. It stays only if its results are finite, moderate and, as
   far as the differences show, smooth there; integers and bools must not change at all. So no kink lies near the point. */
#ifndef FLX_RANDOM_GRAPH_H
#define FLX_RANDOM_GRAPH_H

#include <fluxion/fluxion.h>
#include <stdbool.h>
#include <stdio.h>

enum { RANDOM_MAX_INPUTS = 6, RANDOM_POINTS = 5, RANDOM_MAX_VALUES = 160, RANDOM_TEXT = 1600 };

/* ---- A graph and where to look at it ---- */

typedef struct {
    char name[16];
    flx_tensor *x;     /* the point */
    flx_tensor *t, *u; /* two directions; NULL for an input without derivative */
    flx_tensor *other; /* another point, for batches; its values may be wild */
} subject_input;

typedef struct {
    flx_context *ctx;
    const flx_graph *g; /* output 0 is the loss, f64[] */
    subject_input in[RANDOM_MAX_INPUTS];
    size_t n;
    uint64_t seed; /* for whatever a law chooses at random */
} subject;

/* A new context with the graph of the seed; false when the seed gives none. */
bool random_subject(subject *s, uint64_t seed, flx_module **module);
void random_subject_free(subject *s, flx_module *module);

/* Distances along t of the points at which values are known; the first is the point itself. */
extern const double random_steps[RANDOM_POINTS];

/* ---- While it is made ---- */

typedef struct {
    flx_type type;
    flx_tensor *at[RANDOM_POINTS];
    double lo, hi; /* of all elements at all points */
    int uses;
} random_value;

typedef struct {
    char s[RANDOM_TEXT];
    size_t n;
} random_line;

typedef struct {
    flx_context *ctx;
    uint64_t state;
    random_value v[RANDOM_MAX_VALUES]; /* value i is called v<i> in the text */
    int count;
    int inputs;
    int bodies;
    int64_t extents[3]; /* those that shapes are made of */
    random_line draft;  /* graphs that only the statement being tried needs */
    FILE *graphs, *statements;
} random_maker;

void random_say(random_line *l, const char *fmt, ...) FLX_PRINTF(2, 3);
void random_say_ints(random_line *l, const int64_t *v, size_t n); /* "[1, 2]" */
void random_say_type(random_line *l, const random_maker *m, const flx_type *t);
int random_below(random_maker *m, int n); /* 0 … n - 1 */

/* Tries `v<count>, … = expr` with so many results; true when they are now values. */
bool random_keep(random_maker *m, const char *expr, int results);

/* One statement of a random kind (random_ops.c); false when nothing came of it. */
bool random_statement(random_maker *m);

#endif
