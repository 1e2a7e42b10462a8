/* SPDX-License-Identifier: Apache-2.0 */
/* law_values.h: shared by the laws: running a graph at a point, comparing its results, and choosing what is
   differentiated. */
#ifndef FLX_LAW_VALUES_H
#define FLX_LAW_VALUES_H

#include "laws.h"

enum { MAX_OUT = 24 };

/* ---- Running ---- */

/* Values of the inputs and of their tangents, by input of the subject. */
typedef struct {
    const flx_tensor *x[RANDOM_MAX_INPUTS];
    const flx_tensor *t[RANDOM_MAX_INPUTS];
} law_point;

law_point law_here(const subject *s, bool along_u); /* the point, and one of the directions */

/* The inputs of g are those of the subject and their tangents. */
bool law_run(const subject *s, const flx_graph *g, const law_point *p, flx_tensor **out, flx_error *err);

/* The values at a point, or at a step of h along t; false when they cannot be used: g does not run or they are not
   finite. */
bool law_values(const subject *s, const flx_graph *g, const law_point *p, flx_tensor **out);
bool law_values_at_step(const subject *s, const flx_graph *g, double h, flx_tensor **out);

void law_release(flx_tensor **out, size_t n);

/* Reports in `detail` what failed; returns false. */
bool law_broken(char *detail, const char *what, const flx_error *err);

/* ---- Arithmetic on tensors ---- */

/* The numbers of a tensor of any dtype; a complex one is two. */
typedef struct {
    flx_tensor *held;
    const double *p;
    int64_t n;
} numbers;

numbers law_numbers_of(const flx_tensor *t);                /* x.held is to be released */
double law_inner(const flx_tensor *a, const flx_tensor *b); /* Re <a, b> */
double law_largest(const flx_tensor *a);

/* How much of a tolerance for double a graph needs. */
double law_tolerance(const flx_graph *g, double in_double);
bool law_near(double a, double b, double tolerance, double size);
/* Elementwise, relative to the largest element; `detail` says what differs. */
bool law_near_tensors(const flx_tensor *a, const flx_tensor *b, double tolerance, char *detail, const char *what);
bool law_same_bits(flx_tensor *const *a, flx_tensor *const *b, size_t n, char *detail, const char *what);

/* ---- What is differentiated ---- */

typedef struct {
    const char *names[RANDOM_MAX_INPUTS];
    size_t input[RANDOM_MAX_INPUTS]; /* of the subject */
    size_t n;
} wrt_list;

wrt_list law_wrt(const subject *s);
bool law_has_loss(const subject *s);
/* Whether the laws of derivatives apply to the graph; its values in `out`. */
bool law_applies(const subject *s, const wrt_list *w, flx_tensor **out);
/* Verified; NULL with `detail`. */
flx_graph *law_gradient(const flx_graph *g, const wrt_list *w, char *detail);

/* ---- Laws of batches (batch_laws.c) ---- */

bool law_of_loops(const subject *s, char *detail);
bool law_of_sums(const subject *s, char *detail);

#endif
