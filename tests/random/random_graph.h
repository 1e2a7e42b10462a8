/* SPDX-License-Identifier: Apache-2.0 */
/* random_graph.h: graphs generated from a seed, with inputs at which all derivatives are moderate, for testing the
   transforms.

   A graph is written as text, statement by statement. Each is tried before it is kept: on the values its operands
   have at the chosen point and at four points near it along the direction t. It stays only if its results are finite,
   moderate and, as far as finite differences can detect, smooth there; integers and bools must not change at all. So no
   kink is near the point.

   What finite differences cannot detect is treated separately. Values of single precision are tried in double, and must
   be nearly the same in single. The value of stop_gradient at the other points is its value at the chosen one. Extents
   may be a symbol, which is bound. */
#ifndef FLX_RANDOM_GRAPH_H
#define FLX_RANDOM_GRAPH_H

#include <fluxion/fluxion.h>
#include <stdbool.h>
#include <stdio.h>

enum { RANDOM_MAX_INPUTS = 24, RANDOM_POINTS = 5, RANDOM_MAX_VALUES = 160, RANDOM_TEXT = 16000 };

/* ---- A graph and where to look at it ---- */

typedef struct {
    char name[16];
    flx_tensor *x;     /* the point */
    flx_tensor *t, *u; /* two directions; NULL for an input without derivative */
    flx_tensor *other; /* another point, for batches; its values may be large */
} subject_input;

typedef struct {
    flx_context *ctx;
    const flx_graph *g; /* output 0 is the loss, f64[] */
    subject_input in[RANDOM_MAX_INPUTS];
    size_t n;
    flx_dim_binding dims[1]; /* of the symbol, where there is one */
    size_t num_dims;
    uint64_t seed; /* for whatever a law chooses at random */
} subject;

/* Of the contexts of subjects: all zero unless a program sets it. */
extern flx_context_options random_context_options;

/* A new context with the graph of the seed; false when the seed gives none. */
bool random_subject(subject *s, uint64_t seed, flx_module **module);
/* The same with few statements, most of them nested control flow. */
bool random_control_subject(subject *s, uint64_t seed, flx_module **module);
void random_subject_free(subject *s, flx_module *module);

/* x + h t, in double precision. */
flx_tensor *random_moved(const flx_tensor *x, const flx_tensor *t, double h);

/* Distances along t of the points at which values are known; the first is the point itself. */
extern const double random_steps[RANDOM_POINTS];

/* ---- While it is made ---- */

typedef struct {
    flx_type type;                 /* extents are numbers */
    flx_type text;                 /* the same as it is written, perhaps with symbols */
    flx_tensor *at[RANDOM_POINTS]; /* in double precision, whatever the dtype */
    flx_tensor *narrow;            /* at the point, in single precision; NULL where that makes no difference */
    double lo, hi;                 /* of all numbers at all points */
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
    int32_t real;       /* dtype of the operands of the current statement: f64, f32 or c128 */
    flx_dim extents[3]; /* those that shapes are made of; the first may be the symbol */
    int64_t symbol;     /* what the symbol is bound to */
    random_line draft;  /* graphs that only the statement being tried needs */
    FILE *graphs, *statements;
    bool prefers_control; /* half of the statements are nested control flow */
} random_maker;

void random_say(random_line *l, const char *fmt, ...) FLX_PRINTF(2, 3);
void random_say_ints(random_line *l, const int64_t *v, size_t n); /* "[1, 2]" */
void random_say_dims(random_line *l, const random_maker *m, const flx_dim *v, int n);
void random_say_type(random_line *l, const random_maker *m, const flx_type *t);
int random_below(random_maker *m, int n);                /* 0 … n - 1 */
int64_t random_extent(const random_maker *m, flx_dim d); /* as a number */

/* Tries `v<count>, … = expr` with that many results; true when they are now values. */
bool random_keep(random_maker *m, const char *expr, int results);

/* One statement of a random kind (random_ops.c); false when none was added. */
bool random_statement(random_maker *m);

/* ---- Families of statements, and shared functions (random_ops.c) ---- */

/* A value of the dtype with at least `rank` axes, as a rule a late one; -1 when there is none. */
int random_pick(random_maker *m, int32_t dtype, int rank);
/* One of m->real that broadcasts with x, or that has exactly its shape; x itself where no other is found. */
int random_pick_with(random_maker *m, int x);
int random_pick_like(random_maker *m, int x);
int random_any_axis(random_maker *m, int x);
const char *random_yes_no(random_maker *m);

/* Control flow and functions with bodies (random_bodies.c). */
bool random_if(random_maker *m);
bool random_scan(random_maker *m);
bool random_while(random_maker *m);
bool random_custom(random_maker *m);
bool random_map(random_maker *m);
/* Levels of control flow in one another (random_control.c). */
bool random_control(random_maker *m);
/* Scans that move elements (random_moves.c). */
bool random_moves(random_maker *m);

/* Complex numbers, single precision and stop_gradient (random_kinds.c). */
bool random_complex(random_maker *m);
bool random_to_complex(random_maker *m);
bool random_from_complex(random_maker *m);
bool random_precision(random_maker *m);
bool random_stop(random_maker *m);

#endif
